//! `tune --watch --by-waits`: the latch spin lasts as long as waits for latches make it worth.
//!
//! ```text
//! probes, 5 s of every 15 -> LatchReport -> Follower -> what to set
//! ```
//!
//! [`Follower`] is pure. It changes nothing by one look alone, and goes back to no spin that it has left in the last ten minutes: how
//! long waits last depends on how long threads spin, and two spins may each look worse from where they are set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spindoctor_page::number::{quantity, whole};
use spindoctor_stacks::capture::trigger::DEFAULT_BUDGET;
use spindoctor_stacks::capture::waits::{LatchWaits, SleepCost, WaitProbes, WaitsCost};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::common::latch_waits::{Change, Choice, LatchReport, Measured};

/// How long waits are measured each time.
const MEASURED: Duration = Duration::from_secs(5);
/// From one beginning of a measurement to the next.
const EVERY: Duration = Duration::from_secs(15);
/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(100);

/// Two looks agree where the better spins that they find are within this of each other: a place of the histogram is a quarter
/// wide, and a look at waits that come in crowds is off by two of them.
const AGREE: f64 = 2.0;
/// A spin that was left is not set again for so long.
const LEFT_FOR: Duration = Duration::from_mins(10);

/// The variables that the latch spin is made of.
pub const SETS: [&str; 3] =
    ["innodb_sync_spin_loops", "innodb_spin_wait_delay", "innodb_spin_wait_pause_multiplier"];

/// What was measured in one look.
pub struct MeasuredWaits {
    pub seconds: f64,
    pub sleep: SleepCost,
    pub hit: Duration,
    pub waits: Vec<LatchWaits>,
    pub cost: WaitsCost,
}

impl MeasuredWaits {
    pub fn measured(&self, pid: u32) -> Measured<'_> {
        let Self { seconds, sleep, hit, waits, cost } = self;
        Measured { pid, seconds: *seconds, sleep: *sleep, hit: *hit, waits, cost: *cost }
    }
}

/// Measures again and again, in a thread of its own, until it is dropped. The probes are gone then.
pub struct Looks {
    seen: UnboundedReceiver<Result<MeasuredWaits, String>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Looks {
    pub fn start(probes: WaitProbes) -> Self {
        let (send, seen) = unbounded_channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || look(probes, &send, &until));
        Self { seen, is_over, thread: Some(thread) }
    }

    /// What the next look saw, or why there is none any more.
    pub async fn next(&mut self) -> Result<MeasuredWaits, String> {
        self.seen.recv().await.unwrap_or_else(|| Err("the probes were taken away".to_owned()))
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn look(mut probes: WaitProbes, send: &UnboundedSender<Result<MeasuredWaits, String>>, is_over: &AtomicBool) {
    let ends = |_: WaitsCost| is_over.load(Ordering::Relaxed);
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        probes.forget();
        let seen = probes.measure(MEASURED, DEFAULT_BUDGET, &ends).map(|waits| MeasuredWaits {
            seconds: begun.elapsed().as_secs_f64(),
            sleep: probes.sleep_cost(),
            hit: probes.hit_cost(),
            waits,
            cost: probes.cost(),
        });
        let has_failed = seen.is_err();
        if send.send(seen.map_err(|why| why.to_string())).is_err() || has_failed {
            return;
        }
        while begun.elapsed() < EVERY && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
    }
}

/// Decides what is set.
#[derive(Debug, Default)]
pub struct Follower {
    /// The better spin that the last look found, microseconds.
    suspected_us: Option<f64>,
    /// Spins that were left, microseconds, and when, since the start.
    left: Vec<(f64, Duration)>,
}

/// What one look leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing is set.
    Stay,
    /// These are set, for this reason.
    Set(Vec<Change>, String),
}

impl Follower {
    /// By a report, so long after the start.
    pub fn decide(&mut self, report: &LatchReport, now: Duration) -> Decision {
        self.left.retain(|(_, at)| now.saturating_sub(*at) < LEFT_FOR);
        let suspected_us = self.suspected_us.take();
        let Some(choice) = report.together.as_ref().filter(|choice| choice.is_worth_it()) else {
            return Decision::Stay;
        };
        let Some(set) = choice.now.filter(|_| !report.changes.is_empty()) else { return Decision::Stay };
        let best_us = choice.best.spin_us;
        if self.left.iter().any(|(left_us, _)| agree(*left_us, best_us)) {
            return Decision::Stay;
        }
        if !suspected_us.is_some_and(|suspected_us| agree(suspected_us, best_us)) {
            self.suspected_us = Some(best_us);
            return Decision::Stay;
        }
        self.left.push((set.spin_us, now));
        Decision::Set(report.changes.clone(), why(choice, report))
    }
}

fn agree(one: f64, other: f64) -> bool {
    (1.0 / AGREE..=AGREE).contains(&(one.max(f64::MIN_POSITIVE) / other.max(f64::MIN_POSITIVE)))
}

fn why(choice: &Choice, report: &LatchReport) -> String {
    let waits: u64 = report.latches.iter().map(|latch| latch.waits).sum();
    let us = |us: f64| quantity(us, "us");
    let now = choice.now.unwrap_or(choice.best);
    format!(
        "of {} waits for latches each costs {} of CPU with a spin of {}, and {} with one of {}",
        whole(waits as f64),
        us(now.cost_us),
        us(now.spin_us),
        us(choice.best.cost_us),
        us(choice.best.spin_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::latch_waits::examples;

    const MISSET: &str = "30";

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn best_us(report: &mut LatchReport) -> &mut f64 {
        &mut report.together.as_mut().unwrap().best.spin_us
    }

    fn sets(decision: &Decision) -> bool {
        matches!(decision, Decision::Set(..))
    }

    #[test]
    fn two_looks_that_agree_set_what_the_second_found_and_say_why() {
        let report = examples::report(MISSET);
        let mut follower = Follower::default();
        assert_eq!(follower.decide(&report, at(5)), Decision::Stay);
        let Decision::Set(changes, why) = follower.decide(&report, at(20)) else { panic!("{report:#?}") };
        assert_eq!(changes, report.changes);
        assert!(changes.iter().all(|change| SETS.contains(&change.variable)), "{changes:?}");
        assert!(
            why.starts_with("of 2000 waits for latches each costs ") && why.contains("with a spin of 1.6"),
            "{why}"
        );
    }

    #[test]
    fn looks_that_do_not_agree_or_are_not_worth_it_set_nothing() {
        let report = examples::report(MISSET);
        let mut other = report.clone();
        *best_us(&mut other) *= 5.0;
        let mut follower = Follower::default();
        for (second, report) in [(5, &report), (20, &other), (35, &report), (50, &other)] {
            assert_eq!(follower.decide(report, at(second)), Decision::Stay);
        }
        let mut cheap = report.clone();
        let choice = cheap.together.as_mut().unwrap();
        choice.now = Some(choice.best);
        let mut follower = Follower::default();
        for (second, report) in [(5, &report), (20, &cheap), (35, &report)] {
            assert_eq!(follower.decide(report, at(second)), Decision::Stay, "one in between begins it again");
        }
    }

    #[test]
    fn a_spin_that_was_left_is_not_set_again_for_ten_minutes() {
        let report = examples::report(MISSET);
        let mut follower = Follower::default();
        follower.decide(&report, at(5));
        assert!(sets(&follower.decide(&report, at(20))));
        // From there the old one looks better.
        let left_us = report.together.as_ref().unwrap().now.unwrap().spin_us;
        let mut back = report.clone();
        *best_us(&mut back) = left_us;
        for second in [35, 50, 65, 300, 615] {
            assert_eq!(follower.decide(&back, at(second)), Decision::Stay);
        }
        assert_eq!(follower.decide(&back, at(621)), Decision::Stay, "the first look since");
        assert!(sets(&follower.decide(&back, at(636))));
    }

    #[test]
    fn too_few_waits_set_nothing() {
        let mut report = examples::report(MISSET);
        report.together = None;
        let mut follower = Follower::default();
        assert_eq!(
            [5, 20].map(|second| follower.decide(&report, at(second))),
            [Decision::Stay, Decision::Stay]
        );
    }
}
