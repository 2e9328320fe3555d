//! Who was at work in what, second by second: the load of what is shown, of the baseline before and of the stall.

use spindoctor_model::RecordedSample;
use spindoctor_sessions::{Load, Reader};

use super::scope::Scope;

/// Bars that a picture of a thousand pixels has room for; twice as many are folded into these.
const MOST_BARS: usize = 120;

/// The loads of an incident.
#[derive(Debug, Clone)]
pub struct Loads {
    reader: Reader,
    /// Of all that the timeline shows.
    pub shown: Load,
    /// Of the baseline before.
    pub before: Load,
    /// Of the stall, or whatever time was asked for.
    pub during: Load,
}

impl Default for Loads {
    fn default() -> Self {
        let load = || Load::new(MOST_BARS);
        Self { reader: Reader::default(), shown: load(), before: load(), during: load() }
    }
}

impl Loads {
    /// Counts the next sample, in order of time.
    pub fn add(&mut self, scope: Scope, recorded: &RecordedSample) {
        let Some(list) = self.reader.read(recorded) else { return };
        let calm = scope.calm.filter(|calm| calm.contains(list.at));
        for (load, is_in) in [
            (&mut self.shown, scope.shown.contains(list.at)),
            (&mut self.before, calm.is_some()),
            (&mut self.during, scope.stall.contains(list.at)),
        ] {
            if is_in {
                load.add(&list);
            }
        }
    }

    /// The load that the table is of, and what its time is called: a stall may be over before sessions were listed in it.
    pub fn table(&self) -> (&Load, &'static str) {
        match self.during.lists() {
            0 => (&self.shown, "in all that is shown"),
            _ => (&self.during, "during"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::examples;

    #[test]
    fn each_list_counts_for_the_times_that_it_lies_in() {
        let incident = examples::pileup();
        let loads = &incident.loads;
        assert_eq!(loads.during.lists(), 3, "09:30:01 to 09:30:03");
        assert!(loads.before.lists() > 100 && loads.before.sessions() < 20.0);
        assert_eq!(loads.shown.lists(), 25, "09:29:45 to 09:30:09");
        let (load, when) = loads.table();
        assert_eq!((load.lists(), when), (3, "during"));
        let short = Loads { during: Load::new(1), ..loads.clone() };
        assert_eq!(short.table().1, "in all that is shown");
    }

    #[test]
    fn a_stall_has_its_class_and_its_statement_first() {
        let incident = examples::pileup();
        let during = &incident.loads.during;
        assert_eq!(during.classes()[0].0, spindoctor_model::TimeClass::MetadataLock);
        assert_eq!(during.statements()[0].text, "SELECT c FROM sbtest1 WHERE id = ?");
        let highest = incident
            .loads
            .shown
            .bars()
            .iter()
            .map(spindoctor_sessions::Bar::all_sessions)
            .fold(0.0, f64::max);
        assert!(highest > 100.0, "{highest}");
    }
}
