//! A recording that somebody sent, whatever is in the file: it is read and reported, or refused.

#![no_main]

use std::{env, fs};

use libfuzzer_sys::fuzz_target;
use spindoctor_record::Recording;
use spindoctor_record::span::Span;

fuzz_target!(|bytes: &[u8]| {
    let path = env::temp_dir().join(format!("spindoctor-fuzz-recording-{}", std::process::id()));
    fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    if let Ok(recording) = Recording::open(&path) {
        let _ = recording.segments();
        let _ = recording.gaps();
        let _ = recording.stretches(0);
        for event in recording.events().into_iter().flatten().take(10) {
            let _ = recording.event(event.id);
        }
        if let Ok(Some((first, last))) = recording.extent() {
            let _ = recording.samples(first, last);
            let _ = recording.pieces(Span::new(first, last)).take(100).count();
            let _ = recording.window(first, last);
            let _ = recording.settings(last);
            let _ = recording.nearest(first);
            let _ = recording.costs(first, last);
        }
    }
    let _ = spindoctor::fuzzing::recording(&path);
    for ending in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(format!("{}{ending}", path.display()));
    }
});
