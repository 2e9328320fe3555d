//! What a list that somebody captured shows of sessions for which it has no word.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Remedy, Window, number};

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
    let (statement, all) = most_run(window)?;
    let is_read = |thread: &&ServerThread| {
        let kind = spindoctor_sql::kind(thread.statement.as_deref().unwrap_or_default());
        ["SELECT", "WITH"].contains(&kind.as_str())
    };
    if all.len() < SAME || !all.iter().all(is_read) {
        return None;
    }
    let oldest = all.iter().max_by(|one, other| one.time_s.total_cmp(&other.time_s));
    let id = oldest.and_then(|thread| thread.connection_id);
    let typed = format!("EXPLAIN, and the statement with its values: {statement}");
    let version = window.server.version;
    let statement = match (id, version) {
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
            "{} sessions run it. A large `rows`, `type` ALL, or \"Using temporary; Using filesort\" says that it reads more than it has \
             to: an index for its WHERE and ORDER BY is then what ends the queue.",
            all.len()
        ),
        dynamic: true,
        risk: "It only reads, and while the statement runs.".into(),
        undo: String::new(),
    })
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
