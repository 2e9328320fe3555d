//! [`StallKind::Asked`](spindoctor_model::StallKind): what the user asked for with `--when`.
//!
//! The threads that the probe counts are checked ten times per second, and all else with each sample: commits, too, which not
//! every probe has, and `Questions`, of which some probes have `Queries` in place.

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Probe, RecordedSample};

use super::Sight;
use crate::condition::{Condition, Tracked};

/// Watches the user's conditions.
#[derive(Debug)]
pub(super) struct Asked {
    conditions: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    tracked: Tracked,
    holds: Option<Sight>,
    /// True where it has been said that it can never hold.
    is_refused: bool,
}

impl Asked {
    pub(super) fn new(conditions: Vec<Condition>) -> Self {
        let watched =
            |condition| Watched { tracked: Tracked::new(condition), holds: None, is_refused: false };
        Self { conditions: conditions.into_iter().map(watched).collect() }
    }

    /// Another start of the server: no rate across it.
    pub(super) fn begin_segment(&mut self) {
        for watched in &mut self.conditions {
            watched.tracked.forget();
            watched.holds = None;
        }
    }

    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        if probe.answered {
            let values = of_probe(probe);
            for watched in &mut self.conditions {
                if let Some(value) = values.number(watched.tracked.condition().name()) {
                    watched.check(probe.at_s, value);
                }
            }
        }
        self.sight()
    }

    pub(super) fn count(&mut self, recorded: &RecordedSample) -> Option<Sight> {
        let sample = &recorded.sample;
        let of_probe = of_probe(&EVERY_READING);
        for watched in &mut self.conditions {
            let condition = watched.tracked.condition();
            if of_probe.number(condition.name()).is_some() {
                continue;
            }
            let (at_s, value) = match (condition.is_of_host(), sample.server.status.timed()) {
                (true, _) => (sample.at_s, condition.of_host(&sample.host)),
                (false, Some((at_s, status))) => (at_s, status.number(condition.name())),
                (false, None) => continue,
            };
            match value {
                Some(value) => watched.check(at_s, value),
                None => watched.holds = None,
            }
        }
        self.sight()
    }

    /// Conditions on what this sample does not have though it was read, each with the reason, once.
    pub(super) fn never_hold(&mut self, recorded: &RecordedSample) -> Vec<String> {
        let (server, host) = (&recorded.sample.server, &recorded.sample.host);
        let of_probe = of_probe(&EVERY_READING);
        let lacks = |condition: &Condition| match (condition.is_of_host(), server.status.value()) {
            (true, _) => condition.of_host(host).is_none(),
            (false, Some(status)) => {
                status.number(condition.name()).is_none() && of_probe.number(condition.name()).is_none()
            }
            (false, None) => false,
        };
        let refused = self.conditions.iter_mut().filter(|watched| !watched.is_refused);
        refused
            .filter(|watched| lacks(watched.tracked.condition()))
            .map(|watched| {
                watched.is_refused = true;
                watched.tracked.condition().cannot_hold()
            })
            .collect()
    }

    fn sight(&self) -> Option<Sight> {
        self.conditions.iter().find_map(|watched| watched.holds.clone())
    }
}

impl Watched {
    fn check(&mut self, at_s: f64, value: f64) {
        match self.tracked.check(at_s, value) {
            Some(because) => {
                self.holds.get_or_insert(Sight { began_s: at_s, because });
            }
            None => self.holds = None,
        }
    }
}

/// A probe that has every reading that is checked, to list its names.
const EVERY_READING: Probe = Probe {
    at_s: 0.0,
    took_ms: 0.0,
    answered: true,
    failure: None,
    threads_running: Some(0),
    threads_connected: Some(0),
    questions: None,
    commits: None,
    checkpoint_age_bytes: None,
};

/// The probe's readings by the names that the server has for them: those that are the same of every server.
fn of_probe(probe: &Probe) -> NamedValues {
    let readings =
        [("Threads_running", probe.threads_running), ("Threads_connected", probe.threads_connected)];
    readings.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Reading, Sample};

    use super::*;

    fn asked(condition: &str) -> Asked {
        Asked::new(vec![condition.parse().unwrap()])
    }

    fn sample(at_s: f64, name: &str, value: u32) -> RecordedSample {
        let value = NamedValues::from_iter([(name, value.to_string())]);
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        RecordedSample { sample, ..RecordedSample::default() }
    }

    #[test]
    fn a_reading_of_the_probe_is_looked_at_with_each_probe_and_no_sample_takes_it_back() {
        let mut asked = asked("Threads_running > 50");
        let probe = |at_s, running| Probe { at_s, threads_running: Some(running), ..EVERY_READING };
        assert_eq!(asked.look(&probe(0.0, 50)), None);
        let seen = asked.look(&probe(0.1, 51)).unwrap();
        assert_eq!((seen.began_s, seen.because.as_str()), (0.1, "Threads_running > 50: it is 51"));
        assert!(asked.count(&sample(0.15, "Threads_running", 3)).is_some());
        assert!(asked.look(&Probe { answered: false, ..Probe::default() }).is_some());
        assert_eq!(asked.look(&probe(0.3, 2)), None);
    }

    #[test]
    fn a_rate_of_any_status_variable_is_looked_at_with_each_sample() {
        let mut asked = asked("Com_commit/s < 10");
        assert_eq!(asked.count(&sample(0.0, "Com_commit", 100)), None);
        assert_eq!(asked.count(&sample(1.0, "Com_commit", 200)), None);
        let seen = asked.count(&sample(2.0, "Com_commit", 205)).unwrap();
        assert_eq!(seen.because, "Com_commit/s < 10: it is 5");
        asked.begin_segment();
        assert_eq!(asked.count(&sample(0.0, "Com_commit", 3)), None);
    }

    #[test]
    fn statements_within_routines_that_probes_count_are_no_questions() {
        let mut asked = asked("Questions/s > 5000");
        for second in 0..10_u32 {
            let at_s = f64::from(second);
            assert_eq!(asked.count(&sample(at_s, "Questions", second * 1_000)), None);
            // Queries: thirty statements within each.
            let questions = Some(1_000_000_000 + u64::from(second) * 31_000);
            assert_eq!(asked.look(&Probe { at_s: at_s + 0.1, questions, ..EVERY_READING }), None);
        }
        assert!(asked.count(&sample(10.0, "Questions", 20_000)).is_some());
    }

    #[test]
    fn a_name_that_the_server_does_not_have_is_said_once() {
        let mut asked = asked("Thread_running > 5");
        let said = asked.never_hold(&sample(0.0, "Threads_running", 3));
        assert!(said[0].contains("no status variable Thread_running"), "{said:?}");
        assert_eq!(asked.never_hold(&sample(1.0, "Threads_running", 3)), Vec::<String>::new());
    }
}
