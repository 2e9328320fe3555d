//! The lists of locks, read when something is suspicious, over a connection that stands: a server that is full lets no
//! new one in.

use std::time::{Duration, Instant};

use spindoctor_collect::host;
use spindoctor_collect::locks::Locks;
use spindoctor_collect::mysql::Target;
use spindoctor_model::{HostSample, Reading, Sample, ServerSample, ServerVersion};
use spindoctor_record::stall::suspicion::Reason;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// Looks may take a twentieth of one of the server's threads,
const SHARE: f64 = 0.05;
/// and so much at once after a while without: the first looks into a stall, of some milliseconds each, follow each other.
const AT_ONCE_S: f64 = 0.1;
/// Looks for which noise suffices leave this share of it to those that show who waits.
const KEPT_FOR_STRONG: f64 = 0.5;
/// InnoDB makes its copy of who waits anew when nobody has read the last one for 0.1 s (`CACHE_MIN_IDLE_TIME` in its
/// `trx0i_s.cc`): who asks sooner sees the old one, and keeps it alive.
const COPY_IS_NEW_AFTER: Duration = Duration::from_millis(105);
/// A server that refused or broke the session is asked again after this long.
const RECONNECT_AFTER: Duration = Duration::from_secs(5);

/// What the looker has to say.
pub(super) enum Looked {
    /// It has a connection, of this id.
    Connected(u64),
    /// That connection is gone.
    Lost(u64),
    /// What it saw.
    Saw(Box<Look>),
}

/// One look.
pub(super) struct Look {
    /// What the times of the readings count from.
    pub(super) clock: Instant,
    /// When the look began.
    pub(super) begun: Instant,
    /// How long it took.
    pub(super) took: Duration,
    /// Which server answered.
    pub(super) version: ServerVersion,
    /// What it answered.
    pub(super) server: ServerSample,
}

impl Look {
    /// What was read, as a sample of this time, when the clock of the readings began at that one.
    pub(super) fn sample(self, at_s: f64, clock_s: f64) -> Sample {
        let mut server = self.server;
        server.shift(clock_s);
        // One line of it was read: it says how many wait for rows, where listing them may cost too much. Whoever computes
        // a rate would take it for the whole status.
        server.status = Reading::NotAsked;
        Sample { at_s, server, host: HostSample::default() }
    }
}

/// Looks when it is told to; dropping it ends it.
pub(super) struct Looker {
    orders: Sender<Reason>,
    looked: Receiver<Looked>,
    task: JoinHandle<()>,
}

impl Looker {
    /// Begins, and connects.
    pub(super) fn start(target: Target, process: Option<host::Target>) -> Self {
        let (orders, ordered) = channel(1);
        let (sender, looked) = channel(4);
        let task = tokio::spawn(Task { target, process, sender, open: None }.run(ordered));
        Self { orders, looked, task }
    }

    /// Looks now; where it is busy or rests, it does not.
    pub(super) fn look(&self, reason: Reason) {
        // A full channel is the order that it has not begun with.
        let _ordered = self.orders.try_send(reason);
    }

    /// What it has to say next.
    pub(super) async fn next(&mut self) -> Looked {
        match self.looked.recv().await {
            Some(looked) => looked,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Task {
    target: Target,
    process: Option<host::Target>,
    sender: Sender<Looked>,
    open: Option<Open>,
}

/// How long the server may be busy with looks.
struct Allowance {
    left_s: f64,
    /// When the last look ended.
    asked_until: Instant,
}

impl Allowance {
    /// All that it can be.
    fn new(now: Instant) -> Self {
        Self { left_s: AT_ONCE_S, asked_until: now.checked_sub(COPY_IS_NEW_AFTER).unwrap_or(now) }
    }

    fn is_left(&self, now: Instant, reason: Reason) -> bool {
        let kept_s = match reason {
            Reason::Weak => KEPT_FOR_STRONG * AT_ONCE_S,
            Reason::Strong => 0.0,
        };
        self.grown(now) > kept_s
    }

    fn grown(&self, now: Instant) -> f64 {
        let since_s = now.saturating_duration_since(self.asked_until).as_secs_f64();
        (self.left_s + since_s * SHARE).min(AT_ONCE_S)
    }

    /// A look takes what it took, also where it took more than was left.
    fn take(&mut self, begun: Instant, ended: Instant) {
        let took_s = ended.saturating_duration_since(begun).as_secs_f64();
        (self.left_s, self.asked_until) = (self.grown(begun) - took_s, ended);
    }
}

struct Open {
    session: Locks,
    clock: Instant,
}

impl Task {
    async fn run(mut self, mut orders: Receiver<Reason>) {
        let mut allowance = Allowance::new(Instant::now());
        loop {
            if self.open.is_none() {
                self.connect().await;
                if self.open.is_none() {
                    tokio::time::sleep(RECONNECT_AFTER).await;
                    continue;
                }
            }
            let Some(reason) = orders.recv().await else { return };
            if !allowance.is_left(Instant::now(), reason) {
                continue;
            }
            tokio::time::sleep_until((allowance.asked_until + COPY_IS_NEW_AFTER).into()).await;
            let begun = Instant::now();
            if self.look(begun).await.is_err() {
                return;
            }
            allowance.take(begun, Instant::now());
        }
    }

    async fn connect(&mut self) {
        // Why there is no session is told by those that sample.
        if let Ok(session) = Locks::connect(&self.target, self.process.clone()).await {
            let _heard = self.sender.send(Looked::Connected(session.connection_id())).await;
            self.open = Some(Open { session, clock: Instant::now() });
        }
    }

    /// One look. An error where nobody listens any more.
    async fn look(&mut self, begun: Instant) -> Result<(), ()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let looked = match open.session.read().await {
            Ok(server) => Looked::Saw(Box::new(Look {
                clock: open.clock,
                begun,
                took: begun.elapsed(),
                version: open.session.version(),
                server,
            })),
            Err(_) => {
                let lost = open.session.connection_id();
                self.open = None;
                Looked::Lost(lost)
            }
        };
        self.sender.send(looked).await.map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_looks_follow_each_other_and_all_take_a_twentieth() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let mut allowance = Allowance::new(zero);
        let mut looks = Vec::new();
        // One of 40 ms is wanted every 100 ms.
        for ms in (0..60_000).step_by(100) {
            if allowance.is_left(at(ms), Reason::Strong) {
                allowance.take(at(ms), at(ms + 40));
                looks.push(ms);
            }
        }
        assert_eq!(looks[..3], [0, 100, 200]);
        let busy_ms = looks.len() * 40;
        assert!((2500..=3140).contains(&busy_ms), "{busy_ms}");
    }

    #[test]
    fn looks_that_noise_leads_to_leave_room_for_a_stall() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let (mut allowance, mut looks) = (Allowance::new(zero), 0);
        // A busy machine makes each take 40 ms, and gives reason to one every half second.
        for ms in (0..60_000).step_by(500) {
            if allowance.is_left(at(ms), Reason::Weak) {
                allowance.take(at(ms), at(ms + 40));
                looks += 1;
            }
            assert!(allowance.is_left(at(ms + 40), Reason::Strong), "{ms}");
        }
        assert!((60..119).contains(&looks), "{looks}");
    }
}
