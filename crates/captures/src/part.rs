//! What was recognised in a text: its documents, each with what it says.

use jiff::civil::DateTime;
use spindoctor_model::mysql::{
    ApplierError, GroupMember, MetadataLock, NamedValues, PreparedXa, ReplicaChannel, RowLockWait,
    ServerThread, Transaction,
};
use spindoctor_model::{InnodbStatus, LoggedTrouble, ServerVersion};

use crate::stacks::CapturedStacks;

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `SHOW ENGINE INNODB STATUS`, or a part of it.
    InnodbStatus,
    /// `SHOW PROCESSLIST` and its like.
    ProcessList,
    /// An error log, or lines of one.
    ErrorLog,
    /// A slow query log, or lines of one.
    SlowLog,
    /// What pt-query-digest prints of one.
    StatementReport,
    /// `SHOW GLOBAL STATUS`
    GlobalStatus,
    /// `SHOW GLOBAL VARIABLES`
    GlobalVariables,
    /// An option file.
    OptionFile,
    /// `SHOW REPLICA STATUS`
    ReplicaStatus,
    /// What performance_schema lists of the parts of a replica.
    Appliers,
    /// `INNODB_TRX`
    Transactions,
    /// Who waits for whose lock.
    LockWaits,
    /// `performance_schema.metadata_locks`
    MetadataLocks,
    /// `SHOW ENGINE INNODB MUTEX`
    Latches,
    /// What MariaDB lists of its thread pool.
    ThreadPool,
    /// Connections by performance_schema's numbers of their threads.
    ThreadIds,
    /// `XA RECOVER`
    PreparedXa,
    /// The members of a replication group.
    GroupMembers,
    /// `SHOW OPEN TABLES`
    OpenTables,
    /// What EXPLAIN and ANALYZE print of a statement, as text, in JSON or as a table.
    Plan,
    /// `SHOW PROFILE`
    StatementProfile,
    /// What performance_schema and `sys` keep since the server's start.
    Summary,
    /// What mysqltuner, tuning-primer and phpMyAdmin's advisor print.
    Tuner,
    /// `SHOW BINARY LOG STATUS`
    BinaryLog,
    /// What pt-deadlock-logger prints.
    Deadlocks,
    /// What `mysqladmin debug` makes a server print.
    ServerStatus,
    /// How far a replica is behind, as pt-heartbeat measures it.
    ReplicaLag,
    /// What mysqldumpslow prints of a slow query log.
    DumpSlow,
    /// A file of another program that looks like one of a server, or names one.
    OtherProgram,
    /// Stacks of threads.
    Stacks,
    /// What a tool of the system prints: `vmstat`, `iostat`, `df`, `top`.
    System,
    /// Not recognised.
    Unknown,
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::InnodbStatus => "InnoDB status",
            Self::ProcessList => "process list",
            Self::ErrorLog => "error log",
            Self::SlowLog => "slow query log",
            Self::StatementReport => "report of pt-query-digest",
            Self::GlobalStatus => "global status",
            Self::GlobalVariables => "global variables",
            Self::OptionFile => "option file",
            Self::ReplicaStatus => "replica status",
            Self::Appliers => "list of a replica's parts",
            Self::Transactions => "list of transactions",
            Self::LockWaits => "list of lock waits",
            Self::MetadataLocks => "list of metadata locks",
            Self::Latches => "list of latches",
            Self::ThreadPool => "list of the thread pool",
            Self::ThreadIds => "list of threads",
            Self::PreparedXa => "list of prepared transactions",
            Self::OpenTables => "list of open tables",
            Self::Plan => "plan of a statement",
            Self::StatementProfile => "profile of a statement",
            Self::Summary => "summary of performance_schema",
            Self::Tuner => "report of a tuning advisor",
            Self::GroupMembers => "members of the group",
            Self::BinaryLog => "binary log status",
            Self::Deadlocks => "list of deadlocks",
            Self::ServerStatus => "status by mysqladmin debug",
            Self::ReplicaLag => "lag by pt-heartbeat",
            Self::DumpSlow => "report of mysqldumpslow",
            Self::OtherProgram => "file of another program",
            Self::Stacks => "stacks",
            Self::System => "output of a system tool",
            Self::Unknown => "not recognised",
        }
    }
}

/// A document within a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The file, as it was named.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its first line in the text as it was after the damage was undone, from 1.
    pub first_line: usize,
    /// How many lines it has.
    pub lines: usize,
    /// The time that it names, by the server's clock.
    pub time: Option<DateTime>,
    /// The server's version, where it says so.
    pub version: Option<ServerVersion>,
    /// What is to be said of it, in words: what a log says, what an option file includes.
    pub says: Vec<String>,
    /// What it says, reading by reading.
    pub moments: Vec<Moment>,
    /// Its beginning, of what was not recognised.
    pub begins: String,
}

/// What was read at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moment {
    /// When, by the server's clock, where the text says so.
    pub time: Option<DateTime>,
    /// Seconds since the first moment of its document, where that says so and no time.
    pub after_s: Option<f64>,
    /// What it says.
    pub said: Vec<Said>,
}

/// One reading.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// The numbers of InnoDB's status.
    Innodb(Box<InnodbStatus>),
    /// A process list.
    Threads(Vec<ServerThread>),
    /// The sessions that InnoDB's status names: less than a process list.
    SomeThreads(Vec<ServerThread>),
    /// Open transactions.
    Transactions(Vec<Transaction>),
    /// Who waits for whose lock.
    LockWaits(Vec<RowLockWait>),
    /// Metadata locks.
    MetadataLocks(Vec<MetadataLock>),
    /// `SHOW GLOBAL STATUS`
    Status(NamedValues),
    /// `SHOW GLOBAL VARIABLES`
    Variables(NamedValues),
    /// What an option file sets: what the server runs with may differ.
    Options(NamedValues),
    /// Transactions that XA prepared.
    PreparedXa(Vec<PreparedXa>),
    /// Connections by performance_schema's own numbers of their threads.
    ThreadIds(Vec<(u64, u64)>),
    /// Channels of a replica.
    Replication(Vec<ReplicaChannel>),
    /// Errors with which workers of a replica's applier stopped.
    ApplierErrors(Vec<ApplierError>),
    /// Members of a replication group.
    GroupMembers(Vec<GroupMember>),
    /// Stacks of threads.
    Stacks(Box<CapturedStacks>),
    /// What an error log says of trouble.
    Troubles(Vec<LoggedTrouble>),
}
