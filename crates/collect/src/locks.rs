//! One reading of the server's lists of locks, threads and transactions, and of nothing else: to find who blocks whom.
//!
//! In: a target. Out: a [`ServerSample`] with the sources of [`SOURCES`], and a second one with the cheap ones, to be
//! read after everything else: it shows which waiters went on meanwhile.

use std::time::Instant;

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Reading, ServerSample, ServerVersion};

use crate::asking::{Known, ask_all};
use crate::host;
use crate::host::thread_ids::ThreadIds;
use crate::mysql::source::{Plan, Source};
use crate::mysql::{
    ConnectError, QueryError, Session, SessionCost, Target, global_status, innodb_locks, innodb_status,
    innodb_trx, metadata_lock_info, perf_schema_data_lock_waits, perf_schema_last_statements,
    perf_schema_metadata_locks, perf_schema_threads, processlist, user_locks, xa_recover,
};

/// How many wait for rows, where listing them may cost too much: one line of `SHOW GLOBAL STATUS`.
const WAITING: Source = Source {
    help: "how many transactions wait for row locks",
    plan: |version, _| {
        if version.mysql_at_least(8, 0, 0) {
            return Plan::Elsewhere;
        }
        Plan::Ask("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
    },
    ..global_status::SOURCE
};

/// The text of InnoDB where its transactions are not listed: it says who waits for a row.
const TEXT_OF_TRANSACTIONS: Source = Source {
    plan: |_, _| {
        Plan::AskAbout(|sample| {
            let asked = sample.transactions.value().is_none().then(|| "SHOW ENGINE INNODB STATUS".to_owned());
            Ok(asked)
        })
    },
    ..innodb_status::SOURCE
};

/// The text of InnoDB, for who waits for a latch, and for the places of locks that were not looked up.
const TEXT: Source = Source {
    plan: |version, _| match version.mariadb_at_least(10, 6, 0) {
        // It has no sync array since then.
        true => Plan::Elsewhere,
        false => Plan::Ask("SHOW ENGINE INNODB STATUS"),
    },
    ..innodb_status::SOURCE
};

/// What is read, in order; of two with the same content the better one comes first.
pub const SOURCES: &[Source] = &[
    WAITING,
    perf_schema_threads::WITH_STATEMENTS,
    processlist::SOURCE,
    innodb_trx::SOURCE,
    xa_recover::SOURCE,
    perf_schema_data_lock_waits::SOURCE,
    innodb_locks::SOURCE,
    perf_schema_metadata_locks::SOURCE,
    metadata_lock_info::SOURCE,
    perf_schema_last_statements::SOURCE,
    user_locks::SOURCE,
    TEXT_OF_TRANSACTIONS,
];

/// What is read again: who still runs what.
const AGAIN: &[Source] = &[perf_schema_threads::ACTIVE, processlist::SOURCE];

/// A session that is asked who waits for whom.
#[derive(Debug)]
pub struct Locks {
    session: Session,
    ids: Option<ThreadIds>,
    version: ServerVersion,
    variables: NamedValues,
    start: Instant,
}

impl Locks {
    /// Connects. Where the server's process is given, its threads go by the ids that they have here, in this pid
    /// namespace.
    ///
    /// # Errors
    /// There is no session.
    pub async fn connect(target: &Target, process: Option<host::Target>) -> Result<Self, ConnectError> {
        let mut session = Session::connect(target, &target.limits).await?;
        let variables = session.performance_schema().await;
        let version = session.version().unwrap_or_default();
        let ids = process.map(ThreadIds::of_process);
        Ok(Self { session, ids, version, variables, start: Instant::now() })
    }

    /// Which server it is.
    pub fn version(&self) -> ServerVersion {
        self.version
    }

    /// The id of its connection: to be left out where others list connections.
    pub fn connection_id(&self) -> u64 {
        self.session.connection_id()
    }

    /// What the server says it is: `MySQL 9.7.4 on db17`.
    pub fn server(&self) -> String {
        self.session.server()
    }

    /// What did not go as it should and did not stop the session.
    pub fn notes(&self) -> &[String] {
        self.session.notes()
    }

    /// What the session cost the server so far.
    pub fn cost(&self) -> SessionCost {
        self.session.cost()
    }

    /// Reads every source of [`SOURCES`]. One that the server refuses is unavailable in the sample.
    ///
    /// # Errors
    /// The session broke: the server did not answer in time or went away.
    pub async fn read(&mut self) -> Result<ServerSample, QueryError> {
        let mut sample = ServerSample::default();
        self.ask_with_threads(SOURCES, &mut sample).await?;
        Ok(sample)
    }

    /// Adds the text of `SHOW ENGINE INNODB STATUS` to what was read: it shows who waits for which latch. The server
    /// writes some hundred bytes for each transaction, 5 ms for 500: it is asked only where somebody may wait.
    ///
    /// # Errors
    /// As for [`Locks::read`].
    pub async fn read_text(&mut self, sample: &mut ServerSample) -> Result<(), QueryError> {
        // With the list of transactions no text was asked for, and what stands there is the empty answer to that.
        if sample.transactions.value().is_some() {
            sample.innodb_status = Reading::NotAsked;
        }
        self.ask(&[TEXT], sample).await
    }

    /// Reads who still runs what. Threads that rest are not in it.
    ///
    /// # Errors
    /// As for [`Locks::read`].
    pub async fn read_again(&mut self) -> Result<ServerSample, QueryError> {
        let mut sample = ServerSample::default();
        self.ask_with_threads(AGAIN, &mut sample).await?;
        Ok(sample)
    }

    /// Asks for nothing: the server keeps a connection that does not rest, and one that is gone shows.
    ///
    /// # Errors
    /// As for [`Locks::read`].
    pub async fn ping(&mut self) -> Result<(), QueryError> {
        self.session.ping().await
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        self.session.close().await;
    }

    async fn ask(&mut self, sources: &[Source], sample: &mut ServerSample) -> Result<(), QueryError> {
        let known = Known { version: self.version, variables: Some(&self.variables), origin: self.start };
        ask_all(&mut self.session, sources, known, sample).await
    }

    /// The same of sources that list threads: each gets the kernel's id, which the stacks have, once.
    async fn ask_with_threads(
        &mut self,
        sources: &[Source],
        sample: &mut ServerSample,
    ) -> Result<(), QueryError> {
        self.ask(sources, sample).await?;
        if let (Some(ids), Reading::Available { value: threads, .. }) = (&mut self.ids, &mut sample.threads) {
            ids.rename(threads);
        }
        Ok(())
    }
}
