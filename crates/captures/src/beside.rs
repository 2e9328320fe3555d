//! What a person wrote beside the lists that somebody pasted, and that belongs to them: that a statement was killed and rolls
//! back, how many connections are allowed.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::number;

use crate::part::{Kind, Part, Said};

/// Bytes of a line that are looked at.
const LONGEST: usize = 4_000;

/// What there is to do about a rollback.
const WAIT: &str = "Wait for it: it takes about as long as the changes did. Neither a second KILL nor kill -9 and a restart makes it shorter: crash \
                    recovery goes on with the same rollback, and the locks stay";

/// Says beside the transactions that one of them is being rolled back, where the text says so and the list, which is older, does not.
pub(crate) fn say_rollback(parts: &mut [Part], text: &str) {
    let is_of_transactions =
        |part: &Part| matches!(part.kind, Kind::Transactions | Kind::InnodbStatus | Kind::ProcessList);
    let Some(at) = parts.iter().position(is_of_transactions) else { return };
    if knows_rollback(parts) || !text.lines().any(says_rollback) {
        return;
    }
    let changed = transactions(parts).map(|open| open.rows_modified).max().filter(|&rows| rows > 0);
    let changed = changed.map_or_else(String::new, |rows| {
        let rows = number::counted(rows, "changed row", "changed rows");
        format!(" ({rows} in the list, which is of before)")
    });
    parts[at]
        .says
        .push(format!("the text beside it says that a killed statement is rolled back{changed}. {WAIT}"));
}

/// Connections that are open of those that are allowed, from which on they are taken.
const TAKEN: f64 = 0.95;
/// Of the connections that are open those at work, up to which the others keep their places for nothing. By judgement.
const AT_WORK: f64 = 0.1;

/// Says that connections which rest keep all places, where a status has how many are open, and the text beside it their limit.
pub(crate) fn say_connections(parts: &mut [Part], text: &str) {
    let Some(part) = parts.iter_mut().find(|part| part.kind == Kind::GlobalStatus) else { return };
    let last = part.moments.iter().rev().flat_map(|moment| &moment.said);
    let last =
        last.filter_map(|said| if let Said::Status(values) = said { Some(values) } else { None }).next();
    let both = last
        .and_then(|values| Some((values.number("threads_connected")?, values.number("threads_running")?)));
    let Some((connected, running)) = both else { return };
    let Some(limit) = number_behind(text, "max_connections").filter(|&limit| limit > 0.0) else { return };
    if connected < TAKEN * limit || running > AT_WORK * connected {
        return;
    }
    let after = number_behind(text, "wait_timeout")
        .map_or_else(String::new, |s| format!(" (now {})", number::duration(s)));
    part.says.push(format!(
        "{connected:.0} connections are open and max_connections is {limit:.0}; {running:.0} are at work, the others rest and keep their places. \
         Smaller pools of the clients, or a shorter wait_timeout{after}, give them back; a larger max_connections helps until as many more rest"
    ));
}

/// The number behind a variable's name in a text, on its line or, where somebody asked for it, on one of the two below:
/// `max_connections 151`, `wait_timeout = 28800`, `lee: wait_timeout?` and `kim: 28800`.
fn number_behind(text: &str, name: &str) -> Option<f64> {
    const BELOW: usize = 2;
    let number = |line: &str| -> Option<f64> {
        let words = line.split(|c: char| c.is_whitespace() || ['=', '|', ':', '\'', '?', ','].contains(&c));
        words.filter(|word| !word.is_empty()).find_map(|word| word.parse::<u32>().ok()).map(f64::from)
    };
    let lines: Vec<&str> = text.lines().filter(|line| line.len() <= LONGEST).collect();
    let behind = |line: &&str| {
        let (before, rest) = line.split_once(name)?;
        let is_whole = !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        number(rest).filter(|_| is_whole)
    };
    let asked = || {
        let at = lines.iter().position(|line| line.contains(name) && line.trim_end().ends_with('?'))?;
        lines[at + 1..]
            .iter()
            .take(BELOW)
            .find_map(|line| number(line.rsplit_once(": ").map_or(*line, |(_, said)| said)))
    };
    lines.iter().find_map(behind).or_else(asked)
}

/// `I killed it and now it says Command: Killed State: query end / rolling back`
fn says_rollback(line: &str) -> bool {
    let has = |line: &str| line.contains("killed") && line.contains("rolling back");
    line.len() <= LONGEST && line.contains("illed") && has(&line.to_ascii_lowercase())
}

fn transactions(parts: &[Part]) -> impl Iterator<Item = &Transaction> {
    let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
    let lists = said.filter_map(|said| if let Said::Transactions(list) = said { Some(list) } else { None });
    lists.flatten()
}

/// True where a list says it itself.
fn knows_rollback(parts: &[Part]) -> bool {
    transactions(parts).any(|open| open.state.eq_ignore_ascii_case("ROLLING BACK"))
}

#[cfg(test)]
mod tests {
    use crate::recognise;

    #[test]
    fn connections_that_rest_are_said_where_the_limit_stands_beside_the_status() {
        let says = |running: u32, limit: &str| {
            let text = format!(
                "[10:01] ann: show status like 'Threads%';\nThreads_cached 0\nThreads_connected 300\nThreads_created 9122\nThreads_running {running}\n\
                 [10:02] ann: max_connections {limit}\n[10:03] bob: wait_timeout?\n[10:03] ann: 28800\n"
            );
            recognise("x", &text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
        };
        let said = says(4, "300");
        assert!(
            said.contains("max_connections is 300; 4 are at work")
                && said.contains("wait_timeout (now 8 h 0 min)"),
            "{said}"
        );
        assert!(!says(280, "300").contains("keep their places"));
        assert!(!says(4, "3000").contains("keep their places"));
    }

    #[test]
    fn a_rollback_that_a_person_writes_of_is_said_beside_the_transactions() {
        let list = "---TRANSACTION 7712, ACTIVE 9000 sec updating or deleting\n\
                    812 lock struct(s), heap size 8122, 90000 row lock(s), undo log entries 90000\n";
        let says = |beside: &str| {
            let parts = recognise("x", &format!("{list}\n\n{beside}\n"));
            parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
        };
        let killed =
            says("Update: we killed the query, and since then it is rolling back. May I restart the server?");
        assert!(
            killed.contains("90,000 changed rows") && killed.contains("crash recovery goes on"),
            "{killed}"
        );
        assert!(!says("Update: it is still running.").contains("rolled back"));
    }
}
