//! What somebody captured: no bytes make the reader or the rules panic, and each document has a window that the rules' types hold.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_captures::{Text, collections, recognise, window};

fuzz_target!(|bytes: &[u8]| {
    let text = Text::from_bytes(bytes);
    let parts = recognise("captured", &text.text);
    for collection in collections(&parts) {
        let window = window(collection.parts.iter().map(|at| &parts[*at]));
        assert!(!window.samples.is_empty());
        spindoctor::fuzzing::diagnosed(&window);
    }
});
