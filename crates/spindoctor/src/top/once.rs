//! One screen as text on standard output.

use std::ops::RangeInclusive;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr as _;

use super::args::{COLUMNS, ROWS, Top as Asked};
use super::draw::{Theme, draw};
use super::feed::Feed;
use super::moment::Moment;
use super::run::replay;
use super::state::State;
use super::still::Still;
use super::view::Content;
use crate::common::session::WithoutSession;
use crate::common::terminal::size_of_stdout;
use crate::common::{output, session};

/// Where the size of the screen is not known.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Draws the screen that was asked for and prints it.
pub fn run(asked: &Asked) -> anyhow::Result<()> {
    let (mut feed, state): (Box<dyn Feed>, State) = match &asked.replay {
        Some(_) => {
            let (feed, state) = replay(asked)?;
            (Box::new(feed), state)
        }
        None => {
            let window = session::window(&asked.connection, asked.duration, WithoutSession::Fail, None)?;
            let mut state = State::new(asked.screen);
            state.rates_over(asked.duration.as_secs_f64());
            (Box::new(Still::new(window)), state)
        }
    };
    let mut moment = Moment::from_feed(feed.as_mut(), state.at(), state.rates_over_s())?;
    moment.read_at_work(feed.as_mut(), state.screen)?;
    moment.read_history(feed.as_mut())?;
    let shown = Content::new(&state, &moment);
    let (width, height) = asked.size.unwrap_or_else(size);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&mut buffer, &state, &moment, &shown, Theme { colour: false });
    output::print(&text(&buffer))
}

fn size() -> (u16, u16) {
    let (columns, rows) = size_of_stdout();
    let within = |known: Option<usize>, bounds: RangeInclusive<u16>, default: u16| {
        let known = known.map(|known| u16::try_from(known).unwrap_or(u16::MAX));
        known.map_or(default, |known| known.clamp(*bounds.start(), *bounds.end()))
    };
    (within(columns, COLUMNS, DEFAULT_SIZE.0), within(rows, ROWS, DEFAULT_SIZE.1))
}

/// The lines of a buffer, without the blanks at their ends.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width.max(1))) {
        let mut line = String::new();
        // What stands behind a wide character is covered by it.
        let mut covered = 0;
        for cell in row {
            if covered == 0 {
                line.push_str(cell.symbol());
            }
            covered = cell.symbol().width().max(covered).saturating_sub(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_becomes_lines_and_a_wide_character_stands_once() {
        let buffer = Buffer::with_lines(["日本 x  ", "        "]);
        assert_eq!(text(&buffer), "日本 x\n\n");
    }
}
