//! What a thread did, by its frames alone: no tool that prints stacks says what the kernel knows of the thread.

use spindoctor_model::stack::{Spin, ThreadState};
use spindoctor_rules::FRAME_STATES;
use spindoctor_stacks::capture::RawThread;
use spindoctor_stacks::classify::{classify, state_by_frames};
use spindoctor_stacks::spin::is_kernel_spin;

/// How many of the innermost functions are looked at for the call into the kernel: `syscall < io_getevents`, and what was inlined.
const NEAR: usize = 4;

/// How many of the innermost functions may be the C library's, in a wait.
const OF_LIBC: usize = 8;

/// Calls into the kernel and what a thread that is in them does, by the name without underscores and prefixes of the C library
/// and of the kernel. Those that [`file_or_peer`] decides are not here.
const CALLS: &[(&str, ThreadState)] = &[
    ("pread64", ThreadState::DiskRead),
    ("pread", ThreadState::DiskRead),
    ("preadv", ThreadState::DiskRead),
    ("pwrite64", ThreadState::DiskWrite),
    ("pwrite", ThreadState::DiskWrite),
    ("pwritev", ThreadState::DiskWrite),
    ("fallocate", ThreadState::DiskWrite),
    ("fallocate64", ThreadState::DiskWrite),
    ("posix_fallocate", ThreadState::DiskWrite),
    ("posix_fallocate64", ThreadState::DiskWrite),
    ("ftruncate", ThreadState::DiskWrite),
    ("ftruncate64", ThreadState::DiskWrite),
    ("unlink", ThreadState::DiskWrite),
    ("unlinkat", ThreadState::DiskWrite),
    ("rename", ThreadState::DiskWrite),
    ("io_submit", ThreadState::DiskWrite),
    ("fsync", ThreadState::Sync),
    ("fdatasync", ThreadState::Sync),
    ("msync", ThreadState::Sync),
    ("sync_file_range", ThreadState::Sync),
    ("poll", ThreadState::NetworkIdle),
    ("ppoll", ThreadState::NetworkIdle),
    ("recv", ThreadState::NetworkIdle),
    ("recvfrom", ThreadState::NetworkIdle),
    ("recvmsg", ThreadState::NetworkIdle),
    ("send", ThreadState::NetworkIdle),
    ("sendto", ThreadState::NetworkIdle),
    ("sendmsg", ThreadState::NetworkIdle),
    ("accept", ThreadState::NetworkIdle),
    ("accept4", ThreadState::NetworkIdle),
    ("connect", ThreadState::NetworkIdle),
    ("select", ThreadState::Epoll),
    ("pselect", ThreadState::Epoll),
    ("pselect6", ThreadState::Epoll),
    ("epoll_wait", ThreadState::Epoll),
    ("epoll_pwait", ThreadState::Epoll),
    ("nanosleep", ThreadState::Sleep),
    ("clock_nanosleep", ThreadState::Sleep),
    ("usleep", ThreadState::Sleep),
    ("pause", ThreadState::Sleep),
    ("sigwait", ThreadState::Condition),
    ("sigwaitinfo", ThreadState::Condition),
    ("sigtimedwait", ThreadState::Condition),
    ("rt_sigtimedwait", ThreadState::Condition),
    ("do_sigwait", ThreadState::Condition),
    ("io_getevents", ThreadState::Condition),
    ("io_getevents_0_4", ThreadState::Condition),
    ("io_pgetevents", ThreadState::Condition),
    ("io_uring_enter", ThreadState::Condition),
    ("io_uring_wait_cqe", ThreadState::Condition),
    ("wait4", ThreadState::Condition),
    ("waitpid", ThreadState::Condition),
    ("flock", ThreadState::Lock),
    ("sched_yield", ThreadState::Runnable),
];

/// How the C library, the kernel and compilers begin the name of a call.
const PREFIXES: [&str; 12] = [
    "GI_",
    "libc_",
    "x64_sys_",
    "ia32_sys_",
    "arm64_sys_",
    "se_sys_",
    "do_sys_",
    "SyS_",
    "ksys_",
    "sys_",
    "old_",
    "vdso_",
];

/// Functions of MySQL and MariaDB whose own loops wait without sleeping (ut0ut.cc, sync0rw.cc, ib0mutex.h, thr_mutex.c, srw_lock.cc):
/// where a CPU sample ends in one of them the CPU spun, for the loop's instruction is inlined there.
const SPINS: &[&str] = &[
    "ut_delay",
    "mutex_spin_wait",
    "rw_lock_s_lock_spin",
    "rw_lock_x_lock_func",
    "rw_lock_sx_lock_func",
    "rw_lock_x_lock_wait_func",
    "TTASEventMutex::spin_and_try_lock",
    "TTASEventMutex::is_free",
    "my_pthread_fastmutex_lock",
    "pthread_spin_lock",
    "srw_mutex_impl::wait_and_lock",
    "ssux_lock_impl::rd_wait",
    "ssux_lock_impl::rd_lock_spin",
    "ssux_lock_impl::wr_wait",
];

/// Functions of the kernel that take a spin lock. Kernels before 4.2 spin in them, later ones in a function that they call; in
/// either case time in them is time that another holder took.
const KERNEL_LOCKS: &[&str] = &[
    "_raw_spin_lock",
    "_raw_spin_lock_irq",
    "_raw_spin_lock_irqsave",
    "_raw_spin_lock_bh",
    "_spin_lock",
    "_spin_lock_irq",
    "_spin_lock_irqsave",
    "_spin_lock_bh",
    "__ticket_spin_lock",
    "ticket_spin_lock",
    "do_raw_spin_lock",
    "_raw_read_lock",
    "_raw_write_lock",
    "__pv_queued_spin_lock_slowpath",
    "__raw_spin_lock",
];

/// Functions in which a thread sleeps until a lock or an event is its own: where one of them is the innermost in a text, somebody left out
/// the C library's below it.
const SLEEPERS: &[(&str, ThreadState)] = &[
    ("inline_mysql_mutex_lock", ThreadState::Lock),
    ("my_mutex_lock", ThreadState::Lock),
    ("native_mutex_lock", ThreadState::Lock),
    ("safe_mutex_lock", ThreadState::Lock),
    ("inline_mysql_cond_wait", ThreadState::Condition),
    ("inline_mysql_cond_timedwait", ThreadState::Condition),
    ("native_cond_wait", ThreadState::Condition),
    ("native_cond_timedwait", ThreadState::Condition),
    ("safe_cond_wait", ThreadState::Condition),
    ("os_event::wait", ThreadState::Condition),
    ("os_event::wait_low", ThreadState::Condition),
    ("os_event_wait_low", ThreadState::Condition),
];

/// The state of a thread by its functions, innermost first: those of the kernel, then its own. What is in no call and waits for
/// nothing ran, or would have if it had a CPU.
pub(super) fn of_frames(kernel: &[&str], user: &[&str]) -> ThreadState {
    if !kernel.is_empty() {
        return in_kernel(kernel, user).or_else(|| by_functions(user)).unwrap_or(ThreadState::Blocked);
    }
    if let Some(state) = user.iter().take(NEAR).find_map(|name| call(name, user)) {
        return state;
    }
    let sleeps = |name: &&str| SLEEPERS.iter().find(|(sleeper, _)| sleeper == name);
    if let Some((_, state)) = user.first().and_then(sleeps) {
        return by_functions(user).unwrap_or(*state);
    }
    let is_asleep = user.first().is_some_and(|name| is_nameless_libc(name))
        || user.iter().take(OF_LIBC).any(|name| is_wait_of_libc(name));
    if is_asleep { by_functions(user).unwrap_or(ThreadState::Futex) } else { ThreadState::Running }
}

/// What a thread waits for by those of its functions that wait, where the call that sleeps is not known; None where none of them does.
pub(super) fn by_functions(user: &[&str]) -> Option<ThreadState> {
    state_by_frames(user, FRAME_STATES)
}

/// Whether a CPU sample that ends in this function spun.
pub(super) fn spin(name: &str, is_kernel: bool) -> Option<Spin> {
    match is_kernel {
        true => (is_kernel_spin(name) || KERNEL_LOCKS.contains(&name)).then_some(Spin::Kernel),
        false => SPINS.contains(&name).then_some(Spin::User),
    }
}

/// What the call is that a function makes.
fn call(name: &str, user: &[&str]) -> Option<ThreadState> {
    let name = bare(name);
    // InnoDB slept by select() in old versions (os0thread.cc).
    if name == "select" && user.iter().take(NEAR).any(|caller| *caller == "os_thread_sleep") {
        return Some(ThreadState::Sleep);
    }
    CALLS.iter().find(|(call, _)| *call == name).map(|(_, state)| *state).or_else(|| file_or_peer(name, user))
}

/// A name without what libraries and the kernel put around that of a call.
fn bare(name: &str) -> &str {
    let mut name = name.trim_start_matches('_');
    for prefix in PREFIXES {
        if let Some(rest) = name.strip_prefix(prefix) {
            name = rest.trim_start_matches('_');
        }
    }
    name.strip_suffix("_nocancel").unwrap_or(name).strip_suffix("_time64").unwrap_or(name)
}

/// `read` and `write` are of files and of connections; the callers say which.
fn file_or_peer(call: &str, callers: &[&str]) -> Option<ThreadState> {
    let is_peer = || {
        let of_peers = [
            "vio_",
            "Vio",
            "my_net_",
            "net_",
            "inline_mysql_socket",
            "ssl",
            "SSL_",
            "BIO_",
            "sock",
            "tcp_",
            "inet",
            "unix_stream",
            "pipe_",
        ];
        callers
            .iter()
            .any(|name| of_peers.iter().any(|begin| name.starts_with(begin)) || name.contains("real_read"))
    };
    match call {
        "read" | "readv" if is_peer() => Some(ThreadState::NetworkIdle),
        "read" | "readv" => Some(ThreadState::DiskRead),
        "write" | "writev" if is_peer() => Some(ThreadState::NetworkIdle),
        "write" | "writev" => Some(ThreadState::DiskWrite),
        _ => None,
    }
}

/// By the call that the kernel's frames lie in, and by the function that sleeps.
fn in_kernel(kernel: &[&str], user: &[&str]) -> Option<ThreadState> {
    let of_call = kernel.iter().rev().find_map(|name| call(name, kernel));
    let of_channel = || {
        kernel.iter().find_map(|name| {
            let thread =
                RawThread { state: 'D', wait_channel: Some((*name).to_owned()), ..RawThread::default() };
            let state = classify(&thread, &mut || state_by_frames(user, FRAME_STATES));
            (state != ThreadState::Blocked).then_some(state)
        })
    };
    of_call.or_else(of_channel)
}

/// `libc.so.6+0x6d7e9`: the innermost function of a sleeping thread where the library has no symbols.
fn is_nameless_libc(name: &str) -> bool {
    (name.starts_with("libc") || name.starts_with("libpthread")) && name.contains("+0x")
}

fn is_wait_of_libc(name: &str) -> bool {
    let name = bare(name);
    let of_libc = [
        "futex",
        "lll_",
        "pthread_",
        "sem_wait",
        "sem_timedwait",
        "new_sem_wait",
        "syscall",
        "L_lock",
        "L_mutex_lock",
        "L_cond_lock",
        "lwp_wait",
        "psynch",
        "ulock_wait",
    ];
    // Giving a lock back and waking somebody wait for nothing.
    let is_no_wait = ["unlock", "wake", "signal", "broadcast", "self", "getspecific"];
    of_libc.iter().any(|begin| name.starts_with(begin)) && !is_no_wait.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_s_state_follows_from_its_functions() {
        use ThreadState::*;
        for (user, state) in [
            (&["__GI___poll", "vio_io_wait", "vio_read", "do_command"][..], NetworkIdle),
            (&["__lll_lock_wait", "pthread_mutex_lock", "get_db_stats", "mysql_execute_command"], Lock),
            (&["__futex_abstimed_wait_common", "pthread_cond_wait", "MDL_wait::timed_wait"], Lock),
            (&["pthread_cond_wait", "os_event_wait_low", "srv_purge_thread"], Condition),
            (&["syscall", "io_getevents", "LinuxAIOHandler::collect"], Condition),
            (&["__io_getevents_0_4", "LinuxAIOHandler::collect"], Condition),
            (&["__libc_pread64", "os_file_read_func"], DiskRead),
            (&["__libc_read", "vio_read", "my_real_read"], NetworkIdle),
            (&["read", "my_read", "mi_open"], DiskRead),
            (&["fdatasync", "MYSQL_BIN_LOG::sync_binlog_file"], Sync),
            (&["__GI___clock_nanosleep", "__GI___nanosleep", "srv_master_sleep"], Sleep),
            (&["libc.so.6+0x6d7e9", "lock_wait_suspend_thread"], Lock),
            (&["syscall", "ssux_lock_impl::wr_wait"], Lock),
            (&["inline_mysql_mutex_lock", "show_binlogs"], Lock),
            (&["os_event_wait_low", "lock_wait_suspend_thread"], Lock),
            (&["syscall", "some_new_thing"], Futex),
            (&["row_search_mvcc", "ha_innobase::index_read"], Running),
            (&["__pthread_mutex_unlock_usercnt", "row_search_mvcc"], Running),
            (&["[unknown]"], Running),
        ] {
            assert_eq!(of_frames(&[], user), state, "{user:?}");
        }
    }

    #[test]
    fn the_kernel_s_functions_say_it_better() {
        use ThreadState::*;
        for (kernel, state) in [
            (
                &["futex_wait_queue_me", "futex_wait", "do_futex", "SyS_futex", "system_call_fastpath"][..],
                Futex,
            ),
            (&["io_schedule", "wait_on_page_bit", "filemap_fdatawait_range", "SyS_fsync"], Sync),
            (&["poll_schedule_timeout", "do_sys_poll", "SyS_poll"], NetworkIdle),
            (&["io_schedule", "generic_file_read_iter", "vfs_read", "ksys_pread64"], DiskRead),
            (&["unix_stream_read_generic", "sock_recvmsg", "vfs_read", "ksys_read"], NetworkIdle),
            (&["rwsem_down_write_slowpath", "vm_mmap_pgoff"], Blocked),
        ] {
            assert_eq!(of_frames(kernel, &[]), state, "{kernel:?}");
        }
    }

    #[test]
    fn a_sample_spins_where_its_innermost_function_waits_for_a_lock() {
        assert_eq!(spin("_raw_spin_lock_irqsave", true), Some(Spin::Kernel));
        assert_eq!(spin("native_queued_spin_lock_slowpath", true), Some(Spin::Kernel));
        assert_eq!(spin("_raw_spin_unlock_irqrestore", true), None);
        assert_eq!(spin("ut_delay", false), Some(Spin::User));
        assert_eq!(spin("row_search_mvcc", false), None);
    }
}
