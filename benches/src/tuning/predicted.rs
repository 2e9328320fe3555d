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
use crate::program::Ran;
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
const WITHIN: &str = "within 15 %";
/// How `predict` begins where its model does not describe what was measured (`crates/predict/src/answer.rs`).
const REFUSES: &str = "the model does not describe these measurements";

/// What is to be simulated within two seconds: these numbers of connections with these rounds.
const CONNECTIONS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const LOOPS: [&str; 4] = ["0", "30", "100", "200"];
const MOST_S: f64 = 2.0;
const WITHIN_S: &str = "<= 2 s";

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
            and the same settings, its fit included. Where `predict` refuses, as its model does not describe what was measured, \
            what it says is the result, and a goal is missed. Numbers of clients and goals were fixed before the first run.",
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
    let of_held_out = or_refused(predict(&["--hold-out", without.as_str()]).await)?;
    let less = format!("quota={TO}");
    let of_quota = or_refused(predict(&["--hardware", less.as_str()]).await)?;
    let settings = format!("innodb_sync_spin_loops={}", LOOPS.join(","));
    let connections = list(&CONNECTIONS[..9]);
    let whole = or_refused(predict(&["--set", settings.as_str(), "--threads", connections.as_str()]).await)?;

    let mut rows = Vec::new();
    match of_held_out {
        Ok(ran) => rows.extend(of_points_held_out(&ran.json)?),
        Err(why) => rows.push(refused(format!("{without} clients, held out"), &why, WITHIN)),
    }
    let simulated_in = "11 numbers of connections with 4 settings";
    match of_quota {
        Ok(ran) => {
            rows.extend(of_half_of_the_cpus(&ran.json, to)?);
            let seconds = Spread::from_values(&simulated(bench, &ran.json)?);
            rows.push(Row::goal(simulated_in, seconds.text("s"), WITHIN_S, seconds.median <= MOST_S));
        }
        Err(why) => {
            rows.push(refused(format!("{} clients, from 2 CPUs to 1", list(&ASKED)), &why, WITHIN));
            rows.push(Row::goal(simulated_in, "not simulated: there is no fit", WITHIN_S, false));
        }
    }
    let took = match whole {
        Ok(whole) => format!("{} s", short(whole.took.as_secs_f64())),
        Err(why) => format!("refused: {why}"),
    };
    rows.push(Row::plain("the whole command for 9 of them, fit included", took));
    rows.push(Row::plain("the sweep took", format!("{:.0} s", swept.took.as_secs_f64())));
    Ok(rows)
}

/// What `predict` answered, or why it refuses these measurements; any other error stays one.
fn or_refused(ran: anyhow::Result<Ran>) -> anyhow::Result<Result<Ran, String>> {
    match ran {
        Ok(ran) => Ok(Ok(ran)),
        Err(error) => match refusal(&error.to_string()) {
            Some(why) => Ok(Err(why)),
            None => Err(error),
        },
    }
}

/// The sentence by which `predict` says that its model does not fit, out of what it printed.
fn refusal(printed: &str) -> Option<String> {
    let at = printed.find(REFUSES)?;
    printed[at..].lines().next().map(str::to_owned)
}

/// A result with a goal that `predict` refuses to give.
fn refused(what: String, why: &str, goal: &str) -> Row {
    Row::goal(what, format!("refused: {why}"), goal, false)
}

/// The points that the fit did not get, and how well it describes the others.
fn of_points_held_out(predicted: &Value) -> anyhow::Result<Vec<Row>> {
    let held_out: Vec<Fitted> = part(predicted, "/held_out")?;
    let mut rows: Vec<Row> = held_out
        .iter()
        .map(|point| {
            let what = format!("{} clients, held out: measured; model; off", point.threads);
            compared(what, point.measured_per_s, point.model_per_s, true)
        })
        .collect();
    rows.push(Row::plain("fit error of the others", fit_error(predicted)?));
    Ok(rows)
}

/// What one CPU would do beside what it did, and how well the model describes two.
fn of_half_of_the_cpus(predicted: &Value, measured_with_one: &Line) -> anyhow::Result<Vec<Row>> {
    let answered: Vec<Predicted> = part(predicted, "/answer/rows")?;
    let mut rows = Vec::new();
    for row in &answered {
        let Some(measured) = measured_with_one.at(row.threads) else { continue };
        let clients = if row.threads == 1 { "client" } else { "clients" };
        let what = format!("{} {clients}, from 2 CPUs to 1: measured; model; off", row.threads);
        let model_per_s = row.proposed.throughput_per_s;
        let has_goal = ASKED.contains(&row.threads);
        rows.push(compared(what, measured.transactions_per_s.median, model_per_s, has_goal));
    }
    rows.push(Row::plain("fit error with 2 CPUs", fit_error(predicted)?));
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
        true => Row::goal(what, text, WITHIN, off.abs() <= MOST_OFF),
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
    fn a_refusal_is_a_result_and_another_error_is_none() {
        let printed = "spindoctor predict --json failed: error: the model does not describe these measurements: its points \
                       are off by 41 % on average, and 28 % is the most\n";
        let why = refusal(printed).unwrap();
        assert_eq!(why, printed[printed.find("the model").unwrap()..].trim_end());
        let row = refused("3 clients".to_owned(), &why, WITHIN);
        assert!(row.measured.starts_with("refused: the model"));
        assert_eq!(row.goal, Some((WITHIN.to_owned(), Verdict::Missed)));
        assert!(refusal("spindoctor predict --json failed: error: no such file").is_none());
        let other = or_refused(Err(anyhow::anyhow!("no such file")));
        assert!(other.is_err());
    }

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
