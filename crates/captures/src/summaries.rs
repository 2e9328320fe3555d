//! Summaries that performance_schema and `sys` keep since the server's start: where the time went by instrument, by file, by table, by
//! statement, and who has the memory. In sentences: no cause rests on means of all time.
//!
//! ```text
//! | events                              | total    | total_latency | avg_latency | max_latency |     sys.waits_global_by_latency
//! | event_name                   | current_count | current_alloc | ...                              sys.memory_global_by_current_bytes
//! | query    | db   | full_scan | exec_count | ... | total_latency | ... | rows_examined | ...       sys.statement_analysis
//!    EVENT_NAME: wait/io/file/innodb/innodb_log_file
//!    COUNT_STAR: 812
//! SUM_TIMER_WAIT: 116526631880                                                   events_waits_summary_global_by_event_name
//! ```

use std::collections::BTreeMap;

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::number;

use crate::amounts::bytes;
use crate::instruments;
use crate::sys_session::latency;

/// Lines of a summary that are named.
const NAMED: usize = 5;
/// Characters of a name that are shown.
const SHOWN: usize = 120;
/// From this part of the time on, waits for locks are worth a word, as in a slow query log.
const LOCK_SHARE: f64 = 0.1;
/// Rows read for each that is sent or changed, and in each call, from which on an index is likely missing, as in a slow query log.
const ROWS_FOR_ONE: f64 = 100.0;
const MANY_ROWS: f64 = 10_000.0;

/// What a summary is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summary {
    /// Waits, stages or statements, by instrument.
    Events,
    Files,
    Tables,
    Statements,
    /// Bytes in use.
    Memory,
}

/// Columns with a time, a number of bytes, and a name, each as performance_schema and as `sys` call it.
const TIMES: [&str; 2] = ["sum_timer_wait", "total_latency"];
/// The same in milliseconds: the manual divides by 10^9 ("Monitoring InnoDB Mutex Waits Using Performance Schema").
const TIMES_MS: [&str; 3] = ["sum_timer_wait_ms", "total_latency_ms", "total_ms"];
/// And in seconds, as people's own queries name them.
const TIMES_S: [&str; 8] = [
    "sum_timer_wait_s",
    "total_latency_s",
    "total_latency_sec",
    "total_s",
    "total_sec",
    "total_seconds",
    "total_time_s",
    "total_time_sec",
];
/// The same beside the name of an instrument or a statement, where nothing else can be meant.
const BARE_S: [&str; 4] = ["s", "sec", "secs", "seconds"];
const NAMES: [&str; 2] = ["event_name", "digest_text"];
const READ: [&str; 2] = ["sum_rows_examined", "rows_examined"];
const BYTES: [&str; 3] = ["current_alloc", "current_number_of_bytes_used", "current_allocated"];
const EVENTS: [&str; 4] = ["event_name", "events", "event_class", "code_area"];
const FILES: [&str; 2] = ["file_name", "file"];
const TABLES: [&str; 2] = ["object_name", "table_name"];
const STATEMENTS: [&str; 2] = ["digest_text", "query"];
const CALLS: [&str; 3] = ["count_star", "exec_count", "calls"];
/// Columns beside the statements that PostgreSQL's list of them, which has `calls`, has not.
const OF_MYSQL: [&str; 6] =
    ["count_star", "exec_count", "schema_name", "digest", "rows_examined", "sum_rows_examined"];

/// Which summary has these columns, in lower case.
pub(crate) fn summary(columns: &[String]) -> Option<Summary> {
    let any = |names: &[&str]| names.iter().any(|name| columns.iter().any(|column| column == name));
    let has_time = any(&TIMES) || any(&TIMES_MS) || any(&TIMES_S) || any(&BARE_S) && any(&NAMES);
    match () {
        () if any(&BYTES) && (any(&EVENTS) || any(&["user", "host"])) => Some(Summary::Memory),
        // Without its time a statement has the rows that it read.
        () if any(&STATEMENTS) && any(&CALLS) && any(&OF_MYSQL) && (has_time || any(&READ)) => {
            Some(Summary::Statements)
        }
        () if !has_time => None,
        () if any(&FILES) => Some(Summary::Files),
        () if any(&EVENTS) => Some(Summary::Events),
        () if any(&TABLES) => Some(Summary::Tables),
        () => None,
    }
}

/// The first of these columns that the row has.
fn first<'r>(row: &Row<'r>, names: &[&str]) -> Option<&'r str> {
    names.iter().find_map(|name| row.text(name))
}

/// The time of a row, seconds.
fn time(row: &Row<'_>) -> Option<f64> {
    let number = |names: &[&str]| first(row, names)?.parse::<f64>().ok();
    let in_ms = || number(&TIMES_MS).map(|ms| ms / 1e3);
    let in_s = || number(&TIMES_S).or_else(|| number(&BARE_S));
    first(row, &TIMES).and_then(latency).or_else(in_ms).or_else(in_s).filter(|seconds| seconds.is_finite())
}

/// What a summary says; none of one in which nothing was counted.
pub(crate) fn sentences(summary: Summary, rows: &Rows) -> Vec<String> {
    let said = match summary {
        Summary::Statements => return statements(rows),
        Summary::Memory => return memory(rows),
        Summary::Events => return events(rows),
        Summary::Files => times(rows, "files", |row| first(row, &FILES).map(str::to_owned)),
        Summary::Tables => times(rows, "tables", |row| {
            let name = first(row, &TABLES)?;
            let schema = first(row, &["object_schema", "table_schema"]);
            Some(schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}")))
        }),
    };
    said.into_iter().collect()
}

fn memory(rows: &Rows) -> Vec<String> {
    let name =
        |row: &Row<'_>| first(row, &EVENTS).or_else(|| first(row, &["user", "host"])).map(str::to_owned);
    let Some((all, largest)) = ranked(rows, name, |row| first(row, &BYTES).and_then(bytes)) else {
        return Vec::new();
    };
    let named = listed(&largest, number::bytes);
    let said = format!("memory in use: {named}; {} in all that is listed", number::bytes(all));
    std::iter::once(said).chain(instruments::of_memory(&largest, all)).collect()
}

/// The time by instrument, and what those measure that have the most of it.
fn events(rows: &Rows) -> Vec<String> {
    let name = |row: &Row<'_>| first(row, &EVENTS).map(str::to_owned);
    let Some(said) = times(rows, "instruments", name) else { return Vec::new() };
    let largest = ranked(rows, |row| name(row).filter(|name| !rests(name)), time);
    let measured = largest.map(|(all_s, largest)| instruments::of_time(rows, &largest, all_s, time));
    std::iter::once(said).chain(measured.unwrap_or_default()).collect()
}

/// True for what waits for its client.
fn rests(name: &str) -> bool {
    ["idle", "wait/idle"].contains(&name)
}

fn times(rows: &Rows, what: &str, name: impl Fn(&Row<'_>) -> Option<String>) -> Option<String> {
    let name = |row: &Row<'_>| name(row).filter(|name| !rests(name));
    let (all, largest) = ranked(rows, name, time)?;
    let named = listed(&largest, |seconds| number::percent(seconds / all));
    let all = number::duration(all);
    Some(format!(
        "time by {what} since the server's start: {named}, of {all} in all that is listed; no cause rests on means of all time"
    ))
}

/// The sum of all rows, and the names with the largest of the numbers, those of one name together. None where no row has a number.
fn ranked(
    rows: &Rows,
    name: impl Fn(&Row<'_>) -> Option<String>,
    value: impl Fn(&Row<'_>) -> Option<f64>,
) -> Option<(f64, Vec<(String, f64)>)> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows.iter() {
        if let (Some(name), Some(value)) = (name(&row), value(&row)) {
            *sums.entry(name).or_default() += value;
        }
    }
    let all: f64 = sums.values().sum();
    let mut largest: Vec<(String, f64)> = sums.into_iter().filter(|(_, value)| *value > 0.0).collect();
    largest.sort_by(|one, other| other.1.total_cmp(&one.1));
    largest.truncate(NAMED);
    (all > 0.0).then_some((all, largest))
}

fn listed(largest: &[(String, f64)], shown: impl Fn(f64) -> String) -> String {
    let one = |(name, value): &(String, f64)| {
        format!("{} {}", name.chars().take(SHOWN).collect::<String>(), shown(*value))
    };
    largest.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Statements by their time, as a slow query log's are said.
fn statements(rows: &Rows) -> Vec<String> {
    struct One {
        shape: String,
        calls: f64,
        time_s: f64,
        locked_s: f64,
        read: f64,
        wanted: f64,
    }
    let count = |row: &Row<'_>, names: &[&str]| {
        names.iter().find_map(|name| row.number::<f64>(name)).unwrap_or(0.0).max(0.0)
    };
    let one = |row: Row<'_>| {
        Some(One {
            shape: spindoctor_sql::digest(first(&row, &STATEMENTS)?),
            calls: count(&row, &CALLS),
            time_s: time(&row).unwrap_or(0.0),
            locked_s: first(&row, &["sum_lock_time", "lock_latency"]).and_then(latency).unwrap_or(0.0),
            read: count(&row, &READ),
            wanted: count(&row, &["sum_rows_sent", "rows_sent"])
                + count(&row, &["sum_rows_affected", "rows_affected"]),
        })
    };
    let mut all: Vec<One> = rows.iter().filter_map(one).collect();
    let whole_s: f64 = all.iter().map(|one| one.time_s).sum();
    let whole_read: f64 = all.iter().map(|one| one.read).sum();
    let has_times = whole_s > 0.0;
    let weight = |one: &One| if has_times { one.time_s } else { one.read };
    all.retain(|one| weight(one) > 0.0 && one.calls > 0.0);
    all.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    let sentence = |one: &One| {
        let shape: String = one.shape.chars().take(SHOWN).collect();
        let calls = number::whole(one.calls);
        let mut said = match has_times {
            true => format!(
                "{} of the time of the statements that are listed: {shape}, {calls} times, {} each",
                number::percent(one.time_s / whole_s),
                number::duration(one.time_s / one.calls)
            ),
            false => format!(
                "{} of the rows that the statements that are listed read: {shape}, {calls} times",
                number::percent(one.read / whole_read)
            ),
        };
        if has_times && one.locked_s >= LOCK_SHARE * one.time_s {
            said.push_str(&format!(
                "; it waited for locks in {} of that",
                number::percent(one.locked_s / one.time_s)
            ));
        }
        let (read, wanted) = (one.read / one.calls, one.wanted / one.calls);
        if read >= MANY_ROWS && read >= ROWS_FOR_ONE * wanted.max(1.0) {
            said.push_str(&format!(
                "; it reads {} rows each time for {wanted:.0}: EXPLAIN says whether an index is missing",
                number::whole(read.round())
            ));
        }
        said
    };
    all.iter().take(NAMED).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Summary, summary};
    use crate::part::Kind;
    use crate::recognise;
    use crate::rows::STARS;

    fn says(text: &str) -> Vec<String> {
        let parts = recognise("x", text);
        assert_eq!(
            parts.iter().map(|part| part.kind).collect::<Vec<_>>(),
            [Kind::Summary],
            "{text}: {parts:?}"
        );
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn the_time_by_instrument_is_said_in_the_words_of_both_schemas() {
        let wanted = "time by instruments since the server's start: wait/io/file/innodb/innodb_log_file 75 %, \
                      wait/synch/mutex/innodb/trx_sys_mutex 25 %, of 8 s in all that is listed; no cause rests on means of all time";
        let of_sys = "| events | total | total_latency | avg_latency |\n| idle | 9 | 3.20 h | 1 s |\n\
                      | wait/io/file/innodb/innodb_log_file | 812 | 6.00 s | 7.39 ms |\n| wait/synch/mutex/innodb/trx_sys_mutex | 9 | 2.00 s | 1 us |\n";
        let row = |number: u32, event: &str, ps: u64| {
            format!(
                "{STARS} {number}. row {STARS}\n    EVENT_NAME: {event}\n    COUNT_STAR: 812\nSUM_TIMER_WAIT: {ps}\n"
            )
        };
        let of_schema = [
            row(1, "wait/io/file/innodb/innodb_log_file", 6_000_000_000_000),
            row(2, "wait/synch/mutex/innodb/trx_sys_mutex", 2_000_000_000_000),
        ];
        assert_eq!(says(of_sys)[0], wanted);
        assert_eq!(says(&of_schema.concat())[0], wanted);
    }

    #[test]
    fn times_that_a_query_made_milliseconds_of_are_times() {
        let text = "EVENT_NAME\tCOUNT_STAR\tSUM_TIMER_WAIT_MS\tAVG_TIMER_WAIT_MS\n\
                    wait/synch/sxlock/innodb/checkpoint_lock\t4\t7500\t1875.1\nwait/synch/mutex/innodb/trx_mutex\t9\t2500\t0.1\n";
        assert!(says(text)[0].contains("checkpoint_lock 75 %"), "{:?}", says(text));
        assert!(says(text)[0].contains(", of 10 s in all"), "{:?}", says(text));
    }

    #[test]
    fn statements_whose_columns_somebody_named_are_read_and_postgresql_s_are_not() {
        let text = "| schema_name | query | calls | total_s | avg_ms | rows_examined |\n\
                    | shop | SELECT COUNT ( * ) FROM `a` JOIN `b` | 1 | 91.0 | 91000.1 | 640000000 |\n\
                    | shop | INSERT INTO `c` VALUES (...) | 5 | 9.0 | 1800.2 | 0 |\n";
        let said = says(text).join("; ");
        assert!(said.contains("91 % of the time") && said.contains("FROM `a` JOIN `b`"), "{said}");
        let names = |line: &str| summary(&line.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(names("query,calls,total_ms,mean_ms,rows"), None);
        assert_eq!(names("schema_name,query,calls,total_ms"), Some(Summary::Statements));
    }

    #[test]
    fn files_tables_and_memory_are_named_with_their_parts() {
        let files = "file\ttotal\ttotal_latency\tcount_read\n@@datadir/ibdata1\t9\t1.50 min\t3\n@@datadir/ib_logfile0\t9\t30.00 s\t3\n";
        assert!(
            says(files)[0].starts_with("time by files since the server's start: @@datadir/ibdata1 75 %"),
            "{:?}",
            says(files)
        );
        let tables = "| table_schema | table_name | total_latency |\n| shop | stock | 3.00 s |\n| shop | orders | 1.00 s |\n";
        assert!(says(tables)[0].contains("shop.stock 75 %, shop.orders 25 %"), "{:?}", says(tables));
        let memory = "| event_name | current_count | current_alloc |\n| memory/innodb/buf_buf_pool | 1 | 6.00 GiB |\n| memory/sql/THD::main_mem_root | 9 | 512.00 MiB |\n";
        assert_eq!(
            says(memory),
            [
                "memory in use: memory/innodb/buf_buf_pool 6 GiB, memory/sql/THD::main_mem_root 512 MiB; 6.5 GiB in all that is listed"
            ]
        );
        let areas =
            "| code_area | current_alloc |\n| memory/innodb | 843.24 MiB |\n| memory/sql | 2.47 MiB |\n";
        assert!(says(areas)[0].contains("memory/innodb 843 MiB"), "{:?}", says(areas));
    }

    #[test]
    fn statements_are_said_as_those_of_a_slow_query_log() {
        let list = "| query | db | exec_count | total_latency | lock_latency | rows_sent | rows_examined |\n\
                    | SELECT * FROM `orders` WHERE `note` LIKE ? | shop | 100 | 1.50 min | 1.00 ms | 100 | 9800000 |\n\
                    | UPDATE `stock` SET `n` = ? WHERE `id` = 7 | shop | 10 | 30.00 s | 29.00 s | 0 | 10 |\n";
        let says = says(list);
        assert!(
            says[0].starts_with("75 % of the time of the statements that are listed: SELECT * FROM"),
            "{says:?}"
        );
        assert!(
            says[0].contains("100 times, 900 ms each; it reads 98,000 rows each time for 1: EXPLAIN"),
            "{says:?}"
        );
        assert!(says[1].ends_with("10 times, 3 s each; it waited for locks in 97 % of that"), "{says:?}");
        assert!(!says[1].contains("= 7"), "{says:?}");
    }

    #[test]
    fn slow_files_of_logs_and_what_instruments_measure_are_said() {
        let row = |name: &str, calls: u32, total: &str| format!("| {name} | {calls} | {total} |\n");
        let list =
            |rows: &[String]| format!("| event_name | count_star | total_latency |\n{}", rows.concat());
        let slow = list(&[
            row("wait/io/file/innodb/innodb_log_file", 20_000, "400.00 s"),
            row("wait/io/file/sql/binlog", 9_000, "9.00 s"),
            row("wait/synch/mutex/sql/LOCK_table_cache", 70_000, "300.00 s"),
            row("wait/synch/mutex/innodb/trx_sys_mutex", 900, "1.00 s"),
        ]);
        let said = says(&slow);
        assert!(said[1].starts_with("each call for the redo log took 20 ms on average"), "{said:?}");
        assert!(
            said[2].starts_with("LOCK_table_cache: sessions wait for the mutex of the table cache"),
            "{said:?}"
        );
        assert_eq!(said.len(), 3, "{said:?}");
        let quick = list(&[row("wait/io/file/innodb/innodb_log_file", 900_000, "300.00 s")]);
        assert_eq!(says(&quick).len(), 1, "{:?}", says(&quick));
    }

    #[test]
    fn what_has_the_memory_is_explained_and_all_of_it_is_said() {
        let list = "| event_name | current_count | current_alloc |\n| memory/sql/sp_head::main_mem_root | 90000 | 9.00 GiB |\n\
                    | memory/innodb/buf_buf_pool | 8 | 1.00 GiB |\n";
        assert!(says(list)[1].starts_with("sp_head::main_mem_root: stored programs"), "{:?}", says(list));
        let total = "mysql> select * from sys.memory_global_total;\n+-----------------+\n| total_allocated |\n+-----------------+\n\
                     | 11.50 GiB       |\n+-----------------+\n";
        let parts = recognise("x", total);
        let said = parts.iter().flat_map(|part| &part.says).next().map(String::as_str);
        assert_eq!(said, Some("11.5 GiB are allocated in all, as performance_schema counts"), "{parts:?}");
    }

    #[test]
    fn statements_without_their_time_are_said_by_the_rows_that_they_read() {
        let list = "| DIGEST_TEXT | COUNT_STAR | SUM_ROWS_EXAMINED | SUM_ROWS_SENT |\n\
                    | SELECT * FROM `parcel` WHERE `state` = ? | 90 | 9000000 | 90 |\n| SELECT ? | 10 | 1000000 | 10 |\n";
        let said = says(list);
        assert!(said[0].starts_with("90 % of the rows that the statements that are listed read"), "{said:?}");
        assert!(said[0].contains("90 times; it reads 100,000 rows each time for 1"), "{said:?}");
        let bare =
            "| DIGEST_TEXT | COUNT_STAR | s |\n| SELECT * FROM `parcel` WHERE `state` = ? | 90 | 45.0 |\n";
        assert!(says(bare)[0].contains("90 times, 500 ms each"), "{:?}", says(bare));
    }

    #[test]
    fn other_tables_are_no_summaries() {
        for text in [
            "| query | total |\n| hello | 7 |\n",
            "| file | size |\n| a.txt | 7 |\n",
            "| user | total_latency |\n| a | 7 |\n",
        ] {
            assert!(recognise("x", text).iter().all(|part| part.kind != Kind::Summary), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(cells in prop::collection::vec("[0-9]{0,20}|[0-9.]{1,6} (GiB|h|ps|x)|[a-z/]{0,9}|-", 4)) {
            for head in ["event_name\ttotal_latency\tcurrent_alloc\tx", "digest_text\tcount_star\tsum_timer_wait\trows_sent"] {
                let _read = recognise("x", &format!("{head}\n{}\n", cells.join("\t")));
            }
        }
    }
}
