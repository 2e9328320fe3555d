//! The CPU time of a process: of one that runs, and of a child that has ended.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Pid;

/// The CPU time of a process so far.
#[expect(unsafe_code, reason = "rustix knows no clocks of another process's CPU time")]
pub(crate) fn so_far(pid: Pid) -> anyhow::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes one number to `clock`.
    let error = unsafe { libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &raw mut clock) };
    ensure!(error == 0, "could not find the clock of spindoctor's CPU time");
    // SAFETY: the kernel writes one time to `now`.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) } != 0;
    ensure!(!failed, "could not read the clock of spindoctor's CPU time");
    Ok(Duration::new(now.tv_sec.try_into()?, now.tv_nsec.try_into()?))
}

/// Waits for a child's end: how it ended, and its CPU time, with that of the children that it has waited for itself.
#[expect(unsafe_code, reason = "rustix gives no CPU time of a child that has ended")]
pub(crate) fn until_end(child: Child) -> anyhow::Result<(ExitStatus, Duration)> {
    let pid = libc::pid_t::try_from(child.id())?;
    // Nobody else waits for it.
    drop(child);
    let mut status = 0;
    // SAFETY: it holds numbers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the kernel writes one status and one usage.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("could not wait for spindoctor");
        }
    }
    Ok((ExitStatus::from_raw(status), duration(usage.ru_utime)? + duration(usage.ru_stime)?))
}

fn duration(time: libc::timeval) -> anyhow::Result<Duration> {
    Ok(Duration::from_secs(time.tv_sec.try_into()?) + Duration::from_micros(time.tv_usec.try_into()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_has_ended_leaves_its_status_and_its_cpu_time() {
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 3";
        let (status, cpu) = until_end(Command::new("sh").args(["-c", busy]).spawn().unwrap()).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(cpu > Duration::ZERO);
        let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(so_far(own).unwrap() > Duration::ZERO);
    }
}
