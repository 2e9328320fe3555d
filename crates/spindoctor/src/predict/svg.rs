//! A prediction as a chart: throughput against connections, as measured (points), today and as proposed by the model.

use std::fmt::Write as _;

use spindoctor_page::number;

use super::view::Prediction;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 340.0;
const TODAY: &str = "#6b7280";
const PROPOSED: &str = "#1d6fb8";

/// The chart.
pub fn render(prediction: &Prediction) -> String {
    let rows = &prediction.answer.rows;
    let measured: Vec<(f64, f64)> =
        prediction.ground.measured.iter().map(|it| (f64::from(it.threads), it.throughput_per_s)).collect();
    let today: Vec<(f64, f64)> =
        rows.iter().map(|row| (f64::from(row.threads), row.today.throughput_per_s)).collect();
    let proposed: Vec<(f64, f64)> =
        rows.iter().map(|row| (f64::from(row.threads), row.proposed.throughput_per_s)).collect();
    let all = || measured.iter().chain(&today).chain(&proposed);
    let most = all().map(|it| it.1).fold(1.0, f64::max);
    let (first, last) = all().fold((f64::INFINITY, 1.0_f64), |(a, b), it| (a.min(it.0), b.max(it.0)));
    let x = |threads: f64| {
        let span = (last / first).ln();
        let part = if span > 0.0 { (threads / first).ln() / span } else { 0.5 };
        LEFT + part * (RIGHT - LEFT)
    };
    let y = |value: f64| BOTTOM - value / most * (BOTTOM - TOP);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<title>Transactions a second against connections</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">Transactions a second against connections</text>\n"
    );
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let height = y(most * part);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            height + 4.0,
            number::plain((most * part).round())
        );
    }
    let mut ticks: Vec<f64> = all().map(|it| it.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let mut free_from = f64::NEG_INFINITY;
    for threads in ticks {
        if x(threads) < free_from {
            continue;
        }
        free_from = x(threads) + 36.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{threads}</text>",
            x(threads),
            BOTTOM + 20.0
        );
    }
    for (points, colour) in [(&today, TODAY), (&proposed, PROPOSED)] {
        let path: Vec<String> = points.iter().map(|it| format!("{:.1},{:.1}", x(it.0), y(it.1))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            path.join(" ")
        );
    }
    for (threads, value) in &measured {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"black\"/>",
            x(*threads),
            y(*value)
        );
    }
    let legend = [("black", "measured"), (TODAY, "today, by the model"), (PROPOSED, "proposed, predicted")];
    for (at, (colour, text)) in legend.into_iter().enumerate() {
        let left = LEFT + 200.0 * at as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"372\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"383\">{text}</text>",
            left + 18.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}
