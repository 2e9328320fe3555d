//! Finds out whether an address is in a spin-wait loop, by the machine code alone: no names, no table of functions, so
//! it works for any program of any version, stripped or not.
//!
//! A spin-wait loop is the smallest loop around a PAUSE (x86-64), YIELD or ISB (aarch64), as far as one turn of it can
//! pass the PAUSE: the check of the condition belongs to it, work that was found does not. A loop that reads no memory
//! is not waiting: it is a delay, as `ut_delay` in InnoDB, and the loop around it, which waits, counts too. A call of
//! a small function that is a delay is as good as a PAUSE.
//!
//! Loops are those of the control flow graph, as compilers put parts of a loop far away. A jump through a table is
//! not followed.
//!
//! In: an address and a source of the functions' code. Out: yes or no. Pure.

mod graph;
pub(crate) mod instruction;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

pub use instruction::Architecture;

use graph::Graph;
use instruction::{Flow, reads, sweep};

/// The machine code of a function, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The address of its first byte.
    pub start: u64,
    /// Its bytes, to its end.
    pub bytes: Vec<u8>,
    /// False where nobody knows where the function begins and ends: these are some bytes from the address on
    /// that was asked for.
    pub bounded: bool,
}

/// A source of machine code.
pub trait CodeSource {
    /// The function that an address lies in.
    fn function(&mut self, address: u64) -> Option<Function>;

    /// Where it begins and ends; none where nobody knows. To read a function takes a system call: nearly all that are
    /// called are too large for a delay, and need not be read.
    fn bounds(&mut self, address: u64) -> Option<Range<u64>> {
        let function = self.function(address).filter(|function| function.bounded)?;
        Some(function.start..function.start.saturating_add(function.bytes.len() as u64))
    }
}

impl<F: FnMut(u64) -> Option<Function>> CodeSource for F {
    fn function(&mut self, address: u64) -> Option<Function> {
        self(address)
    }
}

/// Any source of machine code.
pub type CodeOf<'a> = dyn CodeSource + 'a;

/// Most instructions that one turn of a spin-wait loop may pass. In MySQL 9.7.4 the commit spin has 55, the latch
/// spin 60. Larger are loops that have more to do: those of the redo log's threads (127 and more), and the search
/// of MariaDB's lock-free hash (127), which is busy without pausing when nobody is in its way. Of those only the
/// PAUSE itself counts.
const LARGEST_LOOP: usize = 64;
/// Most bytes of a function that is nothing but a delay: `ut_delay` of MySQL 9.7.4 has 50.
const LARGEST_DELAY: u64 = 128;
/// Most instructions that are followed in one function, so that a hostile program cannot keep the profiler busy.
const LARGEST_FUNCTION: usize = 40_000;

/// What is known about a function.
#[derive(Debug, Default)]
struct Known {
    /// It has no PAUSE, and calls no delay.
    plain: bool,
    /// The addresses that were looked at.
    seen: HashSet<u64>,
    /// The instructions that are part of a spin-wait loop.
    spinning: HashSet<u64>,
    /// Where calls return to that are part of a spin-wait loop.
    returns: HashSet<u64>,
}

/// Recognises spin-wait loops, and remembers what it found.
#[derive(Debug)]
pub struct SpinDecoder {
    architecture: Architecture,
    functions: HashMap<u64, Known>,
    /// By address: whether the function that begins there is a delay.
    delays: HashMap<u64, bool>,
    /// By where functions begin into whose midst others jump: whether they have a PAUSE or call a delay.
    elsewhere: HashMap<u64, bool>,
    /// By sampled address and the return address after it.
    answers: HashMap<(u64, Option<u64>), bool>,
}

impl SpinDecoder {
    /// Knows nothing yet.
    pub fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            functions: HashMap::new(),
            delays: HashMap::new(),
            elsewhere: HashMap::new(),
            answers: HashMap::new(),
        }
    }

    /// Forgets everything: other code may lie at the same addresses now.
    pub fn clear(&mut self) {
        *self = Self::new(self.architecture);
    }

    /// Whether a thread that was sampled there was spinning: the address is in a spin-wait loop, or in a function
    /// that such a loop calls. `stack` has the sampled address first, then return addresses.
    pub fn spins(&mut self, stack: &[u64], code: &mut CodeOf<'_>) -> bool {
        let Some(&address) = stack.first() else { return false };
        let key = (address, stack.get(1).copied());
        if let Some(&known) = self.answers.get(&key) {
            return known;
        }
        let answer = self.is_spin(address, code) || key.1.is_some_and(|to| self.returns_to_spin(to, code));
        self.answers.insert(key, answer);
        answer
    }

    /// Whether the instruction at an address is part of a spin-wait loop.
    pub fn is_spin(&mut self, address: u64, code: &mut CodeOf<'_>) -> bool {
        self.known(address, code).is_some_and(|known| known.spinning.contains(&address))
    }

    fn returns_to_spin(&mut self, address: u64, code: &mut CodeOf<'_>) -> bool {
        // The call is the instruction before, and may be the last of its function.
        // Where the beginning of the function is unknown, decoding must begin between two instructions.
        let call = address.wrapping_sub(1);
        let at = match code.bounds(call) {
            Some(bounds) => bounds.start,
            None if code.function(call).is_some() => address,
            None => return false,
        };
        self.known(at, code).is_some_and(|known| known.returns.contains(&address))
    }

    fn known(&mut self, address: u64, code: &mut CodeOf<'_>) -> Option<&Known> {
        if let Some(bounds) = code.bounds(address)
            && self.functions.get(&bounds.start).is_some_and(|known| known.plain)
        {
            return self.functions.get(&bounds.start);
        }
        let function = code.function(address)?;
        let start = function.start;
        let done =
            self.functions.get(&start).is_some_and(|known| known.plain || known.seen.contains(&address));
        if !done {
            let new = self.analyse(function, address, code);
            let known = self.functions.entry(start).or_default();
            known.plain = new.plain;
            known.seen.extend(new.seen);
            known.spinning.extend(new.spinning);
            known.returns.extend(new.returns);
        }
        self.functions.get(&start)
    }

    fn analyse(&mut self, function: Function, address: u64, code: &mut CodeOf<'_>) -> Known {
        if !self.may_spin(&function, code) {
            return Known { plain: true, ..Known::default() };
        }
        let graph = Graph::explored(self.architecture, function, address, code);
        let waits: Vec<usize> = graph.nodes().filter(|&node| self.waits(&graph, node, code)).collect();
        let mut known = Known {
            seen: graph.nodes().map(|node| graph.instruction(node).address).collect(),
            ..Known::default()
        };
        // The address itself is looked at, even where it is not code.
        known.seen.insert(address);
        let mut loops = graph.loops(&waits);
        loops.sort_by_key(|one| one.body.len());
        for &wait in &waits {
            // The CPU may say that it is at the instruction after the one that took the time.
            let pause = graph.instruction(wait);
            known.spinning.extend([pause.address, pause.address + pause.len]);
            for around in loops.iter().filter(|one| one.body.contains(&wait)) {
                let turn = graph.turn(around, wait);
                if turn.len() > LARGEST_LOOP {
                    break;
                }
                let mut reads_memory = false;
                for &node in &turn {
                    let instruction = graph.instruction(node);
                    known.spinning.insert(instruction.address);
                    if let Flow::Call(_) = instruction.flow {
                        known.returns.insert(instruction.address + instruction.len);
                        // What it calls may read anything, unless it is a delay.
                        reads_memory |= !waits.contains(&node);
                    } else {
                        reads_memory |= reads(self.architecture, graph.bytes(node));
                    }
                }
                if reads_memory {
                    break;
                }
            }
        }
        known
    }

    /// PAUSE, or a call of a delay.
    fn waits(&mut self, graph: &Graph, node: usize, code: &mut CodeOf<'_>) -> bool {
        let instruction = graph.instruction(node);
        match instruction.flow {
            Flow::Call(Some(target)) => self.is_delay(target, code),
            _ => instruction.pause,
        }
    }

    /// Whether the function has a PAUSE or calls a delay anywhere, in parts that lie elsewhere too.
    fn may_spin(&mut self, function: &Function, code: &mut CodeOf<'_>) -> bool {
        let mut jumps = HashSet::new();
        // What lies before it is unknown.
        !function.bounded
            || self.may_spin_in(function, code, &mut jumps)
            || jumps.into_iter().any(|target| self.may_spin_elsewhere(target, code))
    }

    /// A jump to the beginning of a function calls it. A part may be that of many functions, as where calls of other
    /// libraries go through: it is decoded once.
    fn may_spin_elsewhere(&mut self, target: u64, code: &mut CodeOf<'_>) -> bool {
        let Some(bounds) = code.bounds(target).filter(|bounds| bounds.start != target) else { return false };
        if let Some(&known) = self.elsewhere.get(&bounds.start) {
            return known;
        }
        let part = code.function(target);
        let answer = part.is_some_and(|part| self.may_spin_in(&part, code, &mut HashSet::new()));
        self.elsewhere.insert(bounds.start, answer);
        answer
    }

    /// The same for one part, with the targets of its jumps.
    fn may_spin_in(&mut self, function: &Function, code: &mut CodeOf<'_>, jumps: &mut HashSet<u64>) -> bool {
        let mut found = false;
        sweep(self.architecture, function.start, &function.bytes, &mut |instruction| {
            match instruction.flow {
                _ if instruction.pause => found = true,
                Flow::Call(Some(target)) => found = self.is_delay(target, code),
                Flow::Jump(target) | Flow::Branch(target) if !contains(function, target) => {
                    jumps.insert(target);
                }
                _ => {}
            }
            !found
        });
        found
    }

    /// Whether a small function begins there that calls nobody and is a delay.
    fn is_delay(&mut self, start: u64, code: &mut CodeOf<'_>) -> bool {
        if let Some(&known) = self.delays.get(&start) {
            return known;
        }
        let is_small = code
            .bounds(start)
            .is_some_and(|bounds| bounds.start == start && bounds.end.saturating_sub(start) <= LARGEST_DELAY);
        let delay = is_small.then(|| code.function(start)).flatten().is_some_and(|function| {
            let graph = Graph::explored(self.architecture, function, start, &mut |_: u64| None);
            let calls = |node| matches!(graph.instruction(node).flow, Flow::Call(_));
            let pauses = |node| graph.instruction(node).pause;
            graph.nodes().any(pauses) && !graph.nodes().any(calls)
        });
        self.delays.insert(start, delay);
        delay
    }
}

fn contains(function: &Function, address: u64) -> bool {
    address.checked_sub(function.start).is_some_and(|offset| offset < function.bytes.len() as u64)
}

/// Functions of the kernel in which a CPU waits for another one: for a spin lock (`kernel/locking/qspinlock.c`, paravirtual
/// too), for the running owner of a mutex or a semaphore (`mutex.c`, `rwsem.c`, `osq_lock.c`), a reader-writer
/// lock (`qrwlock.c`).
///
/// Before Linux 4.2 the lock was a ticket, and the loop around it was inlined into the function that takes it. Up to 2.6.32
/// (CentOS 6) that was `_spin_lock` and its variants, names that no later kernel has; RHEL 7 calls its queued one
/// `_raw_qspin_lock`. From 2.6.33 on it is `_raw_spin_lock`, which later kernels have without the loop: left out.
const KERNEL_SPINS: [&str; 18] = [
    "_spin_lock",
    "_spin_lock_bh",
    "_spin_lock_irq",
    "_spin_lock_irqsave",
    "__ticket_spin_lock",
    "__ticket_spin_lock_slowpath",
    "_raw_qspin_lock",
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "kvm_spinlock_slowpath",
    "osq_lock",
    "rwsem_spin_on_owner",
    "rwsem_optimistic_spin",
    "mutex_spin_on_owner",
    "__mutex_lock_spin",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
];

/// Whether a function of the kernel spins: by its name, without what the compiler adds (`.constprop.0`).
pub fn is_kernel_spin(function: &str) -> bool {
    let name = function.split(['.', '+', '[', ' ']).next().unwrap_or(function);
    KERNEL_SPINS.contains(&name)
}

#[cfg(test)]
mod tests;
