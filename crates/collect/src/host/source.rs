//! The declaration of a source of the host: a name and a reader under root folders that a test can replace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use spindoctor_model::{HostSample, Reading, Unavailable};

use super::cgroup::{Mount, parse_mountinfo};
use super::cpu_list::CpuSet;
use super::kernel_file;
use super::{disk_users, other_programs};
use crate::pace::Pace;
use crate::source::{Answer, Cadence};

/// Whose host is read, and under which folders: `/proc` and `/sys`, or fixtures in their place.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server's process id, as numbered in `proc`.
    pub pid: u32,
    /// Stands for `/proc`.
    pub proc: PathBuf,
    /// Stands for `/sys`.
    pub sys: PathBuf,
    /// Where cgroup file systems are mounted, as it was read last.
    mounts: Arc<Mutex<Option<Mounts>>>,
    /// The CPUs that the server may run on, as its status said when that was read last.
    allowed: Arc<Mutex<Option<CpuSet>>>,
    /// What the host's other programs had used when that was read last.
    programs: Arc<Mutex<Option<other_programs::Before>>>,
    /// What they had read and written when that was read last.
    disk_users: Arc<Mutex<Option<disk_users::Before>>>,
}

/// For so long it is not read again where cgroup file systems are mounted: six sources ask for it each second, and it
/// takes the kernel longer to answer than all their other readings.
const MOUNTS_KEPT: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Mounts {
    read: Instant,
    mounts: Arc<[Mount]>,
}

impl Target {
    /// The live host.
    pub fn live(pid: u32) -> Self {
        Self::under(pid, "/proc", "/sys")
    }

    /// A host whose `/proc` and `/sys` are these folders.
    pub fn under(pid: u32, proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self {
            pid,
            proc: proc.into(),
            sys: sys.into(),
            mounts: Arc::default(),
            programs: Arc::default(),
            allowed: Arc::default(),
            disk_users: Arc::default(),
        }
    }

    /// True where this is the host that spindoctor runs on, and no fixture in its place: the process can be asked by its id.
    pub(crate) fn is_live(&self) -> bool {
        self.proc == Path::new("/proc")
    }

    /// Where cgroup file systems are mounted, as spindoctor sees it: up to ten seconds old.
    pub(crate) fn own_mounts(&self) -> Arc<[Mount]> {
        let mut kept = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(Mounts { read, mounts }) if read.elapsed() < MOUNTS_KEPT => Arc::clone(mounts),
            _ => {
                let text = kernel_file::read(&self.proc.join("self/mountinfo")).unwrap_or_default();
                let mounts: Arc<[Mount]> = parse_mountinfo(&text).into();
                *kept = Some(Mounts { read: Instant::now(), mounts: Arc::clone(&mounts) });
                mounts
            }
        }
    }

    /// Keeps what the host's other programs have used now, for the next reading, and gives what was kept.
    pub(super) fn programs_before(&self, now: other_programs::Before) -> Option<other_programs::Before> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).replace(now)
    }

    /// The same for what they have read and written.
    pub(super) fn disk_users_before(&self, now: disk_users::Before) -> Option<disk_users::Before> {
        self.disk_users.lock().unwrap_or_else(PoisonError::into_inner).replace(now)
    }

    /// Keeps the CPUs that the server may run on, for the source that counts how busy they are.
    pub(super) fn keep_allowed(&self, cpus: Option<CpuSet>) {
        *self.allowed.lock().unwrap_or_else(PoisonError::into_inner) = cpus;
    }

    /// The CPUs that the server may run on, offline ones among them; none where its status was not read, or does not say it.
    pub(super) fn allowed(&self) -> Option<CpuSet> {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True where the server's network namespace is known to be our own.
    pub(super) fn is_in_our_network(&self) -> bool {
        let ours = std::fs::read_link("/proc/self/ns/net").ok();
        ours.is_some() && std::fs::read_link(self.process("ns/net")).ok() == ours
    }

    /// A path below the process's folder: `/proc/PID/stat`.
    pub fn process(&self, below: impl AsRef<Path>) -> PathBuf {
        self.proc.join(self.pid.to_string()).join(below)
    }
}

/// One place of the host that is read.
///
/// `read` stores `Available` or `Unavailable` in its own field of the sample; `now` gives the answer's time when called
/// ([`HostSource::read_into`]).
#[derive(Debug, Clone, Copy)]
pub struct HostSource {
    /// Linux's own name: `/proc/PID/stat`, `cpu.max`.
    pub name: &'static str,
    /// What it is read for, in one line.
    pub help: &'static str,
    /// What reading costs.
    pub cost: &'static str,
    /// What it needs: a capability, a kernel option; empty where nothing.
    pub needs: &'static str,
    /// How often it is read in a window.
    pub cadence: Cadence,
    /// How often it is read where sampling has no end.
    pub pace: Pace,
    /// Reads it into the sample.
    pub read: fn(&Target, &mut HostSample, now: &dyn Fn() -> Answer),
}

impl HostSource {
    /// Reads it now; its time counts from `origin`, and how long it took is in the reading.
    pub fn read_into(&self, sample: &mut HostSample, target: &Target, origin: Instant) {
        let begun = Instant::now();
        let now =
            || Answer { at_s: origin.elapsed().as_secs_f64(), took_ms: begun.elapsed().as_secs_f64() * 1e3 };
        (self.read)(target, sample, &now);
    }
}

/// What a source found, or why it found nothing, as the reading of its field.
pub(crate) fn reading<T>(found: Result<T, Unavailable>, now: &dyn Fn() -> Answer) -> Reading<T> {
    match found {
        Ok(value) => now().reading(value),
        Err(unavailable) => Reading::Unavailable(unavailable),
    }
}
