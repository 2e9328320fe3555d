//! One ELF file: what a profiler needs of it, read where it lies.
//!
//! In: a file, or the bytes of the vDSO. Out: segments, sections, the build id. The file is mapped, so that only
//! what is looked at becomes resident: a server's program has 75 MiB, its unwind tables 4. Nothing in a file is
//! believed: every offset is checked, and what does not fit is not there.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};

use memmap2::Mmap;
use object::elf::{
    EM_AARCH64, EM_X86_64, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, SHT_NOBITS,
};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object};

/// The instruction set of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, little endian.
    Aarch64,
}

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The kernel refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not an ELF file, or its headers are damaged.
    #[error("it is not an ELF file, or it is damaged")]
    NotElf,
    /// A 32-bit program.
    #[error("it is a 32-bit file, and only 64-bit programs can be walked")]
    ThirtyTwoBit,
    /// Another processor's.
    #[error("it is for another processor than x86-64 and aarch64")]
    ForeignMachine,
}

/// The bytes of a file.
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A part of a file that the loader maps.
#[derive(Debug, Clone, Copy)]
struct Load {
    offset: u64,
    address: u64,
    file_size: u64,
    executable: bool,
}

/// A section: its virtual address, and where in the file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Virtual address; zero where it is not loaded.
    pub address: u64,
    range: Range<usize>,
}

/// An ELF file.
pub struct Elf {
    bytes: Bytes,
    machine: Machine,
    loads: Vec<Load>,
    build_id: Option<String>,
    /// Address of `.text`, which unwind tables may count from.
    pub(crate) text_address: u64,
    pub(crate) eh_frame: Option<Section>,
    pub(crate) eh_frame_hdr: Option<Section>,
}

impl std::fmt::Debug for Elf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Elf").field("build_id", &self.build_id).finish_non_exhaustive()
    }
}

impl Elf {
    /// Maps a file.
    ///
    /// # Errors
    /// Where it is not a 64-bit ELF file for a machine that is known.
    #[expect(unsafe_code, reason = "mapping a file that somebody may cut short")]
    pub fn open(file: &File) -> Result<Self, ElfError> {
        if !file.metadata()?.is_file() {
            return Err(ElfError::NotElf);
        }
        // SAFETY: the map is private and only read. Bytes that change under it are harmless: nothing in them is
        // believed. A file that is cut short would kill its reader, but those that are opened here are mapped by a
        // running process, which would die first, or are debug files, which packages replace whole.
        let map = unsafe { Mmap::map(file)? };
        Self::parse(Bytes::Mapped(map))
    }

    /// Takes a file that is in memory: the vDSO.
    ///
    /// # Errors
    /// Where it is not a 64-bit ELF file for a machine that is known.
    pub fn of(bytes: Vec<u8>) -> Result<Self, ElfError> {
        Self::parse(Bytes::Owned(bytes))
    }

    fn parse(bytes: Bytes) -> Result<Self, ElfError> {
        const CLASS: usize = 4;
        if bytes.get(..4) != Some(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if bytes.get(CLASS) == Some(&1) {
            return Err(ElfError::ThirtyTwoBit);
        }
        let data = &*bytes;
        let header = FileHeader64::<Endianness>::parse(data).map_err(|_| ElfError::NotElf)?;
        let endian = header.endian().map_err(|_| ElfError::NotElf)?;
        let machine = match header.e_machine(endian) {
            EM_X86_64 => Machine::X86_64,
            EM_AARCH64 if endian == Endianness::Little => Machine::Aarch64,
            _ => return Err(ElfError::ForeignMachine),
        };
        let mut loads = Vec::new();
        let mut frame_header = None;
        let mut build_id = None;
        for segment in header.program_headers(endian, data).map_err(|_| ElfError::NotElf)? {
            let kind = segment.p_type(endian);
            if kind == PT_LOAD {
                loads.push(Load {
                    offset: segment.p_offset(endian),
                    address: segment.p_vaddr(endian),
                    file_size: segment.p_filesz(endian),
                    executable: segment.p_flags(endian) & PF_X != 0,
                });
            } else if kind == PT_GNU_EH_FRAME {
                frame_header = section(
                    data,
                    segment.p_vaddr(endian),
                    segment.p_offset(endian),
                    segment.p_filesz(endian),
                );
            } else if kind == PT_NOTE && build_id.is_none() {
                build_id = notes_build_id(segment.notes(endian, data).ok().flatten(), endian);
            }
        }
        let mut elf = Self {
            text_address: 0,
            eh_frame: None,
            eh_frame_hdr: frame_header,
            machine,
            loads,
            build_id,
            bytes: Bytes::Owned(Vec::new()),
        };
        // A file may have no section headers at all, or damaged ones: its segments are enough to walk its stacks.
        if let Ok(sections) = header.sections(endian, data) {
            for (index, header) in sections.iter().enumerate() {
                let name = sections.section_name(endian, header).unwrap_or_default();
                let found = || {
                    let kept = header.sh_type(endian) != SHT_NOBITS;
                    kept.then(|| {
                        section(
                            data,
                            header.sh_addr(endian),
                            header.sh_offset(endian),
                            header.sh_size(endian),
                        )
                    })?
                };
                match name {
                    b".text" => elf.text_address = header.sh_addr(endian),
                    b".eh_frame" => elf.eh_frame = found(),
                    b".eh_frame_hdr" => elf.eh_frame_hdr = found(),
                    _ if elf.build_id.is_none() => {
                        elf.build_id = notes_build_id(header.notes(endian, data).ok().flatten(), endian);
                    }
                    _ => (),
                }
                // More sections than any program has: a damaged count.
                if index > 100_000 {
                    break;
                }
            }
        }
        elf.bytes = bytes;
        if elf.eh_frame.is_none() {
            elf.eh_frame = elf.eh_frame_by_its_header();
        }
        Ok(elf)
    }

    /// `.eh_frame_hdr` says where `.eh_frame` begins; it ends with its segment at the latest.
    fn eh_frame_by_its_header(&self) -> Option<Section> {
        let header = self.eh_frame_hdr.as_ref()?;
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(header.address);
        let parsed = gimli::EhFrameHdr::new(self.bytes(header), gimli::LittleEndian).parse(&bases, 8).ok()?;
        let address = parsed.eh_frame_ptr().direct().ok()?;
        let load = self.load_of(address)?;
        let within = address - load.address;
        section(&self.bytes, address, load.offset.checked_add(within)?, load.file_size - within)
    }

    /// The instruction set.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// GNU build id, hexadecimal.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The bytes of a section.
    pub fn bytes(&self, section: &Section) -> &[u8] {
        self.bytes.get(section.range.clone()).unwrap_or_default()
    }

    /// How far above its virtual addresses the file lies, when its part at `offset` is mapped at `start`.
    /// Wraps around, as the loader's own sum does.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // The loader maps whole pages: a segment begins up to a page before its first byte. 64 KiB is the largest
        // page of aarch64; executable segments first, for two of them can share a page of the file.
        const PAGE: u64 = 0x1_0000;
        let holds = |load: &&Load| {
            let end = load.offset.saturating_add(load.file_size);
            offset < end && offset.saturating_add(PAGE) > load.offset
        };
        let exactly =
            |load: &&Load| (load.offset..load.offset.saturating_add(load.file_size)).contains(&offset);
        let of =
            |wanted: &dyn Fn(&&Load) -> bool| self.loads.iter().filter(|load| load.executable).find(wanted);
        let load = of(&exactly).or_else(|| of(&holds))?;
        Some(start.wrapping_sub(offset).wrapping_add(load.offset).wrapping_sub(load.address))
    }

    /// What is mapped to be run: first address, address behind the last, file offset.
    pub(crate) fn code(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.loads.iter().filter(|load| load.executable).filter_map(|load| {
            let end = load.address.checked_add(load.file_size)?;
            (load.address < end).then_some((load.address, end, load.offset))
        })
    }

    fn load_of(&self, address: u64) -> Option<&Load> {
        self.loads
            .iter()
            .find(|load| address.checked_sub(load.address).is_some_and(|within| within < load.file_size))
    }

    /// Up to `len` bytes at a virtual address.
    pub fn at(&self, address: u64, len: usize) -> Option<&[u8]> {
        let load = self.load_of(address)?;
        let within = address - load.address;
        let offset = usize::try_from(load.offset.checked_add(within)?).ok()?;
        let len = len.min(usize::try_from(load.file_size - within).unwrap_or(usize::MAX));
        self.bytes.get(offset..offset.checked_add(len)?)
    }

    /// A part of the file that is not loaded.
    pub(crate) fn part(&self, offset: u64, size: u64) -> Option<Section> {
        section(&self.bytes, 0, offset, size)
    }

    /// The first bytes of the file.
    pub(crate) fn head(&self, len: usize) -> &[u8] {
        &self.bytes[..len.min(self.bytes.len())]
    }

    /// The file for `object`, which reads what is needed once only: symbols, links to debug files.
    pub(crate) fn object(&self) -> Option<ElfFile64<'_, Endianness>> {
        ElfFile64::parse(&*self.bytes).ok()
    }

    /// `.gnu_debuglink`: the name of the debug file, and its checksum.
    pub(crate) fn debug_link(&self) -> Option<(Vec<u8>, u32)> {
        let (name, crc) = self.object()?.gnu_debuglink().ok()??;
        Some((name.to_vec(), crc))
    }

    /// The checksum of the whole file, as `.gnu_debuglink` counts it.
    pub(crate) fn checksum(&self) -> u32 {
        crc32fast::hash(&self.bytes)
    }
}

fn section(data: &[u8], address: u64, offset: u64, size: u64) -> Option<Section> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= data.len()).then_some(Section { address, range: start..end })
}

fn notes_build_id(
    notes: Option<object::read::elf::NoteIterator<'_, FileHeader64<Endianness>>>,
    endian: Endianness,
) -> Option<String> {
    let mut notes = notes?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
            return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    None
}
