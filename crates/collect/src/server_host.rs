//! The server's process on this host: which one it is, and the reading of its host, for a window and for endless sampling
//! alike.
//!
//! In: a [`HostChoice`] and a target. Out: a [`ServerHost`], which reads any source into a sample. When a source is due is
//! the caller's.

use std::path::Path;
use std::time::Instant;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{HostSample, Reading, Unavailable};

use crate::host::process::parse_task_stat;
use crate::host::thread_ids::ThreadIds;
use crate::host::{self, HostChoice, HostSource};
use crate::mysql::Target;

/// The server's process on this host, or why there is none to read.
#[derive(Debug)]
pub(crate) struct ServerHost {
    process: Result<Process, Unavailable>,
}

#[derive(Debug)]
struct Process {
    target: host::Target,
    /// When it started, in ticks since the system's start: with its id that names it for ever.
    started_ticks: Option<u64>,
    ids: ThreadIds,
}

impl ServerHost {
    /// Finds the process: the one that was named, as long as it exists, else the one that listens. `proc` and `sys` stand
    /// for `/proc` and `/sys`.
    pub(crate) fn find(choice: &HostChoice, target: &Target, proc: &Path, sys: &Path) -> Self {
        let process = choice.process(target, proc).map(|pid| {
            let target = host::Target::under(pid, proc, sys);
            let stat = std::fs::read_to_string(target.process("stat")).ok();
            let started_ticks = stat.and_then(|text| Some(parse_task_stat(&text)?.started_ticks));
            Process { ids: ThreadIds::of_process(target.clone()), target, started_ticks }
        });
        Self { process }
    }

    /// Its id, or why there is none.
    pub(crate) fn pid(&self) -> Result<u32, Unavailable> {
        self.process.as_ref().map(|process| process.target.pid).map_err(Clone::clone)
    }

    /// What sources read of it; none where there is no process.
    pub(crate) fn target(&self) -> Option<&host::Target> {
        self.process.as_ref().ok().map(|process| &process.target)
    }

    /// True where this is the same process, or where neither is known.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.name() == other.name()
    }

    /// True where both are known, and are two.
    pub(crate) fn is_other(&self, other: &Self) -> bool {
        self.name().is_some() && other.name().is_some() && !self.is_same(other)
    }

    fn name(&self) -> Option<(u32, Option<u64>)> {
        self.process.as_ref().ok().map(|process| (process.target.pid, process.started_ticks))
    }

    /// Reads a source into the sample; how long that took is in the reading. Nothing where there is no process.
    pub(crate) fn read(&self, source: &HostSource, origin: Instant, sample: &mut HostSample) {
        if let Some(target) = self.target() {
            source.read_into(sample, target, origin);
        }
    }

    /// The sample of a host that cannot be read; none where it can.
    pub(crate) fn unavailable(&self) -> Option<HostSample> {
        self.process.as_ref().err().map(HostSample::unavailable)
    }

    /// Gives the server's threads the ids that they have here.
    pub(crate) fn rename(&mut self, threads: &mut Reading<Vec<ServerThread>>) {
        if let (Ok(process), Reading::Available { value, .. }) = (&mut self.process, threads) {
            process.ids.rename(value);
        }
    }
}
