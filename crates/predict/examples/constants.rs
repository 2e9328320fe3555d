//! What the simulation takes for granted about a machine, measured on this one: `cargo run --release -p spindoctor-predict
//! --example constants`, and the same under `taskset -c 0` for what happens on one CPU.
#![allow(clippy::print_stdout, reason = "it prints its result")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Middle of some runs, each of them so many nanoseconds for one of what it does.
fn middle(mut run: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..9).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    times[4]
}

/// One `PAUSE` (on aarch64 `ISB`), nanoseconds.
fn pause() -> f64 {
    const COUNT: u32 = 200_000;
    let begun = Instant::now();
    for _ in 0..COUNT {
        std::hint::spin_loop();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(COUNT)
}

/// From one thread's wake-up of another until that one has woken the first: half of it. On one CPU a wake-up, a sleep and a
/// switch; on two the time until a CPU that idles runs what was woken.
fn hand_over() -> f64 {
    const COUNT: u64 = 20_000;
    let turn = Arc::new(AtomicU64::new(0));
    let first = thread::current();
    let other = Arc::clone(&turn);
    let second = thread::spawn(move || {
        for round in 0..COUNT {
            while other.load(Ordering::Acquire) != 2 * round + 1 {
                thread::park();
            }
            other.store(2 * round + 2, Ordering::Release);
            first.unpark();
        }
    });
    let begun = Instant::now();
    for round in 0..COUNT {
        turn.store(2 * round + 1, Ordering::Release);
        second.thread().unpark();
        while turn.load(Ordering::Acquire) != 2 * round + 2 {
            thread::park();
        }
    }
    let took = begun.elapsed().as_nanos() as f64 / (2 * COUNT) as f64;
    second.join().expect("it ends");
    took
}

/// To wake a thread that sleeps: the waking thread's own time.
fn wake() -> f64 {
    const COUNT: u32 = 300;
    let done = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&done);
    let sleeper = thread::spawn(move || {
        while !ends.load(Ordering::Acquire) {
            thread::park();
        }
    });
    let mut spent = Duration::ZERO;
    for _ in 0..COUNT {
        // It is asleep again by then.
        thread::sleep(Duration::from_micros(300));
        let begun = Instant::now();
        sleeper.thread().unpark();
        spent += begun.elapsed();
    }
    done.store(true, Ordering::Release);
    sleeper.thread().unpark();
    sleeper.join().expect("it ends");
    spent.as_nanos() as f64 / f64::from(COUNT)
}

/// To move a cache line from one CPU to another. It says nothing on one CPU.
fn line() -> f64 {
    const COUNT: u64 = 100_000;
    let turn = Arc::new(AtomicU64::new(0));
    let other = Arc::clone(&turn);
    let second = thread::spawn(move || {
        for round in 0..COUNT {
            while other.load(Ordering::Acquire) != 2 * round + 1 {}
            other.store(2 * round + 2, Ordering::Release);
        }
    });
    let begun = Instant::now();
    for round in 0..COUNT {
        turn.store(2 * round + 1, Ordering::Release);
        while turn.load(Ordering::Acquire) != 2 * round + 2 {}
    }
    let took = begun.elapsed().as_nanos() as f64 / (2 * COUNT) as f64;
    second.join().expect("it ends");
    took
}

fn main() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    println!("on {cpus} CPUs, nanoseconds, the middle of nine runs each:");
    println!("one PAUSE                {:8.1}", middle(pause));
    println!("hand-over, there or back {:8.0}", middle(hand_over));
    println!("to wake a sleeper        {:8.0}", middle(wake));
    if cpus > 1 {
        println!("to move a cache line     {:8.1}", middle(line));
    }
}
