//! Windows of a pool of threads that is starved, and tests of what is said of it.

use spindoctor_model::Reading;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::ThreadState::{Condition, Epoll, Lock, Running};

use super::*;
use crate::tcp_queues::tests::{queue, with};
use crate::testing::{Build, session};

/// A pool of sixteen threads in two groups: so many sessions in that state, and others that seem to sleep.
fn pool(at_work: u64, state: &'static str) -> Build {
    let sessions = move |_| -> Vec<ServerThread> {
        let works = (0..at_work).map(|at| session(20 + at, "Query", state, "SELECT SLEEP(60)"));
        works.chain((100..130).map(|id| session(id, "Sleep", "", ""))).collect()
    };
    Build::busy("10.11.19-MariaDB")
        .remote()
        .without_profile()
        .variable("thread_handling", "pool-of-threads")
        .variable("thread_pool_max_threads", "16")
        .variable("thread_pool_size", "2")
        .gauge("Threadpool_threads", 16.0)
        .gauge("Threads_connected", at_work as f64 + 30.0)
        .sessions(sessions)
}

pub(crate) fn fires() -> Window {
    pool(15, "User sleep").window()
}

/// As many threads, and six of them are free.
pub(crate) fn near_miss() -> Window {
    pool(8, "User sleep").window()
}

/// Variables were not read.
pub(crate) fn missing() -> Window {
    let not_read = |build: Build| build.each(|_, server, _| server.variables = Reading::NotAsked);
    not_read(pool(15, "User sleep")).window()
}

fn found(window: &Window) -> Option<Finding> {
    match CAUSE.evaluate(window, crate::session_time(window).as_ref()) {
        Outcome::Fired(finding) => Some(finding),
        Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
    }
}

#[test]
fn the_limit_and_those_without_a_thread_are_named() {
    let finding = found(&fires()).unwrap();
    assert_eq!(
        finding.headline,
        "All 16 threads of the pool are taken, most by sessions that wait (SLEEP()): 30 of 45 connections have none"
    );
    assert_eq!(finding.remedies[0].statement, "SET GLOBAL thread_pool_max_threads = 47");
}

#[test]
fn requests_that_nobody_reads_are_its_evidence() {
    let unread = || (1..=30).map(|at| queue(at, 0, 40, 0)).collect();
    let finding = found(&with(pool(15, "User sleep"), unread(), unread()).window()).unwrap();
    let unread =
        finding.evidence.iter().find(|one| one.reading.starts_with("connections with a request unread"));
    assert_eq!(unread.unwrap().value, 30.0_f64.into());
}

#[test]
fn threads_that_run_and_servers_without_a_pool_are_clear() {
    assert_eq!(found(&pool(15, "Sending data").window()), None);
    let none = pool(15, "User sleep").variable("thread_handling", "one-thread-per-connection");
    assert_eq!(found(&none.window()), None);
}

/// One group, whose statements run for 137 ms each, on four CPUs.
#[test]
fn a_pool_with_one_group_lets_one_statement_run_while_cpus_are_idle() {
    let of = |groups: &str, took_ms: f64, busy: f64| {
        let build = Build::busy("10.11.18-MariaDB")
            .variable("thread_handling", "pool-of-threads")
            .variable("thread_pool_max_threads", "200")
            .variable("thread_pool_size", groups)
            .gauge("Threadpool_threads", 8.0)
            .quota(4.0, 4)
            .host_cpu(busy, 4.0 - busy)
            .only_snapshots(&[(
                1,
                Running,
                &["Item_func_benchmark::val_int", "dispatch_command", "do_command", "tp_callback"],
            )]);
        found(&build.answered_in(took_ms).window())
    };
    let finding = of("1", 137.0, 1.2).unwrap();
    assert!(
        finding.headline.starts_with("The pool runs 1 statement at once while 3.0 CPUs are idle"),
        "{}",
        finding.headline
    );
    assert_eq!(finding.remedies[0].statement, "SET GLOBAL thread_pool_size = 4");
    assert_eq!(of("1", 2.0, 1.2), None);
    assert_eq!(of("4", 137.0, 1.2), None);
    assert_eq!(of("1", 137.0, 3.9), None);
}

/// A pool of one group on four CPUs, whose questions all took 137 ms.
fn one_group(running: u32) -> Build {
    Build::busy("10.11.18-MariaDB")
        .variable("thread_handling", "pool-of-threads")
        .variable("thread_pool_max_threads", "200")
        .variable("thread_pool_size", "1")
        .gauge("Threadpool_threads", 8.0)
        .quota(4.0, 4)
        .host_cpu(1.2, 2.8)
        .only_snapshots(&[(
            running,
            Running,
            &["Item_func_benchmark::val_int", "dispatch_command", "do_command", "tp_callback"],
        )])
        .answered_in(137.0)
}

#[test]
fn slow_questions_are_no_waiting_ones_while_another_kind_is_quick() {
    assert!(found(&one_group(1).window()).is_some());
    let quick = one_group(1).each(|_, server, _| {
        if let Reading::Available { took_ms, .. } = &mut server.variables {
            *took_ms = 1.5;
        }
    });
    assert_eq!(found(&quick.window()), None);
}

#[test]
fn a_pool_at_its_limit_has_no_finding_of_its_groups() {
    let at_limit = one_group(1).variable("thread_pool_max_threads", "8");
    assert_eq!(found(&at_limit.window()), None);
    // Of one that was there once the questions of the other moments say it, and these alone.
    let once = || {
        one_group(1).each(|at_s, server, _| {
            if let Reading::Available { value, .. } = &mut server.status
                && at_s == 4.0
            {
                value.insert("Threadpool_threads", "200");
            }
        })
    };
    let finding = found(&once().window()).unwrap();
    assert!(finding.headline.starts_with("The pool runs 1 statement at once"), "{}", finding.headline);
    let quick = once().each(|at_s, server, _| {
        if let Reading::Available { took_ms, .. } = &mut server.status
            && at_s != 4.0
        {
            *took_ms = 1.5;
        }
    });
    assert_eq!(found(&quick.window()), None);
    // And one that is full of sessions that wait has the other finding, though its questions are slow.
    let full = pool(15, "User sleep").quota(4.0, 4).host_cpu(1.2, 2.8).answered_in(137.0);
    let finding = found(&full.window()).unwrap();
    assert!(finding.headline.starts_with("All 16 threads of the pool"), "{}", finding.headline);
}

/// In these samples the pool is at its limit and so many sessions are in that state; in the others two are, and it is half as large.
fn full_in(is_full: fn(usize) -> bool, at_work: u64, state: &'static str) -> Build {
    pool(0, "")
        .sessions(move |at| {
            let count = if is_full(at) { at_work } else { 2 };
            let works = (0..count).map(|id| session(20 + id, "Query", state, "SELECT SLEEP(60)"));
            works.chain((100..130).map(|id| session(id, "Sleep", "", ""))).collect()
        })
        .gauge("Threads_connected", 45.0)
        .each(move |at_s, server, _| {
            if let Reading::Available { value: status, .. } = &mut server.status
                && !is_full(at_s as usize)
            {
                status.insert("Threadpool_threads", "8");
            }
        })
}

#[test]
fn a_pool_that_is_full_in_a_part_of_the_samples_is_starved_for_that_part_of_the_time() {
    let finding = found(&full_in(|at| at >= 7, 15, "User sleep").window()).unwrap();
    assert_eq!(
        finding.headline,
        "All 16 threads of the pool are taken in 36 % of the samples, most by sessions that wait (SLEEP()): 30 of 45 connections have \
         none then"
    );
    assert!((finding.score - 4.0 / 11.0 * 30.0 / 45.0).abs() < 1e-9, "{}", finding.score);
    // A moment alone; threads that run; threads that are left from a moment that is over.
    assert_eq!(found(&full_in(|at| at == 7, 15, "User sleep").window()), None);
    assert_eq!(found(&full_in(|at| at >= 7, 15, "Sending data").window()), None);
    assert_eq!(found(&full_in(|at| at >= 7, 8, "User sleep").window()), None);
    // Questions that waited are asked there, too.
    let late = found(&full_in(|at| at >= 7, 2, "User sleep").late(4, 1_800.0).window()).unwrap();
    assert!(late.headline.contains("again and again: 4 of spindoctor's own"), "{}", late.headline);
    // Of one sample alone: they may have waited for something else.
    assert_eq!(found(&full_in(|at| at == 7, 2, "User sleep").late(4, 1_800.0).window()), None);
}

/// In half of the snapshots all are taken, in the others most are free.
#[test]
fn a_pool_that_is_full_in_turns_has_no_room_for_the_questions_that_waited() {
    let of = |taken_in: fn(u32) -> bool| {
        let build = pool(0, "").only_snapshots(&[(2, Epoll, LISTENS), (10, Condition, FREE)]);
        let mut window = build.late(4, 1_800.0).window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        profile.observations.retain(|one| one.thread < 2 || !taken_in(one.snapshot));
        found(&window)
    };
    assert!(of(|at| at < 10).is_some());
    assert_eq!(of(|_| false), None);
}

#[test]
fn cpus_that_others_or_a_quota_have_are_not_left_over() {
    // The two CPUs that it may use are full, the other six are idle.
    let on_two = |busy| one_group(1).host_cpu(2.5, 5.5).runs(0.9, 0.1).confined(2, 8, Some(busy));
    assert!(found(&on_two(0.9).window()).is_some());
    assert_eq!(found(&on_two(1.95).window()), None);
    // Four statements run on four CPUs, of which the host's count is lower.
    assert_eq!(found(&one_group(4).window()), None);
}

#[test]
fn the_lock_that_they_wait_for_stands_before_it() {
    let window = pool(15, "Waiting for table metadata lock").window();
    let causes: Vec<String> =
        crate::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
    assert_eq!(causes[..2], ["metadata-lock-pileup", CAUSE.name]);
}

/// A thread of the pool in a session that sleeps, one that listens for its group, and one that is free, as MariaDB 10.11's
/// packages name them.
const SLEEPS: &[&str] = &[
    "___pthread_cond_timedwait64",
    "Interruptible_wait::wait",
    "Item_func_sleep::val_int",
    "mysql_execute_command",
    "dispatch_command",
    "do_command",
    "tp_callback",
    "mariadbd+0xbe257d",
];
const LISTENS: &[&str] = &["epoll_wait", "io_poll_wait", "get_event", "mariadbd+0xbe25cd"];
const FREE: &[&str] = &["___pthread_cond_timedwait64", "get_event", "mariadbd+0xbe25cd"];

#[test]
fn sessions_that_sleep_in_step_are_seen_by_their_stacks_where_the_list_is_of_the_good_moments() {
    let in_step = |sleeping: u32, free: u32| {
        let build = pool(0, "").only_snapshots(&[
            (sleeping, Condition, SLEEPS),
            (2, Epoll, LISTENS),
            (free, Condition, FREE),
        ]);
        found(&build.window())
    };
    let finding = in_step(14, 0).unwrap();
    assert!(finding.headline.contains("(SLEEP()): 16 of 30 connections have none"), "{}", finding.headline);
    assert_eq!(in_step(4, 10), None);
}

#[test]
fn what_its_own_questions_took_says_it_where_no_stacks_were_taken() {
    let of = |late: usize| found(&pool(0, "").late(late, 1_800.0).window());
    let finding = of(4).unwrap();
    assert!(finding.headline.contains("4 of spindoctor's own"), "{}", finding.headline);
    assert!((finding.score - 0.72).abs() < 0.01, "{}", finding.score);
    assert_eq!(of(1), None);
    // Threads that run are another matter.
    assert_eq!(found(&pool(13, "Sending data").late(4, 1_800.0).window()), None);
}

#[test]
fn a_status_alone_says_that_the_limit_is_reached_and_no_thread_is_idle() {
    use spindoctor_model::window::NOT_GIVEN;
    let of = |threads: f64, idle: f64, is_given: bool| {
        let build = pool(0, "").gauge("Threadpool_threads", threads).gauge("Threadpool_idle_threads", idle);
        let mut window = build.window();
        window.samples.truncate(1);
        window.samples[0].server.threads = Reading::NotAsked;
        if is_given {
            window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
        }
        found(&window)
    };
    let finding = of(16.0, 0.0, true).unwrap();
    assert!(
        finding.headline.starts_with("All 16 threads of the pool are taken, and none is idle"),
        "{}",
        finding.headline
    );
    assert_eq!(finding.severity, spindoctor_model::Severity::Warning);
    assert!(finding.remedies[0].statement.starts_with("SHOW FULL PROCESSLIST"));
    for (threads, idle, is_given) in [(16.0, 2.0, true), (15.0, 0.0, true), (16.0, 0.0, false)] {
        assert_eq!(of(threads, idle, is_given), None, "{threads} {idle} {is_given}");
    }
}

#[test]
fn a_pool_that_answers_no_login_is_seen_by_its_stacks() {
    const WAITS: &[&str] = &[
        "lock_wait",
        "row_search_mvcc",
        "dispatch_command",
        "do_command",
        "threadpool_process_request",
        "worker_main",
    ];
    let silent = |waits: &[&str], free: u32| {
        let build = Build::busy("10.11.19-MariaDB").no_session(NoSessionKind::Silent);
        build.only_snapshots(&[(8, Lock, waits), (1, Epoll, LISTENS), (free, Condition, FREE)]).window()
    };
    for waits in [WAITS, SLEEPS] {
        let finding = found(&silent(waits, 0)).unwrap();
        assert!(finding.headline.starts_with("No thread of the pool is free"), "{}", finding.headline);
        let larger = &finding.remedies[0];
        assert!(larger.statement.contains("through extra_port"), "{larger:?}");
        assert_eq!(larger.risk, RISK);
        assert_eq!(found(&silent(waits, 3)), None);
    }
}
