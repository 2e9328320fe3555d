//! The `procfs` source: what `/proc/PID/task/TID` says, and `process_vm_readv` for the stacks of blocked
//! threads. No thread is stopped.
//!
//! In: a process. Out: snapshots. For a blocked thread the kernel gives the program counter, the stack pointer and the
//! system call, and no other register. For a thread that runs or waits for a CPU it gives none of these, and does not
//! say which of the two the thread does.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use smol_str::SmolStr;
use spindoctor_model::stack::StackSource;

use super::{Capture, Looked, RawStack, RawThread, capabilities};
use crate::error::{Error, Result};
use crate::process::{Process, after_name, is_gone};
use crate::process_memory;
use crate::registers::Registers;

/// As much of one stack as is copied, as in `bpf/snapshot.h`.
const MAX_STACK: usize = 128 << 10;

/// The `procfs` source.
#[derive(Debug)]
pub struct Procfs {
    process: Process,
    reader: StackReader,
    /// The threads whose stacks the last snapshot has.
    last: HashMap<u32, Blocked>,
}

/// A thread that was blocked and whose stack was read.
#[derive(Debug, Clone)]
struct Blocked {
    ran: Ran,
    position: Position,
    state: char,
    name: SmolStr,
    wait_channel: Option<String>,
    thread_pointer: Option<u64>,
}

impl Procfs {
    /// Looks whether the process may be read.
    ///
    /// # Errors
    /// Where it may not, and which capability would change that.
    pub fn open(process: Process) -> Result<Self> {
        may_read(&process, "procfs")?;
        Ok(Self { process, reader: StackReader::new(), last: HashMap::new() })
    }

    fn thread(&mut self, tid: u32, stacks: &mut Vec<u8>) -> Option<RawThread> {
        let pid = self.process.pid();
        let ran = Ran::read(pid, tid)?;
        let position = Position::read(pid, tid).ok()?;
        if let (Some(last), Position::Blocked { .. }) = (self.last.get(&tid), position)
            && last.ran == ran
            && last.position == position
        {
            return Some(RawThread {
                name: last.name.clone(),
                state: last.state,
                wait_channel: last.wait_channel.clone(),
                thread_pointer: last.thread_pointer,
                stack: RawStack::Unmoved,
                ..thread_at(tid, ran, position)
            });
        }
        self.last.remove(&tid);
        let (name, state) = name_and_state(pid, tid)?;
        let mut thread = RawThread { name, state, ..thread_at(tid, ran, position) };
        match position {
            Position::Running => {
                thread.state = 'R';
                thread.stack = RawStack::Unreadable(
                    "it ran or waited for a CPU, and procfs says nothing about such a thread".to_owned(),
                );
            }
            Position::Blocked { sp: 0, .. } => {
                thread.registers = None;
                thread.syscall = None;
                thread.stack = RawStack::Unreadable("it has no stack in user space".to_owned());
            }
            Position::Blocked { sp, .. } => {
                thread.wait_channel = wait_channel(pid, tid);
                thread.stack = self.reader.read(tid, sp, stacks);
                if Ran::read(pid, tid) != Some(ran) {
                    thread.stack = RawStack::Unreadable("it ran while it was read".to_owned());
                } else if let RawStack::Copied { start, bytes, .. } = &thread.stack {
                    thread.thread_pointer = thread_pointer(*start, &stacks[bytes.clone()]);
                    let seen = Blocked {
                        ran,
                        position,
                        state,
                        name: thread.name.clone(),
                        wait_channel: thread.wait_channel.clone(),
                        thread_pointer: thread.thread_pointer,
                    };
                    self.last.insert(tid, seen);
                }
            }
        }
        Some(thread)
    }
}

impl Capture for Procfs {
    fn source(&self) -> StackSource {
        StackSource::Procfs
    }

    fn look(&mut self, each: &mut dyn FnMut(&RawThread, &[u8])) -> Result<Looked> {
        if !self.process.is_alive() {
            return Err(Error::NoProcess(self.process.pid()));
        }
        let tasks = self.process.tasks();
        let mut stack = Vec::new();
        let mut seen = false;
        // Of threads that end between the list and the look nothing is lost.
        let mut looked = Looked::default();
        for &tid in &tasks {
            stack.clear();
            let begun = Instant::now();
            let thread = self.thread(tid, &mut stack);
            looked.took += begun.elapsed();
            if let Some(thread) = thread {
                seen = true;
                each(&thread, &stack);
            }
        }
        if !seen {
            return Err(Error::NoProcess(self.process.pid()));
        }
        if self.last.len() > tasks.len() {
            self.last.retain(|tid, _| tasks.contains(tid));
        }
        Ok(looked)
    }
}

/// Fails where the files of a process may not be read.
pub(super) fn may_read(process: &Process, source_name: &'static str) -> Result<()> {
    let pid = process.pid();
    match Position::read(pid, pid) {
        Ok(_) => Ok(()),
        Err(error) if is_gone(&error) && !process.is_alive() => Err(Error::NoProcess(pid)),
        Err(error) if is_gone(&error) => Err(Error::Unavailable {
            source_name,
            because: "the kernel has no /proc/PID/syscall".to_owned(),
            unlock: "it needs one that is built with CONFIG_HAVE_ARCH_TRACEHOOK".to_owned(),
        }),
        Err(error) => {
            let missing = capabilities::missing(&[capabilities::SYS_PTRACE, capabilities::DAC_READ_SEARCH]);
            let without = match missing.is_empty() {
                true => String::new(),
                false => format!(" without {}", missing.join(" and ")),
            };
            Err(Error::Unavailable {
                source_name,
                because: format!("another user's process may not be read{without}: {error}"),
                unlock: "run as root or as the user of the process, or grant CAP_SYS_PTRACE and \
                         CAP_DAC_READ_SEARCH"
                    .to_owned(),
            })
        }
    }
}

/// What a look at a thread begins with, as far as it is known without its stack.
fn thread_at(tid: u32, ran: Ran, position: Position) -> RawThread {
    let mut thread = RawThread { tid, switches: ran.times, cpu_ns: ran.cpu_ns, ..RawThread::default() };
    if let Position::Blocked { syscall, arguments, sp, pc } = position {
        thread.syscall = syscall;
        thread.arguments = arguments;
        thread.registers = Some(Registers { pc, sp, fp: None, lr: None });
    }
    thread
}

/// One thread by procfs, without its stack.
pub(super) fn look_without_stack(pid: u32, tid: u32) -> Option<RawThread> {
    let ran = Ran::read(pid, tid)?;
    let position = Position::read(pid, tid).ok()?;
    let (name, state) = name_and_state(pid, tid)?;
    Some(RawThread { name, state, wait_channel: wait_channel(pid, tid), ..thread_at(tid, ran, position) })
}

/// Where a thread keeps its control block, found in its stack: procfs does not show it. glibc puts the block at the
/// stack's end, aligned to 64 bytes; on x86-64 its first and its third word hold its own address, the second that of
/// something else (`tcbhead_t` in `sysdeps/x86_64/nptl/tls.h`). The first thread's lies elsewhere, aarch64's does not
/// name itself.
#[cfg(target_arch = "x86_64")]
fn thread_pointer(start: u64, stack: &[u8]) -> Option<u64> {
    const ALIGNMENT: u64 = 64;
    let first = start.next_multiple_of(ALIGNMENT);
    let skipped = usize::try_from(first - start).ok()?;
    let blocks = stack.get(skipped..)?.chunks(ALIGNMENT as usize);
    (first..).step_by(ALIGNMENT as usize).zip(blocks).find_map(|(address, block)| {
        let word = |at: usize| Some(u64::from_ne_bytes(block.get(at..at + 8)?.try_into().ok()?));
        let is_control_block =
            word(0)? == address && word(16)? == address && ![0, address].contains(&word(8)?);
        is_control_block.then_some(address)
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn thread_pointer(_start: u64, _stack: &[u8]) -> Option<u64> {
    None
}

/// The kernel's function that a thread sleeps in.
pub(super) fn wait_channel(pid: u32, tid: u32) -> Option<String> {
    let channel = read_text(pid, tid, "wchan").ok()?;
    (!channel.is_empty() && channel != "0").then_some(channel)
}

/// A blocked thread's stack pointer; none where it runs.
pub(super) fn stack_pointer(pid: u32, tid: u32) -> Option<io::Result<u64>> {
    match Position::read(pid, tid) {
        Ok(Position::Running) => None,
        Ok(Position::Blocked { sp, .. }) => Some(Ok(sp)),
        Err(error) => Some(Err(error)),
    }
}

/// Eight bytes of a thread's memory.
pub(super) fn word(tid: u32, address: u64) -> Option<u64> {
    process_memory::read_array(tid, address).map(u64::from_ne_bytes)
}

pub(crate) fn read_text(pid: u32, tid: u32, name: &str) -> io::Result<String> {
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/{name}"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn name_and_state(pid: u32, tid: u32) -> Option<(SmolStr, char)> {
    let stat = read_text(pid, tid, "stat").ok()?;
    let name = SmolStr::from(stat.split_once('(')?.1.rsplit_once(')')?.0);
    let state = after_name(&stat).next()?.chars().next()?;
    Some((name, state))
}

/// How much a thread has run. Where neither number changes, it has not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    cpu_ns: u64,
    /// How often it was given a CPU: one more than it was switched away from one.
    times: u64,
}

impl Ran {
    pub(crate) fn read(pid: u32, tid: u32) -> Option<Self> {
        Self::parse(&read_text(pid, tid, "schedstat").ok()?)
    }

    /// Linux 2.6.23 to 6.18: time on a CPU and waiting for one, nanoseconds; times that it got one.
    /// `10310461 1024508 37`
    fn parse(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_ascii_whitespace();
        Some(Self { cpu_ns: fields.next()?.parse().ok()?, times: fields.nth(1)?.parse().ok()? })
    }
}

/// Where a thread is, by `/proc/PID/task/TID/syscall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    Running,
    Blocked { syscall: Option<u64>, arguments: [u64; 3], sp: u64, pc: u64 },
}

impl Position {
    pub(crate) fn read(pid: u32, tid: u32) -> io::Result<Self> {
        let text = read_text(pid, tid, "syscall")?;
        Self::parse(&text).ok_or_else(|| io::Error::other(format!("not understood: {text}")))
    }

    /// Linux 2.6.27 to 6.18: `running`; or the number of the call, its six arguments, SP and PC; or, blocked
    /// in none, -1, SP and PC.
    /// `202 0x7f2a8c000b78 0x189 0x0 0x0 0x0 0xffffffff 0x7f2aa2bfe9c0 0x7f2aa3c89d46`
    fn parse(syscall: &str) -> Option<Self> {
        let syscall = syscall.trim_end();
        if syscall == "running" {
            return Some(Self::Running);
        }
        let mut fields = syscall.split(' ');
        let number: i64 = fields.next()?.parse().ok()?;
        let mut words = Vec::with_capacity(8);
        for field in fields {
            words.push(u64::from_str_radix(field.strip_prefix("0x")?, 16).ok()?);
        }
        let (arguments, &[sp, pc]) = words.split_last_chunk()?;
        Some(Self::Blocked {
            syscall: u64::try_from(number).ok(),
            arguments: arguments.first_chunk().copied().unwrap_or_default(),
            sp,
            pc,
        })
    }
}

/// Reads stacks of a process whose threads hold still.
#[derive(Debug)]
pub(super) struct StackReader {
    buffer: Vec<u8>,
}

impl StackReader {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; MAX_STACK] }
    }

    /// From a thread's stack pointer to the end of the mapping, or as much as is read at all. The bytes are added to
    /// `stacks`.
    pub(super) fn read(&mut self, tid: u32, sp: u64, stacks: &mut Vec<u8>) -> RawStack {
        if sp.checked_add(MAX_STACK as u64).is_none() {
            return RawStack::Unreadable("its stack pointer points nowhere".to_owned());
        }
        match process_memory::read(tid, sp, &mut self.buffer) {
            Ok(read) => {
                let from = stacks.len();
                stacks.extend(&self.buffer[..read]);
                RawStack::Copied { start: sp, bytes: from..stacks.len(), whole: read < MAX_STACK }
            }
            Err(error) => RawStack::Unreadable(format!("the kernel refused: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syscall_line_shows_the_call_its_arguments_and_the_registers() {
        let line = "202 0x7f2a8c000b78 0x189 0x5 0x0 0x0 0xffffffff 0x7f2aa2bfe9c0 0x7f2aa3c89d46\n";
        assert_eq!(
            Position::parse(line),
            Some(Position::Blocked {
                syscall: Some(202),
                arguments: [0x7f2a_8c00_0b78, 0x189, 5],
                sp: 0x7f2a_a2bf_e9c0,
                pc: 0x7f2a_a3c8_9d46,
            })
        );
    }

    #[test]
    fn a_thread_in_no_system_call_has_two_registers_and_no_arguments() {
        let blocked = Position::parse("-1 0x7ffd0010 0x401000\n");
        assert_eq!(
            blocked,
            Some(Position::Blocked { syscall: None, arguments: [0; 3], sp: 0x7ffd_0010, pc: 0x0040_1000 })
        );
        assert_eq!(Position::parse("running\n"), Some(Position::Running));
    }

    #[test]
    fn lines_that_are_cut_off_are_not_understood() {
        for line in ["", "202", "202 0x1", "x 0x1 0x2", "7 1 2"] {
            assert_eq!(Position::parse(line), None, "{line}");
        }
        assert_eq!(Ran::parse("1 2"), None);
        assert_eq!(Ran::parse("5 6 7\n"), Some(Ran { cpu_ns: 5, times: 7 }));
    }
}
