//! Who blocks whom as a picture: the root at the left, the threads that wait for it to its right, and so on. One SVG,
//! no script, no network, no font of its own, light and dark as the reader's browser. What does not fit a card is shown
//! when the pointer rests on it.
//!
//! A line's colour is the kind of lock, its width grows with the threads that wait along it, and its arrow points to
//! the one who holds.

mod card;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use spindoctor_model::wait_graph::WaitRoot;

use super::forest::{Forest, Top, Tree};
use super::view::{
    LEVELS_SHOWN, Sibling, account, doing, freeing, held, holds_up, lock, remarks, ring_text, running,
    seconds, shown, subject, transaction, verdict, wanted, who,
};
use super::waits::Locks;
use card::{Card, Line, STACK, Wire, cut, kind_class, lock_lines, stack, text, tooltip, unseen_lines};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::svg;
use spindoctor_page::text::shortened;

/// Pixels: the margin, a card's width, the room between two columns and between two cards, a line of a card, and the
/// room above its first and below its last line.
const MARGIN: f64 = 16.0;
const CARD: f64 = 272.0;
const COLUMN_GAP: f64 = 60.0;
const ROW_GAP: f64 = 12.0;
/// Pixels between two trees.
const TREE_GAP: f64 = 34.0;
/// A taller tree has its root at its top, where the reader begins, and not in its middle.
const TALL: f64 = 420.0;
/// Trees that are drawn; the others are counted.
const TREES_SHOWN: usize = 12;

/// Letters of 12 px can still be read at this share of their size.
const SMALLEST: f64 = 0.86;

/// Where the picture stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a file of its own.
    File,
    /// Within an HTML page, which has a title of its own, and a place for each card to lead to.
    Page,
}

/// The picture as a file of its own.
pub fn render(locks: &Locks) -> String {
    draw(locks, Place::File)
}

/// The picture to stand within an HTML page: a click on a card leads to what [`anchor`] names.
pub fn within_page(locks: &Locks) -> String {
    draw(locks, Place::Page)
}

/// The name of the place on a page with all details of a thread, of a group by its first thread, of a tree by its
/// number.
pub fn anchor(what: Anchor) -> String {
    match what {
        Anchor::Tree(number) => format!("tree-{number}"),
        Anchor::Waiter(node) => format!("waiter-{node}"),
        Anchor::More(node) => format!("more-{node}"),
    }
}

/// What a place on the page describes.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// A tree's top, by its number in the forest.
    Tree(usize),
    /// A node of the forest.
    Waiter(usize),
    /// Siblings that are not shown, by the first of them.
    More(usize),
}

struct Drawing<'a> {
    locks: &'a Locks,
    forest: &'a Forest<'a>,
    cards: Vec<Card>,
    wires: Vec<Wire>,
}

fn draw(locks: &Locks, place: Place) -> String {
    let forest = Forest::from_locks(locks);
    let mut drawing = Drawing { locks, forest: &forest, cards: Vec::new(), wires: Vec::new() };
    let mut explained = String::new();
    let is_explained = !locks.graph.edges.is_empty();
    let title_lines = match place {
        Place::File => {
            let mut lines = vec![format!("{}", locks.at.strftime("%Y-%m-%d %H:%M:%S UTC"))];
            lines.extend(remarks(locks));
            lines
        }
        Place::Page => Vec::new(),
    };
    let head = match place {
        Place::File => 40.0 + title_lines.len() as f64 * 17.0,
        Place::Page => 2.0,
    } + if is_explained { 30.0 } else { 0.0 };
    let legend_end = legend(&mut explained, locks, head - 10.0);
    let mut y = head + 8.0;
    for (number, tree) in forest.trees.iter().take(TREES_SHOWN).enumerate() {
        y += drawing.tree(number, tree, y) + TREE_GAP;
    }
    let mut notes = Vec::new();
    if forest.trees.is_empty() {
        notes.push("No thread waits for another one.".to_owned());
    }
    if let Some(more) = forest.trees.get(TREES_SHOWN..).filter(|more| !more.is_empty()) {
        let behind: u32 = more.iter().map(|tree| tree.behind).sum();
        notes.push(format!(
            "{} more block {} in all",
            more.len(),
            number::counted(behind.into(), "thread", "threads")
        ));
    }
    let right = drawing
        .cards
        .iter()
        .map(|card| card.x + CARD)
        .fold(legend_end.max(CARD * 2.0 + COLUMN_GAP), f64::max);
    let (width, height) =
        (right + MARGIN + 8.0, y - TREE_GAP + MARGIN + notes.len() as f64 * (TREE_GAP + 4.0));

    let mut svg = String::new();
    let size = match place {
        Place::File => {
            let _ = writeln!(svg, r#"<?xml version="1.0" encoding="UTF-8" standalone="no"?>"#);
            format!(r#"width="{width}" height="{height}""#)
        }
        // As large as it is, a little smaller where that fits the page; else the page scrolls it.
        Place::Page => {
            format!(r#"style="width:100%;max-width:{width}px;min-width:{:.0}px""#, width * SMALLEST)
        }
    };
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" version="1.1" class="waits" {size} viewBox="0 0 {width} {height}" role="img">"#
    );
    let title = format!("{}: {}", subject(locks), verdict(locks));
    let _ = writeln!(svg, "<title>{}</title>\n<style>{STYLE}</style>", svg::lines(&title));
    if place == Place::File {
        let _ = writeln!(svg, r#"<rect class="page" x="0" y="0" width="100%" height="100%"/>"#);
        let letters = (width / 9.0) as usize;
        text(&mut svg, "title", (MARGIN, 30.0), &shortened(&safe(&title), letters));
        for (at, line) in title_lines.iter().enumerate() {
            let letters = (width / 6.6) as usize;
            text(&mut svg, "quiet", (MARGIN, 51.0 + at as f64 * 17.0), &shortened(&safe(line), letters));
        }
    }
    svg.push_str(&explained);
    for wire in &drawing.wires {
        wire.draw(&mut svg);
    }
    for card in &drawing.cards {
        card.draw(&mut svg, place);
    }
    for (at, note) in notes.iter().enumerate() {
        let y = height - MARGIN - 6.0 - (notes.len() - 1 - at) as f64 * 20.0;
        text(&mut svg, "quiet", (MARGIN, y), note);
    }
    svg.push_str("</svg>\n");
    svg
}

impl Drawing<'_> {
    /// Draws a tree whose upper edge is given; returns its height.
    fn tree(&mut self, number: usize, tree: &Tree<'_>, y: f64) -> f64 {
        let lines = self.top_lines(tree);
        let title: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let top = Card {
            x: MARGIN,
            y,
            class: match &tree.top {
                Top::Root(WaitRoot { thread: Some(_), .. }) => "card root",
                Top::Ring(_) => "card root ring",
                Top::Root(_) | Top::Unseen { .. } => "card root unseen",
            },
            title: title.join("\n"),
            lines: lines.into_iter().map(cut).collect(),
            anchor: Anchor::Tree(number),
            is_stack: false,
        };
        self.with_waiters(top, &tree.children, 1)
    }

    fn top_lines(&self, tree: &Tree<'_>) -> Vec<Line> {
        let locks = self.locks;
        let held_up = holds_up(tree.behind, tree.children.len());
        match &tree.top {
            Top::Root(root) => {
                let thread = root.thread.and_then(|place| locks.thread(place));
                let Some(thread) = thread else {
                    return unseen_lines(&lock(root.kind, &root.object), held_up);
                };
                let mut lines = vec![
                    Line { right: account(thread), ..Line::new("name", who(thread)) },
                    Line::new("accent", doing(root, Some(thread))),
                    Line::new("plain", held_up),
                ];
                lines.extend(lock_lines(&format!("holds {}", held(self.forest, tree, root))));
                lines.extend(transaction(thread).map(|text| Line::new("quiet", text)));
                // An idle client that ran nothing we know of stands in the kernel, as all of them do.
                if thread.statement.is_some() || !root.doing.starts_with("idle") {
                    lines.push(Line::new("code", running(thread)));
                }
                if let Some((statement, note)) = freeing(root) {
                    match statement.as_str() {
                        "" => lines.push(Line::new("quiet", note)),
                        _ => lines.push(Line::new("free", format!("free with {statement}"))),
                    }
                }
                lines.retain(|line| !line.text.trim().is_empty());
                lines
            }
            Top::Unseen { kind, object } => unseen_lines(&lock(*kind, object), held_up),
            Top::Ring(members) => {
                let mut lines = vec![Line::new("name", ring_text(members.len()))];
                for (at, (member, edge)) in members.iter().enumerate().take(RING_SHOWN) {
                    let name = |place: u32| locks.thread(place).map_or_else(String::new, who);
                    let next = members[(at + 1) % members.len()].0;
                    lines.push(Line::new("plain", format!("{} waits for {}", name(*member), name(next))));
                    lines.extend(edge.map(|edge| Line::new("quiet", wanted(edge))));
                }
                if members.len() > RING_SHOWN {
                    lines.push(Line::new("quiet", format!("and {} more", members.len() - RING_SHOWN)));
                }
                if tree.behind > 0 {
                    lines.push(Line::new("accent", held_up));
                }
                lines
            }
        }
    }

    /// Adds a card and those behind it; returns the height of all.
    fn with_waiters(&mut self, card: Card, children: &[usize], level: usize) -> f64 {
        let (locks, forest) = (self.locks, self.forest);
        let (x, top) = (card.x + CARD + COLUMN_GAP, card.y);
        let number = self.cards.len();
        self.cards.push(card);
        if level > LEVELS_SHOWN && !children.is_empty() {
            let behind = number::plain(forest.size(children).into());
            self.cards[number]
                .lines
                .push(Line::new("quiet", format!("{behind} more behind it, further down")));
            return self.cards[number].height();
        }
        let mut y = top;
        let mut arrivals = Vec::new();
        for item in shown(forest, locks, children, level) {
            if y > top {
                y += ROW_GAP;
            }
            let is_stack = !matches!(item, Sibling::One(..));
            let (waiter, behind) = match &item {
                Sibling::One(at, is_first) => {
                    let Some(waiter) = self.waiter(*at, *is_first, (x, y)) else { continue };
                    (waiter, forest.node(*at).children.as_slice())
                }
                Sibling::More(rest) => (stack(rest, (x, y)), &[][..]),
            };
            let (kind, threads) = match &item {
                Sibling::One(at, _) => (forest.node(*at).edge.kind, 1 + forest.node(*at).behind),
                Sibling::More(rest) => (forest.node(rest.places[0]).edge.kind, forest.size(&rest.places)),
            };
            let place = self.cards.len();
            y += self.with_waiters(waiter, behind, level + 1) + if is_stack { STACK } else { 0.0 };
            arrivals.push(((x, self.cards[place].middle()), kind, threads));
        }
        let own = self.cards[number].height();
        let height = (y - top).max(own);
        if let (Some(first), Some(last)) = (arrivals.first(), arrivals.last())
            && height < TALL
        {
            let middle = f64::midpoint(first.0.1, last.0.1);
            self.cards[number].y = (middle - own / 2.0).clamp(top, top + height - own);
        }
        let to = (x - COLUMN_GAP, self.cards[number].middle());
        self.wires.extend(arrivals.into_iter().map(|(from, kind, threads)| Wire { from, to, kind, threads }));
        height
    }

    fn waiter(&self, at: usize, is_first: bool, (x, y): (f64, f64)) -> Option<Card> {
        let node = self.forest.node(at);
        let thread = self.locks.thread(node.thread)?;
        let waited = node.edge.waited_s.filter(|s| s.is_finite()).map(seconds).unwrap_or_default();
        let right: Vec<&str> =
            [thread.user.as_str(), &waited].into_iter().filter(|part| !part.is_empty()).collect();
        let mut lines = vec![Line { right: right.join(" · "), ..Line::new("name", who(thread)) }];
        if node.behind > 0 {
            lines.push(Line::new("plain", holds_up(node.behind, node.children.len())));
        }
        if is_first || node.behind > 0 {
            lines.extend(lock_lines(&format!("wants {}", wanted(node.edge))));
        }
        lines.push(match node.is_repeated {
            true => Line::new("quiet", "stands in another tree, too"),
            false => Line::new("code", running(thread)),
        });
        lines.retain(|line| !line.text.trim().is_empty());
        Some(Card {
            x,
            y,
            class: match (node.is_repeated, node.behind) {
                (true, _) => "card repeated",
                (false, 0) => "card",
                (false, _) => "card between",
            },
            title: tooltip(thread, &wanted(node.edge)),
            lines: lines.into_iter().map(cut).collect(),
            anchor: Anchor::Waiter(at),
            is_stack: false,
        })
    }
}

/// Members of a ring that are named in its card.
const RING_SHOWN: usize = 5;

/// The classes of locks that somebody waits for, each once.
fn classes(locks: &Locks) -> Vec<&'static str> {
    let wanted: BTreeSet<&str> = locks.graph.edges.iter().map(|edge| kind_class(edge.kind)).collect();
    CLASSES.iter().map(|(class, _)| *class).filter(|class| wanted.contains(class)).collect()
}

/// Each class with what it stands for.
const CLASSES: [(&str, &str); 7] = [
    ("row", "row lock"),
    ("metadata", "metadata lock, dictionary"),
    ("global", "lock of the whole server"),
    ("user", "user lock"),
    ("latch", "latch, mutex"),
    ("commit", "commit"),
    ("other", "other"),
];

/// Draws what the colours mean; returns where that ends.
fn legend(svg: &mut String, locks: &Locks, y: f64) -> f64 {
    let mut x = MARGIN;
    for (class, word) in CLASSES.iter().filter(|(class, _)| classes(locks).contains(class)) {
        let _ =
            writeln!(svg, r#"<path class="wire {class}" stroke-width="3" d="M{x:.1} {:.1}h18"/>"#, y - 4.0);
        text(svg, "quiet", (x + 24.0, y), word);
        x += 24.0 + word.len() as f64 * 6.6 + 18.0;
    }
    x
}

/// Colours as plain hexadecimal: renderers that know neither `hsl()` nor variables draw it too.
const STYLE: &str = "\
.waits text{font:12px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2328}\
.waits .title{font-weight:600;font-size:17px}.waits .name{font-weight:650;font-size:12.5px}\
.waits .quiet{fill:#656d76;font-size:11.5px}.waits .right{text-anchor:end}\
.waits .accent{fill:#b42318;font-weight:600}\
.waits .code,.waits .free{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}\
.waits .free{fill:#23744a;font-weight:700}\
.waits .page{fill:#fff}.waits .card{fill:#fbfbfa;stroke:#d4d4cf;stroke-width:1}\
.waits .root{fill:#fdf3f1;stroke:#e3a89f}.waits .between{fill:#fdf8ec;stroke:#dfc58b}.waits .more{fill:#f4f4f1}\
.waits .unseen,.waits .repeated{stroke-dasharray:5 4}.waits .stripe{fill:#b42318}\
.waits a:hover .card,.waits g:hover .card{stroke:#2b62a8;stroke-width:1.6}\
.waits .wire{fill:none;stroke-linecap:round}.waits .tip{stroke:none}\
.waits .wire.row{stroke:#c2512f}.waits .tip.row{fill:#c2512f}\
.waits .wire.metadata{stroke:#7a4fb5}.waits .tip.metadata{fill:#7a4fb5}\
.waits .wire.global{stroke:#2b62a8}.waits .tip.global{fill:#2b62a8}\
.waits .wire.user{stroke:#23744a}.waits .tip.user{fill:#23744a}\
.waits .wire.latch{stroke:#a83279}.waits .tip.latch{fill:#a83279}\
.waits .wire.commit{stroke:#9a6b00}.waits .tip.commit{fill:#9a6b00}\
.waits .wire.other{stroke:#5b6470}.waits .tip.other{fill:#5b6470}\
@media (prefers-color-scheme:dark){.waits text{fill:#e4e6e8}.waits .quiet{fill:#98a0a9}.waits .accent{fill:#ff8a7a}\
.waits .free{fill:#74c79a}.waits .page{fill:#14171a}.waits .card{fill:#1c2024;stroke:#3a4148}\
.waits .root{fill:#33211f;stroke:#8a4a41}.waits .between{fill:#2d281b;stroke:#75622f}.waits .more{fill:#23282d}\
.waits .stripe{fill:#ff8a7a}.waits a:hover .card,.waits g:hover .card{stroke:#84b6f4}\
.waits .wire.row{stroke:#f08a66}.waits .tip.row{fill:#f08a66}\
.waits .wire.metadata{stroke:#b592ea}.waits .tip.metadata{fill:#b592ea}\
.waits .wire.global{stroke:#84b6f4}.waits .tip.global{fill:#84b6f4}\
.waits .wire.user{stroke:#74c79a}.waits .tip.user{fill:#74c79a}\
.waits .wire.latch{stroke:#e07bb8}.waits .tip.latch{fill:#e07bb8}\
.waits .wire.commit{stroke:#e0b25c}.waits .tip.commit{fill:#e0b25c}\
.waits .wire.other{stroke:#a7b0ba}.waits .tip.other{fill:#a7b0ba}}";

#[cfg(test)]
mod tests {
    use super::*;

    use crate::locks::examples;

    #[test]
    fn no_card_stands_on_another() {
        for (name, locks) in examples::all() {
            let forest = Forest::from_locks(&locks);
            let mut drawing =
                Drawing { locks: &locks, forest: &forest, cards: Vec::new(), wires: Vec::new() };
            let mut y = 0.0;
            for (number, tree) in forest.trees.iter().enumerate() {
                y += drawing.tree(number, tree, y) + TREE_GAP;
            }
            for (at, card) in drawing.cards.iter().enumerate() {
                for other in &drawing.cards[..at] {
                    let apart = card.x != other.x
                        || card.y >= other.y + other.height()
                        || other.y >= card.y + card.height();
                    assert!(apart, "{name}: {} and {}", card.title, other.title);
                }
            }
        }
    }

    #[test]
    fn a_picture_within_a_page_runs_nothing_and_styles_nothing_else() {
        for (name, locks) in examples::all() {
            let svg = within_page(&locks);
            assert!(
                svg.starts_with("<svg ") && !svg.contains("<script") && !svg.contains(" id=\""),
                "{name}"
            );
            let style = svg.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
            let selectors = style.replace("@media (prefers-color-scheme:dark){", "");
            for selector in selectors
                .split('}')
                .filter_map(|rule| rule.split_once('{'))
                .flat_map(|rule| rule.0.split(','))
            {
                assert!(selector.starts_with(".waits "), "{selector}");
            }
        }
    }

    #[test]
    fn hostile_text_begins_no_element_and_steers_nothing() {
        for svg in [render(&examples::hostile()), within_page(&examples::hostile())] {
            assert!(!svg.contains("<script") && !svg.contains("]]>"), "{svg}");
            assert_eq!(svg.matches("</svg>").count(), 1);
            assert!(!svg.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        }
    }

    #[test]
    fn a_chain_shows_its_root_its_middle_and_how_many_are_behind() {
        let svg = render(&examples::chain());
        for part in [
            "connection 12",
            "idle in transaction for 61 s",
            "free with KILL 12",
            "ALTER TABLE",
            "198 more like this",
        ] {
            assert!(svg.contains(part), "{part}");
        }
    }
}
