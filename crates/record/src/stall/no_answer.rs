//! [`StallKind::NoAnswer`](spindoctor_model::StallKind): a server that answered does so no more.

use spindoctor_model::Probe;

use super::Sight;

/// Watches for answers that do not come. Refused connections are another thing.
#[derive(Debug, Default)]
pub(super) struct NoAnswer {
    has_answered: bool,
    since: Option<Sight>,
}

impl NoAnswer {
    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        if probe.answered || probe.was_refused() {
            self.has_answered |= probe.answered;
            self.since = None;
        } else if self.has_answered && self.since.is_none() {
            let because = format!("the server gave no answer in {:.1} s", probe.took_ms / 1e3);
            self.since = Some(Sight { began_s: probe.at_s, because });
        }
        self.since.clone()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ProbeFailure;

    use super::*;

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
