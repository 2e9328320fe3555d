//! A sweep: a grid of settings and numbers of clients, each cell measured some times in random order.
//!
//! In: the wanted cells ([`Grid`]) and the measured ones ([`Measured`]). Out: the cells that are left, in order
//! ([`Grid::left`]), and the finished [`Sweep`]: medians with their spread, one line for each setting, and how each
//! line scales. Two of them, of two machines or versions, are set side by side by a [`Comparison`]. Pure: the caller runs
//! the clients and changes the settings.

pub mod axes;
mod comparison;
mod grid;
mod starved;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::{Fairness, Machine};

pub use comparison::{
    COMPARISON_SCHEMA, ComparedLine, ComparedPoint, Comparison, Difference, NotComparable, Place, Ratio,
    Ratios, Side,
};
pub use grid::{Assigned, Axis, Cell, Grid, Setting};
pub use starved::Starved;
pub(crate) use starved::{ENOUGH_TRANSACTIONS, STARVED};

use crate::statistics::usl::{self, Usl};

/// Name and version of the serialised form of a [`Sweep`]: fields may be added, none is renamed or removed.
pub const SWEEP_SCHEMA: &str = "spindoctor.sweep/1";

/// One measurement that was made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// What was wanted.
    #[serde(flatten)]
    pub cell: Cell,
    /// When its measured part began.
    pub at: Timestamp,
    /// How long it was measured, seconds.
    pub seconds: f64,
    /// Transactions a second, as the clients count them.
    pub transactions_per_s: f64,
    /// Statements a second.
    pub queries_per_s: f64,
    /// 95th percentile of a transaction's time, milliseconds.
    pub p95_ms: Option<f64>,
    /// CPU time of the server's process for each statement, microseconds.
    pub cpu_us_per_query: Option<f64>,
    /// Statements that ended in an error, a second.
    pub errors_per_s: f64,
    /// How evenly the clients were served; none in files of before 2026-11-26.
    pub fairness: Option<Fairness>,
    /// CPU cycles of the server's process for each statement, where the CPU lets us count them.
    pub cycles_per_query: Option<f64>,
    /// CPU cycles for each instruction (CPI), likewise.
    pub cycles_per_instruction: Option<f64>,
}

/// What a sweep was made with, beside its grid: cells of two sweeps that differ in this are not put together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// `MySQL 9.7.4`.
    pub server: String,
    /// Its address; `lab` for a throw-away server.
    pub address: String,
    /// The machine that the clients, and with a throw-away server it too, ran on.
    pub machine: String,
    /// The machine of the server's process; empty where that was not on this host, and in files of before 2026-11-26.
    pub hardware: Machine,
    /// The server's global variables before the sweep, without those that it changes, that change by themselves, or that
    /// say where the server is; empty in files of before 2026-11-26.
    pub settings: BTreeMap<String, String>,
    /// CPU quota of a throw-away server, CPUs.
    pub quota_cpus: Option<f64>,
    /// Options that a throw-away server was started with.
    pub options: Vec<String>,
    /// What the clients did: `oltp_point_select`.
    pub workload: String,
    /// sysbench's tables.
    pub tables: u32,
    /// Rows of each.
    pub rows: u32,
    /// How long each cell was loaded before it was measured, seconds.
    pub warmup_s: f64,
    /// How long each cell was measured, seconds.
    pub measured_s: f64,
}

/// A finished sweep, or what there is of one that was interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// [`SWEEP_SCHEMA`].
    pub schema: String,
    /// What it was made with.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// What was wanted.
    pub grid: Grid,
    /// One for each setting, in the grid's order.
    pub lines: Vec<Line>,
    /// What must be known to read the numbers: what was not measured, where the clients met errors.
    pub notes: Vec<String>,
    /// Every measurement, in the order of time.
    pub cells: Vec<Measured>,
}

/// One setting over all numbers of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The setting.
    pub setting: Setting,
    /// In the order of the numbers of clients; those without a measurement are left out.
    pub points: Vec<Point>,
    /// How its throughput scales; none where the measurements do not show it.
    pub scalability: Option<Scalability>,
    /// Why there is no curve.
    pub not_fitted: Option<String>,
}

/// The Universal Scalability Law fitted to a line's medians (see [`Usl`]): throughput with N clients is
/// `lambda N / (1 + alpha (N - 1) + beta N (N - 1))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scalability {
    /// Throughput of one client, transactions a second.
    pub lambda: f64,
    /// Contention: the share of the work that only one client can do at a time.
    pub alpha: f64,
    /// Coherency: what each client pays for each other.
    pub beta: f64,
    /// The number of clients at which the curve stands highest; none where it only rises.
    pub peak_threads: Option<f64>,
    /// Part of the medians' variance that the curve explains, at most 1.
    pub r_squared: f64,
}

/// One setting at one number of clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// How many clients.
    pub threads: u32,
    /// How many measurements.
    pub runs: u32,
    /// Transactions a second. More is better.
    pub transactions_per_s: Spread,
    /// Statements a second. More is better.
    pub queries_per_s: Spread,
    /// 95th percentile of a transaction's time, milliseconds. Less is better.
    pub p95_ms: Option<Spread>,
    /// CPU time of the server's process for each statement, microseconds. Less is better.
    pub cpu_us_per_query: Option<Spread>,
    /// Statements that ended in an error, a second: the worst run.
    pub errors_per_s: f64,
    /// Transactions of a client in a run: the mean of all.
    pub client_transactions: Option<Spread>,
    /// Transactions of the client with the fewest, divided by that mean. 1 is fair; more is better.
    pub least_client_ratio: Option<Spread>,
    /// Transactions of the client with the most, divided by that mean. 1 is fair; less is better.
    pub most_client_ratio: Option<Spread>,
    /// Standard deviation of the clients' transactions, divided by that mean. 0 is fair; less is better.
    pub client_sd_ratio: Option<Spread>,
    /// CPU cycles of the server's process for each statement. Less is better.
    pub cycles_per_query: Option<Spread>,
    /// CPU cycles for each instruction. Less is better.
    pub cycles_per_instruction: Option<Spread>,
}

/// Several measurements of one quantity. Runs are few, so the spread is all of it: no share of them is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl Sweep {
    /// What the measurements say. Those that the grid does not ask for are left out.
    pub fn from_measured(
        conditions: Conditions,
        grid: Grid,
        mut cells: Vec<Measured>,
        mut notes: Vec<String>,
    ) -> Self {
        let settings = grid.settings();
        cells.retain(|measured| {
            let Cell { setting, threads, run } = &measured.cell;
            settings.contains(setting) && grid.threads.contains(threads) && *run < grid.runs
        });
        cells.sort_by_key(|measured| measured.at);
        let lines: Vec<Line> =
            settings.into_iter().map(|setting| Line::from_measured(setting, &grid.threads, &cells)).collect();
        let failed = cells.iter().filter(|measured| measured.errors_per_s > 0.0).count();
        if failed > 0 {
            notes.push(format!(
                "in {failed} of {} measurements statements ended in errors, which the clients ignored",
                cells.len()
            ));
        }
        if !cells.is_empty() && cells.iter().all(|measured| measured.cpu_us_per_query.is_none()) {
            notes.push(
                "the server's CPU time was not measured: its process was not found on this host; run spindoctor \
                 where the server runs, or name it with --pid"
                    .to_owned(),
            );
        }
        Self { schema: SWEEP_SCHEMA.to_owned(), conditions, grid, lines, notes, cells }
    }

    /// True where this is an axis of its grid.
    pub fn has_axis(&self, name: &str) -> bool {
        self.grid.axes.iter().any(|axis| axis.variable == name)
    }

    /// How many of the measurements are missing.
    pub fn missing(&self) -> usize {
        self.grid.size().saturating_sub(self.cells.len())
    }

    /// The workloads of its lines, in the grid's order: throughput of one is not compared with that of another. One
    /// None where the grid has no such axis.
    pub fn workloads(&self) -> Vec<Option<&str>> {
        let mut workloads: Vec<Option<&str>> = Vec::new();
        for line in &self.lines {
            let workload = line.setting.value(axes::WORKLOAD);
            if !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        workloads
    }

    /// At one number of clients, with one of its [`Self::workloads`]: which line has the highest throughput, which one
    /// follows, which one is last; none where fewer than two lines have it.
    pub fn lead_at(&self, threads: u32, workload: Option<&str>) -> Option<Lead> {
        let lines = self.lines.iter().enumerate();
        let lines = lines.filter(|(_, line)| line.setting.value(axes::WORKLOAD) == workload);
        let mut ranked: Vec<(usize, &Point)> =
            lines.filter_map(|(at, line)| Some((at, line.at(threads)?))).collect();
        ranked.sort_by(|a, b| b.1.transactions_per_s.median.total_cmp(&a.1.transactions_per_s.median));
        let [(first, best), (second, next), ..] = ranked[..] else { return None };
        let (last, worst) = *ranked.last()?;
        let ratio = best.transactions_per_s.median / worst.transactions_per_s.median;
        Some(Lead {
            first,
            second,
            last,
            ratio: ratio.is_finite().then_some(ratio)?,
            standing: match best.transactions_per_s.low > next.transactions_per_s.high {
                false => Standing::Overlaps,
                true if best.runs.min(next.runs) < LEAST_RUNS => Standing::TooFewRuns,
                true => Standing::Clear,
            },
        })
    }
}

/// Runs of each of two settings that must all lie on one side before one of them is called clear of the other: with
/// three, chance alone does that in one of ten comparisons (2 * 3! * 3! / 6!); a verdict is for a trial.
pub const LEAST_RUNS: u32 = 3;

/// Who leads at one number of clients: places in [`Sweep::lines`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lead {
    /// The line with the highest median throughput.
    pub first: usize,
    /// The line with the next one.
    pub second: usize,
    /// The line with the lowest.
    pub last: usize,
    /// The first one's median divided by the last one's.
    pub ratio: f64,
    /// How the first one's runs stand to the second one's.
    pub standing: Standing,
}

/// How the runs of the line that leads stand to those of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// All of them are above.
    Clear,
    /// All of them are above, and they are fewer than [`LEAST_RUNS`].
    TooFewRuns,
    /// Some are not above.
    Overlaps,
}

impl Line {
    fn from_measured(setting: Setting, threads: &[u32], cells: &[Measured]) -> Self {
        let mut ordered = threads.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let points: Vec<Point> = ordered
            .into_iter()
            .filter_map(|threads| {
                let of_point = |measured: &&Measured| {
                    measured.cell.setting == setting && measured.cell.threads == threads
                };
                Point::from_runs(threads, &cells.iter().filter(of_point).collect::<Vec<_>>())
            })
            .collect();
        let medians: Vec<usl::Point> = points
            .iter()
            .map(|point| usl::Point {
                clients: f64::from(point.threads),
                throughput_per_s: point.transactions_per_s.median,
                weight: 1.0,
            })
            .collect();
        let (scalability, not_fitted) = match Usl::fit(&medians) {
            Ok(fit) => (Some(Scalability::from(fit)), None),
            Err(why) => (None, Some(why.to_string())),
        };
        Self { setting, points, scalability, not_fitted }
    }

    /// The point at one number of clients.
    pub fn at(&self, threads: u32) -> Option<&Point> {
        self.points.iter().find(|point| point.threads == threads)
    }
}

impl Scalability {
    /// The curve's throughput at a number of clients, transactions a second.
    pub fn transactions_per_s(&self, threads: f64) -> f64 {
        let Self { lambda, alpha, beta, .. } = *self;
        Usl { lambda, alpha, beta, r_squared: self.r_squared }.throughput_per_s(threads)
    }
}

impl From<Usl> for Scalability {
    fn from(fit: Usl) -> Self {
        Self {
            lambda: fit.lambda,
            alpha: fit.alpha,
            beta: fit.beta,
            // With a contention above all of the work, the first client gets the most done.
            peak_threads: if fit.alpha >= 1.0 { Some(1.0) } else { fit.peak_clients() },
            r_squared: fit.r_squared,
        }
    }
}

impl Point {
    fn from_runs(threads: u32, measured: &[&Measured]) -> Option<Self> {
        let all = |pick: fn(&Measured) -> Option<f64>| {
            Spread::from_values(measured.iter().filter_map(|measured| pick(measured)).collect())
        };
        Some(Self {
            threads,
            runs: measured.len() as u32,
            transactions_per_s: all(|measured| Some(measured.transactions_per_s))?,
            queries_per_s: all(|measured| Some(measured.queries_per_s))?,
            p95_ms: all(|measured| measured.p95_ms),
            cpu_us_per_query: all(|measured| measured.cpu_us_per_query),
            errors_per_s: measured.iter().map(|measured| measured.errors_per_s).fold(0.0, f64::max),
            client_transactions: all(|measured| Some(measured.fairness?.mean)),
            least_client_ratio: all(|measured| measured.fairness?.least_ratio()),
            most_client_ratio: all(|measured| measured.fairness?.most_ratio()),
            client_sd_ratio: all(|measured| measured.fairness?.sd_ratio()),
            cycles_per_query: all(|measured| measured.cycles_per_query),
            cycles_per_instruction: all(|measured| measured.cycles_per_instruction),
        })
    }
}

impl Spread {
    /// Of the finite ones among these; none where there is none.
    fn from_values(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        Some(Self { median: spindoctor_model::median(values)?, low, high })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::grid::tests::grid;
    use super::*;

    fn measured(cell: Cell, transactions_per_s: f64) -> Measured {
        Measured { cell, transactions_per_s, queries_per_s: transactions_per_s, ..Measured::default() }
    }

    #[test]
    fn a_sweep_without_variables_has_one_line_and_what_is_done_is_not_asked_for_again() {
        let grid = Grid { axes: Vec::new(), threads: vec![4], runs: 2 };
        let cell = |run| Cell { setting: Setting::default(), threads: 4, run };
        assert_eq!(grid.left(&[measured(cell(0), 1.0)], &mut |_| 0), [cell(1)]);
        let sweep =
            Sweep::from_measured(Conditions::default(), grid, vec![measured(cell(0), 1.0)], Vec::new());
        assert_eq!((sweep.lines.len(), sweep.missing()), (1, 1));
    }

    #[test]
    fn a_point_is_the_median_of_its_runs_with_all_of_their_spread() {
        let grid = Grid { axes: Vec::new(), threads: vec![4], runs: 4 };
        let run = |run, tps| measured(Cell { setting: Setting::default(), threads: 4, run }, tps);
        let mut cells = vec![run(0, 10.0), run(1, 40.0), run(2, 20.0), run(3, f64::NAN)];
        cells[1].errors_per_s = 0.5;
        let sweep = Sweep::from_measured(Conditions::default(), grid, cells, Vec::new());
        let point = sweep.lines[0].at(4).unwrap();
        assert_eq!(point.transactions_per_s, Spread { median: 20.0, low: 10.0, high: 40.0 });
        assert_eq!((point.runs, point.p95_ms, point.errors_per_s), (4, None, 0.5));
        assert!(sweep.notes.iter().any(|note| note.starts_with("in 1 of 4")), "{:?}", sweep.notes);
    }

    #[test]
    fn the_best_line_is_named_with_its_lead() {
        let grid = grid();
        let cells = grid.left(&[], &mut |_| 0);
        let cells = cells
            .into_iter()
            .map(|cell| {
                let tps = if cell.setting.0[0].value == "200" { 150.0 } else { 100.0 };
                let slower = if cell.setting.0[1].value == "24" { 50.0 } else { 0.0 };
                measured(cell, tps - slower)
            })
            .collect();
        let sweep = Sweep::from_measured(Conditions::default(), grid, cells, Vec::new());
        assert_eq!(sweep.missing(), 0);
        let lead = Lead { first: 2, second: 0, last: 1, ratio: 3.0, standing: Standing::Clear };
        assert_eq!(sweep.lead_at(64, None), Some(lead));
        assert_eq!(sweep.lead_at(64, Some("oltp_point_select")), None);
        assert_eq!(sweep.lines[2].setting.text(), "innodb_sync_spin_loops = 200, innodb_spin_wait_delay = 6");
        assert_eq!(sweep.lead_at(2, None), None);
    }

    #[test]
    fn a_measurement_survives_its_line_in_a_file() {
        let cell = Cell { setting: grid().settings().remove(1), threads: 64, run: 2 };
        let before = Measured { p95_ms: Some(1.5), ..measured(cell, 12.5) };
        let line = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&line).unwrap(), before);
        assert!(line.contains(r#""threads":64"#), "{line}");
    }

    proptest! {
        #[test]
        fn hostile_measurements_are_no_reason_to_panic(
            values in proptest::collection::vec((any::<f64>(), proptest::option::of(any::<f64>())), 0..20),
        ) {
            let grid = Grid { axes: Vec::new(), threads: vec![1, 2, 4, 8, 4], runs: 5 };
            let cells = values.iter().enumerate().map(|(at, (tps, other))| {
                let cell = Cell { setting: Setting::default(), threads: 1 << (at % 4), run: at as u32 / 4 };
                Measured { p95_ms: *other, cpu_us_per_query: *other, errors_per_s: *tps, ..measured(cell, *tps) }
            });
            let sweep = Sweep::from_measured(Conditions::default(), grid, cells.collect(), Vec::new());
            for point in &sweep.lines[0].points {
                prop_assert!(point.transactions_per_s.low <= point.transactions_per_s.median);
            }
        }
    }
}
