//! False alarms and misses of the detectors over hours of simulated load, or over recordings of real servers.
//!
//! `cargo run -p spindoctor-stalls --example stalls [HOURS]`: so many hours of each shape without a stall, and then with
//! stalls of each length in it. `... --example stalls FILE...`: these recordings of `crates/lab/examples/probes.rs`.

#[path = "../tests/stalls/judge.rs"]
mod judge;
#[path = "../tests/stalls/real.rs"]
mod real;
#[path = "../tests/stalls/simulator.rs"]
mod simulator;

use judge::{Made, Outcome};
use simulator::{Injected, Shape, Standstill, probes, stalls};
use spindoctor_model::Probe;

const HOUR_S: f64 = 3_600.0;
const LENGTHS_S: [f64; 7] = [0.1, 0.2, 0.3, 0.5, 1.0, 5.0, 30.0];

const SHAPES: [Shape; 6] =
    [Shape::Steady, Shape::Saturated, Shape::Pool, Shape::Idle, Shape::Batches, Shape::Minutely];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    match &asked[..] {
        [] => simulated(4),
        [hours] if hours.parse::<u64>().is_ok() => simulated(hours.parse().unwrap_or(4)),
        files => files.iter().for_each(|file| replayed(file)),
    }
}

#[expect(clippy::print_stdout, reason = "it is a program that prints what it sees")]
fn replayed(file: &str) {
    let series = real::read(file.as_ref());
    let made: Vec<Made> = series.made.iter().map(|(_, made)| *made).collect();
    let outcome = judge::judge(&series.probes, &made);
    let minutes = series.probes.last().map_or(0.0, |probe| probe.at_s / 60.0);
    println!("{file}: {}", series.what);
    println!(
        "  {} of {} found, {} of them dated right; {} false alarms in {minutes:.1} minutes",
        outcome.found,
        outcome.made,
        outcome.begin_right,
        outcome.false_alarms.len()
    );
    for (kind, made) in series.made.iter().filter(|(_, made)| outcome.missed_s.contains(&made.asked_s)) {
        println!("    missed: {kind} at {:.2} s, {:.0} ms", made.asked_s, (made.ended_s - made.held_s) * 1e3);
    }
    outcome.false_alarms.iter().for_each(|alarm| println!("    false: {alarm}"));
}

fn judge(probes: &[Probe], injected: &[Injected]) -> Outcome {
    let made: Vec<Made> = injected.iter().map(Injected::made).collect();
    judge::judge(probes, &made)
}

#[expect(clippy::print_stdout, reason = "it is a program that prints a table")]
fn simulated(hours: u64) {
    println!("{:<11} {:>5}  false alarms", "load", "hours");
    for shape in SHAPES {
        let alarms: Vec<String> = (0..hours)
            .flat_map(|seed| {
                let mut rng = fastrand::Rng::with_seed(1_000 + seed);
                judge(&probes(&mut rng, shape, &[], HOUR_S), &[]).false_alarms
            })
            .collect();
        println!("{:<11} {hours:>5}  {}", format!("{shape:?}"), alarms.len());
        for alarm in alarms.iter().take(5) {
            println!("    {alarm}");
        }
    }
    println!(
        "\n{:<11} {:<11} {:>7} {:>8} {:>7} {:>10} {:>11} {:>12} {:>6}",
        "load",
        "stands",
        "lasts s",
        "injected",
        "found %",
        "kind right",
        "begin right",
        "worst begin",
        "false"
    );
    for shape in SHAPES {
        for what in made_on(shape) {
            for lasts_s in LENGTHS_S {
                let mut rng = fastrand::Rng::with_seed(5);
                let injected = stalls(&mut rng, *what, &[lasts_s], 15.0, HOUR_S);
                let outcome = judge(&probes(&mut rng, shape, &injected, HOUR_S), &injected);
                let percent = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
                println!(
                    "{:<11} {:<11} {lasts_s:>7.1} {:>8} {:>7.1} {:>8.1} % {:>9.1} % {:>9.0} ms {:>6}",
                    format!("{shape:?}"),
                    format!("{what:?}"),
                    outcome.made,
                    percent(outcome.found, outcome.made),
                    percent(outcome.kind_right, outcome.found),
                    percent(outcome.begin_right, outcome.found),
                    outcome.worst_begin_ms,
                    outcome.false_alarms.len()
                );
            }
        }
    }
}

/// What can be seen to stop under this load: where nothing ends anyway, only a pile-up or the whole server.
fn made_on(shape: Shape) -> &'static [Standstill] {
    match shape {
        Shape::Steady => {
            &[Standstill::Statements, Standstill::Server, Standstill::Commits, Standstill::PileUp]
        }
        Shape::Saturated | Shape::Pool => &[Standstill::Statements, Standstill::Server, Standstill::Commits],
        Shape::Minutely => &[Standstill::Statements, Standstill::Server],
        Shape::Idle | Shape::Batches => &[Standstill::Server, Standstill::PileUp],
    }
}
