//! The text's sections, and which of its headings are the server's own.
//!
//! Names and statements of users stand verbatim in three sections, and may hold anything: headings, whole sections,
//! the end line. Three things tell them from what the server prints.
//!
//! - The order of the sections: SEMAPHORES, LATEST FOREIGN KEY ERROR, LATEST DETECTED DEADLOCK, TRANSACTIONS, FILE I/O, and then
//!   those of the log, the buffer pool and the rows. Above the first and below the last of those three everything is the
//!   server's. In Percona Server 5.5 deadlock and transactions come last: a FILE I/O above the first section with statements
//!   says so, and from there on nothing but these two is the server's.
//! - Of a connection and its statement the server prints [`REACH`] at most. What stands further below the line that names
//!   a connection or a lock, with no such line between, is no statement's.
//! - A text with its end line is whole: each section that the server always prints is in it, and the last FILE I/O is its own.
//!   A text that was cut may end within a statement, so what may be one is left out there.
//!
//! An error of a foreign key has names without end, and in some versions a whole statement: of several headings below
//! one, none is trusted where both readings are possible.

use super::{UNKNOWN_MAX, UNKNOWN_MAX_BYTES, cut_to, transactions};

/// A connection and its statement are printed from a buffer of so many bytes: `innobase_mysql_print_thd` (ha_innodb.cc) in MySQL
/// from 5.0 to 9.7 and in MariaDB. Names of an index, its table and partition are a third of that. Characters are counted
/// here: what was no UTF-8 has become one character in place of one or more bytes.
const REACH: usize = 1024;

/// Below these lines stand statements, or names of users.
const NAMES_USERS: [&str; 5] =
    ["MySQL thread id ", "MariaDB thread id ", "RECORD LOCKS ", "TABLE LOCK ", transactions::TRUNCATED];

pub(super) const TITLE: &str = "INNODB MONITOR OUTPUT";
const END: &str = "END OF INNODB MONITOR OUTPUT";

const FOREIGN_KEY: &str = "LATEST FOREIGN KEY ERROR";
const DEADLOCK: &str = "LATEST DETECTED DEADLOCK";
const TRANSACTIONS: &str = "TRANSACTIONS";
const FILE_IO: &str = "FILE I/O";

/// Headings whose sections are read.
const READ: [&str; 8] = [
    "SEMAPHORES",
    FOREIGN_KEY,
    DEADLOCK,
    TRANSACTIONS,
    FILE_IO,
    "LOG",
    "BUFFER POOL AND MEMORY",
    "ROW OPERATIONS",
];

/// Headings whose sections hold nothing that is read.
const NOT_READ: [&str; 3] =
    ["BACKGROUND THREAD", "INSERT BUFFER AND ADAPTIVE HASH INDEX", "INDIVIDUAL BUFFER POOL INFO"];

/// The answer of a server within a text.
pub(super) struct Capture<'t> {
    /// From the header, or from the start where there is none, up to the end line.
    pub(super) lines: Vec<&'t str>,
    /// Which of them may be a statement's.
    is_users: Vec<bool>,
    /// There is no end line.
    pub(super) truncated: bool,
    /// There is one that no statement can have made.
    is_whole: bool,
}

impl<'t> Capture<'t> {
    pub(super) fn from_text(text: &'t str) -> Self {
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        // A last line without its line end may be cut in the middle of a number; the end line has none.
        if lines.last().is_some_and(|line| !line.ends_with('\n') && line.trim_end() != END) {
            lines.pop();
        }
        for line in &mut lines {
            *line = line.trim_end_matches(['\n', '\r']);
        }
        let is_header = |at: usize| {
            lines[at].ends_with(TITLE)
                && lines[at] != END
                && at.checked_sub(1).is_some_and(|above| lines[above].starts_with("====="))
        };
        let start = (0..lines.len()).find(|&at| is_header(at)).unwrap_or(0);
        lines.drain(..start);
        let mut is_users = may_be_users(&lines);
        let is_end = |at: &usize| lines[*at].trim_end() == END;
        let own = (0..lines.len()).rev().find(|at| is_end(at) && !is_users[*at]);
        // An end line at the foot ends the text, whatever made it: a text may be cut just there.
        let is_rule = |line: &str| line.trim_end().bytes().all(|byte| byte == b'=');
        let end = lines.iter().rposition(|line| !is_rule(line)).filter(is_end).or(own);
        lines.truncate(end.unwrap_or(lines.len()));
        is_users.truncate(lines.len());
        Self { lines, is_users, truncated: end.is_none(), is_whole: own.is_some() }
    }
}

/// Which lines may belong to a statement that is printed above or in them.
fn may_be_users(lines: &[&str]) -> Vec<bool> {
    let mut left = 0_usize;
    let mut is_users = Vec::with_capacity(lines.len());
    for line in lines {
        is_users.push(left > 0);
        if NAMES_USERS.iter().any(|begins| line.starts_with(begins)) {
            left = REACH;
        }
        left = left.saturating_sub(line.chars().count() + 1);
    }
    is_users
}

/// A line of capitals between two lines of dashes.
#[derive(Clone, Copy)]
struct Heading<'t> {
    name: &'t str,
    /// Its line.
    at: usize,
    is_users: bool,
}

impl Heading<'_> {
    fn is_below_statements(&self) -> bool {
        ![FOREIGN_KEY, DEADLOCK, TRANSACTIONS].contains(&self.name)
    }
}

/// The capture's lines by heading.
pub(super) struct Sections<'c, 't> {
    capture: &'c Capture<'t>,
    /// The server's own headings, and where their lines end.
    found: Vec<(Heading<'t>, usize)>,
    /// It is known where the list of transactions ends.
    pub(super) is_list_whole: bool,
}

impl<'c, 't> Sections<'c, 't> {
    pub(super) fn cut(capture: &'c Capture<'t>) -> Self {
        let lines = &capture.lines;
        let headings: Vec<Heading<'t>> = (1..lines.len().saturating_sub(1))
            .filter(|&at| is_rule(lines[at - 1]) && is_rule(lines[at + 1]) && is_heading(lines[at]))
            .map(|at| Heading { name: lines[at].trim(), at, is_users: capture.is_users[at] })
            .collect();
        let from =
            headings.iter().position(|heading| !heading.is_below_statements()).unwrap_or(headings.len());
        let (above, rest) = headings.split_at(from);
        let is_list_last = above.iter().any(|heading| heading.name == FILE_IO);
        let to = match is_list_last {
            true => Some(rest.len()),
            false => end_of_statements(rest, capture.is_whole),
        };
        let is_list_whole = if is_list_last { !capture.truncated } else { to.is_some() };
        let (with_statements, below) = rest.split_at(to.unwrap_or(rest.len()));
        let own: Vec<Heading<'t>> = above
            .iter()
            .copied()
            .chain(those_with_statements(with_statements, is_list_whole))
            .chain(below.iter().copied())
            .collect();
        let end = |place: usize| {
            let heading = own[place];
            // What a statement has made ends no section where it is known which heading of the server's comes next.
            let next = if is_list_whole {
                own.get(place + 1)
            } else {
                let next = headings.partition_point(|other| other.at <= heading.at);
                let is_end = |next: &&Heading<'t>| {
                    heading.name != TRANSACTIONS || !is_list_last && next.is_below_statements()
                };
                headings[next..].iter().find(is_end)
            };
            next.map_or_else(|| end_of_last(lines), |next| next.at - 1).max(heading.at + 2)
        };
        let found = (0..own.len()).map(|place| (own[place], end(place))).collect();
        Self { capture, found, is_list_whole }
    }

    /// The lines of one section.
    pub(super) fn lines(&self, name: &str) -> Option<&'c [&'t str]> {
        let (heading, end) = self.found.iter().find(|(heading, _)| heading.name == name)?;
        self.capture.lines.get(heading.at + 2..*end)
    }

    /// Headings that mean nothing to this parser.
    pub(super) fn unknown(&self) -> Vec<String> {
        self.found
            .iter()
            .map(|(heading, _)| heading.name)
            .filter(|name| !READ.contains(name) && !NOT_READ.contains(name))
            .take(UNKNOWN_MAX)
            .map(|name| cut_to(name, UNKNOWN_MAX_BYTES).to_owned())
            .collect()
    }
}

/// Of the headings from the first section with statements on: the first one that stands below all statements.
///
/// In a whole text it is the last FILE I/O. In one that was cut it is the last FILE I/O above a heading that no statement can have
/// made; below an error of a foreign key there may be none such.
fn end_of_statements(headings: &[Heading<'_>], is_whole: bool) -> Option<usize> {
    let is_own = |heading: &Heading<'_>| heading.is_below_statements() && !heading.is_users;
    let anchor = match is_whole {
        true => headings.len(),
        false if headings.first()?.name == FOREIGN_KEY => return None,
        false => headings.iter().rposition(is_own)? + 1,
    };
    headings[..anchor]
        .iter()
        .rposition(|heading| heading.name == FILE_IO)
        .or_else(|| headings.iter().position(is_own))
}

/// The server's own among the headings of sections with statements.
fn those_with_statements<'t>(
    headings: &[Heading<'t>],
    is_whole: bool,
) -> impl Iterator<Item = Heading<'t>> + use<'t> {
    let Some(first) = headings.first().copied() else { return [None; 3].into_iter().flatten() };
    let has_foreign_key = first.name == FOREIGN_KEY;
    let named = |name: &str| headings.iter().filter(move |heading| heading.name == name).collect::<Vec<_>>();
    let transactions = match named(TRANSACTIONS).as_slice() {
        // Nothing stands above the first that a user could have made.
        [own, ..] if own.at == first.at => Some(**own),
        // The server prints it always.
        [own] if is_whole || !(own.is_users || has_foreign_key) => Some(**own),
        // Imitations in the list of transactions stand below the server's own and within reach, those in an error of a
        // foreign key above it.
        [.., last] if has_foreign_key => (is_whole && !last.is_users).then_some(**last),
        all => all.iter().find(|heading| !heading.is_users).map(|own| **own),
    };
    let list = transactions.map_or(usize::MAX, |own| own.at);
    let is_own = |heading: &&&Heading<'t>| !heading.is_users && heading.at < list;
    let deadlock = match first.name {
        // In the server's order it would be above.
        TRANSACTIONS => None,
        DEADLOCK => Some(first),
        _ => named(DEADLOCK).iter().rfind(is_own).map(|own| **own),
    };
    let foreign_key = has_foreign_key.then_some(first);
    [foreign_key, deadlock, transactions].into_iter().flatten()
}

/// Where the last section ends: above the rule of the end line, or above the half of a heading.
fn end_of_last(lines: &[&str]) -> usize {
    lines.len()
        - match lines {
            [.., last] if is_rule(last) => 1,
            [.., above, last] if is_rule(above) && is_heading(last) => 2,
            _ => 0,
        }
}

/// A line of dashes and nothing else.
fn is_rule(line: &str) -> bool {
    let line = line.trim_end();
    line.len() >= 3 && line.bytes().all(|byte| byte == b'-')
}

/// A line of capitals: `FILE I/O`.
fn is_heading(line: &str) -> bool {
    let line = line.trim();
    line.bytes().any(|byte| byte.is_ascii_uppercase()) && !line.bytes().any(|byte| byte.is_ascii_lowercase())
}
