//! `table-lock-pileup`: sessions wait for a lock on a whole table of an engine without row locks.

use spindoctor_model::{Evidence, Finding, Remedy, SessionTime, TimeClass, Window};

use crate::killing::LOOK_FIRST;
use crate::since_start::{self, SinceStart};
use crate::statement_log::StatementLog;
use crate::time_model::InClasses;
use crate::wait_graph::Verdict;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "table-lock-pileup",
    title: "sessions wait for a lock on a whole table",
    what: "MyISAM, MEMORY, CSV and Aria without transactions lock a whole table for each statement: readers together, a writer \
           alone. A long statement on such a table, or LOCK TABLES, blocks everybody else who wants the table, and behind \
           the first writer that waits new readers wait as well. A log of statements that is kept in a table (log_output=TABLE) is \
           such a table, and each statement of the server writes to it.",
    why_it_hurts: "Work on the table is done one statement at a time, however many CPUs there are, and one statement of a \
                   minute is a minute of standstill for all who use the table.",
    evidence: "Sessions in the state Waiting for table level lock, or in thr_lock by their stacks: from 5 % of the session time \
               and half a session on, and from 1 % and two sessions on as a note. The statement that has run longest on the table that the waiters name is shown; where none names it, nobody \
               is.",
    looks_alike: "Waiting for table metadata lock is the lock of the server above every engine: metadata-lock-pileup. The same \
                  state with FLUSH TABLES WITH READ LOCK at work is global-lock-pileup.",
    remedies: "Where all statements are logged into a table: general_log=OFF, a long_query_time that few reach, or \
               log_output=FILE. Else end the statement or the session that has the lock if it can be spared. Convert the table to InnoDB (ALTER \
               TABLE ... ENGINE=InnoDB), which locks rows. Until then: shorter statements, concurrent_insert=2 for tables that \
               are only added to, LOW_PRIORITY or max_write_lock_count for readers that starve.",
    safety: "KILL of a statement that changes a MyISAM table leaves the rows that it changed so far: nothing rolls back. ALTER \
             TABLE ... ENGINE copies the table and blocks its writers meanwhile.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/internal-locking.html",
        "https://dev.mysql.com/doc/refman/8.4/en/table-locking.html",
    ],
    costs: Costs::Waits(&[TimeClass::TableLock]),
    explains_time: &[TimeClass::TableLock],
    stacks: Stacks::Standing(&["thr_lock", "thr_multi_lock"]),
    rule: Rule::TimeOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Waits a second since the start, from which on they are no accident. Chosen, not derived.
const WAITS_PER_S: f64 = 1.0;

/// What one status says, or two.
fn of_status(window: &Window) -> Option<Finding> {
    const COUNTERS: [&str; 2] = ["Table_locks_waited", "Table_locks_immediate"];
    let since = SinceStart::or_between(window)?;
    let per_s = since.per_s(COUNTERS[0]).filter(|&per_s| per_s >= WAITS_PER_S)?;
    let what = format!("{per_s:.1} statements a second waited for a lock on a whole table");
    let remedy = since_start::look(
        "SELECT table_schema, table_name, engine FROM information_schema.TABLES WHERE engine <> 'InnoDB' AND table_type = 'BASE TABLE'",
        "Tables of InnoDB have locks for rows: those that are changed and read at once should be such.",
    );
    Some(since.finding(&CAUSE, &what, &COUNTERS, remedy))
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::behind_a_lock(time, &[TimeClass::TableLock]) else { return Outcome::Clear };
    let blocker = waits.blocker(window);
    // No list says who has such a lock.
    let culprit = blocker.as_ref().map_or_else(String::new, |blocker| {
        match blocker.chained(blocker.chain.as_ref().is_some_and(|chain| !chain.is_inferred)) {
            Some(chain) => format!(": {chain}"),
            None => format!(": connection {} {}holds it", blocker.connection_id, blocker.likely()),
        }
    });
    let log = StatementLog::of_every_statement(window).filter(|_| StatementLog::is_in_a_table(window));
    let culprit = match log {
        Some(log) => {
            format!(": most likely that of {}, into which the server writes each statement", log.table)
        }
        None => culprit,
    };
    Outcome::Fired(
        waits
            .draft(
                &CAUSE,
                format!("{:.1} sessions wait for a lock on a whole table{culprit}", waits.sessions),
            )
            .why(why(blocker.as_ref().filter(|_| log.is_none())))
            .evidence_if(log.map(|log| Evidence::new(log.switch, "ON", "", "SHOW GLOBAL VARIABLES")))
            .evidence_if(log.map(|_| {
                Evidence::new(
                    "log_output",
                    window.variable("log_output").unwrap_or_default(),
                    "",
                    "SHOW GLOBAL VARIABLES",
                )
            }))
            .remedy_if(log.map(|log| log_no_more(log, window)))
            .remedies(blocker.iter().flat_map(end))
            // The server's own log cannot be converted.
            .remedy_if(log.is_none().then(|| Remedy {
                statement:
                    "ALTER TABLE ... ENGINE=InnoDB of the table that the waiting statements name".into(),
                why: "InnoDB locks rows, and readers wait for nobody.".into(),
                dynamic: true,
                risk: "It copies the table, and writers of it wait meanwhile.".into(),
                undo: "ALTER TABLE ... ENGINE with the old engine.".into(),
            }))
            .root(blocker.as_ref().map(Verdict::described))
            .finding(),
    )
}

/// What such a lock is, and who has which where it is one of a chain.
fn why(blocker: Option<&Verdict<'_>>) -> String {
    const OF_ENGINE: &str = "An engine without row locks lets one statement at a time change a table.";
    let chain = blocker.and_then(Verdict::why_of_chain).map_or_else(String::new, |chain| format!(" {chain}"));
    let unfreed = blocker.filter(|blocker| blocker.root.free_with.is_none());
    let why_none = unfreed.map_or_else(String::new, |blocker| {
        format!(" No KILL of connection {}: {}.", blocker.connection_id, blocker.root.free_note)
    });
    format!("{OF_ENGINE}{chain}{why_none}")
}

/// Ending who blocks the others, and of a chain the one between.
fn end(blocker: &Verdict<'_>) -> Vec<Remedy> {
    const STAYS: &str =
        "Rows of a table without transactions that its statement changed stay changed; nothing rolls back.";
    let first = if blocker.is_likely() { LOOK_FIRST } else { "" };
    let why = format!("{first}{}", blocker.why_to_end("The table is free when it ends."));
    let kill = blocker.remedy(&why);
    let with_stays = |kill: Remedy| Remedy { risk: format!("{} {STAYS}", kill.risk), ..kill };
    let (root, between) = match blocker.chain {
        None => (kill.map(|kill| Remedy { risk: STAYS.to_owned(), ..kill }), None),
        Some(_) => (kill, blocker.remedy_between().map(with_stays)),
    };
    root.into_iter().chain(between).collect()
}

/// What ends the waits for the table that every statement is logged into.
fn log_no_more(log: StatementLog, window: &Window) -> Remedy {
    let before = window.variable_word("log_output").unwrap_or("TABLE");
    Remedy {
        statement: format!(
            "SET GLOBAL {} = OFF; or, where the log is wanted: SET GLOBAL log_output = 'FILE'",
            log.switch
        ),
        why: format!("Each statement then need not wait until it may write to {}.", log.table),
        dynamic: true,
        risk: "What is logged afterwards is not in the table; a log file of all statements grows quickly."
            .into(),
        undo: format!("SET GLOBAL {} = ON; SET GLOBAL log_output = '{before}'", log.switch),
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::{RowLockWait, ServerThread};

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    pub(crate) fn fires() -> Window {
        Build::waiting(24, "Waiting for table level lock").window()
    }

    /// The lock is the server's own.
    pub(crate) fn near_miss() -> Window {
        Build::waiting(24, "Waiting for table metadata lock").window()
    }

    /// Connection 7 has been at work on the table longest.
    pub(crate) fn behind_a_scan() -> Window {
        let sessions = |_| {
            let waiting =
                (20..44).map(|id| session(id, "Query", "Waiting for table level lock", "UPDATE m SET a = 1"));
            let mut all: Vec<ServerThread> = waiting.collect();
            all.push(ServerThread {
                time_s: 30.0,
                ..session(7, "Query", "executing", "SELECT COUNT(*) FROM m WHERE b LIKE '%x%'")
            });
            all
        };
        Build::busy("8.0.36").sessions(sessions).remote().without_profile().window()
    }

    #[test]
    fn who_has_been_at_work_longest_on_the_table_is_named_and_on_another_nobody() {
        let finding = &crate::diagnose(&behind_a_scan()).findings[0];
        assert!(finding.headline.contains("connection 7 "), "{}", finding.headline);
        assert!(finding.remedies[0].statement.starts_with("KILL"), "{:?}", finding.remedies);
        let with_another = |of_7: &'static str| {
            let mut window = behind_a_scan();
            for sample in &mut window.samples {
                if let spindoctor_model::Reading::Available { value: threads, .. } =
                    &mut sample.server.threads
                {
                    for thread in threads.iter_mut().filter(|thread| thread.connection_id == Some(7)) {
                        thread.statement = Some(of_7.to_owned());
                    }
                    let other = ServerThread {
                        time_s: 90.0,
                        ..session(8, "Query", "copy to tmp table", "OPTIMIZE TABLE posts")
                    };
                    threads.push(other);
                }
            }
            crate::diagnose(&window).findings.remove(0)
        };
        let finding = with_another("SELECT COUNT(*) FROM m WHERE b LIKE '%x%'");
        assert!(finding.headline.contains("connection 7 "), "{}", finding.headline);
        let finding = with_another("SELECT COUNT(*) FROM others");
        assert_eq!(finding.cause, CAUSE.name);
        assert!(!finding.headline.contains("connection"), "{}", finding.headline);
        assert!(finding.root.is_none(), "{:?}", finding.root);
    }

    /// A table that is checked again and again, each time for less than a second.
    #[test]
    fn who_checks_the_table_again_and_again_is_named_and_one_of_many_that_change_it_is_not() {
        let with = |of_7: &'static str| {
            let sessions = move |_| {
                let timed = |id, time_s, state: &str, statement: &str| ServerThread {
                    time_s,
                    ..session(id, "Query", state, statement)
                };
                let change = "UPDATE hits SET n = n + 1 WHERE id = 9";
                let waiting = (20..34).map(|id| timed(id, 0.5, "Waiting for table level lock", change));
                waiting.chain([timed(7, 0.2, "Checking table", of_7)]).collect()
            };
            let window = Build::busy("10.5.23-MariaDB").sessions(sessions).remote().without_profile();
            crate::diagnose(&window.window()).findings.remove(0)
        };
        let finding = with("CHECK TABLE hits EXTENDED");
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.headline.ends_with("connection 7 most likely holds it"), "{}", finding.headline);
        assert!(finding.remedies[0].statement.starts_with("KILL"), "{:?}", finding.remedies);
        assert!(finding.remedies[0].why.starts_with("Look first whose it is"), "{:?}", finding.remedies);
        // It copies or rewrites the table's files: no remedy ends that.
        for damaged in ["REPAIR TABLE hits", "OPTIMIZE TABLE hits"] {
            let finding = with(damaged);
            assert!(finding.headline.ends_with("connection 7 most likely holds it"), "{}", finding.headline);
            let kills = |remedy: &Remedy| remedy.statement.starts_with("KILL");
            assert!(!finding.remedies.iter().any(kills), "{:?}", finding.remedies);
            assert!(finding.why.contains("No KILL of connection 7: a REPAIR or OPTIMIZE"), "{}", finding.why);
        }
        assert!(with("ALTER TABLE hits ADD KEY (n)").headline.contains("connection 7"));
        for other in [
            "CHECK TABLE visits EXTENDED",
            "UPDATE hits SET n = n + 1 WHERE id = 3",
            "ALTER TABLE shop.summary ADD KEY (hits)",
        ] {
            let finding = with(other);
            assert!(!finding.headline.contains("connection"), "{other}: {}", finding.headline);
        }
    }

    /// Connection 7 has a row that 8 wants, and 8 has locked the table for its statement.
    #[test]
    fn of_a_chain_each_is_said_to_hold_what_it_holds() {
        let sessions = |_| {
            let waiting =
                (20..44).map(|id| session(id, "Query", "Waiting for table level lock", "UPDATE m SET a = 1"));
            let mut all: Vec<ServerThread> = waiting.collect();
            let change = "UPDATE m, orders SET m.a = 1, orders.n = 1 WHERE m.id = orders.id";
            all.push(session(7, "Sleep", "", ""));
            all.push(ServerThread { time_s: 30.0, ..session(8, "Query", "updating", change) });
            all
        };
        let window =
            Build::busy("8.0.36").sessions(sessions).remote().without_profile().each(|at_s, server, _| {
                let wait = RowLockWait {
                    waiting_connection_id: Some(8),
                    blocking_connection_id: Some(7),
                    waiting_transaction: "9008".into(),
                    blocking_transaction: "9007".into(),
                    table: "shop.orders".into(),
                    waited_s: 30.0,
                    ..RowLockWait::default()
                };
                server.row_lock_waits = answer(at_s, vec![wait]);
                server.transactions =
                    answer(at_s, vec![transaction(7, "RUNNING", 61.0), transaction(8, "LOCK WAIT", 30.0)]);
            });
        let findings = crate::diagnose(&window.window()).findings;
        let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
        assert_eq!(
            finding.headline,
            "24 sessions wait for a lock on a whole table: connection 8 most likely holds it and waits for a row lock on shop.orders \
             that connection 7 holds; connection 7 is idle in transaction"
        );
        let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(statements[..2], ["KILL 7", "KILL 8"]);
        assert!(finding.remedies[1].risk.contains("nothing rolls back"), "{:?}", finding.remedies);
    }

    #[test]
    fn a_log_of_all_statements_in_a_table_is_named_with_its_switch() {
        let first = |variables: &[(&'static str, &'static str)]| {
            let build = Build::waiting(24, "Waiting for table level lock");
            let build = variables.iter().fold(build, |build, (name, value)| build.variable(name, value));
            let finding = crate::diagnose(&build.window()).findings.remove(0);
            (finding.headline, finding.remedies[0].statement.clone())
        };
        let (headline, remedy) = first(&[("general_log", "ON"), ("log_output", "FILE,TABLE")]);
        assert!(headline.contains("mysql.general_log"), "{headline}");
        assert!(remedy.starts_with("SET GLOBAL general_log = OFF"), "{remedy}");
        let slow = |least| [("slow_query_log", "ON"), ("log_output", "TABLE"), ("long_query_time", least)];
        assert!(first(&slow("0.000000")).0.contains("mysql.slow_log"));
        for others in [&slow("10.000000")[..], &[("general_log", "ON"), ("log_output", "FILE")]] {
            let (headline, remedy) = first(others);
            assert!(!headline.contains("_log") && remedy.starts_with("ALTER TABLE"), "{headline}: {remedy}");
        }
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
