//! Errors of the server as clients and drivers print them, and errors of theirs that say that a connection was lost.
//!
//! `below` reads what a program prints below an error, `chain` finds errors that it prints again, `pool` what a pool of connections counts.

mod below;
mod chain;
mod pool;

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use spindoctor_model::TroubleKind;

use crate::log_troubles::{
    DEADLOCKS, FULL, NO_MEMORY, NO_ROOM_IN_TABLE, NO_THREAD, OUTSIDE, SYSTEM_TABLES, TABLE_CRASHED,
    TABLE_FILE_MISSING, TOO_MANY, WAITS_FOR_ROOM,
};

pub(crate) use below::{goes_on, is_of_trace, silence, with_causes};
pub(crate) use chain::Chain;
pub(crate) use pool::add_counts;

/// What lines of the others mean.
const LOCK_TIMEOUT: &str = "statements gave up their wait for a row's lock (error 1205)";
const PREPARED_FULL: &str =
    "clients could not prepare statements: max_prepared_stmt_count was reached (error 1461)";
const HOST_BLOCKED: &str = "a client's host is blocked after connections that it broke off (error 1129)";
const ACCOUNT_LIMIT: &str = "an account has used what it may use (errors 1203 and 1226)";
const READ_ONLY: &str = "writes were refused: the server is read-only (error 1290)";
const TIME_LIMIT: &str = "statements were ended at their time limit (errors 3024 and 1969)";
const ENGINE: &str = "a storage engine returned an error (error 1030)";
const LOST: &str = "a client lost its connection (errors 2006 and 2013): the server ended or was started again (SHOW GLOBAL STATUS LIKE \
                    'Uptime'), closed it after wait_timeout or for a packet above max_allowed_packet, or the network broke it";
const NOT_REACHED: &str = "a client got no connection (errors 2002 and 2003): no server listens there, or the network does not let it through";
const REFUSED: &str = "a client was refused its connection (connection refused): no server listens at that address and port. It is down, it starts \
                       or recovers, or it listens elsewhere (port, bind_address, skip_networking)";
const NO_ANSWER: &str = "a client got no answer when it connected (connection timed out, no route to host): its host is down, or a firewall or a \
                         wrong route is between them";
const UNKNOWN_HOST: &str = "a client found no address for the name of the server's host (error 2005): the name is wrong, or the name service does \
                            not answer";
const READ_TIMEOUT: &str = "a client gave up waiting for an answer after a timeout of its own (socketTimeout, read_timeout): the statement took \
                            longer, or the server or the network did not answer. The server may execute the statement on";
const IDLE: &str = "a client's connection was closed while it was idle: by the server after wait_timeout (or a restart), or by a firewall or load \
                    balancer on the way. Let the client's pool end connections earlier (HikariCP: maxLifetime, Go: SetConnMaxLifetime, \
                    SQLAlchemy: pool_recycle, Django: CONN_MAX_AGE)";
const SILENT: &str = "a client lost a connection on which nothing had come for a minute or more: it was idle, and the server closed it after \
                      wait_timeout, or a firewall or load balancer forgot it (let the client's pool end connections earlier, HikariCP: \
                      maxLifetime); or a statement ran for that long, and the server ended";
const POOL: &str = "a client's own pool of connections had none free in time: all were in use, by statements that take long or by code that does \
                    not give them back. The server refused nothing: its process list shows what the pool's connections do (all at work: cure \
                    the statements; asleep: the program keeps them)";
const HOST_NOT_ALLOWED: &str = "the server lets no account in from a client's host (error 1130): CREATE USER 'NAME'@'HOST' for the address that it \
                                comes from; where names are used, the server may have found no name, or another one, for the address";
const PACKET_TOO_LARGE: &str = "a statement, a value or a row was larger than max_allowed_packet (error 1153): SET GLOBAL max_allowed_packet (1G \
                                at most; connections made later have it), and the client's own of the same name";
const NO_ROOM_FOR_LOCKS: &str = "a statement locked more rows than the buffer pool has room for locks (error 1206): change the rows in parts, or \
                                 give innodb_buffer_pool_size more";
const PLUGIN_REFUSED: &str = "a plugin of replication refused a commit or a statement (error 3100), as Group Replication does where a transaction \
                              is larger than group_replication_transaction_size_limit, or the member does not reach its group: the server's \
                              error log says which";
const ONLINE_LOG_FULL: &str = "an ALTER TABLE that lets writes go on gave up, because the changes made meanwhile needed more room than \
                               innodb_online_alter_log_max_size (error 1799): raise it, or do it while little is written";
const INDEX_REFUSED: &str = "InnoDB refuses an index as corrupted (error 1712): CHECK TABLE, then ALTER TABLE ... DROP INDEX and ADD INDEX, or \
                             ALTER TABLE ... FORCE";
const NO_SINGLE_GTID: &str = "a statement cannot be logged as one transaction with one GTID (errors 1785 to 1787, enforce_gtid_consistency): \
                              CREATE TABLE ... SELECT, a temporary table made in a transaction, or tables with and without transactions in one";
const NO_CLIENT_PLUGIN: &str = "a client cannot log in as the account's authentication plugin wants it (errors 2059 and 1251): the client is older \
                                than the server, or lacks the plugin's library. Take a newer client, or ALTER USER ... IDENTIFIED WITH another \
                                plugin";
const NEEDS_SECRECY: &str = "an account with caching_sha2_password needs TLS for its login, or the server's public key (error 2061): \
                             ssl-mode=REQUIRED, or get-server-public-key (Connector/J: allowPublicKeyRetrieval=true)";
const KEY_TOO_LONG: &str = "an index was refused, for its key is longer than the row format allows (error 1071): ROW_FORMAT=DYNAMIC allows 3,072 \
                            bytes where COMPACT and REDUNDANT allow 767, a prefix of the column takes fewer, and utf8mb4 takes 4 a character";
const NO_DEFINER: &str = "the account that a view, a trigger, an event or a procedure was defined with is not there (error 1449): create it, or \
                          define the object again with one that is (information_schema.VIEWS, TRIGGERS, EVENTS and ROUTINES have DEFINER)";
const INTERRUPTED: &str = "a statement was ended by KILL QUERY, which people, programs and clients with a timeout send, or by a shutdown (error \
                           1317)";
const NO_TLS: &str = "a client and the server did not agree on TLS (error 2026): the server offers none (have_ssl, ssl_cert), its certificate is \
                      not of an authority that the client knows (ssl-ca, ssl-verify-server-cert), or they have no version in common";

const NO_GREETING: &str = "a connection ended before the login: something accepts for a server that is down (a firewall, a proxy, a port of a \
                           container), the server refuses the host (hosts.deny, a blocked host), or it did not answer within connect_timeout";

const DUMP_LOST: &str = "a dump lost its connection while it read a table: what takes it was slower than the server waits (SET GLOBAL \
                         net_write_timeout = 3600 before the dump), or the server ended meanwhile";
const LOGIN_REFUSED: &str = "the server refused an account: its password, its host or its rights are not what they should be (errors 1044, 1045 \
                             and 1698)";
const NO_PRIVILEGE: &str = "a statement was refused, for the account has not the privilege that it names (error 1227). The lists of all sessions and \
                            transactions and the status of InnoDB want GRANT PROCESS ON *.*, that of a replica REPLICATION CLIENT (MariaDB: \
                            REPLICA MONITOR)";
const REPLICA_LOST_PLACE: &str = "replication does not start: the replica's own record of how far it is cannot be read (error 1872). RESET REPLICA \
                                  (RESET SLAVE), then CHANGE REPLICATION SOURCE TO with what was applied last";
const NOT_IN_ENGINE: &str = "a table is in the data folder, and InnoDB does not know it (error 1932): its file was copied, or ibdata1 is of another \
                             server. Restore all of the folder, or make the table again and import its file";
const INDEX_DAMAGED: &str = "an index of a table is damaged (errors 126 and 1034): CHECK TABLE, then REPAIR TABLE or ALTER TABLE ... FORCE. Of a \
                             temporary table it says that the disk of tmpdir was full";
const LOG_UNREADABLE: &str = "a binary log cannot be read from some place on: it is damaged, cut, encrypted, or of another version than the program \
                              that reads it";

/// An error, and how it is known.
struct ClientError {
    /// Its number, by which `mysql` prints it in any language. Empty where messages of other kinds have it, too.
    number: &'static str,
    /// How its message begins, and what stands behind that in the same line.
    words: &'static [(&'static str, &'static str)],
    /// True where these words are a server's wherever they stand. Else its number, or an exception's name, stands before them.
    is_sure: bool,
    meaning: &'static str,
    kind: Option<TroubleKind>,
}

/// An error whose words are others' too.
const fn weak(
    number: &'static str,
    words: &'static [(&'static str, &'static str)],
    meaning: &'static str,
    kind: TroubleKind,
) -> ClientError {
    ClientError { number, words, is_sure: false, meaning, kind: Some(kind) }
}

/// An error whose words are nobody else's.
const fn sure(
    number: &'static str,
    words: &'static [(&'static str, &'static str)],
    meaning: &'static str,
    kind: TroubleKind,
) -> ClientError {
    ClientError { number, words, is_sure: true, meaning, kind: Some(kind) }
}

/// An error that no cause rests on.
const fn alone(
    number: &'static str,
    words: &'static [(&'static str, &'static str)],
    meaning: &'static str,
) -> ClientError {
    ClientError { number, words, is_sure: true, meaning, kind: None }
}

/// The errors (share/messages_to_clients.txt; MariaDB, sql/share/errmsg-utf8.txt), and of clients libmysql/errmsg.cc and Connector/J.
const ERRORS: [ClientError; 55] = [
    // 3 and 1026 (EE_WRITE, ER_ERROR_ON_WRITE), which other errors of the system have, too
    sure(
        "",
        &[
            ("Error writing file '", "(errno: 28"),
            ("Error writing file '", "(Errcode: 28"),
            ("Error writing file '", "(OS errno 28"),
        ],
        FULL,
        TroubleKind::DiskFull,
    ),
    weak("1021", &[("Disk full (", "")], WAITS_FOR_ROOM, TroubleKind::WaitsForSpace),
    sure("1030", &[("Got error ", " from storage engine")], ENGINE, TroubleKind::EngineError),
    weak("1040", &[("Too many connections", "")], TOO_MANY, TroubleKind::TooManyConnections),
    weak("1041", &[("Out of memory", "")], NO_MEMORY, TroubleKind::NoMemory),
    sure("1047", &[("has not yet prepared node for application use", "")], OUTSIDE, TroubleKind::NoMajority),
    weak("1114", &[("The table '", "' is full")], NO_ROOM_IN_TABLE, TroubleKind::TableFull),
    sure(
        "1129",
        &[("is blocked because of many connection errors", "")],
        HOST_BLOCKED,
        TroubleKind::HostBlocked,
    ),
    sure("1135", &[("Can't create a new thread (errno ", "")], NO_THREAD, TroubleKind::NoThread),
    sure(
        "1203",
        &[("already has more than 'max_user_connections' active connections", "")],
        ACCOUNT_LIMIT,
        TroubleKind::AccountLimit,
    ),
    sure("1205", &[("Lock wait timeout exceeded", "")], LOCK_TIMEOUT, TroubleKind::LockTimeout),
    sure("1213", &[("Deadlock found when trying to get lock", "")], DEADLOCKS, TroubleKind::Deadlock),
    sure(
        "1226",
        &[("has exceeded the '", "' resource (current value: ")],
        ACCOUNT_LIMIT,
        TroubleKind::AccountLimit,
    ),
    // 1290, which other options have, too
    sure(
        "",
        &[(" server is running with the --", "read-only option so it cannot execute this statement")],
        READ_ONLY,
        TroubleKind::ReadOnly,
    ),
    sure(
        "1461",
        &[("Can't create more than max_prepared_stmt_count statements", "")],
        PREPARED_FULL,
        TroubleKind::PreparedFull,
    ),
    ClientError {
        number: "1812",
        words: &[
            ("Tablespace is missing for table ", ""),
            ("Could not find a valid tablespace file for ", ""),
        ],
        is_sure: true,
        meaning: TABLE_FILE_MISSING,
        kind: None,
    },
    sure(
        "1034",
        &[
            ("Incorrect key file for table '", "; try to repair it"),
            ("Index for table '", "is corrupt; try to repair it"),
        ],
        INDEX_DAMAGED,
        TroubleKind::TableCrashed,
    ),
    // HA_ERR_CRASHED, with the words of 1034
    sure(
        "126",
        &[
            ("Got error 126 when reading table '", ""),
            // HA_ERR_WRONG_IN_RECORD
            ("Got error 127 when reading table '", ""),
        ],
        INDEX_DAMAGED,
        TroubleKind::TableCrashed,
    ),
    sure("1194", &[("Table '", "' is marked as crashed and ")], TABLE_CRASHED, TroubleKind::TableCrashed),
    // The same words: its last repair failed, and both as the storage engine's own errors (HA_ERR_CRASHED_ON_REPAIR and _ON_USAGE).
    sure("1195", &[], TABLE_CRASHED, TroubleKind::TableCrashed),
    sure("144", &[("Got error 144 when reading table '", "")], TABLE_CRASHED, TroubleKind::TableCrashed),
    sure("145", &[("Got error 145 when reading table '", "")], TABLE_CRASHED, TroubleKind::TableCrashed),
    weak("1712", &[("Index ", " is corrupted")], INDEX_REFUSED, TroubleKind::TableCrashed),
    alone("1045", &[("Access denied for user '", "")], LOGIN_REFUSED),
    alone("1227", &[("Access denied; you need ", "privilege")], NO_PRIVILEGE),
    alone(
        "1872",
        &[
            ("failed to initialize relay log info structure", ""),
            ("failed to initialize applier metadata structure", ""),
        ],
        REPLICA_LOST_PLACE,
    ),
    sure("1932", &[("Table '", "' doesn't exist in engine")], NOT_IN_ENGINE, TroubleKind::TableCrashed),
    alone("1071", &[("Specified key was too long; max key length is ", " bytes")], KEY_TOO_LONG),
    alone("1130", &[("' is not allowed to connect to this M", " server")], HOST_NOT_ALLOWED),
    // 2020, too, and PacketTooBigException of Connector/J
    alone(
        "1153",
        &[
            ("Got a packet bigger than 'max_allowed_packet' bytes", ""),
            ("Got packet bigger than 'max_allowed_packet' bytes", ""),
            ("Packet for query is too large (", ""),
        ],
        PACKET_TOO_LARGE,
    ),
    alone("1206", &[("The total number of locks exceeds the lock table size", "")], NO_ROOM_FOR_LOCKS),
    alone("1449", &[("The user specified as a definer (", " does not exist")], NO_DEFINER),
    alone(
        "1799",
        &[(" required more than 'innodb_online_alter_log_max_size' bytes of modification log", "")],
        ONLINE_LOG_FULL,
    ),
    // 1785 and 1787, too
    alone("1786", &[("Statement violates GTID consistency: ", "")], NO_SINGLE_GTID),
    // 1251, too
    alone(
        "2059",
        &[
            ("Authentication plugin '", "' cannot be loaded: "),
            ("Client does not support authentication protocol requested by server", ""),
        ],
        NO_CLIENT_PLUGIN,
    ),
    alone(
        "2061",
        &[
            ("Authentication plugin '", "Authentication requires secure connection"),
            ("Public Key Retrieval is not allowed", ""),
        ],
        NEEDS_SECRECY,
    ),
    alone("3100", &[("Error on observer while running replication hook '", "")], PLUGIN_REFUSED),
    // Of a client's own pool: HikariCP, SQLAlchemy, ActiveRecord (and before Rails 4.2), Tomcat, DBCP, c3p0, Druid, Knex, Sequelize, Prisma,
    // MySqlConnector, Connector/NET, Connector/Python, sqlx.
    alone(
        "",
        &[
            ("Connection is not available, request timed out after ", "ms"),
            ("QueuePool limit of size ", " reached, connection timed out"),
            ("could not obtain a connection from the pool within ", " seconds"),
            ("could not obtain a database connection within ", " seconds"),
            ("Pool empty. Unable to fetch a connection in ", " seconds"),
            ("Cannot get a connection, pool error Timeout waiting for idle object", ""),
            ("An attempt by a client to checkout a Connection has timed out", ""),
            ("GetConnectionTimeoutException: wait millis ", ", active "),
            ("Knex: Timeout acquiring a connection. The pool is probably full", ""),
            ("SequelizeConnectionAcquireTimeoutError", ""),
            ("Timed out fetching a new connection from the connection pool", ""),
            ("Connect Timeout expired. All pooled connections are in use", ""),
            ("error connecting: Timeout expired.", "prior to obtaining a connection from the pool"),
            ("Failed getting connection; pool exhausted", ""),
            ("pool timed out while waiting for an open connection", ""),
        ],
        POOL,
    ),
    // Of mysqlbinlog, and of a server that reads its own.
    alone(
        "",
        &[("Error in Log_event::read_log_event()", ""), ("Could not read entry at offset ", "")],
        LOG_UNREADABLE,
    ),
    alone("", &[("Lost connection to ", "when dumping table ")], DUMP_LOST),
    alone("1548", &[("Cannot load from mysql.", "is probably corrupted")], SYSTEM_TABLES),
    weak("1836", &[("Running in read-only mode", "")], READ_ONLY, TroubleKind::ReadOnly),
    sure("1969", &[("max_statement_time exceeded", "")], TIME_LIMIT, TroubleKind::TimeLimit),
    sure("3024", &[("maximum statement execution time exceeded", "")], TIME_LIMIT, TroubleKind::TimeLimit),
    ClientError {
        number: "2026",
        words: &[
            ("SSL connection error", ""),
            ("TLS/SSL error: ", ""),
            (below::LINK_FAILURE, "SSLHandshakeException"),
        ],
        is_sure: false,
        meaning: NO_TLS,
        kind: None,
    },
    // What a system says of a connection that is not made: Linux, macOS and Windows each have numbers of their own.
    alone(
        "",
        &[
            (CANNOT_CONNECT, "(111"),
            (CANNOT_CONNECT, "(61)"),
            (CANNOT_CONNECT, "(10061"),
            (CANNOT_CONNECT, "[Errno 111]"),
            (CANNOT_REACH, "(111"),
            (CANNOT_REACH, "(61)"),
            (CANNOT_REACH, "(10061"),
            ("[2002] Connection refused", ""),
            ("/2002): Connection refused", ""),
            ("connect ECONNREFUSED ", ":3306"),
            ("dial tcp ", ":3306: connect: connection refused"),
            ("Socket fail to connect to host:", "Connection refused"),
            (below::LINK_FAILURE, "Connection refused"),
        ],
        REFUSED,
    ),
    alone(
        "2005",
        &[
            ("Unknown MySQL server host '", ""),
            ("Unknown server host '", ""),
            (CANNOT_CONNECT, "[Errno -2]"),
            (CANNOT_CONNECT, "[Errno -3]"),
            (CANNOT_CONNECT, "getaddrinfo failed"),
            ("[2002] php_network_getaddresses: ", ""),
            ("/2002): php_network_getaddresses: ", ""),
            (below::LINK_FAILURE, "UnknownHostException"),
        ],
        UNKNOWN_HOST,
    ),
    alone(
        "",
        &[
            (CANNOT_CONNECT, "(110"),
            (CANNOT_CONNECT, "(113"),
            (CANNOT_CONNECT, "(10060"),
            (CANNOT_CONNECT, "[Errno 110]"),
            (CANNOT_CONNECT, "[Errno 113]"),
            (CANNOT_CONNECT, "(timed out)"),
            (CANNOT_REACH, "(110"),
            (CANNOT_REACH, "(113"),
            (CANNOT_REACH, "(10060"),
            ("[2002] Connection timed out", ""),
            ("[2002] No route to host", ""),
            ("/2002): Connection timed out", ""),
            ("/2002): No route to host", ""),
            ("connect ETIMEDOUT ", ":3306"),
            ("connect EHOSTUNREACH ", ":3306"),
            ("dial tcp ", ":3306: i/o timeout"),
            ("dial tcp ", ":3306: connect: connection timed out"),
            ("dial tcp ", ":3306: connect: no route to host"),
            ("Socket fail to connect to host:", "timed out"),
            (below::LINK_FAILURE, "connect timed out"),
            (below::LINK_FAILURE, "Connect timed out"),
            (below::LINK_FAILURE, "Connection timed out"),
            (below::LINK_FAILURE, "NoRouteToHostException"),
        ],
        NO_ANSWER,
    ),
    alone(
        "",
        &[
            (below::LINK_FAILURE, "Read timed out"),
            ("Lost connection to MySQL server during query (", "timed out)"),
        ],
        READ_TIMEOUT,
    ),
    alone(
        "4031",
        &[
            ("The client was disconnected by the server because of inactivity", ""),
            ("packets.go:", ": closing bad idle connection: "),
            ("Failed to validate connection com.mysql.", "using a shorter maxLifetime value"),
            ("Failed to validate connection org.mariadb.", "using a shorter maxLifetime value"),
            (below::LINK_FAILURE, "server configured value of 'wait_timeout'"),
        ],
        IDLE,
    ),
    alone("", &[(below::LINK_FAILURE, below::SILENT_FOR_LONG)], SILENT),
    // 2013, too
    alone(
        "",
        &[
            (below::LINK_FAILURE, "has not received any packets"),
            ("Lost connection to ", "reading initial communication packet"),
            ("Lost connection to ", "waiting for initial communication packet"),
            ("Lost connection to ", "reading authorization packet"),
        ],
        NO_GREETING,
    ),
    ClientError {
        number: "2013",
        words: &[
            ("Lost connection to MySQL server", ""),
            ("Lost connection to server", ""),
            ("MySQL server has gone away", ""),
            ("Server has gone away", ""),
            (below::LINK_FAILURE, ""),
            // Go's driver
            ("packets.go:", ": unexpected EOF"),
        ],
        is_sure: true,
        meaning: LOST,
        kind: None,
    },
    ClientError {
        number: "2003",
        words: &[
            (CANNOT_CONNECT, ""),
            (CANNOT_REACH, ""),
            ("Can't connect to local MySQL server through socket ", ""),
            ("Can't connect to local server through socket ", ""),
        ],
        is_sure: true,
        meaning: NOT_REACHED,
        kind: None,
    },
    // Behind the errors of time limits, which begin so, too.
    alone("1317", &[("Query execution was interrupted", "")], INTERRUPTED),
];

/// How clients begin, of MySQL and of MariaDB, that get no connection.
const CANNOT_CONNECT: &str = "Can't connect to MySQL server on ";
const CANNOT_REACH: &str = "Can't connect to server on ";

/// Places of an error's words in a line that are looked at.
const MOST_PLACES: usize = 8;

/// How many errors there are.
pub(crate) const COUNT: usize = ERRORS.len();

/// What each of them means, and the trouble that causes rest on, in order.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, Option<TroubleKind>)> {
    ERRORS.iter().map(|error| (error.meaning, error.kind))
}

/// What an error of these means.
pub(crate) fn meaning(entry: usize) -> &'static str {
    ERRORS.get(entry).map_or("", |error| error.meaning)
}

/// The trouble that causes rest on where a client got an error of these.
pub(crate) fn kind(entry: usize) -> Option<TroubleKind> {
    ERRORS.get(entry).and_then(|error| error.kind)
}

/// The words of all of them, and what stands behind each.
pub(crate) fn words() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    ERRORS.iter().flat_map(|error| error.words)
}

/// Those words in one pass: most lines of a log have none.
static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::new(words().map(|(words, _)| *words))
        .expect("some hundred short texts are no more than it takes")
});

/// Which error a line is, as a client or a driver prints it: `ERROR 1040 (HY000): Too many connections`, `(1040, 'Too many connections')`,
/// `SQLSTATE[08004] [1040] Too many connections`, `java.sql.SQLException: Lock wait timeout exceeded; try restarting transaction`.
pub(crate) fn entry(line: &str) -> Option<usize> {
    /// Bytes of a line that are looked at: an error stands at the beginning, or behind what a program writes of itself.
    const LOOKED_AT: usize = 4_000;
    let line = &line[..line.floor_char_boundary(LOOKED_AT)];
    // A comment says what its writer wants to be spared of. A replica's applier says of itself that it tries again.
    if line.trim_start().starts_with(['#', ';']) || line.contains("Error_code: ") {
        return None;
    }
    let number = printed_number(line).or_else(|| named_number(line));
    let has_words = WORDS.is_match(line);
    if number.is_none() && !has_words {
        return None;
    }
    ERRORS.iter().position(|error| number == Some(error.number) || has_words && error.is_in(line))
}

/// True for such a line.
pub(crate) fn is_of_client(line: &str) -> bool {
    entry(line).is_some()
}

impl ClientError {
    fn is_in(&self, line: &str) -> bool {
        let has = |(words, then): &(&str, &str)| {
            let mut places = line.match_indices(*words).map(|(at, _)| at).take(MOST_PLACES);
            let place = places.find(|at| self.is_sure || is_begin(&line[..*at], self.number));
            place.is_some_and(|at| line[at..].contains(*then))
        };
        self.words.iter().any(has)
    }
}

/// The number of an error as `mysql` prints it, first in its line.
fn printed_number(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches([' ', '`', '|', '"', '\'']).strip_prefix("ERROR ")?;
    let number = rest.split(' ').next()?;
    rest[number.len()..].starts_with(" (").then_some(number).filter(|number| !number.is_empty())
}

/// The number of an error under the name that PHP has for it, beside its message in whatever language: `mysql_errno = 1205`.
fn named_number(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("mysql_errno")?;
    let rest = rest.trim_start_matches([' ', '=', ':', '(', ')']);
    let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
    Some(digits).filter(|digits| digits.len() == 4)
}

/// True where what stands before a server's words is how clients and drivers begin: the name of an exception, or the error's number, which
/// stands in quotes or brackets and has its SQLSTATE behind it, or not: `1040 (08004): `, `1114 (HY000) at line 3: `, `[1040] `, `(1040, '`;
/// of MySQL Workbench `Error Code: 1040. `.
fn is_begin(before: &str, number: &str) -> bool {
    const NAMES: [&str; 4] = ["Error: ", "Exception: ", "ERROR: ", "from server: \""];
    /// Words that programs with indexes of their own have behind such a name, too: only an exception of SQL is the server's.
    const OF_OTHERS: [&str; 1] = ["1712"];
    /// Of an SQLSTATE.
    const LETTERS: usize = 5;
    let before = before.split_once(") at line ").map_or(before, |(before, _)| before);
    let bare = before.trim_end_matches([' ', ':', ',', '.', ']', ')', '\'', '"']);
    let bare =
        bare.rsplit_once(" (").filter(|(_, state)| state.len() == LETTERS).map_or(bare, |(bare, _)| bare);
    let is_number = |rest: &str| !rest.ends_with(|c: char| c.is_ascii_digit());
    let is_of_sql = || !OF_OTHERS.contains(&number) || before.to_ascii_lowercase().contains("sql");
    NAMES.iter().any(|name| before.ends_with(name)) && is_of_sql()
        || bare.strip_suffix(number).is_some_and(is_number)
}

#[cfg(test)]
mod tests;
