//! Loads a program into the kernel: the loading, the memory that the program shares with this process, and why the
//! kernel refuses it.
//!
//! In: a checked-in object of `bpf/`. Out: the loaded object, a mapped map, or an error that says what is missing.

#![expect(unsafe_code, reason = "memory that a program in the kernel writes to is mapped, and bpf(2)")]

use std::error::Error as StdError;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use aya::maps::Map;
use aya::{Btf, Ebpf, EbpfLoader};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{capabilities, kernel_types};
use crate::error::{Error, Result};

/// Aligned, as the object's reader wants it.
#[repr(align(8))]
pub(super) struct Aligned<T: ?Sized>(pub(super) T);

/// Loads an object: its maps are made, its programs are not loaded yet. The types are those that it names.
pub(super) fn load(object: &Aligned<[u8]>, source_name: &'static str) -> Result<(Ebpf, Btf)> {
    let btf = kernel_types::those_of(object, &[], source_name)?;
    let loaded = EbpfLoader::new().btf(Some(&btf)).load(&object.0);
    Ok((loaded.map_err(|error| refused(source_name, &error))?, btf))
}

/// The value of an array map of one element, mapped: a program writes to it.
#[derive(Debug)]
pub(super) struct SharedMap {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to nobody else, and is as good in one thread as in another.
unsafe impl Send for SharedMap {}

impl SharedMap {
    /// Maps the object's map of this name, with a value of this length.
    pub(super) fn map(object: &Ebpf, name: &str, length: usize) -> io::Result<Self> {
        let Some(Map::Array(map)) = object.map(name) else {
            unreachable!("the object has this map, an array");
        };
        Self::of_map(map.fd().as_fd(), length)
    }

    /// Maps a map, with a value of this length.
    pub(super) fn of_map(map: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                map,
                0,
            )
        }?;
        Ok(Self { start: NonNull::new(address.cast()).expect("the kernel maps nothing at 0"), length })
    }

    /// Its first byte, page-aligned.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: mapped in `of_map`, with this length. It fails for no mapping that exists.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// From include/uapi/linux/bpf.h.
pub(super) const BPF_LINK_CREATE: libc::c_long = 28;

/// bpf(2), for the commands that give a descriptor.
pub(super) fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads as many bytes as it is asked to, and what they point to outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    match i32::try_from(fd) {
        // SAFETY: a new descriptor, which nobody else has.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// bpf(2), for the commands that give nothing, or write what they give into the attributes.
pub(super) fn bpf_in_place<T>(command: libc::c_long, attributes: &mut T) -> io::Result<()> {
    // SAFETY: the kernel reads and writes no more bytes than it is asked to, and what they point to outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn unavailable(source_name: &'static str, because: String, unlock: &str) -> Error {
    Error::Unavailable { source_name, because, unlock: unlock.to_owned() }
}

/// Says why the kernel refused something: a missing capability where that is it.
pub(super) fn refused(source_name: &'static str, error: &(dyn StdError + 'static)) -> Error {
    let mut cause = Some(error);
    let mut system = None;
    while let Some(error) = cause {
        system = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).or(system);
        cause = error.source();
    }
    let missing = capabilities::missing(&[capabilities::BPF, capabilities::PERFMON]);
    // perf_event_open(2) says EACCES.
    let forbidden = matches!(system, Some(libc::EPERM | libc::EACCES));
    if forbidden && !missing.is_empty() {
        return unavailable(
            source_name,
            format!("this user has not {}", missing.join(" and ")),
            "run as root, or grant CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE",
        );
    }
    if forbidden {
        return unavailable(
            source_name,
            "the kernel refuses BPF here, whatever the capabilities".to_owned(),
            "run outside the container, or look at kernel lockdown",
        );
    }
    // An error of the verifier ends with its whole log: the reason is its last line but the statistics.
    let text = error.to_string();
    let mut lines = text
        .lines()
        .filter(|line| !line.is_empty() && !REMARKS.iter().any(|remark| line.starts_with(remark)));
    let first = lines.next().unwrap_or_default();
    let because = match (lines.next_back(), system) {
        (Some(last), _) => format!("{first} ... {last}"),
        (None, Some(number)) => format!("{first}: {}", io::Error::from_raw_os_error(number)),
        (None, None) => first.to_owned(),
    };
    unavailable(source_name, because, "Linux 5.18 or newer has what it needs")
}

/// What the verifier says at the end of its log beside the reason.
const REMARKS: [&str; 3] = ["processed ", "verification time ", "stack depth "];
