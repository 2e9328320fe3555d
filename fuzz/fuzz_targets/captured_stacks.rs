//! Stacks that somebody captured, in whatever form: any text is stacks or none.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = spindoctor_captures::stacks::read(text);
});
