//! What some tools print in forms of their own, as what it stands for: gdb's list of threads as backtraces, mytop's page as a process
//! list; and frames that a terminal wrapped at its width, as they were.

use crate::heads::{COMMANDS, STATEMENTS, is_number};
use crate::{
    bare_frames, blanks, headless, headless_processes, innotop, labelled, nameless_disks, quoted_lines,
    spaced, split_columns, uniq, wrapped_rows,
};

/// The lines of a text, where some stand for others.
pub(crate) fn reshaped(lines: Vec<String>) -> Vec<String> {
    let lines = nameless_disks::with_names(split_columns::whole(bare_frames::with_numbers(lines)));
    let lines = headless_processes::with_head(lines);
    let lines = uniq::with_heads(unwrapped(innotop::with_deadlock(innotop::with_locks(
        innotop::with_transactions(lines),
    ))));
    let lines = quoted_lines::in_one_line(blanks::with_tabs(labelled::with_tabs(wrapped_rows::whole(lines))));
    sessions_of_mytop(spaced::with_tabs(headless::with_head(headless::with_head_of_transactions(
        backtraces(lines),
    ))))
}

/// The width of a frame that was wrapped, and that at which it was.
#[derive(Debug, Clone, Copy)]
struct Wrapped {
    pieces: usize,
    at: usize,
}

impl Wrapped {
    /// Frames that are wider than this were never printed whole.
    const MOST_PIECES: usize = 64;
    /// No terminal has more columns. By judgement.
    const WIDEST: usize = 2_000;

    /// Of a border that goes on in the lines below it.
    fn from_border(lines: &[String]) -> Option<Self> {
        let first = lines.first()?;
        let is_rule = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte == b'-' || byte == b'+');
        if !first.starts_with("+-") || first.len() > Self::WIDEST || !is_rule(first) {
            return None;
        }
        // A border that is whole ends with its corner, and the one below begins with one.
        let goes_on = |above: &str, below: &str| {
            is_rule(below) && below.len() <= first.len() && (!above.ends_with('+') || below.starts_with('-'))
        };
        let more =
            lines.windows(2).take(Self::MOST_PIECES).take_while(|pair| goes_on(&pair[0], &pair[1])).count();
        let is_whole = more > 0
            && lines[more].ends_with('+')
            && lines[1..more].iter().all(|line| line.len() == first.len());
        is_whole.then_some(Self { pieces: more + 1, at: first.len() })
    }

    /// The line of which these are the pieces; None where they are not.
    fn whole(self, lines: &[String]) -> Option<String> {
        let pieces = lines.get(..self.pieces)?;
        let mut whole = String::new();
        for (place, piece) in pieces.iter().enumerate() {
            let width = piece.chars().count();
            if width > self.at {
                return None;
            }
            whole.push_str(piece);
            if place + 1 < self.pieces {
                // The blanks at its end were lost.
                whole.extend(std::iter::repeat_n(' ', self.at - width));
            }
        }
        let is_row =
            whole.starts_with('|') && whole.ends_with('|') || whole.starts_with('+') && whole.ends_with('+');
        is_row.then_some(whole)
    }
}

/// A client's frames without the line ends that a terminal put into them.
fn unwrapped(lines: Vec<String>) -> Vec<String> {
    let is_piece = |line: &String| line.starts_with("+-") != line.ends_with('+') && line.contains("--");
    if !lines.iter().any(is_piece) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut wrapped: Option<Wrapped> = None;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        wrapped = Wrapped::from_border(&lines[at..]).or(wrapped);
        let is_first = line.starts_with(['|', '+']);
        let whole = wrapped
            .filter(|_| is_first)
            .and_then(|wrapped| Some((wrapped.whole(&lines[at..])?, wrapped.pieces)));
        match whole {
            Some((whole, pieces)) => {
                all.push(whole);
                at += pieces;
            }
            None => {
                all.push(line.clone());
                at += 1;
            }
        }
    }
    all
}

/// `info threads` of gdb: a line a thread, with its innermost function.
///
/// ```text
/// * 1    Thread 0x7f2a4c1e9740 (LWP 4711) "mysqld" 0x00007f2a4b0a1c3d in poll () from /lib64/libc.so.6
/// ```
fn backtraces(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| backtrace(line).is_some()) {
        return lines;
    }
    lines
        .into_iter()
        .flat_map(|line| match backtrace(&line) {
            Some([thread, frame]) => vec![thread, frame],
            None => vec![line],
        })
        .collect()
}

fn backtrace(line: &str) -> Option<[String; 2]> {
    let line = line.trim_start().trim_start_matches("* ").trim_start();
    let number = &line[..line.bytes().take_while(u8::is_ascii_digit).count()];
    let rest = line[number.len()..].trim_start();
    if number.is_empty() || number.len() > 7 || !rest.starts_with("Thread 0x") {
        return None;
    }
    let (thread, id_and_rest) = rest.split_once(" (LWP ")?;
    let (id, rest) = id_and_rest.split_once(')')?;
    let rest = rest.trim_start();
    let (name, frame) = match rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((name, frame)) => (format!(" \"{name}\""), frame.trim_start()),
        None => (String::new(), rest),
    };
    // `(running)`, and a header of `thread apply all bt`, have no function.
    let is_frame = frame.contains(" (") && !frame.starts_with('(') && !id.is_empty();
    // A page may have left out what stands behind the function.
    let bare = frame.rsplit_once(" in ").map_or(frame, |(_, function)| function).trim();
    let is_bare = bare.contains('_')
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:~@.".contains(&byte));
    let frame = if is_bare { format!("{frame} ()") } else { frame.to_owned() };
    (is_frame || is_bare)
        .then(|| [format!("Thread {number} ({thread} (LWP {id}){name}):"), format!("#0  {frame}")])
}

/// mytop's page: the sessions below its head, right below their names.
///
/// ```text
///        Id      User         Host/IP         DB      Time    Cmd Query or State
///        --      ----         -------         --      ----    --- ----------
///      8123       app       10.0.0.13       shop        41  Query UPDATE stock SET n = n - 1
/// ```
fn sessions_of_mytop(lines: Vec<String>) -> Vec<String> {
    let is_head = |line: &String| line.split_whitespace().take(4).eq(["Id", "User", "Host/IP", "DB"]);
    if !lines.iter().any(is_head) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    // Where statements begin, of a page that has the states in a column of their own.
    let mut statements_at: Option<usize> = None;
    let mut in_list = false;
    for line in lines {
        if is_head(&line) {
            statements_at = line.find(" State Query").map(|at| at + " State ".len());
            in_list = true;
            all.push("Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo".to_owned());
            continue;
        }
        let is_rule = !line.is_empty() && line.bytes().all(|byte| byte == b'-' || byte == b' ');
        match session(&line, statements_at).filter(|_| in_list) {
            Some(row) => all.push(row),
            None if in_list && is_rule => {}
            None => {
                in_list = false;
                all.push(line);
            }
        }
    }
    all
}

fn session(line: &str, statements_at: Option<usize>) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().take(12).collect();
    if !is_number(words.first().copied()?) {
        return None;
    }
    // The time stands before the command; MariaDB's mytop has the progress between them.
    let command = (4..words.len()).find(|&at| COMMANDS.contains(&words[at]))?;
    let time = (3..command).rev().find(|&at| is_number(words[at]))?;
    let database = words[3..time].join(" ");
    // What stands behind the words up to the command.
    let mut rest = line;
    for word in &words[..=command] {
        rest = &rest[rest.find(word)? + word.len()..];
    }
    let begins = line.len() - rest.len();
    let is_statement = |text: &str| {
        let first = text.split_whitespace().next().unwrap_or_default();
        STATEMENTS.iter().any(|statement| first.eq_ignore_ascii_case(statement))
    };
    let (state, statement) = match statements_at.filter(|&at| at > begins && line.is_char_boundary(at)) {
        Some(at) if at < line.len() => (line[begins..at].trim(), line[at..].trim()),
        _ if is_statement(rest) => ("", rest.trim()),
        _ => (rest.trim(), ""),
    };
    let statement = if statement.is_empty() { "NULL" } else { statement };
    let (id, user, host) = (words[0], words[1], words[2]);
    Some(format!(
        "{id}\t{user}\t{host}\t{database}\t{}\t{}\t{state}\t{statement}",
        words[command], words[time]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        reshaped(text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn frames_that_a_terminal_wrapped_are_whole_again() {
        let table = "+------+------------------------------+----------+\n\
                     | Id   | State                        | Info     |\n\
                     +------+------------------------------+----------+\n\
                     |    7 |                              | SELECT 1 |\n\
                     |    8 | Waiting for                  | SELECT 2 |\n\
                     +------+------------------------------+----------+\n";
        for width in [20, 24, 30, 38, 39, 49] {
            let wrapped: String = table
                .lines()
                .flat_map(|line| {
                    let letters: Vec<char> = line.chars().collect();
                    letters.chunks(width).map(|piece| piece.iter().collect::<String>()).collect::<Vec<_>>()
                })
                .map(|piece| format!("{}\n", piece.trim_end()))
                .collect();
            assert_eq!(
                lines(&format!("mysql> show processlist;\n{wrapped}2 rows\n")).join("\n"),
                format!("mysql> show processlist;\n{table}2 rows"),
                "{width}"
            );
        }
        assert_eq!(lines(table), table.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_is_no_wider_than_a_terminal() {
        // Each line would become one of the frame's width.
        let border = format!("+{}\n--+\n", "-".repeat(Wrapped::WIDEST));
        let text = format!("{border}{}", "|\n|\n".repeat(40));
        assert_eq!(lines(&text), text.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_list_of_threads_is_a_backtrace_of_each() {
        let list = "(gdb) info threads\n  Id   Target Id                                   Frame\n\
                    * 1    Thread 0x7f2a4c1e9740 (LWP 4711) \"mysqld\" 0x00007f2a4b0a1c3d in poll () from /lib64/libc.so.6\n\
                    \x20 12 Thread 0x7f2a3c1e9700 (LWP 4712)  os_event::wait (this=0x7f) at os0event.cc:185\n\
                    \x20 13   Thread 0x7f2a3c1e9701 (LWP 4713) \"mysqld\" (running)\n";
        assert_eq!(
            lines(list)[2..],
            [
                "Thread 1 (Thread 0x7f2a4c1e9740 (LWP 4711) \"mysqld\"):",
                "#0  0x00007f2a4b0a1c3d in poll () from /lib64/libc.so.6",
                "Thread 12 (Thread 0x7f2a3c1e9700 (LWP 4712)):",
                "#0  os_event::wait (this=0x7f) at os0event.cc:185",
                "  13   Thread 0x7f2a3c1e9701 (LWP 4713) \"mysqld\" (running)",
            ]
        );
    }

    #[test]
    fn a_list_of_threads_with_bare_functions_is_one_too() {
        let list = "  2    Thread 0x7f635435b700 (LWP 2088)  futex_wait_cancelable\n\
                    \x20 3    Thread 0x7f635435b701 (LWP 2089)  0x00007f700643623f in __GI___clock_nanosleep\n\
                    \x20 4    Thread 0x7f635435b702 (LWP 2090)  exited\n";
        assert_eq!(
            lines(list),
            [
                "Thread 2 (Thread 0x7f635435b700 (LWP 2088)):",
                "#0  futex_wait_cancelable ()",
                "Thread 3 (Thread 0x7f635435b701 (LWP 2089)):",
                "#0  0x00007f700643623f in __GI___clock_nanosleep ()",
                "  4    Thread 0x7f635435b702 (LWP 2090)  exited",
            ]
        );
    }

    #[test]
    fn a_page_of_mytop_is_a_process_list() {
        let page = "MySQL on localhost (5.7.40-log)                up 12+03:12:01 [10:11:12]\n\n\
                    \x20      Id      User         Host/IP         DB      Time    Cmd Query or State\n\
                    \x20      --      ----         -------         --      ----    --- ----------\n\
                    \x20    8123       app       10.0.0.13       shop        41  Query UPDATE stock SET n = n - 1\n\
                    \x20    8124       app       10.0.0.13                    9  Query Opening tables\n\
                    \x20    8125       app       10.0.0.13       shop       900  Sleep\n\nend\n";
        assert_eq!(
            lines(page)[2..],
            [
                "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo",
                "8123\tapp\t10.0.0.13\tshop\tQuery\t41\t\tUPDATE stock SET n = n - 1",
                "8124\tapp\t10.0.0.13\t\tQuery\t9\tOpening tables\tNULL",
                "8125\tapp\t10.0.0.13\tshop\tSleep\t900\t\tNULL",
                "",
                "end",
            ]
        );
        let newer = "  Id  User  Host/IP  DB    Time    %    Cmd                State Query\n\
                     \x20 7  app  10.0.0.3  shop    41  0.0  Query              updating UPDATE a SET b = 1\n";
        assert_eq!(lines(newer)[1], "7\tapp\t10.0.0.3\tshop\tQuery\t41\tupdating\tUPDATE a SET b = 1");
    }
}
