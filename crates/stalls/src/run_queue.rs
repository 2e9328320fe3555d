//! [`StallKind::ThreadsRunning`](spindoctor_model::StallKind) where the server does not count the threads: those that
//! wait for a CPU.
//!
//! The server counts a session as asleep while its statement has arrived but is not read yet. Where statements are
//! short and CPUs are few, all sessions wait there: MariaDB with 64 clients that read single rows reported 4 threads
//! running, while 41 were in the kernel's run queue. Snapshots of the stacks see them.

use super::Sight;
use super::recent::Recent;

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 300.0;
/// And from this many snapshots at least: ten seconds.
const ENOUGH_SNAPSHOTS: usize = 10;
/// The most of the usual ones: bursts that are in more than 3 of 100 snapshots are how this server works.
const USUAL_QUANTILE: f64 = 0.97;
/// So many times the usual, and so many more, as of the threads that the server counts (`threads_running`).
const TIMES_USUAL: f64 = 2.0;
const MORE_THAN_USUAL: f64 = 6.0;
/// A burst is over within a second, and a shared machine lets everybody wait for some tenths of one: so many snapshots in
/// a row, over so long at least.
const LEAST_SNAPSHOTS: usize = 3;
const LEAST_S: f64 = 1.5;
/// It is over below this share of the bound.
const OVER_RATIO: f64 = 0.6;
/// A state that lasts that long is the usual one.
const NEW_USUAL_AFTER_S: f64 = 600.0;

/// Watches how many threads run or wait for a CPU.
#[derive(Debug)]
pub(super) struct RunQueue {
    usual: Recent,
    /// The last snapshot that was as usual.
    calm_s: Option<f64>,
    many: Option<Many>,
}

/// Snapshots in a row with many.
#[derive(Debug)]
struct Many {
    began_s: f64,
    first_s: f64,
    snapshots: usize,
    most: f64,
    usual: f64,
}

impl Many {
    fn is_stall(&self, now_s: f64) -> bool {
        self.snapshots >= LEAST_SNAPSHOTS && now_s - self.first_s >= LEAST_S
    }
}

impl RunQueue {
    pub(super) fn new() -> Self {
        Self { usual: Recent::over(USUAL_OVER_S), calm_s: None, many: None }
    }

    /// A snapshot in which so many threads wanted a CPU.
    pub(super) fn look(&mut self, at_s: f64, runnable: u32) -> Option<Sight> {
        let runnable = f64::from(runnable);
        if self.many.as_ref().is_some_and(|many| at_s - many.first_s >= NEW_USUAL_AFTER_S) {
            *self = Self::new();
        }
        let usual =
            (self.usual.len() >= ENOUGH_SNAPSHOTS).then(|| self.usual.quantile(USUAL_QUANTILE)).flatten();
        let usual = self.many.as_ref().map(|many| many.usual).or(usual);
        let bound = usual.map_or(f64::INFINITY, |usual| TIMES_USUAL * usual + MORE_THAN_USUAL);
        let was_stall = self.lasts(at_s).is_some();
        let goes_on = runnable > bound || was_stall && runnable > OVER_RATIO * bound;
        match (&mut self.many, usual) {
            (Some(many), _) if goes_on => {
                many.snapshots += 1;
                many.most = many.most.max(runnable);
            }
            (None, Some(usual)) if goes_on => {
                // It began somewhere between the last snapshot without and the first with.
                let began_s = self.calm_s.map_or(at_s, |calm_s| f64::midpoint(calm_s, at_s));
                self.many = Some(Many { began_s, first_s: at_s, snapshots: 1, most: runnable, usual });
            }
            _ => {
                self.many = None;
                self.calm_s = Some(at_s);
            }
        }
        // What may be a stall is not learnt, until it has become usual; a burst is.
        if self.lasts(at_s).is_none() {
            self.usual.push(at_s, runnable);
        }
        self.lasts(at_s)
    }

    /// A pile-up that the server's own count has shown began when threads began to wait for CPUs, where that was before: with
    /// short statements few are counted at first.
    pub(super) fn since(&self, counted: Sight) -> Sight {
        let began_s = self.many.as_ref().map_or(counted.began_s, |many| many.began_s.min(counted.began_s));
        Sight { began_s, ..counted }
    }

    /// The pile-up, while it lasts.
    pub(super) fn lasts(&self, now_s: f64) -> Option<Sight> {
        let many = self.many.as_ref().filter(|many| many.is_stall(now_s))?;
        Some(Sight {
            began_s: many.began_s,
            because: format!(
                "{:.0} threads run or wait for a CPU; lately it was {:.0} at most",
                many.most, many.usual
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pile_up_that_the_server_counts_later_began_with_the_first_snapshot_of_it() {
        let mut queue = RunQueue::new();
        for second in 0..20 {
            queue.look(f64::from(second), 1);
        }
        let counted = |began_s| Sight { began_s, because: "14 threads run".to_owned() };
        assert_eq!(queue.since(counted(19.9)), counted(19.9));
        assert_eq!(queue.look(20.0, 40), None, "one snapshot alone is no stall");
        assert_eq!(queue.since(counted(20.8)), counted(19.5));
        assert_eq!(queue.since(counted(19.2)), counted(19.2));
    }

    /// A snapshot a second; the sights of all.
    fn run(queue: &mut RunQueue, from_s: u32, to_s: u32, runnable: impl Fn(u32) -> u32) -> Vec<Sight> {
        (from_s..to_s).filter_map(|at_s| queue.look(f64::from(at_s), runnable(at_s))).collect()
    }

    #[test]
    fn threads_that_queue_for_seconds_are_a_pile_up_and_a_burst_is_none() {
        let mut queue = RunQueue::new();
        assert!(run(&mut queue, 0, 60, |at| at % 3).is_empty());
        assert!(run(&mut queue, 60, 180, |at| if at % 10 < 2 { 50 } else { 1 }).is_empty());
        let mut queue = RunQueue::new();
        assert!(run(&mut queue, 0, 60, |at| at % 3).is_empty());
        let seen = run(&mut queue, 60, 66, |_| 40);
        assert_eq!(seen.len(), 4);
        let first = &seen[0];
        let because = "40 threads run or wait for a CPU; lately it was 2 at most";
        assert_eq!((first.began_s, first.because.as_str()), (59.5, because));
        assert!(run(&mut queue, 66, 100, |at| at % 3).is_empty());
    }

    #[test]
    fn a_server_that_always_has_a_queue_has_no_pile_up() {
        let mut queue = RunQueue::new();
        assert!(run(&mut queue, 0, 600, |at| 30 + at % 30).is_empty());
        // The load stays higher: one pile-up, which is usual after ten minutes.
        let seen = run(&mut queue, 600, 3600, |at| 150 + at % 30);
        assert!((500..700).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn of_a_server_that_is_not_known_yet_nothing_is_said() {
        assert!(run(&mut RunQueue::new(), 0, 9, |_| 500).is_empty());
    }
}
