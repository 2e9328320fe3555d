//! Threads that estimate ranges before they run a statement, by their stacks.
//!
//! In: a profile whose threads know what they did for their clients. Out: how many threads inside a statement were
//! estimating, and how many of these looked ranges up in an index; the same for the CPU samples. Pure.

use std::collections::HashMap;

use spindoctor_model::stack::Observation;
use spindoctor_model::{Profile, Window};

use crate::sessions::at_work;
use crate::spin_samples;

/// What an estimate runs in: the server's call for all ranges of an index, and the engine's for one; of a table with partitions too.
pub(crate) const DIVES: &[&str] = &[
    "handler::multi_range_read_info_const",
    "ha_partition::multi_range_read_info_const",
    "ha_innobase::records_in_range",
    "ha_innopart::records_in_range",
    "ha_partition::records_in_range",
    "btr_estimate_n_rows_in_range",
    "btr_estimate_n_rows_in_range_low",
];

/// The range optimizer (sql/range_optimizer/range_optimizer.cc, sql/opt_range.cc; MariaDB's is a method).
const ESTIMATING: &[&str] = &["test_quick_select", "SQL_SELECT::test_quick_select"];

/// Sightings of statements at work below which they say nothing of those that were not seen. Chosen.
const SIGHTINGS: usize = 20;

/// True where a statement that was seen at work has a list of values, which `eq_range_index_dive_limit` is about. None where none has
/// and few were seen.
pub(crate) fn lists_values(window: &Window) -> Option<bool> {
    let lists = window.all(|sample| &sample.server.threads);
    let statements = lists.iter().flat_map(|(_, threads)| at_work(threads)).filter_map(|thread| {
        thread.statement.as_deref().filter(|text| !spindoctor_sql::is_about_the_server("", text))
    });
    let has_list = |text: &str| {
        let text = spindoctor_sql::digest(text).to_ascii_uppercase();
        text.contains(" IN (") || text.contains(" OR ")
    };
    let seen: Vec<bool> = statements.map(has_list).collect();
    match seen.contains(&true) {
        true => Some(true),
        false => (seen.len() >= SIGHTINGS).then_some(false),
    }
}

/// Threads that were seen inside statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InStatements {
    /// In all.
    pub inside: u64,
    /// Of these, below the range optimizer.
    pub estimating: u64,
    /// Of these, looking ranges up.
    pub diving: u64,
}

/// What the stacks of a profile say of estimates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Estimating {
    /// Snapshots.
    pub snapshots: u64,
    /// Of all statements.
    pub all: InStatements,
    /// By the statement without its literals, where it is known.
    pub by_digest: HashMap<String, InStatements>,
    /// CPU samples, and how many of them lie in dives.
    pub cpu_samples: u64,
    /// Those of them that lie in dives.
    pub cpu_in_dives: u64,
}

impl Estimating {
    /// The statement of which most were seen in dives, where the threads' statements are known.
    pub(crate) fn most_diving(&self) -> Option<&str> {
        let diving = self.by_digest.iter().filter(|(_, seen)| seen.diving > 0);
        diving.max_by_key(|(text, seen)| (seen.diving, *text)).map(|(text, _)| text.as_str())
    }

    /// Of a profile.
    pub fn from_profile(profile: &Profile) -> Self {
        let mut found = Self { snapshots: profile.snapshots.len() as u64, ..Self::default() };
        for seen in &profile.observations {
            let one = look(profile, seen);
            if one.inside == 0 {
                continue;
            }
            found.all.add(one);
            let activity = seen.activity.and_then(|place| profile.activities.get(place as usize));
            if let Some(digest) = activity.and_then(|activity| activity.digest_text.clone()) {
                found.by_digest.entry(digest).or_default().add(one);
            }
        }
        for sample in &profile.cpu_samples {
            found.cpu_samples += 1;
            found.cpu_in_dives += look(profile, sample).diving;
        }
        found
    }
}

impl InStatements {
    fn add(&mut self, other: Self) {
        self.inside += other.inside;
        self.estimating += other.estimating;
        self.diving += other.diving;
    }
}

/// One observation. A dive lies below the range optimizer, whether or not that one's name is known.
fn look(profile: &Profile, seen: &Observation) -> InStatements {
    let (mut inside, mut estimating, mut diving) = (false, false, false);
    for name in spin_samples::names(profile, seen) {
        inside |= name == "dispatch_command";
        estimating |= ESTIMATING.contains(&name);
        diving |= DIVES.contains(&name);
    }
    InStatements { inside: inside.into(), estimating: (estimating || diving).into(), diving: diving.into() }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{Activity, Frame, SnapshotCost, Stack, StackEnd};

    use super::*;

    #[test]
    fn threads_below_the_range_optimizer_are_counted_by_their_statement() {
        let frame = |name: &str| Frame { name: name.to_owned(), ..Frame::default() };
        let stack = |frames: &[u32]| Stack { frames: frames.to_vec(), end: StackEnd::Root };
        let seen = |stack, activity| Observation { stack, activity, ..Observation::default() };
        let profile = Profile {
            frames: ["btr_estimate_n_rows_in_range_low", "test_quick_select", "dispatch_command", "poll"]
                .map(frame)
                .into(),
            // In a dive, in the range optimizer, executing, at rest.
            stacks: vec![stack(&[0, 1, 2]), stack(&[1, 2]), stack(&[2]), stack(&[3])],
            activities: vec![Activity { digest_text: Some("SELECT ...".into()), ..Activity::default() }],
            snapshots: vec![SnapshotCost::default(); 2],
            observations: vec![
                seen(0, Some(0)),
                seen(1, Some(0)),
                seen(2, Some(0)),
                seen(3, Some(0)),
                seen(2, None),
            ],
            cpu_samples: vec![seen(0, None), seen(2, None)],
            ..Profile::default()
        };
        let found = Estimating::from_profile(&profile);
        assert_eq!(found.all, InStatements { inside: 4, estimating: 2, diving: 1 });
        assert_eq!(found.by_digest["SELECT ..."], InStatements { inside: 3, estimating: 2, diving: 1 });
        assert_eq!(found.most_diving(), Some("SELECT ..."));
        assert_eq!((found.snapshots, found.cpu_samples, found.cpu_in_dives), (2, 2, 1));
        assert_eq!(Estimating::from_profile(&Profile::default()), Estimating::default());
    }
}
