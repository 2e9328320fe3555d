//! Runs one scenario: `cargo run -p spindoctor-lab --example scenario -- row-lock-pileup [mariadb] [SECONDS]`.
//! The window is left as JSON in the file that the last line names.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::time::Duration;

use spindoctor_lab::scenario::{self, RunOptions, SCENARIOS};
use spindoctor_lab::{Home, Which};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let scenario = words.first().and_then(|name| scenario::find(name));
    let Some(scenario) = scenario else {
        for scenario in SCENARIOS {
            println!("{}\n    {}", scenario.name, scenario.story);
        }
        return Ok(());
    };
    let which = if words.iter().any(|word| word == "mariadb") { Which::Mariadb } else { Which::Mysql };
    let seconds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10.0);
    let options = RunOptions { which, window: Duration::from_secs_f64(seconds) };
    let outcome = scenario::run(&Home::open()?, scenario, &options, &|line| eprintln!("{line}")).await?;
    println!("{} on {}, label {:?}", outcome.scenario, outcome.server, outcome.label);
    println!("before: {}\nafter:  {:?}\nload:   {:?}", outcome.seen_before, outcome.seen_after, outcome.load);
    for finding in &outcome.diagnosis.findings {
        println!("{:?} {:.2} {}: {}", finding.severity, finding.score, finding.cause, finding.headline);
    }
    for missing in &outcome.diagnosis.not_examined {
        println!("not examined: {} ({})", missing.cause, missing.because);
    }
    println!("named first: {}; {:.1} s in all", outcome.named_first, outcome.seconds);
    let file = std::env::temp_dir().join(format!(
        "window-{}-{}.json",
        outcome.scenario,
        outcome.window.server.version.map_or_else(String::new, |v| v.flavor.to_string().to_lowercase())
    ));
    std::fs::write(&file, serde_json::to_vec(&outcome.window)?)?;
    println!("{}", file.display());
    Ok(())
}
