//! A deadline that counts the time in which the server is waited for, and no other.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::failure::{Failure, Reason};

/// What is left of a deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    limit: Duration,
    left: Duration,
}

impl Budget {
    /// A deadline this long from now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, left: limit }
    }

    /// Waits for the server, no longer than is left.
    pub(crate) async fn within<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let begun = Instant::now();
        let outcome = timeout(self.left, work).await;
        self.left = self.left.saturating_sub(begun.elapsed());
        outcome.map_err(|_| {
            let message = format!("no answer within {} s", self.limit.as_secs_f64());
            Failure::new(Reason::Timeout, message).outcome_unknown()
        })
    }
}
