//! Reads a recording: while a writer writes, from a medium that cannot be written, and from a damaged file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};
use spindoctor_model::{Event, EventHead, Gap, RecordedSample, RecordedSetting, Segment, Window};

use crate::codec::{self, Layout, Raw, ReadSecond, Undecodable, Wish};
use crate::costs::{self, SourceCost};
use crate::error::{Doing, Error};
use crate::lock::beside;
use crate::overview::{self, OverviewPoint};
use crate::span::{AT_ONCE, ONE_MORE, Span, after};
use crate::statements::Texts;
use crate::time::{from_ms, to_ms};
use crate::writer::CHUNK_MS;
use crate::{Stretch, events, rare, retention, schema, stretch, thin};

/// How long a read waits for a writer that makes a checkpoint.
const BUSY: Duration = Duration::from_secs(2);

/// So far back a screen's window has the lists of threads and transactions: a list of threads that became expensive is
/// read every 15 s (`crates/collect/src/pace.rs`).
const LISTS_MS: i64 = 16_000;

/// SQLite's smallest page: no database is shorter.
const SMALLEST_BYTES: u64 = 512;

/// A recording that is read. Every call sees what was written until then.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    db: Connection,
    /// How the rows of its open chunk are written.
    layout: Layout,
    texts: RefCell<Texts>,
    /// Chunks that were found to be damaged.
    damaged: RefCell<Vec<Gap>>,
}

/// The rows of one chunk, folded or not.
struct Stored {
    segment: i64,
    from_ms: i64,
    to_ms: i64,
    literals: bool,
    data: Vec<u8>,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// There is none, it is something else, or a later version wrote it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_called(path, path)
    }

    /// Opens a recording that was taken out of another file: its errors call it by that one's name.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_called(place: &Path, path: &Path) -> Result<Self, Error> {
        let opened = Doing { path, doing: "opened" };
        match std::fs::metadata(place) {
            Ok(file) if file.is_dir() => {
                let because = "it is a folder".to_owned();
                return Err(Error::NotARecording { path: path.to_owned(), because });
            }
            Ok(file) if file.len() < SMALLEST_BYTES => {
                let because = match file.len() {
                    0 => "it is empty".to_owned(),
                    bytes => format!("it was cut to {bytes} bytes"),
                };
                return Err(Error::NotARecording { path: path.to_owned(), because });
            }
            Ok(file) if !file.is_file() => {
                let because = "it is not a regular file".to_owned();
                return Err(Error::NotARecording { path: path.to_owned(), because });
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Missing { path: path.to_owned() });
            }
            Err(source) => return Err(Error::Io { path: path.to_owned(), doing: "opened", because: source }),
        }
        let db = connect(place).map_err(|error| opened.failed(error))?;
        // Both are the first to read the file.
        let unreadable = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                let because = "it is not a SQLite database".to_owned();
                Error::NotARecording { path: path.to_owned(), because }
            }
            _ => opened.failed(error),
        };
        harden(&db).map_err(unreadable)?;
        if let Some(because) = foreign(&db).map_err(unreadable)? {
            return Err(Error::NotARecording { path: path.to_owned(), because });
        }
        let layout = schema::layout(schema::version(&db, path)?);
        Ok(Self { path: path.to_owned(), db, layout, texts: RefCell::default(), damaged: RefCell::default() })
    }

    /// The first and the last sample; none where there is no sample.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn extent(&self) -> Result<Option<(Timestamp, Timestamp)>, Error> {
        // The last to begin is not the last to end where the clock was set back; a chunk is a minute long, and one that
        // claims more is damaged.
        self.read(|db| {
            db.query_row(
                "SELECT min(first), max(last) FROM (
                     SELECT (SELECT min(from_ms) FROM chunks) AS first,
                            (SELECT max(CASE WHEN to_ms - from_ms BETWEEN 0 AND ?1 THEN to_ms ELSE from_ms END)
                             FROM chunks
                             WHERE from_ms >= (SELECT max(from_ms) FROM chunks) - ?1) AS last
                     UNION ALL SELECT min(at_ms), max(at_ms) FROM samples)",
                [CHUNK_MS],
                |row| {
                    let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
                    Ok(first.zip(last).map(|(first, last)| (from_ms(first), from_ms(last))))
                },
            )
        })
    }

    /// The first instant of a range at which there may be a sample, both ends included; none where there is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn first_within(&self, from: Timestamp, to: Timestamp) -> Result<Option<Timestamp>, Error> {
        let first = self.read(|db| {
            db.prepare_cached(
                "SELECT min(at_ms) FROM (
                     SELECT ?1 AS at_ms FROM chunks
                     WHERE ?1 <= ?2 AND from_ms BETWEEN ?1 - ?3 AND ?1 AND to_ms >= ?1
                     UNION ALL SELECT min(from_ms) FROM chunks WHERE from_ms BETWEEN ?1 AND ?2
                     UNION ALL SELECT min(at_ms) FROM samples WHERE at_ms BETWEEN ?1 AND ?2)",
            )?
            .query_row(params![to_ms(from), to_ms(to), CHUNK_MS], |row| row.get::<_, Option<i64>>(0))
        })?;
        Ok(first.map(from_ms))
    }

    /// A range in pieces of [`AT_ONCE`], in order, of which no millisecond is in two: those that may have samples. Time
    /// without samples costs nothing, be it the years between two settings of a clock.
    pub fn pieces(&self, span: Span) -> impl Iterator<Item = Result<Span, Error>> {
        let mut next = Some(span.from);
        std::iter::from_fn(move || {
            let found = self.first_within(next.take()?, span.to).transpose()?;
            Some(found.map(|from| {
                let to = after(from, AT_ONCE).min(span.to);
                next = Some(after(to, ONE_MORE)).filter(|_| to < span.to);
                Span { from, to }
            }))
        })
    }

    /// From which sample to which a segment reaches, and each after it, in order; segments without a sample left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn stretches(&self, since_segment: u64) -> Result<Vec<Stretch>, Error> {
        self.read(|db| stretch::read(db, since_segment.cast_signed()))
    }

    /// All segments, in order.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn segments(&self) -> Result<Vec<Segment>, Error> {
        let bodies: Vec<String> = self.read(|db| {
            db.prepare("SELECT body FROM segments ORDER BY id")?.query_map([], |row| row.get(0))?.collect()
        })?;
        bodies
            .iter()
            .map(|body| {
                serde_json::from_str(body)
                    .map_err(|error| self.damaged(format!("the head of a segment: {error}")))
            })
            .collect()
    }

    /// Time of which there are no samples, in order: what the recorder said, and chunks that were found to be damaged by
    /// what was read so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn gaps(&self) -> Result<Vec<Gap>, Error> {
        let mut gaps: Vec<Gap> = self.read(|db| {
            db.prepare("SELECT from_ms, to_ms, because FROM gaps ORDER BY from_ms, rowid")?
                .query_map([], |row| {
                    Ok(Gap {
                        from: from_ms(row.get(0)?),
                        to: row.get::<_, Option<i64>>(1)?.map(from_ms),
                        because: row.get(2)?,
                    })
                })?
                .collect()
        })?;
        gaps.extend(self.damaged.borrow().iter().cloned());
        gaps.sort_by_key(|gap| gap.from);
        Ok(gaps)
    }

    /// The samples of a range, both ends included: by segment, and by time within each.
    ///
    /// What is damaged is left out, and is a gap from then on.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn samples(&self, from: Timestamp, to: Timestamp) -> Result<Vec<RecordedSample>, Error> {
        self.read_samples(to_ms(from), to_ms(to), Lists::Kept)
    }

    /// The same, without the lists of the server's threads and transactions: they are not asked for in these samples.
    /// Of a server with many connections that is read ten times as fast.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn samples_without_lists(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<RecordedSample>, Error> {
        self.read_samples(to_ms(from), to_ms(to), Lists::LeftOut)
    }

    /// The same, as fast, with lists that are empty where the server answered: for who counts what asking cost.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn samples_with_emptied_lists(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<RecordedSample>, Error> {
        self.read_samples(to_ms(from), to_ms(to), Lists::Emptied)
    }

    fn read_samples(&self, since_ms: i64, until_ms: i64, lists: Lists) -> Result<Vec<RecordedSample>, Error> {
        let mut samples = Vec::new();
        for stored in self.stored(since_ms, until_ms)? {
            self.decode(&stored, since_ms..=until_ms, lists, &mut samples)?;
        }
        samples.sort_by_key(|sample| (sample.segment, sample.at));
        Ok(samples)
    }

    /// The samples of a range as a window: of the segment that holds the last of them. Its times count from its first
    /// sample, which is given the variables, the CPU model, PAUSE and the NUMA nodes as they were last known, where no
    /// sample of the window read them. None where there is no sample.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn window(&self, from: Timestamp, to: Timestamp) -> Result<Option<Window>, Error> {
        self.window_of(self.samples(from, to)?)
    }

    /// The same of each segment that has a sample in the range, with its number, in order.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn windows(&self, from: Timestamp, to: Timestamp) -> Result<Vec<(u64, Window)>, Error> {
        let mut by_segment: BTreeMap<u64, Vec<RecordedSample>> = BTreeMap::new();
        for sample in self.samples(from, to)? {
            by_segment.entry(sample.segment).or_default().push(sample);
        }
        let windows = by_segment
            .into_iter()
            .map(|(segment, samples)| Ok(self.window_of(samples)?.map(|window| (segment, window))));
        windows.filter_map(Result::transpose).collect()
    }

    /// The same for who looks at its last instant: the lists of the server's threads and transactions are in its last
    /// samples alone, and not asked for in those before.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn window_until(&self, from: Timestamp, to: Timestamp) -> Result<Option<Window>, Error> {
        let (since_ms, until_ms) = (to_ms(from), to_ms(to));
        let lists = Lists::KeptSince(until_ms.saturating_sub(LISTS_MS));
        self.window_of(self.read_samples(since_ms, until_ms, lists)?)
    }

    fn window_of(&self, mut samples: Vec<RecordedSample>) -> Result<Option<Window>, Error> {
        let Some(last) = samples.iter().max_by_key(|sample| sample.at).map(|sample| sample.segment) else {
            return Ok(None);
        };
        samples.retain(|sample| sample.segment == last);
        let Some(first) = samples.first_mut() else { return Ok(None) };
        let (start, begin_s) = (first.at, first.sample.at_s);
        let mut samples: Vec<_> = samples.into_iter().map(|recorded| recorded.sample).collect();
        if let Some(first) = samples.first_mut() {
            self.read(|db| rare::fill(db, to_ms(start), first))?;
        }
        for sample in &mut samples {
            sample.shift(-begin_s);
        }
        let server = self.segments()?.into_iter().find(|segment| segment.id == last);
        Ok(Some(Window {
            server: server.map(|segment| segment.server).unwrap_or_default(),
            start,
            samples,
            ..Window::default()
        }))
    }

    /// The server's variables when they were first read, and their changes, up to an instant, in order of time.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn settings(&self, until: Timestamp) -> Result<Vec<RecordedSetting>, Error> {
        self.read(|db| rare::history(db, to_ms(until)))
    }

    /// What was known at an instant, for a copy that begins then.
    pub(crate) fn known_at(&self, at: Timestamp) -> Result<rare::Known, Error> {
        self.read(|db| rare::known_at(db, to_ms(at)))
    }

    /// True where statements of a range were kept with their literals.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn has_literals(&self, from: Timestamp, to: Timestamp) -> Result<bool, Error> {
        self.read(|db| {
            db.query_row(
                "SELECT EXISTS (SELECT 1 FROM chunks
                                WHERE from_ms BETWEEN ?1 - ?3 AND ?2 AND to_ms >= ?1 AND literals <> 0)
                     OR EXISTS (SELECT 1 FROM samples WHERE at_ms BETWEEN ?1 AND ?2 AND literals <> 0)",
                params![to_ms(from), to_ms(to), CHUNK_MS],
                |row| row.get(0),
            )
        })
    }

    /// The heads of all events, in order of time.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn events(&self) -> Result<Vec<EventHead>, Error> {
        self.read(events::heads)
    }

    /// One event with all its parts; none where there is none of that number. A damaged part is left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn event(&self, id: u64) -> Result<Option<Event>, Error> {
        self.read(|db| events::read(db, id, |_, _| {}))
    }

    /// The time of the sample that is nearest to an instant; none where there is no sample.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn nearest(&self, at: Timestamp) -> Result<Option<Timestamp>, Error> {
        let at_ms = to_ms(at);
        // The chunks on either side of the instant, and that which holds it.
        let before = self.read(|db| {
            db.query_row(
                "SELECT max(from_ms) FROM (SELECT max(from_ms) AS from_ms FROM chunks WHERE from_ms <= ?1
                     UNION ALL SELECT max(at_ms) FROM samples WHERE at_ms <= ?1)",
                [at_ms],
                |row| row.get::<_, Option<i64>>(0),
            )
        })?;
        let after = self.read(|db| {
            db.query_row(
                "SELECT min(from_ms) FROM (SELECT min(from_ms) AS from_ms FROM chunks WHERE from_ms >= ?1
                     UNION ALL SELECT min(at_ms) FROM samples WHERE at_ms >= ?1)",
                [at_ms],
                |row| row.get::<_, Option<i64>>(0),
            )
        })?;
        let mut times: Vec<i64> = after.into_iter().collect();
        if let Some(before) = before {
            for stored in self.stored(before, before + CHUNK_MS)? {
                match codec::times(&stored.data) {
                    Ok(read) => {
                        times.extend(read.iter().map(|after_ms| stored.from_ms.saturating_add(*after_ms)));
                    }
                    Err(error) => self.note_damage(&stored, &error.to_string()),
                }
            }
        }
        Ok(times.into_iter().min_by_key(|time| time.abs_diff(at_ms)).map(from_ms))
    }

    /// A timeline of a range, both ends included, without decoding a sample: at most `buckets` points of each segment,
    /// in order of time. A bucket's point is the first minute in it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn overview(
        &self,
        from: Timestamp,
        to: Timestamp,
        buckets: usize,
    ) -> Result<Vec<OverviewPoint>, Error> {
        self.read(|db| overview::read(db, to_ms(from), to_ms(to), buckets))
    }

    /// What asking each source cost, of the minutes that begin in a range, both ends included.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn costs(&self, from: Timestamp, to: Timestamp) -> Result<Vec<SourceCost>, Error> {
        self.read(|db| costs::read(db, to_ms(from), to_ms(to)))
    }

    /// Bytes that the recording takes, pages that are free left out: they are written to again.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn used_bytes(&self) -> Result<u64, Error> {
        self.read(retention::used_bytes).map(i64::unsigned_abs)
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        read(&self.db).map_err(|error| Doing { path: &self.path, doing: "read" }.failed(error))
    }

    fn damaged(&self, because: String) -> Error {
        Error::Damaged { path: self.path.clone(), because }
    }

    /// The chunks that may hold samples of a range; the rows of an open one folded. One whose pages are damaged is a gap.
    fn stored(&self, since_ms: i64, until_ms: i64) -> Result<Vec<Stored>, Error> {
        let mut unreadable = Vec::new();
        let stored = self.read(|db| {
            let transaction = db.unchecked_transaction()?;
            // The index alone is read here, so that a damaged chunk does not take its neighbours along.
            let found: Vec<(i64, Stored)> = transaction
                .prepare_cached(
                    "SELECT id, segment, from_ms, to_ms FROM chunks
                     WHERE from_ms BETWEEN ?1 - ?3 AND ?2 AND to_ms >= ?1 ORDER BY from_ms",
                )?
                .query_map(params![since_ms, until_ms, CHUNK_MS], |row| {
                    let (segment, from_ms, to_ms) = (row.get(1)?, row.get(2)?, row.get(3)?);
                    Ok((row.get(0)?, Stored { segment, from_ms, to_ms, literals: false, data: Vec::new() }))
                })?
                .collect::<rusqlite::Result<_>>()?;
            let mut stored = Vec::with_capacity(found.len());
            for (id, chunk) in found {
                let read = transaction
                    .prepare_cached("SELECT literals, data FROM chunks WHERE id = ?1")?
                    .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)));
                match read {
                    Ok((literals, data)) => stored.push(Stored { literals, data, ..chunk }),
                    Err(error) => unreadable.push((chunk, error)),
                }
            }
            stored.extend(open_chunks(&transaction, since_ms, until_ms, self.layout)?);
            stored.retain(|chunk| chunk.to_ms >= since_ms && chunk.from_ms <= until_ms);
            Ok(stored)
        })?;
        for (chunk, error) in unreadable {
            self.note_damage(&chunk, &error.to_string());
        }
        Ok(stored)
    }

    /// Makes a chunk that cannot be read a gap.
    fn note_damage(&self, chunk: &Stored, because: &str) {
        let gap = Gap {
            from: from_ms(chunk.from_ms),
            to: Some(from_ms(chunk.to_ms)),
            because: format!("the recording is damaged here: {because}"),
        };
        let mut damaged = self.damaged.borrow_mut();
        if !damaged.contains(&gap) {
            damaged.push(gap);
        }
    }

    /// Adds the samples of a chunk whose time is wanted; a damaged chunk becomes a gap.
    fn decode(
        &self,
        stored: &Stored,
        wanted_ms: RangeInclusive<i64>,
        lists: Lists,
        samples: &mut Vec<RecordedSample>,
    ) -> Result<(), Error> {
        let at_ms = |after_ms: i64| stored.from_ms.saturating_add(after_ms);
        // A writer begins another chunk where the clock was set back.
        let wish = |after_ms| match at_ms(after_ms) {
            at_ms if at_ms > *wanted_ms.end() => Wish::End,
            at_ms if at_ms < *wanted_ms.start() => Wish::Skip,
            _ => Wish::Take,
        };
        let decoded = match codec::samples(&stored.data, wish, |raw| lists.read(raw, raw.first.map(at_ms))) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.note_damage(stored, &error.to_string());
                return Ok(());
            }
        };
        for ReadSecond { after_ms, mut sample } in decoded {
            let at_ms = at_ms(after_ms);
            // A chunk whose records begin with something else is read as a whole.
            if !wanted_ms.contains(&at_ms) {
                continue;
            }
            self.read(|db| {
                self.texts.borrow_mut().put_back(db, &mut sample, stored.literals)?;
                rare::put_back(db, at_ms, &mut sample)
            })?;
            samples.push(RecordedSample {
                at: from_ms(at_ms),
                segment: stored.segment.cast_unsigned(),
                sample,
            });
        }
        Ok(())
    }
}

/// How the lists of the server's threads and transactions are read.
#[derive(Debug, Clone, Copy)]
enum Lists {
    Kept,
    /// They were not asked for.
    LeftOut,
    /// They are empty where the server answered.
    Emptied,
    /// Kept from this instant on, and not asked for before.
    KeptSince(i64),
}

impl Lists {
    /// A sample that was begun at this instant, as far as that is known.
    fn read(self, raw: &Raw<'_>, at_ms: Option<i64>) -> Result<ReadSecond, Undecodable> {
        match (self, at_ms) {
            (Self::KeptSince(since_ms), Some(at_ms)) if at_ms < since_ms => Self::LeftOut.read(raw, None),
            (Self::Kept | Self::KeptSince(_), _) => raw.raise(),
            (Self::LeftOut, _) => thin::without_lists(raw),
            (Self::Emptied, _) => thin::with_empty_lists(raw),
        }
    }
}

/// No value of a recording is longer: a chunk is at most this before it is packed.
const LONGEST_VALUE: i32 = 256 << 20;

/// Settings for a file that somebody else may have made (<https://www.sqlite.org/security.html>): its schema runs nothing,
/// its pages are checked, and no value is longer than any of ours.
fn harden(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    db.pragma_update(None, "cell_size_check", true)?;
    // A file that is cut short while it is mapped would kill this process.
    db.pragma_update(None, "mmap_size", 0)
}

/// Parts of a file's schema that do not belong to a recording: a view, a trigger or a virtual table would run what its
/// author wrote.
fn foreign(db: &Connection) -> rusqlite::Result<Option<String>> {
    let found = db.query_row(
        "SELECT type, name FROM sqlite_schema
         WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' OR sql LIKE '%GENERATED%' OR sql LIKE '% AS (%'
         LIMIT 1",
        [],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    );
    let found = found.optional()?;
    Ok(found.map(|(kind, name)| format!("it has a {kind} that no recording has: {name}")))
}

/// Opens the database for reading.
///
/// Beside a writer SQLite keeps an index of the write-ahead log in a file of its own, `-shm`, which a medium that cannot be
/// written does not let it make. There nobody writes either, so no lock is needed: a log that was left is indexed in
/// memory, and where there is none the file is read as one that nobody changes.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    let refused = match db.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())) {
        // On a disk that is full to the last byte the index cannot be made either: that is SQLITE_IOERR_SHMSIZE.
        Err(error) => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure)
        ),
        Ok(()) => false,
    };
    if !refused {
        return Ok(db);
    }
    if std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0) {
        let db = Connection::open_with_flags_and_vfs(path, flags, c"unix-none")?;
        db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        return Ok(db);
    }
    Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)
}

/// The name by which SQLite opens a file that nobody changes.
fn immutable(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => {
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    uri + "?immutable=1"
}

/// The rows that are not folded yet, as the chunks that they will be: of chunks with a sample of a range.
fn open_chunks(
    db: &Connection,
    since_ms: i64,
    until_ms: i64,
    layout: Layout,
) -> rusqlite::Result<Vec<Stored>> {
    let mut statement = db.prepare_cached(
        "SELECT chunk, segment, at_ms, literals, data FROM samples
         WHERE chunk IN (SELECT chunk FROM samples WHERE at_ms BETWEEN ?1 AND ?2) ORDER BY chunk, id",
    )?;
    let mut found = statement.query([since_ms, until_ms])?;
    let mut chunks: Vec<(i64, Stored, Vec<Vec<u8>>)> = Vec::new();
    while let Some(row) = found.next()? {
        let (chunk, at_ms): (i64, i64) = (row.get(0)?, row.get(2)?);
        let data: Vec<u8> = row.get(4)?;
        match chunks.last_mut().filter(|(id, ..)| *id == chunk) {
            Some((_, stored, rows)) => {
                stored.to_ms = at_ms;
                rows.push(data);
            }
            None => {
                let stored = Stored {
                    segment: row.get(1)?,
                    from_ms: at_ms,
                    to_ms: at_ms,
                    literals: row.get(3)?,
                    data: Vec::new(),
                };
                chunks.push((chunk, stored, vec![data]));
            }
        }
    }
    let folded = chunks.into_iter().map(|(_, stored, rows)| {
        // Rows that cannot be folded are as damaged as a chunk that is empty.
        Stored { data: codec::fold(layout, &rows).unwrap_or_default(), ..stored }
    });
    Ok(folded.collect())
}
