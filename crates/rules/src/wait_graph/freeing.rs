//! Statements that would free the sessions that wait for a thread, and their cost. Nothing here is ever executed.

use spindoctor_model::number;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::wait_graph::{LockKind, WaitingThread};

use super::doing::{ROLLING_BACK, peer};
use crate::killing::{
    COMMITS, IS_KILLED, OF_THE_SERVER, ROLLS_BACK, is_of_the_server, why_kill_does_nothing,
};

/// A statement that frees the waiters, or why there is none.
pub(super) struct Freeing {
    /// `KILL 12`, `KILL QUERY 12`.
    pub(super) statement: Option<String>,
    /// What it costs, or why no statement would help.
    pub(super) note: String,
    /// Rows that a rollback would have to put back.
    pub(super) rows: Option<u64>,
}

/// Times of statements and transactions are whole seconds on MySQL: one that began with its transaction may seem to
/// be younger by one.
const ROUNDING_S: f64 = 1.0;

/// What a session does of which a captured list says that it holds a lock, and nothing more (`captures`).
const NOT_KNOWN: &str = "not known";

/// The name of a thread that runs an event (sql/event_scheduler.cc), without its folders.
pub(super) const EVENT_WORKER: &str = "event_worker";

/// What a KILL of such a thread does not prevent.
const STARTED_AGAIN: &str =
    "; the event scheduler starts the event again at its next time (ALTER EVENT ... DISABLE prevents that)";

/// `is_by_name` is true where the session has locked a table itself, by LOCK TABLES or HANDLER, and not by its statement.
pub(super) fn freeing(thread: &WaitingThread, holds: LockKind, doing: &str, is_by_name: bool) -> Freeing {
    let nothing = |note: &str| Freeing { statement: None, note: note.to_owned(), rows: None };
    if thread.has_ended {
        return nothing("it has ended: nothing gives the lock back but a restart of the server");
    }
    let Some(id) = thread.connection_id else {
        return nothing(if thread.name.starts_with("transaction ") {
            "no connection has it: a prepared XA transaction (XA RECOVER lists it, XA ROLLBACK ends it), or one that \
             InnoDB rolls back"
        } else {
            "a thread of the server itself: it cannot be killed"
        });
    };
    if thread.user == OF_THE_SERVER {
        return nothing(
            "an applier of replication ends its transaction itself, and has to apply again what KILL or STOP REPLICA ends",
        );
    }
    if is_of_the_server(&thread.user, thread.statement.as_deref()) {
        return nothing("a thread of the server itself: it cannot be killed");
    }
    if doing == ROLLING_BACK {
        return nothing(ROLLS_BACK);
    }
    if thread.is_killed {
        return nothing(IS_KILLED);
    }
    // Who is at work commits; who rests was prepared by XA (MySQL 5.7.7, MariaDB 10.5 and later keep it when its client goes).
    let is_prepared = thread.transaction.is_some_and(|transaction| transaction.is_prepared);
    if is_prepared && is_idle(doing) {
        return nothing(
            "XA has prepared it: after KILL it stays, with its locks, until XA COMMIT or XA ROLLBACK of its name (XA RECOVER \
             lists it)",
        );
    }
    if is_prepared || matches!(holds, LockKind::CommitQueue | LockKind::CommitOrder) {
        return nothing(COMMITS);
    }
    let statement = thread.statement.as_deref().unwrap_or_default();
    // The statement of who is idle is over; that of who waits for its client is not.
    let at_work = thread.is_in_statement || (!thread.is_idle_in_transaction && !is_idle(doing));
    if let Some(why) =
        why_kill_does_nothing(&thread.server_state, statement, &thread.stack).filter(|_| at_work)
    {
        return nothing(why);
    }
    let again = if thread.name == EVENT_WORKER { STARTED_AGAIN } else { "" };
    let rows = thread.transaction.map(|transaction| transaction.rows_modified);
    let rolled_back = match rows {
        Some(0) | None => String::new(),
        Some(rows) => {
            format!("; {} rolled back", number::counted(rows, "changed row is", "changed rows are"))
        }
    };
    // Row locks, and the tables of a transaction, stay until it ends: its statement alone may end only where that is
    // all there is of it. What a session has locked by name ends with the session.
    let outlives_statement = match (holds, thread.transaction) {
        (LockKind::User, _) => true,
        _ if is_by_name || waits_for_its_client(thread) => true,
        (LockKind::Global | LockKind::Backup, _) => thread.is_idle_in_transaction || is_idle(doing),
        (_, Some(transaction)) => {
            // Who only reads now has changed or locked its rows before; who now wants no table has opened it before.
            let has_rows = holds == LockKind::Row || transaction.rows_modified > 0;
            let is_from_before = !spindoctor_sql::locks_rows(statement)
                && (has_rows || spindoctor_sql::first_table(statement).is_none());
            is_from_before || thread.since_s.is_none_or(|since_s| transaction.age_s > since_s + ROUNDING_S)
        }
        (_, None) => is_idle(doing),
    };
    // Of a list that does not say what it does: ending a statement that it does not run would free nobody.
    if thread.is_idle_in_transaction || is_idle(doing) || doing == NOT_KNOWN || outlives_statement {
        return Freeing {
            statement: Some(format!("KILL {id}")),
            note: format!("its connection ends{rolled_back}{again}"),
            rows,
        };
    }
    let note = match doing {
        _ if peer(thread).is_some() => {
            format!("it is {doing}: KILL takes effect only after that{rolled_back}")
        }
        "deleting a file" | "truncating a file" | "extending a file" | "syncing a file (fsync)" => {
            format!("it is in the kernel, {doing}: KILL takes effect only after that{rolled_back}{again}")
        }
        _ => format!("its statement ends, its connection stays{rolled_back}{again}"),
    };
    Freeing { statement: Some(format!("KILL QUERY {id}")), note, rows }
}

/// Functions in which a statement gives its rows to its client (sql/net_serv.cc, vio/viosocket.cc; MariaDB has net_real_write).
const SENDS: [&str; 4] = ["vio_write", "net_write_packet", "net_real_write", "my_net_write"];

/// A statement whose client does not take its rows stands in the socket: KILL QUERY reaches it when the client reads again, or after
/// net_write_timeout; KILL closes the socket. performance_schema may still have the state from before (`executing` on MySQL 9.7): its
/// stack shows it, where one was taken.
fn waits_for_its_client(thread: &WaitingThread) -> bool {
    let state = thread.server_state.to_ascii_lowercase();
    if peer(thread).is_some() {
        return false;
    }
    // Who is on a CPU sends.
    let runs = matches!(thread.state, Some(ThreadState::Running | ThreadState::Runnable));
    state.starts_with("sending to client")
        || state.starts_with("writing to net")
        || (!runs && thread.stack.iter().any(|frame| SENDS.contains(&frame.as_str())))
}

fn is_idle(doing: &str) -> bool {
    doing.starts_with("idle") || doing == "waiting for the client"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{answer, session};
    use crate::wait_graph::{Readings, build, roots};
    use spindoctor_model::ServerSample;
    use spindoctor_model::mysql::{RowLockWait, ServerThread};
    use spindoctor_model::wait_graph::WaitTransaction;

    #[test]
    fn an_applier_is_known_by_its_state_where_no_user_of_it_is_printed() {
        let freed = |holder: ServerThread| {
            let wait = RowLockWait {
                waiting_connection_id: Some(31),
                blocking_connection_id: Some(7),
                waiting_transaction: "9031".into(),
                blocking_transaction: "9007".into(),
                table: "shop.orders".into(),
                ..RowLockWait::default()
            };
            let waiter = session(31, "Query", "updating", "UPDATE orders SET n = 1");
            let server = ServerSample {
                threads: answer(0.0, vec![holder, waiter]),
                row_lock_waits: answer(0.0, vec![wait]),
                ..ServerSample::default()
            };
            let graph = build(&Readings::of_server(None, &server));
            let root = roots(&graph).remove(0);
            let holder = graph.threads[root.thread.unwrap() as usize].clone();
            (holder.user, holder.server_state, root.free_with.is_some())
        };
        // The first words of the state as host and user, as a status that was captured gives them.
        for (host, user, state) in [
            ("Reading", "event", "from the relay log"),
            ("Applying", "batch", "of row changes (update)"),
            ("Waiting", "for", "dependent transaction to commit"),
        ] {
            let holder =
                ServerThread { host: host.into(), user: user.into(), ..session(7, "Query", state, "") };
            let whole = format!("{host} {user} {state}");
            assert_eq!(freed(holder), ("system user".to_owned(), whole, false));
        }
        let of_7 = || session(7, "Query", "updating", "UPDATE orders SET n = 2");
        assert!(freed(of_7()).2, "a client");
        assert!(!freed(ServerThread { is_connection: false, ..of_7() }).2, "no client");
        let job = ServerThread { is_connection: false, user: "event_scheduler".into(), ..of_7() };
        assert!(freed(job).2, "a job of the event scheduler");
    }

    #[test]
    fn what_outlives_its_statement_is_freed_by_the_end_of_the_session() {
        let report = WaitingThread {
            connection_id: Some(12),
            user: "app".into(),
            statement: Some("SELECT COUNT(*) FROM sbtest1".into()),
            since_s: Some(20.0),
            ..WaitingThread::default()
        };
        let free = |thread: &WaitingThread, is_by_name| {
            freeing(thread, LockKind::Metadata, "", is_by_name).statement.unwrap_or_default()
        };
        assert_eq!(free(&report, false), "KILL QUERY 12");
        assert_eq!(free(&report, true), "KILL 12", "LOCK TABLES");
        for state in ["Sending to client", "Writing to net"] {
            let unread = WaitingThread { server_state: state.into(), ..report.clone() };
            assert_eq!(free(&unread, false), "KILL 12", "{state}");
        }
    }

    #[test]
    fn of_a_client_that_takes_no_rows_the_stack_says_so_where_the_state_does_not() {
        let freed = |state, frames: &[&str]| {
            let report = WaitingThread {
                connection_id: Some(12),
                user: "app".into(),
                statement: Some("SELECT * FROM sbtest1".into()),
                server_state: "executing".into(),
                since_s: Some(20.0),
                state: Some(state),
                stack: frames.iter().map(|&frame| frame.to_owned()).collect(),
                ..WaitingThread::default()
            };
            freeing(&report, LockKind::Metadata, "executing", false).statement.unwrap_or_default()
        };
        let mysql = &["ppoll", "vio_io_wait", "vio_socket_io_wait", "vio_write", "net_write_packet"];
        assert_eq!(freed(ThreadState::NetworkIdle, mysql), "KILL 12");
        assert_eq!(freed(ThreadState::Blocked, &["send", "net_real_write", "my_net_write"]), "KILL 12");
        assert_eq!(freed(ThreadState::Runnable, mysql), "KILL QUERY 12", "it sends");
        assert_eq!(freed(ThreadState::DiskRead, &["pread64", "row_search_mvcc"]), "KILL QUERY 12");
        let asks = &["ppoll", "vio_write", "net_write_packet", "mysql_send_query", "ha_federated::rnd_init"];
        assert_eq!(freed(ThreadState::NetworkIdle, asks), "KILL QUERY 12", "it asks another server");
    }

    fn holder(age_s: f64, since_s: f64) -> WaitingThread {
        WaitingThread {
            connection_id: Some(12),
            user: "app".into(),
            statement: Some("UPDATE stock SET n = 1".into()),
            since_s: Some(since_s),
            transaction: Some(WaitTransaction {
                age_s,
                rows_modified: 40,
                rows_locked: 60,
                ..WaitTransaction::default()
            }),
            ..WaitingThread::default()
        }
    }

    #[test]
    fn what_a_statement_cannot_have_locked_stays_when_it_ends() {
        let unchanged = holder(5.0, 5.0);
        let transaction = unchanged.transaction.map(|own| WaitTransaction { rows_modified: 0, ..own });
        let free = |statement: &str, holds| {
            let thread =
                WaitingThread { statement: Some(statement.into()), transaction, ..unchanged.clone() };
            freeing(&thread, holds, "executing", false).statement.unwrap_or_default()
        };
        for (statement, row, metadata) in [
            ("DO SLEEP(100)", "KILL 12", "KILL 12"),
            ("SELECT SLEEP(100)", "KILL 12", "KILL 12"),
            ("SELECT COUNT(*) FROM stock", "KILL 12", "KILL QUERY 12"),
            ("SELECT n FROM stock FOR UPDATE", "KILL QUERY 12", "KILL QUERY 12"),
            ("UPDATE stock SET n = SLEEP(1)", "KILL QUERY 12", "KILL QUERY 12"),
        ] {
            assert_eq!(free(statement, LockKind::Row), row, "a row, {statement}");
            assert_eq!(free(statement, LockKind::Metadata), metadata, "a table, {statement}");
        }
    }

    fn idle_holder() -> WaitingThread {
        WaitingThread { transaction: None, ..holder(9.0, 9.0) }
    }

    fn statement_and_rows(
        thread: &WaitingThread,
        holds: LockKind,
        doing: &str,
    ) -> (Option<String>, Option<u64>) {
        let freeing = freeing(thread, holds, doing, false);
        (freeing.statement, freeing.rows)
    }

    #[test]
    fn of_whom_it_is_not_known_what_it_does_the_connection_is_ended() {
        let holder =
            WaitingThread { connection_id: Some(12), user: "app".into(), ..WaitingThread::default() };
        let freed = |doing| freeing(&holder, LockKind::Metadata, doing, false).statement.unwrap_or_default();
        assert_eq!(
            (freed(NOT_KNOWN), freed("executing")),
            ("KILL 12".to_owned(), "KILL QUERY 12".to_owned())
        );
    }

    #[test]
    fn a_statement_that_is_all_of_its_transaction_may_end_alone() {
        let kill = |statement: &str| (Some(statement.to_owned()), Some(40));
        assert_eq!(statement_and_rows(&holder(5.0, 5.0), LockKind::Row, "updating"), kill("KILL QUERY 12"));
        assert_eq!(statement_and_rows(&holder(61.0, 5.0), LockKind::Row, "updating"), kill("KILL 12"));
        // Both began in one second, and the SELECT did not change the rows.
        let reading = WaitingThread { statement: Some("select SLEEP(40)".into()), ..holder(5.0, 5.0) };
        assert_eq!(statement_and_rows(&reading, LockKind::Row, "sleeping (SLEEP)"), kill("KILL 12"));
        let idle = WaitingThread { is_idle_in_transaction: true, ..holder(5.0, 5.0) };
        assert_eq!(statement_and_rows(&idle, LockKind::Row, "idle in transaction"), kill("KILL 12"));
        assert!(freeing(&idle, LockKind::Row, "idle in transaction", false).note.contains("40 changed rows"));
    }

    #[test]
    fn a_job_of_the_event_scheduler_ends_with_its_rows_as_any_connection_does() {
        let job = WaitingThread {
            user: "event_scheduler".into(),
            statement: Some("DO SLEEP(60)".into()),
            server_state: "User sleep".into(),
            ..holder(61.0, 5.0)
        };
        let kill = (Some("KILL 12".to_owned()), Some(40));
        assert_eq!(statement_and_rows(&job, LockKind::Row, "sleeping (SLEEP)"), kill);
        let note = |name: &str| {
            let job = WaitingThread { name: name.into(), ..job.clone() };
            freeing(&job, LockKind::Row, "sleeping (SLEEP)", false).note
        };
        assert!(note("event_worker").contains("ALTER EVENT ... DISABLE"), "{}", note("event_worker"));
        assert!(!note("connection").contains("ALTER EVENT"), "{}", note("connection"));
        // It changed its rows before it began to sleep, if within the same second.
        let since = WaitingThread { since_s: Some(61.0), ..job };
        assert_eq!(statement_and_rows(&since, LockKind::Row, "sleeping (SLEEP)"), kill);
    }

    #[test]
    fn nobody_is_advised_to_kill_what_cannot_be_killed() {
        let background = WaitingThread { name: "ib_log_flush".into(), ..WaitingThread::default() };
        assert_eq!(statement_and_rows(&background, LockKind::CommitQueue, "syncing a file (fsync)").0, None);
        assert_eq!(
            statement_and_rows(&holder(1.0, 1.0), LockKind::CommitQueue, "syncing a file (fsync)").0,
            None
        );
        let ended = WaitingThread { has_ended: true, ..holder(1.0, 1.0) };
        assert_eq!(statement_and_rows(&ended, LockKind::Mutex, "").0, None);
        let scheduler = WaitingThread { user: "event_scheduler".into(), statement: None, ..holder(1.0, 1.0) };
        assert_eq!(statement_and_rows(&scheduler, LockKind::Row, "").0, None);
        let applier = WaitingThread { user: "system user".into(), ..holder(1.0, 1.0) };
        assert_eq!(statement_and_rows(&applier, LockKind::CommitOrder, "applying").0, None);
        assert_eq!(statement_and_rows(&holder(9.0, 9.0), LockKind::Row, "rolling back").0, None);
        let killed = WaitingThread { is_killed: true, ..holder(9.0, 9.0) };
        assert_eq!(statement_and_rows(&killed, LockKind::Row, "updating").0, None);
        let state = "Waiting for semi-sync ACK from replica";
        let acknowledged = WaitingThread { server_state: state.into(), ..holder(9.0, 9.0) };
        let note = freeing(&acknowledged, LockKind::Row, state, false).note;
        assert!(
            note.contains("replica") && statement_and_rows(&acknowledged, LockKind::Row, state).0.is_none()
        );
        // The statement that the server lists with an idle session is its last one.
        let committed = WaitingThread { statement: Some("COMMIT".into()), ..idle_holder() };
        assert_eq!(
            statement_and_rows(&committed, LockKind::User, "idle, holding a user lock").0.as_deref(),
            Some("KILL 12")
        );
        let mut prepared = WaitingThread { is_idle_in_transaction: true, ..holder(9.0, 9.0) };
        prepared.transaction =
            prepared.transaction.map(|transaction| WaitTransaction { is_prepared: true, ..transaction });
        let resting = freeing(&prepared, LockKind::Row, "idle in transaction", false);
        assert!(resting.statement.is_none() && resting.note.contains("XA ROLLBACK"), "{}", resting.note);
        // Galera's `ACTIVE (PREPARED)`, at its certification.
        let commits = freeing(&prepared, LockKind::Row, "wsrep: pre-commit/certification passed", false);
        assert!(commits.statement.is_none() && !commits.note.contains("XA"), "{}", commits.note);
    }
}
