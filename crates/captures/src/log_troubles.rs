//! The catalogue of troubles that an error log names: what a line of each has, and what it means.

use spindoctor_model::TroubleKind;

use crate::kernel_log::{DISK_ERRORS, HUNG_IN_KERNEL, HUNG_OF_SERVER, LATE_DISK};

/// Stands for a round of the page cleaner that took a minute or more and wrote nothing: no disk was waited for. The threads did
/// not run, as where the machine is suspended or the container is paused.
pub(crate) const DID_NOT_RUN: &str = "the page cleaner wrote nothing";

/// Stands for what a replica's applier says when it stops.
pub(crate) const APPLIER_STOPPED: &str = "the applier stopped";

/// Stands for what a replica's receiver says when it has no connection to its source.
pub(crate) const RECEIVER_FAILED: &str = "the receiver failed";

/// What lines about damaged pages mean.
pub(crate) const DAMAGED: &str = "a page of a data file is damaged";

/// What InnoDB's lines at a start after a crash mean.
pub(crate) const RECOVERED: &str =
    "the server had ended without a shutdown before, and recovered at its start";

/// What lines of a node of Galera without a majority mean.
pub(crate) const OUTSIDE: &str =
    "the node was outside of the primary part of its Galera cluster: it executed nothing";

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
pub(crate) const OVER: [(&str, TroubleKind); 10] = [
    ("declared online within the replication group", TroubleKind::Errant),
    ("view(view_id(prim,", TroubleKind::NoMajority),
    ("component: primary = yes", TroubleKind::NoMajority),
    ("synchronized with group", TroubleKind::NoMajority),
    ("joined -> synced", TroubleKind::NoMajority),
    ("received self-leave", TroubleKind::NoMajority),
    ("resumed contact with a majority", TroubleKind::NoMajority),
    ("declared online within the replication group", TroubleKind::NoMajority),
    ("is reachable again", TroubleKind::NodeLost),
    ("received self-leave", TroubleKind::NodeLost),
];

/// What lines about trouble hold, in lower case, what that means, and the trouble that causes rest on. The first that fits counts.
pub(crate) const TROUBLES: [(&str, &str, Option<TroubleKind>); 84] = [
    (
        "out of memory: killed process",
        "the kernel killed a server because no memory was left",
        Some(TroubleKind::KilledForMemory),
    ),
    (
        "out of memory: kill process",
        "the kernel killed a server because no memory was left",
        Some(TroubleKind::KilledForMemory),
    ),
    (
        "cgroup out of memory: kill",
        "the kernel killed a server because no memory was left",
        Some(TroubleKind::KilledForMemory),
    ),
    (
        "killed process ",
        "the kernel killed a server because no memory was left",
        Some(TroubleKind::KilledForMemory),
    ),
    (
        " invoked oom-killer",
        "the kernel had no memory left for the server",
        Some(TroubleKind::KilledForMemory),
    ),
    (
        "oom-kill:constraint=",
        "the kernel killed a server because no memory was left",
        Some(TroubleKind::KilledForMemory),
    ),
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
    ("assertion failure", "a check of the server's own failed", None),
    (DISK_IS_FULL, "a disk was full: the server waited for room", Some(TroubleKind::WaitsForSpace)),
    // ER_DISK_FULL, as a client prints it
    (
        "waiting for someone to free some space",
        "a disk was full: the server waited for room",
        Some(TroubleKind::WaitsForSpace),
    ),
    ("no space left on device", "a disk was full", Some(TroubleKind::DiskFull)),
    ("errno: 28", "a disk was full", Some(TroubleKind::DiskFull)),
    ("errcode: 28", "a disk was full", Some(TroubleKind::DiskFull)),
    ("error number 28", "a disk was full", Some(TroubleKind::DiskFull)),
    ("error 28", "a disk was full", Some(TroubleKind::DiskFull)),
    // Windows: ERROR_DISK_FULL
    ("system error number 112", "a disk was full", Some(TroubleKind::DiskFull)),
    ("out of memory", "memory was refused to the server", Some(TroubleKind::NoMemory)),
    ("cannot allocate memory", "memory was refused to the server", Some(TroubleKind::NoMemory)),
    ("failed; errno 12", "memory was refused to the server", Some(TroubleKind::NoMemory)),
    (
        "difficult to find free blocks in the buffer pool",
        "no free page was found in the buffer pool",
        Some(TroubleKind::NoFreePage),
    ),
    ("page_cleaner", "the page cleaner took longer than its second", Some(TroubleKind::SlowFlush)),
    // MySQL 8.0.22
    ("page cleaner took ", "the page cleaner took longer than its second", Some(TroubleKind::SlowFlush)),
    (
        "too many connections",
        "clients were refused: too many connections",
        Some(TroubleKind::TooManyConnections),
    ),
    (
        "can't create thread to handle new connection",
        "clients were refused: no thread could be made for them",
        Some(TroubleKind::NoThread),
    ),
    // ER_CANT_CREATE_THREAD, as a client prints it
    (
        "can't create a new thread (errno",
        "clients were refused: no thread could be made for them",
        Some(TroubleKind::NoThread),
    ),
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
    ("is marked as crashed", "a table is marked as crashed", None),
    ("database page corruption", DAMAGED, Some(TroubleKind::PageDamaged)),
    // MariaDB 10.6
    ("page read from tablespace is corrupted", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("is corrupted", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("transaction deadlock", "transactions ended as victims of a deadlock", Some(TroubleKind::Deadlock)),
    ("transactions deadlock", "transactions ended as victims of a deadlock", Some(TroubleKind::Deadlock)),
    (
        "semi-sync replication switched off",
        "semi-synchronous replication was switched off: no replica answered in time",
        None,
    ),
    ("flow control", "Galera's flow control stood in the way of commits", None),
    ("table is full", "a table had no room for more rows", Some(TroubleKind::TableFull)),
    ("' is full", "a table had no room for more rows", Some(TroubleKind::TableFull)),
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
    ("i/o error, dev ", DISK_ERRORS, None),
    ("medium error, dev ", DISK_ERRORS, None),
    ("i/o error on dev", DISK_ERRORS, None),
    ("metadata i/o error in ", DISK_ERRORS, None),
    ("ext4-fs error (device ", DISK_ERRORS, None),
    ("remounting filesystem read-only", "the kernel made a file system read-only after an error", None),
    (" timeout, aborting", LATE_DISK, None),
    (" timeout, reset controller", LATE_DISK, None),
    ("database was not shutdown normally", RECOVERED, None),
    ("database was not shut down normally", RECOVERED, None),
    ("aborted connection ", "connections were lost: clients that died, or were silent for too long", None),
    (APPLIER_STOPPED, "replication stopped: the applier met an error", None),
    (RECEIVER_FAILED, "replication: the receiver could not reach its source", None),
];

/// The first line of a server that waits for room, with the file; every minute or ten it says that it still does.
pub(crate) const DISK_IS_FULL: &str = "disk is full writing";
pub(crate) const STILL_FULL: &str = "message reprinted in";
