//! A steady load for long: it counts false alarms.

use std::time::Instant;

use spindoctor_lab::load::Workload;
use spindoctor_record::Recording;

use super::ground::Ground;
use super::looker::{Looker, recording};
use crate::page::Row;
use crate::{Bench, Benchmark, progress};

/// Transactions a second of all clients: each of twenty statements.
const RATE: u32 = 50;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorded-hour",
    of: super::OF,
    minutes: 61,
    story: "A MySQL with 1,000 connections, 256 of sysbench's oltp_read_write with 1,000 statements a second in all, for an \
            hour (`--steady`), with whatever noise the machine has; `spindoctor record` knows nothing of it. How many events \
            does it keep? Run by its name alone: with the others it is left out.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut ground = Ground::start(bench, Workload::OltpReadWrite, Some(RATE)).await?;
    let folder = tempfile::Builder::new().prefix("spindoctor-recorded-").tempdir()?;
    ground.admit(Looker::Record.user()).await?;
    let mut recorder = Looker::Record.start(bench, ground.server.socket(), folder.path())?;
    let until = Instant::now() + bench.steady;
    let mut resident_mib = 0.0_f64;
    while Instant::now() < until {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        ground.load.check()?;
        resident_mib = resident_mib.max(recorder.taken()?.resident_mib);
    }
    let file = recording(&recorder.folder);
    recorder.end()?;
    ground.stop().await?;
    let recording = Recording::open(&file)?;
    let (events, gaps) = (super::stall_heads(&recording)?, recording.gaps()?);
    let minutes = bench.steady.as_secs_f64() / 60.0;
    for event in &events {
        progress(&format!("recorded-hour: {}: {}", event.began, event.stall.because));
    }
    if !events.is_empty() {
        progress(&format!("recorded-hour: kept in {}", folder.keep().display()));
    }
    Ok(vec![
        Row::goal(
            format!("events in {minutes:.0} min of steady load"),
            events.len().to_string(),
            "0",
            events.is_empty(),
        ),
        Row::plain("gaps in it", gaps.len().to_string()),
        Row::plain("the most that was resident", format!("{} MiB", crate::paired::short(resident_mib))),
    ])
}
