//! The first screen: a verdict, meters with their course, threads and waits beside the host, statements, and the whole of
//! a recording in one line.

use ratatui::layout::Rect;
use spindoctor_model::window::Series;

use super::canvas::Canvas;
use crate::top::draw::Drawn;
use crate::top::moment::{HISTORY, Moment};
use crate::top::view::{Bar, Block, Meter, Mood, Overview, seconds};

/// Columns of a meter's label, its value and the median before.
const LABEL: u16 = 10;
const VALUE: u16 = 11;
/// A window of at least so many columns shows three blocks beside each other.
const THREE_COLUMNS: u16 = 150;
/// A window of at least so many rows has meters of two rows.
const HIGH_METERS: u16 = 40;
/// The verdict takes so many rows of a small window at most.
const VERDICT_ROWS: u16 = 2;

/// Draws it.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, overview: &Overview, moment: &Moment) -> Drawn {
    let mut y = 0;
    let rows = if area.height >= HIGH_METERS { area.height } else { VERDICT_ROWS };
    let place = Rect { height: rows.min(area.height), ..area };
    y += canvas.wrapped(place, y, &overview.verdict.text, overview.verdict.mood).min(rows);
    // A small window has room for one finding, beside a verdict of something else.
    let findings = if area.height >= HIGH_METERS { overview.findings.len() } else { 1 };
    for finding in overview.findings.iter().take(findings) {
        canvas.text(area, 0, y, &finding.text, finding.mood);
        y += 1;
    }
    y = meters(canvas, area, y, overview);
    let timeline = if overview.timeline.is_empty() { 0 } else { 1 };
    let left = area.height.saturating_sub(y + timeline);
    let queries = queries_height(overview, left);
    let middle = left - queries;
    let middle_area = Rect { y: area.y + y, height: middle, ..area };
    blocks(canvas, middle_area, overview);
    let queries_area = Rect { y: area.y + y + middle, height: queries, ..area };
    statements(canvas, queries_area, overview);
    if timeline > 0 {
        let line = Rect { y: area.bottom() - 1, height: 1, ..area };
        whole(canvas, line, overview, moment);
    }
    Drawn::default()
}

/// Statements get what they need, at least five rows and at most half of what is left.
fn queries_height(overview: &Overview, left: u16) -> u16 {
    let needed = overview.queries.len().max(1) as u16 + 1;
    needed.max(5).min(left / 2).min(left)
}

fn meters(canvas: &mut Canvas<'_>, area: Rect, mut y: u16, overview: &Overview) -> u16 {
    let high = if area.height >= HIGH_METERS { 2 } else { 1 };
    let begin = LABEL + VALUE * 2 + 2;
    let width = area.width.saturating_sub(begin);
    let column_s = seconds_a_column(width, &overview.meters);
    canvas.rule(area, y, "");
    let over = format!(" now ({}) ", overview.rates_over);
    canvas.right(area, LABEL + VALUE + 1, y, &over, Mood::Quiet);
    canvas.right(area, LABEL + VALUE * 2 + 1, y, " median ", Mood::Quiet);
    let shown_s = f64::from(width) * column_s;
    let ago = format!(" the last {} ", seconds(shown_s.min(HISTORY.as_secs_f64())));
    canvas.right(area, area.width.saturating_sub(1), y, &ago, Mood::Quiet);
    y += 1;
    for Meter { label, now, before, note, series, mood } in &overview.meters {
        let has_course = !series.is_empty();
        canvas.text(area, 0, y, label, Mood::Quiet);
        canvas.right(area, LABEL + VALUE, y, now, *mood);
        canvas.right(area, LABEL + VALUE * 2, y, before, Mood::Quiet);
        let room =
            Rect { x: area.x + begin, width, y: area.y + y, height: if has_course { high } else { 1 } };
        if has_course {
            canvas.course(room, &columns(series, width, column_s));
        } else {
            canvas.text(room, 0, 0, note, Mood::Quiet);
        }
        y += room.height;
    }
    y
}

/// The least whole seconds a column for which all that there is of the history fits.
fn seconds_a_column(width: u16, meters: &[Meter]) -> f64 {
    let oldest_s = meters.iter().filter_map(|meter| meter.series.first()).map(|(at_s, _)| -at_s);
    let there_s = oldest_s.fold(0.0, f64::max).min(HISTORY.as_secs_f64());
    (there_s / f64::from(width.max(1))).ceil().max(1.0)
}

/// The mean of a course in each column, now at the right edge.
fn columns(series: &Series, width: u16, column_s: f64) -> Vec<Option<f64>> {
    let width = usize::from(width);
    let mut sums = vec![(0.0, 0_u32); width];
    for &(at_s, value) in series {
        let back = ((-at_s).max(0.0) / column_s) as usize;
        if back < width {
            let (sum, count) = &mut sums[width - 1 - back];
            *sum += value;
            *count += 1;
        }
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
}

/// Threads, waits and the host: beside each other where there is room, else waits below threads.
fn blocks(canvas: &mut Canvas<'_>, area: Rect, overview: &Overview) {
    if area.height < 2 {
        return;
    }
    if area.width >= THREE_COLUMNS {
        let third = area.width / 3;
        let column = |at: u16| Rect { x: area.x + at * third, width: third - 2, ..area };
        block(canvas, column(0), &overview.time);
        block(canvas, column(1), &overview.waits);
        host(canvas, Rect { width: area.width - 2 * third, ..column(2) }, overview);
        return;
    }
    let half = area.width / 2;
    let left = Rect { width: half - 1, ..area };
    let right = Rect { x: area.x + half + 1, width: area.width - half - 1, ..area };
    let threads_need = overview.time.bars.len().max(1) as u16 + 1;
    let threads_height = threads_need.min(area.height.saturating_sub(3)).max(area.height.min(3));
    block(canvas, Rect { height: threads_height, ..left }, &overview.time);
    let waits = Rect { y: left.y + threads_height, height: left.height - threads_height, ..left };
    if waits.height >= 2 {
        block(canvas, waits, &overview.waits);
    }
    host(canvas, right, overview);
}

fn block(canvas: &mut Canvas<'_>, area: Rect, block: &Block) {
    const NUMBER: u16 = 7;
    canvas.rule(area, 0, &block.title);
    if block.bars.is_empty() {
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area };
        canvas.wrapped(inner, 1, &block.empty, Mood::Quiet);
        return;
    }
    let rows = usize::from(area.height.saturating_sub(1));
    let bar_columns = (area.width / 4).min(24);
    let label_end = area.width.saturating_sub(bar_columns + 1);
    for (y, Bar { value, label, share, mood }) in block.bars.iter().take(rows).enumerate() {
        let y = y as u16 + 1;
        canvas.right(area, NUMBER, y, value, *mood);
        let label_area = Rect { width: label_end, ..area };
        canvas.text(label_area, NUMBER + 1, y, label, *mood);
        let bar = Rect { x: area.x + label_end + 1, y: area.y + y, width: bar_columns, height: 1 };
        canvas.bar(bar, *share, *mood);
    }
}

fn host(canvas: &mut Canvas<'_>, area: Rect, overview: &Overview) {
    const LABELS: u16 = 11;
    canvas.rule(area, 0, "host");
    let values = Rect { x: area.x + LABELS, width: area.width.saturating_sub(LABELS), ..area };
    let mut y = 1;
    for (label, text) in &overview.host {
        canvas.text(area, 1, y, label, Mood::Quiet);
        y += canvas.wrapped(values, y, &text.text, text.mood).max(1);
    }
}

fn statements(canvas: &mut Canvas<'_>, area: Rect, overview: &Overview) {
    if area.height < 2 {
        return;
    }
    canvas.rule(area, 0, &overview.queries_title);
    if overview.queries.is_empty() {
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area };
        canvas.wrapped(inner, 1, &overview.queries_empty, Mood::Quiet);
        return;
    }
    let rows = usize::from(area.height - 1);
    for (y, query) in overview.queries.iter().take(rows).enumerate() {
        let y = y as u16 + 1;
        canvas.right(area, 7, y, &query.share, Mood::Plain);
        canvas.right(area, 18, y, &query.per_s, Mood::Plain);
        canvas.right(area, 27, y, &query.mean, Mood::Plain);
        canvas.text(area, 29, y, &query.text, Mood::Plain);
    }
}

/// The whole recording in one line: its course, where we are, and its events.
fn whole(canvas: &mut Canvas<'_>, area: Rect, overview: &Overview, moment: &Moment) {
    let (Some(extent), Some(at)) = (moment.extent, moment.at) else { return };
    let (from, to) =
        (extent.from.strftime("%d %H:%M").to_string(), extent.to.strftime("%d %H:%M").to_string());
    let side = from.len() as u16 + 1;
    canvas.text(area, 0, 0, &from, Mood::Quiet);
    canvas.right(area, area.width, 0, &to, Mood::Quiet);
    let room = Rect { x: area.x + side, width: area.width.saturating_sub(side * 2), ..area };
    let seconds = extent.seconds().max(1.0);
    let place = |instant: jiff::Timestamp| {
        let since_s = (instant - extent.from).total(jiff::Unit::Second).unwrap_or(0.0);
        ((since_s / seconds * f64::from(room.width)) as u16).min(room.width.saturating_sub(1))
    };
    let now_s = (at - extent.from).total(jiff::Unit::Second).unwrap_or(0.0);
    let mut sums = vec![(0.0, 0_u32); usize::from(room.width)];
    for &(at_s, value) in &overview.timeline {
        let column = ((now_s + at_s) / seconds * f64::from(room.width)).max(0.0) as usize;
        if let Some((sum, count)) = sums.get_mut(column.min(usize::from(room.width).saturating_sub(1))) {
            *sum += value;
            *count += 1;
        }
    }
    let means: Vec<Option<f64>> =
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect();
    canvas.course(room, &means);
    for event in &moment.events {
        canvas.text(room, place(event.began), 0, "!", Mood::Alarm);
    }
    let style = canvas.theme.marked();
    canvas.styled(room, place(at), 0, "┃", style);
}
