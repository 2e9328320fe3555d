//! Who blocks whom: threads, and the edges between them, at one instant.
//!
//! An edge says that one thread waits for something that another holds. A root is a thread that is not waiting and
//! blocks others.

use serde::{Deserialize, Serialize};

use crate::stack::ThreadState;

/// Threads that wait or hold, and who waits for whom.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitGraph {
    /// Threads that wait for others or are waited for.
    pub threads: Vec<WaitingThread>,
    /// Who waits for whom.
    pub edges: Vec<WaitEdge>,
    /// Waits that a bound of a source left out, at least.
    pub left_out: u64,
    /// Waits that were over when the reading ended: not in the edges, as the graph is of one instant.
    pub moved_on: u64,
    /// What could not be seen, and what would unlock it.
    pub notes: Vec<String>,
    /// True where somebody waits on a server that Amazon runs (RDS, Aurora): it refuses KILL, and has procedures in its place.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_amazons: bool,
}

/// A thread of the server that waits or is waited for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingThread {
    /// The kernel's thread id.
    pub thread_os_id: Option<u64>,
    /// The id that `KILL` takes; none for threads of the server itself.
    pub connection_id: Option<u64>,
    /// The thread's name: `connection`, `ib_pg_flush_co`.
    pub name: String,
    /// Its user; empty for threads of the server itself.
    pub user: String,
    /// Its client's host.
    pub host: String,
    /// Its statement now, or the last one of its transaction where the server reports it.
    pub statement: Option<String>,
    /// True where it has an open transaction and no statement runs.
    pub is_idle_in_transaction: bool,
    /// True where the list of threads shows it at a statement, in whatever state: an empty one is that of a prepared statement that is
    /// executed, of a routine's instruction, of a statement that ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_in_statement: bool,
    /// The server's word for what it does: `Waiting for table metadata lock`.
    pub server_state: String,
    /// How long it has been doing that, seconds.
    pub since_s: Option<f64>,
    /// Its open transaction.
    pub transaction: Option<WaitTransaction>,
    /// What the kernel and its frames say it does; none where no stack was taken.
    pub state: Option<ThreadState>,
    /// Its call stack, innermost first, where it was taken.
    pub stack: Vec<String>,
    /// True for one that held something when it ended.
    pub has_ended: bool,
    /// True for one that KILL was sent to and that has not ended, where the list of threads says so (MariaDB's does).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_killed: bool,
}

/// An open transaction, as far as it decides what ending it costs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitTransaction {
    /// Since its start, seconds.
    pub age_s: f64,
    /// Rows that a rollback would have to put back.
    pub rows_modified: u64,
    /// Rows locked.
    pub rows_locked: u64,
    /// True while its changes are undone: after KILL, or where its connection was lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_rolling_back: bool,
    /// True where XA, or a commit under way, has prepared it: it stays, with its locks, when its connection ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_prepared: bool,
}

/// One thread waits for what another holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitEdge {
    /// Place in [`WaitGraph::threads`].
    pub waiter: u32,
    /// Place in [`WaitGraph::threads`]; none where it is held and nobody can see by whom.
    pub holder: Option<u32>,
    /// What kind of lock.
    pub kind: LockKind,
    /// What is locked: `sbtest.sbtest1`, `sbtest.sbtest1 PRIMARY record 5`, `dict_sys mutex (dict0dict.cc:1234)`.
    pub object: String,
    /// How it wants it: `X,REC_NOT_GAP`, `SHARED_READ`; empty where that is not reported.
    pub mode: String,
    /// The function that asked for it; empty where no stack shows it.
    pub wanted_in: String,
    /// For how long it has waited, seconds; none where no source reports it.
    pub waited_s: Option<f64>,
    /// True where the holder was concluded from other readings, not reported.
    pub is_inferred: bool,
}

/// What kind of lock a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// A record, gap or table lock of InnoDB.
    Row,
    /// A metadata lock of a table, schema, routine, trigger, event or tablespace.
    Metadata,
    /// The global read lock, or the commit lock.
    Global,
    /// A backup lock: `LOCK INSTANCE FOR BACKUP`, `BACKUP STAGE`.
    Backup,
    /// `GET_LOCK`.
    User,
    /// A latch of InnoDB: mutex or rw-lock in the sync array.
    Latch,
    /// A pthread mutex.
    #[default]
    Mutex,
    /// A pthread rw-lock.
    RwLock,
    /// A place in the group commit's queues.
    CommitQueue,
    /// The commit order of a replica's appliers.
    CommitOrder,
    /// A concurrency ticket of InnoDB.
    Ticket,
    /// The dictionary: one of its operations goes on.
    Dictionary,
    /// Room in the redo log: a checkpoint has to make it.
    LogSpace,
    /// Purge has to pause.
    Purge,
}

impl LockKind {
    /// In words: `row lock`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Row => "row lock",
            Self::Metadata => "metadata lock",
            Self::Global => "global read lock",
            Self::Backup => "backup lock",
            Self::User => "user lock",
            Self::Latch => "latch",
            Self::Mutex => "mutex",
            Self::RwLock => "rw-lock",
            Self::CommitQueue => "commit queue",
            Self::CommitOrder => "commit order",
            Self::Ticket => "InnoDB ticket",
            Self::Dictionary => "dictionary",
            Self::LogSpace => "redo log space",
            Self::Purge => "purge",
        }
    }
}

/// A thread that waits for a lock of the C library, read from the process's memory. Thread ids are those of the pid
/// namespace of who looks, as in a [`Profile`](crate::Profile).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FutexWait {
    /// The kernel's id of the thread that waits.
    pub thread_os_id: u64,
    /// The address that it waits on.
    pub futex: u64,
    /// Where the lock lies: a rw-lock has several words that are waited on. The same as the futex where nothing else is
    /// known.
    pub lock: u64,
    /// What kind of lock the waiting frames say it is.
    pub kind: FutexKind,
    /// The kernel's id of the thread that holds it, where the lock holds it: a mutex's owner, a rw-lock's writer. None
    /// for a condition variable, which nobody holds.
    pub owner_os_id: Option<u64>,
    /// True where that thread has ended.
    pub owner_has_ended: bool,
    /// How many hold a rw-lock for reading: it counts them, and does not know who they are. 0 where it is none.
    pub readers: u32,
    /// The mutex behind a condition variable, where the waiting frames show it.
    pub behind: Option<MutexBehind>,
    /// For how long it has waited, seconds, or longer where it was woken in vain; none where the source of the stacks
    /// cannot show it.
    pub waited_s: Option<f64>,
    /// The innermost frame that is not the C library's: who asked for the lock.
    pub asked_by: String,
}

/// The mutex that goes with a condition variable: who waits for the condition takes it again when woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MutexBehind {
    /// Where it lies.
    pub mutex: u64,
    /// The kernel's id of the thread that holds it; none where nobody does.
    pub owner_os_id: Option<u64>,
    /// True where that thread has ended.
    pub owner_has_ended: bool,
}

/// A lock of the C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FutexKind {
    /// `pthread_mutex_t`: it knows its owner.
    Mutex,
    /// `pthread_rwlock_t`: it knows its writer.
    RwLock,
    /// `pthread_cond_t`: nobody holds it. The mutex behind it may have an owner.
    Condition,
    /// Something else.
    #[default]
    Unknown,
}

/// A root: who is not waiting and blocks others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitRoot {
    /// Place in [`WaitGraph::threads`]; none for an owner that nobody can see.
    pub thread: Option<u32>,
    /// What most of those who wait for it directly want.
    pub kind: LockKind,
    /// The same in words, as in [`WaitEdge::object`].
    pub object: String,
    /// What it does now: `idle in transaction`, `syncing a file`, `reading a page`.
    pub doing: String,
    /// Threads that wait for it directly.
    pub waiting_directly: u32,
    /// Threads that wait for it, directly or through others.
    pub waiting_in_all: u32,
    /// For how long the longest of them has waited, seconds; none where no source reports it.
    pub longest_wait_s: Option<f64>,
    /// The statement that would free them: `KILL 12`, `KILL QUERY 12`, of Amazon's servers `CALL mysql.rds_kill(12)`; none where no
    /// statement would.
    pub free_with: Option<String>,
    /// What that costs, or why no statement would help: `its transaction is rolled back: 12 changed rows`.
    pub free_note: String,
    /// Rows that a rollback would have to put back, where it is known.
    pub rows_to_roll_back: Option<u64>,
    /// True where every wait for it was concluded from other readings, not reported.
    pub is_inferred: bool,
}
