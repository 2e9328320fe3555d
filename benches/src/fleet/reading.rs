//! The time of reading the servers' bytes, in a program of its own: no protocol is parsed, nothing is kept, nothing is
//! written.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use spindoctor_lab::stub::addresses;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What is read at once.
const READ_BYTES: usize = 256 << 10;
/// A login that a stub server takes for one, and a statement.
const LOGIN: &[u8] = b"\x04\0\0\x01abcd";
const QUERY: &[u8] = b"\x09\0\0\0\x03SELECT 1";

thread_local! {
    static LANDING: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Reads so many bytes of each of so many servers' answers, all at once on one thread.
pub(crate) fn run(servers: u32, port: u16, bytes: usize) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for server in addresses(servers) {
            tasks.spawn(one(SocketAddr::new(server.into(), port), bytes));
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    })
}

async fn one(server: SocketAddr, bytes: usize) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    ensure!(read(&stream).await? > 0, "a server ended before its greeting");
    stream.write_all(LOGIN).await?;
    ensure!(read(&stream).await? > 0, "a server refused the login");
    stream.write_all(QUERY).await?;
    let mut left = bytes;
    while left > 0 {
        let read = read(&stream).await.context("reading an answer")?;
        ensure!(read > 0, "an answer ended {left} bytes early");
        left = left.saturating_sub(read);
    }
    Ok(())
}

/// Reads once, into the one buffer that there is.
async fn read(stream: &TcpStream) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match LANDING.with_borrow_mut(|landing| stream.try_read(landing)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}
