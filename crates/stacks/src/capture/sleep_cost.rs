//! What a sleep and the wake-up from it cost on this host: the CPU time of two threads on one CPU that hand a turn to each
//! other through a mutex and a condition, for each time that one of them gave its CPU away.
//!
//! CPU time, and not the clock's: on a busy CPU others run between the two. A sleep from which a server's thread comes back to
//! cold caches costs more: this is the least.

use std::sync::{Barrier, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Turns of each thread in a round, and rounds: about 10 ms of one CPU in all.
const TURNS: u32 = 200;
const ROUNDS: usize = 7;

/// The cheapest of some rounds, as a disturbed one costs more; none where the kernel counts no switches of threads.
pub(super) fn measure() -> Option<Duration> {
    (0..ROUNDS).filter_map(|_| round()).min()
}

/// CPU time of both threads, by the number of times that one slept.
fn round() -> Option<Duration> {
    let (turn, changed, both) = (Mutex::new(0_u32), Condvar::new(), Barrier::new(2));
    let cpu = sched_getcpu();
    let player = |me: u32| {
        let mut only = CpuSet::new();
        only.set(cpu);
        let is_there = sched_setaffinity(None, &only).is_ok();
        both.wait();
        let before = spent();
        for _ in 0..TURNS {
            let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut turn =
                changed.wait_while(turn, |turn| *turn % 2 != me).unwrap_or_else(PoisonError::into_inner);
            *turn += 1;
            drop(turn);
            changed.notify_one();
        }
        let (cpu, sleeps) = spent()?;
        let (cpu_before, sleeps_before) = before?;
        is_there.then(|| (cpu.saturating_sub(cpu_before), sleeps - sleeps_before))
    };
    let ends = std::thread::scope(|scope| {
        let other = scope.spawn(|| player(1));
        let first = scope.spawn(|| player(0));
        [first.join().ok().flatten(), other.join().ok().flatten()]
    });
    let [(first_cpu, first_sleeps), (other_cpu, other_sleeps)] = [ends[0]?, ends[1]?];
    (first_cpu + other_cpu).checked_div(first_sleeps + other_sleeps)
}

/// CPU time of this thread, and how often it gave its CPU away.
fn spent() -> Option<(Duration, u32)> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let cpu = Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    Some((cpu, switches.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_costs_something_and_less_than_a_slice_of_time() {
        let cost = measure().expect("this kernel counts switches");
        assert!((Duration::from_nanos(200)..Duration::from_millis(1)).contains(&cost), "{cost:?}");
    }
}
