//! What a list that somebody captured shows of sessions for which it has no word.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Finding, Remedy, Window, number};

use super::CAUSE;
use crate::draft::Draft;
use crate::rank::NOTE;
use crate::sessions::{at_work, shortened};

/// Connections that are named.
const SHOWN: usize = 5;

/// True of a list that was captured in which each statement has just begun: a busy server looks so, too. A list without times says
/// nothing of it.
pub(super) fn nobody_has_lasted(window: &Window) -> bool {
    let lists = window.all(|sample| &sample.server.threads);
    let has_times = lists.iter().flat_map(|(_, threads)| threads.iter()).any(|thread| thread.time_s > 0.0);
    has_times && lists.iter().flat_map(|(_, threads)| at_work(threads)).all(|thread| thread.time_s < 1.0)
}

/// The statement that most of the sessions at work run in a list that was captured, with those that run it.
fn most_run(window: &Window) -> Option<(String, Vec<&ServerThread>)> {
    let threads = window.latest(|sample| &sample.server.threads).filter(|_| window.is_given())?;
    let mut by_statement: BTreeMap<String, Vec<&ServerThread>> = BTreeMap::new();
    for thread in at_work(threads) {
        if let Some(statement) = &thread.statement {
            by_statement.entry(shortened(statement)).or_default().push(thread);
        }
    }
    by_statement.into_iter().max_by(|(_, one), (_, other)| {
        one.len().cmp(&other.len()).then(longest_s(one).total_cmp(&longest_s(other)))
    })
}

fn longest_s(threads: &[&ServerThread]) -> f64 {
    threads.iter().map(|thread| thread.time_s).fold(0.0, f64::max)
}

/// Sessions that run one statement, from which on its plan is the first thing to look at: one says little of the server.
const SAME: usize = 2;

/// The plan of the statement that most of the sessions run, where it reads: a list has one word for all that it does.
pub(super) fn explain(window: &Window) -> Option<Remedy> {
    let (_, all) = most_run(window)?;
    if all.len() < SAME || !all.iter().all(|thread| reads(thread)) {
        return None;
    }
    let oldest = all.iter().max_by(|one, other| one.time_s.total_cmp(&other.time_s))?;
    plan(window, oldest, &format!("{} sessions run it.", all.len()), "ends the queue")
}

fn reads(thread: &ServerThread) -> bool {
    let kind = spindoctor_sql::kind(thread.statement.as_deref().unwrap_or_default());
    ["SELECT", "WITH"].contains(&kind.as_str())
}

/// The plan of what a session runs, where it reads: who runs it, and what an index does for them.
fn plan(window: &Window, thread: &ServerThread, who: &str, index: &str) -> Option<Remedy> {
    let statement = shortened(thread.statement.as_deref().filter(|_| reads(thread))?);
    let typed = format!("EXPLAIN, and the statement with its values: {statement}");
    let statement = match (thread.connection_id, window.server.version) {
        (None, _) => typed,
        (Some(id), None) => format!(
            "EXPLAIN FOR CONNECTION {id} (from MySQL 5.7 and MariaDB 10.9 on; before, EXPLAIN and the statement with its values)"
        ),
        (Some(id), Some(version)) if version.is_mariadb() && !version.mariadb_at_least(10, 9, 0) => {
            format!("SHOW EXPLAIN FOR {id}")
        }
        (Some(_), Some(version)) if !version.is_mariadb() && !version.mysql_at_least(5, 7, 0) => typed,
        (Some(id), Some(_)) => format!("EXPLAIN FOR CONNECTION {id}"),
    };
    Some(Remedy {
        statement,
        why: format!(
            "{who} A large `rows`, `type` ALL, or \"Using temporary; Using filesort\" says that it reads more than it has \
             to: an index for its WHERE and ORDER BY is then what {index}."
        ),
        dynamic: true,
        risk: "It only reads, and while the statement runs.".into(),
        undo: String::new(),
    })
}

/// From here on a statement has lasted, seconds: six times what the server itself calls slow (long_query_time, 10 s by default).
const LASTS_S: f64 = 60.0;

/// The only session that is at work in a list that was captured, where it has been for long.
fn alone(window: &Window) -> Option<&ServerThread> {
    let threads = window.latest(|sample| &sample.server.threads).filter(|_| window.is_given())?;
    let mut all = at_work(threads);
    all.next().filter(|_| all.next().is_none()).filter(|one| one.time_s >= LASTS_S)
}

/// One statement that is at work alone in a list that was captured, and has been for long: nobody waits for it, and it may be why
/// somebody looked. How long it may take nothing says, so it is a note.
pub(super) fn of_one(window: &Window) -> Option<Finding> {
    let one = alone(window)?;
    let who = one.connection_id.map_or_else(|| "One session".to_owned(), |id| format!("Connection {id}"));
    let user = if one.user.is_empty() { String::new() } else { format!(" ({})", one.user) };
    let statement =
        one.statement.as_deref().map_or_else(|| "its statement is not listed".to_owned(), shortened);
    let state = if one.state.is_empty() { "(no word for it)" } else { &one.state };
    let lasts = number::duration(one.time_s);
    let source = "thread list";
    Some(
        Draft::new(&CAUSE, NOTE, format!("{who}{user} alone is at work, for {lasts}: {statement}"))
            .why(
                "Nobody waits for it in what was given. A report, a backup or a change of a large table takes as long; a statement that \
                 reads more than it has to, or waits for a disk, looks the same in a list.",
            )
            .evidence(Evidence::new("at work for", one.time_s, "s", source).expected(format!("< {LASTS_S:.0}")))
            .evidence(Evidence::new("its state", state, "", source))
            .evidence_if((!one.schema.is_empty()).then(|| Evidence::new("its schema", one.schema.as_str(), "", source)))
            .remedy_if(plan(window, one, "It runs alone.", "shortens it"))
            .remedy(Remedy {
                statement: "SHOW FULL PROCESSLIST\\G; SHOW ENGINE INNODB STATUS\\G; SHOW GLOBAL STATUS LIKE 'Handler%', all twice, ten \
                            seconds apart; gdb -p PID -batch -ex 'thread apply all bt'"
                    .into(),
                why: "While it lasts: rows read, and undo log entries of its transaction, that grow say that it goes on; the stack of its \
                      thread says where it stands."
                    .into(),
                dynamic: true,
                risk: "The statements only read; the server is stopped while gdb reads, for seconds.".into(),
                undo: String::new(),
            })
            .finding(),
    )
}

/// The statement that most of the sessions at work run in a list that was captured: how many, for how long, and the connections.
pub(super) fn commonest(window: &Window) -> Option<Evidence> {
    let (statement, all) = most_run(window)?;
    let ids: Vec<String> =
        all.iter().filter_map(|thread| thread.connection_id).take(SHOWN).map(|id| id.to_string()).collect();
    let more = if all.len() > ids.len() { " and more" } else { "" };
    let who = match (ids.is_empty(), all.len()) {
        // Some lists come without them.
        (true, _) => String::new(),
        (false, 1) => format!(" (connection {})", ids[0]),
        (false, _) => format!(" (connections {}{more})", ids.join(", ")),
    };
    let lasts = match longest_s(&all) {
        longest_s if longest_s > 0.0 => format!(", for up to {}", number::duration(longest_s)),
        // Some come without times, too.
        _ => String::new(),
    };
    let run = if all.len() == 1 { "1 runs".to_owned() } else { format!("{} run", all.len()) };
    let text = format!("{run} {statement}{lasts}{who}");
    Some(Evidence::new("the commonest statement", text, "", "thread list"))
}
