//! `spindoctor predict`: reads what was measured, fits the model, asks it.

use anyhow::{Context as _, anyhow};
use spindoctor_page::json;
use spindoctor_predict::{
    Effort, Fitted, Ground, Hardware, Measured, Question, Settings, fit, predict, simulate,
};

use super::args::Predict;
use super::measured::{self, Source};
use super::view::Prediction;
use super::{svg, text};
use crate::common::exit::ExitStatus;
use crate::common::{output, terminal};

/// Predicts.
pub fn run(asked: &Predict) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.svg {
        output::expect_writable(file, &["svg"])?;
    }
    let mut source = measured::read(&asked.fit, &asked.was)?;
    let held_out = hold_out(&mut source.points, &asked.hold_out)?;
    let ground = ground(asked, source)?;
    let threads: Vec<u32> = match asked.threads.as_slice() {
        [] => ground.measured.iter().chain(&held_out).map(|it| it.threads).collect(),
        given => given.to_vec(),
    };
    let question = Question {
        hardware: asked.hardware.on(&ground.hardware),
        settings: with(ground.settings.clone(), &asked.set, "--set")?,
        threads,
        assumptions: asked.assume.clone(),
    };
    output::note(&format!("predict: fitting the model to {} measurements", ground.measured.len()));
    let fit = fit(&ground, asked.seed);
    let answer = predict(&ground, &fit, &question, asked.seed).map_err(|why| anyhow!(why))?;
    let world = ground.world(&fit.parameters);
    let held_out = held_out
        .iter()
        .map(|it| Fitted {
            threads: it.threads,
            measured_per_s: it.throughput_per_s,
            model_per_s: simulate(&world, it.threads, asked.seed, Effort::default()).throughput_per_s,
        })
        .collect();
    let source = asked.fit.display().to_string();
    let prediction = Prediction::new(source, ground, fit, held_out, question, answer);
    if let Some(file) = &asked.svg {
        output::write_file(file, svg::render(&prediction), "the chart")?;
    }
    output::print(&match asked.json {
        true => json::to_text(&prediction).context("could not write the prediction as JSON")?,
        false => text::render(&prediction, terminal::look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}

/// Takes the measurements that the fit is not to get out of those that it does.
fn hold_out(points: &mut Vec<Measured>, threads: &[u32]) -> anyhow::Result<Vec<Measured>> {
    for wanted in threads {
        if !points.iter().any(|point| point.threads == *wanted) {
            return Err(anyhow!("--hold-out {wanted}: there is no measurement at {wanted} connections"));
        }
    }
    let (held, left): (Vec<Measured>, Vec<Measured>) =
        points.iter().partition(|point| threads.contains(&point.threads));
    if left.is_empty() {
        return Err(anyhow!("--hold-out leaves nothing to fit the model to"));
    }
    *points = left;
    Ok(held)
}

/// What the prediction rests on: what the file says, and what the flags say beside it.
fn ground(asked: &Predict, source: Source) -> anyhow::Result<Ground> {
    let machine = &asked.measured_on;
    let Some(cpus) = machine.cpus.or(source.cpus) else {
        return Err(anyhow!("how many CPUs were there? write --measured-on cpus=24,numa=2,pause=3.4ns"));
    };
    let Some(pause_ns) = machine.pause_ns.or(source.pause_ns) else {
        return Err(anyhow!(
            "how long did a PAUSE take? write --measured-on cpus=24,pause=3.4ns; `spindoctor host` measures it"
        ));
    };
    let measured = Hardware { cpus, pause_ns, quota_cpus: source.quota_cpus, ..Hardware::default() };
    let server_share = source.server_share(cpus);
    let hardware = machine.on(&measured);
    let flavor = asked.server.or(source.flavor).context("whose server was it? write --server mysql-8.0")?;
    let workload = asked
        .workload
        .or(source.workload)
        .context("what did the clients do? write --workload reads or writes")?;
    let settings = with(Settings::for_flavor(flavor), &source.settings, "the sweep")?;
    Ok(Ground {
        hardware,
        settings: with(settings, &asked.was, "--was")?,
        workload,
        flush_ns: asked.flush,
        server_share,
        measured: source.points,
    })
}

fn with(mut settings: Settings, given: &[(String, String)], by: &str) -> anyhow::Result<Settings> {
    for (variable, value) in given {
        settings.set(variable, value).map_err(|why| anyhow!("{by} {variable}={value}: {why}"))?;
    }
    Ok(settings)
}
