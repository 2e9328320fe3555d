//! One connection to a server: made with a deadline, careful with the server, and counted.
//!
//! In: a [`Target`] and [`Limits`]. Out: [`Rows`], or an error that says what happened. Every
//! statement is tagged, has a deadline here and a time limit on the server, waits for no lock, and
//! changes nothing: the session is read only. After a deadline has passed the connection is given
//! up, and later queries fail at once; connect again to go on.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error as DriverFailure, IoError, Opts, OptsBuilder, Row, Value};
use spindoctor_model::ServerVersion;
use spindoctor_model::mysql::NamedValues;
use tokio::time::timeout;

use super::error::{ConnectError, QueryError};
use super::rows::Rows;
use super::target::{Endpoint, Secret, SslMode, Target};
use super::tls;

/// Leads every statement, so that a DBA finds them in the process list and the general log.
const TAG: &str = "/* spindoctor */";

/// The largest packet that is accepted: a full `SHOW ENGINE INNODB STATUS` or process list fits well.
/// Set so that the driver does not ask the server for its own value on every connect.
const MAX_PACKET_BYTES: usize = 64 << 20;

/// How long a statement waits for a metadata or row lock, in seconds: the least that servers accept.
const LOCK_WAIT_S: u32 = 1;

/// Stands for the account in a GRANT where the server will not say who is logged in.
pub(crate) const NOBODY_KNOWS_WHO: &str = "USER";

/// Deadlines of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet to the end of the login and the session's setup.
    pub connect: Duration,
    /// From question to the last row, for each statement.
    pub query: Duration,
}

impl Default for Limits {
    /// 5 s to connect and 2 s for a query: no source of a healthy server takes a tenth of that, and
    /// `doctor` must reach its verdict within 2 s of the window's end even when the server hangs.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), query: Duration::from_secs(2) }
    }
}

/// What a session cost the server so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SessionCost {
    /// Statements sent, those of the setup included.
    pub queries: u64,
    /// Milliseconds from question to last row, summed over all statements.
    pub busy_ms: f64,
}

/// One open connection.
pub struct Session {
    /// None once the session is broken.
    conn: Option<Conn>,
    limits: Limits,
    cost: SessionCost,
    connection_id: u64,
    encrypted: bool,
    version_text: String,
    version_comment: String,
    hostname: String,
    notes: Vec<String>,
}

impl std::fmt::Debug for Session {
    /// Without the driver's own state, which holds the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("connection_id", &self.connection_id)
            .field("version_text", &self.version_text)
            .field("encrypted", &self.encrypted)
            .field("broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, logs in and sets the session up, all within `limits.connect`.
    pub async fn connect(target: &Target, limits: &Limits) -> Result<Self, ConnectError> {
        match timeout(limits.connect, Self::open(target, limits)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ConnectError::Silent { address: target.address(), after: limits.connect }),
        }
    }

    async fn open(target: &Target, limits: &Limits) -> Result<Self, ConnectError> {
        let (conn, encrypted, notes) = log_in(target).await?;
        let mut session = Self {
            connection_id: u64::from(conn.id()),
            conn: Some(conn),
            limits: *limits,
            cost: SessionCost::default(),
            encrypted,
            version_text: String::new(),
            version_comment: String::new(),
            hostname: String::new(),
            notes,
        };
        session.set_up().await.map_err(|error| setup_failed(target, error))?;
        Ok(session)
    }

    /// Asks who the server is, and makes the session harmless: two statements.
    async fn set_up(&mut self) -> Result<(), QueryError> {
        let rows = self.query("SELECT @@version, @@version_comment, @@hostname").await?;
        if let Some(row) = rows.first() {
            let text = |position| row.at(position).unwrap_or_default().to_owned();
            (self.version_text, self.version_comment, self.hostname) = (text(0), text(1), text(2));
        }
        let settings = settings(self.version(), self.limits.query);
        match self.query(&format!("SET {}", settings.join(", "))).await {
            Err(error) if !error.breaks_session() => {}
            outcome => return outcome.map(drop),
        }
        // One of them is refused (a proxy, a fork, a restricted account): the others still count.
        for setting in settings {
            match self.query(&format!("SET {setting}")).await {
                Err(error) if error.breaks_session() => return Err(error),
                Err(error) => self.notes.push(format!("SET {setting}: {error}")),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Asks one statement and reads its whole answer, within the query deadline.
    pub async fn query(&mut self, sql: &str) -> Result<Rows, QueryError> {
        let Some(conn) = self.conn.as_mut() else { return Err(QueryError::Broken) };
        self.cost.queries += 1;
        let start = Instant::now();
        let answer = timeout(self.limits.query, ask(conn, format!("{TAG} {sql}"))).await;
        self.cost.busy_ms += start.elapsed().as_secs_f64() * 1000.0;
        let outcome = match answer {
            Ok(outcome) => outcome.map_err(|error| query_failed(error, self.limits.query)),
            Err(_) => Err(QueryError::NoAnswer { after: self.limits.query }),
        };
        if outcome.as_ref().is_err_and(QueryError::breaks_session) {
            // Dropping the connection closes its socket; the answer, should it come, is not read.
            self.conn = None;
        }
        outcome
    }

    /// Asks for nothing (`COM_PING`), within the query deadline: whether the server's thread answers, and how soon.
    ///
    /// Cost: some microseconds of the server's time; no lock, no statement.
    pub async fn ping(&mut self) -> Result<(), QueryError> {
        let Some(conn) = self.conn.as_mut() else { return Err(QueryError::Broken) };
        let outcome = match timeout(self.limits.query, conn.ping()).await {
            Ok(outcome) => outcome.map_err(|error| query_failed(error, self.limits.query)),
            Err(_) => Err(QueryError::NoAnswer { after: self.limits.query }),
        };
        if outcome.as_ref().is_err_and(QueryError::breaks_session) {
            self.conn = None;
        }
        outcome
    }

    /// The server's id of this connection: it is to be left out of lists of threads.
    pub fn connection_id(&self) -> u64 {
        self.connection_id
    }

    /// The server's version; None where its text has no number.
    pub fn version(&self) -> Option<ServerVersion> {
        ServerVersion::parse(&self.version_text, &self.version_comment)
    }

    /// `@@version` as the server said it.
    pub fn version_text(&self) -> &str {
        &self.version_text
    }

    /// What the server says it is: `MySQL 9.7.4 on db17`.
    pub fn server(&self) -> String {
        let version = self.version().map_or_else(|| self.version_text.clone(), |version| version.to_string());
        format!("{version} on {}", self.hostname)
    }

    /// Whether performance_schema is on: the one variable that decides which sources can tell. Empty where the server
    /// refuses to say: the sources then suppose each flavor's default.
    pub(crate) async fn performance_schema(&mut self) -> NamedValues {
        let mut variables = NamedValues::default();
        if let Ok(rows) = self.query("SELECT @@performance_schema").await
            && let Some(value) = rows.first().and_then(|row| row.at(0))
        {
            variables.insert("performance_schema", value);
        }
        variables
    }

    /// `@@version_comment` as the server said it.
    pub fn version_comment(&self) -> &str {
        &self.version_comment
    }

    /// `@@hostname` as the server said it.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// True when the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// True when no further query can be answered; connect again.
    pub fn is_broken(&self) -> bool {
        self.conn.is_none()
    }

    /// What did not go as it should and did not stop the session: a setting refused, TLS given up.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the session cost the server so far.
    pub fn cost(&self) -> SessionCost {
        self.cost
    }

    /// The account that is logged in, as GRANT wants it: `'app'@'10.%'`.
    pub(crate) async fn grantee(&mut self) -> Option<String> {
        let rows = self.query("SELECT CURRENT_USER()").await;
        rows.ok().and_then(|rows| quote_account(rows.first()?.at(0)?))
    }

    /// Says goodbye to the server, waiting no longer than the query deadline.
    pub async fn close(mut self) {
        if let Some(conn) = self.conn.take() {
            // Whatever comes back, the socket is closed.
            let _ = timeout(self.limits.query, conn.disconnect()).await;
        }
    }
}

/// `app@10.%` as `'app'@'10.%'`; a role or an anonymous account has no host or no name.
fn quote_account(account: &str) -> Option<String> {
    let (user, host) = account.rsplit_once('@')?;
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    Some(format!("{}@{}", quoted(user), quoted(host)))
}

async fn ask(conn: &mut Conn, sql: String) -> Result<Rows, DriverFailure> {
    let mut answer = conn.query_iter(sql).await?;
    let columns = answer
        .columns()
        .map(|columns| columns.iter().map(|column| column.name_str().into_owned()).collect())
        .unwrap_or_default();
    let rows: Vec<Row> = answer.collect().await?;
    answer.drop_result().await?;
    Ok(Rows::new(
        columns,
        rows.into_iter().map(|row| row.unwrap_raw().into_iter().map(text).collect()).collect(),
    ))
}

/// A cell of the text protocol; bytes that are not UTF-8 are shown as the replacement character.
fn text(value: Option<Value>) -> Option<String> {
    match value {
        None | Some(Value::NULL) => None,
        Some(Value::Bytes(bytes)) => Some(
            String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        ),
        Some(other) => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

/// What the session is set to, for each server only what that server knows.
///
/// - `autocommit`: with an `init_connect` that switches it off, the first SELECT would open a
///   transaction that holds back purge and keeps metadata locks for as long as the session lasts.
/// - `character_set_results`: answers are read as UTF-8, whatever the server's default.
/// - `lock_wait_timeout` (5.5.3, MariaDB 5.5), `innodb_lock_wait_timeout`: a DDL that waits must not
///   make the tool wait with it (mysqld_exporter#167).
/// - `max_execution_time` (MySQL 5.7.8, ms, SELECT only), `max_statement_time` (MariaDB 10.1, s):
///   set to three quarters of the deadline here, so that even a busy server's own end comes first and
///   the session lives on.
/// - read only: `transaction_read_only` since MySQL 5.7.20 and MariaDB 11.1.1, `tx_read_only` before
///   (MySQL 5.6.5, MariaDB 10.0).
/// - `long_query_time`, one year: keeps the tool's statements out of the slow log
///   (mysqld_exporter#775). With log_queries_not_using_indexes MySQL logs some all the same: what
///   would stop that, `min_examined_row_limit`, MySQL grants to administrators only, MariaDB to all.
fn settings(version: Option<ServerVersion>, query_limit: Duration) -> Vec<String> {
    let mut settings = vec!["autocommit = 1".to_owned()];
    let Some(version) = version else { return settings };
    let maria = |major, minor, patch| version.mariadb_at_least(major, minor, patch);
    let mysql = |major, minor, patch| version.mysql_at_least(major, minor, patch);
    let limit_ms = (query_limit.as_millis() * 3 / 4).max(1);
    if mysql(5, 5, 3) || maria(5, 5, 0) {
        settings.push("character_set_results = utf8mb4".to_owned());
        settings.push(format!("lock_wait_timeout = {LOCK_WAIT_S}"));
        settings.push(format!("innodb_lock_wait_timeout = {LOCK_WAIT_S}"));
        settings.push("long_query_time = 31536000".to_owned());
    }
    if maria(5, 5, 0) {
        settings.push("min_examined_row_limit = 4294967295".to_owned());
    }
    if mysql(5, 7, 8) {
        settings.push(format!("max_execution_time = {limit_ms}"));
    } else if maria(10, 1, 1) {
        settings.push(format!("max_statement_time = {}.{:03}", limit_ms / 1000, limit_ms % 1000));
    }
    if mysql(5, 7, 20) || maria(11, 1, 1) {
        settings.push("transaction_read_only = 1".to_owned());
    } else if mysql(5, 6, 5) || maria(10, 0, 0) {
        settings.push("tx_read_only = 1".to_owned());
    }
    settings
}

/// A bare connection that is not read only: logged in as every session is, and nothing set on it.
///
/// For the one module that changes settings, `spindoctor_tune::apply`; whoever reads uses a [`Session`].
pub async fn connect_writer(target: &Target, limits: &Limits) -> Result<Conn, ConnectError> {
    match timeout(limits.connect, log_in(target)).await {
        Ok(outcome) => outcome.map(|(conn, _, _)| conn),
        Err(_) => Err(ConnectError::Silent { address: target.address(), after: limits.connect }),
    }
}

/// Connects and logs in; says whether the connection is encrypted, and what had to be given up.
async fn log_in(target: &Target) -> Result<(Conn, bool, Vec<String>), ConnectError> {
    let mode = match target.endpoint {
        // MySQL's clients use no TLS over a unix socket unless it is demanded; nor is any needed.
        Endpoint::Socket(_) => SslMode::Disabled,
        Endpoint::Tcp { .. } => target.tls.mode,
    };
    if mode == SslMode::Disabled {
        return Ok((attempt(target, None).await?, false, Vec::new()));
    }
    match attempt(target, Some(mode)).await {
        Ok(conn) => Ok((conn, true, Vec::new())),
        Err(ConnectError::TlsNotOffered { .. }) if mode == SslMode::Preferred => {
            Ok((attempt(target, None).await?, false, Vec::new()))
        }
        // PREFERRED promises no protection against an active attacker, and a certificate that this
        // TLS library cannot even read (X.509 v1) must not keep the user out.
        Err(error @ ConnectError::Tls { .. }) if mode == SslMode::Preferred => {
            Ok((attempt(target, None).await?, false, vec![format!("{error}; connected without TLS")]))
        }
        Err(error) => Err(error),
    }
}

async fn attempt(target: &Target, tls_mode: Option<SslMode>) -> Result<Conn, ConnectError> {
    if let Endpoint::Socket(path) = &target.endpoint
        && !path.exists()
    {
        return Err(ConnectError::NoSocket { path: path.clone() });
    }
    Conn::new(options(target, tls_mode)).await.map_err(|error| connect_failed(target, error))
}

fn options(target: &Target, tls_mode: Option<SslMode>) -> Opts {
    let plaintext_is_safe = tls_mode.is_some_and(|mode| mode >= SslMode::Required)
        || matches!(target.endpoint, Endpoint::Socket(_));
    let builder = OptsBuilder::default()
        .user(Some(target.user.as_str()))
        .pass(target.password.as_ref().map(Secret::expose))
        .db_name(target.database.as_deref())
        .enable_cleartext_plugin(target.cleartext && plaintext_is_safe)
        .connect_attribute("program_name", "spindoctor")
        // These three keep the driver from asking the server for them.
        .prefer_socket(false)
        .max_allowed_packet(Some(MAX_PACKET_BYTES))
        .wait_timeout(Some(28_800));
    match &target.endpoint {
        Endpoint::Socket(path) => builder.socket(Some(path.to_string_lossy())).into(),
        Endpoint::Tcp { host, port } => builder
            .ip_or_hostname(host.as_str())
            .tcp_port(*port)
            .ssl_opts(tls_mode.map(|mode| tls::options(&target.tls, mode)))
            .into(),
    }
}

fn connect_failed(target: &Target, error: DriverFailure) -> ConnectError {
    let address = target.address();
    match error {
        DriverFailure::Server(error) => refused(address, error.code, error.message),
        DriverFailure::Io(IoError::Tls(error)) => tls::failed(address, &error.to_string()),
        DriverFailure::Io(IoError::Io(error)) => system_failed(target, &error),
        DriverFailure::Driver(error) => match error {
            DriverError::NoClientSslFlagFromServer => {
                ConnectError::TlsNotOffered { address, mode: target.tls.mode.name() }
            }
            DriverError::UnknownAuthPlugin { name } => ConnectError::Plugin { plugin: name },
            DriverError::MysqlOldPasswordDisabled => {
                ConnectError::Plugin { plugin: "mysql_old_password".to_owned() }
            }
            DriverError::CleartextPluginDisabled => ConnectError::Cleartext { address },
            DriverError::ConnectionClosed => ConnectError::Closed { address },
            // The payload of an unexpected packet is not shown: it may echo what was sent.
            DriverError::UnexpectedPacket { .. } => {
                ConnectError::NotMysql { address, reason: "unexpected packet".to_owned() }
            }
            DriverError::NoKeyFound => tls::failed(address, "no private key in the file of --ssl-key"),
            other => ConnectError::NotMysql { address, reason: other.to_string() },
        },
        DriverFailure::Other(error) => ConnectError::NotMysql { address, reason: error.to_string() },
        DriverFailure::Url(error) => ConnectError::NotMysql { address, reason: error.to_string() },
    }
}

fn system_failed(target: &Target, error: &std::io::Error) -> ConnectError {
    use std::io::ErrorKind;
    let (address, reason) = (target.address(), error.to_string());
    // rustls' own errors arrive as InvalidData of the stream.
    if let Some(inner) = error.get_ref()
        && inner.to_string().to_ascii_lowercase().contains("certificate")
    {
        return tls::failed(address, &inner.to_string());
    }
    match (error.kind(), &target.endpoint) {
        (ErrorKind::NotFound, Endpoint::Socket(path)) => ConnectError::NoSocket { path: path.clone() },
        (ErrorKind::PermissionDenied, Endpoint::Socket(path)) => {
            ConnectError::SocketDenied { path: path.clone(), reason }
        }
        (ErrorKind::ConnectionRefused, _) => ConnectError::Refused { address },
        (
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe,
            _,
        ) => ConnectError::Closed { address },
        (ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other, _)
            if error.raw_os_error().is_none() && !reason.contains("lookup") =>
        {
            ConnectError::NotMysql { address, reason }
        }
        _ if reason.contains("lookup") => ConnectError::UnknownHost { address, reason },
        _ => ConnectError::Unreachable { address, reason },
    }
}

/// The server's refusals during login. Numbers: MySQL's error reference, mysqld_error.h.
fn refused(address: String, code: u16, message: String) -> ConnectError {
    match code {
        1040 => ConnectError::TooManyConnections { address, message },
        1203 | 1226 => ConnectError::AccountLimit { address, message },
        1129 | 1130 => ConnectError::HostNotAllowed { address, message },
        // 1044 database denied, 1045 access denied, 1698 denied without a password, 1862 password
        // expired, 3118 and 4151 account locked, 3159 secure transport required.
        1044 | 1045 | 1698 | 1862 | 3118 | 3159 | 4151 => ConnectError::Denied { address, code, message },
        _ => ConnectError::Server { address, code, message },
    }
}

/// A failed setup statement is a failed connect: there is no session to work with.
fn setup_failed(target: &Target, error: QueryError) -> ConnectError {
    let address = target.address();
    match error {
        QueryError::NoAnswer { after } => ConnectError::Silent { address, after },
        QueryError::Broken | QueryError::Gone { .. } => ConnectError::Closed { address },
        QueryError::Denied { code, message }
        | QueryError::Unsupported { code, message }
        | QueryError::Server { code, message } => refused(address, code, message),
        QueryError::TooLong { after } => ConnectError::Silent { address, after },
        QueryError::LockWait { message } => ConnectError::Server { address, code: 1205, message },
    }
}

fn query_failed(error: DriverFailure, limit: Duration) -> QueryError {
    match error {
        DriverFailure::Server(error) => answered(error.code, error.message, limit),
        DriverFailure::Driver(DriverError::UnexpectedPacket { .. }) => {
            QueryError::Gone { reason: "unexpected packet".to_owned() }
        }
        other => QueryError::Gone { reason: other.to_string() },
    }
}

/// The server's errors that say something about the source. Numbers: mysqld_error.h of both lines.
pub(super) fn answered(code: u16, message: String, limit: Duration) -> QueryError {
    match code {
        // database, access, table, column, routine denied; a named privilege missing (1227)
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 3530 => QueryError::Denied { code, message },
        // unknown database 1049, column 1054, syntax 1064, table 1109 and 1146, variable 1193,
        // engine 1286, disabled feature 1235 and 1289, plugin not loaded 1524, invalid use of P_S 1683
        1049 | 1054 | 1064 | 1109 | 1146 | 1193 | 1235 | 1286 | 1289 | 1524 | 1683 => {
            QueryError::Unsupported { code, message }
        }
        1205 => QueryError::LockWait { message },
        // MySQL's max_execution_time; MariaDB's max_statement_time; KILL QUERY
        3024 | 1969 | 1317 => QueryError::TooLong { after: limit },
        // shutdown in progress, KILL, idle timeout (MySQL 4031, MariaDB 1927)
        1053 | 1927 | 4031 => QueryError::Gone { reason: message },
        _ => QueryError::Server { code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(version: &str) -> String {
        settings(ServerVersion::parse(version, ""), Duration::from_secs(2)).join(", ")
    }

    #[test]
    fn accounts_are_quoted_so_that_a_grant_can_be_pasted() {
        assert_eq!(quote_account("app@10.%").as_deref(), Some("'app'@'10.%'"));
        assert_eq!(quote_account("o'hara@x@localhost").as_deref(), Some("'o''hara@x'@'localhost'"));
        assert_eq!(quote_account("role"), None);
    }

    #[test]
    fn sets_only_what_the_server_knows() {
        assert_eq!(settings_of("5.1.73"), "autocommit = 1");
        let five_five = settings_of("5.5.62");
        assert!(
            five_five.contains("lock_wait_timeout = 1") && !five_five.contains("read_only"),
            "{five_five}"
        );
        assert!(settings_of("5.6.51").ends_with("tx_read_only = 1"));
        assert!(settings_of("5.7.44").ends_with("max_execution_time = 1500, transaction_read_only = 1"));
        assert!(settings_of("9.7.4").ends_with("max_execution_time = 1500, transaction_read_only = 1"));
        assert!(settings_of("10.11.19-MariaDB").ends_with("max_statement_time = 1.500, tx_read_only = 1"));
        assert!(settings_of("11.4.2-MariaDB").ends_with("transaction_read_only = 1"));
    }

    #[test]
    fn a_full_server_and_a_silent_one_are_readings_and_a_wrong_password_is_not() {
        let full = refused("db:3306".into(), 1040, "Too many connections".into());
        assert_eq!(full.as_no_session().unwrap().kind, spindoctor_model::NoSessionKind::TooManyConnections);
        let denied = refused("db:3306".into(), 1045, "Access denied for user 'x'@'y'".into());
        assert!(denied.as_no_session().is_none());
        assert!(matches!(denied, ConnectError::Denied { .. }));
    }

    #[test]
    fn a_missing_privilege_carries_the_grant_that_unlocks_it() {
        let limit = Duration::from_secs(2);
        let denied = answered(1227, "Access denied; you need PROCESS".into(), limit);
        let grant = "GRANT PROCESS ON *.* TO spindoctor";
        assert_eq!(denied.into_unavailable(grant).unlock.as_deref(), Some(grant));
        let absent = answered(1146, "Table 'performance_schema.x' doesn't exist".into(), limit);
        assert_eq!(absent.into_unavailable(grant).unlock, None);
    }

    #[test]
    fn bytes_that_are_not_utf8_do_not_lose_the_row() {
        assert_eq!(text(Some(Value::Bytes(vec![b'a', 0xff, b'b']))).as_deref(), Some("a\u{fffd}b"));
        assert_eq!(text(Some(Value::NULL)), None);
    }
}
