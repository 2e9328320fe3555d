//! Asks servers one statement: a task for each on the runtime of the caller, and no thread.
//!
//! In: who, what, and [`Limits`]. Out: [`Piece`]s on a channel, in the order in which they come; the last of each
//! server says how it ended. A server that hangs costs the others nothing but its place, until its deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::{Endpoint, Target};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::failure::{Failure, Reason};
use crate::outbox::{BATCHES, Outbox};
use crate::piece::{Columns, Ended, Piece};
use crate::schedule::{Limits, Pace, Schedule};
use crate::statement::Statement;
use crate::tls::Connectors;
use crate::wire::answer::{Column, Done, Item, Kind};
use crate::wire::rows::Rows;

/// Rows are handed on when they are this many bytes: small answers go in one piece.
const PIECE_BYTES: usize = 32 << 10;
/// Before a connection that did not come about is tried again; twice as long each time, and up to half as long again.
const FIRST_REST: Duration = Duration::from_millis(50);

/// Batches of pieces on their way to who writes.
pub type Pieces = mpsc::Receiver<Vec<Piece>>;

/// A channel for pieces, bounded.
pub fn channel() -> (mpsc::Sender<Vec<Piece>>, Pieces) {
    mpsc::channel(BATCHES)
}

/// What all servers are asked, and within which limits.
#[derive(Clone)]
pub struct Question {
    /// Who may be asked.
    pub targets: Arc<[Target]>,
    /// What.
    pub statement: Arc<Statement>,
    /// Within which limits.
    pub limits: Limits,
    connectors: Arc<Connectors>,
}

impl Question {
    /// A statement for some of these servers.
    pub fn new(targets: Arc<[Target]>, statement: Statement, limits: Limits) -> Self {
        Self { targets, statement: Arc::new(statement), limits, connectors: Arc::default() }
    }

    /// Another statement for the same servers.
    #[must_use]
    pub fn instead(&self, statement: Statement) -> Self {
        Self { statement: Arc::new(statement), ..self.clone() }
    }

    /// Asks these servers, and returns those that were not begun with because `stop` became true or nobody listens
    /// any more. Those that were under way then end as interrupted.
    pub async fn ask(
        &self,
        servers: &[usize],
        mut stop: watch::Receiver<bool>,
        pieces: mpsc::Sender<Vec<Piece>>,
    ) -> Vec<usize> {
        let outbox = Arc::new(Outbox::default());
        let forwarding = tokio::spawn(outbox.clone().forward(pieces));
        let hosts = servers.iter().map(|&at| (at, host(&self.targets[at])));
        let mut schedule = Schedule::new(hosts, self.limits.per_host);
        let mut pace = Pace::new(self.limits.per_second);
        let mut tasks = JoinSet::new();
        let mut under_way = vec![false; self.targets.len()];
        loop {
            let may_begin = tasks.len() < self.limits.connections && schedule.may_begin();
            if !may_begin && tasks.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                () = outbox.closed() => break,
                Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                    let server = done.unwrap_or_else(|error: tokio::task::JoinError| {
                        std::panic::resume_unwind(error.into_panic())
                    });
                    under_way[server] = false;
                    schedule.end(server);
                }
                () = due(&pace), if may_begin => {
                    if let Some(server) = schedule.begin() {
                        pace.begun(Instant::now());
                        under_way[server] = true;
                        tasks.spawn(self.clone().one(server, outbox.clone()));
                    }
                }
            }
        }
        // What was put into the outbox stays there.
        tasks.abort_all();
        while let Some(done) = tasks.join_next().await {
            if let Ok(server) = done {
                under_way[server] = false;
            }
        }
        for server in (0..under_way.len()).filter(|&server| under_way[server]) {
            let failure = Failure::new(Reason::Interrupted, "interrupted before its answer was whole");
            outbox.put(Piece::failed(server, u32::MAX, failure.outcome_unknown()));
        }
        outbox.last();
        // It ends with the last batch.
        let _ = forwarding.await;
        schedule.left()
    }

    /// Asks one server and keeps its whole answer: for what is known to be small.
    pub async fn one_answer(&self, server: usize) -> Result<(Columns, Rows), Failure> {
        let outbox = Arc::new(Outbox::default());
        self.clone().one(server, outbox.clone()).await;
        let (mut columns, mut rows) = (Columns::default(), Rows::default());
        for piece in outbox.take() {
            columns = piece.columns;
            piece.rows.iter().for_each(|row| rows.push_packet(row.packet()));
            if let Some(end) = piece.end {
                end?;
            }
        }
        Ok((columns, rows))
    }

    /// Asks one server, to the end. Returns the server.
    async fn one(self, server: usize, outbox: Arc<Outbox>) -> usize {
        let begun = Instant::now();
        let mut telling = Telling::new(server, &outbox);
        let asked = self.conversation(server, &mut telling).await;
        let end = asked.map(|version| Ended { ms: begun.elapsed().as_secs_f64() * 1e3, version });
        telling.end(end);
        server
    }

    async fn conversation(&self, server: usize, telling: &mut Telling<'_>) -> Result<Arc<str>, Failure> {
        let target = &self.targets[server];
        let mut connection = self.connect(target).await?;
        let version = connection.version().clone();
        let mut budget = Budget { limit: self.limits.query, left: self.limits.query };
        if let Some(preparation) = self.statement.preparation(&version, self.limits.query)? {
            let mut refused = None;
            let prepared = async {
                connection.ask(&preparation).await?;
                let take = &mut |item: Item<'_>| {
                    if let Item::Error(error) = item {
                        refused = Some(error);
                    }
                };
                while connection.hear(&|| true, take).await? != Some(true) {}
                Ok::<(), Failure>(())
            };
            // Nothing that matters was sent yet.
            let known = |failure: Failure| Failure { unknown: false, ..failure };
            budget.within(prepared).await.map_err(known)?.map_err(known)?;
            if let Some(error) = refused {
                connection.close().await;
                let failure = Failure::of_statement(&error);
                let told = format!("not asked: {preparation}: {}", failure.error);
                return Err(Failure { error: told, ..failure });
            }
        }
        budget.within(connection.ask(&self.statement.tagged())).await??;
        let mut heard = Heard::default();
        let outbox = telling.outbox;
        let may = || outbox.has_room();
        loop {
            // What we need to write is not the server's time.
            outbox.room().await;
            let mut take = |item: Item<'_>| heard.item(item);
            match budget.within(connection.hear(&may, &mut take)).await?? {
                Some(true) => break,
                Some(false) if heard.rows.bytes() >= PIECE_BYTES => telling.some(&mut heard),
                Some(false) | None => {}
            }
        }
        telling.some_at_the_end(&mut heard);
        connection.close().await;
        match heard.error {
            Some(failure) => Err(failure),
            None => Ok(version),
        }
    }

    /// Connects and logs in, trying again where that may help, within one deadline.
    async fn connect(&self, target: &Target) -> Result<Connection, Failure> {
        let trying = async {
            let mut rest = FIRST_REST;
            let mut left = self.limits.retries;
            loop {
                match Connection::open(target, &self.connectors).await {
                    Err(failure) if failure.passing && left > 0 => {
                        left -= 1;
                        // A little chance, or all come back at the same instant.
                        tokio::time::sleep(rest.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
                        rest *= 2;
                    }
                    other => return other,
                }
            }
        };
        let limit = self.limits.connect;
        timeout(limit, trying).await.unwrap_or_else(|_| {
            let told = format!(
                "no connection within {} s: the server hangs, or a firewall drops the packets",
                limit.as_secs_f64()
            );
            Err(Failure::new(Reason::Timeout, told))
        })
    }
}

fn host(target: &Target) -> &str {
    match &target.endpoint {
        Endpoint::Tcp { host, .. } => host,
        Endpoint::Socket(_) => "localhost",
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could stop it.
        std::future::pending::<()>().await;
    }
}

async fn due(pace: &Pace) {
    if let Some(due) = pace.due() {
        tokio::time::sleep_until(due.into()).await;
    }
}

/// What is left of a deadline that counts only what is waited for.
struct Budget {
    limit: Duration,
    left: Duration,
}

impl Budget {
    async fn within<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let begun = Instant::now();
        let outcome = timeout(self.left, work).await;
        self.left = self.left.saturating_sub(begun.elapsed());
        outcome.map_err(|_| {
            let told = format!("no answer within {} s", self.limit.as_secs_f64());
            Failure::new(Reason::Timeout, told).outcome_unknown()
        })
    }
}

/// What came of an answer and was not handed on.
#[derive(Default)]
struct Heard {
    columns: Option<Columns>,
    /// True once the first result set is over: of a CALL, the first one counts.
    is_over: bool,
    rows: Rows,
    done: Done,
    error: Option<Failure>,
}

impl Heard {
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Description => {}
            Item::Columns(columns) if self.columns.is_none() => self.columns = Some(columns.into()),
            Item::Columns(_) => self.is_over = true,
            Item::Row(row) if !self.is_over => self.rows.push_packet(row),
            Item::Row(_) => {}
            Item::End(done) => {
                self.is_over = self.columns.is_some();
                if self.columns.is_none() {
                    self.done = done;
                }
            }
            Item::Error(error) => self.error = Some(Failure::of_statement(&error)),
        }
    }
}

/// Tells of one server, piece by piece. A telling that is dropped before its end leaves that to who dropped it.
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
    fn some(&mut self, heard: &mut Heard) {
        self.take(heard);
        let rows = std::mem::take(&mut self.last);
        self.put(rows, None);
    }

    /// The last rows came: they wait for how it ended.
    fn some_at_the_end(&mut self, heard: &mut Heard) {
        self.take(heard);
        if heard.columns.is_none() && heard.error.is_none() {
            // A statement without rows: what it did is its answer.
            let column = |name: &str, kind| Column { name: name.to_owned(), kind };
            self.columns = [column("affected", Kind::Integer), column("info", Kind::Text)].into();
            let affected = heard.done.affected.unwrap_or_default().to_string();
            self.last.push([Some(affected.as_bytes()), Some(heard.done.info.as_bytes())]);
        }
    }

    fn take(&mut self, heard: &mut Heard) {
        if let Some(columns) = &heard.columns {
            self.columns = columns.clone();
        }
        self.last = std::mem::take(&mut heard.rows);
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
