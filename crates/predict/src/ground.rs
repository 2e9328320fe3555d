//! What a prediction rests on: measurements, the machine and the settings that they were made with; and the parameters
//! that are fitted to them.

use serde::{Deserialize, Serialize};

use crate::settings::{Flavor, Settings};
use crate::world::{Hardware, RedoLog, Spread, Step, Work, World};

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Connections.
    pub threads: u32,
    /// Transactions a second.
    pub throughput_per_s: f64,
}

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Short transactions that only read.
    Reads,
    /// Short transactions that write and commit.
    Writes,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ground {
    /// The machine.
    pub hardware: Hardware,
    /// The server's settings.
    pub settings: Settings,
    /// What the clients do.
    pub workload: Workload,
    /// One write and fsync of the redo log, nanoseconds.
    pub flush_ns: f64,
    /// Part of the CPU time that was the server's and not its clients': 1 where they ran on another machine.
    pub server_share: f64,
    /// The measurements.
    pub measured: Vec<Measured>,
}

/// The declared parameters: what the settings and the machine do not say. No others are fitted to anything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Work of a transaction outside of latches while one CPU works, nanoseconds.
    pub work_ns: f64,
    /// Between an answer and the next request, nanoseconds.
    pub think_ns: f64,
    /// By how much longer work takes while all CPUs work.
    pub crowding: f64,
    /// For how long a transaction holds the contended latch in all, nanoseconds.
    pub hold_ns: f64,
    /// More of it for each transaction that is active.
    pub per_active_ns: f64,
    /// By how much longer a latch is held for each thread that sleeps for one, nanoseconds.
    pub per_sleeper_ns: f64,
}

/// One of them: what it means, its unit and its bounds stand where it is declared, and nowhere else.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The fit goes no lower.
    pub least: f64,
    /// And no higher.
    pub most: f64,
    /// Its value.
    pub get: fn(&Parameters) -> f64,
    /// Gives it another value.
    pub set: fn(&mut Parameters, f64),
    /// By which factor it is thought to differ from what is assumed, before anything is measured.
    pub(crate) doubt: f64,
    /// From so many measurements on it is fitted: fewer do not say anything about it.
    pub(crate) from: usize,
}

/// In the order in which measurements say something about them.
pub const PARAMETERS: [Parameter; 6] = [
    Parameter {
        name: "work of a transaction",
        meaning: "CPU time of a transaction outside of latches while one CPU works",
        unit: "ns",
        least: 1e3,
        most: 1e9,
        get: |p| p.work_ns,
        set: |p, to| p.work_ns = to,
        doubt: 3.0,
        from: 1,
    },
    Parameter {
        name: "crowding of the CPUs",
        meaning: "by how much longer that work takes while all CPUs work: hyperthreads, caches, memory, clock",
        unit: "",
        least: 0.01,
        most: 4.0,
        get: |p| p.crowding,
        set: |p, to| p.crowding = to,
        doubt: 3.0,
        from: 3,
    },
    Parameter {
        name: "time that the contended latch is held",
        meaning: "for how long a transaction holds the most contended latch, all its uses together",
        unit: "ns",
        least: 10.0,
        most: 1e7,
        get: |p| p.hold_ns,
        set: |p, to| p.hold_ns = to,
        doubt: 4.0,
        from: 4,
    },
    Parameter {
        name: "time between requests",
        meaning: "from an answer to the client's next request: the network and the client",
        unit: "ns",
        least: 100.0,
        most: 1e9,
        get: |p| p.think_ns,
        set: |p, to| p.think_ns = to,
        doubt: 3.0,
        from: 5,
    },
    Parameter {
        name: "hold time for each active transaction",
        meaning: "how much longer a transaction holds it for each other one that is active: a walk through their list",
        unit: "ns",
        least: 0.01,
        most: 1e4,
        get: |p| p.per_active_ns,
        set: |p, to| p.per_active_ns = to,
        doubt: 4.0,
        from: 6,
    },
    Parameter {
        name: "hold time for each thread that sleeps",
        meaning: "how much longer a latch is held, each time, for each thread that sleeps for one: an effect that is fitted, \
                  not the cost of one operation",
        unit: "ns",
        least: 0.01,
        most: 1e3,
        get: |p| p.per_sleeper_ns,
        set: |p, to| p.per_sleeper_ns = to,
        doubt: 10.0,
        from: 6,
    },
];

/// Latch uses of a transaction that reads: begin, read view, commit (trx0trx.c, read0read.c).
const USES: f64 = 3.0;
/// Part of the hold time of a writing transaction's rollback segment, outside of the transaction system's mutex.
const SEGMENT_SHARE: f64 = 0.5;
/// CPU of the log's threads for each write, and of a group's leader for each commit. Assumed, not measured.
const LOG_CPU_NS: f64 = 15e3;
const LEADER_NS: f64 = 4e3;

/// By how much longer work takes while both threads of a core work: together they do 1.3 times what one does (Marr et al.,
/// "Hyper-Threading Technology Architecture and Microarchitecture", Intel Technology Journal 2002: up to 30 % more).
const HYPERTHREADS: f64 = 2.0 / 1.3 - 1.0;

impl Parameters {
    /// What is assumed before anything is measured, from the fewest connections that were.
    pub fn assumed(ground: &Ground) -> Self {
        let least = ground.measured.iter().min_by_key(|measured| measured.threads);
        let cpus = ground.hardware.quota_cpus.unwrap_or(f64::from(ground.hardware.cpus));
        let each_ns =
            least.map_or(100e3, |it| f64::from(it.threads).min(cpus) * 1e9 / it.throughput_per_s.max(1e-3));
        // What a transaction takes of all CPUs where throughput is highest, beside what it takes of one. It is not known where
        // nothing was measured that keeps them busy.
        let most = ground.measured.iter().map(|it| it.throughput_per_s).fold(1e-3, f64::max);
        let keeps_busy = ground.measured.iter().any(|it| f64::from(it.threads) >= cpus);
        let crowded = if keeps_busy { cpus * 1e9 / most / (each_ns * 0.85) - 1.0 } else { HYPERTHREADS };
        // A transaction of 5.5's list is a line of its own that another CPU wrote last (read_view_open_now_low); later ones copy
        // numbers of eight bytes that lie in a row (ReadView::copy_trx_ids).
        let ids_in_a_line = if ground.settings.flavor == Flavor::Mysql55 { 1.0 } else { 8.0 };
        Self {
            work_ns: each_ns * 0.8,
            think_ns: each_ns * 0.15,
            crowding: crowded.clamp(0.1, 2.0),
            hold_ns: 900.0,
            per_active_ns: ground.hardware.line_ns / ids_in_a_line,
            // Little: the walk and the crowd behind a thread that lost its CPU say most of what it would.
            per_sleeper_ns: 1.0,
        }
    }
}

impl Ground {
    /// The world with these parameters.
    pub fn world(&self, parameters: &Parameters) -> World {
        let Parameters { work_ns, think_ns, crowding, hold_ns, per_active_ns, per_sleeper_ns } = *parameters;
        let inside = |share: f64| Step::Inside { ns: hold_ns * share, per_active_ns: per_active_ns * share };
        let mut steps = Vec::new();
        match self.workload {
            Workload::Reads => {
                let alone = Step::Inside { ns: hold_ns / USES, per_active_ns: 0.0 };
                for within in [
                    [alone, Step::List(true)],
                    [Step::Inside { ns: hold_ns / USES, per_active_ns }, Step::List(true)],
                    [alone, Step::List(false)],
                ] {
                    steps.extend([Step::Work(work_ns / USES), Step::Acquire(0)]);
                    steps.extend(within);
                    steps.push(Step::Release(0));
                }
            }
            Workload::Writes => steps.extend([
                Step::Work(work_ns * 0.4),
                Step::Acquire(0),
                inside(0.5),
                Step::List(true),
                Step::Release(0),
                Step::Work(work_ns * 0.5),
                // The history is written under the segment's mutex, and the number is given out within.
                Step::Acquire(1),
                Step::Inside { ns: hold_ns * SEGMENT_SHARE, per_active_ns: 0.0 },
                Step::Acquire(0),
                inside(0.5),
                Step::List(false),
                Step::Release(0),
                Step::Inside { ns: hold_ns * SEGMENT_SHARE, per_active_ns: 0.0 },
                Step::Release(1),
                Step::Commit,
                Step::Work(work_ns * 0.1),
            ]),
        }
        let redo = RedoLog {
            flush_ns: self.flush_ns,
            flush_spread: Spread::Exponential,
            cpu_ns: LOG_CPU_NS,
            group: self.settings.binlog,
            leader_ns: LEADER_NS,
            spin: self.settings.commit_spin(),
        };
        let waits = self.workload == Workload::Writes && self.settings.flush_at_commit == 1;
        World {
            hardware: self.hardware.clone(),
            latch: self.settings.latch(per_sleeper_ns),
            work: Work {
                think_ns,
                think_spread: Spread::Exponential,
                steps,
                work_spread: Spread::Exponential,
                hold_spread: Spread::Exponential,
                crowding,
                latches: vec![1, self.settings.segments()],
                lines: 2.0,
                redo: waits.then_some(redo),
                server_share: self.server_share.clamp(0.05, 1.0),
                user_share: 0.85,
            },
        }
    }
}
