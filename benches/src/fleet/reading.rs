//! What reading the bytes takes that servers send: no protocol is parsed, nothing is kept, nothing is written.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What is read at once.
const READ_BYTES: usize = 256 << 10;
/// A login that a stub server takes for one, and a statement.
const LOGIN: &[u8] = b"\x04\0\0\x01abcd";
const QUERY: &[u8] = b"\x09\0\0\0\x03SELECT 1";

/// Reads so many bytes of each of these servers' answers, all at once on one thread.
pub(super) fn of(servers: Vec<Ipv4Addr>, port: u16, bytes: usize) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for server in servers {
            tasks.spawn(one(SocketAddr::new(server.into(), port), bytes));
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(begun.elapsed())
    })
}

async fn one(server: SocketAddr, bytes: usize) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    let mut buffer = vec![0; 512];
    ensure!(stream.read(&mut buffer).await? > 0, "a server ended before its greeting");
    stream.write_all(LOGIN).await?;
    ensure!(stream.read(&mut buffer).await? > 0, "a server refused the login");
    stream.write_all(QUERY).await?;
    buffer.resize(READ_BYTES, 0);
    let mut left = bytes;
    while left > 0 {
        let read = stream.read(&mut buffer).await.context("reading an answer")?;
        ensure!(read > 0, "an answer ended {left} bytes early");
        left = left.saturating_sub(read);
    }
    Ok(())
}
