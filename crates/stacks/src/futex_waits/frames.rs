//! The lock that a futex belongs to, by the frames of the thread that waits on it: pure.
//!
//! A futex is a word in memory, and nothing in it says what it is for. The functions of the C library that wait on it
//! show that: `pthread_mutex_lock` waits on a mutex, `__lll_lock_wait_private` below `malloc` on a lock without an
//! owner.

use spindoctor_model::wait_graph::FutexKind;

/// A frame of a waiting thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitingFrame<'a> {
    /// The function's name, or `libc.so.6+0x85d36`.
    pub name: &'a str,
    /// The name of the file that it lies in, without its folders; empty where none is known.
    pub module: &'a str,
}

/// How a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting<'a> {
    pub(super) kind: FutexKind,
    /// The innermost function that is not the C library's; empty where there is none.
    pub(super) asked_by: &'a str,
    /// True where the C library is musl.
    pub(super) is_musl: bool,
}

/// What a thread waits for in a function of the C library, by how the name begins without its leading underscores. The
/// innermost that is here decides. `__pthread_mutex_cond_lock`, below `pthread_cond_wait`, is one of a mutex.
const WAITS_IN: [(&str, FutexKind); 7] = [
    // With constant `private`: the locks of malloc, stdio and threads, which are one word without an owner.
    ("lll_lock_wait_private", FutexKind::Unknown),
    ("pthread_mutex_", FutexKind::Mutex),
    ("pthread_rwlock_", FutexKind::RwLock),
    ("pthread_cond_", FutexKind::Condition),
    ("pthread_", FutexKind::Unknown),
    ("sem_", FutexKind::Unknown),
    ("new_sem_", FutexKind::Unknown),
];

/// The functions below `pthread_mutex_lock`, of glibc of all ages. Where the next frame has no name, they are enough:
/// nothing else but the mutex waits in them.
const BELOW_MUTEX: [&str; 3] = ["lll_lock_wait", "lll_timedlock_wait", "lll_clocklock_wait"];

/// Files of the C library, of the C++ library that wraps it, and of the loader, by how their names begin.
const RUNTIME_FILES: [&str; 9] =
    ["libc.so.", "libc-2.", "libpthread", "ld-linux", "ld-2.", "ld-musl", "libc.musl", "libstdc++", "libc++"];

/// Their functions, where they are linked into the program, by how the names begin without leading underscores.
const RUNTIME_FUNCTIONS: [&str; 10] = [
    "futex_",
    "lll_",
    "L_lock_",
    "pthread_",
    "sem_",
    "new_sem_",
    "syscall",
    "timedwait",
    "gthread_",
    "std::",
];

/// From `linux/futex.h`.
const FUTEX_WAIT: u64 = 0;
const FUTEX_COMMAND: u64 = 0x7f;

impl<'a> Waiting<'a> {
    pub(super) fn by(frames: &[WaitingFrame<'a>]) -> Self {
        let is_runtime = |frame: &&WaitingFrame<'a>| {
            let of = |begins: &[&str], name: &str| begins.iter().any(|begin| name.starts_with(begin));
            of(&RUNTIME_FILES, frame.module) || of(&RUNTIME_FUNCTIONS, plain(frame.name))
        };
        let runtime = || frames.iter().take_while(is_runtime).map(|frame| plain(frame.name));
        let kind_by_name = runtime().find_map(|name| {
            WAITS_IN.iter().find(|(begin, _)| name.starts_with(begin)).map(|&(_, kind)| kind)
        });
        let is_below_mutex = || runtime().any(|name| BELOW_MUTEX.contains(&name));
        let kind = kind_by_name.unwrap_or_else(|| match is_below_mutex() {
            true => FutexKind::Mutex,
            false => FutexKind::Unknown,
        });
        let is_musl = frames.iter().take_while(is_runtime).any(|frame| {
            plain(frame.name).starts_with("timedwait")
                || ["ld-musl", "libc.musl"].iter().any(|begin| frame.module.starts_with(begin))
        });
        let asked_by = frames.iter().find(|frame| !is_runtime(frame)).map_or("", |frame| frame.name);
        Self { kind, asked_by, is_musl }
    }

    /// True for a thread that was woken from a condition variable and waits for its mutex, where the function in between
    /// has no name. glibc's locks wait by FUTEX_WAIT for a 2 to go (`lowlevellock.h`), its condition variables by
    /// FUTEX_WAIT_BITSET since 2.25. musl's wait for a 2.
    pub(super) fn is_mutex_again(&self, arguments: &[u64; 3]) -> bool {
        let [_, operation, expected] = *arguments;
        self.kind == FutexKind::Condition
            && !self.is_musl
            && (operation & FUTEX_COMMAND, expected) == (FUTEX_WAIT, 2)
    }
}

/// `___pthread_mutex_lock`, `__GI___lll_lock_wait` without what glibc puts in front.
fn plain(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    name.strip_prefix("GI_").unwrap_or(name).trim_start_matches('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of one file and then of `mysqld`, innermost first.
    fn waiting<'a>(module: &'a str, runtime: &[&'a str], program: &[&'a str]) -> Waiting<'a> {
        let of = |module, names: &[&'a str]| -> Vec<WaitingFrame<'a>> {
            names.iter().map(|&name| WaitingFrame { name, module }).collect()
        };
        Waiting::by(&[of(module, runtime), of("mysqld", program)].concat())
    }

    fn kind(module: &str, runtime: &[&str]) -> FutexKind {
        waiting(module, runtime, &["dispatch_command"]).kind
    }

    #[test]
    fn glibc_old_and_new_and_musl_say_by_their_functions_what_they_wait_on() {
        let cases: &[(&str, &[&str], FutexKind)] = &[
            // glibc 2.36 of Debian 12: what is local to it has no name.
            (
                "libc.so.6",
                &["libc.so.6+0x85d36", "libc.so.6+0x8c1a0", "___pthread_mutex_lock"],
                FutexKind::Mutex,
            ),
            ("libc.so.6", &["__futex_abstimed_wait_common", "pthread_rwlock_rdlock"], FutexKind::RwLock),
            (
                "libc.so.6",
                &["libc.so.6+0x85d36", "pthread_cond_timedwait@@GLIBC_2.3.2"],
                FutexKind::Condition,
            ),
            (
                "libc.so.6",
                &["__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait"],
                FutexKind::Mutex,
            ),
            // glibc 2.17 of CentOS 7.
            (
                "libpthread-2.17.so",
                &["__lll_lock_wait", "_L_lock_883", "pthread_mutex_lock"],
                FutexKind::Mutex,
            ),
            ("libpthread-2.17.so", &["__lll_lock_wait", "_L_lock_883"], FutexKind::Mutex),
            ("libpthread-2.17.so", &["pthread_rwlock_wrlock"], FutexKind::RwLock),
            ("ld-musl-x86_64.so.1", &["__timedwait", "__pthread_mutex_timedlock"], FutexKind::Mutex),
            ("", &["__timedwait_cp", "pthread_cond_timedwait"], FutexKind::Condition),
        ];
        for (module, frames, expected) in cases {
            assert_eq!(kind(module, frames), *expected, "{frames:?}");
        }
    }

    #[test]
    fn locks_without_an_owner_and_frames_without_a_name_are_unknown() {
        for frames in [
            &["__lll_lock_wait_private", "malloc"][..],
            &["__lll_lock_wait_private", "_IO_fputs", "pthread_mutex_lock"],
            &["libc.so.6+0x85d36", "libc.so.6+0x9a1c0"],
            &["__new_sem_wait_slow64", "pthread_mutex_lock"],
            &["__pthread_clockjoin_ex"],
            &["syscall"],
            &[],
        ] {
            assert_eq!(kind("libc.so.6", frames), FutexKind::Unknown, "{frames:?}");
        }
    }

    #[test]
    fn a_function_of_the_program_ends_what_the_c_library_says() {
        let waiting = waiting("libc.so.6", &["syscall"], &["srw_mutex_impl::wait", "pthread_mutex_lock"]);
        assert_eq!((waiting.kind, waiting.asked_by), (FutexKind::Unknown, "srw_mutex_impl::wait"));
    }

    #[test]
    fn who_asked_is_the_first_that_is_no_part_of_c_or_c_plus_plus() {
        let frames = ["__lll_lock_wait", "pthread_mutex_lock", "std::mutex::lock()"];
        assert_eq!(waiting("libc.so.6", &frames, &["Commit_stage_manager::enroll_for"]).asked_by, {
            "Commit_stage_manager::enroll_for"
        });
        assert_eq!(waiting("libc.so.6", &frames, &[]).asked_by, "");
    }

    #[test]
    fn a_nameless_wait_for_a_2_below_a_condition_is_for_its_mutex_but_not_in_musl() {
        let woken = waiting("libc.so.6", &["libc.so.6+0x85d36", "pthread_cond_wait"], &[]);
        assert!(woken.is_mutex_again(&[0x7f00, 0x80, 2]));
        assert!(!woken.is_mutex_again(&[0x7f00, 0x189, 2]));
        let musl = waiting("ld-musl-x86_64.so.1", &["pthread_cond_timedwait"], &[]);
        assert!(!musl.is_mutex_again(&[0x7f00, 0x80, 2]));
    }
}
