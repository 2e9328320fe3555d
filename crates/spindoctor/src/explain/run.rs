//! `spindoctor explain`: the catalogue of causes, as it is written on the rules.

use anyhow::{Context as _, bail};
use serde::Serialize;
use spindoctor_rules::{CAUSES, Cause};

use super::args::Explain;
use crate::common::exit::ExitStatus;
use crate::common::names::nearest;
use crate::common::{output, terminal};
use spindoctor_page::json;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, column_behind, one_line};

/// Prints one cause, or the list of all.
pub fn run(asked: &Explain) -> anyhow::Result<ExitStatus> {
    let causes = match &asked.cause {
        Some(name) => match spindoctor_rules::find(name) {
            Some(cause) => vec![cause],
            None => bail!("there is no cause named {name:?}; {}", what_else(name)),
        },
        None => CAUSES.iter().collect(),
    };
    let printed = if asked.json {
        json::to_text(&Catalogue::from_causes(&causes)).context("could not write the catalogue as JSON")?
    } else if let (Some(_), [cause]) = (&asked.cause, causes.as_slice()) {
        one(cause, terminal::look_of_stdout())
    } else {
        list(&causes, terminal::look_of_stdout())
    };
    output::print(&printed)?;
    Ok(ExitStatus::Done)
}

fn what_else(name: &str) -> String {
    nearest(name, CAUSES.iter().map(|cause| cause.name), "spindoctor explain")
}

fn list(causes: &[&Cause], look: Look) -> String {
    let mut page = Page::new(look);
    let column = column_behind(causes.iter().map(|cause| cause.name));
    for cause in causes {
        page.entry(cause.name, cause.title, column);
    }
    page.blank();
    page.paragraph("", "spindoctor explain CAUSE explains the problem, its evidence and what to do.", QUIET);
    page.finish()
}

fn one(cause: &Cause, look: Look) -> String {
    let mut page = Page::new(look);
    page.paragraph("", &format!("{}: {}", cause.name, cause.title), STRONG);
    for (heading, text) in cause.documentation() {
        page.blank();
        page.paragraph("", heading, STRONG);
        for (at, paragraph) in text.split("\n\n").enumerate() {
            if at > 0 {
                page.blank();
            }
            page.paragraph("    ", &one_line(paragraph), PLAIN);
        }
    }
    page.blank();
    page.paragraph("", "References", STRONG);
    for reference in cause.references {
        page.hanging("    ", "  ", reference, QUIET);
    }
    page.finish()
}

/// The catalogue for machines.
#[derive(Serialize)]
struct Catalogue {
    schema: &'static str,
    causes: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    cause: &'static str,
    title: &'static str,
    what: &'static str,
    why_it_hurts: &'static str,
    evidence: &'static str,
    looks_alike: &'static str,
    remedies: &'static str,
    safety: &'static str,
    references: &'static [&'static str],
}

impl Catalogue {
    fn from_causes(causes: &[&Cause]) -> Self {
        let entry = |cause: &&Cause| Entry {
            cause: cause.name,
            title: cause.title,
            what: cause.what,
            why_it_hurts: cause.why_it_hurts,
            evidence: cause.evidence,
            looks_alike: cause.looks_alike,
            remedies: cause.remedies,
            safety: cause.safety,
            references: cause.references,
        };
        Self { schema: "spindoctor.causes/1", causes: causes.iter().map(entry).collect() }
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn a_long_text_is_parted_into_paragraphs() {
        let cause = spindoctor_rules::find("checkpoint-stall").unwrap();
        let text = one(cause, Look { width: 80, colour: false });
        assert!(text.contains("\n\n    It fires when the log is filled"), "{text}");
        assert!(text.contains("\n\n    The estimate is"), "{text}");
    }

    #[test]
    fn every_cause_is_explained_within_80_columns() {
        for cause in CAUSES {
            let text = one(cause, Look { width: 80, colour: false });
            assert!(text.starts_with(&format!("{}: ", cause.name)));
            for line in text.lines() {
                assert!(line.width() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn the_titles_of_all_causes_stand_in_one_column_within_80_columns() {
        let causes: Vec<&Cause> = CAUSES.iter().collect();
        let text = list(&causes, Look { width: 80, colour: false });
        let column = CAUSES.iter().map(|cause| cause.name.len()).max().unwrap() + 2;
        let lines = text.lines().take_while(|line| !line.is_empty());
        for line in lines {
            assert!(line.width() <= 80, "{line}");
            assert!(line[..column].ends_with("  ") && !line[column..].starts_with(' '), "{line}");
        }
    }
}
