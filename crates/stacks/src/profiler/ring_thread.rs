//! A ring on a thread of its own, which keeps the clock; callers send it a request and go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spindoctor_model::stack::{Profile, StackSource};

use super::ring::{Ring, RingOptions};
use super::{READING, Taken, micros, process};
use crate::error::{Error, Result};

/// Stacks of a process, looked at again and again until this is dropped.
#[derive(Debug)]
pub struct RingThread {
    orders: Sender<Order>,
    source: StackSource,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread did so far.
#[derive(Debug, Default)]
struct Progress {
    snapshots: AtomicU64,
    own_cpu_us: AtomicU64,
    has_ended: AtomicBool,
    runnable: Mutex<Option<(Instant, u32)>>,
}

/// What a ring cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingCost {
    /// Snapshots that were taken.
    pub snapshots: u64,
    /// CPU time of the thread, microseconds: all of what is needed for them, names and profiles included.
    pub own_cpu_us: u64,
}

enum Order {
    Snapshot { with_locks: bool },
    Hurry { hz: f64, lasts: Duration },
    Profile { from: Instant, to: Instant, then: Box<dyn FnOnce(Profile) + Send> },
}

impl RingThread {
    /// Starts to look at a process.
    ///
    /// # Errors
    /// No such process, or no source can be used.
    pub fn start(pid: u32, options: RingOptions) -> Result<Self> {
        let (orders, ordered) = channel();
        let (started, starting) = channel();
        let progress = Arc::new(Progress::default());
        let of_thread = Arc::clone(&progress);
        let thread = std::thread::Builder::new().name("stacks".to_owned()).spawn(move || {
            let mut ring = match Ring::start(pid, options) {
                Ok(ring) => ring,
                Err(error) => return drop(started.send(Err(error))),
            };
            if started.send(Ok(ring.source())).is_ok() {
                run(&mut ring, &ordered, &of_thread);
            }
        });
        let thread = thread.map_err(|error| Error::NotProfilable { pid, because: error.to_string() })?;
        match starting.recv() {
            Ok(Ok(source)) => Ok(Self { orders, source, progress, thread: Some(thread) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::NoProcess(pid)),
        }
    }

    /// The source that is used.
    pub fn source(&self) -> StackSource {
        self.source
    }

    /// Takes a snapshot now, and, where wanted, reads who holds the locks of the C library that its threads wait for.
    pub fn snapshot(&self, with_locks: bool) {
        self.order(Order::Snapshot { with_locks });
    }

    /// Looks more often for a while; see [`Ring::hurry`].
    pub fn hurry(&self, hz: f64, lasts: Duration) {
        self.order(Order::Hurry { hz, lasts });
    }

    /// Has the profile of a part of what is held made, and handed to `then`, on the ring's thread.
    pub fn profile(&self, from: Instant, to: Instant, then: impl FnOnce(Profile) + Send + 'static) {
        self.order(Order::Profile { from, to, then: Box::new(then) });
    }

    /// True where the process has ended, or nothing of it may be read any more. What was seen can still be had, unless the
    /// thread itself has failed.
    pub fn has_ended(&self) -> bool {
        self.progress.has_ended.load(Ordering::Relaxed)
            || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// When the last snapshot was begun, and how many threads ran or waited for a CPU in it; none where that was asked
    /// before, or is not known.
    pub fn runnable(&self) -> Option<(Instant, u32)> {
        self.progress.runnable.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the ring cost so far.
    pub fn cost(&self) -> RingCost {
        RingCost {
            snapshots: self.progress.snapshots.load(Ordering::Relaxed),
            own_cpu_us: self.progress.own_cpu_us.load(Ordering::Relaxed),
        }
    }

    fn order(&self, order: Order) {
        // The thread listens for as long as this lives, unless it has failed: a caller that waits for a profile must
        // not wait for ever.
        if let Err(SendError(Order::Profile { then, .. })) = self.orders.send(order) {
            then(Profile::default());
        }
    }
}

impl Drop for RingThread {
    fn drop(&mut self) {
        // Without anybody to give orders it ends.
        self.orders = channel().0;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn run(ring: &mut Ring, orders: &Receiver<Order>, progress: &Progress) {
    let mut due = Instant::now();
    let mut has_ended = false;
    loop {
        let wait = due.saturating_duration_since(Instant::now());
        // CPU samples are read more often than snapshots are taken.
        match orders.recv_timeout(if ring.is_in_a_hurry() { wait.min(READING) } else { wait }) {
            Ok(Order::Snapshot { with_locks }) => {
                has_ended |= !snapshot(ring, progress);
                if with_locks && !has_ended {
                    ring.read_futex_waits();
                }
                due = Instant::now() + ring.interval();
            }
            Ok(Order::Hurry { hz, lasts }) => {
                ring.hurry(hz, lasts);
                due = due.min(Instant::now() + ring.interval());
            }
            Ok(Order::Profile { from, to, then }) => then(ring.profile(from, to)),
            Err(RecvTimeoutError::Timeout) => {
                if due <= Instant::now() {
                    has_ended |= !snapshot(ring, progress);
                    due = Instant::now() + ring.interval();
                } else {
                    ring.read_cpu_samples();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
        progress.own_cpu_us.store(micros(process::thread_cpu()), Ordering::Relaxed);
        progress.has_ended.store(has_ended, Ordering::Relaxed);
    }
}

/// Takes one; false where the process is gone.
fn snapshot(ring: &mut Ring, progress: &Progress) -> bool {
    let is_there = matches!(ring.snapshot(), Ok(Taken::Snapshot(_)));
    progress.snapshots.fetch_add(u64::from(is_there), Ordering::Relaxed);
    if is_there {
        *progress.runnable.lock().unwrap_or_else(PoisonError::into_inner) = ring.runnable();
    }
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_on_its_own_thread_takes_snapshots_by_itself_and_on_demand_and_hands_out_profiles() {
        let options = RingOptions {
            source: Some(StackSource::Procfs),
            hz: 0.001,
            cpu: false,
            ..RingOptions::default()
        };
        let begun = Instant::now();
        let ring = RingThread::start(std::process::id(), options).unwrap();
        ring.snapshot(true);
        let (send, receive) = channel();
        let (again, to) = (send.clone(), begun + Duration::from_secs(3600));
        ring.profile(begun, to, move |profile| send.send(profile).unwrap());
        let first = receive.recv().unwrap();
        assert!((1..=2).contains(&first.snapshots.len()), "{}", first.snapshots.len());
        assert!(!ring.has_ended());

        ring.hurry(50.0, Duration::from_secs(60));
        while ring.cost().snapshots < 5 {
            std::thread::sleep(Duration::from_millis(5));
        }
        ring.profile(begun, to, move |profile| again.send(profile).unwrap());
        let second = receive.recv().unwrap();
        assert!(second.snapshots.len() >= 5);
        assert_eq!(second.hz, 50.0);
        assert!(ring.cost().own_cpu_us > 0);
        // The ring's own thread, for one, runs.
        assert!(ring.runnable().unwrap().1 >= 1);
    }

    #[test]
    fn a_ring_whose_thread_has_failed_has_ended_and_gives_empty_profiles() {
        let options = RingOptions {
            source: Some(StackSource::Procfs),
            hz: 0.001,
            cpu: false,
            ..RingOptions::default()
        };
        let ring = RingThread::start(std::process::id(), options).unwrap();
        let now = Instant::now();
        ring.profile(now, now, |_| panic!("what comes of what was read"));
        while !ring.has_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (send, receive) = channel();
        ring.profile(now, now, move |profile| send.send(profile).unwrap());
        assert_eq!(receive.recv().unwrap(), Profile::default());
    }

    #[test]
    fn there_is_no_ring_of_no_process() {
        assert!(RingThread::start(0, RingOptions::default()).is_err());
    }
}
