//! Statements that others wrote: EXPLAIN is asked about those that are plain reading, and about no other.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    spindoctor::fuzzing::explainable(text);
});
