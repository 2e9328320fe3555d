//! From a path to the folder that its last component lies in, one component at a time.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, Stat, StatVfsMountFlags, fstat, fstatfs, fstatvfs, mkdirat, openat,
    readlinkat,
};
use rustix::io::Errno;

use crate::Refusal;

/// As many links as the kernel follows in one path (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;
/// `PROC_SUPER_MAGIC` of linux/magic.h.
const PROC: u64 = 0x9fa0;

/// Which folders may stand on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parents {
    /// Any: the user named them.
    Any,
    /// Those in which nobody but us and root can exchange the next one.
    Trusted,
}

/// What is done about folders that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are made, for their owner alone.
    Made,
    /// An error.
    Error,
}

/// Where a path ends.
pub(crate) enum End {
    /// At this name in that folder, where something is or not: nothing but a link of ours was followed.
    Below { folder: OwnedFd, name: OsString, path: PathBuf },
    /// At one of the kernel's own links to an open file: `/dev/stdout`.
    Special(Special),
}

/// A name below `/proc` that leads to an open file.
pub(crate) struct Special {
    folder: OwnedFd,
    name: OsString,
}

impl Special {
    pub(crate) fn open(&self, access: OFlags) -> io::Result<File> {
        Ok(openat(&self.folder, &self.name, access | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}

/// What there is under a name, held open without access to its content.
enum Found {
    Nothing,
    Link { target: PathBuf },
    Special,
    Other { fd: OwnedFd, stat: Stat },
}

/// Walks to the folder of the last component; a link there is followed, if it is ours.
pub(crate) fn walk(path: &Path, parents: Parents) -> io::Result<End> {
    let mut on_the_way = OnTheWay::begin(path, parents)?;
    loop {
        let Some(name) = on_the_way.left.pop_front() else {
            // `..` or `/` at the end: a folder.
            return Err(Errno::ISDIR.into());
        };
        if on_the_way.left.is_empty() && name != ".." {
            match on_the_way.look(&name)? {
                Found::Link { target } => on_the_way.follow(&target)?,
                Found::Special => return Ok(End::Special(Special { folder: on_the_way.folder, name })),
                Found::Nothing | Found::Other { .. } => {
                    let path = on_the_way.at.join(&name);
                    return Ok(End::Below { folder: on_the_way.folder, name, path });
                }
            }
        } else {
            on_the_way.step(&name, Missing::Error)?;
        }
    }
}

/// Walks into the folder that the path names.
pub(crate) fn walk_into(path: &Path, parents: Parents, missing: Missing) -> io::Result<(OwnedFd, PathBuf)> {
    let mut on_the_way = OnTheWay::begin(path, parents)?;
    while let Some(name) = on_the_way.left.pop_front() {
        on_the_way.step(&name, missing)?;
    }
    Ok((on_the_way.folder, on_the_way.at))
}

struct OnTheWay {
    parents: Parents,
    folder: OwnedFd,
    stat: Stat,
    /// How it is named.
    at: PathBuf,
    left: VecDeque<OsString>,
    links: usize,
}

impl OnTheWay {
    fn begin(path: &Path, parents: Parents) -> io::Result<Self> {
        // Where the way must be trusted, it begins at the root.
        let path = match parents {
            Parents::Trusted => std::path::absolute(path)?,
            Parents::Any => path.to_owned(),
        };
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let at = if path.is_absolute() { PathBuf::from("/") } else { PathBuf::from(".") };
        let folder = open_folder(CWD, at.as_os_str())?;
        let stat = fstat(&folder)?;
        let way = Self { parents, folder, stat, at, left: components(&path), links: 0 };
        way.expect_trusted()?;
        Ok(way)
    }

    /// Into the folder of that name, through a link if it is ours.
    fn step(&mut self, name: &OsStr, missing: Missing) -> io::Result<()> {
        match self.look(name)? {
            Found::Link { target } => self.follow(&target),
            Found::Special => Err(Errno::LOOP.into()),
            Found::Other { fd, stat } => self.enter(fd, stat, name),
            Found::Nothing if missing == Missing::Made => {
                match mkdirat(&self.folder, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                let fd = open_folder(self.folder.as_fd(), name)?;
                let stat = fstat(&fd)?;
                self.enter(fd, stat, name)
            }
            Found::Nothing => Err(Errno::NOENT.into()),
        }
    }

    fn enter(&mut self, fd: OwnedFd, stat: Stat, name: &OsStr) -> io::Result<()> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        self.at.push(name);
        (self.folder, self.stat) = (fd, stat);
        self.expect_trusted()
    }

    fn look(&self, name: &OsStr) -> io::Result<Found> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            outcome => outcome?,
        };
        let stat = fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Found::Other { fd, stat });
        }
        if !is_ours(&stat) || !is_ours(&self.stat) || self.can_be_exchanged() {
            return Err(Refusal::Link { path: self.at.join(name), uid: stat.st_uid }.into());
        }
        let target = readlinkat(&fd, c"", Vec::new())?;
        // Its own links are paths (`/proc/self`) or lead to an open file, of which the text is no path (`pipe:[17]`).
        let is_procs = fstatfs(&self.folder)?.f_type as u64 == PROC;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let is_path = name == "self" || name == "thread-self";
        Ok(if is_procs && !is_path && self.at != Path::new("/proc") {
            Found::Special
        } else {
            Found::Link { target }
        })
    }

    fn follow(&mut self, target: &Path) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        if target.is_absolute() {
            self.at = PathBuf::from("/");
            self.folder = open_folder(CWD, OsStr::new("/"))?;
            self.stat = fstat(&self.folder)?;
        }
        for name in components(target).into_iter().rev() {
            self.left.push_front(name);
        }
        Ok(())
    }

    fn expect_trusted(&self) -> io::Result<()> {
        if self.parents == Parents::Any {
            return Ok(());
        }
        if !is_ours(&self.stat) {
            return Err(Refusal::Owner { path: self.at.clone(), uid: self.stat.st_uid }.into());
        }
        if self.can_be_exchanged() {
            let mode = self.stat.st_mode & 0o7777;
            return Err(Refusal::Writable { path: self.at.clone(), mode }.into());
        }
        Ok(())
    }

    /// True where others can exchange what lies in the folder. In a sticky one (`/tmp`) they can only add: what is ours stays. In
    /// one that is mounted read-only nobody can: who may write it elsewhere, only who mounts decides. (Kubernetes mounts the
    /// files of a ConfigMap so, in a folder of the mode 0777.)
    fn can_be_exchanged(&self) -> bool {
        let mode = Mode::from_raw_mode(self.stat.st_mode);
        let is_open = mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX);
        is_open && !fstatvfs(&self.folder).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
    }
}

/// True where the owner is this account or root.
fn is_ours(stat: &Stat) -> bool {
    [crate::own_uid(), 0].contains(&stat.st_uid)
}

/// The error for a link that was found where none may be.
pub(crate) fn link_refused(folder: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> io::Error {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let uid = openat(folder, name, flags, Mode::empty()).and_then(fstat).map_or(u32::MAX, |stat| stat.st_uid);
    Refusal::Link { path: shown.to_owned(), uid }.into()
}

fn open_folder(below: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(below, name, flags, Mode::empty())?)
}

/// Without `.` and the root.
fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}
