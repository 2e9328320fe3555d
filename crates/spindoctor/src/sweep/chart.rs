//! What a chart of sweeps draws: lines of points with their names, of one sweep or of two that are compared.

use spindoctor_tune::sweep::{Comparison, Line, Point, Scalability, Setting, Sweep};

use super::view::{self, facts, label, variables};

/// A chart: each quantity against the number of clients.
pub struct Chart<'a> {
    pub title: String,
    /// What the numbers were made with, a clause each.
    pub facts: Vec<String>,
    /// What the names of the lines are values of: `innodb_sync_spin_loops`.
    pub heading: String,
    /// Numbers of clients, in order.
    pub threads: Vec<u32>,
    pub lines: Vec<Drawn<'a>>,
    /// How many colours the lines have.
    pub colours: usize,
    /// What the lines mean, below the chart.
    pub key: &'static str,
}

/// A line of a chart.
pub struct Drawn<'a> {
    /// What stands at its end.
    pub name: String,
    /// What identifies it where the pointer rests on one of its points; empty for the only one.
    pub tooltip: String,
    pub points: Vec<&'a Point>,
    pub fit: Option<&'a Scalability>,
    /// Which colour; lines that share one belong together.
    pub colour: usize,
    /// True for the one of two that is compared with.
    pub is_dashed: bool,
}

impl Drawn<'_> {
    /// The point with the most clients that `is_drawn`.
    pub fn last(&self, is_drawn: impl Fn(&Point) -> bool) -> Option<&Point> {
        self.points.iter().rev().copied().find(|point| is_drawn(point))
    }
}

impl<'a> From<&'a Sweep> for Chart<'a> {
    fn from(sweep: &'a Sweep) -> Self {
        let line = |(at, line): (usize, &'a Line)| Drawn {
            name: label(line),
            tooltip: line.setting.text(),
            points: line.points.iter().collect(),
            fit: line.scalability.as_ref(),
            colour: at,
            is_dashed: false,
        };
        Self {
            title: view::title(sweep),
            facts: facts(sweep),
            heading: variables(sweep),
            threads: sweep.grid.threads.clone(),
            lines: sweep.lines.iter().enumerate().map(line).collect(),
            colours: sweep.lines.len(),
            key: "Points are medians, bars reach from the lowest run to the highest.",
        }
    }
}

/// The overlay of two sweeps: what both have, A dashed.
pub fn overlay(comparison: &Comparison) -> Chart<'_> {
    let values = |setting: &Setting| {
        let values: Vec<&str> = setting.0.iter().map(|assigned| assigned.value.as_str()).collect();
        values.join(" / ")
    };
    let name = |letter: &str, setting: &Setting| match values(setting) {
        none if none.is_empty() => letter.to_owned(),
        values => format!("{letter}: {values}"),
    };
    let tooltip = |letter: &str, setting: &Setting| match setting.text() {
        none if none.is_empty() => letter.to_owned(),
        text => format!("{letter}, {text}"),
    };
    let mut lines = Vec::new();
    for (colour, line) in comparison.lines.iter().enumerate() {
        let sides: [(&str, Vec<&Point>); 2] = [
            ("A", line.points.iter().map(|point| &point.a).collect()),
            ("B", line.points.iter().map(|point| &point.b).collect()),
        ];
        for (letter, points) in sides {
            lines.push(Drawn {
                name: name(letter, &line.setting),
                tooltip: tooltip(letter, &line.setting),
                points,
                fit: None,
                // One setting alone: the two have a colour each.
                colour: if comparison.lines.len() == 1 { lines.len() } else { colour },
                is_dashed: letter == "A",
            });
        }
    }
    let mut threads: Vec<u32> =
        comparison.lines.iter().flat_map(|line| line.points.iter().map(|point| point.threads)).collect();
    threads.sort_unstable();
    threads.dedup();
    let variables: Vec<&str> = comparison.lines.first().map_or(Vec::new(), |line| {
        line.setting.0.iter().map(|assigned| assigned.variable.as_str()).collect()
    });
    Chart {
        title: super::comparison::title(comparison),
        facts: super::comparison::facts(comparison),
        heading: variables.join(" / "),
        threads,
        colours: if comparison.lines.len() == 1 { 2 } else { comparison.lines.len() },
        lines,
        key: "Dashed: A; solid: B. Points are medians, bars reach from the lowest run to the highest.",
    }
}
