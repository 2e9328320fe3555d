//! The `bpf` source: a task iterator in the kernel copies every thread's registers and stack, and stops none.
//!
//! In: a process. Out: snapshots. `bpf/snapshot.bpf.c` is the program; what both share is in
//! `bpf/snapshot.h`. The object is checked in (`make bpf` rebuilds it) and holds for any kernel with BTF.
//!
//! Linux 5.18 or newer: sleepable iterators and `bpf_copy_from_user_task`.

#![expect(
    unsafe_code,
    reason = "bpf(2) for the iterator's task filter, and the arena that the program writes to"
)]

use std::error::Error as StdError;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use aya_obj::btf::BtfKind;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use spindoctor_model::stack::StackSource;

use super::kernel_program::{Aligned, BPF_LINK_CREATE, SharedMap, bpf, refused};
use super::loaded::{Kind, Loaded};
use super::{Capture, Looked, RawStack, RawThread, kernel_types, procfs};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::registers::Registers;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/snapshot.bpf.o"));

/// As errors name it.
const NAME: &str = "bpf";

/// How often the threads are walked again where a walk ended early. The kernel's walk ends where the thread
/// that it stands on ends; one more walk is nearly always enough.
const WALKS: usize = 4;

/// The `bpf` source.
pub struct Bpf {
    process: Process,
    arena: Arena,
    /// The program and its maps live as long as this.
    link: OwnedFd,
}

impl Bpf {
    /// Loads the program and points it at a process.
    ///
    /// # Errors
    /// Where the kernel has no such program, or this process may not load one.
    pub fn open(process: Process) -> Result<Self> {
        let refused = |error: &(dyn StdError + 'static)| refused(NAME, error);
        let types = kernel_types::those_of(OBJECT, &[ITERATOR], NAME)?;
        let object = Loaded::of_object(OBJECT, Some(&types)).map_err(|error| refused(&*error))?;
        let iterator = types.id_by_type_name_kind(ITERATOR, BtfKind::Func);
        let kind = Kind {
            program: BPF_PROG_TYPE_TRACING,
            attach: BPF_TRACE_ITER,
            flags: BPF_F_SLEEPABLE,
            instead_of: iterator.map_err(|error| refused(&error))?,
        };
        let program = object.program("snapshot", kind).map_err(|error| refused(&*error))?;
        let link = link_to_tasks(program.as_fd(), process.pid()).map_err(|error| refused(&error))?;
        let arena = SharedMap::of_map(object.map("arena"), Arena::LENGTH);
        let arena = Arena(arena.map_err(|error| refused(&error))?);
        let mut control = arena.control();
        control.pid = process.pid();
        control.epoch = 1;
        arena.set_control(control);
        Ok(Self { process, arena, link })
    }

    /// One walk over the threads, in as many readings as the arena needs.
    fn walk(&mut self, walk: &mut Walk<'_>) -> io::Result<()> {
        let iterator = new_iterator(self.link.as_fd())?;
        loop {
            self.arena.clear();
            let begun = Instant::now();
            // The program writes nothing into the file: what counts is that it runs.
            let is_full = match rustix::io::read(&iterator, &mut [0; 64]) {
                Ok(_) | Err(rustix::io::Errno::INTR) => false,
                Err(rustix::io::Errno::AGAIN) => true,
                Err(error) => return Err(error.into()),
            };
            walk.took += begun.elapsed();
            if self.arena.control().records == 0 {
                return Ok(());
            }
            self.hand_over(walk);
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Hands over the threads in the arena.
    fn hand_over(&self, walk: &mut Walk<'_>) {
        let bytes = self.arena.bytes();
        let now_ns = self.arena.control().now_ns;
        let mut at = 0;
        while let Some((mut thread, length)) = bytes.get(at..).and_then(|record| read_thread(record, now_ns))
        {
            if let RawStack::Copied { bytes, .. } = &mut thread.stack {
                *bytes = at + bytes.start..at + bytes.end;
            }
            at += length;
            let moved = !matches!(thread.stack, RawStack::Unmoved);
            if moved && thread.wait_channel.is_none() && sleeps_unexplained(&thread) {
                thread.wait_channel = procfs::wait_channel(self.process.pid(), thread.tid);
            }
            walk.hand_over(&thread, bytes);
        }
    }

    /// What the walks saw is not what the next snapshot compares with: it copies every stack again.
    fn forget(&mut self) {
        let mut control = self.arena.control();
        control.epoch += 1;
        self.arena.set_control(control);
    }
}

impl Capture for Bpf {
    fn source(&self) -> StackSource {
        StackSource::Bpf
    }

    fn look(&mut self, each: &mut dyn FnMut(&RawThread, &[u8])) -> Result<Looked> {
        if !self.process.is_alive() {
            return Err(Error::NoProcess(self.process.pid()));
        }
        let expected = self.arena.control().nr_threads as usize;
        let mut walk = Walk { each, seen: Vec::with_capacity(expected), earlier: None, took: Duration::ZERO };
        let mut expected = 0;
        for _ in 0..WALKS {
            if let Err(error) = self.walk(&mut walk) {
                self.forget();
                return Err(refused(NAME, &error));
            }
            expected = self.arena.control().nr_threads as usize;
            if walk.seen.len() >= expected {
                break;
            }
            walk.earlier = Some(walk.seen.iter().copied().collect());
        }
        if walk.seen.is_empty() {
            return Err(Error::NoProcess(self.process.pid()));
        }
        let dropped = u32::try_from(expected.saturating_sub(walk.seen.len())).unwrap_or(u32::MAX);
        Ok(Looked { took: walk.took, dropped })
    }

    fn stacks_end_below_thread_pointer(&mut self, bytes: u64) {
        let mut control = self.arena.control();
        if bytes < control.below_thread_pointer {
            // What is missing is copied.
            control.epoch += 1;
        }
        control.below_thread_pointer = bytes;
        self.arena.set_control(control);
    }
}

/// Walks over the threads for one snapshot.
struct Walk<'a> {
    each: &'a mut dyn FnMut(&RawThread, &[u8]),
    /// Each thread once.
    seen: Vec<u32>,
    /// Those of the walks before this one, where there were any.
    earlier: Option<FxHashSet<u32>>,
    took: Duration,
}

impl Walk<'_> {
    fn hand_over(&mut self, thread: &RawThread, bytes: &[u8]) {
        if self.earlier.as_ref().is_some_and(|earlier| earlier.contains(&thread.tid)) {
            // For a thread that has not moved since the walk before, that walk knows more.
            if matches!(thread.stack, RawStack::Unmoved) {
                return;
            }
        } else {
            self.seen.push(thread.tid);
        }
        (self.each)(thread, bytes);
    }
}

/// True where the system call does not say what it waits for: it is in none (a page fault), or waits for a
/// disk or a lock of the kernel. Reading the wait channel takes some microseconds a thread.
fn sleeps_unexplained(thread: &RawThread) -> bool {
    thread.state == 'D' || (thread.state == 'S' && thread.syscall.is_none())
}

/// `struct control` of `bpf/snapshot.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    pid: u32,
    nr_threads: u32,
    epoch: u64,
    used: u64,
    records: u64,
    now_ns: u64,
    below_thread_pointer: u64,
}

/// `struct thread_head` of `bpf/snapshot.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ThreadHead {
    tid: u32,
    state: u32,
    exit_state: u32,
    flags: u32,
    switches: u64,
    bytes: u64,
}

/// `struct thread_body` of `bpf/snapshot.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ThreadBody {
    cpu_ns: u64,
    left_cpu_ns: u64,
    syscall: i64,
    arguments: [u64; 3],
    pc: u64,
    sp: u64,
    fp: u64,
    lr: u64,
    thread_pointer: u64,
    comm: [u8; 16],
    stack_bytes: u64,
}

/// `ARENA_BYTES` of `bpf/snapshot.h`.
const ARENA_BYTES: usize = 320 << 10;

// The flags of a record, in `bpf/snapshot.h`.
const ON_CPU: u32 = 1;
const UNMOVED: u32 = 2;
const RAN: u32 = 4;
const WHOLE: u32 = 8;
const FROZEN: u32 = 16;
const NO_STACK: u32 = 32;

/// What the program writes.
///
/// # Safety
/// Any bytes are a valid one: it has numbers only.
unsafe trait Written: Copy {}
// SAFETY: numbers only.
unsafe impl Written for ThreadHead {}
// SAFETY: numbers only.
unsafe impl Written for ThreadBody {}

/// The one at the beginning of some bytes.
fn read<T: Written>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: as many bytes as it has, and any bytes are a valid one.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The thread of the first record of some bytes, and how long the record is. Its stack's place counts from there.
fn read_thread(record: &[u8], now_ns: u64) -> Option<(RawThread, usize)> {
    let head: ThreadHead = read(record)?;
    let has = |flag| head.flags & flag != 0;
    let thread = RawThread {
        tid: head.tid,
        state: state_letter(head.state, head.exit_state),
        // Where the kernel holds threads of a frozen cgroup, under that name since 5.2.
        wait_channel: has(FROZEN).then(|| "do_freezer_trap".to_owned()),
        switches: head.switches,
        ..RawThread::default()
    };
    let after_head = size_of::<ThreadHead>();
    if has(UNMOVED) {
        return Some((RawThread { stack: RawStack::Unmoved, ..thread }, after_head));
    }
    let length = usize::try_from(head.bytes).unwrap_or(usize::MAX).min(record.len() - after_head);
    let (record, length) = (&record[..after_head + length], after_head + length);
    let body: ThreadBody = read(&record[after_head..])?;
    let stack = after_head + size_of::<ThreadBody>();
    let stack_bytes = usize::try_from(body.stack_bytes).unwrap_or(usize::MAX).min(length - stack);
    Some((body.thread(thread, &head, stack..stack + stack_bytes, now_ns), length))
}

impl ThreadBody {
    fn thread(&self, thread: RawThread, head: &ThreadHead, stack: Range<usize>, now_ns: u64) -> RawThread {
        let has = |flag| head.flags & flag != 0;
        let name = self.comm.split(|&byte| byte == 0).next().unwrap_or_default();
        let thread = RawThread {
            name: SmolStr::from(String::from_utf8_lossy(name)),
            on_cpu: has(ON_CPU),
            cpu_ns: self.cpu_ns,
            off_cpu: (self.left_cpu_ns != 0 && !has(ON_CPU))
                .then(|| Duration::from_nanos(now_ns.saturating_sub(self.left_cpu_ns))),
            ..thread
        };
        if has(NO_STACK) {
            return RawThread {
                stack: RawStack::Unreadable("it has no stack in user space".to_owned()),
                ..thread
            };
        }
        RawThread {
            syscall: u64::try_from(self.syscall).ok(),
            arguments: self.arguments,
            registers: Some(Registers {
                pc: self.pc,
                sp: self.sp,
                fp: Some(self.fp),
                lr: cfg!(target_arch = "aarch64").then_some(self.lr),
            }),
            thread_pointer: Some(self.thread_pointer).filter(|&pointer| pointer != 0),
            stack: if has(ON_CPU) {
                RawStack::None
            } else if has(RAN) {
                RawStack::Unreadable("it ran while it was read".to_owned())
            } else if stack.is_empty() {
                RawStack::Unreadable("its stack is not mapped".to_owned())
            } else {
                RawStack::Copied { start: self.sp, bytes: stack, whole: has(WHOLE) }
            },
            ..thread
        }
    }
}

/// As fs/proc/array.c has it (`get_task_state`, Linux 5.14 to 6.18), from the bits of include/linux/sched.h.
fn state_letter(state: u32, exit_state: u32) -> char {
    const IDLE: u32 = 0x402; // uninterruptible, and not part of the load
    match exit_state {
        0 => {}
        0x20 => return 'Z',
        _ => return 'X',
    }
    match state & 0x5f {
        _ if state & IDLE == IDLE => 'I',
        // Frozen by a suspend, or on a lock of a real-time kernel: shown as uninterruptible.
        _ if state & 0x9000 != 0 => 'D',
        0 => 'R',
        bits if bits & 1 != 0 => 'S',
        bits if bits & 2 != 0 => 'D',
        bits if bits & 4 != 0 => 'T',
        bits if bits & 8 != 0 => 't',
        bits if bits & 0x10 != 0 => 'X',
        _ => 'P',
    }
}

/// The program's arena, mapped.
struct Arena(SharedMap);

impl Arena {
    const LENGTH: usize = size_of::<Control>() + ARENA_BYTES;

    fn control(&self) -> Control {
        // SAFETY: the arena begins with it, page-aligned. The program writes only while this thread, which
        // holds the only reference to the iterator, is in read(2).
        unsafe { self.0.start().cast::<Control>().read_volatile() }
    }

    fn set_control(&self, control: Control) {
        // SAFETY: as in `control`.
        unsafe { self.0.start().cast::<Control>().write_volatile(control) }
    }

    /// The records, each with its bytes of stack behind it, aligned to 8.
    fn bytes(&self) -> &[u8] {
        let used = usize::try_from(self.control().used).unwrap_or(ARENA_BYTES).min(ARENA_BYTES);
        // SAFETY: `used` bytes after the control are mapped; the program writes behind them only, and only in
        // read(2).
        unsafe { std::slice::from_raw_parts(self.0.start().add(size_of::<Control>()).as_ptr(), used) }
    }

    fn clear(&mut self) {
        let mut control = self.control();
        control.used = 0;
        control.records = 0;
        self.set_control(control);
    }
}

/// From include/uapi/linux/bpf.h.
const BPF_ITER_CREATE: libc::c_long = 33;
const BPF_TRACE_ITER: u32 = 28;
/// The kernel's function that an iterator over threads takes the place of.
const ITERATOR: &str = "bpf_iter_task";
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_F_SLEEPABLE: u32 = 1 << 4;

/// `union bpf_iter_link_info` of include/uapi/linux/bpf.h, its `task`.
#[repr(C)]
struct TaskFilter {
    tid: u32,
    pid: u32,
    pid_fd: u32,
    unused: u32,
}

/// `union bpf_attr` of include/uapi/linux/bpf.h, its `link_create`.
#[repr(C)]
struct LinkCreate {
    program: i32,
    target: u32,
    attach_type: u32,
    flags: u32,
    iterator_info: u64,
    iterator_info_length: u32,
    unused: u32,
}

/// `union bpf_attr`, its `iter_create`.
#[repr(C)]
struct IteratorCreate {
    link: i32,
    flags: u32,
}

/// A link whose iterators walk the threads of one process. Kernels before 6.1 have no such filter: there they
/// walk all threads, and the program looks only at those of the process.
fn link_to_tasks(program: BorrowedFd<'_>, pid: u32) -> io::Result<OwnedFd> {
    let filter = TaskFilter { tid: 0, pid, pid_fd: 0, unused: 0 };
    let mut attributes = LinkCreate {
        program: program.as_raw_fd(),
        target: 0,
        attach_type: BPF_TRACE_ITER,
        flags: 0,
        iterator_info: (&raw const filter) as u64,
        iterator_info_length: size_of::<TaskFilter>() as u32,
        unused: 0,
    };
    match bpf(BPF_LINK_CREATE, &attributes) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::E2BIG | libc::EINVAL)) => {
            attributes.iterator_info = 0;
            attributes.iterator_info_length = 0;
            bpf(BPF_LINK_CREATE, &attributes)
        }
        linked => linked,
    }
}

fn new_iterator(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    bpf(BPF_ITER_CREATE, &IteratorCreate { link: link.as_raw_fd(), flags: 0 })
}
