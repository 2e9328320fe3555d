//! The catalogue of troubles that an error log names: what a line of each has, and what it means.

use spindoctor_model::TroubleKind;

use crate::kernel_log::{
    self, DISK_ERRORS, DISKS, HUNG_IN_KERNEL, HUNG_OF_SERVER, READ_ONLY, disk_entry, is_hung, is_hung_server,
    is_kill_for_memory,
};
use crate::systemd_log::{Unit, unit};
use crate::{client_errors, denials, start_errors, tool_errors};

/// What a check of the server's own prints when it fails (ut0dbg.cc): `InnoDB: Assertion failure in file btr0pcur.cc line 521`.
const ASSERTION: &str = "assertion failure";

/// Stands for a round of the page cleaner that took a minute or more and wrote nothing: no disk was waited for. The threads did
/// not run, as where the machine is suspended or the container is paused.
const DID_NOT_RUN: &str = "the page cleaner wrote nothing";

/// Stand for what systemd says of a server's unit.
const UNIT_CRASHED: &str = "systemd: crashed";
const UNIT_KILLED: &str = "systemd: killed";
const UNIT_BY_SIGNAL: &str = "systemd: ended by a signal";
const UNIT_LATE: &str = "systemd: not started in time";
const UNIT_RESTARTED: &str = "systemd: started again";
const UNIT_NOT_STARTED: &str = "systemd: not started";

/// What systemd's lines of a server mean that was killed, and of one that did not start in time, which systemd kills itself in the end.
pub(crate) const ENDED_BY_KILL: &str = "the server was killed (SIGKILL), as systemd says: by the kernel for want of memory, by systemd after a time \
                                        limit, or by somebody";
pub(crate) const ENDED_LATE: &str = "systemd ended the server because it had not started within TimeoutStartSec: recovery after a crash, or the state \
                                     transfer of a cluster, takes longer (systemctl edit: TimeoutStartSec=infinity)";

/// Stands for what a node of Galera says that cannot apply what the others have.
const NODE_DIFFERS: &str = "a change was not applied";

/// Stands for what a replica's applier says when it stops.
const APPLIER_STOPPED: &str = "the applier stopped";

/// Stands for what a replica's receiver says when it has no connection to its source.
const RECEIVER_FAILED: &str = "the receiver failed";

/// Stands for what a replica's receiver says when it stops: `Slave I/O: Got fatal error 1236 from master when reading data from binary
/// log: ..., Error_code: 1236`.
const RECEIVER_STOPPED: &str = "the receiver stopped";

/// Stands for what it says below that, of the relay log: `Slave I/O: Relay log write failure: could not queue event from master`.
const RECEIVER_FOLLOWS: &str = "the receiver stopped therefore";

/// Stand for what it says above that, of what its source answered: `Error reading packet from server for channel '': ... (server_errno=1236)`.
const PACKET_REFUSED: &str = "the source refused";
const PACKET_LOST: &str = "the source did not answer";

/// What lines about damaged pages mean.
pub(crate) const DAMAGED: &str = "a page of a data file is damaged";

/// How InnoDB ends where it found its files damaged, in lower case, and what that means: lines above it may say that the redo log is what it
/// could not use.
const FILES_DAMAGED: &str = "error data structure corruption";
const DAMAGED_FILES: &str = "InnoDB ended because it found a file damaged: the lines above that say which";

/// What InnoDB's lines at a start after a crash mean.
pub(crate) const RECOVERED: &str =
    "the server had ended without a shutdown before, and recovered at its start";

/// What lines of both a server and its clients mean.
pub(crate) const TOO_MANY: &str = "clients were refused: too many connections";
pub(crate) const NO_THREAD: &str = "clients were refused: no thread could be made for them";
pub(crate) const DEADLOCKS: &str = "transactions ended as victims of a deadlock";
pub(crate) const NO_ROOM_IN_TABLE: &str = "a table had no room for more rows";
pub(crate) const WAITS_FOR_ROOM: &str = "a disk was full: the server waited for room";
pub(crate) const NO_MEMORY: &str = "memory was refused to the server";
pub(crate) const FULL: &str = "a disk was full";

pub(crate) const TABLE_FILE_MISSING: &str =
    "a table's file is missing or cannot be opened: what uses the table fails (error 1812)";

/// What lines of a node of Galera without a majority mean.
pub(crate) const OUTSIDE: &str =
    "the node was outside of the primary part of its Galera cluster: it executed nothing";

/// What lines of a node that the others, or an administrator, shut out mean.
const EVICTED: &str =
    "the node was evicted from its Galera cluster: it takes part in nothing until it is started again";

/// What lines of a node to which the state of its cluster was not transferred, or that could not transfer it, mean.
const STATE_TRANSFER: &str = "the state of the Galera cluster could not be transferred (SST): the lines of its script above that, and those of \
                              the donor, say why (a program that is missing, a login, a port, no room)";

/// What lines of a node mean to which the changes that it missed could not be given.
const INCREMENTAL: &str = "the changes that a node of the Galera cluster missed could not be transferred to it alone (IST): port 4568 between the \
                           nodes, or the end of the donor's gcache (gcache.size). It needs all data (SST)";
const NOT_INCREMENTAL: &str = "the node takes all data of its Galera cluster (SST): it does not know which changes it missed (IST), as a new node or \
                               one that crashed";

const REMNANT: &str = "the state of the Galera cluster could not be transferred (SST): the temporary folder of an earlier transfer is still there. \
                       Remove the folder that the line names, then start the node again";

/// Stands for what donor, joiner and others say of a state transfer that failed: `State transfer to 1.0 (db2) failed: -32 (Broken pipe)`.
const TRANSFER_FAILED: &str = "a state transfer failed";

/// What lines of a node mean that has what its cluster does not have, or cannot apply what it has.
const AHEAD: &str = "the node has changes that the primary part of its Galera cluster does not have, and ended itself: with the state of the \
                     cluster (SST) it would lose them. Compare them before it is started again";
const INCONSISTENT: &str = "a node of the Galera cluster could not apply a change that the others have: its data are not theirs, and it \
                            leaves. Started again it takes their state (SST)";
const INCOMPLETE: &str = "no node that this one sees has the complete state of the Galera cluster, so that none of them is in its primary part. \
                          On the one with the largest seqno: SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'";
const APPLIER_WAITS: &str = "an applier of the Galera cluster waited long for a row's lock that a transaction of this node has: the node applies \
                             nothing meanwhile, and its flow control stops the others. End that transaction (INNODB_TRX)";
const NOT_FIRST: &str = "the node refuses to be the first of its Galera cluster, because it was not the last to leave it: start the node that \
                         has safe_to_bootstrap: 1 in grastate.dat, or the largest seqno, first";

/// And of a member of a replication group.
pub(crate) const WITHOUT_MAJORITY: &str =
    "the member could not reach the majority of its group: Group Replication blocked each change";

/// What lines of a member of a replication group that has been written to beside it mean.
const ERRANT: &str = "the member does not join its group until it is cloned again, or the group is given its errant transactions: it has \
                      some that the group does not have";

/// What lines of Galera about another node mean.
pub(crate) const NODE_LOST: &str = "another node of the Galera cluster did not answer";

/// What lines that take a trouble back hold, in lower case. Galera prints a view of the primary part when it has found one, and
/// Received SELF-LEAVE where the node is shut down in order; Group Replication says whom it reaches again.
const OVER: [(&str, TroubleKind); 17] = [
    // It was started again, or has the state of its cluster.
    ("gcomm: connecting to group", TroubleKind::NodeDiffers),
    ("synchronized with group", TroubleKind::NodeDiffers),
    ("joined -> synced", TroubleKind::NodeDiffers),
    // Of the node itself, and of one that it gave its state: `State transfer to 1.0 (db2) complete.`
    ("joiner -> joined", TroubleKind::StateTransferFailed),
    // It was started again.
    ("gcomm: connecting to group", TroubleKind::StateTransferFailed),
    (") complete.", TroubleKind::StateTransferFailed),
    ("declared online within the replication group", TroubleKind::Errant),
    ("view(view_id(prim,", TroubleKind::NoMajority),
    ("component: primary = yes", TroubleKind::NoMajority),
    ("synchronized with group", TroubleKind::NoMajority),
    ("joined -> synced", TroubleKind::NoMajority),
    ("received self-leave", TroubleKind::NoMajority),
    ("resumed contact with a majority", TroubleKind::NoMajority),
    ("declared online within the replication group", TroubleKind::NoMajority),
    ("is reachable again", TroubleKind::NodeLost),
    // The file that it could not open, in the line above, is that log: the server goes on.
    (" for logging (error", TroubleKind::FileRefused),
    ("received self-leave", TroubleKind::NodeLost),
];

/// What lines of the kernel, systemd and Kubernetes about a server that was killed mean.
const KILLED: &str = "the kernel killed a server because no memory was left";

/// What lines of a member of a replication group mean that leaves it.
const LEFT: &str = "the member left its replication group after an error that stands above: START GROUP_REPLICATION once that is mended, or clone \
                    the member again";

/// What lines about InnoDB's files mean that do not belong together.
const NEWER_PAGES: &str = "pages are newer than the redo log: it was deleted, or data files were copied without it. What else they lack nobody \
                           knows: load a dump or a backup into a new data folder";
pub(crate) const REDO_UNUSABLE: &str = "the server does not start: its redo log is damaged, or is not the one of its data files. Bring back the files of \
                             one backup; where there is none, innodb_force_recovery = 6 starts it for a dump, without what that log has";
const REDO_SIZE: &str = "innodb_log_file_size is not the size of the redo log's files: give it their size, shut the server down in order, and \
                         then change it";
const DATA_SIZE: &str = "innodb_data_file_path does not have the size of InnoDB's data file (ibdata1): correct it; the line names both sizes";
const SAME_NUMBER: &str = "two files of tables have one tablespace number: one was copied from elsewhere. Move that one away, and take its rows \
                           from a dump, or by ALTER TABLE ... IMPORT TABLESPACE";
const OVERTAKEN: &str = "a backup read the redo log too slowly: the server had written over what it needed. A larger redo log, or a faster place \
                         for the backup";

/// Stands for what xtrabackup says of a file that is not there.
const BACKUP_FILE: &str = "a backup misses a file";
const BACKUP_MISSES: &str = "a backup did not find a file that the server names: it was removed meanwhile, as a binary log that is purged, or this \
                             host or container has no such path";

/// What InnoDB says where the system refused it a file operation.
const FOLDER_FOR_FILE: &str = "InnoDB found a folder where a file should be, or opened one (error 21 of the system): folders that do not belong into \
                               the data folder have to go out of it";
const NO_SUCH_FILE: &str =
    "InnoDB did not find a file or a folder (error 2 of the system); the lines beside that name it";
const NOT_EXTENDED: &str = "InnoDB could not make a data file larger: the line names the file and the error of the system (2: it was removed \
                            meanwhile; 27: too large for the file system; 95: the file system cannot reserve room)";
const NO_UNDO_LOG: &str = "InnoDB could not give a transaction its undo log: no slot was free, or (DB Error 14) the undo tablespace had no room";

const LIVENESS: &str = "Kubernetes' liveness probe of the container failed: after failureThreshold times in a row Kubernetes ends the container. A \
                        server that is busy, or recovers, answers later than timeoutSeconds";
const READINESS: &str =
    "Kubernetes' readiness probe of the container failed: its service sends it no clients meanwhile";

const APPLIER_ENDED: &str = "replication stopped: the applier met an error";
const RECEIVER_ENDED: &str = "replication stopped: the receiver met an error";

const SYSTEM_TABLES: &str = "system tables (schema mysql) are damaged, or those of another version: mysql_upgrade or mariadb-upgrade (MySQL from \
                             8.0.16 on: a start with --upgrade=FORCE) mends those of another version, myisamchk or aria_chk while the server is \
                             stopped damaged ones";

/// Stands for what a server says of them.
const OF_SYSTEM_TABLES: &str = "system tables are damaged";

const TABLE_CRASHED: &str = "a table is marked as crashed";
const CONNECTIONS_LOST: &str = "connections were lost: clients that died, or were silent for too long";

/// What one failure makes a server say in several lines: each of them is that one.
const SEVERAL_LINES: [&str; 12] = [
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

/// Signs that are of any program: the line names a server, too.
const OF_KILLS: [&str; 9] = [
    "out of memory: killed process",
    "out of memory: kill process",
    "cgroup out of memory: kill",
    "killed process ",
    " invoked oom-killer",
    "oom-kill:constraint=",
    "killed by the oom killer",
    "failed with result 'oom-kill'",
    "oomkilled",
];

/// What lines about trouble hold, in lower case, what that means, and the trouble that causes rest on. The first that fits counts.
const TROUBLES: [(&str, &str, Option<TroubleKind>); 166] = [
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
        HUNG_OF_SERVER,
        "the kernel found threads that waited in it for minutes, as for a disk that does not answer",
        Some(TroubleKind::HungInKernel),
    ),
    (HUNG_IN_KERNEL, "the kernel found threads of other programs that waited in it for minutes", None),
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
    ("is marked as crashed", TABLE_CRASHED, None),
    // Of mysqlcheck.
    ("error    : corrupt", TABLE_CRASHED, None),
    ("error    : size of datafile is", TABLE_CRASHED, None),
    ("error    : size of indexfile is", TABLE_CRASHED, None),
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
    ("log block numbers mismatch", OVERTAKEN, None),
    ("expected log block no. ", OVERTAKEN, None),
    ("log has wrapped around before", OVERTAKEN, None),
    ("was only able to copy log from", OVERTAKEN, None),
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
        None,
    ),
    (
        "timeout waiting for reply of binlog",
        "a commit waited for a replica for all of rpl_semi_sync_source_timeout (rpl_semi_sync_master_timeout): none acknowledged it",
        None,
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

/// Kubernetes' event of a container that it ends because its probe failed (pkg/kubelet/kuberuntime): `Container mysql failed liveness
/// probe, will be restarted`.
const PROBE_FAILED: &str = " failed liveness probe, will be restarted";

/// Stand for its events of a probe that failed, which do not name the container: `Warning  Unhealthy  19m (x1671 over 5d15h)  kubelet  Liveness
/// probe failed: `.
const EVENTS_OF_PROBES: [&str; 2] = [" liveness probe failed:", " readiness probe failed:"];

/// True for such an event.
pub(crate) fn is_event_of_probe(line: &str) -> bool {
    if !line.contains(" Unhealthy ") {
        return false;
    }
    let lower = line.to_ascii_lowercase();
    EVENTS_OF_PROBES.iter().any(|sign| lower.contains(sign))
}

/// True for that event of a server's container.
pub(crate) fn is_probe_failed(line: &str) -> bool {
    let before = line.split_once(PROBE_FAILED).map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()).is_some_and(kernel_log::names_server)
}

/// The first line of a server that waits for room, with the file; every minute or ten it says that it still does.
const DISK_IS_FULL: &str = "disk is full writing";
const STILL_FULL: &str = "message reprinted in";

/// How many entries the catalogues have together: those of logs, of the kernel's disks, of what was refused to a server, of servers that do
/// not start, of clients.
pub(crate) const ENTRIES: usize = CLIENTS + client_errors::COUNT;

/// The first entry of what was refused to a server, and of servers that do not start.
const DENIALS: usize = TROUBLES.len() + DISKS.len();
const STARTS: usize = DENIALS + denials::COUNT;

/// The first entry of clients.
const CLIENTS: usize = STARTS + start_errors::COUNT;

/// True for the entry of a check of the server's own that failed, and of a crash that systemd saw: the server's own line of its signal
/// says the same, where it is given.
pub(crate) fn is_sign_of_crash(entry: usize) -> bool {
    TROUBLES.get(entry).is_some_and(|(sign, ..)| [ASSERTION, UNIT_CRASHED].contains(sign))
}

/// True for an entry of a server that was killed: the kernel, systemd and Kubernetes each say a kill in words of their own, once.
pub(crate) fn is_of_kills(entry: usize) -> bool {
    TROUBLES.get(entry).is_some_and(|(sign, ..)| OF_KILLS.contains(sign))
}

/// True for an entry of which lines that differ, and mean the same, are of one failure: a start prints each of its lines once.
pub(crate) fn is_of_several_lines(entry: usize) -> bool {
    (STARTS..CLIENTS).contains(&entry)
        || TROUBLES.get(entry).is_some_and(|(_, meaning, _)| SEVERAL_LINES.contains(meaning))
}

/// True for the last line of an InnoDB that found its files damaged: of a redo log that it cannot use it says so, too.
pub(crate) fn is_end_by_damage(line: &str) -> bool {
    line.to_ascii_lowercase().contains(FILES_DAMAGED)
}

/// True for an entry that a client prints, and no server.
pub(crate) fn is_of_clients(entry: usize) -> bool {
    entry >= CLIENTS
}

/// What each entry means, and the trouble that causes rest on, in order.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, Option<TroubleKind>)> {
    let of_log = TROUBLES.into_iter().map(|(_, meaning, kind)| (meaning, kind));
    let of_disks = DISKS.into_iter().map(|(_, meaning, kind)| (meaning, Some(kind)));
    let of_system = of_log.chain(of_disks).chain(denials::meanings());
    of_system.chain(start_errors::meanings()).chain(client_errors::meanings())
}

/// Which entry a line is, of which `lower` is the beginning in lower case.
pub(crate) fn entry(line: &str, lower: &str) -> Option<usize> {
    let of_log = TROUBLES.iter().position(|(sign, ..)| is_entry(sign, line, lower));
    let of_disks = || disk_entry(line).map(|at| TROUBLES.len() + at);
    let of_denials = || denials::entry(line).map(|at| DENIALS + at);
    let of_start = || start_errors::entry(line).map(|at| STARTS + at);
    let of_client = || client_errors::entry(line).map(|at| CLIENTS + at);
    of_log.or_else(of_disks).or_else(of_denials).or_else(of_start).or_else(of_client)
}

/// True for the entry of a node that has lost the majority of its cluster.
pub(crate) fn is_of_majority(entry: usize) -> bool {
    TROUBLES.get(entry).is_some_and(|(.., kind)| *kind == Some(TroubleKind::NoMajority))
}

/// Whether a node of Galera leaves its cluster by itself, and sees one without a majority therefore: true for the line, in lower case, in
/// which it begins to, false for one in which it joins. None for others.
pub(crate) fn leaves(lower: &str) -> Option<bool> {
    if lower.contains("gcomm: closing backend") {
        return Some(true);
    }
    ["gcomm: connecting to group", "starting as process"]
        .iter()
        .any(|sign| lower.contains(sign))
        .then_some(false)
}

/// True where a line has the sign of an entry of logs.
fn is_entry(sign: &str, line: &str, lower: &str) -> bool {
    match sign {
        DID_NOT_RUN => wrote_nothing(lower),
        HUNG_OF_SERVER => is_hung_server(line),
        HUNG_IN_KERNEL => is_hung(line),
        APPLIER_STOPPED => applier_stopped(lower),
        RECEIVER_FAILED => receiver_failed(lower),
        RECEIVER_FOLLOWS => is_of_receiver(lower) && lower.contains("relay log write failure"),
        PACKET_REFUSED => is_of_packet(lower) && lower.contains("server_errno=1236"),
        PACKET_LOST => is_of_packet(lower),
        BACKUP_FILE => is_of_backup_file(lower),
        sign if EVENTS_OF_PROBES.contains(&sign) => has_sign(lower, sign) && is_event_of_probe(line),
        RECEIVER_STOPPED => {
            is_of_receiver(lower)
                && (lower.contains("got fatal error 1236")
                    || lower.contains("[error]") && lower.contains("error_code:"))
        }
        sign if OF_KILLS.contains(&sign) => has_sign(lower, sign) && is_kill_for_memory(lower),
        PROBE_FAILED => is_probe_failed(line),
        UNIT_CRASHED => unit(line) == Some(Unit::Crashed),
        UNIT_KILLED => unit(line) == Some(Unit::Killed),
        UNIT_BY_SIGNAL => unit(line) == Some(Unit::BySignal),
        UNIT_LATE => unit(line) == Some(Unit::Late),
        UNIT_RESTARTED => unit(line) == Some(Unit::Restarted),
        UNIT_NOT_STARTED => unit(line) == Some(Unit::NotStarted),
        NODE_DIFFERS => is_of_node(lower),
        TRANSFER_FAILED => transfer_failed(lower),
        OF_SYSTEM_TABLES => is_of_system_tables(lower),
        // What a server writes below a failed check, and beside a log that it cannot read, is advice.
        ASSERTION => has_sign(lower, sign) && !lower.contains("repeated assertion failures"),
        "out of memory" => has_sign(lower, sign) && !lower.contains("for example, out of memory"),
        // Not of a relay or binary log, of which a replica says that it may be corrupted.
        "is corrupted" => has_sign(lower, sign) && !lower.contains(" log is corrupted"),
        DISK_IS_FULL => has_sign(lower, DISK_IS_FULL) || still_waits(lower),
        sign => has_sign(lower, sign),
    }
}

/// True for a line in which a server says that it still waits for room; it names the file no more.
pub(crate) fn still_waits(lower: &str) -> bool {
    has_sign(lower, STILL_FULL)
}

/// The file of a log that a server goes on without, of which the line above says that it could not be opened: `Could not use FILE for logging
/// (error 13 - Permission denied)`.
pub(crate) fn log_not_written(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("Could not use ")?;
    rest.split_once(" for logging (error").map(|(file, _)| file).filter(|file| !file.is_empty())
}

/// Which kinds a line, in lower case, takes back; None where it takes back nothing.
pub(crate) fn takes_back(line: &str, lower: &str) -> Option<impl Fn(TroubleKind) -> bool> {
    let over: Vec<TroubleKind> =
        OVER.iter().filter(|(sign, _)| has_sign(lower, sign)).map(|(_, kind)| *kind).collect();
    let has_started = lower.contains("ready for connections") && !lower.contains("x plugin ready")
        || unit(line) == Some(Unit::Started);
    let is_any = has_started || !over.is_empty();
    is_any
        .then_some(move |kind: TroubleKind| over.contains(&kind) || has_started && kind.keeps_from_starting())
}

/// True where a line has a sign. A number ends where its digits do.
fn has_sign(line: &str, sign: &str) -> bool {
    let is_number = sign.ends_with(|c: char| c.is_ascii_digit());
    let mut places = line.match_indices(sign).map(|(at, _)| &line[at + sign.len()..]);
    places.any(|rest| !(is_number && rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// How the number of an error stands in what a replica prints, in lower case.
const ERROR_CODES: [&str; 2] = ["error_code:", "internal mariadb error code:"];

/// What an applier prints when it stops; what it tries again is a warning.
fn applier_stopped(line: &str) -> bool {
    let is_of_applier = ["slave sql", "replica sql"].iter().any(|name| line.contains(name));
    is_of_applier
        && !is_of_node(line)
        && (line.contains("sql thread aborted")
            || line.contains("[error]") && ERROR_CODES.iter().any(|sign| line.contains(sign)))
}

/// How lines about a state transfer that failed begin and go on, in lower case (gcs_group.cpp, wsrep_sst.cc and the scripts). What else a
/// script says is why it failed, and is shown as it is.
const FAILED_TRANSFERS: [(&str, &str); 11] = [
    ("state transfer to ", " failed: "),
    ("sst failed", ""),
    ("sst sending failed", ""),
    ("failed to prepare for '", "' sst"),
    ("failed to execute: wsrep_sst_", ""),
    ("command did not run: wsrep_sst_", ""),
    ("failed to read ", " from: wsrep_sst_"),
    ("failed to read uuid:seqno ", "from joiner script"),
    ("wsrep_sst: [error] cleanup after exit with status", ""),
    ("wsrep_sst: [error] error while getting data from donor", ""),
    ("[wsrep-sst] ", "cleanup after exit with status"),
];

fn transfer_failed(lower: &str) -> bool {
    FAILED_TRANSFERS.iter().any(|(begin, then)| goes_on(lower, begin, then))
}

/// True for a line that has one text, and behind it another.
fn goes_on(lower: &str, begin: &str, then: &str) -> bool {
    lower.split_once(begin).is_some_and(|(_, rest)| rest.contains(then))
}

/// How lines about system tables begin and go on, in lower case (sql/mysqld.cc, sql_acl.cc, table.cc and the messages of the storage
/// engines). That they are not there is another matter.
const SYSTEM_TABLE_ERRORS: [(&str, &str); 12] = [
    ("can't open and lock privilege tables: ", "is corrupt"),
    ("can't open and lock privilege tables: ", "incorrect file format"),
    ("can't open and lock privilege tables: ", "marked as crashed"),
    ("can't open and lock privilege tables: ", "incorrect information in file"),
    ("can't open and lock privilege tables: ", "incorrect key file"),
    ("can't open and lock privilege tables: ", "tablespace is missing"),
    ("cannot load from mysql.", "is probably corrupted"),
    ("missing system table mysql.", ""),
    ("column count of mysql.", " is wrong"),
    ("'./mysql/", "is marked as crashed"),
    ("incorrect information in file: './mysql/", ""),
    ("incorrect file format './mysql/", ""),
];

fn is_of_system_tables(lower: &str) -> bool {
    SYSTEM_TABLE_ERRORS.iter().any(|(begin, then)| goes_on(lower, begin, then))
}

/// True for what a node of Galera prints in an applier's words, in lower case: it names no binary log of a source (sql/log_event.cc). A
/// replica's worker does not know that log by itself, and names it first.
pub(crate) fn is_of_node(lower: &str) -> bool {
    lower.contains(" log first, end_log_pos ") && !lower.contains("worker ")
}

/// What a receiver prints when it cannot connect: `Slave I/O: error connecting to master 'a@b:3306'`, `Replica I/O for channel '':
/// error reconnecting to source`.
fn receiver_failed(line: &str) -> bool {
    is_of_receiver(line)
        && ["error connecting to", "error reconnecting to"].iter().any(|sign| line.contains(sign))
}

/// What a receiver prints of an answer that is none.
fn is_of_packet(lower: &str) -> bool {
    lower.contains("error reading packet from server")
}

/// `[Xtrabackup] File '/data/b.000002' not found (OS errno 2 - No such file or directory)`, and the line below that.
fn is_of_backup_file(lower: &str) -> bool {
    goes_on(lower, "[xtrabackup] file '", "not found (os errno 2 ")
        || goes_on(lower, "[xtrabackup] ", "failed to open the source file")
}

fn is_of_receiver(line: &str) -> bool {
    ["slave i/o", "replica i/o"].iter().any(|name| line.contains(name))
}

/// `loop took 18342ms`, `Page cleaner took 48210ms to flush`, `Long wait (241 seconds) for dict_sys.latch`
pub(crate) fn duration_ms(line: &str) -> Option<u64> {
    if let Some((_, rest)) = line.split_once(" took ") {
        return rest.split_once("ms")?.0.parse().ok();
    }
    let (_, rest) = line.split_once("long wait (")?;
    rest.split_once(" seconds")?.0.parse::<u64>().ok()?.checked_mul(1000)
}

/// The least that such a round takes, milliseconds. By judgement: a page cleaner that waits for a latch is over it sooner.
const STOPPED_MS: u64 = 60_000;

/// `page_cleaner: 1000ms intended loop took 5966815ms. ... (flushed=0 and evicted=0, during the time.)`, and from MySQL 8.0.22 on
/// `Page cleaner took 5966815ms to flush 0 and evict 0 pages`.
fn wrote_nothing(line: &str) -> bool {
    (line.contains("(flushed=0 and evicted=0") || line.contains(" to flush 0 and evict 0 pages"))
        && duration_ms(line).is_some_and(|ms| ms >= STOPPED_MS)
}

#[cfg(test)]
mod tests;
