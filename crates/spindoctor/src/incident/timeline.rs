//! What is drawn over time: each quantity as curves that break where nothing is known.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::Gap;
use spindoctor_model::host::COUNTERS_READ_WITHIN_S;

use super::numbers::{Kind, QUANTITIES, Quantity};
use super::point::Point;
use spindoctor_record::span::Span;

/// Points further apart than this have nothing between them: no quantity is read more rarely where nothing is missing, and a
/// second is what a sample may be late.
const LONGEST_STEP: Duration = Duration::from_secs(COUNTERS_READ_WITHIN_S as u64 + 1);
/// Closer points give rates that are made of their own jitter.
const SHORTEST_STEP: Duration = Duration::from_millis(20);
/// Buckets of a curve, of each of which the least and the greatest point are kept: a picture is about a thousand
/// pixels wide.
const BUCKETS: usize = 500;

/// Everything that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// From the left edge to the right.
    pub shown: Span,
    /// The quantities that were read, in order.
    pub tracks: Vec<Track>,
}

/// One quantity over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// What it is called.
    pub name: &'static str,
    /// Its unit, as the model names it.
    pub unit: &'static str,
    /// Where it is read.
    pub source: &'static str,
    /// Curves: seconds from the left edge, value. Between two curves nothing is known.
    pub curves: Vec<Vec<(f64, f64)>>,
}

impl Track {
    /// The least and the greatest value.
    pub fn range(&self) -> (f64, f64) {
        let values = self.curves.iter().flatten().map(|(_, value)| *value);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        })
    }
}

/// A stall that is no longer than this is drawn as it was probed, ten times a second: in samples it would not be seen.
const SHORT_STALL: Duration = Duration::from_secs(3);
/// Beside it the samples' own step: of probes the first in each second is drawn. Ten readings a second are restless where one is
/// calm, and would look like the beginning of something.
const STEP: Duration = Duration::from_millis(950);

/// One resolution for all that is drawn but a short stall itself.
pub fn evenly(points: &[Point], stall: Span) -> Vec<Point> {
    let is_short = stall.length() <= SHORT_STALL;
    let mut probed: Option<Timestamp> = None;
    let is_kept = |point: &&Point| {
        if !point.is_probe || (is_short && stall.contains(point.at)) {
            return true;
        }
        let is_due = probed.is_none_or(|before| Span::new(before, point.at).length() >= STEP);
        if is_due {
            probed = Some(point.at);
        }
        is_due
    };
    points.iter().filter(is_kept).copied().collect()
}

/// Every quantity of which there are two points to join.
pub fn drawn(points: &[Point], shown: Span, gaps: &[Gap]) -> Timeline {
    let tracks = QUANTITIES
        .iter()
        .map(|quantity| Track {
            name: quantity.name,
            unit: quantity.unit,
            source: quantity.source,
            curves: curves(points, quantity, shown, gaps),
        })
        .filter(|track| track.curves.iter().any(|curve| curve.len() > 1))
        .collect();
    Timeline { shown, tracks }
}

fn curves(points: &[Point], quantity: &Quantity, shown: Span, gaps: &[Gap]) -> Vec<Vec<(f64, f64)>> {
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    let mut before: Option<(Timestamp, u64, f64)> = None;
    let in_gap = |from: Timestamp, to: Timestamp| {
        gaps.iter().any(|gap| gap.from < to && gap.to.is_none_or(|gap_to| gap_to > from))
    };
    for point in points {
        let Some(value) = (quantity.of)(point).filter(|value| value.is_finite()) else { continue };
        let step = before.map(|(at, ..)| Span::new(at, point.at));
        if step.is_some_and(|step| step.length() < SHORTEST_STEP) {
            continue;
        }
        let is_joined = before.zip(step).is_some_and(|((at, segment, _), step)| {
            segment == point.segment && step.length() <= LONGEST_STEP && !in_gap(at, point.at)
        });
        let drawn = match (quantity.kind, before.zip(step)) {
            (Kind::Gauge, _) => Some(value),
            (Kind::Counter(per), Some(((.., was), step))) if is_joined && value >= was => {
                Some((value - was) / step.seconds() / per)
            }
            (Kind::Counter(_), _) => None,
        };
        if !is_joined && curves.last().is_some_and(|curve| !curve.is_empty()) {
            curves.push(Vec::new());
        }
        if let (Some(value), Some(curve), true) = (drawn, curves.last_mut(), shown.contains(point.at)) {
            curve.push((shown.offset_s(point.at), value));
        }
        before = Some((point.at, point.segment, value));
    }
    curves.retain(|curve| !curve.is_empty());
    curves.into_iter().map(|curve| thinned(curve, shown.seconds())).collect()
}

/// No more points than a picture can show, with every peak and dip still there.
fn thinned(curve: Vec<(f64, f64)>, seconds: f64) -> Vec<(f64, f64)> {
    if curve.len() <= 2 * BUCKETS {
        return curve;
    }
    let bucket = |point: &(f64, f64)| (point.0 / seconds * BUCKETS as f64) as usize;
    let mut kept = Vec::with_capacity(2 * BUCKETS);
    for chunk in curve.chunk_by(|a, b| bucket(a) == bucket(b)) {
        let least = chunk.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let most = chunk.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut ends: Vec<(f64, f64)> = least.into_iter().chain(most).copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        kept.extend(ends);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_782_898_200_000 + ms).unwrap()
    }

    fn point(ms: i64, segment: u64, questions: f64) -> Point {
        Point {
            at: at(ms),
            segment,
            questions: Some(questions),
            threads_running: Some(4.0),
            ..Point::default()
        }
    }

    fn track<'a>(timeline: &'a Timeline, name: &str) -> &'a Track {
        timeline.tracks.iter().find(|track| track.name == name).unwrap()
    }

    #[test]
    fn a_counter_is_drawn_as_its_rate_and_a_restart_breaks_the_curve() {
        let points: Vec<Point> =
            (0..6).map(|s| point(s * 1_000, if s < 3 { 1 } else { 2 }, 100.0 * s as f64)).collect();
        let timeline = drawn(&points, Span::new(at(0), at(5_000)), &[]);
        assert_eq!(
            track(&timeline, "statements").curves,
            [vec![(1.0, 100.0), (2.0, 100.0)], vec![(4.0, 100.0), (5.0, 100.0)]]
        );
        assert_eq!(track(&timeline, "threads running").curves.len(), 2);
        assert!(timeline.tracks.iter().all(|track| track.name != "commit calls"));
    }

    #[test]
    fn probes_before_a_stall_are_drawn_no_closer_than_samples_are_and_a_short_stall_as_it_was() {
        let sample = |s: i64| point(s * 1_000, 1, 100.0 * s as f64);
        let probe = |tenth: i64| Point { is_probe: true, ..point(tenth * 100, 1, 10.0 * tenth as f64) };
        let points: Vec<Point> = (0..5).map(sample).chain((50..120).map(probe)).collect();
        let times = |stall| -> Vec<i64> {
            evenly(&points, stall)
                .iter()
                .map(|point| point.at.as_millisecond() - at(0).as_millisecond())
                .collect()
        };
        let short = times(Span::new(at(9_950), at(10_250)));
        assert_eq!(short[..9], [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000]);
        assert!([10_000, 10_100, 10_200].iter().all(|at| short.contains(at)), "{short:?}");
        assert!(short.len() < 18, "{short:?}");
        let long = times(Span::new(at(6_000), at(11_900)));
        assert!(long.windows(2).all(|pair| pair[1] - pair[0] >= 950), "{long:?}");
    }

    #[test]
    fn nothing_is_drawn_across_a_gap_however_short() {
        let points: Vec<Point> = (0..4).map(|s| point(s * 1_000, 1, 0.0)).collect();
        let gap = Gap { from: at(1_000), to: Some(at(2_000)), because: String::new() };
        let timeline = drawn(&points, Span::new(at(0), at(3_000)), &[gap]);
        assert_eq!(track(&timeline, "threads running").curves.len(), 2);
    }

    #[test]
    fn an_hour_is_thinned_and_keeps_its_one_peak() {
        let mut points: Vec<Point> = (0..36_000).map(|tenth| point(tenth * 100, 1, 0.0)).collect();
        points[17_777].threads_running = Some(900.0);
        let timeline = drawn(&points, Span::new(at(0), at(3_600_000)), &[]);
        let track = track(&timeline, "threads running");
        assert!(track.curves[0].len() <= 2 * BUCKETS, "{}", track.curves[0].len());
        assert_eq!(track.range(), (4.0, 900.0));
    }
}
