//! The process that is looked at, `target.c`, and what tests ask of a snapshot.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use spindoctor_model::stack::StackSource;
use spindoctor_stacks::Result;
use spindoctor_stacks::capture::{Capture, RawSnapshot, RawThread, open};
use tempfile::TempDir;

/// For what must come, on a machine however busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A program, `target.c` mostly, built in a folder of its own, which any user may enter.
pub(crate) struct Program {
    folder: TempDir,
}

impl Program {
    pub(crate) fn build(compiler: &str, option: &str) -> Self {
        Self::build_from(compiler, option, "target.c")
    }

    pub(crate) fn build_from(compiler: &str, option: &str, source: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("spindoctor-target").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let program = Self { folder };
        let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/capture")).join(source);
        let mut compile = Command::new(compiler);
        compile.args(["-O1", "-g", option, "-o"]).arg(program.path()).arg(source);
        assert!(compile.status().unwrap().success());
        program
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("target")
    }
}

pub(crate) struct Target {
    pub(crate) program: Program,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Target {
    pub(crate) fn start(mode: &str) -> Self {
        let program = Program::build("cc", "-pthread");
        let mut command = Command::new(program.path());
        Self::run(program, command.arg(mode))
    }

    /// Starts a command that runs the program.
    pub(crate) fn run(program: Program, command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self { program, stdin: child.stdin.take(), stdout, child };
        assert_eq!(target.line(), "ready");
        target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Its count, after what `command` does.
    pub(crate) fn ask(&mut self, command: &str) -> u64 {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
        self.line().parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: it needs root");
    }
    root
}

/// The sources that this user can take: all of them only as root.
pub(crate) fn sources() -> Vec<StackSource> {
    let mut sources = vec![StackSource::Procfs, StackSource::Ptrace];
    match rustix::process::geteuid().is_root() {
        // The first: it alone knows where a stack ends. Behind that the kernel notes on which CPU the thread runs (rseq).
        true => sources.insert(0, StackSource::Bpf),
        false => println!("without bpf: it needs root"),
    }
    sources
}

pub(crate) fn open_by_name(pid: u32, source: StackSource) -> Box<dyn Capture> {
    open(pid, Some(source)).unwrap().0
}

pub(crate) fn named<'a>(snapshot: &'a RawSnapshot, name: &str) -> Vec<&'a RawThread> {
    snapshot.threads.iter().filter(|thread| thread.name.starts_with(name)).collect()
}

/// Snapshots until one is as wanted: a thread that was just woken needs a moment.
pub(crate) fn snapshot_where(
    capture: &mut dyn Capture,
    wanted: impl Fn(&RawSnapshot) -> bool,
) -> RawSnapshot {
    let start = Instant::now();
    loop {
        let snapshot = capture.snapshot().unwrap();
        if wanted(&snapshot) {
            return snapshot;
        }
        assert!(start.elapsed() < PATIENCE, "never as wanted: {snapshot:?}");
    }
}

/// Waits for something that another process does.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The state letter of a thread, as `/proc` has it.
pub(crate) fn state_of(pid: u32, tid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// The ids of its threads.
pub(crate) fn tasks(pid: u32) -> Vec<u32> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    folder.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}

pub(crate) fn is_traced(pid: u32, tid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap();
    !status.contains("TracerPid:\t0\n")
}

pub(crate) fn refusal<T>(opened: Result<T>) -> String {
    let said = opened.err().expect("it was opened").to_string();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// The variable that names the process to look at.
pub(crate) const TARGET: &str = "SPINDOCTOR_TEST_TARGET";

/// This program again, with one of its tests that are not run by themselves, where any user may run it.
pub(crate) fn again(test: &str, target: &Target) -> Command {
    let copy = target.program.path().with_file_name("tests");
    if !copy.exists() {
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    }
    let mut command = Command::new(copy);
    command.args(["--ignored", "--exact", "--nocapture"]).arg(test);
    command.env(TARGET, target.pid().to_string()).stdin(Stdio::null());
    command
}

/// A command that runs another one.
pub(crate) fn wrap<'a>(outer: &'a mut Command, inner: &Command) -> &'a mut Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
}

pub(crate) fn said_by(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines().filter_map(|line| line.strip_prefix("said ")).map(str::to_owned).collect()
}

pub(crate) fn target_of_environment() -> u32 {
    std::env::var(TARGET).expect("a test starts this").parse().unwrap()
}
