//! A replica's applier and receiver that stop: what their lines mean, and how they are recognised.

use super::cluster::is_of_node;

/// Stands for what a replica's applier says when it stops.
pub(super) const APPLIER_STOPPED: &str = "the applier stopped";

/// Stands for what a replica's receiver says when it has no connection to its source.
pub(super) const RECEIVER_FAILED: &str = "the receiver failed";

/// Stands for what a replica's receiver says when it stops: `Slave I/O: Got fatal error 1236 from master when reading data from binary
/// log: ..., Error_code: 1236`.
pub(super) const RECEIVER_STOPPED: &str = "the receiver stopped";

/// Stands for what it says below that, of the relay log: `Slave I/O: Relay log write failure: could not queue event from master`.
pub(super) const RECEIVER_FOLLOWS: &str = "the receiver stopped therefore";

/// Stand for what it says above that, of what its source answered: `Error reading packet from server for channel '': ... (server_errno=1236)`.
pub(super) const PACKET_REFUSED: &str = "the source refused";
pub(super) const PACKET_LOST: &str = "the source did not answer";

pub(super) const APPLIER_ENDED: &str = "replication stopped: the applier met an error";
pub(super) const RECEIVER_ENDED: &str = "replication stopped: the receiver met an error";

/// How the number of an error stands in what a replica prints, in lower case.
const ERROR_CODES: [&str; 2] = ["error_code:", "internal mariadb error code:"];

/// What an applier prints when it stops; what it tries again is a warning.
pub(super) fn applier_stopped(line: &str) -> bool {
    // MySQL 5.0 prints no `SQL`.
    let is_of_applier =
        ["slave sql", "replica sql", "[error] slave: "].iter().any(|name| line.contains(name));
    is_of_applier
        && !is_of_node(line)
        && (line.contains("sql thread aborted")
            || line.contains("[error]")
                // Where the end of the line was cut, the number is lost.
                && (ERROR_CODES.iter().any(|sign| line.contains(sign)) || line.contains(": error '")))
}

/// What a receiver prints when it cannot connect: `Slave I/O: error connecting to master 'a@b:3306'`, `Replica I/O for channel '':
/// error reconnecting to source`.
pub(super) fn receiver_failed(line: &str) -> bool {
    is_of_receiver(line)
        && ["error connecting to", "error reconnecting to"].iter().any(|sign| line.contains(sign))
}

/// What a receiver prints of an answer that is none.
pub(super) fn is_of_packet(lower: &str) -> bool {
    lower.contains("error reading packet from server")
}

pub(super) fn is_of_receiver(line: &str) -> bool {
    ["slave i/o", "replica i/o"].iter().any(|name| line.contains(name))
}
