//! A deadlock as InnoDB prints it, taken apart: who waited for which lock in which statement, and who was rolled back.

use std::fmt;

use jiff::civil::DateTime;
use spindoctor_model::innodb_status::PrintedEvent;

use crate::events::{numbered, statements};
use crate::{clock, status};

/// Transactions that are named: of a longer ring the others are counted.
const NAMED: usize = 3;

/// A deadlock. What the text does not say is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Deadlock {
    /// When, by the server's own clock, in whole seconds.
    pub at: Option<DateTime>,
    /// Its transactions, as they are numbered.
    pub parties: Vec<Party>,
}

/// A transaction of a deadlock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Party {
    /// Its connection.
    pub connection_id: Option<u64>,
    /// Its statement without literals, bounded.
    pub statement: Option<String>,
    /// What it waited for: `shop.stock, index PRIMARY`.
    pub waited_for: Option<String>,
    /// True where InnoDB rolled it back.
    pub is_victim: bool,
}

impl Deadlock {
    /// Of the section LATEST DETECTED DEADLOCK. A transaction begins with `*** (1) TRANSACTION:`; the locks that it holds and wants
    /// stand below lines with its number or with none (lock0lock.cc, Deadlock_notifier).
    pub fn from_printed(event: &PrintedEvent) -> Self {
        let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in event.text.lines() {
            match numbered(line) {
                Some(number) if blocks.last().is_none_or(|(last, _)| *last != number) => {
                    blocks.push((number, Vec::new()));
                }
                _ => {}
            }
            if let Some((_, lines)) = blocks.last_mut() {
                lines.push(line);
            }
        }
        let victim = event
            .text
            .lines()
            .find_map(|line| line.trim().strip_prefix("*** WE ROLL BACK TRANSACTION (")?.strip_suffix(')'));
        let party = |(number, lines): (&str, Vec<&str>)| Party {
            connection_id: lines.iter().find_map(|line| connection_id(line)),
            statement: statements(&lines.join("\n")).into_iter().next(),
            waited_for: lines.iter().find_map(|line| waited_for(line)),
            is_victim: victim == Some(number),
        };
        Self { at: clock::time(&event.time), parties: blocks.into_iter().map(party).collect() }
    }
}

/// `MySQL thread id 12, OS thread handle 140041065064128, query id 17 localhost root updating`; MariaDB has its own name there.
fn connection_id(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" thread id ").filter(|(_, rest)| rest.contains("query id "))?;
    rest.split_once(',')?.0.trim().parse().ok()
}

fn waited_for(line: &str) -> Option<String> {
    let (lock, true) = status::lock(line)? else { return None };
    Some(match lock.index.as_str() {
        "" => lock.table,
        index => format!("{}, index {index}", lock.table),
    })
}

/// `connection 12 (UPDATE stock SET n = ?) waited for shop.stock, index PRIMARY; connection 11 (...) was rolled back`
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, party) in self.parties.iter().take(NAMED).enumerate() {
            if place > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{party}")?;
        }
        match self.parties.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "; {more} more"),
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.connection_id {
            Some(id) => write!(f, "connection {id}")?,
            None => f.write_str("a transaction")?,
        }
        if let Some(statement) = &self.statement {
            write!(f, " ({statement})")?;
        }
        match (&self.waited_for, self.is_victim) {
            (Some(lock), false) => write!(f, " waited for {lock}"),
            (Some(lock), true) => write!(f, " waited for {lock} and was rolled back"),
            (None, true) => f.write_str(" was rolled back"),
            (None, false) => f.write_str(" was in it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As MySQL 9.7 prints it, shortened.
    const MYSQL: &str = "*** (1) TRANSACTION:
TRANSACTION 1575, ACTIVE 0 sec starting index read
mysql tables in use 1, locked 1
MySQL thread id 12, OS thread handle 140041065064128, query id 17 localhost root updating
update t set v = 5
  where name = 'alice@example.com'

*** (1) HOLDS THE LOCK(S):
RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `d`.`t` trx id 1575 lock_mode X locks rec but not gap
*** (1) WAITING FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 2 page no 4 n bits 72 index by_name of table `d`.`t` trx id 1575 lock_mode X waiting
*** (2) TRANSACTION:
TRANSACTION 1574, ACTIVE 1 sec starting index read
MySQL thread id 11, OS thread handle 140041066120896, query id 18 localhost root updating
update t set v = 1 where id = 2
*** (2) WAITING FOR THIS LOCK TO BE GRANTED:
TABLE LOCK table `d`.`u` trx id 1574 lock mode AUTO-INC waiting
*** WE ROLL BACK TRANSACTION (2)
";

    fn read(text: &str) -> Deadlock {
        let (time, text) = ("2026-11-29  4:50:01 0x7f2a".to_owned(), text.to_owned());
        Deadlock::from_printed(&PrintedEvent { time, text, cut: false })
    }

    #[test]
    fn both_transactions_are_named_with_what_they_waited_for_and_no_literal() {
        let deadlock = read(MYSQL);
        assert_eq!(deadlock.at.map(|at| at.to_string()).as_deref(), Some("2026-11-29T04:50:01"));
        assert_eq!(
            deadlock.to_string(),
            "connection 12 (update t set v = ? where name = ?) waited for d.t, index by_name; \
             connection 11 (update t set v = ? where id = ?) waited for d.u and was rolled back"
        );
    }

    #[test]
    fn mariadb_prints_locks_below_headings_without_a_number() {
        let text = MYSQL
            .replace("MySQL thread", "MariaDB thread")
            .replace("*** (1) WAITING", "*** WAITING")
            .replace("*** (2) WAITING", "*** WAITING");
        assert_eq!(read(&text), read(MYSQL));
    }

    #[test]
    fn cut_anywhere_it_says_less_and_never_a_literal() {
        for end in (0..MYSQL.len()).filter(|end| MYSQL.is_char_boundary(*end)) {
            let said = read(&MYSQL[..end]).to_string();
            assert!(!said.contains("alice"), "{said}");
        }
        assert_eq!(read("").to_string(), "");
    }
}
