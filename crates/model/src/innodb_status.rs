//! `SHOW ENGINE INNODB STATUS` as numbers, from MySQL 5.1 to 9.7 and MariaDB.
//!
//! Every number is an `Option`: versions print different lines, and a line that is absent is not a
//! zero. MySQL 8.0.28 to 9.7 print spin lines that are always zero (their counters were removed);
//! the parser leaves those None.

use serde::{Deserialize, Serialize};

/// The parsed text. Sections and lines that a version does not print stay None or empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InnodbStatus {
    /// Seconds that the per-second averages in the text cover.
    pub averages_over_s: Option<u64>,
    /// The highest of the averages of reads, writes and syncs a second that the text prints; 0 where no I/O ended meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ios_per_s: Option<f64>,
    /// True where the text has no end line: the server cut it at its limit.
    pub truncated: bool,
    /// Section SEMAPHORES.
    pub semaphores: Semaphores,
    /// Section TRANSACTIONS.
    pub transactions: TransactionsSection,
    /// Section FILE I/O.
    pub file_io: FileIo,
    /// Section LOG.
    pub log: LogSection,
    /// Section BUFFER POOL AND MEMORY (the total, not the single instances).
    pub buffer_pool: BufferPool,
    /// Section ROW OPERATIONS.
    pub row_operations: RowOperations,
    /// Section LATEST DETECTED DEADLOCK, where there was one since the server started.
    pub latest_deadlock: Option<PrintedEvent>,
    /// Section LATEST FOREIGN KEY ERROR, where there was one since the server started.
    pub latest_foreign_key_error: Option<PrintedEvent>,
    /// Headings of sections that were not understood.
    pub unknown_sections: Vec<String>,
    /// Lines that were not understood in sections whose lines are all known; bounded.
    pub unknown_lines: Vec<String>,
    /// The text as the server gave it, kept where something in it was not understood; bounded.
    pub raw: Option<String>,
}

/// A deadlock or a foreign key error as the server printed it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PrintedEvent {
    /// When, in the server's own words and time zone: `180227 14:45:46`, `2013-06-19 13:47:33`.
    pub time: String,
    /// What the server printed below the time; bounded.
    pub text: String,
    /// True where `text` was cut at its bound.
    pub cut: bool,
}

/// Section SEMAPHORES.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Semaphores {
    /// Sync-array cells reserved so far. The one spin counter that still moves in 8.0.28 and later.
    pub reservations: Option<u64>,
    /// Signals so far.
    pub signals: Option<u64>,
    /// Mutex spins (5.1 to 5.6).
    pub mutex: SpinCounts,
    /// RW-shared spins.
    pub rw_shared: SpinCounts,
    /// RW-excl spins.
    pub rw_excl: SpinCounts,
    /// RW-sx spins (5.7 and later).
    pub rw_sx: SpinCounts,
    /// Threads that wait now.
    pub waiters: Vec<SemaphoreWait>,
}

/// One line of spin counters; all None in versions whose line is always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpinCounts {
    /// Spin waits begun.
    pub spins: Option<u64>,
    /// Rounds of the spin loop.
    pub rounds: Option<u64>,
    /// Waits that ended in the operating system.
    pub os_waits: Option<u64>,
}

/// One thread in the sync array.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SemaphoreWait {
    /// `pthread_self` of the waiter.
    pub pthread_id: u64,
    /// Where it waits: source file, without folders.
    pub at_file: String,
    /// Line in that file.
    pub at_line: u32,
    /// Seconds waited.
    pub waited_s: f64,
    /// What it waits for.
    pub kind: SemaphoreKind,
    /// Address of the latch as printed.
    pub address: String,
    /// Mutex name (5.7 and later), the latch's expression (XtraDB: `&block->lock`), or empty.
    pub name: String,
    /// File that created the latch, without folders: its identity (`dict0dict.cc`).
    pub created_file: String,
    /// Line in that file.
    pub created_line: Option<u32>,
    /// `pthread_self` of the writer or the only reader (8.0 and later), where printed; never the waiter.
    pub holder_pthread_id: Option<u64>,
    /// Mode the writer has reserved it in: `exclusive`, `SX`, `wait exclusive`.
    pub held_mode: Option<String>,
    /// Readers counted.
    pub readers: Option<u64>,
    /// Where the writer that has it took it: `dict0stats.cc:2376`; empty where the text does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub locked_at: String,
    /// True where the text says that the wait has ended.
    pub ended: bool,
}

/// What a thread in the sync array wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SemaphoreKind {
    /// Not understood.
    #[default]
    Unknown,
    /// A mutex.
    Mutex,
    /// An S-lock.
    Shared,
    /// An X-lock.
    Exclusive,
    /// An X-lock, intent taken, waiting for readers to leave.
    WaitExclusive,
    /// An SX-lock.
    SharedExclusive,
}

/// Section TRANSACTIONS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TransactionsSection {
    /// `History list length`.
    pub history_list_length: Option<u64>,
    /// `Trx id counter`, as a number (5.1 prints two words).
    pub id_counter: Option<u64>,
    /// `Purge done for trx's n:o <`.
    pub purge_done: Option<u64>,
    /// Transactions listed.
    pub transactions: Vec<ListedTransaction>,
}

/// One `---TRANSACTION` entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListedTransaction {
    /// Id as printed.
    pub id: String,
    /// True for `ACTIVE`; false for `not started`.
    pub active: bool,
    /// `ACTIVE (PREPARED)`: it is in the middle of a commit, or was prepared by XA.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_prepared: bool,
    /// Seconds active.
    pub active_s: Option<f64>,
    /// `LOCK WAIT`.
    pub lock_wait: bool,
    /// Seconds it has waited for its lock (MariaDB 10.5 and later print microseconds: converted).
    pub lock_waited_s: Option<f64>,
    /// What it waits for: `shop.stock PRIMARY`, or the table alone for a table lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// `N lock struct(s)`.
    pub lock_structs: Option<u64>,
    /// `N row lock(s)`.
    pub row_locks: Option<u64>,
    /// `undo log entries N`.
    pub undo_entries: Option<u64>,
    /// `MySQL thread id N` (MariaDB: `MariaDB thread id N`): the connection.
    pub connection_id: Option<u64>,
    /// `OS thread handle`, or `OS thread id` in 5.1: `pthread_self`.
    pub pthread_id: Option<u64>,
    /// `Trx read view will not see trx with id >= N`, where it has a view: N, read as hexadecimal, whatever it is written in. It says
    /// which view is older, and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_order: Option<u64>,
}

/// Section FILE I/O.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileIo {
    /// Pending asynchronous reads, all threads.
    pub pending_reads: Option<u64>,
    /// Pending asynchronous writes, all threads.
    pub pending_writes: Option<u64>,
    /// Pending fsyncs of the log.
    pub pending_log_fsyncs: Option<u64>,
    /// Pending fsyncs of data files (MariaDB 10.6 and later: of all files).
    pub pending_data_fsyncs: Option<u64>,
    /// `OS file reads`.
    pub os_reads: Option<u64>,
    /// `OS file writes`.
    pub os_writes: Option<u64>,
    /// `OS fsyncs`.
    pub os_fsyncs: Option<u64>,
}

/// Section LOG. Log sequence numbers are bytes since the server was made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogSection {
    /// `Log sequence number`.
    pub current_lsn: Option<u64>,
    /// `Log flushed up to`.
    pub flushed_lsn: Option<u64>,
    /// `Pages flushed up to`.
    pub pages_flushed_lsn: Option<u64>,
    /// `Last checkpoint at`.
    pub checkpoint_lsn: Option<u64>,
    /// `Log capacity` (9.x), bytes.
    pub capacity_bytes: Option<u64>,
    /// `Max checkpoint age` (Percona Server up to 5.7, MariaDB up to 10.4), bytes.
    pub checkpoint_max_age_bytes: Option<u64>,
    /// Log I/Os done so far (5.x).
    pub ios: Option<u64>,
    /// Pending log writes, or flushes in 5.7 (5.x).
    pub pending_writes: Option<u64>,
}

impl LogSection {
    /// Bytes of redo between the last checkpoint and now.
    pub fn checkpoint_age_bytes(&self) -> Option<u64> {
        self.current_lsn?.checked_sub(self.checkpoint_lsn?)
    }
}

/// Section BUFFER POOL AND MEMORY.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BufferPool {
    /// `Buffer pool size`, pages.
    pub pages: Option<u64>,
    /// `Free buffers`, pages.
    pub free_pages: Option<u64>,
    /// `Database pages`.
    pub database_pages: Option<u64>,
    /// `Modified db pages`.
    pub dirty_pages: Option<u64>,
    /// `Pending reads`.
    pub pending_reads: Option<u64>,
    /// Pending writes from the LRU list.
    pub pending_lru_writes: Option<u64>,
    /// Pending writes from the flush list.
    pub pending_flush_list_writes: Option<u64>,
    /// Pending single-page flushes.
    pub pending_single_page_writes: Option<u64>,
    /// `Pages read`.
    pub pages_read: Option<u64>,
    /// `Pages created`.
    pub pages_created: Option<u64>,
    /// `Pages written`.
    pub pages_written: Option<u64>,
}

/// Section ROW OPERATIONS.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RowOperations {
    /// `queries inside InnoDB`.
    pub queries_inside: Option<u64>,
    /// `queries in queue`.
    pub queries_queued: Option<u64>,
    /// `read views open inside InnoDB`.
    pub read_views: Option<u64>,
    /// `Process ID`; `process no.` of the main thread before 5.7.
    pub process_id: Option<u64>,
    /// State of the main thread.
    pub main_thread_state: Option<String>,
    /// Rows inserted so far.
    pub inserted: Option<u64>,
    /// Rows updated so far.
    pub updated: Option<u64>,
    /// Rows deleted so far.
    pub deleted: Option<u64>,
    /// Rows read so far.
    pub read: Option<u64>,
}
