//! A server's error log: what it says of trouble (`log_troubles.rs`), counted, and the waits for latches that it prints.

use std::borrow::Cow;

use jiff::civil::DateTime;
use spindoctor_model::{LoggedTrouble, ServerVersion, TroubleKind, number, printed_deadlock};

use crate::log_lines::{error, is_of_log};
use crate::log_troubles::{ENTRIES, meanings};
use crate::server_version::version;
use crate::{clock, kernel_log, log_troubles, stacks, start_errors};

/// What a log says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ErrorLog {
    /// Of each trouble one line, in the order of the catalogue below.
    pub(crate) says: Vec<String>,
    /// The time of its last line that has one.
    pub(crate) time: Option<DateTime>,
    /// The server that wrote it.
    pub(crate) version: Option<ServerVersion>,
    /// The last waits for latches that it prints, with the server's own verdict where it has one.
    pub(crate) waits: Option<String>,
    /// The last deadlock that it prints, as a status has it.
    pub(crate) deadlock: Option<String>,
    /// The troubles that causes rest on.
    pub(crate) troubles: Vec<LoggedTrouble>,
}

/// Characters of a line that are shown.
const SHOWN: usize = 300;
/// Functions of a thread that died that are shown.
const FUNCTIONS: usize = 6;

/// `Plugin group_replication reported: 'The member ...'`, of which the quotes hold the message itself, without them.
fn of_plugin(words: &str) -> Cow<'_, str> {
    const SIGN: &str = " reported: '";
    match words.split_once(SIGN).filter(|(before, _)| before.contains("Plugin ")) {
        Some((before, message)) => {
            let message = message.trim_end();
            Cow::Owned(format!("{before} reported: {}", message.strip_suffix('\'').unwrap_or(message)))
        }
        None => Cow::Borrowed(words),
    }
}

/// Errors that have no meaning in the catalogue, in a sentence. What stands in quotes may be a customer's.
fn unknown_errors(count: u64, last: &str) -> Option<String> {
    let shown =
        || spindoctor_sql::sentence_without_quotes(&of_plugin(last)).chars().take(SHOWN).collect::<String>();
    match count {
        0 => None,
        1 => Some(format!("1 error that is not known here: {}", shown())),
        _ => Some(format!("{count} errors that are not known here, the last: {}", shown())),
    }
}

/// What the lines of one entry of the catalogue come to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally<'t> {
    count: u64,
    /// When the last of them was written.
    last: Option<DateTime>,
    /// The last of them.
    line: &'t str,
    /// The longest time that one of them names, milliseconds.
    longest_ms: u64,
    /// A later line takes it back.
    is_over: bool,
}

impl<'t> Tally<'t> {
    /// Counts a line, of which `lower` is the beginning in lower case.
    fn add(&mut self, line: &'t str, lower: &str, at: Option<DateTime>) {
        // What goes on names the file no more.
        if !(log_troubles::still_waits(lower) && self.count > 0) {
            self.line = line;
        }
        self.count += 1;
        self.last = at;
        self.is_over = false;
        self.longest_ms = self.longest_ms.max(log_troubles::duration_ms(lower).unwrap_or(0));
    }

    /// As causes rest on it; `end` is when the log ends.
    fn trouble(&self, kind: TroubleKind, source: &str, end: Option<DateTime>) -> LoggedTrouble {
        LoggedTrouble {
            kind,
            times: self.count,
            before_end_s: self.last.zip(end).map(|(last, end)| clock::seconds(last, end).max(0.0)),
            line: start_errors::without_value(self.line).chars().take(SHOWN).collect(),
            source: source.to_owned(),
            longest_s: (self.longest_ms > 0).then(|| self.longest_ms as f64 / 1e3),
        }
    }
}

/// Who says what a client prints.
const OF_CLIENT: &str = "error of a client";

/// Reads a log.
pub(crate) fn read(text: &str) -> ErrorLog {
    let mut log = ErrorLog::default();
    let mut tallies = [Tally::default(); ENTRIES];
    let mut waits: Vec<&str> = Vec::new();
    let mut in_waits = false;
    let mut unknown = (0_u64, "");
    // The last time by the kernel's clock, which may be that of another time zone.
    let mut kernel_end = None;
    for line in text.lines() {
        if let Some(time) = clock::time(line).filter(|_| line.starts_with(|c: char| c.is_ascii_digit())) {
            log.time = Some(time);
        }
        let by_kernel = kernel_log::time(line, log.time);
        kernel_end = by_kernel.or(kernel_end);
        if let Some(version) = version(line) {
            log.version = Some(version);
        }
        if line.starts_with("--Thread ") {
            if !in_waits {
                waits.clear();
            }
            in_waits = true;
        } else if is_of_log(line) && !line.contains("semaphore") {
            in_waits = false;
        }
        if in_waits {
            waits.push(line);
        }
        let lower = line.get(..line.floor_char_boundary(600)).unwrap_or(line).to_ascii_lowercase();
        if let Some(at) = log_troubles::entry(line, &lower) {
            let is_of_kernel = by_kernel.is_some() || kernel_log::is_of_kernel(line);
            tallies[at].add(line, &lower, if is_of_kernel { by_kernel } else { log.time });
        } else if let Some(words) = error(line) {
            unknown = (unknown.0 + 1, words);
        }
        if let Some(takes_back) = log_troubles::takes_back(&lower) {
            for (tally, (_, kind)) in tallies.iter_mut().zip(meanings()) {
                tally.is_over |= kind.is_some_and(&takes_back);
            }
        }
    }
    say(&mut log, &tallies, kernel_end);
    log.says.extend(unknown_errors(unknown.0, unknown.1));
    log.says.extend(death(text));
    log.says.extend(kernel_log::who_had_memory(text));
    log.waits = (!waits.is_empty()).then(|| waits.iter().map(|line| format!("{line}\n")).collect());
    log.deadlock = last_deadlock(text);
    log
}

/// What the entries of the catalogue come to: a sentence for each meaning, and the troubles that causes rest on.
fn say(log: &mut ErrorLog, tallies: &[Tally<'_>], kernel_end: Option<DateTime>) {
    let all: Vec<_> =
        tallies.iter().zip(meanings()).enumerate().filter(|(_, (tally, _))| tally.count > 0).collect();
    let mut said: Vec<&str> = Vec::new();
    for &(entry, (tally, (meaning, kind))) in &all {
        let end = if kernel_log::is_of_kernel(tally.line) { kernel_end } else { log.time };
        let source = if log_troubles::is_of_clients(entry) { OF_CLIENT } else { "" };
        let trouble = kind.filter(|_| !tally.is_over).map(|kind| tally.trouble(kind, source, end));
        log.troubles.extend(trouble);
        if said.contains(&meaning) {
            continue;
        }
        said.push(meaning);
        // Several signs may have one meaning.
        let same =
            || all.iter().filter(|(_, (_, (other, _)))| *other == meaning).map(|(_, (tally, _))| *tally);
        let count: u64 = same().map(|tally| tally.count).sum();
        let last = same().filter_map(|tally| tally.last).max();
        let times = if count == 1 { String::new() } else { format!(", {count} times") };
        let when =
            last.map_or_else(String::new, |last| format!(", last at {}", last.strftime("%Y-%m-%d %H:%M:%S")));
        let longest = match same().map(|tally| tally.longest_ms).max() {
            Some(ms) if ms > 0 => format!(" ({} at most)", number::duration(ms as f64 / 1e3)),
            _ => String::new(),
        };
        let over = if tally.is_over { "; that is over" } else { "" };
        log.says.push(format!("{meaning}{longest}{times}{when}{over}"));
    }
}

/// The last deadlock that a log prints (innodb_print_all_deadlocks), as `LATEST DETECTED DEADLOCK` of a status has it: without
/// what the log puts before its lines.
fn last_deadlock(text: &str) -> Option<String> {
    let bare = |line: &str| match line.find("*** ") {
        Some(at) if is_of_log(line) => line[at..].to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().rposition(|line| line.contains(printed_deadlock::FIRST_LINE))?;
    let mut kept: Vec<String> = Vec::new();
    for line in &lines[first..] {
        let line = bare(line);
        // What is no line of it any more: another message of the log.
        if is_of_log(&line) && clock::time(&line).is_some() {
            break;
        }
        let is_last = line.starts_with(printed_deadlock::LAST_LINE);
        if !line.trim().is_empty() {
            kept.push(line);
        }
        if is_last {
            break;
        }
    }
    let whole: String = kept.iter().map(|line| format!("{line}\n")).collect();
    Some(format!("------------------------\nLATEST DETECTED DEADLOCK\n------------------------\n{whole}"))
}

/// Where the server died, of the last backtrace: the functions, the innermost first, and what the thread executed.
fn death(text: &str) -> Option<String> {
    let (_, last) = text.rsplit_once("Attempting backtrace.")?;
    let end =
        ["Trying to get some variables", "The manual page at"].iter().filter_map(|end| last.find(end)).min();
    let trace = &last[..end.unwrap_or(last.len())];
    let died = death_in(trace)?;
    let statement = last.lines().find_map(|line| {
        let (pointer, statement) = line.strip_prefix("Query (")?.split_once("): ")?;
        (pointer.len() <= 20 && statement != "(null)" && !statement.contains("is an invalid pointer"))
            .then(|| spindoctor_sql::shape(statement))
    });
    let executed = statement.map_or_else(String::new, |shape| {
        format!("; it executed {}", shape.chars().take(SHOWN).collect::<String>())
    });
    Some(format!("{died}{executed}"))
}

/// The functions of a backtrace in which a thread died, in a sentence.
pub(crate) fn death_in(trace: &str) -> Option<String> {
    let mut functions = stacks::died_in(trace);
    // A place in a file says nothing to a reader, unless it is all that there is.
    if functions.iter().any(|name| !name.contains("+0x")) {
        functions.retain(|name| !name.contains("+0x"));
    }
    if functions.is_empty() {
        return None;
    }
    let shown = functions[..functions.len().min(FUNCTIONS)].join(", called by ");
    Some(format!("the thread that died was in {shown}"))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::TroubleKind;

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
    fn errors_that_are_not_known_are_counted_and_the_last_is_said_without_texts() {
        let log = read(
            "2024-12-19 11:52:04 7 [ERROR] Something of 'one'\n2024-12-19 11:52:05 7 [Note] Something else\n\
             2024-12-19 11:52:05 7 [ERROR] Something of 'two' is wrong\n",
        );
        assert_eq!(log.says, ["2 errors that are not known here, the last: Something of ? is wrong"]);
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
        let waits =
            read("2024-08-20 11:02:41 0 [Warning] InnoDB: Long wait (241 seconds) for dict_sys.latch\n");
        assert!(waits.says[0].contains("4 min 1 s at most"), "{:?}", waits.says);
    }

    #[test]
    fn a_cluster_that_is_whole_again_is_no_trouble_any_more() {
        let lost = "2024-03-12 08:00:00 0 [Note] WSREP: declaring node with index 1 suspected, timeout PT5S (evs.suspect_timeout)\n\
                    2024-03-12 08:00:05 0 [Note] WSREP: view(view_id(NON_PRIM,a1b2c3d4,32) memb {\n\
                    2024-03-12 08:00:05 2 [Note] WSREP: Received NON-PRIMARY.\n";
        let kinds = |text: &str| read(text).troubles.iter().map(|trouble| trouble.kind).collect::<Vec<_>>();
        assert!(
            kinds(lost).contains(&TroubleKind::NoMajority) && kinds(lost).contains(&TroubleKind::NodeLost)
        );
        let back =
            format!("{lost}2024-03-12 08:01:05 0 [Note] WSREP: view(view_id(PRIM,a1b2c3d4,33) memb {{\n");
        assert!(!kinds(&back).contains(&TroubleKind::NoMajority), "{:?}", read(&back).troubles);
        assert!(read(&back).says.iter().any(|said| said.ends_with("that is over")), "{:?}", read(&back).says);
        let again = format!("{back}2024-03-12 08:02:05 2 [Note] WSREP: Received NON-PRIMARY.\n");
        assert!(kinds(&again).contains(&TroubleKind::NoMajority));
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
        assert_eq!(crash("\n"), None);
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
}
