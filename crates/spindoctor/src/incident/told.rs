//! An incident in sentences: the same words on the page, in the terminal and in JSON.

use jiff::Timestamp;
use spindoctor_model::{EventHead, StallKind};

use super::{Incident, Span};
use crate::report::number;

/// `Commits stopped`
pub(crate) fn kind_told(kind: StallKind) -> &'static str {
    match kind {
        StallKind::ThroughputCollapsed => "Throughput collapsed",
        StallKind::CommitsStopped => "Commits stopped",
        StallKind::ProbeSlow => "The server answered slowly",
        StallKind::NoAnswer => "The server did not answer",
        StallKind::ThreadsRunning => "Threads piled up",
        StallKind::CheckpointAge => "The redo log filled up",
        StallKind::ConnectionsFail => "New connections failed",
        StallKind::LockWaits => "Sessions waited for locks",
        StallKind::Asked => "What was watched for happened",
        StallKind::ServerGone => "The server was gone",
        StallKind::Restarted => "The server was restarted",
    }
}

/// `1.4 s`, or `more than 10 min` where nobody saw the end.
pub(crate) fn lasted(span: Span, is_over: bool) -> String {
    let length = number::duration(span.seconds());
    if is_over { length } else { format!("more than {length}") }
}

/// `2026-07-01 09:30:12.4 UTC`
pub(crate) fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S%.1f UTC").to_string().replace(".0 UTC", " UTC")
}

/// `09:30:12.4 UTC`
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%H:%M:%S%.1f UTC").to_string().replace(".0 UTC", " UTC")
}

impl Incident {
    /// What it is called: `Commits stopped for 1.4 s`.
    pub(crate) fn title(&self) -> String {
        let lasted = lasted(self.scope.stall, self.scope.is_over);
        match &self.event {
            Some(event) if !self.scope.is_asked && event.head.stall.kind == StallKind::Restarted => {
                format!("{}, without an answer for {lasted}", kind_told(event.head.stall.kind))
            }
            Some(event) if !self.scope.is_asked => {
                format!("{} for {lasted}", kind_told(event.head.stall.kind))
            }
            Some(_) => match self.events.len() {
                1 => format!("1 event in {lasted}"),
                count => format!("{count} events in {lasted}"),
            },
            None => format!("{lasted} without an event"),
        }
    }

    /// What happened, in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let when = day_and_time(self.scope.stall.from);
        let Some(event) = &self.event else {
            return match self.cause() {
                Some((cause, headline)) => {
                    format!("From {when} on the recorder saw no stall; its samples show {cause}: {headline}.")
                }
                None => format!("From {when} on the recorder saw no stall, and its samples show no cause."),
            };
        };
        let head = &event.head;
        let mut told = match self.scope.is_asked {
            true => format!("The worst began at {}: ", day_and_time(head.began)),
            false => format!("At {when}: "),
        };
        told.push_str(if head.stall.because.is_empty() {
            kind_told(head.stall.kind)
        } else {
            &head.stall.because
        });
        match self.cause() {
            Some((_, headline)) => format!("{told}. {headline}."),
            None if head.stall.kind.is_restart() => format!("{told}."),
            None => format!("{told}. No cause was found."),
        }
    }

    /// The first cause and its headline, as the event or else the diagnosis has them.
    pub(crate) fn cause(&self) -> Option<(&str, &str)> {
        let of_diagnosis = || {
            let first = self.diagnosis.as_ref()?.findings.first()?;
            Some((first.cause.as_str(), first.headline.as_str()))
        };
        of_diagnosis().or_else(|| {
            let head = &self.event.as_ref()?.head;
            Some((head.cause.as_deref()?, head.headline.as_str()))
        })
    }
}

/// How long an event lasted, where its end was seen.
pub(crate) fn event_lasted(head: &EventHead) -> String {
    match head.ended {
        Some(ended) => number::duration(Span::new(head.began, ended).seconds()),
        None => "its end was not seen".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::sample;

    #[test]
    fn one_sentence_says_when_what_and_why() {
        let incident = sample::pileup();
        assert_eq!(incident.title(), "Commits stopped for 3.1 s");
        assert_eq!(
            incident.sentence(),
            "At 2026-07-01 09:30:00.2 UTC: no commit for 1.1 s while 212 threads run. 201 connections wait for ALTER \
             TABLE on sbtest.sbtest1, which waits for an idle transaction of 61 s."
        );
    }

    #[test]
    fn an_end_that_nobody_saw_is_not_made_up() {
        let mut incident = sample::pileup();
        incident.scope.is_over = false;
        assert_eq!(incident.title(), "Commits stopped for more than 3.1 s");
        let head = EventHead::default();
        assert_eq!(event_lasted(&head), "its end was not seen");
    }

    #[test]
    fn a_stretch_without_an_event_says_so() {
        let incident = sample::calm();
        assert_eq!(incident.title(), "20 s without an event");
        assert!(incident.sentence().contains("saw no stall"), "{}", incident.sentence());
    }
}
