//! The readings that speak for it.

use spindoctor_model::mysql::{RowLockWait, Transaction};
use spindoctor_model::{Evidence, Sample, number};

use super::pileup::Pileup;
use super::queue::{LONG_WAIT_S, Queue, WAITING_RATIO};
use super::stacks::ByStacks;
use crate::sessions::{self, tenth};

impl Pileup<'_> {
    /// How many wait, for how long and for what; of a single list, who.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let list = self.queue.last().filter(|_| self.is_one_list());
        let is_unnamed = self.holders.latest().is_none() && self.nameless.is_empty();
        let may_hold = list.filter(|_| is_unnamed);
        let begun = self.window.status_per_s("Innodb_row_lock_waits").map(|per_s| {
            Evidence::new("row lock waits begun", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_row_lock_waits")
        });
        // Of few that wait in a list that somebody captured, each is shown.
        let is_each_shown = list.is_some_and(|sample| (1..=SHOWN).contains(&in_lock_wait(sample).count()));
        let waiters = self.waiters.as_ref().filter(|_| !is_each_shown);
        of_queue(&self.queue)
            .into_iter()
            .chain(self.place.as_ref().map(most_wanted))
            .chain(waiters.map(|waiters| waiters.evidence("most who wait run", "lock waits, INNODB_TRX")))
            .chain(self.in_turn())
            .chain(self.ran.as_ref().map(|ran| ran.evidence("who had the lock ran", "thread list")))
            .chain(self.by_stacks.as_ref().map(ByStacks::evidence))
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

    /// How many had the lock in turn.
    fn in_turn(&self) -> Option<Evidence> {
        let (connections, idle, all) = self.holders.in_turn().filter(|_| self.is_hot())?;
        let connections = number::counted(connections as u64, "connection", "connections");
        let value = format!("{connections} in {all} samples, idle in {idle} of them");
        Some(Evidence::new("had the lock in turn", value, "", "lock waits, thread list"))
    }
}

/// How many wait, and for how long.
fn of_queue(queue: &Queue<'_>) -> Vec<Evidence> {
    let Queue { mean, share, share_source, longest_s, least, is_queue, .. } = *queue;
    let mut evidence = vec![
        // What is within its bound is not what speaks for the cause.
        expected_if(
            is_queue,
            Evidence::new("sessions waiting for a row lock", tenth(mean), "", "INNODB_TRX, lock waits"),
            format!("< {least}"),
        )
        .series(queue.series.clone()),
        expected_if(
            is_queue,
            Evidence::new("share of the sessions at work", share, "ratio", share_source),
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
    let index = if wait.index.is_empty() { String::new() } else { format!(" index {}", wait.index) };
    let record = record(&wait.record).map_or_else(String::new, |record| format!(" record {record}"));
    Evidence::new("most wanted", format!("{}{index}{record}", wait.table), "", "lock waits")
}

/// A record as it may be shown: a text in it may be anybody's, and so may all of it where that was recorded.
fn record(record: &str) -> Option<String> {
    const HIDDEN: &str = "(its value is hidden)";
    let is_mark = record.strip_prefix('#').is_some_and(|mark| mark.bytes().all(|c| c.is_ascii_hexdigit()));
    match (record.find('\''), record.rfind('\'')) {
        _ if record.is_empty() => None,
        _ if is_mark => Some(HIDDEN.to_owned()),
        // Quotes in a text are escaped in some versions and not in others: from the first to the last, all is one.
        (Some(first), Some(last)) => {
            let behind = if first == last { "" } else { &record[last + 1..] };
            Some(format!("{}{HIDDEN}{behind}", &record[..first]))
        }
        _ => Some(record.to_owned()),
    }
}

/// Sessions of each kind that the evidence of a single list shows.
const SHOWN: usize = 3;

fn in_lock_wait(sample: &Sample) -> impl Iterator<Item = &Transaction> {
    let all = sample.server.transactions.value().into_iter().flatten();
    all.filter(|one| one.state == "LOCK WAIT")
}

/// Who waits in a list that somebody captured, the longest first.
fn who_waits(sample: &Sample) -> Vec<Evidence> {
    let mut waiting: Vec<&Transaction> = in_lock_wait(sample).collect();
    waiting.sort_by(|one, other| other.waited_s.unwrap_or(0.0).total_cmp(&one.waited_s.unwrap_or(0.0)));
    let sentence = |one: &Transaction| {
        let who = match one.connection_id {
            Some(id) => format!("connection {id}"),
            None if one.id.contains(' ') => one.id.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_record_what_may_not_be_shown_is_said_to_be_hidden() {
        for (text, shown) in [
            ("", None),
            ("5", Some("5")),
            ("supremum pseudo-record", Some("supremum pseudo-record")),
            ("'orders'", Some("(its value is hidden)")),
            ("'#f91f'", Some("(its value is hidden)")),
            ("#b3a7a6ab", Some("(its value is hidden)")),
            ("7, 'O'Brien ü', 5", Some("7, (its value is hidden), 5")),
            ("'cut", Some("(its value is hidden)")),
        ] {
            assert_eq!(record(text).as_deref(), shown, "{text}");
        }
        let wait =
            RowLockWait { table: "shop.totals".into(), record: "'orders'".into(), ..RowLockWait::default() };
        let value = spindoctor_model::Value::Text("shop.totals record (its value is hidden)".into());
        assert_eq!(most_wanted(&wait).value, value);
    }
}
