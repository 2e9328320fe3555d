//! The server's variables that the model knows, and what they are in the simulation.

use serde::{Deserialize, Serialize};

use crate::world::{CommitSpin, Latch};

/// Whose code the latches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavor {
    /// MySQL and Percona Server before 5.6: the wait array is searched from its beginning.
    Mysql55,
    /// MySQL and Percona Server since 5.6: commits do not spin.
    Mysql57,
    /// Since 8.0: commits spin between their marks.
    Mysql80,
    /// MariaDB since 10.6.
    Mariadb,
}

/// The variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whose code.
    pub flavor: Flavor,
    /// `innodb_sync_spin_loops`.
    pub spin_loops: f64,
    /// `innodb_spin_wait_delay`.
    pub spin_delay: f64,
    /// `innodb_spin_wait_pause_multiplier`; of MariaDB, PAUSEs in a unit of delay.
    pub pause_multiplier: f64,
    /// `innodb_sync_array_size`.
    pub sync_arrays: u32,
    /// `innodb_rollback_segments`: of each undo tablespace since 8.0, in all before.
    pub rollback_segments: u32,
    /// Undo tablespaces with rollback segments of their own: 2 until more are created, 1 before 8.0.
    pub undo_tablespaces: u32,
    /// `innodb_log_spin_cpu_abs_lwm`.
    pub log_spin_cpu_abs_lwm: f64,
    /// `innodb_log_spin_cpu_pct_hwm`.
    pub log_spin_cpu_pct_hwm: f64,
    /// `innodb_flush_log_at_trx_commit`.
    pub flush_at_commit: u32,
    /// True where a binary log is written: commits come in groups.
    pub binlog: bool,
}

/// A look at one more place of the wait array, which is read from its beginning: some cycles, prefetched.
const ARRAY_SCAN_NS: f64 = 5.0;

/// What the model knows about one variable.
struct Known {
    name: &'static str,
    least: f64,
    most: f64,
    get: fn(&Settings) -> f64,
    set: fn(&mut Settings, f64),
    has: fn(Flavor) -> bool,
}

const fn always(_: Flavor) -> bool {
    true
}

/// Ranges: MySQL Reference Manual, "InnoDB Startup Options and System Variables".
const KNOWN: [Known; 10] = [
    Known {
        name: "innodb_sync_spin_loops",
        least: 0.0,
        most: 4_294_967_295.0,
        get: |s| s.spin_loops,
        set: |s, to| s.spin_loops = to,
        has: always,
    },
    Known {
        name: "innodb_spin_wait_delay",
        least: 0.0,
        most: 6_000.0,
        get: |s| s.spin_delay,
        set: |s, to| s.spin_delay = to,
        has: always,
    },
    Known {
        name: "innodb_spin_wait_pause_multiplier",
        least: 1.0,
        most: 100.0,
        get: |s| s.pause_multiplier,
        set: |s, to| s.pause_multiplier = to,
        has: |flavor| !matches!(flavor, Flavor::Mariadb),
    },
    Known {
        name: "innodb_sync_array_size",
        least: 1.0,
        most: 1_024.0,
        get: |s| f64::from(s.sync_arrays),
        set: |s, to| s.sync_arrays = to as u32,
        has: |flavor| matches!(flavor, Flavor::Mysql57 | Flavor::Mysql80),
    },
    Known {
        name: "innodb_rollback_segments",
        least: 1.0,
        most: 128.0,
        get: |s| f64::from(s.rollback_segments),
        set: |s, to| s.rollback_segments = to as u32,
        has: always,
    },
    Known {
        // No variable: `Innodb_undo_tablespaces_active` counts them, and CREATE UNDO TABLESPACE makes them.
        name: "undo_tablespaces",
        least: 1.0,
        most: 127.0,
        get: |s| f64::from(s.undo_tablespaces),
        set: |s, to| s.undo_tablespaces = to as u32,
        has: |flavor| matches!(flavor, Flavor::Mysql80),
    },
    Known {
        name: "innodb_log_spin_cpu_abs_lwm",
        least: 0.0,
        most: 4_294_967_295.0,
        get: |s| s.log_spin_cpu_abs_lwm,
        set: |s, to| s.log_spin_cpu_abs_lwm = to,
        has: |flavor| matches!(flavor, Flavor::Mysql80),
    },
    Known {
        name: "innodb_log_spin_cpu_pct_hwm",
        least: 0.0,
        most: 100.0,
        get: |s| s.log_spin_cpu_pct_hwm,
        set: |s, to| s.log_spin_cpu_pct_hwm = to,
        has: |flavor| matches!(flavor, Flavor::Mysql80),
    },
    Known {
        name: "innodb_flush_log_at_trx_commit",
        least: 0.0,
        most: 2.0,
        get: |s| f64::from(s.flush_at_commit),
        set: |s, to| s.flush_at_commit = to as u32,
        has: always,
    },
    Known {
        name: "log_bin",
        least: 0.0,
        most: 1.0,
        get: |s| f64::from(u8::from(s.binlog)),
        set: |s, to| s.binlog = to > 0.0,
        has: always,
    },
];

impl Settings {
    /// What a server of that kind starts with.
    pub fn for_flavor(flavor: Flavor) -> Self {
        let (delay, multiplier) = match flavor {
            Flavor::Mariadb => (4.0, 50.0),
            _ => (6.0, 50.0),
        };
        Self {
            flavor,
            spin_loops: 30.0,
            spin_delay: delay,
            pause_multiplier: multiplier,
            sync_arrays: 1,
            rollback_segments: 128,
            undo_tablespaces: if flavor == Flavor::Mysql80 { 2 } else { 1 },
            log_spin_cpu_abs_lwm: 80.0,
            log_spin_cpu_pct_hwm: 50.0,
            flush_at_commit: 1,
            // On by default since 8.0.
            binlog: flavor == Flavor::Mysql80,
        }
    }

    /// Sets one of them.
    ///
    /// # Errors
    /// That the model does not know the variable, that this server has none, or that the value is out of its range.
    pub fn set(&mut self, variable: &str, value: &str) -> Result<(), String> {
        let Some(known) = KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(variable)) else {
            return Err(format!(
                "the model does not know {variable}: what it does is not simulated; it knows {}",
                Self::variables().join(", ")
            ));
        };
        if !(known.has)(self.flavor) {
            return Err(format!("this server has no {}", known.name));
        }
        let number = match value.to_ascii_uppercase().as_str() {
            "ON" => 1.0,
            "OFF" => 0.0,
            other => other.parse::<f64>().map_err(|_| format!("{}: {value} is not a number", known.name))?,
        };
        if !(known.least..=known.most).contains(&number) {
            return Err(format!("{} is from {} to {}, not {value}", known.name, known.least, known.most));
        }
        (known.set)(self, number);
        Ok(())
    }

    /// The value of one of them; none where the model does not know it.
    pub fn get(&self, variable: &str) -> Option<f64> {
        KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(variable)).map(|known| (known.get)(self))
    }

    /// True where latches are waited for in another way, or are others.
    pub(crate) fn touches_latches(&self, other: &Self) -> bool {
        self.latch(0.0) != other.latch(0.0) || self.segments() != other.segments()
    }

    /// Rollback segments in all.
    pub(crate) fn segments(&self) -> u32 {
        self.rollback_segments * self.undo_tablespaces
    }

    /// The variables that it knows.
    pub fn variables() -> Vec<&'static str> {
        KNOWN.iter().map(|known| known.name).collect()
    }

    /// How its latches are waited for; with what a place in the array costs for each that is taken.
    pub(crate) fn latch(&self, per_sleeper_ns: f64) -> Latch {
        let latch = match self.flavor {
            Flavor::Mariadb => Latch::mariadb(self.spin_loops, self.spin_delay, self.pause_multiplier),
            Flavor::Mysql55 | Flavor::Mysql57 | Flavor::Mysql80 => Latch {
                arrays: self.sync_arrays,
                array_scan_ns: if self.flavor == Flavor::Mysql55 { ARRAY_SCAN_NS } else { 0.0 },
                ..Latch::mysql(self.spin_loops, self.spin_delay, self.pause_multiplier)
            },
        };
        Latch { per_sleeper_ns, ..latch }
    }

    /// How its commits wait for the log.
    pub(crate) fn commit_spin(&self) -> Option<CommitSpin> {
        (self.flavor == Flavor::Mysql80).then(|| CommitSpin {
            abs_lwm_pct: self.log_spin_cpu_abs_lwm,
            pct_hwm: self.log_spin_cpu_pct_hwm,
            ..CommitSpin::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_set_only_where_the_model_and_the_server_know_it() {
        let mut settings = Settings::for_flavor(Flavor::Mysql57);
        settings.set("INNODB_SYNC_SPIN_LOOPS", "200").unwrap();
        assert_eq!(settings.get("innodb_sync_spin_loops"), Some(200.0));
        for (variable, value, says) in [
            ("innodb_io_capacity", "1", "does not know"),
            ("innodb_log_spin_cpu_pct_hwm", "8", "has no"),
            ("innodb_sync_spin_loops", "many", "not a number"),
            ("innodb_flush_log_at_trx_commit", "3", "from 0 to 2"),
        ] {
            let refused = settings.set(variable, value).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
        settings.set("log_bin", "on").unwrap();
        assert!(settings.binlog);
    }
}
