//! How long spindoctor's own questions waited for their answers.
//!
//! Its session is a client like any other, and the one whose waits are known for certain. Where a server lets its questions through
//! in its good moments only, as a starved thread pool does, what the answers say is of these moments, and how long they took is
//! what says that there are others.

use std::collections::BTreeMap;

use spindoctor_model::median::median;
use spindoctor_model::{Outcome, Sample, Window};

/// An answer that took so long was waited for, seconds. The dearest source takes some ten milliseconds of work; in recorded windows
/// of servers on two CPUs that builds were busy with, one answer in ten windows took 0.5 to 0.8 s.
const LATE_S: f64 = 1.0;

/// Answers to one kind of question from which on their median is one. Chosen.
const OFTEN: usize = 3;

/// Answers of a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct OwnAnswers {
    /// Questions that were asked.
    pub(crate) asked: usize,
    /// Of these, those that took [`LATE_S`] or had no answer.
    pub(crate) late: usize,
    /// The longest, seconds.
    pub(crate) longest_s: f64,
    /// Half of the answers to the quickest kind of question took so long or longer, seconds; 0 where no kind was asked
    /// [`OFTEN`]. A question that is long work for the server takes its time where nobody waits; the quickest one does not.
    pub(crate) quickest_s: f64,
    /// Share of the window in which a late answer was waited for, 0 to 1.
    pub(crate) late_share: f64,
}

impl OwnAnswers {
    pub(crate) fn from_window(window: &Window) -> Self {
        Self::from_samples(window.samples.iter(), window.seconds())
    }

    /// The same of some samples of a window of that length.
    pub(crate) fn from_samples<'w>(samples: impl Iterator<Item = &'w Sample>, seconds: f64) -> Self {
        let mut by_kind: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (about, reading) in samples.flat_map(|sample| sample.server.readings()) {
            if let Some(took_s) = took_s(reading.outcome()) {
                by_kind.entry(about.name).or_default().push(took_s);
            }
        }
        let took_s: Vec<f64> = by_kind.values().flatten().copied().collect();
        let often = by_kind.values().filter(|took_s| took_s.len() >= OFTEN);
        let usual_s = often.filter_map(|took_s| median(took_s.iter().copied()));
        let late = || took_s.iter().copied().filter(|took_s| *took_s >= LATE_S);
        let late_s: f64 = late().sum();
        Self {
            asked: took_s.len(),
            late: late().count(),
            longest_s: took_s.iter().copied().fold(0.0, f64::max),
            quickest_s: usual_s.reduce(f64::min).unwrap_or(0.0),
            late_share: if late_s > 0.0 { (late_s / seconds.max(late_s)).min(1.0) } else { 0.0 },
        }
    }
}

/// Errors with which the server refused statements of spindoctor's own: number and message.
pub(crate) fn errors(window: &Window) -> impl Iterator<Item = (u32, &str)> {
    let readings = window.samples.iter().flat_map(|sample| sample.server.readings());
    readings.filter_map(|(_, reading)| error(reading.outcome()))
}

/// `the server answered with error 1114: The table '/tmp/#sql_84e_2' is full`, as `collect` says it of an error that it has no word for.
fn error(outcome: Outcome<'_>) -> Option<(u32, &str)> {
    let Outcome::Unavailable(why) = outcome else { return None };
    let (number, message) = why.because.strip_prefix("the server answered with error ")?.split_once(": ")?;
    Some((number.parse().ok()?, message))
}

/// From question to answer, or until it was given up; none where nothing was asked.
fn took_s(outcome: Outcome<'_>) -> Option<f64> {
    match outcome {
        // A value that was kept from an earlier sample took nothing.
        Outcome::Answered { took_ms } if took_ms > 0.0 => Some(took_ms / 1e3),
        // `no answer in 2 s; ...`
        Outcome::Unavailable(why) => {
            why.because.strip_prefix("no answer in ")?.split_ascii_whitespace().next()?.parse().ok()
        }
        Outcome::Answered { .. } | Outcome::NotAsked => None,
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::NamedValues;
    use spindoctor_model::{Reading, Unavailable};

    use super::*;
    use crate::testing::Build;

    #[test]
    fn late_answers_are_counted_with_their_share_of_the_window() {
        let on_time = OwnAnswers::from_window(&Build::busy("9.7.4").window());
        assert!(on_time.asked > 50 && on_time.late == 0 && on_time.late_share == 0.0, "{on_time:?}");
        let late = OwnAnswers::from_window(&Build::busy("9.7.4").late(3, 1_500.0).window());
        assert_eq!((late.asked, late.late, late.longest_s), (on_time.asked, 3, 1.5));
        assert!((late.late_share - 0.45).abs() < 1e-9, "{late:?}");
    }

    #[test]
    fn the_quickest_kind_of_question_is_one_that_was_asked_often() {
        let quickest_s = |build: Build| OwnAnswers::from_window(&build.window()).quickest_s;
        assert_eq!(quickest_s(Build::busy("9.7.4")), 0.001);
        let slow = || Build::busy("9.7.4").answered_in(137.0);
        assert_eq!(quickest_s(slow()), 0.137);
        // One kind is quick, and was asked so often.
        let quick = |times: usize| {
            slow().each(move |at_s, server, _| {
                let answer = || Reading::Available { at_s, took_ms: 2.0, value: NamedValues::default() };
                server.variables = if (at_s as usize) < times { answer() } else { Reading::NotAsked };
            })
        };
        assert_eq!(quickest_s(quick(OFTEN)), 0.002);
        assert_eq!(quickest_s(quick(OFTEN - 1)), 0.137);
    }

    #[test]
    fn an_error_is_read_with_its_number_and_other_reasons_are_none() {
        let of = |because: &str| {
            let refused = Reading::Unavailable(Unavailable::because(because));
            let window = Build::busy("9.7.4").each(|_, server, _| server.threads = refused.clone()).window();
            errors(&window).next().map(|(number, message)| (number, message.to_owned()))
        };
        let full = of("the server answered with error 1114: The table '/tmp/#sql_1' is full");
        assert_eq!(full, Some((1114, "The table '/tmp/#sql_1' is full".to_owned())));
        assert_eq!(of("no privilege: Access denied"), None);
        assert_eq!(of("the server answered with error of its own: none"), None);
    }

    #[test]
    fn a_question_without_an_answer_was_waited_for_and_one_that_was_refused_was_not() {
        let of = |because: &str| {
            let refused = Reading::Unavailable(Unavailable::because(because));
            let window = Build::busy("9.7.4").each(|_, server, _| server.threads = refused.clone()).window();
            OwnAnswers::from_window(&window)
        };
        assert_eq!(of("no answer in 2 s; the server hangs, is stopped or overloaded").longest_s, 2.0);
        assert_eq!(of("not asked: the connection was given up after an earlier statement").late, 0);
    }
}
