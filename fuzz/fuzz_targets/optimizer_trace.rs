//! The optimizer's trace, the ranges in it, and what a run counted of its pages: no text makes the parsers panic, and no range has no column.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::analyze_json;
use spindoctor_collect::mysql::optimizer_trace::{parse, range};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    assert!(range(&text).columns >= 1);
    analyze_json::pages(&text);
    let tables = parse(&text).unwrap_or_default();
    assert!(tables.iter().all(|table| !table.indexes.is_empty()));
});
