//! What was measured, from the JSON of a sweep, from a recording ([`recorded`]) or from a table.
//!
//! A table: a line for each number of connections, two numbers in it; titles, `#` comments, thousands apart by commas
//! within quotes, tabs and semicolons are as people paste them.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use spindoctor_collect::host::cpu_list::{CpuSet, parse_cpu_list};
use spindoctor_predict::{Flavor, Measured, Settings, Workload};
use spindoctor_tune::sweep::axes::{CPUSET, QUOTA, WORKLOAD, is_axis};
use spindoctor_tune::sweep::{Line, Point, SWEEP_SCHEMA, Setting, Sweep};

use super::recorded;
use crate::common::flags;
use spindoctor_page::number;

/// A file of measurements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Source {
    /// In the order of connections.
    pub points: Vec<Measured>,
    /// Of a sweep: whose server.
    pub flavor: Option<Flavor>,
    /// Of a sweep: what the clients did.
    pub workload: Option<Workload>,
    /// Of a sweep: the quota, CPUs.
    pub quota_cpus: Option<f64>,
    /// Of a sweep: the CPUs that the server could run on.
    pub cpus: Option<u32>,
    /// Of a sweep: one PAUSE, nanoseconds.
    pub pause_ns: Option<f64>,
    /// Of a sweep of a throw-away server whose quota does not limit it, and whose clients run beside it: CPUs that the server
    /// used, by clients.
    pub server_cpus: Vec<(u32, f64)>,
    /// Of a sweep: the settings that the model knows, of the server and of the line that was taken.
    pub settings: Vec<(String, String)>,
    /// Of a recording: from when to when, how many slices of it were taken, and what was left out.
    pub note: Option<String>,
}

/// Bytes that a file of measurements has at most.
const LARGEST_BYTES: u64 = 64 << 20;

/// Reads it. Of a sweep with several lines, the one that has the settings.
pub fn read(path: &Path, was: &[(String, String)]) -> anyhow::Result<Source> {
    let name = path.display();
    if recorded::is_one(path) {
        expect_varied(was, |_| false)?;
        return recorded::read(path).with_context(|| format!("{name} cannot be used"));
    }
    let failed = || format!("could not read {name}, as a table of measurements");
    let bytes = spindoctor_safefile::read_named(path, LARGEST_BYTES).with_context(failed)?;
    let text = String::from_utf8(bytes).with_context(failed)?;
    let source = match text.trim_start().starts_with('{') {
        true => from_sweep(&text, was),
        false => from_table(&text, was),
    };
    source.with_context(|| format!("{name} cannot be used"))
}

/// Fails where a name of `--was` is an axis that was not varied.
fn expect_varied(was: &[(String, String)], is_varied: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    match was.iter().find(|(name, _)| is_axis(name) && !is_varied(name)) {
        Some((name, _)) => bail!(
            "it has no {name} to choose by; --measured-on says what the CPUs and the quota were, and --workload what clients did"
        ),
        None => Ok(()),
    }
}

fn from_sweep(text: &str, was: &[(String, String)]) -> anyhow::Result<Source> {
    let sweep: Sweep = serde_json::from_str(text).context("it is no JSON of `spindoctor sweep --json`")?;
    if sweep.schema != SWEEP_SCHEMA {
        bail!("its schema is {}, and {SWEEP_SCHEMA} is wanted", sweep.schema);
    }
    expect_varied(was, |name| sweep.has_axis(name))?;
    let has = |setting: &Setting| {
        was.iter().all(|(variable, value)| {
            let mut of_variable = setting.0.iter().filter(|it| it.variable.eq_ignore_ascii_case(variable));
            of_variable.all(|it| it.value == *value)
        })
    };
    let mut lines = sweep.lines.iter().filter(|line| has(&line.setting));
    let (Some(line), None) = (lines.next(), lines.next()) else {
        let texts: Vec<String> = sweep.lines.iter().map(|line| line.setting.text()).collect();
        bail!(
            "one setting of it is fitted, and the others are for comparison: name it with --was VAR=VALUE; it has {}",
            texts.join("; ")
        );
    };
    let points = line
        .points
        .iter()
        .map(|point| Measured { threads: point.threads, throughput_per_s: point.transactions_per_s.median });
    // Of all variables of the server, those that the model knows; the line's own settings come after them.
    let made_with = Settings::variables().into_iter().filter_map(|variable| {
        let value = sweep.conditions.settings.get(variable)?;
        Some((variable.to_owned(), value.clone()))
    });
    let made = &sweep.conditions;
    let quota_cpus = match line.setting.value(QUOTA) {
        Some("none") => None,
        Some(cpus) => Some(flags::cpus(cpus).map_err(|why| anyhow!("its quota of {cpus}: {why}"))?),
        None => made.quota_cpus,
    };
    let cpus = line.setting.value(CPUSET).map_or(made.hardware.cpus, cpus_of_set);
    Ok(Source {
        points: checked(points.collect())?,
        flavor: flavor(&made.server),
        workload: Some(match line.setting.value(WORKLOAD).unwrap_or(&made.workload) {
            "oltp_point_select" | "oltp_read_only" | "select_random_points" | "select_random_ranges" => {
                Workload::Reads
            }
            _ => Workload::Writes,
        }),
        quota_cpus,
        cpus,
        server_cpus: server_cpus(&sweep, line, quota_cpus, cpus),
        pause_ns: made.hardware.pause.as_ref().map(|pause| pause.ns),
        settings: made_with
            .chain(line.setting.variables().map(|it| (it.variable.clone(), it.value.clone())))
            .collect(),
        note: None,
    })
}

/// How many CPUs `0-1+4` are; none of whole nodes, which only the machine knows.
fn cpus_of_set(text: &str) -> Option<u32> {
    let mut all = CpuSet::new();
    for part in text.split('+') {
        all.extend(parse_cpu_list(part)?);
    }
    u32::try_from(all.len()).ok().filter(|cpus| *cpus > 0)
}

impl Source {
    /// The server's part of the CPU time: what it used where twice as many clients as CPUs, and more, keep all CPUs busy, the
    /// middle of those numbers of clients. All of it where the clients did not run beside it.
    pub fn server_share(&self, cpus: u32) -> f64 {
        let busy = self.server_cpus.iter().filter(|(threads, _)| *threads >= 2 * cpus);
        let mut shares: Vec<f64> = busy.map(|(_, used)| used / f64::from(cpus)).collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() / 2).map_or(1.0, |share| share.clamp(0.05, 1.0))
    }
}

fn server_cpus(sweep: &Sweep, line: &Line, quota_cpus: Option<f64>, cpus: Option<u32>) -> Vec<(u32, f64)> {
    // As much as there is limits nothing.
    let is_limited = quota_cpus.is_some_and(|quota| cpus.is_none_or(|cpus| quota < f64::from(cpus)));
    if is_limited || !sweep.conditions.address.contains("throw-away") {
        return Vec::new();
    }
    let used = |point: &Point| {
        Some((point.threads, point.cpu_us_per_query?.median * point.queries_per_s.median / 1e6))
    };
    line.points.iter().filter_map(used).collect()
}

/// `MySQL 9.7.4`, `MariaDB 10.11.8`
pub fn flavor(server: &str) -> Option<Flavor> {
    if server.to_ascii_lowercase().contains("mariadb") {
        return Some(Flavor::Mariadb);
    }
    let version = server.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next()??, numbers.next().flatten().unwrap_or(0)) {
        (5, ..6) => Some(Flavor::Mysql55),
        (5, _) => Some(Flavor::Mysql57),
        (8.., _) => Some(Flavor::Mysql80),
        _ => None,
    }
}

fn from_table(text: &str, was: &[(String, String)]) -> anyhow::Result<Source> {
    expect_varied(was, |_| false)?;
    let mut points = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let cells: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|'))
            .map(|cell| cell.trim_matches('"'))
            .filter(|cell| !cell.is_empty())
            .collect();
        let numbers: Option<Vec<f64>> = cells.iter().map(|cell| cell.parse().ok()).collect();
        match numbers.as_deref() {
            None if points.is_empty() => {}
            Some([]) => {}
            Some([threads, throughput_per_s]) if threads.fract() == 0.0 && (1.0..=1e5).contains(threads) => {
                points.push(Measured { threads: *threads as u32, throughput_per_s: *throughput_per_s });
            }
            _ => bail!("line {}: two numbers are wanted, connections and transactions a second", at + 1),
        }
    }
    Ok(Source { points: checked(points)?, ..Source::default() })
}

/// In order, each number of connections once, all of them above nothing.
fn checked(mut points: Vec<Measured>) -> anyhow::Result<Vec<Measured>> {
    points.sort_by_key(|point| point.threads);
    if points.is_empty() {
        bail!("it has no measurement");
    }
    if let Some(twice) = points.windows(2).find(|two| two[0].threads == two[1].threads) {
        let threads = u64::from(twice[0].threads);
        bail!("{} in it twice", number::counted(threads, "connection stands", "connections stand"));
    }
    if let Some(wrong) =
        points.iter().find(|it| !it.throughput_per_s.is_finite() || it.throughput_per_s <= 0.0)
    {
        let connections = number::counted(u64::from(wrong.threads), "connection", "connections");
        bail!("at {connections} there is no throughput above 0");
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_people_paste_them() {
        for text in [
            "Threads Throughput\n1 11178.34\n2\t27741.06\n",
            "threads,tps\n2,27741.06\n1,11178.34\n",
            "# measured on Monday\n1;11178.34 # one\n\n| 2 | 27741.06 |",
        ] {
            let points = from_table(text, &[]).unwrap().points;
            let numbers: Vec<_> = points.iter().map(|it| (it.threads, it.throughput_per_s)).collect();
            assert_eq!(numbers, [(1, 11_178.34), (2, 27_741.06)], "{text}");
        }
        for (wrong, says) in [
            ("", "no measurement"),
            ("1 2 3", "two numbers"),
            ("1 2\nmany", "line 2"),
            ("1 2\n1 3", "twice"),
            ("1 0", "above 0"),
            ("1 nan", "above 0"),
            ("1.5 2", "two numbers"),
        ] {
            let refused = from_table(wrong, &[]).unwrap_err().to_string();
            assert!(refused.contains(says), "{wrong}: {refused}");
        }
    }

    #[test]
    fn a_sweeps_server_says_whose_code_it_is() {
        assert_eq!(flavor("MySQL 9.7.4"), Some(Flavor::Mysql80));
        assert_eq!(flavor("MySQL 5.7.44"), Some(Flavor::Mysql57));
        assert_eq!(flavor("MySQL 5.5.62"), Some(Flavor::Mysql55));
        assert_eq!(flavor("MariaDB 10.11.8"), Some(Flavor::Mariadb));
        assert_eq!(flavor(""), None);
    }

    #[test]
    fn of_a_sweep_with_several_settings_one_is_named() {
        use spindoctor_tune::sweep::{Assigned, Conditions, Spread, Sweep as Whole};
        let line = |value: &str| Line {
            setting: Setting(vec![Assigned {
                variable: "innodb_sync_spin_loops".to_owned(),
                value: value.to_owned(),
            }]),
            points: vec![Point {
                threads: 4,
                transactions_per_s: Spread { median: 100.0, low: 90.0, high: 110.0 },
                ..Point::default()
            }],
            scalability: None,
            not_fitted: None,
        };
        let sweep = Whole {
            schema: SWEEP_SCHEMA.to_owned(),
            conditions: Conditions {
                server: "MySQL 9.7.4".to_owned(),
                workload: "oltp_point_select".to_owned(),
                quota_cpus: Some(2.0),
                settings: [("innodb_spin_wait_delay", "7"), ("innodb_io_capacity", "200")]
                    .map(|(variable, value)| (variable.to_owned(), value.to_owned()))
                    .into(),
                ..Conditions::default()
            },
            grid: Default::default(),
            lines: vec![line("30"), line("200")],
            notes: Vec::new(),
            cells: Vec::new(),
        };
        let text = serde_json::to_string(&sweep).unwrap();
        let refused = from_sweep(&text, &[]).unwrap_err().to_string();
        assert!(refused.contains("--was") && refused.contains("innodb_sync_spin_loops = 200"), "{refused}");
        let was = [("innodb_sync_spin_loops".to_owned(), "200".to_owned())];
        let source = from_sweep(&text, &was).unwrap();
        let settings: Vec<(&str, &str)> =
            source.settings.iter().map(|(variable, value)| (variable.as_str(), value.as_str())).collect();
        assert_eq!(settings, [("innodb_spin_wait_delay", "7"), ("innodb_sync_spin_loops", "200")]);
        assert_eq!(source.workload, Some(Workload::Reads));
        assert_eq!((source.quota_cpus, source.flavor), (Some(2.0), Some(Flavor::Mysql80)));
    }

    #[test]
    fn of_a_sweep_that_varied_the_quota_one_is_named_and_its_server_s_share_is_known() {
        use spindoctor_model::Machine;
        use spindoctor_tune::sweep::{Assigned, Axis, Conditions, Grid, Spread, Sweep as Whole};
        let line = |quota: &str| Line {
            setting: Setting(vec![
                Assigned { variable: QUOTA.to_owned(), value: quota.to_owned() },
                Assigned { variable: CPUSET.to_owned(), value: "0-1".to_owned() },
                Assigned { variable: WORKLOAD.to_owned(), value: "oltp_update_index".to_owned() },
            ]),
            points: vec![Point {
                threads: 16,
                transactions_per_s: Spread { median: 100.0, low: 90.0, high: 110.0 },
                queries_per_s: Spread { median: 10_000.0, low: 9_000.0, high: 11_000.0 },
                cpu_us_per_query: Some(Spread { median: 120.0, low: 110.0, high: 130.0 }),
                ..Point::default()
            }],
            scalability: None,
            not_fitted: None,
        };
        let axis = |variable: &str| Axis { variable: variable.to_owned(), values: Vec::new() };
        let sweep = Whole {
            schema: SWEEP_SCHEMA.to_owned(),
            conditions: Conditions {
                server: "MySQL 9.7.4".to_owned(),
                address: "a throw-away server".to_owned(),
                workload: "oltp_point_select".to_owned(),
                hardware: Machine { cpus: Some(4), ..Machine::default() },
                ..Conditions::default()
            },
            grid: Grid { axes: [QUOTA, CPUSET, WORKLOAD].map(axis).to_vec(), ..Grid::default() },
            lines: ["2", "1", "none"].map(line).to_vec(),
            notes: Vec::new(),
            cells: Vec::new(),
        };
        let text = serde_json::to_string(&sweep).unwrap();
        let of_quota = |quota: &str| from_sweep(&text, &[(QUOTA.to_owned(), quota.to_owned())]).unwrap();
        let whole = of_quota("2");
        assert_eq!(
            (whole.quota_cpus, whole.cpus, whole.workload),
            (Some(2.0), Some(2), Some(Workload::Writes))
        );
        assert_eq!(whole.server_cpus, [(16, 1.2)]);
        assert!((whole.server_share(2) - 0.6).abs() < 1e-9);
        assert_eq!((of_quota("1").server_cpus, of_quota("none").quota_cpus), (Vec::new(), None));
        assert!(whole.settings.is_empty(), "what is no variable is no setting: {:?}", whole.settings);
        let refused = from_table("1 2", &[(QUOTA.to_owned(), "2".to_owned())]).unwrap_err().to_string();
        assert!(refused.contains("no quota to choose by") && refused.contains("--measured-on"), "{refused}");
        assert_eq!((cpus_of_set("0-1+4"), cpus_of_set("node0"), cpus_of_set("")), (Some(3), None, None));
    }
}
