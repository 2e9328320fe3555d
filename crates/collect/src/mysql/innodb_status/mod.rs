//! `SHOW ENGINE INNODB STATUS`: text to numbers, from InnoDB of MySQL 4.1 to 9.7 and MariaDB 10.11.
//!
//! In: the text as the server gives it, or as a client saved it (`\G`, tab-separated, truncated).
//! Out: [`InnodbStatus`]. This file cuts the text into sections; the files beside it read one section
//! each. No text makes it panic, and the work grows with the length of the text.
//!
//! Two rules keep wrong numbers out. A line that the text ends in without a line end may be cut, so it is not read.
//! Some sections contain users' statements verbatim, which can imitate a heading, so the parser trusts no heading that a
//! statement may have made: `sections.rs` has the rule.

mod buffer_pool;
mod file_io;
mod line;
mod log;
mod row_operations;
mod sections;
mod semaphores;
mod transactions;

use spindoctor_model::innodb_status::PrintedEvent;
use spindoctor_model::{InnodbStatus, ServerSample};

use sections::{Capture, Sections, TITLE};

use super::source::{Plan, Source, process_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source.
///
/// Cost: InnoDB prints up to 1 MiB under its own monitor mutex; for the transactions it holds the
/// lock system's latch: 1 ms on a quiet server, some 10 ms with 1,000 open transactions. Safe to ask
/// every 10 s; it is asked at the ends of a window.
pub const SOURCE: Source = Source {
    name: "SHOW ENGINE INNODB STATUS",
    help: "threads that wait for a latch, log sequence numbers, pending I/O",
    cost: "prints up to 1 MiB, holding the lock system's latch for the transactions, 1 to 10 ms",
    grant: process_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(20, 300),
    plan: |_, _| Plan::Ask("SHOW ENGINE INNODB STATUS"),
    parse: |rows, answer, sample| {
        let text = rows.first().map(|row| row.string("Status")).unwrap_or_default();
        sample.innodb_status = answer.reading(parse(&text));
    },
    reading: ServerSample::field("innodb_status"),
};

/// Bytes of `raw` kept at most: a whole text of a busy server without its transactions fits, and the
/// server's own limit of 1 MiB (`MAX_STATUS_SIZE`, srv0srv) would fill a recording.
const RAW_MAX_BYTES: usize = 64 * 1024;

/// Bytes of a deadlock or foreign key text kept at most; the longest seen in captures is under 8 KiB.
const EVENT_MAX_BYTES: usize = 32 * 1024;

/// Unknown lines and headings kept at most, and their length: enough to see what a new version prints.
const UNKNOWN_MAX: usize = 50;
const UNKNOWN_MAX_BYTES: usize = 200;

/// Parses the `Status` column, or a whole saved answer.
pub fn parse(text: &str) -> InnodbStatus {
    if let Some(unescaped) = unescape(text) {
        return parse(&unescaped);
    }
    let capture = Capture::from_text(text);
    let sections = Sections::cut(&capture);
    let mut unknown = Unknown::default();
    let mut status = InnodbStatus { truncated: capture.truncated, ..InnodbStatus::default() };

    let year_digits = header(&capture, &mut status);
    if let Some(lines) = sections.lines("SEMAPHORES") {
        status.semaphores = semaphores::parse(lines, &mut unknown);
    }
    if let Some(lines) = sections.lines("TRANSACTIONS") {
        status.transactions = transactions::parse(lines, sections.is_list_whole, year_digits, &mut unknown);
        status.truncated |= lines.iter().any(|line| line.starts_with(transactions::TRUNCATED));
    }
    if let Some(lines) = sections.lines("FILE I/O") {
        status.file_io = file_io::parse(lines, &mut unknown);
    }
    if let Some(lines) = sections.lines("LOG") {
        status.log = log::parse(lines, &mut unknown);
    }
    if let Some(lines) = sections.lines("BUFFER POOL AND MEMORY") {
        status.buffer_pool = buffer_pool::parse(lines, &mut unknown);
    }
    if let Some(lines) = sections.lines("ROW OPERATIONS") {
        status.row_operations = row_operations::parse(lines, &mut unknown);
    }
    // All of them were printed whole where what comes after them was.
    let whole = sections.lines("ROW OPERATIONS").map(|_| ["FILE I/O", "LOG", "BUFFER POOL AND MEMORY"]);
    status.ios_per_s = whole
        .iter()
        .flatten()
        .filter_map(|section| sections.lines(section))
        .flat_map(|lines| lines.iter().filter_map(|line| line::ios_per_s(line)))
        .max_by(f64::total_cmp);
    status.latest_deadlock = sections.lines("LATEST DETECTED DEADLOCK").and_then(event);
    status.latest_foreign_key_error = sections.lines("LATEST FOREIGN KEY ERROR").and_then(event);

    status.unknown_sections = sections.unknown();
    status.unknown_lines = unknown.lines;
    if !status.unknown_sections.is_empty() || !status.unknown_lines.is_empty() {
        status.raw = Some(cut_to(text, RAW_MAX_BYTES).to_owned());
    }
    status
}

/// Lines of sections whose lines are all known, that were not.
#[derive(Debug, Default)]
struct Unknown {
    lines: Vec<String>,
}

impl Unknown {
    fn note(&mut self, line: &str) {
        if self.lines.len() < UNKNOWN_MAX {
            self.lines.push(cut_to(line, UNKNOWN_MAX_BYTES).to_owned());
        }
    }
}

/// How many digits the year in the header has: shows the era, and with it the base of transaction ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum YearDigits {
    /// `100904 10:24:51`: up to 5.5.
    Two,
    /// `2018-10-12 19:11:10 0x7f1d8a1b6700`: 5.6 and later, MariaDB 10.0 and later.
    Four,
    /// No header.
    Unknown,
}

/// A client in batch mode (`mysql -s -e`) writes line ends as the two characters `\n`, and the whole
/// answer in one line. None where the text is not of that kind.
fn unescape(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(TITLE))?;
    if !line.contains(r"\n=====") {
        return None;
    }
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('0') => plain.push('\0'),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    // The parser calls itself once at most: a second level of escapes is text of a statement.
    plain.lines().find(|line| line.contains(TITLE)).filter(|line| !line.contains(r"\n====="))?;
    Some(plain)
}

/// Reads what stands above the first section.
fn header(capture: &Capture<'_>, status: &mut InnodbStatus) -> YearDigits {
    let mut year_digits = YearDigits::Unknown;
    for line in capture.lines.iter().take(4) {
        // 100904 10:24:51 INNODB MONITOR OUTPUT                       (5.1)
        // 2018-10-12 19:11:10 0x7f1d8a1b6700 INNODB MONITOR OUTPUT    (8.0.12)
        if let Some(stamp) = line.strip_suffix(TITLE) {
            let digits = stamp.bytes().take_while(u8::is_ascii_digit).count();
            year_digits = match digits {
                4 if stamp[digits..].starts_with('-') => YearDigits::Four,
                6 => YearDigits::Two,
                _ => YearDigits::Unknown,
            };
        }
        // Per second averages calculated from the last 34 seconds
        if let Some([seconds]) =
            line::numbers(line, "Per second averages calculated from the last {} seconds")
        {
            status.averages_over_s = Some(seconds);
        }
    }
    year_digits
}

/// A deadlock or foreign key error: its first line begins with the time.
///
/// ```text
/// 070913 11:06:03 Error in foreign key constraint of table test/child:      (5.0)
/// 180227 14:45:46                                                           (5.5)
/// 2013-06-19 13:47:33 7f684c638700 Transaction:                             (5.6.12)
/// ```
fn event(lines: &[&str]) -> Option<PrintedEvent> {
    let (first, rest) = lines.split_first()?;
    let (time, below) = split_time(first);
    let mut text = below.to_owned();
    let mut cut = false;
    for line in rest {
        if text.len() + line.len() >= EVENT_MAX_BYTES {
            cut = true;
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
    Some(PrintedEvent { time: time.to_owned(), text: text.trim_end().to_owned(), cut })
}

/// Splits `DATE TIME [THREAD]` from what follows; the thread is printed from 5.6 on.
fn split_time(line: &str) -> (&str, &str) {
    let looks_like =
        |word: &str, separator| word.contains(separator) && word.starts_with(|c: char| c.is_ascii_digit());
    let Some((date, after)) = line.split_once(' ') else { return ("", line) };
    let padding = after.len() - after.trim_start().len();
    let clock = after.trim_start().split(' ').next().unwrap_or_default();
    if !looks_like(clock, ':') || !date.starts_with(|c: char| c.is_ascii_digit()) {
        return ("", line);
    }
    let (time, mut rest) = line.split_at(date.len() + 1 + padding + clock.len());
    rest = rest.trim_start();
    if looks_like(date, '-') {
        let thread = rest.split(' ').next().unwrap_or_default();
        let digits = thread.strip_prefix("0x").unwrap_or(thread);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            rest = rest[thread.len()..].trim_start();
        }
    }
    (time, rest)
}

/// The start of a text, at most so many bytes, cut between characters.
fn cut_to(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
