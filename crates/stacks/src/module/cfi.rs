//! Call frame information: where a function begins and ends, and how its caller's registers are found.
//!
//! In: an ELF file's `.eh_frame` (by its `.eh_frame_hdr`, or by an index that is made once where there is none).
//! Out: the bounds of a function, and the row of its unwind table at an address.

use std::ops::Range;
use std::sync::OnceLock;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Encoding, EndianSlice, FrameDescriptionEntry,
    LittleEndian, RegisterRule, UnwindContext, UnwindSection, Vendor,
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
        if let Some(header) = &elf.eh_frame_hdr
            && let Some(rows) = search_table(elf.bytes(header))
        {
            let absolute =
                |half: &[u8; 4]| header.address.wrapping_add_signed(i64::from(i32::from_le_bytes(*half)));
            let place = rows.partition_point(|[start, _]| absolute(start) <= address).checked_sub(1)?;
            let offset = absolute(&rows[place][1]).checked_sub(elf.eh_frame.as_ref()?.address)?;
            return at(usize::try_from(offset).ok()?);
        }
        let index = self.index.get_or_init(|| index(&frames, &bases));
        let place = index.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        at(index[place].1)
    }
}

/// The table of `.eh_frame_hdr`, as every linker writes it: where functions start, in order, and where their entries
/// are, both as four bytes counted from the section's address. Else none.
fn search_table(header: &[u8]) -> Option<&[[[u8; 4]; 2]]> {
    // Version 1; the pointer to .eh_frame, and the count: four bytes; the table: DW_EH_PE_datarel, sdata4.
    let [1, eh_frame_ptr, 0x03, 0x3b, ..] = header else { return None };
    if eh_frame_ptr & 0x0f != 0x0b {
        return None;
    }
    let count = u32::from_le_bytes(*header.get(8..)?.first_chunk()?);
    let rows = header.get(12..)?.as_chunks().0.as_chunks().0;
    Some(&rows[..rows.len().min(usize::try_from(count).ok()?)])
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
