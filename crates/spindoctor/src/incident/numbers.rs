//! The server in a few numbers: in the baseline before, and during the stall. What is drawn over time is the same.

use spindoctor_model::median;

use super::point::Point;
use super::scope::Scope;
use spindoctor_record::span::Span;

/// Something that is compared and drawn.
#[derive(Debug)]
pub struct Quantity {
    /// What it is called.
    pub name: &'static str,
    /// Its unit, as the model names it.
    pub unit: &'static str,
    /// Where it is read, for a reader who asks.
    pub source: &'static str,
    /// What a point says of it.
    pub of: fn(&Point) -> Option<f64>,
    /// How it is read.
    pub kind: Kind,
}

/// How the numbers of a quantity are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A cumulative counter: its growth a second, divided by this.
    Counter(f64),
    /// A value of the instant: the median of the calm is compared with the greatest of the stall; with the least, where it only
    /// went down.
    Gauge,
}

/// All of them, in the order in which they are shown.
pub const QUANTITIES: [Quantity; 6] = [
    Quantity {
        name: "statements",
        unit: "1/s",
        source: "Questions",
        of: |point| point.questions,
        kind: Kind::Counter(1.0),
    },
    Quantity {
        // The server makes storage engines commit several times in each transaction: after every statement, and in the
        // binary log.
        name: "commit calls",
        unit: "1/s",
        source: "Handler_commit: calls to storage engines, several for each transaction",
        of: |point| point.commits,
        kind: Kind::Counter(1.0),
    },
    Quantity {
        name: "threads running",
        unit: "",
        source: "Threads_running",
        of: |point| point.threads_running,
        kind: Kind::Gauge,
    },
    Quantity {
        name: "time to answer",
        unit: "ms",
        source: "the probe, of an event; SHOW GLOBAL STATUS, of any other time",
        of: |point| point.answer_ms,
        kind: Kind::Gauge,
    },
    Quantity {
        name: "CPU of the server",
        unit: "CPUs",
        source: "/proc/PID/stat",
        of: |point| point.cpu_us,
        kind: Kind::Counter(1e6),
    },
    Quantity {
        name: "checkpoint age",
        unit: "bytes",
        source: "redo between the last checkpoint and now",
        of: |point| point.checkpoint_age_bytes,
        kind: Kind::Gauge,
    },
];

/// A quantity before and during.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// What it is called.
    pub name: &'static str,
    /// Its unit, as the model names it.
    pub unit: &'static str,
    /// What `during` is.
    pub during_is: During,
    /// In the calm; none where there was none, or nobody read it.
    pub before: Option<f64>,
    /// In the stall.
    pub during: Option<f64>,
}

/// What the number of the stall is, of the values that were read in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// The rate over all of it; of the calm, too.
    Rate,
    /// The greatest; of the calm it is the median.
    Greatest,
    /// The least, where all are below the median of the calm.
    Least,
}

/// Every quantity that was read at all.
pub fn compared(points: &[Point], scope: Scope) -> Vec<Compared> {
    QUANTITIES
        .iter()
        .map(|quantity| {
            let (before, during, during_is) = match quantity.kind {
                Kind::Counter(per) => {
                    let of = |span| rate(points, quantity, span).map(|rate| rate / per);
                    (scope.calm.and_then(of), of(scope.stall), During::Rate)
                }
                Kind::Gauge => {
                    let before = scope.calm.and_then(|calm| median(gauge(points, quantity, calm)));
                    let (during, during_is) = extreme(gauge(points, quantity, scope.stall), before);
                    (before, during, during_is)
                }
            };
            Compared { name: quantity.name, unit: quantity.unit, during_is, before, during }
        })
        .filter(|row| row.before.is_some() || row.during.is_some())
        .collect()
}

/// How fast a counter grew over a span, a second. Where fewer than two points lie in it, those on either side do.
fn rate(points: &[Point], quantity: &Quantity, span: Span) -> Option<f64> {
    let read: Vec<(&Point, f64)> =
        points.iter().filter_map(|point| Some((point, (quantity.of)(point)?))).collect();
    let within = read.iter().filter(|(point, _)| span.contains(point.at));
    let (mut first, mut last) = (within.clone().next(), within.clone().next_back());
    if first.map(|(point, _)| point.at) == last.map(|(point, _)| point.at) {
        first = read.iter().rev().find(|(point, _)| point.at <= span.from);
        last = read.iter().find(|(point, _)| point.at >= span.to);
    }
    let ((first, from), (last, to)) = (first?, last?);
    let seconds = last.at.duration_since(first.at).as_secs_f64();
    (first.segment == last.segment && seconds > 0.0 && to >= from).then(|| (to - from) / seconds)
}

fn gauge(points: &[Point], quantity: &Quantity, span: Span) -> impl Iterator<Item = f64> {
    let read = points.iter().filter(move |point| span.contains(point.at)).filter_map(quantity.of);
    read.filter(|value| value.is_finite())
}

/// The value that is furthest from that of before: "up to" a number that is below the usual one would mislead.
fn extreme(values: impl Iterator<Item = f64>, before: Option<f64>) -> (Option<f64>, During) {
    let values: Vec<f64> = values.collect();
    let greatest = values.iter().copied().max_by(f64::total_cmp);
    match (greatest, before) {
        (Some(greatest), Some(before)) if greatest < before => {
            (values.into_iter().min_by(f64::total_cmp), During::Least)
        }
        _ => (greatest, During::Greatest),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_782_898_200_000 + ms).unwrap()
    }

    fn point(ms: i64, questions: f64, running: f64) -> Point {
        Point {
            at: at(ms),
            segment: 1,
            questions: Some(questions),
            threads_running: Some(running),
            ..Point::default()
        }
    }

    fn scope(calm: (i64, i64), stall: (i64, i64)) -> Scope {
        let span = |(from, to)| Span::new(at(from), at(to));
        Scope {
            stall: span(stall),
            calm: Some(span(calm)),
            shown: span(stall),
            is_over: true,
            is_asked: false,
        }
    }

    fn named<'a>(rows: &'a [Compared], name: &str) -> &'a Compared {
        rows.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn rates_are_compared_with_rates_and_the_greatest_with_the_middle() {
        let points: Vec<Point> =
            (0..10).map(|s| point(s * 1_000, 100.0 * s as f64, if s == 8 { 50.0 } else { 3.0 })).collect();
        let rows = compared(&points, scope((0, 5_000), (7_000, 9_000)));
        assert_eq!(named(&rows, "statements").before, Some(100.0));
        let running = named(&rows, "threads running");
        assert_eq!((running.before, running.during), (Some(3.0), Some(50.0)));
        assert!(rows.iter().all(|row| row.name != "commit calls"), "nobody read them");
    }

    /// A transaction has several calls of `Handler_commit`.
    #[test]
    fn calls_that_commit_are_not_called_commits() {
        let row = QUANTITIES.iter().find(|row| row.source.starts_with("Handler_commit")).unwrap();
        assert_eq!(row.name, "commit calls");
        assert!(row.source.contains("several for each transaction"), "{}", row.source);
        assert!(QUANTITIES.iter().all(|row| !["commits", "transactions"].contains(&row.name)));
    }

    #[test]
    fn a_gauge_that_only_went_down_is_shown_by_its_least_value() {
        let running = [4.0, 4.0, 5.0, 4.0, 4.0, 3.0, 1.0, 2.0];
        let points: Vec<Point> =
            (0_i64..).zip(running).map(|(s, running)| point(s * 1_000, 0.0, running)).collect();
        let rows = compared(&points, scope((0, 4_000), (5_000, 7_000)));
        let row = named(&rows, "threads running");
        assert_eq!((row.before, row.during, row.during_is), (Some(4.0), Some(1.0), During::Least));
    }

    #[test]
    fn a_stall_between_two_samples_has_the_rate_between_them() {
        let points = [point(0, 0.0, 1.0), point(1_000, 100.0, 1.0), point(2_000, 120.0, 1.0)];
        let rows = compared(&points, scope((0, 1_000), (1_300, 1_500)));
        assert_eq!(named(&rows, "statements").during, Some(20.0));
        assert_eq!(named(&rows, "threads running").during, None);
    }

    #[test]
    fn a_counter_of_another_process_gives_no_rate() {
        let mut points = [point(0, 100.0, 1.0), point(1_000, 300.0, 1.0), point(2_000, 400.0, 1.0)];
        points[2].segment = 2;
        let rows = compared(&points, scope((0, 1_000), (1_000, 2_000)));
        let statements = named(&rows, "statements");
        assert_eq!((statements.before, statements.during), (Some(200.0), None));
    }
}
