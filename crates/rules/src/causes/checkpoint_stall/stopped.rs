//! Writers that were seen to stop, however old the checkpoint is when somebody looks.

use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::window::Series;
use spindoctor_model::{Window, window};

use crate::below::{Below, mean_seen};
use crate::sessions::mean;
use crate::stall::{HELD_UP, LATCH_WAITS, Look, Stall, nobody};
use crate::time_model::tables;

/// Counts the threads that were stopped until there was room in the log. It is off by default, and does not grow on a
/// server whose log is large enough.
pub(super) const STOPS: &str = "log_on_file_space_waits";

/// Functions that wait for room in the log, and for nothing else that sessions wait for in crowds.
const WAITS_FOR_ROOM: &[&str] = &[
    "log_free_check_wait",              // MySQL 8.0 and later
    "log_checkpoint_margin",            // before, and MariaDB
    "log_preflush_pool_modified_pages", // before
    "buf_flush_wait_flushed",           // MariaDB 10.5 and later
];

/// Beginnings of functions in which the threads of the log wait for room, and sessions whose redo they do not take for want of it (MySQL
/// 8.0 and later: log0write.cc, log0buf.cc).
const WAITS_WITHIN_LOG: [&str; 3] = ["log_writer_wait_on", "log_wait_for_space", "log_buffer_reserve"];

/// True for a profile in whose snapshots sessions wait, a queue of them on average, and no thread for room in the log.
fn waits_for_something_else(profile: &Profile) -> bool {
    let for_room = Below::such(profile, |names| {
        names.iter().any(|name| {
            WAITS_FOR_ROOM.contains(name) || WAITS_WITHIN_LOG.iter().any(|begin| name.starts_with(begin))
        })
    });
    let at_work = Below::new(profile, tables::STATEMENT);
    let waits = |one: &Observation| !matches!(one.state, ThreadState::Running | ThreadState::Runnable);
    mean_seen(profile, |one| at_work.has(one) && waits(one)) >= HELD_UP
        && !profile.observations.iter().any(|one| for_room.has(one))
}

/// Sessions that are blocked by the log alone.
const LOOK: Look = Look {
    does: &[],
    waits: |names| names.iter().any(|name| WAITS_FOR_ROOM.contains(name)),
    waits_beside: nobody,
};

/// Sessions that wait for a page, and the thread that writes one. A page that is written is latched until its changes are in the log
/// on disk and its copy is in the doublewrite buffer (MySQL: buf0flu.cc, buf_flush_page), and one that waits to change it
/// keeps all others from reading it.
const FLUSHED: Look = Look {
    does: &["buf_flush_page"],
    waits: nobody,
    waits_beside: |names| {
        names.contains(&"buf_page_get_gen") && names.iter().any(|name| LATCH_WAITS.contains(name))
    },
};

/// Share of the snapshots in which a page is being written from which on the disk is slow: one takes some microseconds.
const FLUSHES_RATIO: f64 = 0.3;

/// A log that is filled sooner than this is what pages are written for, whatever its age is when somebody looks: adaptive
/// flushing then has all of them written within a minute, and would otherwise leave most of them for many (an estimate; the
/// lab's stalls fill theirs in 3 to 20 s).
const FLUSHED_WITHIN_S: f64 = 60.0;

/// runs to the limit and back within a second.
#[derive(Debug, Clone, Default)]
pub(super) struct Stopped {
    /// Share of the times between two samples in which stops were counted; none where nothing counts them.
    counted_ratio: Option<f64>,
    /// Sessions in whose stacks it is seen; none where no stacks were taken, or they have no names.
    pub(super) seen: Option<Stall>,
    /// Those that wait for a page that is written, where they are enough to be a queue and the log is the reason.
    pub(super) behind_flushes: Option<Stall>,
    /// True where sessions are seen to wait, and no thread for room in the log: they wait for something else.
    waits_elsewhere: bool,
}

impl Stopped {
    pub(super) fn from_window(window: &Window, filled_in_s: f64) -> Self {
        let counts = window.all(|s| &s.server.innodb_metrics);
        let counts = counts.iter().filter_map(|&(at_s, metrics)| {
            let metric = metrics.get(STOPS).filter(|metric| metric.enabled)?;
            Some((at_s, metric.count))
        });
        let rates = window::rates(&counts.collect::<Series>());
        let grew = rates.iter().map(|&(_, per_s)| f64::from(u8::from(per_s > 0.0)));
        // Of one growth nobody knows whether it was a burst.
        let counted_ratio = (rates.len() > 1).then(|| mean(grew));
        let seen = |look| Stall::count(window, look).ok().flatten();
        let is_behind = |stall: &Stall| {
            filled_in_s <= FLUSHED_WITHIN_S && stall.matters() && stall.seen_ratio >= FLUSHES_RATIO
        };
        let seen_for_room = seen(LOOK);
        let waits_elsewhere =
            seen_for_room.is_some() && window.profile.value().is_some_and(waits_for_something_else);
        Self {
            counted_ratio,
            seen: seen_for_room,
            behind_flushes: seen(FLUSHED).filter(is_behind),
            waits_elsewhere,
        }
    }

    /// True where nobody was stopped by the log, as far as stops were counted and by what sessions wait for.
    pub(super) fn nobody(&self) -> bool {
        self.waits_elsewhere && self.counted() == 0.0 && self.queue_ratio().is_none()
    }

    /// Share of the samples that count as full by what was counted.
    pub(super) fn counted(&self) -> f64 {
        self.counted_ratio.unwrap_or_default()
    }

    /// Share of the sessions at work that wait for room or for a page that is written, where they are enough to be a queue.
    pub(super) fn queue_ratio(&self) -> Option<f64> {
        let for_room = self.seen.as_ref().filter(|stall| stall.matters());
        let queues: Vec<f64> =
            [for_room, self.behind_flushes.as_ref()].into_iter().flatten().map(Stall::ratio).collect();
        (!queues.is_empty()).then(|| queues.iter().sum::<f64>().min(1.0))
    }
}
