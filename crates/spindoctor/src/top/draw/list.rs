//! A list: a title, heads, rows, and a mark.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr as _;

use super::canvas::Canvas;
use crate::top::draw::Drawn;
use crate::top::view::{Align, Head, Listing, Mood};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::short_address;

/// Columns between two cells.
const BETWEEN: u16 = 2;
/// Lines above the rows: the title, and those of the columns.
const HEADS: u16 = 2;
/// The last column needs so many to say anything.
const LEAST_REST: u16 = 16;

/// Draws a list.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, list: &Listing) -> Drawn {
    let page = usize::from(area.height.saturating_sub(HEADS));
    let title = match list.filter.as_str() {
        "" => list.title.clone(),
        filter => format!(
            "{}  filter {filter:?}: {} of {}",
            list.title,
            number::plain(list.rows.len() as f64),
            number::plain(list.all as f64)
        ),
    };
    let places = places(&list.heads, area.width);
    let pages = list.rows.len().div_ceil(page.max(1));
    let at_page = (pages > 1).then(|| format!("page {} of {pages}", list.selected / page.max(1) + 1));
    let line: Vec<String> = order_out_of_sight(list, &places).into_iter().chain(at_page).collect();
    let line = if line.is_empty() { String::new() } else { format!(" {} ", line.join("  ")) };
    let titled = Rect { width: area.width.saturating_sub(line.width() as u16), ..area };
    canvas.rule(area, 0, "");
    canvas.rule(titled, 0, &title);
    canvas.right(area, area.width.saturating_sub(1), 0, &line, Mood::Quiet);
    if list.rows.is_empty() {
        let why =
            if list.all > 0 { "no row holds what the filter asks for; Esc shows all" } else { &list.empty };
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        canvas.wrapped(inner, 2, why, Mood::Plain);
        return Drawn { page, ..Drawn::default() };
    }
    for (one, place) in list.heads.iter().zip(&places) {
        if let Some(column) = *place {
            head(canvas, area, column, one);
        }
    }
    // The marked row is on the screen, and the rows around it stay where they are while it moves within a page.
    let first = list.selected / page.max(1) * page;
    for (y, (at, row)) in list.rows.iter().enumerate().skip(first).take(page).enumerate() {
        let y = y as u16 + HEADS;
        for ((head, place), text) in list.heads.iter().zip(&places).zip(&row.cells) {
            let Some(column) = *place else { continue };
            cell(canvas, place_in(area, column, y), text, head.align, row.mood);
        }
        if at == list.selected {
            canvas.mark(area, y);
        }
    }
    Drawn { page, lines: None, rows: Some((area.y + HEADS, first)) }
}

/// The title of a column. Of the one that the list is sorted by, the mark of its direction stands behind the title: in
/// the gap where the title fills the column, and within the column at the edge of the window.
fn head(canvas: &mut Canvas<'_>, area: Rect, (x, width): (u16, u16), head: &Head) {
    let Some(direction) = head.order else {
        return cell(canvas, place_in(area, (x, width), 1), head.title, head.align, Mood::Quiet);
    };
    let width = width.min(area.width.saturating_sub(x + 1));
    cell(canvas, place_in(area, (x, width), 1), head.title, head.align, Mood::Strong);
    let end = match head.align {
        Align::Left | Align::Address => width.min(head.title.width() as u16),
        Align::Right => width,
    };
    canvas.text(area, x + end, 1, direction.mark(), Mood::Strong);
}

/// `by load▼`, where the list is sorted by a column that this width has no room for.
fn order_out_of_sight(list: &Listing, places: &[Option<(u16, u16)>]) -> Option<String> {
    let hidden = list.heads.iter().zip(places).filter(|(_, place)| place.is_none() && !list.rows.is_empty());
    hidden.filter_map(|(head, _)| Some(format!("by {}{}", head.title, head.order?.mark()))).next()
}

/// Where a cell stands: its column, with the row of the area.
fn place_in(area: Rect, (x, width): (u16, u16), y: u16) -> Rect {
    Rect { x: area.x + x, y: area.y + y, width, height: area.height.saturating_sub(y) }
}

fn cell(canvas: &mut Canvas<'_>, room: Rect, text: &str, align: Align, mood: Mood) {
    match align {
        Align::Left => {
            canvas.text(room, 0, 0, text, mood);
        }
        Align::Address => {
            let text = short_address(&safe(text), usize::from(room.width));
            canvas.text(room, 0, 0, &text, mood);
        }
        Align::Right => canvas.right(room, room.width, 0, text, mood),
    }
}

/// Where each column stands; None for those that this width has no room for.
fn places(heads: &[Head], width: u16) -> Vec<Option<(u16, u16)>> {
    let mut x = 0;
    heads
        .iter()
        .map(|head| {
            if head.from > width || x >= width {
                return None;
            }
            let left = width - x;
            let takes = if head.width == 0 { left } else { head.width.min(left) };
            if head.width == 0 && takes < LEAST_REST.min(width) {
                return None;
            }
            let place = (x, takes);
            x += takes + BETWEEN;
            Some(place)
        })
        .collect()
}
