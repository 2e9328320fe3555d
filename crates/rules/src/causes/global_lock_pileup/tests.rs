//! Writers behind a FLUSH or a backup, with and without a list of locks.

use spindoctor_model::mysql::MetadataLock;

use super::*;
use crate::testing::{Build, answer, session};

fn lock(connection: u64, object_type: &str, lock_type: &str, granted: bool) -> MetadataLock {
    MetadataLock {
        object_type: object_type.into(),
        lock_type: lock_type.into(),
        granted,
        owner_internal_id: Some(connection + 40),
        ..MetadataLock::default()
    }
}

fn writers(state: &str) -> Vec<ServerThread> {
    (20..40).map(|id| session(id, "Query", state, "UPDATE sbtest1 SET k = 1 WHERE id = 1")).collect()
}

/// Connection 7 took FLUSH TABLES WITH READ LOCK and went away.
pub(crate) fn fires() -> Window {
    Build::busy("8.0.36")
        .sessions(|_| {
            let mut sessions = writers("Waiting for global read lock");
            sessions.push(session(7, "Sleep", "", ""));
            sessions
        })
        .each(|at_s, server, _| {
            let mut locks = vec![
                lock(50, "GLOBAL", "INTENTION_EXCLUSIVE", true),
                lock(7, "GLOBAL", "SHARED", true),
                lock(7, "COMMIT", "SHARED", true),
            ];
            locks.extend((20..40).map(|id| lock(id, "GLOBAL", "INTENTION_EXCLUSIVE", false)));
            server.metadata_locks = answer(at_s, locks);
        })
        .window()
}

/// A backup takes the lock for an instant.
pub(crate) fn near_miss() -> Window {
    Build::busy("8.0.36")
        .sessions(|at| match at {
            3 => vec![session(20, "Query", "Waiting for commit lock", "COMMIT")],
            _ => vec![session(20, "Query", "executing", "COMMIT")],
        })
        .window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
}

fn found(window: &Window) -> Finding {
    match CAUSE.evaluate(window, crate::session_time(window).as_ref()) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_root_is_the_idle_holder_of_the_global_lock_and_no_writer() {
    let finding = found(&fires());
    assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(7));
    assert_eq!(finding.headline, "Connection 7 blocks 20 sessions: it holds a global lock and is idle");
    assert_eq!(finding.remedies[0].statement, "KILL 7");
}

#[test]
fn where_the_flush_itself_waits_the_root_is_the_long_query() {
    let window = Build::busy("10.11.19-MariaDB")
        .sessions(|_| {
            let mut sessions = writers("Waiting for backup lock");
            sessions.push(session(7, "Query", "Waiting for table flush", "FLUSH TABLES WITH READ LOCK"));
            let mut report = session(9, "Query", "Sending data", "SELECT SLEEP(600) FROM sbtest1");
            report.time_s = 600.0;
            sessions.extend([report, session(10, "Query", "Sending data", "SELECT 1")]);
            sessions
        })
        .window();
    let finding = found(&window);
    assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(9));
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements, ["KILL QUERY 9", "KILL 7"]);
    // Tables are old when the FLUSH is gone, too.
    let (end_report, end_flush) = (&finding.remedies[0].why, &finding.remedies[1].why);
    assert!(end_report.contains("everyone goes on") && !end_report.contains("44884"), "{end_report}");
    // Its session keeps the lock when it has it.
    assert!(end_report.contains("who writes waits on until it runs UNLOCK TABLES"), "{end_report}");
    assert!(end_report.contains("To free those that write at once, end the FLUSH"), "{end_report}");
    assert!(end_flush.contains("frees those that wait for its lock"), "{end_flush}");
    // It is said once, beside the KILL that it is about.
    assert!(end_flush.contains("MySQL bug 44884"), "{end_flush}");
    assert!(!finding.why.contains("MySQL bug 44884"), "{}", finding.why);
}

/// Connection 7 has a row that 8 wants, and 8 has locked the instance for a backup.
#[test]
fn of_a_chain_over_two_kinds_of_lock_each_is_said_to_hold_what_it_holds() {
    use crate::testing::transaction;
    use spindoctor_model::mysql::RowLockWait;
    let window = Build::busy("8.0.36")
        .sessions(|_| {
            let mut sessions = writers("Waiting for backup lock");
            sessions.push(session(7, "Sleep", "", ""));
            sessions.push(session(8, "Query", "updating", "UPDATE stock SET n = 1 WHERE id = 7"));
            sessions
        })
        .each(|at_s, server, _| {
            let mut locks = vec![lock(8, "BACKUP LOCK", "SHARED", true)];
            locks.extend((20..40).map(|id| lock(id, "BACKUP LOCK", "INTENTION_EXCLUSIVE", false)));
            server.metadata_locks = answer(at_s, locks);
            let wait = RowLockWait {
                waiting_connection_id: Some(8),
                blocking_connection_id: Some(7),
                waiting_transaction: "9008".into(),
                blocking_transaction: "9007".into(),
                table: "shop.stock".into(),
                waited_s: 12.0,
                ..RowLockWait::default()
            };
            server.row_lock_waits = answer(at_s, vec![wait]);
            server.transactions =
                answer(at_s, vec![transaction(7, "RUNNING", 61.0), transaction(8, "LOCK WAIT", 13.0)]);
        });
    let finding = found(&window.window());
    assert_eq!(
        finding.headline,
        "Connection 7 blocks 20 sessions that wait for the backup lock: connection 8 holds it and waits for a row lock on shop.stock \
         that connection 7 holds; connection 7 is idle in transaction"
    );
    assert!(!finding.why.contains("Its lock is of the whole server"), "{}", finding.why);
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements, ["KILL 7", "KILL 8"]);
    assert!(!finding.remedies[0].risk.contains("backup"), "{:?}", finding.remedies[0]);
}

#[test]
fn whose_change_a_flush_waits_for_is_named_though_others_queue_behind_it() {
    let found_with = |change_s: f64| {
        let window = Build::busy("10.11.19-MariaDB").sessions(move |_| {
            let mut sessions = writers("Waiting for backup lock");
            let flush = session(7, "Query", "Waiting for backup lock", "FLUSH TABLES WITH READ LOCK");
            let change = session(9, "Query", "User sleep", "UPDATE stock SET n = SLEEP(50) WHERE id = 1");
            sessions
                .extend([ServerThread { time_s: 5.0, ..flush }, ServerThread { time_s: change_s, ..change }]);
            sessions
        });
        found(&window.window())
    };
    let finding = found_with(9.0);
    assert!(
        finding.headline.contains("most likely connection 9 keeps a FLUSH from it"),
        "{}",
        finding.headline
    );
    let kills: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).take(2).collect();
    assert_eq!(kills, ["KILL QUERY 9", "KILL 7"]);
    // What began after the FLUSH is not what it waits for.
    let finding = found_with(2.0);
    assert!(!finding.headline.contains("connection 9"), "{}", finding.headline);
}

#[test]
fn a_statement_that_changes_rows_spoils_no_backup_when_it_is_ended() {
    let window = Build::busy("9.7.4")
        .sessions(|_| {
            let mut sessions = writers("Waiting for global read lock");
            sessions.push(session(7, "Query", "Waiting for global read lock", "FLUSH TABLES WITH READ LOCK"));
            sessions.push(session(9, "Query", "User sleep", "UPDATE stock SET n = SLEEP(50) WHERE id = 1"));
            sessions
        })
        .each(|at_s, server, _| {
            let mut locks =
                vec![lock(9, "GLOBAL", "INTENTION_EXCLUSIVE", true), lock(7, "GLOBAL", "SHARED", false)];
            locks.extend((20..40).map(|id| lock(id, "GLOBAL", "INTENTION_EXCLUSIVE", false)));
            server.metadata_locks = answer(at_s, locks);
        })
        .window();
    let finding = found(&window);
    assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(9));
    let remedy = &finding.remedies[0];
    assert!(
        remedy.statement == "KILL QUERY 9" && remedy.risk.starts_with("That statement is lost"),
        "{remedy:?}"
    );
    assert!(
        finding.headline.starts_with(
            "Connection 9 makes connection 7 wait for a lock of the whole server, which blocks 21 sessions: connection 9 runs UPDATE"
        ),
        "{}",
        finding.headline
    );
    assert!(finding.why.starts_with("It locks nothing of the whole server."), "{}", finding.why);
}

/// Writers that have waited for 3 s, and sessions that have rested for so long; nobody lists locks.
fn rested(resting: &[(u64, f64)]) -> Finding {
    let sessions: Vec<ServerThread> = resting
        .iter()
        .map(|&(id, time_s)| ServerThread { time_s, ..session(id, "Sleep", "", "") })
        .chain(writers("Waiting for backup lock"))
        .collect();
    let unread = Unavailable::because("no plugin").unlock("INSTALL SONAME 'metadata_lock_info'");
    let window = Build::busy("10.11.19-MariaDB").sessions(move |_| sessions.clone()).each(|_, server, _| {
        server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
    });
    found(&window.window())
}

#[test]
fn an_idle_holder_that_no_list_names_is_who_alone_was_there_before_they_began_to_wait() {
    // Alone, and beside one that came to rest later.
    for resting in [&[(7, 3.2)][..], &[(7, 3.2), (8, 1.0)]] {
        let finding = rested(resting);
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(7), "{resting:?}");
        assert_eq!(
            finding.headline,
            "Connection 7 most likely blocks 20 sessions: it alone was there before they began to wait"
        );
        assert_eq!(finding.remedies[0].statement, "KILL 7");
        assert!(finding.why.contains("It is inferred"), "{}", finding.why);
        let reads = finding.evidence.iter().map(|evidence| evidence.reading.as_str());
        assert!(reads.clone().any(|reading| reading == "what would name the holder"));
    }
}

/// Commits that wait for a lock of which no list was read, and two sessions that wait for a row that `holder` has, as long as they.
fn commits_and_rows(holder: u64) -> Finding {
    use crate::testing::transaction;
    use spindoctor_model::mysql::RowLockWait;
    let window = Build::busy("11.8.9-MariaDB")
        .sessions(|_| {
            let commits = (20..30).map(|id| session(id, "Query", "Waiting for backup lock", "COMMIT"));
            let rows = (50..52).map(|id| session(id, "Query", "Updating", "UPDATE t SET n = 1 WHERE id = 7"));
            let writes = session(60, "Query", "Updating", "UPDATE t SET n = 2 WHERE d < 7");
            let rests = ServerThread { time_s: 3.2, ..session(7, "Sleep", "", "") };
            let writes = ServerThread { time_s: 1.0, ..writes };
            commits.chain(rows).chain([rests, writes]).collect()
        })
        .each(move |at_s, server, _| {
            let wait = |id: u64| RowLockWait {
                waiting_connection_id: Some(id),
                blocking_connection_id: Some(holder),
                waiting_transaction: (9000 + id).to_string(),
                blocking_transaction: (9000 + holder).to_string(),
                table: "shop.t".into(),
                waited_s: 3.0,
                ..RowLockWait::default()
            };
            server.row_lock_waits = answer(at_s, (50..52).map(wait).collect());
            let open = [transaction(holder, "RUNNING", 3.0)];
            let waiting = (50..52).map(|id| transaction(id, "LOCK WAIT", 3.0));
            server.transactions = answer(at_s, waiting.chain(open).collect());
            server.metadata_locks = spindoctor_model::Reading::NotAsked;
        });
    found(&window.window())
}

#[test]
fn who_waits_for_a_row_behind_those_that_wait_is_no_candidate_and_its_wait_is_explained() {
    let explains =
        |finding: &Finding| finding.explains.iter().any(|cause| cause == row_lock_pileup::CAUSE.name);
    let finding = commits_and_rows(20);
    assert_eq!(
        finding.headline,
        "Connection 7 most likely blocks 10 sessions: it alone was there before they began to wait"
    );
    let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements[0], "KILL 7");
    assert!(finding.remedies[0].why.starts_with("Most likely it is this session"), "{finding:#?}");
    assert!(
        statements[1].starts_with("BACKUP STAGE END ")
            && statements[1].ends_with("the session of connection 7"),
        "{statements:?}"
    );
    assert!(explains(&finding), "{:?}", finding.explains);
    assert!(!explains(&commits_and_rows(60)), "the row's holder works");
}

#[test]
fn the_lock_of_an_instance_keeps_out_ddl_alone_and_is_given_back_by_unlock_instance() {
    let window = Build::busy("8.0.36")
        .sessions(|_| {
            let waits = |id| session(id, "Query", "Waiting for backup lock", "TRUNCATE TABLE load_1");
            (20..28).map(waits).chain([session(7, "Sleep", "", "")]).collect()
        })
        .each(|at_s, server, _| {
            let wanted = (20..28).map(|id| lock(id, "BACKUP LOCK", "INTENTION_EXCLUSIVE", false));
            let has = lock(7, "BACKUP LOCK", "SHARED", true);
            server.metadata_locks = answer(at_s, wanted.chain([has]).collect());
        });
    let finding = found(&window.window());
    assert_eq!(finding.headline, "Connection 7 blocks 8 sessions: it holds the backup lock and is idle");
    assert!(finding.why.ends_with("Those that read and change rows go on."), "{}", finding.why);
    let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements, ["KILL 7", "UNLOCK INSTANCE in the session of connection 7"]);
}

#[test]
fn where_no_flush_waits_any_more_none_is_said_to() {
    let window = Build::busy("5.7.22").sessions(|_| {
        let report = session(7, "Query", "Sending data", "SELECT COUNT(*) FROM sbtest1");
        let report = ServerThread { time_s: 60.0, ..report };
        writers("Waiting for table flush").into_iter().chain([report]).collect()
    });
    let finding = found(&window.window());
    assert_eq!(
        finding.headline,
        "Connection 7 keeps an old copy of a table open, which blocks 20 sessions: it runs SELECT COUNT(*) FROM sbtest1"
    );
    assert_eq!(finding.remedies[0].statement, "KILL QUERY 7");
    assert!(!finding.remedies[0].why.contains("FLUSH"), "{}", finding.remedies[0].why);
}

#[test]
fn an_idle_holder_that_may_be_any_of_several_stays_unnamed() {
    // Who read until the first write came to rest later than who locked the server: near to the waits is no evidence.
    for resting in [
        &[(7, 3.2), (8, 4.0)][..],
        &[(6, 3600.0), (7, 6.0), (8, 3.1)],
        &[(7, 60.0), (8, 90.0)],
        &[(7, 1.0)],
        &[],
    ] {
        let finding = rested(resting);
        assert_eq!(finding.root, None, "{resting:?}");
        let kills = finding.remedies.iter().any(|remedy| remedy.statement.starts_with("KILL"));
        assert!(!kills, "{resting:?}: {:?}", finding.remedies);
        assert!(finding.remedies.iter().any(|remedy| remedy.statement.starts_with("UNLOCK TABLES")));
    }
    assert!(rested(&[(7, 3.2), (8, 4.0)]).why.contains("One of these was there before"));
}

/// A report uses a table that a plain FLUSH TABLES made old, and twenty readers wait to open it.
#[test]
fn to_end_a_flush_that_locks_nothing_is_no_remedy() {
    let behind = |flush: &'static str, state: &'static str| {
        let window = Build::busy("5.7.22").sessions(move |_| {
            let mut sessions = vec![
                ServerThread {
                    time_s: 60.0,
                    ..session(7, "Query", "User sleep", "SELECT COUNT(*) FROM sbtest1")
                },
                ServerThread { time_s: 9.0, ..session(8, "Query", "Waiting for table flush", flush) },
            ];
            sessions.extend(writers(state).into_iter().map(|thread| ServerThread { time_s: 5.0, ..thread }));
            sessions
        });
        found(&window.window())
    };
    let kills = |finding: &Finding| {
        let kills = finding.remedies.iter().filter(|remedy| remedy.statement.starts_with("KILL"));
        kills.map(|remedy| remedy.statement.clone()).collect::<Vec<_>>()
    };
    for flush in ["FLUSH TABLES", "FLUSH TABLES sbtest1", "ANALYZE TABLE sbtest1"] {
        let plain = behind(flush, "Waiting for table flush");
        assert_eq!(kills(&plain), ["KILL QUERY 7"], "{flush}");
        assert!(plain.why.contains("KILL of a FLUSH or ANALYZE frees nobody else"), "{}", plain.why);
    }
    // Nor where the statement that uses the old copy is not known.
    let window = Build::waiting(12, "Waiting for table flush").window();
    let unnamed = found(&window);
    assert!(unnamed.remedies[0].why.contains("MySQL bug 44884"), "{:?}", unnamed.remedies);
    let locks = behind("FLUSH TABLES WITH READ LOCK", "Waiting for global read lock");
    assert_eq!(kills(&locks), ["KILL QUERY 7", "KILL 8"]);
}

#[test]
fn a_list_that_was_read_and_names_nobody_makes_no_guess() {
    let window = Build::busy("10.11.19-MariaDB")
        .sessions(|_| {
            let mut sessions = writers("Waiting for backup lock");
            sessions.push(session(7, "Sleep", "", ""));
            sessions
        })
        .window();
    assert_eq!(found(&window).root, None);
}

#[test]
fn a_flush_of_one_table_waits_for_who_uses_that_table_and_not_for_the_oldest() {
    let root_of = |flushes: &'static str, opens: &'static str| {
        let window = Build::busy("8.0.36").sessions(move |_| {
            let flush = |id, statement, time_s| ServerThread {
                time_s,
                ..session(id, "Query", "Waiting for table flush", statement)
            };
            let reads = |id, statement, time_s| ServerThread {
                time_s,
                ..session(id, "Query", "Sending data", statement)
            };
            vec![
                reads(10, "SELECT COUNT(*) FROM facts_old", 9000.0),
                reads(11, "SELECT * FROM facts JOIN dims USING (d)", 700.0),
                flush(12, flushes, 600.0),
                flush(13, opens, 580.0),
            ]
        });
        found(&window.window()).root.and_then(|root| root.connection_id)
    };
    let reader = "SELECT 1 FROM facts WHERE id = 4";
    for flush in ["FLUSH TABLES facts WITH READ LOCK", "FLUSH TABLES facts", "ANALYZE TABLE facts"] {
        assert_eq!(root_of(flush, reader), Some(11), "{flush}");
    }
    assert_eq!(
        root_of("FLUSH TABLES WITH READ LOCK", "FLUSH TABLES WITH READ LOCK"),
        Some(10),
        "of all tables"
    );
    assert_eq!(
        root_of("ANALYZE TABLE orders", "SELECT 1 FROM orders"),
        None,
        "none of the statements names it"
    );
}

#[test]
fn a_flush_of_all_tables_does_not_wait_for_who_has_none() {
    let root_of = |report: Option<&'static str>, older: &'static str, state: &'static str| {
        let window = Build::busy("5.7.44").sessions(move |_| {
            let of = |id, time_s, state, statement| ServerThread {
                time_s,
                ..session(id, "Query", state, statement)
            };
            let flush = of(3, 300.0, "Waiting for table flush", "FLUSH TABLES WITH READ LOCK");
            let waiting = (4..10).map(|id| of(id, 290.0, "Waiting for table flush", "SELECT n FROM stock"));
            let report = report.map(|statement| of(2, 400.0, "Sending data", statement));
            [of(1, 5000.0, state, older), flush].into_iter().chain(waiting).chain(report).collect()
        });
        let finding = found(&window.window());
        (finding.root.and_then(|root| root.connection_id), finding.headline)
    };
    for (older, state) in [
        ("SELECT SLEEP(9999)", "User sleep"),
        ("SELECT WAIT_FOR_EXECUTED_GTID_SET('a:1-9')", "Waiting for GTID to be committed"),
        ("SELECT * FROM information_schema.PROCESSLIST", "executing"),
    ] {
        assert_eq!(root_of(Some("SELECT * FROM big"), older, state).0, Some(2), "{older}");
        let (root, headline) = root_of(None, older, state);
        assert!(root.is_none() && !headline.contains("connection 1"), "{older}: {headline}");
    }
    // One that sleeps on its rows has their table.
    assert_eq!(root_of(None, "UPDATE stock SET n = SLEEP(9)", "User sleep").0, Some(1));
}

#[test]
fn where_nobody_is_named_the_longest_statement_at_work_is_shown_if_it_began_before_the_waits() {
    let of = |state: &'static str, report_s: f64| {
        let window = Build::busy("8.0.36").sessions(move |_| {
            let report = session(9, "Query", "Sending data", "SELECT SUM(paid) FROM v_paid_by_month");
            let mut sessions = writers(state);
            sessions.push(ServerThread { time_s: report_s, ..report });
            let rests = |id| ServerThread { time_s: 900.0, ..session(id, "Sleep", "", "") };
            sessions.extend((60..80).map(rests));
            sessions
        });
        found(&window.window())
    };
    for state in ["Waiting for table flush", "Waiting for global read lock"] {
        let finding = of(state, 600.0);
        assert_eq!(finding.root, None, "{state}: {finding:#?}");
        assert!(
            finding.headline.contains("the longest statement at work is that of connection 9, for "),
            "{}",
            finding.headline
        );
        assert!(finding.headline.ends_with("SELECT SUM(paid) FROM v_paid_by_month"), "{}", finding.headline);
        assert!(finding.why.contains("began before they waited"), "{}", finding.why);
        let later = of(state, 1.0);
        assert!(!later.headline.contains("connection 9"), "{}", later.headline);
    }
}
