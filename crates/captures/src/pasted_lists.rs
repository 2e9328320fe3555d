//! Process lists as people paste them, with what else of the same moment says who blocks the others. Texts with values of our own.

use spindoctor_model::Finding;

use crate::{recognise, window};

fn findings(text: &str) -> Vec<Finding> {
    spindoctor_rules::diagnose(&window(&recognise("pasted", text))).findings
}

/// A process list of these rows: number, time, state, statement.
fn list(rows: &[(u64, u64, &str, &str)]) -> String {
    let mut text = "| Id | User | Host | db | Command | Time | State | Info |\n".to_owned();
    for (id, time, state, statement) in rows {
        text.push_str(&format!(
            "| {id} | app | 10.0.0.1:5 | shop | Query | {time} | {state} | {statement} |\n"
        ));
    }
    text
}

#[test]
fn a_large_transaction_in_its_commit_is_what_the_other_commits_wait_for() {
    let state = "waiting for handler commit";
    let mut rows = vec![(20, 50, state, "INSERT INTO big SELECT * FROM small")];
    rows.extend((21..29).map(|id| (id, 9, state, "UPDATE stock SET n = 1 WHERE id = 7")));
    let status = |entries: u32| {
        format!(
            "=====================================\n2024-05-02 08:01:40 0x7f INNODB MONITOR OUTPUT\n=====================================\n\
             ------------\nTRANSACTIONS\n------------\nTrx id counter 9999\nHistory list length 7\n\
             ---TRANSACTION 9020, ACTIVE (PREPARED) 50 sec\nmysql tables in use 1, locked 1\n\
             812 lock struct(s), heap size 90439, 4 row lock(s), undo log entries {entries}\n\
             MySQL thread id 20, OS thread handle 140, query id 7 10.0.0.1 app waiting for handler commit\n\
             INSERT INTO big SELECT * FROM small\n----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n"
        )
    };
    let found = findings(&format!("{}\n{}", list(&rows), status(800_000)));
    assert_eq!(found[0].cause, "large-commit", "{found:#?}");
    assert_eq!(found[0].root.as_ref().and_then(|root| root.connection_id), Some(20), "{found:#?}");
    let few = findings(&format!("{}\n{}", list(&rows), status(40)));
    assert!(few.iter().all(|finding| finding.cause != "large-commit"), "{few:#?}");
}

#[test]
fn a_ddl_that_a_galera_node_executes_for_hours_is_who_keeps_its_commits() {
    let mut rows = vec![(71, 7_300, "altering table", "ALTER TABLE orders ADD COLUMN note TEXT")];
    rows.extend((80..88).map(|id| (id, 7_200, "wsrep: preparing to commit write set(4711)", "COMMIT")));
    rows.extend((90..93).map(|id| (id, 7_100, "wsrep in pre-commit stage", "INSERT INTO orders VALUES (1)")));
    let found = findings(&list(&rows));
    assert_eq!(found[0].cause, "galera-flow-control", "{found:#?}");
    assert!(found[0].headline.contains("connection 71 runs ALTER TABLE orders"), "{found:#?}");
    assert_eq!(found[0].root.as_ref().and_then(|root| root.connection_id), Some(71), "{found:#?}");
}
