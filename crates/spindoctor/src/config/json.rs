//! JSON, schema `spindoctor.config/1`. Fields may be added; none is renamed or removed.

use serde::Serialize;
use spindoctor_page::json::to_text;

use super::file::Outcome;
use super::view::{Origin, Report};

/// The schema's name.
const SCHEMA: &str = "spindoctor.config/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    files: Vec<File<'a>>,
    values: Vec<Value<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    path: String,
    outcome: &'a str,
}

/// `values` is empty where nothing is set. `from` is `default`, `file`, `option file`, `environment`, `flag` or `target`.
#[derive(Serialize)]
struct Value<'a> {
    command: &'a str,
    name: &'a str,
    values: &'a [String],
    from: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<&'a str>,
}

/// The text.
pub fn render(report: &Report) -> serde_json::Result<String> {
    let files = report.files.iter().map(|(path, outcome)| File {
        path: path.display().to_string(),
        outcome: match outcome {
            Outcome::Read => "read",
            Outcome::Missing => "missing",
            Outcome::Unreadable => "unreadable",
        },
    });
    let values = report.values.iter().map(|value| {
        let (from, place, section, variable) = match &value.origin {
            Origin::Default => ("default", None, None, None),
            Origin::File { place, section } => ("file", Some(place), Some(section), None),
            Origin::OptionFile { place, group } => ("option file", Some(place), Some(group), None),
            Origin::Environment(variable) => ("environment", None, None, Some(*variable)),
            Origin::Flag => ("flag", None, None, None),
            Origin::Target => ("target", None, None, None),
        };
        Value {
            command: &value.command,
            name: &value.name,
            values: &value.values,
            from,
            place: place.map(String::as_str),
            section: section.map(String::as_str),
            variable,
        }
    });
    to_text(&Written { schema: SCHEMA, files: files.collect(), values: values.collect() })
}
