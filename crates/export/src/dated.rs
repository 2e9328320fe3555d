//! The dated layout: `FOLDER/events/date=2026-11-22/server=db17/09-30-00.000-5d2f9a31.parquet`. Recordings of many servers
//! lie side by side in it, and engines that know Hive's partitions (DuckDB, ClickHouse, Spark) read only the days and the
//! servers that a query names.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use spindoctor_model::Segment;
use spindoctor_record::span::Span;
use spindoctor_record::{Recording, Stretch};

use super::file::FileFormat;
use super::file::{Whole, Writing};
use super::slice::{More, Position, Slice};
use super::table::Table;
use super::{part, slice, table};
use spindoctor_page::csv::Reader;

/// What Hive calls a partition whose value is not known.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";
/// A name in a folder has at most 255 bytes on Linux's file systems: `server=` and this.
const MOST_BYTES: usize = 240;

/// A folder in which recordings are laid out.
#[derive(Debug)]
pub struct Dated {
    /// The folder.
    pub folder: PathBuf,
    /// The tables that are written.
    pub tables: Vec<&'static Table>,
    /// How they are written.
    pub format: FileFormat,
    /// Who reads CSV.
    pub reader: Reader,
    /// How much time a file covers: at most a day.
    pub every: Duration,
}

impl Dated {
    /// Writes the slice of a recording that follows a position: the position behind it, and its files. None where no slice
    /// is due. `stretches` are those of the position's segment and of all later ones.
    ///
    /// A file is there whole or not at all. Where this fails or is broken off, the same position gives the same files.
    ///
    /// # Errors
    /// The recording cannot be read, or the folder cannot be written.
    pub fn step(
        &self,
        recording: &Recording,
        stretches: &[Stretch],
        position: &Position,
        more: More,
    ) -> anyhow::Result<Option<(Position, Vec<Whole>)>> {
        let sampled_within = |span: Span| recording.first_within(span.from, span.to);
        let next = slice::next(position, stretches, self.every, more, sampled_within)?;
        let Some(slice) = next else { return Ok(None) };
        let heads = recording.events()?;
        let slice = slice.with_events(position, &heads);
        let files = self.write(recording, &slice)?;
        Ok(Some((position.behind(&slice, &heads), files)))
    }

    fn write(&self, recording: &Recording, slice: &Slice) -> anyhow::Result<Vec<Whole>> {
        let segments = recording.segments()?;
        let found = segments.into_iter().find(|segment| segment.id == slice.segment());
        let segment = found.unwrap_or_else(|| Segment { id: slice.segment(), ..Segment::default() });
        let at = slice.named_after(&segment);
        let mut files: Vec<Writing> = self
            .tables
            .iter()
            .map(|table| Writing::new(self.format, self.reader, table, self.place(table, at, &segment)))
            .collect();
        part::write(recording, slice, &mut files)?;
        let mut written = Vec::new();
        for file in files {
            let path = file.path().to_owned();
            match file.end()? {
                Some(whole) => written.push(whole),
                None => remove_earlier(&path)?,
            }
        }
        Ok(written)
    }

    fn place(&self, table: &Table, at: Timestamp, segment: &Segment) -> PathBuf {
        self.folder
            .join(table.name)
            .join(format!("date={}", at.strftime("%Y-%m-%d")))
            .join(format!("server={}", value(table::server(segment))))
            .join(format!(
                "{}-{:08x}.{}",
                at.strftime("%H-%M-%S%.3f"),
                origin(segment),
                self.format.extension()
            ))
    }
}

/// Takes away what an earlier try wrote for a table that has no row now: an event that ended late is in another file by
/// then.
fn remove_earlier(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(error).with_context(|| format!("could not remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The value of a partition as Hive writes it: what is no letter or digit of ASCII, or one of `-_.`, as `%3A`.
fn value(text: &str) -> String {
    let mut value = String::new();
    for byte in text.bytes() {
        if value.len() >= MOST_BYTES - 2 {
            break;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => value.push(char::from(byte)),
            byte => {
                let _ = write!(value, "%{byte:02X}");
            }
        }
    }
    if value.is_empty() { UNKNOWN.to_owned() } else { value }
}

/// A number that two segments of one host hardly share: several servers may run there, each with its recorder. FNV-1a
/// over when it began and what was connected to; it is the same in every program and at every time.
fn origin(segment: &Segment) -> u32 {
    let began = segment.began.as_millisecond().to_le_bytes();
    began
        .iter()
        .chain(segment.server.address.as_bytes())
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use spindoctor_model::{Event, EventHead, Reading, RecordedSample, Sample, ServerIdentity};
    use spindoctor_record::{Writer, WriterOptions};

    use super::*;

    use crate::table::TABLES;

    #[test]
    fn a_file_stands_below_its_table_its_day_and_its_server() {
        let dated = Dated {
            folder: PathBuf::from("/srv/history"),
            tables: Vec::new(),
            format: FileFormat::Parquet,
            reader: Reader::People,
            every: Duration::from_mins(5),
        };
        let mut segment = Segment { began: "2026-11-22T09:31:00Z".parse().unwrap(), ..Segment::default() };
        segment.server.hostname = "db17".to_owned();
        let events = table::by_name("events").unwrap();
        let place = |segment: &Segment| dated.place(events, segment.began, segment).display().to_string();
        let first = place(&segment);
        let (start, end) = ("/srv/history/events/date=2026-11-22/server=db17/09-31-00.000-", ".parquet");
        assert!(
            first.starts_with(start) && first.ends_with(end) && first.len() == start.len() + 8 + end.len()
        );
        segment.server.address = "127.0.0.1:3307".to_owned();
        assert_ne!(place(&segment), first, "another server of the same host");
    }

    fn at(second: u64) -> Timestamp {
        let began: Timestamp = "2026-11-22T23:58:00Z".parse().unwrap();
        began + Duration::from_secs(second)
    }

    /// Five minutes of a server, from two before midnight on, with a restart of the recorder and an event before it.
    fn recording(file: &Path) -> Recording {
        let keep_for = Duration::from_secs(100 * 365 * 86_400);
        let mut writer = Writer::open(file, WriterOptions { keep_for, ..WriterOptions::default() }).unwrap();
        let server = ServerIdentity { hostname: "db17".to_owned(), ..ServerIdentity::default() };
        for (from, to) in [(0, 200), (230, 300)] {
            let segment = writer.begin_segment(at(from), server.clone());
            for second in from..to {
                let at_s = (second - from) as f64;
                let mut sample = Sample { at_s, ..Sample::default() };
                let value = [("Questions", second.to_string())].into_iter().collect();
                sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
                writer.write_sample(RecordedSample { at: at(second), segment, sample }).unwrap();
            }
            if from == 0 {
                let id = writer.new_event();
                let headline = "commits wait".to_owned();
                let (began, ended) = (at(130), Some(at(135)));
                let head = EventHead { id, segment, began, ended, headline, ..EventHead::default() };
                writer.write_event(Event { head, ..Event::default() }).unwrap();
            }
        }
        Recording::open(file).unwrap()
    }

    /// The files of a folder with their bytes, by their path in it.
    fn files(folder: &Path, below: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all.extend(files(folder, &path));
            } else {
                all.insert(path.strip_prefix(folder).unwrap().display().to_string(), fs::read(path).unwrap());
            }
        }
        all
    }

    fn lay_out(recording: &Recording, dated: &Dated, mut position: Position, most: usize) -> Position {
        for _ in 0..most {
            let stretches = recording.stretches(position.segment()).unwrap();
            match dated.step(recording, &stretches, &position, More::Ended).unwrap() {
                Some((behind, _)) => position = behind,
                None => break,
            }
        }
        position
    }

    #[test]
    fn a_recording_is_laid_out_by_day_and_a_second_time_to_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(&folder.path().join("a.rec"));
        let dated = |name: &str| Dated {
            folder: folder.path().join(name),
            tables: TABLES.iter().collect(),
            format: FileFormat::Csv,
            reader: Reader::People,
            every: Duration::from_mins(1),
        };
        let whole = dated("whole");
        lay_out(&recording, &whole, Position::default(), usize::MAX);
        let laid_out = files(&whole.folder, &whole.folder);
        let of = |table: &str| -> Vec<&str> {
            laid_out.keys().filter_map(|path| path.strip_prefix(table)).collect()
        };
        let events = of("events/");
        assert!(
            events.len() == 1 && events[0].starts_with("date=2026-11-23/server=db17/00-00-00.000-"),
            "{events:?}"
        );
        let starts: Vec<&str> = of("samples/").iter().map(|path| &path[..path.len() - 13]).collect();
        let (first, second) = ("date=2026-11-22/server=db17/", "date=2026-11-23/server=db17/");
        let expected = [
            (first, "23-58-00.000"),
            (first, "23-59-00.000"),
            (second, "00-00-00.000"),
            (second, "00-01-00.000"),
            (second, "00-01-50.000"),
            (second, "00-02-00.000"),
        ];
        assert_eq!(starts, expected.map(|(day, time)| format!("{day}{time}")));
        let rows = |table: &str| -> usize {
            let path = |path: &&String| path.starts_with(&format!("{table}/"));
            laid_out.iter().filter(|(name, _)| path(name)).map(|(_, bytes)| lines(bytes) - 1).sum()
        };
        // Two numbers of each sample: Questions, and how long the answer took.
        assert_eq!((rows("samples"), rows("minutes"), rows("segments"), rows("events")), (540, 6, 2, 1));

        // Killed after the third slice, with none of it remembered: the next one starts from the beginning.
        let twice = dated("twice");
        lay_out(&recording, &twice, Position::default(), 3);
        let stale = twice.folder.join("gaps").join(first).join(name_of(of("samples/")[0]));
        fs::create_dir_all(stale.parent().unwrap()).unwrap();
        fs::write(&stale, "what is no longer so").unwrap();
        lay_out(&recording, &twice, Position::default(), usize::MAX);
        assert_eq!(files(&twice.folder, &twice.folder), laid_out);
    }

    #[test]
    fn sessions_at_work_in_slices_stand_for_as_much_time_as_in_one_piece() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.rec");
        let keep_for = Duration::from_secs(100 * 365 * 86_400);
        let mut writer = Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).unwrap();
        let segment = writer.begin_segment(at(0), ServerIdentity::default());
        // As rarely as threads are ever listed, some milliseconds early or late.
        for (turn, late_ms) in [0, 4, 1, 9, 2, 0, 7, 3, 8, 1, 5, 6, 0, 2].into_iter().enumerate() {
            let at_s = turn as f64 * 15.0;
            let mut sample = Sample { at_s, ..Sample::default() };
            sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value: Vec::new() };
            sample.server.transactions = Reading::Available { at_s, took_ms: 1.0, value: Vec::new() };
            let at = at(15 * turn as u64) + Duration::from_millis(late_ms);
            writer.write_sample(RecordedSample { at, segment, sample }).unwrap();
        }
        let recording = Recording::open(&file).unwrap();
        let rows = |minutes: u64| -> Vec<String> {
            let dated = Dated {
                folder: folder.path().join(minutes.to_string()),
                tables: vec![table::by_name("sessions_at_work").unwrap()],
                format: FileFormat::Csv,
                reader: Reader::People,
                every: Duration::from_mins(minutes),
            };
            lay_out(&recording, &dated, Position::default(), usize::MAX);
            let files = files(&dated.folder, &dated.folder).into_values();
            let lines = files.flat_map(|bytes| {
                let text = String::from_utf8(bytes).unwrap();
                text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
            });
            lines.collect()
        };
        let (slices, whole) = (rows(1), rows(600));
        assert_eq!(slices.len(), 14);
        assert_eq!(slices, whole, "each list is in one slice, and stands for the same");
        let seconds = slices.iter().map(|row| row.split(',').nth(3).unwrap().parse::<f64>().unwrap());
        // The first list has none before it.
        assert!((seconds.sum::<f64>() - (13.0 * 15.0 + 1.0)).abs() < 0.01, "{slices:?}");
    }

    #[test]
    fn a_sample_from_before_the_clock_was_set_is_in_a_slice_and_the_years_after_it_are_in_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.rec");
        let keep_for = Duration::from_secs(100 * 365 * 86_400);
        let mut writer = Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).unwrap();
        let segment = writer.begin_segment(Timestamp::UNIX_EPOCH, ServerIdentity::default());
        for at in [Timestamp::UNIX_EPOCH, at(0), at(1)] {
            writer.write_sample(RecordedSample { at, segment, sample: Sample::default() }).unwrap();
        }
        let recording = Recording::open(&file).unwrap();
        let dated = Dated {
            folder: folder.path().join("dated"),
            tables: vec![table::by_name("minutes").unwrap()],
            format: FileFormat::Csv,
            reader: Reader::People,
            every: Duration::from_mins(1),
        };
        let position = lay_out(&recording, &dated, Position::default(), 2);
        let stretches = recording.stretches(position.segment()).unwrap();
        assert!(dated.step(&recording, &stretches, &position, More::Ended).unwrap().is_none(), "two are all");
        let laid_out = files(&dated.folder, &dated.folder);
        let rows: Vec<usize> = laid_out.values().map(|bytes| lines(bytes) - 1).collect();
        assert_eq!(rows, [1, 1], "{:?}", laid_out.keys());
    }

    fn lines(bytes: &[u8]) -> usize {
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }

    /// The name of a file, of its path.
    fn name_of(path: &str) -> &str {
        path.rsplit('/').next().unwrap()
    }

    #[test]
    fn no_server_steps_out_of_its_folder() {
        for (server, is) in [
            ("db-17.example_a", "db-17.example_a"),
            ("db17:3307", "db17%3A3307"),
            ("../../etc", "..%2F..%2Fetc"),
            ("a=b\u{202e}", "a%3Db%E2%80%AE"),
            ("", UNKNOWN),
        ] {
            assert_eq!(value(server), is);
        }
        assert!(value(&"/".repeat(1_000)).len() <= MOST_BYTES);
    }
}
