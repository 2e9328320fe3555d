//! The program's own parsers of untrusted input, for the fuzz targets in `fuzz/`; nothing else uses it.

use std::path::Path;

use spindoctor_model::Window;
use spindoctor_record::Recording;

use crate::common::{terminal, window_file};
use crate::doctor::{html, json, text};
use crate::workload::Captured;
use crate::{commands, incident};

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

/// What `report` makes of a recording that somebody sent; how many incidents.
pub fn recording(file: &Path) -> usize {
    Recording::open(file).map_or(0, |recording| incident::in_every_form(&recording, file))
}

/// A saved window, diagnosed where it is one; whether it is.
pub fn window(bytes: &[u8]) -> bool {
    let Ok(window) = window_file::from_bytes(bytes) else { return false };
    diagnosed(&window);
    true
}

/// What `doctor` says of a window, in each form.
pub fn diagnosed(window: &Window) {
    let diagnosis = spindoctor_rules::diagnose(window);
    let _ = json::render(&diagnosis);
    let _ = text::render(&diagnosis, terminal::look_of_stdout());
    let _ = html::render(&diagnosis, window.profile.value(), None);
    let _ = spindoctor_rules::proposals::plan(window);
}

/// Times and moments of a command line, and each of its other forms of value: any text is a value or a refusal.
pub fn arguments(text: &str) {
    let words = text.split_whitespace().map(std::ffi::OsString::from);
    let _ = commands::parse(std::iter::once("spindoctor".into()).chain(words));
}

/// A configuration file, held against the program's flags, and its values against those of two commands; whether all of it holds.
pub fn configuration(text: &[u8]) -> bool {
    let lines = [&["spindoctor", "record"][..], &["spindoctor", "fleet", "doctor"]];
    lines.iter().all(|line| commands::takes_configuration(text, line))
}
