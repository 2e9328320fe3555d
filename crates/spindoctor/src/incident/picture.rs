//! The timeline: a plot for each quantity, one below the other over the same time, with the events, gaps and changed
//! settings marked through all of them.
//!
//! Plots stretch with the page; words stand beside them as text of the page, so that they are as large on a telephone
//! and on paper as everywhere else. Places are shares of the width.

use std::fmt::Write as _;

use jiff::Timestamp;
use maud::{Markup, html};
use spindoctor_model::EventHead;

use super::timeline::Track;
use super::view::Incident;
use super::words;
use crate::common::local_time::beside;
use crate::common::stalls::{event_lasted, time};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_record::span::Span;

/// How wide a plot is in its own units: it is stretched to the room there is.
pub const STRETCHED: f64 = 1000.0;
const WIDTH: f64 = STRETCHED;
const HEIGHT: f64 = 100.0;
/// A mark is at least this wide, percent of the width: a stall of 200 ms in two minutes must be seen.
const LEAST_MARK: f64 = 0.4;
/// Times below the plots, at least this far apart, as a share of the width.
const LEAST_BETWEEN_TICKS: f64 = 0.13;
/// Steps between times that are round for people, seconds.
const STEPS_S: [f64; 21] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0,
    7_200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
];

/// The section; nothing where nothing can be drawn.
pub fn section(incident: &Incident) -> Markup {
    let shown = incident.timeline.shown;
    let marks = Marks::from_incident(incident);
    let ticks = ticks(shown);
    html! {
        @if !incident.timeline.tracks.is_empty() {
            section.card.timeline {
                h2 { "Over time" }
                p.key {
                    @if !marks.events.is_empty() { span.swatch.event {} "event " }
                    @if incident.scope.calm.is_some_and(|calm| calm.within(shown).is_some_and(|calm| calm.seconds() > 0.0)) {
                        span.swatch.calm {} "the baseline "
                    }
                    @if !marks.gaps.is_empty() { span.swatch.gap {} "not recorded " }
                    @if !marks.settings.is_empty() { span.swatch.setting {} "a setting changed " }
                }
                div.numbers {
                    @for mark in &marks.events {
                        span.(mark.class) style=(format!("left:{:.2}%", mark.middle())) title=(safe(&mark.tooltip)) { (mark.label) }
                    }
                }
                @for track in &incident.timeline.tracks { (plot(track, shown, &marks, &ticks)) }
                (times(&ticks))
                p.quiet.zone { "Times are UTC" (beside(incident.scope.stall.from)) "." }
            }
        }
    }
}

/// The times below the plots.
pub fn times(ticks: &[(f64, String)]) -> Markup {
    html! {
        div.times aria-hidden="true" {
            @for (at, (share, text)) in ticks.iter().enumerate() {
                span.minor[at % 2 == 1] style=(format!("left:{:.2}%", share * 100.0)) { (text) }
            }
        }
    }
}

/// Something that is marked through all plots.
pub struct Mark {
    /// Percent of the width.
    left: f64,
    width: f64,
    class: &'static str,
    label: String,
    tooltip: String,
}

impl Mark {
    /// Through a plot of that height.
    pub fn rect(&self, height: f64) -> Markup {
        html! {
            rect.(self.class) x=(format!("{:.2}", self.left * WIDTH / 100.0)) y="0" height=(height)
                width=(format!("{:.2}", self.width * WIDTH / 100.0)) { title { (safe(&self.tooltip)) } }
        }
    }

    /// Where it begins and ends, percent of the width.
    pub fn ends(&self) -> [f64; 2] {
        [self.left, self.left + self.width]
    }

    fn middle(&self) -> f64 {
        (self.left + self.width / 2.0).clamp(0.0, 100.0)
    }
}

/// All that is marked.
pub struct Marks {
    calm: Option<Mark>,
    events: Vec<Mark>,
    gaps: Vec<Mark>,
    settings: Vec<Mark>,
}

impl Marks {
    /// The events, gaps and changed settings of an incident, and its baseline.
    pub fn from_incident(incident: &Incident) -> Self {
        let shown = incident.timeline.shown;
        let reported_id = incident.event.as_ref().map(|event| event.head.id);
        let mark = |from: Timestamp, to: Timestamp, class, label: String, tooltip: String| {
            let left = share(shown, from).clamp(0.0, 1.0) * 100.0;
            let right = share(shown, to).clamp(0.0, 1.0) * 100.0;
            Mark {
                left: left.min(100.0 - LEAST_MARK),
                width: (right - left).max(LEAST_MARK),
                class,
                label,
                tooltip,
            }
        };
        let end = |to: Option<Timestamp>| to.unwrap_or(shown.to);
        let event = |head: &EventHead| {
            let class = if reported_id == Some(head.id) { "event reported" } else { "event" };
            let text = format!("event {}: {}, {}", head.id, head.stall.kind.title(), event_lasted(head));
            mark(head.began, end(incident.ends.until(head)), class, head.id.to_string(), text)
        };
        let changes = incident.settings.changes.iter().filter(|change| shown.contains(change.at));
        Self {
            calm: incident
                .scope
                .calm
                .and_then(|calm| calm.within(shown))
                .filter(|calm| calm.seconds() > 0.0)
                .map(|calm| {
                    mark(calm.from, calm.to, "calm", String::new(), "the baseline before".to_owned())
                }),
            events: incident.events.iter().map(event).collect(),
            gaps: incident
                .gaps
                .iter()
                .map(|gap| {
                    mark(
                        gap.from,
                        end(gap.to),
                        "gap",
                        String::new(),
                        format!("not recorded: {}", gap.because),
                    )
                })
                .collect(),
            settings: changes
                .map(|change| {
                    mark(change.at, change.at, "setting", String::new(), format!("{} changed", change.name))
                })
                .collect(),
        }
    }

    /// The events.
    pub fn events(&self) -> impl Iterator<Item = &Mark> {
        self.events.iter()
    }

    /// Each of them, those that others may cover first.
    pub fn all(&self) -> impl Iterator<Item = &Mark> {
        self.calm.iter().chain(&self.gaps).chain(&self.settings).chain(&self.events)
    }
}

/// Where an instant lies in what is shown, 0 to 1 within it.
pub fn share(shown: Span, at: Timestamp) -> f64 {
    if shown.seconds() > 0.0 { shown.offset_s(at) / shown.seconds() } else { 0.0 }
}

fn plot(track: &Track, shown: Span, marks: &Marks, ticks: &[(f64, String)]) -> Markup {
    let (least, most) = track.range();
    let floor = least.min(0.0);
    let ceiling = if most > floor { most } else { floor + 1.0 };
    let seconds = shown.seconds().max(f64::MIN_POSITIVE);
    let x = |at_s: f64| at_s / seconds * WIDTH;
    let y = |value: f64| HEIGHT - (value - floor) / (ceiling - floor) * (HEIGHT - 4.0);
    let text = |value: f64| number::quantity(words::rounded(value, track.unit), track.unit);
    let range = format!("from {} to {}", text(least), text(most));
    html! {
        figure.track {
            figcaption { strong { (track.name) } " " span.quiet.source { (track.source) } }
            div.plot {
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                    aria-label=(format!("{}: {range}", track.name)) {
                    @for mark in marks.all() { (mark.rect(HEIGHT)) }
                    @for (share, _) in ticks {
                        @let at = format!("{:.1}", share * WIDTH);
                        line.grid x1=(at) x2=(at) y1="0" y2=(HEIGHT) {}
                    }
                    line.axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                    @for curve in &track.curves {
                        @let points = points(curve, x, y);
                        @if let (Some(first), Some(last)) = (curve.first(), curve.last()) {
                            polygon.area points=(format!("{:.1},{HEIGHT} {points} {:.1},{HEIGHT}", x(first.0), x(last.0))) {}
                            polyline.curve points=(points) {}
                        }
                    }
                }
                span.most { (text(ceiling)) }
                span.least { (text(floor)) }
            }
        }
    }
}

/// A curve of one point is a dash: it must be seen.
fn points(curve: &[(f64, f64)], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut points = String::new();
    for (at_s, value) in curve {
        let _ = write!(points, "{:.1},{:.1} ", x(*at_s), y(*value));
    }
    if let [(at_s, value)] = curve {
        let _ = write!(points, "{:.1},{:.1} ", x(*at_s) + 1.0, y(*value));
    }
    points.trim_end().to_owned()
}

/// Round times of the day with their places, as shares of the width.
pub fn ticks(shown: Span) -> Vec<(f64, String)> {
    let seconds = shown.seconds();
    let least = seconds * LEAST_BETWEEN_TICKS;
    let step = STEPS_S.into_iter().find(|step| *step >= least);
    // Longer than a week: whole days.
    let step = step.unwrap_or_else(|| (least / 86_400.0).ceil() * 86_400.0);
    if seconds <= 0.0 {
        return Vec::new();
    }
    let from_s = shown.from.as_millisecond() as f64 / 1e3;
    let mut ticks = Vec::new();
    let mut at_s = (from_s / step).ceil() * step;
    while at_s <= from_s + seconds {
        if let Ok(at) = Timestamp::from_millisecond((at_s * 1e3).round() as i64) {
            let text = match step {
                step if step < 1.0 => time(at).trim_end_matches(" UTC").to_owned(),
                step if step < 60.0 => at.strftime("%H:%M:%S").to_string(),
                step if step < 86_400.0 => at.strftime("%H:%M").to_string(),
                _ => at.strftime("%b %-d").to_string(),
            };
            ticks.push(((at_s - from_s) / seconds, text));
        }
        at_s += step;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Segment;
    use spindoctor_record::Stretch;

    use super::*;

    use crate::incident::examples;
    use spindoctor_record::span::Ends;

    #[test]
    fn times_below_are_round_and_no_more_than_there_is_room_for() {
        let text = |from: f64, to: f64| {
            let ticks = ticks(Span::new(examples::at(from), examples::at(to)));
            assert!(ticks.iter().all(|(share, _)| (0.0..=1.0).contains(share)));
            ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(
            text(-9.8, 5.3),
            ["09:29:52", "09:29:54", "09:29:56", "09:29:58", "09:30:00", "09:30:02", "09:30:04"]
        );
        assert_eq!(text(-19.8, 16.3).first().map(String::as_str), Some("09:29:45"));
        assert_eq!(text(0.0, 3_600.0).first().map(String::as_str), Some("09:30"));
        assert!(text(0.0, 30.0 * 86_400.0).iter().all(|day| day.starts_with("Jul")));
        assert!(text(0.0, 0.5).len() <= 8);
        assert!(text(1.0, 1.0).is_empty());
    }

    #[test]
    fn every_event_gap_and_changed_setting_is_marked() {
        let page = section(&examples::stretch()).into_string();
        for part in [
            "event 16: The server answered slowly",
            "event reported",
            "not recorded: the server was restarted",
            "max_connections changed",
        ] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
    }

    #[test]
    fn an_event_that_nobody_saw_the_end_of_is_marked_until_its_segment_broke_off() {
        let mut incident = examples::stretch();
        incident.events[0].ended = None;
        let segment = |id, began| Segment { id, began: examples::at(began), ..Segment::default() };
        let segments = [segment(1, -120.0), segment(2, 20.0)];
        let stretch = Stretch { segment: 1, first: examples::at(-120.0), last: examples::at(-60.0) };
        incident.ends = Ends::of_segments(&segments, &[stretch]);
        // From -71 s to -60 s of the 135 s from -110 s on.
        let marks = Marks::from_incident(&incident);
        let right = marks.events[0].left + marks.events[0].width;
        assert!((right - 50.0 / 135.0 * 100.0).abs() < 0.01, "{right}");
        incident.ends = Ends::of_segments(&segments[..1], &[stretch]);
        let marks = Marks::from_incident(&incident);
        let right = marks.events[0].left + marks.events[0].width;
        assert!((right - 100.0).abs() < 0.01, "it may last still: {right}");
    }

    #[test]
    fn a_short_stall_in_a_long_time_is_wide_enough_to_be_seen() {
        let mut incident = examples::stretch();
        incident.timeline.shown = Span::new(examples::at(-86_400.0), examples::at(86_400.0));
        let marks = Marks::from_incident(&incident);
        assert!(marks.events.iter().all(|mark| mark.width >= LEAST_MARK && mark.left <= 100.0));
    }
}
