//! What pt-deadlock-logger prints: two rows a deadlock, each with its statement.
//!
//! ```text
//! server ts thread txn_id txn_time user hostname ip db tbl idx lock_type lock_mode wait_hold victim query
//! db1 2023-03-04T10:11:12 8123 0 29 app web3  shop stock PRIMARY RECORD X w 1 UPDATE stock SET n = n - 1 WHERE id = 7
//! ```

use spindoctor_model::{LoggedTrouble, TroubleKind, number};

/// Its columns, in order. Cells have no blanks, but the statement.
const COLUMNS: [&str; 16] = [
    "server",
    "ts",
    "thread",
    "txn_id",
    "txn_time",
    "user",
    "hostname",
    "ip",
    "db",
    "tbl",
    "idx",
    "lock_type",
    "lock_mode",
    "wait_hold",
    "victim",
    "query",
];
/// Characters of a statement's shape that are shown.
const SHOWN: usize = 160;
/// Statements of the last deadlock that are shown.
const NAMED: usize = 2;

/// What the rows say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deadlocks {
    /// In a sentence.
    pub(crate) says: String,
    /// What a cause rests on.
    pub(crate) trouble: LoggedTrouble,
}

/// One transaction of a deadlock.
struct Row<'t> {
    /// Server and time: who is in one deadlock has both in common.
    of: (&'t str, &'t str),
    table: String,
    index: &'t str,
    is_victim: bool,
    statement: &'t str,
}

/// True for the line with the names of its columns.
pub(crate) fn is_head(line: &str) -> bool {
    line.split_whitespace().take(4).eq(COLUMNS.into_iter().take(4))
}

/// True for a row of it.
pub(crate) fn is_row(line: &str) -> bool {
    row(line).is_some()
}

fn row(line: &str) -> Option<Row<'_>> {
    // With `--tab` tabs part them; an empty cell leaves two of either beside each other.
    let mark = if line.contains('\t') { '\t' } else { ' ' };
    let cells: Vec<&str> = line.splitn(COLUMNS.len(), mark).collect();
    let cell =
        |name: &str| COLUMNS.iter().position(|column| *column == name).and_then(|at| cells.get(at).copied());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if cells.len() < COLUMNS.len() || !is_number(cell("thread")?) {
        return None;
    }
    let is_victim = match cell("victim")? {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    Some(Row {
        of: (cell("server")?, cell("ts")?),
        table: format!("{}.{}", cell("db")?, cell("tbl")?),
        index: cell("idx")?,
        is_victim,
        statement: cell("query")?,
    })
}

/// Reads the rows; None where there is none.
pub(crate) fn read(text: &str) -> Option<Deadlocks> {
    let rows: Vec<Row<'_>> = text.lines().filter_map(row).collect();
    let last = rows.last()?;
    let times = 1 + rows.windows(2).filter(|pair| pair[0].of != pair[1].of).count() as u64;
    let of_last = rows.iter().rev().take_while(|row| row.of == last.of).collect::<Vec<_>>();
    let statements: Vec<String> = of_last
        .iter()
        .rev()
        .take(NAMED)
        .map(|row| {
            let shape: String = spindoctor_sql::shape(row.statement).chars().take(SHOWN).collect();
            let ended = if row.is_victim { " (rolled back)" } else { "" };
            format!("{shape} on index {} of {}{ended}", row.index, row.table)
        })
        .collect();
    let says = format!(
        "{}, the last at {}: {}",
        number::counted(times, "deadlock", "deadlocks"),
        last.of.1.replace('T', " "),
        statements.join(" and ")
    );
    let trouble = LoggedTrouble {
        kind: TroubleKind::Deadlock,
        times,
        line: says.clone(),
        source: "pt-deadlock-logger".into(),
        ..LoggedTrouble::default()
    };
    Some(Deadlocks { says, trouble })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_deadlock_is_named_and_all_are_counted() {
        let head = COLUMNS.join(" ");
        let rows = "db1 2023-03-04T10:11:12 8120 0 29 app web3  shop stock PRIMARY RECORD X w 1 UPDATE a SET n = 1\n\
                    db1 2023-03-04T10:15:12 8123 0 29 app web3  shop stock PRIMARY RECORD X w 1 UPDATE stock SET n = 7\n\
                    db1 2023-03-04T10:15:12 8124 0 19 app web4  shop stock by_name RECORD X w 0 DELETE FROM stock WHERE id = 9\n";
        for mark in [" ", "\t"] {
            // Cells are parted by tabs; the statement, which is the last, keeps its blanks.
            let parted = |line: &str| line.splitn(COLUMNS.len(), ' ').collect::<Vec<_>>().join(mark) + "\n";
            let text: String = format!("{head}\n{rows}").lines().map(parted).collect();
            let found = read(&text).unwrap();
            assert_eq!(
                found.says,
                "2 deadlocks, the last at 2023-03-04 10:15:12: UPDATE stock SET n = ? on index PRIMARY of shop.stock (rolled back) and \
                 DELETE FROM stock WHERE id = ? on index by_name of shop.stock"
            );
            assert_eq!((found.trouble.kind, found.trouble.times), (TroubleKind::Deadlock, 2));
        }
        assert_eq!(read(&head), None);
        assert_eq!(read("a b 7 hello\n"), None);
    }
}
