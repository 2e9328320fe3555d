//! What must hold of an answer, in one line: a place, a relation, a value.
//!
//! ```text
//! roots.0.connection_id = {holder}      that place of the JSON is what is known of the server
//! findings.*.severity never critical    no member of the list is
//! left.# > 8                            a list's length
//! stdout has LIVE|DEAD                  text, blanks and case aside, with one of these in it
//! {changed} = 0                         what is known of the server after the command
//! exit = 2                              how the command ended: 0, where nothing is said
//! ```

use std::cmp::Ordering;

use serde_json::Value;

use super::ran::Ran;
use super::scene::Scene;

/// Whether all of it holds; an error says what does not, and what was found instead.
pub(super) fn all_hold(expects: &[&str], scene: &Scene, ran: &Ran) -> Result<(), String> {
    if !expects.iter().any(|expected| expected.starts_with("exit ")) && ran.code != Some(0) {
        return Err(format!("it ended with {:?}", ran.code));
    }
    let answer = ran.answer();
    for expected in expects {
        one_holds(expected, &answer, &|name| scene.known(name))?;
    }
    Ok(())
}

fn one_holds(expected: &str, answer: &Value, known: &dyn Fn(&str) -> String) -> Result<(), String> {
    let (place, relation, value) =
        parts(expected).ok_or_else(|| format!("{expected:?} is no expectation"))?;
    let value = filled_in(value, known);
    let found = match place.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
        Some(name) => vec![known(name)],
        None => at(answer, place).ok_or_else(|| format!("wrong: it has no {place}"))?,
    };
    let is_any = |holds: &dyn Fn(&str, &str) -> bool| {
        value.split('|').any(|value| found.iter().any(|found| holds(found, value)))
    };
    let holds = match relation {
        "=" => is_any(&|found, value| found == value || compare(found, value).is_some_and(Ordering::is_eq)),
        "has" => is_any(&|found, value| plain(found).contains(&plain(value))),
        "never" => !is_any(&|found, value| found == value),
        ">" => is_any(&|found, value| compare(found, value).is_some_and(Ordering::is_gt)),
        "<" => is_any(&|found, value| compare(found, value).is_some_and(Ordering::is_lt)),
        relation => return Err(format!("{relation:?} is no relation")),
    };
    let shown = || found.iter().map(|found| found.chars().take(80).collect()).collect::<Vec<String>>();
    if holds { Ok(()) } else { Err(format!("wrong: {expected} ({value}), but {:?}", shown())) }
}

/// Place, relation and value. A place without blanks, or one name in braces.
fn parts(expected: &str) -> Option<(&str, &str, &str)> {
    let end = if expected.starts_with('{') { expected.find('}')? + 1 } else { expected.find(' ')? };
    let (place, rest) = expected.split_at(end);
    let (relation, value) = rest.strip_prefix(' ')?.split_once(' ')?;
    Some((place, relation, value))
}

/// What stands at a place, as text; none where a list on the way there is missing.
fn at(answer: &Value, place: &str) -> Option<Vec<String>> {
    let mut values = vec![answer];
    for step in place.split('.') {
        values = match step {
            "#" => return values.iter().map(|list| Some(list.as_array()?.len().to_string())).collect(),
            "*" => {
                let lists: Option<Vec<_>> = values.iter().map(|list| list.as_array()).collect();
                lists?.into_iter().flatten().collect()
            }
            step => values
                .iter()
                .map(|value| step.parse::<usize>().map_or_else(|_| value.get(step), |at| value.get(at)))
                .collect::<Option<_>>()?,
        };
    }
    let text = |value: &&Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(values.iter().map(text).collect())
}

/// A value with what is known of the server in it.
fn filled_in(value: &str, known: &dyn Fn(&str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        filled.push_str(&known(name));
        rest = after;
    }
    filled + rest
}

fn compare(found: &str, value: &str) -> Option<Ordering> {
    found.parse::<f64>().ok()?.partial_cmp(&value.parse().ok()?)
}

/// Without what differs between screens and versions: quotes, case, and how many blanks there are.
fn plain(text: &str) -> String {
    let starts = if text.starts_with(' ') { " " } else { "" };
    let ends = if text.ends_with(char::is_whitespace) { " " } else { "" };
    let words = text.replace('`', "").to_lowercase();
    format!("{starts}{}{ends}", words.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(expected: &str) -> bool {
        let answer = json!({
            "stdout": "Update  `sbtest1` by\n connection 12.",
            "roots": [{ "id": 12, "holds": { "kind": "row" } }, { "id": null }],
            "findings": [],
            "cpus": 2.0,
        });
        one_holds(expected, &answer, &|name| if name == "holder" { "12".into() } else { "null".into() })
            .is_ok()
    }

    #[test]
    fn what_holds_and_what_does_not() {
        for right in [
            "roots.0.id = {holder}",
            "roots.1.id = {a variable that is not there}",
            "roots.# = 2",
            "roots.*.id = 12",
            "roots.0.holds.kind = table|row",
            "cpus = 2",
            "cpus > 1.5",
            "findings.*.severity never critical",
            "stdout has update SBTEST1 by|no",
            "stdout has by connection {holder}",
            "stdout has a = b|12.",
            "{holder} < 13",
        ] {
            assert!(holds(right), "{right}");
        }
        for wrong in [
            "roots.0.id = 1",
            "roots.2.id = null",
            "roots.*.id never 12",
            "found.*.severity never critical",
            "cpus < 2",
            "stdout has connection {holder} ",
            "no relation here",
            "stdout",
        ] {
            assert!(!holds(wrong), "{wrong}");
        }
    }
}
