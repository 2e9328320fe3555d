//! [`StallKind::ConnectionsFail`](spindoctor_model::StallKind): new connections fail: the probe's own or those of other
//! clients.

use spindoctor_model::{Probe, ProbeFailure, RecordedSample};

use super::Sight;
use super::recent::Recent;

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 600.0;
/// Port scanners and health checks that hang up count as aborted connections: so many more a second than the most of
/// the usual ones, and so many times more, are a failure.
const MORE_PER_S: f64 = 5.0;
const TIMES_MORE: f64 = 3.0;
/// The most of the usual ones: 95 of 100 seconds have fewer.
const USUAL_QUANTILE: f64 = 0.95;
/// Counters are read once per second: after so long without a failure the stall is over.
const OVER_AFTER_S: f64 = 2.5;

/// No room for another connection: the server says so to each.
const REFUSED: [&str; 1] = ["Connection_errors_max_connections"];
/// Connections that failed before the login was complete, for any reason.
const ABORTED: [&str; 1] = ["Aborted_connects"];

/// Watches the server's counters and the probe.
#[derive(Debug)]
pub(super) struct ConnectionsFail {
    before: Option<Counted>,
    aborted: Recent,
    has_answered: bool,
    by_probe: Option<Sight>,
    by_counters: Option<Sight>,
    failed_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    at_s: f64,
    refused: Option<f64>,
    aborted: Option<f64>,
}

impl ConnectionsFail {
    pub(super) fn new() -> Self {
        Self {
            before: None,
            aborted: Recent::over(USUAL_OVER_S),
            has_answered: false,
            by_probe: None,
            by_counters: None,
            failed_s: 0.0,
        }
    }

    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        self.has_answered |= probe.answered;
        // Where nothing listens there is no server that could refuse somebody (`server_gone.rs`).
        let was_refused = probe.was_refused() && probe.failure != Some(ProbeFailure::Refused);
        match (probe.answered, was_refused) {
            (true, _) => self.by_probe = None,
            (false, true) if self.has_answered && self.by_probe.is_none() => {
                let because = "the server refused the probe a connection".to_owned();
                self.by_probe = Some(Sight { began_s: probe.at_s, because });
            }
            (false, _) => {}
        }
        self.sight()
    }

    pub(super) fn count(&mut self, recorded: &RecordedSample) -> Option<Sight> {
        let Some((at_s, status)) = recorded.sample.server.status.timed() else { return self.sight() };
        let sum = |names: &[&str]| names.iter().map(|name| status.number(name)).sum::<Option<f64>>();
        let now = Counted { at_s, refused: sum(&REFUSED), aborted: sum(&ABORTED) };
        if let Some(before) = self.before.replace(now)
            && at_s > before.at_s
        {
            self.judge(before, now);
        }
        self.sight()
    }

    fn judge(&mut self, before: Counted, now: Counted) {
        let seconds = now.at_s - before.at_s;
        let grown = |before: Option<f64>, now: Option<f64>| match (before, now) {
            (Some(before), Some(now)) => (now - before).max(0.0),
            _ => 0.0,
        };
        let refused = grown(before.refused, now.refused);
        let aborted = grown(before.aborted, now.aborted);
        let per_s = aborted / seconds;
        let usual_per_s = self.aborted.quantile(USUAL_QUANTILE).unwrap_or_default();
        let because = if refused > 0.0 {
            Some(format!("{refused:.0} connections refused for want of room in {seconds:.1} s"))
        } else if per_s >= MORE_PER_S + TIMES_MORE * usual_per_s {
            Some(format!("{aborted:.0} connections failed in {seconds:.1} s"))
        } else {
            None
        };
        match because {
            Some(because) => {
                self.failed_s = now.at_s;
                self.by_counters.get_or_insert(Sight { began_s: before.at_s, because });
            }
            None if now.at_s - self.failed_s >= OVER_AFTER_S => self.by_counters = None,
            None => {}
        }
        // What fails now must not be what is usual next: what goes beyond the bound counts as the bound.
        self.aborted.push(now.at_s, per_s.min(MORE_PER_S + usual_per_s));
    }

    fn sight(&self) -> Option<Sight> {
        self.by_probe.clone().or_else(|| self.by_counters.clone())
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::NamedValues;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    fn sample(at_s: f64, aborted: u32, refused: u32) -> RecordedSample {
        let value = NamedValues::from_iter([
            ("Aborted_connects", aborted.to_string()),
            ("Connection_errors_max_connections", refused.to_string()),
        ]);
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        RecordedSample { sample, ..RecordedSample::default() }
    }

    #[test]
    fn a_refused_connection_is_a_stall_and_begins_with_the_sample_before() {
        let mut fail = ConnectionsFail::new();
        assert_eq!(fail.count(&sample(0.0, 7, 3)), None, "what came before is not known");
        assert_eq!(fail.count(&sample(1.0, 7, 3)), None);
        let seen = fail.count(&sample(2.0, 9, 5)).unwrap();
        assert_eq!(
            (seen.began_s, seen.because.as_str()),
            (1.0, "2 connections refused for want of room in 1.0 s")
        );
        assert!(fail.count(&sample(4.0, 9, 5)).is_some());
        assert_eq!(fail.count(&sample(5.0, 9, 5)), None);
    }

    #[test]
    fn health_checks_that_hang_up_are_usual_and_a_storm_of_them_is_not() {
        let mut fail = ConnectionsFail::new();
        for second in 0..100 {
            assert_eq!(fail.count(&sample(f64::from(second), second * 3, 0)), None, "{second}");
        }
        assert!(fail.count(&sample(100.0, 297 + 60, 0)).is_some());
    }

    #[test]
    fn a_probe_that_is_refused_after_it_was_answered_is_a_stall() {
        let mut fail = ConnectionsFail::new();
        let refused =
            |at_s| Probe { at_s, failure: Some(ProbeFailure::TooManyConnections), ..Probe::default() };
        assert_eq!(fail.look(&refused(0.0)), None);
        assert_eq!(fail.look(&Probe { at_s: 1.0, answered: true, ..Probe::default() }), None);
        assert_eq!(fail.look(&refused(2.0)).unwrap().began_s, 2.0);
        assert_eq!(fail.look(&refused(2.1)).unwrap().began_s, 2.0);
        assert_eq!(fail.look(&Probe { at_s: 3.0, answered: true, ..Probe::default() }), None);
        let gone = Probe { at_s: 4.0, failure: Some(ProbeFailure::Refused), ..Probe::default() };
        assert_eq!(fail.look(&gone), None, "a server that is gone refuses nobody");
    }
}
