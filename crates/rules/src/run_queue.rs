//! How long the server's threads ran and how long they waited for a CPU: from schedstat, or from what they did in the
//! snapshots of a profile.

use std::collections::HashMap;

use spindoctor_model::host::{AllowedCpus, EffectiveCpus, OtherProgram, ProcessStat, ThreadStat};
use spindoctor_model::stack::ThreadState;
use spindoctor_model::window::Change;
use spindoctor_model::{Unavailable, Window};

use crate::throttled::throttled;

/// Snapshots below which no mean is given.
const ENOUGH: usize = 5;

/// Threads that had a CPU and threads that waited for one, means over the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunQueue {
    /// Threads on a CPU: the CPUs that the server used.
    pub(crate) running: f64,
    /// Threads that waited for a CPU.
    pub(crate) queued: f64,
    /// Where that was read.
    pub(crate) source: &'static str,
}

impl RunQueue {
    /// Of a window. A recording has schedstat of all threads twice a minute: what a stall of seconds was like only its
    /// snapshots show.
    pub(crate) fn from_window(window: &Window) -> Result<Self, Unavailable> {
        window.need_change(|s| &s.host.threads).map_or_else(
            |missing| Self::of_snapshots(window).ok_or(missing),
            |threads| {
                let (ran_s, queued_s) = ran_and_queued(&threads);
                Ok(Self {
                    running: ran_s / threads.seconds,
                    queued: queued_s / threads.seconds,
                    source: "/proc/PID/task/*/schedstat",
                })
            },
        )
    }

    /// By the snapshots of all threads and the server's CPU time; None where there are too few of them, or that time is not known.
    pub(crate) fn of_snapshots(window: &Window) -> Option<Self> {
        let profile = window.profile.value().filter(|profile| profile.snapshots.len() >= ENOUGH)?;
        let running = cpus_used(window)?;
        let wants = |state| matches!(state, ThreadState::Running | ThreadState::Runnable);
        let runnable = profile.observations.iter().filter(|one| wants(one.state)).count() as f64
            / profile.snapshots.len() as f64;
        Some(Self { running, queued: (runnable - running).max(0.0), source: "stacks, /proc/PID/stat" })
    }

    /// Threads that wanted a CPU.
    pub(crate) fn runnable(&self) -> f64 {
        self.running + self.queued
    }
}

/// What the server's threads waited for while they waited for a CPU, parts of that time from 0 to 1. The rest they waited for each
/// other.
///
/// While a quota has stopped the server all its runnable threads wait: the share of the time that was stopped, times the threads
/// that wanted a CPU. Outside of that a thread waits for who is on the CPUs, and each waits for others as often as these have a
/// CPU that it may use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct QueuedFor {
    /// The quota: it was used up.
    pub(crate) quota: f64,
    /// CPUs that other processes or other virtual machines had; the server's clients on its host are none where they are known.
    pub(crate) others: f64,
}

impl QueuedFor {
    /// Nothing where schedstat and the quota cannot be read: then they waited for each other.
    pub(crate) fn from_window(window: &Window) -> Self {
        let Ok(queue) = RunQueue::from_window(window) else { return Self::default() };
        let stopped_ratio = throttled(window).ok().flatten().map_or(0.0, |found| found.stopped_ratio);
        let quota = match queue.queued {
            queued if queued > 0.0 => (stopped_ratio * queue.runnable() / queued).min(1.0),
            _ => 0.0,
        };
        let others = cpus_of_others(window, queue.running).unwrap_or(0.0);
        let in_use = (others + queue.running).max(f64::MIN_POSITIVE);
        let clients_cpus = Neighbours::from_window(window).map_or(0.0, |found| found.clients_cpus);
        let others = (others - clients_cpus).max(0.0);
        Self { quota, others: (1.0 - quota) * others / in_use }
    }
}

/// The programs beside the server on its host, where it is known which of them are its clients.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Neighbours<'a> {
    /// CPUs that clients of the server used, of those that it may use: they belong to its load.
    pub(crate) clients_cpus: f64,
    /// The others, the busiest first, those of any weight. None where most of what others had was on CPUs that the server may not use.
    pub(crate) programs: Vec<&'a OtherProgram>,
    /// Those that may be these neighbours, the busiest first, with what they had of the whole host: where most of what others had was on
    /// CPUs that the server may not use, and which CPUs a program had is not read.
    pub(crate) likely: Vec<&'a OtherProgram>,
}

/// Part of the CPUs of others that is most of them. Chosen: more than half, with room for two counts that differ.
const MOST: f64 = 0.6;

/// CPUs below which a neighbour is not worth a word.
const NEIGHBOUR_CPUS: f64 = 0.05;

impl<'a> Neighbours<'a> {
    /// None where the host's programs were not read twice, where nobody may see who of them is connected, or where they are not
    /// those that have the CPUs: processes of others may be hidden (`hidepid`), and those that live for a moment are in no list. None also
    /// where clients have CPUs, and it is not known whether these are of the part that the server may use.
    pub(crate) fn from_window(window: &'a Window) -> Option<Self> {
        let found = window.latest(|s| &s.host.other_programs).filter(|found| found.over_s > 0.0)?;
        let own = RunQueue::from_window(window).ok()?.running;
        // The list is of the whole host.
        let others = others_of_host(window, own)?;
        let listed: f64 = found.programs.iter().map(|program| program.cpus).sum();
        let is_known = |program: &OtherProgram| program.cpus < NEIGHBOUR_CPUS || program.is_client.is_some();
        if listed < MOST * others || !found.programs.iter().all(is_known) {
            return None;
        }
        let of = |is_client| found.programs.iter().filter(move |one| one.is_client == Some(is_client));
        let clients_cpus: f64 = of(true).map(|program| program.cpus).sum();
        let programs: Vec<&OtherProgram> =
            of(false).filter(|program| program.cpus >= NEIGHBOUR_CPUS).collect();
        match Confined::from_window(window, own) {
            None => Some(Self { clients_cpus, programs, likely: Vec::new() }),
            Some(confined) if confined.has_most_of_others() => {
                Some(Self { clients_cpus: clients_cpus.min(confined.others), programs, likely: Vec::new() })
            }
            Some(_) => (clients_cpus < NEIGHBOUR_CPUS).then_some(Self {
                clients_cpus: 0.0,
                programs: Vec::new(),
                likely: programs,
            }),
        }
    }
}

/// CPUs that others had of those that the server may use, steal counted in, while it used so many itself.
fn cpus_of_others(window: &Window, own: f64) -> Option<f64> {
    if let Some(confined) = Confined::from_window(window, own) {
        return Some(confined.others);
    }
    let allowed = window.latest(|s| &s.host.effective_cpus).map(EffectiveCpus::allowed);
    let left = allowed.map_or(f64::INFINITY, |allowed| f64::from(allowed) - own);
    Some(others_of_host(window, own)?.min(left).max(0.0))
}

/// CPUs that others had of all of the host's, steal counted in.
fn others_of_host(window: &Window, own: f64) -> Option<f64> {
    let host = window.change(|s| &s.host.cpu_times)?;
    let busy_us = host.last.busy_us().saturating_sub(host.first.busy_us());
    Some((busy_us as f64 / 1e6 / host.seconds - own).max(0.0))
}

/// A server that may run on a part of the host's CPUs alone, by its cpuset or its affinity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Confined {
    /// The CPUs that it may use.
    pub(crate) allowed: f64,
    /// CPUs of the host.
    pub(crate) online: f64,
    /// Of those that it may use, what others had, steal counted in. Where nothing says how busy these were, the least that it can
    /// have been: all CPUs that the server may not use were busy with others.
    pub(crate) others: f64,
    /// Of this, what other virtual machines had.
    pub(crate) stolen: f64,
    /// What others had of all of the host's.
    pub(crate) others_of_host: f64,
    /// True where the kernel's count of each CPU says what others had of them.
    pub(crate) is_counted: bool,
}

impl Confined {
    /// None where it may use all of the host's CPUs; `own` are those that it used.
    pub(crate) fn from_window(window: &Window, own: f64) -> Option<Self> {
        let cpus = window.latest(|s| &s.host.effective_cpus).filter(|cpus| cpus.allowed() < cpus.online)?;
        let (allowed, online) = (f64::from(cpus.allowed()), f64::from(cpus.online));
        let others_of_host = others_of_host(window, own)?;
        let counted = Counted::from_window(window, cpus.allowed());
        let others = match &counted {
            Some(counted) => (counted.busy - own).max(0.0),
            None => (others_of_host - (online - allowed)).max(0.0),
        };
        let stolen = counted.as_ref().map(|counted| counted.stolen).or_else(|| stolen_of_host(window));
        Some(Self {
            allowed,
            online,
            others,
            stolen: stolen.unwrap_or(0.0).min(others),
            others_of_host,
            is_counted: counted.is_some(),
        })
    }

    /// Share of those that it may use that were busy, 0 to 1, where it used so many itself.
    pub(crate) fn busy(&self, own: f64) -> f64 {
        (own + self.others) / self.allowed
    }

    /// True where most of what others had of the host was on the CPUs that the server may use: which CPUs a program had is not
    /// read.
    fn has_most_of_others(&self) -> bool {
        self.others >= MOST * self.others_of_host
    }
}

/// How busy the CPUs were that the server may use, means over the window: the kernel counts each of them.
struct Counted {
    busy: f64,
    stolen: f64,
}

impl Counted {
    /// None where a reading lacks it, where they were not the same CPUs all the time (one went offline, or the server was moved), or where
    /// they are not as many as the server may use: lxcfs gives a container a `/proc/stat` that numbers its CPUs from 0 on, whichever
    /// they are.
    fn from_window(window: &Window, allowed: u32) -> Option<Self> {
        let sums = window.all(|s| &s.host.cpu_times).into_iter();
        let sums: Vec<(f64, &AllowedCpus)> =
            sums.map(|(at_s, times)| Some((at_s, times.allowed.as_ref()?))).collect::<Option<_>>()?;
        let (&(from_s, first), &(to_s, last)) = (sums.first()?, sums.last()?);
        if to_s <= from_s || first.count != allowed || sums.iter().any(|(_, sum)| sum.cpus != first.cpus) {
            return None;
        }
        let per_s = |first: u64, last: u64| Some(last.checked_sub(first)? as f64 / 1e6 / (to_s - from_s));
        let stolen = per_s(first.steal_us, last.steal_us)?;
        let busy = per_s(first.busy_us, last.busy_us)?;
        // A counter of steal that jumped.
        (stolen <= f64::from(allowed)).then_some(Self { busy, stolen })
    }
}

/// CPUs that the hypervisor gave to others, of all of the host's. None where these were more than there are: the counter jumps where a
/// virtual machine is moved to another host while it runs (kernel bugs with Xen and with KVM).
fn stolen_of_host(window: &Window) -> Option<f64> {
    let host = window.change(|s| &s.host.cpu_times)?;
    let stolen = host.last.steal_us.saturating_sub(host.first.steal_us) as f64 / 1e6 / host.seconds;
    let online = window.latest(|s| &s.host.effective_cpus).map(|cpus| f64::from(cpus.online));
    online.is_none_or(|online| stolen <= online).then_some(stolen)
}

/// CPUs that the hypervisor gave to others while threads of the server, which used so many itself, were to run on them: its part of
/// what was stolen, as large as its part of what this machine's programs got. Where the kernel knows of steal it counts such time as
/// that of no thread, and as no wait (update_rq_clock_task in kernel/sched/core.c, CONFIG_PARAVIRT_TIME_ACCOUNTING): the thread is on
/// a CPU that does not run.
pub(crate) fn stolen_from_server(window: &Window, own: f64) -> Option<f64> {
    let (stolen, others) = match Confined::from_window(window, own) {
        Some(confined) => (confined.stolen, confined.others - confined.stolen),
        None => {
            let stolen = stolen_of_host(window)?;
            (stolen, (others_of_host(window, own)? - stolen).max(0.0))
        }
    };
    let in_use = own + others;
    (in_use > 0.0).then(|| stolen * own / in_use)
}

/// CPUs that the hypervisor gave to others, of those that the server may use.
pub(crate) fn stolen(window: &Window, own: f64) -> f64 {
    let of_its_cpus = Confined::from_window(window, own).map(|confined| confined.stolen);
    of_its_cpus.or_else(|| stolen_of_host(window)).unwrap_or(0.0)
}

/// Share of the CPUs that the server may use that were busy, 0 to 1, steal counted in.
pub(crate) fn allowed_busy(window: &Window) -> Option<f64> {
    let own = RunQueue::from_window(window).ok().map(|queue| queue.running);
    let confined = own.and_then(|own| Some(Confined::from_window(window, own)?.busy(own)));
    confined.or_else(|| host_busy(window))
}

/// Share of the host's CPUs that were busy, 0 to 1, steal counted in.
pub(crate) fn host_busy(window: &Window) -> Option<f64> {
    let host = window.change(|s| &s.host.cpu_times)?;
    host.last.busy_share_since(host.first)
}

/// CPUs that the server used, of the kernel's count.
pub(crate) fn cpus_used(window: &Window) -> Option<f64> {
    let process = window.change(|s| &s.host.process)?;
    let used_us = |process: &ProcessStat| process.user_us + process.system_us;
    Some(used_us(process.last).checked_sub(used_us(process.first))? as f64 / 1e6 / process.seconds)
}

/// Seconds on a CPU and seconds runnable without one, over all threads. A thread that came within the
/// window counts from its birth; one that went is not seen.
pub(crate) fn ran_and_queued(threads: &Change<'_, Vec<ThreadStat>>) -> (f64, f64) {
    ran_and_queued_of(threads, |_| true)
}

/// The same of the threads whose kernel ids are such.
pub(crate) fn ran_and_queued_of(
    threads: &Change<'_, Vec<ThreadStat>>,
    is_such: impl Fn(u32) -> bool,
) -> (f64, f64) {
    let before: HashMap<u32, &ThreadStat> = threads.first.iter().map(|thread| (thread.tid, thread)).collect();
    threads.last.iter().filter(|thread| is_such(thread.tid)).fold((0.0, 0.0), |(ran, queued), thread| {
        let (ran_before, queued_before) =
            before.get(&thread.tid).map_or((0, 0), |before| (before.ran_ns, before.run_queue_ns));
        (
            ran + thread.ran_ns.saturating_sub(ran_before) as f64 / 1e9,
            queued + thread.run_queue_ns.saturating_sub(queued_before) as f64 / 1e9,
        )
    })
}
