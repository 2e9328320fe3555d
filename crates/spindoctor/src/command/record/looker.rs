//! The lists of locks, read when something is suspicious, over a connection that stands: a server that is full lets no
//! new one in.

use std::time::{Duration, Instant};

use spindoctor_collect::host;
use spindoctor_collect::locks::Locks;
use spindoctor_collect::mysql::Target;
use spindoctor_model::{HostSample, Reading, Sample, ServerSample, ServerVersion};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// After a look nobody looks again for so many times as long as it took: a twentieth of one of the server's threads.
const REST: u32 = 20;
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
    orders: Sender<()>,
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
    pub(super) fn look(&self) {
        // A full channel is the order that it has not begun with.
        let _ordered = self.orders.try_send(());
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

struct Open {
    session: Locks,
    clock: Instant,
}

impl Task {
    async fn run(mut self, mut orders: Receiver<()>) {
        let mut rests_until = Instant::now();
        loop {
            if self.open.is_none() {
                self.connect().await;
                if self.open.is_none() {
                    tokio::time::sleep(RECONNECT_AFTER).await;
                    continue;
                }
            }
            if orders.recv().await.is_none() {
                return;
            }
            let begun = Instant::now();
            if begun >= rests_until && self.look(begun).await.is_err() {
                return;
            }
            if begun >= rests_until {
                let took = begun.elapsed();
                rests_until = begun + took + took * REST;
            }
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
