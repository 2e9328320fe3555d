//! `/proc/PID/task/TID/{stat,schedstat}`: what each thread of the server used, and how long it was
//! ready and waited for a CPU.

use std::path::Path;

use spindoctor_model::Unavailable;
use spindoctor_model::host::ThreadStat;

use super::kernel_file;
use super::process::parse_task_stat;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// The server's threads.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/task",
    help: "CPU time of each thread, and its time in the run queue",
    cost: "two small files a thread: 25 ms of one CPU for 1,000 threads, nearly all in the kernel",
    needs: "",
    cadence: Cadence::Ends,
    pace: Pace::host(30, 600),
    read: |target, sample, now| sample.threads = reading(collect(target), now),
};

/// Threads beyond these are not read: half a second of CPU is enough to ask for.
const MOST_THREADS: usize = 20_000;

fn collect(target: &Target) -> Result<Vec<ThreadStat>, Unavailable> {
    let folder = target.process("task");
    let entries = std::fs::read_dir(&folder).map_err(|error| kernel_file::because(&folder, &error))?;
    // A thread that ended since the folder was listed is left out.
    let threads: Vec<_> =
        entries.flatten().take(MOST_THREADS).filter_map(|entry| thread(&entry.path())).collect();
    // A kernel that does not count says `0 0 0` of threads that ran, or has no such file.
    if threads.iter().all(|thread| thread.ran_ns == 0) {
        return Err(Unavailable::because(
            "this kernel does not count how long threads run and wait for a CPU",
        )
        .unlock("a kernel with CONFIG_SCHED_INFO"));
    }
    Ok(threads)
}

fn thread(folder: &Path) -> Option<ThreadStat> {
    let stat = parse_task_stat(&kernel_file::read(&folder.join("stat")).ok()?)?;
    let schedstat = kernel_file::read(&folder.join("schedstat")).ok().and_then(|text| parse_schedstat(&text));
    let schedstat = schedstat.unwrap_or_default();
    Some(ThreadStat {
        tid: stat.id,
        name: stat.name,
        state: stat.state,
        user_us: stat.user_us,
        system_us: stat.system_us,
        ran_ns: schedstat.ran_ns,
        run_queue_ns: schedstat.run_queue_ns,
        last_cpu: stat.last_cpu,
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
pub fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some(SchedStat { ran_ns: numbers.next()?, run_queue_ns: numbers.next()? })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, process, tree};
    use super::*;

    #[test]
    fn every_thread_of_a_process_is_read() {
        let root = tree("written/host-processes");
        let mut threads = collect(&process(root.path(), 4100)).unwrap();
        threads.sort_by_key(|thread| thread.tid);
        assert_eq!(
            threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(),
            [4100, 4101, 4102, 4103, 4104]
        );
        assert_eq!(
            threads[2],
            ThreadStat {
                tid: 4102,
                name: "ib_pg_flush-1".into(),
                state: "D".into(),
                user_us: 3_110_000,
                system_us: 2_040_000,
                ran_ns: 5_150_000_000,
                run_queue_ns: 87_000_000,
                last_cpu: Some(2),
            }
        );
    }

    #[test]
    fn every_thread_of_a_captured_server_is_read() {
        for (server, host) in spindoctor_corpus::captures("host-of-a-throttled-server").unwrap() {
            let root = tempfile::tempdir().unwrap();
            host.unpack(root.path()).unwrap();
            let tasks = |part: &&spindoctor_corpus::Part| {
                part.name.starts_with("proc/")
                    && part.name.contains("/task/")
                    && part.name.ends_with("/schedstat")
            };
            let expected = host.parts.iter().filter(tasks).count();
            let pid = host
                .parts
                .iter()
                .find_map(|part| part.name.strip_prefix("proc/")?.split('/').next()?.parse().ok());
            let threads = collect(&process(root.path(), pid.unwrap())).unwrap();
            assert!(expected > 10, "{server}");
            assert_eq!(threads.len(), expected, "{server}");
        }
    }

    #[test]
    fn a_kernel_that_does_not_count_is_unavailable_and_not_idle() {
        // This process has no schedstat.
        let root = tree("written/host-processes");
        assert!(collect(&process(root.path(), 4200)).unwrap_err().because.contains("does not count"));
    }

    #[test]
    fn run_queue_time_is_distinguished_from_time_on_a_cpu() {
        let root = tree("written/host-processes");
        let text = std::fs::read_to_string(process(root.path(), 4100).process("schedstat")).unwrap();
        let expected = SchedStat { ran_ns: 1_234_567_890_123, run_queue_ns: 45_678_901_234 };
        assert_eq!(parse_schedstat(&text), Some(expected));
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
        assert!(named.ran_ns > 0);
    }

    #[test]
    fn a_process_that_is_gone_says_so() {
        let root = tree("written/host-processes");
        assert!(collect(&process(root.path(), 1)).unwrap_err().because.starts_with("there is no "));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_schedstat);
    }
}
