//! A feed of one window that is over: for a single screen on standard output, and for tests.

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{Event, EventHead, Gap, RecordedSample, Window};

use super::feed::{Extent, Feed};
use super::point::Point;
use spindoctor_record::span::Ends;
use spindoctor_sessions::{AtWork, Reader};

/// One window, whose last sample is now.
#[derive(Debug)]
pub struct Still {
    window: Window,
}

impl Still {
    /// The feed of a window.
    pub fn new(window: Window) -> Self {
        Self { window }
    }

    fn instant(&self, at_s: f64) -> Timestamp {
        self.window.start + SignedDuration::try_from_secs_f64(at_s).unwrap_or_default()
    }
}

impl Feed for Still {
    fn is_live(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        self.window.server.address.clone()
    }

    fn extent(&mut self) -> anyhow::Result<Option<Extent>> {
        let last = self.window.samples.last();
        Ok(last.map(|last| Extent { from: self.window.start, to: self.instant(last.at_s) }))
    }

    fn window(&mut self, _: Timestamp, _: SignedDuration) -> anyhow::Result<Option<Window>> {
        Ok(Some(self.window.clone()))
    }

    fn points(&mut self, _: Timestamp, _: Timestamp) -> anyhow::Result<Vec<Point>> {
        let samples = self.window.samples.iter();
        Ok(samples.map(|sample| Point::at(self.instant(sample.at_s), 1, sample)).collect())
    }

    fn at_work(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<AtWork>> {
        let mut reader = Reader::default();
        let mut lists = Vec::new();
        for sample in &self.window.samples {
            let at = self.instant(sample.at_s);
            lists.extend(reader.read(&RecordedSample { at, segment: 1, sample: sample.clone() }));
        }
        lists.retain(|list| (from..=to).contains(&list.at));
        Ok(lists)
    }

    fn overview(&mut self) -> anyhow::Result<Vec<(Timestamp, f64)>> {
        Ok(Vec::new())
    }

    fn events(&mut self) -> anyhow::Result<Vec<EventHead>> {
        Ok(Vec::new())
    }

    fn ends(&mut self) -> anyhow::Result<Ends> {
        Ok(Ends::default())
    }

    fn event(&mut self, _: u64) -> anyhow::Result<Option<Event>> {
        Ok(None)
    }

    fn gaps(&mut self) -> anyhow::Result<Vec<Gap>> {
        Ok(Vec::new())
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}
