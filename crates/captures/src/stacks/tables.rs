//! A profile as it is put together from text: what repeats is kept once.

use std::collections::HashMap;

use spindoctor_model::number;
use spindoctor_model::stack::{
    Frame, Module, Observation, Profile, ProfiledThread, SnapshotCost, Stack, StackEnd, StackSource,
    ThreadState,
};

use super::name;
use super::state;

/// Threads, or CPU samples, that are kept of one text: a server with every connection that it can have.
pub(super) const MOST_SEEN: usize = 100_000;

/// Frames of one stack that are kept, from the innermost on.
pub(super) const DEEPEST: usize = 1_024;

/// Different frames and stacks of one text.
const MOST_FRAMES: usize = 200_000;

/// A frame as a line of text has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// As it was printed: mangled, or with arguments.
    pub(super) name: String,
    /// The file that it is said to lie in, as it was printed.
    pub(super) module: Option<String>,
    /// The offset in that file, where that was printed.
    pub(super) offset: Option<u64>,
    /// The address; of the process, for few tools print that of the file.
    pub(super) address: u64,
    pub(super) location: Option<(String, u32)>,
    pub(super) inlined: bool,
    pub(super) kernel: bool,
}

/// Who was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Who {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) pointer: Option<u64>,
}

/// The profile under way.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) profile: Profile,
    modules: HashMap<String, u32>,
    frames: HashMap<Frame, u32>,
    stacks: HashMap<Stack, u32>,
    threads: HashMap<Who, u32>,
    /// How many were left out at the bound.
    left_out: usize,
    /// Of how many the innermost functions are not in the text, and no other says what they did.
    without_innermost: u64,
}

/// Why a stack of a text ends before its thread's first function: `pt-pmp -l 5`, and who pastes a part of one.
const LEFT_OUT: &str = "the outer functions were left out";

/// What is said of threads whose innermost functions are not in a text, behind their number.
pub(crate) const WITHOUT_INNERMOST: &str =
    "without the innermost functions: what was done or waited for there is not in the text";

/// Functions that a thread begins with.
const OUTERMOST: [&str; 11] = [
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "start_thread",
    "thread_start",
    "main",
    "_start",
    "__libc_start_main",
    "pfs_spawn_thread",
    "??",
];

/// True for the function that a thread begins with, for one that has no name, and for one of the kernel.
fn is_outermost(place: &Place) -> bool {
    let name = place.name.trim().split(['(', '@']).next().unwrap_or_default();
    place.kernel
        || name.is_empty()
        || OUTERMOST.contains(&name)
        || name.ends_with("??")
        || name.starts_with("__libc_start")
}

impl Tables {
    pub(super) fn new(source: StackSource) -> Self {
        Self { profile: Profile { source, ..Profile::default() }, ..Self::default() }
    }

    /// Begins a snapshot. When it was taken, text does not say: one a second is assumed.
    pub(super) fn next_snapshot(&mut self) {
        let at = self.profile.snapshots.len() as u64;
        self.profile.snapshots.push(SnapshotCost { at_us: at * 1_000_000, ..SnapshotCost::default() });
        self.profile.seconds = at as f64;
    }

    /// A thread in a stack, innermost frame first. Threads without an id are distinct from each other.
    pub(super) fn thread(&mut self, who: &Who, places: &[Place], cut: Option<&str>) {
        let stack = self.stack(places, cut);
        let state = self.state(stack);
        self.observe(who, stack, state);
    }

    /// A thread of which the text has the outer functions alone. What it did is known where one of them waits.
    pub(super) fn thread_without_innermost(&mut self, who: &Who, places: &[Place], cut: Option<&str>) {
        let stack = self.stack(places, cut);
        let frames = self.profile.stacks[stack as usize].frames.iter();
        let names: Vec<&str> = frames.map(|&at| self.profile.frames[at as usize].name.as_str()).collect();
        match state::by_functions(&names) {
            None => self.without_innermost += 1,
            Some(state) => self.observe(who, stack, state),
        }
    }

    /// So many threads that have no id in the same stack.
    pub(super) fn nameless_threads(&mut self, count: usize, places: &[Place], cut: Option<&str>) {
        let stack = self.stack(places, cut);
        let state = self.state(stack);
        let room = MOST_SEEN.saturating_sub(self.profile.observations.len());
        for _ in 0..count.min(room) {
            self.observe(&Who::default(), stack, state);
        }
        self.left_out = self.left_out.saturating_add(count.saturating_sub(room));
    }

    /// So many CPU samples of a thread.
    pub(super) fn samples(&mut self, count: usize, who: &Who, places: &[Place]) {
        if self.profile.snapshots.is_empty() {
            self.next_snapshot();
        }
        let stack = self.stack(places, None);
        let innermost = self.profile.stacks[stack as usize].frames.first();
        let innermost = innermost.map(|&at| &self.profile.frames[at as usize]);
        let spin = innermost.and_then(|frame| state::spin(&frame.name, frame.kernel));
        let thread = self.place_of(who);
        for _ in 0..count {
            if self.is_full() {
                return;
            }
            let seen =
                Observation { thread, stack, state: ThreadState::Running, spin, ..Observation::default() };
            self.profile.observations.push(seen);
        }
    }

    fn observe(&mut self, who: &Who, stack: u32, state: ThreadState) {
        if self.is_full() {
            return;
        }
        if self.profile.snapshots.is_empty() {
            self.next_snapshot();
        }
        let snapshot = self.profile.snapshots.len() as u32 - 1;
        self.profile.snapshots[snapshot as usize].threads += 1;
        let thread = self.place_of(who);
        self.profile.observations.push(Observation {
            snapshot,
            thread,
            stack,
            state,
            ..Observation::default()
        });
    }

    fn is_full(&mut self) -> bool {
        let is_full = self.profile.observations.len() >= MOST_SEEN;
        self.left_out += usize::from(is_full);
        is_full
    }

    fn place_of(&mut self, who: &Who) -> u32 {
        let is_known = who.tid != 0 || !who.name.is_empty();
        if let Some(&at) = self.threads.get(who).filter(|_| is_known) {
            return at;
        }
        let at = self.profile.threads.len() as u32;
        let thread = ProfiledThread {
            tid: who.tid,
            name: who.name.clone(),
            thread_pointer: who.pointer,
            ..ProfiledThread::default()
        };
        self.profile.threads.push(thread);
        if is_known {
            self.threads.insert(who.clone(), at);
        }
        at
    }

    fn stack(&mut self, places: &[Place], cut: Option<&str>) -> u32 {
        let frames = places.iter().take(DEEPEST).filter_map(|place| self.frame(place)).collect();
        let end = match cut {
            Some(why) => StackEnd::Cut(why.to_owned()),
            None if places.len() > DEEPEST => StackEnd::Cut(format!("more than {DEEPEST} frames")),
            None if places.last().is_some_and(|last| !is_outermost(last)) => {
                StackEnd::Cut(LEFT_OUT.to_owned())
            }
            None => StackEnd::Root,
        };
        let stack = Stack { frames, end };
        if let Some(&at) = self.stacks.get(&stack) {
            return at;
        }
        let at = self.profile.stacks.len() as u32;
        self.profile.stacks.push(stack.clone());
        self.stacks.insert(stack, at);
        at
    }

    fn frame(&mut self, place: &Place) -> Option<u32> {
        let base = place.module.as_deref().map(base_name).filter(|base| !base.is_empty());
        let name = match (name::short(&place.name), base, place.offset) {
            (Some(name), _, _) => name,
            (None, Some(base), Some(offset)) => format!("{base}+{offset:#x}"),
            (None, _, _) => "[unknown]".to_owned(),
        };
        let module = place.module.as_deref().map(|path| self.module(path));
        let frame = Frame {
            module,
            address: place.offset.unwrap_or(place.address),
            name,
            full_name: None,
            location: place.location.clone(),
            inlined: place.inlined,
            kernel: place.kernel,
        };
        if let Some(&at) = self.frames.get(&frame) {
            return Some(at);
        }
        if self.profile.frames.len() >= MOST_FRAMES {
            return None;
        }
        let at = self.profile.frames.len() as u32;
        self.profile.frames.push(frame.clone());
        self.frames.insert(frame, at);
        Some(at)
    }

    fn module(&mut self, path: &str) -> u32 {
        if let Some(&at) = self.modules.get(path) {
            return at;
        }
        let at = self.profile.modules.len() as u32;
        self.profile.modules.push(Module { path: path.to_owned(), build_id: None });
        self.modules.insert(path.to_owned(), at);
        at
    }

    /// What a thread in this stack did.
    fn state(&self, stack: u32) -> ThreadState {
        let frames = self.profile.stacks[stack as usize].frames.iter();
        let (kernel, user): (Vec<&Frame>, Vec<&Frame>) =
            frames.map(|&at| &self.profile.frames[at as usize]).partition(|frame| frame.kernel);
        let kernel: Vec<&str> = kernel.iter().map(|frame| frame.name.as_str()).collect();
        let user: Vec<&str> = user.iter().map(|frame| frame.name.as_str()).collect();
        state::of_frames(&kernel, &user)
    }

    /// The profile, with the server's name where frames or threads show it, and a note where some were left out.
    pub(super) fn finish(mut self) -> Profile {
        let names = self.profile.modules.iter().map(|module| base_name(&module.path));
        let names = names.chain(self.profile.threads.iter().map(|thread| thread.name.as_str()));
        let server = names.into_iter().find(|name| is_server(name)).map(str::to_owned);
        self.profile.process.name = server.unwrap_or_default();
        if self.without_innermost > 0 {
            let threads = number::counted(self.without_innermost, "thread is", "threads are");
            self.profile.notes.push(format!("{threads} {WITHOUT_INNERMOST}"));
            // A snapshot that shows no thread is none.
            if self.profile.observations.is_empty() {
                self.profile.snapshots.clear();
            }
        }
        if self.left_out > 0 {
            let note = format!(
                "{} more threads or samples are in the text: only {MOST_SEEN} are read",
                self.left_out
            );
            self.profile.notes.push(note);
        }
        self.profile
    }
}

/// The file's name without its folders.
pub(super) fn base_name(path: &str) -> &str {
    path.trim_end_matches(" (deleted)").rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The program of a server.
pub(crate) fn is_server(program: &str) -> bool {
    ["mysqld", "mariadbd", "mysqld-debug", "mysqld_debug", "mysqld.bin"].contains(&program)
}
