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
//! `holder` and `started` in it: a process drops only the EVENT of its own journal.
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
//! *The right to write.* The tuner has it while L holds the lock; a process that gives back, while its own connection does. Where
//! a connection F that is not `holder` holds the lock (any account may take it), a process that gives back has the right meanwhile: F
//! keeps every other tuner out. F may belong to another process that gives back, which does the same, or to N. So this right ends two
//! seconds after F was seen, by the server's clock, and an N that found a journal waits longer than that before it reads `original`.
//! So nobody can keep settings changed by holding the lock, by waiting for it, or by handing it from connection to connection. While
//! `holder` holds it, the tuner may live: G and R wait; the server ends that connection [`lease::IDLE_S`] seconds after its last
//! question. The same is true of each connection that takes the lock.
//!
//! *Keeping.* Values and lock are checked as before a change; `is_kept` is saved to the journal; E is dropped; the tuner asks
//! whether L still holds the lock. If so, the values are kept, and the journal is removed. If not, E may have given back before
//! it was dropped, and another tuner may be at work: nothing is put back, the journal is removed, and the caller learns what
//! stands. G, R and N leave the values of such a journal. `SET PERSIST` comes after that, of values that still stand.
//!
//! *Undo tablespaces* have a journal of their own beside this one, and a protocol of their own: `undo.rs`. They are taken away when
//! this one is through.
//!
//! *What remains.* The window of one statement ([`lease`]). A DBA who sets the very value that is ours. Two tuners on two
//! hosts, the first of which is cut off together with its guardian: its EVENT gives back, the second keeps the same value, and
//! the guardian, back on the network, takes that for its own.

mod change;
mod error;
mod keep;
mod recover;
mod restore;
mod switch;
pub(crate) mod undo;
pub(crate) mod writer;

use std::path::PathBuf;
use std::time::Duration;

use spindoctor_collect::mysql::{ConnectError, Target};
use spindoctor_model::ServerVersion;

use crate::guardian::Charge;
use crate::heartbeat::{Heartbeat, NoLease};
use crate::journal::{Journal, JournalFile, ProcessMark};
use crate::lease::{self, Held, LockedBy, Write};
use crate::variables::{Refused, Variable};
use change::companion;
pub use change::expect_possible;
pub use error::{ApplyError, ForeignChange};
pub use keep::Persisted;
pub use recover::{Recovered, recover};
use recover::{clear_up, who_holds};
pub use restore::Restored;
pub(crate) use restore::{finish, right_to_give_back, take_away};
pub use switch::Switch;
pub use undo::{UndoBack, UndoMade, UndoStep};
use writer::{Facts, Writer};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

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
    /// Neither variable is set, so there is no such folder.
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
    /// Who wants to know what happens to undo tablespaces.
    undo_watching: fn(UndoStep),
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
        // What is measured over sessions of this target must be of the server that is changed.
        target.logins.server().expect(&facts.answerer).map_err(|before| ConnectError::OtherServer {
            address: target.address(),
            before: before.to_string(),
            now: facts.answerer.to_string(),
        })?;
        let heartbeat = match Heartbeat::start(target).await {
            Ok(heartbeat) => heartbeat,
            Err(NoLease::Failed(error)) => return Err(error),
            Err(NoLease::Held(holder)) => {
                let who = who_holds(&mut writer, holder, &facts, &options.state).await;
                return Err(ApplyError::Taken { address: target.address(), who });
            }
        };
        let notes =
            clear_up(target, &mut writer, &facts, &options.state, &LockedBy::Connection(heartbeat.holder))
                .await?;

        let mut variables = variables.to_vec();
        for position in 0..variables.len() {
            variables.extend(companion(variables[position].name, facts.version));
        }
        let names: Vec<&str> = variables.iter().map(|variable| variable.name).collect();
        let current = writer.variables(&names).await?;
        let mut held = Vec::new();
        for (variable, value) in variables.iter().zip(current) {
            let original = value.ok_or_else(|| ApplyError::Missing(variable.name.to_owned()))?;
            if !(variable.is_dynamic_on)(facts.version) {
                return Err(Refused::Fixed { name: variable.name, version: facts.version }.into());
            }
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
            undo_watching: |_| (),
        };
        if let Err(error) = settings.arm(guardian).await {
            // What is left of it is in the journal, if there is one.
            let _disarmed = settings.disarm().await;
            settings.end().await;
            return Err(error);
        }
        Ok(settings)
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

    /// Settings of a dead tuner that were put back first, a sentence for each tuner.
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
