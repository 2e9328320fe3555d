//! What MariaDB lists of its thread pool: its groups, what waits in their queues, and what its counters say, in sentences. The pool has
//! no cause of a captured list: the counters are those since the server's start, and a list of groups has no limits.

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::number;

/// Reasons for waiting that are named.
const NAMED: usize = 4;

/// Which of the lists it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadPoolTable {
    /// `THREAD_POOL_GROUPS`
    Groups,
    /// `THREAD_POOL_QUEUES`
    Queues,
    /// `THREAD_POOL_STATS`
    Stats,
    /// `THREAD_POOL_WAITS`
    Waits,
}

/// Which list has these columns, in lower case.
pub(crate) fn table(columns: &[String]) -> Option<ThreadPoolTable> {
    let has = |wanted: &[&str]| wanted.iter().all(|name| columns.iter().any(|column| column == name));
    match () {
        () if has(&["group_id", "queue_length"]) => Some(ThreadPoolTable::Groups),
        () if has(&["group_id", "queueing_time_microseconds"]) => Some(ThreadPoolTable::Queues),
        () if has(&["group_id", "throttles", "stalls"]) => Some(ThreadPoolTable::Stats),
        () if has(&["reason", "count"]) && columns.len() == 2 => Some(ThreadPoolTable::Waits),
        () => None,
    }
}

/// What a list says; None where it has none of the values.
pub(crate) fn sentence(table: ThreadPoolTable, rows: &Rows) -> Option<String> {
    let of = |row: Row<'_>, column: &str| row.number::<f64>(column).map(|value| value.max(0.0));
    let sum = |column: &str| -> f64 { rows.iter().filter_map(|row| of(row, column)).sum() };
    let whole = number::whole;
    Some(match table {
        ThreadPoolTable::Groups => {
            let groups = number::counted(rows.len() as u64, "group", "groups");
            let stalled = rows.iter().filter(|row| of(*row, "is_stalled").is_some_and(|is| is > 0.0)).count();
            format!(
                "{groups} with {} connections: {} of {} threads at work, {} requests in their queues, {stalled} stalled",
                whole(sum("connections")),
                whole(sum("active_threads")),
                whole(sum("threads")),
                whole(sum("queue_length"))
            )
        }
        ThreadPoolTable::Queues => {
            let queued = number::counted(rows.len() as u64, "request waits", "requests wait");
            let longest_us =
                rows.iter().filter_map(|row| of(row, "queueing_time_microseconds")).fold(0.0, f64::max);
            format!("{queued} for a thread of the pool, for {} at most", number::duration(longest_us / 1e6))
        }
        ThreadPoolTable::Stats => format!(
            "since the server's start: {} stalls of a group, {} threads made for them, {} times a thread was wanted too soon after \
             another (throttles)",
            whole(sum("stalls")),
            whole(sum("thread_creations_due_to_stall")),
            whole(sum("throttles"))
        ),
        ThreadPoolTable::Waits => {
            let mut reasons: Vec<(String, f64)> =
                rows.iter().map(|row| (row.string("reason"), of(row, "count").unwrap_or(0.0))).collect();
            reasons.retain(|(_, count)| *count > 0.0);
            reasons.sort_by(|one, other| other.1.total_cmp(&one.1));
            let named =
                reasons.iter().take(NAMED).map(|(reason, count)| format!("{reason} {}", whole(*count)));
            let named: Vec<String> = named.collect();
            match named.is_empty() {
                true => "no thread of the pool waited".to_owned(),
                false => {
                    format!("waits of the pool's threads since the server's start: {}", named.join(", "))
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    fn says(text: &str) -> String {
        let rows = &tables(text)[0];
        let columns: Vec<String> = rows.names().iter().map(|name| name.to_ascii_lowercase()).collect();
        sentence(table(&columns).unwrap(), rows).unwrap()
    }

    #[test]
    fn each_list_of_the_pool_is_a_sentence() {
        assert_eq!(
            says(
                "| GROUP_ID | CONNECTIONS | THREADS | ACTIVE_THREADS | STANDBY_THREADS | QUEUE_LENGTH | HAS_LISTENER | IS_STALLED |\n\
                 | 0 | 52 | 34 | 32 | 0 | 19 | 1 | 1 |\n| 1 | 50 | 34 | 30 | 0 | 17 | 1 | 0 |\n"
            ),
            "2 groups with 102 connections: 62 of 68 threads at work, 36 requests in their queues, 1 stalled"
        );
        assert_eq!(
            says(
                "GROUP_ID\tPOSITION\tPRIORITY\tCONNECTION_ID\tQUEUEING_TIME_MICROSECONDS\n0\t0\t1\t7\t2500000\n0\t1\t1\t8\t900\n"
            ),
            "2 requests wait for a thread of the pool, for 2.5 s at most"
        );
        assert!(
            says(
                "GROUP_ID\tTHREAD_CREATIONS\tTHREAD_CREATIONS_DUE_TO_STALL\tWAKES\tTHROTTLES\tSTALLS\n0\t120\t90\t12\t81\t912\n1\t1\t1\t1\t1\t1\n"
            )
            .starts_with("since the server's start: 913 stalls of a group, 91 threads made for them, 82 times")
        );
        assert_eq!(
            says("REASON\tCOUNT\nUNKNOWN\t0\nROW_LOCK\t8123\nMETA_DATA_LOCK\t12\n"),
            "waits of the pool's threads since the server's start: ROW_LOCK 8123, META_DATA_LOCK 12"
        );
    }
}
