//! How many sessions wait for rows, for how long, and whether that is a queue.

use std::collections::BTreeSet;

use spindoctor_model::mysql::{RowLockWait, ServerSample, Transaction};
use spindoctor_model::window::Series;
use spindoctor_model::{Sample, Unavailable, Window};

use crate::rank::WARNING_FROM;
use crate::row_lock_time;
use crate::sessions::{Waiting, mean};

/// Sessions waiting on average, below which two clients meet now and then.
const WAITERS: f64 = 0.5;

/// The same by the time that InnoDB counts: it misses no wait, where a list once a second sees few of the short ones, so that less of it
/// is no chance. The few that are at work wait for each other.
const WAITERS_COUNTED: f64 = 0.25;

/// Sessions waiting on average that are a queue even where nobody knows how many are at work, and whatever one of them waits for.
const QUEUE: f64 = 2.0;

/// Share of the sessions at work that wait, as of any other wait that is worth a warning.
pub(super) const WAITING_RATIO: f64 = WARNING_FROM;

/// A single wait of this length is no short meeting: a tenth of the default innodb_lock_wait_timeout.
pub(super) const LONG_WAIT_S: f64 = 5.0;

/// A single long wait is worth a warning at most: one client is blocked, not the server.
const SINGLE_WAIT_SCORE: f64 = 0.15;

/// The sessions that wait, where they are enough, or one waits for long.
pub(super) struct Queue<'w> {
    /// The samples that show how many wait.
    pub(super) samples: Vec<&'w Sample>,
    /// How many wait in each.
    pub(super) series: Series,
    /// Their mean number, or what the time that InnoDB counts comes to where that is more.
    pub(super) mean: f64,
    /// Their share of the sessions at work.
    pub(super) ratio: f64,
    /// The longest wait; 0 where none has its length.
    pub(super) longest_s: f64,
    /// A single wait is long.
    pub(super) is_long: bool,
    /// From how many on they are a queue here.
    pub(super) least: f64,
    /// They are a queue, and not a single long wait.
    pub(super) is_queue: bool,
}

impl<'w> Queue<'w> {
    /// None where nobody waits for long, and too few wait.
    pub(super) fn from_window(window: &'w Window) -> Result<Option<Self>, Unavailable> {
        let waiting = waiting(window)?;
        let series: Series = waiting.iter().map(|&(sample, waiters)| (sample.at_s, waiters)).collect();
        let listed = mean(series.iter().map(|&(_, waiters)| waiters));
        let counted = row_lock_time::counted(window).unwrap_or(0.0);
        let mean = listed.max(counted);
        let at_work = at_work(window);
        let ratio = mean / at_work.unwrap_or(mean).max(mean).max(1.0);
        let longest_s = longest_s(window);
        // Who gives one wait without its length gives it because it was long.
        let is_long = longest_s >= LONG_WAIT_S || longest_s == 0.0 && window.is_given();
        let single = mean >= WAITERS && is_long;
        let least = match (single || at_work.is_none(), counted >= WAITERS_COUNTED) {
            (true, _) => QUEUE,
            (false, true) => WAITERS_COUNTED,
            (false, false) => WAITERS,
        };
        let is_queue = mean >= least && ratio >= WAITING_RATIO;
        let samples = waiting.into_iter().map(|(sample, _)| sample).collect();
        let queue = Self { samples, series, mean, ratio, longest_s, is_long, least, is_queue };
        Ok((is_queue || single).then_some(queue))
    }

    pub(super) fn score(&self) -> f64 {
        if self.is_queue { self.ratio } else { self.ratio.min(SINGLE_WAIT_SCORE) }
    }

    /// The last sample that shows how many wait.
    pub(super) fn last(&self) -> Option<&'w Sample> {
        self.samples.last().copied()
    }
}

/// The samples that show how many wait, with how many: by the lists, and where there are none by the gauge. The gauge of a sample
/// without lists is of another moment than those that were looked at.
fn waiting(window: &Window) -> Result<Vec<(&Sample, f64)>, Unavailable> {
    let each = |waiters: fn(&ServerSample) -> Option<f64>| -> Vec<(&Sample, f64)> {
        window.samples.iter().filter_map(|sample| Some((sample, waiters(&sample.server)?))).collect()
    };
    let by_lists = each(listed);
    let waiting = if by_lists.is_empty() { each(gauge) } else { by_lists };
    if waiting.is_empty() {
        return Err(window
            .missing(|s| &s.server.row_lock_waits)
            .unwrap_or_else(|| Unavailable::because("no source shows who waits for row locks")));
    }
    Ok(waiting)
}

/// Sessions at work, those that wait among them; none where nobody counts them.
fn at_work(window: &Window) -> Option<f64> {
    let running = || {
        let running = window.status_series("Threads_running");
        // The session that asks is one of them.
        (!running.is_empty()).then(|| (mean(running.iter().map(|&(_, running)| running)) - 1.0).max(0.0))
    };
    Waiting::count(window, |_| false).map(|all| all.at_work_mean).ok().or_else(running)
}

fn longest_s(window: &Window) -> f64 {
    let lists = window.samples.iter().filter_map(|sample| sample.server.row_lock_waits.value());
    lists.flatten().map(|wait| wait.waited_s).fold(0.0, f64::max)
}

/// Sessions that wait for a row lock in one sample, as the lists show them; None where none was read.
fn listed(server: &ServerSample) -> Option<f64> {
    let all = || server.row_lock_waits.value().into_iter().flatten();
    let waits =
        server.row_lock_waits.value().map(|_| distinct_waiters(all().filter(|wait| !is_for_a_counter(wait))));
    let counters: BTreeSet<&String> =
        all().filter(|wait| is_for_a_counter(wait)).map(|wait| &wait.waiting_transaction).collect();
    let in_lock_wait = server.transactions.value().map(|transactions| {
        let wants_a_row = |t: &&Transaction| !counters.contains(&t.id) && !t.wants_a_table();
        transactions.iter().filter(|t| t.state == "LOCK WAIT").filter(wants_a_row).count()
    });
    waits.max(in_lock_wait).map(|waiters| waiters as f64)
}

/// The same as counted by the server. A gauge that went below zero is no answer (it wraps around in some versions).
fn gauge(server: &ServerSample) -> Option<f64> {
    let waits = server.status.value()?.number("Innodb_row_lock_current_waits")?;
    (waits < 1e6).then_some(waits)
}

/// A wait for a table's AUTO_INCREMENT counter is another cause's.
fn is_for_a_counter(wait: &RowLockWait) -> bool {
    wait.mode.starts_with("AUTO_INC")
}

fn distinct_waiters<'w>(waits: impl Iterator<Item = &'w RowLockWait>) -> usize {
    waits.map(|wait| &wait.waiting_transaction).collect::<BTreeSet<_>>().len()
}
