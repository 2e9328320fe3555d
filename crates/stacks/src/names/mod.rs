//! From addresses to names, files and lines.
//!
//! In: an address of the process, and its modules. Out: frames. Of what can name a function, the first that does is
//! taken: debug information (in the file, or in its debug file), `.symtab` (of either), `.gnu_debugdata`,
//! `.dynsym`. Where no bounds hold the address, the frame is called by the module's name and the virtual address in
//! the file, as `nm` and `objdump` count: `mysqld+0x2a68b1d`; by the file offset where the file cannot be read.

mod debug_file;
mod debuginfod;
pub mod demangle;
mod kernel;
mod symbols;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use addr2line::Loader;
use object::{Object, ObjectSection};
use spindoctor_model::stack::Frame;

use crate::module::elf::Elf;
use crate::module::{Image, Modules};
use debuginfod::Debuginfod;
use demangle::demangle;
use kernel::Kernel;
use symbols::{Symbols, Table};

/// Compressed debug information is unpacked into memory: above this much of it, names come from the symbol table
/// alone, and lines are not shown. The profiler as a whole is to stay below 150 MiB.
const UNPACKED_MAX: u64 = 64 << 20;

/// `.gnu_debugdata` unpacked: a symbol table of a library takes a few hundred KiB, of a large program some MiB.
const DEBUGDATA_MAX: usize = 64 << 20;

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
    kernel: Option<Kernel>,
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
    lines: Option<Loader>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Functions").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

impl Names {
    /// One that knows no name yet, and asks the servers of `DEBUGINFOD_URLS`.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that asks these servers, separated by spaces, and keeps what they send in `cache`; for no longer than
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
        let mut lines = image.opened.as_ref().and_then(|opened| self.lines(elf, opened, path));
        if image.opened.is_some() && lines.is_none() {
            let found = debug_file::find(elf, path, pid).or_else(|| {
                let debuginfod = self.debuginfod.as_mut()?;
                let file = debuginfod.find(elf.build_id()?)?;
                let debug = Elf::open(&std::fs::File::open(&file).ok()?).ok()?;
                (debug.build_id() == elf.build_id()).then(|| (Arc::new(debug), file))
            });
            if let Some((debug, debug_path)) = found {
                lines = self.lines(&debug, &debug_path, path);
                tables.extend(Symbols::read(&debug, Table::All));
            }
        }
        tables.extend(Symbols::read(elf, Table::All));
        if tables.is_empty() {
            tables.extend(debug_data(elf).and_then(|inner| Symbols::read(&Arc::new(inner), Table::All)));
        }
        tables.extend(Symbols::read(elf, Table::Dynamic));
        Functions { tables, lines }
    }

    /// Reads debug information; none where there is none, or too much of it to unpack.
    fn lines(&mut self, elf: &Elf, opened: &Path, path: &str) -> Option<Loader> {
        let object = elf.object()?;
        object.section_by_name(".debug_info")?;
        let compressed =
            object.sections().filter(|section| section.name().is_ok_and(|name| name.contains("debug_")));
        let unpacked: u64 = compressed
            .filter_map(|section| section.compressed_data().ok())
            .filter(|data| data.format != object::CompressionFormat::None)
            .map(|data| data.uncompressed_size)
            .fold(0, u64::saturating_add);
        if unpacked > UNPACKED_MAX {
            self.notes.push(format!(
                "the debug information of {path} would take {} MiB of memory: its functions have names, but no lines",
                unpacked >> 20
            ));
            return None;
        }
        Loader::new_with_sup(opened, debug_file::shared(elf, opened).filter(|shared| shared.exists())).ok()
    }

    /// The kernel's function at an address; its [`Frame::module`] is none: the caller's `[kernel]`.
    pub fn kernel(&mut self, address: u64) -> Frame {
        let kernel = self.kernel.get_or_insert_with(Kernel::read);
        let name = kernel.name(address).map_or_else(|| "[kernel]".to_owned(), str::to_owned);
        Frame { address, name, kernel: true, ..Frame::default() }
    }

    /// What a reader must know: `kernel functions have no names: ...`.
    pub fn notes(&self) -> Vec<String> {
        let hidden = self.kernel.as_ref().and_then(|kernel| kernel.hidden.clone());
        let trouble = self.debuginfod.as_ref().and_then(|client| client.trouble.clone());
        self.notes.iter().cloned().chain(hidden).chain(trouble).collect()
    }
}

/// The calls that were inlined at an address and the function itself, as debug information tells; a name is empty
/// where it tells none.
fn inlined(lines: &Loader, address: u64, like: &Frame) -> Vec<Frame> {
    let mut frames = Vec::new();
    let Ok(mut found) = lines.find_frames(address) else { return frames };
    while let Ok(Some(found)) = found.next() {
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
    let demangled = demangle(symbol);
    frame.name = demangled.short;
    frame.full_name = demangled.full;
}

/// MiniDebugInfo: `.gnu_debugdata` holds a file with nothing but a symbol table, packed with xz.
fn debug_data(elf: &Elf) -> Option<Elf> {
    /// Refuses more than a bound: a small packed file can be huge.
    struct Bounded(Vec<u8>);
    impl std::io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0.len() + bytes.len() > DEBUGDATA_MAX {
                return Err(std::io::Error::other("too large"));
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let object = elf.object()?;
    let mut packed = object.section_by_name(".gnu_debugdata")?.data().ok()?;
    let mut unpacked = Bounded(Vec::new());
    lzma_rs::xz_decompress(&mut packed, &mut unpacked).ok()?;
    Elf::of(unpacked.0).ok()
}
