//! The server that all programs watch: a thousand connections, of which 256 work.

use anyhow::Context as _;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::{Bench, progress};

/// Clients of sysbench.
pub(super) const BUSY: u32 = 256;
/// Connections that do nothing.
const IDLE: usize = 744;
/// Tables of sysbench's.
pub(super) const TABLES: Tables = Tables { count: 4, rows: 10_000 };

/// A server with its connections.
pub(super) struct Ground {
    pub(super) server: Server,
    /// Of the benchmark's own.
    pub(super) asked: Conn,
    pub(super) load: Load,
    _idle: Vec<Conn>,
}

impl Ground {
    /// Starts all of it: clients of this workload, at so many transactions a second in all, or as many as they can.
    pub(super) async fn start(bench: &Bench, workload: Workload, rate: Option<u32>) -> anyhow::Result<Self> {
        let spec = ServerSpec {
            which: Which::Mysql,
            tables: Some(TABLES),
            options: vec!["--max-connections=1200".into(), "--back-log=1000".into()],
            ..ServerSpec::default()
        };
        let server = Server::start(&bench.home, &spec, &progress).await?;
        let mut idle = Vec::with_capacity(IDLE);
        for _ in 0..IDLE {
            idle.push(server.connect().await?);
        }
        let load = Load::start(server.socket(), LoadSpec { workload, threads: BUSY, rate, tables: TABLES })?;
        let asked = server.connect().await?;
        Ok(Self { server, asked, load, _idle: idle })
    }

    /// A user of its own for each that looks, so that the server's counters are separate for each.
    pub(super) async fn admit(&mut self, user: &str) -> anyhow::Result<()> {
        for statement in [
            format!("CREATE USER {user}@localhost"),
            format!("GRANT PROCESS, REPLICATION CLIENT, SELECT ON *.* TO {user}@localhost"),
            // CPU time of statements is not counted unless somebody asks for it.
            "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_statements_cpu'"
                .to_owned(),
        ] {
            self.asked.query_drop(statement).await?;
        }
        Ok(())
    }

    /// CPU time of the server for all statements of a user so far, seconds.
    pub(super) async fn server_cpu_s(&mut self, user: &str) -> anyhow::Result<f64> {
        let took = format!(
            "SELECT IFNULL(SUM(SUM_CPU_TIME), 0) / 1e12 \
             FROM performance_schema.events_statements_summary_by_user_by_event_name WHERE USER = '{user}'"
        );
        self.asked.query_first(took).await?.context("the server counts no CPU time of statements")
    }

    /// Ends all of it.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.load.stop().await;
        drop(self.asked);
        self.server.stop()?;
        Ok(())
    }
}
