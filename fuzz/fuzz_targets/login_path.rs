//! Login path files: no bytes make the decoder panic, and what it gives is an option file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::{login_path, option_file};

fuzz_target!(|bytes: &[u8]| {
    // Nearly no bytes begin as the files do, so the other half of the work is done for the fuzzer.
    for bytes in [bytes.to_vec(), [&[0; 4], bytes].concat()] {
        if let Ok(text) = login_path::decode(&bytes) {
            assert!(text.len() < bytes.len(), "decoding makes nothing longer");
            option_file::parse(&text);
        }
    }
});
