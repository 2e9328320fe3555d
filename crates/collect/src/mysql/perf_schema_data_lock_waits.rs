//! `performance_schema.data_lock_waits`: who waits for whose row lock, on MySQL 8.0 and later.

use std::collections::HashMap;

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::RowLockWait;

use super::rows::{Row, Rows};
use super::source::{Plan, Source, note_if_cut, performance_schema_off, process_grant};
use crate::source::Cadence;

/// Pairs of a place and a holder read at most.
const LIMIT: usize = 1000;

/// Holders of one place that are named for each of its waiters.
const HOLDERS: usize = 10;

/// Of n transactions that queue for one row the table has n(n+1)/2 pairs, most of them of two waiters. So it is not
/// read whole: who waits stands in INNODB_TRX, and of each place one waiter is looked up, the one that has waited longest.
///
/// `t`: the waiters, with the place that each waits for (space, page and record are the last parts of a lock's id
/// before its address; of a table lock the table's id). `f`: one waiter for each place, 50 at most, the most wanted
/// first. `w`: who is in its way; one that waits itself stands last. `d`: what its lock is, from data_locks. Both
/// tables are asked by the waiter's transaction only: InnoDB then passes over the locks of all others. Asked by lock
/// id or whole, data_locks walks every lock of every transaction (0.6 s for 500,000 on MySQL 9.7.4, against 2 ms so).
/// STRAIGHT_JOIN and FORCE INDEX see to it.
const SQL: &str = "WITH t AS \
    (SELECT CAST(trx_id AS UNSIGNED) AS id, trx_requested_lock_id AS lock_id, trx_wait_started AS since, \
      IF(LENGTH(trx_requested_lock_id) - LENGTH(REPLACE(trx_requested_lock_id, ':', '')) > 3, \
       SUBSTRING_INDEX(SUBSTRING_INDEX(trx_requested_lock_id, ':', -4), ':', 3), \
       SUBSTRING_INDEX(SUBSTRING_INDEX(trx_requested_lock_id, ':', -2), ':', 1)) AS place \
      FROM information_schema.INNODB_TRX WHERE trx_requested_lock_id IS NOT NULL), \
    f AS (SELECT id, lock_id FROM (SELECT id, lock_id, \
      ROW_NUMBER() OVER (PARTITION BY place ORDER BY since, id) AS nth, COUNT(*) OVER (PARTITION BY place) AS n \
      FROM t) AS numbered WHERE nth = 1 ORDER BY n DESC LIMIT 50), \
    w AS (SELECT f.lock_id, p.BLOCKING_ENGINE_TRANSACTION_ID AS blocking, p.BLOCKING_THREAD_ID AS blocking_thread, \
      p.BLOCKING_ENGINE_LOCK_ID IN (SELECT lock_id FROM t) AS waits \
      FROM f STRAIGHT_JOIN performance_schema.data_lock_waits AS p FORCE INDEX (REQUESTING_ENGINE_TRANSACTION_ID) \
      ON p.REQUESTING_ENGINE_TRANSACTION_ID = f.id AND p.REQUESTING_ENGINE_LOCK_ID = f.lock_id \
      ORDER BY waits LIMIT 1000), \
    d AS (SELECT f.lock_id, r.OBJECT_SCHEMA, r.OBJECT_NAME, r.INDEX_NAME, r.LOCK_MODE, \
      LEFT(r.LOCK_DATA, 256) AS LOCK_DATA FROM f STRAIGHT_JOIN performance_schema.data_locks AS r \
      FORCE INDEX (ENGINE_TRANSACTION_ID) ON r.ENGINE_TRANSACTION_ID = f.id AND r.ENGINE_LOCK_ID = f.lock_id) \
    SELECT w.*, d.OBJECT_SCHEMA, d.OBJECT_NAME, d.INDEX_NAME, d.LOCK_MODE, d.LOCK_DATA \
    FROM w LEFT JOIN d ON d.lock_id = w.lock_id";

/// The source.
///
/// Cost: where nobody waits, a walk over the open transactions under InnoDB's lock latches (0.3 ms).
/// With n waiters for one row one of them is looked up: at most n pairs are made.
pub const SOURCE: Source = Source {
    name: "performance_schema.data_lock_waits",
    help: "who waits for whose row lock (MySQL 8.0 and later)",
    cost: "0.3 ms where nobody waits, COST_MEASURED with 500 waiters for one row",
    // With INNODB_TRX in it; what is missing of performance_schema, the source of the threads says.
    grant: process_grant,
    install: "",
    cadence: Cadence::EverySample,
    plan: |version, variables| {
        if !version.mysql_at_least(8, 0, 1) {
            return Plan::Elsewhere;
        }
        match performance_schema_off(version, variables) {
            Some(why) => Plan::Cannot(why),
            None => Plan::Ask(SQL),
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.data_lock_waits", rows, LIMIT, sample);
        sample.row_lock_waits = answer.reading(row_lock_waits(rows, sample));
    },
    fail: |why, sample| sample.row_lock_waits.fail(why),
    answered: |sample| sample.row_lock_waits.value().is_some(),
};

/// What is known of a place: what it is, from the row that was looked up, and who holds it.
#[derive(Default)]
struct Place<'r> {
    lock: Option<Row<'r>>,
    holders: Vec<(String, Option<u64>)>,
}

/// Every transaction that waits for a place waits for its holders; connections and times waited come from the
/// transactions and threads of the same sample.
fn row_lock_waits(rows: &Rows, sample: &ServerSample) -> Vec<RowLockWait> {
    let transactions = sample.transactions.value().map(Vec::as_slice).unwrap_or_default();
    let connections: HashMap<&str, u64> =
        transactions.iter().filter_map(|t| Some((t.id.as_str(), t.connection_id?))).collect();
    let threads: HashMap<u64, u64> = sample
        .threads
        .value()
        .into_iter()
        .flatten()
        .filter_map(|t| Some((t.internal_id?, t.connection_id?)))
        .collect();
    let mut places: HashMap<&str, Place<'_>> = HashMap::new();
    for row in rows.iter() {
        let Some(lock_id) = row.text("lock_id") else { continue };
        let place = places.entry(place(lock_id)).or_default();
        place.lock = place.lock.or((row.text("OBJECT_NAME").is_some()).then_some(row));
        let (blocking, thread) = (row.string("blocking"), row.number::<u64>("blocking_thread"));
        let connection = thread
            .and_then(|id| threads.get(&id).copied())
            .or_else(|| connections.get(blocking.as_str()).copied());
        // Who waits for the same place is in its way only where nobody else is.
        let waits = row.text("waits") == Some("1");
        if place.holders.len() < HOLDERS && (!waits || place.holders.is_empty()) {
            place.holders.push((blocking, connection));
        }
    }
    let mut waits = Vec::new();
    for waiter in transactions {
        let Some(requested) = waiter.requested_lock.as_deref() else { continue };
        let Some(place) = places.get(place(requested)) else { continue };
        let object = |column| place.lock.map(|lock| lock.string(column)).unwrap_or_default();
        let (schema, table) = (object("OBJECT_SCHEMA"), object("OBJECT_NAME"));
        let is_looked_up = place.lock.is_some_and(|lock| lock.text("lock_id") == Some(requested));
        for (blocking, connection) in place.holders.iter().filter(|(blocking, _)| *blocking != waiter.id) {
            waits.push(RowLockWait {
                waiting_connection_id: waiter.connection_id,
                blocking_connection_id: *connection,
                table: if table.is_empty() { String::new() } else { format!("{schema}.{table}") },
                index: object("INDEX_NAME"),
                record: object("LOCK_DATA"),
                mode: if is_looked_up { object("LOCK_MODE") } else { String::new() },
                waited_s: waiter.waited_s.unwrap_or(0.0),
                waiting_transaction: waiter.id.clone(),
                blocking_transaction: blocking.clone(),
            });
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
        // From MySQL 9.7.4: two UPDATEs wait for one row.
        let rows = fixture::tabbed(
            "lock_id\tblocking\tblocking_thread\twaits\tOBJECT_SCHEMA\tOBJECT_NAME\tINDEX_NAME\tLOCK_MODE\tLOCK_DATA\n\
             94856906093336:2:2:4:2:94856910296608\t1577\t42\t0\tt\ta\tPRIMARY\tX,REC_NOT_GAP\t1\n\
             94856906093336:2:2:4:2:94856910296608\t1579\t48\t1\tt\ta\tPRIMARY\tX,REC_NOT_GAP\t1\n",
        );
        (SOURCE.parse)(&rows, Answer::default(), &mut sample);
        let waits = sample.row_lock_waits.value().unwrap();
        let told: Vec<_> =
            waits.iter().map(|wait| (wait.waiting_connection_id, wait.blocking_connection_id)).collect();
        assert_eq!(told, [(Some(9), Some(8)), (Some(14), Some(8))]);
        assert_eq!(
            (waits[0].mode.as_str(), waits[1].mode.as_str(), waits[1].waited_s),
            ("X,REC_NOT_GAP", "", 2.0)
        );
        assert_eq!(
            (waits[1].table.as_str(), waits[1].index.as_str(), waits[1].record.as_str()),
            ("t.a", "PRIMARY", "1")
        );
        assert!(sample.cut.is_empty());
        assert!(SQL.contains(&format!("LIMIT {LIMIT})")));
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
