//! Undo tablespaces that a tuner makes: how many there may be, what they are called, whether they fit, and what stands
//! for their old number in a trial. Pure, but for [`journal`]; [`crate::apply`] makes them and takes them away.
//!
//! They are no variable: they are files, which outlive a restart of the server, and which go only when purge is through
//! with what is in them. So they have a journal of their own beside that of the variables.
//!
//! A trial makes and drops none. With all of them in place it compares two values of `innodb_rollback_segments`, which
//! every tablespace has so many of: the value that stands, and one with which all of them together have about as many
//! segments as there were before ([`stand_in`]).

pub mod journal;

use spindoctor_model::ServerVersion;
use spindoctor_model::number::bytes;
use spindoctor_rules::proposals::UNDO_TABLESPACES;
use thiserror::Error;

use crate::variables::Refused;

/// What `--only` calls their number: all that are active, the implicit ones among them, as `Innodb_undo_tablespaces_active`
/// counts.
pub const NAME: &str = UNDO_TABLESPACES;

/// All that InnoDB takes, the two implicit ones among them (fsp0types.h, FSP_MAX_UNDO_TABLESPACES).
pub const MOST: u32 = 127;

/// One more than the implicit ones, which cannot be dropped.
pub const LEAST: u32 = 3;

/// How every name begins. A user's own may begin so, too: a name is ours as a whole only, see [`is_own_name`].
const PREFIX: &str = "spindoctor_undo";

/// True for the name that `--only` takes; letter case and `-` for `_` do not matter, as with variables.
pub fn is_named(name: &str) -> bool {
    name.trim().to_ascii_lowercase().replace('-', "_") == NAME
}

/// How many there are to be.
///
/// # Errors
/// What it takes.
pub fn count(value: &str) -> Result<u32, Refused> {
    let number = value.trim().parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| Refused::BadValue {
        name: NAME,
        value: value.trim().to_owned(),
        wanted: format!("a whole number from {LEAST} to {MOST}, the two implicit ones included"),
    })
}

/// Why a server can be given no more while it runs, with what can be done instead; none where it can.
pub fn unavailable(version: ServerVersion) -> Option<String> {
    if version.is_mariadb() {
        return Some(format!(
            "{version} has no CREATE UNDO TABLESPACE: it reads innodb_undo_tablespaces when it starts, and shares 128 rollback segments however many there are; fewer transactions at once queue less"
        ));
    }
    (!version.mysql_at_least(8, 0, 14)).then(|| {
        format!(
            "CREATE UNDO TABLESPACE came with MySQL 8.0.14, and this is {version}: innodb_undo_tablespaces is for a new data directory, and 128 rollback segments are all there are; upgrade, or let fewer transactions write at once"
        )
    })
}

/// The name of a tuner's tablespace: the start of the server and the connection of the lease are in it, so that no two tuners
/// ever have the same, and its file is `NAME.ibu`.
pub fn own_name(started: i64, holder: u64, number: u32) -> String {
    format!("{PREFIX}_{started}_{holder}_{number:03}")
}

/// True for a name that the tuner with that lease gives, and for no other: what is dropped is held against it.
pub fn is_own_name(name: &str, started: i64, holder: u64) -> bool {
    let number = name.rsplit_once('_').and_then(|(_, number)| number.parse().ok());
    number.is_some_and(|number| (1..=MOST).contains(&number) && own_name(started, holder, number) == name)
}

/// The value of `innodb_rollback_segments` with which so many tablespaces have about as many segments together as there were
/// before; at least one each.
pub fn stand_in(segments_before: u32, tablespaces: u32) -> u32 {
    let tablespaces = tablespaces.max(1);
    ((segments_before + tablespaces / 2) / tablespaces).max(1)
}

/// Why undo tablespaces are not made.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum UndoRefused {
    /// This server cannot, or not now; what to do is in it.
    #[error("no undo tablespaces are made: {0}")]
    Unavailable(String),
    /// What is made would be made on the replicas, too.
    #[error(
        "no undo tablespaces are made: this account may not SET sql_log_bin = 0, so that the replicas would make them, too; GRANT SYSTEM_VARIABLES_ADMIN"
    )]
    BinaryLog,
    /// What is dropped would be dropped on the replicas, too, which do not have it.
    #[error(
        "this account may not SET sql_log_bin = 0, so that the replicas would drop them, too; GRANT SYSTEM_VARIABLES_ADMIN, or run `spindoctor tune --recover` as an account that has it"
    )]
    BinaryLogOfDrop,
    /// They would grow without a bound.
    #[error(
        "no undo tablespaces are made: innodb_undo_log_truncate is OFF, and what is never truncated has no bound on the disk; SET GLOBAL innodb_undo_log_truncate = ON first"
    )]
    Truncate,
    /// There are as many already.
    #[error("there are {active} active undo tablespaces already: give more than that, as in --only undo_tablespaces={}", (active * 4).min(MOST))]
    Enough {
        /// How many are active.
        active: u32,
    },
    /// InnoDB takes no more.
    #[error(
        "there are {there} undo tablespaces, {active} of them active, and InnoDB takes 127: --only undo_tablespaces={} is the most",
        MOST - there + active
    )]
    TooMany {
        /// All of them.
        there: u32,
        /// Those that take new transactions.
        active: u32,
    },
    /// The room is not known.
    #[error(
        "no undo tablespaces are made: how much room there is in innodb_undo_directory ({0}) could not be read; run spindoctor as root on the server's host"
    )]
    RoomUnknown(String),
    /// They do not fit.
    #[error(
        "no undo tablespaces are made: {wanted} of them take up to {} ({} each before it is truncated, innodb_max_undo_log_size, and a step beyond), and a quarter of the {} that are free in {folder} is {}: {}",
        bytes(*needed_bytes), bytes(*limit_bytes), bytes(*free_bytes), bytes(*budget_bytes), self.way_out()
    )]
    NoRoom {
        /// How many were asked for.
        wanted: u32,
        /// Where they would lie.
        folder: String,
        /// What they take at most.
        needed_bytes: f64,
        /// `innodb_max_undo_log_size`
        limit_bytes: f64,
        /// Free there.
        free_bytes: f64,
        /// What of it they may take.
        budget_bytes: f64,
        /// How many fit with that limit.
        fits: u32,
    },
    /// The room went away while they were made.
    #[error("{} are left free in innodb_undo_directory, too few for one more undo tablespace", bytes(*free_bytes))]
    RoomGone {
        /// What is free.
        free_bytes: f64,
    },
    /// Somebody else changed one.
    #[error("the undo tablespace {name} is {state} by somebody else's doing, so that nothing is kept")]
    Changed {
        /// Which.
        name: String,
        /// `gone`, or the server's word.
        state: String,
    },
    /// Somebody asked for the end.
    #[error("interrupted while undo tablespaces were made")]
    Stopped,
}

impl UndoRefused {
    fn way_out(&self) -> String {
        match self {
            Self::NoRoom { fits, .. } if *fits >= LEAST => {
                format!("{fits} fit, or more of them with a smaller --only innodb_max_undo_log_size=BYTES")
            }
            _ => "give --only innodb_max_undo_log_size=BYTES, too, or move innodb_undo_directory".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str, comment: &str) -> ServerVersion {
        ServerVersion::parse(text, comment).unwrap()
    }

    #[test]
    fn a_name_is_ours_as_a_whole_only() {
        let name = own_name(1_764_000_000, 17, 3);
        assert_eq!(name, "spindoctor_undo_1764000000_17_003");
        assert!(is_own_name(&name, 1_764_000_000, 17));
        for (started, holder) in [(1_764_000_001, 17), (1_764_000_000, 18)] {
            assert!(!is_own_name(&name, started, holder));
        }
        for other in [
            "undo_003",
            "innodb_undo_001",
            "spindoctor_undo_1764000000_17_3",
            "spindoctor_undo_1764000000_17_000",
            "spindoctor_undo_1764000000_17_128",
            "spindoctor_undo_1764000000_17_+03",
            "spindoctor_undo_1764000000_17_003; DROP DATABASE x",
            "SPINDOCTOR_UNDO_1764000000_17_003",
            "",
        ] {
            assert!(!is_own_name(other, 1_764_000_000, 17), "{other}");
        }
        // MySQL's limit for a name of a tablespace.
        assert!(own_name(i64::MAX, u64::MAX, MOST).len() <= 64);
    }

    #[test]
    fn the_number_is_held_to_what_innodb_takes() {
        assert_eq!(count(" 8 "), Ok(8));
        assert_eq!((count("3"), count("127")), (Ok(3), Ok(127)));
        for value in ["2", "128", "-3", "", "8.0", "all"] {
            let error = count(value).unwrap_err().to_string();
            assert!(error.contains("undo_tablespaces") && error.contains("3 to 127"), "{error}");
        }
        assert!(is_named("Undo-Tablespaces") && !is_named("innodb_undo_tablespaces"));
    }

    #[test]
    fn a_server_that_cannot_make_them_says_what_to_do_instead() {
        assert_eq!(unavailable(version("8.0.14", "MySQL")), None);
        assert_eq!(unavailable(version("9.7.0", "MySQL")), None);
        for (text, comment) in [("8.0.13", "MySQL"), ("5.7.44", "MySQL"), ("10.11.6-MariaDB", "Debian")] {
            let why = unavailable(version(text, comment)).unwrap();
            assert!(why.contains("innodb_undo_tablespaces") && why.contains("transactions"), "{why}");
        }
    }

    #[test]
    fn old_blocks_have_about_as_many_segments_as_there_were() {
        // The published case: 2 tablespaces of 128 become 127.
        assert_eq!(stand_in(256, 127), 2);
        assert_eq!(stand_in(256, 8), 32);
        assert_eq!(stand_in(2, 8), 1);
        for tablespaces in LEAST..=MOST {
            let together = f64::from(stand_in(256, tablespaces) * tablespaces);
            assert!((together / 256.0).ln().abs() <= 1.5_f64.ln(), "{tablespaces}: {together}");
        }
    }
}
