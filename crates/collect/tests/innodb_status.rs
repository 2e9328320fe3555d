//! The InnoDB status parser against texts of real servers: those of the corpus, and two that are read number by number.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;
use spindoctor_collect::mysql::innodb_status::{SOURCE, parse};
use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::{ListedTransaction, SpinCounts};

fn own(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/innodb_status").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Where the server left a part out.
const TRUNCATED: &str = "/status-over-a-megabyte";

/// Every text of the corpus whose name has this, with its name.
fn captures(of: &str) -> Vec<(String, String)> {
    let names = spindoctor_corpus::names("").unwrap().into_iter().filter(|name| name.contains(of));
    let texts = names.filter_map(|name| {
        let document = spindoctor_corpus::document(&name).unwrap();
        let text = document.part(SOURCE.name)?.text.clone();
        Some((name, text))
    });
    texts.collect()
}

#[test]
fn every_line_of_every_capture_is_understood() {
    let captures = captures("");
    assert!(captures.len() > 150, "only {} texts", captures.len());
    for (name, text) in captures {
        let status = parse(&text);
        assert_eq!(status.unknown_sections, Vec::<String>::new(), "{name}");
        assert_eq!(status.unknown_lines, Vec::<String>::new(), "{name}");
        assert_eq!(status.raw, None, "{name}");
        assert_eq!(status.truncated, name.ends_with(TRUNCATED), "{name}");
        assert!(status.averages_over_s.is_some(), "{name}");
    }
}

#[test]
fn every_complete_capture_gives_its_main_numbers() {
    for (name, text) in captures("") {
        let status = parse(&text);
        // MariaDB took these numbers out of the status in 10.5 and 10.6: MDEV-23379, MDEV-24142.
        let mariadb = name.strip_prefix("mariadb-").and_then(|name| name.split('/').next());
        let numbers =
            |version: &str| -> Vec<u32> { version.split('.').map(|n| n.parse().unwrap()).collect() };
        let since = |major, minor| mariadb.is_some_and(|version| numbers(version) >= vec![major, minor]);
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
        assert_eq!(status.semaphores.reservations.is_none(), since(10, 6), "{name}");
        assert_eq!(status.row_operations.inserted.is_none(), since(10, 6), "{name}");
        assert_eq!(status.row_operations.queries_inside.is_none(), since(10, 5), "{name}");
    }
}

#[test]
fn a_deadlock_is_kept_with_its_time_and_its_text_by_every_version() {
    let captures = captures("/deadlock");
    assert!(captures.len() >= 10, "only {} servers", captures.len());
    for (name, text) in captures {
        let deadlock = parse(&text).latest_deadlock.unwrap();
        assert!(
            !deadlock.time.is_empty() && deadlock.time.bytes().all(|b| b" -:0123456789".contains(&b)),
            "{name}: {}",
            deadlock.time
        );
        assert!(deadlock.text.starts_with("*** (1) TRANSACTION:\nTRANSACTION "), "{name}: {}", deadlock.text);
        assert!(
            deadlock.text.contains("UPDATE shop.stock SET n = 2 WHERE id = 1"),
            "{name}: {}",
            deadlock.text
        );
        let last = deadlock.text.lines().last().unwrap();
        assert!(last.starts_with("*** WE ROLL BACK TRANSACTION ("), "{name}: {last}");
    }
}

#[test]
fn a_foreign_key_error_is_kept_with_its_time_and_its_text_by_every_version() {
    let captures = captures("/foreign-key-error");
    assert!(captures.len() >= 10, "only {} servers", captures.len());
    for (name, text) in captures {
        let error = parse(&text).latest_foreign_key_error.unwrap();
        assert!(error.time.bytes().all(|b| b" -:0123456789".contains(&b)) && !error.cut, "{name}: {error:?}");
        assert!(
            error.text.contains("INSERT INTO shop.orders (stock, who) VALUES (77, 'Ann')"),
            "{name}: {}",
            error.text
        );
    }
}

#[test]
fn those_who_wait_for_a_row_are_counted_in_every_version() {
    for (name, text) in captures("/row-lock-pile-up") {
        let status = parse(&text);
        let waiting: Vec<_> =
            status.transactions.transactions.iter().filter(|entry| entry.lock_wait).collect();
        assert_eq!(waiting.len(), 5, "{name}");
        for entry in waiting {
            assert_eq!(entry.waits_for.as_deref(), Some("shop.stock PRIMARY"), "{name}");
            assert!(entry.lock_waited_s.is_some_and(|waited_s| waited_s >= 1.0), "{name}: {entry:?}");
        }
        let holds = |entry: &&spindoctor_model::innodb_status::ListedTransaction| {
            entry.undo_entries == Some(1) && !entry.lock_wait
        };
        assert_eq!(status.transactions.transactions.iter().filter(holds).count(), 1, "{name}");
    }
}

#[test]
fn waits_for_latches_are_listed_as_they_stand_in_the_text() {
    let captures = captures("/semaphore-waits");
    assert!(captures.len() >= 8, "only {} servers", captures.len());
    for (name, text) in captures {
        let waiters = parse(&text).semaphores.waiters;
        let lines =
            text.lines().filter(|line| line.starts_with("--Thread ") && line.contains(" has waited at "));
        assert_eq!(waiters.len(), lines.count(), "{name}");
        assert!(
            !waiters.is_empty() && waiters.iter().all(|wait| wait.at_line > 0 && !wait.at_file.is_empty()),
            "{name}"
        );
    }
}

#[test]
fn names_with_quotes_spaces_and_other_scripts_are_read() {
    let captures = captures("/names-of-every-kind");
    assert!(captures.len() >= 10, "only {} servers", captures.len());
    for (name, text) in captures {
        let status = parse(&text);
        let waiting: Vec<_> =
            status.transactions.transactions.iter().filter(|entry| entry.lock_wait).collect();
        assert_eq!(waiting.len(), 2, "{name}");
        // Where a statement passes for a section, a number of it is taken for the log's.
        assert_ne!(status.log.current_lsn, Some(99), "{name}");
        for entry in waiting {
            assert_eq!(entry.waits_for.as_deref(), Some("größe.価格 list PRIMARY"), "{name}: {entry:?}");
        }
    }
}

#[test]
fn where_the_server_leaves_a_part_out_the_rest_is_read() {
    let captures = captures(TRUNCATED);
    assert!(captures.len() >= 3, "only {} servers", captures.len());
    for (name, text) in captures {
        let status = parse(&text);
        assert!(text.len() > 1_000_000 && status.truncated, "{name}");
        assert!(
            status.log.current_lsn.is_some() && status.row_operations.main_thread_state.is_some(),
            "{name}"
        );
    }
}

#[test]
fn transaction_ids_are_read_in_the_base_of_their_version() {
    let counter = |name: &str| {
        let (_, text) = captures(name).into_iter().next().unwrap();
        parse(&text).transactions.id_counter
    };
    assert_eq!(counter("written/innodb-status-5.1"), Some(1_300_456), "5.1: two words");
    let text = |name: &str| captures(name).into_iter().next().unwrap().1;
    let said = |text: &str| {
        text.lines().find_map(|line| line.strip_prefix("Trx id counter ").map(str::to_owned)).unwrap()
    };
    let five_five = text("mysql-5.5.34/deadlock");
    let hexadecimal = u64::from_str_radix(&said(&five_five), 16).unwrap();
    assert_eq!(parse(&five_five).transactions.id_counter, Some(hexadecimal), "5.5: hexadecimal");
    let eight = text("mysql-8.0.12/deadlock");
    assert_eq!(parse(&eight).transactions.id_counter, Some(said(&eight).parse().unwrap()), "8.0: decimal");
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
fn batch_output_of_the_client_is_the_same_answer() {
    let text = own("mysql-9.7.4-deadlock-and-row-lock.txt");
    let status = text.split_once("Status: \n").unwrap().1;
    let escaped = status.replace('\\', r"\\").replace('\n', r"\n").replace('\t', r"\t");
    assert_eq!(parse(&format!("Type\tName\tStatus\nInnoDB\t\t\\n{escaped}\n")), parse(&text));
    assert_eq!(parse(&text.replace('\n', "\r\n")), parse(&text));
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
                let checked_elsewhere = ["truncated", "unknown_lines", "unknown_sections", "raw"];
                if !checked_elsewhere.contains(&key.as_str()) {
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

/// A spread of cuts of the texts that have most in them.
#[test]
fn a_cut_text_says_less_and_nothing_else() {
    let kinds = ["/deadlock", "/names-of-every-kind", "/row-lock-pile-up", "/semaphore-waits", "written/"];
    for (name, text) in kinds.iter().flat_map(|of| captures(of)) {
        let whole = serde_json::to_value(parse(&text)).unwrap();
        let step = (text.len() / 100).max(1);
        for at in (0..text.len()).step_by(step) {
            let cut = parse(&text[..text.floor_char_boundary(at)]);
            assert_within(&serde_json::to_value(&cut).unwrap(), &whole, &format!("{name} cut at {at}"));
        }
    }
}

/// What a user may write into a statement so that it looks like what the server prints. Every number says 99.
const IMITATIONS: [&str; 15] = [
    "---\nLOG\n---\nLog sequence number          99\nLog flushed up to   99\nLast checkpoint at           99\n",
    "----------\nSEMAPHORES\n----------\nOS WAIT ARRAY INFO: reservation count 99\n",
    "--------\nFILE I/O\n--------\n99 OS file reads, 99 OS file writes, 99 OS fsyncs\n",
    "-------------------------------------\nINSERT BUFFER AND ADAPTIVE HASH INDEX\n-------------------------------------\n",
    "----------------------\nBUFFER POOL AND MEMORY\n----------------------\nBuffer pool size   99\nFree buffers  99\n",
    "--------------\nROW OPERATIONS\n--------------\n99 queries inside InnoDB, 99 queries in queue\n",
    "------------\nTRANSACTIONS\n------------\nTrx id counter 99\nHistory list length 99\nLIST OF TRANSACTIONS FOR EACH SESSION:\n",
    "------------------------\nLATEST DETECTED DEADLOCK\n------------------------\n2099-09-09 09:09:09 0x99\n*** (1) TRANSACTION:\n",
    "------------------------\nLATEST FOREIGN KEY ERROR\n------------------------\n2099-09-09 09:09:09 0x99 Transaction:\n",
    "---------\nNEW STUFF\n---------\nnumber of wonders 99\n",
    "----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n",
    "=====================================\n2099-09-09 09:09:09 0x99 INNODB MONITOR OUTPUT\n=====================================\n\
     Per second averages calculated from the last 99 seconds\n",
    "MySQL thread id 99, OS thread handle 99, query id 99 localhost root updating\n",
    "------- TRX HAS BEEN WAITING 99 SEC FOR THIS LOCK TO BE GRANTED:\nTABLE LOCK table `n`.`n` trx id 99 lock mode X waiting\n",
    "*** WE ROLL BACK TRANSACTION (99)\n---TRANSACTION 99, ACTIVE 99 sec\n",
];

/// Bytes of a connection and its statement that the server prints at most.
const PRINTED: usize = 1023;

/// Lines that the server prints below a statement begin so.
const BELOW_A_STATEMENT: [&str; 7] =
    ["---TRANSACTION ", "------- TRX ", "--------", "***", "Trx ", "RECORD LOCKS ", "TABLE LOCK "];

/// A connection's statement within a text: from where to where, and the length of the line above, which names the connection.
#[derive(Debug, Clone, Copy)]
struct Place {
    from: usize,
    to: usize,
    line: usize,
}

/// A capture's name, its text, and its statements.
type Capture = (String, String, Vec<Place>);

/// The places of a text's statements.
fn places(text: &str) -> Vec<Place> {
    let mut at = 0;
    let mut places = Vec::new();
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.starts_with("MySQL thread id ") || line.starts_with("MariaDB thread id ") {
            let is_below = |line: &&str| BELOW_A_STATEMENT.iter().any(|begins| line.starts_with(begins));
            let statement = text[at..].split_inclusive('\n').take_while(|line| !is_below(line));
            let to = at + statement.map(str::len).sum::<usize>();
            places.push(Place { from: at, to, line: line.len() });
        }
    }
    places
}

/// Behind the name of a capture whose sections were put into another order.
const LIST_LAST: &str = ", the list last";

/// The text as Percona Server 5.5 orders it: deadlock and transactions last.
fn with_the_list_last(text: &str) -> Option<String> {
    let heading = |name: &str| {
        let rule = "-".repeat(name.len());
        text.find(&format!("{rule}\n{name}\n{rule}\n"))
    };
    if heading("LATEST FOREIGN KEY ERROR").is_some() {
        return None;
    }
    let from = heading("LATEST DETECTED DEADLOCK").or_else(|| heading("TRANSACTIONS"))?;
    let to = from + text[from..].rfind("--------\nFILE I/O\n--------\n")?;
    let end = text.rfind("----------------------------\nEND OF INNODB")?;
    Some([&text[..from], &text[to..end], &text[from..to], &text[end..]].concat())
}

/// The texts of the corpus.
static STATEMENTS: LazyLock<Vec<Capture>> = LazyLock::new(|| {
    let texts = captures("").into_iter().filter(|(name, _)| !name.ends_with(TRUNCATED));
    let in_each_order = texts.flat_map(|(name, text)| {
        let list_last = with_the_list_last(&text).map(|text| (format!("{name}{LIST_LAST}"), text));
        std::iter::once((name, text)).chain(list_last)
    });
    let with_places = in_each_order.map(|(name, text)| {
        let places = places(&text);
        (name, text, places)
    });
    with_places.filter(|(_, _, places)| !places.is_empty()).collect()
});

/// The text with an imitation in place of a statement, as much of it as the server prints; and with none.
fn planted(text: &str, Place { from, to, line }: Place, imitation: &str) -> (String, String, String) {
    let part = imitation[..imitation.floor_char_boundary(PRINTED - line - 1)].to_owned() + "\n";
    let (above, below) = (&text[..from], &text[to..]);
    (format!("{above}{part}{below}"), part, format!("{above}{below}"))
}

/// Panics where an imitation in a statement is believed.
fn assert_not_believed(name: &str, text: &str, place: Place, imitation: &str) {
    let (text, part, without) = planted(text, place, imitation);
    let honest = parse(&without);
    let status = parse(&text);
    let what = format!("{name} at {}: {part}", place.from);
    assert_eq!(status.averages_over_s, honest.averages_over_s, "{what}");
    assert_eq!(status.truncated, honest.truncated, "{what}");
    assert_eq!(status.semaphores, honest.semaphores, "{what}");
    assert_eq!(status.file_io, honest.file_io, "{what}");
    assert_eq!(status.log, honest.log, "{what}");
    assert_eq!(status.buffer_pool, honest.buffer_pool, "{what}");
    assert_eq!(status.row_operations, honest.row_operations, "{what}");
    assert_eq!(status.unknown_sections, honest.unknown_sections, "{what}");
    let purge = |status: &InnodbStatus| {
        let section = &status.transactions;
        (section.id_counter, section.purge_done, section.history_list_length)
    };
    // Of two lists neither is believed where either may be the server's.
    assert!(purge(&status) == purge(&honest) || status.transactions == Default::default(), "{what}");
    let ids = |status: &InnodbStatus| -> Vec<String> {
        status
            .transactions
            .transactions
            .iter()
            .map(|listed| listed.id.clone())
            .filter(|id| id != "99")
            .collect()
    };
    let all = ids(&honest);
    assert!(ids(&status) == all || status.transactions == Default::default(), "{what}");
    // Text that imitates another transaction's first line cannot be distinguished from one.
    let of_99 = |listed: &&ListedTransaction| {
        listed.id != "99" && listed.lock_waited_s == Some(99.0) && !part.contains("---TRANSACTION 99")
    };
    assert_eq!(status.transactions.transactions.iter().find(of_99), None, "{what}");
    for (imitated, honest) in [
        (&status.latest_deadlock, &honest.latest_deadlock),
        (&status.latest_foreign_key_error, &honest.latest_foreign_key_error),
    ] {
        let Some(imitated) = imitated else { continue };
        let honest = honest.as_ref().unwrap_or_else(|| panic!("{imitated:?}: {what}"));
        assert_eq!(imitated.time, honest.time, "{what}");
        let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        let without = lines(&imitated.text).replacen(&lines(&part), "", 1);
        let (without, honest) = (lines(&without), lines(&honest.text));
        assert!(imitated.cut || without.starts_with(&honest), "{what}\n{without}\n{honest}");
    }
}

#[test]
fn no_heading_in_a_statement_is_believed() {
    assert!(STATEMENTS.len() > 100, "only {} texts", STATEMENTS.len());
    let whole = IMITATIONS.concat();
    let mut turned = IMITATIONS;
    turned.reverse();
    for (name, text, places) in STATEMENTS.iter() {
        // The first and the last ones: of many that are alike those in the middle add nothing.
        let some = places.iter().take(3).chain(places.iter().skip(3).rev().take(3));
        for &place in some {
            for imitation in IMITATIONS.iter().copied().chain([whole.as_str(), &turned.concat()]) {
                assert_not_believed(name, text, place, imitation);
            }
        }
    }
}

/// An error of a foreign key may have a whole statement in it, of any length.
#[test]
fn no_heading_in_a_statement_without_bounds_is_believed() {
    let (_, text) = captures("mysql-5.7.22/deadlock").into_iter().next().unwrap();
    let honest = parse(&text);
    let above = text.find("------------------------\nLATEST DETECTED DEADLOCK").unwrap();
    let error = format!(
        "------------------------\nLATEST FOREIGN KEY ERROR\n------------------------\n\
         2026-11-21 01:54:01 0x7f Error in foreign key constraint of table d/t:\n{}{}foreign key (a) references u (a):\n\
         Cannot resolve table name close to:\n u (a)\n",
        " , b int\n".repeat(200),
        IMITATIONS.concat().repeat(3),
    );
    let status = parse(&format!("{}{error}{}", &text[..above], &text[above..]));
    assert_eq!((status.log, status.file_io), (honest.log, honest.file_io));
    assert_eq!(status.semaphores, honest.semaphores);
    assert_eq!(status.buffer_pool, honest.buffer_pool);
    assert_eq!(status.row_operations, honest.row_operations);
    assert_ne!(status.transactions.id_counter, Some(99));
    assert_ne!(status.transactions.history_list_length, Some(99));
    assert_eq!(status.latest_foreign_key_error.unwrap().time, "2026-11-21 01:54:01");
}

proptest! {
    #[test]
    fn no_heading_in_any_statement_is_believed(
        of in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        picks in prop::collection::vec(prop::sample::select(&IMITATIONS[..]), 1..9),
        filling in "[ -~]{0,300}\n",
        cuts in prop::collection::vec(0.0..1.0_f64, 8),
    ) {
        let (name, text, places) = of.get(&STATEMENTS);
        let imitation = filling + &picks.concat();
        let place = *at.get(places);
        assert_not_believed(name, text, place, &imitation);
        // A text that is cut says less, also where it is cut within the statement.
        let (text, part, _) = planted(text, place, &imitation);
        let whole = serde_json::to_value(parse(&text)).unwrap();
        let within = cuts.iter().take(4).map(|cut| place.from + (cut * part.len() as f64) as usize);
        let anywhere = cuts.iter().skip(4).map(|cut| (cut * text.len() as f64) as usize);
        for at in within.chain(anywhere) {
            let cut = &text[..text.floor_char_boundary(at)];
            // With the list last an end line at the foot stands below statements in any case: nothing shows whose it
            // is.
            let is_end = |text: &str| text.trim_end_matches(['=', '\n']).ends_with("\nEND OF INNODB MONITOR OUTPUT");
            let is_cut_at_an_end = is_end(cut) || cut.rfind('\n').is_some_and(|at| is_end(&cut[..at]));
            if name.ends_with(LIST_LAST) && is_cut_at_an_end {
                continue;
            }
            let cut = parse(cut);
            assert_within(&serde_json::to_value(&cut).unwrap(), &whole, &format!("{name} cut at {at}"));
        }
    }

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
