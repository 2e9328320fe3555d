use spindoctor_model::TroubleKind;

use super::catalogue::TROUBLES;
use super::cluster::{
    AHEAD, APPLIER_WAITS, DIRECT_LOST, INCOMPLETE, INCONSISTENT, LEFT, NO_PROVIDER, NO_SESSION,
    NODE_CERTIFICATE, NOT_CONNECTED, NOT_FIRST, NOT_JOINED, NOT_REACHED, PEER_SILENT, REMNANT,
    STATE_TRANSFER,
};
use super::files::{
    BACKUP_MISSES, DAMAGED, DATA_SIZE, EMPTY_DATA, FILE_EXISTS, FOLDER_FOR_FILE, KEYS_MISSING, LOG_NOT_MADE,
    NEWER_PAGES, NO_SUCH_FILE, NO_UNDO_LOG, NOT_EXTENDED, NOT_IN_DICTIONARY, NOT_OWNED, OVERTAKEN,
    REDO_BLOCK, REDO_GONE, REDO_SIZE, REDO_UNUSABLE, SAME_NUMBER, SHORT_FILE,
};
use super::host::{LIVENESS, READINESS, STARTUP, is_event_of_probe, is_of_script};
use super::replication::RECEIVER_ENDED;
use super::server::{
    CHANGE_BUFFER, CONNECTIONS_LOST, ENDED_BY_LATCH, FEWER_FILES, FILE_OPERATION, FULL, NO_AIO,
    NO_CERTIFICATE, NO_LOGIN, NO_LOGIN_PLUGIN, NO_TLS, OLD_TABLES, PAGE_ENDED_IT, PLUGIN_ENDED, RECOVERED,
};
use super::{entry_of_log, has_sign, own_test};
use crate::kernel_log::DISK_ERRORS;

#[test]
fn what_lines_of_each_kind_mean_is_said_and_no_error_is_left_over() {
    for (words, meaning) in [
        (
            "WSREP: gcs/src/gcs_group.cpp:322: Reversing history: 12 -> 0, this member has applied 12 more",
            AHEAD,
        ),
        ("WSREP: Node consistency compromised, aborting...", INCONSISTENT),
        (
            "[MY-000000] [Galera] Inconsistency detected: Inconsistent by consensus on e234baca-17b2-11ed-b5e0-9ef13b0a9e4f:1025",
            INCONSISTENT,
        ),
        (
            "[MY-013780] [Repl] Plugin group_replication reported: 'Failed to establish MySQL client connection in Group Replication. Error'",
            NO_SESSION,
        ),
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
        (
            "InnoDB: The Auto-extending innodb_system data file './ibdata1' is of a different size 0 pages than specified",
            EMPTY_DATA,
        ),
        ("InnoDB: Cannot set log file ./ib_logfile1 size to 50331648 bytes", LOG_NOT_MADE),
        (
            "mariadbd: Can't change permissions of the file './ddl_recovery-backup.log' (Errcode: 1 \"Operation not permitted\")",
            NOT_OWNED,
        ),
        (
            "InnoDB: Missing FILE_CREATE, FILE_DELETE or FILE_MODIFY before FILE_CHECKPOINT for tablespace 7",
            REDO_UNUSABLE,
        ),
        ("InnoDB: Malformed log record; set innodb_force_recovery=1 to ignore.", REDO_UNUSABLE),
        ("InnoDB: Tried to read 16384 bytes at offset 81920. Was only able to read 0.", SHORT_FILE),
        (
            "InnoDB: Cannot open table a/b from the internal data dictionary of InnoDB though the .frm file for the table exists.",
            NOT_IN_DICTIONARY,
        ),
        (
            "Plugin group_replication reported: '[GCS] Error on opening a connection to db3:6606 on local port: 6606.'",
            NOT_REACHED,
        ),
        ("InnoDB: Attempted to open a previously opened tablespace.", SAME_NUMBER),
        ("InnoDB: Encryption can't find master key, please check the keyring is loaded.", KEYS_MISSING),
        (
            "InnoDB: Encryption information in datafile: ./a.ibd can't be decrypted, please confirm that keyring is loaded.",
            KEYS_MISSING,
        ),
        (
            "Failed to set up SSL because of the following SSL library error: Unable to get private key",
            NO_TLS,
        ),
        (
            "Failed to set up SSL because of the following SSL library error: SSL context is not usable without certificate and \
             private key",
            NO_CERTIFICATE,
        ),
        (
            "Failed to initialize TLS for channel: mysql_admin. See below for the description of exact issue.",
            NO_CERTIFICATE,
        ),
        ("Plugin 'mysql_native_password' is not loaded", NO_LOGIN_PLUGIN),
        ("Can't create/write to file './ibdata1' (Errcode: 17 - File exists)", FILE_EXISTS),
        ("Changed limits: max_connections: 214 (requested 500)", FEWER_FILES),
        ("InnoDB: Starting crash recovery from checkpoint LSN=45297481", RECOVERED),
        ("InnoDB: Error: trying to add tablespace 210 of name './shop/a.ibd'", SAME_NUMBER),
        ("InnoDB: Space id in fsp header 12,but in the page header 7", DAMAGED),
        ("[MY-011825] [Xtrabackup] log block numbers mismatch:", OVERTAKEN),
        ("[MY-011825] [Xtrabackup] read_logfile() failed.", REDO_GONE),
        ("[MY-011825] [Xtrabackup] log copying failed.", REDO_GONE),
        ("InnoDB: Log block checksum mismatch: LSN 7, expected 1, calculated checksum 2", REDO_BLOCK),
        ("InnoDB: Invalid log block checksum. block: 7 checkpoint no: 1 expected: 3 found: 4", REDO_BLOCK),
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
        (
            "[Repl] Plugin group_replication reported: '[GCS] The member was unable to join the group. Local port: 33061'",
            NOT_JOINED,
        ),
        (
            "[MY-011640] [Repl] Plugin group_replication reported: 'Timeout on wait for view after joining group'",
            NOT_JOINED,
        ),
        (
            "WSREP: (3fb1, 'tcp://0.0.0.0:4567') turning message relay requesting on, nonlive peers: tcp://10.1.1.2:4567",
            DIRECT_LOST,
        ),
        (
            "WSREP: handshake with remote endpoint ssl://10.1.1.2:4567 failed: asio.ssl:3370: 'certificate verify failed'",
            NODE_CERTIFICATE,
        ),
        ("WSREP: wsrep::init() failed: 7, must shutdown", NO_PROVIDER),
        (
            "WSREP: (c91, 'tcp://0.0.0.0:4567') connection to peer 0-0 with addr tcp://10.1.1.2:4567 timed out, no messages seen in PT3S",
            PEER_SILENT,
        ),
        (
            "WSREP: gcs/src/gcs_core.cpp:gcs_core_open():209: Failed to open backend connection: -110 (Connection timed out)",
            NOT_CONNECTED,
        ),
        (
            "WSREP: gcs/src/gcs.cpp:gcs_open():1458: Failed to open channel 'c' at 'gcomm://db1': -110 (Connection timed out)",
            NOT_CONNECTED,
        ),
        ("WSREP: gcs connect failed: Connection timed out", NOT_CONNECTED),
        ("WSREP: wsrep::connect(gcomm://db1) failed: 7", NOT_CONNECTED),
        (
            "InnoDB: Not applying INSERT_HEAP_DYNAMIC due to corruption on [page id: space=2, page number=7]",
            DAMAGED,
        ),
        ("InnoDB: Aborting because of a corrupt database page in the system tablespace.", PAGE_ENDED_IT),
        ("InnoDB: Cannot continue operation.", FILE_OPERATION),
        ("InnoDB: File (unknown): 'read' returned OS error 205. Cannot continue operation", DISK_ERRORS),
        ("InnoDB: File ./ibdata1: 'aio write' returned OS error 128. Cannot continue operation", FULL),
        ("InnoDB: Error number 5 means 'I/O error'", DISK_ERRORS),
        ("Plugin 'ROCKSDB' init function returned error.", PLUGIN_ENDED),
        ("Plugin 'ROCKSDB' registration as a STORAGE ENGINE failed.", PLUGIN_ENDED),
        ("Native table 'performance_schema'.'users' has the wrong structure", OLD_TABLES),
        ("Incorrect definition of table mysql.event: expected column 'a' at position 0", OLD_TABLES),
        (
            "Completing change buffer merge; 1 page reads initiated; 3 change buffer pages remain",
            CHANGE_BUFFER,
        ),
        ("InnoDB: Error: io_setup() failed with EAGAIN after 5 attempts.", NO_AIO),
    ] {
        let says = crate::error_log::read(&format!("2024-03-04 10:11:12 7 [ERROR] {words}\n")).says;
        assert!(says.len() == 1 && says[0].starts_with(meaning), "{words}: {says:?}");
    }
}

#[test]
fn a_page_that_the_doublewrite_buffer_had_is_not_damaged() {
    let tried = "InnoDB: Database page corruption or a failed file read of page [page id: space=0, page number=440]. Trying to recover it from the \
                 doublewrite buffer.";
    let recovered = "InnoDB: Recovered page [page id: space=0, page number=440] from the doublewrite buffer.";
    assert_eq!(kinds(&[&format!("[Warning] {tried}"), &format!("[Note] {recovered}")]), []);
    let damaged = "[ERROR] InnoDB: Database page corruption on disk or a failed file read of page [page id: space=0, page number=440].";
    assert_eq!(kinds(&[damaged]), [TroubleKind::PageDamaged]);
}

#[test]
fn a_start_that_has_not_its_keys_says_so() {
    let log = "2024-03-04T10:11:12.1Z 1 [ERROR] [MY-012657] [InnoDB] Encryption can't find master key, please check the keyring is loaded.\n\
               2024-03-04T10:11:13.1Z 0 [ERROR] [MY-010119] [Server] Aborting\n";
    let parts = crate::recognise("error.log", log);
    let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].headline, "The server does not start: the keys of encrypted data are not there");
}

#[test]
fn what_ends_a_server_is_a_crash_and_a_check_of_its_port_is_no_lost_session() {
    let read = |words: &str| crate::error_log::read(&format!("2024-03-04 10:11:12 7 [ERROR] {words}\n"));
    for words in [
        "[FATAL] InnoDB: Aborting because of a corrupt database page in the system tablespace.",
        "InnoDB: File ./a.ibd: 'open' returned OS error 71. Cannot continue operation",
    ] {
        let kinds: Vec<TroubleKind> = read(words).troubles.iter().map(|trouble| trouble.kind).collect();
        assert_eq!(kinds, [TroubleKind::Crashed], "{words}");
    }
    let closed = "Aborted connection 8 to db: 'unconnected' user: 'unauthenticated' host: '10.1.1.2' (This connection closed normally without \
                  authentication)";
    let log = read(closed);
    assert_eq!(log.says, [format!("{NO_LOGIN}, last at 2024-03-04 10:11:12")]);
    assert_eq!(log.troubles, []);
    // At a start the list of peers is empty.
    let start =
        read("WSREP: (3fb1, 'tcp://0.0.0.0:4567') turning message relay requesting on, nonlive peers: ");
    assert!(start.says.iter().all(|said| !said.starts_with(DIRECT_LOST)), "{:?}", start.says);
}

#[test]
fn a_wait_for_a_latch_that_ended_the_server_is_one_in_two_lines() {
    let says = crate::error_log::read(
        "InnoDB: Error: semaphore wait has lasted > 600 seconds\nInnoDB: We intentionally crash the server, because it appears to be hung.\n",
    )
    .says;
    assert_eq!(says, [ENDED_BY_LATCH]);
}

#[test]
fn what_the_panel_of_xampp_says_is_a_server_that_ended_until_it_has_started() {
    let panel = "10:11:12 PM  [mysql] \tError: MySQL shutdown unexpectedly.\n10:11:12 PM  [mysql] \tThis may be due to a blocked port\n";
    let parts = crate::recognise("a.txt", panel);
    let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].headline.starts_with("The server does not start"), "{}", found[0].headline);
    let started = "2024-03-04 22:12:12 0 [Note] mysqld: ready for connections.\n";
    assert_eq!(crate::error_log::read(&format!("{panel}{started}")).troubles, []);
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
fn an_exception_of_windows_is_a_crash() {
    let log = crate::error_log::read(
        "240511 10:11:12 [ERROR] mysqld got exception 0xc0000005 ;\nAttempting backtrace. You can use the following information to find out\n\
         server.dll!JOIN::optimize()[sql_select.cc:1944]\nserver.dll!do_command()[sql_parse.cc:1407]\n",
    );
    let found: Vec<(TroubleKind, &str)> =
        log.troubles.iter().map(|trouble| (trouble.kind, trouble.detail.as_str())).collect();
    assert_eq!(found, [(TroubleKind::Crashed, "it died in JOIN::optimize")]);
    assert!(!log.says.iter().any(|said| said.contains("not known here")), "{:?}", log.says);
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
        "mysqld.exe: Table '.\\mysql\\db' is marked as crashed and should be repaired",
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
                    Warning  Unhealthy  14m (x37 over 5d)  kubelet  Readiness probe failed: timeout\n  \
                    Warning  Unhealthy  14m (x37 over 5d)  kubelet  Startup probe failed: timeout\n";
    let says: Vec<String> = crate::recognise("a", text).into_iter().flat_map(|part| part.says).collect();
    assert_eq!(says, [LIVENESS, READINESS, STARTUP]);
    assert!(!is_event_of_probe("our liveness probe failed: why?"));
}

#[test]
fn a_server_that_kubernetes_or_a_supervisor_ended_is_a_finding_until_it_has_started() {
    let probe =
        "  Normal   Killing    8m    kubelet   Container mysql failed liveness probe, will be restarted\n";
    let killed = "2024-03-04 10:11:12 0 [Note] mysqld: something\n[10:11:13] INFO: Service mariadb exited with code 256 (by signal 9)\n";
    let ready = "2024-03-04 10:11:14 0 [Note] mysqld: ready for connections.\n";
    let old = "Killing container with id docker://mysql:Container failed liveness probe.. Container will be killed and recreated.\n";
    let gave_up = "2024-03-04 10:11:12,642 INFO gave up: mysqld entered FATAL state, too many start retries too quickly\n";
    let stopped = "Mar 04 10:11:12 db1 systemd[1]: mysql.service: State 'stop-sigterm' timed out. Killing.\n";
    for (text, begins) in [
        (probe, "Kubernetes ended the server"),
        (killed, "The server was killed (SIGKILL)"),
        (old, "Kubernetes ended the server, because its liveness probe"),
        (gave_up, "The server does not start"),
        (stopped, "systemd killed the server (SIGKILL), because its shutdown took too long"),
    ] {
        let log = crate::error_log::read(text);
        let error_log = log.troubles;
        let window = spindoctor_model::Window { error_log, ..spindoctor_model::Window::default() };
        let found = spindoctor_rules::diagnose(&window).findings;
        assert!(found.len() == 1 && found[0].headline.starts_with(begins), "{found:#?}");
        assert_eq!(crate::error_log::read(&format!("{text}{ready}")).troubles, []);
        // A program beside the server.
        let beside = text.replace("Container mysql ", "Container mysqld-exporter ");
        let beside = beside.replace("Service mariadb ", "Service mariadb-backup ");
        let beside = beside.replace("docker://mysql:", "docker://mysqld-exporter:");
        let beside = beside.replace("gave up: mysqld ", "gave up: mysqld-exporter ");
        let beside = beside.replace("mysql.service", "mysqld_exporter.service");
        assert_eq!(crate::error_log::read(&beside).troubles, [], "{beside}");
    }
}

#[test]
fn a_number_of_an_error_ends_where_its_digits_do() {
    assert!(has_sign("write failed, error 28", "error 28") && has_sign("error 28: no", "error 28"));
    assert!(!has_sign("error 2813", "error 28") && has_sign("error 2813, error 28", "error 28"));
}

#[test]
fn a_node_that_finds_itself_among_its_peers_is_no_silent_one() {
    let line = |peer: &str| {
        format!(
            "2024-03-04 10:11:12 0 [Note] WSREP: (da8f1995, 'tcp://0.0.0.0:4567') connection to peer {peer} with addr tcp://10.1.1.2:4567 timed \
             out, no messages seen in PT3S\n"
        )
    };
    assert_eq!(crate::error_log::read(&line("da8f1995")).says, Vec::<String>::new());
    assert!(crate::error_log::read(&line("00000000")).says[0].starts_with(PEER_SILENT));
}

#[test]
fn what_mysql_server_says_is_a_server_that_did_not_start() {
    for line in [
        "Starting MySQL... ERROR! The server quit without updating PID file (/d/db1.pid).",
        ".. ERROR! The server quit without updating PID file (/d/db1.pid).",
        "Starting MySQL.Manager of pid-file quit without updating file.[FAILED]",
    ] {
        let parts = crate::recognise("a.txt", &format!("It does not start:\n\n{line}\n"));
        let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert!(
            found.len() == 1 && found[0].headline.starts_with("The server does not start"),
            "{line}: {parts:#?}"
        );
    }
    assert!(!is_of_script("How do I mend \"The server quit without updating PID file\"?"));
}

#[test]
fn a_supervisor_says_that_the_server_was_killed() {
    let says = |name: &str| {
        let log = format!("[08:36:43] INFO: Service {name} exited with code 256 (by signal 9)\n");
        crate::error_log::read(&format!("2024-03-04 10:11:12 0 [Note] mysqld: something\n{log}")).says
    };
    assert!(says("mariadb")[0].starts_with("the server was killed (SIGKILL)"), "{:?}", says("mariadb"));
    assert_eq!(says("nginx"), Vec::<String>::new());
}

#[test]
fn a_table_that_is_full_because_innodb_has_no_undo_log_is_not_said_to_lack_room() {
    let full = "2024-03-04T10:11:12.1Z 0 [ERROR] [MY-013132] [Server] The table 'stock' is full! (handler.cc:4466)\n";
    let undo = "2024-03-04T10:11:12.2Z 0 [ERROR] [MY-011980] [InnoDB] Could not allocate undo segment slot for persisting GTID. DB Error: 14\n";
    let headline = |text: &str| {
        let found = spindoctor_rules::diagnose(&crate::window(&crate::recognise("error.log", text))).findings;
        assert_eq!(found.len(), 1, "{found:#?}");
        found[0].headline.clone()
    };
    assert!(headline(&format!("{full}{undo}")).contains("no undo log"), "{}", headline(full));
    assert!(headline(full).contains("a table has no room"), "{}", headline(full));
}

#[test]
fn a_line_is_the_first_entry_whose_sign_it_has_however_the_signs_are_looked_for() {
    let lines = TROUBLES.iter().flat_map(|(sign, ..)| {
        [format!("[ERROR] {sign}: and so on"), format!("[ERROR] {sign}7"), format!("{sign} {sign}")]
    });
    for line in lines {
        let lower = line.to_ascii_lowercase();
        let is_entry = |sign: &str| match own_test(sign) {
            Some(is_entry) => is_entry(sign, &line, &lower),
            None => has_sign(&lower, sign),
        };
        let expected = TROUBLES.iter().position(|(sign, ..)| is_entry(sign));
        assert_eq!(entry_of_log(&line, &lower), expected, "{line}");
    }
}
