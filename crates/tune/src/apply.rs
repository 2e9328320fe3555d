//! The only code that changes a server's settings, and its rollback.
//!
//! [`Settings::take`] lends variables of a server to this process. Before anything is changed
//!
//! 1. the **lease** stands: a user lock, so that there is no second tuner ([`crate::lease`]);
//! 2. the **journal** is on disk: what every variable was, and which values may be this process's doing ([`crate::journal`]);
//! 3. a **dead man's switch** is armed: an EVENT on the server that has shown in a rehearsal that it works, and a guardian,
//!    a process of its own that has been on the server ([`crate::guardian`]). One of them is needed; most servers have both.
//!
//! # The protocol
//!
//! Who is there: the tuner, with a connection W that sets and a connection L that holds the lock and is asked something every
//! half second; the guardian G, with a pipe from the tuner; the EVENT E, once a second on the server; `tune --recover` R; the
//! next tuner N; anybody else, who may set a variable (a DBA) or hold the lock (F).
//!
//! The journal has: `server` and `started` (which start of which server), `holder` (L's id), `writer` (W's id), and of each
//! variable `original` and `set`. **Ours** is a value in `set` that is not `original`. E's body has the same, and E's name has
//! `holder` and `started` in it: who drops an EVENT drops the one of his journal only.
//!
//! Every write is one statement that fails, and writes nothing, unless its condition holds at that moment ([`lease::set`]):
//! the lock is held by whom it must be, and each variable has the value that its writer believes.
//!
//! *Taking.* W connects; L takes the lock; what dead tuners left is put back (as R does, under L's lock); `original` is read;
//! W sets each variable from `original` to `original` (what the account may not do shows now); G starts and visits the
//! server; the journal is made; E is rehearsed (sets `original` where that stands, and drops itself), then made. Whatever fails
//! undoes the steps before it.
//!
//! *A change.* A value that is not in `set` yet is announced: it is looked whether every variable has the value that W last
//! read, and whether L holds the lock; the value is added to `set`, with whatever the server may make of it; journal saved
//! (only over the file that is there: one that is gone stays gone, and the lease is lost), E altered. Then W sets, where L
//! holds the lock and every variable has the value that W last read; then W reads back. Where a variable had another value,
//! nothing is set, and what was announced is taken back: that is somebody else's doing, [`ApplyError::Changed`], and the trial
//! ends. [`Settings::check`] looks for the same once a second while a block runs.
//!
//! *Giving back*, by the tuner itself, G, R or N: (1) the journal is read under the right to write, see below; (2) another
//! start of the server: nothing to do; (3) it is looked whether the server still works on a statement of `writer`; (4) each
//! variable that is ours gets `original`; (5) all are read: one that is ours still, a statement in (3), or a right that is
//! gone, means again from (1); (6) E is dropped, the journal removed, the lock given back. The tuner itself, while it lives,
//! takes for ours only what it last set. E does (3) to (5) once the lock is not held by `holder`, and drops itself when
//! nothing is left.
//!
//! *The right to write.* The tuner: L holds the lock. Who gives back: its own connection holds the lock. Where the lock is held by
//! a connection F that is neither `holder` nor a giver's for `FOREIGN` (any account may take it): F holds it still, which
//! keeps every other tuner out as well as holding it oneself does. F may be N itself: so that right ends two seconds after it
//! was found, by the server's clock, and an N that found a journal waits for longer before it reads `original`. So nobody can keep settings changed by holding the lock, or by
//! waiting for it. While `holder` holds it, the tuner may live: G and R wait; the server ends that connection
//! [`lease::IDLE_S`] seconds after it fell silent. The same holds of each connection that takes the lock.
//!
//! *Keeping.* It is looked at values and lock as before a change; `is_kept` is saved to the journal; E is dropped; it is asked
//! whether L still holds the lock. If so, the values are kept, and the journal is removed. If not, E may have given back before
//! it was dropped, and another tuner may be at work: nothing is put back, the journal is removed, and the caller learns what
//! stands. G, R and N leave the values of such a journal. `SET PERSIST` comes after that, of values that still stand.
//!
//! *What remains.* The window of one statement ([`lease`]). A DBA who sets the very value that is ours. Two tuners on two
//! hosts, the first of which is cut off together with its guardian: its EVENT gives back, the second keeps the same value, and
//! the guardian, back on the network, takes that for its own.

pub(crate) mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use spindoctor_collect::mysql::{ConnectError, Target};
use spindoctor_model::ServerVersion;
use thiserror::Error;
use tokio::time::sleep;

use crate::guardian::Charge;
use crate::heartbeat::{Heartbeat, NoLease};
use crate::journal::{self, Journal, JournalError, JournalFile, ProcessMark};
use crate::lease::{self, Held, LockedBy, Watched, Write};
use crate::variables::{Refused, Variable, find};
use writer::{Facts, Writer};

/// How long the EVENT has for its rehearsal: it is due every second.
const REHEARSAL: Duration = Duration::from_secs(4);
/// How long an EVENT or guardian of a tuner that died may take to end: the promise of 5 s.
const LEFTOVER: Duration = Duration::from_secs(5);
/// How long putting back is tried here, before it is left to the switch.
const PUT_BACK: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection that is neither the tuner's nor known to give back may hold the lock before somebody gives back beside
/// it. Who gives back takes some milliseconds for it, the adaptive hash index aside.
pub(crate) const FOREIGN: Duration = Duration::from_secs(1);
/// How long the right to give back beside another connection lasts, by the server's clock, which counts whole seconds here: the
/// connection may be a tuner's on this host, which has put everything back and goes on.
const FOREIGN_RIGHT_S: u32 = 2;
/// So long a tuner that found a journal waits before it looks at the old values: until no such right is left.
const AFTER_CLEARING_UP: Duration = Duration::from_millis(FOREIGN_RIGHT_S as u64 * 1_000 + 200);

/// Variables of which the server changes one when the other is set beyond it (MariaDB raises the maximum, MySQL lowers the
/// capacity). Whoever takes one takes both, and the one that is not asked for is set to what it is: no value changes that
/// nobody asked for.
const TOGETHER: [[&str; 2]; 1] = [["innodb_io_capacity", "innodb_io_capacity_max"]];

/// The other one of the two, where there is one.
fn companion(name: &str) -> Option<&'static Variable> {
    let [one, other] = TOGETHER.iter().find(|pair| pair.contains(&name))?;
    find(if *one == name { other } else { one }).ok()
}

/// How settings are taken.
#[derive(Debug, Clone)]
pub struct TakeOptions {
    /// The program that is started as guardian, with the argument [`crate::guardian::ARGUMENT`].
    pub program: PathBuf,
    /// The folder of the journals.
    pub state: PathBuf,
}

impl TakeOptions {
    /// This process's own program, and the folder where its user keeps state: `/var/lib/spindoctor` for root,
    /// `$XDG_STATE_HOME/spindoctor` or `~/.local/state/spindoctor` for everybody else, and for a root who sets
    /// XDG_STATE_HOME.
    ///
    /// # Errors
    /// There is no such folder to be told: neither variable is set.
    pub fn of_process() -> Result<Self, ApplyError> {
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = if let Some(state) = folder("XDG_STATE_HOME") {
            state.join("spindoctor")
        } else if rustix::process::geteuid().is_root() {
            PathBuf::from("/var/lib/spindoctor")
        } else {
            folder("HOME").ok_or(ApplyError::NoStateFolder)?.join(".local/state/spindoctor")
        };
        // Not `current_exe`: an upgrade meanwhile replaces the file, and this still is the program that runs.
        Ok(Self { program: PathBuf::from("/proc/self/exe"), state })
    }
}

/// Which dead man's switch puts the old values back when this process cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Where the EVENT on the server stands: `sys.spindoctor_lease`; or why there is none.
    pub event: Result<String, String>,
    /// The process of the guardian; or why there is none.
    pub guardian: Result<u32, String>,
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Ok(name) => write!(f, "the EVENT {name} on the server")?,
            Err(why) => write!(f, "no EVENT on the server ({why})")?,
        }
        match &self.guardian {
            Ok(pid) => write!(f, ", the guardian process {pid}"),
            Err(why) => write!(f, ", no guardian process ({why})"),
        }
    }
}

/// Why settings could not be taken, changed or put back.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The variable or value is not allowed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journals cannot be read.
    #[error("the folder of journals {path} cannot be read: {reason}; check its permissions")]
    State {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Neither XDG_STATE_HOME nor HOME says where state is kept.
    #[error("there is no folder for the journal: set XDG_STATE_HOME or HOME")]
    NoStateFolder,
    /// Another tuner is at work.
    #[error("{address} is being tuned by another: {who}; wait for its end, or stop it")]
    Taken {
        /// What was connected to.
        address: String,
        /// Who holds the lease, and since when where that is known.
        who: String,
    },
    /// A statement failed.
    #[error("{doing}: {reason}")]
    Statement {
        /// The statement's beginning.
        doing: String,
        /// The server's words.
        reason: String,
    },
    /// The account may not do it.
    #[error("{account} lacks a privilege: GRANT {privilege} TO {account} (the server says: {reason})")]
    Denied {
        /// The account, as the server knows it.
        account: String,
        /// What it lacks: `SYSTEM_VARIABLES_ADMIN ON *.*`.
        privilege: String,
        /// The server's words.
        reason: String,
    },
    /// Somebody else changed a variable that is lent.
    #[error("{}; {} left so, and nothing more is tried", changes(seen), if seen.len() == 1 { "it is" } else { "they are" })]
    Changed {
        /// What was seen.
        seen: Vec<Seen>,
    },
    /// The value that stands is nothing that could be put back.
    #[error("{variable} is {value:?}, which spindoctor does not know how to put back; it is not changed")]
    Strange {
        /// The variable.
        variable: String,
        /// What it is.
        value: String,
    },
    /// A value is beyond another variable that limits it.
    #[error(
        "{low} = {value} is more than {high} = {limit}: give a value for {high}, too, as in --only {high}=VALUE"
    )]
    Beyond {
        /// The variable.
        low: &'static str,
        /// Its value.
        value: String,
        /// What limits it.
        high: &'static str,
        /// Its value.
        limit: String,
    },
    /// The server has no such variable.
    #[error("this server has no variable {0}")]
    Missing(String),
    /// The caller sets what it did not take.
    #[error("{0} was not taken")]
    NotTaken(String),
    /// The server made another value of it.
    #[error("the server made {got} of {variable} = {asked}; it has its value from before again: try {got}")]
    Adjusted {
        /// The variable.
        variable: String,
        /// What was asked for.
        asked: String,
        /// What it became.
        got: String,
    },
    /// The lease is lost.
    #[error("the lease on the server is lost: {reason}; nothing can be changed any more")]
    Lost {
        /// Why.
        reason: String,
    },
    /// No dead man's switch can be armed.
    #[error(
        "nothing would put the old values back if spindoctor were killed, so nothing is changed: no EVENT ({event}), no guardian ({guardian})"
    )]
    NoSwitch {
        /// Why no EVENT.
        event: String,
        /// Why no guardian.
        guardian: String,
    },
    /// The connection leads elsewhere than before.
    #[error("this is another server than before: {found}, not {expected}; check host and port")]
    OtherServer {
        /// The journal's.
        expected: String,
        /// The one that answers.
        found: String,
    },
    /// An EVENT of another tuner does not go.
    #[error(
        "the EVENT {name} of a tuner that is gone does not run; the old values are in its body: SHOW CREATE EVENT {name}. Run `spindoctor tune --recover` where that tuner ran, or set the values and DROP EVENT {name}"
    )]
    Leftover {
        /// Its name.
        name: String,
    },
    /// The old values are not back yet.
    #[error(
        "the old values are not back yet: {reason}. {switch} go on trying; `spindoctor tune --recover` does the same"
    )]
    NotPutBack {
        /// Why.
        reason: String,
        /// What stands.
        switch: Box<Switch>,
    },
    /// Kept, and not persisted.
    #[error("the new values stand until the server restarts; {statement} failed: {reason}")]
    NotPersisted {
        /// What was tried.
        statement: String,
        /// The server's words.
        reason: String,
    },
}

/// A change that was somebody else's doing. Who it was the server does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The variable.
    pub variable: String,
    /// What this process had set, or found when it began.
    pub expected: String,
    /// What it is.
    pub found: String,
    /// When that was seen.
    pub at: Timestamp,
}

fn changes(seen: &[Seen]) -> String {
    let one = |Seen { variable, expected, found, at }: &Seen| {
        let at = at.strftime("%H:%M:%S UTC");
        format!(
            "{variable} was set to {found} by somebody else (seen at {at}; spindoctor had left it at {expected})"
        )
    };
    seen.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What became of settings that were put back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Variables that have their old value again, with it.
    pub restored: Vec<(String, String)>,
    /// Variables that somebody else set meanwhile, with what they were set to: left so.
    pub left: Vec<(String, String)>,
    /// True where the server was restarted meanwhile: it has the values that it starts with, and nothing was changed.
    pub restarted: bool,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |pairs: &[(String, String)]| {
            let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            pairs.join(", ")
        };
        if self.restarted {
            return f.write_str("the server was restarted meanwhile and has the values that it starts with");
        }
        if self.restored.is_empty() && self.left.is_empty() {
            return f.write_str("nothing was changed");
        }
        if !self.restored.is_empty() {
            write!(f, "the old values are back: {}", list(&self.restored))?;
        }
        if !self.left.is_empty() {
            let comma = if self.restored.is_empty() { "" } else { "; " };
            write!(f, "{comma}left as somebody else set it: {}", list(&self.left))?;
        }
        Ok(())
    }
}

/// What makes a setting last over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Persisted {
    /// It was done: the statement.
    Statement(String),
    /// The server cannot: the lines that belong into its option file, under `[mysqld]`.
    OptionFile(String),
}

/// Settings of one server that are lent to this process: whatever happens to it, they get their old values again, unless
/// [`Settings::keep`] was called. Dropped, they are put back by the dead man's switch.
#[derive(Debug)]
pub struct Settings {
    target: Target,
    facts: Facts,
    /// The connection that sets.
    writer: Writer,
    heartbeat: Heartbeat,
    journal: JournalFile,
    /// As last read back, in the journal's order.
    current: Vec<String>,
    /// True from the moment a value is sent until it is read back: what the variables have is not known between.
    is_uncertain: bool,
    /// False where it is known that the last statement that sets wrote nothing.
    has_set: bool,
    /// What the server persisted of the variables when they were taken; none where this account may not read that.
    persisted: Option<Vec<(String, String)>>,
    event: Result<String, String>,
    notes: Vec<String>,
}

impl Settings {
    /// Takes the lease, writes the journal, arms the dead man's switch. Nothing is changed yet. Takes a second or two, which
    /// the EVENT's rehearsal lasts. What a dead tuner left is put back first.
    ///
    /// # Errors
    /// Another tuner holds the server; a variable does not exist or cannot be changed here; no switch can be armed; the
    /// journal cannot be written.
    pub async fn take(
        target: &Target,
        variables: &[&'static Variable],
        options: &TakeOptions,
    ) -> Result<Self, ApplyError> {
        let mut writer = Writer::connect(target).await?;
        let facts = writer.facts().await?;
        let heartbeat = match Heartbeat::start(target).await {
            Ok(heartbeat) => heartbeat,
            Err(NoLease::Failed(error)) => return Err(error),
            Err(NoLease::Held(holder)) => {
                let who = who_holds(&mut writer, holder, &facts, &options.state).await;
                return Err(ApplyError::Taken { address: target.address(), who });
            }
        };
        let notes =
            clear_up(&mut writer, &facts, &options.state, &LockedBy::Connection(heartbeat.holder)).await?;

        let mut variables = variables.to_vec();
        for position in 0..variables.len() {
            variables.extend(companion(variables[position].name));
        }
        let names: Vec<&str> = variables.iter().map(|variable| variable.name).collect();
        let current = writer.variables(&names).await?;
        let mut held = Vec::new();
        for (variable, value) in variables.iter().zip(current) {
            if !(variable.is_dynamic_on)(facts.version) {
                return Err(Refused::Fixed { name: variable.name, version: facts.version }.into());
            }
            let original = value.ok_or_else(|| ApplyError::Missing(variable.name.to_owned()))?;
            if !variable.has_form(&original) {
                return Err(ApplyError::Strange { variable: variable.name.to_owned(), value: original });
            }
            if !held.iter().any(|held: &Held| held.name == variable.name) {
                held.push(Held { name: variable.name.to_owned(), original, set: Vec::new() });
            }
        }
        let by = LockedBy::Connection(heartbeat.holder);
        // The same values, set as every later one is: what this account may not do shows now.
        if !held.is_empty() {
            let same: Vec<Write<'_>> = held
                .iter()
                .map(|held| Write {
                    name: &held.name,
                    expected: std::slice::from_ref(&held.original),
                    wanted: &held.original,
                })
                .collect();
            if !writer.run_if(&lease::set(&by, &same)).await? {
                return Err(ApplyError::Lost {
                    reason: "somebody else set a variable or took the lease before anything was changed"
                        .to_owned(),
                });
            }
        }
        let persisted = writer.persisted(&names, facts.version).await.ok();

        let tuner = ProcessMark::own().map_err(|error| ApplyError::State {
            path: PathBuf::from("/proc/self/stat"),
            reason: error.to_string(),
        })?;
        let server = facts.server.clone();
        let mut journal =
            Journal::new(target.address(), server.clone(), facts.started, tuner, heartbeat.holder, writer.id);
        journal.variables = held;
        let current = journal.variables.iter().map(|held| held.original.clone()).collect();
        let journal = JournalFile::plan(&options.state, journal);
        // Before the journal, so that nothing is on disk that no guardian looks after.
        let charge = Charge { target: target.clone(), journal: journal.path().to_owned(), server };
        let guardian = heartbeat.guard(options.program.clone(), charge).await;
        let event = Err("not tried yet".to_owned());
        let target = target.clone();
        let mut settings = Self {
            target,
            facts,
            writer,
            heartbeat,
            journal,
            current,
            is_uncertain: false,
            has_set: false,
            persisted,
            event,
            notes,
        };
        if let Err(error) = settings.arm(guardian).await {
            // What is left of it is in the journal, if there is one.
            let _disarmed = settings.disarm().await;
            settings.end().await;
            return Err(error);
        }
        Ok(settings)
    }

    /// Writes the journal and makes the EVENT, beside a guardian that may be there already.
    async fn arm(&mut self, guardian: Result<u32, String>) -> Result<(), ApplyError> {
        self.journal.create()?;
        self.event = match self.facts.no_event.clone() {
            Some(why) => Err(why),
            None => self.arm_event().await,
        };
        self.heartbeat.has_event.store(self.event.is_ok(), Ordering::Relaxed);
        // The one that was started may have ended meanwhile.
        match (&self.event, guardian.and(self.heartbeat.guardian())) {
            (Err(event), Err(guardian)) => Err(ApplyError::NoSwitch { event: event.clone(), guardian }),
            _ => Ok(()),
        }
    }

    /// Rehearses the EVENT and makes the real one, in the first schema where that works; its full name, or why not.
    async fn arm_event(&mut self) -> Result<String, String> {
        let mut why = String::new();
        for schema in lease::SCHEMAS {
            match self.arm_event_in(schema).await {
                Ok(()) => return Ok(format!("{schema}.{}", self.journal.journal.event_name())),
                Err(error) if why.is_empty() => why = error,
                Err(_) => {}
            }
        }
        Err(why)
    }

    async fn arm_event_in(&mut self, schema: &'static str) -> Result<(), String> {
        let comment = format!("spindoctor tune, process {}", std::process::id());
        // In the journal before it is on the server, so that whoever reads it knows what to take away.
        self.journal.journal.event_schema = Some(schema.to_owned());
        self.journal.save().map_err(|error| error.to_string())?;
        let rehearsal = lease::rehearsal(&self.watched(schema));
        let made = match self.rehearse(schema, &comment, &rehearsal).await {
            Ok(()) => {
                let watched = watched(&self.facts, &self.journal.journal, schema);
                self.writer
                    .create_event(&watched, &comment, &lease::body(&watched))
                    .await
                    .map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        if made.is_err() {
            // A rehearsal that did not work must not stand there.
            let _absent = self.writer.drop_event(schema, &self.journal.journal.event_name()).await;
            self.journal.journal.event_schema = None;
            self.journal.save().map_err(|error| error.to_string())?;
        }
        made
    }

    /// Lets an EVENT do once, with the values that stand, what the real one may have to do.
    async fn rehearse(&mut self, schema: &str, comment: &str, body: &str) -> Result<(), String> {
        let watched = watched(&self.facts, &self.journal.journal, schema);
        self.writer.create_event(&watched, comment, body).await.map_err(|error| error.to_string())?;
        let own = self.journal.journal.event_name();
        let begun = Instant::now();
        while begun.elapsed() < REHEARSAL {
            let events = self.writer.events().await.map_err(|error| error.to_string())?;
            if !events.iter().any(|(_, name, _)| *name == own) {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
        Err(format!(
            "a rehearsal did not end within {} s: the EVENT's definer may lack a privilege, see the server's error log",
            REHEARSAL.as_secs()
        ))
    }

    fn watched<'a>(&'a self, schema: &'a str) -> Watched<'a> {
        watched(&self.facts, &self.journal.journal, schema)
    }

    /// The server's version.
    pub fn version(&self) -> ServerVersion {
        self.facts.version
    }

    /// The value before, as the server prints it; none for a variable that was not taken.
    pub fn original(&self, name: &str) -> Option<&str> {
        let held = self.journal.journal.variables.iter().find(|held| held.name == name)?;
        Some(&held.original)
    }

    /// The value as it was last read back.
    pub fn current(&self, name: &str) -> Option<&str> {
        self.position(name).map(|position| self.current[position].as_str())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.journal.journal.variables.iter().position(|held| held.name == name)
    }

    /// Sets these values, all or none, and reads them back. Also where a value is the same as now.
    ///
    /// # Errors
    /// The server refuses or adjusts a value, or the lease is lost. None of the values is changed then, or all are put back
    /// by the switch.
    pub async fn set(&mut self, values: &[(&'static Variable, String)]) -> Result<(), ApplyError> {
        let mut wanted = Vec::new();
        for (variable, value) in values {
            let position =
                self.position(variable.name).ok_or_else(|| ApplyError::NotTaken(variable.name.to_owned()))?;
            // The old value may lie outside of what the list allows: it was there before.
            let value = match variable.value(self.facts.version, value) {
                Ok(value) => value,
                Err(_) if self.original(variable.name).is_some_and(|old| lease::same(old, value)) => {
                    value.clone()
                }
                Err(refused) => return Err(refused.into()),
            };
            wanted.push((position, variable.name, value));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        for (variable, _) in values {
            if let Some(other) = companion(variable.name)
                && !wanted.iter().any(|(_, name, _)| *name == other.name)
                && let Some(position) = self.position(other.name)
            {
                wanted.push((position, other.name, self.current[position].clone()));
            }
        }
        self.still_held()?;
        let outcome = self.set_wanted(&wanted).await;
        match outcome {
            // Whatever failed, it failed because somebody else has put everything back meanwhile.
            Err(error) if !matches!(error, ApplyError::Lost { .. }) => match self.writer.holder().await {
                Ok(holder) if holder != Some(self.heartbeat.holder) => {
                    Err(ApplyError::Lost { reason: "the server gave it up".to_owned() })
                }
                _ => Err(error),
            },
            outcome => outcome,
        }
    }

    async fn set_wanted(&mut self, wanted: &[(usize, &str, String)]) -> Result<(), ApplyError> {
        let before = self.current.clone();
        let known: Vec<usize> = self.journal.journal.variables.iter().map(|held| held.set.len()).collect();
        let possible: Vec<Vec<String>> =
            wanted.iter().map(|(_, name, value)| may_become(name, value, wanted, &before)).collect();
        let positions = wanted.iter().map(|(position, ..)| *position);
        let is_new = self.add(positions.zip(possible));
        if is_new {
            self.look().await.inspect_err(|_| self.forget(&known))?;
            self.announce().await?;
        }
        let Err(error) = self.set_and_read(wanted).await else { return Ok(()) };
        if is_new && !self.has_set && matches!(error, ApplyError::Changed { .. } | ApplyError::Lost { .. }) {
            // Nothing was set: who sets the same value now, sets his own.
            self.forget(&known);
            let _gone = self.announce().await;
        }
        if matches!(error, ApplyError::Adjusted { .. }) {
            // What the server made of it is this process's doing, too.
            let made: Vec<(usize, Vec<String>)> = wanted
                .iter()
                .map(|(position, ..)| (*position, vec![self.current[*position].clone()]))
                .collect();
            if self.add(made.into_iter()) {
                self.announce().await?;
            }
            let old: Vec<_> = wanted.iter().map(|(at, name, _)| (*at, *name, before[*at].clone())).collect();
            self.set_and_read(&old).await?;
        }
        Err(error)
    }

    /// These values may be this process's doing from now on; true where one of them is new.
    fn add(&mut self, possible: impl Iterator<Item = (usize, Vec<String>)>) -> bool {
        let mut has_new = false;
        for (position, values) in possible {
            let held = &mut self.journal.journal.variables[position];
            for value in values {
                let is_known = |value: &str| {
                    lease::same(value, &held.original) || held.set.iter().any(|set| lease::same(set, value))
                };
                if !is_known(&value) {
                    held.set.push(value);
                    has_new = true;
                }
            }
        }
        has_new
    }

    /// Only so many values of each variable are this process's doing.
    fn forget(&mut self, known: &[usize]) {
        for (held, known) in self.journal.journal.variables.iter_mut().zip(known) {
            held.set.truncate(*known);
        }
    }

    /// Looks at the values, then at the lease: both stood as this process believes.
    async fn look(&mut self) -> Result<(), ApplyError> {
        self.check().await?;
        self.expect_lease().await
    }

    /// Journal and EVENT learn what may be this process's doing.
    async fn announce(&mut self) -> Result<(), ApplyError> {
        self.save()?;
        if let Some(schema) = self.journal.journal.event_schema.clone() {
            let watched = watched(&self.facts, &self.journal.journal, &schema);
            self.writer.alter_event(&watched).await?;
        }
        Ok(())
    }

    /// Saves the journal; where it is gone, everything has been put back.
    fn save(&self) -> Result<(), ApplyError> {
        self.journal.save().map_err(|error| match error.error.kind() {
            std::io::ErrorKind::NotFound => {
                ApplyError::Lost { reason: "the journal is gone, the old values were put back".to_owned() }
            }
            _ => error.into(),
        })
    }

    async fn set_and_read(&mut self, wanted: &[(usize, &str, String)]) -> Result<(), ApplyError> {
        let writes: Vec<Write<'_>> = wanted
            .iter()
            .map(|(position, name, value)| Write {
                name,
                expected: std::slice::from_ref(&self.current[*position]),
                wanted: value,
            })
            .collect();
        let statement = lease::set(&LockedBy::Connection(self.heartbeat.holder), &writes);
        let possible: Vec<Vec<String>> =
            wanted.iter().map(|(_, name, value)| may_become(name, value, wanted, &self.current)).collect();
        (self.is_uncertain, self.has_set) = (true, true);
        if !self.writer.run_if(&statement).await? {
            (self.is_uncertain, self.has_set) = (false, false);
            let names: Vec<&str> = wanted.iter().map(|(_, name, _)| *name).collect();
            let now = self.writer.variables(&names).await?;
            let found = wanted.iter().zip(now).map(|((position, ..), now)| (*position, now));
            let seen = self.seen(found);
            return Err(match seen.is_empty() {
                // The lease is gone, or the variable has its value again.
                true => ApplyError::Lost { reason: "the server gave it up".to_owned() },
                false => ApplyError::Changed { seen },
            });
        }
        // A server that makes another value of one says so.
        let is_warned = self.writer.number("SELECT @@warning_count").await? != Some(0);
        let names: Vec<&str> = wanted.iter().map(|(_, name, _)| *name).collect();
        let now = self.writer.variables(&names).await?;
        let (mut adjusted, mut foreign) = (None, Vec::new());
        for (((position, name, asked), got), possible) in wanted.iter().zip(now).zip(possible) {
            let got = got.unwrap_or_default();
            let is_made = is_warned || possible.iter().any(|made| lease::same(made, &got));
            if lease::same(asked, &got) {
                self.current[*position] = got;
            } else if is_made {
                let (variable, asked) = ((*name).to_owned(), asked.clone());
                adjusted = Some(ApplyError::Adjusted { variable, asked, got: got.clone() });
                self.current[*position] = got;
            } else {
                self.current[*position] = asked.clone();
                foreign.push((*position, Some(got)));
            }
        }
        if !foreign.is_empty() {
            // Somebody was faster than the reading back, or everything has been put back meanwhile.
            self.is_uncertain = false;
            let seen = self.seen(foreign.into_iter());
            self.expect_lease().await?;
            return Err(ApplyError::Changed { seen });
        }
        self.is_uncertain = false;
        let Some(adjusted) = adjusted else { return Ok(()) };
        // Where the lease was lost between, somebody has put the old values back.
        match self.writer.holder().await? {
            Some(holder) if holder == self.heartbeat.holder => Err(adjusted),
            _ => Err(ApplyError::Lost { reason: "the server gave it up".to_owned() }),
        }
    }

    /// Which of these have another value than this process last read.
    fn seen(&self, found: impl Iterator<Item = (usize, Option<String>)>) -> Vec<Seen> {
        let at = Timestamp::now();
        found
            .filter_map(|(position, found)| {
                let (found, expected) = (found?, &self.current[position]);
                (!lease::same(&found, expected)).then(|| Seen {
                    variable: self.journal.journal.variables[position].name.clone(),
                    expected: expected.clone(),
                    found,
                    at,
                })
            })
            .collect()
    }

    /// Looks whether every variable has the value that this process last set, or found.
    ///
    /// # Errors
    /// Somebody else set one meanwhile, or the server does not answer.
    pub async fn check(&mut self) -> Result<(), ApplyError> {
        let names: Vec<&str> = self.journal.journal.variables.iter().map(|held| held.name.as_str()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let now = self.writer.variables(&names).await?;
        let seen = self.seen(now.into_iter().enumerate());
        if seen.is_empty() {
            return Ok(());
        }
        // Where the lease is gone, it was the switch.
        match self.writer.holder().await? {
            Some(holder) if holder == self.heartbeat.holder => Err(ApplyError::Changed { seen }),
            _ => Err(ApplyError::Lost { reason: "the server gave it up".to_owned() }),
        }
    }

    fn still_held(&self) -> Result<(), ApplyError> {
        self.lost().map_or(Ok(()), |reason| Err(ApplyError::Lost { reason }))
    }

    /// Gives all variables their old values back, and the lease.
    ///
    /// # Errors
    /// The server cannot be reached for ten seconds: the switch goes on trying.
    pub async fn restore(mut self) -> Result<Restored, ApplyError> {
        let begun = Instant::now();
        let mut last_error = None;
        let mut foreign = Foreign::default();
        let restored = loop {
            match self.try_restore(&mut foreign).await {
                Ok(Some(restored)) => break restored,
                Ok(None) => {}
                Err(error) => last_error = Some(error),
            }
            if begun.elapsed() > PUT_BACK {
                let reason = last_error
                    .map_or_else(|| "another connection has the lease".to_owned(), |error| error.to_string());
                return Err(ApplyError::NotPutBack { reason, switch: Box::new(self.switch()) });
            }
            sleep(PAUSE).await;
            if self.writer.is_broken()
                && let Ok(writer) = Writer::connect(&self.target).await
            {
                self.writer = writer;
            }
        };
        self.end().await;
        Ok(restored)
    }

    /// One try; none where somebody else may be giving back.
    async fn try_restore(&mut self, foreign: &mut Foreign) -> Result<Option<Restored>, ApplyError> {
        let own = self.heartbeat.holder;
        let by = match self.writer.holder().await? {
            Some(holder) if holder == own => LockedBy::Connection(own),
            _ => match foreign.right(&mut self.writer, own).await? {
                Some(by) => by,
                None => return Ok(None),
            },
        };
        // The guardian was faster: what stands there now is no business of ours.
        if matches!(Journal::read(self.journal.path()), Ok(None)) {
            let old = |held: &Held| (held.name.clone(), held.original.clone());
            let restored = self.journal.journal.variables.iter().map(old).collect();
            return Ok(Some(Restored { restored, ..Restored::default() }));
        }
        let mut variables = self.journal.journal.variables.clone();
        if !self.is_uncertain {
            for (held, current) in variables.iter_mut().zip(&self.current) {
                held.set = vec![current.clone()];
            }
        }
        let restored =
            finish(&mut self.writer, self.journal.path(), &self.journal.journal, &variables, &by).await?;
        Ok(Some(restored))
    }

    /// Leaves the values as they are now, disarms the switch, and gives the lease back.
    ///
    /// # Errors
    /// The lease was lost before: the old values are back then.
    pub async fn keep(mut self) -> Result<(), ApplyError> {
        if let Err(error) = self.decide_to_keep().await {
            return Err(self.not_kept(error).await);
        }
        let kept = self.close_kept().await;
        self.end().await;
        kept
    }

    /// Makes it so that the values stay. What fails before the EVENT is gone leaves the lease as it is.
    async fn decide_to_keep(&mut self) -> Result<(), ApplyError> {
        self.still_held()?;
        self.look().await?;
        // From here on the guardian and `--recover` leave the values alone. The EVENT, should this process end before it has
        // taken it away, puts all of them back: all new or all old.
        self.journal.journal.is_kept = true;
        self.save()?;
        if let Some(schema) = self.journal.journal.event_schema.clone() {
            self.writer.drop_event(&schema, &self.journal.journal.event_name()).await?;
            self.journal.journal.event_schema = None;
        }
        Ok(())
    }

    /// The end of keeping: whether the values stand.
    async fn close_kept(&mut self) -> Result<(), ApplyError> {
        let held = self.expect_lease().await;
        let names: Vec<&str> = self.journal.journal.variables.iter().map(|held| held.name.as_str()).collect();
        let stand = match held {
            Ok(()) => None,
            Err(_) => Some(self.writer.variables(&names).await.unwrap_or_default()),
        };
        journal::remove(self.journal.path())?;
        let Some(stand) = stand else { return Ok(()) };
        let stand: Vec<String> = names
            .iter()
            .zip(stand)
            .filter_map(|(name, value)| Some(format!("{name} = {}", value?)))
            .collect();
        Err(ApplyError::Lost {
            reason: format!(
                "that happened while the values were being kept, so that they may be new or old: {}",
                stand.join(", ")
            ),
        })
    }

    async fn expect_lease(&mut self) -> Result<(), ApplyError> {
        match self.writer.holder().await? {
            Some(holder) if holder == self.heartbeat.holder => Ok(()),
            _ => Err(ApplyError::Lost { reason: "the server gave it up".to_owned() }),
        }
    }

    /// What could not be kept is put back.
    async fn not_kept(mut self, error: ApplyError) -> ApplyError {
        self.journal.journal.is_kept = false;
        // Where it is gone, the old values are back.
        let _gone = self.save();
        match self.restore().await {
            Ok(_) => error,
            Err(not_put_back) => not_put_back,
        }
    }

    /// As [`Settings::keep`], and makes those values last over a restart that differ from the old ones.
    ///
    /// # Errors
    /// As [`Settings::keep`]; or the server refuses to persist: the values are kept until it restarts.
    pub async fn persist(mut self) -> Result<Persisted, ApplyError> {
        let pairs = self.journal.journal.variables.iter().zip(&self.current);
        let changed: Vec<(String, String)> = pairs
            .filter(|(held, now)| !lease::same(&held.original, now))
            .map(|(held, now)| (held.name.clone(), now.clone()))
            .collect();
        if let Err(error) = self.decide_to_keep().await {
            return Err(self.not_kept(error).await);
        }
        if let Err(error) = self.close_kept().await {
            self.end().await;
            return Err(error);
        }
        let persisted = if changed.is_empty() {
            Ok(Persisted::OptionFile(String::new()))
        } else if self.facts.version.mysql_at_least(8, 0, 0) {
            let sets: Vec<String> = changed
                .iter()
                .map(|(name, value)| format!("PERSIST {name} = {}", lease::literal(value)))
                .collect();
            let statement = format!("SET {}", sets.join(", "));
            match self.set_persist(&changed).await {
                Ok(()) => Ok(Persisted::Statement(statement)),
                Err(reason) => Err(ApplyError::NotPersisted { statement, reason }),
            }
        } else {
            let lines: Vec<String> =
                changed.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
            Ok(Persisted::OptionFile(lines.concat()))
        };
        self.end().await;
        persisted
    }

    /// Persists, where nobody else has persisted or set one of the variables since they were taken.
    async fn set_persist(&mut self, changed: &[(String, String)]) -> Result<(), String> {
        let names: Vec<&str> = self.journal.journal.variables.iter().map(|held| held.name.as_str()).collect();
        let now = self.writer.persisted(&names, self.facts.version).await.ok();
        if now != self.persisted && now.is_some() && self.persisted.is_some() {
            return Err("somebody else persisted one of these variables meanwhile".to_owned());
        }
        let writes: Vec<Write<'_>> = changed
            .iter()
            .map(|(name, value)| Write { name, expected: std::slice::from_ref(value), wanted: value })
            .collect();
        match self.writer.run_if(&lease::persist(&LockedBy::Connection(self.heartbeat.holder), &writes)).await
        {
            Ok(true) => Ok(()),
            Ok(false) => Err("somebody else set one of these variables meanwhile".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Takes EVENT and journal away. Values must be old, or kept.
    async fn disarm(&mut self) -> Result<(), ApplyError> {
        take_away(&mut self.writer, self.journal.path(), &self.journal.journal).await
    }

    /// Sends the guardian home, gives the lease back, closes.
    async fn end(self) {
        self.heartbeat.release().await;
        self.writer.close().await;
    }

    /// Which dead man's switch stands.
    pub fn switch(&self) -> Switch {
        Switch { event: self.event.clone(), guardian: self.heartbeat.guardian() }
    }

    /// What else is worth telling: settings of a dead tuner that were put back first.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Why the lease is lost, once it is: the server was restarted, the network is gone, this process was stopped for too
    /// long. Nothing can be set any more; call [`Settings::restore`].
    pub fn lost(&self) -> Option<String> {
        self.heartbeat.lost()
    }

    /// Waits until the lease is lost, and says why. For `select!` beside other waiting.
    pub async fn wait_until_lost(&self) -> String {
        self.heartbeat.wait_until_lost().await
    }
}

/// Who else has the lock, and since when that is seen.
#[derive(Debug, Default)]
pub(crate) struct Foreign(Option<(u64, Instant)>);

impl Foreign {
    /// The right to give back what the tuner with that connection changed, see the protocol above; none where this connection
    /// has to wait: the tuner may live, or somebody else may be giving back.
    pub(crate) async fn right(
        &mut self,
        writer: &mut Writer,
        holder: u64,
    ) -> Result<Option<LockedBy>, ApplyError> {
        if writer.lock(lease::GIVER_IDLE_S).await? {
            return Ok(Some(LockedBy::Own));
        }
        match writer.holder().await? {
            Some(other) if other != holder => {
                let since = match self.0 {
                    Some((before, since)) if before == other => since,
                    _ => Instant::now(),
                };
                self.0 = Some((other, since));
                if since.elapsed() < FOREIGN {
                    return Ok(None);
                }
                let until = format!("SELECT SYSDATE() + INTERVAL {FOREIGN_RIGHT_S} SECOND");
                let until = writer.cell(&until).await?.unwrap_or_default();
                Ok(Some(LockedBy::Foreign { connection: other, until }))
            }
            _ => {
                self.0 = None;
                Ok(None)
            }
        }
    }
}

fn watched<'a>(facts: &Facts, journal: &'a Journal, schema: &'a str) -> Watched<'a> {
    Watched {
        schema,
        holder: journal.holder,
        writer: journal.writer,
        started: facts.started,
        variables: &journal.variables,
        has_binary_log: facts.has_binary_log,
        version: facts.version,
    }
}

/// What a variable may have after it was set to this: the value, and of two that depend on each other what the server makes of
/// the other one (`innodb_io_capacity_update` and `innodb_io_capacity_max_update` in ha_innodb.cc): MySQL sets either to the
/// other, MariaDB the maximum to twice the capacity.
fn may_become(name: &str, value: &str, wanted: &[(usize, &str, String)], before: &[String]) -> Vec<String> {
    let mut values = vec![value.to_owned()];
    if let Some(other) = companion(name) {
        let range = |value: &String| other.is_in_widest_range(value);
        for (position, _, wanted) in
            wanted.iter().filter(|(_, wanted, _)| *wanted == name || *wanted == other.name)
        {
            values.push(wanted.clone());
            values.push(before[*position].clone());
            if let Ok(number) = wanted.parse::<u64>() {
                values.extend(Some(number.saturating_mul(2).to_string()).filter(range));
            }
        }
    }
    values
}

/// Puts a journal's values back, takes its EVENT and the journal itself away. The caller has the right to.
pub(crate) async fn finish(
    writer: &mut Writer,
    path: &Path,
    journal: &Journal,
    variables: &[Held],
    by: &LockedBy,
) -> Result<Restored, ApplyError> {
    let restored = writer.put_back(journal, variables, by).await?;
    // Without the right something may have been refused, and somebody else may be at it.
    if !writer.is_held(by).await? {
        return Err(ApplyError::Statement {
            doing: "put the old values back".to_owned(),
            reason: "another connection has the lease now".to_owned(),
        });
    }
    take_away(writer, path, journal).await?;
    Ok(restored)
}

/// Takes a journal's EVENT and the journal itself away.
pub(crate) async fn take_away(writer: &mut Writer, path: &Path, journal: &Journal) -> Result<(), ApplyError> {
    if let Some(schema) = &journal.event_schema {
        writer.drop_event(schema, &journal.event_name()).await?;
    }
    Ok(journal::remove(path)?)
}

/// Who holds the lease, as far as the server and the journals here tell.
async fn who_holds(writer: &mut Writer, holder: Option<u64>, facts: &Facts, state: &Path) -> String {
    let journals = journal::list(state).unwrap_or_default();
    let own = journals.iter().filter_map(|(_, journal)| journal.as_ref().ok());
    if let Some(journal) = own.into_iter().find(|journal| {
        journal.server == facts.server && Some(journal.holder) == holder && journal.tuner.runs()
    }) {
        return format!(
            "process {} on this host, since {}",
            journal.tuner.pid,
            journal.taken.strftime("%Y-%m-%d %H:%M:%S UTC")
        );
    }
    let Some(holder) = holder else { return "its lease ended this moment".to_owned() };
    let sql = format!("SELECT USER, HOST FROM information_schema.PROCESSLIST WHERE ID = {holder}");
    let account = match writer.rows(&sql).await.unwrap_or_default().into_iter().next().as_deref() {
        Some([Some(user), Some(host)]) => format!("{user} from {host}, connection {holder}"),
        _ => format!("connection {holder}"),
    };
    let own = lease::event_name(holder, facts.started);
    let events = writer.events().await.unwrap_or_default();
    match events.into_iter().find(|(_, name, created)| *name == own && !created.is_empty()) {
        Some((.., created)) => format!("{account}, since {created} (the server's time)"),
        None => account,
    }
}

/// Puts back what dead tuners left on this server; what was done, in sentences.
async fn clear_up(
    writer: &mut Writer,
    facts: &Facts,
    state: &Path,
    by: &LockedBy,
) -> Result<Vec<String>, ApplyError> {
    let mut notes = Vec::new();
    for (path, journal) in list(state)? {
        match journal {
            Ok(journal) if journal.server == facts.server => {
                let begun = Instant::now();
                loop {
                    match clear_journal(writer, &path, &journal, by).await {
                        Ok(done) => break notes.push(done),
                        // A statement of the dead tuner's may be under way, and end.
                        Err(ApplyError::Statement { .. }) if begun.elapsed() < LEFTOVER => sleep(PAUSE).await,
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(_) => {}
            Err(error) => notes.push(not_used(&path, &error)),
        }
    }
    wait_for_events(writer, facts).await?;
    if !notes.is_empty() {
        sleep(AFTER_CLEARING_UP).await;
    }
    Ok(notes)
}

fn not_used(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    // A refusal names the file itself.
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!("a journal is not used: {error}"),
        _ => format!("the journal {path} is not used: {error}; remove it after a look at what is in it"),
    }
}

/// Waits until the EVENTs of tuners that are gone have run: once a second, unless somebody switched the scheduler off. One
/// of an earlier start of the server has nothing to put back.
async fn wait_for_events(writer: &mut Writer, facts: &Facts) -> Result<(), ApplyError> {
    let begun = Instant::now();
    loop {
        let mut standing = None;
        for (schema, name, _) in writer.events().await? {
            match lease::event_started(&name) {
                Some(started) if started != facts.started => writer.drop_event(&schema, &name).await?,
                _ => standing = Some(format!("{schema}.{name}")),
            }
        }
        let Some(name) = standing else { return Ok(()) };
        if begun.elapsed() > LEFTOVER {
            return Err(ApplyError::Leftover { name });
        }
        sleep(PAUSE).await;
    }
}

fn list(state: &Path) -> Result<Vec<(PathBuf, std::io::Result<Journal>)>, ApplyError> {
    journal::list(state)
        .map_err(|error| ApplyError::State { path: state.to_owned(), reason: error.to_string() })
}

async fn clear_journal(
    writer: &mut Writer,
    path: &Path,
    journal: &Journal,
    by: &LockedBy,
) -> Result<String, ApplyError> {
    let tuner = format!("process {} tuned here and ended without a word", journal.tuner.pid);
    if journal.is_kept {
        take_away(writer, path, journal).await?;
        return Ok(format!("{tuner}; it had decided to keep its values"));
    }
    let restored = finish(writer, path, journal, &journal.variables, by).await?;
    Ok(format!("{tuner}; {restored}"))
}

/// Looks whether a server can take these values, without changing or arming anything.
///
/// # Errors
/// A variable is not there or cannot be changed, a value is out of the range of this server, or beyond another variable that
/// limits it.
pub async fn expect_possible(
    target: &Target,
    values: &[(&'static Variable, String)],
) -> Result<(), ApplyError> {
    if values.is_empty() {
        return Ok(());
    }
    let mut writer = Writer::connect(target).await?;
    let facts = writer.facts().await?;
    for (variable, value) in values {
        variable.value(facts.version, value)?;
        if writer.variables(&[variable.name]).await?.first().is_none_or(Option::is_none) {
            return Err(ApplyError::Missing(variable.name.to_owned()));
        }
    }
    // MySQL takes the maximum for a capacity beyond it, MariaDB raises the maximum: neither is what was asked for.
    for [low, high] in TOGETHER {
        let mut now = writer.variables(&[low, high]).await?;
        for (position, name) in [low, high].iter().enumerate() {
            if let Some((_, value)) = values.iter().find(|(variable, _)| variable.name == *name) {
                now[position] = Some(value.clone());
            }
        }
        let is_asked = values.iter().any(|(variable, _)| [low, high].contains(&variable.name));
        if let [Some(low_value), Some(high_value)] = now.as_slice()
            && is_asked
            && matches!((low_value.parse::<u64>(), high_value.parse::<u64>()), (Ok(low), Ok(high)) if low > high)
        {
            return Err(ApplyError::Beyond {
                low,
                value: low_value.clone(),
                high,
                limit: high_value.clone(),
            });
        }
    }
    writer.close().await;
    Ok(())
}

/// What [`recover`] found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// What was put back on this server, a sentence for each tuner that was killed.
    pub done: Vec<String>,
    /// Journals here of other servers: what to do about each.
    pub others: Vec<String>,
    /// Journals here that are not believed: why.
    pub refused: Vec<String>,
}

/// Puts back what tuners that were killed left changed on this server.
///
/// # Errors
/// A tuner is at work there, or the server cannot be reached.
pub async fn recover(target: &Target, state: &Path) -> Result<Recovered, ApplyError> {
    let mut writer = Writer::connect(target).await?;
    let facts = writer.facts().await?;
    let mut recovered = Recovered::default();
    let mut own = Vec::new();
    for (path, journal) in list(state)? {
        match journal {
            Ok(journal) if journal.server == facts.server => own.push(path),
            Ok(journal) => recovered.others.push(format!(
                "process {} left a journal of {}: run `spindoctor tune --recover` for that server",
                journal.tuner.pid, journal.address
            )),
            Err(error) => recovered.refused.push(not_used(&path, &error)),
        }
    }
    // A lock that anybody holds is no reason to leave settings changed; the lock of a tuner that lives is.
    let tuners: Vec<u64> = own
        .iter()
        .filter_map(|path| Journal::read(path).ok().flatten())
        .filter(|journal| journal.server_started == facts.started)
        .map(|journal| journal.holder)
        .collect();
    let (begun, mut foreign) = (Instant::now(), Foreign::default());
    loop {
        let tuner = writer.holder().await?.filter(|holder| tuners.contains(holder));
        let by = match foreign.right(&mut writer, tuner.unwrap_or_default()).await? {
            Some(LockedBy::Own) => Some(LockedBy::Own),
            // Beside a lock that a tuner elsewhere may hold, only what is known here is given back.
            by => by.filter(|_| !own.is_empty()),
        };
        if let Some(by) = by {
            match recover_journals(&mut writer, &own, &by, &mut recovered.done).await {
                Ok(()) => break,
                // A statement of the tuner's may be under way, and end.
                Err(ApplyError::Statement { .. }) if begun.elapsed() < LEFTOVER => {}
                Err(error) => return Err(error),
            }
        } else if begun.elapsed() > LEFTOVER {
            let holder = writer.holder().await?;
            let who = who_holds(&mut writer, holder, &facts, state).await;
            return Err(ApplyError::Taken { address: target.address(), who });
        }
        sleep(PAUSE).await;
    }
    wait_for_events(&mut writer, &facts).await?;
    writer.close().await;
    Ok(recovered)
}

async fn recover_journals(
    writer: &mut Writer,
    own: &[PathBuf],
    by: &LockedBy,
    done: &mut Vec<String>,
) -> Result<(), ApplyError> {
    for path in own {
        // Read again under the lock: who held it before may have put everything back.
        if let Ok(Some(journal)) = Journal::read(path) {
            done.push(clear_journal(writer, path, &journal, by).await?);
        }
    }
    Ok(())
}
