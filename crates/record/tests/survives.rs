//! Killed writers, second writers, full disks, media that cannot be written.
//!
//! File systems are mounted for the tests that fill a disk: they need root, and print that they were skipped without it.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]
#![expect(clippy::print_stdout, reason = "a skipped test prints why")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod story;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use spindoctor_model::{Gap, RecordedSample};
use spindoctor_record::{Error, NoRoom, Recording, Writer, WriterOptions, Written};

const DRIVER: &str = env!("CARGO_BIN_EXE_spindoctor-record-driver");

fn recorder(path: &Path) -> Child {
    Command::new(DRIVER).arg("forever").arg(path).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_writer_that_is_killed_at_any_moment_loses_at_most_the_sample_that_it_was_writing() {
    const KILLS: u64 = 25;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.spindoctor");
    let mut chance = fastrand::Rng::with_seed(5);
    for kill in 1..=KILLS {
        let mut child = recorder(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // At least one is written; then it is killed somewhere within the next ones.
        let mut said: u64 = lines.next().unwrap().unwrap().parse().unwrap();
        std::thread::sleep(Duration::from_micros(chance.u64(0..60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            // The last line may be cut.
            said = line.parse().unwrap_or(said);
        }
        let recording = Recording::open(&path).unwrap();
        let (from, to) = recording.extent().unwrap().unwrap();
        let samples = recording.samples(from, to).unwrap();
        let last: Vec<_> = samples.iter().filter(|sample| sample.segment == kill).collect();
        let held = last.len() as u64;
        assert!(held > said && held <= said + 2, "said {said}, held {held}");
        for (second, sample) in (0..).zip(last) {
            assert_eq!(*sample, story::expected_without_literals(kill, second));
        }
        assert!(recording.gaps().unwrap().is_empty());
        assert_eq!(recording.segments().unwrap().len() as u64, kill);
    }
}

#[test]
fn a_second_writer_is_refused_while_the_first_lives_and_taken_when_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.spindoctor");
    let mut child = recorder(&path);
    BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let refused = Writer::open(&path, WriterOptions::default()).unwrap_err();
    assert!(matches!(&refused, Error::InUse { pid, .. } if *pid == child.id().to_string()), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    Writer::open(&path, WriterOptions::default()).unwrap();
}

#[test]
fn files_and_folders_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/deeper/a.spindoctor");
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    writer.write_sample(story::sample(segment, 0)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("new")), 0o700);
    let files: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 3, "the file, its log and its lock: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// A small file system of its own.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// None, and a line that says so, where nothing can be mounted.
    fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self { folder });
        }
        println!("skipped: a file system cannot be mounted here, which needs root");
        None
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(self.folder.path())
            .status();
        assert!(status.unwrap().success());
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.spindoctor")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

/// Writes samples until something else than [`Written::Done`] comes back, and gives that and its second.
fn write_until_stopped(writer: &mut Writer, segment: u64, from: u64) -> (u64, Written) {
    for second in from..from + 2_000_000 {
        let written = writer.write_sample(story::sample(segment, second)).unwrap();
        if written != Written::Done {
            return (second, written);
        }
    }
    panic!("the disk never fills");
}

/// All samples of the one segment, and that nothing is missing but a range of seconds.
fn check(path: &Path, seconds: u64, missing: std::ops::Range<u64>) {
    let recording = Recording::open(path).unwrap();
    let samples = recording.samples(story::after(0), story::after(seconds)).unwrap();
    let expected: Vec<RecordedSample> = (0..seconds)
        .filter(|second| !missing.contains(second))
        .map(|second| story::expected_without_literals(1, second))
        .collect();
    assert_eq!(samples.len(), expected.len());
    assert!(samples == expected, "the samples are what was written");
    let gaps = recording.gaps().unwrap();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(gaps[0].from, story::sample(1, missing.start - 1).at);
    assert_eq!(gaps[0].to, Some(story::sample(1, missing.end).at));
    assert!(gaps[0].because.contains("disk"), "{gaps:?}");
}

#[test]
fn it_stops_before_the_last_of_the_disk_and_goes_on_when_there_is_room() {
    let Some(disk) = Disk::mount(8 << 20) else { return };
    let ballast = disk.folder.path().join("ballast");
    // What the disk has, without what is kept free and a mebibyte for the recording.
    std::fs::write(&ballast, vec![0; 6 << 20]).unwrap();
    let mut writer = Writer::open(&disk.path(), WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    let (stopped, written) = write_until_stopped(&mut writer, segment, 0);
    assert_eq!(written, Written::Stopped(NoRoom::Reserved));
    let space = rustix::fs::statvfs(disk.folder.path()).unwrap();
    let free_ratio = space.f_bavail as f64 / space.f_blocks as f64;
    assert!((0.04..0.05).contains(&free_ratio), "it ends just below the bound: {free_ratio}");
    assert_eq!(
        writer.write_sample(story::sample(segment, stopped + 1)).unwrap(),
        Written::Dropped,
        "said once"
    );
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(writer.write_sample(story::sample(segment, stopped + 2)).unwrap(), Written::Again);
    assert_eq!(writer.write_sample(story::sample(segment, stopped + 3)).unwrap(), Written::Done);
    drop(writer);
    check(&disk.path(), stopped + 4, stopped..stopped + 2);
}

#[test]
fn a_disk_that_is_full_to_the_last_byte_is_no_crash_and_the_file_stays_whole() {
    let Some(disk) = Disk::mount(3 << 20) else { return };
    let ballast = disk.folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let options = WriterOptions { keep_disk_free: false, ..WriterOptions::default() };
    let mut writer = Writer::open(&disk.path(), options).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    let (stopped, written) = write_until_stopped(&mut writer, segment, 0);
    assert!(matches!(written, Written::Stopped(NoRoom::Refused(_))), "{written:?}");
    let mut second = stopped + 1;
    while second < stopped + 5 {
        assert_eq!(writer.write_sample(story::sample(segment, second)).unwrap(), Written::Dropped);
        second += 1;
    }
    assert!(Recording::open(&disk.path()).unwrap().extent().unwrap().is_some(), "it can be read meanwhile");
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(writer.write_sample(story::sample(segment, second)).unwrap(), Written::Again);
    assert_eq!(writer.write_sample(story::sample(segment, second + 1)).unwrap(), Written::Done);
    drop(writer);
    check(&disk.path(), second + 2, stopped..second);
}

#[test]
fn a_recording_on_a_medium_that_cannot_be_written_opens_with_what_a_killed_writer_left_in_its_log() {
    let Some(disk) = Disk::mount(32 << 20) else { return };
    let mut child = recorder(&disk.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said: u64 = lines.by_ref().nth(200).unwrap().unwrap().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let log = disk.folder.path().join("a.spindoctor-wal");
    assert!(std::fs::metadata(&log).unwrap().size() > 0, "it was killed with its log beside it");
    // As a copy on such a medium has it: the index of the log is not copied.
    std::fs::remove_file(disk.folder.path().join("a.spindoctor-shm")).unwrap();
    disk.remount("ro");
    let recording = Recording::open(&disk.path()).unwrap();
    let samples = recording.samples(story::after(0), story::after(100_000)).unwrap();
    assert!(samples.len() as u64 > said);
    drop(recording);

    disk.remount("rw");
    drop(Writer::open(&disk.path(), WriterOptions::default()).unwrap());
    assert!(!log.exists(), "a writer that ends leaves one file");
    disk.remount("ro");
    let again =
        Recording::open(&disk.path()).unwrap().samples(story::after(0), story::after(100_000)).unwrap();
    assert!(samples == again);
}

#[test]
fn a_gap_that_its_recorder_did_not_end_is_ended_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let open = |path: &Path| Writer::open(path, WriterOptions::default()).unwrap();
    let away = |second| Gap { from: story::after(second), to: None, because: "away".into() };
    let mut writer = open(&path);
    let segment = writer.begin_segment(story::began(), story::server());
    for second in 0..90 {
        writer.write_sample(story::sample(segment, second)).unwrap();
    }
    // The host is sampled on, and the recorder ends before the server is back.
    writer.write_gap(&away(80)).unwrap();
    drop(writer);
    let gaps = |path: &Path| Recording::open(path).unwrap().gaps().unwrap();
    assert_eq!(gaps(&path)[0].to, None, "to the end of what there is");
    let mut writer = open(&path);
    assert_eq!(gaps(&path)[0].to, Some(story::sample(1, 89).at));
    let segment = writer.begin_segment(story::after(600), story::server());
    writer.write_sample(story::sample(segment, 601)).unwrap();
    writer.write_gap(&away(602)).unwrap();
    assert_eq!(gaps(&path)[1].to, None, "this one goes on");
}

#[test]
fn a_gap_that_a_jump_of_the_clock_made_ends_where_the_clock_was_set_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    writer.write_sample(story::sample(segment, 0)).unwrap();
    let jump = Gap { from: story::after(1), to: Some(story::after(86_400)), because: "jump".into() };
    writer.write_gap(&jump).unwrap();
    let segment = writer.begin_segment(story::after(10), story::server());
    writer.write_sample(story::sample(segment, 11)).unwrap();
    assert_eq!(Recording::open(&path).unwrap().gaps().unwrap()[0].to, Some(story::after(10)));
}

#[test]
fn numbers_of_events_that_are_gone_are_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    for _ in 0..3 {
        let id = writer.new_event();
        writer.write_event(story::event(id)).unwrap();
    }
    drop(writer);
    rusqlite::Connection::open(&path).unwrap().execute("DELETE FROM events", []).unwrap();
    assert_eq!(Writer::open(&path, WriterOptions::default()).unwrap().new_event(), 4);
}

#[test]
fn a_file_that_was_moved_is_noticed_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("a.spindoctor"), folder.path().join("b.spindoctor"));
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::began(), story::server());
    for second in 0..50 {
        writer.write_sample(story::sample(segment, second)).unwrap();
    }
    assert!(!writer.is_elsewhere());
    std::fs::rename(&path, &moved).unwrap();
    assert!(writer.is_elsewhere());
    writer.write_sample(story::sample(segment, 50)).unwrap();
    drop(writer);
    let mut writer = Writer::open(&path, WriterOptions::default()).unwrap();
    let segment = writer.begin_segment(story::after(60), story::server());
    writer.write_sample(story::sample(segment, 60)).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(writer.is_elsewhere());
    drop(writer);
    let recording = Recording::open(&moved).unwrap();
    let (from, to) = recording.extent().unwrap().unwrap();
    assert_eq!(recording.samples(from, to).unwrap().len(), 51);
}
