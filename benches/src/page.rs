//! `BENCHMARKS.md`: sections and rows to Markdown.

use std::fmt::Write as _;

/// What one benchmark measured.
pub(crate) struct Section {
    /// The benchmark.
    pub(crate) name: &'static str,
    /// What is measured and how.
    pub(crate) story: &'static str,
    /// The numbers.
    pub(crate) rows: Vec<Row>,
}

/// One number.
pub(crate) struct Row {
    /// Of what.
    pub(crate) what: String,
    /// The number with its unit and spread.
    pub(crate) measured: String,
    /// What it must reach, and whether it does; none where it only stands beside another.
    pub(crate) goal: Option<(String, Verdict)>,
}

/// Whether a goal is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is.
    Reached,
    /// It is not.
    Missed,
    /// The interval holds the goal: there is not enough evidence for either.
    Open,
}

impl Row {
    /// A number without a goal.
    pub(crate) fn plain(what: impl Into<String>, measured: impl Into<String>) -> Self {
        Self { what: what.into(), measured: measured.into(), goal: None }
    }

    /// A number with a goal.
    pub(crate) fn goal(
        what: impl Into<String>,
        measured: impl Into<String>,
        goal: impl Into<String>,
        reached: bool,
    ) -> Self {
        let verdict = if reached { Verdict::Reached } else { Verdict::Missed };
        Self { what: what.into(), measured: measured.into(), goal: Some((goal.into(), verdict)) }
    }
}

/// The page.
pub(crate) fn render(told: &str, sections: &[Section]) -> String {
    let mut page = String::from("# Benchmarks\n\n");
    let _ = writeln!(
        page,
        "Written by `make bench` ({told}). Peers ran in the same run, interleaved. Where runs are repeated, the median \
         stands first and the smallest and largest in brackets.\n"
    );
    for section in sections {
        let _ = writeln!(page, "## {}\n\n{}\n", section.name, section.story);
        let _ = writeln!(page, "| what | measured | goal | reached |\n|---|---:|---:|---|");
        for row in &section.rows {
            let (goal, verdict) = match &row.goal {
                None => ("", ""),
                Some((goal, Verdict::Reached)) => (goal.as_str(), "yes"),
                Some((goal, Verdict::Missed)) => (goal.as_str(), "**no**"),
                Some((goal, Verdict::Open)) => (goal.as_str(), "not enough evidence"),
            };
            let _ = writeln!(page, "| {} | {} | {goal} | {verdict} |", row.what, row.measured);
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}
