//! The command line: any words are a command or a refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    spindoctor::fuzzing::arguments(text);
});
