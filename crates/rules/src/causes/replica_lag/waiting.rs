//! Sessions that wait until the replica has a transaction or a position of its source: reads that are to see what was written there.

use spindoctor_model::{Evidence, Finding, TimeClass, TimeShare, Window};

use crate::time_model::{FEW, session_time};

/// Those of a window.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waiting {
    /// None where so few wait that it would be a warning at most.
    of_them: Option<TimeShare>,
    /// How many they are, on average.
    sessions: f64,
}

impl Waiting {
    pub(super) fn from_window(window: &Window) -> Self {
        let time = session_time(window);
        let at_work = time.as_ref().map_or(0.0, |time| time.session_seconds_per_second);
        let mut classes = time.into_iter().flat_map(|time| time.classes);
        let of_them = classes.find(|one| one.class == TimeClass::ReplicaWait && one.share * at_work >= FEW);
        let sessions = of_them.as_ref().map_or(0.0, |one| one.share * at_work);
        Self { of_them, sessions }
    }

    /// True where several sessions wait so.
    pub(super) fn is_for_it(&self) -> bool {
        self.of_them.is_some()
    }

    /// What a replica costs that costs so much of itself: their part of the session time, where that is more.
    pub(super) fn most(&self, score: f64) -> f64 {
        self.of_them.as_ref().map_or(score, |one| score.max(one.share))
    }

    /// The finding with who waits.
    pub(super) fn beside(&self, mut finding: Finding) -> Finding {
        let Some(one) = &self.of_them else { return finding };
        finding.headline += &format!("; {:.0} sessions wait until it has caught up", self.sessions);
        let share = Evidence::new("their share of the session time", one.share, "ratio", one.known_by.name());
        let sessions = Evidence::new("sessions that wait for it", self.sessions, "", one.known_by.name());
        finding.evidence.extend([sessions.expected("0"), share]);
        finding
    }
}
