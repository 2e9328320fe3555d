//! Lists of transactions whose columns somebody's own query gave other names: the query above says which column is which.
//!
//! ```text
//! SELECT trx_id, trx_state, trx_mysql_thread_id AS conn, trx_rows_locked AS rl FROM information_schema.INNODB_TRX;
//! | trx_id | trx_state | conn | rl |
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::rows::is_name;

/// Lines that are looked at, and the bytes of each.
const LOOKED_AT: usize = 2_000;
const LONGEST: usize = 4_000;

/// The lines of a text, where the heads of such lists have the server's names again.
pub(crate) fn with_names(lines: Vec<String>) -> Vec<String> {
    let names = given(&lines);
    if names.is_empty() {
        return lines;
    }
    lines.into_iter().map(|line| with_names_of_server(&line, &names).unwrap_or(line)).collect()
}

/// True for a column of INNODB_TRX.
fn is_of_server(name: &str) -> bool {
    name.starts_with("trx_") && is_name(name)
}

/// The columns by the names that queries gave them. None where a text takes columns of several lists of transactions, as who joins a
/// waiter with its blocker does.
fn given(lines: &[String]) -> BTreeMap<String, String> {
    /// Names that say whose column of two it is.
    const OF_ONE: [&str; 4] = ["wait", "block", "request", "hold"];
    let mut names = BTreeMap::new();
    let mut lists = BTreeSet::new();
    for line in lines.iter().take(LOOKED_AT).filter(|line| line.len() <= LONGEST) {
        let words: Vec<&str> =
            line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect();
        for three in words.windows(3) {
            let [column, between, other] = three else { continue };
            if !between.eq_ignore_ascii_case("as") {
                continue;
            }
            let column = column.to_ascii_lowercase().replace('`', "");
            let (list, column) = column.rsplit_once('.').unwrap_or(("", column.as_str()));
            let other = other.trim_matches(['`', '\'', '"', ';']).to_ascii_lowercase();
            let is_known = is_of_server(&other) || OF_ONE.iter().any(|word| other.contains(word));
            if is_of_server(column) && is_name(&other) && !is_known {
                lists.insert(list.to_owned());
                names.insert(other, column.to_owned());
            }
        }
    }
    let is_twice = names.values().collect::<BTreeSet<_>>().len() < names.len();
    if lists.len() > 1 || is_twice { BTreeMap::new() } else { names }
}

/// A head, or a line of a row one below the other, with the server's names; None for any other line.
fn with_names_of_server(line: &str, names: &BTreeMap<String, String>) -> Option<String> {
    if line.len() > LONGEST {
        return None;
    }
    let plain = |name: &str| names.get(&name.trim().to_ascii_lowercase());
    let mark = ['|', '\t'].into_iter().find(|mark| line.contains(*mark));
    let Some(mark) = mark else {
        let (name, value) = line.split_once(": ")?;
        return plain(name).map(|column| format!("{column}: {value}"));
    };
    let is_framed = line.trim_start().starts_with('|');
    let inside = line.trim().trim_matches('|');
    let cells: Vec<&str> = inside.split(mark).map(str::trim).collect();
    let known =
        cells.iter().filter(|cell| is_of_server(&cell.to_ascii_lowercase()) || plain(cell).is_some()).count();
    // A row may have a word that is such a name, too.
    if known < 2 || !cells.iter().all(|cell| is_name(cell)) {
        return None;
    }
    let cells: Vec<&str> = cells.iter().map(|cell| plain(cell).map_or(*cell, String::as_str)).collect();
    Some(match (mark, is_framed) {
        ('|', true) => format!("| {} |", cells.join(" | ")),
        ('|', false) => cells.join(" | "),
        _ => cells.join("\t"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Said;
    use crate::recognise;

    const QUERY: &str =
        "SELECT trx_id, trx_state,\n  trx_mysql_thread_id AS conn,\n  t.trx_rows_locked as `rl`\n";

    #[test]
    fn columns_have_the_server_s_names_again_in_every_form() {
        let query = QUERY.replace("t.", "");
        for list in [
            "| trx_id | trx_state | conn | rl |\n| 7071 | LOCK WAIT | 31 | 1 |\n| 7070 | RUNNING | 30 | 4 |\n",
            "trx_id\ttrx_state\tconn\trl\n7071\tLOCK WAIT\t31\t1\n7070\tRUNNING\t30\t4\n",
            "*************************** 1. row ***************************\n   trx_id: 7071\ntrx_state: LOCK WAIT\n     conn: 31\n       rl: 1\n\
             *************************** 2. row ***************************\n   trx_id: 7070\ntrx_state: RUNNING\n     conn: 30\n       rl: 4\n",
        ] {
            let said: Vec<Said> =
                recognise("x", &format!("{query}FROM information_schema.INNODB_TRX\n\n{list}"))
                    .into_iter()
                    .flat_map(|part| part.moments)
                    .flat_map(|moment| moment.said)
                    .collect();
            let found = said.iter().find_map(|said| match said {
                Said::Transactions(transactions) => Some(
                    transactions
                        .iter()
                        .map(|transaction| (transaction.connection_id, transaction.rows_locked))
                        .collect::<Vec<_>>(),
                ),
                _ => None,
            });
            assert_eq!(found, Some(vec![(Some(31), 1), (Some(30), 4)]), "{list}");
        }
    }

    #[test]
    fn of_a_waiter_and_its_blocker_no_name_is_changed() {
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        for query in [
            "SELECT r.trx_mysql_thread_id AS first_id, b.trx_query AS second_text\n| first_id | second_text |\n",
            "SELECT trx_id AS a, trx_id AS b\n| a | b |\n",
            "SELECT CONCAT(x, trx_id) AS a, trx_query AS q\n| 7 | q |\n",
        ] {
            assert_eq!(with_names(lines(query)), lines(query));
        }
        // One list under one short name.
        assert_eq!(given(&lines(QUERY)).len(), 0);
        assert_eq!(given(&lines(&QUERY.replace("trx_mysql", "t.trx_mysql"))).len(), 2);
    }
}
