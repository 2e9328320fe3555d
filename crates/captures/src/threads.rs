//! Process lists as clients print them, to the threads that the server's own list has.

use std::collections::BTreeMap;

use spindoctor_collect::mysql::{Rows, processlist};
use spindoctor_collect::source::Answer;
use spindoctor_model::ServerSample;
use spindoctor_model::mysql::ServerThread;

use crate::{locks, sys_session};

/// Characters of a statement that are kept: as many as of a live server's.
const LONGEST: usize = 1_280;

/// How `performance_schema.threads` and `sys.processlist` name what a process list has.
const OTHER_NAMES: [(&str, &str); 11] = [
    ("conn_id", "id"),
    ("current_statement", "info"),
    ("processlist_id", "id"),
    ("processlist_user", "user"),
    ("processlist_host", "host"),
    ("processlist_db", "db"),
    ("processlist_command", "command"),
    ("processlist_time", "time"),
    ("processlist_state", "state"),
    ("processlist_info", "info"),
    ("thread_os_id", "tid"),
];

/// How monitoring and people's own queries call the statement and the time, the best first: `events_statements_current` has the first.
const STATEMENT_NAMES: [&str; 8] = [
    "sql_text",
    "query_text",
    "current_query",
    "statement",
    "sql",
    "query",
    "digest_text",
    "query_signature_text",
];
const TIME_NAMES: [&str; 7] =
    ["time_s", "time_seconds", "duration_s", "duration", "elapsed", "seconds", "statement_latency"];

/// Gives the first of these columns that there is a name that no column has.
fn rename_first(names: &mut [String], others: &[&str], plain: &str) {
    if !names.iter().any(|name| name == plain)
        && let Some(name) = others
            .iter()
            .find_map(|other| names.iter().position(|name| name == other))
            .map(|at| &mut names[at])
    {
        plain.clone_into(name);
    }
}

/// The numbers of performance_schema that a list has beside connections.
fn internal_ids(rows: &Rows) -> BTreeMap<u64, u64> {
    let pair = |row: spindoctor_collect::mysql::rows::Row<'_>| {
        let of = |columns: [&str; 2]| columns.iter().find_map(|column| row.number::<u64>(column));
        Some((of(["processlist_id", "conn_id"])?, of(["thread_id", "thd_id"])?))
    };
    rows.iter().filter_map(pair).collect()
}

/// What is said of sessions that somebody ended and that are there all the same.
pub(crate) fn killed_sentence(threads: &[ServerThread]) -> Option<String> {
    match threads.iter().filter(|thread| thread.command == "Killed").count() {
        0 => None,
        1 => {
            Some("1 session was killed and is not gone: what its transaction changed is undone first".into())
        }
        killed => Some(format!(
            "{killed} sessions were killed and are not gone: what their transactions changed is undone first"
        )),
    }
}

/// Beginnings of states of threads that rest, in lower case, of which a list without users and commands says nothing else: the event
/// scheduler (sql/event_queue.cc), what compresses the table of GTIDs (sql/rpl_gtid_persist.cc), replication (sql/rpl_replica.cc,
/// sql/rpl_rli_pdb.cc) and who sends a binary log (sql/rpl_source.cc).
const RESTING: [&str; 13] = [
    "suspending",
    "waiting on empty queue",
    "waiting for next activation",
    "waiting for master to send event",
    "waiting for source to send event",
    "slave has read all relay log",
    "replica has read all relay log",
    "waiting for work from sql thread",
    "waiting for an event from coordinator",
    "master has sent all binlog",
    "source has sent all binlog",
    "has sent all binlog",
    "has read all relay log",
];

/// Fewer letters of a state that was cut may be the beginning of another: `Waiting for master to` is none.
const LEAST_OF_STATE: usize = 20;

/// The threads of one list, without the session that made it.
pub(crate) fn others(rows: &Rows) -> Vec<ServerThread> {
    let mut threads = threads(rows);
    threads.retain(|thread| !is_own(thread));
    threads
}

/// The threads of one list.
pub fn threads(rows: &Rows) -> Vec<ServerThread> {
    let columns = rows.names();
    let named = |name: &str| match OTHER_NAMES.iter().find(|(other, _)| name.eq_ignore_ascii_case(other)) {
        Some((_, plain)) => (*plain).to_owned(),
        None => name.to_ascii_lowercase(),
    };
    let mut names: Vec<String> = columns.iter().map(|column| named(column)).collect();
    rename_first(&mut names, &STATEMENT_NAMES, "info");
    rename_first(&mut names, &TIME_NAMES, "time");
    let has_id = names.iter().any(|name| name == "id");
    if !has_id {
        names.push("id".to_owned());
    }
    let has_accounts = sys_session::is_of_sys(columns) && !names.iter().any(|name| name == "host");
    if has_accounts {
        names.push("host".to_owned());
    }
    let cells = |(at, row): (usize, spindoctor_collect::mysql::rows::Row<'_>)| {
        let mut cells: Vec<Option<String>> = columns
            .iter()
            .zip(&names)
            .map(|(column, name)| {
                let cell = row.text(column)?;
                // innotop writes a clock: `01:12`.
                let seconds = match (name.as_str(), column.as_str()) {
                    ("time", "statement_latency") => sys_session::latency(cell),
                    ("time", _) => locks::clock(cell).filter(|_| cell.contains(':')),
                    ("user", _) if has_accounts => return Some(sys_session::account(cell).0.to_owned()),
                    _ => None,
                };
                Some(seconds.map_or_else(|| cell.to_owned(), |seconds| format!("{seconds:.0}")))
            })
            .collect();
        if !has_id {
            // Nobody is killed by it: a list without ids is one that somebody made shorter.
            cells.push(Some((at + 1).to_string()));
        }
        if has_accounts {
            cells.push(row.text("user").map(|user| sys_session::account(user).1.to_owned()));
        }
        cells
    };
    let internal_ids = internal_ids(rows);
    let last_statements: BTreeMap<u64, String> = sys_session::last_statements(rows).collect();
    let cells = rows.iter().enumerate().map(cells).collect();
    let rows = Rows::new(names, cells);
    let mut sample = ServerSample::default();
    (processlist::SOURCE.parse)(&rows, Answer::default(), &mut sample);
    let mut threads = sample.threads.value().cloned().unwrap_or_default();
    for thread in &mut threads {
        if !has_id {
            thread.connection_id = None;
        }
        if thread.command.is_empty() && thread.is_connection {
            // A list made shorter: who has a state or a statement is at work.
            let state = thread.state.to_ascii_lowercase();
            // A tool may have cut the state.
            let is_cut = |whole: &str| state.len() >= LEAST_OF_STATE && whole.starts_with(state.as_str());
            let rests = RESTING.iter().any(|begins| state.starts_with(begins) || is_cut(begins));
            let works = thread.statement.is_some() || !state.is_empty();
            // Who sends a binary log has a client.
            thread.is_connection = !rests || state.contains("sent all binlog");
            thread.command = match () {
                () if rests => "Daemon",
                () if works => "Query",
                () => "Sleep",
            }
            .to_owned();
        }
        // performance_schema gives the threads of replication the account that started them.
        let state = thread.state.to_ascii_lowercase();
        if thread.command == "Connect" && RESTING.iter().any(|begins| state.starts_with(begins)) {
            thread.is_connection = false;
        }
        let internal_id = thread.connection_id.and_then(|id| internal_ids.get(&id).copied());
        thread.internal_id = thread.internal_id.or(internal_id);
        thread.last_statement = thread.connection_id.and_then(|id| last_statements.get(&id).cloned());
        if thread.command == "Killed" && thread.state.is_empty() && thread.statement.is_none() {
            // It runs nothing: it is on its way out.
            "killed".clone_into(&mut thread.state);
        }
        complete(&mut thread.state);
        if is_applier_held_up(thread) {
            thread.is_connection = true;
            thread.command = "Query".to_owned();
        }
        if let Some(statement) = &mut thread.statement {
            shorten(statement);
        }
    }
    threads
}

/// A state that a terminal has cut, whole: where it can be one alone.
fn complete(state: &mut String) {
    const WAITS: [&str; 17] = [
        "Waiting for table metadata lock",
        "Waiting for table level lock",
        "Waiting for table flush",
        "Waiting for global read lock",
        "Waiting for schema metadata lock",
        "Waiting for stored procedure metadata lock",
        "Waiting for stored function metadata lock",
        "Waiting for trigger metadata lock",
        "Waiting for event metadata lock",
        "Waiting for tablespace metadata lock",
        "Waiting for commit lock",
        "Waiting for backup lock",
        "Waiting for query cache lock",
        "Waiting for handler commit",
        "Waiting for prior transaction to commit",
        "Waiting for preceding transaction to commit",
        "Waiting for dependent transaction to commit",
    ];
    /// `Waiting for` alone may be anything.
    const LEAST: usize = "Waiting for x".len();
    if state.len() >= LEAST && !WAITS.contains(&state.as_str()) {
        let mut whole = WAITS.iter().filter(|whole| whole.starts_with(state.as_str()));
        if let (Some(whole), None) = (whole.next(), whole.next()) {
            (*whole).clone_into(state);
        }
    }
}

/// A commit of an applier is over in less, seconds. By judgement.
const APPLIED_S: f64 = 10.0;

/// True for an applier that waits for a lock or for the acknowledgement of its own replicas, or has been at one transaction for long:
/// whatever the list calls its command (MariaDB: `Sleep`), it waits as a client's session does, and all that it would have applied
/// waits behind it.
fn is_applier_held_up(thread: &ServerThread) -> bool {
    const LOCKS: [&str; 9] = [
        "waiting for global read lock",
        "waiting for commit lock",
        "waiting for backup lock",
        "waiting for table flush",
        "waiting for table metadata lock",
        "waiting for table level lock",
        "waiting for toi ddl",
        "waiting to execute in isolation",
        "waiting for semi-sync ack",
    ];
    const COMMITS: [&str; 4] = [
        "wsrep: committing write set",
        "wsrep: applying write set",
        "wsrep: writing rows",
        "committing write set",
    ];
    let state = thread.state.to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|begin| state.starts_with(begin));
    thread.user == "system user" && (begins(&LOCKS) || begins(&COMMITS) && thread.time_s >= APPLIED_S)
}

/// True for the session that made the list.
fn is_own(thread: &ServerThread) -> bool {
    let statement = thread.statement.as_deref().unwrap_or_default();
    let statement = statement.trim_end_matches([';', ' ']).replace('`', "").to_ascii_lowercase();
    let of_sys = ["sys.session", "sys.processlist", "sys.x$"];
    // `sys` shows a statement's two ends: where it names columns that nothing but a list of sessions has, its table may be lost.
    let columns = ["thd_id", "conn_id", "current_statement", "statement_latency", "processlist_"];
    let is_of_list = || columns.iter().filter(|column| statement.contains(**column)).count() >= 2;
    let asks = matches!(statement.as_str(), "show processlist" | "show full processlist")
        || statement.starts_with("show engine innodb status")
        || statement.starts_with("select")
            && (statement.contains("processlist") && statement.contains("_schema")
                || of_sys.iter().any(|list| statement.contains(list))
                || statement.contains(" ... ") && is_of_list());
    asks && thread.time_s < 1.0
}

fn shorten(text: &mut String) {
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(at);
    }
}

/// For the tests of other forms of the same list.
#[cfg(test)]
pub(crate) mod testing {
    use crate::part::Said;
    use crate::recognise;

    /// The sessions of a text: connection, state, statement.
    pub(crate) fn sessions(text: &str) -> Vec<(Option<u64>, String, String)> {
        let parts = recognise("x", text);
        let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
        let threads =
            said.filter_map(|said| if let Said::Threads(threads) = said { Some(threads) } else { None });
        threads
            .flatten()
            .map(|thread| {
                (thread.connection_id, thread.state.clone(), thread.statement.clone().unwrap_or_default())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    #[test]
    fn of_a_list_that_a_terminal_cut_states_are_whole_and_sessions_that_rest_are_there() {
        let text = "+------+------+---------+------+--------------------------\n\
                    | Id   | User | Command | Time | State                    \n\
                    +------+------+---------+------+--------------------------\n\
                    | 5001 | app  | Sleep   | 900  |                          \n\
                    | 5005 | app  | Query   | 280  | Waiting for table metadat\n\
                    | 5006 | app  | Query   | 280  | Waiting for table        \n";
        let threads = threads(&tables(text)[0]);
        let states: Vec<&str> = threads.iter().map(|thread| thread.state.as_str()).collect();
        assert_eq!(states, ["", "Waiting for table metadata lock", "Waiting for table"]);
    }

    #[test]
    fn who_asks_sys_is_none_of_the_sessions_though_its_table_was_cut_out_of_its_statement() {
        let list = "thd_id\tconn_id\tstate\tcurrent_statement\n31\t9\tUser sleep\tSELECT sleep(9) FROM a\n\
                    29\t8\tNULL\tSELECT thd_id, conn_id, state, ... ion WHERE command = 'Query'\n\
                    28\t7\tNULL\tSELECT conn_id, ... FROM visits\n";
        let ids: Vec<Option<u64>> =
            others(&tables(list)[0]).iter().map(|thread| thread.connection_id).collect();
        assert_eq!(ids, [Some(9), Some(7)]);
    }

    #[test]
    fn a_list_without_commands_has_threads_that_rest() {
        let list =
            "Id\tState\tInfo\n1\tWaiting on empty queue\tNULL\n2\tupdating\tUPDATE a SET b = 1\n3\t\tNULL\n";
        let threads = threads(&tables(list)[0]);
        assert_eq!(threads.iter().map(ServerThread::is_at_work).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn statements_and_times_have_the_names_that_monitoring_gives_them() {
        for (statement, time) in
            [("sql_text", "processlist_time"), ("query", "duration"), ("Statement", "Seconds")]
        {
            let list = format!(
                "[{{\"thread_id\": 91, \"processlist_id\": 12, \"processlist_state\": \"altering table\", \"digest_text\": \"x\", \
                 \"{statement}\": \"ALTER TABLE a ADD b INT\", \"{time}\": 31}}]"
            );
            let threads = threads(&tables(&list)[0]);
            assert_eq!(threads[0].statement.as_deref(), Some("ALTER TABLE a ADD b INT"), "{list}");
            assert_eq!((threads[0].time_s, threads[0].internal_id), (31.0, Some(91)), "{list}");
        }
    }

    #[test]
    fn who_was_killed_and_runs_nothing_is_not_called_running() {
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tapp\th:1\tshop\tKilled\t93\t\tNULL\n\
                    8\tapp\th:1\tshop\tKilled\t93\tupdating\tUPDATE a SET b = 1\n9\tapp\th:1\tshop\tSleep\t3\t\tNULL\n";
        let threads = threads(&tables(list)[0]);
        assert_eq!(
            threads.iter().map(|thread| thread.state.as_str()).collect::<Vec<_>>(),
            ["killed", "updating", ""]
        );
        assert!(
            killed_sentence(&threads).is_some_and(|sentence| sentence.starts_with("2 sessions were killed"))
        );
        assert_eq!(killed_sentence(&threads[2..]), None);
    }

    #[test]
    fn threads_of_the_server_in_a_list_without_users_are_no_connections() {
        let list = "thread_id\tPROCESSLIST_ID\tPROCESSLIST_STATE\tPROCESSLIST_INFO\n46\t7\tWaiting on empty queue\tNULL\n\
                    50\t9\tSuspending\tNULL\n65\t24\tWaiting for commit lock\tUPDATE a SET b = 1\n\
                    66\t25\tMaster has sent all binlog to slave\tNULL\n";
        let found: Vec<_> = threads(&tables(list)[0])
            .into_iter()
            .map(|thread| (thread.connection_id, thread.command, thread.is_connection))
            .collect();
        let wanted = [(7, "Daemon", false), (9, "Daemon", false), (24, "Query", true), (25, "Daemon", true)];
        assert_eq!(found, wanted.map(|(id, command, is)| (Some(id), command.to_owned(), is)));
    }

    #[test]
    fn a_thread_of_replication_that_has_the_account_of_who_started_it_is_no_session() {
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\troot\tlocalhost\tNULL\tConnect\t628590\tWaiting for master to \
                    send event\tNULL\n8\tunauthenticated user\th:1\tNULL\tConnect\t9\tlogin\tNULL\n";
        let at_work: Vec<bool> = threads(&tables(list)[0]).iter().map(ServerThread::is_at_work).collect();
        assert_eq!(at_work, [false, true]);
    }

    #[test]
    fn an_applier_that_waits_for_its_own_replicas_is_held_up() {
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tsystem user\t\tNULL\tConnect\t93\tWaiting for semi-sync ACK from \
                    slave\tNULL\n8\tsystem user\t\tNULL\tConnect\t9\tWaiting for master to send event\tNULL\n";
        let held_up: Vec<bool> = threads(&tables(list)[0])
            .iter()
            .map(|thread| thread.is_connection && thread.command == "Query")
            .collect();
        assert_eq!(held_up, [true, false]);
    }

    #[test]
    fn a_clock_is_a_time() {
        let list =
            "Cmd\tID\tState\tUser\tTime\tInfo\nQuery\t8121\tupdate\tapp\t01:12\tINSERT INTO a VALUES (1)\n";
        assert_eq!(threads(&tables(list)[0])[0].time_s, 72.0);
    }
}
