//! Damaged files: what can be read is read, and what cannot is a gap or one clear error. Nothing panics.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod story;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::Timestamp;
use proptest::prelude::*;
use spindoctor_model::Profile;
use spindoctor_record::span::Span;
use spindoctor_record::{Recording, Writer, WriterOptions};

/// The story of the first segment, a copy for each test of one that is written once.
fn story_file(folder: &Path) -> PathBuf {
    static STORY: OnceLock<Vec<u8>> = OnceLock::new();
    let path = folder.join("story.spindoctor");
    std::fs::write(&path, STORY.get_or_init(|| write_story(folder))).unwrap();
    path
}

fn write_story(folder: &Path) -> Vec<u8> {
    let path = folder.join("first.spindoctor");
    let mut writer =
        Writer::open(&path, WriterOptions { literals: true, ..WriterOptions::default() }).unwrap();
    let first = writer.begin_segment(story::began(), story::server());
    for second in 0..story::FIRST_S {
        writer.write_sample(story::sample(first, second)).unwrap();
    }
    let id = writer.new_event();
    writer.write_event(story::event(id)).unwrap();
    drop(writer);
    std::fs::read(&path).unwrap()
}

fn change(path: &Path, sql: &str, data: &[u8]) {
    let db = rusqlite::Connection::open(path).unwrap();
    assert!(db.execute(sql, [data]).unwrap() > 0);
}

/// Asks for all that there is; errors are fine, a panic is not.
fn read_all(path: &Path) {
    let Ok(recording) = Recording::open(path) else { return };
    let (from, to) = (story::after(0), story::after(1000));
    let _ = recording.extent();
    let _ = recording.segments();
    let _ = recording.samples(from, to);
    let _ = recording.window(from, to);
    let _ = recording.nearest(story::after(60));
    let _ = recording.overview(from, to, 50);
    let _ = recording.costs(from, to);
    for head in recording.events().unwrap_or_default() {
        let _ = recording.event(head.id);
    }
    let _ = recording.gaps();
}

#[test]
fn a_damaged_chunk_is_a_gap_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = story_file(folder.path());
    let db = rusqlite::Connection::open(&path).unwrap();
    let data: Vec<u8> = db.query_row("SELECT data FROM chunks WHERE id = 2", [], |row| row.get(0)).unwrap();
    drop(db);
    for cut in [data[..data.len() / 2].to_vec(), [&data[..40], &[0xff; 20], &data[60..]].concat()] {
        change(&path, "UPDATE chunks SET data = ?1 WHERE id = 2", &cut);
        let recording = Recording::open(&path).unwrap();
        let samples = recording.samples(story::after(0), story::after(1000)).unwrap();
        // The minute from 10:01:00 on is gone.
        assert_eq!(samples.len() as u64, story::FIRST_S - 60);
        let gaps = recording.gaps().unwrap();
        assert_eq!(gaps.len(), 1);
        assert!(gaps[0].because.contains("damaged"), "{gaps:?}");
        assert_eq!((gaps[0].from, gaps[0].to), (story::sample(1, 40).at, Some(story::sample(1, 99).at)));
    }
}

/// The pieces of a range, and the samples that are read in all of them.
fn in_pieces(recording: &Recording, from: Timestamp, to: Timestamp) -> (Vec<Span>, usize) {
    let pieces: Vec<Span> = recording.pieces(Span::new(from, to)).map(Result::unwrap).collect();
    let samples = pieces.iter().map(|piece| recording.samples(piece.from, piece.to).unwrap().len()).sum();
    (pieces, samples)
}

#[test]
fn pieces_have_each_sample_once_and_end_where_the_range_does() {
    let folder = tempfile::tempdir().unwrap();
    let recording = Recording::open(&story_file(folder.path())).unwrap();
    for (from, to) in [(0, 1000), (0, 60), (61, 61), (100, 149), (200, 1000)] {
        let (from, to) = (story::after(from), story::after(to));
        let (pieces, samples) = in_pieces(&recording, from, to);
        assert_eq!(samples, recording.samples(from, to).unwrap().len());
        assert!(pieces.iter().all(|piece| from <= piece.from && piece.from <= piece.to && piece.to <= to));
        assert!(pieces.windows(2).all(|two| two[0].to < two[1].from), "{pieces:?}");
    }
}

#[test]
fn years_without_a_sample_are_not_read_five_minutes_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = story_file(folder.path());
    // The clock said 1970 at first, as before the network sets it; and a chunk claims to end after all time.
    let db = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(db.execute("UPDATE chunks SET from_ms = 5000, to_ms = 64000 WHERE id = 1", []).unwrap(), 1);
    assert_eq!(db.execute("UPDATE chunks SET to_ms = ?1 WHERE id = 2", [i64::MAX]).unwrap(), 1);
    drop(db);
    let recording = Recording::open(&path).unwrap();
    let (pieces, samples) = in_pieces(&recording, Timestamp::MIN, Timestamp::MAX);
    assert_eq!((pieces.len(), samples as u64), (2, story::FIRST_S));
    assert_eq!(recording.first_within(story::after(1000), Timestamp::MAX).unwrap(), None);
    let [stretch] = recording.stretches(0).unwrap()[..] else { panic!("one segment") };
    assert!(stretch.last < story::after(1000), "{stretch:?}");
}

#[test]
fn a_damaged_part_of_an_event_is_left_out_and_the_others_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = story_file(folder.path());
    change(&path, "UPDATE blobs SET data = ?1 WHERE kind = 'before'", b"nonsense");
    let event = Recording::open(&path).unwrap().event(1).unwrap().unwrap();
    assert!(event.before.is_none());
    assert_eq!(event.during, story::event(1).during);
}

#[test]
fn a_profile_that_names_what_is_not_in_it_is_left_out_and_the_rest_of_the_event_is_shown() {
    for (what, without) in [
        ("threads", (|profile| profile.threads.truncate(1)) as fn(&mut Profile)),
        ("stacks", |profile| profile.stacks.truncate(1)),
        ("frames", |profile| profile.frames.clear()),
        ("snapshots", |profile| profile.snapshots.clear()),
        ("rates", |profile| profile.hz = f64::INFINITY),
        ("times", |profile| profile.seconds = -1.0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db.spindoctor");
        let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
        writer.begin_segment(story::began(), story::server());
        let mut event = story::event(writer.new_event());
        without(event.before.as_mut().unwrap());
        writer.write_event(event.clone()).unwrap();
        drop(writer);
        event.before = None;
        assert_eq!(Recording::open(&path).unwrap().event(1).unwrap(), Some(event), "{what}");
    }
}

#[test]
fn a_file_that_was_cut_gives_what_is_left_or_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = story_file(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.spindoctor");
    let mut in_part = 0;
    for length in (0..whole.len()).step_by(1777) {
        std::fs::write(&cut, &whole[..length]).unwrap();
        read_all(&cut);
        let Ok(recording) = Recording::open(&cut) else { continue };
        let Ok(samples) = recording.samples(story::after(0), story::after(1000)) else { continue };
        let gaps = recording.gaps().unwrap_or_default();
        let seconds = gaps.iter().map(|gap| {
            let gap_s = gap.to.unwrap_or(gap.from).duration_since(gap.from).as_secs();
            gap_s as u64 + 1
        });
        assert_eq!(samples.len() as u64 + seconds.sum::<u64>(), story::FIRST_S, "what is missing is a gap");
        in_part += u32::from(!samples.is_empty() && (samples.len() as u64) < story::FIRST_S);
    }
    assert!(in_part > 0, "of no cut file a part is read");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_in_a_blob_make_it_panic(data in proptest::collection::vec(any::<u8>(), 0..200), is_framed: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = story_file(folder.path());
        // Behind a true beginning, compressed as it should be, more of the bytes are looked at.
        let framed = |kind| [&[1, kind][..], &zstd::bulk::compress(&data, 1).unwrap()].concat();
        change(&path, "UPDATE chunks SET data = ?1 WHERE id = 2", &if is_framed { framed(0) } else { data.clone() });
        change(&path, "UPDATE blobs SET data = ?1", &if is_framed { framed(1) } else { data.clone() });
        read_all(&path);
        change(&path, "INSERT INTO samples (chunk, segment, at_ms, literals, data) VALUES (9, 1, 1767607300000, 1, ?1)", &data);
        read_all(&path);
        // A writer that finds such rows is not stopped by them.
        let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
        let segment = writer.begin_segment(story::after(600), story::server());
        writer.write_sample(story::sample(segment, 700)).unwrap();
    }

    #[test]
    fn no_bytes_in_the_file_make_it_panic(at in 0.0..1.0_f64, bytes in proptest::collection::vec(any::<u8>(), 1..64)) {
        let folder = tempfile::tempdir().unwrap();
        let path = story_file(folder.path());
        let mut whole = std::fs::read(&path).unwrap();
        let at = (at * (whole.len() - bytes.len()) as f64) as usize;
        whole[at..at + bytes.len()].copy_from_slice(&bytes);
        std::fs::write(&path, &whole).unwrap();
        read_all(&path);
    }
}
