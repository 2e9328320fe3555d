//! Nodes of Galera that pause, wait for their turn, or wait for a DDL of the whole cluster.

use super::*;
use crate::testing::{Build, session};

/// Twelve sessions in a state; the cluster pauses that part of the time.
fn node(state: &'static str, paused: f64) -> Build {
    let sessions = move |_| (20..32).map(|id| session(id, "Query", state, "COMMIT")).collect();
    Build::busy("10.11.19-MariaDB")
        .sessions(sessions)
        .remote()
        .without_profile()
        .variable("wsrep_on", "ON")
        .counter("wsrep_flow_control_paused_ns", paused * 1e9)
        .counter("wsrep_flow_control_sent", 0.0)
        .counter("wsrep_flow_control_recv", 4.0 * paused)
        .gauge("wsrep_local_recv_queue", 3.0)
        .gauge("wsrep_cluster_size", 3.0)
}

pub(crate) fn fires() -> Window {
    node("Commit", 0.6).window()
}

/// They commit, and the cluster does not pause.
pub(crate) fn near_miss() -> Window {
    node("Commit", 0.01).window()
}

/// The server's threads could not be listed, and no stack was taken.
pub(crate) fn missing() -> Window {
    node("Commit", 0.6).each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked).window()
}

fn headline(window: &Window) -> String {
    let diagnosis = crate::diagnose(window);
    assert_eq!(diagnosis.findings[0].cause, CAUSE.name);
    diagnosis.findings[0].headline.clone()
}

#[test]
fn fewer_than_one_session_is_one_in_some_looks() {
    assert_eq!(who_waits(0.5), "In some looks one session waits");
    assert_eq!(who_waits(1.5), "1.5 sessions wait");
    assert_eq!(who_waits(12.0), "12.0 sessions wait");
}

#[test]
fn which_node_is_slow_is_said_as_far_as_this_one_knows() {
    assert!(headline(&fires()).contains("another node"), "{}", headline(&fires()));
    let this = node("Commit", 0.6).counter("wsrep_flow_control_sent", 2.0).window();
    assert!(headline(&this).contains("this node"), "{}", headline(&this));
    let certified = node("wsrep: replicating and certifying write set(4711)", 0.0).window();
    assert!(headline(&certified).contains("certified"), "{}", headline(&certified));
    for (state, said) in [
        ("Waiting for certification", "certified"),
        ("Waiting for flow control", "flow control holds them"),
        ("Waiting for TOI DDL", "on all nodes at once"),
        ("Waiting to execute in isolation", "on all nodes at once"),
    ] {
        let window = node(state, 0.0).window();
        assert!(headline(&window).contains(said), "{state}: {}", headline(&window));
    }
}

#[test]
fn who_waits_for_its_turn_on_this_node_waits_for_an_earlier_transaction_and_not_for_the_network() {
    use spindoctor_model::stack::ThreadState;
    let found = |function: &'static str| {
        let frames: &[&str] = &[
            "___pthread_cond_wait",
            function,
            "galera::ReplicatorSMM::pre_commit",
            "galera_pre_commit",
            "wsrep_run_wsrep_commit",
            "dispatch_command",
            "do_command",
        ];
        let window =
            Build::busy("5.7.44").remote().only_snapshots(&[(4, ThreadState::Condition, frames)]).window();
        let findings = crate::diagnose(&window).findings;
        findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
    };
    for monitor in ["galera::Monitor::enter", "galera::Monitor<galera::ReplicatorSMM::LocalOrder>::enter"] {
        let finding = found(monitor);
        assert!(finding.headline.contains("an earlier transaction of this node"), "{}", finding.headline);
        assert!(finding.why.contains("not for the network"), "{}", finding.why);
        assert!(finding.remedies[0].statement.contains("first in the order"), "{finding:#?}");
    }
    let certified = found("galera::ReplicatorSMM::certify");
    assert!(certified.remedies[0].statement.contains("network between"), "{certified:#?}");
}

#[test]
fn a_ddl_at_work_for_long_is_who_keeps_all_nodes() {
    let with = |user: &'static str, command: &'static str, state: &'static str, since_s: f64| {
        let ddl = move |_| {
            let mut threads: Vec<ServerThread> = (20..32)
                .map(|id| session(id, "Query", "wsrep: preparing to commit write set(4711)", "COMMIT"))
                .collect();
            let ddl = session(71, command, state, "ALTER TABLE orders ADD COLUMN note TEXT");
            threads.push(ServerThread {
                user: user.into(),
                is_connection: user != "system user",
                time_s: since_s,
                ..ddl
            });
            threads
        };
        node("Commit", 0.0).sessions(ddl).window()
    };
    let window = with("app", "Query", "altering table", 7_300.0);
    let said = headline(&window);
    assert!(
        said.contains("connection 71 runs ALTER TABLE orders ADD COLUMN note TEXT on all nodes at once"),
        "{said}"
    );
    let finding = &crate::diagnose(&window).findings[0];
    assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(71));
    assert!(finding.remedies[0].statement.starts_with("Let the DDL end"), "{finding:#?}");
    let applied = headline(&with("system user", "Sleep", "copy to tmp table", 7_300.0));
    assert!(applied.contains("an applier runs ALTER TABLE orders"), "{applied}");
    let said = headline(&with("app", "Query", "altering table", 0.5));
    assert!(!said.contains("connection 71"), "{said}");
}

#[test]
fn of_sessions_that_wait_for_isolation_the_ddl_at_work_is_named_and_else_the_oldest() {
    let of = |first: &'static str, state: &'static str| {
        let sessions = move |_| {
            let ddl = |id, time_s, state: &str, statement: &str| ServerThread {
                time_s,
                ..session(id, "Query", state, statement)
            };
            vec![
                ddl(71, 40.0, first, "ALTER TABLE parcels ADD COLUMN weight INT"),
                ddl(72, 30.0, state, "CREATE TABLE parcels_old LIKE parcels"),
                ddl(73, 50.0, "Waiting for TOI DDL", "INSERT INTO parcels VALUES (1)"),
                ddl(74, 20.0, state, "GRANT SELECT ON depot.* TO clerk"),
            ]
        };
        let window = node("Commit", 0.0).sessions(sessions).window();
        let said = headline(&window);
        let finding = &crate::diagnose(&window).findings[0];
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(71), "{said}");
        said
    };
    for state in
        ["Waiting to execute in isolation", "wsrep: initiating TOI for write set (9)", "wsrep: TO isolation"]
    {
        let said = of("copy to tmp table", state);
        assert!(
            said.contains("connection 71 runs ALTER TABLE parcels ADD COLUMN weight INT on all nodes"),
            "{said}"
        );
        let said = of(state, state);
        assert!(said.contains("the oldest is that which connection 71 runs for "), "{said}");
        assert!(said.ends_with("ALTER TABLE parcels ADD COLUMN weight INT"), "{said}");
    }
}

#[test]
fn a_ddl_that_waits_for_its_own_certification_is_no_ddl_to_wait_for() {
    let of = |others: &'static str, since_s: f64| {
        let sessions = move |_| {
            let ddl = session(
                71,
                "Query",
                "Waiting for certification",
                "ALTER TABLE parcels ADD COLUMN weight INT",
            );
            let mut all = vec![ServerThread { time_s: since_s, ..ddl }];
            all.extend((72..78).map(|id| session(id, "Query", others, "UPDATE parcels SET weight = 1")));
            all
        };
        let findings = crate::diagnose(&node("Commit", 0.0).sessions(sessions).window()).findings;
        findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
    };
    for others in ["Waiting for TOI DDL", "Waiting for certification"] {
        let finding = of(others, 7_300.0);
        assert!(
            finding.headline.contains("connection 71 waits for 2 h 1 min until its DDL is certified"),
            "{}",
            finding.headline
        );
        assert!(finding.remedies[0].statement.contains("Synced"), "{finding:#?}");
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("Let the DDL end")));
        assert!(!of(others, 2.0).headline.contains("is certified"), "{}", of(others, 2.0).headline);
    }
}

#[test]
fn where_appliers_do_not_end_their_commits_the_backup_that_locks_the_node_is_named() {
    let state = "wsrep: committing write set (4711)";
    let finding = |command: &'static str, backup: &'static str| {
        let applier =
            move |id| ServerThread { user: "system user".into(), ..session(id, "Query", state, "") };
        let sessions = move |_| {
            let mut all: Vec<ServerThread> = (20..24).map(applier).collect();
            all.extend(
                (30..34)
                    .map(|id| session(id, "Query", "wsrep: replicating and certifying write set", "COMMIT")),
            );
            all.push(session(40, command, state, backup));
            all
        };
        let window = node(state, 0.0).sessions(sessions).window();
        crate::diagnose(&window).findings.remove(0)
    };
    let named = finding("Query", "FLUSH TABLES WITH READ LOCK");
    assert_eq!(named.cause, CAUSE.name);
    let ends = "connection 40 most likely keeps them from it: it runs FLUSH TABLES WITH READ LOCK";
    assert!(named.headline.ends_with(ends), "{}", named.headline);
    assert_eq!(named.remedies[0].statement, "KILL 40");
    assert_eq!(named.root.and_then(|root| root.connection_id), Some(40));
    let other = finding("Query", "UPDATE stock SET n = 1");
    let killed = finding("Killed", "FLUSH TABLES WITH READ LOCK");
    for other in [other, killed] {
        assert!(other.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")), "{other:#?}");
    }
}

#[test]
fn a_list_alone_that_names_wsrep_is_a_node_s() {
    let listed = |check: &'static str, since_s: f64| {
        node("Commit", 0.0)
            .each(move |at_s, server, _| {
                let mut threads = vec![session(20, "Query", "Filling schema table", check)];
                threads
                    .extend((30..33).map(|id| session(id, "Query", "query end", "INSERT INTO t VALUES (1)")));
                threads.iter_mut().for_each(|thread| thread.time_s = since_s);
                server.threads = crate::testing::answer(at_s, threads);
                server.variables = spindoctor_model::Reading::NotAsked;
                server.status = spindoctor_model::Reading::NotAsked;
            })
            .window()
    };
    let fires =
        |window: &Window| crate::diagnose(window).findings.iter().any(|finding| finding.cause == CAUSE.name);
    assert!(fires(&listed("SHOW STATUS LIKE 'wsrep_local_state'", 174.0)));
    assert!(!fires(&listed("SHOW STATUS LIKE 'wsrep_local_state'", 0.1)), "a commit as usual");
    assert!(!fires(&listed("SHOW STATUS LIKE 'Uptime'", 174.0)), "no node");
}

#[test]
fn a_single_status_says_how_long_the_cluster_paused_since_it_was_flushed() {
    let of = |paused: f64, sent: f64| {
        let gauges = [
            ("wsrep_flow_control_paused", paused),
            ("wsrep_flow_control_sent", sent),
            ("wsrep_flow_control_recv", 4121.0),
            ("wsrep_local_recv_queue", 312.0),
        ];
        let build = gauges
            .iter()
            .fold(Build::busy("10.11.19-MariaDB"), |build, &(name, value)| build.gauge(name, value));
        let mut window = build.remote().without_profile().window();
        window.samples.truncate(1);
        window.samples[0].server.threads = spindoctor_model::Reading::NotAsked;
        CAUSE.evaluate(&window, None)
    };
    let Outcome::Fired(finding) = of(0.71, 12.0) else { panic!() };
    assert!(finding.headline.contains("71 % of the time since"), "{}", finding.headline);
    assert!(finding.headline.contains("other nodes"), "{}", finding.headline);
    let Outcome::Fired(finding) = of(0.71, 4100.0) else { panic!() };
    assert!(
        finding.headline.contains("this node")
            && finding.remedies[0].statement.contains("wsrep_slave_threads")
    );
    assert!(!matches!(of(0.02, 12.0), Outcome::Fired(_)));
}

#[test]
fn a_health_check_that_hangs_is_a_victim() {
    let sessions = |_| {
        let checks = (20..25)
            .map(|id| session(id, "Query", "Filling schema table", "SHOW STATUS LIKE 'wsrep_local_state'"));
        checks
            .chain((30..33).map(|id| session(id, "Query", "query end", "INSERT INTO t VALUES (1)")))
            .collect()
    };
    let window = node("Commit", 0.9).sessions(sessions).window();
    let causes: Vec<_> = crate::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
    assert_eq!(causes, [CAUSE.name, monitoring_overload::CAUSE.name]);
}
