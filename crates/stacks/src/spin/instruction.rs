//! One machine instruction, as far as loops are concerned: where control goes next, and whether it waits.
//!
//! In: bytes and their address. Out: [`Instruction`]. Both architectures are decoded on both, so that both are tested.

use iced_x86::{
    Code, Decoder as X86Decoder, DecoderOptions, FlowControl, Instruction as X86Instruction,
    InstructionInfoFactory, Mnemonic, OpAccess, Register,
};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction as A64Instruction, Opcode, Operand};

/// Whose instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// aarch64.
    Aarch64,
}

impl Architecture {
    /// This machine's.
    pub const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };
}

/// Where control goes after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next instruction.
    Next,
    /// There, and nowhere else.
    Jump(u64),
    /// There or to the next instruction.
    Branch(u64),
    /// There and back; none where a register or a table says where.
    Call(Option<u64>),
    /// Out of the function, or where only registers know.
    Leave,
    /// Nowhere: it is not meant to be reached (`ud2`, `brk`).
    Trap,
}

/// An instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Where it lies.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) len: u64,
    /// What comes after it.
    pub(crate) flow: Flow,
    /// PAUSE, YIELD or ISB: a hint to the CPU that this is a spin-wait loop.
    ///
    /// x86-64: Intel's manual, volume 2, PAUSE. aarch64: YIELD by Arm's manual; ISB because MySQL (`ut0ut.h`)
    /// and others use it instead, as YIELD takes no time on most cores. WFE sleeps: it is no spinning.
    pub(crate) pause: bool,
}

/// The instruction at the beginning of the bytes; none where they are not one.
pub(crate) fn decode(architecture: Architecture, address: u64, bytes: &[u8]) -> Option<Instruction> {
    match architecture {
        Architecture::X86_64 => x86_64(address, bytes),
        Architecture::Aarch64 => aarch64(address, bytes),
    }
}

/// Hands over one instruction after another until it is answered with false. Where bytes are none, the next may begin a byte
/// later.
pub(super) fn sweep(
    architecture: Architecture,
    start: u64,
    bytes: &[u8],
    each: &mut dyn FnMut(&Instruction) -> bool,
) {
    let mut at = 0;
    // To make a decoder takes as long as to decode an instruction.
    let mut decoder = X86Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut decoded = X86Instruction::default();
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let address = start.wrapping_add(at as u64);
        let instruction = match architecture {
            Architecture::X86_64 => {
                if decoder.position() != at && decoder.set_position(at).is_ok() {
                    decoder.set_ip(address);
                }
                decoder.decode_out(&mut decoded);
                from_x86_64(address, &decoded)
            }
            Architecture::Aarch64 => aarch64(address, rest),
        };
        match instruction {
            Some(instruction) if !each(&instruction) => return,
            Some(instruction) => at += instruction.len as usize,
            None => at += 1,
        }
    }
}

fn x86_64(address: u64, bytes: &[u8]) -> Option<Instruction> {
    from_x86_64(address, &X86Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode())
}

fn from_x86_64(address: u64, instruction: &X86Instruction) -> Option<Instruction> {
    if instruction.is_invalid() {
        return None;
    }
    let flow = match instruction.flow_control() {
        FlowControl::Next => Flow::Next,
        // `syscall` comes back.
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => Flow::Next,
        FlowControl::Call => Flow::Call(Some(instruction.near_branch_target())),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::UnconditionalBranch => Flow::Jump(instruction.near_branch_target()),
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::IndirectBranch | FlowControl::Return => Flow::Leave,
        FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
    };
    Some(Instruction {
        address,
        len: instruction.len() as u64,
        flow,
        pause: instruction.code() == Code::Pause,
    })
}

/// Whether the instruction at the beginning of the bytes reads memory that another thread may write: not the
/// stack, by the stack or frame pointer.
pub(super) fn reads(architecture: Architecture, bytes: &[u8]) -> bool {
    match architecture {
        Architecture::X86_64 => {
            x86_64_reads(&X86Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode())
        }
        Architecture::Aarch64 => a64(bytes).is_some_and(|instruction| aarch64_reads(&instruction)),
    }
}

fn x86_64_reads(instruction: &X86Instruction) -> bool {
    // Knows that LEA and NOP read nothing, and that XCHG and CMPXCHG do. `call` and `ret` read the stack.
    InstructionInfoFactory::new().info(instruction).used_memory().iter().any(|memory| {
        let read = matches!(
            memory.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        read && !matches!(memory.base().full_register(), Register::RSP | Register::RBP)
    })
}

/// A64 register 29 is the frame pointer, 31 in an address the stack pointer.
const A64_STACK: [u16; 2] = [29, 31];

pub(crate) fn a64(bytes: &[u8]) -> Option<A64Instruction> {
    let mut instruction = A64Instruction::default();
    let mut word = U8Reader::new(bytes.get(..4)?);
    InstDecoder::default().decode_into(&mut instruction, &mut word).ok()?;
    Some(instruction)
}

fn aarch64_reads(instruction: &A64Instruction) -> bool {
    let base = instruction.operands.iter().find_map(|operand| match *operand {
        Operand::RegPreIndex(base, ..)
        | Operand::RegPostIndex(base, _)
        | Operand::RegPostIndexReg(base, _)
        | Operand::RegRegOffset(base, ..) => Some(base),
        _ => None,
    });
    // Of all that names memory, only stores and prefetches do not read it: `st...`, `prfm`.
    let name = instruction.opcode.to_string();
    base.is_some_and(|base| !A64_STACK.contains(&base)) && !name.starts_with("st") && !name.starts_with("prf")
}

fn aarch64(address: u64, bytes: &[u8]) -> Option<Instruction> {
    let instruction = a64(bytes)?;
    let offset = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(*offset),
        _ => None,
    });
    let target = offset.map(|offset| address.wrapping_add_signed(offset));
    let flow = match (instruction.opcode, target) {
        (Opcode::B, Some(target)) => Flow::Jump(target),
        (Opcode::BL, target) => Flow::Call(target),
        (
            Opcode::Bcc(_) | Opcode::BCcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ,
            Some(target),
        ) => Flow::Branch(target),
        (Opcode::BLR | Opcode::BLRAA | Opcode::BLRAAZ | Opcode::BLRAB | Opcode::BLRABZ, _) => {
            Flow::Call(None)
        }
        (
            Opcode::BR
            | Opcode::BRAA
            | Opcode::BRAAZ
            | Opcode::BRAB
            | Opcode::BRABZ
            | Opcode::RET
            | Opcode::RETAA
            | Opcode::RETAB,
            _,
        ) => Flow::Leave,
        (Opcode::UDF | Opcode::BRK, _) => Flow::Trap,
        _ => Flow::Next,
    };
    // `yield` is hint number 1.
    let is_yield = instruction.opcode == Opcode::HINT
        && instruction.operands[..2] == [Operand::ControlReg(0), Operand::Immediate(1)];
    Some(Instruction { address, len: 4, flow, pause: is_yield || matches!(instruction.opcode, Opcode::ISB) })
}
