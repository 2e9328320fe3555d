//! Whether to look at stacks and locks at once, before anybody knows whether it is a stall.
//!
//! A stall of 200 ms is over when it is certain: what it was like must have been looked at before. So each probe that is
//! far from the usual is a reason to look; most of these looks are thrown away.

use spindoctor_model::Probe;

use super::recent::Recent;
use super::threads_running::{USUAL_QUANTILE, beside};

/// What is usual is told from this long.
const USUAL_OVER_S: f64 = 10.0;
/// And from this many probes at least.
const ENOUGH_PROBES: usize = 20;
/// Fewer statements since the probe before than this share of the usual are a reason to look: noise halves them now and
/// then, and a look costs some milliseconds.
const FEW_RATIO: f64 = 0.5;
/// An interval with fewer statements tells nothing: chance alone halves them.
const LEAST_STATEMENTS: f64 = 10.0;
/// An answer that takes so many times as long as usual is a reason to look.
const SLOW_TIMES: f64 = 10.0;
/// And no shorter one.
const SLOW_MS: f64 = 30.0;

/// Watches probes.
#[derive(Debug)]
pub struct Suspicion {
    before: Option<(f64, u64)>,
    statements_per_s: Recent,
    answers_ms: Recent,
    running: Recent,
}

impl Default for Suspicion {
    fn default() -> Self {
        Self {
            before: None,
            statements_per_s: Recent::over(USUAL_OVER_S),
            answers_ms: Recent::over(USUAL_OVER_S),
            running: Recent::over(USUAL_OVER_S),
        }
    }
}

impl Suspicion {
    /// True where this probe is a reason to look at once.
    pub fn look(&mut self, probe: &Probe) -> bool {
        if !probe.answered {
            self.before = None;
            return !probe.was_refused();
        }
        let is_slow = self.answers_ms.len() >= ENOUGH_PROBES
            && probe.took_ms >= SLOW_MS
            && self.answers_ms.median().is_some_and(|usual_ms| probe.took_ms >= SLOW_TIMES * usual_ms);
        self.answers_ms.push(probe.at_s, probe.took_ms);
        let is_crowd = self.crowd(probe);
        self.few(probe) || is_slow || is_crowd
    }

    /// True where those who wait have begun to pile up.
    fn crowd(&mut self, probe: &Probe) -> bool {
        let Some(running) = probe.threads_running.map(|running| running as f64) else { return false };
        let usual =
            (self.running.len() >= ENOUGH_PROBES).then(|| self.running.quantile(USUAL_QUANTILE)).flatten();
        self.running.push(probe.at_s, running);
        usual.is_some_and(|usual| running >= beside(usual))
    }

    fn few(&mut self, probe: &Probe) -> bool {
        let Some(questions) = probe.questions else { return false };
        let Some((before_s, before)) = self.before.replace((probe.at_s, questions)) else { return false };
        let (seconds, Some(grown)) = (probe.at_s - before_s, questions.checked_sub(before)) else {
            return false;
        };
        if seconds <= 0.0 {
            return false;
        }
        let per_s = grown as f64 / seconds;
        let usual = self.statements_per_s.median();
        let is_known = self.statements_per_s.len() >= ENOUGH_PROBES;
        self.statements_per_s.push(probe.at_s, per_s);
        is_known
            && usual.is_some_and(|usual| usual * seconds >= LEAST_STATEMENTS && per_s < FEW_RATIO * usual)
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ProbeFailure;

    use super::*;

    fn answered(tenth: u32, questions: u64, took_ms: f64) -> Probe {
        let at_s = f64::from(tenth) / 10.0;
        Probe { at_s, took_ms, answered: true, questions: Some(questions), ..Probe::default() }
    }

    /// Twenty seconds of a hundred statements a probe.
    fn busy() -> (Suspicion, u64) {
        let mut suspicion = Suspicion::default();
        for tenth in 0..200_u32 {
            let questions = u64::from(tenth) * 100 + u64::from(tenth % 3) * 10;
            assert!(!suspicion.look(&answered(tenth, questions, 1.0)), "{tenth}");
        }
        (suspicion, 199 * 100 + 10)
    }

    #[test]
    fn one_interval_with_far_fewer_statements_is_a_reason() {
        let (mut suspicion, questions) = busy();
        assert!(!suspicion.look(&answered(200, questions + 70, 1.0)));
        assert!(suspicion.look(&answered(201, questions + 110, 1.0)));
    }

    #[test]
    fn an_answer_that_is_late_or_does_not_come_is_a_reason_and_a_refused_connection_is_none() {
        let (mut suspicion, questions) = busy();
        assert!(!suspicion.look(&answered(200, questions + 100, 25.0)));
        assert!(suspicion.look(&answered(201, questions + 200, 35.0)));
        let silent = Probe { at_s: 20.3, took_ms: 1000.0, ..Probe::default() };
        assert!(suspicion.look(&silent));
        let failure = Some(ProbeFailure::TooManyConnections);
        assert!(!suspicion.look(&Probe { failure, ..silent }));
    }

    #[test]
    fn threads_that_pile_up_are_a_reason_while_statements_still_end() {
        let (mut suspicion, questions) = busy();
        let running = |tenth: u32, threads: u64| Probe {
            threads_running: Some(threads),
            ..answered(tenth, questions + u64::from(tenth - 199) * 100, 1.0)
        };
        for tenth in 200..300 {
            assert!(!suspicion.look(&running(tenth, u64::from(tenth % 4))), "{tenth}");
        }
        assert!(!suspicion.look(&running(300, 6)));
        assert!(suspicion.look(&running(301, 8)));
    }

    #[test]
    fn an_idle_server_gives_no_reason() {
        let mut suspicion = Suspicion::default();
        for tenth in 0..300_u32 {
            let questions = u64::from(tenth / 7) * 3;
            assert!(!suspicion.look(&answered(tenth, questions, 0.5)), "{tenth}");
        }
    }
}
