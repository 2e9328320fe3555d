//! Trials of a setting against itself: whatever they find is wrong.

use std::time::Duration;

use anyhow::Context as _;
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
    let (mut verdicts, mut took, mut quads): (Vec<String>, Vec<f64>, Vec<f64>) = Default::default();
    let mut missing: Vec<String> = Vec::new();
    for run in 1..=REAL {
        progress(&format!("no-effect: run {run} of {REAL}"));
        load.check()?;
        let ran = bench.spindoctor.run(&arguments).await?;
        let verdict =
            ran.json.pointer("/verdict").and_then(Value::as_str).context("a trial has a verdict")?;
        verdicts.push(verdict.to_owned());
        took.push(ran.took.as_secs_f64());
        quads.extend(ran.json.pointer("/quads").and_then(Value::as_f64));
        let lacks = ran.json.pointer("/missing").and_then(Value::as_array).into_iter().flatten();
        missing.extend(lacks.filter_map(Value::as_str).map(str::to_owned));
    }
    load.stop().await;
    server.stop()?;

    let count = |wanted: &str| verdicts.iter().filter(|verdict| *verdict == wanted).count();
    let false_real = count("helps") + count("hurts");
    let none = count("no significant effect");
    let lacking = |quantity: &str| missing.iter().filter(|missing| *missing == quantity).count();
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
        Row::plain("a run took", Spread::of(&took).told("s")),
        Row::plain("and had", Spread::of(&quads).told("quads")),
    ])
}
