//! The InnoDB status, compared with the results of other projects' parsers for the same texts.

use std::collections::BTreeMap;

use spindoctor_collect::mysql::innodb_status::parse;
use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::{SemaphoreKind, SpinCounts};

use super::{fixtures, read};

/// Every text, with its file's name.
fn captures() -> Option<Vec<(String, String)>> {
    let mut captures = Vec::new();
    for entry in std::fs::read_dir(fixtures("innodb_status")?).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(".expected") && !name.contains("expected-fk") {
            captures.push((name, read(&path)));
        }
    }
    Some(captures)
}

#[test]
fn every_line_of_every_text_is_understood() {
    let Some(captures) = captures() else { return };
    for (name, text) in captures {
        let status = parse(&text);
        assert_eq!(status.unknown_sections, Vec::<String>::new(), "{name}");
        assert_eq!(status.unknown_lines, Vec::<String>::new(), "{name}");
        assert_eq!(status.raw, None, "{name}");
        assert_eq!(status.truncated, name == "pmp-010.txt", "{name}");
        assert!(status.averages_over_s.is_some(), "{name}");
        if matches!(name.as_str(), "pmp-010.txt" | "pt-deadlock-bug_1082104.txt") {
            continue; // Cut by those who collected them.
        }
        assert!(status.log.checkpoint_age_bytes().is_some() && status.log.flushed_lsn.is_some(), "{name}");
        assert!(status.buffer_pool.pages > status.buffer_pool.free_pages, "{name}");
        assert!(
            status.buffer_pool.dirty_pages.is_some() && status.buffer_pool.pages_written.is_some(),
            "{name}"
        );
        assert!(status.transactions.history_list_length.is_some(), "{name}");
        assert!(status.transactions.id_counter >= status.transactions.purge_done, "{name}");
        assert!(status.file_io.os_fsyncs.is_some() && status.file_io.pending_reads.is_some(), "{name}");
        assert!(
            status.row_operations.read_views.is_some() && status.row_operations.inserted.is_some(),
            "{name}"
        );
        assert!(status.semaphores.reservations.is_some(), "{name}");
    }
}

/// The counters that Percona Monitoring Plugins expect of their samples.
#[test]
fn agrees_with_percona_monitoring_plugins() {
    let Some(folder) = fixtures("innodb_status") else { return };
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
    let Some(folder) = fixtures("innodb_status") else { return };
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
    let Some(folder) = fixtures("innodb_status") else { return };
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
    let Some(folder) = fixtures("innodb_status") else { return };
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
fn transaction_ids_are_read_in_the_base_of_their_version() {
    let Some(folder) = fixtures("innodb_status") else { return };
    let counter = |name: &str| parse(&read(&folder.join(name))).transactions.id_counter;
    assert_eq!(counter("pt-temp003.txt"), Some(769), "5.1: two words");
    assert_eq!(counter("innotop-001.txt"), Some(0x908), "5.1 plugin: hexadecimal without a letter");
    assert_eq!(counter("pt-stalk-2018_03_05_13_24_55-innodbstatus1"), Some(0x5_5D01_5695), "5.5");
    assert_eq!(counter("innotop-010.txt"), Some(8886), "8.0: decimal");
}
