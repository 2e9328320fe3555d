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

#[test]
fn one_statement_that_is_at_work_alone_for_minutes_is_said_with_what_shows_why() {
    let of = |rows: &[(u64, u64, &str, &str)]| {
        findings(&list(rows)).into_iter().find(|finding| finding.cause == "unnamed-wait")
    };
    let read = (41, 754, "Sending data", "SELECT note FROM parcels WHERE weight > 7");
    let found = of(&[read]).unwrap();
    assert!(
        found.headline.starts_with("Connection 41 (app) alone is at work, for 12 min 34 s: SELECT note FROM"),
        "{found:#?}"
    );
    assert_eq!(found.severity, spindoctor_model::Severity::Note);
    assert!(found.evidence.iter().any(|one| one.value == "Sending data".into()), "{found:#?}");
    assert!(found.remedies[0].statement.starts_with("EXPLAIN FOR CONNECTION 41"), "{found:#?}");
    let change = of(&[(41, 754, "altering table", "ALTER TABLE parcels ADD COLUMN note TEXT")]).unwrap();
    assert!(change.remedies[0].statement.contains("twice, ten seconds apart"), "{change:#?}");
    // It has not lasted, it sleeps on purpose, or it is not alone.
    assert_eq!(of(&[(41, 40, "Sending data", "SELECT note FROM parcels")]), None);
    assert_eq!(of(&[(41, 754, "User sleep", "SELECT SLEEP(900)")]), None);
    let two = of(&[read, (42, 700, "Sending data", "SELECT id FROM parcels")]).unwrap();
    assert!(!two.headline.contains("alone"), "{}", two.headline);
}
