//! `ANALYZE FORMAT=JSON` of MariaDB: the pages that a run asked InnoDB for while it read rows, by its own count and
//! nobody else's. What its plan asked for is not among them: on 10.11 a run that dives 380 times reports the two pages
//! of its row.
//!
//! In: the answer, JSON. Out: pages asked for and read from disk, summed over the statement's tables; none where the server
//! does not count them (it does from 10.6.15, 10.11.5 and 11.0.3 on, MDEV-31577). Pure.

use serde_json::Value;

/// Pages of a run: asked for, and read from disk for it.
// {"query_block": {..., "nested_loop": [{"table": {..., "r_engine_stats": {"pages_accessed": 383, "pages_read_count": 4}}}]}}
pub fn pages(json: &str) -> Option<(f64, f64)> {
    let answer: Value = serde_json::from_str(json).ok()?;
    let mut found = None;
    collect(&answer, &mut found);
    found
}

fn collect(part: &Value, found: &mut Option<(f64, f64)>) {
    match part {
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, found)),
        Value::Object(fields) => {
            for (name, part) in fields {
                if name == "r_engine_stats" {
                    let count = |name: &str| part.get(name).and_then(Value::as_f64).unwrap_or_default();
                    let (asked, read) = found.get_or_insert((0.0, 0.0));
                    *asked += count("pages_accessed");
                    *read += count("pages_read_count");
                } else {
                    collect(part, found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_all_tables_are_added_up() {
        let answer = r#"{"query_block": {"select_id": 1, "nested_loop": [
            {"table": {"table_name": "a", "r_rows": 1, "r_engine_stats": {"pages_accessed": 383, "pages_read_count": 4}}},
            {"table": {"table_name": "b", "r_engine_stats": {"pages_accessed": 2}}}]}}"#;
        assert_eq!(pages(answer), Some((385.0, 4.0)));
    }

    #[test]
    fn a_server_that_does_not_count_shows_nothing() {
        assert_eq!(pages(r#"{"query_block": {"table": {"table_name": "a"}}}"#), None);
        assert_eq!(pages(""), None);
    }
}
