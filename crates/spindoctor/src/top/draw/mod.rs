//! Draws the screen's content into a buffer of any size. Nothing is computed or read here.

mod canvas;
mod fleet;
mod frame;
mod help;
mod list;
mod load;
mod overview;
#[cfg(test)]
mod tests;
mod text;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use canvas::Canvas;
pub use canvas::Theme;
pub use fleet::draw_fleet;
pub use frame::{TABS_ROW, tab_at};

use super::moment::Moment;
use super::state::State;
use super::view as top_view;
use super::view::{Content, detail};

/// Smaller than this nothing can be read.
const LEAST: (u16, u16) = (40, 8);

/// Draws a screen. Returns how many rows of a list or lines of a text there was room for, and how many lines the text has.
pub fn draw(buffer: &mut Buffer, state: &State, moment: &Moment, shown: &Content, theme: Theme) -> Drawn {
    let area = buffer.area;
    let mut canvas = Canvas::new(buffer, theme);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.text(area, 0, 0, "enlarge the window", top_view::Mood::Plain);
        return Drawn::default();
    }
    frame::head(&mut canvas, state, moment);
    frame::foot(&mut canvas, state, shown, moment);
    let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
    let drawn = match shown {
        Content::Overview(overview) => overview::draw(&mut canvas, body, overview, moment),
        Content::List(listing) => list::draw(&mut canvas, body, listing),
        Content::Locks(locks) => text::locks(&mut canvas, body, locks, state.list().selected),
        Content::Load(shown) => load::draw(&mut canvas, body, shown, state.list().selected),
        Content::Host(report) => text::host(&mut canvas, body, report, state.list().selected),
        Content::Help => help::draw(&mut canvas, body, state.list().selected),
        Content::Nothing(why) => {
            canvas.wrapped(body, 1, why, top_view::Mood::Strong);
            Drawn::default()
        }
    };
    if let Some((target, window)) = state.detail.as_ref().zip(moment.window.as_ref()) {
        let lines = detail(target, window, state.rates_over_s());
        frame::detail(&mut canvas, body, lines);
    }
    drawn
}

/// What there was room for, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drawn {
    /// Rows of the list, or lines of the text, that fit.
    pub page: usize,
    /// Lines of a text that can be moved through; None for a list, which knows its rows.
    pub lines: Option<usize>,
    /// Of a list: the row of the screen in which its rows begin, and which of them stands there.
    pub rows: Option<(u16, usize)>,
}

impl Drawn {
    /// Which row of the list stands in this row of the screen; the list may end before it.
    pub fn row_at(self, y: u16) -> Option<usize> {
        let (top, first) = self.rows?;
        let below = usize::from(y.checked_sub(top)?);
        (below < self.page).then_some(first + below)
    }
}
