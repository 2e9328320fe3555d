//! The same queries with the driver that the lab uses (mysql_async), as a program of a few lines would send them: the
//! gain of our own protocol client.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, OptsBuilder, Row};
use tokio::task::JoinSet;

/// What `fleet query` has each session set before it asks, shortened.
const READ_ONLY: &str = "SET SESSION transaction_read_only = 1";
/// It gets the parameters that it would ask for itself.
const MAX_ALLOWED_PACKET_BYTES: usize = 64 << 20;
const WAIT_TIMEOUT_S: usize = 28_800;

/// Asks each of these servers for its rows, all at once on one thread, and keeps none.
pub(super) fn run(servers: Vec<Ipv4Addr>, port: u16) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for server in servers {
            tasks.spawn(one(server, port));
        }
        while let Some(done) = tasks.join_next().await {
            ensure!(done?? > 0, "a server answered without a row");
        }
        Ok(begun.elapsed())
    })
}

async fn one(server: Ipv4Addr, port: u16) -> mysql_async::Result<usize> {
    let opts = OptsBuilder::default()
        .ip_or_hostname(server.to_string())
        .tcp_port(port)
        .user(Some("app"))
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_ALLOWED_PACKET_BYTES))
        .wait_timeout(Some(WAIT_TIMEOUT_S));
    let mut conn = Conn::new(Opts::from(opts)).await?;
    conn.query_drop(READ_ONLY).await?;
    let rows: Vec<Row> = conn.query("SELECT 1").await?;
    conn.disconnect().await?;
    Ok(rows.len())
}
