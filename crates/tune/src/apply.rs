//! The only code that changes a server's settings, and its rollback.

use std::path::PathBuf;

use spindoctor_collect::mysql::{ConnectError, Target};
use spindoctor_model::ServerVersion;
use thiserror::Error;

use crate::variables::{Refused, Variable};

/// How settings are taken.
#[derive(Debug, Clone)]
pub struct TakeOptions {
    /// The program that is started as guardian, with the argument `tune-guardian`: `/proc/self/exe` of spindoctor.
    pub program: PathBuf,
    /// The folder of the journals.
    pub state: PathBuf,
}

impl TakeOptions {
    /// This process's own program, and the folder where its user keeps state: `/var/lib/spindoctor` for root,
    /// `$XDG_STATE_HOME/spindoctor` or `~/.local/state/spindoctor` for everybody else.
    ///
    /// # Errors
    /// That there is no such folder to be told: neither variable is set.
    pub fn of_process() -> Result<Self, ApplyError> {
        todo!()
    }
}

/// Which dead man's switch puts the old values back when this process cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Where the EVENT on the server stands: `sys.spindoctor_lease`; none where there is none, and why.
    pub event: Result<String, String>,
    /// The process of the guardian; none where there is none, and why.
    pub guardian: Result<u32, String>,
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

/// What makes a setting last over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Persisted {
    /// It was done: the statement.
    Statement(String),
    /// The server cannot: the lines that belong into its option file, under `[mysqld]`.
    OptionFile(String),
}

/// Settings of one server that are lent to this process: whatever happens to it, they get their old values again,
/// unless [`Settings::keep`] was called. Dropped, they are put back by the dead man's switch.
#[derive(Debug)]
pub struct Settings {}

impl Settings {
    /// Takes the lease, writes the journal, arms the dead man's switch. Nothing is changed yet.
    ///
    /// # Errors
    /// Another tuner holds the server; a variable does not exist or cannot be changed here; no switch can be armed; the
    /// journal cannot be written.
    pub async fn take(
        _target: &Target,
        _variables: &[&'static Variable],
        _options: &TakeOptions,
    ) -> Result<Self, ApplyError> {
        todo!()
    }

    /// The server's version.
    pub fn version(&self) -> ServerVersion {
        todo!()
    }

    /// The value before, as the server prints it; none for a variable that was not taken.
    pub fn original(&self, _name: &str) -> Option<&str> {
        todo!()
    }

    /// The value as it was last read back.
    pub fn current(&self, _name: &str) -> Option<&str> {
        todo!()
    }

    /// Sets these values, all or none, and reads them back. Also where a value is the same as now.
    ///
    /// # Errors
    /// The server refuses or adjusts a value, or the lease is lost. None of the values is changed then.
    pub async fn set(&mut self, _values: &[(&'static Variable, String)]) -> Result<(), ApplyError> {
        todo!()
    }

    /// Gives all variables their old values back, and the lease.
    ///
    /// # Errors
    /// The server cannot be reached for ten seconds: the switch goes on trying.
    pub async fn restore(self) -> Result<Restored, ApplyError> {
        todo!()
    }

    /// Leaves the values as they are now, disarms the switch, and gives the lease back.
    ///
    /// # Errors
    /// The lease was lost before: the old values are back then.
    pub async fn keep(self) -> Result<(), ApplyError> {
        todo!()
    }

    /// As [`Settings::keep`], and makes those values last over a restart that differ from the old ones.
    ///
    /// # Errors
    /// As [`Settings::keep`]; or the server refuses to persist: the values are kept until it restarts.
    pub async fn persist(self) -> Result<Persisted, ApplyError> {
        todo!()
    }

    /// Which dead man's switch stands.
    pub fn switch(&self) -> Switch {
        todo!()
    }

    /// What else is worth telling: settings of a dead tuner that were put back first.
    pub fn notes(&self) -> &[String] {
        todo!()
    }

    /// Why the lease is lost, once it is: the server was restarted, the network is gone, this process was stopped for too
    /// long. Nothing can be set any more; call [`Settings::restore`].
    pub fn lost(&self) -> Option<String> {
        todo!()
    }

    /// Waits until the lease is lost, and says why. For `select!` beside other waiting.
    pub async fn wait_until_lost(&self) -> String {
        todo!()
    }
}
