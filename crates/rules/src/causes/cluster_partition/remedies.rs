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

/// What to look at between members that do not reach each other.
pub(super) fn reach_members() -> Remedy {
    Remedy {
        statement: "From the host of each member, for each address: getent hosts HOST; nc -vz HOST 33061 (3306 where \
                    group_replication_communication_stack is MYSQL); SHOW GLOBAL VARIABLES LIKE 'group_replication%' on each: local_address, \
                    group_seeds and ip_allowlist"
            .into(),
        why: "Each member has to reach the group_replication_local_address of each other one, in both directions.".into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        ..Remedy::default()
    }
}

/// A group in which no member is yet.
pub(super) fn bootstrap_group() -> Remedy {
    Remedy {
        statement: "Where no member is ONLINE anywhere: on the one with the most transactions (gtid_executed), and on no other, SET GLOBAL \
                    group_replication_bootstrap_group = ON; START GROUP_REPLICATION; SET GLOBAL group_replication_bootstrap_group = OFF; then \
                    START GROUP_REPLICATION on the others"
            .into(),
        why: "The first member begins the group that the others join.".into(),
        dynamic: true,
        risk: "Two members that both begin one are two groups that both take writes, and the changes of one are lost.".into(),
        undo: "STOP GROUP_REPLICATION".into(),
    }
}
