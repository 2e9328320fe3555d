//! The last deadlock and the last foreign key error that InnoDB's status prints, in a sentence each. They may be days old: no cause
//! rests on them.

use spindoctor_model::innodb_status::{ListedTransaction, PrintedEvent};
use spindoctor_model::mysql::Transaction;
use spindoctor_model::{InnodbStatus, number, printed_deadlock};

use spindoctor_rules::deadlock::{Deadlock, statements};

/// Characters of a constraint that are shown.
const SHOWN: usize = 160;
/// Transactions of one event that are shown.
const MOST: usize = 3;

/// A transaction that changed rows is old from here on, seconds. By judgement: an application's are over within seconds, and ten
/// minutes of row versions are no load for the purge.
pub(crate) const OLD_S: f64 = 600.0;

/// A history list is long from here on: the manual's own example of a limit on it (innodb_max_purge_lag), as of the cause purge-lag.
const LONG_HISTORY: u64 = 1_000_000;

/// What a status says of the past.
pub(crate) fn sentences(status: &InnodbStatus) -> Vec<String> {
    let deadlock = status.latest_deadlock.iter().flat_map(|event| {
        let read = Deadlock::from_printed(event);
        // A deadlock has two transactions at least; that the second was not copied is said.
        let not_given = read.is_cut().then(|| "the second transaction is not in what was given".to_owned());
        std::iter::once(deadlock(event)).chain(waits(&read)).chain(not_given)
    });
    deadlock.chain(status.latest_foreign_key_error.as_ref().map(foreign_key)).collect()
}

/// The oldest of the transactions that changed rows, where it is old, and the one that is older still.
pub(crate) fn old_transaction(status: &InnodbStatus) -> Option<String> {
    let all = || status.transactions.transactions.iter().filter_map(|one| Some((one.active_s?, one)));
    let changed = all().filter(|(age_s, one)| *age_s > OLD_S && one.undo_entries.unwrap_or(0) > 0);
    let (age_s, one) = changed.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let connection = |one: &ListedTransaction| {
        one.connection_id.map_or_else(String::new, |id| format!(": connection {id}"))
    };
    let older = all().filter(|(older_s, _)| *older_s > age_s).max_by(|one, other| one.0.total_cmp(&other.0));
    let kept = match older {
        Some((older_s, older)) => format!(
            "; another one, without changes, has been open for {}{} (purge keeps the old versions of rows that it may still read)",
            number::duration(older_s),
            connection(older)
        ),
        None => " (purge keeps all old versions of rows since then)".to_owned(),
    };
    let open = number::duration(age_s);
    Some(format!("a transaction has been open for {open} and has changed rows{}{kept}", connection(one)))
}

/// The transaction that is rolled back and has the most changes left, where they are many: whether somebody waits for it, and for how long
/// it goes on, may stand elsewhere or nowhere.
pub(crate) fn rollback(transactions: &[Transaction]) -> Option<String> {
    /// Those of the victim of a deadlock, or of a statement that failed, are undone at once. Chosen, not derived.
    const MANY: u64 = 10_000;
    let undone = transactions.iter().filter(|one| one.state == "ROLLING BACK" && one.rows_modified >= MANY);
    let most = undone.max_by_key(|one| one.rows_modified)?;
    let whose = match most.connection_id {
        Some(id) => format!("the transaction of connection {id}"),
        None => "a transaction whose connection is gone".to_owned(),
    };
    Some(format!(
        "{whose} is rolled back: {} are left to undo, and it keeps its locks until then; neither KILL nor a restart makes it shorter",
        number::counted(most.rows_modified, "change", "changes")
    ))
}

/// The length of the history list, where it is long. Whether it grows, one status does not say.
pub(crate) fn long_history(status: &InnodbStatus) -> Option<String> {
    let length = status.transactions.history_list_length.filter(|length| *length >= LONG_HISTORY)?;
    let length = number::whole(length as f64);
    Some(format!(
        "the history list is {length} long: old versions of rows are not purged, because a transaction is open for long (the oldest of \
         information_schema.INNODB_TRX, on a replica, too) or purge is slower than the changes"
    ))
}

/// What each transaction of a deadlock waited for: the first lock below its heading that the text marks as waited for.
fn waits(deadlock: &Deadlock) -> Vec<String> {
    let wanted = deadlock.parties.iter().enumerate().filter_map(|(at, party)| {
        let lock = party.waited_for.as_ref()?;
        Some(format!("in it transaction ({}) waited for a lock on {}: {}", at + 1, lock.place(), lock.mode))
    });
    wanted.take(MOST).collect()
}

fn deadlock(event: &PrintedEvent) -> String {
    let victim = printed_deadlock::parse(&event.text).victim;
    let victim = victim.map_or_else(String::new, |victim| format!(", ({victim}) was rolled back"));
    format!("its last deadlock{}{}{victim}", at(event), between(&statements(&event.text)))
}

fn foreign_key(event: &PrintedEvent) -> String {
    let table = event.text.lines().find_map(|line| {
        let (_, rest) = line.split_once("Error in foreign key constraint of table ")?;
        Some(format!(", in the definition of {}", rest.trim().trim_end_matches(':').replace('`', "")))
    });
    let constraint = event.text.lines().find_map(constraint).map(|constraint| format!(": {constraint}"));
    let reason = refused(&event.text).map(|reason| format!("; the server says: {reason}"));
    let more: String = [table, constraint, reason].into_iter().flatten().collect();
    format!("its last foreign key error{}{}{more}", at(event), between(&statements(&event.text)))
}

/// The constraint that a line defines: behind its name, or where it has none from `FOREIGN KEY` on.
fn constraint(line: &str) -> Option<String> {
    const BEGINS: &str = "FOREIGN KEY";
    let line = line.trim();
    // `Foreign key constraint fails for table` defines none.
    let is_bare = line.get(..BEGINS.len()).is_some_and(|begins| begins.eq_ignore_ascii_case(BEGINS))
        && line[BEGINS.len()..].trim_start().starts_with(['(', '`']);
    let constraint = match line.split_once("CONSTRAINT ") {
        Some((_, rest)) => rest,
        None if is_bare => line,
        None => return None,
    };
    Some(constraint.trim_end_matches([',', ':']).chars().take(SHOWN).collect())
}

/// Why a constraint was refused, in the server's words (storage/innobase/dict/dict0dict.cc).
fn refused(text: &str) -> Option<String> {
    const BEGINS: [&str; 9] = [
        "Cannot find an index in the referenced table",
        "There is no index in ",
        "Cannot resolve table name",
        "Cannot resolve column name",
        "Syntax error",
        "You have defined a SET NULL condition",
        "You have more than one on update or on delete",
        "Referenced table ",
        "Field type or character set for column",
    ];
    /// Lines of such a sentence, and the characters of it that are shown.
    const LINES: usize = 4;
    const LONGEST: usize = 240;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (at, from) = lines
        .iter()
        .enumerate()
        .find_map(|(at, line)| Some((at, BEGINS.iter().find_map(|begins| line.find(begins))?)))?;
    let end = lines[at..].iter().take(LINES).position(|line| line.ends_with(['.', ':']));
    let mut end = at + end.unwrap_or_default();
    // `Cannot resolve table name close to:`, and what stands there below.
    end += usize::from(lines[end].ends_with("close to:") && end + 1 < lines.len());
    let sentence = lines[at..=end].join(" ");
    Some(sentence[from..].trim_end_matches(['.', ':']).chars().take(LONGEST).collect())
}

fn at(event: &PrintedEvent) -> String {
    // What stands behind the time is the thread: `2019-05-05 11:12:14 0x7f2a`.
    let time: Vec<&str> = event.time.split_whitespace().take(2).collect();
    if time.is_empty() { String::new() } else { format!(", at {}", time.join(" ")) }
}

fn between(statements: &[String]) -> String {
    if statements.is_empty() { String::new() } else { format!(", of {}", statements.join(" and ")) }
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
    fn what_each_transaction_of_a_deadlock_waited_for_is_said() {
        let first = "*** (1) TRANSACTION:\nTRANSACTION 81, ACTIVE 3 sec inserting\n*** WAITING FOR THIS LOCK TO BE GRANTED:\n\
                     RECORD LOCKS space id 24 page no 3 n bits 72 index PRIMARY of table `shop`.`stock` trx id 81 lock_mode X insert \
                     intention waiting\n*** CONFLICTING WITH:\n\
                     RECORD LOCKS space id 24 page no 3 n bits 72 index PRIMARY of table `shop`.`stock` trx id 82 lock mode S\n";
        let second = "*** (2) TRANSACTION:\nTRANSACTION 82, ACTIVE 3 sec\n*** (2) HOLDS THE LOCK(S):\n\
                      TABLE LOCK table `shop`.`a` trx id 82 lock mode IX\n*** (2) WAITING FOR THIS LOCK TO BE GRANTED:\n\
                      TABLE LOCK table `shop`.`a` trx id 82 lock mode AUTO-INC waiting\n";
        let one = "in it transaction (1) waited for a lock on shop.stock, index PRIMARY: X insert intention";
        let two = "in it transaction (2) waited for a lock on shop.a: AUTO-INC";
        let says = |text: String| {
            let event = PrintedEvent { time: String::new(), text, cut: false };
            sentences(&InnodbStatus { latest_deadlock: Some(event), ..InnodbStatus::default() })
        };
        assert_eq!(says(format!("{first}{second}"))[1..], [one, two]);
        assert_eq!(says(first.to_owned())[1..], [one, "the second transaction is not in what was given"]);
    }

    #[test]
    fn a_large_rollback_is_said_with_what_is_left_of_it() {
        let says = |does: &str, undo: u64| {
            let text = format!(
                "---TRANSACTION 81244411, ACTIVE 42 sec rollback\nmysql tables in use 1, locked 1\n\
                 {does}81231 lock struct(s), heap size 8123312, 4123122 row lock(s), undo log entries {undo}\n\
                 MySQL thread id 7714, OS thread handle 141, query id 80 10.0.0.8 app updating\nDELETE FROM a WHERE b < 9\n"
            );
            crate::recognise("x", &text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().concat()
        };
        let found = says("ROLLING BACK ", 3_123_122);
        assert!(
            found.contains("connection 7714 is rolled back: 3,123,122 changes are left to undo"),
            "{found}"
        );
        assert!(!says("ROLLING BACK ", 12).contains("rolled back"));
    }

    #[test]
    fn the_oldest_transaction_that_changed_rows_is_said() {
        let of = |id: u64, active_s: f64, undo: u64| ListedTransaction {
            connection_id: Some(id),
            active_s: Some(active_s),
            undo_entries: Some(undo),
            ..ListedTransaction::default()
        };
        let mut status = InnodbStatus::default();
        status.transactions.transactions = vec![of(4, 700.0, 1), of(5, 766_132.0, 1), of(6, 700_000.0, 0)];
        assert_eq!(
            old_transaction(&status).as_deref(),
            Some(
                "a transaction has been open for 8 days 20 h and has changed rows: connection 5 (purge keeps all old versions of rows \
                 since then)"
            )
        );
        status.transactions.transactions = vec![of(4, 700.0, 1), of(6, 93_884.0, 0)];
        assert_eq!(
            old_transaction(&status).as_deref(),
            Some(
                "a transaction has been open for 11 min 40 s and has changed rows: connection 4; another one, without changes, has been \
                 open for 26 h 4 min: connection 6 (purge keeps the old versions of rows that it may still read)"
            )
        );
        status.transactions.transactions = vec![of(4, 600.0, 1)];
        assert_eq!(old_transaction(&status), None);
    }

    #[test]
    fn a_long_history_list_is_said() {
        let mut status = InnodbStatus::default();
        status.transactions.history_list_length = Some(97_394_422);
        let said = long_history(&status).unwrap();
        assert!(said.starts_with("the history list is 97,394,422 long: "), "{said}");
        status.transactions.history_list_length = Some(37);
        assert_eq!(long_history(&status), None);
    }

    #[test]
    fn why_a_constraint_was_refused_is_said() {
        let says = |below: &str| {
            let text = format!("Error in foreign key constraint of table `shop`.`line`:\n{below}");
            let event = PrintedEvent { time: "2019-05-05 11:12:14".into(), text, cut: false };
            sentences(&InnodbStatus { latest_foreign_key_error: Some(event), ..InnodbStatus::default() })
        };
        let start = "its last foreign key error, at 2019-05-05 11:12:14, in the definition of shop.line: ";
        let key = "FOREIGN KEY(part) REFERENCES part (id)";
        assert_eq!(
            says(&format!(
                "{key},\n  KEY a (a)\n):\nCannot find an index in the referenced table where the\nreferenced columns appear as the \
                 first columns.\nNote that the type of ENUM changed.\n"
            )),
            [format!(
                "{start}{key}; the server says: Cannot find an index in the referenced table where the referenced columns appear as the \
                 first columns"
            )]
        );
        assert_eq!(
            says(&format!("{key}:\nCannot resolve table name close to:\n(`id`)\n")),
            [format!("{start}{key}; the server says: Cannot resolve table name close to: (`id`)")]
        );
        let alter = "Alter  table `shop`.`line` with foreign key constraint failed. Referenced table `shop`.`part` not found in the data \
                     dictionary near 'x'.\n";
        let said = &says(alter)[0];
        assert!(
            said.ends_with(
                "; the server says: Referenced table `shop`.`part` not found in the data dictionary near 'x'"
            ),
            "{said}"
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
