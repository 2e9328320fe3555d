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
    /// A server in a world that says how long a wait lasts, microseconds, by how long threads spin.
    struct World {
        sleep_us: u64,
        wait_us: fn(&mut fastrand::Rng, f64) -> f64,
    }

    /// Waits that end soon, nine of ten, and some that last for milliseconds.
    fn soon_or_late(random: &mut fastrand::Rng) -> f64 {
        if random.f64() < 0.1 { 5_000.0 } else { exponential(random, 8.0) }
    }

    fn exponential(random: &mut fastrand::Rng, mean_us: f64) -> f64 {
        -mean_us * (1.0 - random.f64()).ln()
    }

    /// The settings that are set in ten minutes, those at the start among them, and the last look's report.
    fn ten_minutes(world: &World, seed: u64) -> (Vec<[String; 3]>, LatchReport) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut follower = Follower::default();
        let mut set = vec![["30", "100", "100"].map(str::to_owned)];
        let mut last = None;
        for look in 0..40 {
            let now = set.last().unwrap();
            let variables: Vec<(&str, &str)> = SETS.into_iter().zip(now.iter().map(String::as_str)).collect();
            let window = examples::window_with(&variables);
            let spin_us = spin_us(&window);
            let (mut met, mut slept) = (Vec::new(), Vec::new());
            for _ in 0..300 {
                let us = (world.wait_us)(&mut random, spin_us);
                // The longest of its place in the probes' histogram, which is a quarter of an octave wide.
                let most = Duration::from_secs_f64(2_f64.powf((us.max(1.5).log2() * 4.0).ceil() / 4.0) / 1e6);
                (if us <= spin_us { &mut met } else { &mut slept }).push((most, 1));
            }
            let waits = [LatchWaits {
                name: "rw_lock_s_lock_spin",
                armed: Duration::from_secs(1),
                met,
                slept,
                spun: None,
                woken: None,
            }];
            let sleep = SleepCost {
                least: Duration::from_nanos(1_200),
                seen: Some(Duration::from_micros(world.sleep_us)),
                sleeps: 500,
            };
            let measured = Measured {
                pid: 42,
                seconds: 5.0,
                sleep,
                hit: Duration::from_micros(1),
                waits: &waits,
                cost: WaitsCost::default(),
            };
            let report = LatchReport::new(&window, &measured);
            if let Decision::Set(changes, _) = follower.decide(&report, at(15 * look + 5)) {
                let mut next = set.last().unwrap().clone();
                for change in changes {
                    let place = SETS.iter().position(|name| *name == change.variable).unwrap();
                    next[place] = change.to.to_string();
                }
                set.push(next);
            }
            last = Some(report);
        }
        (set, last.unwrap())
    }

    /// How long a full spin lasts there, microseconds.
    fn spin_us(window: &spindoctor_model::Window) -> f64 {
        let sleep = examples::sleep();
        let none = Measured {
            pid: 42,
            seconds: 5.0,
            sleep,
            hit: Duration::ZERO,
            waits: &[],
            cost: WaitsCost::default(),
        };
        LatchReport::new(window, &none).spin_us.unwrap()
    }

    #[test]
    fn in_ten_minutes_a_spin_far_too_long_is_shortened_and_stays_where_it_is() {
        let world = World { sleep_us: 30, wait_us: |random, _| soon_or_late(random) };
        for seed in 1..=20 {
            let (set, report) = ten_minutes(&world, seed);
            assert!((2..=3).contains(&set.len()), "{seed}: {set:?}");
            let together = report.together.unwrap();
            // The least that a wait costs in this world is 13.6 us, with a spin of 26.
            assert!(together.now.unwrap().cost_us < 1.5 * 13.6, "{seed}: {:?}", together.now);
            assert!((8.0..80.0).contains(&together.now.unwrap().spin_us), "{seed}: {:?}", together.now);
        }
    }

    #[test]
    fn where_each_spin_looks_worse_than_the_other_it_does_not_go_to_and_fro() {
        let world = World {
            sleep_us: 1_000,
            wait_us: |random, spin_us| {
                if spin_us > 100.0 { soon_or_late(random) } else { exponential(random, 300.0) }
            },
        };
        for seed in 1..=20 {
            let (set, _) = ten_minutes(&world, seed);
            assert!((2..=4).contains(&set.len()), "{seed}: {set:?}");
            let has_come_back = (1..set.len()).any(|at| set[..at].contains(&set[at]));
            assert!(!has_come_back, "{seed}: {set:?}");
        }
    }
}
