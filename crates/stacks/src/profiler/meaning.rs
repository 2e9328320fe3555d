//! Addresses to names, states and spinning, with a memory of earlier results.
//!
//! In: registers and copied stacks. Out: places in the [`Tables`] of a profile. The result for an address or a stack is
//! remembered: threads are at the same places again and again.

use std::ops::Range;

use rustc_hash::FxHashMap;
use spindoctor_model::stack::{Frame, Observation, Spin, Stack, StackEnd, ThreadState};

use super::stack_ends::StackEnds;
use super::tables::Tables;
use crate::capture::cpu::STACK_BYTES;
use crate::capture::{RawCpuSample, RawThread};
use crate::classify::{FrameStates, classify, state_by_frames};
use crate::module::Modules;
use crate::names::Names;
use crate::registers::Registers;
use crate::spin::{Architecture, CodeSource, Function, SpinDecoder, is_kernel_spin};
use crate::unwind::{Copied, Unwinder};

/// Walks whose frames are remembered.
const MOST_WALKS: usize = 20_000;

/// How many bytes of code are looked at where nobody knows the bounds of a function.
const UNBOUNDED_CODE: usize = 4096;

/// The largest function whose code is read for a sample in it.
const LARGEST_FUNCTION: u64 = 512 << 10;

/// Addresses to names, states and spinning, with a memory of earlier results.
pub(super) struct Meaning {
    pub(super) modules: Modules,
    unwinder: Unwinder,
    pub(super) names: Names,
    spins: SpinDecoder,
    pub(super) tables: Tables,
    generation: u64,
    /// The frames at an address, by the address and whether it was returned to.
    frames_at: FxHashMap<(u64, bool), Vec<u32>>,
    /// The kernel's, with whether it is a spin lock's.
    kernel_at: FxHashMap<u64, (u32, bool)>,
    /// By the addresses of a walk and how it ended.
    walked: FxHashMap<(Vec<u64>, StackEnd), u32>,
    /// What frames mean in this program.
    program: &'static FrameStates,
    /// What the frames of a stack mean where a thread is blocked in it.
    blocked_in: FxHashMap<u32, Option<ThreadState>>,
    pub(super) stack_ends: StackEnds,
    addresses: Vec<u64>,
}

impl Meaning {
    pub(super) fn new(modules: Modules, program: &'static FrameStates) -> Self {
        Self {
            generation: modules.generation(),
            modules,
            unwinder: Unwinder::new(),
            names: Names::new(),
            spins: SpinDecoder::new(Architecture::HOST),
            tables: Tables::default(),
            frames_at: FxHashMap::default(),
            kernel_at: FxHashMap::default(),
            walked: FxHashMap::default(),
            program,
            blocked_in: FxHashMap::default(),
            stack_ends: StackEnds::default(),
            addresses: Vec::new(),
        }
    }

    pub(super) fn replace_tables(&mut self, tables: Tables) {
        self.tables = tables;
        self.frames_at.clear();
        self.kernel_at.clear();
        self.walked.clear();
        self.blocked_in.clear();
    }

    /// Libraries come and go: other code may lie where some was.
    pub(super) fn forget_old_code(&mut self) {
        if self.modules.generation() != self.generation {
            self.generation = self.modules.generation();
            self.frames_at.clear();
            self.walked.clear();
            self.spins.clear();
        }
    }

    pub(super) fn no_stack(&mut self, why: &str) -> u32 {
        self.tables.stacks.place(Stack { frames: Vec::new(), end: StackEnd::None(why.to_owned()) })
    }

    pub(super) fn user_stack(
        &mut self,
        registers: &Registers,
        stack: Copied<'_>,
        thread_pointer: Option<u64>,
    ) -> u32 {
        let end = self.unwinder.walk(&mut self.modules, registers, stack, &mut self.addresses);
        self.stack_ends.seen(self.unwinder.outermost().zip(thread_pointer), stack.whole);
        let key = (std::mem::take(&mut self.addresses), end);
        if let Some(&place) = self.walked.get(&key) {
            self.addresses = key.0;
            return place;
        }
        let mut frames = Vec::with_capacity(key.0.len());
        self.add_user_frames(&key.0, &mut frames);
        let place = self.tables.stacks.place(Stack { frames, end: key.1.clone() });
        if self.walked.len() >= MOST_WALKS {
            self.walked.clear();
        }
        self.walked.insert(key, place);
        place
    }

    /// Adds the frames at the addresses of the last walk.
    fn add_user_frames(&mut self, addresses: &[u64], frames: &mut Vec<u32>) {
        let Self { modules, unwinder, names, tables, frames_at, .. } = self;
        for (at, &address) in addresses.iter().enumerate() {
            let is_return = at > 0 && !unwinder.interrupted().contains(&at);
            let places = frames_at.entry((address, is_return)).or_insert_with(|| {
                let named = names.frames(modules, address, is_return);
                named.iter().map(|frame| tables.frames.place(frame.clone())).collect()
            });
            frames.extend_from_slice(places);
        }
    }

    /// Where the places that samples were at lie in the process, by module and address in its file.
    pub(super) fn addresses_of_leaves(&self) -> FxHashMap<(u32, u64), u64> {
        let leaves = self.frames_at.iter().filter(|((_, is_return), _)| !is_return);
        let place = |((address, _), frames): (&(u64, bool), &Vec<u32>)| {
            let frame = self.tables.frames.get(*frames.first()?);
            Some(((frame.module?, frame.address), *address))
        };
        leaves.filter_map(place).collect()
    }

    fn kernel_frame(&mut self, address: u64) -> (u32, bool) {
        let Self { names, tables, kernel_at, .. } = self;
        *kernel_at.entry(address).or_insert_with(|| {
            let frame = names.kernel(address);
            let spins = is_kernel_spin(&frame.name);
            (tables.frames.place(Frame { kernel: true, ..frame }), spins)
        })
    }

    pub(super) fn cpu_sample(&mut self, sample: &RawCpuSample, stacks: &[u8]) -> Observation {
        let whole = sample.stack.len() < STACK_BYTES as usize;
        let stack = Copied { start: sample.stack_start, bytes: &stacks[sample.stack.clone()], whole };
        let end = self.unwinder.walk(&mut self.modules, &sample.registers, stack, &mut self.addresses);
        let addresses = std::mem::take(&mut self.addresses);
        let mut frames = Vec::with_capacity(sample.kernel.len() + addresses.len());
        let mut kernel_spins = false;
        for &address in &sample.kernel {
            let (frame, spins) = self.kernel_frame(address);
            frames.push(frame);
            kernel_spins |= spins;
        }
        self.add_user_frames(&addresses, &mut frames);
        let spin = if kernel_spins {
            Some(Spin::Kernel)
        } else if sample.kernel.is_empty() && self.spins_at(&addresses) {
            Some(Spin::User)
        } else {
            None
        };
        self.addresses = addresses;
        Observation {
            stack: self.tables.stacks.place(Stack { frames, end }),
            state: ThreadState::Running,
            spin,
            ..Observation::default()
        }
    }

    fn spins_at(&mut self, addresses: &[u64]) -> bool {
        self.spins.spins(addresses, &mut self.modules)
    }

    pub(super) fn state(&mut self, raw: &RawThread, stack: u32) -> ThreadState {
        let Self { tables, program, blocked_in, .. } = self;
        classify(raw, &mut || {
            *blocked_in.entry(stack).or_insert_with(|| {
                let frames = tables.stacks.get(stack).frames.iter();
                let names: Vec<&str> = frames.map(|&frame| tables.frames.get(frame).name.as_str()).collect();
                state_by_frames(&names, program)
            })
        })
    }
}

/// By call frame information.
impl CodeSource for Modules {
    fn function(&mut self, address: u64) -> Option<Function> {
        self.image(address)?;
        let bounds = self.bounds(address);
        let (start, len) = match &bounds {
            Some(bounds) => (bounds.start, (bounds.end - bounds.start) as usize),
            None => (address, UNBOUNDED_CODE),
        };
        let bytes = self.code(start, len)?;
        Some(Function { start, bytes, bounded: bounds.is_some() })
    }

    fn bounds(&mut self, address: u64) -> Option<Range<u64>> {
        let image = self.image(address)?;
        let bounds = image.cfi.bounds(&image.elf, address.wrapping_sub(image.bias))?;
        let bounds = bounds.start.wrapping_add(image.bias)..bounds.end.wrapping_add(image.bias);
        bounds.end.checked_sub(bounds.start).is_some_and(|len| len <= LARGEST_FUNCTION).then_some(bounds)
    }
}
