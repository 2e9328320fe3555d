//! Servers that are not as their packages make them: settings that somebody's servers have, and that change what a client gets.

/// A server that differs from that of a plain row.
#[derive(Debug)]
pub struct Place {
    /// Its name: `no-autocommit`.
    pub name: &'static str,
    /// How it differs, in a phrase.
    pub says: &'static str,
    /// The servers that it is tried on, by their names in the lab.
    pub servers: &'static [&'static str],
    /// Options of the server's own, beside the lab's.
    pub(super) options: &'static [&'static str],
    /// What `root` runs before anybody looks.
    pub(super) statements: &'static [&'static str],
}

const BOTH: &[&str] = &["mysql-9.7", "mariadb-10.11"];

/// Every place, in the order of the support table.
pub static PLACES: &[Place] = &[
    Place {
        name: "session-defaults",
        says: "sessions begin with ANSI_QUOTES, NO_BACKSLASH_ESCAPES, PIPES_AS_CONCAT, SERIALIZABLE, another time zone, and answers \
               of one row (sql_select_limit, max_join_size, group_concat_max_len, div_precision_increment)",
        servers: BOTH,
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
    },
    Place {
        name: "no-autocommit",
        says: "autocommit is off, and init_connect sets a variable",
        servers: BOTH,
        options: &["--autocommit=0", "--init-connect=SET @started = NOW()"],
        statements: &[],
    },
    Place {
        name: "little-room",
        says: "no prepared statement is allowed, packets are at most 16 KiB, temporary tables go to disk, SELECTs end after 2 s",
        servers: BOTH,
        options: &[
            "--max-prepared-stmt-count=0",
            "--max-allowed-packet=16384",
            "--tmp-table-size=1024",
            "--max-heap-table-size=16384",
            "--loose-max-execution-time=2000",
        ],
        statements: &[],
    },
    Place {
        name: "read-only",
        says: "read_only, as on a replica; the clients may write nevertheless",
        servers: BOTH,
        options: &[],
        statements: &["GRANT ALL ON *.* TO app@localhost", "SET GLOBAL read_only = ON"],
    },
    Place {
        name: "no-performance-schema",
        says: "performance_schema is off",
        servers: &["mysql-9.7", "mysql-5.7"],
        options: &["--performance-schema=OFF"],
        statements: &[],
    },
    Place {
        name: "performance-schema",
        says: "performance_schema is on, with every instrument",
        servers: &["mariadb-10.11"],
        options: &["--performance-schema=ON", "--performance-schema-instrument=%=ON"],
        statements: &["UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"],
    },
    Place {
        name: "thread-pool",
        says: "statements run in a thread pool",
        servers: &["mariadb-10.11"],
        options: &["--thread-handling=pool-of-threads", "--thread-pool-size=16"],
        statements: &[],
    },
    Place {
        name: "compressed",
        says: "the table's rows are compressed",
        servers: BOTH,
        options: &[],
        statements: &["ALTER TABLE sbtest.sbtest1 ROW_FORMAT=COMPRESSED"],
    },
    Place {
        name: "four-part-version",
        says: "the version that it says has four parts and a vendor's words",
        servers: &["mariadb-10.11"],
        options: &["--version=10.11.18.4-MariaDB-cloud-log"],
        statements: &[],
    },
    Place {
        name: "future-version",
        says: "it says a version that nobody has seen yet",
        servers: &["mariadb-10.11"],
        options: &["--version=26.7.1-MariaDB-log"],
        statements: &[],
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
