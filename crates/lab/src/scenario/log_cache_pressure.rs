//! Binary logs that fill the memory that a server may use.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::log_cache_pressure::CAUSE;

use super::{Scenario, Suffering, symptom};
use crate::cgroup::Limits;
use crate::command;
use crate::error::{Error, Result};
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Data, Server, ServerSpec};

/// Three times as much as the buffer pool.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// Each update writes the row as it was and as it is.
const ROW_BYTES: u32 = 4 << 20;
/// Updates: together 400 MiB of binary log.
const UPDATES: u32 = 50;
/// Reads a second, far below what the server can do.
const RATE: u32 = 800;
/// Pages read from disk a second that show that the buffer pool is too small: a row in four is one that is rarely read.
const READS_PER_S: f64 = 40.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A server whose control group limits its memory has written 400 MiB of binary logs, which fill what the limit \
            leaves; 800 rows a second are read at random from tables three times as large as the buffer pool of 32 MiB. \
            Seen to suffer by fincore (a fifth of the memory holds binary logs, and less is free) and \
            Innodb_buffer_pool_reads.",
    needs: "root, for a memory limit; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

/// What the server needs for itself (MySQL 9.7 some 450 MiB, MariaDB 10.11 some 150), and less than 400 MiB beside it.
fn memory_bytes(flavor: Flavor) -> u64 {
    match flavor {
        Flavor::Mariadb => 448 << 20,
        _ => 832 << 20,
    }
}

fn spec(flavor: Flavor) -> ServerSpec {
    ServerSpec {
        data: Data::Disk,
        limits: Limits { memory_bytes: Some(memory_bytes(flavor)), ..Limits::default() },
        tables: Some(LARGE),
        options: [
            "--innodb-buffer-pool-size=32M",
            "--log-bin=binlog",
            "--loose-binlog-format=ROW",
            "--max-binlog-size=32M",
            "--sync-binlog=0",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    // Without transactions: what is written is the binary log and little else.
    let create = [
        "CREATE TABLE sbtest.wide (v LONGBLOB) ENGINE = MyISAM".to_owned(),
        format!("INSERT INTO sbtest.wide VALUES (REPEAT('a', {ROW_BYTES}))"),
    ];
    let updates = (0..UPDATES)
        .map(|at| format!("UPDATE sbtest.wide SET v = REPEAT(CHAR({}), {ROW_BYTES})", 98 + at % 20));
    server.execute(create.into_iter().chain(updates)).await?;
    let workload = Workload::OltpPointSelect;
    Suffering::by_load(server, LoadSpec { workload, threads: 4, rate: Some(RATE), tables: LARGE })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let (cached, free) = (cached_bytes(&binlogs(server)?)?, free_bytes(server)?);
    let [reads_per_s] = symptom::status_per_s(server, &["Innodb_buffer_pool_reads"]).await?[..] else {
        return Ok(None);
    };
    let suffers =
        cached >= memory_bytes(server.version().flavor) / 5 && free < cached && reads_per_s >= READS_PER_S;
    Ok(suffers.then(|| {
        format!(
            "{} MiB of binary logs cached, {} MiB free, {reads_per_s:.0} reads/s",
            cached >> 20,
            free >> 20
        )
    }))
}

fn binlogs(server: &Server) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(server.data()).map_err(Error::file("list", server.data()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.file_stem().is_some_and(|stem| stem == "binlog")).collect())
}

/// What the page cache holds of files, as util-linux shows it: a line with a number for each.
fn cached_bytes(files: &[PathBuf]) -> Result<u64> {
    let printed = command::run(
        Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES", "--"]).args(files),
    )?;
    Ok(printed.lines().filter_map(|line| line.trim().parse::<u64>().ok()).sum())
}

/// What the server's control group leaves of its memory; of version 2 or 1.
fn free_bytes(server: &Server) -> Result<u64> {
    let group = server.group().unwrap_or_else(|| "/".as_ref());
    let number = |files: [&str; 2]| -> Result<u64> {
        let path = files.map(|file| group.join(file)).into_iter().find(|path| path.exists());
        let path = path.unwrap_or_else(|| group.join(files[0]));
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        Ok(text.trim().parse().unwrap_or(u64::MAX))
    };
    let limit = number(["memory.max", "memory.limit_in_bytes"])?;
    Ok(limit.saturating_sub(number(["memory.current", "memory.usage_in_bytes"])?))
}
