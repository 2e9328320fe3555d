//! What an error log ends with when a source waited for its replicas in vain.

use spindoctor_model::{Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use super::CAUSE;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;

/// No replica acknowledged a commit within the timeout, or none was left, and the source goes on without one. How many commits stood
/// meanwhile the log does not say.
pub(super) fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::SemiSyncLost)?;
    let says_waited = |other: &LoggedTrouble| {
        other.kind == TroubleKind::SemiSyncLost
            && other.line.to_ascii_lowercase().contains("timeout waiting for reply")
    };
    let (headline, why) = match window.error_log.iter().any(says_waited) {
        true => (
            "The source waited for a replica until its timeout, and goes on without one: semi-synchronous replication is off",
            "No replica acknowledged a commit within rpl_semi_sync_source_timeout (rpl_semi_sync_master_timeout): that commit, and those \
             behind it, stood for so long. Until a replica has caught up commits wait for none, and are lost if this server is lost.",
        ),
        false => (
            "Semi-synchronous replication is off: commits wait for no replica",
            "No replica acknowledged a commit within the timeout, or the last one has gone where rpl_semi_sync_source_wait_no_replica \
             (rpl_semi_sync_master_wait_no_slave) is OFF. Until a replica has caught up commits are lost if this server is lost.",
        ),
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, headline)
            .why(why)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "On each replica SHOW REPLICA STATUS (before MySQL 8.0.22 and MariaDB 10.5: SHOW SLAVE STATUS): does its \
                            receiver run (Replica_IO_Running or Slave_IO_Running, Last_IO_Error)? Then its disk, and the network \
                            between; here SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync%'"
                    .into(),
                why: "The receiver acknowledges once it has written the events to its relay log: how far the applier is does not matter. \
                      ..._clients counts the replicas that are connected with semi-sync, and ..._status says whether commits wait for them \
                      again."
                    .into(),
                dynamic: true,
                risk: "It only reads.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "SET GLOBAL rpl_semi_sync_source_timeout to more milliseconds than the interruption took (before MySQL 8.0.26 \
                            and on MariaDB: rpl_semi_sync_master_timeout)"
                    .into(),
                why: "Only where the replica and the network are well, and short interruptions are usual: a longer timeout outlasts \
                      them."
                    .into(),
                dynamic: true,
                risk: "Where no replica answers, each commit stands for all of that time, and holds its locks.".into(),
                undo: "SET GLOBAL of the same variable to what it was (10000 if nobody changed it).".into(),
            })
            // What is lost is safety: the sessions have gone on.
            .elsewhere()
            .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;

    const OFF: &str = "[Note] Semi-sync replication switched OFF.";
    const LATE: &str = "[Warning] Timeout waiting for reply of binlog (file: b.000007, pos: 812), semi-sync up to file , position 0.";

    /// The findings of a log with such a line so long before its end.
    fn found(line: &str, before_end_s: f64) -> Vec<Finding> {
        let trouble = LoggedTrouble {
            kind: TroubleKind::SemiSyncLost,
            times: 2,
            before_end_s: Some(before_end_s),
            line: line.to_owned(),
            ..LoggedTrouble::default()
        };
        crate::diagnose(&Window { error_log: vec![trouble], ..Window::default() }).findings
    }

    #[test]
    fn a_source_that_went_on_without_its_replicas_is_a_warning_that_begins_with_the_replica() {
        let all = found(LATE, 30.0);
        assert_eq!(all.len(), 1, "{all:#?}");
        assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Warning));
        assert!(all[0].headline.contains("until its timeout"), "{}", all[0].headline);
        assert!(all[0].remedies[0].statement.starts_with("On each replica SHOW REPLICA STATUS"));
        // What MariaDB calls it.
        assert!(all[0].remedies[0].statement.contains("or Slave_IO_Running"), "{:?}", all[0].remedies);
        assert!(
            all[0].remedies[1].statement.contains("rpl_semi_sync_master_timeout"),
            "{:?}",
            all[0].remedies
        );
    }

    #[test]
    fn of_one_that_is_off_alone_no_wait_is_said_and_what_is_long_past_is_none() {
        let off = found(OFF, 30.0).remove(0);
        assert_eq!(off.headline, "Semi-synchronous replication is off: commits wait for no replica");
        assert_eq!(found(OFF, 86_400.0), []);
    }
}
