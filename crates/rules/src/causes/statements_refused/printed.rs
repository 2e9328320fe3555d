//! Errors of statements as clients print them: how many statements ended well meanwhile they do not say.

use spindoctor_model::{Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use super::CAUSE;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;

/// What clients printed last.
pub(super) fn of_clients(window: &Window) -> Option<Finding> {
    read_only(window)
        .or_else(|| engine(window))
        .or_else(|| account_limit(window))
        .or_else(|| time_limit(window))
}

/// A finding of such a line, with what to look at first and what to do then.
fn finding(
    (trouble, times): (&LoggedTrouble, u64),
    headline: &str,
    why: &str,
    remedies: [(&str, &str, &str); 2],
) -> Finding {
    let remedy = |(statement, why, risk): (&str, &str, &str)| Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    };
    Draft::new(&CAUSE, WARNING_FROM, headline)
        .why(why)
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedies(remedies.map(remedy))
        .finding()
}

/// A write to a server that takes none (errors 1290 and 1836).
fn read_only(window: &Window) -> Option<Finding> {
    let printed = logged::at_the_end(window, TroubleKind::ReadOnly)?;
    let why = "It is a replica, or was switched by hand, by a failover, or by a program that protects a full disk; error 1836 is InnoDB's own, by \
               innodb_read_only or innodb_force_recovery. The server refuses each write at once.";
    let remedies = [
        (
            "SELECT @@hostname, @@read_only, @@super_read_only, @@innodb_read_only, @@innodb_force_recovery, and SHOW REPLICA STATUS (before MySQL \
             8.0.22 and MariaDB 10.5: SHOW SLAVE STATUS)",
            "It shows which server the client came to, what makes it read-only, and which source it has: writes belong there.",
            "It only reads.",
        ),
        (
            "Send the writes to the primary; only where this is the primary: SET GLOBAL super_read_only = OFF, SET GLOBAL read_only = OFF",
            "Clients can write again at once. SET GLOBAL read_only = ON undoes it.",
            "Where another server takes writes, too, the data of both differ from then on, and those of one are lost.",
        ),
    ];
    Some(finding(printed, "Writes are refused: the server is read-only", why, remedies))
}

/// What a storage engine returned, and the server has no number for (error 1030).
fn engine(window: &Window) -> Option<Finding> {
    let printed = logged::at_the_end(window, TroubleKind::EngineError)?;
    let why = "The number in the message is the engine's or the system's: 28 is a full file system, 122 a lock that was not given, 127 a damaged \
               table, 168 any error of the engine. Its error log says more at that time.";
    let remedies = [
        (
            "perror NUMBER; the error log at that time; df of the data folder and of tmpdir",
            "It says what the number means, and which file could not be read or written.",
            "Looking is safe.",
        ),
        (
            "CHECK TABLE of the table that the statement names",
            "It shows whether the table is damaged.",
            "It reads the whole table; a page that is badly damaged may end the server: have a backup first.",
        ),
    ];
    Some(finding(printed, "Statements fail: a storage engine returned an error (error 1030)", why, remedies))
}

/// An account that has sent as many statements in the hour as it may (error 1226).
fn account_limit(window: &Window) -> Option<Finding> {
    let printed = logged::at_the_end(window, TroubleKind::AccountLimit).filter(|(trouble, _)| {
        ["max_questions", "max_updates"].iter().any(|name| trouble.line.contains(name))
    })?;
    let why = "MAX_QUERIES_PER_HOUR or MAX_UPDATES_PER_HOUR of the account is used up: its statements are refused until the hour is over.";
    let remedies = [
        (
            "SHOW CREATE USER of the account (before MySQL 5.7: SHOW GRANTS)",
            "It shows the limit, which somebody set for this account alone.",
            "It only reads.",
        ),
        (
            "ALTER USER 'NAME'@'HOST' WITH MAX_QUERIES_PER_HOUR N; FLUSH USER_RESOURCES lets the hour begin again",
            "The account's next statement is taken.",
            "More of its statements run; ALTER USER with the number before undoes it.",
        ),
    ];
    Some(finding(
        printed,
        "Statements of an account are refused: it has sent as many in the hour as it may",
        why,
        remedies,
    ))
}

/// A statement that ran for as long as it may (errors 3024 and 1969).
fn time_limit(window: &Window) -> Option<Finding> {
    let printed = logged::at_the_end(window, TroubleKind::TimeLimit)?;
    let why = "max_execution_time (MySQL, in milliseconds, for SELECT alone) or max_statement_time (MariaDB, in seconds) ended it, of the \
               session, the account or a hint. What it did until then was for nothing.";
    let remedies = [
        (
            "EXPLAIN of the statement: an index for it, or fewer rows",
            "A statement that is over in time is not ended.",
            "EXPLAIN only reads; an index takes room and makes writes longer.",
        ),
        (
            "SELECT @@global.max_execution_time, @@session.max_execution_time (MariaDB: max_statement_time), and raise it for that statement \
             alone: SELECT /*+ MAX_EXECUTION_TIME(N) */ ..., MariaDB SET STATEMENT max_statement_time = N FOR ...",
            "Others keep their limit.",
            "A higher limit lets slow statements pile up.",
        ),
    ];
    Some(finding(printed, "Statements are ended at their time limit", why, remedies))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;

    #[test]
    fn each_error_of_clients_is_one_finding_with_its_remedy() {
        for (kind, line, headline, statement) in [
            (
                TroubleKind::ReadOnly,
                "The MySQL server is running with the --read-only option",
                "Writes are refused",
                "SELECT @@hostname, @@read_only",
            ),
            (TroubleKind::EngineError, "Got error 168 from storage engine", "Statements fail", "perror"),
            (
                TroubleKind::AccountLimit,
                "User 'a' has exceeded the 'max_updates' resource (current value: 9)",
                "Statements of an account",
                "SHOW CREATE USER",
            ),
            (
                TroubleKind::TimeLimit,
                "maximum statement execution time exceeded",
                "Statements are ended at their time limit",
                "EXPLAIN",
            ),
        ] {
            let trouble = LoggedTrouble { kind, times: 3, line: line.to_owned(), ..LoggedTrouble::default() };
            let all = crate::diagnose(&Window { error_log: vec![trouble], ..Window::default() }).findings;
            assert_eq!(all.len(), 1, "{all:#?}");
            assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Warning), "{line}");
            assert!(all[0].headline.starts_with(headline), "{}", all[0].headline);
            assert!(all[0].remedies[0].statement.starts_with(statement), "{:?}", all[0].remedies);
        }
    }
}
