//! Writes recordings for the tests: the story, or seconds without end until it is killed.
//!
//! ```text
//! spindoctor-record-driver story FILE     the story, with its literals
//! spindoctor-record-driver forever FILE   says each second's number once it is written
//! ```

#![expect(clippy::unwrap_used, reason = "a program of the tests: it fails as they do")]

use std::io::Write as _;
use std::path::Path;

use spindoctor_record::{Writer, WriterOptions, Written};

#[path = "../story/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod story;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (what, path) = (arguments.next().unwrap(), arguments.next().unwrap());
    match what.as_str() {
        "story" => write_story(Path::new(&path)),
        "forever" => forever(Path::new(&path)),
        other => panic!("{other}?"),
    }
}

/// The story from its beginning to its end.
fn write_story(path: &Path) {
    let options = WriterOptions { literals: true, ..WriterOptions::default() };
    let mut writer = Writer::open(path, options).unwrap();
    let first = writer.begin_segment(story::began(), story::server());
    for second in 0..story::FIRST_S {
        writer.write_sample(story::sample(first, second)).unwrap();
        writer.add_cost("probe", 10, 1.5);
    }
    let event = writer.new_event();
    writer.write_event(story::event(event)).unwrap();
    let second_segment = writer.begin_segment(story::after(story::RESTART_S), story::server());
    writer.write_gap(&story::gap()).unwrap();
    for second in 0..story::SECOND_S {
        writer.write_sample(story::sample(second_segment, second)).unwrap();
    }
}

/// A second after the other as fast as they can be written, each in a segment that goes on from the last one of the file.
fn forever(path: &Path) {
    let mut writer = Writer::open(path, WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    let mut out = std::io::stdout();
    for second in 0.. {
        assert_eq!(writer.write_sample(story::sample(segment, second)).unwrap(), Written::Done);
        writeln!(out, "{second}").unwrap();
        out.flush().unwrap();
    }
}
