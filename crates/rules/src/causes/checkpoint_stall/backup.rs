//! A backup that copies the redo log more slowly than the server writes it.

use spindoctor_model::{Finding, Remedy, TroubleKind, Window};

use super::CAUSE;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;

/// The log of xtrabackup or mariabackup ends with redo log that was gone before it was copied. The server has no trouble of it, and no
/// backup.
pub(super) fn overtaken(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::BackupOvertaken)?;
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "A backup failed: the server wrote over redo log that it had not copied yet")
            .why("A backup copies the redo log from its start to its end, beside the data files. The redo log is a ring: where the server \
                  fills it sooner than the backup copies it, changes are missing, and what was copied cannot be restored.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedies([larger_log(), faster(), archive()])
            .elsewhere()
            .finding(),
    )
}

/// What both programs advise themselves.
fn larger_log() -> Remedy {
    Remedy {
        statement: "A larger redo log, before the next backup: SET GLOBAL innodb_redo_log_capacity (MySQL 8.0.30 and later), SET GLOBAL \
                    innodb_log_file_size (MariaDB 10.9 and later), innodb_log_file_size in the option file and a restart elsewhere"
            .into(),
        why: "The server comes round the ring later. mariabackup cannot use an archive of the redo log.".into(),
        dynamic: true,
        risk: "It takes disk space, and crash recovery reads more; before MySQL 8.0.30 and MariaDB 10.9 the server has to be \
               restarted."
            .into(),
        undo: "The size before, the same way.".into(),
    }
}

/// A backup that keeps up.
fn faster() -> Remedy {
    Remedy {
        statement: "A faster way for the backup: a target that writes faster, or a network that is faster; without --throttle, and with \
                    compression by more threads (--compress-threads) or none; --log-copy-interval=100; at an hour with fewer writes"
            .into(),
        why: "One thread copies the redo log, and waits where what takes the copy is slow; it looks for more each second, or as often as \
              --log-copy-interval says (milliseconds)."
            .into(),
        dynamic: true,
        risk: "A faster backup takes more of the disks, the network and the CPUs from the server meanwhile.".into(),
        undo: "The backup's options as they were.".into(),
    }
}

/// A copy of the redo log that the server writes itself.
fn archive() -> Remedy {
    Remedy {
        statement: "MySQL 8.0.17 and later: SET GLOBAL innodb_redo_log_archive_dirs = 'backup:/DIR', which mysqlbackup uses, and \
                    xtrabackup from 8.0.34 on with --redo-log-arch-dir; xtrabackup from 8.0.30 on has --register-redo-log-consumer, too"
            .into(),
        why: "The server writes the redo log to a file of the archive as well, or keeps it until the backup has copied it.".into(),
        dynamic: true,
        risk: "The archive takes as much room as redo is written during the backup. A registered consumer that is slow stops all writes \
               where the redo log is full."
            .into(),
        undo: "innodb_redo_log_archive_dirs as it was; the backup without that option.".into(),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{LoggedTrouble, Severity};

    use super::*;

    #[test]
    fn a_backup_that_was_overtaken_is_a_warning_behind_a_log_that_was_full() {
        let found = |kinds: &[TroubleKind]| {
            let trouble =
                |kind: &TroubleKind| LoggedTrouble { kind: *kind, times: 1, ..LoggedTrouble::default() };
            let window = Window { error_log: kinds.iter().map(trouble).collect(), ..Window::default() };
            crate::diagnose(&window).findings
        };
        let all = found(&[TroubleKind::BackupOvertaken]);
        assert_eq!(all.len(), 1, "{all:#?}");
        assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Warning));
        assert!(all[0].headline.starts_with("A backup failed") && all[0].is_elsewhere, "{all:#?}");
        assert!(all[0].remedies[0].statement.starts_with("A larger redo log"), "{:?}", all[0].remedies);
        let full = found(&[TroubleKind::BackupOvertaken, TroubleKind::RedoLogFull]);
        assert!(full.len() == 1 && full[0].headline.starts_with("The redo log had no room"), "{full:#?}");
    }
}
