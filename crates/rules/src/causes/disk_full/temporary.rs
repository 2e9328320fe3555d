//! Room for temporary files and temporary tables: what an error log says of it, what tmpdir has, and what the server refused.

use spindoctor_model::number::bytes;
use spindoctor_model::{Evidence, Finding, Remedy, TroubleKind, Window};

use super::super::statements_refused;
use super::{CAUSE, free_space, path};
use crate::draft::Draft;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::{logged, temporary_room};

/// What follows once there is space again.
const FINDS_SPACE: &str = "What the server then writes finds space.";

/// tmpdir has no room while temporary files are made, or the server found none for a statement of spindoctor's own. Where errors are
/// not counted by number (MariaDB, MySQL before 8.0) nothing else shows that statements fail for it.
pub(super) fn of_room(window: &Window) -> Option<Finding> {
    let refused = temporary_room::refused(window);
    let made_per_s = temporary_room::made_per_s(window);
    let free = temporary_room::filled(window).filter(|_| made_per_s > 0.0 || refused.is_some());
    let tmpdir = window.variable("tmpdir").filter(|tmpdir| !tmpdir.is_empty());
    let place = tmpdir.map_or_else(|| "tmpdir".to_owned(), |folder| format!("tmpdir ({folder})"));
    let (sessions, share) = temporary_room::sessions(window);
    let headline = match (free, refused) {
        (Some(free), _) => {
            format!(
                "{place} has no room, {} free: sorts and temporary tables that need a file fail",
                bytes(free as f64)
            )
        }
        (None, Some((number, _))) => format!(
            "The server finds no room for a temporary table: it refused a statement of spindoctor's own (error {number})"
        ),
        (None, None) => return None,
    };
    let why = match free {
        Some(_) => {
            "A sort, GROUP BY, UNION or join that needs more than its buffer, and a transaction larger than binlog_cache_size, write a \
             file there. Without room the statement ends with an error (3, 1021, 1114 or 28 by what wrote), and its file is gone at \
             once."
        }
        None => LIMITS,
    };
    let data = window.latest(|sample| &sample.host.data_directory);
    let total = data.and_then(|data| data.temporary_total_bytes).filter(|_| free.is_some());
    let draft = Draft::new(&CAUSE, share.clamp(WARNING_FROM, CRITICAL_FROM - 0.01), headline)
        .why(why)
        .evidence_if(free.map(|free| {
            Evidence::new("free space of temporary files", free, "bytes", "statvfs").expected("> 16 MiB")
        }))
        .evidence_if(total.map(|total| Evidence::new("size of their file system", total, "bytes", "statvfs")))
        .evidence_if(data.filter(|_| refused.is_some()).map(|data| {
            Evidence::new("free space of the data directory", data.free_bytes, "bytes", "statvfs")
        }))
        .evidence_if(refused.map(|(number, message)| {
            let message: String = message.chars().take(LONGEST).collect();
            Evidence::new(
                "refused to spindoctor itself",
                format!("error {number}: {message}"),
                "",
                "its own statement",
            )
        }))
        .evidence(Evidence::new(
            "temporary files and tables on disk",
            made_per_s,
            "1/s",
            "SHOW GLOBAL STATUS Created_tmp_files, Created_tmp_disk_tables",
        ))
        .evidence_if(
            (sessions > 0.0)
                .then(|| Evidence::new("sessions at a sort or temporary table", sessions, "", "thread list")),
        );
    let draft = match free {
        Some(_) => draft.remedy(temporary_room::make_room(window)),
        None => draft.remedy(look_which()),
    };
    // What sessions wait for is no part of it: their statements fail.
    let draft = draft.remedy(end_the_largest()).remedy(apart()).elsewhere();
    let explains: &[&str] = if statements_refused::lacks_temporary_room(window) {
        &[statements_refused::CAUSE.name]
    } else {
        &[]
    };
    Some(draft.explains(explains).finding())
}

/// Characters of a message that are shown.
const LONGEST: usize = 200;

/// What limits a temporary table beside its file system.
const LIMITS: &str = "A statement with a large sort, GROUP BY, UNION or join writes a table of its own. It ends with error 1114 where \
                      the file system of tmpdir is full, or where a limit is: temptable_max_mmap and innodb_temp_data_file_path with a \
                      max (MySQL), max_tmp_space_usage (MariaDB 11.5).";

/// tmpdir on a file system of its own.
fn apart() -> Remedy {
    Remedy {
        statement: "tmpdir (and innodb_temp_data_file_path with a max) on a file system of its own, at the next start".into(),
        why: "Then no statement takes the space of data and logs.".into(),
        dynamic: false,
        risk: "A statement that needs more fails.".into(),
        undo: String::new(),
    }
}

/// Which of the limits it is.
fn look_which() -> Remedy {
    Remedy {
        statement: "df -h of tmpdir (SELECT @@tmpdir), and SHOW GLOBAL VARIABLES LIKE '%tmp%'; LIKE 'temptable%'; LIKE \
                    'innodb_temp_data_file_path'"
            .into(),
        why: "It shows which of them is full. On a managed service the free storage is a number of the console.".into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        ..Remedy::default()
    }
}

/// A temporary table of the server's own that could not grow: the log does not say whether its file system or a limit was full.
pub(super) fn of_full_table(window: &Window) -> Option<Finding> {
    let temporary = |kind| {
        let (trouble, times) = logged::at_the_end(window, kind)?;
        Some((path(&trouble.line).filter(|path| is_temporary(path))?, trouble, times))
    };
    // Its index cannot be read where it could not be written (error 126).
    let (path, trouble, times) =
        temporary(TroubleKind::TableFull).or_else(|| temporary(TroubleKind::TableCrashed))?;
    Some(
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!("A temporary table of the server's own found no room ({path}): the statement that needed it failed"),
        )
        .why(LIMITS)
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedy(look_which())
        .remedy(end_the_largest())
        .remedy(free_space(FINDS_SPACE))
        .finding(),
    )
}

fn end_the_largest() -> Remedy {
    Remedy {
        statement: "SHOW FULL PROCESSLIST, and KILL QUERY of the statement in `Copying to tmp table`, `Creating sort index` or \
                    `converting HEAP to ...` that has run longest"
            .into(),
        why: "Its table is removed with it, and the space is free at once.".into(),
        dynamic: true,
        risk: "That statement is lost.".into(),
        undo: String::new(),
    }
}

/// True for the file of a temporary table that the server made for a statement.
pub(super) fn is_temporary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("#sql") || name.starts_with("MY") && path.starts_with("/tmp/")
        // In the data directory it shares the file system of the data.
        || name == "ibtmp1" && !path.starts_with("./")
}

/// Temporary tables alone: no commit waits for their disk unless logs and data lie on it, too.
pub(super) fn of_temporary_table(path: &str, waits: bool, evidence: [Evidence; 2]) -> Finding {
    let then = if waits { "a statement waits until space is freed" } else { "statements fail" };
    Draft::new(
        &CAUSE,
        WARNING_FROM,
        format!("The file system of temporary tables is full ({path}): {then}"),
    )
    .why("A statement with a large sort, GROUP BY or join writes a table of its own there. Others go on, but for those that need such \
          a table, too, and all that writes where the data or the logs lie on the same file system.")
    .evidence_all(evidence.into_iter())
    .remedy(end_the_largest())
    .remedy(free_space(FINDS_SPACE))
    .remedy(apart())
    .finding()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::host::DataDirectory;
    use spindoctor_model::stack::ThreadState;
    use spindoctor_model::{Reading, Severity, Unavailable};

    use super::*;
    use crate::testing::{Build, answer, session};

    const MIB: u64 = 1 << 20;

    /// A MariaDB without performance_schema, which counts no errors: so much is free in tmpdir, and so many files are made there.
    fn mariadb(free_bytes: u64, total_bytes: u64, files_per_s: f64) -> Build {
        Build::busy("10.11.19-MariaDB")
            .variable("tmpdir", "/tmp")
            .counter("Created_tmp_files", files_per_s)
            .counter("Created_tmp_disk_tables", 0.0)
            .each(move |at_s, server, host| {
                server.errors = Reading::Unavailable(Unavailable::because("performance_schema is off"));
                let data = DataDirectory {
                    total_bytes: 1 << 40,
                    free_bytes: 1 << 39,
                    temporary_free_bytes: Some(free_bytes),
                    temporary_total_bytes: Some(total_bytes),
                    ..DataDirectory::default()
                };
                host.data_directory = answer(at_s, data);
            })
    }

    fn found(build: Build) -> Option<Finding> {
        let found = crate::diagnose(&build.window()).findings;
        found.into_iter().find(|finding| finding.cause == CAUSE.name)
    }

    #[test]
    fn a_tmpdir_without_room_is_a_warning_where_no_error_is_counted() {
        let sorting = |_| vec![session(20, "Query", "Creating sort index", "SELECT * FROM t ORDER BY c")];
        let finding = found(mariadb(0, 64 * MIB, 12.0).sessions(sorting)).unwrap();
        assert_eq!(
            finding.headline,
            "tmpdir (/tmp) has no room, 0 B free: sorts and temporary tables that need a file fail"
        );
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.remedies[0].statement.starts_with("df of tmpdir (/tmp)"), "{:?}", finding.remedies);
        assert!(finding.evidence.iter().any(|one| one.reading == "sessions at a sort or temporary table"));
        assert!(found(mariadb(9 * MIB, 64 * MIB, 12.0)).is_some(), "a sort that failed has removed its file");
    }

    #[test]
    fn a_tmpdir_that_is_small_and_next_to_empty_or_that_nobody_uses_is_none() {
        assert_eq!(found(mariadb(0, 64 * MIB, 0.0)), None);
        assert_eq!(found(mariadb(12 * MIB, 16 * MIB, 12.0)), None);
        assert_eq!(found(mariadb(64 * MIB, 1 << 30, 12.0)), None);
    }

    #[test]
    fn a_full_tmpdir_is_not_why_commits_take_time() {
        let commits: &[&str] = &[
            "pthread_cond_wait",
            "MYSQL_BIN_LOG::ordered_commit",
            "trans_commit",
            "dispatch_command",
            "do_command",
        ];
        let build = mariadb(0, 64 * MIB, 12.0).only_snapshots(&[(16, ThreadState::Condition, commits)]);
        let finding = found(build).unwrap();
        assert!(finding.headline.starts_with("tmpdir (/tmp) has no room"), "{}", finding.headline);
    }

    #[test]
    fn a_refused_statement_of_spindoctor_itself_is_evidence() {
        let refusing = |because: &'static str| {
            let refused = Reading::Unavailable(Unavailable::because(because));
            mariadb(1 << 35, 1 << 40, 0.0).each(move |_, server, _| server.transactions = refused.clone())
        };
        let full = "the server answered with error 1114: The table '/tmp/#sql-temptable-84e-2' is full";
        let finding = found(refusing(full)).unwrap();
        assert!(
            finding.headline.ends_with("it refused a statement of spindoctor's own (error 1114)"),
            "{}",
            finding.headline
        );
        let shown =
            finding.evidence.iter().any(|one| format!("{:?}", one.value).contains("/tmp/#sql-temptable"));
        assert!(shown, "{:?}", finding.evidence);
        assert!(finding.remedies[0].statement.starts_with("df -h of tmpdir"), "{:?}", finding.remedies);
        assert_eq!(found(refusing("the server answered with error 1205: Lock wait timeout exceeded")), None);
    }

    #[test]
    fn where_errors_are_counted_the_statements_that_fail_stand_below_it() {
        let counted = Build::busy("9.7.4").errors(4700.0, &[]).counter("Created_tmp_files", 400.0).each(
            |at_s, _, host| {
                let data = DataDirectory {
                    free_bytes: 1 << 39,
                    temporary_free_bytes: Some(MIB),
                    temporary_total_bytes: Some(64 * MIB),
                    ..DataDirectory::default()
                };
                host.data_directory = answer(at_s, data);
            },
        );
        let causes: Vec<String> =
            crate::diagnose(&counted.window()).findings.into_iter().map(|finding| finding.cause).collect();
        assert_eq!(causes, [CAUSE.name, statements_refused::CAUSE.name]);
    }
}
