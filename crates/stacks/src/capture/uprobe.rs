//! Probes in a process (uprobes): what a hit of one costs, and one program at many places, which the kernel sets and takes
//! away together.
//!
//! The kernel takes a probe away and then waits until no CPU is in it: some tens of milliseconds on a busy machine. One by one
//! the last of ten is hit for as long as all of that takes; together none is hit any more when it begins.

use std::collections::HashSet;
use std::error::Error as StdError;
use std::ffi::CString;
use std::hint::black_box;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aya::maps::Map;
use aya::{Btf, Ebpf};
use aya_obj::Object;
use rustix::time::{ClockId, clock_gettime};

use super::kernel_program::{Aligned, BPF_LINK_CREATE, bpf, refused};
use super::loaded::{Kind, load_program};
use crate::error::{Error, Result};
use crate::function::{self, Function};
use crate::module::Modules;
use crate::module::elf::Elf;

/// As errors name it.
pub(super) const NAME: &str = "uprobe";

/// How often a function is called to measure what a probe costs: about 2 ms in all.
const MEASURED_CALLS: u32 = 100;
const MEASURED_ROUNDS: u32 = 5;

/// What a hit of a probe costs here, measured on a function of this process. `set` puts probes where it begins and where it
/// returns, which count `hits`; they stand for as long as what it gives back.
pub(super) fn measure<P>(hits: &AtomicU64, set: impl FnOnce(&Function) -> Result<P>) -> Result<Duration> {
    let unavailable = |because: String| Error::Unavailable {
        source_name: NAME,
        because: format!("what a probe costs cannot be measured: {because}"),
        unlock: "look without probes: a trigger on a status variable needs none".to_owned(),
    };
    let mut modules = Modules::of_process(std::process::id())?;
    let function = function::at(&mut modules, called as *const () as u64).map_err(unavailable)?;
    // The quickest of some rounds: this thread may lose the CPU in a round.
    let time = || {
        let round = || {
            let start = Instant::now();
            for number in 0..MEASURED_CALLS {
                black_box(called(black_box(number)));
            }
            start.elapsed()
        };
        (0..MEASURED_ROUNDS).map(|_| round()).min().unwrap_or_default() / MEASURED_CALLS
    };
    let without = time();
    let probes = set(&function)?;
    let with = time();
    drop(probes);
    if hits.load(Relaxed) == 0 {
        return Err(unavailable("the probe was not hit".to_owned()));
    }
    // It was hit when it was called and when it returned.
    Ok(with.saturating_sub(without) / 2)
}

/// What is called to measure a probe. It calls a function and keeps a number meanwhile, so that compilers let it begin with a
/// push, as functions that do something begin: on x86-64 the kernel does that itself, and needs another trap for most others.
#[inline(never)]
extern "C" fn called(number: u32) -> u32 {
    tripled(number).wrapping_add(number)
}

#[inline(never)]
extern "C" fn tripled(number: u32) -> u32 {
    black_box(number.wrapping_mul(3))
}

/// A place of a probe: its file, where in it, and the cookie by which the program knows which place it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) file: &'a Arc<Elf>,
    pub(super) offset: u64,
    pub(super) cookie: u64,
}

/// A program for many places at once. It is loaded beside the object that has it, and shares its maps: the library that loads
/// the object knows no such programs.
#[derive(Debug)]
pub(super) struct ProgramOfMany(OwnedFd);

impl ProgramOfMany {
    /// The object's program of this name, with the maps of the object as it was loaded: all of them arrays.
    ///
    /// # Errors
    /// The kernel refuses it; the error says what would change that.
    pub(super) fn load(object: &Aligned<[u8]>, name: &str, maps: &Ebpf, btf: &Btf) -> Result<Self> {
        let failed = |error: &(dyn StdError + 'static)| refused(NAME, error);
        let mut object = Object::parse(&object.0).map_err(|error| failed(&error))?;
        object.relocate_btf(btf).map_err(|error| failed(&error))?;
        let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let described = std::mem::take(&mut object.maps);
        let numbered = described.iter().map(|(name, map)| match maps.map(name) {
            Some(Map::Array(data) | Map::PerCpuArray(data)) => {
                (name.as_str(), data.fd().as_fd().as_raw_fd(), map)
            }
            _ => unreachable!("its maps are loaded, and arrays"),
        });
        object.relocate_maps(numbered, &sections).map_err(|error| failed(&error))?;
        object.relocate_calls(&sections).map_err(|error| failed(&error))?;
        let kind = Kind { program: BPF_PROG_TYPE_KPROBE, attach: BPF_TRACE_UPROBE_MULTI, ..Kind::default() };
        Ok(Self(load_program(&object, name, kind).map_err(|error| failed(&*error))?))
    }

    /// Puts it into places, as far as a process has mapped them. They are taken away when what is returned is dropped, one
    /// for each of their files.
    ///
    /// # Errors
    /// The kernel refuses it; the error says what would change that.
    pub(super) fn set(&self, places: &[Place<'_>], pid: u32) -> Result<Vec<OwnedFd>> {
        let mut files: Vec<&Arc<Elf>> = Vec::new();
        for place in places {
            if !files.iter().any(|file| Arc::ptr_eq(file, place.file)) {
                files.push(place.file);
            }
        }
        files.into_iter().map(|file| self.set_in(file, places, pid)).collect()
    }

    fn set_in(&self, file: &Arc<Elf>, places: &[Place<'_>], pid: u32) -> Result<OwnedFd> {
        let gone = || refused(NAME, &io::Error::from(io::ErrorKind::NotFound));
        let path = file.path().and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
        let path = path.ok_or_else(gone)?;
        let here = || places.iter().filter(|place| Arc::ptr_eq(place.file, file));
        let offsets: Vec<u64> = here().map(|place| place.offset).collect();
        let cookies: Vec<u64> = here().map(|place| place.cookie).collect();
        let attributes = LinkCreate {
            program: self.0.as_raw_fd(),
            attach_type: BPF_TRACE_UPROBE_MULTI,
            path: path.as_ptr() as u64,
            offsets: offsets.as_ptr() as u64,
            cookies: cookies.as_ptr() as u64,
            places: offsets.len() as u32,
            pid,
            ..LinkCreate::default()
        };
        bpf(BPF_LINK_CREATE, &attributes).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => Error::Unavailable {
                source_name: NAME,
                because: "the kernel sets no probes at many places at once".to_owned(),
                unlock: "Linux 6.6 or newer does".to_owned(),
            },
            _ => refused(NAME, &error),
        })
    }
}

/// From include/uapi/linux/bpf.h.
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;

/// `union bpf_attr` of include/uapi/linux/bpf.h, its `link_create` with `uprobe_multi`.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: i32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    reference_counters: u64,
    cookies: u64,
    places: u32,
    probe_flags: u32,
    pid: u32,
    unused: u32,
}

/// A time as the programs count it; the longest that they can hold for one that is longer.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// `CLOCK_MONOTONIC`, as the programs read it.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(now.tv_nsec).unwrap_or_default()
}
