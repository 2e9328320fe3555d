//! `information_schema.OPTIMIZER_TRACE`: which ranges of which indexes the optimizer estimated for a statement, and how.
//!
//! In: the trace, JSON. Out: one [`RangeAnalysis`] for each table whose ranges were estimated. Pure; what the trace
//! does not say is left out, and a trace that is not JSON (cut at its bound) gives none.

use serde_json::Value;

/// How the rows of an index's ranges were estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By looking both ends of each range up in the index.
    Dives,
    /// Equality ranges from the index's statistics.
    Statistics,
    /// Not at all: the index is forced (MySQL 8.0.3 and later).
    Skipped,
}

/// An index whose ranges were estimated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EstimatedIndex {
    /// Its name.
    pub index: String,
    /// Its ranges as the server prints them.
    pub ranges: Vec<String>,
    /// How, where the server says (MySQL).
    pub how: Option<How>,
    /// Rows that were estimated in all ranges.
    pub rows: Option<f64>,
    /// True where it was the cheapest range scan so far.
    pub chosen: bool,
}

/// A table whose ranges were estimated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RangeAnalysis {
    /// The table as the statement calls it: its alias, where it has one.
    pub table: String,
    /// Its indexes that could serve the statement.
    pub indexes: Vec<EstimatedIndex>,
}

/// The tables of a trace whose ranges were estimated; None where the text is no trace.
pub fn parse(trace: &str) -> Option<Vec<RangeAnalysis>> {
    let trace: Value = serde_json::from_str(trace).ok()?;
    trace.get("steps")?;
    let mut found = Vec::new();
    collect(&trace, &mut found);
    Some(found)
}

/// Tables within a part of a trace. The parser has bounded how deep it is.
fn collect(part: &Value, found: &mut Vec<RangeAnalysis>) {
    match part {
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, found)),
        Value::Object(fields) => {
            if let (Some(table), Some(analysis)) = (fields.get("table"), fields.get("range_analysis")) {
                let mut indexes = Vec::new();
                alternatives(analysis, &mut indexes);
                if !indexes.is_empty() {
                    let table = table_name(table.as_str().unwrap_or_default());
                    found.push(RangeAnalysis { table, indexes });
                }
                return;
            }
            fields.values().for_each(|part| collect(part, found));
        }
        _ => {}
    }
}

/// The indexes of an analysis: those of range scans, and those of each part of an index merge.
fn alternatives(part: &Value, found: &mut Vec<EstimatedIndex>) {
    match part {
        Value::Array(parts) => parts.iter().for_each(|part| alternatives(part, found)),
        Value::Object(fields) => {
            for (name, part) in fields {
                match (name.as_str(), part) {
                    ("range_scan_alternatives", Value::Array(listed)) => {
                        found.extend(listed.iter().filter_map(estimated));
                    }
                    _ => alternatives(part, found),
                }
            }
        }
        _ => {}
    }
}

// {"index": "k_1", "ranges": ["k = 4810", "k = 4812"], "index_dives_for_eq_ranges": true, "rowid_ordered": true,
//  "using_mrr": false, "index_only": true, "in_memory": 1, "rows": 2, "cost": 0.93, "chosen": true}     (MySQL 9.7)
// "index_dives_for_range_access": "skipped_due_to_force_index", ..., "rows": "not applicable"           (MySQL 8.0.3)
// {"index": "k_1", "ranges": ["(4810) <= (k) <= (4810)"], "rowid_ordered": true, "using_mrr": false,
//  "index_only": true, "rows": 1, "cost": 0.35, "chosen": true}                                         (MariaDB 10.11)
fn estimated(alternative: &Value) -> Option<EstimatedIndex> {
    let ranges = alternative.get("ranges")?.as_array()?;
    let how =
        match (alternative.get("index_dives_for_range_access"), alternative.get("index_dives_for_eq_ranges"))
        {
            (Some(Value::String(cause)), _) if cause == "skipped_due_to_force_index" => Some(How::Skipped),
            (_, Some(Value::Bool(true))) => Some(How::Dives),
            (_, Some(Value::Bool(false))) => Some(How::Statistics),
            _ => None,
        };
    Some(EstimatedIndex {
        index: alternative.get("index")?.as_str()?.to_owned(),
        ranges: ranges.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        how,
        rows: alternative.get("rows").and_then(Value::as_f64),
        chosen: alternative.get("chosen").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// MySQL prints `` `sbtest1` `s` IGNORE INDEX (`k_1`) ``, the alias last of the names, and doubles what is quoted; MariaDB `s`.
fn table_name(printed: &str) -> String {
    let mut name = None;
    let mut rest = printed.chars().peekable();
    while rest.next_if_eq(&'`').is_some() {
        let mut inner = String::new();
        loop {
            match rest.next() {
                Some('`') if rest.next_if_eq(&'`').is_some() => inner.push('`'),
                Some('`') => break,
                Some(other) => inner.push(other),
                None => return printed.to_owned(),
            }
        }
        name = Some(inner);
        while rest.next_if(|between| matches!(between, ' ' | '.')).is_some() {}
    }
    name.unwrap_or_else(|| printed.to_owned())
}

/// What a range's text says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// True where each of its columns has one value.
    pub is_equality: bool,
    /// Columns of the index that it is about.
    pub columns: usize,
}

/// Reads a range as either server prints it: `k = 5`, `1 <= a <= 1 AND 2 < b`, `(1,2) <= (a,b) <= (1,2)`. A value that
/// is itself such a text may be counted wrong: that affects only the reported number of dives.
pub fn range(text: &str) -> Range {
    // MariaDB: the bounds as tuples.
    if text.starts_with('(') {
        let parts: Vec<&str> = text.split(" <= ").collect();
        let columns =
            parts.iter().find(|part| part.starts_with('(')).map_or(1, |tuple| tuple.split(',').count());
        return match parts.as_slice() {
            [low, _, high] => Range { is_equality: low == high, columns },
            _ => Range { is_equality: false, columns },
        };
    }
    let parts: Vec<&str> = text.split(" AND ").collect();
    let is_equality = parts.iter().all(|part| match part.split(" <= ").collect::<Vec<_>>().as_slice() {
        [low, _, high] => low == high,
        [one] => one.contains(" = ") && !one.contains(" < "),
        _ => false,
    });
    Range { is_equality, columns: parts.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MYSQL: &str = r#"{"steps": [
        {"join_preparation": {"select#": 1, "steps": [{"expanded_query": "/* select#1 */ select ..."}]}},
        {"join_optimization": {"select#": 1, "steps": [{"rows_estimation": [
            {"table": "`sbtest1` `s`", "range_analysis": {
                "table_scan": {"rows": 9863, "cost": 1024.55},
                "potential_range_indexes": [{"index": "PRIMARY", "usable": false, "cause": "not_applicable"}],
                "analyzing_range_alternatives": {"range_scan_alternatives": [
                    {"index": "k_1", "ranges": ["k = 1", "k = 2"], "index_dives_for_eq_ranges": true,
                     "rowid_ordered": true, "using_mrr": false, "index_only": true, "in_memory": 1,
                     "rows": 2, "cost": 0.93, "chosen": true},
                    {"index": "k_and_c", "ranges": ["k = 1", "k = 2"], "index_dives_for_eq_ranges": false,
                     "rows": 2, "cost": 1.2, "chosen": false, "cause": "cost"},
                    {"index": "forced", "ranges": ["k = 1"],
                     "index_dives_for_range_access": "skipped_due_to_force_index", "rows": "not applicable",
                     "cost": "not applicable", "chosen": true}]}}},
            {"table": "`small`", "table_type": "const"},
            {"table": "`other`", "table_scan": {"rows": 3, "cost": 0.25}}]}]}},
        {"join_explain": {"select#": 1, "steps": []}}]}"#;

    const MARIADB: &str = r#"{"steps": [{"join_optimization": {"select_id": 1, "steps": [{"rows_estimation": [
        {"table": "s", "range_analysis": {"table_scan": {"rows": 9863, "cost": 2040.6},
         "analyzing_range_alternatives": {"range_scan_alternatives": [
            {"index": "k_1", "ranges": ["(1) <= (k) <= (1)", "(2) <= (k) <= (2)"], "rowid_ordered": true,
             "using_mrr": false, "index_only": true, "rows": 2, "cost": 2.4, "chosen": true}],
          "analyzing_roworder_intersect": {"cause": "too few roworder scans"}}}}]}]}}]}"#;

    #[test]
    fn a_trace_of_mysql_shows_each_index_its_ranges_and_how_they_were_estimated() {
        let found = parse(MYSQL).unwrap();
        assert_eq!(found.len(), 1, "tables that were not estimated are left out");
        assert_eq!(found[0].table, "s");
        let indexes: Vec<_> = found[0]
            .indexes
            .iter()
            .map(|one| (one.index.as_str(), one.ranges.len(), one.how, one.chosen))
            .collect();
        assert_eq!(
            indexes,
            [
                ("k_1", 2, Some(How::Dives), true),
                ("k_and_c", 2, Some(How::Statistics), false),
                ("forced", 1, Some(How::Skipped), true),
            ]
        );
        assert_eq!((found[0].indexes[0].rows, found[0].indexes[2].rows), (Some(2.0), None));
    }

    #[test]
    fn a_trace_of_mariadb_shows_ranges_and_not_how() {
        let found = parse(MARIADB).unwrap();
        assert_eq!((found[0].table.as_str(), found[0].indexes[0].how), ("s", None));
        assert_eq!(found[0].indexes[0].ranges.len(), 2);
    }

    #[test]
    fn each_part_of_an_index_merge_is_shown() {
        let part = |index: &str| {
            format!(
                r#"{{"range_scan_alternatives": [{{"index": "{index}", "ranges": ["a = 1"],
                    "index_dives_for_eq_ranges": true}}], "index_to_merge": "{index}"}}"#
            )
        };
        let trace = format!(
            r#"{{"steps": [{{"table": "`t`", "range_analysis": {{
                "analyzing_range_alternatives": {{"range_scan_alternatives": []}},
                "analyzing_index_merge_union": [{{"indexes_to_merge": [{}, {}]}}]}}}}]}}"#,
            part("by_a"),
            part("by_b")
        );
        let found = parse(&trace).unwrap();
        let indexes: Vec<&str> = found[0].indexes.iter().map(|one| one.index.as_str()).collect();
        assert_eq!(indexes, ["by_a", "by_b"]);
    }

    #[test]
    fn what_is_no_trace_is_none() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("{}"), None);
        assert_eq!(parse(&MYSQL[..MYSQL.len() / 2]), None);
        assert_eq!(parse(r#"{"steps": []}"#), Some(Vec::new()));
        assert_eq!(parse(&"[".repeat(100_000)), None);
    }

    #[test]
    fn a_table_goes_by_its_alias() {
        for (printed, name) in [
            ("`t`", "t"),
            ("`a b` `c`", "c"),
            ("`t` `o``clock`", "o`clock"),
            ("s", "s"),
            ("", ""),
            ("`", "`"),
            ("`t` IGNORE INDEX (`k`)", "t"),
            ("`t` `s` FORCE INDEX (`k`)", "s"),
        ] {
            assert_eq!(table_name(printed), name, "{printed}");
        }
    }

    #[test]
    fn a_range_is_an_equality_where_every_column_has_one_value() {
        for (text, is_equality, columns) in [
            ("k = 5", true, 1),
            ("5 <= k <= 5", true, 1),
            ("5 <= k <= 6", false, 1),
            ("5 < k", false, 1),
            ("a = 1 AND b = 'x'", true, 2),
            ("a = 1 AND 2 < b", false, 2),
            ("(5) <= (k) <= (5)", true, 1),
            ("(1,2) <= (a,b) <= (1,2)", true, 2),
            ("(1,2) <= (a,b) <= (1)", false, 2),
            ("(5) < (k)", false, 1),
            ("NULL < k", false, 1),
        ] {
            assert_eq!(range(text), Range { is_equality, columns }, "{text}");
        }
    }
}
