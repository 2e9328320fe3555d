//! The call graph with its weights, for graphviz: `dot -Tsvg`.
//!
//! A box for each function with its own share and its share with all that it called, an arrow for each call with the
//! share that went through it. Functions below half a percent are left out, and counted in the title.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::counted::{Label, LabelKind};
use super::formats::subject;
use super::tree::functions;
use super::view::View;
use spindoctor_page::dot;
use spindoctor_page::number;
use spindoctor_page::number::percent;

/// Functions and calls below this share are left out: go's pprof draws its graphs so (`-nodefraction 0.005`).
const LEAST_SHARE: f64 = 0.005;
/// Boxes at most, the heaviest: more cannot be read (pprof's `-nodecount 80`).
const MOST_NODES: usize = 80;
/// Points of the smallest and of the largest name.
const FONT: (f64, f64) = (9.0, 26.0);

/// The graph as graphviz reads it.
pub fn render(view: &View<'_>) -> String {
    let (busy, _) = view.split_idle();
    let stacks = if busy.observations.is_empty() { view.simplified() } else { busy.simplified() };
    let all = stacks.iter().map(|stack| stack.count).sum::<u64>().max(1) as f64;
    let mut heaviest = functions(&stacks);
    let known = heaviest.len();
    heaviest.sort_by(|a, b| b.total.cmp(&a.total).then(b.own.cmp(&a.own)).then(a.label.cmp(&b.label)));
    heaviest.retain(|function| function.total as f64 / all >= LEAST_SHARE);
    heaviest.truncate(MOST_NODES);
    let numbers: HashMap<&Label<'_>, usize> =
        heaviest.iter().enumerate().map(|(number, function)| (&function.label, number)).collect();

    let mut calls: HashMap<(usize, usize), (u64, bool)> = HashMap::new();
    let mut counted: HashSet<(usize, usize)> = HashSet::new();
    for stack in &stacks {
        counted.clear();
        let mut caller: Option<(usize, usize)> = None;
        for (at, label) in stack.labels.iter().enumerate().skip(1) {
            let Some(callee) = numbers.get(label) else { continue };
            if let Some((place, caller)) = caller
                && counted.insert((caller, *callee))
            {
                let call = calls.entry((caller, *callee)).or_default();
                call.0 += stack.count;
                // Functions that were left out stand between the two.
                call.1 |= at > place + 1;
            }
            caller = Some((at, *callee));
        }
    }

    let title = format!(
        "{}, {}{}",
        subject(view.profile),
        number::counted(all as u64, "observation", "observations"),
        match known - heaviest.len() {
            0 => String::new(),
            left_out => format!(", {left_out} lighter functions left out"),
        }
    );
    let mut text = String::new();
    let _ = writeln!(text, "digraph \"stacks\" {{");
    let _ = writeln!(text, "  label=\"{}\"; labelloc=t; fontname=\"Helvetica\";", dot::text(&title));
    let _ = writeln!(text, "  node [shape=box, style=filled, fontname=\"Helvetica\", color=\"#555555\"];");
    let _ = writeln!(text, "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#777777\"];");
    for (number, function) in heaviest.iter().enumerate() {
        let (own, total) = (function.own as f64 / all, function.total as f64 / all);
        let shares = match function.own {
            0 => percent(total),
            _ if function.own == function.total => percent(own),
            _ => format!("{} of {}", percent(own), percent(total)),
        };
        let _ = writeln!(
            text,
            "  n{number} [label=\"{}\\n{shares}\", fontsize={:.0}, fillcolor=\"{}\"];",
            dot::text(&function.label.name),
            FONT.0 + (FONT.1 - FONT.0) * own.sqrt(),
            fill(&function.label, total),
        );
    }
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(&b.0)));
    for ((caller, callee), (count, is_indirect)) in calls {
        let share = count as f64 / all;
        if share < LEAST_SHARE {
            continue;
        }
        let style = if is_indirect { ", style=dashed" } else { "" };
        let _ = writeln!(
            text,
            "  n{caller} -> n{callee} [label=\" {}\", penwidth={:.1}, weight={}{style}];",
            percent(share),
            1.0 + 5.0 * share,
            1 + (share * 100.0) as u64,
        );
    }
    text.push_str("}\n");
    text
}

/// Warmer where more time goes; the kernel in green, what is no function in grey.
fn fill(label: &Label<'_>, share: f64) -> String {
    let (red, green, blue) = match label.kind {
        LabelKind::Kernel => (214.0, 236.0, 222.0),
        LabelKind::End | LabelKind::Group => (228.0, 228.0, 228.0),
        LabelKind::User | LabelKind::Inlined => (250.0, 244.0 - 104.0 * share, 232.0 - 132.0 * share),
    };
    format!("#{:02x}{:02x}{:02x}", red as u8, green as u8, blue as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::Choice;

    #[test]
    fn a_call_graph_has_shares_on_boxes_and_arrows() {
        let profile = examples::busy();
        insta::assert_snapshot!(render(&View::new(&profile, &Choice::default()).unwrap()));
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let profile = examples::hostile();
        let text = render(&View::new(&profile, &Choice::default()).unwrap());
        for line in text.lines() {
            let unescaped = line.replace("\\\\", "").replace("\\\"", "");
            assert_eq!(unescaped.matches('"').count() % 2, 0, "{line}");
        }
        assert!(text.contains(r#"q\"uo\\te"#), "{text}");
    }

    #[test]
    fn a_function_that_calls_itself_is_one_box_with_one_arrow_to_itself() {
        let profile = examples::recursive();
        let text = render(&View::new(&profile, &Choice::default()).unwrap());
        assert_eq!(text.matches("[label=\"again").count(), 1, "{text}");
        assert!(
            text.contains("n0 -> n0 [label=\" 100 %\"") || text.contains("n1 -> n1 [label=\" 100 %\""),
            "{text}"
        );
    }
}
