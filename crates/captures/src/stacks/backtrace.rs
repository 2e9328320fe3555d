//! Backtraces, a line a frame: gdb's `thread apply all bt`, pstack, eu-stack, quickstack, pt-eustack-resolver, lldb, and what
//! systemd-coredump prints. A frame begins with `#` and its number, or, where a paste has lost that, with number and address.
//!
//! ```text
//! Thread 12 (Thread 0x7f4d45fef710 (LWP 11148)):
//! #0  0x00007f4d7d2a4a00 in pthread_cond_wait () from /lib64/libpthread.so.0
//! #1  os_event::wait (this=0x7f4d) at /build/os0event.cc:185
//!
//! TID 11148:
//! #0  0x00007f4d7d2a4a00 pthread_cond_wait
//!
//! Stack trace of thread 11148:
//! #0  0x00007f4d7d2a4a00 n/a (libc.so.6 + 0x6d7e9)
//!
//!   thread #2, name = 'connection'
//!     frame #0: 0x00007f4d7d2a4a00 libc.so.6`poll + 47
//! ```

use std::collections::HashSet;

use spindoctor_model::stack::StackSource;

use super::tables::{Place, Tables, Who};
use super::{CapturedStacks, name};

/// The longest text of one frame, with the lines that it was wrapped over.
const LONGEST_FRAME: usize = 64 << 10;

/// Known functions that a numbered list which is no stack has at most. By judgement: a recipe names one or two.
const MOST_BY_CHANCE: usize = 3;

/// Lines that one frame may be wrapped over.
const MOST_WRAPPED: usize = 60;

/// The program that wrote a frame's line, as far as its form shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Gdb,
    EuStack,
    Coredump,
    Lldb,
}

/// Backtraces of threads, where a text has any.
pub(super) fn read(text: &str) -> Option<CapturedStacks> {
    let mut reading = Reading::new();
    for line in text.lines() {
        reading.line(line);
    }
    reading.end_thread();
    reading.finish()
}

/// True for the line above the frames of a thread, and for a frame that is no sentence: one with its address, or the innermost with its
/// arguments.
pub(super) fn begins(line: &str) -> bool {
    let line = without_prompt(line);
    if !line.starts_with(['#', 'T', 't', 'f', 'S']) {
        return false;
    }
    let is_frame = |(number, rest): (u32, &str)| {
        let is_called = || {
            let has_place = ["()", "=0x", ") at ", ") from "].iter().any(|sign| rest.contains(sign));
            has_place && rest.split_once(' ').is_some_and(|(_, behind)| behind.starts_with('('))
        };
        address(rest).is_some() || number == 0 && is_called()
    };
    thread_header(line).is_some() || frame_start(line).is_some_and(is_frame)
}

struct Reading {
    tables: Tables,
    /// Ids of the threads of this snapshot.
    seen: HashSet<u32>,
    who: Who,
    places: Vec<Place>,
    cut: Option<String>,
    /// The number of the first frame of this thread.
    first: u32,
    /// The frame that is being read, which may go on in the next line.
    frame: String,
    wrapped: usize,
    threads: usize,
    /// Frames with an address, a file or a library: prose has none.
    sure: usize,
    /// Frames of functions that a server has, or waits in: a numbered list of these is a stack, too.
    known: usize,
    forms: [usize; 4],
    not_understood: usize,
    has_headers: bool,
}

impl Reading {
    fn new() -> Self {
        Self {
            tables: Tables::new(StackSource::Ptrace),
            seen: HashSet::new(),
            who: Who::default(),
            places: Vec::new(),
            cut: None,
            first: 0,
            frame: String::new(),
            wrapped: 0,
            threads: 0,
            sure: 0,
            known: 0,
            forms: [0; 4],
            not_understood: 0,
            has_headers: false,
        }
    }

    fn line(&mut self, line: &str) {
        let trimmed = without_prompt(line);
        if let Some(who) = thread_header(trimmed) {
            self.end_thread();
            self.has_headers = true;
            self.who = who;
        } else if let Some((number, rest)) = frame_start(trimmed) {
            self.end_frame();
            if number == 0 && !self.places.is_empty() {
                self.end_thread();
            }
            if self.places.is_empty() {
                // quickstack counts from one, with two digits.
                self.first = if trimmed.starts_with("#01 ") { 0 } else { number };
            }
            self.frame.push_str(&rest[..rest.floor_char_boundary(LONGEST_FRAME)]);
            self.wrapped = 0;
        } else if trimmed.is_empty() {
            self.end_frame();
        } else if !self.frame.is_empty() && self.goes_on(trimmed) {
            self.frame.push(' ');
            self.frame.push_str(trimmed);
            self.wrapped += 1;
        } else if let Some(why) = trimmed.strip_prefix("Backtrace stopped: ") {
            self.end_frame();
            self.cut = Some(why.chars().take(200).collect());
        } else {
            self.end_frame();
            self.not_understood += usize::from(!is_noise(line));
        }
    }

    /// Whether the frame that is being read goes on in this line: gdb wraps before `at` and `from` and within arguments, and
    /// pages wrap where they like.
    fn goes_on(&self, next: &str) -> bool {
        let begins = ["at ", "from ", "in ", "("].iter().any(|word| next.starts_with(word));
        let is_open =
            || [" at", " from", " in", ","].iter().any(|end| self.frame.ends_with(end)) || open(&self.frame);
        self.wrapped < MOST_WRAPPED && self.frame.len() + next.len() < LONGEST_FRAME && (begins || is_open())
    }

    fn end_frame(&mut self) {
        if self.frame.is_empty() {
            return;
        }
        let frame = std::mem::take(&mut self.frame);
        let Some((form, place, is_sure)) = place(&frame, self.places.len()) else {
            self.not_understood += 1;
            return;
        };
        self.sure += usize::from(is_sure);
        self.known += usize::from(is_known(&place.name));
        self.forms[form as usize] += 1;
        self.places.push(place);
    }

    fn end_thread(&mut self) {
        self.end_frame();
        let who = std::mem::take(&mut self.who);
        let cut = self.cut.take();
        if self.places.is_empty() {
            return;
        }
        // Another snapshot begins where a thread comes a second time.
        if self.threads == 0 || (who.tid != 0 && self.seen.contains(&who.tid)) {
            self.tables.next_snapshot();
            self.seen.clear();
        }
        self.seen.insert(who.tid);
        self.threads += 1;
        match self.first {
            0 => self.tables.thread(&who, &self.places, cut.as_deref()),
            _ => self.tables.thread_without_innermost(&who, &self.places, cut.as_deref()),
        }
        self.places.clear();
    }

    fn finish(self) -> Option<CapturedStacks> {
        let frames: usize = self.forms.iter().sum();
        // One numbered line is prose; two that lie in code, or one below the heading of a thread, are a stack.
        if self.sure == 0 && self.known < MOST_BY_CHANCE || frames < if self.has_headers { 1 } else { 2 } {
            return None;
        }
        let [gdb, eu_stack, coredump, lldb] = self.forms;
        let form = match () {
            () if coredump * 2 > frames => super::BY_SYSTEMD,
            () if lldb * 2 > frames => "lldb backtrace",
            () if eu_stack > gdb => "eu-stack",
            () => "gdb backtrace",
        };
        Some(CapturedStacks {
            form,
            profile: self.tables.finish(),
            threads: self.threads,
            lines_not_understood: self.not_understood,
        })
    }
}

/// A line without blanks, gdb's prompt and lldb's mark of the selected thread.
fn without_prompt(line: &str) -> &str {
    let mut line = line.trim();
    for prompt in ["(gdb)", "(lldb)", "* "] {
        line = line.strip_prefix(prompt).unwrap_or(line).trim_start();
    }
    line
}

/// Lines of these tools that are no frames.
fn is_noise(line: &str) -> bool {
    let trimmed = without_prompt(line);
    let begins = [
        "[New ",
        "[Thread debugging",
        "[Switching to",
        "Using host libthread_db",
        "warning:",
        "Reading symbols",
        "Loaded symbols",
        "Missing separate debuginfo",
        "Try: ",
        "0x",
        "No locals",
        "No symbol table",
        "(More stack frames",
        "---Type <return>",
        "--Type <RET>",
        "[Inferior ",
        "[Current thread",
        "A debugging session",
        "Inferior 1",
        "Quit anyway",
        "Core was generated",
        "Program terminated",
        "Undefined command",
        "This GDB was",
        "PID ",
        "Attaching to",
        "Python Exception",
        "Debuginfod ",
        "Detaching from",
        "Downloading ",
        "Module ",
        "ELF object binary",
        "set pagination",
        "thread apply all",
        "TID ",
        "quit",
        "Enable debuginfod",
        "Current language:",
        "The current source language",
        "TS ",
        "PID:",
        "UID:",
        "GID:",
        "Signal:",
        "Timestamp:",
        "Command Line:",
        "Executable:",
        "Control Group:",
        "Unit:",
        "Slice:",
        "Boot ID:",
        "Machine ID:",
        "Hostname:",
        "Storage:",
        "Size on Disk:",
        "Message:",
        "This GDB supports",
        "To make this setting",
        "0x0000",
        "Continuing.",
        "Thread ",
    ];
    // Local variables of `bt full`, and source lines of eu-stack.
    let is_deep = line.starts_with("        ") || line.starts_with("\t\t");
    is_deep
        || begins.iter().any(|begin| trimmed.starts_with(begin))
        || trimmed.chars().all(|c| "-=_*".contains(c))
}

/// True for a function that a server has, or that threads wait in.
fn is_known(name: &str) -> bool {
    const WAITS: [&str; 4] = ["pthread_", "__lll_lock_wait", "__GI___pthread", "inline_mysql_"];
    super::OF_SERVERS.iter().chain(&WAITS).any(|begin| name.starts_with(begin))
}

/// Whose stack follows.
fn thread_header(line: &str) -> Option<Who> {
    if let Some(id) = line.strip_prefix("TID ").and_then(|rest| rest.strip_suffix(':')) {
        return Some(Who { tid: id.trim().parse().ok()?, ..Who::default() });
    }
    if let Some(at) = line.find("Stack trace of thread ") {
        let digits = leading_digits(&line[at + "Stack trace of thread ".len()..]);
        return Some(Who { tid: digits.parse().ok()?, ..Who::default() });
    }
    if let Some(rest) = line.strip_prefix("thread #") {
        let digits = leading_digits(rest);
        let rest = &rest[digits.len()..];
        if !(rest.is_empty() || rest.starts_with([',', ':'])) {
            return None;
        }
        let number = digits.parse().ok()?;
        let tid = after(rest, "tid = ").map(|id| id.trim_start_matches("0x")).map(leading_digits);
        let tid = tid.and_then(|digits| digits.parse().ok()).unwrap_or(number);
        return Some(Who { tid, name: quoted(rest, '\'').unwrap_or_default(), pointer: None });
    }
    let rest = line.strip_prefix("Thread ")?;
    let number = leading_digits(rest);
    let rest = rest[number.len()..].trim_start();
    if number.is_empty() || !(rest.starts_with('(') || rest.starts_with("LWP ") || rest == ":") {
        return None;
    }
    let id = after(rest, "LWP ").or_else(|| after(rest, "process ")).map(leading_digits).unwrap_or(number);
    let pointer = after(rest, "Thread 0x").map(|text| {
        let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
        &text[..end]
    });
    Some(Who {
        tid: id.parse().ok()?,
        name: quoted(rest, '"').unwrap_or_default(),
        pointer: pointer.and_then(|digits| u64::from_str_radix(digits, 16).ok()),
    })
}

/// The number of a frame and what stands behind it.
fn frame_start(line: &str) -> Option<(u32, &str)> {
    let (rest, is_marked) = match line.strip_prefix("frame #").or_else(|| line.strip_prefix('#')) {
        Some(rest) => (rest.trim_start(), true),
        None => (line, false),
    };
    let mut digits = leading_digits(rest);
    // `#00x7f..`: the blank between number and address is lost.
    if rest[digits.len()..].starts_with('x') && digits.len() > 1 && digits.ends_with('0') {
        digits = &digits[..digits.len() - 1];
    }
    if digits.is_empty() || digits.len() > 6 {
        return None;
    }
    let behind = &rest[digits.len()..];
    let behind = behind.strip_prefix(':').unwrap_or(behind);
    let separated = behind.starts_with([' ', '\t']) || behind.starts_with("0x");
    let behind = behind.trim_start();
    let is_frame = if is_marked {
        !behind.is_empty()
    } else {
        // The `#` is lost of the innermost alone where somebody selects from behind it.
        let is_call = || {
            digits == "0"
                && behind.contains(" (")
                && [") at ", ") from "].iter().any(|end| behind.contains(end))
        };
        address(behind).is_some_and(|(_, rest)| rest.trim_start().starts_with("in ")) || is_call()
    };
    (separated && is_frame).then(|| Some((digits.parse().ok()?, behind)))?
}

/// A frame's form, the frame, and whether its line can be nothing else.
fn place(text: &str, depth: usize) -> Option<(Form, Place, bool)> {
    let text = text.trim();
    let Some((address, rest)) = address(text) else {
        // A page may have left out the address alone: `in f from /lib64/libc.so.6`.
        let text = text.strip_prefix("in ").map_or(text, str::trim_start);
        // A call that was inlined, or the innermost whose line has just begun.
        let end = name::end_of_name(text);
        let is_call = text[end..].starts_with(" (") || text.starts_with("<signal handler");
        // A name alone, as a page shows a stack.
        let call = text.split(" from /").next().unwrap_or(text);
        let is_name = end == text.len() && !call.contains(' ');
        if !is_call && !is_name && !text.contains(['(', '<']) {
            return None;
        }
        let mut place = Place { inlined: depth > 0 && is_call, ..Place::default() };
        let is_sure = behind_name(&mut place, text, end);
        return Some((Form::Gdb, place, is_sure));
    };
    let mut place = Place { address, ..Place::default() };
    let rest = rest.trim_start();
    // Verbose eu-stack: the address is that of the call.
    let rest = rest.strip_prefix("- 1").map_or(rest, str::trim_start);
    if let Some(call) = rest.strip_prefix("in ") {
        let call = call.trim_start();
        let end = name::end_of_name(call);
        behind_name(&mut place, call, end);
        return Some((Form::Gdb, place, true));
    }
    if let Some((module, offset, call)) = coredump(rest) {
        (place.module, place.offset) = (Some(module.to_owned()), Some(offset));
        place.name = call.to_owned();
        return Some((Form::Coredump, place, true));
    }
    if let Some((module, call)) = rest.split_once('`').filter(|(module, _)| !module.contains([' ', '('])) {
        place.module = Some(module.to_owned());
        let call = call.split(" at ").next().unwrap_or(call);
        place.name = name::without_offset(call).to_owned();
        return Some((Form::Lldb, place, true));
    }
    let call = match rest.rsplit_once(" - ") {
        Some((call, module)) if module.starts_with(['/', '[']) || module.contains(".so") => {
            place.module = Some(module.to_owned());
            call
        }
        _ => rest,
    };
    let end = name::end_of_name(call);
    behind_name(&mut place, call, end);
    Some((Form::EuStack, place, true))
}

/// `at FILE:LINE`, `from LIBRARY` and the name before; true where one of them is there. Arguments are passed over unread.
fn behind_name(place: &mut Place, call: &str, end: usize) -> bool {
    let is_with_arguments = end < call.len();
    let (name, behind) = call.split_at(end);
    // Without arguments in brackets of their own, `f() at x.cc:12`.
    let (name, behind) = match (is_with_arguments, name.find(" at ").or_else(|| name.find(" from "))) {
        (false, Some(at)) => name.split_at(at),
        _ => (name, behind),
    };
    place.name = name.trim().to_owned();
    let location = behind.rsplit_once(" at ").and_then(|(_, file)| location(file));
    let module = behind.rsplit_once(" from ").map(|(_, path)| path.trim());
    place.location = location;
    if place.location.is_none() {
        place.module =
            module.filter(|path| !path.contains([' ', '"', '(']) && !path.is_empty()).map(str::to_owned);
    }
    place.location.is_some() || place.module.is_some()
}

/// `FILE:LINE`, and perhaps `:COLUMN`.
pub(super) fn location(text: &str) -> Option<(String, u32)> {
    let text = text.trim();
    if text.contains([' ', '"']) {
        return None;
    }
    let mut parts = text.split(':');
    let file = parts.next().filter(|file| !file.is_empty())?;
    let line = parts.next()?.parse().ok()?;
    Some((file.to_owned(), line))
}

/// `f (libc.so.6 + 0x6d7e9)`: the file, the offset, and what stands before.
fn coredump(text: &str) -> Option<(&str, u64, &str)> {
    let inside = text.strip_suffix(')')?;
    let (call, inside) = inside.rsplit_once(" (")?;
    let (module, offset) = inside.rsplit_once('+')?;
    let offset = offset.trim().strip_prefix("0x")?;
    Some((module.trim(), u64::from_str_radix(offset, 16).ok()?, call.trim()))
}

/// An address and what stands behind it.
pub(super) fn address(text: &str) -> Option<(u64, &str)> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    Some((u64::from_str_radix(&digits[..end], 16).ok()?, &digits[end..]))
}

/// Whether a bracket is open at the end of the text, quoted text left out.
fn open(text: &str) -> bool {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_i32, false, false);
    for character in text.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth -= 1,
            _ => {}
        }
    }
    depth > 0 || is_quoted
}

fn leading_digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.find(mark).map(|at| &text[at + mark.len()..])
}

fn quoted(text: &str, mark: char) -> Option<String> {
    let (_, rest) = text.split_once(mark)?;
    let (name, _) = rest.split_once(mark)?;
    Some(name.chars().take(64).collect())
}
