//! `SHOW OPEN TABLES`: which tables sessions use, in a sentence. It does not say which sessions.
//!
//! ```text
//! | Database | Table | In_use | Name_locked |
//! | shop     | stock |      3 |           0 |
//! ```

use spindoctor_collect::mysql::Rows;
use spindoctor_model::number;

/// Tables that are named.
const NAMED: usize = 5;

/// True for the columns of that list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    ["table", "in_use", "name_locked"].iter().all(|name| columns.iter().any(|column| column == name))
}

/// The tables that are in use, those of most sessions first.
pub(crate) fn sentence(rows: &Rows) -> String {
    let mut used: Vec<(String, u64, bool)> = rows
        .iter()
        .filter_map(|row| {
            let name = format!("{}.{}", row.text("database").unwrap_or("?"), row.text("table")?);
            let count = row.number("in_use").unwrap_or(0);
            let is_locked = row.number::<u64>("name_locked").unwrap_or(0) > 0;
            (count > 0 || is_locked).then_some((name, count, is_locked))
        })
        .collect();
    used.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    if used.is_empty() {
        return format!(
            "{}, none of them in use",
            number::counted(rows.len() as u64, "open table", "open tables")
        );
    }
    let named: Vec<String> = used
        .iter()
        .take(NAMED)
        .map(|(name, count, is_locked)| {
            format!("{name} {count}{}", if *is_locked { " (its name is locked)" } else { "" })
        })
        .collect();
    format!(
        "tables in use, by the locks that sessions have or wait for: {}; SHOW FULL PROCESSLIST and performance_schema.metadata_locks say \
         which sessions these are",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use crate::Kind;

    fn says(rows: &str) -> Vec<String> {
        let parts = crate::recognise("x", &format!("| Database | Table | In_use | Name_locked |\n{rows}"));
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::OpenTables], "{parts:?}");
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn tables_that_sessions_use_are_named() {
        let said = says("| shop | stock | 3 | 0 |\n| shop | orders | 1 | 1 |\n| shop | idle | 0 | 0 |\n");
        assert!(
            said[0].contains(": shop.stock 3, shop.orders 1 (its name is locked); SHOW FULL"),
            "{said:?}"
        );
        assert_eq!(says("| shop | idle | 0 | 0 |\n"), ["1 open table, none of them in use"]);
    }
}
