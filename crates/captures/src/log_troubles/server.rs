//! What a server says of itself and of its clients: crashes, limits, full disks, a page cleaner that did not run.

use super::has_sign;

/// What a check of the server's own prints when it fails (ut0dbg.cc): `InnoDB: Assertion failure in file btr0pcur.cc line 521`.
pub(super) const ASSERTION: &str = "assertion failure";

/// Stands for a round of the page cleaner that took a minute or more and wrote nothing: no disk was waited for. The threads did
/// not run, as where the machine is suspended or the container is paused.
pub(super) const DID_NOT_RUN: &str = "the page cleaner wrote nothing";

/// What InnoDB's lines at a start after a crash mean.
pub(super) const RECOVERED: &str =
    "the server had ended without a shutdown before, and recovered at its start";

/// What lines of both a server and its clients mean.
pub(crate) const TOO_MANY: &str = "clients were refused: too many connections";
pub(crate) const NO_THREAD: &str = "clients were refused: no thread could be made for them";
pub(crate) const DEADLOCKS: &str = "transactions ended as victims of a deadlock";
pub(crate) const NO_ROOM_IN_TABLE: &str = "a table had no room for more rows";
pub(crate) const WAITS_FOR_ROOM: &str = "a disk was full: the server waited for room";
pub(crate) const NO_MEMORY: &str = "memory was refused to the server";
pub(crate) const FULL: &str = "a disk was full";

pub(super) const CONNECTIONS_LOST: &str =
    "connections were lost: clients that died, or were silent for too long";

/// The first line of a server that waits for room, with the file; every minute or ten it says that it still does.
pub(super) const DISK_IS_FULL: &str = "disk is full writing";
const STILL_FULL: &str = "message reprinted in";

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
pub(super) fn wrote_nothing(line: &str) -> bool {
    (line.contains("(flushed=0 and evicted=0") || line.contains(" to flush 0 and evict 0 pages"))
        && duration_ms(line).is_some_and(|ms| ms >= STOPPED_MS)
}
