//! `spindoctor predict`: reads what was measured, fits the model, asks it.

use anyhow::{Context as _, anyhow, bail};
use spindoctor_page::{json, number};
use spindoctor_predict::{
    Effort, Fitted, Ground, Hardware, Measured, Question, Settings, compare, fit, predict, simulate,
};
use spindoctor_tune::sweep::axes::is_axis;

use super::args::Predict;
use super::measured::{self, Source};
use super::view::{Answered, Prediction};
use super::{svg, text};
use crate::common::exit::ExitStatus;
use crate::common::{output, terminal};

/// Settings that are asked about at most: with eleven numbers of connections that takes half a minute where 44 predictions take
/// two seconds.
const MOST_SETTINGS: usize = 64;

/// Predicts.
pub fn run(asked: &Predict) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.svg {
        output::expect_writable(file, &["svg"])?;
    }
    let mut source = measured::read(&asked.fit, &asked.was)?;
    let held_out = hold_out(&mut source.points, &asked.hold_out)?;
    let recorded = source.note.take();
    let ground = ground(asked, source)?;
    let threads: Vec<u32> = match asked.threads.as_slice() {
        [] => ground.measured.iter().chain(&held_out).map(|it| it.threads).collect(),
        given => given.to_vec(),
    };
    let mut question = Question {
        hardware: asked.hardware.on(&ground.hardware),
        settings: ground.settings.clone(),
        threads,
        assumptions: asked.assume.clone(),
    };
    let candidates = candidates(&ground.settings, &asked.set)?;
    let measured = number::counted(ground.measured.len() as u64, "measurement", "measurements");
    output::note(&format!("predict: fitting the model to {measured}"));
    let fit = fit(&ground, asked.seed);
    let compared = compare(&ground, &fit, &question, &candidates, asked.seed).map_err(|why| anyhow!(why))?;
    if let Some(best) = compared.first() {
        question.settings = best.settings.clone();
    }
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
    let answered = Answered { question, compared, answer };
    let prediction = Prediction::new((source, recorded), ground, fit, held_out, answered);
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
            let connections = number::counted(u64::from(*wanted), "connection", "connections");
            return Err(anyhow!("--hold-out {wanted}: there is no measurement at {connections}"));
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
    let settings = with(Settings::for_flavor(flavor), &source.settings, "what was measured")?;
    // What is no variable has chosen the sweep's line.
    let was: Vec<(String, String)> = asked.was.iter().filter(|(name, _)| !is_axis(name)).cloned().collect();
    Ok(Ground {
        hardware,
        settings: with(settings, &was, "--was")?,
        workload,
        flush_ns: asked.flush,
        server_share,
        measured: source.points,
    })
}

/// Each value of one variable with each of the others; nothing where no setting is asked about.
fn candidates(measured: &Settings, set: &[(String, Vec<String>)]) -> anyhow::Result<Vec<Settings>> {
    if set.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = vec![measured.clone()];
    for (variable, values) in set {
        let mut longer: Vec<Settings> = Vec::new();
        for settings in &all {
            for value in values {
                let one = with(settings.clone(), &[(variable.clone(), value.clone())], "--set")?;
                if !longer.contains(&one) {
                    longer.push(one);
                }
            }
        }
        if longer.len() > MOST_SETTINGS {
            bail!("{} settings are too many: {MOST_SETTINGS} is the most", longer.len());
        }
        all = longer;
    }
    Ok(all)
}

fn with(mut settings: Settings, given: &[(String, String)], by: &str) -> anyhow::Result<Settings> {
    for (variable, value) in given {
        settings.set(variable, value).map_err(|why| anyhow!("{by} {variable}={value}: {why}"))?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use spindoctor_predict::Flavor;

    use super::*;

    #[test]
    fn each_value_of_a_variable_is_asked_about_with_each_of_the_others_once() {
        let measured = Settings::for_flavor(Flavor::Mysql80);
        let set = |pairs: &[(&str, &[&str])]| {
            let owned = |(name, values): &(&str, &[&str])| {
                let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
                ((*name).to_owned(), values)
            };
            candidates(&measured, &pairs.iter().map(owned).collect::<Vec<_>>())
        };
        let loops = ("innodb_sync_spin_loops", &["0", "30", "30", "200"][..]);
        let all = set(&[loops, ("innodb_spin_wait_delay", &["6", "2"][..])]).unwrap();
        assert_eq!(all.len(), 6);
        assert!(all.contains(&measured), "30 and 6 are what is set");
        assert_eq!(set(&[]).unwrap(), []);
        assert!(set(&[("datadir", &["1"][..])]).unwrap_err().to_string().contains("--set datadir=1"));
        let many: Vec<String> = (0..=MOST_SETTINGS).map(|loops| loops.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(set(&[("innodb_sync_spin_loops", &many[..])]).unwrap_err().to_string().contains("too many"));
    }
}
