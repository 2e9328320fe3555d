//! The speed of the host's CPUs at the moment: the same loop, run now and then on some of them.
//!
//! In: nothing but time. Out: a histogram of how long the loops took, which grows; of two of them, the mean speed between.
//! A virtual machine shares its CPUs' caches, clocks and time with others, and throughput follows. The comparison is
//! corrected by what the loops show (`statistics::quads::compared`).
//!
//! Cost: 50 us of a CPU every 20 ms on up to four CPUs, a quarter of a percent of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// From one loop of a CPU to the next.
const EVERY: Duration = Duration::from_millis(20);
/// Steps of a loop: some 50 us.
const STEPS: u32 = 10_000;
/// Words that a loop changes at random: more than a CPU's first cache holds. Of loops that need no memory, of those that wait
/// for its slowest part, and of these, these follow a server's throughput most closely (measured in `benches/src/counter.rs`).
const WORDS: usize = 1 << 15;
/// So many CPUs have loops at most.
const MOST_CPUS: usize = 4;
/// Buckets of the histogram, each 1 % wide, from a microsecond to some 3 ms.
const BUCKETS: usize = 800;
/// Loops between two readings that are enough for a mean.
const LEAST_LOOPS: u64 = 10;
/// Longer than so many medians a loop was interrupted: speeds differ by less. Neighbours on the other thread of a core take up to
/// half of its speed.
const INTERRUPTED: f64 = 2.0;

/// Loops that run until this is dropped.
#[derive(Debug)]
pub(super) struct Speed {
    took: Arc<[AtomicU64]>,
    ended: Arc<AtomicBool>,
}

/// How long loops took so far: how many in each bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loops(Vec<u64>);

impl Speed {
    /// Starts them on the first CPUs that this process may use; none where it may not choose its CPU.
    pub(super) fn start() -> Option<Self> {
        let all = sched_getaffinity(None).ok()?;
        let speed = Self {
            took: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            ended: Arc::new(AtomicBool::new(false)),
        };
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).take(MOST_CPUS) {
            let (took, ended) = (Arc::clone(&speed.took), Arc::clone(&speed.ended));
            std::thread::Builder::new()
                .name("cpu-speed".to_owned())
                .spawn(move || run_on(cpu, &took, &ended))
                .ok()?;
        }
        Some(speed)
    }

    pub(super) fn so_far(&self) -> Loops {
        Loops(self.took.iter().map(|count| count.load(Ordering::Relaxed)).collect())
    }
}

impl Drop for Speed {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Loops {
    /// How long a loop took since at the CPUs' mean speed, nanoseconds; none where they were too few. The mean of speeds, because
    /// that is what a throughput follows: where a CPU is fast for a part of the time and slow for the rest, a median is one of the
    /// two. What interrupts the CPUs belongs to what is measured and must not pass for a slow CPU: loops that took twice the
    /// median or longer are left out.
    pub fn mean_ns_since(&self, earlier: &Self) -> Option<f64> {
        let between = || {
            let ns = (0..).map(|bucket| 1_000.0 * 1.01_f64.powf(f64::from(bucket) + 0.5));
            ns.zip(self.0.iter().zip(&earlier.0).map(|(now, then)| now.saturating_sub(*then)))
        };
        let count: u64 = between().map(|(_, loops)| loops).sum();
        if count < LEAST_LOOPS {
            return None;
        }
        let mut below = 0;
        let median_ns = between().find_map(|(ns, loops)| {
            below += loops;
            (2 * below >= count).then_some(ns)
        })?;
        let whole = between().filter(|(ns, _)| *ns < INTERRUPTED * median_ns);
        let (loops, per_ns) = whole
            .fold((0.0, 0.0), |(loops, per_ns), (ns, here)| (loops + here as f64, per_ns + here as f64 / ns));
        Some(loops / per_ns)
    }
}

fn bucket(took: Duration) -> usize {
    let steps = (took.as_secs_f64() * 1e6).max(1.0).ln() / 1.01_f64.ln();
    (steps as usize).min(BUCKETS - 1)
}

/// Loops on a CPU until the end.
fn run_on(cpu: usize, took: &[AtomicU64], ended: &AtomicBool) {
    let mut only = CpuSet::new();
    only.set(cpu);
    if sched_setaffinity(None, &only).is_err() {
        return;
    }
    let mut words = vec![0_u32; WORDS];
    let mut state = 88_172_645_463_325_252_u64;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(EVERY);
        let begun = Instant::now();
        for _ in 0..STEPS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = &mut words[state as usize % WORDS];
            *word = word.wrapping_add(state as u32);
        }
        let bucket = bucket(begun.elapsed());
        std::hint::black_box(&words);
        took[bucket].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(us: &[f64]) -> Loops {
        let mut counts = vec![0; BUCKETS];
        us.iter().for_each(|us| counts[bucket(Duration::from_secs_f64(us / 1e6))] += 1);
        Loops(counts)
    }

    #[test]
    fn the_mean_speed_between_two_readings_is_right_to_a_percent_and_interruptions_do_not_move_it() {
        let earlier = loops(&[1e9, 0.0, 70.0]);
        let since = |parts: &[(f64, usize)]| {
            let mut now = loops(&[3_000.0; 5]);
            for (us, count) in parts {
                now.0[bucket(Duration::from_secs_f64(us / 1e6))] += *count as u64;
            }
            for (at, count) in now.0.iter_mut().enumerate() {
                *count += earlier.0[at];
            }
            now.mean_ns_since(&earlier).unwrap()
        };
        for (parts, us) in [
            (&[(50.0, 20)][..], 50.0),
            // A CPU that was fast for half of the time: what it did in the mean, and not one of the two.
            (&[(50.0, 30), (75.0, 30)], 60.0),
            (&[(50.0, 10), (75.0, 30)], 66.7),
        ] {
            let mean = since(parts);
            assert!((mean / (us * 1_000.0) - 1.0).abs() < 0.01, "{parts:?} {mean}");
        }
        assert_eq!(earlier.mean_ns_since(&earlier), None);
    }
}
