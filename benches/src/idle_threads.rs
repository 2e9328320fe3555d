//! The CPU time of ten snapshots per second where most threads are idle.

use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// Connections that do nothing.
const IDLE: usize = 950;
/// Clients of sysbench, and the queries a second of all of them: each works now and then, as clients do.
const BUSY: u32 = 50;
const RATE: u32 = 1000;
const TABLES: Tables = Tables { count: 4, rows: 10_000 };

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "idle-threads",
    of: &["crates/profile", "crates/stacks", "crates/spindoctor/src/stacks"],
    minutes: 3,
    story: "A MySQL with 1,000 connections: 950 idle, 50 of sysbench's oltp_point_select with 1,000 queries a second \
            in all. `spindoctor stacks --hz 10 --duration 60s`, CPU samples beside the snapshots: its own CPU time, \
            start-up, names and output included, over the time it ran.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec {
        tables: Some(TABLES),
        options: vec!["--max-connections=1100".into(), "--back-log=1000".into()],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(server.connect().await?);
    }
    let workload = Workload::OltpPointSelect;
    let load =
        Load::start(server.socket(), LoadSpec { workload, threads: BUSY, rate: Some(RATE), tables: TABLES })?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;

    let pid = server.pid().to_string();
    let (mut core, mut memory, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = bench.runs.div_ceil(6);
    for round in 1..=rounds {
        progress(&format!("idle-threads: round {round} of {rounds}"));
        let ran = bench
            .spindoctor
            .run(&["stacks", "--pid", &pid, "--json", "--hz", "10", "--duration", "60s"])
            .await?;
        core.push(100.0 * ran.number("/own_cpu_ms")? / 1e3 / ran.took.as_secs_f64());
        memory.push(ran.resident_mib);
        snapshots.push(ran.number("/snapshot_ms/p50")?);
    }
    load.stop().await;
    drop(idle);
    server.stop()?;

    let (core, memory) = (Spread::from_values(&core), Spread::from_values(&memory));
    Ok(vec![
        Row::goal("CPU of spindoctor", core.text("% of a core"), "<= 2 %", core.median <= 2.0),
        Row::goal("resident memory", memory.text("MiB"), "<= 150 MiB", memory.most <= 150.0),
        Row::plain("one snapshot", Spread::from_values(&snapshots).text("ms")),
        Row::plain("idle connections", short(IDLE as f64)),
    ])
}
