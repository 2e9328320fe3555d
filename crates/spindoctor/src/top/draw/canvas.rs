//! A buffer to write on: every text is made safe and cut to its room here, so that no string of a server steers the
//! terminal or leaves its column. Styles are chosen by mood.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

use crate::top::view::Mood;
use spindoctor_page::safe::safe;
use spindoctor_page::text::shortened;

/// Eighths of a cell, from empty to full.
pub const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Eighths of a cell, from the left.
const FROM_LEFT: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// How moods look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// False where colour is not wanted: moods are bold, dim or reversed then.
    pub colour: bool,
}

impl Theme {
    /// The style of a mood.
    pub fn style(self, mood: Mood) -> Style {
        let accent = |colour| if self.colour { Style::new().fg(colour) } else { Style::new() };
        match mood {
            Mood::Plain => Style::new(),
            Mood::Quiet => Style::new().add_modifier(Modifier::DIM),
            Mood::Strong => Style::new().add_modifier(Modifier::BOLD),
            Mood::Good => accent(Color::Green),
            Mood::Warn => accent(Color::Yellow).add_modifier(Modifier::BOLD),
            Mood::Alarm => accent(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// The style of what is marked.
    pub fn marked(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of charts.
    fn chart(self) -> Style {
        if self.colour { Style::new().fg(Color::Cyan) } else { Style::new() }
    }
}

/// A buffer to write on.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub theme: Theme,
}

impl<'a> Canvas<'a> {
    pub fn new(buffer: &'a mut Buffer, theme: Theme) -> Self {
        Self { buffer, theme }
    }

    pub fn area(&self) -> Rect {
        self.buffer.area
    }

    /// Text in an area, from a column and row of it on; cut at the area's right edge. Returns the columns it took.
    pub fn text(&mut self, area: Rect, x: u16, y: u16, text: &str, mood: Mood) -> u16 {
        let style = self.theme.style(mood);
        self.styled(area, x, y, text, style)
    }

    pub fn styled(&mut self, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let (left, top) = (area.x + x, area.y + y);
        let right = area.right().min(self.buffer.area.right());
        if left >= right || y >= area.height || top >= self.buffer.area.bottom() {
            return 0;
        }
        let room = usize::from(right - left);
        let cut = cut(&safe(text), room);
        let (end, _) = self.buffer.set_stringn(left, top, &cut, room, style);
        end - left
    }

    /// Text that ends at a column of an area.
    pub fn right(&mut self, area: Rect, end: u16, y: u16, text: &str, mood: Mood) {
        let text = cut(&safe(text), usize::from(end));
        let begin = end.saturating_sub(text.width() as u16);
        self.text(area, begin, y, &text, mood);
    }

    /// Text wrapped to an area from a row of it on. Returns the rows it took.
    pub fn wrapped(&mut self, area: Rect, y: u16, text: &str, mood: Mood) -> u16 {
        let lines = textwrap::wrap(&safe(text), usize::from(area.width.max(1)))
            .into_iter()
            .map(Cow::into_owned)
            .collect::<Vec<_>>();
        for (at, line) in lines.iter().enumerate() {
            self.text(area, 0, y + at as u16, line, mood);
        }
        lines.len() as u16
    }

    /// A line across an area with a title in it.
    pub fn rule(&mut self, area: Rect, y: u16, title: &str) {
        let line = "─".repeat(usize::from(area.width));
        self.text(area, 0, y, &line, Mood::Quiet);
        if !title.is_empty() {
            let inner = Rect { width: area.width.saturating_sub(1), ..area };
            self.text(
                inner,
                1,
                y,
                &format!(" {} ", cut(&safe(title), usize::from(inner.width.saturating_sub(4)))),
                Mood::Strong,
            );
        }
    }

    /// A row that is marked, to its end.
    pub fn mark(&mut self, area: Rect, y: u16) {
        let row = Rect { y: area.y + y, height: 1, ..area };
        let style = self.theme.marked();
        self.buffer.set_style(row, style);
    }

    /// A horizontal bar in an area's first row, of a share of the area's width.
    pub fn bar(&mut self, area: Rect, share: f64, mood: Mood) {
        let eighths = (share.clamp(0.0, 1.0) * f64::from(area.width) * 8.0).round() as usize;
        let mut text = "█".repeat(eighths / 8);
        if !eighths.is_multiple_of(8) {
            text.push_str(FROM_LEFT[eighths % 8]);
        }
        let style = if matches!(mood, Mood::Plain) { self.theme.chart() } else { self.theme.style(mood) };
        self.styled(area, 0, 0, &text, style);
    }

    /// A course over all columns and rows of an area: one value for each column, from zero to the largest. Nothing is drawn
    /// where there is no value, and the least mark where it is zero.
    pub fn course(&mut self, area: Rect, values: &[Option<f64>]) {
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        let rows = usize::from(area.height);
        let style = self.theme.chart();
        for (x, value) in values.iter().enumerate().take(usize::from(area.width)) {
            let Some(value) = value else { continue };
            let share = if most > 0.0 { value / most } else { 0.0 };
            let eighths = ((share * (rows * 8) as f64).round() as usize).max(1);
            for row in 0..rows {
                let below = (rows - 1 - row) * 8;
                let cell = EIGHTHS[eighths.saturating_sub(below).min(8)];
                self.styled(area, x as u16, row as u16, cell, style);
            }
        }
    }

    /// Makes an area empty.
    pub fn clear(&mut self, area: Rect) {
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
    }
}

/// A text in so many columns, with an ellipsis where it is cut.
pub fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    match columns {
        0 => String::new(),
        columns => shortened(text, columns - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_in_its_room_and_steers_nothing() {
        let area = Rect::new(0, 0, 8, 1);
        let mut buffer = Buffer::empty(area);
        let mut canvas = Canvas::new(&mut buffer, Theme { colour: false });
        canvas.text(area, 0, 0, "a\u{1b}[31m\u{202e}bc", Mood::Plain);
        assert_eq!(buffer, Buffer::with_lines([r"a\u{1b}…"]));
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn what_lies_outside_the_buffer_is_not_written() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 2));
        let mut canvas = Canvas::new(&mut buffer, Theme { colour: false });
        canvas.course(Rect::new(2, 1, 4, 3), &[Some(1.0); 4]);
        canvas.text(Rect::new(0, 5, 4, 1), 0, 0, "below", Mood::Plain);
        assert_eq!(buffer, Buffer::with_lines(["    ", "  ██"]));
    }

    #[test]
    fn a_course_fills_its_rows_from_zero_to_the_most() {
        let area = Rect::new(0, 0, 4, 2);
        let mut buffer = Buffer::empty(area);
        Canvas::new(&mut buffer, Theme { colour: false })
            .course(area, &[Some(0.0), None, Some(8.0), Some(16.0)]);
        assert_eq!(buffer, Buffer::with_lines(["   █", "▁ ██"]));
    }
}
