//! A profile: what every thread of a process did, at many instants or in many CPU samples.
//!
//! Everything that repeats is kept once and named by its place in a list: modules, frames, stacks,
//! threads, activities. An observation ties them together. A profile is what `stacks` saves and what
//! each of its formats is rendered from, now or later.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};

use crate::Machine;
use crate::wait_graph::FutexWait;

/// The schema that a saved profile names.
pub const PROFILE_SCHEMA: &str = "spindoctor.profile/1";

/// No time of a profile is longer than thirty years, in seconds: beyond it, sums of microseconds would overflow.
const LONGEST_S: f64 = 1e9;
/// Neither snapshots nor CPU samples are taken more often, hertz.
const MOST_HZ: f64 = 1e6;

/// Functions whose code a profile has, and bytes of the largest: nobody decodes more of a file from anywhere.
const MOST_CODE: usize = 16;
const LARGEST_CODE: usize = 64 << 10;

/// Observations of one process, and what taking them cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Whose threads these are.
    pub process: ProfiledProcess,
    /// Which source took the snapshots.
    pub source: StackSource,
    /// When the first snapshot was begun.
    pub start: Timestamp,
    /// From the beginning of the first snapshot to the end of the last, seconds.
    pub seconds: f64,
    /// What was asked for: snapshots, or CPU samples of each thread, a second.
    pub hz: f64,
    /// The server's threads, each once.
    pub threads: Vec<ProfiledThread>,
    /// What the threads did for their clients, each once.
    pub activities: Vec<Activity>,
    /// Files that frames lie in.
    pub modules: Vec<Module>,
    /// Places in code.
    pub frames: Vec<Frame>,
    /// Ways to get there.
    pub stacks: Vec<Stack>,
    /// Each time that threads were looked at: one for a snapshot, one for each reading of CPU samples.
    pub snapshots: Vec<SnapshotCost>,
    /// Who was seen where, in order of time. CPU samples where the source is [`StackSource::Cpu`].
    pub observations: Vec<Observation>,
    /// CPU samples that were taken beside the snapshots, in order of time: what ran, and where it span. Each names
    /// the snapshot that it was read with. Empty where the source is [`StackSource::Cpu`].
    pub cpu_samples: Vec<Observation>,
    /// Machine code of the functions in which most CPU samples are; empty in files of before 2026-11-26.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<Code>,
    /// Threads that waited for locks of the C library, where somebody asked for them: as of the last snapshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub futex_waits: Vec<FutexWait>,
    /// Such waits that were over before the locks were read: they are not in the list.
    pub futex_moved_on: u64,
    /// CPU time of the profiler itself, microseconds, names and unwinding included.
    pub own_cpu_us: u64,
    /// CPU time that the process used meanwhile, microseconds: what CPU samples stand for.
    pub process_cpu_us: u64,
    /// The machine that it ran on; empty in files of before 2026-11-26.
    pub machine: Machine,
    /// What the server did for its clients meanwhile; none where its counters could not be read twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Cycles and instructions that its CPUs counted meanwhile; none where they could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<CycleCount>,
    /// Why they could not; none where they did, and where nobody tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Statements that the server was asked meanwhile: what its threads do, whether the trigger fires.
    pub server_queries: u64,
    /// From question to last row, summed over them, milliseconds.
    pub server_busy_ms: f64,
    /// What a reader must know: a source that was preferred and could not be used, and why.
    pub notes: Vec<String>,
}

impl Profile {
    /// True for stacks that another tool took and wrote down: nobody asked for so many a second.
    pub fn is_of_a_text(&self) -> bool {
        self.hz == 0.0 && self.source != StackSource::Bpf
    }

    /// Whether every reader may trust it, wherever it came from: each place in a list that it names is there, and its times and
    /// rates can be summed and divided without a thought.
    ///
    /// # Errors
    /// What is wrong, in words that follow "it is damaged".
    pub fn check(&self) -> Result<(), &'static str> {
        if !self.names_only_what_is_there() {
            return Err("it names something that is not in it");
        }
        if !self.is_of_this_world() {
            return Err("it has a time or a rate that cannot be");
        }
        Ok(())
    }

    fn names_only_what_is_there(&self) -> bool {
        let within = |at: u32, len: usize| (at as usize) < len;
        self.code.iter().all(|code| within(code.module, self.modules.len()))
            && self
                .frames
                .iter()
                .all(|frame| frame.module.is_none_or(|module| within(module, self.modules.len())))
            && self.stacks.iter().all(|stack| stack.frames.iter().all(|at| within(*at, self.frames.len())))
            && self.observations.iter().chain(&self.cpu_samples).all(|seen| {
                within(seen.thread, self.threads.len())
                    && within(seen.stack, self.stacks.len())
                    && within(seen.snapshot, self.snapshots.len())
                    && seen.activity.is_none_or(|activity| within(activity, self.activities.len()))
            })
    }

    fn is_of_this_world(&self) -> bool {
        let longest_us = (LONGEST_S * 1e6) as u64;
        (0.0..=LONGEST_S).contains(&self.seconds)
            && (0.0..=MOST_HZ).contains(&self.hz)
            && (0.0..=LONGEST_S * 1e3).contains(&self.server_busy_ms)
            && self.code.len() <= MOST_CODE
            && self.code.iter().all(|code| code.size() <= LARGEST_CODE)
            && self.work.as_ref().is_none_or(|work| (0.0..=LONGEST_S).contains(&work.seconds))
            && self.cycles.as_ref().is_none_or(|cycles| (0.0..=LONGEST_S).contains(&cycles.seconds))
            && self.own_cpu_us <= longest_us
            // A thousand CPUs use more than one second in a second.
            && self.process_cpu_us / 1_000 <= longest_us
            && self.snapshots.iter().all(|cost| {
                [cost.at_us, cost.capture_us, cost.snapshot_us, cost.stopped_us]
                    .iter()
                    .all(|us| *us <= longest_us)
            })
            && self.snapshots.iter().try_fold(0_u64, |sum, cost| sum.checked_add(cost.stopped_us)).is_some()
    }

    /// CPU cycles of the process for each statement of its clients.
    pub fn cycles_per_query(&self) -> Option<f64> {
        let cycles_per_s = ratio(self.cycles.as_ref()?.cycles as f64, self.cycles.as_ref()?.seconds)?;
        ratio(cycles_per_s, self.work.as_ref()?.queries_per_s()?)
    }

    /// The CPU samples, wherever they are.
    pub fn samples(&self) -> &[Observation] {
        if self.source == StackSource::Cpu { &self.observations } else { &self.cpu_samples }
    }
}

/// What a server did for its clients between two readings of its counters.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// From the one reading to the other, seconds.
    pub seconds: f64,
    /// Statements of clients meanwhile (`Questions`), without spindoctor's own.
    pub queries: u64,
    /// CPU time that the process used meanwhile, microseconds, where it could be read.
    pub cpu_us: Option<u64>,
}

impl Work {
    /// Statements a second; none where there was no time.
    pub fn queries_per_s(&self) -> Option<f64> {
        ratio(self.queries as f64, self.seconds)
    }

    /// CPU time for each statement, microseconds; none where there was no statement.
    pub fn cpu_us_per_query(&self) -> Option<f64> {
        ratio(self.cpu_us? as f64, self.queries as f64)
    }
}

/// What the CPUs counted of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CycleCount {
    /// For how long, seconds.
    pub seconds: f64,
    /// Cycles on a CPU, in the process and in the kernel for it.
    pub cycles: u64,
    /// Instructions, likewise.
    pub instructions: u64,
}

impl CycleCount {
    /// Cycles for each instruction (CPI); none where there was none.
    pub fn per_instruction(&self) -> Option<f64> {
        ratio(self.cycles as f64, self.instructions as f64)
    }
}

/// A quotient; none where it is no number.
fn ratio(of: f64, by: f64) -> Option<f64> {
    Some(of / by).filter(|ratio| ratio.is_finite())
}

/// The process of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfiledProcess {
    /// Its id, in the profiler's pid namespace.
    pub pid: u32,
    /// `comm`.
    pub name: String,
    /// The program, as the process names it.
    pub program: String,
    /// What it says it is: `MySQL 9.7.4 on db17`; empty where nobody asked.
    pub server: String,
}

/// How threads were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StackSource {
    /// A sleepable BPF task iterator: no thread stopped.
    #[default]
    Bpf,
    /// `/proc/PID/task/TID/syscall` and `process_vm_readv`: no thread stopped, blocked threads only.
    Procfs,
    /// ptrace: each thread stopped in turn.
    Ptrace,
    /// perf_event: samples of what runs on a CPU, no thread stopped.
    Cpu,
}

/// By the name that it has in JSON: `bpf`.
impl FromStr for StackSource {
    type Err = serde::de::value::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::deserialize(name.into_deserializer())
    }
}

/// The same name.
impl fmt::Display for StackSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The machine code of one function.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Code {
    /// Place in [`Profile::modules`].
    pub module: u32,
    /// Where it begins: virtual address in the module's file.
    pub address: u64,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// Its bytes, two hexadecimal digits each.
    hex: String,
}

impl Code {
    /// A function's code.
    pub fn new(module: u32, address: u64, architecture: &str, bytes: &[u8]) -> Self {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { module, address, architecture: architecture.to_owned(), hex }
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.hex.len() / 2
    }

    /// Its bytes, up to the first that is none.
    pub fn bytes(&self) -> Vec<u8> {
        let digits = self.hex.as_bytes().chunks_exact(2);
        digits.map_while(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
    }
}

/// A thread that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfiledThread {
    /// Thread id, in the profiler's pid namespace.
    pub tid: u32,
    /// `comm` of the thread.
    pub name: String,
    /// What `pthread_self()` gives in it, where the source of the last snapshot knows it: SEMAPHORES names threads so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_pointer: Option<u64>,
    /// For how long it had been on no CPU at the last snapshot, microseconds, where the source knows it: it has waited
    /// that long for what it waits for, or longer where it was woken in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_cpu_us: Option<u64>,
}

/// What a thread did for a client: as MySQL knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// The connection.
    pub connection_id: Option<u64>,
    /// Its account's user.
    pub user: Option<String>,
    /// Its client's host.
    pub host: Option<String>,
    /// Its default database.
    pub database: Option<String>,
    /// `Query`, `Sleep`.
    pub command: Option<String>,
    /// `Opening tables`, as the processlist says it.
    pub state: Option<String>,
    /// The statement, with its literals.
    pub statement: Option<String>,
    /// The statement without its literals.
    pub digest_text: Option<String>,
}

/// A file that is mapped into the process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// As the process names it; `[vdso]`; `[kernel]`.
    pub path: String,
    /// GNU build id, hexadecimal.
    pub build_id: Option<String>,
}

/// A place in code. A call that the compiler inlined is a frame of its own, with its caller's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// In which module; none where nothing is mapped, or where code was made at run time.
    pub module: Option<u32>,
    /// Virtual address in the module's file (kernel: absolute).
    pub address: u64,
    /// What to show: a demangled name in its short form, `mysqld+0x2a68b1d`, or `[unknown]`.
    pub name: String,
    /// The whole demangled name, where it differs.
    pub full_name: Option<String>,
    /// The source file and line, where debug information has it.
    pub location: Option<(String, u32)>,
    /// True where this is an inlined call.
    pub inlined: bool,
    /// True in the kernel.
    pub kernel: bool,
}

/// Frames from the innermost outwards, and how the walk ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stack {
    /// Places in [`Profile::frames`], innermost first.
    pub frames: Vec<u32>,
    /// How the walk ended.
    pub end: StackEnd,
}

/// How the walk of a stack ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackEnd {
    /// At the thread's first function.
    #[default]
    Root,
    /// Somewhere on the way, and why: `copied 64 KiB of the stack`, `no unwind information at ...`.
    Cut(String),
    /// There is no stack: the thread ran, or ended, and why nothing better is known.
    None(String),
}

/// What a thread was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// On a CPU.
    Running,
    /// Ready to run, waiting for a CPU.
    Runnable,
    /// Waiting for a lock of the server: a mutex, a latch, a metadata or row lock.
    Lock,
    /// Waiting on a condition variable for work or for an event.
    Condition,
    /// Waiting on a futex of unknown purpose.
    Futex,
    /// Reading a disk.
    DiskRead,
    /// Writing a disk.
    DiskWrite,
    /// In fsync or fdatasync.
    Sync,
    /// Waiting for a client or a peer.
    NetworkIdle,
    /// In poll, select or epoll for several of them.
    Epoll,
    /// In nanosleep or its like.
    Sleep,
    /// Stopped by a signal, a debugger or the freezer.
    Stopped,
    /// Blocked somewhere else in the kernel.
    #[default]
    Blocked,
}

impl ThreadState {
    /// True for a thread that waits for another one.
    pub fn waits_for_another(self) -> bool {
        matches!(self, Self::Lock | Self::Condition | Self::Futex | Self::Blocked)
    }
}

/// Where a CPU sample burnt time instead of working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spin {
    /// In a spin-wait loop of the process.
    User,
    /// In the kernel's queued spin lock.
    Kernel,
}

/// One thread at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Place in [`Profile::snapshots`].
    pub snapshot: u32,
    /// Place in [`Profile::threads`].
    pub thread: u32,
    /// Place in [`Profile::stacks`].
    pub stack: u32,
    /// What it was doing.
    pub state: ThreadState,
    /// CPU samples only: whether it was spinning.
    pub spin: Option<Spin>,
    /// Place in [`Profile::activities`].
    pub activity: Option<u32>,
    /// True where it was on no CPU since the snapshot before: it still waits for the same. False where it was, and where the source
    /// does not know.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unmoved: bool,
}

/// What one snapshot took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotCost {
    /// When it was begun: microseconds from the start of the profile.
    pub at_us: u64,
    /// Reading threads and copying stacks, microseconds.
    pub capture_us: u64,
    /// Capture, unwinding and names, microseconds.
    pub snapshot_us: u64,
    /// Threads seen.
    pub threads: u32,
    /// Threads or samples that were lost, and not seen.
    pub dropped: u32,
    /// Threads whose stack was taken over from the snapshot before: they had not moved.
    pub unmoved: u32,
    /// Threads that were stopped for it.
    pub stopped: u32,
    /// For how long all of them together were stopped, microseconds.
    pub stopped_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_query_costs_is_known_where_there_were_queries() {
        let work = Work { seconds: 2.0, queries: 1_000, cpu_us: Some(500_000) };
        let profile = Profile {
            work: Some(work),
            cycles: Some(CycleCount { seconds: 4.0, cycles: 8_000_000, instructions: 2_000_000 }),
            ..Profile::default()
        };
        assert_eq!((work.queries_per_s(), work.cpu_us_per_query()), (Some(500.0), Some(500.0)));
        assert_eq!(profile.cycles_per_query(), Some(4_000.0));
        assert_eq!(profile.cycles.unwrap().per_instruction(), Some(4.0));
        let idle = Work { queries: 0, ..work };
        assert_eq!((idle.queries_per_s(), idle.cpu_us_per_query()), (Some(0.0), None));
        assert_eq!(Profile { work: Some(idle), ..profile }.cycles_per_query(), None);
    }

    #[test]
    fn a_profile_of_before_reads_without_machine_and_work() {
        let mut old = serde_json::to_value(Profile::default()).unwrap();
        assert!(old.as_object_mut().unwrap().remove("machine").is_some());
        assert_eq!(serde_json::from_value::<Profile>(old).unwrap(), Profile::default());
    }

    #[test]
    fn code_is_kept_as_it_was_and_a_crafted_one_is_bounded() {
        let code = Code::new(0, 0x1000, "x86_64", &[0xf3, 0x90, 0x00]);
        assert_eq!((code.size(), code.bytes()), (3, vec![0xf3, 0x90, 0x00]));
        let crafted = |hex: &str| Code { hex: hex.to_owned(), ..code.clone() };
        assert_eq!(crafted("f3zz90").bytes(), [0xf3]);
        assert_eq!(crafted("f\u{e9}\u{e9}0").bytes(), [] as [u8; 0]);
        let profile =
            |code: Code| Profile { modules: vec![Module::default()], code: vec![code], ..Profile::default() };
        assert_eq!(profile(code.clone()).check(), Ok(()));
        assert!(profile(crafted(&"00".repeat(LARGEST_CODE + 1))).check().is_err());
        assert!(profile(Code { module: 1, ..code }).check().is_err());
    }

    #[test]
    fn a_source_is_known_by_the_name_that_it_is_written_with() {
        assert_eq!("procfs".parse(), Ok(StackSource::Procfs));
        assert_eq!(StackSource::Procfs.to_string(), "procfs");
        assert!("perf".parse::<StackSource>().is_err());
    }
}
