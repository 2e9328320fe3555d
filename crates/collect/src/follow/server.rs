//! The server's half: a task that sends the requested queries, so that a missing answer blocks nobody else.
//!
//! In: [`Request`]s, one at a time. Out: one [`Reply`] each. When what is due is left to the sampler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerSample, ServerVersion, Unavailable};
use tokio::sync::mpsc::{Receiver, Sender};

use super::identity::Identity;
use super::pace::Taken;
use super::shared::Shared;
use crate::asking::{self, Asker, Known, RefusalKind};
use crate::mysql::{self, ConnectError};

/// What the task is to do.
#[derive(Debug)]
pub(super) enum Request {
    /// Connect, and ask who it is.
    Connect,
    /// Ask these sources.
    Ask {
        /// For each of [`mysql::SOURCES`].
        turns: Vec<Turn>,
        /// What the times of the answers count from.
        origin: Instant,
    },
}

/// Whether a source has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is asked.
    Now,
    /// It is asked where that other source has its turn: its place in the list.
    With(usize),
    /// It is not asked.
    NotNow,
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
    /// Of each source that had its turn, in the order of the list.
    pub(super) outcomes: Vec<SourceOutcome>,
    /// Why the session broke, where it did.
    pub(super) lost: Option<String>,
}

/// What came of one source's turn.
#[derive(Debug)]
pub(super) struct SourceOutcome {
    /// Its place in the list.
    pub(super) place: usize,
    pub(super) outcome: Outcome,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was asked, and the server said something; what that took.
    Taken(Taken),
    /// It was asked, and there was no answer for so long: the session is lost over it.
    NoAnswer(Duration),
    /// It was not asked: what was answered before says enough.
    NotAsked,
    /// There is no use in asking it over this session: why, or none where another source has the same.
    GivenUp(Option<Unavailable>),
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
            Request::Ask { turns, origin } => {
                let asked = match &mut server {
                    Some(server) => server.round(&turns, origin).await,
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
    let mut session = door.connect(&limits).await?;
    let silent = || ConnectError::Silent { address: door.target().address(), after: limits.query };
    let identity = Identity::ask(&mut session, door.target()).await.map_err(|_| silent())?;
    door.set_admin(identity.admin.clone());
    door.target().logins.set_limit(identity.most_connections);
    let notes = session.notes().to_vec();
    let version = identity.version.unwrap_or_default();
    let asking = shared.asking.clone();
    let server = Server { asker: Asker::over(session), version, variables: None, uptime_s: 0.0, asking };
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
    /// Questions that are being answered: the probe does not count them among the server's threads that run.
    asking: Arc<AtomicU64>,
}

impl Server {
    /// Asks those whose turn it is, in the order of the list.
    async fn round(&mut self, turns: &[Turn], origin: Instant) -> Asked {
        let mut asked = Asked::default();
        let mut had_turn = vec![false; turns.len()];
        for (place, (source, turn)) in mysql::SOURCES.iter().zip(turns).enumerate() {
            let is_asked = match turn {
                Turn::Now => true,
                Turn::With(other) => had_turn[*other],
                Turn::NotNow => false,
            };
            had_turn[place] = is_asked;
            if !is_asked {
                continue;
            }
            let known = Known { version: self.version, variables: self.variables.as_ref(), origin };
            self.asking.fetch_add(1, Ordering::Relaxed);
            let Ok(came) = asking::turn(&mut self.asker, source, known, &mut asked.sample).await;
            self.asking.fetch_sub(1, Ordering::Relaxed);
            let outcome = match came {
                asking::Outcome::HasAnswer => continue,
                asking::Outcome::Elsewhere => Outcome::GivenUp(None),
                asking::Outcome::Answered { is_asked: false, .. } | asking::Outcome::NotNow(_) => {
                    Outcome::NotAsked
                }
                asking::Outcome::Answered { rows, answer, .. } => {
                    let took = Duration::from_secs_f64(answer.took_ms / 1e3);
                    Outcome::Taken(Taken { took, rows: rows.len(), in_time: true })
                }
                asking::Outcome::Refused { refusal, took } => match refusal.kind {
                    RefusalKind::ForGood => Outcome::GivenUp(Some(refusal.why)),
                    RefusalKind::TooSlow if self.asker.has_session() => {
                        Outcome::Taken(Taken { took, rows: 0, in_time: false })
                    }
                    RefusalKind::TooSlow => Outcome::NoAnswer(took),
                    RefusalKind::Other => Outcome::NotAsked,
                },
                asking::Outcome::Cannot(why) => Outcome::GivenUp(Some(why)),
            };
            asked.outcomes.push(SourceOutcome { place, outcome });
        }
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
