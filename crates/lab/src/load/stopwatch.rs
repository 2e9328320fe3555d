//! How long the statements of some clients took, by the clients' own clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Shared by the clients whose statements it times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stopwatch(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    ended_s: f64,
    running: HashMap<u64, Instant>,
    begun: u64,
}

impl Stopwatch {
    /// Times one statement.
    pub(crate) async fn time<T>(&self, statement: impl Future<Output = T>) -> T {
        let id = {
            let mut times = self.times();
            times.begun += 1;
            let id = times.begun;
            times.running.insert(id, Instant::now());
            id
        };
        let answer = statement.await;
        let mut times = self.times();
        if let Some(begun) = times.running.remove(&id) {
            times.ended_s += begun.elapsed().as_secs_f64();
        }
        answer
    }

    /// Seconds so far, of all statements together; those that have not ended count until now.
    pub(crate) fn seconds(&self) -> f64 {
        let times = self.times();
        times.ended_s + times.running.values().map(|begun| begun.elapsed().as_secs_f64()).sum::<f64>()
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_has_not_ended_counts_until_now() {
        let stopwatch = Stopwatch::default();
        stopwatch.time(tokio::time::sleep(Duration::from_millis(20))).await;
        let ended = stopwatch.seconds();
        assert!(ended >= 0.02, "{ended}");
        let running = stopwatch.clone();
        let task = tokio::spawn(async move { running.time(std::future::pending::<()>()).await });
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(stopwatch.seconds() >= ended + 0.02, "{}", stopwatch.seconds());
        task.abort();
    }
}
