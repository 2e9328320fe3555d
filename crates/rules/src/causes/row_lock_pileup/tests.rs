//! Queues behind one transaction, behind several, and for a hot row.

use spindoctor_model::mysql::{LastStatement, RowLockWait, Transaction};

use super::*;
use crate::testing::{Build, answer, session, transaction};

/// One waits for 20 s for the row of a transaction; fourteen others are behind the same connection's metadata lock.
fn one_long_wait(holder: Option<u64>) -> Window {
    Build::busy("8.0.36")
        .sessions(|_| {
            let mut sessions =
                vec![session(7, "Sleep", "", ""), session(20, "Query", "updating", "UPDATE t")];
            sessions.extend((30..44).map(|id| session(id, "Query", "executing", "SELECT 1")));
            sessions
        })
        .each(move |at_s, server, _| {
            let mut open = vec![transaction(20, "LOCK WAIT", 20.0)];
            open.extend(holder.map(|id| transaction(id, "RUNNING", 60.0)));
            server.transactions = answer(at_s, open);
            server.row_lock_waits = answer(
                at_s,
                vec![RowLockWait {
                    waiting_connection_id: Some(20),
                    blocking_connection_id: holder,
                    waiting_transaction: "9020".into(),
                    blocking_transaction: "421".into(),
                    table: "shop.stock".into(),
                    waited_s: 20.0,
                    ..RowLockWait::default()
                }],
            );
        })
        .window()
}

#[test]
fn a_single_long_wait_rests_on_its_length_and_counts_itself_alone() {
    let Outcome::Fired(finding) = evaluate(&one_long_wait(Some(7))) else { panic!("it fires") };
    assert!(finding.headline.starts_with("Connection 7 blocks 1 transaction on"), "{}", finding.headline);
    let beyond: Vec<&str> = finding
        .evidence
        .iter()
        .filter(|evidence| !evidence.expected.is_empty())
        .map(|evidence| evidence.reading.as_str())
        .collect();
    assert_eq!(beyond, ["longest wait"], "what is within its bound is no evidence");
}

#[test]
fn what_an_idle_holder_ran_last_stands_in_the_finding() {
    let mut window = one_long_wait(Some(7));
    for sample in &mut window.samples {
        let last = LastStatement {
            connection_id: Some(7),
            statement: "UPDATE stock SET n = 9 WHERE id = 1".into(),
            ..LastStatement::default()
        };
        sample.server.last_statements = answer(sample.at_s, vec![last]);
    }
    let Outcome::Fired(finding) = evaluate(&window) else { panic!("it fires") };
    let ran = finding.evidence.iter().find(|one| one.reading == "who had the lock ran");
    let ran = serde_json::to_string(&ran).unwrap();
    assert!(ran.contains("UPDATE stock SET n = ? WHERE id = ?"), "{ran}");
}

#[test]
fn where_the_holder_has_no_connection_nobody_is_sent_to_the_hot_row() {
    let unattached = one_long_wait(None);
    let Outcome::Fired(finding) = evaluate(&unattached) else { panic!("it fires") };
    assert!(finding.why.contains("it was prepared by XA, or InnoDB rolls it back"), "{}", finding.why);
    assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("hot row")));
    assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
    assert_eq!(crate::diagnose(&unattached).findings[0].cause, "prepared-xa-left");
}

/// Connection 7 holds a row that sixteen want, 8 one that nine others want.
fn two_holders() -> Build {
    let wait = |waiting: u64, blocking: u64| RowLockWait {
        waiting_connection_id: Some(waiting),
        blocking_connection_id: Some(blocking),
        waiting_transaction: (waiting + 9000).to_string(),
        blocking_transaction: (blocking + 9000).to_string(),
        table: "sbtest.sbtest1".into(),
        waited_s: 12.0,
        ..RowLockWait::default()
    };
    Build::busy("8.0.36")
        .sessions(|_| {
            let mut sessions = vec![session(7, "Sleep", "", ""), session(8, "Sleep", "", "")];
            sessions.extend((20..45).map(|id| session(id, "Query", "updating", "UPDATE sbtest1 SET k = 1")));
            sessions
        })
        .each(move |at_s, server, _| {
            server.transactions =
                answer(at_s, vec![transaction(7, "RUNNING", 60.0), transaction(8, "RUNNING", 60.0)]);
            let waits = (20..45).map(|id| wait(id, if id < 36 { 7 } else { 8 })).collect();
            server.row_lock_waits = answer(at_s, waits);
        })
}

#[test]
fn two_who_hold_rows_of_their_own_are_both_named_with_what_frees_those_behind_each() {
    let window = two_holders().window();
    let Outcome::Fired(finding) = CAUSE.evaluate(&window, crate::session_time(&window).as_ref()) else {
        panic!("it fires")
    };
    assert!(finding.headline.starts_with("Connection 7 blocks 16 transactions"), "{}", finding.headline);
    assert!(finding.headline.ends_with("; connection 8 blocks 9 more"), "{}", finding.headline);
    let kills: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(kills[..2], ["KILL 7", "KILL 8"]);
    assert!(finding.why.contains("rows of its own"), "{}", finding.why);
}

/// Connection 7 has a row that 8 wants, and 8 has one of another table that all others want.
#[test]
fn of_a_chain_the_second_is_named_with_the_table_that_the_others_want() {
    let wait = |waiting: u64, blocking: u64, table: &str| RowLockWait {
        waiting_connection_id: Some(waiting),
        blocking_connection_id: Some(blocking),
        waiting_transaction: (waiting + 9000).to_string(),
        blocking_transaction: (blocking + 9000).to_string(),
        table: table.into(),
        waited_s: 12.0,
        ..RowLockWait::default()
    };
    let window = two_holders().each(move |at_s, server, _| {
        let others = (20..45).map(|id| wait(id, 8, "shop.stock"));
        server.row_lock_waits =
            answer(at_s, std::iter::once(wait(8, 7, "shop.orders")).chain(others).collect());
    });
    let finding = found(&window.window());
    assert_eq!(
        finding.headline,
        "Connection 7 blocks 26 transactions: it is idle in transaction; 25 of them wait on shop.stock behind connection 8, \
         which waits for it"
    );
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements[..2], ["KILL 7", "KILL 8"]);
    assert!(
        finding.why.contains("connection 7 holds a row lock on shop.orders, connection 8 waits for that"),
        "{}",
        finding.why
    );
}

/// Connection 7 has locked a table that 8 wants, and 8 has the row that all others want.
#[test]
fn of_a_chain_over_two_kinds_of_lock_each_is_said_to_hold_what_it_holds() {
    use spindoctor_model::mysql::MetadataLock;
    let lock = |connection: u64, lock_type: &str, granted| MetadataLock {
        object_type: "TABLE".into(),
        schema: "shop".into(),
        name: "prices".into(),
        lock_type: lock_type.into(),
        granted,
        owner_internal_id: Some(connection + 40),
        owner_connection_id: None,
    };
    let wait = |waiting: u64| RowLockWait {
        waiting_connection_id: Some(waiting),
        blocking_connection_id: Some(8),
        waiting_transaction: (waiting + 9000).to_string(),
        blocking_transaction: "9008".into(),
        table: "shop.stock".into(),
        waited_s: 12.0,
        ..RowLockWait::default()
    };
    let window = two_holders()
        .sessions(|_| {
            let mut sessions = vec![
                session(7, "Sleep", "", ""),
                session(8, "Query", "Waiting for table metadata lock", "SELECT p FROM prices"),
            ];
            sessions.extend((20..45).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = 1")));
            sessions
        })
        .each(move |at_s, server, _| {
            server.transactions = answer(at_s, vec![transaction(8, "RUNNING", 60.0)]);
            server.row_lock_waits = answer(at_s, (20..45).map(wait).collect());
            server.metadata_locks =
                answer(at_s, vec![lock(7, "SHARED_NO_READ_WRITE", true), lock(8, "SHARED_READ", false)]);
        });
    let finding = found(&window.window());
    assert_eq!(
        finding.headline,
        "Connection 7 blocks 25 transactions that want a row lock on shop.stock: connection 8 holds it and waits for the metadata lock \
         of shop.prices that connection 7 holds; connection 7 is idle, holding tables"
    );
    assert!(!finding.why.contains("The same transaction holds the lock"), "{}", finding.why);
    let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(statements[..2], ["KILL 7", "KILL 8"]);
}

/// Of 22 sessions one scans, and 20 wait for a row that another has.
#[test]
fn a_scan_beside_the_queue_stands_behind_it() {
    let waits = |waiting: u64| RowLockWait {
        waiting_connection_id: Some(waiting),
        blocking_connection_id: Some(7),
        waiting_transaction: (waiting + 9000).to_string(),
        blocking_transaction: "9007".into(),
        table: "shop.stock".into(),
        waited_s: 12.0,
        ..RowLockWait::default()
    };
    let window = Build::busy("8.0.36")
        .sessions(|_| {
            let mut sessions = vec![session(7, "Sleep", "", "")];
            sessions.extend((20..40).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = 1")));
            sessions.push(session(40, "Query", "executing", "SELECT * FROM orders WHERE note = 'x'"));
            sessions
        })
        .each(move |at_s, server, _| {
            server.transactions = answer(at_s, vec![transaction(7, "RUNNING", 60.0)]);
            server.row_lock_waits = answer(at_s, (20..40).map(waits).collect());
        })
        .digest_scans(
            "SELECT * FROM orders WHERE note = ?",
            5.0,
            190_000.0,
            crate::testing::Rows { examined: 200_000.0, sent: 2.0 },
            1.0,
        );
    let findings = crate::diagnose(&window.window()).findings;
    let causes: Vec<&str> = findings.iter().map(|finding| finding.cause.as_str()).collect();
    assert_eq!(causes[..2], [CAUSE.name, "rows-read-waste"], "{causes:?}");
    assert_eq!(findings[0].remedies[0].statement, "KILL 7");
}

/// Waiters that give up after a second are not made to wait for five.
#[test]
fn no_timeout_is_made_longer() {
    let of = |timeout_s: &str| {
        let window = two_holders().variable("innodb_lock_wait_timeout", timeout_s).window();
        let Outcome::Fired(finding) = CAUSE.evaluate(&window, crate::session_time(&window).as_ref()) else {
            panic!("it fires")
        };
        finding.remedies.iter().any(|remedy| remedy.statement.contains("innodb_lock_wait_timeout"))
    };
    assert!(of("50"));
    assert!(!of("1") && !of("5"));
}

#[test]
fn where_no_transaction_is_prepared_it_says_what_is_known_of_one_without_a_connection() {
    let mut window = one_long_wait(None);
    for sample in &mut window.samples {
        sample.server.prepared_xa = answer(sample.at_s, Vec::new());
    }
    let finding = crate::diagnose(&window).findings.remove(0);
    assert_eq!(finding.cause, CAUSE.name);
    assert!(finding.why.contains("XA RECOVER lists nothing"), "{}", finding.why);
    assert!(finding.remedies[0].statement.contains("trx_mysql_thread_id = 0"), "{finding:?}");
}

/// Connection 7 holds a row; 20 to 29 queue for it, each also behind the one before it.
fn queue(holder: impl Fn(usize) -> u64) -> Window {
    let waits = |holder: u64| {
        (20..30)
            .map(|waiter| RowLockWait {
                waiting_connection_id: Some(waiter),
                blocking_connection_id: Some(if waiter == 20 { holder } else { waiter - 1 }),
                waiting_transaction: format!("{}", waiter + 9000),
                blocking_transaction: String::new(),
                table: "shop.stock".into(),
                index: "PRIMARY".into(),
                record: "7".into(),
                mode: "X,REC_NOT_GAP".into(),
                waited_s: 3.0,
            })
            .collect::<Vec<_>>()
    };
    Build::busy("8.0.36")
        .sessions(|at| {
            let mut sessions = vec![session(holder(at), "Sleep", "", "")];
            sessions
                .extend((20..30).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = n - 1")));
            sessions.push(session(40, "Query", "executing", "SELECT 1"));
            sessions
        })
        .each(|at_s, server, _| {
            server.row_lock_waits = answer(at_s, waits(holder(at_s as usize)));
            server.transactions = answer(at_s, vec![transaction(holder(at_s as usize), "RUNNING", 61.0)]);
        })
        .window()
}

pub(crate) fn fires() -> Window {
    queue(|_| 7)
}

/// Two sessions meet at a row now and then.
pub(crate) fn near_miss() -> Window {
    Build::busy("8.0.36")
        .sessions(|_| (20..30).map(|id| session(id, "Query", "updating", "UPDATE stock")).collect())
        .each(|at_s, server, _| {
            let waits = (at_s as usize).is_multiple_of(3);
            let state = if waits { "LOCK WAIT" } else { "RUNNING" };
            server.transactions = answer(at_s, vec![transaction(20, state, 0.01)]);
        })
        .window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
}

fn found(window: &Window) -> Finding {
    match evaluate(window) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_root_is_the_holder_that_waits_for_nobody() {
    let finding = found(&fires());
    let root = finding.root.unwrap();
    assert_eq!((root.connection_id, root.thread_os_id), (Some(7), Some(4007)));
    assert_eq!(root.statement, "idle in transaction");
    assert_eq!(
        finding.headline,
        "Connection 7 blocks 10 transactions on shop.stock: it is idle in transaction"
    );
    assert_eq!(finding.remedies[0].statement, "KILL 7");
    assert!(finding.remedies[0].risk.contains("1 changed row."), "{}", finding.remedies[0].risk);
    assert!(finding.score > 0.85, "{}", finding.score);
}

#[test]
fn a_holder_at_work_that_has_changed_many_rows_is_let_end_before_it_is_ended() {
    let holder_with = |rows_modified| {
        let mut window = fires();
        for sample in &mut window.samples {
            let mut threads = sample.server.threads.value().unwrap().clone();
            threads.retain(|thread| thread.connection_id != Some(7));
            threads.push(session(7, "Query", "deleting from main table", "DELETE FROM stock WHERE id = 7"));
            sample.server.threads = answer(sample.at_s, threads);
            let open = Transaction { rows_modified, ..transaction(7, "RUNNING", 61.0) };
            sample.server.transactions = answer(sample.at_s, vec![open]);
        }
        found(&window).remedies
    };
    let many = holder_with(612_345);
    assert_eq!(many[0].statement, "Let it end: connection 7 is at work, with 612,345 changed rows in 61 s");
    assert!(many[1].statement.starts_with("KILL"), "{many:?}");
    assert!(many[1].risk.contains("The undo of 612,345 changed rows takes about 61 s"), "{}", many[1].risk);
    let few = holder_with(7);
    assert!(few[0].statement.starts_with("KILL") && !few[0].risk.contains("The undo"), "{few:?}");
    // Who rests makes no progress.
    assert_eq!(found(&fires()).remedies[0].statement, "KILL 7");
}

#[test]
fn a_holder_that_changes_is_a_hot_row_and_nobody_is_killed() {
    let finding = found(&queue(|at| 50 + at as u64));
    assert!(finding.headline.starts_with("10 sessions on average wait"), "{}", finding.headline);
    assert_eq!(finding.root, None, "who has it at the end has it for an instant");
    assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
}

#[test]
fn samples_whose_lists_were_not_read_do_not_thin_out_the_queue() {
    let mut window = queue(|_| 7);
    for sample in window.samples.iter_mut().skip(1) {
        sample.server.row_lock_waits = spindoctor_model::Reading::NotAsked;
        sample.server.transactions = spindoctor_model::Reading::NotAsked;
    }
    let finding = found(&window);
    assert!(
        finding.headline.contains("10 transactions") || finding.headline.starts_with("10 "),
        "{}",
        finding.headline
    );
}

#[test]
fn without_the_lock_tables_the_gauge_shows_that_there_are_waits_and_no_root_is_named() {
    let why = || spindoctor_model::Reading::Unavailable(Unavailable::because("no PROCESS privilege"));
    let window = Build::busy("8.0.36")
        .gauge("Innodb_row_lock_current_waits", 12.0)
        .each(|_, server, _| {
            server.row_lock_waits = why();
            server.transactions = spindoctor_model::Reading::NotAsked;
        })
        .window();
    let finding = found(&window);
    assert_eq!(finding.root, None);
    assert!(finding.why.contains("could not be read"), "{}", finding.why);
}

#[test]
fn many_short_waits_count_by_their_time_where_lists_see_few_of_them() {
    let of = |waits_per_s, waited_ms_per_s| {
        let window = Build::busy("10.11.8-MariaDB")
            .counter("Innodb_row_lock_waits", waits_per_s)
            .counter("Innodb_row_lock_time", waited_ms_per_s);
        match evaluate(&window.window()) {
            Outcome::Fired(finding) => Some(finding.headline),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    assert!(of(20.0, 800.0).is_some_and(|headline| headline.starts_with("0.8 sessions on average")));
    // Of the few that are at work a third waits: less than half a session, and no less of what their clients wait for.
    assert!(of(20.0, 330.0).is_some_and(|headline| headline.starts_with("0.3 sessions on average")));
    assert_eq!(of(20.0, 200.0), None, "two clients that meet now and then");
    // One that waited for eight seconds ended in the window.
    assert_eq!(of(0.1, 800.0), None);
}

#[test]
fn a_ring_that_innodb_does_not_look_for_is_said_and_ended() {
    let window = |detects: &str| {
        let wait = |waiting: u64, blocking: u64| RowLockWait {
            waiting_connection_id: Some(waiting),
            blocking_connection_id: Some(blocking),
            waiting_transaction: (waiting + 9000).to_string(),
            blocking_transaction: (blocking + 9000).to_string(),
            table: "shop.counters".into(),
            record: blocking.to_string(),
            waited_s: 9.0,
            ..RowLockWait::default()
        };
        Build::busy("9.7.4")
            .variable("innodb_deadlock_detect", detects)
            .sessions(|_| {
                (20..30).map(|id| session(id, "Query", "updating", "UPDATE counters SET n = 1")).collect()
            })
            .each(move |at_s, server, _| {
                server.transactions =
                    answer(at_s, (20..30).map(|id| transaction(id, "LOCK WAIT", 9.0)).collect());
                let ring = [wait(20, 21), wait(21, 20)];
                server.row_lock_waits =
                    answer(at_s, ring.into_iter().chain((22..30).map(|id| wait(id, 20))).collect());
            })
            .window()
    };
    let Outcome::Fired(finding) = evaluate(&window("OFF")) else { panic!("it fires") };
    assert_eq!(
        finding.headline,
        "2 sessions wait for each other on shop.counters, and 10 in all are blocked: innodb_deadlock_detect is OFF"
    );
    let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert!(statements[0].starts_with("KILL 2"), "{statements:?}");
    assert_eq!(statements[1], "SET GLOBAL innodb_deadlock_detect = ON");
    let Outcome::Fired(finding) = evaluate(&window("ON")) else { panic!("it fires") };
    assert!(
        !finding.headline.contains("each other"),
        "the next look of InnoDB ends it: {}",
        finding.headline
    );
    // Somebody gave the list, and not the variable: it is OFF, or the list is not whole, and nobody is ended for that.
    let mut given = window("ON");
    given.server.no_pid = Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
    for sample in &mut given.samples {
        sample.server.variables = spindoctor_model::Reading::NotAsked;
    }
    let Outcome::Fired(finding) = evaluate(&given) else { panic!("it fires") };
    assert!(
        finding.headline.ends_with(": innodb_deadlock_detect is OFF, or what was given is not whole"),
        "{}",
        finding.headline
    );
    let first = &finding.remedies[0].statement;
    assert!(first.starts_with("SHOW GLOBAL VARIABLES LIKE 'innodb_deadlock_detect'"), "{first}");
    assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")), "{finding:#?}");
}

/// Connection 20 has locked the row and asks for a lock of GET_LOCK that 21 has, and 21 wants the row: neither InnoDB nor the server
/// looks for such a ring.
#[test]
fn a_ring_of_a_row_lock_and_a_user_lock_is_ended_by_the_end_of_a_member() {
    use spindoctor_model::mysql::MetadataLock;
    let user_lock = |connection: u64, granted| MetadataLock {
        object_type: "USER LEVEL LOCK".into(),
        name: "acct:1".into(),
        lock_type: "EXCLUSIVE".into(),
        granted,
        owner_internal_id: Some(connection + 40),
        ..MetadataLock::default()
    };
    let wait = |waiting: u64| RowLockWait {
        waiting_connection_id: Some(waiting),
        blocking_connection_id: Some(20),
        waiting_transaction: (waiting + 9000).to_string(),
        blocking_transaction: "9020".into(),
        table: "shop.accounts".into(),
        record: "1".into(),
        waited_s: 9.0,
        ..RowLockWait::default()
    };
    let window = Build::busy("9.7.4")
        .sessions(|_| {
            let updates = (21..31).map(|id| session(id, "Query", "updating", "UPDATE accounts SET n = 1"));
            let asks = session(20, "Query", "User lock", "SELECT GET_LOCK('acct:1', 600)");
            updates.chain([asks]).collect()
        })
        .each(move |at_s, server, _| {
            let waiting = (21..31).map(|id| transaction(id, "LOCK WAIT", 9.0));
            server.transactions = answer(at_s, waiting.chain([transaction(20, "RUNNING", 12.0)]).collect());
            server.row_lock_waits = answer(at_s, (21..31).map(wait).collect());
            server.metadata_locks = answer(at_s, vec![user_lock(21, true), user_lock(20, false)]);
        })
        .window();
    let findings = crate::diagnose(&window).findings;
    let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
    assert_eq!(
        finding.headline,
        "2 sessions wait for each other on shop.accounts, and 10 in all are blocked"
    );
    assert!(finding.why.contains("(row lock)") && finding.why.contains("(user lock)"), "{}", finding.why);
    assert!(finding.remedies[0].statement.starts_with("KILL 2"), "{:?}", finding.remedies);
    assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("hot row")), "{finding:#?}");
}

#[test]
fn of_one_list_the_root_stands_in_the_headline_and_counters_are_named_where_they_were_read_alone() {
    use spindoctor_model::window::NOT_GIVEN;
    let single = |blocking: Option<u64>| {
        let mut window = queue(|_| 7);
        window.samples.truncate(1);
        window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
        let server = &mut window.samples[0].server;
        let spindoctor_model::Reading::Available { value: waits, .. } = &mut server.row_lock_waits else {
            panic!("it has waits")
        };
        for wait in waits {
            wait.waited_s = 2.0;
            wait.blocking_connection_id = blocking;
        }
        if blocking.is_none() {
            server.row_lock_waits = spindoctor_model::Reading::NotAsked;
            let waiters = (20..30).map(|id| transaction(id, "LOCK WAIT", 5.0)).collect();
            server.transactions = answer(0.0, waiters);
        }
        found(&window)
    };
    let named = single(Some(7));
    assert_eq!(named.root.as_ref().and_then(|root| root.connection_id), Some(7));
    assert!(
        named.headline.contains("for up to 2 s; connection 7 blocks 10 transactions: it is idle"),
        "{}",
        named.headline
    );
    let unnamed = single(None);
    assert!(!unnamed.why.contains("counters"), "{}", unnamed.why);
}

/// Of a list of transactions alone the only one that may have the row: connection 7, beside a list of these sessions.
fn concluded(sessions: Option<&[u64]>) -> Finding {
    let listed = sessions.map(<[u64]>::to_vec);
    let build = Build::busy("8.0.36").without_profile().captured().each(move |at_s, server, _| {
        let statement = "UPDATE orders SET state = 2 WHERE id = 5";
        let mut waiter = transaction(31, "LOCK WAIT", 40.0);
        waiter.statement = Some(statement.to_owned());
        waiter.waited_s = Some(40.0);
        let holder = transaction(7, "RUNNING", 80.0);
        let wait = RowLockWait {
            waiting_connection_id: Some(31),
            blocking_connection_id: Some(7),
            waiting_transaction: waiter.id.clone(),
            blocking_transaction: holder.id.clone(),
            table: "orders".into(),
            waited_s: 40.0,
            ..RowLockWait::default()
        };
        server.row_lock_waits = answer(at_s, vec![wait]);
        server.transactions = answer(at_s, vec![waiter, holder]);
        server.threads = match &listed {
            None => spindoctor_model::Reading::NotAsked,
            Some(ids) => {
                let resting = ids.iter().map(|&id| session(id, "Sleep", "", ""));
                let waiting = session(31, "Query", "updating", statement);
                answer(at_s, resting.chain([waiting]).collect())
            }
        };
    });
    let mut window = build.window();
    window.samples.truncate(1);
    found(&window)
}

#[test]
fn a_holder_that_was_concluded_is_most_likely_one_and_is_looked_at_first() {
    for sessions in [None, Some(&[7, 9][..])] {
        let finding = concluded(sessions);
        let headline = "Connection 7 most likely blocks 1 transaction on orders";
        assert!(finding.headline.starts_with(headline), "{}", finding.headline);
        assert_eq!(finding.remedies[0].statement, "KILL 7");
        let why = &finding.remedies[0].why;
        assert!(why.starts_with("Look first whose it is") && why.contains("most likely blocks"), "{why}");
        assert!(finding.why.starts_with("Who has the lock is inferred"), "{}", finding.why);
    }
    let gone = concluded(Some(&[9][..]));
    assert!(gone.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")), "{:?}", gone.remedies);
    assert!(gone.why.contains("does not have its connection"), "{}", gone.why);
}
