//! Reads one small file of `/proc` or `/sys`, or says in words why it cannot.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use spindoctor_model::Unavailable;

/// No file read here is longer, save by mistake: `/proc/stat` of 4,096 CPUs is below 1 MiB,
/// `numa_maps` of 65,530 mappings (the default `vm.max_map_count`) about 8 MiB. `/proc/net/tcp` of
/// 200,000 connections is; its listeners stand first.
const LONGEST_BYTES: u64 = 32 << 20;

/// The file's text; bytes that are no UTF-8 (a thread may bear any name) are replaced.
pub(crate) fn read(path: &Path) -> Result<String, Unavailable> {
    read_bytes(path).map(into_text).map_err(|error| because(path, &error))
}

/// The same, but None where there is no such file.
pub(crate) fn read_if_any(path: &Path) -> Result<Option<String>, Unavailable> {
    match read_bytes(path) {
        Ok(bytes) => Ok(Some(into_text(bytes))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(because(path, &error)),
    }
}

/// The file's bytes.
pub(crate) fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    // Room for most of these files at once: each further read asks the kernel again.
    let mut bytes = Vec::with_capacity(4_096);
    open(path)?.take(LONGEST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The file's text where it is read to its end within so long; None where it is not. The kernel fills one page of text at a time,
/// so that what it locks meanwhile is free between two of them.
pub(crate) fn read_within(path: &Path, within: Duration) -> std::io::Result<Option<String>> {
    let begun = Instant::now();
    read_pages(open(path)?.take(LONGEST_BYTES), || begun.elapsed() < within)
}

fn read_pages(mut file: impl Read, has_time: impl Fn() -> bool) -> std::io::Result<Option<String>> {
    let (mut bytes, mut page) = (Vec::new(), [0; 4_096]);
    while has_time() {
        match file.read(&mut page) {
            Ok(0) => return Ok(Some(into_text(bytes))),
            Ok(count) => bytes.extend_from_slice(&page[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn open(path: &Path) -> std::io::Result<File> {
    // Files of /proc and /sys are regular files. What a container's runtime or its owner put in their place may be a FIFO,
    // which must not hold us up.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// Text of a kernel file; what is no UTF-8 is replaced.
pub(crate) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Why the file could not be read, and what would change that.
pub(crate) fn because(path: &Path, error: &std::io::Error) -> Unavailable {
    let path = path.display();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    if errno == Some(Errno::SRCH) {
        return Unavailable::because(format!("the process ended while {path} was read"));
    }
    match error.kind() {
        ErrorKind::NotFound => Unavailable::because(format!("there is no {path}")),
        ErrorKind::PermissionDenied => no_right_to(&format!("read {path}")),
        _ => Unavailable::because(format!("{path} cannot be read: {error}")),
    }
}

/// The kernel refused (EACCES or EPERM) what only root, the server's user or a debugger may do.
pub(crate) fn no_right_to(what: &str) -> Unavailable {
    Unavailable::because(format!("no right to {what}"))
        .unlock("run as root or as the server's user, or give spindoctor CAP_SYS_PTRACE")
}

/// The file was read and is not in any form that is known.
pub(crate) fn unknown_form(path: &Path) -> Unavailable {
    Unavailable::because(format!("{} is not in a form that is known", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn a_refusal_names_what_would_unlock_the_file() {
        let refused = because(Path::new("/proc/1/io"), &Error::from_raw_os_error(libc::EACCES));
        assert_eq!(refused.because, "no right to read /proc/1/io");
        assert!(refused.unlock.is_some_and(|unlock| unlock.contains("CAP_SYS_PTRACE")));
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.max");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(read(&path).unwrap_err().because.ends_with("it is not a regular file"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().because.ends_with("it is not a regular file"));
    }

    #[test]
    fn a_file_that_takes_too_long_is_left_and_no_part_of_it_counts() {
        let text = "N0=1\n".repeat(2_000);
        let left = std::cell::Cell::new(2);
        let in_time = |pages: u32| {
            left.set(pages + 1);
            read_pages(text.as_bytes(), || left.replace(left.get().saturating_sub(1)) > 0).unwrap()
        };
        assert_eq!(in_time(2), None);
        assert_eq!(in_time(3).as_ref(), Some(&text));
        let own = read_within(Path::new("/proc/self/maps"), Duration::from_secs(5)).unwrap().unwrap();
        assert!(own.contains("[stack]"), "{own}");
    }

    #[test]
    fn a_process_that_ended_is_no_riddle() {
        let ended = because(Path::new("/proc/1/stat"), &Error::from_raw_os_error(libc::ESRCH));
        assert_eq!(ended.because, "the process ended while /proc/1/stat was read");
    }

    #[test]
    fn a_missing_file_is_none_only_where_it_may_be_missing() {
        let nowhere = Path::new("/proc/self/no-such-file");
        assert_eq!(read_if_any(nowhere), Ok(None));
        assert_eq!(read(nowhere).unwrap_err().because, "there is no /proc/self/no-such-file");
    }

    #[test]
    fn a_name_that_is_no_utf_8_is_still_text() {
        assert_eq!(into_text(vec![b'a', 0xff, b'b']), "a\u{fffd}b");
    }
}
