//! `purge-lag`: old row versions pile up, and statements that write are delayed for it or read through them.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::{Evidence, Finding, Remedy, Unavailable, Window};

use crate::draft::Draft;
use crate::history::history;
use crate::sessions::{self, Waiting};
use crate::{Cause, Outcome, Stacks};

/// The catalogue entry.
pub(crate) const CAUSE: Cause = Cause {
    name: "purge-lag",
    title: "the history list grows: a long transaction, or purge cannot keep up",
    what: "Each change leaves the row's old version in the undo log, for transactions that may still see it; purge removes \
           the versions that nobody can see. The history list counts the transactions whose versions are left. It grows \
           while an old transaction keeps its view open, or while purge removes less than is made. Where \
           innodb_max_purge_lag is set and passed, each change of a row sleeps, by design.",
    why_it_hurts: "Delayed changes: the server sleeps in every insert, update and delete, up to innodb_max_purge_lag_delay. \
                   Without the delay, reads walk through chains of old versions, indexes keep entries of deleted rows, and \
                   the undo tablespaces grow.",
    evidence: "The history list's length over the window (Innodb_history_list_length, the metric trx_rseg_history_len, or \
               SHOW ENGINE INNODB STATUS), innodb_max_purge_lag and innodb_max_purge_lag_delay, the oldest open \
               transaction. It fires where the list is longer than innodb_max_purge_lag and changes are delayed: the score \
               is the delay times the rows changed a second (Handler_write, _update, _delete), of the time of the sessions \
               at work. It fires too, as a warning, where the list has a million entries and grows.",
    looks_alike: "A long list that gets shorter: purge catches up after a bulk change. Updates that wait for rows are \
                  row-lock-pileup; the transaction that holds them may be the old one.",
    remedies: "End the old transaction, and find out why it stays open: a client that forgot to commit, a backup with a \
               consistent snapshot, a report that runs for hours. Where none is old: a larger innodb_purge_batch_size, more \
               innodb_purge_threads (restart), a disk that keeps up. Set innodb_max_purge_lag to 0 where the delay hurts \
               more than the list does.",
    safety: "Killing a transaction rolls its changes back; one that only reads loses nothing but its answer. \
             innodb_max_purge_lag is dynamic and undone with the old value; without it the list grows until its cause is \
             gone.",
    references: &[
        "MySQL Reference Manual: Purge Configuration; innodb_max_purge_lag, innodb_max_purge_lag_delay",
        "MySQL 8.0 source, trx0purge.cc (trx_purge_dml_delay)",
        "Domas Mituzas, on performance stalls: Purge stalls the server",
    ],
    stacks: Stacks::Nothing,
    evaluate,
};

/// From here on the list is long: the manual's own example of a limit on it (innodb_max_purge_lag).
pub(crate) const LONG_HISTORY: f64 = 1e6;

/// No counter tells what a long list costs those who read through it: a warning, and no more.
const LONG_HISTORY_SCORE: f64 = 0.1;

/// A transaction that is open for longer than this may be what purge waits for.
pub(crate) const OLD_TRANSACTION_S: f64 = 60.0;

/// Where changes are delayed already, a younger one that is older than any statement at work is named.
const OLDER_THAN_WORK_S: f64 = 5.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let series = history(window)?;
    let (Some(&(first_s, first)), Some(&(last_s, last))) = (series.first(), series.last()) else {
        return Ok(None);
    };
    let per_s = (last - first) / (last_s - first_s).max(f64::MIN_POSITIVE);
    // Without them nobody knows whether changes are delayed.
    window.need(|s| &s.server.variables)?;
    let most = window.variable_number("innodb_max_purge_lag").filter(|&most| most > 0.0);
    let delay_us = most.map_or(0.0, |most| delay_us(window, last / most));
    let grows_long = last >= LONG_HISTORY && per_s > 0.0;
    if delay_us <= 0.0 && !grows_long {
        return Ok(None);
    }
    let changes_per_s: f64 = ["Handler_write", "Handler_update", "Handler_delete"]
        .iter()
        .filter_map(|name| window.status_per_s(name))
        .sum();
    let at_work = Waiting::count(window, |_| true)?.mean;
    let delayed = delay_us / 1e6 * changes_per_s / at_work.max(1.0);
    let score = delayed.min(1.0).max(if grows_long { LONG_HISTORY_SCORE } else { 0.0 });
    let oldest_from_s = if delay_us > 0.0 { OLDER_THAN_WORK_S } else { OLD_TRANSACTION_S };
    let oldest = window
        .latest(|s| &s.server.transactions)
        .and_then(|all| all.iter().max_by(|a, b| a.age_s.total_cmp(&b.age_s)))
        .filter(|oldest| oldest.age_s >= oldest_from_s);
    let headline = match delay_us > 0.0 {
        true => format!(
            "Every change of a row sleeps {:.0} ms: {last:.0} transactions wait to be purged",
            delay_us / 1e3
        ),
        false => {
            format!("{:.1} million transactions wait to be purged, {per_s:.0} more each second", last / 1e6)
        }
    };
    Ok(Some(
        Draft::new(&CAUSE, score, headline)
            .why(why(oldest, most, last))
            .evidence(
                Evidence::new("length of the history list", last, "", "INNODB_METRICS trx_rseg_history_len")
                    .expected(format!("< {:.0}", most.unwrap_or(LONG_HISTORY)))
                    .series(series.clone()),
            )
            .evidence(Evidence::new("it grows by", per_s, "1/s", "computed").expected("<= 0"))
            .evidence_if((delay_us > 0.0).then(|| {
                Evidence::new("delay of each change", delay_us, "us", "computed from innodb_max_purge_lag")
                    .expected("0")
            }))
            .evidence_if(
                (delay_us > 0.0)
                    .then(|| Evidence::new("rows changed", changes_per_s, "1/s", "SHOW GLOBAL STATUS")),
            )
            .evidence_if(oldest.map(|oldest| {
                Evidence::new("oldest open transaction", oldest.age_s, "s", "information_schema.innodb_trx")
                    .expected(format!("< {oldest_from_s:.0}"))
            }))
            .remedy_if(oldest.and_then(|oldest| kill(window, oldest)))
            .remedy_if((delay_us > 0.0).then(|| Remedy {
                statement: "SET GLOBAL innodb_max_purge_lag = 0".into(),
                why: "Changes are then not delayed.".into(),
                dynamic: true,
                risk: "The history list grows faster until its cause is gone.".into(),
                undo: format!("SET GLOBAL innodb_max_purge_lag = {:.0}", most.unwrap_or_default()),
            }))
            .remedy_if(oldest.is_none().then(|| larger_batch(window)))
            .finding(),
    ))
}

/// How long a change of a row sleeps, microseconds: the metric where it is enabled, else as the server computes it
/// (trx_purge_dml_delay: at least 5 ms, 10 ms for each time that the list is as long as its limit, up to
/// innodb_max_purge_lag_delay).
fn delay_us(window: &Window, ratio: f64) -> f64 {
    if let Some(us) = window.metric("purge_dml_delay_usec") {
        return us;
    }
    let most_us = window.variable_number("innodb_max_purge_lag_delay").unwrap_or(0.0);
    if ratio <= 1.0 { 0.0 } else { ((ratio - 0.5) * 10_000.0).min(most_us) }
}

fn why(oldest: Option<&Transaction>, most: Option<f64>, last: f64) -> String {
    let limit = most.filter(|&most| last > most).map_or(String::new(), |most| {
        format!(" innodb_max_purge_lag allows {most:.0}, and the server delays whoever adds to the list.")
    });
    match oldest {
        Some(oldest) => format!(
            "A transaction is open for {:.0} s{}, and purge keeps what it may still see.{limit}",
            oldest.age_s,
            oldest.connection_id.map_or(String::new(), |id| format!(" (connection {id})"))
        ),
        None => format!("No old transaction holds purge back: it removes less than is made.{limit}"),
    }
}

fn kill(window: &Window, oldest: &Transaction) -> Option<Remedy> {
    let sample = window.samples.iter().rev().find(|sample| sample.server.transactions.value().is_some())?;
    Some(sessions::kill(
        &sample.server,
        oldest.connection_id?,
        "Purge can then remove what only it could see.",
    ))
}

fn larger_batch(window: &Window) -> Remedy {
    const LARGEST_BATCH: f64 = 5_000.0;
    let now = window.variable_number("innodb_purge_batch_size").unwrap_or(300.0);
    Remedy {
        statement: format!("SET GLOBAL innodb_purge_batch_size = {:.0}", (4.0 * now).min(LARGEST_BATCH)),
        why: "More is removed at a time.".into(),
        dynamic: true,
        risk: "Purge takes more CPU and I/O from statements while it catches up.".into(),
        undo: format!("SET GLOBAL innodb_purge_batch_size = {now:.0}"),
    }
}

#[cfg(test)]
pub(crate) mod cases {
    use spindoctor_model::Reading;

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// Eight sessions that change rows, four hundred a second, with a limit on the list.
    fn limited(length: f64) -> Build {
        Build::busy("8.0.36")
            .metric("trx_rseg_history_len", length, 40.0)
            .variable("innodb_max_purge_lag", "1000")
            .variable("innodb_max_purge_lag_delay", "300000")
            .counter("Handler_update", 400.0)
            .sessions(|_| (20..28).map(|id| session(id, "Query", "updating", "UPDATE t SET a = 1")).collect())
    }

    pub(crate) fn fires() -> Window {
        limited(2_000.0)
            .each(|at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(12, "RUNNING", 30.0)]);
            })
            .window()
    }

    /// As long a list, and the limit is not passed.
    pub(crate) fn near_miss() -> Window {
        limited(500.0).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").each(|_, server, _| server.innodb_metrics = Reading::NotAsked).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_delay_is_the_servers_own_and_the_old_transaction_is_named() {
        let finding = found(&fires());
        // (2400 / 1000 - 0.5) * 10 ms.
        assert!(finding.headline.contains("sleeps 19 ms"), "{}", finding.headline);
        assert_eq!(finding.remedies[0].statement, "KILL 12");
        assert!(finding.why.contains("open for 30 s (connection 12)"), "{}", finding.why);
    }

    #[test]
    fn a_list_of_a_million_that_grows_is_a_warning_and_one_that_shrinks_is_none() {
        let long = |per_s| Build::busy("8.0.36").metric("trx_rseg_history_len", 2e6, per_s).window();
        let finding = found(&long(3_000.0));
        assert_eq!(finding.severity, spindoctor_model::Severity::Warning);
        assert!(finding.remedies[0].statement.contains("innodb_purge_batch_size"), "{:?}", finding.remedies);
        assert_eq!(evaluate(&long(-3_000.0)), Outcome::Clear);
    }
}
