//! What a server says of itself and of its clients: crashes, limits, full disks, a page cleaner that did not run.

use super::has_sign;

/// What a check of the server's own prints when it fails (ut0dbg.cc): `InnoDB: Assertion failure in file btr0pcur.cc line 521`.
pub(super) const ASSERTION: &str = "assertion failure";

/// True for a line of such a check, in lower case. Below it a server writes of `repeated assertion failures`, and notes of a version say of an
/// `assertion failure when a page was read` that it is mended.
pub(super) fn is_failed_check(lower: &str) -> bool {
    const GO_ON: [&str; 3] = [" in thread", " in file", ":"];
    // The rest may stand in the next line.
    const OF_INNODB: &str = "innodb: ";
    lower.match_indices(ASSERTION).any(|(at, _)| {
        let rest = lower[at + ASSERTION.len()..].trim_end();
        GO_ON.iter().any(|sign| rest.starts_with(sign)) || rest.is_empty() && lower[..at].ends_with(OF_INNODB)
    })
}

/// Stands for a round of the page cleaner that took a minute or more and wrote nothing: no disk was waited for. The threads did
/// not run, as where the machine is suspended or the container is paused.
pub(super) const DID_NOT_RUN: &str = "the page cleaner wrote nothing";

/// What InnoDB's lines at a start after a crash mean.
pub(super) const RECOVERED: &str =
    "the server had ended without a shutdown before, and recovered at its start";

/// What lines of both a server and its clients mean.
pub(crate) const TOO_MANY: &str = "clients were refused: too many connections";
pub(crate) const NO_THREAD: &str = "clients were refused: no thread could be made for them";
pub(crate) const DEADLOCKS: &str = "transactions ended as victims of a deadlock";
pub(crate) const NO_ROOM_IN_TABLE: &str = "a table had no room for more rows";
pub(crate) const WAITS_FOR_ROOM: &str = "a disk was full: the server waited for room";
pub(crate) const NO_MEMORY: &str = "memory was refused to the server";
pub(crate) const FULL: &str = "a disk was full";

pub(super) const CONNECTIONS_LOST: &str =
    "connections were lost: clients that died, or were silent for too long";

/// The first line of a server that waits for room, with the file; every minute or ten it says that it still does.
pub(super) const DISK_IS_FULL: &str = "disk is full writing";
const STILL_FULL: &str = "message reprinted in";

/// Stands for what the C library prints of one: `mariadbd: /b/log0recv.cc:3848: f(): Assertion `a' failed.`
pub(super) const OF_LIBRARY: &str = "a check that the C library prints";

/// What either means.
pub(super) const CHECK_FAILED: &str = "a check of the server's own failed";

/// What InnoDB prints when it ends because the system refused it an operation on a file (os0file.cc), and because its system tablespace has a
/// damaged page (buf0buf.cc), in lower case.
pub(super) const GAVE_UP: &str = "cannot continue operation";
pub(super) const ENDED_BY_PAGE: &str = "aborting because of a corrupt database page";

/// Stands for a crash of a program that makes backups.
pub(super) const BACKUP_CRASHED: &str = "a backup's program crashed";

/// Stands for what a server says of a plugin that did not start, but for InnoDB and Aria, without which it ends.
pub(super) const OF_PLUGIN: &str = "a plugin did not start";
pub(super) const ENDED_BY_LATCH: &str =
    "the server ended itself because a thread had waited for a latch for too long";
pub(super) const NO_LOGIN: &str =
    "clients closed their connection before they logged in, as a check of the port does: no session was lost";
pub(super) const FILE_OPERATION: &str = "InnoDB ended the server because the system refused it an operation on a file: the lines above \
                                         name the operation, the file and the error of the system";
pub(super) const PAGE_ENDED_IT: &str =
    "InnoDB ended the server because a page of its system tablespace is damaged";
pub(super) const NO_BACKUP: &str =
    "the program that makes the backup crashed: the backup is not whole. Its version has to fit the server's";
pub(super) const PLUGIN_ENDED: &str = "a plugin or a storage engine did not start: the errors beside that say why, and tables of that \
                                       engine cannot be used";
pub(super) const OLD_TABLES: &str = "tables of performance_schema or mysql have the form of another version: mysql_upgrade or \
                                     mariadb-upgrade (MySQL from 8.0.16 on: a start with --upgrade=FORCE), then a restart";
pub(super) const CHANGE_BUFFER: &str = "InnoDB merges its change buffer at a slow shutdown (innodb_fast_shutdown = 0): the server ends \
                                        when that is done";
pub(super) const NO_AIO: &str = "the system gave InnoDB no asynchronous I/O: fs.aio-max-nr is used up (sysctl fs.aio-max-nr and \
                                 fs.aio-nr), or innodb_use_native_aio = OFF starts without it";

pub(super) const NO_TLS: &str = "the server offers no TLS: it could not use its certificate or its key, and the line says why (a file that is \
                                 missing, that it may not read, or that does not belong to the other); who insists on TLS is refused";
/// Also said of the administrative port alone, which then has the configuration of the other (MY-013603).
pub(super) const NO_CERTIFICATE: &str = "one of the server's ports has no certificate of its own (ssl_cert, ssl_key; admin_ssl_cert of the \
                                         administrative port): it has that of mysql_main where a line beside says so, and else no TLS";
pub(super) const NO_LOGIN_PLUGIN: &str = "accounts cannot log in, because their authentication plugin is not loaded: ALTER USER ... IDENTIFIED \
                                          WITH caching_sha2_password (MariaDB: ed25519), or load it (MySQL 8.4: mysql_native_password = ON; 9.0 \
                                          has no mysql_native_password)";
pub(super) const FEWER_FILES: &str = "the system let the server open fewer files than it asked for, and the server lowered table_open_cache or \
                                      max_connections to that: LimitNOFILE in its unit (systemctl edit), or ulimit -n";

/// Stands for what a server says of an account whose plugin it does not have: `Plugin 'mysql_native_password' is not loaded`.
pub(super) const OF_LOGIN_PLUGIN: &str = "an authentication plugin is not loaded";

pub(super) fn is_of_login_plugin(lower: &str) -> bool {
    const OF_LOGIN: [&str; 7] = ["password", "auth", "socket", "pam", "ldap", "ed25519", "parsec"];
    let plugin = lower.split_once("plugin '").and_then(|(_, rest)| rest.split_once("' is not loaded"));
    plugin.is_some_and(|(name, _)| OF_LOGIN.iter().any(|word| name.contains(word)))
}

/// Stands for what MariaDB says from 10.6 on when it ends itself because of a latch; who quotes it may name the latch within.
pub(super) const FATAL_WAIT: &str = "innodb_fatal_semaphore_wait_threshold was exceeded";

/// True for the line with which InnoDB ends because the system refused it an operation on a file.
pub(crate) fn is_refused_operation(line: &str) -> bool {
    line.contains("Cannot continue operation")
}

/// True for a line in which a server says that it still waits for room; it names the file no more.
pub(crate) fn still_waits(lower: &str) -> bool {
    has_sign(lower, STILL_FULL)
}

/// The file of a log that a server goes on without, of which the line above says that it could not be opened: `Could not use FILE for logging
/// (error 13 - Permission denied)`.
pub(crate) fn log_not_written(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("Could not use ")?;
    rest.split_once(" for logging (error").map(|(file, _)| file).filter(|file| !file.is_empty())
}

/// `loop took 18342ms`, `Page cleaner took 48210ms to flush`, `Long wait (241 seconds) for dict_sys.latch`
pub(crate) fn duration_ms(line: &str) -> Option<u64> {
    if let Some((_, rest)) = line.split_once(" took ") {
        return rest.split_once("ms")?.0.parse().ok();
    }
    let (_, rest) = line.split_once("long wait (")?;
    rest.split_once(" seconds")?.0.parse::<u64>().ok()?.checked_mul(1000)
}

/// The least that such a round takes, milliseconds. By judgement: a page cleaner that waits for a latch is over it sooner.
const STOPPED_MS: u64 = 60_000;

/// `page_cleaner: 1000ms intended loop took 5966815ms. ... (flushed=0 and evicted=0, during the time.)`, and from MySQL 8.0.22 on
/// `Page cleaner took 5966815ms to flush 0 and evict 0 pages`.
pub(super) fn wrote_nothing(line: &str) -> bool {
    (line.contains("(flushed=0 and evicted=0") || line.contains(" to flush 0 and evict 0 pages"))
        && duration_ms(line).is_some_and(|ms| ms >= STOPPED_MS)
}

/// `Plugin 'ROCKSDB' init function returned error.`, and the line below that.
pub(super) fn is_of_plugin(lower: &str) -> bool {
    const OF_START: [&str; 2] = ["innodb'", "aria'"];
    let rest = lower.split_once("plugin '").map(|(_, rest)| rest);
    rest.is_some_and(|rest| {
        (rest.contains("' init function returned error")
            || rest.contains("' registration as a storage engine failed"))
            && !OF_START.iter().any(|name| rest.starts_with(name))
    })
}

/// True for the line, in lower case, with which a server begins each of its starts.
pub(crate) fn begins_start(lower: &str) -> bool {
    lower.contains("starting as process ")
        || lower.contains("starting mariadb ") && lower.contains(" as process ")
}
