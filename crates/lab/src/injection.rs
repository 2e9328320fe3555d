//! Stalls of a given length at a given moment, each labelled with the cause that should be named.
//!
//! What a scenario is to the diagnosis, an injection is to the recorder: a server under load stands still for some
//! hundred milliseconds, and the moments are known.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use mysql_async::prelude::Queryable;

use crate::error::{Error, Result};
use crate::server::Server;

/// A way to make a server under load stand still for a while.
#[derive(Debug)]
pub struct Injection {
    /// What it is called.
    pub name: &'static str,
    /// The cause that should be named.
    pub label: &'static str,
    /// What is done, in a sentence.
    pub story: &'static str,
    make: Make,
}

type Make = for<'a> fn(&'a Server, Duration) -> Pin<Box<dyn Future<Output = Result<Injected>> + 'a>>;

/// A stall that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injected {
    /// When it was asked for: statements may stand from here on.
    pub asked: Timestamp,
    /// When it had taken hold: from here on they do.
    pub held: Timestamp,
    /// When it was let go.
    pub ended: Timestamp,
}

/// Every injection. The load is sysbench's on `sbtest`; those with locks need one that writes.
pub const INJECTIONS: &[&Injection] = &[
    &Injection {
        name: "read-lock",
        label: "global-lock-pileup",
        story: "A session holds FLUSH TABLES WITH READ LOCK: all that write wait.",
        make: |server, lasts| Box::pin(hold(server, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", lasts)),
    },
    &Injection {
        name: "table-rows",
        label: "row-lock-pileup",
        story: "A transaction has locked the rows of sbtest.sbtest1: all that change one wait.",
        make: |server, lasts| Box::pin(hold_rows(server, lasts)),
    },
    &Injection {
        name: "stopped",
        label: "server-stopped",
        story: "SIGSTOP holds the server's process, then SIGCONT lets it go on.",
        make: |server, lasts| Box::pin(stop(server, lasts)),
    },
];

impl Injection {
    /// Makes the stall, and returns when it is over.
    ///
    /// # Errors
    /// There is no session to be had, or a statement fails. The server goes on in any case.
    pub async fn make(&self, server: &Server, lasts: Duration) -> Result<Injected> {
        (self.make)(server, lasts).await
    }
}

/// The injection of this name.
pub fn find(name: &str) -> Option<&'static Injection> {
    INJECTIONS.iter().find(|injection| injection.name == name).copied()
}

/// A lock of a session's, taken and given back by statements. The lock goes with the session, however that ends.
async fn hold(server: &Server, take: &str, give_back: &str, lasts: Duration) -> Result<Injected> {
    let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
    let asked = Timestamp::now();
    conn.query_drop(take).await.map_err(Error::statement(take))?;
    let held = Timestamp::now();
    tokio::time::sleep(lasts).await;
    conn.query_drop(give_back).await.map_err(Error::statement(give_back))?;
    let ended = Timestamp::now();
    let _closed = conn.disconnect().await;
    Ok(Injected { asked, held, ended })
}

async fn hold_rows(server: &Server, lasts: Duration) -> Result<Injected> {
    const BEGIN: &str = "BEGIN";
    // Nothing is sent to the client: the count of rows is enough to lock them.
    const TAKE: &str = "SELECT COUNT(*) FROM sbtest.sbtest1 FORCE INDEX (PRIMARY) WHERE id > 0 FOR UPDATE";
    const GIVE_BACK: &str = "ROLLBACK";
    let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
    conn.query_drop(BEGIN).await.map_err(Error::statement(BEGIN))?;
    let asked = Timestamp::now();
    conn.query_drop(TAKE).await.map_err(Error::statement(TAKE))?;
    let held = Timestamp::now();
    tokio::time::sleep(lasts).await;
    conn.query_drop(GIVE_BACK).await.map_err(Error::statement(GIVE_BACK))?;
    let ended = Timestamp::now();
    let _closed = conn.disconnect().await;
    Ok(Injected { asked, held, ended })
}

async fn stop(server: &Server, lasts: Duration) -> Result<Injected> {
    let asked = Timestamp::now();
    let paused = Paused::now(server);
    let held = Timestamp::now();
    tokio::time::sleep(lasts).await;
    drop(paused);
    Ok(Injected { asked, held, ended: Timestamp::now() })
}

/// A process that stands still until this is dropped, also where the stall is cancelled.
struct Paused<'a>(&'a Server);

impl<'a> Paused<'a> {
    fn now(server: &'a Server) -> Self {
        server.pause(true);
        Self(server)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.pause(false);
    }
}
