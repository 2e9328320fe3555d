//! `cluster-partition`: a node of Galera or Group Replication that has lost the other nodes.

#[cfg(test)]
mod tests;

use spindoctor_model::{
    Evidence, Finding, LoggedTrouble, Remedy, TimeClass, TroubleKind, Unavailable, Window,
};

use spindoctor_model::mysql::GroupMember;

use super::{commit_sync_bound, galera_flow_control, server_stopped, statements_refused};
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::replication_group;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "cluster-partition",
    title: "a node has lost the rest of its cluster",
    what: "Galera and Group Replication commit a transaction only where more than half of the nodes agree on its order. A node that can \
           no longer reach so many (the network, nodes that died, two nodes of two that lost each other) stops: Galera's refuses every \
           statement that uses a table, Group Replication's lets commits wait. A node that joins does the same until it has the data. \
           Where the others are still the majority, no commit returns until the cluster has given the lost node up.",
    why_it_hurts: "The server runs, accepts logins and has CPU and disk to spare, and its clients get nothing done: error 1047, \
                   `WSREP has not yet prepared node for application use`, or a COMMIT that never returns. A health check that only connects \
                   calls the node well, so that a load balancer goes on sending clients to it.",
    evidence: "Galera: wsrep_cluster_status is not Primary, on a server with wsrep_on; or it is, and wsrep_ready is OFF, as while the node \
               receives the data of another. Group Replication: half or more of replication_group_members are UNREACHABLE, or the \
               member itself is in ERROR; a warning where fewer are, and where the member itself is RECOVERING. Captured texts: what the \
               error log ends with (`not able to reach a majority`, `Received NON-PRIMARY`, `suspecting node`, `has become unreachable`, \
               `has more executed transactions than those present in the group`) where no later line takes it back, and error \
               1047 as a client prints it. The estimate is all of the node's work where it has no \
               majority.",
    looks_alike: "A cluster that pauses because one node applies slowly is galera-flow-control. A node that is read-only on purpose \
                  (a secondary, error 1290) is statements-refused. Donor/Desynced is a node that gives its data to another, and works.",
    remedies: "Ask each node: where one says Primary (or ONLINE with a majority), send the clients there, and mend the network of the \
               others: they join again by themselves. Where no node has a majority, and those that are gone are surely down, make the most \
               advanced of the rest the new primary part: SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES', or SET GLOBAL \
               group_replication_force_members = '...'. Let health checks ask wsrep_ready or MEMBER_STATE.",
    safety: "Looking is safe. Making a part primary by hand while the other part lives gives two servers that both take writes, and one \
             side's data is lost: first be sure that the others are down. Three nodes, or two and an arbitrator (garbd), outlive the loss \
             of one.",
    references: &[
        "https://galeracluster.com/library/documentation/quorum-reset.html",
        "https://mariadb.com/docs/galera-cluster/reference/galera-cluster-status-variables",
        "MySQL Reference Manual: Group Replication, Handling a Network Partition and Loss of Quorum",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[TimeClass::Galera, TimeClass::GroupReplication, TimeClass::Commit],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// Where Galera's status is read.
const STATUS: &str = "SHOW GLOBAL STATUS wsrep_*";

/// How a node of Galera that serves nobody stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is outside of the primary part.
    Outside,
    /// It is in the primary part, and has not got the data yet.
    Joins,
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    if let Some(finding) =
        window.latest(|sample| &sample.server.group_members).and_then(|members| of_members(members))
    {
        return Ok(Some(finding));
    }
    // A member of a group has no Galera.
    match window.missing(|sample| &sample.server.group_members) {
        Some(why) if replication_group::is_named(window) => Err(why),
        _ => of_galeras_status(window),
    }
}

/// True for a member of a replication group that lets every commit wait, as it cannot reach the majority.
pub(super) fn group_lacks_a_majority(window: &Window) -> bool {
    window
        .latest(|sample| &sample.server.group_members)
        .is_some_and(|members| GroupMember::lack_a_majority(members))
}

/// What a member of Group Replication sees of its group.
fn of_members(members: &[GroupMember]) -> Option<Finding> {
    let itself = members.iter().find(|one| one.is_self == Some(true)).or(match members {
        [one] => Some(one),
        _ => None,
    });
    let is_itself = |state: &str| itself.is_some_and(|one| one.state == state);
    let unreachable = members.iter().filter(|one| one.state == GroupMember::UNREACHABLE).count();
    let all = members.len();
    let draft = if GroupMember::lack_a_majority(members) {
        Draft::new(&CAUSE, 1.0, format!("{NO_MAJORITY_OF_GROUP} (it reaches {} of {all})", all - unreachable))
            .why(NO_MAJORITY_WAITS)
    } else if is_itself(GroupMember::ERROR) {
        Draft::new(&CAUSE, CRITICAL_FROM, "This member is no longer in its group (ERROR): it refuses every change").why(
            "It was expelled, or it could not join or apply a change. group_replication_exit_state_action, as it is set by default, makes \
             it read-only: the others go on without it. Its error log says why.",
        )
    } else if unreachable > 0 {
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!("{unreachable} of the {all} members of the group cannot be reached"),
        )
        .why(COMMITS_UNTIL_GIVEN_UP)
    } else if is_itself(GroupMember::RECOVERING) {
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            "This member is joining its group (RECOVERING): until it has the data it refuses every change",
        )
        .why("It receives and applies what it missed, from another member; its answers to reads are old.")
    } else {
        return None;
    };
    let lost: Vec<String> =
        members.iter().filter(|one| one.state == GroupMember::UNREACHABLE).map(GroupMember::place).collect();
    Some(
        draft
            .evidence(
                Evidence::new("members", GroupMember::states(members), "", MEMBERS).expected("all ONLINE"),
            )
            .evidence_if(
                (!lost.is_empty()).then(|| Evidence::new("not reached", lost.join(", "), "", MEMBERS)),
            )
            .remedies(of_group())
            .explains(EXPLAINS)
            .finding(),
    )
}

fn of_galeras_status(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let status = window.need(|sample| &sample.server.status)?;
    // Of a server without Galera it says Disconnected.
    let is_node = window.variable("wsrep_on").is_some_and(|on| on.eq_ignore_ascii_case("ON") || on == "1");
    let cluster = status.text("wsrep_cluster_status").unwrap_or_default();
    let standing = match cluster.to_ascii_lowercase().as_str() {
        "non-primary" => Standing::Outside,
        "disconnected" if is_node => Standing::Outside,
        "primary" if status.switch("wsrep_ready") == Some(false) => Standing::Joins,
        _ => return Ok(None),
    };
    let state = status.text("wsrep_local_state_comment").unwrap_or_default();
    let draft = match standing {
        Standing::Outside => Draft::new(
            &CAUSE,
            1.0,
            format!("This node is outside of the primary part of its cluster ({cluster}): it refuses every statement that uses a table"),
        )
        .why(match status.number("wsrep_cluster_size") {
            Some(size) if size >= 1.0 => format!(
                "It reaches {} and these are no majority of what the cluster was: a split must not leave two parts that both take writes.",
                match size as u64 {
                    1 => "only itself,".to_owned(),
                    size => format!("{size} nodes, itself among them,"),
                }
            ),
            _ => "It reaches no other node: a split must not leave two parts that both take writes.".to_owned(),
        })
        .remedies(of_galera()),
        Standing::Joins => Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!("This node is joining its cluster ({state}): until it has the data it refuses every statement that uses a table"),
        )
        .why("wsrep_ready is OFF in the primary part: it receives the data of another node, by IST or by a whole copy (SST).")
        .remedy(Remedy {
            statement: "Send clients to the other nodes until wsrep_ready is ON; look in this node's error log and in the donor's how far \
                        the copy is"
                .into(),
            why: "It ends by itself, unless the copy fails.".into(),
            dynamic: true,
            risk: "Looking is safe.".into(),
            ..Remedy::default()
        }),
    };
    let words = |name: &'static str, expected: &'static str| {
        let value = status.text(name).filter(|value| !value.is_empty())?;
        Some(Evidence::new(name, value.to_owned(), "", STATUS).expected(expected))
    };
    let size = status.number("wsrep_cluster_size");
    Ok(Some(
        draft
            .evidence_if(words("wsrep_cluster_status", "Primary"))
            .evidence_if(words("wsrep_ready", "ON"))
            .evidence_if(words("wsrep_local_state_comment", "Synced"))
            .evidence_if(
                size.map(|size| Evidence::new("nodes that it reaches, with itself", size, "", STATUS)),
            )
            .explains(EXPLAINS)
            .finding(),
    ))
}

/// What a log ends with, or a list of the group's members shows.
fn of_capture(window: &Window) -> Option<Finding> {
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
            NO_MAJORITY_OF_GROUP,
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
        (false, _) => Draft::new(&CAUSE, WARNING_FROM, "Another node of the cluster does not answer").why(COMMITS_UNTIL_GIVEN_UP),
    };
    Some(
        draft
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedies(match is_group {
                true => of_group(),
                false if ends_its_start(trouble) => of_galeras_start(),
                false => of_galera(),
            })
            .explains(EXPLAINS)
            .finding(),
    )
}

/// True where the node was to start, and gave up (gcomm/src/pc.cpp).
fn ends_its_start(trouble: &LoggedTrouble) -> bool {
    trouble.line.contains("failed to reach primary view")
}

/// A node that did not get the state of its cluster, by its own log or by that of the donor.
fn of_transfer(window: &Window) -> Option<Finding> {
    /// What a node says alone that was to get it (gcs_group.cpp, wsrep_sst.cc).
    const OF_JOINER: [&str; 6] = [
        "will never receive state",
        "received wrong state",
        "application state transfer failed",
        "receiving ist failed",
        "failed to prepare for '",
        "'joiner'",
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
    let score = match is_ahead || has_ended || says("node consistency ") {
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
            .evidence_all(logged::evidence(trouble, times).into_iter())
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

/// The table of the members of a group.
const MEMBERS: &str = "replication_group_members";

/// The causes that are seen of a node that has no majority.
const EXPLAINS: &[&str] =
    &[galera_flow_control::CAUSE.name, commit_sync_bound::CAUSE.name, statements_refused::CAUSE.name];

const NO_MAJORITY_OF_GROUP: &str =
    "This member cannot reach the majority of its group: Group Replication lets every change wait";
const NO_MAJORITY_WAITS: &str = "A COMMIT returns when a majority has agreed on its order, and there is none. Reads go on, and so do logins.";
const COMMITS_UNTIL_GIVEN_UP: &str = "No commit of any node returns until the cluster has given the lost node up (Galera: \
    evs.suspect_timeout of 5 s to evs.inactive_timeout of 15 s; Group Replication: 5 s and group_replication_member_expel_timeout). One \
    more that is lost may leave no majority.";

fn look(statement: &str) -> Remedy {
    Remedy {
        statement: statement.into(),
        why: "A part that has the majority goes on: send the clients there, and mend the network of the others. They join again by \
              themselves."
            .into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        ..Remedy::default()
    }
}

fn by_hand(statement: &str, undo: &str) -> Remedy {
    Remedy {
        statement: statement.into(),
        why: "Only where no node has a majority and the missing ones are surely down: what is left becomes the cluster.".into(),
        dynamic: true,
        risk: "If the others live, there are two servers that both take writes, and the changes of one are lost.".into(),
        undo: undo.into(),
    }
}

fn of_galera() -> Vec<Remedy> {
    vec![
        look(
            "On each node: SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_last_committed')",
        ),
        by_hand(
            "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES' on the node with the highest wsrep_last_committed, and on no other",
            "",
        ),
    ]
}

/// Of a node that cannot start: there is no server that could be asked.
fn of_galeras_start() -> Vec<Remedy> {
    vec![
        look(
            "On each node: is a server up (systemctl status), and what is seqno in DATADIR/grastate.dat, or with mysqld --wsrep-recover",
        ),
        by_hand(
            "Where another node is up and Primary: correct wsrep_cluster_address and the network to it (ports 4567, 4568, 4444), and start. Where \
             none is: galera_new_cluster on the node with the highest seqno, and on no other; then start the others",
            "",
        ),
    ]
}

fn of_group() -> Vec<Remedy> {
    vec![
        look(
            "On each member: SELECT MEMBER_HOST, MEMBER_STATE, MEMBER_ROLE FROM performance_schema.replication_group_members",
        ),
        by_hand(
            "SET GLOBAL group_replication_force_members = 'HOST:PORT,...' with group_replication_local_address of those that live, on one \
             of them",
            "SET GLOBAL group_replication_force_members = '' as soon as the group works: with it the member cannot start again.",
        ),
    ]
}
