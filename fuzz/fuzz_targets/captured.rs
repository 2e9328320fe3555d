//! Captured process lists, in each form that people have.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    spindoctor::fuzzing::captured(bytes);
});
