//! Who has the lock, and whether the same one stays.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Sample, Window};

use super::queue::Queue;
use crate::sessions;
use crate::wait_graph::Verdict;

/// Holders that stay the root in half of the samples are one holder and not a hot row.
const SAME_HOLDER: f64 = 0.5;

/// Samples in which one transaction has the lock before it is one that stays: of a single one nothing is known.
const STAYS: usize = 2;

/// Samples in which one connection has the lock before that is no chance, though each time in another transaction. Chosen.
const AGAIN: usize = 3;

/// Who blocks so many is named beside the first: of fewer there are always some. Chosen.
const BEHIND_ANOTHER: usize = 3;

/// How many are named beside the first.
const OTHERS: usize = 3;

/// Ages are given in whole seconds.
const ROUNDED_S: f64 = 1.0;

/// From here on the id of a transaction is made of an address, and the next transaction of the connection may have the same: it has
/// changed nothing, and locked nothing exclusively (storage/innobase/include/trx0trx.ic, trx_get_id_for_print).
const BY_ADDRESS: u64 = 1 << 48;

/// A sample that names some who have the lock.
pub(super) struct Named<'w> {
    pub(super) sample: &'w Sample,
    /// Each with how many wait behind it, the most first.
    pub(super) roots: Vec<(usize, Verdict<'w>)>,
}

/// The connections behind which the sessions wait, and which do not wait themselves.
pub(super) struct Holders<'w> {
    /// The samples that name some.
    pub(super) samples: Vec<Named<'w>>,
    /// Of one list, as somebody captured it, the length of the wait shows that the holder stays.
    is_long_in_one_list: bool,
}

impl<'w> Holders<'w> {
    pub(super) fn from_queue(window: &'w Window, queue: &Queue<'w>) -> Self {
        let each = queue
            .samples
            .iter()
            .map(|&sample| Named { sample, roots: Verdict::all(window, sample, &[LockKind::Row]) });
        Self {
            samples: each.filter(|named| !named.roots.is_empty()).collect(),
            is_long_in_one_list: queue.samples.len() == 1 && queue.is_long,
        }
    }

    /// The one behind which most wait in the last of the samples that name some.
    pub(super) fn latest(&self) -> Option<&Verdict<'w>> {
        self.samples.last()?.roots.first().map(|(_, root)| root)
    }

    /// The same, where it is one holder and not a hot row.
    pub(super) fn one(&self) -> Option<&Verdict<'w>> {
        self.latest().filter(|root| self.stays(root))
    }

    /// True where several samples name some, and none of them stays.
    pub(super) fn change(&self) -> bool {
        self.samples.len() > 1 && self.one().is_none()
    }

    /// Where none stays: the connection that has the lock in half of the samples, in several transactions, and is never seen to wait
    /// for it, as those are who take a hot row in turn.
    pub(super) fn again(&self) -> Option<&Verdict<'w>> {
        if self.one().is_some() {
            return None;
        }
        let mut seen: BTreeMap<u64, Vec<(&Sample, &Verdict<'w>)>> = BTreeMap::new();
        for named in &self.samples {
            for (_, root) in &named.roots {
                seen.entry(root.connection_id).or_default().push((named.sample, root));
            }
        }
        let (id, seen) = seen.into_iter().max_by_key(|(_, seen)| seen.len())?;
        let is_often = seen.len() >= AGAIN && seen.len() as f64 >= SAME_HOLDER * self.samples.len() as f64;
        let (last, root) = *seen.last()?;
        let takes_it_again = seen.iter().any(|(sample, _)| !is_same_transaction(sample, last, id));
        let waits = self.samples.iter().any(|named| waits(named.sample, id));
        (is_often && takes_it_again && !waits && root.chain.is_none()).then_some(root)
    }

    /// Of how many samples it has the lock.
    pub(super) fn times(&self, root: &Verdict<'_>) -> usize {
        self.samples.iter().filter(|named| named.has(root)).count()
    }

    /// Of those behind which most wait: how many connections they are, in how many samples they are idle, and in how many there are any.
    pub(super) fn in_turn(&self) -> Option<(usize, usize, usize)> {
        let firsts = || {
            let first = |named: &Named<'w>| Some((named.sample, named.roots.first()?.1.connection_id));
            self.samples.iter().filter_map(first)
        };
        let ids: BTreeSet<u64> = firsts().map(|(_, id)| id).collect();
        let rests = |&(sample, id): &(&Sample, u64)| {
            sessions::session(&sample.server, id).is_some_and(|thread| thread.command == "Sleep")
        };
        (ids.len() > 1).then(|| (ids.len(), firsts().filter(rests).count(), self.samples.len()))
    }

    /// Others that stay hold rows of their own, and a session that wants these waits on when the first is gone.
    pub(super) fn others(&self) -> Vec<&(usize, Verdict<'w>)> {
        let is_one = self.one().is_some();
        let of_end = self.samples.last().into_iter().flat_map(|named| &named.roots).skip(1);
        let of_end = of_end.filter(|_| is_one);
        of_end.filter(|(behind, root)| *behind >= BEHIND_ANOTHER && self.stays(root)).take(OTHERS).collect()
    }

    /// How many wait behind it at the most: at its end one lets go of them one by one.
    pub(super) fn held_up(&self, root: &Verdict<'_>) -> usize {
        let all = self.samples.iter().flat_map(|named| &named.roots);
        let behind = all.filter(|other| is_of(root, other)).map(|(behind, _)| *behind);
        behind.max().unwrap_or(0)
    }

    /// `root` is one of the last sample's.
    fn stays(&self, root: &Verdict<'_>) -> bool {
        let Some(last) = self.samples.last() else { return false };
        let is_same = |named: &&Named<'_>| {
            named.has(root) && is_same_transaction(named.sample, last.sample, root.connection_id)
        };
        let same = self.samples.iter().filter(is_same).count();
        self.is_long_in_one_list || same >= STAYS && same as f64 >= SAME_HOLDER * self.samples.len() as f64
    }
}

impl Named<'_> {
    fn has(&self, root: &Verdict<'_>) -> bool {
        self.roots.iter().any(|other| is_of(root, other))
    }
}

fn is_of(root: &Verdict<'_>, (_, other): &(usize, Verdict<'_>)) -> bool {
    other.connection_id == root.connection_id
}

/// True where the connection has the same transaction open in both samples, or nothing shows that it has not: a server gives no number
/// to two transactions, one that is older than the time between them was there before, and a younger one was not.
fn is_same_transaction(earlier: &Sample, later: &Sample, connection_id: u64) -> bool {
    let apart_s = later.at_s - earlier.at_s;
    let ids = (id_of_transaction(earlier, connection_id), id_of_transaction(later, connection_id));
    let is_number = |id: &str| id.parse::<u64>().is_ok_and(|id| id < BY_ADDRESS);
    match (ids, sessions::transaction(&later.server, connection_id).map(|open| open.age_s)) {
        ((Some(before), Some(after)), _) if before == after && is_number(after) => true,
        (_, Some(age_s)) if age_s + ROUNDED_S < apart_s => false,
        (_, Some(age_s)) if age_s - ROUNDED_S > apart_s => true,
        ((Some(before), Some(after)), _) => before == after,
        _ => true,
    }
}

/// The id of the transaction in which the connection has what others wait for, else of the one that it has open.
fn id_of_transaction(sample: &Sample, connection_id: u64) -> Option<&str> {
    let waits = sample.server.row_lock_waits.value().into_iter().flatten();
    let blocking = waits
        .filter(|wait| wait.blocking_connection_id == Some(connection_id))
        .map(|wait| wait.blocking_transaction.as_str());
    let open = sessions::transaction(&sample.server, connection_id).map(|open| open.id.as_str());
    blocking.chain(open).find(|id| !id.is_empty())
}

/// True where the connection waits for a row itself.
fn waits(sample: &Sample, connection_id: u64) -> bool {
    let mut waits = sample.server.row_lock_waits.value().into_iter().flatten();
    let open = sessions::transaction(&sample.server, connection_id);
    waits.any(|wait| wait.waiting_connection_id == Some(connection_id))
        || open.is_some_and(|open| open.state == "LOCK WAIT")
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;
    use spindoctor_model::mysql::{RowLockWait, Transaction};

    use super::super::CAUSE;
    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// Three clients insert, and connection 7 has what they want in each sample, in a transaction of that id and age.
    fn found(transaction_at: impl Fn(f64) -> (u64, f64)) -> Finding {
        diagnosed(&held_by(|_| 7, transaction_at))
    }

    fn diagnosed(window: &Window) -> Finding {
        crate::diagnose(window).findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
    }

    fn held_by(holder_at: impl Fn(f64) -> u64, transaction_at: impl Fn(f64) -> (u64, f64)) -> Window {
        Build::busy("8.0.36")
            .sessions(|_| {
                let inserts =
                    (20..23).map(|id| session(id, "Query", "update", "INSERT INTO invoices VALUES (1)"));
                inserts.chain((5..9).map(|id| session(id, "Sleep", "", ""))).collect()
            })
            .each(|at_s, server, _| {
                let (holder, (id, age_s)) = (holder_at(at_s), transaction_at(at_s));
                let wait = |waiting: u64| RowLockWait {
                    waiting_connection_id: Some(waiting),
                    blocking_connection_id: Some(holder),
                    waiting_transaction: (waiting + 9000).to_string(),
                    blocking_transaction: id.to_string(),
                    table: "shop.invoices".into(),
                    index: "PRIMARY".into(),
                    record: "supremum pseudo-record".into(),
                    ..RowLockWait::default()
                };
                server.row_lock_waits = answer(at_s, (20..23).map(wait).collect());
                let open = Transaction { id: id.to_string(), ..transaction(holder, "RUNNING", age_s) };
                server.transactions = answer(at_s, vec![open]);
            })
            .window()
    }

    fn kills(finding: &Finding) -> bool {
        finding.remedies.iter().any(|remedy| remedy.statement.starts_with("KILL"))
    }

    #[test]
    fn who_takes_a_lock_again_and_again_is_named_and_not_killed() {
        // Ids of other transactions; the same made of an address, by an age that is less than what is between two samples.
        for finding in [
            found(|at_s| (6_000 + at_s as u64, 0.0)),
            found(|at_s| (421_597_220_939_056, if at_s < 8.0 { at_s % 4.0 } else { 0.0 })),
        ] {
            assert_eq!(
                finding.headline,
                "Connection 7 (app) locks the end of an index of shop.invoices again and again, and up to 3 transactions wait each time"
            );
            assert!(!kills(&finding), "{:?}", finding.remedies);
            assert!(finding.why.contains("in 11 of the 11 samples"), "{}", finding.why);
            assert!(finding.why.contains("supremum"), "{}", finding.why);
            assert!(
                finding.remedies[0].statement.starts_with("Shorten the transactions of connection 7 (app)")
            );
            assert!(finding.remedies[1].statement.contains("READ COMMITTED"), "{:?}", finding.remedies);
            assert_eq!(finding.root.and_then(|root| root.connection_id), Some(7));
        }
    }

    #[test]
    fn one_transaction_that_stays_is_one_holder_whatever_its_id() {
        // It has changed nothing at first: its id is made of an address until it does.
        for finding in [
            found(|_| (6_138, 0.0)),
            found(|at_s| (421_597_220_939_056, at_s + 3.0)),
            found(|at_s| (if at_s < 6.0 { 421_597_220_939_056 } else { 6_138 }, at_s + 3.0)),
        ] {
            assert!(
                finding.headline.starts_with("Connection 7 blocks 3 transactions"),
                "{}",
                finding.headline
            );
            assert_eq!(finding.remedies[0].statement, "KILL 7");
        }
    }

    #[test]
    fn two_samples_with_two_holders_are_a_hot_row_and_have_no_root() {
        let mut window = held_by(|at_s| if at_s < 1.0 { 7 } else { 8 }, |at_s| (6_000 + at_s as u64, 1.0));
        window.samples.truncate(2);
        let finding = diagnosed(&window);
        assert_eq!(finding.root, None);
        assert!(!kills(&finding), "{:?}", finding.remedies);
    }

    #[test]
    fn of_two_that_take_a_row_in_turn_and_wait_for_it_each_is_like_the_other() {
        let is_even = |at_s: f64| (at_s as u64).is_multiple_of(2);
        let mut window = held_by(|at_s| if is_even(at_s) { 7 } else { 8 }, |at_s| (6_000 + at_s as u64, 0.0));
        for sample in &mut window.samples {
            let waiting = if is_even(sample.at_s) { 8 } else { 7 };
            let spindoctor_model::Reading::Available { value: waits, .. } = &mut sample.server.row_lock_waits
            else {
                panic!("it has waits")
            };
            waits[0].waiting_connection_id = Some(waiting);
        }
        let finding = diagnosed(&window);
        assert_eq!(finding.root, None);
        assert!(finding.headline.contains("sessions on average wait"), "{}", finding.headline);
    }
}
