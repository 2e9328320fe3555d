//! Stacks of a thread that ends its process: those in an error log, of a core in gdb, and of a core dump that systemd has. They say where the
//! server died, and nothing of where time went.

use spindoctor_model::stack::Stack;

use super::{BY_SYSTEMD, CapturedStacks, is_function_of_server, read, tables};

/// Functions that a server calls when it dies.
const DEATH: &[&str] =
    &["my_print_stacktrace", "handle_fatal_signal", "print_fatal_signal", "handle_segfault"];

/// Functions that stand between a signal's handler and what was hit by it.
const SIGNAL: &[&str] = &[
    "__restore_rt",
    "sigaction",
    "pthread_kill",
    "__pthread_kill_implementation",
    "__pthread_kill_internal",
    "__GI___pthread_kill",
    "raise",
    "__GI_raise",
    "gsignal",
    "abort",
    "__GI_abort",
    "__assert_fail",
    "__assert_fail_base",
    "__GI___assert_fail",
    "<unknown>",
    "[unknown]",
    "__pthread_kill",
    "my_write_core",
    "<signal handler called>",
    "[signal handler]",
];

/// Functions of the C library, and of a server, with which a thread ends its process: one is near the innermost where a thread died.
const ENDS: [&str; 8] = [
    "raise",
    "__GI_raise",
    "gsignal",
    "abort",
    "__GI_abort",
    "__assert_fail",
    "__GI___assert_fail",
    "my_write_core",
];
/// How many of the innermost functions are looked at for them.
const NEAR_DEATH: usize = 8;
/// How gdb begins what it says of a core: the thread whose stack it shows first is the one that died.
const OF_CORE: &str = "Program terminated with signal ";

/// The functions in which a server died, the innermost first, of the backtrace in its error log, of a debugger, or of systemd.
pub(crate) fn died_in(text: &str) -> Vec<String> {
    let Some(found) = read(text) else { return Vec::new() };
    let stacks = &found.profile.stacks;
    let is_core = || found.is_of_server() && text.lines().any(|line| line.starts_with(OF_CORE));
    let stack = match found.form {
        "crash backtrace" => stacks.last(),
        BY_SYSTEMD => stacks.iter().find(|stack| found.is_dying(stack)),
        "gdb backtrace" | "eu-stack" => {
            stacks.iter().find(|stack| found.is_dying(stack)).or_else(|| stacks.first().filter(|_| is_core()))
        }
        _ => None,
    };
    let Some(stack) = stack else { return Vec::new() };
    let names = stack.frames.iter().filter_map(|&at| found.profile.frames.get(at as usize));
    let is_of_death = |name: &str| {
        DEATH.contains(&name) || SIGNAL.contains(&name) || name.starts_with("lib") && name.contains("+0x")
    };
    names.map(|frame| frame.name.clone()).skip_while(|name| is_of_death(name)).collect()
}

/// True for a line of a backtrace of a function in which a server, or the system's libraries, handle that a thread dies.
pub(crate) fn handles_death(line: &str) -> bool {
    let names = || DEATH.iter().chain(SIGNAL);
    line.split_once('(').is_some_and(|(_, call)| names().any(|name| call.starts_with(name)))
}

/// A backtrace of one thread that dies is what the server wrote of it: nothing was seen at an instant. Beside other threads it is none that
/// does or waits for anything.
pub(super) fn as_crash(mut found: CapturedStacks, text: &str) -> CapturedStacks {
    let is_alone = ["eu-stack", "gdb backtrace"].contains(&found.form) && found.threads == 1;
    let is_core = || found.is_of_server() && text.lines().any(|line| line.starts_with(OF_CORE));
    if is_alone && (found.is_dying(&found.profile.stacks[0]) || is_core()) {
        found.form = "crash backtrace";
        found.profile.snapshots.clear();
        found.profile.observations.clear();
    }
    if ["eu-stack", "gdb backtrace", BY_SYSTEMD].contains(&found.form) {
        let dying: Vec<bool> = found.profile.stacks.iter().map(|stack| found.is_dying(stack)).collect();
        let profile = &mut found.profile;
        profile.observations.retain(|seen| dying.get(seen.stack as usize) != Some(&true));
        if profile.observations.is_empty() {
            profile.snapshots.clear();
        }
    }
    found
}

impl CapturedStacks {
    /// True where a program or a function says that these are of a server.
    fn is_of_server(&self) -> bool {
        tables::is_server(&self.profile.process.name)
            || self.profile.frames.iter().any(|frame| is_function_of_server(&frame.name))
    }

    /// True for a stack of a server's thread that ends its process.
    fn is_dying(&self, stack: &Stack) -> bool {
        let near = || {
            let frames = stack.frames.iter().take(NEAR_DEATH);
            frames.filter_map(|&at| Some(self.profile.frames.get(at as usize)?.name.as_str()))
        };
        near().any(|name| DEATH.contains(&name))
            || near().any(|name| ENDS.contains(&name)) && self.is_of_server()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_died_below_the_handler_of_its_signal() {
        let gdb = "(gdb) bt\n#0  0x0000000000000011 in pthread_kill () from /lib64/libpthread.so.0\n\
                   #1  0x0000000000000012 in my_write_core (sig=11) at /b/stacktrace.c:424\n\
                   #2  0x0000000000000013 in handle_fatal_signal (sig=11) at /b/signal_handler.cc:361\n\
                   #3  <signal handler called>\n#4  0x0000000000000014 in list_add (root=0x7, element=0x8) at /b/list.c:34\n\
                   #5  0x0000000000000015 in do_command (thd=0x9) at /b/sql_parse.cc:1429\n";
        assert_eq!(died_in(gdb), ["list_add", "do_command"]);
    }

    #[test]
    fn a_thread_that_ends_its_process_waits_for_nothing() {
        let check = "(gdb) bt\n#0 __pthread_kill_implementation (no_tid=0, signo=6) at ./nptl/pthread_kill.c:44\n\
                     #1 __GI_raise (sig=6) at ../sysdeps/posix/raise.c:26\n#2 __GI_abort () at ./stdlib/abort.c:79\n\
                     #3 0x000014662cb4d71b in __assert_fail_base (line=3261) at ./assert/assert.c:92\n\
                     #4 0x000055bd04d6e704 in MDL_context::release_locks (this=0x1465) at /b/sql/mdl.cc:3261\n\
                     #5 0x000055bd04c00000 in dispatch_command (command=COM_QUERY) at /b/sql/sql_parse.cc:1894\n";
        assert_eq!(died_in(check), ["MDL_context::release_locks", "dispatch_command"]);
        let core = "Core was generated by `/usr/sbin/mysqld'.\nProgram terminated with signal SIGSEGV, Segmentation fault.\n\
                    #0  0x0000000000a8f1c2 in Field_blob::get_key_image (this=0x7f) at /b/sql/field.cc:7712\n\
                    #1  0x0000000000b6f1c2 in dispatch_command (command=COM_QUERY) at /b/sql/sql_parse.cc:1490\n";
        assert_eq!(died_in(core), ["Field_blob::get_key_image", "dispatch_command"]);
        let (_, live) = core.split_once("fault.\n").unwrap();
        assert_eq!(died_in(live), Vec::<String>::new());
        // The other threads of the core are shown beside it.
        let threads = format!(
            "Thread 2 (Thread 0x7f01 (LWP 72)):\n#0  0x0000000000000001 in poll () from /lib64/libc.so.6\n#1  0x0000000000000002 in do_command () at \
             /b/a.cc:1\n\nThread 1 (Thread 0x7f02 (LWP 71)):\n{}",
            check.replace("(gdb) bt\n", "")
        );
        assert_eq!(died_in(&threads), ["MDL_context::release_locks", "dispatch_command"]);
        for text in [check, core, &threads] {
            let found = spindoctor_rules::diagnose(&crate::window(&crate::recognise("x", text))).findings;
            let headline = found.first().map_or("", |finding| finding.headline.as_str());
            assert!(headline.starts_with("The server crashed: it died in "), "{text}: {found:#?}");
            assert!(!found.iter().any(|finding| finding.cause == "unnamed-wait"), "{text}: {found:#?}");
        }
        let other = check.replace("MDL_context::", "Query::").replace("dispatch_command", "serve");
        assert_eq!(died_in(&other), Vec::<String>::new());
    }

    #[test]
    fn of_a_core_dump_the_first_thread_is_the_one_that_died() {
        let dump = "Stack trace of thread 71:\n#0  0x00007f3a1e27f0f4 __pthread_kill_implementation (libc.so.6 + 0x730f4)\n\
                    #1  0x00007f3a1e225fde raise (libc.so.6 + 0x19fde)\n#2  0x0000556d25cc1d2a handle_fatal_signal (mariadbd + 0x8fc000)\n\
                    #3  0x0000556d25b80c0a _ZN5log_t7persistEm (mariadbd + 0x7bbc0a)\n\n\
                    Stack trace of thread 72:\n#0  0x00007f3a1e2f0000 __poll (libc.so.6 + 0xe0000)\n\
                    #1  0x0000556d25b80c0b do_command (mariadbd + 0x7bbc0b)\n";
        assert_eq!(read(dump).unwrap().threads, 2);
        assert_eq!(died_in(dump), ["log_t::persist"]);
        let other = dump
            .replace("mariadbd", "rsyslogd")
            .replace("handle_fatal_signal", "stop")
            .replace("do_command", "serve");
        assert_eq!(died_in(&other), Vec::<String>::new());
        // A part of it without the thread that died.
        let (_, others) = dump.split_once("\n\n").unwrap();
        assert_eq!(died_in(others), Vec::<String>::new());
        for text in
            [dump.to_owned(), format!("Message: Process 71 (mariadbd) of user 27 dumped core.\n\n{dump}")]
        {
            let parts = crate::recognise("x", &text);
            let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
            let headline = found.first().map(|finding| finding.headline.as_str());
            assert_eq!(headline, Some("The server crashed: it died in log_t::persist"), "{text}");
        }
        let says = |dump: &str| {
            let text = format!("Message: Process 71 (mariadbd) of user 27 dumped core.\n\n{dump}");
            crate::recognise("x", &text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().concat()
        };
        let refused = "the system refused an operation on a file";
        assert!(!says(dump).contains(refused), "{}", says(dump));
        let of_file = dump.replace("_ZN5log_t7persistEm", "os_file_handle_error_cond_exit");
        assert!(says(&of_file).contains(refused), "{}", says(&of_file));
    }
}
