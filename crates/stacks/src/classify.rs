//! The state of a thread, from what the kernel says about it and the functions it is in: pure.
//!
//! In: a [`RawThread`] and the names of its frames, innermost first. Out: a [`ThreadState`]. What a frame of the
//! program itself means (which function waits for a latch) comes from a table of the caller's.

use spindoctor_model::stack::ThreadState;

use crate::capture::RawThread;

/// Functions of a program, and the state of a thread that waits below them: `("MDL_wait::timed_wait", Lock)`.
/// The innermost frame that is in the table decides.
pub type FrameStates = [(&'static str, ThreadState)];

/// glibc's functions, without leading underscores, and what waiting in them means. A name that begins with one of
/// these counts.
const LIBC: [(&str, ThreadState); 10] = [
    ("lll_lock", ThreadState::Lock),
    ("pthread_mutex_", ThreadState::Lock),
    ("pthread_rwlock_", ThreadState::Lock),
    ("pthread_spin_lock", ThreadState::Lock),
    ("pthread_cond_", ThreadState::Condition),
    ("pthread_barrier_", ThreadState::Condition),
    ("pthread_join", ThreadState::Condition),
    ("pthread_clockjoin", ThreadState::Condition),
    ("pthread_timedjoin", ThreadState::Condition),
    ("sem_", ThreadState::Condition),
];

/// How many frames from the innermost on may be libc's: `futex_wait < lll_lock_wait < pthread_mutex_lock`, and as
/// many that were inlined.
const LIBC_FRAMES: usize = 8;

/// What a thread was doing. `by_frames` says what its functions mean, as [`state_by_frames`] does; it is asked only
/// where that matters.
pub fn classify(thread: &RawThread, by_frames: &mut dyn FnMut() -> Option<ThreadState>) -> ThreadState {
    if matches!(thread.state, 'T' | 't') || thread.wait_channel.as_deref().is_some_and(is_frozen) {
        return ThreadState::Stopped;
    }
    if thread.on_cpu {
        return ThreadState::Running;
    }
    if thread.state == 'R' {
        return ThreadState::Runnable;
    }
    let uninterruptible = thread.state == 'D';
    match thread.syscall.and_then(|number| i64::try_from(number).ok()) {
        Some(number) => in_syscall(number, thread, uninterruptible, by_frames),
        None => in_channel(thread.wait_channel.as_deref().unwrap_or(""), thread, by_frames),
    }
}

/// The freezer of cgroups, a debugger, a stop signal.
fn is_frozen(channel: &str) -> bool {
    ["do_freezer_trap", "__refrigerator", "ptrace_stop", "do_signal_stop", "get_signal"].contains(&channel)
}

fn in_syscall(
    number: i64,
    thread: &RawThread,
    uninterruptible: bool,
    by_frames: &mut dyn FnMut() -> Option<ThreadState>,
) -> ThreadState {
    // Reading a file waits uninterruptibly (D), reading a socket or a pipe does not (S).
    let file_or_peer = |file| if uninterruptible { file } else { ThreadState::NetworkIdle };
    match number {
        libc::SYS_futex | SYS_FUTEX_WAITV | SYS_FUTEX_WAIT => on_futex(thread, by_frames),
        libc::SYS_restart_syscall if is_in_futex(thread.syscall, &thread.arguments) => {
            on_futex(thread, by_frames)
        }
        libc::SYS_read | libc::SYS_readv => file_or_peer(ThreadState::DiskRead),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile => file_or_peer(ThreadState::DiskWrite),
        libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 => ThreadState::DiskRead,
        libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_fallocate
        | libc::SYS_ftruncate
        | libc::SYS_unlinkat
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_io_submit => ThreadState::DiskWrite,
        libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync_file_range
        | libc::SYS_msync
        | libc::SYS_syncfs => ThreadState::Sync,
        libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_connect => ThreadState::NetworkIdle,
        // One descriptor is a peer; several are the first that comes.
        libc::SYS_ppoll if thread.arguments[1] <= 1 => ThreadState::NetworkIdle,
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait | SYS_EPOLL_PWAIT2 => ThreadState::Epoll,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => ThreadState::Sleep,
        // The thread that collects finished I/O waits for work; it does none itself. The same for signals.
        libc::SYS_io_getevents
        | SYS_IO_PGETEVENTS
        | SYS_IO_URING_ENTER
        | libc::SYS_rt_sigtimedwait
        | libc::SYS_wait4
        | libc::SYS_waitid => ThreadState::Condition,
        libc::SYS_flock | libc::SYS_semop | libc::SYS_semtimedop => ThreadState::Lock,
        libc::SYS_fcntl if F_SETLKW.contains(&thread.arguments[1]) => ThreadState::Lock,
        libc::SYS_sched_yield => ThreadState::Runnable,
        // Work on a file's name, its size or its end is the file system's: uninterruptible while its device or its server does not answer,
        // or while another thread has the folder.
        libc::SYS_openat
        | libc::SYS_newfstatat
        | libc::SYS_fstat
        | libc::SYS_statx
        | libc::SYS_statfs
        | libc::SYS_fstatfs
        | libc::SYS_faccessat
        | libc::SYS_readlinkat
        | libc::SYS_getdents64
        | libc::SYS_lseek
            if uninterruptible =>
        {
            ThreadState::DiskRead
        }
        libc::SYS_close
        | libc::SYS_truncate
        | libc::SYS_linkat
        | libc::SYS_symlinkat
        | libc::SYS_mkdirat
        | libc::SYS_copy_file_range
            if uninterruptible =>
        {
            ThreadState::DiskWrite
        }
        _ => in_old_syscall(number, thread),
    }
}

/// Calls that x86-64 has and aarch64 never had.
#[cfg(target_arch = "x86_64")]
fn in_old_syscall(number: i64, thread: &RawThread) -> ThreadState {
    match number {
        libc::SYS_poll if thread.arguments[1] <= 1 => ThreadState::NetworkIdle,
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => ThreadState::Epoll,
        libc::SYS_unlink | libc::SYS_rename => ThreadState::DiskWrite,
        libc::SYS_open | libc::SYS_stat | libc::SYS_lstat | libc::SYS_access if thread.state == 'D' => {
            ThreadState::DiskRead
        }
        libc::SYS_mkdir | libc::SYS_rmdir if thread.state == 'D' => ThreadState::DiskWrite,
        libc::SYS_pause => ThreadState::Sleep,
        _ => ThreadState::Blocked,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn in_old_syscall(_number: i64, _thread: &RawThread) -> ThreadState {
    ThreadState::Blocked
}

/// `F_SETLKW` and `F_OFD_SETLKW`, from `asm-generic/fcntl.h`.
const F_SETLKW: [u64; 2] = [7, 38];

// The same on both architectures, from `asm-generic/unistd.h` on: all calls since number 424 are.
const SYS_IO_URING_ENTER: i64 = 426;
const SYS_EPOLL_PWAIT2: i64 = 441;
const SYS_FUTEX_WAITV: i64 = 449;
const SYS_FUTEX_WAIT: i64 = 455;
#[cfg(target_arch = "x86_64")]
const SYS_IO_PGETEVENTS: i64 = 333;
#[cfg(not(target_arch = "x86_64"))]
const SYS_IO_PGETEVENTS: i64 = 292;

/// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2` and the bits beside the command, from `linux/futex.h`.
mod futex {
    pub(super) const WAIT: u64 = 0;
    pub(super) const LOCK_PI: u64 = 6;
    pub(super) const WAIT_BITSET: u64 = 9;
    pub(super) const LOCK_PI2: u64 = 13;
    pub(super) const COMMAND: u64 = 0x7f;
    pub(super) const PRIVATE: u64 = 0x80;
}

/// True for a thread in futex(2) with these arguments, also where a stop, a debugger or the freezer interrupted a wait
/// with a time limit: the kernel goes on with it as `restart_syscall`, with the arguments in the same registers. Nothing
/// else that is gone on with so has a private wait for its second argument.
pub(crate) fn is_in_futex(syscall: Option<u64>, arguments: &[u64; 3]) -> bool {
    let command = arguments[1] & futex::COMMAND;
    match syscall.and_then(|number| i64::try_from(number).ok()) {
        Some(libc::SYS_futex) => true,
        Some(libc::SYS_restart_syscall) => {
            arguments[1] & futex::PRIVATE != 0 && [futex::WAIT, futex::WAIT_BITSET].contains(&command)
        }
        _ => false,
    }
}

fn on_futex(thread: &RawThread, by_frames: &mut dyn FnMut() -> Option<ThreadState>) -> ThreadState {
    if let Some(state) = by_frames() {
        return state;
    }
    let [_, operation, expected] = thread.arguments;
    match operation & futex::COMMAND {
        futex::LOCK_PI | futex::LOCK_PI2 => ThreadState::Lock,
        // A mutex that somebody waits for holds 2, in glibc (`lowlevellock.h`) as in musl's and Rust's. Its condition
        // variables wait by FUTEX_WAIT_BITSET.
        futex::WAIT if expected == 2 && thread.syscall.is_some() => ThreadState::Lock,
        _ => ThreadState::Futex,
    }
}

/// What a blocked thread waits for, by the names of its frames: by the program's own functions, then by libc's.
pub fn state_by_frames(frames: &[&str], program: &FrameStates) -> Option<ThreadState> {
    let of_program = || {
        frames.iter().find_map(|frame| {
            program.iter().find(|(function, _)| is_call_of(frame, function)).map(|&(_, state)| state)
        })
    };
    let of_libc = || {
        frames.iter().take(LIBC_FRAMES).find_map(|frame| {
            let name = frame.trim_start_matches('_');
            let name = name.strip_prefix("GI_").unwrap_or(name).trim_start_matches('_');
            LIBC.iter().find(|(begin, _)| name.starts_with(begin)).map(|&(_, state)| state)
        })
    };
    of_program().or_else(of_libc)
}

/// Whether a frame is in a function: the same name, but for arguments, template arguments and the version of a symbol.
fn is_call_of(frame: &str, function: &str) -> bool {
    frame
        .strip_prefix(function)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '<', '@', '.', '[']))
}

/// Where no system call is known: a page fault, or a source that does not know it. The names are functions of the
/// kernel.
fn in_channel(
    channel: &str,
    thread: &RawThread,
    by_frames: &mut dyn FnMut() -> Option<ThreadState>,
) -> ThreadState {
    match channel {
        "futex_wait_queue" | "futex_wait_queue_me" | "futex_do_wait" | "futex_wait" => {
            on_futex(thread, by_frames)
        }
        "ep_poll" | "do_epoll_wait" | "do_select" => ThreadState::Epoll,
        "poll_schedule_timeout"
        | "do_sys_poll"
        | "do_poll"
        | "wait_woken"
        | "sk_wait_data"
        | "unix_stream_read_generic"
        | "unix_stream_data_wait"
        | "inet_csk_accept"
        | "pipe_read"
        | "unix_wait_for_peer" => ThreadState::NetworkIdle,
        "hrtimer_nanosleep" | "do_nanosleep" => ThreadState::Sleep,
        "read_events" | "do_sigtimedwait" | "do_wait" => ThreadState::Condition,
        "jbd2_log_wait_commit" | "ext4_sync_file" | "xlog_wait_on_iclog" | "blkdev_issue_flush" => {
            ThreadState::Sync
        }
        // A page that is not in memory: of a file that is mapped, or of swapped memory.
        "folio_wait_bit_common"
        | "wait_on_page_bit_common"
        | "wait_on_page_bit"
        | "io_schedule"
        | "__lock_page_or_retry"
        | "swap_readpage" => ThreadState::DiskRead,
        _ if thread.state == 'S' => by_frames().unwrap_or(ThreadState::Blocked),
        _ => ThreadState::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &FrameStates = &[("MDL_wait::timed_wait", ThreadState::Lock)];

    fn thread(state: char, syscall: i64, arguments: [u64; 3]) -> RawThread {
        RawThread { state, syscall: u64::try_from(syscall).ok(), arguments, ..RawThread::default() }
    }

    fn state(thread: &RawThread, frames: &[&str]) -> ThreadState {
        classify(thread, &mut || state_by_frames(frames, PROGRAM))
    }

    #[test]
    fn a_thread_on_a_cpu_runs_whatever_call_it_was_in_last() {
        let on_cpu = RawThread { on_cpu: true, ..thread('R', libc::SYS_futex, [0; 3]) };
        assert_eq!(state(&on_cpu, &[]), ThreadState::Running);
        assert_eq!(state(&thread('R', libc::SYS_futex, [0; 3]), &[]), ThreadState::Runnable);
    }

    #[test]
    fn a_stopped_or_frozen_thread_is_stopped_whatever_it_waits_for() {
        assert_eq!(state(&thread('T', libc::SYS_ppoll, [0; 3]), &[]), ThreadState::Stopped);
        assert_eq!(state(&thread('t', libc::SYS_ppoll, [0; 3]), &[]), ThreadState::Stopped);
        let frozen = RawThread {
            wait_channel: Some("do_freezer_trap".to_owned()),
            ..thread('S', libc::SYS_futex, [0; 3])
        };
        assert_eq!(state(&frozen, &[]), ThreadState::Stopped);
    }

    #[test]
    fn a_futex_is_a_mutex_or_a_condition_by_libc_s_frames() {
        let futex = thread('S', libc::SYS_futex, [0x7f00, 0x189, 0]);
        let cases: &[(&[&str], ThreadState)] = &[
            (&["libc.so.6+0x85d36", "pthread_cond_wait@@GLIBC_2.3.2", "worker"], ThreadState::Condition),
            (&["__futex_abstimed_wait_common", "___pthread_cond_timedwait64", "f"], ThreadState::Condition),
            (&["__lll_lock_wait", "___pthread_mutex_lock", "f"], ThreadState::Lock),
            (&["libc.so.6+0x86fa0", "__GI___pthread_rwlock_wrlock", "f"], ThreadState::Lock),
            (&["syscall", "srw_lock_low::wait"], ThreadState::Futex),
            (&[], ThreadState::Futex),
        ];
        for (frames, expected) in cases {
            assert_eq!(state(&futex, frames), *expected, "{frames:?}");
        }
    }

    #[test]
    fn the_program_s_own_table_comes_before_libc_s() {
        let futex = thread('S', libc::SYS_futex, [0x7f00, 0x189, 0]);
        let frames = ["pthread_cond_timedwait", "MDL_wait::timed_wait(MDL_context_owner*)", "open_table"];
        assert_eq!(state(&futex, &frames), ThreadState::Lock);
        let frames = ["pthread_cond_timedwait", "MDL_wait::timed_waiting", "open_table"];
        assert_eq!(state(&futex, &frames), ThreadState::Condition);
    }

    #[test]
    fn a_contended_mutex_is_named_without_names_by_the_value_it_waits_for() {
        assert_eq!(state(&thread('S', libc::SYS_futex, [0x7f00, 0x80, 2]), &[]), ThreadState::Lock);
        assert_eq!(state(&thread('S', libc::SYS_futex, [0x7f00, 0x80, 7]), &[]), ThreadState::Futex);
        assert_eq!(state(&thread('S', libc::SYS_futex, [0x7f00, 0x86, 0]), &[]), ThreadState::Lock);
    }

    #[test]
    fn a_futex_wait_that_was_interrupted_and_goes_on_is_one_still() {
        let goes_on = |operation| thread('S', libc::SYS_restart_syscall, [0x7f00, operation, 0]);
        assert_eq!(state(&goes_on(0x189), &["pthread_cond_timedwait"]), ThreadState::Condition);
        assert_eq!(state(&goes_on(1), &["poll"]), ThreadState::Blocked);
    }

    #[test]
    fn reading_waits_for_a_disk_uninterruptibly_and_for_a_peer_interruptibly() {
        assert_eq!(state(&thread('D', libc::SYS_read, [3, 0, 0]), &[]), ThreadState::DiskRead);
        assert_eq!(state(&thread('S', libc::SYS_read, [3, 0, 0]), &[]), ThreadState::NetworkIdle);
        assert_eq!(state(&thread('S', libc::SYS_recvfrom, [3, 0, 0]), &[]), ThreadState::NetworkIdle);
        assert_eq!(state(&thread('D', libc::SYS_pread64, [3, 0, 0]), &[]), ThreadState::DiskRead);
        assert_eq!(state(&thread('D', libc::SYS_write, [3, 0, 0]), &[]), ThreadState::DiskWrite);
        assert_eq!(state(&thread('D', libc::SYS_fdatasync, [3, 0, 0]), &[]), ThreadState::Sync);
    }

    /// As on a network file system that is gone: the first that stands is often the one that opens a file.
    #[test]
    fn a_file_system_that_does_not_answer_is_waited_for_uninterruptibly_whatever_it_is_asked() {
        for call in [libc::SYS_openat, libc::SYS_newfstatat, libc::SYS_getdents64, libc::SYS_lseek] {
            assert_eq!(state(&thread('D', call, [3, 0, 0]), &["openat"]), ThreadState::DiskRead, "{call}");
            assert_eq!(state(&thread('S', call, [3, 0, 0]), &["openat"]), ThreadState::Blocked, "{call}");
        }
        for call in [libc::SYS_close, libc::SYS_mkdirat, libc::SYS_copy_file_range] {
            assert_eq!(state(&thread('D', call, [3, 0, 0]), &["close"]), ThreadState::DiskWrite, "{call}");
        }
        // Who maps memory waits for a lock of the process.
        assert_eq!(
            state(&thread('D', libc::SYS_munmap, [0x7f00, 4096, 0]), &["munmap"]),
            ThreadState::Blocked
        );
    }

    #[test]
    fn polling_one_descriptor_is_waiting_for_a_client_and_polling_many_is_not() {
        assert_eq!(state(&thread('S', libc::SYS_ppoll, [0x7f00, 1, 0]), &[]), ThreadState::NetworkIdle);
        assert_eq!(state(&thread('S', libc::SYS_ppoll, [0x7f00, 3, 0]), &[]), ThreadState::Epoll);
        assert_eq!(state(&thread('S', libc::SYS_epoll_pwait, [5, 0, 0]), &[]), ThreadState::Epoll);
        assert_eq!(state(&thread('S', libc::SYS_clock_nanosleep, [0; 3]), &[]), ThreadState::Sleep);
        assert_eq!(state(&thread('S', libc::SYS_io_getevents, [0; 3]), &[]), ThreadState::Condition);
    }

    #[test]
    fn a_page_fault_is_known_by_the_wait_channel() {
        let fault = |channel: &str| RawThread {
            state: 'D',
            wait_channel: Some(channel.to_owned()),
            ..RawThread::default()
        };
        assert_eq!(state(&fault("folio_wait_bit_common"), &["row_search_mvcc"]), ThreadState::DiskRead);
        assert_eq!(state(&fault("rwsem_down_read_slowpath"), &["pthread_mutex_lock"]), ThreadState::Blocked);
    }
}
