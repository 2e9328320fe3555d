//! A program that can be halted and resumed within a millisecond, any number of times.
//!
//! What a program costs a server is lost in a shared machine's noise where the windows with it and without it lie many
//! seconds apart: such a machine drifts within seconds. Starting the program for each window takes longer than that,
//! and its start costs more than its running. So it runs on, and is halted: its threads by SIGSTOP, and the kernel's
//! CPU samples for it by disabling its perf events, which the kernel would take all the same.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use anyhow::Context as _;
use rustix::ioctl::{NoArg, ioctl, opcode};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};

use crate::cpu_time;

/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_DISABLE` of linux/perf_event.h.
const ENABLE: rustix::ioctl::Opcode = opcode::none(b'$', 0);
const DISABLE: rustix::ioctl::Opcode = opcode::none(b'$', 1);

/// A program that runs until this is dropped.
pub(crate) struct Halting {
    child: Child,
    pid: Pid,
    /// Its perf events, as descriptors of our own.
    perf_events: Vec<OwnedFd>,
}

impl Halting {
    /// This child. It must have opened its perf events by now.
    pub(crate) fn new(child: Child) -> anyhow::Result<Self> {
        let pid = Pid::from_child(&child);
        let perf_events = perf_events(pid)?;
        Ok(Self { child, pid, perf_events })
    }

    /// From now on it does nothing, and the kernel does nothing for it.
    pub(crate) fn halt(&self) -> anyhow::Result<()> {
        kill_process(self.pid, Signal::STOP).context("could not halt spindoctor")?;
        self.perf_events.iter().try_for_each(control::<DISABLE>)
    }

    /// It goes on.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        self.perf_events.iter().try_for_each(control::<ENABLE>)?;
        kill_process(self.pid, Signal::CONT).context("could not let spindoctor go on")
    }

    /// Its CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_time::so_far(self.pid)
    }
}

impl Drop for Halting {
    fn drop(&mut self) {
        // It has nothing to save, and nothing to put back.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

fn perf_events(pid: Pid) -> anyhow::Result<Vec<OwnedFd>> {
    let handle = pidfd_open(pid, PidfdFlags::empty()).context("spindoctor has ended")?;
    let mut events = Vec::new();
    for entry in fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))? {
        let entry = entry?;
        let is_perf_event =
            fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[perf_event]");
        if is_perf_event {
            let number = entry.file_name().to_string_lossy().parse()?;
            events.push(pidfd_getfd(&handle, number, PidfdGetfdFlags::empty())?);
        }
    }
    Ok(events)
}

#[expect(unsafe_code, reason = "ioctl(2) has no safe wrapper for perf events")]
fn control<const OPCODE: rustix::ioctl::Opcode>(event: &OwnedFd) -> anyhow::Result<()> {
    // SAFETY: both operations take no argument and touch no memory of ours.
    unsafe { ioctl(event, NoArg::<OPCODE>::new()) }.context("could not halt spindoctor's perf events")
}
