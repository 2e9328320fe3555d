//! Where the data comes from: one trait for a live server, a recording and a single window.

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{Event, EventHead, Gap, Window};
use spindoctor_sessions::AtWork;

use super::point::Point;
use spindoctor_record::span::Ends;

/// The first and the last instant of which there are samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl Extent {
    /// True for an instant between the two.
    pub fn holds(self, at: Timestamp) -> bool {
        (self.from..=self.to).contains(&at)
    }

    /// The instant of the extent that is nearest; the last one where the clock was set back so far that it is before the
    /// first.
    pub fn nearest(self, at: Timestamp) -> Timestamp {
        at.max(self.from).min(self.to)
    }

    /// From the first to the last, seconds.
    pub fn seconds(self) -> f64 {
        (self.to - self.from).total(jiff::Unit::Second).unwrap_or(0.0)
    }
}

/// What the screens are fed from. Every question is about a few minutes at most; none reads all there is.
pub trait Feed {
    /// Whether new samples come while we look.
    fn is_live(&self) -> bool;

    /// The file, or what was connected to.
    fn name(&self) -> String;

    /// Of when there are samples; None where there is none yet.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn extent(&mut self) -> anyhow::Result<Option<Extent>>;

    /// The samples of the time before an instant, as a window that ends with the last sample at or before it. The lists
    /// that are shown as they are now may be in the newest samples alone. None where there is no sample in that time.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn window(&mut self, until: Timestamp, span: SignedDuration) -> anyhow::Result<Option<Window>>;

    /// The counters of the charts, from one instant to another, both included.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn points(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<Point>>;

    /// The sessions at work, from one instant to another, both included: one for each list of threads.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn at_work(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<AtWork>>;

    /// A coarse course of all there is, for one line: time and queries a second. Empty where nobody keeps one.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn overview(&mut self) -> anyhow::Result<Vec<(Timestamp, f64)>>;

    /// The stalls, in order of time.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn events(&mut self) -> anyhow::Result<Vec<EventHead>>;

    /// Where segments broke off: stalls whose end was not seen lasted until then at least.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn ends(&mut self) -> anyhow::Result<Ends>;

    /// A stall with all that was kept of it.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn event(&mut self, id: u64) -> anyhow::Result<Option<Event>>;

    /// The times without samples.
    ///
    /// # Errors
    /// The recording cannot be read.
    fn gaps(&mut self) -> anyhow::Result<Vec<Gap>>;

    /// Why no samples come at the moment, or what else is wrong with the source; None where all is well.
    fn trouble(&self) -> Option<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_instant_is_one_of_the_extent_even_where_the_clock_was_set_back() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let extent = Extent { from: at(100), to: at(200) };
        assert_eq!([50, 150, 250].map(|second| extent.nearest(at(second))), [at(100), at(150), at(200)]);
        let set_back = Extent { from: at(200), to: at(100) };
        assert_eq!([50, 150, 250].map(|second| set_back.nearest(at(second))), [at(100); 3]);
    }
}
