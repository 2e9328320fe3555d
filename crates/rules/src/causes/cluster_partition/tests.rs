//! Nodes and members without a majority, and what logs end with where a node does not take part.

use spindoctor_model::{LoggedTrouble, Severity, TroubleKind};

use super::super::server_stopped;
use super::*;
use crate::testing::{Build, answer};

/// A node of Galera whose status has these words.
fn node(cluster: &str, ready: &str, state: &str) -> Build {
    Build::busy("10.11.19-MariaDB")
        .variable("wsrep_on", "ON")
        .words("wsrep_cluster_status", cluster)
        .words("wsrep_ready", ready)
        .words("wsrep_local_state_comment", state)
        .gauge("wsrep_cluster_size", 1.0)
}

pub(crate) fn fires() -> Window {
    node("non-Primary", "OFF", "Initialized").window()
}

/// It gives its data to another node, and works.
pub(crate) fn near_miss() -> Window {
    node("Primary", "ON", "Donor/Desynced").window()
}

/// The server's status could not be read.
pub(crate) fn missing() -> Window {
    Build::busy("10.11.19-MariaDB")
        .each(|_, server, _| {
            server.status = spindoctor_model::Reading::Unavailable(Unavailable::because("no answer"));
        })
        .window()
}

fn found(window: &Window) -> Option<Finding> {
    match CAUSE.evaluate(window, None) {
        Outcome::Fired(finding) => Some(finding),
        _ => None,
    }
}

#[test]
fn a_server_without_galera_is_disconnected_and_well() {
    assert_eq!(
        found(&Build::busy("10.11.19-MariaDB").words("wsrep_cluster_status", "Disconnected").window()),
        None
    );
    let node = node("Disconnected", "OFF", "Initialized").window();
    assert_eq!(found(&node).map(|finding| finding.severity), Some(Severity::Critical));
}

#[test]
fn a_node_that_joins_is_a_warning() {
    let finding = found(&node("Primary", "OFF", "Joiner").window()).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.headline.contains("joining its cluster (Joiner)"), "{}", finding.headline);
}

#[test]
fn a_member_of_a_group_says_which_others_it_reaches() {
    let of = |states: &[&str]| {
        let members: Vec<GroupMember> = states
            .iter()
            .enumerate()
            .map(|(at, state)| GroupMember {
                host: format!("db{at}"),
                port: 3306,
                state: (*state).into(),
                is_self: Some(at == 0),
                ..GroupMember::default()
            })
            .collect();
        let window = Build::busy("9.7.4")
            .each(move |at_s, server, _| server.group_members = answer(at_s, members.clone()))
            .window();
        found(&window).map(|finding| (finding.severity, finding.headline))
    };
    assert_eq!(of(&["ONLINE", "ONLINE", "ONLINE"]), None);
    assert_eq!(of(&["OFFLINE"]), None, "it was not started");
    let (severity, headline) = of(&["ONLINE", "UNREACHABLE", "UNREACHABLE"]).unwrap();
    assert_eq!(severity, Severity::Critical);
    assert!(headline.ends_with("(it reaches 1 of 3)"), "{headline}");
    assert_eq!(of(&["ONLINE", "UNREACHABLE"]).unwrap().0, Severity::Critical, "half is no majority");
    assert_eq!(of(&["ONLINE", "ONLINE", "UNREACHABLE"]).unwrap().0, Severity::Warning);
    assert_eq!(of(&["ERROR"]).unwrap().0, Severity::Critical);
    assert_eq!(of(&["RECOVERING", "ONLINE"]).unwrap().0, Severity::Warning);
    assert_eq!(of(&["ONLINE", "RECOVERING"]), None, "another one joins");
    let not_read = Build::busy("9.7.4")
        .variable("group_replication_group_name", "6a1f0c52-3f0e-4c8e-9d53-0f9b7f1d2c11")
        .each(|_, server, _| {
            server.group_members = spindoctor_model::Reading::Unavailable(Unavailable::because("denied"));
        })
        .window();
    assert!(examine(&not_read).is_err(), "a member whose list is not read is not called well");
}

#[test]
fn what_a_log_ends_with_names_the_remedies_of_its_kind_of_cluster() {
    let logged = |kind, line: &str| {
        let mut window = Build::busy("8.0.36").window();
        window.error_log =
            vec![LoggedTrouble { kind, times: 1, line: line.into(), ..LoggedTrouble::default() }];
        let finding = found(&window).unwrap();
        (finding.severity, finding.remedies[1].statement.clone())
    };
    let (severity, statement) = logged(
        TroubleKind::NoMajority,
        "Plugin group_replication reported: 'This server is not able to reach a majority of members'",
    );
    assert_eq!(severity, Severity::Critical);
    assert!(statement.contains("group_replication_force_members"), "{statement}");
    let (severity, statement) =
        logged(TroubleKind::NodeLost, "WSREP: declaring node with index 1 suspected, timeout PT5S");
    assert_eq!(severity, Severity::Warning);
    assert!(statement.contains("pc.bootstrap"), "{statement}");
    // Nobody can set a variable of a server that did not start.
    let (severity, statement) = logged(
        TroubleKind::NoMajority,
        "[ERROR] WSREP: failed to open gcomm backend connection: 110: failed to reach primary view: 110 (Connection timed out)",
    );
    assert_eq!(severity, Severity::Critical);
    assert!(statement.contains("galera_new_cluster"), "{statement}");
}

#[test]
fn a_state_transfer_that_failed_is_a_finding_of_the_node_that_joins_or_of_its_donor() {
    let finding = |line: &str| {
        let mut window = Build::busy("10.11.19-MariaDB").window();
        window.error_log = vec![LoggedTrouble {
            kind: TroubleKind::StateTransferFailed,
            times: 1,
            line: line.into(),
            ..LoggedTrouble::default()
        }];
        found(&window).unwrap()
    };
    let joiner = finding("WSREP: Will never receive state. Need to abort.");
    assert_eq!(joiner.severity, Severity::Critical);
    assert!(joiner.headline.starts_with("This node does not join"), "{}", joiner.headline);
    let donor = finding("WSREP: 0.0 (a): State transfer to 1.0 (b) failed: -32 (Broken pipe)");
    assert_eq!(donor.severity, Severity::Warning);
    assert!(donor.remedies[1].statement.contains("wsrep_sst_auth"), "{:?}", donor.remedies);
}

#[test]
fn a_node_that_differs_from_its_cluster_is_why_it_ended() {
    let finding = |lines: &[(TroubleKind, &str)]| {
        let mut window = Build::busy("10.11.19-MariaDB").window();
        let logged = |(kind, line): &(TroubleKind, &str)| LoggedTrouble {
            kind: *kind,
            times: 1,
            line: (*line).to_owned(),
            ..LoggedTrouble::default()
        };
        window.error_log = lines.iter().map(logged).collect();
        found(&window).unwrap()
    };
    let ahead = finding(&[
        (TroubleKind::Crashed, "mysqld got signal 11 ;"),
        (
            TroubleKind::NodeDiffers,
            "WSREP: Reversing history: 12 -> 0, this member has applied 12 more events",
        ),
    ]);
    assert_eq!(ahead.severity, Severity::Critical);
    assert!(ahead.headline.contains("does not have, and ended itself"), "{}", ahead.headline);
    assert!(ahead.explains.iter().any(|cause| cause == server_stopped::CAUSE.name), "{:?}", ahead.explains);
    let row = (TroubleKind::NodeDiffers, "Could not execute Write_rows event on table shop.t");
    assert_eq!(finding(&[row]).severity, Severity::Warning);
    let leaves = finding(&[(TroubleKind::NoMajority, "view(view_id(NON_PRIM,1))"), row]);
    assert!(leaves.headline.contains("could not apply a change"), "{}", leaves.headline);
}

#[test]
fn a_member_with_transactions_of_its_own_is_not_one_without_a_majority() {
    let mut window = Build::busy("8.0.36").window();
    let line = "[MY-011526] [Repl] Plugin group_replication reported: 'This member has more executed transactions than those present in the group.'";
    window.error_log = vec![LoggedTrouble {
        kind: TroubleKind::Errant,
        times: 1,
        line: line.into(),
        ..LoggedTrouble::default()
    }];
    let finding = found(&window).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.headline.contains("does not join its group"), "{}", finding.headline);
    assert!(finding.remedies[0].statement.contains("GTID_SUBTRACT"), "{:?}", finding.remedies);
}

#[test]
fn a_member_that_gets_no_session_is_sent_to_its_account_and_not_to_begin_a_group() {
    let finding = |first: &str| {
        let mut window = Build::busy("8.4.3").window();
        let logged = |kind, line: &str| LoggedTrouble {
            kind,
            times: 1,
            line: line.into(),
            ..LoggedTrouble::default()
        };
        window.error_log = vec![
            logged(TroubleKind::NodeLost, first),
            LoggedTrouble {
                detail: "db2:3306".into(),
                ..logged(
                    TroubleKind::NotJoined,
                    "Plugin group_replication reported: '[GCS] Error connecting to all peers.'",
                )
            },
        ];
        found(&window).unwrap()
    };
    let session = finding(
        "Plugin group_replication reported: 'Failed to establish MySQL client connection in Group Replication. Error'",
    );
    assert!(session.headline.contains("no session to db2:3306"), "{}", session.headline);
    assert!(session.remedies[0].statement.contains("GROUP_REPLICATION_STREAM"), "{session:#?}");
    assert!(
        session.remedies.iter().all(|remedy| !remedy.statement.contains("bootstrap_group")),
        "{session:#?}"
    );
    let network = finding(
        "Plugin group_replication reported: '[GCS] Error on opening a connection to peer node db2:3306'",
    );
    assert!(network.headline.ends_with("it does not reach db2:3306"), "{}", network.headline);
}
