//! Journals of `tune`, of variables and of undo tablespaces: any bytes are a journal or a refusal, and what is read is written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_tune::journal::Journal;
use spindoctor_tune::undo::journal::UndoJournal;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(journal) = serde_json::from_slice::<Journal>(bytes) {
        serde_json::to_vec(&journal).expect("a journal is JSON");
    }
    if let Ok(journal) = serde_json::from_slice::<UndoJournal>(bytes) {
        serde_json::to_vec(&journal).expect("a journal is JSON");
    }
});
