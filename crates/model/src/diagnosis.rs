//! A diagnosis: the result of `spindoctor doctor`. Serialised, it is the public schema `spindoctor.diagnosis/1`: fields
//! may be added, none is renamed or removed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::host::Quota;
use crate::interruption::Interruption;
use crate::server::Flavor;
use crate::session_time::SessionTime;

/// Name and version of the serialised form.
pub const SCHEMA: &str = "spindoctor.diagnosis/1";

/// The whole diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// The server.
    pub server: DiagnosedServer,
    /// Its host; fields are null where the host could not be read.
    pub host: DiagnosedHost,
    /// The window.
    pub window: DiagnosedWindow,
    /// What the diagnosis is made of, where it is of captures and not of a server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<GivenDocument>,
    /// The time from which the window shows nothing more of the server, because it ended, hung or restarted.
    #[serde(default)]
    pub interrupted: Option<Interruption>,
    /// What it cost.
    pub cost: Cost,
    /// What stacks and CPU samples say in sum; null where none were taken.
    #[serde(default)]
    pub profile: Option<DiagnosedProfile>,
    /// Where the time of the sessions at work goes; null where neither stacks nor the process list were read.
    #[serde(default)]
    pub time: Option<SessionTime>,
    /// Findings, the costliest first.
    pub findings: Vec<Finding>,
    /// Causes that were examined and not found, in catalogue order.
    pub clear: Vec<String>,
    /// Causes that could not be examined, in catalogue order.
    pub not_examined: Vec<NotExamined>,
}

/// A document that somebody captured, as it was recognised.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GivenDocument {
    /// The file that it is in; `-` for the standard input.
    pub file: String,
    /// What it is, in words: `InnoDB status`; `not recognised`.
    pub kind: String,
    /// Whether it was recognised.
    pub is_recognised: bool,
    /// The server's version, where it says so: `MySQL 5.7.21`.
    pub version: Option<String>,
    /// The time that it names, by the server's clock: `2018-02-12T09:52:22`.
    pub time: Option<String>,
    /// How many lines it has.
    pub lines: u64,
    /// What is to be said of it beside the findings.
    pub says: Vec<String>,
    /// Its beginning, where it was not recognised.
    pub begins: String,
}

/// The server, for the head of a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiagnosedServer {
    /// None when the server never answered.
    pub flavor: Option<Flavor>,
    /// `9.7.4`.
    pub version: Option<String>,
    /// Host name as the server says it.
    pub hostname: String,
    /// What was connected to.
    pub address: String,
    /// Process id, where it is on this host.
    pub pid: Option<u32>,
    /// Seconds since start.
    pub uptime_s: Option<u64>,
    /// Threads of the process, or of the thread list.
    pub threads: Option<u64>,
}

/// The host, for the head of a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiagnosedHost {
    /// CPUs that the kernel grants.
    pub effective_cpus: Option<f64>,
    /// CPUs online.
    pub online_cpus: Option<u32>,
    /// CPUs that the server counts.
    pub server_believes_cpus: Option<u32>,
    /// The tightest quota.
    pub quota: Option<Quota>,
    /// PAUSE, nanoseconds.
    pub pause_latency_ns: Option<f64>,
    /// PAUSE, core cycles.
    pub pause_latency_cycles: Option<f64>,
    /// CPU model.
    pub cpu: Option<String>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Why the host was not read, where it was not.
    pub unavailable: Option<String>,
}

/// The window, for the head of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiagnosedWindow {
    /// When it began.
    pub start: Timestamp,
    /// How long it was.
    pub seconds: f64,
}

/// The profile, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiagnosedProfile {
    /// Looks at every thread.
    pub snapshots: u64,
    /// CPU samples.
    pub cpu_samples: u64,
    /// Shares of the CPU samples that lie in spin-wait loops, 0 to 1; null where there are too few samples.
    pub spin: Option<SpinShares>,
}

/// Shares of CPU samples, 0 to 1, by whose spin-wait loop they lie in.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SpinShares {
    /// Commits that wait for the redo log.
    pub commits: f64,
    /// The redo log's own threads.
    pub log_threads: f64,
    /// Latches: InnoDB's mutexes and rw-locks.
    pub latches: f64,
    /// Mutexes of the C library.
    pub mutexes: f64,
    /// The kernel's spin locks.
    pub kernel: f64,
}

impl SpinShares {
    /// All of them together.
    pub fn all(&self) -> f64 {
        self.commits + self.log_threads + self.latches + self.mutexes + self.kernel
    }

    /// Each with its name, the largest first.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        let mut named = [
            ("commits", self.commits),
            ("redo log threads", self.log_threads),
            ("latches", self.latches),
            ("mutexes", self.mutexes),
            ("kernel", self.kernel),
        ];
        named.sort_by(|a, b| b.1.total_cmp(&a.1));
        named
    }
}

/// What the examination cost the server and the host.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Queries sent.
    pub server_queries: u64,
    /// Time from each query to its answer, summed: an upper bound of the server's own time.
    pub server_busy_ms: f64,
    /// spindoctor's own CPU time.
    pub own_cpu_ms: f64,
    /// Threads of the server that were stopped.
    pub threads_stopped: u64,
}

/// A cause that could not be examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExamined {
    /// Name in the catalogue.
    pub cause: String,
    /// Why not.
    pub because: String,
    /// What would unlock it; empty where nothing would.
    pub unlock: String,
}
