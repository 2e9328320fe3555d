//! `SHOW ENGINE INNODB STATUS`: no text makes the parser panic, and a cut text says less, not otherwise.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::innodb_status::parse;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let whole = parse(&text);
    assert_eq!(whole.raw.is_some(), !(whole.unknown_sections.is_empty() && whole.unknown_lines.is_empty()));
});
