//! What takes the place of a KILL where a replica's applier has what others wait for.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Remedy, Window};

use super::{Words, is_applier};
use crate::replication_group;

/// STOP REPLICA SQL_THREAD in the words of the version, with its channel. None where it is not known that the thread applies for a
/// channel of replication: a group's members and nodes of a cluster have appliers that it does not stop, and of several channels the
/// list of threads does not say which is whose. A DDL ends before the applier looks whether it is to stop.
pub(crate) fn stop_applier(window: &Window, thread: &ServerThread) -> Option<Remedy> {
    let is_ddl = thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table);
    let is_node = window.variable("wsrep_on").is_some_and(|on| on.eq_ignore_ascii_case("ON") || on == "1");
    let is_known = window.server.version.is_some() && is_applier(thread);
    if !is_known || is_ddl || is_node || replication_group::is_member(window) {
        return None;
    }
    let [channel] = window.latest(|sample| &sample.server.replication)?.as_slice() else { return None };
    if !channel.applier_running.eq_ignore_ascii_case("Yes") {
        return None;
    }
    let words = Words::new(window, &channel.name);
    Some(Remedy {
        statement: format!("Let its transaction end; where that takes too long: {}", words.stop("SQL_THREAD")),
        why: "It is a replica's applier: stopped, it gives its locks back. No KILL of it.".into(),
        dynamic: true,
        risk: "It stops behind the event that it is at; its transaction is rolled back, and applied again later. With several workers, or \
               where a table without transactions was changed, it stops at the transaction's end. The replica falls behind meanwhile."
            .into(),
        undo: words.start("SQL_THREAD"),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::ReplicaChannel;

    use super::*;
    use crate::causes::row_lock_pileup;
    use crate::testing::{Build, answer, session};

    /// Connection 7 is an applier and has a row that 20 to 29 want; these channels replicate.
    fn behind_an_applier(version: &str, statement: &str, channels: &[&str]) -> Build {
        let channels: Vec<ReplicaChannel> = channels
            .iter()
            .map(|&name| ReplicaChannel {
                name: name.into(),
                receiver_running: "Yes".into(),
                applier_running: "Yes".into(),
                behind_s: Some(0.0),
                ..ReplicaChannel::default()
            })
            .collect();
        Build::busy(version)
            .sessions(|_| {
                let (name, command) = match version.contains("MariaDB") {
                    true => ("", "Slave_SQL"),
                    false => ("thread/sql/replica_sql", "Query"),
                };
                let applier = ServerThread {
                    name: name.into(),
                    user: "system user".into(),
                    is_connection: false,
                    time_s: 60.0,
                    ..session(7, command, "Applying batch of row changes (update)", statement)
                };
                let waiters =
                    (20..30).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = n - 1"));
                [applier].into_iter().chain(waiters).collect()
            })
            .row_locked()
            .each(move |at_s, server, _| server.replication = answer(at_s, channels.clone()))
    }

    fn remedies(window: &Window) -> Vec<Remedy> {
        let findings = crate::diagnose(window).findings;
        let found = findings.into_iter().find(|finding| finding.cause == row_lock_pileup::CAUSE.name);
        found.unwrap().remedies
    }

    #[test]
    fn an_applier_is_stopped_in_the_words_of_the_version_and_not_killed() {
        for (version, channel, stop) in [
            ("9.7.4", "", "STOP REPLICA SQL_THREAD"),
            ("9.7.4", "sales", "STOP REPLICA SQL_THREAD FOR CHANNEL 'sales'"),
            ("5.7.44", "", "STOP SLAVE SQL_THREAD"),
            ("10.11.8-MariaDB", "sales", "STOP SLAVE 'sales' SQL_THREAD"),
        ] {
            let remedies = remedies(&behind_an_applier(version, "", &[channel]).window());
            assert!(remedies[0].statement.ends_with(&format!(": {stop}")), "{version}: {remedies:#?}");
            assert_eq!(remedies[0].undo, stop.replacen("STOP", "START", 1));
            let kills = |remedy: &Remedy| !crate::killing::ended_by(&remedy.statement).is_empty();
            assert!(!remedies.iter().any(kills), "{version}: {remedies:#?}");
        }
    }

    #[test]
    fn what_stop_does_not_reach_is_not_stopped() {
        let stops =
            |build: Build| remedies(&build.window()).iter().any(|remedy| remedy.statement.contains("STOP "));
        assert!(stops(behind_an_applier("9.7.4", "", &[""])));
        assert!(!stops(behind_an_applier("9.7.4", "", &["", "sales"])), "whose it is nobody knows");
        assert!(!stops(behind_an_applier("9.7.4", "", &[])), "no replica");
        assert!(!stops(behind_an_applier("9.7.4", "ALTER TABLE stock ADD note INT", &[""])), "a DDL");
        let node = behind_an_applier("10.11.8-MariaDB", "", &[""]).variable("wsrep_on", "ON");
        assert!(!stops(node), "a node of a cluster");
    }
}
