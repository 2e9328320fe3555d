//! The text of a deadlock, as InnoDB prints the latest in its status (LATEST DETECTED DEADLOCK) and, with
//! `innodb_print_all_deadlocks`, each in the error log: taken apart into transactions and locks. Everything that reads such a text
//! reads it here. Statements are as they are printed, with their literals.
//!
//! A transaction begins with `*** (1) TRANSACTION:`, some lines of its own, a line with `thread id` and `query id`, and its statement;
//! the locks that it holds and wants stand below lines with its number or with none (lock0lock.cc, Deadlock_notifier).

/// What the first line of a deadlock has, wherever it is printed.
pub const FIRST_LINE: &str = "*** (1) TRANSACTION:";

/// What the last line of it begins with.
pub const LAST_LINE: &str = "*** WE ROLL BACK";

/// A lock as InnoDB prints it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrintedLock {
    /// The table, with its schema where the text has it.
    pub table: String,
    /// The index; empty for a table's lock.
    pub index: String,
    /// `space id 2 page no 4`, of a row's.
    pub page: String,
    /// `X locks gap before rec`
    pub mode: String,
}

impl PrintedLock {
    /// `TABLE LOCK table ...`, `RECORD LOCKS ...` (lock0lock.cc, lock_table_print and lock_rec_print): the lock, and whether it is
    /// waited for.
    pub fn from_line(line: &str) -> Option<(Self, bool)> {
        let line = line.trim();
        let (body, page, index) = if let Some(rest) = line.strip_prefix("TABLE LOCK table ") {
            (rest, String::new(), String::new())
        } else {
            let rest = line.strip_prefix("RECORD LOCKS ")?;
            let (page, rest) = rest.split_once(" n bits ")?;
            let (_, rest) = rest.split_once(" index ")?;
            let (index, rest) = rest.split_once(" of table ")?;
            (rest, page.to_owned(), index.replace(['`', '"'], ""))
        };
        let (table, rest) = body.split_once(" trx id ")?;
        let table = table.split(" trx table locks ").next().unwrap_or(table);
        let plain = table.replace(['`', '"'], "");
        let table = if plain.contains('.') { plain } else { plain.replacen('/', ".", 1) };
        let (_, mode) = rest.split_once(" lock mode ").or_else(|| rest.split_once(" lock_mode "))?;
        // MariaDB 10.1: `lock_mode X waiting lock hold time 3 wait time before grant 0`
        let mode = mode.split(" lock hold time ").next().unwrap_or(mode);
        let waits = mode.trim_end().ends_with("waiting");
        let mode = mode.trim().trim_end_matches("waiting").trim().to_owned();
        Some((Self { table, index, page, mode }, waits))
    }

    /// `shop.stock, index PRIMARY`
    pub fn place(&self) -> String {
        match self.index.as_str() {
            "" => self.table.clone(),
            index => format!("{}, index {index}", self.table),
        }
    }

    /// True for a shared lock, of a row or of a table.
    pub fn is_shared(&self) -> bool {
        self.mode.starts_with('S')
    }

    /// True for a row's lock that reaches over the gap before the row: of the gap alone, or of both (next-key), of which the mode says
    /// nothing more. `locks rec but not gap` is of the row alone.
    pub fn is_of_gap(&self) -> bool {
        !self.index.is_empty() && !self.mode.contains("rec but not gap")
    }

    /// True for the lock that an INSERT takes of the gap into which it inserts.
    pub fn is_insert_intention(&self) -> bool {
        self.mode.contains("insert intention")
    }
}

/// A deadlock. What the text does not say is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrintedDeadlock<'t> {
    /// Its transactions, as they are numbered.
    pub transactions: Vec<PrintedTransaction<'t>>,
    /// The number of the one that was rolled back.
    pub victim: Option<&'t str>,
}

/// A transaction of a deadlock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrintedTransaction<'t> {
    /// Its number in the text.
    pub number: &'t str,
    /// Its id, as the list of transactions has it, too.
    pub id: Option<&'t str>,
    /// Its connection.
    pub connection_id: Option<u64>,
    /// Its statement as it is printed, with its literals.
    pub statement: Option<String>,
    /// What it waited for.
    pub waited_for: Option<PrintedLock>,
    /// Locks that are printed with it and were granted: its own, and in MariaDB from 10.6 on those of the other that stand in its way
    /// (`*** CONFLICTING WITH:`).
    pub held: Vec<PrintedLock>,
    /// `mysql tables in use 3`
    pub tables_in_use: Option<u64>,
}

impl<'t> PrintedDeadlock<'t> {
    /// The id of the one that was rolled back.
    pub fn victim_id(&self) -> Option<&'t str> {
        self.transactions.iter().find(|one| Some(one.number) == self.victim)?.id
    }
}

impl<'t> PrintedTransaction<'t> {
    fn from_lines(number: &'t str, lines: &[&'t str]) -> Self {
        let locks = || lines.iter().filter_map(|line| PrintedLock::from_line(line));
        Self {
            number,
            id: lines.iter().find_map(|line| transaction_id(line)),
            connection_id: lines.iter().find_map(|line| connection_id(line)),
            statement: statements(&lines.join("\n")).into_iter().next(),
            waited_for: locks().find(|(_, waits)| *waits).map(|(lock, _)| lock),
            held: locks().filter_map(|(lock, waits)| (!waits).then_some(lock)).collect(),
            tables_in_use: lines.iter().find_map(|line| {
                line.trim().strip_prefix("mysql tables in use ")?.split(',').next()?.trim().parse().ok()
            }),
        }
    }
}

/// Takes the text apart; one without a transaction of a deadlock has none.
pub fn parse(text: &str) -> PrintedDeadlock<'_> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match number(line) {
            Some(number) if blocks.last().is_none_or(|(last, _)| *last != number) => {
                blocks.push((number, Vec::new()));
            }
            _ => {}
        }
        if let Some((_, lines)) = blocks.last_mut() {
            lines.push(line);
        }
    }
    let transactions = blocks.iter().map(|(number, lines)| PrintedTransaction::from_lines(number, lines));
    PrintedDeadlock { transactions: transactions.collect(), victim: text.lines().find_map(victim) }
}

/// The statements below the lines of their connections, as they are printed, with their literals. A foreign key error prints its own
/// in the same way.
pub fn statements(text: &str) -> Vec<String> {
    const ENDS: [&str; 6] =
        ["*** ", "RECORD LOCKS ", "TABLE LOCK ", "Foreign key constraint ", "Trx ", "TRANSACTION "];
    let mut statements: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().chain(["*** "]) {
        let is_end = line.trim().is_empty() || ENDS.iter().any(|begins| line.starts_with(begins));
        if is_end {
            let whole = open.take().map(|statement| statement.trim().to_owned());
            statements.extend(whole.filter(|statement| !statement.is_empty()));
        } else if line.contains("thread id ") && line.contains(" query id ") {
            open = Some(String::new());
        } else if let Some(statement) = &mut open {
            statement.push_str(line);
            statement.push('\n');
        }
    }
    statements
}

/// The lines that never hold a statement or a row: who waits for which lock of which index.
pub fn without_statements(text: &str) -> String {
    const HEADS: [&str; 4] = ["*** ", "TRANSACTION ", "RECORD LOCKS ", "TABLE LOCK "];
    let kept: Vec<&str> =
        text.lines().filter(|line| HEADS.iter().any(|head| line.starts_with(head))).collect();
    kept.join("\n")
}

/// The number in `*** (1) TRANSACTION:`, `*** (1) WAITING FOR THIS LOCK TO BE GRANTED:`
fn number(line: &str) -> Option<&str> {
    let (number, _) = line.trim().strip_prefix("*** (")?.split_once(')')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
}

/// The number in `*** WE ROLL BACK TRANSACTION (2)`
fn victim(line: &str) -> Option<&str> {
    line.trim().strip_prefix(LAST_LINE)?.strip_prefix(" TRANSACTION (")?.strip_suffix(')')
}

/// The id in `TRANSACTION 2309, ACTIVE 5 sec starting index read`
fn transaction_id(line: &str) -> Option<&str> {
    let (id, _) = line.trim().strip_prefix("TRANSACTION ")?.split_once(", ACTIVE ")?;
    Some(id)
}

/// `MySQL thread id 12, OS thread handle 140041065064128, query id 17 localhost root updating`; MariaDB has its own name there.
fn connection_id(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(" thread id ").filter(|(_, rest)| rest.contains("query id "))?;
    rest.split_once(',')?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The deadlock in a status that the corpus has.
    fn printed(name: &str) -> Option<String> {
        let document = spindoctor_corpus::document(name).unwrap();
        let text = &document.part("SHOW ENGINE INNODB STATUS")?.text;
        let (_, below) = text.split_once("LATEST DETECTED DEADLOCK\n")?;
        let (at, last) = below.match_indices(LAST_LINE).next()?;
        let end = below[at + last.len()..].find('\n').map_or(below.len(), |end| at + last.len() + end);
        Some(below[..end].to_owned())
    }

    #[test]
    fn every_deadlock_of_the_corpus_is_two_transactions_with_their_statements_and_locks() {
        let names = spindoctor_corpus::names("").unwrap();
        let names: Vec<String> = names.into_iter().filter(|name| name.ends_with("/deadlock")).collect();
        assert!(names.len() >= 10, "only {} servers", names.len());
        for name in names {
            let text = printed(&name).unwrap();
            let deadlock = parse(&text);
            let numbers: Vec<&str> = deadlock.transactions.iter().map(|one| one.number).collect();
            assert_eq!(numbers, ["1", "2"], "{name}");
            assert!(deadlock.victim.is_some_and(|victim| numbers.contains(&victim)), "{name}");
            for one in &deadlock.transactions {
                assert!(one.connection_id.is_some() && one.tables_in_use.is_some(), "{name}: {one:?}");
                assert!(
                    one.statement
                        .as_deref()
                        .is_some_and(|text| text.starts_with("UPDATE shop.stock SET n = ")),
                    "{name}: {one:?}"
                );
                let wanted = one.waited_for.as_ref().map(|lock| (lock.place(), lock.mode.as_str()));
                let row = ("shop.stock, index PRIMARY".to_owned(), "X locks rec but not gap");
                assert_eq!(wanted, Some(row), "{name}");
            }
            assert!(deadlock.transactions.iter().any(|one| !one.held.is_empty()), "{name}");
            let ids: Vec<&str> = deadlock.transactions.iter().filter_map(|one| one.id).collect();
            assert!(ids.len() == 2 && ids[0] != ids[1], "{name}: {ids:?}");
            assert!(deadlock.victim_id().is_some_and(|id| ids.contains(&id)), "{name}");
            let kept = without_statements(&text);
            assert_eq!(parse(&kept).victim_id(), deadlock.victim_id(), "{name}");
            assert!(!kept.contains("UPDATE"), "{name}: {kept}");
            let locks = |text: &str| {
                let of_each = parse(text).transactions.into_iter().map(|one| (one.waited_for, one.held));
                of_each.collect::<Vec<_>>()
            };
            assert_eq!(locks(&kept), locks(&text), "{name}");
        }
    }

    #[test]
    fn of_a_deadlock_the_locks_stay_and_the_rows_go() {
        let text = "*** (1) TRANSACTION:\nTRANSACTION 7, ACTIVE 3 sec\nUPDATE t SET a = 'secret'\n*** (1) HOLDS THE LOCK(S):\n\
                    RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `a`.`t`\n 0: len 6; asc secret;;";
        let kept = without_statements(text);
        assert_eq!(kept.lines().count(), 4);
        assert!(!kept.contains("secret"));
    }
}
