//! A symbol table, sorted by address.
//!
//! In: `.symtab` or `.dynsym` of a file. Out: the symbol whose bounds hold an address, or none: the nearest symbol
//! below is never good enough, because a stripped program has no symbols for its static functions.

use std::ops::Range;

use object::elf::{SHN_LORESERVE, SHN_UNDEF, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};

use super::demangle::demangle;
use crate::module::bytes::Pages;
use crate::module::elf::{Elf, RawSymbol, Which};

/// Longer names of functions are none: those of MySQL 9 have up to 4 KB.
pub(super) const LONGEST_NAME: usize = 64 << 10;

/// How many symbols below an address may end before it while another one, that begins lower, still holds it. Entry
/// points inside of functions written in assembler are that many at most in glibc and libgcc.
const NESTED: usize = 16;

/// The functions of one symbol table.
#[derive(Debug)]
pub(crate) struct Symbols {
    strings: Pages,
    /// By address, then by how good they are.
    symbols: Vec<Symbol>,
}

/// In the rank of a symbol: it is a label, no function.
const LABEL: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    start: u64,
    /// A smaller rank is better: functions before labels, sized before sizeless, visible ones before local ones.
    rank: u8,
    size: u32,
    name: u32,
}

impl Symbols {
    /// Reads a table; none where the file has none, or what it would take is too much.
    pub(crate) fn read(file: &Elf, which: Which) -> Option<Self> {
        let is_code = |section: u16| {
            let header = (section < SHN_LORESERVE).then(|| file.sections().get(usize::from(section)));
            header.flatten().is_some_and(|header| header.is_code)
        };
        let mut symbols = Vec::new();
        let strings = file.symbols(which, &mut |symbol: RawSymbol| {
            let is_function = symbol.kind == STT_FUNC || symbol.kind == STT_GNU_IFUNC;
            if symbol.name == 0 || symbol.section == SHN_UNDEF {
                return;
            }
            // Assembler's labels have no type. So have marks of data in code on aarch64 ($x, $d).
            let is_label = symbol.kind == STT_NOTYPE && is_code(symbol.section);
            if !is_function && !is_label {
                return;
            }
            let local = symbol.binding == STB_LOCAL;
            symbols.push(Symbol {
                start: symbol.address,
                rank: (u8::from(!is_function) * LABEL) | u8::from(symbol.size == 0) << 1 | u8::from(local),
                size: u32::try_from(symbol.size).unwrap_or(u32::MAX),
                name: symbol.name,
            });
        })?;
        symbols.sort_unstable();
        symbols.shrink_to_fit();
        let kept = symbols.len() * size_of::<Symbol>();
        (!symbols.is_empty() && file.budget().keep(kept as u64)).then_some(Self { strings, symbols })
    }

    /// The name of the function at a virtual address. `function` are the bounds that the unwind table gives: as far
    /// as a symbol without a size reaches.
    pub(crate) fn name(&self, address: u64, function: Option<&Range<u64>>) -> Option<String> {
        let end = self.symbols.partition_point(|symbol| symbol.start <= address);
        let holds = |symbol: &&Symbol| {
            if symbol.size > 0 {
                address - symbol.start < u64::from(symbol.size)
            } else {
                function.is_some_and(|bounds| bounds.contains(&symbol.start) && bounds.contains(&address))
            }
        };
        let start = self.symbols[..end].iter().rev().take(NESTED).find(holds)?.start;
        let first = self.symbols.partition_point(|symbol| symbol.start < start);
        let same = self.symbols[first..end].iter().take_while(|symbol| symbol.start == start).filter(holds);
        // `poll` rather than `__poll`: the name that programs call it by.
        same.filter_map(|symbol| {
            let name = self.text(symbol.name)?;
            let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
            let order = (symbol.rank, underscores, name.len(), name.clone());
            (!name.starts_with('$') && !name.is_empty()).then_some((order, name))
        })
        .min()
        .map(|(_, name)| name)
    }

    /// Where functions begin that go by a name: as it is in the table, or as it is shown.
    pub(crate) fn find(&self, wanted: &str) -> Vec<u64> {
        // Reading a mangled name takes microseconds, and there are a hundred thousand: it holds the last part.
        let last = wanted.rsplit("::").next().unwrap_or(wanted);
        let is_wanted = |symbol: &&Symbol| {
            symbol.rank & LABEL == 0
                && self.text(symbol.name).is_some_and(|text| {
                    // The unlikely part of a function is not where it begins.
                    let may_be = text.contains(last) && !text.contains(".cold");
                    may_be && (text == wanted || demangle(&text).short == wanted)
                })
        };
        let mut starts: Vec<u64> = self.symbols.iter().filter(is_wanted).map(|symbol| symbol.start).collect();
        starts.dedup();
        starts
    }

    fn text(&self, offset: u32) -> Option<String> {
        let bytes = self.strings.text(u64::from(offset), LONGEST_NAME)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
