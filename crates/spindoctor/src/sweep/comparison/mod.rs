//! `spindoctor sweep --compare A B`: two sweeps of one workload, of two machines, versions or settings, side by side.
//!
//! In: the JSON of both. Out: what their conditions differ in, the ratio of each quantity with its interval, an overlay of
//! both charts. What the numbers mean is [`Comparison`]'s.

mod csv;
mod html;
mod text;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use spindoctor_tune::sweep::{
    ComparedLine, ComparedPoint, Comparison, Place, Ratio, SWEEP_SCHEMA, Setting, Side, Sweep,
};

use super::args::Sweep as Asked;
use super::chart::overlay;
use super::view::Metric;
use super::{png, svg};
use crate::common::{output, terminal};
use spindoctor_page::{json, number};

/// No sweep is larger: 100,000 runs of some hundred bytes are below 64 MiB.
const LARGEST_BYTES: u64 = 256 << 20;
/// Settings that differ and are listed; the rest is counted. Two versions differ in some hundred.
const LISTED: usize = 40;

/// Compares the two, and writes what was asked for.
pub fn run(asked: &Asked, a: &Path, b: &Path) -> anyhow::Result<()> {
    let (one, two) = (read(a)?, read(b)?);
    let name = |path: &Path| path.display().to_string();
    let comparison = Comparison::from_sweeps((&name(a), &one), (&name(b), &two))?;
    let svg = svg::render(&overlay(&comparison));
    if let Some(file) = &asked.svg {
        output::write_file(file, &svg, "the charts")?;
    }
    if let Some(file) = &asked.png {
        let png = png::render(&svg).context("could not draw the charts")?;
        output::write_file(file, png, "the charts")?;
    }
    if let Some(file) = &asked.html {
        output::write_file(file, html::render(&comparison), "the page")?;
    }
    match (asked.json, asked.csv) {
        (true, _) => {
            output::print(&json::to_text(&comparison).context("could not write the comparison as JSON")?)
        }
        (_, true) => output::print_format("csv", csv::render(&comparison).as_bytes()),
        _ => output::print(&text::render(&comparison, terminal::look_of_stdout())),
    }
}

/// A sweep that `--json` printed.
fn read(path: &Path) -> anyhow::Result<Sweep> {
    let shown = path.display();
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("could not open {shown}"))?;
    let read = file.take(LARGEST_BYTES).read_to_string(&mut text);
    read.with_context(|| format!("could not read {shown}"))?;
    let sweep =
        parse(&text).with_context(|| format!("{shown} is not a sweep; write one with sweep --json"))?;
    Ok(sweep)
}

fn parse(text: &str) -> anyhow::Result<Sweep> {
    let sweep: Sweep = serde_json::from_str(text)?;
    if sweep.schema != SWEEP_SCHEMA {
        bail!("its schema is {}, not {SWEEP_SCHEMA}", sweep.schema);
    }
    if sweep.lines.iter().flat_map(|line| &line.points).any(|point| point.threads == 0) {
        bail!("it has a point of no clients");
    }
    Ok(sweep)
}

/// `Two sweeps compared: oltp_write_only at 1 to 256 clients`
pub fn title(comparison: &Comparison) -> String {
    let threads = || comparison.lines.iter().flat_map(|line| line.points.iter().map(|point| point.threads));
    let clients = match (threads().min(), threads().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most} clients"),
        (Some(only), _) => number::counted(u64::from(only), "client", "clients"),
        _ => String::new(),
    };
    format!("Two sweeps compared: {} at {clients}", comparison.a.conditions.workload)
}

/// Which is which, a clause each.
pub fn facts(comparison: &Comparison) -> Vec<String> {
    vec![side("A", &comparison.a), side("B", &comparison.b)]
}

/// `A: old.json, MySQL 5.7.26, 48 runs, 2026-11-26 18:10 UTC`
fn side(letter: &str, side: &Side) -> String {
    let when = side.start.map_or(String::new(), |at| at.strftime(", %Y-%m-%d %H:%M UTC").to_string());
    let runs = number::counted(side.runs as u64, "run", "runs");
    format!("{letter}: {}, {}, {runs}{when}", side.name, side.conditions.server)
}

/// What differs, each with A's and B's; and one more line where there are too many to list.
fn differences(comparison: &Comparison) -> (Vec<[String; 3]>, Vec<String>) {
    let all = &comparison.differences;
    let listed = all.iter().take(LISTED);
    let listed = listed.map(|found| [found.what.clone(), found.a.clone(), found.b.clone()]).collect();
    let mut beside = Vec::new();
    if all.len() > LISTED {
        beside.push(format!("{} more settings differ; --json has them", all.len() - LISTED));
    }
    for (letter, names) in ["A", "B"].into_iter().zip(&comparison.settings_of_one) {
        beside.extend(only_there(letter, names));
    }
    (listed, beside)
}

/// Settings that only one server has: named where they are few.
fn only_there(letter: &str, names: &[String]) -> Option<String> {
    const NAMED: usize = 6;
    let count = number::counted(names.len() as u64, "setting", "settings");
    match names.len() {
        0 => None,
        1..=NAMED => Some(format!("only {letter} has the {count} {}", names.join(", "))),
        _ => Some(format!("only {letter} has {count} of another version; --json has their names")),
    }
}

/// What nothing differs in where nothing was found.
const SAME: &str = "The recorded conditions are the same.";

/// Which has more throughput where, a sentence for each setting.
fn results(comparison: &Comparison) -> Vec<String> {
    let sentence = |line: &ComparedLine| {
        let name = line.setting.text();
        let name = if name.is_empty() { name } else { format!("{name}: ") };
        format!("{name}{}.", result(line))
    };
    comparison.lines.iter().map(sentence).collect()
}

fn result(line: &ComparedLine) -> String {
    let (mut more, mut less, mut unclear, mut unsure) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for point in &line.points {
        let Some(ratio) = point.ratios.transactions_per_s else { continue };
        let at = (point.threads, ratio.ratio);
        match ratio.is_more() {
            Some(true) => more.push(at),
            Some(false) => less.push(at),
            None if ratio.low.is_some() => unclear.push(at),
            None => unsure.push(at),
        }
    }
    let with_ratios = |what: &str, points: &[(u32, f64)]| {
        (!points.is_empty()).then(|| format!("{what} throughput at {} ({})", clients(points), span(points)))
    };
    let without = |what: &str, points: &[(u32, f64)]| {
        (!points.is_empty()).then(|| format!("{what} at {}", clients(points)))
    };
    let parts: Vec<String> = [
        with_ratios("B has more", &more),
        with_ratios("B has less", &less),
        without("no clear difference", &unclear),
        without("too few runs to be sure", &unsure),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "throughput was not measured".to_owned() } else { parts.join("; ") }
}

/// `1.4 to 2.1 times`
fn span(points: &[(u32, f64)]) -> String {
    let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    match (ratio_text(least), ratio_text(most)) {
        (one, other) if one == other => format!("{one} times"),
        (least, most) => format!("{least} to {most} times"),
    }
}

fn clients(points: &[(u32, f64)]) -> String {
    clients_text(&points.iter().map(|point| point.0).collect::<Vec<_>>())
}

/// `1, 4 and 16 clients`
fn clients_text(threads: &[u32]) -> String {
    let all: Vec<String> = threads.iter().map(ToString::to_string).collect();
    match all.as_slice() {
        [only] if only == "1" => "1 client".to_owned(),
        [only] => format!("{only} clients"),
        [all @ .., last] => format!("{} and {last} clients", all.join(", ")),
        [] => String::new(),
    }
}

/// Points that only one of the two has: `only A has innodb_spin_wait_delay = 6 at 1 and 4 clients`.
fn only_one_has(comparison: &Comparison) -> Vec<String> {
    let of_side = |letter: &str, places: &[Place]| {
        let mut by_setting: Vec<(Setting, Vec<u32>)> = Vec::new();
        for place in places {
            match by_setting.iter_mut().find(|(setting, _)| *setting == place.setting) {
                Some((_, threads)) => threads.push(place.threads),
                None => by_setting.push((place.setting.clone(), vec![place.threads])),
            }
        }
        let text = |(setting, threads): (Setting, Vec<u32>)| {
            let setting = setting.text();
            let setting = if setting.is_empty() { "runs".to_owned() } else { setting };
            format!("only {letter} has {setting} at {}", clients_text(&threads))
        };
        by_setting.into_iter().map(text).collect::<Vec<_>>()
    };
    let mut all = of_side("A", &comparison.only_a);
    all.extend(of_side("B", &comparison.only_b));
    all
}

/// `1.52`, and of what is far from 1 the digits that count.
fn ratio_text(ratio: f64) -> String {
    if (0.1..100.0).contains(&ratio) { format!("{ratio:.2}") } else { number::plain(ratio) }
}

/// `1.41 to 1.63`; nothing where there is no interval.
fn interval_text(ratio: &Ratio) -> Option<String> {
    Some(format!("{} to {}", ratio_text(ratio.low?), ratio_text(ratio.high?)))
}

/// Whether the change is for the better, where it is clear.
fn is_better(metric: &Metric, ratio: &Ratio) -> Option<bool> {
    Some(ratio.is_more()? == metric.more_is_better())
}

/// A metric of a point: A's median, B's, and the ratio where both have it.
fn cells(metric: &Metric, point: &ComparedPoint) -> (String, String, Option<Ratio>) {
    let shown = |spread: Option<spindoctor_tune::sweep::Spread>| {
        spread.map_or("-".to_owned(), |spread| metric.shown(rounded(spread.median)))
    };
    (shown((metric.of)(&point.a)), shown((metric.of)(&point.b)), (metric.ratio)(&point.ratios))
}

/// A hundred and more without decimals.
fn rounded(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { value }
}

fn is_measured(comparison: &Comparison, metric: &Metric) -> bool {
    let points = comparison.lines.iter().flat_map(|line| &line.points);
    points.into_iter().any(|point| (metric.of)(&point.a).is_some() || (metric.of)(&point.b).is_some())
}

/// What the interval is, said once.
const INTERVALS: &str = "B / A is the ratio of the geometric means of the runs, with its 95 % confidence interval (Welch); each \
                         interval is for its own point.";

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn a_file_that_is_no_sweep_is_refused() {
        let good = serde_json::to_string(&examples::spin_loops()).unwrap();
        assert!(parse(&good).is_ok());
        for (from, to, why) in [
            ("spindoctor.sweep/1", "spindoctor.sweep/2", "its schema is"),
            ("\"threads\":2,\"runs\"", "\"threads\":0,\"runs\"", "no clients"),
        ] {
            let spoilt = good.replace(from, to);
            assert_ne!(spoilt, good, "{from}");
            assert!(parse(&spoilt).unwrap_err().to_string().contains(why), "{why}");
        }
        assert!(parse("{}").is_err() && parse("").is_err());
    }

    #[test]
    fn a_sweep_of_an_older_version_is_read() {
        let mut old = serde_json::to_value(examples::spin_loops()).unwrap();
        for name in ["hardware", "settings"] {
            assert!(old.as_object_mut().unwrap().remove(name).is_some(), "{name}");
        }
        let old = parse(&old.to_string()).unwrap();
        assert_eq!(old.conditions.hardware, spindoctor_model::Machine::default());
    }

    #[test]
    fn the_points_with_more_and_those_with_less_are_named() {
        let comparison = examples::compared();
        let results = results(&comparison);
        assert_eq!(results.len(), 2, "{results:?}");
        assert!(
            results[0].starts_with("innodb_sync_spin_loops = 30: B has more throughput at"),
            "{results:?}"
        );
        assert_eq!(
            only_one_has(&comparison),
            [
                "only A has innodb_sync_spin_loops = 30 at 1024 clients",
                "only A has innodb_sync_spin_loops = 200 at 1024 clients"
            ]
        );
    }
}
