//! Errors that programs beside a server print: its clients and tools, those that make backups, mysqlcheck, garbd, and the scripts that
//! transfer the state of a Galera cluster.
//!
//! ```text
//! mysqldump: Got error: 1044: "Access denied for user 'a'@'%' to database 'b'" when selecting the database
//! xtrabackup: error: log block numbers mismatch:
//! [00] FATAL ERROR: 2024-03-04 10:11:12 Failed to connect to MariaDB server: ...
//! error    : Corrupt
//! WSREP_SST: [ERROR] Removing /data/.sst/xtrabackup_galera_info file due to signal (20240304 10:11:12.345)
//! 2024-03-04 10:11:12.345 FATAL: Garbd exiting with error: ...
//! ```

/// What mysqlcheck and mysql_upgrade print before what is wrong with a table (client/check/mysqlcheck.c).
const ERROR_OF_CHECK: &str = "error    : ";
const WARNING_OF_CHECK: &str = "warning  : ";
/// What mariabackup and xtrabackup print before the time of their last line (extra/mariabackup/common.h).
const FATAL: &str = "FATAL ERROR: ";
const OF_SCRIPT: &str = "WSREP_SST: [ERROR] ";
const BY_SCRIPT: &str = "WSREP_SST: [";
/// What mariadb-operator writes into its log, in JSON, where it finds no node that a cluster can be started from.
pub(crate) const OF_OPERATOR: &str = "error recovering cluster: ";
const OF_ARBITRATOR: &str = "FATAL: Garbd exiting with error: ";

/// The words of such an error; None for other lines.
pub(crate) fn words(line: &str) -> Option<&str> {
    let words = of_check(line, ERROR_OF_CHECK)
        .or_else(|| of_backup(line))
        .or_else(|| of_program(line))
        .or_else(|| {
            let signs = [OF_SCRIPT, OF_ARBITRATOR];
            signs.iter().find_map(|sign| line.split_once(sign).map(|(_, words)| words))
        });
    words.map(str::trim).filter(|words| !words.is_empty())
}

/// True for such a line, for a warning of mysqlcheck, and for what the scripts say beside their errors.
pub(crate) fn is_line(line: &str) -> bool {
    words(line).is_some()
        || line.starts_with(BY_SCRIPT)
        || line.contains(OF_OPERATOR)
        || of_check(line, WARNING_OF_CHECK).is_some()
}

/// The table that mysqlcheck's last error in a text is of: its name stands alone in a line above that.
///
/// ```text
/// shop.stock
/// warning  : Table is marked as crashed
/// error    : Corrupt
/// ```
pub(crate) fn table_checked(text: &str) -> Option<&str> {
    let (mut table, mut of_last) = (None, None);
    for line in text.lines() {
        if of_check(line, ERROR_OF_CHECK).is_some() {
            of_last = table;
        } else if is_name_of_table(line) {
            table = Some(line.trim());
        }
    }
    of_last
}

/// True where what mysqlcheck says of a table begins: with its name.
pub(crate) fn begins_check(lines: &[&str], at: usize) -> bool {
    let is_of_check =
        |line: &&str| [ERROR_OF_CHECK, WARNING_OF_CHECK].iter().any(|sign| of_check(line, sign).is_some());
    is_name_of_table(lines[at]) && lines.get(at + 1).is_some_and(is_of_check)
}

/// True for a line with the name of a table and of its schema, and nothing else.
fn is_name_of_table(line: &str) -> bool {
    /// Bytes of two names of 64 characters each, in letters of up to four bytes.
    const LONGEST: usize = 600;
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_$-".contains(letter))
    };
    line.len() <= LONGEST
        && line.trim().split_once('.').is_some_and(|(schema, table)| is_name(schema) && is_name(table))
}

/// What stands behind one of mysqlcheck's signs, in any letters.
fn of_check<'l>(line: &'l str, sign: &str) -> Option<&'l str> {
    let (begin, rest) = line.split_at_checked(sign.len())?;
    begin.eq_ignore_ascii_case(sign).then_some(rest)
}

/// What stands behind `FATAL ERROR: ` and the time.
fn of_backup(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(FATAL)?;
    let mut parts = rest.splitn(3, ' ');
    let (date, clock) = (parts.next()?, parts.next()?);
    let is_time = |text: &str, mark: char| text.len() >= 8 && text.matches(mark).count() == 2;
    parts.next().filter(|_| is_time(date, '-') && is_time(clock, ':'))
}

/// What stands behind the name of a program of a server's, where it says that it is an error.
fn of_program(line: &str) -> Option<&str> {
    const PROGRAMS: [&str; 7] =
        ["mysql", "mariadb", "xtrabackup", "mariabackup", "innobackupex", "xbstream", "mbstream"];
    const SERVERS: [&str; 2] = ["mysqld", "mariadbd"];
    const BEGINS: [&str; 5] =
        ["Got error: ", "error: ", "Error: ", "Couldn't execute ", "Can't create/write to file "];
    let (before, words) = line.split_once(": ")?;
    let name = before.rsplit(['/', ' ', '|', '`', '"']).next().unwrap_or(before);
    let is_name = PROGRAMS.iter().any(|program| name.starts_with(program))
        && !SERVERS.contains(&name)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let has_number =
        words.strip_prefix("Error ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (is_name && (has_number || BEGINS.iter().any(|begin| words.starts_with(begin)))).then_some(words)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{LoggedTrouble, TroubleKind};

    use super::*;
    use crate::error_log::read;
    use crate::log_lines::is_of_log;

    #[test]
    fn errors_of_programs_beside_a_server_are_lines_of_a_log() {
        for (line, wanted) in [
            ("mysqldump: Got error: 1016: \"Can't open file\"", "Got error: 1016: \"Can't open file\""),
            ("backup-1 | mariadb-dump: Error 1146: no table", "Error 1146: no table"),
            (
                "/usr/bin/mysqldump: Couldn't execute 'SHOW FIELDS FROM `v`'",
                "Couldn't execute 'SHOW FIELDS FROM `v`'",
            ),
            ("xtrabackup: error: log block numbers mismatch:", "error: log block numbers mismatch:"),
            (
                "mbstream: Can't create/write to file '/b/xtrabackup_info' (Errcode: 17 \"File exists\")",
                "Can't create/write to file '/b/xtrabackup_info' (Errcode: 17 \"File exists\")",
            ),
            ("[00] FATAL ERROR: 2024-03-04 10:11:12 failed to open a file", "failed to open a file"),
            ("error    : Corrupt", "Corrupt"),
            ("Error    : Table 'a.b' doesn't exist in engine", "Table 'a.b' doesn't exist in engine"),
            ("WSREP_SST: [ERROR] no socat (20240304 10:11:12.345)", "no socat (20240304 10:11:12.345)"),
            ("2024-03-04 10:11:12.3 FATAL: Garbd exiting with error: no group", "no group"),
        ] {
            assert_eq!(words(line), Some(wanted), "{line}");
            assert!(is_of_log(line), "{line}");
        }
        for line in [
            "mysql: [Warning] Using a password on the command line interface can be insecure.",
            "app: Error 500: no answer",
            "mysqld: Error on close of a file",
            "shop.orders                                        OK",
            "FATAL ERROR: nobody is here",
            "my mysql server prints: error: x",
        ] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn an_error_of_mysqlcheck_is_of_the_table_that_is_named_last_above_it() {
        let of_two = "shop.orders\nerror    : Corrupt\nshop.stock\nerror    : Size of datafile is: 7\nerror    : Corrupt\nshop.last\n";
        assert_eq!(table_checked(of_two), Some("shop.stock"));
        assert_eq!(table_checked("error    : Corrupt\nshop.stock\n"), None);
        let parts = crate::recognise("check.txt", "We ran it.\nshop.stock\nerror    : Corrupt\n");
        let logs: Vec<_> = parts.iter().filter(|part| part.kind == crate::Kind::ErrorLog).collect();
        assert!(logs.len() == 1 && logs[0].lines == 2, "{parts:#?}");
        for line in ["shop.stock   OK", "stock", "a.b.c", ".b", "a.", "", "see db1/a.b", "Repairing tables"] {
            assert!(!is_name_of_table(line), "{line}");
        }
        assert!(is_name_of_table("shop.stock ") && is_name_of_table("läden.vorräte"));
    }

    #[test]
    fn what_a_check_and_a_backup_found_is_said() {
        let check = read("shop.stock\nwarning  : Table is marked as crashed\nerror    : Corrupt\n");
        assert_eq!(check.says, ["a table is marked as crashed"]);
        let of_table = |trouble: &LoggedTrouble| (trouble.kind, trouble.detail.clone());
        let named = [(TroubleKind::TableCrashed, "shop.stock".to_owned())];
        assert_eq!(check.troubles.iter().map(of_table).collect::<Vec<_>>(), named);
        let mended = read("shop.stock\nwarning  : Table is marked as crashed\nstatus   : OK\n");
        assert_eq!(
            (mended.says, mended.troubles),
            (vec!["a table is marked as crashed".to_owned()], Vec::new())
        );
        let script = "WSREP_SST: [INFO] Proceeding with the transfer (20240304 10:11:12.345)";
        assert!(is_line(script) && words(script).is_none());
        let operator = r#"{"level":"error","error":"error reconciling Galera: error recovering cluster: status not completed"}"#;
        assert!(is_of_log(operator));
        let says = read(operator).says;
        assert!(says.len() == 1 && says[0].starts_with("the operator found no node"), "{says:?}");
        let backup = read(
            "xtrabackup: error: log block numbers mismatch:\nxtrabackup: error: it looks like InnoDB log has wrapped around before xtrabackup \
             could process all records\nxtrabackup: Error: xtrabackup_copy_logfile() failed.\n",
        );
        assert!(backup.says[0].starts_with("a backup read the redo log too slowly"), "{:?}", backup.says);
        assert!(!backup.says[0].contains("times"), "{:?}", backup.says);
        assert_eq!(
            backup.says[1],
            "1 error that is not known here: Error: xtrabackup_copy_logfile() failed."
        );
    }
}
