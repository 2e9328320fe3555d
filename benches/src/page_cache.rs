//! The time of `spindoctor cache` with many files, and of evicting logs from the page cache.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use spindoctor_lab::{Data, Server, ServerSpec};

use crate::page::Row;
use crate::paired::{Interval, Spread, short};
use crate::{Bench, Benchmark, progress};

/// Tables of the server.
const FILES: usize = 10_000;
/// Bytes of each.
const FILE_BYTES: usize = 16 << 10;
/// Files in a schema.
const PER_SCHEMA: usize = 1_000;
/// Binary logs that are read into the page cache before they are taken out.
const LOGS: usize = 16;
/// Bytes of each.
const LOG_BYTES: usize = 64 << 20;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "page-cache",
    of: &["crates/collect/src/host/page_cache", "crates/spindoctor/src/cache"],
    minutes: 3,
    story: "A MySQL on a disk, with 10,000 files of 16 KiB in ten schemas of its data directory: `spindoctor cache --json` \
            from start to exit, of which it watches 0.5 s for rates, and the look at all files alone. Then 1 GiB of closed \
            binary logs in 16 files, all of it in the page cache: `cache --evict logs`, the time in which they are taken out, \
            beside `vmtouch -e` of the same files from start to exit, in turns, each after they were read again; and the \
            whole command beside it.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let options = ["--log-bin=binlog", "--sync-binlog=1"].map(str::to_owned).into();
    let spec = ServerSpec { data: Data::Disk, options, ..ServerSpec::default() };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    make_tables(server.data())?;
    let socket = server.socket().display().to_string();
    let look = ["cache", "--json", "--no-defaults", "-u", "root", "-S", &socket];
    let evict = ["cache", "--json", "--evict", "logs", "--no-defaults", "-u", "root", "-S", &socket];

    let (mut whole, mut alone, mut files) = (Vec::new(), Vec::new(), 0);
    for round in 1..=bench.runs {
        progress(&format!("page-cache: look {round} of {}", bench.runs));
        let ran = bench.spindoctor.run(&look).await?;
        files = ran.json["files"].as_array().map_or(0, Vec::len);
        ensure!(files >= FILES, "it saw {files} files");
        whole.push(ran.took.as_secs_f64() * 1e3);
        alone.push(ran.number("/look_ms")?);
    }

    let logs = make_logs(&server).await?;
    let (mut out, mut command, mut peer, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=bench.runs {
        progress(&format!("page-cache: eviction {round} of {}", bench.runs));
        warm(&logs)?;
        let begun = Instant::now();
        let evicted = Command::new("vmtouch").arg("-e").args(&logs).stdout(Stdio::null()).status();
        ensure!(evicted.context("vmtouch could not be run")?.success(), "vmtouch failed");
        let peer_ms = begun.elapsed().as_secs_f64() * 1e3;
        warm(&logs)?;
        let ran = bench.spindoctor.run(&evict).await?;
        let took_ms = ran.number("/eviction/took_ms")?;
        ensure!(cached_bytes(&ran.json, &logs) == Some(0), "logs are left in the page cache");
        out.push(took_ms);
        command.push(ran.took.as_secs_f64() * 1e3);
        peer.push(peer_ms);
        ratios.push(took_ms / peer_ms);
    }
    server.stop()?;

    let (whole, alone) = (Spread::from_values(&whole), Spread::from_values(&alone));
    let ratio = Spread::from_values(&ratios);
    let interval = Interval::from_values(&ratios).map_or(String::new(), |interval| {
        format!(", 95 % {} to {}", short(interval.low), short(interval.high))
    });
    Ok(vec![
        Row::plain("files", files.to_string()),
        Row::goal("`spindoctor cache`", whole.text("ms"), "<= 1 s", whole.median <= 1_000.0),
        Row::plain("the look at all files", alone.text("ms")),
        Row::plain("`cache --evict logs` takes out 1 GiB", Spread::from_values(&out).text("ms"))
            .beside(format!("vmtouch: {} ms", short(Spread::from_values(&peer).median)), 1.0 / ratio.median),
        Row::plain("`vmtouch -e` takes out 1 GiB", Spread::from_values(&peer).text("ms")),
        Row::goal(
            "`cache --evict logs` / `vmtouch -e`",
            format!("{}{interval}", ratio.text("times")),
            "<= 1",
            ratio.median <= 1.0,
        ),
        Row::plain(
            "the whole command, rates and both looks included",
            Spread::from_values(&command).text("ms"),
        ),
    ])
}

/// Files as tables have them. The server knows nothing of them and opens none; the look counts them all the same.
fn make_tables(data: &Path) -> anyhow::Result<()> {
    let content = vec![b'x'; FILE_BYTES];
    for at in 0..FILES {
        let schema = data.join(format!("bench{}", at / PER_SCHEMA));
        if at % PER_SCHEMA == 0 {
            fs::create_dir(&schema)?;
        }
        fs::write(schema.join(format!("t{at}.ibd")), &content)?;
    }
    Ok(())
}

/// Fills closed binary logs: the server's own, made longer behind its back, as it reads none of them again.
async fn make_logs(server: &Server) -> anyhow::Result<Vec<PathBuf>> {
    server.execute((0..LOGS).map(|_| "FLUSH BINARY LOGS")).await?;
    let entries = fs::read_dir(server.data())?.flatten().map(|entry| entry.path());
    let mut logs: Vec<PathBuf> = entries
        .filter(|path| path.file_stem().is_some_and(|stem| stem == "binlog"))
        .filter(|path| path.extension().is_some_and(|number| number != "index"))
        .collect();
    logs.sort();
    // The last one is written.
    logs.pop();
    let content = vec![b'x'; LOG_BYTES];
    for log in &logs {
        let mut file = File::options().append(true).open(log)?;
        file.write_all(&content)?;
        // Pages that are to be written yet do not leave.
        file.sync_all()?;
    }
    Ok(logs)
}

/// Reads files into the page cache.
fn warm(files: &[PathBuf]) -> anyhow::Result<()> {
    for file in files {
        std::io::copy(&mut File::open(file)?, &mut std::io::sink())?;
    }
    Ok(())
}

/// What is left of these files in the page cache, as the report has it.
fn cached_bytes(report: &Value, logs: &[PathBuf]) -> Option<u64> {
    let files = report["files"].as_array()?;
    let of = |log: &PathBuf| {
        let is_log = |file: &&Value| {
            Path::new(file["path"].as_str().unwrap_or_default()).file_name() == log.file_name()
        };
        let file = files.iter().find(is_log)?;
        file["cached_bytes"].as_u64()
    };
    logs.iter().map(of).sum()
}
