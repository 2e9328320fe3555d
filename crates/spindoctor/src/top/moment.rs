//! The data of one instant: all screens are computed from it.

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{EventHead, Gap, RecordedGraph, ServerIdentity, Window};

use super::feed::{Extent, Feed};
use super::point::Point;
use super::screen::Screen;
use spindoctor_record::span::Ends;
use spindoctor_sessions::AtWork;

/// Samples before the instant that are read: two answers of a source that a recorder asks every thirty seconds.
const WINDOW: SignedDuration = SignedDuration::from_secs(65);
/// More of them, where rates over a minute are asked for.
const LONG_WINDOW: SignedDuration = SignedDuration::from_secs(125);
/// What the charts go back.
pub const HISTORY: SignedDuration = SignedDuration::from_secs(300);
/// A wait graph of an event is shown that far from its instant: the probe's graphs come ten times a second.
const GRAPH_NEAR: SignedDuration = SignedDuration::from_secs(2);

/// One instant, as a feed has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moment {
    /// Whether new samples come while we look.
    pub is_live: bool,
    /// The file, or what was connected to.
    pub name: String,
    /// Of when there are samples.
    pub extent: Option<Extent>,
    /// The instant.
    pub at: Option<Timestamp>,
    /// Samples before it; the last one is what is shown as now.
    pub window: Option<Window>,
    /// The charts' counters over the minutes before it.
    pub points: Vec<Point>,
    /// The sessions at work over the minutes before it, where the screen shows them.
    pub at_work: Vec<AtWork>,
    /// A coarse course of all there is: queries a second.
    pub overview: Vec<(Timestamp, f64)>,
    /// The stalls, in order of time.
    pub events: Vec<EventHead>,
    /// Until when those lasted at least whose end was not seen.
    pub ends: Ends,
    /// Why there are no samples of the instant, where there are none.
    pub gap: Option<Gap>,
    /// Who blocked whom then, where an event kept it.
    pub graph: Option<RecordedGraph>,
    /// Share of the server's CPU that went into spinning, where an event's CPU samples show it.
    pub spin_share: Option<f64>,
    /// Why no new samples come.
    pub trouble: Option<String>,
}

impl Moment {
    /// Asks a feed about an instant; about its last one where none is given. Rates will be over so many seconds.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn from_feed(feed: &mut dyn Feed, at: Option<Timestamp>, rates_over_s: f64) -> anyhow::Result<Self> {
        let extent = feed.extent()?;
        let at = match (at, extent) {
            (Some(at), Some(extent)) => Some(extent.nearest(at)),
            (_, extent) => extent.map(|extent| extent.to),
        };
        let events = feed.events()?;
        let ends = ends(feed, &events)?;
        let mut moment = Self {
            is_live: feed.is_live(),
            name: feed.name(),
            extent,
            at,
            overview: feed.overview()?,
            events,
            ends,
            trouble: feed.trouble(),
            ..Self::default()
        };
        let Some(at) = at else { return Ok(moment) };
        let span = if rates_over_s > 10.0 { LONG_WINDOW } else { WINDOW };
        moment.gap = feed.gaps()?.into_iter().find(|gap| gap.from < at && gap.to.is_none_or(|to| at < to));
        moment.window = feed.window(at, span)?;
        // The charts' whole history is read later; what the window holds of it need not be.
        moment.points = moment.window.as_ref().map(Point::of_window).unwrap_or_default();
        if let Some(id) = moment.event().map(|event| event.id)
            && let Some(event) = feed.event(id)?
        {
            let profile = event.diagnosis.and_then(|diagnosis| diagnosis.profile);
            moment.spin_share = profile.and_then(|profile| profile.spin).map(|spin| spin.all());
            let distance = |graph: &RecordedGraph| graph.at.duration_since(at).abs();
            let nearest = event.graphs.into_iter().min_by_key(distance);
            moment.graph = nearest.filter(|graph| distance(graph) <= GRAPH_NEAR);
        }
        Ok(moment)
    }

    /// Reads the sessions at work, where the screen shows them: of a recording that means to read each list of threads.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read_at_work(&mut self, feed: &mut dyn Feed, screen: Screen) -> anyhow::Result<()> {
        if let (Some(at), Screen::Load) = (self.at, screen) {
            self.at_work = feed.at_work(at - HISTORY, at)?;
        }
        Ok(())
    }

    /// Reads the charts' whole history: it takes longer than what a first picture needs.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read_history(&mut self, feed: &mut dyn Feed) -> anyhow::Result<()> {
        if let Some(at) = self.at {
            self.points = feed.points(at - HISTORY, at)?;
        }
        Ok(())
    }

    /// The stall that goes on at the instant.
    pub fn event(&self) -> Option<&EventHead> {
        let at = self.at?;
        self.events
            .iter()
            .rev()
            .find(|event| event.began <= at && self.ends.until(event).is_none_or(|until| at <= until))
    }

    /// The last stall that was over by then, or that its segment had broken off in.
    pub fn event_before(&self) -> Option<&EventHead> {
        let at = self.at?;
        self.events.iter().rev().find(|event| self.ends.until(event).is_some_and(|until| until < at))
    }

    /// Whose samples these are.
    pub fn server(&self) -> Option<&ServerIdentity> {
        self.window.as_ref().map(|window| &window.server)
    }

    /// When the last sample of the window was begun.
    pub fn sampled_at(&self) -> Option<Timestamp> {
        let window = self.window.as_ref()?;
        let last_s = window.samples.last()?.at_s;
        window.start.checked_add(SignedDuration::try_from_secs_f64(last_s).ok()?).ok()
    }
}

/// Until when those of these events lasted at least whose end was not seen. Where the end of all was seen, nothing is read.
///
/// # Errors
/// The recording cannot be read.
pub fn ends(feed: &mut dyn Feed, events: &[EventHead]) -> anyhow::Result<Ends> {
    match events.iter().any(|event| event.ended.is_none()) {
        true => feed.ends(),
        false => Ok(Ends::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::top::examples;

    #[test]
    fn a_stall_that_its_segment_broke_off_in_does_not_go_on_for_the_days_after_it() {
        let mut moment = examples::broken_off();
        let of = |event: Option<&EventHead>| event.map(|event| event.id);
        assert_eq!((of(moment.event()), of(moment.event_before())), (Some(2), Some(1)));
        moment.at = Some(examples::now() + SignedDuration::from_hours(2));
        assert_eq!((of(moment.event()), of(moment.event_before())), (None, Some(2)));
    }

    #[test]
    fn a_stall_of_the_last_segment_may_go_on() {
        let mut moment = examples::stalled();
        moment.events[1].ended = None;
        moment.at = Some(examples::now() + SignedDuration::from_hours(2));
        assert_eq!(moment.event().map(|event| event.id), Some(2));
    }
}
