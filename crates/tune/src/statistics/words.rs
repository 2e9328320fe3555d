//! Numbers and lists in the form that the reasons of a verdict use.

use spindoctor_model::Effect;

use super::interval::Comparison;

/// A part in percent, rounded up, as it is an upper bound: `2.3 %`.
pub(super) fn up(part: f64) -> String {
    format!("{:.1} %", (1000.0 * part - 1e-9).ceil() / 10.0)
}

/// A difference of logarithms in percent, without the unit: `+2.3`.
pub(super) fn signed(difference: f64) -> String {
    let percent = 100.0 * (Effect::from(Comparison { mean: difference, low: None, high: None }).ratio - 1.0);
    // No minus before a zero.
    format!("{:+.1}", if percent.abs() < 0.05 { 0.0 } else { percent })
}

pub(super) fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    join_owned(names.map(str::to_owned))
}

pub(super) fn join_owned(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub(super) fn join_semicolon(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

pub(super) fn capital(words: &str) -> String {
    // Quantities are written p95 and CPU, also at the beginning of a sentence.
    if words.starts_with("p95") {
        return words.to_owned();
    }
    let mut words = words.to_owned();
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}
