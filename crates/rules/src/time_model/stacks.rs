//! What a thread's stack says: does the thread serve a client, is it at work, and what does it wait for.

use spindoctor_model::TimeClass;
use spindoctor_model::stack::{Frame, Profile, Stack, StackEnd, ThreadState};

use super::tables;
use crate::peers::Peer;
use crate::stack_evidence::is_name;

/// What a stack says, whatever state its thread was in.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct StackWork {
    /// True where it serves a client.
    pub(super) is_connection: bool,
    /// True where a statement, a login or the end of a connection is at work.
    pub(super) is_at_work: bool,
    /// True where it waits for the next statement, or for the next connection.
    pub(super) is_at_rest: bool,
    /// True where there are no frames: the thread ran, as a rule.
    pub(super) is_empty: bool,
    is_login: bool,
    is_sleeping: bool,
    is_commit: bool,
    is_change: bool,
    is_rollback: bool,
    /// The first line of [`tables::WAITS`] that fits.
    waits: Option<TimeClass>,
    /// A mutex or rw-lock of the C library is waited for, and what for.
    mutex: Option<TimeClass>,
    /// Who is at the other end of a socket or pipe, where it is not the client.
    peer: Option<Peer>,
    /// The functions with names from the one on that says so; empty where it is the client.
    of_peer: String,
    /// The innermost functions with names, for a wait that has no class.
    pub(super) innermost: String,
    /// True where the innermost function is one that asks the kernel to read: else a thread that waits for a disk is in a
    /// page fault.
    is_read_call: bool,
    /// True where its thread asks for a file by its name, or for what is known of it: no rows are read.
    is_lookup: bool,
    /// True where what is waited for is the latch of a page.
    pub(super) waits_for_page: bool,
    /// True where pages are written below it.
    pub(super) writes_pages: bool,
    /// True where the opening of a table waits for a condition.
    waits_for_table: bool,
    /// True where that waits until another thread has opened the same table.
    waits_for_share: bool,
    /// True where the innermost functions are a storage engine's and have no names: which of its waits it is stays open.
    pub(super) is_in_nameless_engine: bool,
}

/// What a session does at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// On a CPU, or ready for one.
    Runs,
    /// Sleeps on purpose.
    Sleeps,
    /// Waits, and what for.
    Waits(TimeClass),
}

/// What a frame says, by its name: looked up once, for a frame stands in many stacks.
#[derive(Debug, Clone, Copy, Default)]
struct Role {
    is_connection: bool,
    is_statement: bool,
    is_login: bool,
    is_sleep: bool,
    is_commit: bool,
    is_change: bool,
    is_rollback: bool,
    is_mutex: bool,
    is_of_privileges: bool,
    is_of_tables: bool,
    is_share_open: bool,
    is_of_query_cache: bool,
    is_page_fetch: bool,
    is_page_write: bool,
    is_below_statement: bool,
    is_dump: bool,
    is_rest: bool,
    is_condition: bool,
    peer: Option<Peer>,
    /// Its line in [`tables::WAITS`]; the first line decides.
    waits: Option<usize>,
}

impl Role {
    fn from_frame(frame: &Frame) -> Self {
        if frame.kernel {
            return Self::default();
        }
        let is_in = |functions: &[&str]| functions.contains(&frame.name.as_str());
        Self {
            is_connection: is_in(tables::CONNECTION),
            is_statement: is_in(tables::STATEMENT),
            is_login: is_in(tables::LOGIN),
            is_sleep: is_in(tables::SLEEP),
            is_commit: is_in(tables::COMMIT),
            is_change: is_in(tables::CHANGES),
            is_rollback: is_in(tables::ROLLBACK),
            is_mutex: is_in(tables::MUTEXES),
            is_of_privileges: is_in(tables::PRIVILEGES),
            is_of_tables: is_in(tables::TABLES),
            is_share_open: is_in(tables::SHARES),
            is_of_query_cache: tables::QUERY_CACHE.iter().any(|begin| frame.name.starts_with(begin)),
            is_page_fetch: is_in(tables::PAGE_FETCHES),
            is_page_write: is_in(tables::PAGE_WRITES),
            is_below_statement: tables::BELOW_STATEMENT.iter().any(|begin| frame.name.starts_with(begin)),
            is_dump: is_in(tables::DUMPS),
            is_rest: is_in(tables::RESTS),
            is_condition: is_in(tables::CONDITIONS),
            peer: Peer::from_function(&frame.name),
            waits: tables::WAITS.iter().position(|(name, _)| *name == frame.name),
        }
    }
}

impl StackWork {
    /// Each stack of a profile, in order.
    pub(super) fn from_profile(profile: &Profile) -> Vec<Self> {
        let roles: Vec<Role> = profile.frames.iter().map(Role::from_frame).collect();
        profile.stacks.iter().map(|stack| Self::from_stack(profile, &roles, stack)).collect()
    }

    /// True for a wait for a latch that a function began which fetches a page.
    fn waits_for_page(roles: &[Role]) -> bool {
        let is_latch = |role: &Role| role.waits.is_some_and(|line| tables::WAITS[line].1 == TimeClass::Latch);
        let caller = roles.iter().rposition(is_latch).and_then(|outermost| roles.get(outermost + 1));
        caller.is_some_and(|role| role.is_page_fetch)
    }

    fn from_stack(profile: &Profile, roles: &[Role], stack: &Stack) -> Self {
        let of_frames = || stack.frames.iter().filter_map(|&at| roles.get(at as usize));
        let has = |is_such: fn(&Role) -> bool| of_frames().any(is_such);
        let frames = stack.frames.iter().filter_map(|&at| profile.frames.get(at as usize));
        let names: Vec<&str> =
            frames.filter(|frame| !frame.kernel).map(|frame| frame.name.as_str()).collect();
        let is_login = has(|role| role.is_login);
        // Whom it serves stands in the outer functions; where they are missing the inner ones decide.
        // A part of a stack that a person pasted is one of a session that waits, where it waits for something that sessions wait for.
        let is_inner =
            |role: &Role| role.is_below_statement || profile.is_of_a_text() && role.waits.is_some();
        let is_cut_statement = matches!(stack.end, StackEnd::Cut(_)) && of_frames().any(is_inner);
        let is_dump = has(|role| role.is_dump);
        let is_connection = is_login || is_cut_statement || has(|role| role.is_connection);
        let is_statement = has(|role| role.is_statement);
        let peer = of_frames().filter_map(|role| role.peer).max();
        let says_so = peer.and_then(|_| names.iter().position(|name| Peer::from_function(name) == peer));
        // A connection begins and ends outside of a statement: it is at work where it waits for somebody else, which a connection
        // that rests until its client sends something does not.
        let is_held_up =
            is_connection && has(|role| role.is_mutex || role.is_rollback || role.waits.is_some());
        Self {
            is_connection: !is_dump && is_connection,
            is_at_work: !is_dump && (is_login || is_cut_statement || is_statement || is_held_up),
            is_at_rest: !is_login && !is_cut_statement && !is_statement && has(|role| role.is_rest),
            is_empty: names.is_empty() || matches!(stack.end, StackEnd::None(_)),
            is_login,
            is_sleeping: has(|role| role.is_sleep),
            is_commit: has(|role| role.is_commit),
            is_change: has(|role| role.is_change),
            is_rollback: has(|role| role.is_rollback),
            waits: of_frames().filter_map(|role| role.waits).min().map(|line| match tables::WAITS[line].1 {
                // The lock of the privilege cache is one of the metadata locks' (sql/auth/sql_auth_cache.cc); where a table is
                // opened below, it is the table's.
                TimeClass::MetadataLock
                    if has(|role| role.is_of_privileges) && !has(|role| role.is_of_tables) =>
                {
                    TimeClass::PrivilegeCache
                }
                // Plugins are asked about connections, too.
                TimeClass::StatementLog if is_login => TimeClass::Login,
                class => class,
            }),
            mutex: has(|role| role.is_mutex).then(|| match () {
                () if has(|role| role.is_of_privileges) => TimeClass::PrivilegeCache,
                () if has(|role| role.is_of_query_cache) => TimeClass::QueryCache,
                () if has(|role| role.is_of_tables) => TimeClass::TableCache,
                () => TimeClass::Mutex,
            }),
            peer,
            of_peer: says_so.map_or_else(String::new, |at| innermost(&names[at..])),
            innermost: innermost(&names),
            waits_for_page: Self::waits_for_page(&of_frames().copied().collect::<Vec<_>>()),
            writes_pages: has(|role| role.is_page_write),
            waits_for_table: has(|role| role.is_of_tables) && has(|role| role.is_condition),
            waits_for_share: has(|role| role.is_share_open) && has(|role| role.is_condition),
            is_read_call: names.first().is_none_or(|name| is_read_call(name)),
            is_lookup: names.first().is_some_and(|name| is_lookup(name)),
            is_in_nameless_engine: is_in_nameless_engine(&names),
        }
    }

    /// True for a session at work: one that sleeps on purpose is not.
    pub(super) fn counts(&self) -> bool {
        self.is_at_work && !self.is_sleeping
    }

    /// True where it stands in the functions of the metadata locks, and nothing on it says for which of the locks that are theirs.
    pub(super) fn waits_for_metadata_lock(&self) -> bool {
        self.waits == Some(TimeClass::MetadataLock)
    }

    /// True where it stands in the functions that read a page.
    pub(super) fn waits_for_read(&self) -> bool {
        self.waits == Some(TimeClass::Read)
    }

    /// True where it stands in the functions of a latch.
    pub(super) fn waits_for_latch(&self) -> bool {
        self.waits == Some(TimeClass::Latch)
    }

    /// The functions to show of a thread in a state of the kernel's that waits.
    pub(super) fn shown(&self, thread: ThreadState, class: TimeClass) -> &str {
        let is_in_call = matches!(thread, ThreadState::NetworkIdle | ThreadState::Epoll);
        let is_of_peer = is_in_call && class == TimeClass::Other && self.peer.is_some();
        if is_of_peer { &self.of_peer } else { &self.innermost }
    }

    /// What its thread does in a state of the kernel's; `state` is the process list's word for it, where that is known.
    pub(super) fn doing(&self, thread: ThreadState, state: Option<&str>) -> Doing {
        if self.is_sleeping {
            return Doing::Sleeps;
        }
        let class = match (thread, self.waits) {
            (ThreadState::Running | ThreadState::Runnable, _) => return Doing::Runs,
            (ThreadState::Stopped, _) => TimeClass::Stopped,
            (ThreadState::DiskRead, _) if !self.is_read_call && !self.is_lookup => TimeClass::PageFault,
            // The server has one mechanism for all of these, and only its state says which it is.
            (_, Some(TimeClass::MetadataLock)) => match of_state(state.unwrap_or_default()) {
                Some(class @ (TimeClass::GlobalLock | TimeClass::UserLock | TimeClass::PrivilegeCache)) => {
                    class
                }
                _ => TimeClass::MetadataLock,
            },
            (_, Some(class)) => class,
            (ThreadState::DiskRead, None) if !self.is_lookup => TimeClass::Read,
            // Both sleep for as long as a variable or purge asks; the functions that do are inlined.
            (ThreadState::Sleep, None) if self.is_commit => TimeClass::CommitDelay,
            (ThreadState::Sleep, None) if self.is_change => TimeClass::PurgeDelay,
            (_, None) if self.is_rollback => TimeClass::Rollback,
            (_, None) if self.is_commit => TimeClass::Commit,
            (ThreadState::DiskWrite | ThreadState::Sync, None) => TimeClass::Write,
            // MariaDB 10.6 and later: the answer waits until another thread has made the transaction durable
            // (net_real_write, thd->async_state.wait_for_pending_ops). A socket is waited for by poll.
            (ThreadState::Condition, None) if self.innermost.contains("net_real_write") => TimeClass::Commit,
            (ThreadState::NetworkIdle | ThreadState::Epoll, None) if self.is_login => TimeClass::Login,
            (ThreadState::NetworkIdle | ThreadState::Epoll, None) if self.peer.is_some() => TimeClass::Other,
            (ThreadState::NetworkIdle | ThreadState::Epoll, None) => TimeClass::Network,
            (_, None) => match (self.mutex, state.and_then(of_state)) {
                (Some(class), _) => class,
                (None, Some(class)) => class,
                (None, None) if self.waits_for_share => TimeClass::TableCache,
                // To 5.1 who opens a table that another alters, renames or flushes waits in open_table itself
                // (sql/sql_base.cc, COND_refresh): what metadata locks are from 5.5 on.
                (None, None) if self.waits_for_table => TimeClass::MetadataLock,
                (None, None) if self.is_login => TimeClass::Login,
                (None, None) => TimeClass::Other,
            },
        };
        Doing::Waits(class)
    }
}

/// The class of a state of the process list; none where the state says nothing of a wait.
pub(super) fn of_state(state: &str) -> Option<TimeClass> {
    let state = state.to_lowercase();
    // Of a table, a stored program, a foreign key, a check constraint, a resource group and more (sql/mdl.cc, m_namespace_to_wait_state_name).
    if state.starts_with("waiting for") && state.ends_with("metadata lock") {
        return Some(TimeClass::MetadataLock);
    }
    tables::STATES.iter().find(|(begin, _)| state.starts_with(begin)).map(|(_, class)| *class)
}

/// True where a state of the process list says of a session that it is in that class.
pub(crate) fn has_a_state(class: TimeClass) -> bool {
    tables::STATES.iter().any(|(_, of_state)| *of_state == class)
}

/// The class of a wait, or of work that nothing interrupts: by the process list's word for it, else by the functions of its stack.
pub(crate) fn wait_class(state: &str, frames: &[String]) -> Option<TimeClass> {
    let stands_in = |functions: &[&str]| frames.iter().any(|frame| functions.contains(&frame.as_str()));
    let waits = || tables::WAITS.iter().find(|(name, _)| stands_in(&[name])).map(|(_, class)| *class);
    of_state(state)
        .or_else(waits)
        .or_else(|| stands_in(tables::ROLLBACK).then_some(TimeClass::Rollback))
        .or_else(|| stands_in(tables::COMMIT).then_some(TimeClass::Commit))
}

/// Functions that every wait goes through, and that say nothing of it.
const PLUMBING: &[&str] = &[
    "syscall",
    "__lll_lock_wait",
    "__GI___lll_lock_wait",
    "___lll_lock_wait",
    "futex_abstimed_wait",
    "__futex_lock_pi64",
    "__lll_mutex_lock_wait",
    "___pthread_mutex_lock",
    "__pthread_mutex_lock",
    "__pthread_mutex_cond_lock",
    "__GI___pthread_mutex_lock",
    "pthread_mutex_lock",
    "native_mutex_lock",
    "my_mutex_lock",
    "safe_mutex_lock",
    "inline_mysql_mutex_lock",
    "psi_mutex_lock",
    "futex_wait",
    "__futex_abstimed_wait_common",
    "__futex_abstimed_wait_common64",
    "__futex_abstimed_wait_cancelable64",
    "native_cond_wait",
    "native_cond_timedwait",
    "my_cond_wait",
    "my_cond_timedwait",
    "safe_cond_wait",
    "safe_cond_timedwait",
    "inline_mysql_cond_wait",
    "inline_mysql_cond_timedwait",
    "psi_cond_wait",
    "psi_cond_timedwait",
    "os_event::wait_low",
    "os_event::wait",
    "os_event_wait_low",
    // Of macOS.
    "__psynch_cvwait",
    "_pthread_cond_wait",
];

/// True for a function that every wait goes through: those of [`PLUMBING`], the waits for a condition, and the slow path of old
/// C libraries, `_L_lock_854`.
fn is_plumbing(name: &str) -> bool {
    PLUMBING.contains(&name) || tables::CONDITIONS.contains(&name) || name.starts_with("_L_")
}

/// True for the C library's functions that look a file up, or ask what is known of it, as its builds name them.
fn is_lookup(name: &str) -> bool {
    const CALLS: &[&str] = &[
        "open",
        "openat",
        "stat",
        "xstat",
        "lstat",
        "lxstat",
        "fstat",
        "fxstat",
        "fstatat",
        "statx",
        "statfs",
        "fstatfs",
        "access",
        "faccessat",
        "readlink",
        "readlinkat",
        "getdents",
        "readdir",
        "lseek",
    ];
    let name = plain(name);
    let name = name.strip_suffix("_nocancel").unwrap_or(name);
    CALLS.contains(&name.strip_suffix("64").unwrap_or(name))
}

/// True for those, and for functions that close, make or link one: work of a file system of which the server counts nothing.
pub(crate) fn is_file_system_call(name: &str) -> bool {
    const CALLS: &[&str] = &[
        "close",
        "truncate",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "mkdir",
        "mkdirat",
        "rmdir",
        "copy_file_range",
    ];
    let own = plain(name);
    let own = own.strip_suffix("_nocancel").unwrap_or(own);
    is_lookup(name) || CALLS.contains(&own.strip_suffix("64").unwrap_or(own))
}

/// The name of a function of the C library without what its builds put around it.
fn plain(name: &str) -> &str {
    let plain = name.split('@').next().unwrap_or(name).trim_start_matches('_');
    ["GI_", "libc_", "pthread_"]
        .iter()
        .fold(plain, |name, begin| name.strip_prefix(begin).unwrap_or(name).trim_start_matches('_'))
}

/// True for the C library's functions that ask the kernel to read, as its builds name them, and for one of the library that
/// has no name.
fn is_read_call(name: &str) -> bool {
    const CALLS: &[&str] = &["read", "readv", "pread", "pread64", "preadv", "preadv64", "preadv2", "syscall"];
    CALLS.contains(&plain(name))
        || (!is_name(name) && ["libc", "ld-", "libpthread"].iter().any(|library| name.starts_with(library)))
}

/// True where functions without names stand below the storage engine's interface (sql/handler.cc): a server that is stripped
/// exports that interface and none of InnoDB's own functions.
fn is_in_nameless_engine(names: &[&str]) -> bool {
    let mut own = names.iter().filter(|name| !is_plumbing(name));
    own.next().is_some_and(|name| !is_name(name))
        && own.find(|name| is_name(name)).is_some_and(|name| name.starts_with("handler::"))
}

/// The three innermost functions that say something: `wait_for_it < do_it < dispatch_command`.
fn innermost(names: &[&str]) -> String {
    const LENGTH: usize = 3;
    let speaking = names.iter().copied().filter(|name| is_name(name) && !is_plumbing(name));
    speaking.take(LENGTH).collect::<Vec<_>>().join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doing(thread: ThreadState, state: Option<&str>, names: &[&str]) -> Doing {
        let profile = Profile {
            frames: names.iter().map(|name| Frame { name: (*name).into(), ..Frame::default() }).collect(),
            stacks: vec![Stack { frames: (0..names.len() as u32).collect(), end: StackEnd::Root }],
            ..Profile::default()
        };
        StackWork::from_profile(&profile)[0].doing(thread, state)
    }

    #[test]
    fn what_waits_most_specially_decides() {
        use ThreadState::{Condition, DiskRead, Futex, Lock, NetworkIdle, Running, Sleep, Stopped, Sync};
        for (thread, state, names, class) in [
            (
                Lock,
                None,
                &["lock_wait_suspend_thread", "row_lock_table_autoinc_for_mysql"][..],
                TimeClass::AutoIncrementLock,
            ),
            (Lock, None, &["lock_wait_suspend_thread", "row_search_mvcc"], TimeClass::RowLock),
            (
                Lock,
                Some("Waiting for global read lock"),
                &["MDL_context::acquire_lock", "open_table"],
                TimeClass::GlobalLock,
            ),
            (Lock, Some("User lock"), &["MDL_context::acquire_lock"], TimeClass::UserLock),
            (
                Lock,
                Some("Waiting for table metadata lock"),
                &["MDL_context::acquire_lock"],
                TimeClass::MetadataLock,
            ),
            (Lock, None, &["MDL_context::acquire_lock", "Item_func_get_lock::val_int"], TimeClass::UserLock),
            (Lock, None, &["MDL_context::acquire_lock", "acl_authenticate"], TimeClass::PrivilegeCache),
            (
                Lock,
                None,
                &["MDL_context::acquire_lock", "open_tables", "mysql_grant"],
                TimeClass::MetadataLock,
            ),
            (Sync, None, &["fsync", "MYSQL_BIN_LOG::ordered_commit"], TimeClass::Commit),
            (Sync, None, &["fsync", "mi_close"], TimeClass::Write),
            (Condition, None, &["os_event::wait_low", "log_write_up_to"], TimeClass::Commit),
            (
                Condition,
                None,
                &["Repl_semi_sync_master::commit_trx", "MYSQL_BIN_LOG::ordered_commit"],
                TimeClass::SemiSync,
            ),
            (
                Condition,
                None,
                &["Gtid_state::wait_for_gtid_set", "Item_wait_for_executed_gtid_set::val_int"],
                TimeClass::ReplicaWait,
            ),
            (Condition, None, &["___pthread_cond_wait", "net_real_write"], TimeClass::Commit),
            (DiskRead, None, &["pread64", "row_search_mvcc"], TimeClass::Read),
            (DiskRead, None, &["__libc_pread64", "buf_read_page_low"], TimeClass::Read),
            (DiskRead, None, &["libc.so.6+0x10a3e1", "row_search_mvcc"], TimeClass::Read),
            (DiskRead, None, &["rec_get_offsets", "row_search_mvcc"], TimeClass::PageFault),
            (DiskRead, None, &["__libc_open64", "my_open", "open_table_def"], TimeClass::Other),
            (DiskRead, Some("Opening tables"), &["__fstatat64", "open_table"], TimeClass::TableCache),
            (DiskRead, None, &["__memmove_avx_unaligned_erms", "buf_read_page"], TimeClass::PageFault),
            (
                Sleep,
                None,
                &["clock_nanosleep", "nanosleep", "ha_innobase::update_row"],
                TimeClass::PurgeDelay,
            ),
            (Sleep, None, &["nanosleep", "MYSQL_BIN_LOG::ordered_commit"], TimeClass::CommitDelay),
            (NetworkIdle, None, &["poll", "net_write_packet"], TimeClass::Network),
            (NetworkIdle, None, &["poll", "vio_read", "my_net_read", "cli_safe_read"], TimeClass::Other),
            (NetworkIdle, None, &["write", "_IO_new_file_write", "sql_print_warning"], TimeClass::Other),
            (NetworkIdle, None, &["write", "my_write", "MYSQL_QUERY_LOG::write"], TimeClass::StatementLog),
            (Futex, None, &["___pthread_mutex_lock", "open_table"], TimeClass::TableCache),
            (
                Condition,
                None,
                &["pthread_cond_wait", "get_table_share", "open_table", "open_tables"],
                TimeClass::TableCache,
            ),
            (Futex, None, &["___pthread_mutex_lock", "unheard_of"], TimeClass::Mutex),
            (
                Lock,
                None,
                &["pthread_mutex_lock", "Query_cache::send_result_to_client"],
                TimeClass::QueryCache,
            ),
            (
                Condition,
                Some("Waiting for semi-sync ACK from replica"),
                &["mysqld+0x12"],
                TimeClass::SemiSync,
            ),
            (Condition, Some(""), &["___pthread_cond_wait", "unheard_of"], TimeClass::Other),
            (Stopped, None, &["row_search_mvcc"], TimeClass::Stopped),
        ] {
            let names = [names, &["dispatch_command", "do_command"]].concat();
            assert_eq!(doing(thread, state, &names), Doing::Waits(class), "{names:?}");
        }
        assert_eq!(doing(Running, None, &["row_search_mvcc", "dispatch_command"]), Doing::Runs);
        assert_eq!(doing(Condition, None, &["Item_func_sleep::val_int", "dispatch_command"]), Doing::Sleeps);
    }

    #[test]
    fn an_engine_without_names_is_distinguished_from_a_function_that_no_table_knows() {
        let is_nameless = |names: &[&str]| is_in_nameless_engine(names);
        assert!(is_nameless(&["syscall", "mariadbd+0x12", "mariadbd+0x34", "handler::ha_update_row"]));
        assert!(!is_nameless(&["syscall", "unheard_of", "mariadbd+0x34", "handler::ha_update_row"]));
        assert!(!is_nameless(&["syscall", "mariadbd+0x12", "mysql_lock_tables"]));
        assert!(!is_nameless(&["syscall", "handler::ha_update_row"]));
    }

    #[test]
    fn functions_that_every_wait_goes_through_are_left_out() {
        assert_eq!(
            innermost(&["syscall", "___pthread_cond_wait", "mysqld+0x12", "wait_for_it", "do_it"]),
            "wait_for_it < do_it"
        );
        assert_eq!(
            innermost(&["__lll_lock_wait", "__pthread_mutex_cond_lock", "wait_for_it"]),
            "wait_for_it"
        );
        assert_eq!(innermost(&["__psynch_cvwait", "_pthread_cond_wait", "wait_for_it"]), "wait_for_it");
    }
}
