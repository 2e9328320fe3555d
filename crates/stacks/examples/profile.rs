//! Profiles a process, and says what its threads did, who spun, and what the profile cost.
//!
//! `cargo run --release --example profile -- PID [bpf|procfs|ptrace|cpu] [HZ] [SECONDS]`

#![expect(clippy::print_stdout, reason = "an example's result is what it prints")]

use std::time::{Duration, Instant};

use spindoctor_stacks::aggregate::{spin_share, spinners, states};
use spindoctor_stacks::{Profiler, ProfilerOptions, Taken};

fn main() -> spindoctor_stacks::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().and_then(|pid| pid.parse().ok()).unwrap_or(std::process::id());
    let source = arguments.next().and_then(|name| name.parse().ok());
    let mut number = |otherwise| arguments.next().and_then(|n| n.parse().ok()).unwrap_or(otherwise);
    let (hz, seconds) = (number(10.0), number(10.0));

    let mut profiler = Profiler::start(pid, ProfilerOptions { source, hz, ..ProfilerOptions::default() })?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut due = Instant::now();
    let mut after_first = None;
    while due < end {
        profiler.rest(due);
        if profiler.snapshot()? == Taken::ProcessGone {
            break;
        }
        after_first.get_or_insert_with(|| (Instant::now(), own_cpu()));
        due = Instant::now().max(due + profiler.interval());
    }
    let steady = after_first
        .map_or(0.0, |(since, cpu)| (own_cpu() - cpu).as_secs_f64() / since.elapsed().as_secs_f64());
    let profile = profiler.finish();

    for note in &profile.notes {
        println!("note: {note}");
    }
    println!(
        "{:?}: {} snapshots in {:.1} s, {} threads, {} observations, {} CPU samples, {} stacks, {} frames",
        profile.source,
        profile.snapshots.len(),
        profile.seconds,
        profile.threads.len(),
        profile.observations.len(),
        profile.cpu_samples.len(),
        profile.stacks.len(),
        profile.frames.len(),
    );
    let mut captured: Vec<u64> = profile.snapshots.iter().map(|cost| cost.capture_us).collect();
    captured.sort_unstable();
    let mut took: Vec<u64> = profile.snapshots.iter().map(|cost| cost.snapshot_us).collect();
    println!("first snapshot {} us", took.first().copied().unwrap_or_default());
    took.sort_unstable();
    println!(
        "snapshots: median {} us, of which {} us to capture, longest {} us; {} unmoved, {} dropped",
        took.get(took.len() / 2).copied().unwrap_or_default(),
        captured.get(captured.len() / 2).copied().unwrap_or_default(),
        took.last().copied().unwrap_or_default(),
        profile.snapshots.iter().map(|cost| u64::from(cost.unmoved)).sum::<u64>(),
        profile.snapshots.iter().map(|cost| u64::from(cost.dropped)).sum::<u64>(),
    );
    println!(
        "own CPU {:.2} % of a core, {:.2} % after the first snapshot; the process's {:.1} %",
        profile.own_cpu_us as f64 / profile.seconds / 1e4,
        steady * 100.0,
        profile.process_cpu_us as f64 / profile.seconds / 1e4,
    );
    for (state, share) in states(&profile) {
        println!("{:6.2} % {state:?}", share * 100.0);
    }
    if let Some(share) = spin_share(&profile) {
        println!(
            "spin share {:.2} %, in the kernel {:.2} %, of {} CPU samples",
            share.user * 100.0,
            share.kernel * 100.0,
            share.samples
        );
    }
    for spinner in spinners(&profile) {
        println!("{:6.2} % {}", spinner.share * 100.0, spinner.function);
        for (callers, share) in &spinner.callers {
            println!("    {:6.2} % {callers}", share * 100.0);
        }
    }
    Ok(())
}

/// CPU time of this process.
fn own_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
