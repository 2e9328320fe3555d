//! The server's files in the page cache, and their eviction.
//!
//! In: a [`Target`] and the server's [`Places`]. Out: [`Files`], each with its kind, its cached bytes and the server's
//! descriptors of it. Folders are listed below `/proc/PID/root`, as the server sees them; what is open and lies
//! elsewhere is found by its descriptor. The check reads no page and makes none younger.
//!
//! [`Evictor`] removes parts of logs from the cache. It handles no other kind of file; other modules decide which
//! parts.
//!
//! # A file's trip
//!
//! 1. **Where files are** (`crates/collect/src/host/page_cache/places.rs`) follows from the server's variables, or without a
//!    session from what its process has open; what each is for, from its place and name.
//! 2. **What is cached of them** (`page_cache/mod.rs`, `pages.rs`): folders are listed below `/proc/PID/root`, and one call for
//!    each file asks the kernel. `descriptors.rs` says who reads and writes which, and how it was opened; a descriptor also
//!    leads to what lies elsewhere or has no name. `doctor` and `record` look at logs alone, as the source `cachestat`.
//! 3. **What the server says** (`collect/src/file_facts.rs`): how far relay logs are applied, which redo lies in which file,
//!    where the checkpoint is, how many replicas are fed.
//! 4. **What may leave** is decided by `crates/spindoctor/src/cache/plan.rs`, pure: for each log a part, or a reason why it stays.
//!    Readers are looked at several times before: a dump thread that goes from one file to the next has none open for a moment.
//! 5. **Leaving.** `Evictor` is the only code that takes something out of the page cache. It opens logs alone, and no other file
//!    than the one that was looked at.

mod descriptors;
#[expect(unsafe_code, reason = "cachestat and mincore have no safe wrapper")]
mod pages;
mod places;

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Advice, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use spindoctor_model::Unavailable;
use spindoctor_model::page_cache::{CachedFile, CachedFiles, FileKind, PageCache};
use spindoctor_stacks::target_file::{Root, of_proc};

use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;
use pages::Counter;
pub use places::{Places, VARIABLES};

/// The server's logs in the page cache.
pub const SOURCE: HostSource = HostSource {
    name: "cachestat",
    help: "what the page cache holds of binary, relay and redo logs",
    cost: "a link for each of the server's descriptors, four calls for each log; no page is read",
    needs: "root or the server's user",
    cadence: Cadence::Ends,
    pace: Pace::host(60, 600),
    read: |target, sample, now| sample.page_cache = reading(collect(target), now),
};

/// Files that are looked at: more are left out and counted. A server with a table for each of a hundred thousand customers
/// has these many; they take a second.
const MOST_FILES: usize = 200_000;
/// Folders below a data directory: schemas, and what engines keep below them.
const DEPTH: usize = 3;
/// Of files that are no logs, so many of each kind are looked at for how they were opened: three calls each.
const DESCRIBED: usize = 16;

/// File systems whose files live in the page cache: `TMPFS_MAGIC`, `RAMFS_MAGIC` (include/uapi/linux/magic.h).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// `OVERLAYFS_SUPER_MAGIC`: the pages are those of a file below.
const LAYERED: u64 = 0x794c_7630;
/// ZFS keeps files in a cache of its own (`ZFS_SUPER_MAGIC` of OpenZFS).
const ZFS: u64 = 0x2fc1_2fc1;

fn collect(target: &Target) -> Result<PageCache, Unavailable> {
    let files = look(target, &Places::seen(target)?, Scope::Logs)?;
    if let Some(why) = files.uncounted {
        return Err(why);
    }
    Ok(PageCache {
        binlog: together(&files.files, FileKind::Binlog),
        relay: together(&files.files, FileKind::Relay),
        redo: together(&files.files, FileKind::Redo),
    })
}

/// All files of a kind as one.
fn together(files: &[CachedFile], kind: FileKind) -> CachedFiles {
    files.iter().filter(|file| file.kind == kind).fold(CachedFiles::default(), |sum, file| CachedFiles {
        files: sum.files + 1,
        bytes: sum.bytes + file.bytes,
        cached_bytes: sum.cached_bytes + file.cached_bytes.filter(|_| !file.is_in_memory).unwrap_or_default(),
    })
}

/// Which files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of the server's.
    All,
    /// Binary, relay and redo logs.
    Logs,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The files, by their paths.
    pub files: Vec<CachedFile>,
    /// True where there are more than are looked at.
    pub is_cut: bool,
    /// Why some files have no count.
    pub uncounted: Option<Unavailable>,
    /// Folders that could not be listed, and what else is to be known.
    pub notes: Vec<String>,
    /// The kernel's call that was used: `cachestat`, `mincore`.
    pub method: &'static str,
}

/// Looks at the server's files.
///
/// Cost: four calls for each file and two for each of the server's descriptors; nothing of the server's waits for them.
///
/// # Errors
/// The process is gone, or another user's.
pub fn look(target: &Target, places: &Places, scope: Scope) -> Result<Files, Unavailable> {
    let mut look = Look::open(target, places, scope)?;
    let depth = if scope == Scope::All { DEPTH } else { 0 };
    look.folder(places.data_directory(), depth, Whose::Servers);
    for folder in &places.folders {
        // One below the data directory was walked with it.
        if scope == Scope::Logs || !places::is_below(folder, places.data_directory()) {
            look.folder(folder, 0, Whose::Others);
        }
    }
    look.descriptors(target)?;
    let mut seen = look.seen;
    seen.method = look.counter.method();
    seen.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(seen)
}

/// Whose folder it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The server's: every file in it counts.
    Servers,
    /// One in which others keep files, too: what the server would not keep does not count.
    Others,
}

/// What the file system under a folder means for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ground {
    is_in_memory: bool,
    is_layered: bool,
    is_zfs: bool,
}

impl Ground {
    fn under(file: impl AsFd) -> Self {
        let kind = rustix::fs::fstatfs(file).map_or(0, |ground| ground.f_type as u64 & 0xffff_ffff);
        Self { is_in_memory: IN_MEMORY.contains(&kind), is_layered: kind == LAYERED, is_zfs: kind == ZFS }
    }
}

/// A look under way.
struct Look<'a> {
    root: Root,
    places: &'a Places,
    scope: Scope,
    counter: Counter,
    seen: Files,
    /// Where each file stands in the list, by device and inode.
    known: HashMap<(u64, u64), usize>,
}

impl<'a> Look<'a> {
    fn open(target: &Target, places: &'a Places, scope: Scope) -> Result<Self, Unavailable> {
        Ok(Self {
            root: root(target)?,
            places,
            scope,
            counter: Counter::new(),
            seen: Files::default(),
            known: HashMap::new(),
        })
    }

    /// Walks a folder that the server names.
    fn folder(&mut self, path: &str, depth: usize, whose: Whose) {
        match self.root.folder(Path::new(path)) {
            Ok(folder) => self.walk(&folder, path, depth, whose),
            // Not every server has every folder.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => self.note_unlisted(path, &error),
        }
    }

    fn note_unlisted(&mut self, path: &str, error: &std::io::Error) {
        self.seen.notes.push(format!("{path} was not listed: {error}"));
    }

    fn walk(&mut self, folder: &OwnedFd, path: &str, depth: usize, whose: Whose) {
        let ground = Ground::under(folder);
        if ground.is_zfs {
            self.seen.notes.push(format!("{path} is on ZFS, whose own cache (ARC) is not reported by file"));
        }
        let entries = match Dir::read_from(folder) {
            Ok(entries) => entries,
            Err(error) => return self.note_unlisted(path, &error.into()),
        };
        for entry in entries {
            // A folder that goes away while it is listed ends the list.
            let Ok(entry) = entry else { break };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.seen.files.len() >= MOST_FILES {
                self.seen.is_cut = true;
                return;
            }
            let below = format!("{path}/{}", name.to_string_lossy());
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                // Some file systems do not say.
                kind = type_of(folder.as_fd(), name);
            }
            match kind {
                FileType::RegularFile => self.file(folder.as_fd(), name, below, ground, whose),
                FileType::Directory => self.below(folder, name, &below, depth, whose),
                FileType::Symlink => self.link(&below, depth, whose),
                _ => {}
            }
        }
    }

    /// A folder in a folder. The redo log's is looked at whatever the depth.
    fn below(&mut self, folder: &OwnedFd, name: &CStr, path: &str, depth: usize, whose: Whose) {
        let is_redo = name.to_bytes() == places::REDO_FOLDER.as_bytes();
        if depth == 0 && !is_redo {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(inner) => self.walk(&inner, path, depth.saturating_sub(1), whose),
            Err(Errno::NOENT) => {}
            Err(error) => self.note_unlisted(path, &error.into()),
        }
    }

    /// A table or a schema that lies elsewhere.
    fn link(&mut self, path: &str, depth: usize, whose: Whose) {
        // Without opening what it leads to: that may be anything.
        let Ok(place) = self.root.find(Path::new(path)) else { return };
        let Ok(stat) = rustix::fs::fstat(&place) else { return };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth > 0 => self.folder(path, depth - 1, whose),
            FileType::RegularFile if self.counts(path, whose) => {
                if let Ok(file) = self.root.file(Path::new(path)) {
                    let ground = Ground::under(&file);
                    self.count(&file, path.to_owned(), false, ground);
                }
            }
            _ => {}
        }
    }

    fn counts(&self, path: &str, whose: Whose) -> bool {
        let kind = self.places.kind(path);
        match self.scope {
            Scope::Logs => kind.is_log(),
            Scope::All => whose == Whose::Servers || kind != FileKind::Other,
        }
    }

    fn file(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: String, ground: Ground, whose: Whose) {
        if !self.counts(&path, whose) {
            return;
        }
        // NONBLOCK: a FIFO that took the file's name must not hold us up.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(file) => {
                self.count(&File::from(file), path, false, ground);
            }
            // Purged or dropped meanwhile.
            Err(Errno::NOENT) => {}
            Err(error) => self.uncounted(&path, &error.into()),
        }
    }

    /// Takes an open file into the list; where it stands there.
    fn count(&mut self, file: &File, path: String, is_deleted: bool, ground: Ground) -> Option<usize> {
        let stat = rustix::fs::fstat(file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let id = (stat.st_dev, stat.st_ino);
        if let Some(at) = self.known.get(&id) {
            return Some(*at);
        }
        let kind = match self.places.kind(&path) {
            FileKind::Other if is_deleted => FileKind::Temporary,
            kind => kind,
        };
        let mut seen = CachedFile {
            kind,
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            is_deleted,
            is_in_memory: ground.is_in_memory,
            id,
            path,
            ..CachedFile::default()
        };
        // Of ZFS nothing that the kernel says is true.
        if !ground.is_zfs {
            match self.counter.count(file, seen.bytes, ground.is_layered) {
                Ok(cached) => pages::describe(&mut seen, cached),
                Err(error) => self.uncounted(&seen.path, &error),
            }
        }
        let at = self.seen.files.len();
        self.known.insert(id, at);
        self.seen.files.push(seen);
        Some(at)
    }

    fn uncounted(&mut self, path: &str, error: &std::io::Error) {
        self.seen.uncounted.get_or_insert_with(|| {
            let why = kernel_file::because(Path::new(path), error);
            Unavailable {
                unlock: why.unlock.map(|_| "run as root or as the server's user".to_owned()),
                ..why
            }
        });
    }

    /// What the server has open: how, and what lies elsewhere or has no name any more.
    fn descriptors(&mut self, target: &Target) -> Result<(), Unavailable> {
        let mut described: BTreeMap<FileKind, usize> = BTreeMap::new();
        for link in descriptors::links(target)? {
            if self.scope == Scope::Logs && !places::may_be_log(&link.path) {
                continue;
            }
            let magic = link.magic(target);
            let Ok(stat) = rustix::fs::stat(&magic) else { continue };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let known = self.known.get(&(stat.st_dev, stat.st_ino)).copied();
            let at = match known {
                // Whatever its name: a data directory may be a link to another.
                Some(at) => Some(at),
                None if self.scope == Scope::Logs && !self.places.kind(&link.path).is_log() => None,
                None if self.seen.files.len() >= MOST_FILES => {
                    self.seen.is_cut = true;
                    None
                }
                None => match of_proc(magic.as_ref()) {
                    Ok(file) => {
                        let ground = Ground::under(&file);
                        self.count(&file, link.path, link.is_deleted, ground)
                    }
                    Err(_) => None,
                },
            };
            let Some(at) = at else { continue };
            let kind = self.seen.files[at].kind;
            let count = described.entry(kind).or_default();
            if kind.is_log() || *count < DESCRIBED {
                *count += 1;
                self.seen.files[at].open.extend(descriptors::describe(target, link.fd));
            }
        }
        Ok(())
    }
}

/// The root of the server's file system.
fn root(target: &Target) -> Result<Root, Unavailable> {
    let path = target.process("root");
    Root::at(&path).map_err(|error| kernel_file::because(&path, &error))
}

/// What a name is, where the folder does not say.
fn type_of(folder: BorrowedFd<'_>, name: &CStr) -> FileType {
    rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// Takes parts of logs out of the page cache.
#[derive(Debug)]
pub struct Evictor {
    root: Root,
}

impl Evictor {
    /// For the files of this server.
    ///
    /// # Errors
    /// The process is gone, or another user's.
    pub fn for_server(target: &Target) -> Result<Self, Unavailable> {
        Ok(Self { root: root(target)? })
    }

    /// Opens a log that was seen.
    ///
    /// # Errors
    /// It is no log; it is gone, or another file has its name now.
    pub fn open(&self, file: &CachedFile) -> Result<Evictable, Unavailable> {
        if !file.kind.is_log() {
            return Err(Unavailable::because(format!("{} is no log: it stays where it is", file.path)));
        }
        let open = self
            .root
            .file(Path::new(&file.path))
            .map_err(|error| kernel_file::because(Path::new(&file.path), &error))?;
        let stat = rustix::fs::fstat(&open)
            .map_err(|error| kernel_file::because(Path::new(&file.path), &error.into()))?;
        if (stat.st_dev, stat.st_ino) != file.id {
            return Err(Unavailable::because(format!("{} is another file than a moment ago", file.path)));
        }
        Ok(Evictable { file: open.into(), path: file.path.clone() })
    }
}

/// A log that is open to be taken out of the page cache.
#[derive(Debug)]
pub struct Evictable {
    file: OwnedFd,
    path: String,
}

impl Evictable {
    /// Marks a part as not needed for the kernel (`POSIX_FADV_DONTNEED`). Pages that are to be written yet stay; the
    /// kernel begins to write them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn drop_pages(&self, part: &Range<u64>) -> Result<(), Unavailable> {
        // A length of 0 would mean all of the rest.
        let Some(length) = part.end.checked_sub(part.start).and_then(NonZeroU64::new) else { return Ok(()) };
        rustix::fs::fadvise(&self.file, part.start, Some(length), Advice::DontNeed)
            .map_err(|error| kernel_file::because(Path::new(&self.path), &error.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::testing::put;
    use super::*;

    const PAGE: usize = 4_096;

    /// A process 7 whose root is a folder with a small server's files.
    fn server(root: &Path) -> (Target, Places) {
        let text = "x".repeat(8 * PAGE);
        for path in [
            "data/ibdata1",
            "data/shop/orders.ibd",
            "data/#innodb_redo/#ib_redo1",
            "data/binlog.000001",
            "data/binlog.000002",
            "data/binlog.index",
            "elsewhere/far.ibd",
            "logs/relay-bin.000001",
            "logs/letter.txt",
        ] {
            put(root, &format!("root/{path}"), &text);
        }
        symlink("/elsewhere/far.ibd", root.join("root/data/shop/far.ibd")).unwrap();
        symlink("/nowhere", root.join("root/data/shop/broken.ibd")).unwrap();
        std::fs::create_dir_all(root.join("proc/7/fd")).unwrap();
        symlink(root.join("root"), root.join("proc/7/root")).unwrap();
        let target = Target::under(7, root.join("proc"), root.join("sys"));
        let variables = [
            ("datadir", "/data/"),
            ("log_bin_basename", "/data/binlog"),
            ("relay_log_basename", "/logs/relay-bin"),
        ];
        (target, Places::from_variables(&variables.into_iter().collect()).unwrap())
    }

    fn kinds(files: &Files) -> Vec<(&str, FileKind)> {
        files.files.iter().map(|file| (file.path.as_str(), file.kind)).collect()
    }

    #[test]
    fn all_files_of_a_server_are_found_below_its_own_root_and_those_of_others_are_not() {
        let root = tempfile::tempdir().unwrap();
        let (target, places) = server(root.path());
        let files = look(&target, &places, Scope::All).unwrap();
        assert_eq!(
            kinds(&files),
            [
                ("/data/#innodb_redo/#ib_redo1", FileKind::Redo),
                ("/data/binlog.000001", FileKind::Binlog),
                ("/data/binlog.000002", FileKind::Binlog),
                ("/data/binlog.index", FileKind::Other),
                ("/data/ibdata1", FileKind::Data),
                ("/data/shop/far.ibd", FileKind::Data),
                ("/data/shop/orders.ibd", FileKind::Data),
                ("/logs/relay-bin.000001", FileKind::Relay),
            ]
        );
        assert!(files.files.iter().all(|file| file.bytes == 8 * PAGE as u64), "{files:?}");
        assert!(files.uncounted.is_none() && !files.is_cut && files.notes.is_empty(), "{files:?}");
        let cached = files.files.iter().map(|file| file.cached_bytes);
        assert!(cached.flatten().all(|bytes| bytes == 8 * PAGE as u64), "just written: {files:?}");
    }

    #[test]
    fn of_logs_alone_no_other_file_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let (target, places) = server(root.path());
        let files = look(&target, &places, Scope::Logs).unwrap();
        assert_eq!(
            kinds(&files),
            [
                ("/data/#innodb_redo/#ib_redo1", FileKind::Redo),
                ("/data/binlog.000001", FileKind::Binlog),
                ("/data/binlog.000002", FileKind::Binlog),
                ("/logs/relay-bin.000001", FileKind::Relay),
            ]
        );
        let binlog = together(&files.files, FileKind::Binlog);
        assert_eq!((binlog.files, binlog.bytes), (2, 16 * PAGE as u64));
    }

    #[test]
    fn a_log_leaves_the_cache_and_data_does_not() {
        // On a disk, where /tmp may be in memory.
        let root = tempfile::tempdir_in(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")).unwrap();
        let (target, places) = server(root.path());
        let cached = |path: &str| {
            let files = look(&target, &places, Scope::All).unwrap();
            files.files.into_iter().find(|file| file.path == path).unwrap()
        };
        let log = cached("/data/binlog.000001");
        if log.is_in_memory {
            return;
        }
        // Pages that are to be written yet stay.
        File::open(root.path().join("root/data/binlog.000001")).unwrap().sync_all().unwrap();
        let evictor = Evictor::for_server(&target).unwrap();
        let open = evictor.open(&log).unwrap();
        open.drop_pages(&(0..0)).unwrap();
        assert_eq!(cached("/data/binlog.000001").cached_bytes, log.cached_bytes);
        open.drop_pages(&(0..log.bytes)).unwrap();
        assert_eq!(cached("/data/binlog.000001").cached_bytes, Some(0));

        let refused = evictor.open(&cached("/data/ibdata1")).unwrap_err();
        assert!(refused.because.contains("is no log"), "{refused:?}");
        let stranger = CachedFile { id: (0, 0), ..log };
        assert!(evictor.open(&stranger).unwrap_err().because.contains("another file"));
    }

    #[test]
    fn a_process_without_logs_has_none_and_a_process_that_is_not_there_is_said() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let seen = collect(&Target::live(sleeper.id()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(seen.unwrap(), PageCache::default());
        let root = tempfile::tempdir().unwrap();
        let nobody = super::super::testing::target(root.path());
        assert!(collect(&nobody).unwrap_err().because.starts_with("there is no "));
    }
}
