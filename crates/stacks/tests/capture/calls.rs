//! Where a thread's time goes: what it calls is counted, and nothing of its time is lost.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use spindoctor_stacks::capture::calls::CallTrace;

use crate::target::is_root;

/// A thread that makes system calls in vain, computes, and sleeps, once it gets the order to.
fn calls_and_sleeps(failing: u32, compute: Duration, sleep: Duration) {
    for _ in 0..failing {
        // What stands for the current folder in openat is no descriptor.
        assert!(rustix::fs::fcntl_getfl(rustix::fs::CWD).is_err());
    }
    let begun = Instant::now();
    while begun.elapsed() < compute {
        std::hint::spin_loop();
    }
    std::thread::sleep(sleep);
}

#[test]
fn every_call_is_counted_and_every_nanosecond_is_somewhere() {
    if !is_root() {
        return;
    }
    let (sender, tids) = channel();
    let (go, wait) = channel::<()>();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_pid().cast_unsigned()).unwrap();
        wait.recv().unwrap();
        calls_and_sleeps(1_000, Duration::from_millis(60), Duration::from_millis(40));
    });
    let tid = tids.recv().unwrap();
    let trace = CallTrace::start(std::process::id(), tid).unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    let traced = trace.finish().unwrap();

    let of = |name: &str| traced.calls.iter().find(|call| call.name == name).cloned().unwrap_or_default();
    assert_eq!((of("fcntl").calls, of("fcntl").failed, of("fcntl").slept), (1_000, 1_000, 0), "{traced:#?}");
    let slept = of("clock_nanosleep");
    assert!(slept.slept == 1 && slept.slept_ns >= 40_000_000, "{slept:?}");
    assert!(traced.outside >= Duration::from_millis(50), "{:?}", traced.outside);
    let known = traced.outside.as_nanos() + traced.calls.iter().map(|call| u128::from(call.ns)).sum::<u128>();
    let whole = traced.took.as_nanos();
    assert!(known <= whole && known * 100 >= whole * 95, "{known} of {whole} ns");
    assert!(traced.cost.passes >= 2_000 && !traced.cost.cpu.is_zero(), "{:?}", traced.cost);
}

#[test]
fn what_takes_the_place_of_a_thread_that_ended_is_not_counted() {
    if !is_root() {
        return;
    }
    let (sender, tids) = channel();
    let (go, wait) = channel::<()>();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_pid().cast_unsigned()).unwrap();
        wait.recv().unwrap();
        calls_and_sleeps(7, Duration::ZERO, Duration::from_millis(1));
    });
    let tid = tids.recv().unwrap();
    let trace = CallTrace::start(std::process::id(), tid).unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    // The kernel frees the memory of its task after a moment, and gives it to the next threads.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        let next =
            (0..50).map(|_| std::thread::spawn(|| calls_and_sleeps(100, Duration::ZERO, Duration::ZERO)));
        next.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    }
    let traced = trace.finish().unwrap();
    let failing = traced.calls.iter().find(|call| call.name == "fcntl").cloned().unwrap_or_default();
    assert_eq!(failing.calls, 7, "{traced:#?}");
}

#[test]
fn a_thread_of_another_process_is_not_counted() {
    if !is_root() {
        return;
    }
    let (sender, tids) = channel();
    let (go, wait) = channel::<()>();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_pid().cast_unsigned()).unwrap();
        wait.recv().unwrap();
        calls_and_sleeps(7, Duration::ZERO, Duration::from_millis(1));
    });
    let tid = tids.recv().unwrap();
    let mut other = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let trace = CallTrace::start(other.id(), tid).unwrap();
    go.send(()).unwrap();
    thread.join().unwrap();
    let traced = trace.finish().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(traced.calls.is_empty(), "{traced:#?}");
}
