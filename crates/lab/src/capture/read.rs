//! Asks a server in trouble what the sources ask, and keeps the answers as they came.

use std::process::Command;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use spindoctor_collect::mysql::{Plan, Rows, SOURCES, innodb_status, replica_status};
use spindoctor_collect::source::Answer;
use spindoctor_corpus::{Document, Part, Table};
use spindoctor_model::{ServerSample, ServerVersion};

use super::{Capture, Read};
use crate::command::find;
use crate::error::{Error, Result};
use crate::server::Server;

/// Between the two times that counters and lists are read.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// How often the status is read until it has what it should have: latches are waited for during microseconds.
const STATUS_READINGS: u32 = 3_000;
/// A statement's answer is given up after this.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is long and says nothing about a moment.
const NOT_OF_A_MOMENT: [&str; 6] = [
    "SHOW GLOBAL VARIABLES",
    "information_schema.INNODB_METRICS",
    "performance_schema.events_waits_summary_global_by_event_name",
    "performance_schema.file_summary_by_event_name",
    "performance_schema.accounts",
    "performance_schema.events_errors_summary_global_by_error",
];

/// What is read twice, a second apart: rates and lists that move.
const TWICE: [&str; 4] = [
    "SHOW GLOBAL STATUS",
    "performance_schema.threads",
    "information_schema.PROCESSLIST",
    "SHOW FULL PROCESSLIST",
];

/// What people hand in, and what later sources may ask: name and statement. A server that does not have it answers with an
/// error, which is left out.
const BESIDE_THE_SOURCES: [(&str, &str); 12] = [
    ("SHOW FULL PROCESSLIST", "SHOW FULL PROCESSLIST"),
    ("SHOW OPEN TABLES", "SHOW OPEN TABLES WHERE In_use > 0"),
    ("XA RECOVER", "XA RECOVER"),
    ("SHOW ENGINE INNODB MUTEX", "SHOW ENGINE INNODB MUTEX"),
    ("SHOW MASTER STATUS", "SHOW MASTER STATUS"),
    ("information_schema.INNODB_LOCKS", "SELECT * FROM information_schema.INNODB_LOCKS LIMIT 200"),
    ("information_schema.INNODB_LOCK_WAITS", "SELECT * FROM information_schema.INNODB_LOCK_WAITS LIMIT 200"),
    (
        "performance_schema.prepared_statements_instances",
        "SELECT * FROM performance_schema.prepared_statements_instances LIMIT 50",
    ),
    (
        "performance_schema.events_statements_current",
        "SELECT * FROM performance_schema.events_statements_current LIMIT 100",
    ),
    (
        "performance_schema.events_waits_current",
        "SELECT * FROM performance_schema.events_waits_current LIMIT 100",
    ),
    ("performance_schema.data_locks", "SELECT * FROM performance_schema.data_locks LIMIT 100"),
    ("performance_schema.setup_consumers", "SELECT * FROM performance_schema.setup_consumers"),
];

/// All that is read of the server.
pub(super) async fn read(server: &Server, capture: &Capture) -> Result<Document> {
    let mut reader = Reader {
        conn: server.connect().await.map_err(Error::statement("connect"))?,
        begun: Instant::now(),
        document: Document::default(),
    };
    let status = reader.status(capture.status_has).await?;
    if capture.read == Read::Status {
        reader.document.parts.push(status);
        return Ok(reader.document);
    }
    reader.sources(server.version(), capture.read, &status).await?;
    for (name, sql) in BESIDE_THE_SOURCES {
        if let Ok(table) = reader.ask(sql).await {
            reader.add(name, sql, &table);
        }
    }
    tokio::time::sleep(SECOND_LOOK.saturating_sub(reader.begun.elapsed())).await;
    let again: Vec<(String, String)> = reader.document.parts.iter().map(named).collect();
    for (name, sql) in again.into_iter().filter(|(name, _)| TWICE.contains(&name.as_str())) {
        if let Ok(table) = reader.ask(&sql).await {
            reader.add(&name, &sql, &table);
        }
    }
    if capture.read == Read::Stacks {
        reader.document.parts.extend(stacks(server.pid()));
    }
    Ok(reader.document)
}

/// A part's source, and what was asked.
fn named(part: &Part) -> (String, String) {
    let name = part.name.split(" at ").next().unwrap_or_default();
    (name.to_owned(), part.asked.clone())
}

struct Reader {
    conn: Conn,
    begun: Instant,
    document: Document,
}

impl Reader {
    /// The InnoDB status that has this text.
    async fn status(&mut self, has: &str) -> Result<Part> {
        let sql = "SHOW ENGINE INNODB STATUS";
        for _ in 0..STATUS_READINGS {
            let table = self.ask(sql).await?;
            let text = table.to_vertical();
            if text.contains(has) {
                let name =
                    format!("{} at {:.1} s", innodb_status::SOURCE.name, self.begun.elapsed().as_secs_f64());
                return Ok(Part { name, asked: sql.into(), text: text.trim_end().into() });
            }
        }
        Err(Error::NotWatched {
            scenario: "capture",
            because: format!("none of {STATUS_READINGS} readings of the InnoDB status had {has:?}"),
        })
    }

    /// Asks every source, in their order: what one answers decides what the next is asked.
    async fn sources(&mut self, version: ServerVersion, read: Read, status: &Part) -> Result<()> {
        let mut sample = ServerSample::default();
        for source in SOURCES {
            if source.name == innodb_status::SOURCE.name {
                self.document.parts.push(status.clone());
                continue;
            }
            // One that better ones have answered is asked all the same: servers differ in which one that is.
            let sql = match (source.plan)(version, sample.variables.value()) {
                Plan::Ask(sql) => sql.to_owned(),
                Plan::AskAbout(about) => match about(&sample) {
                    Ok(Some(sql)) => sql,
                    Ok(None) | Err(_) => continue,
                },
                Plan::Elsewhere | Plan::Cannot(_) => continue,
            };
            match self.ask(&sql).await {
                Ok(table) => {
                    let rows = Rows::new(table.columns.clone(), table.rows.clone());
                    (source.parse)(&rows, Answer::default(), &mut sample);
                    if read == Read::Everything || !NOT_OF_A_MOMENT.contains(&source.name) {
                        self.add(source.name, &sql, &table);
                    }
                }
                Err(Error::Statement { error: mysql_async::Error::Server(error), .. }) => {
                    let text = format!("ERROR {} ({}): {}", error.code, error.state, error.message);
                    let name = source.name.to_owned();
                    self.document.parts.push(Part { name, asked: sql, text });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, sql: &str, table: &Table) {
        // A channel has some sixty columns: a line each.
        let text = if name == replica_status::SOURCE.name { table.to_vertical() } else { table.to_text() };
        let name = format!("{name} at {:.1} s", self.begun.elapsed().as_secs_f64());
        self.document.parts.push(Part { name, asked: sql.into(), text: text.trim_end_matches('\n').into() });
    }

    /// The rows of an answer, as the text protocol brings them.
    async fn ask(&mut self, sql: &str) -> Result<Table> {
        let asking = async {
            let mut answer = self.conn.query_iter(sql).await?;
            let columns = answer.columns_ref().iter().map(|column| column.name_str().into_owned()).collect();
            let rows: Vec<Row> = answer.collect().await?;
            Ok((columns, rows))
        };
        let (columns, rows) = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(answer) => answer.map_err(Error::statement(sql))?,
            Err(_) => {
                return Err(Error::Silent { statement: "a source's statement", seconds: PATIENCE.as_secs() });
            }
        };
        let rows = rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect();
        Ok(Table { columns, rows })
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// Every thread's stack, as gdb prints it; nothing where gdb is not installed or may not attach.
fn stacks(pid: u32) -> Option<Part> {
    const ARGUMENTS: [&str; 9] = [
        "--batch",
        "--quiet",
        "-nx",
        "-ex",
        "set pagination off",
        "-ex",
        "set debuginfod enabled off",
        "-ex",
        "thread apply all backtrace 40",
    ];
    let gdb = find("gdb")?;
    let output = Command::new(gdb).args(ARGUMENTS).arg("-p").arg(pid.to_string()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let begins = text.find("\nThread ")?;
    let asked = "gdb --batch -ex 'thread apply all backtrace 40' -p PID".to_owned();
    Some(Part { name: "stacks".into(), asked, text: text[begins..].trim().to_owned() })
}
