//! What an instrument of performance_schema that has much of the time or of the memory measures, and what helps. No cause rests on it: a
//! mean since the server's start says nothing of now.

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::number;

use crate::amounts::{amount, bytes};

/// From this part of all that is listed on, what an instrument measures is worth a sentence. By judgement.
const SHARE: f64 = 0.1;
/// Sentences of one list.
const MOST: usize = 3;

/// What one call for a file of a log takes on average where its disk is slow, seconds: most calls only write to the page cache, in
/// microseconds, and a sync of an SSD takes less than 1 ms. By judgement.
const SLOW_LOG_S: f64 = 0.005;
/// And for a data file: a disk that turns takes as long to read a page. By judgement.
const SLOW_DATA_S: f64 = 0.02;
/// Calls of which a mean is a mean.
const CALLS: f64 = 100.0;

/// Files by how the names of their instruments end, what each is, and from which mean on its disk is slow.
const FILES: [(&str, &str, f64); 6] = [
    ("innodb/innodb_log_file", "the redo log", SLOW_LOG_S),
    ("sql/binlog", "the binary log", SLOW_LOG_S),
    ("sql/relaylog", "the relay log", SLOW_LOG_S),
    ("aria/translog", "Aria's log", SLOW_LOG_S),
    ("innodb/innodb_dblwr_file", "the doublewrite buffer", SLOW_DATA_S),
    ("innodb/innodb_data_file", "data files", SLOW_DATA_S),
];

/// Instruments of waits by a part of their names, what waits there, and what helps.
const WAITS: [(&str, &str); 12] = [
    (
        "trx_rseg_latch",
        "transactions that change rows wait for the latch of a rollback segment, which purge takes, too: more undo tablespaces spread them \
         (innodb_undo_tablespaces; `spindoctor explain rollback-segment-contention`)",
    ),
    (
        "lock_table_cache",
        "sessions wait for the mutex of the table cache: a larger table_open_cache and more table_open_cache_instances (`spindoctor explain \
         table-cache-contention`)",
    ),
    (
        "lock_open",
        "sessions wait for the mutex under which tables are opened: a larger table_open_cache (`spindoctor explain table-cache-contention`)",
    ),
    (
        "mdl_lock::rwlock",
        "all sessions take the metadata lock of the same few tables, and its latch with it: fewer statements on them at a time, or several \
         tables in place of one",
    ),
    (
        "mdl_context::cond",
        "sessions wait for a metadata lock, as of a DDL (`spindoctor explain metadata-lock-pileup`)",
    ),
    (
        "innodb/lock_mutex",
        "sessions wait for the latch of the lock system: many row locks, or a queue at one row (`spindoctor explain row-lock-pileup`)",
    ),
    (
        "innodb/lock_latch",
        "sessions wait for the latch of the lock system: many row locks, or a queue at one row (`spindoctor explain row-lock-pileup`)",
    ),
    (
        "trx_sys_mutex",
        "transactions wait for the latch of the list of transactions (`spindoctor explain transaction-system-contention`)",
    ),
    (
        "btr_search",
        "sessions wait for the latch of the adaptive hash index (`spindoctor explain adaptive-hash-contention`)",
    ),
    ("index_tree", "sessions wait for the lock of an index (`spindoctor explain index-lock`)"),
    (
        "buf_pool",
        "sessions wait for a latch of the buffer pool (`spindoctor explain buffer-pool-latch-contention`)",
    ),
    (
        "query_cache",
        "sessions wait for the lock of the query cache: SET GLOBAL query_cache_type = OFF (`spindoctor explain query-cache-contention`)",
    ),
];

/// The same of memory.
const MEMORY: [(&str, &str); 5] = [
    (
        "memory/sql/sp_head",
        "stored programs (procedures, functions, triggers), of which each connection keeps its own compiled copies until it ends: fewer \
         connections that live less long, a smaller stored_program_cache (256 by default), fewer programs that each of them calls",
    ),
    (
        "memory/temptable",
        "internal temporary tables: temptable_max_ram and tmp_table_size bound them, and statements that sort or group much make them",
    ),
    ("memory/sql/thd::main_mem_root", "statements that run, and prepared ones that were not closed"),
    (
        "memory/sql/prepared_statement",
        "prepared statements: those that clients do not close stay until they disconnect (max_prepared_stmt_count)",
    ),
    ("memory/performance_schema", "performance_schema itself: smaller tables of it need a restart"),
];

/// What the instruments with the most time measure, the most first, and which files are slow.
pub(crate) fn of_time(
    rows: &Rows,
    largest: &[(String, f64)],
    all_s: f64,
    time: impl Fn(&Row<'_>) -> Option<f64>,
) -> Vec<String> {
    let of_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        WAITS.iter().find(|(sign, _)| name.contains(sign)).map(|(_, says)| *says)
    };
    let waits = largest
        .iter()
        .filter(|(_, seconds)| *seconds >= SHARE * all_s)
        .filter_map(|(name, _)| Some(format!("{}: {}", last_part(name), of_name(name)?)));
    let files = rows.iter().filter_map(|row| {
        let name = ["event_name", "events"].iter().find_map(|column| row.text(column))?;
        let calls = ["count_star", "total"].iter().find_map(|column| row.text(column)).and_then(amount)?;
        let each_s = time(&row)? / calls.max(1.0);
        let (_, what, slow_s) = FILES.iter().find(|(ends, ..)| name.ends_with(ends))?;
        (calls >= CALLS && each_s >= *slow_s).then(|| {
            format!(
                "each call for {what} took {} on average: its disk is slow (iostat -x 1; less than {} is usual), and commits wait for it where it \
                 is a log's",
                number::duration(each_s),
                number::duration(*slow_s)
            )
        })
    });
    files.take(MOST).chain(waits.take(MOST)).collect()
}

/// What the instruments with the most memory are.
pub(crate) fn of_memory(largest: &[(String, f64)], all: f64) -> Vec<String> {
    let of_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        MEMORY.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, says)| *says)
    };
    largest
        .iter()
        .filter(|(_, bytes)| *bytes >= SHARE * all)
        .filter_map(|(name, _)| Some(format!("{}: {}", last_part(name), of_name(name)?)))
        .take(MOST)
        .collect()
}

/// `wait/synch/mutex/sql/LOCK_open` as `LOCK_open`.
fn last_part(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

/// What `sys.memory_global_total` says, which has one column alone and so is no table as others are.
///
/// ```text
/// | total_allocated |
/// +-----------------+
/// | 31.19 GiB       |
/// ```
pub(crate) fn total(lines: &[&str]) -> Option<String> {
    let inside = |line: &str| line.trim().trim_matches('|').trim().to_owned();
    let at = lines.iter().position(|line| inside(line).eq_ignore_ascii_case("total_allocated"))?;
    let value = lines[at + 1..].iter().take(2).find_map(|line| bytes(&inside(line)))?;
    Some(format!("{} are allocated in all, as performance_schema counts", number::bytes(value)))
}
