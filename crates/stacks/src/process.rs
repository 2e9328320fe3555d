//! The examined process: whether it exists, whether it may be examined, and its threads.
//!
//! In: a process id, as the profiler's pid namespace has it. Out: [`Process`], which knows when it has ended
//! even if its id has been given to another since.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::{Error, Result};

/// From elf.h: `e_ident[EI_CLASS]` of a 32-bit program.
const ELFCLASS32: u8 = 1;

/// From include/linux/sched.h: a thread of the kernel.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A running process of 64-bit code.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// Becomes readable when the process ends. None where the kernel has no pidfd (before 5.3).
    pidfd: Option<OwnedFd>,
    /// When it was started, in clock ticks since the system was: no other process has both this and its id.
    start_time: u64,
}

impl Process {
    /// Finds a process.
    ///
    /// # Errors
    /// Where there is none, and where nothing could come of looking at it: it has ended and waits for its
    /// parent, it is a thread of another process or of the kernel, or runs 32-bit code.
    pub fn open(pid: u32) -> Result<Self> {
        let refused = |because: &str| Error::NotProfilable { pid, because: because.to_owned() };
        let path = PathBuf::from(format!("/proc/{pid}/status"));
        let status = match std::fs::read(&path) {
            // A name may hold any byte.
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if is_gone(&error) => return Err(Error::NoProcess(pid)),
            Err(error) => return Err(Error::File { path, error }),
        };
        // Tgid:	4310
        if let Some(tgid) = status.lines().find_map(|line| line.strip_prefix("Tgid:"))
            && tgid.trim() != pid.to_string()
        {
            let tgid = tgid.trim();
            return Err(refused(&format!("it is a thread of {tgid}: give that id")));
        }
        let stat = ProcessStat::read(pid).ok_or(Error::NoProcess(pid))?;
        if stat.flags & PF_KTHREAD != 0 {
            return Err(refused("it is a thread of the kernel, with no stack of its own"));
        }
        if stat.has_ended() {
            return Err(refused("it has ended, and waits for its parent to notice"));
        }
        let mut ident = [0; 5];
        let read = File::open(format!("/proc/{pid}/exe")).and_then(|mut exe| exe.read_exact(&mut ident));
        if read.is_ok() && ident == [0x7f, b'E', b'L', b'F', ELFCLASS32] {
            return Err(refused("it runs 32-bit code, and only 64-bit code can be profiled"));
        }
        let process = Pid::from_raw(pid.cast_signed()).ok_or(Error::NoProcess(pid))?;
        let pidfd = match pidfd_open(process, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::SRCH) => return Err(Error::NoProcess(pid)),
            Err(_) => None,
        };
        Ok(Self { pid, pidfd, start_time: stat.start_time })
    }

    /// The process's id, in the profiler's pid namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// False once its last thread has ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        if let Some(pidfd) = &self.pidfd
            && let Ok(ready) = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&Timespec::default()))
        {
            return ready == 0;
        }
        ProcessStat::read(self.pid)
            .is_some_and(|stat| stat.start_time == self.start_time && !stat.has_ended())
    }

    /// The ids of its threads now, in the order of their start. Empty where it has ended.
    #[must_use]
    pub fn tasks(&self) -> Vec<u32> {
        tasks(self.pid)
    }
}

/// The ids of a process's threads now. Empty where it has ended.
pub(crate) fn tasks(pid: u32) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// True where a file of `/proc` cannot be read because the process or thread has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// What follows the name in a `stat` file, from the state on (field 3 of proc_pid_stat(5)).
///
/// `4310 (connection) S 1 4310 ...`: a name may hold blanks and brackets, so what counts is the last one.
pub(crate) fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
}

#[derive(Debug)]
struct ProcessStat {
    state: char,
    flags: u64,
    threads: u64,
    start_time: u64,
}

impl ProcessStat {
    fn read(pid: u32) -> Option<Self> {
        // Its first thread's: the kernel adds up the CPU time of all threads for the process's own `stat`, which takes a
        // tenth of a millisecond where there are a thousand.
        let stat = std::fs::read(format!("/proc/{pid}/task/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&stat))
    }

    fn parse(stat: &str) -> Option<Self> {
        let mut fields = after_name(stat);
        let state = fields.next()?.chars().next()?;
        let mut field = |skipped| fields.nth(skipped)?.parse::<u64>().ok();
        Some(Self {
            state,
            flags: field(5)?,      // 9
            threads: field(10)?,   // 20
            start_time: field(1)?, // 22
        })
    }

    /// The first thread may end before the others.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_holds() {
        // Linux 6.18, a process that calls itself ") S 1 (": flags 4194304, 3 threads, started at 8123.
        let stat = "77 () S 1 () R 1 77 77 0 -1 4194304 120 0 0 0 5 6 0 0 20 0 3 0 8123 2500000 300 1";
        let stat = ProcessStat::parse(stat).unwrap();
        assert_eq!((stat.state, stat.flags, stat.threads, stat.start_time), ('R', 4_194_304, 3, 8123));
        assert!(ProcessStat::parse("77 (x").is_none());
    }

    #[test]
    fn this_process_is_alive_and_a_kernel_thread_is_refused() {
        let process = Process::open(std::process::id()).unwrap();
        assert!(process.is_alive());
        assert!(process.tasks().contains(&rustix::thread::gettid().as_raw_pid().cast_unsigned()));
        let error = Process::open(2).unwrap_err().to_string();
        assert!(error.contains("kernel") || error.contains("no process 2"), "{error}");
        assert!(matches!(Process::open(0x7fff_fff0), Err(Error::NoProcess(_))));
    }
}
