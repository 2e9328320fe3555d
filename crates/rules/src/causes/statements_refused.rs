//! `statements-refused`: clients' statements end with errors at a high rate, and nobody waits.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{ErrorCount, ErrorSummary};
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, ServerVersion, TroubleKind, Unavailable, Window};
use spindoctor_statements::grown;

use super::connection_churn;
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, NOTE, WARNING_FROM};
use crate::sessions::shortened;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "statements-refused",
    title: "clients' statements end with errors at a high rate",
    what: "Statements reach the server and end with an error at once: the server is read-only (1290, 1792, 1836), a table or column is not \
           there after half of a deployment (1146, 1054), the account lacks a right (1142, 1044), a table or the disk is full (1114), an \
           account has used up its statements of the hour (1226), a time limit ends them (3024, 1969), or many clients insert a key that \
           is there (1062).",
    why_it_hurts: "The clients get nothing done. Nobody waits, so no list shows it: the server looks idle, or busy and well, while its users \
                   see every request fail. Most clients try again at once, which adds load.",
    evidence: "Growth of SUM_ERROR_RAISED by number (events_errors_summary_global_by_error, MySQL 8.0), held against SUM_ERRORS of all \
               statements: a number that was raised far more often was a warning, as of INSERT IGNORE. Where errors are not counted by \
               number: SUM_ERRORS of all statements, Access_denied_errors without refused logins, Max_statement_time_exceeded, \
               Max_execution_time_exceeded; and on a server that is read-only Questions without all Com_* counters, for what is refused so is \
               in no Com_* (seen on MySQL 9.7 and MariaDB 10.11). It fires from one error a second, ten in the window and 1 % of the \
               statements on. Below ten a second it is a note, as a monitor or a forgotten job has errors, too, unless half of the statements or writes \
               fail because the server is read-only or full. Of a captured error log: no more open files, damaged pages, a table without room. What an application expects (duplicate keys, values that do not fit, error 1062 and \
               its like), and errors of unknown number, are nothing below 5 % of the statements, a note up to half of them, and a warning \
               at most. The estimate is the share of the statements that fail; on a read-only server that is no replica, the \
               share of the writes.",
    looks_alike: "Refused logins (1040, 1045, 1203, 1226) are connections-exhausted and logins-refused, 1213 is deadlock-storm, 1461 \
                  prepared-statements-exhausted. A statement that ends with 1205 has waited for a lock for a second or more: \
                  row-lock-pileup, metadata-lock-pileup. An application that inserts first and updates on error 1062 works as it should.",
    remedies: "Read-only: find out who set it (a failover, an operator, a program that protects a full disk) and where the primary is; send the \
               writes there, or set read_only back to OFF where this is the primary. Missing tables and columns: finish or roll back the \
               deployment. Rights: GRANT what is missing. Full: make room. Time limits: make the statement faster, or raise the limit. \
               events_statements_history has the message with the account and the client's host; MariaDB's plugin SQL_ERROR_LOG writes \
               each error to a file.",
    safety: "SET GLOBAL read_only = OFF takes effect at once, and is dangerous where another server takes writes, too: the data of both \
             then differ, and one side is lost. A right that is granted is taken back by REVOKE. The queries of performance_schema only read.",
    references: &[
        "MySQL Reference Manual: Error Summary Tables; read_only; super_read_only; Server Error Message Reference",
        "MariaDB Knowledge Base: read_only; SQL_ERROR_LOG Plugin; Access_denied_errors",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Errors a second: below that it is somebody who mistypes.
const LEAST_PER_S: f64 = 1.0;

/// And in the window: fewer are chance.
const LEAST: f64 = 10.0;

/// From here on it is an application: a monitor or a job asks once or a few times a second. As with logins.
const SURE_PER_S: f64 = connection_churn::CONNECTIONS_PER_S;

/// Share of the statements, below which nobody notices: a twentieth is a warning, and a fifth of that is not hidden. Chosen.
const LEAST_SHARE: f64 = 0.01;

/// The same of errors that an application expects: frameworks that insert first have 1062 at some percent of their statements.
const LEAST_EXPECTED: f64 = 0.05;

/// An insert that fails and the update after it are half and half, so that more than half is not that.
const HALF: f64 = 0.5;

/// A number that was raised so much more often than statements failed was a warning of statements that succeeded.
const MORE_THAN_FAILED: f64 = 1.2;

/// Numbers that are read at most (`perf_schema_errors` in `collect`): a longer list was cut.
const LISTED: usize = 100;

/// The server gives the age of a number in whole seconds.
const AGE_ERROR_S: f64 = 1.0;

/// How many numbers, and how many statements, stand in the evidence.
const SHOWN: usize = 4;

/// Errors of a login alone (sql/auth, share/messages_to_clients.txt): connections-exhausted and logins-refused count these.
const OF_LOGINS: [u32; 12] = [1040, 1042, 1043, 1045, 1129, 1130, 1203, 1698, 1862, 3118, 3159, 3955];

/// Errors of logins and of statements.
const OF_BOTH: [u32; 3] = [1044, 1049, 1226];

/// The network, of which no statement fails: connections that broke, and pools that were idle for too long.
const OF_CONNECTIONS: [u32; 8] = [1152, 1158, 1159, 1160, 1161, 1184, 3032, 4031];

/// Errors of other causes: a lock wait of at least a second, a deadlock, no room for a prepared statement.
const OF_OTHER_CAUSES: [u32; 3] = [1205, 1213, 1461];

/// What an error says of the server, which decides how bad it is and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    ReadOnly,
    Full,
    Limit,
    Missing,
    Denied,
    Time,
    /// Of what an application does with its data; many expect it.
    Expected,
    Other,
    /// Nobody counts which.
    Unknown,
}

impl Kind {
    /// Of share/messages_to_clients.txt.
    fn from_number(number: u32) -> Self {
        match number {
            1290 | 1792 | 1836 | 3989 => Self::ReadOnly,
            1021 | 1026 | 1028 | 1030 | 1034 | 1037 | 1041 | 1114 | 1194 | 1195 | 3675 => Self::Full,
            1153 | 1226 | 1390 => Self::Limit,
            1049 | 1051 | 1054 | 1109 | 1146 | 1305 | 1356 => Self::Missing,
            1044 | 1142 | 1143 | 1227 | 1370 | 1410 | 1419 => Self::Denied,
            1317 | 1969 | 3024 => Self::Time,
            1022 | 1048 | 1062 | 1169 | 1216 | 1217 | 1264 | 1265 | 1292 | 1364 | 1365 | 1366 | 1406
            | 1451 | 1452 | 1557 | 1586 | 1644 | 3572 | 3819 | 4025 => Self::Expected,
            _ => Self::Other,
        }
    }

    fn is_expected(self) -> bool {
        matches!(self, Self::Expected | Self::Unknown)
    }
}

/// One kind of error, and how often it was counted.
#[derive(Debug, Clone)]
struct Failing {
    kind: Kind,
    number: Option<u32>,
    /// `error 1290 ER_OPTION_PREVENTS_STATEMENT`, or what is known without a number.
    name: String,
    /// In the window.
    count: f64,
    per_s: f64,
    first_seen_s: Option<f64>,
    /// How it is known.
    source: &'static str,
}

/// All that is known of errors.
struct Failures {
    errors: Vec<Failing>,
    statements_per_s: f64,
}

/// What an error log ends with.
fn of_log(window: &Window) -> Option<Finding> {
    damaged(window).or_else(|| without_files(window)).or_else(|| full_table(window))
}

/// Pages whose check sums do not fit: each statement that reads one fails, and a server may end itself.
fn damaged(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::PageDamaged)?;
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Pages of a data file are damaged: what reads them fails, and the server may end itself")
            .why("A page is not what was written: the disk, its controller or memory changed it, a file was copied from a running server, \
                  or a defect of the server wrote it. No setting cures it, and a restart alone does not either.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedies(of_damage())
            .finding(),
    )
}

/// What to do about damaged pages.
pub(super) fn of_damage() -> [Remedy; 2] {
    [
        Remedy {
            statement: "Copy the whole data directory away before anything else; CHECK TABLE of the table that the lines name; look at the \
                        disk (dmesg, smartctl -a)"
                .into(),
            why: "What was not copied cannot be saved any more; the lines name the file and the page.".into(),
            dynamic: true,
            risk: "CHECK TABLE reads the whole table, and a page that is badly damaged may end the server.".into(),
            ..Remedy::default()
        },
        Remedy {
            statement: "Make the table again from a replica or a backup; where there is none: innodb_force_recovery = 1 (then 2, 3) in the \
                        option file, start, dump the tables, and load them into a new data directory"
                .into(),
            why: "A secondary index alone is made again by ALTER TABLE ... ENGINE=InnoDB.".into(),
            dynamic: false,
            risk: "From innodb_force_recovery = 4 on data may be damaged for good. While it is set the server is for reading alone.".into(),
            undo: "Take innodb_force_recovery out of the option file.".into(),
        },
    ]
}

/// A table that took no more rows (error 1114), and no disk is said to be full.
fn full_table(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::TableFull)?;
    // A temporary table of the server's own is disk-full.
    if trouble.line.contains("#sql") {
        return None;
    }
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Statements fail: a table has no room for more rows (error 1114)")
            .why("A MEMORY table is full at max_heap_table_size (as it was when the table was made); an InnoDB table where its file system is \
                  full, or where innodb_data_file_path ends without autoextend or with a max; a MyISAM table at its MAX_ROWS.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "SHOW CREATE TABLE of it; df -h of the data directory; SHOW GLOBAL VARIABLES LIKE 'innodb_data_file_path'; LIKE \
                            'max_heap_table_size'"
                    .into(),
                why: "It shows which of the limits it is.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "MEMORY: DELETE what is old, or SET SESSION max_heap_table_size = MORE; ALTER TABLE ... ENGINE=MEMORY, or \
                            ENGINE=InnoDB; InnoDB: free space on that file system"
                    .into(),
                why: "The table takes rows again.".into(),
                dynamic: true,
                risk: "ALTER TABLE copies the table, and writers wait meanwhile.".into(),
                undo: String::new(),
            })
            .finding(),
    )
}

/// The server may open no more files (error 24, EMFILE), and tables, logs and connections are files.
fn without_files(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NoFile)?;
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Statements and logins fail: the server has reached its limit of open files")
            .why("Each connection is an open file, each InnoDB table at least one, a MyISAM table one and one more for each session that \
                  has it open.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "prlimit --pid PID --nofile=65536:65536; then LimitNOFILE=65536 in the server's unit, and open_files_limit \
                            for its next start"
                    .into(),
                why: "The first helps at once. At its start the server sets its limit as its options say, and sizes its caches of tables \
                      by what it got: SHOW GLOBAL VARIABLES LIKE 'open_files_limit'."
                    .into(),
                dynamic: true,
                risk: "Each open file takes kernel memory, some hundred bytes.".into(),
                undo: "prlimit with the limit that /proc/PID/limits shows before.".into(),
            })
            .remedy(Remedy {
                statement: "SET GLOBAL table_open_cache = half of what it is".into(),
                why: "The server closes tables that nobody uses, and their files with them.".into(),
                dynamic: true,
                risk: "Tables are opened more often; with too small a cache that costs time in each statement.".into(),
                undo: "SET GLOBAL table_open_cache to what it was.".into(),
            })
            .finding(),
    )
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let failures = match window.need_change(|s| &s.server.errors) {
        Ok(change) => of_summary(window, change.first, change.last, change.seconds)?,
        // What little the status shows is a finding, and that it shows nothing is none.
        Err(missing) => {
            let shown = of_status(window).ok().and_then(|failures| finding(window, &failures));
            return shown.map_or(Err(missing), |found| Ok(Some(found)));
        }
    };
    Ok(finding(window, &failures))
}

/// By the server's summaries.
fn of_summary(
    window: &Window,
    first: &ErrorSummary,
    last: &ErrorSummary,
    seconds: f64,
) -> Result<Failures, Unavailable> {
    let grew = |last: u64, first: u64| {
        let grew = last.checked_sub(first).map(|grew| grew as f64);
        grew.ok_or_else(|| Unavailable::because("the statement summary went back: it was reset"))
    };
    let statements = grew(last.statements, first.statements)?;
    let failed = grew(last.failed, first.failed)?;
    let questions = window.status_per_s("Questions").unwrap_or(0.0) * seconds;
    // Statements of most sessions may be switched off in setup_actors, or all in setup_instruments.
    let are_counted = statements > 0.0 && statements >= HALF * questions;
    let statements_per_s = if are_counted { statements } else { questions } / seconds;
    let errors = match (&first.by_number, &last.by_number) {
        (Some(first), Some(last)) => {
            let failed = are_counted.then_some(failed);
            by_number(window, first, last, seconds, failed)
        }
        _ => {
            let mut known = of_status(window)?.errors;
            // Those of other causes: deadlocks and lock waits that took too long are counted, and so is no room to prepare.
            let others: f64 = ["lock_deadlocks", "lock_timeouts"]
                .iter()
                .filter_map(|name| window.metric_growth(name))
                .sum();
            let counted: f64 = known.iter().map(|error| error.count).sum();
            let count = (failed - others - counted).max(0.0);
            if are_counted && !is_full_of_prepared(window) {
                known.push(Failing {
                    kind: Kind::Unknown,
                    number: None,
                    name: "errors whose number this server does not count".into(),
                    count,
                    per_s: count / seconds,
                    first_seen_s: None,
                    source: "events_statements_summary_global_by_event_name SUM_ERRORS",
                });
            }
            known
        }
    };
    Ok(Failures { errors, statements_per_s })
}

/// True where no statement can be prepared, which is a cause of its own.
fn is_full_of_prepared(window: &Window) -> bool {
    let limit = window.variable_number("max_prepared_stmt_count");
    window.status("Prepared_stmt_count").zip(limit).is_some_and(|(count, limit)| count >= limit)
}

/// By the counts of each number; `failed` is how many statements failed, where that is known.
fn by_number(
    window: &Window,
    first: &[ErrorCount],
    last: &[ErrorCount],
    seconds: f64,
    failed: Option<f64>,
) -> Vec<Failing> {
    let before: BTreeMap<u32, u64> = first.iter().map(|error| (error.number, error.raised)).collect();
    let grew = |error: &ErrorCount| {
        let is_new =
            first.len() < LISTED || error.first_seen_s.is_some_and(|age_s| age_s <= seconds + AGE_ERROR_S);
        let first = before.get(&error.number).copied().or(is_new.then_some(0))?;
        error.raised.checked_sub(first).map(|grew| grew as f64)
    };
    let sum = |numbers: &[u32]| -> f64 {
        last.iter().filter(|error| numbers.contains(&error.number)).filter_map(grew).sum()
    };
    // Logins that were refused with a number that statements have, too.
    let mut of_logins = (window.status_growth("Aborted_connects").unwrap_or(0.0) - sum(&OF_LOGINS)).max(0.0);
    let failed = failed.map(|failed| (failed - sum(&OF_OTHER_CAUSES)).max(0.0));
    let mut errors = Vec::new();
    for error in last {
        let number = error.number;
        if OF_LOGINS.contains(&number)
            || OF_CONNECTIONS.contains(&number)
            || OF_OTHER_CAUSES.contains(&number)
        {
            continue;
        }
        let Some(mut count) = grew(error) else { continue };
        if OF_BOTH.contains(&number) {
            let taken = of_logins.min(count);
            (count, of_logins) = (count - taken, of_logins - taken);
        }
        let kind = Kind::from_number(number);
        let is_of_statements = match failed {
            Some(failed) => count <= MORE_THAN_FAILED * failed,
            // Some of the expected ones are warnings, and nothing says how many.
            None => kind != Kind::Expected && kind != Kind::Other,
        };
        if count > 0.0 && is_of_statements {
            errors.push(Failing {
                kind,
                number: Some(number),
                name: format!("error {number} {}", error.name).trim_end().to_owned(),
                count,
                per_s: count / seconds,
                first_seen_s: error.first_seen_s,
                source: "events_errors_summary_global_by_error",
            });
        }
    }
    without_companion(errors, failed, sum(&[OF_NOWAIT]))
}

/// What a storage engine returned, whatever it was: the server raises it beside the number that says what (sql/handler.cc, of NOWAIT
/// that finds a lock), so that one statement has two.
const OF_ENGINE: u32 = 1030;
const OF_NOWAIT: u32 = 3572;

/// The errors without [`OF_ENGINE`], where the others are what failed; where nobody knows how much failed, where NOWAIT did.
fn without_companion(mut errors: Vec<Failing>, failed: Option<f64>, nowait: f64) -> Vec<Failing> {
    let sum = |is_such: &dyn Fn(&Failing) -> bool| -> f64 {
        errors.iter().filter(|error| is_such(error)).map(|error| error.count).sum()
    };
    let of_engine = sum(&|error| error.number == Some(OF_ENGINE));
    let others = sum(&|error| error.number != Some(OF_ENGINE));
    let alone = failed.map_or(of_engine - nowait, |failed| failed - others);
    if alone < HALF * of_engine {
        errors.retain(|error| error.number != Some(OF_ENGINE));
    }
    errors
}

/// By the status alone, where nothing counts errors by number.
fn of_status(window: &Window) -> Result<Failures, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let statements = window.need_growth("Questions")?;
    let failing = |kind, number, name: &str, count: f64, source| Failing {
        kind,
        number,
        name: name.to_owned(),
        count,
        per_s: count / seconds,
        first_seen_s: None,
        source,
    };
    let grew = |name| window.status_growth(name).unwrap_or(0.0);
    let denied = grew("Access_denied_errors") - grew("Aborted_connects");
    let mut errors = vec![
        failing(Kind::Denied, None, "access denied", denied, "SHOW GLOBAL STATUS Access_denied_errors"),
        failing(
            Kind::Time,
            Some(1969),
            "error 1969",
            grew("Max_statement_time_exceeded"),
            "SHOW GLOBAL STATUS Max_statement_time_exceeded",
        ),
        failing(
            Kind::Time,
            Some(3024),
            "error 3024",
            grew("Max_execution_time_exceeded"),
            "SHOW GLOBAL STATUS Max_execution_time_exceeded",
        ),
    ];
    if read_only(window).is_some() {
        let count = uncounted(window).unwrap_or(0.0);
        errors.push(failing(
            Kind::ReadOnly,
            Some(1290),
            "refused before they ran",
            count,
            "SHOW GLOBAL STATUS Questions without all Com_*",
        ));
    }
    errors.retain(|error| error.count > 0.0);
    Ok(Failures { errors, statements_per_s: statements / seconds })
}

/// Statements that are in Questions and in no `Com_*`: they were refused before they ran, at the least so many. Both servers count a
/// command after they have asked whether it may write (sql/sql_parse.cc, mysql_execute_command). None where a counter is missing.
///
/// Connections stand for the quit of each, which is in Questions alone; answers of the query cache are no Com_select; the commands of
/// the protocol for prepared statements are not in Questions, and an EXECUTE is there once, with what it runs.
fn uncounted(window: &Window) -> Option<f64> {
    /// Not in Questions, or there with the statement that they run.
    const BESIDE: [&str; 7] = [
        "com_stmt_prepare",
        "com_stmt_execute",
        "com_stmt_close",
        "com_stmt_reset",
        "com_stmt_send_long_data",
        "com_stmt_reprepare",
        "com_execute_sql",
    ];
    let status = window.change(|s| &s.server.status)?;
    let grew = |name: &str| Some(status.last.number(name)? - status.first.number(name)?);
    let commands = status.last.iter().map(|(name, _)| name);
    let commands = commands.filter(|name| name.starts_with("com_") && !BESIDE.contains(name));
    let run: f64 = commands.filter_map(grew).sum();
    // A status without them says nothing of what ran.
    grew("Com_select")?;
    let count =
        grew("Questions")? - run - grew("Connections").unwrap_or(0.0) - grew("Qcache_hits").unwrap_or(0.0);
    Some(count.max(0.0))
}

/// The variable that forbids writes, the strictest first.
fn read_only(window: &Window) -> Option<&'static str> {
    let is_on = |name: &&&str| {
        // MariaDB 12 has more values than ON, and each of them forbids writes.
        window
            .variable(name)
            .is_some_and(|value| !matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | ""))
    };
    ["innodb_read_only", "super_read_only", "read_only"].iter().find(is_on).copied()
}

/// The server that this one replicates, where it does.
fn source_of(window: &Window) -> Option<String> {
    let channel = window.latest(|s| &s.server.replication)?.first()?;
    Some(format!("{}:{}", channel.source_host, channel.source_port))
}

/// Share of the writes that were refused, of those that came.
fn of_writes(window: &Window, refused_per_s: f64) -> f64 {
    const WRITES: [&str; 9] = [
        "Com_insert",
        "Com_update",
        "Com_delete",
        "Com_replace",
        "Com_insert_select",
        "Com_replace_select",
        "Com_update_multi",
        "Com_delete_multi",
        "Com_load",
    ];
    let written: f64 = WRITES.iter().filter_map(|name| window.status_per_s(name)).sum();
    refused_per_s / (written + refused_per_s).max(f64::MIN_POSITIVE)
}

fn finding(window: &Window, failures: &Failures) -> Option<Finding> {
    let Failures { errors, statements_per_s } = failures;
    let sum = |which: &dyn Fn(&Failing) -> bool| {
        let such = || errors.iter().filter(|error| which(error));
        (such().map(|error| error.count).sum::<f64>(), such().map(|error| error.per_s).sum::<f64>())
    };
    let share = |per_s: f64| (per_s / statements_per_s.max(per_s).max(f64::MIN_POSITIVE)).min(1.0);
    let (count, per_s) = sum(&|error| !error.kind.is_expected());
    let (_, expected_per_s) = sum(&|error| error.kind.is_expected());
    let (_, read_only_per_s) = sum(&|error| error.kind == Kind::ReadOnly);
    let (_, shut_per_s) = sum(&|error| matches!(error.kind, Kind::ReadOnly | Kind::Full));
    let source = source_of(window);
    // A replica is read-only as it should be: the writes are clients' that came to the wrong server.
    let of_writes = (read_only_per_s > 0.0).then(|| of_writes(window, read_only_per_s));
    let of_primary = of_writes.filter(|_| source.is_none()).unwrap_or(0.0);
    let unexpected = if per_s < LEAST_PER_S || count < LEAST || share(per_s).max(of_primary) < LEAST_SHARE {
        0.0
    } else if per_s >= SURE_PER_S {
        let is_sure = read_only_per_s >= SURE_PER_S;
        share(per_s).max(if is_sure { of_primary } else { 0.0 })
    } else if share(shut_per_s).max(of_primary) >= HALF && shut_per_s >= LEAST_PER_S {
        CRITICAL_FROM - 0.01
    } else {
        NOTE.min(share(per_s))
    };
    let expected = match share(expected_per_s) {
        share if expected_per_s < SURE_PER_S || share < LEAST_EXPECTED => 0.0,
        share if share > HALF => share.min(CRITICAL_FROM - 0.01),
        _ => NOTE,
    };
    if unexpected.max(expected) <= 0.0 {
        return None;
    }
    let of_them = |error: &&Failing| error.kind.is_expected() == (expected > unexpected);
    let worst = errors.iter().filter(of_them).max_by(|a, b| a.per_s.total_cmp(&b.per_s))?;
    let mut shown: Vec<&Failing> = errors.iter().filter(|error| error.per_s >= LEAST_PER_S).collect();
    shown.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
    let headline = format!(
        "{} statements a second fail{}, {:.0} % of all: {}",
        whole(worst.per_s),
        worst.number.map_or_else(String::new, |number| format!(" with error {number}")),
        share(worst.per_s) * 100.0,
        meaning(window, worst, source.as_deref()),
    );
    Some(
        Draft::new(&CAUSE, unexpected.max(expected), headline)
            .why(why(worst, source.as_deref()))
            .evidence_all(shown.into_iter().take(SHOWN).map(|error| {
                Evidence::new(&error.name, error.per_s, "1/s", error.source)
                    .expected(format!("< {LEAST_PER_S:.0}"))
            }))
            .evidence(
                Evidence::new(
                    "share of all statements",
                    share(per_s + expected_per_s),
                    "ratio",
                    "statements that clients sent",
                )
                .expected(format!("< {LEAST_SHARE}")),
            )
            .evidence_if(of_writes.map(|share| {
                Evidence::new(
                    "share of all writes",
                    share,
                    "ratio",
                    "SHOW GLOBAL STATUS Com_insert, Com_update and others",
                )
                .expected("0")
            }))
            .evidence_if(worst.first_seen_s.map(|age_s| {
                Evidence::new(
                    "first raised before",
                    age_s,
                    "s",
                    "events_errors_summary_global_by_error FIRST_SEEN",
                )
            }))
            .evidence_all(statements(window).into_iter())
            .remedies(remedies(window, worst, source.as_deref()))
            .finding(),
    )
}

/// The statements that failed most, without literals.
fn statements(window: &Window) -> Vec<Evidence> {
    let Some(change) = window.change(|s| &s.server.digests) else { return Vec::new() };
    let mut failed = grown(change.first, change.last, change.seconds);
    failed.retain(|grown| grown.by.errors / change.seconds >= LEAST_PER_S);
    failed.sort_by(|a, b| b.by.errors.total_cmp(&a.by.errors));
    let shown = failed.into_iter().take(SHOWN).map(|grown| {
        let statement = shortened(spindoctor_sql::server_digest(&grown.digest.text));
        Evidence::new(
            "statement that fails",
            format!("{statement} ({} /s)", whole(grown.by.errors / change.seconds)),
            "",
            "events_statements_summary_by_digest SUM_ERRORS",
        )
    });
    shown.collect()
}

/// What the error means here, for the headline.
fn meaning(window: &Window, worst: &Failing, source: Option<&str>) -> String {
    match (worst.kind, read_only(window), source) {
        (Kind::ReadOnly, Some(variable), Some(source)) => {
            format!("this replica of {source} is read-only ({variable} = ON)")
        }
        (Kind::ReadOnly, Some(variable), None) => format!("the server is read-only ({variable} = ON)"),
        (Kind::ReadOnly, None, _) => "an option or a read-only transaction prevents them".into(),
        (Kind::Full, ..) => format!("no room, or damage ({})", symbol(worst)),
        (Kind::Limit, ..) => format!("a limit is reached ({})", symbol(worst)),
        (Kind::Missing, ..) => format!("what they name is not there ({})", symbol(worst)),
        (Kind::Denied, ..) => "a right is missing".into(),
        (Kind::Time, ..) => "a time limit or a KILL ends them".into(),
        (Kind::Expected | Kind::Other, ..) => match worst.number.and_then(data_error) {
            Some(words) => format!("{words} ({})", symbol(worst)),
            None => symbol(worst).to_owned(),
        },
        (Kind::Unknown, ..) => "this server does not count which errors".into(),
    }
}

/// `ER_DUP_ENTRY` of `error 1062 ER_DUP_ENTRY`, whose number stands before it already.
fn symbol(error: &Failing) -> &str {
    let begin = error.number.map(|number| format!("error {number} "));
    begin.and_then(|begin| error.name.strip_prefix(&begin)).unwrap_or(&error.name)
}

/// What an error of an application's data says, of share/messages_to_clients.txt.
fn data_error(number: u32) -> Option<&'static str> {
    Some(match number {
        1022 | 1062 | 1169 | 1557 | 1586 => "the key is there already",
        1048 | 1364 => "a column without a default gets no value",
        1216 | 1217 | 1451 | 1452 => "a foreign key forbids it",
        1264 | 1265 | 1292 | 1366 | 1406 => "a value does not fit its column",
        1644 => "a trigger or procedure refuses them by SIGNAL",
        3572 => "NOWAIT finds the row or table locked",
        3819 | 4025 => "a CHECK constraint forbids it",
        _ => return None,
    })
}

fn why(worst: &Failing, source: Option<&str>) -> String {
    match (worst.kind, source) {
        (Kind::ReadOnly, Some(_)) => {
            "Clients send writes to a server that takes none but those of its source. It refuses each at once, so that nobody waits and no \
             list shows it."
        }
        (Kind::ReadOnly, None) => {
            "The server takes no writes of clients, and replicates no other server: it was switched by hand, by a failover, or by a program \
             that protects it. It refuses each write at once, so that nobody waits and no list shows it."
        }
        (Kind::Expected, _) => {
            "Many applications expect such errors, and go on with another statement. At this rate statements are sent for nothing, or a \
             part of the application does not work."
        }
        (Kind::Unknown, _) => {
            "The server counts that statements failed, and not with which error. An application may expect them, as with duplicate keys."
        }
        _ => "Each of these statements ends with an error at once: nobody waits, so that no list shows it, and its client got nothing done.",
    }
    .to_owned()
}

fn remedies(window: &Window, worst: &Failing, source: Option<&str>) -> Vec<Remedy> {
    let look = look(window, worst);
    let advice = |statement: String, why: &str, risk: &str| Remedy {
        statement,
        why: why.into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    };
    match worst.kind {
        Kind::ReadOnly => {
            let variable = read_only(window);
            let place = match source {
                Some(source) => advice(
                    format!("Send the writes to the source, {source}, or to whichever server is the primary now"),
                    "A replica is read-only so that its data stay those of its source.",
                    "A change of the clients' configuration, or of the proxy's.",
                ),
                None => advice(
                    "Find out who made the server read-only, and whether another one is the primary now; then send the writes there".into(),
                    "A failover leaves the old primary read-only on purpose.",
                    "Looking is safe.",
                ),
            };
            let back = variable.filter(|&variable| variable != "innodb_read_only").map(|variable| {
                let is_super = variable == "super_read_only";
                Remedy {
                    // It also ends super_read_only.
                    statement: "SET GLOBAL read_only = OFF".into(),
                    why: "Only where this is the primary: clients can write again at once.".into(),
                    dynamic: true,
                    risk: "Where another server takes writes, too, the data of both differ from then on, and those of one are lost. What \
                           made it read-only may do so again."
                        .into(),
                    undo: format!("SET GLOBAL {} = ON", if is_super { "super_read_only" } else { "read_only" }),
                }
            });
            let restart = (variable == Some("innodb_read_only")).then(|| Remedy {
                statement: "innodb_read_only = OFF in the option file, and a restart".into(),
                why: "Only where nothing else uses its files: it cannot be changed while the server runs.".into(),
                dynamic: false,
                risk: "The server is down meanwhile; files that two servers write are destroyed.".into(),
                undo: "innodb_read_only = ON in the option file, and a restart".into(),
            });
            [place].into_iter().chain(back).chain(restart).chain([look]).collect()
        }
        Kind::Full => vec![
            advice(
                "Look at the free space of the data folder and of tmpdir (df), and at the end of the error log".into(),
                "It says which file could not grow or be read. innodb_data_file_path and max_heap_table_size limit tables, too.",
                "It only reads.",
            ),
            look,
        ],
        Kind::Limit => vec![
            look,
            advice(
                "SHOW CREATE USER of the account, and raise the limit: ALTER USER ... WITH MAX_QUERIES_PER_HOUR".into(),
                "An account at its limit is refused until the hour is over.",
                "More of its statements run; ALTER USER with the number before undoes it.",
            ),
        ],
        Kind::Missing => vec![
            look,
            advice(
                "Finish the deployment or roll it back: the statements name a table, column or routine that is not there".into(),
                "Either the schema or the application is of another version.",
                "A change of the application or of the schema.",
            ),
        ],
        Kind::Denied => vec![
            look,
            advice(
                "SHOW GRANTS FOR the account, and GRANT what the statements need".into(),
                "A right takes effect with the next statement, one of a whole database with the next USE.",
                "The account may then do that with all data it is granted for; REVOKE undoes it.",
            ),
        ],
        Kind::Time => vec![
            look,
            advice(
                "Make the statement faster (EXPLAIN), or raise its time limit (max_execution_time, MariaDB max_statement_time), or find who \
                 sends KILL QUERY"
                    .into(),
                "A statement that is ended did its work for nothing.",
                "A higher limit lets slow statements pile up.",
            ),
        ],
        Kind::Expected | Kind::Other | Kind::Unknown => vec![look],
    }
}

/// Where the message stands, with who gets it.
fn look(window: &Window, worst: &Failing) -> Remedy {
    let version = window.server.version;
    let is_on = window.latest(|s| &s.server.errors).is_some();
    let read = |statement: String, why: &str| Remedy {
        statement,
        why: why.into(),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    };
    if is_on && version.is_some_and(|version| version.mysql_at_least(5, 7, 0)) {
        let which = worst.number.map_or_else(|| "> 0".to_owned(), |number| format!("= {number}"));
        return read(
            format!(
                "SELECT t.PROCESSLIST_USER, t.PROCESSLIST_HOST, h.MYSQL_ERRNO, h.MESSAGE_TEXT, h.DIGEST_TEXT FROM \
                 performance_schema.events_statements_history AS h JOIN performance_schema.threads AS t USING (THREAD_ID) WHERE \
                 h.MYSQL_ERRNO {which} LIMIT 10"
            ),
            "It lists the message with the account, the client's host and the statement, of the last ten statements of each connection.",
        );
    }
    if version.is_some_and(ServerVersion::is_mariadb) {
        return Remedy {
            statement: "INSTALL SONAME 'sql_errlog'".into(),
            why: "Each error is then written to sql_errors.log in the data folder, with the account, the number and the statement.".into(),
            dynamic: true,
            risk: "A line for each error, with the literals of the statement: look for a minute, and take it away.".into(),
            undo: "UNINSTALL SONAME 'sql_errlog'".into(),
        };
    }
    if is_on {
        return read(
            "SELECT DIGEST_TEXT, SUM_ERRORS, LAST_SEEN FROM performance_schema.events_statements_summary_by_digest WHERE SUM_ERRORS > 0 \
             ORDER BY LAST_SEEN DESC LIMIT 10"
                .into(),
            "It lists the statements that failed, the latest first.",
        );
    }
    read(
        "Look into the clients' logs".into(),
        "They have the number and the message; this server keeps neither without performance_schema.",
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::ReplicaChannel;
    use spindoctor_model::{NoSessionKind, Reading, Severity};

    use super::*;
    use crate::testing::{Build, answer};

    const UPDATE: &str = "UPDATE sbtest1 SET k = k + ? WHERE id = ?";

    /// A primary of 6,000 statements a second that refuses so many writes of its clients, and lets none in.
    fn read_only(per_s: f64) -> Build {
        Build::busy("9.7.4")
            .counter("Com_update", 0.0)
            .variable("read_only", "ON")
            .variable("super_read_only", "OFF")
            .errors(per_s, &[(1290, "ER_OPTION_PREVENTS_STATEMENT", per_s)])
            .failing_digest(UPDATE, per_s)
    }

    pub(crate) fn fires() -> Window {
        read_only(4000.0).window()
    }

    /// An application that inserts first: 1062 at 3 % of its statements, and a monitor that asks for a table that is not there.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4")
            .errors(181.0, &[(1062, "ER_DUP_ENTRY", 180.0), (1146, "ER_NO_SUCH_TABLE", 1.0)])
            .window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(NoSessionKind::Silent).window()
    }

    fn found(build: Build) -> Option<Finding> {
        match evaluate(&build.window()) {
            Outcome::Fired(finding) => Some(finding),
            Outcome::Clear => None,
            missing => panic!("{missing:?}"),
        }
    }

    fn severity(build: Build) -> Option<Severity> {
        found(build).map(|finding| finding.severity)
    }

    /// Errors of one number, at so many a second of 6,000 statements.
    fn failing(number: u32, per_s: f64) -> Build {
        Build::busy("9.7.4").errors(per_s, &[(number, "ER_SOMETHING", per_s)])
    }

    /// The same server without the summary.
    fn without_summary(version: &str) -> Build {
        Build::busy(version).each(|_, server, _| {
            server.errors = Reading::Unavailable(Unavailable::because("performance_schema is off"));
        })
    }

    #[test]
    fn a_read_only_primary_is_named_with_the_statement_that_fails_and_what_sets_it_back() {
        let finding = found(read_only(4000.0)).unwrap();
        assert_eq!(
            finding.headline,
            "4000 statements a second fail with error 1290, 67 % of all: the server is read-only (read_only = ON)"
        );
        assert_eq!((finding.severity, finding.score), (Severity::Critical, 1.0));
        let text = format!("{:?}", finding.evidence);
        assert!(
            text.contains("error 1290 ER_OPTION_PREVENTS_STATEMENT") && text.contains("(4000 /s)"),
            "{text}"
        );
        assert_eq!(finding.remedies[1].statement, "SET GLOBAL read_only = OFF");
        assert_eq!(finding.remedies[1].undo, "SET GLOBAL read_only = ON");
        let strict = found(read_only(4000.0).variable("super_read_only", "ON")).unwrap();
        assert_eq!(strict.remedies[1].undo, "SET GLOBAL super_read_only = ON");
    }

    #[test]
    fn few_writes_count_as_a_share_of_the_writes_on_a_primary_and_of_all_on_a_replica() {
        assert_eq!(severity(read_only(20.0)), Some(Severity::Critical), "every write fails");
        assert_eq!(severity(read_only(3.0)), Some(Severity::Warning), "every write fails, and few come");
        let replica = |per_s| {
            read_only(per_s).each(|at_s, server, _| {
                let channel = ReplicaChannel {
                    source_host: "db1".into(),
                    source_port: 3306,
                    ..ReplicaChannel::default()
                };
                server.replication = answer(at_s, vec![channel]);
            })
        };
        assert_eq!(severity(replica(20.0)), None);
        let all = found(replica(4000.0)).unwrap();
        assert!(
            all.headline.ends_with("this replica of db1:3306 is read-only (read_only = ON)"),
            "{}",
            all.headline
        );
        assert!(all.remedies[0].statement.contains("db1:3306"));
    }

    #[test]
    fn what_an_application_expects_is_a_note_up_to_half_of_its_statements() {
        assert_eq!(severity(failing(1062, 60.0)), None);
        assert_eq!(severity(failing(1062, 2900.0)), Some(Severity::Note));
        assert_eq!(severity(failing(1062, 5000.0)), Some(Severity::Warning));
        // A deployment that is half done is none of that.
        assert_eq!(severity(failing(1146, 600.0)), Some(Severity::Warning));
        assert_eq!(severity(failing(1054, 3000.0)), Some(Severity::Critical));
        assert_eq!(severity(failing(1142, 3000.0)), Some(Severity::Critical));
    }

    #[test]
    fn a_monitor_of_an_idle_server_is_a_note_and_an_idle_primary_that_refuses_all_is_a_warning() {
        let idle = |number, per_s: f64| {
            failing(number, per_s).counter("Questions", 3.0).counter("Com_update", 0.0).statements(3.0)
        };
        assert_eq!(severity(idle(1146, 1.0)), Some(Severity::Note));
        assert_eq!(severity(idle(1290, 2.0)), Some(Severity::Warning));
        assert_eq!(severity(idle(1290, 0.5)), None);
    }

    #[test]
    fn what_the_engine_returned_is_an_error_only_where_no_other_number_says_what_it_was() {
        let of = |statements_per_s: f64, failed_per_s, by_number: &[(u32, &str, f64)]| {
            let window = Build::busy("9.7.4").errors(failed_per_s, by_number).statements(statements_per_s);
            match evaluate(&window.window()) {
                Outcome::Fired(finding) => Some(finding.headline),
                Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
            }
        };
        // Each SELECT ... NOWAIT that finds a lock raises both; the lists are read one after the other.
        let nowait = &[(1030, "ER_GET_ERRNO", 2290.0), (3572, "ER_LOCK_NOWAIT", 2270.0)];
        let found = of(6000.0, 2278.0, nowait);
        let words = "with error 3572, ";
        assert!(found.as_ref().is_some_and(|headline| headline.contains(words)), "{found:?}");
        let meaning = ": NOWAIT finds the row or table locked (ER_LOCK_NOWAIT)";
        assert!(found.as_ref().is_some_and(|headline| headline.ends_with(meaning)), "{found:?}");
        // The statements of most sessions are not counted.
        assert_eq!(of(10.0, 2278.0, nowait), None);
        let damaged = of(6000.0, 400.0, &[(1030, "ER_GET_ERRNO", 400.0), (1062, "ER_DUP_ENTRY", 9.0)]);
        assert!(damaged.as_ref().is_some_and(|headline| headline.contains("error 1030")), "{damaged:?}");
    }

    #[test]
    fn warnings_and_errors_of_other_causes_are_no_statements_that_fail() {
        let ignored = Build::busy("9.7.4").errors(0.0, &[(1062, "ER_DUP_ENTRY", 5000.0)]);
        assert_eq!(severity(ignored), None, "INSERT IGNORE");
        for number in [1205, 1213, 1461, 1040, 1045, 1158] {
            assert_eq!(severity(failing(number, 3000.0)), None, "{number}");
        }
        // Logins at the account's limit, and statements at it.
        assert_eq!(severity(failing(1226, 3000.0).counter("Aborted_connects", 3000.0)), None);
        assert_eq!(severity(failing(1226, 3000.0)), Some(Severity::Critical));
    }

    #[test]
    fn a_number_that_the_first_list_had_no_room_for_counts_from_zero_only_where_it_is_young() {
        let count = |number, raised, first_seen_s| ErrorCount {
            number,
            raised,
            first_seen_s: Some(first_seen_s),
            name: String::new(),
        };
        let cut: Vec<ErrorCount> = (0..100).map(|at| count(2000 + at, 5, 900.0)).collect();
        let last = [count(1146, 700, 900.0), count(1054, 600, 5.0)];
        let window = Build::busy("9.7.4").window();
        let numbers = |first: &[ErrorCount]| -> Vec<Option<u32>> {
            by_number(&window, first, &last, 10.0, Some(2000.0)).iter().map(|error| error.number).collect()
        };
        assert_eq!(numbers(&cut), [Some(1054)]);
        assert_eq!(numbers(&[]), [Some(1146), Some(1054)]);
    }

    #[test]
    fn without_numbers_the_total_is_a_note_and_what_the_status_counts_is_named() {
        let old = |failed| Build::busy("5.7.22").failed(failed);
        assert_eq!(severity(old(100.0)), None);
        let unknown = found(old(1000.0)).unwrap();
        assert_eq!(unknown.severity, Severity::Note);
        assert!(
            unknown.headline.ends_with("this server does not count which errors"),
            "{}",
            unknown.headline
        );
        let late = found(old(1000.0).counter("Max_execution_time_exceeded", 900.0)).unwrap();
        assert_eq!(late.severity, Severity::Warning);
        assert!(late.headline.contains("error 3024"), "{}", late.headline);
        // No room to prepare is another cause.
        assert_eq!(severity(old(5000.0).gauge("Prepared_stmt_count", 16_382.0)), None);
    }

    #[test]
    fn mariadb_without_performance_schema_shows_what_was_refused_before_it_ran() {
        let all_refused = |read_only: &str| {
            // 6,000 questions, of which 4,800 are counted as commands, 0.2 as connections.
            evaluate(
                &without_summary("10.11.19-MariaDB")
                    .counter("Com_update", 0.0)
                    .variable("read_only", read_only)
                    .window(),
            )
        };
        let Outcome::Fired(finding) = all_refused("ON") else { panic!("it should fire") };
        assert_eq!(
            finding.headline,
            "1200 statements a second fail with error 1290, 20 % of all: the server is read-only (read_only = ON)"
        );
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.remedies.iter().any(|remedy| remedy.statement == "INSTALL SONAME 'sql_errlog'"));
        assert!(matches!(all_refused("OFF"), Outcome::NotEnoughEvidence(_)));
        let denied = without_summary("10.11.19-MariaDB").counter("Access_denied_errors", 900.0);
        let finding = found(denied).unwrap();
        assert!(finding.headline.ends_with("15 % of all: a right is missing"), "{}", finding.headline);
    }

    #[test]
    fn commands_that_are_in_no_question_or_in_two_counters_hide_and_invent_nothing() {
        let prepared = |executed: f64| {
            without_summary("10.11.19-MariaDB")
                .counter("Questions", 5000.0)
                .counter("Com_select", 4000.0)
                .counter("Com_update", 600.0)
                .counter("Com_commit", 400.0 - 0.2)
                .counter("Com_stmt_execute", executed)
                .counter("Com_stmt_prepare", executed)
                .counter("Com_stmt_close", executed)
                .window()
        };
        assert_eq!(uncounted(&prepared(4000.0)), uncounted(&prepared(0.0)));
        assert!(uncounted(&prepared(0.0)).unwrap() <= 2.0, "{:?}", uncounted(&prepared(0.0)));
    }
}
