//! The cost of `workload` for a server with many connections, and how near its shares are to the server's own.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use crate::counter::Counter;
use crate::page::Row;
use crate::paired::short;
use crate::throughput::{Looker, lost_to};
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
const BUSY: u32 = 256;
const CONNECTIONS: u32 = 1_000;
/// How long the shares are compared.
const COMPARED: &str = "60s";
/// What a share may be off, points.
const POINTS: f64 = 3.0;
/// Clients of the load whose shares are compared: of kinds that take very different times.
const COMPARED_CLIENTS: u32 = 16;

const LOOKER: Looker = Looker {
    name: "`workload --hz 10`",
    arguments: Some(&["workload", "--hz", "10", "--duration", "1h", "--json"]),
    goal_ratio: Some(0.01),
    least_snapshots: None,
    quads: 8,
};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "workload",
    of: &["crates/collect", "crates/sql", "crates/statements", "crates/spindoctor/src/workload"],
    minutes: 5,
    story: "The cost: a MySQL with 1,000 connections, of which 256 are clients of sysbench's oltp_point_select and \
            the others rest; windows of 0.4 s with and without `workload` in quads, as in `throughput`; 96 quads \
            with twelve runs. The shares: 16 clients of sysbench's oltp_read_write for 60 s; the share of each \
            digest's time that `workload` shows, against that of performance_schema's own summary of the same time \
            (events_statements_summary_by_digest); the largest difference of all digests stands here.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec {
        tables: Some(TABLES),
        options: vec![format!("--max-connections={}", CONNECTIONS + 100)],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let mut resting: Vec<Conn> = Vec::new();
    for _ in BUSY..CONNECTIONS {
        resting.push(server.connect_as("app").await?);
    }
    let spec = |workload, threads| LoadSpec { workload, threads, rate: None, tables: TABLES };
    let mut load = Load::start(server.socket(), spec(Workload::OltpPointSelect, BUSY))?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut counter = Counter::start(&server, "Com_select").await?;
    let mut rows = lost_to(bench, &LOOKER, &server, &mut load, &mut counter).await?;
    let looked = look(bench, &server, "10s").await?;
    let looks = looked.number("/samples")? / looked.number("/seconds")?.max(1.0);
    rows.push(Row::plain("its looks", format!("{} a second", short(looks))));
    load.stop().await;

    let mut load = Load::start(server.socket(), spec(Workload::OltpReadWrite, COMPARED_CLIENTS))?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = times(&mut counter.conn).await?;
    let looked = look(bench, &server, COMPARED).await?;
    let after = times(&mut counter.conn).await?;
    load.check()?;
    load.stop().await;
    let (points, digest) = largest_difference(&looked.json, &before, &after)?;
    rows.push(Row::goal(
        "largest difference of a digest's share",
        format!("{} points ({digest})", short(points)),
        format!("<= {POINTS:.0} points"),
        points <= POINTS,
    ));
    drop(counter);
    drop(resting);
    server.stop()?;
    Ok(rows)
}

async fn look(bench: &Bench, server: &Server, duration: &str) -> anyhow::Result<crate::program::Ran> {
    let socket = server.socket().display().to_string();
    bench
        .spindoctor
        .run(&["workload", "--duration", duration, "--json", "--no-defaults", "-u", "root", "-S", &socket])
        .await
}

/// The time of each digest of the load so far, by its key.
async fn times(conn: &mut Conn) -> anyhow::Result<HashMap<String, f64>> {
    let rows: Vec<(Option<String>, f64)> = conn
        .query(
            "SELECT DIGEST_TEXT, CAST(SUM_TIMER_WAIT AS DOUBLE) \
             FROM performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME = 'sbtest'",
        )
        .await?;
    let mut times = HashMap::new();
    for (text, time) in rows {
        *times.entry(key(&text.unwrap_or_default())).or_default() += time;
    }
    Ok(times)
}

/// In points, and of which digest.
fn largest_difference(
    looked: &Value,
    before: &HashMap<String, f64>,
    after: &HashMap<String, f64>,
) -> anyhow::Result<(f64, String)> {
    let grown: HashMap<&String, f64> =
        after.iter().map(|(key, time)| (key, time - before.get(key).unwrap_or(&0.0))).collect();
    let all: f64 = grown.values().sum();
    let groups = looked["groups"].as_array().context("spindoctor printed no groups")?;
    let mut line: HashMap<String, f64> = HashMap::new();
    for group in groups.iter().filter(|group| group["by"] == "digest") {
        let text = group["key"].as_str().unwrap_or_default();
        *line.entry(key(text)).or_default() += group["share"].as_f64().unwrap_or(0.0);
    }
    let keys = grown.keys().copied().chain(line.keys());
    let difference = |key: &String| {
        let of_server = grown.get(key).copied().unwrap_or(0.0) / all;
        (100.0 * (line.get(key).copied().unwrap_or(0.0) - of_server).abs(), key.clone())
    };
    keys.map(difference).max_by(|a, b| a.0.total_cmp(&b.0)).context("no statement was seen")
}

/// What the server's digest and a text without literals have in common: the server quotes names, puts blanks where it
/// likes, says DISTINCTROW for DISTINCT, and from MySQL 9 on names a prepared statement's execution as such.
fn key(text: &str) -> String {
    let text =
        text.strip_prefix("EXECUTE ").unwrap_or(text).to_lowercase().replace("distinctrow", "distinct");
    text.chars().filter(|c| !c.is_whitespace() && *c != '`' && *c != ';').collect()
}
