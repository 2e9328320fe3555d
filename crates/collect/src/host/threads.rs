//! `/proc/PID/task/TID/{stat,schedstat}`: what each thread of the server used, and how long it was
//! ready and waited for a CPU.

use std::path::Path;

use spindoctor_model::host::ThreadStat;
use spindoctor_model::{HostSample, Unavailable};

use super::kernel_file;
use super::process::parse_task_stat;
use super::source::{HostSource, Target, reading};
use crate::mysql::source::{Answer, Cadence};

/// The server's threads.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/task",
    help: "CPU time of each thread, and its time in the run queue",
    cost: "two small files a thread: 25 ms of one CPU for 1,000 threads, nearly all in the kernel",
    needs: "",
    cadence: Cadence::Ends,
    read,
};

/// Threads beyond these are not read: half a second of CPU is enough to ask for.
const MOST_THREADS: usize = 20_000;

fn read(target: &Target, sample: &mut HostSample, now: &dyn Fn() -> Answer) {
    sample.threads = reading(collect(target), now);
}

fn collect(target: &Target) -> Result<Vec<ThreadStat>, Unavailable> {
    let folder = target.process("task");
    let entries = std::fs::read_dir(&folder).map_err(|error| kernel_file::because(&folder, &error))?;
    // A thread that ended since the folder was listed is left out.
    Ok(entries.flatten().take(MOST_THREADS).filter_map(|entry| thread(&entry.path())).collect())
}

fn thread(folder: &Path) -> Option<ThreadStat> {
    let stat = parse_task_stat(&kernel_file::read(&folder.join("stat")).ok()?)?;
    let schedstat = kernel_file::read(&folder.join("schedstat")).ok().and_then(|text| parse_schedstat(&text));
    Some(ThreadStat {
        tid: stat.id,
        name: stat.name,
        state: stat.state,
        user_us: stat.user_us,
        system_us: stat.system_us,
        ran_ns: schedstat.map(|schedstat| schedstat.ran_ns),
        run_queue_ns: schedstat.map(|schedstat| schedstat.run_queue_ns),
    })
}

/// What `schedstat` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedStat {
    /// Time on a CPU, nanoseconds.
    pub ran_ns: u64,
    /// Time ready and not on a CPU, nanoseconds.
    pub run_queue_ns: u64,
}

/// Reads `411605849 93680043 79`: nanoseconds on a CPU, nanoseconds in the run queue, times it was
/// put on a CPU (Linux, Documentation/scheduler/sched-stats.rst).
///
/// None for `0 0 0`, which a kernel without these counters says: a thread that exists was put on a
/// CPU at least once.
pub fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
    let (ran_ns, run_queue_ns, turns) = (numbers.next()?, numbers.next()?, numbers.next()?);
    (ran_ns > 0 || turns > 0).then_some(SchedStat { ran_ns, run_queue_ns })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FIXTURES, never_panics};
    use super::*;

    fn prometheus(pid: u32) -> Target {
        let root = format!("{FIXTURES}/procfs/prometheus-procfs");
        Target { pid, proc: format!("{root}/proc").into(), sys: format!("{root}/sys").into() }
    }

    #[test]
    fn every_thread_of_a_process_is_read() {
        let mut threads = collect(&prometheus(27079)).unwrap();
        threads.sort_by_key(|thread| thread.tid);
        let tids: Vec<_> = threads.iter().map(|thread| thread.tid).collect();
        assert_eq!(tids, [27079, 27080, 27081, 27082, 27083]);
        // This tree has no schedstat.
        assert!(threads.iter().all(|thread| thread.run_queue_ns.is_none()));
    }

    #[test]
    fn run_queue_time_is_told_from_time_on_a_cpu() {
        let text = std::fs::read_to_string(prometheus(26231).process("schedstat")).unwrap();
        let expected = SchedStat { ran_ns: 411_605_849, run_queue_ns: 93_680_043 };
        assert_eq!(parse_schedstat(&text), Some(expected));
        assert_eq!(parse_schedstat("0 0 0\n"), None);
    }

    #[test]
    fn the_threads_of_this_process_are_read_by_name() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("a (b) c".into()).spawn(move || {
            ready.send(()).unwrap();
            ended.recv().unwrap_err();
        });
        started.recv().unwrap();
        let threads = collect(&Target::live(std::process::id())).unwrap();
        drop(end);
        thread.unwrap().join().unwrap();
        let named = threads.iter().find(|thread| thread.name == "a (b) c").unwrap();
        assert!(named.ran_ns.is_some_and(|ns| ns > 0));
    }

    #[test]
    fn a_process_that_is_gone_says_so() {
        assert!(collect(&prometheus(1)).unwrap_err().because.starts_with("there is no "));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_schedstat);
    }
}
