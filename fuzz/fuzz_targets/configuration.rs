//! A configuration file: any bytes are settings or a refusal.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    spindoctor::fuzzing::configuration(text);
});
