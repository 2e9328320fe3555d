//! An incident in sentences: the same words on the page, in the terminal and in JSON.

use spindoctor_model::{Event, StallKind};

use super::view::Incident;
use crate::common::stalls::day_and_time;
use spindoctor_page::number;
use spindoctor_record::span::Span;

/// `1.4 s`, or `more than 10 min` where nobody saw the end.
pub fn lasted(span: Span, is_over: bool) -> String {
    let length = number::duration(span.seconds());
    if is_over { length } else { format!("more than {length}") }
}

impl Incident {
    /// What it is called: `Commits stopped for 1.4 s`.
    pub fn title(&self) -> String {
        let lasted = lasted(self.scope.stall, self.scope.is_over);
        match &self.event {
            Some(event) if !self.scope.is_asked && event.head.stall.kind == StallKind::Restarted => {
                format!("{}, without an answer for {lasted}", event.head.stall.kind.title())
            }
            Some(event) if !self.scope.is_asked && event.head.stall.kind.is_of_an_instant() => {
                event.head.stall.kind.title().to_owned()
            }
            Some(event) if !self.scope.is_asked => {
                format!("{} for {lasted}", event.head.stall.kind.title())
            }
            Some(_) => match self.events.len() {
                1 => format!("1 event in {lasted}"),
                count => format!("{count} events in {lasted}"),
            },
            None => format!("{lasted} without an event"),
        }
    }

    /// What happened, in one sentence.
    pub fn sentence(&self) -> String {
        let when = day_and_time(self.scope.stall.from);
        let Some(event) = &self.event else {
            return match self.cause() {
                Some((cause, headline)) => {
                    format!("From {when} on the recorder saw no stall; its samples show {cause}: {headline}.")
                }
                None => format!("From {when} on the recorder saw no stall, and its samples show no cause."),
            };
        };
        let text = self.stall_sentence(event);
        match self.cause() {
            Some((_, headline)) => format!("{text} {headline}."),
            None if event.head.stall.kind.is_its_own_cause() => text,
            None => format!("{text} No cause was found."),
        }
    }

    /// What was seen of the event, in a sentence that says nothing of its cause.
    fn stall_sentence(&self, event: &Event) -> String {
        let head = &event.head;
        let when = match self.scope.is_asked {
            true => format!("The worst began at {}", day_and_time(head.began)),
            false => format!("At {}", day_and_time(self.scope.stall.from)),
        };
        let seen = match head.stall.because.as_str() {
            "" => head.stall.kind.title(),
            because => because,
        };
        format!("{when}: {seen}.")
    }

    /// [`Incident::sentence`] for where the first finding follows at once: its headline is left to it.
    pub fn sentence_before_finding(&self) -> String {
        match &self.event {
            Some(event) => self.stall_sentence(event),
            None => {
                let when = day_and_time(self.scope.stall.from);
                format!("From {when} on the recorder saw no stall; its samples show a cause.")
            }
        }
    }

    /// The first cause and its headline, as the event or else the diagnosis has them.
    pub fn cause(&self) -> Option<(&str, &str)> {
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

#[cfg(test)]
mod tests {
    use spindoctor_model::EventHead;

    use crate::common::stalls::event_lasted;
    use crate::incident::examples;

    #[test]
    fn one_sentence_says_when_what_and_why() {
        let incident = examples::pileup();
        assert_eq!(incident.title(), "Commits stopped for 3.1 s");
        assert_eq!(
            incident.sentence(),
            "At 2026-07-01 09:30:00.2 UTC: no commit for 1.1 s while 212 threads run. 201 connections wait for ALTER \
             TABLE on sbtest.sbtest1, which waits for an idle transaction of 61 s."
        );
    }

    #[test]
    fn an_end_that_nobody_saw_is_not_made_up() {
        let mut incident = examples::pileup();
        incident.scope.is_over = false;
        assert_eq!(incident.title(), "Commits stopped for more than 3.1 s");
        let head = EventHead::default();
        assert_eq!(event_lasted(&head), "its end was not seen");
    }

    #[test]
    fn a_stretch_without_an_event_says_so() {
        let incident = examples::calm();
        assert_eq!(incident.title(), "20 s without an event");
        assert!(incident.sentence().contains("saw no stall"), "{}", incident.sentence());
    }
}
