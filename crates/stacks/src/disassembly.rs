//! Machine code as people read it: one line for each instruction, and where it goes.
//!
//! In: a function's bytes and their address, from any program, hostile ones too. Out: [`Line`]s, at most one for each byte.
//! Bytes that are no instruction are shown as bytes. Both architectures are read on both. Pure.

use iced_x86::{Decoder as X86Decoder, DecoderOptions, Formatter as _, GasFormatter};

use crate::spin::Architecture;
use crate::spin::instruction::{Flow, a64, decode};

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it lies.
    pub address: u64,
    /// As an assembler writes it (AT&T's syntax on x86-64, as `perf annotate` and `objdump` have it).
    pub text: String,
    /// Where it may go, where that is known: of a jump or a branch, not of a call.
    pub target: Option<u64>,
    /// PAUSE, YIELD or ISB.
    pub is_pause: bool,
}

/// The instructions of a function.
pub fn disassemble(architecture: Architecture, start: u64, bytes: &[u8]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (address, rest) = (start.wrapping_add(at as u64), &bytes[at..]);
        let len = match decode(architecture, address, rest) {
            Some(instruction) => {
                let target = match instruction.flow {
                    Flow::Jump(to) | Flow::Branch(to) => Some(to),
                    _ => None,
                };
                let text = text(architecture, address, rest);
                lines.push(Line { address, text, target, is_pause: instruction.pause });
                instruction.len.max(1) as usize
            }
            None => {
                // One byte on x86-64, one word on aarch64: what is left of it at the end.
                let len = if architecture == Architecture::X86_64 { 1 } else { 4.min(rest.len()) };
                let shown: Vec<String> = rest[..len].iter().map(|byte| format!("{byte:#04x}")).collect();
                let text = format!(".byte {}", shown.join(", "));
                lines.push(Line { address, text, target: None, is_pause: false });
                len
            }
        };
        at += len;
    }
    lines
}

fn text(architecture: Architecture, address: u64, bytes: &[u8]) -> String {
    match architecture {
        Architecture::X86_64 => {
            let instruction = X86Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
            let mut formatter = GasFormatter::new();
            formatter.options_mut().set_space_after_operand_separator(true);
            formatter.options_mut().set_uppercase_hex(false);
            formatter.options_mut().set_branch_leading_zeros(false);
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            text
        }
        Architecture::Aarch64 => a64(bytes).map_or(String::new(), |instruction| instruction.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `ut_delay` as gcc 12 makes it: a loop around a PAUSE.
    const DELAY: [u8; 13] = [
        0x31, 0xc0, // 1000: xor %eax,%eax
        0xf3, 0x90, // 1002: pause
        0x48, 0x83, 0xc0, 0x01, // 1004: add $1,%rax
        0x48, 0x39, 0xf8, // 1008: cmp %rdi,%rax
        0x75, 0xf5, // 100b: jne 1002
    ];

    #[test]
    fn a_delay_loop_is_read_with_its_pause_and_its_jump() {
        let lines = disassemble(Architecture::X86_64, 0x1000, &DELAY);
        let addresses: Vec<u64> = lines.iter().map(|line| line.address).collect();
        assert_eq!(addresses, [0x1000, 0x1002, 0x1004, 0x1008, 0x100b]);
        assert!(lines[1].is_pause && lines[1].text == "pause", "{lines:?}");
        assert_eq!(lines[4].target, Some(0x1002));
        assert!(lines[0].text.starts_with("xor") && lines[0].text.contains("%eax, %eax"), "{lines:?}");
    }

    #[test]
    fn aarch64_is_read_on_every_machine() {
        // isb; sub x0, x0, #1; cbnz x0, -8; ret
        let words: [u32; 4] = [0xd503_3fdf, 0xd100_0400, 0xb5ff_ffc0, 0xd65f_03c0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let lines = disassemble(Architecture::Aarch64, 0x4000, &bytes);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].is_pause, "{lines:?}");
        assert_eq!(lines[2].target, Some(0x4000), "{lines:?}");
        assert!(lines[3].text.starts_with("ret"), "{lines:?}");
    }

    #[test]
    fn what_is_no_instruction_is_shown_as_bytes() {
        let lines = disassemble(Architecture::X86_64, 0, &[0x06, 0xf3, 0x90]);
        assert_eq!(lines[0].text, ".byte 0x06");
        assert!(lines[1].is_pause, "{lines:?}");
        let lines = disassemble(Architecture::Aarch64, 0, &[0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..300), start: u64) {
            for architecture in [Architecture::X86_64, Architecture::Aarch64] {
                let lines = disassemble(architecture, start, &bytes);
                prop_assert!(lines.len() <= bytes.len());
                prop_assert_eq!(lines.is_empty(), bytes.is_empty());
            }
        }
    }
}
