//! The last deadlock and the last foreign key error that InnoDB's status prints, in a sentence each. They may be days old: no cause
//! rests on them.

use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::PrintedEvent;

/// Characters of a statement that are shown.
const SHOWN: usize = 160;
/// Statements of one event that are shown.
const MOST: usize = 3;

/// What a status says of the past.
pub(crate) fn sentences(status: &InnodbStatus) -> Vec<String> {
    let deadlock = status.latest_deadlock.as_ref().map(deadlock);
    deadlock.into_iter().chain(status.latest_foreign_key_error.as_ref().map(foreign_key)).collect()
}

fn deadlock(event: &PrintedEvent) -> String {
    let victim =
        event.text.lines().find_map(|line| line.trim().strip_prefix("*** WE ROLL BACK TRANSACTION "));
    let victim = victim.map_or_else(String::new, |victim| format!(", {victim} was rolled back"));
    format!("its last deadlock{}{}{victim}", at(event), between(&statements(&event.text)))
}

fn foreign_key(event: &PrintedEvent) -> String {
    let constraint = event.text.lines().find_map(|line| {
        let (_, rest) = line.split_once("CONSTRAINT ")?;
        Some(rest.trim_end_matches(',').chars().take(SHOWN).collect::<String>())
    });
    let constraint = constraint.map_or_else(String::new, |constraint| format!(": {constraint}"));
    format!("its last foreign key error{}{}{constraint}", at(event), between(&statements(&event.text)))
}

fn at(event: &PrintedEvent) -> String {
    // What stands behind the time is the thread: `2019-05-05 11:12:14 0x7f2a`.
    let time: Vec<&str> = event.time.split_whitespace().take(2).collect();
    if time.is_empty() { String::new() } else { format!(", at {}", time.join(" ")) }
}

fn between(statements: &[String]) -> String {
    if statements.is_empty() { String::new() } else { format!(", of {}", statements.join(" and ")) }
}

/// The statements below the lines of their connections, without literals.
fn statements(text: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().chain(["*** "]) {
        let is_end = line.trim().is_empty()
            || ["*** ", "RECORD LOCKS ", "TABLE LOCK ", "Foreign key constraint ", "Trx "]
                .iter()
                .any(|begins| line.starts_with(begins));
        if is_end {
            let whole = open.take().filter(|statement| !statement.trim().is_empty());
            statements
                .extend(whole.map(|whole| {
                    spindoctor_sql::shape(whole.trim()).chars().take(SHOWN).collect::<String>()
                }));
        } else if line.contains("thread id ") && line.contains(" query id ") {
            open = Some(String::new());
        } else if let Some(statement) = &mut open {
            statement.push_str(line);
            statement.push('\n');
        }
    }
    statements.truncate(MOST);
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_statements_of_a_deadlock_and_its_victim_are_said_without_literals() {
        let one = |id: u32| {
            format!(
                "*** ({id}) TRANSACTION:\nTRANSACTION 8{id}, ACTIVE 3 sec starting index read\nmysql tables in use 1, locked 1\n\
                 MySQL thread id {id}, OS thread handle 14, query id 9 10.0.0.4 web updating\nUPDATE stock\nSET n = 'secret' WHERE id = {id}\n\
                 *** ({id}) WAITING FOR THIS LOCK TO BE GRANTED:\nRECORD LOCKS space id 24 page no 3\n"
            )
        };
        let text = format!("{}{}*** WE ROLL BACK TRANSACTION (2)\n", one(1), one(2));
        let event = PrintedEvent { time: "2019-05-05 11:12:14 0x7f2a".into(), text, cut: false };
        let status = InnodbStatus { latest_deadlock: Some(event), ..InnodbStatus::default() };
        assert_eq!(
            sentences(&status),
            [
                "its last deadlock, at 2019-05-05 11:12:14, of UPDATE stock SET n = ? WHERE id = ? and UPDATE stock SET n = ? WHERE \
                 id = ?, (2) was rolled back"
            ]
        );
    }

    #[test]
    fn the_constraint_of_a_foreign_key_error_is_said() {
        let text = "TRANSACTION 551, ACTIVE 0 sec inserting\nMySQL thread id 91, OS thread handle 13, query id 8 localhost root update\n\
                    INSERT INTO child VALUES (1, 99)\nForeign key constraint fails for table `t`.`child`:\n,\n  \
                    CONSTRAINT `child_1` FOREIGN KEY (`parent_id`) REFERENCES `parent` (`id`)\n";
        let event = PrintedEvent { time: String::new(), text: text.into(), cut: false };
        let status = InnodbStatus { latest_foreign_key_error: Some(event), ..InnodbStatus::default() };
        let said = &sentences(&status)[0];
        assert!(said.starts_with("its last foreign key error, of INSERT INTO child VALUES (?"), "{said}");
        assert!(said.ends_with(": `child_1` FOREIGN KEY (`parent_id`) REFERENCES `parent` (`id`)"), "{said}");
    }
}
