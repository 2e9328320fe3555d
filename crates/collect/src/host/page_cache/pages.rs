//! How much of an open file is in the page cache: `cachestat(2)`, or `mincore(2)` where there is none.
//!
//! Both calls read no page, bring none in and make none younger. Both answer only the file's owner, accounts that may
//! write it, and root: `cachestat` refuses others, `mincore` answers them that all is cached, so it is not called then.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use spindoctor_model::page_cache::CachedFile;

/// `__NR_cachestat` (Linux 6.5, include/uapi/asm-generic/unistd.h): one number on x86-64 and aarch64.
const CACHESTAT: libc::c_long = 451;
/// What is mapped at once for mincore: 256 KiB of its answer.
const MAPPED_BYTES: u64 = 1 << 30;

/// `struct cachestat_range`: from where, how many bytes; none is up to the end.
#[repr(C)]
struct Range {
    from: u64,
    bytes: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    in_writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of one file in the page cache, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cached {
    /// All of them.
    pub(super) bytes: u64,
    /// Those that are not written yet; mincore does not report them.
    pub(super) dirty_bytes: Option<u64>,
}

/// Asks the kernel in the way that works here.
#[derive(Debug)]
pub(super) struct Counter {
    page_bytes: u64,
    has_cachestat: bool,
}

impl Counter {
    pub(super) fn new() -> Self {
        Self { page_bytes: rustix::param::page_size() as u64, has_cachestat: true }
    }

    /// The call that is used: `cachestat`, `mincore`.
    pub(super) fn method(&self) -> &'static str {
        if self.has_cachestat { "cachestat" } else { "mincore" }
    }

    /// What of a file is cached; `bytes` is its size, `is_layered` says that its pages belong to a file of another file
    /// system (overlayfs), of which only a mapping shows it.
    pub(super) fn count(&mut self, file: &File, bytes: u64, is_layered: bool) -> Result<Cached> {
        if self.has_cachestat && !is_layered {
            match cachestat(file) {
                // Memory goes in whole pages: a file of 157 bytes has 4,096.
                Ok(stat) => {
                    return Ok(Cached {
                        bytes: stat.cached.saturating_mul(self.page_bytes),
                        dirty_bytes: Some(stat.dirty.saturating_mul(self.page_bytes)),
                    });
                }
                Err(error) if is_missing(&error) => self.has_cachestat = false,
                Err(error) => return Err(error),
            }
        }
        Ok(Cached { bytes: self.mincore(file, bytes)?, dirty_bytes: None })
    }

    /// Bytes of the file's pages that are cached, by mapping it part by part without touching a page.
    fn mincore(&self, file: &File, bytes: u64) -> Result<u64> {
        if !may_be_asked(file)? {
            return Err(Errno::PERM.into());
        }
        let mut cached_pages = 0;
        let mut from = 0;
        while from < bytes {
            let length = (bytes - from).min(MAPPED_BYTES);
            cached_pages += mincore(file, from, length, self.page_bytes)?;
            from += length;
        }
        Ok(cached_pages * self.page_bytes)
    }
}

/// True for the file's owner and for who may write it (mm/mincore.c: can_do_mincore).
fn may_be_asked(file: &File) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let may_write = rustix::fs::accessat(CWD, itself, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    Ok(may_write || file.metadata()?.uid() == rustix::process::geteuid().as_raw())
}

/// True where this kernel has no such call, or something between us and it does not know it: filters of system calls in
/// containers answer EPERM to new ones, but that is what the kernel answers where the file is another user's, too.
fn is_missing(error: &Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOSYS)) || errno == Some(Errno::PERM) && rustix::process::geteuid().is_root()
}

fn cachestat(file: &File) -> Result<Stat> {
    let all = Range { from: 0, bytes: 0 };
    let mut stat = Stat::default();
    // SAFETY: the kernel reads `all` and writes `stat`, which are laid out as its own structs and live until the call
    // returns; the descriptor is open as long as `file` is borrowed.
    let outcome =
        unsafe { libc::syscall(CACHESTAT, file.as_fd().as_raw_fd(), &raw const all, &raw mut stat, 0) };
    if outcome == 0 { Ok(stat) } else { Err(Error::last_os_error()) }
}

/// Pages of a part of the file that are cached.
fn mincore(file: &File, from: u64, length: u64, page_bytes: u64) -> Result<u64> {
    let too_large = |_| Error::from(Errno::OVERFLOW);
    let offset = libc::off_t::try_from(from).map_err(too_large)?;
    let size = usize::try_from(length).map_err(too_large)?;
    let mut resident = vec![0u8; usize::try_from(length.div_ceil(page_bytes)).map_err(too_large)?];
    // SAFETY: a new mapping at an address that the kernel chooses; nothing reads or writes through it, so a file that is
    // truncated meanwhile cannot raise SIGBUS. It is unmapped below.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_fd().as_raw_fd(),
            offset,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: the mapping is `size` bytes long, and `resident` has a byte for each of its pages.
    let outcome = unsafe { libc::mincore(at, size, resident.as_mut_ptr()) };
    let answer = if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) };
    // SAFETY: this unmaps what was mapped above, and nothing points into it.
    unsafe { libc::munmap(at, size) };
    answer?;
    // The other bits are reserved (mincore(2)).
    Ok(resident.iter().filter(|&&page| page & 1 == 1).count() as u64)
}

/// Puts what the kernel says into the file's description.
pub(super) fn describe(file: &mut CachedFile, cached: Cached) {
    file.cached_bytes = Some(cached.bytes);
    file.dirty_bytes = cached.dirty_bytes;
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn both_calls_count_what_was_just_written() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes = 10 * rustix::param::page_size() as u64;
        file.write_all(&vec![b'x'; bytes as usize]).unwrap();
        file.flush().unwrap();
        let mut counter = Counter::new();
        let cached = counter.count(file.as_file(), bytes, false).unwrap();
        assert_eq!(cached.bytes, bytes);
        assert!(cached.dirty_bytes.is_none_or(|dirty| dirty <= bytes));
        let mapped =
            Counter { has_cachestat: false, ..Counter::new() }.count(file.as_file(), bytes, false).unwrap();
        assert_eq!(mapped, Cached { bytes, dirty_bytes: None });
        assert_eq!(counter.count(file.as_file(), bytes, true).unwrap(), mapped);
    }

    #[test]
    fn an_empty_file_has_nothing_cached() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Counter::new().count(&file, 0, false).unwrap().bytes, 0);
        assert_eq!(Counter::new().count(&file, 0, true).unwrap().bytes, 0);
    }
}
