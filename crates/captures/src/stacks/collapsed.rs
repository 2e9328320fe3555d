//! Stacks in one line each, with a count: what pt-pmp and its awk ancestors print (innermost function first, commas between), and
//! folded stacks for flame graphs (outermost first, semicolons between, the count at the end).
//!
//! ```text
//!      24 __lll_lock_wait(libpthread.so.0),pthread_mutex_lock(libpthread.so.0),get_db_stats,dispatch_command
//! mysqld;start_thread;handle_one_connection;dispatch_command;row_search_mvcc;_raw_spin_lock_[k] 24
//! ```

use std::borrow::Cow;

use spindoctor_model::stack::{StackSource, ThreadState};

use super::backtrace::location;
use super::tables::{MOST_SEEN, Place, Tables, Who};
use super::{CapturedStacks, name, state};

/// The longest line that is taken for a stack.
const LONGEST_LINE: usize = 256 << 10;

/// CPU samples that a text of more is scaled down to: shares stay what they are to a part in ten thousand.
const SAMPLES: usize = 10_000;

/// Threads that stand for all that was counted, where that is no threads: shares stay what they are to a part in a hundred.
const COUNTED: usize = 100;

/// Functions that one text of stacks has at least one of: words with commas between may be anything. (Others are known by `::`,
/// a library in brackets, or the name of a file.)
const KNOWN: &[&str] = &[
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "start_thread",
    "main",
    "_start",
    "__libc_start_main",
    "poll",
    "select",
    "read",
    "syscall",
    "do_command",
    "dispatch_command",
    "handle_one_connection",
    "do_handle_one_connection",
    "handle_connection",
    "pfs_spawn_thread",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_mutex_lock",
    "mysql_execute_command",
    "io_handler_thread",
    "os_event_wait_low",
    "entry_SYSCALL_64_after_hwframe",
    "do_syscall_64",
];

/// One line.
struct Line<'a> {
    count: usize,
    /// Innermost first.
    frames: Vec<&'a str>,
}

/// What pt-pmp printed, where a text is that.
pub(super) fn read_pmp(text: &str) -> Option<CapturedStacks> {
    let text = unwrapped(text);
    let (lines, not_understood) = lines(&text, pmp_line);
    // The tail of another form may begin with a number and a function, too. What names files, classes and libraries throughout is
    // nothing else, whatever a person wrote around it: one line of many may be cut.
    let is_sure = lines.iter().any(|line| is_sure(&line.frames) && is_known(line));
    if (not_understood > lines.len() && !is_sure) || !lines.iter().any(is_known) {
        return None;
    }
    let mut tables = Tables::new(StackSource::Ptrace);
    let mut threads = 0_usize;
    for line in &lines {
        let places: Vec<Place> = line.frames.iter().map(|frame| pmp_place(frame)).collect();
        tables.nameless_threads(line.count, &places, None);
        threads = threads.saturating_add(line.count);
    }
    Some(CapturedStacks {
        form: "pt-pmp",
        profile: tables.finish(),
        threads,
        lines_not_understood: not_understood,
    })
}

/// True for a line that pt-pmp prints and nothing else: a count, and functions of which some are known.
pub(super) fn is_counted(line: &str) -> bool {
    /// Two words with a comma between them may be anything.
    const FEWEST: usize = 3;
    let line = line.trim();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let is_count = digits > 0 && line[digits..].starts_with([' ', '\t']);
    is_count
        && line.len() <= LONGEST_LINE
        && line.contains(',')
        && pmp_line(line).is_some_and(|line| line.frames.len() >= FEWEST && is_known(&line))
}

/// A line that ends with a comma goes on in the next one: a page or a letter was too narrow for it.
fn unwrapped(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| line.trim_end().ends_with(',')) {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len());
    for line in text.lines() {
        match whole.ends_with(',') {
            true => whole.push_str(line.trim()),
            false => whole.push_str(line),
        }
        let kept = whole.trim_end().len();
        whole.truncate(kept);
        if !whole.ends_with(',') {
            whole.push('\n');
        }
    }
    Cow::Owned(whole)
}

/// Folded stacks, where a text is that: threads where most of them wait, else CPU samples.
pub(super) fn read_folded(text: &str) -> Option<CapturedStacks> {
    of_folded(text, true)
}

/// Folded stacks. What waits may be no threads: a tracer counts events and microseconds.
pub(super) fn of_folded(text: &str, may_be_threads: bool) -> Option<CapturedStacks> {
    let (lines, not_understood) = lines(text, folded_line);
    if lines.is_empty() || !lines.iter().any(is_known) {
        return None;
    }
    let stacks: Vec<(usize, Who, Vec<Place>)> = lines.iter().map(folded).collect();
    let all = stacks.iter().fold(0_usize, |sum, (count, ..)| sum.saturating_add(*count));
    let runs = |places: &[Place]| {
        let names = |kernel| {
            let of = places.iter().filter(move |place| place.kernel == kernel);
            of.filter_map(|place| name::short(&place.name)).collect::<Vec<_>>()
        };
        let (kernel, user) = (names(true), names(false));
        // CPU samples lie in the kernel's part of a call where it works, too; only what sleeps is in the scheduler.
        match kernel.iter().any(|name| ["schedule", "__schedule", "io_schedule"].contains(&name.as_str())) {
            true => false,
            false if !kernel.is_empty() => true,
            false => {
                let user: Vec<&str> = user.iter().map(String::as_str).collect();
                state::of_frames(&[], &user) == ThreadState::Running
            }
        }
    };
    let running = stacks
        .iter()
        .filter(|(.., places)| runs(places))
        .fold(0_usize, |sum, (count, ..)| sum.saturating_add(*count));
    let is_cpu = running > all / 2;
    // No server has so many threads.
    let are_threads = may_be_threads && all <= MOST_SEEN;
    let mut tables = Tables::new(if is_cpu { StackSource::Cpu } else { StackSource::Ptrace });
    for (count, who, places) in &stacks {
        if is_cpu {
            let share = *count as f64 / all.max(SAMPLES) as f64;
            let scaled = if all > SAMPLES { (share * SAMPLES as f64).round() as usize } else { *count };
            tables.samples(scaled, who, places);
        } else if are_threads {
            tables.nameless_threads(*count, places, None);
        } else {
            let share = *count as f64 / all.max(1) as f64;
            tables.nameless_threads((share * COUNTED as f64).round() as usize, places, None);
        }
    }
    let form = match (is_cpu, are_threads) {
        (true, _) => "folded CPU samples",
        (false, true) => "folded stacks",
        (false, false) => super::COUNTED_STACKS,
    };
    let threads = match (is_cpu, are_threads) {
        (true, _) => tables.profile.threads.len(),
        (false, true) => all,
        (false, false) => COUNTED,
    };
    Some(CapturedStacks { form, profile: tables.finish(), threads, lines_not_understood: not_understood })
}

fn lines<'a>(text: &'a str, parse: fn(&'a str) -> Option<Line<'a>>) -> (Vec<Line<'a>>, usize) {
    let mut not_understood = 0;
    let lines = text
        .lines()
        .filter_map(|line| {
            let parsed = (line.len() <= LONGEST_LINE).then(|| parse(line.trim())).flatten();
            not_understood += usize::from(parsed.is_none() && !line.trim().is_empty());
            parsed
        })
        .collect();
    (lines, not_understood)
}

fn pmp_line(line: &str) -> Option<Line<'_>> {
    let (count, stack) = line.split_once([' ', '\t'])?;
    let stack = stack.trim();
    let mut frames = functions(stack);
    let has_arguments = stack.contains('=');
    if has_arguments {
        frames.retain(|word| !is_argument(word));
    }
    // It prints the first word of each function: no blank stands behind a comma, as one does between the arguments of others.
    let is_apart = match has_arguments {
        true => !stack.contains(' '),
        false => !stack.contains(", ") || is_sure(&frames),
    };
    let is_stack = !count.starts_with('0')
        && !stack.contains([';', '"', '\''])
        && is_apart
        && frames.len() > 1
        && frames.iter().all(|name| is_function(name));
    let line = Line { count: count.parse().ok()?, frames };
    (is_stack && (!has_arguments || is_known(&line))).then_some(line)
}

/// True for a word that awk scripts older than pt-pmp take for a function where gdb wrapped a frame: `thread_id=7)`, `out>`, `at`.
fn is_argument(word: &str) -> bool {
    let closes = |open: char, close: char| word.matches(close).count() > word.matches(open).count();
    let is_value = || word.contains('=') || closes('(', ')') || closes('<', '>');
    word == "at" || !word.contains("operator") && is_value()
}

fn folded_line(line: &str) -> Option<Line<'_>> {
    let (stack, count) = line.rsplit_once([' ', '\t'])?;
    let is_frame = |frame: &&str| !frame.is_empty() && !is_left_out(frame);
    let mut frames: Vec<&str> = stack.trim().split(';').filter(is_frame).collect();
    frames.reverse();
    // Prose and statements have blanks behind their semicolons.
    let is_stack = frames.len() > 1
        && !stack.contains("; ")
        && !stack.contains(['"', '\''])
        && frames.iter().all(|name| is_function(name) || name.starts_with(['[', '-']));
    Some(Line { count: count.parse().ok()?, frames }).filter(|_| is_stack)
}

/// The functions between commas; a template's arguments with commas between are put together again.
fn functions(stack: &str) -> Vec<&str> {
    let mut functions = Vec::new();
    let (mut from, mut depth) = (0, 0_i32);
    for (at, character) in stack.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth <= 0 || !closes(&stack[at..], depth) => {
                functions.push(&stack[from..at]);
                (from, depth) = (at + 1, 0);
            }
            _ => {}
        }
    }
    functions.push(&stack[from..]);
    // awk cuts a name at its first blank, which may stand behind a comma.
    functions.retain(|name| !name.trim().is_empty() && !is_left_out(name));
    functions
}

/// True for what stands where somebody left functions out: `pthread_cond_wait,...,buf_dblwr_add_to_batch`.
fn is_left_out(frame: &str) -> bool {
    ["...", "\u{2026}", "[...]"].contains(&frame.trim())
}

/// How far behind a comma a template may close.
const TEMPLATE: usize = 200;

/// Whether so many open angle brackets close before the next frame can have begun.
fn closes(rest: &str, depth: i32) -> bool {
    let mut depth = depth;
    for character in rest[1..].chars().take(TEMPLATE) {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' => return false,
            _ => {}
        }
        if depth == 0 {
            return true;
        }
    }
    false
}

fn is_function(name: &str) -> bool {
    let name = name.trim();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || "_~?<([$*".contains(c));
    begins && !name.contains("  ") && name.len() < 8_000
}

/// True for functions of which three and more have a source file, a class or a library beside them.
fn is_sure(frames: &[&str]) -> bool {
    const SURE: usize = 3;
    let names_more = |frame: &&&str| [".cc:", ".c:", ".so", "::"].iter().any(|sign| frame.contains(sign));
    frames.iter().filter(names_more).count() >= SURE
}

fn is_known(line: &Line<'_>) -> bool {
    line.frames.iter().any(|frame| {
        let name = frame.split(['(', '@']).next().unwrap_or(frame);
        KNOWN.contains(&name)
            || frame.contains("::")
            || frame.contains(".so")
            || frame.contains("_[k]")
            || frame.contains(".cc:")
    })
}

/// `poll(libc.so.6)`, `vio_read(viosocket.c:184)`, `do_command(THD*)`, `get_db_stats(char`.
fn pmp_place(frame: &str) -> Place {
    let frame = frame.trim();
    let (name, bracket) = match frame.rfind('(') {
        Some(at) if at > 0 && !frame[..at].ends_with("operator") => {
            (&frame[..at], frame[at + 1..].trim_end_matches(')'))
        }
        _ => (frame, ""),
    };
    let mut place = Place { name: name.to_owned(), ..Place::default() };
    if let Some(found) = location(bracket) {
        place.location = Some(found);
    } else if bracket.contains(".so") || super::tables::is_server(bracket) {
        place.module = Some(bracket.to_owned());
    }
    // `libstdc++::??(libstdc++.so.6.0.30)`: a function without a name.
    if name.ends_with("??") {
        place.name.clear();
    }
    // awk cut the template at a blank: what is before it is the name.
    if name.matches('<').count() > name.matches('>').count() && !name.contains("operator") {
        place.name = name.split('<').next().unwrap_or(name).to_owned();
    }
    place
}

/// The thread's name where it stands first, and the frames.
fn folded(line: &Line<'_>) -> (usize, Who, Vec<Place>) {
    let mut who = Who::default();
    let mut frames = &line.frames[..];
    if let Some((outermost, rest)) = frames.split_last() {
        let (comm, id) = outermost.split_once('-').unwrap_or((outermost, ""));
        let is_thread =
            super::perf::is_server_thread(comm) || id.starts_with(|c: char| c.is_ascii_digit() || c == '?');
        if is_thread && !rest.is_empty() {
            let tid = id.rsplit('/').next().unwrap_or(id).parse().unwrap_or(0);
            who = Who { tid, name: comm.chars().take(64).collect(), pointer: None };
            frames = rest;
        }
    }
    let places = frames
        .iter()
        .filter(|frame| !["-", "--"].contains(&frame.trim()))
        .map(|frame| folded_place(frame))
        .collect();
    (line.count, who, places)
}

fn folded_place(frame: &str) -> Place {
    let (name, kernel, inlined) = match (frame.strip_suffix("_[k]"), frame.strip_suffix("_[i]")) {
        (Some(name), _) => (name, true, false),
        (_, Some(name)) => (name, false, true),
        _ => (frame, false, false),
    };
    let mut place = Place { kernel, inlined, ..Place::default() };
    // `[libc.so.6]`: a function without a name.
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some("unknown") => {}
        Some(module) => place.module = Some(module.to_owned()),
        None => place.name = name.to_owned(),
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_prose_with_stacks_is_read_where_one_line_is_cut() {
        let text = "This is what the server did.\nNobody could connect.\nThe counts are of threads.\nWe looked twice.\n\
                    12 wait_there(cond.h:12),MDL_wait::timed_wait(mdl.cc:18),open_table(sql_base.cc:30),do_command(sql_parse.cc:9)\n\
                    3 wait_there(cond.h:12),lock_wa\n";
        let found = read_pmp(text).unwrap();
        assert_eq!((found.threads, found.lines_not_understood), (15, 4));
        assert!(read_pmp("This is prose.\nAnd more.\n12 apples,main\n").is_none());
    }

    #[test]
    fn words_of_arguments_that_were_wrapped_are_no_functions() {
        let text = "[sudo] password for ops:\n\
                    \x20     2 pthread_cond_wait@@GLIBC_2.3.2,wait_for_work,at,is_pool=true),handle_one_connection,start_thread,clone\n\
                    \x20     1 checksum,pointer>,,out>,,buffer=0x7facd0,rocksdb::Get,index=<optimized,do_command,start_thread,clone\n\
                    \x20     1 sigwait,signal_hand,start_thread,clone\n";
        let found = read_pmp(text).unwrap();
        assert_eq!((found.threads, found.lines_not_understood), (4, 1));
        let names: Vec<&str> = found.profile.frames.iter().map(|frame| frame.name.as_str()).collect();
        assert!(names.contains(&"rocksdb::Get") && names.contains(&"do_command"), "{names:?}");
        assert!(names.iter().all(|name| !name.contains(['=', ')']) && *name != "at"), "{names:?}");
        assert!(read_pmp("1 a=1,b=2,c\n2 d=3,e,f\n").is_none());
        assert!(read_pmp("1 0x12 in do_command (this=0x1, at=2) at a.cc:1\n").is_none());
    }
}
