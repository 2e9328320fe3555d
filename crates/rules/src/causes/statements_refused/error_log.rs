//! What an error log ends with when statements are refused, or the errors say that clients print.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use super::super::server_stopped;
use super::{CAUSE, crashed_table, printed};
use crate::draft::Draft;
use crate::logged;
use crate::open_files;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};

/// What an error log ends with, or what clients printed last.
pub(super) fn of_log(window: &Window) -> Option<Finding> {
    ended_without_files(window)
        .or_else(|| damaged(window))
        .or_else(|| without_files(window))
        .or_else(|| crashed_table::of_log(window))
        .or_else(|| full_table(window))
        .or_else(|| printed::of_clients(window))
}

/// Pages whose check sums do not fit: each statement that reads one fails, and a server may end itself.
fn damaged(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::PageDamaged)?;
    if server_stopped::has_damage(window) {
        return None;
    }
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Pages of a data file are damaged: what reads them fails, and the server may end itself")
            .why("A page is not what was written: the disk, its controller or memory changed it, a file was copied from a running server, \
                  or a defect of the server wrote it. No setting cures it, and a restart alone does not either.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedies(of_damage())
            .finding(),
    )
}

/// What to do about damaged pages.
pub(in crate::causes) fn of_damage() -> [Remedy; 2] {
    [
        Remedy {
            statement: "Copy the whole data directory away before anything else; CHECK TABLE of the table that the lines name; look at the \
                        disk (dmesg, smartctl -a)"
                .into(),
            why: "What was not copied cannot be saved any more; the lines name the file and the page.".into(),
            dynamic: true,
            risk: "CHECK TABLE reads the whole table, and a page that is badly damaged may end the server.".into(),
            ..Remedy::default()
        },
        Remedy {
            statement: "Make the table again from a replica or a backup; where there is none: innodb_force_recovery = 1 (then 2, 3) in the \
                        option file, start, dump the tables, and load them into a new data directory"
                .into(),
            why: "A secondary index alone is made again by ALTER TABLE ... ENGINE=InnoDB.".into(),
            dynamic: false,
            risk: "From innodb_force_recovery = 4 on data may be damaged for good. While it is set the server is for reading alone.".into(),
            undo: "Take innodb_force_recovery out of the option file.".into(),
        },
    ]
}

/// A table that took no more rows (error 1114), and no disk is said to be full.
fn full_table(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::TableFull)?;
    // A temporary table of the server's own is disk-full.
    if trouble.line.contains("#sql") {
        return None;
    }
    if !trouble.detail.is_empty() {
        return Some(without_undo_log(trouble, times));
    }
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Statements fail: a table has no room for more rows (error 1114)")
            .why("A MEMORY table is full at max_heap_table_size (as it was when the table was made); an InnoDB table where its file system \
                  is full, or where innodb_data_file_path ends without autoextend or with a max; a MyISAM table at its MAX_ROWS.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "SHOW CREATE TABLE of it; df -h of the data directory; SHOW GLOBAL VARIABLES LIKE 'innodb_data_file_path'; LIKE \
                            'max_heap_table_size'"
                    .into(),
                why: "It shows which of the limits it is.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "MEMORY: DELETE what is old, or SET SESSION max_heap_table_size = MORE; ALTER TABLE ... ENGINE=MEMORY, or \
                            ENGINE=InnoDB; InnoDB: free space on that file system"
                    .into(),
                why: "The table takes rows again.".into(),
                dynamic: true,
                risk: "ALTER TABLE copies the table, and writers wait meanwhile.".into(),
                undo: String::new(),
            })
            .finding(),
    )
}

/// Changes for which InnoDB has no undo log: the error names the table that was to be changed.
fn without_undo_log(trouble: &LoggedTrouble, times: u64) -> Finding {
    Draft::new(&CAUSE, WARNING_FROM, "Statements fail: InnoDB has no undo log for their changes (error 1114, whose table is not full)")
        .why("A transaction that changes rows needs a slot and room in an undo tablespace. There is none where the file system of those is full, or \
              where a transaction that has been open for long, or purge that lags, keeps old versions of rows.")
        .evidence(Evidence::new("its log says", trouble.detail.clone(), "", "error log"))
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedy(Remedy {
            statement: "SELECT trx_mysql_thread_id, trx_started, trx_rows_modified FROM information_schema.INNODB_TRX ORDER BY trx_started LIMIT 5; \
                        History list length in SHOW ENGINE INNODB STATUS; df -h of innodb_undo_directory and of the data directory"
                .into(),
            why: "It shows the oldest transaction, how far purge is behind, and whether there is room.".into(),
            dynamic: true,
            risk: "Looking is safe.".into(),
            ..Remedy::default()
        })
        .remedy(Remedy {
            statement: "End that transaction (its client's COMMIT or ROLLBACK), give the file system room, or add room elsewhere: CREATE UNDO \
                        TABLESPACE name ADD DATAFILE 'FILE.ibu' (MySQL 8.0.14 and later)"
                .into(),
            why: "Purge then gives the slots and the pages back.".into(),
            dynamic: true,
            risk: "A large ROLLBACK takes as long as its changes did.".into(),
            undo: String::new(),
        })
        .finding()
}

/// A start that ended because the server may open no more files: nobody is served meanwhile.
fn ended_without_files(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NoFile)?;
    let (end, _) = logged::at_the_end(window, TroubleKind::NotStarted)?;
    Some(
        Draft::new(&CAUSE, CRITICAL_FROM, "The server does not start: it has reached its limit of open files")
            .why("At its start a server opens its logs and its tablespaces, and ends where it may open no more files. The limit is that of \
                  its unit, container or shell, and open_files_limit cannot raise it beyond that.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .evidence(Evidence::new("it did not start", end.line.clone(), "", "error log"))
            .remedy(open_files::at_the_start(window))
            .explains(&[server_stopped::CAUSE.name])
            .finding(),
    )
}

/// The server may open no more files (error 24, EMFILE), and tables, logs and connections are files.
fn without_files(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NoFile)?;
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Statements and logins fail: the server has reached its limit of open files")
            .why("Each connection is an open file, each InnoDB table at least one, a MyISAM table one and one more for each session that \
                  has it open.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedies(open_files::remedies(window))
            .finding(),
    )
}
