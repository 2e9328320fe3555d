//! Stacks that somebody captured: by gdb, pt-pmp, eu-stack, systemd-coredump, perf.
//!
//! Each file reads one family of forms. A text is of the family that understands most of its lines. What threads did follows from
//! their functions (`state`), for no tool writes down what the kernel knows of them. Values of arguments are dropped, for they
//! may be parts of statements.

mod backtrace;
mod collapsed;
mod counted_frames;
mod crash;
mod death;
mod kernel;
mod name;
mod perf;
mod perf_report;
mod state;
mod tables;

use spindoctor_model::stack::Profile;

pub(crate) use death::{died_in, handles_death};
pub(crate) use perf::is_server_thread;
pub(crate) use tables::{WITHOUT_INNERMOST, is_server as is_server_program};

/// Stacks as a text has them.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedStacks {
    /// What wrote them, in words: `gdb backtrace`, `pt-pmp`.
    pub form: &'static str,
    /// The stacks, as a live server's profile holds them. Those of a crash were not seen at an instant: the profile has their
    /// stacks, the innermost thing first, and no observation.
    pub profile: Profile,
    /// How many threads the text shows.
    pub threads: usize,
    /// Lines of the text that say nothing that was understood.
    pub lines_not_understood: usize,
}

/// Who wrote a line of stacks, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A debugger: a line a frame.
    Debugger,
    /// pt-pmp: a line a stack, with its count.
    Counter,
    /// perf and oprofile: a line a function, with its share.
    Profiler,
}

/// Who wrote a line with which stacks may begin, and that nothing else prints.
pub(crate) fn writer(line: &str) -> Option<Writer> {
    match () {
        () if backtrace::begins(line) => Some(Writer::Debugger),
        () if collapsed::is_counted(line) => Some(Writer::Counter),
        () if perf_report::is_of_report(line) => Some(Writer::Profiler),
        () => None,
    }
}

/// What is said of stacks that systemd prints of a process that dumped core.
pub(crate) const BY_SYSTEMD: &str = "coredumpctl";

/// What is said of stacks that a tracer counted, which are no threads.
pub(crate) const COUNTED_STACKS: &str = "counted stacks";

/// The stacks that a text holds, where it holds any.
pub fn read(text: &str) -> Option<CapturedStacks> {
    let readers = [
        backtrace::read,
        crash::read,
        perf::read_script,
        perf_report::read,
        kernel::read,
        collapsed::read_pmp,
        collapsed::read_folded,
        counted_frames::read,
    ];
    let found = readers.into_iter().filter_map(|read| read(text));
    found.min_by_key(|found| found.lines_not_understood).map(|found| death::as_crash(found, text))
}

/// How functions begin that another program has and no server of MySQL or MariaDB.
const OTHERS: [(&str, &[&str]); 7] = [
    (
        "ProxySQL",
        &[
            "ProxySQL_",
            "MySQL_HostGroups_Manager",
            "MySQL_Monitor",
            "MySQL_Session::",
            "MySQL_Thread::",
            "MySQL_Threads_Handler",
        ],
    ),
    ("StarRocks", &["starrocks::"]),
    ("Apache Doris", &["doris::"]),
    ("a program with brpc, as StarRocks and Apache Doris are", &["bthread::", "brpc::"]),
    (
        "a Java program",
        &["JavaThread::", "JavaCalls::", "JavaMain", "java.lang.", "java.util.", "GCTaskThread::"],
    ),
    ("MongoDB", &["mongo::"]),
    ("PostgreSQL", &["PostgresMain", "PostmasterMain", "ServerLoop"]),
];

/// How functions begin that a server has: where one is there another program's name is that of a library or a plugin.
const OF_SERVERS: [&str; 16] = [
    "do_command",
    "dispatch_command",
    "do_handle_one_connection",
    "handle_one_connection",
    "handle_connection",
    "mysqld_main",
    "mysql_execute_command",
    "pfs_spawn_thread",
    "MDL_",
    "THD::",
    "handler::ha_",
    "os_event",
    "os_aio",
    "srv_",
    "buf_",
    "row_search_mvcc",
];

/// True for a function that a server has, by how its name begins.
pub(crate) fn is_function_of_server(name: &str) -> bool {
    OF_SERVERS.iter().any(|begin| name.starts_with(begin))
}

impl CapturedStacks {
    /// The other program whose stacks these are, such as a proxy between clients and servers: what its threads wait for is not
    /// what a server's do.
    pub(crate) fn other_program(&self) -> Option<String> {
        let has = |begins: &[&str]| {
            let frames = self.profile.frames.iter();
            frames.into_iter().any(|frame| begins.iter().any(|begin| frame.name.starts_with(begin)))
        };
        let is_named = tables::is_server(&self.profile.process.name);
        let is_other = !is_named && !has(&OF_SERVERS);
        let by_functions = OTHERS.into_iter().find(|(_, begins)| has(begins)).map(|(program, _)| program);
        match by_functions {
            Some(program) => (program == "ProxySQL" || is_other).then(|| program.to_owned()),
            None => self.named_otherwise().filter(|_| is_other),
        }
    }

    /// The program by the names of its threads, where each of several has one and none is a server's: the name of the first thread is the
    /// program's.
    fn named_otherwise(&self) -> Option<String> {
        const LONGEST: usize = 32;
        let threads = &self.profile.threads;
        let is_of_server = |name: &str| {
            is_server_thread(name) || ["mysqld", "mariadbd"].iter().any(|begin| name.starts_with(begin))
        };
        let is_other = |name: &str| !name.is_empty() && !is_of_server(name);
        let all_are = self.form == "gdb backtrace"
            && threads.len() > 1
            && threads.iter().all(|thread| is_other(&thread.name));
        let first = threads.iter().min_by_key(|thread| thread.tid).filter(|_| all_are)?;
        Some(first.name.chars().take(LONGEST).collect())
    }
}

#[cfg(test)]
mod tests;
