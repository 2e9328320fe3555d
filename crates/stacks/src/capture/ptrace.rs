//! The `ptrace` source: stops one thread at a time, and records for how long. Used only when asked for by name.
//!
//! In: a process. Out: snapshots, of running threads too, with every register.
//!
//! No thread is left stopped. The kernel detaches from and resumes all that a tracer holds when that thread of ours
//! ends, by kill -9 too; a signal that was on its way is delivered. A process that was stopped before stays stopped. A
//! stop has one visible effect: a few system calls (`epoll_wait`, `poll` in old kernels) give EINTR.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::WaitOptions;
use spindoctor_model::stack::StackSource;

use super::procfs::{StackReader, look_without_stack, may_read};
use super::tracee::Tracee;
use super::{Capture, Looked, RawStack, RawThread};
use crate::error::{Error, Result};
use crate::process::Process;

/// For how long a thread is waited for. One that runs stops within microseconds; one that does not stop is
/// in a wait of the kernel that nothing interrupts.
const PATIENCE: Duration = Duration::from_millis(50);

/// From include/uapi/linux/ptrace.h: the stop is none of a signal that waits to be delivered.
const PTRACE_EVENT_STOP: i32 = 128;

/// The `ptrace` source.
#[derive(Debug)]
pub struct Ptrace {
    process: Process,
}

impl Ptrace {
    /// Looks whether the process may be traced.
    ///
    /// # Errors
    /// Where it may not, and what would change that.
    pub fn open(process: Process) -> Result<Self> {
        may_read(&process, "ptrace")?;
        match tracer(process.pid()) {
            Some(tracer) => Err(unavailable(format!("process {tracer} traces it already"))),
            None => Ok(Self { process }),
        }
    }
}

impl Capture for Ptrace {
    fn source(&self) -> StackSource {
        StackSource::Ptrace
    }

    fn look(&mut self, each: &mut dyn FnMut(&RawThread, &[u8])) -> Result<Looked> {
        let start = Instant::now();
        let pid = self.process.pid();
        if !self.process.is_alive() {
            return Err(Error::NoProcess(pid));
        }
        let tasks = self.process.tasks();
        let mut threads = Vec::with_capacity(tasks.len());
        let mut stacks = Vec::new();
        let mut left = tasks.as_slice();
        while !left.is_empty() {
            // The tracer is a thread of its own: when it ends, the kernel lets go of what it holds. It ends early
            // where a thread would not stop, so that this one is not stopped later, when nobody looks.
            let tracer = || trace(pid, left, &mut threads, &mut stacks);
            left = std::thread::scope(|scope| scope.spawn(tracer).join()).expect("the tracer does not panic");
        }
        if threads.is_empty() {
            return Err(Error::NoProcess(pid));
        }
        if threads.iter().all(|thread| matches!(thread.stack, RawStack::Unreadable(_)))
            && let Some(RawThread { stack: RawStack::Unreadable(because), .. }) = threads.first()
        {
            return Err(unavailable(because.clone()));
        }
        let looked = Looked { took: start.elapsed(), dropped: 0 };
        for thread in &threads {
            each(thread, &stacks);
        }
        Ok(looked)
    }
}

/// Looks at threads in turn. Gives those that are left when one would not stop.
fn trace<'a>(pid: u32, tasks: &'a [u32], threads: &mut Vec<RawThread>, stacks: &mut Vec<u8>) -> &'a [u32] {
    let mut reader = StackReader::new();
    for (place, &tid) in tasks.iter().enumerate() {
        let Some(mut thread) = look_without_stack(pid, tid) else {
            continue;
        };
        let mut stuck = false;
        match thread.state {
            'Z' | 'X' => thread.stack = unreadable("it has ended"),
            'D' => thread.stack = unreadable("it is in a wait of the kernel that nothing interrupts"),
            _ => match stop(tid) {
                Ok(stopped) => {
                    match stopped.tracee.registers() {
                        Ok((registers, thread_pointer)) => {
                            thread.thread_pointer = thread_pointer;
                            thread.stack = reader.read(tid, registers.sp, stacks);
                            thread.registers = Some(registers);
                        }
                        Err(error) => thread.stack = refused(&error),
                    }
                    thread.stopped = stopped.resume();
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::SRCH) => continue,
                    Some(Errno::TIMEDOUT) => {
                        thread.stack = unreadable("it did not stop in time");
                        stuck = true;
                    }
                    _ => thread.stack = refused(&error),
                },
            },
        }
        threads.push(thread);
        if stuck {
            return &tasks[place + 1..];
        }
    }
    &[]
}

fn unreadable(because: &str) -> RawStack {
    RawStack::Unreadable(because.to_owned())
}

fn refused(error: &io::Error) -> RawStack {
    RawStack::Unreadable(format!("the kernel refused: {error}"))
}

fn unavailable(because: String) -> Error {
    Error::Unavailable {
        source_name: "ptrace",
        because,
        unlock: "end the debugger or tracer that holds the process, or take the bpf or procfs source"
            .to_owned(),
    }
}

/// The process that traces a thread already.
fn tracer(tid: u32) -> Option<u32> {
    // `TracerPid: 4400` is the id of the thread that traces.
    let tracer = status_field(tid, "TracerPid:").filter(|&tid| tid != 0)?;
    status_field(tracer, "Tgid:").or(Some(tracer))
}

fn status_field(tid: u32, name: &str) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// A thread that is stopped, until this is dropped.
struct Stopped {
    tracee: Tracee,
    since: Instant,
    /// A signal that was about to be delivered when it stopped.
    signal: i32,
}

/// Stops a thread. `ETIMEDOUT`: it is traced, and did not stop.
fn stop(tid: u32) -> io::Result<Stopped> {
    let tracee = Tracee::seize(tid)?;
    let since = Instant::now();
    tracee.interrupt()?;
    loop {
        match tracee.wait(WaitOptions::NOHANG) {
            Ok(Some(status)) => {
                let Some(signal) = status.stopping_signal() else {
                    return Err(Errno::SRCH.into()); // it ended
                };
                let signal = match status.as_raw() >> 16 {
                    PTRACE_EVENT_STOP => 0,
                    _ => signal,
                };
                return Ok(Stopped { tracee, since, signal });
            }
            Ok(None) if since.elapsed() > PATIENCE => return Err(Errno::TIMEDOUT.into()),
            Ok(None) if since.elapsed() < Duration::from_micros(100) => std::thread::yield_now(),
            Ok(None) => std::thread::sleep(Duration::from_micros(50)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Errno::SRCH.into()),
        }
    }
}

impl Stopped {
    /// Lets it go on. Gives for how long it could not.
    fn resume(self) -> Duration {
        let since = self.since;
        drop(self);
        since.elapsed()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It fails only where the thread was killed meanwhile.
        let _killed = self.tracee.detach(self.signal);
    }
}
