//! Why a server does not start, by what its error log ends with.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use super::crash::LONGEST_DETAIL;
use super::{CAUSE, by_signal, versions};
use crate::causes::{memory_pressure, statements_refused};
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};

/// What keeps a server from starting, and what to do about it.
struct Reason {
    kind: TroubleKind,
    /// The end of the headline.
    because: &'static str,
    why: &'static str,
    /// True where no server goes on after such a line. Else it needs one more that says that it ended.
    is_sure: bool,
    statement: &'static str,
    cures: &'static str,
    risk: &'static str,
}

/// The reasons, that which stands behind others first: a server whose files are in use finds its port taken, too.
const REASONS: [Reason; 16] = [
    Reason {
        kind: TroubleKind::OptionRefused,
        because: "it does not know one of its options, or the value of one",
        why: "A server reads its option files before all else, and ends at an option that it does not know or a value that it cannot read: a \
              typing error, an option of another version, or one of another program in its group.",
        is_sure: true,
        statement: "Take the option that the line names out of the option files, or correct it (mysqld --verbose --help lists those that this \
                    version knows, mysqld --print-defaults what it is given)",
        cures: "The server starts without it, with the default instead.",
        risk: "Where the option was there for a reason, look up what took its place. loose_ before its name lets a server that does not know it \
               go on with a warning, and hides typing errors, too.",
    },
    Reason {
        kind: TroubleKind::FilesInUse,
        because: "another server has its data files open",
        why: "InnoDB locks its files while it runs, so that two servers never write them. Most often a server runs already, or one that was \
              stopped has not ended yet; where several hosts or containers mount the folder it may be one of them.",
        is_sure: true,
        statement: "fuser -v DATADIR/ibdata1; ps -ef | grep -E 'mysqld|mariadbd': use the server that runs, or end it (mysqladmin shutdown, \
                    systemctl stop) and wait until it has ended",
        cures: "The files are free when the server that has them has ended.",
        risk: "Two servers that write the same files destroy them: never delete ibdata1, copy it or go around its lock. kill -9 costs a recovery.",
    },
    Reason {
        kind: TroubleKind::RedoLogOfOtherVersion,
        because: "another version wrote its redo log, and was not shut down cleanly",
        why: "The redo log holds changes that are not in the data files yet, and its format differs from version to version: only the version that \
              wrote it can apply them.",
        is_sure: true,
        statement: "Copy DATADIR away; install the version that wrote the redo log (the line names it) and start it; SET GLOBAL \
                    innodb_fast_shutdown = 0, shut it down, and start the new version",
        cures: "After a slow shutdown all changes are in the data files, and the new version makes a new redo log.",
        risk: "Never delete the redo log (ib_logfile0, #innodb_redo) of data that were not shut down cleanly: changes are lost, and tables are \
               damaged.",
    },
    Reason {
        kind: TroubleKind::RedoLogUnusable,
        because: "its redo log cannot be used: it is damaged, missing in part, or not the one of its data files",
        why: "InnoDB applies its redo log to its data files at a start. Files that were copied from a running server, a backup that was not \
              prepared, files of several backups, a log that was deleted, and a disk that was full look like this. Where the line says that a \
              log has another size than the option file gives, nothing else may be wrong.",
        is_sure: true,
        statement: "Copy DATADIR away; bring back data files and redo log of one backup together (xtrabackup or mariabackup --prepare first). \
                    Another size: give innodb_log_file_size the size of the files. No backup: innodb_force_recovery = 1, then step by step up to \
                    6, dump all data, and load the dump into a new data folder",
        cures: "Files of one backup fit each other; a dump holds what can still be read.",
        risk: "Never delete the redo log (ib_logfile0, #innodb_redo) of data that were not shut down cleanly: changes are lost, and tables are \
               damaged. innodb_force_recovery from 4 on can damage data for good, and 6 leaves the redo log out: work on a copy.",
    },
    Reason {
        kind: TroubleKind::OtherVersion,
        because: "another version wrote its data files",
        why: "A server takes the files of the series before it only after a clean shutdown of that server, and none of a later one. After a crash \
              only the version that wrote the redo log can read it.",
        is_sure: true,
        statement: "Copy the data folder away; install the version that wrote the files (the line names it) and start it; SET GLOBAL \
                    innodb_fast_shutdown = 0, shut it down, and start the new version. Back to an older version: load a dump into a new data folder",
        cures: "A slow shutdown writes all changes into the data files, so that the new version needs nothing of the redo log.",
        risk: "Deleting the redo log (ib_logfile0, #innodb_redo) to get past this loses changes and leaves damaged tables.",
    },
    Reason {
        kind: TroubleKind::OtherLetterCase,
        because: "its data were made with another value of lower_case_table_names",
        why: "MySQL from 8.0 on keeps the value with which the data folder was made, and takes no other for it.",
        is_sure: true,
        statement: "lower_case_table_names in [mysqld] as the line names it for the data dictionary; for another value: dump all data, make a new \
                    data folder with that value, load the dump",
        cures: "Server and data dictionary then agree.",
        risk: "Statements may write names of tables in other letters than the dictionary has.",
    },
    Reason {
        kind: TroubleKind::CoordinatorUnsure,
        because: "it cannot tell which transactions were committed before it ended",
        why: "With two engines that take part in a commit (InnoDB and the binary log, or two storage engines), a log says which of those that are \
              prepared were committed: the binary log, or tc.log where there is none. That log is damaged, missing, or of another server, or \
              log_bin was switched since.",
        is_sure: true,
        statement: "Start with log_bin as it was, and bring tc.log back. Where it is lost: move tc.log away, start once with \
                    --tc-heuristic-recover=ROLLBACK (or COMMIT), then without; XA RECOVER shows what is prepared",
        cures: "The server then knows what to do with each of them.",
        risk: "ROLLBACK takes back, and COMMIT keeps, transactions of which nobody knows whether clients and replicas saw them committed: \
               compare with a replica or the binary log afterwards.",
    },
    Reason {
        kind: TroubleKind::AriaDamaged,
        because: "Aria's log does not fit its tables",
        why: "MariaDB keeps its system tables in Aria, and recovers them from aria_log.* at a start. Files of another backup, another version or \
              a full disk leave log and tables at different points.",
        is_sure: true,
        statement: "Copy DATADIR away; aria_chk --recover DATADIR/mysql/*.MAI with the server stopped; where it still fails, move aria_log.* and \
                    aria_log_control away and start again",
        cures: "The tables are then whole by themselves, and the server makes a new log.",
        risk: "Changes of Aria tables that stood in the log alone are lost; InnoDB's are not touched.",
    },
    Reason {
        kind: TroubleKind::SameTablespaceNumber,
        because: "two files of tables have one tablespace number",
        why: "InnoDB knows each file by the number in it, and opens no second file with the number of one that is open: it says of that one below \
              that it cannot open it. Most often a file or a folder was copied from another server, or ibdata1 was made again beside older files.",
        is_sure: false,
        statement: "Copy DATADIR away; of the two files that the lines name move the one that was copied there (or is the older) out of DATADIR, \
                    and start. Its rows: from a dump, or CREATE TABLE, ALTER TABLE ... DISCARD TABLESPACE, ALTER TABLE ... IMPORT TABLESPACE",
        cures: "Each number then has one file, and an import gives the other one a number of its own.",
        risk: "The table whose file is moved away cannot be read until it has one again. Never move the file of a table of the schema mysql: the \
               server needs it.",
    },
    Reason {
        kind: TroubleKind::TableFileMissing,
        because: "the file of a table is not where its dictionary says",
        why: "Somebody moved or deleted it, its folder is not mounted, or a copy of the data left it out. While InnoDB recovers it needs the file \
              of every table that its redo log changes.",
        is_sure: false,
        statement: "Bring the file that the line names back from a backup or to its place. Only where its table may be lost: start with \
                    innodb_force_recovery = 1, DROP TABLE, and start without",
        cures: "InnoDB then finds what it has to recover.",
        risk: "innodb_force_recovery leaves that table's changes out, and they are lost. Above 3 it can damage data.",
    },
    Reason {
        kind: TroubleKind::FileRefused,
        because: "it cannot open a file that it needs",
        why: "The user that it runs as may not read or write the file or a folder above it, the folder is not there, or SELinux or AppArmor \
              forbids it.",
        is_sure: false,
        statement: "ls -ld of the file and of each folder above it; chown -R mysql:mysql DATADIR, or make the folder. Where the rights are right: \
                    ausearch -m avc -ts recent and restorecon -R (SELinux), dmesg | grep DENIED (AppArmor)",
        cures: "The line names the file; its owner has to be the user of the server.",
        risk: "chown of a wrong folder takes files from other programs: name the data folder alone.",
    },
    Reason {
        kind: TroubleKind::SystemTablesDamaged,
        because: "its system tables are damaged, or those of another version",
        why: "A server reads its accounts, routines and events from the schema mysql. A crash damages tables in MyISAM or Aria; after an upgrade, \
              or with the schema mysql of another version's backup, their columns are not those that this version reads.",
        is_sure: false,
        statement: "Copy DATADIR/mysql away. Of another version: mysql_upgrade (to MySQL 8.0.15) or mariadb-upgrade while the server runs; from \
                    MySQL 8.0.16 on start it once with --upgrade=FORCE. Damaged: myisamchk --recover DATADIR/mysql/*.MYI or aria_chk --recover \
                    DATADIR/mysql/*.MAI while it is stopped",
        cures: "Where the accounts keep it from starting, --skip-grant-tables --skip-networking starts it for the upgrade.",
        risk: "With --skip-grant-tables everybody who reaches the socket may do everything: for the repair alone. myisamchk and aria_chk damage \
               the files of a server that runs.",
    },
    Reason {
        kind: TroubleKind::SystemTablesMissing,
        because: "the tables with its accounts are not in its data folder",
        why: "datadir is not the folder with the data (a file system that is not mounted, a path of another installation), the folder was never \
              initialised, or a restore left the schema mysql out.",
        is_sure: false,
        statement: "Look at datadir (mysqld --print-defaults) and into that folder: mount what is missing, or correct the path. Only where there \
                    never were data: mysqld --initialize --user=mysql (MariaDB: mariadb-install-db)",
        cures: "The server then finds its accounts and the rest of its tables.",
        risk: "--initialize makes an empty server: make sure first that the data are nowhere else.",
    },
    Reason {
        kind: TroubleKind::FolderNotEmpty,
        because: "it was to make new data (--initialize), and the folder for them is not empty",
        why: "--initialize writes a new data folder, and ends where it finds files: they may be the data of a server.",
        is_sure: true,
        statement: "ls -la DATADIR: where it holds data, start without --initialize; where it holds nothing but lost+found or what a failed \
                    --initialize left, name an empty folder below it as datadir",
        cures: "A server makes new data in an empty folder only.",
        risk: "Files of a server that are deleted are lost: move them away instead.",
    },
    Reason {
        kind: TroubleKind::AddressRefused,
        because: "it cannot listen on its address",
        why: "Address already in use: another program has the port or the socket, most often a server that runs already. Cannot assign requested \
              address: bind_address is not one of this host's. Permission denied: the folder of the socket is not the server's.",
        is_sure: true,
        statement: "ss -ltnp and ss -lxp show who listens on the port and the socket: end that server, or give this one another port and socket \
                    in [mysqld]; ip addr shows what bind_address may be",
        cures: "The server starts when port and socket are free, and its own.",
        risk: "Clients may use the server that listens there now: look at it before it is ended.",
    },
    Reason {
        kind: TroubleKind::StartTimedOut,
        because: "systemd gave up waiting for it (TimeoutStartSec)",
        why: "systemd ends a service that does not say within TimeoutStartSec (90 s where the unit has none) that it has started. InnoDB's recovery \
              after a crash, a large buffer pool, many tablespaces that are opened, and the state transfer of a cluster take longer: nothing \
              else may be wrong.",
        is_sure: true,
        statement: "systemctl edit mysqld (mysql, mariadb): [Service] and TimeoutStartSec=infinity below it; systemctl start it. The last lines of \
                    the error log before the timeout say what the server was doing",
        cures: "The server has the time that its start takes; an attempt that is ended begins its recovery again.",
        risk: "systemd does not end a server any more that hangs at its start: see that the error log goes on, or that the disk is read (iostat -x 1).",
    },
];

/// Of files that are refused, those of a file system without locks (ENOLCK): no right of a file cures that.
const WITHOUT_LOCKS: Reason = Reason {
    kind: TroubleKind::FileRefused,
    because: "the file system of its data gives no locks (error 37)",
    why: "A server locks its files, so that no other one writes them. NFS 3 keeps locks in a service of its own (lockd, rpc.statd), and answers \
          with error 37 where that of either host is not reached.",
    is_sure: false,
    statement: "findmnt -T DATADIR shows the file system: mount it with NFS 4 (vers=4.1), put the data on a local disk, or start rpc.statd on both \
                hosts (systemctl start rpc-statd) and let their firewalls pass it",
    cures: "NFS 4 and local file systems give locks themselves.",
    risk: "The option nolock of a mount lets two hosts write the same files, which destroys them. To mount it again the server has to be down.",
};

/// Of a server that runs.
const DAMAGED_SYSTEM_TABLES: &str =
    "System tables are damaged, or those of another version: what reads them fails";

/// Why the server ended at its start, where a line says it.
pub(super) fn refused(window: &Window) -> Option<Finding> {
    let (reason, (trouble, times)) =
        REASONS.iter().find_map(|reason| Some((reason, logged::at_the_end(window, reason.kind)?)))?;
    let reason = match lacks_locks(trouble) {
        true => &WITHOUT_LOCKS,
        false => reason,
    };
    // Without its accounts no server starts; without other system tables it does.
    let is_of_system = reason.kind == TroubleKind::SystemTablesDamaged;
    let lacks_accounts = is_of_system && trouble.line.contains("privilege tables");
    let has_ended = lacks_accounts || logged::at_the_end(window, TroubleKind::NotStarted).is_some();
    let (score, begins) = match reason.is_sure || has_ended {
        true => (CRITICAL_FROM, "The server does not start"),
        false => (WARNING_FROM, "The server may not start"),
    };
    let option = option(&trouble.line).filter(|_| reason.kind == TroubleKind::OptionRefused);
    let refusal = versions::refusal(trouble, window.server.version);
    let because = match (&refusal, option) {
        (Some(refusal), _) => refusal.because.clone(),
        (None, Some(option)) => format!("it does not know {option}, or cannot read its value"),
        (None, None) => reason.because.to_owned(),
    };
    let headline = match is_of_system && !has_ended {
        true => DAMAGED_SYSTEM_TABLES.to_owned(),
        false => format!("{begins}: {because}"),
    };
    let (why, remedy) = match refusal {
        Some(refusal) => (refusal.why, refusal.remedy),
        None => (reason.why, reason.remedy()),
    };
    Some(
        Draft::new(&CAUSE, score, headline)
            .why(why)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(remedy)
            .finding(),
    )
}

impl Reason {
    fn remedy(&self) -> Remedy {
        Remedy {
            statement: self.statement.into(),
            why: self.cures.into(),
            dynamic: false,
            risk: self.risk.into(),
            undo: String::new(),
        }
    }
}

/// True for a file that could not be locked, as the file system has no locks (ENOLCK): `Unable to lock ./ibdata1 error: 37`.
fn lacks_locks(trouble: &LoggedTrouble) -> bool {
    trouble.kind == TroubleKind::FileRefused
        && trouble
            .line
            .split_once("rror: 37")
            .is_some_and(|(_, rest)| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The option that such a line names: of `unknown variable 'a=1'`, `unknown option '--a'`, `Error while setting value 'x' to 'a'` and
/// `Unknown suffix 'B' used for variable 'a' (value '1 GB')`.
fn option(line: &str) -> Option<&str> {
    const BEGINS: [&str; 5] =
        ["unknown variable '", "unknown option '", "ambiguous option '", "used for variable '", "' to '"];
    let rest = BEGINS.iter().find_map(|begin| Some(line.split_once(begin)?.1))?;
    let name = rest.trim_start_matches('-').split(['\'', '=']).next()?;
    (!name.is_empty()).then_some(name)
}

/// Pages that are newer than the redo log, of a server that did not crash with them.
pub(super) fn newer_pages(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::PagesNewer)?;
    let (score, headline) = match logged::at_the_end(window, TroubleKind::NotStarted) {
        Some(_) => (
            CRITICAL_FROM,
            "The server does not start, and pages of its data files are newer than its redo log",
        ),
        None => (
            WARNING_FROM,
            "Pages of the data files are newer than the redo log: what else they lack nobody knows",
        ),
    };
    Some(
        Draft::new(&CAUSE, score, headline)
            .why("Each page carries the place in the redo log at which it was changed last, and the log does not reach so far: it was deleted, or \
                  data files were copied without it or from a running server. Changes that only that log had are lost, so that pages may not \
                  fit each other, and the server may crash where it reads them.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(of_newer_pages())
            .finding(),
    )
}

/// What to do about pages that are newer than the redo log.
pub(super) fn of_newer_pages() -> Remedy {
    Remedy {
        statement: "Copy DATADIR away; load a backup or a dump into a new data folder, or make it again from a replica. Where there is none: \
                    innodb_force_recovery = 1, then step by step up to 6, until the server starts; dump all data, and load the dump into a new \
                    data folder"
            .into(),
        why: "A dump has rows alone, and no pages that do not fit each other; a new data folder begins with a redo log of its own.".into(),
        dynamic: false,
        risk: "innodb_force_recovery from 4 on can damage data for good: work on a copy.".into(),
        undo: "Take innodb_force_recovery out of the option file.".into(),
    }
}

/// That the server ended at its start, where another cause or no line says why. That the kernel had killed it before is memory-pressure's,
/// which says both.
pub(super) fn ended(window: &Window) -> Option<Finding> {
    /// What keeps a server from starting, and is another cause's: memory-pressure, disk-full, statements-refused and cluster-partition
    /// say it.
    const OTHERS: [TroubleKind; 6] = [
        TroubleKind::NoMemory,
        TroubleKind::DiskFull,
        TroubleKind::WaitsForSpace,
        TroubleKind::NoFile,
        TroubleKind::StateTransferFailed,
        TroubleKind::NodeDiffers,
    ];
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NotStarted)?;
    if OTHERS.iter().any(|kind| logged::at_the_end(window, *kind).is_some()) {
        return None;
    }
    if let Some((damage, _)) = logged::at_the_end(window, TroubleKind::PageDamaged) {
        return Some(ended_by_damage(trouble, times, damage));
    }
    if memory_pressure::was_killed(window) {
        return None;
    }
    if let Some((signal, _)) = logged::at_the_end(window, TroubleKind::EndedBySignal) {
        return Some(by_signal::at_its_start(trouble, times, signal));
    }
    if !trouble.detail.is_empty() {
        return Some(ended_with_reason(trouble, times));
    }
    Some(
        Draft::new(
            &CAUSE,
            CRITICAL_FROM,
            "The server does not start: it ended, and the lines that were given do not say why",
        )
        .why("What these lines say follows from an error above them, in the same log.")
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedy(first_error())
        .finding(),
    )
}

/// A start of which the log says why it ended, or what its first error is.
fn ended_with_reason(trouble: &LoggedTrouble, times: u64) -> Finding {
    Draft::new(&CAUSE, CRITICAL_FROM, format!("The server does not start: {}", in_short(&trouble.detail)))
        .why("A server ends at its start where it cannot do what it needs. The lines below the first error follow from it.")
        .evidence(Evidence::new("its log says", trouble.detail.clone(), "", "error log"))
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedy(first_error())
        .finding()
}

/// A long reason without what it says of its causes and cures.
fn in_short(reason: &str) -> &str {
    match reason.chars().count() > LONGEST_DETAIL {
        true => reason.split_once(": ").map_or(reason, |(short, _)| short),
        false => reason,
    }
}

/// Where a log says why a server did not start.
pub(in crate::causes) fn first_error() -> Remedy {
    Remedy {
        statement: "Look for the first [ERROR] below the last line with `starting as process` in the error log (journalctl -u mysqld -u \
                    mysql -u mariadb where it has none), and give it with the lines around it"
            .into(),
        why: "It says what could not be read, locked or opened; the lines below it are what follows.".into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        undo: String::new(),
    }
}

/// A page of the files that a server has to read at its start.
fn ended_by_damage(trouble: &LoggedTrouble, times: u64, damage: &LoggedTrouble) -> Finding {
    Draft::new(&CAUSE, CRITICAL_FROM, "The server does not start: a page of its data files is damaged")
        .why("At its start a server reads its dictionary and what it has to recover, and ends where a page of them is not what was written.")
        .evidence(Evidence::new("a damaged page", damage.line.clone(), "", "error log"))
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedies(statements_refused::of_damage())
        .explains(&[statements_refused::CAUSE.name])
        .finding()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;
    use crate::testing::of_log as found;

    const ENDED: (TroubleKind, &str) = (TroubleKind::NotStarted, "[ERROR] Aborting");

    #[test]
    fn each_reason_is_one_critical_finding_with_what_to_do() {
        for reason in &REASONS {
            let all = found(&[(reason.kind, "a line"), ENDED]);
            assert_eq!(all.len(), 1, "{all:#?}");
            assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Critical));
            assert!(all[0].headline.starts_with("The server does not start: "), "{}", all[0].headline);
            assert_eq!(all[0].remedies[0].statement, reason.statement);
        }
    }

    #[test]
    fn the_option_is_named_without_its_value() {
        for line in [
            "[ERROR] unknown variable 'innodb_foo=...'",
            "mysqld: unknown option '--innodb_foo'",
            "[ERROR] mysqld: Error while setting value '16x' to 'innodb_foo'",
            "Unknown suffix ' ' used for variable 'innodb_foo' (value '16 M')",
        ] {
            let headline = found(&[(TroubleKind::OptionRefused, line)]).remove(0).headline;
            assert_eq!(
                headline,
                "The server does not start: it does not know innodb_foo, or cannot read its value"
            );
        }
        let other =
            found(&[(TroubleKind::OptionRefused, "Found option without preceding group in config file")]);
        assert!(
            other[0].headline.ends_with("one of its options, or the value of one"),
            "{}",
            other[0].headline
        );
    }

    #[test]
    fn a_file_that_cannot_be_opened_ends_a_server_only_where_a_line_says_that_it_ended() {
        let of = |troubles: &[(TroubleKind, &str)]| {
            let first = found(troubles).remove(0);
            (first.severity, first.headline)
        };
        let file = (TroubleKind::FileRefused, "Operating system error number 13 in a file operation.");
        assert_eq!(
            of(&[file]),
            (Severity::Warning, "The server may not start: it cannot open a file that it needs".into())
        );
        assert_eq!(of(&[file, ENDED]).0, Severity::Critical);
    }

    #[test]
    fn a_file_system_without_locks_is_not_cured_by_rights() {
        let line = "[ERROR] InnoDB: Unable to lock ./ibdata1 error: 37";
        let finding = found(&[(TroubleKind::FileRefused, line), ENDED]).remove(0);
        assert_eq!(finding.headline, format!("The server does not start: {}", WITHOUT_LOCKS.because));
        assert!(finding.remedies[0].statement.contains("rpc.statd"), "{:?}", finding.remedies);
        let other = found(&[(TroubleKind::FileRefused, "[ERROR] Can't open ./a.ibd, error: 13")]).remove(0);
        assert!(other.remedies[0].statement.contains("chown"), "{:?}", other.remedies);
    }

    #[test]
    fn damaged_system_tables_keep_a_server_from_starting_where_they_hold_its_accounts() {
        let of = |line: &str| {
            let first = found(&[(TroubleKind::SystemTablesDamaged, line)]).remove(0);
            (first.severity, first.headline)
        };
        assert_eq!(
            of("Cannot load from mysql.proc. The table is probably corrupted"),
            (Severity::Warning, DAMAGED_SYSTEM_TABLES.into())
        );
        let (severity, headline) =
            of("Fatal error: Can't open and lock privilege tables: Incorrect file format 'user'");
        assert_eq!(severity, Severity::Critical);
        assert!(headline.starts_with("The server does not start: its system tables"), "{headline}");
    }

    #[test]
    fn pages_that_are_newer_than_the_redo_log_are_a_warning_where_the_server_starts() {
        let page = (TroubleKind::PagesNewer, "log sequence number 99 is in the future!");
        assert_eq!(found(&[page]).remove(0).severity, Severity::Warning);
        let ended = found(&[page, ENDED]);
        assert_eq!((ended.len(), ended[0].severity), (1, Severity::Critical), "{ended:#?}");
        assert!(ended[0].remedies[0].statement.contains("new data folder"), "{:?}", ended[0].remedies);
    }

    #[test]
    fn a_start_whose_log_says_why_it_ended_is_found_with_that_reason() {
        let of = |detail: &str| {
            let ended = LoggedTrouble {
                kind: TroubleKind::NotStarted,
                times: 1,
                line: "[ERROR] Aborting".into(),
                detail: detail.into(),
                ..LoggedTrouble::default()
            };
            let window = Window { error_log: vec![ended], ..Window::default() };
            let mut found = crate::diagnose(&window).findings;
            assert_eq!(found.len(), 1, "{found:#?}");
            found.remove(0)
        };
        let first = of("its first error is Frobnication failed");
        assert_eq!(first.headline, "The server does not start: its first error is Frobnication failed");
        assert_eq!(first.severity, Severity::Critical);
        let long = format!("its data file is empty: {}", "it was cut, or ".repeat(20));
        let long = of(&long);
        assert_eq!(long.headline, "The server does not start: its data file is empty");
        assert!(format!("{:?}", long.evidence).contains("it was cut, or"), "{:?}", long.evidence);
    }

    #[test]
    fn two_files_with_one_number_are_why_the_second_one_cannot_be_opened() {
        let all = found(&[
            (TroubleKind::TableFileMissing, "could not open single-table tablespace file ./shop/stock.ibd"),
            (TroubleKind::SameTablespaceNumber, "Attempted to open a previously opened tablespace."),
        ]);
        assert_eq!(all.len(), 1, "{all:#?}");
        assert!(
            all[0].headline.ends_with("two files of tables have one tablespace number"),
            "{}",
            all[0].headline
        );
    }

    #[test]
    fn what_follows_from_another_cause_is_no_finding_of_its_own() {
        for (kind, cause) in [
            (TroubleKind::NoMemory, "memory-pressure"),
            (TroubleKind::DiskFull, "disk-full"),
            (TroubleKind::NoFile, "statements-refused"),
        ] {
            let all = found(&[(kind, "Cannot allocate memory for the buffer pool"), ENDED]);
            assert_eq!(all.iter().map(|finding| finding.cause.as_str()).collect::<Vec<_>>(), [cause]);
            assert_eq!(all[0].severity, Severity::Critical, "{kind:?}");
        }
        let damaged = found(&[(TroubleKind::PageDamaged, "Database page corruption on disk"), ENDED]);
        assert_eq!(damaged[0].headline, "The server does not start: a page of its data files is damaged");
        assert_eq!(damaged[0].explains, ["statements-refused"]);
        assert_eq!(damaged.len(), 1, "{damaged:#?}");
        let page = (TroubleKind::PageDamaged, "Database page corruption on disk");
        let crashed = found(&[page, (TroubleKind::Crashed, "mysqld got signal 6 ;")]);
        assert_eq!(crashed.len(), 1, "{crashed:#?}");
        assert!(crashed[0].headline.contains("with damaged pages"), "{}", crashed[0].headline);
        let alone = found(&[ENDED]);
        assert!(alone[0].headline.ends_with("do not say why"), "{}", alone[0].headline);
    }
}
