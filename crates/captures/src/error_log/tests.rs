use spindoctor_model::TroubleKind;

use super::death::{failed_check, until_blank};
use super::*;

#[test]
fn troubles_are_counted_and_the_last_waits_kept() {
    let log = read(
        "2018-02-12T09:52:22.123456Z 0 [Note] InnoDB: page_cleaner: 1000ms intended loop took 18342ms. The settings\n\
             2018-02-12T09:53:22.123456Z 0 [Note] InnoDB: page_cleaner: 1000ms intended loop took 4000ms. The settings\n\
             2018-02-12T09:54:22.123456Z 0 [Warning] InnoDB: A long semaphore wait:\n\
             --Thread 140406675191552 has waited at row0purge.cc line 862 for 241.00 seconds the semaphore:\n\
             S-lock on RW-latch at 0x3ca8738 created in file dict0dict.cc line 1183\n\
             2018-02-12T09:55:22.123456Z 0 [Note] something else\n\
             Version: '5.7.21-log'  socket: '/tmp/mysql.sock'  port: 3306  MySQL Community Server (GPL)\n",
    );
    assert_eq!(log.says.len(), 2, "{:?}", log.says);
    assert!(log.says[1].contains("18.3 s at most") && log.says[1].contains("2 times"), "{:?}", log.says);
    assert_eq!(log.version.map(|v| v.to_string()).as_deref(), Some("MySQL 5.7.21"));
    assert_eq!(log.waits.map(|waits| waits.lines().count()), Some(2));
}

#[test]
fn what_follows_an_error_is_not_a_second_one() {
    for (line, said) in [
        ("InnoDB: Unable to create the shared innodb_temporary.", "the server ended at its start"),
        ("InnoDB: Server exits.", "InnoDB ended the server because of the error above that"),
        ("DDL_LOG: Failed to create ddl log file: ./ddl_recovery.log", "the server ended at its start"),
        (
            "[MY-010952] [Server] The privilege system failed to initialize correctly. For complete instructions",
            "the server ended at its start",
        ),
    ] {
        let says = read(&format!("2024-03-04 10:11:12 0 [ERROR] {line}\n")).says;
        assert_eq!(says, [format!("{said}, last at 2024-03-04 10:11:12")], "{line}");
    }
}

#[test]
fn a_file_that_another_process_may_use_is_in_use_unless_none_can_be_locked() {
    let log = |number: u32| {
        read(&format!(
            "2024-03-04 10:11:12 0 [ERROR] mariadbd: Can't lock aria control file '/d/aria_log_control' for exclusive use, error: \
                 {number}. Will retry for 30 seconds\n2024-03-04 10:11:43 0 [ERROR] mariadbd: Got error 'Could not get an exclusive lock; \
                 file is probably in use by another process' when trying to use aria control file '/d/aria_log_control'\n"
        ))
    };
    for (number, kind, said) in [
        (11, TroubleKind::FilesInUse, "the server does not start: another server has its data files open"),
        (
            37,
            TroubleKind::FileRefused,
            "the server does not start: the file system of its data gives no locks",
        ),
    ] {
        let log = log(number);
        assert!(log.troubles.iter().all(|trouble| trouble.kind == kind), "{:?}", log.troubles);
        assert!(log.says.len() == 1 && log.says[0].starts_with(said), "{:?}", log.says);
    }
}

#[test]
fn a_log_that_could_not_be_opened_is_no_file_that_the_server_needs() {
    let opened = "mysqld: File '/var/log/slow.log' not found (Errcode: 13 - Permission denied)\n";
    let goes_on = "2024-03-04T10:11:12.1Z 0 [ERROR] Could not use /var/log/slow.log for logging (error 13 - Permission denied).\n";
    let says = read(&format!("{opened}{goes_on}")).says;
    assert!(says.len() == 1 && says[0].starts_with("a log could not be written"), "{says:?}");
    let other = "mysqld: File '/data/auto.cnf' not found (Errcode: 13 - Permission denied)\n";
    for text in [format!("{opened}{goes_on}{other}"), format!("{other}{opened}{goes_on}")] {
        let troubles = read(&text).troubles;
        assert!(troubles.len() == 1 && troubles[0].line.contains("auto.cnf"), "{text}: {troubles:?}");
    }
}

#[test]
fn an_applier_s_error_behind_a_long_statement_is_known() {
    let statement = "INSERT INTO stock VALUES (1, 'a thing with a name that is long')".repeat(20);
    let says = read(&format!(
        "2024-03-04 10:11:12 7 [ERROR] Slave SQL: Error 'Duplicate entry '7' for key 'PRIMARY'' on query. Default database: 'shop'. \
             Query: '{statement}', Gtid 0-1-2, Internal MariaDB error code: 1062\n"
    ))
    .says;
    assert_eq!(says, ["replication stopped: the applier met an error, last at 2024-03-04 10:11:12"]);
}

#[test]
fn an_applier_s_error_of_mysql_5_0_is_known() {
    let line = "091012 19:50:05 [ERROR] Slave: Error 'Duplicate entry '4711' for key 1' on query. Default database: 'shop'. Query: 'INSERT \
                INTO stock SELECT 4711', Error_code: 1062\n";
    assert_eq!(
        read(line).says,
        ["replication stopped: the applier met an error, last at 2009-10-12 19:50:05"]
    );
}

#[test]
fn the_line_of_a_trouble_is_shown_without_what_a_letter_put_around_it() {
    for line in [
        "> `Disk is full writing './b.000007'`",
        "│ Disk is full writing './b.000007'   │",
        "`Disk is full writing './b.000007'",
    ] {
        assert_eq!(read(line).troubles[0].line, "Disk is full writing './b.000007'", "{line}");
    }
}

#[test]
fn a_thread_that_died_in_a_plugin_names_it_and_a_long_check_ends_at_a_word() {
    let frames = "\nterribly wrong...\nstack_bottom = 7fe4dc074e98 thread_stack 0x30000\n\
                      /usr/sbin/mysqld(my_print_stacktrace+0x20)[0x560ad04c5b60]\n\
                      /usr/sbin/mysqld(handle_fatal_signal+0x3d5)[0x560ad03aeea5]\n\
                      /lib/x86_64-linux-gnu/libpthread.so.0(+0x10330)[0x7fe4e0a47330]\n";
    let plugin = "/usr/lib/mysql/plugin/watcher.so(+0x1c3b0)[0x7fe4d81c33b0]\n";
    let own = "/usr/sbin/mysqld(_Z14row_purge_stepP9que_thr_t+0x310)[0xf2b3e0]\n";
    let died = |rest: &str| function_of_death(&format!("{frames}{rest}"));
    assert_eq!(died(&format!("{plugin}{own}")).as_deref(), Some("it died in the plugin watcher.so"));
    assert_eq!(died(&format!("{own}{plugin}")).as_deref(), Some("it died in row_purge_step"));
    let memory = "/usr/lib64/libjemalloc.so.1(+0xc691)[0x7fa598531691]\n";
    assert_eq!(died(memory).as_deref(), Some("it died in libjemalloc.so.1"));
    assert_eq!(died(&format!("{memory}{own}")).as_deref(), Some("it died in row_purge_step"));
    let (asked, wanted) = ("first(x)".repeat(6), "second(y)".repeat(6));
    let long = format!("a check of its own failed, a.cc line 1: {asked} == {wanted}");
    let short = until_blank(&long);
    assert!(short.ends_with("first(x) ...") && short.len() <= 120, "{short}");
    assert_eq!(until_blank("a.cc line 1: b"), "a.cc line 1: b");
}

#[test]
fn a_thread_did_not_die_in_the_function_that_every_thread_begins_with() {
    let frames = "\nstack_bottom = 0 thread_stack 0x80000\n\
                      /usr/sbin/mysqld(my_print_stacktrace+0x35)[0x7d4c85]\n\
                      /usr/sbin/mysqld(handle_fatal_signal+0x3e1)[0x690cb1]\n\
                      /lib/x86_64-linux-gnu/libpthread.so.0(+0xfcb0)[0x7fd2b94c7cb0]\n\
                      /usr/sbin/mysqld[0x8f2df2]\n";
    let entry = "/lib/x86_64-linux-gnu/libpthread.so.0(start_thread+0xda)[0x7fd2b94bfe9a]\n\
                     /lib/x86_64-linux-gnu/libc.so.6(clone+0x6d)[0x7fd2b86a93fd]\n";
    let own = "/usr/sbin/mysqld(handle_connection+0x17e)[0x55f48c7e8f5e]\n";
    let nameless = format!("{frames}{entry}");
    assert_eq!(function_of_death(&nameless), None);
    assert_eq!(death_in(&nameless).as_deref(), Some("the thread that died was in mysqld+0x8f2df2"));
    // To MySQL 5.5 its handler has another name.
    let old = frames.replace("handle_fatal_signal", "handle_segfault");
    assert_eq!(function_of_death(&format!("{old}{own}")).as_deref(), Some("it died in handle_connection"));
    let named = format!("{frames}{own}{entry}");
    assert_eq!(function_of_death(&named).as_deref(), Some("it died in handle_connection"));
    assert_eq!(death_in(&named).as_deref(), Some("the thread that died was in handle_connection"));
}

#[test]
fn of_several_starts_that_failed_the_last_one_counts_where_it_says_why() {
    let start = |minute: u32, words: &[&str]| {
        let lines: String =
            words.iter().map(|words| format!("2024-03-04 10:{minute}:13 0 [ERROR] {words}\n")).collect();
        format!(
            "2024-03-04 10:{minute}:12 0 [Note] mysqld (mysqld 8.0.16) starting as process 7 ...\n{lines}"
        )
    };
    let option = start(10, &["unknown variable 'foo=1'", "Aborting"]);
    let memory = start(11, &["InnoDB: Cannot allocate memory for the buffer pool", "Aborting"]);
    let bare = start(12, &["Aborting"]);
    let kinds = |text: &str| -> Vec<TroubleKind> {
        let mut kinds: Vec<TroubleKind> = read(text).troubles.iter().map(|trouble| trouble.kind).collect();
        kinds.sort_by_key(|kind| format!("{kind:?}"));
        kinds
    };
    assert_eq!(kinds(&format!("{option}{memory}")), [TroubleKind::NoMemory, TroubleKind::NotStarted]);
    assert!(
        read(&format!("{option}{memory}"))
            .says
            .iter()
            .any(|said| said.contains("it does not know an option"))
    );
    assert_eq!(kinds(&format!("{option}{bare}")), [TroubleKind::NotStarted, TroubleKind::OptionRefused]);
    let third = start(13, &["Can't start server: Bind on TCP/IP port: Address already in use", "Aborting"]);
    let third = third.replace(
        "mysqld (mysqld 8.0.16) starting as",
        "Starting MariaDB 10.11.6-MariaDB source revision a as",
    );
    assert_eq!(kinds(&format!("{option}{third}")), [TroubleKind::AddressRefused, TroubleKind::NotStarted]);
}

#[test]
fn a_server_that_the_system_refused_a_file_operation_ended_itself_and_no_check_of_its_own_did() {
    let details = |text: &str| -> Vec<String> {
        let troubles = read(text).troubles.into_iter();
        troubles
            .filter(|trouble| trouble.kind == TroubleKind::Crashed)
            .map(|trouble| trouble.detail)
            .collect()
    };
    let begin = "2024-03-04 10:11:12 0 [Note] mysqld (mysqld 5.7.44) starting as process 7 ...\n";
    let gave_up = "2024-03-04 10:11:13 0 [ERROR] [FATAL] InnoDB: File ./a.ibd: 'open' returned OS error 71. Cannot continue operation\n";
    let check = "2024-03-04 10:11:13 0x7f InnoDB: Assertion failure in thread 140 in file ut0ut.cc line 943\n\
                 10:11:13 UTC - mysqld got signal 6 ;\n";
    let itself = ["it ended itself because the system refused it an operation on a file"];
    assert_eq!(details(gave_up), itself);
    assert_eq!(details(&format!("{begin}{gave_up}{check}")), itself);
    // In an earlier start.
    assert!(details(&format!("{begin}{gave_up}{begin}{check}"))[0].starts_with("a check of its own failed"));
}

#[test]
fn a_start_that_ended_has_what_its_log_says_of_it_else_its_first_error_as_its_reason() {
    let begin = "2024-03-04 10:11:12 0 [Note] mysqld (mysqld 8.0.16) starting as process 7 ...\n";
    let ready = "2024-03-04 10:11:14 0 [Note] mysqld: ready for connections.\n";
    let ended = "2024-03-04 10:11:15 0 [ERROR] Aborting\n";
    let error = |words: &str| format!("2024-03-04 10:11:13 0 [ERROR] {words}\n");
    let (first, second) = (error("Frobnication of 'secret' failed"), error("So nothing works"));
    let size = error("InnoDB: Cannot set log file ./ib_logfile1 size to 50331648 bytes");
    let reason = |text: &str| {
        let ended = read(text).troubles.into_iter().find(|trouble| trouble.kind == TroubleKind::NotStarted);
        ended.map(|trouble| trouble.detail).unwrap_or_default()
    };
    let said = "its first error is Frobnication of ? failed";
    assert_eq!(reason(&format!("{begin}{first}{second}{ended}")), said);
    assert_eq!(reason(&format!("{first}{second}{ended}")), said);
    assert!(reason(&format!("{begin}{first}{size}{ended}")).starts_with("InnoDB could not give a file"));
    // What another start said, and what stands below the end, is no reason.
    for text in [
        format!("{begin}{first}{begin}{ended}"),
        format!("{begin}{size}{begin}{ended}"),
        format!("{begin}{first}{ready}{ended}"),
        format!("{begin}{ended}{first}"),
    ] {
        assert_eq!(reason(&text), "", "{text}");
    }
    let long = reason(&format!("{begin}{}{ended}", error(&"word ".repeat(60))));
    assert!(long.ends_with(" ...") && long.chars().count() <= 120, "{long}");
}

#[test]
fn a_redo_log_without_room_is_known_in_each_form() {
    for line in [
        "2025-05-01T05:37:40.905511Z 0 [ERROR] [MY-013059] [InnoDB] Out of space in the redo log. Checkpoint LSN: 1.",
        "[Warning] [MY-014084] [InnoDB] Threads are unable to reserve space in redo log which can't be reclaimed",
        "T10:11:12.123456Z 0 [Warning] [MY-014089] [InnoDB] Redo log writer is waiting for a new redo log file.",
    ] {
        assert!(is_of_log(line), "{line}");
        let log = read(line);
        assert_eq!(log.says.len(), 1, "{:?}", log.says);
        assert_eq!(
            log.troubles.first().map(|trouble| trouble.kind),
            Some(TroubleKind::RedoLogFull),
            "{line}"
        );
    }
}

#[test]
fn signs_of_one_meaning_are_counted_together() {
    let log = read(
        "2025-05-01T05:37:40.1Z 0 [Warning] [MY-014089] [InnoDB] Redo log writer is waiting for a new redo log file.\n\
             2025-05-01T05:37:44.1Z 0 [ERROR] [MY-013059] [InnoDB] Out of space in the redo log.\n",
    );
    assert_eq!(
        log.says,
        ["the redo log was too small for what was written, 2 times, last at 2025-05-01 05:37:44"]
    );
}

#[test]
fn a_replica_that_stopped_says_so_and_a_warning_does_not() {
    let log = read(
        "2024-12-19 11:52:04 7 [ERROR] Slave SQL: Could not execute Update_rows event on table a.b; Can't find record in 'b', \
             Error_code: 1032; handler error HA_ERR_KEY_NOT_FOUND\n\
             2024-12-19 11:52:05 7 [ERROR] Error running query, slave SQL thread aborted. Fix the problem\n\
             2024-12-19 11:52:05 7 [Warning] Slave SQL: Lock wait timeout exceeded, Error_code: 1205\n\
             2024-12-19 11:52:06 8 [ERROR] Slave I/O: error connecting to master 'repl@10.0.0.1:3306' - retry-time: 60\n\
             2024-12-19 11:52:07 8 [Warning] InnoDB: Cannot find a free slot for an undo log. Do you have too many\n",
    );
    assert_eq!(
        log.says,
        [
            "no slot was free for an undo log: too many transactions that change rows were open, last at 2024-12-19 11:52:07",
            "replication stopped: the applier met an error, 2 times, last at 2024-12-19 11:52:05",
            "replication: the receiver could not reach its source, last at 2024-12-19 11:52:06",
        ]
    );
    let channel = "2024-12-19T11:52:04.1Z 7 [ERROR] [MY-010584] [Repl] Replica SQL for channel '': Worker 1 failed; Could not \
                       execute Write_rows event on table a.b, Error_code: MY-001062";
    assert_eq!(read(channel).says.len(), 1);
}

#[test]
fn a_receiver_that_its_source_refuses_the_log_has_stopped() {
    for line in [
        "2024-12-19 11:52:06 8 [ERROR] Slave I/O: Got fatal error 1236 from master when reading data from binary log: 'Could not find \
             first log file name in binary log index file', Error_code: 1236\n",
        "2024-12-19T11:52:06.1Z 8 [ERROR] [MY-013114] [Repl] Replica I/O for channel '': Got fatal error 1236 from source when reading \
             data from binary log: 'x', Error_code: MY-013114\n",
    ] {
        assert_eq!(
            read(line).says,
            ["replication stopped: the receiver met an error, last at 2024-12-19 11:52:06"],
            "{line}"
        );
    }
}

#[test]
fn errors_that_are_not_known_are_counted_and_the_first_and_last_are_said_without_texts() {
    let first =
        "2024-12-19 11:52:04 7 [ERROR] Something of 'one'\n2024-12-19 11:52:05 7 [Note] Something else\n";
    let log = read(&format!("{first}2024-12-19 11:52:05 7 [ERROR] Something of 'two' is wrong\n"));
    assert_eq!(
        log.says,
        ["2 errors that are not known here, the first: Something of ?; the last: Something of ? is wrong"]
    );
    assert_eq!(read(&first.repeat(2)).says, ["2 errors that are not known here: Something of ?"]);
}

#[test]
fn what_causes_rest_on_has_its_distance_from_the_end() {
    let log = read(
        "2024-03-11T02:44:31.902201Z 812 [ERROR] [MY-012640] [InnoDB] Error number 28 means 'No space left on device'\n\
             2024-03-11T02:44:40.110002Z 813 [ERROR] [MY-010907] [Server] Disk is full writing './binlog.000411' (OS errno 28 - No \
             space left on device). Waiting for someone to free space...\n\
             2024-03-11T02:54:40.110002Z 814 [Warning] Too many connections\n\
             2024-03-11T02:54:41.110002Z 814 [ERROR] mariadbd: Error writing file '/tmp/ML' (Errcode: 28)\n\
             2024-03-11T02:54:42.110002Z 0 [Note] [MY-011953] [InnoDB] Page cleaner took 48210ms to flush 200 and evict 0 pages\n",
    );
    let kinds: Vec<_> = log
        .troubles
        .iter()
        .map(|trouble| (trouble.kind, trouble.times, trouble.before_end_s.map(f64::round)))
        .collect();
    assert!(kinds.contains(&(TroubleKind::WaitsForSpace, 1, Some(602.0))), "{kinds:?}");
    assert!(kinds.contains(&(TroubleKind::TooManyConnections, 1, Some(2.0))), "{kinds:?}");
    assert!(kinds.contains(&(TroubleKind::DiskFull, 1, Some(1.0))), "{kinds:?}");
    assert!(log.says.iter().any(|said| said.contains("48.2 s at most")), "{:?}", log.says);
    let waits = read("2024-08-20 11:02:41 0 [Warning] InnoDB: Long wait (241 seconds) for dict_sys.latch\n");
    assert!(waits.says[0].contains("4 min 1 s at most"), "{:?}", waits.says);
}

#[test]
fn a_cluster_that_is_whole_again_is_no_trouble_any_more() {
    let lost = "2024-03-12 08:00:00 0 [Note] WSREP: declaring node with index 1 suspected, timeout PT5S (evs.suspect_timeout)\n\
                    2024-03-12 08:00:05 0 [Note] WSREP: view(view_id(NON_PRIM,a1b2c3d4,32) memb {\n\
                    2024-03-12 08:00:05 2 [Note] WSREP: Received NON-PRIMARY.\n";
    let kinds = |text: &str| read(text).troubles.iter().map(|trouble| trouble.kind).collect::<Vec<_>>();
    assert!(kinds(lost).contains(&TroubleKind::NoMajority) && kinds(lost).contains(&TroubleKind::NodeLost));
    let back = format!("{lost}2024-03-12 08:01:05 0 [Note] WSREP: view(view_id(PRIM,a1b2c3d4,33) memb {{\n");
    assert!(!kinds(&back).contains(&TroubleKind::NoMajority), "{:?}", read(&back).troubles);
    assert!(read(&back).says.iter().any(|said| said.ends_with("that is over")), "{:?}", read(&back).says);
    let again = format!("{back}2024-03-12 08:02:05 2 [Note] WSREP: Received NON-PRIMARY.\n");
    assert!(kinds(&again).contains(&TroubleKind::NoMajority));
}

#[test]
fn a_node_that_leaves_its_cluster_by_itself_has_lost_no_majority() {
    let kinds = |text: &str| read(text).troubles.iter().map(|trouble| trouble.kind).collect::<Vec<_>>();
    let view = "2024-03-12 08:00:05 0 [Note] WSREP: view(view_id(NON_PRIM,a1b2c3d4,32) memb {\n";
    let leaves = format!(
        "2024-03-12 08:00:04 0 [ERROR] WSREP: gcs_group.cpp:1178: Will never receive state. Need to abort.\n\
             2024-03-12 08:00:04 0 [Note] WSREP: gcomm: closing backend\n{view}"
    );
    assert_eq!(kinds(&leaves), [TroubleKind::StateTransferFailed]);
    assert!(read(&leaves).says[0].starts_with("the state of the Galera cluster"), "{:?}", read(&leaves).says);
    let again = format!("{leaves}2024-03-12 08:01:00 0 [Note] WSREP: gcomm: connecting to group 'c'\n{view}");
    assert_eq!(kinds(&again), [TroubleKind::NoMajority]);
}

#[test]
fn a_binary_log_that_may_be_corrupted_is_no_damaged_page() {
    let kinds = |text: &str| read(text).troubles.iter().map(|trouble| trouble.kind).collect::<Vec<_>>();
    let replica = "2024-03-12 08:00:00 5 [ERROR] Slave SQL: Relay log read failure: Could not parse relay log event entry. The \
                       possible reasons are: the master's binary log is corrupted (you can check this by running 'mysqlbinlog' on the \
                       binary log), the slave's relay log is corrupted, Error_code: 1594\n";
    assert!(!kinds(replica).contains(&TroubleKind::PageDamaged), "{:?}", kinds(replica));
    let page = "2024-03-12 08:00:00 5 [ERROR] InnoDB: Failed to read page 3 from file './d/t.ibd': Page read from tablespace is \
                    corrupted.\n2024-03-12 08:00:00 5 [ERROR] InnoDB: File './d/t.ibd' is corrupted\n";
    assert!(kinds(page).contains(&TroubleKind::PageDamaged), "{:?}", kinds(page));
}

#[test]
fn a_check_that_failed_is_a_crash_and_is_counted_once() {
    let advice = "InnoDB: We intentionally generate a memory trap.\nInnoDB: If you get repeated assertion failures or crashes, even\n";
    let old = read(&format!(
        "2024-03-12 08:00:00 0x7f01 InnoDB: Assertion failure in file /build/a/btr0pcur.cc line   521\n\
             InnoDB: Failing assertion: prev(next) == page_no\n{advice}"
    ));
    assert_eq!(
        old.says,
        [
            "a check of the server's own failed, last at 2024-03-12 08:00:00",
            "the check that failed: btr0pcur.cc line 521: prev(next) == page_no"
        ]
    );
    assert_eq!((old.troubles[0].kind, old.troubles[0].times), (TroubleKind::Crashed, 1));
    let new = read(&format!(
        "2024-03-12T08:00:00.1Z 0 [ERROR] [MY-013183] [InnoDB] Assertion failure: ddl0buffer.cc:204:p < bounds thread 14054\n{advice}\
             2024-03-12T08:00:00Z UTC - mysqld got signal 6 ;\n"
    ));
    let check = "the check that failed: ddl0buffer.cc:204:p < bounds";
    assert!(new.says.iter().any(|said| said == check), "{:?}", new.says);
    let crashes: Vec<_> = new.troubles.iter().map(|trouble| (trouble.kind, trouble.times)).collect();
    assert_eq!(crashes, [(TroubleKind::Crashed, 1)]);
    assert_eq!(failed_check("Assertion failure in thread 4096"), None);
}

#[test]
fn the_line_of_a_crash_ends_with_its_signal() {
    let log =
        read("240304 10:11:12 [ERROR] mysqld got signal 11 ;Attempting backtrace. stack_bottom = 0x0\n");
    assert_eq!(log.troubles[0].line, "240304 10:11:12 [ERROR] mysqld got signal 11 ;");
    assert_eq!(without_rest("mysqld got signal 6"), "mysqld got signal 6");
    assert_eq!(without_rest("a; b"), "a; b");
}

#[test]
fn a_page_that_is_another_one_and_what_lies_beyond_a_file_are_damaged() {
    for line in [
        "Space id and page no stored in the page, read in are [page id: space=10, page number=1], should be [page id: space=10, page \
             number=2]",
        "Space id and page n:o stored in the page read in are [page id: space=10, page number=1]",
        "Page directory corruption: infimum not pointed to",
        "Trying to access page number 7 in space 5, space name a/t, which is outside the tablespace bounds.",
        "Page 24064 at offset 394264576 looks corrupted in file ./a/t.ibd",
    ] {
        let log = read(&format!("2024-03-12 08:00:00 5 [ERROR] InnoDB: {line}\n"));
        let kinds: Vec<_> = log.troubles.iter().map(|trouble| trouble.kind).collect();
        assert_eq!(kinds, [TroubleKind::PageDamaged], "{line}");
    }
}

#[test]
fn a_node_that_was_evicted_says_so() {
    let log = read(
        "2024-03-12 08:00:00 7 [ERROR] WSREP: exception from gcomm, backend must be restarted: this node has been evicted out of the \
             cluster, gcomm backend restart is required (FATAL)\n",
    );
    assert!(log.says[0].starts_with("the node was evicted from its Galera cluster"), "{:?}", log.says);
}

#[test]
fn a_state_that_could_not_be_transferred_is_said_once() {
    let log = read(
        "2024-03-12 08:00:00 7 [ERROR] WSREP: Process completed with error: wsrep_sst_mariabackup --role 'joiner': 2 (No such file or \
             directory)\n2024-03-12 08:00:00 7 [ERROR] WSREP: Failed to prepare for 'mariabackup' SST. Unrecoverable.\n\
             2024-03-12 08:00:00 7 [ERROR] Aborting\n",
    );
    let transfer = "the state of the Galera cluster could not be transferred (SST)";
    assert!(log.says[0].starts_with(transfer), "{:?}", log.says);
    assert_eq!(log.says[1], "the server ended at its start, last at 2024-03-12 08:00:00");
    assert_eq!(log.says.len(), 2, "{:?}", log.says);
}

#[test]
fn a_kill_by_the_kernel_is_dated_by_its_own_line() {
    let log = read(
        "2024-03-12 08:00:00 0 [Note] something\n\
             [Tue Mar 12 03:10:11 2024] Out of memory: Killed process 4711 (mysqld) total-vm:1kB, anon-rss:1kB\n\
             [Tue Mar 12 03:10:12 2024] oom_reaper: reaped process 4711 (mysqld)\n\
             2024-03-12 08:10:30 0 [Note] something\n",
    );
    assert!(log.says[0].ends_with("last at 2024-03-12 03:10:11"), "{:?}", log.says);
    assert_eq!(log.troubles[0].before_end_s, Some(1.0));
}

#[test]
fn what_the_kernel_says_of_one_kill_in_several_lines_is_one_kill() {
    let kill = |id: u32, time: &str| {
        format!(
            "[{time}] mysqld invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n\
                 [{time}] Out of memory: Kill process {id} (mysqld) score 310 or sacrifice child\n\
                 [{time}] Killed process {id} (mysqld) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
        )
    };
    let killed = "the kernel killed a server because no memory was left";
    assert_eq!(read(&kill(4711, "  812.10")).says[0], killed);
    let twice = format!("{}{}", kill(4711, "  812.10"), kill(4899, "  913.44"));
    assert_eq!(read(&twice).says[0], format!("{killed}, 2 times"));
}

#[test]
fn windows_and_innodb_have_words_of_their_own_for_a_full_disk() {
    let innodb = read("[ERROR] [FATAL] InnoDB: Error (Out of disk space) in rollback.\n");
    assert_eq!(innodb.troubles.first().map(|trouble| trouble.kind), Some(TroubleKind::DiskFull));
    let windows = read("160212 11:53:00 InnoDB: Operating system error number 112.\n");
    assert_eq!(windows.troubles.first().map(|trouble| trouble.kind), Some(TroubleKind::DiskFull));
}

#[test]
fn a_disk_is_full_for_as_long_as_the_server_says_that_it_still_waits() {
    let log = read(
        "2017-08-22 8:22:53 140295123517777 [Warning] mysqld: Disk is full writing '/tmp/#sql_51b0_0.MAD' (Errcode: 28 \"No space \
             left on device\"). Waiting for someone to free space...\n\
             2017-08-22 8:32:53 140295123517777 [Warning] mysqld: Retry in 60 secs. Message reprinted in 600 secs\n\
             2017-08-22 9:02:53 140295123517777 [Warning] mysqld: Retry in 60 secs. Message reprinted in 600 secs\n",
    );
    let trouble = log.troubles.iter().find(|trouble| trouble.kind == TroubleKind::WaitsForSpace).unwrap();
    assert_eq!((trouble.times, trouble.before_end_s), (3, Some(0.0)));
    assert!(trouble.line.contains("#sql_51b0_0.MAD"), "{}", trouble.line);
}

#[test]
fn of_a_crash_the_functions_and_the_statement_s_shape_are_said() {
    let crash = |trace: &str| {
        let text = format!(
            "240711 14:21:09 [ERROR] mysqld got signal 11 ;\nAttempting backtrace. You can use the following information\n\
                 stack_bottom = 0x7f2bd01f5c98 thread_stack 0x49000\n{trace}Trying to get some variables.\n\
                 Query (7f3c58009a40): SELECT a FROM t WHERE b = 'secret'\n"
        );
        read(&text).says.into_iter().find(|said| said.starts_with("the thread that died"))
    };
    let wanted = "the thread that died was in dict_index_t::clear, called by row_purge_step; it executed SELECT a FROM t WHERE b = ?";
    let old = crash(
        "/usr/sbin/mariadbd(my_print_stacktrace+0x2e)[0x55d1f7a3c9ae]\n/usr/sbin/mariadbd(handle_fatal_signal+0x307)[0x55d1f74ff9a7]\n\
             sigaction.c:0(__restore_rt)[0x7f2bd2d1c630]\n/usr/sbin/mariadbd(_ZN12dict_index_t5clearEP9que_thr_t+0x4c)[0x55d1f7812abc]\n\
             /usr/sbin/mariadbd(_Z14row_purge_stepP9que_thr_t+0x310)[0x55d1f79aa110]\n",
    );
    assert_eq!(old.as_deref(), Some(wanted));
    let new = crash(
        " #0 0x1022ee0 print_fatal_signal(int) at mysqld/sql/signal_handler.cc:154\n \
             #1 0x10231a4 handle_fatal_signal at mysqld/sql/signal_handler.cc:231\n #2 0x7f3d0a012d1f <unknown>\n \
             #3 0xf1a2d0 dict_index_t::clear(que_thr_t*) at mysqld/storage/a.cc:3110\n \
             #4 0xf2b3e0 row_purge_step(que_thr_t*) at mysqld/storage/b.cc:990\n",
    );
    assert_eq!(new.as_deref(), Some(wanted));
    assert_eq!(crash("\n").as_deref(), Some("the thread that died executed SELECT a FROM t WHERE b = ?"));
}

#[test]
fn of_the_last_crash_the_check_that_failed_or_the_function_that_it_died_in_is_its_detail() {
    let details = |text: &str| {
        let troubles = read(text).troubles.into_iter();
        let crashes = troubles.filter(|trouble| trouble.kind == TroubleKind::Crashed);
        crashes.map(|trouble| trouble.detail).collect::<Vec<_>>()
    };
    let crash = "240711 14:21:09 [ERROR] mysqld got signal 11 ;\nAttempting backtrace. You can use the following information\n\
                     /usr/sbin/mariadbd(my_print_stacktrace+0x2e)[0x55d1f7a3c9ae]\n/usr/sbin/mariadbd(handle_fatal_signal+0x307)[0x55d1f74ff9a7]\n\
                     sigaction.c:0(__restore_rt)[0x7f2bd2d1c630]\n/usr/sbin/mariadbd(_ZN12dict_index_t5clearEP9que_thr_t+0x4c)[0x55d1f7812abc]\n\
                     Trying to get some variables.\n";
    assert_eq!(details(crash), ["it died in dict_index_t::clear"]);
    let check = "2024-07-11T14:20:09.1Z 0 [ERROR] [MY-013183] [InnoDB] Assertion failure: fil0fil.cc:77:space > 0 thread 12\n\
                     2024-07-11T14:20:09Z UTC - mysqld got signal 6 ;\n";
    assert_eq!(details(check), ["a check of its own failed, fil0fil.cc:77:space > 0"]);
    // The signals are in the order of the catalogue.
    assert_eq!(details(&format!("{check}{crash}")), ["it died in dict_index_t::clear", ""]);
}

#[test]
fn a_crash_is_one_where_the_line_with_its_signal_is_not_given() {
    let crash = "something is definitely wrong and this may fail.\nServer version: 10.4.13-MariaDB\n\
                     Thread pointer: 0x7fc607690e48\n\
                     Attempting backtrace. You can use the following information to find out\n\
                     where mysqld died. If you see no messages after this, something went\nterribly wrong...\n";
    let crashes = |text: &str| {
        let log = read(text);
        let said = log.says.iter().filter(|said| said.starts_with("the server crashed")).count();
        (log.troubles.iter().filter(|trouble| trouble.kind == TroubleKind::Crashed).count(), said)
    };
    assert_eq!(crashes(crash), (1, 1));
    assert_eq!(crashes(&format!("200612 17:02:40 [ERROR] mysqld got signal 11 ;\n{crash}")), (1, 1));
    assert_eq!(crashes("Version: '10.4.13-MariaDB'  socket: '/run/a.sock'  port: 3306\n"), (0, 0));
}

#[test]
fn that_the_script_started_a_server_again_is_said() {
    let says = read(
        "150319 01:46:59 mysqld_safe Number of processes running now: 0\n150319 01:46:59 mysqld_safe mysqld restarted\n\
             150319  1:46:59 [Note] InnoDB: Using Linux native AIO\n",
    )
    .says;
    assert!(says.iter().any(|said| said.starts_with("mysqld_safe started the server again")), "{says:?}");
}

#[test]
fn what_a_plugin_reports_is_kept_and_what_it_quotes_is_not() {
    let log = |message: &str| {
        read(&format!(
            "2023-03-04T10:11:12.123456Z 0 [ERROR] [MY-011526] [Repl] Plugin group_replication reported: '{message}'\n"
        ))
    };
    let says = log("The group name 'secret' is not valid").says;
    assert_eq!(
        says,
        [
            "1 error that is not known here: [MY-011526] [Repl] Plugin group_replication reported: The group name ? is not valid"
        ]
    );
    let errant = "This member has more executed transactions than those present in the group. Local transactions: a:1-6 > Group transactions: b:1-5";
    assert_eq!(log(errant).troubles[0].kind, TroubleKind::Errant);
    assert!(log(errant).says[0].contains("some that the group does not have"), "{:?}", log(errant).says);
}
