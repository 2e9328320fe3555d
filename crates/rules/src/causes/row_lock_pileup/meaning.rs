//! What the waits mean: the headline, and the reason.

use spindoctor_model::wait_graph::{LockKind, WaitRoot};
use spindoctor_model::{Sample, number};

use super::pileup::Pileup;
use super::stacks::ByStacks;
use super::statements::Wanted;
use crate::sessions;
use crate::wait_graph::{ROLLING_BACK, Verdict};

impl Pileup<'_> {
    /// Who waits, and behind whom.
    pub(super) fn headline(&self) -> String {
        let on = self.on();
        let (mean_waiters, longest_s) = (self.queue.mean, self.queue.longest_s);
        if let Some(root) = self.holders.again() {
            return self.again_and_again(root);
        }
        match (self.holders.one(), &self.ring) {
            (Some(verdict), _) => {
                behind(verdict, self.holders.held_up(verdict), &on) + &beside(&self.holders.others())
            }
            (None, Some(ring)) => {
                format!("{}{on}, and {mean_waiters:.0} in all are blocked{}", ring.headline(), ring.because())
            }
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
                format!("{} for row locks{on}{who}", sessions::wait_on_average(mean_waiters))
            }
        }
    }

    /// `Connection 40 (billing) locks rows of shop.invoices again and again, and up to 3 transactions wait each time`
    fn again_and_again(&self, root: &Verdict<'_>) -> String {
        let table = self.place.as_ref().map(|place| place.table.as_str());
        let what = match (&self.wanted, table) {
            (Wanted::Room { is_at_the_end: true }, Some(table)) => format!("the end of an index of {table}"),
            (_, Some(table)) => format!("rows of {table}"),
            (_, None) => "rows".to_owned(),
        };
        let wait = match self.holders.held_up(root) {
            1 => "a transaction waits".to_owned(),
            many => format!("up to {many} transactions wait"),
        };
        format!("Connection {} locks {what} again and again, and {wait} each time", with_user(root))
    }

    /// The end of a headline: who has the lock in a single list, or has it most likely.
    fn who_has_it(&self) -> String {
        match (&self.likely, &self.by_stacks) {
            (Some(likely), _) => likely.headline(),
            (None, Some(by_stacks)) => by_stacks.headline(),
            (None, None) => self.root_of_one_sample(),
        }
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
        let one = self.holders.one();
        if let Some(chain) = one.and_then(Verdict::why_of_chain) {
            return chain;
        }
        let why = match (one, self.holders.again(), self.holders.latest()) {
            (Some(root), ..) if root.root.free_with.is_none() => {
                let (why, note) = (self.why_behind_one(), &root.root.free_note);
                format!("{why} No KILL of connection {}: {note}.", root.connection_id)
            }
            (Some(_), ..) => self.why_behind_one().to_owned(),
            (None, Some(root), _) => self.why_again(root),
            (None, None, Some(_)) if self.is_one_sample() || !self.queue.is_queue && !self.holders.change() => {
                "One list says who has the lock at that moment; whether it stays, a second list would say.".to_owned()
            }
            (None, None, Some(_)) if self.holders.change() => {
                "The holder changes from sample to sample: the row is wanted by all, and each has it in turn.".to_owned()
            }
            (None, None, Some(_)) => {
                "In one of the lists somebody has the lock, and in no other: no transaction keeps it for long.".to_owned()
            }
            (None, None, None) => match self.by_stacks.as_ref().and_then(ByStacks::why) {
                Some(why) => why,
                None => self.why_unnamed().to_owned(),
            },
        };
        match self.why_wanted() {
            Some(wanted) => format!("{why} {wanted}"),
            None => why,
        }
    }

    fn why_again(&self, root: &Verdict<'_>) -> String {
        format!(
            "Connection {} has the lock in {} of the {} samples that show who has it, in several transactions: each ends by itself, and a \
             later one takes the lock again. To end the connection would help until its client connects again.",
            root.connection_id,
            self.holders.times(root),
            self.holders.samples.len()
        )
    }

    /// What they want, where what most of them run says it.
    fn why_wanted(&self) -> Option<String> {
        let table = self.place.as_ref().map_or("a table", |place| place.table.as_str());
        Some(match &self.wanted {
            Wanted::NextOfQueue(queue) => format!(
                "Those that wait run SELECT ... LIMIT ... FOR UPDATE: each wants the next row of {queue}, and that is the same row for all."
            ),
            Wanted::OfTrigger => {
                format!("What they run is a statement of a trigger (NEW or OLD in it), which changes {table} for rows of another table.")
            }
            Wanted::OfOtherTable(named) => format!(
                "They change {}, and wait for a row of {table}, which they do not name: the row at the other end of a foreign key, which \
                 the check locks, or one that a trigger changes. It may also be the table of a view.",
                named.qualified()
            ),
            Wanted::Room { is_at_the_end: true } => {
                "What they want is no row but the gap behind the last one (supremum): under REPEATABLE READ a transaction that reads a \
                 range up to there with a lock (FOR UPDATE, FOR SHARE, UPDATE, DELETE), be it empty, keeps out every INSERT of a larger \
                 key."
                    .to_owned()
            }
            Wanted::Room { is_at_the_end: false } => {
                "Those that wait insert rows into that table: they want a gap that a transaction has locked by reading a range, or a key \
                 that another transaction has inserted or deleted."
                    .to_owned()
            }
            Wanted::Row => return None,
        })
    }

    fn why_behind_one(&self) -> &'static str {
        let one = self.holders.one();
        match () {
            () if !self.holders.others().is_empty() => {
                "Each of these transactions holds rows of its own, and all others queue behind one of them: ending one frees those \
                 behind it alone."
            }
            () if one.is_some_and(Verdict::is_unlisted) => {
                "Who has the lock is inferred: of the open transactions this one alone has locked rows, waits for none, and is as old as \
                 the longest wait. The list of sessions does not have its connection: it is gone, or the lists are of different moments."
            }
            () if self.is_one_sample() && one.is_some_and(|root| !root.likely().is_empty()) => {
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
            None if self.nameless.iter().any(|holder| holder.starts_with("thread ")) => {
                "The list names the thread of performance_schema that has the lock, and not its connection: \
                 performance_schema.threads has both (THREAD_ID, PROCESSLIST_ID)."
            }
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

/// `40 (billing)`
pub(super) fn with_user(root: &Verdict<'_>) -> String {
    let (id, user) = (root.connection_id, root.described().user);
    if user.is_empty() { id.to_string() } else { format!("{id} ({user})") }
}

/// `1 transaction`, `14 transactions`
pub(super) fn transactions(count: usize) -> String {
    format!("{count} transaction{}", if count == 1 { "" } else { "s" })
}

/// Who blocks so many, and of a chain who has the rows that they want.
fn behind(root: &Verdict<'_>, held_up: usize, on: &str) -> String {
    let (id, held_up) = (root.connection_id, transactions(held_up));
    let (does, likely) = (sessions::doing(&root.described()), root.likely());
    let is_certain = root.chain.as_ref().is_none_or(|chain| !chain.is_inferred);
    match (&root.chain, root.chained(is_certain)) {
        (Some(chain), _) if root.held.kind == LockKind::Row && chain.next.is_none() => format!(
            "Connection {id} {likely}blocks {held_up}: it {does}; {} of them wait{on} behind {}, which waits for it",
            chain.behind, chain.holder
        ),
        (Some(chain), Some(chained)) => {
            format!("Connection {id} {likely}blocks {held_up} that want {}: {chained}", chain.wanted.words())
        }
        _ => format!("Connection {id} {likely}blocks {held_up}{on}: it {does}"),
    }
}

/// `; connection 8 blocks 28 more`
fn beside(others: &[&(usize, Verdict<'_>)]) -> String {
    let each = others.iter().map(|(behind, root)| {
        format!("; connection {} {}blocks {behind} more", root.connection_id, root.likely())
    });
    each.collect()
}
