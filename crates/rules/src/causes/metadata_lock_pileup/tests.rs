//! A DDL, who is in its way, and who queues behind it, with and without a list of locks.

use spindoctor_model::mysql::{MetadataLock, ServerThread, Transaction};

mod named;

use super::remedies::ENDED;
use super::*;
use crate::testing::{Build, answer, session, transaction};

const WAITS: &str = "Waiting for table metadata lock";

fn lock(connection: u64, lock_type: &str, granted: bool) -> MetadataLock {
    MetadataLock {
        object_type: "TABLE".into(),
        schema: "sbtest".into(),
        name: "sbtest1".into(),
        lock_type: lock_type.into(),
        granted,
        owner_internal_id: Some(connection + 40),
        owner_connection_id: None,
    }
}

/// Connection 7 idles in a transaction, 8 wants to ALTER, 20 to 39 wait behind 8.
fn pileup(version: &str) -> Build {
    Build::busy(version)
        .sessions(|_| {
            let mut sessions = vec![
                session(7, "Sleep", "", ""),
                session(8, "Query", WAITS, "ALTER TABLE sbtest1 ADD COLUMN d INT"),
            ];
            sessions
                .extend((20..40).map(|id| session(id, "Query", WAITS, "SELECT c FROM sbtest1 WHERE id = 1")));
            sessions.push(session(50, "Query", "executing", "SELECT 1"));
            sessions
        })
        .each(|at_s, server, _| {
            server.transactions =
                answer(at_s, vec![transaction(50, "RUNNING", 0.1), transaction(7, "RUNNING", 61.0)]);
        })
}

pub(crate) fn fires() -> Window {
    pileup("8.0.36")
        .each(|at_s, server, _| {
            let mut locks = vec![
                lock(7, "SHARED_READ", true),
                lock(8, "SHARED_UPGRADABLE", true),
                lock(8, "EXCLUSIVE", false),
            ];
            locks.extend((20..40).map(|id| lock(id, "SHARED_READ", false)));
            server.metadata_locks = answer(at_s, locks);
        })
        .window()
}

/// A quick DDL, seen in one sample.
pub(crate) fn near_miss() -> Window {
    Build::busy("8.0.36")
        .sessions(|at| {
            let state = if at == 4 { WAITS } else { "altering table" };
            vec![session(8, "Query", state, "ALTER TABLE sbtest1 ADD COLUMN d INT")]
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
fn a_ddl_at_work_holds_its_table_even_where_it_waits_itself_for_an_instant() {
    const ALTER: &str = "ALTER TABLE sbtest1 ENGINE = InnoDB, ALGORITHM = COPY";
    const CHANGE: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
    let unread = spindoctor_model::Unavailable::because("no plugin");
    // In the last list it has just begun again, and waits for a change that is under way.
    let sessions = |at: usize| {
        let (ddl, change) = if at == 10 { (WAITS, "updating") } else { ("copy to tmp table", WAITS) };
        let mut sessions = vec![session(8, "Query", ddl, ALTER), session(20, "Query", change, CHANGE)];
        sessions.extend((21..26).map(|id| session(id, "Query", WAITS, CHANGE)));
        sessions
    };
    let finding = found(
        &Build::busy("10.11.19-MariaDB")
            .sessions(sessions)
            .each(move |at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(20, "RUNNING", 0.1)]);
                server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
            })
            .window(),
    );
    assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(8), "{finding:#?}");
    assert_eq!(finding.remedies[0].statement, "KILL QUERY 8");
    assert!(finding.why.contains("at work"), "{}", finding.why);
}

#[test]
fn a_statement_at_work_on_the_table_is_what_a_ddl_waits_for_before_a_session_that_rests() {
    let unread = spindoctor_model::Unavailable::because("no plugin");
    let of = |joins_s: f64| {
        let timed = |id, command, time_s, state: &str, statement: &str| ServerThread {
            time_s,
            schema: "sbtest".into(),
            ..session(id, command, state, statement)
        };
        // OPTIMIZE has copied the table, and waits again, to analyze it.
        let mut sessions = vec![
            timed(7, "Sleep", 9.1, "", ""),
            timed(8, "Query", 8.0, WAITS, "OPTIMIZE TABLE sbtest1"),
            timed(
                9,
                "Query",
                joins_s,
                "Sending data",
                "SELECT COUNT(*) FROM sbtest1 a, sbtest2 b WHERE a.c < b.c",
            ),
            timed(10, "Query", 30.0, "Sending data", "SELECT c FROM sbtest3"),
        ];
        sessions.extend(
            (20..26).map(|id| timed(id, "Execute", 0.7, WAITS, "SELECT c FROM sbtest1 WHERE id = 1")),
        );
        let unread = unread.clone();
        found(
            &Build::busy("10.11.19-MariaDB")
                .sessions(move |_| sessions.clone())
                .each(move |at_s, server, _| {
                    let reads =
                        Transaction { rows_modified: 0, ..transaction(9, "RUNNING", joins_s.floor()) };
                    server.transactions = answer(at_s, vec![reads]);
                    server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
                })
                .window(),
        )
    };
    for joins_s in [0.9, 8.5] {
        let finding = of(joins_s);
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(9), "{finding:#?}");
        assert_eq!(finding.remedies[0].statement, "KILL QUERY 9");
        assert!(finding.why.contains("uses the table"), "{}", finding.why);
    }
}

#[test]
fn sessions_that_wait_for_each_other_are_named_and_the_ddl_among_them_is_ended() {
    use spindoctor_model::mysql::RowLockWait;
    const ALTER: &str = "ALTER TABLE sbtest1 ADD COLUMN yy INT";
    let timed = |id, time_s, state: &str, statement: &str| ServerThread {
        time_s,
        ..session(id, "Query", state, statement)
    };
    // 7 has read sbtest1 and wants a row that 9 has changed; 8 alters sbtest1; 9 wants to read it.
    let mut sessions = vec![
        timed(7, 12.0, "updating", "UPDATE sbtest2 SET k = 1 WHERE id = 1"),
        timed(8, 11.0, WAITS, ALTER),
        timed(9, 10.0, WAITS, "SELECT c FROM sbtest1 WHERE id = 2"),
    ];
    sessions.extend((20..26).map(|id| timed(id, 8.0, WAITS, "SELECT c FROM sbtest1 WHERE id = 3")));
    let mut locks = vec![
        lock(7, "SHARED_READ", true),
        lock(8, "SHARED_UPGRADABLE", true),
        lock(8, "EXCLUSIVE", false),
        lock(9, "SHARED_READ", false),
    ];
    locks.extend((20..26).map(|id| lock(id, "SHARED_READ", false)));
    let row = RowLockWait {
        waiting_transaction: "77".into(),
        waiting_connection_id: Some(7),
        blocking_transaction: "99".into(),
        blocking_connection_id: Some(9),
        table: "sbtest.sbtest2".into(),
        waited_s: 12.0,
        ..RowLockWait::default()
    };
    let window = Build::busy("8.0.36")
        .sessions(move |_| sessions.clone())
        .each(move |at_s, server, _| {
            server.transactions =
                answer(at_s, vec![transaction(7, "LOCK WAIT", 13.0), transaction(9, "RUNNING", 13.0)]);
            server.row_lock_waits = answer(at_s, vec![row.clone()]);
            server.metadata_locks = answer(at_s, locks.clone());
        })
        .window();
    let finding = found(&window);
    assert!(
        finding.headline.starts_with("3 sessions wait for each other, and hold up 8"),
        "{}",
        finding.headline
    );
    assert!(finding.why.contains("7 for 9 (row lock), 9 for 8 (metadata lock), 8 for 7"), "{}", finding.why);
    assert_eq!(finding.remedies[0].statement, "KILL 8");
    let rows = crate::diagnose(&window).findings;
    let rows = rows.iter().find(|finding| finding.cause == "row-lock-pileup").unwrap();
    assert!(rows.why.contains("7 for 9 (row lock)"), "{}", rows.why);
}

/// Connection 7 has a row that 8 wants, 8 has the table that a DDL wants, and the others queue behind the DDL.
#[test]
fn of_a_chain_over_two_kinds_of_lock_each_is_said_to_hold_what_it_holds() {
    use spindoctor_model::mysql::RowLockWait;
    let window = pileup("8.0.36")
        .sessions(|_| {
            let mut sessions = vec![
                session(7, "Sleep", "", ""),
                session(8, "Query", "updating", "UPDATE orders SET n = 1 WHERE id = 7"),
                session(9, "Query", WAITS, "ALTER TABLE sbtest1 ADD COLUMN d INT"),
            ];
            sessions
                .extend((20..40).map(|id| session(id, "Query", WAITS, "SELECT c FROM sbtest1 WHERE id = 1")));
            sessions
        })
        .each(|at_s, server, _| {
            let mut locks = vec![
                lock(8, "SHARED_WRITE", true),
                lock(9, "SHARED_UPGRADABLE", true),
                lock(9, "EXCLUSIVE", false),
            ];
            locks.extend((20..40).map(|id| lock(id, "SHARED_READ", false)));
            server.metadata_locks = answer(at_s, locks);
            let wait = RowLockWait {
                waiting_connection_id: Some(8),
                blocking_connection_id: Some(7),
                waiting_transaction: "9008".into(),
                blocking_transaction: "9007".into(),
                table: "shop.orders".into(),
                index: "PRIMARY".into(),
                record: "7".into(),
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
        "Connection 7 blocks 21 sessions that want the metadata lock of sbtest.sbtest1: connection 8 holds it and waits for a row lock \
         on shop.orders that connection 7 holds; connection 7 is idle in transaction"
    );
    assert!(
        finding.why.starts_with(
            "The locks make a chain: connection 7 holds a row lock on shop.orders, connection 8 waits for that, and the others wait \
             for the metadata lock of sbtest.sbtest1, which connection 8 holds."
        ),
        "{}",
        finding.why
    );
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements[..3], ["KILL 7", "KILL 8", "KILL 9"]);
    assert!(finding.remedies[0].why.contains("connection 8 goes on"), "{:?}", finding.remedies[0]);
    let readings: Vec<&str> = finding.evidence.iter().map(|evidence| evidence.reading.as_str()).collect();
    assert!(!readings.contains(&"the holder's transaction is open for"), "{readings:?}");
}

/// A report uses the old copy of a table that FLUSH TABLES ... WITH READ LOCK has locked, and writers wait for its metadata lock.
#[test]
fn behind_a_flush_of_a_table_the_report_holds_no_metadata_lock() {
    let window = pileup("8.0.36")
        .sessions(|_| {
            let timed = |id, time_s, state: &str, statement: &str| ServerThread {
                time_s,
                ..session(id, "Query", state, statement)
            };
            let mut sessions = vec![
                timed(7, 600.0, "executing", "SELECT COUNT(*) FROM sbtest1 WHERE c LIKE '%x%'"),
                timed(8, 60.0, "Waiting for table flush", "FLUSH TABLES sbtest1 WITH READ LOCK"),
            ];
            sessions.extend((20..40).map(|id| timed(id, 30.0, WAITS, "UPDATE sbtest1 SET k = 1")));
            sessions
        })
        .each(|at_s, server, _| {
            let mut locks = vec![lock(7, "SHARED_READ", true), lock(8, "SHARED_NO_WRITE", true)];
            locks.extend((20..40).map(|id| lock(id, "SHARED_WRITE", false)));
            server.metadata_locks = answer(at_s, locks);
            server.transactions = answer(at_s, Vec::new());
        });
    let finding = found(&window.window());
    assert!(
        finding.headline.starts_with(
            "Connection 7 most likely blocks 20 sessions that want the metadata lock of sbtest.sbtest1: connection 8 holds it and \
             waits for the old copy of a table that connection 7 uses; connection 7 runs SELECT"
        ),
        "{}",
        finding.headline
    );
    assert!(finding.why.contains("MySQL bug 44884"), "{}", finding.why);
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements, ["KILL QUERY 7"], "the end of the FLUSH alone leaves the table old");
}

#[test]
fn short_waits_that_the_lists_rarely_show_are_seen_by_the_stacks() {
    use spindoctor_model::stack::ThreadState;
    const STANDS: &[&str] = &["MDL_wait::timed_wait", "open_table", "dispatch_command", "do_command"];
    // In one list of ten; the session that runs TRUNCATE rests between two of them.
    let sessions = |at: usize| {
        let waiter =
            ServerThread { time_s: 0.01, ..session(20, "Query", WAITS, "INSERT INTO tt VALUES (1)") };
        let rests = ServerThread { time_s: 0.01, ..session(8, "Sleep", "", "") };
        let old = ServerThread { time_s: 900.0, ..session(9, "Sleep", "", "") };
        if at == 4 { vec![waiter, rests, old] } else { vec![rests, old] }
    };
    let unread = spindoctor_model::Unavailable::because("no plugin");
    let finding = found(
        &Build::busy("10.11.19-MariaDB")
            .counter("Com_truncate", 40.0)
            .sessions(sessions)
            .each(move |_, server, _| {
                server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
            })
            .remote()
            .only_snapshots(&[(3, ThreadState::Condition, STANDS)])
            .window(),
    );
    assert!(finding.headline.starts_with("3 sessions wait for the metadata lock"), "{}", finding.headline);
    assert_eq!(finding.root, None);
    assert!(finding.why.contains("again and again"), "{}", finding.why);
    let ddl = finding.evidence.iter().find(|evidence| evidence.reading == "DDL").unwrap();
    assert!(ddl.source.contains("Com_truncate"), "{ddl:?}");
}

#[test]
fn who_holds_a_table_without_a_transaction_is_who_alone_was_there_before_the_first_began_to_wait() {
    // Nobody lists locks, and the list of transactions has none.
    let rested = |resting: &[(u64, f64, &str)]| {
        let resting = resting.iter().map(|&(id, time_s, schema)| ServerThread {
            time_s,
            schema: schema.into(),
            ..session(id, "Sleep", "", "")
        });
        let waiters = (20..40).map(|id| ServerThread {
            time_s: 3.0,
            schema: "sbtest".into(),
            ..session(id, "Query", WAITS, "SELECT c FROM sbtest1 WHERE id = 1")
        });
        let sessions: Vec<ServerThread> = resting.chain(waiters).collect();
        let window = Build::busy("10.11.19-MariaDB").sessions(move |_| sessions.clone());
        let unread = spindoctor_model::Unavailable::because("no plugin");
        found(
            &window
                .each(|at_s, server, _| {
                    server.transactions = answer(at_s, Vec::new());
                    server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
                })
                .window(),
        )
    };
    // Beside sessions that rest in other schemas, and that came later.
    for resting in [&[(7, 3.2, "sbtest")][..], &[(6, 3.6, ""), (7, 3.2, "sbtest"), (8, 1.0, "sbtest")]] {
        let finding = rested(resting);
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(7), "{resting:?}");
        assert!(finding.headline.contains("most likely"), "{}", finding.headline);
        assert!(finding.why.contains("LOCK TABLES"), "{}", finding.why);
        // Who rests elsewhere was there too.
        let elsewhere = "1 other session rested then in another schema or without one";
        assert_eq!(finding.why.contains(elsewhere), resting.len() > 1, "{}", finding.why);
        assert!(!finding.remedies[0].why.contains("nobody else"), "{}", finding.remedies[0].why);
        assert_eq!(finding.remedies[0].statement, "KILL 7");
        // No DDL waits.
        assert_eq!(finding.remedies.len(), 1, "{:?}", finding.remedies);
    }
    // Of several nobody is named, however near to the waits one came to rest.
    for resting in [
        &[(7, 3.2, "sbtest"), (8, 4.0, "sbtest")][..],
        &[(6, 3600.0, "sbtest"), (7, 3.2, "sbtest"), (9, 3601.0, "sbtest")],
    ] {
        let several = rested(resting);
        assert_eq!(several.root, None);
        assert!(several.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
        assert!(several.why.contains("One of these was there before"), "{}", several.why);
    }
}

/// What a transaction has of a table keeps out nobody but a DDL, and of two that may be in a DDL's way nobody knows which is.
#[test]
fn no_transaction_is_blamed_that_may_have_nothing_to_do_with_it() {
    let unread = |window: Build| {
        window.each(|_, server, _| {
            server.metadata_locks = spindoctor_model::Reading::Unavailable(Unavailable::because("no plugin"));
        })
    };
    let without_ddl = pileup("10.11.19-MariaDB").sessions(|_| {
        let mut sessions = vec![session(7, "Sleep", "", ""), session(9, "Sleep", "", "")];
        sessions.extend((20..40).map(|id| session(id, "Query", WAITS, "UPDATE sbtest1 SET k = 1")));
        sessions
    });
    let two = pileup("10.11.19-MariaDB").each(|at_s, server, _| {
        let open = vec![transaction(50, "RUNNING", 59.0), transaction(7, "RUNNING", 61.0)];
        server.transactions = answer(at_s, open);
    });
    for (window, kills) in [(without_ddl, &[][..]), (two, &["KILL 8"])] {
        let finding = found(&unread(window).window());
        assert_eq!(finding.root, None, "{}", finding.headline);
        let killed = finding.remedies.iter().filter(|remedy| remedy.statement.starts_with("KILL"));
        assert_eq!(killed.map(|remedy| remedy.statement.as_str()).collect::<Vec<_>>(), kills);
    }
}

/// Who locked the table itself keeps it when its statement is ended, whatever that reads.
#[test]
fn who_locked_the_table_itself_and_is_at_work_is_ended_with_its_session() {
    let window = pileup("8.0.36")
        .sessions(|_| {
            let mut sessions = vec![session(7, "Query", "executing", "SELECT COUNT(*) FROM sbtest1")];
            sessions.extend((20..40).map(|id| session(id, "Query", WAITS, "UPDATE sbtest1 SET k = 1")));
            sessions
        })
        .each(|at_s, server, _| {
            let mut locks = vec![lock(7, "SHARED_NO_READ_WRITE", true)];
            locks.extend((20..40).map(|id| lock(id, "SHARED_WRITE", false)));
            server.metadata_locks = answer(at_s, locks);
            server.transactions = answer(at_s, Vec::new());
        });
    let finding = found(&window.window());
    let remedies: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(remedies, ["KILL 7"]);
    assert!(finding.why.contains("LOCK TABLES"), "{}", finding.why);
}

#[test]
fn the_root_is_the_transaction_that_holds_the_table_and_not_the_ddl() {
    let finding = found(&fires());
    let root = finding.root.as_ref().unwrap();
    assert_eq!((root.connection_id, root.statement.as_str()), (Some(7), "idle in transaction"));
    assert_eq!(
        finding.headline,
        "Connection 7 blocks 21 sessions that want the metadata lock of sbtest.sbtest1: it is idle in transaction"
    );
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements[..2], ["KILL 7", "KILL 8"]);
}

#[test]
fn without_a_list_of_locks_the_one_older_transaction_is_named_as_most_likely() {
    let window = pileup("10.11.19-MariaDB")
        .each(|_, server, _| {
            server.metadata_locks = spindoctor_model::Reading::Unavailable(
                Unavailable::because("no plugin").unlock("INSTALL SONAME 'metadata_lock_info'"),
            );
        })
        .window();
    let finding = found(&window);
    assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(7));
    assert!(finding.headline.contains("most likely"), "{}", finding.headline);
}

#[test]
fn a_transaction_younger_than_the_wait_is_not_blamed() {
    let window = pileup("10.11.19-MariaDB")
        .each(|at_s, server, _| {
            server.metadata_locks = spindoctor_model::Reading::NotAsked;
            server.transactions = answer(at_s, vec![transaction(50, "RUNNING", 0.1)]);
        })
        .window();
    assert_eq!(found(&window).root, None);
}

#[test]
fn granted_locks_alone_name_the_holder_of_the_table_that_the_waiters_name() {
    let window = pileup("10.11.19-MariaDB")
        .each(|at_s, server, _| {
            let other = MetadataLock { name: "other".into(), ..lock(50, "SHARED_WRITE", true) };
            server.metadata_locks =
                answer(at_s, vec![other, lock(8, "SHARED_UPGRADABLE", true), lock(7, "SHARED_READ", true)]);
        })
        .window();
    let finding = found(&window);
    assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(7));
    assert!(!finding.headline.contains("likely"), "{}", finding.headline);
}

#[test]
fn of_several_ddls_all_are_to_be_ended_and_none_is_said_to_free_who_stands_behind_another() {
    let window = |ddls: u64, others: u64| {
        let sessions = move |_| {
            let ddl = |id| ServerThread {
                time_s: 90.0 - id as f64,
                ..session(id, "Query", WAITS, "TRUNCATE sbtest1")
            };
            let other = |id| session(id, "Query", WAITS, "SELECT c FROM sbtest1");
            (20..20 + ddls).map(ddl).chain((60..60 + others).map(other)).collect()
        };
        Build::busy("8.0.36").sessions(sessions).window()
    };
    let kill = |ddls, others| {
        let remedies = found(&window(ddls, others)).remedies;
        remedies.into_iter().find(|remedy| remedy.statement.starts_with("KILL")).unwrap()
    };
    let several = kill(3, 4);
    assert_eq!(several.statement, "KILL 20; KILL 21; KILL 22");
    assert!(several.why.contains("when the last is gone"), "{}", several.why);
    assert!(kill(1, 4).why.contains("everyone queued behind it goes on at once"));
    assert_eq!(kill(1, 0).why, "It ends the DDL that waits.");
    assert_eq!(kill(20, 4).statement.matches("KILL").count(), ENDED);
}

#[test]
fn a_ddl_that_waits_alone_is_a_warning() {
    let window = Build::busy("8.0.36")
        .sessions(|_| vec![session(7, "Sleep", "", ""), session(8, "Query", WAITS, "DROP TABLE sbtest1")])
        .window();
    assert_eq!(found(&window).severity, spindoctor_model::Severity::Warning);
}

#[test]
fn of_a_list_of_locks_without_transactions_the_types_say_what_holds_the_table() {
    let of = |lock_type: &'static str| {
        let sessions = vec![session(7, "Sleep", "", ""), session(8, "Query", WAITS, "TRUNCATE sbtest1")];
        let window = Build::busy("8.0.36")
            .sessions(move |_| sessions.clone())
            .each(move |at_s, server, _| {
                server.transactions =
                    spindoctor_model::Reading::Unavailable(Unavailable::because("not given"));
                server.metadata_locks =
                    answer(at_s, vec![lock(7, lock_type, true), lock(8, "EXCLUSIVE", false)]);
            })
            .window();
        found(&window).why
    };
    assert!(of("SHARED_READ").contains("as a transaction does"), "{}", of("SHARED_READ"));
    assert!(of("SHARED_NO_READ_WRITE").contains("LOCK TABLES"), "{}", of("SHARED_NO_READ_WRITE"));
}

#[test]
fn statements_that_nobody_listed_may_be_ddl() {
    let of = |statement: &'static str| {
        let window = Build::busy("8.0.36")
            .sessions(move |_| (20..40).map(|id| session(id, "Query", WAITS, statement)).collect())
            .each(|_, server, _| {
                server.metadata_locks =
                    spindoctor_model::Reading::Unavailable(Unavailable::because("not given"));
            })
            .window();
        let remedies = found(&window).remedies;
        remedies.iter().any(|remedy| remedy.statement.starts_with("UNLOCK TABLES"))
    };
    assert!(of("SELECT c FROM sbtest1"));
    assert!(!of(""));
}

#[test]
fn a_given_list_may_be_cut_where_it_has_no_ddl_that_waits() {
    let why = |is_given: bool| {
        let mut window = Build::busy("8.0.36")
            .sessions(|_| (20..40).map(|id| session(id, "Query", WAITS, "SELECT c FROM sbtest1")).collect())
            .each(|_, server, _| {
                server.metadata_locks =
                    spindoctor_model::Reading::Unavailable(Unavailable::because("not given"));
            })
            .window();
        if is_given {
            window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        }
        let remedies = found(&window).remedies;
        let unlock = remedies.into_iter().find(|remedy| remedy.statement.starts_with("UNLOCK TABLES"));
        unlock.map(|remedy| remedy.why).unwrap_or_default()
    };
    assert!(why(true).contains("in what was given: most likely"), "{}", why(true));
    assert!(why(false).starts_with("No DDL waits"), "{}", why(false));
}

#[test]
fn an_owner_without_a_connection_is_named_by_its_number() {
    let owner = |internal_id, lock_type: &str, granted| MetadataLock {
        owner_connection_id: None,
        owner_internal_id: Some(internal_id),
        ..lock(0, lock_type, granted)
    };
    let waiter = ServerThread {
        connection_id: None,
        internal_id: Some(91),
        ..session(0, "Query", WAITS, "ALTER TABLE sbtest1 ADD COLUMN yy INT")
    };
    let holder =
        ServerThread { connection_id: None, internal_id: Some(90), ..session(0, "", "not known", "") };
    let of = |locks: Vec<MetadataLock>| {
        let sessions = vec![waiter.clone(), holder.clone()];
        let window = Build::busy("8.0.36")
            .sessions(move |_| sessions.clone())
            .each(move |at_s, server, _| server.metadata_locks = answer(at_s, locks.clone()))
            .remote();
        let mut window = window.window();
        window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        found(&window)
    };
    let asked = |finding: &Finding| finding.remedies[0].statement.clone();
    let finding = of(vec![owner(90, "SHARED_READ", true), owner(91, "EXCLUSIVE", false)]);
    let why = &finding.why;
    assert!(why.starts_with("Thread 90 of performance_schema.threads holds the table."), "{why}");
    assert!(asked(&finding).ends_with("WHERE THREAD_ID IN (90, 91)"), "{finding:#?}");
    let finding = of(vec![owner(91, "EXCLUSIVE", false)]);
    assert!(finding.why.starts_with("It is not known who holds the table"), "{}", finding.why);
    assert!(asked(&finding).ends_with("WHERE THREAD_ID IN (91)"), "{finding:#?}");
}

#[test]
fn captured_stacks_alone_name_the_wait_and_say_that_they_do_not_name_the_holder() {
    use spindoctor_model::stack::ThreadState;
    use spindoctor_model::window::NOT_GIVEN;
    const STANDS: &[&str] = &[
        "MDL_wait::timed_wait",
        "MDL_context::acquire_lock",
        "open_table_get_mdl_lock",
        "dispatch_command",
        "do_command",
    ];
    let mut window =
        Build::busy("8.0.36").remote().only_snapshots(&[(6, ThreadState::Condition, STANDS)]).window();
    window.samples.truncate(1);
    window.samples[0].server = spindoctor_model::ServerSample::default();
    window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
    let findings = crate::diagnose(&window).findings;
    assert_eq!(findings[0].cause, CAUSE.name, "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.cause != "unnamed-wait"), "{findings:#?}");
    assert_eq!(findings[0].headline, "6 sessions wait for a metadata lock: by their stacks");
    assert!(findings[0].why.contains("the stacks do not say"), "{}", findings[0].why);
    assert_eq!(findings[0].root, None);
    assert!(findings[0].remedies[0].statement.contains("performance_schema.metadata_locks"));
    let mut of_one =
        Build::busy("8.0.36").remote().only_snapshots(&[(1, ThreadState::Condition, STANDS)]).window();
    of_one.samples.truncate(1);
    of_one.samples[0].server = spindoctor_model::ServerSample::default();
    of_one.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
    let found = crate::diagnose(&of_one).findings;
    assert_eq!(found[0].headline, "1 session waits for a metadata lock: by its stack");
    assert!(found[0].why.starts_with("It stands"), "{}", found[0].why);
    // Of a live server whose list could not be read it is not concluded.
    window.server.no_pid = None;
    let time = crate::session_time(&window);
    assert!(matches!(CAUSE.evaluate(&window, time.as_ref()), Outcome::NotEnoughEvidence(_)));
}
