//! One connection to a server: made with a deadline, careful with the server, and counted.
//!
//! In: a [`Target`] and [`Limits`]. Out: [`Rows`], or an error that says what happened. Every
//! statement is tagged, has a deadline here and a time limit on the server, waits for no lock, and
//! changes nothing: the session is read only. After a deadline has passed the connection is given
//! up, and later queries fail at once; connect again to go on.

use std::time::{Duration, Instant};

use spindoctor_model::ServerVersion;
use spindoctor_model::mysql::NamedValues;
use spindoctor_wire::connection::Connection;
use tokio::time::timeout;

use super::answer::{self, Stopped};
use super::error::{ConnectError, QueryError};
use super::login::{log_in, refused};
use super::logins::Logins;
use super::one_server::{self, Answerer};
use super::rows::Rows;
use super::target::Target;
use super::unanswered::BoxedLogin;

/// Leads every statement, so that a DBA finds them in the process list and the general log.
const TAG: &str = "/* spindoctor */";

/// How long a statement waits for a metadata or row lock, in seconds: the least that servers accept.
const LOCK_WAIT_S: u32 = 1;
/// What a session sets so that a server that bounds its clients' answers (`max_join_size`, `sql_select_limit`) refuses or cuts none.
/// Any account may, on every version.
pub const WHOLE_ANSWERS: &str = "sql_big_selects = 1, sql_select_limit = 18446744073709551615";

/// How long a session may rest before the server ends it: twice the longest interval between two looks that a command takes, an
/// hour.
const IDLE_S: u32 = 7_200;

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
    conn: Option<Box<Connection>>,
    address: String,
    logins: Logins,
    limits: Limits,
    cost: SessionCost,
    connection_id: u64,
    encrypted: bool,
    version_text: String,
    version_comment: String,
    hostname: String,
    /// Which server answers; none where it does not say, or only speaks as MySQL and may be many.
    answerer: Option<Answerer>,
    /// The account as GRANT wants it; asked for when first needed.
    grantee: Option<String>,
    notes: Vec<String>,
}

impl std::fmt::Debug for Session {
    /// Who it is and how it is, without what the connection holds.
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
        let (owned, limits) = (target.clone(), *limits);
        let login = |by, late| -> BoxedLogin<Self> {
            Box::pin(async move { owned.logins.log_in(by, late, Self::open(&owned, &limits)).await })
        };
        target.logins.readers().connect(target, limits.connect, login).await
    }

    async fn open(target: &Target, limits: &Limits) -> Result<Self, ConnectError> {
        let conn = log_in(target).await?;
        let greeted = conn.version().clone();
        let mut session = Self {
            address: target.address(),
            connection_id: u64::from(conn.id()),
            encrypted: conn.is_encrypted(),
            notes: conn.note().map(str::to_owned).into_iter().collect(),
            conn: Some(Box::new(conn)),
            logins: target.logins.clone(),
            limits: *limits,
            cost: SessionCost::default(),
            version_text: String::new(),
            version_comment: String::new(),
            hostname: String::new(),
            answerer: None,
            grantee: None,
        };
        let answers = session.set_up(&greeted).await.map_err(|error| setup_failed(target, error))?;
        match why_no_server(target, &session, &greeted, answers.as_ref()) {
            None => {
                session.answerer = answers.map(|(answerer, _)| answerer);
                Ok(session)
            }
            Some(error) => {
                session.close().await;
                Err(error)
            }
        }
    }

    /// Asks who the server is, and makes the session harmless: two statements. Which server answers, with its own number of the
    /// connection; none where it does not say, or only speaks as MySQL and may be many.
    async fn set_up(&mut self, greeted: &str) -> Result<Option<(Answerer, u64)>, QueryError> {
        const VERSION: &str = "SELECT @@version, @@version_comment";
        let columns = one_server::columns(ServerVersion::parse(greeted, ""));
        let rows = match self.query(&format!("{VERSION}, {columns}")).await {
            // It speaks as MySQL, and lacks one of them.
            Err(error) if !error.breaks_session() => self.query(&format!("{VERSION}, @@hostname")).await?,
            answer => answer?,
        };
        let mut answers = None;
        if let Some(row) = rows.first() {
            let text = |position| row.at(position).unwrap_or_default().to_owned();
            (self.version_text, self.version_comment, self.hostname) = (text(0), text(1), text(2));
            let is_many = self.version().is_some_and(ServerVersion::only_speaks_as_mysql);
            answers = Answerer::read(row, 2).filter(|_| !is_many);
        }
        if let Some(version) = self.version()
            && version.only_speaks_as_mysql()
        {
            self.notes.push(format!(
                "this is {version}: what it does not have of MySQL's is not checked; examine the servers behind it, where there are such"
            ));
        }
        let settings = settings(self.version(), self.limits.query);
        match self.query(&format!("SET {}", settings.join(", "))).await {
            Err(error) if !error.breaks_session() => {}
            outcome => return outcome.map(|_| answers),
        }
        // One of them is refused (a proxy, a fork, a restricted account): the others still count.
        for setting in settings {
            match self.query(&format!("SET {setting}")).await {
                Err(error) if error.breaks_session() => return Err(error),
                Err(error) => self.notes.push(format!("SET {setting}: {error}")),
                Ok(_) => {}
            }
        }
        Ok(answers)
    }

    /// Asks which server answers now, behind what was asked before. A session that is with another one by then is given up.
    ///
    /// Cost: one statement that reads variables, no lock and no table.
    pub(crate) async fn expect_same_server(&mut self) -> Result<(), QueryError> {
        let Some(before) = self.answerer.clone() else { return Ok(()) };
        let columns = one_server::columns(self.version());
        let rows = match self.query(&format!("SELECT {columns}")).await {
            Err(error) if error.breaks_session() => return Err(error),
            // That it does not say it now shows nothing.
            Err(_) => return Ok(()),
            Ok(rows) => rows,
        };
        let Some((now, number)) = rows.first().and_then(|row| Answerer::read(row, 0)) else { return Ok(()) };
        if now.is_same(&before) && one_server::proxy_by_number(self.connection_id, number).is_none() {
            return Ok(());
        }
        self.keep(Err(QueryError::OtherServer { before: before.to_string(), now: now.to_string() }))
    }

    /// Asks one statement and reads its whole answer, within the query deadline and the bounds of every answer. Where the other
    /// sessions of its target are with another server by now, it is given up.
    pub async fn query(&mut self, sql: &str) -> Result<Rows, QueryError> {
        if let Some(before) = &self.answerer
            && let Some(now) = self.logins.server().other_than(before)
        {
            let error = QueryError::OtherServer { before: before.to_string(), now: now.to_string() };
            return self.keep(Err(error));
        }
        let Some(conn) = self.conn.as_mut() else { return Err(QueryError::Broken) };
        self.cost.queries += 1;
        let start = Instant::now();
        let answer = timeout(self.limits.query, answer::ask(conn, &format!("{TAG} {sql}"))).await;
        self.cost.busy_ms += start.elapsed().as_secs_f64() * 1000.0;
        let outcome = self.outcome(answer);
        self.keep(outcome)
    }

    /// Asks for nothing (`COM_PING`), within the query deadline: whether the server's thread answers, and how soon.
    ///
    /// Cost: some microseconds of the server's time; no lock, no statement.
    pub async fn ping(&mut self) -> Result<(), QueryError> {
        let Some(conn) = self.conn.as_mut() else { return Err(QueryError::Broken) };
        let answer = timeout(self.limits.query, answer::ping(conn)).await;
        let outcome = self.outcome(answer);
        self.keep(outcome)
    }

    fn outcome<T>(
        &self,
        answer: Result<Result<T, Stopped>, tokio::time::error::Elapsed>,
    ) -> Result<T, QueryError> {
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Stopped::Server(error))) => Err(answered(error.code, error.message, self.limits.query)),
            Ok(Err(Stopped::Broken(reason))) => Err(QueryError::Gone { reason }),
            Ok(Err(Stopped::TooMuch(what))) => {
                Err(QueryError::TooMuch { address: self.address.clone(), what: what.to_owned() })
            }
            Err(_) => Err(QueryError::NoAnswer { after: self.limits.query }),
        }
    }

    /// Gives the connection up where it is of no more use: dropping it closes its socket, and the rest of the answer, should
    /// it come, is not read. One that the server has not answered is kept until it does.
    fn keep<T>(&mut self, outcome: Result<T, QueryError>) -> Result<T, QueryError> {
        if outcome.as_ref().is_err_and(QueryError::breaks_session)
            && let Some(conn) = self.conn.take()
            && matches!(outcome, Err(QueryError::NoAnswer { .. }))
        {
            self.logins.readers().keep(conn);
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

    /// Whether performance_schema is on: the one variable that decides which sources have an answer. Empty where the
    /// server refuses to say: the sources then suppose each flavor's default.
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

    /// The account that is logged in, as GRANT wants it: `'app'@'10.%'`; a placeholder where the server will not say.
    pub(crate) async fn grantee(&mut self) -> String {
        if self.grantee.is_none() {
            let rows = self.query("SELECT CURRENT_USER()").await;
            self.grantee = rows.ok().and_then(|rows| quote_account(rows.first()?.at(0)?));
        }
        self.grantee.clone().unwrap_or_else(|| NOBODY_KNOWS_WHO.to_owned())
    }

    /// Says goodbye to the server, waiting no longer than the query deadline.
    pub async fn close(mut self) {
        if let Some(conn) = self.conn.take() {
            // Whatever comes back, the socket is closed.
            let _ = timeout(self.limits.query, conn.close()).await;
        }
    }
}

/// `app@10.%` as `'app'@'10.%'`; a role or an anonymous account has no host or no name.
fn quote_account(account: &str) -> Option<String> {
    let (user, host) = account.rsplit_once('@')?;
    Some(format!("{}@{}", spindoctor_sql::quoted(user), spindoctor_sql::quoted(host)))
}

/// What the session is set to, for each server only what that server knows.
///
/// - `autocommit`: with an `init_connect` that switches it off, the first SELECT would open a
///   transaction that holds back purge and keeps metadata locks for as long as the session lasts.
/// - `character_set_results`: answers are read as UTF-8, whatever the server's default.
/// - `lock_wait_timeout` (5.5.3, MariaDB 5.5), `innodb_lock_wait_timeout`: a DDL that waits must not
///   make the tool wait with it (mysqld_exporter#167).
/// - `sql_big_selects`, `sql_select_limit`: a server that bounds its clients' answers (`max_join_size`) would refuse ours, or cut
///   them without a word.
/// - `wait_timeout`: some servers end sessions that rest for a few seconds; the tool rests between two looks.
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
        settings.push(WHOLE_ANSWERS.to_owned());
        settings.push(format!("wait_timeout = {IDLE_S}"));
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

/// Why a session is not with the one server that its target stands for, where it is not.
fn why_no_server(
    target: &Target,
    session: &Session,
    greeted: &str,
    answers: Option<&(Answerer, u64)>,
) -> Option<ConnectError> {
    let address = target.address();
    let said = [greeted, session.version_text.as_str(), session.version_comment.as_str()];
    let by_name = said.iter().find_map(|said| one_server::proxy_named_in(said)).map(str::to_owned);
    let by_number = || one_server::proxy_by_number(session.connection_id, answers?.1);
    if let Some(because) = by_name.or_else(by_number) {
        return Some(ConnectError::Proxy { address, because });
    }
    let (answerer, _) = answers?;
    let before = target.logins.server().expect(answerer).err()?.to_string();
    Some(ConnectError::OtherServer { address, before, now: answerer.to_string() })
}

/// A failed setup statement is a failed connect: there is no session to work with.
fn setup_failed(target: &Target, error: QueryError) -> ConnectError {
    let address = target.address();
    // ProxySQL's interface for administrators refuses what it does not know with 1045, as a server does a password.
    if let QueryError::Denied { message, .. }
    | QueryError::Unsupported { message, .. }
    | QueryError::Server { message, .. } = &error
        && let Some(name) = one_server::proxy_named_in(message)
    {
        return ConnectError::Proxy { address, because: name.to_owned() };
    }
    match error {
        QueryError::NoAnswer { after } => ConnectError::Silent { address, after },
        QueryError::Broken | QueryError::Gone { .. } => ConnectError::Closed { address },
        QueryError::OtherServer { before, now } => ConnectError::OtherServer { address, before, now },
        QueryError::TooMuch { what, .. } => ConnectError::NotMysql { address, reason: what },
        QueryError::Denied { code, message }
        | QueryError::Unsupported { code, message }
        | QueryError::Server { code, message } => refused(address, code, message),
        QueryError::TooLong { after } => ConnectError::Silent { address, after },
        QueryError::LockWait { message } => ConnectError::Server { address, code: 1205, message },
    }
}

/// The server's errors that say something about the source. Numbers: mysqld_error.h of both lines.
pub(crate) fn answered(code: u16, message: String, limit: Duration) -> QueryError {
    match code {
        // database, access, table, column, routine denied; a named privilege missing (1227); XA RECOVER without
        // XA_RECOVER_ADMIN (1401)
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1401 | 3530 => QueryError::Denied { code, message },
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
        for version in ["5.5.62", "9.7.4", "10.1.48-MariaDB"] {
            assert!(
                settings_of(version).contains("sql_select_limit = 18446744073709551615, wait_timeout = 7200")
            );
        }
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
    fn what_only_a_proxy_says_is_no_refused_login() {
        let target = Target::new(super::super::target::Endpoint::Socket("/run/proxy.sock".into()), "app");
        let message = "ProxySQL Admin Error: near \"@\": syntax error".to_owned();
        let error = setup_failed(&target, QueryError::Denied { code: 1045, message });
        assert!(!error.is_wrong_password() && error.is_refusal(), "{error:?}");
        assert_eq!(
            error.to_string(),
            "/run/proxy.sock is a proxy (ProxySQL): its answers may come from several servers; connect to one of them by its own \
             address"
        );
        let other = QueryError::OtherServer { before: "a:1".into(), now: "b:2".into() };
        assert!(other.breaks_session() && !setup_failed(&target, other).is_refusal());
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
}
