//! Which data are kept, and for how long.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod story;

use std::path::Path;
use std::time::Duration;

use spindoctor_model::EventHead;
use spindoctor_record::{Recording, Writer, WriterOptions};

const HOUR: Duration = Duration::from_secs(3600);

fn write(writer: &mut Writer, segment: u64, seconds: std::ops::Range<u64>) {
    for second in seconds {
        writer.write_sample(story::sample(segment, second)).unwrap();
    }
}

fn count(path: &Path, sql: &str) -> i64 {
    rusqlite::Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn samples_and_all_else_older_than_the_age_go_and_the_settings_stay_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let options = WriterOptions { keep_for: HOUR, literals: true, ..WriterOptions::default() };
    let mut writer = Writer::open(&path, options).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    write(&mut writer, segment, 0..300);
    let id = writer.new_event();
    writer.write_event(story::event(id)).unwrap();
    writer.write_gap(&story::gap()).unwrap();
    // Two hours on, for as long as it takes to get there half an hour at a time.
    write(&mut writer, segment, 7200..7500);
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    let (first, _) = recording.extent().unwrap().unwrap();
    assert_eq!(first, story::sample(1, 7200).at);
    assert_eq!(recording.events().unwrap(), []);
    assert_eq!(recording.gaps().unwrap(), []);
    assert_eq!(count(&path, "SELECT count(*) FROM blobs") + count(&path, "SELECT count(*) FROM stacks"), 0);
    assert_eq!(count(&path, "SELECT count(*) FROM minutes WHERE at_ms < 1767607220000 + 3600000"), 0);
    let window = recording.window(story::after(7300), story::after(7310)).unwrap().unwrap();
    assert_eq!(window.variable("innodb_io_capacity"), Some("4000"));
    assert_eq!(window.latest(|sample| &sample.host.cpu).unwrap().name, "Fast CPU");
    assert_eq!(recording.segments().unwrap().len(), 1, "the segment goes on");
    let statements = window.samples.iter().filter_map(|sample| sample.server.digests.value());
    assert!(statements.flatten().all(|digest| !digest.text.is_empty()));
}

#[test]
fn a_file_at_its_bound_loses_the_oldest_samples_and_keeps_the_events() {
    const BOUND: u64 = 600 << 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let options = WriterOptions { max_bytes: BOUND, literals: true, ..WriterOptions::default() };
    let mut writer = Writer::open(&path, options).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    write(&mut writer, segment, 0..60);
    let id = writer.new_event();
    writer.write_event(story::event(id)).unwrap();
    let mut second = 60;
    while Recording::open(&path).unwrap().extent().unwrap().unwrap().0 == story::sample(1, 0).at {
        write(&mut writer, segment, second..second + 600);
        second += 600;
        assert!(second < 200_000, "it never reaches its bound");
    }
    write(&mut writer, segment, second..second + 1200);
    drop(writer);
    // A minute's rows are not folded when the bound is looked at.
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes <= BOUND + BOUND / 4, "{bytes}");
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.event(id).unwrap(), Some(story::event(id)));
    let (first, last) = recording.extent().unwrap().unwrap();
    assert_eq!(last, story::sample(1, second + 1199).at);
    let samples = recording.samples(first, last).unwrap();
    assert!(
        samples.windows(2).all(|pair| pair[1].at.duration_since(pair[0].at).as_secs() == 1),
        "no hole in it"
    );
}

#[test]
fn a_bound_that_samples_do_not_meet_takes_the_oldest_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let options = |max_bytes| WriterOptions { max_bytes, literals: true, ..WriterOptions::default() };
    let mut writer = Writer::open(&path, options(1 << 30)).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    write(&mut writer, segment, 0..120);
    for _ in 0..60 {
        let id = writer.new_event();
        let mut event = story::event(id);
        event.head = EventHead { began: story::after(id), ended: None, ..event.head };
        writer.write_event(event).unwrap();
    }
    let before = Recording::open(&path).unwrap().events().unwrap().len();
    assert_eq!(before, 60);
    writer.set_options(options(200 << 10));
    write(&mut writer, segment, 120..120 + 600);
    drop(writer);
    let events = Recording::open(&path).unwrap().events().unwrap();
    assert!(events.len() < before, "{}", events.len());
    assert_eq!(events.last().unwrap().id, 60, "the oldest went");
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1));
}

#[test]
fn a_clock_that_is_a_year_ahead_for_a_moment_does_not_cost_what_is_there() {
    const YEAR_S: u64 = 365 * 86_400;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let options = WriterOptions { keep_for: 24 * HOUR, literals: true, ..WriterOptions::default() };
    let mut writer = Writer::open(&path, options).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    // Two hours, a sample a minute.
    for minute in 0..120 {
        writer.write_sample(story::sample(segment, minute * 60)).unwrap();
    }
    let ahead = writer.begin_segment(story::after(YEAR_S), story::server());
    writer.write_sample(story::sample(ahead, YEAR_S)).unwrap();
    drop(writer);
    // One run has taken away half an hour.
    let minutes = count(&path, "SELECT count(*) FROM minutes");
    assert!((90..=92).contains(&minutes), "{minutes}");
    assert_eq!(count(&path, "SELECT count(*) FROM segments"), 2, "its samples are still there");
    let chunks = count(&path, "SELECT count(*) FROM chunks");
    assert!((90..=92).contains(&chunks), "{chunks}");
}
