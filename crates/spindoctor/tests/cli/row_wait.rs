//! Sessions that wait for a row, behind one that keeps it.

use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::task::JoinHandle;

/// How long a machine that has other work may take until all of them wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// InnoDB shows the same transactions again to those who come back within 100 ms.
const LOOKS_EVERY: Duration = Duration::from_millis(150);

/// One session that keeps a row, and those that wait for it. They end with their server at the latest.
pub(crate) struct RowWait {
    pub(crate) holder: Conn,
    waiters: Vec<JoinHandle<mysql_async::Result<()>>>,
}

impl RowWait {
    /// Makes the sessions, the first of which runs what keeps the row, and each of the others one of the statements that wait for
    /// it; returns when `root`, who may see them, is shown that all of these wait.
    pub(crate) async fn begin(
        mut root: Conn,
        connect: impl AsyncFn() -> Conn,
        keeps: &[&str],
        wait: &[String],
    ) -> Self {
        const WAITING: &str =
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
        let mut holder = connect().await;
        for statement in keeps {
            let kept = holder.query_drop(*statement).await;
            kept.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let mut waiters = Vec::new();
        for statement in wait.iter().cloned() {
            let mut waiter = connect().await;
            waiters.push(tokio::spawn(async move { waiter.query_drop(statement).await }));
        }
        let begun = Instant::now();
        loop {
            let waiting: Option<u64> = root.query_first(WAITING).await.expect("root may see transactions");
            if waiting == Some(wait.len() as u64) {
                let _closed = root.disconnect().await;
                return Self { holder, waiters };
            }
            assert!(begun.elapsed() < PATIENCE, "{waiting:?} of {} sessions wait for the row", wait.len());
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    /// Lets go of the row, which all of them then get in turn.
    pub(crate) async fn end(mut self) {
        self.holder.query_drop("ROLLBACK").await.expect("it may be rolled back");
        for waiter in self.waiters {
            waiter.await.expect("the session goes on").expect("it got the row");
        }
    }
}
