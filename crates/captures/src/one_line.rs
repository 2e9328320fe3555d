//! Documents that stand in one line, because a page or a chat made blanks of their line ends: the line ends put back where only a
//! server or a debugger writes what follows. Of an error log each line has its time and its level.

use std::borrow::Cow;

use crate::heads::{STATEMENTS, is_number, is_statement_word};
use crate::{collectors, log_lines, vertical_line};

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

/// How the lines of a wait for a latch begin (sync0arr.cc), below `--Thread 1 has waited at ... the semaphore:`.
const OF_WAIT: [&str; 9] = [
    "S-lock on RW-latch at 0x",
    "X-lock on RW-latch at 0x",
    "X-lock (wait_ex) on RW-latch at 0x",
    "SX-lock on RW-latch at 0x",
    "Mutex at 0x",
    "a writer (thread id ",
    "number of readers ",
    "Last time read locked ",
    "Last time write locked ",
];

/// A text with the lines of its documents, where some lost their ends.
pub(crate) fn in_lines(text: &str) -> Cow<'_, str> {
    match with_corners(text) {
        Cow::Borrowed(text) => with_line_ends(text),
        Cow::Owned(text) => Cow::Owned(with_line_ends(&text).into_owned()),
    }
}

/// A text with the borders of its tables in lines of their own, where a page broke its lines behind each first corner: the corner
/// stands alone at the end of the line above.
fn with_corners(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().collect();
    let has_corner = |line: &str| {
        let before = line.trim_end().strip_suffix('+');
        before.is_some_and(|before| before.is_empty() || before.ends_with([' ', ';']))
    };
    let is_torn = |at: usize| {
        let is_below = lines.get(at + 1).is_some_and(|next| rest_of_border(next).is_some());
        is_below && has_corner(lines[at])
    };
    if !(0..lines.len()).any(is_torn) {
        return Cow::Borrowed(text);
    }
    let mut whole: Vec<String> = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let mut line = *line;
        if at > 0
            && is_torn(at - 1)
            && let Some(rest) = rest_of_border(line)
        {
            whole.push(format!("+{rest}"));
            line = line.trim_start()[rest.len()..].trim_start();
        }
        let line = if is_torn(at) { line.trim_end().trim_end_matches('+').trim_end() } else { line };
        if !line.is_empty() || lines[at].is_empty() {
            whole.push(line.to_owned());
        }
    }
    let mut whole = whole.join("\n");
    if text.ends_with('\n') {
        whole.push('\n');
    }
    Cow::Owned(whole)
}

/// What a line begins with of a border without its first corner: `----+------+`.
fn rest_of_border(line: &str) -> Option<&str> {
    let first = line.trim_start().split(' ').next()?;
    let is_border = first.starts_with("--") && first.ends_with("-+");
    (is_border && first.bytes().all(|byte| b"+-".contains(&byte))).then_some(first)
}

fn with_line_ends(text: &str) -> Cow<'_, str> {
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
    let places = frames(line)
        .or_else(|| status_lines(line))
        .or_else(|| vertical_line::places(line))
        .or_else(|| counted_stacks(line))
        .or_else(|| screen_of_top(line))
        .or_else(|| log_lines::several_begin(line))
        .or_else(|| collectors::several_begin(line));
    // What stands before a status may be a table.
    let with_tables = |piece: String| table(&piece).unwrap_or_else(|| vec![piece]);
    let lines: Option<Vec<String>> =
        places.map(|places| cut(line, &places).into_iter().flat_map(with_tables).collect());
    match lines.or_else(|| table(line)) {
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

/// Where words begin, and signs of frames that stand right behind what is before them: `from /lib64/libc.so.6#4  0x7f in main ()`.
fn words_and_signs(line: &str) -> impl Iterator<Item = usize> {
    let bytes = line.as_bytes();
    let begins = |at: usize| (at == 0 || bytes[at - 1] == b' ') && bytes[at] != b' ';
    (0..bytes.len()).filter(move |at| bytes[*at] == b'#' || begins(*at))
}

/// Where the frames of stacks and the headings of threads begin.
fn frames(line: &str) -> Option<Vec<usize>> {
    let mut places = Vec::new();
    // A thread's first frame may be any: who pastes leaves out the innermost ones.
    let (mut next, mut count) = (None, 0_usize);
    for at in words_and_signs(line) {
        let rest = &line[at..];
        if is_thread_heading(rest) {
            places.push(at);
            next = None;
            continue;
        }
        let Some(number) = rest.strip_prefix('#') else { continue };
        let digits = &number[..number.bytes().take_while(u8::is_ascii_digit).count()];
        let is_frame = number[digits.len()..].starts_with(' ');
        let is_first = line[..at].trim().is_empty();
        let is_word = is_first || line[..at].ends_with(' ');
        match digits.parse::<u32>() {
            // What stands within a word is a frame where it is the next one.
            Ok(number)
                if is_frame
                    && is_next(number, next, is_first || !places.is_empty())
                    && (is_word || next == Some(number)) =>
            {
                places.push(at);
                next = number.checked_add(1);
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
        } else if in_thread && is_statement(rest) {
            // Behind the line of its thread stands a transaction's statement.
            places.push(at);
            in_thread = false;
        }
    }
    let torn = lines_of_waits(line);
    let is_wait = !torn.is_empty();
    places.extend(torn);
    places.sort_unstable();
    places.dedup();
    (count >= FEW || is_wait).then_some(places)
}

/// Where the lines of a wait for a latch begin of which the blanks between them are lost, too: `the semaphore:X-lock on RW-latch at 0x`.
fn lines_of_waits(line: &str) -> Vec<usize> {
    let Some((before, lines)) = line.split_once(" seconds the semaphore:") else { return Vec::new() };
    let from = line.len() - lines.len();
    // `SX-lock` ends as `X-lock` does.
    let is_torn = |at: usize| !matches!(lines[..at].chars().next_back(), Some(' ' | 'S'));
    if !before.contains("--Thread ") {
        return Vec::new();
    }
    let begins = OF_WAIT.iter().flat_map(|begins| lines.match_indices(begins));
    begins.filter(|(at, _)| is_torn(*at)).map(|(at, _)| from + at).collect()
}

/// Where the lines of counted stacks begin, as pt-pmp writes them: `71 read,vio_read,start_thread 25 poll,handle_connections_sockets`.
fn counted_stacks(line: &str) -> Option<Vec<usize>> {
    /// Fewer may be a sentence.
    const FEW_STACKS: usize = 3;
    let begins: Vec<usize> = words(line).collect();
    let word = |at: usize| line[at..].split(' ').next().unwrap_or_default();
    let is_number = |at: usize| word(at).bytes().all(|byte| byte.is_ascii_digit());
    let is_stack = |at: usize| {
        let frames = word(at).trim_matches(',');
        frames.contains(',') && frames.contains(|c: char| c.is_ascii_alphabetic())
    };
    let is_line = |pair: &&[usize]| is_number(pair[0]) && is_stack(pair[1]);
    let mut places: Vec<usize> = begins.windows(2).filter(is_line).map(|pair| pair[0]).collect();
    // Before the first stands the number of those of which it prints no frame, and behind the last one may be cut.
    if places.len() < FEW_STACKS || places.len() * 2 + 2 < begins.len() {
        return None;
    }
    places.extend(begins.last().copied().filter(|last| is_number(*last)));
    Some(places)
}

/// Where the lines of a screen of `top` begin, a row for each process among them.
fn screen_of_top(line: &str) -> Option<Vec<usize>> {
    const LINES: [&str; 9] =
        ["top - ", "Tasks: ", "Threads: ", "%Cpu", "Cpu", "KiB ", "MiB ", "GiB ", "PID USER "];
    let from = line.find("top - ").filter(|at| line[*at..].contains(" load average: "))?;
    let begins: Vec<usize> = words(line).skip_while(|at| *at < from).collect();
    let is_at = |at: usize, text: &str| line[at..].starts_with(text);
    let is_amount = |at: usize| {
        let behind = ["Mem", "Swap"].iter().find_map(|name| line[at..].strip_prefix(name));
        behind.is_some_and(|rest| rest.trim_start().starts_with(':')) && !line[..at].ends_with("iB ")
    };
    let is_line = |at: &usize| LINES.iter().any(|text| is_at(*at, text)) || is_amount(*at);
    let mut places: Vec<usize> = begins.iter().copied().filter(is_line).collect();
    if let Some(head) = begins.iter().position(|at| is_at(*at, "PID USER "))
        && let Some(last) = begins[head..].iter().position(|at| is_at(*at, "COMMAND"))
    {
        let columns = last + 1;
        let is_number_at = |at: &usize| is_number(line[*at..].split(' ').next().unwrap_or_default());
        let mut next = head + columns;
        while let Some(at) = begins.get(next).copied().filter(|at| !is_at(*at, "top - ")) {
            // Behind the number of a process stands its user: a command line may have numbers, too.
            let is_row = is_number_at(&at) && !begins.get(next + 1).is_some_and(is_number_at);
            places.extend(is_row.then_some(at));
            next += if is_row { columns } else { 1 };
        }
    }
    places.sort_unstable();
    places.dedup();
    (places.len() >= FEW).then_some(places)
}

/// True where a transaction's statement begins: with a word in capitals, or in small letters where it is no word of a state. Of `update
/// insert into a`, `Searching rows for update update a` and `update /* of the shop */ insert into a` the first `update` is a state's.
fn is_statement(rest: &str) -> bool {
    let mut words = rest.split(' ');
    let (first, next) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_state =
        || first == "alter" || next.is_empty() || next.starts_with("/*") || is_statement_word(next);
    STATEMENTS.contains(&first) || is_statement_word(first) && !is_state()
}

/// `3 lock struct(s), heap size 320`, of a transaction that waits for none. One that waits has its words before.
fn is_count_of_locks(rest: &str) -> bool {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && rest[digits..].starts_with(" lock struct(s), heap size ")
}

/// The rows of a framed table, by the columns of its border: `+----+------+ | Id | User | +----+------+ | 1 | app | | 2 | app |`. The
/// blanks between them may be lost, too: `show processlist;+----+------+| Id | User|+----+------+|1 | app||2 | app|`.
fn table(line: &str) -> Option<Vec<String>> {
    let (_, mut border) = first_border(line)?;
    let columns = |border: &str| border.matches('+').count() - 1;
    let mut lines: Vec<String> = Vec::new();
    let mut rest = line;
    while let Some((at, found)) = first_border(rest) {
        let before = rest[..at].trim();
        rows(before, columns(border), &mut lines);
        if !before.is_empty() && !before.starts_with('|') {
            // The prompt with the next statement: another table begins.
            border = found;
        }
        lines.push(border.to_owned());
        rest = &rest[at + found.len()..];
    }
    rows(rest, columns(border), &mut lines);
    (lines.len() > 2).then_some(lines)
}

/// The first border in a line, and where it begins.
fn first_border(line: &str) -> Option<(usize, &str)> {
    /// Of a table with one column of one character.
    const SHORTEST: usize = 5;
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| b"+-".contains(byte)).count();
        if length >= SHORTEST {
            let run = &line[at..at + length];
            if run.starts_with('+') && run.ends_with('+') && run.contains('-') {
                return Some((at, run));
            }
        }
        at += length.max(1);
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;
    use crate::threads::testing::sessions;

    #[test]
    fn behind_a_frame_of_the_last_number_another_stack_may_begin() {
        let rest = "x".repeat(SHORT);
        let line = format!("Thread 1 (LWP 1): #{} 0x1 in a () #0 0x2 in b () {rest}", u32::MAX);
        let begins: Vec<String> =
            in_lines(&line).lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(begins, ["Thread", "#4294967295", "#0"]);
    }

    #[test]
    fn frames_that_stand_right_behind_each_other_are_lines_again() {
        let long = "unsigned long, ".repeat(12);
        let line = format!(
            "#0  0x01 in _int_free ({long}int) from /lib64/libc.so.6#1  0x02 in mem_area_free(void*) ()#2  0x03 in row_search_mvcc ()"
        );
        let wanted = format!(
            "#0  0x01 in _int_free ({long}int) from /lib64/libc.so.6\n#1  0x02 in mem_area_free(void*) ()\n#2  0x03 in row_search_mvcc ()"
        );
        assert_eq!(in_lines(&line), wanted);
        // One line of several, from any frame on.
        let line = line.replace("#2 ", "#12 ").replace("#1 ", "#11 ").replace("#0 ", "#10 ");
        assert_eq!(in_lines(&line).lines().count(), 3, "{}", in_lines(&line));
        let other = format!("#10 0x01 in f ({long}int) at a.cc:12 for bug#12 and no other ");
        assert_eq!(in_lines(&other), other);
    }

    #[test]
    fn the_statement_of_a_transaction_begins_behind_its_state() {
        for (rest, is) in [
            ("DELETE FROM a", true),
            ("delete from a", true),
            ("update a set b = 1", true),
            ("update insert into a values (1)", false),
            ("update INSERT INTO a VALUES (1)", false),
            ("update update a set b = 1", false),
            ("update /* of the shop */ insert into a", false),
            ("updating delete from a", false),
            ("alter table ALTER TABLE a", false),
            ("update", false),
        ] {
            assert_eq!(is_statement(rest), is, "{rest}");
        }
    }

    #[test]
    fn both_statements_of_a_deadlock_in_one_line_are_said_whatever_their_letters() {
        let one = |id: u32, state: &str, statement: &str| {
            format!(
                "*** ({id}) TRANSACTION: TRANSACTION 824{id}, ACTIVE 3 sec starting index read mysql tables in use 1, locked 1 LOCK WAIT 3 lock \
                 struct(s), heap size 1184, 4 row lock(s) MySQL thread id {id}, OS thread handle 0x7f84, query id 60 localhost app {state} \
                 {statement} *** ({id}) WAITING FOR THIS LOCK TO BE GRANTED: RECORD LOCKS space id 29 page no 3 n bits 80 index `PRIMARY` of \
                 table `shop`.`stock` trx id 824{id} lock_mode X locks rec but not gap waiting "
            )
        };
        let text = format!(
            "------------------------ LATEST DETECTED DEADLOCK ------------------------ 2024-03-04 10:11:12 0x7f84 {}{}*** WE ROLL BACK TRANSACTION (2)\n",
            one(1, "updating", "delete from stock where id = 4"),
            one(2, "update", "insert into stock values (5)")
        );
        let says = crate::recognise("x", &text)[0].says.join("; ");
        assert!(
            says.contains("of delete from stock where id = ? and insert into stock values (?)"),
            "{says}"
        );
    }

    #[test]
    fn borders_that_were_broken_behind_their_first_corner_are_lines_again() {
        let border = "------------+----------------+------------------------------------+";
        let text = format!(
            "SELECT a FROM b\ndesc limit 10; +\n{border} | COUNT_STAR | SUM_TIMER_WAIT | EVENT_NAME |\n+\n\
             {border} | 36847781 | 1052968694795446 | wait/synch/mutex/innodb/lock_mutex |\n\
             | 8096 | 81663413514785 | wait/synch/cond/threadpool/timer_cond |\n+\n{border} 2 rows in\nset (0.01 sec)\n"
        );
        let wanted = format!(
            "SELECT a FROM b\ndesc limit 10;\n+{border}\n| COUNT_STAR | SUM_TIMER_WAIT | EVENT_NAME |\n+{border}\n\
             | 36847781 | 1052968694795446 | wait/synch/mutex/innodb/lock_mutex |\n\
             | 8096 | 81663413514785 | wait/synch/cond/threadpool/timer_cond |\n+{border}\n2 rows in\nset (0.01 sec)\n"
        );
        assert_eq!(in_lines(&text), wanted);
        let parts = recognise("x", &text);
        assert!(parts.iter().any(|part| part.kind == Kind::Summary), "{parts:?}");
    }

    #[test]
    fn a_list_of_which_line_ends_and_blanks_are_lost_has_all_its_rows() {
        let border =
            "+----+------+-----------+------+---------+------+--------------+-----------------------------+";
        let text = format!(
            "mysql> show processlist;{border}| Id | User| Host| db| Command | Time | State| Info|{border}\
             |5 | app| localhost | shop| Query| 2 | Sending data | select a from b where c = d||4 | app| localhost | NULL| Sleep| 1401 || NULL|\
             {border}2 rows in set (0.00 sec)and so on\n"
        );
        let wanted = [
            (Some(5), "Sending data".to_owned(), "select a from b where c = d".to_owned()),
            (Some(4), String::new(), String::new()),
        ];
        assert_eq!(sessions(&text), wanted, "{}", in_lines(&text));
    }

    #[test]
    fn a_wait_for_a_latch_without_line_ends_says_who_has_it() {
        let text = "--Thread 139998393616128 has waited at dict0dict.c line 305 for 934.00 seconds the semaphore:X-lock on \
                    RW-latch at 0x105a1b8 created in file dict0dict.c line 748a writer (thread id 139998697924352) has reserved it in \
                    mode exclusivenumber of readers 0, waiters flag 1, lock_word: 0Last time read locked in file dict0dict.c line \
                    302Last time write locked in file dict0dict.c line 305\n";
        let wanted = "--Thread 139998393616128 has waited at dict0dict.c line 305 for 934.00 seconds the semaphore:\n\
                      X-lock on RW-latch at 0x105a1b8 created in file dict0dict.c line 748\n\
                      a writer (thread id 139998697924352) has reserved it in mode exclusive\n\
                      number of readers 0, waiters flag 1, lock_word: 0\n\
                      Last time read locked in file dict0dict.c line 302\n\
                      Last time write locked in file dict0dict.c line 305\n";
        assert_eq!(in_lines(text), wanted);
        let text = text.replace(":X-lock on", ":SX-lock on");
        assert_eq!(in_lines(&text), wanted.replace("X-lock on", "SX-lock on"));
    }

    #[test]
    fn counted_stacks_without_line_ends_are_lines_again() {
        let text = "129 71 pthread_cond_wait@@GLIBC_2.3.2,end_thread,handle_one_connection,start_thread,clone 25 \
                    read,vio_read,my_net_read,handle_one_connection,start_thread,clone 5 \
                    __lll_lock_wait,pthread_mutex_lock,open_table,mysql_execute_command,start_thread,clone 1 \n";
        let wanted = "129\n71 pthread_cond_wait@@GLIBC_2.3.2,end_thread,handle_one_connection,start_thread,clone\n\
                      25 read,vio_read,my_net_read,handle_one_connection,start_thread,clone\n\
                      5 __lll_lock_wait,pthread_mutex_lock,open_table,mysql_execute_command,start_thread,clone\n1\n";
        assert_eq!(in_lines(text), wanted);
        let sentence = "of 12 tables, 3 were read, and 5 were written; ".repeat(5);
        assert_eq!(in_lines(&sentence), sentence);
    }

    #[test]
    fn a_screen_of_top_without_line_ends_has_its_rows_again() {
        let text = "This is what we see: $ top top - 17:12:44 up 104 days, 20 min, 2 users, load average: 1.06, 1.02, 1.00 Tasks: 218 \
                    total, 1 running Cpu0: 0.3%us, 0.0%sy, 0.0%ni, 99.6%id, 0.0%wa Cpu1: 100.0%us, 0.0%sy, 0.0%ni, 0.0%id, 0.0%wa Mem: 16318504k \
                    total, 7863412k used, 8455092k free, 322048k buffers Swap: 5242876k total, 0k used, 5242876k free, 6226588k cached PID \
                    USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND 75373 mysql 20 0 845m 699m 29m S 100.0 4.4 11:10 mysqld --port 3306 \
                    43285 root 20 0 174m 40m 19m S 0.7 0.3 75:40 consul\n";
        let parts = recognise("x", text);
        let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
        assert_eq!(parts.last().map(|part| part.kind), Some(Kind::System));
        assert_eq!(
            says,
            [
                "The server uses 1.0 CPUs, and 49.8 % of the CPUs are idle: top -H -p PID says which of its threads"
            ]
        );
        let lines = in_lines(text);
        assert_eq!(lines.lines().count(), 10, "{lines}");
        let new = text.replace(" Mem: ", " KiB Mem : ").replace(" Swap: ", " KiB Swap: ");
        assert_eq!(in_lines(&new).lines().filter(|line| line.starts_with("KiB ")).count(), 2);
    }

    #[test]
    fn what_a_terminal_wrapped_and_sums_stay_as_they_are() {
        for text in ["+----+\n------+\n| Id | \n User |\n", "1 +\n2\n", "a +\n------\n", "+\n-- a remark +\n"]
        {
            assert_eq!(in_lines(text), text);
        }
    }
}
