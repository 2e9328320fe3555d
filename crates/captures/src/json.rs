//! Result sets in JSON, as MySQL Shell and programs write them.

use std::collections::HashMap;

use spindoctor_collect::mysql::Rows;

use crate::rows::{MOST_COLUMNS, MOST_ROWS};

/// Values of a text in JSON that are read.
const MOST_VALUES: usize = 50_000;

/// The result sets of a text in JSON: lists of objects, objects that have one (MySQL Shell), or an object for each row.
pub(crate) fn json(text: &str) -> Option<Vec<Rows>> {
    let text = text.trim();
    if !text.starts_with('[') && !text.starts_with('{') {
        return None;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let values: Vec<serde_json::Value> = values.take(MOST_VALUES).collect::<Result<_, _>>().ok()?;
    let is_list = |value: &serde_json::Value| value.as_array().is_some_and(|list| !list.is_empty());
    let has_list = |value: &serde_json::Value| {
        is_list(value) || value.as_object().is_some_and(|map| map.values().any(is_list))
    };
    if !values.iter().any(has_list) {
        return objects(values).map(|rows| vec![rows]);
    }
    let lists = values.into_iter().filter_map(|value| match value {
        serde_json::Value::Array(list) => Some(list),
        serde_json::Value::Object(map) => map.into_iter().find_map(|(_, value)| match value {
            serde_json::Value::Array(list) if !list.is_empty() => Some(list),
            _ => None,
        }),
        _ => None,
    });
    let sets: Vec<Rows> = lists.filter_map(objects).collect();
    (!sets.is_empty()).then_some(sets)
}

/// Rows by the names in their objects.
fn objects(list: Vec<serde_json::Value>) -> Option<Rows> {
    let mut columns: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for one in list.into_iter().take(MOST_ROWS) {
        let serde_json::Value::Object(one) = one else { return None };
        let cells: HashMap<String, serde_json::Value> =
            one.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let mut new: Vec<String> = cells.keys().filter(|name| !columns.contains(name)).cloned().collect();
        new.sort();
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
