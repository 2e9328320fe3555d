//! The cost of the optimizer's estimates for a statement, read over one session that only reads.
//!
//! In: a target, and statements that the caller has found harmless. Out: what runs, with whole texts; what the optimizer
//! estimated for a statement; the indexes of its tables; InnoDB's counts of pages; and, where the caller asks for it, the
//! statement's own answer. The session is read only, has a time limit for each statement and waits for no lock.

mod answers;

use std::time::{Duration, Instant};

use spindoctor_model::ServerVersion;
pub use spindoctor_model::plan_now::{Index, PlanLine};
use spindoctor_model::plan_now::{TableName, TableStatistics};
use spindoctor_sql::Select;
use thiserror::Error;

use crate::host;
use crate::host::thread_ids::ThreadIds;
use crate::mysql::analyze_json;
use crate::mysql::optimizer_trace::RangeAnalysis;
use crate::mysql::source::process_grant;
use crate::mysql::{ConnectError, QueryError, Rows, Session, Target};
pub use answers::quoted;
use answers::{add_reads, indexes, literal, pages, plan, statements, table_statistics, table_text, traced};

/// Statements that one look lists.
const RUNNING: usize = 200;
/// A trace may take this much of the server's memory, bytes: a list of a thousand values in five indexes takes some 200 KiB.
const TRACE_BYTES: u32 = 4 << 20;
/// Of a text that the server keeps of a statement, that it is whole: a longer one is cut, and has dots at its end.
const SAMPLE_IS_WHOLE: &str =
    "OCTET_LENGTH(QUERY_SAMPLE_TEXT) < @@performance_schema_max_sql_text_length - 4";

/// A statement that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Running {
    /// The connection's default database; empty where it has none.
    pub schema: String,
    /// The whole text, up to 64 KiB.
    pub text: String,
    /// The kernel's id, here, of the thread that runs it.
    pub thread_id: Option<u32>,
}

/// What the server counted of a kind of statement.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Executed {
    /// Executions.
    pub executions: f64,
    /// Their time, seconds.
    pub seconds: f64,
}

/// What the optimizer says of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The plan.
    pub plan: Vec<PlanLine>,
    /// The tables whose ranges were estimated, or why that is not known.
    pub estimates: Result<Vec<RangeAnalysis>, String>,
}

/// Why a statement is not explained whose text is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotExplained {
    /// A view's definition could do anything.
    #[error("it reads a view, or a table of another engine than InnoDB")]
    NoTable,
    /// The list of tables does not have it.
    #[error("it reads a table that is not there, or that this account does not see")]
    NotSeen,
}

/// InnoDB's counts since the server started.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pages {
    /// Times that a page was asked for.
    pub requested: f64,
    /// Pages that were read from disk for it.
    pub from_disk: f64,
}

/// A session that asks what estimates cost.
#[derive(Debug)]
pub struct Dives {
    session: Session,
    version: ServerVersion,
    /// The default database that is set.
    schema: String,
    ids: Option<ThreadIds>,
    /// False where the server does not say which of the kernel's threads serves a connection.
    names_threads: bool,
}

impl Dives {
    /// Connects. Where the server's process is given, its threads go by the ids that they have here.
    ///
    /// # Errors
    /// There is no session.
    pub async fn connect(target: &Target, process: Option<host::Target>) -> Result<Self, ConnectError> {
        let session = Session::connect(target, &target.limits).await?;
        let version = session.version().unwrap_or_default();
        let ids = process.map(ThreadIds::of_process);
        let names_threads = ids.is_some() && (version.is_mariadb() || version.mysql_at_least(5, 7, 0));
        Ok(Self { session, version, schema: String::new(), ids, names_threads })
    }

    /// Which server it is.
    pub fn version(&self) -> ServerVersion {
        self.version
    }

    /// Its session: what the server says it is, what did not go as it should, what it cost.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Lists of so many values and more are estimated from statistics; 0 is none. The global value: sessions begin with it.
    ///
    /// # Errors
    /// The server has no such variable (before MySQL 5.6.5, MariaDB 10.2.18 and 10.3.10), or does not answer.
    pub async fn dive_limit(&mut self) -> Result<u64, QueryError> {
        let rows = self.session.query("SELECT @@GLOBAL.eq_range_index_dive_limit AS dive_limit").await?;
        Ok(rows.first().and_then(|row| row.number("dive_limit")).unwrap_or_default())
    }

    /// What runs now, with whole texts.
    ///
    /// Cost: visits every connection and takes its lock for an instant, about 1 ms for 500; up to MySQL 9.7
    /// performance_schema cuts texts at 1,024 bytes, and a long list is what is looked for. The join with INNODB_CMP turns
    /// a missing PROCESS privilege, which a server passes over in silence, into an error.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn running(&mut self) -> Result<Vec<Running>, QueryError> {
        let rows = loop {
            let sql = self.running_sql();
            match self.session.query(&sql).await {
                Err(why) if self.names_threads && !why.breaks_session() => self.names_threads = false,
                Err(why @ QueryError::Denied { .. }) => {
                    let grantee = self.session.grantee().await;
                    return Err(why.with_grant(&format!("{} TO {grantee}", process_grant(self.version))));
                }
                rows => break rows?,
            }
        };
        let mut running = statements(&rows, "DB", "INFO");
        if let Some(ids) = &mut self.ids {
            let theirs = rows.iter().filter_map(|row| row.number("THREAD_ID"));
            ids.refresh_if_unknown(theirs);
            for one in &mut running {
                one.thread_id = one.thread_id.and_then(|id| ids.here(id.into()));
            }
        }
        Ok(running)
    }

    /// The SELECTs that took most time of those that ran lately, each with a text that the server kept whole.
    ///
    /// Cost: reads the whole summary without a lock, about 20 ms where it is full. Empty before MySQL 8.0 and where nobody
    /// counts.
    ///
    /// # Errors
    /// The session broke.
    pub async fn costliest(&mut self, within: Duration, most: usize) -> Result<Vec<Running>, QueryError> {
        if !self.version.mysql_at_least(8, 0, 4) {
            return Ok(Vec::new());
        }
        let seconds = within.as_secs() + 1;
        let sql = format!(
            "SELECT SCHEMA_NAME, QUERY_SAMPLE_TEXT FROM performance_schema.events_statements_summary_by_digest \
             WHERE LAST_SEEN >= NOW(6) - INTERVAL {seconds} SECOND AND DIGEST_TEXT LIKE 'SELECT%' \
             AND QUERY_SAMPLE_TEXT NOT LIKE '/* spindoctor */%' \
             AND {SAMPLE_IS_WHOLE} ORDER BY SUM_TIMER_WAIT DESC LIMIT {most}"
        );
        match self.session.query(&sql).await {
            Ok(rows) => Ok(statements(&rows, "SCHEMA_NAME", "QUERY_SAMPLE_TEXT")),
            Err(why) if why.breaks_session() => Err(why),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// The text that the server kept of a statement, where it is whole. None before MySQL 8.0 and where nobody counts.
    ///
    /// Cost: one row of the summary, found by its key.
    ///
    /// # Errors
    /// The session broke.
    pub async fn sample_text(&mut self, schema: &str, digest: &str) -> Result<Option<Running>, QueryError> {
        if !self.version.mysql_at_least(8, 0, 4) {
            return Ok(None);
        }
        let schema_is = match schema {
            "" => "IS NULL".to_owned(),
            schema => format!("= {}", literal(schema)),
        };
        let sql = format!(
            "SELECT SCHEMA_NAME, QUERY_SAMPLE_TEXT FROM performance_schema.events_statements_summary_by_digest \
             WHERE SCHEMA_NAME {schema_is} AND DIGEST = {} AND {SAMPLE_IS_WHOLE}",
            literal(digest)
        );
        match self.session.query(&sql).await {
            Ok(rows) => Ok(statements(&rows, "SCHEMA_NAME", "QUERY_SAMPLE_TEXT").into_iter().next()),
            Err(why) if why.breaks_session() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// The server's own digest of a text, where it can compute one (MySQL 8.0.4). It parses the text and runs nothing.
    ///
    /// # Errors
    /// The session broke.
    pub async fn digest(&mut self, text: &str) -> Result<Option<String>, QueryError> {
        if !self.version.mysql_at_least(8, 0, 4) {
            return Ok(None);
        }
        match self.session.query(&format!("SELECT STATEMENT_DIGEST({}) AS digest", literal(text))).await {
            Ok(rows) => Ok(rows.first().and_then(|row| row.text("digest")).map(str::to_owned)),
            Err(why) if why.breaks_session() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// What the server counted of a digest in a database so far; None where it counts nothing.
    ///
    /// Cost: reads the summary without a lock, 10,000 rows at most.
    ///
    /// # Errors
    /// The session broke.
    pub async fn executed(&mut self, schema: &str, digest: &str) -> Result<Option<Executed>, QueryError> {
        let sql = format!(
            "SELECT COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_statements_summary_by_digest \
             WHERE SCHEMA_NAME = {} AND DIGEST = {}",
            literal(schema),
            literal(digest)
        );
        match self.session.query(&sql).await {
            Ok(rows) => Ok(rows.first().and_then(|row| {
                let picoseconds: f64 = row.number("SUM_TIMER_WAIT")?;
                Some(Executed { executions: row.number("COUNT_STAR")?, seconds: picoseconds / 1e12 })
            })),
            Err(why) if why.breaks_session() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// Gets ready to explain a SELECT of a session with this default database: its tables, each a table of InnoDB's and no view,
    /// whose definition could do anything. The inner error: why it is not explained.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn ready_to_explain(
        &mut self,
        schema: &str,
        select: &Select,
    ) -> Result<Result<Vec<TableName>, NotExplained>, QueryError> {
        let mut tables = Vec::new();
        for table in &select.tables {
            let schema = table.schema.as_deref().unwrap_or(schema);
            let name = TableName { schema: schema.to_owned(), name: table.name.clone() };
            let sql = format!(
                "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                literal(&name.schema),
                literal(&name.name)
            );
            let rows = self.session.query(&sql).await?;
            let Some(row) = rows.first() else { return Ok(Err(NotExplained::NotSeen)) };
            if row.text("TABLE_TYPE") != Some("BASE TABLE") || row.text("ENGINE") != Some("InnoDB") {
                return Ok(Err(NotExplained::NoTable));
            }
            tables.push(name);
        }
        self.use_schema(schema).await?;
        Ok(Ok(tables))
    }

    /// From here on information_schema shows the statistics of indexes as they are, and not as they were up to a day ago
    /// (`information_schema_stats_expiry`: MySQL 8.0).
    ///
    /// # Errors
    /// The session broke.
    pub async fn show_statistics_as_they_are(&mut self) -> Result<(), QueryError> {
        if !self.version.mysql_at_least(8, 0, 3) {
            return Ok(());
        }
        match self.session.query("SET SESSION information_schema_stats_expiry = 0").await {
            Err(why) if why.breaks_session() => Err(why),
            _ => Ok(()),
        }
    }

    /// When InnoDB's persistent statistics of a table, or of a partition of it, were computed last. None where it has none.
    ///
    /// Cost: some rows of two small tables, found by their keys.
    ///
    /// # Errors
    /// The server refuses (the account may not read `mysql.innodb_table_stats` and `mysql.innodb_index_stats`), has no such
    /// tables, or does not answer.
    pub async fn table_statistics(
        &mut self,
        table: &TableName,
    ) -> Result<Option<TableStatistics>, QueryError> {
        let (schema, name) = (literal(&table.schema), literal(&table.name));
        // A partition's is called `orders#P#p0`.
        let of_table = format!(
            "database_name = {schema} AND (table_name = {name} OR SUBSTRING_INDEX(table_name, '#', 1) = {name})"
        );
        // Who writes them by hand changes the second table alone, most often.
        let sql = format!(
            "SELECT SUM(n_rows) AS n_rows, MIN(age_s) AS age_s FROM (\
             SELECT n_rows, TIMESTAMPDIFF(SECOND, last_update, NOW()) AS age_s FROM mysql.innodb_table_stats WHERE {of_table} \
             UNION ALL SELECT NULL, TIMESTAMPDIFF(SECOND, last_update, NOW()) FROM mysql.innodb_index_stats WHERE {of_table}\
             ) AS computed"
        );
        Ok(table_statistics(&self.session.query(&sql).await?))
    }

    /// The account, as GRANT wants it.
    pub(crate) async fn grantee(&mut self) -> String {
        self.session.grantee().await
    }

    /// The indexes of a table.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn indexes(&mut self, table: &TableName) -> Result<Vec<Index>, QueryError> {
        let (schema, name) = (literal(&table.schema), literal(&table.name));
        let hidden = match self.version {
            version if version.mysql_at_least(8, 0, 0) => "IF(IS_VISIBLE = 'NO', 'YES', 'NO')",
            version if version.mariadb_at_least(10, 6, 0) => "IGNORED",
            _ => "'NO'",
        };
        let sql = format!(
            "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, NULLABLE, INDEX_TYPE, CARDINALITY, {hidden} AS HIDDEN \
             FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name} \
             ORDER BY INDEX_NAME, SEQ_IN_INDEX"
        );
        let mut indexes = indexes(&self.session.query(&sql).await?);
        if self.version.is_mariadb() {
            return Ok(indexes);
        }
        let sql = format!(
            "SELECT INDEX_NAME, COUNT_READ FROM performance_schema.table_io_waits_summary_by_index_usage \
             WHERE OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA = {schema} AND OBJECT_NAME = {name} AND INDEX_NAME IS NOT NULL"
        );
        match self.session.query(&sql).await {
            Ok(rows) => add_reads(&mut indexes, &rows),
            Err(why) if why.breaks_session() => return Err(why),
            Err(_) => {}
        }
        Ok(indexes)
    }

    /// Makes a database the default, where it is not.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn use_schema(&mut self, schema: &str) -> Result<(), QueryError> {
        if !schema.is_empty() && schema != self.schema {
            self.session.query(&format!("USE {}", quoted(schema))).await?;
            schema.clone_into(&mut self.schema);
        }
        Ok(())
    }

    /// What the optimizer says of a SELECT, with its trace. It runs nothing of a statement without subqueries.
    ///
    /// # Errors
    /// The server refuses the statement, or does not answer.
    pub async fn explain(&mut self, text: &str) -> Result<Explained, QueryError> {
        let why_not = self.trace_on().await?;
        let plan = self.explain_once(text).await;
        let estimates = match why_not {
            None => self.trace().await?,
            Some(why) => Err(why),
        };
        self.trace_off().await?;
        Ok(Explained { plan: plan?.1, estimates })
    }

    /// EXPLAIN alone, with the time until the answer was there.
    ///
    /// # Errors
    /// The server refuses the statement, or does not answer.
    pub async fn explain_once(&mut self, text: &str) -> Result<(Duration, Vec<PlanLine>), QueryError> {
        let begun = Instant::now();
        let rows = self.explain_rows(text).await?;
        Ok((begun.elapsed(), plan(&rows)))
    }

    /// EXPLAIN as the server prints it: a line of the columns' names and one for each table, with tabs between. It has names of
    /// tables, indexes and columns, and no value of the statement's.
    ///
    /// # Errors
    /// The server refuses the statement, or does not answer.
    pub async fn plan_text(&mut self, text: &str) -> Result<String, QueryError> {
        Ok(table_text(&self.explain_rows(text).await?))
    }

    async fn explain_rows(&mut self, text: &str) -> Result<Rows, QueryError> {
        // MySQL 8.0.32 and later take another default from explain_format.
        let format = if self.version.mysql_at_least(5, 6, 5) { " FORMAT=TRADITIONAL" } else { "" };
        self.session.query(&format!("EXPLAIN{format} {text}")).await
    }

    /// How a table was made: SHOW CREATE TABLE, with all that stands in it.
    ///
    /// Cost: opens the table, below 1 ms; it waits for a statement that changes the table's form, as long as a session here
    /// waits for any lock.
    ///
    /// # Errors
    /// There is no such table, the account may not see it, or the server does not answer.
    pub async fn definition(&mut self, schema: &str, table: &str) -> Result<String, QueryError> {
        let sql = format!("SHOW CREATE TABLE {}.{}", quoted(schema), quoted(table));
        let rows = self.session.query(&sql).await?;
        Ok(rows.first().and_then(|row| row.at(1)).unwrap_or_default().to_owned())
    }

    /// SHOW ENGINE INNODB STATUS, with the statements that stand in it.
    ///
    /// Cost: as that of [`SOURCE`](crate::mysql::innodb_status::SOURCE).
    ///
    /// # Errors
    /// The account has no PROCESS privilege, or the server does not answer.
    pub async fn innodb_status(&mut self) -> Result<String, QueryError> {
        let rows = self.session.query("SHOW ENGINE INNODB STATUS").await?;
        Ok(rows.first().map(|row| row.string("Status")).unwrap_or_default())
    }

    /// Runs a SELECT and returns what was estimated for it when it ran, which EXPLAIN does not always show.
    ///
    /// # Errors
    /// The server refuses the statement, or does not answer.
    pub async fn run_traced(
        &mut self,
        text: &str,
    ) -> Result<(Rows, Result<Vec<RangeAnalysis>, String>), QueryError> {
        let why_not = self.trace_on().await?;
        let rows = self.session.query(text).await;
        let estimates = match why_not {
            None => self.trace().await?,
            Some(why) => Err(why),
        };
        self.trace_off().await?;
        Ok((rows?, estimates))
    }

    /// Runs a SELECT; the time until its last row was there, and its rows.
    ///
    /// # Errors
    /// The server refuses the statement, or does not answer.
    pub async fn run(&mut self, text: &str) -> Result<(Duration, Rows), QueryError> {
        let begun = Instant::now();
        let rows = self.session.query(text).await?;
        Ok((begun.elapsed(), rows))
    }

    /// Runs a SELECT that reports the pages that it asked for while it read rows, whatever other sessions read; those
    /// of its plan are not among them. None where the server does not count them (MySQL, MariaDB before 10.6.15 and
    /// 10.11.5).
    ///
    /// # Errors
    /// The server refuses the statement, or does not answer.
    pub async fn run_counted(&mut self, text: &str) -> Result<Option<Pages>, QueryError> {
        if !self.version.mariadb_at_least(10, 6, 15) {
            return Ok(None);
        }
        let rows = self.session.query(&format!("ANALYZE FORMAT=JSON {text}")).await?;
        let counted = rows.first().and_then(|row| analyze_json::pages(row.at(0)?));
        Ok(counted.map(|(requested, from_disk)| Pages { requested, from_disk }))
    }

    /// Sets how long a list must be that this session estimates from statistics; None is the server's own value.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn set_dive_limit(&mut self, limit: Option<u64>) -> Result<(), QueryError> {
        let value = limit.map_or_else(|| "DEFAULT".to_owned(), |limit| limit.to_string());
        self.session.query(&format!("SET SESSION eq_range_index_dive_limit = {value}")).await.map(drop)
    }

    /// Gets ready to compare runs: what a transaction sees stays as it is, and no answer comes from a query cache.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn ready_to_compare(&mut self) -> Result<(), QueryError> {
        self.session.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
        if self.version.is_mariadb() || !self.version.mysql_at_least(8, 0, 0) {
            match self.session.query("SET SESSION query_cache_type = OFF").await {
                Err(why) if why.breaks_session() => return Err(why),
                _ => {}
            }
        }
        Ok(())
    }

    /// Begins a transaction that only reads, and sees the tables as they are now.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn begin(&mut self) -> Result<(), QueryError> {
        self.session.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await.map(drop)
    }

    /// Ends it.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn end(&mut self) -> Result<(), QueryError> {
        self.session.query("ROLLBACK").await.map(drop)
    }

    /// InnoDB's counts of pages, of the whole server: no session has its own.
    ///
    /// Cost: counters in memory, below 1 ms.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn pages(&mut self) -> Result<Pages, QueryError> {
        let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN \
                   ('Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_reads')";
        Ok(pages(&self.session.query(sql).await?))
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        self.session.close().await;
    }

    fn running_sql(&self) -> String {
        let (thread, join) = match (self.names_threads, self.version.is_mariadb()) {
            (false, _) => ("NULL", ""),
            (true, true) => ("p.TID", ""),
            (true, false) => {
                ("t.THREAD_OS_ID", "LEFT JOIN performance_schema.threads AS t ON t.PROCESSLIST_ID = p.ID ")
            }
        };
        format!(
            "SELECT p.DB AS DB, p.INFO AS INFO, {thread} AS THREAD_ID \
             FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
             LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID <> CONNECTION_ID() AND p.INFO IS NOT NULL \
             AND p.COMMAND IN ('Query', 'Execute') {join}LIMIT {RUNNING}"
        )
    }

    /// Switches the trace on; why that does not work, where it does not.
    async fn trace_on(&mut self) -> Result<Option<String>, QueryError> {
        let sql = format!(
            "SET SESSION optimizer_trace = 'enabled=on', optimizer_trace_max_mem_size = {TRACE_BYTES}"
        );
        match self.session.query(&sql).await {
            Ok(_) => Ok(None),
            Err(why) if why.breaks_session() => Err(why),
            Err(why) => Ok(Some(format!("the optimizer's trace cannot be switched on: {why}"))),
        }
    }

    async fn trace_off(&mut self) -> Result<(), QueryError> {
        match self.session.query("SET SESSION optimizer_trace = 'enabled=off'").await {
            Err(why) if why.breaks_session() => Err(why),
            _ => Ok(()),
        }
    }

    /// The trace of the statement before.
    async fn trace(&mut self) -> Result<Result<Vec<RangeAnalysis>, String>, QueryError> {
        let sql = "SELECT TRACE, MISSING_BYTES_BEYOND_MAX_MEM_SIZE AS missing, INSUFFICIENT_PRIVILEGES AS refused \
                   FROM information_schema.OPTIMIZER_TRACE";
        match self.session.query(sql).await {
            Ok(rows) => Ok(traced(&rows)),
            Err(why) if why.breaks_session() => Err(why),
            Err(why) => Ok(Err(format!("the optimizer's trace cannot be read: {why}"))),
        }
    }
}
