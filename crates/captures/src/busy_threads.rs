//! Which of a server's own threads have the CPUs, of a list of threads by their names: `top -H -p PID`, `ps -L`.
//!
//! ```text
//! Threads: 187 total,   9 running, 178 sleeping,   0 stopped,   0 zombie
//!     PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
//!    2311 mysql     20   0   70.1g  55.2g  11232 R  99.7  88.0 123:12.11 ib_log_writer
//! ```
//!
//! MySQL names its threads from 8.0.26 on (storage/innobase/handler/ha_innodb.cc, all_innodb_threads); before, and on MariaDB, most have
//! the name of the program.

use std::collections::BTreeMap;

use spindoctor_model::number;

use crate::stacks::{is_server_program, is_server_thread};
use crate::system::{SystemText, number as percent, processes};

/// A thread that has a CPU for itself shows so much of one, percent: the rest is the kernel's. By judgement.
const FULL_PERCENT: f64 = 90.0;
/// Groups of threads that use less of a CPU are not named, percent. By judgement.
const LEAST_PERCENT: f64 = 5.0;
/// Groups and threads that are named.
const MOST: usize = 4;

/// What threads do, by the beginnings of their names.
const GROUPS: [(&str, &[&str]); 9] = [
    ("connections", &["connection", "one_connection"]),
    ("redo log", &["ib_log_"]),
    ("page cleaners", &["ib_pg_flush", "page_cleaner"]),
    ("purge", &["ib_srv_purge", "ib_srv_wkr"]),
    ("reads and writes of InnoDB", &["ib_io_"]),
    ("index statistics", &["ib_dict_stats"]),
    ("appliers", &["rpl_rca_"]),
    ("parallel reads", &["ib_par_rd", "ib_ddl"]),
    ("full-text search", &["ib_fts_"]),
];

/// Of these a server has one, which is the limit of what it does.
const ALONE: [(&str, &str); 6] = [
    ("ib_log_writer", "it alone writes the redo log, and commits go no faster than it does"),
    ("ib_log_flush", "it alone syncs the redo log, and commits go no faster than it does"),
    ("ib_log_checkpt", "it alone writes checkpoints"),
    (
        "ib_pg_flush_co",
        "it coordinates the page cleaners, and flushes pages of one buffer pool instance itself",
    ),
    ("page_cleaner", "it alone flushes pages"),
    ("ib_srv_purge", "it coordinates purge, and hands old row versions to the workers"),
];

/// A row of such a list, by the names of its columns.
pub(crate) type Row<'t> = BTreeMap<&'t str, &'t str>;

/// True for a list of threads: `top -H` counts them above it, or threads have names that no program has.
pub(crate) fn is_list(text: &str, rows: &[Row<'_>]) -> bool {
    let is_count = |line: &str| {
        line.trim_start()
            .strip_prefix("Threads:")
            .is_some_and(|rest| rest.contains("total") && rest.contains("running"))
    };
    rows.iter().any(|row| row.get("COMMAND").is_some_and(|name| name.starts_with("ib_")))
        || text.lines().any(is_count)
}

/// True for the name of a thread of a server, in such a list.
pub(crate) fn is_of_server(name: &str) -> bool {
    is_server_thread(name) || name == "page_cleaner"
}

/// What the threads of a server use.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let Some(rows) = processes(text).filter(|rows| is_list(text, rows)) else { return };
    let threads: Vec<(&str, f64, &Row<'_>)> = rows
        .iter()
        .filter_map(|row| Some((*row.get("COMMAND")?, percent(row, "%CPU")?, row)))
        .filter(|(name, ..)| is_of_server(name))
        .collect();
    let mut groups: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for (name, percent, _) in &threads {
        let known = GROUPS.iter().find(|(_, begins)| begins.iter().any(|begin| name.starts_with(begin)));
        let group = groups.entry(known.map_or(*name, |(group, _)| *group)).or_default();
        *group = (group.0 + percent, group.1 + 1);
    }
    let mut groups: Vec<(&str, (f64, u64))> =
        groups.into_iter().filter(|(_, (percent, _))| *percent >= LEAST_PERCENT).collect();
    groups.sort_by(|(_, one), (_, other)| other.0.total_cmp(&one.0));
    let named: Vec<String> = groups
        .iter()
        .take(MOST)
        .map(|(group, (percent, count))| {
            format!("{group} {:.1} CPUs ({})", percent / 100.0, number::counted(*count, "thread", "threads"))
        })
        .collect();
    if !named.is_empty() {
        found.add("top", None, format!("Of the server's threads these use the CPUs: {}", named.join(", ")));
    }
    for (name, why) in ALONE {
        if threads.iter().any(|(thread, percent, _)| *thread == name && *percent >= FULL_PERCENT) {
            found.add("top", None, format!("The thread {name} fills a CPU: {why}"));
        }
    }
    full_connections(&threads, found);
}

/// The threads that serve clients and fill a CPU each, with what says whose they are.
pub(crate) fn full_connections(threads: &[(&str, f64, &Row<'_>)], found: &mut SystemText) {
    let serves = |name: &str| GROUPS[0].1.contains(&name) || is_server_program(name);
    let full = threads.iter().filter(|(name, percent, _)| *percent >= FULL_PERCENT && serves(name));
    // In a list of ps or pidstat the number of the process stands beside that of the thread.
    let id = |row: &Row<'_>| {
        ["LWP", "SPID", "TID", "PID"].iter().find_map(|column| row.get(column)?.parse::<u64>().ok())
    };
    let ids: Vec<String> =
        full.filter_map(|(_, _, row)| id(row)).take(MOST).map(|id| id.to_string()).collect();
    if ids.is_empty() {
        return;
    }
    let is_mariadb = threads.iter().any(|(name, ..)| *name == "mariadbd");
    let statement = match is_mariadb {
        true => "SELECT ID, INFO FROM information_schema.PROCESSLIST WHERE TID",
        false => {
            "SELECT NAME, PROCESSLIST_ID, PROCESSLIST_INFO FROM performance_schema.threads WHERE THREAD_OS_ID"
        }
    };
    let all = ids.join(", ");
    let which = match ids.len() {
        1 => format!("The thread {all} fills a CPU"),
        _ => format!("The threads {all} fill a CPU each"),
    };
    found.add("top", None, format!("{which}: {statement} IN ({all}) says what runs there"));
}

#[cfg(test)]
mod tests {
    use spindoctor_model::TroubleKind;

    use crate::part::Kind;
    use crate::system::read;
    use crate::{recognise, window};

    fn top(idle: &str, rows: &[(u32, &str, &str)]) -> String {
        let rows: String = rows
            .iter()
            .map(|(id, percent, name)| {
                format!(
                    "{id:>7} mysql     20   0   70.1g  55.2g  11232 R {percent:>5}  88.0 123:12.11 {name}\n"
                )
            })
            .collect();
        format!(
            "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 12.10, 10.33, 8.02\n\
             Threads: 187 total,   9 running, 178 sleeping,   0 stopped,   0 zombie\n\
             %Cpu(s): 54.2 us,  4.9 sy,  0.0 ni, {idle} id,  0.1 wa,  0.0 hi,  0.2 si,  0.0 st\n\n\
             \x20   PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n{rows}"
        )
    }

    #[test]
    fn the_threads_that_have_the_cpus_are_named_and_are_no_neighbours_of_the_server() {
        let text = top(
            "40.6",
            &[
                (2311, "99.7", "ib_log_writer"),
                (2390, "98.0", "connection"),
                (2391, "42.0", "connection"),
                (2340, "31.0", "ib_srv_wkr-1"),
                (2341, "30.0", "ib_srv_wkr-2"),
                (2320, "0.3", "ib_pg_flush_co"),
            ],
        );
        assert_eq!(
            read(&text).says,
            [
                "Of the server's threads these use the CPUs: connections 1.4 CPUs (2 threads), redo log 1.0 CPUs (1 thread), purge 0.6 CPUs (2 \
                 threads)",
                "The thread ib_log_writer fills a CPU: it alone writes the redo log, and commits go no faster than it does",
                "The thread 2390 fills a CPU: SELECT NAME, PROCESSLIST_ID, PROCESSLIST_INFO FROM performance_schema.threads WHERE \
                 THREAD_OS_ID IN (2390) says what runs there",
            ]
        );
        let parts = recognise("x", &text);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::System]);
        assert!(spindoctor_rules::diagnose(&window(&parts)).findings.is_empty());
        let full = read(&text.replace("40.6 id", " 0.4 id"));
        assert_eq!(
            full.troubles.iter().map(|trouble| trouble.kind).collect::<Vec<_>>(),
            [TroubleKind::CpusFull]
        );
    }

    #[test]
    fn threads_without_names_of_their_own_are_said_by_their_numbers() {
        let of = |name: &str| {
            read(&top("40.6", &[(2390, "99.0", name), (2391, "97.0", name), (2392, "3.0", name)])).says
        };
        assert_eq!(
            of("mariadbd"),
            [
                "Of the server's threads these use the CPUs: mariadbd 2.0 CPUs (3 threads)",
                "The threads 2390, 2391 fill a CPU each: SELECT ID, INFO FROM information_schema.PROCESSLIST WHERE TID IN (2390, 2391) \
                 says what runs there",
            ]
        );
        assert!(of("mysqld")[1].contains("performance_schema.threads WHERE THREAD_OS_ID IN (2390, 2391)"));
    }

    #[test]
    fn the_list_of_ps_has_the_threads_beside_their_process() {
        let ps = "    PID     LWP PSR %CPU COMMAND\n   2211    2211   3  0.1 mysqld\n   2211    2390   5 99.0 connection\n   2211    2311   7  4.0 \
                  ib_log_flush\n";
        let says = read(ps).says;
        assert_eq!(says.len(), 2, "{says:?}");
        assert!(says[1].contains("THREAD_OS_ID IN (2390)"), "{says:?}");
    }

    #[test]
    fn a_list_of_processes_has_no_threads() {
        let text = top("40.6", &[(2211, "152.0", "mysqld"), (9912, "99.0", "my-app")]);
        let processes = text.replace("Threads: 187", "Tasks: 187");
        assert_eq!(
            read(&processes).says,
            [
                "The server uses 1.5 CPUs, and 40.6 % of the CPUs are idle: top -H -p PID says which of its threads"
            ]
        );
    }
}
