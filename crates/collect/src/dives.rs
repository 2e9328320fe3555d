//! The cost of the optimizer's estimates for a statement, read over one session that only reads.
//!
//! In: a target, and statements that the caller has found harmless. Out: what runs, with whole texts; what the optimizer
//! estimated for a statement; the indexes of its tables; InnoDB's counts of pages; and, where the caller asks for it, the
//! statement's own answer. The session is read only, has a time limit for each statement and waits for no lock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use spindoctor_model::ServerVersion;

use crate::host;
use crate::host::thread_ids::ThreadIds;
use crate::mysql::analyze_json;
use crate::mysql::optimizer_trace::{self, RangeAnalysis};
use crate::mysql::{ConnectError, QueryError, Rows, Session, SessionCost, Target};

/// Statements that one look lists.
const RUNNING: usize = 200;
/// A trace may take this much of the server's memory, bytes: a list of a thousand values in five indexes takes some 200 KiB.
const TRACE_BYTES: u32 = 4 << 20;

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

/// A line of EXPLAIN.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanLine {
    /// The table as the statement calls it.
    pub table: String,
    /// The index that is used.
    pub key: Option<String>,
    /// Rows that are expected to be read for each row of the lines before.
    pub rows: Option<f64>,
}

/// What the optimizer says of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The plan.
    pub plan: Vec<PlanLine>,
    /// The tables whose ranges were estimated, or why that is not known.
    pub estimates: Result<Vec<RangeAnalysis>, String>,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its columns in order; an expression is `(expression)`.
    pub columns: Vec<String>,
    /// True where no two rows have the same values.
    pub is_unique: bool,
    /// True where one of its columns may be NULL.
    pub is_nullable: bool,
    /// True for a B-tree: others are not dived into.
    pub is_btree: bool,
    /// Times that a row was read through it since the server started, where the server counts.
    pub reads: Option<u64>,
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

    /// What the server says it is: `MySQL 9.7.4 on db17`.
    pub fn server(&self) -> String {
        self.session.server()
    }

    /// What did not go as it should and did not stop the session.
    pub fn notes(&self) -> &[String] {
        self.session.notes()
    }

    /// True where the session is of no more use: connect again.
    pub fn is_broken(&self) -> bool {
        self.session.is_broken()
    }

    /// What the session cost the server so far.
    pub fn cost(&self) -> SessionCost {
        self.session.cost()
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
             AND OCTET_LENGTH(QUERY_SAMPLE_TEXT) < @@performance_schema_max_sql_text_length - 4 \
             ORDER BY SUM_TIMER_WAIT DESC LIMIT {most}"
        );
        match self.session.query(&sql).await {
            Ok(rows) => Ok(statements(&rows, "SCHEMA_NAME", "QUERY_SAMPLE_TEXT")),
            Err(why) if why.breaks_session() => Err(why),
            Err(_) => Ok(Vec::new()),
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

    /// True where each of these is a table of InnoDB's and no view, whose definition could do anything.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn are_tables(&mut self, tables: &[(String, String)]) -> Result<bool, QueryError> {
        for (schema, table) in tables {
            let sql = format!(
                "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES \
                 WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                literal(schema),
                literal(table)
            );
            let rows = self.session.query(&sql).await?;
            let is_table = rows.first().is_some_and(|row| {
                row.text("TABLE_TYPE") == Some("BASE TABLE") && row.text("ENGINE") == Some("InnoDB")
            });
            if !is_table {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The indexes of a table.
    ///
    /// # Errors
    /// The server refuses, or does not answer.
    pub async fn indexes(&mut self, schema: &str, table: &str) -> Result<Vec<Index>, QueryError> {
        let sql = format!(
            "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, NULLABLE, INDEX_TYPE FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} ORDER BY INDEX_NAME, SEQ_IN_INDEX",
            literal(schema),
            literal(table)
        );
        let mut indexes = indexes(&self.session.query(&sql).await?);
        if self.version.is_mariadb() {
            return Ok(indexes);
        }
        let sql = format!(
            "SELECT INDEX_NAME, COUNT_READ FROM performance_schema.table_io_waits_summary_by_index_usage \
             WHERE OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA = {} AND OBJECT_NAME = {} AND INDEX_NAME IS NOT NULL",
            literal(schema),
            literal(table)
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
        // MySQL 8.0.32 and later take another default from explain_format.
        let format = if self.version.mysql_at_least(5, 6, 5) { " FORMAT=TRADITIONAL" } else { "" };
        let begun = Instant::now();
        let rows = self.session.query(&format!("EXPLAIN{format} {text}")).await?;
        Ok((begun.elapsed(), plan(&rows)))
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

fn traced(rows: &Rows) -> Result<Vec<RangeAnalysis>, String> {
    let row = rows.first().ok_or("the server traced nothing")?;
    if row.number::<u64>("refused").is_some_and(|refused| refused > 0) {
        return Err(
            "the server shows its trace to nobody who may not read all of the statement's tables".to_owned()
        );
    }
    if row.number::<u64>("missing").is_some_and(|bytes| bytes > 0) {
        return Err(format!("the optimizer's trace is longer than {} MiB", TRACE_BYTES >> 20));
    }
    optimizer_trace::parse(row.text("TRACE").unwrap_or_default())
        .ok_or_else(|| "the optimizer's trace is not understood".to_owned())
}

fn statements(rows: &Rows, schema: &str, text: &str) -> Vec<Running> {
    rows.iter()
        .filter_map(|row| {
            let text = row.text(text)?.to_owned();
            Some(Running { schema: row.string(schema), text, thread_id: row.number("THREAD_ID") })
        })
        .collect()
}

fn plan(rows: &Rows) -> Vec<PlanLine> {
    rows.iter()
        .map(|row| PlanLine {
            table: row.string("table"),
            key: row.text("key").map(str::to_owned),
            rows: row.number("rows"),
        })
        .collect()
}

fn indexes(rows: &Rows) -> Vec<Index> {
    let mut indexes: Vec<Index> = Vec::new();
    for row in rows.iter() {
        let name = row.string("INDEX_NAME");
        if indexes.last().is_none_or(|last| last.name != name) {
            indexes.push(Index {
                name,
                is_unique: row.text("NON_UNIQUE") == Some("0"),
                is_btree: row.text("INDEX_TYPE") == Some("BTREE"),
                ..Index::default()
            });
        }
        let Some(index) = indexes.last_mut() else { continue };
        index.columns.push(row.text("COLUMN_NAME").unwrap_or("(expression)").to_owned());
        index.is_nullable |= row.text("NULLABLE") == Some("YES");
    }
    indexes
}

fn add_reads(indexes: &mut [Index], rows: &Rows) {
    let reads: HashMap<&str, u64> =
        rows.iter().filter_map(|row| Some((row.text("INDEX_NAME")?, row.number("COUNT_READ")?))).collect();
    for index in indexes {
        index.reads = reads.get(index.name.as_str()).copied();
    }
}

fn pages(rows: &Rows) -> Pages {
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.at(0).is_some_and(|found| found.eq_ignore_ascii_case(name)));
        row.and_then(|row| row.at(1)?.parse().ok()).unwrap_or_default()
    };
    Pages {
        requested: value("Innodb_buffer_pool_read_requests"),
        from_disk: value("Innodb_buffer_pool_reads"),
    }
}

/// A text as a literal that no quote, backslash or sql_mode can break out of.
fn literal(text: &str) -> String {
    if text.is_empty() {
        return "''".to_owned();
    }
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 0x{hex}")
}

/// A name in backquotes.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], cells: &[&[&str]]) -> Rows {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        let cells = cells
            .iter()
            .map(|row| row.iter().map(|&cell| (cell != "NULL").then(|| cell.to_owned())).collect())
            .collect();
        Rows::new(columns, cells)
    }

    #[test]
    fn indexes_are_shown_with_their_columns_in_order() {
        let answer = rows(
            &["INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME", "NULLABLE", "INDEX_TYPE"],
            &[
                &["k_and_c", "1", "k", "", "BTREE"],
                &["k_and_c", "1", "c", "YES", "BTREE"],
                &["PRIMARY", "0", "id", "", "BTREE"],
                &["words", "1", "NULL", "", "FULLTEXT"],
            ],
        );
        let mut found = indexes(&answer);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].columns, ["k", "c"]);
        assert!(found[0].is_nullable && !found[0].is_unique && found[0].is_btree);
        assert!(found[1].is_unique && !found[1].is_nullable);
        assert!(!found[2].is_btree && found[2].columns == ["(expression)"]);
        add_reads(&mut found, &rows(&["INDEX_NAME", "COUNT_READ"], &[&["k_and_c", "0"], &["PRIMARY", "7"]]));
        assert_eq!([found[0].reads, found[1].reads, found[2].reads], [Some(0), Some(7), None]);
    }

    #[test]
    fn nobody_else_is_no_statement() {
        assert_eq!(statements(&rows(&["DB", "INFO"], &[&["NULL", "NULL"]]), "DB", "INFO"), []);
        let found = statements(&rows(&["db", "info"], &[&["NULL", "SELECT 1"]]), "DB", "INFO");
        assert_eq!(found, [Running { text: "SELECT 1".into(), ..Running::default() }]);
        let found =
            statements(&rows(&["DB", "INFO", "THREAD_ID"], &[&["a", "SELECT 1", "4351"]]), "DB", "INFO");
        assert_eq!(found[0].thread_id, Some(4351));
    }

    #[test]
    fn a_trace_that_is_cut_or_refused_says_so() {
        let traced_rows = |cells: [&str; 3]| traced(&rows(&["TRACE", "missing", "refused"], &[&cells]));
        assert_eq!(traced_rows([r#"{"steps": []}"#, "0", "0"]), Ok(Vec::new()));
        assert!(traced_rows(["", "0", "1"]).unwrap_err().contains("may not read"));
        assert!(traced_rows([r#"{"steps": ["#, "17", "0"]).unwrap_err().contains("longer than 4 MiB"));
        assert!(traced_rows(["x", "0", "0"]).unwrap_err().contains("not understood"));
        assert!(traced(&Rows::default()).is_err());
    }

    #[test]
    fn nothing_breaks_out_of_a_literal_or_a_name() {
        assert_eq!(literal("a'\\"), "_utf8mb4 0x61275c");
        assert_eq!(literal(""), "''");
        assert_eq!(quoted("o`clock"), "`o``clock`");
    }

    #[test]
    fn pages_are_found_by_their_names() {
        let answer = rows(
            &["Variable_name", "Value"],
            &[&["Innodb_buffer_pool_read_requests", "812"], &["Innodb_buffer_pool_reads", "3"]],
        );
        assert_eq!(pages(&answer), Pages { requested: 812.0, from_disk: 3.0 });
    }
}
