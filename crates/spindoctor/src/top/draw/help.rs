//! The keys.

use ratatui::layout::Rect;

use super::canvas::Canvas;
use crate::top::draw::Drawn;
use crate::top::view::Mood;

/// Keys and what they do, by what they are about.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "screens",
        &[
            ("1 … 9, Tab", "the screens that are named at the top"),
            ("?  q, Ctrl-C", "this page, and back; quit"),
        ],
    ),
    (
        "time",
        &[
            ("space", "live: freeze; frozen or paused: play; playing: pause"),
            ("← →  [ ]", "one second, one minute back or forth"),
            ("+ -", "play faster or slower: 1, 2, 5, 10, 30, 60 times"),
            ("g", "go to a time: 14:03, 14:03:20, -5m, 2026-11-22 14:03"),
            ("n N", "next and previous event"),
            ("Home End", "the first instant there is; the last, or live again"),
            ("w", "rates over 1 s, 10 s, a minute"),
        ],
    ),
    (
        "lists",
        &[
            ("↑ ↓ PgUp PgDn", "move the mark, or scroll"),
            ("Enter", "everything of the marked row; of an event: go there"),
            ("/", "only rows that hold a text; Esc shows all"),
            ("s S", "sort by the next column; the other way round"),
            ("i", "threads that rest, and statements about the server, too"),
            ("y", "copy the KILL of the marked session, or of who blocks"),
            ("wheel, click", "move; mark, open, choose a screen; m gives the mouse back"),
        ],
    ),
];

/// What a person may wonder.
const NOTES: &[&str] = &["Times are UTC. Nothing is changed: what frees a lock is shown, not done."];

/// Draws the page.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, first: usize) -> Drawn {
    const KEY: u16 = 18;
    canvas.rule(area, 0, "help");
    let inner =
        Rect { x: area.x + 2, width: area.width.saturating_sub(4), y: area.y + 1, height: area.height - 1 };
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for (about, keys) in KEYS {
        lines.push((about, ""));
        lines.extend(keys.iter());
    }
    lines.extend(NOTES.iter().map(|note| ("", *note)));
    let page = usize::from(inner.height);
    let last_first = lines.len().saturating_sub(page);
    let first = first.min(last_first);
    for (y, (key, does)) in (0..).zip(lines.iter().skip(first)) {
        if does.is_empty() {
            canvas.text(inner, 0, y, key, Mood::Strong);
        } else if key.is_empty() {
            canvas.text(inner, 0, y, does, Mood::Quiet);
        } else {
            canvas.text(inner, 2, y, key, Mood::Plain);
            let right = Rect { x: inner.x + KEY, width: inner.width.saturating_sub(KEY), ..inner };
            canvas.text(right, 0, y, does, Mood::Plain);
        }
    }
    Drawn { page, lines: Some(last_first + 1), rows: None }
}
