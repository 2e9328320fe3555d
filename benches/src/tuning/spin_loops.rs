//! The published sweep of `innodb_sync_spin_loops` over 1 to 1,024 clients, on this machine.

use std::fmt::Write as _;

use anyhow::Context as _;
use spindoctor_tune::sweep::{Line, Setting, Spread, Sweep};

use crate::page::Row;
use crate::{Bench, Benchmark, progress};

const THREADS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
const LOOPS: [&str; 2] = ["30", "200"];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "spin-loops",
    of: &["crates/lab/src/load", "crates/tune/src/sweep", "crates/spindoctor/src/sweep"],
    minutes: 4,
    story: "`spindoctor sweep --set innodb_sync_spin_loops=30,200 --threads 1,4,16,64,256,1024 --tables 4 \
            --seconds 4s --warmup 1s --runs 3`: a published sweep of sysbench's oltp_point_select, in which 200 \
            rounds doubled the throughput of 256 clients on a server of 2011 (kernel_mutex, which no server of \
            today has). Transactions a second: 30 rounds, then 200.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    progress("spin-loops: the sweep");
    let set = format!("innodb_sync_spin_loops={}", LOOPS.join(","));
    let threads = THREADS.map(|threads| threads.to_string()).join(",");
    let arguments =
        ["sweep", "--json", "--set", &set, "--threads", &threads, "--seconds", "4s", "--warmup", "1s"];
    let ran = bench.spindoctor.run(&arguments).await?;
    let sweep: Sweep = serde_json::from_value(ran.json).context("spindoctor printed no sweep")?;
    let line = |loops: &str| {
        let is_its = |setting: &Setting| setting.0.iter().all(|assigned| assigned.value == loops);
        sweep.lines.iter().find(|line| is_its(&line.setting)).context("a line is missing")
    };
    let lines: Vec<&Line> = LOOPS.into_iter().map(line).collect::<anyhow::Result<_>>()?;
    let mut rows: Vec<Row> = THREADS.into_iter().map(|threads| row(&lines, threads)).collect();
    for (loops, line) in LOOPS.iter().zip(&lines) {
        let mut text = match &line.scalability {
            Some(fit) => format!("contention {:.4}, coherency {:.6}", fit.alpha, fit.beta),
            None => line.not_fitted.clone().unwrap_or_default(),
        };
        if let Some(peak) = line.scalability.and_then(|fit| fit.peak_threads) {
            let _infallible = write!(text, ", highest at {peak:.0} clients");
        }
        rows.push(Row::plain(format!("Universal Scalability Law, {loops} rounds"), text));
    }
    rows.push(Row::plain("took", format!("{:.0} s", ran.took.as_secs_f64())));
    Ok(rows)
}

fn row(lines: &[&Line], threads: u32) -> Row {
    let cell = |line: &&Line| match line.at(threads) {
        Some(point) => {
            let Spread { median, low, high } = point.transactions_per_s;
            format!("{median:.0} ({low:.0} to {high:.0})")
        }
        None => "not measured".to_owned(),
    };
    let clients = if threads == 1 { "client" } else { "clients" };
    Row::plain(format!("{threads} {clients}"), lines.iter().map(cell).collect::<Vec<_>>().join("; "))
}
