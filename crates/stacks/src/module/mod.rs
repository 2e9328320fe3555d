//! The files that a process runs code from.
//!
//! In: `/proc/PID/maps` and what it names. Out: which file an address lies in, where in that file, and bytes.
//! A file is opened when the first address in it is looked up, by the first of these that is the mapped file:
//! `/proc/PID/map_files` (the file itself, also when it was deleted or replaced; needs CAP_CHECKPOINT_RESTORE or
//! CAP_SYS_ADMIN), `/proc/PID/exe` (the program, likewise), its path below `/proc/PID/root` (another mount
//! namespace). The last two count only where device and inode, or else the first page, are the mapping's. No other name of
//! the process is opened, and only regular files are (see [`crate::target_file`]).

pub mod bytes;
pub(crate) mod cfi;
pub mod elf;
pub mod maps;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use spindoctor_model::stack;

use crate::error::{Error, Result};
use crate::process_memory;
use crate::target_file::{Root, of_proc};
use bytes::Budget;
use cfi::Cfi;
use elf::{Elf, ElfError, Machine};
use maps::{Map, parse_maps};

/// How often at most the maps are read again because an address was in none: a library that was just loaded is
/// known a tenth of a second later, and a program that jumps into nowhere all the time costs no more.
const REFRESH: Duration = Duration::from_millis(100);

/// Files of one process that are opened: each takes a descriptor. A server with all its plugins has a hundred.
const MOST_FILES: usize = 400;

/// `/proc/PID/maps` of 65,530 mappings (the default of vm.max_map_count) with long names has 16 MiB.
const MOST_MAPS: u64 = 64 << 20;

/// A mapped vDSO is two pages; what claims to be more is not read.
const VDSO_MAX: u64 = 0x1_0000;

/// The code of one process.
#[derive(Debug)]
pub struct Modules {
    pid: u32,
    /// By address.
    maps: Vec<Placed>,
    modules: Vec<Module>,
    /// Device, inode, path, and where offset zero would lie: which module a mapping belongs to.
    known: HashMap<(String, u64, String, u64), u32>,
    generation: u64,
    read_at: Instant,
    machine: Machine,
    /// What may still be kept of all these files.
    budget: Arc<Budget>,
    /// How many of them are open.
    opened: usize,
}

/// A mapping, and the module it belongs to.
#[derive(Debug, PartialEq, Eq)]
struct Placed {
    map: Map,
    /// None where no file is mapped: code that was made at run time.
    module: Option<u32>,
}

/// A file as it lies in the process.
#[derive(Debug)]
pub struct Module {
    /// As the process names it, without ` (deleted)`.
    pub path: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No address in it was asked for yet.
    Unopened,
    Open(Image),
    /// It cannot be read; why.
    Unreadable(String),
}

/// An opened file, and where it lies.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) elf: Arc<Elf>,
    pub(crate) cfi: Arc<Cfi>,
    /// Address in the process less virtual address in the file.
    pub(crate) bias: u64,
    /// False for the vDSO.
    pub(crate) is_file: bool,
}

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which module, as [`Modules::described`] counts; none for code that was made at run time.
    pub module: Option<u32>,
    /// Virtual address in the module's file; the file offset where the file cannot be read; the address itself
    /// where there is no module.
    pub address: u64,
}

impl Modules {
    /// Reads which files the process has mapped, and opens its program.
    ///
    /// # Errors
    /// Where the process is gone, its maps may not be read, or it is not a 64-bit program.
    pub fn of_process(pid: u32) -> Result<Self> {
        let mut modules = Self {
            pid,
            maps: Vec::new(),
            modules: Vec::new(),
            known: HashMap::new(),
            generation: 0,
            read_at: Instant::now(),
            machine: if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 },
            budget: Arc::default(),
            opened: 0,
        };
        modules.refresh()?;
        let program = of_proc(&modules.proc("exe")).map_err(ElfError::from);
        match program.and_then(|file| Elf::open(file, &modules.budget)) {
            Ok(elf) => modules.machine = elf.machine(),
            // Its libraries show the rest: the program may be hidden from us.
            Err(ElfError::Io(_)) => (),
            Err(error) => {
                let error = io::Error::new(io::ErrorKind::Unsupported, error);
                return Err(Error::File { path: modules.proc("exe"), error });
            }
        }
        Ok(modules)
    }

    /// One file as if it were mapped, without a process: its virtual addresses are those of the code.
    ///
    /// # Errors
    /// Where it cannot be read, or is not a 64-bit ELF file for a machine that is known.
    pub fn of_file(path: &Path) -> std::result::Result<Self, ElfError> {
        let budget = Arc::default();
        let elf = Elf::open(File::open(path)?, &budget)?;
        let name = path.display().to_string();
        let map =
            |(start, end, offset)| Map { start, end, offset, file: (String::new(), 0), path: name.clone() };
        let mut maps: Vec<Map> = elf.code().map(map).collect();
        maps.sort_by_key(|map| map.start);
        let machine = elf.machine();
        let image = Image { elf: Arc::new(elf), cfi: Arc::default(), bias: 0, is_file: true };
        Ok(Self {
            // No process has this id.
            pid: 0,
            maps: maps.into_iter().map(|map| Placed { map, module: Some(0) }).collect(),
            modules: vec![Module { path: name, state: State::Open(image) }],
            known: HashMap::new(),
            generation: 0,
            read_at: Instant::now(),
            machine,
            budget,
            opened: 1,
        })
    }

    /// The process whose modules these are.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The program's instruction set.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Grows whenever code was mapped or unmapped: what was remembered by address is void.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Reads the maps again: libraries come and go. True where something changed.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn refresh(&mut self) -> Result<bool> {
        self.read_at = Instant::now();
        let path = self.proc("maps");
        // Names are bytes; one that is not UTF-8 is found by its inode all the same.
        let mut text = Vec::new();
        match File::open(&path).and_then(|file| file.take(MOST_MAPS).read_to_end(&mut text)) {
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NoProcess(self.pid)),
            Err(error) => return Err(Error::File { path, error }),
        };
        let maps = parse_maps(&String::from_utf8_lossy(&text));
        let placed: Vec<Placed> =
            maps.into_iter().map(|map| Placed { module: self.module_of(&map), map }).collect();
        let changed = placed != self.maps;
        if changed {
            self.maps = placed;
            self.generation += 1;
        }
        Ok(changed)
    }

    fn module_of(&mut self, map: &Map) -> Option<u32> {
        let in_memory = map.path == "[vdso]";
        if !in_memory && (map.file.1 == 0 || map.path.is_empty()) {
            return None;
        }
        let (device, inode) = map.file.clone();
        let key = (device, inode, map.path.clone(), map.start.wrapping_sub(map.offset));
        Some(*self.known.entry(key).or_insert_with(|| {
            let path = map.path.strip_suffix(" (deleted)").unwrap_or(&map.path).to_owned();
            self.modules.push(Module { path, state: State::Unopened });
            u32::try_from(self.modules.len() - 1).unwrap_or(u32::MAX)
        }))
    }

    /// The mapping that holds an address. Looks at the maps again where none does, but not too often.
    fn map_at(&mut self, address: u64) -> Option<usize> {
        let search = |maps: &[Placed]| {
            let place = maps.partition_point(|placed| placed.map.start <= address).checked_sub(1)?;
            (address < maps[place].map.end).then_some(place)
        };
        search(&self.maps).or_else(|| {
            if self.read_at.elapsed() < REFRESH || !self.refresh().ok()? {
                return None;
            }
            search(&self.maps)
        })
    }

    /// True where the process may run code at an address.
    pub fn is_code(&mut self, address: u64) -> bool {
        self.map_at(address).is_some()
    }

    /// Where an address lies; none where no code is mapped.
    pub fn place(&mut self, address: u64) -> Option<Place> {
        let index = self.map_at(address)?;
        let image = self.image_of(index).map(|image| image.bias);
        let Placed { map, module } = &self.maps[index];
        Some(Place {
            module: *module,
            address: match (module, image) {
                (None, _) => address,
                (Some(_), Some(bias)) => address.wrapping_sub(bias),
                (Some(_), None) => address - map.start + map.offset,
            },
        })
    }

    /// The file that an address lies in.
    pub(crate) fn image(&mut self, address: u64) -> Option<Image> {
        let index = self.map_at(address)?;
        self.image_of(index).cloned()
    }

    /// The file at an address, and the place in it; none where no file can be opened.
    pub(crate) fn file_at(&mut self, address: u64) -> Option<(Arc<Elf>, u64)> {
        let index = self.map_at(address)?;
        let image = self.image_of(index)?.clone();
        let map = &self.maps[index].map;
        image.is_file.then_some((image.elf, address - map.start + map.offset))
    }

    /// Every module, and an address in it.
    pub(crate) fn beginnings(&self) -> Vec<(u32, u64)> {
        let mut beginnings: Vec<(u32, u64)> =
            self.maps.iter().filter_map(|placed| Some((placed.module?, placed.map.start))).collect();
        beginnings.dedup_by_key(|(module, _)| *module);
        beginnings
    }

    /// A module by its place in [`Self::described`].
    pub(crate) fn module(&self, module: u32) -> Option<&Module> {
        self.modules.get(module as usize)
    }

    fn image_of(&mut self, index: usize) -> Option<&Image> {
        let placed = &self.maps[index];
        let module = placed.module? as usize;
        if let State::Unopened = self.modules[module].state {
            let opened =
                if self.opened < MOST_FILES { self.open(&placed.map) } else { Err(ElfError::TooMany) };
            let opened = opened.and_then(|(elf, is_file)| {
                let bias = elf.bias(placed.map.start, placed.map.offset).ok_or(ElfError::NotElf)?;
                Ok(Image { elf: Arc::new(elf), cfi: Arc::default(), bias, is_file })
            });
            self.opened += usize::from(opened.is_ok());
            self.modules[module].state = match opened {
                Ok(image) => State::Open(image),
                Err(error) => State::Unreadable(error.to_string()),
            };
        }
        match &self.modules[module].state {
            State::Open(image) => Some(image),
            State::Unopened | State::Unreadable(_) => None,
        }
    }

    /// The file of a mapping; false where it is in memory.
    fn open(&self, map: &Map) -> std::result::Result<(Elf, bool), ElfError> {
        if map.path == "[vdso]" {
            let len = usize::try_from((map.end - map.start).min(VDSO_MAX)).unwrap_or(0);
            let elf = Elf::from_bytes(self.memory(map.start, len).ok_or(ElfError::NotElf)?, &self.budget)?;
            return Ok((elf, false));
        }
        let elf = |file| Ok((Elf::open(file, &self.budget)?, true));
        let itself = self.proc(format!("map_files/{:x}-{:x}", map.start, map.end));
        let mut refused = match of_proc(&itself) {
            Ok(file) => return elf(file),
            Err(error) => error,
        };
        let inside = || Root::of_process(self.pid)?.file(Path::new(&map.path));
        for file in [of_proc(&self.proc("exe")), inside()] {
            match file {
                Ok(file) if is_mapped(&file, map) => return elf(file),
                Ok(file) => {
                    if let Ok(elf) = Elf::open(file, &self.budget)
                        && self.has_in_memory(&elf, map)
                    {
                        return Ok((elf, true));
                    }
                }
                Err(error) => refused = error,
            }
        }
        Err(ElfError::Io(refused))
    }

    /// The kernel prints another device than stat does on btrfs and some overlays: there the contents decide.
    fn has_in_memory(&self, elf: &Elf, map: &Map) -> bool {
        const PAGE: usize = 4096;
        let Some(bias) = elf.bias(map.start, map.offset) else { return false };
        let Some(file) = elf.at(map.start.wrapping_sub(bias), PAGE) else { return false };
        elf.head(4) == b"\x7fELF" && self.memory(map.start, file.len()) == Some(file)
    }

    /// Instructions at an address, from the file or from the process; none where there is no code. Fewer than
    /// `len` where a mapping ends.
    pub fn code(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let index = self.map_at(address)?;
        let end = self.maps[index].map.end;
        let len = len.min(usize::try_from(end - address).unwrap_or(usize::MAX));
        if let Some(image) = self.image_of(index)
            && let Some(bytes) = image.elf.at(address.wrapping_sub(image.bias), len)
        {
            return Some(bytes);
        }
        self.memory(address, len)
    }

    /// Bytes of the process.
    fn memory(&self, address: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = process_memory::read(self.pid, address, &mut bytes).ok()?;
        bytes.truncate(read);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Every module so far, in the order that [`stack::Frame::module`] counts them: the list only grows. The build
    /// id is known once an address in the file was looked up.
    pub fn described(&self) -> Vec<stack::Module> {
        let describe = |module: &Module| stack::Module {
            path: module.path.clone(),
            build_id: match &module.state {
                State::Open(image) => image.elf.build_id().map(str::to_owned),
                State::Unopened | State::Unreadable(_) => None,
            },
        };
        self.modules.iter().map(describe).collect()
    }

    /// What could not be read: `cannot read /usr/lib/libfoo.so: permission denied; its functions have no names`.
    pub fn notes(&self) -> Vec<String> {
        let note = |module: &Module| match &module.state {
            State::Unreadable(why) => {
                Some(format!("cannot read {}: {why}; its functions have no names", module.path))
            }
            State::Unopened | State::Open(_) => None,
        };
        self.modules.iter().filter_map(note).collect()
    }

    fn proc(&self, file: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(file)
    }
}

impl Module {
    /// The last part of the path: `mysqld`.
    pub(crate) fn base_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Device and inode are those that the kernel printed in maps.
fn is_mapped(file: &File, map: &Map) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let device = metadata.dev();
    let printed = format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device));
    metadata.ino() == map.file.1 && printed == map.file.0
}
