//! `prepared-xa-left`: a transaction that XA prepared, and nobody ends, keeps its locks.

use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Evidence, Finding, Remedy, Sample, TimeClass, Unavailable, Window};

use super::row_lock_pileup;
use crate::draft::Draft;
use crate::sessions::Waiting;
use crate::wait_graph::{ROLLING_BACK, without_connection};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "prepared-xa-left",
    title: "a prepared XA transaction without a connection keeps locks that others want",
    what: "XA PREPARE makes a transaction durable and leaves the decision to a coordinator: XA COMMIT or XA ROLLBACK. Where the \
           client or the coordinator is lost in between, the transaction stays prepared, without a connection, over restarts \
           of the server, and keeps its row locks.",
    why_it_hurts: "Everybody who wants one of its rows waits until innodb_lock_wait_timeout, again and again. It is in no process \
                   list, and no KILL ends it.",
    evidence: "Row lock waits whose root is a transaction without a connection (INNODB_TRX, data_lock_waits).",
    looks_alike: "A transaction whose connection was lost and that InnoDB rolls back has no connection either: it ends by itself, \
                  and its state says ROLLING BACK. An idle transaction has a connection: row-lock-pileup.",
    remedies: "XA RECOVER CONVERT XID lists the prepared transactions; XA COMMIT or XA ROLLBACK of the one whose coordinator is \
               gone frees its locks. Then let the coordinator resolve what it left after a crash.",
    safety: "The other branches of the distributed transaction must end in the same way, or data differ between the systems: ask \
             the coordinator, or the people who run it, first. There is no undo.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/xa-statements.html",
        "https://mariadb.com/docs/server/reference/sql-statements/transactions/xa-transactions",
    ],
    costs: Costs::Waits(&[TimeClass::RowLock]),
    explains_time: &[TimeClass::RowLock],
    stacks: Stacks::Nothing,
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    window.need(|sample| &sample.server.row_lock_waits)?;
    window.need(|sample| &sample.server.transactions)?;
    let left = |sample: &Sample| {
        without_connection(window, sample, &[LockKind::Row]).filter(|root| root.doing != ROLLING_BACK)
    };
    let samples = || window.samples.iter().filter(|sample| sample.server.row_lock_waits.value().is_some());
    let Some(root) = samples().next_back().and_then(left) else { return Ok(None) };
    let looked = samples().count() as f64;
    let with_root = samples().filter(|sample| left(sample).is_some()).count() as f64;
    let at_work = Waiting::count(window, |_| false).map_or(0.0, |all| all.at_work_mean);
    let waiting = f64::from(root.waiting_in_all);
    let estimate = with_root / looked * (waiting / at_work.max(waiting).max(1.0));
    let is_plural = if root.waiting_in_all == 1 { " waits" } else { "s wait" };
    Ok(Some(
        Draft::new(
            &CAUSE,
            estimate,
            format!("{waiting:.0} transaction{is_plural} for rows of a transaction that has no connection"),
        )
        .why(
            "It was prepared by XA and waits for XA COMMIT or XA ROLLBACK; its client is gone, and its locks stay until then.",
        )
        .evidence(Evidence::new("transactions that wait for it", waiting, "", "lock waits, INNODB_TRX"))
        .evidence_if(root.longest_wait_s.map(|waited_s| Evidence::new("longest wait", waited_s, "s", "lock waits")))
        .remedy(Remedy {
            statement: "XA RECOVER CONVERT XID; then XA ROLLBACK or XA COMMIT of the one that is listed".into(),
            why: "Its coordinator, or you, must decide; no KILL ends it.".into(),
            dynamic: true,
            risk: "The other branches of the distributed transaction must end in the same way: ask its coordinator first.".into(),
            undo: String::new(),
        })
        .explains(&[row_lock_pileup::CAUSE.name])
        .finding(),
    ))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::RowLockWait;

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// Twenty-four sessions wait for a row of a transaction, which has that connection or none.
    fn held_by(connection_id: Option<u64>) -> Build {
        let wait = move |id: u64| RowLockWait {
            waiting_connection_id: Some(id),
            blocking_connection_id: connection_id,
            waiting_transaction: id.to_string(),
            blocking_transaction: "4711".into(),
            table: "shop.stock".into(),
            index: "PRIMARY".into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        Build::busy("8.0.36")
            .sessions(move |_| {
                let mut sessions: Vec<_> = (20..44)
                    .map(|id| session(id, "Query", "updating", "UPDATE stock SET n = n - 1"))
                    .collect();
                sessions.extend(connection_id.map(|id| session(id, "Sleep", "", "")));
                sessions
            })
            .each(move |at_s, server, _| {
                server.row_lock_waits = answer(at_s, (20..44).map(wait).collect());
                let mut transactions: Vec<_> =
                    (20..44).map(|id| transaction(id, "LOCK WAIT", 12.0)).collect();
                transactions.extend(connection_id.map(|id| transaction(id, "RUNNING", 60.0)));
                server.transactions = answer(at_s, transactions);
            })
    }

    pub(crate) fn fires() -> Window {
        held_by(None).window()
    }

    /// The holder has a connection.
    pub(crate) fn near_miss() -> Window {
        held_by(Some(7)).window()
    }

    /// The waits could not be read.
    pub(crate) fn missing() -> Window {
        held_by(None).each(|_, server, _| server.row_lock_waits = Reading::NotAsked).window()
    }
}
