//! One ELF file: what a profiler needs of it, read where it is stored.
//!
//! In: a file, or the bytes of the vDSO. Out: segments, sections, the build id. Parts are read when they are needed and
//! never mapped (see [`super::bytes`]). Nothing in a file is trusted: every offset and size is checked, a part that
//! does not fit counts as missing, and the memory for all the files of a process is bounded.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use object::Endianness;
use object::elf::{
    CompressionHeader64, EM_AARCH64, EM_X86_64, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_GNU_EH_FRAME,
    PT_LOAD, PT_NOTE, ProgramHeader64, SHF_COMPRESSED, SHF_EXECINSTR, SHN_UNDEF, SHN_XINDEX, SHT_DYNSYM,
    SHT_NOBITS, SHT_NOTE, SHT_SYMTAB, STT_OBJECT, SectionHeader64, Sym64,
};
use object::pod::{Pod, bytes_of_slice, bytes_of_slice_mut, slice_from_bytes};
use object::read::elf::{
    CompressionHeader as _, FileHeader as _, NoteIterator, ProgramHeader as _, SectionHeader as _, Sym as _,
};

use super::bytes::{Budget, MOST_FILE_BYTES, Pages, Source, unpack};

/// More headers than any program has: a damaged count. The largest programs have some hundred sections.
const MOST_HEADERS: usize = 100_000;

/// All names of sections together: mysqld has 400 bytes of them. Objects with a section for each function have megabytes.
const MOST_SECTION_NAMES: u64 = 16 << 20;

/// A segment of notes: mysqld has 68 bytes of them.
const MOST_NOTES: usize = 64 << 10;

/// Segments and sections of notes that are looked through for a build id.
const MOST_NOTE_PARTS: usize = 16;

/// A build id has 20 bytes (SHA-1) or 16; what is longer is none.
const MOST_BUILD_ID: usize = 64;

/// Machine code of one function is at most this; the largest of mysqld, its parser, has 160 KiB.
const MOST_CODE: usize = 4 << 20;

/// A link to a debug file: a name, and a checksum or a build id.
const MOST_LINK: u64 = 4_096;

/// Symbols of one table: mysqld has 240,000 with its static ones, the largest browsers a million.
const MOST_SYMBOLS: u64 = 4 << 20;

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
    /// Too much to look at.
    #[error("it is larger than {} GiB", MOST_FILE_BYTES >> 30)]
    TooLarge,
    /// Too many files.
    #[error("the process has more files mapped than are looked at")]
    TooMany,
}

/// A part of a file that the loader maps.
#[derive(Debug, Clone, Copy)]
struct Load {
    offset: u64,
    address: u64,
    file_size: u64,
    executable: bool,
}

/// A section that is read whole once somebody looks into it: its virtual address, and where in the file it is.
#[derive(Debug)]
pub struct Section {
    /// Virtual address; zero where it is not loaded.
    pub address: u64,
    offset: u64,
    len: u64,
    bytes: OnceLock<Box<[u8]>>,
}

/// What the file says of a section.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_code: bool,
    /// None where it takes no room in the file.
    offset: Option<u64>,
    kind: u32,
    link: u32,
    is_packed: bool,
}

/// Which symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// `.symtab`, which strip removes.
    All,
    /// `.dynsym`, which the loader needs.
    Dynamic,
}

/// An ELF file.
pub struct Elf {
    source: Arc<Source>,
    endian: Endianness,
    machine: Machine,
    entry: u64,
    loads: Vec<Load>,
    headers: Vec<Header>,
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
    /// Reads a file's headers. What is kept of it counts against the budget of its process.
    ///
    /// # Errors
    /// Where it is not a 64-bit ELF file for a machine that is known.
    pub fn open(file: File, budget: &Arc<Budget>) -> Result<Self, ElfError> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ElfError::NotElf);
        }
        if metadata.len() > MOST_FILE_BYTES {
            return Err(ElfError::TooLarge);
        }
        Self::parse(Source::of_file(file, metadata.len(), Arc::clone(budget)))
    }

    /// Takes a file that is in memory: the vDSO, what was packed into another file.
    ///
    /// # Errors
    /// Where it is not a 64-bit ELF file for a machine that is known.
    pub fn from_bytes(bytes: Vec<u8>, budget: &Arc<Budget>) -> Result<Self, ElfError> {
        Self::parse(Source::of_memory(bytes, Arc::clone(budget)))
    }

    fn parse(source: Source) -> Result<Self, ElfError> {
        const CLASS: usize = 4;
        let head = source.read(0, 16, 16).ok_or(ElfError::NotElf)?;
        if head.get(..4) != Some(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if head.get(CLASS) == Some(&1) {
            return Err(ElfError::ThirtyTwoBit);
        }
        let head = Table::read(&source, 0, 1).ok_or(ElfError::NotElf)?;
        let header: &FileHeader64<Endianness> = head.entries().first().ok_or(ElfError::NotElf)?;
        if !header.is_supported() {
            return Err(ElfError::NotElf);
        }
        let endian = header.endian().map_err(|_| ElfError::NotElf)?;
        let machine = match header.e_machine(endian) {
            EM_X86_64 if endian == Endianness::Little => Machine::X86_64,
            EM_AARCH64 if endian == Endianness::Little => Machine::Aarch64,
            _ => return Err(ElfError::ForeignMachine),
        };
        let mut elf = Self {
            endian,
            machine,
            entry: header.e_entry(endian),
            loads: Vec::new(),
            headers: Vec::new(),
            build_id: None,
            text_address: 0,
            eh_frame: None,
            eh_frame_hdr: None,
            source: Arc::new(source),
        };
        elf.read_segments(header).ok_or(ElfError::NotElf)?;
        // A file may have no section headers at all, or damaged ones: its segments are enough to walk its stacks.
        elf.headers = elf.read_section_headers(header).unwrap_or_default();
        elf.take_sections();
        if elf.eh_frame.is_none() {
            elf.eh_frame = elf.eh_frame_by_its_header();
        }
        Ok(elf)
    }

    /// None where the table of segments is damaged.
    fn read_segments(&mut self, header: &FileHeader64<Endianness>) -> Option<()> {
        let endian = self.endian;
        let (offset, count) = (header.e_phoff(endian), usize::from(header.e_phnum(endian)));
        if offset == 0 || count == 0 {
            return Some(());
        }
        if usize::from(header.e_phentsize(endian)) != size_of::<ProgramHeader64<Endianness>>() {
            return None;
        }
        let table = Table::<ProgramHeader64<Endianness>>::read(&self.source, offset, count)?;
        let mut notes = 0;
        for segment in table.entries() {
            let kind = segment.p_type(endian);
            let (at, len) = (segment.p_offset(endian), segment.p_filesz(endian));
            if kind == PT_LOAD {
                self.loads.push(Load {
                    offset: at,
                    address: segment.p_vaddr(endian),
                    file_size: len,
                    executable: segment.p_flags(endian) & PF_X != 0,
                });
            } else if kind == PT_GNU_EH_FRAME {
                self.eh_frame_hdr = self.part(segment.p_vaddr(endian), at, len);
            } else if kind == PT_NOTE && self.build_id.is_none() && notes < MOST_NOTE_PARTS {
                notes += 1;
                self.build_id = self.notes_build_id(at, len, segment.p_align(endian));
            }
        }
        Some(())
    }

    fn read_section_headers(&self, header: &FileHeader64<Endianness>) -> Option<Vec<Header>> {
        let endian = self.endian;
        let offset = header.e_shoff(endian);
        if offset == 0 || usize::from(header.e_shentsize(endian)) != size_of::<SectionHeader64<Endianness>>()
        {
            return None;
        }
        // Where there are too many for the header, the first section says how many and which has the names.
        let first = Table::<SectionHeader64<Endianness>>::read(&self.source, offset, 1)?;
        let first = first.entries().first()?;
        let count = match header.e_shnum(endian) {
            0 => usize::try_from(first.sh_size(endian)).ok()?,
            count => usize::from(count),
        };
        let names = match header.e_shstrndx(endian) {
            SHN_XINDEX => first.sh_link(endian) as usize,
            names => usize::from(names),
        };
        if count > MOST_HEADERS {
            return None;
        }
        let table = Table::<SectionHeader64<Endianness>>::read(&self.source, offset, count)?;
        let sections = table.entries();
        let names = sections.get(names)?;
        let names = self.source.read(names.sh_offset(endian), names.sh_size(endian), MOST_SECTION_NAMES)?;
        let header = |section: &SectionHeader64<Endianness>| {
            let name = names.get(section.sh_name(endian) as usize..).unwrap_or_default();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            // Names of sections of one function each are as long as the function's.
            let name = &name[..name.len().min(64)];
            let flags = section.sh_flags(endian);
            Header {
                name: String::from_utf8_lossy(name).into_owned(),
                address: section.sh_addr(endian),
                size: section.sh_size(endian),
                is_code: flags & u64::from(SHF_EXECINSTR) != 0,
                offset: (section.sh_type(endian) != SHT_NOBITS).then(|| section.sh_offset(endian)),
                kind: section.sh_type(endian),
                link: section.sh_link(endian),
                is_packed: flags & u64::from(SHF_COMPRESSED) != 0,
            }
        };
        Some(sections.iter().map(header).collect())
    }

    fn take_sections(&mut self) {
        let of = |elf: &Self, name: &str| {
            let header = elf.section(name)?;
            elf.part(header.address, header.offset?, header.size)
        };
        self.text_address = self.section(".text").map_or(0, |header| header.address);
        self.eh_frame = of(self, ".eh_frame");
        if let Some(section) = of(self, ".eh_frame_hdr") {
            self.eh_frame_hdr = Some(section);
        }
        if self.build_id.is_none() {
            let notes = self.headers.iter().filter(|header| header.kind == SHT_NOTE).take(MOST_NOTE_PARTS);
            let build_id =
                notes.filter_map(|header| self.notes_build_id(header.offset?, header.size, 4)).next();
            self.build_id = build_id;
        }
    }

    fn notes_build_id(&self, offset: u64, len: u64, align: u64) -> Option<String> {
        let len = usize::try_from(len).ok().filter(|&len| len <= MOST_NOTES)?;
        let notes = Table::<u8>::read(&self.source, offset, len)?;
        let mut notes =
            NoteIterator::<FileHeader64<Endianness>>::new(self.endian, align, notes.entries()).ok()?;
        while let Ok(Some(note)) = notes.next() {
            let id = note.desc();
            if note.name() == b"GNU"
                && note.n_type(self.endian) == NT_GNU_BUILD_ID
                && id.len() <= MOST_BUILD_ID
            {
                return Some(id.iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
        None
    }

    /// `.eh_frame_hdr` says where `.eh_frame` begins; it ends with its segment at the latest.
    fn eh_frame_by_its_header(&self) -> Option<Section> {
        let header = self.eh_frame_hdr.as_ref()?;
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(header.address);
        let parsed = gimli::EhFrameHdr::new(self.bytes(header), gimli::LittleEndian).parse(&bases, 8).ok()?;
        let address = parsed.eh_frame_ptr().direct().ok()?;
        let load = self.load_of(address)?;
        let within = address - load.address;
        self.part(address, load.offset.checked_add(within)?, load.file_size - within)
    }

    /// The instruction set.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// GNU build id, hexadecimal.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The bytes of a section, read once; empty where they cannot be read.
    pub fn bytes<'a>(&self, section: &'a Section) -> &'a [u8] {
        section.bytes.get_or_init(|| self.source.keep(section.offset, section.len).unwrap_or_default())
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
    pub fn at(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        let load = self.load_of(address)?;
        let within = address - load.address;
        let offset = load.offset.checked_add(within)?;
        let len = (len as u64).min(load.file_size - within).min(MOST_CODE as u64);
        self.source.read(offset, len, MOST_CODE as u64)
    }

    /// A part of the file, where the file has it.
    fn part(&self, address: u64, offset: u64, len: u64) -> Option<Section> {
        self.source.has(offset, len).then(|| Section { address, offset, len, bytes: OnceLock::new() })
    }

    /// The first bytes of the file.
    pub(crate) fn head(&self, len: usize) -> Vec<u8> {
        self.source.read(0, len as u64, len as u64).unwrap_or_default()
    }

    /// The file by a path that leads to this very file, whatever its name leads to by now; none for what is in memory. It
    /// leads there as long as `self` lives.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        Some(format!("/proc/self/fd/{}", self.source.file()?.as_raw_fd()).into())
    }

    /// What the process of this file may still keep in memory.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.source.budget()
    }

    /// What the file says of its sections.
    pub(crate) fn sections(&self) -> &[Header] {
        &self.headers
    }

    /// The first section of a name.
    pub(crate) fn section(&self, name: &str) -> Option<&Header> {
        self.headers.iter().find(|header| header.name == name)
    }

    /// All of a small section, as it is in the file; none where it is larger than `most`.
    pub(crate) fn read(&self, header: &Header, most: u64) -> Option<Vec<u8>> {
        self.source.read(header.offset?, header.size, most)
    }

    /// How many bytes a section takes when it is read: those that are unpacked; zero for one that is read in pages.
    pub(crate) fn unpacked_size(&self, header: &Header) -> u64 {
        self.packing(header).map_or(0, |(_, size, _)| size)
    }

    /// How a section is packed, how large it is unpacked, and how long the header is that says so.
    fn packing(&self, header: &Header) -> Option<(u32, u64, u64)> {
        if header.is_packed {
            let table = Table::<CompressionHeader64<Endianness>>::read(&self.source, header.offset?, 1)?;
            let packing = table.entries().first()?;
            let length = size_of::<CompressionHeader64<Endianness>>() as u64;
            return Some((packing.ch_type(self.endian), packing.ch_size(self.endian), length));
        }
        // GNU's older form: `ZLIB` and the size, high byte first.
        if !header.name.starts_with(".zdebug") {
            return None;
        }
        let start = self.source.read(header.offset?, 12, 12)?;
        let size = u64::from_be_bytes(start.strip_prefix(b"ZLIB")?.try_into().ok()?);
        Some((object::elf::ELFCOMPRESS_ZLIB, size, 12))
    }

    /// A section that is looked into here and there; unpacked, where it is packed.
    pub(crate) fn pages(&self, header: &Header) -> Option<Pages> {
        let (offset, size) = (header.offset?, header.size);
        let Some((kind, unpacked, skipped)) = self.packing(header) else {
            return if header.is_packed { None } else { Pages::of_source(&self.source, offset, size) };
        };
        if !self.budget().keep(unpacked) {
            return None;
        }
        let packed = self.source.read(offset.checked_add(skipped)?, size.checked_sub(skipped)?, unpacked)?;
        unpack(kind, &packed, unpacked).map(Pages::of_memory)
    }

    /// The symbols of a table, one by one, and where their names are; none where the file has no such table.
    pub(crate) fn symbols(&self, which: Which, each: &mut dyn FnMut(RawSymbol)) -> Option<Pages> {
        /// Symbols that are read at once: 1.5 MiB.
        const STEP: u64 = 64 << 10;
        let wanted = if which == Which::All { SHT_SYMTAB } else { SHT_DYNSYM };
        let table = self.headers.iter().find(|header| header.kind == wanted)?;
        let names = self.pages(self.headers.get(table.link as usize)?)?;
        let (offset, size) = (table.offset?, size_of::<Sym64<Endianness>>() as u64);
        let count = (table.size / size).min(MOST_SYMBOLS);
        let endian = self.endian;
        let mut done = 0;
        while done < count {
            let step = STEP.min(count - done);
            let part = Table::<Sym64<Endianness>>::read(
                &self.source,
                offset.checked_add(done * size)?,
                usize::try_from(step).ok()?,
            )?;
            for symbol in part.entries() {
                each(RawSymbol {
                    name: symbol.st_name(endian),
                    kind: symbol.st_type(),
                    binding: symbol.st_bind(),
                    section: symbol.st_shndx(endian),
                    address: symbol.st_value(endian),
                    size: symbol.st_size(endian),
                });
            }
            done += step;
        }
        Some(names)
    }

    /// The entry point.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The value and size of a data symbol: of the dynamic table, or of the full one, which most packages strip. `size` is
    /// what it must have.
    pub fn data_symbol(&self, name: &str, size: u64) -> Option<u64> {
        let [value] = self.data_symbols([(name, size)]);
        value
    }

    /// The same of several, each of a name and a size: each table is looked through once.
    pub fn data_symbols<const COUNT: usize>(&self, wanted: [(&str, u64); COUNT]) -> [Option<u64>; COUNT] {
        let mut values = [None; COUNT];
        let longest = wanted.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for which in [Which::Dynamic, Which::All] {
            if values.iter().all(Option::is_some) {
                break;
            }
            let mut likely = Vec::new();
            let names = self.symbols(which, &mut |symbol| {
                let has_size = wanted.iter().any(|(_, size)| *size == symbol.size);
                if symbol.kind == STT_OBJECT && has_size && symbol.section != SHN_UNDEF {
                    likely.push(symbol);
                }
            });
            let Some(names) = names else { continue };
            for symbol in &likely {
                let Some(text) = names.text(u64::from(symbol.name), longest + 1) else { continue };
                for ((name, size), value) in wanted.iter().zip(&mut values) {
                    if value.is_none() && *size == symbol.size && *text == *name.as_bytes() {
                        *value = Some(symbol.address);
                    }
                }
            }
        }
        values
    }

    /// `.gnu_debuglink`: the name of the debug file, and its checksum.
    pub(crate) fn debug_link(&self) -> Option<(Vec<u8>, u32)> {
        let bytes = self.read(self.section(".gnu_debuglink")?, MOST_LINK)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let checksum = bytes.get((end + 1).next_multiple_of(4)..)?.first_chunk()?;
        let checksum = match self.endian {
            Endianness::Little => u32::from_le_bytes(*checksum),
            Endianness::Big => u32::from_be_bytes(*checksum),
        };
        Some((bytes[..end].to_vec(), checksum))
    }

    /// `.gnu_debugaltlink`: the path of what several debug files of one package share (dwz), and its build id.
    pub(crate) fn shared_link(&self) -> Option<(Vec<u8>, String)> {
        let bytes = self.read(self.section(".gnu_debugaltlink")?, MOST_LINK)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let id = bytes[end + 1..].iter().map(|byte| format!("{byte:02x}")).collect();
        Some((bytes[..end].to_vec(), id))
    }

    /// The checksum of the whole file, as `.gnu_debuglink` counts it; none where reading it would be too much.
    pub(crate) fn checksum(&self) -> Option<u32> {
        self.source.checksum()
    }
}

/// A symbol as it is in its table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSymbol {
    /// Where its name is.
    pub(crate) name: u32,
    pub(crate) kind: u8,
    pub(crate) binding: u8,
    pub(crate) section: u16,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// Some entries of a table of the file, read into memory that is aligned for them.
struct Table<T> {
    words: Vec<u64>,
    count: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Table<T> {
    /// Reads `count` entries; none where the file has them not. Who calls bounds the count.
    fn read(source: &Source, offset: u64, count: usize) -> Option<Self> {
        let len = count.checked_mul(size_of::<T>())?;
        if !source.has(offset, len as u64) {
            return None;
        }
        let mut words = vec![0; len.div_ceil(size_of::<u64>())];
        let read = source.fill(offset, &mut bytes_of_slice_mut(&mut words)[..len]);
        read.then_some(Self { words, count, of: PhantomData })
    }

    fn entries(&self) -> &[T] {
        slice_from_bytes(bytes_of_slice(&self.words), self.count).map_or(&[], |(entries, _)| entries)
    }
}
