//! Which tables a server, or a client, says are marked as crashed:
//!
//! ```text
//! [ERROR] mysqld: Table './shop/stock' is marked as crashed and should be repaired
//! ERROR 144 (HY000): Table './shop/stock' is marked as crashed and last (automatic?) repair failed
//! ```

use std::collections::BTreeSet;

/// Tables that are named, and characters of a name that are shown.
const SHOWN: usize = 4;
const LONGEST: usize = 128;

/// The tables, in a sentence; None where no line names one.
pub(crate) fn named(text: &str) -> Option<String> {
    let tables: BTreeSet<&str> = text.lines().filter_map(table).collect();
    if tables.is_empty() {
        return None;
    }
    let shown = |table: &&str| table.replace(['/', '\\'], ".").chars().take(LONGEST).collect::<String>();
    let names = tables.iter().take(SHOWN).map(shown).collect::<Vec<_>>().join(", ");
    let more = match tables.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "marked as crashed: {names}{more}. CHECK TABLE, then REPAIR TABLE (MyISAM, Aria) mends it; while it does nobody can use the table"
    ))
}

/// The table that a line names, without the `./` of its path.
fn table(line: &str) -> Option<&str> {
    let (before, _) = line.split_once("' is marked as crashed")?;
    let (_, path) = before.rsplit_once("able '")?;
    let path = path.strip_prefix("./").or_else(|| path.strip_prefix(".\\")).unwrap_or(path);
    let is_path = |c: char| !c.is_control() && !"'\"`".contains(c);
    (!path.is_empty() && path.chars().all(is_path)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    #[test]
    fn tables_that_are_marked_as_crashed_are_named_once_each() {
        let line = |table: &str| {
            format!(
                "2024-03-04 10:11:12 7 [ERROR] mysqld: Table './shop/{table}' is marked as crashed and should be repaired\n"
            )
        };
        let one = named(&line("stock").repeat(3)).unwrap();
        assert!(one.starts_with("marked as crashed: shop.stock. CHECK TABLE"), "{one}");
        assert_eq!(named(&line("stock").replace("./shop/", ".\\shop\\")), Some(one));
        let all = named(&["a", "b", "c", "d", "e", "f"].map(line).concat()).unwrap();
        assert!(all.starts_with("marked as crashed: shop.a, shop.b, shop.c, shop.d and 2 more."), "{all}");
        for text in
            ["Table is marked as crashed", "Table '' is marked as crashed", "what is marked as crashed?"]
        {
            assert_eq!(named(text), None, "{text}");
        }
    }

    #[test]
    fn a_client_s_error_names_the_table() {
        for line in [
            "ERROR 144 (HY000): Table './shop/stock' is marked as crashed and last (automatic?) repair failed",
            "/opt/lib/pool.py:80: Warning: Table './shop/stock' is marked as crashed and last (automatic?) repair failed",
            "Jan 16 09:59:17 cam1 app[9]: (SQL ERROR): [INSERT INTO a] => Table './shop/stock' is marked as crashed and should be repaired",
            "{ [Error: UNKNOWN: Table './shop/stock' is marked as crashed and should be repaired] code: 'UNKNOWN', index: 0 }",
        ] {
            let text = format!("What can I do about this?\n\n{line}\n\nThanks\n");
            let says: Vec<String> =
                recognise("a.txt", &text).into_iter().flat_map(|part| part.says).collect();
            assert_eq!(says.len(), 2, "{line}: {says:?}");
            assert!(says[0].starts_with("a table is marked as crashed"), "{says:?}");
            assert!(says[1].starts_with("marked as crashed: shop.stock"), "{says:?}");
        }
    }
}
