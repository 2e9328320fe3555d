//! Conditions of `--when`, and what they make of numbers: any text is a condition or a refusal.
//!
//! The first line is the condition, each other one a number.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_record::condition::{Condition, Tracked};

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let Ok(condition) = lines.next().unwrap_or_default().parse::<Condition>() else { return };
    assert!(!condition.name().is_empty());
    condition.cannot_hold();
    let mut tracked = Tracked::new(condition);
    for (at, value) in lines.enumerate() {
        tracked.check(at as f64, value.parse().unwrap_or(f64::NAN));
    }
});
