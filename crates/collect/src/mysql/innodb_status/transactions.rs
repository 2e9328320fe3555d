//! Section TRANSACTIONS: the purge's backlog, and every transaction that the server lists.
//!
//! The section holds text of statements: only lines with a fixed form are looked for, and in an entry nothing but the
//! wait line, the one below it, and the read view is believed below the line that names the connection, where the statement follows.

use spindoctor_model::innodb_status::{ListedTransaction, TransactionsSection};

use super::line::{numbers, squeeze, two_words, values, whole};
use super::{Unknown, YearDigits};

/// What the server prints in place of the transactions that do not fit into its 1 MiB.
pub(super) const TRUNCATED: &str = "... truncated...";

/// Reads the section; `is_whole` where its end is in the text.
pub(super) fn parse(
    lines: &[&str],
    is_whole: bool,
    year_digits: YearDigits,
    unknown: &mut Unknown,
) -> TransactionsSection {
    let mut section = TransactionsSection::default();
    let mut entry: Option<ListedTransaction> = None;
    let mut is_below_wait = false;
    for raw in lines {
        if raw.starts_with("---TRANSACTION ") {
            section.transactions.extend(entry.take());
            entry = heading(&squeeze(raw));
            if entry.is_none() {
                unknown.note(raw);
            }
        } else if raw.starts_with(TRUNCATED) {
            // The text goes on somewhere within another entry.
            section.transactions.extend(entry.take());
        } else if let Some(entry) = &mut entry {
            if is_below_wait && entry.lock_wait {
                entry.waits_for = waits_for(raw);
            }
            detail(raw, entry);
        } else if section.transactions.is_empty() {
            summary(&squeeze(raw), year_digits, &mut section);
        }
        is_below_wait = raw.starts_with("------- TRX HAS BEEN WAITING ");
    }
    // This line, below a statement, distinguishes the server's own word from what a statement says of its own wait.
    if let Some(entry) = entry.as_mut().filter(|_| !is_whole) {
        (entry.lock_waited_s, entry.waits_for) = (None, None);
    }
    section.transactions.extend(entry);
    section
}

/// The lines above the list.
fn summary(line: &str, year_digits: YearDigits, section: &mut TransactionsSection) {
    let id = |text| transaction_number(text, year_digits);
    // Trx id counter 0 1170664159      (5.0)
    // Trx id counter 55D015695         (5.1 plugin, 5.5)
    // Trx id counter 3392              (5.6 and later)
    if let Some([counter]) = values(line, "Trx id counter {}") {
        section.id_counter = id(counter);
    // Purge done for trx's n:o < 0 1170663853 undo n:o < 0 0
    // Purge done for trx's n:o < 3392 undo n:o < 0 state: running but idle
    } else if let Some([done]) = values(line, "Purge done for trx's n:o < {} undo n:o < ") {
        section.purge_done = id(done);
    // History list length 5198
    } else if let Some([length]) = numbers(line, "History list length {}") {
        section.history_list_length = Some(length);
    }
}

/// Two words up to the built-in InnoDB of 5.1, one in hexadecimal in the plugin and 5.5, one in
/// decimal since 5.6. Digits alone without a header could be either, so they say nothing.
fn transaction_number(text: &str, year_digits: YearDigits) -> Option<u64> {
    if text.contains(' ') {
        return two_words(text);
    }
    let hexadecimal =
        || text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(text, 16).ok())?;
    match year_digits {
        YearDigits::Two => hexadecimal(),
        YearDigits::Four => whole(text),
        YearDigits::Unknown if text.bytes().any(|byte| byte.is_ascii_alphabetic()) => hexadecimal(),
        YearDigits::Unknown => None,
    }
}

/// The first line of an entry.
///
/// ```text
/// ---TRANSACTION 0 3410, ACTIVE 236 sec, process no 5202, OS thread id 1141287232 starting index read
/// ---TRANSACTION 8885, ACTIVE (PREPARED) 0 sec                                              (8.0.12)
/// ---TRANSACTION (0x7effc0ebca30), not started                                              (MariaDB 10.3 and later)
/// ```
fn heading(line: &str) -> Option<ListedTransaction> {
    let [id, state] = values(line, "---TRANSACTION {}, {}")?;
    let mut entry = ListedTransaction { id: id.to_owned(), ..ListedTransaction::default() };
    if let Some(active) = state.strip_prefix("ACTIVE") {
        entry.active = true;
        let active = active.trim_start();
        let prepared = active.strip_prefix("(PREPARED)");
        entry.is_prepared = prepared.is_some();
        entry.active_s = duration(prepared.unwrap_or(active).trim_start());
    }
    if let Some((_, thread)) = state.split_once("OS thread id ") {
        entry.pthread_id = whole(thread.split([' ', ',']).next().unwrap_or_default());
    }
    Some(entry)
}

/// `236 sec ...`, `32 SEC`, `15000 us`.
fn duration(text: &str) -> Option<f64> {
    let mut words = text.split([' ', ',']);
    let number = whole(words.next()?)? as f64;
    match words.next()? {
        "sec" | "SEC" => Some(number),
        "us" => Some(number / 1e6),
        _ => None,
    }
}

/// The line below the wait line.
///
/// ```text
/// RECORD LOCKS space id 0 page no 52 n bits 72 index `PRIMARY` of table `test/t1` trx id 0 3410 lock_mode X waiting  (5.0)
/// RECORD LOCKS space id 0 page no 52 n bits 72 index `PRIMARY` of table `test`.`t` trx id 51C lock_mode X waiting    (5.5)
/// RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `test`.`t` trx id 23 lock_mode X waiting        (5.7 and later)
/// RECORD LOCKS space id 4 page no 3 n bits 72 index `PRIMARY` of table `t`.`a` trx table locks 1 total table locks 6  trx id 18 lock_mode X waiting (MariaDB 10.1)
/// TABLE LOCK table `test`.`t` trx id 23 lock mode AUTO-INC waiting
/// ```
fn waits_for(raw: &str) -> Option<String> {
    // MariaDB 10.1 counts the table's locks behind its name.
    let name_only =
        |table: &'_ str| table.rsplit_once(" trx table locks ").map_or(table.len(), |(name, _)| name.len());
    // Up to 5.1 a table is `test/t1`.
    let plain = |name: &str| {
        // In ANSI_QUOTES a name is `"test"."t"`.
        let quote = if name.starts_with('"') { '"' } else { '`' };
        match name.contains(&format!("{quote}.{quote}")) {
            true => name.replace(quote, ""),
            false => name.replace(quote, "").replacen('/', ".", 1),
        }
    };
    if let Some([_, _, _, index, table]) =
        values(raw, "RECORD LOCKS space id {} page no {} n bits {} index {} of table {} trx id ")
    {
        return Some(format!("{} {}", plain(&table[..name_only(table)]), plain(index)));
    }
    let [table] = values(raw, "TABLE LOCK table {} trx id ")?;
    Some(plain(&table[..name_only(table)]))
}

/// The lines of an entry below its first.
fn detail(raw: &str, entry: &mut ListedTransaction) {
    // ------- TRX HAS BEEN WAITING 32 SEC FOR THIS LOCK TO BE GRANTED:          (MySQL)
    // ------- TRX HAS BEEN WAITING 1234567 us FOR THIS LOCK TO BE GRANTED:      (MariaDB 10.5 and later)
    if let Some([waited]) = values(raw, "------- TRX HAS BEEN WAITING {} FOR THIS LOCK TO BE GRANTED:") {
        // LOCK WAIT stands above the connection, where no statement can have made it.
        if entry.lock_wait {
            entry.lock_waited_s = duration(waited);
        }
        return;
    }
    // Trx read view will not see trx with id >= 51D, sees < 51C                 (5.5)
    // Trx read view will not see trx with id >= 2345, sees < 2300               (5.6 and later, MariaDB)
    if let Some([first, _]) = values(raw, "Trx read view will not see trx with id >= {}, sees < {}") {
        // The server's own line is the last: it stands below the statement.
        entry.view_order = u64::from_str_radix(first, 16).ok();
        return;
    }
    if entry.connection_id.is_some() {
        return;
    }
    // MySQL thread id 14, query id 253 localhost root Sending data                               (5.0)
    // MySQL thread id 19, OS thread handle 0x7fac301e4700, query id 180 localhost root           (5.5, 5.6)
    // MySQL thread id 12, OS thread handle 139764849305344, query id 2432 localhost root         (5.7 and later)
    // MariaDB thread id 2081, OS thread handle 139636657866496, query id 109252 app              (MariaDB 10.3 and later)
    if let Some(rest) =
        raw.strip_prefix("MySQL thread id ").or_else(|| raw.strip_prefix("MariaDB thread id "))
    {
        let mut parts = rest.split(", ");
        entry.connection_id = parts.next().and_then(whole);
        if let Some(handle) = parts.next().and_then(|part| part.strip_prefix("OS thread handle ")) {
            entry.pthread_id = match handle.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => whole(handle),
            };
        }
        return;
    }
    // LOCK WAIT 2914 lock struct(s), heap size 293304, 231524 row lock(s), undo log entries 270
    // 5 lock struct(s), heap size 1216
    let (lock_wait, line) = match raw.strip_prefix("LOCK WAIT ") {
        Some(rest) => (true, rest),
        None => (false, raw),
    };
    let line =
        line.strip_prefix("ROLLING BACK ").or_else(|| line.strip_prefix("COMMITTING ")).unwrap_or(line);
    if let Some([structs]) = numbers(line, "{} lock struct(s), heap size ") {
        entry.lock_structs = Some(structs);
        entry.lock_wait |= lock_wait;
    } else if !line.starts_with(", undo log entries ") {
        return;
    }
    for part in line.split(", ") {
        if let Some([rows]) = numbers(part, "{} row lock(s)") {
            entry.row_locks = Some(rows);
        } else if let Some([entries]) = numbers(part.trim_start_matches(','), "undo log entries {}") {
            entry.undo_entries = Some(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_view_of_a_transaction_is_the_last_that_its_entry_prints() {
        let views = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            let section = parse(&lines, true, YearDigits::Four, &mut Unknown::default());
            section.transactions.iter().map(|entry| entry.view_order).collect::<Vec<_>>()
        };
        // As MySQL 5.7 and later and MariaDB print it, below the statement.
        let text = "---TRANSACTION 421, ACTIVE 400 sec fetching rows\n\
            mysql tables in use 1, locked 0\n\
            0 lock struct(s), heap size 1136, 0 row lock(s)\n\
            MySQL thread id 8, OS thread handle 140, query id 9 localhost app Sending data\n\
            SELECT 'a\nTrx read view will not see trx with id >= 1, sees < 1\n'\n\
            Trx read view will not see trx with id >= 2345, sees < 2300\n\
            ---TRANSACTION 2400, ACTIVE 3600 sec\n\
            1 lock struct(s), heap size 1136, 0 row lock(s), undo log entries 1\n\
            MySQL thread id 7, OS thread handle 141, query id 8 localhost app\n\
            ---TRANSACTION 2380, ACTIVE 9 sec\n\
            MySQL thread id 9, OS thread handle 142, query id 7 localhost app\n\
            Trx read view will not see trx with id >= 2381, sees < 2300\n";
        let found = views(text);
        assert!(found[0] < found[2] && found[0].is_some() && found[1].is_none(), "{found:?}");
        // In hexadecimal to 5.5.
        let old =
            "---TRANSACTION 51D, ACTIVE 3 sec\nTrx read view will not see trx with id >= 51E, sees < 51C\n";
        assert_eq!(views(old), [Some(0x51e)]);
    }
}
