//! What the sampler, the probe and the caller have in common.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spindoctor_model::{Probe, Segment};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;

use super::clock::SegmentClock;
use super::costs::{Costs, PROBE};
use super::door::Door;
use super::note::Note;
use super::{FollowOptions, Followed};
use crate::host;
use crate::mysql::Target;
use crate::pace::Period;

/// What they have in common.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) door: Door,
    pub(super) costs: Costs,
    followed: Sender<Followed>,
    /// The clock of the segment that is current; nothing is sent while it changes.
    clock: Arc<Mutex<Option<SegmentClock>>>,
    /// Connections that are spindoctor's own.
    own: Arc<Mutex<BTreeSet<u64>>>,
    /// Questions of the sampler's that are being answered now: 0 or 1.
    pub(super) asking: Arc<AtomicU64>,
    /// Probes that nobody took.
    left_out: Arc<AtomicU64>,
    /// A stall is looked at.
    hurry: Arc<AtomicBool>,
    /// The server's process, where it is on this host.
    process: Arc<Mutex<Option<host::Target>>>,
    stopped: watch::Sender<bool>,
}

/// The caller is gone.
#[derive(Debug)]
pub(super) struct Stopped;

impl Shared {
    pub(super) fn new(target: Target, options: &FollowOptions, followed: Sender<Followed>) -> Self {
        let sources = options.paces.iter().map(|(source, pace)| match pace.period {
            Period::Every(seconds) => (*source, f64::from(seconds)),
            Period::With(_) | Period::Once | Period::Never => (*source, 0.0),
        });
        let probe = options.probe_every.map(|every| (PROBE, every.as_secs_f64()));
        Self {
            door: Door::to(target),
            costs: Costs::from_sources(sources.chain(probe)),
            followed,
            clock: Arc::default(),
            own: Arc::default(),
            asking: Arc::default(),
            left_out: Arc::default(),
            hurry: Arc::default(),
            process: Arc::default(),
            stopped: watch::Sender::new(false),
        }
    }

    /// Sends, and waits where the caller is behind.
    pub(super) async fn send(&self, followed: Followed) -> Result<(), Stopped> {
        self.followed.send(followed).await.map_err(|_| Stopped)
    }

    /// Begins a segment: what is sent behind it belongs to it.
    pub(super) async fn begin(&self, clock: SegmentClock, segment: Segment) -> Result<(), Stopped> {
        let place = self.followed.reserve().await.map_err(|_| Stopped)?;
        let mut current = lock(&self.clock);
        *current = Some(clock);
        place.send(Followed::Segment(segment));
        Ok(())
    }

    /// Says that a probe which was asked at an instant has no answer yet; nothing is sent where the caller is behind.
    pub(super) fn send_overdue(&self, asked: Instant) {
        let current = lock(&self.clock);
        if let Some(clock) = *current {
            let _full = self.followed.try_send(Followed::Overdue(clock.at_s(asked)));
        }
    }

    /// Sends a probe that was asked at an instant; it is left out where the caller is behind.
    pub(super) fn send_probe(&self, asked: Instant, probe: Probe) -> Result<(), Stopped> {
        let current = lock(&self.clock);
        let Some(clock) = *current else { return Ok(()) };
        let probe = Probe { at_s: clock.at_s(asked), ..probe };
        match self.followed.try_send(Followed::Probe(probe)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(Stopped),
        }
    }

    /// Says that the probe asks so often from now on. The line is left out where the caller is behind.
    pub(super) fn probe_asks(&self, every: Duration, because_takes: Option<Duration>) {
        self.costs.set_period(PROBE, every.as_secs_f64());
        let _full = self.followed.try_send(Followed::Note(Note::Probe { every, because_takes }));
    }

    /// Says that the account may have too few connections for a probe. The line is left out where the caller is behind.
    pub(super) fn no_room(&self, most: u64) {
        let _full = self.followed.try_send(Followed::Note(Note::NoRoom { most }));
    }

    /// Says that nothing is probed any more, and why. The line is left out where the caller is behind.
    pub(super) fn no_probe(&self, because: String) {
        let _full = self.followed.try_send(Followed::Note(Note::NoProbe { because }));
    }

    /// How many probes were left out since this was asked last.
    pub(super) fn take_left_out(&self) -> u64 {
        self.left_out.swap(0, Ordering::Relaxed)
    }

    /// A stall is looked at from now on, or no longer.
    pub(super) fn hurry(&self, is_hurry: bool) {
        self.hurry.store(is_hurry, Ordering::Relaxed);
    }

    pub(super) fn is_hurry(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// The server's process is this one from now on, or is not on this host.
    pub(super) fn set_process(&self, process: Option<&host::Target>) {
        *lock(&self.process) = process.cloned();
    }

    /// The server's process, where it is on this host.
    pub(super) fn process(&self) -> Option<host::Target> {
        lock(&self.process).clone()
    }

    /// A connection is spindoctor's own.
    pub(super) fn leave_out(&self, connection_id: u64) {
        lock(&self.own).insert(connection_id);
    }

    /// A connection of spindoctor's own has ended: the server may give its number to somebody else after a restart.
    pub(super) fn no_longer_leave_out(&self, connection_id: u64) {
        lock(&self.own).remove(&connection_id);
    }

    pub(super) fn is_own(&self, connection_id: u64) -> bool {
        lock(&self.own).contains(&connection_id)
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Somebody runs for as long as this is there.
    pub(super) fn running(&self) -> watch::Receiver<bool> {
        self.stopped.subscribe()
    }

    /// Waits until nobody runs any more.
    pub(super) async fn ended(&self) {
        self.stopped.closed().await;
    }

    /// When a time of the current segment was.
    pub(super) fn instant_of(&self, at_s: f64) -> Option<Instant> {
        let origin = lock(&self.clock).as_ref()?.origin;
        match Duration::try_from_secs_f64(at_s) {
            Ok(after) => origin.checked_add(after),
            Err(_) => origin.checked_sub(Duration::try_from_secs_f64(-at_s).ok()?),
        }
    }

    /// Waits until the caller wants no more.
    pub(super) async fn stopped(&self) {
        // It cannot be closed: this is one of its senders.
        let mut stopped = self.stopped.subscribe();
        let _stopped = stopped.wait_for(|stopped| *stopped).await.is_ok();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
