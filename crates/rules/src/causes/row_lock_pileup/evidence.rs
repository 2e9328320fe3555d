//! The readings that speak for it.

use spindoctor_model::mysql::{RowLockWait, Transaction};
use spindoctor_model::{Evidence, Sample, number};

use super::pileup::Pileup;
use super::queue::{LONG_WAIT_S, Queue, WAITING_RATIO};
use crate::sessions;

impl Pileup<'_> {
    /// How many wait, for how long and for what; of a single list, who.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let list = self.queue.last().filter(|_| self.is_one_list());
        let is_unnamed = self.holders.latest().is_none() && self.nameless.is_empty();
        let may_hold = list.filter(|_| is_unnamed);
        let begun = self.window.status_per_s("Innodb_row_lock_waits").map(|per_s| {
            Evidence::new("row lock waits begun", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_row_lock_waits")
        });
        of_queue(&self.queue)
            .into_iter()
            .chain(self.place.as_ref().map(most_wanted))
            .chain(list.into_iter().flat_map(who_waits))
            .chain(self.nameless.iter().take(SHOWN).map(|holder| {
                // A list without ids of transactions has those of threads, with that word.
                let who =
                    if holder.contains(' ') { (*holder).clone() } else { format!("transaction {holder}") };
                Evidence::new("has the lock", who, "", "lock waits")
            }))
            .chain(may_hold.into_iter().flat_map(|sample| who_may_hold(sample, self.queue.longest_s)))
            .chain(begun)
            .collect()
    }
}

/// How many wait, and for how long.
fn of_queue(queue: &Queue<'_>) -> Vec<Evidence> {
    let Queue { mean, ratio, longest_s, least, is_queue, .. } = *queue;
    let mut evidence = vec![
        // What is within its bound is not what speaks for the cause.
        expected_if(
            is_queue,
            Evidence::new("sessions waiting for a row lock", mean, "", "INNODB_TRX, lock waits"),
            format!("< {least}"),
        )
        .series(queue.series.clone()),
        expected_if(
            is_queue,
            Evidence::new("share of the sessions at work", ratio, "ratio", "thread list"),
            format!("< {WAITING_RATIO}"),
        ),
    ];
    if longest_s > 0.0 {
        let longest = Evidence::new("longest wait", longest_s, "s", "lock waits");
        evidence.push(expected_if(longest_s >= LONG_WAIT_S, longest, format!("< {LONG_WAIT_S:.0}")));
    }
    evidence
}

/// The place that is waited for the most.
fn most_wanted(wait: &RowLockWait) -> Evidence {
    let record = if wait.record.is_empty() { "" } else { " record " };
    Evidence::new(
        "most wanted",
        format!(
            "{}{}{}{record}{}",
            wait.table,
            if wait.index.is_empty() { "" } else { " index " },
            wait.index,
            spindoctor_sql::record_without_texts(&wait.record)
        ),
        "",
        "lock waits",
    )
}

/// Sessions of each kind that the evidence of a single list shows.
const SHOWN: usize = 3;

/// Who waits in a list that somebody captured, the longest first.
fn who_waits(sample: &Sample) -> Vec<Evidence> {
    let all = sample.server.transactions.value().into_iter().flatten();
    let mut waiting: Vec<&Transaction> = all.filter(|one| one.state == "LOCK WAIT").collect();
    waiting.sort_by(|one, other| other.waited_s.unwrap_or(0.0).total_cmp(&one.waited_s.unwrap_or(0.0)));
    let sentence = |one: &Transaction| {
        let who = match one.connection_id {
            Some(id) => format!("connection {id}"),
            None => format!("transaction {}", one.id),
        };
        let since =
            one.waited_s.map_or_else(String::new, |waited_s| format!(" for {}", number::duration(waited_s)));
        let thread = one.connection_id.and_then(|id| sessions::session(&sample.server, id));
        let statement = one.statement.as_deref().or_else(|| thread?.statement.as_deref());
        let runs =
            statement.map_or_else(String::new, |statement| format!(": {}", sessions::shortened(statement)));
        Evidence::new("waits", format!("{who}{since}{runs}"), "", "lock waits")
    };
    waiting.into_iter().take(SHOWN).map(sentence).collect()
}

/// Of a status: the transactions that have locks of rows, wait for none, and are as old as the longest wait. Each may be the holder.
fn who_may_hold(sample: &Sample, longest_s: f64) -> Vec<Evidence> {
    let listed =
        sample.server.innodb_status.value().into_iter().flat_map(|status| &status.transactions.transactions);
    let can = listed.filter(|one| {
        one.active
            && !one.lock_wait
            && one.row_locks.is_some_and(|rows| rows > 0)
            // Ages are printed in whole seconds.
            && one.active_s.is_some_and(|active_s| active_s + 1.0 >= longest_s)
    });
    can.take(SHOWN)
        .map(|one| {
            let who = match one.connection_id {
                Some(id) => format!("connection {id}"),
                None => format!("transaction {}, whose connection is not in what was given", one.id),
            };
            let open = number::duration(one.active_s.unwrap_or(0.0));
            let rows = number::counted(one.row_locks.unwrap_or(0), "row locked", "rows locked");
            Evidence::new("may have the lock", format!("{who}: open for {open}, {rows}"), "", "INNODB STATUS")
        })
        .collect()
}

/// A reading, and what is expected of it where it is not so.
fn expected_if(is_beyond: bool, evidence: Evidence, expected: String) -> Evidence {
    if is_beyond { evidence.expected(expected) } else { evidence }
}
