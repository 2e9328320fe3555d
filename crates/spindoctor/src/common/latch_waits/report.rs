//! How long waits for latches last, and the spin that costs least: what `--latch-waits` says, in every format.

use std::time::Duration;

use serde::Serialize;
use spindoctor_model::Window;
use spindoctor_model::innodb_status::{Semaphores, SpinCounts};
use spindoctor_predict::{SpinBudget, WaitTimes};
use spindoctor_rules::pause_fit;
use spindoctor_stacks::capture::waits::{LatchWaits, SleepCost, WaitsCost};

use super::change::{Change, Settings};

/// Name and version of the serialised form.
const SCHEMA: &str = "spindoctor.latch-waits/1";

/// From fewer waits no spin is chosen: of a hundred a share is known within 10 points, nineteen times of twenty.
const FEWEST_WAITS: u64 = 100;

/// What a sleep costs is known by the server's own from so many on: where one varies by as much as it costs, the average of a
/// hundred is within a fifth, nineteen times of twenty.
const FEWEST_SLEEPS: u64 = 100;

/// Another spin is worth setting where a wait costs this many times what it would then: a place of the histogram is as wide,
/// so that less may be its doing.
const WORTH: f64 = 1.25;

/// What was measured.
pub struct Measured<'a> {
    /// The process.
    pub pid: u32,
    /// For how long.
    pub seconds: f64,
    /// What a sleep costs.
    pub sleep: SleepCost,
    /// What a hit of a probe costs: a call that takes no longer met its latch free, as far as probes can tell.
    pub hit: Duration,
    /// The waits of each function.
    pub waits: &'a [LatchWaits],
    /// What the probes cost.
    pub cost: WaitsCost,
}

/// All that is said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatchReport {
    pub schema: &'static str,
    /// `MySQL 9.7.4`; none where there was no session.
    pub version: Option<String>,
    pub pid: u32,
    pub seconds: f64,
    /// What a sleep costs, microseconds of CPU: by those of the server that were seen, where there were enough, and never less
    /// than between two threads of this host that do nothing else.
    pub sleep_us: f64,
    /// Between those two, with the wake-up.
    pub sleep_least_us: f64,
    /// How many of the server's sleeps were seen.
    pub sleeps_seen: u64,
    /// Whether they were enough.
    pub is_sleep_known: bool,
    /// A call that lasts no longer than this, microseconds, and does not sleep is no wait: what a hit of a probe costs here, and
    /// how long calls last for probes varies by about as much. No shorter spin is chosen: waits that it would meet are not seen.
    pub at_once_us: f64,
    /// A full spin with the settings as they are, microseconds; none where they are not known.
    pub spin_us: Option<f64>,
    /// Those settings in words.
    pub settings: Option<String>,
    /// Why they are not known.
    pub settings_unknown: Option<String>,
    /// What InnoDB itself counts of spinning, by kind of latch; empty where its text has no such counts, as from MySQL 8.0.28 on.
    pub spin_rounds: Vec<SpinRounds>,
    /// Each function that waits and was there.
    pub latches: Vec<Latch>,
    /// All of them together, as one spin is set for all; none where there were too few waits.
    pub together: Option<Choice>,
    /// What to set; nothing where what is set is about as good, or too little is known.
    pub changes: Vec<Change>,
    pub cost: Cost,
}

/// Spinning on one kind of latch, by the section SEMAPHORES of `SHOW ENGINE INNODB STATUS`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpinRounds {
    /// As the section names it.
    pub kind: &'static str,
    pub rounds_per_s: f64,
    pub os_waits_per_s: f64,
    /// Rounds for each wait that slept; none where none did.
    pub rounds_per_os_wait: Option<f64>,
}

/// What a choice rests on beside the waits, microseconds.
#[derive(Debug, Clone, Copy)]
struct Costs {
    sleep_us: f64,
    at_once_us: f64,
}

/// One function that waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latch {
    pub function: &'static str,
    /// For how long the probes stood in it: waits in a second are by this.
    pub armed_s: f64,
    /// Calls that were seen, also those that met the latch free at once.
    pub calls: u64,
    pub waits: u64,
    pub slept: u64,
    pub waits_per_s: f64,
    /// How long those spun that slept, before they did, on average.
    pub spun_us: Option<f64>,
    /// How long it took from a wake-up until the latch was had, on average.
    pub woken_us: Option<f64>,
    pub times: Vec<Time>,
    pub choice: Option<Choice>,
}

/// A place of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Time {
    /// Waits that lasted less than this, microseconds, and no less than the place before.
    pub less_than_us: f64,
    /// Of those, waits that ended while they spun.
    pub met: u64,
    /// Of those, waits that slept: they lasted until their thread was woken.
    pub slept: u64,
}

/// What lengths of the spin cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The median of the waits, microseconds.
    pub median_us: f64,
    /// As it is set; none where that is not known.
    pub now: Option<SpinBudget>,
    pub best: SpinBudget,
    pub curve: Vec<SpinBudget>,
}

/// What looking cost the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub probe_hits: u64,
    pub passes: u64,
    pub cpu_ms: f64,
    pub untracked: u64,
}

impl LatchReport {
    /// Of a server with the settings that a window has.
    pub fn new(window: &Window, measured: &Measured<'_>) -> Self {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let SleepCost { least, seen, sleeps } = measured.sleep;
        let seen = seen.filter(|_| sleeps >= FEWEST_SLEEPS);
        let costs = Costs { sleep_us: us(least.max(seen.unwrap_or_default())), at_once_us: us(measured.hit) };
        let settings = Settings::from_window(window);
        let spin_us = settings.as_ref().ok().map(Settings::spin_us);
        let latches: Vec<Latch> =
            measured.waits.iter().map(|waits| Latch::new(waits, costs, spin_us)).collect();
        let waits: u64 = latches.iter().map(|latch| latch.waits).sum();
        let together = WaitTimes::new(latches.iter().flat_map(Latch::in_a_second));
        let together = choice(waits, &together, costs, spin_us);
        let changes = match (&settings, &together) {
            (Ok(settings), Some(choice)) if choice.is_worth_it() => settings.lasting(choice.best.spin_us),
            _ => Vec::new(),
        };
        Self {
            schema: SCHEMA,
            version: window.server.version.map(|version| version.to_string()),
            pid: measured.pid,
            seconds: measured.seconds,
            sleep_us: costs.sleep_us,
            sleep_least_us: us(least),
            sleeps_seen: sleeps,
            is_sleep_known: seen.is_some(),
            at_once_us: costs.at_once_us,
            spin_us,
            settings: pause_fit::latch_spin(window).ok().map(|fit| fit.settings),
            settings_unknown: settings.err().map(|why| why.because),
            spin_rounds: spin_rounds(window),
            latches,
            together,
            changes,
            cost: Cost {
                probe_hits: measured.cost.hits,
                passes: measured.cost.passes,
                cpu_ms: measured.cost.cpu.as_secs_f64() * 1e3,
                untracked: measured.cost.untracked,
            },
        }
    }
}

impl Latch {
    fn new(waits: &LatchWaits, costs: Costs, spin_us: Option<f64>) -> Self {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let mut times: Vec<Time> = Vec::new();
        let mut calls = 0;
        for (slept, list) in [(false, &waits.met), (true, &waits.slept)] {
            for &(most, count) in list {
                calls += count;
                let less_than_us = us(most);
                // Who slept waited, however short.
                if !slept && less_than_us <= costs.at_once_us {
                    continue;
                }
                let at = times.partition_point(|time| time.less_than_us < less_than_us);
                if times.get(at).is_none_or(|time| time.less_than_us > less_than_us) {
                    times.insert(at, Time { less_than_us, met: 0, slept: 0 });
                }
                let time = &mut times[at];
                *(if slept { &mut time.slept } else { &mut time.met }) += count;
            }
        }
        let (met, slept): (u64, u64) =
            (times.iter().map(|time| time.met).sum(), times.iter().map(|time| time.slept).sum());
        let armed_s = waits.armed.as_secs_f64();
        let mut latch = Self {
            function: waits.name,
            armed_s,
            calls,
            waits: met + slept,
            slept,
            waits_per_s: if armed_s > 0.0 { (met + slept) as f64 / armed_s } else { 0.0 },
            spun_us: waits.spun.map(us),
            woken_us: waits.woken.map(us),
            times,
            choice: None,
        };
        let alone = WaitTimes::new(latch.in_a_second());
        latch.choice = choice(latch.waits, &alone, costs, spin_us);
        latch
    }

    /// Its waits by how long they lasted, and how many there are in a second: probes stood longer in some functions than in
    /// others.
    fn in_a_second(&self) -> impl Iterator<Item = (f64, f64)> {
        let per_s = if self.armed_s > 0.0 { 1.0 / self.armed_s } else { 0.0 };
        self.times.iter().map(move |time| (time.less_than_us, (time.met + time.slept) as f64 * per_s))
    }
}

impl Choice {
    /// True where what is set costs far more than the best.
    pub fn is_worth_it(&self) -> bool {
        self.now.is_some_and(|now| now.cost_us > WORTH * self.best.cost_us)
    }
}

/// A kind of latch, and where its counts stand.
type Kind = (&'static str, fn(&Semaphores) -> SpinCounts);

/// Of the kinds that spun or slept in a window.
fn spin_rounds(window: &Window) -> Vec<SpinRounds> {
    let Some(change) = window.change(|sample| &sample.server.innodb_status) else { return Vec::new() };
    let counted = |(kind, pick): Kind| {
        let (first, last) = (pick(&change.first.semaphores), pick(&change.last.semaphores));
        let rounds = last.rounds?.checked_sub(first.rounds?)? as f64;
        let os_waits = last.os_waits?.checked_sub(first.os_waits?)? as f64;
        (rounds + os_waits > 0.0).then(|| SpinRounds {
            kind,
            rounds_per_s: rounds / change.seconds,
            os_waits_per_s: os_waits / change.seconds,
            rounds_per_os_wait: (os_waits > 0.0).then(|| rounds / os_waits),
        })
    };
    let kinds: [Kind; 4] = [
        ("mutex", |section| section.mutex),
        ("RW-shared", |section| section.rw_shared),
        ("RW-excl", |section| section.rw_excl),
        ("RW-sx", |section| section.rw_sx),
    ];
    kinds.into_iter().filter_map(counted).collect()
}

fn choice(waits: u64, times: &WaitTimes, costs: Costs, spin_us: Option<f64>) -> Option<Choice> {
    if waits < FEWEST_WAITS {
        return None;
    }
    let Costs { sleep_us, at_once_us } = costs;
    let curve = times.curve(at_once_us, sleep_us);
    Some(Choice {
        median_us: curve.iter().find(|length| length.met >= 0.5)?.spin_us,
        now: spin_us.and_then(|spin_us| times.with(spin_us, sleep_us)),
        best: times.best(at_once_us, sleep_us)?,
        curve,
    })
}

#[cfg(test)]
pub mod examples {
    use spindoctor_model::host::PauseLatency;
    use spindoctor_model::{Reading, Sample, ServerVersion, Window};

    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Waits of `rw_lock_s_lock_spin`: nine of ten end within 20 us, and the others sleep for milliseconds.
    pub fn waits() -> [LatchWaits; 2] {
        let none = LatchWaits {
            name: "rw_lock_x_lock_func",
            armed: Duration::from_secs(1),
            met: vec![(Duration::from_nanos(640), 4_000)],
            slept: Vec::new(),
            spun: None,
            woken: None,
        };
        let some = LatchWaits {
            name: "rw_lock_s_lock_spin",
            armed: Duration::from_secs(2),
            met: vec![(us(5), 1_200), (us(20), 600)],
            slept: vec![(us(4_000), 200)],
            spun: Some(us(1_650)),
            woken: Some(us(30)),
        };
        [some, none]
    }

    pub const fn sleep() -> SleepCost {
        SleepCost { least: Duration::from_nanos(1_200), seen: Some(us(30)), sleeps: 500 }
    }

    /// A MySQL whose spin has so many rounds, at a delay and a multiplier of 100.
    pub fn window(rounds: &str) -> Window {
        window_with(&[
            ("innodb_sync_spin_loops", rounds),
            ("innodb_spin_wait_delay", "100"),
            ("innodb_spin_wait_pause_multiplier", "100"),
        ])
    }

    /// A MySQL with these settings, on a CPU whose PAUSE takes 10.9 ns.
    pub fn window_with(variables: &[(&str, &str)]) -> Window {
        let mut sample = Sample::default();
        let value = variables.iter().copied().collect();
        sample.server.variables = Reading::Available { at_s: 0.0, took_ms: 1.0, value };
        let pause = PauseLatency { ns: 10.9, ..PauseLatency::default() };
        sample.host.pause = Reading::Available { at_s: 0.0, took_ms: 1.0, value: pause };
        let mut window = Window { samples: vec![sample], ..Window::default() };
        window.server.version = ServerVersion::parse("9.7.4", "");
        window
    }

    pub fn report(rounds: &str) -> LatchReport {
        let cost = WaitsCost { hits: 12_345, passes: 6_000, cpu: us(98_000), untracked: 0 };
        let waits = waits();
        let measured = Measured { pid: 42, seconds: 10.02, sleep: sleep(), hit: us(1), waits: &waits, cost };
        LatchReport::new(&window(rounds), &measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_that_is_far_too_long_is_shortened_to_what_most_waits_last() {
        let report = examples::report("30");
        let choice = report.together.as_ref().unwrap();
        assert_eq!((choice.best.spin_us, choice.median_us), (20.0, 5.0));
        assert!(choice.is_worth_it(), "{choice:?}");
        assert!(report.spin_us.unwrap() > 1_000.0);
        let set: Vec<(&str, f64)> =
            report.changes.iter().map(|change| (change.variable, change.to)).collect();
        assert_eq!(set, [("innodb_spin_wait_pause_multiplier", 1.0)]);
    }

    #[test]
    fn what_met_its_latch_at_once_is_no_wait() {
        let report = examples::report("30");
        let [some, none] = &report.latches[..] else { panic!("two") };
        assert_eq!((none.calls, none.waits, none.waits_per_s), (4_000, 0, 0.0));
        assert_eq!(none.choice, None);
        assert_eq!((some.waits, some.slept, some.waits_per_s), (2_000, 200, 1_000.0));
    }

    #[test]
    fn without_settings_the_best_is_known_and_nothing_is_set() {
        let measured = Measured {
            pid: 42,
            seconds: 1.0,
            sleep: examples::sleep(),
            hit: Duration::from_micros(1),
            waits: &examples::waits(),
            cost: WaitsCost::default(),
        };
        let report = LatchReport::new(&Window::default(), &measured);
        assert!(report.settings_unknown.is_some() && report.changes.is_empty());
        assert_eq!(report.together.unwrap().best.spin_us, 20.0);
    }
    #[test]
    fn rounds_for_each_wait_that_slept_are_of_the_window_alone_and_what_no_server_counts_is_not_there() {
        use spindoctor_model::{InnodbStatus, Reading, Sample};
        let counts =
            |rounds, os_waits| SpinCounts { spins: Some(1), rounds: Some(rounds), os_waits: Some(os_waits) };
        let sample = |at_s, mutex, rw_shared| {
            let semaphores = Semaphores { mutex, rw_shared, ..Semaphores::default() };
            let mut sample = Sample { at_s, ..Sample::default() };
            sample.server.innodb_status = Reading::Available {
                at_s,
                took_ms: 1.0,
                value: InnodbStatus { semaphores, ..InnodbStatus::default() },
            };
            sample
        };
        let samples = vec![
            sample(0.0, counts(1_000, 90), counts(50, 5)),
            sample(2.0, counts(2_320, 100), counts(80, 5)),
        ];
        let found = spin_rounds(&Window { samples, ..Window::default() });
        let text: Vec<(&str, f64, Option<f64>)> =
            found.iter().map(|it| (it.kind, it.rounds_per_s, it.rounds_per_os_wait)).collect();
        assert_eq!(text, [("mutex", 660.0, Some(132.0)), ("RW-shared", 15.0, None)]);
        assert_eq!(spin_rounds(&examples::window("30")), []);
    }
}
