//! The program does what the model says: paths through the model of the giving back (`crates/giving-back`) are run on
//! real servers, by the real tuner, guardian, EVENT and `--recover`.
//!
//! Between these and the server stands a gate that holds every statement which is a step of the model, and its answer, until the
//! way has come to it. So a process is killed or stopped, the network lost, the server restarted and a variable set by
//! somebody else between two statements that are named, or between a statement and what is written to the disk after it. The EVENT
//! runs when the way says so: the scheduler is on for that long. Heartbeats pass the gate by themselves; a second of the
//! model is a second. What the model does in no time and a server in a second, an EVENT's run while somebody who gives back is
//! silent, is left out; so are answers that do not come for ten seconds. After each step the variable's value, the holder of the lock, the EVENT and the journal are compared
//! with the model's; at the end `--recover` is run.
//!
//! SPINDOCTOR_WAYS says how many ways are gone on each kind of server (default 8), SPINDOCTOR_SEED which. A step that a machine
//! with other work to do is too late for makes the way void; it is gone again, and counted.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

mod process;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use spindoctor_giving_back::cases::CALM;
use spindoctor_giving_back::protocol::Protocol;
use spindoctor_giving_back::state::{
    At, Back, FlightStep, GuardianAt, Holder, RecoverAt, Run, State, Step, Value,
};
use spindoctor_giving_back::steps::{GivingBack, Scope};
use spindoctor_giving_back::ways::{Way, chosen, coverage, kind};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_tune::journal;

use process::{runs, send};

const VARIABLE: &str = "innodb_spin_wait_delay";

fn number(value: Value) -> &'static str {
    match value {
        Value::Old => "7",
        Value::New => "1",
        Value::Newer => "2",
        Value::Dba => "55",
        Value::Configured => "29",
    }
}

/// How long the real one may take for a step.
const PATIENCE: Duration = Duration::from_secs(8);

/// A process that gives back loses its lock after two seconds without a statement (`GIVER_IDLE_S`): an answer that was held
/// for longer than this, because the machine was busy, may have cost it the lock, of which the model knows nothing.
const SILENCE: Duration = Duration::from_millis(1_700);

/// Statements that are steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Lock,
    Holder,
    Values,
    Set,
    Create,
    Alter,
    Drop,
    Busy,
}

fn asks(sql: &str) -> Option<Asks> {
    let is = |text: &str| sql.contains(text);
    Some(if is("CREATE EVENT") {
        Asks::Create
    } else if is("ALTER EVENT") {
        Asks::Alter
    } else if is("DROP EVENT") {
        Asks::Drop
    } else if is("SET GLOBAL") {
        Asks::Set
    } else if is("GET_LOCK") {
        Asks::Lock
    } else if is("CONNECTION_ID()") && is("IS_USED_LOCK") {
        // A heartbeat.
        return None;
    } else if is("COUNT(*) FROM information_schema.PROCESSLIST") {
        Asks::Busy
    } else if is("IS_USED_LOCK") {
        Asks::Holder
    } else if is("SHOW GLOBAL VARIABLES") && is(VARIABLE) {
        Asks::Values
    } else {
        return None;
    })
}

/// One connection through the gate.
#[derive(Debug, Default)]
struct Line {
    pid: u32,
    /// The server's number of it.
    id: u64,
    /// A statement that waits.
    pending: Option<Asks>,
    /// It may go on.
    is_let: bool,
    /// Its answer is held.
    holds_answer: bool,
    /// The answer is there.
    is_answered: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<Line>,
    network_is_gone: bool,
    /// Ends of connections are not passed on to the server.
    is_mute: bool,
    is_over: bool,
    /// The longest that an answer was held: a connection that gives back is closed by the server after [`SILENCE`].
    longest_held: Duration,
}

/// The gate.
#[derive(Clone)]
struct Gate {
    lines: Arc<(Mutex<Lines>, Condvar)>,
    path: PathBuf,
}

impl Gate {
    fn new(path: &Path, server: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let gate = Self { lines: Arc::default(), path: path.to_owned() };
        let (of, server) = (gate.clone(), server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if of.with(|lines| lines.is_over) {
                    return;
                }
                let (of, server) = (of.clone(), server.clone());
                std::thread::spawn(move || of.serve(client, &server));
            }
        });
        gate
    }

    fn with<T>(&self, what: impl FnOnce(&mut Lines) -> T) -> T {
        let done = what(&mut self.lines.0.lock().unwrap());
        self.lines.1.notify_all();
        done
    }

    /// Waits until something holds; false after so long.
    fn wait(&self, within: Duration, mut is_so: impl FnMut(&mut Lines) -> bool) -> bool {
        let until = Instant::now() + within;
        let mut lines = self.lines.0.lock().unwrap();
        loop {
            if is_so(&mut lines) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            lines = self.lines.1.wait_timeout(lines, left).unwrap().0;
        }
    }

    fn forever(&self, mut is_so: impl FnMut(&mut Lines) -> bool) {
        self.wait(Duration::from_secs(600), |lines| lines.is_over || is_so(lines));
    }

    fn serve(&self, mut client: UnixStream, server: &Path) {
        let pid = rustix::net::sockopt::socket_peercred(&client).unwrap().pid.as_raw_nonzero().get();
        self.forever(|lines| !lines.network_is_gone);
        let Ok(mut server) = UnixStream::connect(server) else { return };
        let at = self.with(|lines| {
            lines.lines.push(Line { pid: u32::try_from(pid).unwrap_or_default(), ..Line::default() });
            lines.lines.len() - 1
        });
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let back = self.clone();
        let answers = std::thread::spawn(move || {
            let mut bytes = [0; 16384];
            let mut is_first = true;
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                if std::mem::take(&mut is_first) {
                    // The greeting: a byte, the version with a zero, the connection's number.
                    let zero = bytes[5..read].iter().position(|byte| *byte == 0).unwrap_or_default();
                    let id = bytes
                        .get(6 + zero..10 + zero)
                        .map_or(0, |id| u32::from_le_bytes(id.try_into().unwrap_or_default()));
                    back.with(|lines| lines.lines[at].id = u64::from(id));
                }
                back.forever(|lines| !lines.network_is_gone);
                // What is held has come through; the client reads it when the way has come to that.
                back.with(|lines| lines.lines[at].is_answered |= lines.lines[at].holds_answer);
                let held = Instant::now();
                back.forever(|lines| !lines.lines[at].holds_answer);
                back.with(|lines| lines.longest_held = lines.longest_held.max(held.elapsed()));
                if to.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
            back.forever(|lines| !lines.network_is_gone);
            back.with(|lines| lines.lines[at].is_closed = true);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        let _ended = self.forward(&mut client, &mut server, at);
        self.forever(|lines| !lines.network_is_gone && !lines.is_mute);
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _joined = answers.join();
    }

    /// Packets from the client to the server.
    fn forward(&self, client: &mut UnixStream, server: &mut UnixStream, at: usize) -> std::io::Result<()> {
        loop {
            let mut head = [0; 4];
            client.read_exact(&mut head)?;
            let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            let mut body = vec![0; length];
            client.read_exact(&mut body)?;
            // COM_QUERY
            if head[3] == 0
                && body.first() == Some(&3)
                && let Some(asks) = asks(&String::from_utf8_lossy(&body[1..]))
            {
                self.with(|lines| {
                    let line = &mut lines.lines[at];
                    (line.pending, line.is_let) = (Some(asks), false);
                });
                self.forever(|lines| lines.lines[at].is_let || lines.lines[at].is_closed);
                self.with(|lines| lines.lines[at].pending = None);
            }
            self.forever(|lines| !lines.network_is_gone);
            server.write_all(&head)?;
            server.write_all(&body)?;
        }
    }

    /// The statement that one of these processes waits with.
    fn pending(&self, pid: u32) -> Option<(usize, Asks)> {
        self.with(|lines| pending(lines, pid))
    }

    fn expect(&self, pid: u32) -> Option<(usize, Asks)> {
        let mut found = None;
        self.wait(PATIENCE, |lines| {
            found = pending(lines, pid);
            found.is_some()
        });
        found
    }

    /// Lets a statement go to the server, and holds what it answers.
    fn let_go(&self, at: usize) -> bool {
        self.with(|lines| {
            let line = &mut lines.lines[at];
            (line.is_let, line.holds_answer, line.is_answered) = (true, true, false);
        });
        self.wait(PATIENCE, |lines| lines.lines[at].is_answered || lines.lines[at].is_closed)
    }

    /// Lets all answers go that are held for a process.
    fn answer(&self, pid: u32) {
        self.with(|lines| {
            for line in lines.lines.iter_mut().filter(|line| line.pid == pid && line.is_answered) {
                (line.holds_answer, line.is_answered) = (false, false);
            }
        });
    }
}

fn pending(lines: &Lines, pid: u32) -> Option<(usize, Asks)> {
    let waits = |line: &&(usize, &Line)| line.1.pid == pid && !line.1.is_let && !line.1.is_closed;
    let lines: Vec<_> = lines.lines.iter().enumerate().collect();
    lines.iter().filter(waits).find_map(|(at, line)| Some((*at, line.pending?)))
}

/// A way that is being gone.
struct Scene<'a> {
    runtime: &'a tokio::runtime::Runtime,
    server: &'a mut Server,
    model: GivingBack,
    gate: Gate,
    state: tempfile::TempDir,
    tuner: Child,
    orders: Option<ChildStdin>,
    said: Arc<Mutex<Vec<String>>>,
    /// All that were, the last one is at work.
    guardians: Vec<u32>,
    recover: Option<Child>,
    stranger: Option<mysql_async::Conn>,
    /// The lease's connection.
    lease: u64,
    /// When the second that the model is in began.
    second: Instant,
    is_late: bool,
}

/// What is seen from outside.
#[derive(Debug, PartialEq, Eq)]
struct Observed {
    value: String,
    holder: Option<Holder>,
    has_event: bool,
    journal: Option<(Vec<String>, bool)>,
}

impl Scene<'_> {
    fn ask(&self, question: &str) -> String {
        self.runtime.block_on(self.server.ask(question)).unwrap().unwrap_or_default()
    }

    fn execute(&self, statement: &str) {
        self.runtime.block_on(self.server.execute([statement])).unwrap();
    }

    fn seen(&self) -> Observed {
        let holder = self.ask("SELECT IS_USED_LOCK('spindoctor.lease')").parse::<u64>().ok().map(|id| {
            let pid = self
                .gate
                .with(|lines| lines.lines.iter().rev().find(|line| line.id == id).map(|line| line.pid));
            match pid {
                _ if id == self.lease => Holder::Lease(0),
                Some(pid) if pid == self.tuner.id() => Holder::Writer(0),
                Some(pid) if self.guardians.contains(&pid) => Holder::Guardian(0),
                Some(pid) if self.recover.as_ref().is_some_and(|recover| recover.id() == pid) => {
                    Holder::Recover
                }
                _ => Holder::Stranger,
            }
        });
        let journals = journal::list(self.state.path()).unwrap();
        let journal = journals.into_iter().find_map(|(_, journal)| journal.ok()).map(|journal| {
            let mut set = journal.variables[0].set.clone();
            set.sort();
            (set, journal.is_kept)
        });
        Observed {
            value: self.ask(&format!("SELECT @@GLOBAL.{VARIABLE}")),
            holder,
            has_event: self
                .ask("SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_NAME LIKE 'spindoctor%'")
                != "0",
            journal,
        }
    }

    /// What the model says is to be seen.
    fn expected(state: &State) -> Observed {
        let journal = state.disk[0].map(|journal| {
            let values = [Value::Old, Value::New, Value::Newer, Value::Dba, Value::Configured];
            let is_set =
                |value: &&Value| journal.set[0] & (1 << **value as u8) != 0 && **value != journal.original[0];
            let mut set: Vec<String> =
                values.iter().filter(is_set).map(|value| number(*value).to_owned()).collect();
            set.sort();
            (set, journal.is_kept)
        });
        Observed {
            value: number(state.values[0]).to_owned(),
            holder: state.lock.map(|lock| lock.holder),
            has_event: state.events[0].is_some(),
            journal,
        }
    }

    /// Waits for what the model says; an error with both where it does not come.
    fn compare(&self, state: &State) -> Result<(), String> {
        let expected = Self::expected(state);
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            if seen == expected {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(3) {
                return Err(format!(
                    "the model has {expected:?}, the server {seen:?}; said: {:?}",
                    self.said.lock().unwrap()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn order(&mut self, order: &str) {
        if let Some(orders) = &mut self.orders {
            let _gone = writeln!(orders, "{order}");
        }
    }

    /// One statement of a process, of the kind that the model's step is.
    fn statement(&self, pid: u32, expected: Asks) -> Result<(), String> {
        self.gate.answer(pid);
        match self.gate.expect(pid) {
            Some((at, asks)) if asks == expected => match self.gate.let_go(at) {
                true => Ok(()),
                false => Err(format!("no answer to {asks:?}")),
            },
            other => {
                let runs = if runs(pid) { "runs" } else { "has ended" };
                Err(format!("{expected:?} was expected of process {pid}, which {runs}, not {other:?}"))
            }
        }
    }

    /// Statements that ask for the lock, until it is as the model says, or somebody else's has been held for long enough.
    fn regain(&self, pid: u32, wanted: Option<Holder>, own: Holder) -> Result<(), String> {
        let begun = Instant::now();
        self.gate.answer(pid);
        while begun.elapsed() < PATIENCE {
            match self.gate.expect(pid) {
                Some((at, Asks::Holder)) if wanted == Some(Holder::Lease(0)) => {
                    self.gate.let_go(at);
                    self.gate.answer(pid);
                }
                Some((at, asks @ (Asks::Lock | Asks::Holder))) => {
                    self.gate.let_go(at);
                    let is_there = wanted == self.seen().holder;
                    if is_there && wanted == Some(own) && asks == Asks::Lock {
                        return Ok(());
                    }
                    self.gate.answer(pid);
                }
                // Beside a lock of somebody else's.
                Some(_) => return Ok(()),
                None if !runs(pid) => return Ok(()),
                None => {}
            }
        }
        Err(format!("process {pid} did not come to {wanted:?}"))
    }

    /// A step of putting back, by a process.
    fn back(&self, pid: u32, at: Back, before: &State) -> Result<(), String> {
        let by = match pid {
            _ if pid == self.tuner.id() => before.tuners[0].by,
            _ if self.guardians.contains(&pid) => before.guardians[0].by,
            _ => before.recover.by,
        };
        let is_own = matches!(by, Some(Holder::Writer(_) | Holder::Guardian(_) | Holder::Recover));
        let has_event = before.disk[0].is_some_and(|journal| journal.has_event);
        let is_asked = !matches!(at, Back::Reread | Back::Remove) && (at != Back::DropEvent || has_event);
        if is_own && is_asked && before.lock.map(|lock| lock.holder) != by {
            // Its connection is gone.
            self.gate.answer(pid);
            return Ok(());
        }
        let is_restarted = before.disk[0].is_some_and(|journal| journal.boot != before.boot);
        match at {
            Back::Reread | Back::Remove => self.gate.answer(pid),
            Back::AwaitFlight | Back::Read if is_restarted => self.gate.answer(pid),
            Back::AwaitFlight => return self.statement(pid, Asks::Busy),
            Back::Read | Back::Verify => return self.statement(pid, Asks::Values),
            Back::Set { .. } => return self.statement(pid, Asks::Set),
            Back::AskRight => return self.statement(pid, Asks::Holder),
            Back::DropEvent => {
                if before.disk[0].is_some_and(|journal| journal.has_event) {
                    return self.statement(pid, Asks::Drop);
                }
                self.gate.answer(pid);
            }
        }
        Ok(())
    }

    fn tuner_step(&mut self, before: &State, after: &State) -> Result<(), String> {
        let pid = self.tuner.id();
        let tuner = &before.tuners[0];
        if before.tuners[0].boot != before.boot && tuner.at != At::Lock {
            // It notices by itself.
            self.gate.answer(pid);
            return Ok(());
        }
        let asked = match tuner.at {
            At::Lock => {
                self.statement(pid, Asks::Lock)?;
                // Where a stranger has the lock, the tuner asked in vain.
                if after.lock.is_some_and(|lock| lock.holder == Holder::Lease(0)) {
                    self.lease =
                        self.ask("SELECT IS_USED_LOCK('spindoctor.lease')").parse().unwrap_or_default();
                }
                return Ok(());
            }
            At::Read | At::Look | At::LookToKeep | At::ReadBack => Asks::Values,
            At::Probe => Asks::Set,
            At::Rehearse | At::Arm => Asks::Create,
            At::LookLease | At::AskToKeep | At::AskAgain => Asks::Holder,
            At::Alter | At::AlterBack if tuner.journal.has_event => Asks::Alter,
            At::KeepDrop if tuner.journal.has_event => Asks::Drop,
            At::Restore(back) => return self.back(pid, back, before),
            At::Regain => {
                return match after.tuners[0].by {
                    Some(by) => self.regain(pid, Some(by), Holder::Writer(0)),
                    None => Ok(()),
                };
            }
            At::Idle => {
                if before.lock.map(|lock| lock.holder) == Some(Holder::Lease(0)) {
                    self.order("check");
                    self.statement(pid, Asks::Values)?;
                    self.statement(pid, Asks::Holder)?;
                }
                self.gate.answer(pid);
                return Ok(());
            }
            At::Send => {
                self.gate.answer(pid);
                return match self.gate.expect(pid) {
                    Some((_, Asks::Set)) => Ok(()),
                    other => Err(format!("a SET was expected, not {other:?}")),
                };
            }
            _ => {
                self.gate.answer(pid);
                return Ok(());
            }
        };
        self.statement(pid, asked)
    }

    fn guardian(&self) -> u32 {
        self.guardians.last().copied().unwrap_or_default()
    }

    fn step(&mut self, step: Step, before: &State, after: &State) -> Result<(), String> {
        let pid = self.tuner.id();
        match step {
            Step::Tuner(_) => self.tuner_step(before, after)?,
            Step::Set(_) => {
                let tuner = &before.tuners[0];
                let value = match tuner.sets {
                    0 => Value::New,
                    1 => tuner.journal.original[0],
                    _ => Value::Newer,
                };
                self.order(&format!("set {}", number(value)));
            }
            Step::GiveBack(_) => self.order("restore"),
            Step::Keep(_) => self.order("keep"),
            Step::Respawn(_) => {
                let begun = Instant::now();
                loop {
                    let said = self.said.lock().unwrap().clone();
                    let last =
                        said.iter().rev().find_map(|line| line.strip_prefix("guardian=")?.parse().ok());
                    if let Some(last) = last
                        && !self.guardians.contains(&last)
                    {
                        self.guardians.push(last);
                        break;
                    }
                    // Where it has no time to say so: its child.
                    if let Some(child) = child_of(pid)
                        && !self.guardians.contains(&child)
                        && begun.elapsed() > Duration::from_millis(300)
                    {
                        self.guardians.push(child);
                        break;
                    }
                    if begun.elapsed() > PATIENCE {
                        return Err("there is no other guardian".to_owned());
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            Step::Guardian(_) => {
                let guardian = self.guardian();
                match before.guardians[0].at {
                    GuardianAt::Listens => {}
                    // It hears the tuner again.
                    GuardianAt::Tries if after.guardians[0].at == GuardianAt::Listens => {
                        self.gate.answer(guardian);
                    }
                    GuardianAt::Tries => match after.guardians[0].by {
                        Some(by) if after.guardians[0].run == Run::Runs => {
                            self.regain(guardian, Some(by), Holder::Guardian(0))?;
                        }
                        // The journal is gone: it may be about to look.
                        _ => {
                            let begun = Instant::now();
                            while runs(guardian) && begun.elapsed() < PATIENCE {
                                self.gate.answer(guardian);
                                if let Some((at, _)) = self.gate.pending(guardian) {
                                    self.gate.let_go(at);
                                }
                                std::thread::sleep(Duration::from_millis(20));
                            }
                        }
                    },
                    GuardianAt::Back(back) => self.back(guardian, back, before)?,
                    GuardianAt::Release => self.gate.answer(guardian),
                }
            }
            Step::Flight(_) => {
                if before.flights[0].is_some_and(|flight| flight.at == FlightStep::Sent) {
                    match self.gate.expect(pid) {
                        Some((at, Asks::Set)) => {
                            self.gate.let_go(at);
                        }
                        other => return Err(format!("a SET was expected, not {other:?}")),
                    }
                }
            }
            Step::Event(_) => {
                let is_begun = before.event_runs[0].is_none();
                let is_idle = after.event_runs[0].is_none() && after.events[0].is_some();
                if is_begun && !is_idle {
                    self.run_event()?;
                }
            }
            Step::StartRecover => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor-tune-driver"));
                command.arg("recover").arg(&self.gate.path).arg(self.state.path());
                self.recover = Some(command.stdout(Stdio::null()).spawn().unwrap());
            }
            Step::Recover => {
                let recover = self.recover.as_ref().map(Child::id).unwrap_or_default();
                match before.recover.at {
                    RecoverAt::Lock => self.regain(recover, after.recover.by, Holder::Recover)?,
                    RecoverAt::Back(_, back) => self.back(recover, back, before)?,
                    _ => self.gate.answer(recover),
                }
            }
            Step::Dba(_, value) => self.execute(&format!("SET GLOBAL {VARIABLE} = {}", number(value))),
            Step::DbaPersist(_) => self.execute(&format!("SET PERSIST {VARIABLE} = {}", number(Value::Dba))),
            Step::StrangerTakes => {
                let mut conn =
                    self.runtime.block_on(self.server.connect()).map_err(|error| error.to_string())?;
                use mysql_async::prelude::Queryable as _;
                let taken: Option<i64> = self
                    .runtime
                    .block_on(conn.query_first("SELECT GET_LOCK('spindoctor.lease', 2)"))
                    .map_err(|error| error.to_string())?;
                if taken != Some(1) {
                    return Err("the stranger did not get the lock".to_owned());
                }
                self.stranger = Some(conn);
            }
            Step::StrangerReleases => {
                if let Some(conn) = self.stranger.take() {
                    let _gone = self.runtime.block_on(conn.disconnect());
                }
            }
            Step::KillTuner(_) => {
                send(pid, Signal::KILL);
                let _reaped = self.tuner.wait();
            }
            Step::KillGuardian(_) => send(self.guardian(), Signal::KILL),
            Step::StopTuner(_) => {
                send(pid, Signal::STOP);
                self.second = Instant::now();
            }
            Step::StopGuardian(_) => {
                send(self.guardian(), Signal::STOP);
                self.second = Instant::now();
            }
            Step::ContinueTuner(_) => send(pid, Signal::CONT),
            Step::ContinueGuardian(_) => send(self.guardian(), Signal::CONT),
            Step::NetworkDown => {
                self.gate.with(|lines| lines.network_is_gone = true);
                self.second = Instant::now();
            }
            Step::NetworkUp => self.gate.with(|lines| lines.network_is_gone = false),
            Step::Restart => {
                self.stranger = None;
                self.runtime.block_on(self.server.restart()).map_err(|error| error.to_string())?;
                if after.scheduler {
                    self.execute("SET GLOBAL event_scheduler = OFF");
                }
                self.second = Instant::now();
            }
            Step::HostCrash => {
                self.gate.with(|lines| lines.is_mute = true);
                send(pid, Signal::KILL);
                let _reaped = self.tuner.wait();
                send(self.guardian(), Signal::KILL);
                self.second = Instant::now();
            }
            Step::Tick => {
                self.second += Duration::from_secs(1);
                let now = Instant::now();
                if now > self.second + Duration::from_millis(700) {
                    self.is_late = true;
                }
                std::thread::sleep(self.second.saturating_duration_since(now));
            }
            Step::SchedulerOff | Step::StartSecond | Step::Breaks(_) => {}
        }
        if step == Step::Tuner(0) && before.tuners[0].at == At::Journal {
            // The guardian is started before.
            let begun = Instant::now();
            while child_of(pid).is_none() && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.guardians.extend(child_of(pid));
        }
        Ok(())
    }

    /// Lets the scheduler run the EVENT once.
    fn run_event(&self) -> Result<(), String> {
        let state = "SELECT CONCAT(COUNT(*), ' ', COALESCE(MAX(LAST_EXECUTED), '')) FROM information_schema.EVENTS WHERE EVENT_NAME LIKE 'spindoctor%'";
        let before = self.ask(state);
        self.execute("SET GLOBAL event_scheduler = ON");
        let begun = Instant::now();
        while self.ask(state) == before && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        // It says so when it begins.
        std::thread::sleep(Duration::from_millis(60));
        self.execute("SET GLOBAL event_scheduler = OFF");
        Ok(())
    }

    fn clean(&mut self) {
        self.gate.with(|lines| {
            lines.is_over = true;
            lines.is_mute = false;
            lines.network_is_gone = false;
        });
        let _killed = self.tuner.kill();
        let _reaped = self.tuner.wait();
        for guardian in &self.guardians {
            if runs(*guardian) {
                send(*guardian, Signal::KILL);
            }
        }
        if let Some(mut recover) = self.recover.take() {
            let _killed = recover.kill();
            let _reaped = recover.wait();
        }
        self.stranger = None;
        let _gone = UnixStream::connect(&self.gate.path);
    }
}

/// The child of a process that runs.
fn child_of(pid: u32) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children")).ok()?;
        children.split_whitespace().filter_map(|child| child.parse().ok()).find(|child| runs(*child))
    })
}

/// What became of a way.
enum Gone {
    AsTheModelSays,
    /// A second was longer than a second; how it went on.
    Void(String),
    Otherwise(String),
}

fn go(runtime: &tokio::runtime::Runtime, server: &mut Server, model: GivingBack, way: &Way) -> Gone {
    let execute = |server: &Server, statement: &str| runtime.block_on(server.execute([statement])).unwrap();
    execute(server, &format!("SET GLOBAL {VARIABLE} = {}", number(Value::Old)));
    let scheduler = if model.scope.scheduler { "ON" } else { "OFF" };
    execute(server, &format!("SET GLOBAL event_scheduler = {scheduler}"));
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::new(&folder.path().join("gate.sock"), server.socket());
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor-tune-driver"));
    command.arg("obey").arg(&gate.path).arg(state.path()).arg(format!("{VARIABLE}=1,7,2"));
    let mut tuner = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let orders = tuner.stdin.take();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let (lines, out) = (Arc::clone(&said), BufReader::new(tuner.stdout.take().unwrap()));
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
    let mut scene = Scene {
        runtime,
        server,
        model,
        gate,
        state,
        tuner,
        orders,
        said,
        guardians: Vec::new(),
        recover: None,
        stranger: None,
        lease: 0,
        second: Instant::now(),
        is_late: false,
    };
    let gone = scene.go(way);
    scene.clean();
    gone
}

impl Scene<'_> {
    fn go(&mut self, way: &Way) -> Gone {
        let mut state = self.model.begin();
        let mut log = Vec::new();
        let mut is_armed = false;
        for (number, step) in way.iter().enumerate() {
            let next = self.model.after(&state, *step).expect("the way can be gone");
            log.push(format!("{number} {step}: {}", kind(&state, *step)));
            let mut done = self.step(*step, &state, &next);
            // While somebody is silent the server's clock goes on, whatever an EVENT's run took.
            let is_silent = |state: &State| {
                !state.network
                    || state.tuners[0].run == Run::Stopped
                    || state.guardians[0].run == Run::Stopped
            };
            let is_overdue =
                (is_silent(&state) || is_silent(&next)) && self.second.elapsed() > Duration::from_millis(400);
            let is_at_rest = !matches!(
                next.tuners[0].at,
                At::Guard | At::Journal | At::Home | At::Release | At::KeepRemove | At::Restore(Back::Remove)
            ) && next.event_runs[0].is_none()
                && !matches!(next.guardians[0].at, GuardianAt::Release | GuardianAt::Back(Back::Remove))
                && !next.flights[0].is_some_and(|flight| matches!(flight.at, FlightStep::Evaluated { .. }))
                && !matches!(next.recover.at, RecoverAt::AwaitEvent | RecoverAt::Back(_, Back::Remove));
            if done.is_ok() && is_at_rest {
                done = self.compare(&next);
            }
            if let Err(error) = done {
                let held = self.gate.with(|lines| lines.longest_held);
                let how = format!(
                    "{error}; an answer was held for {} ms\n  {}",
                    held.as_millis(),
                    log.join("\n  ")
                );
                return if self.is_late || is_overdue || held > SILENCE {
                    Gone::Void(how)
                } else {
                    Gone::Otherwise(how)
                };
            }
            // The tuner has seen that the scheduler is on; from now on it runs when the way says so.
            if !is_armed && next.tuners[0].at != At::Lock {
                self.execute("SET GLOBAL event_scheduler = OFF");
                is_armed = true;
            }
            state = next;
        }
        self.end(&state, &log)
    }

    /// Whatever is left is given back by `--recover`.
    fn end(&mut self, state: &State, log: &[String]) -> Gone {
        let is_right = |value: &str| {
            let values = [Value::Old, Value::New, Value::Newer, Value::Dba, Value::Configured];
            values.into_iter().any(|one| {
                number(one) == value && (state.right[0] == one || state.also[0] & (1 << one as u8) != 0)
            })
        };
        self.stranger = None;
        self.gate.with(|lines| (lines.is_mute, lines.network_is_gone) = (false, false));
        if state.scheduler {
            self.execute("SET GLOBAL event_scheduler = ON");
        }
        let recover = |scene: &Self| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor-tune-driver"));
            command.arg("recover").arg(scene.server.socket()).arg(scene.state.path());
            String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
        };
        let said = recover(self);
        let begun = Instant::now();
        let mut seen = self.seen();
        // The server may not have noticed yet that it has ended.
        while seen.holder.is_some() && begun.elapsed() < PATIENCE {
            seen = self.seen();
        }
        self.execute("SET GLOBAL event_scheduler = OFF");
        let left = self.ask("SELECT GROUP_CONCAT(CONCAT(EVENT_SCHEMA, '.', EVENT_NAME)) FROM information_schema.EVENTS WHERE EVENT_NAME LIKE 'spindoctor%'");
        for event in left.split(',').filter(|event| !event.is_empty()) {
            self.execute(&format!("DROP EVENT {event}"));
        }
        if is_right(&seen.value) && seen.journal.is_none() && seen.holder.is_none() {
            Gone::AsTheModelSays
        } else {
            Gone::Otherwise(format!("after --recover ({said}): {seen:?}\n  {}", log.join("\n  ")))
        }
    }
}

/// Ways on which the program went otherwise than the model once, each a flaw.
fn once_gone_otherwise(scope: &Scope) -> Vec<Way> {
    let tuner = |count| vec![Step::Tuner(0); count];
    let armed = match scope.scheduler {
        true => [tuner(7), vec![Step::Tick, Step::Event(0)], tuner(2)].concat(),
        false => tuner(6),
    };
    // A DBA sets the variable between the SET and what is read back: that is no value of the tuner's, and what it set is not
    // forgotten.
    let set =
        [vec![Step::Set(0)], tuner(5), vec![Step::Flight(0); 3], vec![Step::Dba(0, Value::Dba)]].concat();
    vec![[armed, set, tuner(11)].concat()]
}

/// The kinds of servers, with what may happen on each. SPINDOCTOR_BASEDIR names the folder of another server, with and without
/// EVENTs.
fn kinds() -> Vec<(&'static str, Which, Vec<String>, Scope)> {
    let may = Scope { faults: 2, dba: 1, recoveries: 1, sets: 3, stranger: true, ..CALM };
    // After a restart no EVENT runs before the way says so.
    let scheduler = "--event-scheduler=OFF".to_owned();
    let configured = format!("--{}={}", VARIABLE.replace('_', "-"), number(Value::Configured));
    if let Some(folder) = std::env::var_os("SPINDOCTOR_BASEDIR") {
        let other = || Which::Basedir(folder.clone().into());
        return vec![
            ("other", other(), vec![configured.clone(), scheduler.clone()], may),
            ("other without EVENTs", other(), vec![configured, scheduler], Scope { scheduler: false, ..may }),
        ];
    }
    vec![
        ("MySQL", Which::Mysql, vec![configured.clone(), scheduler.clone()], may),
        (
            "MySQL without EVENTs",
            Which::Mysql,
            vec![configured.clone(), scheduler.clone()],
            Scope { scheduler: false, ..may },
        ),
        ("MariaDB", Which::Mariadb, vec![configured.clone(), scheduler.clone()], may),
        (
            "MariaDB without EVENTs",
            Which::Mariadb,
            vec![configured, scheduler],
            Scope { scheduler: false, ..may },
        ),
    ]
}

mod calm {
    use super::*;

    #[test]
    fn the_program_goes_the_ways_of_the_model() {
        let number =
            |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
        let (ways, seed) = (number("SPINDOCTOR_WAYS", 8), number("SPINDOCTOR_SEED", 1));
        let only = std::env::var("SPINDOCTOR_WAY").ok().and_then(|text| text.parse::<usize>().ok());
        let failed: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = kinds()
                .into_iter()
                .map(|(name, which, options, may)| {
                    scope.spawn(move || {
                        let model = GivingBack { protocol: Protocol::PROGRAM, scope: may };
                        let mut ways = chosen(&model, seed, usize::try_from(ways).unwrap());
                        ways.splice(0..0, once_gone_otherwise(&may));
                        // MariaDB and MySQL before 8.0 persist nothing; the lab's option for the value after a restart overrides what MySQL persists.
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                        let spec = ServerSpec { which, options, ..ServerSpec::default() };
                        let mut server = runtime.block_on(Server::start(&Home::open().unwrap(), &spec, &|_| {})).unwrap();
                        let can_persist = server.version().mysql_at_least(8, 0, 0);
                        ways.retain(|way| {
                            let persists = way.iter().any(|step| matches!(step, Step::DbaPersist(_)));
                            let restarts = way.contains(&Step::Restart);
                            !persists || !restarts && can_persist
                        });
                        let (mut failed, mut again, begun) = (Vec::new(), 0, Instant::now());
                        for (number, way) in ways.iter().enumerate() {
                            if only.is_some_and(|only| only != number) {
                                continue;
                            }
                            for turn in 0..4 {
                                match go(&runtime, &mut server, model, way) {
                                    Gone::AsTheModelSays => break,
                                    Gone::Void(_) if turn < 3 => again += 1,
                                    Gone::Void(how) => {
                                        failed.push(format!("{name}, way {number}, late each time: {how}"));
                                    }
                                    Gone::Otherwise(how) => {
                                        failed.push(format!("{name}, way {number}: {how}"));
                                        break;
                                    }
                                }
                            }
                        }
                        let (kinds, pairs) = coverage(&model, &ways);
                        println!(
                            "{name}: seed {seed}, {} ways, {kinds} kinds of steps, {pairs} pairs of them; {} otherwise than the model, {again} turns void; {:.0} s",
                            ways.len(),
                            failed.len(),
                            begun.elapsed().as_secs_f64()
                        );
                        failed
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|_| vec!["a panic, see above".to_owned()]))
                .collect()
        });
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    }
}
