//! Where the accepting thread's time goes: as the kernel and samples gave it, and as it adds up.
//!
//! One thread of a server takes every new connection in. [`ThreadTime`] is what was read of it; [`AcceptTime`] what
//! that means.

use serde::{Deserialize, Serialize};

use crate::stack::Profile;

/// One thread's time over some seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadTime {
    /// Thread id, in the profiler's pid namespace.
    pub tid: u32,
    /// From the first instant to the last, seconds.
    pub seconds: f64,
    /// In each system call.
    pub calls: Vec<CallTime>,
    /// Outside of system calls, nanoseconds.
    pub outside_ns: u64,
    /// CPU time, nanoseconds, where the kernel counts it (`/proc/PID/task/TID/schedstat`).
    pub cpu_ns: Option<u64>,
    /// Ready to run and waiting for a CPU, nanoseconds; part of the other numbers.
    pub run_queue_ns: Option<u64>,
    /// CPU samples of this thread alone: what it does outside of system calls. None where they cannot be had.
    pub profile: Option<Profile>,
    /// How often threads of the machine passed the counted places.
    pub passes: u64,
    /// CPU time that this cost them all, milliseconds.
    pub passes_cpu_ms: f64,
    /// What a reader must know: it ended early, because it cost too much.
    pub notes: Vec<String>,
}

/// A thread's time in one system call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallTime {
    /// `accept4`; futex is `futex wait` or `futex wake`.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// How many of them failed: an accept that found nobody, a wait whose value had changed.
    pub failed: u64,
    /// In it, nanoseconds.
    pub ns: u64,
    /// How many of them gave the CPU away: they waited for something.
    pub slept: u64,
    /// In those, nanoseconds.
    pub slept_ns: u64,
}

/// What an accepting thread does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptPart {
    /// A system call that is none of the others.
    SystemCall,
    /// Waiting for a mutex, taking one, giving it back.
    Mutex,
    /// Giving the connection to a thread that sleeps: a wake-up.
    HandOver,
    /// Making a thread for the connection.
    ThreadCreation,
    /// Taking memory and giving it back.
    Allocation,
    /// Putting together what the server knows of a connection.
    SessionSetUp,
    /// The rest of the accepting loop, in functions that have names.
    Loop,
    /// Code without a name, and time of which there is no sample.
    Unknown,
}

impl AcceptPart {
    /// As people read it.
    pub fn title(self) -> &'static str {
        match self {
            Self::SystemCall => "system calls",
            Self::Mutex => "mutexes",
            Self::HandOver => "hand-over to a thread",
            Self::ThreadCreation => "thread creation",
            Self::Allocation => "allocation",
            Self::SessionSetUp => "session set-up",
            Self::Loop => "rest of the loop",
            Self::Unknown => "not known",
        }
    }
}

/// A line of the account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcceptRow {
    /// Which part of the work it belongs to.
    pub part: AcceptPart,
    /// The system call, or the function.
    pub name: String,
    /// How often, where that was counted; samples count no calls.
    pub calls: Option<u64>,
    /// How many of those failed.
    pub failed: Option<u64>,
    /// Time, milliseconds.
    pub ms: f64,
    /// Of the time in which the thread did not wait for clients.
    pub share: f64,
}

/// The account of an accepting thread: its busy time by what it did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AcceptTime {
    /// The thread.
    pub tid: u32,
    /// Seconds that are accounted.
    pub seconds: f64,
    /// Connections that it accepted meanwhile.
    pub accepted: u64,
    /// Calls of accept that took nobody in.
    pub accepts_failed: u64,
    /// Share of the time in which it did not wait for clients.
    pub busy_ratio: f64,
    /// CPU of one, as the kernel counts it.
    pub cpu_ratio: Option<f64>,
    /// Share of the time in which it was ready and had no CPU.
    pub run_queue_ratio: Option<f64>,
    /// Busy time for each connection, microseconds.
    pub us_each: Option<f64>,
    /// Share of its busy time that has a name here.
    pub accounted_ratio: f64,
    /// CPU samples outside of system calls: the rows that are not a system call come from them.
    pub samples: u64,
    /// The parts of its busy time, the largest first within each part of the work.
    pub rows: Vec<AcceptRow>,
    /// System calls of the machine that were counted in passing, both ends of each.
    pub passes: u64,
    /// What that cost all of its threads together, milliseconds of CPU.
    pub passes_cpu_ms: f64,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl AcceptTime {
    /// The parts of the work in the order of what they take, each with its share.
    pub fn parts(&self) -> Vec<(AcceptPart, f64)> {
        let mut parts: Vec<(AcceptPart, f64)> = Vec::new();
        for row in &self.rows {
            match parts.iter_mut().find(|(part, _)| *part == row.part) {
                Some((_, share)) => *share += row.share,
                None => parts.push((row.part, row.share)),
            }
        }
        parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        parts
    }
}
