//! The values as text, a line each: the name, the value, where it comes from.

use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};
use unicode_width::UnicodeWidthStr as _;

use super::file::Outcome;
use super::view::{Origin, Report, Value};

/// A value that is wider than this does not widen the column of all others.
const WIDEST_VALUE: usize = 28;

/// The page.
pub fn render(report: &Report, look: Look) -> String {
    let mut page = Page::new(look);
    let files = page.paint(STRONG, "Configuration files");
    page.push(&files);
    for (path, outcome) in &report.files {
        let what = match outcome {
            Outcome::Read => "read",
            Outcome::Missing => "not there",
            Outcome::Unreadable => "not readable for this account: passed over",
        };
        page.push(&format!("  {}: {what}", safe(&path.display().to_string())));
    }
    if report.files.is_empty() {
        page.push("  none is read");
    }
    let name_width = report.values.iter().map(|value| value.name.width()).max().unwrap_or(0);
    let values = report.values.iter().map(|value| shown(value).width());
    let value_width = values.filter(|width| *width <= WIDEST_VALUE).max().unwrap_or(0);
    let mut command = None;
    for value in &report.values {
        if command != Some(&value.command) {
            page.blank();
            let title = page.paint(STRONG, &value.command);
            page.push(&title);
            command = Some(&value.command);
        }
        let line = format!(
            "  {:name_width$}  {}  {}",
            value.name,
            padded(&shown(value), value_width),
            origin(&value.origin)
        );
        let style = if value.origin == Origin::Default { QUIET } else { PLAIN };
        let line = page.paint(style, &line);
        page.push(&line);
    }
    if report.values.is_empty() {
        page.blank();
        page.push("No file sets anything: `spindoctor config show COMMAND` shows the values of a command.");
    }
    page.finish()
}

fn shown(value: &Value) -> String {
    match value.values.as_slice() {
        [] => "-".to_owned(),
        values => safe(&values.join(", ")),
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File { place, section } => safe(&format!("{place} {section}")),
        Origin::OptionFile { place, group } => safe(&format!("{place} [{group}]")),
        Origin::Environment(variable) => (*variable).to_owned(),
        Origin::Flag => "flag".to_owned(),
        Origin::Target => "TARGET".to_owned(),
    }
}
