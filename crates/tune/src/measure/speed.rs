//! The speed of the host's CPUs at the moment: the same loop, run now and then on some of them.
//!
//! In: nothing but time. Out: a histogram of how long the loops took, which grows; of two of them, the median between.
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
/// Loops between two readings that are enough for a median.
const LEAST_LOOPS: u64 = 10;

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
    /// The median of the loops since, nanoseconds; none where they were too few. A median, because what interrupts the CPUs
    /// belongs to what is measured and must not pass for a slow CPU: it meets few of the loops.
    pub fn median_ns_since(&self, earlier: &Self) -> Option<f64> {
        let between: Vec<u64> =
            self.0.iter().zip(&earlier.0).map(|(now, then)| now.saturating_sub(*then)).collect();
        let count: u64 = between.iter().sum();
        if count < LEAST_LOOPS {
            return None;
        }
        let (mut below, half) = (0, count as f64 / 2.0);
        for (bucket, &here) in between.iter().enumerate() {
            if here > 0 && (below + here) as f64 >= half {
                let within = (half - below as f64) / here as f64;
                return Some(1_000.0 * 1.01_f64.powf(bucket as f64 + within));
            }
            below += here;
        }
        None
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
    fn the_median_between_two_readings_is_right_to_a_percent_and_a_few_interruptions_do_not_move_it() {
        let earlier = loops(&[1e9, 0.0, 70.0]);
        let mut now = loops(&[50.0; 20]);
        let interrupted = loops(&[3_000.0; 5]);
        for (at, count) in now.0.iter_mut().enumerate() {
            *count += earlier.0[at] + interrupted.0[at];
        }
        let median = now.median_ns_since(&earlier).unwrap();
        assert!((median / 50_000.0 - 1.0).abs() < 0.01, "{median}");
        assert_eq!(earlier.median_ns_since(&earlier), None);
    }
}
