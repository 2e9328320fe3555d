//! Stacks of which somebody copied the functions alone, a line each: as a debugger numbers them.
//!
//! ```text
//! inline_mysql_mutex_lock
//! show_binlogs                BLOCKED-ON LOCK_index
//! mysql_execute_command
//! dispatch_command
//! do_command
//! handle_connection
//! ```

use crate::stacks::{self, Writer, is_function_of_server};

/// Functions of a stack, and those of them that a server is known to have: fewer may be a list of anything.
const FEW: usize = 4;
const FEW_KNOWN: usize = 3;
/// Functions that others are below.
const OUTERMOST: [&str; 9] = [
    "do_command",
    "handle_connection",
    "handle_one_connection",
    "do_handle_one_connection",
    "pfs_spawn_thread",
    "start_thread",
    "clone",
    "mysqld_main",
    "main",
];

/// The lines of a text, with such stacks as gdb prints them.
pub(crate) fn with_numbers(lines: Vec<String>) -> Vec<String> {
    // Functions in lines of their own are the callers below a line of a profiler, too.
    let is_of_profiler = |line: &String| stacks::writer(line) == Some(Writer::Profiler);
    if !lines.iter().any(|line| function(line).is_some_and(is_outermost)) || lines.iter().any(is_of_profiler)
    {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let mut functions: Vec<&str> = lines[at..].iter().map_while(|line| function(line)).collect();
        let taken = functions.len();
        let below = lines.get(at + taken).map_or("", |line| line.trim());
        if is_stack(&functions) && !is_count(below) {
            // Who draws calls begins with the one that the others are called from.
            if functions.first().is_some_and(|name| is_outermost(name)) {
                functions.reverse();
            }
            all.extend(functions.iter().enumerate().map(|(number, name)| format!("#{number}  {name} ()")));
            at += taken;
        } else {
            all.extend_from_slice(&lines[at..at + taken]);
            at += taken;
            if taken == 0 {
                all.push(line.clone());
                at += 1;
            }
        }
    }
    all
}

fn is_outermost(name: &str) -> bool {
    OUTERMOST.contains(&name)
}

fn is_stack(functions: &[&str]) -> bool {
    functions.len() >= FEW
        && functions.iter().any(|name| is_outermost(name))
        && functions.iter().filter(|name| is_function_of_server(name)).count() >= FEW_KNOWN
}

/// True for a line with which a tracer ends a stack: how often it saw it, or whose it is.
fn is_count(line: &str) -> bool {
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
        || line.starts_with("]: ")
        || line.starts_with("- ") && line.ends_with(')')
}

/// The function that a line has, and perhaps a remark behind some blanks.
fn function(line: &str) -> Option<&str> {
    const LONGEST: usize = 200;
    let line = line.trim();
    let end = line.find("  ").or_else(|| line.find('\t')).unwrap_or(line.len());
    let name = &line[..end];
    let bare = name.strip_suffix("()").unwrap_or(name);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_:~<>*".contains(c);
    let is_name = bare.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && bare.len() <= LONGEST
        && bare.chars().all(is_letter)
        && !bare.ends_with(':');
    // `Thread2` stands above a stack.
    let is_name =
        is_name && (bare.starts_with(|c: char| !c.is_ascii_uppercase()) || bare.contains(['_', ':']));
    is_name.then_some(if bare.ends_with("operator") { name } else { bare })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    const STACK: &str = "inline_mysql_mutex_lock\nOffset::operator()               waits for LOCK_thd (0x0052)\n\
                         show_binlogs()\nmysql_execute_command\ndispatch_command\ndo_command\nhandle_connection\n";

    #[test]
    fn functions_alone_are_a_stack_from_either_end() {
        let text = format!("Thread1 (SHOW BINARY LOGS)\n\n{STACK}\n------\n\nThread2\n\n{STACK}");
        let parts = recognise("x", &text);
        let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
        let stack = "inline_mysql_mutex_lock < Offset::operator() < show_binlogs < mysql_execute_command";
        assert_eq!(says, ["written by gdb backtrace: 2 threads", &format!("2 threads are in {stack}")]);
        let reversed: String = STACK.lines().rev().map(|line| format!("{line}\n")).collect();
        let says: Vec<String> = recognise("x", &reversed).into_iter().flat_map(|part| part.says).collect();
        assert_eq!(says, ["written by gdb backtrace: 1 thread", &format!("a thread is in {stack}")]);
    }

    #[test]
    fn callers_below_a_line_of_a_profiler_are_no_stack_of_their_own() {
        let text = "# Children      Self  Command  Shared Object  Symbol\n    99.00%     0.00%  mysqld   mariadbd       [.] do_command\n\
                    \x20           |\n            ---start_thread\n               pfs_spawn_thread\n               handle_one_connection\n\
                    \x20              do_handle_one_connection\n               do_command\n\n    \
                    60.00%    60.00%  mysqld   mariadbd       [.] row_search_mvcc\n";
        let parts = recognise("x", text);
        let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
        assert_eq!(parts.len(), 1, "{says:?}");
        assert!(says[0].starts_with("written by perf report"), "{says:?}");
        assert!(says[1].contains("60 % mysqld in row_search_mvcc"), "{says:?}");
    }

    #[test]
    fn words_in_lines_of_their_own_are_no_stack() {
        for text in
            ["main\nreplica\nbackup\narchive\n", "do_command\ndispatch_command\n", "clone\na b\nmain\n"]
        {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(with_numbers(lines.clone()), lines);
        }
    }
}
