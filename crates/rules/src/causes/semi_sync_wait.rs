//! `semi-sync-wait`: commits wait for the acknowledgement of a replica.

mod error_log;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Remedy, SessionTime, TimeClass, Window, number};

use crate::replica;
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "semi-sync-wait",
    title: "commits wait for the acknowledgement of a replica",
    what: "With semi-synchronous replication a commit returns when a replica has acknowledged its events, or when the timeout \
           is over. A replica that is slow, far away or gone makes every commit wait for it.",
    why_it_hurts: "Every transaction that writes takes the way to the replica and back, or stands for the whole timeout; with a \
                   long timeout and no replica all writing stands.",
    evidence: "Sessions in the state Waiting for semi-sync ACK, or in the functions of the plugin by their stacks, 1 % of the session time \
               or more, and with those in the queue of the commit behind them 5 % and half a session or more; the timeout, and how many \
               replicas there are (Rpl_semi_sync_source_clients). That the applier of a replica waits so for replicas of its own is said. \
               An error log that was given and says that no replica acknowledged a commit within the timeout, or that semi-sync was \
               switched off, and not that it is back, is a warning.",
    looks_alike: "Commits that wait for the disk are commit-sync-bound. Commits of a Galera cluster wait for its certification.",
    remedies: "Bring the replica back, or look at its receiver, its disk and the network between. Where commits stood for the whole \
               timeout and went on without a replica, then look at the timeout: longer than short interruptions, and no longer than \
               clients may wait. To let writes go on without it: SET GLOBAL rpl_semi_sync_source_enabled = OFF \
               (rpl_semi_sync_master_enabled before MySQL 8.0.26 and on MariaDB), or a shorter timeout. KILL frees nobody: the transaction \
               is committed already.",
    safety: "Without semi-sync a commit that was acknowledged to a client can be lost with the source. Both variables are \
             dynamic; sessions that wait go on at once.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/replication-semisync.html",
        "https://mariadb.com/docs/server/ha-and-performance/standard-replication/semisynchronous-replication",
    ],
    costs: Costs::Waits(&[TimeClass::SemiSync, TimeClass::Commit, TimeClass::CommitOrder]),
    explains_time: &[TimeClass::SemiSync, TimeClass::Commit, TimeClass::CommitOrder],
    stacks: Stacks::Standing(&["Repl_semi_sync_master::commit_trx", "ReplSemiSyncMaster::commitTrx"]),
    rule: Rule::TimeOrCapture(evaluate, error_log::of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// True where a session was listed that waits for the acknowledgement: the time in commit says nothing of a sync then.
pub(super) fn is_seen(window: &Window) -> bool {
    let lists = window.all(|sample| &sample.server.threads);
    lists.iter().any(|(_, threads)| threads.iter().any(|thread| thread.state.contains("semi-sync")))
}

/// True where a thread that applies what a source sends waits for the acknowledgement.
fn holds_up_the_applier(window: &Window) -> bool {
    let lists = window.all(|sample| &sample.server.threads);
    let waits = |thread: &ServerThread| thread.state.contains("semi-sync") && replica::is_applier(thread);
    lists.iter().any(|(_, threads)| threads.iter().any(waits))
}

/// Share of the session time of those that wait for the acknowledgement itself: one session of a hundred, all the time.
const HEAD: f64 = 0.01;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    // One session of a group waits for the acknowledgement, and the others in the queue of the commit behind it.
    if !time.classes.iter().any(|one| one.class == TimeClass::SemiSync && one.share >= HEAD) {
        return Outcome::Clear;
    }
    let classes = [TimeClass::SemiSync, TimeClass::Commit, TimeClass::CommitOrder];
    let Some(waits) = InClasses::from_time(time, &classes) else { return Outcome::Clear };
    // Before 8.0.26 and on MariaDB the names say master, and the state names a slave.
    let says_replica = window
        .all(|sample| &sample.server.threads)
        .iter()
        .any(|(_, threads)| threads.iter().any(|thread| thread.state.ends_with("ACK from replica")));
    let is_new = says_replica || window.variable("rpl_semi_sync_source_enabled").is_some();
    let side = if is_new { "source" } else { "master" };
    let timeout_ms = window.variable_number(&format!("rpl_semi_sync_{side}_timeout"));
    let replicas =
        window.status_series(&format!("Rpl_semi_sync_{side}_clients")).last().map(|&(_, count)| count);
    let holds_up = match holds_up_the_applier(window) {
        true => {
            " The applier of this replica is one of them: it waits for a replica of its own at each commit, and falls behind its source."
        }
        false => "",
    };
    let status = "SHOW GLOBAL STATUS";
    let of_how_many = match replicas {
        Some(0.0) => "; there is none",
        _ => "",
    };
    Outcome::Fired(
        waits
            .draft(
                &CAUSE,
                format!("{:.1} sessions wait until a replica acknowledges the commit{of_how_many}", waits.sessions),
            )
            .why(match timeout_ms {
                Some(timeout_ms) => format!(
                    "Each commit waits for a replica for up to {}, and holds its locks meanwhile.{holds_up}",
                    number::duration(timeout_ms / 1e3)
                ),
                None => format!("Each commit waits for a replica, and holds its locks meanwhile.{holds_up}"),
            })
            .evidence_if(replicas.map(|count| Evidence::new("replicas with semi-sync", count, "", status).expected(">= 1")))
            .evidence_if(
                timeout_ms.map(|timeout_ms| Evidence::new("timeout", timeout_ms / 1e3, "s", "SHOW GLOBAL VARIABLES")),
            )
            .remedy(Remedy {
                statement: "Look at the replica first: is it there, does it write its relay log, is the network well?".into(),
                why: "The source waits for it and for nothing else.".into(),
                dynamic: true,
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: format!("SET GLOBAL rpl_semi_sync_{side}_enabled = OFF"),
                why: "Commits no longer wait for a replica; those that wait go on at once.".into(),
                dynamic: true,
                risk: "A transaction that a client believes committed is lost if the source is lost before a replica has it.".into(),
                undo: format!("SET GLOBAL rpl_semi_sync_{side}_enabled = ON"),
            })
            .explains(&[super::commit_sync_bound::CAUSE.name])
            .finding(),
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    pub(crate) fn fires() -> Window {
        Build::waiting(12, "Waiting for semi-sync ACK from replica")
            .variable("rpl_semi_sync_source_enabled", "ON")
            .variable("rpl_semi_sync_source_timeout", "10000")
            .window()
    }

    /// They wait for the disk.
    pub(crate) fn near_miss() -> Window {
        Build::waiting(12, "waiting for handler commit").window()
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .remote()
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }

    #[test]
    fn an_applier_that_waits_for_its_own_replicas_is_said() {
        let sessions = |user: &'static str| {
            let thread = ServerThread {
                user: user.into(),
                name: String::new(),
                ..session(7, "Query", "Waiting for semi-sync ACK from slave", "")
            };
            let window =
                Build::busy("5.7.44").sessions(move |_| vec![thread.clone()]).remote().without_profile();
            crate::diagnose(&window.window()).findings.remove(0)
        };
        let finding = sessions("system user");
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.why.contains("The applier of this replica"), "{}", finding.why);
        assert!(!sessions("app").why.contains("applier"));
    }

    #[test]
    fn the_queue_behind_the_one_that_waits_for_the_replica_is_its_cost() {
        let state = |id| {
            if id == 20 { "Waiting for semi-sync ACK from replica" } else { "waiting for handler commit" }
        };
        let sessions = |_| (20..32).map(|id| session(id, "Query", state(id), "COMMIT")).collect();
        let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
        let finding = &crate::diagnose(&window).findings[0];
        assert_eq!(finding.cause, CAUSE.name, "{finding:#?}");
        assert!(finding.score > 0.95, "{}", finding.score);
    }
}
