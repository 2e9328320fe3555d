//! Trials of a setting against itself: whatever they find is wrong.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};
use spindoctor_tune::statistics::simulated::{Truth, tally};

use super::connection;
use crate::page::Row;
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
const SIMULATED: u32 = 200;
const REAL: usize = 20;
/// Of which so many may be wrong: 5 %.
const MOST: f64 = 0.05;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "no-effect",
    story: "`spindoctor tune --apply` with the same value on both sides: *helps* and *hurts* are false. Simulated: the \
            code that judges real trials, on a load with a memory and a drift, looked at after every quad, 40 quads at \
            most. Real: a MySQL in memory under 16 clients of sysbench's oltp_point_select, blocks of 0.3 s and 1 s, a \
            minute a run.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let simulated = tally(&Truth::default(), SIMULATED, 1);
    let false_simulated = simulated.helps + simulated.hurts;

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
        "60s",
    ];
    let flags = connection(&server);
    arguments.extend(flags.iter().map(String::as_str));
    let mut verdicts: Vec<String> = Vec::new();
    for run in 1..=REAL {
        progress(&format!("no-effect: run {run} of {REAL}"));
        load.check()?;
        let ran = bench.spindoctor.run(&arguments).await?;
        let verdict =
            ran.json.pointer("/verdict").and_then(Value::as_str).context("a trial has a verdict")?;
        verdicts.push(verdict.to_owned());
    }
    load.stop().await;
    server.stop()?;

    let count = |wanted: &str| verdicts.iter().filter(|verdict| *verdict == wanted).count();
    let false_real = count("helps") + count("hurts");
    Ok(vec![
        Row::goal(
            format!("simulated: false verdicts of {SIMULATED}"),
            false_simulated.to_string(),
            "<= 10",
            f64::from(false_simulated) <= MOST * f64::from(SIMULATED),
        ),
        Row::plain(
            "simulated: no significant effect, inconclusive",
            format!("{}, {}", simulated.no_effect, simulated.inconclusive),
        ),
        Row::goal(
            format!("real: false verdicts of {REAL}"),
            false_real.to_string(),
            "<= 1",
            false_real as f64 <= MOST * REAL as f64,
        ),
        Row::plain(
            "real: no significant effect, inconclusive",
            format!("{}, {}", count("no significant effect"), count("inconclusive")),
        ),
    ])
}
