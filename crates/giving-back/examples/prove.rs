//! The checker's runs, as tables: `prove [--deep] [FILE]`. They are printed, and written into the file.

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::fmt::Write as _;
use std::process::ExitCode;

use spindoctor_giving_back::cases::{DEEP, LIMITS, PLANTED, PLANTED_DEEP, SHORT};
use spindoctor_giving_back::check::{Extent, PROMISED, check, describe};
use spindoctor_giving_back::protocol::Protocol;
use spindoctor_giving_back::steps::GivingBack;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_deep = arguments.iter().any(|argument| argument == "--deep");
    let mut is_right = true;
    let mut rows = String::new();
    let deep = if is_deep { DEEP } else { &[] };
    for (name, scope) in SHORT.iter().chain(deep) {
        let model = GivingBack { protocol: Protocol::PROGRAM, scope: *scope };
        let checked = check(model, Extent::Whole);
        is_right &= checked.broken.is_empty();
        let broken: Vec<&str> = checked.broken.iter().map(|(name, _)| *name).collect();
        let (states, unique, depth) = (checked.states, checked.unique, checked.depth);
        let found = if broken.is_empty() { "nothing".to_owned() } else { broken.join(", ") };
        let row = format!(
            "| {name} | {states} | {unique} | {depth} | {:.0} | {found} |",
            checked.took.as_secs_f64()
        );
        println!("{row}");
        for (name, way) in &checked.broken {
            println!("{name}:\n  {}", describe(&model, way).join("\n  "));
        }
        let _ = writeln!(rows, "{row}");
    }
    let mut limit_rows = String::new();
    for (name, scope) in if is_deep { LIMITS } else { &[] } {
        let checked = check(GivingBack { protocol: Protocol::PROGRAM, scope: *scope }, Extent::UntilBroken);
        is_right &= !checked.broken.is_empty();
        let first = checked.broken.iter().min_by_key(|(_, way)| way.len());
        let row = match first {
            Some((found, way)) => format!("| {name} | {found} | {} |", way.len()),
            None => format!("| {name} | not found | |"),
        };
        println!("{row}");
        let _ = writeln!(limit_rows, "{row}");
    }
    let limits = if is_deep {
        format!(
            "\nWhere it is known not to hold, as the description of the crate says under what is assumed:\n\n\
            | what may happen | what does not hold then | shortest way, steps |\n|---|---|---:|\n{limit_rows}"
        )
    } else {
        String::new()
    };
    let mut planted_rows = String::new();
    let deep = if is_deep { PLANTED_DEEP } else { &[] };
    for planted in PLANTED.iter().chain(deep) {
        let mut protocol = Protocol::PROGRAM;
        (planted.plant)(&mut protocol);
        let checked = check(GivingBack { protocol, scope: planted.scope }, Extent::UntilBroken);
        is_right &= !checked.broken.is_empty();
        let first = checked.broken.iter().min_by_key(|(_, way)| way.len());
        let row = match first {
            Some((name, way)) => format!("| {} | {name} | {} |", planted.what, way.len()),
            None => format!("| {} | not found | |", planted.what),
        };
        println!("{row}");
        let _ = writeln!(planted_rows, "{row}");
    }
    let section = format!(
        "# What the checker has looked at\n\n\
        The model of the giving back (`crates/giving-back`), checked by `script/giving-back`: every state that can be reached with so many \
        faults and guests, in any order; there is no bound of steps. Promised: {PROMISED} s. Seconds are those of one core.\n\n\
        | what may happen | states | different | longest way, steps | seconds | found |\n|---|---:|---:|---:|---:|---|\n{rows}{limits}\n\
        The same with a bug planted:\n\n\
        | planted | what does not hold then | shortest way, steps |\n|---|---|---:|\n{planted_rows}"
    );
    if let Some(file) = arguments.iter().find(|argument| !argument.starts_with("--"))
        && let Err(error) = std::fs::write(file, section)
    {
        println!("{file} cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
