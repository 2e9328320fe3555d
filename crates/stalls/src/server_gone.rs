//! [`StallKind::ServerGone`](spindoctor_model::StallKind): nothing listens at the server's address any more. Whether
//! the server was restarted is known when it is back; then the event is one of
//! [`StallKind::Restarted`](spindoctor_model::StallKind).

use spindoctor_model::{Probe, ProbeFailure};

use super::Sight;

/// Watches for a server that answered before and is gone.
#[derive(Debug, Default)]
pub(super) struct ServerGone {
    has_answered: bool,
    /// The connection that stood was closed then: the first that is seen of a server that ends.
    closed_s: Option<f64>,
    since: Option<Sight>,
}

impl ServerGone {
    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        self.has_answered |= probe.answered;
        match probe.failure {
            Some(ProbeFailure::Refused) if self.has_answered => {
                let began_s = self.closed_s.unwrap_or(probe.at_s);
                let because = "the server is gone: nothing listens at its address".to_owned();
                self.since.get_or_insert(Sight { began_s, because });
            }
            Some(ProbeFailure::Closed) => {
                self.closed_s.get_or_insert(probe.at_s);
            }
            _ if probe.answered => (self.closed_s, self.since) = (None, None),
            // It starts, or it hangs while it ends: it is not back yet.
            _ => {}
        }
        self.since.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(at_s: f64, failure: Option<ProbeFailure>) -> Probe {
        Probe { at_s, answered: failure.is_none(), failure, took_ms: 1.0, ..Probe::default() }
    }

    #[test]
    fn a_server_is_gone_from_the_connection_that_it_closed_until_it_answers() {
        let mut gone = ServerGone::default();
        let refused = Some(ProbeFailure::Refused);
        assert_eq!(gone.look(&probe(0.0, refused)), None, "it may never have been there");
        assert_eq!(gone.look(&probe(1.0, None)), None);
        assert_eq!(gone.look(&probe(2.0, Some(ProbeFailure::Closed))), None);
        assert_eq!(gone.look(&probe(2.1, refused)).map(|sight| sight.began_s), Some(2.0));
        assert!(gone.look(&probe(4.0, Some(ProbeFailure::NoAnswer))).is_some());
        assert!(gone.look(&probe(5.0, Some(ProbeFailure::Closed))).is_some());
        assert_eq!(gone.look(&probe(6.0, None)), None);
        assert_eq!(gone.look(&probe(7.0, Some(ProbeFailure::TooManyConnections))), None, "it is full");
    }
}
