//! How long one PAUSE (x86-64) or ISB (aarch64) takes on the CPUs that the server runs on,
//! measured in place: textbook numbers differ by a factor of ten between generations, and under a
//! hypervisor they do not hold at all.
//!
//! This thread is moved to up to `MOST_CPUS` of the server's CPUs in turn and its affinity is put
//! back. On each CPU, short batches are timed:
//!
//! - of PAUSE the *median* batch counts. A batch in which the thread was preempted, or an interrupt
//!   came, is far too long, and half of the batches would have to be for the median to move. The
//!   shortest batch would be wrong: PAUSE has no fixed length on Skylake and its successors.
//! - of the calibration the *shortest* batch counts. It is a chain of additions, each of which needs the one before:
//!   one core cycle each, by construction, so that every disturbance makes it longer and nothing makes it shorter. Its
//!   time is the length of a core cycle at the frequency that the CPU runs at now, which a virtual machine without
//!   performance counters has no other way to measure. Additions of a register: those of a small constant are folded on
//!   Golden Cove and later and cost nothing (Agner Fog, microarchitecture.pdf, "Alder Lake and Sapphire Rapids").
//!
//! One measurement here, of a virtual machine with a family 6 model 167 CPU: 10.9 ns, 28 TSC ticks.

use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use spindoctor_model::host::PauseLatency;
use spindoctor_model::{Unavailable, median};

use super::effective_cpus::runnable_on;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// PAUSE measured in place.
pub const SOURCE: HostSource = HostSource {
    name: "pause",
    help: "what one PAUSE costs on the server's CPUs: the unit of all its spinning",
    cost: "one CPU of the server's for about 1 ms, up to four in turn",
    needs: "",
    cadence: Cadence::Once,
    pace: Pace::once(),
    read: |target, sample, now| sample.pause = reading(collect(target), now),
};

/// CPUs that are measured: enough to see two kinds of core.
const MOST_CPUS: usize = 4;
/// Batches on each CPU.
const BATCHES: usize = 31;
/// PAUSEs in a batch: 1.3 to 15 us from the fastest (10 cycles) to the slowest (140) known CPU, so
/// that reading the clock (25 ns) stays below 2 %.
const PAUSES: u32 = 320;
/// Additions in a batch of the calibration: 2.5 us at 4 GHz.
const ADDITIONS: u32 = 10_240;
/// Instructions of a kind between two turns of the loop around them: the loop's own are hidden.
const UNROLLED: u32 = 32;

fn collect(target: &Target) -> Result<PauseLatency, Unavailable> {
    let Some(instruction) = INSTRUCTION else {
        return Err(Unavailable::because("which instruction spins on this kind of CPU is not known"));
    };
    let started = Instant::now();
    let cpus: Vec<u32> = runnable_on(target)?.into_iter().collect();
    let home = Affinity::of_this_thread()?;
    let measured: Vec<(u32, Measured)> = spread(&cpus, MOST_CPUS)
        .into_iter()
        .filter(|&cpu| home.move_to(cpu))
        .map(|cpu| (cpu, measure()))
        .collect();
    drop(home);
    let of = |of: fn(&Measured) -> f64| median(measured.iter().map(|(_, measured)| of(measured)));
    let ns = of(|measured| measured.pause_ns).ok_or_else(|| {
        Unavailable::because("spindoctor may run on none of the server's CPUs")
            .unlock("start spindoctor in the server's cpuset (cgroup)")
    })?;
    Ok(PauseLatency {
        instruction: instruction.to_owned(),
        ns,
        core_cycles: of(|measured| measured.pause_ns / measured.cycle_ns),
        tsc_ticks: HAS_TSC.then(|| of(|measured| measured.pause_ticks)).flatten(),
        per_cpu_ns: measured.iter().map(|(cpu, measured)| (*cpu, measured.pause_ns)).collect(),
        cost_ms: started.elapsed().as_secs_f64() * 1e3,
    })
}

/// This thread's affinity, put back when dropped.
struct Affinity(CpuSet);

impl Affinity {
    fn of_this_thread() -> Result<Self, Unavailable> {
        sched_getaffinity(None)
            .map(Self)
            .map_err(|error| Unavailable::because(format!("sched_getaffinity: {error}")))
    }

    /// Moves this thread; false where it may not run there.
    fn move_to(&self, cpu: u32) -> bool {
        let Some(cpu) = usize::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_CPU) else { return false };
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).is_ok()
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // What the thread was allowed before it is allowed again, save where an administrator has
        // changed that in between: then the kernel's answer stands.
        let _refused = sched_setaffinity(None, &self.0);
    }
}

/// Up to `most` of the CPUs, the first and the last among them: kinds of core are numbered in
/// blocks.
fn spread(cpus: &[u32], most: usize) -> Vec<u32> {
    let count = most.min(cpus.len());
    (0..count).map(|at| cpus[at * (cpus.len() - 1) / (count - 1).max(1)]).collect()
}

struct Measured {
    pause_ns: f64,
    pause_ticks: f64,
    cycle_ns: f64,
}

/// Measures the CPU that this thread is on.
fn measure() -> Measured {
    let mut ns = Vec::with_capacity(BATCHES);
    let mut ticks = Vec::with_capacity(BATCHES);
    let mut cycle_ns = f64::INFINITY;
    for _ in 0..BATCHES {
        // Side by side, so that both see the same frequency; the first batches wake the CPU up.
        let start = Instant::now();
        add(ADDITIONS / UNROLLED);
        cycle_ns = cycle_ns.min(start.elapsed().as_nanos() as f64 / f64::from(ADDITIONS));

        let (start, start_ticks) = (Instant::now(), tsc());
        pause(PAUSES / UNROLLED);
        ticks.push(tsc().wrapping_sub(start_ticks) as f64 / f64::from(PAUSES));
        ns.push(start.elapsed().as_nanos() as f64 / f64::from(PAUSES));
    }
    let middle = |batches: Vec<f64>| median(batches).expect("there is at least one batch");
    Measured { pause_ns: middle(ns), pause_ticks: middle(ticks), cycle_ns }
}

#[cfg(target_arch = "x86_64")]
use x86_64::{HAS_TSC, INSTRUCTION, add, pause, tsc};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;

    pub(super) const INSTRUCTION: Option<&str> = Some("pause");
    pub(super) const HAS_TSC: bool = true;

    /// `rounds` times 32 PAUSEs.
    pub(super) fn pause(rounds: u32) {
        for _ in 0..rounds {
            // SAFETY: PAUSE touches neither registers, flags nor memory.
            unsafe { asm!(".rept 32", "pause", ".endr", options(nomem, nostack, preserves_flags)) };
        }
    }

    /// `rounds` times 32 additions, each of which needs the one before.
    pub(super) fn add(rounds: u32) {
        let mut sum = 0_u64;
        for _ in 0..rounds {
            // SAFETY: adds one register to another, and clobbers the flags as it says.
            unsafe {
                asm!(".rept 32", "add {sum}, {one}", ".endr", sum = inout(reg) sum, one = in(reg) 1_u64,
                     options(nomem, nostack));
            }
        }
        std::hint::black_box(sum);
    }

    /// The time stamp counter.
    pub(super) fn tsc() -> u64 {
        // SAFETY: every x86-64 CPU has RDTSC; Linux lets programs use it unless one asked it not to
        // for itself (prctl PR_SET_TSC), and this one does not.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(target_arch = "aarch64")]
use aarch64::{HAS_TSC, INSTRUCTION, add, pause, tsc};

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::asm;

    pub(super) const INSTRUCTION: Option<&str> = Some("isb");
    pub(super) const HAS_TSC: bool = false;

    /// `rounds` times 32 ISBs, which MySQL 8.0 and MariaDB spin with.
    pub(super) fn pause(rounds: u32) {
        for _ in 0..rounds {
            // SAFETY: ISB touches neither registers, flags nor memory.
            unsafe { asm!(".rept 32", "isb", ".endr", options(nomem, nostack, preserves_flags)) };
        }
    }

    /// `rounds` times 32 additions, each of which needs the one before.
    pub(super) fn add(rounds: u32) {
        let mut sum = 0_u64;
        for _ in 0..rounds {
            // SAFETY: adds one register to another; ADD sets no flags.
            unsafe {
                asm!(".rept 32", "add {sum}, {sum}, {one}", ".endr", sum = inout(reg) sum, one = in(reg) 1_u64,
                     options(nomem, nostack, preserves_flags));
            }
        }
        std::hint::black_box(sum);
    }

    /// There is none.
    pub(super) fn tsc() -> u64 {
        0
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other::{HAS_TSC, INSTRUCTION, add, pause, tsc};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other {
    pub(super) const INSTRUCTION: Option<&str> = None;
    pub(super) const HAS_TSC: bool = false;

    pub(super) fn pause(_rounds: u32) {}

    pub(super) fn add(_rounds: u32) {}

    pub(super) fn tsc() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_takes_some_cycles_and_the_affinity_is_put_back() {
        let before = sched_getaffinity(None).unwrap();
        let pause = collect(&Target::live(std::process::id())).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        println!("{pause:?}");
        // Between a no-op and the slowest PAUSE known, with room for what comes.
        let cycles = pause.core_cycles.unwrap();
        assert!((1.0..1_000.0).contains(&cycles), "{pause:?}");
        assert!(pause.ns > 0.2 && pause.ns < 1_000.0, "{pause:?}");
        assert!(!pause.per_cpu_ns.is_empty() && pause.per_cpu_ns.len() <= MOST_CPUS);
    }

    #[test]
    fn first_and_last_cpu_are_among_those_measured() {
        assert_eq!(spread(&[], 4), [] as [u32; 0]);
        assert_eq!(spread(&[5], 4), [5]);
        assert_eq!(spread(&[0, 1], 4), [0, 1]);
        assert_eq!(spread(&(0..64).collect::<Vec<_>>(), 4), [0, 21, 42, 63]);
    }

    #[test]
    fn one_disturbed_batch_does_not_move_the_median() {
        assert_eq!(median(vec![11.0, 10.9, 4_000.0, 10.9, 11.0]), Some(11.0));
        assert_eq!(median(vec![1.0, 3.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }
}
