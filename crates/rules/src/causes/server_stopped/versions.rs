//! Which server wrote the data that another one refuses at its start, and the way from the one to the other.
//!
//! ```text
//! Invalid MySQL server upgrade: Cannot upgrade from 50744 to 80400. Upgrade to next major version is only allowed from the last LTS release
//! Invalid MySQL server downgrade: Cannot downgrade from 80200 to 80035. Downgrade is only permitted between patch releases.
//! Cannot boot server version 80036 on data directory built by version 80402. Downgrade is not supported
//! Unsupported redo log format. The redo log was created with MariaDB 10.11.6.
//! MySQL-8.0 tablespace in ./ibdata1
//! ```

use spindoctor_model::{LoggedTrouble, Remedy, ServerVersion, TroubleKind};

/// What is said of data of another version, where the line says of which.
pub(super) struct Refusal {
    /// The end of the headline.
    pub(super) because: String,
    pub(super) why: &'static str,
    pub(super) remedy: Remedy,
}

/// The series of MySQL that no upgrade leaves out (Reference Manual, Upgrade Paths): from 8.0 on those of long-term support.
const SERIES: [(u32, u32); 6] = [(5, 5), (5, 6), (5, 7), (8, 0), (8, 4), (9, 7)];

/// The last series whose data MariaDB takes over (MariaDB Knowledge Base, Upgrading from MySQL to MariaDB).
const LAST_OF_BOTH: (u32, u32) = (5, 7);

/// Numbers of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Release {
    /// `80036`, as MySQL writes 8.0.36 into its data dictionary.
    fn packed(word: &str) -> Option<Self> {
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        let number: u32 = digits.parse().ok().filter(|number| (50_000..1_000_000).contains(number))?;
        Some(Self { major: number / 10_000, minor: number / 100 % 100, patch: number % 100 })
    }

    /// `5.7.37`, whatever stands behind it.
    fn dotted(word: &str) -> Option<Self> {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let numbers = word[..end].split('.').filter(|number| !number.is_empty());
        let mut numbers = numbers.map(|number| number.parse::<u32>().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self { major, minor, patch: numbers.next().flatten().unwrap_or(0) })
    }

    fn series(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    fn words(self) -> String {
        format!("{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Who wrote the data.
struct Writer {
    is_mariadb: bool,
    release: Release,
    /// `MySQL 5.7.44`, `MySQL before 5.7.9`
    words: String,
}

/// What is said of a line, where it names who wrote the data; `server` is the one that was started.
pub(super) fn refusal(trouble: &LoggedTrouble, server: Option<ServerVersion>) -> Option<Refusal> {
    let line = trouble.line.as_str();
    let what = match trouble.kind {
        TroubleKind::RedoLogOfOtherVersion => "redo log",
        TroubleKind::OtherVersion => "data files",
        _ => return None,
    };
    let begin = format!("another version wrote its {what}");
    let Some(writer) = writer(line) else {
        let is_unknown = line.to_ascii_lowercase().contains("unknown redo log format");
        return is_unknown.then(|| of_unknown_format(&begin));
    };
    let is_mariadb = is_mariadb(line, server);
    if is_mariadb.is_some_and(|is_mariadb| is_mariadb != writer.is_mariadb) {
        let takes_over = is_mariadb == Some(true) && writer.release.series() <= LAST_OF_BOTH;
        return (!takes_over).then(|| of_other_product(&begin, &writer, opened_by(line, server)));
    }
    let opened_by = opened_by(line, server);
    let is_later = match opened_by {
        _ if line.contains("owngrade") || line.contains("flags in file ") => true,
        Some(opened_by) => writer.release > opened_by,
        None => line.contains("Unsupported redo log format") && !is_before(line),
    };
    if is_later {
        return Some(of_later(&begin, &writer, opened_by));
    }
    // MariaDB takes the data of each older series over.
    if writer.is_mariadb {
        return None;
    }
    // MySQL from 8.0 on takes no redo log from before 5.7.9.
    let least = Release { major: 8, minor: 0, patch: 0 };
    let target = opened_by.or_else(|| is_before(line).then_some(least))?;
    let between: Vec<(u32, u32)> = SERIES
        .into_iter()
        .filter(|series| *series > writer.release.series() && *series < target.series())
        .collect();
    let target = opened_by.map_or_else(|| "MySQL 8.0 or later".to_owned(), Release::words);
    (!between.is_empty()).then(|| of_steps(&begin, &writer, &target, &between))
}

/// True where a line names what is older than a version, and not the version.
fn is_before(line: &str) -> bool {
    line.contains("was created before ")
}

fn writer(line: &str) -> Option<Writer> {
    /// What MySQL says of its own data dictionary.
    const PACKED: [&str; 4] = [
        "Cannot upgrade from ",
        "Cannot downgrade from ",
        "data directory built by version ",
        "Upgrading the server from server version ",
    ];
    /// Other lines, whose version it is, and what stands around the version then.
    const NAMED: [(&str, bool, &str, &str); 5] = [
        ("created with MySQL ", false, "MySQL ", ""),
        ("created with MariaDB ", true, "MariaDB ", ""),
        ("created before MySQL ", false, "MySQL before ", ""),
        ("created before MariaDB ", true, "MariaDB before ", ""),
        ("A downgrade from MariaDB ", true, "MariaDB ", " or later"),
    ];
    let behind = |sign: &str| {
        let (_, rest) = line.split_once(sign)?;
        rest.split(' ').next()
    };
    if let Some(release) = PACKED.iter().find_map(|sign| Release::packed(behind(sign)?)) {
        return Some(Writer { is_mariadb: false, release, words: format!("MySQL {}", release.words()) });
    }
    // Bit 14 of a tablespace's flags says that it has a part of the dictionary of MySQL 8.0 in it (fsp0types.h).
    if line.contains("MySQL-8.0 tablespace in ") || line.contains("flags in file ") {
        let release = Release { major: 8, minor: 0, patch: 0 };
        return Some(Writer { is_mariadb: false, release, words: "MySQL 8.0 or later".to_owned() });
    }
    let named = |(sign, is_mariadb, before, after): &(&str, bool, &str, &str)| {
        let release = Release::dotted(behind(sign)?)?;
        let words = format!("{before}{}{after}", release.words());
        // The series before that of 5.7.9 is 5.6.
        let is_older = is_before(line) && release.series() == LAST_OF_BOTH;
        let release = if is_older { Release { major: 5, minor: 6, patch: 0 } } else { release };
        Some(Writer { is_mariadb: *is_mariadb, release, words })
    };
    NAMED.iter().find_map(named)
}

/// True where MariaDB was started, false where MySQL was; None where nothing says which.
fn is_mariadb(line: &str, server: Option<ServerVersion>) -> Option<bool> {
    const OF_MYSQL: [&str; 5] =
        ["[MY-", "dev.mysql.com", "Invalid MySQL server ", "Cannot boot server version ", "flags in file "];
    const OF_MARIADB: [&str; 2] = ["MySQL-8.0 tablespace in ", "A downgrade from MariaDB "];
    let has = |signs: &[&str]| signs.iter().any(|sign| line.contains(sign));
    if has(&OF_MARIADB) {
        return Some(true);
    }
    if has(&OF_MYSQL) {
        return Some(false);
    }
    server.map(ServerVersion::is_mariadb)
}

/// The server that was started, by the line or by its log.
fn opened_by(line: &str, server: Option<ServerVersion>) -> Option<Release> {
    let from = ["Cannot upgrade from ", "Cannot downgrade from "];
    let behind = from.iter().find_map(|sign| Some(line.split_once(sign)?.1.split_once(" to ")?.1));
    let behind = behind.or_else(|| Some(line.split_once("Cannot boot server version ")?.1));
    let by_line = behind.and_then(|rest| Release::packed(rest.split(' ').next()?));
    by_line.or_else(|| {
        let ServerVersion { major, minor, patch, .. } = server?;
        Some(Release { major: major.into(), minor: minor.into(), patch: patch.into() })
    })
}

/// Data of a version that the one that was started does not know yet.
fn of_later(begin: &str, writer: &Writer, opened_by: Option<Release>) -> Refusal {
    let Writer { words, .. } = writer;
    let than = opened_by.map_or_else(|| "the server that was started".to_owned(), Release::words);
    Refusal {
        because: format!("{begin}: {words}, later than {than}"),
        why: "The first start with a later version changes the dictionary, the redo log and the system tables for good: no older one reads \
              them, not even after a clean shutdown.",
        remedy: Remedy {
            statement: format!(
                "Start {words}, or a later release of it, on these data again: nothing is lost by that. Back to the older version: dump all data \
                 there and load the dump into a new data folder, or bring back the backup from before the upgrade"
            ),
            why: "The version that wrote the data reads them.".into(),
            dynamic: false,
            risk: RISK.into(),
            undo: String::new(),
        },
    }
}

/// A redo log of which the line names no writer.
fn of_unknown_format(begin: &str) -> Refusal {
    Refusal {
        because: format!("{begin}, in a format that this one does not know: it is of a later version"),
        why: "A server knows the formats of the versions before it. A later one, or MariaDB where this is MySQL, has used the data folder.",
        remedy: Remedy {
            statement: "Start the version that used this data folder last, or a later one, on it again: nothing is lost by that. Back to the older \
                        version: dump all data there and load the dump into a new data folder"
                .into(),
            why: "The version that wrote the data reads them.".into(),
            dynamic: false,
            risk: RISK.into(),
            undo: String::new(),
        },
    }
}

/// Data of MariaDB that MySQL was started on, or the other way round.
fn of_other_product(begin: &str, writer: &Writer, opened_by: Option<Release>) -> Refusal {
    let Writer { words, is_mariadb, .. } = writer;
    let product = if *is_mariadb { "MySQL" } else { "MariaDB" };
    let started =
        opened_by.map_or_else(|| product.to_owned(), |release| format!("{product} {}", release.words()));
    Refusal {
        because: format!("{begin}: {words}, whose data {product} does not take over"),
        why: "MySQL from 8.0 on and MariaDB each have a dictionary, a redo log and system tables of their own: what one wrote the other does not \
              read. Of MySQL to 5.7 MariaDB takes the data over, MySQL none of MariaDB.",
        remedy: Remedy {
            statement: format!(
                "Copy DATADIR away; start {words} on these data again; dump the schemas there, but for mysql and sys (mysqldump or mariadb-dump \
                 --databases ... --routines --events), make a new data folder with {started}, load the dump, and make the accounts by their \
                 SHOW CREATE USER and SHOW GRANTS"
            ),
            why: "A dump has statements, which both execute.".into(),
            dynamic: false,
            risk: RISK.into(),
            undo: String::new(),
        },
    }
}

/// Data that have to go through series in between.
fn of_steps(begin: &str, writer: &Writer, target: &str, between: &[(u32, u32)]) -> Refusal {
    let name = |(major, minor): &(u32, u32)| format!("{major}.{minor}");
    let through = between.iter().map(name).collect::<Vec<_>>().join(" and ");
    let steps: Vec<String> = between
        .iter()
        .map(|series| {
            let upgraded = if *series <= LAST_OF_BOTH {
                "run mysql_upgrade"
            } else {
                "wait until its log says that the server upgrade has completed"
            };
            format!("start the newest {}, {upgraded}, and shut it down in the same way", name(series))
        })
        .collect();
    let words = &writer.words;
    Refusal {
        because: format!("{begin}: {words}; on the way to {target} the data have to go through {through}"),
        why: "MySQL upgrades data of the series before it, and of none before that: 5.6 to 5.7, 5.7 to 8.0, 8.0 to 8.4, 8.4 to the 9 series. \
              Releases of a series of innovation lie between two of them.",
        remedy: Remedy {
            statement: format!(
                "Copy DATADIR away; install {words} again and start it; SET GLOBAL innodb_fast_shutdown = 0, shut it down; {}; then start {target}. \
                 Or dump all data there, and load the dump into a new data folder of {target}",
                steps.join("; ")
            ),
            why: "Each of them writes the dictionary in the form that the next one reads.".into(),
            dynamic: false,
            risk: format!(
                "{RISK} util.checkForServerUpgrade() of MySQL Shell says before each step what the next version refuses."
            ),
            undo: String::new(),
        },
    }
}

const RISK: &str = "Deleting the redo log (ib_logfile0, #innodb_redo) to get past this loses changes and leaves damaged tables.";

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: TroubleKind, line: &str, server: &str) -> Option<Refusal> {
        let trouble = LoggedTrouble { kind, times: 1, line: line.into(), ..LoggedTrouble::default() };
        refusal(&trouble, ServerVersion::parse(server, ""))
    }

    const REDO: TroubleKind = TroubleKind::RedoLogOfOtherVersion;
    const DATA: TroubleKind = TroubleKind::OtherVersion;

    #[test]
    fn an_upgrade_that_leaves_a_series_out_says_which_one_comes_between() {
        for (kind, line, server, because, step) in [
            (
                DATA,
                "Invalid MySQL server upgrade: Cannot upgrade from 50741 to 80403. Upgrade to next major version is only allowed from the last LTS \
                 release, which version 50741 is not.",
                "",
                "another version wrote its data files: MySQL 5.7.41; on the way to 8.4.3 the data have to go through 8.0",
                "start the newest 8.0, wait until",
            ),
            (
                DATA,
                "Invalid MySQL server upgrade: Cannot upgrade from 80036 to 90100.",
                "9.1.0",
                "another version wrote its data files: MySQL 8.0.36; on the way to 9.1.0 the data have to go through 8.4",
                "start the newest 8.4",
            ),
            (
                REDO,
                "[ERROR] [MY-013090] [InnoDB] Unsupported redo log format (0). The redo log was created before MySQL 5.7.9",
                "8.0.36",
                "another version wrote its redo log: MySQL before 5.7.9; on the way to 8.0.36 the data have to go through 5.7",
                "start the newest 5.7, run mysql_upgrade",
            ),
            (
                REDO,
                "[ERROR] [MY-013090] [InnoDB] Unsupported redo log format (0). The redo log was created before MySQL 5.7.9",
                "8.4.2",
                "another version wrote its redo log: MySQL before 5.7.9; on the way to 8.4.2 the data have to go through 5.7 and 8.0",
                "start the newest 8.0",
            ),
        ] {
            let refusal = said(kind, line, server).unwrap();
            assert_eq!(refusal.because, because);
            assert!(refusal.remedy.statement.contains(step), "{}", refusal.remedy.statement);
        }
    }

    #[test]
    fn data_of_a_later_version_go_back_by_a_dump() {
        for (kind, line, server, because) in [
            (
                DATA,
                "Invalid MySQL server downgrade: Cannot downgrade from 90400 to 80045. Downgrade is only permitted between patch releases.",
                "",
                "another version wrote its data files: MySQL 9.4.0, later than 8.0.45",
            ),
            (
                DATA,
                "Cannot boot server version 80036 on data directory built by version 80402. Downgrade is not supported",
                "",
                "another version wrote its data files: MySQL 8.4.2, later than 8.0.36",
            ),
            (
                REDO,
                "Unsupported redo log format. The redo log was created with MariaDB 11.4.2.",
                "10.6.18-MariaDB",
                "another version wrote its redo log: MariaDB 11.4.2, later than 10.6.18",
            ),
            (
                REDO,
                "Unsupported redo log format. The redo log was created with MariaDB 11.4.2.",
                "",
                "another version wrote its redo log: MariaDB 11.4.2, later than the server that was started",
            ),
            (
                DATA,
                "[FATAL] InnoDB: Table flags are 0 in the data dictionary but the flags in file ./ibdata1 are 0x4800!",
                "5.7.44",
                "another version wrote its data files: MySQL 8.0 or later, later than 5.7.44",
            ),
            (
                REDO,
                "Downgrade after a crash is not supported. The redo log was created with MariaDB 10.4.17.",
                "",
                "another version wrote its redo log: MariaDB 10.4.17, later than the server that was started",
            ),
        ] {
            let refusal = said(kind, line, server).unwrap();
            assert_eq!(refusal.because, because);
            assert!(refusal.remedy.statement.contains("dump all data"), "{}", refusal.remedy.statement);
        }
        let unknown =
            said(REDO, "[MY-012530] [InnoDB] Unknown redo log format (6). Please follow", "8.0.30").unwrap();
        assert!(unknown.because.ends_with("it is of a later version"), "{}", unknown.because);
    }

    #[test]
    fn data_of_mariadb_and_of_mysql_are_not_taken_over_but_by_mariadb_to_5_7() {
        for (kind, line, server, because) in [
            (
                DATA,
                "MySQL-8.0 tablespace in ./ibdata1",
                "",
                "another version wrote its data files: MySQL 8.0 or later, whose data MariaDB does not take over",
            ),
            (
                REDO,
                "Unsupported redo log format. The redo log was created with MariaDB 10.11.8. Please follow the instructions at \
                 http://dev.mysql.com/doc/refman/5.7/en/upgrading-downgrading.html",
                "5.7.44",
                "another version wrote its redo log: MariaDB 10.11.8, whose data MySQL does not take over",
            ),
            (
                REDO,
                "Unsupported redo log format. The redo log was created with MySQL 8.0.36.",
                "10.11.8-MariaDB",
                "another version wrote its redo log: MySQL 8.0.36, whose data MariaDB does not take over",
            ),
        ] {
            let refusal = said(kind, line, server).unwrap();
            assert_eq!(refusal.because, because);
            assert!(refusal.remedy.statement.contains("SHOW GRANTS"), "{}", refusal.remedy.statement);
        }
        let line = "Upgrade after a crash is not supported. The redo log was created with MySQL 5.7.37.";
        assert!(said(REDO, line, "10.6.18-MariaDB").is_none());
    }

    #[test]
    fn what_a_clean_shutdown_cures_and_what_names_no_version_is_left_as_it_is() {
        for (kind, line, server) in [
            (
                REDO,
                "Upgrade after a crash is not supported. The redo log was created with MariaDB 10.4.12.",
                "10.5.8-MariaDB",
            ),
            (
                REDO,
                "Upgrade is not supported after a crash. This redo log was created with MySQL 5.7.37, and",
                "8.0.36",
            ),
            (DATA, "Upgrading the data dictionary from dictionary version '1' is not supported.", "8.0.36"),
            (DATA, "Execution of server-side SQL statement 'ALTER TABLE a' failed", "8.0.36"),
            (REDO, "a line", ""),
            (TroubleKind::NotStarted, "Cannot upgrade from 50741 to 80403", ""),
        ] {
            assert!(said(kind, line, server).is_none(), "{line}");
        }
    }
}
