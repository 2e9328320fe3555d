//! The ring of stacks of the server's process, where stacks can be read.

use std::time::{Duration, Instant};

use spindoctor_model::Profile;
use spindoctor_stacks::{RingOptions, RingThread};
use spindoctor_stalls::events::DETAIL_FOR_S;

use crate::common::session::note;

/// Snapshots a second in a stall.
const HURRY_HZ: f64 = 10.0;

/// Stacks of one process after the other: of the server, as it is restarted.
pub struct Stacks {
    /// False where the user wants none.
    are_wanted: bool,
    of: Option<OfProcess>,
}

struct OfProcess {
    pid: u32,
    ring: RingThread,
    /// What it had cost at the last report: snapshots, microseconds.
    reported: (u64, u64),
}

impl Stacks {
    /// Of no process yet.
    pub fn new(are_wanted: bool) -> Self {
        Self { are_wanted, of: None }
    }

    /// From now on of this process, and of no other.
    pub fn follow(&mut self, pid: Option<u32>) {
        if self.of.as_ref().is_some_and(|of| Some(of.pid) == pid && !of.ring.has_ended()) {
            return;
        }
        self.of = None;
        let (Some(pid), true) = (pid, self.are_wanted) else { return };
        let options = RingOptions { frames: spindoctor_rules::FRAME_STATES, ..RingOptions::default() };
        match RingThread::start(pid, options) {
            Ok(ring) => self.of = Some(OfProcess { pid, ring, reported: (0, 0) }),
            Err(error) => note(&format!("no stacks are kept: {error}")),
        }
    }

    /// Takes a snapshot now, with who holds the locks of the C library.
    pub fn snapshot(&self) {
        if let Some(of) = &self.of {
            of.ring.snapshot(true);
        }
    }

    /// Looks as often as a stall wants it, for as long as its detail is kept.
    pub fn hurry(&self) {
        if let Some(of) = &self.of {
            of.ring.hurry(HURRY_HZ, Duration::from_secs_f64(DETAIL_FOR_S));
        }
    }

    /// Snapshots since this was asked last, and what they took, milliseconds.
    pub fn cost(&mut self) -> Option<(u64, f64)> {
        let of = self.of.as_mut()?;
        let cost = of.ring.cost();
        let (snapshots, own_cpu_us) = std::mem::replace(&mut of.reported, (cost.snapshots, cost.own_cpu_us));
        let took_ms = cost.own_cpu_us.saturating_sub(own_cpu_us) as f64 / 1e3;
        Some((cost.snapshots.saturating_sub(snapshots), took_ms))
    }

    /// When the last snapshot was taken, and how many threads ran or waited for a CPU in it; none where it was asked before.
    pub fn runnable(&self) -> Option<(Instant, u32)> {
        self.of.as_ref()?.ring.runnable()
    }

    /// Has the stacks of a time handed over; none where there are none.
    pub fn profile(
        &self,
        from: Option<Instant>,
        to: Option<Instant>,
        then: impl FnOnce(Option<Profile>) + Send + 'static,
    ) {
        match (&self.of, from, to) {
            (Some(of), Some(from), Some(to)) => {
                of.ring.profile(from, to, move |profile| {
                    then(Some(profile).filter(|profile| !profile.snapshots.is_empty()));
                });
            }
            _ => then(None),
        }
    }
}
