//! Lines that take a trouble back: a node that joins again, a server that has started.

use spindoctor_model::TroubleKind;

use super::has_sign;
use crate::systemd_log::{Unit, unit};

/// What lines that take a trouble back hold, in lower case. Galera prints a view of the primary part when it has found one, and
/// Received SELF-LEAVE where the node is shut down in order.
const OVER: [(&str, TroubleKind); 23] = [
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
    // Whom a member of a group reaches again, `peers` says. Until it is in the group itself the others are lost to it.
    ("this server was declared online within the replication group", TroubleKind::NodeLost),
    ("declared online within the replication group", TroubleKind::NotJoined),
    // A member that bootstraps the group, or joins one, says who is in it.
    ("group membership changed to ", TroubleKind::NotJoined),
    ("received self-leave", TroubleKind::NodeLost),
    // myisam_recover_options and aria_recover_options: where that fails, the next use of the table says so.
    ("recovering table: '", TroubleKind::TableCrashed),
    ("semi-sync replication switched on", TroubleKind::SemiSyncLost),
    // Somebody set it so, or the server was started again.
    ("semi-sync replication disabled on the ", TroubleKind::SemiSyncLost),
    ("ready for connections", TroubleKind::SemiSyncLost),
    // xtrabackup and mariabackup: a later backup.
    ("completed ok!", TroubleKind::BackupOvertaken),
];

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

/// True for a line about system tables of another version: a server starts with them, and has them still.
pub(crate) fn outlasts_a_start(line: &str) -> bool {
    line.contains("Column count of mysql.")
}

#[cfg(test)]
mod tests {
    use crate::error_log::read;

    #[test]
    fn tables_of_another_version_are_not_over_with_the_start() {
        let says = |error: &str| {
            let text = format!(
                "2024-03-04T10:11:12.1Z 0 [ERROR] {error}\n2024-03-04T10:11:14.1Z 0 [Note] /usr/sbin/mysqld: ready for connections.\n"
            );
            read(&text).says.into_iter().find(|said| said.starts_with("system tables")).unwrap_or_default()
        };
        let older = says(
            "Column count of mysql.user is wrong. Expected 45, found 43. Created with MySQL 50642, now running 50733. Please use mysql_upgrade \
             to fix this error.",
        );
        assert!(!older.is_empty() && !older.ends_with("that is over"), "{older}");
        let crashed =
            says("Fatal error: Can't open and lock privilege tables: Table 'user' is marked as crashed");
        assert!(crashed.ends_with("that is over"), "{crashed}");
    }
}
