//! The times of snapshots of locks and stacks. Pure.

use spindoctor_stalls::suspicion::Reason;

/// How often locks are looked at in a stall, and suspected ones are looked into.
const EVERY_S: f64 = 0.5;
/// The first looks come with each probe: 70 ms into a stall few wait yet, and after 200 ms it may be over.
const FIRST_LOOKS: u32 = 3;
const FIRST_EVERY_S: f64 = 0.08;
/// After so long without a look the next is a first one.
const BELONG_S: f64 = 3.0;
/// And after so long without one for a strong reason the next for such a reason: a stall may follow soon after noise.
const STRONG_BELONG_S: f64 = 1.0;

/// The turns of looks. What noise alone suffices for does not use up the turns of what shows a stall.
#[derive(Debug)]
pub struct Turns {
    all: Row,
    strong: Row,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Row::new(BELONG_S), strong: Row::new(STRONG_BELONG_S) }
    }
}

impl Turns {
    /// Whether it is time for another look, which is then taken. No reason: a stall is known.
    pub fn take(&mut self, now_s: f64, reason: Option<Reason>) -> bool {
        let is_strong = reason == Some(Reason::Strong);
        let is_due = self.all.is_due(now_s) || (is_strong && self.strong.is_due(now_s));
        if is_due {
            self.all.take(now_s);
            if is_strong {
                self.strong.take(now_s);
            }
        }
        is_due
    }
}

/// Looks that follow one another.
#[derive(Debug)]
struct Row {
    belong_s: f64,
    looked_s: f64,
    /// Looks since then that belong together.
    looks: u32,
}

impl Row {
    fn new(belong_s: f64) -> Self {
        Self { belong_s, looked_s: f64::NEG_INFINITY, looks: 0 }
    }

    fn is_first(&self, now_s: f64) -> bool {
        now_s - self.looked_s > self.belong_s
    }

    fn is_due(&self, now_s: f64) -> bool {
        let is_early = self.is_first(now_s) || self.looks < FIRST_LOOKS;
        now_s - self.looked_s >= if is_early { FIRST_EVERY_S } else { EVERY_S }
    }

    fn take(&mut self, now_s: f64) {
        if self.is_first(now_s) {
            self.looks = 0;
        }
        (self.looked_s, self.looks) = (now_s, self.looks + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probes at which there is a look, of one each tenth of a second and a little.
    fn looks(probes: impl Iterator<Item = (u32, Option<Reason>)>, turns: &mut Turns) -> Vec<u32> {
        probes
            .filter(|&(tenth, reason)| turns.take(f64::from(tenth) * 0.1001, reason))
            .map(|(tenth, _)| tenth)
            .collect()
    }

    #[test]
    fn the_first_looks_come_with_each_probe_and_the_others_twice_a_second() {
        let mut turns = Turns::default();
        let stall = (0..20).map(|tenth| (tenth, Some(Reason::Strong)));
        assert_eq!(looks(stall, &mut turns), [0, 1, 2, 7, 12, 17]);
        let known = (20..32).map(|tenth| (tenth, None));
        assert_eq!(looks(known, &mut turns), [22, 27]);
    }

    #[test]
    fn looks_that_noise_led_to_leave_a_stall_its_own() {
        let mut turns = Turns::default();
        let noise = (0..100).map(|tenth| (tenth, Some(Reason::Weak)));
        let seen = looks(noise, &mut turns);
        assert_eq!(seen.last(), Some(&97));
        let stall = (100..104).map(|tenth| (tenth, Some(Reason::Strong)));
        assert_eq!(looks(stall, &mut turns), [100, 101, 102]);
    }

    #[test]
    fn a_stall_soon_after_another_is_looked_at_with_each_probe_too() {
        let mut turns = Turns::default();
        let stall = |from| (from..from + 3).map(|tenth| (tenth, Some(Reason::Strong)));
        assert_eq!(looks(stall(0), &mut turns), [0, 1, 2]);
        assert_eq!(looks(stall(20), &mut turns), [20, 21, 22]);
    }
}
