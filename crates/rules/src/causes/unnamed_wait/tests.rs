//! Waits that no cause names, of many sessions and of few, and what is ordinary.

use spindoctor_model::Reading;

use super::*;
use crate::causes::connections_exhausted;
use crate::testing::{Build, session};

fn listed(count: u64, state: &'static str) -> Build {
    let sessions = move |_| (0..count).map(|at| session(20 + at, "Query", state, "SELECT 1")).collect();
    Build::busy("8.0.36").sessions(sessions).remote().without_profile()
}

/// Forty sessions wait for a transaction of the source to be applied.
pub(crate) fn fires() -> Window {
    listed(40, "Waiting for GTID to be committed").window()
}

/// They sleep on purpose.
pub(crate) fn near_miss() -> Window {
    listed(40, "User sleep").window()
}

/// The server's threads could not be listed, and no stack was taken.
pub(crate) fn missing() -> Window {
    listed(40, "Waiting for GTID to be committed")
        .each(|_, server, _| server.threads = Reading::NotAsked)
        .window()
}

#[test]
fn killed_sessions_that_are_not_gone_are_a_note_and_not_called_running() {
    let sessions = |_| (0..40).map(|at| session(20 + at, "Killed", "killed", "")).collect();
    let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
    let findings = crate::diagnose(&window).findings;
    let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
    assert!(finding.headline.contains("sessions were killed and are not gone"), "{}", finding.headline);
    assert_eq!(finding.severity, Severity::Note);
    assert!(finding.why.contains("undone first"), "{}", finding.why);
}

#[test]
fn a_server_that_answers_late_is_never_met_with_silence() {
    use crate::testing::Build;
    let found = |late, ms, build: Build| crate::diagnose(&build.late(late, ms).window()).findings;
    let at_rest = || Build::busy("8.0.36").sessions(|_| vec![session(20, "Sleep", "", "")]).without_profile();
    assert_eq!(found(3, 600.0, at_rest()), [], "beside builds");
    for (late, severity) in [(1, Severity::Note), (3, Severity::Warning)] {
        for build in [at_rest(), at_rest().remote(), Build::busy("10.11.19-MariaDB")] {
            let findings = found(late, 1_900.0, build);
            assert_eq!((findings[0].cause.as_str(), findings[0].severity), (CAUSE.name, severity));
        }
    }
    let findings = found(3, 1_900.0, at_rest().host_cpu(4.0, 0.0));
    assert_eq!(findings[0].severity, Severity::Note, "{findings:#?}");
}

#[test]
fn logins_that_do_not_end_are_a_queue_and_no_work() {
    let found = |count: u64| {
        let sessions = move |_| (0..count).map(|at| session(20 + at, "Connect", "login", "")).collect();
        let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().late(1, 1_400.0);
        crate::diagnose(&window.window()).findings
    };
    let findings = found(80);
    assert_eq!((findings[0].cause.as_str(), findings[0].severity), (CAUSE.name, Severity::Critical));
    assert!(findings[0].headline.contains("80 sessions are in `login`"), "{}", findings[0].headline);
    assert!(findings[0].remedies[0].why.contains("connect_timeout"));
    assert!(found(8).iter().all(|finding| finding.severity == Severity::Note));
}

#[test]
fn commits_of_which_none_ends_are_a_queue_and_commits_that_end_are_work() {
    let found = |changes_per_s: f64| {
        let sessions = |_| {
            (20..32)
                .map(|id| session(id, "Query", "waiting for handler commit", "UPDATE t SET a = 1"))
                .collect()
        };
        let quiet = ["Com_commit", "Com_insert", "Com_delete", "Com_replace"];
        let build = quiet.iter().fold(Build::busy("8.0.36"), |build, name| build.counter(name, 0.0));
        let window = build.counter("Com_update", changes_per_s).sessions(sessions).remote().without_profile();
        crate::diagnose(&window.window()).findings
    };
    let findings = found(0.0);
    assert_eq!((findings[0].cause.as_str(), findings[0].severity), (CAUSE.name, Severity::Critical));
    assert!(found(40.0).iter().all(|finding| finding.severity == Severity::Note), "{:#?}", found(40.0));
}

#[test]
fn a_third_of_the_time_of_few_sessions_is_a_note_and_a_tenth_of_it_is_none() {
    let found = |every: usize| {
        let sessions = move |at: usize| {
            let state =
                if at.is_multiple_of(every) { "Waiting for GTID to be committed" } else { "executing" };
            vec![session(20, "Query", state, "SELECT 1")]
        };
        let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
        crate::diagnose(&window).findings
    };
    let findings = found(3);
    assert_eq!(
        findings.iter().map(|found| (found.cause.as_str(), found.severity)).collect::<Vec<_>>(),
        [(CAUSE.name, Severity::Note)]
    );
    assert!(findings[0].headline.contains("% of the session time"), "{}", findings[0].headline);
    assert_eq!(found(10), []);
}

#[test]
fn a_tenth_of_the_time_in_latches_is_a_note_and_a_quarter_is_none() {
    use spindoctor_model::stack::ThreadState;
    let severity = |waiting| {
        let frames: &[&str] = &["sync_array_wait_event", "row_upd", "dispatch_command", "do_command"];
        let runs: &[&str] = &["row_upd", "dispatch_command", "do_command"];
        let window = Build::busy("8.0.36").remote().only_snapshots(&[
            (waiting, ThreadState::Lock, frames),
            (40 - waiting, ThreadState::Running, runs),
        ]);
        let findings = crate::diagnose(&window.window()).findings;
        findings.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.severity)
    };
    assert_eq!(severity(4), Some(Severity::Note));
    assert_eq!(severity(10), Some(Severity::Critical));
}

#[test]
fn commits_behind_the_one_that_writes_for_myrocks_are_said_to_be() {
    let share = |place: &str| TimeShare {
        class: TimeClass::Commit,
        share: 0.9,
        known_by: KnownBy::Stack,
        seen: vec![(format!("{place} < ha_commit_trans"), 0.9)],
    };
    let window = Build::busy("8.0.36").window();
    let behind = share("std::condition_variable::wait < rocksdb::WriteThread::BlockingAwaitState");
    assert!(why(&behind, None).starts_with("They wait in MyRocks"), "{}", why(&behind, None));
    assert!(look(&window, &behind).statement.contains("rocksdb_stall"));
    let other = share("Stage_manager::enroll_for");
    assert!(!why(&other, None).contains("MyRocks"), "{}", why(&other, None));
    assert!(!look(&window, &other).statement.contains("rocksdb"));
}

#[test]
fn who_is_ready_and_has_no_cpu_waits_for_one_thing() {
    let of = |queue: f64, taken: f64| {
        let share = |class, share| TimeShare { class, share, known_by: KnownBy::Counter, seen: Vec::new() };
        let time = SessionTime {
            session_seconds_per_second: 6.0,
            classes: vec![
                share(TimeClass::CpuQueue, queue),
                share(TimeClass::CpuTaken, taken),
                share(TimeClass::Cpu, 1.0 - queue - taken),
            ],
            ..SessionTime::default()
        };
        let window = Build::busy("8.0.36").window();
        match evaluate(&window, &time, &[]) {
            Outcome::Fired(finding) => Some(finding.severity),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    assert_eq!(of(0.4, 0.28), Some(Severity::Note));
    assert_eq!(of(0.3, 0.1), None);
}

#[test]
fn of_equal_reads_in_a_list_alone_the_plan_is_the_first_thing_to_look_at() {
    let of = |version: &str, statement: &'static str, is_given: bool| {
        let sessions =
            move |_| (0..6).map(|at| session(20 + at, "Query", "Sending data", statement)).collect();
        let mut window = Build::busy(version).sessions(sessions).remote().without_profile().window();
        if is_given {
            window.server.no_pid =
                Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        }
        let time = crate::session_time(&window).unwrap();
        let Outcome::Fired(finding) = evaluate(&window, &time, &[]) else { panic!("{time:?}") };
        finding.remedies[0].statement.clone()
    };
    let read = "SELECT note FROM parcels WHERE weight > 7";
    for (version, wanted) in [
        ("8.0.36", "EXPLAIN FOR CONNECTION 2"),
        ("11.4.2-MariaDB", "EXPLAIN FOR CONNECTION 2"),
        ("10.6.11-MariaDB", "SHOW EXPLAIN FOR 2"),
        ("5.6.51", "EXPLAIN, and the statement with its values: SELECT note FROM parcels WHERE"),
    ] {
        let first = of(version, read, true);
        assert!(first.starts_with(wanted), "{version}: {first}");
        assert!(!of(version, read, false).starts_with("EXPLAIN"), "{version}");
    }
    assert!(!of("8.0.36", "UPDATE parcels SET weight = 1", true).contains("EXPLAIN"));
}

#[test]
fn of_sessions_that_run_by_their_stacks_it_is_said_where_they_stand_and_no_stacks_are_asked_for() {
    let of = |known_by| {
        let seen = vec![("pack_parcels < send_parcels".to_owned(), 0.8)];
        let share = TimeShare { class: TimeClass::Running, share: 0.9, known_by, seen };
        let mut window = Build::busy("8.0.36").window();
        window.server.no_pid =
            Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        (why(&share, None), look(&window, &share).statement)
    };
    let (why, statement) = of(KnownBy::Stack);
    assert!(why.contains("pack_parcels < send_parcels") && !why.contains("process list"), "{why}");
    assert!(!statement.contains("gdb"), "{statement}");
    let (why, statement) = of(KnownBy::List);
    assert!(why.contains("clocks and stacks") && statement.contains("gdb"), "{why} {statement}");
}

#[test]
fn a_place_that_few_were_seen_in_has_no_share_of_nothing() {
    let seen = vec![("os_aio_wait".to_owned(), 0.597), ("fts_sync".to_owned(), 0.003)];
    let share = TimeShare { class: TimeClass::Other, share: 0.6, known_by: KnownBy::Stack, seen };
    let time =
        SessionTime { session_seconds_per_second: 40.0, classes: vec![share], ..SessionTime::default() };
    let Outcome::Fired(finding) = evaluate(&Build::busy("8.0.36").window(), &time, &[]) else { panic!() };
    let shown: Vec<String> = finding
        .evidence
        .iter()
        .filter(|one| one.reading == "seen there")
        .map(|one| format!("{:?}", one.value))
        .collect();
    assert!(
        shown[0].contains("60 % os_aio_wait") && shown[1].contains("less than 1 % fts_sync"),
        "{shown:?}"
    );
}

fn time_of(sessions: f64, classes: &[(TimeClass, f64)]) -> SessionTime {
    let share = |&(class, share): &(TimeClass, f64)| TimeShare {
        class,
        share,
        known_by: KnownBy::List,
        seen: Vec::new(),
    };
    SessionTime {
        session_seconds_per_second: sessions,
        classes: classes.iter().map(share).collect(),
        ..SessionTime::default()
    }
}

#[test]
fn a_lock_that_few_wait_for_is_a_note_where_a_latch_that_few_wait_for_is_none() {
    let severity = |sessions, class, share| {
        let time = time_of(sessions, &[(class, share), (TimeClass::Cpu, 1.0 - share)]);
        match evaluate(&Build::busy("8.0.36").window(), &time, &[]) {
            Outcome::Fired(finding) => Some(finding.severity),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    assert_eq!(severity(0.2, TimeClass::RowLock, 0.48), Some(Severity::Note));
    assert_eq!(severity(0.1, TimeClass::RowLock, 0.3), None);
    assert_eq!(severity(0.2, TimeClass::Latch, 0.48), None);
}

#[test]
fn beside_another_finding_clients_that_take_their_rows_slowly_are_a_note() {
    use crate::causes::row_lock_pileup;
    let noted = |network| {
        let time = time_of(19.0, &[(TimeClass::RowLock, 0.65), (TimeClass::Network, network)]);
        let locked = Draft::new(&row_lock_pileup::CAUSE, 0.65, "13 sessions wait").finding();
        match evaluate(&Build::busy("8.0.36").window(), &time, &[locked]) {
            Outcome::Fired(finding) => Some((finding.severity, finding.headline)),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    let (severity, headline) = noted(0.31).unwrap();
    assert_eq!(severity, Severity::Note);
    assert!(headline.contains("wait for their client"), "{headline}");
    assert_eq!(noted(0.1), None);
}

#[test]
fn beside_another_finding_commits_are_a_note_and_commits_of_which_none_ends_a_warning() {
    let noted = |changes_per_s: f64, class| {
        let quiet = ["Com_commit", "Com_insert", "Com_delete", "Com_replace"];
        let build = quiet.iter().fold(Build::busy("8.0.36"), |build, name| build.counter(name, 0.0));
        let window = build.counter("Com_update", changes_per_s).window();
        let time = time_of(20.0, &[(class, 0.8), (TimeClass::Cpu, 0.2)]);
        let full = Draft::new(&connections_exhausted::CAUSE, WARNING_FROM, "138 of 151 are taken").finding();
        match evaluate(&window, &time, &[full]) {
            Outcome::Fired(finding) => Some((finding.severity, finding.headline)),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    let (severity, headline) = noted(400.0, TimeClass::Commit).unwrap();
    assert!(severity == Severity::Note && headline.contains("`commit`"), "{headline}");
    assert_eq!(noted(0.0, TimeClass::Commit).unwrap().0, Severity::Warning);
    assert_eq!(noted(400.0, TimeClass::Read).unwrap().0, Severity::Note);
    // What the list calls running says nothing beside a finding.
    assert_eq!(noted(400.0, TimeClass::Running), None);
}

#[test]
fn logins_that_wait_for_a_name_server_are_why_the_connections_are_used_up() {
    use spindoctor_model::stack::ThreadState;
    let asks: &[&str] = &[
        "poll",
        "send_dg",
        "__res_nsend",
        "getnameinfo",
        "ip_to_hostname",
        "check_connection",
        "login_connection",
        "handle_connection",
    ];
    let reads: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];
    let full = || {
        Build::busy("8.0.36")
            .gauge("Threads_connected", 152.0)
            .counter("Connections", 5.0)
            .counter("Connection_errors_max_connections", 20.0)
    };
    // Alone, and where most of the sessions that are logged in work.
    for (waiting, working) in [(40, 0), (12, 30)] {
        let logins = (waiting, ThreadState::NetworkIdle, asks);
        let window = full().only_snapshots(&[logins, (working, ThreadState::Running, reads)]).window();
        let findings = crate::diagnose(&window).findings;
        let first = &findings[0];
        assert_eq!(first.cause, CAUSE.name, "{findings:#?}");
        assert!(first.headline.contains("name server"), "{}", first.headline);
        assert!(first.explains.contains(&connections_exhausted::CAUSE.name.to_owned()), "{first:#?}");
        assert!(findings.iter().any(|finding| finding.cause == connections_exhausted::CAUSE.name));
    }
}

#[test]
fn logins_are_hung_where_each_takes_a_second_and_not_where_many_take_little() {
    use crate::causes::row_lock_pileup;
    let found = |logins_per_s: f64, seen: &str| {
        let window = Build::busy("8.0.36").counter("Connections", logins_per_s).window();
        let mut time = time_of(100.0, &[(TimeClass::RowLock, 0.6), (TimeClass::Login, 0.3)]);
        time.classes[1].seen = vec![(seen.to_owned(), 0.3)];
        let locked = Draft::new(&row_lock_pileup::CAUSE, 0.6, "60 sessions wait").finding();
        match evaluate(&window, &time, &[locked]) {
            Outcome::Fired(finding) => Some((finding.severity, finding.headline)),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    let asks = "poll < ldap_result < ldap_simple_bind_s";
    let (severity, headline) = found(2.0, asks).unwrap();
    assert!(severity == Severity::Critical && headline.contains("a plugin"), "{headline}");
    assert_eq!(found(400.0, asks), None);
    assert_eq!(found(2.0, "vio_io_wait < vio_read"), None);
}

#[test]
fn what_the_sessions_stand_in_is_said_where_the_server_answers_late_too() {
    let time = time_of(9.0, &[(TimeClass::Commit, 0.9), (TimeClass::Cpu, 0.1)]);
    let window = Build::busy("10.5.23-MariaDB").late(6, 1_800.0).window();
    let Outcome::Fired(finding) = evaluate(&window, &time, &[]) else { panic!() };
    assert!(finding.headline.contains("`commit`"), "{}", finding.headline);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.why.contains("the longest 1.8 s"), "{}", finding.why);
}

#[test]
fn a_name_server_that_does_not_answer_and_clients_that_take_their_rows_slowly_are_more_than_a_note() {
    let severity = |class, seen: &str, sessions| {
        let seen = vec![(seen.to_owned(), 0.99)];
        let share = TimeShare { class, share: 0.99, known_by: KnownBy::Stack, seen };
        let time = SessionTime {
            session_seconds_per_second: sessions,
            classes: vec![share],
            ..SessionTime::default()
        };
        match evaluate(&Build::busy("8.0.36").window(), &time, &[]) {
            Outcome::Fired(finding) => Some(finding.severity),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    let resolver = "__GI___poll < send_dg < __GI___res_context_send";
    assert_eq!(severity(TimeClass::Login, resolver, 12.0), Some(Severity::Critical));
    assert_eq!(severity(TimeClass::Login, "login_connection", 12.0), Some(Severity::Note));
    assert_eq!(severity(TimeClass::Network, "net_write_packet", 8.0), Some(Severity::Warning));
    assert_eq!(severity(TimeClass::Network, "net_write_packet", 1.0), None);
}

#[test]
fn a_list_without_connections_names_none() {
    let of = |has_ids: bool| {
        let mut window = listed(40, "Waiting for GTID to be committed").window();
        window.server.no_pid =
            Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        for sample in &mut window.samples {
            let Reading::Available { value: threads, .. } = &mut sample.server.threads else { panic!() };
            threads.iter_mut().filter(|_| !has_ids).for_each(|thread| thread.connection_id = None);
        }
        match commonest(&window).unwrap().value {
            spindoctor_model::Value::Text(text) => text,
            spindoctor_model::Value::Number(number) => panic!("{number}"),
        }
    };
    assert!(of(true).ends_with(" and more)"), "{}", of(true));
    assert!(!of(false).contains('('), "{}", of(false));
}

#[test]
fn a_client_that_takes_its_rows_slowly_is_said_to_be_the_reason() {
    use spindoctor_model::stack::ThreadState;
    let sends: &[&str] =
        &["__poll", "vio_socket_io_wait", "net_write_packet", "dispatch_command", "do_command"];
    let window = Build::busy("8.0.36").remote().only_snapshots(&[(6, ThreadState::NetworkIdle, sends)]);
    let findings = crate::diagnose(&window.window()).findings;
    assert!(findings[0].headline.contains("wait for their client"), "{findings:#?}");
    assert!(findings[0].remedies[0].statement.contains("ss -tmn"), "{findings:#?}");
}

#[test]
fn who_waits_for_another_server_or_for_a_pipe_does_not_wait_for_its_client() {
    use spindoctor_model::stack::ThreadState;
    let first = |frames: &[&str]| {
        let frames = [frames, &["dispatch_command", "do_command"]].concat();
        let window = Build::busy("8.0.36").remote().only_snapshots(&[(
            10,
            ThreadState::NetworkIdle,
            frames.as_slice(),
        )]);
        crate::diagnose(&window.window()).findings.remove(0)
    };
    let asks = first(&[
        "__poll",
        "vio_io_wait",
        "vio_read",
        "net_read_raw_loop",
        "my_net_read",
        "cli_safe_read",
        "mysql_real_query",
        "ha_federated::rnd_init",
        "handler::ha_rnd_init",
    ]);
    assert!(asks.headline.contains("wait for another server that their statement asks"), "{asks:#?}");
    assert!(asks.why.contains("FEDERATED"), "{}", asks.why);
    assert!(asks.remedies[0].statement.contains("mysql.servers"), "{:?}", asks.remedies);
    let logs = first(&["write", "_IO_new_file_write", "vfprintf", "sql_print_warning", "end_connection"]);
    assert!(logs.headline.contains("write to the error log, which takes nothing"), "{logs:#?}");
    let loads = first(&["read", "my_read", "_my_b_cache_read", "READ_INFO::read_field", "mysql_load"]);
    assert!(loads.headline.contains("the other end of a pipe"), "{loads:#?}");
}
