//! Keeps the lease and watches the guardian, on two threads: so neither the tuner's work nor the start of a guardian,
//! which may wait for a disk, delays a heartbeat.
//!
//! One thread has the connection that holds the lock, and sends a query on it every [`HEARTBEAT`]. The other writes a
//! line to the guardian as often, and starts a new guardian when one ends. Their results are read through watch
//! channels.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::Target;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::apply::ApplyError;
use crate::apply::writer::Writer;
use crate::guardian::{self, Charge};
use crate::lease::{HEARTBEAT, IDLE_S, LOCK};

/// How long the server may take to answer a heartbeat. While it works on an answer, the connection is not idle and the
/// lock is kept: a server that stops for some seconds takes the lease from nobody. A lost network never answers; the
/// server has given everything back by then.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a guardian may hold the lock while it puts back what a tuner before left; a tuner holds it for longer.
const GUARDIAN_WORKS: Duration = Duration::from_secs(1);
/// How long a guardian may take from its start to its first connection.
const GUARDIAN_START: Duration = Duration::from_secs(10);
/// So many guardians may end within [`GUARDIANS_WITHIN`]; then something here ends them on purpose.
const MOST_GUARDIANS: usize = 5;
const GUARDIANS_WITHIN: Duration = Duration::from_secs(60);

/// What the second thread is asked for.
enum Wish {
    /// A guardian, started with this program and given this charge.
    Guard { program: PathBuf, charge: Box<Charge>, started: oneshot::Sender<Result<u32, String>> },
    /// The end: the guardian is sent home, the lock given back.
    Release { done: oneshot::Sender<()> },
}

/// The threads, as their owner sees them.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// The connection that holds the lock.
    pub(crate) holder: u64,
    wishes: mpsc::UnboundedSender<Wish>,
    lost: watch::Receiver<Option<String>>,
    guardian: watch::Receiver<Result<u32, String>>,
    /// True while an EVENT stands, too: the lease then outlives the last guardian.
    pub(crate) has_event: Arc<AtomicBool>,
    _threads: [JoinHandle<()>; 2],
}

/// Why there is no lease.
#[derive(Debug)]
pub(crate) enum NoLease {
    /// Another connection holds it.
    Held(Option<u64>),
    /// It could not be asked for.
    Failed(ApplyError),
}

impl Heartbeat {
    /// Takes the lock, and keeps it until the value is dropped or [`Heartbeat::release`] is called.
    pub(crate) async fn start(target: &Target) -> Result<Self, NoLease> {
        let (wishes, wished) = mpsc::unbounded_channel();
        let (lost_sender, lost) = watch::channel(None);
        let (guardian_sender, guardian) = watch::channel(Err("none was asked for".to_owned()));
        let (begun, begin) = oneshot::channel();
        let target = target.clone();
        let (stop, stopped) = watch::channel(false);
        let sender = lost_sender.clone();
        let keep = move || match new_runtime() {
            Err(error) => drop(begun.send(Err(NoLease::Failed(no_thread(&error))))),
            Ok(runtime) => runtime.block_on(async {
                match take_lock(&target).await {
                    Ok((conn, holder)) => {
                        let _gone = begun.send(Ok(holder));
                        ping(conn, sender, stopped).await;
                    }
                    Err(why) => drop(begun.send(Err(why))),
                }
            }),
        };
        let keeps = thread("spin_lease", keep).map_err(|error| NoLease::Failed(no_thread(&error)))?;
        let holder =
            begin.await.unwrap_or_else(|_| Err(NoLease::Failed(no_thread(&io::ErrorKind::Other.into()))))?;
        let stands = Arc::new(AtomicBool::new(false));
        let has_event = Arc::clone(&stands);
        let sender = lost_sender.clone();
        let watch_over = move || match new_runtime() {
            Err(error) => drop(sender.send_replace(Some(no_thread(&error).to_string()))),
            Ok(runtime) => runtime.block_on(serve(wished, sender, guardian_sender, stop, &has_event)),
        };
        let watches =
            thread("spin_guards", watch_over).map_err(|error| NoLease::Failed(no_thread(&error)))?;
        Ok(Self { holder, wishes, lost, guardian, has_event: stands, _threads: [keeps, watches] })
    }

    /// Starts a guardian, and others when it ends.
    pub(crate) async fn guard(&self, program: PathBuf, charge: Charge) -> Result<u32, String> {
        let (started, start) = oneshot::channel();
        let wish = Wish::Guard { program, charge: Box::new(charge), started };
        let _gone = self.wishes.send(wish);
        start.await.unwrap_or_else(|_| Err("the lease ended meanwhile".to_owned()))
    }

    /// The guardian's process, or why there is none.
    pub(crate) fn guardian(&self) -> Result<u32, String> {
        self.guardian.borrow().clone()
    }

    /// Why the lease is lost.
    pub(crate) fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// Waits until it is.
    pub(crate) async fn wait_until_lost(&self) -> String {
        let mut lost = self.lost.clone();
        match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the thread that holds it ended".to_owned(),
        }
    }

    /// Sends the guardian home and gives the lock back. The journal must be gone, or say that the values are kept.
    pub(crate) async fn release(self) {
        let (done, released) = oneshot::channel();
        if self.wishes.send(Wish::Release { done }).is_ok() {
            // The thread has deadlines of its own.
            let _gone = released.await;
        }
    }
}

fn new_runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn no_thread(error: &io::Error) -> ApplyError {
    ApplyError::Statement { doing: "start the lease's thread".to_owned(), reason: error.to_string() }
}

async fn take_lock(target: &Target) -> Result<(Writer, u64), NoLease> {
    let mut conn = Writer::connect(target).await.map_err(NoLease::Failed)?;
    match lock(&mut conn).await {
        Ok(Ok(holder)) => Ok((conn, holder)),
        Ok(Err(other)) => {
            conn.close().await;
            Err(NoLease::Held(other))
        }
        Err(error) => Err(NoLease::Failed(error)),
    }
}

async fn lock(conn: &mut Writer) -> Result<Result<u64, Option<u64>>, ApplyError> {
    let begun = Instant::now();
    loop {
        let is_ours = conn.lock(IDLE_S).await?;
        match is_ours {
            true => return Ok(Ok(conn.id)),
            _ if begun.elapsed() > GUARDIAN_WORKS => return Ok(Err(conn.holder().await?)),
            _ => sleep(GUARDIAN_WORKS / 20).await,
        }
    }
}

/// Asks until it is stopped, or until there is no answer.
async fn ping(mut conn: Writer, lost: watch::Sender<Option<String>>, mut stopped: watch::Receiver<bool>) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let question = format!("SELECT IS_USED_LOCK('{LOCK}') <=> CONNECTION_ID()");
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => break,
            _ = ticks.tick() => {}
        }
        let why = match timeout(PATIENCE, conn.cell(&question)).await {
            Ok(Ok(Some(answer))) if answer == "1" => continue,
            Ok(Ok(_)) => "the server gave the lease to another connection".to_owned(),
            Ok(Err(error)) => format!("the lease's connection ended ({error})"),
            Err(_) => format!("the server did not answer for {} s", PATIENCE.as_secs()),
        };
        lost.send_replace(Some(why));
        return;
    }
    conn.close().await;
}

/// Does what is wished, and keeps a guardian where one is.
async fn serve(
    mut wished: mpsc::UnboundedReceiver<Wish>,
    lost: watch::Sender<Option<String>>,
    sender: watch::Sender<Result<u32, String>>,
    stop: watch::Sender<bool>,
    has_event: &AtomicBool,
) {
    let mut guardian: Option<Guarding> = None;
    loop {
        let wish = match guardian.as_mut() {
            None => wished.recv().await,
            Some(guarding) => tokio::select! {
                wish = wished.recv() => wish,
                () = guarding.until_it_ends() => {
                    let again = guarding.again().await;
                    let _before = sender.send_replace(again.clone());
                    if let Err(why) = again {
                        if !has_event.load(Ordering::Relaxed) {
                            lost.send_replace(Some(format!("there is no guardian any more: {why}")));
                        }
                        guardian = None;
                    }
                    continue;
                }
            },
        };
        match wish {
            Some(Wish::Guard { program, charge, started }) => {
                let mut guarding = Guarding { program, charge: *charge, ends: Vec::new(), process: None };
                let outcome = guarding.start().await;
                let _before = sender.send_replace(outcome.clone());
                guardian = outcome.is_ok().then_some(guarding);
                let _gone = started.send(outcome);
            }
            Some(Wish::Release { done }) => {
                if let Some(guarding) = guardian {
                    guarding.send_home().await;
                }
                stop.send_replace(true);
                let _gone = done.send(());
                return;
            }
            // The owner is gone without a word: closing the pipe and the connection is what the switches wait for.
            None => {
                stop.send_replace(true);
                return;
            }
        }
    }
}

/// A guardian that runs, and how to start another.
struct Guarding {
    program: PathBuf,
    charge: Charge,
    ends: Vec<Instant>,
    process: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Guarding {
    /// Starts it and waits until it has been on the server.
    async fn start(&mut self) -> Result<u32, String> {
        let mut child = Command::new(&self.program)
            .arg(guardian::ARGUMENT)
            .env_remove("MYSQL_PWD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        let (mut pipe, said) = match (child.stdin.take(), child.stdout.take()) {
            (Some(pipe), Some(said)) => (pipe, BufReader::new(said)),
            _ => return Err("it has no pipe".to_owned()),
        };
        let pid = child.id().ok_or("it ended at once")?;
        let mut said = said;
        let mut answer = String::new();
        let talk = async {
            pipe.write_all(self.charge.to_line()?.as_bytes()).await?;
            said.read_line(&mut answer).await
        };
        match timeout(GUARDIAN_START, talk).await {
            Ok(Ok(_)) if answer.trim() == guardian::READY => {
                self.process = Some((child, pipe, said));
                Ok(pid)
            }
            Ok(Ok(0)) => Err("it ended before it was ready".to_owned()),
            Ok(Ok(_)) => Err(answer.trim().to_owned()),
            Ok(Err(error)) => Err(format!("it does not listen: {error}")),
            Err(_) => {
                let _gone = child.start_kill();
                Err(format!("it was not ready after {} s", GUARDIAN_START.as_secs()))
            }
        }
    }

    /// Writes a line as often as the server is asked, until nobody reads it. May be left at any await.
    async fn until_it_ends(&mut self) {
        let Some((child, pipe, said)) = self.process.as_mut() else { return };
        let mut ticks = interval(HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut answer = String::new();
        loop {
            tokio::select! {
                _ = child.wait() => return,
                // It says nothing after it was ready: this is the end of its output.
                _ = said.read_line(&mut answer) => return,
                _ = ticks.tick() => {
                    if pipe.write_all(guardian::ALIVE.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Another one for the one that ended.
    async fn again(&mut self) -> Result<u32, String> {
        if let Some((mut child, ..)) = self.process.take() {
            let _gone = child.start_kill();
            let _status = child.wait().await;
        }
        self.ends.retain(|end| end.elapsed() < GUARDIANS_WITHIN);
        self.ends.push(Instant::now());
        if self.ends.len() > MOST_GUARDIANS {
            return Err(format!(
                "{} guardians ended within {} s",
                self.ends.len(),
                GUARDIANS_WITHIN.as_secs()
            ));
        }
        self.start().await
    }

    /// Ends its guard, as nothing is changed any more, and waits for its end.
    async fn send_home(mut self) {
        if let Some((mut child, mut pipe, _)) = self.process.take() {
            let _gone = pipe.write_all(guardian::GO_HOME.as_bytes()).await;
            drop(pipe);
            if timeout(Duration::from_secs(2), child.wait()).await.is_err() {
                let _gone = child.start_kill();
                let _status = child.wait().await;
            }
        }
    }
}
