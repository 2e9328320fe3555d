//! What the server's answers say: the trace, statements, plans, indexes and pages. Pure.

use std::collections::HashMap;

use spindoctor_model::plan_now::TableStatistics;

use super::{Index, Pages, PlanLine, Running, TRACE_BYTES};
use crate::mysql::Rows;
use crate::mysql::optimizer_trace::{self, RangeAnalysis};
use crate::mysql::rows::Row;

pub(super) fn traced(rows: &Rows) -> Result<Vec<RangeAnalysis>, String> {
    let row = rows.first().ok_or("the server traced nothing")?;
    if row.number::<u64>("refused").is_some_and(|refused| refused > 0) {
        return Err(
            "the server shows its trace to nobody who may not read all of the statement's tables".to_owned()
        );
    }
    if row.number::<u64>("missing").is_some_and(|bytes| bytes > 0) {
        return Err(format!("the optimizer's trace is longer than {} MiB", TRACE_BYTES >> 20));
    }
    optimizer_trace::parse(row.text("TRACE").unwrap_or_default())
        .ok_or_else(|| "the optimizer's trace is not understood".to_owned())
}

pub(super) fn statements(rows: &Rows, schema: &str, text: &str) -> Vec<Running> {
    rows.iter()
        .filter_map(|row| {
            let text = row.text(text)?.to_owned();
            Some(Running { schema: row.string(schema), text, thread_id: row.number("THREAD_ID") })
        })
        .collect()
}

pub(super) fn plan(rows: &Rows) -> Vec<PlanLine> {
    rows.iter()
        .map(|row| PlanLine {
            table: row.string("table"),
            access: row.string("type"),
            possible_keys: row.text("possible_keys").map_or_else(Vec::new, names),
            key: row.text("key").map(str::to_owned),
            rows: row.number("rows"),
            filtered: row.number("filtered"),
            extra: without_values(row.text("Extra").unwrap_or_default()),
        })
        .collect()
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

/// What stands in EXPLAIN's Extra, without the values that some of it has: `Ft_hints: rank > 0.5, limit = 10` are the statement's.
fn without_values(extra: &str) -> String {
    let heads = extra.split(';').map(|part| match part.contains([':', '=', '\'', '"']) {
        true => part.split([':', '=', '\'', '"', '(']).next().unwrap_or_default().trim(),
        false => part.trim(),
    });
    heads.filter(|head| !head.is_empty()).collect::<Vec<_>>().join("; ")
}

pub(super) fn table_statistics(rows: &Rows) -> Option<TableStatistics> {
    let row = rows.first()?;
    let age_s: f64 = row.number("age_s")?;
    Some(TableStatistics { rows: row.number("n_rows"), age_s: age_s.max(0.0) })
}

/// EXPLAIN's names and rows, each a line, with tabs between; a cell's own tabs and line ends are blanks.
pub(super) fn table_text(rows: &Rows) -> String {
    let cell = |cell: Option<&str>| cell.unwrap_or("NULL").replace(['\t', '\n', '\r'], " ");
    let extra = rows.names().iter().position(|name| name.eq_ignore_ascii_case("Extra"));
    let shown = |row: Row<'_>, at: usize| match row.at(at) {
        Some(text) if Some(at) == extra => cell(Some(&without_values(text))),
        text => cell(text),
    };
    let line = |cells: Vec<String>| cells.join("\t") + "\n";
    let head = line(rows.names().iter().map(|name| cell(Some(name))).collect());
    let below = rows.iter().map(|row| line((0..rows.columns()).map(|at| shown(row, at)).collect()));
    std::iter::once(head).chain(below).collect()
}

pub(super) fn indexes(rows: &Rows) -> Vec<Index> {
    let mut indexes: Vec<Index> = Vec::new();
    for row in rows.iter() {
        let name = row.string("INDEX_NAME");
        if indexes.last().is_none_or(|last| last.name != name) {
            indexes.push(Index {
                name,
                is_unique: row.text("NON_UNIQUE") == Some("0"),
                is_btree: row.text("INDEX_TYPE") == Some("BTREE"),
                ..Index::default()
            });
        }
        let Some(index) = indexes.last_mut() else { continue };
        index.columns.push(row.text("COLUMN_NAME").unwrap_or("(expression)").to_owned());
        index.is_nullable |= row.text("NULLABLE") == Some("YES");
        index.is_hidden = row.text("HIDDEN") == Some("YES");
        // That of the last column is of all together.
        index.cardinality = row.number("CARDINALITY");
    }
    indexes
}

pub(super) fn add_reads(indexes: &mut [Index], rows: &Rows) {
    let reads: HashMap<&str, u64> =
        rows.iter().filter_map(|row| Some((row.text("INDEX_NAME")?, row.number("COUNT_READ")?))).collect();
    for index in indexes {
        index.reads = reads.get(index.name.as_str()).copied();
    }
}

pub(super) fn pages(rows: &Rows) -> Pages {
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.at(0).is_some_and(|found| found.eq_ignore_ascii_case(name)));
        row.and_then(|row| row.at(1)?.parse().ok()).unwrap_or_default()
    };
    Pages {
        requested: value("Innodb_buffer_pool_read_requests"),
        from_disk: value("Innodb_buffer_pool_reads"),
    }
}

/// A text as a literal that no quote, backslash or sql_mode can break out of.
pub(super) fn literal(text: &str) -> String {
    if text.is_empty() {
        return "''".to_owned();
    }
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 0x{hex}")
}

/// A name in backquotes.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::fixture::rows;

    #[test]
    fn a_plan_is_a_table_of_lines() {
        let answer = rows(
            &["table", "key", "Extra"],
            &[&["t", "PRIMARY", "Using\twhere"], &["u", "NULL", "Ft_hints: rank > 0.77, limit = 42"]],
        );
        assert_eq!(table_text(&answer), "table\tkey\tExtra\nt\tPRIMARY\tUsing where\nu\tNULL\tFt_hints\n");
    }

    #[test]
    fn indexes_are_shown_with_their_columns_in_order() {
        let answer = rows(
            &["INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME", "NULLABLE", "INDEX_TYPE", "CARDINALITY", "HIDDEN"],
            &[
                &["k_and_c", "1", "k", "", "BTREE", "200", "YES"],
                &["k_and_c", "1", "c", "YES", "BTREE", "9800", "YES"],
                &["PRIMARY", "0", "id", "", "BTREE", "9871", "NO"],
                &["words", "1", "NULL", "", "FULLTEXT", "NULL", "NO"],
            ],
        );
        let mut found = indexes(&answer);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].columns, ["k", "c"]);
        assert!(found[0].is_nullable && !found[0].is_unique && found[0].is_btree);
        assert!(found[1].is_unique && !found[1].is_nullable);
        assert!(!found[2].is_btree && found[2].columns == ["(expression)"]);
        assert!(found[0].is_hidden && !found[1].is_hidden);
        assert_eq!([found[0].cardinality, found[2].cardinality], [Some(9_800), None]);
        add_reads(&mut found, &rows(&["INDEX_NAME", "COUNT_READ"], &[&["k_and_c", "0"], &["PRIMARY", "7"]]));
        assert_eq!([found[0].reads, found[1].reads, found[2].reads], [Some(0), Some(7), None]);
    }

    #[test]
    fn a_plan_has_names_and_numbers_and_no_value() {
        let columns = ["table", "type", "possible_keys", "key", "ref", "rows", "filtered", "Extra"];
        let answer = rows(
            &columns,
            &[
                &["sbtest1", "ref", "k_1,c_1", "k_1", "const", "5", "100.00", "Using where"],
                &[
                    "o",
                    "ALL",
                    "NULL",
                    "NULL",
                    "NULL",
                    "9871",
                    "10.00",
                    "Range checked for each record (index map: 0x3)",
                ],
                &[
                    "p",
                    "ALL",
                    "NULL",
                    "NULL",
                    "NULL",
                    "5",
                    "100.00",
                    "Using where; Using join buffer (hash join)",
                ],
                &[
                    "texts",
                    "fulltext",
                    "c",
                    "c",
                    "const",
                    "1",
                    "100.00",
                    "Using where; Ft_hints: rank > 0.77, limit = 42",
                ],
            ],
        );
        let found = plan(&answer);
        assert_eq!(found[0].possible_keys, ["k_1", "c_1"]);
        assert_eq!(
            (found[0].access.as_str(), found[0].key.as_deref(), found[0].rows),
            ("ref", Some("k_1"), Some(5.0))
        );
        assert_eq!((found[1].possible_keys.len(), found[1].filtered), (0, Some(10.0)));
        let extras: Vec<&str> = found.iter().map(|line| line.extra.as_str()).collect();
        let last = ["Using where; Using join buffer (hash join)", "Using where; Ft_hints"];
        assert_eq!(extras, ["Using where", "Range checked for each record", last[0], last[1]]);
    }

    #[test]
    fn statistics_are_as_old_as_their_last_change_and_a_table_may_have_none() {
        let of = |cells: [&str; 2]| table_statistics(&rows(&["n_rows", "age_s"], &[&cells]));
        assert_eq!(of(["9871", "40"]), Some(TableStatistics { rows: Some(9_871), age_s: 40.0 }));
        assert_eq!(of(["NULL", "NULL"]), None);
        assert_eq!(of(["NULL", "-1"]), Some(TableStatistics { rows: None, age_s: 0.0 }));
    }

    #[test]
    fn nobody_else_is_no_statement() {
        assert_eq!(statements(&rows(&["DB", "INFO"], &[&["NULL", "NULL"]]), "DB", "INFO"), []);
        let found = statements(&rows(&["db", "info"], &[&["NULL", "SELECT 1"]]), "DB", "INFO");
        assert_eq!(found, [Running { text: "SELECT 1".into(), ..Running::default() }]);
        let found =
            statements(&rows(&["DB", "INFO", "THREAD_ID"], &[&["a", "SELECT 1", "4351"]]), "DB", "INFO");
        assert_eq!(found[0].thread_id, Some(4351));
    }

    #[test]
    fn a_trace_that_is_cut_or_refused_says_so() {
        let traced_rows = |cells: [&str; 3]| traced(&rows(&["TRACE", "missing", "refused"], &[&cells]));
        assert_eq!(traced_rows([r#"{"steps": []}"#, "0", "0"]), Ok(Vec::new()));
        assert!(traced_rows(["", "0", "1"]).unwrap_err().contains("may not read"));
        assert!(traced_rows([r#"{"steps": ["#, "17", "0"]).unwrap_err().contains("longer than 4 MiB"));
        assert!(traced_rows(["x", "0", "0"]).unwrap_err().contains("not understood"));
        assert!(traced(&Rows::default()).is_err());
    }

    #[test]
    fn nothing_breaks_out_of_a_literal_or_a_name() {
        assert_eq!(literal("a'\\"), "_utf8mb4 0x61275c");
        assert_eq!(literal(""), "''");
        assert_eq!(quoted("o`clock"), "`o``clock`");
    }

    #[test]
    fn pages_are_found_by_their_names() {
        let answer = rows(
            &["Variable_name", "Value"],
            &[&["Innodb_buffer_pool_read_requests", "812"], &["Innodb_buffer_pool_reads", "3"]],
        );
        assert_eq!(pages(&answer), Pages { requested: 812.0, from_disk: 3.0 });
    }
}
