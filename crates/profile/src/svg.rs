//! A flame graph of a profile. Snapshots are coloured by what the threads were doing, CPU samples by where they ran:
//! red where they were spinning.

use spindoctor_model::stack::ThreadState;

use super::counted::LabelKind;
use super::flame::{Box, Colour, Picture, Place, draw};
use super::formats::subject;
use super::text::state_label;
use super::tree::{Node, Tree};
use super::view as stacks_view;
use super::view::View;
use spindoctor_page::number;
use spindoctor_page::number::percent;

/// The colours: warm for what runs, red for waits for locks, blue for disks, grey for idle threads.
const COLOURS: &[Colour] = &[
    colour("running", 33.0, 0.88, 0.64, 0.42),
    colour("runnable", 50.0, 0.80, 0.66, 0.40),
    colour("lock", 2.0, 0.74, 0.68, 0.44),
    colour("futex", 340.0, 0.58, 0.74, 0.43),
    colour("condition", 268.0, 0.42, 0.78, 0.45),
    colour("disk_read", 208.0, 0.66, 0.70, 0.40),
    colour("disk_write", 224.0, 0.60, 0.74, 0.46),
    colour("sync", 186.0, 0.52, 0.66, 0.34),
    colour("network_idle", 220.0, 0.09, 0.82, 0.33),
    colour("epoll", 210.0, 0.09, 0.79, 0.36),
    colour("sleep", 230.0, 0.09, 0.85, 0.30),
    colour("stopped", 300.0, 0.55, 0.68, 0.42),
    colour("blocked", 24.0, 0.28, 0.70, 0.36),
    colour("user", 33.0, 0.88, 0.66, 0.42),
    colour("kernel", 96.0, 0.36, 0.70, 0.34),
    colour("spin", 2.0, 0.78, 0.64, 0.46),
    colour("group", 215.0, 0.14, 0.88, 0.26),
];

const fn colour(class: &'static str, hue: f64, saturation: f64, light: f64, dark: f64) -> Colour {
    Colour { class, hue, saturation, light, dark }
}

/// The flame graph as a file of its own.
pub fn render(view: &View<'_>) -> String {
    draw(&picture(view), Place::File)
}

/// The flame graph to stand within an HTML page: no script, no title, light and dark as the page.
pub fn within_page(view: &View<'_>) -> String {
    draw(&picture(view), Place::Page)
}

/// Whom the profile is of, and what it shows.
pub fn title(view: &View<'_>) -> String {
    let what = if view.on_cpu { "where its CPU time goes" } else { "what its threads do" };
    format!("{}: {what}", subject(view.profile))
}

fn picture(view: &View<'_>) -> Picture<'static> {
    let profile = view.profile;
    let (busy, idle) = view.split_idle();
    // Idle threads alone are better than an empty picture.
    let (shown_view, left_out) =
        if busy.observations.is_empty() { (view, 0) } else { (&busy, idle.thread_count()) };
    let tree = Tree::from_stacks(&shown_view.simplified());
    let all = tree.total().max(1) as f64;
    let observed = match view.on_cpu {
        true => number::counted(tree.total(), "CPU sample", "CPU samples"),
        false => format!(
            "{} of {}",
            number::counted(view.snapshot_count() as u64, "snapshot", "snapshots"),
            number::counted(shown_view.thread_count() as u64, "thread", "threads")
        ),
    };
    let idle = match left_out {
        0 => String::new(),
        count => format!(", {} left out", number::counted(count as u64, "idle thread", "idle threads")),
    };
    let boxes = places(&tree)
        .into_iter()
        .zip(&tree.nodes)
        .map(|(start, node)| {
            let share = node.total as f64 / all;
            Box {
                name: shown(node),
                tooltip: numbers(node, all, view.on_cpu),
                depth: node.depth,
                start: start as f64 / all,
                share: if tree.total() == 0 { 1.0 } else { share },
                class: class(node, view.on_cpu),
            }
        })
        .collect();
    Picture {
        title: title(view),
        subtitle: format!(
            "{observed} in {}{idle}, source {}, {}{}",
            number::tenths(profile.seconds),
            profile.source,
            profile.start.strftime("%Y-%m-%d %H:%M:%S UTC"),
            shown_view.few_samples().map_or_else(String::new, |few| format!("; {few}"))
        ),
        legend: legend(&tree, view.on_cpu),
        boxes,
        colours: COLOURS,
    }
}

/// Where each node begins, in observations from the left.
pub fn places(tree: &Tree<'_>) -> Vec<u64> {
    let mut places = vec![0; tree.nodes.len()];
    let mut next = vec![0];
    while let Some(at) = next.pop() {
        let mut start: u64 = places[at];
        for child in &tree.nodes[at].children {
            places[*child] = start;
            start += tree.nodes[*child].total;
            next.push(*child);
        }
    }
    places
}

fn shown(node: &Node<'_>) -> String {
    match node.label.kind {
        LabelKind::Inlined => format!("{} (inlined)", node.label.name),
        _ => node.label.name.to_string(),
    }
}

fn numbers(node: &Node<'_>, all: f64, on_cpu: bool) -> String {
    let share = |count: u64| percent(count as f64 / all);
    let mut parts = vec![format!("{}, {}", share(node.total), observations(node.total, on_cpu))];
    if node.own > 0 {
        parts.push(format!("{} here", share(node.own)));
    }
    if node.spinning > 0 {
        parts.push(format!("{} spinning", share(node.spinning)));
    }
    if !on_cpu {
        parts.extend(
            states_of(node)
                .into_iter()
                .take(3)
                .map(|(state, count)| format!("{} {}", state_label(state), share(count))),
        );
    }
    parts.join("; ")
}

fn observations(count: u64, on_cpu: bool) -> String {
    match on_cpu {
        true => number::counted(count, "sample", "samples"),
        false => number::counted(count, "observation", "observations"),
    }
}

fn states_of(node: &Node<'_>) -> Vec<(ThreadState, u64)> {
    let mut states: Vec<(ThreadState, u64)> =
        node.states.iter().map(|(state, count)| (*state, *count)).collect();
    states.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    states
}

fn class(node: &Node<'_>, on_cpu: bool) -> &'static str {
    match node.label.kind {
        LabelKind::Group if node.depth == 0 || node.children.len() > 1 => "group",
        _ if on_cpu && node.spinning * 2 > node.total => "spin",
        LabelKind::Kernel if on_cpu => "kernel",
        LabelKind::Group => "group",
        _ if on_cpu => "user",
        _ => stacks_view::state_word(node.state()),
    }
}

fn legend(tree: &Tree<'_>, on_cpu: bool) -> Vec<(&'static str, String)> {
    let root = &tree.nodes[0];
    let all = tree.total().max(1) as f64;
    if on_cpu {
        let spinning = percent(root.spinning as f64 / all);
        return vec![
            ("user", "the process".to_owned()),
            ("kernel", "the kernel".to_owned()),
            ("spin", format!("spinning {spinning}")),
        ];
    }
    states_of(root)
        .into_iter()
        .map(|(state, count)| {
            (
                stacks_view::state_word(state),
                format!("{} {}", state_label(state), percent(count as f64 / all)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::Choice;

    #[test]
    fn every_box_stands_within_its_caller() {
        let profile = examples::busy();
        let view = View::new(&profile, &Choice::default()).unwrap();
        let tree = Tree::from_stacks(&view.simplified());
        let places = places(&tree);
        for (at, node) in tree.nodes.iter().enumerate() {
            let parent = node.parent;
            assert!(places[at] >= places[parent]);
            assert!(
                places[at] + node.total <= places[parent] + tree.nodes[parent].total,
                "{}",
                node.label.name
            );
        }
    }

    #[test]
    fn every_state_has_a_colour() {
        let profile = examples::busy();
        for choice in [Choice::default(), Choice { on_cpu: true, ..Choice::default() }] {
            let view = View::new(&profile, &choice).unwrap();
            let tree = Tree::from_stacks(&view.simplified());
            for node in &tree.nodes {
                let class = class(node, view.on_cpu);
                assert!(COLOURS.iter().any(|colour| colour.class == class), "{class}");
            }
        }
        assert_eq!(COLOURS.len(), 13 + 4, "thirteen states, and four classes of no state");
    }

    #[test]
    fn a_hostile_name_begins_no_element() {
        let profile = examples::hostile();
        let svg = render(&View::new(&profile, &Choice::default()).unwrap());
        assert_eq!(svg.matches("<script").count(), 1, "our own");
        assert!(
            svg.contains("&lt;script&gt;document.title=&#39;owned&#39;")
                || svg.contains("&lt;script&gt;document.title='owned'")
        );
        assert_eq!(svg.matches("]]>").count(), 1, "the end of our own script");
    }
}
