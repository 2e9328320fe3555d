use super::*;
use crate::error_log::read;
use crate::log_lines::is_of_log;

/// The troubles that a line is.
fn kinds(line: &str) -> Vec<TroubleKind> {
    assert!(is_of_log(line), "{line}");
    read(line).troubles.into_iter().map(|trouble| trouble.kind).collect()
}

#[test]
fn errors_as_clients_print_them_are_lines_of_a_log() {
    for (line, kind) in [
        ("ERROR 1040 (HY000): Too many connections", TroubleKind::TooManyConnections),
        ("OperationalError: (1040, 'Too many connections')", TroubleKind::TooManyConnections),
        ("SQLSTATE[08004] [1040] Too many connections", TroubleKind::TooManyConnections),
        (
            "mysqldump: Got error: 1040: Too many connections when trying to connect",
            TroubleKind::TooManyConnections,
        ),
        (
            "`ERROR 1021 (HY000): Disk full (/tmp/#sql_1.MAI); waiting for someone to free some space... (errno: 28)`",
            TroubleKind::WaitsForSpace,
        ),
        (
            "and more like this, then it says ERROR 1040 (08004): Too many connections",
            TroubleKind::TooManyConnections,
        ),
        ("ERROR 1135 (HY000): Can't create a new thread (errno 11); if you are", TroubleKind::NoThread),
        ("ERROR 1114 (HY000) at line 812: The table 'stock' is full", TroubleKind::TableFull),
        (
            "PHP Warning:  mysqli_connect(): (HY000/1040): Too many connections in /srv/shop/db.php on line 3",
            TroubleKind::TooManyConnections,
        ),
        (
            "java.sql.SQLNonTransientConnectionException: Data source rejected establishment of connection,  message from server: \
             \"Too many connections\"",
            TroubleKind::TooManyConnections,
        ),
        (
            "ERROR 1030 (HY000): Got error 168 - 'Unknown (generic) error from engine' from storage engine",
            TroubleKind::EngineError,
        ),
        ("ERROR 1030 (HY000): Got error 28 from storage engine", TroubleKind::DiskFull),
        ("Error Code: 1114. The table 'stock' is full", TroubleKind::TableFull),
        ("Error Code: 1040. Too many connections", TroubleKind::TooManyConnections),
        (
            "`Error Code: 1026. Error writing file '/tmp/MLa' (errno: 28 - No space left on device)`",
            TroubleKind::DiskFull,
        ),
        (
            "java.sql.SQLException: Error writing file '/tmp/MYa' (Errcode: 28 - No space left on device)",
            TroubleKind::DiskFull,
        ),
        (
            "ERROR 3 (HY000): Error writing file '/tmp/MYa' (OS errno 28 - No space left on device)",
            TroubleKind::DiskFull,
        ),
        ("ERROR 1213 (40001): Verklemmung beim Versuch, eine Sperre anzufordern", TroubleKind::Deadlock),
    ] {
        assert_eq!(kinds(line), [kind], "{line}");
    }
    assert!(
        !is_of_client("ERROR 1064 (42000): You have an error") && !is_of_client("see the ERROR 1040 (HY000)")
    );
}

#[test]
fn errors_that_no_cause_rests_on_are_said() {
    for (line, meaning) in [
        ("ERROR 1045 (28000): Access denied for user 'app'@'db7' (using password: YES)", LOGIN_REFUSED),
        (
            "mysqldump: Got error: 1044: \"Access denied for user 'app'@'%' to database 'shop'\" when selecting the database",
            LOGIN_REFUSED,
        ),
        (
            "ERROR 1227 (42000): Access denied; you need (at least one of) the PROCESS privilege(s) for this operation",
            NO_PRIVILEGE,
        ),
        (
            "ERROR 1872 (HY000): Slave failed to initialize relay log info structure from the repository",
            REPLICA_LOST_PLACE,
        ),
        ("ERROR: Could not read entry at offset 359: Error in log format or read error.", LOG_UNREADABLE),
        (
            "mariadb-dump: Error 2013: Lost connection to server during query when dumping table `stock` at row: 812",
            DUMP_LOST,
        ),
        (
            "2024-03-04 10:11:12 0 [ERROR] InnoDB: Could not find a valid tablespace file for `shop/stock`.",
            TABLE_FILE_MISSING,
        ),
    ] {
        assert_eq!(kinds(line), [], "{line}");
        let says = read(line).says;
        assert!(says.len() == 1 && says[0].starts_with(meaning), "{line}: {says:?}");
    }
    let lost = "ERROR 2013 (HY000): Lost connection to MySQL server during query";
    assert!(read(lost).says[0].starts_with(LOST), "{:?}", read(lost).says);
}

#[test]
fn a_table_that_is_refused_is_a_trouble_by_its_words_and_by_each_of_its_numbers() {
    for (line, meaning) in [
        ("Error    : Table 'shop.stock' doesn't exist in engine", NOT_IN_ENGINE),
        ("ERROR 1932 (42S02): Die Tabelle 'shop.stock' gibt es in der Engine nicht", NOT_IN_ENGINE),
        (
            "2024-03-04 10:11:12 7 [ERROR] mariadbd: Index for table 'stock' is corrupt; try to repair it",
            INDEX_DAMAGED,
        ),
        (
            "ERROR 126 (HY000): Incorrect key file for table './shop/stock.MYI'; try to repair it",
            INDEX_DAMAGED,
        ),
        ("ERROR 126 (HY000): Der Index der Tabelle passt nicht", INDEX_DAMAGED),
        (
            "ERROR 145 (HY000) at line 7: Table './shop/stock' is marked as crashed and should be repaired",
            TABLE_CRASHED,
        ),
        (
            "java.sql.SQLException: Table './shop/stock' is marked as crashed and last (automatic?) repair failed",
            TABLE_CRASHED,
        ),
        ("ERROR 144 (HY000): La tabla './shop/stock' no se pudo reparar", TABLE_CRASHED),
        ("ERROR 145 (HY000): La tabla './shop/stock' debe ser reparada", TABLE_CRASHED),
        ("ERROR 1194 (HY000): La tabla 'stock' debe ser reparada", TABLE_CRASHED),
        ("ERROR 1195 (HY000): La tabla 'stock' no se pudo reparar", TABLE_CRASHED),
    ] {
        assert_eq!(kinds(line), [TroubleKind::TableCrashed], "{line}");
        let says = read(line).says;
        let count = 1 + usize::from(line.contains("is marked as crashed"));
        assert!(says.len() == count && says[0].starts_with(meaning), "{line}: {says:?}");
    }
    assert!(!is_of_client("ERROR 1445 (HY000): Not allowed") && !is_of_client("145: no table"));
}

#[test]
fn each_error_is_known_as_every_client_and_driver_prints_it() {
    for (number, state, message, kind) in [
        (
            1129,
            "HY000",
            "Host '10.0.0.7' is blocked because of many connection errors; unblock with 'mysqladmin flush-hosts'",
            TroubleKind::HostBlocked,
        ),
        (
            1203,
            "42000",
            "User shop already has more than 'max_user_connections' active connections",
            TroubleKind::AccountLimit,
        ),
        (1205, "HY000", "Lock wait timeout exceeded; try restarting transaction", TroubleKind::LockTimeout),
        (
            1213,
            "40001",
            "Deadlock found when trying to get lock; try restarting transaction",
            TroubleKind::Deadlock,
        ),
        (
            1226,
            "42000",
            "User 'shop' has exceeded the 'max_questions' resource (current value: 9000)",
            TroubleKind::AccountLimit,
        ),
        (
            1290,
            "HY000",
            "The MySQL server is running with the --super-read-only option so it cannot execute this statement",
            TroubleKind::ReadOnly,
        ),
        (
            1461,
            "42000",
            "Can't create more than max_prepared_stmt_count statements (current value: 16382)",
            TroubleKind::PreparedFull,
        ),
        (1836, "HY000", "Running in read-only mode", TroubleKind::ReadOnly),
        (
            1969,
            "70100",
            "Query execution was interrupted (max_statement_time exceeded)",
            TroubleKind::TimeLimit,
        ),
        (
            3024,
            "HY000",
            "Query execution was interrupted, maximum statement execution time exceeded",
            TroubleKind::TimeLimit,
        ),
    ] {
        for line in [
            format!("ERROR {number} ({state}): {message}"),
            format!("ERROR {number} ({state}) at line 7: {message}"),
            format!("Caused by: java.sql.SQLException: {message}"),
            format!("java.sql.SQLTransientException: (conn=812) Error: {message}"),
            format!("pymysql.err.OperationalError: ({number}, \"{message}\")"),
            format!("mysql.connector.errors.DatabaseError: {number} ({state}): {message}"),
            format!("SQLSTATE[{state}]: General error: {number} {message}"),
            format!("SQLSTATE[{state}] [{number}] {message}"),
            format!("2024/03/04 10:11:12 Error {number} ({state}): {message}"),
            format!("Error {number}: {message}"),
            format!("Mysql2::Error: {message}"),
        ] {
            assert_eq!(kinds(&line), [kind], "{line}");
        }
    }
}

#[test]
fn a_connection_that_was_lost_or_not_made_is_said_and_no_cause_is_guessed() {
    for (line, meaning) in [
        ("ERROR 1812 (HY000): Tablespace is missing for table `shop`.`stock`.", TABLE_FILE_MISSING),
        ("ERROR 2006 (HY000): MySQL server has gone away", LOST),
        ("ERROR 2013 (HY000): Lost connection to MySQL server during query", LOST),
        (
            "ERROR 2013 (HY000): Lost connection to MySQL server at 'reading initial communication packet', system error: 2",
            NO_GREETING,
        ),
        (
            "pymysql.err.OperationalError: (2013, \"Lost connection to server at 'reading authorization packet', system error: 104\")",
            NO_GREETING,
        ),
        ("ERROR 2026 (HY000): TLS/SSL error: SSL is required, but the server does not support it", NO_TLS),
        ("MySQLdb.OperationalError: (2026, 'SSL connection error: certificate verify failed')", NO_TLS),
        ("sqlalchemy.exc.OperationalError: (2006, \"Server has gone away\")", LOST),
        ("com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure", LOST),
        ("ERROR 2003 (HY000): Can't connect to MySQL server on '10.0.0.9:3306' (111)", REFUSED),
        ("ERROR 2003 (HY000): Can't connect to MySQL server on '10.0.0.9:3306' (2)", NOT_REACHED),
        (
            "ERROR 2002 (HY000): Can't connect to local MySQL server through socket '/run/a.sock' (2)",
            NOT_REACHED,
        ),
    ] {
        assert_eq!(kinds(line), [], "{line}");
        assert_eq!(read(line).says, [meaning], "{line}");
    }
}

#[test]
fn why_a_connection_was_not_made_or_was_closed_is_said_as_each_driver_prints_it() {
    for (line, meaning) in [
        ("ERROR 2003 (HY000): Can't connect to server on 'db7' (111)", REFUSED),
        ("(2003, \"Can't connect to MySQL server on 'db7' ([Errno 111] Connection refused)\")", REFUSED),
        ("PDOException: SQLSTATE[HY000] [2002] Connection refused in /srv/shop/db.php:12", REFUSED),
        ("PHP Warning:  mysqli_connect(): (HY000/2002): Connection refused in /srv/shop/db.php", REFUSED),
        ("Error: connect ECONNREFUSED 10.0.0.9:3306", REFUSED),
        ("2024/03/04 10:11:12 dial tcp 10.0.0.9:3306: connect: connection refused", REFUSED),
        ("ERROR 2003 (HY000): Can't connect to MySQL server on 'db7:3306' (110)", NO_ANSWER),
        ("ERROR 2003 (HY000): Can't connect to MySQL server on 'db7' (10060)", NO_ANSWER),
        ("SQLSTATE[HY000] [2002] Connection timed out", NO_ANSWER),
        ("Error: connect ETIMEDOUT 10.0.0.9:3306", NO_ANSWER),
        ("2024/03/04 10:11:12 dial tcp 10.0.0.9:3306: i/o timeout", NO_ANSWER),
        ("ERROR 2005 (HY000): Unknown MySQL server host 'db7' (-2)", UNKNOWN_HOST),
        ("[mysql] 2024/03/04 10:11:12 packets.go:122: closing bad idle connection: EOF", IDLE),
        ("[mysql] 2024/03/04 10:11:12 packets.go:37: unexpected EOF", LOST),
        (
            "ERROR 4031 (HY000): The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for \
             configuring this behavior.",
            IDLE,
        ),
    ] {
        assert_eq!(kinds(line), [], "{line}");
        assert_eq!(read(line).says, [meaning], "{line}");
    }
    for line in ["Error: connect ECONNREFUSED 10.0.0.9:6379", "dial tcp 10.0.0.9:5432: i/o timeout"] {
        assert!(!is_of_client(line), "{line}");
    }
}

#[test]
fn what_a_statement_was_refused_for_is_said() {
    for (number, state, message, meaning) in [
        (1071, "42000", "Specified key was too long; max key length is 767 bytes", KEY_TOO_LONG),
        (1130, "HY000", "Host '10.0.0.7' is not allowed to connect to this MariaDB server", HOST_NOT_ALLOWED),
        (1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes", PACKET_TOO_LARGE),
        (1206, "HY000", "The total number of locks exceeds the lock table size", NO_ROOM_FOR_LOCKS),
        (1317, "70100", "Query execution was interrupted", INTERRUPTED),
        (1449, "HY000", "The user specified as a definer ('old'@'%') does not exist", NO_DEFINER),
        (1786, "HY000", "Statement violates GTID consistency: CREATE TABLE ... SELECT.", NO_SINGLE_GTID),
        (
            1799,
            "HY000",
            "Creating index 'a' required more than 'innodb_online_alter_log_max_size' bytes of modification log. Please try again.",
            ONLINE_LOG_FULL,
        ),
        (
            2059,
            "HY000",
            "Authentication plugin 'caching_sha2_password' cannot be loaded: no such file",
            NO_CLIENT_PLUGIN,
        ),
        (
            2061,
            "HY000",
            "Authentication plugin 'caching_sha2_password' reported error: Authentication requires secure connection.",
            NEEDS_SECRECY,
        ),
        (3100, "HY000", "Error on observer while running replication hook 'before_commit'.", PLUGIN_REFUSED),
    ] {
        for line in [
            format!("ERROR {number} ({state}): {message}"),
            format!("mysql.connector.errors.DatabaseError: {number} ({state}): {message}"),
            format!("Mysql2::Error: {message}"),
        ] {
            assert_eq!(kinds(&line), [], "{line}");
            assert_eq!(read(&line).says, [meaning], "{line}");
        }
    }
    let packet = "com.mysql.cj.jdbc.exceptions.PacketTooBigException: Packet for query is too large (5,123 > 1,024). You can change this value";
    assert_eq!(read(packet).says, [PACKET_TOO_LARGE]);
    for line in ["ERROR 1712 (HY000): Index by_name is corrupted", "(1712, 'Index by_name is corrupted')"] {
        assert_eq!(kinds(line), [TroubleKind::TableCrashed], "{line}");
        assert_eq!(read(line).says, [INDEX_REFUSED], "{line}");
    }
    assert_eq!(entry("java.io.IOException: Index shop_7 is corrupted"), None);
    assert_eq!(entry("org.search.CorruptIndexException: Index _8a.cfs is corrupted (checksum failed)"), None);
    assert!(entry("java.sql.SQLException: Index by_name is corrupted").is_some());
    let logged = read("2024-03-04 10:11:12 7 [ERROR] Got error 126 when reading table './shop/stock'");
    assert!(logged.says.len() == 1 && logged.says[0].starts_with(INDEX_DAMAGED), "{:?}", logged.says);
}

#[test]
fn an_error_is_known_by_its_number_and_system_tables_by_their_name() {
    let timeout =
        "'ex_msg' => 'Failed: mysql_errno = 1205, mysql_error = Timeout sur l\\'obtention du verrou',";
    assert_eq!(kinds(timeout), [TroubleKind::LockTimeout]);
    let damaged = "Error: Cannot load from mysql.proc. The table is probably corrupted";
    assert_eq!(kinds(damaged), [TroubleKind::SystemTablesDamaged]);
    for line in ["mysql_errno = 12, no room", "the function mysql_errno() returns é", "mysql_errno"] {
        assert!(!is_of_client(line), "{line}");
    }
}

#[test]
fn functions_below_an_error_are_of_it_however_many_they_are() {
    let text = format!(
        "java.sql.SQLException: Lock wait timeout exceeded; try restarting transaction\n{}\nIt is so each night.\nWhat is it?\n",
        "\tat a.b.C.d(C.java:7)\n".repeat(500)
    );
    let parts = crate::recognise("x", &text);
    assert_eq!((parts[0].kind, parts[0].lines), (crate::Kind::ErrorLog, 501), "{:?}", parts[0].says);
}

#[test]
fn of_a_line_that_never_ends_the_beginning_counts() {
    let line = |before: usize| {
        format!("{}Lock wait timeout exceeded; try restarting transaction", "Disk full (".repeat(before))
    };
    assert!(is_of_client(&line(10)) && !is_of_client(&line(4_000)));
}

#[test]
fn words_of_these_that_stand_elsewhere_are_no_errors_of_clients() {
    for line in [
        "# avoids: MySQL server has gone away",
        "Error writing file '/srv/shop/a.txt': no space",
        "INSERT INTO fruit VALUES (1205, 'apple'), (1213, 'pear')",
        "we have too many connections, I think",
        "Error: The table 'stock' has no index",
        "2024-12-19 11:52:05 7 [Warning] Slave SQL: Lock wait timeout exceeded; try restarting transaction, Error_code: 1205",
        "ERROR 1290 (HY000): The MySQL server is running with the --secure-file-priv option so it cannot execute this statement",
    ] {
        assert!(!is_of_client(line), "{line}");
    }
}
