//! What is simulated, as numbers: the machine, the server's settings, and what a transaction does.

use serde::{Deserialize, Serialize};

/// How times of one kind differ from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Not at all.
    Fixed,
    /// Each from 0 to twice the mean is as likely.
    Uniform,
    /// As times between events that know nothing of each other.
    Exponential,
}

/// The machine, and what the kernel grants of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// Logical CPUs that the server may run on.
    pub cpus: u32,
    /// NUMA nodes that they are spread over.
    pub numa_nodes: u32,
    /// One PAUSE, nanoseconds.
    pub pause_ns: f64,
    /// CPU bandwidth that the cgroup is granted, CPUs; none where there is no quota.
    pub quota_cpus: Option<f64>,
    /// The quota's period, nanoseconds.
    pub period_ns: f64,
    /// For how long a thread runs before another one that is ready gets its CPU, nanoseconds.
    pub slice_ns: f64,
    /// How far behind the others' CPU time a thread that slept is put, nanoseconds.
    pub sleeper_credit_ns: f64,
    /// By how much more CPU time a thread must have had for one that is woken to take its CPU, nanoseconds.
    pub wakeup_granularity_ns: f64,
    /// To put a thread to sleep and to run another one in its place, with its caches, nanoseconds of CPU.
    pub switch_ns: f64,
    /// More of that, for the caches, times the natural logarithm of how many threads want the CPU: the others have had them.
    pub refill_ns: f64,
    /// To wake one thread, nanoseconds of the waking thread's CPU.
    pub wake_ns: f64,
    /// Until a CPU that was idle runs a thread that was woken, nanoseconds.
    pub idle_wake_ns: f64,
    /// To move a cache line from another CPU of the node, nanoseconds.
    pub line_ns: f64,
    /// To move it from another node, nanoseconds.
    pub remote_line_ns: f64,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            cpus: 8,
            numa_nodes: 1,
            // 10 cycles at 3 GHz: Intel's optimization manual, "Pause Latency in Skylake Microarchitecture", of CPUs before it.
            pause_ns: 3.4,
            quota_cpus: None,
            // cpu.max's default period (Linux, admin-guide/cgroup-v2.rst).
            period_ns: 100e6,
            // sched_min_granularity_ns of CFS on eight CPUs and more (kernel/sched/fair.c: 0.75 ms times 4).
            slice_ns: 3e6,
            // Half of sched_latency (6 ms times 4; `GENTLE_FAIR_SLEEPERS`), and sched_wakeup_granularity (1 ms times 4).
            sleeper_credit_ns: 12e6,
            wakeup_granularity_ns: 4e6,
            // `cargo run --release -p spindoctor-predict --example constants`: on one CPU of an AMD EPYC (Zen 4, two virtual
            // CPUs, November 2026) a hand-over, which is a wake-up and a switch, takes 2.6 to 2.8 us, between its two CPUs
            // 2.6 to 3.8 us. Older machines of more CPUs take longer; how the two share it is assumed.
            switch_ns: 3e3,
            // The indirect cost of a switch is from a few to more than 1,000 us by how much memory the threads work on (Li, Ding
            // and Shen, "Quantifying the cost of context switch", 2007): little of it is assumed.
            refill_ns: 1e3,
            wake_ns: 1.5e3,
            idle_wake_ns: 3e3,
            // Of the order that David, Guerraoui and Trigonakis report for Xeon (SOSP 2013); not looked up again.
            line_ns: 45.0,
            remote_line_ns: 120.0,
        }
    }
}

/// How a thread waits for a latch that another one holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latch {
    /// Rounds of looking before it sleeps (`innodb_sync_spin_loops`).
    pub rounds: f64,
    /// PAUSEs between two looks, on average.
    pub pauses_per_round: f64,
    /// True where a release wakes all that sleep (InnoDB's events); false where it wakes one (a futex).
    pub herd: bool,
    /// It gives up its CPU once between spinning and sleeping (`os_thread_yield`).
    pub yields: bool,
    /// Parts of InnoDB's wait array (`innodb_sync_array_size`); 0 where a sleeper is in no array.
    pub arrays: u32,
    /// To take or free a place in the array, under its mutex, nanoseconds.
    pub array_ns: f64,
    /// To set, wait for or leave a latch's event, under the event's mutex, nanoseconds; 0 where a latch has none.
    pub event_ns: f64,
    /// To move one sleeper to that mutex, or to wake it, while the event is set.
    pub event_each_ns: f64,
    /// More of that for each place that is taken: servers before 5.6 look for a free place from the first one on.
    pub array_scan_ns: f64,
    /// By how much longer a latch is held for each thread that sleeps for one (or for the mutexes of events and array): what
    /// they do on their way there and back takes cache lines and the kernel's locks away from the thread that works. An
    /// effect that is fitted, not the cost of one operation.
    pub per_sleeper_ns: f64,
}

impl Latch {
    /// InnoDB of MySQL: `innodb_sync_spin_loops` rounds of `ut_delay(k)`, k uniform from 0 to
    /// `innodb_spin_wait_delay` - 1, each k times the multiplier PAUSEs; a yield; the wait array; an event that wakes all.
    pub fn mysql(loops: f64, delay: f64, multiplier: f64) -> Self {
        Self {
            rounds: loops,
            pauses_per_round: (delay - 1.0).max(0.0) / 2.0 * multiplier,
            herd: true,
            yields: true,
            arrays: 1,
            array_ns: 150.0,
            event_ns: 100.0,
            event_each_ns: 100.0,
            array_scan_ns: 0.0,
            per_sleeper_ns: 0.0,
        }
    }

    /// InnoDB of MariaDB since 10.6: rounds of the same length, then a futex that wakes one.
    pub fn mariadb(loops: f64, delay: f64, multiplier: f64) -> Self {
        Self {
            rounds: loops,
            pauses_per_round: delay * multiplier,
            herd: false,
            yields: false,
            arrays: 0,
            array_ns: 0.0,
            event_ns: 0.0,
            event_each_ns: 0.0,
            array_scan_ns: 0.0,
            per_sleeper_ns: 0.0,
        }
    }

    /// One round, nanoseconds: its PAUSEs and the look at the lock, which no round does without.
    pub fn round_ns(&self, pause_ns: f64) -> f64 {
        self.pauses_per_round * pause_ns + 5.0
    }
}

/// How a commit waits for the redo log: `log_max_spins_when_waiting_in_user_thread` (log0write.cc).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitSpin {
    /// `innodb_log_spin_cpu_abs_lwm`, percent of one CPU: below it no commit spins.
    pub abs_lwm_pct: f64,
    /// `innodb_log_spin_cpu_pct_hwm`, percent of the CPUs that the server counts: from it on no commit spins.
    pub pct_hwm: f64,
    /// PAUSEs that a commit spins at least where it does (`innodb_log_wait_for_flush_spin_rounds` of debug builds).
    pub pauses: f64,
    /// PAUSEs that the log's own threads spin for their next work (`innodb_log_writer_spin_delay` and its kin).
    pub log_thread_pauses: f64,
    /// `innodb_log_wait_for_flush_spin_hwm`: no commit spins where a flush takes longer on average, nanoseconds.
    pub flush_hwm_ns: f64,
}

impl Default for CommitSpin {
    fn default() -> Self {
        Self {
            abs_lwm_pct: 80.0,
            pct_hwm: 50.0,
            pauses: 25_000.0,
            log_thread_pauses: 25_000.0,
            flush_hwm_ns: 400e3,
        }
    }
}

/// One step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Work that needs nothing of others, nanoseconds of a CPU.
    Work(f64),
    /// Takes a latch of that class.
    Acquire(u8),
    /// Work that a latch is held for.
    Inside {
        /// Nanoseconds.
        ns: f64,
        /// More of it for each transaction in the list of those that are active: a walk through it.
        per_active_ns: f64,
    },
    /// Enters the list of active transactions (`trx_start_low`), or leaves it (`trx_commit_in_memory`): under the latch.
    List(bool),
    /// Gives it back.
    Release(u8),
    /// Waits until the redo log is on disk.
    Commit,
}

/// The redo log, for transactions that commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedoLog {
    /// One write and fsync, nanoseconds.
    pub flush_ns: f64,
    /// How they differ.
    pub flush_spread: Spread,
    /// CPU of the log's threads for one of them, all together, nanoseconds.
    pub cpu_ns: f64,
    /// True where one thread waits for a group of commits (a binary log); false where each waits itself.
    pub group: bool,
    /// CPU of the leader for each commit of its group, nanoseconds.
    pub leader_ns: f64,
    /// How the wait begins; none where commits do not spin.
    pub spin: Option<CommitSpin>,
}

/// What the server and its clients do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Between an answer and the client's next request, nanoseconds.
    pub think_ns: f64,
    /// How those times differ.
    pub think_spread: Spread,
    /// A transaction.
    pub steps: Vec<Step>,
    /// How the times of work differ.
    pub work_spread: Spread,
    /// How the times that a latch is held differ.
    pub hold_spread: Spread,
    /// By how much longer work takes while all CPUs work than while one does: hyperthreads, caches, memory.
    pub crowding: f64,
    /// Latches of each class; a transaction uses one of them, in turn (rollback segments).
    pub latches: Vec<u32>,
    /// Cache lines that come with a latch.
    pub lines: f64,
    /// The redo log; none where nothing commits.
    pub redo: Option<RedoLog>,
    /// Part of the CPU time that is the server's and not its clients', where they run on the same machine: a quota of the
    /// server counts it alone.
    pub server_share: f64,
    /// Part of the CPU time that counts as user time where the server looks at its own.
    pub user_share: f64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct World {
    /// The machine.
    pub hardware: Hardware,
    /// How latches are waited for.
    pub latch: Latch,
    /// What transactions do.
    pub work: Work,
}
