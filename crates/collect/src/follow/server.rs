//! The server's half: a task that sends the requested queries, so that a missing answer blocks nobody else.
//!
//! In: [`Request`]s, one at a time. Out: one [`Reply`] each. When what is due is left to the sampler.

use std::time::Instant;

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerSample, ServerVersion};
use tokio::sync::mpsc::{Receiver, Sender};

use super::identity::Identity;
use super::shared::Shared;
use crate::asking::{Asker, Known};
use crate::mysql::ConnectError;
use crate::round::{Came, round};

/// What the task is to do.
#[derive(Debug)]
pub(super) enum Request {
    /// Connect, and ask who it is.
    Connect,
    /// Ask these sources.
    Ask {
        /// For each of the server's sources: whether it is asked.
        has_turn: Vec<bool>,
        /// What the times of the answers count from.
        origin: Instant,
    },
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// There is a session.
    Connected { identity: Box<Identity>, notes: Vec<String> },
    /// There is none.
    NotConnected(ConnectError),
    /// Sources were asked.
    Asked(Box<Asked>),
}

/// What came of a round of questions.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) sample: ServerSample,
    /// What came of each source's turn, by its place in the list.
    pub(super) came: Vec<(usize, Came)>,
    /// Why the session broke, where it did.
    pub(super) lost: Option<String>,
}

/// Handles requests until nobody sends any more.
pub(super) async fn run(shared: Shared, mut requests: Receiver<Request>, replies: Sender<Reply>) {
    let mut server: Option<Server> = None;
    while let Some(request) = requests.recv().await {
        let reply = match request {
            Request::Connect => match connect(&shared).await {
                Ok((connected, reply)) => {
                    server = Some(connected);
                    reply
                }
                Err(error) => Reply::NotConnected(error),
            },
            Request::Ask { has_turn, origin } => {
                let asked = match &mut server {
                    Some(server) => server.round(&has_turn, origin).await,
                    None => Asked { lost: Some("there is no session".to_owned()), ..Asked::default() },
                };
                Reply::Asked(Box::new(asked))
            }
        };
        if replies.send(reply).await.is_err() {
            break;
        }
    }
    if let Some(server) = server {
        server.asker.finish().await;
    }
}

async fn connect(shared: &Shared) -> Result<(Server, Reply), ConnectError> {
    let door = &shared.door;
    let limits = door.target().limits;
    // Whichever server answers now is the one that is followed; a session of another one is then given up (the probe's, the caller's).
    door.target().logins.server().forget();
    let mut session = door.connect(&limits).await?;
    let silent = || ConnectError::Silent { address: door.target().address(), after: limits.query };
    let identity = Identity::ask(&mut session, door.target()).await.map_err(|_| silent())?;
    door.set_admin(identity.admin.clone());
    door.target().logins.set_limit(identity.most_connections);
    let notes = session.notes().to_vec();
    let version = identity.version.unwrap_or_default();
    // The probe does not count them among the server's threads that run.
    let asker = Asker::over(session).counted_in(shared.asking.clone());
    let server = Server { asker, version, variables: None, uptime_s: 0.0 };
    Ok((server, Reply::Connected { identity: Box::new(identity), notes }))
}

/// A server that is connected to.
struct Server {
    asker: Asker,
    version: ServerVersion,
    /// As they were answered last: they say which sources have an answer.
    variables: Option<NamedValues>,
    /// The last `Uptime`.
    uptime_s: f64,
}

impl Server {
    /// Asks those whose turn it is, in the order of the list.
    async fn round(&mut self, has_turn: &[bool], origin: Instant) -> Asked {
        let mut asked = Asked::default();
        let known = Known { version: self.version, variables: self.variables.as_ref(), origin };
        let came = |place, came| asked.came.push((place, came));
        round(&mut self.asker, has_turn, known, &mut asked.sample, came).await;
        self.look_at(&asked.sample);
        asked.lost = (!self.asker.has_session()).then(|| self.asker.lost().to_owned());
        asked
    }

    /// Keeps the variables, and sees where a proxy has put another server process behind the session.
    fn look_at(&mut self, sample: &ServerSample) {
        if let Some(variables) = sample.variables.value() {
            self.variables = Some(variables.clone());
        }
        let uptime_s = sample.status.value().and_then(|status| status.number("Uptime"));
        if let Some(uptime_s) = uptime_s {
            if uptime_s + 1.0 < self.uptime_s {
                self.asker.lose("the server was restarted behind the session".to_owned());
            }
            self.uptime_s = uptime_s;
        }
    }
}
