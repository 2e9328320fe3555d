//! How often simulated trials without an effect help or hurt, and how soon trials with one find it.
//!
//! `cargo run --release -p spindoctor-tune --example false_alarms [TRIALS]`, 4,000 where nothing else is said.
#![expect(clippy::print_stdout, reason = "a program")]

use spindoctor_tune::statistics::simulated::{Truth, tally};

fn main() {
    let trials = std::env::args().nth(1).and_then(|trials| trials.parse().ok()).unwrap_or(4_000);
    println!("{trials} trials each, looked at after every quad, 40 quads at most");
    println!(
        "load                                  helps   hurts  no effect  inconclusive  quads in the mean"
    );
    for (name, truth) in [
        ("no effect, no memory", Truth { correlation: 0.0, drift_per_hour: 0.0, ..Truth::default() }),
        ("no effect, memory and drift", Truth::default()),
        ("no effect, long memory", Truth { correlation: 0.97, drift_per_hour: -2.0, ..Truth::default() }),
        ("no effect, quiet", Truth { noise: 0.01, ..Truth::default() }),
        ("throughput +5 %, noise 3 %", Truth { throughput: 1.05, noise: 0.03, ..Truth::default() }),
        ("throughput +5 %, noise 10 %", Truth { throughput: 1.05, ..Truth::default() }),
        ("throughput -5 %, noise 3 %", Truth { throughput: 0.95, noise: 0.03, ..Truth::default() }),
        ("throughput -50 %", Truth { throughput: 0.5, ..Truth::default() }),
        ("CPU per query -5 %, noise 1 %", Truth { cpu_per_query: 0.95, noise: 0.01, ..Truth::default() }),
    ] {
        let found = tally(&truth, trials, 1);
        let percent = |count: u32| 100.0 * f64::from(count) / f64::from(trials);
        println!(
            "{name:36} {:5.1} % {:5.1} % {:7.1} % {:11.1} % {:12.1}",
            percent(found.helps),
            percent(found.hurts),
            percent(found.no_effect),
            percent(found.inconclusive),
            f64::from(found.quads) / f64::from(trials),
        );
    }
}
