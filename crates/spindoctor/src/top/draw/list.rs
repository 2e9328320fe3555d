//! A list: a title, heads, rows, and a mark.

use ratatui::layout::Rect;

use super::canvas::Canvas;
use crate::top::draw::Drawn;
use crate::top::view::{Align, Head, Listing, Mood};
use spindoctor_page::number;

/// Columns between two cells.
const BETWEEN: u16 = 2;
/// The last column needs so many to say anything.
const LEAST_REST: u16 = 16;

/// Draws a list.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, list: &Listing) -> Drawn {
    let page = usize::from(area.height.saturating_sub(2));
    let title = match list.filter.as_str() {
        "" => list.title.clone(),
        filter => format!(
            "{}  filter {filter:?}: {} of {}",
            list.title,
            number::plain(list.rows.len() as f64),
            number::plain(list.all as f64)
        ),
    };
    let pages = list.rows.len().div_ceil(page.max(1));
    let line = match pages {
        0 | 1 => String::new(),
        _ => format!(" page {} of {pages} ", list.selected / page.max(1) + 1),
    };
    let titled = Rect { width: area.width.saturating_sub(line.len() as u16), ..area };
    canvas.rule(area, 0, "");
    canvas.rule(titled, 0, &title);
    canvas.right(area, area.width.saturating_sub(1), 0, &line, Mood::Quiet);
    if list.rows.is_empty() {
        let why =
            if list.all > 0 { "no row holds what the filter asks for; Esc shows all" } else { &list.empty };
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        canvas.wrapped(inner, 2, why, Mood::Plain);
        return Drawn { page, lines: None };
    }
    let places = places(&list.heads, area.width);
    for (head, place) in list.heads.iter().zip(&places) {
        let Some(column) = *place else { continue };
        let mood = if head.is_order { Mood::Strong } else { Mood::Quiet };
        cell(canvas, place_in(area, column, 1), head.title, head.align, mood);
    }
    // The marked row is on the screen, and the rows around it stay where they are while it moves within a page.
    let first = list.selected / page.max(1) * page;
    for (y, (at, row)) in list.rows.iter().enumerate().skip(first).take(page).enumerate() {
        let y = y as u16 + 2;
        for ((head, place), text) in list.heads.iter().zip(&places).zip(&row.cells) {
            let Some(column) = *place else { continue };
            cell(canvas, place_in(area, column, y), text, head.align, row.mood);
        }
        if at == list.selected {
            canvas.mark(area, y);
        }
    }
    Drawn { page, lines: None }
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
