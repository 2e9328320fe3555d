//! Old recordings open for ever, later ones are refused, and a file that is not a recording gives an error of one line.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod story;

use std::path::{Path, PathBuf};

use spindoctor_model::{Event, Reading, RecordedSample};
use spindoctor_record::{Error, Recording, Writer, WriterOptions};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

fn refused(path: &Path) -> String {
    let error = Recording::open(path).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.contains(&path.display().to_string()), "{error}");
    error
}

/// One of each version: both hold the same story.
const KEPT: [&str; 2] = ["v1.spindoctor", "v2.spindoctor"];

#[test]
fn the_recording_of_each_version_opens_and_shows_its_whole_story() {
    for name in KEPT {
        shows_its_whole_story(name);
    }
}

fn shows_its_whole_story(name: &str) {
    let (_folder, path) = kept_copy(name);
    let recording = Recording::open(&path).unwrap();
    let (from, to) = recording.extent().unwrap().unwrap();
    let samples = recording.samples(from, to).unwrap();
    let first = (0..story::FIRST_S).map(|second| story::expected(1, second));
    let expected: Vec<_> =
        first.chain((0..story::SECOND_S).map(|second| story::expected(2, second))).collect();
    assert_eq!(samples, expected);
    // Its profiles name threads that they do not list, which no recorder writes: they are left out.
    let event = Event { before: None, during: None, ..story::event(1) };
    assert_eq!(recording.event(1).unwrap(), Some(event));
    assert_eq!(recording.gaps().unwrap(), [story::gap()]);
    assert_eq!(recording.segments().unwrap()[0].server, story::server());
    assert_eq!(recording.overview(from, to, 100).unwrap().len(), 5);
    assert!(!recording.costs(story::began(), to).unwrap().is_empty());
    let window = recording.window(story::after(95), story::after(110)).unwrap().unwrap();
    assert_eq!(window.samples[0].server.variables.value(), Some(&story::variables(95)));
    // And it can be written on: what is there stays as it is, what comes is of this version.
    drop(recording);
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    assert_eq!(writer.begin_segment(to, story::server()), 3);
    writer.write_sample(RecordedSample { at: story::after(600), ..story::sample(3, 0) }).unwrap();
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.samples(from, to).unwrap(), samples);
    assert_eq!(recording.samples(story::after(590), story::after(610)).unwrap().len(), 1);
}

#[test]
fn what_is_read_without_lists_has_all_the_rest() {
    for name in KEPT {
        let (_folder, path) = kept_copy(name);
        let recording = Recording::open(&path).unwrap();
        let (from, to) = recording.extent().unwrap().unwrap();
        let mut whole = recording.samples(from, to).unwrap();
        for recorded in &mut whole {
            recorded.sample.server.threads = Reading::NotAsked;
            recorded.sample.server.transactions = Reading::NotAsked;
        }
        assert_eq!(recording.samples_without_lists(from, to).unwrap(), whole);
        let emptied = recording.samples_with_emptied_lists(from, to).unwrap();
        for (emptied, mut recorded) in emptied.into_iter().zip(recording.samples(from, to).unwrap()) {
            empty(&mut recorded.sample.server.threads);
            empty(&mut recorded.sample.server.transactions);
            assert_eq!(emptied, recorded);
        }
        let (from, to) = (story::after(60), story::after(110));
        let whole = recording.window(from, to).unwrap().unwrap();
        let until = recording.window_until(from, to).unwrap().unwrap();
        assert_eq!(until.samples.len(), whole.samples.len());
        assert_eq!(until.samples.last(), whole.samples.last());
        assert!(until.samples[0].server.threads.value().is_none());
    }
}

fn empty<T>(list: &mut Reading<Vec<T>>) {
    if let Reading::Available { value, .. } = list {
        value.clear();
    }
}

/// A copy in a folder of its own: SQLite makes files beside one that it reads.
fn kept_copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::copy(kept(name), &path).unwrap();
    (folder, path)
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
fn what_is_no_recording_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(refused(&path("absent")).contains("there is no recording"));
    std::fs::write(path("empty"), "").unwrap();
    assert!(refused(&path("empty")).contains("it is empty"));
    std::fs::write(path("text"), "SELECT 1;\n".repeat(1000)).unwrap();
    assert!(refused(&path("text")).contains("not a SQLite database"), "{}", refused(&path("text")));
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
