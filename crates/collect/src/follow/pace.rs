//! How often a source is asked, and how it slows itself down where its answers become expensive. Pure.
//!
//! In: the seconds of the grid, and what each answer took. Out: whether the source is due, and a [`PaceChange`] where it
//! is to be asked less often from now on, or as often as before again.

use crate::pace::{Pace, Period};
use crate::round::Taken;

/// So many expensive answers in a row slow a source down: one may have met a busy moment.
const EXPENSIVE_IN_A_ROW: u8 = 2;

/// So many cheap answers in a row speed it up again: far more, so that it does not swing to and fro.
const CHEAP_IN_A_ROW: u8 = 10;

/// An answer is cheap below this part of the bounds: one that is just below would be expensive again when asked more
/// often.
const CHEAP_RATIO: f64 = 0.5;

/// So many questions in a row without an answer in time are the source's fault: what hangs once may be the server.
const MISSED_IN_A_ROW: u8 = 2;

/// A source over which each session is lost rests no longer than this, seconds. The server's thread stays with such a
/// question until it can answer, and its connection too: at six an hour they fill the 151 of both servers' defaults in a day.
const LONGEST_REST_S: u32 = 600;

/// From now on a source is asked more or less often.
#[derive(Debug, Clone, PartialEq)]
pub struct PaceChange {
    /// The source's name.
    pub source: &'static str,
    /// Why, in one clause; none where it is cheap again.
    pub because: Option<String>,
    /// Seconds from one question to the next, from now on.
    pub period_s: u32,
}

/// A source, and when it is due.
#[derive(Debug, Clone)]
pub(super) struct Paced {
    name: &'static str,
    pace: Pace,
    /// 0 where it is asked once, or with another.
    period_s: u32,
    /// The second of the grid from which on it is due; none where it is never due by itself.
    next: Option<u64>,
    /// Puts its turns beside those of others with the same period.
    offset: u32,
    asked_before: bool,
    expensive: u8,
    cheap: u8,
    missed: u8,
    /// It missed its deadlines, and has not answered since.
    is_silent: bool,
    /// So many questions in a row had no answer at all: each cost a session.
    unanswered: u32,
}

impl Paced {
    /// A source that is due at once; `place` distinguishes it from others of the same period.
    pub(super) fn new(name: &'static str, pace: Pace, place: usize) -> Self {
        let period_s = match pace.period {
            Period::Every(seconds) => seconds.max(1),
            Period::With(_) | Period::Once | Period::Never => 0,
        };
        let offset = if period_s == 0 { 0 } else { u32::try_from(place).unwrap_or(0) % period_s };
        let mut paced = Self {
            name,
            pace,
            period_s,
            next: None,
            offset,
            asked_before: false,
            expensive: 0,
            cheap: 0,
            missed: 0,
            is_silent: false,
            unanswered: 0,
        };
        paced.begin(0);
        paced
    }

    /// A segment begins: what it is to hold is due at once.
    pub(super) fn begin(&mut self, second: u64) {
        self.next = match self.pace.period {
            Period::Every(_) | Period::Once => Some(second),
            Period::With(_) | Period::Never => None,
        };
    }

    /// `is_hurry`: while a stall is looked at.
    pub(super) fn is_due(&self, second: u64, is_hurry: bool) -> bool {
        let usual = match self.pace.period {
            Period::Every(usual_s) if is_hurry && self.pace.hurries && !self.is_silent => {
                u64::from(usual_s.max(1))
            }
            _ => u64::from(self.period_s),
        };
        let sooner = u64::from(self.period_s).saturating_sub(usual);
        self.next.is_some_and(|next| next <= second + sooner)
    }

    /// The source that it goes with.
    pub(super) fn goes_with(&self) -> Option<&'static str> {
        match self.pace.period {
            Period::With(other) => Some(other),
            Period::Every(_) | Period::Once | Period::Never => None,
        }
    }

    /// The source that has the same content.
    pub(super) fn instead_of(&self) -> Option<&'static str> {
        self.pace.instead_of
    }

    /// It has had its turn, whatever came of it.
    pub(super) fn had_turn(&mut self, second: u64) {
        self.next = match self.pace.period {
            Period::Every(_) => {
                // In the first sample everything is asked; from then on not all at once.
                let wait = if self.asked_before || self.offset == 0 { self.period_s } else { self.offset };
                Some(second + u64::from(wait))
            }
            Period::With(_) | Period::Once | Period::Never => None,
        };
        self.asked_before = true;
    }

    /// It had no answer, and its session is lost over it. For how long it is to rest, seconds, where that is so again and
    /// again: each time twice as long, so that what was over soon is known soon.
    pub(super) fn had_no_answer(&mut self) -> Option<u32> {
        self.unanswered = self.unanswered.saturating_add(1);
        let again = self.unanswered.checked_sub(u32::from(MISSED_IN_A_ROW))?;
        let first_s = self.pace.longest_s.max(1);
        Some(first_s.saturating_mul(2_u32.saturating_pow(again)).min(LONGEST_REST_S))
    }

    /// How many questions in a row had no answer.
    pub(super) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// True where sessions are lost over it: it rests.
    pub(super) fn rests(&self) -> bool {
        self.unanswered >= u32::from(MISSED_IN_A_ROW)
    }

    /// The server said something to it, or it is another server.
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// What its answer took of a server with so many sessions, or that the server ended the question at its limit. In a hurry
    /// only the latter slows it down, where it hurries.
    pub(super) fn took(&mut self, taken: Taken, sessions: usize, is_hurry: bool) -> Option<PaceChange> {
        self.answered();
        if !matches!(self.pace.period, Period::Every(_)) {
            return None;
        }
        if !taken.in_time {
            self.missed += 1;
            if self.missed < MISSED_IN_A_ROW {
                return None;
            }
            (self.missed, self.is_silent) = (0, true);
            let because = format!("it had no answer in {:.1} s, twice", taken.took.as_secs_f64());
            return self.change(self.pace.longest_s, Some(because));
        }
        (self.missed, self.is_silent) = (0, false);
        if is_hurry && self.pace.hurries {
            return None;
        }
        let took_ms = taken.took.as_secs_f64() * 1e3;
        let Pace { expensive_ms, rows_per_s, sessions_per_s, .. } = self.pace;
        let most_rows = rows_per_s.saturating_mul(self.period_s as usize);
        let most_sessions = sessions_per_s.saturating_mul(self.period_s as usize);
        let because = if took_ms > expensive_ms {
            format!("its answer takes {took_ms:.0} ms, more than {expensive_ms:.0} ms")
        } else if taken.rows > most_rows {
            format!("its answer has {} rows, more than {most_rows}", taken.rows)
        } else if sessions > most_sessions {
            format!("the server adds up {sessions} sessions for it, more than {most_sessions}")
        } else {
            self.expensive = 0;
            let is_cheap = took_ms < expensive_ms * CHEAP_RATIO
                && (taken.rows as f64) < most_rows as f64 * CHEAP_RATIO
                && (sessions as f64) < most_sessions as f64 * CHEAP_RATIO;
            self.cheap = if is_cheap { self.cheap.saturating_add(1) } else { 0 };
            if self.cheap < CHEAP_IN_A_ROW {
                return None;
            }
            self.cheap = 0;
            return self.change(self.period_s / 2, None);
        };
        (self.cheap, self.expensive) = (0, self.expensive + 1);
        if self.expensive < EXPENSIVE_IN_A_ROW {
            return None;
        }
        self.expensive = 0;
        self.change(self.period_s.saturating_mul(2), Some(because))
    }

    fn change(&mut self, period_s: u32, because: Option<String>) -> Option<PaceChange> {
        let Period::Every(usual_s) = self.pace.period else { return None };
        let usual_s = usual_s.max(1);
        let before_s = self.period_s;
        self.period_s = period_s.clamp(usual_s, self.pace.longest_s.max(usual_s));
        // Its next turn was set by the period of before.
        self.next =
            self.next.map(|next| (next + u64::from(self.period_s)).saturating_sub(u64::from(before_s)));
        (self.period_s != before_s).then_some(PaceChange {
            source: self.name,
            because,
            period_s: self.period_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PACE: Pace = Pace {
        period: Period::Every(2),
        expensive_ms: 20.0,
        rows_per_s: 500,
        sessions_per_s: usize::MAX,
        longest_s: 15,
        instead_of: None,
        hurries: false,
    };

    /// Those of a server for a source that does not add them up.
    const SESSIONS: usize = 1_000;

    fn answer(ms: u64, rows: usize) -> Taken {
        Taken { took: Duration::from_millis(ms), rows, in_time: true }
    }

    /// At which of the first seconds it is asked, where each answer is `taken`.
    fn turns(paced: &mut Paced, until: u64, taken: Taken) -> Vec<u64> {
        let mut turns = Vec::new();
        for second in 0..until {
            if paced.is_due(second, false) {
                paced.had_turn(second);
                paced.took(taken, SESSIONS, false);
                turns.push(second);
            }
        }
        turns
    }

    #[test]
    fn everything_is_asked_at_first_and_then_at_the_sources_own_periods_side_by_side() {
        let of_place = |place| turns(&mut Paced::new("SHOW X", PACE, place), 9, answer(1, 1));
        assert_eq!(of_place(0), [0, 2, 4, 6, 8]);
        assert_eq!(of_place(1), [0, 1, 3, 5, 7]);
        let each_second = Pace { period: Period::Every(1), ..PACE };
        assert_eq!(turns(&mut Paced::new("SHOW X", each_second, 7), 4, answer(1, 1)), [0, 1, 2, 3]);
        let once = Pace { period: Period::Once, ..PACE };
        assert_eq!(turns(&mut Paced::new("SHOW X", once, 0), 100, answer(1, 1)), [0]);
        for period in [Period::With("SHOW Y"), Period::Never] {
            let by_itself = Pace { period, ..PACE };
            assert!(turns(&mut Paced::new("SHOW X", by_itself, 0), 100, answer(1, 1)).is_empty());
        }
    }

    #[test]
    fn a_second_that_was_missed_is_made_up_for_once_and_shifts_the_next_turn() {
        let mut paced = Paced::new("SHOW X", PACE, 0);
        paced.had_turn(0);
        assert!(!paced.is_due(1, false) && paced.is_due(2, false) && paced.is_due(7, false));
        paced.had_turn(7);
        assert!(!paced.is_due(8, false) && paced.is_due(9, false));
    }

    #[test]
    fn a_segment_asks_everything_again() {
        let once = Pace { period: Period::Once, ..PACE };
        let mut paced = [Paced::new("SHOW X", PACE, 0), Paced::new("SHOW X", once, 0)];
        for one in &mut paced {
            one.had_turn(0);
            assert!(!one.is_due(1, false));
            one.begin(1);
            assert!(one.is_due(1, false));
        }
    }

    #[test]
    fn expensive_answers_double_the_period_up_to_the_longest_and_cheap_ones_halve_it_down_to_the_usual() {
        let mut paced = Paced::new("SHOW X", PACE, 0);
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.extend(paced.took(answer(25, 10), SESSIONS, false));
        }
        assert_eq!(seen.iter().map(|change| change.period_s).collect::<Vec<_>>(), [4, 8, 15]);
        assert_eq!(seen[0].because.as_deref(), Some("its answer takes 25 ms, more than 20 ms"));
        seen.clear();
        for _ in 0..100 {
            seen.extend(paced.took(answer(5, 10), SESSIONS, false));
        }
        let changes: Vec<_> = seen.iter().map(|change| (change.period_s, change.because.is_none())).collect();
        assert_eq!(changes, [(7, true), (3, true), (2, true)]);
    }

    #[test]
    fn rows_count_as_time_does_and_one_expensive_answer_among_cheap_ones_does_not() {
        let mut paced = Paced::new("SHOW X", PACE, 0);
        for _ in 0..20 {
            assert_eq!(paced.took(answer(500, 1), SESSIONS, false), None);
            assert_eq!(paced.took(answer(1, 1), SESSIONS, false), None);
        }
        assert_eq!(paced.took(answer(1, 2000), SESSIONS, false), None);
        let change = paced.took(answer(1, 2000), SESSIONS, false).unwrap();
        assert_eq!(change.because.as_deref(), Some("its answer has 2000 rows, more than 1000"));
        assert_eq!(change.period_s, 4);
        // Neither expensive nor cheap: it stays where it is.
        for _ in 0..50 {
            assert_eq!(paced.took(answer(15, 900), SESSIONS, false), None);
        }
    }

    #[test]
    fn a_source_for_which_thousands_of_sessions_are_added_up_is_asked_so_often_that_its_cost_stays_the_same()
    {
        let adds_up = Pace { period: Period::Every(1), sessions_per_s: 2_000, longest_s: 4, ..PACE };
        let period_s = |sessions| {
            let mut paced = Paced::new("SHOW X", adds_up, 0);
            let changes: Vec<PaceChange> =
                (0..20).filter_map(|_| paced.took(answer(1, 1), sessions, false)).collect();
            (
                changes.last().map(|change| change.period_s),
                changes.into_iter().find_map(|change| change.because),
            )
        };
        assert_eq!(period_s(1_000), (None, None));
        let because = "the server adds up 5000 sessions for it, more than 2000";
        assert_eq!(period_s(5_000), (Some(4), Some(because.to_owned())));
        assert_eq!(period_s(4_000).0, Some(2));
        assert_eq!(period_s(100_000).0, Some(4), "no longer than it may");
        let mut paced = Paced::new("SHOW X", Pace { hurries: true, ..adds_up }, 0);
        assert!((0..20).all(|_| paced.took(answer(1, 1), 5_000, true).is_none()), "in a stall every second");
    }

    #[test]
    fn a_source_that_never_answers_in_time_is_asked_as_rarely_as_can_be_and_a_server_that_hung_once_is_no_reason()
     {
        let missed = Taken { took: Duration::from_secs(2), rows: 0, in_time: false };
        let mut paced = Paced::new("SHOW X", PACE, 0);
        assert_eq!(paced.took(missed, SESSIONS, false), None);
        assert_eq!(paced.took(answer(1, 1), SESSIONS, false), None);
        assert_eq!(paced.took(missed, SESSIONS, false), None);
        let change = paced.took(missed, SESSIONS, false).unwrap();
        assert_eq!(
            (change.period_s, change.because.as_deref()),
            (15, Some("it had no answer in 2.0 s, twice"))
        );
    }

    #[test]
    fn a_source_over_which_sessions_are_lost_rests_longer_each_time_until_it_answers() {
        let mut paced = Paced::new("SHOW X", PACE, 0);
        let mut rests = Vec::new();
        for _ in 0..9 {
            rests.extend(paced.had_no_answer());
            assert_eq!(paced.rests(), !rests.is_empty());
        }
        assert_eq!(rests, [15, 30, 60, 120, 240, 480, 600, 600]);
        assert_eq!(paced.unanswered(), 9);
        paced.took(answer(1, 1), SESSIONS, false);
        assert!(!paced.rests());
        assert_eq!(paced.had_no_answer(), None, "what hangs once may be the server");
        // The server ended it at its limit: that is an answer.
        paced.took(Taken { in_time: false, ..answer(1500, 0) }, SESSIONS, false);
        assert_eq!(paced.had_no_answer(), None);
    }

    #[test]
    fn a_source_that_hangs_for_half_a_day_does_not_take_the_server_its_connections() {
        for (name, pace) in crate::follow::paces() {
            let mut paced = Paced::new(name, pace, 0);
            // Each question takes its deadline of 2 s, and the next a new session.
            let (mut second, mut sessions) = (0, 0);
            while second < 43_200 {
                second += 3 + paced.had_no_answer().unwrap_or(0);
                sessions += 1;
            }
            assert!(sessions < 100, "{name}: {sessions}");
        }
    }

    #[test]
    fn a_period_that_changes_counts_from_the_turn_that_showed_why() {
        let mut paced = Paced::new("SHOW X", PACE, 0);
        for second in [0, 2] {
            assert!(paced.is_due(second, false));
            paced.had_turn(second);
            paced.took(answer(25, 10), SESSIONS, false);
        }
        assert!(!paced.is_due(5, false) && paced.is_due(6, false));
    }

    #[test]
    fn in_a_hurry_an_expensive_source_that_hurries_is_asked_as_usual_until_it_is_silent() {
        let hurries = Pace { period: Period::Every(1), hurries: true, ..PACE };
        let missed = Taken { took: Duration::from_secs(2), rows: 0, in_time: false };
        for (pace, at_once) in [(hurries, true), (Pace { hurries: false, ..hurries }, false)] {
            let mut paced = Paced::new("SHOW X", pace, 0);
            for second in [0, 1, 3, 7] {
                paced.had_turn(second);
                paced.took(answer(25, 10), SESSIONS, false);
                paced.took(answer(25, 10), SESSIONS, false);
            }
            assert!(!paced.is_due(8, false));
            assert_eq!(paced.is_due(8, true), at_once);
            assert_eq!(paced.took(missed, SESSIONS, true), None);
            paced.took(missed, SESSIONS, true);
            assert!(!paced.is_due(8, true));
        }
    }
}
