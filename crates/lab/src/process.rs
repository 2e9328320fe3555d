//! Which process a number means: process ids are used again, so a process is known by its id, the
//! tick it started at and the boot that tick counts from.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use spindoctor_collect::host::process::{TaskStat, parse_task_stat};

use crate::error::{Error, Result};

/// A process, distinguished from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// Process id.
    pub(crate) pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    boot: String,
}

impl ProcessId {
    /// The running process with this id.
    pub(crate) fn from_pid(pid: u32) -> Result<Self> {
        let path = PathBuf::from(format!("/proc/{pid}/stat"));
        let stat = fs::read(&path).map_err(Error::file("read", &path))?;
        Self::parse(&String::from_utf8_lossy(&stat)).ok_or_else(|| Error::File {
            doing: "understand",
            path,
            error: std::io::ErrorKind::InvalidData.into(),
        })
    }

    /// The process of the lab itself.
    pub(crate) fn own() -> Result<Self> {
        Self::from_pid(std::process::id())
    }

    /// From the text of `/proc/PID/stat`, kept while it ran in this boot or an earlier one: the text
    /// itself does not name the boot, so it must be of this one.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        Self::of_stat(&parse_task_stat(stat)?)
    }

    /// True while the process runs (a zombie does not).
    pub(crate) fn runs(&self) -> bool {
        let Ok(stat) = fs::read(format!("/proc/{}/stat", self.pid)) else { return false };
        parse_task_stat(&String::from_utf8_lossy(&stat)).is_some_and(|stat| {
            !["Z", "X"].contains(&stat.state.as_str()) && Self::of_stat(&stat).as_ref() == Some(self)
        })
    }

    fn of_stat(stat: &TaskStat) -> Option<Self> {
        Some(Self { pid: stat.id, start_ticks: stat.started_ticks, boot: boot()? })
    }

    /// True where both are of one boot of the machine.
    pub(crate) fn same_boot(&self, other: &Self) -> bool {
        self.boot == other.boot
    }

    /// The program that the process runs, where the kernel says it.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.pid)).ok()
    }

    /// Sends SIGKILL if it still runs one of these programs, and waits until it is gone.
    ///
    /// True when it is gone. A process that runs something else is left alone, and counts as gone.
    pub(crate) fn kill(&self, programs: &[&Path], patience: Duration) -> bool {
        let start = Instant::now();
        while self.runs() {
            match self.program() {
                Some(program) if programs.contains(&program.as_path()) => signal(self.pid, Signal::KILL),
                Some(_) => return true,
                // It is ending: its program is gone before it is.
                None => {}
            }
            if start.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// Sends a signal; it is no error where the process is gone.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_not_taken_for_another_with_its_id() {
        let own = ProcessId::own().unwrap();
        assert!(own.runs());
        assert!(!ProcessId { start_ticks: own.start_ticks + 1, ..own.clone() }.runs());
        assert!(!ProcessId { boot: "another".into(), ..own }.runs());
    }

    #[test]
    fn only_a_process_that_runs_the_expected_program_is_killed() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let id = ProcessId::from_pid(child.id()).unwrap();
        let program = loop {
            // Between fork and exec the child still is this test.
            match id.program() {
                Some(program) if program.ends_with("sleep") || program.ends_with("coreutils") => {
                    break program;
                }
                _ => std::thread::yield_now(),
            }
        };
        assert!(id.kill(&[Path::new("/bin/other")], Duration::ZERO));
        assert!(child.try_wait().unwrap().is_none(), "it must still run");
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        assert!(id.kill(&[&program], Duration::from_secs(10)));
        assert!(!reaper.join().unwrap().success());
    }

    #[test]
    fn the_start_is_read_behind_a_name_with_brackets() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 10 11";
        let id = ProcessId::parse(stat).unwrap();
        assert_eq!((id.pid, id.start_ticks), (7, 4711));
    }
}
