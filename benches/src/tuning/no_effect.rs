//! Trials of a setting against itself: whatever they find is wrong.
//!
//! All of them take hours. Each one that has ended is kept in the lab's folder, so that a later call goes on where an earlier one
//! was broken off: Ctrl-C costs the run that is under way. Runs of another build do not count.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use super::connection;
use crate::page::Row;
use crate::paired::Spread;
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
const REAL: usize = 20;
/// Of which so many may be wrong: 5 %.
const MOST: f64 = 0.05;
/// And so many are to end with no significant effect.
const LEAST: f64 = 0.80;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "no-effect",
    story: "`spindoctor tune --apply` with the same value on both sides: *helps* and *hurts* are false. A MySQL in memory \
            under 16 clients of sysbench's oltp_point_select, blocks of 0.3 s and 1 s, ten minutes a run at most, the default \
            margins. Simulated ones stand under truth-table.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let build = bench.spindoctor.build()?;
    let kept: PathBuf = bench.home.root().join("bench/no-effect.jsonl");
    let mut runs = kept_runs(&kept, &build).with_context(|| format!("could not read {}", kept.display()))?;
    progress(&format!(
        "no-effect: {} of {REAL} runs of this build are kept in {}",
        runs.len(),
        kept.display()
    ));
    if runs.len() == REAL {
        return rows(&runs);
    }
    let spec = ServerSpec { tables: Some(TABLES), ..ServerSpec::default() };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let workload = Workload::OltpPointSelect;
    let mut load =
        Load::start(server.socket(), LoadSpec { workload, threads: 16, rate: None, tables: TABLES })?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut arguments = vec![
        "tune",
        "--apply",
        "--json",
        "--only",
        "innodb_spin_wait_delay=6",
        "--settle",
        "300ms",
        "--measure",
        "1s",
        "--max-time",
        "10m",
    ];
    let flags = connection(&server);
    arguments.extend(flags.iter().map(String::as_str));
    for run in runs.len() + 1..=REAL {
        progress(&format!("no-effect: run {run} of {REAL}"));
        load.check()?;
        let ran = bench.spindoctor.run(&arguments).await?;
        let text = |pointer| ran.json.pointer(pointer).and_then(Value::as_str);
        let lacks = ran.json.pointer("/missing").and_then(Value::as_array).into_iter().flatten();
        let run = NullRun {
            build: build.clone(),
            at: Timestamp::now(),
            verdict: text("/verdict").context("a trial has a verdict")?.to_owned(),
            took_s: ran.took.as_secs_f64(),
            quads: ran.json.pointer("/quads").and_then(Value::as_f64),
            missing: lacks.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        keep(&kept, &run).with_context(|| format!("could not write {}", kept.display()))?;
        runs.push(run);
    }
    load.stop().await;
    server.stop()?;
    rows(&runs)
}

/// A run that has ended.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NullRun {
    build: String,
    at: Timestamp,
    verdict: String,
    took_s: f64,
    quads: Option<f64>,
    /// About which quantities there was not enough evidence.
    missing: Vec<String>,
}

/// The runs of a build that are kept in a file, one a line; none where there is no file.
fn kept_runs(file: &Path, build: &str) -> anyhow::Result<Vec<NullRun>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let runs = text.lines().map(serde_json::from_str).collect::<Result<Vec<NullRun>, _>>()?;
    Ok(runs.into_iter().filter(|run| run.build == build).take(REAL).collect())
}

fn keep(file: &Path, run: &NullRun) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let line = serde_json::to_string(run)? + "\n";
    Ok(OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())?)
}

fn rows(runs: &[NullRun]) -> anyhow::Result<Vec<Row>> {
    let count = |wanted: &str| runs.iter().filter(|run| run.verdict == wanted).count();
    let false_real = count("helps") + count("hurts");
    let none = count("no significant effect");
    let lacking = |quantity: &str| {
        runs.iter().flat_map(|run| &run.missing).filter(|missing| *missing == quantity).count()
    };
    let took: Vec<f64> = runs.iter().map(|run| run.took_s).collect();
    let quads: Vec<f64> = runs.iter().filter_map(|run| run.quads).collect();
    let (first, last) =
        (runs.first().context("there is a run")?.at, runs.last().context("there is a run")?.at);
    Ok(vec![
        Row::goal(
            format!("false verdicts of {REAL}"),
            false_real.to_string(),
            "<= 1",
            false_real as f64 <= MOST * REAL as f64,
        ),
        Row::goal(
            format!("no significant effect, of {REAL}"),
            none.to_string(),
            ">= 16",
            none as f64 >= LEAST * REAL as f64,
        ),
        Row::plain("inconclusive", count("inconclusive").to_string()),
        Row::plain(
            "not enough evidence about throughput, p95, CPU per query",
            ["throughput", "p95", "cpu_per_query"].map(|quantity| lacking(quantity).to_string()).join(", "),
        ),
        Row::plain(
            "ended from, to",
            format!("{}, {}", first.strftime("%F %R UTC"), last.strftime("%F %R UTC")),
        ),
        Row::plain("a run took", Spread::from_values(&took).text("s")),
        Row::plain("and had", Spread::from_values(&quads).text("quads")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_call_goes_on_with_the_runs_of_its_own_build() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench/no-effect.jsonl");
        assert_eq!(kept_runs(&file, "this").unwrap(), []);
        let run = |build: &str, took_s| NullRun {
            build: build.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            verdict: "no significant effect".to_owned(),
            took_s,
            quads: Some(12.0),
            missing: vec!["p95".to_owned()],
        };
        for (build, took_s) in [("this", 1.0), ("other", 2.0), ("this", 3.0)] {
            keep(&file, &run(build, took_s)).unwrap();
        }
        assert_eq!(kept_runs(&file, "this").unwrap(), [run("this", 1.0), run("this", 3.0)]);
    }
}
