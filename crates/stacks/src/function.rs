//! Where a function begins and where it returns, for probes.
//!
//! In: a name, or an address. Out: [`Function`]: places in a file.
//!
//! The kernel writes a breakpoint over the first byte of an instruction. A breakpoint in the middle of an instruction
//! would make the program run something else. So the machine code is decoded from the function's beginning to its end,
//! and no probe is set where a jump contradicts the decoding.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::module::Modules;
use crate::module::elf::{Elf, Machine};
use crate::names::Names;
use crate::spin::Architecture;
use crate::spin::instruction::{Flow, decode};

/// Parts of one function that are followed: compilers put unlikely code into a part of its own.
const MOST_PARTS: usize = 8;

/// Places where one function returns. The large ones of MySQL 9.7.4 (`dispatch_command`, `row_search_mvcc`) have two
/// or three.
const MOST_EXITS: usize = 64;

/// Functions of one name: overloads, and copies that the compiler made.
const MOST_FUNCTIONS: usize = 8;

/// Before an indirect jump on x86-64: its target need not be marked as one, as that of a call must be.
const NOTRACK: u8 = 0x3e;

/// What a function begins with that may be called by an address (endbr64). The kernel needs one trap more to step over it than
/// over the push that comes next.
const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// A function in its file.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    /// The file.
    pub(crate) file: Arc<Elf>,
    /// Its first instruction in the file, behind its landing pad.
    pub(crate) entry: u64,
    /// Its instructions that return, or that jump into another function which returns in its place.
    pub(crate) exits: Vec<u64>,
}

/// The functions of a process that go by a name.
///
/// # Errors
/// Where there is none, too many, or one whose code is not understood.
pub(crate) fn find(modules: &mut Modules, name: &str) -> Result<Vec<Function>> {
    let functions = find_any(modules, &mut Names::new(), name)?;
    if functions.is_empty() {
        let because = format!(
            "it has no function named {name}: it may be inlined everywhere, or static in a program without symbols"
        );
        return Err(Error::NotProfilable { pid: modules.pid(), because });
    }
    Ok(functions)
}

/// As [`find`], for some names one after the other; there may be none.
///
/// # Errors
/// Where there are too many, or one whose code is not understood.
pub(crate) fn find_any(modules: &mut Modules, names: &mut Names, name: &str) -> Result<Vec<Function>> {
    let pid = modules.pid();
    let refused = |because: String| Error::NotProfilable { pid, because };
    let addresses = names.find(modules, name);
    if addresses.len() > MOST_FUNCTIONS {
        return Err(refused(format!("it has {} functions named {name}", addresses.len())));
    }
    addresses
        .into_iter()
        .map(|address| at(modules, address).map_err(|why| refused(format!("{name} cannot be probed: {why}"))))
        .collect()
}

/// The function that begins at an address of a process.
pub(crate) fn at(modules: &mut Modules, address: u64) -> std::result::Result<Function, String> {
    let image = modules.image(address).ok_or("its file cannot be read")?;
    let architecture = match modules.machine() {
        Machine::X86_64 => Architecture::X86_64,
        Machine::Aarch64 => Architecture::Aarch64,
    };
    let stubs = stubs(&image.elf);
    let mut code = |at: u64| {
        let bounds = image.cfi.bounds(&image.elf, at)?;
        let bytes = image.elf.at(bounds.start, usize::try_from(bounds.end - bounds.start).ok()?)?;
        let is_stub = stubs.iter().any(|stubs| stubs.contains(&at));
        Some(Part { start: bounds.start, bytes, is_stub })
    };
    let start = address.wrapping_sub(image.bias);
    let exits = exits(architecture, start, &mut code)?;
    let mut place = |at: u64| {
        let place = modules.file_at(at.wrapping_add(image.bias));
        place.ok_or_else(|| "it is no part of a file".to_owned())
    };
    let first = image.elf.at(start, LANDING_PAD.len()).unwrap_or_default();
    let (file, entry) = place(start + landing_pad(&first))?;
    let exits =
        exits.into_iter().map(|exit| Ok(place(exit)?.1)).collect::<std::result::Result<_, String>>()?;
    Ok(Function { file, entry, exits })
}

/// How long the landing pad is that code begins with: 0 where there is none.
fn landing_pad(code: &[u8]) -> u64 {
    if code.starts_with(&LANDING_PAD) { LANDING_PAD.len() as u64 } else { 0 }
}

/// Where calls of other libraries' functions go through: a jump there leaves the function.
fn stubs(elf: &Elf) -> Vec<Range<u64>> {
    elf.sections()
        .iter()
        .filter(|section| section.name.starts_with(".plt"))
        .map(|section| section.address..section.address.saturating_add(section.size))
        .collect()
}

/// Machine code between the bounds that the unwind table gives.
struct Part {
    start: u64,
    bytes: Vec<u8>,
    is_stub: bool,
}

/// The addresses by which a function is left: returns, jumps that only registers know, and jumps to where another
/// function begins. A jump within the function may be among the second: the program that is called there looks at
/// the stack pointer.
fn exits(
    architecture: Architecture,
    start: u64,
    code: &mut dyn FnMut(u64) -> Option<Part>,
) -> std::result::Result<Vec<u64>, String> {
    let mut waiting = vec![start];
    let mut parts: Vec<Range<u64>> = Vec::new();
    let (mut begins, mut targets) = (HashSet::new(), Vec::new());
    let mut exits = Vec::new();
    while let Some(address) = waiting.pop() {
        if parts.iter().any(|part| part.contains(&address)) {
            continue;
        }
        let part = code(address).ok_or("no unwind table says where it ends")?;
        if parts.is_empty() && part.start != start {
            return Err("by the unwind table another function is there".to_owned());
        }
        if parts.len() == MOST_PARTS {
            return Err("it has too many parts".to_owned());
        }
        let range = part.start..part.start + part.bytes.len() as u64;
        let mut at = part.start;
        while at < range.end {
            let rest = &part.bytes[(at - part.start) as usize..];
            let instruction = decode(architecture, at, rest).ok_or("its machine code is not understood")?;
            begins.insert(at);
            match instruction.flow {
                // It may go anywhere, so it stays in the function: compilers mark jumps through a table.
                Flow::Leave if architecture == Architecture::X86_64 && rest.first() == Some(&NOTRACK) => {}
                Flow::Leave => exits.push(at),
                Flow::Jump(to) | Flow::Branch(to) if range.contains(&to) => targets.push(to),
                Flow::Jump(to) => match code(to) {
                    Some(other) if other.start != to && !other.is_stub => {
                        targets.push(to);
                        waiting.push(to);
                    }
                    _ => exits.push(at),
                },
                // To a part that lies elsewhere. (To another function, which will return in its place: to what
                // returns there.)
                Flow::Branch(to) if code(to).is_some_and(|other| !other.is_stub) => {
                    targets.push(to);
                    waiting.push(to);
                }
                _ => {}
            }
            at += instruction.len;
        }
        parts.push(range);
    }
    if targets.iter().any(|target| !begins.contains(target)) {
        return Err("its machine code is not understood".to_owned());
    }
    if exits.is_empty() {
        return Err("it never returns".to_owned());
    }
    if exits.len() > MOST_EXITS {
        return Err(format!("it returns at {} places", exits.len()));
    }
    exits.sort_unstable();
    Ok(exits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exits_of(parts: &[(u64, &[u8])]) -> std::result::Result<Vec<u64>, String> {
        let mut code = |at: u64| {
            let (start, bytes) =
                *parts.iter().find(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&at))?;
            Some(Part { start, bytes: bytes.to_vec(), is_stub: start == 0x9000 })
        };
        exits(Architecture::X86_64, parts[0].0, &mut code)
    }

    #[test]
    fn returns_and_jumps_to_other_functions_are_where_a_function_is_left() {
        let function = [
            0x74, 0x01, // 1000: je 1003
            0xc3, // 1002: ret
            0xf3, 0xc3, // 1003: rep ret
            0xe9, 0xf6, 0x0f, 0x00, 0x00, // 1005: jmp 2000, another function
            0xff, 0xe0, // 100a: jmp *%rax
            0xe9, 0xf0, 0x7f, 0x00, 0x00, // 100c: jmp 9001, a stub of a library's function
            0xeb, 0xed, // 1011: jmp 1000
            0x3e, 0xff, 0xe0, // 1013: notrack jmp *%rax, through a table
            0x0f, 0x0b, // 1016: ud2
        ];
        let exits = exits_of(&[(0x1000, &function), (0x2000, &[0xc3]), (0x9000, &[0x90; 16])]);
        assert_eq!(exits, Ok(vec![0x1002, 0x1003, 0x1005, 0x100a, 0x100c]));
    }

    #[test]
    fn a_function_is_entered_behind_its_landing_pad() {
        assert_eq!(landing_pad(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), 4);
        assert_eq!(landing_pad(&[0x55, 0xf3, 0x0f, 0x1e, 0xfa]), 0);
        assert_eq!(landing_pad(&[0xf3, 0x0f]), 0);
    }

    #[test]
    fn a_part_that_lies_elsewhere_may_return_too() {
        let function = [
            0x0f, 0x84, 0xfb, 0x0f, 0x00, 0x00, // 1000: je 2001
            0xc3, // 1006: ret
        ];
        let exits = exits_of(&[(0x1000, &function), (0x2000, &[0x90, 0x90, 0xc3])]);
        assert_eq!(exits, Ok(vec![0x1006, 0x2002]));
    }

    #[test]
    fn code_that_a_jump_contradicts_is_left_alone() {
        // 1000: je 1003, into the midst of mov $0xc3,%eax
        let tangled = [0x74, 0x01, 0xb8, 0xc3, 0x00, 0x00, 0x00, 0xc3];
        assert!(exits_of(&[(0x1000, &tangled)]).unwrap_err().contains("not understood"));
        assert!(exits_of(&[(0x1000, &[0xeb, 0xfe])]).unwrap_err().contains("never returns"));
    }
}
