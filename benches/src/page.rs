//! `BENCHMARKS.md`: sections and rows to Markdown.

use std::fmt::Write as _;

/// What one benchmark measured.
pub(crate) struct Section {
    /// The benchmark.
    pub(crate) name: &'static str,
    /// What is measured and how.
    pub(crate) story: &'static str,
    /// On which machine, with which versions, when.
    pub(crate) with: String,
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

/// The page: these sections, and those of an earlier page that were not measured again, in this order.
pub(crate) fn render(earlier: &str, sections: &[Section], order: &[&str]) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nWritten by `make bench`. Peers ran in the same run, interleaved. Where runs are repeated, the \
         median stands first and the smallest and largest in brackets.\n",
    );
    let earlier: Vec<(&str, &str)> =
        earlier.split("\n## ").skip(1).filter_map(|s| s.split_once('\n')).collect();
    for name in order {
        if let Some(section) = sections.iter().find(|section| section.name == *name) {
            let _ = write!(page, "\n## {name}\n\n{}", section.told());
        } else if let Some((_, told)) = earlier.iter().find(|(earlier, _)| earlier == name) {
            let _ = write!(page, "\n## {name}\n\n{}\n", told.trim());
        }
    }
    page
}

impl Section {
    fn told(&self) -> String {
        let mut told = format!("{}\n\nMeasured with {}.\n\n", self.story, self.with);
        told.push_str("| what | measured | goal | reached |\n|---|---:|---:|---|\n");
        for row in &self.rows {
            let (goal, verdict) = match &row.goal {
                None => ("", ""),
                Some((goal, Verdict::Reached)) => (goal.as_str(), "yes"),
                Some((goal, Verdict::Missed)) => (goal.as_str(), "**no**"),
                Some((goal, Verdict::Open)) => (goal.as_str(), "not enough evidence"),
            };
            let _ = writeln!(told, "| {} | {} | {goal} | {verdict} |", row.what, row.measured);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &'static str, number: &str) -> Section {
        let rows = vec![Row::goal("one snapshot", number, "<= 10 ms", true)];
        Section { name, story: "How.", with: "a machine".to_owned(), rows }
    }

    #[test]
    fn what_was_not_measured_again_stays_as_it_was() {
        let order = ["snapshot", "throughput"];
        let both = render("", &[section("throughput", "2 %"), section("snapshot", "1 ms")], &order);
        assert!(both.find("## snapshot") < both.find("## throughput"), "{both}");
        let again = render(&both, &[section("throughput", "3 %")], &order);
        assert_eq!(again, both.replace("2 %", "3 %"));
    }
}
