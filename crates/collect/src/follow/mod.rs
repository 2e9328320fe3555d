//! Endless sampling: what `watch` does for a window, for months.
//!
//! In: a target and [`FollowOptions`]. Out: a [`Follower`], which yields samples on a grid of a second, probes ten
//! times a second, a [`Segment`] wherever the clock or the server process is another one, and a [`Gap`] wherever the
//! server said nothing. Each source is asked at its own pace ([`Pace`]), slows itself down where its answers become
//! expensive, and says so. Four run side by side: the sampler, which keeps the grid and reads the host; the server's
//! half, a task that may wait for answers; the probe, on a thread of its own, so that nothing done here is taken for
//! the server's slowness; and the caller.
//!
//! # Endless sampling
//!
//! `crates/collect/src/follow/` is `watch` without an end. One sample of the server is the same code for both (`round.rs`);
//! they differ in who has a turn, and in what waits for a late answer: a window's sample waits for its own, so that its first
//! and its last are whole; endless sampling goes on, and has the answer in the sample that is current then.
//!
//! Both stand beside each other because little else would be common to them. Taken as `follow` with an end, `watch` would keep
//! its schedule (any period down to 10 ms, a last sample off the grid, or at once where the caller ends the window), its rule of
//! turns (rests and strikes, but never at an end), its wait for late answers and its one try to connect, each as a second
//! case within the sampler; and it would pass over what makes up the rest of `follow`: paces, segments, restarts, gaps and the probe.
//! What is the same stands once, below both: the asker, the round, the logins, and the server's process with the reading of
//! its host (`server_host.rs`).
//!
//! 1. **Who has a turn** is decided on a grid of a second (`sampler.rs`, `sources.rs`). Each source says in its `SOURCE` how often
//!    it is asked, from when on an answer is expensive, and how rarely it may be asked. An expensive source slows itself down and
//!    says so (`pace.rs`, pure).
//! 2. **The host is read on time, the server when it answers** (`server.rs`, a task of its own). A sample waits for answers until
//!    the next one is due; later ones stand in the sample that is current then, with their own time. Whatever was due and did
//!    not come is `Unavailable` with the reason.
//! 3. **Segments** hold one clock and one server process. Times are counted by the monotonic clock; a wall clock that was set by
//!    more than a second begins a new segment (`clock.rs`, pure), and so does another server process: after each login its start
//!    and its name are compared (`identity.rs`).
//! 4. **The probe** (`probe.rs`) has a thread and a connection of its own, so that nothing that happens here is taken for the
//!    server's slowness. Of a MySQL on this host it reads its counters in the server's memory (`counters.rs`). A server without a free connection is entered by its administrators' port (`door.rs`).
//! 5. **A connection that is given up stays with a server that hangs in it.** So each reconnect waits longer that none
//!    of it was answered (`backoff.rs`), and a source over which sessions were lost rests, over new sessions too.
//! 6. **The ring of stacks** (`crates/stacks/src/profiler/ring.rs`) is a profiler that drops what is too old, looks
//!    more often for a while on request, and hands out the profile of any part of what it holds. Its tables are built
//!    again from what is still held whenever they have doubled.

mod backoff;
mod clock;
mod costs;
mod counters;
mod door;
mod identity;
mod note;
mod pace;
mod probe;
mod restart;
mod sampler;
mod server;
mod shared;
mod sources;
mod symbols;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use spindoctor_model::{Gap, Probe, RecordedSample, Segment};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

use crate::host::HostChoice;
use crate::mysql::{ConnectError, Target};
pub use crate::pace::{Pace, Period, paces};
pub use backoff::{Backoff, Reconnect};
pub use costs::PROBE;
pub use note::Note;
pub use pace::PaceChange;
use probe::Prober;
pub use restart::{Process, Restart};
use shared::Shared;
pub use spindoctor_model::SourceCost;

/// What is kept for a caller that does not ask for it: 20 s of samples and probes. Then samples wait and probes are
/// left out.
const MOST_WAITING: usize = 220;

/// How many connections endless sampling keeps: the sampler's and the probe's. One more is the caller's, where it looks at
/// locks ([`CONNECTIONS`]).
const OWN_CONNECTIONS: u64 = 2;

/// How many connections `record` keeps at most: the sampler's, the probe's, and one that looks at locks. They come in this
/// order where the account may have fewer.
pub const CONNECTIONS: u64 = OWN_CONNECTIONS + 1;

/// Whose host to read, and what to ask how often. Deadlines are the target's own.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// Whose process is the server. One that was named and has ended is looked for again.
    pub host: HostChoice,
    /// Stands for `/proc`.
    pub proc: PathBuf,
    /// Stands for `/sys`.
    pub sys: PathBuf,
    /// The number of the first segment.
    pub first_segment: u64,
    /// From one probe to the next; none where there is to be no probe.
    pub probe_every: Option<Duration>,
    /// How often each source is asked, by its name, in the order of the lists of sources.
    pub paces: Vec<(&'static str, Pace)>,
}

impl Default for FollowOptions {
    /// The live host, everything at its usual pace, ten probes a second.
    fn default() -> Self {
        Self {
            host: HostChoice::Find,
            proc: "/proc".into(),
            sys: "/sys".into(),
            first_segment: 1,
            probe_every: Some(probe::EVERY),
            paces: paces().collect(),
        }
    }
}

/// What endless sampling yields, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// What follows belongs to this segment: sampling began, the clock was set, or another server process answers. Where
    /// the server has not answered yet, the segment's server has no version, and `no_session` or `no_pid` say why.
    Segment(Segment),
    /// Another server process answers than before; the segment of it follows.
    Restart(Restart),
    /// What was read at one second of the grid. Where the server does not answer, its part says so.
    Sample(Box<RecordedSample>),
    /// The probe's question, asked at this time of the segment, in seconds, has no answer yet, though it usually has
    /// one long before: a snapshot of what blocks it must be taken now.
    Overdue(f64),
    /// What the probe was answered.
    Probe(Probe),
    /// The server said nothing; without an end it begins, with one it is over. Both have the same beginning.
    Gap(Gap),
    /// Something that the user should know.
    Note(Note),
    /// The login was refused, and none has ever worked: nothing follows. A program that tried on would lock the account.
    Refused(ConnectError),
}

/// Endless sampling of one server. Dropping it ends it.
#[derive(Debug)]
pub struct Follower {
    followed: Receiver<Followed>,
    shared: Shared,
    /// None where it has ended by itself.
    sampler: Option<JoinHandle<()>>,
}

impl Follower {
    /// Begins, within a tokio runtime. That there is no server yet is no error: it yields a gap, and goes on trying.
    pub fn start(target: Target, options: FollowOptions) -> Self {
        let (sender, followed) = channel(MOST_WAITING);
        let shared = Shared::new(target, &options, sender);
        let prober = options.probe_every.map(|every| Prober::new(shared.clone(), every));
        let sampler = tokio::spawn(sampler::run(shared.clone(), options, prober));
        Self { followed, shared, sampler: Some(sampler) }
    }

    /// What comes next. It has no end: none only where sampling itself has failed, behind what it had sent before.
    pub async fn next(&mut self) -> Option<Followed> {
        if let Some(sampler) = &mut self.sampler {
            tokio::select! {
                biased;
                followed = self.followed.recv() => return followed,
                _ended = sampler => {}
            }
            self.sampler = None;
            // The probe alone would go on for ever.
            self.shared.stop();
            self.followed.close();
        }
        self.followed.recv().await
    }

    /// What each source cost since the start, and how often it is asked now.
    pub fn costs(&self) -> Vec<SourceCost> {
        self.shared.costs.all()
    }

    /// When a time of the current segment was: what a ring of stacks knows its snapshots by. None before the first
    /// segment.
    pub fn instant_of(&self, at_s: f64) -> Option<Instant> {
        self.shared.instant_of(at_s)
    }

    /// During a stall: sources that show its cause are asked at their usual pace, however expensive they have become.
    pub fn hurry(&self, is_hurry: bool) {
        self.shared.hurry(is_hurry);
    }

    /// Leaves a connection of the caller's own out of the lists of threads, as the follower's own are.
    pub fn leave_out(&self, connection_id: u64) {
        self.shared.leave_out(connection_id);
    }

    /// True for a connection that is left out so.
    pub fn is_own(&self, connection_id: u64) -> bool {
        self.shared.is_own(connection_id)
    }

    /// Such a connection has ended: the server may give its number to somebody else after a restart.
    pub fn no_longer_leave_out(&self, connection_id: u64) {
        self.shared.no_longer_leave_out(connection_id);
    }

    /// Ends sampling and says goodbye to the server, where it answers within a query's deadline. What was not taken is
    /// lost.
    pub async fn finish(mut self) {
        self.shared.stop();
        self.followed.close();
        if let Some(sampler) = &mut self.sampler {
            // It does not panic; if it did, it has ended.
            let _ended = sampler.await;
        }
        self.shared.ended().await;
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(sampler) = &self.sampler {
            sampler.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Endpoint;

    #[tokio::test]
    async fn a_sampler_that_fails_is_the_end_behind_what_it_had_sent_although_the_probe_goes_on() {
        let target = Target::new(Endpoint::Socket("/nowhere".into()), "root");
        let (sender, followed) = channel(MOST_WAITING);
        let shared = Shared::new(target, &FollowOptions::default(), sender);
        let (of_sampler, of_probe) = (shared.clone(), shared.clone());
        let sampler = tokio::spawn(async move {
            of_sampler.send(Followed::Overdue(1.0)).await.unwrap();
        });
        let mut follower = Follower { followed, shared, sampler: Some(sampler) };
        assert_eq!(follower.next().await, Some(Followed::Overdue(1.0)));
        assert_eq!(follower.next().await, None);
        assert!(of_probe.send(Followed::Overdue(2.0)).await.is_err(), "the probe gets the order to end");
        assert_eq!(follower.next().await, None);
        follower.finish().await;
    }
}
