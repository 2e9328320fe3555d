//! Scenarios with a beginning: a calm server has a problem from a known instant on, for some seconds, and is calm
//! again.
//!
//! A scenario tests `doctor`, which examines a server that already has the problem; an onset tests `record`, which runs
//! before the problem begins. The onsets are the stalls that the text on performance stalls names, and overload.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::Flavor;

use super::{Scenario, Suffering};
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::load::clients::Clients;
use crate::server::{Server, ServerSpec};

/// Those who had to wait have their answers so soon after the suffering was let go: MariaDB purges on a second later, and
/// delays changes then.
const ANSWERS: Duration = Duration::from_secs(5);

/// How a scenario begins.
#[derive(Debug)]
pub struct Onset {
    /// What is done, in a sentence.
    pub story: &'static str,
    /// For how long the server suffers.
    pub lasts: Duration,
    /// The server.
    pub(super) spec: fn(Flavor) -> ServerSpec,
    /// Has its clients begin.
    pub(super) calm: BeginCalm,
    /// Makes it suffer.
    pub(super) begin: super::Begin,
    /// Ends it, with what does not end when it is dropped.
    pub(super) end: End,
}

pub(super) type BeginCalm = for<'a> fn(&'a Server) -> Pin<Box<dyn Future<Output = Result<Clients>> + 'a>>;
pub(super) type End = for<'a> fn(&'a Server, Suffering) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A server that is calm, under the load of its clients.
#[derive(Debug)]
pub struct Calm {
    onset: &'static Onset,
    clients: Clients,
    server: Server,
}

/// What was made, and what the server's clients had of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suffered {
    /// When it was asked for.
    pub asked: Timestamp,
    /// When a client first had to wait for an answer; none where nobody waited long.
    pub felt: Option<Timestamp>,
    /// When it was let go, or first felt where that was later: MariaDB delays changes when it purges what a snapshot has
    /// held back.
    pub ended: Timestamp,
}

impl Scenario {
    /// Starts the server of the scenario's onset, and its clients.
    ///
    /// # Errors
    /// The scenario has no onset, the server cannot be started, or cannot suffer so.
    pub async fn calm(&'static self, home: &Home, which: &Which, progress: Progress<'_>) -> Result<Calm> {
        let onset = self.onset.as_ref().ok_or(Error::NoOnset { scenario: self.name })?;
        let flavor = Installation::find(home, which, progress)?.version.flavor;
        if !self.flavors.contains(&flavor) {
            return Err(Error::NotOn { scenario: self.name, flavor });
        }
        let spec = ServerSpec { which: which.clone(), ..(onset.spec)(flavor) };
        let server = Server::start(home, &spec, progress).await?;
        let clients = (onset.calm)(&server).await?;
        Ok(Calm { onset, clients, server })
    }
}

impl Calm {
    /// For how long it suffers each time.
    pub fn suffers_for(&self) -> Duration {
        self.onset.lasts
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Makes it suffer once, and returns when it is calm again.
    ///
    /// # Errors
    /// A statement fails, or the disk cannot be slowed down.
    pub async fn suffer(&self) -> Result<Suffered> {
        let suffering = (self.onset.begin)(&self.server).await?;
        let asked = Timestamp::now() - suffering.began.elapsed();
        tokio::time::sleep(self.onset.lasts).await;
        (self.onset.end)(&self.server, suffering).await?;
        let let_go = Timestamp::now();
        tokio::time::sleep(ANSWERS).await;
        let felt = self.clients.felt_since(asked);
        Ok(Suffered { asked, felt, ended: felt.map_or(let_go, |felt| felt.max(let_go)) })
    }

    /// Ends the server and its clients.
    ///
    /// # Errors
    /// What the server leaves behind cannot be removed.
    pub fn stop(self) -> Result<()> {
        drop(self.clients);
        self.server.stop()
    }
}

/// The disk writes as fast as it can again.
pub(super) fn free_disk(
    server: &Server,
    suffering: Suffering,
) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
    drop(suffering);
    Box::pin(async { server.limit_writes(None) })
}

/// What was begun ends when it is dropped.
pub(super) fn with_its_sessions(
    _: &Server,
    suffering: Suffering,
) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
    drop(suffering);
    Box::pin(async { Ok(()) })
}
