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
//! A walk ends: each frame must lie above the one before it, and there is a limit. Nothing on a stack is believed
//! but what leads to executable memory.

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
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Unwinder").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// How to leave a frame.
#[derive(Debug, Clone)]
enum Way {
    ByTable(Rule, Image),
    ByFramePointer,
    /// No code is mapped there.
    NotCode,
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
    /// Where expressions find the pc: those of the PLT on x86-64 tell by it what is pushed already.
    pc: Option<u16>,
    /// The registers that a function leaves as they were: rbx, rbp, rsp, r12-r15; x19-x29, sp.
    preserved: u32,
}

const X86_64: Abi =
    Abi { fp: 6, sp: 7, lr: None, pc: Some(16), preserved: 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12 };
const AARCH64: Abi = Abi { fp: 29, sp: 31, lr: Some(30), pc: None, preserved: 0x7ff << 19 | 1 << 31 };

impl Frame {
    fn of(registers: &Registers, abi: &Abi) -> Self {
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
struct Copied<'a> {
    start: u64,
    bytes: &'a [u8],
    whole: bool,
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
    /// One that knows no rule yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Walks one stack. `bytes` were copied from `stack_start` upwards; `whole` says that they reach the end of
    /// the stack. `out` is emptied and gets the pc, then return addresses: look those up at the address less one.
    pub fn walk(
        &mut self,
        modules: &mut Modules,
        registers: &Registers,
        stack_start: u64,
        bytes: &[u8],
        whole: bool,
        out: &mut Vec<u64>,
    ) -> StackEnd {
        out.clear();
        self.interrupted.clear();
        if self.generation != modules.generation() || self.rules.len() > MAX_RULES {
            self.rules.clear();
            self.generation = modules.generation();
        }
        let abi = match modules.machine() {
            Machine::X86_64 => &X86_64,
            Machine::Aarch64 => &AARCH64,
        };
        let stack = Copied { start: stack_start, bytes, whole };
        let mut frame = Frame::of(registers, abi);
        let mut pc = registers.pc;
        let mut called = false;
        out.push(pc);
        loop {
            let lookup = pc.wrapping_sub(u64::from(called));
            if let Some(number) = abi.pc {
                frame.set(number, pc);
            }
            let sp = frame.get(abi.sp).unwrap_or(0);
            let step = self.step(modules, lookup, &mut frame, &stack, abi, out.len() == 1);
            let (caller, left) = match step {
                Ok(found) => found,
                Err(Stop::Root) => return StackEnd::Root,
                Err(Stop::Cut(why)) => return StackEnd::Cut(why),
            };
            let signal = left == Left::Interrupted;
            // The bits above the address are a signature on aarch64 (pointer authentication).
            let caller = if abi.lr.is_some() { caller & 0x0000_ffff_ffff_ffff } else { caller };
            if caller == 0 {
                return StackEnd::Root;
            }
            let above = frame.get(abi.sp).unwrap_or(0);
            // A leaf function of aarch64 may have no frame at all. A signal may be handled on another stack.
            let no_frame = abi.lr.is_some() && !called && above == sp;
            if above <= sp && !no_frame && !signal {
                return StackEnd::Cut(format!(
                    "the stack is damaged: the frame at {sp:#x} leads back to {above:#x}"
                ));
            }
            if out.len() == MAX_FRAMES {
                return StackEnd::Cut(format!("it is deeper than {MAX_FRAMES} frames"));
            }
            let lookup = caller.wrapping_sub(u64::from(!signal));
            let walked_over = self.rules.get(&lookup).is_some_and(|way| !matches!(way, Way::NotCode));
            if !walked_over && !modules.is_code(lookup) {
                return StackEnd::Cut(match left {
                    Left::ByFramePointer => format!(
                        "no unwind information at {pc:#x}, and its frame pointer leads to {caller:#x}, which is no code"
                    ),
                    _ => format!("the stack is damaged: {caller:#x} is no code to return to"),
                });
            }
            if signal {
                self.interrupted.push(out.len());
            }
            out.push(caller);
            pc = caller;
            called = !signal;
        }
    }

    /// Places in the `out` of the last walk that are not return addresses though they are not the first: what
    /// a signal interrupted. Look these up as they are.
    pub fn interrupted(&self) -> &[usize] {
        &self.interrupted
    }

    /// Leaves a frame: its caller's address, and how.
    fn step(
        &mut self,
        modules: &mut Modules,
        lookup: u64,
        frame: &mut Frame,
        stack: &Copied<'_>,
        abi: &Abi,
        first: bool,
    ) -> Result<(u64, Left), Stop> {
        let context = &mut self.context;
        let way = self.rules.entry(lookup).or_insert_with(|| {
            let Some(image) = modules.image(lookup) else {
                return if modules.is_code(lookup) { Way::ByFramePointer } else { Way::NotCode };
            };
            match image.cfi.rule(&image.elf, lookup.wrapping_sub(image.bias), context) {
                Some(rule) => Way::ByTable(rule, image),
                None => Way::ByFramePointer,
            }
        });
        match way {
            Way::ByTable(rule, image) => by_table(rule, &image.elf, frame, stack, abi, first),
            Way::ByFramePointer => {
                by_frame_pointer(frame, stack, abi, lookup).map(|caller| (caller, Left::ByFramePointer))
            }
            // A call through a bad pointer: its return address was just pushed.
            Way::NotCode if first && abi.lr.is_none() => {
                let sp = frame.get(abi.sp).unwrap_or(0);
                let caller = stack.word(sp)?;
                frame.set(abi.sp, sp.wrapping_add(8));
                Ok((caller, Left::ByTable))
            }
            Way::NotCode => Err(Stop::Cut(format!("no code is mapped at {lookup:#x}"))),
        }
    }
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
    let cfa = match &rule.cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            value(frame, register.0, abi)?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(*expression, rule, elf, frame, stack, abi, None)?,
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
                let address = evaluate(*expression, rule, elf, frame, stack, abi, Some(cfa))?;
                Some(stack.word(address)?)
            }
            RegisterRule::ValExpression(expression) => {
                Some(evaluate(*expression, rule, elf, frame, stack, abi, Some(cfa))?)
            }
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

/// The value of a DWARF expression; `cfa` is on its stack where it is for a register.
fn evaluate(
    expression: UnwindExpression<usize>,
    rule: &Rule,
    elf: &Elf,
    frame: &Frame,
    stack: &Copied<'_>,
    abi: &Abi,
    cfa: Option<u64>,
) -> Result<u64, Stop> {
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
