//! Clients of the lab's own, at a steady pace, that remember when they had to wait: they show when a stall really was.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

use crate::error::{Error, Result};
use crate::server::Server;

/// A statement that took this long had to wait: each of these takes milliseconds, and a machine full of other work holds
/// one up for a tenth of a second now and then.
const FELT: Duration = Duration::from_millis(200);

/// Clients of `app` that go on until this is dropped.
#[derive(Debug)]
pub(crate) struct Clients {
    _tasks: JoinSet<()>,
    waits: Arc<Mutex<Vec<Wait>>>,
}

/// A statement that had to wait.
#[derive(Debug, Clone, Copy)]
struct Wait {
    began: Timestamp,
    ended: Timestamp,
}

impl Clients {
    /// Starts so many, which together send so many statements a second: each comes after a time of chance, so that they do
    /// not march in step.
    pub(crate) async fn start(
        server: &Server,
        clients: u32,
        per_s: f64,
        statement: fn(&mut Rng) -> String,
    ) -> Result<Self> {
        let waits = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let mean_s = f64::from(clients) / per_s;
        for _ in 0..clients {
            let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
            let waits = Arc::clone(&waits);
            tasks.spawn(async move {
                let mut rng = Rng::new();
                loop {
                    let pause_s = -mean_s * (1.0 - rng.f64()).ln();
                    tokio::time::sleep(Duration::from_secs_f64(pause_s)).await;
                    let (began, begun) = (Timestamp::now(), Instant::now());
                    if conn.query_drop(statement(&mut rng)).await.is_err() && conn.ping().await.is_err() {
                        return;
                    }
                    if begun.elapsed() >= FELT {
                        let wait = Wait { began, ended: Timestamp::now() };
                        waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
                    }
                }
            });
        }
        Ok(Self { _tasks: tasks, waits })
    }

    /// When one of them first had to wait after this instant; none where nobody had to. A statement that has not ended yet
    /// does not count.
    pub(crate) fn felt_since(&self, since: Timestamp) -> Option<Timestamp> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.iter().filter(|wait| wait.ended > since).map(|wait| wait.began.max(since)).min()
    }
}
