use super::*;
use crate::rows::tables;

#[test]
fn who_waits_for_whom_is_read_as_sys_lists_it() {
    let text = "*************************** 1. row ***************************\nwait_age: 00:01:19\nwait_age_secs: 79\n\
                locked_table: `shop`.`stock`\nlocked_index: PRIMARY\nwaiting_trx_id: 11\nwaiting_pid: 5\nblocking_trx_id: 12\n\
                blocking_pid: 6\n";
    let waits = lock_waits(&tables(text)[0]);
    assert_eq!((waits[0].waiting_connection_id, waits[0].blocking_connection_id), (Some(5), Some(6)));
    assert_eq!((waits[0].table.as_str(), waits[0].waited_s), ("shop.stock", 79.0));
    assert_eq!(clock("00:01:19"), Some(79.0));
    assert_eq!(clock("9e307:00:00"), None);
}

#[test]
fn who_joins_the_lists_of_transactions_and_locks_gets_row_locks_by_table_with_a_holder_that_is_named() {
    let row = "*************************** 1. row ***************************\nwaiting_thread: 20\nwaiting_trx_id: 4412\n\
               waiting_query: UPDATE stock SET n = 1\nblocking_thread: 13\nblocking_trx_id: 4400\nblocking_query: NULL\n\
               blocking_lock_id: 4400:8:3:5\nblocking_lock_mode: X\nblocking_lock_type: RECORD\n\
               blocking_lock_table: `shop`.`stock`\nblocking_lock_index: PRIMARY\nwaiting_lock_mode: X\n\
               waiting_lock_type: RECORD\nwaiting_lock_table: `shop`.`stock`\n";
    let manual = "| waiting trx id | waiting thread | waiting query | blocking trx id | blocking thread | blocking query |\n\
                  | 4412 | 20 | UPDATE stock SET n = 1 | 4400 | 13 | NULL |\n";
    for (text, on) in [(row, " on shop.stock"), (manual, "")] {
        let window = crate::window(&crate::recognise("x", text));
        let finding = spindoctor_rules::diagnose(&window).findings.remove(0);
        let wanted = format!("Connection 13 blocks 1 transaction{on}: it is idle in transaction");
        assert_eq!((finding.cause.as_str(), finding.headline.as_str()), ("row-lock-pileup", wanted.as_str()));
        let kill = &finding.remedies[0];
        assert_eq!(kill.statement, "KILL 13");
        assert!(kill.risk.starts_with("Its open transaction is rolled back"), "{}", kill.risk);
    }
}

#[test]
fn who_is_named_by_a_thread_has_its_connection_where_another_list_gives_it() {
    let locks = "| thread_id | object_name | lock_type | lock_mode | lock_status | lock_data |\n\
                 | 47 | stock | RECORD | X | WAITING | 5 |\n| 46 | stock | RECORD | X | GRANTED | 5 |\n";
    let holder = |text: &str| {
        let window = crate::window(&crate::recognise("x", text));
        let waits = window.latest(|sample| &sample.server.row_lock_waits).expect("waits");
        (waits[0].blocking_transaction.clone(), waits[0].blocking_connection_id)
    };
    assert_eq!(holder(locks), ("thread 46".to_owned(), None));
    let older = "| requesting_trx_id | requested_lock_id | blocking_trx_id |\n| 11 | 11:58:3:43 | 12 |\n";
    for (text, wanted) in [(locks, "WHERE THREAD_ID IN (46)"), (older, "WHERE trx_id IN ('12')")] {
        let window = crate::window(&crate::recognise("x", text));
        let finding = spindoctor_rules::diagnose(&window).findings.remove(0);
        assert!(finding.remedies[0].statement.ends_with(wanted), "{finding:#?}");
    }
    let threads = "| THREAD_ID | PROCESSLIST_ID |\n| 46 | 12 |\n| 47 | 13 |\n";
    assert_eq!(holder(&format!("{locks}\n{threads}")), ("thread 46".to_owned(), Some(12)));
    let joined = locks
        .replace("| thread_id |", "| processlist_id | trx |")
        .replace("| 47 |", "| 13 | 4412 |")
        .replace("| 46 |", "| 12 | 4400 |");
    assert_eq!(holder(&joined), ("4400".to_owned(), Some(12)));
    for text in [format!("{locks}\n{threads}"), joined] {
        let window = crate::window(&crate::recognise("x", &text));
        let finding = spindoctor_rules::diagnose(&window).findings.remove(0);
        let kill = finding.remedies.iter().find(|remedy| remedy.statement == "KILL 12").expect("a KILL");
        assert!(kill.risk.starts_with("Its open transaction is rolled back"), "{}", kill.risk);
    }
    assert_eq!(holder(&locks.replace("thread_id", "trx")), ("46".to_owned(), None));
}

#[test]
fn the_two_have_the_words_of_other_queries_too() {
    let first = |text: &str| {
        let window = crate::window(&crate::recognise("x", text));
        let finding = spindoctor_rules::diagnose(&window).findings.remove(0);
        (finding.cause, finding.remedies[0].statement.clone())
    };
    let of_rows = "| blocked_thread | blocked_query | blocker_thread | blocker_query |\n\
                   | 20 | UPDATE stock SET n = 1 | 13 | NULL |\n";
    assert_eq!(first(of_rows), ("row-lock-pileup".to_owned(), "KILL 13".to_owned()));
    let of_tables = "| OBJECT | OWNER_LOCK_TYPE | PENDING_LOCK_TYPE | CURRENT_LOCK_OWNER | PENDING_LOCK_OWNER | \
                     CONNECTION_ID_OWNER | CONNECTION_ID_PENDING_OWNER |\n\
                     | shop.stock | SHARED_READ | EXCLUSIVE | app@db7 | root@localhost | 8 | 9 |\n";
    assert_eq!(first(of_tables), ("metadata-lock-pileup".to_owned(), "KILL 8".to_owned()));
}

#[test]
fn who_runs_nothing_is_idle_where_the_list_says_what_each_runs() {
    let head = "| waiting_trx_id | waiting_pid | waiting_query | wait_age | blocking_trx_id | blocking_pid | blocking_query |\n";
    let list = format!(
        "{head}| 4412 | 88 | UPDATE stock SET n = 1 | 00:00:19 | 4400 | 71 | NULL |\n\
         | 4413 | 89 | UPDATE stock SET n = 1 | 00:00:07 | 4400 | 71 | NULL |\n\
         | 4413 | 89 | UPDATE stock SET n = 1 | 00:00:07 | 4412 | 88 | UPDATE stock SET n = 1 |\n"
    );
    let (threads, transactions) = who_waits(&tables(&list)[0]);
    let does: Vec<_> =
        threads.iter().map(|thread| (thread.connection_id, thread.command.as_str(), thread.time_s)).collect();
    assert_eq!(does, [(Some(71), "Sleep", 0.0), (Some(88), "Query", 19.0), (Some(89), "Query", 7.0)]);
    let states: Vec<_> = transactions.iter().map(|one| (one.id.as_str(), one.state.as_str())).collect();
    assert_eq!(states, [("4400", "RUNNING"), ("4412", "LOCK WAIT"), ("4413", "LOCK WAIT")]);
    let without = list.replace("blocking_query", "something_else");
    assert_eq!(who_waits(&tables(&without)[0]), (Vec::new(), Vec::new()), "what they run is not said");
}

#[test]
fn who_blocks_and_runs_a_statement_is_not_idle() {
    let headlines = |text: &str| {
        let window = crate::window(&crate::recognise("x", text));
        let found = spindoctor_rules::diagnose(&window).findings;
        found.into_iter().map(|one| one.headline).collect::<Vec<_>>().join("; ")
    };
    let rows = "| waiting_trx_id | waiting_pid | waiting_query | blocking_trx_id | blocking_pid | blocking_query |\n\
                | 4412 | 88 | UPDATE stock SET n = 1 | 4400 | 71 | DELETE FROM stock |\n";
    let found = headlines(rows);
    assert!(found.contains("it runs DELETE FROM stock"), "{found}");
    assert!(headlines(&rows.replace("DELETE FROM stock", "NULL")).contains("it is idle"));
    let table = "| OBJECT_TYPE | OBJECT_SCHEMA | OBJECT_NAME | LOCK_TYPE | LOCK_STATUS | OWNER_THREAD_ID | PROCESSLIST_ID | \
                 PROCESSLIST_COMMAND | PROCESSLIST_INFO |\n\
                 | TABLE | shop | stock | SHARED_READ | GRANTED | 52 | 12 | Query | SELECT n FROM stock |\n\
                 | TABLE | shop | stock | EXCLUSIVE | PENDING | 60 | 20 | Query | DROP TABLE stock |\n";
    let states: Vec<String> =
        metadata_lock_owners(&tables(table)[0]).into_iter().map(|thread| thread.state).collect();
    assert_eq!(states, [RUNS, METADATA_WAIT]);
}

#[test]
fn older_lists_name_transactions_and_get_their_connections() {
    for (waiting, blocking) in [
        ("requesting_trx_id", "blocking_trx_id"),
        ("REQUESTING_ENGINE_TRANSACTION_ID", "BLOCKING_ENGINE_TRANSACTION_ID"),
    ] {
        let text = format!("| {waiting} | requested_lock_id | {blocking} |\n| 11 | 11:58:3:43 | 12 |\n");
        let mut waits = lock_waits(&tables(&text)[0]);
        let transaction = |id: &str, connection| Transaction {
            id: id.to_owned(),
            connection_id: Some(connection),
            ..Transaction::default()
        };
        with_connections(&mut waits, &[transaction("11", 5), transaction("12", 6)]);
        assert_eq!((waits[0].waiting_connection_id, waits[0].blocking_connection_id), (Some(5), Some(6)));
    }
}

#[test]
fn what_the_holder_of_a_table_does_is_claimed_only_where_the_list_says_it() {
    let row = "*************************** 1. row ***************************\nobject_schema: shop\nobject_name: stock\n\
               waiting_pid: 8\nwaiting_query: drop table stock\nwaiting_query_secs: 31\nblocking_pid: 7\n";
    let (locks, threads) = table_lock_waits(&tables(row)[0]);
    let owners: Vec<_> = locks.iter().map(|lock| (lock.owner_connection_id, lock.granted)).collect();
    assert_eq!(owners, [(Some(7), true), (Some(8), false)]);
    assert_eq!((threads[0].command.as_str(), threads[0].state.as_str()), ("", NOT_KNOWN));
    assert_eq!((threads[1].command.as_str(), threads[1].time_s), ("Query", 31.0));
}

#[test]
fn the_owners_of_metadata_locks_are_sessions() {
    let text = "| OBJECT_TYPE | OBJECT_SCHEMA | OBJECT_NAME | LOCK_TYPE | LOCK_STATUS | OWNER_THREAD_ID | PROCESSLIST_ID |\n\
                | TABLE | shop | stock | SHARED_READ | GRANTED | 52 | 12 |\n\
                | TABLE | shop | other | SHARED_READ | GRANTED | 53 | 13 |\n\
                | TABLE | shop | stock | EXCLUSIVE | PENDING | 60 | 20 |\n";
    let threads = metadata_lock_owners(&tables(text)[0]);
    let seen: Vec<_> = threads
        .iter()
        .map(|thread| (thread.connection_id, thread.internal_id, thread.state.as_str()))
        .collect();
    assert_eq!(seen, [(Some(12), Some(52), NOT_KNOWN), (Some(20), Some(60), METADATA_WAIT)]);
}

#[test]
fn columns_of_other_queries_get_the_names_of_sys() {
    let names = |columns: &[&str]| {
        names_of_sys(&columns.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).join(",")
    };
    assert_eq!(names(&["waiting trx id", "waiting thread"]), "waiting_trx_id,waiting_pid");
    assert_eq!(names(&["waiting_thread_id", "waiting_pid"]), "waiting_thread_id,waiting_pid");
    assert_eq!(names(&["blocking_trx_id", "blocking_thread_id"]), "blocking_trx_id,blocking_pid");
}
