//! CPU samples of this very process: of threads that start later, and of samples that nobody fetched in time.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spindoctor_stacks::Error;
use spindoctor_stacks::capture::CpuSamples;
use spindoctor_stacks::capture::cpu::CpuSampler;

/// A thread that computes until it is dropped.
struct Busy {
    tid: u32,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (sender, tids) = std::sync::mpsc::channel();
        let until = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_pid().cast_unsigned()).unwrap();
            let mut sum = 0_u64;
            while !until.load(Ordering::Relaxed) {
                sum = std::hint::black_box(sum.wrapping_mul(3).wrapping_add(1));
            }
        });
        Self { tid: tids.recv().unwrap(), over, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// None, and says why, where the machine does not let us.
fn sampler(hz: f64) -> Option<CpuSampler> {
    match CpuSampler::start(std::process::id(), hz) {
        Ok(sampler) => Some(sampler),
        Err(error @ Error::Unavailable { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_thread_that_starts_later_is_sampled_with_its_stack() {
    let Some(mut sampler) = sampler(499.0) else { return };
    let busy = Busy::start();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let samples = &sampler.read().samples;
        assert!(samples.is_sorted_by_key(|sample| sample.at_ns));
        let mut of_busy = samples.iter().filter(|sample| sample.tid == busy.tid);
        if let Some(sample) = of_busy.find(|sample| sample.kernel.is_empty()) {
            assert_eq!(sample.address, sample.registers.pc);
            assert_eq!(sample.stack_start, sample.registers.sp);
            assert!(!sample.stack.is_empty());
            break;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn samples_that_nobody_fetches_in_time_are_counted_as_lost() {
    let Some(mut sampler) = sampler(997.0) else { return };
    let _busy = Busy::start();
    let deadline = Instant::now() + PATIENCE;
    let mut seen = 0;
    loop {
        // Three times as long as the buffers hold; the kernel reports the loss with the next sample that fits.
        std::thread::sleep(Duration::from_secs(1));
        let CpuSamples { samples, lost, .. } = sampler.read();
        seen += samples.len();
        if *lost > 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{seen} samples, none lost");
    }
    assert!(seen > 0);
}

#[test]
fn a_rate_that_the_kernel_refuses_is_refused_with_the_setting() {
    match CpuSampler::start(std::process::id(), 1e9) {
        Err(Error::Unavailable { because, unlock, .. }) => {
            assert!(because.contains("kernel"), "{because}");
            assert!(unlock.contains("kernel.perf_event") || unlock.contains("CAP_PERFMON"), "{unlock}");
        }
        other => panic!("{other:?}"),
    }
}
