//! Small line charts as SVG: no script, no font, no colour of their own (they take the page's).
//!
//! In: points in order of time and their unit. Out: one `<svg>` with its axes labelled, and a title and description for
//! screen readers.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::number;
use super::safe::safe;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 132.0;
/// The plot's edges inside the drawing: room for the numbers at the left and the seconds below.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 332.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 108.0;

/// A reading over the window; nothing where there are fewer than two points to join.
pub fn line(title: &str, unit: &str, series: &[(f64, f64)]) -> Option<Markup> {
    let points: Vec<(f64, f64)> =
        series.iter().copied().filter(|(at, value)| at.is_finite() && value.is_finite()).collect();
    let (first, last) = (*points.first()?, *points.last()?);
    if points.len() < 2 || last.0 <= first.0 {
        return None;
    }
    let lowest = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let floor = lowest.min(0.0);
    let ceiling = if highest > floor { highest } else { floor + 1.0 };

    let x = |at: f64| LEFT + (at - first.0) / (last.0 - first.0) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - (value - floor) / (ceiling - floor) * (BOTTOM - TOP);
    let mut curve = String::new();
    for (at, value) in &points {
        let _ = write!(curve, "{:.1},{:.1} ", x(*at), y(*value));
    }
    let curve = curve.trim_end();
    let area = format!("{LEFT:.1},{BOTTOM:.1} {curve} {RIGHT:.1},{BOTTOM:.1}");
    let shown = |value: f64| number::quantity(value, unit);
    let words =
        format!("from {} to {} in {}", shown(lowest), shown(highest), number::duration(last.0 - first.0));
    let middle = f64::midpoint(TOP, BOTTOM);

    Some(html! {
        figure.chart {
            figcaption { (safe(title)) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(format!("{}: {words}", safe(title))) {
                title { (words) }
                @for height in [TOP, middle] {
                    line.grid x1=(LEFT) x2=(RIGHT) y1=(height) y2=(height) {}
                }
                line.axis x1=(LEFT) x2=(RIGHT) y1=(BOTTOM) y2=(BOTTOM) {}
                polygon.area points=(area) {}
                polyline.curve points=(curve) {}
                circle.end cx=(format!("{:.1}", x(last.0))) cy=(format!("{:.1}", y(last.1))) r="2.5" {}
                text.y x=(LEFT - 6.0) y=(TOP + 4.0) { (shown(ceiling)) }
                text.y x=(LEFT - 6.0) y=(BOTTOM) { (shown(floor)) }
                text.x x=(LEFT) y=(BOTTOM + 15.0) { (at_axis(first.0)) }
                text.x.last x=(RIGHT) y=(BOTTOM + 15.0) { (at_axis(last.0)) }
            }
        }
    })
}

/// A time at the axis below, to a tenth of a second: both ends in the same unit.
fn at_axis(seconds: f64) -> String {
    format!("{} s", number::plain((seconds * 10.0).round() / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_labels_both_axes_with_their_units() {
        let svg = line("spin share", "ratio", &[(0.0, 0.1), (5.0, 0.3), (10.0, 0.2)]).unwrap().into_string();
        for label in ["30 %", "0 %", "0 s", "10 s", "from 10 % to 30 % in 10 s"] {
            assert!(svg.contains(label), "{label} is missing in {svg}");
        }
        assert!(svg.contains(r#"points="62.0,76.0 197.0,12.0 332.0,44.0""#), "{svg}");
    }

    #[test]
    fn what_cannot_be_drawn_is_not_drawn() {
        assert!(line("", "", &[]).is_none());
        assert!(line("", "", &[(1.0, 1.0)]).is_none());
        assert!(line("", "", &[(1.0, 1.0), (1.0, 2.0)]).is_none());
        assert!(line("", "", &[(0.0, f64::NAN), (1.0, 2.0)]).is_none());
    }

    #[test]
    fn a_curve_that_never_moves_is_drawn_inside_its_frame() {
        let svg = line("", "", &[(0.0, 0.0), (1.0, 0.0)]).unwrap().into_string();
        assert!(svg.contains(r#"points="62.0,108.0 332.0,108.0""#), "{svg}");
    }
}
