//! Two sweeps side by side: what their conditions differ in, and the ratio of each quantity at each point that both have.
//!
//! In: two sweeps of one workload, each with its name. Out: a [`Comparison`]: B divided by A, with an interval. Pure.

mod conditions;
mod ratio;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::number;

use super::{Conditions, Line, Measured, Point, Setting, Sweep};
use conditions::{differences, what_is_unknown};

pub use conditions::Difference;
pub use ratio::Ratio;

/// Name and version of the serialised form of a [`Comparison`]: fields may be added, none is renamed or removed.
pub const COMPARISON_SCHEMA: &str = "spindoctor.sweep-comparison/1";

/// Two sweeps side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: String,
    /// The baseline.
    pub a: Side,
    /// The one that is compared with it: ratios are B's numbers divided by A's.
    pub b: Side,
    /// What was not the same, the machine first.
    pub differences: Vec<Difference>,
    /// Settings that only A's server has, and only B's: those of another version.
    pub settings_of_one: [Vec<String>; 2],
    /// Settings that both have at some number of clients, in A's order.
    pub lines: Vec<ComparedLine>,
    /// Points that only A has.
    pub only_a: Vec<Place>,
    /// Points that only B has.
    pub only_b: Vec<Place>,
    /// What must be known to read the numbers.
    pub notes: Vec<String>,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The name of its file.
    pub name: String,
    /// When its first run began; none where it has no run.
    pub start: Option<Timestamp>,
    /// How many runs it has.
    pub runs: usize,
    /// What it was made with.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// A point of one sweep alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its setting.
    pub setting: Setting,
    /// How many clients.
    pub threads: u32,
}

/// A setting that both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedLine {
    /// The setting.
    pub setting: Setting,
    /// In the order of the numbers of clients; those that one alone has are left out.
    pub points: Vec<ComparedPoint>,
}

/// One setting at one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedPoint {
    /// How many clients.
    pub threads: u32,
    /// A's.
    pub a: Point,
    /// B's.
    pub b: Point,
    /// B divided by A.
    pub ratios: Ratios,
}

/// B divided by A, of each quantity that both measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ratios {
    /// Of transactions a second. More is better.
    pub transactions_per_s: Option<Ratio>,
    /// Of statements a second. More is better.
    pub queries_per_s: Option<Ratio>,
    /// Of the 95th percentile of a transaction's time. Less is better.
    pub p95_ms: Option<Ratio>,
    /// Of the CPU time for each statement. Less is better.
    pub cpu_us_per_query: Option<Ratio>,
    /// Of the CPU cycles for each statement. Less is better.
    pub cycles_per_query: Option<Ratio>,
    /// Of the CPU cycles for each instruction. Less is better.
    pub cycles_per_instruction: Option<Ratio>,
}

/// Why two sweeps have no ratio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotComparable {
    /// The clients did other things.
    #[error(
        "they measured different workloads, {a} and {b}: their ratio would say nothing of either machine"
    )]
    Workload {
        /// `oltp_point_select on 4 tables of 10,000 rows`.
        a: String,
        /// The same of B.
        b: String,
    },
    /// There is no point that both have.
    #[error("no setting and number of clients was measured in both: A has {a}, B has {b}")]
    NothingInCommon {
        /// `innodb_sync_spin_loops = 30 at 1, 4 and 16 clients`.
        a: String,
        /// The same of B.
        b: String,
    },
}

impl Comparison {
    /// Sets two sweeps side by side, each with its name.
    ///
    /// # Errors
    /// They are of different workloads, or have no point in common.
    pub fn from_sweeps(a: (&str, &Sweep), b: (&str, &Sweep)) -> Result<Self, NotComparable> {
        let (workload_a, workload_b) = (workload(&a.1.conditions), workload(&b.1.conditions));
        if workload_a != workload_b {
            return Err(NotComparable::Workload { a: workload_a, b: workload_b });
        }
        let other = |line: &Line, sweep: &Sweep| {
            sweep.lines.iter().find(|other| other.setting == line.setting).cloned()
        };
        let only = |these: &Sweep, those: &Sweep| {
            let of_line = |line: &Line| {
                let there = other(line, those);
                let only_here = line
                    .points
                    .iter()
                    .filter(|point| there.as_ref().and_then(|there| there.at(point.threads)).is_none());
                only_here
                    .map(|point| Place { setting: line.setting.clone(), threads: point.threads })
                    .collect::<Vec<_>>()
            };
            these.lines.iter().flat_map(of_line).collect::<Vec<_>>()
        };
        let compared = |line: &Line| {
            let there = other(line, b.1)?;
            let point = |point: &Point| {
                let threads = point.threads;
                let found = there.at(threads)?;
                let ratios =
                    Ratios::from_runs(&runs(a.1, &line.setting, threads), &runs(b.1, &line.setting, threads));
                Some(ComparedPoint { threads, a: point.clone(), b: found.clone(), ratios })
            };
            let points: Vec<ComparedPoint> = line.points.iter().filter_map(point).collect();
            (!points.is_empty()).then(|| ComparedLine { setting: line.setting.clone(), points })
        };
        let lines: Vec<ComparedLine> = a.1.lines.iter().filter_map(compared).collect();
        if lines.is_empty() {
            return Err(NotComparable::NothingInCommon { a: what_it_has(a.1), b: what_it_has(b.1) });
        }
        let swept = |name: &str| [a.1, b.1].iter().any(|sweep| sweep.has_axis(name));
        let (differences, settings_of_one) = differences(&a.1.conditions, &b.1.conditions, &swept);
        let mut notes = Vec::new();
        for (letter, (_, sweep)) in [("A", a), ("B", b)] {
            notes.extend(what_is_unknown(letter, &sweep.conditions));
            notes.extend(sweep.notes.iter().map(|note| format!("{letter}: {note}")));
        }
        Ok(Self {
            schema: COMPARISON_SCHEMA.to_owned(),
            a: Side::from_sweep(a.0, a.1),
            b: Side::from_sweep(b.0, b.1),
            differences,
            settings_of_one,
            lines,
            only_a: only(a.1, b.1),
            only_b: only(b.1, a.1),
            notes,
        })
    }
}

impl Side {
    fn from_sweep(name: &str, sweep: &Sweep) -> Self {
        Self {
            name: name.to_owned(),
            start: sweep.cells.iter().map(|cell| cell.at).min(),
            runs: sweep.cells.len(),
            conditions: sweep.conditions.clone(),
        }
    }
}

impl Ratios {
    fn from_runs(a: &[&Measured], b: &[&Measured]) -> Self {
        let of = |pick: fn(&Measured) -> Option<f64>| {
            let values = |runs: &[&Measured]| runs.iter().filter_map(|run| pick(run)).collect::<Vec<f64>>();
            Ratio::from_runs(&values(a), &values(b))
        };
        Self {
            transactions_per_s: of(|run| Some(run.transactions_per_s)),
            queries_per_s: of(|run| Some(run.queries_per_s)),
            p95_ms: of(|run| run.p95_ms),
            cpu_us_per_query: of(|run| run.cpu_us_per_query),
            cycles_per_query: of(|run| run.cycles_per_query),
            cycles_per_instruction: of(|run| run.cycles_per_instruction),
        }
    }
}

fn runs<'a>(sweep: &'a Sweep, setting: &Setting, threads: u32) -> Vec<&'a Measured> {
    let is_of_point =
        |measured: &&Measured| measured.cell.setting == *setting && measured.cell.threads == threads;
    sweep.cells.iter().filter(is_of_point).collect()
}

/// What the clients did: `oltp_point_select on 4 tables of 10,000 rows`.
fn workload(conditions: &Conditions) -> String {
    format!(
        "{} on {} of {}",
        conditions.workload,
        number::counted(u64::from(conditions.tables), "table", "tables"),
        number::counted(u64::from(conditions.rows), "row", "rows")
    )
}

/// Settings and numbers of clients of a sweep, for the one who asks why nothing fits.
fn what_it_has(sweep: &Sweep) -> String {
    if sweep.cells.is_empty() {
        return "no run".to_owned();
    }
    let axes: Vec<String> = sweep
        .grid
        .axes
        .iter()
        .map(|axis| format!("{} = {}", axis.variable, axis.values.join(", ")))
        .collect();
    let settings = if axes.is_empty() { "the server as it is".to_owned() } else { axes.join("; ") };
    let threads: Vec<String> = sweep.grid.threads.iter().map(ToString::to_string).collect();
    format!("{settings} at {} clients", threads.join(", "))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::host::{CpuModel, PauseLatency};

    use super::*;
    use crate::sweep::{Axis, Cell, Grid};

    fn made(settings: &[(&str, &str)], pause_ns: f64) -> Conditions {
        let mut conditions = Conditions {
            server: "MySQL 5.7.26".to_owned(),
            workload: "oltp_write_only".to_owned(),
            tables: 4,
            rows: 10_000,
            ..Conditions::default()
        };
        conditions.hardware.cpu = Some(CpuModel { name: "a CPU".to_owned(), ..CpuModel::default() });
        conditions.hardware.pause = Some(PauseLatency { ns: pause_ns, ..PauseLatency::default() });
        conditions.hardware.kernel = Some("3.10.0".to_owned());
        conditions.settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        conditions
    }

    /// A sweep of `innodb_spin_wait_delay` with these values; `tps` gives each run's throughput.
    fn sweep(
        conditions: Conditions,
        values: &[&str],
        threads: &[u32],
        runs: u32,
        tps: impl Fn(&str, u32, u32) -> f64,
    ) -> Sweep {
        let axis = Axis {
            variable: "innodb_spin_wait_delay".to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let grid = Grid { axes: vec![axis], threads: threads.to_vec(), runs };
        let cells = grid.left(&[], &mut |_| 0);
        let measured = |cell: Cell| Measured {
            transactions_per_s: tps(&cell.setting.0[0].value, cell.threads, cell.run),
            p95_ms: Some(2.0),
            cpu_us_per_query: Some(3.0),
            cell,
            ..Measured::default()
        };
        Sweep::from_measured(conditions, grid, cells.into_iter().map(measured).collect(), Vec::new())
    }

    #[test]
    fn the_ratio_of_each_point_that_both_have_and_what_only_one_has() {
        let a = sweep(made(&[], 47.0), &["6", "100"], &[1, 64, 128], 3, |_, threads, run| {
            f64::from(100 * threads + run)
        });
        let b = sweep(made(&[], 47.0), &["6"], &[64, 128, 256], 3, |_, threads, run| {
            f64::from(150 * threads + run)
        });
        let compared = Comparison::from_sweeps(("a", &a), ("b", &b)).unwrap();
        assert_eq!(compared.lines.len(), 1);
        let points: Vec<u32> = compared.lines[0].points.iter().map(|point| point.threads).collect();
        assert_eq!(points, [64, 128]);
        for point in &compared.lines[0].points {
            let ratio = point.ratios.transactions_per_s.unwrap();
            assert!((ratio.ratio - 1.5).abs() < 0.001, "{ratio:?}");
            assert!(ratio.low.unwrap() < 1.5 && ratio.high.unwrap() > 1.499, "{ratio:?}");
            assert_eq!(ratio.is_more(), Some(true));
            assert_eq!(point.ratios.p95_ms.unwrap().ratio, 1.0);
            assert_eq!(point.ratios.cycles_per_query, None);
        }
        let places = |places: &[Place]| -> Vec<String> {
            places.iter().map(|place| format!("{} {}", place.setting.0[0].value, place.threads)).collect()
        };
        assert_eq!(places(&compared.only_a), ["6 1", "100 1", "100 64", "100 128"]);
        assert_eq!(places(&compared.only_b), ["6 256"]);
    }

    #[test]
    fn conditions_that_differ_are_listed_without_what_the_sweep_changes() {
        let a = made(&[("innodb_spin_wait_delay", "6"), ("sync_binlog", "1"), ("gone_in_8", "1")], 47.1);
        let mut b = made(&[("innodb_spin_wait_delay", "9"), ("sync_binlog", "0"), ("new_in_8", "1")], 14.7);
        b.hardware.kernel = Some("2.6.32".to_owned());
        let of = |conditions| sweep(conditions, &["6"], &[1], 1, |_, _, _| 1.0);
        let compared = Comparison::from_sweeps(("a", &of(a.clone())), ("b", &of(b))).unwrap();
        let what: Vec<&str> = compared.differences.iter().map(|found| found.what.as_str()).collect();
        assert_eq!(what, ["PAUSE", "kernel", "sync_binlog"]);
        assert_eq!(compared.settings_of_one, [vec!["gone_in_8".to_owned()], vec!["new_in_8".to_owned()]]);
        // 5 % apart is one measurement and another.
        let mut near = a.clone();
        near.hardware.pause.as_mut().unwrap().ns = 45.0;
        let compared = Comparison::from_sweeps(("a", &of(a)), ("near", &of(near))).unwrap();
        assert_eq!(compared.differences, []);
        assert_eq!(compared.notes, [] as [String; 0]);
    }

    #[test]
    fn a_file_of_before_says_what_it_does_not_know() {
        let old = Conditions { hardware: spindoctor_model::Machine::default(), ..made(&[], 47.0) };
        let of = |conditions| sweep(conditions, &["6"], &[1], 1, |_, _, _| 1.0);
        let compared =
            Comparison::from_sweeps(("a", &of(old)), ("b", &of(made(&[("x", "1")], 47.0)))).unwrap();
        assert_eq!(compared.notes.len(), 1, "{:?}", compared.notes);
        assert!(compared.notes[0].starts_with("A does not say the CPU, its PAUSE, the kernel, the settings"));
    }

    #[test]
    fn different_workloads_and_sweeps_without_a_common_point_are_refused() {
        let a = sweep(made(&[], 1.0), &["6"], &[1], 1, |_, _, _| 1.0);
        let mut b = a.clone();
        b.conditions.rows = 20_000;
        let why = Comparison::from_sweeps(("a", &a), ("b", &b)).unwrap_err().to_string();
        assert!(why.contains("oltp_write_only on 4 tables of 20,000 rows") && !why.contains('\n'), "{why}");
        let b = sweep(made(&[], 1.0), &["9"], &[4], 1, |_, _, _| 1.0);
        let why = Comparison::from_sweeps(("a", &a), ("b", &b)).unwrap_err().to_string();
        assert!(why.contains("innodb_spin_wait_delay = 9 at 4 clients"), "{why}");
    }
}
