//! The instant of an event at which its trouble shows most: `top` goes there. One function decides it, for the key of the next
//! event, the list of events, `--event`, and the beginning of a replay.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{EventHead, RecordedGraph, TimeClass};
use spindoctor_record::span::Ends;
use spindoctor_sessions::AtWork;

use super::feed::Feed;
use super::moment::HISTORY;
use super::point::Point;

/// A sample is of the stall alone from then on: the rates of the sample before are of the time before the stall, too.
const LEAD: SignedDuration = SignedDuration::from_secs(1);

/// Which event `top` is to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sought {
    /// The first whose peak is later than what is shown.
    Next,
    /// The last whose peak is earlier than what is shown.
    Before,
    /// The one of this number.
    Event(u64),
}

impl Sought {
    /// The peak of the event, from an instant; none where there is no such event.
    ///
    /// # Errors
    /// The peak of an event cannot be read.
    pub fn peak_from(
        self,
        at: Timestamp,
        events: &[EventHead],
        mut peak: impl FnMut(&EventHead) -> anyhow::Result<Timestamp>,
    ) -> anyhow::Result<Option<Timestamp>> {
        // Peaks are in the order of the events, and none is earlier than its event: of few events a peak has to be read.
        let begun = events.partition_point(|event| event.began <= at);
        match self {
            Self::Next => {
                for event in &events[begun.saturating_sub(1)..] {
                    let peak = peak(event)?;
                    if peak > at {
                        return Ok(Some(peak));
                    }
                }
            }
            Self::Before => {
                for event in events[..begun].iter().rev() {
                    let peak = peak(event)?;
                    if peak < at {
                        return Ok(Some(peak));
                    }
                }
            }
            Self::Event(id) => return events.iter().find(|event| event.id == id).map(peak).transpose(),
        }
        Ok(None)
    }

    /// What is said where there is no such event.
    pub fn missing(self) -> &'static str {
        match self {
            Self::Next => "no later event",
            Self::Before => "no earlier event",
            Self::Event(_) => "that event is gone",
        }
    }
}

/// The instant of an event at which its trouble shows most: of the sample in which the most sessions wait, or are at work;
/// where there is no list of sessions, when the most threads waited by the event's wait graphs, or the most threads ran.
///
/// # Errors
/// The feed cannot be read.
pub fn peak(feed: &mut dyn Feed, head: &EventHead, ends: &Ends) -> anyhow::Result<Timestamp> {
    let Some(extent) = feed.extent()? else { return Ok(head.began) };
    let until = ends.until(head).unwrap_or(extent.to).max(head.began);
    // Of one that lasts for hours, its first minutes show the trouble.
    let looked_until = until.min(later(head.began, HISTORY));
    let lists = feed.at_work(head.began, looked_until)?;
    if let Some(at) = worst(head, lists.iter().map(|list| (list.at, weight(list)))) {
        return Ok(at);
    }
    let graphs = feed.event(head.id)?.map(|event| event.graphs).unwrap_or_default();
    if let Some(at) = worst(head, graphs.iter().map(|graph| (graph.at, waiting_in_graph(graph)))) {
        return Ok(at.min(until));
    }
    let points = feed.points(head.began, looked_until)?;
    let running = |point: &Point| Some((point.at, point.running?));
    Ok(worst(head, points.iter().filter_map(running)).unwrap_or_else(|| later(head.began, LEAD).min(until)))
}

/// When a number was largest; the first of equals. One of the event's first second is taken where those after it are less
/// than half as large.
fn worst(head: &EventHead, numbers: impl Iterator<Item = (Timestamp, f64)>) -> Option<Timestamp> {
    let numbers: Vec<(Timestamp, f64)> = numbers.filter(|(_, number)| *number > 0.0).collect();
    // `max_by` takes the last of equals.
    let largest_since = |since: Timestamp| {
        let since = numbers.iter().rev().filter(|(at, _)| *at >= since);
        since.max_by(|a, b| a.1.total_cmp(&b.1)).copied()
    };
    let of_all = largest_since(head.began)?;
    let of_stall_alone =
        largest_since(later(head.began, LEAD)).filter(|(_, number)| number * 2.0 >= of_all.1);
    Some(of_stall_alone.unwrap_or(of_all).0)
}

/// Sessions at work. Those that wait count twice: when a lock is free again, as many run for a moment as waited for it. Those
/// that run count, too: who waits for a CPU, or in a wait without a state, is listed as running.
fn weight(list: &AtWork) -> f64 {
    let waits = |class: TimeClass| if class == TimeClass::Running { 1.0 } else { 2.0 };
    list.sightings.iter().map(|seen| waits(seen.class) * seen.sessions).sum()
}

/// Threads that wait for others.
fn waiting_in_graph(graph: &RecordedGraph) -> f64 {
    let waiters: BTreeSet<u32> = graph.graph.edges.iter().map(|edge| edge.waiter).collect();
    waiters.len() as f64
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}
