//! From addresses to names, files and lines.
//!
//! In: an address of the process, and its modules. Out: frames. The first of these sources that names the function is
//! used: debug information (in the file, or in its debug file), `.symtab` (of either), `.gnu_debugdata`, `.dynsym`.
//! Where no bounds hold the address, the frame is called by the module's name and the virtual address in the file, as
//! `nm` and `objdump` count: `mysqld+0x2a68b1d`; by the file offset where the file cannot be read.

mod debug_file;
mod debuginfod;
pub mod demangle;
pub mod kernel;
mod symbols;
pub mod xz;

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use spindoctor_model::stack::Frame;

use crate::module::bytes::{Pages, PagesReader};
use crate::module::elf::{Elf, Header, Which};
use crate::module::{Image, Modules};
use debuginfod::Debuginfod;
use demangle::demangle;
use kernel::KernelFunctions;
use symbols::{LONGEST_NAME, Symbols};

/// Debug information of a file, ready for look-ups.
type Lines = addr2line::Context<PagesReader>;

/// Compressed debug information is unpacked into memory: above this much of it, names come from the symbol table
/// alone, and lines are not shown. The profiler as a whole is to stay below 150 MiB.
const UNPACKED_MAX: u64 = 64 << 20;

/// `.gnu_debugdata` unpacked: a symbol table of a library takes a few hundred KiB, of a large program some MiB.
const DEBUGDATA_MAX: u32 = 64 << 20;

/// Inlined calls at one address: damaged or hostile debug information may have any number.
const MOST_INLINED: usize = 1_000;

/// Names of this many addresses are remembered, as many as the unwinder's rules.
const MAX_KNOWN: usize = 1 << 16;

/// Looks names up, once for each address.
#[derive(Debug)]
pub struct Names {
    /// By address, and whether it is a return address: the place in `frames`.
    known: HashMap<(u64, bool), Range<usize>>,
    frames: Vec<Frame>,
    /// The state of the modules that these are from.
    generation: u64,
    /// What is known of each module's functions.
    functions: HashMap<u32, Functions>,
    kernel: Option<KernelFunctions>,
    debuginfod: Option<Debuginfod>,
    notes: Vec<String>,
}

impl Default for Names {
    fn default() -> Self {
        Self::with(Debuginfod::from_environment())
    }
}

/// The functions of one module.
struct Functions {
    tables: Vec<Symbols>,
    lines: Option<Lines>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Functions").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

impl Names {
    /// A table that knows no name yet, and asks the servers of `DEBUGINFOD_URLS`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A table that asks these servers, separated by spaces, and keeps what they send in `cache`; for no longer than
    /// `patience` in all.
    pub fn with_debuginfod(urls: &str, cache: PathBuf, patience: Duration) -> Self {
        Self::with(Debuginfod::new(urls, cache, patience))
    }

    fn with(debuginfod: Option<Debuginfod>) -> Self {
        Self {
            known: HashMap::new(),
            frames: Vec::new(),
            generation: 0,
            functions: HashMap::new(),
            kernel: None,
            debuginfod,
            notes: Vec::new(),
        }
    }

    /// The frames at an address of the process: calls that were inlined there first, innermost first, the function
    /// itself last. Never empty. A return address is looked up at the address less one: in the call.
    pub fn frames(&mut self, modules: &mut Modules, address: u64, is_return: bool) -> &[Frame] {
        if self.generation != modules.generation() || self.known.len() > MAX_KNOWN {
            self.known.clear();
            self.frames.clear();
            self.generation = modules.generation();
        }
        let key = (address, is_return);
        if let Some(range) = self.known.get(&key) {
            return &self.frames[range.clone()];
        }
        let found = self.look_up(modules, address, is_return);
        // The look-up may have read the maps again.
        let begin = self.frames.len();
        self.frames.extend(found);
        let range = begin..self.frames.len();
        self.known.insert(key, range.clone());
        &self.frames[range]
    }

    fn look_up(&mut self, modules: &mut Modules, address: u64, is_return: bool) -> Vec<Frame> {
        let lookup = address.wrapping_sub(u64::from(is_return));
        let back = address.wrapping_sub(lookup);
        let place = modules.place(lookup);
        let Some((module, at)) = place.and_then(|place| Some((place.module?, place.address))) else {
            return vec![Frame { address, name: "[unknown]".to_owned(), ..Frame::default() }];
        };
        let shown = at.wrapping_add(back);
        let base = modules.module(module).map_or("", crate::module::Module::base_name).to_owned();
        let nameless = Frame {
            module: Some(module),
            address: shown,
            name: format!("{base}+{shown:#x}"),
            ..Frame::default()
        };
        let Some(image) = modules.image(lookup) else { return vec![nameless] };
        let functions = self.functions_of(modules, module, &image);
        let bounds = image.cfi.bounds(&image.elf, at);
        let mut frames =
            functions.lines.as_ref().map(|lines| inlined(lines, at, &nameless)).unwrap_or_default();
        let outermost_has_name = frames.last().is_some_and(|frame| !frame.name.is_empty());
        if !outermost_has_name {
            let mut frame = frames.pop().unwrap_or_else(|| nameless.clone());
            let symbol = functions.tables.iter().find_map(|table| table.name(at, bounds.as_ref()));
            match symbol {
                Some(symbol) => set_name(&mut frame, &symbol),
                None => frame.name.clone_from(&nameless.name),
            }
            frames.push(frame);
        }
        let outermost = frames.len() - 1;
        for (depth, frame) in frames.iter_mut().enumerate() {
            frame.inlined = depth < outermost;
            if frame.name.is_empty() {
                frame.name.clone_from(&nameless.name);
            }
        }
        frames
    }

    /// The addresses of the functions that go by a name, short or mangled, in the program and its libraries.
    pub(crate) fn find(&mut self, modules: &mut Modules, name: &str) -> Vec<u64> {
        let mut found = Vec::new();
        for (module, address) in modules.beginnings() {
            let Some(image) = modules.image(address) else { continue };
            let functions = self.functions_of(modules, module, &image);
            let starts = functions.tables.iter().flat_map(|table| table.find(name));
            found.extend(starts.map(|start| start.wrapping_add(image.bias)));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn functions_of(&mut self, modules: &Modules, module: u32, image: &Image) -> &Functions {
        if !self.functions.contains_key(&module) {
            let path = modules.module(module).map_or("", |module| module.path.as_str());
            let found = self.find_functions(image, path, modules.pid());
            self.functions.insert(module, found);
        }
        &self.functions[&module]
    }

    /// Opens whatever names the functions of a module.
    fn find_functions(&mut self, image: &Image, path: &str, pid: u32) -> Functions {
        let elf = &image.elf;
        let mut tables = Vec::new();
        let mut lines = image.is_file.then(|| self.lines(elf, pid, path)).flatten();
        if image.is_file && lines.is_none() {
            let found = debug_file::find(elf, path, pid).or_else(|| {
                let debuginfod = self.debuginfod.as_mut()?;
                let debug = Elf::open(debuginfod.find(elf.build_id()?)?, elf.budget()).ok()?;
                (debug.build_id() == elf.build_id()).then(|| Arc::new(debug))
            });
            if let Some(debug) = found {
                lines = self.lines(&debug, pid, path);
                tables.extend(Symbols::read(&debug, Which::All));
            }
        }
        tables.extend(Symbols::read(elf, Which::All));
        if tables.is_empty() {
            tables.extend(debug_data(elf).and_then(|inner| Symbols::read(&inner, Which::All)));
        }
        tables.extend(Symbols::read(elf, Which::Dynamic));
        Functions { tables, lines }
    }

    /// Reads debug information; none where there is none, or too much of it to unpack. Files that debug information names
    /// (`.dwo` of split DWARF) are not opened.
    fn lines(&mut self, elf: &Elf, pid: u32, path: &str) -> Option<Lines> {
        let is_of_debugging = |header: &&Header| header.name.contains("debug_");
        elf.sections()
            .iter()
            .find(|header| matches!(header.name.as_str(), ".debug_info" | ".zdebug_info"))?;
        let sections = elf.sections().iter().filter(is_of_debugging);
        let unpacked = sections.map(|header| elf.unpacked_size(header)).fold(0, u64::saturating_add);
        if unpacked > UNPACKED_MAX {
            self.notes.push(format!(
                "the debug information of {path} would take {} MiB of memory: its functions have names, but no lines",
                unpacked >> 20
            ));
            return None;
        }
        let mut dwarf = dwarf_of(elf)?;
        if let Some(shared) = debug_file::shared(elf, pid)
            && let Some(shared) = dwarf_of(&shared)
        {
            dwarf.set_sup(shared);
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Lines::from_dwarf(dwarf).ok()
    }

    /// The kernel's function at an address; its [`Frame::module`] is none: the caller's `[kernel]`.
    pub fn kernel(&mut self, address: u64) -> Frame {
        let kernel = self.kernel.get_or_insert_with(KernelFunctions::open);
        let name = kernel.name(address).map_or_else(|| "[kernel]".to_owned(), str::to_owned);
        Frame { address, name, kernel: true, ..Frame::default() }
    }

    /// What a reader must know: `kernel functions have no names: ...`.
    pub fn notes(&self) -> Vec<String> {
        let hidden = self.kernel.as_ref().and_then(|kernel| kernel.hidden().map(str::to_owned));
        let trouble = self.debuginfod.as_ref().and_then(|client| client.trouble.clone());
        self.notes.iter().cloned().chain(hidden).chain(trouble).collect()
    }
}

/// The sections of debug information that a file has.
fn dwarf_of(elf: &Elf) -> Option<gimli::Dwarf<PagesReader>> {
    gimli::Dwarf::load(|id| {
        let name = id.name();
        let old = name.strip_prefix('.').map(|name| format!(".z{name}"));
        let header = elf.section(name).or_else(|| elf.section(old.as_deref()?));
        let pages = header.and_then(|header| elf.pages(header));
        Ok::<_, gimli::Error>(pages.unwrap_or_else(|| Pages::of_memory(Vec::new())).reader())
    })
    .ok()
}

/// The calls that were inlined at an address and the function itself, by debug information; a name that it lacks
/// is empty.
fn inlined(lines: &Lines, address: u64, like: &Frame) -> Vec<Frame> {
    let mut frames = Vec::new();
    let Ok(mut found) = lines.find_frames(address).skip_all_loads() else { return frames };
    while frames.len() < MOST_INLINED
        && let Ok(Some(found)) = found.next()
    {
        let mut frame = Frame { name: String::new(), ..like.clone() };
        if let Some(name) = found.function.as_ref().and_then(|function| function.raw_name().ok()) {
            set_name(&mut frame, &name);
        }
        frame.location =
            found.location.and_then(|location| Some((location.file?.to_owned(), location.line?)));
        frames.push(frame);
    }
    frames
}

fn set_name(frame: &mut Frame, symbol: &str) {
    if symbol.len() > LONGEST_NAME {
        return;
    }
    let demangled = demangle(symbol);
    frame.name = demangled.short;
    frame.full_name = demangled.full;
}

/// MiniDebugInfo: `.gnu_debugdata` holds a file with nothing but a symbol table, packed with xz.
fn debug_data(elf: &Elf) -> Option<Elf> {
    let packed = elf.read(elf.section(".gnu_debugdata")?, u64::from(DEBUGDATA_MAX))?;
    let unpacked = xz::unpack(&packed, DEBUGDATA_MAX)?;
    elf.budget().keep(unpacked.len() as u64).then(|| Elf::from_bytes(unpacked, elf.budget()).ok())?
}
