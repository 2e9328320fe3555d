//! Nodes of Galera and members of a replication group: what their lines mean, and how they are recognised.

use super::goes_on;

/// Stands for what a node of Galera says that cannot apply what the others have.
pub(super) const NODE_DIFFERS: &str = "a change was not applied";

/// What lines of a node of Galera without a majority mean.
pub(crate) const OUTSIDE: &str =
    "the node was outside of the primary part of its Galera cluster: it executed nothing";

/// What lines of a node that the others, or an administrator, shut out mean.
pub(super) const EVICTED: &str =
    "the node was evicted from its Galera cluster: it takes part in nothing until it is started again";

/// What lines of a node to which the state of its cluster was not transferred, or that could not transfer it, mean.
pub(super) const STATE_TRANSFER: &str = "the state of the Galera cluster could not be transferred (SST): the lines of its script above \
                                         that, and those of the donor, say why (a program that is missing, a login, a port, no room)";

/// What lines of a node mean to which the changes that it missed could not be given.
pub(super) const INCREMENTAL: &str = "the changes that a node of the Galera cluster missed could not be transferred to it alone (IST): \
                                      port 4568 between the nodes, or the end of the donor's gcache (gcache.size). It needs all data \
                                      (SST)";
pub(super) const NOT_INCREMENTAL: &str = "the node takes all data of its Galera cluster (SST): it does not know which changes it missed \
                                          (IST), as a new node or one that crashed";

pub(super) const NO_DATA: &str = "the donor sent nothing within the time that a joiner waits for the first data of a state transfer (SST; \
                                  sst-initial-timeout, 100 s): its log says why, and port 4444 has to be open between the two";

pub(super) const REMNANT: &str = "the state of the Galera cluster could not be transferred (SST): the temporary folder of an earlier \
                                  transfer is still there. Remove the folder that the line names, then start the node again";

/// Stands for what donor, joiner and others say of a state transfer that failed: `State transfer to 1.0 (db2) failed: -32 (Broken pipe)`.
pub(super) const TRANSFER_FAILED: &str = "a state transfer failed";

/// What lines of a node mean that has what its cluster does not have, or cannot apply what it has.
pub(super) const AHEAD: &str = "the node has changes that the primary part of its Galera cluster does not have, and ended itself: with \
                                the state of the cluster (SST) it would lose them. Compare them before it is started again";
pub(super) const INCONSISTENT: &str = "a node of the Galera cluster could not apply a change that the others have: its data are not \
                                       theirs, and it leaves. Started again it takes their state (SST)";
pub(super) const INCOMPLETE: &str = "no node that this one sees has the complete state of the Galera cluster, so that none of them is in \
                                     its primary part. On the one with the largest seqno: SET GLOBAL wsrep_provider_options = \
                                     'pc.bootstrap=YES'";
pub(super) const APPLIER_WAITS: &str = "an applier of the Galera cluster waited long for a row's lock that a transaction of this node \
                                        has: the node applies nothing meanwhile, and its flow control stops the others. End that \
                                        transaction (INNODB_TRX)";
pub(super) const NOT_FIRST: &str = "the node refuses to be the first of its Galera cluster, because it was not the last to leave it: \
                                    start the node that has safe_to_bootstrap: 1 in grastate.dat, or the largest seqno, first";

/// And of a member of a replication group.
pub(super) const WITHOUT_MAJORITY: &str =
    "the member could not reach the majority of its group: Group Replication blocked each change";

/// What lines of a member of a replication group that has been written to beside it mean.
pub(super) const ERRANT: &str = "the member does not join its group until it is cloned again, or the group is given its errant \
                                 transactions: it has some that the group does not have";

/// What lines of Galera about another node mean.
pub(super) const NODE_LOST: &str = "another node of the Galera cluster did not answer";

/// What lines of a member of a replication group mean that leaves it.
pub(super) const LEFT: &str = "the member left its replication group after an error that stands above: START GROUP_REPLICATION once that \
                               is mended, or clone the member again";
pub(super) const NOT_JOINED: &str = "the member did not join its group: no other member was reached, or none answered. On each member \
                                     group_replication_local_address and group_replication_group_seeds have to name addresses that the \
                                     others reach (port 33061 through every firewall), and one member has to have bootstrapped the group";
pub(super) const DIRECT_LOST: &str = "the node lost its direct connection to another one of its Galera cluster for some seconds, and \
                                      asked the others to pass its messages on: the network between the two, or a node that did not run \
                                      for a moment";
pub(super) const NODE_CERTIFICATE: &str = "nodes of the Galera cluster do not accept each other's certificate: all need socket.ssl_key, \
                                           socket.ssl_cert and socket.ssl_ca of one authority, none of them expired \
                                           (wsrep_provider_options)";
pub(super) const NO_PROVIDER: &str = "Galera's library did not start: the WSREP errors beside that name the option, the file or the \
                                      address that it could not use";
pub(super) const READ_ONLY_MEMBER: &str =
    "the member set itself read-only because it left its replication group";
pub(super) const PEER_SILENT: &str = "another node of the Galera cluster did not answer this one's messages (port 4567): its server, its \
                                      host or the network between the two";
pub(super) const NOT_CONNECTED: &str = "the node did not connect to its Galera cluster: it has to reach port 4567 of a node of \
                                        wsrep_cluster_address that is in the primary part; of a whole cluster that was shut down the \
                                        most advanced node has to be bootstrapped first";
pub(super) const NO_PROGRAM: &str = "the script that transfers the state of the Galera cluster (SST) does not find its program: it has \
                                     to be installed on both nodes (wsrep_sst_method)";

/// Stands for what a node says of one that does not answer it.
pub(super) const OF_SILENT_PEER: &str = "a peer does not answer";
pub(super) const NOT_REACHED: &str = "a member did not reach another one of its replication group: the lines name the address \
                                      (group_replication_group_seeds); no member listens there, or the network does not let it through";

pub(super) const NO_SESSION: &str = "a member could not open a session to another one of its group \
                                     (group_replication_communication_stack = MYSQL): the account of the channel group_replication_recovery \
                                     needs GROUP_REPLICATION_STREAM on each member, and TLS has to be the same on all";

/// Whether a node of Galera leaves its cluster by itself, and sees one without a majority therefore: true for the line, in lower case, in
/// which it begins to, false for one in which it joins. None for others.
pub(crate) fn leaves(lower: &str) -> Option<bool> {
    if lower.contains("gcomm: closing backend") {
        return Some(true);
    }
    ["gcomm: connecting to group", "starting as process"]
        .iter()
        .any(|sign| lower.contains(sign))
        .then_some(false)
}

/// How lines about a state transfer that failed begin and go on, in lower case (gcs_group.cpp, wsrep_sst.cc and the scripts). What else a
/// script says is why it failed, and is shown as it is.
const FAILED_TRANSFERS: [(&str, &str); 11] = [
    ("state transfer to ", " failed: "),
    ("sst failed", ""),
    ("sst sending failed", ""),
    ("failed to prepare for '", "' sst"),
    ("failed to execute: wsrep_sst_", ""),
    ("command did not run: wsrep_sst_", ""),
    ("failed to read ", " from: wsrep_sst_"),
    ("failed to read uuid:seqno ", "from joiner script"),
    ("wsrep_sst: [error] cleanup after exit with status", ""),
    ("wsrep_sst: [error] error while getting data from donor", ""),
    ("[wsrep-sst] ", "cleanup after exit with status"),
];

pub(super) fn transfer_failed(lower: &str) -> bool {
    FAILED_TRANSFERS.iter().any(|(begin, then)| goes_on(lower, begin, then))
}

/// True for what a node of Galera prints in an applier's words, in lower case: it names no binary log of a source (sql/log_event.cc). A
/// replica's worker does not know that log by itself, and names it first.
pub(crate) fn is_of_node(lower: &str) -> bool {
    lower.contains(" log first, end_log_pos ") && !lower.contains("worker ")
}

/// `(c912-884c, 'tcp://0.0.0.0:4567') connection to peer 8d40-a3b7 with addr tcp://10.1.1.2:4567 timed out, no messages seen in PT3S`; a node
/// that finds its own address among those of its cluster says so, too.
pub(crate) fn is_silent_peer(lower: &str) -> bool {
    let Some((before, peer)) = lower.split_once(") connection to peer ") else { return false };
    let own = before.rsplit_once('(').and_then(|(_, own)| own.split(',').next()).unwrap_or_default();
    peer.contains(" timed out, no messages seen in pt") && peer.split(' ').next() != Some(own)
}
