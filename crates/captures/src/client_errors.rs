//! Errors of the server as clients and drivers print them, and errors of theirs that say that a connection was lost.

use spindoctor_model::TroubleKind;

use crate::log_troubles::{
    DEADLOCKS, FULL, NO_MEMORY, NO_ROOM_IN_TABLE, NO_THREAD, OUTSIDE, SYSTEM_TABLES, TABLE_CRASHED,
    TABLE_FILE_MISSING, TOO_MANY, WAITS_FOR_ROOM,
};

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
const ERRORS: [ClientError; 36] = [
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
    sure("126", &[], INDEX_DAMAGED, TroubleKind::TableCrashed),
    sure("1194", &[("Table '", "' is marked as crashed and ")], TABLE_CRASHED, TroubleKind::TableCrashed),
    // The same words: its last repair failed, and both as the storage engine's own errors (HA_ERR_CRASHED_ON_REPAIR and _ON_USAGE).
    sure("1195", &[], TABLE_CRASHED, TroubleKind::TableCrashed),
    sure("144", &[], TABLE_CRASHED, TroubleKind::TableCrashed),
    sure("145", &[], TABLE_CRASHED, TroubleKind::TableCrashed),
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
        words: &[("SSL connection error", ""), ("TLS/SSL error: ", "")],
        is_sure: false,
        meaning: NO_TLS,
        kind: None,
    },
    // 2013, too
    alone(
        "",
        &[
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
            ("Communications link failure", ""),
        ],
        is_sure: true,
        meaning: LOST,
        kind: None,
    },
    ClientError {
        number: "2003",
        words: &[
            ("Can't connect to MySQL server on ", ""),
            ("Can't connect to server on ", ""),
            ("Can't connect to local MySQL server through socket ", ""),
            ("Can't connect to local server through socket ", ""),
        ],
        is_sure: true,
        meaning: NOT_REACHED,
        kind: None,
    },
];

/// Places of an error's words in a line that are looked at.
const MOST_PLACES: usize = 8;

/// How many errors there are.
pub(crate) const COUNT: usize = ERRORS.len();

/// What each of them means, and the trouble that causes rest on, in order.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, Option<TroubleKind>)> {
    ERRORS.iter().map(|error| (error.meaning, error.kind))
}

/// The words of all of them, and what stands behind each.
pub(crate) fn words() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    ERRORS.iter().flat_map(|error| error.words)
}

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
    ERRORS.iter().position(|error| number == Some(error.number) || error.is_in(line))
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
    /// Of an SQLSTATE.
    const LETTERS: usize = 5;
    let before = before.split_once(") at line ").map_or(before, |(before, _)| before);
    let bare = before.trim_end_matches([' ', ':', ',', '.', ']', ')', '\'', '"']);
    let bare =
        bare.rsplit_once(" (").filter(|(_, state)| state.len() == LETTERS).map_or(bare, |(bare, _)| bare);
    let is_number = |rest: &str| !rest.ends_with(|c: char| c.is_ascii_digit());
    NAMES.iter().any(|name| before.ends_with(name)) || bare.strip_suffix(number).is_some_and(is_number)
}

/// True for a line of the functions that a program prints below an exception.
pub(crate) fn is_of_trace(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("at ") && line.contains('(')
        || line.starts_with("... ") && line.ends_with(" more")
        || ["Caused by: ", "File \"", "Stack trace:", "goroutine "]
            .iter()
            .any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests;
