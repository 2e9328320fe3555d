//! How the errors are counted: by number where the server does, else by what little its status shows.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{ErrorCount, ErrorSummary};
use spindoctor_model::{Unavailable, Window};

use super::kinds::{Kind, OF_BOTH, OF_CONNECTIONS, OF_FILES, OF_LOGINS, OF_OTHER_CAUSES, TOO_LARGE};
use super::writes::read_only;
use super::{HALF, known};
use crate::{open_files, temporary_room};

/// A number that was raised so much more often than statements failed was a warning of statements that succeeded.
const MORE_THAN_FAILED: f64 = 1.2;

/// Numbers that are read at most (`perf_schema_errors` in `collect`): a longer list was cut.
const LISTED: usize = 100;

/// The server gives the age of a number in whole seconds.
const AGE_ERROR_S: f64 = 1.0;

/// One kind of error, and how often it was counted.
#[derive(Debug, Clone)]
pub(super) struct Failing {
    pub(super) kind: Kind,
    pub(super) number: Option<u32>,
    /// `error 1290 ER_OPTION_PREVENTS_STATEMENT`, or what is known without a number.
    pub(super) name: String,
    /// In the window.
    pub(super) count: f64,
    pub(super) per_s: f64,
    pub(super) first_seen_s: Option<f64>,
    /// How it is known.
    pub(super) source: &'static str,
}

/// All that is known of errors.
pub(super) struct Failures {
    pub(super) errors: Vec<Failing>,
    pub(super) statements_per_s: f64,
}

/// By the server's summaries.
pub(super) fn of_summary(
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
            let mut known = by_number(window, first, last, seconds, failed);
            // A list that was cut does not have all.
            let rest =
                failed.filter(|_| last.len() < LISTED).map(|failed| failed - raised(first, last, failed));
            if let Some(count) = rest.filter(|&count| count > 0.0) {
                known.push(without_number(window, count, seconds));
            }
            known
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
                known.push(without_number(window, count, seconds));
            }
            known
        }
    };
    Ok(Failures { errors, statements_per_s })
}

/// Statements that failed with an error that no list has. MySQL counts none of the numbers below 1000, which are those of its files
/// (`EE_WRITE`, 3, no space for a sort; `EE_OUT_OF_FILERESOURCES`, 23, no more open files), by number.
fn without_number(window: &Window, count: f64, seconds: f64) -> Failing {
    Failing {
        kind: if temporary_room::little(window).is_some() {
            Kind::NoTemporaryRoom
        } else if open_files::at_the_limit(window).is_some() {
            Kind::NoFiles
        } else {
            Kind::Unknown
        },
        number: None,
        name: "errors whose number this server does not count".into(),
        count,
        per_s: count / seconds,
        first_seen_s: None,
        source: "events_statements_summary_global_by_event_name SUM_ERRORS",
    }
}

/// How often errors were raised that may have ended these statements, of all numbers that are counted: some were warnings, of logins,
/// or raised beside another number, so that what is left is no more than there was.
fn raised(first: &[ErrorCount], last: &[ErrorCount], failed: f64) -> f64 {
    let before: BTreeMap<u32, u64> = first.iter().map(|error| (error.number, error.raised)).collect();
    let grew = |error: &ErrorCount| {
        error.raised.saturating_sub(before.get(&error.number).copied().unwrap_or(0)) as f64
    };
    let of_statements = last.iter().filter(|error| error.number != TOO_LARGE);
    of_statements.map(grew).filter(|&count| count <= MORE_THAN_FAILED * failed).sum()
}

/// True where no statement can be prepared, which is a cause of its own.
fn is_full_of_prepared(window: &Window) -> bool {
    let limit = window.variable_number("max_prepared_stmt_count");
    window.status("Prepared_stmt_count").zip(limit).is_some_and(|(count, limit)| count >= limit)
}

/// By the counts of each number; `failed` is how many statements failed, where that is known.
pub(super) fn by_number(
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
    let has_no_files = open_files::at_the_limit(window).is_some();
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
        let kind = match has_no_files && OF_FILES.contains(&number) {
            true => Kind::NoFiles,
            false => known::kind(number),
        };
        let is_of_statements = match failed {
            _ if number == TOO_LARGE => true,
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

/// That a table is read-only, which the server raises beside InnoDB's own refusal (1836).
const OF_READ_ONLY_TABLE: u32 = 1036;
const OF_READ_ONLY_INNODB: u32 = 1836;

/// The errors without [`OF_ENGINE`], where the others are what failed; where nobody knows how much failed, where NOWAIT did.
fn without_companion(mut errors: Vec<Failing>, failed: Option<f64>, nowait: f64) -> Vec<Failing> {
    let sum = |is_such: &dyn Fn(&Failing) -> bool| -> f64 {
        errors.iter().filter(|error| is_such(error)).map(|error| error.count).sum()
    };
    let of_engine = sum(&|error| error.number == Some(OF_ENGINE));
    let others = sum(&|error| ![Some(OF_ENGINE), Some(TOO_LARGE)].contains(&error.number));
    let alone = failed.map_or(of_engine - nowait, |failed| failed - others);
    if alone < HALF * of_engine {
        errors.retain(|error| error.number != Some(OF_ENGINE));
    }
    if count(&errors, OF_READ_ONLY_INNODB) >= HALF * count(&errors, OF_READ_ONLY_TABLE) {
        errors.retain(|error| error.number != Some(OF_READ_ONLY_TABLE));
    }
    errors
}

fn count(errors: &[Failing], number: u32) -> f64 {
    errors.iter().filter(|error| error.number == Some(number)).map(|error| error.count).sum()
}

/// By the status alone, where nothing counts errors by number.
pub(super) fn of_status(window: &Window) -> Result<Failures, Unavailable> {
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
    // Where nobody counts the logins that were refused, it is open what of it statements are.
    let denied =
        window.status_growth("Aborted_connects").map_or(0.0, |logins| grew("Access_denied_errors") - logins);
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
pub(super) fn uncounted(window: &Window) -> Option<f64> {
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
