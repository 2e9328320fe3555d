//! A part of a recording as a recording of its own: for somebody else to look at.
//!
//! It is written as a recorder would have written it, from what a reader gets: so a damaged part of the source is a gap of the
//! copy, a source of an older version gives a copy of this one, and literals go the way that they go when they are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, params};
use spindoctor_model::{Event, Gap, Reading, Segment};

use crate::costs::SourceCost;
use crate::error::{Doing, Error};
use crate::span::{Ends, Span};
use crate::time::to_ms;
use crate::writer::{Writer, WriterOptions, Written};
use crate::{Recording, schema};

/// Nothing is too old for a copy.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 365 * 86_400);

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cut {
    /// Samples, looks between them included.
    pub samples: u64,
    /// The numbers of its events, in order of time: as in the source.
    pub events: Vec<u64>,
    /// Events whose diagnosis was left out: it was made from statements with their literals, and may have a number of one
    /// in its words. Who has the rules can make it again, from the copy.
    pub undiagnosed: Vec<u64>,
}

/// How a part is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOptions {
    /// The part, both ends included.
    pub span: Span,
    /// True to keep the literals that the source has.
    pub literals: bool,
    /// The size that the copy may have.
    pub most_bytes: u64,
}

/// Copies a part of a recording to a file that is not there yet: samples, gaps, events with all their parts, what asking cost,
/// and settings and facts as they were when it began. Segments and events keep their numbers. The copy is one file: nothing
/// has to lie beside it.
///
/// # Errors
/// The source cannot be read, the copy cannot be written, or it would be too large.
pub fn cut(from: &Recording, to: &Path, options: CutOptions) -> Result<Cut, Error> {
    let CutOptions { span, literals, most_bytes } = options;
    let mut writer = Writer::open(to, options_of_copy(literals))?;
    let segments: BTreeMap<u64, Segment> =
        from.segments()?.into_iter().map(|segment| (segment.id, segment)).collect();
    let mut carried = BTreeSet::new();
    let mut carry = |writer: &mut Writer, id: u64| match segments.get(&id) {
        Some(segment) if carried.insert(id) => done(to, writer.carry_segment(segment)),
        _ => Ok(()),
    };
    done(to, writer.carry_known(&from.known_at(span.from)?))?;
    let mut copied = Cut::default();
    for piece in from.pieces(span) {
        let piece = piece?;
        for recorded in from.samples(piece.from, piece.to)? {
            carry(&mut writer, recorded.segment)?;
            // A look has no status; one of the grid has it, or why not.
            let is_look = matches!(recorded.sample.server.status, Reading::NotAsked);
            let written = if is_look { writer.write_look(recorded) } else { writer.write_sample(recorded) };
            done(to, written)?;
            copied.samples += 1;
        }
        if std::fs::metadata(to).is_ok_and(|file| file.len() > most_bytes) {
            return Err(Error::TooLong { most_bytes });
        }
    }
    // After the samples: what is damaged is found when it is read.
    for gap in from.gaps()?.into_iter().filter(|gap| span.meets_gap(gap)) {
        let to_instant = gap.to.map_or(span.to, |end| end.min(span.to));
        done(to, writer.write_gap(&Gap { from: gap.from.max(span.from), to: Some(to_instant), ..gap }))?;
    }
    let ends = Ends::of_segments(&from.segments()?, &from.stretches(0)?);
    let had_literals = from.has_literals(span.from, span.to)?;
    for head in from.events()?.iter().filter(|head| span.meets_event(head, &ends)) {
        let Some(mut event) = from.event(head.id)? else { continue };
        carry(&mut writer, event.head.segment)?;
        if had_literals && !literals && event.diagnosis.take().is_some() {
            event.head.headline.clear();
            copied.undiagnosed.push(head.id);
        }
        done(to, writer.write_event(event))?;
        copied.events.push(head.id);
    }
    drop(writer);
    make_whole(to, &from.costs(span.from, span.to)?)
        .map_err(|error| Doing { path: to, doing: "written" }.failed(error))?;
    match std::fs::metadata(to) {
        Ok(file) if file.len() > most_bytes => Err(Error::TooLong { most_bytes }),
        _ => Ok(copied),
    }
}

/// Writes events of a copy again, as with a diagnosis that was made of it.
///
/// # Errors
/// The file cannot be written.
pub fn add_to_cut(copy: &Path, literals: bool, events: Vec<Event>) -> Result<(), Error> {
    let mut writer = Writer::open(copy, options_of_copy(literals))?;
    events.into_iter().try_for_each(|event| done(copy, writer.write_event(event)))
}

fn options_of_copy(literals: bool) -> WriterOptions {
    // Who asks for a copy wants it now; a disk that is full is perhaps what it is about.
    WriterOptions { keep_for: FOR_EVER, max_bytes: u64::MAX, literals, keep_disk_free: false }
}

/// A write that must not be put off.
fn done(path: &Path, written: Result<Written, Error>) -> Result<(), Error> {
    match written? {
        Written::Done | Written::Again => Ok(()),
        Written::Stopped(because) => Err(Error::Io {
            path: path.to_owned(),
            doing: "written",
            because: std::io::Error::other(because.to_string()),
        }),
        Written::Dropped => Err(Error::Io {
            path: path.to_owned(),
            doing: "written",
            because: std::io::ErrorKind::StorageFull.into(),
        }),
    }
}

/// Gives a copy the costs of its source, those of the probe and of stacks among them, and leaves all of it in one file that
/// can be read where nothing can be written.
fn make_whole(path: &Path, costs: &[SourceCost]) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    let transaction = db.unchecked_transaction()?;
    transaction.execute("DELETE FROM costs", [])?;
    for cost in costs {
        transaction.execute(
            "INSERT OR REPLACE INTO costs (minute_ms, source, asked, took_ms) VALUES (?1, ?2, ?3, ?4)",
            params![
                to_ms(cost.minute),
                cost.source,
                i64::try_from(cost.asked).unwrap_or(i64::MAX),
                cost.took_ms
            ],
        )?;
    }
    transaction.commit()?;
    schema::in_one_file(&db)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use jiff::Timestamp;
    use spindoctor_model::mysql::{NamedValues, ServerThread};
    use spindoctor_model::{
        Diagnosis, EventHead, Probe, RecordedSample, Sample, ServerIdentity, Stall, StallKind,
    };

    use super::*;

    const SECRET: &str = "alice@example.com";

    fn at(second: u64) -> Timestamp {
        let begin: Timestamp = "2026-07-01T09:29:00Z".parse().unwrap();
        begin + Duration::from_secs(second)
    }

    /// Twenty minutes of two processes of a server, with literals, an event in each, a gap between, and a setting that changes.
    fn recorded(path: &Path) {
        let mut writer = Writer::open(path, options_of_copy(true)).unwrap();
        for (begins, ends) in [(0, 600), (620, 1_200)] {
            let server = ServerIdentity { hostname: format!("db{begins}"), ..ServerIdentity::default() };
            let segment = writer.begin_segment(at(begins), server);
            for second in begins..ends {
                writer.write_sample(sample(second, segment)).unwrap();
            }
            let id = writer.new_event();
            let diagnosis = diagnosed("39 sessions wait, as that of 4711");
            let head = EventHead {
                id,
                segment,
                began: at(begins + 300),
                ended: Some(at(begins + 310)),
                stall: Stall { kind: StallKind::CommitsStopped, ..Stall::default() },
                headline: "39 sessions wait, as that of 4711".into(),
                ..EventHead::default()
            };
            let probes = vec![Probe { at_s: 300.0, ..Probe::default() }];
            let event = Event { head, probes, diagnosis: Some(diagnosis), ..Event::default() };
            writer.write_event(event).unwrap();
        }
        let gap = Gap { from: at(600), to: Some(at(620)), because: "the server was down".into() };
        writer.write_gap(&gap).unwrap();
        writer.add_cost("probe", 600, 120.0);
    }

    /// A recording of a version, to be read: SQLite makes files beside one that it reads.
    fn kept(version: &str, folder: &Path) -> PathBuf {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings");
        let copy = folder.join(version);
        std::fs::copy(format!("{kept}/{version}.spindoctor"), &copy).unwrap();
        copy
    }

    /// A diagnosis of a real server, with another headline.
    fn diagnosed(headline: &str) -> Diagnosis {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording::open(&kept("v2", folder.path())).unwrap();
        let event = recording.events().unwrap()[0].id;
        let mut diagnosis = recording.event(event).unwrap().unwrap().diagnosis.unwrap();
        diagnosis.findings.truncate(1);
        diagnosis.findings[0].headline = headline.to_owned();
        diagnosis
    }

    fn sample(second: u64, segment: u64) -> RecordedSample {
        let at_s = second as f64;
        let mut sample = Sample { at_s, ..Sample::default() };
        let status: NamedValues = [("Questions", second.to_string())].into_iter().collect();
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value: status };
        let statement = format!("SELECT name FROM customers WHERE email = '{SECRET}' AND k = {second}");
        let value = vec![ServerThread { statement: Some(statement), ..ServerThread::default() }];
        sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value };
        if second.is_multiple_of(300) {
            let size = if second < 900 { "151" } else { "1000" };
            let value = [("max_connections", size)].into_iter().collect();
            sample.server.variables = Reading::Available { at_s, took_ms: 1.0, value };
        }
        RecordedSample { at: at(second), segment, sample }
    }

    fn asked(from: u64, to: u64, literals: bool) -> CutOptions {
        CutOptions { span: Span::new(at(from), at(to)), literals, most_bytes: u64::MAX }
    }

    #[test]
    fn a_part_is_a_recording_of_its_own_in_one_file_with_what_was_known_when_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
        recorded(&whole);
        let source = Recording::open(&whole).unwrap();
        let copied = cut(&source, &part, asked(880, 1_000, true)).unwrap();
        assert_eq!((copied.samples, copied.events.as_slice()), (121, &[2][..]));
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("part-")), "{names:?}");
        let copy = Recording::open(&part).unwrap();
        assert_eq!(copy.extent().unwrap(), Some((at(880), at(1_000))));
        assert_eq!(copy.samples(at(0), at(2_000)).unwrap(), source.samples(at(880), at(1_000)).unwrap());
        let segments = copy.segments().unwrap();
        assert_eq!(segments, source.segments().unwrap()[1..]);
        assert_eq!(copy.event(2).unwrap(), source.event(2).unwrap());
        assert_eq!(copy.events().unwrap().len(), 1);
        let connections = |from, to| {
            let window = copy.window(at(from), at(to)).unwrap().unwrap();
            window.variable_number("max_connections")
        };
        assert_eq!((connections(880, 890), connections(910, 920)), (Some(151.0), Some(1_000.0)));
        assert_eq!(copy.costs(at(880), at(1_000)).unwrap(), source.costs(at(880), at(1_000)).unwrap());
    }

    #[test]
    fn a_part_across_a_restart_has_both_processes_and_the_gap() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
        recorded(&whole);
        let copied = cut(&Recording::open(&whole).unwrap(), &part, asked(590, 630, true)).unwrap();
        assert_eq!((copied.samples, copied.events.len()), (21, 0));
        let copy = Recording::open(&part).unwrap();
        assert_eq!(copy.segments().unwrap().len(), 2);
        assert_eq!(copy.gaps().unwrap().len(), 1);
    }

    #[test]
    fn no_byte_of_a_part_has_a_literal_that_was_not_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
        recorded(&whole);
        let source = Recording::open(&whole).unwrap();
        let copied = cut(&source, &part, asked(250, 350, false)).unwrap();
        assert_eq!(copied.undiagnosed, [1], "its diagnosis was made with literals");
        let copy = Recording::open(&part).unwrap();
        let samples = copy.samples(at(0), at(2_000)).unwrap();
        let event = copy.event(1).unwrap().unwrap();
        assert!(samples.len() == 101 && event.probes.len() == 1);
        let text =
            format!("{}{}", serde_json::to_string(&samples).unwrap(), serde_json::to_string(&event).unwrap());
        assert!(text.contains("WHERE email = ? AND k = ?"), "{text}");
        assert!(!text.contains(SECRET) && !text.contains("4711"), "{text}");
        let bytes = std::fs::read(&part).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));

        let diagnosis = Some(diagnosed("39 sessions wait"));
        add_to_cut(&part, false, vec![Event { head: event.head, diagnosis, ..Event::default() }]).unwrap();
        let event = Recording::open(&part).unwrap().event(1).unwrap().unwrap();
        assert!(event.diagnosis.is_some() && event.probes.len() == 1);
    }

    #[test]
    fn a_part_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
        recorded(&whole);
        let options = CutOptions { most_bytes: 4_096, ..asked(0, 1_200, false) };
        let refused = cut(&Recording::open(&whole).unwrap(), &part, options).unwrap_err().to_string();
        assert!(refused.contains("shorter time"), "{refused}");
    }

    #[test]
    fn a_part_of_a_recording_of_each_version_reads_as_the_whole_does() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["v1", "v2"] {
            let whole = kept(version, folder.path());
            let part = folder.path().join(format!("{version}.part"));
            let source = Recording::open(&whole).unwrap();
            let (from, to) = source.extent().unwrap().unwrap();
            let options = CutOptions { span: Span::new(from, to), literals: true, most_bytes: u64::MAX };
            let copied = cut(&source, &part, options).unwrap();
            let copy = Recording::open(&part).unwrap();
            assert_eq!(copy.samples(from, to).unwrap(), source.samples(from, to).unwrap(), "{version}");
            assert_eq!(copied.events.len(), source.events().unwrap().len());
        }
    }
}
