//! How the server that wrote a log died: the check of its own that failed, the functions of the thread, and what it executed.

use spindoctor_model::{LoggedTrouble, TroubleKind};

use super::{SHOWN, ends_in_lower_case};
use crate::{log_troubles, own_checks, stacks, systemd_log};

/// Characters of a check that failed that are shown.
const LONGEST_CHECK: usize = 200;
/// Functions of a thread that died that are shown.
const FUNCTIONS: usize = 6;
/// Characters of a check or of an error that a headline has room for.
const ROOM: usize = 116;

/// What a server prints that dies, below the signal that it got.
pub(super) const BACKTRACE: &str = "Attempting backtrace.";

/// The last check of the server's own that failed, by which a known defect is found: where it stands in the source, and what it asked.
///
/// ```text
/// InnoDB: Assertion failure in file /build/mariadb-10.5.13/storage/innobase/btr/btr0pcur.cc line 521
/// InnoDB: Failing assertion: btr_page_get_prev(next_page) == page_no
/// [ERROR] [MY-013183] [InnoDB] Assertion failure: ddl0buffer.cc:204:ptr < bounds.second thread 140540279490304
/// mysqld: /build/mysql-8.0.36/storage/innobase/ddl/ddl0buffer.cc:204: f(): Assertion `ptr < bounds.second' failed.
/// ```
pub(super) fn failed_check(text: &str) -> Option<String> {
    let shown = |check: &str| check.trim().chars().take(LONGEST_CHECK).collect::<String>();
    let Some((_, rest)) = text.rsplit_once("Assertion failure") else {
        let own_checks::OwnCheck { file, line, asked } =
            text.lines().rev().find_map(own_checks::of_library)?;
        return Some(format!("{CHECK}{} line {}: {}", shown(file), shown(line), shown(asked)));
    };
    let mut lines = rest.lines();
    let first = lines.next()?;
    if let Some(check) = first.strip_prefix(": ") {
        let check = check.rsplit_once(" thread ").map_or(check, |(check, _)| check);
        return Some(format!("{CHECK}{}", shown(check)));
    }
    let place: Vec<&str> = first.split_once(" in file ")?.1.split_whitespace().take(3).collect();
    let [path, "line", number] = place[..] else { return None };
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let asked = lines.next().and_then(|line| line.split_once("Failing assertion: "));
    let asked = asked.map_or_else(String::new, |(_, asked)| format!(": {}", shown(asked)));
    Some(format!("{CHECK}{} line {}{asked}", shown(file), shown(number)))
}

/// How the sentence about such a check begins.
const CHECK: &str = "the check that failed: ";

/// Says of the last crash of a log where the server died.
pub(super) fn add_detail(troubles: &mut [LoggedTrouble], text: &str) {
    let signal = text.rsplit_once(SIGNAL).and_then(|(_, rest)| rest.split([' ', ';', '\n']).next());
    let sign = signal.map_or_else(String::new, |signal| format!("{SIGNAL}{signal}"));
    let is_crash = |trouble: &LoggedTrouble| trouble.kind == TroubleKind::Crashed;
    let is_last = |trouble: &LoggedTrouble| is_crash(trouble) && trouble.line.contains(&sign);
    let place = troubles.iter().rposition(is_last).or_else(|| troubles.iter().rposition(is_crash));
    if let Some((place, detail)) = place.zip(detail_of_crash(text)) {
        troubles[place].detail = detail;
    }
}

/// How a server names the signal that ends it.
const SIGNAL: &str = "got signal ";

/// Of the last crash of a log the check that failed, else the function that it died in, as the end of a sentence.
fn detail_of_crash(text: &str) -> Option<String> {
    let before_last = text.rmatch_indices(SIGNAL).nth(1);
    let text = before_last.map_or(text, |(at, _)| &text[at..]);
    if is_end_by_refused_operation(text) {
        return Some("it ended itself because the system refused it an operation on a file".to_owned());
    }
    let check = failed_check(text).map(|said| said.replacen(CHECK, "a check of its own failed, ", 1));
    check.map(|check| until_blank(&check)).or_else(|| function_of_death(last_backtrace(text)?))
}

/// What stands below the beginning of the last backtrace: of the server's own, else of the one that systemd prints of its core dump.
fn last_backtrace(text: &str) -> Option<&str> {
    if let Some((_, below)) = text.rsplit_once(BACKTRACE) {
        return Some(below);
    }
    let dumped = text.lines().rev().find(|line| systemd_log::is_dumped(line))?;
    text.rsplit_once(dumped).map(|(_, below)| below)
}

/// True where InnoDB says, in the start of the server that the text's signal ended, that it cannot go on after an operation on a file that the
/// system refused it: the check and the functions below that say nothing more.
fn is_end_by_refused_operation(text: &str) -> bool {
    let above = text.rsplit_once(SIGNAL).map_or(text, |(above, _)| above);
    let mut of_start =
        above.lines().rev().take_while(|line| !log_troubles::begins_start(&ends_in_lower_case(line)));
    of_start.any(log_troubles::is_refused_operation)
}

/// The words of a long check that a headline has room for.
pub(super) fn until_blank(check: &str) -> String {
    if check.chars().count() <= ROOM {
        return check.to_owned();
    }
    let begins: String = check.chars().take(ROOM).collect();
    let whole = begins.rsplit_once(' ').map_or(begins.as_str(), |(whole, _)| whole);
    format!("{} ...", whole.trim_end_matches(" =="))
}

/// Where the server died, of the last backtrace: the functions, the innermost first, and what the thread executed.
pub(super) fn last(text: &str) -> Option<String> {
    let last = last_backtrace(text)?;
    let died = death_in(trace(last));
    let statement = last.lines().find_map(|line| {
        let (pointer, statement) = line.strip_prefix("Query (")?.split_once("): ")?;
        (pointer.len() <= 20 && statement != "(null)" && !statement.contains("is an invalid pointer"))
            .then(|| spindoctor_sql::shape(statement).chars().take(SHOWN).collect::<String>())
    });
    match (died, statement) {
        (Some(died), Some(statement)) => Some(format!("{died}; it executed {statement}")),
        (None, Some(statement)) => Some(format!("the thread that died executed {statement}")),
        (died, None) => died,
    }
}

/// The backtrace itself, of what stands below its first line.
fn trace(below: &str) -> &str {
    let ends = ["Trying to get some variables", "The manual page at"];
    let end = ends.iter().filter_map(|end| below.find(end)).min();
    &below[..end.unwrap_or(below.len())]
}

/// The functions of a backtrace in which a thread died, the innermost first.
fn functions_of_death(trace: &str) -> Vec<String> {
    /// With which the system's libraries begin every thread: none of them is where one died.
    const ENTRIES: [&str; 9] = [
        "clone",
        "clone3",
        "__clone",
        "__clone3",
        "start_thread",
        "thread_start",
        "_pthread_start",
        "__libc_start_main",
        "__libc_start_call_main",
    ];
    let mut functions = stacks::died_in(trace);
    functions.retain(|name| !ENTRIES.contains(&name.as_str()));
    // A place in a file says nothing to a reader, unless it is all that there is.
    if functions.iter().any(|name| !name.contains("+0x")) {
        functions.retain(|name| !name.contains("+0x"));
    }
    functions
}

/// The innermost function of the server's own in which a thread died, as the end of a sentence.
pub(crate) fn function_of_death(below: &str) -> Option<String> {
    /// How functions begin that are of a library, or that end a server on purpose.
    const OTHERS: [&str; 11] = [
        "__",
        "_int_",
        "memcpy",
        "memmove",
        "memset",
        "operator ",
        "std::",
        "pthread_",
        "my_abort",
        "ut_dbg_assertion_failed",
        "ib::fatal",
    ];
    const OF_LIBRARY: [&str; 5] = ["malloc", "calloc", "realloc", "free", "strlen"];
    let is_other =
        |name: &str| OF_LIBRARY.contains(&name) || OTHERS.iter().any(|other| name.starts_with(other));
    let is_own = |name: &&String| !name.contains("+0x") && !is_other(name);
    let trace = trace(below);
    if let Some(plugin) = plugin_of_death(trace) {
        return Some(format!("it died in the plugin {plugin}"));
    }
    let functions = functions_of_death(trace);
    let own = functions.iter().find(is_own).map(|name| format!("it died in {name}"));
    own.or_else(|| allocator(trace).map(|library| format!("it died in {library}")))
}

/// The library of another allocator than the system's that a backtrace names: `/usr/lib64/libjemalloc.so.1(+0xc691)[0x7fa598531691]`.
fn allocator(trace: &str) -> Option<&str> {
    const ALLOCATORS: [&str; 3] = ["libjemalloc", "libtcmalloc", "libmimalloc"];
    let mut files = trace.lines().filter_map(|line| line.trim_start().split_once('(')?.0.rsplit('/').next());
    files.find(|file| ALLOCATORS.iter().any(|begins| file.starts_with(begins)))
}

/// The library of a plugin that is innermost in a backtrace, but for what a server and the system's libraries do when it dies:
/// `/usr/lib/mysql/plugin/audit_log.so(+0x1c3b0)[0x7fe4d81c33b0]`.
fn plugin_of_death(trace: &str) -> Option<&str> {
    let is_frame = |line: &&str| line.trim_end().ends_with(']') && line.contains("[0x");
    // Frames of the system's libraries without a name stand above it, where the signal was handled.
    let is_above = |line: &&str| {
        let is_of_system = line.contains(".so") && line.contains("(+0x") && plugin(line).is_none();
        is_of_system || stacks::handles_death(line)
    };
    plugin(trace.lines().filter(is_frame).find(|line| !is_above(line))?)
}

/// The file of a plugin whose function a line of a backtrace is.
fn plugin(line: &str) -> Option<&str> {
    const FOLDER: &str = "/plugin/";
    let (path, _) = line.trim_start().split_once('(')?;
    let (_, file) = path.rsplit_once(FOLDER)?;
    file.ends_with(".so").then_some(file)
}

/// Where InnoDB ends the server because the system refused it an operation on a file (os0file.cc).
const FILE_ERROR: &str = "os_file_handle_error";
const OF_FILE: &str = ": the system refused an operation on a file, and InnoDB ended the server for it. The error log names the file and the \
                       error, and the kernel's log may say what the storage has";

/// The functions of a backtrace in which a thread died, in a sentence.
pub(crate) fn death_in(trace: &str) -> Option<String> {
    let functions = functions_of_death(trace);
    if functions.is_empty() {
        return None;
    }
    let shown = functions[..functions.len().min(FUNCTIONS)].join(", called by ");
    let has_failed_call = functions.iter().any(|function| function.starts_with(FILE_ERROR));
    let of_file = if has_failed_call { OF_FILE } else { "" };
    Some(format!("the thread that died was in {shown}{of_file}"))
}
