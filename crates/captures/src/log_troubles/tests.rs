use spindoctor_model::TroubleKind;

use super::cluster::{
    AHEAD, APPLIER_WAITS, INCOMPLETE, INCONSISTENT, LEFT, NOT_FIRST, REMNANT, STATE_TRANSFER,
};
use super::files::{
    BACKUP_MISSES, DAMAGED, DATA_SIZE, FOLDER_FOR_FILE, NEWER_PAGES, NO_SUCH_FILE, NO_UNDO_LOG, NOT_EXTENDED,
    OVERTAKEN, REDO_SIZE, REDO_UNUSABLE, SAME_NUMBER,
};
use super::has_sign;
use super::host::{LIVENESS, READINESS, is_event_of_probe};
use super::replication::RECEIVER_ENDED;
use super::server::CONNECTIONS_LOST;

#[test]
fn what_lines_of_each_kind_mean_is_said_and_no_error_is_left_over() {
    for (words, meaning) in [
        (
            "WSREP: gcs/src/gcs_group.cpp:322: Reversing history: 12 -> 0, this member has applied 12 more",
            AHEAD,
        ),
        ("WSREP: Node consistency compromised, aborting...", INCONSISTENT),
        ("[MY-000000] [Galera] Application state transfer failed. This is unrecoverable", STATE_TRANSFER),
        ("WSREP: It may not be safe to bootstrap the cluster from this node.", NOT_FIRST),
        ("InnoDB: WSREP: BF lock wait long for trx:0x7 query: UPDATE a", APPLIER_WAITS),
        (
            "[Repl] Plugin group_replication reported: 'Fatal error during the recovery process of Group Replication. The server will leave \
                 the group.'",
            LEFT,
        ),
        (
            "InnoDB: Page [page id: space=0, page number=4] log sequence number 9 is in the future!",
            NEWER_PAGES,
        ),
        (
            "InnoDB: Your database may be corrupt or you may have copied the InnoDB tablespace but",
            NEWER_PAGES,
        ),
        ("InnoDB: Ignoring the redo log due to missing MLOG_CHECKPOINT between", REDO_UNUSABLE),
        ("InnoDB: Error: log file ./ib_logfile0 is of different size 0 50331648 bytes", REDO_SIZE),
        ("InnoDB: The innodb_system data file './ibdata1' is of a different size 768 pages", DATA_SIZE),
        ("InnoDB: Attempted to open a previously opened tablespace.", SAME_NUMBER),
        ("InnoDB: Space id in fsp header 12,but in the page header 7", DAMAGED),
        ("[MY-011825] [Xtrabackup] log block numbers mismatch:", OVERTAKEN),
        (
            "[MY-011825] [Xtrabackup] File '/b/log.000002' not found (OS errno 2 - No such file)",
            BACKUP_MISSES,
        ),
        ("[MY-011825] [Xtrabackup] Failed to open the source file '/b/log.000002'.", BACKUP_MISSES),
        ("InnoDB: preallocating 98304 bytes for file ./shop/stock.ibd failed with error 2", NOT_EXTENDED),
        ("InnoDB: Operating system error number 21 in a file operation.", FOLDER_FOR_FILE),
        ("InnoDB: Operating system error number 2 in a file operation.", NO_SUCH_FILE),
        ("[InnoDB] Could not allocate undo segment slot for persisting GTID. DB Error: 14", NO_UNDO_LOG),
        ("[MY-000000] [WSREP-SST] FATAL: Found existing /data//sst-xb-tmpdir", REMNANT),
        ("[MY-000000] [WSREP] Failed to read uuid:seqno from joiner script.", STATE_TRANSFER),
        ("WSREP: Quorum: found no complete state, cannot continue", INCOMPLETE),
        (
            "[Repl] Plugin group_replication reported: 'Unable to ensure the execution of group transactions received during recovery.'",
            LEFT,
        ),
        (
            "Error reading packet from server for channel '': the master has purged binary logs (server_errno=1236)",
            RECEIVER_ENDED,
        ),
        (
            "Error reading packet from server: Lost connection to MySQL server during query (server_errno=2013)",
            "replication: the receiver lost its connection to its source",
        ),
        ("mysqld: Got an error reading communication packets", CONNECTIONS_LOST),
    ] {
        let says = crate::error_log::read(&format!("2024-03-04 10:11:12 7 [ERROR] {words}\n")).says;
        assert!(says.len() == 1 && says[0].starts_with(meaning), "{words}: {says:?}");
    }
}

#[test]
fn a_state_transfer_that_failed_is_a_trouble_until_one_is_complete() {
    let kinds = |words: &str| -> Vec<TroubleKind> {
        let log = crate::error_log::read(&format!("2024-03-04 10:11:12 0 [Warning] WSREP: {words}\n"));
        log.troubles.iter().map(|trouble| trouble.kind).collect()
    };
    for words in [
        "1.0 (db-b): State transfer to 2.0 (db-c) failed: -113 (No route to host)",
        "SST failed: 1 (Operation not permitted)",
        "Failed to prepare for 'rsync' SST. Unrecoverable.",
        "Failed to read 'ready <addr>' from: wsrep_sst_rsync --role 'joiner' --address '10.1.1.2'",
        "receiving IST failed, node restart required: sequence gap",
        "async IST sender failed to serve 'tcp://10.1.1.2:4568': ist send failed: 104",
    ] {
        assert_eq!(kinds(words), [TroubleKind::StateTransferFailed], "{words}");
        let then = format!("{words}\n2024-03-04 10:21:12 0 [Note] WSREP: Shifting JOINER -> JOINED");
        assert_eq!(kinds(&then), [], "{words}");
    }
    assert_eq!(kinds("Failed to prepare for incremental state transfer: Local state seqno is 0"), []);
    assert_eq!(kinds("1.0 (db-b): State transfer to 2.0 (db-c) complete."), []);
}

/// The troubles that some lines of a log end with.
fn kinds(lines: &[&str]) -> Vec<TroubleKind> {
    let lines = lines.iter().map(|words| format!("2024-03-04T10:11:12.1Z 7 {words}\n"));
    let log = crate::error_log::read(&lines.collect::<String>());
    log.troubles.iter().map(|trouble| trouble.kind).collect()
}

#[test]
fn a_table_that_is_marked_as_crashed_is_a_trouble_until_the_server_repairs_it() {
    let marked = "[ERROR] mysqld: Table './shop/stock' is marked as crashed and should be repaired";
    let repairs = "[Warning] Recovering table: './shop/stock'";
    let failed =
        "[ERROR] mysqld: Table './shop/stock' is marked as crashed and last (automatic?) repair failed";
    assert_eq!(kinds(&[marked]), [TroubleKind::TableCrashed]);
    assert_eq!(kinds(&[marked, "[Warning] Checking table:   './shop/stock'", repairs]), []);
    assert_eq!(kinds(&[marked, repairs, failed]), [TroubleKind::TableCrashed]);
}

#[test]
fn the_statement_of_an_applier_that_met_a_crashed_table_is_not_shown() {
    let line = "2024-03-04T10:11:12.1Z 7 [ERROR] Slave SQL: Error 'Table './shop/stock' is marked as crashed and should be repaired' on query. \
                Default database: 'shop'. Query: 'INSERT INTO stock VALUES (7, 'secret')', Error_code: 145\n";
    let log = crate::error_log::read(line);
    let crashed = log.troubles.iter().find(|trouble| trouble.kind == TroubleKind::TableCrashed);
    let shown = crashed.map(|trouble| trouble.line.as_str()).unwrap_or_default();
    assert!(shown.contains("./shop/stock") && !shown.contains("secret"), "{shown}");
}

#[test]
fn semi_sync_that_was_lost_is_a_trouble_until_it_is_back_or_taken_away_on_purpose() {
    let late = "[Warning] [MY-011153] [Repl] Timeout waiting for reply of binlog (file: b.000007, pos: 812), semi-sync up to file b.000007, \
                position 411.";
    let off = "[Note] Semi-sync replication switched OFF.";
    let lost = [TroubleKind::SemiSyncLost];
    assert_eq!(kinds(&[late]), lost);
    assert_eq!(kinds(&[off]), lost);
    for over in [
        "[Note] [MY-011156] [Repl] Semi-sync replication switched ON at (b.000007, 900)",
        "[Note] Semi-sync replication switched ON with slave (server_id: 7) at (b.000007, 900)",
        "[Note] Semi-sync replication disabled on the master.",
        "[Note] mysqld: ready for connections.",
    ] {
        assert_eq!(kinds(&[late, off, over]), [], "{over}");
    }
    assert!(kinds(&[off, "[Note] Start semi-sync binlog_dump to slave (server_id: 7)"]) == lost);
}

#[test]
fn a_backup_that_was_overtaken_is_a_trouble_until_one_is_complete() {
    for words in [
        "[ERROR] [MY-011825] [Xtrabackup] log block numbers mismatch:",
        "[ERROR] [MY-011825] [Xtrabackup] Possibly the redo log files have been removed by the server. Consider",
        "[ERROR] InnoDB: Was only able to copy log from 12 to 34, not 56; try increasing innodb_log_file_size",
    ] {
        assert_eq!(kinds(&[words]), [TroubleKind::BackupOvertaken], "{words}");
        assert_eq!(kinds(&[words, "[Note] [MY-011825] [Xtrabackup] completed OK!"]), [], "{words}");
    }
}

#[test]
fn pages_that_are_newer_than_the_redo_log_are_a_trouble_of_a_server_that_runs_too() {
    let log = crate::error_log::read(
        "2024-03-04 10:11:12 0 [ERROR] InnoDB: Page [page id: space=3, page number=8] log sequence number 99 is in the future! Current \
             system log sequence number 7.\n2024-03-04 10:11:13 0 [Note] mysqld: ready for connections.\n",
    );
    let kinds: Vec<TroubleKind> = log.troubles.iter().map(|trouble| trouble.kind).collect();
    assert_eq!(kinds, [TroubleKind::PagesNewer]);
}

#[test]
fn a_signal_of_which_systemd_says_no_number_is_a_trouble() {
    let log = crate::error_log::read(
        "Dec 06 18:09:16 db1 systemd[1]: mysqld.service: Failed with result 'signal'.\n",
    );
    let kinds: Vec<TroubleKind> = log.troubles.iter().map(|trouble| trouble.kind).collect();
    assert_eq!(kinds, [TroubleKind::EndedBySignal]);
}

#[test]
fn a_node_that_differs_from_its_cluster_is_a_trouble_without_values_until_it_is_started_again() {
    let troubles = |text: &str| crate::error_log::read(text).troubles;
    let time = "2024-03-04 10:11:12 7 [ERROR]";
    for words in [
        "WSREP: gcs_group.cpp:322: Reversing history: 12 -> 0, this member has applied 12 more events than the primary component",
        "WSREP: Node consistency compromised, aborting...",
        "Slave SQL: Could not execute Write_rows event on table shop.t; Duplicate entry 'secret' for key 'PRIMARY', Error_code: 1062; \
             handler error HA_ERR_FOUND_DUPP_KEY; the event's master log FIRST, end_log_pos 0",
    ] {
        let line = format!("{time} {words}\n");
        let kinds: Vec<TroubleKind> = troubles(&line).iter().map(|trouble| trouble.kind).collect();
        assert_eq!(kinds, [TroubleKind::NodeDiffers], "{words}");
        assert!(!troubles(&line)[0].line.contains("secret"), "{words}");
        let started = "2024-03-04 10:21:12 0 [Note] WSREP: gcomm: connecting to group 'shop', peer 'db-b:'\n";
        assert_eq!(troubles(&format!("{line}{started}")), [], "{words}");
    }
}

#[test]
fn system_tables_that_are_damaged_or_of_another_version_are_a_trouble_until_the_server_has_started() {
    for words in [
        "Fatal error: Can't open and lock privilege tables: Incorrect file format 'db'",
        "Fatal error: Can't open and lock privilege tables: Index for table 'user' is corrupt; try to repair it",
        "mysqld: Table './mysql/proc' is marked as crashed and should be repaired",
        "Cannot load from mysql.event. The table is probably corrupted",
        "Missing system table mysql.proxies_priv; please run mysql_upgrade to create it",
    ] {
        let line = format!("2024-03-04T10:11:12.1Z 0 [ERROR] {words}\n");
        let log = crate::error_log::read(&line);
        let kinds: Vec<TroubleKind> = log.troubles.iter().map(|trouble| trouble.kind).collect();
        assert_eq!(kinds, [TroubleKind::SystemTablesDamaged], "{words}");
        let started = "2024-03-04T10:11:13.1Z 0 [Note] mysqld: ready for connections.\n";
        assert_eq!(crate::error_log::read(&format!("{line}{started}")).troubles, [], "{words}");
    }
}

#[test]
fn a_log_that_cannot_be_written_does_not_keep_a_server_from_starting() {
    let log = crate::error_log::read(
        "mysqld: File '/var/log/slow.log' not found (Errcode: 13 - Permission denied)\n\
             2024-03-04T10:11:12.1Z 0 [ERROR] Could not use /var/log/slow.log for logging (error 13 - Permission denied).\n",
    );
    assert_eq!(log.troubles, [], "{:?}", log.troubles);
    assert!(log.says[0].starts_with("a log could not be written"), "{:?}", log.says);
}

#[test]
fn lines_of_one_failure_are_counted_once() {
    let time = "2024-03-04T10:11:12.1Z 7 [ERROR]";
    let receiver = format!(
        "{time} Error reading packet from server for channel 'c': purged (server_errno=1236)\n\
             {time} Slave I/O for channel 'c': Got fatal error 1236 from master when reading data from binary log: 'purged', Error_code: 1236\n\
             {time} Slave I/O for channel 'c': Relay log write failure: could not queue event from master, Error_code: 1595\n"
    );
    let says = crate::error_log::read(&receiver).says;
    assert_eq!(says, [format!("{RECEIVER_ENDED}, last at 2024-03-04 10:11:12")]);
}

#[test]
fn events_of_probes_are_said_whatever_their_container() {
    let text = "Events:\n  Type     Reason     Age    From     Message\n  ----     ------     ----   ----     -------\n  \
                    Warning  Unhealthy  19m (x71 over 5d)  kubelet  Liveness probe failed:\n  \
                    Warning  Unhealthy  14m (x37 over 5d)  kubelet  Readiness probe failed: timeout\n";
    let says: Vec<String> = crate::recognise("a", text).into_iter().flat_map(|part| part.says).collect();
    assert_eq!(says, [LIVENESS, READINESS]);
    assert!(!is_event_of_probe("our liveness probe failed: why?"));
}

#[test]
fn a_number_of_an_error_ends_where_its_digits_do() {
    assert!(has_sign("write failed, error 28", "error 28") && has_sign("error 28: no", "error 28"));
    assert!(!has_sign("error 2813", "error 28") && has_sign("error 2813, error 28", "error 28"));
}
