//! Where one thread's time goes: the system calls that it makes, counted by the kernel, and CPU samples of what it does
//! outside of them.
//!
//! In: a process, one of its threads, how long. Out: a [`ThreadTime`]. What a system call or a function is for is left
//! to the caller, who knows the program.

use std::fs;
use std::time::{Duration, Instant};

use spindoctor_model::connections::ThreadTime;
use spindoctor_model::stack::StackSource;

use crate::capture::calls::CallTrace;
use crate::error::Result;
use crate::profiler::{Profiler, ProfilerOptions, Taken};

/// CPU samples for each second that the thread runs: where it runs for a tenth of 10 s, a share of 10 % of them is known to
/// within one percentage point. Not in step with timers that tick in tens.
const SAMPLE_HZ: f64 = 999.0;

/// How often it is looked at what counting has cost.
const TICK: Duration = Duration::from_millis(50);

/// The share of all CPUs' time that counting may cost the machine over the whole look, half of the goal for what any of
/// spindoctor's looks may take from throughput (1 %). Where system calls are so many that this is spent before the end,
/// counting ends there; samples, which cost this one thread alone, go on.
pub const MOST_SHARE: f64 = 0.005;

/// How long to look and when to end.
pub struct ThreadTimeOptions<'a> {
    /// How long.
    pub duration: Duration,
    /// Ends it early, once it says true.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Looks at a thread for a while.
///
/// # Errors
/// No such process, or the kernel lets nobody count; the error says what would change that. Where only CPU samples
/// cannot be had, a note says so.
pub fn look(pid: u32, tid: u32, options: &ThreadTimeOptions<'_>) -> Result<ThreadTime> {
    let mut notes = Vec::new();
    let profiling = ProfilerOptions {
        source: Some(StackSource::Cpu),
        hz: SAMPLE_HZ,
        thread: Some(tid),
        ..ProfilerOptions::default()
    };
    let mut profiler = match Profiler::start(pid, profiling) {
        Ok(profiler) => Some(profiler),
        Err(error) => {
            notes.push(format!("what the thread does outside of system calls is not known: {error}"));
            None
        }
    };
    let mut trace = Some(CallTrace::start(pid, tid)?);
    let before = schedstat(pid, tid);
    let mut traced = None;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let most = options.duration.mul_f64(MOST_SHARE * cpus as f64);
    let begun = Instant::now();
    loop {
        let left = options.duration.saturating_sub(begun.elapsed());
        let is_over = left.is_zero() || (options.stopped)();
        if let Some(counting) = &trace {
            let (cost, elapsed) = (counting.cost(), counting.elapsed());
            let is_spent = cost.cpu >= most;
            if is_spent && !is_over {
                notes.push(spent(elapsed, cost.passes, cost.cpu, cpus));
            }
            if is_spent || is_over || !counting.is_alive() {
                let after = schedstat(pid, tid);
                traced = trace.take().map(|trace| (trace.finish(), after));
            }
        }
        if let Some(profiler) = &mut profiler
            && !matches!(profiler.snapshot(), Ok(Taken::Snapshot(_)))
        {
            break;
        }
        if is_over || (trace.is_none() && profiler.is_none()) {
            break;
        }
        std::thread::sleep(TICK.min(left));
    }
    // The process ended.
    let after = schedstat(pid, tid);
    let (traced, after) = match (traced, trace) {
        (Some((traced, after)), _) => (traced?, after),
        (None, Some(trace)) => (trace.finish()?, after),
        (None, None) => unreachable!("what is not counting any more has been read"),
    };
    let profile = profiler.map(Profiler::finish);
    let grown = |of: fn(&SchedStat) -> u64| Some(of(&after?).saturating_sub(of(&before?)));
    Ok(ThreadTime {
        tid,
        seconds: traced.took.as_secs_f64(),
        calls: traced.calls,
        outside_ns: u64::try_from(traced.outside.as_nanos()).unwrap_or(u64::MAX),
        cpu_ns: grown(|stat| stat.ran_ns),
        run_queue_ns: grown(|stat| stat.run_queue_ns),
        profile,
        passes: traced.cost.passes,
        passes_cpu_ms: traced.cost.cpu.as_secs_f64() * 1e3,
        notes,
    })
}

/// Why counting ended early.
fn spent(elapsed: Duration, passes: u64, cpu: Duration, cpus: usize) -> String {
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "system calls were counted for {seconds:.1} s only: the machine makes {:.0} a second, and counting them took {:.1} % \
         of its CPUs",
        passes as f64 / 2.0 / seconds,
        100.0 * cpu.as_secs_f64() / seconds / cpus.max(1) as f64
    )
}

/// `/proc/PID/task/TID/schedstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SchedStat {
    ran_ns: u64,
    run_queue_ns: u64,
}

fn schedstat(pid: u32, tid: u32) -> Option<SchedStat> {
    parse_schedstat(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?)
}

/// `1518325843 93724612 5120`: nanoseconds on a CPU, nanoseconds waiting for one, how often it got one
/// (Documentation/scheduler/sched-stats.rst). Zeros where the kernel does not count.
fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran_ns, run_queue_ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let turns = numbers.next()?.ok()?;
    (turns > 0).then_some(SchedStat { ran_ns, run_queue_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_count_is_not_taken_for_an_idle_thread() {
        assert_eq!(
            parse_schedstat("1518325843 93724612 5120\n"),
            Some(SchedStat { ran_ns: 1_518_325_843, run_queue_ns: 93_724_612 })
        );
        assert_eq!(parse_schedstat("0 0 0\n"), None);
        assert_eq!(parse_schedstat("12 x 1"), None);
    }

    #[test]
    fn who_ended_early_says_what_it_cost() {
        let note = spent(Duration::from_secs(2), 1_200_000, Duration::from_millis(100), 2);
        assert!(note.contains("2.0 s only") && note.contains("makes 300000 a second"), "{note}");
        assert!(note.contains("took 2.5 %"), "{note}");
    }
}
