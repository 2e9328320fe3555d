//! What an error log ends with where a node takes no part in its cluster.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use super::super::server_stopped;
use super::remedies::{bootstrap_group, of_galera, of_galeras_start, of_group, reach_members};
use super::{
    CAUSE, COMMITS_UNTIL_GIVEN_UP, EXPLAINS, IN_OTHER_WORDS, NO_MAJORITY_OF_GROUP, NO_MAJORITY_WAITS,
};
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};

/// What a log ends with, or a list of the group's members shows.
pub(super) fn of_capture(window: &Window) -> Option<Finding> {
    if let Some(finding) = of_transfer(window) {
        return Some(finding);
    }
    // Such a node leaves, and sees no majority therefore.
    if let Some(finding) = of_node_that_differs(window) {
        return Some(finding);
    }
    let (trouble, times, is_alone) = match logged::at_the_end(window, TroubleKind::NoMajority) {
        Some((trouble, times)) => (trouble, times, true),
        None if logged::at_the_end(window, TroubleKind::Errant).is_some() => return of_errant(window),
        None if logged::at_the_end(window, TroubleKind::NotJoined).is_some() => return of_not_joined(window),
        None => {
            let (trouble, times) = logged::at_the_end(window, TroubleKind::NodeLost)?;
            (trouble, times, false)
        }
    };
    let is_group = is_of_group(trouble);
    let draft = match (is_alone, is_group) {
        (true, true) => Draft::new(
            &CAUSE,
            CRITICAL_FROM,
            match trouble.detail.as_str() {
                "" => NO_MAJORITY_OF_GROUP.to_owned(),
                peers => format!("{NO_MAJORITY_OF_GROUP} (it does not reach {peers})"),
            },
        )
        .why(NO_MAJORITY_WAITS),
        (true, false) if ends_its_start(trouble) => Draft::new(
            &CAUSE,
            CRITICAL_FROM,
            "This node does not start: it reached no part of its cluster that has the majority",
        )
        .why(
            "A node that starts looks for the others at wsrep_cluster_address and ends where it finds none that are in the primary part. Where \
             all nodes were down, the one with the latest data has to begin a new cluster.",
        ),
        (true, false) => Draft::new(
            &CAUSE,
            CRITICAL_FROM,
            "This node is outside of the primary part of its cluster: it refuses every statement that uses a table",
        )
        .why(
            "It does not reach a majority of the nodes, or has not joined yet. Each statement ends with error 1047 at once, so that nobody \
             waits and no list shows it.",
        ),
        (false, _) => Draft::new(&CAUSE, WARNING_FROM, without_answer(trouble, is_group)).why(COMMITS_UNTIL_GIVEN_UP),
    };
    Some(
        draft
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .evidence_if(not_reached(trouble))
            .remedies(match is_group {
                true => of_group(),
                false if ends_its_start(trouble) => of_galeras_start(),
                false => of_galera(),
            })
            .remedy_if(is_group.then(reach_members))
            .explains(EXPLAINS)
            .finding(),
    )
}

/// The headline of others that do not answer, with their addresses where the log has them.
fn without_answer(trouble: &LoggedTrouble, is_group: bool) -> String {
    let peers = trouble.detail.as_str();
    let count = peers.split(", ").count();
    let (one, many) = match is_group {
        true => ("Another member of the group", "members of the group"),
        false => ("Another node of the cluster", "nodes of the cluster"),
    };
    match (peers, count) {
        ("", _) => format!("{one} does not answer"),
        (_, 1) => format!("{one} does not answer ({peers})"),
        _ => format!("{count} {many} do not answer ({peers})"),
    }
}

/// The addresses of those that are not reached.
fn not_reached(trouble: &LoggedTrouble) -> Option<Evidence> {
    (!trouble.detail.is_empty())
        .then(|| Evidence::new("not reached", trouble.detail.clone(), "", "error log"))
}

/// A member that reached no other one when it was to join its group.
fn of_not_joined(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NotJoined)?;
    if has_no_session(window) {
        return Some(of_no_session(trouble, times));
    }
    let headline = match trouble.detail.as_str() {
        "" => "This member does not join its group: it reaches no other member".to_owned(),
        peers => format!("This member does not join its group: it does not reach {peers}"),
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, headline)
            .why(
                "A member that joins connects to one of group_replication_group_seeds, and that one back to its \
                 group_replication_local_address. Where no member listens there, a name leads to another host, a firewall is between them, or \
                 group_replication_ip_allowlist leaves it out, it gives up after a minute.",
            )
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .evidence_if(not_reached(trouble))
            .remedy(reach_members())
            .remedy(bootstrap_group())
            .finding(),
    )
}

/// True where a member reached another one, and could open no session there (MY-013780).
fn has_no_session(window: &Window) -> bool {
    const SIGN: &str = "failed to establish mysql client connection in group replication";
    window.error_log.iter().any(|trouble| trouble.line.to_ascii_lowercase().contains(SIGN))
}

/// A member that talks to the others over sessions of the MySQL protocol, and gets none.
fn of_no_session(trouble: &LoggedTrouble, times: u64) -> Finding {
    let whom = match trouble.detail.as_str() {
        "" => "another member",
        peers => peers,
    };
    let headline = format!(
        "This member does not join its group: it could open no session to {whom} for the group's communication"
    );
    Draft::new(&CAUSE, WARNING_FROM, headline)
        .why(
            "With group_replication_communication_stack = MYSQL members talk over sessions of the MySQL protocol: each logs in on the others with the \
             account of the channel group_replication_recovery. The login was refused, TLS is not the same on both, or no server listens there.",
        )
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .evidence_if(not_reached(trouble))
        .remedy(Remedy {
            statement: "On each member: the account of CHANGE REPLICATION SOURCE ... FOR CHANNEL 'group_replication_recovery' exists with that \
                        password, and SHOW GRANTS of it has GROUP_REPLICATION_STREAM; group_replication_ssl_mode and the certificates fit the others \
                        (without TLS: group_replication_recovery_get_public_key = ON). Try it: mysql -h HOST -P PORT -u ACCOUNT -p"
                .into(),
            why: "A login by hand from that host says what refuses it.".into(),
            dynamic: true,
            risk: "Looking is safe.".into(),
            ..Remedy::default()
        })
        .remedy(reach_members())
        .finding()
}

/// True where the node was to start, and gave up (gcomm/src/pc.cpp).
fn ends_its_start(trouble: &LoggedTrouble) -> bool {
    trouble.line.contains("failed to reach primary view")
}

/// A node that did not get the state of its cluster, by its own log or by that of the donor.
fn of_transfer(window: &Window) -> Option<Finding> {
    /// What a node says alone that was to get it (gcs_group.cpp, wsrep_sst.cc).
    const OF_JOINER: [&str; 7] = [
        "will never receive state",
        "received wrong state",
        "application state transfer failed",
        "receiving ist failed",
        "failed to prepare for '",
        "'joiner'",
        "first data from donor",
    ];
    let (trouble, times) = logged::at_the_end(window, TroubleKind::StateTransferFailed)?;
    let mut lines = window.error_log.iter().filter(|other| other.kind == trouble.kind);
    let is_of_joiner = |other: &LoggedTrouble| {
        let lower = other.line.to_ascii_lowercase();
        OF_JOINER.iter().any(|sign| lower.contains(sign))
    };
    let is_joiner = logged::at_the_end(window, TroubleKind::NotStarted).is_some() || lines.any(is_of_joiner);
    // A donor that has lost the majority meanwhile has a greater trouble.
    if !is_joiner && logged::at_the_end(window, TroubleKind::NoMajority).is_some() {
        return None;
    }
    let draft = match is_joiner {
        true => Draft::new(
            &CAUSE,
            CRITICAL_FROM,
            "This node does not join its cluster: the cluster's data could not be transferred to it (SST or IST)",
        ),
        false => Draft::new(
            &CAUSE,
            WARNING_FROM,
            "A node does not join the cluster: the cluster's data could not be transferred to it (SST or IST)",
        ),
    };
    Some(
        draft
            .why(
                "A node that joins gets what it missed (IST, port 4568) or all data (SST, port 4444) from another node, the donor, by a script that \
                 runs on both. Where the script of either ends with an error, the node that joins ends itself.",
            )
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "On the donor and on the node that joins: the lines with WSREP_SST in the error log above that line; \
                            innobackup.backup.log or mariabackup.backup.log in the donor's data folder, and .prepare.log and .move.log in the other's"
                    .into(),
                why: "The script says which command failed; most often the donor's log has the reason.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "Check wsrep_sst_method and wsrep_sst_auth (the same on all nodes, an account with RELOAD, PROCESS, LOCK TABLES and \
                            REPLICATION CLIENT), that its program and socat are installed on both, that ports 4444, 4567 and 4568 are open between \
                            the nodes, and that the disk of the node that joins has room for all data; then start it again"
                    .into(),
                why: "A login, a program, a port and room are what such a script needs on both sides.".into(),
                dynamic: true,
                risk: "An SST replaces all data of the node that joins, and loads the donor.".into(),
                ..Remedy::default()
            })
            .explains(EXPLAINS)
            .explains(&[server_stopped::CAUSE.name])
            .finding(),
    )
}

/// A node that has what its cluster does not have, or that could not apply what it has.
fn of_node_that_differs(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NodeDiffers)?;
    let all = || window.error_log.iter().filter(|other| other.kind == trouble.kind);
    let says = |sign: &str| all().any(|other| other.line.to_ascii_lowercase().contains(sign));
    let is_ahead = says("reversing history");
    let has_ended = [TroubleKind::Crashed, TroubleKind::NotStarted]
        .iter()
        .any(|kind| logged::at_the_end(window, *kind).is_some());
    let score = match is_ahead || has_ended || says("node consistency ") || says("inconsistency detected") {
        true => CRITICAL_FROM,
        false => WARNING_FROM,
    };
    let (headline, why) = match is_ahead {
        true => (
            "This node has changes that the primary part of its cluster does not have, and ended itself",
            "It was written to while it was no part of that, or the others began again without what they had (a new cluster that was begun on \
             a node that was not the last, or with an empty data folder).",
        ),
        false => (
            "This node could not apply a change that the other nodes have: its data are not theirs, and it leaves its cluster",
            "A row is missing or is there already, or a table is another one: somebody wrote here with wsrep_on = OFF or into a table that \
             Galera does not replicate, or a defect made the data differ.",
        ),
    };
    let vote = all().map(|other| &other.detail).find(|detail| !detail.is_empty()).filter(|_| !is_ahead);
    if let Some(vote) = vote.filter(|vote| vote.contains(IN_OTHER_WORDS)) {
        return Some(of_languages(vote, score, logged::evidence(trouble, times)));
    }
    let (headline, why) = match vote {
        Some(_) => (
            "This node leaves its cluster after a vote that it lost: a statement ended here in another way than on the others",
            "The nodes compare how a statement ended, and those whose end is that of the fewer leave. The vote names the error with which it ended \
             on one of them: where that is about a file, a right or room, the rows may be the same.",
        ),
        None => (headline, why),
    };
    let mend = vote.map(|_| Remedy {
        statement: "Mend what the error of the vote names (a file or its rights, a setting, room) on the node that had it, before that is started \
                    again"
            .into(),
        why: "The next statement of the kind ends in the same way there.".into(),
        dynamic: true,
        risk: "None to the data.".into(),
        ..Remedy::default()
    });
    let compare = match is_ahead {
        true => {
            "Copy its data folder away; compare its seqno (grastate.dat, or mysqld --wsrep-recover) and its binary log (mysqlbinlog) with the \
             other nodes"
        }
        false => {
            "mysqlbinlog of the newest GRA_*.log in its data folder (in old versions without a header of its own); compare the row that it \
             names on this node and on another"
        }
    };
    Some(
        Draft::new(&CAUSE, score, headline)
            .why(why)
            .evidence_if(vote.map(|vote| Evidence::new("the vote was about", vote.clone(), "", "error log")))
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy_if(mend)
            .remedy(Remedy {
                statement: compare.into(),
                why: "It shows what differs, and whose data are right.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "Where what only this node has can be lost: move grastate.dat away and start it, so that it takes all data from a node \
                            of the cluster (SST). Where this node is the right one: stop the others, and begin the cluster on it \
                            (galera_new_cluster)"
                    .into(),
                why: "All nodes then have the same data again.".into(),
                dynamic: false,
                risk: "An SST replaces all data of the node that takes it: what stands there alone is lost.".into(),
                ..Remedy::default()
            })
            .explains(EXPLAINS)
            .explains(&[server_stopped::CAUSE.name])
            .finding(),
    )
}

/// A node that lost a vote in which all had one error, each in its own language.
fn of_languages(vote: &str, score: f64, lines: impl IntoIterator<Item = Evidence>) -> Finding {
    Draft::new(
        &CAUSE,
        score,
        "This node leaves its cluster after a vote that it lost: a statement ended with one error on all nodes, in different words",
    )
    .why(
        "The nodes compare how a statement ended by the error's text, and those whose text is that of the fewer leave. Messages of servers are in \
         the language of lc_messages.",
    )
    .evidence(Evidence::new("the vote was about", vote.to_owned(), "", "error log"))
    .evidence_all(lines.into_iter())
    .remedy(Remedy {
        statement: "lc_messages = en_US in the option file of every node, then start this one: it joins again".into(),
        why: "The same error then has the same words on each, and none loses the vote. The data of the nodes need not differ.".into(),
        dynamic: true,
        risk: "Programs that read the messages get them in another language.".into(),
        ..Remedy::default()
    })
    .explains(EXPLAINS)
    .explains(&[server_stopped::CAUSE.name])
    .finding()
}

/// A member that the group does not let in, because it was written to alone (MY-011526).
fn of_errant(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::Errant)?;
    let draft = Draft::new(
        &CAUSE,
        WARNING_FROM,
        "This member does not join its group: it has transactions that the group does not have (errant ones)",
    )
    .why(
        "Somebody wrote to it while it was in no group. Group Replication compares the GTIDs when it joins, and ends the attempt; the member \
         stays read-only and gets nothing.",
    );
    Some(
        draft
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "SELECT GTID_SUBTRACT('gtid_executed of the member', 'gtid_executed of the group'); mysqlbinlog --include-gtids of \
                            what that is, on the member"
                    .into(),
                why: "It shows what only this member has: the error log names both sets.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "Where that can be lost: CLONE INSTANCE FROM another member (MySQL Shell: addInstance with recoveryMethod 'clone')"
                    .into(),
                why: "The member then has the data and the GTIDs of the group, and joins.".into(),
                dynamic: true,
                risk: "All data of this member is replaced.".into(),
                ..Remedy::default()
            })
            .finding(),
    )
}

/// True for what Group Replication says, false for what Galera does.
fn is_of_group(trouble: &LoggedTrouble) -> bool {
    let line = trouble.line.to_ascii_lowercase();
    line.contains("group_replication") || line.contains("member")
}
