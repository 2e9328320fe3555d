//! Sessions at work over time: a column for each second, stacked by class, with the CPUs that there are; then statements by
//! class.

use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use spindoctor_sessions::Bar;
use unicode_width::UnicodeWidthStr as _;

use super::canvas::{Canvas, EIGHTHS};
use crate::common::load::{Layer, in_layer, sessions};
use crate::top::draw::Drawn;
use crate::top::view::{LoadOver, LoadShown, Mood};
use spindoctor_page::number;

/// Columns of the numbers beside the chart.
const AXIS: u16 = 6;
/// From so many rows on there is room to say what it stands on.
const WITH_NOTE: u16 = 16;
/// Rows of that at most.
const NOTE: u16 = 4;
/// A chart is no higher: a row of it is a twentieth of the most.
const HIGHEST: u16 = 20;
/// The line of the CPUs is drawn where it is no higher than this many times what else there is: else nothing else was seen.
const MOST_ABOVE: f64 = 3.0;
/// Columns of the table: sessions in all, of a class, and the least that a statement needs.
const SESSIONS: u16 = 8;
const CLASS: (u16, u16) = (8, 16);
const LEAST: u16 = 20;
/// What distinguishes layers where there is no colour.
const PATTERNS: [&str; 7] = ["█", "▒", "▓", "░", "#", "=", "+"];

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, shown: &LoadShown, first: usize) -> Drawn {
    let chart_width = area.width.saturating_sub(AXIS);
    let Some(over) = shown.over(chart_width) else {
        canvas.rule(area, 0, "sessions at work");
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        canvas.wrapped(inner, 2, &shown.note, Mood::Plain);
        return Drawn::default();
    };
    canvas.rule(area, 0, &over.title);
    if area.height < 3 {
        return Drawn::default();
    }
    let note = match area.height >= WITH_NOTE {
        true => (textwrap::wrap(&over.note, usize::from(area.width)).len() as u16).min(NOTE),
        false => 0,
    };
    let left = area.height.saturating_sub(2 + note);
    // The table gets what it needs, and at most half.
    let needed = over.load.statements().len() as u16 + 1;
    let high = (left - needed.min(left / 2)).min(HIGHEST);
    let row = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
    chart(canvas, row(1, high), &over);
    legend(canvas, row(1 + high, 1), &over.layers);
    let drawn = table(canvas, row(2 + high, left - high), &over, first);
    if note > 0 {
        canvas.wrapped(row(2 + left, note), 0, &over.note, Mood::Quiet);
    }
    drawn
}

/// How a layer is drawn.
fn style(canvas: &Canvas<'_>, layer: &Layer) -> Style {
    match canvas.theme.colour {
        true => Style::new().fg(colour(layer.style())),
        false => Style::new(),
    }
}

/// The foreground of a style of the pages, for this terminal.
fn colour(style: anstyle::Style) -> Color {
    use anstyle::AnsiColor as Ansi;
    let Some(anstyle::Color::Ansi(ansi)) = style.get_fg_color() else { return Color::DarkGray };
    match ansi {
        Ansi::Black => Color::Black,
        Ansi::Red => Color::Red,
        Ansi::Green => Color::Green,
        Ansi::Yellow => Color::Yellow,
        Ansi::Blue => Color::Blue,
        Ansi::Magenta => Color::Magenta,
        Ansi::Cyan => Color::Cyan,
        Ansi::White => Color::Gray,
        Ansi::BrightBlack => Color::DarkGray,
        Ansi::BrightRed => Color::LightRed,
        Ansi::BrightGreen => Color::LightGreen,
        Ansi::BrightYellow => Color::LightYellow,
        Ansi::BrightBlue => Color::LightBlue,
        Ansi::BrightMagenta => Color::LightMagenta,
        Ansi::BrightCyan => Color::LightCyan,
        Ansi::BrightWhite => Color::White,
    }
}

/// What a full cell of a layer is: where there is no colour each has a pattern of its own; else those have one whose colour a
/// layer before them has, too.
fn pattern(canvas: &Canvas<'_>, layers: &[Layer], at: usize) -> &'static str {
    let is_same = |layer: &&Layer| colour(layer.style()) == colour(layers[at].style());
    let place = if canvas.theme.colour { layers[..at].iter().filter(is_same).count() } else { at };
    PATTERNS[place % PATTERNS.len()]
}

fn chart(canvas: &mut Canvas<'_>, area: Rect, over: &LoadOver) {
    let bars = over.load.bars();
    let highest = bars.iter().map(Bar::all_sessions).fold(0.0, f64::max);
    let granted = over.load.cpus_granted();
    let line = granted.filter(|granted| *granted <= MOST_ABOVE * highest);
    let ceiling = highest.max(line.unwrap_or(0.0)).max(0.1);
    let rows = area.height;
    let plot = Rect { x: area.x + AXIS, width: area.width.saturating_sub(AXIS), ..area };
    canvas.right(area, AXIS - 1, 0, &sessions(ceiling), Mood::Quiet);
    if rows > 1 {
        canvas.right(area, AXIS - 1, rows - 1, "0", Mood::Quiet);
    }
    // The CPUs' line lies behind the bars.
    if let Some(cpus) = line {
        let from_top = ((1.0 - cpus / ceiling) * f64::from(rows)).floor() as u16;
        let y = from_top.min(rows - 1);
        canvas.text(plot, 0, y, &"┄".repeat(usize::from(plot.width)), Mood::Quiet);
        let label = format!("{}CPU", number::plain((cpus * 10.0).round() / 10.0));
        canvas.right(area, AXIS - 1, y, &label, Mood::Quiet);
    }
    for bar in bars {
        // Lists lie on a grid of a second, give or take what reading them took.
        let back = over.until.duration_since(bar.to).as_secs_f64().round() as u16;
        let wide = bar.to.duration_since(bar.from).as_secs_f64().round().max(1.0) as u16;
        for x in (back..back.saturating_add(wide)).filter_map(|back| plot.width.checked_sub(back + 1)) {
            column(canvas, Rect { x: plot.x + x, width: 1, ..plot }, over, bar, ceiling);
        }
    }
}

/// A second: each cell shows the layer that has the most of it, and the highest ends within its cell.
fn column(canvas: &mut Canvas<'_>, area: Rect, over: &LoadOver, bar: &Bar, ceiling: f64) {
    let heights: Vec<f64> = over
        .layers
        .iter()
        .map(|layer| in_layer(&over.layers, layer, |class| bar.sessions(class), bar.all_sessions()))
        .collect();
    let all: f64 = heights.iter().sum();
    let rows = f64::from(area.height);
    let filled = all / ceiling * rows;
    for y in 0..area.height {
        let foot = f64::from(area.height - 1 - y);
        // What is there at all is seen.
        let part =
            if foot == 0.0 && all > 0.0 { filled.clamp(0.125, 1.0) } else { (filled - foot).clamp(0.0, 1.0) };
        if part <= 0.0 {
            // A bar of nothing still hides no line.
            continue;
        }
        let (from, to) = (foot / rows * ceiling, (foot + part) / rows * ceiling);
        let at = largest(&heights, from, to);
        let style = style(canvas, &over.layers[at]);
        let full = pattern(canvas, &over.layers, at);
        let cell = match part {
            // The eighths are parts of the first pattern.
            part if canvas.theme.colour && full == PATTERNS[0] => {
                EIGHTHS[((part * 8.0).round() as usize).clamp(1, 8)]
            }
            part if part >= 0.5 => full,
            // A few sessions below many are seen, and do not look like more.
            _ if foot == 0.0 => EIGHTHS[1],
            _ => continue,
        };
        canvas.styled(area, 0, y, cell, style);
    }
}

/// The layer that has the most between two heights of a stack.
fn largest(heights: &[f64], from: f64, to: f64) -> usize {
    let (mut below, mut best) = (0.0, (0, f64::MIN));
    for (at, height) in heights.iter().enumerate() {
        let within = (below + height).min(to) - f64::max(below, from);
        if *height > 0.0 && within > best.1 {
            best = (at, within);
        }
        below += height;
    }
    best.0
}

fn legend(canvas: &mut Canvas<'_>, area: Rect, layers: &[Layer]) {
    let mut x = 0;
    for (at, layer) in layers.iter().enumerate() {
        let text = format!(" {} {}", layer.label(), sessions(layer.sessions));
        // Whole entries, as many as there is room for.
        if x + 1 + text.width() as u16 > area.width {
            break;
        }
        let style = style(canvas, layer);
        let key = pattern(canvas, layers, at);
        x += canvas.styled(area, x, 0, key, style);
        x += canvas.text(area, x, 0, &text, Mood::Plain) + 2;
    }
    if layers.is_empty() {
        canvas.text(area, 0, 0, "no session was at work", Mood::Quiet);
    }
}

fn table(canvas: &mut Canvas<'_>, area: Rect, over: &LoadOver, first: usize) -> Drawn {
    let load = &over.load;
    let statements = load.statements();
    let page = usize::from(area.height.saturating_sub(1));
    if area.height == 0 {
        return Drawn::default();
    }
    let mut largest: Vec<&Layer> = over.layers.iter().collect();
    largest.sort_by(|a, b| a.class.is_none().cmp(&b.class.is_none()).then(b.sessions.total_cmp(&a.sessions)));
    // As many of the largest classes as leave room for a statement.
    let mut end = SESSIONS;
    let mut columns: Vec<(&Layer, u16)> = Vec::new();
    for layer in largest {
        let width = (layer.label().width() as u16 + 2).clamp(CLASS.0, CLASS.1);
        if end + width + LEAST > area.width {
            break;
        }
        end += width;
        columns.push((layer, end));
    }
    canvas.right(area, SESSIONS, 0, "sessions", Mood::Quiet);
    let mut begin = SESSIONS;
    for (layer, end) in &columns {
        let room = Rect { x: area.x + begin + 1, width: end - begin - 1, ..area };
        canvas.right(room, room.width, 0, layer.label(), Mood::Quiet);
        begin = *end;
    }
    canvas.text(area, end + 2, 0, "statement", Mood::Quiet);
    let last_first = statements.len().saturating_sub(page.max(1));
    for (y, statement) in (1..).zip(statements.iter().skip(first.min(last_first)).take(page)) {
        let in_all = load.sessions_of(statement);
        canvas.right(area, SESSIONS, y, &sessions(in_all), Mood::Strong);
        for (layer, end) in &columns {
            let part = in_layer(&over.layers, layer, |class| load.sessions_in(statement, class), in_all);
            canvas.right(area, *end, y, &sessions(part), Mood::Plain);
        }
        let (text, mood) = match statement.text.as_str() {
            "" => ("the server shows no statement", Mood::Quiet),
            text => (text, Mood::Plain),
        };
        canvas.text(area, end + 2, y, text, mood);
    }
    Drawn { page, lines: Some(last_first + 1), rows: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_the_same_colour_have_patterns_of_their_own() {
        use spindoctor_model::TimeClass::{Commit, MetadataLock, RowLock};
        let layers = [RowLock, Commit, MetadataLock].map(|class| Layer { class: Some(class), sessions: 1.0 });
        let patterns = |colour| {
            let mut buffer = ratatui::buffer::Buffer::empty(Rect::new(0, 0, 1, 1));
            let canvas = Canvas::new(&mut buffer, super::super::Theme { colour });
            [0, 1, 2].map(|at| pattern(&canvas, &layers, at))
        };
        assert_eq!((patterns(true), patterns(false)), (["█", "█", "▒"], ["█", "▒", "▓"]));
    }

    #[test]
    fn a_cell_shows_the_layer_that_has_the_most_of_it() {
        let heights = [2.0, 0.0, 6.0, 1.0];
        assert_eq!(largest(&heights, 0.0, 2.0), 0);
        assert_eq!(largest(&heights, 1.5, 3.0), 2);
        assert_eq!(largest(&heights, 8.0, 9.0), 3);
        assert_eq!(largest(&heights, 7.8, 8.9), 3);
    }
}
