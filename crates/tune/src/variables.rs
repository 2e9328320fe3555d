//! The variables that may be changed on a live server, with their documented ranges: one ordered list.
//!
//! Out: [`VARIABLES`]. What is not on it is never changed. Pure.

use spindoctor_model::ServerVersion;
use thiserror::Error;

/// A dynamic global variable that a trial may change.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// As `SHOW GLOBAL VARIABLES` has it.
    pub name: &'static str,
    /// Which values it takes on the server that takes the most; see [`Variable::values_on`].
    pub values: Values,
    /// Which servers have it, and let it be changed without a restart.
    pub is_dynamic_on: fn(ServerVersion) -> bool,
    /// How long after a change the server behaves as changed.
    pub settles: Settles,
}

/// Which values a variable takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Whole numbers from the first to the last.
    Numbers {
        /// The least.
        from: u64,
        /// The greatest.
        to: u64,
    },
    /// ON and OFF.
    Switch,
}

/// How long after a change the server behaves as changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settles {
    /// Spinning, tickets, limits: with the next statement.
    AtOnce,
    /// Caches: as they fill.
    Caches,
    /// Redo, flushing, purge, I/O: what is dirty or unpurged must reach its new level.
    Flushing,
}

/// Why a value is refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Not on the list.
    #[error(
        "{0} is not on the list of variables that spindoctor changes; `spindoctor tune --plan` shows what can be tried"
    )]
    Unknown(String),
    /// Known, and fixed on this server.
    #[error("{name} cannot be changed without a restart on {version}")]
    Fixed {
        /// The variable.
        name: &'static str,
        /// The server.
        version: ServerVersion,
    },
    /// Outside the documented range.
    #[error("{value:?} is not a value for {name}: {wanted}")]
    BadValue {
        /// The variable.
        name: &'static str,
        /// What was asked for.
        value: String,
        /// What it takes.
        wanted: String,
    },
}

/// The variables, in the order in which they are shown and tried. Ranges are those of the reference manuals of MySQL
/// 8.4 and 9.7 and of MariaDB 10.11; a live test holds them against both servers. What decides over durability,
/// replication, security or memory that cannot be given back is not here.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "innodb_log_spin_cpu_pct_hwm",
        values: Values::Numbers { from: 0, to: 100 },
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 11),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_log_spin_cpu_abs_lwm",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 11),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_log_wait_for_flush_spin_hwm",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 11),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_log_writer_threads",
        values: Values::Switch,
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 22),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_spin_wait_delay",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        is_dynamic_on: |_| true,
        settles: Settles::AtOnce,
    },
    // Builds of 5.6, 5.7 and early 8.0 have it patched in: there it is as dynamic as in 8.0.16. Where there is no such variable
    // that shows when its value is read, before anything is changed.
    Variable {
        name: "innodb_spin_wait_pause_multiplier",
        values: Values::Numbers { from: 0, to: 100 },
        is_dynamic_on: |version| !version.is_mariadb(),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_sync_spin_loops",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        is_dynamic_on: |_| true,
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_thread_concurrency",
        values: Values::Numbers { from: 0, to: 1_000 },
        is_dynamic_on: |version| !version.mariadb_at_least(10, 5, 0),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_concurrency_tickets",
        values: Values::Numbers { from: 1, to: 4_294_967_295 },
        is_dynamic_on: |version| !version.mariadb_at_least(10, 5, 0),
        settles: Settles::AtOnce,
    },
    // How long a thread sleeps before it enters InnoDB under a limit, at most, microseconds.
    Variable {
        name: "innodb_adaptive_max_sleep_delay",
        values: Values::Numbers { from: 0, to: 1_000_000 },
        is_dynamic_on: |version| {
            version.mysql_at_least(5, 6, 3)
                || version.mariadb_at_least(10, 0, 0) && !version.mariadb_at_least(10, 5, 0)
        },
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_rollback_segments",
        values: Values::Numbers { from: 1, to: 128 },
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 2),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_max_undo_log_size",
        values: Values::Numbers { from: 10 << 20, to: u64::MAX },
        is_dynamic_on: |version| version.mysql_at_least(5, 7, 5) || version.mariadb_at_least(10, 2, 2),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_undo_log_truncate",
        values: Values::Switch,
        is_dynamic_on: |version| version.mysql_at_least(5, 7, 5) || version.mariadb_at_least(10, 2, 2),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_redo_log_capacity",
        values: Values::Numbers { from: 8 << 20, to: 512 << 30 },
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 30),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_log_file_size",
        values: Values::Numbers { from: 4 << 20, to: 512 << 30 },
        is_dynamic_on: |version| version.mariadb_at_least(10, 9, 0),
        settles: Settles::Flushing,
    },
    // OFF is O_DIRECT for the redo log. Where its file system leaves no choice the server keeps what it has, which shows when it is read back.
    Variable {
        name: "innodb_log_file_buffering",
        values: Values::Switch,
        is_dynamic_on: |version| version.mariadb_at_least(10, 8, 4),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_io_capacity",
        values: Values::Numbers { from: 100, to: 4_294_967_295 },
        is_dynamic_on: |version| version.mysql_at_least(5, 5, 0) || version.is_mariadb(),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_io_capacity_max",
        values: Values::Numbers { from: 100, to: 4_294_967_295 },
        is_dynamic_on: |version| version.mysql_at_least(5, 6, 0) || version.mariadb_at_least(10, 0, 0),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_lru_scan_depth",
        values: Values::Numbers { from: 100, to: 4_294_967_295 },
        is_dynamic_on: |version| version.mysql_at_least(5, 6, 3) || version.mariadb_at_least(10, 0, 0),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_purge_batch_size",
        values: Values::Numbers { from: 1, to: 5_000 },
        is_dynamic_on: |version| version.mysql_at_least(5, 6, 3) || version.mariadb_at_least(10, 0, 0),
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_max_purge_lag",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        is_dynamic_on: |_| true,
        settles: Settles::Flushing,
    },
    Variable {
        name: "innodb_max_purge_lag_delay",
        values: Values::Numbers { from: 0, to: 10_000_000 },
        is_dynamic_on: |version| version.mysql_at_least(5, 6, 5) || version.mariadb_at_least(10, 0, 0),
        settles: Settles::Flushing,
    },
    Variable {
        name: "thread_cache_size",
        values: Values::Numbers { from: 0, to: 16_384 },
        is_dynamic_on: |_| true,
        settles: Settles::Caches,
    },
    Variable {
        name: "table_open_cache",
        values: Values::Numbers { from: 1, to: 1_048_576 },
        is_dynamic_on: |_| true,
        settles: Settles::Caches,
    },
    Variable {
        name: "innodb_adaptive_hash_index",
        values: Values::Switch,
        is_dynamic_on: |_| true,
        settles: Settles::Caches,
    },
    // A session copies it when it begins: only new connections behave as changed.
    Variable {
        name: "eq_range_index_dive_limit",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        // MDEV-16934 brought it to both series of MariaDB that were maintained then.
        is_dynamic_on: |version| {
            version.mysql_at_least(5, 6, 5)
                || version.mariadb_at_least(10, 3, 10)
                || version.mariadb_at_least(10, 2, 18) && !version.mariadb_at_least(10, 3, 0)
        },
        settles: Settles::AtOnce,
    },
    Variable {
        name: "binlog_group_commit_sync_delay",
        values: Values::Numbers { from: 0, to: 1_000_000 },
        is_dynamic_on: |version| version.mysql_at_least(5, 7, 5),
        settles: Settles::AtOnce,
    },
];

/// A range that is narrower on some servers: the variable, which servers, and what they take.
type Narrower = (&'static str, fn(ServerVersion) -> bool, Values);

/// Where a version takes less than the widest range.
const NARROWER: &[Narrower] = &[
    (
        "innodb_spin_wait_delay",
        |version| version.mysql_at_least(8, 0, 27),
        Values::Numbers { from: 0, to: 1_000 },
    ),
    ("innodb_spin_wait_delay", ServerVersion::is_mariadb, Values::Numbers { from: 0, to: 6_000 }),
    ("table_open_cache", |version| !version.is_mariadb(), Values::Numbers { from: 1, to: 524_288 }),
    ("table_open_cache", ServerVersion::is_mariadb, Values::Numbers { from: 10, to: 1_048_576 }),
    // As many pages of 16 KiB as have a number.
    ("innodb_max_undo_log_size", ServerVersion::is_mariadb, Values::Numbers { from: 10 << 20, to: 1 << 46 }),
    (
        "innodb_redo_log_capacity",
        |version| !version.mysql_at_least(8, 0, 34),
        Values::Numbers { from: 8 << 20, to: 128 << 30 },
    ),
];

/// The variable of that name; letter case and `-` for `_` do not matter.
///
/// # Errors
/// That it is not on the list.
pub fn find(name: &str) -> Result<&'static Variable, Refused> {
    let folded = name.trim().to_ascii_lowercase().replace('-', "_");
    VARIABLES.iter().find(|variable| variable.name == folded).ok_or_else(|| Refused::Unknown(name.to_owned()))
}

impl Variable {
    /// True where a value is of this variable's form, as a server prints it, whatever its range: a whole number, ON or OFF.
    pub fn has_form(&self, value: &str) -> bool {
        match self.values {
            Values::Numbers { .. } => {
                value.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<u64>().is_ok()
            }
            Values::Switch => ["ON", "OFF"].iter().any(|word| value.eq_ignore_ascii_case(word)),
        }
    }

    /// True where some server takes the value.
    pub fn is_in_widest_range(&self, value: &str) -> bool {
        self.has_form(value)
            && match self.values {
                Values::Numbers { from, to } => {
                    value.parse().is_ok_and(|number| (from..=to).contains(&number))
                }
                Values::Switch => true,
            }
    }

    /// Fails where no server takes the value: that needs no server to be known.
    ///
    /// # Errors
    /// What the variable takes.
    pub fn expect_in_widest_range(&self, value: &str) -> Result<(), Refused> {
        let value = value.trim();
        let word = match (self.values, value) {
            (Values::Switch, "0" | "1") => "ON",
            _ => value,
        };
        if self.is_in_widest_range(word) {
            return Ok(());
        }
        let wanted = match self.values {
            Values::Numbers { from, to } => format!("a whole number from {from} to {to}"),
            Values::Switch => "ON or OFF".to_owned(),
        };
        Err(Refused::BadValue { name: self.name, value: value.to_owned(), wanted })
    }

    /// Which values it takes on a server.
    pub fn values_on(&self, version: ServerVersion) -> Values {
        let narrower = NARROWER.iter().find(|(name, is_so, _)| *name == self.name && is_so(version));
        narrower.map_or(self.values, |&(_, _, values)| values)
    }

    /// The value as the server prints it, where this server takes it.
    ///
    /// # Errors
    /// That this server does not let it be changed, or that the value lies outside its documented range.
    pub fn value(&self, version: ServerVersion, value: &str) -> Result<String, Refused> {
        if !(self.is_dynamic_on)(version) {
            return Err(Refused::Fixed { name: self.name, version });
        }
        let value = value.trim();
        let refused = |wanted: String| Refused::BadValue { name: self.name, value: value.to_owned(), wanted };
        match self.values_on(version) {
            Values::Numbers { from, to } => match value.parse::<u64>() {
                Ok(number) if (from..=to).contains(&number) => Ok(number.to_string()),
                _ => Err(refused(format!("a whole number from {from} to {to}"))),
            },
            Values::Switch => match value.to_ascii_uppercase().as_str() {
                "ON" | "1" => Ok("ON".to_owned()),
                "OFF" | "0" => Ok("OFF".to_owned()),
                _ => Err(refused("ON or OFF".to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_the_list_or_out_of_range_is_refused_with_what_to_do() {
        let version = ServerVersion::parse("9.7.4", "MySQL").unwrap();
        let multiplier = find("INNODB-spin_wait_pause_multiplier").unwrap();
        assert_eq!(multiplier.value(version, " 7 "), Ok("7".to_owned()));
        assert!(multiplier.value(version, "101").is_err() && multiplier.value(version, "-1").is_err());
        assert!(matches!(find("datadir"), Err(Refused::Unknown(_))));
        let old = ServerVersion::parse("5.7.44", "MySQL").unwrap();
        assert_eq!(multiplier.value(old, "7"), Ok("7".to_owned()), "it may be patched in");
        let mariadb = ServerVersion::parse("10.11.19-MariaDB", "").unwrap();
        assert!(matches!(multiplier.value(mariadb, "7"), Err(Refused::Fixed { .. })));
        let delay = find("innodb_spin_wait_delay").unwrap();
        assert!(delay.value(version, "1001").is_err());
        assert_eq!(delay.value(old, "1001"), Ok("1001".to_owned()));
        let switch = find("innodb_log_writer_threads").unwrap();
        assert_eq!(switch.value(version, "off"), Ok("OFF".to_owned()));
        // Before any server is known.
        assert!(
            delay.expect_in_widest_range("1001").is_ok()
                && delay.expect_in_widest_range("4294967296").is_err()
        );
        assert!(switch.expect_in_widest_range("1").is_ok() && switch.expect_in_widest_range("2").is_err());
        let error = delay.expect_in_widest_range("99999999999").unwrap_err().to_string();
        assert!(error.contains("a whole number from 0 to 4294967295"), "{error}");
    }

    #[test]
    fn what_a_server_printed_has_the_variables_form_and_nothing_else_has() {
        let (delay, switch) =
            (find("innodb_spin_wait_delay").unwrap(), find("innodb_adaptive_hash_index").unwrap());
        // Out of range, but a number: it may have been so before.
        for value in ["0", "6", "18446744073709551615"] {
            assert!(delay.has_form(value), "{value}");
        }
        for value in ["", "-1", "+6", "6.0", "1e3", "6; DROP", "ON", " 6", "18446744073709551616"] {
            assert!(!delay.has_form(value), "{value}");
        }
        assert!(switch.has_form("ON") && switch.has_form("off"));
        assert!(!switch.has_form("1") && !switch.has_form("'ON'") && !switch.has_form(""));
    }
}
