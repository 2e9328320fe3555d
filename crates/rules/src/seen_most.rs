//! The statement that is at work in the most lists of threads.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Remedy, Window, number};

use crate::time_model::InnodbLocks;
use crate::{comes_back, sessions};

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
    /// How many sessions run it in each list, where all are runs of an event of the scheduler, and overlap.
    event_runs: Option<Series>,
}

impl<'w> SeenMost<'w> {
    /// Share of the samples in which a statement must be seen to be named.
    pub(crate) const NAMED_RATIO: f64 = 0.25;

    /// The one that is at work in the most samples, and in that share at least. Who waits for a lock does not read meanwhile.
    pub(crate) fn from_window(window: &'w Window, ratio: f64) -> Option<Self> {
        let lists: Vec<_> = window
            .samples
            .iter()
            .filter_map(|sample| {
                Some((sample.at_s, InnodbLocks::from_sample(sample), sample.server.threads.value()?))
            })
            .collect();
        let mut seen: BTreeMap<String, Vec<(usize, &'w ServerThread)>> = BTreeMap::new();
        for (at, (_, locks, threads)) in lists.iter().enumerate() {
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
        let of_list =
            |at: usize| threads.iter().filter(move |(seen_at, _)| *seen_at == at).map(|(_, thread)| *thread);
        let are_runs = threads.iter().all(|(_, thread)| comes_back::is_run_of_event(thread));
        let overlap = are_runs && (0..lists.len()).any(|at| comes_back::overlap(of_list(at)));
        let event_runs = overlap.then(|| -> Series {
            let runs = lists.iter().enumerate();
            runs.map(|(at, (at_s, ..))| (*at_s, of_list(at).count() as f64)).collect()
        });
        (seen >= 2 && seen as f64 >= ratio * lists.len() as f64).then_some(Self {
            statement,
            longest,
            runs_on,
            event_runs,
        })
    }

    /// True where those who run it are runs of an event that overlap.
    pub(crate) fn is_of_event(&self) -> bool {
        self.event_runs.is_some()
    }

    /// Behind the statement in a headline: that runs of an event overlap.
    pub(crate) fn in_runs_of_event(&self) -> &'static str {
        if self.is_of_event() { ", in runs of an event of the scheduler" } else { "" }
    }

    /// A sentence about runs of an event that overlap.
    pub(crate) fn overlap(&self) -> Option<String> {
        let runs = self.event_runs.as_ref()?;
        let ((_, first), (_, last)) = (runs.first()?, runs.last()?);
        Some(format!(
            " Its sessions are runs of an event of the scheduler, which starts one though the last has not ended: {} at once in the first \
             list of threads, {} in the last.",
            number::plain(*first),
            number::plain(*last)
        ))
    }

    /// How many runs of an event there are at once.
    pub(crate) fn runs_at_once(&self) -> Option<Evidence> {
        let runs = self.event_runs.clone()?;
        let most = runs.iter().map(|&(_, at_once)| at_once).fold(0.0, f64::max);
        Some(Evidence::new("runs of an event at once", most, "", "thread list").expected("< 2").series(runs))
    }

    /// What keeps the scheduler from starting the next run: who only ends one has the next at once.
    pub(crate) fn disable_event(&self) -> Option<Remedy> {
        self.is_of_event().then(|| comes_back::disable(&self.statement))
    }
}
