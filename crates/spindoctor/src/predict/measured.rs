//! What was measured, from the JSON of a sweep or from a table.
//!
//! A table: a line for each number of connections, two numbers in it; titles, `#` comments, thousands apart by commas
//! within quotes, tabs and semicolons are as people paste them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use spindoctor_predict::{Flavor, Measured, Settings, Workload};
use spindoctor_tune::sweep::{Line, Point, SWEEP_SCHEMA, Setting, Sweep};

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
    /// Of a sweep of a throw-away server without a quota, whose clients run beside it: CPUs that the server used, by clients.
    pub server_cpus: Vec<(u32, f64)>,
    /// Of a sweep: the settings that the model knows, of the server and of the line that was taken.
    pub settings: Vec<(String, String)>,
}

/// Bytes that a file of measurements has at most.
const LARGEST_BYTES: u64 = 64 << 20;

/// Reads it. Of a sweep with several lines, the one that has the settings.
pub fn read(path: &Path, was: &[(String, String)]) -> anyhow::Result<Source> {
    let name = path.display();
    let length = fs::metadata(path).with_context(|| format!("could not read {name}"))?.len();
    if length > LARGEST_BYTES {
        bail!("{name} has {length} bytes: this is no table of measurements");
    }
    let text = fs::read_to_string(path).with_context(|| format!("could not read {name}"))?;
    let source = match text.trim_start().starts_with('{') {
        true => from_sweep(&text, was),
        false => from_table(&text),
    };
    source.with_context(|| format!("{name} cannot be used"))
}

fn from_sweep(text: &str, was: &[(String, String)]) -> anyhow::Result<Source> {
    let sweep: Sweep = serde_json::from_str(text).context("it is no JSON of `spindoctor sweep --json`")?;
    if sweep.schema != SWEEP_SCHEMA {
        bail!("its schema is {}, and {SWEEP_SCHEMA} is wanted", sweep.schema);
    }
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
    Ok(Source {
        points: checked(points.collect())?,
        flavor: flavor(&sweep.conditions.server),
        workload: Some(match sweep.conditions.workload.as_str() {
            "oltp_point_select" | "oltp_read_only" | "select_random_points" | "select_random_ranges" => {
                Workload::Reads
            }
            _ => Workload::Writes,
        }),
        quota_cpus: sweep.conditions.quota_cpus,
        cpus: sweep.conditions.hardware.cpus,
        server_cpus: server_cpus(&sweep, line),
        pause_ns: sweep.conditions.hardware.pause.as_ref().map(|pause| pause.ns),
        settings: made_with
            .chain(line.setting.0.iter().map(|it| (it.variable.clone(), it.value.clone())))
            .collect(),
    })
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

fn server_cpus(sweep: &Sweep, line: &Line) -> Vec<(u32, f64)> {
    let made = &sweep.conditions;
    if made.quota_cpus.is_some() || !made.address.contains("throw-away") {
        return Vec::new();
    }
    let used = |point: &Point| {
        Some((point.threads, point.cpu_us_per_query?.median * point.queries_per_s.median / 1e6))
    };
    line.points.iter().filter_map(used).collect()
}

/// `MySQL 9.7.4`, `MariaDB 10.11.8`
fn flavor(server: &str) -> Option<Flavor> {
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

fn from_table(text: &str) -> anyhow::Result<Source> {
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
        bail!("{} connections stand in it twice", twice[0].threads);
    }
    if let Some(wrong) =
        points.iter().find(|it| !it.throughput_per_s.is_finite() || it.throughput_per_s <= 0.0)
    {
        bail!("at {} connections there is no throughput above 0", wrong.threads);
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
            let points = from_table(text).unwrap().points;
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
            let refused = from_table(wrong).unwrap_err().to_string();
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
}
