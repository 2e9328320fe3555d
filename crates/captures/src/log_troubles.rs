//! The catalogue of troubles that an error log names: what a line of each has, and what it means.

use spindoctor_model::TroubleKind;

use crate::kernel_log::{
    self, DISK_ERRORS, DISKS, HUNG_IN_KERNEL, HUNG_OF_SERVER, READ_ONLY, disk_entry, is_hung, is_hung_server,
    is_kill_for_memory,
};
use crate::{client_errors, denials, start_errors};

/// Stands for a round of the page cleaner that took a minute or more and wrote nothing: no disk was waited for. The threads did
/// not run, as where the machine is suspended or the container is paused.
const DID_NOT_RUN: &str = "the page cleaner wrote nothing";

/// Stands for what a replica's applier says when it stops.
const APPLIER_STOPPED: &str = "the applier stopped";

/// Stands for what a replica's receiver says when it has no connection to its source.
const RECEIVER_FAILED: &str = "the receiver failed";

/// Stands for what a replica's receiver says when it stops: `Slave I/O: Got fatal error 1236 from master when reading data from binary
/// log: ..., Error_code: 1236`.
const RECEIVER_STOPPED: &str = "the receiver stopped";

/// What lines about damaged pages mean.
pub(crate) const DAMAGED: &str = "a page of a data file is damaged";

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
const OVER: [(&str, TroubleKind); 10] = [
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

/// What lines of the kernel, systemd and Kubernetes about a server that was killed mean.
const KILLED: &str = "the kernel killed a server because no memory was left";

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
const TROUBLES: [(&str, &str, Option<TroubleKind>); 88] = [
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
    (DISK_IS_FULL, WAITS_FOR_ROOM, Some(TroubleKind::WaitsForSpace)),
    // ER_DISK_FULL, as a client prints it
    ("waiting for someone to free some space", WAITS_FOR_ROOM, Some(TroubleKind::WaitsForSpace)),
    ("no space left on device", "a disk was full", Some(TroubleKind::DiskFull)),
    ("out of disk space", "a disk was full", Some(TroubleKind::DiskFull)),
    ("errno: 28", "a disk was full", Some(TroubleKind::DiskFull)),
    ("errcode: 28", "a disk was full", Some(TroubleKind::DiskFull)),
    ("error number 28", "a disk was full", Some(TroubleKind::DiskFull)),
    ("error 28", "a disk was full", Some(TroubleKind::DiskFull)),
    // Windows: ERROR_DISK_FULL
    ("system error number 112", "a disk was full", Some(TroubleKind::DiskFull)),
    ("out of memory", NO_MEMORY, Some(TroubleKind::NoMemory)),
    ("cannot allocate memory", NO_MEMORY, Some(TroubleKind::NoMemory)),
    ("failed; errno 12", NO_MEMORY, Some(TroubleKind::NoMemory)),
    (
        "difficult to find free blocks in the buffer pool",
        "no free page was found in the buffer pool",
        Some(TroubleKind::NoFreePage),
    ),
    ("page_cleaner", "the page cleaner took longer than its second", Some(TroubleKind::SlowFlush)),
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
    ("is marked as crashed", "a table is marked as crashed", None),
    ("database page corruption", DAMAGED, Some(TroubleKind::PageDamaged)),
    // MariaDB 10.6
    ("page read from tablespace is corrupted", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("is corrupted", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("header page consists of zero bytes", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("corrupted page [page id", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("because data files are corrupt", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("error data structure corruption", DAMAGED, Some(TroubleKind::PageDamaged)),
    ("transaction deadlock", DEADLOCKS, Some(TroubleKind::Deadlock)),
    ("transactions deadlock", DEADLOCKS, Some(TroubleKind::Deadlock)),
    (
        "semi-sync replication switched off",
        "semi-synchronous replication was switched off: no replica answered in time",
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
    ("aborted connection ", "connections were lost: clients that died, or were silent for too long", None),
    (APPLIER_STOPPED, "replication stopped: the applier met an error", None),
    (RECEIVER_FAILED, "replication: the receiver could not reach its source", None),
    (RECEIVER_STOPPED, "replication stopped: the receiver met an error", None),
];

/// Kubernetes' event of a container that it ends because its probe failed (pkg/kubelet/kuberuntime): `Container mysql failed liveness
/// probe, will be restarted`.
const PROBE_FAILED: &str = " failed liveness probe, will be restarted";

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

/// True where a line has the sign of an entry of logs.
fn is_entry(sign: &str, line: &str, lower: &str) -> bool {
    match sign {
        DID_NOT_RUN => wrote_nothing(lower),
        HUNG_OF_SERVER => is_hung_server(line),
        HUNG_IN_KERNEL => is_hung(line),
        APPLIER_STOPPED => applier_stopped(lower),
        RECEIVER_FAILED => receiver_failed(lower),
        RECEIVER_STOPPED => {
            is_of_receiver(lower)
                && (lower.contains("got fatal error 1236")
                    || lower.contains("[error]") && lower.contains("error_code:"))
        }
        sign if OF_KILLS.contains(&sign) => has_sign(lower, sign) && is_kill_for_memory(lower),
        PROBE_FAILED => is_probe_failed(line),
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

/// Which kinds a line, in lower case, takes back; None where it takes back nothing.
pub(crate) fn takes_back(lower: &str) -> Option<impl Fn(TroubleKind) -> bool> {
    let over: Vec<TroubleKind> =
        OVER.iter().filter(|(sign, _)| has_sign(lower, sign)).map(|(_, kind)| *kind).collect();
    let has_started = lower.contains("ready for connections") && !lower.contains("x plugin ready");
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

/// What an applier prints when it stops; what it tries again is a warning.
fn applier_stopped(line: &str) -> bool {
    let is_of_applier = ["slave sql", "replica sql"].iter().any(|name| line.contains(name));
    is_of_applier
        && (line.contains("sql thread aborted") || line.contains("[error]") && line.contains("error_code:"))
}

/// What a receiver prints when it cannot connect: `Slave I/O: error connecting to master 'a@b:3306'`, `Replica I/O for channel '':
/// error reconnecting to source`.
fn receiver_failed(line: &str) -> bool {
    is_of_receiver(line)
        && ["error connecting to", "error reconnecting to"].iter().any(|sign| line.contains(sign))
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
mod tests {
    use super::*;

    #[test]
    fn a_number_of_an_error_ends_where_its_digits_do() {
        assert!(has_sign("write failed, error 28", "error 28") && has_sign("error 28: no", "error 28"));
        assert!(!has_sign("error 2813", "error 28") && has_sign("error 2813, error 28", "error 28"));
    }
}
