//! The process as a whole: its identity, and the CPU time that it and the profiler used.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use spindoctor_model::stack::ProfiledProcess;

use crate::error::{Error, Result};

/// CPU time since the profile was begun.
#[derive(Debug)]
pub(super) struct ProcessTimes {
    pid: u32,
    own_begun_us: u64,
    begun: Stat,
    now: Stat,
}

/// Of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    ended: bool,
    /// In user and kernel mode, clock ticks.
    cpu_ticks: u64,
    /// Since the system's start, clock ticks: distinguishes two processes of one id.
    start_ticks: u64,
}

impl ProcessTimes {
    pub(super) fn begin(pid: u32) -> Result<Self> {
        let begun = match Stat::read(pid) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NoProcess(pid)),
            Err(error) => {
                return Err(Error::File { path: PathBuf::from(format!("/proc/{pid}/stat")), error });
            }
        };
        Ok(Self { pid, own_begun_us: own_cpu_us(), begun, now: begun })
    }

    /// Reads again; false where the process ended.
    pub(super) fn update(&mut self) -> bool {
        match Stat::read(self.pid) {
            Ok(now) if now.start_ticks == self.begun.start_ticks => {
                self.now = now;
                !now.ended
            }
            _ => false,
        }
    }

    pub(super) fn process_us(&self) -> u64 {
        let ticks = self.now.cpu_ticks.saturating_sub(self.begun.cpu_ticks);
        ticks * 1_000_000 / rustix::param::clock_ticks_per_second()
    }

    pub(super) fn own_us(&self) -> u64 {
        own_cpu_us().saturating_sub(self.own_begun_us)
    }
}

impl Stat {
    fn read(pid: u32) -> io::Result<Self> {
        let bytes = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&bytes))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no stat of a process"))
    }

    /// `4310 (mysqld) S 1 4310 4310 0 -1 4194560 81225 0 21 0 512 130 0 0 20 0 38 0 2711 ...`: fields are counted from
    /// the last bracket, as a name may hold brackets and blanks.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            cpu_ticks: number(14)? + number(15)?,
            start_ticks: number(22)?,
        })
    }
}

fn own_cpu_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1000
}

/// CPU time of this thread since its start.
pub(super) fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// Who it is, as far as it can be read.
pub(super) fn describe(pid: u32) -> ProfiledProcess {
    let program = fs::read_link(format!("/proc/{pid}/exe"))
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    ProfiledProcess { pid, name, program, ..ProfiledProcess::default() }
}

/// `comm` of a thread; empty where it ended.
pub(super) fn thread_name(pid: u32, tid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = "4310 (a) b (c)) S 1 4310 4310 0 -1 4194560 81225 0 21 0 512 130 0 0 20 0 38 0 2711 1 2 3";
        assert_eq!(Stat::parse(text), Some(Stat { ended: false, cpu_ticks: 642, start_ticks: 2711 }));
        assert_eq!(Stat::parse("4310 (mysqld"), None);
    }

    #[test]
    fn there_is_no_process_zero() {
        assert!(matches!(ProcessTimes::begin(0), Err(Error::NoProcess(0))));
    }
}
