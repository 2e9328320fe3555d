//! Prints who holds the locks of the C library that a process's threads wait for, and the cost of reading that.
//!
//! `cargo run --release --example futex_waits -- PID [bpf|procfs|ptrace]`

#![expect(clippy::print_stdout, reason = "an example's result is what it prints")]

use std::collections::BTreeMap;
use std::time::Instant;

use spindoctor_model::stack::StackSource;
use spindoctor_stacks::{Profiler, ProfilerOptions};

fn main() -> spindoctor_stacks::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().and_then(|pid| pid.parse().ok()).unwrap_or(std::process::id());
    let source = match arguments.next().as_deref() {
        Some("bpf") => Some(StackSource::Bpf),
        Some("procfs") => Some(StackSource::Procfs),
        Some("ptrace") => Some(StackSource::Ptrace),
        _ => None,
    };
    let options = ProfilerOptions { source, cpu: false, ..ProfilerOptions::default() };
    let mut profiler = Profiler::start(pid, options)?;
    profiler.snapshot()?;
    let begun = Instant::now();
    profiler.read_futex_waits();
    let took = begun.elapsed();
    let profile = profiler.finish();

    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for wait in &profile.futex_waits {
        let owner = match (wait.owner_os_id, wait.owner_has_ended) {
            (None, _) => "of nobody known".to_owned(),
            (Some(owner), false) => format!("of {owner}"),
            (Some(owner), true) => format!("of {owner}, which ended"),
        };
        let behind = match wait.behind.map(|behind| (behind.mutex, behind.owner_os_id)) {
            Some((mutex, Some(owner))) => format!(", behind it {mutex:#x} of {owner}"),
            Some((_, None)) => ", behind it a free mutex".to_owned(),
            None => String::new(),
        };
        let line = format!("{:?} {:#x} {owner} in {}{behind}", wait.kind, wait.futex, wait.asked_by);
        *counts.entry(line).or_default() += 1;
    }
    let longest = profile.futex_waits.iter().filter_map(|wait| wait.waited_s).fold(0.0, f64::max);
    for (line, count) in counts {
        println!("{count:5} {line}");
    }
    println!(
        "{} of {} threads wait, up to {longest:.3} s, {} have a thread pointer; {} had moved on; reading took {} us after a snapshot of {} us",
        profile.futex_waits.len(),
        profile.threads.len(),
        profile.threads.iter().filter(|thread| thread.thread_pointer.is_some()).count(),
        profile.futex_moved_on,
        took.as_micros(),
        profile.snapshots.iter().map(|cost| cost.snapshot_us).sum::<u64>(),
    );
    for note in &profile.notes {
        println!("note: {note}");
    }
    Ok(())
}
