//! Cycles and instructions of a process, counted by its CPUs: how many cycles a query costs, and how many an instruction.
//!
//! In: a process. Out: [`CycleCount`], as often as somebody asks. Nothing is sampled and no thread is interrupted: the
//! kernel reads two counters at each context switch of the process, less than a microsecond.
//!
//! A counter belongs to a thread and those that it begins (`inherit`), so that each thread that is there at the start has a
//! pair of its own. The other way, a counter for each CPU, would count every program of the machine.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use perf_event_open_sys::bindings::{self, perf_event_attr};
use spindoctor_model::stack::CycleCount;

use super::cpu::{open_event, setting};
use crate::error::{Error, Result};

/// Threads that are counted: each needs two file descriptors. A server with more has as many connections.
const MOST_THREADS: usize = 1_000;
/// Between two looks at the list a thread may have begun others before it was counted; three looks without an end are a server
/// that begins threads as fast as they are listed.
const LOOKS: usize = 3;

/// What a counter counts: its type and number, as perf_event_open(2) has them.
type Event = (u32, u64);
const CYCLES: Event = (bindings::PERF_TYPE_HARDWARE, bindings::PERF_COUNT_HW_CPU_CYCLES as u64);
const INSTRUCTIONS: Event = (bindings::PERF_TYPE_HARDWARE, bindings::PERF_COUNT_HW_INSTRUCTIONS as u64);

/// Counts until it is dropped.
#[derive(Debug)]
pub struct CycleCounter {
    pairs: Vec<[OwnedFd; 2]>,
    begun: Instant,
}

impl CycleCounter {
    /// Begins to count what a process does.
    ///
    /// # Errors
    /// Where the CPU, the hypervisor or the kernel lets nobody count, and where there are too many threads; the error
    /// says what would change that.
    pub fn start(pid: u32) -> Result<Self> {
        Self::start_with(pid, [CYCLES, INSTRUCTIONS])
    }

    fn start_with(pid: u32, events: [Event; 2]) -> Result<Self> {
        let begun = Instant::now();
        let mut counted = BTreeSet::new();
        let mut pairs = Vec::new();
        for _ in 0..LOOKS {
            let fresh: Vec<u32> = threads(pid)?.into_iter().filter(|tid| !counted.contains(tid)).collect();
            if fresh.is_empty() {
                break;
            }
            if counted.len() + fresh.len() > MOST_THREADS {
                return Err(unavailable(
                    format!(
                        "the process has more than {MOST_THREADS} threads, each of which needs a counter"
                    ),
                    "measure with fewer connections",
                ));
            }
            for tid in fresh {
                counted.insert(tid);
                match open_pair(tid, events) {
                    Ok(pair) => pairs.push(pair),
                    // It ended meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(refused(&error)),
                }
            }
        }
        Ok(Self { pairs, begun })
    }

    /// What was counted so far. Where more is counted on a machine than its CPUs have counters for, the kernel takes
    /// turns, and the counts are what they would be without (as `perf stat` has it).
    ///
    /// # Errors
    /// A counter cannot be read.
    pub fn read(&self) -> Result<CycleCount> {
        let mut sums = [0.0; 2];
        for pair in &self.pairs {
            for (sum, event) in sums.iter_mut().zip(pair) {
                *sum += read(event).map_err(|error| refused(&error))?;
            }
        }
        let [cycles, instructions] = sums.map(|sum| sum as u64);
        Ok(CycleCount { seconds: self.begun.elapsed().as_secs_f64(), cycles, instructions })
    }
}

fn threads(pid: u32) -> Result<Vec<u32>> {
    let path = std::path::PathBuf::from(format!("/proc/{pid}/task"));
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NoProcess(pid)),
        Err(error) => return Err(Error::File { path, error }),
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn open_pair(tid: u32, events: [Event; 2]) -> io::Result<[OwnedFd; 2]> {
    let [one, two] = events.map(|event| open(tid, event));
    Ok([one?, two?])
}

fn open(tid: u32, (kind, config): Event) -> io::Result<OwnedFd> {
    let mut attributes = perf_event_attr::default();
    attributes.size = size_of::<perf_event_attr>() as u32;
    (attributes.type_, attributes.config) = (kind, config);
    attributes.read_format =
        u64::from(bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING);
    attributes.set_inherit(1);
    attributes.set_exclude_hv(1);
    open_event(&mut attributes, i32::try_from(tid).map_err(io::Error::other)?, -1)
}

/// A counter's value: what it counted, by the share of the time that it had a place on a CPU.
fn read(event: &OwnedFd) -> io::Result<f64> {
    // struct read_format { u64 value; u64 time_enabled; u64 time_running; }
    let mut bytes = [0; 24];
    let length = rustix::io::read(event, &mut bytes)?;
    if length != bytes.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a counter has no value"));
    }
    let [value, enabled, running] =
        [0, 8, 16].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes")));
    Ok(scaled(value, enabled, running))
}

fn scaled(value: u64, enabled: u64, running: u64) -> f64 {
    match running {
        0 => 0.0,
        running => value as f64 * (enabled as f64 / running as f64).max(1.0),
    }
}

fn unavailable(because: String, unlock: &str) -> Error {
    Error::Unavailable { source_name: "cycles", because, unlock: unlock.to_owned() }
}

fn refused(error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => unavailable(
            "the kernel has no hardware counters here".to_owned(),
            "on a virtual machine, have the hypervisor give it a PMU",
        ),
        Some(libc::EACCES | libc::EPERM) => unavailable(
            format!(
                "the kernel lets only the privileged count (kernel.perf_event_paranoid is {})",
                setting("perf_event_paranoid")
            ),
            "run as root, grant CAP_PERFMON and CAP_SYS_PTRACE, or set kernel.perf_event_paranoid to 1",
        ),
        Some(libc::EMFILE | libc::ENFILE) => unavailable(
            "it needs two file descriptors for each thread".to_owned(),
            "raise the limit on open files (ulimit -n)",
        ),
        _ => unavailable(
            format!("perf_event_open failed: {error}"),
            "use a kernel with CONFIG_PERF_EVENTS, outside of a sandbox",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Nanoseconds on a CPU, which every kernel counts.
    const CPU_TIME: Event = (bindings::PERF_TYPE_SOFTWARE, bindings::PERF_COUNT_SW_TASK_CLOCK as u64);

    fn burn(time: Duration) {
        let begun = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let spent = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            (now.tv_sec - begun.tv_sec) as f64 + (now.tv_nsec - begun.tv_nsec) as f64 / 1e9
        };
        while spent() < time.as_secs_f64() {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_threads_do_that_were_there_and_that_came_later_is_counted() {
        let (go, wait) = mpsc::channel::<()>();
        let there = std::thread::spawn(move || {
            wait.recv().unwrap();
            burn(Duration::from_millis(150));
        });
        let counter = match CycleCounter::start_with(std::process::id(), [CPU_TIME, CPU_TIME]) {
            Ok(counter) => counter,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        let before = counter.read().unwrap();
        go.send(()).unwrap();
        std::thread::spawn(|| burn(Duration::from_millis(250))).join().unwrap();
        there.join().unwrap();
        let after = counter.read().unwrap();
        let ns = after.cycles - before.cycles;
        assert!((390_000_000..600_000_000).contains(&ns), "{ns} ns");
        assert!(after.instructions.abs_diff(after.cycles) < 20_000_000, "{after:?}");
        assert!(after.seconds > before.seconds);
    }

    #[test]
    fn cycles_are_counted_or_it_is_said_why_not() {
        match CycleCounter::start(std::process::id()) {
            Ok(counter) => {
                let before = counter.read().unwrap();
                burn(Duration::from_millis(50));
                let after = counter.read().unwrap();
                // From 0.2 to 10 GHz.
                assert!((10_000_000..500_000_000).contains(&(after.cycles - before.cycles)), "{after:?}");
            }
            Err(error) => {
                let why = error.to_string();
                assert!(why.starts_with("the cycles source cannot be used: ") && why.contains("; "), "{why}");
            }
        }
    }

    #[test]
    fn a_counter_that_took_turns_is_scaled_and_one_that_had_no_turn_is_zero() {
        assert_eq!([scaled(10, 100, 50), scaled(10, 100, 100), scaled(0, 100, 0)], [20.0, 10.0, 0.0]);
    }

    #[test]
    fn a_refusal_says_what_would_change_it() {
        let message = |code| refused(&io::Error::from_raw_os_error(code)).to_string();
        assert!(message(libc::ENOENT).contains("have the hypervisor give it a PMU"));
        assert!(message(libc::EACCES).contains("CAP_PERFMON"));
        assert!(message(libc::EMFILE).contains("ulimit -n"));
        assert!(matches!(CycleCounter::start(u32::MAX / 4), Err(Error::NoProcess(_))));
    }
}
