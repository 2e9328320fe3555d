//! Waits for latches: they last as long as they do, cost no more than they may, and their probes leave nothing behind.

use std::process::{Command, Stdio};
use std::time::Duration;

use spindoctor_stacks::capture::trigger::DEFAULT_BUDGET;
use spindoctor_stacks::capture::waits::{LatchWaits, WaitFunction, WaitProbes};

use crate::target::{Program, Target, again, is_root, refusal, target_of_environment, until};

/// As in `latch.c`.
const SPINS: Duration = Duration::from_micros(300);
const LONG: Duration = Duration::from_micros(4_000);
const AFTER: Duration = Duration::from_micros(3_000);
const SLEEP_COSTS: Duration = Duration::from_micros(500);

const LATCH: WaitFunction = WaitFunction { name: "the latch", symbol: "waits_for_latch" };
const NONE: WaitFunction = WaitFunction { name: "none", symbol: "no_such_function" };

fn latch() -> Target {
    let program = Program::build_from("cc", "-pthread", "latch.c");
    let mut command = Command::new(program.path());
    Target::run(program, &mut command)
}

/// The wait in the middle, by a histogram of waits.
fn middle_wait(counts: &[(Duration, u64)]) -> Duration {
    let half = counts.iter().map(|(_, count)| count).sum::<u64>().div_ceil(2);
    let mut seen = 0;
    let middle = counts.iter().find(|(_, count)| {
        seen += count;
        seen >= half
    });
    middle.expect("there is at least one wait").0
}

fn many(counts: &[(Duration, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

#[test]
fn waits_last_until_the_latch_is_free_whether_they_spin_or_sleep() {
    if !is_root() {
        return;
    }
    let target = latch();
    let mut probes =
        WaitProbes::new(target.pid(), &[NONE, LATCH], &["no_such_function", "sleeps_for_latch"]).unwrap();
    // A machine that is busy takes the CPU away from some waits: until there are enough of both.
    let mut waits: Vec<LatchWaits> = Vec::new();
    until("a hundred long waits are seen", || {
        waits = probes.measure(Duration::from_secs(1), DEFAULT_BUDGET, &|_| false).unwrap();
        many(&waits[0].slept) >= 100
    });
    let [latch] = &waits[..] else { panic!("one of the two is there: {waits:?}") };
    assert_eq!(latch.name, "the latch");
    let (met, slept) = (middle_wait(&latch.met), middle_wait(&latch.slept));
    assert!((Duration::from_micros(45)..Duration::from_micros(150)).contains(&met), "{met:?}: {latch:?}");
    assert!((LONG..LONG + AFTER).contains(&slept), "until it was woken, not until it returned: {slept:?}");
    let (met, slept) = (many(&latch.met) as f64, many(&latch.slept) as f64);
    assert!((2.0..4.5).contains(&(met / slept)), "every fourth is a long one: {met} {slept}");
    assert!(latch.spun.unwrap() >= SPINS - Duration::from_micros(30), "{latch:?}");
    assert!(latch.woken.unwrap() >= AFTER, "{latch:?}");
    let cost = probes.cost();
    assert!(cost.hits >= 2 * (met + slept) as u64 && cost.passes > 0 && cost.untracked == 0, "{cost:?}");
    let cost = probes.sleep_cost();
    assert!((Duration::from_nanos(200)..Duration::from_millis(1)).contains(&cost.least), "{cost:?}");
    // Not the milliseconds that it sleeps for.
    assert!(cost.sleeps > 0, "{cost:?}");
    assert!((SLEEP_COSTS..2 * SLEEP_COSTS).contains(&cost.seen.unwrap()), "{cost:?}");
}

#[test]
fn a_function_that_is_flooded_costs_what_it_may_and_runs_on() {
    if !is_root() {
        return;
    }
    let mut target = Target::start("flood");
    let quick = WaitFunction { name: "is_quick", symbol: "is_quick" };
    let mut probes = WaitProbes::new(target.pid(), &[quick], &["works"]).unwrap();
    let duration = Duration::from_secs(4);
    let waits = probes.measure(duration, DEFAULT_BUDGET, &|_| false).unwrap();
    let cost = probes.cost();
    // Half a second's share for the last turn, and what is hit until its probes are gone.
    let may = (duration + Duration::from_millis(500)).mul_f64(DEFAULT_BUDGET);
    assert!(cost.hits > 1_000 && many(&waits[0].met) > 500, "{cost:?}");
    assert!(cost.cpu < may + Duration::from_millis(40), "{cost:?}");
    assert!(waits[0].armed < duration / 4, "{waits:?}");
    let before = target.ask("count");
    until("it runs on", || target.ask("count") > before + 100_000);
    assert_eq!(probes.cost().hits, cost.hits, "no probe is hit any more");
}

#[test]
fn who_is_killed_leaves_no_probe() {
    if !is_root() {
        return;
    }
    let mut target = latch();
    let address = target.ask("where");
    let code = || {
        let memory = std::fs::File::open(format!("/proc/{}/mem", target.pid())).unwrap();
        // A landing pad and the instruction behind it.
        let mut code = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut code, address).unwrap();
        code
    };
    let before = code();
    let mut measuring = again("waits::measures_for_ever", &target).stdout(Stdio::null()).spawn().unwrap();
    until("a probe is there", || code() != before);
    measuring.kill().unwrap();
    measuring.wait().unwrap();
    until("no probe is there", || code() == before);
    let count = target.ask("count");
    until("it runs on", || target.ask("count") > count + 10);
}

#[test]
#[ignore = "started by a test"]
fn measures_for_ever() {
    let mut probes = WaitProbes::new(target_of_environment(), &[LATCH], &["sleeps_for_latch"]).unwrap();
    probes.measure(Duration::from_secs(600), DEFAULT_BUDGET, &|_| false).unwrap();
}

#[test]
fn a_process_without_latches_is_said_in_one_line() {
    let target = Target::start("workers");
    let said = refusal(WaitProbes::new(target.pid(), &[NONE], &["works"]));
    assert!(said.contains("names none of the functions") && said.contains("no_such_function"), "{said}");
    let works = WaitFunction { name: "works", symbol: "works" };
    let said = refusal(WaitProbes::new(target.pid(), &[works], &["no_such_function"]));
    assert!(said.contains("names no function that sleeps"), "{said}");
}
