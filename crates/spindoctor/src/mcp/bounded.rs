//! JSON that is short enough to be read by an assistant: long lists and texts are cut, and it is said.

use serde_json::Value;
use spindoctor_page::number;

/// Bytes of an answer at most: some 20,000 tokens.
pub const MOST_BYTES: usize = 64 << 10;

/// How many entries of each list, and characters of each text, stay: tried one after the other.
const CUTS: [(usize, usize); 7] =
    [(200, 4_000), (100, 2_000), (50, 1_000), (25, 600), (12, 400), (6, 200), (3, 100)];

/// The JSON, with so much of its lists and texts as there is room for; what is no JSON is cut at its end.
pub fn bounded(text: &str, most_bytes: usize) -> String {
    if text.len() <= most_bytes {
        return text.to_owned();
    }
    let Ok(whole) = serde_json::from_str::<Value>(text) else {
        return cut_text(text, most_bytes);
    };
    for (entries, characters) in CUTS {
        let mut value = whole.clone();
        let mut left_out = 0;
        cut(&mut value, entries, characters, &mut left_out);
        if let Value::Object(fields) = &mut value {
            let parts = number::counted(
                left_out as u64,
                "entry or end of a text is",
                "entries and ends of texts are",
            );
            let note = format!("{parts} left out: ask for less time or fewer rows");
            fields.insert("left_out".to_owned(), Value::String(note));
        }
        let short = value.to_string();
        if short.len() <= most_bytes {
            return short;
        }
    }
    cut_text(text, most_bytes)
}

fn cut(value: &mut Value, entries: usize, characters: usize, left_out: &mut usize) {
    match value {
        Value::Array(list) => {
            *left_out += list.len().saturating_sub(entries);
            list.truncate(entries);
            list.iter_mut().for_each(|one| cut(one, entries, characters, left_out));
        }
        Value::Object(fields) => fields.values_mut().for_each(|one| cut(one, entries, characters, left_out)),
        Value::String(text) => {
            if let Some((at, _)) = text.char_indices().nth(characters) {
                text.truncate(at);
                text.push('…');
                *left_out += 1;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut_text(text: &str, most_bytes: usize) -> String {
    const NOTE: &str = "\n(the rest is left out)";
    let at =
        (0..=most_bytes.saturating_sub(NOTE.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{NOTE}", &text[..at])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_too_long_is_cut_and_stays_json() {
        let long =
            json!({"rows": (0..500).map(|n| json!({"n": n, "text": "é".repeat(900)})).collect::<Vec<_>>()});
        let short = bounded(&long.to_string(), MOST_BYTES);
        assert!(short.len() <= MOST_BYTES && short.len() > MOST_BYTES / 8, "{}", short.len());
        let value: Value = serde_json::from_str(&short).unwrap();
        assert!(value["left_out"].as_str().unwrap().starts_with(char::is_numeric));
        assert_eq!(value["rows"][0]["n"], 0);
        let fits = json!({"a": [1, 2]}).to_string();
        assert_eq!(bounded(&fits, MOST_BYTES), fits);
    }

    #[test]
    fn what_is_no_json_or_cannot_be_made_short_is_cut_at_its_end() {
        let text = "é".repeat(1_000);
        assert!(bounded(&text, 101).len() <= 101);
        let many: serde_json::Map<String, Value> =
            (0..500).map(|n| (format!("field {n}"), json!(n))).collect();
        let short = bounded(&Value::Object(many).to_string(), 300);
        assert!(short.len() <= 300 && short.ends_with("left out)"), "{short}");
    }
}
