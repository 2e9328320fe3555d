//! Written data can be read, while the writer writes and afterwards.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

mod story;

use std::path::{Path, PathBuf};

use spindoctor_model::{EventHead, Gap, RecordedSample, Sample};
use spindoctor_record::{Recording, Stretch, Writer, WriterOptions, Written};

/// The story in a file of its own, its writer still there.
fn write_recording(folder: &Path, literals: bool) -> (PathBuf, Writer) {
    let path = folder.join("story.spindoctor");
    let mut writer = Writer::open(&path, WriterOptions { literals, ..WriterOptions::default() }).unwrap();
    let first = writer.begin_segment(story::began(), story::server());
    for second in 0..story::FIRST_S {
        assert_eq!(writer.write_sample(story::sample(first, second)).unwrap(), Written::Done);
        writer.add_cost("probe", 10, 1.5);
    }
    let id = writer.new_event();
    writer.write_event(story::event(id)).unwrap();
    let second_segment = writer.begin_segment(story::after(story::RESTART_S), story::server());
    writer.write_gap(&story::gap()).unwrap();
    for second in 0..story::SECOND_S {
        writer.write_sample(story::sample(second_segment, second)).unwrap();
    }
    (path, writer)
}

fn all(recording: &Recording) -> Vec<RecordedSample> {
    let (from, to) = recording.extent().unwrap().unwrap();
    recording.samples(from, to).unwrap()
}

fn expected(of: fn(u64, u64) -> RecordedSample) -> Vec<RecordedSample> {
    let first = (0..story::FIRST_S).map(|second| of(1, second));
    first.chain((0..story::SECOND_S).map(|second| of(2, second))).collect()
}

#[test]
fn every_sample_comes_back_as_it_was_while_the_writer_writes_and_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, writer) = write_recording(folder.path(), true);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(all(&recording), expected(story::expected));
    drop(writer);
    assert_eq!(all(&recording), expected(story::expected));
    assert_eq!(all(&Recording::open(&path).unwrap()), expected(story::expected));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.contains(&"story.spindoctor-lock".into()), "{left:?}");
}

#[test]
fn each_segment_reaches_from_its_first_sample_to_its_last() {
    let folder = tempfile::tempdir().unwrap();
    let (path, writer) = write_recording(folder.path(), false);
    let samples = expected(story::expected);
    let reaches = |segment| {
        let mut times = samples.iter().filter(|sample| sample.segment == segment).map(|sample| sample.at);
        let first = times.next().unwrap();
        Stretch { segment, first, last: times.next_back().unwrap() }
    };
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.stretches(0).unwrap(), [reaches(1), reaches(2)]);
    drop(writer);
    assert_eq!(recording.stretches(2).unwrap(), [reaches(2)]);
    assert_eq!(recording.stretches(3).unwrap(), []);
}

#[test]
fn without_literals_statements_are_digests_and_nothing_secret_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, writer) = write_recording(folder.path(), false);
    assert_eq!(all(&Recording::open(&path).unwrap()), expected(story::expected_without_literals));
    drop(writer);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
    }
}

#[test]
fn a_window_begins_at_zero_in_the_last_segment_and_knows_the_variables() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _writer) = write_recording(folder.path(), true);
    let recording = Recording::open(&path).unwrap();

    let window = recording.window(story::after(40), story::after(61)).unwrap().unwrap();
    assert_eq!(window.start, story::sample(1, 40).at);
    assert_eq!((window.samples.len(), window.samples[0].at_s, window.seconds()), (21, 0.0, 20.0));
    assert_eq!(window.samples[0].server.status.timed().unwrap().0, 0.0);
    assert_eq!(window.server.hostname, "db17");
    assert_eq!(window.variable("innodb_io_capacity"), Some("200"));
    assert_eq!(window.latest(|sample| &sample.host.cpu).unwrap().name, "Fast CPU");
    assert!(window.status_per_s("Questions").is_some_and(|per_s| (per_s - 997.0).abs() < 1.0));

    let across = recording.window(story::after(140), story::after(200)).unwrap().unwrap();
    assert_eq!(across.start, story::sample(2, 0).at, "rates across a restart mean nothing");
    assert_eq!(across.variable("innodb_io_capacity"), Some("200"), "the second segment read them again");

    let later = recording.window(story::after(100), story::after(110)).unwrap().unwrap();
    assert_eq!(later.variable("innodb_io_capacity"), Some("4000"));
    assert_eq!(later.variable("old_passwords"), None, "a variable that is gone stays gone");
    assert!(recording.window(story::after(160), story::after(170)).unwrap().is_none());
}

#[test]
fn segments_gaps_and_the_nearest_sample_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut writer) = write_recording(folder.path(), true);
    let recording = Recording::open(&path).unwrap();
    let segments = recording.segments().unwrap();
    assert_eq!(segments.iter().map(|segment| segment.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((segments[0].began, &segments[0].server), (story::began(), &story::server()));
    assert_eq!(recording.gaps().unwrap(), [story::gap()]);

    let open = Gap { from: story::after(300), to: None, because: "the server does not answer".into() };
    writer.write_gap(&open).unwrap();
    assert_eq!(recording.gaps().unwrap()[1], open);
    let ended = Gap { to: Some(story::after(310)), ..open };
    writer.write_gap(&ended).unwrap();
    assert_eq!(recording.gaps().unwrap()[1..], [ended]);

    for (at, nearest) in [
        (story::after(0), story::sample(1, 0).at),
        (story::after(77), story::sample(1, 77).at),
        (story::after(155), story::sample(1, story::FIRST_S - 1).at),
        (story::after(185), story::sample(2, 0).at),
        (story::after(9999), story::sample(2, story::SECOND_S - 1).at),
    ] {
        assert_eq!(recording.nearest(at).unwrap(), Some(nearest), "{at}");
    }
}

#[test]
fn an_event_comes_back_whole_and_can_be_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut writer) = write_recording(folder.path(), true);
    let recording = Recording::open(&path).unwrap();
    let whole = story::event(1);
    assert_eq!(recording.event(1).unwrap(), Some(whole.clone()));
    assert_eq!(recording.events().unwrap(), std::slice::from_ref(&whole.head));
    assert_eq!(recording.event(2).unwrap(), None);

    let id = writer.new_event();
    assert_eq!(id, 2);
    let head = EventHead { id, ended: None, cause: None, headline: String::new(), ..whole.head.clone() };
    let begun =
        spindoctor_model::Event { head: head.clone(), before: whole.before.clone(), ..Default::default() };
    writer.write_event(begun).unwrap();
    let ended = EventHead { id, ..whole.head.clone() };
    let rest = spindoctor_model::Event {
        head: ended.clone(),
        before: None,
        graphs: Vec::new(),
        probes: Vec::new(),
        ..whole.clone()
    };
    writer.write_event(rest).unwrap();
    let read = recording.event(id).unwrap().unwrap();
    assert_eq!((read.head, read.before, read.during), (ended, whole.before, whole.during));
}

#[test]
fn the_overview_has_the_first_reading_of_each_minute_and_costs_are_by_the_minute() {
    let folder = tempfile::tempdir().unwrap();
    let (path, writer) = write_recording(folder.path(), true);
    let recording = Recording::open(&path).unwrap();
    let (from, to) = recording.extent().unwrap().unwrap();
    let points = recording.overview(from, to, 1000).unwrap();
    let minutes: Vec<_> = points.iter().map(|point| (point.segment, point.at)).collect();
    // 10:00:20, 10:01:00, 10:02:00; then 10:03:30 and 10:04:00.
    let at = |segment, second| (segment, story::sample(segment, second).at);
    assert_eq!(minutes, [at(1, 0), at(1, 40), at(1, 100), at(2, 0), at(2, 30)]);
    assert_eq!(points[1].questions, Some(1_000_000 + 40 * 997 + 5));
    assert_eq!((points[1].threads_running, points[1].threads_running_max), (Some(4), Some(8)));
    assert_eq!(points[1].server_cpu_us, None, "what was not read is none");
    let few = recording.overview(from, to, 3).unwrap();
    assert_eq!(few.iter().map(|point| point.at).collect::<Vec<_>>(), [at(1, 0).1, at(1, 100).1, at(2, 0).1]);

    drop(writer);
    let costs = recording.costs(began_of_minute(), to).unwrap();
    let probe: u64 = costs.iter().filter(|cost| cost.source == "probe").map(|cost| cost.asked).sum();
    assert_eq!(probe, story::FIRST_S * 10);
    let status: f64 =
        costs.iter().filter(|cost| cost.source == "server.status").map(|cost| cost.took_ms).sum();
    assert_eq!(status, 0.5 * (story::FIRST_S + story::SECOND_S) as f64);
}

#[test]
fn what_was_seen_between_samples_and_is_written_late_is_no_minutes_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    for second in 0..20 {
        writer.write_sample(story::sample(segment, second)).unwrap();
    }
    for second in [12, 15] {
        let sample = Sample { at_s: second as f64, ..Sample::default() };
        writer.write_look(RecordedSample { at: story::after(second), segment, sample }).unwrap();
    }
    for second in 20..39 {
        writer.write_sample(story::sample(segment, second)).unwrap();
    }
    let recording = Recording::open(&path).unwrap();
    let (from, to) = recording.extent().unwrap().unwrap();
    assert_eq!(recording.samples(from, to).unwrap().len(), 41, "it is read as any other");
    let points = recording.overview(from, to, 1000).unwrap();
    assert_eq!(points.len(), 1, "{points:?}");
    assert_eq!((points[0].at, points[0].threads_running_max), (story::sample(segment, 0).at, Some(8)));
}

fn began_of_minute() -> jiff::Timestamp {
    "2026-01-05T10:00:00Z".parse().unwrap()
}

#[test]
fn a_writer_goes_on_where_the_last_one_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (path, writer) = write_recording(folder.path(), true);
    drop(writer);
    let mut writer =
        Writer::open(&path, WriterOptions { literals: true, ..WriterOptions::default() }).unwrap();
    let segment = writer.begin_segment(story::after(600), story::server());
    assert_eq!((segment, writer.new_event()), (3, 2));
    let mut again = story::sample(2, 5);
    (again.segment, again.at) = (3, story::after(605));
    writer.write_sample(again.clone()).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(all(&recording).len() as u64, story::FIRST_S + story::SECOND_S + 1);
    let settings = recording.window(story::after(600), story::after(610)).unwrap().unwrap();
    assert_eq!(settings.variable("innodb_io_capacity"), Some("200"));
}

#[test]
fn samples_of_a_clock_that_was_set_back_stay_in_their_segments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let mut writer =
        Writer::open(&path, WriterOptions { literals: true, ..WriterOptions::default() }).unwrap();
    let first = writer.begin_segment(story::began(), story::server());
    (0..20).for_each(|second| drop(writer.write_sample(story::sample(first, second)).unwrap()));
    // Ten seconds back, in the same minute.
    let second_segment = writer.begin_segment(story::began(), story::server());
    (10..30).for_each(|second| {
        let back = RecordedSample { segment: second_segment, ..story::sample(first, second) };
        writer.write_sample(back).unwrap();
    });
    let recording = Recording::open(&path).unwrap();
    let samples = recording.samples(story::after(0), story::after(40)).unwrap();
    let places: Vec<_> = samples.iter().map(|sample| (sample.segment, sample.at)).collect();
    assert!(places.is_sorted());
    assert_eq!(places.len(), 40);
    let window = recording.window(story::after(0), story::after(40)).unwrap().unwrap();
    assert_eq!(window.samples.len(), 20, "of the last segment only");
}
