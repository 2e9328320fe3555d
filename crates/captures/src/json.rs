//! Result sets in JSON, as MySQL Shell and programs write them.

use std::collections::{HashMap, HashSet};

use spindoctor_collect::mysql::Rows;

use crate::rows::{MOST_COLUMNS, MOST_ROWS};

/// Values of a text in JSON that are read.
const MOST_VALUES: usize = 50_000;

/// Values and names of a text in JSON, by the marks between them: each takes some hundred bytes of memory where it is an object by itself.
const MOST_MARKS: usize = 2_000_000;

/// True for a text that has no more values than are read.
pub(crate) fn has_few_values(text: &str) -> bool {
    text.bytes().filter(|byte| b",[{".contains(byte)).count() <= MOST_MARKS
}

/// The result sets of a text in JSON: lists of objects, objects that have one (MySQL Shell), or an object for each row.
pub(crate) fn json(text: &str) -> Option<Vec<Rows>> {
    let text = text.trim();
    if !text.starts_with(['[', '{']) || !has_few_values(text) {
        return None;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let values: Vec<serde_json::Value> = values.take(MOST_VALUES).collect::<Result<_, _>>().ok()?;
    if !values.iter().any(has_list) {
        return objects(values).map(|rows| vec![rows]);
    }
    let lists = values.into_iter().flat_map(|value| match value {
        serde_json::Value::Array(list) => vec![list],
        value => lists_in(value, DEEPEST),
    });
    let sets: Vec<Rows> = lists.filter_map(objects).collect();
    (!sets.is_empty()).then_some(sets)
}

/// Objects in objects that are looked into for lists: `{"data": {"rows": [...]}}`.
const DEEPEST: usize = 4;

fn is_list_of_objects(value: &serde_json::Value) -> bool {
    value.as_array().and_then(|list| list.first()).is_some_and(serde_json::Value::is_object)
}

/// True for a list of what may be rows, and for what has one in it.
fn has_list(value: &serde_json::Value) -> bool {
    fn within(value: &serde_json::Value, deepest: usize) -> bool {
        is_list_of_objects(value)
            || deepest > 0
                && value.as_object().is_some_and(|map| map.values().any(|value| within(value, deepest - 1)))
    }
    value.as_array().is_some_and(|list| !list.is_empty()) || within(value, DEEPEST)
}

/// The lists of objects in an object, in order: what monitoring sends has lists of tags and of counts beside its list of sessions.
fn lists_in(value: serde_json::Value, deepest: usize) -> Vec<Vec<serde_json::Value>> {
    match value {
        value if is_list_of_objects(&value) => match value {
            serde_json::Value::Array(list) => vec![list],
            _ => Vec::new(),
        },
        serde_json::Value::Object(map) if deepest > 0 => {
            map.into_iter().flat_map(|(_, value)| lists_in(value, deepest - 1)).collect()
        }
        _ => Vec::new(),
    }
}

/// Rows by the names in their objects.
fn objects(list: Vec<serde_json::Value>) -> Option<Rows> {
    let mut columns: Vec<String> = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    let mut rows = Vec::new();
    for one in list.into_iter().take(MOST_ROWS) {
        let serde_json::Value::Object(one) = one else { return None };
        let cells: HashMap<String, serde_json::Value> =
            one.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let mut new: Vec<String> = cells.keys().filter(|name| !known.contains(*name)).cloned().collect();
        new.sort();
        known.extend(new.iter().cloned());
        columns.extend(new);
        if columns.len() > MOST_COLUMNS {
            return None;
        }
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        rows.push(columns.iter().map(|name| cells.get(name).and_then(text)).collect::<Vec<_>>());
    }
    rows.iter_mut().for_each(|row| row.resize(columns.len(), None));
    (!columns.is_empty()).then(|| Rows::new(columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_sessions_stand_beside_tags_and_in_objects() {
        for text in [
            r#"{"host": "db", "ddtags": ["env:x"], "mysql_activity": [{"processlist_id": 7, "sql_text": "DO 1"}]}"#,
            r#"{"data": {"columns": ["a"], "rows": [{"processlist_id": 7, "sql_text": "DO 1"}]}, "errors": []}"#,
            r#"[{"processlist_id": 7, "sql_text": "DO 1"}]"#,
        ] {
            let sets = json(text).unwrap();
            assert_eq!(sets[0].first().unwrap().text("sql_text"), Some("DO 1"), "{text}");
        }
        assert!(json(r#"{"a": ["b"]}"#).is_none_or(|sets| sets[0].first().unwrap().text("id").is_none()));
        assert!(json("[1, 2]").is_none());
    }

    #[test]
    fn a_text_of_nothing_but_values_is_not_taken_apart() {
        let row = r#"{"id": 7, "command": "Query"}"#;
        let list = |empty: usize| format!("[{row}{}]", ",{}".repeat(empty));
        assert_eq!(json(&list(10)).map(|sets| sets[0].len()), Some(11));
        assert!(json(&list(MOST_MARKS)).is_none());
    }
}
