//! `performance_schema.data_lock_waits`: who waits for whose row lock, on MySQL 8.0 and later.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use spindoctor_model::mysql::{RowLockWait, Transaction};
use spindoctor_model::{ServerSample, Unavailable};

use super::innodb_trx;
use super::rows::{Row, Rows};
use super::source::{
    Plan, Source, note_if_cut, open_transactions, performance_schema_grant, performance_schema_off,
};
use crate::pace::Pace;
use crate::source::Cadence;

/// Pairs of a place and a holder read at most.
const LIMIT: usize = 1000;

/// Places that are looked up, the most wanted first.
const PLACES: usize = 50;

/// Holders of one place that are named for each of its waiters.
const HOLDERS: usize = 10;

/// A transaction that has more locks than this is not asked what it waits for: InnoDB would list them all, 1.2 us
/// each (MySQL 9.7.4).
const FEW_LOCKS: u64 = 2_000;

/// The source.
///
/// Of n transactions that queue for one row the table has n(n+1)/2 pairs, most of them of two waiters. So it is not
/// read whole: who waits stands in INNODB_TRX, read just before, and of each place one waiter is looked up. Where
/// nobody waits, nothing is asked.
///
/// Cost: a walk over the open transactions under InnoDB's lock latches for each place. 500 waiters for one row:
/// 0.7 ms (MySQL 9.7.4), where the whole table takes 210 ms with 400.
pub const SOURCE: Source = Source {
    name: "performance_schema.data_lock_waits",
    help: "who waits for whose row lock (MySQL 8.0 and later)",
    cost: "nothing where nobody waits, 0.7 ms with 500 waiters for one row",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::with(innodb_trx::SOURCE.name),
    plan: |version, variables| {
        if !version.mysql_at_least(8, 0, 1) {
            return Plan::Elsewhere;
        }
        match performance_schema_off(version, variables) {
            Some(why) => Plan::Cannot(why),
            None => Plan::AskAbout(statement),
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.data_lock_waits", rows, LIMIT, sample);
        let transactions = sample.transactions.value().map(Vec::as_slice).unwrap_or_default();
        if places(transactions).len() > PLACES {
            sample.cut.push("performance_schema.data_lock_waits".to_owned());
        }
        sample.row_lock_waits = answer.reading(row_lock_waits(rows, sample));
    },
    reading: ServerSample::field("row_lock_waits"),
};

/// Something that transactions wait for: a record or a table.
struct Place<'s> {
    waiters: Vec<&'s Transaction>,
}

impl Place<'_> {
    /// Who stands first in the queue has the fewest others before it.
    fn longest(&self) -> Option<&str> {
        let order = |t: &&&Transaction| {
            (std::cmp::Reverse((t.waited_s.unwrap_or(0.0) * 1e3) as u64), t.id.len(), t.id.clone())
        };
        self.waiters.iter().min_by_key(order).map(|t| t.id.as_str())
    }

    /// Whose lock is looked up: of each transaction all locks are listed.
    fn least(&self) -> Option<&str> {
        let few = self.waiters.iter().filter(|t| t.rows_locked <= FEW_LOCKS);
        few.min_by_key(|t| t.rows_locked).map(|t| t.id.as_str())
    }
}

/// The places that are waited for, the most wanted first.
fn places(transactions: &[Transaction]) -> Vec<Place<'_>> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut of_place: HashMap<&str, Vec<&Transaction>> = HashMap::new();
    for transaction in transactions.iter().filter(|t| is_number(&t.id)) {
        if let Some(requested) = &transaction.requested_lock {
            of_place.entry(place(requested)).or_default().push(transaction);
        }
    }
    let mut places: Vec<(&str, Vec<&Transaction>)> = of_place.into_iter().collect();
    places.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(b.0)));
    places.into_iter().map(|(_, waiters)| Place { waiters }).collect()
}

/// `f`: for each place the transaction that has waited longest, and the one whose lock is looked up. `w`: who is in the
/// way of the first. `d`: what the second waits for. Both tables are asked by the waiter's transaction only: InnoDB
/// then passes over the locks of all others. Asked whole, data_locks walks every lock of every transaction (0.6 s for
/// 500,000 on MySQL 9.7.4). STRAIGHT_JOIN and FORCE INDEX see to it.
fn statement(sample: &ServerSample) -> Result<Option<String>, Unavailable> {
    let mut asked = String::new();
    for (at, place) in places(open_transactions(sample)?).iter().take(PLACES).enumerate() {
        let joined = if asked.is_empty() { "" } else { " UNION ALL " };
        let (longest, least) = (place.longest().unwrap_or("0"), place.least().unwrap_or("0"));
        // Writing into a String cannot fail.
        let _ok = write!(asked, "{joined}SELECT {at} AS place, {longest} AS longest, {least} AS least");
    }
    if asked.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "WITH f AS ({asked}), \
         w AS (SELECT f.place, p.BLOCKING_ENGINE_LOCK_ID AS blocking_lock, \
          p.BLOCKING_ENGINE_TRANSACTION_ID AS blocking, p.BLOCKING_THREAD_ID AS blocking_thread \
          FROM f STRAIGHT_JOIN performance_schema.data_lock_waits AS p \
          FORCE INDEX (REQUESTING_ENGINE_TRANSACTION_ID) ON p.REQUESTING_ENGINE_TRANSACTION_ID = f.longest LIMIT {LIMIT}), \
         d AS (SELECT f.place, r.OBJECT_SCHEMA, r.OBJECT_NAME, r.INDEX_NAME, r.LOCK_MODE, \
          LEFT(r.LOCK_DATA, 256) AS LOCK_DATA FROM f STRAIGHT_JOIN performance_schema.data_locks AS r \
          FORCE INDEX (ENGINE_TRANSACTION_ID) ON r.ENGINE_TRANSACTION_ID = f.least WHERE r.LOCK_STATUS = 'WAITING') \
         SELECT w.*, d.OBJECT_SCHEMA, d.OBJECT_NAME, d.INDEX_NAME, d.LOCK_MODE, d.LOCK_DATA \
         FROM w LEFT JOIN d ON d.place = w.place"
    )))
}

/// What was looked up of a place: what it is, and who holds it.
#[derive(Default)]
struct LookedUp<'r> {
    lock: Option<Row<'r>>,
    holders: Vec<(String, Option<u64>)>,
}

/// Every transaction that waits for a place waits for its holders; connections and times waited come from the
/// transactions and threads of the same sample.
fn row_lock_waits(rows: &Rows, sample: &ServerSample) -> Vec<RowLockWait> {
    let transactions = sample.transactions.value().map(Vec::as_slice).unwrap_or_default();
    let requested: HashSet<&str> = transactions.iter().filter_map(|t| t.requested_lock.as_deref()).collect();
    let threads: HashMap<u64, u64> = sample
        .threads
        .value()
        .into_iter()
        .flatten()
        .filter_map(|t| Some((t.internal_id?, t.connection_id?)))
        .collect();
    let mut looked_up: HashMap<usize, LookedUp<'_>> = HashMap::new();
    for row in rows.iter() {
        let Some(at) = row.number("place") else { continue };
        let place = looked_up.entry(at).or_default();
        place.lock = Some(row);
        // Who waits for the same place is not what blocks it.
        if row.text("blocking_lock").is_some_and(|lock| requested.contains(lock))
            || place.holders.len() >= HOLDERS
        {
            continue;
        }
        let blocking = row.string("blocking");
        // The transaction holds the lock. The thread is the one that made the lock's record: where the lock was implicit,
        // as that of a row that was just inserted, a waiter made it for the holder.
        let connection = match transactions.iter().find(|transaction| transaction.id == blocking) {
            Some(transaction) => transaction.connection_id,
            None => row.number("blocking_thread").and_then(|id: u64| threads.get(&id).copied()),
        };
        place.holders.push((blocking, connection));
    }
    let mut waits = Vec::new();
    for (at, place) in places(transactions).iter().enumerate() {
        let Some(LookedUp { lock: Some(lock), holders }) = looked_up.get(&at) else { continue };
        let (schema, table) = (lock.string("OBJECT_SCHEMA"), lock.string("OBJECT_NAME"));
        for waiter in &place.waiters {
            for (blocking, connection) in holders.iter().filter(|(blocking, _)| *blocking != waiter.id) {
                waits.push(RowLockWait {
                    waiting_connection_id: waiter.connection_id,
                    blocking_connection_id: *connection,
                    table: if table.is_empty() { String::new() } else { format!("{schema}.{table}") },
                    index: lock.string("INDEX_NAME"),
                    record: lock.string("LOCK_DATA"),
                    // That of the one whose lock was looked up: others may want another.
                    mode: if place.waiters.len() == 1 { lock.string("LOCK_MODE") } else { String::new() },
                    waited_s: waiter.waited_s.unwrap_or(0.0),
                    waiting_transaction: waiter.id.clone(),
                    blocking_transaction: blocking.clone(),
                });
            }
        }
    }
    waits
}

/// What a lock id locks: `94856906093336:2:2:4:2:94856910296608` (9.7) is transaction, guid, space,
/// page, record, address; 8.0.28 has no guid. Table locks have the table's id for space, page, record.
fn place(lock_id: &str) -> &str {
    let body = lock_id.rsplit_once(':').map_or(lock_id, |(body, _address)| body);
    let parts = if body.matches(':').count() >= 3 { 3 } else { 1 };
    match body.rmatch_indices(':').nth(parts - 1) {
        Some((at, _)) => &body[at + 1..],
        None => body,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::source::Answer;
    use spindoctor_model::mysql::{ServerThread, Transaction};

    #[test]
    fn every_waiter_for_one_row_waits_for_the_holder_of_the_one_that_was_looked_up() {
        let thread = |internal_id, connection_id| ServerThread {
            internal_id: Some(internal_id),
            connection_id: Some(connection_id),
            ..ServerThread::default()
        };
        let transaction = |id: &str, connection_id, lock: &str| Transaction {
            id: id.into(),
            connection_id: Some(connection_id),
            waited_s: Some(2.0),
            requested_lock: Some(lock.into()),
            ..Transaction::default()
        };
        let mut sample = ServerSample {
            threads: Answer::default().reading(vec![thread(42, 8), thread(43, 9)]),
            transactions: Answer::default().reading(vec![
                transaction("1578", 9, "94856906093336:2:2:4:2:94856910296608"),
                transaction("1579", 14, "94856906094144:2:2:4:2:94856910299424"),
            ]),
            ..ServerSample::default()
        };
        let asked = statement(&sample).unwrap().unwrap();
        assert!(
            asked.starts_with("WITH f AS (SELECT 0 AS place, 1578 AS longest, 1578 AS least), "),
            "{asked}"
        );
        // From MySQL 9.7.4: two UPDATEs wait for one row.
        let rows = fixture::tabbed(
            "place\tblocking_lock\tblocking\tblocking_thread\tOBJECT_SCHEMA\tOBJECT_NAME\tINDEX_NAME\tLOCK_MODE\tLOCK_DATA\n\
             0\t94856906092528:2:2:4:2:94856910293792\t1577\t42\tt\ta\tPRIMARY\tX,REC_NOT_GAP\t1\n\
             0\t94856906094144:2:2:4:2:94856910299424\t1579\t48\tt\ta\tPRIMARY\tX,REC_NOT_GAP\t1\n",
        );
        (SOURCE.parse)(&rows, Answer::default(), &mut sample);
        let waits = sample.row_lock_waits.value().unwrap();
        let pairs: Vec<_> =
            waits.iter().map(|wait| (wait.waiting_connection_id, wait.blocking_connection_id)).collect();
        assert_eq!(pairs, [(Some(9), Some(8)), (Some(14), Some(8))]);
        assert_eq!((waits[0].mode.as_str(), waits[1].waited_s), ("", 2.0), "one was looked up, both wait");
        assert_eq!(
            (waits[1].table.as_str(), waits[1].index.as_str(), waits[1].record.as_str()),
            ("t.a", "PRIMARY", "1")
        );
        assert!(sample.cut.is_empty());
    }

    #[test]
    fn a_lock_that_a_waiter_made_for_the_holder_is_the_holders() {
        let thread = |internal_id, connection_id| ServerThread {
            internal_id: Some(internal_id),
            connection_id: Some(connection_id),
            ..ServerThread::default()
        };
        let transaction = |id: &str, connection_id, lock: Option<&str>| Transaction {
            id: id.into(),
            connection_id,
            waited_s: lock.map(|_| 2.0),
            requested_lock: lock.map(str::to_owned),
            ..Transaction::default()
        };
        // Connection 8 inserted row 1 and rests; the insert of connection 9 waits for it, and made the lock's record.
        let held_by = |holder: Option<u64>| {
            let mut sample = ServerSample {
                threads: Answer::default().reading(vec![thread(42, 8), thread(43, 9)]),
                transactions: Answer::default().reading(vec![
                    transaction("1577", holder, None),
                    transaction("1578", Some(9), Some("94856906093336:2:2:4:2:94856910296608")),
                ]),
                ..ServerSample::default()
            };
            let rows = fixture::tabbed(
                "place\tblocking_lock\tblocking\tblocking_thread\tOBJECT_SCHEMA\tOBJECT_NAME\tINDEX_NAME\tLOCK_MODE\tLOCK_DATA\n\
                 0\t94856906092528:2:2:4:2:94856910293792\t1577\t43\tt\ta\tu\tS\t1\n",
            );
            (SOURCE.parse)(&rows, Answer::default(), &mut sample);
            sample.row_lock_waits.value().unwrap()[0].blocking_connection_id
        };
        assert_eq!(held_by(Some(8)), Some(8));
        // A prepared XA transaction has no connection, whichever connection made the record.
        assert_eq!(held_by(None), None);
    }

    #[test]
    fn asks_nothing_where_nobody_waits_and_of_fifty_places_at_most() {
        let waiting = |n: u64| Transaction {
            id: n.to_string(),
            requested_lock: Some(format!("9:2:4:7:{n}:9")),
            rows_locked: if n == 3 { FEW_LOCKS + 1 } else { 1 },
            ..Transaction::default()
        };
        let sample = |transactions: Vec<Transaction>| ServerSample {
            transactions: Answer::default().reading(transactions),
            ..ServerSample::default()
        };
        assert!(statement(&ServerSample::default()).is_err(), "nobody knows whether somebody waits");
        assert_eq!(
            statement(&sample(vec![Transaction { id: "7".into(), ..Transaction::default() }])),
            Ok(None)
        );
        let mut many = sample((0..60).map(waiting).collect());
        let asked = statement(&many).unwrap().unwrap();
        assert_eq!(asked.matches(" AS longest").count(), PLACES);
        assert!(asked.contains("3 AS longest, 0 AS least"), "what many locks cost to list: {asked}");
        (SOURCE.parse)(&Rows::default(), Answer::default(), &mut many);
        assert_eq!(many.cut, ["performance_schema.data_lock_waits"]);
        let hostile = Transaction { id: "1 UNION SELECT 2".into(), ..waiting(1) };
        assert_eq!(statement(&sample(vec![hostile])), Ok(None));
    }

    #[test]
    fn knows_the_place_in_lock_ids_of_8_0_and_9_7() {
        assert_eq!(place("94856906093336:2:2:4:2:94856910296608"), "2:4:2");
        assert_eq!(place("140395285927664:1065:4:2:140395194062752"), "1065:4:2");
        assert_eq!(place("94856906092528:84:1064:94856880141600"), "1064");
        assert_eq!(place("140395285927664:1064:140395194062752"), "1064");
        assert_eq!(place("unheard of"), "unheard of");
    }
}
