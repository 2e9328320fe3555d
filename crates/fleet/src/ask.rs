//! Asks servers one statement: a task for each on the runtime of the caller, and no thread.
//!
//! In: who, what, and [`Limits`]. Out: [`Piece`]s on a channel, in the order in which they come; the last of each
//! server says how it ended. A server that hangs costs the others nothing but its place, until its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::Target;
use tokio::sync::{mpsc, watch};

use crate::deadline::Budget;
use crate::failure::{Failure, Reason};
use crate::kept::Kept;
use crate::outbox::{BATCHES, Outbox};
use crate::piece::{Columns, Ended, Piece};
use crate::reply::Reply;
use crate::schedule::Limits;
use crate::session::{connect, prepared, whole};
use crate::statement::Statement;
use crate::turns;
use crate::wire::answer::{Column, Item, Kind};
use crate::wire::connection::Connection;
use crate::wire::rows::Rows;
use crate::wire::tls::Connectors;

/// A row is never larger: MySQL's default for `max_allowed_packet`.
const MOST_ROW_BYTES: usize = 64 << 20;
/// Nor is one server's answer, most of which went on its way before the last of it came.
const MOST_ANSWER_BYTES: usize = 256 << 20;
/// Rows are handed on when they are this many bytes: small answers go in one piece.
const PIECE_BYTES: usize = 32 << 10;

/// Batches of pieces on their way to who writes.
pub type Pieces = mpsc::Receiver<Vec<Piece>>;

/// A channel for pieces, bounded.
pub fn channel() -> (mpsc::Sender<Vec<Piece>>, Pieces) {
    mpsc::channel(BATCHES)
}

/// What all servers are asked, and within which limits.
#[derive(Clone)]
pub struct Question {
    /// The servers that may be asked.
    pub targets: Arc<[Target]>,
    /// The statement.
    pub statement: Arc<Statement>,
    /// Within which limits.
    pub limits: Limits,
    /// How long all of them together may take; None without a bound.
    pub within: Option<Duration>,
    connectors: Arc<Connectors>,
    kept: Option<Arc<Kept>>,
}

impl Question {
    /// A statement for some of these servers.
    pub fn new(targets: Arc<[Target]>, statement: Statement, limits: Limits) -> Self {
        let statement = Arc::new(statement);
        Self { targets, statement, limits, within: None, connectors: Arc::default(), kept: None }
    }

    /// The same servers are asked again and again, this statement or [another](Self::instead): where the limits allow a connection
    /// to each, the connections stay until [`Self::close`]; otherwise a login with TLS resumes the session of the one before.
    #[must_use]
    pub fn repeated(self) -> Self {
        let has_one_for_each = self.limits.connections >= self.targets.len();
        let kept = has_one_for_each.then(Arc::default);
        Self { connectors: Arc::new(Connectors::resuming()), kept, ..self }
    }

    /// Another statement for the same servers.
    #[must_use]
    pub fn instead(&self, statement: Statement) -> Self {
        Self { statement: Arc::new(statement), ..self.clone() }
    }

    /// Says goodbye on the connections that stayed.
    pub async fn close(&self) {
        if let Some(kept) = &self.kept {
            kept.close().await;
        }
    }

    /// Asks these servers, and returns those that were not begun with because `stop` became true, nobody listens any more
    /// or the time for all is over. Those that were under way then end as interrupted, or as too late.
    pub async fn ask(
        &self,
        servers: &[usize],
        mut stop: watch::Receiver<bool>,
        pieces: mpsc::Sender<Vec<Piece>>,
    ) -> Vec<usize> {
        let outbox = Arc::new(Outbox::default());
        let forwarding = tokio::spawn(outbox.clone().forward(pieces));
        let is_too_late = AtomicBool::new(false);
        let ended = async {
            tokio::select! {
                () = turns::over(&mut stop, outbox.closed()) => {}
                () = after(self.within) => is_too_late.store(true, Ordering::Relaxed),
            }
        };
        let one = |server| self.clone().one(server, outbox.clone());
        let left = turns::all(&self.targets, servers, &self.limits, ended, one).await;
        // What was put into the outbox stays there.
        let failure = match self.within {
            Some(within) if is_too_late.into_inner() => {
                let message =
                    format!("no answer when the {} s for all servers were over", within.as_secs_f64());
                Failure::new(Reason::Timeout, message)
            }
            _ => Failure::new(Reason::Interrupted, "interrupted before its answer was whole"),
        };
        for server in left.cut_short {
            let failure = failure.clone();
            outbox.put(Piece::failed(server, u32::MAX, failure.outcome_unknown()));
        }
        outbox.last();
        // It ends with the last batch.
        let _ = forwarding.await;
        left.not_begun
    }

    /// Asks one server and keeps its whole answer: for what is known to be small.
    pub async fn one_answer(&self, server: usize) -> Result<(Columns, Rows), Failure> {
        let mut budget = Budget::new(self.limits.query);
        let mut connection = self.connection(server, &mut budget).await?;
        let reply = whole(&mut connection, &self.statement, &mut budget).await?;
        self.leave(server, connection).await;
        match reply.error {
            Some(failure) => Err(failure),
            None => Ok((reply.columns.unwrap_or_default(), reply.rows)),
        }
    }

    /// Asks one server, to the end.
    async fn one(self, server: usize, outbox: Arc<Outbox>) {
        let begun = Instant::now();
        let mut telling = Telling::new(server, &outbox);
        let asked = self.conversation(server, &mut telling).await;
        let end = asked.map(|version| Ended { ms: begun.elapsed().as_secs_f64() * 1e3, version });
        telling.end(end);
    }

    /// A connection that may be asked the statement.
    async fn connection(&self, server: usize, budget: &mut Budget) -> Result<Connection, Failure> {
        if let Some(connection) = self.kept().and_then(|kept| kept.take(server)) {
            // It was prepared when it was made; whether this statement may be asked there is another question.
            self.statement.preparation(connection.version(), self.limits.query)?;
            return Ok(connection);
        }
        let connection = connect(&self.targets[server], &self.limits, &self.connectors).await?;
        match self.statement.preparation(connection.version(), self.limits.query)? {
            Some(preparation) => prepared(connection, &preparation, budget).await,
            None => Ok(connection),
        }
    }

    /// Where connections stay: those for statements that read, which are all prepared alike.
    fn kept(&self) -> Option<&Kept> {
        self.kept.as_deref().filter(|_| !self.statement.writes())
    }

    /// Keeps a connection whose answer is whole for the next time, or says goodbye.
    async fn leave(&self, server: usize, connection: Connection) {
        match self.kept() {
            Some(kept) => kept.keep(server, connection),
            None => connection.close().await,
        }
    }

    async fn conversation(&self, server: usize, telling: &mut Telling<'_>) -> Result<Arc<str>, Failure> {
        let mut budget = Budget::new(self.limits.query);
        let mut connection = self.connection(server, &mut budget).await?;
        let version = connection.version().clone();
        let asked = budget.within(connection.ask(&self.statement.tagged())).await?;
        asked.map_err(|error| Failure::of_asking(&error))?;
        let (mut sent, mut reply) = (0, Reply::default());
        let outbox = telling.outbox;
        let may = || outbox.has_room();
        loop {
            // What we need to write is not the server's time.
            outbox.room().await;
            let mut take = |item: Item<'_>| reply.item(item);
            let got_some = budget.within(connection.hear(&may, MOST_ROW_BYTES, &mut take)).await?;
            if sent + reply.rows.bytes() > MOST_ANSWER_BYTES {
                let message = format!("its answer is larger than {} MiB", MOST_ANSWER_BYTES >> 20);
                return Err(Failure::new(Reason::Query, message));
            }
            match got_some.map_err(Failure::of_trouble)? {
                Some(true) => break,
                Some(false) if reply.rows.bytes() >= PIECE_BYTES => {
                    sent += reply.rows.bytes();
                    telling.some(&mut reply);
                }
                Some(false) | None => {}
            }
        }
        telling.some_at_the_end(&mut reply);
        self.leave(server, connection).await;
        match reply.error {
            Some(failure) => Err(failure),
            None => Ok(version),
        }
    }
}

async fn after(within: Option<Duration>) {
    match within {
        Some(within) => tokio::time::sleep(within).await,
        None => std::future::pending().await,
    }
}

/// Sends one server's answer, piece by piece. An unfinished one that is dropped leaves the end to its owner.
struct Telling<'a> {
    server: usize,
    outbox: &'a Outbox,
    columns: Columns,
    part: u32,
    last: Rows,
}

impl<'a> Telling<'a> {
    fn new(server: usize, outbox: &'a Outbox) -> Self {
        Self { server, outbox, columns: Columns::default(), part: 0, last: Rows::default() }
    }

    /// Rows came, and more will.
    fn some(&mut self, reply: &mut Reply) {
        self.take(reply);
        let rows = std::mem::take(&mut self.last);
        self.put(rows, None);
    }

    /// The last rows came: they wait for how it ended.
    fn some_at_the_end(&mut self, reply: &mut Reply) {
        self.take(reply);
        if reply.columns.is_none() && reply.error.is_none() {
            // A statement without rows: what it did is its answer.
            let column = |name: &str, kind| Column { name: name.to_owned(), kind };
            self.columns = [column("affected", Kind::Integer), column("info", Kind::Text)].into();
            let affected = reply.done.affected.unwrap_or_default().to_string();
            self.last.push([Some(affected.as_bytes()), Some(reply.done.info.as_bytes())]);
        }
    }

    fn take(&mut self, reply: &mut Reply) {
        if let Some(columns) = &reply.columns {
            self.columns = columns.clone();
        }
        self.last = std::mem::take(&mut reply.rows);
    }

    fn end(mut self, end: Result<Ended, Failure>) {
        let rows = std::mem::take(&mut self.last);
        self.put(rows, Some(end));
    }

    fn put(&mut self, rows: Rows, end: Option<Result<Ended, Failure>>) {
        let (server, columns, part) = (self.server, self.columns.clone(), self.part);
        self.part += 1;
        self.outbox.put(Piece { server, columns, rows, part, end });
    }
}
