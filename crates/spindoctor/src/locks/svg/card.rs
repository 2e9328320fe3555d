//! How a card and a wire of the picture look: their lines, as much of each as there is room for.

use std::fmt::Write as _;

use spindoctor_model::wait_graph::{LockKind, WaitingThread};
use spindoctor_page::safe::safe;
use spindoctor_page::svg;
use spindoctor_page::text::shortened;
use unicode_width::UnicodeWidthChar as _;

use super::{Anchor, CARD, Place, anchor};
use crate::locks::view::{Rest, account, running, who};

/// Pixels of a line of a card.
pub(super) const LINE: f64 = 16.5;

/// Pixels above the first line of a card and below its last.
pub(super) const PADDING: f64 = 8.0;

/// Pixels that the lowest card of a stack sticks out.
pub(super) const STACK: f64 = 6.0;

/// Pixels between a card's edge and its text.
pub(super) const SIDE: f64 = 13.0;

/// Pixels of a letter of middling width.
pub(super) const LETTER: f64 = 6.7;

/// Letters of 11 px monospace that a card has room for: each is 6.6 px wide.
pub(super) const MONO_LETTERS: usize = 38;

/// A card, or a stack of them.
pub(super) struct Card {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) class: &'static str,
    pub(super) lines: Vec<Line>,
    /// Shown when the pointer rests on it.
    pub(super) title: String,
    pub(super) anchor: Anchor,
    pub(super) is_stack: bool,
}

pub(super) struct Line {
    pub(super) class: &'static str,
    pub(super) text: String,
    /// At the right edge.
    pub(super) right: String,
}

impl Line {
    pub(super) fn new(class: &'static str, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), right: String::new() }
    }
}

/// A lock in words, on two lines where one is too short for it.
pub(super) fn lock_lines(line: &str) -> Vec<Line> {
    let room = CARD - 2.0 * SIDE;
    let line = safe(line);
    let mut first = String::new();
    for word in line.split_inclusive(' ') {
        if width(&first) + width(word.trim_end()) > room {
            break;
        }
        first.push_str(word);
    }
    let rest = line[first.len()..].to_owned();
    [first, rest].into_iter().filter(|text| !text.is_empty()).map(|text| Line::new("quiet", text)).collect()
}

impl Card {
    pub(super) fn height(&self) -> f64 {
        2.0 * PADDING + self.lines.len() as f64 * LINE
    }

    pub(super) fn middle(&self) -> f64 {
        self.y + self.height() / 2.0
    }
}

/// From a card to the one that blocks it.
pub(super) struct Wire {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
    pub(super) kind: LockKind,
    pub(super) threads: u32,
}

/// A card that stands for many.
pub(super) fn stack(rest: &Rest, (x, y): (f64, f64)) -> Card {
    let mut lines = vec![Line::new("plain", &*rest.count)];
    if !rest.waits.is_empty() {
        lines.push(Line::new("quiet", &*rest.waits));
    }
    Card {
        x,
        y,
        class: "card more",
        title: rest.label(),
        lines,
        anchor: Anchor::More(rest.places[0]),
        is_stack: true,
    }
}

impl Card {
    pub(super) fn draw(&self, svg: &mut String, place: Place) {
        let (x, y, height) = (self.x, self.y, self.height());
        match place {
            Place::File => svg.push_str("<g>"),
            // Nothing of the server's is in the place's name.
            Place::Page => {
                let _ = write!(svg, "<a href=\"#{}\">", anchor(self.anchor));
            }
        }
        let _ = write!(svg, "<title>{}</title>", svg::lines(&self.title).replace('\n', "&#10;"));
        if self.is_stack {
            for step in [STACK, STACK / 2.0] {
                let _ = write!(
                    svg,
                    r#"<rect class="{}" x="{:.1}" y="{:.1}" width="{CARD}" height="{height:.1}" rx="7"/>"#,
                    self.class,
                    x + step,
                    y + step
                );
            }
        }
        let _ = write!(
            svg,
            r#"<rect class="{}" x="{x:.1}" y="{y:.1}" width="{CARD}" height="{height:.1}" rx="7"/>"#,
            self.class
        );
        if self.class.starts_with("card root") {
            let _ = write!(
                svg,
                r#"<rect class="stripe" x="{x:.1}" y="{:.1}" width="5" height="{:.1}" rx="2"/>"#,
                y + 7.0,
                height - 14.0
            );
        }
        for (at, line) in self.lines.iter().enumerate() {
            let baseline = y + PADDING + at as f64 * LINE + 12.0;
            text(svg, line.class, (x + SIDE, baseline), &line.text);
            if !line.right.is_empty() {
                let _ = write!(
                    svg,
                    r#"<text class="quiet right" x="{:.1}" y="{baseline:.1}">{}</text>"#,
                    x + CARD - SIDE,
                    svg::lines(&line.right)
                );
            }
        }
        svg.push_str(if place == Place::File { "</g>\n" } else { "</a>\n" });
    }
}

impl Wire {
    pub(super) fn draw(&self, svg: &mut String) {
        let ((x1, y1), (x2, y2)) = (self.from, self.to);
        // Ten times the threads make it so much wider, pixels.
        let width = 1.2 + 1.4 * f64::from(self.threads.max(1)).log10();
        let tip = x2 + 9.0;
        let middle = f64::midpoint(x1, tip);
        let class = kind_class(self.kind);
        let _ = writeln!(
            svg,
            r#"<path class="wire {class}" stroke-width="{width:.1}" d="M{x1:.1} {y1:.1}C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {tip:.1} {y2:.1}"/><path class="tip {class}" d="M{x2:.1} {y2:.1}l10 -5v10z"/>"#
        );
    }
}

pub(super) fn unseen_lines(held: &str, held_up: String) -> Vec<Line> {
    vec![
        Line::new("name", "an owner that is not visible"),
        Line::new("plain", held_up),
        Line::new("quiet", format!("holds {held}")),
    ]
}

/// All of a thread, for when the pointer rests on its card.
pub(super) fn tooltip(thread: &WaitingThread, wants: &str) -> String {
    let parts = [who(thread), account(thread), format!("wants {wants}"), running(thread)];
    let text: Vec<String> =
        parts.iter().filter(|part| !part.is_empty()).map(|part| shortened(&safe(part), 600)).collect();
    text.join("\n")
}

/// A line as much of it as a card has room for.
pub(super) fn cut(line: Line) -> Line {
    let (text, right) = (safe(&line.text), safe(&line.right));
    if matches!(line.class, "code" | "free") {
        return Line { text: shortened(&text, MONO_LETTERS - 1), ..line };
    }
    let room = CARD - 2.0 * SIDE;
    let text = fitting(&text, room);
    let left = room - width(&text) - 2.0 * LETTER;
    let right = if left < 4.0 * LETTER { String::new() } else { fitting(&right, left) };
    Line { text, right, ..line }
}

/// Pixels that a text is wide, at the most: in DejaVu Sans of 11.5 px, the widest of the fonts that are asked for.
pub(super) fn width(text: &str) -> f64 {
    let of = |letter: char| match letter {
        'A'..='Z' | '_' | 'm' | 'w' | '@' | '%' | '…' => 8.4,
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | ';' | '\'' | '(' | ')' => 4.3,
        _ => LETTER * letter.width().unwrap_or(0) as f64,
    };
    text.chars().map(of).sum()
}

/// As much of a text as so many pixels hold.
pub(super) fn fitting(text: &str, pixels: f64) -> String {
    if width(text) <= pixels {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if width(&kept) + width("…") > pixels {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

pub(super) fn text(svg: &mut String, class: &str, (x, y): (f64, f64), text: &str) {
    let _ = write!(svg, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, svg::lines(text));
}

/// Locks of rows, of tables, of the server, of its insides: a colour each.
pub(super) fn kind_class(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Row => "row",
        LockKind::Metadata | LockKind::Dictionary => "metadata",
        LockKind::Global | LockKind::Backup => "global",
        LockKind::User => "user",
        LockKind::Latch | LockKind::Mutex | LockKind::RwLock => "latch",
        LockKind::CommitQueue | LockKind::CommitOrder | LockKind::LogSpace => "commit",
        LockKind::Ticket | LockKind::Purge => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_pixels() {
        assert_eq!(fitting("connection 12", 200.0), "connection 12");
        assert_eq!(fitting("WANTS EXCLUSIVE", 60.0), "WANTS…");
        assert!(width(&fitting(&"🐬".repeat(50), 100.0)) <= 100.0);
    }
}
