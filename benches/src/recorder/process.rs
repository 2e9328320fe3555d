//! A program's use of CPU and memory, with all that it starts.

use std::collections::HashSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process_group};

/// A program that was asked to end ends within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A program and its children, ended when this is dropped.
pub(super) struct Process {
    child: Child,
}

/// What they took so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// CPU time of all of them, those that have ended included, seconds.
    pub(super) cpu_s: f64,
    /// What is resident now, MiB.
    pub(super) resident_mib: f64,
}

impl Process {
    /// Starts it in a process group of its own; what it prints goes nowhere.
    pub(super) fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().with_context(|| format!("could not run {command:?}"))?;
        Ok(Self { child })
    }

    /// What it took so far. An error where it has ended.
    pub(super) fn taken(&mut self) -> anyhow::Result<Taken> {
        ensure!(self.child.try_wait()?.is_none(), "it has ended by itself");
        let all: Vec<Stat> = fs::read_dir("/proc")?
            .filter_map(|entry| Stat::read(&entry.ok()?.file_name().to_string_lossy()))
            .collect();
        let mut family = HashSet::from([self.child.id()]);
        loop {
            let before = family.len();
            let children = all.iter().filter(|stat| family.contains(&stat.parent)).map(|stat| stat.pid);
            family.extend(children.collect::<Vec<_>>());
            if family.len() == before {
                break;
            }
        }
        let mut taken = Taken { cpu_s: 0.0, resident_mib: 0.0 };
        for stat in all.iter().filter(|stat| family.contains(&stat.pid)) {
            taken.cpu_s += stat.ticks as f64 / clock_ticks_per_second() as f64;
            taken.resident_mib += stat.resident_mib();
        }
        Ok(taken)
    }

    /// Asks it to end, and waits.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < ENDS_WITHIN, "it did not end");
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Stops it and all of its group, or resumes them.
    pub(super) fn halt(&self, halted: bool) {
        self.signal(if halted { Signal::STOP } else { Signal::CONT });
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // One that has ended needs no signal.
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _status = self.child.wait();
    }
}

/// A line of `/proc/PID/stat`.
struct Stat {
    pid: u32,
    parent: u32,
    /// CPU time, its own and that of the children that it has waited for.
    ticks: u64,
}

impl Stat {
    fn read(pid: &str) -> Option<Self> {
        let id = pid.parse().ok()?;
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // "4310 (a name) S 1 ...": the name may hold anything; utime, stime, cutime, cstime are fields 14 to 17.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
        Some(Self { pid: id, parent: number(4)?.try_into().ok()?, ticks })
    }

    fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        kib.unwrap_or(0.0) / 1024.0
    }
}
