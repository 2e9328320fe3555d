//! What a person wrote beside the lists that somebody pasted, and that belongs to them: that a statement was killed and rolls back.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::number;

use crate::part::{Kind, Part, Said};

/// Bytes of a line that are looked at.
const LONGEST: usize = 4_000;

/// What there is to do about a rollback.
const WAIT: &str = "Wait for it: it takes about as long as the changes did. Neither a second KILL nor kill -9 and a restart makes it shorter: crash \
                    recovery goes on with the same rollback, and the locks stay";

/// Says beside the transactions that one of them is being rolled back, where the text says so and the list, which is older, does not.
pub(crate) fn say(parts: &mut [Part], text: &str) {
    if !text.lines().filter(|line| line.len() <= LONGEST).any(says_rollback) || knows_rollback(parts) {
        return;
    }
    let changed = transactions(parts).map(|open| open.rows_modified).max().filter(|&rows| rows > 0);
    let is_of_transactions =
        |part: &&mut Part| matches!(part.kind, Kind::Transactions | Kind::InnodbStatus | Kind::ProcessList);
    if let Some(part) = parts.iter_mut().find(is_of_transactions) {
        let changed = changed.map_or_else(String::new, |rows| {
            format!(
                " ({} in the list, which is of before)",
                number::counted(rows, "changed row", "changed rows")
            )
        });
        part.says
            .push(format!("the text beside it says that a killed statement is rolled back{changed}. {WAIT}"));
    }
}

/// `I killed it and now it says Command: Killed State: query end / rolling back`
fn says_rollback(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.contains("kill")
        && ["rolling back", "rollback", "rolls back"].iter().any(|words| line.contains(words))
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
