//! [`StallKind::NoAnswer`](spindoctor_model::StallKind): a server that answered before does not answer any more.

use spindoctor_model::{Probe, ProbeFailure};

use super::Sight;

/// Watches for answers that do not come. Refused connections are another thing, and an error is an answer.
#[derive(Debug, Default)]
pub(super) struct NoAnswer {
    has_answered: bool,
    /// The server closed the connection then. Somebody may have killed it: that alone is no stall, and the next
    /// connection decides.
    closed_s: Option<f64>,
    since: Option<Sight>,
}

impl NoAnswer {
    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        let is_error = probe.failure == Some(ProbeFailure::Error);
        if probe.answered || probe.was_refused() || is_error {
            self.has_answered |= probe.answered;
            (self.closed_s, self.since) = (None, None);
            return None;
        }
        if !self.has_answered || self.since.is_some() {
            return self.since.clone();
        }
        let is_closed = probe.failure == Some(ProbeFailure::Closed);
        let began_s = match self.closed_s {
            None if is_closed => {
                self.closed_s = Some(probe.at_s);
                return None;
            }
            closed_s => closed_s.unwrap_or(probe.at_s),
        };
        let because = match is_closed {
            true => "the server closed the connection, and the next one too".to_owned(),
            false => format!("the server gave no answer in {:.1} s", probe.took_ms / 1e3),
        };
        self.since = Some(Sight { began_s, because });
        self.since.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_was_killed_is_no_stall_and_two_that_were_closed_are() {
        let mut no_answer = NoAnswer::default();
        let probe = |at_s, failure: Option<ProbeFailure>| Probe {
            at_s,
            answered: failure.is_none(),
            failure,
            took_ms: 1.0,
            ..Probe::default()
        };
        let mut look = |at_s, failure| no_answer.look(&probe(at_s, failure)).map(|sight| sight.began_s);
        assert_eq!(look(0.0, None), None);
        assert_eq!(look(1.0, Some(ProbeFailure::Closed)), None);
        assert_eq!(look(1.1, None), None);
        assert_eq!(look(2.0, Some(ProbeFailure::Error)), None, "an error is an answer");
        assert_eq!(look(3.0, Some(ProbeFailure::Closed)), None);
        assert_eq!(look(3.1, Some(ProbeFailure::Closed)), Some(3.0));
        assert_eq!(look(3.2, None), None);
        assert_eq!(look(4.0, Some(ProbeFailure::Closed)), None);
        assert_eq!(look(4.1, Some(ProbeFailure::NoAnswer)), Some(4.0));
    }

    #[test]
    fn it_lasts_from_the_first_question_without_an_answer_to_the_next_answer() {
        let mut no_answer = NoAnswer::default();
        let probe = |at_s, answered| Probe { at_s, answered, took_ms: 1000.0, ..Probe::default() };
        assert_eq!(no_answer.look(&probe(0.0, false)), None, "nobody knows whether it is there at all");
        assert_eq!(no_answer.look(&probe(1.0, true)), None);
        let seen = no_answer.look(&probe(2.0, false)).unwrap();
        assert_eq!((seen.began_s, seen.because.as_str()), (2.0, "the server gave no answer in 1.0 s"));
        assert_eq!(no_answer.look(&probe(3.0, false)).unwrap().began_s, 2.0);
        assert_eq!(no_answer.look(&probe(4.0, true)), None);
        let refused = Probe { failure: Some(ProbeFailure::Refused), ..probe(5.0, false) };
        assert_eq!(no_answer.look(&refused), None);
    }
}
