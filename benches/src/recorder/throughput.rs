//! The throughput that a fully loaded server loses to the recorder, beside its peers.

use std::time::{Duration, Instant};

use anyhow::ensure;
use spindoctor_lab::load::Workload;

use super::ground::Ground;
use super::looker::{LOOKERS, Looker, Looking};
use crate::counter::Counter;
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::quads::Quads;
use crate::{Bench, Benchmark, progress};

/// After its start, before it is first halted: what is asked once was asked.
const WARM_UP: Duration = Duration::from_secs(10);
/// After it went on or was halted, before a window begins: what fell due meanwhile is done.
const SETTLE: Duration = Duration::from_millis(300);
/// How long each window is: a whole number of seconds, as each looks once a second.
const WINDOW: Duration = Duration::from_secs(1);

/// How long the CPU time is taken where nothing is halted: two rounds of what is done twice a minute.
const UNHALTED: Duration = Duration::from_secs(60);
/// Quads to a run that was asked for, of the recorder and of each of its peers.
const QUADS: usize = 3;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorder-throughput",
    of: super::OF,
    minutes: 14,
    story: "The same 1,000 connections, 256 of them sysbench's oltp_point_select as fast as they can, on the same \
            CPUs as the server and those that look: the CPUs are never idle. One of them at a time runs \
            throughout; it is halted with SIGSTOP and goes on in quads of windows of 1 s: without, with, with, \
            without, or the other way round in turn, 0.3 s after each change, so that what fell due meanwhile is \
            not in a window; with twelve runs 36 quads of the recorder and of each peer, and 18 of nothing. What \
            counts the queries runs before all others (SCHED_FIFO). The loss of a quad is 1 minus the ratio of its \
            windows with to those without. How fast the CPUs of a shared machine are changes by far more than what \
            is looked for: each runs a loop of some 50 us every 4 ms, and as much of a quad's loss as follows from \
            the loops' times (a straight line with the least squares) is taken off; the same without that stands \
            below. The middle of all quads stands first (Hodges and Lehmann), with an interval that holds it in 95 \
            of 100 cases (signed ranks), then the mean, with the interval of a moving-block bootstrap; *reached* \
            means that the whole interval of the middle lies within the goal. Lost to nothing is the difference \
            that the method cannot distinguish from zero on this machine. Beside it what the program and its \
            statements took of all CPUs in the windows, and in a minute before the first halt: what it must cost \
            at least, without what it may block.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut ground = Ground::start(bench, Workload::OltpPointSelect, None).await?;
    let mut counter = Counter::start(&ground.server, "Com_select").await?;
    let folder = tempfile::Builder::new().prefix("spindoctor-recorder-").tempdir()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let quads = bench.runs * QUADS;
    let mut rows = measure(&mut ground, &mut counter, "nothing", None, None, quads / 2).await?;
    for looker in LOOKERS {
        let Some(text) = looker.label(bench) else { continue };
        ground.admit(looker.user()).await?;
        let looking = looker.start(bench, ground.server.socket(), folder.path())?;
        tokio::time::sleep(WARM_UP).await;
        let goal = (looker == Looker::Record).then_some(0.01);
        rows.extend(measure(&mut ground, &mut counter, &text, Some((looker, looking)), goal, quads).await?);
    }
    drop(counter);
    ground.stop().await?;
    Ok(rows)
}

async fn measure(
    ground: &mut Ground,
    counter: &mut Counter,
    name: &str,
    mut looking: Option<(Looker, Looking)>,
    goal: Option<f64>,
    quads: usize,
) -> anyhow::Result<Vec<Row>> {
    let (mut all, mut taken) = (Quads::default(), Vec::new());
    let whole = if goal.is_some() { Some(unhalted_percent(ground, &mut looking).await?) } else { None };
    let mut looks = true;
    for quad in 0..quads {
        if quad % 16 == 0 {
            progress(&format!("recorder-throughput: {name}, quad {} of {quads}", quad + 1));
        }
        ground.load.check()?;
        let mut windows = Vec::with_capacity(4);
        for looks_now in all.order() {
            if looks != looks_now {
                looks = looks_now;
                if let Some((_, looking)) = &looking {
                    looking.halt(!looks);
                }
                tokio::time::sleep(SETTLE).await;
            }
            let before = taken_s(ground, &mut looking).await?;
            windows.push(counter.window(WINDOW).await?);
            if looks && looking.is_some() {
                let after = taken_s(ground, &mut looking).await?;
                taken.push(100.0 * (after - before) / WINDOW.as_secs_f64() / cpus());
            }
        }
        all.push(&windows);
    }
    let mut rows = all.rows(name, goal);
    if let Some((_, looking)) = looking {
        looking.halt(false);
        // A peer that does not end on request is killed: its rows stand, and so do the recorder's.
        if let Err(error) = looking.end() {
            ensure!(goal.is_none(), "{name}: {error}");
            progress(&format!("recorder-throughput: {name}: {error}, killed"));
        }
        rows.push(Row::plain(
            format!("{name} and its statements: CPU time"),
            Spread::from_values(&taken).text("% of all CPUs"),
        ));
        if let Some(percent) = whole {
            let what = format!("{name} and its statements: CPU time in a minute without a halt");
            rows.push(Row::plain(what, format!("{} % of all CPUs", short(percent))));
        }
    }
    Ok(rows)
}

/// What it takes of all CPUs where it is not halted.
async fn unhalted_percent(
    ground: &mut Ground,
    looking: &mut Option<(Looker, Looking)>,
) -> anyhow::Result<f64> {
    let (begun, before) = (Instant::now(), taken_s(ground, looking).await?);
    tokio::time::sleep(UNHALTED).await;
    let after = taken_s(ground, looking).await?;
    Ok(100.0 * (after - before) / (begun.elapsed().as_secs_f64() * cpus()))
}

/// CPU time of the program and of its statements on the server so far, seconds.
async fn taken_s(ground: &mut Ground, looking: &mut Option<(Looker, Looking)>) -> anyhow::Result<f64> {
    let Some((looker, looking)) = looking else { return Ok(0.0) };
    Ok(looking.taken()?.cpu_s + ground.server_cpu_s(looker.user()).await?)
}

fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}
