//! What a server says when it does not start: the beginnings of its messages, with a time and a level before them or without.

use std::borrow::Cow;

use spindoctor_model::TroubleKind;

use crate::log_lines::{behind_level, is_warning};
use crate::log_troubles::REDO_UNUSABLE;

/// What these lines mean, each kind in a sentence.
const OPTION: &str = "the server does not start: it does not know an option, or the value of one";
pub(crate) const IN_USE: &str = "the server does not start: another server has its data files open";
pub(crate) const NO_LOCKS: &str = "the server does not start: the file system of its data gives no locks (error 37, as NFS whose lock service is not \
                                   reached): NFS 4, a local disk, or the lock service of both hosts";
const ADDRESS: &str = "the server does not start: it cannot listen on its address";
const FILE: &str = "the server could not open a file that it needs";
const TABLES: &str = "the server does not start: the tables with its accounts are not in its data folder";
const VERSION: &str = "the server does not start: another version wrote its data files";
const REDO_VERSION: &str = "the server does not start: another version wrote its redo log, and was not shut down cleanly: start that version once, \
                            shut it down with innodb_fast_shutdown = 0, then start the new one. Without the redo log changes are lost";
const REDO_UNKNOWN: &str = "the server does not start: another version wrote its redo log, in a format that it does not know: a later version, the \
                            other one of MySQL and MariaDB, or one so old that a version between the two has to bring the data over";
const UPGRADE: &str = "the server does not start: a step of the upgrade of its system tables failed, and the line says which. Bring back the copy \
                       from before the upgrade and mend there what it names, or go to the next version of the series";
const LETTERS: &str =
    "the server does not start: its data were made with another value of lower_case_table_names";
const NOT_EMPTY: &str = "the server makes no new data: the folder for them is not empty";
const TABLE_FILE: &str = "the server does not start: it has changes to recover of a table whose file it does not find or cannot open. Bring the \
                          file back; where the table can be lost, innodb_force_recovery = 1 starts without it";
const NOT_STARTED: &str = "the server ended at its start";
const INNODB_ENDED: &str = "InnoDB ended the server because of the error above that";
const COORDINATOR: &str = "the server does not start: transactions are prepared in InnoDB, and the log that says whether they were committed \
                           (the last binary log, or tc.log) is gone or damaged: start it once with --tc-heuristic-recover=ROLLBACK (COMMIT \
                           where replicas or other nodes have them), after tc.log was moved away";
const ARIA: &str = "the server does not start: the log of its Aria tables, the accounts among them, could not be applied: copy the data \
                    folder away, then aria_chk -r on mysql/*.MAI and move aria_log.* away";

/// Stands for what a client program says of an option: no server is at fault.
const OF_CLIENT: &str = "an option of a client program";
const CLIENT: &str = "a client program did not start: it does not know an option of its command line, or of [client] or its own group in an \
                      option file";

/// The last word of a server that ends at its start. Other programs say it, too, without a level.
const ABORTING: &str = "Aborting";

/// How messages about an option begin (mysys/errors.cc, mysys/my_default.cc, mysys/my_getopt.cc).
const OPTIONS: [&str; 7] = [
    "unknown variable '",
    "unknown option '",
    "ambiguous option '",
    "Unknown suffix '",
    "Error while setting value '",
    "Found option without preceding group in config file",
    "Fatal error in defaults handling",
];

/// How a message begins, what else it has, what that means, and the trouble that causes rest on. The first that fits counts.
type Start = (&'static str, &'static str, &'static str, Option<TroubleKind>);

/// The messages, of sql/mysqld.cc, sql/dd, sql/bootstrap.cc and storage/innobase of MySQL and MariaDB, storage/maria of the latter.
const STARTS: [Start; 82] = [
    (OF_CLIENT, "", CLIENT, None),
    (OPTIONS[0], "", OPTION, Some(TroubleKind::OptionRefused)),
    (OPTIONS[1], "", OPTION, Some(TroubleKind::OptionRefused)),
    (OPTIONS[2], "", OPTION, Some(TroubleKind::OptionRefused)),
    (OPTIONS[3], " used for variable '", OPTION, Some(TroubleKind::OptionRefused)),
    (OPTIONS[4], "", OPTION, Some(TroubleKind::OptionRefused)),
    (OPTIONS[5], "", OPTION, Some(TroubleKind::OptionRefused)),
    (OPTIONS[6], "", OPTION, Some(TroubleKind::OptionRefused)),
    // ENOLCK
    ("Unable to lock ./", "rror: 37", NO_LOCKS, Some(TroubleKind::FileRefused)),
    ("Can't lock aria control file ", "rror: 37", NO_LOCKS, Some(TroubleKind::FileRefused)),
    ("Unable to lock ./", "", IN_USE, Some(TroubleKind::FilesInUse)),
    ("Unable to lock /", "rror: 11", IN_USE, Some(TroubleKind::FilesInUse)),
    ("Check that you do not already have another ", "", IN_USE, Some(TroubleKind::FilesInUse)),
    ("Can't lock aria control file ", "", IN_USE, Some(TroubleKind::FilesInUse)),
    // Below that line, after 30 seconds.
    ("Got error '", "in use by another process", IN_USE, Some(TroubleKind::FilesInUse)),
    ("Can't start server: can't create PID file", "", FILE, Some(TroubleKind::FileRefused)),
    ("Can't start server", "", ADDRESS, Some(TroubleKind::AddressRefused)),
    // Of the X protocol, without which a server goes on, it is a warning in other words.
    ("Do you already have another ", " server running on ", ADDRESS, Some(TroubleKind::AddressRefused)),
    ("Another process with pid ", " is using unix socket file", ADDRESS, Some(TroubleKind::AddressRefused)),
    ("Could not open file '", " for error logging", FILE, Some(TroubleKind::FileRefused)),
    ("The innodb_system data file '", "must be writable", FILE, Some(TroubleKind::FileRefused)),
    ("The system tablespace must be writable", "", FILE, Some(TroubleKind::FileRefused)),
    ("Operating system error number 13 ", "", FILE, Some(TroubleKind::FileRefused)),
    ("Can't change dir to '", "", FILE, Some(TroubleKind::FileRefused)),
    ("File '", "rrcode: 13", FILE, Some(TroubleKind::FileRefused)),
    ("File '", "errno 13", FILE, Some(TroubleKind::FileRefused)),
    ("Can't create/write to file '", "rrcode: 13", FILE, Some(TroubleKind::FileRefused)),
    ("Can't create/write to file '", "errno 13", FILE, Some(TroubleKind::FileRefused)),
    // To MySQL 5.6, and from 5.7 on.
    (
        "Error: could not open single-table tablespace file ",
        "",
        TABLE_FILE,
        Some(TroubleKind::TableFileMissing),
    ),
    ("Tablespace ", " was not found at ", TABLE_FILE, Some(TroubleKind::TableFileMissing)),
    ("Can't open and lock privilege tables", "", TABLES, Some(TroubleKind::SystemTablesMissing)),
    ("Table 'mysql.", " doesn't exist", TABLES, Some(TroubleKind::SystemTablesMissing)),
    ("Could not open the mysql.plugin table", "", TABLES, Some(TroubleKind::SystemTablesMissing)),
    // To MySQL 5.7.
    ("Can't open the mysql.plugin table", "", TABLES, Some(TroubleKind::SystemTablesMissing)),
    // MariaDB from 10.3 on; without the table's engine it is another line's matter.
    ("Could not open mysql.plugin table", " doesn't exist", TABLES, Some(TroubleKind::SystemTablesMissing)),
    ("Failed to find valid data directory", "", TABLES, Some(TroubleKind::SystemTablesMissing)),
    ("Unsupported redo log format", "", REDO_UNKNOWN, Some(TroubleKind::RedoLogOfOtherVersion)),
    ("Unknown redo log format", "", REDO_UNKNOWN, Some(TroubleKind::RedoLogOfOtherVersion)),
    // MariaDB 10.3 and 10.1
    ("Downgrade after a crash is not supported", "", REDO_UNKNOWN, Some(TroubleKind::RedoLogOfOtherVersion)),
    (
        "A downgrade from MariaDB ",
        " is not supported",
        REDO_UNKNOWN,
        Some(TroubleKind::RedoLogOfOtherVersion),
    ),
    ("MySQL-8.0 tablespace in ", "", VERSION, Some(TroubleKind::OtherVersion)),
    // Bit 14 of the flags is MySQL 8.0's.
    (
        "Table flags are 0 in the data dictionary",
        "./ibdata1 are 0x4",
        VERSION,
        Some(TroubleKind::OtherVersion),
    ),
    ("Cannot boot server version ", "", VERSION, Some(TroubleKind::OtherVersion)),
    ("Upgrade after a crash is not supported", "", REDO_VERSION, Some(TroubleKind::RedoLogOfOtherVersion)),
    ("Upgrade is not supported after a crash", "", REDO_VERSION, Some(TroubleKind::RedoLogOfOtherVersion)),
    ("Missing redo log file ", "", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("Only one log file found", "", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("No valid checkpoint found", "", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("Invalid log header checksum", "", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("Log file ", " is not a multiple of ", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("File ./ib_logfile0 was not found", "", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("############### CORRUPT LOG RECORD FOUND", "", REDO_UNUSABLE, Some(TroubleKind::RedoLogUnusable)),
    ("Invalid MySQL server ", "grade", VERSION, Some(TroubleKind::OtherVersion)),
    ("Upgrading the data dictionary from ", " is not supported", VERSION, Some(TroubleKind::OtherVersion)),
    ("Upgrading the server from ", " is not supported", VERSION, Some(TroubleKind::OtherVersion)),
    ("Server upgrade started with version ", " still pending", VERSION, Some(TroubleKind::OtherVersion)),
    // The statement may have several lines, and the error stands in the last.
    ("Execution of server-side SQL statement '", "", UPGRADE, Some(TroubleKind::OtherVersion)),
    ("Different lower_case_table_names settings", "", LETTERS, Some(TroubleKind::OtherLetterCase)),
    (
        "--initialize specified but the data directory",
        "is not writable",
        FILE,
        Some(TroubleKind::FileRefused),
    ),
    ("--initialize specified but the data directory", "", NOT_EMPTY, Some(TroubleKind::FolderNotEmpty)),
    ("Plugin 'InnoDB' init function returned error", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Plugin 'InnoDB' registration as a STORAGE ENGINE", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Unknown/unsupported storage engine", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Failed to initialize plugins", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Failed to initialize builtin plugins", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Failed to initialize dynamic plugins", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Failed to initialize DD Storage Engine", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Data Dictionary initialization failed", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Plugin initialization aborted", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Database creation was aborted", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Could not open or create the system tablespace", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Plugin 'Aria' init function returned error", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Plugin 'Aria' registration as a STORAGE ENGINE", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Can't init tc log", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Unable to create the shared innodb_", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("The privilege system failed to initialize", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("DDL_LOG: Failed to create ddl log file", "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Server exits.", "", INNODB_ENDED, None),
    (ABORTING, "", NOT_STARTED, Some(TroubleKind::NotStarted)),
    ("Aria recovery failed", "", ARIA, Some(TroubleKind::AriaDamaged)),
    ("Crash recovery failed. Either correct ", "", COORDINATOR, Some(TroubleKind::CoordinatorUnsure)),
    ("Found ", " prepared transactions! It means ", COORDINATOR, Some(TroubleKind::CoordinatorUnsure)),
];

/// How many messages there are.
pub(crate) const COUNT: usize = STARTS.len();

/// What each of them means, and the trouble that causes rest on, in order.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, Option<TroubleKind>)> {
    STARTS.into_iter().map(|(.., meaning, kind)| (meaning, kind))
}

/// Which of them a line is.
pub(crate) fn entry(line: &str) -> Option<usize> {
    let words = words(line);
    let is_option = OPTIONS.iter().any(|begin| words.starts_with(begin));
    // With loose_ before its name an option that a server does not know is a warning, and the server goes on.
    if is_option && is_warning(line) {
        return None;
    }
    STARTS.iter().position(|(begin, then, ..)| match *begin {
        OF_CLIENT => is_option && program(line).is_some_and(|(name, _)| !SERVERS.contains(&name)),
        ABORTING => words.trim_end_matches(AROUND) == ABORTING && words.len() < line.len(),
        begin => words.starts_with(begin) && words.contains(*then),
    })
}

/// True for such a line, whether or not a time and a level stand before it.
pub(crate) fn is_of_start(line: &str) -> bool {
    entry(line).is_some_and(|at| STARTS[at].0 != ABORTING)
}

/// The programs that are a server.
const SERVERS: [&str; 3] = ["mysqld", "mariadbd", "mysqld-debug"];

/// What a person puts around a line.
const AROUND: [char; 7] = [' ', '\t', '`', '"', '>', '|', '*'];

/// The program that a line names first, and what it says: `mysqld` of `/usr/sbin/mysqld: Can't change dir to '/d/'`.
fn program(line: &str) -> Option<(&str, &str)> {
    let (path, rest) = line.trim_start_matches(AROUND).split_once(": ")?;
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let is_name = ["mysql", "mariadb"].iter().any(|begin| name.starts_with(begin))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    is_name.then_some((name, rest))
}

/// What a line says, without the time, the level, the number, the part of the server and the program that stand before it.
fn words(line: &str) -> &str {
    const PARTS: [&str; 6] = ["[ERROR] ", "[FATAL] ", "[Server] ", "[InnoDB] ", "InnoDB: ", "Fatal error: "];
    /// `171010 12:00:00  InnoDB: `, as before MySQL 5.7.
    const OLD: &str = "  InnoDB: ";
    let old = || line.split_once(OLD).filter(|(time, _)| time.len() <= OLD_TIME).map(|(_, rest)| rest);
    let mut words = behind_level(line).or_else(old).unwrap_or_else(|| line.trim_start_matches(AROUND));
    loop {
        let part = PARTS.iter().find_map(|part| words.strip_prefix(part));
        let number = || words.strip_prefix("[MY-")?.split_once("] ").map(|(_, rest)| rest);
        // `error: ` alone is of any program.
        let option = || words.strip_prefix("error: ").filter(|rest| rest.starts_with(OPTIONS[5]));
        let named = || program(words).map(|(_, rest)| rest);
        match part.or_else(number).or_else(option).or_else(|| for_client(words)).or_else(named) {
            Some(rest) => words = rest.trim_start(),
            None => return words,
        }
    }
}

/// `171010 12:00:00`, and in MySQL 5.6 `2017-10-10 12:00:00 0x7fa5a53e1720`, bytes.
const OLD_TIME: usize = 38;

/// What stands behind the number of an error that MySQL 8 would have sent to a client, and writes into its log because there is none:
/// `A message intended for a client cannot be sent there ... to the error-log instead: MY-001146 - Table 'mysql.component' doesn't exist`.
fn for_client(words: &str) -> Option<&str> {
    const BEGINS: &str = "A message intended for a client cannot be sent there";
    let (_, rest) = words.strip_prefix(BEGINS)?.split_once(" instead: MY-")?;
    rest.split_once(" - ").map(|(_, message)| message)
}

/// A line without the value of the option that it quotes, which may be a password.
pub(crate) fn without_value(line: &str) -> Cow<'_, str> {
    let quoted =
        line.split_once(OPTIONS[0]).and_then(|(before, option)| Some((before, option.split_once('=')?.0)));
    match quoted {
        Some((before, name)) => Cow::Owned(format!("{before}{}{name}=...'", OPTIONS[0])),
        None => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests;
