//! Windows of CPUs that are full, and tests of what is said of them.

use spindoctor_model::Reading;
use spindoctor_model::host::{OtherProgram, ProcessStat};
use spindoctor_model::stack::ThreadState;

use super::*;
use crate::testing::{Build, answer, session};

pub(crate) fn fires() -> Window {
    let sessions = |_| (311..327).map(|id| session(id, "Query", "executing", "SELECT 1")).collect();
    Build::busy("9.7.4").sessions(sessions).without_profile().runs(3.6, 36.0).host_cpu(3.8, 0.2).window()
}

#[test]
fn cpus_that_are_well_used_are_a_note() {
    let severity = |queued| {
        let window = Build::busy("9.7.4").runs(3.8, queued).host_cpu(3.8, 0.2).window();
        match evaluate(&window) {
            Outcome::Fired(finding) => Some(finding.severity),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    // Two clients for each CPU, four, eight, and sixteen.
    assert_eq!(severity(4.2), Some(spindoctor_model::Severity::Note));
    assert_eq!(severity(12.2), Some(spindoctor_model::Severity::Note));
    assert_eq!(severity(28.2), Some(spindoctor_model::Severity::Warning));
    assert_eq!(severity(60.2), Some(spindoctor_model::Severity::Critical));
}

/// The same queue, but it is others who keep the CPUs busy.
pub(crate) fn near_miss() -> Window {
    Build::busy("9.7.4").runs(1.2, 12.0).host_cpu(3.9, 0.1).window()
}

/// A remote server.
pub(crate) fn missing() -> Window {
    Build::busy("9.7.4").remote().window()
}

#[test]
fn whatever_part_of_the_busy_cpus_is_the_servers_a_queue_for_them_has_a_name() {
    for running in [0.4, 1.0, 1.5, 1.7, 1.9, 2.3, 3.0, 3.9] {
        let window = Build::busy("9.7.4").runs(running, 24.0).host_cpu(3.95, 0.05).window();
        let neighbour = matches!(noisy_neighbour::CAUSE.evaluate(&window, None), Outcome::Fired(_));
        let saturated = matches!(evaluate(&window), Outcome::Fired(_));
        assert!(neighbour || saturated, "{running} CPUs of 3.95");
    }
}

/// Two of eight CPUs are the server's, which are full while the host is mostly idle.
#[test]
fn a_queue_for_a_part_of_the_cpus_has_a_name_too() {
    for running in [0.2, 0.6, 0.9, 1.2, 1.9] {
        let build = Build::busy("9.7.4").runs(running, 24.0).host_cpu(2.5, 5.5);
        let window = build.confined(2, 8, Some(1.98)).window();
        let neighbour = matches!(noisy_neighbour::CAUSE.evaluate(&window, None), Outcome::Fired(_));
        let saturated = matches!(evaluate(&window), Outcome::Fired(_));
        assert!(neighbour || saturated, "{running} CPUs of 1.98");
    }
}

#[test]
fn cpus_that_the_server_may_not_use_do_not_make_its_own_full() {
    let of = |busy| {
        let build = Build::busy("9.7.4").runs(1.6, 12.0).host_cpu(3.7, 0.3);
        matches!(evaluate(&build.confined(2, 4, Some(busy)).window()), Outcome::Fired(_))
    };
    assert!(of(1.95));
    assert!(!of(1.65));
}

/// The server has a third of its two CPUs, and its clients six others.
#[test]
fn clients_on_cpus_that_the_server_may_not_use_do_not_make_its_own_full() {
    let clients = OtherProgram {
        name: "sysbench".into(),
        processes: 1,
        cpus: 6.0,
        is_client: Some(true),
        ..OtherProgram::default()
    };
    let build = Build::busy("9.7.4").runs(0.7, 24.0).host_cpu(6.9, 1.1).confined(2, 8, Some(2.0));
    assert_eq!(evaluate(&build.other_programs(&[clients]).window()), Outcome::Clear);
}

#[test]
fn others_that_have_a_good_part_of_the_cpus_are_mentioned() {
    let mention = |running| {
        let window = Build::busy("9.7.4").runs(running, 24.0).host_cpu(3.95, 0.05).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        let is_bounded = finding.remedies.iter().any(|remedy| remedy.statement.contains("CPUWeight"));
        assert_eq!(finding.why.contains("Other programs"), is_bounded);
        finding.why.contains("Other programs have 2.2 CPUs")
    };
    assert!(mention(1.75));
    assert!(!mention(3.6));
}

#[test]
fn other_virtual_machines_are_no_programs() {
    let build = Build::busy("9.7.4").runs(1.75, 24.0).host_cpu(1.75, 0.05).each(|at_s, _, host| {
        if let Reading::Available { value, .. } = &mut host.cpu_times {
            value.steal_us = (2.2 * at_s * 1e6) as u64;
        }
    });
    let Outcome::Fired(finding) = evaluate(&build.window()) else { panic!() };
    assert!(finding.why.contains("Other virtual machines have 2.2 CPUs (steal)"), "{}", finding.why);
    assert!(!finding.why.contains("Other programs"), "{}", finding.why);
    let statements = finding.remedies.iter().map(|remedy| &remedy.statement);
    assert!(statements.clone().any(|statement| statement.starts_with("Look at the instance's CPU credits")));
    assert!(!statements.clone().any(|statement| statement.contains("CPUWeight")));
}

#[test]
fn a_recording_has_schedstat_once_and_snapshots_show_the_queue() {
    const READS: &[&str] = &["row_search_mvcc", "dispatch_command"];
    let window = |runnable: &[(u32, ThreadState, &[&str])]| {
        Build::busy("9.7.4")
            .host_cpu(3.8, 0.2)
            .each(|at_s, _, host| {
                host.threads = if at_s < 1.0 { answer(at_s, Vec::new()) } else { Reading::NotAsked };
                let user_us = (3.6 * at_s * 1e6) as u64;
                host.process = answer(at_s, ProcessStat { user_us, ..ProcessStat::default() });
            })
            .only_snapshots(runnable)
            .window()
    };
    let queue = [(4, ThreadState::Running, READS), (8, ThreadState::Runnable, READS)];
    let Outcome::Fired(finding) = evaluate(&window(&queue)) else { panic!() };
    assert!(finding.headline.starts_with("12 threads want to run"), "{}", finding.headline);
    let waiting = [(4, ThreadState::Running, READS), (8, ThreadState::Lock, READS)];
    assert_eq!(evaluate(&window(&waiting)), Outcome::Clear);
}

#[test]
fn a_statement_that_runs_on_is_named_with_its_plan_and_its_end() {
    let join = "SELECT COUNT(*) FROM orders x JOIN orders y ON x.note < y.note";
    let window = |version: &str, time_s: f64| {
        let sessions = |_| {
            (311..315).map(|id| ServerThread { time_s, ..session(id, "Query", "executing", join) }).collect()
        };
        Build::busy(version).sessions(sessions).runs(3.6, 36.0).host_cpu(3.8, 0.2).window()
    };
    let found = |version: &str, time_s: f64| {
        let Outcome::Fired(finding) = evaluate(&window(version, time_s)) else { panic!() };
        let asked: Vec<String> =
            finding.remedies.iter().map(|remedy| remedy.statement.clone()).take(2).collect();
        let seen = finding.evidence.iter().find(|one| one.reading.contains("seen most")).cloned();
        let Some(spindoctor_model::Value::Text(seen)) = seen.map(|one| one.value) else { panic!() };
        (asked, seen)
    };
    let (asked, seen) = found("9.7.4", 340.0);
    assert!(asked[0].starts_with("EXPLAIN FOR CONNECTION 31"), "{asked:?}");
    assert!(asked[1].starts_with("KILL QUERY 31"), "{asked:?}");
    assert!(seen.contains("FROM orders x") && seen.contains("for 5 min 40 s"), "{seen}");
    assert!(found("10.11.19-MariaDB", 340.0).0[0].starts_with("SHOW EXPLAIN FOR 31"));
    assert!(found("5.6.14", 340.0).0[0].starts_with("KILL QUERY 31"));
    let (asked, seen) = found("9.7.4", 0.0);
    assert!(
        asked[0].starts_with("Look at the costliest") && !seen.contains("connection"),
        "{asked:?} {seen}"
    );
}

#[test]
fn runs_of_an_event_are_said_to_be_such_and_the_event_is_disabled_before_any_is_ended() {
    let join = "SELECT COUNT(*) FROM orders x JOIN orders y ON x.note < y.note";
    let found_apart = |version: &str, name: &str, command: &str, apart_s: f64| {
        let sessions = |second: usize| {
            let ids = 20..24 + second as u64;
            let run = |id: u64| ServerThread {
                name: name.into(),
                time_s: 340.0 - apart_s * (id - 20) as f64,
                ..session(id, command, "executing", join)
            };
            ids.map(run).collect()
        };
        let window = Build::busy(version).sessions(sessions).runs(3.8, 8.2).host_cpu(3.8, 0.2).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!("it fires") };
        finding
    };
    let found = |version: &str, name: &str, command: &str| found_apart(version, name, command, 1.0);
    let of_event =
        [found("9.7.4", "thread/sql/event_worker", "Connect"), found("10.11.19-MariaDB", "", "Connect")];
    for finding in of_event {
        assert!(finding.headline.ends_with(", in runs of an event of the scheduler"), "{}", finding.headline);
        assert!(finding.why.contains("4 at once in the first list of threads"), "{}", finding.why);
        let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert!(statements[0].contains("FROM information_schema.EVENTS"), "{statements:?}");
        assert!(statements[0].contains("ALTER EVENT ... DISABLE"), "{statements:?}");
        let kill = finding.remedies.iter().find(|remedy| remedy.statement.starts_with("KILL QUERY"));
        assert!(kill.is_some_and(|kill| kill.why.contains("Once the event is disabled")), "{statements:?}");
    }
    let of_clients =
        [found("9.7.4", "thread/sql/one_connection", "Query"), found("10.11.19-MariaDB", "", "Query")];
    for finding in of_clients {
        let said = format!("{finding:?}");
        assert!(!said.contains("event of the scheduler") && !said.contains("ALTER EVENT"), "{said}");
    }
    // Several events that begin at one time.
    let at_one_time = found_apart("9.7.4", "thread/sql/event_worker", "Connect", 0.0);
    assert!(!at_one_time.headline.contains("event"), "{}", at_one_time.headline);
}

/// CPUs that many short statements fill are well used; one that takes long could take less.
#[test]
fn one_statement_that_takes_long_and_fills_the_cpus_is_a_warning() {
    const SORTS: &str = "SELECT note FROM orders ORDER BY note LIMIT 10";
    let of = |build: Build| {
        let sessions = |_| (20..26).map(|id| session(id, "Query", "executing", SORTS)).collect();
        let window = build.sessions(sessions).runs(3.8, 8.2).host_cpu(3.8, 0.2).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!("it fires") };
        (finding.severity, finding.headline)
    };
    let text = "SELECT `note` FROM `orders` ORDER BY `note` LIMIT ?";
    let summary = |us| Build::busy("9.7.4").digest(text, 20.0, us, 1.0, 1.0);
    let without = |questions| {
        Build::busy("9.7.4").counter("Questions", questions).each(|_, server, _| {
            server.digests = Reading::NotAsked;
        })
    };
    for long in [summary(300_000.0), without(20.0)] {
        let (severity, headline) = of(long);
        assert_eq!(severity, spindoctor_model::Severity::Warning);
        assert_eq!(
            headline,
            "12 threads want to run on 4 CPUs; seen most: SELECT note FROM orders ORDER BY note LIMIT ?"
        );
    }
    // Of the third, procedures that were called 20 times a second run it 6,000 times.
    for short in [summary(900.0), without(6_000.0), without(20.0).counter("Queries", 6_000.0)] {
        let (severity, headline) = of(short);
        assert_eq!(severity, spindoctor_model::Severity::Note);
        assert_eq!(headline, "12 threads want to run on 4 CPUs");
    }
}

#[test]
fn busy_cpus_without_a_queue_are_clear() {
    let window = Build::busy("9.7.4").runs(3.7, 1.0).host_cpu(3.8, 0.2).window();
    assert_eq!(evaluate(&window), Outcome::Clear);
}

#[test]
fn a_used_up_quota_is_another_cause() {
    let window = Build::busy("9.7.4").quota(1.0, 4).throttled(90.0, 20.0).runs(1.0, 12.0).window();
    assert_eq!(evaluate(&window), Outcome::Clear);
}

#[test]
fn mariadb_gets_no_setting_that_does_nothing() {
    let window = Build::busy("10.11.19-MariaDB")
        .variable("innodb_thread_concurrency", "0")
        .runs(3.6, 12.0)
        .host_cpu(3.8, 0.2)
        .window();
    let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
    assert_eq!(finding.remedies.len(), 1);
}
