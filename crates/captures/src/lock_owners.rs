//! Owners of metadata locks, whom a list of locks names by performance_schema's numbers of their threads, beside the lists that have
//! their connections: `performance_schema.threads`, of some threads or of all.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread};
use spindoctor_model::{Reading, ServerSample};

use crate::locks::BY_THREAD;
use crate::part::{Kind, Moment, Part, Said};

/// Gives sessions and locks the connections that stand for their numbers, and a list of sessions the owners of locks that it has not:
/// who looked for one thread listed that one alone.
pub(crate) fn join(parts: &[&Part], ids: &BTreeMap<u64, u64>, server: &mut ServerSample) {
    let Reading::Available { value: threads, .. } = &mut server.threads else { return };
    let connections: BTreeMap<u64, u64> =
        ids.iter().map(|(&connection, &internal)| (internal, connection)).collect();
    let connection_of = |thread: &ServerThread| connections.get(&thread.internal_id?).copied();
    for thread in threads.iter_mut().filter(|thread| thread.connection_id.is_none()) {
        thread.connection_id = connection_of(thread);
    }
    // Without their numbers it is not known which session is which owner.
    let sessions = || threads.iter().filter(|thread| thread.is_connection);
    if sessions().any(|thread| thread.internal_id.is_some())
        && sessions().all(|thread| thread.internal_id.is_some())
    {
        for owner in owners(parts) {
            let is_owner = |thread: &&ServerThread| {
                thread.internal_id == owner.internal_id
                    || owner.connection_id.is_some() && thread.connection_id == owner.connection_id
            };
            if owner.internal_id.is_some() && !threads.iter().any(|thread| is_owner(&thread)) {
                threads.push(owner.clone());
            }
        }
    }
    if let Reading::Available { value: locks, .. } = &mut server.metadata_locks {
        let known: BTreeMap<u64, u64> =
            threads.iter().filter_map(|thread| Some((thread.internal_id?, thread.connection_id?))).collect();
        for lock in locks.iter_mut().filter(|lock| lock.owner_connection_id.is_none()) {
            lock.owner_connection_id = connection_of_owner(lock, &known);
        }
    }
}

/// Gives those who wait for rows, or have them, the connections of the threads by which a list names them.
pub(crate) fn name_threads(ids: &BTreeMap<u64, u64>, server: &mut ServerSample) {
    let of_sessions = server.threads.value().into_iter().flatten();
    let of_sessions = of_sessions.filter_map(|thread| Some((thread.internal_id?, thread.connection_id?)));
    let of_lists = ids.iter().map(|(&connection, &internal)| (internal, connection));
    let known: BTreeMap<u64, u64> = of_lists.chain(of_sessions).collect();
    let of = |name: &str| known.get(&name.strip_prefix(BY_THREAD)?.parse::<u64>().ok()?).copied();
    if let Reading::Available { value: waits, .. } = &mut server.row_lock_waits {
        for wait in waits {
            wait.waiting_connection_id = wait.waiting_connection_id.or_else(|| of(&wait.waiting_transaction));
            wait.blocking_connection_id =
                wait.blocking_connection_id.or_else(|| of(&wait.blocking_transaction));
        }
    }
    if let Reading::Available { value: transactions, .. } = &mut server.transactions {
        for transaction in transactions {
            transaction.connection_id = transaction.connection_id.or_else(|| of(&transaction.id));
        }
    }
}

fn connection_of_owner(lock: &MetadataLock, known: &BTreeMap<u64, u64>) -> Option<u64> {
    known.get(&lock.owner_internal_id?).copied()
}

/// The sessions that the last of the lists of metadata locks names.
fn owners<'p>(parts: &[&'p Part]) -> &'p [ServerThread] {
    let of_locks = parts.iter().filter(|part| part.kind == Kind::MetadataLocks);
    let said = of_locks.filter_map(|part| part.moments.last()).flat_map(|moment| &moment.said);
    let mut lists = said
        .filter_map(|said| if let Said::SomeThreads(owners) = said { Some(owners.as_slice()) } else { None });
    lists.next_back().unwrap_or_default()
}

/// Takes out lists that say of the same moment less than the one beside it: `data_lock_waits`, which names who waits for whom, beside
/// `data_locks`, which names the table and the record, too.
pub(crate) fn without_the_same_waits(readings: &mut Vec<(Option<f64>, &Said)>) {
    let waits = |said: &Said| match said {
        Said::LockWaits(waits) => waits.clone(),
        _ => Vec::new(),
    };
    let pairs = |said: &Said| -> BTreeSet<(String, String)> {
        let of_wait = |wait: RowLockWait| (wait.waiting_transaction, wait.blocking_transaction);
        waits(said).into_iter().map(of_wait).collect()
    };
    let has_tables = |said: &Said| waits(said).iter().any(|wait| !wait.table.is_empty());
    let detailed: Vec<_> = readings
        .iter()
        .filter(|(_, said)| has_tables(said))
        .map(|(at_s, said)| (*at_s, pairs(said)))
        .collect();
    readings.retain(|(at_s, said)| has_tables(said) || !detailed.contains(&(*at_s, pairs(said))));
}

/// Of two lists of locks without times the one in which nobody waits, beside one that names who waits for whom: it was cut, or somebody
/// looked at the locks of one transaction. It is no other moment.
pub(crate) fn without_waits<'p>(parts: &[&'p Part]) -> Option<&'p Moment> {
    fn waits(moment: &Moment) -> usize {
        let lists = moment.said.iter().filter_map(|said| match said {
            Said::LockWaits(waits) => Some(waits.len()),
            _ => None,
        });
        lists.sum()
    }
    let of_locks = parts.iter().copied().filter(|part| part.kind == Kind::LockWaits && part.time.is_none());
    let moments = of_locks.flat_map(|part| &part.moments).filter(|moment| moment.time.is_none());
    let moments: Vec<&Moment> = moments.take(3).collect();
    let [one, other] = moments[..] else { return None };
    match (waits(one), waits(other)) {
        (0, 1..) => Some(one),
        (1.., 0) => Some(other),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, window};

    const LOCKS: &str = "| OBJECT_TYPE | OBJECT_SCHEMA | OBJECT_NAME | LOCK_TYPE | LOCK_STATUS | OWNER_THREAD_ID |\n\
                         | TABLE | shop | stock | EXCLUSIVE | PENDING | 91 |\n\
                         | TABLE | shop | stock | SHARED_READ | GRANTED | 90 |\n\n";

    /// Its connection, its number, its command.
    type Session = (Option<u64>, Option<u64>, String);

    /// The sessions and the locks of a text's window: connection, number, command; owner's connection.
    fn sessions_and_owners(text: &str) -> (Vec<Session>, Vec<Option<u64>>) {
        let parts = recognise("x", text);
        let window = window(&parts);
        let server = &window.samples.last().unwrap().server;
        let threads = server.threads.value().unwrap().iter();
        let locks = server.metadata_locks.value().unwrap().iter();
        (
            threads
                .map(|thread| (thread.connection_id, thread.internal_id, thread.command.clone()))
                .collect(),
            locks.map(|lock| lock.owner_connection_id).collect(),
        )
    }

    #[test]
    fn a_list_of_the_holder_alone_gives_it_its_connection_and_the_others_stay() {
        let threads = "| THREAD_ID | PROCESSLIST_ID | PROCESSLIST_USER | PROCESSLIST_COMMAND | PROCESSLIST_TIME | PROCESSLIST_INFO |\n\
                       | 90 | 12 | app | Sleep | 318 | NULL |\n";
        for text in [format!("{LOCKS}{threads}"), format!("{threads}\n{LOCKS}")] {
            let (sessions, owners) = sessions_and_owners(&text);
            let wanted = [(Some(12), Some(90), "Sleep".to_owned()), (None, Some(91), "Query".to_owned())];
            assert_eq!(sessions, wanted, "{text}");
            assert_eq!(owners, [None, Some(12)]);
        }
    }

    #[test]
    fn a_list_of_numbers_gives_all_their_connections() {
        let (sessions, owners) = sessions_and_owners(&format!(
            "{LOCKS}| THREAD_ID | PROCESSLIST_ID |\n| 90 | 12 |\n| 91 | 13 |\n"
        ));
        assert_eq!(
            sessions.iter().map(|(connection, ..)| *connection).collect::<Vec<_>>(),
            [Some(12), Some(13)]
        );
        assert_eq!(owners, [Some(13), Some(12)]);
    }

    #[test]
    fn two_lists_of_the_same_waits_are_one_moment() {
        let locks = "| ENGINE_TRANSACTION_ID | THREAD_ID | OBJECT_SCHEMA | OBJECT_NAME | LOCK_TYPE | LOCK_STATUS | LOCK_DATA |\n\
                     | 71 | 91 | shop | stock | RECORD | WAITING | 5 |\n| 70 | 90 | shop | stock | RECORD | GRANTED | 5 |\n";
        let waits = |holder: u64| {
            format!(
                "| REQUESTING_ENGINE_TRANSACTION_ID | BLOCKING_ENGINE_TRANSACTION_ID |\n| 71 | {holder} |\n"
            )
        };
        let samples = |text: &str| window(&recognise("x", text)).samples.len();
        assert_eq!(samples(&format!("{locks}\n{}", waits(70))), 1);
        assert_eq!(samples(&format!("{}\n{locks}", waits(70))), 1);
        assert_eq!(samples(&format!("{locks}\n{}", waits(72))), 2, "another moment");
    }

    #[test]
    fn a_list_of_locks_that_was_cut_is_no_other_moment() {
        let waits = "| waiting_trx_id | waiting_pid | waiting_query | blocking_trx_id | blocking_pid | blocking_query |\n\
                     | 71 | 9 | INSERT INTO stock VALUES (1) | 70 | 8 | NULL |\n";
        let locks = |state: &str| {
            format!(
                "| ENGINE_TRANSACTION_ID | THREAD_ID | OBJECT_SCHEMA | OBJECT_NAME | LOCK_TYPE | LOCK_STATUS | LOCK_DATA |\n\
                 | 71 | 91 | shop | stock | TABLE | {state} | NULL |\n"
            )
        };
        for text in [format!("{waits}\n{}", locks("GRANTED")), format!("{}\n{waits}", locks("GRANTED"))] {
            let window = window(&recognise("x", &text));
            assert_eq!(window.samples.len(), 1, "{text}");
            let listed = window.samples[0].server.row_lock_waits.value().unwrap();
            assert_eq!(listed[0].blocking_connection_id, Some(8), "{text}");
        }
    }

    #[test]
    fn beside_a_list_without_numbers_no_session_is_added() {
        let list = "| Id | User | Command | Time | State | Info |\n| 13 | app | Query | 9 | Waiting for table metadata lock | ALTER TABLE stock ADD a INT |\n";
        let (sessions, owners) = sessions_and_owners(&format!("{LOCKS}{list}"));
        assert_eq!(sessions, [(Some(13), None, "Query".to_owned())]);
        assert_eq!(owners, [None, None]);
    }
}
