//! From registers and a copied stack to the addresses of the calls on it.
//!
//! In: registers, the bytes above the stack pointer, the unwind tables of the modules. Out: the pc and return
//! addresses, and how the walk ended. Each frame is left by the row of `.eh_frame` for its address, or by the frame
//! pointer where there is no row (code made at run time); programs mix both.
//!
//! The rows are read by gimli and carried out here. framehop 0.16 was tried first: it reads no memory in
//! expressions, which signal frames (`__restore_rt`) and functions that align their stack need; it takes the
//! address that a signal interrupted for a return address; and it knows no register without a value.
//!
//! A walk ends: each frame must lie above the one before it, and there is a limit. Only values that lead to executable
//! memory are trusted on a stack.

use std::collections::hash_map::Entry;

use gimli::{
    CfaRule, EndianSlice, EvaluationResult, LittleEndian, Location, RegisterRule, UnwindContext,
    UnwindExpression, Value,
};
use rustc_hash::FxHashMap;
use spindoctor_model::stack::StackEnd;

use crate::module::cfi::{Rule, eh_frame};
use crate::module::elf::{Elf, Machine};
use crate::module::{Image, Modules};
use crate::registers::Registers;

/// More frames than this are not followed: deep enough for any server, and a bound for damaged stacks.
pub const MAX_FRAMES: usize = 512;

/// Operations that an expression of an unwind table may take. Those of glibc and gcc take fewer than ten.
const MAX_OPERATIONS: u32 = 100;

/// Rules of this many addresses are remembered; more than a large server's threads are ever seen at.
const MAX_RULES: usize = 1 << 16;

/// Walks stacks, and remembers the rule of every address it walked over.
#[derive(Default)]
pub struct Unwinder {
    /// By the address that was looked up.
    rules: FxHashMap<u64, Way>,
    /// The state of the modules that the rules are from.
    generation: u64,
    context: Box<UnwindContext<usize>>,
    interrupted: Vec<usize>,
    /// The stack pointer of the last walk's outermost frame, where it came there.
    outermost: Option<u64>,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Unwinder").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// How to leave a frame.
#[derive(Debug, Clone)]
enum Way {
    Plain(Plain),
    ByTable(Rule, Image),
    ByFramePointer,
}

/// A row of the table as compilers write nearly all of them: the frame ends at a register's value plus an offset, and
/// the return address and what else was saved lie at offsets from there. Half of what a walk takes is looking at the
/// other kinds.
#[derive(Debug, Clone)]
struct Plain {
    register: u16,
    offset: i64,
    return_address: i64,
    /// Registers that every function leaves as they were, and where they are: the first `saved_count`.
    saved: [(u16, i32); Plain::MOST_SAVED],
    saved_count: u8,
}

impl Plain {
    /// x86-64 has six to save: rbx, rbp, r12 to r15.
    const MOST_SAVED: usize = 6;

    fn from_rule(rule: &Rule, abi: &Abi) -> Option<Self> {
        let CfaRule::RegisterAndOffset { register, offset } = &rule.cfa else { return None };
        let mut plain = Self {
            register: register.0,
            offset: *offset,
            return_address: 0,
            saved: Default::default(),
            saved_count: 0,
        };
        let mut has_return_address = false;
        for (register, saved) in &rule.saved {
            let RegisterRule::Offset(offset) = saved else { return None };
            if *register == rule.return_register {
                plain.return_address = *offset;
                has_return_address = true;
                continue;
            }
            let is_preserved = *register < 32 && *register != abi.sp && abi.preserved & 1 << register != 0;
            let free = plain.saved.get_mut(usize::from(plain.saved_count)).filter(|_| is_preserved)?;
            *free = (*register, i32::try_from(*offset).ok()?);
            plain.saved_count += 1;
        }
        (has_return_address && !rule.signal).then_some(plain)
    }

    /// The caller's registers, and its address.
    fn leave(&self, frame: &mut Frame, stack: &Copied<'_>, abi: &Abi) -> Result<u64, Stop> {
        let sp = frame.get(abi.sp);
        let cfa = value(frame, self.register, abi)?.wrapping_add_signed(self.offset);
        for &(register, offset) in &self.saved[..usize::from(self.saved_count)] {
            let place = cfa.wrapping_add_signed(i64::from(offset));
            // Below the stack pointer it was popped from: the function is being left, and has put it back.
            if sp.is_none_or(|sp| place >= sp) {
                frame.set(register, stack.word(place)?);
            }
        }
        let return_address = stack.word(cfa.wrapping_add_signed(self.return_address))?;
        frame.known &= abi.preserved;
        frame.set(abi.sp, cfa);
        Ok(return_address)
    }
}

/// How a frame was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    ByTable,
    ByFramePointer,
    /// By the table of a signal's trampoline: the caller was interrupted.
    Interrupted,
}

/// How one step ended, where it led to no caller.
enum Stop {
    Root,
    Cut(String),
}

/// What is known of a frame's registers, numbered as DWARF numbers them.
#[derive(Clone)]
struct Frame {
    values: [u64; 32],
    /// One bit for each register that has a value.
    known: u32,
}

/// The register numbers that matter, from the two processors' DWARF ABIs.
struct Abi {
    fp: u16,
    sp: u16,
    /// Where the return address of a function that calls nothing is; x86-64 keeps it on the stack.
    lr: Option<u16>,
    /// Where expressions find the pc: those of the PLT on x86-64 see by it what is pushed already.
    pc: Option<u16>,
    /// The registers that a function leaves as they were: rbx, rbp, rsp, r12-r15; x19-x29, sp.
    preserved: u32,
}

const X86_64: Abi =
    Abi { fp: 6, sp: 7, lr: None, pc: Some(16), preserved: 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12 };
const AARCH64: Abi = Abi { fp: 29, sp: 31, lr: Some(30), pc: None, preserved: 0x7ff << 19 | 1 << 31 };

impl Frame {
    fn from_registers(registers: &Registers, abi: &Abi) -> Self {
        let mut frame = Self { values: [0; 32], known: 0 };
        frame.set(abi.sp, registers.sp);
        if let Some(fp) = registers.fp {
            frame.set(abi.fp, fp);
        }
        if let (Some(number), Some(lr)) = (abi.lr, registers.lr) {
            frame.set(number, lr);
        }
        frame
    }

    fn get(&self, register: u16) -> Option<u64> {
        let known = register < 32 && self.known & 1 << register != 0;
        known.then(|| self.values[usize::from(register)])
    }

    fn set(&mut self, register: u16, value: u64) {
        if register < 32 {
            self.values[usize::from(register)] = value;
            self.known |= 1 << register;
        }
    }

    fn forget(&mut self, register: u16) {
        if register < 32 {
            self.known &= !(1 << register);
        }
    }
}

/// The copied part of a stack.
#[derive(Debug, Clone, Copy)]
pub struct Copied<'a> {
    /// The address of the first byte.
    pub start: u64,
    /// What was copied from there upwards.
    pub bytes: &'a [u8],
    /// True where they reach the end of the stack.
    pub whole: bool,
}

impl Copied<'_> {
    fn word(&self, address: u64) -> Result<u64, Stop> {
        let within = address.checked_sub(self.start).and_then(|within| usize::try_from(within).ok());
        let bytes = within.and_then(|within| self.bytes.get(within..)?.first_chunk());
        match bytes {
            Some(bytes) => Ok(u64::from_le_bytes(*bytes)),
            None => Err(Stop::Cut(self.outside(address))),
        }
    }

    fn outside(&self, address: u64) -> String {
        // A frame is found where the copy ended, or it is not on this stack at all. 8 MiB is the largest stack
        // that is common.
        const FAR: u64 = 8 << 20;
        let end = self.start.saturating_add(self.bytes.len() as u64);
        if self.bytes.is_empty() {
            "nothing of the stack was copied".to_owned()
        } else if !self.whole && address >= self.start && address < end.saturating_add(FAR) {
            format!("copied {} KiB of the stack, and it is longer", self.bytes.len().div_ceil(1024))
        } else {
            format!("the stack is damaged: it leads to {address:#x}, outside of it")
        }
    }
}

impl Unwinder {
    /// An unwinder that knows no rule yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Walks one stack. `out` is emptied and gets the pc, then return addresses: look those up at the address less one.
    pub fn walk(
        &mut self,
        modules: &mut Modules,
        registers: &Registers,
        stack: Copied<'_>,
        out: &mut Vec<u64>,
    ) -> StackEnd {
        out.clear();
        self.interrupted.clear();
        self.outermost = None;
        if self.generation != modules.generation() || self.rules.len() > MAX_RULES {
            self.rules.clear();
            self.generation = modules.generation();
        }
        let abi = match modules.machine() {
            Machine::X86_64 => &X86_64,
            Machine::Aarch64 => &AARCH64,
        };
        let Self { rules, context, interrupted, outermost, .. } = self;
        let mut frame = Frame::from_registers(registers, abi);
        let mut pc = registers.pc;
        // The frame that led to the pc, and how it was left; none for the innermost.
        let mut from: Option<(u64, Left)> = None;
        loop {
            let called = from.is_some_and(|(_, left)| left != Left::Interrupted);
            let lookup = pc.wrapping_sub(u64::from(called));
            let way = match rules.entry(lookup) {
                Entry::Occupied(known) => Some(&*known.into_mut()),
                Entry::Vacant(unknown) => {
                    Way::at(lookup, modules, context, abi).map(|way| &*unknown.insert(way))
                }
            };
            if let Some((callee, left)) = from {
                if way.is_none() {
                    return StackEnd::Cut(match left {
                        Left::ByFramePointer => format!(
                            "no unwind information at {callee:#x}, and its frame pointer leads to {pc:#x}, which is no code"
                        ),
                        _ => format!("the stack is damaged: {pc:#x} is no code to return to"),
                    });
                }
                if left == Left::Interrupted {
                    interrupted.push(out.len());
                }
            }
            out.push(pc);
            if let Some(number) = abi.pc {
                frame.set(number, pc);
            }
            let sp = frame.get(abi.sp).unwrap_or(0);
            let step = match way {
                Some(way) => way.leave(lookup, &mut frame, &stack, abi, from.is_none()),
                None => leave_no_code(pc, &mut frame, &stack, abi),
            };
            let (caller, left) = match step {
                Ok(found) => found,
                Err(Stop::Root) => {
                    *outermost = Some(sp);
                    return StackEnd::Root;
                }
                Err(Stop::Cut(why)) => return StackEnd::Cut(why),
            };
            // The bits above the address are a signature on aarch64 (pointer authentication).
            let caller = if abi.lr.is_some() { caller & 0x0000_ffff_ffff_ffff } else { caller };
            let above = frame.get(abi.sp).unwrap_or(0);
            if caller == 0 {
                *outermost = Some(above);
                return StackEnd::Root;
            }
            // A leaf function of aarch64 may have no frame at all. A signal may be handled on another stack.
            let no_frame = abi.lr.is_some() && !called && above == sp;
            if above <= sp && !no_frame && left != Left::Interrupted {
                return StackEnd::Cut(format!(
                    "the stack is damaged: the frame at {sp:#x} leads back to {above:#x}"
                ));
            }
            if out.len() == MAX_FRAMES {
                return StackEnd::Cut(format!("it is deeper than {MAX_FRAMES} frames"));
            }
            from = Some((pc, left));
            pc = caller;
        }
    }

    /// Places in the `out` of the last walk that are not return addresses though they are not the first: what
    /// a signal interrupted. Look these up as they are.
    pub fn interrupted(&self) -> &[usize] {
        &self.interrupted
    }

    /// Where the outermost frame of the last walk begins: nothing above it was needed. None where the walk did not come
    /// to the stack's end.
    pub fn outermost(&self) -> Option<u64> {
        self.outermost
    }
}

impl Way {
    /// The way out of the function at an address; none where no code is mapped.
    fn at(
        address: u64,
        modules: &mut Modules,
        context: &mut UnwindContext<usize>,
        abi: &Abi,
    ) -> Option<Self> {
        let Some(image) = modules.image(address) else {
            return modules.is_code(address).then_some(Self::ByFramePointer);
        };
        let Some(rule) = image.cfi.rule(&image.elf, address.wrapping_sub(image.bias), context) else {
            return Some(Self::ByFramePointer);
        };
        Some(match Plain::from_rule(&rule, abi) {
            Some(plain) => Self::Plain(plain),
            None => Self::ByTable(rule, image),
        })
    }

    /// Leaves a frame: its caller's address, and how.
    fn leave(
        &self,
        address: u64,
        frame: &mut Frame,
        stack: &Copied<'_>,
        abi: &Abi,
        first: bool,
    ) -> Result<(u64, Left), Stop> {
        match self {
            Self::Plain(plain) => plain.leave(frame, stack, abi).map(|caller| (caller, Left::ByTable)),
            Self::ByTable(rule, image) => by_table(rule, &image.elf, frame, stack, abi, first),
            Self::ByFramePointer => {
                by_frame_pointer(frame, stack, abi, address).map(|caller| (caller, Left::ByFramePointer))
            }
        }
    }
}

/// A call through a bad pointer: its return address was just pushed.
fn leave_no_code(pc: u64, frame: &mut Frame, stack: &Copied<'_>, abi: &Abi) -> Result<(u64, Left), Stop> {
    if abi.lr.is_some() {
        return Err(Stop::Cut(format!("no code is mapped at {pc:#x}")));
    }
    let sp = frame.get(abi.sp).unwrap_or(0);
    let caller = stack.word(sp)?;
    frame.set(abi.sp, sp.wrapping_add(8));
    Ok((caller, Left::ByTable))
}

/// The caller's registers by a row of the unwind table.
fn by_table(
    rule: &Rule,
    elf: &Elf,
    frame: &mut Frame,
    stack: &Copied<'_>,
    abi: &Abi,
    first: bool,
) -> Result<(u64, Left), Stop> {
    let callee = Callee { rule, elf, frame, stack, abi };
    let cfa = match &rule.cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            value(frame, register.0, abi)?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(*expression, callee, None)?,
    };
    let mut caller = frame.clone();
    if !rule.signal {
        caller.known &= abi.preserved;
    }
    let mut return_address = None;
    let mut undefined = false;
    for (register, saved) in &rule.saved {
        let found = match saved {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => frame.get(*register),
            RegisterRule::Offset(offset) => {
                let place = cfa.wrapping_add_signed(*offset);
                // Below the stack pointer it was popped from: the function is being left, and has put it back.
                let popped =
                    *register != rule.return_register && frame.get(abi.sp).is_some_and(|sp| place < sp);
                if popped { frame.get(*register) } else { Some(stack.word(place)?) }
            }
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => frame.get(other.0),
            RegisterRule::Expression(expression) => {
                let address = evaluate(*expression, callee, Some(cfa))?;
                Some(stack.word(address)?)
            }
            RegisterRule::ValExpression(expression) => Some(evaluate(*expression, callee, Some(cfa))?),
            // Pseudo-registers: whether an address is signed.
            _ => continue,
        };
        if *register == rule.return_register {
            return_address = found;
            // The table's word for the first function of a thread.
            undefined = matches!(saved, RegisterRule::Undefined);
        }
        match found {
            Some(value) => caller.set(*register, value),
            None => caller.forget(*register),
        }
    }
    if undefined {
        return Err(Stop::Root);
    }
    // A signal's frame holds the interrupted stack pointer; every other frame ends where the caller's begins.
    let restored = rule.saved.iter().any(|(register, _)| *register == abi.sp);
    if !restored {
        caller.set(abi.sp, cfa);
    }
    // A function that has not saved it, has it in its register still: the innermost, or an interrupted one.
    let return_address = match (return_address, abi.lr) {
        (Some(address), _) => address,
        (None, Some(lr)) if first || frame.get(lr).is_some() => value(frame, lr, abi)?,
        (None, _) => return Err(Stop::Cut("the unwind table has no return address".to_owned())),
    };
    if let Some(lr) = abi.lr
        && !rule.signal
    {
        caller.forget(lr);
    }
    *frame = caller;
    Ok((return_address, if rule.signal { Left::Interrupted } else { Left::ByTable }))
}

/// The caller's registers by the frame pointer: both processors keep the caller's frame pointer where it points
/// to, and the return address above.
fn by_frame_pointer(frame: &mut Frame, stack: &Copied<'_>, abi: &Abi, at: u64) -> Result<u64, Stop> {
    let Some(fp) = frame.get(abi.fp) else {
        return Err(Stop::Cut(format!(
            "no unwind information at {at:#x}, and the frame pointer is not known"
        )));
    };
    // Both ABIs end the chain with zero.
    if fp == 0 {
        return Err(Stop::Root);
    }
    if fp < frame.get(abi.sp).unwrap_or(0) || fp % 8 != 0 {
        return Err(Stop::Cut(format!("no unwind information at {at:#x}, and {fp:#x} is no frame pointer")));
    }
    let caller_fp = stack.word(fp)?;
    let caller = stack.word(fp.wrapping_add(8))?;
    frame.known &= abi.preserved;
    frame.set(abi.fp, caller_fp);
    frame.set(abi.sp, fp.wrapping_add(16));
    Ok(caller)
}

fn value(frame: &Frame, register: u16, abi: &Abi) -> Result<u64, Stop> {
    frame.get(register).ok_or_else(|| {
        Stop::Cut(if register == abi.fp {
            "the frame pointer is not known, and the way to the caller needs it".to_owned()
        } else {
            format!("register {register} is not known, and the way to the caller needs it")
        })
    })
}

/// What an expression is evaluated in: the frame that is left, and where its values come from.
#[derive(Clone, Copy)]
struct Callee<'a> {
    rule: &'a Rule,
    elf: &'a Elf,
    frame: &'a Frame,
    stack: &'a Copied<'a>,
    abi: &'a Abi,
}

/// The value of a DWARF expression; `cfa` is on its stack where it is for a register.
fn evaluate(expression: UnwindExpression<usize>, callee: Callee<'_>, cfa: Option<u64>) -> Result<u64, Stop> {
    let Callee { rule, elf, frame, stack, abi } = callee;
    let bad = || Stop::Cut("an expression of the unwind table cannot be carried out".to_owned());
    let section = eh_frame(elf).ok_or_else(bad)?;
    let expression = expression.get::<EndianSlice<'_, LittleEndian>, _>(&section).map_err(|_| bad())?;
    let mut evaluation = expression.evaluation(rule.encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(cfa) = cfa {
        evaluation.set_initial_value(cfa);
    }
    let mut state = evaluation.evaluate().map_err(|_| bad())?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = value(frame, register.0, abi)?;
                evaluation.resume_with_register(Value::Generic(value)).map_err(|_| bad())?
            }
            EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                evaluation.resume_with_memory(Value::Generic(stack.word(address)?)).map_err(|_| bad())?
            }
            _ => return Err(bad()),
        };
    }
    match evaluation.as_result() {
        [piece] => match piece.location {
            Location::Address { address } => Ok(address),
            _ => Err(bad()),
        },
        _ => Err(bad()),
    }
}
