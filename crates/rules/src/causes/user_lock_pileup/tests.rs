//! A lock that a leader holds by design, and one that others wait for against their will.

use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread, Transaction, UserLockWait};
use spindoctor_model::{Finding, ServerSample, Severity, Value, Window};

use super::*;
use crate::testing::{Build, answer, session, transaction};

fn user_lock(connection: u64, granted: bool) -> MetadataLock {
    MetadataLock {
        object_type: "USER LEVEL LOCK".into(),
        name: "leader".into(),
        lock_type: "EXCLUSIVE".into(),
        granted,
        owner_internal_id: Some(connection + 40),
        ..MetadataLock::default()
    }
}

fn timed(id: u64, time_s: f64, command: &str, state: &str, statement: &str) -> ServerThread {
    ServerThread { time_s, host: format!("10.0.0.{id}"), ..session(id, command, state, statement) }
}

const ASKS: &str = "SELECT GET_LOCK('leader', 86400)";

/// Connection 7 has the lock for so long, and so many others wait for it; beside them the server works.
fn behind(leader_s: f64, waiters: u64) -> Build {
    Build::busy("8.0.36")
        .remote()
        .without_profile()
        .sessions(move |_| {
            let mut sessions = vec![
                timed(7, leader_s, "Sleep", "", ""),
                session(11, "Query", "executing", "UPDATE sbtest1 SET k = k + 1 WHERE id = 7"),
            ];
            sessions
                .extend((20..20 + waiters).map(|id| timed(id, leader_s / 2.0, "Query", "User lock", ASKS)));
            sessions
        })
        .each(move |at_s, server, _| {
            let wanted = (20..20 + waiters).map(|id| user_lock(id, false));
            server.metadata_locks = answer(at_s, wanted.chain([user_lock(7, true)]).collect());
        })
}

const HOURS_S: f64 = 7200.0;

fn found(window: &Window) -> Finding {
    let findings = crate::diagnose(window).findings;
    assert!(findings.iter().all(|finding| finding.cause != "unnamed-wait"), "{findings:#?}");
    findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
}

fn statements(finding: &Finding) -> Vec<&str> {
    finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect()
}

#[test]
fn a_leader_that_few_wait_for_by_design_is_a_note_and_the_application_is_asked_first() {
    let keeps_alive = behind(HOURS_S, 5).each(|_, server, _| {
        change(server, 7, |leader| {
            *leader = timed(7, 2.0, "Query", "executing", "SELECT 1");
        });
    });
    for window in [behind(HOURS_S, 5), keeps_alive] {
        let finding = found(&window.window());
        assert_eq!((finding.severity, finding.score), (Severity::Note, crate::rank::NOTE), "{finding:#?}");
        assert!(finding.headline.contains("elects its leader"), "{}", finding.headline);
        let statements = statements(&finding);
        assert!(
            statements[0].starts_with("Ask the application") && statements[1] == "KILL 7",
            "{statements:?}"
        );
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(7));
    }
}

#[test]
fn a_leader_that_a_few_copies_of_its_program_wait_for_is_a_note_though_it_is_young() {
    let finding = found(&behind(60.0, 2).window());
    assert_eq!(finding.severity, Severity::Note, "{finding:#?}");
    assert_eq!(
        finding.headline,
        "Connection 7 has held a lock of GET_LOCK for 60 s or more and 2 sessions wait for it: it may be that an application elects its \
         leader so"
    );
    let of = statements(&finding);
    assert!(of[0].starts_with("Ask the application") && of[1] == "KILL 7", "{of:?}");
    let another_account = behind(60.0, 2).each(|_, server, _| {
        change(server, 7, |leader| leader.user = "cron".into());
    });
    let not_read = behind(60.0, 2).each(|_, server, _| {
        server.transactions = spindoctor_model::Reading::NotAsked;
    });
    for window in [another_account, not_read, behind(6.0, 2), behind(60.0, 5)] {
        let finding = found(&window.window());
        assert!(finding.severity > Severity::Note, "{finding:#?}");
        assert_eq!(statements(&finding)[0], "KILL 7");
    }
}

#[test]
fn a_few_that_wait_beside_a_larger_trouble_are_a_note_with_their_share() {
    let beside = |others: u64, waiters: u64| {
        let build = Build::busy("10.11.19-MariaDB").remote().without_profile().sessions(move |_| {
            let state = "Waiting for semi-sync ACK from slave";
            let commits = (100..100 + others).map(|id| session(id, "Query", state, "COMMIT"));
            commits.chain((20..20 + waiters).map(|id| timed(id, 30.0, "Query", "User lock", ASKS))).collect()
        });
        let findings = crate::diagnose(&build.window()).findings;
        findings.into_iter().find(|finding| finding.cause == CAUSE.name)
    };
    let few = beside(60, 3).unwrap();
    assert_eq!(few.severity, Severity::Note);
    assert!((few.score - 3.0 / 63.0).abs() < 1e-9, "{}", few.score);
    let share = few.evidence.iter().find(|one| one.reading == "share of the session time");
    assert_eq!(share.map(|share| share.expected.as_str()), Some("< 0.01"));
    assert!(beside(60, 12).unwrap().severity > Severity::Note);
    // One session alone, and three of four hundred.
    assert_eq!(beside(60, 1), None);
    assert_eq!(beside(400, 3), None);
}

#[test]
fn the_name_of_the_lock_is_shown_where_it_was_read() {
    let name = |build: Build| {
        let finding = found(&build.window());
        let evidence = finding.evidence.into_iter().find(|evidence| evidence.reading == "the lock's name");
        evidence.map(|evidence| (evidence.value, evidence.source))
    };
    let shown = |source: &str| Some((Value::from("'leader'"), source.to_owned()));
    // As a list has it, for an election and for a pile-up; as the statements have it; and as a saved window has it.
    assert_eq!(name(behind(HOURS_S, 5)), shown("metadata locks"));
    assert_eq!(name(behind(60.0, 5)), shown("metadata locks"));
    let unlisted = |wait: &'static str| {
        behind(60.0, 5).each(move |at_s, server, _| {
            let wait =
                |id| UserLockWait { waiting_connection_id: id, blocking_connection_id: 7, name: wait.into() };
            server.metadata_locks = spindoctor_model::Reading::NotAsked;
            server.user_lock_waits = answer(at_s, (20..25).map(wait).collect());
        })
    };
    assert_eq!(name(unlisted("leader")), shown("IS_USED_LOCK"));
    assert_eq!(name(unlisted("#4dbed19e")), shown("thread list"));
    let statements = unlisted("#4dbed19e").each(|_, server, _| {
        for id in 20..25 {
            change(server, id, |thread| thread.statement = Some("SELECT GET_LOCK(...)".into()));
        }
    });
    assert_eq!(name(statements), None);
}

/// The holder of the lock may itself wait for a row: an idle session beside it is not who has it.
#[test]
fn who_waits_for_a_row_may_have_the_lock_that_others_wait_for() {
    let of = |waits_for_a_row: bool| {
        let window = behind(60.0, 5)
            .each(|_, server, _| {
                if let spindoctor_model::Reading::Available { value: threads, .. } = &mut server.threads {
                    threads.push(timed(8, 60.0, "Query", "updating", "UPDATE jobs SET n = 1"));
                    threads.push(timed(9, 2.0, "Sleep", "", ""));
                }
                server.metadata_locks = spindoctor_model::Reading::NotAsked;
            })
            .each(move |at_s, server, _| {
                let wait = RowLockWait {
                    waiting_connection_id: Some(8),
                    blocking_connection_id: Some(9),
                    waiting_transaction: "9008".into(),
                    blocking_transaction: "9009".into(),
                    table: "shop.jobs".into(),
                    waited_s: 60.0,
                    ..RowLockWait::default()
                };
                server.row_lock_waits = answer(at_s, vec![wait]);
                if !waits_for_a_row {
                    server.row_lock_waits = answer(at_s, Vec::new());
                    change(server, 8, |thread| thread.time_s = 1.0);
                }
            });
        found(&window.window())
    };
    let root = |finding: &Finding| finding.root.as_ref().and_then(|root| root.connection_id);
    assert_eq!(root(&of(true)), None);
    let alone = of(false);
    assert_eq!((root(&alone), statements(&alone)[0]), (Some(7), "KILL 7"));
    assert!(alone.remedies[0].why.starts_with("Most likely it has the lock"), "{:?}", alone.remedies);
}

/// Changes one session of a sample.
fn change(server: &mut ServerSample, id: u64, change: impl Fn(&mut ServerThread)) {
    if let spindoctor_model::Reading::Available { value: threads, .. } = &mut server.threads {
        threads.iter_mut().filter(|thread| thread.connection_id == Some(id)).for_each(change);
    }
}

#[test]
fn whatever_speaks_against_an_election_keeps_it_a_pile_up() {
    let open = |id, rows_modified, rows_locked| Transaction {
        rows_modified,
        rows_locked,
        ..transaction(id, "RUNNING", 61.0)
    };
    let with = move |transaction: Transaction| {
        behind(HOURS_S, 5)
            .each(move |at_s, server, _| server.transactions = answer(at_s, vec![transaction.clone()]))
    };
    let another_waits = behind(HOURS_S, 5).each(|at_s, server, _| {
        let wait = RowLockWait {
            waiting_connection_id: Some(11),
            blocking_connection_id: Some(21),
            waiting_transaction: "9011".into(),
            blocking_transaction: "9021".into(),
            table: "shop.stock".into(),
            ..RowLockWait::default()
        };
        server.row_lock_waits = answer(at_s, vec![wait]);
    });
    let another_comes = behind(HOURS_S, 5).each(|at_s, server, _| {
        if at_s < 5.0 {
            change(server, 24, |thread| *thread = session(24, "Sleep", "", ""));
        }
    });
    let several_statements = behind(HOURS_S, 5).each(|_, server, _| {
        change(server, 24, |thread| {
            thread.statement = Some("SELECT GET_LOCK('leader', 5) FROM orders".into());
        });
    });
    let works = behind(HOURS_S, 5).each(|_, server, _| {
        change(server, 7, |leader| {
            *leader = timed(7, HOURS_S, "Query", "executing", "DELETE FROM old WHERE d < 7");
        });
    });
    for (why, window) in [
        ("forty sessions", behind(HOURS_S, 40)),
        ("for a minute", behind(60.0, 5)),
        ("the holder has changed a row", with(open(7, 1, 0))),
        ("one that waits has locked a row", with(open(22, 0, 3))),
        ("another waits for one that waits", another_waits),
        ("another comes", another_comes),
        ("one wants a table, too", several_statements),
        ("the holder works", works),
        ("the server answers nobody else", behind(HOURS_S, 5).counter("Questions", 5.0)),
        (
            "nobody read the transactions",
            behind(HOURS_S, 5).each(|_, server, _| {
                server.transactions = spindoctor_model::Reading::NotAsked;
            }),
        ),
    ] {
        let finding = found(&window.window());
        assert!(finding.severity > Severity::Note, "{why}: {finding:#?}");
        assert!(
            finding.headline.starts_with("Connection 7 holds a lock of GET_LOCK"),
            "{}",
            finding.headline
        );
        assert!(statements(&finding)[0].starts_with("KILL"), "{why}: {:?}", finding.remedies);
    }
    let idle = found(&behind(60.0, 5).window());
    assert!(idle.why.contains("ask the application before KILL"), "{}", idle.why);
}

/// Connection 7 has a row that 8 wants, and 8 has the lock for which all others wait.
#[test]
fn of_a_chain_each_is_said_to_hold_what_it_holds() {
    let window = behind(30.0, 12)
        .each(|_, server, _| {
            if let spindoctor_model::Reading::Available { value: threads, .. } = &mut server.threads {
                threads.push(timed(8, 20.0, "Query", "updating", "UPDATE jobs SET n = 1"));
            }
        })
        .each(|at_s, server, _| {
            let wait = RowLockWait {
                waiting_connection_id: Some(8),
                blocking_connection_id: Some(7),
                waiting_transaction: "9008".into(),
                blocking_transaction: "9007".into(),
                table: "shop.jobs".into(),
                waited_s: 20.0,
                ..RowLockWait::default()
            };
            server.row_lock_waits = answer(at_s, vec![wait]);
            server.transactions =
                answer(at_s, vec![transaction(7, "RUNNING", 61.0), transaction(8, "LOCK WAIT", 21.0)]);
            let wanted = (20..32).map(|id| user_lock(id, false));
            server.metadata_locks = answer(at_s, wanted.chain([user_lock(8, true)]).collect());
        });
    let finding = found(&window.window());
    assert_eq!(
        finding.headline,
        "Connection 7 blocks 12 sessions that wait for a lock of GET_LOCK: connection 8 holds it and waits for a row lock on shop.jobs \
         that connection 7 holds; connection 7 is idle in transaction"
    );
    assert!(finding.why.contains("connection 7 holds a row lock on shop.jobs"), "{}", finding.why);
    assert_eq!(statements(&finding)[..2], ["KILL 7", "KILL 8"]);
}
