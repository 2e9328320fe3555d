//! Servers that are not as their packages make them: settings that somebody's servers have, and that change what a client gets.

use super::made::Made;
use super::troubles::Trouble;

/// A server that differs from that of a plain row.
#[derive(Debug)]
pub struct Place {
    /// Its name: `no-autocommit`.
    pub name: &'static str,
    /// How it differs, in a phrase.
    pub says: &'static str,
    /// The servers that it is tried on, by their names in the lab.
    pub servers: &'static [&'static str],
    /// False where it takes minutes or servers that nothing else needs: then `make matrix` tries it, and no test.
    pub is_in_tests: bool,
    /// Options of the server's own, beside the lab's.
    pub(super) options: &'static [&'static str],
    /// What `root` runs before anybody looks.
    pub(super) statements: &'static [&'static str],
    /// What else is made of it.
    pub(super) made: Made,
    /// What it cannot suffer from, and why.
    pub(super) cannot: &'static [(Trouble, &'static str)],
}

const BOTH: &[&str] = &["mysql-9.7", "mariadb-10.11"];
/// What most places are.
const PLACE: Place = Place {
    name: "",
    says: "",
    servers: BOTH,
    is_in_tests: true,
    options: &[],
    statements: &[],
    made: Made::Alone,
    cannot: &[],
};

/// Every place, in the order of the support table. The lab starts every server with `skip_name_resolve`.
pub static PLACES: &[Place] = &[
    Place {
        name: "session-defaults",
        says: "sessions begin with ANSI_QUOTES, NO_BACKSLASH_ESCAPES, PIPES_AS_CONCAT, SERIALIZABLE, another time zone, and answers \
               of one row (sql_select_limit, max_join_size, group_concat_max_len, div_precision_increment)",
        options: &[
            "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE",
            "--transaction-isolation=SERIALIZABLE",
            "--default-time-zone=+05:30",
            "--character-set-server=latin1",
        ],
        statements: &[
            "SET GLOBAL group_concat_max_len = 4",
            "SET GLOBAL div_precision_increment = 0",
            "SET GLOBAL max_join_size = 1",
            "SET GLOBAL sql_select_limit = 1",
        ],
        ..PLACE
    },
    Place {
        name: "no-autocommit",
        says: "autocommit is off, and init_connect sets a variable",
        options: &["--autocommit=0", "--init-connect=SET @started = NOW()"],
        ..PLACE
    },
    Place {
        name: "little-room",
        says: "no prepared statement is allowed, packets are at most 16 KiB, temporary tables go to disk, SELECTs end after 2 s",
        options: &[
            "--max-prepared-stmt-count=0",
            "--max-allowed-packet=16384",
            "--tmp-table-size=1024",
            "--max-heap-table-size=16384",
            "--loose-max-execution-time=2000",
        ],
        ..PLACE
    },
    Place {
        name: "read-only",
        says: "read_only, as on a replica; the clients may write nevertheless",
        statements: &["GRANT ALL ON *.* TO app@localhost", "SET GLOBAL read_only = ON"],
        ..PLACE
    },
    Place {
        name: "no-performance-schema",
        says: "performance_schema is off",
        servers: &["mysql-9.7", "mysql-5.7"],
        options: &["--performance-schema=OFF"],
        ..PLACE
    },
    Place {
        name: "performance-schema",
        says: "performance_schema is on, with every instrument",
        servers: &["mariadb-10.11"],
        options: &["--performance-schema=ON", "--performance-schema-instrument=%=ON"],
        statements: &["UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"],
        ..PLACE
    },
    Place {
        name: "thread-pool",
        says: "statements run in a thread pool",
        servers: &["mariadb-10.11"],
        options: &["--thread-handling=pool-of-threads", "--thread-pool-size=16"],
        ..PLACE
    },
    Place {
        name: "compressed",
        says: "the table's rows are compressed",
        statements: &["ALTER TABLE sbtest.sbtest1 ROW_FORMAT=COMPRESSED"],
        ..PLACE
    },
    Place {
        name: "four-part-version",
        says: "the version that it says has four parts and a vendor's words",
        servers: &["mariadb-10.11"],
        options: &["--version=10.11.18.4-MariaDB-cloud-log"],
        ..PLACE
    },
    Place {
        name: "future-version",
        says: "it says a version that nobody has seen yet",
        servers: &["mariadb-10.11"],
        options: &["--version=26.7.1-MariaDB-log"],
        ..PLACE
    },
    Place {
        name: "name-resolve",
        says: "the server asks the resolver for its clients' names",
        servers: &["mysql-9.7"],
        options: &["--skip-name-resolve=0"],
        ..PLACE
    },
    Place {
        name: "galera",
        says: "it is a node of a Galera cluster, the only one",
        servers: &["mariadb-10.11"],
        made: Made::GaleraNode,
        cannot: &[
            (Trouble::Metadata, "a DDL of a Galera node ends the transaction that it would wait for"),
            (Trouble::Global, "FLUSH TABLES WITH READ LOCK takes a Galera node out of the cluster meanwhile"),
        ],
        ..PLACE
    },
    Place {
        name: "group-replication",
        says: "it is a member of a replication group, the only one",
        servers: &["mysql-9.7"],
        made: Made::GroupMember,
        ..PLACE
    },
    Place {
        name: "semi-sync",
        says: "its commits wait for the acknowledgement of a replica, which is there",
        made: Made::Acknowledged,
        ..PLACE
    },
    Place {
        name: "encrypted",
        says: "the table, the logs and temporary files are encrypted",
        servers: &["mariadb-10.11"],
        made: Made::Encrypted,
        ..PLACE
    },
    Place {
        name: "encrypted-by-keyring",
        says: "the table and the logs are encrypted by the keyring's keys",
        servers: &["mysql-8.0.33"],
        is_in_tests: false,
        made: Made::Encrypted,
        ..PLACE
    },
    Place {
        name: "metadata-lock-info",
        says: "the plugin metadata_lock_info is loaded",
        servers: &["mariadb-10.11"],
        made: Made::MetadataLockInfo,
        ..PLACE
    },
    Place {
        name: "many-tables",
        says: "it has 32,000 tables more",
        is_in_tests: false,
        options: &["--loose-disable-log-bin", "--innodb-flush-log-at-trx-commit=0"],
        made: Made::ManyTables(32_000),
        ..PLACE
    },
];

/// The place of this name.
pub fn place(name: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::Which;

    #[test]
    fn each_place_has_its_own_name_and_servers_that_the_lab_knows() {
        for (at, place) in PLACES.iter().enumerate() {
            assert!(PLACES[..at].iter().all(|other| other.name != place.name), "{}", place.name);
            assert!(!place.servers.is_empty(), "{}", place.name);
            for server in place.servers {
                assert!(Which::by_name(server).is_some(), "{}: {server}", place.name);
            }
        }
    }
}
