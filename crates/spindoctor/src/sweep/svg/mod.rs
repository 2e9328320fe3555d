//! The charts of a sweep: throughput, p95 and CPU for each statement against clients, a line for each setting. One SVG, no
//! script, no network, light and dark as the reader's browser.
//!
//! In: a [`Chart`], of one sweep or of two that are compared. A point is the median of its runs, the bar through it reaches from
//! the lowest to the highest. Dashed is the Universal Scalability Law, with a ring at its peak. Lines are named at their right end,
//! so that no legend has to be looked up.

mod axes;
mod style;

use std::fmt::Write as _;

use spindoctor_tune::sweep::Spread;

use super::chart::{Chart, Drawn};
use super::view::{CHARTED, METRICS, Metric};
use axes::{Across, Frame, Up, is_drawn};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::svg;
use spindoctor_page::text::{shortened, wrapped};
use style::{ONE_OF_BOTH, STYLE, class, line_styles};

/// Sizes of a picture, pixels.
struct Layout {
    class: &'static str,
    width: f64,
    margin: f64,
    /// Above a plot for its title, and the heights of the first plot and of each other.
    above: f64,
    tall: f64,
    short: f64,
    /// True where the names of the lines stand right of the first plot, and the other plots beside each other; else all
    /// stands below each other.
    is_wide: bool,
}

const WIDE: Layout = Layout {
    class: "sweep",
    width: 1000.0,
    margin: 24.0,
    above: 34.0,
    tall: 330.0,
    short: 190.0,
    is_wide: true,
};
/// For a telephone: its letters stay readable at a third of the other's width.
const NARROW: Layout = Layout {
    class: "sweep narrow",
    width: 400.0,
    margin: 6.0,
    above: 50.0,
    tall: 250.0,
    short: 170.0,
    is_wide: false,
};
/// Room right of a wide plot for the names of the lines.
const NAMES: f64 = 170.0;
/// Pixels of a letter of middling width at 12 px, and letters of a name.
const LETTER: f64 = 6.9;
const NAME_LETTERS: usize = 22;
/// Pixels left of a plot for its numbers, below it for the clients.
const LEFT: f64 = 58.0;
const BELOW: f64 = 44.0;
/// Pixels of a name's line.
const NAME_LINE: f64 = 16.0;
/// With more lines than this, fitted curves would hide what was measured.
const MOST_CURVES: usize = 5;

/// The charts as a file of their own.
pub fn render(chart: &Chart<'_>) -> String {
    let Layout { width, margin, .. } = WIDE;
    let mut head = String::new();
    let mut y = margin;
    text(&mut head, "title", margin, y + 14.0, &safe(&chart.title));
    y += 24.0;
    for line in lines_of(&chart.facts, (width - 2.0 * margin) / LETTER) {
        text(&mut head, "quiet", margin, y + 12.0, &safe(&line));
        y += 17.0;
    }
    let (plots, height) = plots(chart, &WIDE, y + 6.0);
    let ground = format!("<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>");
    element(
        chart,
        &WIDE,
        height,
        &format!("{}{STYLE}", line_styles(chart.colours)),
        &[&ground, &head, &plots],
    )
}

/// The charts to stand within an HTML page, which has a title of its own: a wide picture and a narrow one, of which the page
/// shows the one that fits. The styles of the first are those of both.
pub fn within_page(chart: &Chart<'_>) -> String {
    let styles = format!("{}{STYLE}{ONE_OF_BOTH}", line_styles(chart.colours));
    let picture = |layout: &Layout, styles: &str| {
        let (plots, height) = plots(chart, layout, layout.margin);
        element(chart, layout, height, styles, &[&plots])
    };
    picture(&WIDE, &styles) + &picture(&NARROW, "")
}

fn element(chart: &Chart<'_>, layout: &Layout, height: f64, styles: &str, parts: &[&str]) -> String {
    let Layout { class, width, .. } = layout;
    let style = if styles.is_empty() { String::new() } else { format!("<style>{styles}</style>") };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\"><title>{}</title>{style}{}</svg>\n",
        svg::text(&chart.title),
        parts.concat(),
    )
}

/// The plots from this height on with what their lines and marks mean, and the height of all.
fn plots(chart: &Chart<'_>, layout: &Layout, mut y: f64) -> (String, f64) {
    let Layout { width, margin, above, short, is_wide, .. } = *layout;
    let mut out = String::new();
    let tall = match is_wide {
        true => layout.tall.max((chart.lines.len() as f64 + 2.0) * NAME_LINE),
        false => layout.tall,
    };
    let top = Frame {
        left: margin + LEFT,
        top: y + above,
        right: width - margin - if is_wide { NAMES } else { 0.0 },
        bottom: y + above + tall,
    };
    let [throughput, others @ ..] = &METRICS[..CHARTED] else { return (out, y) };
    plot(&mut out, chart, layout, throughput, top, true);
    y = top.bottom + BELOW + 8.0;
    match is_wide {
        true => names(&mut out, chart, top),
        false => y = legend(&mut out, chart, layout, y) + 8.0,
    }
    let others: Vec<&Metric> = others.iter().filter(|metric| metric.is_drawn(chart)).collect();
    let in_a_row = if is_wide { others.len().max(1) } else { 1 };
    let room = (width - margin) / in_a_row as f64;
    for row in others.chunks(in_a_row) {
        for (at, metric) in row.iter().enumerate() {
            let left = at as f64 * room;
            let frame = Frame {
                left: left + margin + LEFT,
                top: y + above,
                right: left + room - 8.0,
                bottom: y + above + short,
            };
            plot(&mut out, chart, layout, metric, frame, false);
        }
        y += above + short + BELOW;
    }
    let mut key = chart.key.to_owned();
    if has_curves(chart) {
        key.push_str(" Dashed: the Universal Scalability Law; ring: its peak.");
    }
    for line in wrapped(&key, ((width - 2.0 * margin) / LETTER) as usize) {
        text(&mut out, "quiet", margin, y + 14.0, &line);
        y += 16.0;
    }
    (out, y + 14.0)
}

/// The names of the lines below their plot, each with its mark, in two columns; gives the height below them.
fn legend(out: &mut String, chart: &Chart<'_>, layout: &Layout, mut y: f64) -> f64 {
    const COLUMNS: usize = 2;
    let Layout { width, margin, .. } = *layout;
    let heading = safe(&chart.heading);
    if !heading.is_empty() {
        for words in wrapped(&heading, ((width - 2.0 * margin) / LETTER) as usize) {
            text(out, "quiet", margin, y + 4.0, &words);
            y += NAME_LINE;
        }
    }
    let column = (width - 2.0 * margin) / COLUMNS as f64;
    for (row, lines) in chart.lines.chunks(COLUMNS).enumerate() {
        for (at, line) in lines.iter().enumerate() {
            let x = margin + at as f64 * column;
            let (from, to) = (px(x), px(x + 20.0));
            let class = class(line.colour);
            let dashed = if line.is_dashed { "dashed " } else { "" };
            let _ = write!(out, "<path class=\"line {dashed}{class}\" d=\"M{from} {y}H{to}\"/>", y = px(y));
            out.push_str(&mark(row * COLUMNS + at, line.colour, x + 10.0, y));
            let name = shortened(&safe(&line.name), NAME_LETTERS);
            text(out, &format!("name {class}"), x + 28.0, y + 4.0, &name);
        }
        y += NAME_LINE;
    }
    y
}

fn plot(out: &mut String, chart: &Chart<'_>, layout: &Layout, metric: &Metric, frame: Frame, is_first: bool) {
    let Frame { left, top, right, bottom } = frame;
    let across = Across::new(chart, frame);
    let up = Up::for_metric(chart, metric, frame);
    let scale = if up.as_ref().is_some_and(|up| up.is_logarithmic) { ", logarithmic" } else { "" };
    let meaning = format!("{}{scale}", metric.better);
    if layout.is_wide {
        let _ = write!(
            out,
            "<text class=\"heading\" x=\"{}\" y=\"{}\">{}<tspan class=\"quiet\" dx=\"8\">{meaning}</tspan></text>",
            px(left - LEFT),
            px(top - 16.0),
            metric.title,
        );
    } else {
        text(out, "heading", left - LEFT, top - 30.0, metric.title);
        text(out, "quiet", left - LEFT, top - 14.0, &meaning);
    }
    for tick in up.iter().flat_map(|up| &up.ticks) {
        let y = up.as_ref().map_or(bottom, |up| up.y(*tick));
        let class = if y >= bottom - 0.5 { "axis" } else { "grid" };
        line(out, class, (left, y), (right, y));
        let words = if *tick == 0.0 { "0".to_owned() } else { metric.shown(*tick) };
        text(out, "number", left - 7.0, y + 4.0, &words);
    }
    line(out, "axis", (left, bottom), (right, bottom));
    let mut free_from = f64::NEG_INFINITY;
    for threads in &chart.threads {
        let x = across.x(f64::from(*threads));
        line(out, "axis", (x, bottom), (x, bottom + 4.0));
        let words = threads.to_string();
        let half = words.len() as f64 * LETTER / 2.0;
        if x - half >= free_from {
            text(out, "clients", x, bottom + 18.0, &words);
            free_from = x + half + 6.0;
        }
    }
    text(out, "clients quiet", f64::midpoint(left, right), bottom + 34.0, "clients");
    let Some(up) = up else { return };
    if is_first && has_curves(chart) {
        for line in &chart.lines {
            curve(out, line, &across, &up);
        }
    }
    for (at, line) in chart.lines.iter().enumerate() {
        points(out, at, line, metric, &across, &up);
    }
}

fn has_curves(chart: &Chart<'_>) -> bool {
    chart.lines.len() <= MOST_CURVES && chart.lines.iter().any(|line| line.fit.is_some())
}

/// The fitted curve between the first point and the last.
fn curve(out: &mut String, line: &Drawn<'_>, across: &Across, up: &Up) {
    const STEPS: u32 = 96;
    let (Some(fit), Some(first), Some(last)) = (line.fit, line.points.first(), line.points.last()) else {
        return;
    };
    let (first, last) = (f64::from(first.threads), f64::from(last.threads));
    let place = |clients: f64| {
        let y = up.y(fit.transactions_per_s(clients)).clamp(across.frame.top - 6.0, across.frame.bottom);
        (across.x(clients), y)
    };
    let mut text = String::new();
    for step in 0..=STEPS {
        let (x, y) = place(first * (last / first).powf(f64::from(step) / f64::from(STEPS)));
        let _ = write!(text, "{},{} ", px(x), px(y));
    }
    let _ = write!(out, "<polyline class=\"fit {}\" points=\"{}\"/>", class(line.colour), text.trim_end());
    if let Some(peak) = fit.peak_threads.filter(|peak| (first..=last).contains(peak)) {
        let (x, y) = place(peak);
        let class = class(line.colour);
        let _ = write!(out, "<circle class=\"ring {class}\" cx=\"{}\" cy=\"{}\" r=\"7.5\"/>", px(x), px(y));
    }
}

/// The measured points of a line, joined, with a bar from the lowest run to the highest.
fn points(out: &mut String, at: usize, line: &Drawn<'_>, metric: &Metric, across: &Across, up: &Up) {
    let drawn: Vec<(u32, Spread)> = line
        .points
        .iter()
        .filter_map(|point| Some((point.threads, (metric.of)(point).filter(is_drawn)?)))
        .collect();
    let mut joined = String::new();
    let mut marks = String::new();
    for (threads, spread) in &drawn {
        let (x, y) = (across.x(f64::from(*threads)), up.y(spread.median));
        let _ = write!(joined, "{},{} ", px(x), px(y));
        let (low, high) = (up.y(spread.low), up.y(spread.high));
        if low - high > 2.0 {
            let _ = write!(
                marks,
                "<path class=\"bar {}\" d=\"M{x0} {low}H{x1}M{x} {low}V{high}M{x0} {high}H{x1}\"/>",
                class(line.colour),
                x = px(x),
                x0 = px(x - 3.0),
                x1 = px(x + 3.0),
                low = px(low),
                high = px(high),
            );
        }
        let words = format!(
            "{}{}: {} ({} to {})",
            named(line),
            number::counted(u64::from(*threads), "client", "clients"),
            metric.shown(spread.median),
            metric.shown(spread.low),
            metric.shown(spread.high)
        );
        let _ = write!(marks, "<g>{}<title>{}</title></g>", mark(at, line.colour, x, y), svg::text(&words));
    }
    let dashed = if line.is_dashed { "dashed " } else { "" };
    let class = class(line.colour);
    let _ = write!(out, "<polyline class=\"line {dashed}{class}\" points=\"{}\"/>{marks}", joined.trim_end());
}

/// A shape of its own for neighbouring lines, for those who print in grey.
fn mark(at: usize, colour: usize, x: f64, y: f64) -> String {
    let class = format!("mark {}", class(colour));
    let polygon = |corners: [(f64, f64); 4]| {
        let corners = corners.map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy)));
        format!("<polygon class=\"{class}\" points=\"{}\"/>", corners.join(" "))
    };
    match at % 4 {
        0 => format!("<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"3.8\"/>", px(x), px(y)),
        1 => polygon([(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
        2 => polygon([(0.0, -4.8), (4.6, 3.6), (-4.6, 3.6), (0.0, -4.8)]),
        _ => polygon([(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
    }
}

/// The names of the lines, as near to where each ends as they fit.
fn names(out: &mut String, chart: &Chart<'_>, frame: Frame) {
    let metric = &METRICS[0];
    let Some(up) = Up::for_metric(chart, metric, frame) else { return };
    let across = Across::new(chart, frame);
    let ends = chart.lines.iter().enumerate().filter_map(|(at, line)| {
        let last = line.last(|point| (metric.of)(point).is_some_and(|s| is_drawn(&s)))?;
        Some((at, across.x(f64::from(last.threads)), up.y(last.transactions_per_s.median)))
    });
    let mut ends: Vec<(usize, f64, f64)> = ends.collect();
    ends.sort_by(|a, b| a.2.total_cmp(&b.2));
    let places =
        apart(&ends.iter().map(|end| end.2).collect::<Vec<_>>(), frame.top + NAME_LINE, frame.bottom);
    let x = frame.right + 14.0;
    let heading = safe(&chart.heading);
    for (at, words) in
        lines_of(&heading.split(" / ").map(str::to_owned).collect::<Vec<_>>(), 1.0).iter().enumerate()
    {
        let y = frame.top - 16.0 + at as f64 * 14.0;
        text(out, "quiet", x - 4.0, y, &shortened(words, (NAMES / LETTER) as usize + 2));
    }
    for ((at, end_x, end_y), y) in ends.iter().zip(places) {
        let _ = write!(
            out,
            "<path class=\"lead {}\" d=\"M{} {}L{} {}\"/>",
            class(chart.lines[*at].colour),
            px(end_x + 6.0),
            px(*end_y),
            px(x - 3.0),
            px(y)
        );
        let line = &chart.lines[*at];
        let words = shortened(&safe(&line.name), NAME_LETTERS);
        text(out, &format!("name {}", class(line.colour)), x, y + 4.0, &words);
    }
}

/// Places as near to the wanted ones, which ascend, as they can stand with a line's room between them.
fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut free = top;
    for place in &mut places {
        *place = place.max(free);
        free = *place + NAME_LINE;
    }
    let mut free = bottom.max(top);
    for place in places.iter_mut().rev() {
        *place = place.min(free);
        free = *place - NAME_LINE;
    }
    places
}

/// The text that identifies a line when the pointer rests on one of its points.
fn named(line: &Drawn<'_>) -> String {
    if line.tooltip.is_empty() { String::new() } else { format!("{}, ", line.tooltip) }
}

/// Clauses on as few lines of so many letters as they fit.
fn lines_of(clauses: &[String], letters: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for clause in clauses {
        match lines.last_mut() {
            Some(line) if ((line.chars().count() + clause.chars().count() + 2) as f64) < letters => {
                line.push_str("; ");
                line.push_str(clause);
            }
            _ => lines.push(shortened(clause, letters.max(60.0) as usize)),
        }
    }
    lines
}

fn text(out: &mut String, class: &str, x: f64, y: f64, line: &str) {
    let _ = write!(out, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>", px(x), px(y), svg::text(line));
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        out,
        "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
        px(from.0),
        px(from.1),
        px(to.0),
        px(to.1)
    );
}

/// A tenth of a pixel is enough.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn every_measured_point_is_drawn_and_every_line_is_named() {
        for (name, sweep) in [("spin loops", examples::spin_loops()), ("many", examples::many())] {
            let svg = render(&(&sweep).into());
            let points: usize = sweep.lines.iter().map(|line| line.points.len()).sum();
            assert_eq!(svg.matches("class=\"mark ").count(), 3 * points, "{name}");
            assert_eq!(svg.matches("class=\"name ").count(), sweep.lines.len(), "{name}");
        }
    }

    #[test]
    fn a_page_has_the_same_points_and_names_wide_and_narrow() {
        for (name, sweep) in [("spin loops", examples::spin_loops()), ("many", examples::many())] {
            let page = within_page(&(&sweep).into());
            let (wide, narrow) = page.split_once("</svg>").unwrap();
            for of_each in ["class=\"name ", "clients: "] {
                assert_eq!(
                    wide.matches(of_each).count(),
                    narrow.matches(of_each).count(),
                    "{name}: {of_each}"
                );
            }
            let viewbox = format!("class=\"sweep narrow\" viewBox=\"0 0 {} ", NARROW.width);
            assert!(narrow.contains(&viewbox) && narrow.matches("<svg ").count() == 1, "{name}");
        }
    }

    #[test]
    fn no_number_is_drawn_that_is_none() {
        for (name, sweep) in examples::all() {
            let svg = render(&(&sweep).into());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        }
    }

    #[test]
    fn hostile_text_begins_no_element_and_steers_nothing() {
        let hostile = examples::hostile();
        for svg in [render(&(&hostile).into()), within_page(&(&hostile).into())] {
            assert!(!svg.contains("<script"), "{svg}");
            assert_eq!(svg.matches("</svg>").count(), svg.matches("<svg ").count());
            assert!(!svg.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        }
    }

    #[test]
    fn names_stand_apart_and_within_their_plot() {
        let places = apart(&[10.0, 11.0, 12.0, 200.0, 299.0, 300.0], 20.0, 300.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_LINE), "{places:?}");
        assert!(places[0] >= 20.0 && places[5] <= 300.0, "{places:?}");
        assert_eq!(places[3], 200.0);
    }
}
