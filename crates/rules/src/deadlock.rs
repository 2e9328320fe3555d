//! A deadlock that InnoDB printed, in sentences without literals: who held and who wanted which lock in which statement, who was
//! rolled back, and which of the usual ways it went. The text is taken apart in `spindoctor_model::printed_deadlock`.

use std::fmt;

use jiff::civil::DateTime;
use spindoctor_model::innodb_status::PrintedEvent;
use spindoctor_model::printed_deadlock::{PrintedDeadlock, PrintedLock, PrintedTransaction};
use spindoctor_model::{clock, printed_deadlock};

/// Transactions that are named: of a longer ring the others are counted.
const NAMED: usize = 3;

/// Characters of a statement that are kept.
const LONGEST: usize = 160;

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
    /// What it waited for.
    pub waited_for: Option<PrintedLock>,
    /// Locks that are printed with it and were granted: its own, and in MariaDB from 10.6 on those of the other that stand in its way
    /// (`*** CONFLICTING WITH:`).
    pub held: Vec<PrintedLock>,
    /// Instances of tables that its statement uses: one that changes a single table by two indexes at once has one more for each
    /// (index_merge).
    pub tables_in_use: Option<u64>,
    /// True where InnoDB rolled it back.
    pub is_victim: bool,
}

impl Party {
    /// True where its statement changes one table and uses three instances of it and more, as index_merge does: the table's own and one
    /// for each index. With two the other may be that of a foreign key.
    fn merges_indexes(&self) -> bool {
        let changes_one = |statement: &str| {
            let lower = statement.to_ascii_lowercase();
            ["update ", "delete from "].iter().any(|begin| lower.starts_with(begin))
                && ![" join ", " select ", "(select "].iter().any(|word| lower.contains(word))
        };
        self.tables_in_use.is_some_and(|count| count > 2)
            && self.statement.as_deref().is_some_and(changes_one)
    }
}

/// The usual ways to a deadlock of rows, as far as the locks that are printed show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Both lock a gap, and both then insert into it.
    Gap,
    /// Both have a shared lock of a row, and both then want it alone.
    SharedFirst,
    /// Both reach the same rows, by different indexes.
    TwoIndexes,
    /// They lock tables in different orders.
    TwoTables,
    /// They lock rows of one index in different orders.
    OneIndex,
}

impl Way {
    /// What happened, in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Gap => {
                "Each locked a gap between two keys, which locks of gaps permit, and then waited to insert into it: a SELECT ... FOR \
                 UPDATE, UPDATE or DELETE that found no row, INSERT ... ON DUPLICATE KEY UPDATE and REPLACE, a duplicate key, or INSERT ... \
                 SELECT takes such locks, and the end of the index (supremum) is such a gap."
            }
            Self::SharedFirst => {
                "Each had a shared lock of the row, as a duplicate key, a foreign key, INSERT ... SELECT or FOR SHARE takes it, and each \
                 then waited to have it alone."
            }
            Self::TwoIndexes => {
                "They came to the same rows by different indexes, so that each had the entry that the other wanted: a statement that uses \
                 two indexes at once (index_merge), or one by a secondary index and one by the primary key."
            }
            Self::TwoTables => "They locked rows of the tables in different orders.",
            Self::OneIndex => {
                "They locked rows of one index in different orders: statements that change several rows, or transactions of several \
                 statements."
            }
        }
    }

    /// What changes it, the best first.
    pub fn cure(self) -> &'static str {
        match self {
            Self::Gap => {
                "Insert first and handle the duplicate key, in place of looking first whether the row is there; READ COMMITTED locks no gaps \
                 but for duplicate and foreign keys; a table without a primary key locks far more: give it one"
            }
            Self::SharedFirst => {
                "Lock the row alone from the beginning (SELECT ... FOR UPDATE), and insert a key once: where clients race for the same new \
                 key, let one of them make it"
            }
            Self::TwoIndexes => {
                "An index of both columns together, or optimizer_switch = 'index_merge_intersection=off', so that both take one index; or \
                 look the primary keys up first, and change the rows by them, in order"
            }
            Self::TwoTables => "Let all transactions lock the tables in the same order",
            Self::OneIndex => {
                "Let all transactions lock rows in the same order (ORDER BY the primary key, keys of a batch sorted), in shorter transactions; \
                 an index that finds exactly the rows that are changed"
            }
        }
    }
}

impl Deadlock {
    /// Of the section LATEST DETECTED DEADLOCK.
    pub fn from_printed(event: &PrintedEvent) -> Self {
        let PrintedDeadlock { transactions, victim } = printed_deadlock::parse(&event.text);
        let party = |one: PrintedTransaction<'_>| Party {
            connection_id: one.connection_id,
            statement: one.statement.as_deref().map(shape),
            waited_for: one.waited_for,
            held: one.held,
            tables_in_use: one.tables_in_use,
            is_victim: victim == Some(one.number),
        };
        Self { at: clock::time(&event.time), parties: transactions.into_iter().map(party).collect() }
    }

    /// The statements, without literals, each once.
    pub fn statements(&self) -> Vec<&str> {
        let mut statements: Vec<&str> =
            self.parties.iter().take(NAMED).filter_map(|party| party.statement.as_deref()).collect();
        statements.dedup();
        statements
    }

    /// What the transactions waited for, each place once.
    pub fn wanted(&self) -> Vec<String> {
        let wanted = self.parties.iter().take(NAMED).filter_map(|party| party.waited_for.as_ref());
        let mut wanted: Vec<String> = wanted.map(PrintedLock::place).collect();
        wanted.dedup();
        wanted
    }

    /// True where a lock of a gap is among those that are printed: held or waited for, of the gap alone, of a row with the gap before it
    /// (next-key), or of an INSERT.
    pub fn has_gap(&self) -> bool {
        let locks = |party: &Party| party.held.iter().chain(&party.waited_for).any(PrintedLock::is_of_gap);
        self.parties.iter().any(locks)
    }

    /// True where the text ends before the second transaction.
    pub fn is_cut(&self) -> bool {
        self.parties.len() == 1
    }

    /// The way that it went, of those whose locks are printed.
    pub fn way(&self) -> Option<Way> {
        let wanted: Vec<&PrintedLock> =
            self.parties.iter().filter_map(|party| party.waited_for.as_ref()).collect();
        let first = *wanted.first()?;
        let held = || self.parties.iter().flat_map(|party| &party.held);
        if wanted.iter().any(|lock| lock.is_insert_intention()) {
            // The other's lock of the gap is printed by some versions alone; without one, an insert waits for nothing else.
            return Some(Way::Gap);
        }
        if wanted.iter().any(|lock| lock.table != first.table) {
            return Some(Way::TwoTables);
        }
        let is_of_first = |lock: &&PrintedLock| lock.table == first.table && lock.index == first.index;
        if wanted.iter().all(is_of_first)
            && !first.is_shared()
            && held().filter(is_of_first).any(PrintedLock::is_shared)
        {
            return Some(Way::SharedFirst);
        }
        if self.parties.iter().any(Party::merges_indexes)
            || wanted.iter().any(|lock| lock.index != first.index)
            || held()
                .any(|lock| lock.table == first.table && !lock.index.is_empty() && lock.index != first.index)
        {
            return Some(Way::TwoIndexes);
        }
        Some(Way::OneIndex)
    }
}

/// The statements of a deadlock or of a foreign key error, without literals, as many as are named.
pub fn statements(text: &str) -> Vec<String> {
    printed_deadlock::statements(text).iter().take(NAMED).map(|statement| shape(statement)).collect()
}

/// A statement without literals, bounded.
fn shape(statement: &str) -> String {
    spindoctor_sql::shape(statement).chars().take(LONGEST).collect()
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
        match (self.waited_for.as_ref().map(PrintedLock::place), self.is_victim) {
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

    /// A deadlock of two transactions: what each holds and what each waits for.
    fn ring(locks: [(&str, &str); 2]) -> Deadlock {
        let party = |id: usize, (held, wanted): (&str, &str)| {
            format!(
                "*** ({id}) TRANSACTION:\nMySQL thread id {id}, OS thread handle 1, query id 9 localhost a updating\nUPDATE t SET a = 1\n\
                 *** ({id}) HOLDS THE LOCK(S):\n{held}\n*** ({id}) WAITING FOR THIS LOCK TO BE GRANTED:\n{wanted} waiting\n"
            )
        };
        read(&format!("{}{}", party(1, locks[0]), party(2, locks[1])))
    }

    fn record(index: &str, table: &str, mode: &str) -> String {
        format!(
            "RECORD LOCKS space id 2 page no 4 n bits 72 index {index} of table `d`.`{table}` trx id 7 {mode}"
        )
    }

    #[test]
    fn a_gap_takes_part_where_a_lock_reaches_over_one() {
        let of = |held: &str, wanted: &str| {
            let (held, wanted) = (record("a", "t", held), record("a", "t", wanted));
            ring([(&held, &wanted), (&held, &wanted)]).has_gap()
        };
        let row = "lock_mode X locks rec but not gap";
        assert!(!of(row, row));
        assert!(!of("lock mode S locks rec but not gap", row));
        for gap in ["lock_mode X", "lock mode S", "lock_mode X locks gap before rec"] {
            assert!(of(gap, row) && of(row, gap), "{gap}");
        }
        assert!(of(row, "lock_mode X locks gap before rec insert intention"));
        assert!(of(row, "lock_mode X insert intention"), "at the end of the index");
        let table = "TABLE LOCK table `d`.`t` trx id 7 lock mode IX";
        assert!(!ring([(table, table), (table, table)]).has_gap(), "a table has no gaps");
        assert!(!read("").has_gap());
    }

    #[test]
    fn the_way_of_a_deadlock_follows_from_its_locks() {
        let x = "lock_mode X locks rec but not gap";
        let (gap, insert) = ("lock_mode X", "lock_mode X insert intention");
        let way = |one: [String; 2], two: [String; 2]| ring([(&one[0], &one[1]), (&two[0], &two[1])]).way();
        let same = |index: &str, mode: &str| record(index, "t", mode);
        assert_eq!(
            way([same("a", gap), same("a", insert)], [same("a", gap), same("a", insert)]),
            Some(Way::Gap)
        );
        assert_eq!(
            way([same("a", "lock mode S"), same("a", x)], [same("a", "lock mode S"), same("a", x)]),
            Some(Way::SharedFirst)
        );
        assert_eq!(
            way([same("b", x), same("PRIMARY", x)], [same("PRIMARY", x), same("b", x)]),
            Some(Way::TwoIndexes)
        );
        assert_eq!(way([same("a", x), same("a", x)], [same("a", x), same("a", x)]), Some(Way::OneIndex));
        assert_eq!(
            way([record("a", "t", x), record("a", "u", x)], [record("a", "u", x), record("a", "t", x)]),
            Some(Way::TwoTables)
        );
        assert_eq!(read("").way(), None);
        let mut merged = ring([(&same("a", x), &same("a", x)), (&same("a", x), &same("a", x))]);
        merged.parties[0].tables_in_use = Some(3);
        assert_eq!(merged.way(), Some(Way::TwoIndexes), "a table that is used by several indexes at once");
    }
}
