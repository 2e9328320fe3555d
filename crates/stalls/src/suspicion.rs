//! Decides whether to take a snapshot of stacks and locks at once, before it is certain that there is a stall.
//!
//! A stall of 200 ms is over before it is certain, so the snapshot must be taken before that. Each probe that is far
//! from the usual is a reason for a snapshot; most of these snapshots are thrown away. Snapshots are limited, so each
//! reason has a strength: reasons that noise alone explains must not use up the snapshots for a reason that shows who
//! waits.

use spindoctor_model::Probe;

use super::recent::Recent;
use super::threads_running::{USUAL_QUANTILE, beside};

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 10.0;
/// And from this many probes at least.
const ENOUGH_PROBES: usize = 20;
/// Fewer statements since the probe before than this share of the usual are a reason for a snapshot: noise halves them
/// now and then, and a snapshot costs some milliseconds.
const FEW_RATIO: f64 = 0.5;
/// An interval with fewer statements shows nothing: chance alone halves them.
const LEAST_STATEMENTS: f64 = 10.0;
/// An answer that takes so many times as long as usual is a reason for a snapshot.
const SLOW_TIMES: f64 = 10.0;
/// And no shorter one.
const SLOW_MS: f64 = 30.0;
/// With few statements, so many more threads than the median are waiting threads. Of the 7,194 probes of steady load in
/// `tests/stalls/real` 389 had few statements and no thread more, 26 one more, 24 this many.
const WAIT_BESIDE: f64 = 2.0;

/// How strong the reason for a snapshot at once is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Few statements ended while somebody runs: noise does that now and then.
    Weak,
    /// Waiting threads are seen, or the server blocks the probe itself.
    Strong,
}

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
    /// Why to look at once with this probe, where there is a reason.
    pub fn look(&mut self, probe: &Probe) -> Option<Reason> {
        if !probe.answered {
            self.before = None;
            return (!probe.was_refused()).then_some(Reason::Strong);
        }
        let is_slow = self.answers_ms.len() >= ENOUGH_PROBES
            && probe.took_ms >= SLOW_MS
            && self.answers_ms.median().is_some_and(|usual_ms| probe.took_ms >= SLOW_TIMES * usual_ms);
        self.answers_ms.push(probe.at_s, probe.took_ms);
        let (running, few) = (self.running(probe), self.few(probe));
        if is_slow || running == Running::Crowd {
            return Some(Reason::Strong);
        }
        match running {
            _ if !few => None,
            Running::More => Some(Reason::Strong),
            Running::Some => Some(Reason::Weak),
            // The load went away: nobody waits.
            Running::Usual | Running::Crowd => None,
        }
    }

    /// How many threads run, measured by the last seconds.
    fn running(&mut self, probe: &Probe) -> Running {
        let Some(running) = probe.threads_running.map(|running| running as f64) else { return Running::Some };
        let is_known = self.running.len() >= ENOUGH_PROBES;
        let usual =
            if is_known { self.running.median().zip(self.running.quantile(USUAL_QUANTILE)) } else { None };
        self.running.push(probe.at_s, running);
        match usual {
            None => Running::Some,
            Some((_, most)) if running >= beside(most) => Running::Crowd,
            Some((middle, _)) if running >= middle + WAIT_BESIDE => Running::More,
            Some((middle, _)) if running > middle => Running::Some,
            Some(_) => Running::Usual,
        }
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

/// How many threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    /// As many as usually, or fewer.
    Usual,
    /// One more, or it is not known what is usual.
    Some,
    /// So many more that somebody waits, where few statements end.
    More,
    /// Those who wait pile up.
    Crowd,
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
            assert_eq!(suspicion.look(&answered(tenth, questions, 1.0)), None, "{tenth}");
        }
        (suspicion, 199 * 100 + 10)
    }

    #[test]
    fn one_interval_with_far_fewer_statements_is_a_reason() {
        let (mut suspicion, questions) = busy();
        assert_eq!(suspicion.look(&answered(200, questions + 70, 1.0)), None);
        assert_eq!(suspicion.look(&answered(201, questions + 110, 1.0)), Some(Reason::Weak));
    }

    #[test]
    fn an_answer_that_is_late_or_does_not_come_is_a_reason_and_a_refused_connection_is_none() {
        let (mut suspicion, questions) = busy();
        assert_eq!(suspicion.look(&answered(200, questions + 100, 25.0)), None);
        assert_eq!(suspicion.look(&answered(201, questions + 200, 35.0)), Some(Reason::Strong));
        let silent = Probe { at_s: 20.3, took_ms: 1000.0, ..Probe::default() };
        assert_eq!(suspicion.look(&silent), Some(Reason::Strong));
        let failure = Some(ProbeFailure::TooManyConnections);
        assert_eq!(suspicion.look(&Probe { failure, ..silent }), None);
    }

    /// A probe after ten seconds in which a thread ran, or two: so many statements ended before it, so many threads run.
    fn reason(statements: u64, threads: u64) -> Option<Reason> {
        let (mut suspicion, mut questions) = busy();
        let mut look = |tenth: u32, statements: u64, threads: u64| {
            questions += statements;
            suspicion.look(&Probe { threads_running: Some(threads), ..answered(tenth, questions, 1.0) })
        };
        for tenth in 200..300 {
            assert_eq!(look(tenth, 100, 1 + u64::from(tenth % 3 == 0)), None, "{tenth}");
        }
        look(300, statements, threads)
    }

    #[test]
    fn threads_that_pile_up_are_a_strong_reason_while_statements_still_end() {
        assert_eq!(reason(100, 5), None);
        assert_eq!(reason(100, 6), Some(Reason::Strong));
    }

    #[test]
    fn few_statements_are_a_strong_reason_where_threads_wait_and_none_where_the_load_went_away() {
        assert_eq!(reason(30, 3), Some(Reason::Strong));
        assert_eq!(reason(30, 2), Some(Reason::Weak));
        assert_eq!(reason(30, 1), None);
    }

    #[test]
    fn an_idle_server_gives_no_reason() {
        let mut suspicion = Suspicion::default();
        for tenth in 0..300_u32 {
            let questions = u64::from(tenth / 7) * 3;
            assert_eq!(suspicion.look(&answered(tenth, questions, 0.5)), None, "{tenth}");
        }
    }
}
