//! The lists of locks, read when something is suspicious, over a connection that is kept open: a full server accepts no
//! new one.

use std::time::{Duration, Instant};

use spindoctor_collect::follow::{CONNECTIONS, Reconnect};
use spindoctor_collect::host::{self, HostChoice};
use spindoctor_collect::locks::Locks;
use spindoctor_collect::mysql::Target;
use spindoctor_collect::mysql::logins::{self, Again};
use spindoctor_model::{HostSample, Reading, Sample, ServerSample, ServerVersion};
use spindoctor_stalls::suspicion::Reason;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Looks may take a twentieth of one of the server's threads,
const SHARE: f64 = 0.05;
/// and so much at once after a while without: the first looks into a stall, of some milliseconds each, follow each other.
const AT_ONCE_S: f64 = 0.1;
/// Looks for which noise suffices leave this share of it to those that show who waits.
const KEPT_FOR_STRONG: f64 = 0.5;
/// InnoDB makes a new copy of who waits when nobody has read the last one for 0.1 s (`CACHE_MIN_IDLE_TIME` in its
/// `trx0i_s.cc`): who asks sooner sees the old one, and keeps it alive.
const COPY_IS_NEW_AFTER: Duration = Duration::from_millis(105);
/// A look that loses its connection takes twice as much as the one before it did, and so many times as much at most: one of 2 s,
/// which is a question's usual deadline, comes every ten minutes then. The server's thread stays with what it cannot answer,
/// and its connection too.
const MOST_TIMES: u32 = 16;
/// A connection that has nothing to do is tried this often, so that the server does not close it: `wait_timeout` is 8
/// hours where nobody sets it, and rarely below some 15 s. A broken session is noticed before it is needed. A ping
/// takes the server 0.02 ms.
const PING_EVERY: Duration = Duration::from_secs(10);

/// What the looker has to say.
pub enum Looked {
    /// It has a connection, of this id.
    Connected(u64),
    /// That connection is gone.
    Lost(u64),
    /// What it saw.
    Saw(Box<Look>),
}

/// One look.
pub struct Look {
    /// What the times of the readings count from.
    pub clock: Instant,
    /// When the look began.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
    /// Which server answered.
    pub version: ServerVersion,
    /// What it answered.
    pub server: ServerSample,
}

impl Look {
    /// What was read, as a sample of this time, when the clock of the readings began at that one.
    pub fn sample(self, at_s: f64, clock_s: f64) -> Sample {
        let mut server = self.server;
        server.shift(clock_s);
        // One line of it was read: it says how many wait for rows, where listing them may cost too much. Code that
        // computes a rate would take it for the whole status.
        server.status = Reading::NotAsked;
        Sample { at_s, server, host: HostSample::default() }
    }
}

/// Takes a snapshot on request; dropping it ends it.
pub struct Looker {
    orders: Sender<Reason>,
    looked: Receiver<Looked>,
    task: JoinHandle<()>,
}

impl Looker {
    /// Begins, and connects. Whose process is the server is looked up with each connection.
    pub fn start(target: Target, host: HostChoice) -> Self {
        let (orders, ordered) = channel(1);
        let (sender, looked) = channel(4);
        let (reconnect, again_in) = (Reconnect::default(), Duration::ZERO);
        let task = tokio::spawn(Task { target, host, sender, open: None, reconnect, again_in }.run(ordered));
        Self { orders, looked, task }
    }

    /// Looks now; where it is busy or rests, it does not.
    pub fn look(&self, reason: Reason) {
        // A full channel is the order that it has not begun with.
        let _ordered = self.orders.try_send(reason);
    }

    /// What it has to say next.
    pub async fn next(&mut self) -> Looked {
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
    host: HostChoice,
    sender: Sender<Looked>,
    open: Option<Open>,
    reconnect: Reconnect,
    /// Where there is no connection, how long it waits for the next try.
    again_in: Duration,
}

/// How long the server may be busy with looks.
struct Allowance {
    left_s: f64,
    /// When the last look ended.
    asked_until: Instant,
    /// So many times of what it took a look that loses its connection takes.
    times: u32,
}

impl Allowance {
    /// All that it can be.
    fn new(now: Instant) -> Self {
        let asked_until = now.checked_sub(COPY_IS_NEW_AFTER).unwrap_or(now);
        Self { left_s: AT_ONCE_S, asked_until, times: 1 }
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

    /// A look takes what it took, also where it took more than was left; and more where it lost its connection.
    fn take(&mut self, begun: Instant, ended: Instant, is_answered: bool) {
        let times = if is_answered { 1 } else { self.times };
        self.times = if is_answered { 1 } else { (self.times * 2).min(MOST_TIMES) };
        let took_s = ended.saturating_duration_since(begun).as_secs_f64() * f64::from(times);
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
        // Those that sample come first: they learn how many connections the account may have.
        if self.target.logins.limited().await.room(CONNECTIONS) < CONNECTIONS {
            return;
        }
        loop {
            if self.open.is_none() {
                tokio::time::sleep(self.again_in).await;
                self.connect().await;
                continue;
            }
            let Ok(order) = timeout(PING_EVERY, orders.recv()).await else {
                if self.ping().await.is_err() {
                    return;
                }
                continue;
            };
            let Some(reason) = order else { return };
            if !allowance.is_left(Instant::now(), reason) {
                continue;
            }
            tokio::time::sleep_until((allowance.asked_until + COPY_IS_NEW_AFTER).into()).await;
            let begun = Instant::now();
            let Ok(is_answered) = self.look(begun).await else { return };
            allowance.take(begun, Instant::now(), is_answered);
        }
    }

    async fn connect(&mut self) {
        match Locks::connect(&self.target, self.process()).await {
            Ok(session) => {
                let _sent = self.sender.send(Looked::Connected(session.connection_id())).await;
                self.open = Some(Open { session, clock: Instant::now() });
            }
            // The sampler reports why there is no session.
            Err(_) => {
                self.again_in = match self.target.logins.again() {
                    Some(Again::In(wait)) => wait,
                    Some(Again::Never) => logins::WAIT,
                    None => self.reconnect.failed(),
                }
            }
        }
    }

    /// The server's process as it is now: the one that was named, as long as it is there, else the one that listens.
    fn process(&self) -> Option<host::Target> {
        let pid = self.host.process_here(&self.target).ok()?;
        Some(host::Target::live(pid))
    }

    /// One look, and whether it was answered. An error where nobody listens any more.
    async fn look(&mut self, begun: Instant) -> Result<bool, ()> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let Ok(server) = open.session.read().await else {
            self.lose().await?;
            return Ok(false);
        };
        let (clock, version) = (open.clock, open.session.version());
        let look = Look { clock, begun, took: begun.elapsed(), version, server };
        self.reconnect.answered();
        self.sender.send(Looked::Saw(Box::new(look))).await.map_err(drop)?;
        Ok(true)
    }

    /// Keeps the connection, and sees whether it is still there. An error where nobody listens any more.
    async fn ping(&mut self) -> Result<(), ()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        match open.session.ping().await {
            Ok(()) => {
                self.reconnect.answered();
                Ok(())
            }
            Err(_) => self.lose().await,
        }
    }

    /// The connection is of no more use.
    async fn lose(&mut self) -> Result<(), ()> {
        let Some(Open { session, .. }) = self.open.take() else { return Ok(()) };
        self.again_in = self.reconnect.failed();
        self.sender.send(Looked::Lost(session.connection_id())).await.map_err(drop)
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
                allowance.take(at(ms), at(ms + 40), true);
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
                allowance.take(at(ms), at(ms + 40), true);
                looks += 1;
            }
            assert!(allowance.is_left(at(ms + 40), Reason::Strong), "{ms}");
        }
        assert!((60..119).contains(&looks), "{looks}");
    }

    #[test]
    fn looks_that_lose_their_connections_become_rare_until_one_is_answered() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let (mut allowance, mut ended_ms, mut looks) = (Allowance::new(zero), 0, Vec::new());
        // A stall of an hour asks for one every half second.
        for ms in (0..3_600_000).step_by(500) {
            if ms >= ended_ms && allowance.is_left(at(ms), Reason::Strong) {
                ended_ms = ms + 2000;
                allowance.take(at(ms), at(ended_ms), false);
                looks.push(ms / 1000);
            }
        }
        assert!((8..=10).contains(&looks.len()) && looks[1] < 60, "{looks:?}");
        let later = ended_ms + 700_000;
        assert!(allowance.is_left(at(later), Reason::Strong));
        allowance.take(at(later), at(later + 40), true);
        assert!(allowance.is_left(at(later + 40), Reason::Strong), "it goes on as before");
    }
}
