//! Stacks and CPU samples beside the window: the profiler on a thread of its own, so that neither the
//! host's readings nor the server's answers wait for it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Profile, Reading, Unavailable};
use spindoctor_stacks::profiler::{Profiler, ProfilerOptions, Taken};

/// Frames that mean a state: a function's name, and the state of a thread that is blocked below it.
pub type StateFrames = &'static [(&'static str, ThreadState)];

/// How often to look, and what frames mean.
#[derive(Debug, Clone, Copy)]
pub struct Profiling {
    /// Snapshots a second.
    pub hz: f64,
    /// What the server's functions mean.
    pub frames: StateFrames,
}

/// A profiler at work; dropping it ends it.
#[derive(Debug)]
pub(super) struct Running {
    end: Sender<()>,
    thread: JoinHandle<Result<Profile, Unavailable>>,
    started: Instant,
}

/// Snapshots a second where nobody says otherwise: a hundred of them in a window of 10 s.
const HZ: f64 = 10.0;

impl Profiling {
    /// Ten snapshots a second, and CPU samples beside them.
    pub fn with(frames: StateFrames) -> Self {
        Self { hz: HZ, frames }
    }

    /// Starts to look at a process.
    pub(super) fn start(self, pid: u32) -> Running {
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let options = ProfilerOptions { hz: self.hz, frames: self.frames, ..ProfilerOptions::default() };
            let mut profiler = Profiler::start(pid, options).map_err(|error| unavailable(&error))?;
            let mut due = Instant::now();
            while let Ok(Taken::Snapshot(_)) = profiler.snapshot() {
                due += profiler.interval();
                // After a snapshot that took too long, those that were missed are not caught up on.
                let wait = due.saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    due = Instant::now();
                }
                match ended.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                        // Who blocks whom is shown as of the window's end.
                        if let Ok(Taken::Snapshot(_)) = profiler.snapshot() {
                            profiler.read_futex_waits();
                        }
                        break;
                    }
                }
            }
            Ok(profiler.finish())
        });
        Running { end, thread, started: Instant::now() }
    }
}

impl Running {
    /// Ends it; what it saw. `window_start` is what the reading's time counts from.
    pub(super) fn finish(self, window_start: Instant) -> Reading<Profile> {
        // Where the thread has ended by itself, nobody listens.
        let _ended = self.end.send(());
        let at_s = self.started.saturating_duration_since(window_start).as_secs_f64();
        match self.thread.join() {
            Ok(Ok(profile)) => {
                let took: u64 = profile.snapshots.iter().map(|cost| cost.snapshot_us).sum();
                let took_ms = Duration::from_micros(took).as_secs_f64() * 1000.0;
                Reading::Available { at_s, took_ms, value: profile }
            }
            Ok(Err(why)) => Reading::Unavailable(why),
            Err(_) => Reading::Unavailable(Unavailable::because("the profiler failed; please report it")),
        }
    }
}

fn unavailable(error: &spindoctor_stacks::Error) -> Unavailable {
    match error {
        spindoctor_stacks::Error::Unavailable { because, unlock, .. } => {
            Unavailable::because(because.clone()).unlock(unlock.clone())
        }
        other => Unavailable::because(other.to_string()),
    }
}
