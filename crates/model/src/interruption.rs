//! Why a window ended early: the server stopped answering, the server restarted, or the user ended it.

use serde::{Deserialize, Serialize};

use crate::reading::{Outcome, Reading};
use crate::window::{NOT_GIVEN, Sample, Window};

/// Uptime is given in whole seconds, rounded down.
const UPTIME_STEP_S: f64 = 1.0;
/// Clocks are corrected by less than this: a server whose start moved by more started again.
const CLOCK_STEP_S: f64 = 1.0;
/// The last sample is taken on time, within a fraction of a second; a window that lasted for less than this share of what was
/// asked for was ended by the user.
const WHOLE_RATIO: f64 = 0.9;

/// The point up to which a window shows the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Interruption {
    /// Seconds from the start of the window to the server's last answer.
    pub at_s: f64,
    /// What happened then, in one clause.
    pub because: String,
    /// How long the server was to be watched, seconds, where it was watched for less than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_s: Option<f64>,
}

impl Window {
    /// Where the server's answers ended before the window did, or where it restarted; None where it
    /// answered to the end, or was never reached at all (`ServerIdentity::no_session`).
    pub fn interruption(&self) -> Option<Interruption> {
        if self.server.no_session.is_some() {
            return None;
        }
        if let Some(at) = self.restarted_at() {
            let at_s = self.samples[..at].iter().rev().find_map(answered_at).unwrap_or_default();
            return Some(Interruption { at_s, because: "the server restarted".to_owned(), of_s: None });
        }
        let last = self.samples.len().checked_sub(1)?;
        let answered = self.samples.iter().rposition(|sample| answered_at(sample).is_some());
        if answered == Some(last) {
            return self.ended_early();
        }
        let silent = &self.samples[answered.map_or(0, |at| at + 1)..];
        // Without a reason nobody asked: such a window was not taken by `watch`.
        let first_reason = silent.iter().find_map(|sample| sample.server.status.unavailable())?;
        if first_reason.because == NOT_GIVEN {
            return None;
        }
        let because = match self.process_ended() {
            true => "the server's process ended".to_owned(),
            false => format!("the server stopped answering: {}", first_reason.because),
        };
        let at_s = answered.and_then(|at| answered_at(&self.samples[at])).unwrap_or_default();
        Some(Interruption { at_s, because, of_s: None })
    }

    /// The user ended it (Ctrl-C) before the time was over.
    fn ended_early(&self) -> Option<Interruption> {
        let (asked_s, at_s) = (self.asked_s?, self.samples.last()?.at_s);
        (at_s < asked_s * WHOLE_RATIO).then(|| Interruption {
            at_s,
            because: "the user stopped it".to_owned(),
            of_s: Some(asked_s),
        })
    }

    /// The samples before the server restarted, where it did: rates across a restart mean nothing.
    #[must_use]
    pub fn before_restart(&self) -> Option<Self> {
        let samples = self.samples[..self.restarted_at()?].to_vec();
        Some(Self { samples, ..self.clone() })
    }

    /// The first sample that another start of the server answered.
    fn restarted_at(&self) -> Option<usize> {
        // The server read its clock somewhere between question and answer.
        let started_between = |sample: &Sample| {
            let Reading::Available { at_s, took_ms, value } = &sample.server.status else { return None };
            let latest = at_s - value.number("Uptime")?;
            Some((latest - took_ms / 1000.0 - UPTIME_STEP_S, latest))
        };
        if self.samples.last()?.host.process.value().is_some_and(|process| !process.has_ended()) {
            return None;
        }
        let (_, first) = self.samples.iter().find_map(started_between)?;
        self.samples.iter().position(|sample| {
            started_between(sample).is_some_and(|(earliest, _)| earliest > first + CLOCK_STEP_S)
        })
    }

    /// True where the process was there and is no more, or is a zombie.
    fn process_ended(&self) -> bool {
        let Some(last) = self.samples.last() else { return false };
        match last.host.process.value() {
            Some(process) => process.has_ended(),
            None => self.latest(|s| &s.host.process).is_some() && last.host.process.unavailable().is_some(),
        }
    }
}

/// When the server answered in a sample; the status is asked for in each. Where the server refuses that one statement, as it does
/// without room for temporary tables, any other answer says that it is there.
fn answered_at(sample: &Sample) -> Option<f64> {
    let status = &sample.server.status;
    // A value that was not asked for took nothing.
    let answers = |outcome| matches!(outcome, Outcome::Answered { took_ms } if took_ms > 0.0);
    let others = || sample.server.readings().any(|(_, reading)| answers(reading.outcome()));
    let at_s = status.timed().map(|(at_s, _)| at_s);
    at_s.or_else(|| (status.unavailable().is_some() && others()).then_some(sample.at_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ProcessStat;
    use crate::mysql::NamedValues;
    use crate::reading::Unavailable;
    use crate::server::NoSession;

    fn available<T>(at_s: f64, value: T) -> Reading<T> {
        Reading::Available { at_s, took_ms: 1.0, value }
    }

    /// Four samples; None is a server that does not answer.
    fn window(uptimes: [Option<&str>; 4]) -> Window {
        let samples = uptimes.into_iter().zip(0_u8..).map(|(uptime, at)| {
            let at_s = f64::from(at) * 2.0;
            let mut sample = Sample { at_s, ..Sample::default() };
            sample.server.status = match uptime {
                Some(uptime) => available(at_s, NamedValues::from_iter([("Uptime", uptime)])),
                None => Reading::Unavailable(Unavailable::because(format!("refused at {at_s}"))),
            };
            sample.host.process =
                available(at_s, ProcessStat { state: "S".into(), ..ProcessStat::default() });
            sample
        });
        Window { samples: samples.collect(), ..Window::default() }
    }

    #[test]
    fn a_server_that_answers_to_the_end_interrupts_nothing() {
        assert_eq!(window([Some("9"), Some("11"), Some("13"), Some("15")]).interruption(), None);
        let back = window([Some("9"), None, None, Some("15")]);
        assert_eq!(back.interruption(), None, "a lost session that came back is no lost server");
    }

    #[test]
    fn a_server_that_stops_answering_is_shown_with_its_last_answer_and_the_first_reason() {
        let found = window([Some("9"), Some("11"), None, None]).interruption().unwrap();
        assert_eq!(found.at_s, 2.0);
        assert_eq!(found.because, "the server stopped answering: refused at 4");
    }

    #[test]
    fn a_server_that_refuses_one_statement_answers_still() {
        let mut full = window([None, None, None, None]);
        for sample in &mut full.samples {
            let why = "the server answered with error 1114: The table '/tmp/#sql10e1_c_1' is full";
            sample.server.status = Reading::Unavailable(Unavailable::because(why));
            sample.server.threads = available(sample.at_s, Vec::new());
        }
        assert_eq!(full.interruption(), None);
        full.samples[3].server.threads = Reading::Unavailable(Unavailable::because("refused"));
        assert_eq!(full.interruption().map(|found| found.at_s), Some(4.0), "and then it does not");
        // What is known without asking is no answer.
        full.samples[3].server.transactions =
            Reading::Available { at_s: 6.0, took_ms: 0.0, value: Vec::new() };
        assert_eq!(full.interruption().map(|found| found.at_s), Some(4.0));
    }

    #[test]
    fn a_process_that_is_gone_or_a_zombie_has_ended() {
        let mut gone = window([Some("9"), Some("11"), None, None]);
        gone.samples[3].host.process = Reading::Unavailable(Unavailable::because("there is no /proc/7/stat"));
        assert_eq!(gone.interruption().unwrap().because, "the server's process ended");
        let zombie = ProcessStat { state: "Z".into(), ..ProcessStat::default() };
        gone.samples[3].host.process = available(6.0, zombie);
        assert_eq!(gone.interruption().unwrap().because, "the server's process ended");
    }

    #[test]
    fn a_restart_is_shown_even_where_the_uptime_is_higher_than_before() {
        let mut restarted = window([Some("1"), Some("3"), None, Some("2")]);
        assert_eq!(restarted.interruption(), None, "its process lives: the clock was set back");
        restarted.samples[3].host.process = Reading::NotAsked;
        let found = restarted.interruption().unwrap();
        assert_eq!((found.at_s, found.because.as_str()), (2.0, "the server restarted"));
        assert_eq!(restarted.before_restart().unwrap().samples.len(), 3);
        assert_eq!(window([Some("1"), Some("3"), Some("5"), Some("7")]).before_restart(), None);
    }

    #[test]
    fn a_window_that_the_user_ended_says_how_much_of_it_there_is() {
        let answers = [Some("9"), Some("11"), Some("13"), Some("15")];
        let cut = Window { asked_s: Some(10.0), ..window(answers) }.interruption().unwrap();
        assert_eq!((cut.at_s, cut.of_s), (6.0, Some(10.0)));
        assert_eq!(Window { asked_s: Some(6.1), ..window(answers) }.interruption(), None);
    }

    #[test]
    fn a_server_that_was_never_reached_is_no_interruption() {
        let mut never = window([None, None, None, None]);
        never.server.no_session = Some(NoSession::default());
        assert_eq!(never.interruption(), None);
    }
}
