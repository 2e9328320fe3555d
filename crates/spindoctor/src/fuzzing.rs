//! The program's own parsers of untrusted input, for the fuzz targets in `fuzz/`; nothing else uses it.

use crate::commands;
use crate::common::window_file;
use crate::doctor::json;
use crate::indexes::Select;
use crate::workload::Captured;

/// A captured process list, read to its end; how many looks it has.
pub fn captured(text: &[u8]) -> usize {
    let mut looks = 0;
    for appliers in [false, true] {
        let mut captured = Captured::new(text, 1.0, appliers);
        while let Ok(Some(_)) = captured.next() {
            looks += 1;
        }
    }
    looks
}

/// A saved window, diagnosed where it is one; whether it is.
pub fn window(bytes: &[u8]) -> bool {
    let Ok(window) = window_file::from_bytes(bytes) else { return false };
    let diagnosis = spindoctor_rules::diagnose(&window);
    let _ = json::render(&diagnosis);
    let _ = spindoctor_rules::proposals::plan(&window);
    true
}

/// A statement that may be asked about with EXPLAIN; whether it may.
pub fn explainable(text: &str) -> bool {
    Select::parse(text).is_ok()
}

/// Times and moments of a command line, and each of its other forms of value: any text is a value or a refusal.
pub fn arguments(text: &str) {
    let words = text.split_whitespace().map(std::ffi::OsString::from);
    let _ = commands::parse(std::iter::once("spindoctor".into()).chain(words));
}
