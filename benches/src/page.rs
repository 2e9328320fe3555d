//! `BENCHMARKS.md`: sections and rows to Markdown.

use std::fmt::Write as _;

use crate::limits;
use crate::paired::short;

/// What one benchmark measured.
pub(crate) struct Section {
    /// The benchmark.
    pub(crate) name: &'static str,
    /// What is measured and how.
    pub(crate) story: &'static str,
    /// On which machine, with which versions, when.
    pub(crate) with: String,
    /// Of a benchmark with many scenarios those that were measured: the rows of the others stay. All where it is empty.
    pub(crate) only: Vec<String>,
    /// The numbers.
    pub(crate) rows: Vec<Row>,
}

/// One number.
pub(crate) struct Row {
    /// Of what.
    pub(crate) what: String,
    /// The number with its unit and spread.
    pub(crate) measured: String,
    /// The best of the other tools and ways that do the same in this run, with its number, and how many times ours it takes.
    pub(crate) peer: Option<(String, f64)>,
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
        Self { what: what.into(), measured: measured.into(), peer: None, goal: None }
    }

    /// A number with a goal.
    pub(crate) fn goal(
        what: impl Into<String>,
        measured: impl Into<String>,
        goal: impl Into<String>,
        reached: bool,
    ) -> Self {
        let verdict = if reached { Verdict::Reached } else { Verdict::Missed };
        Self { goal: Some((goal.into(), verdict)), ..Self::plain(what, measured) }
    }

    /// The same beside the best peer, `gdb: 1713 ms`, which takes so many times as much.
    pub(crate) fn beside(self, peer: impl Into<String>, times: f64) -> Self {
        Self { peer: Some((peer.into(), times)), ..self }
    }
}

/// The page: a summary, these sections, and those of an earlier page that were not measured again, in this order.
pub(crate) fn render(earlier: &str, sections: &[Section], order: &[&str]) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nWritten by `make bench`. Peers ran in the same run, interleaved. Where runs are repeated, the \
         median stands first and the smallest and largest in brackets.\n",
    );
    let mut texts: Vec<(&str, String)> = Vec::new();
    for name in order {
        let before = text_under(earlier, name);
        let section = sections.iter().find(|section| section.name == *name);
        let text = match (section, before) {
            (Some(section), Some(before)) if !section.only.is_empty() => section.markdown_among(before),
            (Some(section), _) => section.markdown(),
            (None, Some(before)) => format!("{before}\n"),
            (None, None) => continue,
        };
        texts.push((name, text));
    }
    page.push_str(&summary(&texts));
    page.push_str(&limits_of(&texts));
    for (name, text) in &texts {
        let _ = write!(page, "\n## {name}\n\n{text}");
    }
    page
}

/// The text of a page under this heading; None where it has none.
pub(crate) fn text_under<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let mut sections = page.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'));
    sections.find(|(heading, _)| *heading == name).map(|(_, text)| text.trim())
}

const HEAD: &str =
    "| what | measured | best peer | peer / ours | goal | reached |\n|---|---:|---|---:|---:|---|\n";

/// A benchmark with more rows with a goal has one line in the summary: so many scenarios are read where they stand.
const MANY: usize = 11;

/// All numbers with a goal, and those that stand beside another tool's, in one table. It is written from the text of
/// the sections, so that what was not measured again is in it with the day of its own run.
fn summary(sections: &[(&str, String)]) -> String {
    let mut text = String::from(
        "\n## Summary\n\nEvery number that has a goal, and every ratio to another tool or another way, of the sections below, each with \
         the day and the commit of its run. A benchmark with many scenarios has one line. `script/bench --stale` lists the sections \
         that are older than what they measure, and `script/bench --rerun-stale` measures exactly those again.\n\n\
         | benchmark | what | measured | best peer | peer / ours | goal | reached | run |\n|---|---|---:|---|---:|---:|---|---|\n",
    );
    for (name, section) in sections {
        let run = run(section);
        let rows: Vec<[&str; 6]> = section.lines().filter_map(cells).collect();
        let goals: Vec<&[&str; 6]> = rows.iter().filter(|[.., reached]| !reached.is_empty()).collect();
        if goals.len() > MANY {
            let reached = goals.iter().filter(|[.., reached]| *reached == "yes").count();
            let verdict = if reached == goals.len() { "yes" } else { "**no**" };
            let measured = format!("{reached} of {}", goals.len());
            let _ = writeln!(
                text,
                "| [{name}](#{name}) | goals reached | {measured} |  |  | all | {verdict} | {run} |"
            );
            continue;
        }
        for row @ [what, _, peer, .., reached] in &rows {
            if !reached.is_empty() || !peer.is_empty() || what.contains(" / ") {
                let _ = writeln!(text, "| [{name}](#{name}) | {} | {run} |", row.join(" | "));
            }
        }
    }
    text
}

/// What is not reached, or open, with the limit of each.
fn limits_of(sections: &[(&str, String)]) -> String {
    let missed: Vec<limits::Missed<'_>> = sections
        .iter()
        .flat_map(|(name, section)| {
            not_reached(section).map(|[what, measured, .., goal, _]| [*name, what, measured, goal])
        })
        .collect();
    if missed.is_empty() {
        return String::new();
    }
    format!(
        "\n## Not reached\n\nWhat is not reached, or open because the interval holds the goal, and what the limit is. Of a loss with the CPUs' \
         speed weighed and the same without that, the first stands here.\n\n{}",
        limits::markdown(&missed)
    )
}

/// The rows of a section whose goal is not reached, or open.
pub(crate) fn not_reached(section: &str) -> impl Iterator<Item = [&str; 6]> {
    let rows = section.lines().filter_map(cells);
    rows.filter(|[what, .., reached]| {
        !["", "yes"].contains(reached) && !what.ends_with("the CPUs' speed not weighed")
    })
}

/// The cells of a row of a section's table; None of its head and of other text. Sections that were measured before peers had columns
/// of their own have four.
fn cells(line: &str) -> Option<[&str; 6]> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let six = match cells[..] {
        [what, measured, goal, reached] => [what, measured, "", "", goal, reached],
        _ => <[&str; 6]>::try_from(cells).ok()?,
    };
    Some(six).filter(|[what, ..]| *what != "what")
}

/// A run that a section names.
pub(crate) struct Run<'a> {
    day: &'a str,
    /// `5ae2e0981c`, or `5ae2e0981c and changes`; None where it names none.
    pub(crate) commit: Option<&'a str>,
}

/// The runs of `Measured with spindoctor 0.1.0 (commit 5ae2e0981c), 2026-11-28, on ...` and of `... measured again with ...`, in order.
pub(crate) fn runs(section: &str) -> impl DoubleEndedIterator<Item = Run<'_>> {
    section.lines().filter_map(|line| {
        let (_, with) = line.split_once(if line.starts_with("Measured with ") {
            "Measured with "
        } else {
            " measured again with "
        })?;
        let (program, rest) = with.split_once(", ")?;
        let commit = program.split_once("(commit ").map(|(_, commit)| commit.trim_end_matches(')'));
        Some(Run { day: rest.split(", ").next()?, commit })
    })
}

/// `2026-11-28, 5ae2e0981c`; the newest of several.
fn run(section: &str) -> String {
    runs(section).next_back().map_or_else(String::new, |Run { day, commit }| {
        format!("{day}{}", commit.map_or_else(String::new, |commit| format!(", {commit}")))
    })
}

impl Section {
    fn markdown(&self) -> String {
        format!("{}\n\nMeasured with {}.\n\n{HEAD}{}", self.story, self.with, self.rows_markdown())
    }

    /// The same, in place of the rows of the same scenarios in an earlier page; at its end where it had none.
    fn markdown_among(&self, before: &str) -> String {
        let is_again = |row: &str| self.only.iter().any(|only| row.starts_with(&format!("| {only}, ")));
        let again = format!("{} measured again with {}.", self.only.join(", "), self.with);
        let measured = before
            .lines()
            .filter(|line| line.starts_with("Measured with ") || line.contains(" measured again with "));
        let measured = measured.filter(|line| {
            line.split_once(" measured again").is_none_or(|(of, _)| of != self.only.join(", "))
        });
        let measured: String = measured.map(|line| format!("{line}\n\n")).collect();
        let rows = || before.lines().filter_map(cells).map(|cells| format!("| {} |", cells.join(" | ")));
        let first = rows().take_while(|row| !is_again(row)).map(|row| format!("{row}\n"));
        let rest = rows().skip_while(|row| !is_again(row)).filter(|row| !is_again(row));
        let (first, rest): (String, String) = (first.collect(), rest.map(|row| format!("{row}\n")).collect());
        format!("{}\n\n{measured}{again}\n\n{HEAD}{first}{}{rest}", self.story, self.rows_markdown())
    }

    fn rows_markdown(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let (goal, verdict) = match &row.goal {
                None => ("", ""),
                Some((goal, Verdict::Reached)) => (goal.as_str(), "yes"),
                Some((goal, Verdict::Missed)) => (goal.as_str(), "**no**"),
                Some((goal, Verdict::Open)) => (goal.as_str(), "not enough evidence"),
            };
            let (peer, times) = match &row.peer {
                None => ("", String::new()),
                Some((peer, times)) => (peer.as_str(), short(*times)),
            };
            let _ =
                writeln!(text, "| {} | {} | {peer} | {times} | {goal} | {verdict} |", row.what, row.measured);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &'static str, number: &str) -> Section {
        let rows = vec![Row::goal("one snapshot", number, "<= 10 ms", true)];
        Section { name, story: "How.", with: "a machine".to_owned(), only: Vec::new(), rows }
    }

    #[test]
    fn a_scenario_that_was_measured_again_stands_where_it_stood_and_the_others_stay() {
        let rows = |numbers: &[(&str, &str)]| -> Vec<Row> {
            numbers.iter().map(|(of, number)| Row::plain(format!("{of}, MySQL: caught"), *number)).collect()
        };
        let whole = Section { rows: rows(&[("a", "1"), ("b", "2"), ("c", "3")]), ..section("stalls", "") };
        let page = render("", &[whole], &["stalls"]);
        let again = |with: &str, number: &str| Section {
            with: with.to_owned(),
            only: vec!["b".to_owned()],
            rows: rows(&[("b", number)]),
            ..section("stalls", "")
        };
        let page = render(&page, &[again("another", "4")], &["stalls"]);
        let page = render(&page, &[again("a third", "5")], &["stalls"]);
        assert!(
            page.contains("Measured with a machine.\n\nb measured again with a third.\n\n| what |"),
            "{page}"
        );
        let numbers: Vec<&str> =
            page.lines().filter_map(|line| line.split("caught | ").nth(1)?.split(' ').next()).collect();
        assert_eq!(numbers, ["1", "5", "3"]);
    }

    #[test]
    fn the_summary_has_every_goal_and_every_ratio_with_its_run() {
        let with =
            "spindoctor 0.1.0 (commit 5ae2e0981c), 2026-11-28, on a machine; peers: gdb 13.1".to_owned();
        let few = vec![
            Row::goal("one snapshot", "1 ms", "<= 10 ms", true).beside("gdb: 985 ms", 985.0),
            Row::plain("threads", "1031"),
        ];
        let many =
            (0..20).map(|at| Row::goal(format!("scenario {at}"), "3 of 3", "3 of 3", at != 4)).collect();
        let sections = [
            Section { with, rows: few, ..section("snapshot", "") },
            Section { rows: many, ..section("recorded-scenarios", "") },
        ];
        let order = ["snapshot", "recorded-scenarios"];
        let page = render("", &sections, &order);
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
        assert_eq!(
            rows,
            [
                "| [snapshot](#snapshot) | one snapshot | 1 ms | gdb: 985 ms | 985 | <= 10 ms | yes | 2026-11-28, 5ae2e0981c |",
                "| [recorded-scenarios](#recorded-scenarios) | goals reached | 19 of 20 |  |  | all | **no** |  |",
            ]
        );
        assert_eq!(render(&page, &[], &order), page, "it is the same where nothing was measured");
        let limits = text_under(&page, "Not reached").unwrap_or_default();
        assert!(
            limits.ends_with(
                "- [recorded-scenarios](#recorded-scenarios). scenario 4: 3 of 3 (3 of 3). Why is not known."
            ),
            "{limits}"
        );
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
