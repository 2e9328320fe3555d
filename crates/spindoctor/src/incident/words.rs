//! The formats of an incident: a page, text for the terminal, JSON. Each is a function from a finished
//! [`Incident`](crate::incident::view::Incident); none reads a recording.

use super::changes::{self, Compared as Changed};
use super::numbers::{Compared, During};
use super::statements::Load;
use crate::common::stalls::day_and_time;
use spindoctor_page::number;
use spindoctor_statements::Verdict;

/// Where a comparison of statements found no change: whether there is none, or not enough evidence for one.
pub fn nothing_changed(compared: &Changed) -> String {
    let unknown = compared.changes.statements.iter().filter(|one| one.verdict == Verdict::NotKnown).count();
    match unknown {
        0 => "No statement is new, gone or changed beyond chance.".to_owned(),
        unknown => {
            let statements = number::counted(unknown as u64, "statement", "statements");
            format!("No change was found, but of {statements} there is not enough evidence.")
        }
    }
}

/// `statements that changed, against the same time a week ago (from 2026-06-24 09:00:00 UTC, 1 h)`
pub fn changes_title(compared: &Changed) -> String {
    let when = changes::earlier(compared).map_or_else(String::new, |earlier| {
        format!(" (from {}, {})", day_and_time(earlier.from), number::duration(earlier.seconds()))
    });
    format!("{}{when}", changes_words(compared))
}

/// The same without the earlier time.
pub fn changes_words(compared: &Changed) -> String {
    format!("statements that changed, {}", compared.against.words())
}

/// `5,812 /s`, with `at most` where it is the greatest of a stall; an en dash where nobody read it.
pub fn compared_text(row: &Compared) -> [String; 2] {
    let text = |value: Option<f64>| value.map(|value| number::quantity(rounded(value, row.unit), row.unit));
    let before = text(row.before).unwrap_or_else(|| NOT_READ.to_owned());
    let during = match (text(row.during), row.during_is) {
        (Some(during), During::Greatest) => format!("up to {during}"),
        (Some(during), During::Least) => format!("down to {during}"),
        (Some(during), During::Rate) => during,
        (None, _) => NOT_READ.to_owned(),
    };
    [before, during]
}

/// Stands where there is no number.
const NOT_READ: &str = "–";

/// Rates and counts without decimals that mean nothing.
pub fn rounded(value: f64, unit: &str) -> f64 {
    match unit {
        "1/s" | "" if value.abs() >= 10.0 => value.round(),
        _ => value,
    }
}

/// By how much a quantity changed: `-97 %`, `18 times`; nothing where one of the two is missing or hardly anything.
pub fn change_text(before: Option<f64>, during: Option<f64>) -> String {
    /// Smaller changes are the load's own.
    const LEAST: f64 = 0.05;
    let (Some(before), Some(during)) = (before, during) else { return String::new() };
    match during / before {
        ratio if !ratio.is_finite() || (ratio - 1.0).abs() < LEAST => String::new(),
        ratio if ratio >= 2.0 => format!("{} times", number::plain((ratio * 10.0).round() / 10.0)),
        ratio => format!("{:+.0} %", (ratio - 1.0) * 100.0),
    }
}

/// What the table of statements says of a load: threads at once, ended a second, mean time.
pub fn load_text(load: &Load) -> [String; 3] {
    let text = |value: Option<f64>, unit: &str| match value {
        Some(value) => number::quantity(tidy(value), unit),
        None => String::new(),
    };
    [text(load.at_once, ""), text(load.ended_per_s, "1/s"), text(load.mean_ms, "ms")]
}

/// At most one decimal from one on, two digits below it.
fn tidy(value: f64) -> f64 {
    if value >= 10.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_in_percent_or_times_and_noise_is_not_shown() {
        assert_eq!(change_text(Some(100.0), Some(3.0)), "-97 %");
        assert_eq!(change_text(Some(11.0), Some(201.0)), "18.3 times");
        assert_eq!(change_text(Some(100.0), Some(150.0)), "+50 %");
        for (before, during) in
            [(Some(100.0), Some(101.0)), (None, Some(1.0)), (Some(0.0), Some(0.0)), (Some(0.0), Some(5.0))]
        {
            assert_eq!(change_text(before, during), "", "{before:?} {during:?}");
        }
    }
}
