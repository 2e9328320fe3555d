//! Two sweeps side by side: what their conditions differ in, and the ratio of each quantity at each point that both have.
//!
//! In: two sweeps of one workload, each with its name. Out: a [`Comparison`]: B by A, with an interval. Pure.
//!
//! Of each quantity the ratio is that of the geometric means of the runs, and its interval is Welch's for the difference of
//! two means ("The generalization of Student's problem when several different population variances are involved",
//! Biometrika 34, 1947), on the logarithms, with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946): the
//! runs of two machines have no reason to spread alike, and none of them is a pair of another. It takes the runs of a point
//! as independent, which the random order within a sweep makes them; each interval is for its own point, so that of
//! twenty points without any difference one is expected to leave 1 out.

use std::collections::BTreeMap;

use distrs::StudentsT;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::number;

use super::{Conditions, Line, Measured, Point, Setting, Sweep};
use crate::statistics::interval::ALPHA;

/// Name and version of the serialised form of a [`Comparison`]: fields may be added, none is renamed or removed.
pub const COMPARISON_SCHEMA: &str = "spindoctor.sweep-comparison/1";

/// Two measurements of PAUSE on one machine that differ by less are the same: clocks of idle and of busy cores differ by as
/// much. Chosen, not derived.
const SAME_PAUSE: f64 = 0.1;

/// Two sweeps side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: String,
    /// The one that is compared with.
    pub a: Side,
    /// The one that is compared: ratios are its numbers by A's.
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
    /// Whose it is: its file.
    pub name: String,
    /// When its first run began; none where it has no run.
    pub start: Option<Timestamp>,
    /// How many runs it has.
    pub runs: usize,
    /// What it was made with.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// A condition that was not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Which: `CPU`, `kernel`, `innodb_spin_wait_delay`.
    pub what: String,
    /// A's.
    pub a: String,
    /// B's.
    pub b: String,
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
    /// B by A.
    pub ratios: Ratios,
}

/// B by A, of each quantity that both measured.
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

/// B by A, of one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of the geometric means.
    pub ratio: f64,
    /// Where its 95 % interval begins; none where one side has a single run.
    pub low: Option<f64>,
    /// Where it ends.
    pub high: Option<f64>,
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

impl Ratio {
    /// Whether B has clearly more (true) or less (false); none where the interval has 1 in it, or there is none.
    pub fn is_more(&self) -> Option<bool> {
        match (self.low?, self.high?) {
            (low, _) if low > 1.0 => Some(true),
            (_, high) if high < 1.0 => Some(false),
            _ => None,
        }
    }

    /// From the runs of both; none where one has none that is above zero.
    fn from_runs(a: &[f64], b: &[f64]) -> Option<Self> {
        let (a, b) = (Logarithms::from_runs(a)?, Logarithms::from_runs(b)?);
        let mean = b.mean - a.mean;
        let half = a.half_width(&b);
        let ratio = mean.exp();
        let (low, high) = (half.map(|half| (mean - half).exp()), half.map(|half| (mean + half).exp()));
        let is_finite = [Some(ratio), low, high].into_iter().flatten().all(f64::is_finite);
        is_finite.then_some(Self { ratio, low, high })
    }
}

/// The mean of logarithms, and the variance of that mean.
struct Logarithms {
    count: f64,
    mean: f64,
    /// None of a single one.
    variance_of_mean: Option<f64>,
}

impl Logarithms {
    fn from_runs(runs: &[f64]) -> Option<Self> {
        let logs: Vec<f64> =
            runs.iter().map(|run| run.ln()).filter(|ln: &f64| ln.is_finite()).collect::<Vec<_>>();
        if logs.is_empty() {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|ln| (ln - mean).powi(2)).sum();
        Some(Self { count, mean, variance_of_mean: (count > 1.0).then(|| squares / (count - 1.0) / count) })
    }

    /// Half of Welch's interval for the difference of two means.
    fn half_width(&self, other: &Self) -> Option<f64> {
        let (one, two) = (self.variance_of_mean?, other.variance_of_mean?);
        let both = one + two;
        if both == 0.0 {
            return Some(0.0);
        }
        let part = |variance: f64, count: f64| variance.powi(2) / (count - 1.0);
        let degrees = both.powi(2) / (part(one, self.count) + part(two, other.count));
        // Between the smaller number of degrees and the sum of both, whatever the rounding.
        let degrees = degrees.clamp(self.count.min(other.count) - 1.0, self.count + other.count - 2.0);
        Some(StudentsT::ppf(1.0 - ALPHA / 2.0, degrees) * both.sqrt())
    }
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

/// Conditions that differ, and settings that only one of the two has. What either sweep changes itself is no condition.
fn differences(
    a: &Conditions,
    b: &Conditions,
    swept: &dyn Fn(&str) -> bool,
) -> (Vec<Difference>, [Vec<String>; 2]) {
    let mut found = Vec::new();
    let mut differ = |what: &str, a: Option<String>, b: Option<String>| {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            found.push(Difference { what: what.to_owned(), a, b });
        }
    };
    let of = |of: &dyn Fn(&Conditions) -> Option<String>| (of(a), of(b));
    let (one, two) = of(&|made| made.hardware.cpu_text());
    differ("CPU", one, two);
    let (one, two) = of(&|made| Some(number::counted(u64::from(made.hardware.cpus?), "CPU", "CPUs")));
    differ("CPUs of the server", one, two);
    if let (Some(one), Some(two)) = (&a.hardware.pause, &b.hardware.pause)
        && (one.ns / two.ns).ln().abs() >= SAME_PAUSE
    {
        differ("PAUSE", a.hardware.pause_text(), b.hardware.pause_text());
    }
    let (one, two) = of(&|made| made.hardware.kernel.clone());
    differ("kernel", one, two);
    // It has all of the above in one text; where that is known by itself, the rest of it is the memory.
    let is_known = a.hardware.cpu.is_some() && b.hardware.cpu.is_some();
    let is_named = ["CPU", "CPUs of the server", "kernel"];
    if !is_known || !found.iter().any(|difference| is_named.contains(&difference.what.as_str())) {
        let mut differ = |what: &str, a: &str, b: &str| {
            if a != b {
                found.push(Difference { what: what.to_owned(), a: a.to_owned(), b: b.to_owned() });
            }
        };
        differ("machine of the clients", &a.machine, &b.machine);
    }
    let quota = |made: &Conditions| {
        let quota = made.quota_cpus.or(made.hardware.quota_cpus);
        quota.map_or("none".to_owned(), |cpus| number::quantity(cpus, "CPUs"))
    };
    let seconds = |seconds: f64| number::duration(seconds);
    let others = [
        ("quota", quota(a), quota(b)),
        ("server", a.server.clone(), b.server.clone()),
        ("address", a.address.clone(), b.address.clone()),
        ("options", a.options.join(" "), b.options.join(" ")),
        ("warm-up", seconds(a.warmup_s), seconds(b.warmup_s)),
        ("measured time", seconds(a.measured_s), seconds(b.measured_s)),
    ];
    for (what, one, two) in others {
        if one != two && !swept(what) {
            found.push(Difference { what: what.to_owned(), a: one, b: two });
        }
    }
    let mut of_one: [Vec<String>; 2] = Default::default();
    if !a.settings.is_empty() && !b.settings.is_empty() {
        for (name, value) in &a.settings {
            match b.settings.get(name) {
                _ if swept(name) => {}
                None => of_one[0].push(name.clone()),
                Some(other) if other == value => {}
                Some(other) => {
                    found.push(Difference { what: name.clone(), a: value.clone(), b: other.clone() });
                }
            }
        }
        of_one[1] = missing(&b.settings, &a.settings, swept);
    }
    (found, of_one)
}

fn missing(
    of: &BTreeMap<String, String>,
    from: &BTreeMap<String, String>,
    swept: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    of.keys().filter(|name| !from.contains_key(*name) && !swept(name)).cloned().collect()
}

/// What cannot be compared because one of the two does not say it.
fn what_is_unknown(letter: &str, made: &Conditions) -> Option<String> {
    let unknown: Vec<&str> = [
        (made.hardware.cpu.is_none(), "the CPU"),
        (made.hardware.pause.is_none(), "its PAUSE"),
        (made.hardware.kernel.is_none(), "the kernel"),
        (made.settings.is_empty(), "the settings"),
    ]
    .into_iter()
    .filter_map(|(is_unknown, what)| is_unknown.then_some(what))
    .collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "{letter} does not say {} of its server: it was swept from another host, or by an older spindoctor",
            unknown.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    #[test]
    fn one_run_has_a_ratio_and_no_interval() {
        let one = Ratio::from_runs(&[2.0], &[3.0, 3.0]).unwrap();
        assert!((one.ratio - 1.5).abs() < 1e-9 && one.low.is_none() && one.high.is_none(), "{one:?}");
        assert_eq!(one.is_more(), None);
        assert_eq!(Ratio::from_runs(&[0.0, f64::NAN, -1.0], &[3.0]), None);
        assert_eq!(Ratio::from_runs(&[2.0; 2], &[3.0; 2]).unwrap().is_more(), Some(true));
    }

    /// Welch's interval of 3 and 3 runs, by hand: logarithms 0, 0.1, 0.2 and 1, 1.2, 1.4. Variances of the means 1/300 and
    /// 4/300, degrees (5/300)^2 / ((1/300)^2 / 2 + (4/300)^2 / 2) = 2.941; t(0.975) is 3.2188 (the density integrated by Simpson's rule).
    #[test]
    fn the_interval_is_welchs() {
        let exp = |logs: [f64; 3]| logs.map(f64::exp);
        let ratio = Ratio::from_runs(&exp([0.0, 0.1, 0.2]), &exp([1.0, 1.2, 1.4])).unwrap();
        let half = 3.2188 * (5.0_f64 / 300.0).sqrt();
        assert!((ratio.ratio.ln() - 1.1).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.high.unwrap().ln() - 1.1 - half).abs() < 2e-3, "{ratio:?} {half}");
    }

    /// How often the truth is within the interval, of pairs of three runs whose spreads differ by a factor of three.
    #[test]
    fn the_interval_has_the_truth_in_nineteen_of_twenty() {
        let mut random = crate::statistics::simulated::Random::seeded(7);
        let mut runs = |mean: f64, sd: f64| -> Vec<f64> {
            (0..3).map(|_| (mean + sd * random.normal()).exp()).collect()
        };
        let (mut inside, all) = (0, 4_000);
        for _ in 0..all {
            let ratio = Ratio::from_runs(&runs(5.0, 0.02), &runs(5.4, 0.06)).unwrap();
            let truth = 0.4_f64.exp();
            inside += u32::from((ratio.low.unwrap()..=ratio.high.unwrap()).contains(&truth));
        }
        let share = f64::from(inside) / f64::from(all);
        assert!((0.935..=0.985).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn hostile_runs_are_no_reason_to_panic(
            a in proptest::collection::vec(any::<f64>(), 0..5),
            b in proptest::collection::vec(any::<f64>(), 0..5),
        ) {
            if let Some(ratio) = Ratio::from_runs(&a, &b) {
                prop_assert!(ratio.ratio.is_finite());
                prop_assert!(ratio.low.is_none_or(|low| low <= ratio.ratio * (1.0 + 1e-9)));
            }
        }
    }
}
