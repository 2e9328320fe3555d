//! `SHOW ENGINE INNODB STATUS`: no text makes the parser panic, and a cut text says less, not otherwise. The text of a deadlock, of
//! a status or of an error log: nor does one make that parser panic, and no statement passes where none is to be kept.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::innodb_status::parse;
use spindoctor_model::printed_deadlock;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let whole = parse(&text);
    assert_eq!(whole.raw.is_some(), !(whole.unknown_sections.is_empty() && whole.unknown_lines.is_empty()));
    let printed = whole.latest_deadlock.as_ref().map_or(text.as_ref(), |deadlock| deadlock.text.as_str());
    let deadlock = printed_deadlock::parse(printed);
    assert!(deadlock.transactions.len() <= printed.lines().count());
    assert!(printed_deadlock::statements(&printed_deadlock::without_statements(printed)).is_empty());
});
