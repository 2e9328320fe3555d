//! Trials of a setting against itself: whatever they find is wrong.
//!
//! All of them take more than an hour. Each one that has ended is kept in the lab's folder, so that a later call goes on where an earlier one
//! was broken off: Ctrl-C costs the run that is under way. Runs of another build do not count.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spindoctor_lab::kept::{self, OfBuild};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use super::connection;
use crate::page::Row;
use crate::paired::Spread;
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// Runs. A rate of 5 % of wrong ones cannot be shown by so few: that stands under truth-table, by simulation. They show that a real server's
/// noise does not make wrong ones common, and whether ten minutes are enough.
const REAL: usize = 8;
/// None may be wrong, and so many are to end with no significant effect: 80 % and more.
const LEAST: usize = 7;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "no-effect",
    of: &["crates/tune", "crates/spindoctor/src/tune"],
    minutes: 80,
    story: "`spindoctor tune --apply` with the same value on both sides: *helps* and *hurts* are false. A MySQL in memory \
            under 16 clients of sysbench's oltp_point_select, blocks of 0.1 s and 0.4 s, ten minutes a run at most, the default \
            margins. Simulated ones stand under truth-table.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let build = bench.spindoctor.build()?;
    let file = bench.home.root().join("bench/no-effect.jsonl");
    let mut runs: Vec<NullRun> = kept::of_build(&file, &build)?;
    runs.truncate(REAL);
    progress(&format!(
        "no-effect: {} of {REAL} runs of this build are kept in {}",
        runs.len(),
        file.display()
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
        "100ms",
        "--measure",
        "400ms",
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
        kept::append(&file, &run)?;
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

impl OfBuild for NullRun {
    fn build(&self) -> &str {
        &self.build
    }
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
        Row::goal(format!("false verdicts of {REAL}"), false_real.to_string(), "0", false_real == 0),
        Row::goal(
            format!("no significant effect, of {REAL}"),
            none.to_string(),
            format!(">= {LEAST}"),
            none >= LEAST,
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
