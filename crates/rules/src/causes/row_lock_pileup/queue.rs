//! How many sessions wait for rows, for how long, and whether that is a queue.

use std::collections::BTreeSet;

use spindoctor_model::mysql::{RowLockWait, ServerSample, Transaction};
use spindoctor_model::window::Series;
use spindoctor_model::{Sample, TimeClass, Unavailable, Window};

use crate::rank::WARNING_FROM;
use crate::row_lock_time;
use crate::sessions::{Waiting, mean};
use crate::time_model::{session_time, share_of};

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

/// Waits of less than this are over before the next list, seconds: whether a list meets them is chance, and InnoDB's count of their time
/// is not. Lists have whole seconds.
const SHORT_WAIT_S: f64 = 1.0;

/// Part of those that wait whom the account of session time must have, to say which share they are: it may have no word for the wait.
/// Chosen.
const IN_ACCOUNT: f64 = 0.5;

/// The sessions that wait, where they are enough, or one waits for long.
pub(super) struct Queue<'w> {
    /// The samples that show how many wait.
    pub(super) samples: Vec<&'w Sample>,
    /// How many wait in each.
    pub(super) series: Series,
    /// Their mean number, or what the time that InnoDB counts comes to where that is more, or where all waits are short.
    pub(super) mean: f64,
    /// Their share of the sessions at work, of one session where fewer are.
    ratio: f64,
    /// The same of those that there are, as the account of session time has it where it knows them.
    pub(super) share: f64,
    /// Where that is from.
    pub(super) share_source: &'static str,
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
        let longest_s = longest_s(window);
        let is_met_by_chance = counted >= WAITERS_COUNTED
            && longest_known_s(window).is_some_and(|longest_s| longest_s < SHORT_WAIT_S);
        let mean = if is_met_by_chance { counted } else { listed.max(counted) };
        let at_work = at_work(window);
        let ratio = mean / at_work.unwrap_or(mean).max(mean).max(1.0);
        // Who gives one wait without its length gives it because it was long.
        let is_long = longest_s >= LONG_WAIT_S || longest_s == 0.0 && window.is_given();
        let single = mean >= WAITERS && is_long;
        let least = match (single || at_work.is_none(), counted >= WAITERS_COUNTED) {
            (true, _) => QUEUE,
            (false, true) => WAITERS_COUNTED,
            (false, false) => WAITERS,
        };
        let is_queue = mean >= least && ratio >= WAITING_RATIO;
        if !is_queue && !single {
            return Ok(None);
        }
        let samples = waiting.into_iter().map(|(sample, _)| sample).collect();
        let (share, share_source) = match in_account(window, mean) {
            Some(share) => (share, "session time"),
            None => (ratio, "thread list"),
        };
        Ok(Some(Self {
            samples,
            series,
            mean,
            ratio,
            share,
            share_source,
            longest_s,
            is_long,
            least,
            is_queue,
        }))
    }

    /// True where a wait lasts for so long, or nothing says how long they last. Where no list was read, their number by how many begin
    /// a second is their mean length.
    pub(super) fn may_last(&self, window: &Window, seconds: f64) -> bool {
        match longest_known_s(window) {
            // Who captured a list may have left out how long they wait.
            Some(0.0) if window.is_given() => true,
            Some(longest_s) => longest_s >= seconds,
            None => {
                let begun = window.status_per_s("Innodb_row_lock_waits");
                begun.is_none_or(|per_s| self.mean >= seconds * per_s)
            }
        }
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

/// The share of the session time that the account has in row locks, where it has so many sessions there.
fn in_account(window: &Window, mean: f64) -> Option<f64> {
    let time = if window.is_given() { None } else { session_time(window) }?;
    let share = share_of(&time, TimeClass::RowLock);
    (share * time.session_seconds_per_second >= IN_ACCOUNT * mean).then_some(share)
}

/// The longest wait that either list shows, 0 where they show none; None where no list was read.
fn longest_known_s(window: &Window) -> Option<f64> {
    let servers = || window.samples.iter().map(|sample| &sample.server);
    let is_read = |server: &ServerSample| {
        server.row_lock_waits.value().is_some() || server.transactions.value().is_some()
    };
    let transactions = servers().filter_map(|server| server.transactions.value()).flatten();
    let waiting = transactions.filter(|one| one.state == "LOCK WAIT" && !one.wants_a_table());
    let longest_s = waiting.filter_map(|one| one.waited_s).fold(longest_s(window), f64::max);
    servers().any(is_read).then_some(longest_s)
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
pub(super) fn is_for_a_counter(wait: &RowLockWait) -> bool {
    wait.mode.starts_with("AUTO_INC")
}

fn distinct_waiters<'w>(waits: impl Iterator<Item = &'w RowLockWait>) -> usize {
    waits.map(|wait| &wait.waiting_transaction).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::{Build, answer, session};

    const WAITS: &[&str] = &["lock_wait_suspend_thread", "row_search_mvcc", "dispatch_command"];
    const RESTS: &[&str] = &["vio_read", "do_command"];

    fn queue(window: &Window) -> Queue<'_> {
        Queue::from_window(window).unwrap().expect("a queue")
    }

    /// Each list meets so many that wait, all for less than a second, where InnoDB counts 0.4 sessions.
    fn met_by_chance(waiters: u64) -> Window {
        Build::busy("9.7.4")
            .counter("Innodb_row_lock_waits", 2.0)
            .counter("Innodb_row_lock_time", 400.0)
            .sessions(move |_| {
                (20..20 + waiters)
                    .map(|id| session(id, "Query", "update", "INSERT INTO t VALUES (1)"))
                    .collect()
            })
            .each(move |at_s, server, _| {
                let wait = |waiting: u64| RowLockWait {
                    waiting_connection_id: Some(waiting),
                    waiting_transaction: waiting.to_string(),
                    ..RowLockWait::default()
                };
                server.row_lock_waits = answer(at_s, (20..20 + waiters).map(wait).collect());
            })
            .only_snapshots(&[(1, ThreadState::Lock, WAITS), (9, ThreadState::NetworkIdle, RESTS)])
            .window()
    }

    #[test]
    fn of_waits_that_lists_meet_by_chance_the_count_of_their_time_says_how_many_they_are() {
        let window = met_by_chance(3);
        assert!((queue(&window).mean - 0.4).abs() < 1e-9, "{}", queue(&window).mean);
        assert!(!queue(&window).may_last(&window, 5.0));
        // Those that wait for longer are met.
        let mut long = window.clone();
        for sample in &mut long.samples {
            let spindoctor_model::Reading::Available { value: waits, .. } = &mut sample.server.row_lock_waits
            else {
                panic!("it has waits")
            };
            waits[0].waited_s = 7.0;
        }
        assert!((queue(&long).mean - 3.0).abs() < 1e-9);
        assert!(queue(&long).may_last(&long, 5.0));
    }

    #[test]
    fn the_share_is_that_of_the_sessions_that_there_are() {
        let window = met_by_chance(0);
        let time = session_time(&window).unwrap();
        let (queue, of_time) = (queue(&window), share_of(&time, TimeClass::RowLock));
        assert!(of_time > 0.5, "{time:?}");
        assert_eq!((queue.share, queue.share_source), (of_time, "session time"));
        // It weighs as much as of one session: two clients that meet now and then are no alarm.
        assert!((queue.score() - 0.4).abs() < 1e-9, "{}", queue.score());
    }

    #[test]
    fn where_nobody_was_listed_their_number_by_how_many_begin_is_how_long_they_wait() {
        let not_read = |server: &mut ServerSample| {
            server.row_lock_waits = spindoctor_model::Reading::NotAsked;
            server.transactions = spindoctor_model::Reading::NotAsked;
        };
        let of = |begun_per_s| {
            let build = Build::busy("8.0.36")
                .counter("Innodb_row_lock_waits", begun_per_s)
                .gauge("Innodb_row_lock_current_waits", 12.0);
            let window = build.each(|_, server, _| not_read(server)).window();
            queue(&window).may_last(&window, 5.0)
        };
        assert!(of(1.0));
        assert!(!of(20.0));
    }
}
