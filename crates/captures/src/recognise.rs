//! A text to its documents: where each begins and ends, and what it is. By content alone.

use crate::documents::read;
use crate::part::{Kind, Moment, Part, Said};
use crate::stretch::{Look, Stretch, stretches};
use crate::tables::table_parts;
use crate::{
    beside, cluster_status, cut_status, intervals, json, log_lines, logged_json, memory_left, option_remarks,
    plain, pool_and_memory, server_version, statement_report, sysstat,
};

/// Documents of one text that are kept, and how many are read before those that are too many go.
const MOST_PARTS: usize = 1_000;
const MOST_READ: usize = 20_000;
/// Lines beside a document that are no document: a prompt, an answer's foot, what a person wrote around it.
const ASIDE: usize = 3;

/// The documents of a text, in order. What nobody knows is one, too.
pub fn recognise(name: &str, text: &str) -> Vec<Part> {
    if let Some(printed) = sysstat::from_json(text) {
        let stretch = Stretch { look: Look::System, first: 1, lines: text.lines().count(), text: printed };
        return read(name, &stretch, None, false);
    }
    if let Some(says) = statement_report::from_json(text) {
        return vec![Part { says, ..whole(name, Kind::StatementReport, text) }];
    }
    match cluster_status::read(text) {
        Some(cluster) => with_cluster(name, cluster),
        None => documents(name, text),
    }
}

/// A text that is one document.
fn whole(name: &str, kind: Kind, text: &str) -> Part {
    Part {
        name: name.to_owned(),
        kind,
        first_line: 1,
        lines: text.lines().count(),
        time: None,
        version: None,
        says: Vec::new(),
        moments: Vec::new(),
        begins: String::new(),
    }
}

/// The documents of a text that is none of sysstat's or pt-query-digest's in JSON and has no cluster's status in it.
fn documents(name: &str, text: &str) -> Vec<Part> {
    let collected = logged_json::as_text(text);
    let text = collected.as_deref().unwrap_or(text);
    if let Some(sets) = json::json(text) {
        let mut parts =
            table_parts(name, 1, text.lines().count(), sets.into_iter().map(|rows| (None, rows)).collect());
        if !parts.is_empty() {
            intervals::settle(&mut parts, "");
            return parts;
        }
    }
    let ends_cut = !text.ends_with('\n') && !ends_with_connection(text);
    let log = log_lines::without_json(text);
    let mut text = plain::undamaged(log.as_deref().unwrap_or(text));
    if ends_cut && text.ends_with('\n') {
        // A last line without its end may be cut in the middle of a number.
        text.pop();
    }
    let version = text
        .lines()
        .find_map(server_version::version)
        .or_else(|| server_version::selected(&text))
        .or_else(|| server_version::built_in(&text));
    let mut parts: Vec<Part> = Vec::new();
    let stretches = stretches(&text);
    let is_all_other = stretches.iter().all(|stretch| stretch.look == Look::Other);
    for (at, stretch) in stretches.iter().enumerate() {
        if parts.len() >= MOST_READ {
            break;
        }
        parts.extend(read(name, stretch, stretches.get(at + 1), is_all_other));
        if parts.len() >= 2 * MOST_PARTS {
            without_oldest_statuses(&mut parts);
        }
    }
    let of_parts = version.or_else(|| parts.iter().find_map(|part| part.version));
    for part in parts.iter_mut().filter(|part| part.kind == Kind::OptionFile) {
        let of_part = stretches.iter().find(|stretch| stretch.first == part.first_line);
        let remarks = of_part.map(|stretch| option_remarks::read(&stretch.text, stretch.first, of_parts));
        part.says.extend(remarks.into_iter().flatten());
    }
    let mut of_system = stretches.iter().filter(|stretch| stretch.look == Look::System);
    if let Some(bytes) = of_system.find_map(|stretch| memory_left::total_bytes(&stretch.text)) {
        pool_and_memory::say(&mut parts, bytes);
    }
    let known = parts.iter().any(|part| part.kind != Kind::Unknown);
    parts.retain(|part| part.kind != Kind::Unknown || !known || part.lines > ASIDE);
    without_oldest_statuses(&mut parts);
    parts.truncate(MOST_PARTS);
    cut_status::with_waits_of_log(&mut parts);
    intervals::settle(&mut parts, &text);
    beside::say_rollback(&mut parts, &text);
    beside::say_connections(&mut parts, &text);
    for part in &mut parts {
        part.version = part.version.or(version);
    }
    parts
}

/// True where a text ends with a connection of a status or with its statement, and no number: what was copied without the last line end
/// is most likely whole.
fn ends_with_connection(text: &str) -> bool {
    let is_connection = |line: &str| line.contains(" thread id ") && line.contains(" query id ");
    let mut last = text.lines().rev();
    let (line, above) = (last.next().unwrap_or_default(), last.next().unwrap_or_default());
    let is_of_lock = ["---", "RECORD LOCKS", "TABLE LOCK"].iter().any(|begins| line.contains(begins));
    text.ends_with(|c: char| c.is_ascii_alphabetic())
        && (is_connection(line) || is_connection(above) && !is_of_lock)
}

/// Of too many documents the oldest statuses go: a log of days has one for each 15 seconds (`innodb_status_output`), and its end counts.
fn without_oldest_statuses(parts: &mut Vec<Part>) {
    let mut too_many = parts.len().saturating_sub(MOST_PARTS);
    parts.retain(|part| {
        let goes = too_many > 0 && part.kind == Kind::InnodbStatus;
        too_many -= usize::from(goes);
        !goes
    });
}

/// What MySQL Shell says of a cluster, and the documents that stand beside it.
fn with_cluster(name: &str, cluster: cluster_status::ClusterStatus) -> Vec<Part> {
    let mut said = vec![Said::GroupMembers(cluster.members)];
    said.extend(cluster.trouble.map(|trouble| Said::Troubles(vec![trouble])));
    let part = Part {
        name: name.to_owned(),
        kind: Kind::GroupMembers,
        first_line: cluster.first_line,
        lines: cluster.lines,
        time: None,
        version: None,
        says: cluster.says,
        moments: vec![Moment { said, ..Moment::default() }],
        begins: String::new(),
    };
    let others = match cluster.rest.trim() {
        "" => Vec::new(),
        _ => documents(name, &cluster.rest),
    };
    let is_kept = |other: &Part| other.kind != Kind::Unknown || other.lines > ASIDE;
    std::iter::once(part).chain(others.into_iter().filter(is_kept)).take(MOST_PARTS).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// All that the documents of a text say to causes.
    pub(crate) fn said(text: &str) -> Vec<Said> {
        recognise("a.txt", text)
            .into_iter()
            .flat_map(|part| part.moments)
            .flat_map(|moment| moment.said)
            .collect()
    }

    fn sentences(text: &str) -> String {
        recognise("a.txt", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn internal_ids_of_lock_waits_get_the_statement_that_finds_their_connection() {
        let head = "*************************** 1. row ***************************\n";
        let waits = format!(
            "{head}              ENGINE: INNODB\nREQUESTING_THREAD_ID: 81\n  BLOCKING_THREAD_ID: 80\n"
        );
        assert!(
            sentences(&waits).contains("WHERE THREAD_ID = 80 says its connection"),
            "{}",
            sentences(&waits)
        );
        let Some(Said::LockWaits(waits)) = said(&waits).into_iter().next() else { panic!("no lock waits") };
        assert_eq!(waits[0].blocking_transaction, "thread 80");
    }

    #[test]
    fn a_row_without_its_number_above_another_list_is_read_and_what_was_written_behind_values_is_not() {
        let fields = "           waiting_pid: 8            # the one that waits\n         waiting_query: UPDATE stock SET n = 1\n\
                      \x20         blocking_pid: 7            # and who has the lock\n        blocking_query: NULL\n";
        let list = "\nmysql> SELECT * FROM performance_schema.threads WHERE processlist_id = 7\\G\n\
                    *************************** 1. row ***************************\n\
                    \x20    PROCESSLIST_ID: 7\n   PROCESSLIST_USER: app\nPROCESSLIST_COMMAND: Sleep\n   PROCESSLIST_TIME: 61\n";
        let commented: String = fields.lines().map(|line| format!("-- {line}\n")).collect();
        for text in [format!("{fields}{list}"), commented] {
            let waits = said(&text).into_iter().find_map(|said| match said {
                Said::LockWaits(waits) => waits.into_iter().next(),
                _ => None,
            });
            let wait = waits.unwrap_or_else(|| panic!("no lock wait in {text}"));
            assert_eq!(
                (wait.waiting_connection_id, wait.blocking_connection_id),
                (Some(8), Some(7)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_list_of_waits_for_metadata_locks_is_none_of_row_locks() {
        let text = "*************************** 1. row ***************************\n\
                    locked_schema: shop\nlocked_table: stock\nlocked_type: Metadata Lock\nwaiting_processlist_id: 8\n\
                    waiting_age: 40\nwaiting_query: alter table stock add n int\nblocking_processlist_id: 7\nblocking_query: NULL\n";
        let said = said(text);
        let [Said::MetadataLocks(locks), Said::SomeThreads(threads)] = &said[..] else { panic!("{said:?}") };
        assert_eq!((locks[0].owner_connection_id, locks[0].granted), (Some(7), true));
        assert_eq!((locks[1].name.as_str(), locks[1].owner_connection_id), ("stock", Some(8)));
        assert_eq!((threads[0].command.as_str(), threads[1].time_s), ("Sleep", 40.0));
    }

    #[test]
    fn of_a_log_with_statuses_of_days_the_last_ones_are_kept() {
        let status = |at: usize| {
            format!(
                "=====\n2024-05-02 {:02}:{:02}:{:02} 0x7f INNODB MONITOR OUTPUT\n=====\n------------\nTRANSACTIONS\n------------\n\
                 Trx id counter 5\nHistory list length {at}\nEND OF INNODB MONITOR OUTPUT\n=====\n",
                at / 3_600,
                at / 60 % 60,
                at % 60
            )
        };
        let log = "2024-05-02T00:00:00.1Z 0 [Warning] [MY-010055] [Server] Too many connections\n";
        let text: String =
            std::iter::once(log.to_owned()).chain((0..MOST_PARTS * 5 / 2).map(status)).collect();
        let parts = recognise("error.log", &text);
        assert_eq!((parts.len(), parts[0].kind), (MOST_PARTS, Kind::ErrorLog));
        let last = parts.last().and_then(|part| part.time).map(|time| time.to_string());
        assert_eq!(last.as_deref(), Some("2024-05-02T00:41:39"));
    }

    #[test]
    fn the_last_connection_of_a_text_without_its_last_line_end_is_one() {
        let first = "---TRANSACTION 9071, ACTIVE 93 sec\n2 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 1\n\
                     MySQL thread id 52, OS thread handle 140, query id 723 10.1.2.9 app\n";
        let second = first.replace("9071, ACTIVE 93", "9070, ACTIVE 9300").replace("id 52", "id 51");
        let connections = |text: &str| -> Vec<Option<u64>> {
            let transactions = said(text).into_iter().find_map(|said| match said {
                Said::Transactions(transactions) => Some(transactions),
                _ => None,
            });
            transactions.iter().flatten().map(|transaction| transaction.connection_id).collect()
        };
        let whole = format!("{first}{second}");
        assert_eq!(connections(&whole), [Some(52), Some(51)]);
        assert_eq!(connections(whole.trim_end()), [Some(52), Some(51)]);
        let statement = format!("{whole}UPDATE a SET b");
        assert_eq!(connections(&statement), [Some(52), Some(51)]);
        // A number may be cut.
        assert!(!ends_with_connection("MySQL thread id 52, OS thread handle 140, query id 723 10.1.2"));
        assert!(!ends_with_connection(&format!("{whole}TABLE LOCK table `a`.`b` trx id 9070 lock mode I")));
    }

    #[test]
    fn the_beginning_of_a_text_that_nobody_knows_has_no_password() {
        for (line, shown) in [
            ("mysql -uroot -pS3cret shop -e 'show'", "mysql -uroot -p... shop -e 'show'"),
            ("mysqldump --password=S3cret shop", "mysqldump --password=... shop"),
            ("CREATE USER a IDENTIFIED BY 'S3cret'", "CREATE ..."),
            ("INSERT INTO a VALUES ('S3cret')", "INSERT ..."),
            ("mysql://root:S3cret@db1/shop", "mysql://root:...@db1/shop"),
            ("Password: S3cret", "Password: ..."),
            ("pass=S3cret", "pass=..."),
            ("mysql -u root -p", "mysql -u root -p"),
            ("see https://example.com/a", "see https://example.com/a"),
            ("find / -print", "find / -print"),
        ] {
            assert_eq!(recognise("a.txt", &format!("{line}\n"))[0].begins, shown);
        }
    }

    #[test]
    fn stacks_below_the_lines_of_a_log_are_no_lines_of_it() {
        let text = "      2018-02-16  8:02:01 140326823504064 [Note] InnoDB: 128 out of 128 rollback segments are active.\n\
                    \n      gdb shows this:\n      Thread 17 (Thread 0x7f08c2805700 (LWP 26611)):\n\
                    \x20     #0  pthread_cond_wait () at ../sysdeps/pthread_cond_wait.S:185\n\
                    \x20     #1  0x0000000000a6edab in buf_flush_page_cleaner_worker (arg=0x0) at /b/buf0flu.cc:3507\n\
                    \x20     #2  0x00007f1636ce26ba in start_thread () from /lib64/libpthread.so.0\n";
        let parts = recognise("a.txt", text);
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::ErrorLog, Kind::Stacks], "{parts:?}");
        assert!(!said(text).iter().any(|said| matches!(said, Said::Troubles(_))), "{parts:?}");
    }

    const TOP: &str = "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 1.10, 1.33, 1.02\n\
                       %Cpu(s): 13.1 us,  1.9 sy,  0.0 ni, 85.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\n  \
                       PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n \
                       2211 mysql     20   0   38.1g  28.9g   4112 S 112.0 92.5   9912:11 mysqld\n";
    const GDB: &str = "Thread 5 (Thread 0x7f56c40df700 (LWP 4716)):\n\
                       #0  0x0000003e90c0cbd0 in pthread_cond_wait () from /lib64/libpthread.so.0\n\
                       #1  0x00000000008be2dd in lock_wait_suspend_thread (thr=0x2) at /b/lock0wait.cc:344\n\
                       #2  0x00000000008be3dd in do_command (thd=0x2) at /b/sql_parse.cc:1262\n";
    const COUNTED: &str = "     12 pthread_cond_wait,os_event_wait_low,srv_conc_enter_innodb,dispatch_command,do_command\n\
                           \x20     3 poll,vio_io_wait,my_net_read,do_command,start_thread\n";
    const REPORT: &str = "# Overhead  Command  Shared Object  Symbol\n\
                          \x20   44.06%  mysqld   mysqld         [.] ut_delay\n    12.10%  mysqld   mysqld         [.] rec_get_offsets_func\n";
    const LLDB: &str = "* thread #1, name = 'connection'\n    frame #0: 0x00007ff81b1e2d5e libc.so.6`poll + 10\n    \
                        frame #1: 0x0000000101f01c21 mysqld`do_command(THD*) + 11\n";

    #[test]
    fn stacks_are_read_whatever_stands_above_them() {
        let log = "2024-05-02T00:00:00.1Z 0 [Warning] [MY-010055] [Server] Too many connections\n";
        let options = "[mysqld]\n#0 means off (the default)\nmax_connections = 100\n";
        let tuner = " >>  MySQLTuner 1.9.9\n[!!] InnoDB buffer pool / data size: 128.0M / 46.8G\n";
        for (first, kind) in [
            (TOP, Kind::System),
            (log, Kind::ErrorLog),
            (options, Kind::OptionFile),
            (tuner, Kind::Tuner),
            (COUNTED, Kind::Stacks),
            (REPORT, Kind::Stacks),
        ] {
            for stacks in [GDB, COUNTED, REPORT, LLDB].into_iter().filter(|stacks| *stacks != first) {
                let text = format!("{first}\nAnd this is what it does meanwhile:\n{stacks}");
                // A debugger's frames without the heading of gdb may be a log's own.
                let kinds: Vec<Kind> = recognise("a.txt", &text).iter().map(|part| part.kind).collect();
                let is_of_log = first == log && stacks == LLDB;
                assert_eq!(kinds == [kind, Kind::Stacks], !is_of_log, "{kinds:?} of {text}");
            }
        }
    }

    #[test]
    fn what_a_tool_of_the_system_prints_is_read_whatever_stands_above_it() {
        let log = "2024-05-02T00:00:00.1Z 0 [Warning] [MY-010055] [Server] Too many connections\n";
        let options = "[mysqld]\nmax_connections = 100\n";
        let tuner = " >>  MySQLTuner 1.9.9\n[!!] InnoDB buffer pool / data size: 128.0M / 46.8G\n";
        let status = "------------\nTRANSACTIONS\n------------\nTrx id counter 8812\nHistory list length 912345\n\
                      ---TRANSACTION 8811, ACTIVE 940 sec\nMySQL thread id 7, OS thread handle 140, query id 9 10.0.0.7 app\n";
        let digest = "# Profile\n# Rank Query ID           Response time Calls R/Call V/M   Item\n\
                      # ==== ================== ============= ===== ====== ===== ==========\n\
                      #    1 0x1234567890ABCDEF 812.1 91.2%      12 67.6   0.10  SELECT stock\n\
                      #    2 0x1234567890ABCDE0  71.1  8.2%      12  6.6   0.10  UPDATE stock\n";
        for first in [log, options, tuner, GDB, status, digest] {
            let kinds: Vec<Kind> =
                recognise("a.txt", &format!("{first}\n{TOP}")).iter().map(|part| part.kind).collect();
            assert_eq!(kinds.last(), Some(&Kind::System), "{first}");
            assert_eq!(kinds.len(), 2, "{first}");
        }
        let bsd = "PID USERNAME    THR PRI NICE   SIZE    RES STATE    C   TIME    WCPU COMMAND\n\
                   4711 mysql        41  24    0  4841M   441M select  10   5:14 299.27% mysqld\n";
        let of_memory =
            "root@db1:~# cat /proc/pressure/memory\nsome avg10=41.22 avg60=38.10 avg300=22.91 total=81\n";
        for (text, says) in [(bsd, "The server uses 3.0 CPUs"), (of_memory, "waits for memory 41 %")] {
            assert!(sentences(text).contains(says), "{}", sentences(text));
        }
    }

    #[test]
    fn what_is_of_another_program_is_said_to_be() {
        let status = "| Variable_Name | Variable_Value |\n| ProxySQL_Uptime | 71 |\n| Questions | 5 |\n";
        assert!(said(status).is_empty());
        assert!(sentences(status).contains("it is of ProxySQL"), "{}", sentences(status));
        let list = "mysql> show processlist;\n+----------+-----------+------+-----------+----------+---------+---------+------+\n\
                    | ThreadID | SessionID | user | hostgroup | srv_host | command | time_ms | info |\n\
                    +----------+-----------+------+-----------+----------+---------+---------+------+\n\
                    | 1        | 554109    | app  | 0         | 10.0.0.4 | Sleep   | 1638575 |      |\n";
        assert!(said(list).is_empty(), "{:?}", said(list));
        assert!(sentences(list).contains("it is of ProxySQL"), "{}", sentences(list));
        let stacks = "Thread 2 (LWP 12):\n#0  0x01 in syscall () from /lib64/libc.so.6\n\
                      #1  0x02 in bthread::TaskGroup::wait_task () from /lib/libb.so\n#2  0x03 in clone () from /lib64/libc.so.6\n";
        assert!(said(stacks).is_empty());
        assert!(sentences(stacks).contains("not of a server"), "{}", sentences(stacks));
        let of_server = stacks.replace("bthread::TaskGroup::wait_task", "do_command");
        assert!(
            sentences(&of_server).contains("the thread 12 is in do_command < clone"),
            "{}",
            sentences(&of_server)
        );
        assert!(!sentences(&of_server).contains("not of a server"));
        let of_proxy = stacks.replace("bthread::TaskGroup::wait_task", "MySQL_Session::handler");
        assert!(sentences(&of_proxy).contains("they are of ProxySQL"), "{}", sentences(&of_proxy));
    }
}
