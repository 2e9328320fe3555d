//! Where one thread's time goes: in each system call and outside of system calls, by the kernel's own clock.
//!
//! In: a process and one of its threads. Out: [`Traced`]: every nanosecond of that thread between two instants is in
//! one of its numbers. No thread is stopped. `bpf/calls.bpf.c` is what runs at the two tracepoints that every
//! system call passes (`raw_syscalls:sys_enter`, `sys_exit`). The kernel takes the programs away when this process
//! ends, by kill -9 too.
//!
//! The tracepoints are passed by every thread of the machine, and each pass costs some tens of nanoseconds. The cost of
//! one pass is measured before, the cost of all is counted, and the caller ends the trace when it costs more than
//! allowed ([`CallTrace::cost`]). A tracepoint for each wanted call would cost other processes less and say less: what
//! the thread does beside those calls would be in no number.

#![expect(
    unsafe_code,
    reason = "the state that the programs write to is mapped, and a system call is made to measure"
)]

use std::error::Error as StdError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::RawTracePoint;
use rustix::time::{ClockId, clock_gettime};
use spindoctor_model::connections::CallTime;

use super::kernel_program::{Aligned, SharedMap, load, refused};
use crate::error::{Error, Result};
use crate::process::Process;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/calls.bpf.o"));

/// As errors name it.
const NAME: &str = "raw_syscalls";

/// `CALLS`, `FUTEX_OPERATIONS` of `bpf/calls.h`.
const CALLS: usize = 512;
const FUTEX_OPERATIONS: usize = 16;

/// How often a system call is made to measure what a pass costs: less than a millisecond in all.
const MEASURED_CALLS: u32 = 500;
const MEASURED_ROUNDS: u32 = 5;

/// The programs, at work.
pub struct CallTrace {
    process: Process,
    object: Ebpf,
    hits: PerCpuArray<MapData, u64>,
    state: State,
    begun: Instant,
    begun_ns: u64,
    /// Passes before the thread was named: those of the measurement.
    hits_before: u64,
    hit_cost: Duration,
}

impl std::fmt::Debug for CallTrace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CallTrace").field("process", &self.process).finish_non_exhaustive()
    }
}

/// What the programs cost the machine so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallTraceCost {
    /// How often a thread of the machine passed one of the two places.
    pub passes: u64,
    /// The CPU time that took, by what a pass cost when it was measured.
    pub cpu: Duration,
}

/// A thread's time between two instants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Traced {
    /// From the first instant to the last.
    pub took: Duration,
    /// Outside of system calls.
    pub outside: Duration,
    /// In each system call that it made, in the order of their numbers.
    pub calls: Vec<CallTime>,
    /// What counting cost.
    pub cost: CallTraceCost,
}

impl CallTrace {
    /// Counts the time of a thread of a process from now on.
    ///
    /// # Errors
    /// No such process, or the kernel refuses; the error says what would change that.
    pub fn start(pid: u32, tid: u32) -> Result<Self> {
        let process = Process::open(pid)?;
        let (mut object, _) = load(OBJECT, NAME)?;
        let failed = |error: &(dyn StdError + 'static)| refused(NAME, error);
        let state =
            State(SharedMap::map(&object, "traced", size_of::<Shared>()).map_err(|error| failed(&error))?);
        let hits = object.take_map("hits").expect("the object has this map");
        let hits = PerCpuArray::try_from(hits).map_err(|error| failed(&error))?;
        state.get().futex.store(libc::SYS_futex.cast_unsigned(), Relaxed);
        // Never zero, and no id of a process group that there is.
        let secret = mixed(now_ns()) | 1 << 40;
        state.get().secret.store(secret, Release);
        let without = time_of_a_call(0);
        // The exits first: a call that is seen to begin is seen to end.
        for (program, place) in [("left", "sys_exit"), ("entered", "sys_enter")] {
            let program: &mut RawTracePoint = object
                .program_mut(program)
                .expect("the object has this program")
                .try_into()
                .expect("it is for a tracepoint");
            program.load().map_err(|error| failed(&error))?;
            program.attach(place).map_err(|error| failed(&error))?;
        }
        // The programs learn which pid namespace ids are of, then run as they will for all others.
        time_of_a_call(secret);
        if state.get().secret.load(Acquire) != 0 {
            return Err(Error::Unavailable {
                source_name: NAME,
                because: "the programs did not see a system call of spindoctor's own".to_owned(),
                unlock: "Linux 5.18 or newer with CONFIG_FTRACE_SYSCALLS has what it needs".to_owned(),
            });
        }
        let with = time_of_a_call(0);
        let mut trace = Self {
            process,
            object,
            hits,
            state,
            begun: Instant::now(),
            begun_ns: now_ns(),
            hits_before: 0,
            // A call passes both places.
            hit_cost: with.saturating_sub(without) / 2,
        };
        trace.hits_before = trace.passes();
        let shared = trace.state.get();
        shared.last_ns.store(trace.begun_ns, Relaxed);
        shared.pid.store(u64::from(pid), Relaxed);
        shared.tid.store(u64::from(tid), Release);
        Ok(trace)
    }

    /// What counting cost the machine so far.
    #[must_use]
    pub fn cost(&self) -> CallTraceCost {
        let passes = self.passes().saturating_sub(self.hits_before);
        let cpu = Duration::from_nanos(
            u64::try_from(self.hit_cost.as_nanos()).unwrap_or(u64::MAX).saturating_mul(passes),
        );
        CallTraceCost { passes, cpu }
    }

    /// For how long it has counted.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// False once the process has ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Takes the programs away; where the thread's time went.
    ///
    /// # Errors
    /// The kernel does not let go of a program.
    pub fn finish(mut self) -> Result<Traced> {
        let cost = self.cost();
        let now = now_ns();
        // From here on its borders are not seen any more.
        for program in ["entered", "left"] {
            let program: &mut RawTracePoint = self
                .object
                .program_mut(program)
                .expect("the object has this program")
                .try_into()
                .expect("it is for a tracepoint");
            program.unload().map_err(|error| refused(NAME, &error))?;
        }
        Ok(traced(&self.state.get().read(), self.begun_ns, now, cost))
    }

    fn passes(&self) -> u64 {
        self.hits.get(&0, 0).map_or(0, |cpus| cpus.iter().sum())
    }
}

/// What a thread's numbers say, with the stretch since its last border.
fn traced(counted: &Counted, begun_ns: u64, now_ns: u64, cost: CallTraceCost) -> Traced {
    // It may have passed a border after the clock was read.
    let now_ns = now_ns.max(counted.last_ns);
    let since = now_ns - counted.last_ns;
    let (mut outside_ns, mut calls) = (counted.outside_ns, counted.calls.clone());
    match counted.inside {
        // Never seen: it has been in one call all the time, and no event reported that.
        0 if counted.last_ns == begun_ns => {}
        0 => outside_ns += since,
        // A call that has not ended counts as one that sleeps: which it is, where it lasts.
        place => {
            if let Some(call) = calls.get_mut(place as usize - 1) {
                *call = call.with_one_that_sleeps(since);
            }
        }
    }
    let calls = calls.iter().enumerate().filter(|(_, call)| call.calls > 0);
    let mut calls: Vec<CallTime> = calls
        .map(|(place, call)| CallTime {
            name: name(place),
            calls: call.calls,
            failed: call.failed,
            ns: call.ns,
            slept: call.slept,
            slept_ns: call.slept_ns,
        })
        .collect();
    merge(&mut calls);
    Traced {
        took: Duration::from_nanos(now_ns.saturating_sub(begun_ns)),
        outside: Duration::from_nanos(outside_ns),
        calls,
        cost,
    }
}

/// Futex has operations of one meaning: calls of one name are added up.
fn merge(calls: &mut Vec<CallTime>) {
    let mut merged: Vec<CallTime> = Vec::with_capacity(calls.len());
    for call in calls.drain(..) {
        match merged.iter_mut().find(|other| other.name == call.name) {
            Some(other) => {
                other.calls += call.calls;
                other.failed += call.failed;
                other.ns += call.ns;
                other.slept += call.slept;
                other.slept_ns += call.slept_ns;
            }
            None => merged.push(call),
        }
    }
    *calls = merged;
}

/// A call as people know it; those that no accepting thread makes keep their number.
fn name(place: usize) -> String {
    // linux/futex.h: FUTEX_WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2; bit 7, private, is cut off.
    if let Some(operation) = place.checked_sub(CALLS) {
        let waits = matches!(operation, 0 | 6 | 9 | 11 | 13);
        return if waits { "futex wait" } else { "futex wake" }.to_owned();
    }
    let number = place as libc::c_long;
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned())
}

/// What the accepting threads of MySQL 9.7.4 and MariaDB 10.11 were seen to call, what older ones call (the strace in
/// Domas Mituzas's text), and what memory, files and logs take.
const NAMES: &[(libc::c_long, &str)] = &[
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_brk, "brk"),
    (libc::SYS_clock_gettime, "clock_gettime"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_close, "close"),
    (libc::SYS_epoll_ctl, "epoll_ctl"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_getpeername, "getpeername"),
    (libc::SYS_getpid, "getpid"),
    (libc::SYS_getrandom, "getrandom"),
    (libc::SYS_getsockname, "getsockname"),
    (libc::SYS_getsockopt, "getsockopt"),
    (libc::SYS_gettid, "gettid"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_listen, "listen"),
    (libc::SYS_lseek, "lseek"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_read, "read"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_restart_syscall, "restart_syscall"),
    (libc::SYS_rseq, "rseq"),
    (libc::SYS_rt_sigaction, "rt_sigaction"),
    (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
    (libc::SYS_sched_getaffinity, "sched_getaffinity"),
    (libc::SYS_sched_setscheduler, "sched_setscheduler"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_setsockopt, "setsockopt"),
    (libc::SYS_shutdown, "shutdown"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_tgkill, "tgkill"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
];

/// The quickest mean of some rounds of a cheap system call: this thread may lose its CPU in a round. It asks for the
/// group of a process of this number; there is none, and the kernel says so.
fn time_of_a_call(number: u64) -> Duration {
    let round = || {
        let start = Instant::now();
        for _ in 0..MEASURED_CALLS {
            // SAFETY: getpgid(2) takes a number and touches no memory of this process.
            unsafe { libc::syscall(libc::SYS_getpgid, number) };
        }
        start.elapsed()
    };
    (0..MEASURED_ROUNDS).map(|_| round()).min().unwrap_or_default() / MEASURED_CALLS
}

/// A number that no other call has for its argument: the clock's, mixed (splitmix64).
fn mixed(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// `struct traced` of `bpf/calls.h`, mapped.
struct State(SharedMap);

impl State {
    fn get(&self) -> &Shared {
        // SAFETY: the map's value is one of these, page-aligned, and lives as long as the mapping. All of it is atomic:
        // the programs may write to it at any time.
        unsafe { self.0.start().cast::<Shared>().as_ref() }
    }
}

/// `struct traced` of `bpf/calls.h`.
#[repr(C)]
struct Shared {
    secret: AtomicU64,
    level: AtomicU64,
    tid: AtomicU64,
    pid: AtomicU64,
    futex: AtomicU64,
    task: AtomicU64,
    born: AtomicU64,
    last_ns: AtomicU64,
    inside: AtomicU64,
    switches: AtomicU64,
    outside_ns: AtomicU64,
    calls: [SharedCall; CALLS + FUTEX_OPERATIONS],
}

/// `struct call` of `bpf/calls.h`.
#[repr(C)]
struct SharedCall {
    calls: AtomicU64,
    failed: AtomicU64,
    ns: AtomicU64,
    slept: AtomicU64,
    slept_ns: AtomicU64,
}

impl Shared {
    fn read(&self) -> Counted {
        let call = |call: &SharedCall| Call {
            calls: call.calls.load(Relaxed),
            failed: call.failed.load(Relaxed),
            ns: call.ns.load(Relaxed),
            slept: call.slept.load(Relaxed),
            slept_ns: call.slept_ns.load(Relaxed),
        };
        Counted {
            last_ns: self.last_ns.load(Acquire),
            inside: self.inside.load(Relaxed),
            outside_ns: self.outside_ns.load(Relaxed),
            calls: self.calls.iter().map(call).collect(),
        }
    }
}

/// What was read of `struct traced`.
#[derive(Debug, Clone, Default)]
struct Counted {
    last_ns: u64,
    inside: u64,
    outside_ns: u64,
    calls: Vec<Call>,
}

/// What was read of a call.
#[derive(Debug, Clone, Copy, Default)]
struct Call {
    calls: u64,
    failed: u64,
    ns: u64,
    slept: u64,
    slept_ns: u64,
}

impl Call {
    fn with_one_that_sleeps(self, ns: u64) -> Self {
        Self {
            calls: self.calls + 1,
            ns: self.ns + ns,
            slept: self.slept + 1,
            slept_ns: self.slept_ns + ns,
            ..self
        }
    }
}

/// `CLOCK_MONOTONIC`, as the programs read it.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(now.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(last_ns: u64, inside: u64, outside_ns: u64) -> Counted {
        let mut counted =
            Counted { last_ns, inside, outside_ns, calls: vec![Call::default(); CALLS + FUTEX_OPERATIONS] };
        let accept = libc::SYS_accept4 as usize;
        counted.calls[accept] = Call { calls: 3, failed: 1, ns: 900, slept: 0, slept_ns: 0 };
        counted.calls[CALLS] = Call { calls: 2, ns: 600, slept: 1, slept_ns: 500, ..Call::default() };
        counted.calls[CALLS + 9] = Call { calls: 1, ns: 100, slept: 1, slept_ns: 100, ..Call::default() };
        counted
    }

    fn sum_ns(traced: &Traced) -> u64 {
        traced.calls.iter().map(|call| call.ns).sum::<u64>() + traced.outside.as_nanos() as u64
    }

    #[test]
    fn every_nanosecond_is_in_one_number() {
        let ended_outside = traced(&counted(2_600, 0, 1_000), 0, 3_000, CallTraceCost::default());
        assert_eq!(ended_outside.outside, Duration::from_nanos(1_400));
        assert_eq!(sum_ns(&ended_outside), 3_000);
        let poll = libc::SYS_ppoll.cast_unsigned() + 1;
        let ended_inside = traced(&counted(2_600, poll, 1_000), 0, 3_000, CallTraceCost::default());
        let ppoll = ended_inside.calls.iter().find(|call| call.name == "ppoll").unwrap();
        assert_eq!((ppoll.calls, ppoll.slept, ppoll.slept_ns), (1, 1, 400));
        assert_eq!(sum_ns(&ended_inside), 3_000);
    }

    #[test]
    fn operations_of_futex_with_one_meaning_are_one_row() {
        let traced = traced(&counted(2_600, 0, 1_000), 0, 2_600, CallTraceCost::default());
        let names: Vec<&str> = traced.calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["accept4", "futex wait"]);
        assert_eq!((traced.calls[1].calls, traced.calls[1].ns, traced.calls[1].slept), (3, 700, 2));
        assert_eq!(name(CALLS + 1), "futex wake");
        assert_eq!(name(CALLS - 1), "system call 511");
    }

    #[test]
    fn a_thread_that_never_passed_a_border_has_no_time_of_any_kind() {
        let nothing = Counted { last_ns: 500, ..Counted::default() };
        let traced = traced(&nothing, 500, 2_500, CallTraceCost::default());
        assert_eq!((traced.took.as_nanos(), sum_ns(&traced)), (2_000, 0));
    }
}
