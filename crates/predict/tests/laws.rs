//! What holds of any such system, whatever its numbers.

use proptest::prelude::*;
use spindoctor_predict::{
    CommitSpin, Effort, Hardware, Latch, Outcome, RedoLog, Spread, Step, Work, World, simulate,
};

fn world(cpus: u32, work_ns: f64, think_ns: f64, hold_ns: f64, latch: Latch) -> World {
    let inside = Step::Inside { ns: hold_ns, per_active_ns: 0.0 };
    World {
        hardware: Hardware { cpus, ..Hardware::default() },
        latch,
        work: Work {
            think_ns,
            think_spread: Spread::Exponential,
            steps: vec![Step::Work(work_ns), Step::Acquire(0), inside, Step::Release(0)],
            work_spread: Spread::Exponential,
            hold_spread: Spread::Exponential,
            crowding: 0.0,
            latches: vec![1],
            lines: 2.0,
            redo: None,
            server_share: 1.0,
            user_share: 0.85,
        },
    }
}

fn mysql() -> Latch {
    Latch::mysql(30.0, 6.0, 50.0)
}

fn run(world: &World, threads: u32) -> Outcome {
    simulate(world, threads, 7, Effort::default())
}

#[test]
fn the_same_seed_gives_the_same_answer_and_another_one_nearly_so() {
    let world = world(8, 50e3, 20e3, 2e3, mysql());
    assert_eq!(run(&world, 64), run(&world, 64));
    let other = simulate(&world, 64, 8, Effort::default());
    let one = run(&world, 64);
    assert_ne!(one, other);
    assert!((one.throughput_per_s / other.throughput_per_s - 1.0).abs() < 0.05, "{one:?} {other:?}");
}

#[test]
fn one_client_takes_its_work_and_its_thought() {
    let outcome = run(&world(8, 50e3, 100e3, 1e3, mysql()), 1);
    // A switch and a CPU that wakes come with each request.
    let expected = 1e9 / (50e3 + 100e3 + 1e3 + 3e3);
    assert!((outcome.throughput_per_s / expected - 1.0).abs() < 0.05, "{outcome:?}");
    assert_eq!(outcome.spin_share, 0.0);
}

#[test]
fn a_latch_bounds_throughput_and_the_cpus_do() {
    // 10 us under the latch: at most 100,000 a second, whatever the CPUs.
    let latch = run(&world(64, 20e3, 1e3, 10e3, mysql()), 64);
    assert!((60e3..100e3).contains(&latch.throughput_per_s), "{latch:?}");
    let cpus = run(&world(4, 100e3, 1e3, 100.0, mysql()), 64);
    assert!((36e3..40e3).contains(&cpus.throughput_per_s), "{cpus:?}");
    assert!(cpus.cpus > 3.9 && cpus.cpus < 4.01, "{cpus:?}");
}

#[test]
fn littles_law_holds() {
    for threads in [1, 8, 64, 256] {
        let outcome = run(&world(8, 50e3, 200e3, 3e3, mysql()), threads);
        let inside = outcome.throughput_per_s * (outcome.mean_ms / 1e3 + 200e-6);
        assert!((inside / f64::from(threads) - 1.0).abs() < 0.08, "{threads}: {inside} {outcome:?}");
    }
}

#[test]
fn a_quota_is_kept() {
    let mut world = world(8, 100e3, 10e3, 1e3, mysql());
    world.hardware.quota_cpus = Some(2.0);
    let outcome = run(&world, 32);
    assert!((outcome.cpus - 2.0).abs() < 0.15, "{outcome:?}");
    assert!(outcome.throttled_share > 0.6, "{outcome:?}");
    world.hardware.quota_cpus = Some(8.0);
    assert_eq!(run(&world, 32).throttled_share, 0.0, "as much as there is");
}

#[test]
fn a_quota_counts_the_server_alone() {
    let mut world = world(8, 100e3, 10e3, 1e3, mysql());
    world.hardware.quota_cpus = Some(2.0);
    let all = run(&world, 32);
    world.work.server_share = 0.5;
    let half = run(&world, 32);
    let ratio = half.throughput_per_s / all.throughput_per_s;
    assert!((ratio - 2.0).abs() < 0.2, "{all:?} {half:?}");
}

#[test]
fn no_rounds_sleep_and_many_spin() {
    let spun = run(&world(16, 30e3, 1e3, 3e3, Latch::mysql(2_000.0, 6.0, 50.0)), 16);
    let slept = run(&world(16, 30e3, 1e3, 3e3, Latch::mysql(0.0, 6.0, 50.0)), 16);
    assert!(spun.sleeps_per_transaction < 0.01 && spun.spin_share > 0.02, "{spun:?}");
    assert!(slept.sleeps_per_transaction > 0.1 && slept.spin_share == 0.0, "{slept:?}");
    let futex = run(&world(16, 30e3, 1e3, 3e3, Latch::mariadb(0.0, 4.0, 50.0)), 16);
    assert!(futex.sleeps_per_transaction > 0.1, "{futex:?}");
}

#[test]
fn a_line_that_moves_between_nodes_costs_throughput() {
    let mut near = world(64, 20e3, 1e3, 500.0, mysql());
    let one = run(&near, 128);
    near.hardware.numa_nodes = 4;
    near.hardware.remote_line_ns = 600.0;
    let four = run(&near, 128);
    assert!(four.throughput_per_s < 0.95 * one.throughput_per_s, "{one:?} {four:?}");
}

#[test]
fn commits_in_groups_share_a_flush() {
    let mut world = world(8, 50e3, 10e3, 500.0, mysql());
    world.work.steps.push(Step::Commit);
    let redo = RedoLog {
        flush_ns: 1e6,
        flush_spread: Spread::Fixed,
        cpu_ns: 15e3,
        group: true,
        leader_ns: 4e3,
        spin: Some(CommitSpin::default()),
    };
    world.work.redo = Some(redo);
    let [alone, many] = [1, 64].map(|threads| run(&world, threads).throughput_per_s);
    assert!(alone < 1e3 && many > 20.0 * alone, "{alone} {many}");
    if let Some(redo) = &mut world.work.redo {
        redo.group = false;
    }
    let each = run(&world, 64).throughput_per_s;
    assert!(each > 20.0 * alone, "those who wait share it, too: {each}");
}

/// One CPU, a walk of 1 us for each transaction in the list: those who wait to begin are in no list.
#[test]
fn those_who_have_not_begun_are_in_no_list() {
    let mut world = world(1, 20e3, 1e3, 500.0, mysql());
    let walk = Step::Inside { ns: 500.0, per_active_ns: 1e3 };
    world.work.steps = vec![
        Step::Acquire(0),
        walk,
        Step::List(true),
        Step::Release(0),
        Step::Work(20e3),
        Step::Acquire(0),
        Step::List(false),
        Step::Release(0),
    ];
    let [few, many] = [4, 200].map(|threads| run(&world, threads).throughput_per_s);
    assert!(many > 0.7 * few, "with 200 in the list a walk alone would take 200 us: {few} {many}");
}

#[test]
fn where_commits_are_frequent_the_logs_threads_spin_by_the_low_water_mark_alone() {
    let mut world = world(8, 50e3, 10e3, 500.0, mysql());
    world.work.steps.push(Step::Commit);
    let mut spun = |abs_lwm_pct: f64, pct_hwm: f64| {
        world.work.redo = Some(RedoLog {
            flush_ns: 50e3,
            flush_spread: Spread::Fixed,
            cpu_ns: 15e3,
            group: false,
            leader_ns: 4e3,
            spin: Some(CommitSpin { abs_lwm_pct, pct_hwm, ..CommitSpin::default() }),
        });
        let outcome = run(&world, 32);
        (outcome.commit_spin_share, outcome.spin_share - outcome.commit_spin_share)
    };
    let (commits, log) = spun(80.0, 0.0);
    assert!(commits == 0.0 && log > 0.02, "no commit spins under a high-water mark of 0: {commits} {log}");
    let (commits, without) = spun(10_000.0, 100.0);
    assert!(commits == 0.0 && without < 0.5 * log, "{commits} {without}");
}

#[test]
fn many_that_share_a_cpu_take_its_caches_from_each_other() {
    let [few, many] = [4, 400].map(|threads| run(&world(4, 100e3, 1e3, 100.0, mysql()), threads));
    assert!(
        many.cpus > 3.95 && many.cpu_us_per_transaction > few.cpu_us_per_transaction + 2.0,
        "{few:?} {many:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_world_comes_to_an_end_and_uses_no_more_than_there_is(
        cpus in 1_u32..200, threads in 1_u32..300, nodes in 1_u32..9, rounds in 0.0..500.0_f64, herd: bool,
        work in 0.0..1e6_f64, think in 0.0..1e6_f64, hold in 0.0..1e5_f64, quota in proptest::option::of(0.1..300.0_f64),
        arrays in 0_u32..4, commit: bool, group: bool, flush in 0.0..1e6_f64,
    ) {
        let mut world = world(cpus, work, think, hold, Latch { herd, arrays: if herd { arrays.max(1) } else { arrays }, ..Latch::mysql(rounds, 6.0, 50.0) });
        world.hardware.numa_nodes = nodes;
        world.hardware.quota_cpus = quota;
        if commit {
            world.work.steps.push(Step::Commit);
            world.work.redo = Some(RedoLog {
                flush_ns: flush, flush_spread: Spread::Uniform, cpu_ns: 1e3, group, leader_ns: 1e3, spin: Some(CommitSpin::default()),
            });
        }
        let effort = Effort { events: 20_000, ..Effort::default() };
        let outcome = simulate(&world, threads, 3, effort);
        prop_assert!(outcome.events <= 20_000 && outcome.cpus <= f64::from(cpus) + 1e-6, "{outcome:?}");
        for share in [outcome.spin_share, outcome.throttled_share] {
            prop_assert!((0.0..=1.0 + 1e-9).contains(&share), "{outcome:?}");
        }
    }
}
