//! A connection that is ready for queries: made and logged in within one deadline, prepared, and kept where the caller
//! sends several queries.

use std::time::{Duration, Instant};

use spindoctor_collect::mysql::one_server::{self, Answerer};
use spindoctor_collect::mysql::{Target, WHOLE_ANSWERS};
use spindoctor_model::ServerVersion;
use tokio::time::timeout;

use crate::deadline::Budget;
use crate::failure::{Failure, Reason};
use crate::piece::Columns;
use crate::reply::Reply;
use crate::schedule::Limits;
use crate::sources::texts;
use crate::statement::{self, Statement};
use crate::wire::answer::Item;
use crate::wire::connection::Connection;
use crate::wire::rows::Rows;
use crate::wire::tls::Connectors;

/// Before a connection that did not come about is tried again; twice as long each time, and up to half as long again.
const FIRST_REST: Duration = Duration::from_millis(50);

/// An answer that is kept whole is never larger: five thousand rows of a process list with texts of 1,024 bytes are 6 MiB.
const MOST_BYTES: usize = 16 << 20;

/// Connects and logs in, trying again where that may help, within one deadline.
pub(crate) async fn connect(
    target: &Target,
    limits: &Limits,
    connectors: &Connectors,
) -> Result<Connection, Failure> {
    let trying = async {
        let mut rest = FIRST_REST;
        let mut left = limits.retries;
        loop {
            match Connection::open(&target.request(), connectors).await.map_err(Failure::of_open) {
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
    let limit = limits.connect;
    timeout(limit, trying).await.unwrap_or_else(|_| {
        let message = format!(
            "no connection within {} s: the server hangs, or a firewall drops the packets",
            limit.as_secs_f64()
        );
        Err(Failure::new(Reason::Timeout, message))
    })
}

/// Has the server set what must be set before anything is asked. A connection that the server refuses this to is closed.
pub(crate) async fn prepared(
    mut connection: Connection,
    preparation: &str,
    budget: &mut Budget,
) -> Result<Connection, Failure> {
    let mut refused = None;
    let asked = async {
        connection.ask(preparation).await.map_err(|error| Failure::of_asking(&error))?;
        let take = &mut |item: Item<'_>| {
            if let Item::Error(error) = item {
                refused = Some(error);
            }
        };
        while connection.hear(&|| true, MOST_BYTES, take).await.map_err(Failure::of_trouble)? != Some(true) {}
        Ok::<(), Failure>(())
    };
    // Nothing that matters was sent yet.
    let known = |failure: Failure| Failure { unknown: false, ..failure };
    budget.within(asked).await.map_err(known)?.map_err(known)?;
    match refused {
        None => Ok(connection),
        Some(error) => {
            connection.close().await;
            let failure = Failure::of_statement(&error);
            let message = format!("not asked: {preparation}: {}", failure.error);
            Err(Failure { error: message, ..failure })
        }
    }
}

/// Asks, and keeps the whole answer, which is known to be small.
pub(crate) async fn whole(
    connection: &mut Connection,
    statement: &Statement,
    budget: &mut Budget,
) -> Result<Reply, Failure> {
    let asked = budget.within(connection.ask(&statement.tagged())).await?;
    asked.map_err(|error| Failure::of_asking(&error))?;
    let mut reply = Reply::default();
    loop {
        let mut take = |item: Item<'_>| reply.item(item);
        let some = budget.within(connection.hear(&|| true, MOST_BYTES, &mut take)).await?;
        if reply.rows.bytes() > MOST_BYTES {
            let message = format!("its answer is larger than {} MiB", MOST_BYTES >> 20);
            return Err(Failure::new(Reason::Query, message));
        }
        if some.map_err(Failure::of_trouble)? == Some(true) {
            return Ok(reply);
        }
    }
}

/// A read-only session that is asked again and again.
pub(crate) struct Session {
    connection: Connection,
    limit: Duration,
    /// Which server answers, where it says that.
    answerer: Option<Answerer>,
    /// Statements sent, that of the preparation included.
    pub(crate) asked: u64,
    /// From each question to its answer, summed.
    pub(crate) busy: Duration,
}

impl Session {
    /// Connects, logs in, and has the server make the session read only, where it can be.
    pub(crate) async fn open(
        target: &Target,
        limits: &Limits,
        connectors: &Connectors,
    ) -> Result<Self, Failure> {
        let connection = connect(target, limits, connectors).await?;
        let read_only = statement::read_only(connection.version(), limits.query);
        let preparation = format!("{read_only}, {WHOLE_ANSWERS}");
        let begun = Instant::now();
        let connection = prepared(connection, &preparation, &mut Budget::new(limits.query)).await?;
        let (limit, busy) = (limits.query, begun.elapsed());
        let mut session = Self { connection, limit, answerer: None, asked: 1, busy };
        let number = session.who_answers().await?;
        let by_number = || one_server::proxy_by_number(u64::from(session.connection.id()), number?);
        let Some(because) =
            one_server::proxy_named_in(session.version()).map(str::to_owned).or_else(by_number)
        else {
            return Ok(session);
        };
        session.close().await;
        let error = format!(
            "not asked: a proxy ({because}), whose answers may come from several servers; list these by their own addresses"
        );
        Err(Failure::new(Reason::Query, error))
    }

    /// Connects again.
    ///
    /// # Errors
    /// As for [`Self::open`]; or another server answers than before at the same address.
    pub(crate) async fn again(
        self,
        target: &Target,
        limits: &Limits,
        connectors: &Connectors,
    ) -> Result<Self, Failure> {
        let mut session = Self::open(target, limits, connectors).await?;
        if let (Some(before), Some(now)) = (&self.answerer, &session.answerer)
            && !now.is_same(before)
        {
            let error = format!(
                "not asked: the server {now} answers, where {before} answered before; list them by their own addresses"
            );
            session.close().await;
            return Err(Failure::new(Reason::Query, error));
        }
        session.asked += self.asked;
        session.busy += self.busy;
        Ok(session)
    }

    /// Asks which server answers, and for its number of the connection; none where it does not say that, or only speaks as MySQL and
    /// may be many.
    async fn who_answers(&mut self) -> Result<Option<u64>, Failure> {
        let version = ServerVersion::parse(self.version(), "");
        if version.is_some_and(ServerVersion::only_speaks_as_mysql) {
            return Ok(None);
        }
        let statement = Statement::reading(&format!("SELECT {}", one_server::columns(version)))
            .map_err(|error| Failure::new(Reason::Query, format!("not asked: {error}")))?;
        let (columns, rows) = match self.answer(&statement).await {
            Ok(answer) => answer,
            // That the server does not say it shows nothing.
            Err(Failure { code: Some(_), .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let answers = texts(&columns, &rows).first().and_then(|row| Answerer::read(row, 0));
        let (answerer, number) = answers.unzip();
        self.answerer = answerer;
        Ok(number)
    }

    /// What the server says it is.
    pub(crate) fn version(&self) -> &str {
        self.connection.version()
    }

    /// How long an answer may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Asks, and keeps the whole answer. After a failure without a server's error number the session is of no more use.
    pub(crate) async fn answer(&mut self, statement: &Statement) -> Result<(Columns, Rows), Failure> {
        let begun = Instant::now();
        let answer = whole(&mut self.connection, statement, &mut Budget::new(self.limit)).await;
        self.asked += 1;
        self.busy += begun.elapsed();
        let reply = answer?;
        match reply.error {
            Some(failure) => Err(failure),
            None => Ok((reply.columns.unwrap_or_default(), reply.rows)),
        }
    }

    /// Its connection, for who gave up an answer and keeps it until that comes.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Says goodbye, without which servers count an aborted client.
    pub(crate) async fn close(self) {
        // Whatever comes of it, the socket is closed.
        let _ = timeout(self.limit, self.connection.close()).await;
    }
}
