//! What a user should know of endless sampling, each as a line of text.

use std::fmt;
use std::time::Duration;

use super::pace::PaceChange;
use crate::mysql::ConnectError;
use crate::mysql::logins::LEFT_TO_OTHERS;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The server answers.
    Connected {
        /// What it says it is: `MySQL 9.7.4 on db17`.
        server: String,
        /// What did not go as it should and did not stop the session.
        notes: Vec<String>,
    },
    /// The session broke; a new one is made.
    Lost {
        /// What happened.
        because: String,
    },
    /// There is no session.
    NotConnected {
        /// Why.
        error: ConnectError,
        /// When it is tried again; none where these credentials are not tried again.
        again_in: Option<Duration>,
    },
    /// The account may have so few connections that the probe does without one, to leave room for others.
    NoRoom {
        /// `MAX_USER_CONNECTIONS`.
        most: u64,
    },
    /// A source is asked less often, or as often as before again.
    Pace(PaceChange),
    /// A source gave no answer again and again, and each time the session was lost: it rests.
    Rests {
        /// The source's name.
        source: &'static str,
        /// How long the last answer was waited for.
        waited: Duration,
        /// How often in a row there was none.
        times: u32,
        /// When it is asked again.
        again_in: Duration,
    },
    /// The probe asks less often, or as often as before again.
    Probe {
        /// So often from now on.
        every: Duration,
        /// How long its answers take, where that is why.
        because_takes: Option<Duration>,
    },
    /// There is no probe any more.
    NoProbe {
        /// What happened.
        because: String,
    },
    /// The clock was set.
    ClockSet {
        /// By how much, seconds; above zero where it was set forward, or where the machine was suspended.
        by_s: f64,
    },
    /// The caller did not take what was waiting.
    Behind {
        /// So many probes were left out.
        probes: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { server, notes } => {
                write!(f, "{server} answers")?;
                notes.iter().try_for_each(|note| write!(f, "; {note}"))
            }
            Self::Lost { because } => write!(f, "the server is lost: {because}"),
            Self::NotConnected { error, again_in: Some(again_in) } if error.is_refusal() => {
                write!(f, "{error}; trying again in {} min, once: ", again_in.as_secs().div_ceil(60))?;
                write!(f, "a server may lock an account that is refused again and again")
            }
            Self::NotConnected { error, again_in: Some(again_in) } => {
                write!(f, "{error}; trying again in {} s", again_in.as_secs())
            }
            Self::NotConnected { error, again_in: None } => {
                write!(f, "{error}; not trying this password again: change the option file, or send SIGHUP")
            }
            Self::NoRoom { most } => {
                write!(
                    f,
                    "the account may have {most} connections (MAX_USER_CONNECTIONS), and some are left to "
                )?;
                write!(f, "others: nothing is probed, and short stalls are not seen; for all of it grant ")?;
                write!(f, "MAX_USER_CONNECTIONS {}", super::CONNECTIONS + LEFT_TO_OTHERS)
            }
            Self::Pace(PaceChange { source, because: Some(because), period_s }) => {
                write!(f, "{source} is asked every {period_s} s from now on: {because}")
            }
            Self::Pace(PaceChange { source, because: None, period_s }) => {
                write!(f, "{source} is asked every {period_s} s again")
            }
            Self::Rests { source, waited, times, again_in } => {
                let (waited_s, again_in_s) = (waited.as_secs_f64(), again_in.as_secs());
                write!(f, "{source} gave no answer within {waited_s:.1} s, {times} times in a row: ")?;
                write!(f, "it is asked again in {again_in_s} s")
            }
            Self::Probe { every, because_takes: Some(takes) } => {
                let (every_ms, takes_ms) = (every.as_millis(), takes.as_millis());
                write!(f, "the probe asks every {every_ms} ms from now on: each answer takes {takes_ms} ms")
            }
            Self::Probe { every, because_takes: None } => {
                write!(f, "the probe asks every {} ms again", every.as_millis())
            }
            Self::NoProbe { because } => {
                write!(f, "nothing is probed from now on, and short stalls are not seen: {because}; ")?;
                write!(f, "restart spindoctor")
            }
            Self::ClockSet { by_s } if *by_s > 0.0 => {
                write!(f, "the clock was set forward by {by_s:.1} s, or this machine was suspended")
            }
            Self::ClockSet { by_s } => write!(f, "the clock was set back by {:.1} s", -by_s),
            Self::Behind { probes } => {
                write!(
                    f,
                    "{probes} probes were left out: what was recorded before could not be written in time"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_slows_down_says_which_why_and_how_often_from_now_on() {
        let change = |because: Option<&str>| {
            Note::Pace(PaceChange {
                source: "SHOW GLOBAL STATUS",
                because: because.map(str::to_owned),
                period_s: 2,
            })
            .to_string()
        };
        assert_eq!(
            change(Some("its answer takes 70 ms, more than 50 ms")),
            "SHOW GLOBAL STATUS is asked every 2 s from now on: its answer takes 70 ms, more than 50 ms"
        );
        assert_eq!(change(None), "SHOW GLOBAL STATUS is asked every 2 s again");
        let probe =
            Note::Probe { every: Duration::from_millis(200), because_takes: Some(Duration::from_millis(70)) };
        assert_eq!(probe.to_string(), "the probe asks every 200 ms from now on: each answer takes 70 ms");
        let rests = Note::Rests {
            source: "SHOW REPLICA STATUS",
            waited: Duration::from_millis(2004),
            times: 3,
            again_in: Duration::from_secs(60),
        };
        assert_eq!(
            rests.to_string(),
            "SHOW REPLICA STATUS gave no answer within 2.0 s, 3 times in a row: it is asked again in 60 s"
        );
        assert_eq!(Note::ClockSet { by_s: -60.0 }.to_string(), "the clock was set back by 60.0 s");
    }
}
