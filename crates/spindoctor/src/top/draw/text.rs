//! The output of other commands, for scrolling: the trees of locks, the host. In a wide window the blocks are in
//! columns beside each other.

use ratatui::layout::Rect;

use super::canvas::Canvas;
use crate::host::{HostReport, text};
use crate::locks::view as locks_view;
use crate::top::draw::Drawn;
use crate::top::view::{LocksShown, Mood};
use spindoctor_page::number;
use spindoctor_page::text::Look;

/// A text column is no wider than this: longer lines are hard to read.
const WIDEST: u16 = 100;
/// A window of at least so many columns has two.
const TWO_COLUMNS: u16 = 150;

/// The trees of who waits for whom: the root first, with what would free those behind it.
pub fn locks(canvas: &mut Canvas<'_>, area: Rect, shown: &LocksShown, first: usize) -> Drawn {
    canvas.rule(area, 0, "locks");
    let inner = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let Some(locks) = &shown.locks else {
        canvas.wrapped(inner, 1, &shown.note, Mood::Plain);
        return Drawn::default();
    };
    let look = Look { width: usize::from(area.width), colour: false };
    let text = locks_view::tree(locks, look);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let note = format!("({})", shown.note);
    lines.extend(textwrap::wrap(&note, look.width.max(1)).into_iter().map(std::borrow::Cow::into_owned));
    scrolled(canvas, inner, &lines, first)
}

/// The host's report.
pub fn host(canvas: &mut Canvas<'_>, area: Rect, report: &HostReport, first: usize) -> Drawn {
    canvas.rule(area, 0, &format!("host  over {}", number::duration(report.seconds.round())));
    let inner = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let is_wide = area.width >= TWO_COLUMNS;
    let width = if is_wide { area.width / 2 - 2 } else { area.width.min(WIDEST) };
    let look = Look { width: usize::from(width), colour: false };
    let text = text::sections(report, look);
    let lines: Vec<String> = text.lines().map(str::to_owned).skip_while(String::is_empty).collect();
    if !is_wide {
        return scrolled(canvas, inner, &lines, first);
    }
    let split = split(&lines);
    let left = Rect { width, ..inner };
    let right = Rect { x: inner.x + width + 4, width, ..inner };
    let one = scrolled(canvas, left, &lines[..split], first);
    let other = scrolled(canvas, right, &lines[split..], first);
    Drawn { page: one.page, lines: one.lines.max(other.lines), rows: None }
}

/// Where a text is parted in two of about the same length: at the empty line that is nearest to its middle.
fn split(lines: &[String]) -> usize {
    let blanks = lines.iter().enumerate().filter(|(_, line)| line.is_empty()).map(|(at, _)| at + 1);
    blanks.min_by_key(|at| at.abs_diff(lines.len() / 2)).unwrap_or(lines.len())
}

/// Lines from the first one on that is asked for, and how many there are below.
fn scrolled(canvas: &mut Canvas<'_>, area: Rect, lines: &[String], first: usize) -> Drawn {
    let page = usize::from(area.height);
    let last_first = lines.len().saturating_sub(page);
    let first = first.min(last_first);
    for (y, line) in lines.iter().skip(first).take(page).enumerate() {
        canvas.text(area, 0, y as u16, line, mood(line));
    }
    let below = lines.len() - (first + page).min(lines.len());
    if below > 0 {
        let text = format!(" ↓ {below} more lines ");
        canvas.right(area, area.width, area.height - 1, &text, Mood::Strong);
    }
    Drawn { page, lines: Some(last_first + 1), rows: None }
}

/// Headlines, the statement that frees, and the lines that draw a tree look as they do in the commands' own output.
fn mood(line: &str) -> Mood {
    let text = line.trim_start();
    if text.starts_with("free with") {
        Mood::Warn
    } else if !line.starts_with(' ') && !line.starts_with('(') {
        Mood::Strong
    } else if line.starts_with('(') || text.starts_with("cost:") {
        Mood::Quiet
    } else {
        Mood::Plain
    }
}
