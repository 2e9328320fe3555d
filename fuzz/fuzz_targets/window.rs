//! A saved window that somebody sent: it is diagnosed and planned for, or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    spindoctor::fuzzing::window(bytes);
});
