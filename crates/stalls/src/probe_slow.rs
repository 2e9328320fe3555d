//! [`StallKind::ProbeSlow`](spindoctor_model::StallKind): the probe's own query takes far longer than usual.

use spindoctor_model::Probe;

use super::Sight;
use super::recent::Recent;

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 300.0;
/// And from this many answers at least: ten seconds.
const ENOUGH_ANSWERS: usize = 100;
/// The question reads some counters in memory: a machine that is shared or full of work blocks it for a tenth of a
/// second now and then, and hardly longer.
const LEAST_MS: f64 = 110.0;
/// Slow answers that are a habit are in the upper 3 %, where a stall every five seconds is not; a stall is so many times
/// slower.
const HABIT_QUANTILE: f64 = 0.97;
const BEYOND_HABIT: f64 = 8.0;

/// Watches how long answers take.
#[derive(Debug)]
pub(super) struct ProbeSlow {
    answers_ms: Recent,
    habit_ms: Option<f64>,
    computed_s: f64,
}

/// The usual value is computed again this often.
const HABIT_EVERY_S: f64 = 1.0;

impl ProbeSlow {
    pub(super) fn new() -> Self {
        Self { answers_ms: Recent::over(USUAL_OVER_S), habit_ms: None, computed_s: f64::NEG_INFINITY }
    }

    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        if !probe.answered {
            return None;
        }
        let bound_ms = self.habit_ms.map_or(f64::INFINITY, |habit_ms| LEAST_MS.max(BEYOND_HABIT * habit_ms));
        let sight = (probe.took_ms >= bound_ms).then(|| Sight {
            began_s: probe.at_s,
            because: format!(
                "the probe waited {:.0} ms for its answer; 97 of 100 take {:.1} ms at most",
                probe.took_ms,
                self.habit_ms.unwrap_or_default()
            ),
        });
        self.answers_ms.push(probe.at_s, probe.took_ms);
        if self.answers_ms.len() >= ENOUGH_ANSWERS && probe.at_s - self.computed_s >= HABIT_EVERY_S {
            self.habit_ms = self.answers_ms.quantile(HABIT_QUANTILE);
            self.computed_s = probe.at_s;
        }
        sight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(at_s: f64, took_ms: f64) -> Probe {
        Probe { at_s, took_ms, answered: true, ..Probe::default() }
    }

    #[test]
    fn an_answer_that_takes_far_longer_than_all_others_is_a_stall() {
        let mut slow = ProbeSlow::new();
        for tenth in 0..200 {
            assert_eq!(slow.look(&answer(f64::from(tenth) / 10.0, 1.0 + f64::from(tenth % 7))), None);
        }
        assert_eq!(slow.look(&answer(20.0, 105.0)), None);
        let seen = slow.look(&answer(20.3, 400.0)).unwrap();
        assert_eq!(seen.began_s, 20.3);
        assert!(seen.because.starts_with("the probe waited 400 ms"), "{}", seen.because);
    }

    #[test]
    fn a_server_that_is_always_slow_does_not_stall_all_the_time() {
        let mut slow = ProbeSlow::new();
        for tenth in 0..2000 {
            let took_ms = if tenth % 50 == 0 { 300.0 } else { 40.0 };
            let seen = slow.look(&answer(f64::from(tenth) / 10.0, took_ms));
            assert_eq!(seen, None, "{tenth}");
        }
    }
}
