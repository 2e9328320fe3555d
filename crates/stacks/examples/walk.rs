//! Takes snapshots of a process, walks and names every stack, and says what that cost.
//!
//! `cargo run --release --example walk -- PID [bpf|procfs|ptrace] [SNAPSHOTS]`: one snapshot prints the frames; of
//! several, only the costs. Every stack is walked again in each snapshot, also of threads that have not moved.

#![expect(clippy::print_stdout, reason = "an example's result is what it prints")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use spindoctor_stacks::capture::{self, RawStack, RawThread};
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::names::Names;
use spindoctor_stacks::unwind::{Copied, Unwinder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid: u32 = arguments.next().ok_or("walk PID [bpf|procfs|ptrace] [SNAPSHOTS]")?.parse()?;
    let source = arguments.next().and_then(|name| name.parse().ok());
    let snapshots: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;

    let begun = Instant::now();
    let (mut capture, notes) = capture::open(pid, source)?;
    println!("{:?} opened in {:.1?} {notes:?}", capture.source(), begun.elapsed());
    let begun = Instant::now();
    let mut modules = Modules::of_process(pid)?;
    println!("maps read in {:.1?}", begun.elapsed());
    let mut unwinder = Unwinder::new();
    let mut names = Names::new();
    let mut threads: HashMap<u32, (RawThread, Vec<u8>)> = HashMap::new();
    for _ in 0..snapshots {
        let snapshot = capture.snapshot()?;
        for thread in snapshot.threads {
            if !matches!(thread.stack, RawStack::Unmoved) {
                let bytes = match &thread.stack {
                    RawStack::Copied { bytes, .. } => snapshot.stacks[bytes.clone()].to_vec(),
                    _ => Vec::new(),
                };
                threads.insert(thread.tid, (thread, bytes));
            }
        }
        let (mut walking, mut naming) = (Duration::ZERO, Duration::ZERO);
        let mut frames = 0;
        let mut ends: HashMap<String, usize> = HashMap::new();
        let mut addresses = Vec::new();
        for (thread, stack) in threads.values() {
            let (Some(registers), RawStack::Copied { start, whole, .. }) = (&thread.registers, &thread.stack)
            else {
                *ends.entry(format!("{:?}", thread.stack)).or_default() += 1;
                continue;
            };
            let begun = Instant::now();
            let copied = Copied { start: *start, bytes: stack, whole: *whole };
            let end = unwinder.walk(&mut modules, registers, copied, &mut addresses);
            walking += begun.elapsed();
            *ends.entry(format!("{end:?}")).or_default() += 1;
            let begun = Instant::now();
            for (index, &address) in addresses.iter().enumerate() {
                let is_return = index > 0 && !unwinder.interrupted().contains(&index);
                let found = names.frames(&mut modules, address, is_return);
                frames += found.len();
                if snapshots == 1 {
                    for frame in found {
                        println!("{} #{index} {address:#x} {} {:?}", thread.tid, frame.name, frame.location);
                    }
                }
            }
            naming += begun.elapsed();
        }
        println!(
            "{} threads: captured in {:.1?}, walked in {walking:.1?}, {frames} frames named in {naming:.1?}, {ends:?}",
            threads.len(),
            snapshot.looked.took,
        );
    }
    println!("{:?} {:?}", modules.notes(), names.notes());
    let status = std::fs::read_to_string("/proc/self/status")?;
    for line in status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("Rss")) {
        println!("{line}");
    }
    Ok(())
}
