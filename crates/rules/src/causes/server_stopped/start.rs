//! Why a server does not start, by what its error log ends with.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use super::CAUSE;
use crate::causes::statements_refused;
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
const REASONS: [Reason; 8] = [
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
];

/// Why the server ended at its start, where a line says it.
pub(super) fn refused(window: &Window) -> Option<Finding> {
    let (reason, (trouble, times)) =
        REASONS.iter().find_map(|reason| Some((reason, logged::at_the_end(window, reason.kind)?)))?;
    let has_ended = logged::at_the_end(window, TroubleKind::NotStarted).is_some();
    let (score, begins) = match reason.is_sure || has_ended {
        true => (CRITICAL_FROM, "The server does not start"),
        false => (WARNING_FROM, "The server may not start"),
    };
    let option = option(&trouble.line).filter(|_| reason.kind == TroubleKind::OptionRefused);
    let because = option.map_or_else(
        || reason.because.to_owned(),
        |option| format!("it does not know {option}, or cannot read its value"),
    );
    Some(
        Draft::new(&CAUSE, score, format!("{begins}: {because}"))
            .why(reason.why)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: reason.statement.into(),
                why: reason.cures.into(),
                dynamic: false,
                risk: reason.risk.into(),
                undo: String::new(),
            })
            .finding(),
    )
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

/// That the server ended at its start, where another cause or no line says why.
pub(super) fn ended(window: &Window) -> Option<Finding> {
    /// What keeps a server from starting, and is another cause's: memory-pressure, disk-full and statements-refused say it.
    const OTHERS: [TroubleKind; 4] =
        [TroubleKind::NoMemory, TroubleKind::DiskFull, TroubleKind::WaitsForSpace, TroubleKind::NoFile];
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NotStarted)?;
    if OTHERS.iter().any(|kind| logged::at_the_end(window, *kind).is_some()) {
        return None;
    }
    Some(match logged::at_the_end(window, TroubleKind::PageDamaged) {
        Some((damage, _)) => ended_by_damage(trouble, times, damage),
        None => Draft::new(&CAUSE, CRITICAL_FROM, "The server does not start: it ended, and the lines that were given do not say why")
            .why("What these lines say follows from an error above them, in the same log.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "Look for the first [ERROR] below the last line with `starting as process` in the error log (journalctl -u mysqld -u \
                            mysql -u mariadb where it has none), and give it with the lines around it"
                    .into(),
                why: "It says what could not be read, locked or opened; the lines below it are what follows.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                undo: String::new(),
            })
            .finding(),
    })
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

    /// The findings of a log that ends with these.
    fn found(troubles: &[(TroubleKind, &str)]) -> Vec<Finding> {
        let logged = |(kind, line): &(TroubleKind, &str)| LoggedTrouble {
            kind: *kind,
            times: 1,
            line: (*line).to_owned(),
            ..LoggedTrouble::default()
        };
        let window = Window { error_log: troubles.iter().map(logged).collect(), ..Window::default() };
        crate::diagnose(&window).findings
    }

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
    fn what_follows_from_another_cause_is_no_finding_of_its_own() {
        for (kind, cause) in [
            (TroubleKind::NoMemory, "memory-pressure"),
            (TroubleKind::DiskFull, "disk-full"),
            (TroubleKind::NoFile, "statements-refused"),
        ] {
            let all = found(&[(kind, "Cannot allocate memory for the buffer pool"), ENDED]);
            assert_eq!(all.iter().map(|finding| finding.cause.as_str()).collect::<Vec<_>>(), [cause]);
        }
        let damaged = found(&[(TroubleKind::PageDamaged, "Database page corruption on disk"), ENDED]);
        assert_eq!(damaged[0].headline, "The server does not start: a page of its data files is damaged");
        assert_eq!(damaged[0].explains, ["statements-refused"]);
        let alone = found(&[ENDED]);
        assert!(alone[0].headline.ends_with("do not say why"), "{}", alone[0].headline);
    }
}
