//! What to do about the waits.

use spindoctor_model::{Remedy, Window};

use super::likely::Likely;
use super::meaning::transactions;
use super::pileup::Pileup;
use crate::wait_graph::Verdict;

impl Pileup<'_> {
    /// What to do, the best first.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        let is_one = self.holders.one().is_some();
        let (is_queue, is_unattached) = (self.queue.is_queue, self.unattached.is_some());
        let is_hot = is_queue && !is_one && !is_unattached && self.likely.is_none();
        let end = self.holders.latest().filter(|_| is_one || !is_queue).and_then(|verdict| {
            let others = self.holders.held_up(verdict);
            verdict.remedy(&format!("It is not waiting, and blocks {}.", transactions(others)))
        });
        let end_between = self.holders.one().and_then(Verdict::remedy_between);
        let others = self.holders.others();
        let end_others = others.iter().filter_map(|(behind, verdict)| {
            verdict.remedy(&format!("It is not waiting either, and blocks {}.", transactions(*behind)))
        });
        let ring = self.ring.as_ref();
        let end_ring = ring.and_then(|ring| ring.remedy(&self.queue.last()?.server));
        end.into_iter()
            .chain(end_between)
            .chain(end_others)
            .chain(end_ring)
            .chain(ring.filter(|ring| ring.is_undetected()).map(|_| detect_deadlocks()))
            .chain(is_unattached.then(look_at_unattached))
            .chain(self.likely.as_ref().and_then(Likely::remedy))
            .chain((is_hot && ring.is_none()).then(shorten_transactions))
            .chain(shorter_timeout(self.window))
            .collect()
    }
}

/// What ends each later ring at once.
fn detect_deadlocks() -> Remedy {
    Remedy {
        statement: "SET GLOBAL innodb_deadlock_detect = ON".into(),
        why: "InnoDB then rolls back one transaction of each ring at once, with error 1213.".into(),
        dynamic: true,
        risk: "With hundreds of sessions that want one row, looking for rings takes CPU time.".into(),
        undo: "SET GLOBAL innodb_deadlock_detect = OFF".into(),
    }
}

/// What helps where the row is hot.
pub(super) fn shorten_transactions() -> Remedy {
    Remedy {
        statement: "Shorten the transactions that change the hot row; change it last, or spread it over \
                    several rows"
            .into(),
        why: "Each has the row from its change to its commit, and only one can have it at a time.".into(),
        dynamic: true,
        risk: "A change of the application.".into(),
        undo: String::new(),
    }
}

/// How to learn what a transaction without a connection is.
fn look_at_unattached() -> Remedy {
    Remedy {
        statement: "SELECT trx_id, trx_state, trx_started, trx_rows_modified FROM information_schema.INNODB_TRX WHERE \
                    trx_mysql_thread_id = 0; again after some seconds"
            .into(),
        why: "Where trx_rows_modified falls it is being rolled back, and that number by its pace is the time to go. Where it stays, \
              look at the error log: InnoDB writes there which transactions it recovers at its start."
            .into(),
        dynamic: true,
        risk: "It reads a list.".into(),
        undo: String::new(),
    }
}

/// What a shorter wait for a row may be, seconds: most statements of an application are given up by their clients by then. Chosen.
const SHORT_TIMEOUT_S: f64 = 5.0;

/// To let who waits for a row give up sooner, where it is not soon enough already.
pub(in crate::causes) fn shorter_timeout(window: &Window) -> Option<Remedy> {
    let timeout_s = window.variable_number("innodb_lock_wait_timeout");
    timeout_s.is_none_or(|timeout_s| timeout_s > SHORT_TIMEOUT_S).then(|| Remedy {
        statement: format!("SET GLOBAL innodb_lock_wait_timeout = {SHORT_TIMEOUT_S}"),
        why: format!("Waiters fail after {SHORT_TIMEOUT_S} s instead of filling the connections."),
        dynamic: true,
        risk: "Clients must handle error 1205; holds for sessions that start later.".into(),
        undo: format!(
            "SET GLOBAL innodb_lock_wait_timeout = {}",
            window.variable("innodb_lock_wait_timeout").unwrap_or("50")
        ),
    })
}
