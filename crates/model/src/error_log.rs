//! What a server's error log, the kernel's, or a tool of the system says of trouble, where somebody gave it.

use serde::{Deserialize, Serialize};

/// A trouble that a log names, with how often and how long before the log's end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoggedTrouble {
    /// Which.
    pub kind: TroubleKind,
    /// Lines that name it.
    pub times: u64,
    /// Seconds from the last of them to the last line of the log that has a time; None where its lines have none.
    pub before_end_s: Option<f64>,
    /// The last of them, as the server wrote it; of a tool of the system, what it says in a sentence.
    pub line: String,
    /// What the log says of it beside that line, as the end of a sentence, else empty: `it died in dict_index_t::clear`. Of a table that
    /// mysqlcheck found damaged, its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Who says so: empty for an error log, else the tool: `vmstat`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The longest time that one of them names, seconds.
    pub longest_s: Option<f64>,
}

/// The troubles that causes rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// The server waits for space on a disk.
    #[default]
    WaitsForSpace,
    /// A write failed because a disk was full.
    DiskFull,
    /// Clients were refused: too many connections.
    TooManyConnections,
    /// Clients were refused: no thread could be made for them.
    NoThread,
    /// Files could not be opened: the limit of open files was reached.
    NoFile,
    /// A thread waited for a latch for minutes.
    LatchWait,
    /// No free page was found in the buffer pool.
    NoFreePage,
    /// The page cleaner took longer for its round than the second that it has.
    SlowFlush,
    /// The server's threads did not run for a while: the page cleaner's second took minutes in which it wrote nothing.
    DidNotRun,
    /// The redo log had no room left.
    RedoLogFull,
    /// A backup failed: the server had written over redo log that it had not copied yet.
    BackupOvertaken,
    /// The kernel killed the server because no memory was left.
    KilledForMemory,
    /// A transaction was rolled back as the victim of a deadlock.
    Deadlock,
    /// The server crashed, or ended itself after a failed check.
    Crashed,
    /// The kernel found a thread that waited in it for minutes.
    HungInKernel,
    /// The host swaps pages in.
    Swapping,
    /// A disk has no time left, most of it for reads.
    BusyReading,
    /// A disk has no time left, most of it for writes.
    BusyWriting,
    /// The CPUs are full, and the server has most of them.
    CpusFull,
    /// Other programs or other virtual machines have the CPUs.
    CpusTaken,
    /// A CPU quota stopped a control group.
    Throttled,
    /// A node of a cluster does not reach a majority of its nodes.
    NoMajority,
    /// Another node of the cluster does not answer.
    NodeLost,
    /// The state of a Galera cluster, or the changes that a node missed, could not be transferred to a node (SST, IST).
    StateTransferFailed,
    /// A node of a Galera cluster has changes that the cluster does not have, or could not apply one that it has, and leaves.
    NodeDiffers,
    /// A member does not join its replication group, because it has transactions that the group does not have.
    Errant,
    /// No replica acknowledged a commit in time: the source went on without one.
    SemiSyncLost,
    /// The pool made no more threads, because it had as many as it may have.
    PoolFull,
    /// A table had no room for more rows.
    TableFull,
    /// The system refused memory to the server.
    NoMemory,
    /// A page of a data file is damaged.
    PageDamaged,
    /// A table is refused: it is marked as crashed, an index of it is damaged, or its engine does not know it (errors 126, 144, 145, 1034,
    /// 1194, 1195 and 1932).
    TableCrashed,
    /// Pages of the data files are newer than the redo log: it was deleted, or is not theirs.
    PagesNewer,
    /// The server does not start: it does not know an option, or the value of one.
    OptionRefused,
    /// The server does not start: another one has its data files open.
    FilesInUse,
    /// The server does not start: it cannot listen on its address.
    AddressRefused,
    /// A file that the server needs cannot be opened.
    FileRefused,
    /// The server does not start: the tables with its accounts are not in its data folder.
    SystemTablesMissing,
    /// The server's system tables (schema `mysql`) are damaged, or those of another version.
    SystemTablesDamaged,
    /// The server does not start: another version wrote its data files.
    OtherVersion,
    /// The server does not start: another version wrote its redo log, and was not shut down cleanly.
    RedoLogOfOtherVersion,
    /// The server does not start: its redo log is damaged, missing in part, or not the one of its data files.
    RedoLogUnusable,
    /// The server does not start: its data were made with another value of `lower_case_table_names`.
    OtherLetterCase,
    /// The server makes no new data: the folder for them is not empty.
    FolderNotEmpty,
    /// Two files of tables have one tablespace number.
    SameTablespaceNumber,
    /// A tablespace's file is not where the dictionary says.
    TableFileMissing,
    /// The server does not start: the log of its transaction coordinator (`tc.log`, the binary log) cannot be read, or transactions are
    /// prepared that are in no log.
    CoordinatorUnsure,
    /// The server does not start: Aria's log does not fit its tables.
    AriaDamaged,
    /// The server does not start: systemd ended it, because it had not started in time.
    StartTimedOut,
    /// A signal ended the server, as systemd says, which does not say there which one.
    EndedBySignal,
    /// The server ended at its start, for a reason that stands in another line.
    NotStarted,
    /// A statement waited for a row's lock until its time was over (error 1205).
    LockTimeout,
    /// No statement could be prepared: as many were as may be (error 1461).
    PreparedFull,
    /// The server accepts no connection from a host that broke off too many (error 1129).
    HostBlocked,
    /// An account has used what it may use (errors 1203 and 1226).
    AccountLimit,
    /// A write was refused: the server is read-only (errors 1290 and 1836).
    ReadOnly,
    /// A statement was ended at its time limit (errors 3024 and 1969).
    TimeLimit,
    /// A storage engine returned an error (error 1030).
    EngineError,
    /// A disk answered the kernel with errors.
    DiskFails,
    /// A disk did not answer for so long that the kernel gave requests up.
    DiskLate,
    /// The kernel found a file system damaged, or stopped writes to it.
    FileSystemBroken,
    /// A software RAID lost a disk, and works on without it.
    RaidDegraded,
    /// A CPU ran one task in the kernel for many seconds, and nothing else.
    CpuStuck,
    /// A member did not join its replication group, because it reached no other one.
    NotJoined,
}

impl TroubleKind {
    /// True for what keeps a server from starting: it is over once one has started.
    pub fn keeps_from_starting(self) -> bool {
        matches!(
            self,
            Self::OptionRefused
                | Self::FilesInUse
                | Self::AddressRefused
                | Self::FileRefused
                | Self::SystemTablesMissing
                | Self::SystemTablesDamaged
                | Self::OtherVersion
                | Self::RedoLogOfOtherVersion
                | Self::RedoLogUnusable
                | Self::OtherLetterCase
                | Self::FolderNotEmpty
                | Self::SameTablespaceNumber
                | Self::TableFileMissing
                | Self::CoordinatorUnsure
                | Self::AriaDamaged
                | Self::StartTimedOut
                | Self::EndedBySignal
                | Self::NotStarted
        )
    }
}
