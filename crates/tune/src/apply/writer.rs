//! The connection that changes settings, and every statement that does.

use std::fmt;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error as DriverError, Row, Value};
use spindoctor_collect::mysql::{Limits, Target, connect_writer};
use spindoctor_model::ServerVersion;
use tokio::time::timeout;

use super::{ApplyError, Restored};
use crate::journal::Journal;
use crate::lease::{self, Held, LOCK, Watched};

/// Leads every statement, as in every session of spindoctor.
const TAG: &str = "/* spindoctor tune */";

/// From the first packet to the end of the login. Shorter than a reading session's, because old values wait for it.
const CONNECT: Duration = Duration::from_secs(3);

/// How long one statement may take. Switching the adaptive hash index off empties it, which takes seconds with a large
/// buffer pool; nothing else on the list takes more than milliseconds.
const STATEMENT: Duration = Duration::from_secs(10);

/// What a server is, and what of it decides which dead man's switch works.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) version: ServerVersion,
    /// See [`Journal::server`].
    pub(crate) server: String,
    /// See [`lease::started`].
    pub(crate) started: i64,
    pub(crate) has_binary_log: bool,
    /// Why no EVENT can stand there; none where one may.
    pub(crate) no_event: Option<String>,
}

/// A connection that may write.
pub(crate) struct Writer {
    /// None once it is broken.
    conn: Option<Conn>,
    /// True where nothing that it does enters the binary log.
    is_silent: bool,
}

impl fmt::Debug for Writer {
    /// Without the driver's own state, which holds the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("is_silent", &self.is_silent).finish_non_exhaustive()
    }
}

impl Writer {
    /// Logs in, and keeps what follows out of the binary log.
    pub(crate) async fn connect(target: &Target) -> Result<Self, ApplyError> {
        let limits = Limits { connect: target.limits.connect.min(CONNECT), ..target.limits };
        let conn = connect_writer(target, &limits).await?;
        let mut writer = Self { conn: Some(conn), is_silent: false };
        // STRICT_ALL_TABLES: a value outside a variable's range is an error, and not made to fit.
        writer.run("SET SESSION sql_mode = 'STRICT_ALL_TABLES', lock_wait_timeout = 2, autocommit = 1, wait_timeout = 28800").await?;
        writer.is_silent = writer.run("SET SESSION sql_log_bin = 0").await.is_ok();
        if writer.conn.is_none() {
            return Err(ApplyError::Statement {
                doing: "log in".into(),
                reason: "the server closed the connection".into(),
            });
        }
        Ok(writer)
    }

    /// Runs a statement that has no answer.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), ApplyError> {
        self.rows(sql).await.map(drop)
    }

    /// Runs a statement and reads its answer; NULL is None.
    pub(crate) async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, ApplyError> {
        let failed = |reason: String| {
            let doing = sql.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
            ApplyError::Statement { doing, reason }
        };
        let Some(conn) = self.conn.as_mut() else { return Err(failed("the connection is broken".into())) };
        match timeout(STATEMENT, conn.query::<Row, _>(format!("{TAG} {sql}"))).await {
            Ok(Ok(rows)) => {
                Ok(rows.into_iter().map(|row| row.unwrap_raw().into_iter().map(text).collect()).collect())
            }
            Ok(Err(DriverError::Server(error))) => {
                Err(failed(format!("error {}: {}{}", error.code, error.message, advice(error.code))))
            }
            Ok(Err(error)) => {
                self.conn = None;
                Err(failed(format!("the connection broke: {error}")))
            }
            Err(_) => {
                self.conn = None;
                Err(failed(format!("no answer in {} s", STATEMENT.as_secs())))
            }
        }
    }

    /// The first cell of the first row.
    pub(crate) async fn cell(&mut self, sql: &str) -> Result<Option<String>, ApplyError> {
        Ok(self.rows(sql).await?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }

    /// A whole number; None for NULL and what is none.
    pub(crate) async fn number(&mut self, sql: &str) -> Result<Option<i64>, ApplyError> {
        let text = self.cell(sql).await?;
        // MariaDB's difference of a number and a text is a DOUBLE: `1763756400` or `1.763e9`.
        Ok(text.and_then(|text| text.parse::<f64>().ok()).map(|number| number.round() as i64))
    }

    /// Global variables as the server prints them, in the order of the names; None for one that it does not have.
    pub(crate) async fn variables(&mut self, names: &[&str]) -> Result<Vec<Option<String>>, ApplyError> {
        let list: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", list.join(", "));
        let rows = self.rows(&sql).await?;
        let value = |name: &str| {
            let row = rows
                .iter()
                .find(|row| matches!(row.first(), Some(Some(found)) if found.eq_ignore_ascii_case(name)))?;
            row.get(1)?.clone()
        };
        Ok(names.iter().map(|name| value(name)).collect())
    }

    /// Which server this is.
    pub(crate) async fn facts(&mut self) -> Result<Facts, ApplyError> {
        const NAMES: [&str; 10] = [
            "version",
            "version_comment",
            "hostname",
            "port",
            "datadir",
            "server_uuid",
            "log_bin",
            "event_scheduler",
            "super_read_only",
            "wsrep_on",
        ];
        let values = self.variables(&NAMES).await?;
        let text = |position: usize| values[position].clone().unwrap_or_default();
        let is_on = |position: usize| text(position).eq_ignore_ascii_case("ON");
        let version = ServerVersion::parse(&text(0), &text(1)).ok_or_else(|| ApplyError::Statement {
            doing: "ask for the version".into(),
            reason: format!("{:?} is no version", text(0)),
        })?;
        let started = self.number(&format!("SELECT {}", lease::started(version))).await?;
        // The UUID lies in the data folder; MariaDB has none, and is known by where it is.
        let server = if text(5).is_empty() { [text(2), text(3), text(4)].join(":") } else { text(5) };
        let has_binary_log = is_on(6);
        let no_event = if !is_on(7) {
            Some(format!("event_scheduler is {}", text(7)))
        } else if is_on(8) {
            Some("super_read_only is ON".to_owned())
        } else if is_on(9) {
            // Galera sends DDL to every node.
            Some("wsrep_on is ON: an EVENT would go to every node of the cluster".to_owned())
        } else if has_binary_log && !self.is_silent {
            Some(
                "this account may not SET sql_log_bin = 0, so that an EVENT would go to the replicas"
                    .to_owned(),
            )
        } else {
            None
        };
        let started = started.ok_or_else(|| ApplyError::Statement {
            doing: "ask for Uptime".into(),
            reason: "the server does not say when it was started".into(),
        })?;
        Ok(Facts { version, server, started, has_binary_log, no_event })
    }

    /// Takes the lock without waiting; true where this connection has it now.
    pub(crate) async fn lock(&mut self) -> Result<bool, ApplyError> {
        Ok(self.number(&format!("SELECT GET_LOCK('{LOCK}', 0)")).await? == Some(1))
    }

    /// The connection that holds the lock.
    pub(crate) async fn holder(&mut self) -> Result<Option<u64>, ApplyError> {
        let holder = self.number(&format!("SELECT IS_USED_LOCK('{LOCK}')")).await?;
        Ok(holder.and_then(|id| u64::try_from(id).ok()))
    }

    /// Which of the schemas has the EVENT, with the time of its making.
    pub(crate) async fn event(&mut self) -> Result<Option<(String, String)>, ApplyError> {
        let sql = format!(
            "SELECT EVENT_SCHEMA, CREATED FROM information_schema.EVENTS WHERE EVENT_NAME = '{}' AND EVENT_SCHEMA IN ('{}')",
            lease::EVENT,
            lease::SCHEMAS.join("', '")
        );
        let rows = self.rows(&sql).await?;
        Ok(rows.into_iter().next().and_then(|row| match row.as_slice() {
            [Some(schema), created] => Some((schema.clone(), created.clone().unwrap_or_default())),
            _ => None,
        }))
    }

    /// Makes the EVENT.
    pub(crate) async fn create_event(
        &mut self,
        schema: &str,
        comment: &str,
        body: &str,
    ) -> Result<(), ApplyError> {
        self.run(&lease::create(schema, comment, body)).await
    }

    /// Gives the EVENT what it has to know now.
    pub(crate) async fn alter_event(&mut self, watched: &Watched<'_>) -> Result<(), ApplyError> {
        self.run(&lease::alter(watched.schema, &lease::body(watched))).await
    }

    /// Takes the EVENT away.
    pub(crate) async fn drop_event(&mut self, schema: &str) -> Result<(), ApplyError> {
        self.run(&lease::drop(schema)).await
    }

    /// Gives every variable of a journal its old value, where it still has one that the tuner set. Only the holder of the
    /// lock may ask for it.
    ///
    /// # Errors
    /// A variable cannot be read or set; what can be set is. Ask again.
    pub(crate) async fn put_back(&mut self, journal: &Journal) -> Result<Restored, ApplyError> {
        let facts = self.facts().await?;
        if facts.server != journal.server {
            return Err(ApplyError::OtherServer { expected: journal.server.clone(), found: facts.server });
        }
        if facts.started != journal.server_started {
            return Ok(Restored { restarted: true, ..Restored::default() });
        }
        // Variables that depend on each other may need a second pass; the last set is the first put back.
        let mut outcome = self.put_back_once(&journal.variables).await;
        for _ in 0..2 {
            if outcome.is_ok() {
                break;
            }
            outcome = self.put_back_once(&journal.variables).await;
        }
        outcome
    }

    async fn put_back_once(&mut self, variables: &[Held]) -> Result<Restored, ApplyError> {
        let names: Vec<&str> = variables.iter().map(|held| held.name.as_str()).collect();
        if names.is_empty() {
            return Ok(Restored::default());
        }
        let now = self.variables(&names).await?;
        let mut failed = None;
        for (held, value) in variables.iter().zip(&now).rev() {
            if value.as_deref().is_some_and(|value| held.is_ours(value)) {
                let sql = format!("SET GLOBAL {} = {}", held.name, lease::literal(&held.original));
                if let Err(error) = self.run(&sql).await {
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let now = self.variables(&names).await?;
        let mut restored = Restored::default();
        for (held, value) in variables.iter().zip(now) {
            let value = value.unwrap_or_default();
            if held.is_ours(&value) {
                return Err(ApplyError::Statement {
                    doing: format!("SET GLOBAL {} = {}", held.name, held.original),
                    reason: format!("it is {value} all the same"),
                });
            } else if lease::same(&value, &held.original) {
                restored.restored.push((held.name.clone(), value));
            } else {
                restored.left.push((held.name.clone(), value));
            }
        }
        Ok(restored)
    }

    /// Says goodbye; whatever comes back, the socket is closed.
    pub(crate) async fn close(mut self) {
        if let Some(conn) = self.conn.take() {
            let _ = timeout(Duration::from_secs(1), conn.disconnect()).await;
        }
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        None | Some(Value::NULL) => None,
        Some(Value::Bytes(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Some(other) => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

/// What to do about an error of the server. Numbers: mysqld_error.h of both lines.
fn advice(code: u16) -> &'static str {
    match code {
        // a named privilege is missing; access denied
        1227 | 1044 | 1142 | 1045 => {
            "; the account needs SYSTEM_VARIABLES_ADMIN (MySQL 8.0 and later) or SUPER"
        }
        _ => "",
    }
}
