//! The kernel's functions, as the kernel itself prints them (`%pS`), whatever `kernel.kptr_restrict` is.
//!
//! In: an address. Out: the function that holds it. `bpf/names.bpf.c` is the program; it is run for each address
//! (BPF_PROG_TEST_RUN), which takes some microseconds; `/proc/kallsyms` has 120,000 lines and takes 50 ms.
//!
//! Linux 5.13 or newer: `bpf_snprintf`.

#![expect(unsafe_code, reason = "memory that a program in the kernel writes to is read and written")]

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use super::kernel_program::{Aligned, SharedMap, bpf_in_place};
use super::loaded::{Kind, Loaded, Refusal};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/names.bpf.o"));

/// Asks the kernel for names.
#[derive(Debug)]
pub(crate) struct KernelNames {
    program: OwnedFd,
    asked: SharedMap,
}

/// A function of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelFunction {
    /// Without its module.
    pub(crate) name: String,
    /// Up to where the next symbol begins.
    pub(crate) range: Range<u64>,
}

impl KernelNames {
    /// Loads the program.
    ///
    /// # Errors
    /// Where the kernel has no such program, or this process may not load one.
    pub(crate) fn open() -> Result<Self, Refusal> {
        let object = Loaded::of_object(OBJECT, None)?;
        let kind = Kind { program: BPF_PROG_TYPE_RAW_TRACEPOINT, ..Kind::default() };
        let program = object.program("print", kind)?;
        let asked = SharedMap::of_map(object.map("asked"), size_of::<Asked>())?;
        Ok(Self { program, asked })
    }

    /// The function that holds an address; none where the kernel knows of none there.
    pub(crate) fn at(&mut self, address: u64) -> Option<KernelFunction> {
        let asked = self.asked.start().cast::<Asked>();
        // SAFETY: the map is one of these, page-aligned. The program writes to it only while this thread runs it.
        unsafe { (&raw mut (*asked.as_ptr()).address).write_volatile(address) };
        let mut run = TestRun { program: self.program.as_raw_fd(), ..TestRun::default() };
        bpf_in_place(BPF_PROG_TEST_RUN, &mut run).ok()?;
        // SAFETY: as above; any bytes are a valid one, as it has numbers only.
        let asked = unsafe { asked.as_ptr().read_volatile() };
        let text = asked.text.get(..usize::try_from(asked.length).ok()?.checked_sub(1)?)?;
        printed(std::str::from_utf8(text).ok()?, address)
    }
}

/// `ext4_sync_file+0x1a/0x2d0 [ext4]`; an address where there is no function.
fn printed(text: &str, address: u64) -> Option<KernelFunction> {
    let (name, place) = text.split(' ').next()?.rsplit_once('+')?;
    let (offset, size) = place.split_once('/')?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let start = address.checked_sub(number(offset)?)?;
    Some(KernelFunction { name: name.to_owned(), range: start..start.checked_add(number(size)?)? })
}

/// `struct asked` of `bpf/names.h`.
#[repr(C)]
struct Asked {
    address: u64,
    length: i64,
    text: [u8; 1008],
}

// From include/uapi/linux/bpf.h.
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const BPF_PROG_TEST_RUN: libc::c_long = 10;

/// `union bpf_attr` of include/uapi/linux/bpf.h, its `test`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: i32,
    returned: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_read() {
        let function = |name: &str, range| Some(KernelFunction { name: name.to_owned(), range });
        assert_eq!(printed("futex_wait+0x1a/0x40", 0x101a), function("futex_wait", 0x1000..0x1040));
        assert_eq!(printed("ext4_sync+0x0/0x10 [ext4]", 0x2000), function("ext4_sync", 0x2000..0x2010));
        assert_eq!(printed("0xffffffff81000000", 0xffff_ffff_8100_0000), None);
        assert_eq!(printed("", 1), None);
        assert_eq!(printed("f+0x9/0x10", 1), None);
    }
}
