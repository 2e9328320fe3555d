//! Where snapshots come from: one file per source, the best first in [`SOURCES`].
//!
//! In: a process. Out: for each thread what the kernel says about it, its registers, and as
//! many bytes of its stack as were wanted. No file is opened here but those of `/proc/PID`, nothing is named.

pub mod bpf;
pub mod calls;
mod capabilities;
pub mod counts;
pub mod cpu;
pub(crate) mod kernel_names;
mod kernel_program;
mod kernel_types;
mod loaded;
pub mod procfs;
pub mod ptrace;
mod sleep_cost;
pub mod tracee;
pub mod trigger;
mod uprobe;
pub mod waits;

use std::collections::hash_map::Entry;
use std::ops::Range;
use std::time::Duration;

use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use spindoctor_model::stack::StackSource;

use crate::error::{Error, Result};
use crate::process::Process;
use crate::registers::Registers;

/// A source of whole-process snapshots.
pub trait Capture {
    /// Which one.
    fn source(&self) -> StackSource;

    /// Looks at every thread once, and hands each over with the bytes that its [`RawStack::Copied`] is in. A thread may
    /// be handed over twice where others came and went meanwhile: what is said later is newer.
    ///
    /// # Errors
    /// Where the process is gone, or nothing of it may be read any more. What goes wrong with one thread
    /// stands in its [`RawThread`].
    fn look(&mut self, each: &mut dyn FnMut(&RawThread, &[u8])) -> Result<Looked>;

    /// From now on no byte of a stack is needed that lies less than this below the thread pointer; where it turns out
    /// that one is, zero takes it back. A source may copy it all the same.
    fn stacks_end_below_thread_pointer(&mut self, _bytes: u64) {}

    /// Looks at every thread once, and keeps all that is seen.
    ///
    /// # Errors
    /// As for [`Capture::look`].
    fn snapshot(&mut self) -> Result<RawSnapshot> {
        let mut snapshot = RawSnapshot::default();
        let RawSnapshot { threads, stacks, .. } = &mut snapshot;
        let mut place: FxHashMap<u32, usize> = FxHashMap::default();
        let looked = self.look(&mut |thread, copied| {
            let mut thread = thread.clone();
            if let RawStack::Copied { bytes, .. } = &mut thread.stack {
                let begin = stacks.len();
                stacks.extend_from_slice(&copied[bytes.clone()]);
                *bytes = begin..stacks.len();
            }
            match place.entry(thread.tid) {
                Entry::Vacant(entry) => {
                    entry.insert(threads.len());
                    threads.push(thread);
                }
                Entry::Occupied(entry) => threads[*entry.get()] = thread,
            }
        })?;
        Ok(RawSnapshot { looked, ..snapshot })
    }
}

/// What is to be said of a look at all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// What the reading took, without what was done meanwhile with that which was handed over.
    pub took: Duration,
    /// Threads that were seen and could not be handed over.
    pub dropped: u32,
}

/// Every thread of a process at about one instant.
#[derive(Debug, Clone, Default)]
pub struct RawSnapshot {
    /// How it went.
    pub looked: Looked,
    /// The threads, in the kernel's order.
    pub threads: Vec<RawThread>,
    /// What was copied of their stacks; the threads say where.
    pub stacks: Vec<u8>,
}

/// What the kernel says about one thread.
#[derive(Debug, Clone, Default)]
pub struct RawThread {
    /// Thread id, in the profiler's pid namespace.
    pub tid: u32,
    /// `comm`.
    pub name: SmolStr,
    /// The kernel's state letter: R, S, D, T, t, Z, X, I.
    pub state: char,
    /// True where it was on a CPU at that instant: its registers are those of its last entry into the kernel.
    pub on_cpu: bool,
    /// The system call it is in, as the architecture numbers them; none where it is in none or it is unknown.
    pub syscall: Option<u64>,
    /// The first three arguments of that call, where the source reads them: the futex, the descriptor.
    pub arguments: [u64; 3],
    /// The kernel function it sleeps in (`wchan`), where the source reads it.
    pub wait_channel: Option<String>,
    /// Voluntary and involuntary context switches since its start.
    pub switches: u64,
    /// CPU time since its start, nanoseconds.
    pub cpu_ns: u64,
    /// For how long it has been on no CPU, to some milliseconds, where the source knows it.
    pub off_cpu: Option<Duration>,
    /// Its registers in user space.
    pub registers: Option<Registers>,
    /// Where it keeps its control block, where the source knows it: the fs base, `tpidr_el0`.
    pub thread_pointer: Option<u64>,
    /// Its stack.
    pub stack: RawStack,
    /// For how long it was stopped for this; zero but for ptrace.
    pub stopped: Duration,
}

/// What was read of a thread's stack.
#[derive(Debug, Clone, Default)]
pub enum RawStack {
    /// The bytes from the stack pointer upwards.
    Copied {
        /// The address of the first byte: the stack pointer, or below it where there is a red zone.
        start: u64,
        /// What was there: where in the bytes that the thread was handed over with.
        bytes: Range<usize>,
        /// True where the copy ends at the end of the stack, not at a limit of the source.
        whole: bool,
    },
    /// It was on no CPU since its stack was last copied: all but its state is as it was, and may be left out.
    Unmoved,
    /// Nothing: it was on a CPU, or nobody asked.
    #[default]
    None,
    /// Nothing, and why: `it ran while it was read`, `the kernel refused: EPERM`.
    Unreadable(String),
}

/// One CPU sample of the `cpu` source.
#[derive(Debug, Clone, Default)]
pub struct RawCpuSample {
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The address that was sampled: in the kernel where `kernel` is not empty.
    pub address: u64,
    /// Kernel frames, innermost first.
    pub kernel: Vec<u64>,
    /// Registers in user space.
    pub registers: Registers,
    /// The address of the first byte of its stack.
    pub stack_start: u64,
    /// The bytes from there upwards: where in the `stacks` of the [`CpuSamples`] that it is in.
    pub stack: Range<usize>,
}

/// CPU samples, and what was copied of the stacks.
#[derive(Debug, Clone, Default)]
pub struct CpuSamples {
    /// In order of time.
    pub samples: Vec<RawCpuSample>,
    /// Their stacks.
    pub stacks: Vec<u8>,
    /// How many more were lost: the buffers were full.
    pub lost: u64,
}

/// The sources of snapshots, the best first: the first that can be used is taken, `ptrace` only by name.
pub const SOURCES: [StackSource; 3] = [StackSource::Bpf, StackSource::Procfs, StackSource::Ptrace];

/// Opens a source for a process: the one that is `wanted`, else the best that can be used here.
///
/// With it come notes: which better sources were passed over, and why.
///
/// # Errors
/// Where there is no such process, or where the wanted source, or every source, cannot be used on it.
pub fn open(pid: u32, wanted: Option<StackSource>) -> Result<(Box<dyn Capture>, Vec<String>)> {
    if let Some(source) = wanted {
        return Ok((open_source(pid, source)?, Vec::new()));
    }
    let mut notes = Vec::new();
    let mut last = Error::NoProcess(pid);
    for source in SOURCES {
        if source == StackSource::Ptrace {
            continue;
        }
        match open_source(pid, source) {
            Ok(capture) => return Ok((capture, notes)),
            Err(error @ (Error::NoProcess(_) | Error::NotProfilable { .. })) => return Err(error),
            Err(error) => {
                notes.push(error.to_string());
                last = error;
            }
        }
    }
    Err(last)
}

fn open_source(pid: u32, source: StackSource) -> Result<Box<dyn Capture>> {
    let process = Process::open(pid)?;
    Ok(match source {
        StackSource::Bpf => Box::new(bpf::Bpf::open(process)?),
        StackSource::Procfs => Box::new(procfs::Procfs::open(process)?),
        StackSource::Ptrace => Box::new(ptrace::Ptrace::open(process)?),
        StackSource::Cpu => {
            return Err(Error::Unavailable {
                source_name: "cpu",
                because: "it takes samples of what runs, no snapshots".to_owned(),
                unlock: "start it as a profile of CPU samples".to_owned(),
            });
        }
    })
}
