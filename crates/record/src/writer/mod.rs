//! Writes a recording: every call is one transaction, so what a finished call wrote survives a kill.
//!
//! The database is in WAL mode with `synchronous = NORMAL`: a commit is written to the kernel at once, so that a killed
//! recorder loses nothing that it committed. The file is synced at checkpoints only; a power cut may lose the last
//! minute or so and never damages what is before. `FULL` would wait every second for the disk of a server in trouble.

mod carried;
mod chunks;

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};
use rustix::fs::{Mode, OFlags};
use spindoctor_model::{Event, Gap, RecordedSample, Segment, ServerIdentity};

use crate::codec::Layout;
use crate::disk::{self, NoRoom};
use crate::error::{Doing, Error};
use crate::literals::Literals;
use crate::lock::{Lock, beside};
use crate::retention::{self, Bounds};
use crate::time::to_ms;
use crate::{events, schema};

pub(crate) use chunks::CHUNK_MS;
use chunks::{Added, Kind, State, fold_all};

/// How long a write waits for another program that writes to the file.
const BUSY: Duration = Duration::from_secs(1);
/// The write-ahead log is cut back to this after a checkpoint; SQLite makes one every 1,000 pages, 4 MiB.
const LOG_BYTES: i64 = 4 << 20;
/// SQLite's cache of pages, KiB: one chunk and the tables' upper pages.
const CACHE_KIB: i64 = 2048;

/// What to keep, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// What is older than this goes.
    pub keep_for: Duration,
    /// The size that the file may have. Samples go first, then events; the write-ahead log beside it takes 4 MiB more.
    pub max_bytes: u64,
    /// False to keep statements without their literals.
    pub literals: bool,
    /// The share of the file system that is never written into applies where this is true. Tests that fill a disk to
    /// the last byte set it to false.
    pub keep_disk_free: bool,
}

impl Default for WriterOptions {
    /// A week, 1 GiB (seven days at the 150 MiB a day that a busy server takes), and no literals.
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(7 * 86_400),
            max_bytes: 1 << 30,
            literals: false,
            keep_disk_free: true,
        }
    }
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is in the file.
    Done,
    /// It is in the file, the first after a time without room; that time is in the file as a gap.
    Again,
    /// It is not in the file, and what follows will not be until there is room. Said once; then it is
    /// [`Written::Dropped`].
    Stopped(NoRoom),
    /// It is not in the file: there is still no room.
    Dropped,
}

/// Writes a recording. A recording has one writer; dropping it closes the file.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    folder: PathBuf,
    db: Connection,
    /// The file's device and inode.
    file: Option<(u64, u64)>,
    /// The file, wherever it is: opened as a place alone, as closing it otherwise would let go of SQLite's locks.
    place: OwnedFd,
    /// The file's.
    version: i64,
    /// What a writer does first is in the file: see [`begin`].
    has_begun: bool,
    options: WriterOptions,
    literals: Literals,
    state: State,
    room: Room,
    /// Dropped last, so that nobody opens the file while it is closed.
    _lock: Lock,
}

/// Whether there is room on the disk.
#[derive(Debug)]
enum Room {
    /// There is; and the time of the last sample that was written.
    Enough { last: Option<Timestamp> },
    /// There is none since that time.
    None { since: Option<Timestamp>, because: NoRoom },
}

/// Fails where one of the files that SQLite keeps beside a recording is somebody else's: the content of its log becomes
/// a part of the recording.
fn expect_ours_beside(path: &Path) -> Result<(), Error> {
    for ending in ["-wal", "-shm", "-journal"] {
        let beside = beside(path, ending);
        if std::fs::symlink_metadata(&beside).is_ok() {
            spindoctor_safefile::expect_writable(&beside).map_err(|because| Error::Io {
                path: beside,
                doing: "used",
                because,
            })?;
        }
    }
    Ok(())
}

impl Writer {
    /// Opens a recording for writing; makes it where there is none, readable for its owner alone, and its folder.
    ///
    /// # Errors
    /// Somebody else writes to it; it is no recording, or a later version's; the system refuses.
    pub fn open(path: &Path, options: WriterOptions) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            doing: "opened",
            because: source,
        })?;
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let failed = |source| Error::Io { path: path.clone(), doing: "made", because: source };
        spindoctor_safefile::make_folder(&folder).map_err(failed)?;
        let lock = Lock::take(&path)?;
        // SQLite would make it with the rights that the umask leaves, and gives its other files the rights of this one.
        let failed = |source| Error::Io { path: path.clone(), doing: "opened", because: source };
        // One that is there is not opened but by SQLite: closing another descriptor of it would take away the locks that a
        // reader in this process has on it (fcntl(2)).
        match std::fs::symlink_metadata(&path) {
            Ok(_) => spindoctor_safefile::expect_writable(&path),
            Err(_) => spindoctor_safefile::read_write(&path).map(drop),
        }
        .map_err(failed)?;
        expect_ours_beside(&path)?;
        let place = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        let file = rustix::fs::fstat(&place).map_err(|error| failed(error.into()))?;
        let opened = Doing { path: &path, doing: "opened" };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&path, flags).map_err(|error| opened.failed(error))?;
        let version = prepare(&db, &path)?;
        let state = State::load(&db).map_err(|error| opened.failed(error))?;
        let mut writer = Self {
            folder,
            db,
            file: Some((file.st_dev, file.st_ino)),
            place,
            version,
            has_begun: false,
            options,
            literals: Literals::default(),
            state,
            room: Room::Enough { last: None },
            _lock: lock,
            path,
        };
        writer.write(Timestamp::now(), |_, _| Ok(()))?;
        // By now SQLite has opened its log: somebody may have put one there meanwhile.
        expect_ours_beside(&writer.path)?;
        // Where there was no room, the first write says so to its caller.
        writer.room = Room::Enough { last: None };
        Ok(writer)
    }

    /// Begins a segment, which samples name from then on, and gives its number. It is written with the first of them.
    pub fn begin_segment(&mut self, began: Timestamp, server: ServerIdentity) -> u64 {
        let id = self.state.next_segment;
        self.state.next_segment += 1;
        let written_by = env!("CARGO_PKG_VERSION").to_owned();
        self.state.segment = Some(Segment { id, began, server, written_by });
        id
    }

    /// Writes a sample. Its variables, its normalised statements and, as the options say, the literals in it go
    /// elsewhere or away; [`crate::Recording`] puts back what was put elsewhere.
    ///
    /// # Errors
    /// The file is damaged or gone. A disk without room is no error: see [`Written`].
    pub fn write_sample(&mut self, recorded: RecordedSample) -> Result<Written, Error> {
        let at = recorded.at;
        let written = self.add(recorded, Kind::Sample)?;
        if let (Written::Done | Written::Again, Room::Enough { last }) = (&written, &mut self.room) {
            *last = Some(at);
        }
        Ok(written)
    }

    /// Writes what was seen between two samples of the grid, perhaps some seconds ago. It is read as any other sample.
    ///
    /// # Errors
    /// As [`Writer::write_sample`].
    pub fn write_look(&mut self, look: RecordedSample) -> Result<Written, Error> {
        self.add(look, Kind::Look)
    }

    fn add(&mut self, recorded: RecordedSample, kind: Kind) -> Result<Written, Error> {
        let RecordedSample { at, segment, mut sample } = recorded;
        if matches!(self.room, Room::None { .. }) && !self.has_room() {
            return Ok(Written::Dropped);
        }
        if !self.options.literals {
            self.literals.take_out_of_sample(&mut sample);
        }
        let with_literals = self.options.literals;
        let added = Added { at_ms: to_ms(at), segment, sample, kind, with_literals };
        self.write(at, |db, state| state.add(db, added))
    }

    /// Writes a gap; one with the same beginning is replaced, so that a gap that goes on can be ended.
    ///
    /// # Errors
    /// As [`Writer::write_sample`].
    pub fn write_gap(&mut self, gap: &Gap) -> Result<Written, Error> {
        self.write(gap.from, |db, _| write_gap(db, gap))
    }

    /// The number that the next event will have: for the head of an event that is not written yet.
    pub fn new_event(&mut self) -> u64 {
        let id = self.state.next_event;
        self.state.next_event += 1;
        id
    }

    /// Writes an event, or more of one that is there: parts that are absent or empty stay as they were written before.
    /// So its head can be written as soon as it is seen, and stacks and diagnosis when they are there.
    ///
    /// # Errors
    /// As [`Writer::write_sample`].
    pub fn write_event(&mut self, mut event: Event) -> Result<Written, Error> {
        if !self.options.literals {
            self.literals.take_out_of_event(&mut event);
        }
        self.write(event.head.began, |db, _| events::write(db, &event))
    }

    /// Adds to what a source cost, of one that is no reading of the sample: the probe, stacks, a new connection. What
    /// readings took is counted from the samples. Written at the end of the minute.
    pub fn add_cost(&mut self, source: &str, asked: u64, took_ms: f64) {
        self.state.costs.add(source, asked, took_ms);
    }

    /// Keeps a text of the recorder's own under a name, in place of the one that is there.
    ///
    /// # Errors
    /// As [`Writer::write_sample`].
    pub fn remember(&mut self, name: &str, text: &str) -> Result<Written, Error> {
        self.write(Timestamp::now(), |db, _| {
            db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", params![name, text])?;
            Ok(())
        })
    }

    /// The text that [`Writer::remember`] kept; none where there is none.
    ///
    /// # Errors
    /// The file is damaged or gone.
    pub fn remembered(&self, name: &str) -> Result<Option<String>, Error> {
        self.db
            .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(|error| Doing { path: &self.path, doing: "read" }.failed(error))
    }

    /// True where the file is no longer at its path: somebody moved or removed it, and what is written goes to where nobody
    /// looks for it.
    pub fn is_elsewhere(&self) -> bool {
        !self.is_at(&self.path)
    }

    fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok() == self.file
    }

    /// Where the file was moved to; none where it was removed, or is where it was.
    fn moved_to(&self) -> Option<PathBuf> {
        let place = std::fs::read_link(format!("/proc/self/fd/{}", self.place.as_raw_fd())).ok()?;
        (self.is_elsewhere() && self.is_at(&place)).then_some(place)
    }

    /// Changes what is kept from now on, as after a reload.
    pub fn set_options(&mut self, options: WriterOptions) {
        // A chunk has its statements with literals or without.
        self.state.chunk = None;
        self.options = options;
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs one transaction, where there is room for it.
    fn write(
        &mut self,
        at: Timestamp,
        change: impl FnOnce(&Transaction<'_>, &mut State) -> rusqlite::Result<()>,
    ) -> Result<Written, Error> {
        if !self.has_room() {
            return Ok(self.no_room(NoRoom::Reserved));
        }
        let done = transaction(&self.db, |transaction| {
            if self.version < schema::VERSION {
                bring_up_to_date(transaction, self.version)?;
            }
            if !self.has_begun {
                begin(transaction, &self.options)?;
            }
            if let Room::None { since, because } = &self.room {
                let gap = Gap { from: since.unwrap_or(at), to: Some(at), because: because.to_string() };
                write_gap(transaction, &gap)?;
            }
            if let Some(segment) = &self.state.segment {
                write_segment(transaction, segment)?;
            }
            change(transaction, &mut self.state)
        });
        match done {
            Ok(()) => {
                self.version = schema::VERSION;
                self.has_begun = true;
                self.state.segment = None;
                self.retain()?;
                let again = matches!(self.room, Room::None { .. });
                if again {
                    self.room = Room::Enough { last: Some(at) };
                }
                Ok(if again { Written::Again } else { Written::Done })
            }
            Err(error) => {
                let because = refusal(&error);
                self.state.forget(&self.db);
                match because {
                    Some(because) => Ok(self.no_room(NoRoom::Refused(because))),
                    None => Err(Doing { path: &self.path, doing: "written" }.failed(error)),
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        let had_room = matches!(self.room, Room::Enough { .. });
        // A file system that does not report its space is written to until it refuses.
        !self.options.keep_disk_free || disk::has_room_in(&self.folder, had_room)
    }

    fn no_room(&mut self, because: NoRoom) -> Written {
        match &self.room {
            Room::Enough { last } => {
                self.room = Room::None { since: *last, because: because.clone() };
                Written::Stopped(because)
            }
            Room::None { .. } => Written::Dropped,
        }
    }

    /// Takes away what is too old, where a minute has ended: in a transaction of its own, so that what cannot be taken away
    /// blocks nothing that is written. What fails now is tried again a minute later.
    fn retain(&mut self) -> Result<(), Error> {
        let Some(now_ms) = self.state.retain_at_ms.take() else { return Ok(()) };
        let bounds = self.options.bounds();
        let done = transaction(&self.db, |db| retention::retain(db, now_ms, bounds));
        match done {
            Err(error) if refusal(&error).is_none() => {
                Err(Doing { path: &self.path, doing: "written" }.failed(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl WriterOptions {
    fn bounds(&self) -> Bounds {
        Bounds {
            age_ms: i64::try_from(self.keep_for.as_millis()).unwrap_or(i64::MAX),
            bytes: i64::try_from(self.max_bytes).unwrap_or(i64::MAX),
        }
    }
}

impl Drop for Writer {
    /// Folds the open chunk and writes what the sources cost, where there is room: a writer that is killed leaves that to
    /// the next one. A file that was moved is followed by its log.
    fn drop(&mut self) {
        if matches!(self.room, Room::Enough { .. }) && self.has_room() {
            let state = &mut self.state;
            let _ = transaction(&self.db, |db| state.end_chunk(db));
        }
        // SQLite leaves the log of a file that was moved where it is, with all that is not in the file yet.
        if let Some(place) = self.moved_to() {
            let _ = std::fs::rename(beside(&self.path, "-wal"), beside(&place, "-wal"));
        }
    }
}

/// Makes the tables where there are none, and sets how the file is written. The version that it is of.
fn prepare(db: &Connection, path: &Path) -> Result<i64, Error> {
    let opened = Doing { path, doing: "opened" };
    let set_up = || -> rusqlite::Result<()> {
        db.busy_timeout(BUSY)?;
        db.pragma_update(None, "cache_size", -CACHE_KIB)?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        Ok(())
    };
    set_up().map_err(|error| opened.failed(error))?;
    if schema::is_blank(db) {
        schema::create(db).map_err(|error| Doing { path, doing: "made" }.failed(error))?;
    }
    schema::version(db, path)
}

/// A writer's first steps, with the first transaction for which there is room: it writes who it is, folds the rows of a
/// killed writer, and ends open gaps, as the recorder that knew of them is gone.
fn begin(db: &Connection, options: &WriterOptions) -> rusqlite::Result<()> {
    let mut insert = db.prepare("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
    insert.execute(["format", "spindoctor.recording/2"])?;
    insert.execute(["written_by", env!("CARGO_PKG_VERSION")])?;
    insert.execute(["literals", if options.literals { "kept" } else { "taken out" }])?;
    fold_all(db, Layout::ManyWithExpected)?;
    end_gaps(db)
}

/// A gap that its recorder did not end lasted until that one's last sample: until a later segment began, where there is
/// one. A segment that begins with its gap begins up to a second after it.
fn end_gaps(db: &Connection) -> rusqlite::Result<()> {
    const BEGINS_WITH_MS: i64 = 2_000;
    db.execute(
        "UPDATE gaps SET to_ms = max(from_ms, coalesce(
             (SELECT min(began_ms) FROM segments WHERE began_ms > gaps.from_ms + ?1),
             (SELECT max(to_ms) FROM chunks), from_ms))
         WHERE to_ms IS NULL",
        [BEGINS_WITH_MS],
    )?;
    Ok(())
}

/// One transaction; what it did is undone where it fails.
fn transaction(
    db: &Connection,
    change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    change(&transaction)?;
    transaction.commit()
}

/// The file system's answer, where it refused: it may have room later.
fn refusal(error: &rusqlite::Error) -> Option<String> {
    match error.sqlite_error_code()? {
        ErrorCode::DiskFull => Some("it is full".to_owned()),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Some("another program holds the file's write lock".to_owned())
        }
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly => Some(error.to_string()),
        _ => None,
    }
}

/// A value that cannot be encoded.
pub(crate) fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn write_gap(db: &Connection, gap: &Gap) -> rusqlite::Result<()> {
    let from_ms = to_ms(gap.from);
    db.execute("DELETE FROM gaps WHERE from_ms = ?1", [from_ms])?;
    db.execute(
        "INSERT INTO gaps (from_ms, to_ms, because) VALUES (?1, ?2, ?3)",
        params![from_ms, gap.to.map(to_ms), gap.because],
    )?;
    Ok(())
}

fn write_segment(db: &Connection, segment: &Segment) -> rusqlite::Result<()> {
    // The clock was set forward, which made a gap, and back again: what follows is no gap.
    db.execute("UPDATE gaps SET to_ms = max(from_ms, ?1) WHERE to_ms > ?1", [to_ms(segment.began)])?;
    let body = serde_json::to_string(segment).map_err(unwritable)?;
    db.execute(
        "INSERT OR REPLACE INTO segments (id, began_ms, hostname, address, server_version, written_by, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            segment.id.cast_signed(),
            to_ms(segment.began),
            segment.server.hostname,
            segment.server.address,
            segment.server.version_text,
            segment.written_by,
            body,
        ],
    )?;
    Ok(())
}

/// Makes a file of an older version one of this version: its chunks stay as they are, the rows of a chunk that was open are
/// folded.
fn bring_up_to_date(db: &Connection, version: i64) -> rusqlite::Result<()> {
    fold_all(db, schema::layout(version))?;
    schema::set_version(db)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Sample;

    use super::*;
    use crate::Recording;
    use crate::codec::{Encoder, Second};

    /// True where this process holds a lock of fcntl(2) on the file: `1: POSIX  ADVISORY  READ 4310 fd:00:1234 128 128`.
    fn is_locked(path: &Path) -> bool {
        let inode = format!(":{}", std::fs::metadata(path).unwrap().ino());
        let own = std::process::id().to_string();
        std::fs::read_to_string("/proc/locks").unwrap().lines().any(|line| {
            let mut words = line.split_whitespace().skip_while(|word| *word != "POSIX").skip(3);
            words.next() == Some(own.as_str()) && words.next().is_some_and(|file| file.ends_with(&inode))
        })
    }

    #[test]
    fn a_recording_that_is_open_keeps_sqlites_locks_without_which_a_reader_would_cut_the_shared_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locked.rec");
        for _ in 0..2 {
            let writer = Writer::open(&path, WriterOptions::default()).unwrap();
            let recording = Recording::open(&path).unwrap();
            for file in [path.clone(), beside(&path, "-shm")] {
                assert!(is_locked(&file), "{} is not locked", file.display());
            }
            drop((writer, recording));
        }
    }

    #[test]
    fn a_minute_that_a_recorder_of_version_1_left_open_is_read_and_folded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.spindoctor");
        drop(Writer::open(&path, WriterOptions::default()).unwrap());
        let began: Timestamp = "2026-01-05T10:00:00Z".parse().unwrap();
        let db = Connection::open(&path).unwrap();
        let mut encoder = Encoder::with_layout(Layout::Many);
        let samples: Vec<Sample> =
            (0..3).map(|second| Sample { at_s: f64::from(second), ..Sample::default() }).collect();
        for (second, sample) in samples.iter().enumerate() {
            let after_ms = second as i64 * 1000;
            db.execute(
                "INSERT INTO samples (chunk, segment, at_ms, literals, data) VALUES (1, 1, ?1, 0, ?2)",
                params![to_ms(began) + after_ms, encoder.push(&Second { after_ms, sample }).unwrap()],
            )
            .unwrap();
        }
        db.pragma_update(None, "user_version", 1).unwrap();
        drop(db);
        let read = || {
            let recording = Recording::open(&path).unwrap();
            let (from, to) = recording.extent().unwrap().unwrap();
            recording.samples(from, to).unwrap().into_iter().map(|read| read.sample).collect::<Vec<_>>()
        };
        assert_eq!(read(), samples);
        drop(Writer::open(&path, WriterOptions::default()).unwrap());
        assert_eq!(read(), samples);
        let db = Connection::open(&path).unwrap();
        assert_eq!(schema::version(&db, &path).unwrap(), schema::VERSION);
        assert_eq!(db.query_row("SELECT count(*) FROM samples", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}
