//! Walks every thread of a process and says how long that took: `walk PID [quiet]`. Each thread is stopped for a
//! moment (ptrace): to measure unwinding and names, and to compare with gdb.
#![expect(clippy::print_stdout, reason = "an example's output")]

use std::collections::HashMap;
use std::fs;
use std::io::IoSliceMut;
use std::time::Instant;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::{ptrace, wait};
use nix::unistd::Pid;
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::names::Names;
use spindoctor_stacks::registers::Registers;
use spindoctor_stacks::unwind::Unwinder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid: u32 = std::env::args().nth(1).ok_or("walk PID [quiet]")?.parse()?;
    let quiet = std::env::args().nth(2).is_some();
    let stacks: Vec<u64> = fs::read_to_string(format!("/proc/{pid}/maps"))?
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split_once('-')?.1.split_once(' ')?.0, 16).ok())
        .collect();
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let tid: i32 = entry?.file_name().to_string_lossy().parse()?;
        let thread = Pid::from_raw(tid);
        ptrace::seize(thread, ptrace::Options::empty())?;
        ptrace::interrupt(thread)?;
        wait::waitpid(thread, Some(wait::WaitPidFlag::__WALL))?;
        let found = ptrace::getregs(thread)?;
        let end = stacks[stacks.partition_point(|&end| end <= found.rsp)];
        let mut bytes = vec![0; usize::try_from(end - found.rsp)?.min(256 << 10)];
        let remote = [RemoteIoVec { base: usize::try_from(found.rsp)?, len: bytes.len() }];
        process_vm_readv(thread, &mut [IoSliceMut::new(&mut bytes)], &remote)?;
        ptrace::detach(thread, None)?;
        threads.push((tid, Registers { pc: found.rip, sp: found.rsp, fp: Some(found.rbp), lr: None }, bytes));
    }
    let mut names = Names::new();
    let mut unwinder = Unwinder::new();
    let begun = Instant::now();
    let mut modules = Modules::of(pid)?;
    let opened = begun.elapsed();
    for round in 0..3 {
        let mut ends: HashMap<String, usize> = HashMap::new();
        let mut frames = 0;
        let (mut walking, mut naming) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
        for (tid, registers, bytes) in &threads {
            let mut addresses = Vec::new();
            let begun = Instant::now();
            let end = unwinder.walk(&mut modules, registers, registers.sp, bytes, true, &mut addresses);
            walking += begun.elapsed();
            *ends.entry(format!("{end:?}")).or_default() += 1;
            frames += addresses.len();
            let begun = Instant::now();
            for (index, &address) in addresses.iter().enumerate() {
                let found = names.frames(&mut modules, address, index > 0);
                if round == 0 && !quiet {
                    for frame in found {
                        println!("{tid} #{index} {address:#x} {} {:?}", frame.name, frame.location);
                    }
                }
            }
            naming += begun.elapsed();
        }
        println!("round {round}: open {opened:?} walk {walking:?} names {naming:?} frames {frames} {ends:?}");
    }
    println!("{:#?}", names.notes());
    let status = fs::read_to_string("/proc/self/status")?;
    for line in status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("Rss")) {
        println!("{line}");
    }
    Ok(())
}
