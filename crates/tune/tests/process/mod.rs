//! Processes by their ids.

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal; to a process that is gone it is none.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, signal);
    }
}

/// The state of a process, as `/proc/PID/stat` has it; none where there is no such process.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// True while a process runs; a zombie does not.
pub(crate) fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}
