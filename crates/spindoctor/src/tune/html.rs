//! A tuning as one HTML file: the verdict, each quantity's interval drawn, every block over time, and the search before.

use maud::{Markup, html};
use spindoctor_model::{Block, Effect, Trial, Tuning, Verdict};

use super::view::{
    Leaning, QUANTITIES, Quantity, change, changes_text, interval, margin, needs_text, place, scale,
    shown_word, verdict_text,
};
use crate::common::local_time::beside;
use crate::common::words::{server_named, server_place};
use spindoctor_page::html::{breakable, narrow, page, prose};
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// What this page needs beyond the style of all pages.
const OWN_STYLE: &str = include_str!("tune.css");

/// Columns of the interval plot: its drawing part, in units of the picture.
const WIDTH: f64 = 860.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 640.0;
const ROW: f64 = 56.0;
const TOP: f64 = 26.0;

/// Labels of the axis need this share of its length each.
const LEAST_BETWEEN_TICKS: f64 = 0.12;

/// Size of a picture of blocks, and its drawing part. A telephone shows the narrow one, so that labels stay readable.
struct BlocksFrame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

const BLOCKS_FRAMES: [BlocksFrame; 2] = [
    BlocksFrame {
        class: "wide-blocks",
        width: WIDTH,
        height: 150.0,
        left: 84.0,
        right: 846.0,
        top: 14.0,
        bottom: 122.0,
    },
    BlocksFrame {
        class: "narrow-blocks",
        width: 380.0,
        height: 150.0,
        left: 76.0,
        right: 374.0,
        top: 14.0,
        bottom: 122.0,
    },
];

/// The tuning as a page.
pub fn render(tuning: &Tuning) -> String {
    let trial = &tuning.decided;
    let title = format!("{} on {}", server_named(&trial.server), safe(server_place(&trial.server)));
    let body = html! {
        main.tune {
            (head(trial, &title))
            (verdict(tuning))
            (blocks(trial))
            (proposals(tuning))
            (searched(tuning))
            (notes(trial))
            footer { p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", " (safe(&trial.schema)) } }
        }
    };
    page(&format!("{}: {}", safe(&title), verdict_text(trial)), OWN_STYLE, &body)
}

fn head(trial: &Trial, title: &str) -> Markup {
    html! {
        h1 { (breakable(title)) }
        ul.facts {
            @if !trial.server.address.is_empty() { li { (breakable(&trial.server.address)) } }
            @if let Some(pid) = trial.server.pid { li { "pid " (pid) } }
            li {
                "tried for " (number::duration(trial.seconds.round())) " from "
                time datetime=(trial.start) { (trial.start.strftime("%Y-%m-%d %H:%M:%S UTC")) }
                (beside(trial.start))
            }
            li { (number::counted(u64::from(trial.quads), "quad", "quads")) " of four blocks" }
        }
    }
}

fn verdict(tuning: &Tuning) -> Markup {
    let trial = &tuning.decided;
    let class = match trial.verdict {
        Verdict::Helps => "helps",
        Verdict::Hurts => "hurts",
        Verdict::NoSignificantEffect | Verdict::Inconclusive => "open",
    };
    html! {
        section.card.verdict.(class) {
            h2 { (capital(&verdict_text(trial))) }
            table.changes {
                thead { tr { th { "variable" } th { "old" } th { "new" } } }
                tbody {
                    @for change in &trial.changes {
                        tr { td { code { (narrow(&change.variable)) } } td { (narrow(&change.from)) } td { strong { (narrow(&change.to)) } } }
                    }
                }
            }
            (intervals(trial))
            p { (prose(&safe(&trial.why))) }
            @if let Some(needs) = needs_text(trial) { p { (prose(&needs)) } }
            @for (at, line) in tuning.settings.iter().enumerate() { p.quiet[at > 0] { @if at == 0 { strong { (prose(&safe(line))) } } @else { (prose(&safe(line))) } } }
        }
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn class(leaning: Leaning) -> &'static str {
    match leaning {
        Leaning::Better => "better",
        Leaning::Worse => "worse",
        Leaning::Neither => "neither",
    }
}

/// Each quantity's interval on one scale, with the line of no change and the band of what is not worth having; where there is no
/// room for a picture, as text.
fn intervals(trial: &Trial) -> Markup {
    let rows: Vec<(&Quantity, Effect)> = QUANTITIES
        .iter()
        .filter_map(|quantity| Some((quantity, (quantity.of_effects)(&trial.effect)?)))
        .collect();
    if rows.is_empty() {
        return html! { p.quiet { "Nothing could be compared." } };
    }
    let (least, most) = scale(&trial.effect);
    let x = |ratio: f64| LEFT + place(ratio, least, most) * (RIGHT - LEFT);
    let bottom = TOP + ROW * rows.len() as f64;
    let words: Vec<String> = rows
        .iter()
        .map(|(quantity, effect)| format!("{} {}, {}", quantity.name, change(effect.ratio), interval(effect)))
        .collect();
    html! {
        dl.effects {
            @for (quantity, effect) in &rows {
                dt { (quantity.name) }
                dd.(class(quantity.leaning(effect))) {
                    strong { (change(effect.ratio)) } " (" (interval(effect)) ")"
                    @if let Some((old, new)) = quantity.means(trial) { br; (quantity.shown(old)) " → " (quantity.shown(new)) }
                }
            }
        }
        div.picture {
            svg.intervals viewBox=(format!("0 0 {WIDTH} {:.0}", bottom + 30.0)) role="img" aria-label=(words.join("; ")) {
                @for (row, (quantity, _)) in rows.iter().enumerate() {
                    @if let Some(judged) = quantity.judged(trial) {
                        @let (least, most) = (1.0 / (1.0 + judged.margin), 1.0 + judged.margin);
                        rect.band x=(at(x(least))) y=(at(TOP + ROW * row as f64 + 4.0)) width=(at(x(most) - x(least))) height=(at(ROW - 8.0)) {
                            title { "within its margin of " (margin(judged)) ": too small to matter" }
                        }
                    }
                }
                @for tick in ticks(least, most) {
                    line.grid x1=(at(x(tick))) x2=(at(x(tick))) y1=(at(TOP)) y2=(at(bottom)) {}
                    text.tick x=(at(x(tick))) y=(at(bottom + 18.0)) { (tick_label(tick)) }
                }
                line.none x1=(at(x(1.0))) x2=(at(x(1.0))) y1=(at(TOP - 8.0)) y2=(at(bottom)) {}
                text.tick x=(at(x(1.0))) y=(at(TOP - 13.0)) { "no change" }
                @for (row, (quantity, effect)) in rows.iter().enumerate() {
                    @let y = TOP + ROW * (row as f64 + 0.5);
                    g.(class(quantity.leaning(effect))) {
                        title { (quantity.meaning) }
                        text.name x="0" y=(at(y + 5.0)) { (quantity.name) }
                        @if let (Some(low), Some(high)) = (effect.low, effect.high) {
                            line.interval x1=(at(x(low))) x2=(at(x(high))) y1=(at(y)) y2=(at(y)) {}
                            @for end in [low, high] {
                                line.interval x1=(at(x(end))) x2=(at(x(end))) y1=(at(y - 6.0)) y2=(at(y + 6.0)) {}
                            }
                        }
                        circle cx=(at(x(effect.ratio))) cy=(at(y)) r="5" {}
                        text.by x=(at(RIGHT + 16.0)) y=(at(y - 10.0)) { (change(effect.ratio)) }
                        text.within x=(at(RIGHT + 16.0)) y=(at(y + 6.0)) {
                            (interval(effect))
                        }
                        @if let Some((old, new)) = quantity.means(trial) {
                            text.means x=(at(WIDTH)) y=(at(y - 10.0)) { (quantity.shown(old)) " → " (quantity.shown(new)) }
                        }
                        @if let Some(judged) = quantity.judged(trial) {
                            text.within x=(at(RIGHT + 16.0)) y=(at(y + 22.0)) { (shown_word(judged.shown)) }
                        }
                    }
                }
            }
        }
        p.quiet { "Line: 95 % confidence interval. Dot: estimate. Shaded: too small to matter" (margins(trial)) "." }
    }
}

/// `, by the margins throughput ±2 %, p95 ±10 %`; empty where none is known.
fn margins(trial: &Trial) -> String {
    let text: Vec<String> = QUANTITIES
        .iter()
        .filter_map(|quantity| Some(format!("{} {}", quantity.name, margin(quantity.judged(trial)?))))
        .collect();
    if text.is_empty() { String::new() } else { format!(", by the margins {}", text.join(", ")) }
}

/// A coordinate, to a tenth.
fn at(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}

/// Ratios at which a line is drawn: steps of 10 % where the scale is narrow, doublings where it is wide.
fn ticks(least: f64, most: f64) -> Vec<f64> {
    let steps: &[f64] = match most / least {
        wide if wide > 6.0 => &[0.01, 0.1, 0.5, 2.0, 10.0, 100.0],
        middling if middling > 1.6 => &[0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0],
        _ => &[0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4],
    };
    let mut kept: Vec<f64> = Vec::new();
    for tick in steps.iter().copied().filter(|tick| (least..=most).contains(tick)) {
        let is_free =
            |other: &f64| place(tick, least, most) - place(*other, least, most) >= LEAST_BETWEEN_TICKS;
        if kept.last().is_none_or(is_free) {
            kept.push(tick);
        }
    }
    kept
}

fn tick_label(ratio: f64) -> String {
    match ratio {
        many if many >= 3.0 => format!("{many:.0} times"),
        ratio => format!("{:+.0} %", (ratio - 1.0) * 100.0),
    }
}

/// Every block in its time, a picture for each quantity.
fn blocks(trial: &Trial) -> Markup {
    let pictures: Vec<Markup> =
        QUANTITIES.iter().filter_map(|quantity| blocks_of(quantity, &trial.blocks)).collect();
    html! {
        @if !pictures.is_empty() {
            section.card {
                h2 { "Every block" }
                p.legend { span.old {} " old setting " span.new {} " new setting " span.left-out {} " left out" }
                @for picture in pictures { (picture) }
            }
        }
    }
}

fn blocks_of(quantity: &Quantity, blocks: &[Block]) -> Option<Markup> {
    let points: Vec<(&Block, f64)> = blocks
        .iter()
        .filter_map(|block| Some((block, (quantity.of_block)(block).filter(|value| value.is_finite())?)))
        .collect();
    let (first, last) = (points.first()?.0.at_s, points.last()?.0);
    let end = last.at_s + last.seconds;
    let highest = points.iter().map(|point| point.1).fold(0.0, f64::max);
    if points.len() < 2 || end <= first || highest <= 0.0 {
        return None;
    }
    let quads = points.windows(2).filter(|pair| pair[0].0.quad != pair[1].0.quad);
    let edges: Vec<f64> =
        quads.map(|pair| f64::midpoint(pair[0].0.at_s + pair[0].0.seconds, pair[1].0.at_s)).collect();
    let drawn = BlocksDrawn { quantity, points, edges, from: first, to: end, highest };
    Some(html! {
        figure.blocks {
            figcaption { (quantity.name) ": " span.quiet { (quantity.meaning) } }
            @for frame in &BLOCKS_FRAMES { (drawn.within(frame)) }
        }
    })
}

/// What a picture of blocks shows.
struct BlocksDrawn<'a> {
    quantity: &'a Quantity,
    /// Each block with the quantity in it.
    points: Vec<(&'a Block, f64)>,
    /// Where one quad ends and the next begins, s.
    edges: Vec<f64>,
    from: f64,
    to: f64,
    highest: f64,
}

impl BlocksDrawn<'_> {
    fn within(&self, frame: &BlocksFrame) -> Markup {
        let BlocksFrame { class, width, height, left, right, top, bottom } = *frame;
        let Self { quantity, points, edges, from, to, highest } = self;
        let x = |at_s: f64| left + (at_s - from) / (to - from) * (right - left);
        let y = |value: f64| bottom - value / (highest * 1.05) * (bottom - top);
        html! {
            svg.(class) viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(format!("{} of each block over time", quantity.name)) {
                @for value in [*highest, highest / 2.0] {
                    line.grid x1=(at(left)) x2=(at(right)) y1=(at(y(value))) y2=(at(y(value))) {}
                    text.y x=(at(left - 8.0)) y=(at(y(value) + 4.0)) { (quantity.shown(value)) }
                }
                text.y x=(at(left - 8.0)) y=(at(bottom + 4.0)) { "0" }
                @for edge in edges {
                    line.edge x1=(at(x(*edge))) x2=(at(x(*edge))) y1=(at(top)) y2=(at(bottom)) {}
                }
                line.axis x1=(at(left)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
                @for (block, value) in points {
                    @let kind = if block.left_out.is_some() { "left-out" } else if block.is_new { "new" } else { "old" };
                    line.(kind) x1=(at(x(block.at_s))) x2=(at(x(block.at_s + block.seconds))) y1=(at(y(*value))) y2=(at(y(*value))) {
                        title {
                            "quad " (block.quad + 1) ", " (if block.is_new { "new" } else { "old" }) ": " (quantity.shown(*value))
                            @if let Some(why) = &block.left_out { ", left out: " (safe(why)) }
                        }
                    }
                }
                text.x x=(at(left)) y=(at(bottom + 18.0)) { (number::quantity(from.round(), "s")) }
                text.x.last x=(at(right)) y=(at(bottom + 18.0)) { (number::quantity(to.round(), "s")) }
            }
        }
    }
}

fn proposals(tuning: &Tuning) -> Markup {
    html! {
        @if !tuning.proposals.is_empty() {
            section.card {
                h2 { "What was proposed" }
                @for proposal in &tuning.proposals {
                    div.remedy {
                        code.statement { (breakable(&proposal.remedy.statement)) }
                        dl {
                            @if !proposal.remedy.why.is_empty() { dt { "why" } dd { (breakable(&proposal.remedy.why)) } }
                            @if !proposal.remedy.risk.is_empty() { dt { "risk" } dd { (breakable(&proposal.remedy.risk)) } }
                            @if !proposal.cost.is_empty() { dt { "cost" } dd { (breakable(&proposal.cost)) } }
                            @if let Some(why) = &proposal.not_tried { dt { "not tried" } dd { (breakable(why)) } }
                            @if !proposal.remedy.undo.is_empty() { dt { "undo" } dd { code { (breakable(&proposal.remedy.undo)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn searched(tuning: &Tuning) -> Markup {
    html! {
        @if !tuning.searched.is_empty() {
            section.card {
                h2 { "The search before" }
                p.quiet { "It chose what was tried above, and decides nothing: who picks the best of many picks luck, too." }
                table.wide {
                    thead { tr { th { "change" } th { "throughput" } th { "CPU/query" } th { "what became of it" } } }
                    tbody {
                        @for trial in &tuning.searched {
                            tr {
                                td { (narrow(&changes_text(&trial.changes))) }
                                @for effect in [trial.effect.throughput, trial.effect.cpu_per_query] {
                                    td.value { @if let Some(effect) = effect { (change(effect.ratio)) } }
                                }
                                td { (breakable(&trial.why)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn notes(trial: &Trial) -> Markup {
    html! {
        @if !trial.notes.is_empty() {
            section.card {
                h2 { "Notes" }
                ul { @for note in &trial.notes { li { (breakable(note)) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::common::browser;
    use crate::tune::examples;

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let pages = [
            ("helps", render(&examples::helps())),
            ("inconclusive", render(&examples::not_enough_evidence())),
        ];
        assert_eq!(browser::faults(&pages), "");
    }

    #[test]
    fn the_page_shows_verdict_intervals_and_blocks_and_fetches_nothing() {
        let page = render(&examples::helps()).replace("<wbr>", "");
        for shown in
            ["Helps", "+70.0 %", "innodb_spin_wait_delay", "no change", "Every block", "The search before"]
        {
            assert!(page.contains(shown), "{shown}");
        }
        for fetched in ["http:", "https:", "<script", "url(", "@import"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }

    #[test]
    fn each_quantity_has_its_margin_shaded_and_what_is_shown_of_it() {
        let page = render(&examples::not_enough_evidence());
        for shown in [
            "Inconclusive: not enough evidence about p95",
            "Shaded: too small to matter, by the margins throughput ±2 %, p95 ±10 %, CPU/query ±3 %.",
            "within its margin of ±10 %",
            ">not enough evidence<",
            "needs about 97 more quads",
        ] {
            assert!(page.contains(shown), "{shown}");
        }
        assert_eq!(page.matches("class=\"band\"").count(), 3);
    }

    #[test]
    fn hostile_strings_stay_text() {
        let page = render(&examples::hostile());
        assert!(!page.contains("<script"), "markup of the server came through");
        assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        assert!(!page.contains("NaN"));
    }
}
