//! `SHOW ENGINE INNODB STATUS` as it was pasted: whole, cut at either end, or single sections of it.
//!
//! What the server prints of its sessions and their locks is in no other reading of a capture, so it is read here as the lists
//! that a live server gives: threads, transactions, and who waits for whose lock.

mod shortened;
mod waits;

use std::borrow::Cow;
use std::collections::HashMap;

use spindoctor_collect::mysql::innodb_status;
use spindoctor_model::innodb_status::ListedTransaction;
use spindoctor_model::mysql::{RowLockWait, ServerThread, Transaction};
use spindoctor_model::printed_deadlock::PrintedLock;
use spindoctor_model::{InnodbStatus, printed_deadlock};

/// Characters of a statement that are kept.
const LONGEST: usize = 1_280;
/// Bytes of a status that are read: a client gets 1 MiB of it, a log has all of it.
const LONGEST_STATUS: usize = 16 << 20;
/// Transactions of one status that are read: a server with each connection that it can have.
const MOST_ENTRIES: usize = 100_000;
/// Locks of one transaction that are kept: the server prints some ten of them.
const MOST_LOCKS: usize = 200;
/// Records of one lock that are kept: a page of 16 KiB has some hundred.
const MOST_RECORDS: usize = 1_000;

/// What a status text says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StatusText {
    /// Its numbers.
    pub(crate) status: InnodbStatus,
    /// The connections that its list of transactions names.
    pub(crate) threads: Vec<ServerThread>,
    /// The transactions that are open.
    pub(crate) transactions: Vec<Transaction>,
    /// Who waits for whose lock, where a holder can be named.
    pub(crate) waits: Vec<RowLockWait>,
}

/// Headings of sections in the server's order, with the beginnings of lines that stand in no other.
const SECTIONS: [(&str, &[&str]); 7] = [
    (
        "SEMAPHORES",
        &["--Thread ", "OS WAIT ARRAY INFO: ", "RW-shared spins ", "Mutex spin waits ", "RW-excl spins "],
    ),
    // Its first lines may not have been copied.
    (
        "LATEST DETECTED DEADLOCK",
        &[
            printed_deadlock::FIRST_LINE,
            "*** (1) HOLDS THE LOCK",
            "*** (1) WAITING FOR THIS LOCK",
            "*** (2) TRANSACTION:",
        ],
    ),
    ("TRANSACTIONS", &["---TRANSACTION ", "Trx id counter ", "Purge done for trx", "History list length "]),
    ("FILE I/O", &["Pending normal aio reads:", "I/O thread 0 state:", "Pending flushes (fsync)"]),
    ("LOG", &["Log sequence number ", "Log flushed up to ", "Last checkpoint at "]),
    (
        "BUFFER POOL AND MEMORY",
        &["Total memory allocated ", "Total large memory allocated ", "Buffer pool size ", "Free buffers "],
    ),
    ("ROW OPERATIONS", &["Number of rows inserted ", "Main thread process no."]),
];

/// The heading of the last foreign key error.
const FOREIGN_KEY: &str = "LATEST FOREIGN KEY ERROR";

/// Other headings of the text.
const OTHERS: [&str; 7] = [
    "BACKGROUND THREAD",
    FOREIGN_KEY,
    "LATEST DETECTED DEADLOCK",
    "INSERT BUFFER AND ADAPTIVE HASH INDEX",
    "INDIVIDUAL BUFFER POOL INFO",
    "DEADLOCK",
    "TRANSACTIONS",
];

/// True for a line that stands in a status text and nowhere else.
pub(crate) fn is_of_status(line: &str) -> bool {
    line.starts_with("--Thread ") && line.contains(" has waited at ")
        || SECTIONS.iter().any(|(_, lines)| {
            lines[..].iter().any(|begins| line.starts_with(begins)) && !line.starts_with("--Thread ")
        })
        || ["------- TRX HAS BEEN WAITING ", "RECORD LOCKS space id ", "TABLE LOCK table "]
            .iter()
            .any(|begins| line.starts_with(begins))
        || is_thread_line(line)
        || is_wait_line(line)
        || is_foreign_key(line)
}

/// True for the first line of a foreign key error, with its time or without.
fn is_foreign_key(line: &str) -> bool {
    ["Error in foreign key constraint of table ", "Foreign key constraint fails for table "]
        .iter()
        .any(|begins| line.contains(begins))
}

fn is_thread_line(line: &str) -> bool {
    ["MySQL thread id ", "MariaDB thread id "].iter().any(|begins| line.starts_with(begins))
        && line.contains(" query id ")
}

/// `LOCK WAIT 2 lock struct(s), heap size 376, 1 row lock(s)`: of a transaction that waits, above its connection.
fn is_wait_line(line: &str) -> bool {
    line.strip_prefix("LOCK WAIT ").is_some_and(|rest| rest.contains(" lock struct(s)"))
}

/// True for a heading of the text between its rules.
pub(crate) fn is_heading(line: &str) -> bool {
    let line = line.trim();
    SECTIONS.iter().any(|(heading, _)| *heading == line) || OTHERS.contains(&line)
}

/// Reads a text, or what there is of one. None where it says nothing.
pub(crate) fn read(text: &str) -> Option<StatusText> {
    let text = &text[..text.floor_char_boundary(LONGEST_STATUS)];
    let text = with_headings(&with_history_first(text));
    let mut status = innodb_status::parse(&text);
    shortened::add_sections(&text, &mut status);
    let (threads, entries) = entries(&text, &status);
    let waits = waits::between(&entries, &status);
    let transactions =
        entries.iter().filter(|entry| entry.is_active).map(|entry| entry.transaction.clone()).collect();
    let said = StatusText { status, threads, transactions, waits };
    let nothing = InnodbStatus {
        truncated: said.status.truncated,
        raw: said.status.raw.clone(),
        unknown_lines: said.status.unknown_lines.clone(),
        unknown_sections: said.status.unknown_sections.clone(),
        ..InnodbStatus::default()
    };
    // Of a transaction that lost its first lines, the wait alone is known, or that it waits.
    let waits = !said.waits.is_empty() || said.transactions.iter().any(|one| one.state == "LOCK WAIT");
    (said.status != nothing || waits).then_some(said)
}

/// The text with the length of the history list before its transactions, where the server prints it: who pasted a few lines of a status may
/// have put it below them, where it would be a line of a transaction.
fn with_history_first(text: &str) -> Cow<'_, str> {
    const LENGTH: &str = "History list length ";
    let is_length = |line: &&str| {
        let digits = line.strip_prefix(LENGTH).map(str::trim_end);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if text.lines().filter(is_length).count() != 1 || text.contains("INNODB MONITOR OUTPUT") {
        return Cow::Borrowed(text);
    }
    let first = text.lines().position(|line| line.starts_with("---TRANSACTION "));
    let length = text.lines().position(|line| is_length(&line));
    let (Some(first), Some(length)) = (first, length) else { return Cow::Borrowed(text) };
    if length < first {
        return Cow::Borrowed(text);
    }
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line = lines.remove(length);
    lines.insert(first, line);
    let moved: String = lines
        .iter()
        .map(|line| if line.ends_with('\n') { (*line).to_owned() } else { format!("{line}\n") })
        .collect();
    Cow::Owned(moved)
}

/// The text with the headings of the sections whose lines stand in it: a part that was pasted lost them, or their rules.
fn with_headings(text: &str) -> String {
    let is_rule = |line: Option<&&str>| {
        line.is_some_and(|line| line.len() >= 3 && line.bytes().all(|byte| byte == b'-'))
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let plain: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let has_heading = |heading: &str| plain.iter().any(|line| line.trim() == heading);
    let missing: Vec<(&str, &[&str])> =
        SECTIONS.iter().copied().filter(|(heading, _)| !has_heading(heading)).collect();
    // What stands above the first section, and then each section below its heading.
    let mut parts: Vec<(&str, String)> = vec![("", String::new())];
    let mut now = 0;
    for (at, line) in plain.iter().enumerate() {
        if is_heading(line) {
            let above = if is_rule(at.checked_sub(1).and_then(|above| plain.get(above))) { "" } else { RULE };
            let below = if is_rule(plain.get(at + 1)) { "" } else { RULE };
            now = parts.len();
            parts.push((line.trim(), format!("{above}{}\n{below}", line.trim())));
            continue;
        }
        let section = missing.iter().find(|(_, lines)| lines.iter().any(|begins| line.starts_with(begins)));
        if let Some(&(heading, _)) = section.filter(|(heading, _)| *heading != parts[now].0) {
            // A section that somebody wrote between goes on where it began.
            now = parts.iter().position(|(other, _)| *other == heading).unwrap_or(parts.len());
            if now == parts.len() {
                parts.push((heading, format!("{RULE}{heading}\n{RULE}")));
            }
        } else if parts[now].0.is_empty() && is_foreign_key(line) && !has_heading(FOREIGN_KEY) {
            now = parts.len();
            parts.push((FOREIGN_KEY, format!("{RULE}{FOREIGN_KEY}\n{RULE}")));
        } else if parts[now].0.is_empty() && (is_thread_line(line) || is_wait_line(line)) {
            // A list of transactions that lost its first lines.
            let is_missing = missing.iter().any(|(heading, _)| *heading == "TRANSACTIONS");
            match is_missing {
                true => {
                    now = parts.len();
                    parts.push(("TRANSACTIONS", format!("{RULE}TRANSACTIONS\n{RULE}")));
                }
                false => parts[now].0 = "TRANSACTIONS",
            }
        }
        parts[now].1.push_str(lines[at]);
        if !lines[at].ends_with('\n') && at + 1 < lines.len() {
            parts[now].1.push('\n');
        }
    }
    if missing.len() == SECTIONS.len() {
        // Nothing of the text's own says in which order they stood.
        parts.sort_by_key(|(heading, _)| SECTIONS.iter().position(|(other, _)| other == heading));
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// What stands above and below a heading.
const RULE: &str = "----------\n";

/// An entry of the list of transactions.
#[derive(Debug, Clone, Default)]
struct Entry {
    transaction: Transaction,
    is_active: bool,
    /// What the heading says behind the time: `setting auto-inc lock`.
    does: String,
    /// The lock that it waits for, and those that it has, as printed.
    wanted: Option<Lock>,
    held: Vec<Lock>,
    /// The lock printed last is the one that it waits for.
    is_wanted_last: bool,
    tail: Option<String>,
    pthread_id: Option<u64>,
    is_cut: bool,
}

/// A lock, as a status prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lock {
    printed: PrintedLock,
    /// The records of the page, by heap number, as far as the text prints them.
    records: Vec<u32>,
}

/// `------- TRX HAS BEEN WAITING 20 SEC FOR THIS LOCK TO BE GRANTED:`, in microseconds on MariaDB 10.5 and later.
fn waited(line: &str) -> Option<f64> {
    let mut words = line.strip_prefix("------- TRX HAS BEEN WAITING ")?.split(' ');
    let number: f64 = words.next()?.parse().ok()?;
    match words.next()? {
        "SEC" => Some(number),
        "us" => Some(number / 1e6),
        _ => None,
    }
}

/// `Record lock, heap no 43 PHYSICAL RECORD: n_fields 5; ...`
fn record(line: &str) -> Option<u32> {
    let (_, rest) = line.trim_start().strip_prefix("Record lock, ")?.split_once("heap no ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Threads and transactions of the list.
fn entries(text: &str, status: &InnodbStatus) -> (Vec<ServerThread>, Vec<Entry>) {
    let mut entries: Vec<Entry> = Vec::new();
    let mut in_statement = false;
    let mut is_below_wait = false;
    let lines: Vec<&str> = text.lines().collect();
    let has_deadlock = lines.iter().any(|line| line.starts_with("***") || line.contains("DETECTED DEADLOCK"));
    for (at, line) in lines.iter().enumerate() {
        if entries.len() > MOST_ENTRIES {
            break;
        }
        let next_is_heading = lines.get(at + 1).is_some_and(|next| is_heading(next));
        if let Some(rest) = line.strip_prefix("---TRANSACTION ") {
            let is_behind_a_gap =
                at.checked_sub(1).is_some_and(|above| lines[above].starts_with("... truncated"));
            if let Some(last) = entries.last_mut().filter(|_| !is_behind_a_gap) {
                last.is_cut = false;
            }
            entries.push(heading(rest));
            in_statement = false;
        } else if line.starts_with("---") && next_is_heading || line.starts_with("====") {
            // The list ends; what follows is no entry's.
            in_statement = false;
            if let Some(last) = entries.last_mut() {
                last.is_cut = false;
            }
            if entries.last().is_some_and(|last| last.is_active || last.tail.is_some()) {
                entries.push(Entry::default());
            }
        } else {
            if entries.is_empty() {
                // Of a deadlock it is over.
                let without_lock = || waiter_without_lock(&lines, at).filter(|_| !has_deadlock);
                entries.extend(waiter_without_head(&lines, at).or_else(without_lock));
            }
            let Some(entry) = entries.last_mut() else { continue };
            if is_thread_line(line) {
                connection(line, entry);
                in_statement = true;
            } else if line.starts_with("------- TRX HAS BEEN WAITING ")
                || line.starts_with("------------------")
            {
                in_statement = false;
                // Below it stands the lock: of what a statement says of itself, none does.
                if lines.get(at + 1).and_then(|below| self::lock(below)).is_some_and(|(_, waits)| waits) {
                    entry.transaction.waited_s = waited(line);
                }
            } else if let Some((lock, waits)) = lock(line) {
                in_statement = false;
                entry.is_wanted_last = waits;
                match waits && is_below_wait {
                    true => entry.wanted = Some(lock),
                    false if waits => {
                        entry.wanted.get_or_insert(lock);
                    }
                    false if entry.held.len() < MOST_LOCKS => entry.held.push(lock),
                    false => {}
                }
            } else if let Some(record) = record(line) {
                let last = match entry.is_wanted_last {
                    true => entry.wanted.as_mut(),
                    false => entry.held.last_mut(),
                };
                if let Some(lock) = last.filter(|lock| lock.records.len() < MOST_RECORDS) {
                    lock.records.push(record);
                }
            } else if in_statement
                && !line.starts_with("Trx read view ")
                && !line.starts_with("Trx #rec lock ")
            {
                let statement = entry.transaction.statement.get_or_insert_default();
                if statement.chars().count() < LONGEST {
                    if !statement.is_empty() {
                        statement.push('\n');
                    }
                    statement.push_str(line);
                }
            } else if line.contains("ROLLING BACK") && line.contains("lock struct(s)") {
                entry.transaction.state = "ROLLING BACK".to_owned();
            } else if line.starts_with("LOCK WAIT ") {
                entry.transaction.state = "LOCK WAIT".to_owned();
            }
        }
        is_below_wait = line.starts_with("------- TRX HAS BEEN WAITING ");
    }
    entries.retain(|entry| !entry.transaction.id.is_empty());
    // The first of a number counts.
    let mut listed_by_id: HashMap<(&str, Option<u64>), &ListedTransaction> = HashMap::new();
    for listed in &status.transactions.transactions {
        listed_by_id.entry((listed.id.as_str(), listed.connection_id)).or_insert(listed);
    }
    for entry in &mut entries {
        if let Some(statement) = &mut entry.transaction.statement {
            let kept = statement.trim_end().len();
            statement.truncate(kept);
        }
        entry.transaction.statement = entry.transaction.statement.take().filter(|text| !text.is_empty());
        let listed =
            listed_by_id.get(&(entry.transaction.id.as_str(), entry.transaction.connection_id)).copied();
        if let Some(listed) = listed {
            entry.transaction.age_s = listed.active_s.unwrap_or(0.0);
            entry.transaction.waited_s = listed.lock_waited_s.or(entry.transaction.waited_s);
            entry.transaction.rows_locked = listed.row_locks.unwrap_or(0);
            entry.transaction.rows_modified = listed.undo_entries.unwrap_or(0);
            entry.pthread_id = listed.pthread_id;
            if listed.lock_wait {
                entry.transaction.state = "LOCK WAIT".to_owned();
            }
        }
    }
    let threads = entries.iter().filter_map(thread).filter(|thread| !is_own(thread)).collect();
    (threads, entries)
}

/// The transaction that waits for a lock in a text that was cut behind its first line: its number stands in the lock. Above may stand its
/// connection and statement.
fn waiter_without_head(lines: &[&str], at: usize) -> Option<Entry> {
    /// Lines from a connection to the wait.
    const FARTHEST: usize = 40;
    waited(lines[at])?;
    let (_, rest) = lines
        .get(at + 1)
        .filter(|below| lock(below).is_some_and(|(_, waits)| waits))?
        .split_once(" trx id ")?;
    let id = rest.split(" lock").next().unwrap_or_default().trim();
    let mut entry = heading(&format!("{id}, ACTIVE 0 sec"));
    entry.transaction.state = "LOCK WAIT".to_owned();
    let above = &lines[at.saturating_sub(FARTHEST)..at];
    let of = above.iter().rposition(|line| is_thread_line(line));
    if let Some(of) =
        of.filter(|of| !above[*of..].iter().any(|line| line.starts_with("***") || is_heading(line)))
    {
        connection(above[of], &mut entry);
        entry.transaction.statement = Some(above[of + 1..].join("\n"));
    }
    Some(entry)
}

/// The transaction that waits in a text that was cut behind its first line and has not the lock either: its connection stands for its
/// number, below the line that says that it waits or above the one that says for how long.
fn waiter_without_lock(lines: &[&str], at: usize) -> Option<Entry> {
    /// Lines of one transaction that are looked at.
    const FARTHEST: usize = 40;
    let own: Vec<&str> = if is_wait_line(lines[at]) {
        let below = lines[at + 1..].iter().take(FARTHEST);
        below.take_while(|line| !line.starts_with("---TRANSACTION ")).copied().collect()
    } else {
        waited(lines[at])?;
        let above = &lines[at.saturating_sub(FARTHEST)..(at + 2).min(lines.len())];
        let first = above.iter().rposition(|line| is_thread_line(line))?;
        above[first..].to_vec()
    };
    let has_lock = own.iter().enumerate().any(|(at, line)| {
        waited(line).is_some()
            && own.get(at + 1).and_then(|below| lock(below)).is_some_and(|(_, waits)| waits)
    });
    if has_lock {
        return None;
    }
    let mut entry = heading(", ACTIVE 0 sec");
    connection(own.iter().find(|line| is_thread_line(line))?, &mut entry);
    entry.transaction.id = entry.transaction.connection_id?.to_string();
    entry.transaction.state = "LOCK WAIT".to_owned();
    entry.transaction.waited_s = own.iter().find_map(|line| waited(line));
    if !is_wait_line(lines[at]) {
        let statement = own[1..].iter().take_while(|line| waited(line).is_none());
        entry.transaction.statement = Some(statement.copied().collect::<Vec<_>>().join("\n"));
    }
    Some(entry)
}

fn is_own(thread: &ServerThread) -> bool {
    let statement = thread.statement.as_deref().unwrap_or_default().to_ascii_lowercase();
    statement.starts_with("show engine innodb status") || statement.starts_with("show innodb status")
}

/// `1184937, ACTIVE 9 sec setting auto-inc lock`
fn heading(text: &str) -> Entry {
    let (id, state) = text.split_once(", ").unwrap_or((text, ""));
    let is_active = state.starts_with("ACTIVE");
    let does = match state.strip_prefix("not started") {
        Some(rest) => rest,
        None => ["sec ", "us ", "SEC "]
            .iter()
            .find_map(|unit| Some(state.split_once(unit)?.1))
            .unwrap_or_default(),
    };
    let does = does.trim().trim_end_matches(':');
    // Up to 5.1: `process no 5202, OS thread id 1141287232 starting index read`.
    let does = match does.split_once("OS thread id ") {
        Some((_, rest)) => rest.split_once(' ').map_or("", |(_, rest)| rest),
        None => does,
    };
    Entry {
        transaction: Transaction {
            id: id.trim().to_owned(),
            state: if does.contains("rollback") { "ROLLING BACK" } else { "RUNNING" }.to_owned(),
            ..Transaction::default()
        },
        is_active,
        does: does.to_owned(),
        is_cut: true,
        ..Entry::default()
    }
}

/// `MySQL thread id 75344, OS thread handle 123145509613568, query id 2357977 localhost 127.0.0.1 root Sending data`
fn connection(line: &str, entry: &mut Entry) {
    let number = |text: &str| text.split([',', ' ']).next().and_then(|digits| digits.parse::<u64>().ok());
    entry.transaction.connection_id = line.split_once(" thread id ").and_then(|(_, rest)| number(rest));
    entry.tail = line
        .split_once(" query id ")
        .map(|(_, rest)| rest.split_once(' ').map_or("", |(_, tail)| tail).to_owned());
}

/// `TABLE LOCK table ...`, `RECORD LOCKS ...`: the lock, and whether it is waited for.
fn lock(line: &str) -> Option<(Lock, bool)> {
    let (printed, waits) = PrintedLock::from_line(line)?;
    Some((Lock { printed, records: Vec::new() }, waits))
}

/// The connection of an entry.
fn thread(entry: &Entry) -> Option<ServerThread> {
    let connection_id = entry.transaction.connection_id?;
    let tail = entry.tail.as_deref().unwrap_or_default();
    let words: Vec<&str> = tail.split(' ').filter(|word| !word.is_empty()).collect();
    let is_address = |word: &str| {
        word.parse::<std::net::IpAddr>().is_ok()
            || word.split('.').count() == 4 && word.contains(|c: char| c.is_ascii_digit())
    };
    // Host, address (none of a local client), user, state; of an applier nothing but a state.
    let (host, user, from) = match words[..] {
        [first, second, third, ..] if is_address(second) && !is_address(first) => (first, third, 3),
        [first, second, ..] if is_address(first) || first == "localhost" || !second.contains(' ') => {
            (first, second, 2)
        }
        [first] => ("", first, 1),
        _ => ("", "", 0),
    };
    let mut state = words.get(from..).unwrap_or_default().join(" ");
    // Of a session at InnoDB's door the server's own state says what it did before.
    let is_at_the_door =
        ["sleeping before ", "waiting in InnoDB queue"].iter().any(|door| entry.does.starts_with(door));
    if state.is_empty() || is_at_the_door {
        state.clone_from(&entry.does);
    }
    let statement = entry.transaction.statement.clone();
    // What InnoDB does for a session shows that it has a statement, which is not printed for all of them.
    let works = statement.is_some() || !state.is_empty() && state != "cleaning up" && state != "cleaned up";
    let is_applier =
        user == "system" || tail.contains("relay log") || tail.contains("Slave") || tail.contains("Replica");
    Some(ServerThread {
        connection_id: Some(connection_id),
        is_connection: !is_applier,
        user: user.to_owned(),
        host: host.to_owned(),
        command: if works { "Query" } else { "Sleep" }.to_owned(),
        time_s: entry.transaction.waited_s.unwrap_or(entry.transaction.age_s),
        state: if works { state } else { String::new() },
        statement,
        ..ServerThread::default()
    })
}

#[cfg(test)]
mod tests;
