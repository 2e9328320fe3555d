//! `--parquet`: the recording, slice by slice, as Parquet files in a dated layout.
//!
//! A thread of its own reads the recording as any other reader would, so that a folder that is full, slow or gone
//! blocks nobody. The recording stays complete: it has everything that is not in files yet, and the position that the
//! files have reached. After a kill the recorder writes the same files again, with the same names.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::setpriority_process;
use spindoctor_record::{NoRoom, Recording, has_room_in};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::args::Record;
use crate::common::session::note;
use spindoctor_export::table::by_name;
use spindoctor_export::{Dated, FileFormat, More, Position, TABLES};
use spindoctor_page::csv::Reader;

/// How often is looked whether a slice is over; and how soon after trouble it is tried again, a minute at most.
const LOOKS_EVERY: Duration = Duration::from_secs(15);
/// See [`LOOKS_EVERY`].
const AGAIN_WITHIN: Duration = Duration::from_secs(60);
/// What was not written for days is written with a twentieth of one CPU: a slice, then rest for so many times as long.
const REST: u32 = 19;
/// The weight of a thread of this nice value is a seventieth of a usual one's (`sched_prio_to_weight` of
/// kernel/sched/core.c): it takes what others leave.
const NICE: i32 = 19;
/// No slice is begun later than this after the recording's end. What is left is for the next recorder.
const LAST_SLICE_WITHIN: Duration = Duration::from_secs(5);
/// And nobody waits longer than this for the one that was begun: service managers kill after 20 s.
const GOODBYE_WITHIN: Duration = Duration::from_secs(8);

/// What became of the recording.
#[derive(Debug)]
pub enum Shipped {
    /// It is in files up to this position, which is to be remembered.
    Written { position: Position, files: u64, bytes: u64 },
    /// It could not be written.
    Failed,
}

/// The thread that writes, and the way to it. Dropping it ends it, without waiting.
pub struct History {
    /// Under this name the recording has how far the files reach.
    pub place: String,
    end: Option<Sender<()>>,
    shipped: UnboundedReceiver<Shipped>,
    thread: Option<JoinHandle<()>>,
}

impl History {
    /// Begins to write the recording into the folder that the flags name; none where they name none. `remembered` gives
    /// what the recording has under a name.
    ///
    /// # Errors
    /// No thread could be made. A folder that cannot be written is no error: it may be writable later.
    pub fn start(
        asked: &Record,
        recording: &Path,
        remembered: impl FnOnce(&str) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(folder) = &asked.parquet else { return Ok(None) };
        let folder =
            std::path::absolute(folder).with_context(|| format!("could not find {}", folder.display()))?;
        let place = format!("parquet:{}", folder.display());
        let position = remembered(&place)?.and_then(|text| serde_json::from_str(&text).ok());
        let mut tables: Vec<_> = asked.parquet_table.iter().filter_map(|name| by_name(name)).collect();
        if tables.is_empty() {
            tables = TABLES.iter().filter(|table| !table.needs_lists()).collect();
        }
        let every = asked.parquet_every;
        let dated = Dated { folder, tables, format: FileFormat::Parquet, reader: Reader::People, every };
        let (end, ended) = channel();
        let (say, shipped) = unbounded_channel();
        let writer = Writer {
            recording: recording.to_owned(),
            dated,
            position: position.unwrap_or_default(),
            say,
            is_in_trouble: false,
            had_room: true,
        };
        let thread = std::thread::Builder::new()
            .name("spindoctor-parq".to_owned())
            .spawn(move || writer.run(&ended))
            .context("could not start the thread that writes Parquet files")?;
        Ok(Some(Self { place, end: Some(end), shipped, thread: Some(thread) }))
    }

    /// What became of the recording next.
    pub async fn next(&mut self) -> Shipped {
        match self.shipped.recv().await {
            Some(shipped) => shipped,
            None => std::future::pending().await,
        }
    }

    /// The recording is whole: has the rest of it written, as far as there is time, and gives what became of it.
    pub async fn end(mut self) -> Vec<Shipped> {
        drop(self.end.take());
        let mut all = Vec::new();
        let rest = async {
            while let Some(shipped) = self.shipped.recv().await {
                all.push(shipped);
            }
        };
        if timeout(GOODBYE_WITHIN, rest).await.is_ok()
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
        all
    }
}

/// Writes slice after slice.
struct Writer {
    recording: PathBuf,
    dated: Dated,
    position: Position,
    say: UnboundedSender<Shipped>,
    is_in_trouble: bool,
    had_room: bool,
}

impl Writer {
    fn run(mut self, ended: &Receiver<()>) {
        // The recorder goes ahead of others, and its threads with it. Going back is always allowed.
        let _behind = setpriority_process(None, NICE);
        loop {
            let is_well = self.write_slices(More::Comes, |rest| is_over(ended, rest));
            let wait = if is_well { LOOKS_EVERY } else { AGAIN_WITHIN };
            if is_over(ended, wait.min(self.dated.every)) {
                break;
            }
        }
        let begun = Instant::now();
        self.write_slices(More::Ended, |_| begun.elapsed() >= LAST_SLICE_WITHIN);
    }

    /// Writes what is due, and says where that does not succeed: once, however often it is tried.
    fn write_slices(&mut self, more: More, is_over: impl Fn(Duration) -> bool) -> bool {
        let result = self.write(more, is_over);
        match &result {
            Ok(()) if self.is_in_trouble => note("Parquet files are written again"),
            Err(why) if !self.is_in_trouble => {
                note(&format!("no Parquet files for now: {why:#}; the recording keeps what they lack"));
            }
            _ => {}
        }
        self.is_in_trouble = result.is_err();
        if self.is_in_trouble {
            let _sent = self.say.send(Shipped::Failed);
        }
        result.is_ok()
    }

    /// Writes what is due, with rests between, until it is over.
    fn write(&mut self, more: More, is_over: impl Fn(Duration) -> bool) -> anyhow::Result<()> {
        loop {
            let begun = Instant::now();
            self.had_room = has_room_in(existing(&self.dated.folder), self.had_room);
            if !self.had_room {
                bail!("{}: {}", self.dated.folder.display(), NoRoom::Reserved);
            }
            let recording = Recording::open(&self.recording)?;
            let stretches = recording.stretches(self.position.segment())?;
            let Some((position, files)) = self.dated.step(&recording, &stretches, &self.position, more)?
            else {
                return Ok(());
            };
            drop(recording);
            self.position = position.clone();
            let bytes = files.iter().map(|file| file.bytes).sum();
            let _sent = self.say.send(Shipped::Written { position, files: files.len() as u64, bytes });
            if is_over(begun.elapsed().saturating_mul(REST)) {
                return Ok(());
            }
        }
    }
}

/// Waits so long; true where the end came first.
fn is_over(ended: &Receiver<()>, wait: Duration) -> bool {
    !matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
}

/// The folder, or the nearest one above it that is there: the file system that it will be on.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"))
}
