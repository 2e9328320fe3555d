//! What the waits mean: the headline, and the reason.

use spindoctor_model::wait_graph::{LockKind, WaitRoot};
use spindoctor_model::{Sample, number};

use super::likely::Likely;
use super::pileup::Pileup;
use crate::sessions;
use crate::wait_graph::{ROLLING_BACK, Verdict};

impl Pileup<'_> {
    /// Who waits, and behind whom.
    pub(super) fn headline(&self) -> String {
        let on = self.on();
        let (mean_waiters, longest_s) = (self.queue.mean, self.queue.longest_s);
        match (self.holders.one(), &self.ring) {
            (Some(verdict), _) => {
                behind(verdict, self.holders.held_up(verdict), &on) + &beside(&self.holders.others())
            }
            (None, Some(ring)) => format!(
                "{}{on}, and {mean_waiters:.0} in all are blocked{}",
                ring.headline(),
                if ring.is_undetected() { ": innodb_deadlock_detect is OFF" } else { "" }
            ),
            (None, None) if self.is_one_list() => format!(
                "{} for row locks{on}{}{}",
                number::counted(mean_waiters.round() as u64, "session waits", "sessions wait"),
                if longest_s > 0.0 {
                    format!(", for up to {}", number::duration(longest_s))
                } else {
                    String::new()
                },
                self.who_has_it()
            ),
            (None, None) => {
                let who = self.who_has_it();
                format!("{mean_waiters:.1} sessions on average wait for row locks{on}{who}")
            }
        }
    }

    /// The end of a headline: who has the lock in a single list, or has it most likely.
    fn who_has_it(&self) -> String {
        self.likely.as_ref().map_or_else(|| self.root_of_one_sample(), Likely::headline)
    }

    /// `; connection 7 blocks 5 transactions: it is idle in transaction`, of one list, which does not show whether it stays.
    fn root_of_one_sample(&self) -> String {
        let Some(root) = self.holders.latest().filter(|_| self.is_one_sample()) else {
            return String::new();
        };
        format!(
            "; connection {} {}blocks {}: it {}",
            root.connection_id,
            root.likely(),
            transactions(self.holders.held_up(root)),
            sessions::doing(&root.described())
        )
    }

    /// Why they wait.
    pub(super) fn why(&self) -> String {
        if let Some(ring) = &self.ring {
            return ring.sentence();
        }
        let why = match (self.holders.one(), self.holders.latest()) {
            (Some(verdict), _) => match verdict.why_of_chain() {
                Some(chain) => return chain,
                None => self.why_behind_one(),
            },
            (None, Some(_)) if self.is_one_sample() => {
                "One list says who has the lock at that moment; whether it stays, a second list would say."
            }
            (None, Some(_)) => {
                "The holder changes from sample to sample: the row is wanted by all, and each has it in turn."
            }
            (None, None) => self.why_unnamed(),
        };
        why.to_owned()
    }

    fn why_behind_one(&self) -> &'static str {
        match () {
            () if !self.holders.others().is_empty() => {
                "Each of these transactions holds rows of its own, and all others queue behind one of them: ending one frees those \
                 behind it alone."
            }
            () if self.is_one_sample() && self.is_inferred() => {
                "Who has the lock is inferred: of the open transactions this one alone has locked rows, waits for none, and is as old as \
                 the longest wait."
            }
            () if self.is_one_sample() => {
                "The transaction that holds the lock is named; the others wait for its end."
            }
            () => "The same transaction holds the lock through the window; all others queue behind it.",
        }
    }

    fn why_unnamed(&self) -> &str {
        if let Some(likely) = &self.likely {
            return likely.why();
        }
        let waits = self.queue.last().and_then(|sample| sample.server.row_lock_waits.value());
        match &self.unattached {
            Some((sample, root)) => why_unattached(sample, root),
            None if !self.nameless.is_empty() => {
                "The list names the transaction that has the lock, and not its connection: information_schema.INNODB_TRX \
                 has both (trx_id, trx_mysql_thread_id)."
            }
            None if self.is_one_list() && waits.is_some() => {
                "What was given shows who waits, and not who has the lock. The whole SHOW ENGINE INNODB STATUS of such a moment \
                 names it, best with innodb_status_output_locks = ON, or sys.innodb_lock_waits does."
            }
            None if waits.is_some() || self.has_transactions() => {
                "The lists of transactions and lock waits show who waits, and not who has the lock."
            }
            None => "The counters show that sessions wait; what blocks them could not be read.",
        }
    }

    /// A list of transactions was read at the time of the last sample that shows who waits.
    fn has_transactions(&self) -> bool {
        self.queue.last().is_some_and(|sample| sample.server.transactions.value().is_some())
    }

    /// What was not read in a list of lock waits has no index.
    fn is_inferred(&self) -> bool {
        let waits = self.queue.last().and_then(|sample| sample.server.row_lock_waits.value());
        self.window.is_given()
            && waits
                .is_some_and(|waits| waits.iter().all(|wait| wait.index.is_empty() && wait.record.is_empty()))
    }
}

/// What a transaction without a connection is, as far as the readings show it.
fn why_unattached(sample: &Sample, root: &WaitRoot) -> &'static str {
    let prepared = sample.server.prepared_xa.value();
    if root.doing == ROLLING_BACK {
        "The transaction that holds the lock has no connection: InnoDB rolls it back, because its client was lost or the server \
         recovers from a crash. Its locks are kept until that has ended; no KILL and no restart makes it shorter."
    } else if prepared.is_some_and(Vec::is_empty) {
        "The transaction that holds the lock has no connection, XA RECOVER lists nothing, and it does not roll back. After a crash \
         InnoDB rolls back what was open, one transaction after the other, and each keeps its locks until its turn has ended; \
         else it is not known what it is."
    } else {
        "The transaction that holds the lock has no connection: it was prepared by XA, or InnoDB rolls it back."
    }
}

/// `1 transaction`, `14 transactions`
pub(super) fn transactions(count: usize) -> String {
    format!("{count} transaction{}", if count == 1 { "" } else { "s" })
}

/// Who blocks so many, and of a chain who has the rows that they want.
fn behind(root: &Verdict<'_>, held_up: usize, on: &str) -> String {
    let (id, held_up) = (root.connection_id, transactions(held_up));
    let does = sessions::doing(&root.described());
    match (&root.chain, root.chained(true)) {
        (Some(chain), _) if root.held.kind == LockKind::Row && chain.next.is_none() => format!(
            "Connection {id} blocks {held_up}: it {does}; {} of them wait{on} behind {}, which waits for it",
            chain.behind, chain.holder
        ),
        (Some(chain), Some(chained)) => format!(
            "Connection {id} {}blocks {held_up} that want {}: {chained}",
            root.likely(),
            chain.wanted.words()
        ),
        _ => format!("Connection {id} blocks {held_up}{on}: it {does}"),
    }
}

/// `; connection 8 blocks 28 more`
fn beside(others: &[&(usize, Verdict<'_>)]) -> String {
    let each = others
        .iter()
        .map(|(behind, root)| format!("; connection {} blocks {behind} more", root.connection_id));
    each.collect()
}
