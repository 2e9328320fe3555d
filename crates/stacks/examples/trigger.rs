//! Waits until too many threads are in a function, or one is for too long, and says what waiting cost.
//!
//! `cargo run --release --example trigger -- PID FUNCTION (inside THREADS | slower MILLISECONDS) [SECONDS]`

#![expect(clippy::print_stdout, reason = "an example's result is what it prints")]

use std::time::{Duration, Instant};

use spindoctor_stacks::capture::trigger::{DEFAULT_BUDGET, Trigger, When};

fn main() -> spindoctor_stacks::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<u32>().ok());
    let (pid, bound) = (number(0).unwrap_or(std::process::id()), number(3).unwrap_or(1));
    let when = match arguments.get(2).map(String::as_str) {
        Some("slower") => When::Slower(Duration::from_millis(bound.into())),
        _ => When::Inside(bound),
    };
    let start = Instant::now();
    let mut trigger =
        Trigger::arm(pid, arguments.get(1).map_or("main", String::as_str), when, DEFAULT_BUDGET)?;
    println!("armed in {:.1?}", start.elapsed());
    let until = Instant::now() + Duration::from_secs(number(4).unwrap_or(10).into());
    while Instant::now() < until {
        match trigger.wait(Duration::from_secs(1))? {
            Some(fired) => println!("{fired:?}"),
            None => println!("{:?}", trigger.cost()),
        }
    }
    Ok(())
}
