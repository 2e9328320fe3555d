//! Loads an object's programs by themselves.
//!
//! In: a checked-in object of `bpf/`, and the kernel's types where its programs ask for them. Out: programs and maps, as
//! descriptors. The library's own loader parses the kernel's types for itself each time (some 10 ms of CPU time), and asks
//! the kernel for features that every kernel has which these programs run on.

use std::collections::{HashMap, HashSet};
use std::error::Error as StdError;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya::Btf;
use aya_obj::{EbpfSectionKind, Map, Object};

use super::kernel_program::{Aligned, bpf, bpf_in_place};

/// An object whose maps are made, and whose programs fit the running kernel.
#[derive(Debug)]
pub(super) struct Loaded {
    object: Object,
    maps: HashMap<String, OwnedFd>,
}

/// As what a program is loaded: the numbers are those of include/uapi/linux/bpf.h.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kind {
    /// `enum bpf_prog_type`.
    pub(super) program: u32,
    /// `enum bpf_attach_type`.
    pub(super) attach: u32,
    /// `BPF_F_SLEEPABLE` and its like.
    pub(super) flags: u32,
    /// The kernel's function that it takes the place of, by its place among the kernel's types.
    pub(super) instead_of: u32,
}

/// Why there is no program.
pub(super) type Refusal = Box<dyn StdError + Send + Sync>;

impl Loaded {
    /// Makes an object's maps.
    pub(super) fn of_object(object: &Aligned<[u8]>, types: Option<&Btf>) -> Result<Self, Refusal> {
        let mut object = Object::parse(&object.0)?;
        if let Some(types) = types {
            object.relocate_btf(types)?;
        }
        let described = std::mem::take(&mut object.maps);
        let mut maps = HashMap::new();
        for (name, map) in &described {
            maps.insert(name.clone(), make(map)?);
        }
        let numbered = described.iter().map(|(name, map)| (name.as_str(), maps[name].as_raw_fd(), map));
        let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        object.relocate_maps(numbered, &sections)?;
        object.relocate_calls(&sections)?;
        Ok(Self { object, maps })
    }

    /// The map of this name.
    pub(super) fn map(&self, name: &str) -> BorrowedFd<'_> {
        self.maps.get(name).expect("the object has this map").as_fd()
    }

    /// Loads the program of this name. It keeps the maps that it uses.
    pub(super) fn program(&self, name: &str, kind: Kind) -> Result<OwnedFd, Refusal> {
        load_program(&self.object, name, kind)
    }
}

/// Loads a program of an object that fits the running kernel.
pub(super) fn load_program(object: &Object, name: &str, kind: Kind) -> Result<OwnedFd, Refusal> {
    let program = object.programs.get(name).expect("the object has this program");
    let instructions = &object.functions[&program.function_key()].instructions;
    let attributes = ProgramLoad {
        kind: kind.program,
        instructions: instructions.len() as u32,
        first: instructions.as_ptr() as u64,
        license: program.license.as_ptr() as u64,
        flags: kind.flags,
        name: short(name),
        attach_type: kind.attach,
        instead_of: kind.instead_of,
        ..ProgramLoad::default()
    };
    let error = match bpf(BPF_PROG_LOAD, &attributes) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    // Once more, for the reason.
    let mut log = vec![0; LOG_BYTES];
    let asking =
        ProgramLoad { log_level: 1, log_size: LOG_BYTES as u32, log: log.as_mut_ptr() as u64, ..attributes };
    bpf(BPF_PROG_LOAD, &asking).map_err(|_| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        Refused { name: name.to_owned(), log, error }.into()
    })
}

/// The kernel refuses a program.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses the program {name}: {error}\n{log}")]
struct Refused {
    name: String,
    log: String,
    #[source]
    error: io::Error,
}

/// The verifier's remarks on the programs here take some KiB.
const LOG_BYTES: usize = 1 << 20;

/// Makes a map, with what is in it from the beginning.
fn make(map: &Map) -> io::Result<OwnedFd> {
    let made = bpf(
        BPF_MAP_CREATE,
        &MapCreate {
            kind: map.map_type(),
            key_bytes: map.key_size(),
            value_bytes: map.value_size(),
            entries: map.max_entries(),
            flags: map.map_flags(),
            ..MapCreate::default()
        },
    )?;
    if map.section_kind() == EbpfSectionKind::Rodata {
        let (key, map_fd) = (0_u32, made.as_raw_fd().cast_unsigned());
        let mut content = MapUpdate {
            map: map_fd,
            key: (&raw const key) as u64,
            value: map.data().as_ptr() as u64,
            ..MapUpdate::default()
        };
        bpf_in_place(BPF_MAP_UPDATE_ELEM, &mut content)?;
        bpf_in_place(BPF_MAP_FREEZE, &mut MapUpdate { map: map_fd, ..MapUpdate::default() })?;
    }
    Ok(made)
}

/// As long as the kernel takes names of programs (`BPF_OBJ_NAME_LEN`), ended by a zero.
fn short(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
    short
}

// From include/uapi/linux/bpf.h.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_MAP_FREEZE: libc::c_long = 22;

/// `union bpf_attr` of include/uapi/linux/bpf.h, as it makes a map.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    unused: u32,
}

/// `union bpf_attr`, as it writes an element of a map, or freezes one.
#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr`, as it loads a program.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
    line_bytes: u32,
    lines: u64,
    line_count: u32,
    instead_of: u32,
}
