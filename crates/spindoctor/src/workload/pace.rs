//! The rest between two samples, so that sampling takes no more of the server than allowed. Pure.

use std::time::Duration;

/// What looking may take of all CPUs of the machine: the server's part and ours. The promise is 1 % of the throughput; the
/// snapshots and CPU samples beside the looks take a part of that, and a busy server loses more than the CPU time that is
/// taken from it, as its caches are used as well (`workload` in BENCHMARKS.md).
const CPU_SHARE: f64 = 0.002;

/// Where the server's CPU time cannot be read, an answer is followed by a rest of so many times as long as it took: asking
/// takes no more than a twentieth of one of its threads. Under load an answer takes much longer than its CPU time.
const REST: f64 = 20.0;

/// How much the newest look counts for what a look costs: a single one that was late changes little.
const NEWEST: f64 = 0.2;

/// However expensive a sample is, there is one this often.
const LONGEST: Duration = Duration::from_secs(5);

/// What a look cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LookCost {
    /// CPU time of the server and of ours; None where the server's is not known.
    pub cpu: Option<Duration>,
    /// From question to answer.
    pub took: Duration,
}

/// The clock of the looks.
#[derive(Debug, Clone)]
pub struct Pace {
    asked: Duration,
    cpus: f64,
    cpu_s: Option<f64>,
    took_s: Option<f64>,
}

impl Pace {
    /// So many samples per second, on a machine of so many CPUs.
    pub fn new(hz: f64, cpus: usize) -> Self {
        let asked = Duration::try_from_secs_f64(1.0 / hz).unwrap_or(LONGEST);
        Self { asked, cpus: cpus.max(1) as f64, cpu_s: None, took_s: None }
    }

    /// A look was taken.
    pub fn took(&mut self, cost: LookCost) {
        let mean = |before: Option<f64>, newest: f64| match before {
            Some(before) => before + NEWEST * (newest - before),
            None => newest,
        };
        self.took_s = Some(mean(self.took_s, cost.took.as_secs_f64()));
        self.cpu_s = cost.cpu.map(|cpu| mean(self.cpu_s, cpu.as_secs_f64()));
    }

    /// From the beginning of one look to that of the next.
    pub fn interval(&self) -> Duration {
        let wanted_s = match (self.cpu_s, self.took_s) {
            (Some(cpu_s), _) => cpu_s / (CPU_SHARE * self.cpus),
            (None, Some(took_s)) => took_s * REST,
            (None, None) => 0.0,
        };
        let wanted = Duration::try_from_secs_f64(wanted_s).unwrap_or(LONGEST).min(LONGEST);
        self.asked.max(wanted)
    }

    /// True where it looks less often than was asked for.
    pub fn is_slowed(&self) -> bool {
        // A tenth is the machine's own unevenness.
        self.interval() > self.asked.mul_f64(1.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(cpu_us: Option<u64>, took_ms: u64) -> LookCost {
        LookCost { cpu: cpu_us.map(Duration::from_micros), took: Duration::from_millis(took_ms) }
    }

    #[test]
    fn a_cheap_look_is_taken_as_often_as_asked_and_an_expensive_one_less_often() {
        let mut pace = Pace::new(10.0, 2);
        assert_eq!(pace.interval(), Duration::from_millis(100));
        pace.took(cost(Some(400), 30));
        assert!(!pace.is_slowed(), "an answer that waits for a CPU is not expensive");
        let mut expensive = Pace::new(10.0, 2);
        expensive.took(cost(Some(2_000), 5));
        // 2 ms of 2 CPUs are 0.2 % twice a second.
        assert_eq!((expensive.interval().as_millis(), expensive.is_slowed()), (500, true));
        let mut large = Pace::new(10.0, 64);
        large.took(cost(Some(3_000), 5));
        assert_eq!(large.interval(), Duration::from_millis(100));
    }

    #[test]
    fn without_the_servers_cpu_time_the_answers_time_has_to_do() {
        let mut pace = Pace::new(10.0, 2);
        pace.took(cost(None, 3));
        assert_eq!(pace.interval(), Duration::from_millis(100));
        pace.took(cost(None, 103));
        assert_eq!(pace.interval().as_millis(), 460, "(3 + 0.2 * 100) * 20");
        (0..50).for_each(|_| pace.took(cost(None, 2_000)));
        assert_eq!(pace.interval(), LONGEST);
    }
}
