//! A recording as a feed. Of days of it only the minutes around the instant are read; the charts' counters of a minute
//! are kept once they were read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{Event, EventHead, Gap, Window};
use spindoctor_record::OverviewPoint;

use super::feed::{Extent, Feed};
use super::point::Point;
use crate::common::recorded::{self, Opened};
use spindoctor_record::span::{Ends, before};
use spindoctor_sessions::{AtWork, LONGEST_S, Reader};

/// Points of the line that shows all of the recording: more than a window has columns.
const OVERVIEW_POINTS: usize = 500;
/// Minutes of which the charts' counters are kept: half a day, 10 MiB.
const MINUTES_KEPT: usize = 720;
/// Minutes of which the sessions at work are kept: their statements are texts.
const MINUTES_AT_WORK: usize = 60;
const MINUTE_S: i64 = 60;

/// A recording.
pub struct Replay {
    recording: Opened,
    name: String,
    /// The charts' counters of each whole minute that was read, by the second at which it begins.
    minutes: BTreeMap<i64, Vec<Point>>,
    /// The sessions at work in each whole minute that was read, in the same way.
    at_work: BTreeMap<i64, Vec<AtWork>>,
    overview: Option<Vec<(Timestamp, f64)>>,
}

impl Replay {
    /// Opens a recording.
    ///
    /// # Errors
    /// There is none, or it is something else.
    pub fn open(file: &Path) -> anyhow::Result<Self> {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        Ok(Self {
            recording: recorded::open(file)?,
            name,
            minutes: BTreeMap::new(),
            at_work: BTreeMap::new(),
            overview: None,
        })
    }

    /// The counters of the minute that begins at a second.
    fn minute(&mut self, second: i64, last: Timestamp) -> anyhow::Result<Vec<Point>> {
        if let Some(points) = self.minutes.get(&second) {
            return Ok(points.clone());
        }
        let (Ok(from), Ok(to)) =
            (Timestamp::from_second(second), Timestamp::from_millisecond((second + MINUTE_S) * 1_000 - 1))
        else {
            return Ok(Vec::new());
        };
        let samples = self.recording.samples_without_lists(from, to)?;
        let points: Vec<Point> = samples.iter().map(Point::from_sample).collect();
        // The last minute may still be written.
        if to < last {
            if self.minutes.len() >= MINUTES_KEPT {
                self.minutes.clear();
            }
            self.minutes.insert(second, points.clone());
        }
        Ok(points)
    }
}

impl Replay {
    /// The sessions at work in the minute that begins at a second.
    fn at_work_in_minute(&mut self, second: i64, last: Timestamp) -> anyhow::Result<Vec<AtWork>> {
        if let Some(lists) = self.at_work.get(&second) {
            return Ok(lists.clone());
        }
        let (Ok(from), Ok(to)) =
            (Timestamp::from_second(second), Timestamp::from_millisecond((second + MINUTE_S) * 1_000 - 1))
        else {
            return Ok(Vec::new());
        };
        // The first list stands for the time since the one before it.
        let samples = self.recording.samples(before(from, Duration::from_secs_f64(LONGEST_S)), to)?;
        let mut reader = Reader::default();
        let mut lists: Vec<AtWork> = samples.iter().filter_map(|sample| reader.read(sample)).collect();
        lists.retain(|list| list.at >= from);
        if to < last {
            if self.at_work.len() >= MINUTES_AT_WORK {
                self.at_work.clear();
            }
            self.at_work.insert(second, lists.clone());
        }
        Ok(lists)
    }
}

impl Feed for Replay {
    fn is_live(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn extent(&mut self) -> anyhow::Result<Option<Extent>> {
        Ok(self.recording.extent()?.map(|(from, to)| Extent { from, to }))
    }

    fn window(&mut self, until: Timestamp, span: SignedDuration) -> anyhow::Result<Option<Window>> {
        Ok(self.recording.window_until(until - span, until)?)
    }

    fn points(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<Point>> {
        let Some(extent) = self.extent()? else { return Ok(Vec::new()) };
        let mut points = Vec::new();
        let first = from.max(extent.from).as_second().div_euclid(MINUTE_S) * MINUTE_S;
        for second in (first..=to.as_second()).step_by(MINUTE_S as usize) {
            points.extend(self.minute(second, extent.to)?);
        }
        points.retain(|point| (from..=to).contains(&point.at));
        Ok(points)
    }

    fn at_work(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<AtWork>> {
        let Some(extent) = self.extent()? else { return Ok(Vec::new()) };
        let mut lists = Vec::new();
        let first = from.max(extent.from).as_second().div_euclid(MINUTE_S) * MINUTE_S;
        for second in (first..=to.as_second()).step_by(MINUTE_S as usize) {
            lists.extend(self.at_work_in_minute(second, extent.to)?);
        }
        lists.retain(|list| (from..=to).contains(&list.at));
        Ok(lists)
    }

    fn overview(&mut self) -> anyhow::Result<Vec<(Timestamp, f64)>> {
        if self.overview.is_none() {
            let points = match self.recording.extent()? {
                Some((from, to)) => self.recording.overview(from, to, OVERVIEW_POINTS)?,
                None => Vec::new(),
            };
            self.overview = Some(queries_per_s(&points));
        }
        Ok(self.overview.clone().unwrap_or_default())
    }

    fn events(&mut self) -> anyhow::Result<Vec<EventHead>> {
        Ok(self.recording.events()?)
    }

    fn ends(&mut self) -> anyhow::Result<Ends> {
        Ok(Ends::of_segments(&self.recording.segments()?, &self.recording.stretches(0)?))
    }

    fn event(&mut self, id: u64) -> anyhow::Result<Option<Event>> {
        Ok(self.recording.event(id)?)
    }

    fn gaps(&mut self) -> anyhow::Result<Vec<Gap>> {
        Ok(self.recording.gaps()?)
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Queries a second between each two points of one segment, at the later one.
fn queries_per_s(points: &[OverviewPoint]) -> Vec<(Timestamp, f64)> {
    let rate = |pair: &[OverviewPoint]| {
        let [first, last] = pair else { return None };
        let seconds = (last.at - first.at).total(jiff::Unit::Second).ok().filter(|seconds| *seconds > 0.0)?;
        let grown = last.questions?.checked_sub(first.questions?)?;
        (first.segment == last.segment).then(|| (last.at, grown as f64 / seconds))
    };
    points.windows(2).filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_the_whole_line_is_within_a_segment() {
        let point = |second, segment, questions| OverviewPoint {
            at: Timestamp::from_second(second).unwrap(),
            segment,
            questions: Some(questions),
            ..OverviewPoint::default()
        };
        let points = [point(0, 1, 0), point(60, 1, 600), point(120, 2, 5), point(180, 2, 65)];
        let rates: Vec<f64> = queries_per_s(&points).into_iter().map(|(_, rate)| rate).collect();
        assert_eq!(rates, [10.0, 1.0]);
    }
}
