//! Documents that stand in one line, because a page or a chat made blanks of their line ends: the line ends put back where only a
//! server or a debugger writes what follows.

use std::borrow::Cow;

use crate::heads::STATEMENTS;

/// Shorter lines are lines of their own.
const SHORT: usize = 160;

/// Beginnings of so many lines of an InnoDB status in one line: prose that quotes one has one.
const FEW: usize = 4;

/// How lines of an InnoDB status begin (storage/innobase: srv0srv.cc, lock0lock.cc, sync0arr.cc, trx0trx.cc, buf0buf.cc, log0log.cc),
/// of those in which something is read.
const STATUS_LINES: [&str; 58] = [
    "Per second averages calculated ",
    "srv_master_thread ",
    "OS WAIT ARRAY INFO: ",
    "--Thread ",
    "S-lock on RW-latch ",
    "X-lock on RW-latch ",
    "X-lock (wait_ex) on RW-latch ",
    "SX-lock on RW-latch ",
    "Mutex at 0x",
    "a writer (thread id ",
    "number of readers ",
    "Last time read locked ",
    "Last time write locked ",
    "Last time reserved ",
    "Mutex spin waits ",
    "RW-shared spins ",
    "RW-excl spins ",
    "RW-sx spins ",
    "Spin rounds per wait: ",
    "Trx id counter ",
    "Purge done for trx",
    "History list length ",
    "LIST OF TRANSACTIONS FOR EACH SESSION",
    "---TRANSACTION ",
    "*** (1) ",
    "*** (2) ",
    "*** WE ROLL BACK ",
    "TRANSACTION ",
    "mysql tables in use ",
    "LOCK WAIT ",
    "MySQL thread id ",
    "MariaDB thread id ",
    "------- TRX HAS BEEN WAITING ",
    "RECORD LOCKS ",
    "TABLE LOCK ",
    "Record lock, ",
    "I/O thread ",
    "Pending normal aio reads",
    "Pending flushes (fsync) ",
    "Ibuf: size ",
    "Log sequence number ",
    "Log flushed up to ",
    "Pages flushed up to ",
    "Last checkpoint at ",
    "Total memory allocated ",
    "Total large memory allocated ",
    "Dictionary memory allocated ",
    "Buffer pool size ",
    "Free buffers ",
    "Database pages ",
    "Old database pages ",
    "Modified db pages ",
    "Pending reads ",
    "Pending writes: ",
    "Pages made young ",
    "Pages read ",
    "Number of rows inserted ",
    "END OF INNODB MONITOR OUTPUT",
];

/// A text with the lines of its documents, where some lost their ends.
pub(crate) fn in_lines(text: &str) -> Cow<'_, str> {
    let lines: Vec<Cow<'_, str>> = text.lines().map(line_in_lines).collect();
    if lines.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return Cow::Borrowed(text);
    }
    let mut whole = lines.join("\n");
    if text.ends_with('\n') {
        whole.push('\n');
    }
    Cow::Owned(whole)
}

fn line_in_lines(line: &str) -> Cow<'_, str> {
    if line.len() < SHORT {
        return Cow::Borrowed(line);
    }
    let places = frames(line).or_else(|| status_lines(line));
    match places.map(|places| cut(line, &places)).or_else(|| table(line)) {
        Some(lines) => Cow::Owned(lines.join("\n")),
        None => Cow::Borrowed(line),
    }
}

/// A line cut before these places.
fn cut(line: &str, places: &[usize]) -> Vec<String> {
    let ends = places.iter().copied().skip_while(|place| *place == 0).chain([line.len()]);
    let mut from = 0;
    let mut lines = Vec::with_capacity(places.len() + 1);
    for end in ends {
        lines.push(line[from..end].trim().to_owned());
        from = end;
    }
    lines
}

/// Where words begin: behind a blank, and at the beginning.
fn words(line: &str) -> impl Iterator<Item = usize> {
    let bytes = line.as_bytes();
    (0..bytes.len()).filter(|at| (*at == 0 || bytes[at - 1] == b' ') && bytes[*at] != b' ')
}

/// Where the frames of stacks and the headings of threads begin.
fn frames(line: &str) -> Option<Vec<usize>> {
    let mut places = Vec::new();
    // A thread's first frame may be any: who pastes leaves out the innermost ones.
    let (mut next, mut count) = (None, 0_usize);
    for at in words(line) {
        let rest = &line[at..];
        if is_thread_heading(rest) {
            places.push(at);
            next = None;
            continue;
        }
        let Some(number) = rest.strip_prefix('#') else { continue };
        let digits = &number[..number.bytes().take_while(u8::is_ascii_digit).count()];
        let is_frame = number[digits.len()..].starts_with(' ');
        match digits.parse::<u32>() {
            Ok(number) if is_frame && is_next(number, next, !places.is_empty()) => {
                places.push(at);
                next = Some(number + 1);
                count += 1;
            }
            _ => {}
        }
    }
    (count >= 2).then_some(places)
}

/// Whether a frame's number is the next one of the same stack, or the first one of another.
fn is_next(number: u32, next: Option<u32>, is_below_heading: bool) -> bool {
    number == 0 || next.map_or(is_below_heading, |next| number == next)
}

/// `Thread 12 (Thread 0x7f4d45fef710 (LWP 11148)):`, `Thread 12 (LWP 11148):`, `TID 11148:`
fn is_thread_heading(rest: &str) -> bool {
    let number = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(rest) = rest.strip_prefix("Thread ") {
        let digits = number(rest);
        let rest = &rest[digits..];
        return digits > 0 && (rest.starts_with(" (Thread ") || rest.starts_with(" (LWP "));
    }
    rest.strip_prefix("TID ").is_some_and(|rest| {
        let digits = number(rest);
        digits > 0 && rest[digits..].starts_with(':')
    })
}

/// Where lines of an InnoDB status begin.
fn status_lines(line: &str) -> Option<Vec<usize>> {
    let mut places: Vec<usize> = Vec::new();
    let (mut count, mut in_thread) = (0_usize, false);
    let mut words = words(line).peekable();
    while let Some(at) = words.next() {
        let rest = &line[at..];
        let is_rule = |rest: &str| {
            let word = rest.split(' ').next().unwrap_or_default();
            word.len() >= 3 && word.bytes().all(|byte| byte == b'-' || byte == b'=')
        };
        if STATUS_LINES.iter().any(|begins| rest.starts_with(begins)) {
            let is_heading = |begins: &str| rest.starts_with(begins);
            // `*** (1) TRANSACTION:` and `---TRANSACTION` are begun already.
            places.push(at);
            count += 1;
            in_thread = is_heading("MySQL thread id ") || is_heading("MariaDB thread id ");
        } else if is_rule(rest) {
            // A heading stands between two rules, which are lines.
            places.push(at);
            if let Some(next) = words.peek() {
                places.push(*next);
            }
            in_thread = false;
        } else if is_count_of_locks(rest) {
            places.push(at);
            in_thread = false;
        } else if in_thread && STATEMENTS.contains(&rest.split(' ').next().unwrap_or_default()) {
            // Behind the line of its thread stands a transaction's statement.
            places.push(at);
            in_thread = false;
        }
    }
    places.dedup();
    (count >= FEW).then_some(places)
}

/// `3 lock struct(s), heap size 320`, of a transaction that waits for none. One that waits has its words before.
fn is_count_of_locks(rest: &str) -> bool {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && rest[digits..].starts_with(" lock struct(s), heap size ")
}

/// The rows of a framed table, by the columns of its border: `+----+------+ | Id | User | +----+------+ | 1 | app | | 2 | app |`.
fn table(line: &str) -> Option<Vec<String>> {
    let is_border = |word: &str| {
        word.len() >= 5
            && word.starts_with('+')
            && word.ends_with('+')
            && word.contains('-')
            && word.bytes().all(|byte| byte == b'-' || byte == b'+')
    };
    let border = line.split(' ').find(|word| is_border(word))?;
    let columns = border.matches('+').count() - 1;
    let mut lines: Vec<String> = Vec::new();
    let mut rest = line;
    while let Some(at) = words(rest).find(|at| is_border(rest[*at..].split(' ').next().unwrap_or_default())) {
        rows(&rest[..at], columns, &mut lines);
        lines.push(border.to_owned());
        rest = &rest[at + rest[at..].split(' ').next().unwrap_or_default().len()..];
    }
    rows(rest, columns, &mut lines);
    (lines.len() > 2).then_some(lines)
}

/// The rows of a piece between two borders. What stands around them is a line, too.
fn rows(piece: &str, columns: usize, lines: &mut Vec<String>) {
    let piece = piece.trim();
    let Some(inside) = piece.strip_prefix('|') else {
        lines.extend((!piece.is_empty()).then(|| piece.to_owned()));
        return;
    };
    let (inside, after) = inside.rsplit_once('|').unwrap_or((inside, ""));
    let cells: Vec<&str> = inside.split('|').collect();
    // Between two rows stands the blank that was a line end.
    for row in cells.chunks(columns + 1) {
        let row = &row[..row.len().min(columns)];
        lines.push(format!("|{}|", row.join("|")));
    }
    lines.extend((!after.trim().is_empty()).then(|| after.trim().to_owned()));
}
