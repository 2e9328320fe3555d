//! The connection that changes settings, and every statement that changes one.

use std::fmt;
use std::time::Duration;

use spindoctor_collect::mysql::one_server::Answerer;
use spindoctor_collect::mysql::{Limits, Target, Unwritten, Writing, connect_writer};
use spindoctor_model::ServerVersion;
use tokio::time::timeout;

use super::{ApplyError, Restored};
use crate::journal::Journal;
use crate::lease::{self, Held, LOCK, LockedBy, NOT_AS_EXPECTED, Watched, Write};

/// Leads every statement, as in every session of spindoctor.
const TAG: &str = "/* spindoctor tune */";

/// From the first packet to the end of the login. Shorter than a reading session's, because old values wait for it.
const CONNECT: Duration = Duration::from_secs(3);

/// How long one statement may take. Switching the adaptive hash index off empties it, which takes seconds with a large
/// buffer pool; nothing else on the list takes more than milliseconds.
const STATEMENT: Duration = Duration::from_secs(10);

/// The same where undo tablespaces are made, emptied and dropped: each is 16 MiB that a busy disk writes, and a server with a
/// hundred thousand tables lists them all.
const PATIENT_STATEMENT: Duration = Duration::from_secs(120);

/// `ER_TABLESPACE_EXISTS` of 8.0 (mysqld_error.h), and `ER_FILE_EXISTS_ERROR`: a file of that name lies there.
const THERE_ALREADY: [u16; 2] = [1813, 1086];

/// What a server is, and what of it decides which dead man's switch works.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) version: ServerVersion,
    /// See [`Journal::server`].
    pub(crate) server: String,
    /// The same server as sessions that read know it.
    pub(crate) answerer: Answerer,
    /// See [`lease::started`].
    pub(crate) started: i64,
    pub(crate) has_binary_log: bool,
    /// Why no EVENT can stand there; none where one may.
    pub(crate) no_event: Option<String>,
}

/// A connection that may write.
pub(crate) struct Writer {
    /// None once it is broken.
    conn: Option<Writing>,
    /// True where nothing that it does enters the binary log.
    is_silent: bool,
    /// How long a statement may take.
    patience: Duration,
    /// Its own id, as the server says it: a proxy between may have made up the one of the handshake.
    pub(crate) id: u64,
    /// As the server knows it, quoted for a GRANT: `'tuner'@'%'`.
    account: String,
    /// The privilege that setting a global variable takes.
    privilege: &'static str,
}

impl fmt::Debug for Writer {
    /// Without what the connection holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("is_silent", &self.is_silent).finish_non_exhaustive()
    }
}

impl Writer {
    /// Logs in, and keeps what follows out of the binary log.
    pub(crate) async fn connect(target: &Target) -> Result<Self, ApplyError> {
        let limits = Limits { connect: target.limits.connect.min(CONNECT), ..target.limits };
        let conn = connect_writer(target, &limits).await?;
        let (account, privilege) = (String::new(), "SUPER");
        let mut writer =
            Self { conn: Some(conn), is_silent: false, patience: STATEMENT, id: 0, account, privilege };
        // STRICT_ALL_TABLES: a value outside a variable's range is an error, and not made to fit.
        writer.run("SET SESSION sql_mode = 'STRICT_ALL_TABLES', lock_wait_timeout = 2, autocommit = 1, wait_timeout = 28800").await?;
        writer.is_silent = writer.run("SET SESSION sql_log_bin = 0").await.is_ok();
        let rows = writer.rows("SELECT CONNECTION_ID(), CURRENT_USER(), VERSION()").await?;
        if let Some([Some(id), Some(account), Some(version)]) = rows.first().map(Vec::as_slice) {
            writer.id = id.parse().unwrap_or_default();
            let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
            writer.account = format!("{}@{}", lease::quoted(user), lease::quoted(host));
            if ServerVersion::parse(version, "").is_some_and(|version| version.mysql_at_least(8, 0, 0)) {
                writer.privilege = "SYSTEM_VARIABLES_ADMIN";
            }
        }
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

    /// Runs a statement of [`lease::set`]; false where it wrote nothing, because something is not as it expects.
    pub(crate) async fn run_if(&mut self, sql: &str) -> Result<bool, ApplyError> {
        match self.answer(sql).await {
            Ok(_) => Ok(true),
            Err(Failed { code: Some(NOT_AS_EXPECTED), .. }) => Ok(false),
            Err(failed) => Err(self.error(sql, failed)),
        }
    }

    /// Runs a statement and reads its answer; NULL is None.
    pub(crate) async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, ApplyError> {
        match self.answer(sql).await {
            Ok(rows) => Ok(rows),
            Err(failed) => Err(self.error(sql, failed)),
        }
    }

    async fn answer(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failed> {
        let broken = |reason: String| Failed { code: None, reason };
        let Some(conn) = self.conn.as_mut() else { return Err(broken("the connection is broken".into())) };
        match timeout(self.patience, conn.query(&format!("{TAG} {sql}"))).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(Unwritten::Server(error))) => {
                let reason = format!("error {}: {}", error.code, error.message);
                Err(Failed { code: Some(error.code), reason })
            }
            Ok(Err(Unwritten::Broken(error))) => {
                self.conn = None;
                Err(broken(format!("the connection broke: {error}")))
            }
            Err(_) => {
                if let Some(conn) = self.conn.take() {
                    conn.give_up();
                }
                Err(broken(format!("no answer in {} s", self.patience.as_secs())))
            }
        }
    }

    /// In words; where a privilege is missing, with the GRANT.
    fn error(&self, sql: &str, Failed { code, reason }: Failed) -> ApplyError {
        let is_event = sql.contains(" EVENT ");
        // ER_SPECIFIC_ACCESS_DENIED_ERROR; ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR: mysqld_error.h of both lines.
        match code {
            Some(1227) if !is_event && !sql.contains(" UNDO TABLESPACE ") => ApplyError::Denied {
                account: self.account.clone(),
                privilege: format!("{} ON *.*", self.privilege),
                reason,
            },
            Some(1044 | 1142 | 1227) if is_event => ApplyError::Denied {
                account: self.account.clone(),
                privilege: "EVENT ON sys.*".to_owned(),
                reason,
            },
            Some(1044 | 1227) if sql.contains(" UNDO TABLESPACE ") => ApplyError::Denied {
                account: self.account.clone(),
                privilege: "CREATE TABLESPACE ON *.*".to_owned(),
                reason,
            },
            _ => {
                let doing = sql.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
                ApplyError::Statement { doing, reason }
            }
        }
    }

    /// True once nothing can be asked any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.conn.is_none()
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
        const NAMES: [&str; 11] = [
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
            "server_id",
        ];
        let values = self.variables(&NAMES).await?;
        let text = |position: usize| values[position].clone().unwrap_or_default();
        let is_on = |position: usize| text(position).eq_ignore_ascii_case("ON");
        let version = ServerVersion::parse(&text(0), &text(1)).ok_or_else(|| ApplyError::Statement {
            doing: "ask for the version".into(),
            reason: format!("{:?} is no version", text(0)),
        })?;
        if version.only_speaks_as_mysql() {
            return Err(ApplyError::Statement {
                doing: "ask for the version".into(),
                reason: format!("this is {version}: its locks and settings are not those of one server"),
            });
        }
        let started = self.number(&format!("SELECT {}", lease::started(version))).await?;
        let answerer = Answerer {
            hostname: text(2),
            port: text(3),
            server_id: text(10),
            datadir: text(4),
            uuid: text(5),
        };
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
        Ok(Facts { version, server, answerer, started, has_binary_log, no_event })
    }

    /// Takes the lock without waiting; true where this connection has it now. The server closes the connection when it falls
    /// silent for so long, so that a host that dies with the lock does not keep it.
    pub(crate) async fn lock(&mut self, idle_s: u32) -> Result<bool, ApplyError> {
        self.run(&format!("SET SESSION wait_timeout = {idle_s}")).await?;
        Ok(self.number(&format!("SELECT GET_LOCK('{LOCK}', 0)")).await? == Some(1))
    }

    /// True where the lock is held by whom it must be.
    pub(crate) async fn is_held(&mut self, by: &LockedBy) -> Result<bool, ApplyError> {
        let holder = match by {
            LockedBy::Own => self.id,
            LockedBy::Connection(id) | LockedBy::Foreign { connection: id, .. } => *id,
        };
        Ok(self.holder().await? == Some(holder))
    }

    /// The connection that holds the lock.
    pub(crate) async fn holder(&mut self) -> Result<Option<u64>, ApplyError> {
        let holder = self.number(&format!("SELECT IS_USED_LOCK('{LOCK}')")).await?;
        Ok(holder.and_then(|id| u64::try_from(id).ok()))
    }

    /// EVENTs of tuners: schema, name, and the time of its making.
    pub(crate) async fn events(&mut self) -> Result<Vec<(String, String, String)>, ApplyError> {
        let sql = format!(
            "SELECT EVENT_SCHEMA, EVENT_NAME, CREATED FROM information_schema.EVENTS WHERE EVENT_NAME LIKE '{}%' AND EVENT_SCHEMA IN ('{}')",
            lease::EVENT.replace('_', "\\_"),
            lease::SCHEMAS.join("', '")
        );
        let rows = self.rows(&sql).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| match row.as_slice() {
                [Some(schema), Some(name), created] => {
                    Some((schema.clone(), name.clone(), created.clone().unwrap_or_default()))
                }
                _ => None,
            })
            .collect())
    }

    /// Makes the EVENT.
    pub(crate) async fn create_event(
        &mut self,
        watched: &Watched<'_>,
        comment: &str,
        body: &str,
    ) -> Result<(), ApplyError> {
        self.run(&lease::create(watched, comment, body)).await
    }

    /// Gives the EVENT what it has to know now.
    pub(crate) async fn alter_event(&mut self, watched: &Watched<'_>) -> Result<(), ApplyError> {
        self.run(&lease::alter(watched, &lease::body(watched))).await
    }

    /// Takes an EVENT away.
    pub(crate) async fn drop_event(&mut self, schema: &str, name: &str) -> Result<(), ApplyError> {
        self.run(&lease::drop(schema, name)).await
    }

    /// True where nothing that it does enters the binary log.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Statements may take long from here on.
    pub(crate) fn be_patient(&mut self) {
        self.patience = PATIENT_STATEMENT;
    }

    /// All undo tablespaces with their state: `active`, `inactive`, `empty`.
    ///
    /// Cost: the server goes through a row for each tablespace, a microsecond or two each.
    pub(crate) async fn undo_tablespaces(&mut self) -> Result<Vec<(String, String)>, ApplyError> {
        let sql = "SELECT NAME, STATE FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'Undo' ORDER BY NAME";
        let rows = self.rows(sql).await?;
        let pair = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter();
            Some((cells.next()??, cells.next()?.unwrap_or_default()))
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }

    /// Makes one; false where there is one of that name. Names are [`crate::undo::own_name`]'s, which need no quotes.
    pub(crate) async fn create_undo(&mut self, name: &str) -> Result<bool, ApplyError> {
        let sql = format!("CREATE UNDO TABLESPACE {name} ADD DATAFILE '{name}.ibu'");
        match self.answer(&sql).await {
            Ok(_) => Ok(true),
            Err(Failed { code: Some(code), .. }) if THERE_ALREADY.contains(&code) => Ok(false),
            Err(failed) => Err(self.error(&sql, failed)),
        }
    }

    /// Takes new transactions away from one; purge empties it then.
    pub(crate) async fn empty_undo(&mut self, name: &str) -> Result<(), ApplyError> {
        self.run(&format!("ALTER UNDO TABLESPACE {name} SET INACTIVE")).await
    }

    /// Drops one that is empty; the server refuses it of any other.
    pub(crate) async fn drop_undo(&mut self, name: &str) -> Result<(), ApplyError> {
        self.run(&format!("DROP UNDO TABLESPACE {name}")).await
    }

    /// Gives every variable its old value, where it still has one that the tuner of the journal set, and while the lock is held by whom it
    /// must be.
    ///
    /// # Errors
    /// A variable cannot be read or set, or a statement of the tuner's is still under way; what can be set is. Ask again.
    pub(crate) async fn put_back(
        &mut self,
        journal: &Journal,
        variables: &[Held],
        by: &LockedBy,
    ) -> Result<Restored, ApplyError> {
        let facts = self.facts().await?;
        if facts.server != journal.server {
            return Err(ApplyError::OtherServer { expected: journal.server.clone(), found: facts.server });
        }
        if facts.started != journal.server_started {
            return Ok(Restored { restarted: true, ..Restored::default() });
        }
        // A statement that began under the lease may set something yet. Looked at before the values are: one that begins
        // later finds no lease.
        let is_busy = match journal.writer {
            0 => false,
            writer => self.number(&format!("SELECT {}", lease::busy(writer))).await? != Some(0),
        };
        // Variables that depend on each other may need a second pass; the last set is the first put back.
        let mut outcome = self.put_back_once(variables, by).await;
        for _ in 0..2 {
            if outcome.is_ok() {
                break;
            }
            outcome = self.put_back_once(variables, by).await;
        }
        match outcome {
            Ok(_) if is_busy => Err(ApplyError::Statement {
                doing: format!("wait for connection {} of the tuner", journal.writer),
                reason: "the server is still at its last statement".to_owned(),
            }),
            outcome => outcome,
        }
    }

    async fn put_back_once(&mut self, variables: &[Held], by: &LockedBy) -> Result<Restored, ApplyError> {
        let names: Vec<&str> = variables.iter().map(|held| held.name.as_str()).collect();
        if names.is_empty() {
            return Ok(Restored::default());
        }
        let now = self.variables(&names).await?;
        let mut failed = None;
        for (held, value) in variables.iter().zip(&now).rev() {
            if value.as_deref().is_some_and(|value| held.is_ours(value)) {
                let ours: Vec<String> =
                    held.set.iter().filter(|value| !lease::same(value, &held.original)).cloned().collect();
                let write = Write { name: &held.name, expected: &ours, wanted: &held.original };
                // Where it was not as expected, the values are read again below.
                if let Err(error) = self.run_if(&lease::set(by, &[write])).await {
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

    /// What is persisted of these variables; nothing where the server persists nothing.
    pub(crate) async fn persisted(
        &mut self,
        names: &[&str],
        version: ServerVersion,
    ) -> Result<Vec<(String, String)>, ApplyError> {
        if !version.mysql_at_least(8, 0, 0) || names.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let sql = format!(
            "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables WHERE VARIABLE_NAME IN ({}) ORDER BY 1",
            list.join(", ")
        );
        let rows = self.rows(&sql).await?;
        let pair = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter();
            Some((cells.next()??, cells.next()?.unwrap_or_default()))
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }

    /// Says goodbye; whatever comes back, the socket is closed.
    pub(crate) async fn close(mut self) {
        if let Some(conn) = self.conn.take() {
            let _ = timeout(Duration::from_secs(1), conn.disconnect()).await;
        }
    }
}

/// A statement that failed: the server's number, where it was the server.
struct Failed {
    code: Option<u16>,
    reason: String,
}
