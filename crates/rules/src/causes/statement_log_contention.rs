//! `statement-log-contention`: statements wait to be written to the general, the slow or an audit log.

use spindoctor_model::{Evidence, Remedy, SessionTime, TimeClass, Window};

use crate::draft::Draft;
use crate::statement_log::{self, StatementLog};
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "statement-log-contention",
    title: "statements wait to be written to a log of statements",
    what: "The general log takes every statement before it runs, the slow log each that took longer than long_query_time, after it \
           ran. Each log has one mutex, under which the session itself formats the line and hands it to the kernel: one write for \
           each statement. An audit plugin is asked about each statement, too, and writes under a lock of its own. Where many sessions \
           log, they queue; where the file's disk is slow or full, the kernel holds the one that writes, and all others behind it.",
    why_it_hurts: "Whatever the statements do, they pass one by one. A log that was switched on to look at something, and left on, \
                   costs a busy server a large part of its throughput, and its file grows until the disk is full. A log on a disk \
                   or network share that hangs stops every session.",
    evidence: "Sessions whose stacks wait below the functions that write these logs (File_query_log, MYSQL_QUERY_LOG) or that ask a \
               plugin about a statement (mysql_audit_notify, mysql_event_tracking_...), or that are in the state `logging slow \
               query`: from 5 % of the session time and half a session on. Beside it general_log, \
               slow_query_log, long_query_time and log_output. A log that is kept in a table (log_output=TABLE) locks that table \
               instead: table-lock-pileup.",
    looks_alike: "Mutexes that are not a log's have the class mutex. A plugin that delays connections makes logins wait: unnamed-wait \
                  says so. What a server spends on formatting is CPU, and no wait.",
    remedies: "Switch the log off: SET GLOBAL general_log = OFF. For the slow log a long_query_time that few statements reach; \
               performance_schema's statement summary has what most people read the log for. A log that has to stay belongs on \
               a disk of its own that answers fast, an audit plugin's behind a buffer (audit_log_strategy).",
    safety: "Switching a log off loses what is not logged afterwards, and nothing else. A session copies long_query_time when it \
             connects: connections that are there keep theirs, and slow_query_log = OFF acts on all at once. While one session hangs \
             in the write itself, SET GLOBAL waits for it as well: free the disk first. An audit may be somebody's obligation.",
    references: &[
        "https://dev.mysql.com/doc/refman/9.4/en/query-log.html",
        "https://dev.mysql.com/doc/refman/9.4/en/slow-query-log.html",
        "https://mariadb.com/docs/server/server-management/server-monitoring-logs/general-query-log",
    ],
    costs: Costs::Waits(&[TimeClass::StatementLog]),
    explains_time: &[TimeClass::StatementLog],
    stacks: Stacks::Standing(&[
        "File_query_log::write_general",
        "File_query_log::write_slow",
        "MYSQL_QUERY_LOG::write",
        "Log_to_file_event_handler::log_general",
        "Log_to_file_event_handler::log_slow",
    ]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Variables that say what is logged, and where.
const VARIABLES: &[&str] = &["general_log", "slow_query_log", "long_query_time", "log_output"];

/// Seconds that a statement takes, from which on the slow log is proposed to begin. Chosen: half of what people call slow, and a
/// thousand times what a read of one row takes.
const PROPOSED_S: f64 = 0.5;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::StatementLog]) else { return Outcome::Clear };
    let is_audit = is_audit(time);
    let log = named(time).or_else(|| StatementLog::of_every_statement(window)).filter(|_| !is_audit);
    let name = if is_audit {
        "log of an audit plugin"
    } else {
        log.map_or("general or the slow log", |log| log.name)
    };
    let mut draft = waits
        .draft(
            &CAUSE,
            format!(
                "{:.1} sessions wait to write their statement to the {name}, {:.0} % of the session time",
                waits.sessions,
                waits.share * 100.0
            ),
        )
        .why(
            "The log has one mutex, and who holds it writes a line to the file: statements pass one by one.",
        );
    for variable in VARIABLES {
        let value = window.variable(variable);
        draft =
            draft.evidence_if(value.map(|value| Evidence::new(variable, value, "", "SHOW GLOBAL VARIABLES")));
    }
    let file = log.and_then(|log| window.variable(log.file));
    draft = draft.evidence_if(file.map(|file| Evidence::new("its file", file, "", "SHOW GLOBAL VARIABLES")));
    let remedies = if is_audit { vec![ask_of_the_plugin()] } else { remedies(window, log) };
    Outcome::Fired(remedies.into_iter().fold(draft, Draft::remedy).finding())
}

/// True where most of them wait below a function that asks a plugin about the statement.
fn is_audit(time: &SessionTime) -> bool {
    let share = time.classes.iter().find(|one| one.class == TimeClass::StatementLog);
    share
        .and_then(|share| share.seen.first())
        .is_some_and(|(seen, _)| seen.contains("mysql_audit_") || seen.contains("mysql_event_tracking_"))
}

/// Which plugin it is, the list of plugins says.
fn ask_of_the_plugin() -> Remedy {
    Remedy {
        statement: "SHOW PLUGINS; SHOW GLOBAL VARIABLES LIKE '%audit%'".into(),
        why: "They name the plugin and what it writes. MariaDB: SET GLOBAL server_audit_logging = OFF, or fewer kinds of event in \
              server_audit_events. Percona Server: audit_log_policy = NONE or LOGINS; audit_log_strategy = ASYNCHRONOUS writes behind \
              a buffer, from the next start on."
            .into(),
        dynamic: true,
        risk: "Looking costs nothing. An audit may be somebody's obligation: ask before it is switched off.".into(),
        undo: String::new(),
    }
}

/// The log that most of them were seen to write to.
fn named(time: &SessionTime) -> Option<StatementLog> {
    let share = time.classes.iter().find(|one| one.class == TimeClass::StatementLog)?;
    share.seen.iter().find_map(|(seen, _)| StatementLog::from_functions(seen))
}

/// What ends the wait: for the slow log a longer time as well, and where the log is not known both are looked at.
fn remedies(window: &Window, log: Option<StatementLog>) -> Vec<Remedy> {
    let Some(log) = log else {
        return vec![Remedy {
            statement: "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('general_log', 'slow_query_log', 'long_query_time'); then SET \
                        GLOBAL general_log = OFF, or slow_query_log = OFF"
                .into(),
            why: "One of the two is on, and takes nearly every statement.".into(),
            dynamic: true,
            risk: "What is not logged afterwards is lost.".into(),
            undo: "SET GLOBAL with the value that was there before".into(),
        }];
    };
    let off = Remedy {
        statement: format!("SET GLOBAL {} = OFF", log.switch),
        why: "No session waits for the log any more, from its next statement on.".into(),
        dynamic: true,
        risk: "What is not logged afterwards is lost: ask who reads the file.".into(),
        undo: format!("SET GLOBAL {} = ON", log.switch),
    };
    let least_s = window.variable_number("long_query_time").filter(|&least_s| least_s < PROPOSED_S);
    let longer = least_s.filter(|_| log == statement_log::SLOW).map(|least_s| Remedy {
        statement: format!("SET GLOBAL long_query_time = {PROPOSED_S}, and close the connections of pools once"),
        why: "Few statements take as long, and those that do are still logged. A session copies the value when it connects.".into(),
        dynamic: true,
        risk: "Statements below it are in performance_schema's summary alone.".into(),
        undo: format!("SET GLOBAL long_query_time = {least_s}"),
    });
    let elsewhere = Remedy {
        statement: format!("SET GLOBAL {} = '/a/faster/disk/{}.log'", log.file, log.switch),
        why: "Where the log has to stay and its disk is what is slow: the line is written while the mutex is held.".into(),
        dynamic: true,
        risk: "The server's account must be able to write there; who reads the old file has to know.".into(),
        undo: window
            .variable(log.file)
            .map_or_else(String::new, |file| format!("SET GLOBAL {} = '{}'", log.file, file.replace('\'', "''"))),
    };
    [Some(off), longer, Some(elsewhere)].into_iter().flatten().collect()
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::{Build, session};

    const GENERAL: &[&str] = &[
        "__lll_lock_wait",
        "pthread_mutex_lock",
        "File_query_log::write_general",
        "Log_to_file_event_handler::log_general",
        "dispatch_command",
        "do_command",
    ];
    /// Of MariaDB, whose one function writes both logs.
    const SLOW: &[&str] = &[
        "__lll_lock_wait",
        "pthread_mutex_lock",
        "MYSQL_QUERY_LOG::write",
        "Log_to_file_event_handler::log_slow",
        "LOGGER::slow_log_print",
        "dispatch_command",
        "do_command",
    ];
    const READS: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];

    fn waiting(sessions: u32, frames: &[&str]) -> Build {
        Build::busy("8.0.36").remote().variable("general_log", "ON").only_snapshots(&[
            (sessions, ThreadState::Lock, frames),
            (40 - sessions, ThreadState::Running, READS),
        ])
    }

    pub(crate) fn fires() -> Window {
        waiting(30, GENERAL).window()
    }

    /// One session in forty.
    pub(crate) fn near_miss() -> Window {
        waiting(1, GENERAL).window()
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .remote()
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }

    #[test]
    fn the_log_that_they_wait_for_is_named_and_switched_off() {
        let finding = crate::diagnose(&fires()).findings.remove(0);
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.headline.contains("to the general log, 75 %"), "{}", finding.headline);
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL general_log = OFF");
        assert_eq!(finding.remedies[0].undo, "SET GLOBAL general_log = ON");
        // The stacks say which log it is, whatever the variables are.
        let slow = waiting(30, SLOW).variable("long_query_time", "0.000000").window();
        let finding = crate::diagnose(&slow).findings.remove(0);
        assert!(finding.headline.contains("to the slow log"), "{}", finding.headline);
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL slow_query_log = OFF");
        assert_eq!(finding.remedies[1].undo, "SET GLOBAL long_query_time = 0");
    }

    #[test]
    fn without_stacks_the_list_has_a_word_for_the_slow_log_alone() {
        let sessions =
            |_| (0..30).map(|at| session(20 + at, "Query", "logging slow query", "SELECT 1")).collect();
        let window = Build::busy("8.0.36").remote().without_profile().sessions(sessions).window();
        let finding = crate::diagnose(&window).findings.remove(0);
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.headline.contains("to the slow log"), "{}", finding.headline);
    }

    #[test]
    fn an_audit_plugin_is_no_log_of_the_server_and_is_not_switched_off_unasked() {
        let frames: &[&str] = &[
            "__lll_lock_wait",
            "pthread_mutex_lock",
            "mysql_audit_notify",
            "dispatch_command",
            "do_command",
        ];
        let finding = crate::diagnose(&waiting(30, frames).window()).findings.remove(0);
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.headline.contains("to the log of an audit plugin"), "{}", finding.headline);
        assert!(finding.remedies[0].statement.starts_with("SHOW PLUGINS"), "{:?}", finding.remedies);
        assert_eq!(finding.remedies.len(), 1);
    }

    #[test]
    fn a_log_that_is_kept_in_a_table_is_a_lock_on_that_table() {
        let frames: &[&str] = &[
            "pthread_cond_wait",
            "thr_lock",
            "thr_multi_lock",
            "open_log_table",
            "Log_to_csv_event_handler::log_general",
            "Query_logger::general_log_write",
            "dispatch_command",
            "do_command",
        ];
        let finding =
            crate::diagnose(&waiting(30, frames).variable("log_output", "TABLE").window()).findings.remove(0);
        assert_eq!(finding.cause, "table-lock-pileup");
        assert!(finding.headline.contains("mysql.general_log"), "{}", finding.headline);
    }
}
