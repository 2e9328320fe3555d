//! The load of a span as it is shown: which classes stand above each other, in which colours, and what it rests on.

use anstyle::Style;
use spindoctor_model::TimeClass;
use spindoctor_sessions::Load;

use super::session_time;
use spindoctor_page::number;

/// Classes that have a colour of their own; what is smaller is one.
pub const SHOWN: usize = 6;

/// A class with a smaller part of the sessions is folded into the rest.
const SMALLEST: f64 = 0.01;

/// Fewer that sleep on purpose are not worth a word.
const LEAST_ASLEEP: f64 = 0.05;

/// A class that is shown, or the rest of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// The class; none for the rest.
    pub class: Option<TimeClass>,
    /// Sessions in it, on average over the span.
    pub sessions: f64,
}

impl Layer {
    /// `row lock`
    pub fn label(&self) -> &'static str {
        self.class.map_or("other classes", TimeClass::label)
    }

    /// Its colour on a page.
    pub fn hex(&self) -> &'static str {
        session_time::hex(self.class)
    }

    /// Its style on a terminal.
    pub fn style(&self) -> Style {
        session_time::style(self.class)
    }
}

/// The layers of a span, from the bottom: what may run, as it is compared with the CPUs, then the waits, the most first, then
/// the rest.
pub fn layers(load: &Load, most: usize) -> Vec<Layer> {
    let all = load.sessions();
    let mut shown = Vec::new();
    let mut rest = 0.0;
    for (at, (class, sessions)) in load.classes().into_iter().enumerate() {
        match at < most && sessions >= SMALLEST * all {
            true => shown.push(Layer { class: Some(class), sessions }),
            false => rest += sessions,
        }
    }
    // The sort keeps the order of the others.
    shown.sort_by_key(|layer| layer.class != Some(TimeClass::Running));
    if rest > 0.0 && rest >= SMALLEST * all {
        shown.push(Layer { class: None, sessions: rest });
    }
    shown
}

/// The sessions of a layer: those of its class; of the rest, `in_all` less those of the other layers.
pub fn in_layer(layers: &[Layer], layer: &Layer, in_class: impl Fn(TimeClass) -> f64, in_all: f64) -> f64 {
    match layer.class {
        Some(class) => in_class(class),
        None => {
            let named: f64 = layers.iter().filter_map(|layer| layer.class).map(in_class).sum();
            (in_all - named).max(0.0)
        }
    }
}

/// How many sessions, on average: `0.25`, `4.1`, `212`; an empty text for none.
pub fn sessions(sessions: f64) -> String {
    match sessions {
        // What is left of sums is none.
        none if none < 1e-6 => String::new(),
        hardly if hardly < 0.005 => "<0.01".to_owned(),
        few if few < 1.0 => format!("{few:.2}"),
        some if some < 100.0 => format!("{some:.1}"),
        many => number::plain(many.round()),
    }
}

/// `12.1 on average, 1.4 of 2 CPUs used`: sessions at work.
pub fn averages(load: &Load) -> String {
    let at_work = load.sessions();
    let sleeping = match load.sleeping() {
        none if none < LEAST_ASLEEP => String::new(),
        some => format!(", {} more in SLEEP()", sessions(some)),
    };
    let cpus = match (load.cpus_used(), load.cpus_granted()) {
        (Some(used), Some(granted)) => {
            format!(", {used:.1} of {} used", number::quantity(granted, "CPUs"))
        }
        (Some(used), None) => format!(", {used:.1} CPUs used"),
        (None, _) => String::new(),
    };
    format!("{at_work:.1} on average{cpus}{sleeping}")
}

/// What the load was computed from, and what it cannot show, in sentences.
pub fn stands_on(load: &Load) -> String {
    let lists = number::counted(load.lists(), "list of sessions", "lists of sessions");
    let seen = number::counted(load.sightings(), "sighting", "sightings");
    let mut text = format!("{lists} in {}, {seen}.", number::duration(load.seconds().round()));
    let classes = load.classes();
    let has = |class| classes.iter().any(|(one, _)| *one == class);
    if has(TimeClass::Running) {
        text += " Running: on a CPU, ready for one, or in a wait without a state, as for a latch or a page.";
    }
    if has(TimeClass::Other) {
        let states = load.unnamed();
        if !states.is_empty() {
            text += &format!(" Other: {}.", states[..states.len().min(3)].join(", "));
        }
    }
    if load.without_lock_waits() > 0 {
        let lists = number::counted(load.without_lock_waits(), "list", "lists");
        text += &format!(
            " For {lists} InnoDB's transactions were not read: who waits for a row lock counts as running there."
        );
    }
    text
}

/// A load for tests.
#[cfg(test)]
pub mod examples {
    use jiff::{SignedDuration, Timestamp};
    use spindoctor_model::KnownBy;
    use spindoctor_sessions::{AtWork, Sightings};

    use super::{Load, TimeClass};

    /// A list that stands for the second before it.
    pub fn list(at: Timestamp, sightings: &[(TimeClass, &str, f64)]) -> AtWork {
        let seen = |&(class, statement, sessions): &(TimeClass, &str, f64)| Sightings {
            class,
            known_by: KnownBy::List,
            statement: statement.to_owned(),
            sessions,
            state: if class == TimeClass::Other { "Waiting for it" } else { "" }.to_owned(),
        };
        AtWork {
            at,
            segment: 1,
            seconds: 1.0,
            sightings: sightings.iter().map(seen).collect(),
            sleeping: 0.0,
            cpus_used: Some(1.5),
            cpus_granted: Some(2.0),
            has_lock_waits: true,
        }
    }

    /// Four seconds in which eight sessions wait for a row, and two run.
    pub fn pileup() -> Load {
        let update = "UPDATE stock SET k = k + ? WHERE id = ?";
        let always = [(TimeClass::RowLock, update, 8.0), (TimeClass::Running, "SELECT c FROM stock", 2.0)];
        let lists = (0..4).map(|second| {
            let mut all = always.to_vec();
            if second == 2 {
                all.push((TimeClass::Other, "COMMIT", 2.0));
            }
            list(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second), &all)
        });
        Load::from_lists(&lists.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_is_the_lowest_layer_and_small_classes_are_one() {
        let load = examples::pileup();
        let labels: Vec<(&str, String)> =
            layers(&load, 2).iter().map(|layer| (layer.label(), sessions(layer.sessions))).collect();
        assert_eq!(
            labels,
            [("running", "2.0".into()), ("row lock", "8.0".into()), ("other classes", "0.50".into())]
        );
        assert_eq!([0.0, 0.001, 0.25, 4.08, 212.4].map(sessions), ["", "<0.01", "0.25", "4.1", "212"]);
        assert_eq!(averages(&load), "10.5 on average, 1.5 of 2 CPUs used");
        let text = stands_on(&load);
        assert!(text.starts_with("4 lists of sessions in 4 s, 42 sightings. Running: on"), "{text}");
        assert!(text.contains("Other: Waiting for it.") && !text.contains("InnoDB"), "{text}");
    }

    #[test]
    fn of_nothing_there_is_no_layer() {
        assert!(layers(&Load::new(9), SHOWN).is_empty());
        assert_eq!(averages(&Load::new(9)), "0.0 on average");
    }
}
