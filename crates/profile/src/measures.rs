//! What a profile says beside its stacks, of the whole process: its machine, what a query costs, how much of that spins.
//! Two of them are compared line by line.

use serde::Serialize;
use spindoctor_model::{Machine, Profile};
use spindoctor_stacks::aggregate;

use spindoctor_page::number;

/// The measures of one profile. What is not known is none, never zero.
#[derive(Serialize)]
pub struct Measures<'a> {
    pub machine: &'a Machine,
    /// Statements of clients a second.
    pub queries_per_s: Option<f64>,
    /// CPU time of the process for each of them, microseconds.
    pub cpu_us_per_query: Option<f64>,
    /// CPU cycles for each of them.
    pub cycles_per_query: Option<f64>,
    /// CPU cycles for each instruction.
    pub cycles_per_instruction: Option<f64>,
    /// Why there are no cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<&'a str>,
    /// Share of the CPU samples in spin-wait loops of the process.
    pub spin_share: Option<f64>,
    /// In the kernel's spin locks.
    pub kernel_spin_share: Option<f64>,
    /// How many CPU samples those rest on.
    pub cpu_samples: u64,
}

/// A measure in both profiles.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub name: &'static str,
    pub text: String,
}

impl<'a> From<&'a Profile> for Measures<'a> {
    fn from(profile: &'a Profile) -> Self {
        let spin = aggregate::spin_share(profile);
        Self {
            machine: &profile.machine,
            queries_per_s: profile.work.and_then(|work| work.queries_per_s()),
            cpu_us_per_query: profile.work.and_then(|work| work.cpu_us_per_query()),
            cycles_per_query: profile.cycles_per_query(),
            cycles_per_instruction: profile.cycles.and_then(|cycles| cycles.per_instruction()),
            not_counted: profile.not_counted.as_deref(),
            spin_share: spin.map(|spin| spin.user),
            kernel_spin_share: spin.map(|spin| spin.kernel),
            cpu_samples: spin.map_or(0, |spin| spin.samples),
        }
    }
}

/// What a query of one profile costs, in one clause: `1234 queries/s, 512 µs CPU each`; none where nobody counted.
pub fn work_text(profile: &Profile) -> Option<String> {
    let measures = Measures::from(profile);
    let mut parts = vec![format!("{} queries/s", number::plain(measures.queries_per_s?.round()))];
    parts.extend(measures.cpu_us_per_query.map(|us| format!("{} CPU each", number::quantity(us, "us"))));
    parts.extend(measures.cycles_per_query.map(|cycles| format!("{} cycles each", cycles_text(cycles))));
    parts.extend(
        measures.cycles_per_instruction.map(|cycles| format!("{} cycles/instruction", number::plain(cycles))),
    );
    Some(parts.join(", "))
}

/// Both, line by line; what neither knows is left out.
pub fn lines(before: &Profile, after: &Profile) -> Vec<Line> {
    let (before, after) = (Measures::from(before), Measures::from(after));
    let mut lines = Vec::new();
    let texts: [(&str, Text); 3] = [
        ("CPU", |machine| machine.cpu_text()),
        ("PAUSE", |machine| machine.pause_text()),
        ("kernel", |machine| machine.kernel.clone()),
    ];
    for (name, text) in texts {
        lines.extend(same_or_both(name, text(before.machine), text(after.machine)));
    }
    let shares = |share: f64| number::percent(share);
    let numbers: [(&str, Pick, Shown, Change); 6] = [
        ("queries", |m| m.queries_per_s, |rate| format!("{}/s", number::plain(rate.round())), relative),
        ("CPU per query", |m| m.cpu_us_per_query, |us| number::quantity(us, "us"), relative),
        ("cycles per query", |m| m.cycles_per_query, cycles_text, relative),
        ("cycles per instruction", |m| m.cycles_per_instruction, number::plain, relative),
        ("spinning", |m| m.spin_share, shares, points),
        ("spinning in the kernel", |m| m.kernel_spin_share, shares, points),
    ];
    for (name, pick, shown, change) in numbers {
        let text = match (pick(&before), pick(&after)) {
            (None, None) => continue,
            (Some(before), Some(after)) => {
                let changed = change(before, after).map_or(String::new(), |change| format!(", {change}"));
                format!("{} before, {} after{changed}", shown(before), shown(after))
            }
            (before, after) => both(before.map(shown), after.map(shown)),
        };
        lines.push(Line { name, text });
    }
    if before.cycles_per_query.is_none() || after.cycles_per_query.is_none() {
        lines.extend(why_no_cycles(before.not_counted, after.not_counted));
    }
    lines
}

type Text = fn(&Machine) -> Option<String>;
type Pick = fn(&Measures<'_>) -> Option<f64>;
type Shown = fn(f64) -> String;
type Change = fn(f64, f64) -> Option<String>;

fn why_no_cycles(before: Option<&str>, after: Option<&str>) -> Option<Line> {
    let text = match (before, after) {
        (None, None) => return None,
        (Some(before), Some(after)) if before == after => format!("unavailable: {before}"),
        (Some(before), None) => format!("unavailable before: {before}"),
        (None, Some(after)) => format!("unavailable after: {after}"),
        (Some(before), Some(after)) => format!("unavailable before: {before}; after: {after}"),
    };
    Some(Line { name: "cycles", text })
}

fn same_or_both(name: &'static str, before: Option<String>, after: Option<String>) -> Option<Line> {
    match (before, after) {
        (None, None) => None,
        (Some(before), Some(after)) if before == after => Some(Line { name, text: before }),
        (before, after) => Some(Line { name, text: both(before, after) }),
    }
}

fn both(before: Option<String>, after: Option<String>) -> String {
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    format!("{} before; {} after", known(before), known(after))
}

/// `+58 %`; none where there was nothing before.
fn relative(before: f64, after: f64) -> Option<String> {
    let change = after / before - 1.0;
    let sign = if change < 0.0 { "-" } else { "+" };
    change.is_finite().then(|| format!("{sign}{}", number::percent(change.abs())))
}

/// A change of a share: `-22.4 points`.
fn points(before: f64, after: f64) -> Option<String> {
    Some(format!("{:+.1} points", (after - before) * 100.0))
}

/// `1.41 million`
fn cycles_text(cycles: f64) -> String {
    match cycles {
        few if few < 1e6 => number::plain(few.round()),
        many if many < 1e9 => format!("{} million", number::plain(many / 1e6)),
        most => format!("{} billion", number::plain(most / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{CycleCount, Work};

    use super::*;

    use crate::examples;

    fn text(lines: &[Line], name: &str) -> String {
        lines.iter().find(|line| line.name == name).map_or(String::new(), |line| line.text.clone())
    }

    #[test]
    fn what_a_query_costs_before_and_after_with_the_change() {
        let (mut before, mut after) = (examples::busy(), examples::calmer());
        before.work = Some(Work { seconds: 10.0, queries: 12_000, cpu_us: Some(6_000_000) });
        after.work = Some(Work { seconds: 10.0, queries: 18_000, cpu_us: Some(4_500_000) });
        before.cycles =
            Some(CycleCount { seconds: 10.0, cycles: 18_000_000_000, instructions: 9_000_000_000 });
        (after.cycles, after.not_counted) = (None, Some("no PMU".to_owned()));
        before.machine.kernel = Some("2.6.32".to_owned());
        after.machine.kernel = Some("3.10.0".to_owned());
        let lines = lines(&before, &after);
        assert_eq!(text(&lines, "queries"), "1200/s before, 1800/s after, +50 %");
        assert_eq!(text(&lines, "CPU per query"), "500 µs before, 250 µs after, -50 %");
        assert_eq!(text(&lines, "cycles per query"), "1.5 million before; unknown after");
        assert_eq!(text(&lines, "cycles"), "unavailable after: no PMU");
        assert_eq!(text(&lines, "kernel"), "2.6.32 before; 3.10.0 after");
        assert!(text(&lines, "spinning").contains("points"), "{lines:?}");
        assert_eq!(
            work_text(&before).unwrap(),
            "1200 queries/s, 500 µs CPU each, 1.5 million cycles each, 2 cycles/instruction"
        );
    }

    #[test]
    fn files_of_before_have_nothing_to_say_beside_their_spinning() {
        let mut old = examples::busy();
        (old.machine, old.work, old.cycles) = Default::default();
        let names: Vec<&str> = lines(&old, &old).iter().map(|line| line.name).collect();
        assert_eq!(names, ["spinning", "spinning in the kernel"]);
        assert_eq!(work_text(&old), None);
    }
}
