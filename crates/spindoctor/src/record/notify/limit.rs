//! How many messages there may be: a server that stalls every second wakes nobody every second.

use std::time::{Duration, Instant};

/// Messages at once, when there was none for long.
const BURST: u32 = 10;
/// From then on, one in this time.
const ONE_IN: Duration = Duration::from_secs(60);

/// A bucket of messages, which fills again with time.
#[derive(Debug, Default)]
pub struct Limit {
    /// Messages that were sent and are not forgotten yet.
    used: u32,
    /// When the last of them was forgotten.
    since: Option<Instant>,
    left_out: u64,
}

impl Limit {
    /// Takes a message: how many were left out before it; none where it is left out itself.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let forgotten =
            u32::try_from(now.duration_since(since).as_secs() / ONE_IN.as_secs()).unwrap_or(u32::MAX);
        if forgotten > 0 {
            self.used = self.used.saturating_sub(forgotten);
            self.since = Some(if self.used == 0 { now } else { since + ONE_IN * forgotten });
        }
        if self.used >= BURST {
            self.left_out += 1;
            return None;
        }
        if self.used == 0 {
            self.since = Some(now);
        }
        self.used += 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// The message that was taken last found no room.
    pub fn not_sent(&mut self) {
        self.left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_at_once_and_then_one_a_minute_with_how_many_were_left_out() {
        let begun = Instant::now();
        let mut limit = Limit::default();
        let at = |limit: &mut Limit, second: u64| limit.take(begun + Duration::from_secs(second));
        for second in 0..10 {
            assert_eq!(at(&mut limit, second), Some(0));
        }
        for second in 10..60 {
            assert_eq!(at(&mut limit, second), None);
        }
        assert_eq!(at(&mut limit, 60), Some(50));
        assert_eq!(at(&mut limit, 61), None);
        assert_eq!(at(&mut limit, 121), Some(1));
        // After an hour of silence there are ten again, and no more.
        let again: Vec<_> = (0..12).map(|second| at(&mut limit, 7_200 + second)).collect();
        assert_eq!(again.iter().filter(|taken| taken.is_some()).count(), 10);
        limit.not_sent();
        assert_eq!(at(&mut limit, 20_000), Some(3));
    }
}
