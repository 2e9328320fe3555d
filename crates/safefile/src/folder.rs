//! A folder of ours, and the files in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, fchmod, fsync, openat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;

use crate::walk::{Missing, Parents, walk_into};
use crate::{Refusal, expect_one_name, expect_owner, kind, open_existing, own_uid, read_below};

/// A folder of this account, 0700, on a way on which nobody but root and this account can exchange anything. Files in it are
/// named without `/`.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens it; what is missing of it is made.
    ///
    /// # Errors
    /// It, or a folder above it, can be changed by other accounts ([`Refusal`]); or the system's error.
    pub fn private(path: &Path) -> io::Result<Self> {
        Self::open(path, Missing::Made)
    }

    /// Opens it; none where it does not exist.
    ///
    /// # Errors
    /// As [`Folder::private`].
    pub fn existing(path: &Path) -> io::Result<Option<Self>> {
        match Self::open(path, Missing::Error) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    fn open(path: &Path, missing: Missing) -> io::Result<Self> {
        let (found, _) = walk_into(path, Parents::Trusted, missing)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&found, c".", flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        if stat.st_uid != own_uid() {
            return Err(Refusal::Owner { path: path.to_owned(), uid: stat.st_uid }.into());
        }
        // A sticky one, too: what we read there may be somebody else's.
        if mode.intersects(Mode::WGRP | Mode::WOTH) {
            return Err(Refusal::Writable { path: path.to_owned(), mode: stat.st_mode & 0o7777 }.into());
        }
        if mode.intersects(Mode::RWXG | Mode::RWXO) {
            fchmod(&fd, Mode::RWXU)?;
        }
        Ok(Self { fd, path: path.to_owned() })
    }

    /// How it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it, in order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// All of a file; none where there is none.
    ///
    /// # Errors
    /// It is no regular file of ours with one name that nobody else can write, or larger than that ([`Refusal`]); or the
    /// system's error.
    pub fn read(&self, name: impl AsRef<OsStr>, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        let name = plain(name.as_ref())?;
        let path = self.path.join(name);
        let read = read_below(self.fd.as_fd(), name, &path, most_bytes, |found| {
            expect_owner(&path, found)?;
            expect_one_name(&path, found)
        });
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Gives a file this content, in the place of what was there: a reader, also after a power cut, finds all of the
    /// old or all of the new. On disk when this returns.
    ///
    /// # Errors
    /// The disk refuses; the file says what it said before.
    pub fn write(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        let name = plain(name.as_ref())?;
        let unfinished = self.write_unfinished(name, bytes)?;
        renameat(&self.fd, &unfinished, &self.fd, name)?;
        Ok(fsync(&self.fd)?)
    }

    /// As [`Folder::write`], for a file that must be there: one that somebody has taken away meanwhile does not come back.
    ///
    /// # Errors
    /// As [`Folder::write`]; `NotFound` where it is gone.
    pub fn replace(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        let name = plain(name.as_ref())?;
        let unfinished = self.write_unfinished(name, bytes)?;
        let exchanged = renameat_with(&self.fd, &unfinished, &self.fd, name, RenameFlags::EXCHANGE);
        let replaced = match exchanged {
            // A kernel or file system that exchanges no names: NFS.
            Err(Errno::INVAL | Errno::NOSYS) => statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
                .and_then(|_| renameat(&self.fd, &unfinished, &self.fd, name)),
            exchanged => exchanged,
        };
        let _gone = unlinkat(&self.fd, &unfinished, AtFlags::empty());
        replaced?;
        Ok(fsync(&self.fd)?)
    }

    /// Writes a new file beside that of the name; what it is called.
    fn write_unfinished(&self, name: &OsStr, bytes: &[u8]) -> io::Result<OsString> {
        let unfinished = unfinished(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = || openat(&self.fd, &unfinished, flags, Mode::RUSR | Mode::WUSR);
        let mut file: File = match make() {
            // Left over where a process was killed between writing and renaming.
            Err(Errno::EXIST) => {
                unlinkat(&self.fd, &unfinished, AtFlags::empty())?;
                make()?.into()
            }
            outcome => outcome?.into(),
        };
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(unfinished)
    }

    /// A file to which is added; made where it is missing.
    ///
    /// # Errors
    /// It is not a regular file of ours with one name ([`Refusal`]); or the system's error.
    pub fn append(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::WRONLY | OFlags::APPEND)
    }

    /// A file to be locked, or read and written; made where it is missing.
    ///
    /// # Errors
    /// As [`Folder::append`].
    pub fn read_write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR)
    }

    fn open_file(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        let name = plain(name)?;
        let path = self.path.join(name);
        for _ in 0..100 {
            match open_existing(&self.fd, name, &path, access) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => {
                    let file = outcome?;
                    // Here nothing but a regular file has its place.
                    let is = FileType::from_raw_mode(file.metadata()?.mode());
                    return match is {
                        FileType::RegularFile => Ok(file),
                        _ => Err(Refusal::Kind { path, kind: kind(is) }.into()),
                    };
                }
            }
            let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok(file.into()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Gives a file another name; what had that name is gone.
    ///
    /// # Errors
    /// There is no such file; or the system's error.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.fd, plain(from.as_ref())?, &self.fd, plain(to.as_ref())?)?)
    }

    /// Takes a file away, and what [`Folder::write`] may have left beside it; one that is gone is as good. On disk when this
    /// returns.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = plain(name.as_ref())?;
        let _absent = unlinkat(&self.fd, unfinished(name), AtFlags::empty());
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(fsync(&self.fd)?),
            Err(error) => Err(error.into()),
        }
    }
}

/// A name that leads to no other folder.
fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&b'/') || bytes == b"." || bytes == b".." {
        Err(io::ErrorKind::InvalidInput.into())
    } else {
        Ok(name)
    }
}

fn unfinished(name: &OsStr) -> OsString {
    let mut unfinished = name.to_owned();
    unfinished.push(".unfinished");
    unfinished
}
