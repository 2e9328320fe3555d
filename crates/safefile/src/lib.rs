//! Files that no other account can turn against us. spindoctor often runs as root, and what it opens may lie where
//! somebody else can write: in `/tmp`, in a service account's folder, in a home.
//!
//! * [`Folder`] is for what spindoctor believes later: journals, logs, locks. The folder is ours, 0700, and nobody but root
//!   can replace it or one above it. In it, a file is read only if it is a regular file of ours with one name that nobody
//!   else can write, and is not larger than its reader allows.
//! * [`create`], [`write()`], [`append`] and [`read_write`] are for what the user named: a page, a table, a recording. A new file
//!   is 0600 and made with `O_EXCL`. A file that is there must be ours, with one name. A symbolic link is followed only
//!   where it and the folder that it lies in belong to us or to root.
//! * [`open_named`] and [`read_named`] are for what the user named to be read, and of which nothing is believed.
//! * [`read_trusted`] is for what decides what spindoctor does: a configuration file. Nobody but us and root may be able to
//!   change it, a link on the way to it, or a folder that it lies in.
//!
//! A path is walked one component at a time, each opened below the one before and without following links, so that what
//! was checked is what is used: nobody can exchange a component between the check and its use. It is `openat2` with
//! `RESOLVE_NO_SYMLINKS` done by hand, because own links must be followed and kernels before 5.6 have no `openat2`.
//! (The crate fs-mistrust checks paths instead of descriptors, trusts some groups, and looks at neither links' owners nor hard
//! links.)
//!
//! Every refusal is an [`io::Error`] of the kind `PermissionDenied` whose text is one line that says what to do.

mod folder;
mod named;
mod walk;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, ftruncate, openat};
use rustix::io::Errno;
use thiserror::Error;

pub use folder::Folder;
pub use named::{Named, open_named};
use walk::{Parents, link_refused, walk};

/// Why a file or folder is not used.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A link that somebody else may have made.
    #[error(
        "{} is a symbolic link that another account may have made ({}): it is not followed; remove it, or name another file",
        path.display(), account(*uid)
    )]
    Link {
        /// The link.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// It belongs to somebody else.
    #[error(
        "{} belongs to {}, not to {}: another account could change it; move it away, or name another one",
        path.display(), account(*uid), account(own_uid())
    )]
    Owner {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Others can write it.
    #[error(
        "{} can be changed by other accounts (mode {:04o}): it is not trusted; run chmod go-w on it after a look at what is in it",
        path.display(), mode
    )]
    Writable {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is no regular file.
    #[error("{} is a {kind}, not a regular file: it is not opened; remove it", path.display())]
    Kind {
        /// What it should be.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It has several names.
    #[error(
        "{} has {names} names (hard links), so that it may be another file: it is not opened; remove it",
        path.display()
    )]
    Names {
        /// The file.
        path: PathBuf,
        /// How many names it has.
        names: u64,
    },
    /// It is larger than such a file ever is.
    #[error("{} has more than {most_bytes} bytes: it is not read; remove it", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// What is allowed.
        most_bytes: u64,
    },
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refusal)
    }
}

fn account(uid: u32) -> String {
    if uid == 0 { "root".to_owned() } else { format!("uid {uid}") }
}

/// A file to be written from its beginning: a new one, readable for its owner alone, or one of ours, which is emptied.
///
/// # Errors
/// Something there is not ours ([`Refusal`]); or the system's error.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::WRONLY)?;
    // A device or pipe has no length.
    match ftruncate(&file, 0) {
        Err(Errno::INVAL) | Ok(()) => Ok(file),
        Err(error) => Err(error.into()),
    }
}

/// As [`create`], with all that is to be in it.
///
/// # Errors
/// As [`create`]; or it cannot be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(bytes.as_ref())
}

/// A file to which is added: a new one, readable for its owner alone, or one of ours.
///
/// # Errors
/// As [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    open(path, OFlags::WRONLY | OFlags::APPEND)
}

/// A file to be read and written, not emptied: a new one, readable for its owner alone, or one of ours.
///
/// # Errors
/// As [`create`].
pub fn read_write(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR)
}

/// All of a file that decides what this program does. It belongs to this account or to root, and so does all that leads to it:
/// nobody else can write or replace it. Links of ours and of root's are followed.
///
/// # Errors
/// Another account can change it, it is no regular file, or it has more bytes ([`Refusal`]); or the system's error, `NotFound`
/// where there is none.
pub fn read_trusted(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let end = walk(path, Parents::Trusted).map_err(|refused| match std::fs::symlink_metadata(path) {
        // Of a way that is not trusted nothing is wanted where nothing is there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        _ => refused,
    })?;
    match end {
        walk::End::Below { folder, name, path } => {
            read_below(folder.as_fd(), &name, &path, most_bytes, |found| {
                match [own_uid(), 0].contains(&found.uid()) {
                    true => Ok(()),
                    false => Err(Refusal::Owner { path: path.clone(), uid: found.uid() }),
                }
            })
        }
        walk::End::Special(_) => {
            Err(Refusal::Kind { path: path.to_owned(), kind: "link to an open file" }.into())
        }
    }
}

/// All of a file that somebody named, or of what comes through a pipe, opened as [`open_named`] does: for who believes nothing
/// that is in it.
///
/// # Errors
/// It has more bytes, as `/dev/zero` has; or as [`open_named`].
pub fn read_named(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most_bytes} bytes"));
    let file = open_named(path)?;
    if file.metadata()?.len() > most_bytes {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_large());
    }
    Ok(bytes)
}

/// What is saved is unpacked to so many times its bytes at most: windows are at most 14 times as large as packed (those of
/// `crates/rules/tests/windows`), a file of nothing but zeros a thousand times.
const MOST_TIMES: u64 = 200;
/// And a small one to this.
const SMALL_BYTES: u64 = 1 << 20;

/// All that comes out of something that was packed by gzip, of so many bytes.
///
/// # Errors
/// `FileTooLarge` where that is more than anything that was saved is unpacked to; or that of the reader.
pub fn read_unpacked(
    unpacking: impl io::Read,
    packed_bytes: usize,
    largest_bytes: u64,
) -> io::Result<Vec<u8>> {
    let most_bytes = (packed_bytes as u64).saturating_mul(MOST_TIMES).max(SMALL_BYTES).min(largest_bytes);
    let mut bytes = Vec::new();
    unpacking.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let because =
            format!("it unpacks to more than {most_bytes} bytes, which nothing that was saved does");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, because));
    }
    Ok(bytes)
}

/// All of a regular file that nobody but its owner can write; `expect` says whose it must be.
fn read_below(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    path: &Path,
    most_bytes: u64,
    expect: impl Fn(&Metadata) -> Result<(), Refusal>,
) -> io::Result<Vec<u8>> {
    let shown = || path.to_owned();
    // Never blocks: a FIFO is opened at once, and refused.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(link_refused(folder, name, path)),
        Err(Errno::NXIO) => return Err(Refusal::Kind { path: shown(), kind: "socket" }.into()),
        outcome => outcome?.into(),
    };
    let found = file.metadata()?;
    let is = FileType::from_raw_mode(found.mode());
    if is != FileType::RegularFile {
        return Err(Refusal::Kind { path: shown(), kind: kind(is) }.into());
    }
    expect(&found)?;
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(Refusal::Writable { path: shown(), mode }.into());
    }
    if found.len() > most_bytes {
        return Err(Refusal::Size { path: shown(), most_bytes }.into());
    }
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(Refusal::Size { path: shown(), most_bytes }.into());
    }
    Ok(bytes)
}

/// Fails where [`create`] would, without touching anything. The file is not opened for reading or writing: closing such a
/// descriptor would take away every lock that this process has on the file (fcntl(2)), and SQLite's are such locks.
///
/// # Errors
/// As [`create`].
pub fn expect_writable(path: &Path) -> io::Result<()> {
    let (folder, name, shown) = match walk(path, Parents::Any)? {
        walk::End::Below { folder, name, path } => (folder, name, path),
        walk::End::Special(_) => return Ok(()),
    };
    let may =
        |what: &OsStr, access| rustix::fs::accessat(&folder, what, access, rustix::fs::AtFlags::EACCESS);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(&folder, &name, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
            return Ok(may(OsStr::new("."), access)?);
        }
        opened => File::from(opened?).metadata()?,
    };
    if FileType::from_raw_mode(found.mode()) == FileType::Symlink {
        return Err(link_refused(folder.as_fd(), &name, &shown));
    }
    expect_ours(&shown, &found)?;
    Ok(may(&name, rustix::fs::Access::WRITE_OK)?)
}

/// Makes a folder, and those above it that are missing, for its owner alone. One that is there stays as it is.
///
/// # Errors
/// A link on the way is not ours ([`Refusal`]); or the system's error.
pub fn make_folder(path: &Path) -> io::Result<()> {
    walk::walk_into(path, Parents::Any, walk::Missing::Made).map(drop)
}

fn open(path: &Path, access: OFlags) -> io::Result<File> {
    // Somebody may make or remove the file between two tries; nobody has a reason to do that again and again.
    for _ in 0..100 {
        let (folder, name, shown) = match walk(path, Parents::Any)? {
            walk::End::Below { folder, name, path } => (folder, name, path),
            walk::End::Special(link) => return link.open(access),
        };
        match open_existing(&folder, &name, &shown, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok(file.into()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Opens what is there, if it is ours.
fn open_existing(folder: impl AsFd, name: &OsStr, shown: &Path, access: OFlags) -> io::Result<File> {
    // Never blocks: a FIFO without a reader is an error.
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match openat(folder.as_fd(), name, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(link_refused(folder.as_fd(), name, shown)),
        outcome => outcome?.into(),
    };
    expect_ours(shown, &file.metadata()?)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// A file that may be written to: ours, under one name; or what no data stays in.
fn expect_ours(shown: &Path, found: &Metadata) -> io::Result<()> {
    match FileType::from_raw_mode(found.mode()) {
        FileType::RegularFile => {
            expect_owner(shown, found)?;
            Ok(expect_one_name(shown, found)?)
        }
        // `/dev/null`, a terminal, a pipe that the user made.
        FileType::CharacterDevice | FileType::Fifo if [own_uid(), 0].contains(&found.uid()) => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        other => Err(Refusal::Kind { path: shown.to_owned(), kind: kind(other) }.into()),
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn expect_owner(path: &Path, found: &Metadata) -> Result<(), Refusal> {
    if found.uid() == own_uid() {
        Ok(())
    } else {
        Err(Refusal::Owner { path: path.to_owned(), uid: found.uid() })
    }
}

fn expect_one_name(path: &Path, found: &Metadata) -> Result<(), Refusal> {
    // None at all: it was removed a moment ago.
    match found.nlink() {
        ..=1 => Ok(()),
        names => Err(Refusal::Names { path: path.to_owned(), names }),
    }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "regular file",
        FileType::Directory => "folder",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "file of an unknown kind",
    }
}

#[cfg(test)]
mod tests;
