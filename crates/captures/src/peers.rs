//! Which other members of a replication group, or nodes of a Galera cluster, an error log says were not reached, and are not back when it
//! ends:
//!
//! ```text
//! [GCS] Error on opening a connection to db3:33061 on local port: 33061.
//! [GCS] Error on opening a connection to peer node db3:3306 when joining a group. My local port is: 3306.
//! Member with address db3:3306 has become unreachable.
//! Member with address db3:3306 is reachable again.
//! WSREP: (c91, 'tcp://0.0.0.0:4567') connection to peer 8d40 with addr tcp://10.1.1.2:4567 timed out, no messages seen in PT3S
//! WSREP: (c91, 'tcp://0.0.0.0:4567') connection established to 8d40 tcp://10.1.1.2:4567
//! ```

use spindoctor_model::{LoggedTrouble, TroubleKind};

use crate::log_troubles::is_silent_peer;

/// Peers that are kept, and the longest address, bytes: a group has nine members at most.
const MOST: usize = 16;
const LONGEST: usize = 100;

/// What a line of a group says before the address of a member that it does not reach.
const NOT_OPENED: &str = "rror on opening a connection to ";
const MEMBER: &str = "Member with address ";
const JOINED: &str = "Members joined the group: ";
/// What a member says that is in its group again.
const ONLINE: &str = "This server was declared online within the replication group";

/// The peers that are not reached when a text ends.
#[derive(Debug, Default)]
struct Lost<'t> {
    of_group: Vec<&'t str>,
    of_galera: Vec<&'t str>,
    /// A line names a member of a group.
    has_members: bool,
}

/// Says beside the troubles of a cluster which peers are not reached. Where each member of a group that was lost is back, none is any more.
pub(crate) fn add_detail(troubles: &mut Vec<LoggedTrouble>, text: &str) {
    const KINDS: [TroubleKind; 3] = [TroubleKind::NodeLost, TroubleKind::NoMajority, TroubleKind::NotJoined];
    if !troubles.iter().any(|trouble| KINDS.contains(&trouble.kind)) {
        return;
    }
    let lost = Lost::from_text(text);
    let is_of_group = |trouble: &LoggedTrouble| trouble.line.contains("group_replication");
    let are_back = lost.has_members && lost.of_group.is_empty();
    troubles.retain(|trouble| !(are_back && trouble.kind == TroubleKind::NodeLost && is_of_group(trouble)));
    for trouble in troubles.iter_mut().filter(|trouble| KINDS.contains(&trouble.kind)) {
        let peers = if is_of_group(trouble) { &lost.of_group } else { &lost.of_galera };
        trouble.detail = peers.join(", ");
    }
}

impl<'t> Lost<'t> {
    fn from_text(text: &'t str) -> Self {
        let mut lost = Self::default();
        for line in text.lines() {
            lost.add(line);
        }
        lost
    }

    fn add(&mut self, line: &'t str) {
        if let Some((_, rest)) = line.split_once(NOT_OPENED) {
            self.has_members = true;
            insert(&mut self.of_group, address(rest.strip_prefix("peer node ").unwrap_or(rest)));
        } else if let Some((_, rest)) = line.split_once(MEMBER) {
            self.has_members = true;
            if rest.contains(" has become unreachable") {
                insert(&mut self.of_group, address(rest));
            } else if rest.contains(" is reachable again") {
                remove(&mut self.of_group, address(rest));
            }
        } else if let Some((_, rest)) = line.split_once(JOINED) {
            rest.split(", ").for_each(|member| remove(&mut self.of_group, address(member)));
        } else if line.contains(ONLINE) {
            self.of_group.clear();
        } else if let Some((_, rest)) = line.split_once(") connection to peer ") {
            if is_silent_peer(&line.to_ascii_lowercase()) {
                insert(&mut self.of_galera, of_url(rest));
            }
        } else if let Some((_, rest)) = line.split_once(") connection established to ") {
            remove(&mut self.of_galera, of_url(rest));
        }
    }
}

/// The address with which a text begins: `db3:33061`.
fn address(text: &str) -> &str {
    let address = text.split([' ', ',', '\'', '"']).next().unwrap_or_default();
    address.trim_end_matches('.')
}

/// The address of `8d40-a3b7 with addr tcp://10.1.1.2:4567 timed out`.
fn of_url(text: &str) -> &str {
    text.split_once("://").map_or("", |(_, rest)| address(rest))
}

/// An address without its port: the port of a group's messages is another one than that of its sessions.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn insert<'t>(peers: &mut Vec<&'t str>, peer: &'t str) {
    let is_new = !peers.iter().any(|other| host(other) == host(peer));
    if is_new && !peer.is_empty() && peer.len() <= LONGEST && peers.len() < MOST {
        peers.push(peer);
    }
}

fn remove(peers: &mut Vec<&str>, peer: &str) {
    peers.retain(|other| host(other) != host(peer));
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Finding, Severity};

    fn found(lines: &[&str]) -> Vec<Finding> {
        let lines = lines
            .iter()
            .map(|words| format!("2024-03-04T10:11:12.1Z 0 [ERROR] [MY-011735] [Repl] {words}\n"));
        let parts = crate::recognise("a", &lines.collect::<String>());
        spindoctor_rules::diagnose(&crate::window(&parts)).findings
    }

    const NOT_OPENED: [&str; 2] = [
        "Plugin group_replication reported: '[GCS] Error on opening a connection to db2:33061 on local port: 33061.'",
        "Plugin group_replication reported: '[GCS] Error on opening a connection to peer node db3:3306 when joining a group. My local port is: \
         3306.'",
    ];
    const LOST: [&str; 2] = [
        "Plugin group_replication reported: 'Member with address db2:3306 has become unreachable.'",
        "Plugin group_replication reported: 'Member with address db3:3306 has become unreachable.'",
    ];
    const ONLINE: &str =
        "Plugin group_replication reported: 'This server was declared online within the replication group.'";

    #[test]
    fn a_member_that_does_not_join_says_whom_it_did_not_reach() {
        let failed = "Plugin group_replication reported: '[GCS] Error connecting to all peers. Member join failed. Local port: 33061'";
        let lines = [&NOT_OPENED[..], &[failed]].concat();
        let all = found(&lines);
        assert_eq!((all.len(), all[0].cause.as_str()), (1, "cluster-partition"), "{all:#?}");
        assert_eq!(all[0].severity, Severity::Warning);
        assert_eq!(
            all[0].headline,
            "This member does not join its group: it does not reach db2:33061, db3:3306"
        );
        assert!(all[0].remedies[0].statement.contains("nc -vz"), "{:?}", all[0].remedies);
        assert_eq!(found(&[&lines[..], &[ONLINE]].concat()), []);
    }

    #[test]
    fn members_that_do_not_answer_are_named_until_they_are_back() {
        let all = found(&LOST);
        assert_eq!(all.len(), 1, "{all:#?}");
        assert_eq!(all[0].headline, "2 members of the group do not answer (db2:3306, db3:3306)");
        let back = |host: &str| {
            format!(
                "Plugin group_replication reported: 'Member with address {host}:3306 is reachable again.'"
            )
        };
        let (db2, db3) = (back("db2"), back("db3"));
        let one = found(&[&LOST[..], &[db2.as_str()]].concat());
        assert_eq!(one[0].headline, "Another member of the group does not answer (db3:3306)");
        assert_eq!(found(&[&LOST[..], &[db2.as_str(), db3.as_str()]].concat()), []);
        assert_eq!(found(&[&LOST[..], &[ONLINE]].concat()), []);
        let joined = "Plugin group_replication reported: 'Members joined the group: db2:3306, db3:3306'";
        assert_eq!(found(&[&NOT_OPENED[..], &[joined]].concat()), []);
        let majority = "Plugin group_replication reported: 'This server is not able to reach a majority of members in the group.'";
        let alone = found(&[&LOST[..], &[majority]].concat());
        assert_eq!(alone[0].severity, Severity::Critical);
        assert!(
            alone[0].headline.ends_with("(it does not reach db2:3306, db3:3306)"),
            "{}",
            alone[0].headline
        );
    }

    #[test]
    fn nodes_of_galera_that_do_not_answer_are_named() {
        let silent = "WSREP: (c91, 'tcp://0.0.0.0:4567') connection to peer 8d40 with addr tcp://10.1.1.2:4567 timed out, no messages seen in PT3S";
        let suspected = "WSREP: evs::proto(c91, GATHER, view_id(REG,c91,9)) suspecting node: 8d40";
        let all = found(&[silent, suspected]);
        assert_eq!(all[0].headline, "Another node of the cluster does not answer (10.1.1.2:4567)");
    }
}
