//! Other work that a server does meanwhile: clients that sum up a thousand rows of a table that nobody locks, and measure how
//! long their statements take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

use crate::error::{Error, Result};
use crate::server::Server;

/// The last of sysbench's tables: scenarios lock rows of the first ones.
const STATEMENT: &str = "SELECT SUM(k) FROM sbtest4 WHERE id BETWEEN ";
/// Rows that a statement reads: about a millisecond of a CPU.
const ROWS: u32 = 4_000;

/// Clients that go on until this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    _clients: JoinSet<()>,
    /// How long their statements took so far, all together.
    busy_us: Arc<AtomicU64>,
}

impl Background {
    /// Starts so many clients. Each pauses so long between two statements, on average.
    pub(crate) async fn start(server: &Server, clients: u32, pause: Duration, rows: u32) -> Result<Self> {
        let busy_us = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let prepared = server.draw().is_prepared();
        for _ in 0..clients {
            let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
            let busy_us = Arc::clone(&busy_us);
            tasks.spawn(async move {
                let mut rng = Rng::new();
                loop {
                    let from = rng.u32(1..=rows.saturating_sub(ROWS).max(1));
                    let begun = Instant::now();
                    let answer = match prepared {
                        true => conn.exec_drop(format!("{STATEMENT}? AND ?"), (from, from + ROWS)).await,
                        false => conn.query_drop(format!("{STATEMENT}{from} AND {}", from + ROWS)).await,
                    };
                    busy_us.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
                    if answer.is_err() && conn.ping().await.is_err() {
                        return;
                    }
                    if !pause.is_zero() {
                        tokio::time::sleep(pause.mul_f64(-(1.0 - rng.f64()).ln())).await;
                    }
                }
            });
        }
        Ok(Self { _clients: tasks, busy_us })
    }

    /// Time that their statements took so far, seconds. A statement counts when it has ended.
    pub(crate) fn busy_s(&self) -> f64 {
        self.busy_us.load(Ordering::Relaxed) as f64 / 1e6
    }
}
