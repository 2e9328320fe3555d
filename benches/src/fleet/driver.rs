//! The same queries with the driver that the lab uses (mysql_async), as a program of a few lines would send them: the
//! gain of our own protocol client.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, OptsBuilder, Row, SslOpts};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// What `fleet query` has each session set before it asks, shortened.
const READ_ONLY: &str = "SET SESSION transaction_read_only = 1";
/// It gets the parameters that it would ask for itself.
const MAX_ALLOWED_PACKET_BYTES: usize = 64 << 20;
const WAIT_TIMEOUT_S: usize = 28_800;
/// `--connections` where none is given.
const AT_ONCE: usize = 1000;
/// One of the names in the stub servers' certificate (`stub/certificate.rs` of the lab).
const NAME_IN_CERTIFICATE: &str = "localhost";

/// Asks each of these servers for its rows, all at once on one thread, and keeps none.
pub(super) fn run(servers: Vec<Ipv4Addr>, port: u16) -> anyhow::Result<Duration> {
    timed(servers, &account(port))
}

/// The same with TLS, this authority (a file in PEM) and a password. The driver's verification of the authority alone refuses servers
/// that are called otherwise than their certificate, so each is verified by a name that is in it.
pub(super) fn run_with_tls(
    servers: Vec<Ipv4Addr>,
    port: u16,
    password: &str,
    authority: PathBuf,
) -> anyhow::Result<Duration> {
    let tls = SslOpts::default()
        .with_root_certs(vec![authority.into()])
        .with_disable_built_in_roots(true)
        .with_danger_tls_hostname_override(Some(NAME_IN_CERTIFICATE));
    timed(servers, &account(port).pass(Some(password)).ssl_opts(tls))
}

fn account(port: u16) -> OptsBuilder {
    OptsBuilder::default()
        .tcp_port(port)
        .user(Some("app"))
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_ALLOWED_PACKET_BYTES))
        .wait_timeout(Some(WAIT_TIMEOUT_S))
}

fn timed(servers: Vec<Ipv4Addr>, account: &OptsBuilder) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begun = Instant::now();
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        for server in servers {
            // The connector for TLS is made once: copies share it.
            let server = account.clone().ip_or_hostname(server.to_string());
            let places = places.clone();
            tasks.spawn(async move {
                let _place = places.acquire().await?;
                anyhow::Ok(one(server).await?)
            });
        }
        while let Some(done) = tasks.join_next().await {
            ensure!(done?? > 0, "a server answered without a row");
        }
        Ok(begun.elapsed())
    })
}

async fn one(server: OptsBuilder) -> mysql_async::Result<usize> {
    let mut conn = Conn::new(server).await?;
    conn.query_drop(READ_ONLY).await?;
    let rows: Vec<Row> = conn.query("SELECT 1").await?;
    conn.disconnect().await?;
    Ok(rows.len())
}
