//! Replicas that are behind, have stopped, or are late on purpose.

use spindoctor_model::Reading;
use spindoctor_model::mysql::{ReplicaChannel, ServerThread};

use super::*;
use crate::testing::{Build, answer, session};

fn channel(behind_s: f64) -> ReplicaChannel {
    ReplicaChannel {
        source_host: "db1".into(),
        source_port: 3306,
        receiver_running: "Yes".into(),
        applier_running: "Yes".into(),
        behind_s: Some(behind_s),
        ..ReplicaChannel::default()
    }
}

pub(super) fn replica(behind: fn(f64) -> f64) -> Build {
    Build::busy("8.0.36").variable("replica_parallel_workers", "1").each(|at_s, server, _| {
        server.replication = answer(at_s, vec![channel(behind(at_s))]);
        if let Reading::Available { value: threads, .. } = &mut server.threads {
            threads.push(ServerThread {
                name: "thread/sql/replica_worker".into(),
                connection_id: Some(7),
                user: "system user".into(),
                command: "Query".into(),
                state: "Applying batch of row changes (update)".into(),
                ..ServerThread::default()
            });
        }
    })
}

/// Twenty seconds behind, and nearly a second more each second.
pub(crate) fn fires() -> Window {
    replica(|at_s| 20.0 + 0.8 * at_s).window()
}

/// A jump that is over soon: a single slow statement.
pub(crate) fn near_miss() -> Window {
    replica(|at_s| if at_s < 4.0 { 6.0 } else { 0.0 }).window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").each(|_, server, _| server.replication = Reading::NotAsked).window()
}

/// A replica that is so far behind, with a delay of an hour: as the status has it, or as the applier's state alone shows it.
fn delayed(behind: fn(f64) -> f64, sql_delay_s: Option<f64>, state: &'static str) -> Window {
    replica(behind)
        .each(move |_, server, _| {
            if let Reading::Available { value: channels, .. } = &mut server.replication {
                channels[0].sql_delay_s = sql_delay_s;
                channels[0].applier_state = state.into();
            }
        })
        .window()
}

#[test]
fn a_replica_is_late_only_beyond_its_delay() {
    let waits = "Waiting until SOURCE_DELAY seconds after source executed event";
    assert_eq!(evaluate(&delayed(|at_s| 11.0 + at_s, Some(3600.0), waits)), Outcome::Clear);
    assert_eq!(evaluate(&delayed(|at_s| 3595.0 + at_s / 2.0, Some(3600.0), "")), Outcome::Clear);
    let of_old_words = "Waiting until MASTER_DELAY seconds after master executed event";
    assert_eq!(evaluate(&delayed(|at_s| 11.0 + at_s, None, of_old_words)), Outcome::Clear);
    let finding = found(&delayed(|at_s| 3700.0 + 0.8 * at_s, Some(3600.0), "Reading event"));
    assert!(
        finding.headline.starts_with("The replica is 2 min behind db1:3306 beyond its delay of 60 min"),
        "{}",
        finding.headline
    );
    assert_eq!(finding.evidence[0].expected, "<= 3601");
}

/// So many sessions in a state beside an applier that is always as far behind.
fn with_readers(count: u64, state: &'static str) -> Build {
    replica(|_| 30.0).without_profile().each(move |_, server, _| {
        if let Reading::Available { value: threads, .. } = &mut server.threads {
            threads.extend((30..30 + count).map(|id| session(id, "Query", state, "SELECT 1")));
        }
    })
}

#[test]
fn reads_that_wait_for_the_replica_are_what_its_lag_costs() {
    for state in [
        "Waiting for GTID to be committed",
        "Waiting for the replica SQL thread to advance position",
        "Waiting for the slave SQL thread to advance position",
        "Waiting in MASTER_GTID_WAIT() (primary waiter)",
    ] {
        let findings = crate::diagnose(&with_readers(20, state).window()).findings;
        assert_eq!(findings[0].cause, CAUSE.name, "{findings:#?}");
        assert!(findings[0].score >= 0.8, "{state}: {}", findings[0].score);
        assert!(
            findings[0].headline.ends_with("; 20 sessions wait until it has caught up"),
            "{}",
            findings[0].headline
        );
        assert!(findings.iter().all(|finding| finding.cause != "unnamed-wait"), "{findings:#?}");
    }
    // One client that waits is no outage.
    let one = found(&with_readers(1, "Waiting for GTID to be committed").window());
    assert!((one.score - LAG_SCORE).abs() < 1e-9 && !one.headline.contains("until"), "{one:#?}");
}

/// What waits holds up the clients that would write more: that nothing arrives meanwhile says nothing.
#[test]
fn reads_that_wait_for_a_replica_that_somebody_stopped_are_no_note() {
    let stopped = |receiver: &'static str, received_per_s: f64| {
        let readers = with_readers(20, "Waiting for GTID to be committed").each(move |at_s, server, _| {
            let channel = ReplicaChannel {
                receiver_running: receiver.into(),
                applier_running: "No".into(),
                behind_s: None,
                received_file: "binlog.000007".into(),
                received_position: Some((1e6 + received_per_s * at_s) as u64),
                ..channel(0.0)
            };
            server.replication = answer(at_s, vec![channel]);
        });
        crate::diagnose(&readers.window()).findings.swap_remove(0)
    };
    for (receiver, received_per_s, says, start) in [
        ("Yes", 5e4, "The applier was stopped by somebody", "START REPLICA SQL_THREAD"),
        ("Yes", 0.0, "The applier was stopped by somebody", "START REPLICA SQL_THREAD"),
        ("No", 0.0, "The replica is stopped, and no error is named", "START REPLICA"),
    ] {
        let finding = stopped(receiver, received_per_s);
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.headline.starts_with(says), "{}", finding.headline);
        assert_eq!(finding.severity, spindoctor_model::Severity::Critical);
        assert_eq!(finding.remedies[0].statement, start);
    }
}

pub(super) fn found(window: &Window) -> Finding {
    match evaluate(window) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_applier_was_at_is_shown_and_more_workers_are_offered() {
    let finding = found(&fires());
    assert_eq!(finding.headline, "The replica is 28 s behind db1:3306, 0.8 s more each second");
    assert!(finding.why.contains("row update"), "{}", finding.why);
    let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements, ["spindoctor workload --replica", "SET GLOBAL replica_parallel_workers = 4"]);
}

#[test]
fn an_applier_that_stopped_with_an_error_is_shown_and_one_that_was_stopped_is_not() {
    let stopped = |error: &'static str| {
        Build::busy("8.0.36")
            .each(|at_s, server, _| {
                server.replication = answer(
                    at_s,
                    vec![ReplicaChannel {
                        applier_running: "No".into(),
                        applier_error: error.into(),
                        behind_s: None,
                        ..channel(0.0)
                    }],
                );
            })
            .window()
    };
    let finding = found(&stopped("Error 'Duplicate entry' on query"));
    assert!(finding.headline.contains("has stopped with an error"), "{}", finding.headline);
    assert!(finding.remedies[0].statement.contains("START REPLICA SQL_THREAD"), "{finding:?}");
    assert!(!finding.evidence.iter().any(|evidence| evidence.reading == "behind the source"), "nobody knows");
    assert_eq!(evaluate(&stopped("")), Outcome::Clear);
}

#[test]
fn an_applier_that_somebody_stopped_is_a_note_while_changes_arrive() {
    let stopped = |received_per_s: f64| {
        replica(|_| 0.0)
            .each(move |at_s, server, _| {
                let stopped = ReplicaChannel {
                    applier_running: "No".into(),
                    behind_s: None,
                    received_file: "bin.000001".into(),
                    received_position: Some((9e5 + received_per_s * at_s) as u64),
                    applied_file: "bin.000001".into(),
                    applied_position: Some(13_000),
                    ..channel(0.0)
                };
                server.replication = answer(at_s, vec![stopped]);
            })
            .window()
    };
    let finding = found(&stopped(2e4));
    assert!(finding.headline.contains("was stopped by somebody"), "{}", finding.headline);
    assert_eq!(finding.severity, spindoctor_model::Severity::Note);
    assert_eq!(finding.remedies[0].statement, "START REPLICA SQL_THREAD");
    assert_eq!(evaluate(&stopped(0.0)), Outcome::Clear, "nothing arrives");
}

#[test]
fn workers_that_wait_for_each_other_are_not_slow() {
    let finding = found(&delayed(|at_s| 20.0 + at_s, None, "Waiting for dependent transaction to commit"));
    assert!(finding.why.contains("depends on one that is not committed yet"), "{}", finding.why);
}

#[test]
fn a_receiver_that_gets_nothing_because_of_an_error_is_shown() {
    let receives = |running: &'static str, error: &'static str| {
        Build::busy("5.7.44")
            .each(|at_s, server, _| {
                server.replication = answer(
                    at_s,
                    vec![ReplicaChannel {
                        receiver_running: running.into(),
                        receiver_error: error.into(),
                        behind_s: None,
                        ..channel(0.0)
                    }],
                );
            })
            .window()
    };
    let lost = "Got fatal error 1236 from master when reading data from binary log";
    let finding = found(&receives("No", lost));
    assert!(finding.headline.starts_with("The receiver does not run"), "{}", finding.headline);
    assert!(finding.remedies[0].statement.ends_with("START SLAVE IO_THREAD"), "{finding:?}");
    assert!(matches!(evaluate(&receives("Connecting", "error connecting to master")), Outcome::Fired(_)));
    assert_eq!(evaluate(&receives("Yes", "")), Outcome::Clear);
}

#[test]
fn a_server_that_is_no_replica_is_clear() {
    assert_eq!(evaluate(&Build::busy("8.0.36").window()), Outcome::Clear);
}

#[test]
fn a_list_says_how_far_a_replica_is_behind_where_its_status_does_not() {
    let of = |behind_s: Option<f64>| {
        let mut window = Build::busy("8.0.36")
            .each(move |at_s, server, _| {
                let channel = ReplicaChannel { behind_s, ..ReplicaChannel::default() };
                server.replication = answer(at_s, vec![channel]);
                let applier = ServerThread {
                    user: "system user".into(),
                    command: "Connect".into(),
                    state: "System lock".into(),
                    time_s: 402_264.0,
                    ..ServerThread::default()
                };
                server.threads = answer(at_s, vec![applier]);
            })
            .window();
        window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        of_list(&window)
    };
    assert!(of(None).unwrap().headline.contains("behind its source"));
    assert_eq!(of(Some(3.0)), None);
}

#[test]
fn what_the_applier_itself_says_that_it_waits_for_is_why() {
    let why = |state: &'static str| {
        let window = Build::busy("8.0.36")
            .each(move |at_s, server, _| {
                let channel = ReplicaChannel { applier_state: state.into(), ..channel(37_020.0) };
                server.replication = answer(at_s, vec![channel]);
            })
            .window();
        let found = crate::diagnose(&window).findings;
        found.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap().why
    };
    assert!(
        why("Waiting for dependent transaction to commit").starts_with("The next transaction depends on one")
    );
    assert!(why("Waiting for preceding transaction to commit").contains("that one is the limit"));
    assert!(why("Waiting for semi-sync ACK from slave").contains("a replica of this replica"));
    assert!(!why("Reading event from the relay log").contains("transaction"));
}

/// One list of a replica that somebody captured.
fn captured(channel: ReplicaChannel) -> Window {
    let mut window = Build::busy("8.0.36")
        .each(move |at_s, server, _| server.replication = answer(at_s, vec![channel.clone()]))
        .window();
    let last = window.samples.len() - 1;
    window.samples.drain(..last);
    window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
    window
}

#[test]
fn what_somebody_stopped_is_a_note_of_a_list_that_was_given() {
    let of = |receiver: &str, applier: &str| {
        captured(ReplicaChannel {
            receiver_running: receiver.into(),
            applier_running: applier.into(),
            behind_s: None,
            ..channel(0.0)
        })
    };
    for (receiver, applier, begins, remedy) in [
        ("No", "No", "The replica is stopped, and no error is named", "START REPLICA"),
        ("Yes", "No", "The applier was stopped by somebody: nothing of db1:3306", "START REPLICA SQL_THREAD"),
        ("No", "Yes", "The receiver is stopped, and no error is named", "START REPLICA IO_THREAD"),
        ("Connecting", "Yes", "The receiver is connecting to db1:3306", "SHOW REPLICA STATUS"),
    ] {
        let finding = found(&of(receiver, applier));
        assert!(finding.headline.starts_with(begins), "{}", finding.headline);
        assert!(finding.remedies[0].statement.starts_with(remedy), "{:?}", finding.remedies);
        assert_eq!(finding.severity, spindoctor_model::Severity::Note);
    }
    assert!(matches!(evaluate(&of("Yes", "Yes")), Outcome::NotEnoughEvidence(_)), "a replica that runs");
}

#[test]
fn an_error_of_which_the_words_were_left_out_is_one() {
    let stopped = captured(ReplicaChannel {
        applier_running: "No".into(),
        applier_errno: Some(1062),
        behind_s: None,
        ..channel(0.0)
    });
    let finding = found(&stopped);
    assert!(finding.headline.starts_with("The applier has stopped with error 1062"), "{}", finding.headline);
    assert!(finding.evidence.iter().any(|one| one.reading == "error"), "{:?}", finding.evidence);
}

#[test]
fn an_applier_that_is_seen_at_a_change_of_rows_names_its_table() {
    let at = |behind_s: f64, state: &str| {
        found(&captured(ReplicaChannel { applier_state: state.into(), ..channel(behind_s) }))
    };
    let deletes = "Delete_rows_log_event::find_row(-1) on table `visit`";
    let finding = at(9_000.0, deletes);
    assert!(
        finding.headline.ends_with("rows of the table visit, which may have no primary key"),
        "{}",
        finding.headline
    );
    assert!(finding.remedies[0].statement.starts_with("SHOW CREATE TABLE visit"), "{:?}", finding.remedies);
    assert!(finding.evidence.iter().any(|one| one.reading == "the applier"), "{:?}", finding.evidence);
    let of_odd_name = at(9_000.0, "Delete_rows_log_event::find_row(-1) on table `visit; DROP TABLE stock`");
    assert!(of_odd_name.headline.contains("rows of a table, which may"), "{}", of_odd_name.headline);
    assert!(of_odd_name.remedies.iter().all(|remedy| !remedy.statement.contains("DROP")), "{of_odd_name:#?}");
    // One event may take so long.
    assert!(!at(9.0, deletes).headline.contains("visit"));
    assert!(!at(9_000.0, "Reading event from the relay log").headline.contains("primary key"));
}

#[test]
fn an_applier_whose_stacks_show_no_scan_is_not_said_to_lack_a_key() {
    let by_key: &[&str] =
        &["handler::ha_index_read_map", "Rows_log_event::find_row", crate::applier_scans::APPLIES];
    let headline = |build: Build| {
        let build = build.each(|at_s, server, _| {
            let state = "Update_rows_log_event::find_row(-1) on table `visit`";
            let channel = ReplicaChannel { applier_state: state.into(), ..channel(9_000.0) };
            server.replication = answer(at_s, vec![channel]);
        });
        found(&build.window()).headline
    };
    let without_stacks = headline(replica(|_| 0.0).without_profile());
    assert!(without_stacks.contains("may have no primary key"), "{without_stacks}");
    let with_stacks = headline(replica(|_| 0.0).only_snapshots(&[(
        1,
        spindoctor_model::stack::ThreadState::Running,
        by_key,
    )]));
    assert!(!with_stacks.contains("primary key"), "{with_stacks}");
}
