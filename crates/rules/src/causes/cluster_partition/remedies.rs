//! What to do where a node has lost the others, by the kind of its cluster.

use spindoctor_model::Remedy;

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

pub(super) fn of_galera() -> Vec<Remedy> {
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
pub(super) fn of_galeras_start() -> Vec<Remedy> {
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

pub(super) fn of_group() -> Vec<Remedy> {
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
