//! Two profiles compared: a table, a differential flame graph, folded stacks with two counts, JSON.
//!
//! First what the two machines are, what a query costs on each, and how much of that spins. Then the stacks:
//! shares are compared, not counts. The flame graph is drawn over the second profile, as Brendan Gregg's `difffolded.pl
//! | flamegraph.pl` does; functions of the first profile only have no width there and are in the table.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use anstyle::AnsiColor;
use serde::Serialize;

use super::counted::{Counted, LabelKind};
use super::difference::{changes, total};
use super::flame::{Box, Colour, Picture, Place, draw};
use super::formats::subject;
use super::measures::{Measures, lines};
use super::tree::Tree;
use super::view::View;
use super::{folded, svg};
use spindoctor_page::json::to_text;
use spindoctor_page::number;
use spindoctor_page::number::percent;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, Page, QUIET, STRONG, shortened};

/// A way to write a comparison.
pub struct DiffFormat {
    /// What `--format` calls it.
    pub name: &'static str,
    /// Writes it: the profile before and the one after.
    pub render: fn(&View<'_>, &View<'_>, Look) -> anyhow::Result<String>,
}

/// The formats that a comparison has; the first is what a terminal gets.
pub const DIFF_FORMATS: &[DiffFormat] = &[
    DiffFormat { name: "text", render: |before, after, look| Ok(text(before, after, look)) },
    DiffFormat { name: "folded", render: |before, after, _| Ok(folded(before, after)) },
    DiffFormat { name: "svg", render: |before, after, _| Ok(flame(before, after, Place::File)) },
    DiffFormat { name: "json", render: |before, after, _| Ok(json(before, after)?) },
];

/// Functions in the table.
const ROWS: usize = 30;
/// Changes below this share are noise: a thousandth is one observation of a thousand.
const LEAST_CHANGE: f64 = 0.001;

fn text(before: &View<'_>, after: &View<'_>, look: Look) -> String {
    let mut page = Page::new(look);
    for (word, view) in [("before", before), ("after", after)] {
        let line = format!(
            "{word:<7} {}, {}, {} in {}, {}",
            safe(subject(view.profile)),
            view.profile.start.strftime("%Y-%m-%d %H:%M:%S UTC"),
            number::counted(view.observations.len() as u64, "observation", "observations"),
            number::tenths(view.profile.seconds),
            number::counted(view.thread_count() as u64, "thread", "threads"),
        );
        page.hanging("", "        ", &line, STRONG);
    }
    page.blank();
    let measures = lines(before.profile, after.profile);
    let column = measures.iter().map(|line| line.name.len()).max().unwrap_or(0) + 2;
    for line in &measures {
        page.entry(line.name, &safe(&line.text), column);
    }
    page.blank();
    let (before, after) = (before.simplified(), after.simplified());
    let mut changed = changes(&before, &after);
    changed.retain(|change| {
        change.own_change().abs() >= LEAST_CHANGE || (change.total.1 - change.total.0).abs() >= LEAST_CHANGE
    });
    if changed.is_empty() {
        page.paragraph("", "No function's share changed.", STRONG);
        return page.finish();
    }
    page.push(&format!("{:10}own share{:15}with callees", "", ""));
    let head = format!("{:>8}{:>8}{:>9}{:>9}   {}", "before", "after", "change", "change", "function");
    let head = page.paint(QUIET, &head);
    page.push(&head);
    for change in changed.iter().take(ROWS) {
        let (own, total) = (change.own_change(), change.total.1 - change.total.0);
        let name = shortened(&safe(&change.label.name), look.width.saturating_sub(38));
        let colour = match if own.abs() >= LEAST_CHANGE { own } else { total } {
            change if change > 0.0 => AnsiColor::Red.on_default(),
            _ => AnsiColor::Green.on_default(),
        };
        let changes = page.paint(colour, &format!("{:>9}{:>9}", points(own), points(total)));
        page.push(&format!("{:>8}{:>8}{changes}   {name}", percent(change.own.0), percent(change.own.1)));
    }
    if changed.len() > ROWS {
        let rest = format!("{:>37}{} more changed less", "", changed.len() - ROWS);
        let rest = page.paint(QUIET, &rest);
        page.push(&rest);
    }
    page.finish()
}

/// A change of a share in percentage points: `+12.3`, `-0.4`.
fn points(change: f64) -> String {
    let points = change * 100.0;
    if points.abs() < 0.05 { "0".to_owned() } else { format!("{points:+.1}") }
}

/// `stack count count`, as difffolded.pl prints it and flamegraph.pl reads it.
fn folded(before: &View<'_>, after: &View<'_>) -> String {
    let mut lines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for stack in before.counted() {
        lines.entry(folded::path(&stack)).or_default().0 += stack.count;
    }
    for stack in after.counted() {
        lines.entry(folded::path(&stack)).or_default().1 += stack.count;
    }
    let mut text = String::new();
    for (path, (before, after)) in lines {
        let _ = writeln!(text, "{path} {before} {after}");
    }
    text
}

/// Red where a share grew, blue where it shrank, the stronger the more.
const COLOURS: &[Colour] = &[
    Colour { class: "up3", hue: 4.0, saturation: 0.80, light: 0.62, dark: 0.46 },
    Colour { class: "up2", hue: 4.0, saturation: 0.78, light: 0.76, dark: 0.36 },
    Colour { class: "up1", hue: 4.0, saturation: 0.70, light: 0.88, dark: 0.27 },
    Colour { class: "same", hue: 220.0, saturation: 0.06, light: 0.90, dark: 0.24 },
    Colour { class: "down1", hue: 214.0, saturation: 0.62, light: 0.88, dark: 0.27 },
    Colour { class: "down2", hue: 214.0, saturation: 0.70, light: 0.76, dark: 0.37 },
    Colour { class: "down3", hue: 214.0, saturation: 0.76, light: 0.63, dark: 0.47 },
];
/// Where a colour becomes stronger: changes of a share.
const STRONGER: [f64; 3] = [0.001, 0.01, 0.05];

fn class(change: f64) -> &'static str {
    let step = STRONGER.iter().filter(|bound| change.abs() >= **bound).count();
    match (change > 0.0, step) {
        (_, 0) => "same",
        (true, 1) => "up1",
        (true, 2) => "up2",
        (true, _) => "up3",
        (false, 1) => "down1",
        (false, 2) => "down2",
        (false, _) => "down3",
    }
}

/// The flame graph to stand within an HTML page: no script, no title, light and dark as the page.
pub fn within_page(before: &View<'_>, after: &View<'_>) -> String {
    flame(before, after, Place::Page)
}

fn flame(before: &View<'_>, after: &View<'_>, place: Place) -> String {
    let (stacks_before, stacks_after) = (before.simplified(), after.simplified());
    let all = (total(&stacks_before).max(1) as f64, total(&stacks_after).max(1) as f64);
    let shares_before = shares_of_paths(&stacks_before);
    let tree = Tree::from_stacks(&stacks_after);
    let paths = paths(&tree);
    let boxes = svg::places(&tree)
        .into_iter()
        .zip(&tree.nodes)
        .zip(&paths)
        .map(|((start, node), path)| {
            let was = shares_before.get(path).copied().unwrap_or(0.0);
            let is = node.total as f64 / all.1;
            let name = match node.label.kind {
                LabelKind::Inlined => format!("{} (inlined)", node.label.name),
                _ => node.label.name.to_string(),
            };
            Box {
                name,
                tooltip: format!(
                    "{} before, {} after, {} points",
                    percent(was),
                    percent(is),
                    points(is - was)
                ),
                depth: node.depth,
                start: start as f64 / all.1,
                share: if stacks_after.is_empty() { 1.0 } else { is },
                class: if node.depth == 0 { "same" } else { class(is - was) },
            }
        })
        .collect();
    let picture = Picture {
        title: format!("{}: what changed", subject(after.profile)),
        subtitle: format!(
            "drawn after ({}, {}), compared with before ({}, {})",
            after.profile.start.strftime("%H:%M:%S UTC"),
            number::counted(after.observations.len() as u64, "observation", "observations"),
            before.profile.start.strftime("%H:%M:%S UTC"),
            number::counted(before.observations.len() as u64, "observation", "observations"),
        ),
        legend: vec![
            ("up3", "grew by 5 points or more".to_owned()),
            ("up2", "by 1".to_owned()),
            ("up1", "by 0.1".to_owned()),
            ("same", "as before".to_owned()),
            ("down1", "shrank by 0.1".to_owned()),
            ("down2", "by 1".to_owned()),
            ("down3", "by 5 or more".to_owned()),
        ],
        boxes,
        colours: COLOURS,
    };
    draw(&picture, place)
}

/// A way from the root, as one text that no other way has.
fn path_of(parent: &str, name: &str) -> String {
    format!("{parent}\u{0}{name}")
}

fn paths(tree: &Tree<'_>) -> Vec<String> {
    let mut paths: Vec<String> = Vec::with_capacity(tree.nodes.len());
    for (at, node) in tree.nodes.iter().enumerate() {
        // A node stands behind its parent.
        paths.push(if at == 0 { String::new() } else { path_of(&paths[node.parent], &node.label.name) });
    }
    paths
}

fn shares_of_paths(stacks: &[Counted<'_>]) -> HashMap<String, f64> {
    let tree = Tree::from_stacks(stacks);
    let all = tree.total().max(1) as f64;
    paths(&tree).into_iter().zip(&tree.nodes).map(|(path, node)| (path, node.total as f64 / all)).collect()
}

/// Name and version of the JSON: fields may be added, none is renamed or removed.
const SCHEMA: &str = "spindoctor.profile-diff/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    before: Side<'a>,
    after: Side<'a>,
    functions: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Side<'a> {
    subject: &'a str,
    start: String,
    seconds: f64,
    observations: usize,
    threads: usize,
    #[serde(flatten)]
    measures: Measures<'a>,
}

#[derive(Serialize)]
struct Row<'a> {
    function: &'a str,
    own_before: f64,
    own_after: f64,
    total_before: f64,
    total_after: f64,
}

fn json(before: &View<'_>, after: &View<'_>) -> serde_json::Result<String> {
    let (stacks_before, stacks_after) = (before.simplified(), after.simplified());
    let changed = changes(&stacks_before, &stacks_after);
    let functions = changed.iter().map(|change| Row {
        function: &change.label.name,
        own_before: change.own.0,
        own_after: change.own.1,
        total_before: change.total.0,
        total_after: change.total.1,
    });
    let functions = functions.collect();
    to_text(&Written { schema: SCHEMA, before: side(before), after: side(after), functions })
}

fn side<'a>(view: &View<'a>) -> Side<'a> {
    Side {
        subject: subject(view.profile),
        start: view.profile.start.to_string(),
        seconds: view.profile.seconds,
        observations: view.observations.len(),
        threads: view.thread_count(),
        measures: Measures::from(view.profile),
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    use crate::examples;
    use crate::view::Choice;

    fn compared(format: &str) -> String {
        let (before, after) = (examples::busy(), examples::calmer());
        let choice = Choice::default();
        let (before, after) = (View::new(&before, &choice).unwrap(), View::new(&after, &choice).unwrap());
        let format = DIFF_FORMATS.iter().find(|known| known.name == format).unwrap();
        (format.render)(&before, &after, Look { width: 80, colour: false }).unwrap()
    }

    #[test]
    fn the_table_names_what_changed_most_first() {
        let text = compared("text");
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn folded_stacks_have_a_count_before_and_one_after() {
        for line in compared("folded").lines() {
            let counts: Vec<u64> = line.rsplitn(3, ' ').take(2).map(|count| count.parse().unwrap()).collect();
            assert!(counts.iter().sum::<u64>() > 0, "{line}");
        }
    }

    #[test]
    fn a_box_is_red_where_its_share_grew_and_blue_where_it_shrank() {
        let svg = compared("svg");
        assert!(svg.contains(r#"class="up3"#) || svg.contains("rect class=\"up3"), "{svg}");
        assert_eq!((class(0.2), class(-0.02), class(0.0), class(-0.000_1)), ("up3", "down2", "same", "same"));
    }

    #[test]
    fn the_json_has_shares_of_both_sides() {
        let json: serde_json::Value = serde_json::from_str(&compared("json")).unwrap();
        assert_eq!(json["schema"], "spindoctor.profile-diff/1");
        let sum: f64 =
            json["functions"].as_array().unwrap().iter().map(|row| row["own_after"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        for side in ["before", "after"] {
            for number in ["queries_per_s", "cpu_us_per_query", "spin_share", "kernel_spin_share"] {
                assert!(json[side][number].is_number(), "{side} {number}: {}", json[side]);
            }
            assert!(json[side]["machine"]["pause"]["ns"].is_number(), "{}", json[side]);
        }
    }
}
