//! What a server's sources say, raw: one field of [`ServerSample`] per kind of answer.
//!
//! Counters are cumulative as the server gives them; rates are computed by [`crate::Window`] when
//! looked at. Picoseconds become nanoseconds in the parser, once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::innodb_status::InnodbStatus;
use crate::readings::readings;

/// How rarely the threads are listed at most where sampling has no end, seconds: the pace of both lists of them in
/// `crates/collect/src/mysql`, and how long a list stands for in `crates/sessions`. After a longer time a list says nothing of
/// what was in between.
pub const THREADS_LISTED_WITHIN_S: u32 = 15;
/// How rarely the server's counters are read at most where sampling has no end, seconds: the pace of `SHOW GLOBAL STATUS` in
/// `crates/collect/src/mysql`. Readings further apart have a gap between them.
pub const STATUS_READ_WITHIN_S: u32 = 4;

readings! {
    /// Everything one sample holds about the server. A field is `NotAsked` where its source was not due.
    pub struct ServerSample, kept as "server.", exported as "" {
        /// `SHOW GLOBAL STATUS`.
        status: NamedValues => [numbers],
        /// `SHOW GLOBAL VARIABLES`.
        variables: NamedValues => [lasts],
        /// `SHOW ENGINE INNODB STATUS`, parsed, with what was not understood kept.
        innodb_status: InnodbStatus => [numbers],
        /// `information_schema.INNODB_METRICS`, by metric name.
        innodb_metrics: BTreeMap<String, InnodbMetric> => [numbers],
        /// Every thread but spindoctor's own: `performance_schema.threads` or the process list.
        threads: Vec<ServerThread> => [],
        /// `information_schema.INNODB_TRX`.
        transactions: Vec<Transaction> => [],
        /// Statements by digest, the costliest first, bounded.
        digests: Vec<StatementDigest> => [],
        /// Statements that ended with an error, and errors by number.
        errors: ErrorSummary => [],
        /// `performance_schema.events_waits_summary_global_by_event_name`, the longest first, bounded.
        waits: Vec<WaitSummary> => [],
        /// `performance_schema.file_summary_by_event_name`: the logs only.
        log_files: Vec<FileSummary> => [numbers],
        /// Metadata locks of the objects that somebody waits for, granted and pending, bounded.
        ///
        /// MariaDB's METADATA_LOCK_INFO lists granted locks of every object, and none that is pending.
        metadata_locks: Vec<MetadataLock> => [],
        /// The last statements of connections that rest, bounded; read where somebody waits for a lock that a session keeps without
        /// a transaction, and no list of metadata locks was read; and of those alone whose rows others wait for.
        last_statements: Vec<LastStatement> => [],
        /// Who waits for whose lock of `GET_LOCK`, bounded; read where somebody waits for one and no list of metadata locks was read.
        user_lock_waits: Vec<UserLockWait> => [],
        /// Who waits for whose row lock, bounded.
        row_lock_waits: Vec<RowLockWait> => [],
        /// Connections of each account since the server's start, those with the most first, bounded.
        accounts: Vec<AccountSummary> => [],
        /// `XA RECOVER`: transactions that are prepared, bounded; read where a transaction has no connection.
        prepared_xa: Vec<PreparedXa> => [],
        /// Replication channels under both vocabularies.
        replication: Vec<ReplicaChannel> => [numbers],
        /// The members of the replication group that this server is part of, as it sees them; empty where it is in none.
        group_members: Vec<GroupMember> => [],
        /// Errors of the workers of a replica's applier, bounded; read where a channel's status says no more than that one failed.
        applier_errors: Vec<ApplierError> => [],
    }
    beside them {
        /// Names of the sources whose answer was cut at its limit: the list holds part of what there is.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        cut: Vec<String>,
    }
}

/// Names with values as text, as `SHOW STATUS` and `SHOW VARIABLES` give them.
///
/// Names are folded to lower case on the way in: servers differ in it, MySQL ignores it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamedValues(BTreeMap<String, String>);

impl NamedValues {
    /// The value as text; the name in any case.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// The value as a number; None where there is no such name or it holds no number.
    pub fn number(&self, name: &str) -> Option<f64> {
        // Rust takes `NaN` and `inf` for numbers; a server that says so says nothing.
        self.text(name)?.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// The value as a switch: `ON`, `YES`, `TRUE`, `1` and their opposites.
    pub fn switch(&self, name: &str) -> Option<bool> {
        match self.text(name)?.to_ascii_uppercase().as_str() {
            "ON" | "YES" | "TRUE" | "1" => Some(true),
            "OFF" | "NO" | "FALSE" | "0" => Some(false),
            _ => None,
        }
    }

    /// Sets one value; the name in any case.
    pub fn insert(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_ascii_lowercase(), value.into());
    }

    /// Names in lower case with their values, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True where there is no name at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for NamedValues {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        // Sorted first, the tree is made at once; of two of a name the last one counts.
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()))
                .collect(),
        )
    }
}

/// One row of `INNODB_METRICS`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct InnodbMetric {
    /// `COUNT`: meaningless while the metric is disabled.
    pub count: f64,
    /// False for the many metrics that are off by default.
    pub enabled: bool,
}

/// One thread of the server as it names it: a connection, an applier or a background thread.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerThread {
    /// `performance_schema.threads.THREAD_ID`; MariaDB's process list has none.
    pub internal_id: Option<u64>,
    /// The id that `KILL` takes; background threads have none.
    pub connection_id: Option<u64>,
    /// The kernel's thread id (`THREAD_OS_ID`, MariaDB `TID`).
    pub thread_os_id: Option<u64>,
    /// `thread/sql/one_connection`, `thread/innodb/page_flush_thread`; empty where unknown.
    pub name: String,
    /// True for a client's connection; false for appliers and background threads.
    pub is_connection: bool,
    /// The user, empty for background threads.
    pub user: String,
    /// The client's host, without the port.
    pub host: String,
    /// The current schema, empty where none.
    pub schema: String,
    /// `Query`, `Sleep`, `Connect`, `Daemon`, ...
    pub command: String,
    /// Seconds in this state.
    pub time_s: f64,
    /// The state text; empty for an idle connection.
    pub state: String,
    /// The statement now running, cut to 1,024 characters; None where there is none.
    pub statement: Option<String>,
    /// The statement without its literals, where it was asked for and the server knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_text: Option<String>,
    /// A number that changes with each statement of the thread, where it was asked for and the server has one
    /// (`events_statements_current.EVENT_ID`, MariaDB's `QUERY_ID`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement_number: Option<u64>,
    /// The last statement that it ended, where none runs, it was asked for and the server keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_statement: Option<String>,
}

/// What a connection did last, before it came to rest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStatement {
    /// `performance_schema.threads.THREAD_ID`.
    pub internal_id: Option<u64>,
    /// Its connection.
    pub connection_id: Option<u64>,
    /// The statement, cut to 1,024 characters.
    pub statement: String,
}

/// A wait for a lock of `GET_LOCK`, of which the holder is known by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UserLockWait {
    /// The connection that waits.
    pub waiting_connection_id: u64,
    /// The connection that holds the lock.
    pub blocking_connection_id: u64,
    /// The lock's name.
    pub name: String,
}

impl ServerSample {
    /// The last statement of a thread that rests, from whichever source has it.
    pub fn last_statement<'a>(&'a self, thread: &'a ServerThread) -> Option<&'a str> {
        let of_thread = |one: &&LastStatement| {
            let same = |a: Option<u64>, b: Option<u64>| a.is_some() && a == b;
            same(one.connection_id, thread.connection_id) || same(one.internal_id, thread.internal_id)
        };
        let listed =
            || self.last_statements.value()?.iter().find(of_thread).map(|one| one.statement.as_str());
        thread.last_statement.as_deref().or_else(listed)
    }
}

impl ServerThread {
    /// True for a client session that runs or waits for something: not asleep, not sending a binary log to a replica.
    pub fn is_at_work(&self) -> bool {
        self.is_connection
            && !matches!(self.command.as_str(), "Sleep" | "Daemon" | "Binlog Dump" | "Binlog Dump GTID" | "")
    }
}

/// One open InnoDB transaction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Transaction {
    /// `trx_id` as text.
    pub id: String,
    /// Its connection; 0 in the table is None here.
    pub connection_id: Option<u64>,
    /// `RUNNING`, `LOCK WAIT`, `ROLLING BACK`, `COMMITTING`.
    pub state: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// Seconds it has waited for a lock, where it does.
    pub waited_s: Option<f64>,
    /// Rows it has locked (an estimate).
    pub rows_locked: u64,
    /// Rows it has changed.
    pub rows_modified: u64,
    /// True where a list that somebody took has no column of them: `rows_modified` is then no count. The server's own lists have it.
    #[serde(skip)]
    pub changes_unread: bool,
    /// Its statement; None between statements.
    pub statement: Option<String>,
    /// The id of the lock that it waits for, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_lock: Option<String>,
    /// `READ COMMITTED`, where the list says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
}

/// The name of a transaction that XA prepared, as its coordinator chose it: any bytes, so both parts are kept in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PreparedXa {
    /// `formatID`.
    pub format_id: i64,
    /// The global transaction's name (gtrid).
    pub global_hex: String,
    /// The branch's name (bqual).
    pub branch_hex: String,
}

impl PreparedXa {
    /// The most bytes that each part may have (XA's MAXGTRIDSIZE and MAXBQUALSIZE).
    pub const MOST_BYTES: usize = 64;

    /// The name as XA COMMIT and XA ROLLBACK take it: `'order-4711','branch-2',1`, in hexadecimal where a part holds more than
    /// printable ASCII without quotes and backslashes. None where it is no name: that was left out, or is not what a server
    /// says.
    pub fn literal(&self) -> Option<String> {
        let (global, branch) = (part(&self.global_hex)?, part(&self.branch_hex)?);
        (self.global_hex.len() > 1).then(|| format!("{global},{branch},{}", self.format_id))
    }
}

/// One part of a prepared transaction's name as a literal.
fn part(hex: &str) -> Option<String> {
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !hex.len().is_multiple_of(2) || hex.len() > 2 * PreparedXa::MOST_BYTES {
        return None;
    }
    let bytes = hex.as_bytes().chunks(2).filter_map(|two| {
        let two = std::str::from_utf8(two).ok()?;
        u8::from_str_radix(two, 16).ok()
    });
    let is_plain = |&byte: &u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'\'' && byte != b'\\';
    let bytes: Vec<u8> = bytes.collect();
    Some(match bytes.iter().all(is_plain) {
        true => format!("'{}'", String::from_utf8_lossy(&bytes)),
        false => format!("X'{hex}'"),
    })
}

/// One row of the statement summary, counters since the summary was reset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StatementDigest {
    /// The schema it ran in.
    pub schema: String,
    /// The digest's hash.
    pub digest: String,
    /// The normalised statement.
    pub text: String,
    /// Seconds since it was first seen: counters of a digest that is younger than the window grew
    /// from zero within it.
    pub first_seen_s: Option<f64>,
    /// Executions.
    pub executions: u64,
    /// Time in all, nanoseconds (the server counts picoseconds).
    pub total_ns: u64,
    /// Time in locks, nanoseconds.
    pub lock_ns: u64,
    /// Rows read.
    pub rows_examined: u64,
    /// Rows returned.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
    /// Executions that joined without an index on the second table.
    pub full_joins: u64,
    /// Executions that scanned the first table whole.
    pub full_scans: u64,
    /// Temporary tables that went to disk.
    pub disk_temporary_tables: u64,
    /// Executions that ended with an error; None in recordings from before that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
}

impl StatementDigest {
    /// Stands for all prepared statements of a server that keeps no text of them.
    pub const WITHOUT_TEXT: &str = "(prepared statements: this server keeps no text of them)";
}

/// How clients' statements ended, counters since the server's start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorSummary {
    /// Statements that clients sent, prepared and executed ones among them.
    pub statements: u64,
    /// Of these, those that ended with an error.
    pub failed: u64,
    /// Errors and warnings by number, those of the last minute first, bounded; None where the server does not count them so (before
    /// MySQL 8.0, MariaDB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_number: Option<Vec<ErrorCount>>,
}

/// How often one error was raised, as an error of a statement or as a warning: the server counts both as one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorCount {
    /// Its number: 1290.
    pub number: u32,
    /// The server's name of it: `ER_OPTION_PREVENTS_STATEMENT`.
    pub name: String,
    /// How often it was raised, without those that a handler in a stored program took.
    pub raised: u64,
    /// Seconds since it was first raised.
    pub first_seen_s: Option<f64>,
}

/// One row of the wait summary by event name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WaitSummary {
    /// `wait/synch/mutex/innodb/trx_sys_mutex`.
    pub event: String,
    /// Waits counted.
    pub count: u64,
    /// Time waited, nanoseconds (the server counts picoseconds).
    pub total_ns: u64,
}

/// One row of the file summary by event name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FileSummary {
    /// `wait/io/file/innodb/innodb_log_file`.
    pub event: String,
    /// Operations that neither read nor write: of a log in use, syncs.
    pub sync_count: u64,
    /// Time in them, nanoseconds (the server counts picoseconds).
    pub sync_ns: u64,
}

/// Connections of one account since the server's start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountSummary {
    /// The user.
    pub user: String,
    /// The client's host, as the account sees it; empty where the server counts by user.
    pub host: String,
    /// Connections now.
    pub current: u64,
    /// Connections ever.
    pub total: u64,
    /// Statements ever, where the server counts them by account.
    pub statements: Option<u64>,
}

/// One metadata lock, granted or wanted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetadataLock {
    /// `TABLE`, `GLOBAL`, `COMMIT`, `BACKUP LOCK`, `SCHEMA`, `USER LEVEL LOCK`, ...
    pub object_type: String,
    /// Schema of the object, empty where it has none.
    pub schema: String,
    /// Name of the object, empty where it has none.
    pub name: String,
    /// `SHARED_READ`, `EXCLUSIVE`, ...
    pub lock_type: String,
    /// True for granted, false for pending.
    pub granted: bool,
    /// `performance_schema.threads.THREAD_ID` of the owner, where known.
    pub owner_internal_id: Option<u64>,
    /// Connection id of the owner, where known.
    pub owner_connection_id: Option<u64>,
}

/// One transaction that waits for a row lock of another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RowLockWait {
    /// The connection that waits.
    pub waiting_connection_id: Option<u64>,
    /// The connection that holds the lock, or stands before it in the queue.
    pub blocking_connection_id: Option<u64>,
    /// The transaction that waits.
    pub waiting_transaction: String,
    /// The transaction that holds the lock.
    pub blocking_transaction: String,
    /// `schema.table`.
    pub table: String,
    /// The index whose record is locked; empty for a table lock.
    pub index: String,
    /// The locked record as the server prints it, where it does.
    pub record: String,
    /// The mode wanted: `X`, `X,REC_NOT_GAP`, `AUTO_INC`.
    pub mode: String,
    /// Seconds waited so far.
    pub waited_s: f64,
}

/// One replication channel of this replica.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaChannel {
    /// Channel or connection name, empty for the default one.
    pub name: String,
    /// Host of the source.
    pub source_host: String,
    /// Port of the source.
    pub source_port: u16,
    /// `Yes`, `No`, `Connecting`.
    pub receiver_running: String,
    /// `Yes` or `No`.
    pub applier_running: String,
    /// Seconds behind the source; None where the server says NULL.
    pub behind_s: Option<f64>,
    /// What the receiver does.
    pub receiver_state: String,
    /// What the applier does.
    pub applier_state: String,
    /// The last receiver error, empty where none.
    pub receiver_error: String,
    /// Its number; None where there is none, or the server does not say.
    pub receiver_errno: Option<u32>,
    /// The last applier error, empty where none.
    pub applier_error: String,
    /// Its number; None where there is none, or the server does not say.
    pub applier_errno: Option<u32>,
    /// The source's binary log up to which the receiver has read; empty where the server does not say.
    pub received_file: String,
    /// How far into that file.
    pub received_position: Option<u64>,
    /// The source's binary log up to which the applier has committed; empty where the server does not say.
    pub applied_file: String,
    /// How far into that file.
    pub applied_position: Option<u64>,
    /// Bytes of all relay logs that are there, those that are applied already among them.
    pub relay_log_bytes: Option<u64>,
    /// By how many seconds it is to be behind on purpose (`SOURCE_DELAY`, `MASTER_DELAY`); None where the server does not say.
    pub sql_delay_s: Option<f64>,
}

/// The error that stopped a worker of a replica's applier.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplierError {
    /// The channel, empty for the default one.
    pub channel: String,
    /// Its number: 1062.
    pub number: u32,
    /// The server's words, with the transaction and its place in the source's binary log.
    pub message: String,
}

impl ReplicaChannel {
    /// In the error of an applier with workers, where the message of the worker is (MySQL; sql/rpl_replica.cc).
    const OF_WORKERS: &str = "replication_applier_status_by_worker";

    /// The applier's error with its number, or the receiver's where the applier has none.
    pub fn error(&self) -> Option<(Option<u32>, &str)> {
        let both = [(self.applier_errno, &self.applier_error), (self.receiver_errno, &self.receiver_error)];
        both.into_iter().find(|(_, error)| !error.is_empty()).map(|(number, error)| (number, error.as_str()))
    }

    /// True where the applier's error says that a worker failed, and not why.
    pub fn worker_failed(&self) -> bool {
        self.applier_error.contains(Self::OF_WORKERS)
    }

    /// Seconds behind the source beyond those that it is to be behind on purpose; None where the server does not say how far it is
    /// behind.
    pub fn late_s(&self) -> Option<f64> {
        let behind_s = self.behind_s?;
        let delay_s = match self.sql_delay_s {
            Some(delay_s) => delay_s,
            // A status without the column, and a reading from before it was read: the applier says that it waits on purpose.
            None if self.waits_on_purpose() => behind_s,
            None => 0.0,
        };
        Some((behind_s - delay_s).max(0.0))
    }

    /// True where the applier waits until an event is as old as its delay wants.
    fn waits_on_purpose(&self) -> bool {
        let state = self.applier_state.to_ascii_lowercase();
        ["waiting until source_delay", "waiting until master_delay"].iter().any(|wait| state.contains(wait))
    }
}

impl Transaction {
    /// True where each statement has a read view of its own, which goes with it (ha_innodb.cc, external_lock).
    pub fn has_view_of_statement(&self) -> bool {
        matches!(self.isolation.as_deref(), Some("READ COMMITTED" | "READ UNCOMMITTED"))
    }

    /// True where the lock that it requests is one of a table, as that of its AUTO_INCREMENT counter is.
    /// `INNODB_TRX.trx_requested_lock_id` of a row's lock is `4711:52:4:2` (transaction, space, page, place; MariaDB, MySQL up to
    /// 5.7) or `1407:4:5:9:1408` (8.0), of a table's `4711:1045` or `1407:1045:1408`.
    pub fn wants_a_table(&self) -> bool {
        self.requested_lock.as_ref().is_some_and(|id| matches!(id.matches(':').count(), 1 | 2))
    }
}

/// One member of a replication group (Group Replication), as the server that was asked sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupMember {
    /// Its host, as it reports itself to the group.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// In upper case: `ONLINE`, `RECOVERING`, `OFFLINE`, `ERROR`, `UNREACHABLE`.
    pub state: String,
    /// `PRIMARY`, `SECONDARY`; empty on 5.7, which does not say.
    pub role: String,
    /// True for the server that was asked; None where the source does not say.
    pub is_self: Option<bool>,
    /// Transactions that it received and has not certified yet; None where the source does not say, as on 5.7.
    pub to_certify: Option<u64>,
    /// Transactions of other members that are certified and that it has not applied yet; None where the source does not say.
    pub to_apply: Option<u64>,
}

impl GroupMember {
    /// The state of a member whose plugin does not run.
    pub const OFFLINE: &str = "OFFLINE";
    /// The state of a member that the server which was asked no longer reaches.
    pub const UNREACHABLE: &str = "UNREACHABLE";
    /// That of a member which left its group, or could not join it.
    pub const ERROR: &str = "ERROR";
    /// That of a member which joins and has not applied yet what it missed.
    pub const RECOVERING: &str = "RECOVERING";

    /// True where the members that are reached are no majority: half of them is none (MySQL Reference Manual, Handling a Network
    /// Partition and Loss of Quorum).
    pub fn lack_a_majority(members: &[Self]) -> bool {
        let unreachable = members.iter().filter(|one| one.state == Self::UNREACHABLE).count();
        unreachable > 0 && unreachable * 2 >= members.len()
    }

    /// Where it is: `db2:3306`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// How many are in which state: `1 ONLINE, 2 UNREACHABLE`.
    pub fn states(members: &[Self]) -> String {
        let mut states: Vec<(&str, usize)> = Vec::new();
        for member in members {
            match states.iter_mut().find(|(state, _)| *state == member.state) {
                Some((_, count)) => *count += 1,
                None => states.push((&member.state, 1)),
            }
        }
        states.sort_unstable();
        let parts: Vec<String> =
            states.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
        parts.join(", ")
    }
}
