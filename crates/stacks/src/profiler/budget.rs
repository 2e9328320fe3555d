//! How often snapshots may be taken, so that the profiler takes no more than a part of the machine's CPUs.
//!
//! In: what each snapshot took of a CPU, and when. Out: how long to wait for the next one. What a snapshot takes grows
//! with the threads that moved since the one before: some microseconds each.

use std::collections::VecDeque;
use std::time::Duration;

/// What is taken of the CPUs beyond the bound is paid back by waiting, once it is more than a tenth of a second's worth:
/// snapshots are not all alike.
const CREDIT: Duration = Duration::from_millis(100);

/// At least two a second are taken where nobody says otherwise, whatever they take: fewer would show nothing of a
/// window of some seconds.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A snapshot that took more than so many times what the last ones took is no sign of what the next will take: names of
/// new functions are found once. What is beyond is forgiven.
const FORGIVEN_BEYOND: u32 = 3;

/// The last ones: what their middle took.
const LAST: usize = 9;

/// What was taken, and what may be.
#[derive(Debug)]
pub(super) struct Budget {
    percent: f64,
    /// CPU time for each second of the clock.
    cpus: f64,
    /// CPU time that was taken and is not paid back yet, seconds.
    debt_s: f64,
    /// Where a profile is: CPU time and clock, at the last snapshot's end.
    last: Option<(Duration, Duration)>,
    /// What the last snapshots took, the newest at the end.
    took: VecDeque<Duration>,
    waited: bool,
    longest_wait: Duration,
}

impl Budget {
    /// At most this much of what all CPUs of the machine have.
    pub(super) fn of_cpus(percent: f64, cpus: usize) -> Self {
        let cpus = percent / 100.0 * cpus.max(1) as f64;
        Self {
            percent,
            cpus,
            debt_s: 0.0,
            last: None,
            took: VecDeque::with_capacity(LAST),
            waited: false,
            longest_wait: LONGEST_WAIT,
        }
    }

    /// Whatever snapshots take, none has to wait for longer than this.
    pub(super) fn waiting_at_most(self, longest_wait: Duration) -> Self {
        Self { longest_wait, ..self }
    }

    /// A snapshot has ended. `cpu` and `clock` count from any beginning; the first snapshot, which reads symbols, is free.
    pub(super) fn pay(&mut self, cpu: Duration, clock: Duration) {
        if let Some((cpu_before, clock_before)) = self.last {
            let taken = self.expected_again(cpu.saturating_sub(cpu_before)).as_secs_f64();
            let granted = self.cpus * clock.saturating_sub(clock_before).as_secs_f64();
            let most = self.cpus * (CREDIT + self.longest_wait).as_secs_f64();
            self.debt_s = (self.debt_s + taken - granted).clamp(0.0, most);
        }
        self.last = Some((cpu, clock));
        self.waited |= !self.wait().is_zero();
    }

    /// The part of what a snapshot took that the next may take as well.
    fn expected_again(&mut self, taken: Duration) -> Duration {
        if self.took.len() == LAST {
            self.took.pop_front();
        }
        self.took.push_back(taken);
        let mut sorted: Vec<Duration> = self.took.iter().copied().collect();
        sorted.sort_unstable();
        taken.min(sorted[sorted.len() / 2] * FORGIVEN_BEYOND)
    }

    /// How long to wait for the next snapshot, at least.
    pub(super) fn wait(&self) -> Duration {
        let over = self.debt_s / self.cpus - CREDIT.as_secs_f64();
        Duration::try_from_secs_f64(over).unwrap_or_default()
    }

    /// The note where the budget made snapshots wait: `to take at most 3 % of the CPUs, ...`
    pub(super) fn note(&self, hz: f64) -> Option<String> {
        let Self { percent, .. } = self;
        self.waited.then(|| {
            format!(
                "fewer than {hz} snapshots a second: more would take over {percent} % of this machine's CPUs"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots of so much CPU time each, as often as they may be taken, up to 100 a second: how many in 20 s.
    fn taken_in_20_s(budget: &mut Budget, cpu_of: impl Fn(u32) -> Duration) -> u32 {
        let (mut cpu, mut clock, mut taken) = (Duration::ZERO, Duration::ZERO, 0);
        while clock < Duration::from_secs(20) {
            cpu += cpu_of(taken);
            budget.pay(cpu, clock);
            clock += budget.wait().max(Duration::from_millis(10));
            taken += 1;
        }
        taken
    }

    #[test]
    fn snapshots_that_cost_too_much_are_taken_less_often_and_the_bound_holds() {
        let mut budget = Budget::of_cpus(3.0, 2);
        // 0.06 s of CPU time a second.
        let taken = taken_in_20_s(&mut budget, |_| Duration::from_millis(2));
        assert!((600..=610).contains(&taken), "{taken}");
        assert_eq!(
            budget.note(100.0).unwrap(),
            "fewer than 100 snapshots a second: more would take over 3 % of this machine's CPUs"
        );
    }

    #[test]
    fn what_stays_below_the_bound_is_not_held_back_and_an_expensive_snapshot_now_and_then_does_not_stop_the_others()
     {
        let mut budget = Budget::of_cpus(3.0, 2);
        let expensive =
            |at| Duration::from_millis(if at % 100 == 50 { 40 } else { 0 }) + Duration::from_micros(500);
        assert_eq!(taken_in_20_s(&mut budget, expensive), 2000);
        assert_eq!(budget.note(100.0), None);
    }

    #[test]
    fn two_a_second_are_taken_at_least_and_what_they_took_is_not_held_against_later_ones() {
        let mut budget = Budget::of_cpus(1.5, 2);
        let taken = taken_in_20_s(&mut budget, |at| Duration::from_millis(if at < 10 { 200 } else { 1 }));
        // 5 s at two a second, then 30 a second.
        assert!((400..=480).contains(&taken), "{taken}");
    }

    #[test]
    fn the_first_snapshot_is_free() {
        let mut budget = Budget::of_cpus(1.0, 1);
        budget.pay(Duration::from_secs(5), Duration::ZERO);
        assert_eq!(budget.wait(), Duration::ZERO);
    }
}
