//! Clients of a storm: each connects when it is due, whatever happened to those before it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error as ClientError, IoError, Opts};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::search::Failure;

/// A client that is served within this was served in time: who waits for a page does not notice it yet.
const IN_TIME: Duration = Duration::from_millis(250);
/// Then a client gives up.
const PATIENCE: Duration = Duration::from_secs(1);
/// Clients at once: more would be the client's own trouble.
const MOST: usize = 4_000;
/// How often it is looked at who is due.
const TICK: Duration = Duration::from_millis(1);

/// `ER_CON_COUNT_ERROR`, `ER_CANT_CREATE_THREAD`.
const TOO_MANY_CONNECTIONS: u16 = 1040;
const CANT_CREATE_THREAD: u16 = 1135;

/// What became of the clients.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) due: u64,
    pub(super) in_time: u64,
    pub(super) failures: BTreeMap<Failure, u64>,
    /// Of those that were served, milliseconds.
    took_ms: Vec<f64>,
}

impl Served {
    fn count(&mut self, outcome: Result<Duration, Failure>) {
        match outcome {
            Ok(took) => {
                self.in_time += u64::from(took <= IN_TIME);
                self.took_ms.push(took.as_secs_f64() * 1e3);
            }
            Err(failure) => *self.failures.entry(failure).or_default() += 1,
        }
    }

    /// The time within which this part of those that were served were served; 0 where none was.
    pub(super) fn percentile_ms(&self, part: f64) -> f64 {
        let mut sorted = self.took_ms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = (sorted.len() as f64 * part).ceil() as usize;
        at.checked_sub(1).and_then(|at| sorted.get(at)).copied().unwrap_or(0.0)
    }
}

/// Clients that have come, of which some may still wait.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    served: Served,
    waiting: JoinSet<Result<Duration, Failure>>,
}

impl Crowd {
    /// Clients come at this rate for so long; returns when the last of them has come.
    pub(super) async fn come(options: &Opts, rate: f64, time: Duration) -> Self {
        let mut crowd = Self::default();
        let begun = Instant::now();
        while begun.elapsed() < time {
            let due = (begun.elapsed().as_secs_f64() * rate) as u64;
            while crowd.served.due < due {
                // Counted from when it was due: a machine that starts clients late is slow, too.
                let at = begun + Duration::from_secs_f64(crowd.served.due as f64 / rate);
                crowd.served.due += 1;
                if crowd.waiting.len() >= MOST {
                    crowd.served.count(Err(Failure::NoRoomForClient));
                } else {
                    crowd.waiting.spawn(client(options.clone(), at));
                }
            }
            while let Some(ended) = crowd.waiting.try_join_next() {
                crowd.served.count(ended.unwrap_or(Err(Failure::Other)));
            }
            sleep(TICK).await;
        }
        crowd
    }

    /// What became of them, when the last was served or gave up.
    pub(super) async fn leave(mut self) -> Served {
        while let Some(ended) = self.waiting.join_next().await {
            self.served.count(ended.unwrap_or(Err(Failure::Other)));
        }
        self.served
    }
}

/// How long one client takes to be served, for who waits until nobody stands before him any more; none where he is not.
pub(super) async fn one(options: &Opts) -> Option<Duration> {
    client(options.clone(), Instant::now()).await.ok()
}

async fn client(options: Opts, due: Instant) -> Result<Duration, Failure> {
    let until = due + PATIENCE;
    let work = async {
        let mut conn = Conn::new(options).await?;
        conn.query_drop("DO 1").await?;
        Ok::<_, ClientError>((due.elapsed(), conn))
    };
    match timeout_at(until, work).await {
        Ok(Ok((took, conn))) => {
            // It was served, whatever becomes of the goodbye.
            let _closed = timeout_at(until, conn.disconnect()).await;
            Ok(took)
        }
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => Err(Failure::TimedOut),
    }
}

fn failure(error: &ClientError) -> Failure {
    match error {
        ClientError::Server(error) if error.code == TOO_MANY_CONNECTIONS => Failure::TooManyConnections,
        ClientError::Server(error) if error.code == CANT_CREATE_THREAD => Failure::NoThread,
        // A unix socket whose queue is full says EAGAIN (unix(7)); TCP drops the SYN, and the client waits.
        ClientError::Io(IoError::Io(error)) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::ConnectionRefused => Failure::QueueFull,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => Failure::Reset,
            _ => Failure::Other,
        },
        // The end of the stream within an answer.
        ClientError::Driver(DriverError::ConnectionClosed) => Failure::Reset,
        _ => Failure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_served_late_is_served_and_not_in_time() {
        let mut served = Served::default();
        for ms in [10, 20, 300] {
            served.count(Ok(Duration::from_millis(ms)));
        }
        served.count(Err(Failure::TimedOut));
        assert_eq!((served.in_time, served.failures[&Failure::TimedOut]), (2, 1));
        assert_eq!((served.percentile_ms(0.5), served.percentile_ms(0.99)), (20.0, 300.0));
        assert_eq!(Served::default().percentile_ms(0.5), 0.0);
    }

    #[test]
    fn a_full_queue_is_reported_from_other_errors() {
        let io = |kind: ErrorKind| ClientError::Io(IoError::Io(kind.into()));
        assert_eq!(failure(&io(ErrorKind::WouldBlock)), Failure::QueueFull);
        assert_eq!(failure(&io(ErrorKind::ConnectionReset)), Failure::Reset);
        assert_eq!(failure(&io(ErrorKind::OutOfMemory)), Failure::Other);
        assert_eq!(failure(&ClientError::Driver(DriverError::ConnectionClosed)), Failure::Reset);
    }
}
