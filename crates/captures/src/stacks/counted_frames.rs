//! Stacks with a count below each, a function a line, innermost first: what bpftrace prints of a map by stacks, `profile` and `offcputime`
//! of bcc without `-f`, and DTrace of an aggregation by stacks. What was counted, samples, events or microseconds, the text does not say.
//!
//! ```text
//! @[                               ]: 912 of bpftrace ends a stack; `, mysqld]: 912` where the map has a second key
//!     __lll_lock_wait+48
//!     do_command(THD*)+511
//! ]: 912
//!
//!     futex_wait                   bcc
//!     do_command(THD*)
//!     -                mysqld (2311)
//!         81223112
//!
//!               mysqld`_Z10do_commandP3THD+0x198
//!               libc.so.1`_lwp_start
//!              5530                DTrace
//! ```

use super::collapsed;
use super::name;
use super::perf_report::ENTRIES;
use super::{CapturedStacks, tables::DEEPEST};

/// The longest line that is taken for a function.
const LONGEST: usize = 16 << 10;

/// A stack has two functions and more: one word above a number may be anything.
const FEWEST: usize = 2;

/// Such stacks, where a text has any.
pub(super) fn read(text: &str) -> Option<CapturedStacks> {
    let (folded, not_understood) = folded(text)?;
    let found = collapsed::of_folded(&folded, false)?;
    let lines_not_understood = found.lines_not_understood.saturating_add(not_understood);
    Some(CapturedStacks { lines_not_understood, ..found })
}

/// A function of a stack.
#[derive(Debug)]
struct Function<'t> {
    name: &'t str,
    is_kernel: bool,
}

/// What a line is.
#[derive(Debug)]
enum Part<'t> {
    /// A stack begins.
    Begins,
    /// The functions of the kernel are above, those of the program below.
    EndsKernel,
    /// Whose the stack above is.
    Thread,
    Count(usize),
    Function(Function<'t>),
    Other,
}

/// The stacks in a line each, outermost function first, and how many lines are none of them.
fn folded(text: &str) -> Option<(String, usize)> {
    let mut all = String::new();
    let mut stack: Vec<Function<'_>> = Vec::new();
    let mut is_inside = false;
    let (mut understood, mut not_understood) = (0, 0);
    for line in text.lines().map(str::trim) {
        match part(line) {
            _ if line.is_empty() => {
                if !is_inside {
                    stack.clear();
                }
            }
            Part::Begins => {
                is_inside = true;
                stack.clear();
            }
            Part::EndsKernel => stack.iter_mut().for_each(|function| function.is_kernel = true),
            Part::Thread => {}
            Part::Function(function) => {
                if stack.len() < DEEPEST {
                    stack.push(function);
                }
            }
            Part::Count(count) if stack.len() >= FEWEST => {
                add(&mut all, &stack, count);
                understood += stack.len();
                is_inside = false;
                stack.clear();
            }
            Part::Count(_) | Part::Other => {
                not_understood += 1;
                is_inside = false;
                stack.clear();
            }
        }
    }
    // What a page cut to pieces has words above a number, too, and more lines of other kinds.
    (!all.is_empty() && not_understood <= understood).then_some((all, not_understood))
}

/// Adds a stack's line.
fn add(all: &mut String, stack: &[Function<'_>], count: usize) {
    // What stands above the function by which the kernel is entered is the kernel's.
    let entered = stack.iter().rposition(|function| ENTRIES.contains(&function.name));
    for (at, function) in stack.iter().enumerate().rev() {
        all.push_str(function.name);
        if function.is_kernel || entered.is_some_and(|entered| at <= entered) {
            all.push_str("_[k]");
        }
        all.push(if at == 0 { ' ' } else { ';' });
    }
    all.push_str(&count.to_string());
    all.push('\n');
}

fn part(line: &str) -> Part<'_> {
    if line.len() > LONGEST {
        return Part::Other;
    }
    if line.starts_with('@') && line.ends_with('[') {
        return Part::Begins;
    }
    if line == "," || line == "--" {
        return Part::EndsKernel;
    }
    if line.starts_with("- ") && line.ends_with(')') {
        return Part::Thread;
    }
    let of_map = line.rsplit_once("]: ").filter(|(key, _)| key.is_empty() || key.starts_with(", "));
    let count = of_map.map_or(line, |(_, count)| count);
    match count.parse() {
        // A piece of an address is none.
        Ok(_) if count.starts_with('0') => Part::Other,
        Ok(count) => Part::Count(count),
        Err(_) => function(line).map_or(Part::Other, Part::Function),
    }
}

/// `do_command(THD*)+511`, `` mysqld`_Z10do_commandP3THD+0x198 ``, `b'futex_wait'`, `0x7f12ab34`.
fn function(line: &str) -> Option<Function<'_>> {
    /// Files of the kernel, as DTrace names them.
    const KERNELS: [&str; 3] = ["unix", "genunix", "kernel"];
    let line = line.strip_prefix("b'").and_then(|inside| inside.strip_suffix('\'')).unwrap_or(line);
    let (module, rest) = line.split_once('`').unwrap_or(("", line));
    let full = name::without_offset(rest);
    if module.contains(' ') {
        return None;
    }
    let is_kernel = KERNELS.contains(&module);
    if full.starts_with("0x") {
        return Some(Function { name: "[unknown]", is_kernel });
    }
    let arguments = full.find(['(', '<']).filter(|at| *at > 0);
    let bare = arguments.map_or(full, |at| &full[..at]).trim_end();
    // Outside of its arguments a name has no blank, but for an operator's and for a type before it.
    let is_one = !bare.contains([' ', ',']) || full.contains("::") || bare.starts_with("operator");
    let begins = full.starts_with(|c: char| c.is_ascii_alphabetic() || "_~[(".contains(c));
    let is_name = begins && full.contains(|c: char| c.is_ascii_alphabetic());
    // These part stacks in one line, or quote what somebody wrote.
    let is_plain = !full.contains([';', '"', '\'']) && !full.contains("  ");
    (is_name && is_one && is_plain).then_some(Function { name: full, is_kernel })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Said;
    use crate::recognise;

    const BPFTRACE: &str = "Attaching 1 probe...\n^C\n\n@[\n    __lll_lock_wait+48\n    ___pthread_mutex_lock+113\n    \
                            MDL_map::find_or_insert(LF_PINS*, MDL_key const*, bool*)+112\n    do_command(THD*)+511\n]: 11\n\
                            @[\n    __schedule+651\n    futex_wait+201\n    do_syscall_64+91\n    \
                            entry_SYSCALL_64_after_hwframe+110\n,\n    \
                            __lll_lock_wait+48\n    0x7f12ab34\n    trx_sys_mutex_enter()+12\n    do_command(THD*)+511\n, mysqld]: 912\n";

    #[test]
    fn stacks_with_counts_below_them_are_read_as_folded_ones() {
        let (folded, not_understood) = folded(BPFTRACE).unwrap();
        let mut lines = folded.lines();
        assert_eq!(
            lines.next(),
            Some(
                "do_command(THD*);MDL_map::find_or_insert(LF_PINS*, MDL_key const*, bool*);___pthread_mutex_lock;__lll_lock_wait 11"
            )
        );
        assert_eq!(
            lines.next(),
            Some(
                "do_command(THD*);trx_sys_mutex_enter();[unknown];__lll_lock_wait;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];\
                 futex_wait_[k];__schedule_[k] 912"
            )
        );
        assert_eq!((lines.next(), not_understood), (None, 2));
    }

    #[test]
    fn what_bcc_and_dtrace_print_below_a_stack_is_its_count() {
        let bcc = "Tracing off-CPU time (us) of PID 47 by user + kernel stack... Hit Ctrl-C to end.\n^C\n    b'finish_task_switch'\n    \
                   b'__schedule'\n    b'futex_wait'\n    b'do_syscall_64'\n    b'entry_SYSCALL_64_after_hwframe'\n    \
                   b'__lll_lock_wait'\n    b'do_command(THD*)'\n    -                mysqld (4711)\n        8122\n";
        let (stacks, _) = folded(bcc).unwrap();
        assert!(
            stacks.starts_with("do_command(THD*);__lll_lock_wait;entry_SYSCALL_64_after_hwframe_[k];"),
            "{stacks}"
        );
        assert!(stacks.ends_with("finish_task_switch_[k] 8122\n"), "{stacks}");
        let dtrace = "              genunix`cv_wait+0x61\n              mysqld`_Z10do_commandP3THD+0x198\n              \
                      mysqld`handle_one_connection+0x1a6\n             5530\n";
        let (stacks, _) = folded(dtrace).unwrap();
        assert_eq!(stacks, "handle_one_connection;_Z10do_commandP3THD;cv_wait_[k] 5530\n");
        for text in ["what it does\n\n12\n", "do_command\n12\n", "a,b\nc, d\n12\n", "@[\n]: 1\n", "12\n12\n"]
        {
            assert_eq!(folded(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_counted_is_not_taken_for_threads() {
        let parts = recognise("x", BPFTRACE);
        let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
        let stacks =
            said.filter_map(|said| if let Said::Stacks(stacks) = said { Some(stacks) } else { None });
        let seen: Vec<usize> = stacks.map(|stacks| stacks.profile.observations.len()).collect();
        assert_eq!(seen, [100], "{parts:?}");
        assert!(parts[0].says[0].contains("parts of 100"), "{parts:?}");
        // Names alone are no stack of a debugger where a count stands below them.
        let names =
            "my_hash_search\nrec_get_offsets_func\nmysql_execute_command\ndispatch_command\ndo_command\n";
        let parts = recognise("x", &format!("{names}-                mysqld (4711)\n    40\n"));
        assert!(parts[0].says[0].starts_with("written by folded CPU samples"), "{parts:?}");
    }
}
