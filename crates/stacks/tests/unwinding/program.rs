//! Programs that cc compiles, which wait in known places; and their stacks, walked and named.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::WaitOptions;
use spindoctor_model::stack::{Frame, StackEnd};
use spindoctor_stacks::capture::tracee::Tracee;
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::names::Names;
use spindoctor_stacks::process_memory;
use spindoctor_stacks::registers::Registers;
use spindoctor_stacks::unwind::{Copied, Unwinder};

pub(crate) const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

/// A folder with a compiled program in it.
pub(crate) struct Built {
    pub(crate) folder: tempfile::TempDir,
}

impl Built {
    pub(crate) fn with(flags: &[&str]) -> Self {
        let built = Self { folder: tempfile::tempdir().unwrap() };
        let source = Path::new(SOURCES).join("program.c");
        built.run("cc", &[&["-o", "program", source.to_str().unwrap()], flags].concat());
        built
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let status = Command::new(program).args(arguments).current_dir(self.folder.path()).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}: {status}");
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// Runs a command that runs the program.
    pub(crate) fn start_with(&self, command: &mut Command) -> Running {
        let mut child = command
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        wait_until_ready(&mut output);
        Running { pid: child.id(), child, output }
    }

    /// A program that waits where its argument says.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let running = self.start_with(Command::new(self.path()).args(arguments));
        running.wait_until_asleep();
        running
    }
}

pub(crate) fn wait_until_ready(output: &mut impl BufRead) {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

/// A program that is ended with its test.
pub(crate) struct Running {
    /// The program itself, where the child is what started it.
    pub(crate) pid: u32,
    pub(crate) child: Child,
    pub(crate) output: BufReader<std::process::ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a thread had when it was stopped for a moment.
pub(crate) struct Stopped {
    pub(crate) registers: Registers,
    pub(crate) stack: Vec<u8>,
}

impl Running {
    /// It says that it is ready just before it waits.
    pub(crate) fn wait_until_asleep(&self) {
        loop {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
            match stat.rsplit_once(") ").unwrap().1.chars().next() {
                Some('S') => break,
                Some('R' | 'D') => std::thread::yield_now(),
                _ => panic!("{stat}"),
            }
        }
    }

    pub(crate) fn hold(&self) -> Tracee {
        let held = Tracee::seize(self.pid).unwrap();
        held.interrupt().unwrap();
        held.wait(WaitOptions::empty()).unwrap();
        held
    }

    pub(crate) fn stop(&self) -> Stopped {
        let held = self.hold();
        let stopped = self.read(&held);
        held.detach(0).unwrap();
        stopped
    }

    /// What it has while it is held.
    pub(crate) fn read(&self, held: &Tracee) -> Stopped {
        let (registers, _thread_pointer) = held.registers().unwrap();
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        let end = maps
            .lines()
            .filter_map(|line| u64::from_str_radix(line.split_once('-')?.1.split_once(' ')?.0, 16).ok())
            .find(|&end| end > registers.sp)
            .unwrap();
        let mut stack = vec![0; usize::try_from(end - registers.sp).unwrap()];
        let read = process_memory::read(self.pid, registers.sp, &mut stack).unwrap();
        assert_eq!(read, stack.len());
        Stopped { registers, stack }
    }

    pub(crate) fn walk(&self) -> Walked {
        Walked::new(&mut Modules::of_process(self.pid).unwrap(), &self.stop())
    }
}

/// A stack, walked and named.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) addresses: Vec<u64>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: StackEnd,
    pub(crate) interrupted: Vec<usize>,
}

impl Walked {
    pub(crate) fn new(modules: &mut Modules, stopped: &Stopped) -> Self {
        Self::with(modules, stopped, &mut Names::new())
    }

    pub(crate) fn with(modules: &mut Modules, stopped: &Stopped, names: &mut Names) -> Self {
        let mut unwinder = Unwinder::new();
        let mut addresses = Vec::new();
        let Stopped { registers, stack } = stopped;
        let stack = Copied { start: registers.sp, bytes: stack, whole: true };
        let end = unwinder.walk(modules, registers, stack, &mut addresses);
        let interrupted = unwinder.interrupted().to_vec();
        let mut frames = Vec::new();
        for (index, &address) in addresses.iter().enumerate() {
            let is_return = index > 0 && !interrupted.contains(&index);
            frames.extend_from_slice(names.frames(modules, address, is_return));
        }
        Self { addresses, frames, end, interrupted }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.frames.iter().map(|frame| frame.name.as_str()).collect()
    }

    /// The names from the one on, as far as `expected` goes.
    pub(crate) fn assert_calls(&self, expected: &[&str]) {
        let names = self.names();
        let from = names.iter().position(|name| name == &expected[0]).unwrap_or_else(|| panic!("{self:#?}"));
        assert_eq!(names[from..].get(..expected.len()), Some(expected), "{names:?}");
        assert_eq!(self.end, StackEnd::Root, "{names:?}");
        assert_eq!(names.last(), Some(&"_start"), "{names:?}");
    }

    pub(crate) fn frame(&self, name: &str) -> &Frame {
        self.frames
            .iter()
            .find(|frame| frame.name == name)
            .unwrap_or_else(|| panic!("{name}: {:?}", self.names()))
    }
}
