//! Call frame information: where a function begins and ends, and how its caller's registers are found.
//!
//! In: an ELF file's `.eh_frame` (by its `.eh_frame_hdr`, or by an index that is made once where there is none).
//! Out: the bounds of a function, and the row of its unwind table at an address.

use std::ops::Range;
use std::sync::OnceLock;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice,
    FrameDescriptionEntry, LittleEndian, RegisterRule, UnwindContext, UnwindSection, Vendor,
};

use super::elf::{Elf, Machine};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// How to get from one address to the caller.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    /// Where the frame ends: the caller's stack pointer.
    pub(crate) cfa: CfaRule<usize>,
    /// Registers of the caller that are not where they were.
    pub(crate) saved: Box<[(u16, RegisterRule<usize>)]>,
    /// Which column holds the return address.
    pub(crate) return_register: u16,
    /// True in a signal's trampoline: the caller was interrupted, it did not call.
    pub(crate) signal: bool,
    /// How expressions are written.
    pub(crate) encoding: Encoding,
}

/// `.eh_frame` of a file, ready for look-ups.
#[derive(Debug, Default)]
pub(crate) struct Cfi {
    /// Where there is no `.eh_frame_hdr`: each function's first address and its entry, in order.
    index: OnceLock<Vec<(u64, usize)>>,
}

impl Cfi {
    /// Where the function at a virtual address begins and ends.
    pub(crate) fn bounds(&self, elf: &Elf, address: u64) -> Option<Range<u64>> {
        let fde = self.fde(elf, address)?;
        Some(fde.initial_address()..fde.end_address())
    }

    /// The row of the unwind table at a virtual address.
    pub(crate) fn rule(&self, elf: &Elf, address: u64, context: &mut UnwindContext<usize>) -> Option<Rule> {
        let fde = self.fde(elf, address)?;
        let (frames, bases) = (eh_frame(elf)?, bases(elf));
        let row = fde.unwind_info_for_address(&frames, &bases, context, address).ok()?;
        Some(Rule {
            cfa: row.cfa().clone(),
            saved: row.registers().map(|(register, rule)| (register.0, rule.clone())).collect(),
            return_register: fde.cie().return_address_register().0,
            signal: fde.is_signal_trampoline(),
            encoding: fde.cie().encoding(),
        })
    }

    fn fde<'a>(&self, elf: &'a Elf, address: u64) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        let (frames, bases) = (eh_frame(elf)?, bases(elf));
        let at = |offset: usize| {
            let fde = frames.fde_from_offset(&bases, EhFrameOffset(offset), EhFrame::cie_from_offset).ok()?;
            fde.contains(address).then_some(fde)
        };
        if let Some(header) = &elf.eh_frame_hdr {
            let parsed = EhFrameHdr::new(elf.bytes(header), LittleEndian).parse(&bases, 8);
            if let Some(table) = parsed.as_ref().ok().and_then(gimli::ParsedEhFrameHdr::table) {
                let pointer = table.lookup(address, &bases).ok()?;
                return at(table.pointer_to_offset(pointer).ok()?.0);
            }
        }
        let index = self.index.get_or_init(|| index(&frames, &bases));
        let place = index.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        at(index[place].1)
    }
}

/// The section that expressions are written in.
pub(crate) fn eh_frame(elf: &Elf) -> Option<EhFrame<Slice<'_>>> {
    let section = elf.eh_frame.as_ref()?;
    let mut frames = EhFrame::new(elf.bytes(section), LittleEndian);
    frames.set_address_size(8);
    if elf.machine() == Machine::Aarch64 {
        frames.set_vendor(Vendor::AArch64);
    }
    Some(frames)
}

fn bases(elf: &Elf) -> BaseAddresses {
    let mut bases = BaseAddresses::default().set_text(elf.text_address);
    if let Some(section) = &elf.eh_frame {
        bases = bases.set_eh_frame(section.address);
    }
    if let Some(section) = &elf.eh_frame_hdr {
        bases = bases.set_eh_frame_hdr(section.address);
    }
    bases
}

fn index(frames: &EhFrame<Slice<'_>>, bases: &BaseAddresses) -> Vec<(u64, usize)> {
    let mut index = Vec::new();
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = partial.parse(EhFrame::cie_from_offset) {
            index.push((fde.initial_address(), fde.offset()));
        }
    }
    index.sort_unstable();
    index
}
