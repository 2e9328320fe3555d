//! A program that can be halted and let go on within a millisecond, as often as one likes.
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
use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use rustix::ioctl::{NoArg, ioctl, opcode};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

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
    pub(crate) fn of(child: Child) -> anyhow::Result<Self> {
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        let perf_events = perf_events(child.id())?;
        Ok(Self { child, pid, perf_events })
    }

    /// From now on it does nothing, and the kernel does nothing for it.
    pub(crate) fn halt(&self) -> anyhow::Result<()> {
        kill(self.pid, Signal::SIGSTOP).context("could not halt spindoctor")?;
        self.perf_events.iter().try_for_each(control::<DISABLE>)
    }

    /// It goes on.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        self.perf_events.iter().try_for_each(control::<ENABLE>)?;
        kill(self.pid, Signal::SIGCONT).context("could not let spindoctor go on")
    }

    /// Its CPU time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let clock =
            clock_getcpuclockid(self.pid).context("could not find the clock of spindoctor's CPU time")?;
        Ok(clock.now()?.into())
    }
}

impl Drop for Halting {
    fn drop(&mut self) {
        // It has nothing to save, and nothing to put back.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

fn perf_events(pid: u32) -> anyhow::Result<Vec<OwnedFd>> {
    let handle = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("no process id")?;
    let handle = pidfd_open(handle, PidfdFlags::empty()).context("spindoctor has ended")?;
    let mut events = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
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
