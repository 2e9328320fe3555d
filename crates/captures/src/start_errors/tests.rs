use spindoctor_model::{Finding, Severity};

use super::*;
use crate::part::Kind;
use crate::{recognise, window};

/// The findings of a text that is an error log and nothing else.
fn findings(text: &str) -> Vec<Finding> {
    let parts = recognise("error.log", text);
    assert!(parts.iter().all(|part| part.kind == Kind::ErrorLog) && !parts.is_empty(), "{text}: {parts:#?}");
    spindoctor_rules::diagnose(&window(&parts)).findings
}

/// The one finding of a server that does not start: its severity, and the end of its headline.
fn reason(text: &str) -> (Severity, String) {
    let mut all = findings(text);
    assert_eq!(all.len(), 1, "{text}: {all:#?}");
    let first = all.remove(0);
    assert_eq!(first.cause, "server-stopped", "{text}");
    let headline = first.headline.split_once("start: ").map_or(first.headline.as_str(), |(_, rest)| rest);
    (first.severity, headline.to_owned())
}

/// The forms in which a message stands in texts: those of servers from 5.1 on, and without what stands before it.
fn forms(message: &str) -> Vec<String> {
    vec![
        format!("2024-03-04T10:11:12.123456Z 0 [ERROR] [MY-012345] [Server] {message}\n"),
        format!("2024-03-04T10:11:12.123456Z 1 [ERROR] [MY-012345] [InnoDB] {message}\n"),
        format!("2024-03-04 10:11:12 0 [ERROR] InnoDB: {message}\n"),
        format!("2024-03-04 10:11:12 139812345678912 [ERROR] mysqld: {message}\n"),
        format!("240304 10:11:12 [ERROR] /usr/sbin/mysqld: {message}\n"),
        format!("240304 10:11:12 [ERROR] Fatal error: {message}\n"),
        format!("240304 10:11:12  InnoDB: {message}\n"),
        format!("2024-03-04 10:11:12 7fa5a53e1720  InnoDB: {message}\n"),
        format!("Mar 04 10:11:12 db1 mariadbd[4711]: 2024-03-04 10:11:12 0 [ERROR] {message}\n"),
        format!("[ERROR] [MY-012345] [Server] {message}\n"),
        format!("mysqld: [ERROR] {message}\n"),
        format!("InnoDB: {message}\n"),
        format!("{message}\n"),
        format!("Hello, what does this mean?\n\n    {message}\n\nThanks\n"),
    ]
}

#[test]
fn each_reason_is_known_in_every_form() {
    for (message, headline) in [
        ("unknown variable 'innodb_foo=1'", "it does not know innodb_foo"),
        ("unknown option '--innodb_foo'", "it does not know innodb_foo"),
        ("Error while setting value 'NO_AUTO_CREATE_USER' to 'sql_mode'.", "it does not know sql_mode"),
        (
            "Unknown suffix ' ' used for variable 'innodb_buffer_pool_size' (value '16 M').",
            "it does not know innodb_buffer_pool_size",
        ),
        ("Found option without preceding group in config file /etc/my.cnf at line 1.", "one of its options"),
        ("Unable to lock ./ibdata1 error: 11", "another server has its data files open"),
        (
            "Can't lock aria control file '/d/aria_log_control' for exclusive use, error: 37. Will retry for 30 seconds",
            "the file system of its data gives no locks",
        ),
        (
            "Check that you do not already have another mysqld process using the same InnoDB data or log files.",
            "another server has its data files open",
        ),
        (
            "Can't start server: Bind on TCP/IP port: Address already in use",
            "it cannot listen on its address",
        ),
        ("Can't start server : Bind on unix socket: Permission denied", "it cannot listen on its address"),
        (
            "Do you already have another mysqld server running on port: 3306 ?",
            "it cannot listen on its address",
        ),
        (
            "Could not open file '/var/log/mysql/error.log' for error logging: Permission denied",
            "it cannot open a file",
        ),
        ("The innodb_system data file 'ibdata1' must be writable", "it cannot open a file"),
        ("Operating system error number 13 in a file operation.", "it cannot open a file"),
        (
            "Can't open and lock privilege tables: Table 'mysql.user' doesn't exist",
            "the tables with its accounts are not in its data folder",
        ),
        ("Table 'mysql.plugin' doesn't exist", "the tables with its accounts are not in its data folder"),
        (
            "Unsupported redo log format (v0). The redo log was created before MySQL 5.7.9",
            "another version wrote its redo log",
        ),
        (
            "Unknown redo log format (6). Please follow the instructions at http://dev.mysql.com/doc/refman/8.0/en/ upgrading-downgrading.html.",
            "another version wrote its redo log, in a format that this one does not know",
        ),
        (
            "Table flags are 0 in the data dictionary but the flags in file ./ibdata1 are 0x4800!",
            "another version wrote its data files: MySQL 8.0 or later, later than",
        ),
        ("MySQL-8.0 tablespace in ./ibdata1", "MySQL 8.0 or later, whose data MariaDB does not take over"),
        (
            "A downgrade from MariaDB 10.2.2 or later is not supported.",
            "another version wrote its redo log: MariaDB 10.2.2 or later, later than",
        ),
        (
            "Invalid MySQL server upgrade: Cannot upgrade from 50741 to 80403. Upgrade to next major version is only allowed from the last LTS \
             release, which version 50741 is not.",
            "MySQL 5.7.41; on the way to 8.4.3 the data have to go through 8.0",
        ),
        (
            "Cannot boot server version 80036 on data directory built by version 80402. Downgrade is not supported",
            "another version wrote its data files",
        ),
        (
            "Upgrade after a crash is not supported. The redo log was created with MariaDB 10.4.12.",
            "another version wrote its redo log",
        ),
        (
            "Upgrade is not supported after a crash or shutdown with innodb_fast_shutdown = 2. This redo log was created with MySQL 5.7.37",
            "another version wrote its redo log",
        ),
        (
            "Upgrading the data dictionary from dictionary version '1' is not supported.",
            "another version wrote its data files",
        ),
        (
            "Upgrading the server from server version '80013' is not supported.",
            "another version wrote its data files",
        ),
        (
            "Server upgrade started with version 80038, but server upgrade of version 80038 is still pending.",
            "another version wrote its data files",
        ),
        (
            "Could not open mysql.plugin table: \"Table 'mysql.plugin' doesn't exist\". Some plugins may be not loaded",
            "the tables with its accounts are not in its data folder",
        ),
        (
            "Execution of server-side SQL statement 'ALTER TABLE a' failed with error code = 3664, error message = 'x'.",
            "another version wrote its data files",
        ),
        (
            "Different lower_case_table_names settings for server ('1') and data dictionary ('0').",
            "its data were made with another value of lower_case_table_names",
        ),
        (
            "--initialize specified but the data directory has files in it. Aborting.",
            "it was to make new data",
        ),
        (
            "--initialize specified but the data directory exists and is not writable. Aborting.",
            "it cannot open a file",
        ),
        ("Unknown/unsupported storage engine: InnoDB", "it ended, and the lines"),
        ("Failed to initialize builtin plugins.", "it ended, and the lines"),
        (
            "Plugin 'InnoDB' init function returned error.",
            "it ended, and the lines that were given do not say why",
        ),
        ("Failed to initialize DD Storage Engine", "it ended, and the lines"),
        ("Data Dictionary initialization failed.", "it ended, and the lines"),
    ] {
        for form in forms(message) {
            let ended =
                format!("{form}2024-03-04T10:11:13.123456Z 0 [ERROR] [MY-010119] [Server] Aborting\n");
            for text in [&form, &ended] {
                let parts = recognise("error.log", text);
                let log: Vec<_> = parts.into_iter().filter(|part| part.kind == Kind::ErrorLog).collect();
                let all = spindoctor_rules::diagnose(&window(&log)).findings;
                assert_eq!(all.len(), 1, "{text}: {all:#?}");
                assert_eq!(all[0].cause, "server-stopped", "{text}");
                assert!(all[0].headline.contains(headline), "{text}: {}", all[0].headline);
            }
        }
    }
}

#[test]
fn what_a_server_would_have_sent_to_a_client_is_read_as_the_message_that_it_is() {
    let line = |message: &str| {
        format!(
            "2024-03-04T10:11:12.123456Z 0 [ERROR] [MY-013129] [Server] A message intended for a client cannot be sent there as no \
             client-session is attached. Therefore, we're sending the information to the error-log instead: MY-001146 - {message}\n"
        )
    };
    let missing = line("Table 'mysql.component' doesn't exist");
    assert!(reason(&missing).1.ends_with("the tables with its accounts are not in its data folder"));
    assert_eq!(findings(&line("Cannot load component from specified URN: 'file://component_a'.")), []);
    assert_eq!(for_client("A message intended for a client cannot be sent there é instead: MY-1"), None);
}

#[test]
fn a_second_server_on_the_same_folder_is_one_finding() {
    let log = "2024-03-04T10:11:12.000001Z 0 [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.0.36) starting as process 4711\n\
               2024-03-04T10:11:12.000002Z 1 [ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11\n\
               2024-03-04T10:11:12.000003Z 1 [ERROR] [MY-012592] [InnoDB] Operating system error number 11 in a file operation.\n\
               2024-03-04T10:11:12.000004Z 1 [ERROR] [MY-010334] [Server] Failed to initialize DD Storage Engine\n\
               2024-03-04T10:11:12.000005Z 0 [ERROR] [MY-010020] [Server] Data Dictionary initialization failed.\n\
               2024-03-04T10:11:12.000006Z 0 [ERROR] [MY-010119] [Server] Aborting\n";
    assert_eq!(reason(log), (Severity::Critical, "another server has its data files open".to_owned()));
    // Somebody ended the other one.
    let started = "2024-03-04T10:12:12.000001Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. Version: '8.0.36'  \
                   socket: '/run/a.sock'  port: 3306  MySQL Community Server - GPL.\n";
    assert_eq!(findings(&format!("{log}{started}")), []);
    assert_eq!(reason(&format!("{log}{started}{log}")).0, Severity::Critical);
}

#[test]
fn no_memory_for_the_buffer_pool_and_a_damaged_page_are_why_a_server_ends() {
    let ended = "2024-03-04 10:11:12 0 [ERROR] Plugin 'InnoDB' init function returned error.\n2024-03-04 10:11:12 0 [ERROR] Aborting\n";
    let memory =
        format!("2024-03-04 10:11:12 0 [ERROR] InnoDB: Cannot allocate memory for the buffer pool\n{ended}");
    let all = findings(&memory);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert!(all[0].cause == "memory-pressure" && all[0].headline.contains("does not start"), "{all:#?}");
    let damaged = format!(
        "2024-03-04 10:11:12 0 [ERROR] InnoDB: Database page corruption on disk or a failed file read of page [page id: space=0, page number=7]\n\
         {ended}"
    );
    let all = findings(&damaged);
    assert_eq!(all[0].headline, "The server does not start: a page of its data files is damaged");
    for line in [
        "InnoDB: Header page consists of zero bytes in datafile: ./ibdata1, Space ID:0, Flags: 0.",
        "InnoDB: Corrupted page [page id: space=0, page number=0] of datafile './ibdata1' could not be found in the doublewrite buffer.",
        "InnoDB: Plugin initialization aborted with error Data structure corruption",
    ] {
        let all = findings(&format!("2024-03-04 10:11:12 0 [ERROR] {line}\n{ended}"));
        assert_eq!(
            all[0].headline, "The server does not start: a page of its data files is damaged",
            "{line}: {all:#?}"
        );
    }
}

#[test]
fn a_redo_log_that_cannot_be_used_is_said_as_such_and_not_as_a_damaged_page() {
    let ended = "2024-03-04 10:11:12 0 [ERROR] InnoDB: Plugin initialization aborted with error Data structure corruption\n\
                 2024-03-04 10:11:12 0 [ERROR] Plugin 'InnoDB' init function returned error.\n";
    for line in [
        "Cannot create redo log files because data files are corrupt or the database was not shut down cleanly",
        "Ignoring the redo log due to missing MLOG_CHECKPOINT between the checkpoint 1 and the end 2.",
        "Missing FILE_CHECKPOINT(71) at 96",
        "Missing redo log file ./#innodb_redo/#ib_redo3 (with start_lsn = 7).",
        "Log file ./ib_logfile0 is of different size 64 bytes than other log files 128 bytes!",
        "File ./ib_logfile0 was not found",
        "############### CORRUPT LOG RECORD FOUND ##################",
    ] {
        let (severity, because) = reason(&format!("2024-03-04 10:11:12 0 [ERROR] InnoDB: {line}\n{ended}"));
        assert_eq!(severity, Severity::Critical, "{line}");
        assert!(because.starts_with("its redo log cannot be used"), "{line}: {because}");
    }
}

#[test]
fn a_client_that_does_not_know_an_option_is_no_server_that_does_not_start() {
    for line in [
        "mysql: [ERROR] unknown variable 'innodb_buffer_pool_size=1G'",
        "mysqldump: unknown option '--foo'",
        "/usr/bin/mysqladmin: unknown variable 'default-character-set=utf8'",
    ] {
        let parts = recognise("a.txt", &format!("{line}\n"));
        assert_eq!(parts[0].says, [CLIENT], "{line}");
        assert_eq!(findings(&format!("{line}\n")), [], "{line}");
    }
}

#[test]
fn an_option_that_a_server_warns_of_does_not_keep_it_from_starting() {
    for line in [
        "2024-03-04 10:11:12 20828 [Warning] /opt/server/bin/mysqld: unknown variable 'loose_foo=1'",
        "2024-03-04T10:11:12.1Z 0 [Warning] [MY-000067] [Server] unknown variable 'loose-foo=1'.",
        "2024-03-04 10:11:12 0 [Warning] mariadbd: unknown option '--loose-foo'",
    ] {
        assert_eq!(findings(&format!("{line}\n")), [], "{line}");
    }
}

#[test]
fn a_server_on_windows_is_one() {
    for line in [
        "C:\\xampp\\mysql\\bin\\mysqld.exe: unknown variable 'foo=1'",
        "2024-03-04 10:11:12 0 [ERROR] mysqld.exe: unknown variable 'foo=1'",
    ] {
        let (_, reason) = reason(&format!("{line}\n"));
        assert_eq!(reason, "it does not know foo, or cannot read its value", "{line}");
    }
    assert_eq!(findings("C:\\bin\\mysqldump.exe: unknown option '--foo'\n"), []);
}

#[test]
fn a_log_of_two_phases_or_of_aria_that_cannot_be_applied_says_why_the_server_ended() {
    let log = |line: &str| {
        format!(
            "2024-03-04 10:11:12 0 [Note] Recovering after a crash using tc.log\n2024-03-04 10:11:12 0 [ERROR] {line}\n\
             2024-03-04 10:11:12 0 [ERROR] Aborting\n"
        )
    };
    for (line, meaning) in [
        (
            "Crash recovery failed. Either correct the problem (if it's, for example, out of memory error) and restart, or delete tc log \
             and start mysqld with --tc-heuristic-recover={commit|rollback}",
            COORDINATOR,
        ),
        (
            "Found 1 prepared transactions! It means that mysqld was not shut down properly last time and critical recovery information \
             (last binlog or tc.log file) was manually deleted after a crash.",
            COORDINATOR,
        ),
        ("mariadbd: Aria recovery failed. Please run aria_chk -r on all Aria tables", ARIA),
    ] {
        let text = log(line);
        let says = recognise("error.log", &text)[0].says.clone();
        assert!(says.iter().any(|said| said.starts_with(meaning)), "{line}: {says:?}");
        assert!(!says.iter().any(|said| said.contains("times")), "{line}: {says:?}");
        let all = findings(&text);
        assert_eq!(all.len(), 1, "{line}: {all:#?}");
        assert_eq!(all[0].cause, "server-stopped", "{line}");
        assert_eq!(all[0].severity, Severity::Critical, "{line}");
        let shown: String = line.chars().take(20).collect();
        assert!(format!("{:?}", all[0].evidence).contains(&shown), "{line}: {all:#?}");
    }
}

#[test]
fn a_table_whose_file_is_not_there_keeps_a_server_from_recovering() {
    for line in [
        "InnoDB: Error: could not open single-table tablespace file ./shop/stock.ibd",
        "2024-03-04 10:11:12 0 [ERROR] InnoDB: Tablespace 12 was not found at ./shop/stock.ibd.",
    ] {
        let text = format!("{line}\n2024-03-04 10:11:12 0 [ERROR] Aborting\n");
        let says = recognise("error.log", &text)[0].says.clone();
        assert!(says.iter().any(|said| said.starts_with(TABLE_FILE)), "{line}: {says:?}");
        assert_eq!(reason(&text).1, "the file of a table is not where its dictionary says", "{line}");
    }
}

#[test]
fn lines_of_one_start_are_one_start() {
    let log = "2024-03-04 10:11:12 0 [ERROR] Plugin 'InnoDB' init function returned error.\n\
               2024-03-04 10:11:12 0 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.\n\
               2024-03-04 10:11:12 0 [ERROR] Aborting\n";
    let says = |text: &str| recognise("error.log", text)[0].says.clone();
    assert_eq!(says(log), ["the server ended at its start, last at 2024-03-04 10:11:12"]);
    assert_eq!(says(&log.repeat(2)), ["the server ended at its start, 2 times, last at 2024-03-04 10:11:12"]);
}

#[test]
fn a_password_in_such_a_line_is_not_repeated() {
    let text = "2024-03-04 10:11:12 0 [ERROR] unknown variable 'password=s3cret'\n";
    let all = findings(text);
    assert!(all[0].headline.contains("password") && !format!("{all:?}").contains("s3cret"), "{all:#?}");
}

#[test]
fn lines_of_other_programs_are_none_of_these() {
    for text in [
        "error: unknown option '--foo'\n",
        "Aborting\n",
        "E: Unable to lock directory /var/lib/apt/lists/\n",
        "2024-03-04T10:11:12.1Z 9 [Note] Table 'mysql.user' was read\n",
    ] {
        assert!(!is_of_start(text.trim_end()), "{text}");
    }
    let x_plugin = "2024-03-04T10:11:12.000001Z 0 [Warning] [MY-011302] [Server] Plugin mysqlx reported: 'Setup of bind-address: '*' port: 33060 \
                    failed, `bind()` failed with error: Address already in use (98). Do you already have another mysqld server running with \
                    Mysqlx ?'\n";
    assert_eq!(findings(x_plugin), []);
}
