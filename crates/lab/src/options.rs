//! Options of the server's own, as its version knows them: specs are written for the newest MySQL.
//!
//! An option with the prefix `--loose-` is passed on as it is: the server leaves out what it does not know.

use spindoctor_model::ServerVersion;

use crate::error::{Error, Result};

/// What an older server, or MariaDB, has for an option.
enum Otherwise {
    /// The same value under another name.
    Named(&'static str),
    /// Nothing, where it is set to this value: the server does that anyway.
    Usual(&'static str),
    /// Nothing: it only keeps the server small or quick.
    Without,
    /// These options.
    Options(&'static [&'static str]),
    /// Two files of half the size: `innodb_log_files_in_group` is 2.
    RedoLogFiles,
    /// Not known, which is left to the server to say.
    Unknown,
}
use Otherwise::{Named, Options, RedoLogFiles, Unknown, Usual, Without};

/// An option that not every server has.
struct Dated {
    name: &'static str,
    /// The first MySQL that has it (its release notes and manual).
    mysql: (u16, u16, u16),
    before: Otherwise,
    /// The first MariaDB that has it; none where none does.
    mariadb: Option<(u16, u16, u16)>,
    mariadb_before: Otherwise,
}

const NEVER: Option<(u16, u16, u16)> = None;
const ALWAYS: Option<(u16, u16, u16)> = Some((0, 0, 0));

const DATED: &[Dated] = &[
    dated("innodb-redo-log-capacity", (8, 0, 30), RedoLogFiles, NEVER, RedoLogFiles),
    dated("innodb-log-writer-threads", (8, 0, 22), Usual("OFF"), NEVER, Unknown),
    dated("innodb-spin-wait-pause-multiplier", (8, 0, 16), Usual("50"), NEVER, Unknown),
    dated("innodb-buffer-pool-load-at-startup", (5, 6, 3), Usual("OFF"), Some((10, 0, 0)), Usual("OFF")),
    dated("innodb-adaptive-max-sleep-delay", (5, 6, 3), Usual("0"), NEVER, Unknown),
    dated("performance-schema-instrument", (5, 6, 3), Without, Some((10, 0, 0)), Without),
    dated(
        "binlog-expire-logs-seconds",
        (8, 0, 1),
        Options(&["--expire-logs-days=1"]),
        Some((10, 6, 1)),
        Options(&["--expire-logs-days=1"]),
    ),
    dated("replica-parallel-workers", (8, 0, 26), Named("slave-parallel-workers"), NEVER, Unknown),
    dated(
        "replica-preserve-commit-order",
        (8, 0, 26),
        // Both are needed for it, and usual from 8.0.27 on.
        Options(&[
            "--slave-preserve-commit-order=ON",
            "--slave-parallel-type=LOGICAL_CLOCK",
            "--log-bin=binlog",
            "--log-slave-updates",
        ]),
        NEVER,
        Unknown,
    ),
    dated("rpl-semi-sync-source-enabled", (8, 0, 26), Named("rpl-semi-sync-master-enabled"), NEVER, Unknown),
    dated("rpl-semi-sync-source-timeout", (8, 0, 26), Named("rpl-semi-sync-master-timeout"), NEVER, Unknown),
    dated(
        "rpl-semi-sync-source-wait-no-replica",
        (8, 0, 26),
        Named("rpl-semi-sync-master-wait-no-slave"),
        NEVER,
        Unknown,
    ),
    dated(
        "plugin-load-add=rpl_semi_sync_source",
        (8, 0, 26),
        Options(&["--plugin-load-add=rpl_semi_sync_master=semisync_master.so"]),
        ALWAYS,
        Unknown,
    ),
    // Built in from 10.3.3 on.
    dated(
        "rpl-semi-sync-master-enabled",
        (5, 5, 0),
        Unknown,
        Some((10, 3, 3)),
        Options(&["--plugin-load-add=semisync_master.so", "--rpl-semi-sync-master-enabled=1"]),
    ),
];

const fn dated(
    name: &'static str,
    mysql: (u16, u16, u16),
    before: Otherwise,
    mariadb: Option<(u16, u16, u16)>,
    mariadb_before: Otherwise,
) -> Dated {
    Dated { name, mysql, before, mariadb, mariadb_before }
}

/// The options for this server.
pub(crate) fn of_version(options: &[String], version: ServerVersion) -> Result<Vec<String>> {
    options.iter().try_fold(Vec::new(), |mut all, option| {
        all.extend(one(option, version)?);
        Ok(all)
    })
}

fn one(option: &str, version: ServerVersion) -> Result<Vec<String>> {
    let as_it_is = || Ok(vec![option.to_owned()]);
    let Some((dated, value)) = find(option) else { return as_it_is() };
    let (has_it, otherwise) = match version.is_mariadb() {
        true => {
            let from = dated.mariadb;
            (from.is_some_and(|(a, b, c)| version.mariadb_at_least(a, b, c)), &dated.mariadb_before)
        }
        false => {
            let (a, b, c) = dated.mysql;
            (version.mysql_at_least(a, b, c), &dated.before)
        }
    };
    if has_it {
        return as_it_is();
    }
    match otherwise {
        Named(name) => Ok(vec![format!("--{name}={value}")]),
        Without => Ok(Vec::new()),
        Usual(usual) if *usual == value => Ok(Vec::new()),
        Usual(usual) => Err(Error::NoOption {
            option: option.to_owned(),
            version,
            because: format!("it has no such setting, and works as with {usual}"),
        }),
        Options(options) => Ok(options.iter().map(|&option| option.to_owned()).collect()),
        // MariaDB has one file from 10.5 on.
        RedoLogFiles if version.mariadb_at_least(10, 5, 0) => {
            Ok(vec![log_file_size(option, value, version, 1)?])
        }
        RedoLogFiles => Ok(vec![log_file_size(option, value, version, 2)?]),
        Unknown => as_it_is(),
    }
}

/// The entry of an option, and its value; one whose name has a value in it is for that alone.
fn find(option: &str) -> Option<(&'static Dated, &str)> {
    let text = option.strip_prefix("--")?;
    DATED.iter().find_map(|dated| {
        let value = text.strip_prefix(dated.name)?.strip_prefix('=')?;
        Some((dated, value))
    })
}

/// `--innodb-log-file-size` for so many files that hold `4M` or `1G` together.
fn log_file_size(option: &str, value: &str, version: ServerVersion, files: u64) -> Result<String> {
    let unit = |letter: char| match letter {
        'K' => Some(1_u64 << 10),
        'M' => Some(1 << 20),
        'G' => Some(1 << 30),
        _ => None,
    };
    let (digits, unit) = match value.chars().last().and_then(unit) {
        Some(unit) => (&value[..value.len() - 1], unit),
        None => (value, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    let bytes = bytes.ok_or_else(|| Error::NoOption {
        option: option.to_owned(),
        version,
        because: "it is no size: 8M, 1G".to_owned(),
    })?;
    Ok(format!("--innodb-log-file-size={}", bytes / files))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started_with(option: &str, version: &str) -> Result<String> {
        let version = ServerVersion::parse(version, "").unwrap();
        of_version(&[option.to_owned()], version).map(|options| options.join(" "))
    }

    #[test]
    fn an_option_is_what_the_version_knows_of_it() {
        for (option, version, expected) in [
            ("--innodb-redo-log-capacity=8M", "8.0.30", "--innodb-redo-log-capacity=8M"),
            ("--innodb-redo-log-capacity=8M", "8.0.29", "--innodb-log-file-size=4194304"),
            ("--innodb-redo-log-capacity=1G", "10.5.23-MariaDB", "--innodb-log-file-size=1073741824"),
            ("--innodb-redo-log-capacity=1G", "10.2.11-MariaDB", "--innodb-log-file-size=536870912"),
            ("--loose-innodb-redo-log-capacity=8M", "5.7.22", "--loose-innodb-redo-log-capacity=8M"),
            ("--innodb-log-writer-threads=OFF", "5.7.22", ""),
            ("--replica-parallel-workers=4", "8.0.25", "--slave-parallel-workers=4"),
            (
                "--plugin-load-add=rpl_semi_sync_source=semisync_source.so",
                "5.7.22",
                "--plugin-load-add=rpl_semi_sync_master=semisync_master.so",
            ),
            ("--rpl-semi-sync-master-enabled=1", "10.11.2-MariaDB", "--rpl-semi-sync-master-enabled=1"),
            ("--binlog-expire-logs-seconds=1", "10.5.23-MariaDB", "--expire-logs-days=1"),
            ("--innodb-redo-log-capacity-of-others=1", "5.7.22", "--innodb-redo-log-capacity-of-others=1"),
            ("--log-bin", "5.7.22", "--log-bin"),
        ] {
            assert_eq!(started_with(option, version).unwrap(), expected, "{option} on {version}");
        }
    }

    #[test]
    fn what_a_version_cannot_do_is_refused_and_not_left_out() {
        let refused = started_with("--innodb-log-writer-threads=ON", "5.7.22").unwrap_err().to_string();
        assert!(refused.contains("MySQL 5.7.22") && refused.contains("log-writer-threads"), "{refused}");
        assert!(started_with("--innodb-redo-log-capacity=much", "5.7.22").is_err());
        assert!(started_with("--innodb-redo-log-capacity=99999999999G", "5.7.22").is_err());
    }
}
