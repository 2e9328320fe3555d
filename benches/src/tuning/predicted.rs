//! What `predict` says of this machine beside what a sweep measures on it: points that the fit did not get, and half of the CPUs.

use std::time::Instant;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use spindoctor_predict::{Effort, Fitted, Ground, Parameters, Row as Predicted, simulate};
use spindoctor_tune::sweep::axes::QUOTA;
use spindoctor_tune::sweep::{Line, Sweep};

use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// Numbers of clients, and those whose measurements the fit does not get.
const THREADS: [u32; 9] = [1, 2, 3, 4, 6, 8, 16, 32, 64];
const HELD_OUT: [u32; 3] = [3, 8, 32];
/// The quota that the model is fitted to and the one that it is asked about, CPUs; and at which numbers of clients the answer
/// has a goal.
const FROM: &str = "2";
const TO: &str = "1";
const ASKED: [u32; 3] = [2, 8, 32];
/// How far a prediction may be off, as a part.
const MOST_OFF: f64 = 0.15;

/// What is to be simulated within two seconds: these numbers of connections with these rounds.
const CONNECTIONS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const LOOPS: [&str; 4] = ["0", "30", "100", "200"];
const MOST_S: f64 = 2.0;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "predicted",
    of: &["crates/predict", "crates/spindoctor/src/predict", "crates/spindoctor/src/sweep"],
    minutes: 8,
    story: "`spindoctor sweep --quotas 2,1 --threads 1,2,3,4,6,8,16,32,64 --tables 4 --seconds 4s --warmup 1s --runs 3`: sysbench's \
            oltp_point_select on a MySQL in a control group with a quota of two CPUs, which is all of them on a machine of two, and of \
            one; both in turn and in random order. `spindoctor predict` is fitted to the measurements with two CPUs. Once \
            without those of 3, 8 and 32 clients, of which its model is asked then; once with all of them, and asked what a quota of one \
            CPU would do, which the other half of the sweep has measured. Off is model by measured (median of three), and the goal is \
            15 %. Speed: 11 numbers of connections from 1 to 1,024 with 4 settings of innodb_sync_spin_loops, simulated with the \
            fitted parameters on one CPU, each time with another seed; beside it the whole command for nine numbers of connections \
            and the same settings, its fit included. Numbers of clients and goals were fixed before the first run.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    progress("predicted: the sweep");
    let threads = list(&THREADS);
    let quotas = format!("{FROM},{TO}");
    let arguments =
        ["sweep", "--json", "--quotas", &quotas, "--threads", &threads, "--seconds", "4s", "--warmup", "1s"];
    let swept = bench.spindoctor.run(&arguments).await?;
    let folder = tempfile::Builder::new().prefix("spindoctor-predicted-").tempdir()?;
    let file = folder.path().join("sweep.json");
    std::fs::write(&file, serde_json::to_vec(&swept.json)?)?;
    let file = file.to_str().context("a path that is no text")?;
    let sweep: Sweep = serde_json::from_value(swept.json).context("spindoctor printed no sweep")?;
    let line = |quota: &str| {
        let is_its = |line: &&Line| line.setting.value(QUOTA) == Some(quota);
        sweep.lines.iter().find(is_its).context("a line is missing")
    };
    let to = line(TO)?;

    let was = format!("quota={FROM}");
    let predict = async |more: &[&str]| {
        progress(&format!("predicted: predict {}", more.join(" ")));
        let arguments: Vec<&str> =
            ["predict", "--json", "--fit", file, "--was", &was].iter().chain(more).copied().collect();
        bench.spindoctor.run(&arguments).await
    };
    let without = list(&HELD_OUT);
    let of_held_out = predict(&["--hold-out", without.as_str()]).await?;
    let held_out: Vec<Fitted> = part(&of_held_out.json, "/held_out")?;
    let less = format!("quota={TO}");
    let of_quota = predict(&["--hardware", less.as_str()]).await?;
    let answered: Vec<Predicted> = part(&of_quota.json, "/answer/rows")?;
    let settings = format!("innodb_sync_spin_loops={}", LOOPS.join(","));
    let connections = list(&CONNECTIONS[..9]);
    let whole = predict(&["--set", settings.as_str(), "--threads", connections.as_str()]).await?;

    let mut rows: Vec<Row> = held_out
        .iter()
        .map(|point| {
            let what = format!("{} clients, held out: measured; model; off", point.threads);
            compared(what, point.measured_per_s, point.model_per_s, true)
        })
        .collect();
    rows.push(Row::plain("fit error of the others", fit_error(&of_held_out.json)?));
    for row in &answered {
        let Some(measured) = to.at(row.threads) else { continue };
        let clients = if row.threads == 1 { "client" } else { "clients" };
        let what = format!("{} {clients}, from 2 CPUs to 1: measured; model; off", row.threads);
        let model_per_s = row.proposed.throughput_per_s;
        let has_goal = ASKED.contains(&row.threads);
        rows.push(compared(what, measured.transactions_per_s.median, model_per_s, has_goal));
    }
    rows.push(Row::plain("fit error with 2 CPUs", fit_error(&of_quota.json)?));
    let seconds = Spread::from_values(&simulated(bench, &of_quota.json)?);
    rows.push(Row::goal(
        "11 numbers of connections with 4 settings",
        seconds.text("s"),
        "<= 2 s",
        seconds.median <= MOST_S,
    ));
    rows.push(Row::plain(
        "the whole command for 9 of them, fit included",
        format!("{} s", short(whole.took.as_secs_f64())),
    ));
    rows.push(Row::plain("the sweep took", format!("{:.0} s", swept.took.as_secs_f64())));
    Ok(rows)
}

/// `1,2,3`
fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A part of what `predict` printed.
fn part<T: DeserializeOwned>(json: &Value, pointer: &str) -> anyhow::Result<T> {
    let value = json.pointer(pointer).with_context(|| format!("predict printed no {pointer}"))?;
    serde_json::from_value(value.clone()).with_context(|| format!("predict printed another {pointer}"))
}

/// `12.3 %`
fn fit_error(predicted: &Value) -> anyhow::Result<String> {
    let error: f64 = part(predicted, "/fit/rms_log_error")?;
    Ok(format!("{} %", short(100.0 * (error.exp() - 1.0))))
}

/// A measurement beside the model; a goal where it was fixed that it has one.
fn compared(what: String, measured_per_s: f64, model_per_s: f64, has_goal: bool) -> Row {
    let off = model_per_s / measured_per_s - 1.0;
    let text = format!("{measured_per_s:.0}; {model_per_s:.0}; {:+.1} %", 100.0 * off);
    match has_goal {
        true => Row::goal(what, text, "within 15 %", off.abs() <= MOST_OFF),
        false => Row::plain(what, text),
    }
}

/// How long the simulation of all numbers of connections with all settings takes, seconds: once for each run that is asked for.
fn simulated(bench: &Bench, predicted: &Value) -> anyhow::Result<Vec<f64>> {
    let ground: Ground = part(predicted, "/ground")?;
    let parameters: Parameters = part(predicted, "/fit/parameters")?;
    let mut worlds = Vec::new();
    for loops in LOOPS {
        let mut ground = ground.clone();
        ground.settings.set("innodb_sync_spin_loops", loops).map_err(anyhow::Error::msg)?;
        worlds.push(ground.world(&parameters));
    }
    let mut seconds = Vec::new();
    for run in 1..=bench.runs {
        progress(&format!("predicted: 44 simulations, {run} of {}", bench.runs));
        let begun = Instant::now();
        for world in &worlds {
            for threads in CONNECTIONS {
                std::hint::black_box(simulate(world, threads, run as u64, Effort::default()));
            }
        }
        seconds.push(begun.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Verdict;

    #[test]
    fn what_is_off_by_more_than_its_goal_is_missed_in_either_direction() {
        let row = |model_per_s: f64, has_goal: bool| compared("x".to_owned(), 1_000.0, model_per_s, has_goal);
        let verdict = |model_per_s: f64| row(model_per_s, true).goal.map(|(_, verdict)| verdict);
        assert_eq!(row(1_100.0, true).measured, "1000; 1100; +10.0 %");
        assert_eq!(verdict(1_100.0), Some(Verdict::Reached));
        assert_eq!([verdict(1_200.0), verdict(800.0)], [Some(Verdict::Missed); 2]);
        assert!(row(2_000.0, false).goal.is_none());
    }
}
