//! Other work that a server does meanwhile: clients that sum up some thousand rows of a table that nobody locks.

use std::time::Duration;

use fastrand::Rng;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

use super::stopwatch::Stopwatch;
use crate::error::{Error, Result};
use crate::server::Server;

/// The last of sysbench's tables: scenarios lock rows of the first ones.
const STATEMENT: &str = "SELECT SUM(k) FROM sbtest4 WHERE id BETWEEN ";
/// Rows that a statement reads: about a millisecond of a CPU.
const ROWS: u32 = 4_000;

/// How heavy the load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Clients.
    pub clients: u32,
    /// How long each client pauses between two statements, on average.
    pub pause: Duration,
}

/// Clients that go on until this is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    _clients: JoinSet<()>,
    statements: Stopwatch,
}

impl Background {
    /// Starts the clients, on tables of so many rows.
    pub(crate) async fn start(server: &Server, beside: Beside, rows: u32) -> Result<Self> {
        let statements = Stopwatch::default();
        let mut tasks = JoinSet::new();
        let prepared = server.draw().is_prepared();
        for _ in 0..beside.clients {
            let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
            let statements = statements.clone();
            tasks.spawn(async move {
                let mut rng = Rng::new();
                loop {
                    let from = rng.u32(1..=rows.saturating_sub(ROWS).max(1));
                    let to = from + ROWS;
                    let answer = match prepared {
                        true => {
                            let statement = format!("{STATEMENT}? AND ?");
                            statements.time(conn.exec_drop(statement, (from, to))).await
                        }
                        false => {
                            statements.time(conn.query_drop(format!("{STATEMENT}{from} AND {to}"))).await
                        }
                    };
                    if answer.is_err() && conn.ping().await.is_err() {
                        return;
                    }
                    if !beside.pause.is_zero() {
                        tokio::time::sleep(beside.pause.mul_f64(-(1.0 - rng.f64()).ln())).await;
                    }
                }
            });
        }
        Ok(Self { _clients: tasks, statements })
    }

    /// Time that their statements took so far, seconds.
    pub(crate) fn busy_s(&self) -> f64 {
        self.statements.seconds()
    }
}
