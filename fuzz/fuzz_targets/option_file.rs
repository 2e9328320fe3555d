//! Option files: no bytes make the parser panic, and each line is reported once, in order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::option_file::{Line, parse};

fuzz_target!(|bytes: &[u8]| {
    let lines = parse(bytes);
    assert!(lines.is_sorted_by(|(above, _), (below, _)| above < below));
    for (number, line) in lines {
        assert!((1..=bytes.len()).contains(&number));
        if let Line::Option { key, .. } = line {
            assert!(!key.is_empty() && !key.contains('_'));
        }
    }
});
