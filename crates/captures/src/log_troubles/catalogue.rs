//! The list of the troubles: what a line of each has, what it means, and the trouble that causes rest on.

use spindoctor_model::TroubleKind;

use super::cluster::{
    AHEAD, APPLIER_WAITS, ERRANT, EVICTED, INCOMPLETE, INCONSISTENT, INCREMENTAL, LEFT, NODE_DIFFERS,
    NODE_LOST, NOT_FIRST, NOT_INCREMENTAL, OUTSIDE, REMNANT, STATE_TRANSFER, TRANSFER_FAILED,
    WITHOUT_MAJORITY,
};
use super::files::{
    BACKUP_FILE, BACKUP_MISSES, DAMAGED, DAMAGED_FILES, DATA_SIZE, FILES_DAMAGED, FOLDER_FOR_FILE,
    NEWER_PAGES, NO_SUCH_FILE, NO_UNDO_LOG, NOT_EXTENDED, OF_SYSTEM_TABLES, OVERTAKEN, REDO_SIZE,
    REDO_UNUSABLE, SAME_NUMBER, SYSTEM_TABLES, TABLE_CRASHED, TABLE_FILE_MISSING,
};
use super::host::{
    ENDED_BY_KILL, ENDED_LATE, EVENTS_OF_PROBES, KILLED, LIVENESS, LOCKUP, OF_KILLS, OTHER_KILLED,
    PROBE_FAILED, READINESS, SHELL_CRASHED, SHELL_KILLED, UNIT_BY_SIGNAL, UNIT_CRASHED, UNIT_KILLED,
    UNIT_LATE, UNIT_NOT_STARTED, UNIT_RESTARTED,
};
use super::replication::{
    APPLIER_ENDED, APPLIER_STOPPED, PACKET_LOST, PACKET_REFUSED, RECEIVER_ENDED, RECEIVER_FAILED,
    RECEIVER_FOLLOWS, RECEIVER_STOPPED,
};
use super::server::{
    ASSERTION, CONNECTIONS_LOST, DEADLOCKS, DID_NOT_RUN, DISK_IS_FULL, FULL, NO_MEMORY, NO_ROOM_IN_TABLE,
    NO_THREAD, RECOVERED, TOO_MANY, WAITS_FOR_ROOM,
};
use crate::kernel_log::{DISK_ERRORS, HUNG_IN_KERNEL, HUNG_OF_SERVER, READ_ONLY};
use crate::tool_errors;

/// What one failure makes a server say in several lines: each of them is that one.
pub(super) const SEVERAL_LINES: [&str; 12] = [
    STATE_TRANSFER,
    REMNANT,
    INCOMPLETE,
    INCREMENTAL,
    NEWER_PAGES,
    REDO_UNUSABLE,
    OVERTAKEN,
    BACKUP_MISSES,
    NO_SUCH_FILE,
    LEFT,
    TABLE_CRASHED,
    RECEIVER_ENDED,
];

/// What lines about trouble hold, in lower case, what that means, and the trouble that causes rest on. The first that fits counts.
pub(super) const TROUBLES: [(&str, &str, Option<TroubleKind>); 172] = [
    (OF_KILLS[0], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[1], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[2], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[3], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[4], "the kernel had no memory left for the server", Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[5], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[6], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[7], KILLED, Some(TroubleKind::KilledForMemory)),
    (OF_KILLS[8], KILLED, Some(TroubleKind::KilledForMemory)),
    (
        PROBE_FAILED,
        "Kubernetes ended the server because its liveness probe failed: a busy server, or one that recovers, answers later than the probe \
         waits",
        None,
    ),
    (EVENTS_OF_PROBES[0], LIVENESS, None),
    (EVENTS_OF_PROBES[1], READINESS, None),
    (
        UNIT_CRASHED,
        "the server crashed: a signal of its own (SEGV, ABRT, BUS) ended its process, as systemd says",
        None,
    ),
    (UNIT_KILLED, ENDED_BY_KILL, None),
    (
        UNIT_BY_SIGNAL,
        "a signal ended the server, as systemd says: it crashed, or it was killed; its own log and the kernel's say which",
        Some(TroubleKind::EndedBySignal),
    ),
    (UNIT_LATE, ENDED_LATE, Some(TroubleKind::StartTimedOut)),
    (UNIT_RESTARTED, "systemd started the server again after it had ended", None),
    (UNIT_NOT_STARTED, "systemd says that the server did not start", Some(TroubleKind::NotStarted)),
    (
        SHELL_KILLED,
        "the server was killed (SIGKILL), as the shell says that had started it: by the kernel for want of memory, or by somebody",
        None,
    ),
    (
        SHELL_CRASHED,
        "the server crashed: a signal of its own (SEGV, ABRT, BUS) ended its process, as the shell says that had started it",
        None,
    ),
    (
        HUNG_OF_SERVER,
        "the kernel found threads that waited in it for minutes, as for a disk that does not answer",
        Some(TroubleKind::HungInKernel),
    ),
    (HUNG_IN_KERNEL, "the kernel found threads of other programs that waited in it for minutes", None),
    (
        LOCKUP,
        "one task ran on a CPU for many seconds, and nothing else did there, as the kernel says: its hypervisor did not let it run, or \
         the kernel itself has a fault",
        None,
    ),
    (OTHER_KILLED, "the kernel killed other programs because no memory was left", None),
    ("kernel panic", "the kernel stopped the host", None),
    (
        "redo log writer is waiting",
        "the redo log was too small for what was written",
        Some(TroubleKind::RedoLogFull),
    ),
    (
        DID_NOT_RUN,
        "the server's threads did not run for a while: the machine or the process was stopped",
        Some(TroubleKind::DidNotRun),
    ),
    (
        "deadlock of threads detected",
        "the server found a ring of threads that wait for each other's latches: only a restart ends it",
        None,
    ),
    (
        "semaphore wait has lasted >",
        "the server ended itself because a thread had waited for a latch for too long",
        Some(TroubleKind::LatchWait),
    ),
    (
        "innodb_fatal_semaphore_wait_threshold was exceeded",
        "the server ended itself because a thread had waited for a latch for too long",
        Some(TroubleKind::LatchWait),
    ),
    (
        "intentionally crash",
        "the server ended itself because a thread had waited for a latch for too long",
        None,
    ),
    ("long semaphore wait", "a thread waited for a latch for minutes", Some(TroubleKind::LatchWait)),
    // MariaDB 10.6
    ("innodb: long wait (", "a thread waited for a latch for minutes", Some(TroubleKind::LatchWait)),
    ("got signal 11", "the server crashed (signal 11)", Some(TroubleKind::Crashed)),
    ("got signal 6", "the server ended itself after a failed check (signal 6)", Some(TroubleKind::Crashed)),
    (
        "got signal 7",
        "the server could not read a file that is mapped into its memory (signal 7)",
        Some(TroubleKind::Crashed),
    ),
    (ASSERTION, "a check of the server's own failed", None),
    (DISK_IS_FULL, WAITS_FOR_ROOM, Some(TroubleKind::WaitsForSpace)),
    // ER_DISK_FULL, as a client prints it
    ("waiting for someone to free some space", WAITS_FOR_ROOM, Some(TroubleKind::WaitsForSpace)),
    ("no space left on device", FULL, Some(TroubleKind::DiskFull)),
    ("out of disk space", FULL, Some(TroubleKind::DiskFull)),
    ("errno: 28", FULL, Some(TroubleKind::DiskFull)),
    ("errcode: 28", FULL, Some(TroubleKind::DiskFull)),
    ("error number 28", FULL, Some(TroubleKind::DiskFull)),
    ("error 28", FULL, Some(TroubleKind::DiskFull)),
    // Windows: ERROR_DISK_FULL
    ("system error number 112", FULL, Some(TroubleKind::DiskFull)),
    // MariaDB, in a note
    ("io error: 28 during", FULL, Some(TroubleKind::DiskFull)),
    ("io error: 5 during", DISK_ERRORS, Some(TroubleKind::DiskFails)),
    (
        "io error: 13 during",
        "a file could not be written: the user of the server, or of the program that makes a backup, may not write it",
        None,
    ),
    ("out of memory", NO_MEMORY, Some(TroubleKind::NoMemory)),
    ("cannot allocate memory", NO_MEMORY, Some(TroubleKind::NoMemory)),
    ("failed; errno 12", NO_MEMORY, Some(TroubleKind::NoMemory)),
    (
        "difficult to find free blocks in the buffer pool",
        "no free page was found in the buffer pool",
        Some(TroubleKind::NoFreePage),
    ),
    // Not a function of that name, in a stack beside the log.
    ("page_cleaner:", "the page cleaner took longer than its second", Some(TroubleKind::SlowFlush)),
    // MySQL 8.0.22
    ("page cleaner took ", "the page cleaner took longer than its second", Some(TroubleKind::SlowFlush)),
    ("too many connections", TOO_MANY, Some(TroubleKind::TooManyConnections)),
    ("can't create thread to handle new connection", NO_THREAD, Some(TroubleKind::NoThread)),
    // ER_CANT_CREATE_THREAD, as a client prints it
    ("can't create a new thread (errno", NO_THREAD, Some(TroubleKind::NoThread)),
    (
        "too many open files",
        "files could not be opened: the limit of open files was reached",
        Some(TroubleKind::NoFile),
    ),
    (
        "age of the last checkpoint",
        "the redo log was too small for what was written",
        Some(TroubleKind::RedoLogFull),
    ),
    // MySQL 8.0: MY-013059 and MY-014084
    (
        "out of space in the redo log",
        "the redo log was too small for what was written",
        Some(TroubleKind::RedoLogFull),
    ),
    (
        "unable to reserve space in redo log",
        "the redo log was too small for what was written",
        Some(TroubleKind::RedoLogFull),
    ),
    (
        "cannot find a free slot for an undo log",
        "no slot was free for an undo log: too many transactions that change rows were open",
        None,
    ),
    (OF_SYSTEM_TABLES, SYSTEM_TABLES, Some(TroubleKind::SystemTablesDamaged)),
    // Of mysqlcheck. Where it then finds no error, the table is as it should be.
    ("warning  : table is marked as crashed", TABLE_CRASHED, None),
    ("is marked as crashed", TABLE_CRASHED, Some(TroubleKind::TableCrashed)),
    // Of mysqlcheck.
    ("error    : corrupt", TABLE_CRASHED, Some(TroubleKind::TableCrashed)),
    ("error    : size of datafile is", TABLE_CRASHED, Some(TroubleKind::TableCrashed)),
    ("error    : size of indexfile is", TABLE_CRASHED, Some(TroubleKind::TableCrashed)),
    ("is in the future!", NEWER_PAGES, Some(TroubleKind::PagesNewer)),
    ("you may have copied the innodb tablespace", NEWER_PAGES, Some(TroubleKind::PagesNewer)),
    ("missing mlog_checkpoint", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    // MariaDB 10.5
    ("missing file_checkpoint", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("cannot create redo log files because ", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("is of different size", REDO_SIZE, Some(TroubleKind::RedoLogUnusable)),
    ("is of a different size", DATA_SIZE, None),
    (
        "attempted to open a previously opened tablespace",
        SAME_NUMBER,
        Some(TroubleKind::SameTablespaceNumber),
    ),
    ("log block numbers mismatch", OVERTAKEN, Some(TroubleKind::BackupOvertaken)),
    ("expected log block no. ", OVERTAKEN, Some(TroubleKind::BackupOvertaken)),
    ("log has wrapped around before", OVERTAKEN, Some(TroubleKind::BackupOvertaken)),
    ("was only able to copy log from", OVERTAKEN, Some(TroubleKind::BackupOvertaken)),
    // xtrabackup from 8.0.30 on
    ("redo log files have been removed by the server", OVERTAKEN, Some(TroubleKind::BackupOvertaken)),
    (BACKUP_FILE, BACKUP_MISSES, None),
    ("innodb: preallocating ", NOT_EXTENDED, None),
    ("system error number 21 ", FOLDER_FOR_FILE, None),
    ("system error number 2 ", NO_SUCH_FILE, None),
    ("the error means the system cannot find the path specified", NO_SUCH_FILE, None),
    ("could not allocate undo segment slot", NO_UNDO_LOG, None),
    ("database page corruption", DAMAGED, Some(TroubleKind::PageDamaged)),
    // MariaDB 10.6
    ("page read from tablespace is corrupted", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("is corrupted", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("header page consists of zero bytes", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("corrupted page [page id", DAMAGED, Some(TroubleKind::PageDamaged)),
    (FILES_DAMAGED, DAMAGED_FILES, Some(TroubleKind::PageDamaged)),
    // Another page stands where one was read (buf0buf.cc, buf_page_io_complete; with `n:o` to MySQL 5.7).
    ("page no stored in the page", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("page n:o stored in the page", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("page directory corruption", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("outside the tablespace bounds", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("looks corrupted in file", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("space id in fsp header", DAMAGED, Some(TroubleKind::PageDamaged)),
    // MY-012351, MY-012216 and ER_TABLESPACE_MISSING
    (".ibd' is missing!", TABLE_FILE_MISSING, None),
    ("cannot open datafile for read-only: ", TABLE_FILE_MISSING, None),
    ("tablespace is missing for table ", TABLE_FILE_MISSING, None),
    ("transaction deadlock", DEADLOCKS, Some(TroubleKind::Deadlock)),
    ("transactions deadlock", DEADLOCKS, Some(TroubleKind::Deadlock)),
    (
        "semi-sync replication switched off",
        "semi-synchronous replication was switched off: no replica answered in time",
        Some(TroubleKind::SemiSyncLost),
    ),
    (
        "timeout waiting for reply of binlog",
        "a commit waited for a replica for all of rpl_semi_sync_source_timeout (rpl_semi_sync_master_timeout): none acknowledged it",
        Some(TroubleKind::SemiSyncLost),
    ),
    ("flow control", "Galera's flow control stood in the way of commits", None),
    ("table is full", NO_ROOM_IN_TABLE, Some(TroubleKind::TableFull)),
    ("' is full", NO_ROOM_IN_TABLE, Some(TroubleKind::TableFull)),
    (
        "number of allowed threads was reached",
        "the thread pool had as many threads as it may have",
        Some(TroubleKind::PoolFull),
    ),
    (
        "threadpool has been blocked",
        "the thread pool had as many threads as it may have",
        Some(TroubleKind::PoolFull),
    ),
    ("has been evicted out of the cluster", EVICTED, None),
    // MySQL, and MariaDB from 10.4 on
    ("process completed with error: wsrep_sst_", STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    ("sst script aborted with error", STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    ("will never receive state", STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    ("application received wrong state", STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    ("application state transfer failed", STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    // garbd
    ("state transfer request failed", STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    (TRANSFER_FAILED, STATE_TRANSFER, Some(TroubleKind::StateTransferFailed)),
    // wsrep_sst_xtrabackup-v2 and wsrep_sst_mariabackup
    ("fatal: found existing ", REMNANT, Some(TroubleKind::StateTransferFailed)),
    ("remove it or specify alternative temporary directory", REMNANT, Some(TroubleKind::StateTransferFailed)),
    ("receiving ist failed", INCREMENTAL, Some(TroubleKind::StateTransferFailed)),
    ("ist send failed", INCREMENTAL, Some(TroubleKind::StateTransferFailed)),
    ("async ist sender failed", INCREMENTAL, Some(TroubleKind::StateTransferFailed)),
    ("ist didn't contain all write sets", INCREMENTAL, Some(TroubleKind::StateTransferFailed)),
    ("failed to prepare for incremental state transfer", NOT_INCREMENTAL, None),
    ("reversing history: ", AHEAD, Some(TroubleKind::NodeDiffers)),
    (
        tool_errors::OF_OPERATOR,
        "the operator found no node to start the Galera cluster from: each node's recovery (--wsrep-recover) says its seqno, and the log of a \
         node of which none is known says why",
        None,
    ),
    ("quorum: no node with complete state", INCOMPLETE, None),
    ("quorum: found no complete state", INCOMPLETE, None),
    ("node consistency ", INCONSISTENT, Some(TroubleKind::NodeDiffers)),
    (NODE_DIFFERS, INCONSISTENT, Some(TroubleKind::NodeDiffers)),
    ("may not be safe to bootstrap", NOT_FIRST, None),
    ("bf lock wait long", APPLIER_WAITS, None),
    ("this member will now leave the group", LEFT, None),
    ("the server will now leave the group", LEFT, None),
    ("the server will leave the group", LEFT, None),
    ("unable to ensure the execution of group transactions", LEFT, None),
    ("received non-primary", OUTSIDE, Some(TroubleKind::NoMajority)),
    ("view(view_id(non_prim", OUTSIDE, Some(TroubleKind::NoMajority)),
    ("component: primary = no", OUTSIDE, Some(TroubleKind::NoMajority)),
    ("failed to reach primary view", OUTSIDE, Some(TroubleKind::NoMajority)),
    ("no nodes coming from prim view", OUTSIDE, Some(TroubleKind::NoMajority)),
    // ER_UNKNOWN_COM_ERROR of a node, as a client prints it
    ("has not yet prepared node for application use", OUTSIDE, Some(TroubleKind::NoMajority)),
    ("not able to reach a majority of members", WITHOUT_MAJORITY, Some(TroubleKind::NoMajority)),
    ("could not reach a majority of the members", WITHOUT_MAJORITY, Some(TroubleKind::NoMajority)),
    (
        "was expelled from the group",
        "the member was expelled from its group: it took part in nothing until it joined again",
        Some(TroubleKind::NoMajority),
    ),
    // MY-011526 and MY-011522
    ("more executed transactions than those present in the group", ERRANT, Some(TroubleKind::Errant)),
    ("contains transactions not present in the group", ERRANT, Some(TroubleKind::Errant)),
    ("suspecting node", NODE_LOST, Some(TroubleKind::NodeLost)),
    ("suspected, timeout pt", NODE_LOST, Some(TroubleKind::NodeLost)),
    ("inactive, timeout pt", NODE_LOST, Some(TroubleKind::NodeLost)),
    ("declaring inactive", NODE_LOST, Some(TroubleKind::NodeLost)),
    (
        "has become unreachable",
        "a member of the replication group did not answer",
        Some(TroubleKind::NodeLost),
    ),
    // What the server writes of its own files where the kernel returned EIO or EROFS.
    ("input/output error", DISK_ERRORS, Some(TroubleKind::DiskFails)),
    ("read-only file system", READ_ONLY, Some(TroubleKind::FileSystemBroken)),
    ("database was not shutdown normally", RECOVERED, None),
    ("database was not shut down normally", RECOVERED, None),
    (
        "number of processes running now:",
        "mysqld_safe started the server again, which had ended without a shutdown: it crashed, or was killed",
        None,
    ),
    ("aborted connection ", CONNECTIONS_LOST, None),
    ("error reading communication packets", CONNECTIONS_LOST, None),
    ("timeout reading communication packets", CONNECTIONS_LOST, None),
    ("error writing communication packets", CONNECTIONS_LOST, None),
    ("timeout writing communication packets", CONNECTIONS_LOST, None),
    (
        " for logging (error",
        "a log could not be written (binary, slow or general log), and the server goes on without it until it is started again",
        None,
    ),
    (APPLIER_STOPPED, APPLIER_ENDED, None),
    (RECEIVER_FAILED, "replication: the receiver could not reach its source", None),
    (RECEIVER_FOLLOWS, RECEIVER_ENDED, None),
    (RECEIVER_STOPPED, RECEIVER_ENDED, None),
    (PACKET_REFUSED, RECEIVER_ENDED, None),
    (PACKET_LOST, "replication: the receiver lost its connection to its source", None),
];
