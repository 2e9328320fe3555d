//! `cluster-partition`: a node of Galera or Group Replication that has lost the other nodes.

mod error_log;
mod remedies;
#[cfg(test)]
mod tests;

use spindoctor_model::mysql::GroupMember;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::{commit_sync_bound, galera_flow_control, statements_refused};
use crate::draft::Draft;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::replication_group;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use remedies::{of_galera, of_group};

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
    rule: Rule::ReadingsOrCapture(evaluate, error_log::of_capture),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// Stands in what a vote was about where the nodes had one error in different words.
pub const IN_OTHER_WORDS: &str = "in other words on another node";

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
