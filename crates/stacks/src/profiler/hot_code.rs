//! The machine code of the functions in which most CPU samples are, so that a profile can show their instructions
//! wherever it is read.
//!
//! In: a finished profile's samples. Out: [`Code`] of some functions, each by its call frame information, none larger than
//! `LARGEST`. The bytes come the way that spin loops are looked for: of a regular ELF file, or of the process's memory.

use std::collections::HashMap;

use spindoctor_model::stack::{Code, Frame, Observation, Stack};

use super::meaning::Meaning;
use crate::spin::{Architecture, CodeSource as _};

/// Functions whose code is kept: they are what an annotated view shows.
const MOST: usize = 4;
/// Bytes of the largest function that is kept; `row_search_mvcc` of MySQL 9.7 has some 20 KiB.
const LARGEST: usize = 64 << 10;

/// The hottest functions' code; empty where there are no CPU samples, or where nobody knows where functions end.
pub(super) fn hot_code(
    meaning: &mut Meaning,
    samples: &[Observation],
    stacks: &[Stack],
    frames: &[Frame],
) -> Vec<Code> {
    let mut counts: HashMap<(u32, u64), u64> = HashMap::new();
    for sample in samples {
        let leaf = stacks[sample.stack as usize].frames.first().map(|at| &frames[*at as usize]);
        if let Some(frame) = leaf.filter(|frame| !frame.kernel)
            && let Some(module) = frame.module
        {
            *counts.entry((module, frame.address)).or_default() += 1;
        }
    }
    // Where these lie in the process.
    let addresses = meaning.addresses_of_leaves();
    let mut functions: HashMap<u64, (u64, Code)> = HashMap::new();
    for ((module, address), count) in counts {
        let Some(&at) = addresses.get(&(module, address)) else { continue };
        let known = functions.values_mut().find(|(_, code)| {
            code.module == module && (code.address..code.address + code.size() as u64).contains(&address)
        });
        if let Some((sum, _)) = known {
            *sum += count;
            continue;
        }
        let Some(function) = meaning.modules.function(at) else { continue };
        let offset = at.wrapping_sub(function.start);
        if function.bounded && function.bytes.len() <= LARGEST && offset <= address {
            let code = Code::new(module, address - offset, architecture(), &function.bytes);
            functions.insert(function.start, (count, code));
        }
    }
    let mut hottest: Vec<(u64, Code)> = functions.into_values().collect();
    hottest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.address.cmp(&b.1.address)));
    hottest.into_iter().take(MOST).map(|(_, code)| code).collect()
}

fn architecture() -> &'static str {
    match Architecture::HOST {
        Architecture::X86_64 => "x86_64",
        Architecture::Aarch64 => "aarch64",
    }
}
