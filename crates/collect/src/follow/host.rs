//! The host's half: whose process is looked at, and the reading of what is due.

use std::time::Instant;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{HostSample, Reading, Unavailable};

use super::FollowOptions;
use super::identity::started_ticks;
use crate::host::thread_ids::ThreadIds;
use crate::host::{self, HostSource};
use crate::mysql::Target;

/// The server's process on this host, or why there is none to look at.
#[derive(Debug)]
pub(super) struct Host {
    process: Result<Process, Unavailable>,
}

#[derive(Debug)]
struct Process {
    target: host::Target,
    started_ticks: Option<u64>,
    ids: ThreadIds,
}

impl Host {
    /// Looks for the process: the one that was named, as long as it is there, else the one that listens.
    pub(super) fn find(options: &FollowOptions, target: &Target) -> Self {
        let process = options.host.process(target, &options.proc).map(|pid| {
            let target = host::Target::under(pid, &options.proc, &options.sys);
            let started_ticks = started_ticks(&options.proc, pid);
            Process { ids: ThreadIds::of_process(target.clone()), target, started_ticks }
        });
        Self { process }
    }

    /// Its id, or why there is none.
    pub(super) fn pid(&self) -> Result<u32, Unavailable> {
        self.process.as_ref().map(|process| process.target.pid).map_err(Clone::clone)
    }

    /// True where this is the same process, or where neither is known.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name() == other.name()
    }

    /// True where both are known, and are two.
    pub(super) fn is_other(&self, other: &Self) -> bool {
        self.name().is_some() && other.name().is_some() && !self.is_same(other)
    }

    fn name(&self) -> Option<(u32, Option<u64>)> {
        self.process.as_ref().ok().map(|process| (process.target.pid, process.started_ticks))
    }

    /// Reads a source into the sample; how long that took is in the reading.
    pub(super) fn read(&self, source: &HostSource, origin: Instant, sample: &mut HostSample) {
        let Ok(Process { target, .. }) = &self.process else { return };
        source.read_into(sample, target, origin);
    }

    /// The sample of a host that cannot be read; none where it can.
    pub(super) fn unavailable(&self) -> Option<HostSample> {
        self.process.as_ref().err().map(HostSample::unavailable)
    }

    /// Gives the server's threads the ids that they have here.
    pub(super) fn rename(&mut self, threads: &mut Reading<Vec<ServerThread>>) {
        if let (Ok(process), Reading::Available { value, .. }) = (&mut self.process, threads) {
            process.ids.rename(value);
        }
    }
}
