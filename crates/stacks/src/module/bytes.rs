//! The bytes of an ELF file, read and never mapped.
//!
//! A file that is mapped and then cut short kills its reader with SIGBUS, and files of an examined process belong to others.
//! So parts are read where they are needed: `Source::read` reads a part whole, `Pages` read the pages of a large
//! section that somebody looks at. What is kept is bounded by a [`Budget`], whatever the file says of itself: sizes in a
//! file are not believed.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gimli::{LittleEndian, ReaderOffsetId};
use object::elf::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD};

/// Larger files are not looked at: a debug file of MySQL 9 with everything in it has 1.2 GiB.
pub(super) const MOST_FILE_BYTES: u64 = 8 << 30;

/// What is kept of all the files of one process. MySQL 9.7 takes 30 MiB with all its libraries, and 60 MiB with its debug
/// information.
const MOST_KEPT_BYTES: u64 = 256 << 20;

/// What is read of whole files for their checksums, in one process.
const MOST_SUMMED_BYTES: u64 = 4 << 30;

/// Pages of a section that are read at once. Smaller than what the kernel reads ahead: what is looked at in debug
/// information is far apart.
const PAGE: usize = 4 << 10;

/// How much may still be kept in memory of the files of one process, and be read for checksums.
#[derive(Debug)]
pub struct Budget {
    kept: AtomicU64,
    summed: AtomicU64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { kept: AtomicU64::new(MOST_KEPT_BYTES), summed: AtomicU64::new(MOST_SUMMED_BYTES) }
    }
}

impl Budget {
    /// Takes bytes that will be kept; false where that is too much.
    pub(crate) fn keep(&self, bytes: u64) -> bool {
        take(&self.kept, bytes)
    }
}

fn take(left: &AtomicU64, bytes: u64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
}

/// Where the bytes are.
#[derive(Debug)]
enum Place {
    File(File),
    Memory(Vec<u8>),
}

/// The bytes of one ELF file.
#[derive(Debug)]
pub(crate) struct Source {
    place: Place,
    len: u64,
    budget: Arc<Budget>,
}

impl Source {
    /// A file of this length.
    pub(super) fn of_file(file: File, len: u64, budget: Arc<Budget>) -> Self {
        Self { place: Place::File(file), len, budget }
    }

    /// A file that is in memory.
    pub(super) fn of_memory(bytes: Vec<u8>, budget: Arc<Budget>) -> Self {
        Self { len: bytes.len() as u64, place: Place::Memory(bytes), budget }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(super) fn file(&self) -> Option<&File> {
        match &self.place {
            Place::File(file) => Some(file),
            Place::Memory(_) => None,
        }
    }

    /// True where a part lies within the file, as long as it was when it was opened.
    pub(super) fn has(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Fills a buffer; false where the file has not so many bytes there (any more).
    pub(super) fn fill(&self, offset: u64, into: &mut [u8]) -> bool {
        match &self.place {
            Place::File(file) => file.read_exact_at(into, offset).is_ok(),
            Place::Memory(bytes) => {
                let part =
                    usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..into.len()));
                part.map(|part| into.copy_from_slice(part)).is_some()
            }
        }
    }

    /// Reads a part of at most `most` bytes; none where the file has it not whole, or it is larger.
    pub(crate) fn read(&self, offset: u64, len: u64, most: u64) -> Option<Vec<u8>> {
        if len > most || !self.has(offset, len) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.fill(offset, &mut bytes).then_some(bytes)
    }

    /// The same, of what is kept: it counts against the budget.
    pub(super) fn keep(&self, offset: u64, len: u64) -> Option<Box<[u8]>> {
        let fits = self.has(offset, len) && self.budget.keep(len);
        fits.then(|| self.read(offset, len, u64::MAX))?.map(Vec::into_boxed_slice)
    }

    /// The checksum of the whole file, as `.gnu_debuglink` counts it; none where too much would be read.
    pub(super) fn checksum(&self) -> Option<u32> {
        const STEP: usize = 1 << 20;
        if !take(&self.budget.summed, self.len) {
            return None;
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; STEP];
        let mut at = 0;
        while at < self.len {
            let step = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(STEP);
            if !self.fill(at, &mut buffer[..step]) {
                return None;
            }
            hasher.update(&buffer[..step]);
            at += step as u64;
        }
        Some(hasher.finalize())
    }
}

/// A large section, of which the pages are read that somebody looks at; or one that was packed, and is unpacked whole.
#[derive(Clone)]
pub(crate) struct Pages(Arc<Inner>);

struct Inner {
    /// None for what is unpacked.
    source: Option<Arc<Source>>,
    offset: u64,
    len: usize,
    /// Bytes of a page.
    page: usize,
    pages: Box<[OnceLock<Box<[u8]>>]>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pages").field("len", &self.0.len).finish_non_exhaustive()
    }
}

impl Pages {
    /// A part of a file; none where the file has it not.
    pub(super) fn of_source(source: &Arc<Source>, offset: u64, len: u64) -> Option<Self> {
        let size = usize::try_from(len).ok()?;
        let count = size.div_ceil(PAGE);
        let table = (count * size_of::<OnceLock<Box<[u8]>>>()) as u64;
        if !source.has(offset, len) || !source.budget.keep(table) {
            return None;
        }
        let pages = (0..count).map(|_| OnceLock::new()).collect();
        Some(Self(Arc::new(Inner { source: Some(Arc::clone(source)), offset, len: size, page: PAGE, pages })))
    }

    /// A section that is in memory.
    pub(crate) fn of_memory(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        let pages = Box::new([OnceLock::from(bytes.into_boxed_slice())]);
        Self(Arc::new(Inner { source: None, offset: 0, len, page: len.max(1), pages }))
    }

    /// What follows a place, up to the end of its page; none behind the end, and where it cannot be read (any more).
    fn rest_of_page(&self, at: usize) -> Option<&[u8]> {
        let inner = &*self.0;
        if at >= inner.len {
            return None;
        }
        let (number, within) = (at / inner.page, at % inner.page);
        let page = inner.pages[number].get_or_init(|| {
            let start = number * inner.page;
            let len = inner.page.min(inner.len - start) as u64;
            // An empty page cannot be read.
            let read = inner.source.as_ref().and_then(|source| source.keep(inner.offset + start as u64, len));
            read.unwrap_or_default()
        });
        page.get(within..).filter(|rest| !rest.is_empty())
    }

    /// Fills a buffer; none where there is less.
    fn fill(&self, mut at: usize, mut into: &mut [u8]) -> Option<()> {
        while !into.is_empty() {
            let rest = self.rest_of_page(at)?;
            let step = rest.len().min(into.len());
            let (now, later) = into.split_at_mut(step);
            now.copy_from_slice(&rest[..step]);
            into = later;
            at += step;
        }
        Some(())
    }

    /// How far behind `at` the first such byte is, before `end`.
    fn find(&self, at: usize, end: usize, byte: u8) -> Option<usize> {
        let mut place = at;
        while place < end {
            let rest = self.rest_of_page(place)?;
            let rest = &rest[..rest.len().min(end - place)];
            if let Some(found) = rest.iter().position(|&there| there == byte) {
                return Some(place + found - at);
            }
            place += rest.len();
        }
        None
    }

    /// The text that ends with the first zero behind a place; none where there is none, or it is longer than `most`.
    pub(crate) fn text(&self, at: u64, most: usize) -> Option<Cow<'_, [u8]>> {
        let at = usize::try_from(at).ok()?;
        let len = self.find(at, self.0.len.min(at.checked_add(most)?), 0)?;
        self.slice(at, len)
    }

    fn slice(&self, at: usize, len: usize) -> Option<Cow<'_, [u8]>> {
        if len == 0 {
            return Some(Cow::Borrowed(&[]));
        }
        let rest = self.rest_of_page(at)?;
        if let Some(whole) = rest.get(..len) {
            return Some(Cow::Borrowed(whole));
        }
        let mut bytes = vec![0; len];
        self.fill(at, &mut bytes)?;
        Some(Cow::Owned(bytes))
    }

    /// All of it, to be read as DWARF.
    pub(crate) fn reader(&self) -> PagesReader {
        PagesReader { pages: self.clone(), at: 0, end: self.0.len }
    }
}

/// Unpacks a compressed section (`ELFCOMPRESS_ZLIB`, `ELFCOMPRESS_ZSTD`), whose size is said to be `size`.
pub(super) fn unpack(kind: u32, packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more would show that the size is wrong.
    let most = size.checked_add(1)?;
    match kind {
        ELFCOMPRESS_ZLIB => flate2::read::ZlibDecoder::new(packed).take(most).read_to_end(&mut bytes),
        ELFCOMPRESS_ZSTD => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
            decoder.take(most).read_to_end(&mut bytes)
        }
        _ => return None,
    }
    .ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}

/// A part of a section that is read as DWARF.
#[derive(Debug, Clone)]
pub(crate) struct PagesReader {
    pages: Pages,
    at: usize,
    end: usize,
}

impl PagesReader {
    fn short(&self) -> gimli::Error {
        gimli::Error::UnexpectedEof(self.offset_id())
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at as u64)
    }
}

impl gimli::Reader for PagesReader {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.end - self.at
    }

    fn empty(&mut self) {
        self.end = self.at;
    }

    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        if len > self.len() {
            return Err(self.short());
        }
        self.end = self.at + len;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.at.saturating_sub(base.at)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        Self::offset_id(self)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let at = usize::try_from(id.0).ok()?;
        (self.at..=self.end).contains(&at).then(|| at - self.at)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        self.pages.find(self.at, self.end, byte).ok_or_else(|| self.short())
    }

    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        if len > self.len() {
            return Err(self.short());
        }
        self.at += len;
        Ok(())
    }

    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        let mut first = self.clone();
        first.truncate(len)?;
        self.at += len;
        Ok(first)
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        // A copy of more than this is nothing that DWARF asks for: names, blocks, expressions.
        const LONGEST: usize = 1 << 20;
        if self.len() > LONGEST {
            return Err(self.short());
        }
        self.pages.slice(self.at, self.len()).ok_or_else(|| self.short())
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        match self.to_slice()? {
            Cow::Borrowed(bytes) => {
                std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| gimli::Error::BadUtf8)
            }
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| gimli::Error::BadUtf8),
        }
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        Ok(match self.to_slice()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    fn read_slice(&mut self, into: &mut [u8]) -> gimli::Result<()> {
        if into.len() > self.len() || self.pages.fill(self.at, into).is_none() {
            return Err(self.short());
        }
        self.at += into.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use gimli::Reader as _;

    use super::*;

    fn file(bytes: &[u8]) -> Arc<Source> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(Source::of_file(file, bytes.len() as u64, Arc::default()))
    }

    #[test]
    fn a_section_is_read_across_its_pages() {
        let bytes: Vec<u8> = (0..3 * PAGE + 7).map(|at| (at % 251) as u8 + 1).collect();
        let pages = Pages::of_source(&file(&bytes), 0, bytes.len() as u64).unwrap();
        let mut reader = pages.reader();
        assert_eq!(reader.read_u8().unwrap(), 1);
        reader.skip(PAGE - 3).unwrap();
        let mut across = [0; 8];
        reader.read_slice(&mut across).unwrap();
        assert_eq!(across, bytes[PAGE - 2..PAGE + 6]);
        let mut part = reader.split(2 * PAGE).unwrap();
        assert_eq!(&*part.to_slice().unwrap(), &bytes[PAGE + 6..3 * PAGE + 6]);
        assert_eq!(reader.len(), 1);
        assert_eq!(part.offset_from(&pages.reader()), PAGE + 6);
        assert!(part.skip(2 * PAGE + 1).is_err() && reader.read_u16().is_err());
        assert!(pages.reader().find(0).is_err());
        assert_eq!(pages.text(0, usize::MAX - 1), None);
    }

    #[test]
    fn a_file_that_is_cut_short_reads_as_nothing() {
        let source = file(&[1; 3 * PAGE]);
        let pages = Pages::of_source(&source, 0, 3 * PAGE as u64).unwrap();
        assert_eq!(pages.reader().read_u8().unwrap(), 1);
        let Place::File(cut) = &source.place else { unreachable!() };
        cut.set_len(PAGE as u64 + 1).unwrap();
        let mut reader = pages.reader();
        reader.skip(PAGE).unwrap();
        assert!(reader.read_u8().is_err(), "half a page is none");
        assert_eq!(source.read(0, 3 * PAGE as u64, u64::MAX), None);
        assert_eq!(source.checksum(), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let budget = Budget::default();
        assert!(budget.keep(MOST_KEPT_BYTES));
        assert!(!budget.keep(1));
        let source = Source { budget: Arc::new(budget), ..Arc::into_inner(file(&[7; 64])).unwrap() };
        assert_eq!(source.keep(0, 64), None);
        assert!(Pages::of_source(&Arc::new(source), 0, 64).is_none());
    }

    #[test]
    fn a_packed_section_has_the_size_that_it_says() {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&[0; 1 << 20]).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(unpack(ELFCOMPRESS_ZLIB, &packed, 1 << 20).map(|bytes| bytes.len()), Some(1 << 20));
        // A bomb says that it is small.
        assert_eq!(unpack(ELFCOMPRESS_ZLIB, &packed, 4_096), None);
        assert_eq!(unpack(ELFCOMPRESS_ZSTD, &packed, 4_096), None);
        assert_eq!(unpack(77, &packed, 4_096), None);
        // `zstd` of 64 zeroes.
        let packed = [
            0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x40, 0x4d, 0x00, 0x00, 0x10, 0x00, 0x00, 0x01, 0x00, 0x3b, 0x2b,
            0xac, 0x02, 0x00, 0x00,
        ];
        let _ = unpack(ELFCOMPRESS_ZSTD, &packed, 64);
    }
}
