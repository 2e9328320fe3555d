//! The guardian: a process of its own that puts the old values back when the tuner is gone.
//!
//! The tuner starts it, and sends it over a pipe the address of the server and the path of the journal: its arguments
//! and environment hold no password and nothing else. A line comes every half second; the end of the pipe, or silence
//! for four and a half seconds, means that the tuner is dead or stopped. Then the guardian takes the lock on a fresh
//! connection, gives the variables their old values, drops the EVENT, removes the journal, and ends. It tries as long
//! as the journal exists; a lock that some other connection holds does not stop it ([`crate::apply`]).

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spindoctor_collect::mysql::{ConnectError, Endpoint, Limits, Secret, SslMode, Target, Tls, Trust};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};
use zeroize::{Zeroize as _, Zeroizing};

use crate::apply::undo::{EMPTYING_ONCE, Giver, give_back};
use crate::apply::writer::Writer;
use crate::apply::{ApplyError, Restored, UndoBack, finish, right_to_give_back, take_away};
use crate::interrupt::Interrupts;
use crate::journal::Journal;
use crate::lease::IDLE_S;
use crate::undo::journal::path_beside;

/// The argument that makes the program a guardian.
pub const ARGUMENT: &str = "tune-guardian";
/// What it says once it has been on the server.
pub(crate) const READY: &str = "ready";
/// The tuner's line while it lives.
pub(crate) const ALIVE: &str = "alive\n";
/// The tuner's line when there is nothing to guard any more.
pub(crate) const GO_HOME: &str = "go home\n";

/// A tuner that says nothing for so long is stopped: half a second more than after which the server takes the lock from it.
const SILENCE: Duration = Duration::from_millis(IDLE_S as u64 * 1000 + 500);
/// Between two tries; later ones wait longer, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(200);
/// A server that comes back has its values after this, at the latest.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A server on this host whose socket nobody listens on for so long is down, and its settings with it: when it starts
/// it has those of its option file. The journal stays, so that the next tuner there says so.
const DOWN: Duration = Duration::from_secs(60);

/// The first line of the pipe: which server, and which journal.
#[derive(Debug, Clone)]
pub(crate) struct Charge {
    pub(crate) target: Target,
    pub(crate) journal: PathBuf,
    /// See [`Journal::server`].
    pub(crate) server: String,
}

/// The same, as JSON. The one place where a password is written, into a pipe between two processes of one user.
#[derive(Serialize, Deserialize)]
struct Line {
    socket: Option<PathBuf>,
    host: String,
    port: u16,
    user: String,
    password: Option<Zeroizing<String>>,
    database: Option<String>,
    ssl_mode: String,
    ssl_ca: Option<PathBuf>,
    ssl_cert: Option<PathBuf>,
    ssl_key: Option<PathBuf>,
    server_public_key: Option<PathBuf>,
    get_server_public_key: bool,
    trust_unverified_server: bool,
    cleartext: bool,
    connect_ms: u64,
    query_ms: u64,
    journal: PathBuf,
    server: String,
}

impl Charge {
    pub(crate) fn to_line(&self) -> io::Result<Zeroizing<String>> {
        let target = &self.target;
        let (socket, host, port) = match &target.endpoint {
            Endpoint::Socket(path) => (Some(path.clone()), String::new(), 0),
            Endpoint::Tcp { host, port } => (None, host.clone(), *port),
        };
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        // Room enough, so that it does not move and leave a copy of the password behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(16 << 10));
        let line = Line {
            socket,
            host,
            port,
            user: target.user.clone(),
            password: target.password.as_ref().map(|password| Zeroizing::new(password.expose().to_owned())),
            database: target.database.clone(),
            ssl_mode: target.tls.mode.name().to_owned(),
            ssl_ca: target.tls.ca.clone(),
            ssl_cert: target.tls.cert.clone(),
            ssl_key: target.tls.key.clone(),
            server_public_key: target.trust.server_public_key.clone(),
            get_server_public_key: target.trust.get_server_public_key,
            trust_unverified_server: target.trust.unverified_server,
            cleartext: target.cleartext,
            connect_ms: ms(target.limits.connect),
            query_ms: ms(target.limits.query),
            journal: self.journal.clone(),
            server: self.server.clone(),
        };
        serde_json::to_writer(&mut *bytes, &line)?;
        bytes.push(b'\n');
        String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(io::Error::other)
    }

    fn from_line(line: &str) -> io::Result<Self> {
        // serde's own words may show what was read, the password too.
        let line: Line =
            serde_json::from_str(line).map_err(|_| io::Error::other("this is no charge of a guardian"))?;
        let endpoint = match line.socket {
            Some(path) => Endpoint::Socket(path),
            None => Endpoint::Tcp { host: line.host, port: line.port },
        };
        let mode: SslMode = line.ssl_mode.parse().map_err(io::Error::other)?;
        let mut target = Target::new(endpoint, line.user);
        target.password = line.password.as_deref().map(|password| Secret::from(password.as_str()));
        target.database = line.database;
        target.tls = Tls { mode, ca: line.ssl_ca, cert: line.ssl_cert, key: line.ssl_key };
        target.trust = Trust {
            server_public_key: line.server_public_key,
            get_server_public_key: line.get_server_public_key,
            unverified_server: line.trust_unverified_server,
        };
        target.cleartext = line.cleartext;
        target.limits = Limits {
            connect: Duration::from_millis(line.connect_ms),
            query: Duration::from_millis(line.query_ms),
        };
        Ok(Self { target, journal: line.journal, server: line.server })
    }
}

/// Guards with standard input as the pipe from the tuner and standard output as the one to it. Needs a tokio runtime; `say`
/// gets what somebody who comes later should know.
///
/// # Errors
/// They are no pipes, or there was no charge.
pub async fn run(say: impl FnMut(&str)) -> io::Result<()> {
    let from_tuner = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let answer = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    guard(BufReader::new(from_tuner), answer, say).await
}

/// Guards until the tuner says that there is nothing to guard any more, or puts everything back in its place.
async fn guard(
    mut pipe: impl AsyncBufRead + Unpin,
    mut answer: impl AsyncWrite + Unpin,
    mut say: impl FnMut(&str),
) -> io::Result<()> {
    // Ctrl-C in the tuner's terminal is for the tuner; so is what ends its service. Nothing but the pipe counts here.
    let _alone = rustix::process::setsid();
    let _deaf = Interrupts::listen()?;
    let mut line = String::new();
    pipe.read_line(&mut line).await?;
    let charge = Charge::from_line(&line);
    line.zeroize();
    let charge = charge?;
    let said = match visit(&charge).await {
        Ok(()) => READY.to_owned(),
        Err(error) => error.to_string().replace('\n', " "),
    };
    answer.write_all(format!("{said}\n").as_bytes()).await?;
    answer.flush().await?;
    if said != READY {
        return Ok(());
    }
    let mut listening = Listening { pipe, is_open: true };
    while let Some(gone) = listening.until_gone().await {
        if let Some(outcome) = put_back(&charge, &mut listening).await {
            if let Some(what) = outcome.message() {
                say(&format!("the tuner of {} {gone}; {what}", charge.target.address()));
            }
            return Ok(());
        }
    }
    Ok(())
}

/// Shows that it can reach the server, and that it is the right one.
async fn visit(charge: &Charge) -> Result<(), ApplyError> {
    let mut writer = Writer::connect(&charge.target).await?;
    let found = writer.facts().await?.server;
    writer.close().await;
    if found == charge.server {
        Ok(())
    } else {
        Err(ApplyError::OtherServer { expected: charge.server.clone(), found })
    }
}

/// The pipe.
struct Listening<R> {
    pipe: R,
    is_open: bool,
}

impl<R: AsyncBufRead + Unpin> Listening<R> {
    /// Waits until the tuner is gone, and says how; none where it sends the guardian home.
    async fn until_gone(&mut self) -> Option<&'static str> {
        loop {
            match self.line(SILENCE).await {
                FromTuner::Alive => {}
                FromTuner::GoHome => return None,
                FromTuner::End => return Some("ended without a word"),
                FromTuner::Nothing => return Some("was stopped"),
            }
        }
    }

    async fn line(&mut self, patience: Duration) -> FromTuner {
        if !self.is_open {
            sleep(patience).await;
            return FromTuner::Nothing;
        }
        // A timeout may cut a line into two: what is left of it counts as a sign of life all the same.
        let mut line = String::new();
        match timeout(patience, self.pipe.read_line(&mut line)).await {
            Err(_) => FromTuner::Nothing,
            Ok(Ok(read)) if read > 0 && line.ends_with(GO_HOME) => FromTuner::GoHome,
            Ok(Ok(read)) if read > 0 => FromTuner::Alive,
            Ok(_) => {
                self.is_open = false;
                FromTuner::End
            }
        }
    }
}

enum FromTuner {
    Alive,
    GoHome,
    End,
    Nothing,
}

/// What came of it.
enum Outcome {
    /// Somebody else has put everything back, and taken the journal away.
    Done,
    /// It was meant to stay as it is.
    Kept,
    PutBack(Restored),
    /// Undo tablespaces were dropped, or are to stay.
    Undo(UndoBack),
    /// The server does not run any more.
    Down,
}

impl Outcome {
    /// This one, and what was said before it.
    fn after(self, before: Self) -> Self {
        match (before, self) {
            (Self::PutBack(restored), Self::Undo(back)) => {
                Self::PutBack(Restored { undo: Some(back), ..restored })
            }
            (_, outcome) => outcome,
        }
    }

    fn message(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Kept => Some("it had decided to keep its values".to_owned()),
            Self::PutBack(restored) => Some(restored.to_string()),
            Self::Undo(back) => Some(back.to_string()),
            Self::Down => Some(
                "the server is down; `spindoctor tune --recover` closes the journal when it runs again"
                    .to_owned(),
            ),
        }
    }
}

/// Tries for as long as a journal stands, that of the variables or that of undo tablespaces; none where the tuner speaks again
/// and still has the lease.
async fn put_back<R: AsyncBufRead + Unpin>(charge: &Charge, listening: &mut Listening<R>) -> Option<Outcome> {
    let mut pause = PAUSE;
    let mut down_since: Option<Instant> = None;
    let undo = path_beside(&charge.journal);
    let mut said = Outcome::Done;
    loop {
        let journal = Journal::read(&charge.journal);
        if matches!(journal, Ok(None)) && !undo.exists() {
            return Some(said);
        }
        let is_of_variables = matches!(journal, Ok(Some(_)));
        match journal {
            // A disk that cannot be read now may be later.
            Err(_) => pause = LONGEST_PAUSE,
            Ok(journal) => match attempt(charge, journal.as_ref(), &undo).await {
                Ok(Some(outcome)) => {
                    (said, pause) = (outcome.after(said), PAUSE);
                    // The rest follows at once.
                    continue;
                }
                // The lease stands: the server notices within its own time that nobody is there.
                Ok(None) if is_of_variables => pause = PAUSE,
                // Purge takes its time, and a transaction hours.
                Ok(None) => pause = (pause * 2).min(LONGEST_PAUSE),
                Err(error) => {
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    let is_down = matches!(charge.target.endpoint, Endpoint::Socket(_))
                        && matches!(
                            error,
                            ApplyError::Connect(ConnectError::NoSocket { .. } | ConnectError::Refused { .. })
                        );
                    down_since = is_down.then(|| down_since.unwrap_or_else(Instant::now));
                    if down_since.is_some_and(|since| since.elapsed() > DOWN) {
                        return Some(Outcome::Down);
                    }
                }
            },
        }
        match listening.line(pause).await {
            FromTuner::Alive | FromTuner::GoHome => return None,
            FromTuner::End | FromTuner::Nothing => {}
        }
    }
}

/// One try, of the variables where their journal stands, else of undo tablespaces; none where the tuner may live, somebody else
/// may be giving back, or something is left.
async fn attempt(
    charge: &Charge,
    journal: Option<&Journal>,
    undo: &Path,
) -> Result<Option<Outcome>, ApplyError> {
    let Some(journal) = journal else {
        let back = give_back(&charge.target, undo, Giver::another(EMPTYING_ONCE)).await?;
        return Ok(back.why.is_none().then_some(Outcome::Undo(back)));
    };
    let mut writer = Writer::connect(&charge.target).await?;
    // A holder of another start of the server is nobody that is known.
    let holder = match writer.facts().await?.started == journal.server_started {
        true => journal.holder,
        false => 0,
    };
    let Some(by) = right_to_give_back(&mut writer, holder).await? else {
        writer.close().await;
        return Ok(None);
    };
    // Read again under the lock: its holder before may have put everything back, or decided to keep it.
    let path = &charge.journal;
    let outcome = match Journal::read(path) {
        Ok(Some(now)) if now.is_kept => {
            take_away(&mut writer, path, &now).await?;
            Outcome::Kept
        }
        Ok(Some(now)) => Outcome::PutBack(finish(&mut writer, path, &now, &now.variables, &by).await?),
        Ok(None) => Outcome::Done,
        Err(_) => Outcome::PutBack(finish(&mut writer, path, journal, &journal.variables, &by).await?),
    };
    writer.close().await;
    Ok(Some(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_survives_the_pipe_and_a_broken_one_is_not_repeated() {
        let endpoint = Endpoint::Tcp { host: "db17".into(), port: 3307 };
        let mut target = Target::new(endpoint, "tuner").with_password("hunter2".into());
        target.tls = Tls { mode: SslMode::VerifyCa, ca: Some("/ca.pem".into()), cert: None, key: None };
        target.trust = Trust {
            server_public_key: Some("/key.pem".into()),
            get_server_public_key: true,
            unverified_server: true,
        };
        target.limits = Limits { connect: Duration::from_millis(1500), query: Duration::from_secs(3) };
        let charge = Charge { target, journal: "/j".into(), server: "db17:3307".into() };
        let line = charge.to_line().unwrap();
        let read = Charge::from_line(&line).unwrap();
        assert_eq!(read.target, charge.target);
        assert_eq!((read.journal, read.server), (charge.journal, charge.server));
        let error = Charge::from_line(&line.replace("3307", "\"x\"")).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_tuner_is_gone_when_its_pipe_ends_and_not_when_it_sends_the_guardian_home() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut ends = Listening { pipe: &b"alive\nalive\n"[..], is_open: true };
            assert_eq!(ends.until_gone().await, Some("ended without a word"));
            let mut goes = Listening { pipe: &b"alive\ngo home\n"[..], is_open: true };
            assert_eq!(goes.until_gone().await, None);
        });
    }
}
