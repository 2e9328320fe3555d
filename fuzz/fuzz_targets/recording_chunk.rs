//! A chunk of a recording: any bytes are samples or a refusal, within the bounds of a chunk.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(samples) = spindoctor_record::decoded(bytes) {
        assert!(samples <= 10_000);
    }
});
