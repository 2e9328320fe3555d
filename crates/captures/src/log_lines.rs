//! What a line of an error log looks like: its time, its level, and what of them may be lost or in JSON.

use crate::client_errors::is_of_client;
use crate::denials::is_denial;
use crate::kernel_log::{is_disk_trouble, is_hung, is_kill_for_memory, is_killed_for_memory, is_lockup};
use crate::log_troubles::{
    is_event_of_probe, is_evicted, is_of_panel, is_of_script, is_of_supervisord, is_probe_failed,
};
use crate::{
    clock, container_stops, json, log_replication, own_checks, shell_notices, start_errors, systemd_log,
    tool_errors,
};

/// What lines of a log have behind their time and thread.
const LEVELS: [&str; 6] = ["[Note]", "[Warning]", "[ERROR]", "[System]", "[Error]", "[Information]"];

/// The farthest that a line's level stands from its beginning, bytes. By judgement: a time and a thread's number are shorter.
const MOST_BEFORE_LEVEL: usize = 60;

/// Where a line's level stands, and which it is.
fn level(line: &str) -> Option<(usize, &'static str)> {
    let levels = LEVELS.iter().filter_map(|level| Some((line.find(level)?, *level)));
    levels.min().filter(|(at, _)| *at <= MOST_BEFORE_LEVEL)
}

/// How long the level is that a text begins with.
fn level_length(text: &str) -> Option<usize> {
    LEVELS.iter().find(|level| text.starts_with(**level)).map(|level| level.len())
}

/// Where in a line the lines of a log begin that it has, one behind the other: at the time before each level. None where it is one line.
pub(crate) fn several_begin(line: &str) -> Option<Vec<usize>> {
    /// From a time to the end of its level, and what may stand before the time.
    const NEAR: usize = 80;
    let mut places: Vec<usize> = Vec::new();
    let mut from = 0;
    for (at, _) in line.match_indices('[') {
        let Some(length) = level_length(&line[at..]) else { continue };
        let near = line.floor_char_boundary(at.saturating_sub(NEAR)).max(from);
        places.extend(begins(&line[near..at + length]).map(|place| near + place));
        from = at + length;
    }
    (places.len() > 1).then_some(places)
}

/// What stands behind a line's level.
pub(crate) fn behind_level(line: &str) -> Option<&str> {
    level(line).map(|(at, level)| line[at + level.len()..].trim())
}

/// True for a line of the level of a warning.
pub(crate) fn is_warning(line: &str) -> bool {
    level(line).is_some_and(|(_, level)| level == "[Warning]")
}

/// The words of a line of the level of an error, or of an error of a program beside a server.
pub(crate) fn error(line: &str) -> Option<&str> {
    const ERRORS: [&str; 2] = ["[ERROR]", "[Error]"];
    /// What a server prints before a message that begins in the next line.
    const NOTHING: [&str; 2] = ["", "InnoDB:"];
    let is_error = level(line).is_some_and(|(_, level)| ERRORS.contains(&level)) && is_of_log(line);
    behind_level(line)
        .filter(|words| is_error && !NOTHING.contains(words))
        .or_else(|| tool_errors::words(line))
}

/// Where in a line of a log the server's own words begin: at the last time before the level. None where it is no such line.
pub(crate) fn begins(line: &str) -> Option<usize> {
    /// From the time to the level.
    const FARTHEST: usize = 60;
    /// What collects logs puts less before each line. By judgement.
    const LONGEST_PREFIX: usize = 200;
    let level = LEVELS.iter().filter_map(|level| line.find(level)).min()?;
    let mut before = ' ';
    let mut last = None;
    for (at, letter) in line[..level].char_indices() {
        if letter.is_ascii_digit()
            && !before.is_alphanumeric()
            && !"-:.".contains(before)
            && level - at <= FARTHEST
            && clock::time(&line[at..]).is_some()
        {
            last = Some(at);
        }
        before = letter;
    }
    last.filter(|at| *at <= LONGEST_PREFIX)
}

/// Where in a line that is none of a log an error of a server's begins that somebody quotes in a sentence, without its time: `Then it says
/// [ERROR] InnoDB: Cannot allocate memory for the buffer pool`; to MySQL 5.5 without its level.
pub(crate) fn quoted_error(line: &str) -> Option<usize> {
    const ERROR: &str = "[ERROR]";
    const FATAL: &str = "[FATAL]";
    const PARTS: [&str; 6] = ["InnoDB: ", "WSREP: ", "[MY-", "Slave SQL: ", "Slave I/O: ", "mysqld: "];
    /// What InnoDB prints, and nobody writes.
    const OF_INNODB: [&str; 3] =
        ["InnoDB: Assertion failure in thread ", "InnoDB: Serious error! ", "InnoDB: Fatal error: cannot "];
    /// Fewer words are the sign itself, of which somebody speaks.
    const FEWEST: usize = 5;
    let is_quoted = |at: usize| {
        let rest = line[at + ERROR.len()..].trim_start();
        let rest = rest.strip_prefix(FATAL).map_or(rest, str::trim_start);
        PARTS.iter().any(|part| rest.starts_with(part))
            && rest.split_whitespace().take(FEWEST).count() == FEWEST
    };
    let with_level = || line.match_indices(ERROR).map(|(at, _)| at).find(|at| is_quoted(*at));
    let of_innodb = || OF_INNODB.iter().filter_map(|begins| line.find(begins)).min();
    let place = with_level().or_else(of_innodb)?;
    (place > 0 && !is_of_log(line) && !begins_with_defect(line)).then_some(place)
}

/// `[ERROR] [MY-013059] [InnoDB] Out of space ...`, `[Warning] mysqld: ...`: a line without its time.
fn is_of_server(line: &str) -> bool {
    const SERVERS: [&str; 8] = [
        "InnoDB: ",
        "WSREP: ",
        "mysqld: ",
        "mariadbd: ",
        "mysqld got signal ",
        "mariadbd got signal ",
        "[MY-",
        "[InnoDB]",
    ];
    /// Behind the level stand the error's number and the part of the server. By judgement.
    const NEAR: usize = 60;
    let near = &line[..line.floor_char_boundary(NEAR)];
    SERVERS.iter().any(|server| near.contains(server))
}

/// `2016-03-28 01:18:40:InnoDB: mmap(137363456 bytes) failed; errno 12`: a line of InnoDB's own behind a time, with what a thread's number
/// is or what collected it between the two.
fn is_of_innodb(line: &str) -> bool {
    /// From the line's beginning. By judgement: a time and a thread's number are shorter.
    const NEAR: usize = 60;
    let near = || &line[..line.floor_char_boundary(NEAR)];
    line.starts_with(|c: char| c.is_ascii_digit())
        && near().contains("InnoDB: ")
        && clock::time(line).is_some()
}

/// What stands before a level where the time was cut in front: `T10:11:12.123456Z 0 `, `:01.123Z 0 `.
fn is_cut_time(before: &str) -> bool {
    let Some((time, thread)) = before.trim_end().rsplit_once(' ') else { return false };
    let time = time.trim_end();
    let time = time.rsplit(' ').next().unwrap_or(time);
    let is_clock = |c: char| c.is_ascii_digit() || "T:.-".contains(c);
    let is_thread = !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_digit());
    is_thread
        && time.strip_suffix('Z').is_some_and(|time| time.contains(['.', ':']) && time.chars().all(is_clock))
}

/// True for a line that an error log has and nothing else.
pub(crate) fn is_of_log(line: &str) -> bool {
    let level = level(line).map(|(at, _)| at);
    (level.is_some() && line.starts_with(|c: char| c.is_ascii_digit()) && clock::time(line).is_some())
        || is_kill_for_memory(line)
        || is_killed_for_memory(line)
        || is_hung(line)
        || is_lockup(line)
        || is_disk_trouble(line)
        || is_denial(line)
        || line.contains("Kernel panic - not syncing")
        || is_probe_failed(line)
        || is_event_of_probe(line)
        || is_evicted(line)
        || is_of_supervisord(line)
        || level == Some(0) && is_of_server(line)
        || level.is_some() && log_replication::is_of_part(line)
        || level.is_some_and(|at| is_cut_time(&line[..at]))
        || is_of_client(line)
        || start_errors::is_of_start(line)
        || systemd_log::unit(line).is_some()
        || container_stops::stop(line).is_some()
        || container_stops::is_pod_stopped(line)
        || shell_notices::of_server(line).is_some()
        || tool_errors::is_line(line)
        || line.starts_with("InnoDB: ") && !is_of_notes(line)
        || is_of_innodb(line)
        || ["Disk is full writing '", "disk is full writing '"].iter().any(|words| line.contains(words))
        || line.starts_with("DEADLOCK of threads detected")
        || line.contains("Aborted connection ") && line.contains(" to db: '")
        || line.starts_with("Version: '") && line.contains("socket:")
        || is_of_safe(line)
        || is_table_crashed(line)
        || is_numbered(line)
        || is_of_panel(line)
        || is_of_script(line)
        || own_checks::of_library(line).is_some()
        || line.contains("ready for connections.")
        // Of a backup that goes on.
        || line.contains(">> log scanned up to (")
        || ["mysqld", "mariadbd", "xtrabackup"].iter().any(|name| is_signal_of(line, name))
        || line.starts_with("mysqld got signal ")
        || line.starts_with("mariadbd got signal ")
        || line.len() > 13
            && line.as_bytes()[..6].iter().all(u8::is_ascii_digit)
            && line.contains("  InnoDB: ")
        || line.starts_with("stack_bottom = ")
        || line.starts_with("Attempting backtrace. ")
}

/// True for a line of the notes of a version, which name the part of the server as its log does: `InnoDB: Fixed a crash of ... (Bug #7)`.
fn is_of_notes(line: &str) -> bool {
    const BEGINS: [&str; 5] =
        ["InnoDB: Fixed ", "InnoDB: Fix ", "InnoDB: Added ", "InnoDB: Improved ", "InnoDB: Previously"];
    const WORDS: [&str; 10] = [
        "(Bug #",
        "(Bug#",
        "(WL #",
        "(MDEV-",
        " no longer ",
        " is now ",
        " are now ",
        " could cause ",
        " could lead to ",
        " could result in ",
    ];
    BEGINS.iter().any(|begin| line.starts_with(begin)) || WORDS.iter().any(|words| line.contains(words))
}

/// True for a line that begins with the number of a defect, as those of a list of what a version mends.
fn begins_with_defect(line: &str) -> bool {
    const NUMBERS: [&str; 6] = ["MDEV-", "Bug #", "Bug#", "PS-", "PXB-", "PXC-"];
    let line = line.trim_start_matches([' ', '\t', '*', '-', '[', '(', '#', '\u{2022}']);
    NUMBERS.iter().any(|number| line.starts_with(number))
}

/// `[MY-013178] [Server] Execution of server-side SQL statement`: a line of MySQL 8's without its time and level.
fn is_numbered(line: &str) -> bool {
    const PARTS: [&str; 4] = ["[Server] ", "[InnoDB] ", "[Repl] ", "[Xtrabackup] "];
    let rest = line.strip_prefix("[MY-").and_then(|rest| rest.split_once("] "));
    rest.is_some_and(|(number, rest)| {
        number.len() == 6
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && PARTS.iter().any(|part| rest.starts_with(part))
    })
}

/// `mysqld: Table './shop/stock' is marked as crashed and should be repaired`
fn is_table_crashed(line: &str) -> bool {
    let behind = |name: &&str| line.trim_start().strip_prefix(*name);
    let rest = ["mysqld: Table '", "mariadbd: Table '"].iter().find_map(behind);
    rest.is_some_and(|rest| rest.contains("' is marked as crashed "))
}

/// `10:11:12 UTC - mysqld got signal 11 ;`
fn is_signal_of(line: &str, name: &str) -> bool {
    let before = line.split_once(" got signal ").and_then(|(before, _)| before.strip_suffix(name));
    before.is_some_and(|before| before.ends_with(" - "))
}

/// `240304 10:11:12 mysqld_safe Starting mysqld daemon with databases from /data`, as the system's log has it with a colon or the number of
/// its process: `Mar  4 10:11:12 db1 mysqld_safe[4711]: Number of processes running now: 0`.
fn is_of_safe(line: &str) -> bool {
    const SAFE: [&str; 2] = ["mysqld_safe", "mariadbd-safe"];
    const WORDS: [&str; 3] =
        ["Starting mysqld daemon", "Starting mariadbd daemon", "Number of processes running now: "];
    let behind = |name: &&str| line.split_once(*name).map(|(_, rest)| rest);
    let Some(rest) = SAFE.iter().find_map(behind) else { return false };
    let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => rest,
    };
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    rest.strip_prefix(' ').is_some_and(|rest| WORDS.iter().any(|words| rest.starts_with(words)))
}

/// True where lines of a log are of a server: other programs write a time and a level in brackets, too. A server's line has a thread
/// between the two, or says whose it is; to 5.5 its year has two digits.
pub(crate) fn is_of_a_server(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "InnoDB",
        "MySQL",
        "mysqld",
        "MariaDB",
        "mariadbd",
        "WSREP",
        "[Entrypoint]",
        "Plugin '",
        "Slave ",
        "Aborted connection ",
        "Replica ",
    ];
    let says_whose = |line: &str| {
        WORDS.iter().any(|word| line.contains(word)) || is_of_client(line) || start_errors::is_of_start(line)
    };
    let mut lines = text.lines().filter(|line| is_of_log(line) && !container_stops::is_nameless(line));
    lines.any(|line| !is_without_thread(line) || says_whose(line))
}

/// `2024-05-02 08:01:40 [ERROR] `: a time with a year of four digits, and no number of a thread between it and the level; the name of a time
/// zone is none.
fn is_without_thread(line: &str) -> bool {
    const DATE: [usize; 2] = [4, 7];
    let Some((at, _)) = level(line).filter(|_| DATE.iter().all(|at| line.as_bytes().get(*at) == Some(&b'-')))
    else {
        return false;
    };
    let words: Vec<&str> = line[..at].split_whitespace().collect();
    let of_time = if words.first().is_some_and(|first| first.contains('T')) { 1 } else { 2 };
    let is_number = |word: &str| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        digits.starts_with(|c: char| c.is_ascii_hexdigit())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    !words.iter().skip(of_time).any(|word| is_number(word))
}

/// A line of MySQL 8's log in JSON as its other form has it; None for a line that is none.
fn plain(line: &str) -> Option<String> {
    let line = Some(line.trim()).filter(|line| line.starts_with('{') && json::has_few_values(line))?;
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let number = |name: &str| value.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default();
    Some(format!(
        "{} {} [{}] [MY-{:06}] [{}] {}",
        text("time"),
        number("thread"),
        text("label"),
        number("err_code"),
        text("subsystem"),
        text("msg")
    ))
    .filter(|_| value.get("err_code").is_some() && !text("msg").is_empty())
}

/// A log of which lines are in JSON as the log that its lines stand for.
pub(crate) fn without_json(text: &str) -> Option<String> {
    const SIGN: &str = "\"err_code\"";
    if !text.trim_start().starts_with('{') || !text.contains(SIGN) {
        return None;
    }
    let mut plain_text = String::with_capacity(text.len());
    let mut read = 0_usize;
    for line in text.lines() {
        match plain(line) {
            Some(line) => {
                read += 1;
                plain_text.push_str(&line);
            }
            None => plain_text.push_str(line),
        }
        plain_text.push('\n');
    }
    (read > 0).then_some(plain_text)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::TroubleKind;

    use super::*;
    use crate::error_log::read;

    #[test]
    fn lines_without_a_time_or_with_half_of_one_are_lines_of_a_log() {
        for line in [
            "[ERROR] InnoDB: The log sequence number is in the future",
            "[Warning] mysqld: Disk is full",
            "[Note] mariadbd: ready",
            ":01.123Z 0 [ERROR] [MY-010123] [Server] something",
            "mysqld got signal 11;",
            "[ERROR] mariadbd got signal 6 ;",
            "[ERROR] /opt/server/bin/mariadbd got signal 6 ;",
            "  Normal   Killing    8m    kubelet   Container mysql failed liveness probe, will be restarted",
            "Warning: 5T00:24:04.043766Z 0 [Warning] [MY-014084] [InnoDB] Threads are unable",
            "2016-03-28 01:18:40:InnoDB: mmap(1 bytes) failed; errno 12",
            "160328  1:18:40 InnoDB: Fatal error: cannot allocate memory for the buffer pool",
            "``` \"[ERROR] Master 'north': Slave I/O: Got fatal error 1236 from master when reading data from binary log: 'x'\" ```",
            "> `disk is full writing './binlog.~rec~'`",
            "Mar 04 10:11:12 db1 systemd[1]: Failed to start MariaDB 10.6.12 database server.",
            "` [Warning] Aborted connection 23 to db: 'shop' user: 'app' host: 'db1' (Got timeout reading communication packets)",
            "240304 10:11:12 mysqld_safe Starting mariadbd daemon with databases from /data",
            "Mar  4 10:11:12 db1 mysqld_safe[4711]: Number of processes running now: 0",
            "Mar  4 10:11:12 db1 mariadbd-safe: Starting mariadbd daemon with databases from /data",
            "10:11:12 UTC - xtrabackup got signal 11 ;",
            "10:11:12 PM  [mysql] \tError: MySQL shutdown unexpectedly.",
            "2017-10-25 11:00:29,642 INFO gave up: mysqld entered FATAL state, too many start retries too quickly",
            "2017-10-25 11:00:29,642 INFO exited: mariadbd (terminated by SIGKILL; not expected)",
            "5m  Warning  Evicted  pod/mysql-0  The node was low on resource: memory. Container mysql was using 6Gi, request is 4Gi",
            "5m  Warning  Unhealthy  pod/mysql-0  Startup probe failed: timeout",
            "3m  Killing  Killing container with id docker://mysql:Container failed liveness probe.. Container will be killed and recreated.",
            "Sep 09 14:41:51 db1 systemd[1]: mysql.service: State 'stop-sigterm' timed out. Killing.",
        ] {
            assert!(is_of_log(line), "{line}");
        }
        for line in [
            "[ERROR] of my own program",
            "Container web failed liveness probe, will be restarted",
            "2017-10-25 11:00:29,642 INFO gave up: nginx entered FATAL state, too many start retries too quickly",
            "5m  Warning  Evicted  pod/web-0  The node was low on resource: memory. Container web was using 6Gi",
            "a 0 [ERROR] something",
            "see [Note] InnoDB: in the manual",
            "mysqld_safe[é]: Number of processes running now: 0",
            "mysqld_safe restarts it: Starting mysqld daemon",
            "how do I know that mysqld got signal 11 ?",
        ] {
            assert!(!is_of_log(line), "{line}");
        }
    }

    #[test]
    fn lines_of_a_log_that_became_one_begin_at_their_times() {
        let line = "Unit a.service has begun. Dec 05 15:17:43 db1 mysqld[25]: 2024-12-05 15:17:43 140560 [Note] InnoDB: Using AIO é Dec 05 15:17:43 \
                    db1 mysqld[25]: 2024-12-05 15:17:44 140560 [ERROR] InnoDB: Page directory corruption: infimum not pointed to";
        let places = several_begin(line).unwrap();
        assert_eq!(places.len(), 2);
        assert!(line[places[0]..].starts_with("2024-12-05 15:17:43 140560 [Note]"), "{places:?}");
        assert!(line[places[1]..].starts_with("2024-12-05 15:17:44 140560 [ERROR]"), "{places:?}");
        let parts = crate::recognise("x", line);
        assert_eq!(parts[0].kind, crate::Kind::ErrorLog);
        assert!(parts[0].says[0].starts_with("a page of a data file is damaged"), "{:?}", parts[0].says);
        for one in ["2024-12-05 15:17:43 140560 [Note] InnoDB: see [ERROR] and [Note]", "[Note] [Note]", ""] {
            assert_eq!(several_begin(one), None, "{one}");
        }
    }

    #[test]
    fn an_error_that_a_sentence_quotes_is_a_line_of_a_log() {
        for (line, meaning) in [
            (
                "Node crash : [ERROR] WSREP: gcs_defrag.cpp:89: Expected: 7:2, received: 7:0",
                "1 error that is not known here",
            ),
            (
                "■ Since 01:00 é ● excerpt: [ERROR][FATAL] InnoDB: innodb_fatal_semaphore_wait_threshold was exceeded for dict_sys.latch ■ Why?",
                "the server ended itself because a thread had waited for a latch for too long",
            ),
            (
                "错误: [ERROR] [MY-012960] [InnoDB] Cannot create redo log files because data files are corrupt",
                "the server does not start: its redo log",
            ),
            (
                "エラログ: InnoDB: Serious error! InnoDB is trying to free page 7 InnoDB: Assertion failure in thread 16 in file fsp0fsp.c \
                 line 2981 mysqld got signal 11 ;",
                "the server crashed (signal 11)",
            ),
        ] {
            let text = format!("Hello,\n\n{line}\n");
            let parts = crate::recognise("a.txt", &text);
            let log = parts.iter().find(|part| part.kind == crate::Kind::ErrorLog);
            let says = log.map(|part| part.says.clone()).unwrap_or_default();
            assert!(says.first().is_some_and(|said| said.starts_with(meaning)), "{line}: {parts:?}");
        }
        for line in [
            "see [ERROR] InnoDB: in the manual",
            "[ERROR] InnoDB: Cannot allocate memory for the buffer pool",
            "2024-05-02 08:01:40 0 [ERROR] InnoDB: Cannot allocate memory for the buffer pool",
            "my program says [ERROR] that it is out of memory now",
            "see InnoDB: Assertion failure in the manual",
            "InnoDB: Assertion failure in thread 16 in file fsp0fsp.c line 2981",
            "é [ERROR]",
        ] {
            assert_eq!(quoted_error(line), None, "{line}");
        }
    }

    #[test]
    fn a_line_of_mysql_8_is_one_without_its_time_and_level() {
        let text = "Our upgrade ends with:\n[MY-013178] [Server] Execution of server-side SQL statement 'drop procedure mysql.die;\n\
                    ' failed with error code = 1305, error message = 'PROCEDURE mysql.die does not exist'.\n";
        let parts = crate::recognise("a.txt", text);
        let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert_eq!(found.len(), 1, "{parts:#?}");
        assert!(found[0].headline.contains("another version"), "{}", found[0].headline);
        for line in ["[MY-013178] [Other] a", "[MY-13178] [Server] a", "[MY-é", "[MY-013178] "] {
            assert!(!is_numbered(line), "{line}");
        }
    }

    #[test]
    fn the_log_of_a_backup_that_goes_on_is_one() {
        let line = "[00] 2024-03-04 10:11:12 >> log scanned up to (139845)\n";
        let parts = crate::recognise("a.txt", &line.repeat(3));
        assert_eq!(parts[0].kind, crate::Kind::ErrorLog);
        assert_eq!(parts[0].says, Vec::<String>::new());
    }

    #[test]
    fn a_crashed_table_is_said_without_a_time_and_a_level_and_quotes_may_be_a_page_s() {
        let crashed = "The event viewer says:\nmysqld: Table '.\\mysql\\db' is marked as crashed and should be repaired\nWhat now?\n";
        let parts = crate::recognise("a.txt", crashed);
        let log = parts.iter().find(|part| part.kind == crate::Kind::ErrorLog).unwrap();
        assert!(log.says.iter().any(|said| said.contains("mysql.db")), "{log:?}");
        let quoted =
            "2024-01-24  7:23:32 0 [ERROR] Plugin \u{2018}InnoDB\u{2019} init function returned error.\n";
        let parts = crate::recognise("a.txt", quoted);
        assert!(parts[0].says[0].starts_with("the server ended at its start"), "{:?}", parts[0].says);
    }

    #[test]
    fn a_line_of_a_log_that_is_an_item_of_a_list_is_one() {
        let list = "I see in the events of Windows:\n- InnoDB: The size of tablespace file './shop/stock.ibd' is only 49152\n\
                    - InnoDB: Missing FILE_CHECKPOINT at 71 between the checkpoint 70 and the end 90.\n\
                    - Plugin 'InnoDB' init function returned error.\n- Unknown/unsupported storage engine: InnoDB\n- Aborting\n\
                    They come again and again.\n";
        for mark in ["- ", "* ", "\u{2022} "] {
            let parts = crate::recognise("a.txt", &list.replace("\n- ", &format!("\n{mark}")));
            let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
            assert_eq!(found.len(), 1, "{mark}: {parts:#?}");
            assert!(found[0].headline.contains("redo log cannot be used"), "{mark}: {}", found[0].headline);
        }
    }

    #[test]
    fn notes_of_a_version_are_no_log() {
        for notes in [
            "* InnoDB: Fixed an assertion failure in btr0pcur.cc when a page was read.\n* InnoDB: A table that ran out of memory no longer \
             crashes the server.\n",
            "- InnoDB: Tablespaces with a page that is corrupted are now reported. (Bug #7)\n- InnoDB: Too many open files could cause a hang.\n",
            "InnoDB: Fixed a hang where a long semaphore wait ended in a crash (MDEV-1).\n",
            "- [MDEV-7] - Server crashes: [ERROR] InnoDB: Database page corruption on disk or a failed read\n",
        ] {
            let parts = crate::recognise("a.txt", &format!("Changes in 9.9.1\n\n{notes}"));
            assert!(parts.iter().all(|part| part.kind == crate::Kind::Unknown), "{notes}: {parts:?}");
        }
        // Without such words it is a line as a server's is, of which nothing is said.
        let says = read("InnoDB: Assertion failure in the merge when the tablespace was discarded.\n").says;
        assert_eq!(says, Vec::<String>::new());
        let quoted =
            "I think this is MDEV-7: [ERROR] InnoDB: Database page corruption on disk or a failed read";
        assert!(quoted_error(quoted).is_some());
        assert!(is_of_log("InnoDB: Database page corruption on disk or a failed file read of page 7."));
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_quoted_error_panic(line in "(\\[ERROR\\]|\\[FATAL\\]|InnoDB: |Serious error! |WSREP: |\\[MY-| |é|a b){0,30}") {
            quoted_error(&line);
        }

        #[test]
        fn no_line_makes_several_begin_panic(line in "(2024-12-05 15:17:43 |0 |\\[Note\\] |\\[ERROR\\]|\\[|é|a){0,40}") {
            several_begin(&line);
        }
    }

    #[test]
    fn a_log_of_another_program_is_not_a_server_s() {
        for text in [
            "2024-05-02 08:01:40 [ERROR] payment 812 failed\n2024-05-02 08:01:41 [Warning] retry\n",
            "2024-05-02 08:01:40,123 [ERROR] app.cart: no such item\n",
            "2024-05-02T08:01:40Z [Error] something of a proxy\n",
            "2024-05-02 08:01:40 UTC [ERROR] could not extend a file: No space left on device\n",
        ] {
            let parts = crate::recognise("app.log", text);
            assert!(parts.iter().all(|part| part.kind == crate::Kind::Unknown), "{text}: {parts:?}");
        }
        for text in [
            "2024-05-02 08:01:40 [ERROR] InnoDB: something\n",
            "2024-05-02 08:01:40+00:00 [ERROR] [Entrypoint]: Database is uninitialized and password option is not specified\n",
            "2024-05-02 08:01:40 0 [ERROR] something\n",
            "240502  8:01:40 [ERROR] something\n",
            "2024-05-02T08:01:40.1Z 0 [ERROR] something\n",
            "2024-05-02 08:01:40,123 [ERROR] app.cart: (1205, 'Lock wait timeout exceeded; try restarting transaction')\n",
        ] {
            let parts = crate::recognise("app.log", text);
            assert_eq!(parts[0].kind, crate::Kind::ErrorLog, "{text}: {parts:?}");
        }
    }

    #[test]
    fn a_log_in_json_is_read_as_its_lines_are() {
        let line = "{ \"prio\": 1, \"err_code\": 10907, \"msg\": \"Disk is full writing 'b' (OS errno 28)\", \
                    \"time\": \"2025-06-01T03:40:02.901112Z\", \"thread\": 8, \"subsystem\": \"Server\", \"label\": \"Error\" }\n";
        let plain = without_json(line).unwrap();
        assert_eq!(
            plain,
            "2025-06-01T03:40:02.901112Z 8 [Error] [MY-010907] [Server] Disk is full writing 'b' (OS errno 28)\n"
        );
        assert!(is_of_log(plain.trim_end()));
        assert_eq!(read(&plain).troubles[0].kind, TroubleKind::WaitsForSpace);
        assert_eq!(without_json("{\"rows\": [1]}\n"), None);
    }
}
