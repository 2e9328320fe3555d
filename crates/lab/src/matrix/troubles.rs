//! What a server of the matrix has to do, or suffers from, while it is looked at.

use std::time::{Duration, Instant};

use crate::draw::Protocol;
use crate::error::{Error, Result};
use crate::load::Tables;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::Server;

/// The tables that they work on.
pub(super) const TABLES: Tables = Tables { count: 1, rows: 10_000 };
/// Sessions that wait in a pile-up.
const WAITERS: u64 = 8;
/// The statement that takes most of the time of [`Trouble::Texts`] and [`Trouble::Prepared`].
const PLANTED: &str = "SELECT COUNT(*) FROM sbtest1 WHERE pad LIKE '%planted%'";

/// How long sessions may take to gather on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often they are looked for.
const EVERY: Duration = Duration::from_millis(50);

/// What the server has to do, or suffers from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Some clients with little to do, half of them with prepared statements.
    Healthy,
    /// Clients that read a whole table again and again, sent as texts.
    Texts,
    /// The same, prepared.
    Prepared,
    /// Clients that ask for rows as fast as they can.
    Loaded,
    /// A session that idles in its transaction has changed a row that others want to change.
    Row,
    /// A session that idles in its transaction has read a table, an ALTER TABLE waits for it, readers for that.
    Metadata,
    /// A session has run FLUSH TABLES WITH READ LOCK, and others want to write.
    Global,
    /// The recorder has seen a calm server and then [`Self::Row`], which has ended.
    Recorded,
}

impl Trouble {
    /// In the order in which they are made on a server.
    pub(super) const ALL: [Self; 8] = [
        Self::Healthy,
        Self::Texts,
        Self::Prepared,
        Self::Loaded,
        Self::Row,
        Self::Metadata,
        Self::Global,
        Self::Recorded,
    ];

    /// In a phrase.
    pub(super) fn says(self) -> &'static str {
        match self {
            Self::Healthy => "little to do",
            Self::Texts => "a statement that reads a whole table, as text",
            Self::Prepared => "a statement that reads a whole table, prepared",
            Self::Loaded => "clients that ask for rows",
            Self::Row => "a row lock that others wait for",
            Self::Metadata => "a metadata lock that others wait for",
            Self::Global => "a global lock that others wait for",
            Self::Recorded => "a recording with a row lock that others waited for",
        }
    }

    /// Makes it; who holds the lock that the others wait for. Returns when the server's own lists show that they wait.
    pub(super) async fn begin(self, server: &Server, sessions: &mut Sessions) -> Result<Option<u64>> {
        match self {
            Self::Healthy => healthy(server, sessions).await?,
            Self::Texts | Self::Prepared => {
                let protocol = if self == Self::Texts { Protocol::Text } else { Protocol::Prepared };
                for _ in 0..2 {
                    let pause = Duration::from_millis(10);
                    sessions.repeat_by(server, PLANTED.into(), pause, protocol).await?;
                }
            }
            Self::Loaded => {
                for id in 1..=4 {
                    sessions.repeat(server, format!("SELECT c FROM sbtest1 WHERE id = {id}")).await?;
                }
            }
            Self::Row | Self::Recorded => {
                const CHANGE: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
                let holder = sessions.hold(server, &["BEGIN", CHANGE]).await?;
                for _ in 0..WAITERS {
                    sessions.repeat(server, CHANGE.into()).await?;
                }
                self.gathers(server, WAITERS).await?;
                return Ok(Some(holder));
            }
            Self::Metadata => {
                const READ: &str = "SELECT c FROM sbtest1 WHERE id = 1";
                let holder = sessions.hold(server, &["BEGIN", READ]).await?;
                sessions.repeat(server, "ALTER TABLE sbtest1 ADD COLUMN note INT".into()).await?;
                self.gathers(server, 1).await?;
                for _ in 1..WAITERS {
                    sessions.repeat(server, READ.into()).await?;
                }
                self.gathers(server, WAITERS).await?;
                return Ok(Some(holder));
            }
            Self::Global => {
                let holder = sessions.hold_as(server, "root", &["FLUSH TABLES WITH READ LOCK"]).await?;
                for id in 1..=WAITERS {
                    sessions.repeat(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {id}")).await?;
                }
                self.gathers(server, WAITERS).await?;
                return Ok(Some(holder));
            }
        }
        Ok(None)
    }

    /// Returns when so many sessions wait, by the server's own lists.
    async fn gathers(self, server: &Server, wanted: u64) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let states: &[&str] = match self {
                Self::Metadata => &["Waiting for table metadata lock"],
                Self::Global => &["Waiting for global read lock", "Waiting for backup lock"],
                _ => &[],
            };
            let mut waiting = 0;
            for state in states {
                waiting += symptom::sessions_in_state(server, state).await?;
            }
            if states.is_empty() {
                const WAITING: &str =
                    "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
                waiting = symptom::number(server, WAITING).await?;
            }
            if waiting >= wanted {
                return Ok(());
            }
            // InnoDB shows the same transactions again to those who come back within 100 ms.
            tokio::time::sleep(3 * EVERY).await;
        }
        Err(Error::NoSymptom { scenario: self.says(), seconds: PATIENCE.as_secs() })
    }
}

/// Some clients of each protocol that read and change a row now and then, and one that comes and goes.
async fn healthy(server: &Server, sessions: &mut Sessions) -> Result<()> {
    let mut id = 100;
    for protocol in [Protocol::Text, Protocol::Prepared] {
        for _ in 0..2 {
            id += 1;
            let read = format!("SELECT c FROM sbtest1 WHERE id = {id}");
            sessions.repeat_by(server, read, Duration::from_millis(40), protocol).await?;
        }
        let change = format!("UPDATE sbtest1 SET c = 'changed' WHERE id = {id}");
        sessions.repeat_by(server, change, Duration::from_millis(100), protocol).await?;
    }
    sessions.come_and_go(server, Duration::from_millis(100));
    Ok(())
}
