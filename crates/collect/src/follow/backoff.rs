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
}
