//! Old recordings open for ever, later ones are refused, and what is no recording is told in one line.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod story;

use std::path::{Path, PathBuf};

use spindoctor_record::{Error, Recording, Writer, WriterOptions};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

fn refused(path: &Path) -> String {
    let error = Recording::open(path).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.contains(&path.display().to_string()), "{error}");
    error
}

#[test]
fn the_recording_of_version_1_opens_and_tells_its_whole_story() {
    // A copy: SQLite makes files beside one that it reads.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v1.spindoctor");
    std::fs::copy(kept("v1.spindoctor"), &path).unwrap();
    let recording = Recording::open(&path).unwrap();
    let (from, to) = recording.extent().unwrap().unwrap();
    let samples = recording.samples(from, to).unwrap();
    let first = (0..story::FIRST_S).map(|second| story::expected(1, second));
    let expected: Vec<_> =
        first.chain((0..story::SECOND_S).map(|second| story::expected(2, second))).collect();
    assert_eq!(samples, expected);
    assert_eq!(recording.event(1).unwrap(), Some(story::event(1)));
    assert_eq!(recording.gaps().unwrap(), [story::gap()]);
    assert_eq!(recording.segments().unwrap()[0].server, story::server());
    assert_eq!(recording.overview(from, to, 100).unwrap().len(), 5);
    assert!(!recording.costs(story::began(), to).unwrap().is_empty());
    let window = recording.window(story::after(95), story::after(110)).unwrap().unwrap();
    assert_eq!(window.samples[0].server.variables.value(), Some(&story::variables(95)));
    // And it can be written on.
    drop(recording);
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    assert_eq!(writer.begin_segment(to, story::server()), 3);
}

#[test]
fn a_later_version_is_refused_by_reader_and_writer_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later.spindoctor");
    std::fs::copy(kept("v1.spindoctor"), &path).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Recording::open(&path), Err(Error::Newer { version: 99, .. })));
    assert!(refused(&path).contains("version 99"));
    assert!(matches!(Writer::open(&path, WriterOptions::default()), Err(Error::Newer { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_recording_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(refused(&path("absent")).contains("there is no recording"));
    std::fs::write(path("empty"), "").unwrap();
    assert!(refused(&path("empty")).contains("it is empty"));
    std::fs::write(path("text"), "SELECT 1;\n".repeat(1000)).unwrap();
    assert!(refused(&path("text")).contains("no SQLite database"));
    assert!(refused(folder.path()).contains("it is a folder"));
    let other = rusqlite::Connection::open(path("other")).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    drop(other);
    assert!(refused(&path("other")).contains("another program"));
    assert!(
        Writer::open(&path("other"), WriterOptions::default()).is_err(),
        "another program's file is not written to"
    );
    let cut = std::fs::read(kept("v1.spindoctor")).unwrap();
    std::fs::write(path("cut"), &cut[..50]).unwrap();
    assert!(refused(&path("cut")).contains("not a recording"));
}
