//! The wait graph for graphviz: `dot -Tsvg`. An arrow goes from a thread that waits to the one that blocks it. Siblings
//! that are alike are one box after the first two, as in the other pictures; JSON has every wait.

use std::fmt::Write as _;

use super::forest::{Forest, Top};
use super::view::{
    LEVELS_SHOWN, Sibling, account, doing, holds_up, lock, remarks, running, seconds, shown, subject,
    verdict, wanted, who,
};
use super::waits::Locks;
use spindoctor_page::dot;
use spindoctor_page::number;

/// Columns of a line in a box.
const LINE_SHOWN: usize = 48;

/// The graph as graphviz reads it.
pub fn render(locks: &Locks) -> String {
    let forest = Forest::from_locks(locks);
    let mut drawing = Drawing { text: String::new(), locks, forest: &forest, next: 0 };
    let mut title = vec![format!("{}: {}", subject(locks), verdict(locks))];
    title.extend(remarks(locks));
    let title: Vec<String> = title.iter().map(|line| dot::short_text(line, 120)).collect();
    drawing
        .line(&format!("label=\"{}\"; labelloc=t; rankdir=RL; fontname=\"Helvetica\";", title.join("\\n")));
    drawing.line("node [shape=box, style=\"filled,rounded\", fillcolor=\"#f4f4f2\", color=\"#777777\", fontname=\"Helvetica\", fontsize=11];");
    drawing.line("edge [fontname=\"Helvetica\", fontsize=9, color=\"#777777\"];");
    for tree in &forest.trees {
        match &tree.top {
            Top::Root(root) => {
                let thread = root.thread.and_then(|place| locks.thread(place));
                let mut lines = vec![
                    thread.map_or_else(|| "an owner that is not visible".to_owned(), who),
                    thread.map(account).unwrap_or_default(),
                    holds_up(tree.behind, tree.children.len()),
                    doing(root, thread),
                    thread.map(running).unwrap_or_default(),
                ];
                lines.extend(root.free_with.as_ref().map(|statement| format!("free with {statement}")));
                let top = drawing.node(&lines, "fillcolor=\"#f9d5cf\", penwidth=2");
                drawing.waiters(&tree.children, &[top], 1);
            }
            Top::Unseen { kind, object } => {
                let lines = [
                    "an owner that is not visible".to_owned(),
                    lock(*kind, object),
                    holds_up(tree.behind, tree.children.len()),
                ];
                let top = drawing.node(&lines, "fillcolor=\"#f9d5cf\", style=\"filled,rounded,dashed\"");
                drawing.waiters(&tree.children, &[top], 1);
            }
            Top::Ring(members) => {
                let tops: Vec<usize> = members
                    .iter()
                    .map(|(member, _)| {
                        let thread = locks.thread(*member);
                        let lines =
                            [thread.map_or_else(String::new, who), thread.map_or_else(String::new, running)];
                        drawing.node(&lines, "fillcolor=\"#f9d5cf\", penwidth=2")
                    })
                    .collect();
                for (at, (_, edge)) in members.iter().enumerate() {
                    let label = edge.map_or_else(String::new, wanted);
                    let next = tops[(at + 1) % tops.len()];
                    drawing.arrow(tops[at], next, &label, "color=\"#b42318\", penwidth=2");
                }
                let places: Vec<u32> = members.iter().map(|(member, _)| *member).collect();
                for (place, top) in places.iter().zip(&tops) {
                    let behind: Vec<usize> = tree
                        .children
                        .iter()
                        .copied()
                        .filter(|child| forest.node(*child).edge.holder == Some(*place))
                        .collect();
                    drawing.waiters(&behind, &[*top], 1);
                }
            }
        }
    }
    format!("digraph \"locks\" {{\n{}}}\n", drawing.text)
}

struct Drawing<'a> {
    text: String,
    locks: &'a Locks,
    forest: &'a Forest<'a>,
    next: usize,
}

impl Drawing<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
    }

    fn node(&mut self, lines: &[String], style: &str) -> usize {
        let number = self.next;
        self.next += 1;
        let lines: Vec<String> = lines
            .iter()
            .filter(|line| !line.trim().is_empty())
            .map(|line| dot::short_text(line, LINE_SHOWN))
            .collect();
        self.line(&format!("n{number} [label=\"{}\"{}];", lines.join("\\n"), comma(style)));
        number
    }

    fn arrow(&mut self, from: usize, to: usize, label: &str, style: &str) {
        let label = dot::short_text(label, LINE_SHOWN);
        self.line(&format!("n{from} -> n{to} [label=\" {label}\"{}];", comma(style)));
    }

    fn waiters(&mut self, siblings: &[usize], holders: &[usize], level: usize) {
        let (locks, forest) = (self.locks, self.forest);
        for item in shown(forest, locks, siblings, level) {
            let (lines, style, label, place) = match &item {
                Sibling::One(at, is_first) => {
                    let node = forest.node(*at);
                    let Some(thread) = locks.thread(node.thread) else { continue };
                    let mut lines = vec![who(thread), account(thread), running(thread)];
                    if node.behind > 0 {
                        lines.insert(2, holds_up(node.behind, node.children.len()));
                    }
                    let waited = node.edge.waited_s.filter(|s| s.is_finite()).map(seconds);
                    let label = match (is_first, waited) {
                        (true, Some(waited)) => format!("{waited}: {}", wanted(node.edge)),
                        (true, None) => wanted(node.edge),
                        (false, waited) => waited.unwrap_or_default(),
                    };
                    (lines, if node.is_repeated { "style=\"rounded,dashed\"" } else { "" }, label, Some(*at))
                }
                Sibling::More(rest) => (vec![rest.label()], MORE, String::new(), None),
            };
            let number = self.node(&lines, style);
            for holder in holders {
                self.arrow(number, *holder, &label, "");
            }
            let Some(node) = place.map(|at| forest.node(at)).filter(|node| !node.children.is_empty()) else {
                continue;
            };
            if level < LEVELS_SHOWN {
                self.waiters(&node.children, &[number], level + 1);
            } else {
                let text = format!("{} more behind it, further down", number::plain(node.behind.into()));
                let deeper = self.node(&[text], MORE);
                self.arrow(deeper, number, "", "");
            }
        }
    }
}

/// The look of a box that stands for many.
const MORE: &str = "shape=box3d, style=filled, fillcolor=\"#ffffff\"";

fn comma(style: &str) -> String {
    if style.is_empty() { String::new() } else { format!(", {style}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::locks::examples;

    #[test]
    fn a_chain_is_drawn_from_those_who_wait_to_those_who_hold() {
        insta::assert_snapshot!(render(&examples::chain()));
    }

    #[test]
    fn no_text_leaves_its_quotes() {
        for (name, locks) in examples::all() {
            for line in render(&locks).lines() {
                let unescaped = line.replace("\\\\", "").replace("\\\"", "");
                assert_eq!(unescaped.matches('"').count() % 2, 0, "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_ring_comes_back_to_where_it_began() {
        let text = render(&examples::ring());
        assert!(text.contains("n0 -> n1") && text.contains("n1 -> n0"), "{text}");
    }

    /// Where graphviz is installed, it is the judge.
    #[test]
    fn graphviz_reads_every_graph() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        for (name, locks) in examples::all() {
            let dot = Command::new("dot").arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
            let Ok(mut dot) = dot else { return };
            dot.stdin.take().unwrap().write_all(render(&locks).as_bytes()).unwrap();
            assert!(dot.wait().unwrap().success(), "{name}");
        }
    }
}
