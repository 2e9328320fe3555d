//! Statements without their literals, for recordings that keep digests only.
//!
//! The server's own digest text is used where a source has it. Elsewhere [`spindoctor_sql::digest`] makes the same:
//! numbers and quoted texts become `?`, lists of them `...`, comments are removed.

use std::hash::{BuildHasher as _, RandomState};

use spindoctor_model::diagnosis::Diagnosis;
use spindoctor_model::finding::Value;
use spindoctor_model::{Event, Profile, Sample, WaitGraph, printed_deadlock};
use spindoctor_sql::{digest, error_without_values, sentence_without_quotes};

/// Between an index and what a lock on one of its records names.
const RECORD: &str = " record ";
/// What stands behind the last record of an index, as InnoDB names it in place of a record's values
/// (storage/innobase/handler/p_s.cc, trx/trx0i_s.cc). It is no value of a user's, whose texts stand in quotes; and without it a lock
/// of the gap at an index's end looks like a lock of a row.
const SUPREMUM: &str = "supremum pseudo-record";
/// The text around the name of a user's lock.
const USER_LOCK: &str = "user lock '";

/// Removes the literals from everything that a recording keeps.
#[derive(Debug, Default)]
pub struct Literals {
    /// Records of tables become numbers that differ where the records do, and that nobody can turn back: the key lives as
    /// long as the process.
    key: RandomState,
}

impl Literals {
    /// Takes them out of a sample.
    pub fn take_out_of_sample(&self, sample: &mut Sample) {
        let server = &mut sample.server;
        for thread in each(&mut server.threads) {
            let known = thread.digest_text.as_deref();
            thread.statement =
                thread.statement.as_deref().map(|text| known.map_or_else(|| digest(text), Into::into));
            thread.last_statement = thread.last_statement.as_deref().map(digest);
        }
        for transaction in each(&mut server.transactions) {
            transaction.statement = transaction.statement.as_deref().map(digest);
        }
        for wait in each(&mut server.row_lock_waits) {
            wait.record = self.record(&wait.record);
        }
        for lock in each(&mut server.metadata_locks).filter(|lock| lock.object_type == "USER LEVEL LOCK") {
            lock.name = self.masked(&lock.name);
        }
        for wait in each(&mut server.user_lock_waits) {
            wait.name = self.masked(&wait.name);
        }
        for last in each(&mut server.last_statements) {
            last.statement = digest(&last.statement);
        }
        for prepared in each(&mut server.prepared_xa) {
            *prepared = Default::default();
        }
        for channel in each(&mut server.replication) {
            channel.receiver_error = error_without_values(&channel.receiver_error);
            channel.applier_error = error_without_values(&channel.applier_error);
        }
        for error in each(&mut server.applier_errors) {
            error.message = error_without_values(&error.message);
        }
        if let spindoctor_model::Reading::Available { value, .. } = &mut server.innodb_status {
            value.raw = None;
            value.unknown_lines.clear();
            for event in
                [&mut value.latest_deadlock, &mut value.latest_foreign_key_error].into_iter().flatten()
            {
                event.text = printed_deadlock::without_statements(&event.text);
            }
        }
    }

    /// Takes them out of a profile.
    pub fn take_out_of_profile(&self, profile: &mut Profile) {
        for activity in &mut profile.activities {
            let known = activity.digest_text.as_deref();
            activity.statement =
                activity.statement.as_deref().map(|text| known.map_or_else(|| digest(text), Into::into));
        }
    }

    /// Takes them out of a wait graph.
    pub fn take_out_of_graph(&self, graph: &mut WaitGraph) {
        for thread in &mut graph.threads {
            thread.statement = thread.statement.as_deref().map(digest);
        }
        for edge in &mut graph.edges {
            edge.object = self.place(&edge.object);
        }
    }

    /// Takes them out of a diagnosis.
    ///
    /// A headline may quote a statement. Its quoted texts are removed; its numbers look like any other number: so rules
    /// should be given samples and graphs that have none.
    pub fn take_out_of_diagnosis(&self, diagnosis: &mut Diagnosis) {
        for finding in &mut diagnosis.findings {
            finding.headline = sentence_without_quotes(&finding.headline);
            finding.why = sentence_without_quotes(&finding.why);
            if let Some(root) = &mut finding.root {
                root.statement = digest(&root.statement);
            }
            for evidence in &mut finding.evidence {
                if let Value::Text(text) = &mut evidence.value {
                    *text = sentence_without_quotes(&self.place(text));
                }
            }
            for remedy in &mut finding.remedies {
                if let Some(explained) = remedy.statement.strip_prefix("EXPLAIN ") {
                    remedy.statement = format!("EXPLAIN {}", digest(explained));
                }
            }
        }
    }

    /// Takes them out of an event and all that belongs to it.
    pub fn take_out_of_event(&self, event: &mut Event) {
        event.head.headline = sentence_without_quotes(&event.head.headline);
        event.diagnosis.iter_mut().for_each(|diagnosis| self.take_out_of_diagnosis(diagnosis));
        event.before.iter_mut().for_each(|profile| self.take_out_of_profile(profile));
        event.during.iter_mut().for_each(|profile| self.take_out_of_profile(profile));
        event.graphs.iter_mut().for_each(|recorded| self.take_out_of_graph(&mut recorded.graph));
    }

    /// The values of a locked record masked; where the end of the index is locked, there are none.
    fn record(&self, record: &str) -> String {
        match record {
            SUPREMUM => record.to_owned(),
            _ => self.masked(record),
        }
    }

    /// `5` as a number that stands for it as long as this process lives.
    fn masked(&self, value: &str) -> String {
        if value.is_empty() || is_masked(value) {
            return value.to_owned();
        }
        format!("#{:08x}", self.key.hash_one(value) as u32)
    }

    /// `shop.stock PRIMARY record 5` with the record masked, `user lock 'nightly'` with the name.
    fn place(&self, object: &str) -> String {
        if let Some(name) = object.strip_prefix(USER_LOCK).and_then(|rest| rest.strip_suffix('\'')) {
            return format!("{USER_LOCK}{}'", self.masked(name));
        }
        match object.split_once(RECORD) {
            Some((index, record)) => format!("{index}{RECORD}{}", self.record(record)),
            None => object.to_owned(),
        }
    }
}

/// What was masked once stays as it is.
fn is_masked(record: &str) -> bool {
    record.strip_prefix('#').is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The rows of a reading that answered.
fn each<T>(reading: &mut spindoctor_model::Reading<Vec<T>>) -> impl Iterator<Item = &mut T> {
    let rows = match reading {
        spindoctor_model::Reading::Available { value, .. } => value.as_mut_slice(),
        _ => &mut [],
    };
    rows.iter_mut()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread, UserLockWait};
    use spindoctor_model::wait_graph::WaitingThread;

    use super::*;

    #[test]
    fn a_sample_keeps_no_literal() {
        let mut sample = Sample::default();
        let threads = vec![
            ServerThread {
                statement: Some("SELECT 'secret'".into()),
                digest_text: Some("SELECT ?".into()),
                ..Default::default()
            },
            ServerThread {
                last_statement: Some("DELETE FROM t WHERE k = 'secret'".into()),
                ..Default::default()
            },
        ];
        sample.server.threads = Reading::Available { at_s: 0.0, took_ms: 1.0, value: threads };
        let wait = RowLockWait { record: "'secret', 5".into(), ..RowLockWait::default() };
        let other = RowLockWait { record: "6".into(), ..RowLockWait::default() };
        sample.server.row_lock_waits =
            Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![wait.clone(), wait, other] };
        let literals = Literals::default();
        literals.take_out_of_sample(&mut sample);
        assert!(!serde_json::to_string(&sample).unwrap().contains("secret"));
        let threads = sample.server.threads.value().unwrap();
        assert_eq!(threads[0].statement.as_deref(), Some("SELECT ?"));
        assert_eq!(threads[1].last_statement.as_deref(), Some("DELETE FROM t WHERE k = ?"));
        let waits = sample.server.row_lock_waits.value().unwrap();
        assert_eq!(waits[0].record, waits[1].record, "one record is still one");
        assert_ne!(waits[0].record, waits[2].record, "two records are still two");
        let once = sample.clone();
        literals.take_out_of_sample(&mut sample);
        assert_eq!(sample, once);
    }

    #[test]
    fn the_end_of_an_index_is_no_value_and_stays_what_it_is() {
        let literals = Literals::default();
        let shown = |record: &str| {
            let wait = RowLockWait { record: record.into(), ..RowLockWait::default() };
            let mut sample = Sample::default();
            sample.server.row_lock_waits = Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![wait] };
            literals.take_out_of_sample(&mut sample);
            sample.server.row_lock_waits.value().unwrap()[0].record.clone()
        };
        assert_eq!(shown(SUPREMUM), SUPREMUM);
        let place = "shop.orders PRIMARY record supremum pseudo-record";
        assert_eq!(literals.place(place), place);
        // A row may have such a text, in quotes or as a part of more; and a user may call a lock so.
        for value in
            ["'supremum pseudo-record'", "supremum", "supremum pseudo-record, 5", "Supremum pseudo-record"]
        {
            assert!(is_masked(&shown(value)), "{value}");
        }
        assert_ne!(
            literals.place("user lock 'supremum pseudo-record'"),
            "user lock 'supremum pseudo-record'"
        );
    }

    #[test]
    fn a_literal_goes_whichever_way_the_session_reads_a_backslash_and_a_comment() {
        let literals = Literals::default();
        for (statement, expected) in [
            (r"SELECT c FROM t WHERE a = 'C:\' AND b = 'secret'", "SELECT c FROM t WHERE a = ?"),
            ("SELECT /* it's */ c FROM t WHERE b = 'secret'", "SELECT c FROM t WHERE b = ?"),
            ("SELECT c FROM t -- it's\n WHERE b = 'secret'", "SELECT c FROM t WHERE b = ?"),
        ] {
            let mut graph = WaitGraph {
                threads: vec![WaitingThread {
                    statement: Some(statement.into()),
                    ..WaitingThread::default()
                }],
                ..WaitGraph::default()
            };
            literals.take_out_of_graph(&mut graph);
            assert_eq!(graph.threads[0].statement.as_deref(), Some(expected));
        }
    }

    #[test]
    fn the_name_of_a_users_lock_is_a_literal_too_and_is_the_same_wherever_it_stands() {
        let literals = Literals::default();
        let lock = MetadataLock {
            object_type: "USER LEVEL LOCK".into(),
            name: "customer:4711".into(),
            ..MetadataLock::default()
        };
        let table = MetadataLock { object_type: "TABLE".into(), name: "t".into(), ..MetadataLock::default() };
        let mut sample = Sample::default();
        sample.server.metadata_locks =
            Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![lock, table] };
        let wait = UserLockWait { name: "customer:4711".into(), ..UserLockWait::default() };
        sample.server.user_lock_waits = Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![wait] };
        literals.take_out_of_sample(&mut sample);
        let locks = sample.server.metadata_locks.value().unwrap();
        assert!(is_masked(&locks[0].name), "{locks:?}");
        assert_eq!(sample.server.user_lock_waits.value().unwrap()[0].name, locks[0].name);
        assert_eq!(locks[1].name, "t");
        let place = literals.place("user lock 'customer:4711'");
        assert_eq!(place, format!("user lock '{}'", locks[0].name));
        assert_eq!(literals.place(&place), place);
    }
}
