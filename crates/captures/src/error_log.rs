//! A server's error log: what it says of trouble (`log_troubles.rs`), counted, and the waits for latches that it prints; `death` has how the
//! server died.

mod death;

use jiff::civil::DateTime;
use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_model::{LoggedTrouble, ServerVersion, TroubleKind, number, printed_deadlock};

use crate::log_lines::{behind_level, error, is_of_log};
use crate::log_troubles::{ENTRIES, meanings};
use crate::server_version::version;
use crate::unknown_errors::Unknown;
use crate::{
    client_errors, clock, crashed_tables, kernel_log, kernel_tasks, log_replication, log_troubles,
    lost_connections, own_checks, peers, safe_log, secrets, shell_notices, shutdowns, start_errors,
    systemd_log, tool_errors, unfinished_start, vote_languages, votes,
};

pub(crate) use death::{death_in, function_of_death};

/// What a log says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ErrorLog {
    /// Of each trouble one line, in the order of the catalogue below.
    pub(crate) says: Vec<String>,
    /// The time of its last line that has one.
    pub(crate) time: Option<DateTime>,
    /// The server that wrote it.
    pub(crate) version: Option<ServerVersion>,
    /// The last waits for latches that it prints, with the server's own verdict where it has one.
    pub(crate) waits: Option<String>,
    /// The last deadlock that it prints, as a status has it.
    pub(crate) deadlock: Option<String>,
    /// The troubles that causes rest on.
    pub(crate) troubles: Vec<LoggedTrouble>,
    /// The channels of a replica of which a part had stopped when it ends.
    pub(crate) channels: Vec<ReplicaChannel>,
}

/// Characters of a line that are shown.
const SHOWN: usize = 300;

/// What the lines of one entry of the catalogue come to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally<'t> {
    count: u64,
    /// When the last of them was written, by the clock of the server or of the kernel.
    last: Option<DateTime>,
    /// The same as the line has it: systemd's may be that of another time zone.
    written: Option<DateTime>,
    /// The last of them, and the one before that.
    line: &'t str,
    above: &'t str,
    /// The longest time that one of them names, milliseconds.
    longest_ms: u64,
    /// A later line takes it back.
    is_over: bool,
    /// The server was started again after the last of them.
    is_of_earlier_start: bool,
}

impl<'t> Tally<'t> {
    /// Counts a line, of which `lower` is the beginning in lower case.
    fn add(&mut self, line: &'t str, lower: &str, at: Option<DateTime>) {
        // What goes on names the file no more.
        if !(log_troubles::still_waits(lower) && self.count > 0) {
            (self.above, self.line) = (self.line, line);
        }
        self.count += 1;
        self.last = at;
        self.is_over = false;
        self.is_of_earlier_start = false;
        let duration_ms = || log_troubles::duration_ms(lower).or_else(|| kernel_tasks::duration_ms(lower));
        self.longest_ms = self.longest_ms.max(duration_ms().unwrap_or(0));
    }

    /// As causes rest on it; `end` is when the log ends.
    fn trouble(&self, kind: TroubleKind, source: &str, end: Option<DateTime>) -> LoggedTrouble {
        let line = start_errors::without_value(self.line);
        let line = bare(without_rest(&line));
        // What an applier says has values of rows.
        let line = match kind {
            TroubleKind::NodeDiffers => spindoctor_sql::error_without_values(line),
            TroubleKind::TableCrashed if line.contains(" on query. ") => {
                spindoctor_sql::error_without_values(line)
            }
            TroubleKind::Crashed => secrets::without_secrets(shell_notices::without_command(line)),
            _ => secrets::without_secrets(line),
        };
        LoggedTrouble {
            kind,
            times: self.count,
            before_end_s: self.last.zip(end).map(|(last, end)| clock::seconds(last, end).max(0.0)),
            line: line.chars().take(SHOWN).collect(),
            detail: String::new(),
            source: source.to_owned(),
            longest_s: (self.longest_ms > 0).then(|| self.longest_ms as f64 / 1e3),
        }
    }
}

/// The line of a crash without what follows its signal, where the ends of lines were lost: `mysqld got signal 11 ; This could be because`.
fn without_rest(line: &str) -> &str {
    let end = line.find("got signal ").and_then(|at| Some(at + line[at..].find(';')?));
    end.map_or(line, |end| &line[..=end])
}

/// A line without what a letter, a page or a frame put around it: `> `, backquotes, bars.
fn bare(line: &str) -> &str {
    line.trim_start_matches([' ', '\t', '>', '`', '│']).trim_end_matches([' ', '\t', '`', '│'])
}

/// A line in lower case: of a long one its beginning and its end, where the number of an error stands behind a statement.
fn ends_in_lower_case(line: &str) -> String {
    const BEGINNING: usize = 600;
    const END: usize = 200;
    if line.len() <= BEGINNING + END {
        return line.to_ascii_lowercase();
    }
    let beginning = &line[..line.floor_char_boundary(BEGINNING)];
    let end = &line[line.floor_char_boundary(line.len() - END)..];
    format!("{beginning} {end}").to_ascii_lowercase()
}

/// Who says what a client prints.
const OF_CLIENT: &str = "error of a client";

/// Reads a log.
pub(crate) fn read(text: &str) -> ErrorLog {
    let whole = log_replication::whole(text);
    let whole = client_errors::with_causes(&whole);
    let text: &str = &whole;
    let mut log = ErrorLog::default();
    let mut tallies = [Tally::default(); ENTRIES];
    let mut waits: Vec<&str> = Vec::new();
    let mut in_waits = false;
    let mut unknown = Unknown::default();
    let ends_start: Vec<bool> = meanings().map(|(_, kind)| kind == Some(TroubleKind::NotStarted)).collect();
    let mut is_leaving = false;
    let is_of_backup = own_checks::is_of_backup(text);
    // Of crashes whose signal is not among what was given.
    let mut backtraces = Tally::default();
    // The last time by the kernel's clock, which may be that of another time zone.
    let mut kernel_end = None;
    let mut chain = client_errors::Chain::default();
    for line in text.lines() {
        if let Some(time) = clock::time(line).filter(|_| line.starts_with(|c: char| c.is_ascii_digit())) {
            log.time = Some(time);
        }
        let by_kernel = kernel_log::time(line, log.time);
        kernel_end = by_kernel.or(kernel_end);
        if let Some(version) = version(line) {
            log.version = Some(version);
        }
        if line.starts_with("--Thread ") {
            if !in_waits {
                waits.clear();
            }
            in_waits = true;
        } else if is_of_log(line) && !line.contains("semaphore") {
            in_waits = false;
        }
        if in_waits {
            waits.push(line);
        }
        let lower = ends_in_lower_case(line);
        if line.starts_with(death::BACKTRACE) && !is_of_backup {
            backtraces.add(line, &lower, log.time);
        }
        if log_troubles::begins_start(&lower) {
            unknown.begin_start();
            tallies.iter_mut().for_each(|tally| tally.is_of_earlier_start = tally.count > 0);
        }
        is_leaving = log_troubles::leaves(&lower).unwrap_or(is_leaving);
        let entry = log_troubles::entry(line, &lower);
        let entry = if is_of_backup { entry.map(log_troubles::as_of_backup) } else { entry };
        if chain.repeats(line, entry) {
            continue;
        }
        if let Some(at) = entry.filter(|at| !(is_leaving && log_troubles::is_of_majority(*at))) {
            let is_of_kernel = by_kernel.is_some() || kernel_log::is_of_kernel(line);
            tallies[at].add(line, &lower, if is_of_kernel { by_kernel } else { log.time });
            tallies[at].written = systemd_log::time(line, log.time).or(tallies[at].last);
            if ends_start[at] {
                unknown.end_start();
            }
        } else if let Some(words) = error(line) {
            unknown.add(words);
            if behind_level(line).is_some() {
                unknown.add_of_start(words);
            }
        }
        if let Some(file) = log_troubles::log_not_written(line) {
            for (tally, (_, kind)) in tallies.iter_mut().zip(meanings()) {
                let is_that_file = kind == Some(TroubleKind::FileRefused) && tally.line.contains(file);
                if is_that_file && tally.count > 0 {
                    tally.count -= 1;
                    tally.line = tally.above;
                }
            }
        }
        if let Some(server) = kernel_log::nfs_answers(line) {
            let late = format!("nfs: server {server} not responding");
            tallies.iter_mut().for_each(|tally| tally.is_over |= tally.line.contains(&late));
        }
        if let Some(takes_back) = log_troubles::takes_back(line, &lower) {
            for (tally, (_, kind)) in tallies.iter_mut().zip(meanings()) {
                tally.is_over |= kind.is_some_and(&takes_back);
            }
            if takes_back(TroubleKind::NotStarted) {
                unknown.begin_start();
            }
        }
    }
    say(&mut log, &tallies, kernel_end);
    if backtraces.count > 0 && !log.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Crashed) {
        log.troubles.push(backtraces.trouble(TroubleKind::Crashed, "", log.time));
        log.says.push("the server crashed".into());
    }
    if let Some(line) = safe_log::ended_at_once(text).filter(|_| log.troubles.is_empty()) {
        let mut ended = Tally::default();
        ended.add(line, "", clock::time(line));
        log.troubles.push(ended.trouble(TroubleKind::NotStarted, "", log.time));
        log.says.push(safe_log::ENDED_AT_ONCE.into());
    }
    death::add_detail(&mut log.troubles, text);
    kernel_tasks::add_detail(&mut log.troubles, text);
    unfinished_start::add_detail(&mut log.troubles, text);
    peers::add_detail(&mut log.troubles, text);
    votes::add_detail(&mut log.troubles, text);
    add_undo_log(&mut log);
    add_reason(&mut log.troubles, &tallies, &unknown);
    add_checked_table(&mut log.troubles, text);
    log.says.extend(unknown.sentence());
    log.says.extend(client_errors::silence(text));
    client_errors::add_counts(&mut log.says, text);
    log.says.extend(lost_connections::who(text));
    log.says.extend(vote_languages::sentence(text));
    log.says.extend(crashed_tables::named(text));
    log.says.extend(death::failed_check(text));
    log.says.extend(death::last(text));
    log.says.extend(shutdowns::on_request(text));
    log.says.extend(systemd_log::restarts(text));
    log.says.extend(kernel_log::who_had_memory(text));
    log.says.extend(kernel_tasks::hung(text));
    log.says.extend(kernel_tasks::stuck(text));
    log.waits = (!waits.is_empty()).then(|| waits.iter().map(|line| format!("{line}\n")).collect());
    log.deadlock = last_deadlock(text);
    log.channels = log_replication::channels(text);
    log
}

/// What the entries of the catalogue come to: a sentence for each meaning, and the troubles that causes rest on.
fn say(log: &mut ErrorLog, tallies: &[Tally<'_>], kernel_end: Option<DateTime>) {
    let all: Vec<_> =
        tallies.iter().zip(meanings()).enumerate().filter(|(_, (tally, _))| tally.count > 0).collect();
    let mut said: Vec<&str> = Vec::new();
    // Of several starts that failed the last one counts, where it says why by itself.
    let of_last_start = |is_it: fn(TroubleKind) -> bool| {
        let of_last = all.iter().filter(|(_, (tally, _))| !tally.is_over && !tally.is_of_earlier_start);
        of_last.filter_map(|(_, (_, (_, kind)))| *kind).any(is_it)
    };
    let has_own_reason = of_last_start(|kind| kind == TroubleKind::NotStarted) && of_last_start(ends_a_start);
    for &(entry, (tally, (meaning, kind))) in &all {
        let end = if kernel_log::is_of_kernel(tally.line) { kernel_end } else { log.time };
        let source = if log_troubles::is_of_clients(entry) { OF_CLIENT } else { "" };
        let is_outdated =
            |kind: TroubleKind| has_own_reason && tally.is_of_earlier_start && kind.keeps_from_starting();
        let trouble = kind.filter(|kind| !tally.is_over && !is_outdated(*kind));
        let trouble = trouble.map(|kind| tally.trouble(kind, source, end));
        log.troubles.extend(trouble);
        if said.contains(&meaning) {
            continue;
        }
        said.push(meaning);
        // Several signs may have one meaning.
        let same =
            || all.iter().filter(|(_, (_, (other, _)))| *other == meaning).map(|(_, (tally, _))| *tally);
        let counts = same().map(|tally| tally.count);
        // Lines that differ are of one failure, or of one kill.
        let count: u64 = match log_troubles::is_of_several_lines(entry) || log_troubles::is_of_kills(entry) {
            true => counts.max().unwrap_or(0),
            false => counts.sum(),
        };
        let last = same().filter_map(|tally| tally.written).max();
        let times = if count == 1 { String::new() } else { format!(", {count} times") };
        let when =
            last.map_or_else(String::new, |last| format!(", last at {}", last.strftime("%Y-%m-%d %H:%M:%S")));
        let longest = match same().map(|tally| tally.longest_ms).max() {
            // The kernel names the time that is over.
            Some(ms) if ms > 0 && tally.line.contains(kernel_log::HUNG_IN_KERNEL) => {
                format!(" ({} or more)", number::duration(ms as f64 / 1e3))
            }
            Some(ms) if ms > 0 => format!(" ({} at most)", number::duration(ms as f64 / 1e3)),
            _ => String::new(),
        };
        let is_over = tally.is_over && !log_troubles::outlasts_a_start(tally.line);
        let over = if is_over { "; that is over" } else { "" };
        log.says.push(format!("{meaning}{longest}{times}{when}{over}"));
    }
    if log.troubles.iter().any(|trouble| trouble.kind == TroubleKind::RedoLogUnusable) {
        let follows = |trouble: &LoggedTrouble| {
            trouble.kind == TroubleKind::PageDamaged && log_troubles::is_end_by_damage(&trouble.line)
        };
        log.troubles.retain(|trouble| !follows(trouble));
    }
    without_what_follows(log);
    // A failed check, and a signal that systemd saw, end the server; its own line of the signal may not be in what was given.
    let has_crashed = log.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Crashed);
    let crash = all.iter().find(|(entry, _)| log_troubles::is_sign_of_crash(*entry));
    if let Some((_, (tally, _))) = crash.filter(|_| !has_crashed) {
        log.troubles.push(tally.trouble(TroubleKind::Crashed, "", log.time));
    }
}

/// True for a trouble by which a start ends, and which says why.
fn ends_a_start(kind: TroubleKind) -> bool {
    const OTHERS: [TroubleKind; 3] = [TroubleKind::NoMemory, TroubleKind::DiskFull, TroubleKind::PageDamaged];
    const WITHOUT_REASON: [TroubleKind; 2] = [TroubleKind::NotStarted, TroubleKind::EndedBySignal];
    OTHERS.contains(&kind) || kind.keeps_from_starting() && !WITHOUT_REASON.contains(&kind)
}

/// Takes away what another line of the log says better.
fn without_what_follows(log: &mut ErrorLog) {
    fn says(log: &ErrorLog, meaning: &str) -> bool {
        log.says.iter().any(|said| said.starts_with(meaning))
    }
    let by_time = [log_troubles::ENDED_LATE, log_troubles::STOPPED_LATE, log_troubles::STOP_ENDED];
    if by_time.iter().any(|meaning| says(log, meaning)) {
        log.says.retain(|said| !said.starts_with(log_troubles::TIMED_OUT));
    }
    if says(log, log_troubles::STOPPED_LATE) {
        log.says.retain(|said| !said.starts_with(log_troubles::STOP_ENDED));
        log.troubles.retain(|trouble| systemd_log::unit(&trouble.line) != Some(systemd_log::Unit::StopEnded));
    }
    if says(log, log_troubles::ENDED_LATE) {
        let follows = [log_troubles::ENDED_BY_KILL, log_troubles::STOPPED_LATE];
        log.says.retain(|said| !follows.iter().any(|meaning| said.starts_with(meaning)));
    }
    // Where files cannot be locked at all a server says below that that another process may use them.
    if says(log, start_errors::NO_LOCKS) {
        log.says.retain(|said| !said.starts_with(start_errors::IN_USE));
        log.troubles.retain(|trouble| trouble.kind != TroubleKind::FilesInUse);
    }
}

/// The last deadlock that a log prints (innodb_print_all_deadlocks), as `LATEST DETECTED DEADLOCK` of a status has it: without
/// what the log puts before its lines.
fn last_deadlock(text: &str) -> Option<String> {
    let bare = |line: &str| match line.find("*** ") {
        Some(at) if is_of_log(line) => line[at..].to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().rposition(|line| line.contains(printed_deadlock::FIRST_LINE))?;
    let mut kept: Vec<String> = Vec::new();
    for line in &lines[first..] {
        let line = bare(line);
        // What is no line of it any more: another message of the log.
        if is_of_log(&line) && clock::time(&line).is_some() {
            break;
        }
        let is_last = line.starts_with(printed_deadlock::LAST_LINE);
        if !line.trim().is_empty() {
            kept.push(line);
        }
        if is_last {
            break;
        }
    }
    let whole: String = kept.iter().map(|line| format!("{line}\n")).collect();
    Some(format!("------------------------\nLATEST DETECTED DEADLOCK\n------------------------\n{whole}"))
}

/// Says of a start that ended why it did, where a line of that start says so and no cause rests on it; else what its first error is.
fn add_reason(troubles: &mut [LoggedTrouble], tallies: &[Tally<'_>], unknown: &Unknown<'_>) {
    let of_last =
        tallies.iter().enumerate().filter(|(_, tally)| tally.count > 0 && !tally.is_of_earlier_start);
    let named = of_last.filter_map(|(entry, _)| log_troubles::reason_of_start(entry)).min();
    let first_error =
        || unknown.of_ended_start().map(|error| death::until_blank(&format!("its first error is {error}")));
    let Some(reason) = named.map(|(_, reason)| reason.to_owned()).or_else(first_error) else { return };
    let ended = troubles.iter_mut().filter(|trouble| trouble.kind == TroubleKind::NotStarted);
    ended.for_each(|trouble| trouble.detail = reason.clone());
}

/// Says beside a table that is full that InnoDB has no undo log for changes: the table has room then.
fn add_undo_log(log: &mut ErrorLog) {
    if log.says.iter().any(|said| said.starts_with(log_troubles::NO_UNDO_LOG)) {
        let full = log.troubles.iter_mut().filter(|trouble| trouble.kind == TroubleKind::TableFull);
        full.for_each(|trouble| "no slot, or no room in an undo tablespace".clone_into(&mut trouble.detail));
    }
}

/// Names the table that mysqlcheck found damaged, which its errors do not.
fn add_checked_table(troubles: &mut [LoggedTrouble], text: &str) {
    let is_of_check = |trouble: &&mut LoggedTrouble| {
        trouble.kind == TroubleKind::TableCrashed && tool_errors::is_line(&trouble.line)
    };
    let mut of_check = troubles.iter_mut().filter(is_of_check).peekable();
    if let Some(table) = of_check.peek().and_then(|_| tool_errors::table_checked(text)) {
        of_check.for_each(|trouble| trouble.detail = table.to_owned());
    }
}

#[cfg(test)]
mod tests;
