//! How long a week's recording takes to open in `top`, and a jump in it.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rusqlite::Connection;
use spindoctor_lab::load::Workload;
use spindoctor_record::Recording;

use super::ground::Ground;
use super::looker::{Looker, recording};
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// Transactions a second of all clients: each of twenty statements.
const RATE: u32 = 50;
/// Two minutes and a part are recorded: one of them is whole for certain, with what is asked every minute.
const RECORDED: Duration = Duration::from_secs(185);
const WEEK_MS: i64 = 7 * 86_400_000;
const MINUTE_MS: i64 = 60_000;
const MIB: f64 = 1_048_576.0;
/// Where nothing is drawn for so long, a picture is there.
const BETWEEN_PICTURES: Duration = Duration::from_millis(15);
/// Where nothing is drawn for so long, nothing will be.
const DRAWN: Duration = Duration::from_millis(1_000);
/// Each is into another part of the week, so that nothing of it was read before.
const JUMPS: [&str; 4] = ["-20h", "-45h", "-37h", "-51h"];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "replayed-week",
    of: &["crates/record", "crates/spindoctor/src/top"],
    minutes: 5,
    story: "Minutes that `spindoctor record` wrote of the MySQL with 1,000 connections, their rows repeated with moved times \
            until the file holds a week. `spindoctor top --replay` on a terminal of 120 x 40: from its start to the first \
            picture, and until the charts' five minutes are in it; then `g`, a time in another part of the week, and from \
            Enter to the same. The file is in the page cache; the time has the terminal's program, `script`, in it.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::Builder::new().prefix("spindoctor-week-").tempdir()?;
    let file = record(bench, folder.path()).await?;
    progress("replayed-week: making a week of it");
    let chunks = repeat(&file)?;
    let mib = std::fs::metadata(&file)?.len() as f64 / MIB;
    let extent = Recording::open(&file)?.extent()?.context("nothing was recorded")?;
    let days = extent.1.duration_since(extent.0).as_secs_f64() / 86_400.0;
    let (mut first, mut whole, mut jumped, mut jumped_whole) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let rounds = bench.runs.div_ceil(2);
    for round in 1..=rounds {
        progress(&format!("replayed-week: round {round} of {rounds}"));
        let mut top = Top::open(bench, &file)?;
        let pictures = top.pictures()?;
        first.push(pictures[0]);
        whole.push(*pictures.last().unwrap_or(&f64::NAN));
        for jump in JUMPS {
            top.press(&format!("g{jump}"))?;
            top.pictures()?;
            top.press("\r")?;
            let pictures = top.pictures()?;
            jumped.push(pictures[0]);
            jumped_whole.push(*pictures.last().unwrap_or(&f64::NAN));
        }
        top.quit()?;
    }
    let (first, jumped) = (Spread::from_values(&first), Spread::from_values(&jumped));
    Ok(vec![
        Row::plain("the recording", format!("{} MiB, {} days, {chunks} minutes", short(mib), short(days))),
        Row::goal("until its first picture", first.text("ms"), "<= 300 ms", first.median <= 300.0),
        Row::plain("until its charts are whole", Spread::from_values(&whole).text("ms")),
        Row::goal("a jump, until its first picture", jumped.text("ms"), "<= 100 ms", jumped.median <= 100.0),
        Row::plain("a jump, until its charts are whole", Spread::from_values(&jumped_whole).text("ms")),
    ])
}

/// Some minutes of a real server.
async fn record(bench: &Bench, folder: &Path) -> anyhow::Result<PathBuf> {
    let mut ground = Ground::start(bench, Workload::OltpReadWrite, Some(RATE)).await?;
    ground.admit(Looker::Record.user()).await?;
    let recorder = Looker::Record.start(bench, ground.server.socket(), folder)?;
    progress("replayed-week: recording three minutes");
    tokio::time::sleep(RECORDED).await;
    ground.load.check()?;
    let file = recording(&recorder.folder);
    recorder.end()?;
    ground.stop().await?;
    Ok(file)
}

/// Repeats the recording's last whole minutes, earlier and earlier, until it holds a week: how many minutes that are.
fn repeat(file: &Path) -> anyhow::Result<i64> {
    let mut db = Connection::open(file)?;
    let change = db.transaction()?;
    // The first minute and the last are parts; what was asked at the start is in the first.
    change.execute_batch(
        "DELETE FROM chunks WHERE from_ms = (SELECT min(from_ms) FROM chunks)
             OR from_ms = (SELECT max(from_ms) FROM chunks);
         DELETE FROM minutes WHERE at_ms NOT IN (SELECT from_ms FROM chunks);",
    )?;
    let whole: i64 =
        change.query_row("SELECT count(*) FROM chunks WHERE samples >= 55", [], |row| row.get(0))?;
    ensure!(whole >= 1, "no whole minute was recorded");
    let until_ms: i64 = change.query_row("SELECT max(to_ms) FROM chunks", [], |row| row.get(0))?;
    let columns = |table: &str| -> anyhow::Result<String> {
        let mut named = change.prepare("SELECT name FROM pragma_table_info(?1) WHERE name NOT IN ('id')")?;
        let names: Vec<String> = named.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(names.join(", "))
    };
    let moved = |columns: &str| {
        let moved = |name: &str| if name.ends_with("_ms") { format!("{name} - ?1") } else { name.to_owned() };
        columns.split(", ").map(moved).collect::<Vec<_>>().join(", ")
    };
    change.execute_batch(
        "CREATE TEMP TABLE kept_chunks AS SELECT * FROM chunks; CREATE TEMP TABLE kept_minutes AS SELECT * FROM minutes;
         CREATE TEMP TABLE kept_costs AS SELECT * FROM costs;",
    )?;
    for step in 1..=WEEK_MS / MINUTE_MS / whole {
        let by_ms = step * whole * MINUTE_MS;
        for (table, kept) in [("chunks", "kept_chunks"), ("minutes", "kept_minutes"), ("costs", "kept_costs")]
        {
            let columns = columns(table)?;
            let moved = moved(&columns);
            let insert = format!("INSERT OR IGNORE INTO {table} ({columns}) SELECT {moved} FROM {kept}");
            change.prepare_cached(&insert)?.execute([by_ms])?;
        }
    }
    // Statements and settings are known from the beginning.
    change.execute("UPDATE settings SET at_ms = at_ms - ?1", [WEEK_MS])?;
    change.execute("UPDATE facts SET at_ms = at_ms - ?1", [WEEK_MS])?;
    let chunks =
        change.query_row("SELECT count(*) FROM chunks WHERE to_ms <= ?1", [until_ms], |row| row.get(0))?;
    change.commit()?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(chunks)
}

/// `top` on a terminal.
struct Top {
    child: Child,
    keys: ChildStdin,
    drawn: Receiver<(Instant, bool)>,
    since: Instant,
}

impl Top {
    fn open(bench: &Bench, file: &Path) -> anyhow::Result<Self> {
        let program = bench.spindoctor.command();
        let program = program.get_program().to_string_lossy().into_owned();
        let shown = format!("stty cols 120 rows 40; exec '{program}' top --replay '{}'", file.display());
        let since = Instant::now();
        let mut child = Command::new("script")
            .args(["-q", "-f", "-c", &shown, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not run script")?;
        let keys = child.stdin.take().context("no keyboard")?;
        let mut screen = child.stdout.take().context("no screen")?;
        let (send, drawn) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            let mut within = Escape::default();
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let shows = bytes[..count].iter().filter(|byte| within.shows(**byte)).count() > 0;
                if send.send((Instant::now(), shows)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, keys, drawn, since })
    }

    fn press(&mut self, keys: &str) -> anyhow::Result<()> {
        self.since = Instant::now();
        self.keys.write_all(keys.as_bytes())?;
        Ok(self.keys.flush()?)
    }

    /// When each picture since the last key was there, milliseconds; waits until nothing more is drawn.
    fn pictures(&mut self) -> anyhow::Result<Vec<f64>> {
        let mut pictures: Vec<Instant> = Vec::new();
        let mut quiet_since = Instant::now();
        loop {
            match self.drawn.recv_timeout(DRAWN.saturating_sub(quiet_since.elapsed())) {
                Ok((_, false)) => {}
                Ok((at, true)) => {
                    quiet_since = at;
                    match pictures.last_mut() {
                        Some(last) if at.duration_since(*last) < BETWEEN_PICTURES => *last = at,
                        _ => pictures.push(at),
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if quiet_since.elapsed() >= DRAWN {
                break;
            }
        }
        ensure!(!pictures.is_empty(), "top drew nothing");
        Ok(pictures.iter().map(|at| at.duration_since(self.since).as_secs_f64() * 1e3).collect())
    }

    fn quit(mut self) -> anyhow::Result<()> {
        self.keys.write_all(b"q")?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // It has ended, or what follows does not need it.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Separates characters from the sequences that move the cursor and colour them.
#[derive(Default)]
enum Escape {
    #[default]
    Text,
    Begun,
    Parameters,
}

impl Escape {
    /// True for a byte that can be seen.
    fn shows(&mut self, byte: u8) -> bool {
        match (&self, byte) {
            (_, 0x1b) => *self = Self::Begun,
            (Self::Begun, b'[') => *self = Self::Parameters,
            (Self::Parameters, b'@'..=b'~') | (Self::Begun, _) => *self = Self::Text,
            (Self::Parameters, _) => {}
            (Self::Text, _) => return byte > b' ',
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_is_not_seen() {
        let shown = |bytes: &[u8]| {
            let mut within = Escape::default();
            bytes.iter().filter(|byte| within.shows(**byte)).count()
        };
        assert_eq!(shown(b"\x1b[?25l\x1b[12;3H \x1b[38;5;4m"), 0);
        assert_eq!(shown(b"\x1b[1;1Hab\x1b[0mc"), 3);
    }
}
