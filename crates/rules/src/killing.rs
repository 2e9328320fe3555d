//! Whom a KILL frees: asked before a rule or the wait graph suggests one.
//!
//! The server looks for a KILL where a statement works or waits for a lock. A commit that is under way, the acknowledgement of a
//! replica and a rollback end by themselves, and what XA has prepared outlives its connection.

use std::ops::Range;

use spindoctor_model::mysql::{ServerSample, ServerThread};
use spindoctor_model::{TimeClass, Window};

use crate::sessions;
use crate::time_model::wait_class;

/// Why no KILL shortens a commit.
pub(crate) const COMMITS: &str = "it commits: KILL does not end a commit";

/// Why none shortens a rollback.
pub(crate) const ROLLS_BACK: &str = "it is rolling back already: KILL does not make it faster";

/// Why none brings the acknowledgement of a replica.
pub(crate) const AWAITS_REPLICA: &str =
    "it waits for a replica to acknowledge its commit: KILL does not end a commit";

/// Why a second one does nothing.
pub(crate) const IS_KILLED: &str = "KILL was sent to it already: it ends once its statement looks for that";

/// Why a REPAIR or OPTIMIZE is left alone: of a table without transactions it writes the files themselves (MySQL's manual, KILL
/// Statement: killing either on a MyISAM table leaves the table corrupted and unusable). The engine is not known.
pub(crate) const DAMAGES: &str =
    "a REPAIR or OPTIMIZE that is ended leaves a MyISAM or Aria table damaged: let it end";

/// Before somebody is ended of whom it is inferred that it has what others wait for.
pub(crate) const LOOK_FIRST: &str = "Look first whose it is, and what it is for. ";

/// What the end of a FLUSH TABLES or an ANALYZE TABLE does not undo: the tables are old from its beginning on (sql/sql_base.cc,
/// close_cached_tables; MySQL bug 44884).
pub(crate) const FLUSH_STAYS: &str = "KILL of a FLUSH or ANALYZE frees nobody else who waits for a table's flush: the copy of the table \
    that a statement uses stays old, and a session that opens the table waits until that statement ends (MySQL bug 44884).";

/// The user that the process list gives to threads of the server itself.
pub(crate) const OF_THE_SERVER: &str = "system user";

/// The user of the event scheduler's thread (sql/event_scheduler.cc), and on MySQL of the jobs that it starts, which a KILL ends as
/// any connection's statement.
const SCHEDULER: &str = "event_scheduler";

/// The user of a thread that writes the rows of INSERT DELAYED, of a server that has it (sql/sql_insert.cc). Rows that clients were
/// promised wait in it.
const DELAYED: &str = "DELAYED";

/// True for a thread of the server itself. A job of the event scheduler runs a statement; the scheduler never does.
pub(crate) fn is_of_the_server(user: &str, statement: Option<&str>) -> bool {
    user == OF_THE_SERVER || user == DELAYED || is_scheduler(user, statement)
}

/// States of an applier that no client's statement has (sql/log_event.cc, sql/rpl_replica.cc, sql/rpl_mta_submode.cc), in lower case.
const OF_APPLIERS: [&str; 4] = [
    "event from the relay log",
    "applying batch of row changes",
    "_rows_log_event::",
    "waiting for dependent transaction",
];

/// The state of an applier. A status that was captured prints no user of it, and the first words of its state may stand where others
/// have their host and user.
pub(crate) fn state_of_applier(thread: &ServerThread) -> Option<String> {
    let says_so = |state: &str| {
        let state = state.to_ascii_lowercase();
        OF_APPLIERS.iter().any(|of_applier| state.contains(of_applier))
    };
    // A client that replays a binary log has such states, too.
    if thread.statement.as_deref().is_some_and(|statement| spindoctor_sql::kind(statement) == "BINLOG") {
        return None;
    }
    let printed = format!("{} {} {}", thread.host, thread.user, thread.state);
    let is_no_client = thread.connection_id.is_some()
        && !thread.is_connection
        && thread.command != "Daemon"
        && thread.user != DELAYED
        && !is_scheduled(&thread.user);
    match () {
        () if says_so(&thread.state) => Some(thread.state.clone()),
        () if says_so(&printed) => Some(printed.trim().to_owned()),
        () => is_no_client.then(|| thread.state.clone()),
    }
}

fn is_scheduler(user: &str, statement: Option<&str>) -> bool {
    user == SCHEDULER && statement.is_none_or(str::is_empty)
}

/// True for a job that the event scheduler started, as far as its user says so: it runs its statements under the name of its definer.
pub(crate) fn is_scheduled(user: &str) -> bool {
    user == SCHEDULER
}

/// Why a KILL of who is at such work frees nobody; None where it ends that work. State and statement are the process list's,
/// frames those of its stack where one was taken.
pub(crate) fn why_kill_does_nothing(state: &str, statement: &str, frames: &[String]) -> Option<&'static str> {
    match wait_class(state, frames) {
        Some(TimeClass::SemiSync) => return Some(AWAITS_REPLICA),
        Some(
            TimeClass::Galera
            | TimeClass::GroupReplication
            | TimeClass::Commit
            | TimeClass::CommitDelay
            | TimeClass::CommitOrder,
        ) => return Some(COMMITS),
        Some(TimeClass::Rollback) => return Some(ROLLS_BACK),
        // A COMMIT that waits for the lock of a backup gives up when it is killed.
        Some(TimeClass::GlobalLock | TimeClass::MetadataLock) => return None,
        _ => {}
    }
    let mut words = statement.split_ascii_whitespace().map(str::to_ascii_uppercase);
    match (words.next()?.trim_end_matches(';'), words.next().as_deref()) {
        ("COMMIT", _) | ("XA", Some("COMMIT" | "PREPARE")) => Some(COMMITS),
        // To a savepoint it is short, and its locks stay.
        ("ROLLBACK", _) | ("XA", Some("ROLLBACK")) => Some(ROLLS_BACK),
        // Who still waits for the table has not touched it.
        _ if rewrites_a_table(statement) && !waits_for_a_lock(state) => Some(DAMAGES),
        _ => None,
    }
}

/// True for a REPAIR or OPTIMIZE of a table, or by ALTER TABLE of its partitions.
fn rewrites_a_table(statement: &str) -> bool {
    const KINDS: [&str; 2] = ["REPAIR", "OPTIMIZE"];
    let kind = spindoctor_sql::kind(statement);
    if kind != "ALTER" {
        return KINDS.contains(&kind.as_str());
    }
    let names: Vec<String> = spindoctor_sql::names(statement).collect();
    names
        .windows(2)
        .any(|pair| matches!((pair[0].as_str(), pair[1].as_str()), ("repair" | "optimize", "partition")))
}

fn waits_for_a_lock(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    state == "locked" || state.starts_with("waiting for table ")
}

/// Prints a statement that ends each of the sessions that a SELECT finds.
pub(crate) const KILL_EACH: &str = "CONCAT('KILL ', ID, ';')";

/// One `KILL 12` or `KILL QUERY 13` in a text.
pub(crate) struct Kill {
    /// Where it stands, in bytes.
    pub(crate) at: Range<usize>,
    pub(crate) connection_id: u64,
    /// It ends the statement alone.
    pub(crate) is_of_query: bool,
}

/// All of these in a text, in their order: `KILL 12; KILL QUERY 13`. The word without a number is none.
pub(crate) fn kills(text: &str) -> Vec<Kill> {
    let kill = |(start, word): (usize, &str)| {
        let is_word = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let behind = &text[start + word.len()..];
        let number = behind.strip_prefix("QUERY ").unwrap_or(behind);
        let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let connection_id = number[..digits].parse::<u64>().ok().filter(|_| is_word)?;
        let end = text.len() - number.len() + digits;
        Some(Kill { at: start..end, connection_id, is_of_query: number.len() < behind.len() })
    };
    text.match_indices("KILL ").filter_map(kill).collect()
}

/// The connections that a statement ends, or whose statements it ends.
pub(crate) fn ended_by(statement: &str) -> Vec<u64> {
    kills(statement).into_iter().map(|kill| kill.connection_id).collect()
}

/// True where a KILL of that connection would end what it does, as the server's own lists show it.
pub(crate) fn frees(server: &ServerSample, connection_id: u64) -> bool {
    let thread = sessions::session(server, connection_id);
    let transaction = sessions::transaction(server, connection_id);
    let printed =
        server.innodb_status.value().into_iter().flat_map(|status| &status.transactions.transactions);
    let is_kept = thread.is_some_and(|thread| {
        thread.command == "Killed"
            || is_of_the_server(&thread.user, thread.statement.as_deref())
            || state_of_applier(thread).is_some()
            || (thread.is_at_work()
                && why_kill_does_nothing(&thread.state, thread.statement.as_deref().unwrap_or_default(), &[])
                    .is_some())
    });
    let ends_by_itself =
        transaction.is_some_and(|open| matches!(open.state.as_str(), "ROLLING BACK" | "COMMITTING"));
    let is_prepared = printed.into_iter().any(|t| t.is_prepared && t.connection_id == Some(connection_id));
    !is_kept && !ends_by_itself && !is_prepared
}

/// The same at the window's end, for a connection that a list of threads names.
pub(crate) fn frees_at_the_end(window: &Window, connection_id: u64) -> bool {
    let listed = window.samples.iter().rev().find(|sample| sample.server.threads.value().is_some());
    listed.is_none_or(|sample| frees(&sample.server, connection_id))
}

/// True where a list of sessions was read, and does not have that connection: it is gone, or the lists are of different moments.
pub(crate) fn is_unlisted(server: &ServerSample, connection_id: u64) -> bool {
    let is_whole = server.threads.value().is_some_and(|list| !list.is_empty()) && server.cut.is_empty();
    is_whole && sessions::session(server, connection_id).is_none()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spindoctor_model::{InnodbStatus, Reading};

    use super::*;
    use crate::causes::{monitoring_overload, query_cache_contention, table_lock_pileup};
    use crate::testing::{answer, session, transaction};

    #[test]
    fn no_kill_shortens_what_ends_by_itself() {
        for (state, statement, why) in [
            ("Waiting for semi-sync ACK from replica", "COMMIT", AWAITS_REPLICA),
            ("Waiting for semi-sync ACK from slave", "INSERT INTO t VALUES (1)", AWAITS_REPLICA),
            ("waiting for handler commit", "UPDATE t SET a = 1", COMMITS),
            ("Waiting for prior transaction to commit", "COMMIT", COMMITS),
            ("wsrep: replicating and certifying write set", "COMMIT", COMMITS),
            ("starting", "commit", COMMITS),
            ("starting", "xa  commit 'a'", COMMITS),
            ("Rolling back", "INSERT INTO t SELECT * FROM s", ROLLS_BACK),
            ("", "ROLLBACK;", ROLLS_BACK),
            ("starting", "XA ROLLBACK 'a'", ROLLS_BACK),
            ("Repair by sorting", "REPAIR TABLE hits", DAMAGES),
            ("", "/* nightly */ optimize local table hits", DAMAGES),
            ("copy to tmp table", "ALTER TABLE hits REPAIR PARTITION p1", DAMAGES),
        ] {
            assert_eq!(why_kill_does_nothing(state, statement, &[]), Some(why), "{state}, {statement}");
        }
        for (state, statement) in [
            ("updating", "UPDATE t SET a = 1"),
            ("User sleep", "SELECT SLEEP(9)"),
            ("Waiting for commit lock", "COMMIT"),
            ("Waiting for table metadata lock", "ALTER TABLE t ADD b INT"),
            ("Waiting for table metadata lock", "OPTIMIZE TABLE t"),
            ("Waiting for table level lock", "REPAIR TABLE t"),
            ("Checking table", "CHECK TABLE t"),
            ("altering table", "ALTER TABLE t ADD COLUMN repair INT"),
            ("", ""),
        ] {
            assert_eq!(why_kill_does_nothing(state, statement, &[]), None, "{state}, {statement}");
        }
    }

    #[test]
    fn the_stack_says_it_where_the_list_has_no_word() {
        let of = |frames: &[&str]| {
            let frames: Vec<String> = frames.iter().map(|&frame| frame.to_owned()).collect();
            why_kill_does_nothing("executing", "INSERT INTO t VALUES (1)", &frames)
        };
        assert_eq!(of(&["fsync", "MYSQL_BIN_LOG::ordered_commit", "dispatch_command"]), Some(COMMITS));
        assert_eq!(
            of(&["ReplSemiSyncMaster::commitTrx", "MYSQL_BIN_LOG::ordered_commit"]),
            Some(AWAITS_REPLICA)
        );
        // The group agrees on it; the plugin's own functions have no names.
        assert_eq!(of(&["group_replication.so+0x1704f1", "Trans_delegate::before_commit"]), Some(COMMITS));
        assert_eq!(of(&["row_undo", "trx_rollback_for_mysql"]), Some(ROLLS_BACK));
        // A commit that a backup's lock holds back.
        assert_eq!(of(&["MDL_context::acquire_lock", "ha_commit_trans", "dispatch_command"]), None);
        assert_eq!(of(&["row_search_mvcc", "dispatch_command"]), None);
    }

    #[test]
    fn lists_show_whom_a_kill_frees() {
        let of = |thread: ServerThread, state: &str, is_prepared: bool| {
            let mut status = InnodbStatus::default();
            status.transactions.transactions.push(spindoctor_model::innodb_status::ListedTransaction {
                connection_id: Some(7),
                is_prepared,
                ..Default::default()
            });
            let server = ServerSample {
                threads: answer(0.0, vec![thread]),
                transactions: answer(0.0, vec![transaction(7, state, 5.0)]),
                innodb_status: answer(0.0, status),
                ..ServerSample::default()
            };
            frees(&server, 7)
        };
        let idle = || session(7, "Sleep", "", "");
        let works = || session(7, "Query", "updating", "UPDATE t SET a = 1");
        assert!(of(idle(), "RUNNING", false) && of(works(), "LOCK WAIT", false));
        assert!(!of(idle(), "RUNNING", true), "prepared by XA");
        assert!(!of(idle(), "ROLLING BACK", false) && !of(works(), "COMMITTING", false));
        assert!(!of(
            session(7, "Query", "Waiting for semi-sync ACK from replica", "COMMIT"),
            "RUNNING",
            false
        ));
        assert!(!of(session(7, "Killed", "updating", "UPDATE t SET a = 1"), "RUNNING", false));
        assert!(!of(ServerThread { user: "system user".into(), ..works() }, "RUNNING", false));
        assert!(!of(ServerThread { is_connection: false, ..works() }, "RUNNING", false), "an applier");
        // Who writes the rows of INSERT DELAYED, as MariaDB lists it, is no applier, and is left alone, too.
        let delayed = session(7, "Delayed insert", "Waiting for INSERT", "");
        let delayed = ServerThread { user: "DELAYED".into(), is_connection: false, ..delayed };
        assert!(state_of_applier(&delayed).is_none() && !of(delayed, "RUNNING", false));
        let applies = "Applying batch of row changes (update)";
        assert!(!of(session(7, "Query", applies, ""), "RUNNING", false));
        assert!(of(session(7, "Query", applies, "BINLOG 'x'"), "RUNNING", false), "a client replays a log");
        // The event scheduler waits for the next job; a job of it that sleeps with its rows locked is a statement like any other.
        let scheduler = |thread| ServerThread { user: "event_scheduler".into(), ..thread };
        assert!(!of(scheduler(session(7, "Daemon", "Waiting on empty queue", "")), "RUNNING", false));
        let job = scheduler(session(7, "Connect", "User sleep", "DO SLEEP(60)"));
        assert!(of(ServerThread { is_connection: false, ..job }, "RUNNING", false));
        // A connection that no list has may be what a KILL frees.
        assert!(frees(&ServerSample::default(), 7));
    }

    /// The connections that remedies of the window's findings would end.
    fn killed(window: &Window) -> BTreeSet<u64> {
        let findings = crate::diagnose(window).findings;
        let statements =
            findings.iter().flat_map(|finding| &finding.remedies).map(|remedy| &remedy.statement);
        statements.flat_map(|statement| ended_by(statement)).collect()
    }

    #[test]
    fn no_finding_kills_what_no_kill_ends() {
        let of_causes = crate::CAUSES.iter().map(|cause| (cause.examples.fires)());
        let windows: Vec<Window> = of_causes
            .chain([table_lock_pileup::examples::behind_a_scan(), monitoring_overload::examples::stuck()])
            .chain([query_cache_contention::examples::tidied()])
            .filter(|window| !killed(window).is_empty())
            .collect();
        // Locks of rows, names, tables and the server; an old transaction; and three jobs that others wait for.
        assert!(windows.len() >= 8, "{}", windows.len());
        let at_work = |thread: &mut ServerThread, state: &str| {
            thread.command = "Query".into();
            thread.state = state.into();
        };
        let ways: &[&dyn Fn(&mut ServerThread)] = &[
            &|thread| thread.command = "Killed".into(),
            &|thread| thread.user = "system user".into(),
            // An applier as performance_schema.threads has it: with the user `root` (MySQL 9.7.4).
            &|thread| thread.is_connection = false,
            &|thread| at_work(thread, "Waiting for semi-sync ACK from replica"),
            &|thread| at_work(thread, "waiting for handler commit"),
            &|thread| at_work(thread, "Rolling back"),
        ];
        for (at, way) in ways.iter().enumerate() {
            for window in &windows {
                let mut kept = window.clone();
                let ids = killed(window);
                for sample in &mut kept.samples {
                    let Reading::Available { value: threads, .. } = &mut sample.server.threads else {
                        continue;
                    };
                    let named =
                        |thread: &&mut ServerThread| thread.connection_id.is_some_and(|id| ids.contains(&id));
                    threads.iter_mut().filter(named).for_each(way);
                }
                let again = killed(&kept);
                assert!(
                    again.is_disjoint(&ids),
                    "way {at}: KILL of {again:?}: {:#?}",
                    crate::diagnose(&kept).findings
                );
            }
        }
    }
}
