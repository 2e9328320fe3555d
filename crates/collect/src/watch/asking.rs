//! The server's half of a window: which source is due, what came back, what to do when nothing does.

use std::time::Duration;

use spindoctor_model::{Cost, ServerSample, ServerVersion, Unavailable};
use tokio::time::Instant;

use super::schedule::{Part, Schedule};
use super::{Progress, WatchOptions};
use crate::asking::{Asker, Known};
use crate::mysql::{self, Limits, Session, Target};
use crate::round::{Came, round};

/// A source is asked again only after this many times as long as its last answer took: none has the
/// server busy for more than a tenth of the time, however slow it has become.
const REST: u32 = 10;

/// A source without an answer in time this often is not asked again in the window: each time it
/// costs the session.
const STRIKES: u8 = 2;

/// Who is asked, and what is known about each source.
pub(super) struct Asking<'a> {
    target: &'a Target,
    version: ServerVersion,
    start: Instant,
    /// Where its session broke, a new one is made for the next sample.
    asker: Asker,
    /// What the server said, one for each sample of the window.
    samples: Vec<ServerSample>,
    /// One for each of [`mysql::SOURCES`].
    states: Vec<SourceState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SourceState {
    /// True where the server said that it will never answer.
    given_up: bool,
    strikes: u8,
    /// Not to be asked before this instant.
    rests_until: Option<Instant>,
}

impl SourceState {
    /// What is due at an end of the window is asked though it should rest: without it the window has no growth.
    fn has_turn(&self, part: Part, now: Instant) -> bool {
        let rests = part == Part::Middle && self.rests_until.is_some_and(|until| now < until);
        !(self.given_up || rests)
    }

    /// Keeps what a source's turn says about its next.
    fn note(&mut self, came: &Came) {
        let took = match came {
            Came::NotAsked => return,
            Came::GivenUp(_) => {
                self.given_up = true;
                return;
            }
            Came::NoAnswer(_) => {
                // What broke the session is the server, not the source: it is asked again at once.
                self.strike();
                return;
            }
            Came::Taken(taken) => {
                if !taken.in_time {
                    self.strike();
                }
                taken.took
            }
            Came::Failed(took) => *took,
        };
        self.rests_until = Some(Instant::now() + took * REST);
    }

    fn strike(&mut self) {
        self.strikes += 1;
        self.given_up = self.strikes >= STRIKES;
    }
}

impl<'a> Asking<'a> {
    /// For a window of so many samples.
    pub(super) fn new(
        target: &'a Target,
        version: ServerVersion,
        session: Session,
        start: Instant,
        samples: usize,
    ) -> Self {
        Self {
            target,
            version,
            start,
            asker: Asker::over(session),
            samples: vec![ServerSample::default(); samples],
            states: vec![SourceState::default(); mysql::SOURCES.len()],
        }
    }

    /// Takes every sample of the window that the server lets it take; `taken` is given each with its number.
    pub(super) async fn run(
        &mut self,
        options: &WatchOptions,
        schedule: Schedule,
        progress: &dyn Fn(Progress),
        taken: &dyn Fn(usize, &ServerSample),
    ) {
        let until = self.start + schedule.due(schedule.last()) + self.target.limits.query;
        let mut k = 0;
        loop {
            if options.wait_until(self.start + schedule.due(k)).await {
                k = schedule.last();
            }
            let part = schedule.part(k);
            let had_session = self.asker.has_session();
            self.sample(part, k, until, progress).await;
            taken(k, &self.samples[k]);
            if k == schedule.last() {
                return;
            }
            let next = schedule.next(k, self.start.elapsed());
            if !self.asker.has_session() {
                if had_session {
                    progress(Progress::ServerLost { because: self.asker.lost().to_owned() });
                }
                (k + 1..next).for_each(|k| self.fail_due(Part::Middle, k));
            }
            k = next;
        }
    }

    /// Asks every source that is due, in order, into sample `k`.
    async fn sample(&mut self, part: Part, k: usize, until: Instant, progress: &dyn Fn(Progress)) {
        if !self.asker.has_session() {
            self.reconnect(until, progress).await;
        }
        // The variables are read in the first sample alone.
        let (before, rest) = self.samples.split_at_mut(k);
        let known = Known {
            version: self.version,
            variables: before.first().and_then(|first| first.variables.value()),
            origin: self.start.into_std(),
        };
        let now = Instant::now();
        let has_turn: Vec<bool> = mysql::SOURCES
            .iter()
            .zip(&self.states)
            .map(|(source, state)| part.asks(source.cadence) && state.has_turn(part, now))
            .collect();
        let states = &mut self.states;
        round(&mut self.asker, &has_turn, known, &mut rest[0], |place, came| states[place].note(&came)).await;
        if !self.asker.has_session() {
            self.fail_due(part, k);
        }
    }

    /// One try, no longer than a query may take, and never past `until`: a server that hangs must
    /// not block the window's end.
    async fn reconnect(&mut self, until: Instant, progress: &dyn Fn(Progress)) {
        let limits = self.target.limits;
        let left = until.saturating_duration_since(Instant::now());
        let connect = limits.connect.min(limits.query).min(left);
        if connect.is_zero() {
            return;
        }
        match Session::connect(self.target, &Limits { connect, ..limits }).await {
            Ok(session) => {
                self.asker.renew(session);
                progress(Progress::ServerBack);
            }
            Err(error) => self.asker.still_lost(error.to_string()),
        }
    }

    /// Says in the fields of every source that is due that the session is lost.
    fn fail_due(&mut self, part: Part, k: usize) {
        for (source, state) in mysql::SOURCES.iter().zip(&self.states) {
            if part.asks(source.cadence) && !state.given_up {
                source.fail(Unavailable::because(self.asker.lost()), &mut self.samples[k]);
            }
        }
    }

    /// Says in the last sample what was not answered when the window's patience ended.
    pub(super) fn cut_short(&mut self) {
        self.asker.lose("the server was too slow: the window ended before its answer".to_owned());
        self.fail_due(Part::Last, self.samples.len() - 1);
    }

    /// Closes the session; what the server said for each sample, and what all sessions of the window cost.
    pub(super) async fn finish(self) -> (Vec<ServerSample>, Cost) {
        (self.samples, self.asker.finish().await)
    }

    /// The longest that the server may take beyond the window's end: one that answers slowly gets
    /// its time, one that does not answer at all is given up after a single deadline.
    pub(super) fn patience(limits: &Limits) -> Duration {
        limits.query * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Taken;

    #[test]
    fn the_first_sample_asks_everything_and_those_between_only_what_is_cheap() {
        let due = |part: Part| mysql::SOURCES.iter().filter(|source| part.asks(source.cadence)).count();
        assert_eq!(due(Part::First), mysql::SOURCES.len());
        assert_eq!(due(Part::Last), mysql::SOURCES.len() - 1, "all but the variables");
        assert!(due(Part::Middle) < due(Part::Last));
    }

    #[test]
    fn a_source_rests_ten_times_as_long_as_its_answer_took_but_not_at_the_windows_end() {
        let mut state = SourceState::default();
        let took = Duration::from_millis(200);
        let now = Instant::now();
        state.note(&Came::Taken(Taken { took, rows: 1, in_time: true }));
        let asked =
            |state: &SourceState, part, after_ms| state.has_turn(part, now + Duration::from_millis(after_ms));
        assert!(!asked(&state, Part::Middle, 1_999) && asked(&state, Part::Middle, 3_000));
        assert!(asked(&state, Part::Last, 1_000));
    }

    #[test]
    fn a_source_without_an_answer_twice_is_not_asked_again_and_one_that_fails_is() {
        let mut state = SourceState::default();
        state.note(&Came::Failed(Duration::ZERO));
        state.note(&Came::NoAnswer(Duration::from_secs(2)));
        let now = Instant::now();
        assert!(state.has_turn(Part::Middle, now), "the session is the server's fault: it does not rest");
        let ended = Taken { took: Duration::from_secs(2), rows: 0, in_time: false };
        state.note(&Came::Taken(ended));
        assert!(!state.has_turn(Part::Last, now));
        let mut refused = SourceState::default();
        refused.note(&Came::GivenUp(None));
        assert!(!refused.has_turn(Part::First, now));
    }
}
