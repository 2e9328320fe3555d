//! `statements-refused`: clients' statements end with errors at a high rate, and nobody waits.

mod counted;
mod crashed_table;
mod error_log;
mod kinds;
mod known;
mod meaning;
mod packets;
mod printed;
mod remedies;
#[cfg(test)]
mod tests;
mod writes;

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Unavailable, Window};
use spindoctor_statements::grown;

use super::connection_churn;
use crate::draft::Draft;
use crate::polling::{How, Poll};
use crate::rank::{CRITICAL_FROM, NOTE, WARNING_FROM};
use crate::sessions::shortened;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use counted::{Failing, Failures, of_status, of_summary};
pub(super) use error_log::of_damage;
use kinds::{Kind, TOO_LARGE};
use meaning::{meaning, why};
use packets::Packets;
use remedies::remedies;
use writes::{of_writes, source_of};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "statements-refused",
    title: "clients' statements end with errors at a high rate",
    what: "Statements reach the server and end with an error at once: the server is read-only (1290, 1792, 1836), a table or column is not \
           there after half of a deployment (1146, 1054), the account lacks a right (1142, 1044), a table or the disk is full (1114), an \
           account has used up its statements of the hour (1226), a packet is too large (1153), a time limit ends them (3024, 1969), a \
           table is damaged (1034, 1194, 1932), or many clients insert a key that is there (1062).",
    why_it_hurts: "The clients get nothing done. Nobody waits, so no list shows it: the server looks idle, or busy and well, while its \
                   users see every request fail. Most clients try again at once, which adds load.",
    evidence: "What is read: the growth of SUM_ERROR_RAISED by number (events_errors_summary_global_by_error, MySQL 8.0), held \
               against SUM_ERRORS of all statements: a number that was raised far more often was a warning, as of INSERT IGNORE. \
               Where errors are not counted by number: SUM_ERRORS of all statements, Access_denied_errors without refused logins, \
               Max_statement_time_exceeded, Max_execution_time_exceeded; and on a server that is read-only Questions without all \
               Com_* counters, for what is refused so is in no Com_* (seen on MySQL 9.7 and MariaDB 10.11).\n\n\
               A packet larger than max_allowed_packet (1153) is refused before it is a statement and ends its connection: it is counted by \
               number and in Aborted_clients, and is a warning at most.\n\n\
               It fires from one error a second, ten in the window and 1 % of the statements on. Below ten a second it is a note, as \
               a monitor or a forgotten job has errors, too, unless half of the statements or writes fail because the server is \
               read-only or full.\n\n\
               What an application expects (duplicate keys, values that do not fit, error 1062 and its like), and errors of unknown \
               number, are nothing below 5 % of the statements, a note up to half of them, and a warning at most; a warning from 5 % \
               on where an INSERT never succeeds, or where clients poll for locked rows with NOWAIT: a hundred a second that fail, \
               and half of all such.\n\n\
               Errors of files, and those of no number, are said to be for want of file descriptors where the server is at its limit \
               of them. Of a captured error log: no more open files (critical where the server did not start for it), damaged pages, a \
               table that is marked as crashed, is damaged or is not known to InnoDB (126, 144, 145, 1034, 1194, 1195 and 1932, and errors \
               of mysqlcheck) and that the server did not repair itself, a table without room; of errors that clients print: 1030, 1226, \
               1290, 1836, 3024 and 1969.\n\n\
               The estimate is the share of the statements that fail; on a read-only server that is no replica, the share of the \
               writes.",
    looks_alike: "Refused logins (1040, 1045, 1203, 1226) are connections-exhausted and logins-refused, 1213 is deadlock-storm, 1461 \
                  prepared-statements-exhausted. A statement that ends with 1205 has waited for a lock for a second or more: \
                  row-lock-pileup, metadata-lock-pileup. A temporary table (#sql) with a damaged index had no room: disk-full. Polls with \
                  SKIP LOCKED that find nothing are no errors: rows-read-waste. An application that inserts first and updates on error \
                  1062 works as it should.",
    remedies: "Read-only: find out who set it (a failover, an operator, a program that protects a full disk) and where the primary is; \
               send the writes there, or set read_only back to OFF where this is the primary. Missing tables and columns: finish or roll \
               back the deployment. Rights: GRANT what is missing. Full: make room. Time limits: make the statement faster, or raise the \
               limit. A table that is marked as crashed: CHECK TABLE, and REPAIR TABLE after a copy of its files (MyISAM, Aria); a damaged \
               one of InnoDB: ALTER TABLE ... FORCE, a replica or a backup; one that InnoDB does not know (1932): its .ibd file, or all of \
               the data folder of one backup. events_statements_history has the message with the account and the client's host; MariaDB's \
               plugin SQL_ERROR_LOG writes each error to a file.",
    safety: "SET GLOBAL read_only = OFF takes effect at once, and is dangerous where another server takes writes, too: the data of both \
             then differ, and one side is lost. A right that is granted is taken back by REVOKE. The queries of performance_schema only \
             read. REPAIR TABLE locks the table and leaves out rows that it cannot read: the copied files bring back the state before.",
    references: &[
        "MySQL Reference Manual: Error Summary Tables; read_only; super_read_only; Server Error Message Reference",
        "MySQL Reference Manual: CHECK TABLE Statement; REPAIR TABLE Statement; How to Repair MyISAM Tables",
        "MariaDB Knowledge Base: read_only; SQL_ERROR_LOG Plugin; Access_denied_errors",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, error_log::of_log),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
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

/// What packets that are too large explain: their clients connect again for each.
const OF_PACKETS: &[&str] = &[connection_churn::CAUSE.name];

/// How many numbers, and how many statements, stand in the evidence.
const SHOWN: usize = 4;

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

/// True where statements fail at a rate that is noticed and tmpdir has no room for their files.
pub(super) fn lacks_temporary_room(window: &Window) -> bool {
    let Some(change) = window.change(|s| &s.server.errors) else { return false };
    of_summary(window, change.first, change.last, change.seconds).is_ok_and(|failures| {
        failures.errors.iter().any(|one| one.kind == Kind::NoTemporaryRoom && one.per_s >= LEAST_PER_S)
    })
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
    let (_, too_large_per_s) = sum(&|error| error.number == Some(TOO_LARGE));
    let (_, shut_per_s) = sum(&|error| matches!(error.kind, Kind::ReadOnly | Kind::Full));
    let source = source_of(window);
    // A replica is read-only as it should be: the writes are clients' that came to the wrong server.
    let of_writes = (read_only_per_s > 0.0).then(|| of_writes(window, read_only_per_s));
    let of_primary = of_writes.filter(|_| source.is_none()).unwrap_or(0.0);
    let unexpected = if per_s < LEAST_PER_S || count < LEAST || share(per_s).max(of_primary) < LEAST_SHARE {
        0.0
    } else if per_s >= SURE_PER_S {
        let is_sure = read_only_per_s >= SURE_PER_S;
        let share = share(per_s).max(if is_sure { of_primary } else { 0.0 });
        // The server refuses what is too large and serves all else.
        if too_large_per_s >= HALF * per_s { share.min(CRITICAL_FROM - 0.01) } else { share }
    } else if share(shut_per_s).max(of_primary) >= HALF && shut_per_s >= LEAST_PER_S {
        CRITICAL_FROM - 0.01
    } else {
        NOTE.min(share(per_s))
    };
    let insert = always_fails(window).filter(|(_, per_s)| *per_s >= SURE_PER_S);
    let polls = Poll::storm(window, How::Nowait).filter(|polls| polls.in_vain_per_s >= HALF * expected_per_s);
    let expected = match share(expected_per_s) {
        // A statement that never succeeds is none that an application expects to fail, nor is one that is sent again without a pause.
        share if (insert.is_some() || polls.is_some()) && share >= LEAST_EXPECTED => {
            share.clamp(WARNING_FROM, CRITICAL_FROM - 0.01)
        }
        share if expected_per_s < SURE_PER_S || share < LEAST_EXPECTED => 0.0,
        share if share > HALF => share.min(CRITICAL_FROM - 0.01),
        _ => NOTE,
    };
    if unexpected.max(expected) <= 0.0 {
        return None;
    }
    let of_them = |error: &&Failing| error.kind.is_expected() == (expected > unexpected);
    let worst = errors.iter().filter(of_them).max_by(|a, b| a.per_s.total_cmp(&b.per_s))?;
    let insert = insert.map(|(table, _)| table);
    let polls = polls.filter(|_| worst.kind.is_expected());
    let packets = (worst.number == Some(TOO_LARGE)).then(|| Packets::from_window(window));
    let mut shown: Vec<&Failing> = errors.iter().filter(|error| error.per_s >= LEAST_PER_S).collect();
    shown.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
    let headline = format!(
        "{} statements a second fail{}, {:.0} % of all: {}",
        whole(worst.per_s),
        worst.number.map_or_else(String::new, |number| format!(" with error {number}")),
        share(worst.per_s) * 100.0,
        match &polls {
            Some(_) => "clients poll for locked rows with NOWAIT".to_owned(),
            None => meaning(window, worst, source.as_deref()),
        },
    );
    Some(
        Draft::new(&CAUSE, unexpected.max(expected), headline)
            .why(match &packets {
                Some(packets) => packets.why(),
                None => why(window, worst, source.as_deref(), insert.as_deref(), polls.as_ref()),
            })
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
            .evidence_all(polls.iter().flat_map(Poll::evidence))
            .evidence_all(packets.iter().flat_map(|packets| packets.evidence(window)))
            .evidence_all(statements(window).into_iter())
            .remedies(match &packets {
                Some(packets) => packets.remedies(window),
                None => remedies(window, worst, source.as_deref(), insert.as_deref(), polls.as_ref()),
            })
            .explains(if packets.is_some() { OF_PACKETS } else { &[] })
            .finding(),
    )
}

/// A table into which the same INSERT fails every time, and how often a second: no row gets in. Not that of an application that inserts
/// first and updates where the key is there, nor one that has a lock by a row (INSERT IGNORE does not fail).
fn always_fails(window: &Window) -> Option<(String, f64)> {
    let change = window.change(|s| &s.server.digests)?;
    let all = grown(change.first, change.last, change.seconds);
    let table_of = |text: &str, verb: &str| {
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        let is_such = first.eq_ignore_ascii_case(verb);
        let table = words.find(|word| !word.eq_ignore_ascii_case("INTO"))?;
        is_such.then(|| table.trim_matches('`').to_owned())
    };
    let succeeds = |table: &str, verb: &str| {
        all.iter().any(|one| {
            one.by.executions > one.by.errors && table_of(&one.digest.text, verb).as_deref() == Some(table)
        })
    };
    let failing = all.iter().filter(|one| one.by.errors >= LEAST && one.by.errors >= one.by.executions);
    let failing = failing.filter_map(|one| Some((table_of(&one.digest.text, "INSERT")?, one.by.errors)));
    let (table, count) = failing
        .filter(|(table, _)| !["INSERT", "UPDATE", "REPLACE"].iter().any(|verb| succeeds(table, verb)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((table, count / change.seconds))
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
