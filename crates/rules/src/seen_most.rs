//! The statement that is at work in the most lists of threads.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::Window;
use spindoctor_model::mysql::ServerThread;

use crate::sessions;
use crate::time_model::InnodbLocks;

/// Part of the window through which one execution must go on, to be one that runs on: half, so that it began before it or takes
/// most of it. Chosen, not derived.
const RUNS_ON_RATIO: f64 = 0.5;

/// A statement that is at work in many samples.
pub(crate) struct SeenMost<'w> {
    /// Its text, literals taken out.
    pub(crate) statement: String,
    /// The session whose execution of it has gone on longest, where that is half of the window.
    pub(crate) longest: Option<&'w ServerThread>,
    /// That one, where no other session was seen to run the statement.
    pub(crate) runs_on: Option<&'w ServerThread>,
}

impl<'w> SeenMost<'w> {
    /// Share of the samples in which a statement must be seen to be named.
    pub(crate) const NAMED_RATIO: f64 = 0.25;

    /// The one that is at work in the most samples, and in that share at least. Who waits for a lock does not read meanwhile.
    pub(crate) fn from_window(window: &'w Window, ratio: f64) -> Option<Self> {
        let lists: Vec<_> = window
            .samples
            .iter()
            .filter_map(|sample| Some((InnodbLocks::from_sample(sample), sample.server.threads.value()?)))
            .collect();
        let mut seen: BTreeMap<String, Vec<(usize, &'w ServerThread)>> = BTreeMap::new();
        for (at, (locks, threads)) in lists.iter().enumerate() {
            let waits = |thread: &ServerThread| {
                thread.state.to_ascii_lowercase().starts_with("waiting")
                    || thread.connection_id.is_some_and(|id| locks.wanted_by(id).is_some())
            };
            let running = sessions::at_work(threads).filter(|thread| !waits(thread));
            for thread in running {
                let text =
                    thread.statement.as_deref().filter(|text| !spindoctor_sql::is_about_the_server("", text));
                let Some(text) = text else { continue };
                seen.entry(spindoctor_sql::digest(text)).or_default().push((at, thread));
            }
        }
        let samples = |threads: &[(usize, &ServerThread)]| {
            threads.iter().map(|(at, _)| at).collect::<BTreeSet<_>>().len()
        };
        let (statement, threads) = seen.into_iter().max_by_key(|(_, threads)| samples(threads))?;
        let seen = samples(&threads);
        let (_, longest) = *threads.iter().max_by(|(_, a), (_, b)| a.time_s.total_cmp(&b.time_s))?;
        let is_alone = threads.iter().all(|(_, thread)| thread.connection_id == longest.connection_id);
        let longest = (longest.time_s >= RUNS_ON_RATIO * window.seconds()).then_some(longest);
        let runs_on = longest.filter(|_| is_alone);
        (seen >= 2 && seen as f64 >= ratio * lists.len() as f64).then_some(Self {
            statement,
            longest,
            runs_on,
        })
    }
}
