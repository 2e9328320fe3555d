//! `/proc/PID/fd` and `/proc/PID/fdinfo`: which files the server has open, where each descriptor stands, and how it was
//! opened.

use std::path::PathBuf;

use spindoctor_model::Unavailable;
use spindoctor_model::page_cache::Descriptor;

use super::super::kernel_file;
use super::super::source::Target;

/// One descriptor that leads to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// Its number.
    pub(super) fd: u32,
    /// The file, without the kernel's note that it is deleted.
    pub(super) path: String,
    /// The file has no name any more.
    pub(super) is_deleted: bool,
}

impl Link {
    /// The magic link that leads to the file itself.
    pub(super) fn magic(&self, target: &Target) -> PathBuf {
        target.process("fd").join(self.fd.to_string())
    }
}

/// The server's descriptors of files that may lie on a disk.
pub(super) fn links(target: &Target) -> Result<Vec<Link>, Unavailable> {
    let folder = target.process("fd");
    let entries = std::fs::read_dir(&folder).map_err(|error| kernel_file::because(&folder, &error))?;
    let links = entries.flatten().filter_map(|entry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        // One that was closed meanwhile is none.
        let path = std::fs::read_link(entry.path()).ok()?;
        link(fd, &path.to_string_lossy())
    });
    Ok(links.collect())
}

/// `/var/lib/mysql/ibdata1`, `/tmp/MLfd=7 (deleted)`; None for `socket:[81]`, `/dev/null`, `/memfd:x (deleted)`.
fn link(fd: u32, text: &str) -> Option<Link> {
    const NO_FILES: [&str; 6] = ["/dev/", "/proc/", "/sys/", "/memfd:", "/anon_hugepage", "/[aio]"];
    let (path, is_deleted) = match text.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (text, false),
    };
    // Data on a file system in /dev/shm are files all the same.
    let is_file = path.starts_with("/dev/shm/")
        || path.starts_with('/') && !NO_FILES.iter().any(|no| path.starts_with(no));
    is_file.then(|| Link { fd, path: path.to_owned(), is_deleted })
}

/// Where a descriptor stands and how it was opened; None where it is closed by now.
pub(super) fn describe(target: &Target, fd: u32) -> Option<Descriptor> {
    let text = kernel_file::read(&target.process("fdinfo").join(fd.to_string())).ok()?;
    parse_fdinfo(fd, &text)
}

/// Reads a descriptor's position and flags.
///
/// ```text
/// pos: 157
/// flags: 02100000
/// mnt_id: 29
/// ```
/// (Linux, proc_pid_fdinfo(5); the flags are octal.)
fn parse_fdinfo(fd: u32, text: &str) -> Option<Descriptor> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let position_bytes = value("pos:")?.parse().ok()?;
    let flags = i32::from_str_radix(value("flags:")?, 8).ok()?;
    let access = flags & libc::O_ACCMODE;
    Some(Descriptor {
        fd,
        position_bytes,
        reads: access == libc::O_RDONLY || access == libc::O_RDWR,
        writes: access == libc::O_WRONLY || access == libc::O_RDWR,
        direct: flags & libc::O_DIRECT != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::never_panics;
    use super::*;

    #[test]
    fn only_what_may_lie_on_a_disk_is_a_file() {
        let path = |text| link(7, text).map(|link| (link.path, link.is_deleted));
        assert_eq!(path("/data/ibdata1"), Some(("/data/ibdata1".into(), false)));
        assert_eq!(path("/tmp/ibX1 (deleted)"), Some(("/tmp/ibX1".into(), true)));
        assert!(path("/dev/shm/lab/ibdata1").is_some());
        for other in
            ["socket:[81]", "anon_inode:[eventpoll]", "/dev/null", "/memfd:x (deleted)", "/[aio] (deleted)"]
        {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn flags_say_how_a_file_was_opened() {
        let opened =
            |flags: i32| parse_fdinfo(9, &format!("pos:\t4096\nflags:\t0{flags:o}\nmnt_id:\t29\n")).unwrap();
        let read = opened(libc::O_RDONLY | libc::O_CLOEXEC);
        assert!(read.reads && !read.writes && !read.direct);
        assert_eq!((read.fd, read.position_bytes), (9, 4_096));
        let both = opened(libc::O_RDWR | libc::O_DIRECT);
        assert!(both.reads && both.writes && both.direct);
        let written = opened(libc::O_WRONLY);
        assert!(!written.reads && written.writes);
        never_panics(|text| parse_fdinfo(1, text));
    }

    #[test]
    fn an_own_descriptor_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let target = Target::live(std::process::id());
        let path = file.path().to_string_lossy();
        let link = links(&target).unwrap().into_iter().find(|link| link.path == path).unwrap();
        assert!(describe(&target, link.fd).is_some_and(|descriptor| descriptor.writes));
    }
}
