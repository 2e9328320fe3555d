//! The InnoDB status parser against texts of real servers, and against what other people's parsers
//! make of the same texts.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;
use spindoctor_collect::mysql::innodb_status::parse;
use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::{SemaphoreKind, SpinCounts};

/// The captures shared by the projects of this house; None, with a note, where they are not at hand.
fn shared() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/innodb_status");
    if !folder.is_dir() {
        eprintln!("skipped: no captures in {}", folder.display());
        return None;
    }
    Some(folder)
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

fn own(name: &str) -> String {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/innodb_status").join(name))
}

/// Every capture, shared and own, with its file name.
fn captures() -> Vec<(String, String)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/innodb_status");
    let mut captures = Vec::new();
    for folder in shared().into_iter().chain([own]) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.contains(".expected") && !name.contains("expected-fk") && !name.ends_with(".md") {
                captures.push((name, read(&path)));
            }
        }
    }
    captures
}

#[test]
fn every_line_of_every_capture_is_understood() {
    for (name, text) in captures() {
        let status = parse(&text);
        assert_eq!(status.unknown_sections, Vec::<String>::new(), "{name}");
        assert_eq!(status.unknown_lines, Vec::<String>::new(), "{name}");
        assert_eq!(status.raw, None, "{name}");
        assert_eq!(status.truncated, name == "pmp-010.txt", "{name}");
        assert!(status.averages_over_s.is_some(), "{name}");
    }
}

#[test]
fn every_complete_capture_gives_its_main_numbers() {
    for (name, text) in captures() {
        if matches!(name.as_str(), "pmp-010.txt" | "pt-deadlock-bug_1082104.txt") {
            continue; // Cut by those who collected them.
        }
        let status = parse(&text);
        let mariadb_11 = name.starts_with("mariadb-10.11");
        assert!(status.log.checkpoint_age_bytes().is_some(), "{name}");
        assert!(status.log.flushed_lsn.is_some(), "{name}");
        assert!(status.buffer_pool.pages > status.buffer_pool.free_pages, "{name}");
        assert!(status.buffer_pool.dirty_pages.is_some(), "{name}");
        assert!(status.buffer_pool.pages_written.is_some(), "{name}");
        assert!(status.buffer_pool.pending_flush_list_writes.is_some(), "{name}");
        assert!(status.transactions.history_list_length.is_some(), "{name}");
        assert!(status.transactions.id_counter >= status.transactions.purge_done, "{name}");
        assert!(status.file_io.os_fsyncs.is_some(), "{name}");
        assert!(status.file_io.pending_reads.is_some(), "{name}");
        assert!(status.file_io.pending_data_fsyncs.is_some(), "{name}");
        assert!(status.row_operations.read_views.is_some(), "{name}");
        assert!(status.row_operations.main_thread_state.is_some(), "{name}");
        assert_eq!(status.semaphores.reservations.is_none(), mariadb_11, "{name}");
        assert_eq!(status.row_operations.inserted.is_none(), mariadb_11, "{name}");
        assert_eq!(status.row_operations.queries_inside.is_none(), mariadb_11, "{name}");
    }
}

/// The counters that Percona Monitoring Plugins expect of their samples.
#[test]
fn agrees_with_percona_monitoring_plugins() {
    let Some(folder) = shared() else { return };
    for sample in ["pmp-001", "pmp-006", "pmp-014", "pmp-015"] {
        let status = parse(&read(&folder.join(format!("{sample}.txt"))));
        let mut compared = 0;
        for line in read(&folder.join(format!("{sample}.expected.tsv"))).lines() {
            let (key, expected) = line.split_once('\t').unwrap();
            let Some(ours) = percona_counter(&status, key) else { continue };
            let expected = if expected == "NULL" { 0 } else { expected.parse().unwrap() };
            assert_eq!(ours, expected, "{sample}: {key}");
            compared += 1;
        }
        assert!(compared >= 35, "{sample}: {compared} compared");
    }
}

/// Our value of their counter; None for counters that are not kept.
fn percona_counter(status: &InnodbStatus, key: &str) -> Option<u64> {
    let InnodbStatus { semaphores, transactions, file_io, log, buffer_pool, row_operations, .. } = status;
    let spins = [semaphores.mutex, semaphores.rw_shared, semaphores.rw_excl];
    let sum = |of: fn(&SpinCounts) -> Option<u64>| Some(spins.iter().filter_map(of).sum());
    let listed = &transactions.transactions;
    let count = |wanted: usize| Some(wanted as u64);
    match key {
        "spin_waits" => sum(|line| line.spins),
        "spin_rounds" => sum(|line| line.rounds),
        "os_waits" => sum(|line| line.os_waits),
        "innodb_sem_waits" => count(semaphores.waiters.len()),
        "innodb_sem_wait_time_ms" => {
            Some((semaphores.waiters.iter().map(|wait| wait.waited_s).sum::<f64>() * 1000.0) as u64)
        }
        "innodb_transactions" => transactions.id_counter,
        "unpurged_txns" => Some(transactions.id_counter? - transactions.purge_done?),
        "history_list" => transactions.history_list_length,
        "current_transactions" => count(listed.len()),
        "active_transactions" => count(listed.iter().filter(|entry| entry.active).count()),
        "locked_transactions" => count(listed.iter().filter(|entry| entry.lock_wait).count()),
        "innodb_lock_structs" => Some(listed.iter().filter_map(|entry| entry.lock_structs).sum()),
        "innodb_lock_wait_secs" => {
            Some(listed.iter().filter_map(|entry| entry.lock_waited_s).sum::<f64>() as u64)
        }
        "pending_normal_aio_reads" => file_io.pending_reads,
        "pending_normal_aio_writes" => file_io.pending_writes,
        "pending_log_flushes" => file_io.pending_log_fsyncs,
        "pending_buf_pool_flushes" => file_io.pending_data_fsyncs,
        "file_reads" => file_io.os_reads,
        "file_writes" => file_io.os_writes,
        "file_fsyncs" => file_io.os_fsyncs,
        "log_bytes_written" => log.current_lsn,
        "log_bytes_flushed" => log.flushed_lsn,
        "unflushed_log" => Some(log.current_lsn? - log.flushed_lsn?),
        "last_checkpoint" => log.checkpoint_lsn,
        "uncheckpointed_bytes" => log.checkpoint_age_bytes(),
        "pending_log_writes" => log.pending_writes,
        "log_writes" => log.ios,
        "pool_size" => buffer_pool.pages,
        "free_pages" => buffer_pool.free_pages,
        "database_pages" => buffer_pool.database_pages,
        "modified_pages" => buffer_pool.dirty_pages,
        "pages_read" => buffer_pool.pages_read,
        "pages_created" => buffer_pool.pages_created,
        "pages_written" => buffer_pool.pages_written,
        "queries_inside" => row_operations.queries_inside,
        "queries_queued" => row_operations.queries_queued,
        "read_views" => row_operations.read_views,
        "rows_inserted" => row_operations.inserted,
        "rows_updated" => row_operations.updated,
        "rows_deleted" => row_operations.deleted,
        "rows_read" => row_operations.read,
        "pending_chkp_writes"
        | "pending_ibuf_aio_reads"
        | "pending_aio_log_ios"
        | "pending_aio_sync_ios"
        | "innodb_tables_in_use"
        | "innodb_locked_tables"
        | "total_mem_alloc"
        | "additional_pool_alloc" => None,
        _ if key.starts_with("ibuf_") || key.starts_with("hash_index_") || key.ends_with("_memory") => None,
        _ => panic!("a counter that nobody thought of: {key}"),
    }
}

/// What pt-mysql-summary prints of its samples.
#[test]
fn agrees_with_pt_mysql_summary() {
    let Some(folder) = shared() else { return };
    for sample in ["pt-summary-001", "pt-summary-004"] {
        let status = parse(&read(&folder.join(format!("{sample}.txt"))));
        let expected = read(&folder.join(format!("{sample}.expected.txt")));
        let said = |label: &str| {
            let line = expected.lines().find(|line| line.trim_start().starts_with(label)).unwrap();
            line.split_once(" | ").unwrap().1.to_owned()
        };
        let number = |option: Option<u64>| option.unwrap();

        let age = number(status.log.checkpoint_age_bytes());
        let shown = if age >= 1 << 20 { format!("{}M", age >> 20) } else { format!("{}k", age >> 10) };
        assert_eq!(shown, said("Checkpoint Age"));
        let rows = &status.row_operations;
        assert_eq!(
            format!(
                "{} queries inside InnoDB, {} queries in queue",
                number(rows.queries_inside),
                number(rows.queries_queued)
            ),
            said("InnoDB Queue")
        );
        assert_eq!(number(rows.read_views).to_string(), said("Read Views"));
        let transactions = &status.transactions;
        assert_eq!(number(transactions.history_list_length).to_string(), said("History List Len"));
        let listed = &transactions.transactions;
        let oldest = listed.iter().filter_map(|entry| entry.active_s).fold(0.0, f64::max);
        assert_eq!(format!("{oldest} Seconds"), said("Oldest Transaction"));
        let undo: Vec<u64> = listed.iter().filter_map(|entry| entry.undo_entries).collect();
        assert_eq!(
            format!(
                "{} transactions, {} total undo, {} max undo",
                undo.len(),
                undo.iter().sum::<u64>(),
                undo.iter().max().unwrap_or(&0)
            ),
            said("Undo Log Entries")
        );
        let active = listed.iter().filter(|entry| entry.active).count();
        let idle = listed.len() - active;
        let states = if idle == 0 {
            format!("{active}xACTIVE")
        } else {
            format!("{active}xACTIVE, {idle}xnot started")
        };
        assert_eq!(states, said("Transaction States"));
        let pool = &status.buffer_pool;
        assert!(said("Pending I/O Reads").starts_with(&format!(
            "{} buf pool reads, {} normal AIO,",
            number(pool.pending_reads),
            number(status.file_io.pending_reads)
        )));
        let (lru, list, page) = (
            number(pool.pending_lru_writes),
            number(pool.pending_flush_list_writes),
            number(pool.pending_single_page_writes),
        );
        assert!(said("Pending I/O Writes").starts_with(&format!(
            "{} buf pool ({lru} LRU, {list} flush list, {page} page); {} AIO,",
            lru + list + page,
            number(status.file_io.pending_writes)
        )));
        assert!(said("Pending I/O Writes").contains(&format!("({} log,", number(status.log.pending_writes))));
        assert_eq!(
            format!(
                "{} buf pool, {} log",
                number(status.file_io.pending_data_fsyncs),
                number(status.file_io.pending_log_fsyncs)
            ),
            said("Pending I/O Flushes")
        );
        waiters_agree(&status, &expected, sample);
    }
}

/// The three lists on semaphores at the end of pt-mysql-summary's page: `count what`.
fn waiters_agree(status: &InnodbStatus, expected: &str, sample: &str) {
    let list = |title: &str| -> BTreeMap<String, u64> {
        let lines = expected.lines().skip_while(|line| *line != title).skip(1);
        lines
            .map_while(|line| line.trim().split_once(' ').filter(|(count, _)| count.parse::<u64>().is_ok()))
            .map(|(count, what)| (what.to_owned(), count.parse().unwrap()))
            .collect()
    };
    let count = |names: Vec<String>| {
        let mut counts = BTreeMap::<String, u64>::new();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
        counts
    };
    let waiters = &status.semaphores.waiters;
    let places = waiters.iter().map(|wait| format!("{} line {}", wait.at_file, wait.at_line)).collect();
    let mut expected_places = BTreeMap::new();
    for (place, waits) in list("Semaphore Waits") {
        *expected_places.entry(place.rsplit('/').next().unwrap().to_owned()).or_default() += waits;
    }
    assert_eq!(count(places), expected_places, "{sample}");

    // Theirs counts a thread that is printed as the holder of what it waits for; ours does not.
    let own = waiters.iter().filter(|wait| wait.held_mode.is_some() && wait.holder_pthread_id.is_none());
    let holders =
        waiters.iter().filter_map(|wait| wait.holder_pthread_id).chain(own.map(|wait| wait.pthread_id));
    assert_eq!(
        count(holders.map(|thread| format!("thread id {thread}")).collect()),
        list("Semaphore Holders"),
        "{sample}"
    );

    let latches = waiters.iter().map(|wait| {
        let what = if wait.kind == SemaphoreKind::Mutex { "Mutex" } else { "lock on RW-latch" };
        let identity = match wait.created_line {
            Some(line) => format!("created in file {} line {line}", wait.created_file),
            None => format!("'{}'", wait.name),
        };
        format!("{what} at {} {identity}", wait.address)
    });
    let expected_latches: BTreeMap<String, u64> = list("Mutexes/Locks Waited For")
        .into_iter()
        .map(|(latch, waits)| (latch.replace("btr/", "").replace("buf/", ""), waits))
        .collect();
    let mut ours = count(latches.collect());
    ours.retain(|latch, _| expected_latches.contains_key(latch)); // Theirs is a list of the first ten.
    assert_eq!(ours, expected_latches, "{sample}");
}

/// The texts that pt-fk-error-logger must extract of its samples.
#[test]
fn agrees_with_pt_fk_error_logger() {
    let Some(folder) = shared() else { return };
    for (sample, expected, time) in [
        ("pmp-011.txt", "pt-fk-is001.expected-fk.txt", "070913 11:06:03"),
        ("pmp-003.txt", "pt-fk-is003.expected-fk.txt", "070915 16:15:55"),
        ("pmp-005.txt", "pt-fk-is005.expected-fk.txt", "070915 16:31:46"),
    ] {
        let error = parse(&read(&folder.join(sample))).latest_foreign_key_error.unwrap();
        assert_eq!(error.text, read(&folder.join(expected)).trim_end(), "{sample}");
        assert_eq!(error.time, time, "{sample}");
        assert!(!error.cut, "{sample}");
    }
}

#[test]
fn events_keep_their_time_and_their_text() {
    let Some(folder) = shared() else { return };
    let deadlock = |name: &str| parse(&read(&folder.join(name))).latest_deadlock.unwrap();
    let five_five = deadlock("pt-stalk-2018_03_05_13_24_55-innodbstatus1");
    assert_eq!(five_five.time, "180227 14:45:46");
    assert!(
        five_five.text.starts_with("*** (1) TRANSACTION:\nTRANSACTION 55984EF58, ACTIVE 0 sec inserting\n")
    );
    assert!(five_five.text.ends_with("*** WE ROLL BACK TRANSACTION (2)"));
    assert_eq!(deadlock("innotop-007.txt").time, "120906  6:03:32");
    assert_eq!(deadlock("pt-deadlock-bug_1082104.txt").time, "111212 22:52:42");

    let six = parse(&read(&folder.join("innotop-008.txt"))).latest_foreign_key_error.unwrap();
    assert_eq!(six.time, "2013-06-19 13:47:33");
    assert!(six.text.starts_with("Transaction:\nTRANSACTION 2820, ACTIVE 0 sec updating or deleting\n"));

    assert_eq!(parse(&read(&folder.join("innotop-001.txt"))).latest_deadlock, None);
}

#[test]
fn mysql_9_7() {
    let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let status = parse(&text);
    assert_eq!(status.averages_over_s, Some(25));
    assert_eq!(status.semaphores.reservations, Some(9));
    assert_eq!(status.semaphores.signals, Some(9));
    assert_eq!(status.semaphores.rw_shared, SpinCounts::default(), "the counters behind this line are gone");
    assert_eq!(status.transactions.id_counter, Some(1580));
    assert_eq!(status.transactions.purge_done, Some(1578));
    assert_eq!(status.transactions.history_list_length, Some(38));
    let listed = &status.transactions.transactions;
    assert_eq!(listed.len(), 5);
    let waiting = &listed[3];
    assert_eq!(waiting.id, "1579");
    assert!(waiting.active && waiting.lock_wait);
    assert_eq!(waiting.active_s, Some(2.0));
    assert_eq!(waiting.lock_waited_s, Some(2.0));
    assert_eq!(waiting.waits_for.as_deref(), Some("d.t PRIMARY"));
    assert_eq!((waiting.lock_structs, waiting.row_locks, waiting.undo_entries), (Some(2), Some(1), None));
    assert_eq!((waiting.connection_id, waiting.pthread_id), (Some(14), Some(140_041_065_064_128)));
    let holding = &listed[4];
    assert!(holding.active && !holding.lock_wait);
    assert_eq!((holding.connection_id, holding.undo_entries), (Some(13), Some(1)));
    assert_eq!(status.file_io.pending_reads, Some(0));
    assert_eq!(status.file_io.os_reads, Some(940));
    assert_eq!(status.log.capacity_bytes, Some(33_554_432));
    assert_eq!(status.log.current_lsn, Some(19_519_362));
    assert_eq!(status.log.checkpoint_age_bytes(), Some(0));
    assert_eq!(status.log.ios, Some(115));
    assert_eq!(status.buffer_pool.pages, Some(8191));
    assert_eq!(status.row_operations.process_id, Some(15_901));
    assert_eq!(status.row_operations.main_thread_state.as_deref(), Some("sleeping"));
    assert_eq!(status.row_operations.inserted, Some(2), "not the system's rows");
    let deadlock = status.latest_deadlock.unwrap();
    assert_eq!(deadlock.time, "2026-11-21 01:54:01");
    assert!(deadlock.text.starts_with("*** (1) TRANSACTION:"));
    assert_eq!(status.latest_foreign_key_error, None);
}

#[test]
fn mariadb_10_11() {
    let status = parse(&own("mariadb-10.11.19-row-lock.txt"));
    assert_eq!(status.semaphores, Default::default(), "MariaDB has no sync array since 10.6");
    let listed = &status.transactions.transactions;
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].connection_id, Some(36));
    assert!((listed[0].lock_waited_s.unwrap() - 2.002_217).abs() < 1e-9, "microseconds");
    assert_eq!(listed[0].waits_for.as_deref(), Some("innodbdev.t PRIMARY"));
    assert_eq!(listed[0].active_s, Some(2.0));
    assert_eq!(listed[1].undo_entries, Some(1));
    assert_eq!(status.file_io.pending_reads, Some(0), "printed only where there are some");
    assert_eq!(status.file_io.pending_log_fsyncs, None);
    assert_eq!(status.log.pages_flushed_lsn, status.log.checkpoint_lsn);
    assert_eq!(status.buffer_pool.pending_single_page_writes, None);
    assert_eq!(status.row_operations.main_thread_state.as_deref(), Some("sleeping"));
    assert_eq!(status.row_operations.process_id, None);
}

#[test]
fn transaction_ids_are_read_in_the_base_of_their_version() {
    let Some(folder) = shared() else { return };
    let counter = |name: &str| parse(&read(&folder.join(name))).transactions.id_counter;
    assert_eq!(counter("pt-temp003.txt"), Some(769), "5.1: two words");
    assert_eq!(counter("innotop-001.txt"), Some(0x908), "5.1 plugin: hexadecimal without a letter");
    assert_eq!(counter("pt-stalk-2018_03_05_13_24_55-innodbstatus1"), Some(0x5_5D01_5695), "5.5");
    assert_eq!(counter("innotop-010.txt"), Some(8886), "8.0: decimal");
}

#[test]
fn batch_output_of_the_client_is_the_same_answer() {
    let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let status = text.split_once("Status: \n").unwrap().1;
    let escaped = status.replace('\\', r"\\").replace('\n', r"\n").replace('\t', r"\t");
    assert_eq!(parse(&format!("Type\tName\tStatus\nInnoDB\t\t\\n{escaped}\n")), parse(&text));
    assert_eq!(parse(&text.replace('\n', "\r\n")), parse(&text));
}

#[test]
fn the_first_of_several_captures_counts() {
    let first = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let second = own("mariadb-10.11.19-row-lock.txt");
    assert_eq!(parse(&format!("{first}{second}")), parse(&first));
    assert_eq!(parse(&format!("{second}{first}")), parse(&second));
}

#[test]
fn a_statement_cannot_pass_for_a_section() {
    let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let honest = parse(&text);
    let forged = "update t set v=v+2
---
LOG
---
Log sequence number          99
Last checkpoint at           1
----------
SEMAPHORES
----------
OS WAIT ARRAY INFO: reservation count 77
OS WAIT ARRAY INFO: signal count 77
5 lock struct(s), heap size 1128, 999 row lock(s), undo log entries 999
----------------------------
END OF INNODB MONITOR OUTPUT
============================
";
    let status = parse(&text.replace("update t set v=v+2\n", forged));
    assert_eq!(status.log, honest.log);
    assert_eq!(status.semaphores, honest.semaphores);
    assert_eq!(status.file_io, honest.file_io);
    assert!(!status.truncated);
    assert!(status.transactions.transactions.iter().all(|entry| entry.undo_entries != Some(999)));
}

#[test]
fn what_a_newer_server_adds_is_kept() {
    let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let newer = text.replace(
        "---\nLOG\n---\n",
        "---------\nNEW STUFF\n---------\nnumber of wonders 7\n---\nLOG\n---\nLog wonders 8\n",
    );
    let status = parse(&newer);
    assert_eq!(status.unknown_sections, ["NEW STUFF"]);
    assert_eq!(status.unknown_lines, ["Log wonders 8"]);
    assert_eq!(status.raw.as_deref(), Some(newer.as_str()));
    assert_eq!(status.log, parse(&text).log);
}

#[test]
fn the_raw_text_is_bounded() {
    let text = format!("---\nLOG\n---\n{}", "é is new\n".repeat(100_000));
    let status = parse(&text);
    assert!(status.raw.unwrap().len() <= 64 * 1024);
    assert_eq!(status.unknown_lines.len(), 50);
}

#[test]
fn transactions_that_the_server_left_out_do_not_spoil_the_others() {
    let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let (above, below) = text.split_once("LIST OF TRANSACTIONS FOR EACH SESSION:\n").unwrap();
    let rest = &below[below.find("1578, ACTIVE").unwrap() - 100..];
    let status = parse(&format!("{above}... truncated...\n{rest}"));
    assert!(status.truncated);
    assert_eq!(status.transactions.history_list_length, Some(38));
    assert_eq!(status.transactions.transactions.len(), 1);
    assert_eq!(status.transactions.transactions[0].connection_id, Some(13));
    assert_eq!(status.row_operations.process_id, Some(15_901));
}

/// Panics where `part` says what `whole` does not. Absent values and switched-off flags say nothing.
fn assert_within(part: &Value, whole: &Value, at: &str) {
    match (part, whole) {
        (Value::Null | Value::Bool(false), _) => {}
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                let told_otherwise = ["truncated", "unknown_lines", "unknown_sections", "raw"];
                if !told_otherwise.contains(&key.as_str()) {
                    assert_within(value, &whole[key], &format!("{at}.{key}"));
                }
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert!(part.len() <= whole.len(), "{at}: {} entries of {}", part.len(), whole.len());
            for (place, (part, whole)) in part.iter().zip(whole).enumerate() {
                assert_within(part, whole, &format!("{at}[{place}]"));
            }
        }
        (Value::String(part), _) if part.is_empty() || (part == "unknown" && at.ends_with(".kind")) => {}
        (Value::String(part), Value::String(whole)) if at.ends_with(".text") => {
            assert!(whole.starts_with(part.as_str()), "{at}: {part} is not in {whole}");
        }
        _ => assert_eq!(part, whole, "{at}"),
    }
}

/// Every cut of every capture: each byte where it is short, a spread of bytes where it is long.
#[test]
fn a_cut_text_says_less_and_nothing_else() {
    for (name, text) in captures() {
        let whole = serde_json::to_value(parse(&text)).unwrap();
        let step = (text.len() / 200).max(1);
        for at in (0..text.len()).step_by(step) {
            let cut = parse(&text[..text.floor_char_boundary(at)]);
            assert_within(&serde_json::to_value(&cut).unwrap(), &whole, &format!("{name} cut at {at}"));
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(?s).{0,2000}") {
        parse(&text);
    }

    #[test]
    fn no_numbers_make_it_panic(digits in "[0-9]{1,30}", sign in "[-+ ]?", at in any::<prop::sample::Index>()) {
        let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
        let places: Vec<usize> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(place, _)| place).collect();
        let place = *at.get(&places);
        parse(&format!("{}{sign}{digits}{}", &text[..place], &text[place..]));
    }

    #[test]
    fn no_order_of_lines_makes_it_panic(picks in prop::collection::vec((0..4096_usize, "[ -~]{0,20}"), 0..200)) {
        let text = own("mysql-9.7.4-deadlock-and-row-lock.txt") + &own("mariadb-10.11.19-row-lock.txt");
        let lines: Vec<&str> = text.lines().collect();
        let shuffled: String =
            picks.iter().map(|(pick, tail)| format!("{}{tail}\n", lines[pick % lines.len()])).collect();
        parse(&shuffled);
    }
}
