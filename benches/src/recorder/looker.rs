//! The programs that watch the same server: the recorder, and the tools of today.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::process::{Process, Taken};
use crate::Bench;

/// Prometheus asks each exporter once in this time.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// dolphie, in the environment that `script/bench` makes.
const DOLPHIE: &str = "target/dolphie/bin/dolphie";

/// One of those that look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looker {
    /// `spindoctor record`: samples each second, the probe, the ring of stacks.
    Record,
    /// `dolphie --daemon`, which reads each second and records.
    Dolphie,
    /// Debian's prometheus-mysqld-exporter, scraped each second.
    Exporter,
    /// `pt-stalk` with a condition that is never met.
    PtStalk,
}

/// All of them.
pub(super) const LOOKERS: [Looker; 4] = [Looker::Record, Looker::Dolphie, Looker::Exporter, Looker::PtStalk];

/// One that looks now.
pub(super) struct Looking {
    process: Process,
    scraping: Option<Scraping>,
    /// Where it keeps what it saw.
    pub(super) folder: PathBuf,
}

impl Looker {
    /// Its user on the server.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Record => "recorder",
            Self::Dolphie => "dolphie",
            Self::Exporter => "exporter",
            Self::PtStalk => "stalk",
        }
    }

    /// `dolphie 6.18.0`; none where it is not installed.
    pub(super) fn label(self, bench: &Bench) -> Option<String> {
        let name = match self {
            Self::Record => return bench.spindoctor.version().ok(),
            Self::Dolphie => "dolphie",
            Self::Exporter => "mysqld_exporter",
            Self::PtStalk => "pt-stalk",
        };
        let output = self.command().arg("--version").output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_number =
            |word: &&str| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.');
        Some(format!("{name} {}", text.split_whitespace().find(is_number)?))
    }

    fn command(self) -> Command {
        Command::new(match self {
            Self::Record => "spindoctor",
            Self::Dolphie => DOLPHIE,
            Self::Exporter => "prometheus-mysqld-exporter",
            Self::PtStalk => "pt-stalk",
        })
    }

    /// Starts it in a folder of its own below this one.
    pub(super) fn start(self, bench: &Bench, socket: &Path, folder: &Path) -> anyhow::Result<Looking> {
        let folder = folder.join(self.user());
        fs::create_dir_all(&folder)?;
        let mut command = if self == Self::Record { bench.spindoctor.command() } else { self.command() };
        let mut scraping = None;
        match self {
            Self::Record => {
                command.args(["record", "--no-defaults", "-u", self.user(), "-S"]).arg(socket);
                command.arg("-o").arg(recording(&folder));
            }
            Self::Dolphie => {
                command.args(["--daemon", "--refresh-interval", "1", "-u", self.user(), "-S"]).arg(socket);
                command.arg("--replay-dir").arg(&folder);
                command.arg("--daemon-log-file").arg(folder.join("log"));
                // It would read the option files of the user who runs the benchmark.
                command.env("HOME", &folder);
            }
            Self::Exporter => {
                let address = free_address()?;
                let options = folder.join("my.cnf");
                fs::write(
                    &options,
                    format!("[client]\nuser={}\nsocket={}\n", self.user(), socket.display()),
                )?;
                command.env("DATA_SOURCE_NAME", format!("{}@unix({})/", self.user(), socket.display()));
                command.arg(format!("--web.listen-address={address}"));
                scraping = Some(Scraping::new(address));
            }
            Self::PtStalk => {
                command.args(["--function=status", "--variable=Threads_running", "--threshold=100000"]);
                command.args(["--interval=1", "--cycles=5"]);
                command.arg("--dest").arg(&folder).arg("--log").arg(folder.join("log"));
                command.arg("--pid").arg(folder.join("pid"));
                command.arg("--").arg(format!("--user={}", self.user()));
                command.arg(format!("--socket={}", socket.display()));
            }
        }
        Ok(Looking { process: Process::start(command)?, scraping, folder })
    }
}

impl Looking {
    /// What it took so far.
    pub(super) fn taken(&mut self) -> anyhow::Result<Taken> {
        if let Some(scraping) = &self.scraping {
            ensure!(scraping.scraped.load(Ordering::Relaxed) > 0, "it could not be scraped");
        }
        self.process.taken()
    }

    /// It does nothing, or goes on.
    pub(super) fn halt(&self, halted: bool) {
        if let Some(scraping) = &self.scraping {
            scraping.is_halted.store(halted, Ordering::Relaxed);
        }
        self.process.halt(halted);
    }

    /// Asks it to end, and waits.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.process.end()
    }
}

/// The recorder's file in its folder.
pub(super) fn recording(folder: &Path) -> PathBuf {
    folder.join("bench.rec")
}

/// Bytes below a folder.
pub(super) fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?)
}

/// What Prometheus would do: a page a second.
struct Scraping {
    task: JoinHandle<()>,
    is_halted: Arc<AtomicBool>,
    scraped: Arc<AtomicU64>,
}

impl Scraping {
    fn new(address: SocketAddr) -> Self {
        let (is_halted, scraped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (halted, count) = (is_halted.clone(), scraped.clone());
        let task = tokio::spawn(async move {
            let mut due = tokio::time::interval(SCRAPE_EVERY);
            due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                due.tick().await;
                if !halted.load(Ordering::Relaxed) && scrape(address).await.is_ok_and(|bytes| bytes > 10_000)
                {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { task, is_halted, scraped }
    }
}

impl Drop for Scraping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the page once: its bytes.
async fn scrape(address: SocketAddr) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut page = Vec::new();
    Ok(stream.read_to_end(&mut page).await?)
}
