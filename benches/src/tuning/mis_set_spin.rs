//! Spin settings that are far off: does `tune` find better ones, how good, and how much sooner than a full grid?

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use super::{connection, set, settings};
use crate::page::{Row, Verdict};
use crate::paired::{Interval, short};
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
const VARIABLES: [&str; 3] =
    ["innodb_sync_spin_loops", "innodb_spin_wait_delay", "innodb_spin_wait_pause_multiplier"];
const MIS_SET: [&str; 3] = ["30", "100", "100"];
/// The grid: rounds, delays, multipliers. Delays and multipliers in steps of about two.
const GRID: [&[u32]; 3] = [&[10, 30, 100], &[1, 3, 6, 12, 25, 50, 100], &[1, 5, 10, 25, 50, 100]];
/// How often the grid is passed over, in random order.
const PASSES: u32 = 3;
/// From the second pass on the best so many are measured alone: the best of all is looked for, and how long a pass takes is known.
const AGAIN: usize = 8;
/// After a change, before it is measured: the same as for `tune`.
const SETTLE: Duration = Duration::from_millis(500);
/// Measured: the same as for `tune`.
const MEASURE: Duration = Duration::from_millis(2_500);
/// Two settings are compared in shorter windows and more of them: a shared machine drifts within seconds, and what a quad
/// compares then lies close together.
const COMPARED: Duration = Duration::from_millis(400);
const COMPARED_SETTLE: Duration = Duration::from_millis(150);
/// Quads to a run that was asked for.
const QUADS: usize = 6;
/// The goals.
const MOST: Duration = Duration::from_mins(10);
const LEAST_OF_BEST: f64 = 0.95;
const MOST_OF_GRID: f64 = 0.2;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "mis-set-spin",
    of: &["crates/tune", "crates/spindoctor/src/tune"],
    minutes: 14,
    story: "A MySQL in memory under 64 clients of sysbench's oltp_update_index, with innodb_sync_spin_loops 30, \
            innodb_spin_wait_delay 100 and innodb_spin_wait_pause_multiplier 100. First `spindoctor tune --apply \
            --settle 500ms --measure 2.5s`, which gets no other flags. Then a full grid of 126 points (loops 10, \
            30, 100; delay 1, 3, 6, 12, 25, 50, 100; multiplier 1, 5, 10, 25, 50, 100), each once, and the best \
            eight twice more, in random order with the same times, the load running throughout; a full grid is one \
            with three passes over all points, each of which takes as long as the first. Then the settings that \
            `tune` left against the best of the grid, and against the mis-set ones, in quads of windows of 0.4 s \
            (72 with twelve runs, and six); the ratio of throughputs stands here (Hodges and Lehmann) with an \
            interval that holds it in 95 of 100 cases (signed ranks), then the mean, with the interval of a \
            moving-block bootstrap.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut options: Vec<String> =
        VARIABLES.iter().zip(MIS_SET).map(|(name, value)| format!("--{name}={value}")).collect();
    options.extend(["--disable-log-bin", "--innodb-log-writer-threads=OFF"].map(str::to_owned));
    let spec = ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let workload = Workload::OltpUpdateIndex;
    let mut load =
        Load::start(server.socket(), LoadSpec { workload, threads: 64, rate: None, tables: TABLES })?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut asked = server.connect().await?;

    progress("mis-set-spin: tune");
    let mut arguments = vec!["tune", "--apply", "--json", "--settle", "500ms", "--measure", "2.5s"];
    let flags = connection(&server);
    arguments.extend(flags.iter().map(String::as_str));
    let ran = bench.spindoctor.run(&arguments).await?;
    load.check()?;
    let verdict =
        ran.json.pointer("/verdict").and_then(serde_json::Value::as_str).unwrap_or("none").to_owned();
    let tuned = settings(&mut asked, &VARIABLES).await?;

    let (best, pass_took) = grid(&mut asked, &mut load).await?;
    let grid_took = pass_took * PASSES;

    let mis_set = MIS_SET.map(str::to_owned);
    let of_best = compare(&mut asked, &mut load, &best, &tuned, bench.runs * QUADS).await?;
    // As few as have an interval distinguish a ratio of three from one.
    let of_mis_set = compare(&mut asked, &mut load, &mis_set, &tuned, QUADS).await?;
    asked.disconnect().await?;
    load.stop().await;
    server.stop()?;

    let part = ran.took.as_secs_f64() / grid_took.as_secs_f64();
    let text = |interval: Interval| {
        format!("{} ({} to {})", short(interval.middle), short(interval.low), short(interval.high))
    };
    let ratio = |(middle, mean): (Interval, Interval)| format!("{}; mean {}", text(middle), text(mean));
    let near = match of_best.0 {
        Interval { low, .. } if low >= LEAST_OF_BEST => Verdict::Reached,
        Interval { high, .. } if high < LEAST_OF_BEST => Verdict::Missed,
        _ => Verdict::Open,
    };
    Ok(vec![
        Row::plain("verdict", verdict),
        Row::goal(
            "`tune` took",
            format!("{} s", short(ran.took.as_secs_f64())),
            "<= 600 s",
            ran.took <= MOST,
        ),
        Row::plain("loops, delay, multiplier that `tune` left", tuned.join(", ")),
        Row::plain("throughput, tuned / mis-set", ratio(of_mis_set)),
        Row::plain("the grid, three times its first pass", format!("{} s", short(grid_took.as_secs_f64()))),
        Row::goal("`tune` / the grid, time", short(part), "<= 0.2", part <= MOST_OF_GRID),
        Row::plain("best of the grid", best.join(", ")),
        Row {
            what: "throughput, tuned / best of the grid".into(),
            measured: ratio(of_best),
            goal: Some((">= 0.95".into(), near)),
        },
    ])
}

/// The settings with the highest middle of their runs, and how long a pass over all points took.
async fn grid(asked: &mut Conn, load: &mut Load) -> anyhow::Result<(Vec<String>, Duration)> {
    let mut points = Vec::new();
    for loops in GRID[0] {
        for delay in GRID[1] {
            for multiplier in GRID[2] {
                points.push([loops, delay, multiplier].map(u32::to_string).to_vec());
            }
        }
    }
    let mut measured: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
    let mut best: Vec<usize> = (0..points.len()).collect();
    let (begun, mut pass_took) = (Instant::now(), Duration::ZERO);
    for pass in 1..=PASSES {
        progress(&format!("mis-set-spin: the grid, pass {pass} of {PASSES}"));
        for at in shuffled(asked, best.len()).await? {
            load.check()?;
            let point = best[at];
            measured[point].push(rate(asked, &points[point], SETTLE, MEASURE).await?);
        }
        if pass == 1 {
            pass_took = begun.elapsed();
        }
        let middle = |point: &usize| crate::paired::Spread::from_values(&measured[*point]).median;
        best.sort_by(|one, other| middle(other).total_cmp(&middle(one)));
        best.truncate(AGAIN);
    }
    let best = best.first().context("the grid has points")?;
    Ok((points[*best].clone(), pass_took))
}

/// Numbers below `count` in random order; the server rolls the dice.
async fn shuffled(asked: &mut Conn, count: usize) -> anyhow::Result<Vec<usize>> {
    let mut dice: Vec<(f64, usize)> = Vec::new();
    for number in 0..count {
        let die: Option<f64> = asked.query_first("SELECT RAND()").await?;
        dice.push((die.unwrap_or_default(), number));
    }
    dice.sort_by(|one, other| one.0.total_cmp(&other.0));
    Ok(dice.into_iter().map(|(_, number)| number).collect())
}

/// Throughput of the second settings against the first, in quads: the middle and the mean.
async fn compare(
    asked: &mut Conn,
    load: &mut Load,
    one: &[String],
    other: &[String],
    quads: usize,
) -> anyhow::Result<(Interval, Interval)> {
    let mut ratios = Vec::new();
    for quad in 0..quads {
        if quad % QUADS == 0 {
            let (other, one) = (other.join(" "), one.join(" "));
            progress(&format!("mis-set-spin: {other} against {one}, quad {} of {quads}", quad + 1));
        }
        let order = if quad % 2 == 0 { [false, true, true, false] } else { [true, false, false, true] };
        let (mut first, mut second) = (0.0, 0.0);
        for is_other in order {
            load.check()?;
            let values = if is_other { other } else { one };
            let rate = rate(asked, values, COMPARED_SETTLE, COMPARED).await?;
            *(if is_other { &mut second } else { &mut first }) += rate;
        }
        ratios.push(second / first);
    }
    let (middle, mean) = (Interval::of_symmetric(&ratios), Interval::of_mean(&ratios));
    middle.zip(mean).context("too few quads for an interval")
}

/// Commits a second with these settings.
async fn rate(
    asked: &mut Conn,
    values: &[String],
    settle: Duration,
    measure: Duration,
) -> anyhow::Result<f64> {
    set(asked, &VARIABLES, values).await?;
    tokio::time::sleep(settle).await;
    let (begun, before) = updates(asked).await?;
    tokio::time::sleep(measure).await;
    let (ended, after) = updates(asked).await?;
    ensure!(after > before, "the load has stopped");
    Ok((after - before) / (ended - begun).as_secs_f64())
}

async fn updates(asked: &mut Conn) -> anyhow::Result<(Instant, f64)> {
    let row: Option<(String, String)> = asked.query_first("SHOW GLOBAL STATUS LIKE 'Com_update'").await?;
    let count = row.and_then(|(_, count)| count.parse().ok()).context("the server counts no updates")?;
    Ok((Instant::now(), count))
}
