//! Spin settings that are far off: does `tune` find better ones, how good, and how much sooner than a full grid?

use std::time::Duration;

use super::spin_settings::{LEAST_OF_BEST, MIS_SET, Spinning, Times, VARIABLES, is_near, ratio_text};
use super::{connection, settings};
use crate::page::Row;
use crate::paired::short;
use crate::{Bench, Benchmark, progress};

/// The grid: rounds, delays, multipliers. Delays and multipliers in steps of about two.
const GRID: [&[u32]; 3] = [&[10, 30, 100], &[1, 3, 6, 12, 25, 50, 100], &[1, 5, 10, 25, 50, 100]];
/// How often the grid is passed over.
const PASSES: u32 = 3;
/// The same as for `tune`.
const TIMES: Times = Times { settle: Duration::from_millis(500), measure: Duration::from_millis(2_500) };
/// Quads to a run that was asked for.
const QUADS: usize = 6;
/// The goals.
const MOST: Duration = Duration::from_mins(10);
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
    let mut spinning = Spinning::start(bench, "mis-set-spin").await?;
    progress("mis-set-spin: tune");
    let mut arguments = vec!["tune", "--apply", "--json", "--settle", "500ms", "--measure", "2.5s"];
    let flags = connection(&spinning.server);
    arguments.extend(flags.iter().map(String::as_str));
    let ran = bench.spindoctor.run(&arguments).await?;
    spinning.load.check()?;
    let verdict =
        ran.json.pointer("/verdict").and_then(serde_json::Value::as_str).unwrap_or("none").to_owned();
    let tuned = settings(&mut spinning.asked, &VARIABLES).await?;

    let (best, pass_took) = spinning.best_of(&grid(), PASSES, TIMES).await?;
    let grid_took = pass_took * PASSES;

    let of_best = spinning.compare(&best, &tuned, bench.runs * QUADS).await?;
    // As few as have an interval distinguish a ratio of three from one.
    let mis_set = MIS_SET.map(str::to_owned);
    let of_mis_set = spinning.compare(&mis_set, &tuned, QUADS).await?;
    spinning.stop().await?;

    let part = ran.took.as_secs_f64() / grid_took.as_secs_f64();
    Ok(vec![
        Row::plain("verdict", verdict),
        Row::goal(
            "`tune` took",
            format!("{} s", short(ran.took.as_secs_f64())),
            "<= 600 s",
            ran.took <= MOST,
        ),
        Row::plain("loops, delay, multiplier that `tune` left", tuned.join(", ")),
        Row::plain("throughput, tuned / mis-set", ratio_text(of_mis_set)),
        Row::plain("the grid, three times its first pass", format!("{} s", short(grid_took.as_secs_f64()))),
        Row::goal("`tune` / the grid, time", short(part), "<= 0.2", part <= MOST_OF_GRID),
        Row::plain("best of the grid", best.join(", ")),
        Row {
            what: "throughput, tuned / best of the grid".into(),
            measured: ratio_text(of_best),
            peer: None,
            goal: Some((format!(">= {LEAST_OF_BEST}"), is_near(of_best.0))),
        },
    ])
}

/// Each value of one variable with each of the others.
fn grid() -> Vec<Vec<String>> {
    let mut points = Vec::new();
    for loops in GRID[0] {
        for delay in GRID[1] {
            for multiplier in GRID[2] {
                points.push([loops, delay, multiplier].map(u32::to_string).to_vec());
            }
        }
    }
    points
}
