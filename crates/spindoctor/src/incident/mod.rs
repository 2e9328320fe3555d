//! An incident: a stretch of a recording, told. Plain data, and the pure functions that make it.
//!
//! In: what the command read of a recording ([`Recorded`]). Out: an [`Incident`], which the formats in
//! `report/incident/` render. Nothing here opens a file.

pub(crate) mod numbers;
pub(crate) mod point;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod scope;
pub(crate) mod settings;
pub(crate) mod statements;
pub(crate) mod timeline;
pub(crate) mod told;
mod unrecorded;

use spindoctor_model::{
    Diagnosis, Event, EventHead, Gap, Reading, RecordedSetting, Segment, ServerIdentity, Window,
};

use crate::locks::Locks;
pub(crate) use numbers::Compared;
pub(crate) use point::Point;
pub(crate) use scope::{Ends, Scope, Span};
pub(crate) use settings::Settings;
pub(crate) use statements::Statements;
pub(crate) use timeline::Timeline;
pub(crate) use unrecorded::Unrecorded;

/// What was read of a recording for one incident.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// The segments, in order.
    pub(crate) segments: Vec<Segment>,
    /// The gaps, in order.
    pub(crate) gaps: Vec<Gap>,
    /// The heads of all events, in order.
    pub(crate) events: Vec<EventHead>,
    /// Where segments broke off.
    pub(crate) ends: Ends,
    /// The event that is told, where there is one.
    pub(crate) event: Option<Event>,
    /// Of each sample of the stretch that is shown what the timeline draws, in order.
    pub(crate) points: Vec<Point>,
    /// The calm before, in samples.
    pub(crate) calm: Option<Window>,
    /// The stall, from the sample before it to the sample after it.
    pub(crate) stall: Option<Window>,
    /// The stall with enough before and after it that slow sources were read on both sides.
    pub(crate) around: Option<Window>,
    /// The settings with their changes up to the end of the stall, in order of time.
    pub(crate) settings: Vec<RecordedSetting>,
}

/// A stretch of a recording, and all that its report tells.
#[derive(Debug, Clone)]
pub(crate) struct Incident {
    /// The server.
    pub(crate) server: ServerIdentity,
    /// The version of spindoctor that recorded it; empty where nobody knows.
    pub(crate) written_by: String,
    /// Which times are told, compared and drawn.
    pub(crate) scope: Scope,
    /// The event that is told.
    pub(crate) event: Option<Event>,
    /// All events of what is shown, in order.
    pub(crate) events: Vec<EventHead>,
    /// Where segments broke off: until when those lasted that nobody saw the end of.
    pub(crate) ends: Ends,
    /// The server in numbers, before and during.
    pub(crate) numbers: Vec<Compared>,
    /// What is drawn over time.
    pub(crate) timeline: Timeline,
    /// What the rules say.
    pub(crate) diagnosis: Option<Diagnosis>,
    /// Who held up whom, when the most waited.
    pub(crate) waits: Option<Locks>,
    /// What ran.
    pub(crate) statements: Statements,
    /// Settings, and what of them changed.
    pub(crate) settings: Settings,
    /// Gaps in what is shown.
    pub(crate) gaps: Vec<Gap>,
    /// What was not recorded, and why.
    pub(crate) unrecorded: Vec<Unrecorded>,
}

impl Incident {
    /// The incident of what was read.
    pub(crate) fn of(scope: Scope, recorded: Recorded) -> Self {
        let Recorded { segments, gaps, events, ends, event, points, calm, stall, around, settings } =
            recorded;
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
            // Of a process that is gone no reading tells why.
            .or_else(|| {
                let is_restart = event.as_ref().is_some_and(|event| event.head.stall.kind.is_restart());
                if is_restart { None } else { diagnosed(stall.as_ref()?, event.as_ref()) }
            });
        let gaps: Vec<Gap> = gaps.into_iter().filter(|gap| scope.shown.meets_gap(gap)).collect();
        let events: Vec<EventHead> =
            events.into_iter().filter(|head| scope.shown.meets_event(head, &ends)).collect();
        let settings = Settings::of(&settings, scope.stall, diagnosis.as_ref());
        Self {
            numbers: numbers::compared(&points, scope),
            timeline: timeline::drawn(&timeline::evenly(&points, scope.stall), scope.shown, &gaps),
            waits: event.as_ref().and_then(|event| worst_moment(event, &server)),
            statements: Statements::of(scope.stall, event.as_ref(), calm.as_ref(), around.as_ref()),
            unrecorded: unrecorded::listed(&[calm.as_ref(), around.as_ref()], event.as_ref()),
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

    #[test]
    fn the_worst_moment_is_the_graph_in_which_the_most_wait() {
        let incident = sample::pileup();
        let waits = incident.waits.unwrap();
        assert_eq!(waits.waiting(), 201);
        assert_eq!(waits.at, sample::at(2.4));
        assert_eq!(waits.roots[0].waiting_in_all, 201);
    }

    #[test]
    fn what_the_recorder_did_not_diagnose_is_diagnosed_from_its_samples() {
        let (scope, mut recorded) = sample::recorded();
        recorded.event.as_mut().unwrap().diagnosis = None;
        let diagnosis = Incident::of(scope, recorded).diagnosis.unwrap();
        assert!(!diagnosis.clear.is_empty() || !diagnosis.not_examined.is_empty());
    }

    #[test]
    fn a_recording_with_nothing_in_it_gives_an_incident_that_says_nothing() {
        let (scope, _) = sample::recorded();
        let incident = Incident::of(scope, Recorded::default());
        assert!(incident.diagnosis.is_none() && incident.waits.is_none());
        assert!(incident.timeline.tracks.is_empty());
        assert!(incident.numbers.iter().all(|row| row.before.is_none() && row.during.is_none()));
    }
}
