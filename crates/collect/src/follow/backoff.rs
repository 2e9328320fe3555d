//! When to try again after the server went away. Pure.

use std::time::Duration;

/// The first wait after a try that failed, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The waits between tries: 1, 2, 4, 8, 16, 30, 30 s.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    failed: u32,
}

impl Backoff {
    /// A try failed: how long to wait for the next.
    pub fn failed(&mut self) -> Duration {
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.failed)).min(LONGEST);
        self.failed = self.failed.saturating_add(1);
        wait
    }
}

/// When to reconnect: at once where the broken connection had answered, and less and less often where none does. A
/// server that lets somebody in and then gives no answer keeps that connection, however often it is given up here: made
/// again each second they would fill it up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reconnect {
    backoff: Backoff,
    has_answered: bool,
}

impl Reconnect {
    /// The connection has answered.
    pub fn answered(&mut self) {
        *self = Self { backoff: Backoff::default(), has_answered: true };
    }

    /// The connection broke, or none could be made: how long to wait for the next try.
    pub fn failed(&mut self) -> Duration {
        match std::mem::take(&mut self.has_answered) {
            true => Duration::ZERO,
            false => self.backoff.failed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_become_rare_and_never_end() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..8).map(|_| backoff.failed().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        let mut old = Backoff { failed: u32::MAX };
        assert_eq!(old.failed(), LONGEST);
    }

    #[test]
    fn a_connection_that_had_answered_is_made_again_at_once_and_those_that_never_do_become_rare() {
        let mut reconnect = Reconnect::default();
        let mut waits = |is_answered: bool| {
            if is_answered {
                reconnect.answered();
            }
            reconnect.failed().as_secs()
        };
        // It is not there at first; then it answers, hangs, and lets in those whom it gives no answer.
        let said = [false, false, true, false, false, false, false, true, true, false].map(&mut waits);
        assert_eq!(said, [1, 2, 0, 1, 2, 4, 8, 0, 0, 1]);
        let logins = (0..600).scan(0, |second, _| {
            *second += 1 + waits(false);
            Some(*second)
        });
        let logins = logins.take_while(|&second| second < 600).count();
        assert!((15..30).contains(&logins), "{logins} in ten minutes");
    }
}
