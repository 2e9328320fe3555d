//! The variables that may be changed on a live server, with their documented ranges: one ordered list.
//!
//! Out: [`VARIABLES`]. What is not on it is not changed, whoever asks. Pure.

use spindoctor_model::ServerVersion;
use thiserror::Error;

/// A dynamic global variable that a trial may change.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// As `SHOW GLOBAL VARIABLES` has it.
    pub name: &'static str,
    /// Which values it takes.
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
    #[error("{value:?} is no value for {name}: {wanted}")]
    BadValue {
        /// The variable.
        name: &'static str,
        /// What was asked for.
        value: String,
        /// What it takes.
        wanted: String,
    },
}

/// The variables, in the order in which they are shown and tried.
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
        name: "innodb_log_writer_threads",
        values: Values::Switch,
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 22),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_spin_wait_delay",
        values: Values::Numbers { from: 0, to: 1_000 },
        is_dynamic_on: |_| true,
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_spin_wait_pause_multiplier",
        values: Values::Numbers { from: 0, to: 100 },
        is_dynamic_on: |version| version.mysql_at_least(8, 0, 16),
        settles: Settles::AtOnce,
    },
    Variable {
        name: "innodb_sync_spin_loops",
        values: Values::Numbers { from: 0, to: 4_294_967_295 },
        is_dynamic_on: |_| true,
        settles: Settles::AtOnce,
    },
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
        match self.values {
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
        assert!(matches!(multiplier.value(old, "7"), Err(Refused::Fixed { .. })));
        assert_eq!(find("innodb_log_writer_threads").unwrap().value(version, "off"), Ok("OFF".to_owned()));
    }
}
