//! False alarms and misses of the detectors over hours of simulated load.
//!
//! `cargo run -p spindoctor-record --example stalls [HOURS]`: so many hours of each shape without a stall, and then with
//! stalls of each length in it.

#[path = "../tests/stalls/simulator.rs"]
mod simulator;

use simulator::{Shape, Standstill, judge, probes, stalls};

const HOUR_S: f64 = 3_600.0;
const LENGTHS_S: [f64; 7] = [0.1, 0.2, 0.3, 0.5, 1.0, 5.0, 30.0];

const SHAPES: [Shape; 6] =
    [Shape::Steady, Shape::Saturated, Shape::Pool, Shape::Idle, Shape::Batches, Shape::Minutely];

#[expect(clippy::print_stdout, reason = "it is a program that prints a table")]
fn main() {
    let hours: u64 = std::env::args().nth(1).and_then(|hours| hours.parse().ok()).unwrap_or(4);
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
                    outcome.injected,
                    percent(outcome.found, outcome.injected),
                    percent(outcome.kind_right, outcome.found),
                    percent(outcome.begin_right, outcome.found),
                    outcome.worst_begin_ms,
                    outcome.false_alarms.len()
                );
            }
        }
    }
}

/// What can be seen to stand still under this load: where nothing ends anyway, only a pile-up or the whole server.
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
