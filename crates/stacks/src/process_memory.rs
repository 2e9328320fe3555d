//! The memory of another process, read while it runs.
//!
//! In: the id of a thread, and an address. Out: bytes, or the kernel's error. It is the thread's own id and not that of
//! its process: the first thread of a process may have ended, and has no memory any more then.

#![expect(unsafe_code, reason = "process_vm_readv(2) has no safe wrapper in rustix")]

use std::io;

use rustix::param::page_size;

/// The most pages that are read at once: IOV_MAX of include/uapi/linux/uio.h.
const MOST_PAGES: usize = 1024;

/// Fills the buffer from an address on, up to the first page that is not mapped, of at most 1,024 pages. Returns the
/// number of bytes read.
///
/// # Errors
/// `EFAULT` where nothing is mapped at the address, `EPERM` without the right to read, `ESRCH` where the thread has ended.
pub fn read(tid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EFAULT);
    let start = usize::try_from(address).map_err(invalid)?;
    let end = start.checked_add(buffer.len()).ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
    // The kernel stops before the first part that is not mapped as a whole: each part ends where a page ends.
    let page = page_size();
    let mut parts = Vec::with_capacity(buffer.len() / page + 2);
    let mut from = start;
    while from < end && parts.len() < MOST_PAGES {
        let to = end.min((from / page).saturating_add(1).saturating_mul(page));
        parts.push(libc::iovec { iov_base: from as *mut libc::c_void, iov_len: to - from });
        from = to;
    }
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let tid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: the one local part is `buffer`, which is ours to write for the length of the call. The remote parts are
    // addresses in the other process, and at most as many bytes as `buffer` has; the kernel checks them.
    let read =
        unsafe { libc::process_vm_readv(tid, &raw const local, 1, parts.as_ptr(), parts.len() as _, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Exactly so many bytes; none where not all of them can be read.
#[must_use]
pub fn read_array<const BYTES: usize>(tid: u32, address: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    (read(tid, address, &mut bytes).ok()? == BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_it_is_and_errors_are_the_kernels() {
        let memory: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
        let tid = std::process::id();
        let address = memory.as_ptr() as u64;
        let mut read_back = vec![0; memory.len()];
        assert_eq!(read(tid, address, &mut read_back).unwrap(), memory.len());
        assert_eq!(read_back, memory);
        assert_eq!(read_array::<4>(tid, address), Some([0, 1, 2, 3]));
        assert_eq!(read_array::<4>(tid, 16), None, "page 0 is never mapped");
        for address in [16, u64::MAX - 2] {
            assert_eq!(read(tid, address, &mut [0; 4]).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
        assert_eq!(read(u32::MAX, address, &mut [0; 4]).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
