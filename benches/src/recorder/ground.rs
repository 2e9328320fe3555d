//! The server that all programs watch: a thousand connections, or more, of which 256 work.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::{Bench, progress};

/// Clients of sysbench.
pub(crate) const BUSY: u32 = 256;
/// Connections that do nothing.
pub(crate) const IDLE: usize = 744;
/// Tables of sysbench's.
pub(crate) const TABLES: Tables = Tables { count: 4, rows: 10_000 };

/// A server with its connections.
pub(crate) struct Ground {
    pub(crate) server: Server,
    /// Of the benchmark's own.
    pub(crate) asked: Conn,
    pub(crate) load: Load,
    _idle: Vec<Conn>,
}

impl Ground {
    /// Starts all of it: clients of this workload, at so many transactions a second in all, or as many as they can.
    pub(crate) async fn start(bench: &Bench, workload: Workload, rate: Option<u32>) -> anyhow::Result<Self> {
        Self::with(bench, Which::Mysql, IDLE, workload, rate).await
    }

    /// The same of either server, with so many connections that do nothing.
    pub(crate) async fn with(
        bench: &Bench,
        which: Which,
        idle_connections: usize,
        workload: Workload,
        rate: Option<u32>,
    ) -> anyhow::Result<Self> {
        let most = idle_connections + BUSY as usize + 200;
        let spec = ServerSpec {
            which,
            tables: Some(TABLES),
            options: vec![
                format!("--max-connections={most}"),
                format!("--open-files-limit={}", 2 * most + 1_000),
                "--back-log=1000".into(),
            ],
            ..ServerSpec::default()
        };
        let server = Server::start(&bench.home, &spec, &progress).await?;
        let mut idle = Vec::with_capacity(idle_connections);
        for _ in 0..idle_connections {
            idle.push(server.connect().await?);
        }
        let load = Load::start(server.socket(), LoadSpec { workload, threads: BUSY, rate, tables: TABLES })?;
        let asked = server.connect().await?;
        Ok(Self { server, asked, load, _idle: idle })
    }

    /// A user of its own for each that looks, so that the server's counters are separate for each.
    pub(crate) async fn admit(&mut self, user: &str) -> anyhow::Result<()> {
        for statement in [
            format!("CREATE USER {user}@localhost"),
            format!("GRANT PROCESS, REPLICATION CLIENT, SELECT ON *.* TO {user}@localhost"),
        ] {
            self.asked.query_drop(statement).await?;
        }
        if !self.is_mariadb() {
            // CPU time of statements is not counted unless somebody asks for it.
            let counted = "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' \
                           WHERE NAME = 'events_statements_cpu'";
            self.asked.query_drop(counted).await?;
        }
        Ok(())
    }

    /// True where it is a MariaDB.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.server.version().is_mariadb()
    }

    /// CPU time of the threads that serve the sessions of a user now, seconds, by the kernel's ids of them.
    pub(crate) async fn sessions_cpu_s(&mut self, user: &str) -> anyhow::Result<BTreeMap<u32, f64>> {
        let ids = match self.is_mariadb() {
            true => format!("SELECT TID FROM information_schema.PROCESSLIST WHERE USER = '{user}'"),
            false => format!(
                "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = '{user}'"
            ),
        };
        let ids: Vec<u32> = self.asked.query(ids).await?;
        let pid = self.server.pid();
        let taken = |id: u32| {
            // "71934893 1013523 5201": nanoseconds on a CPU, waiting for one, and turns.
            let text = fs::read_to_string(format!("/proc/{pid}/task/{id}/schedstat")).ok()?;
            Some((id, text.split_ascii_whitespace().next()?.parse::<f64>().ok()? / 1e9))
        };
        Ok(ids.into_iter().filter_map(taken).collect())
    }

    /// Statements without a default schema so far, as only those have none that look at the server: text, executions,
    /// CPU time of the server in seconds. None of MariaDB, which does not count it.
    pub(crate) async fn statements(&mut self) -> anyhow::Result<BTreeMap<String, (u64, f64)>> {
        if self.is_mariadb() {
            return Ok(BTreeMap::new());
        }
        let counted = "SELECT LEFT(DIGEST_TEXT, 1024), COUNT_STAR, SUM_CPU_TIME / 1e12 \
                       FROM performance_schema.events_statements_summary_by_digest \
                       WHERE SCHEMA_NAME IS NULL AND DIGEST_TEXT IS NOT NULL";
        let rows: Vec<(String, u64, f64)> = self.asked.query(counted).await?;
        Ok(rows.into_iter().map(|(text, count, cpu_s)| (text, (count, cpu_s))).collect())
    }

    /// CPU time of the server for all statements of a user so far, seconds.
    pub(crate) async fn server_cpu_s(&mut self, user: &str) -> anyhow::Result<f64> {
        let took = format!(
            "SELECT IFNULL(SUM(SUM_CPU_TIME), 0) / 1e12 \
             FROM performance_schema.events_statements_summary_by_user_by_event_name WHERE USER = '{user}'"
        );
        self.asked.query_first(took).await?.context("the server counts no CPU time of statements")
    }

    /// Ends all of it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.load.stop().await;
        drop(self.asked);
        self.server.stop()?;
        Ok(())
    }
}
