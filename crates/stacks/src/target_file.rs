//! Files that an examined process names, opened so that the process cannot choose what this program opens.
//!
//! In: `/proc/PID/exe` and its like, or a root folder and a path below it. Out: a regular file, open for reading.
//! A process names its files itself, and it may be hostile while this program is root: a name may lead to a FIFO that
//! never answers, to a device that acts when it is opened, to a file of the host, or to another file a moment later. So:
//!
//! - a path is looked up below a root folder (`openat2` with `RESOLVE_IN_ROOT` and `RESOLVE_NO_MAGICLINKS`; older kernels:
//!   the same by hand, component by component), and symbolic links and `..` stay below it;
//! - what was found is looked at before it is opened (`O_PATH`), and only a regular file is opened, without blocking.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Symbolic links that are followed for one path: as many as the kernel's own look-up takes (MAXSYMLINKS, namei.h).
const MOST_LINKS: usize = 40;

/// `PROC_SUPER_MAGIC` (include/uapi/linux/magic.h): links there may be magic, and lead anywhere.
const PROC: u64 = 0x9fa0;

/// The root folder of a process, below which its names are looked up.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// The root folder of a process, as the process sees it.
    ///
    /// # Errors
    /// The process is gone, or another user's.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Self::at(Path::new(&format!("/proc/{pid}/root")))
    }

    /// A folder as the root.
    ///
    /// # Errors
    /// It is no folder, or may not be entered.
    pub fn at(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, folder, flags, Mode::empty())?))
    }

    /// Finds a path below the root without opening what is there (`O_PATH`). An absolute path counts from the root.
    ///
    /// # Errors
    /// What the kernel says; `ELOOP` for too many symbolic links, and for a magic one.
    pub fn find(&self, path: &Path) -> io::Result<OwnedFd> {
        let relative = relative(path);
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.0, &*relative, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
        {
            // Linux before 5.6; filters of system calls in containers, which may answer either.
            Err(Errno::NOSYS | Errno::PERM) => Ok(find_by_hand(&self.0, &relative)?),
            found => Ok(found?),
        }
    }

    /// Opens a folder below the root, to list it.
    ///
    /// # Errors
    /// What the kernel says; `ENOTDIR` where it is no folder.
    pub fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let found = self.find(path)?;
        if !is_a(&found, FileType::Directory)? {
            return Err(Errno::NOTDIR.into());
        }
        Ok(reopened(&found, OFlags::RDONLY | OFlags::DIRECTORY)?)
    }

    /// Opens a regular file below the root for reading.
    ///
    /// # Errors
    /// What the kernel says; `EINVAL` where it is no regular file.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        regular(&self.find(path)?)
    }
}

/// Opens the regular file that a link of `/proc` leads to: `/proc/PID/exe`, `/proc/PID/map_files/...`,
/// `/proc/PID/fd/7`.
///
/// # Errors
/// What the kernel says; `EINVAL` where it is no regular file.
pub fn of_proc(link: &Path) -> io::Result<File> {
    regular(&rustix::fs::openat(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens what was found, where it is a regular file.
fn regular(found: &OwnedFd) -> io::Result<File> {
    if !is_a(found, FileType::RegularFile)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    // NONBLOCK: another process may hold a lease on the file, which would make the opening wait (fcntl(2), F_SETLEASE).
    Ok(File::from(reopened(found, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?))
}

fn is_a(found: &OwnedFd, kind: FileType) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode) == kind)
}

/// Opens the very file that a descriptor of `O_PATH` stands for.
fn reopened(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::openat(CWD, itself, flags | OFlags::CLOEXEC, Mode::empty())
}

/// The path without what makes it absolute.
fn relative(path: &Path) -> PathBuf {
    let relative: PathBuf = path.components().filter(|part| !matches!(part, Component::RootDir)).collect();
    if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative }
}

/// What `openat2` does, for kernels without it: folders are entered one by one, and links are read and not followed.
fn find_by_hand(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let step = |at: &OwnedFd, name: &OsStr| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(at, name, flags, Mode::empty())
    };
    // What is to be entered yet, the next one last.
    let mut names: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
    // `..` goes back to where we came from: the folder above may be another one by now.
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(name) = names.pop() {
        match name.as_bytes() {
            b"." | b"" => continue,
            b"/" => {
                way.clear();
                continue;
            }
            b".." => {
                way.pop();
                continue;
            }
            _ => {}
        }
        let found = step(way.last().unwrap_or(root), &name)?;
        if !is_a(&found, FileType::Symlink)? {
            way.push(found);
            continue;
        }
        links += 1;
        let is_magic = rustix::fs::fstatfs(found.as_fd()).is_ok_and(|ground| ground.f_type as u64 == PROC);
        if links > MOST_LINKS || is_magic {
            return Err(Errno::LOOP);
        }
        let target = OsString::from_vec(rustix::fs::readlinkat(&found, c"", Vec::new())?.into_bytes());
        names.extend(Path::new(&target).iter().rev().map(OsStr::to_owned));
    }
    way.pop().map_or_else(|| step(root, OsStr::new(".")), Ok)
}

/// The name of a file and no more: no folder, no `..`; None for all others.
#[must_use]
pub fn base_name(name: &[u8]) -> Option<&OsStr> {
    /// `NAME_MAX` (include/uapi/linux/limits.h).
    const LONGEST: usize = 255;
    let is_name = !name.is_empty()
        && name.len() <= LONGEST
        && !matches!(name, b"." | b"..")
        && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    is_name.then(|| OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("usr/lib")).unwrap();
        fs::write(at("usr/lib/libx.so"), "x").unwrap();
        fs::write(at("secret"), "of the root").unwrap();
        symlink("usr/lib", at("lib")).unwrap();
        symlink("/usr/lib", at("abs")).unwrap();
        symlink("../../../../../../secret", at("usr/lib/up")).unwrap();
        symlink("/etc/hostname", at("usr/lib/out")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("/proc/self/exe", at("magic")).unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        root
    }

    /// Both look-ups, the kernel's and the one by hand, give the same.
    fn both(root: &Path, path: &str) -> [Option<String>; 2] {
        let root = Root::at(root).unwrap();
        let by_hand = find_by_hand(&root.0, &relative(Path::new(path))).map_err(io::Error::from);
        [root.find(Path::new(path)), by_hand].map(|found| {
            let mut text = String::new();
            io::Read::read_to_string(&mut regular(&found.ok()?).ok()?, &mut text).ok()?;
            Some(text)
        })
    }

    #[test]
    fn links_and_dots_stay_below_the_root() {
        let tree = tree();
        for inside in ["/usr/lib/libx.so", "lib/libx.so", "abs/libx.so", "usr/../../lib/./libx.so"] {
            assert_eq!(both(tree.path(), inside), [Some("x".to_owned()), Some("x".to_owned())], "{inside}");
        }
        let secret = Some("of the root".to_owned());
        assert_eq!(both(tree.path(), "usr/lib/up"), [secret.clone(), secret.clone()]);
        assert_eq!(both(tree.path(), "../../../../secret"), [secret.clone(), secret]);
        for outside in ["usr/lib/out", "loop", "../../../../../etc/hostname", "usr/lib/none"] {
            assert_eq!(both(tree.path(), outside), [None, None], "{outside}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened_and_nothing_waits() {
        let tree = tree();
        assert_eq!(both(tree.path(), "fifo"), [None, None]);
        assert_eq!(both(tree.path(), "usr"), [None, None]);
        let root = Root::at(Path::new("/")).unwrap();
        for device in ["/dev/null", "/dev/zero"] {
            let error = root.file(Path::new(device)).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file", "{device}");
        }
        let fifo = of_proc(&tree.path().join("fifo")).unwrap_err();
        assert_eq!(fifo.to_string(), "it is not a regular file");
        assert!(of_proc(Path::new("/proc/self/exe")).is_ok());
    }

    #[test]
    fn magic_links_are_not_followed() {
        let root = Root::at(Path::new("/")).unwrap();
        assert!(root.file(Path::new("/proc/self/exe")).is_err());
        let by_hand = find_by_hand(&root.0, Path::new("proc/self/exe"));
        assert_eq!(by_hand.unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn a_folder_is_listed_and_a_file_is_no_folder() {
        let tree = tree();
        let root = Root::at(tree.path()).unwrap();
        assert!(root.folder(Path::new("/abs")).is_ok());
        assert!(root.folder(Path::new("/")).is_ok());
        assert_eq!(root.folder(Path::new("secret")).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
    }

    #[test]
    fn a_base_name_has_no_folder() {
        assert_eq!(base_name(b"mysqld.debug"), Some(OsStr::new("mysqld.debug")));
        for name in [&b""[..], b".", b"..", b"../x", b"/dev/null", b"a/b", b"a\0b", &[b'a'; 256]] {
            assert_eq!(base_name(name), None, "{name:?}");
        }
    }
}
