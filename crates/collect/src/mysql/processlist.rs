//! The process list: MariaDB's threads, and MySQL's where performance_schema.threads cannot be read.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::{ServerThread, THREADS_LISTED_WITHIN_S};

use super::perf_schema_threads;
use super::perf_schema_threads::{RUNNING_LIMIT, SAMPLED_LIMIT, both_ends, find_room};
use super::rows::{Row, Rows};
use super::source::{Plan, Source, note_if_cut, performance_schema_off, process_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// Connections read at most; those that sleep are left out first.
const LIMIT: usize = 5000;

/// The source.
///
/// Cost: `information_schema.PROCESSLIST` visits every connection and takes its LOCK_thd_data (and,
/// before MySQL 8.0 and MariaDB 10.5, the one lock of the thread list for the whole visit): new
/// connections wait meanwhile, about 1 ms for 500. Safe to ask every second up to some thousand
/// connections. From MySQL 8.0.22 performance_schema.processlist takes no such lock and is asked instead.
///
/// Without PROCESS a server shows the user's own connections only, and says nothing about it. The
/// join with INNODB_CMP (a handful of counters in memory) turns that silence into error 1227. It has
/// to stand on the left: MariaDB 10.11 does not read it where the process list is empty. The price
/// is a row of NULLs where nobody else is connected.
///
/// In order it takes MariaDB 10.11 4.9 ms of its CPU time for 1,000 connections, and 3.6 without: where all find room, no
/// order is asked for.
pub const SOURCE: Source = Source {
    name: "information_schema.PROCESSLIST",
    help: "every connection: state, statement, and on MariaDB the kernel's thread id",
    cost: "visits every connection and takes its lock for an instant, about 1 ms for 500",
    grant: process_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(1, THREADS_LISTED_WITHIN_S).hurrying().instead_of(perf_schema_threads::SOURCE.name),
    plan: |version, variables| {
        if version.mariadb_at_least(10, 2, 0) && find_room(variables) {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, TIME_MS, STATE, LEFT(INFO, 1024) AS INFO, TID, QUERY_ID \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() LIMIT 5000",
            )
        } else if version.mariadb_at_least(10, 2, 0) {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, TIME_MS, STATE, LEFT(INFO, 1024) AS INFO, TID, QUERY_ID \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() ORDER BY COMMAND = 'Sleep' LIMIT 5000",
            )
        } else if version.mysql_at_least(8, 0, 22) && performance_schema_off(version, variables).is_none() {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 1024) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN performance_schema.processlist ON ID <> CONNECTION_ID() ORDER BY COMMAND = 'Sleep' LIMIT 5000",
            )
        } else {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 1024) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() ORDER BY COMMAND = 'Sleep' LIMIT 5000",
            )
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.PROCESSLIST", rows, LIMIT, sample);
        sample.threads = answer.reading(threads(rows));
    },
    reading: ServerSample::field("threads"),
};

/// Connections that run a statement, the longest first: for who runs what on many servers at once, again and again.
///
/// Cost: as for [`SOURCE`]; of those that rest nothing is sent. Texts are cut to 256 characters, one line of a wide
/// terminal. Safe to ask every second up to some thousand connections.
pub const RUNNING: Source = Source {
    help: "every connection that runs a statement: state, statement",
    plan: |version, variables| {
        if version.mariadb_at_least(10, 2, 0) {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, TIME_MS, STATE, LEFT(INFO, 256) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() AND INFO IS NOT NULL \
                 AND COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
                 ORDER BY TIME_MS DESC LIMIT 100",
            )
        } else if version.mysql_at_least(8, 0, 22) && performance_schema_off(version, variables).is_none() {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 256) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN performance_schema.processlist ON ID <> CONNECTION_ID() AND INFO IS NOT NULL \
                 AND COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
                 ORDER BY TIME DESC LIMIT 100",
            )
        } else {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 256) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() AND INFO IS NOT NULL \
                 AND COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
                 ORDER BY TIME DESC LIMIT 100",
            )
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.PROCESSLIST", rows, RUNNING_LIMIT, sample);
        sample.threads = answer.reading(threads(rows));
    },
    ..SOURCE
};

/// Connections that run a statement, with the beginning and the end of its text: for who looks many times a second.
///
/// Cost: as for [`SOURCE`]; of those that rest nothing is sent. Before MySQL 8.0.22 and MariaDB 10.5 each look holds the
/// lock of the thread list. Of a long text the first 1,024 characters are sent and the last 256. Who looks ten times a
/// second measures what that costs and looks less often where it is too much.
pub const SAMPLED: Source = Source {
    help: "every connection that runs a statement: state, statement, and on MariaDB the kernel's thread id",
    plan: |version, variables| {
        if version.mariadb_at_least(10, 2, 0) {
            Plan::Ask(concat!(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, TIME_MS, STATE, TID, QUERY_ID, ",
                both_ends!("INFO"),
                " FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() AND INFO IS NOT NULL LIMIT 2000"
            ))
        } else if version.mysql_at_least(8, 0, 22) && performance_schema_off(version, variables).is_none() {
            Plan::Ask(concat!(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, ",
                both_ends!("INFO"),
                " FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN performance_schema.processlist ON ID <> CONNECTION_ID() AND INFO IS NOT NULL LIMIT 2000"
            ))
        } else {
            Plan::Ask(concat!(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, ",
                both_ends!("INFO"),
                " FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON ID <> CONNECTION_ID() AND INFO IS NOT NULL LIMIT 2000"
            ))
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.PROCESSLIST", rows, SAMPLED_LIMIT, sample);
        sample.threads = answer.reading(threads(rows));
    },
    ..SOURCE
};

/// The threads of a replica that apply, and on servers that do not distinguish them those that receive.
///
/// Cost: as for [`SOURCE`]; nothing is sent of other threads.
pub const APPLIERS: Source = Source {
    help: "the threads that apply: state, statement",
    plan: |version, variables| {
        if version.mariadb_at_least(10, 2, 0) {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, TIME_MS, STATE, TID, QUERY_ID, LEFT(INFO, 1024) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON USER = 'system user' \
                 AND COMMAND IN ('Slave_SQL', 'Slave_worker', 'Connect') LIMIT 2000",
            )
        } else if version.mysql_at_least(8, 0, 22) && performance_schema_off(version, variables).is_none() {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 1024) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN performance_schema.processlist ON USER = 'system user' LIMIT 2000",
            )
        } else {
            Plan::Ask(
                "SELECT ID, USER, HOST, DB, COMMAND, TIME, STATE, LEFT(INFO, 1024) AS INFO \
                 FROM (SELECT COUNT(*) AS n FROM information_schema.INNODB_CMP) AS needs_process \
                 LEFT JOIN information_schema.PROCESSLIST ON USER = 'system user' LIMIT 2000",
            )
        }
    },
    ..SAMPLED
};

fn threads(rows: &Rows) -> Vec<ServerThread> {
    rows.iter().filter(|row| row.text("ID").is_some()).map(thread).collect()
}

/// The server's own thread for a table with INSERT DELAYED (user `DELAYED`; MySQL before 5.7, MariaDB). It waits for the next rows for five
/// minutes, in the state `Waiting for INSERT`, and no client waits for it.
const DELAYED_INSERT: &str = "Delayed insert";

fn thread(row: Row<'_>) -> ServerThread {
    let user = row.string("USER");
    let command = row.string("COMMAND");
    // MySQL prints -1 or 4294967295 - n for a clock that went back; MariaDB has milliseconds besides.
    let seconds: f64 = row.number("TIME").unwrap_or(0.0);
    let time_s = row.number("TIME_MS").map_or(seconds, |ms: f64| ms / 1000.0);
    ServerThread {
        internal_id: None,
        connection_id: row.number("ID"),
        thread_os_id: row.number("TID").filter(|&tid: &u64| tid != 0),
        name: String::new(),
        // Appliers are `system user`; MariaDB's background threads are `Daemon` of `system user`.
        is_connection: user != "system user"
            && user != "event_scheduler"
            && command != "Daemon"
            && command != DELAYED_INSERT,
        host: without_port(row.text("HOST").unwrap_or_default()).to_owned(),
        schema: row.string("DB"),
        time_s: if (0.0..4e9).contains(&time_s) { time_s } else { 0.0 },
        state: row.string("STATE"),
        statement: row.text("INFO").filter(|text| !text.is_empty()).map(str::to_owned),
        digest_text: None,
        statement_number: row.number("QUERY_ID"),
        last_statement: None,
        user,
        command,
    }
}

/// `10.17.85.74:60991` without its port; `localhost` has none.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use spindoctor_model::ServerVersion;

    /// As `SHOW FULL PROCESSLIST` has it, which every version has, by server.
    fn lists(trouble: &str) -> Vec<(String, Vec<ServerThread>)> {
        let lists = fixture::answers(trouble, "SHOW FULL PROCESSLIST").into_iter();
        lists.map(|(server, rows)| (server, threads(&rows))).collect()
    }

    #[test]
    fn reads_the_connections_of_a_full_list_of_every_version() {
        let mut all = lists("full-process-list");
        assert!(all.len() >= 10, "only {} servers", all.len());
        // The source's own answer, where this version is asked for it, has the same.
        all.extend(
            fixture::captures("full-process-list", &SOURCE)
                .into_iter()
                .map(|(server, rows)| (server, threads(&rows))),
        );
        for (server, threads) in all {
            let count = |user: &str, command: &str| {
                threads.iter().filter(|t| t.user == user && t.command == command).count()
            };
            assert_eq!(
                (count("shop", "Sleep"), count("tcp", "Sleep"), count("report", "Query")),
                (40, 12, 6),
                "{server}"
            );
            // Under the name of who called the procedure, or of its definer: MariaDB, MySQL 5.5.
            let nightly = threads.iter().filter(|t| t.statement.as_deref() == Some("DO SLEEP(1)")).count();
            assert_eq!(nightly, 1, "{server}");
            let tcp = threads.iter().find(|t| t.user == "tcp").unwrap();
            assert_eq!((tcp.host.as_str(), tcp.statement.as_ref()), ("127.0.0.1", None), "{server}");
            let report = threads.iter().find(|t| t.user == "report").unwrap();
            assert!(
                report
                    .statement
                    .as_deref()
                    .unwrap()
                    .contains("'a statement\nof several lines; it''s number "),
                "{server}"
            );
            for scheduler in threads.iter().filter(|t| t.user == "event_scheduler") {
                assert!(!scheduler.is_connection, "{server}");
            }
        }
    }

    #[test]
    fn an_applier_is_no_connection() {
        let all = lists("replica-lag");
        assert!(all.len() >= 10, "only {} servers", all.len());
        for (server, threads) in all {
            let appliers: Vec<_> = threads.iter().filter(|t| t.user == "system user").collect();
            assert!(
                appliers.len() >= 2 && appliers.iter().all(|t| !t.is_connection),
                "{server}: {appliers:?}"
            );
        }
    }

    #[test]
    fn a_handler_of_delayed_inserts_is_no_connection_and_who_sends_rows_to_it_is() {
        let threads = threads(&fixture::tabbed(
            "ID\tUSER\tHOST\tDB\tCOMMAND\tTIME\tSTATE\tINFO\n\
             31\tDELAYED\tlocalhost\tshop\tDelayed insert\t120\tWaiting for INSERT\tNULL\n\
             30\tshop\tlocalhost\tshop\tQuery\t1\twaiting for handler insert\tINSERT DELAYED INTO hits VALUES (1)\n",
        ));
        let at_work: Vec<_> =
            threads.iter().map(|thread| (thread.is_connection, thread.is_at_work())).collect();
        assert_eq!(at_work, [(false, false), (true, true)]);
    }

    #[test]
    fn reads_the_states_of_those_who_wait() {
        for (trouble, state, waiting) in [
            ("table-lock-pile-up", "Waiting for table level lock", 3),
            ("metadata-lock-pile-up", "Waiting for table metadata lock", 5),
        ] {
            for (server, threads) in lists(trouble) {
                let found: Vec<_> = threads.iter().filter(|t| t.state == state).collect();
                assert!(found.len() >= waiting, "{server} {trouble}: {threads:#?}");
                assert!(
                    found.iter().all(|t| t.time_s >= 1.0 && t.statement.is_some()),
                    "{server} {trouble}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn reads_mariadb_with_its_thread_ids_and_milliseconds() {
        let threads = threads(&fixture::tabbed(
            "ID\tUSER\tHOST\tDB\tCOMMAND\tTIME\tTIME_MS\tSTATE\tINFO\tTID\tQUERY_ID\n\
             30\troot\tlocalhost\tt\tQuery\t0\t804.680\tWaiting for table metadata lock\talter table a add z int\t15135\t41\n",
        ));
        assert_eq!((threads[0].thread_os_id, threads[0].time_s), (Some(15135), 0.80468));
        assert_eq!(threads[0].statement_number, Some(41));
    }

    #[test]
    fn nobody_else_connected_is_an_empty_list() {
        assert!(threads(&fixture::tabbed("ID\tUSER\tCOMMAND\nNULL\tNULL\tNULL\n")).is_empty());
    }

    #[test]
    fn a_current_mysql_is_never_asked_for_the_list_that_takes_locks() {
        for text in ["8.0.22", "8.4.2", "9.7.4"] {
            for (source, limit) in [
                (SOURCE, LIMIT),
                (RUNNING, RUNNING_LIMIT),
                (SAMPLED, SAMPLED_LIMIT),
                (APPLIERS, SAMPLED_LIMIT),
            ] {
                match (source.plan)(ServerVersion::parse(text, "").unwrap(), None) {
                    Plan::Ask(sql) => {
                        assert!(!sql.contains("information_schema.PROCESSLIST"), "{sql}");
                        assert!(sql.ends_with(&format!("LIMIT {limit}")), "{sql}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_list_of_what_runs_that_is_full_says_so() {
        let mut rows = "ID\tUSER\tCOMMAND\tINFO\n".to_owned();
        (0..RUNNING_LIMIT).for_each(|id| rows.push_str(&format!("{id}\tapp\tQuery\tSELECT 1\n")));
        let mut sample = spindoctor_model::ServerSample::default();
        (RUNNING.parse)(&fixture::tabbed(&rows), crate::source::Answer::default(), &mut sample);
        assert_eq!(sample.threads.value().map(Vec::len), Some(RUNNING_LIMIT));
        assert_eq!(sample.cut, ["information_schema.PROCESSLIST"]);
    }
}
