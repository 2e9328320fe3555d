//! An incident: a stretch of a recording and its report. Plain data, and the pure functions that make it.
//!
//! In: what the command read of a recording ([`Recorded`]). Out: an [`Incident`], which the formats
//! of this room render. Nothing here opens a file.

use spindoctor_model::{
    Diagnosis, Event, EventHead, Gap, Reading, RecordedSetting, Segment, ServerIdentity, SessionTime, Window,
};

use super::changes::Compared as Changed;
use super::loads::Loads;
use super::numbers::Compared;
use super::point::Point;
use super::scope::Scope;
use super::settings::Settings;
use super::statements::Statements;
use super::timeline::Timeline;
use super::unrecorded::Unrecorded;
use super::{numbers, point, timeline, unrecorded};
use crate::locks::waits::Locks;
use spindoctor_record::span::{Ends, Span};

/// What was read of a recording for one incident.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// The gaps, in order.
    pub gaps: Vec<Gap>,
    /// The heads of all events, in order.
    pub events: Vec<EventHead>,
    /// Where segments broke off.
    pub ends: Ends,
    /// The reported event, where there is one.
    pub event: Option<Event>,
    /// Of each sample of the stretch that is shown what the timeline draws, in order.
    pub points: Vec<Point>,
    /// Who was at work in what, of the same samples.
    pub loads: Loads,
    /// The calm before, in samples.
    pub calm: Option<Window>,
    /// The stall, from the sample before it to the sample after it.
    pub stall: Option<Window>,
    /// The stall with enough before and after it that slow sources were read on both sides.
    pub around: Option<Window>,
    /// The settings with their changes up to the end of the stall, in order of time.
    pub settings: Vec<RecordedSetting>,
    /// The statements of this time and of earlier ones, compared.
    pub changes: Vec<Changed>,
}

/// A stretch of a recording, and the content of its report.
#[derive(Debug, Clone)]
pub struct Incident {
    /// The server.
    pub server: ServerIdentity,
    /// The version of spindoctor that recorded it; empty where nobody knows.
    pub written_by: String,
    /// Which times are reported, compared and drawn.
    pub scope: Scope,
    /// The reported event.
    pub event: Option<Event>,
    /// All events of what is shown, in order.
    pub events: Vec<EventHead>,
    /// Where segments broke off: until when those lasted that nobody saw the end of.
    pub ends: Ends,
    /// The server in numbers, before and during.
    pub numbers: Vec<Compared>,
    /// What is drawn over time.
    pub timeline: Timeline,
    /// What the rules say.
    pub diagnosis: Option<Diagnosis>,
    /// Where the sessions' time went in the calm before, and during it.
    pub time: TimeCompared,
    /// Who was at work in what, second by second.
    pub loads: Loads,
    /// Who blocked whom, when the most waited.
    pub waits: Option<Locks>,
    /// What ran.
    pub statements: Statements,
    /// Which statements changed, against each earlier time.
    pub changes: Vec<Changed>,
    /// Settings, and what of them changed.
    pub settings: Settings,
    /// Gaps in what is shown.
    pub gaps: Vec<Gap>,
    /// What was not recorded, and why.
    pub unrecorded: Vec<Unrecorded>,
}

/// Accounts of the sessions' time; none of a time of which there are no lists of the sessions.
#[derive(Debug, Clone, Default)]
pub struct TimeCompared {
    /// In the calm before.
    pub before: Option<SessionTime>,
    /// During the stall, or whatever time was asked for.
    pub during: Option<SessionTime>,
}

impl Incident {
    /// The incident of what was read.
    pub fn new(scope: Scope, recorded: Recorded) -> Self {
        let Recorded {
            segments,
            gaps,
            events,
            ends,
            event,
            points,
            loads,
            calm,
            stall,
            around,
            settings,
            changes,
        } = recorded;
        let segment = segment_of(&segments, event.as_ref(), scope.stall);
        let server = match (&stall, segment) {
            (Some(window), _) => window.server.clone(),
            (None, Some(segment)) => segment.server.clone(),
            (None, None) => ServerIdentity::default(),
        };
        let points = point::merged(points, event.as_ref(), &segments, scope.is_asked);
        let diagnosis = event
            .as_ref()
            .and_then(|event| event.diagnosis.clone())
            // No reading shows why a process is gone.
            .or_else(|| {
                let is_its_own = event.as_ref().is_some_and(|event| event.head.stall.kind.is_its_own_cause());
                if is_its_own { None } else { diagnosed(stall.as_ref()?, event.as_ref()) }
            });
        let of_window = |window: &Option<Window>| window.as_ref().and_then(spindoctor_rules::session_time);
        let of_diagnosis = diagnosis.as_ref().and_then(|diagnosis| diagnosis.time.clone());
        let time =
            TimeCompared { before: of_window(&calm), during: of_diagnosis.or_else(|| of_window(&stall)) };
        let gaps: Vec<Gap> = gaps.into_iter().filter(|gap| scope.shown.meets_gap(gap)).collect();
        let events: Vec<EventHead> =
            events.into_iter().filter(|head| scope.shown.meets_event(head, &ends)).collect();
        let settings = Settings::from_history(&settings, scope.stall, diagnosis.as_ref());
        Self {
            numbers: numbers::compared(&points, scope),
            timeline: timeline::drawn(&timeline::evenly(&points, scope.stall), scope.shown, &gaps),
            waits: event.as_ref().and_then(|event| worst_moment(event, &server)),
            statements: Statements::from_windows(scope.stall, event.as_ref(), calm.as_ref(), around.as_ref()),
            unrecorded: unrecorded::listed(&[calm.as_ref(), around.as_ref()], event.as_ref()),
            time,
            loads,
            changes,
            written_by: segment.map(|segment| segment.written_by.clone()).unwrap_or_default(),
            settings,
            server,
            scope,
            event,
            events,
            ends,
            diagnosis,
            gaps,
        }
    }
}

fn segment_of<'a>(segments: &'a [Segment], event: Option<&Event>, stall: Span) -> Option<&'a Segment> {
    match event {
        Some(event) => segments.iter().find(|segment| segment.id == event.head.segment),
        None => segments.iter().rev().find(|segment| segment.began <= stall.to),
    }
}

/// What the rules say of the stall, where the recorder did not put them to it.
fn diagnosed(stall: &Window, event: Option<&Event>) -> Option<Diagnosis> {
    if stall.samples.len() < 2 {
        return None;
    }
    let mut window = stall.clone();
    if let Some(during) = event.and_then(|event| event.during.clone()) {
        window.profile = Reading::Available { at_s: 0.0, took_ms: 0.0, value: during };
    }
    Some(spindoctor_rules::diagnose(&window))
}

/// The graph in which the most wait; the first of equals, as that is nearest to what began it.
fn worst_moment(event: &Event, server: &ServerIdentity) -> Option<Locks> {
    let looks = event.graphs.iter().map(|recorded| Locks::of_graph(recorded.graph.clone(), recorded.at));
    // `max_by_key` takes the last of equals.
    let mut worst = looks.rev().max_by_key(Locks::waiting)?;
    worst.server = match server.version {
        Some(version) => format!("{version} on {}", server.hostname),
        None => server.hostname.clone(),
    };
    worst.pid = server.pid;
    (worst.waiting() > 0).then_some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::incident::examples;

    #[test]
    fn the_worst_moment_is_the_graph_in_which_the_most_wait() {
        let incident = examples::pileup();
        let waits = incident.waits.unwrap();
        assert_eq!(waits.waiting(), 201);
        assert_eq!(waits.at, examples::at(2.4));
        assert_eq!(waits.roots[0].waiting_in_all, 201);
    }

    #[test]
    fn what_the_recorder_did_not_diagnose_is_diagnosed_from_its_samples() {
        let (scope, mut recorded) = examples::recorded();
        recorded.event.as_mut().unwrap().diagnosis = None;
        let diagnosis = Incident::new(scope, recorded).diagnosis.unwrap();
        assert!(!diagnosis.clear.is_empty() || !diagnosis.not_examined.is_empty());
    }

    #[test]
    fn a_recording_with_nothing_in_it_gives_an_incident_that_says_nothing() {
        let (scope, _) = examples::recorded();
        let incident = Incident::new(scope, Recorded::default());
        assert!(incident.diagnosis.is_none() && incident.waits.is_none());
        assert!(incident.timeline.tracks.is_empty());
        assert!(incident.numbers.iter().all(|row| row.before.is_none() && row.during.is_none()));
    }
}
