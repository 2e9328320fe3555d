//! The runtime of commands that wait for a server.

use anyhow::Context as _;

/// Runs an asynchronous command to its end, on this thread alone: one connection needs no more.
pub fn wait_for<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?
        .block_on(work)
}
