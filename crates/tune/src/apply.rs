//! The only code that changes a server's settings, and its rollback.
//!
//! [`Settings::take`] lends variables of a server to this process. Before anything is changed
//!
//! 1. the **lease** stands: a user lock, so that there is no second tuner ([`crate::lease`]);
//! 2. the **journal** is on disk: what every variable was, and which values may be this process's doing ([`crate::journal`]);
//! 3. a **dead man's switch** is armed: an EVENT on the server that has shown in a rehearsal that it works, and a guardian,
//!    a process of its own that has been on the server ([`crate::guardian`]). One of them is needed; most servers have both.
//!
//! Every change asks for the lease in the statement that makes it, so that a process that was stopped, and lost its lease
//! meanwhile, changes nothing when it goes on. Whoever puts something back holds the lock while it does. A variable that
//! somebody else set meanwhile is left alone and told.

pub(crate) mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::{ConnectError, Target};
use spindoctor_model::ServerVersion;
use thiserror::Error;
use tokio::time::sleep;

use crate::guardian::Charge;
use crate::heartbeat::{Heartbeat, NoLease};
use crate::journal::{self, Journal, JournalError, JournalFile, ProcessMark};
use crate::lease::{self, Held, Watched};
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
        let notes = clear_up(&mut writer, &facts, &options.state).await?;

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
            if !held.iter().any(|held: &Held| held.name == variable.name) {
                let name = variable.name.to_owned();
                held.push(Held { name, original, set: Vec::new(), is_changing: false });
            }
        }
        // The same values, set as every later one is: what this account may not do is told now.
        let same = held.iter().map(|held| (held.name.as_str(), held.original.as_str()));
        if !held.is_empty() {
            writer.run(&lease::set(heartbeat.holder, same)).await?;
        }

        let tuner = ProcessMark::own().map_err(|error| ApplyError::State {
            path: PathBuf::from("/proc/self/stat"),
            reason: error.to_string(),
        })?;
        let server = facts.server.clone();
        let mut journal =
            Journal::new(target.address(), server.clone(), facts.started, tuner, heartbeat.holder);
        journal.variables = held;
        let current = journal.variables.iter().map(|held| held.original.clone()).collect();
        let journal = JournalFile::plan(&options.state, journal);
        // Before the journal, so that nothing is on disk that no guardian looks after.
        let charge = Charge { target: target.clone(), journal: journal.path().to_owned(), server };
        let guardian = heartbeat.guard(options.program.clone(), charge).await;
        let event = Err("not tried yet".to_owned());
        let target = target.clone();
        let mut settings = Self { target, facts, writer, heartbeat, journal, current, event, notes };
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
                Ok(()) => return Ok(format!("{schema}.{}", lease::EVENT)),
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
        let outcome = self.rehearse(schema, &comment, &rehearsal).await;
        let made = match outcome {
            Ok(()) => {
                let body = lease::body(&self.watched(schema));
                self.writer.create_event(schema, &comment, &body).await.map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        if made.is_err() {
            // A rehearsal that did not work must not stand there.
            let _absent = self.writer.drop_event(schema).await;
            self.journal.journal.event_schema = None;
            self.journal.save().map_err(|error| error.to_string())?;
        }
        made
    }

    /// Lets an EVENT do once, with the values that stand, what the real one may have to do.
    async fn rehearse(&mut self, schema: &str, comment: &str, body: &str) -> Result<(), String> {
        self.writer.create_event(schema, comment, body).await.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        while begun.elapsed() < REHEARSAL {
            match self.writer.event().await {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => sleep(PAUSE).await,
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!(
            "a rehearsal did not end within {} s: the EVENT's definer may lack a privilege, see the server's error log",
            REHEARSAL.as_secs()
        ))
    }

    fn watched<'a>(&'a self, schema: &'a str) -> Watched<'a> {
        Watched {
            schema,
            holder: self.heartbeat.holder,
            started: self.facts.started,
            variables: &self.journal.journal.variables,
            has_binary_log: self.facts.has_binary_log,
            version: self.facts.version,
        }
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
        let before = self.current.clone();
        let is_new = |held: &Held, value: &str| {
            !lease::same(value, &held.original) && !held.set.iter().any(|set| lease::same(set, value))
        };
        let outcome = self.set_wanted(&wanted, &before, is_new).await;
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

    async fn set_wanted(
        &mut self,
        wanted: &[(usize, &str, String)],
        before: &[String],
        is_new: impl Fn(&Held, &str) -> bool,
    ) -> Result<(), ApplyError> {
        let variables = &self.journal.journal.variables;
        let has_new = wanted.iter().any(|(position, _, value)| is_new(&variables[*position], value));
        if has_new {
            for (position, ..) in wanted {
                self.journal.journal.variables[*position].is_changing = true;
            }
            self.announce().await?;
        }
        let set = self.set_and_read(wanted).await;
        if let Err(error) = set {
            // What is announced stays so: whatever the variables have now is this process's doing, until they are put back.
            let old: Vec<_> = wanted.iter().map(|(at, name, _)| (*at, *name, before[*at].clone())).collect();
            if self.still_held().is_ok() && self.set_and_read(&old).await.is_ok() && has_new {
                self.changed(wanted);
                self.announce().await?;
            }
            return Err(error);
        }
        if has_new {
            for (position, _, value) in wanted {
                let held = &mut self.journal.journal.variables[*position];
                if is_new(held, value) {
                    held.set.push(value.clone());
                }
            }
            self.changed(wanted);
            self.announce().await?;
        }
        Ok(())
    }

    /// No value of these is new any more.
    fn changed(&mut self, wanted: &[(usize, &str, String)]) {
        for (position, ..) in wanted {
            self.journal.journal.variables[*position].is_changing = false;
        }
    }

    /// Journal and EVENT learn what may be this process's doing.
    async fn announce(&mut self) -> Result<(), ApplyError> {
        self.journal.save()?;
        if let Some(schema) = self.journal.journal.event_schema.clone() {
            let watched = Watched {
                schema: &schema,
                holder: self.heartbeat.holder,
                started: self.facts.started,
                variables: &self.journal.journal.variables,
                has_binary_log: self.facts.has_binary_log,
                version: self.facts.version,
            };
            self.writer.alter_event(&watched).await?;
        }
        Ok(())
    }

    async fn set_and_read(&mut self, wanted: &[(usize, &str, String)]) -> Result<(), ApplyError> {
        let assignments = wanted.iter().map(|(_, name, value)| (*name, value.as_str()));
        self.writer.run(&lease::set(self.heartbeat.holder, assignments)).await?;
        let names: Vec<&str> = wanted.iter().map(|(_, name, _)| *name).collect();
        let now = self.writer.variables(&names).await?;
        let mut adjusted = None;
        for ((position, name, asked), got) in wanted.iter().zip(now) {
            let got = got.unwrap_or_default();
            if !lease::same(asked, &got) {
                let (variable, asked) = ((*name).to_owned(), asked.clone());
                adjusted = Some(ApplyError::Adjusted { variable, asked, got: got.clone() });
            }
            self.current[*position] = got;
        }
        let Some(adjusted) = adjusted else { return Ok(()) };
        // Where the lease was lost between, each variable has kept what it had.
        match self.writer.holder().await? {
            Some(holder) if holder == self.heartbeat.holder => Err(adjusted),
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
        let restored = loop {
            match self.try_restore().await {
                Ok(Some(restored)) => break restored,
                Ok(None) => {}
                Err(error) => last_error = Some(error),
            }
            if begun.elapsed() > PUT_BACK {
                let reason = last_error
                    .map_or_else(|| "another tuner holds the server".to_owned(), |error| error.to_string());
                return Err(ApplyError::NotPutBack { reason, switch: Box::new(self.switch()) });
            }
            sleep(PAUSE).await;
            if let Ok(writer) = Writer::connect(&self.target).await {
                std::mem::replace(&mut self.writer, writer).close().await;
            }
        };
        self.end().await;
        Ok(restored)
    }

    /// One try; none where somebody else holds the lock, who may be the guardian.
    async fn try_restore(&mut self) -> Result<Option<Restored>, ApplyError> {
        let is_ours = self.writer.holder().await? == Some(self.heartbeat.holder);
        if !is_ours && !self.writer.lock().await? {
            // The guardian was faster, and somebody else tunes already: what stands there is no business of ours.
            let is_done = matches!(Journal::read(self.journal.path()), Ok(None));
            return Ok(is_done.then(|| Restored {
                restored: self
                    .journal
                    .journal
                    .variables
                    .iter()
                    .map(|held| (held.name.clone(), held.original.clone()))
                    .collect(),
                ..Restored::default()
            }));
        }
        let restored = finish(&mut self.writer, self.journal.path(), &self.journal.journal).await?;
        Ok(Some(restored))
    }

    /// Leaves the values as they are now, disarms the switch, and gives the lease back.
    ///
    /// # Errors
    /// The lease was lost before: the old values are back then.
    pub async fn keep(mut self) -> Result<(), ApplyError> {
        self.decide_to_keep().await?;
        self.end().await;
        Ok(())
    }

    async fn decide_to_keep(&mut self) -> Result<(), ApplyError> {
        self.still_held()?;
        if self.writer.holder().await? != Some(self.heartbeat.holder) {
            return Err(ApplyError::Lost { reason: "the server gave it up".to_owned() });
        }
        // From here on the guardian and `--recover` leave the values alone. The EVENT, should this process end before it has
        // taken it away, puts all of them back: all new or all old.
        self.journal.journal.is_kept = true;
        self.journal.save()?;
        self.disarm().await
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
        self.decide_to_keep().await?;
        let persisted = if changed.is_empty() {
            Ok(Persisted::OptionFile(String::new()))
        } else if self.facts.version.mysql_at_least(8, 0, 0) {
            let sets: Vec<String> = changed
                .iter()
                .map(|(name, value)| format!("PERSIST {name} = {}", lease::literal(value)))
                .collect();
            let statement = format!("SET {}", sets.join(", "));
            match self.writer.run(&statement).await {
                Ok(()) => Ok(Persisted::Statement(statement)),
                Err(error) => Err(ApplyError::NotPersisted { statement, reason: error.to_string() }),
            }
        } else {
            let lines: Vec<String> =
                changed.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
            Ok(Persisted::OptionFile(lines.concat()))
        };
        self.end().await;
        persisted
    }

    /// Takes EVENT and journal away. Values must be old, or kept.
    async fn disarm(&mut self) -> Result<(), ApplyError> {
        if let Some(schema) = self.journal.journal.event_schema.clone() {
            self.writer.drop_event(&schema).await?;
        }
        Ok(journal::remove(self.journal.path())?)
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

/// Puts a journal's values back, takes its EVENT and the journal itself away. The caller holds the lock.
pub(crate) async fn finish(
    writer: &mut Writer,
    path: &Path,
    journal: &Journal,
) -> Result<Restored, ApplyError> {
    let restored = writer.put_back(journal).await?;
    if let Some(schema) = &journal.event_schema {
        writer.drop_event(schema).await?;
    }
    journal::remove(path)?;
    Ok(restored)
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
    match writer.event().await {
        Ok(Some((_, created))) if !created.is_empty() => {
            format!("{account}, since {created} (the server's time)")
        }
        _ => account,
    }
}

/// Puts back what dead tuners left on this server, while the lock is held; what was done, in sentences.
async fn clear_up(writer: &mut Writer, facts: &Facts, state: &Path) -> Result<Vec<String>, ApplyError> {
    let mut notes = Vec::new();
    for (path, journal) in list(state)? {
        match journal {
            Ok(journal) if journal.server == facts.server => {
                notes.push(clear_journal(writer, &path, &journal).await?);
            }
            Ok(_) => {}
            Err(error) => notes.push(format!("the journal {} cannot be understood: {error}", path.display())),
        }
    }
    let begun = Instant::now();
    while let Some((schema, _)) = writer.event().await? {
        if begun.elapsed() > LEFTOVER {
            return Err(ApplyError::Leftover { name: format!("{schema}.{}", lease::EVENT) });
        }
        sleep(PAUSE).await;
    }
    Ok(notes)
}

fn list(state: &Path) -> Result<Vec<(PathBuf, std::io::Result<Journal>)>, ApplyError> {
    journal::list(state)
        .map_err(|error| ApplyError::State { path: state.to_owned(), reason: error.to_string() })
}

async fn clear_journal(writer: &mut Writer, path: &Path, journal: &Journal) -> Result<String, ApplyError> {
    let tuner = format!("process {} tuned here and ended without a word", journal.tuner.pid);
    if journal.is_kept {
        if let Some(schema) = &journal.event_schema {
            writer.drop_event(schema).await?;
        }
        journal::remove(path)?;
        return Ok(format!("{tuner}; it had decided to keep its values"));
    }
    let restored = finish(writer, path, journal).await?;
    Ok(format!("{tuner}; {restored}"))
}

/// What [`recover`] found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// What was put back on this server, a sentence for each tuner that was killed.
    pub done: Vec<String>,
    /// Journals here of other servers, and those that cannot be understood: what to do about each.
    pub others: Vec<String>,
}

/// Puts back what tuners that were killed left changed on this server.
///
/// # Errors
/// A tuner is at work there, or the server cannot be reached.
pub async fn recover(target: &Target, state: &Path) -> Result<Recovered, ApplyError> {
    let mut writer = Writer::connect(target).await?;
    let facts = writer.facts().await?;
    let begun = Instant::now();
    // A guardian may be at it right now.
    while !writer.lock().await? {
        if begun.elapsed() > LEFTOVER {
            let holder = writer.holder().await?;
            let who = who_holds(&mut writer, holder, &facts, state).await;
            return Err(ApplyError::Taken { address: target.address(), who });
        }
        sleep(PAUSE).await;
    }
    let mut recovered = Recovered::default();
    for (path, journal) in list(state)? {
        match journal {
            Ok(journal) if journal.server == facts.server => {
                recovered.done.push(clear_journal(&mut writer, &path, &journal).await?);
            }
            Ok(journal) => recovered.others.push(format!(
                "process {} left a journal of {}: run `spindoctor tune --recover` for that server",
                journal.tuner.pid, journal.address
            )),
            Err(error) => recovered.others.push(format!(
                "the journal {} cannot be understood: {error}; it holds the old values",
                path.display()
            )),
        }
    }
    // The EVENT of a tuner on another host: it runs once a second, unless somebody switched the scheduler off.
    let begun = Instant::now();
    while let Some((schema, _)) = writer.event().await? {
        if begun.elapsed() > LEFTOVER {
            return Err(ApplyError::Leftover { name: format!("{schema}.{}", lease::EVENT) });
        }
        sleep(PAUSE).await;
    }
    writer.close().await;
    Ok(recovered)
}
