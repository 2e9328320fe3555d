//! `auto-increment-lock`: inserts wait for the lock of a table's `AUTO_INCREMENT` counter.

use spindoctor_model::{Evidence, Remedy, SessionTime, TimeClass, Window};

use crate::time_model::InClasses;
use crate::wait_graph::Verdict;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "auto-increment-lock",
    title: "inserts wait for the lock of a table's AUTO_INCREMENT counter",
    what: "With innodb_autoinc_lock_mode 0 or 1 an INSERT whose number of rows is not known beforehand (INSERT ... SELECT, LOAD \
           DATA, REPLACE ... SELECT) holds a lock on the table's counter until the statement ends, so that its numbers are \
           consecutive. Every other insert into the table waits, single rows as well.",
    why_it_hurts: "All inserts into the table wait as long as the long one runs, and their clients with them.",
    evidence: "Sessions that wait for a lock in mode AUTO_INC (data_locks, INNODB_LOCKS), or stand in \
               row_lock_table_autoinc_for_mysql by their stacks: from 5 % of the session time and half a session on; and \
               innodb_autoinc_lock_mode.",
    looks_alike: "Inserts that wait for a gap or for a duplicate of a unique key wait for a row lock: row-lock-pileup. Many \
                  inserts at the right end of an index wait for its pages: index-lock.",
    remedies: "innodb_autoinc_lock_mode=2 (the default from MySQL 8.0 on) takes no lock; it needs binlog_format=ROW or MIXED and \
               a restart. Until then split the long INSERT into parts of some thousand rows, each its own statement.",
    safety: "With mode 2 the numbers that one statement gets have gaps and are not consecutive, and statement-based replication \
             gives other numbers on the replica: use it with row-based logging only.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-auto-increment-handling.html",
        "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/auto_increment-handling-in-innodb",
    ],
    costs: Costs::Waits(&[TimeClass::AutoIncrementLock]),
    explains_time: &[TimeClass::AutoIncrementLock],
    stacks: Stacks::Standing(&["row_lock_table_autoinc_for_mysql", "ha_innobase::innobase_lock_autoinc"]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::AutoIncrementLock]) else {
        // Who waits so is known by connection: without the list of threads no stack is theirs, and without the list of waits a
        // wait for a lock of InnoDB may be this one.
        let undecided = [TimeClass::RowLock, TimeClass::Other, TimeClass::Running];
        let missing = match table(window) {
            Some(_) => window.missing(|sample| &sample.server.threads),
            None => window
                .missing(|sample| &sample.server.row_lock_waits)
                .filter(|_| InClasses::from_time(time, &undecided).is_some()),
        };
        return missing.map_or(Outcome::Clear, Outcome::NotEnoughEvidence);
    };
    let blocker = waits.blocker(window);
    let mode = window.variable_word("innodb_autoinc_lock_mode");
    let table = table(window);
    let on = table.map_or_else(String::new, |table| format!(" of {table}"));
    let holder = blocker.as_ref().map_or_else(String::new, |blocker| match blocker.chained(true) {
        Some(chain) => format!("; {chain}"),
        None => format!("; connection {} has it", blocker.connection_id),
    });
    Outcome::Fired(
        waits
            .draft(
                &CAUSE,
                format!("{:.1} sessions wait for the AUTO_INCREMENT lock{on}{holder}", waits.sessions),
            )
            .why(match mode {
                Some(mode) => format!(
                    "innodb_autoinc_lock_mode is {mode}: an INSERT of a number of rows that is not known beforehand keeps the \
                     counter until it ends."
                ),
                None => "An INSERT of a number of rows that is not known beforehand keeps the counter until it ends.".into(),
            })
            .evidence_if(
                mode.map(|mode| {
                    Evidence::new("innodb_autoinc_lock_mode", mode, "", "SHOW GLOBAL VARIABLES").expected("2")
                }),
            )
            .remedy_if(blocker.as_ref().and_then(|blocker| {
                blocker.remedy(&blocker.why_to_end("Its statement has the counter until it ends."))
            }))
            .remedy_if(blocker.as_ref().and_then(Verdict::remedy_between))
            .remedy_if((mode != Some("2")).then(|| Remedy {
                statement: "innodb_autoinc_lock_mode = 2 in the option file, with binlog_format = ROW".into(),
                why: "No statement keeps the counter for longer than a number takes.".into(),
                dynamic: false,
                risk: "Numbers of one statement have gaps; statement-based replication gives other numbers on replicas.".into(),
                undo: format!("innodb_autoinc_lock_mode = {} and a restart", mode.unwrap_or("1")),
            }))
            .remedy(Remedy {
                statement: "Split the long INSERT ... SELECT into parts of some thousand rows, each a statement".into(),
                why: "The counter is free between the parts.".into(),
                dynamic: true,
                risk: "A change of the application; the parts are no longer one transaction unless it makes them one.".into(),
                undo: String::new(),
            })
            .root(blocker.as_ref().map(Verdict::described))
            .finding(),
    )
}

/// The table whose counter is waited for, in the latest list of lock waits that has one.
fn table(window: &Window) -> Option<&str> {
    let lists = window.all(|sample| &sample.server.row_lock_waits);
    let waits = lists.iter().rev().flat_map(|(_, waits)| waits.iter());
    waits
        .filter(|wait| wait.mode.starts_with("AUTO_INC"))
        .map(|wait| wait.table.as_str())
        .find(|table| !table.is_empty())
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::RowLockWait;
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    fn waits_in(function: &'static str) -> Build {
        let frames: &[&str] = &["lock_wait_suspend_thread", function, "dispatch_command", "do_command"];
        Build::busy("5.7.40").variable("innodb_autoinc_lock_mode", "1").only_snapshots(&[(
            12,
            ThreadState::Lock,
            frames,
        )])
    }

    pub(crate) fn fires() -> Window {
        waits_in("row_lock_table_autoinc_for_mysql").window()
    }

    /// The lock is a row's.
    pub(crate) fn near_miss() -> Window {
        waits_in("row_search_mvcc").window()
    }

    #[test]
    fn without_stacks_the_mode_of_the_lock_decides() {
        let wait = |id| RowLockWait {
            waiting_connection_id: Some(id),
            waiting_transaction: id.to_string(),
            table: "test.t".into(),
            mode: "AUTO_INC".into(),
            ..RowLockWait::default()
        };
        let window = Build::waiting(12, "executing")
            .each(|at_s, server, _| server.row_lock_waits = answer(at_s, (20..32).map(wait).collect()))
            .window();
        let finding = &crate::diagnose(&window).findings[0];
        assert_eq!(finding.cause, CAUSE.name, "{finding:#?}");
        assert!(finding.headline.contains("of test.t"), "{}", finding.headline);
    }

    /// Connection 7 has a row that 8 wants, and 8 has the counter.
    #[test]
    fn of_a_chain_each_is_said_to_hold_what_it_holds() {
        let wait = |waiting: u64, blocking: u64, table: &str, mode: &str| RowLockWait {
            waiting_connection_id: Some(waiting),
            blocking_connection_id: Some(blocking),
            waiting_transaction: (waiting + 9000).to_string(),
            blocking_transaction: (blocking + 9000).to_string(),
            table: table.into(),
            mode: mode.into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        let window = Build::busy("8.0.36")
            .remote()
            .without_profile()
            .sessions(|_| {
                let mut sessions = vec![session(7, "Sleep", "", "")];
                sessions.push(session(8, "Query", "executing", "INSERT INTO t SELECT * FROM s FOR UPDATE"));
                sessions
                    .extend((20..32).map(|id| session(id, "Query", "executing", "INSERT INTO t VALUES (1)")));
                sessions
            })
            .each(move |at_s, server, _| {
                let counters = (20..32).map(|id| wait(id, 8, "test.t", "AUTO_INC"));
                let row = wait(8, 7, "test.s", "X,REC_NOT_GAP");
                server.row_lock_waits = answer(at_s, counters.chain([row]).collect());
                server.transactions =
                    answer(at_s, vec![transaction(7, "RUNNING", 61.0), transaction(8, "LOCK WAIT", 13.0)]);
            });
        let findings = crate::diagnose(&window.window()).findings;
        let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
        assert_eq!(
            finding.headline,
            "12 sessions wait for the AUTO_INCREMENT lock of test.t; connection 8 holds it and waits for a row lock on test.s that \
             connection 7 holds; connection 7 is idle in transaction"
        );
        assert_eq!(finding.remedies[0].statement, "KILL 7");
        assert!(finding.remedies[0].why.contains("connection 8 goes on"), "{:?}", finding.remedies[0]);
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .remote()
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }
}
