//! The reasons why settings could not be taken, changed or put back: one message each, with what to do.

use std::path::PathBuf;

use jiff::Timestamp;
use spindoctor_collect::mysql::ConnectError;
use thiserror::Error;

use super::switch::Switch;
use crate::journal::JournalError;
use crate::undo::UndoRefused;
use crate::variables::Refused;

/// Why settings could not be taken, changed or put back.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The variable or value is not allowed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Undo tablespaces are not made or not kept.
    #[error(transparent)]
    Undo(#[from] UndoRefused),
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
    /// Somebody else changed a variable that was taken.
    #[error("{}; {} left so, and nothing more is tried", describe(seen), if seen.len() == 1 { "it is" } else { "they are" })]
    Changed {
        /// What was seen.
        seen: Vec<ForeignChange>,
    },
    /// The present value is not one that could be put back.
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
    /// Another server answers than the one in the journal.
    #[error("this is another server than before: {found}, not {expected}; check host and port")]
    OtherServer {
        /// The server in the journal.
        expected: String,
        /// The server that answers.
        found: String,
    },
    /// The EVENT of another tuner is still there.
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
        /// The dead man's switches that remain.
        switch: Box<Switch>,
    },
    /// The values are kept until the server restarts, and could not be persisted.
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
pub struct ForeignChange {
    /// The variable.
    pub variable: String,
    /// What this process had set, or found when it began.
    pub expected: String,
    /// What it is.
    pub found: String,
    /// When that was seen.
    pub at: Timestamp,
}

fn describe(seen: &[ForeignChange]) -> String {
    let one = |ForeignChange { variable, expected, found, at }: &ForeignChange| {
        let at = at.strftime("%H:%M:%S UTC");
        format!(
            "{variable} was set to {found} by somebody else (seen at {at}; spindoctor had left it at {expected})"
        )
    };
    seen.iter().map(one).collect::<Vec<_>>().join("; ")
}
