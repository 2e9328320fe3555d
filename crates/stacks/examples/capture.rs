//! Takes snapshots of a process without unwinding them, and says what they cost.
//!
//! `cargo run --release --example capture -- PID [bpf|procfs|ptrace] [SNAPSHOTS]`

#![expect(clippy::print_stdout, reason = "an example's result is what it prints")]

use std::time::{Duration, Instant};

use spindoctor_stacks::capture::{self, RawStack};

fn main() -> spindoctor_stacks::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().and_then(|pid| pid.parse().ok()).unwrap_or(std::process::id());
    let source = arguments.next().and_then(|name| name.parse().ok());
    let snapshots: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);

    let start = Instant::now();
    let (mut capture, notes) = capture::open(pid, source)?;
    println!("{:?} opened in {:.1?}", capture.source(), start.elapsed());
    for note in notes {
        println!("note: {note}");
    }
    for place in 0..snapshots {
        let snapshot = capture.snapshot()?;
        let mut bytes = 0;
        let (mut copied, mut whole, mut unmoved, mut on_cpu, mut unreadable) = (0, 0, 0, 0, 0);
        for thread in &snapshot.threads {
            match &thread.stack {
                RawStack::Copied { bytes: stack, whole: all, .. } => {
                    copied += 1;
                    whole += usize::from(*all);
                    bytes += stack.len();
                }
                RawStack::Unmoved => unmoved += 1,
                RawStack::None => on_cpu += 1,
                RawStack::Unreadable(_) => unreadable += 1,
            }
            if snapshots == 1 {
                let stack = match &thread.stack {
                    RawStack::Copied { bytes, whole, .. } => format!("{} bytes, whole: {whole}", bytes.len()),
                    other => format!("{other:?}"),
                };
                println!(
                    "{} {:<16} {} on cpu: {} syscall {:?} {:x?} in {:?} switches {} cpu {} {:x?} {stack}",
                    thread.tid,
                    thread.name,
                    thread.state,
                    thread.on_cpu,
                    thread.syscall,
                    thread.arguments,
                    thread.wait_channel,
                    thread.switches,
                    thread.cpu_ns,
                    thread.registers,
                );
            }
        }
        let stopped: Duration = snapshot.threads.iter().map(|thread| thread.stopped).sum();
        println!(
            "{place}: {:.1?}, {} threads: {copied} copied ({whole} whole, {bytes} bytes), {unmoved} unmoved, \
             {on_cpu} on a CPU, {unreadable} unreadable, {} dropped, stopped {stopped:.1?}",
            snapshot.looked.took,
            snapshot.threads.len(),
            snapshot.looked.dropped,
        );
    }
    Ok(())
}
