//! Single sessions: those that hold a lock, those that wait for it, and clients that are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::task::JoinSet;

use super::stopwatch::Stopwatch;
use crate::draw::Protocol;
use crate::error::{Error, Result};
use crate::server::Server;

/// `ER_CON_COUNT_ERROR`: too many connections.
const TOO_MANY_CONNECTIONS: u16 = 1040;

/// `ER_USER_LIMIT_REACHED`: the account has as many connections as it may have.
const USER_LIMIT_REACHED: u16 = 1226;

/// `ER_LOCK_DEADLOCK`: a deadlock's victim.
const DEADLOCK: u16 = 1213;

/// `ER_UNSUPPORTED_PS`: a statement that cannot be prepared.
const NOT_PREPARED: u16 = 1295;

/// `ER_MAX_PREPARED_STMT_COUNT_REACHED`: the server holds as many prepared statements as it may.
const TOO_MANY_PREPARED: u16 = 1461;

/// `ER_OPTION_PREVENTS_STATEMENT`, the server is read-only; `ER_UNKNOWN_COM_ERROR`, a node of Galera is outside of its cluster.
const SERVES_NOBODY: [u16; 2] = [1290, 1047];

const CHURN: &str = "CALL churn()";

/// Makes the procedure that runs a statement over and over.
pub(crate) async fn make_churn(server: &Server, statement: &str) -> Result<()> {
    let procedure = format!(
        "CREATE PROCEDURE sbtest.churn() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
         LOOP {statement}; END LOOP; END"
    );
    server.execute([procedure]).await
}

/// Sends a statement as text, or prepares it where it can be.
async fn send(conn: &mut Conn, statement: &str, prepared: bool) -> mysql_async::Result<()> {
    if prepared {
        match conn.exec_drop(statement, ()).await {
            Err(mysql_async::Error::Server(error)) if error.code == NOT_PREPARED => {}
            answer => return answer,
        }
    }
    conn.query_drop(statement).await
}

/// Sessions of `app` that are open until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    idle: Vec<Conn>,
    busy: JoinSet<()>,
    refused: Arc<AtomicU64>,
    deadlocks: Arc<AtomicU64>,
    /// Times the statements of those that repeat one.
    repeated: Stopwatch,
    /// Connections of those that run a statement once, and the time of these statements.
    once: Vec<u64>,
    single: Stopwatch,
    /// Servers that one of them needs beside its own.
    others: Vec<Server>,
}

impl Sessions {
    /// A session that has run these statements and then idles; its connection's id.
    pub(crate) async fn hold(&mut self, server: &Server, statements: &[&str]) -> Result<u64> {
        self.hold_as(server, "app", statements).await
    }

    /// The same as another user.
    pub(crate) async fn hold_as(&mut self, server: &Server, user: &str, statements: &[&str]) -> Result<u64> {
        let mut conn = server.connect_as(user).await.map_err(Error::statement("connect"))?;
        for statement in statements {
            conn.query_drop(*statement).await.map_err(Error::statement(statement))?;
        }
        let id = u64::from(conn.id());
        self.idle.push(conn);
        Ok(id)
    }

    /// Keeps a server up as long as the sessions are.
    pub(crate) fn keep(&mut self, server: Server) {
        self.others.push(server);
    }

    /// Sessions that run a statement over and over inside the server, so that no client is what they wait for.
    pub(crate) async fn churn(&mut self, server: &Server, sessions: u32, statement: &str) -> Result<()> {
        make_churn(server, statement).await?;
        self.call_churn(server, sessions).await
    }

    /// Sessions that call what [`make_churn`] made: all of them at once, when all have connected.
    pub(crate) async fn call_churn(&mut self, server: &Server, sessions: u32) -> Result<()> {
        let mut connected = Vec::new();
        for _ in 0..sessions {
            connected.push(server.connect_as("app").await.map_err(Error::statement("connect"))?);
        }
        connected.into_iter().for_each(|conn| self.run_once(conn, CHURN));
        Ok(())
    }

    /// A session that runs a statement once and then idles, whatever comes back; its connection's id.
    pub(crate) async fn once(&mut self, server: &Server, statement: &'static str) -> Result<u64> {
        self.once_as(server, "app", statement).await
    }

    /// The same as another user.
    pub(crate) async fn once_as(
        &mut self,
        server: &Server,
        user: &str,
        statement: &'static str,
    ) -> Result<u64> {
        let conn = server.connect_as(user).await.map_err(Error::statement("connect"))?;
        let id = u64::from(conn.id());
        self.run_once(conn, statement);
        Ok(id)
    }

    fn run_once(&mut self, mut conn: Conn, statement: &'static str) {
        self.once.push(conn.id().into());
        let single = self.single.clone();
        self.busy.spawn(async move {
            let _answer = single.time(conn.query_drop(statement)).await;
            std::future::pending::<()>().await;
        });
    }

    /// Ends those that run a statement once: while a procedure runs the server does not see that its client is gone.
    pub(crate) async fn kill(self, server: &Server) -> Result<()> {
        let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
        for id in &self.once {
            // One that has ended meanwhile is unknown.
            let _ended = conn.query_drop(format!("KILL {id}")).await;
        }
        let _closed = conn.disconnect().await;
        Ok(())
    }

    /// A session that runs a statement over and over, whatever comes back; its connection's id.
    pub(crate) async fn repeat(&mut self, server: &Server, statement: String) -> Result<u64> {
        let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
        let id = u64::from(conn.id());
        let (prepared, repeated) = (server.draw().is_prepared(), self.repeated.clone());
        self.busy.spawn(async move {
            // An answer of error (a lock wait timeout, a deadlock) is what a real client retries on.
            loop {
                let sent = repeated.time(send(&mut conn, &statement, prepared));
                if sent.await.is_err() && conn.ping().await.is_err() {
                    return;
                }
            }
        });
        Ok(id)
    }

    /// A session that runs a statement at most that often, whatever comes back.
    pub(crate) async fn repeat_every(
        &mut self,
        server: &Server,
        statement: String,
        every: Duration,
    ) -> Result<()> {
        let prepared = server.draw().is_prepared();
        let protocol = if prepared { Protocol::Prepared } else { Protocol::Text };
        self.repeat_by(server, statement, every, protocol).await
    }

    /// The same, sent by this protocol.
    pub(crate) async fn repeat_by(
        &mut self,
        server: &Server,
        statement: String,
        every: Duration,
        protocol: Protocol,
    ) -> Result<()> {
        let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
        let prepared = protocol == Protocol::Prepared;
        self.busy.spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if send(&mut conn, &statement, prepared).await.is_err() && conn.ping().await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    /// A session that runs a transaction over and over: its statements, each with the mean time that the client then has other
    /// things to do; the times are of chance, so that sessions do not march in step. It begins again where a statement
    /// fails.
    pub(crate) async fn transact(
        &mut self,
        server: &Server,
        transaction: Vec<(String, Duration)>,
    ) -> Result<()> {
        let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
        let (deadlocks, prepared) = (Arc::clone(&self.deadlocks), server.draw().is_prepared());
        self.busy.spawn(async move {
            let mut rng = Rng::new();
            loop {
                for (statement, pause) in &transaction {
                    match send(&mut conn, statement, prepared).await {
                        Ok(()) if pause.is_zero() => {}
                        Ok(()) => tokio::time::sleep(pause.mul_f64(-(1.0 - rng.f64()).ln())).await,
                        Err(mysql_async::Error::Server(error)) => {
                            deadlocks.fetch_add(u64::from(error.code == DEADLOCK), Ordering::Relaxed);
                            break;
                        }
                        Err(_) => return,
                    }
                }
            }
        });
        Ok(())
    }

    /// Time that the statements took so far of those that repeat one, seconds.
    pub(crate) fn repeated_s(&self) -> f64 {
        self.repeated.seconds()
    }

    /// Time that the statements took so far of those that run one once, seconds.
    pub(crate) fn single_s(&self) -> f64 {
        self.single.seconds()
    }

    /// How many of their transactions were a deadlock's victim, each second.
    pub(crate) async fn deadlocks_per_s(&self) -> f64 {
        let (start, before) = (Instant::now(), self.deadlocks.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_secs(1)).await;
        (self.deadlocks.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64()
    }

    /// A pool that holds so many connections, and so many clients that keep asking for one more.
    pub(crate) async fn full_pool(server: &Server, held: u32, knocking: u32) -> Result<Self> {
        let mut sessions = Self::default();
        for _ in 0..held {
            sessions.hold(server, &["SELECT c FROM sbtest1 WHERE id = 1"]).await?;
        }
        for _ in 0..knocking {
            sessions.knock(server);
        }
        Ok(sessions)
    }

    /// A client that keeps asking for a connection, uses it for a moment and gives it back.
    pub(crate) fn knock(&mut self, server: &Server) {
        let options = server.options("app");
        let refused = Arc::clone(&self.refused);
        self.busy.spawn(async move {
            loop {
                match Conn::new(options.clone()).await {
                    Ok(mut conn) => {
                        let _answer = conn.query_drop("DO 1").await;
                        let _closed = conn.disconnect().await;
                    }
                    Err(mysql_async::Error::Server(error))
                        if matches!(error.code, TOO_MANY_CONNECTIONS | USER_LIMIT_REACHED) =>
                    {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }

    /// A client that prepares a statement with one parameter, runs it and closes it, again and again.
    pub(crate) async fn prepare(&mut self, server: &Server, statement: &'static str) -> Result<()> {
        let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
        let refused = Arc::clone(&self.refused);
        self.busy.spawn(async move {
            loop {
                match conn.prep(statement).await {
                    Ok(prepared) => {
                        let _answer = conn.exec_drop(&prepared, (1,)).await;
                        let _closed = conn.close(prepared).await;
                    }
                    Err(mysql_async::Error::Server(error)) if error.code == TOO_MANY_PREPARED => {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => return,
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Ok(())
    }

    /// A client that sends a statement at most that often, and counts how often a server refuses it that is read-only, or a node
    /// outside of its cluster.
    pub(crate) async fn write(&mut self, server: &Server, statement: String, every: Duration) -> Result<()> {
        let mut conn = server.connect_as("app").await.map_err(Error::statement("connect"))?;
        let (refused, prepared) = (Arc::clone(&self.refused), server.draw().is_prepared());
        self.busy.spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                match send(&mut conn, &statement, prepared).await {
                    Ok(()) => {}
                    Err(mysql_async::Error::Server(error)) => {
                        refused.fetch_add(u64::from(SERVES_NOBODY.contains(&error.code)), Ordering::Relaxed);
                    }
                    Err(_) => return,
                }
            }
        });
        Ok(())
    }

    /// A client that comes, stays for so long, and comes again, whatever happens.
    pub(crate) fn come_and_go(&mut self, server: &Server, stay: Duration) {
        let options = server.options("app");
        self.busy.spawn(async move {
            loop {
                if let Ok(mut conn) = Conn::new(options.clone()).await {
                    let _answer = conn.query_drop("DO 1").await;
                    tokio::time::sleep(stay).await;
                    let _closed = conn.disconnect().await;
                } else {
                    tokio::time::sleep(stay).await;
                }
            }
        });
    }

    /// How many connections, or prepared statements, were refused so far for want of room, in the server or in the account's limit, or
    /// statements because the server is read-only or outside of its cluster.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}
