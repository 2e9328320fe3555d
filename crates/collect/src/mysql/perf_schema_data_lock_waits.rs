//! `performance_schema.data_lock_waits`: who waits for whose row lock, on MySQL 8.0 and later.

use std::collections::HashMap;

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::RowLockWait;

use super::rows::{Row, Rows};
use super::source::{Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::source::Cadence;

/// Pairs of waiter and holder read at most.
const LIMIT: usize = 1000;

/// `w`: the pairs, holders first. Of n transactions that queue for one row the table has n(n+1)/2
/// pairs, most of them of two waiters: a lock that is itself waited for stands last.
///
/// `l`: one waiter for each place waited for (space, page and record are the last parts of a lock's
/// id before its address), 20 at most. `d`: what its lock is, from data_locks. data_locks is asked
/// by the waiter's transaction only: InnoDB then passes over the locks of all others. Asked by lock
/// id or whole, it walks every lock of every transaction (0.6 s for 500,000 on MySQL 9.7.4, against
/// 2 ms so). STRAIGHT_JOIN and FORCE INDEX see to it.
const SQL: &str = "WITH w AS \
    (SELECT REQUESTING_ENGINE_LOCK_ID AS lock_id, REQUESTING_ENGINE_TRANSACTION_ID AS waiting, \
      REQUESTING_THREAD_ID AS waiting_thread, BLOCKING_ENGINE_TRANSACTION_ID AS blocking, \
      BLOCKING_THREAD_ID AS blocking_thread FROM performance_schema.data_lock_waits \
      ORDER BY BLOCKING_ENGINE_LOCK_ID IN \
      (SELECT REQUESTING_ENGINE_LOCK_ID FROM performance_schema.data_lock_waits) LIMIT 1000), \
    l AS (SELECT lock_id, waiting FROM (SELECT lock_id, waiting, ROW_NUMBER() OVER \
      (PARTITION BY SUBSTRING_INDEX(SUBSTRING_INDEX(lock_id, ':', -4), ':', 3)) AS nth FROM w) AS numbered \
      WHERE nth = 1 LIMIT 20), \
    d AS (SELECT l.lock_id, r.OBJECT_SCHEMA, r.OBJECT_NAME, r.INDEX_NAME, r.LOCK_MODE, \
      LEFT(r.LOCK_DATA, 256) AS LOCK_DATA FROM l STRAIGHT_JOIN performance_schema.data_locks AS r \
      FORCE INDEX (ENGINE_TRANSACTION_ID) ON r.ENGINE_TRANSACTION_ID = l.waiting AND r.ENGINE_LOCK_ID = l.lock_id) \
    SELECT w.*, d.OBJECT_SCHEMA, d.OBJECT_NAME, d.INDEX_NAME, d.LOCK_MODE, d.LOCK_DATA \
    FROM w LEFT JOIN d ON d.lock_id = w.lock_id";

/// The source.
///
/// Cost: where nobody waits, a walk over the open transactions under InnoDB's lock latches (0.3 ms).
/// With n waiters for one row n(n+1)/2 pairs are made: 11 ms at 100 waiters, 210 ms at 400
/// (measured on MySQL 9.7.4); the collector asks a slow source less often.
pub const SOURCE: Source = Source {
    name: "performance_schema.data_lock_waits",
    help: "who waits for whose row lock (MySQL 8.0 and later)",
    cost: "0.3 ms where nobody waits, 11 ms with 100 waiters for one row",
    grant: performance_schema_grant,
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

/// Connections and times waited come from the transactions and threads of the same sample.
fn row_lock_waits(rows: &Rows, sample: &ServerSample) -> Vec<RowLockWait> {
    let transactions: HashMap<&str, _> =
        sample.transactions.value().into_iter().flatten().map(|t| (t.id.as_str(), t)).collect();
    let connections: HashMap<u64, _> = sample
        .threads
        .value()
        .into_iter()
        .flatten()
        .filter_map(|t| Some((t.internal_id?, t.connection_id?)))
        .collect();
    let places: HashMap<&str, Row<'_>> = rows
        .iter()
        .filter(|row| row.text("OBJECT_NAME").is_some())
        .filter_map(|row| Some((place(row.text("lock_id")?), row)))
        .collect();
    let connection = |transaction: &str, thread: Option<u64>| {
        thread
            .and_then(|id| connections.get(&id).copied())
            .or_else(|| transactions.get(transaction)?.connection_id)
    };
    rows.iter()
        .map(|row| {
            let (waiting, blocking) = (row.string("waiting"), row.string("blocking"));
            let lock = row.text("lock_id").and_then(|id| places.get(place(id)));
            let object = |column| lock.map(|lock| lock.string(column)).unwrap_or_default();
            let (schema, table) = (object("OBJECT_SCHEMA"), object("OBJECT_NAME"));
            RowLockWait {
                waiting_connection_id: connection(&waiting, row.number("waiting_thread")),
                blocking_connection_id: connection(&blocking, row.number("blocking_thread")),
                table: if table.is_empty() { String::new() } else { format!("{schema}.{table}") },
                index: object("INDEX_NAME"),
                record: object("LOCK_DATA"),
                mode: row.string("LOCK_MODE"),
                waited_s: transactions.get(waiting.as_str()).and_then(|t| t.waited_s).unwrap_or(0.0),
                waiting_transaction: waiting,
                blocking_transaction: blocking,
            }
        })
        .collect()
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
    fn every_waiter_for_one_row_is_told_its_table_from_the_one_that_was_looked_up() {
        let thread = |internal_id, connection_id| ServerThread {
            internal_id: Some(internal_id),
            connection_id: Some(connection_id),
            ..ServerThread::default()
        };
        let mut sample = ServerSample {
            threads: Answer::default().reading(vec![thread(42, 8), thread(43, 9)]),
            transactions: Answer::default().reading(vec![Transaction {
                id: "1579".into(),
                connection_id: Some(14),
                waited_s: Some(2.0),
                ..Transaction::default()
            }]),
            ..ServerSample::default()
        };
        // From MySQL 9.7.4: two UPDATEs wait for one row.
        let rows = fixture::tabbed(
            "lock_id\twaiting\twaiting_thread\tblocking\tblocking_thread\tOBJECT_SCHEMA\tOBJECT_NAME\tINDEX_NAME\tLOCK_MODE\tLOCK_DATA\n\
             94856906093336:2:2:4:2:94856910296608\t1578\t43\t1577\t42\tt\ta\tPRIMARY\tX,REC_NOT_GAP\t1\n\
             94856906094144:2:2:4:2:94856910299424\t1579\t48\t1577\t42\tNULL\tNULL\tNULL\tNULL\tNULL\n",
        );
        (SOURCE.parse)(&rows, Answer::default(), &mut sample);
        let waits = sample.row_lock_waits.value().unwrap();
        assert_eq!((waits[0].waiting_connection_id, waits[0].blocking_connection_id), (Some(9), Some(8)));
        assert_eq!((waits[1].waiting_connection_id, waits[1].waited_s), (Some(14), 2.0));
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
