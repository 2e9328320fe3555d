//! What mends each error with which an applier or a receiver stops.

use super::super::Failure;

/// What mends an error of one of the two parts.
pub(super) struct Cure {
    pub(super) of: Failure,
    /// Last_SQL_Errno or Last_IO_Errno: of share/messages_to_clients.txt, from 10,000 on of messages_to_error_log.txt.
    pub(super) numbers: &'static [u32],
    /// One of these words is in the text; any text will do where there are none.
    pub(super) says: &'static [&'static str],
    pub(super) statement: &'static str,
    pub(super) why: &'static str,
    pub(super) risk: &'static str,
}

/// Where the number is not known, or is none of the well-known ones.
pub(super) const OF_APPLIER: Cure = Cure {
    of: Failure::Applier,
    numbers: &[],
    says: &[],
    statement: "Mend on this replica what the error names (a row that is there already: 1062, one that is missing: 1032, a table or \
                column that is not the source's)",
    why: "The data of the replica is not what the event was made for: somebody wrote here, or an event was lost.",
    risk: "To skip the event instead (an empty transaction with its GTID, sql_slave_skip_counter) leaves the data different. Set \
           super_read_only (MariaDB: read_only), so that it does not happen again.",
};

pub(super) const OF_RECEIVER: Cure = Cure {
    of: Failure::Receiver,
    numbers: &[],
    says: &[],
    statement: "Mend what the error names: the source's address, account or TLS (1045, 2003, 2061), or a log that the source no longer \
                has (1236)",
    why: "Until it runs the replica gets nothing and knows nothing of how far it is behind.",
    risk: "After 1236 the missing transactions come from nowhere: the replica has to be made again from a copy.",
};

/// A row that is there already, or missing, on a node of a Galera cluster: what is left out, or mended with sql_log_bin = 0, makes this
/// node differ from the others, which the cluster then puts out.
pub(super) const IN_CLUSTER: Cure = Cure {
    of: Failure::Applier,
    numbers: &[1032, 1062],
    says: &[],
    statement: "Compare the row on all nodes and on the source. Where the nodes agree, mend it with an ordinary statement, which the cluster \
                replicates; where this node alone differs, let it take a full copy of another one (stop it, move grastate.dat away, start it)",
    why: "The row that the event changes is missing here, or the one that it inserts is here already.",
    risk: "Do not skip the event, and do not mend the row with sql_log_bin = 0: both make the node differ from its cluster. A full copy takes \
           as long as the data are large.",
};

/// The relay log could not be read (ER_SLAVE_RELAY_LOG_READ_FAILURE; 13121 from MySQL 8.0 on).
pub(super) const OF_RELAY_LOG: [u32; 2] = [1594, 13_121];

/// Got fatal error 1236 from source; 13114 is the same from MySQL 8.0 on.
const OF_SOURCE: &[u32] = &[1236, 13_114];

/// An event is larger than a packet may be: as the source says it, and as the receiver does (ER_NET_PACKET_TOO_LARGE; 13115 from MySQL 8.0 on).
const OF_LARGE_EVENT: &[u32] = &[1153, 1236, 13_114, 13_115];

/// The first that fits counts.
pub(super) const CURES: &[Cure] = &[
    Cure {
        of: Failure::Applier,
        numbers: &[1032],
        says: &[],
        statement: "mysqlbinlog -vv --base64-output=decode-rows of that place in the source's log shows the row: INSERT it here as it was \
                    before the event (SET sql_log_bin = 0 in that session)",
        why: "The event changes or deletes a row that is not here: somebody deleted it on this replica, or the copy that the replica was \
              made from lacks it.",
        risk: "More rows may differ: compare the tables (pt-table-checksum). Set super_read_only (MariaDB: read_only), so that it does not \
               happen again.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1062],
        says: &[],
        statement: "Compare the row with that key on the source and here; where the source's is right, DELETE it here (SET sql_log_bin = 0 \
                    in that session)",
        why: "The event inserts a row whose key is here already: somebody wrote on this replica, or the event was applied before, as after \
              a crash without relay_log_recovery.",
        risk: "More rows may differ: compare the tables (pt-table-checksum). Set super_read_only (MariaDB: read_only), so that it does not \
               happen again.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1007, 1008, 1049, 1050, 1051, 1054, 1060, 1061, 1091, 1146, 1677, 13_146],
        says: &[],
        statement: "Make the table, column or database that the error names here what it is on the source (SHOW CREATE TABLE on both)",
        why: "The definitions differ: a statement that changes them was run on one side alone, or twice.",
        risk: "ALTER TABLE copies a large table, and the replica falls behind meanwhile. SET sql_log_bin = 0 where others replicate \
               from here.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1205, 1213],
        says: &[],
        statement: "End what holds the lock (spindoctor locks), and raise {replica}_transaction_retries",
        why: "The applier waited for a lock of a session here, tried the transaction again, and gave up.",
        risk: "A session that is ended loses its transaction.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[28, 1021, 1026, 1114],
        says: &[],
        statement: "Make room on the file system of the data, of the relay log and of tmpdir (df)",
        why: "A table, a log or a temporary file could not grow.",
        risk: "Files of the server itself are not to be removed by hand.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1197],
        says: &[],
        statement: "SET GLOBAL max_binlog_cache_size to the source's value or more",
        why: "The transaction is larger than this replica's own binary log takes.",
        risk: "It needs as much room in tmpdir.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &OF_RELAY_LOG,
        says: &[],
        statement: "mysqlbinlog --verify-binlog-checksum of the relay log here and of the source's log shows which of them is damaged; \
                    where it is the relay log, fetch it once more",
        why: "An event in the relay log cannot be read: the host crashed while it was written, or a disk or memory changed it.",
        risk: "Where the source's log is damaged the replica has to be made again from a copy.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_LARGE_EVENT,
        says: &["max_allowed_packet", "packet bigger than"],
        statement: "SET GLOBAL {replica}_max_allowed_packet = 1073741824 here, and max_allowed_packet = 1073741824 on the source",
        why: "An event of the source is larger than one of the two takes.",
        risk: "One event may take as much memory.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &["file size", "impossible position"],
        statement: "{CHANGE} {SOURCE}_LOG_FILE to the next file of SHOW BINARY LOGS on the source, {SOURCE}_LOG_POS = 4",
        why: "The source lost the end of its log in a crash (sync_binlog is not 1 there), and this replica has read it.",
        risk: "This replica has transactions that the source lost: compare the tables (pt-table-checksum).",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &["same server_uuid", "same server_id"],
        statement: "Give each replica a server_id of its own, and a server_uuid (remove auto.cnf from the data folder of the copy), and \
                    restart it",
        why: "Two replicas call themselves the same, and the source ends the connection of one for the other: one was made as a copy of \
              the other.",
        risk: "The replica is down meanwhile.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &["bogus data", "event truncated", "checksum", "corrupt"],
        statement: "mysqlbinlog --verify-binlog-checksum of the file that the error names, on the source; where it is damaged, make the \
                    replica again from a copy",
        why: "The source cannot read its own binary log at this place.",
        risk: "To go on behind the damage leaves out transactions.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        // sql/rpl_source.cc; MariaDB's sql/sql_repl.cc
        says: &["more GTIDs than", "has diverged"],
        statement: "SELECT @@gtid_executed (MariaDB: @@gtid_current_pos) here and on the source: what is here alone (GTID_SUBTRACT) \
                    mysqlbinlog shows. Where that is to be kept, let this server take the source's place, or run it there, too; \
                    where it is not, make the replica again from a copy of the source",
        why: "This replica has transactions that the source does not have: somebody wrote here, or the source lost the end of its log in a \
              crash (sync_binlog is not 1 there) or was made again from an older copy.",
        risk: "Empty transactions with these GTIDs on the source let the replica go on, and leave the data different: compare the tables \
               (pt-table-checksum).",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &[],
        statement: "Make the replica again from a copy of the source (CLONE INSTANCE, xtrabackup, mariabackup, mysqldump \
                    --single-transaction with the source's position)",
        why: "The source no longer has the binary log that this replica needs next: it was purged, or the replica was made from an \
              older copy.",
        risk: "The replica serves nothing meanwhile. A longer binlog_expire_logs_seconds (expire_logs_days) on the source keeps it from \
               happening again.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[1595, 13_122],
        says: &["Relay log write failure", "could not queue event"],
        statement: "Look at df of the folder of the relay log, at the error log for the write that failed, and at a disk or network that \
                    changes data (event checksum); make room",
        why: "An event of the source came and could not be written to the relay log: no room, a write error, or an event that was damaged \
              on its way.",
        risk: "Looking is safe. Relay logs are not to be removed by hand: those that are applied the server purges.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[1593, 13_117],
        says: &["equal MySQL server"],
        statement: "SET GLOBAL server_id to a number of its own (ids), or remove auto.cnf from the data folder and restart (UUIDs)",
        why: "Source and replica call themselves the same: one was made as a copy of the other.",
        risk: "A new server_uuid is that of later transactions here.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[1045, 1698, 1130, 1227],
        says: &[],
        statement: "On the source: SHOW GRANTS of the replica's account (REPLICATION SLAVE, and a host part that this host fits); here: \
                    {CHANGE} {SOURCE}_USER = ..., {SOURCE}_PASSWORD = ...",
        why: "The source refuses the login of the replica's account.",
        risk: "The password stands in the replica's metadata.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[2002, 2003, 2005, 2013],
        says: &[],
        statement: "From this host: mysql -h HOST -P PORT -u ACCOUNT -p with the address of the source; look whether it runs, for its \
                    bind_address, and for a firewall between",
        why: "Nothing answers at the source's address.",
        risk: "Looking is safe.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[2026, 2061],
        says: &[],
        statement: "{CHANGE} {SOURCE}_SSL = 1; without TLS GET_{SOURCE}_PUBLIC_KEY = 1 (MySQL 8.0)",
        why: "The replica's account has caching_sha2_password, which sends its password over TLS or encrypted with the source's key \
              alone, or TLS failed.",
        risk: "Without a certificate that is verified the key may be somebody else's.",
    },
];
