//! The few counters of a sample that charts are drawn of: small enough to keep for hours.

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::window::{Series, rates};
use spindoctor_model::{RecordedSample, Sample, Window};

/// Counters and gauges of one sample, raw, each with the time of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// When the sample was begun.
    pub at: Timestamp,
    /// Its segment: counters of two segments are not compared.
    pub segment: u64,
    /// Seconds from [`Point::at`] to the server's answer.
    answered_s: f64,
    /// Seconds from [`Point::at`] to the kernel's answer.
    looked_s: f64,
    questions: Option<f64>,
    writes: Option<f64>,
    /// `Threads_running`.
    pub running: Option<f64>,
    /// CPU that the server used so far, seconds.
    pub cpu_s: Option<f64>,
}

/// What a chart is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chart {
    /// `Questions` a second.
    Queries,
    /// Statements a second that change rows.
    Writes,
    /// `Threads_running`.
    Running,
    /// CPUs that the server uses.
    Cpus,
}

impl Point {
    /// The counters of a recorded sample.
    pub fn from_sample(recorded: &RecordedSample) -> Self {
        Self::at(recorded.at, recorded.segment, &recorded.sample)
    }

    /// The counters of a window, which is of one segment.
    pub fn of_window(window: &Window) -> Vec<Self> {
        let begun = |at_s| window.start.checked_add(SignedDuration::try_from_secs_f64(at_s).ok()?).ok();
        let point = |sample: &Sample| Some(Self::at(begun(sample.at_s)?, 0, sample));
        window.samples.iter().filter_map(point).collect()
    }

    /// The counters of a sample that was begun at an instant.
    pub fn at(at: Timestamp, segment: u64, sample: &Sample) -> Self {
        let status = sample.server.status.timed();
        let process = sample.host.process.timed();
        let number = |name: &str| status.and_then(|(_, status)| status.number(name));
        let used_s = |(_, process): (f64, &spindoctor_model::host::ProcessStat)| {
            (process.user_us + process.system_us) as f64 / 1e6
        };
        let after = |answer_s: f64| answer_s - sample.at_s;
        Self {
            at,
            segment,
            answered_s: status.map_or(0.0, |(answer_s, _)| after(answer_s)),
            looked_s: process.map_or(0.0, |(answer_s, _)| after(answer_s)),
            questions: number("Questions"),
            writes: status.and_then(|(_, status)| writes(status)),
            running: number("Threads_running"),
            cpu_s: process.map(used_s),
        }
    }

    fn value(&self, chart: Chart) -> Option<f64> {
        match chart {
            Chart::Queries => self.questions,
            Chart::Writes => self.writes,
            Chart::Running => self.running,
            Chart::Cpus => self.cpu_s,
        }
    }

    fn answered_after_s(&self, chart: Chart) -> f64 {
        if chart == Chart::Cpus { self.looked_s } else { self.answered_s }
    }
}

/// Statements that change rows. Commits would be asked for rather, but no counter has them: `Com_commit` leaves out
/// autocommit, and `Handler_commit` counts the end of every statement in a transaction.
pub const WRITES: [&str; 6] =
    ["Com_insert", "Com_insert_select", "Com_update", "Com_update_multi", "Com_delete", "Com_replace"];

/// Statements so far that changed rows; None where none of the counters is there.
fn writes(status: &NamedValues) -> Option<f64> {
    WRITES.iter().filter_map(|name| status.number(name)).reduce(|a, b| a + b)
}

/// A chart over points in order of time: seconds from an instant (before it: negative), value. A counter's rate stands at
/// the later of its two samples; where it went back, and from one segment to the next, there is none.
pub fn series(points: &[Point], chart: Chart, zero: Timestamp) -> Series {
    let seconds = |point: &Point| {
        (point.at - zero).total(jiff::Unit::Second).unwrap_or(0.0) + point.answered_after_s(chart)
    };
    points
        .chunk_by(|a, b| a.segment == b.segment)
        .flat_map(|segment| {
            let values: Series =
                segment.iter().filter_map(|point| Some((seconds(point), point.value(chart)?))).collect();
            if chart == Chart::Running { values } else { rates(&values) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(second: i64, segment: u64, questions: f64) -> Point {
        let at = Timestamp::from_second(1_000 + second).unwrap();
        Point { at, segment, questions: Some(questions), running: Some(2.0), ..Point::default() }
    }

    #[test]
    fn a_rate_is_between_two_samples_of_one_segment() {
        let points = [point(0, 1, 0.0), point(1, 1, 50.0), point(4, 2, 9.0), point(5, 2, 12.0)];
        let zero = Timestamp::from_second(1_005).unwrap();
        assert_eq!(series(&points, Chart::Queries, zero), [(-4.0, 50.0), (0.0, 3.0)]);
        assert_eq!(series(&points, Chart::Running, zero).len(), 4);
        assert!(series(&points, Chart::Cpus, zero).is_empty());
    }
}
