//! What a list that somebody captured shows of sessions for which it has no word.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Window, number};

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

/// The statement that most of the sessions at work run in a list that was captured: how many, for how long, and the connections.
pub(super) fn commonest(window: &Window) -> Option<Evidence> {
    let threads = window.latest(|sample| &sample.server.threads).filter(|_| window.is_given())?;
    let mut by_statement: BTreeMap<String, Vec<&ServerThread>> = BTreeMap::new();
    for thread in at_work(threads) {
        if let Some(statement) = &thread.statement {
            by_statement.entry(shortened(statement)).or_default().push(thread);
        }
    }
    let longest_s = |all: &[&ServerThread]| all.iter().map(|thread| thread.time_s).fold(0.0, f64::max);
    let (statement, all) = by_statement.into_iter().max_by(|(_, one), (_, other)| {
        one.len().cmp(&other.len()).then(longest_s(one).total_cmp(&longest_s(other)))
    })?;
    let ids: Vec<String> =
        all.iter().filter_map(|thread| thread.connection_id).take(SHOWN).map(|id| id.to_string()).collect();
    let more = if all.len() > ids.len() { " and more" } else { "" };
    let text = format!(
        "{} {statement}, for up to {} (connection{} {}{more})",
        if all.len() == 1 { "1 runs".to_owned() } else { format!("{} run", all.len()) },
        number::duration(longest_s(&all)),
        if all.len() == 1 { "" } else { "s" },
        ids.join(", ")
    );
    Some(Evidence::new("the commonest statement", text, "", "thread list"))
}
