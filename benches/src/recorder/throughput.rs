//! What the recorder takes of the throughput of a server that is as busy as it can be, beside its peers.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::load::Workload;

use super::ground::Ground;
use super::looker::{LOOKERS, Looker, Looking};
use crate::page::{Row, Verdict};
use crate::paired::{Interval, Spread, short};
use crate::throughput::run_ahead;
use crate::{Bench, Benchmark, progress};

/// After its start, before it is first halted: what is asked once was asked.
const WARM_UP: Duration = Duration::from_secs(10);
/// After it went on or was halted, before a window begins: what fell due meanwhile is done.
const SETTLE: Duration = Duration::from_millis(300);
/// How long each window is. What looks once a second keeps to the clock: as two quads are no whole number of seconds, its
/// looks fall into windows and the times between them alike.
const WINDOW: Duration = Duration::from_millis(500);

/// How long the CPU time is taken where nothing is halted: two rounds of what is done twice a minute.
const UNHALTED: Duration = Duration::from_secs(60);
/// The recorder's quads to a run that was asked for: what is to be told apart from 1 % needs many.
const QUADS: usize = 32;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorder-throughput",
    story: "The same 1,000 connections, 256 of them sysbench's oltp_point_select as fast as they can, on the same CPUs as \
            the server and those that look: the CPUs are never idle. One of them at a time runs throughout; it is halted \
            with SIGSTOP and goes on in quads of windows of half a second: without, with, with, without, or the other way \
            round in turn, 0.3 s after each change, so that what fell due meanwhile is not in a window. What counts the queries runs \
            before all others (SCHED_FIFO). The loss of a quad is 1 minus the ratio of its windows with to those without; \
            the middle of all quads stands here (Hodges and Lehmann) with an interval that holds it in 95 of 100 cases \
            (signed ranks; with fewer than a hundred quads the median and its own), and *reached* means that the whole \
            interval lies within the goal. Lost to nothing is what the method cannot tell from zero on this machine. Beside \
            it what the program and its statements took of all CPUs in the windows, and in a minute before the first halt: \
            what it must cost at least, without what it may hold up.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut ground = Ground::start(bench, Workload::OltpPointSelect, None).await?;
    run_ahead(&mut ground.asked).await?;
    let folder = tempfile::Builder::new().prefix("spindoctor-recorder-").tempdir()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut rows = measure(&mut ground, "nothing", None, None, bench.runs * 4).await?;
    for looker in LOOKERS {
        let Some(told) = looker.told(bench) else { continue };
        ground.admit(looker.user()).await?;
        let looking = looker.start(bench, ground.server.socket(), folder.path())?;
        tokio::time::sleep(WARM_UP).await;
        let quads = if looker == Looker::Record { bench.runs * QUADS } else { bench.runs.div_ceil(2) };
        let goal = (looker == Looker::Record).then_some(0.01);
        rows.extend(measure(&mut ground, &told, Some((looker, looking)), goal, quads).await?);
    }
    ground.stop().await?;
    Ok(rows)
}

async fn measure(
    ground: &mut Ground,
    name: &str,
    mut looking: Option<(Looker, Looking)>,
    goal: Option<f64>,
    quads: usize,
) -> anyhow::Result<Vec<Row>> {
    let (mut losses, mut taken) = (Vec::new(), Vec::new());
    let whole = if goal.is_some() { Some(unhalted_percent(ground, &mut looking).await?) } else { None };
    let mut looks = true;
    for quad in 0..quads {
        if quad % 16 == 0 {
            progress(&format!("recorder-throughput: {name}, quad {} of {quads}", quad + 1));
        }
        ground.load.check()?;
        let order = if quad % 2 == 0 { [false, true, true, false] } else { [true, false, false, true] };
        let (mut with, mut without) = (0.0, 0.0);
        for looks_now in order {
            if looks != looks_now {
                looks = looks_now;
                if let Some((_, looking)) = &looking {
                    looking.halt(!looks);
                }
                tokio::time::sleep(SETTLE).await;
            }
            let before = taken_s(ground, &mut looking).await?;
            let (seconds, queries) = window(ground).await?;
            if looks && looking.is_some() {
                let after = taken_s(ground, &mut looking).await?;
                taken.push(100.0 * (after - before) / seconds / cpus());
            }
            *(if looks { &mut with } else { &mut without }) += queries / seconds;
        }
        losses.push(1.0 - with / without);
    }
    let mut rows = vec![row(name, goal, &losses)];
    if let Some((_, looking)) = looking {
        looking.halt(false);
        looking.end()?;
        rows.push(Row::plain(
            format!("{name} and its statements: CPU time"),
            Spread::of(&taken).told("% of all CPUs"),
        ));
        if let Some(percent) = whole {
            let what = format!("{name} and its statements: CPU time in a minute without a halt");
            rows.push(Row::plain(what, format!("{} % of all CPUs", short(percent))));
        }
    }
    Ok(rows)
}

fn row(name: &str, goal: Option<f64>, losses: &[f64]) -> Row {
    let what = format!("throughput lost to {name}");
    let Some(Interval { median, low, high }) = Interval::of_symmetric(losses) else {
        return Row::plain(what, "too few quads for an interval: --runs 6");
    };
    let goal = goal.map(|goal| {
        let verdict = match goal {
            goal if high <= goal => Verdict::Reached,
            goal if low > goal => Verdict::Missed,
            _ => Verdict::Open,
        };
        (format!("<= {:.0} %", goal * 100.0), verdict)
    });
    let percent = |ratio: f64| short(ratio * 100.0);
    Row { what, measured: format!("{} % ({} to {})", percent(median), percent(low), percent(high)), goal }
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

/// Seconds and queries of a window from now, as the server counts them: exact to the instants of the two answers.
async fn window(ground: &mut Ground) -> anyhow::Result<(f64, f64)> {
    let (begun, before) = queries(ground).await?;
    tokio::time::sleep(WINDOW).await;
    let (ended, after) = queries(ground).await?;
    Ok(((ended - begun).as_secs_f64(), after - before))
}

async fn queries(ground: &mut Ground) -> anyhow::Result<(Instant, f64)> {
    const COUNT: &str = "SHOW GLOBAL STATUS LIKE 'Com_select'";
    let row: Option<(String, String)> = ground.asked.query_first(COUNT).await?;
    let count = row.and_then(|(_, count)| count.parse().ok()).context("the server counts no queries")?;
    Ok((Instant::now(), count))
}

fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}
