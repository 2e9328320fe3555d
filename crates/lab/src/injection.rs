//! Stalls of a given length at a given moment, each labelled with the cause that should be named.
//!
//! What a scenario is to the diagnosis, an injection is to the recorder: a server under load stalls for some
//! hundred milliseconds, and the moments are known.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use spindoctor_rules::causes;

use crate::error::{Error, Result};
use crate::server::Server;

/// A way to stall a server under load for a while.
#[derive(Debug)]
pub struct Injection {
    /// Its name.
    pub name: &'static str,
    /// The cause that should be named.
    pub label: &'static str,
    /// What the injection does, in a sentence.
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
        label: causes::global_lock_pileup::CAUSE.name,
        story: "A session holds FLUSH TABLES WITH READ LOCK: all that write wait.",
        make: |server, lasts| Box::pin(hold(server, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", lasts)),
    },
    &Injection {
        name: "table-rows",
        label: causes::row_lock_pileup::CAUSE.name,
        story: "A transaction has locked the rows of sbtest.sbtest1: all that change one wait.",
        make: |server, lasts| Box::pin(hold_rows(server, lasts)),
    },
    &Injection {
        name: "table-lock",
        label: causes::metadata_lock_pileup::CAUSE.name,
        story: "A session holds LOCK TABLES on sbtest.sbtest1: all that use it wait.",
        make: |server, lasts| {
            Box::pin(hold(server, "LOCK TABLES sbtest.sbtest1 WRITE", "UNLOCK TABLES", lasts))
        },
    },
    &Injection {
        name: "ddl",
        label: causes::metadata_lock_pileup::CAUSE.name,
        story: "An ALTER TABLE on sbtest.sbtest1 waits for a transaction that read it, and all others for the ALTER TABLE.",
        make: |server, lasts| Box::pin(hold_up_ddl(server, lasts)),
    },
    &Injection {
        name: "storage",
        label: causes::storage_stalled::CAUSE.name,
        story: "The disk hardly writes: commits wait for the log. Needs data on a disk, and a group for it.",
        make: |server, lasts| Box::pin(slow_disk(server, lasts)),
    },
    &Injection {
        name: "stopped",
        label: causes::server_stopped::CAUSE.name,
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

async fn hold_up_ddl(server: &Server, lasts: Duration) -> Result<Injected> {
    const READ: &str = "SELECT COUNT(*) FROM sbtest.sbtest1 WHERE id = 1";
    const ALTER: &str = "ALTER TABLE sbtest.sbtest1 COMMENT = 'altered'";
    let mut reader = server.connect().await.map_err(Error::statement("connect"))?;
    let mut ddl = server.connect().await.map_err(Error::statement("connect"))?;
    reader.query_drop("BEGIN").await.map_err(Error::statement("BEGIN"))?;
    reader.query_drop(READ).await.map_err(Error::statement(READ))?;
    let asked = Timestamp::now();
    let held_up = async {
        tokio::time::sleep(lasts).await;
        reader.query_drop("COMMIT").await.map_err(Error::statement("COMMIT"))
    };
    let altered = async { ddl.query_drop(ALTER).await.map_err(Error::statement(ALTER)) };
    tokio::try_join!(held_up, altered)?;
    let ended = Timestamp::now();
    for conn in [reader, ddl] {
        let _closed = conn.disconnect().await;
    }
    // The ALTER TABLE waits from the moment it is read.
    Ok(Injected { asked, held: asked, ended })
}

async fn slow_disk(server: &Server, lasts: Duration) -> Result<Injected> {
    /// The smallest value that the kernel takes.
    const WRITES_PER_S: u32 = 1;
    let asked = Timestamp::now();
    server.limit_writes(Some(WRITES_PER_S))?;
    let held = Timestamp::now();
    tokio::time::sleep(lasts).await;
    server.limit_writes(None)?;
    Ok(Injected { asked, held, ended: Timestamp::now() })
}

async fn stop(server: &Server, lasts: Duration) -> Result<Injected> {
    let asked = Timestamp::now();
    let paused = Paused::now(server);
    let held = Timestamp::now();
    tokio::time::sleep(lasts).await;
    drop(paused);
    Ok(Injected { asked, held, ended: Timestamp::now() })
}

/// A process that is stopped until this is dropped, also where the stall is cancelled.
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
