//! What CPU samples say about spinning: how much, and who.
//!
//! A sample knows that it lies in a spin-wait loop from the instructions around its address (`crates/stacks`). The
//! calls that led to a loop show its purpose; the instruction does not.

use spindoctor_model::stack::{Frame, Observation, Profile, Spin};
use spindoctor_model::{Unavailable, Window};

use crate::time_model::tables::MUTEXES;

/// Samples below which no share is given. The standard error of a share of 10 % is then 2 percentage points.
const ENOUGH: usize = 200;

/// A server that uses less than this many CPUs has little to burn: clear of every spin that samples would show.
const LITTLE_CPUS: f64 = 0.2;

/// Functions of the commit spin (MySQL 8.0 and later, log0write.cc): its loop is inlined into them.
const COMMIT_SPIN: &[&str] = &["log_write_up_to", "log_wait_for_write", "log_wait_for_flush"];

/// Functions of the redo log's own threads, which spin while requests come often: their loops lie in them.
const LOG_THREADS: &[&str] =
    &["log_writer", "log_flusher", "log_write_notifier", "log_flush_notifier", "log_checkpointer"];

/// Frames within which one of [`COMMIT_SPIN`] or [`LOG_THREADS`] must stand: the loop itself, what is inlined into it, no more.
const LOOP_DEPTH: usize = 3;

/// Which spin a sample lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Commits that wait for the redo log.
    Commit,
    /// The redo log's own threads, waiting for work.
    LogThreads,
    /// Latches: InnoDB's mutexes and rw-locks.
    Latch,
    /// Mutexes of the C library: how long they spin no setting of the server's says.
    Mutex,
    /// The kernel's own.
    Kernel,
}

/// CPU samples, counted by whose spin they lie in.
#[derive(Debug)]
pub(crate) struct SpinSamples<'a> {
    profile: &'a Profile,
}

impl<'a> SpinSamples<'a> {
    /// The window's CPU samples, where there are enough of them.
    pub(crate) fn from_window(window: &'a Window) -> Result<Self, Unavailable> {
        let profile = match (window.profile.value(), window.profile.unavailable()) {
            (Some(profile), _) => profile,
            (None, Some(why)) => return Err(why.clone()),
            (None, None) => return Err(Unavailable::because("no CPU samples were taken")),
        };
        let samples = profile.samples().len();
        if samples < ENOUGH {
            return Err(Unavailable::because(format!(
                "only {samples} CPU samples were taken, {ENOUGH} are needed"
            ))
            .unlock("a longer window, --duration 30s; or a server that is not idle"));
        }
        Ok(Self { profile })
    }

    /// The same, or none where the server used so little CPU that none of it can have been burnt.
    pub(crate) fn unless_idle(window: &'a Window) -> Result<Option<Self>, Unavailable> {
        let idle = window
            .profile
            .value()
            .is_some_and(|profile| profile.process_cpu_us as f64 / 1e6 < LITTLE_CPUS * profile.seconds);
        if idle { Ok(None) } else { Self::from_window(window).map(Some) }
    }

    /// The profile that they are of.
    pub(crate) fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Share of all samples that spin so, from 0 to 1.
    pub(crate) fn share(&self, asked: Whose) -> f64 {
        self.share_of(|observation| whose(self.profile, observation) == Some(asked))
    }

    /// Share of all samples that are such, from 0 to 1.
    pub(crate) fn share_of(&self, is_such: impl Fn(&Observation) -> bool) -> f64 {
        let samples = self.profile.samples();
        samples.iter().filter(|&sample| is_such(sample)).count() as f64 / samples.len().max(1) as f64
    }
}

/// How InnoDB's functions begin (trx0trx.cc, row0sel.cc and the like). A stripped program names none of them.
const INNODB_FUNCTIONS: &[&str] = &["btr_", "buf_", "lock_", "log_", "mtr_t::", "row_", "trx_"];

/// True where the stacks name functions of InnoDB: whether a build does decides its symbols, not its flavor.
pub(crate) fn names_innodb(profile: &Profile) -> bool {
    let mut names = profile.frames.iter().filter(|frame| !frame.kernel).map(|frame| frame.name.as_str());
    names.any(|name| INNODB_FUNCTIONS.iter().any(|begin| name.starts_with(begin)))
}

/// Why stacks in which no function of InnoDB has a name say nothing of its latches.
pub(crate) fn without_names(what: &str) -> Unavailable {
    Unavailable::because(format!("{what}no function of InnoDB has a name in the stacks that were taken"))
        .unlock("the server's debug symbols: its -dbgsym or -debuginfo package, or DEBUGINFOD_URLS")
}

/// Whose spin a sample lies in; None where it works.
pub(crate) fn whose(profile: &Profile, observation: &Observation) -> Option<Whose> {
    Some(match observation.spin? {
        Spin::Kernel => Whose::Kernel,
        Spin::User if stands_in(profile, observation, COMMIT_SPIN) => Whose::Commit,
        Spin::User if stands_in(profile, observation, LOG_THREADS) => Whose::LogThreads,
        Spin::User if spins_itself(profile, observation) => Whose::Mutex,
        Spin::User => Whose::Latch,
    })
}

/// True where the innermost function, the one that has the loop, is the C library's (nptl/pthread_mutex_lock.c: mutexes that the server
/// makes adaptive).
fn spins_itself(profile: &Profile, observation: &Observation) -> bool {
    names(profile, observation).next().is_some_and(|name| MUTEXES.contains(&name))
}

fn stands_in(profile: &Profile, observation: &Observation, functions: &[&str]) -> bool {
    names(profile, observation).take(LOOP_DEPTH).any(|name| functions.contains(&name))
}

/// Names of an observation's frames in user space, innermost first.
pub(crate) fn names<'a>(profile: &'a Profile, observation: &Observation) -> impl Iterator<Item = &'a str> {
    frames(profile, observation).filter(|frame| !frame.kernel).map(|frame| frame.name.as_str())
}

/// Names of an observation's frames in the kernel, innermost first.
pub(crate) fn kernel_names<'a>(
    profile: &'a Profile,
    observation: &Observation,
) -> impl Iterator<Item = &'a str> {
    frames(profile, observation).filter(|frame| frame.kernel).map(|frame| frame.name.as_str())
}

fn frames<'a>(profile: &'a Profile, observation: &Observation) -> impl Iterator<Item = &'a Frame> {
    let frames = profile.stacks.get(observation.stack as usize).map_or(&[][..], |stack| &stack.frames);
    frames.iter().filter_map(|&frame| profile.frames.get(frame as usize))
}
