//! Giving the old values back: by the tuner itself, and the steps that the guardian and `--recover` share with it.
//!
//! The protocol is in [`super`], under "Giving back" and "The right to write".

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::writer::Writer;
use super::{ApplyError, PAUSE, Settings, UndoBack};
use crate::journal::{self, Journal};
use crate::lease::{self, Held, LockedBy};
use crate::undo::journal as undo;

/// How long putting back is tried here, before it is left to the switch.
const PUT_BACK: Duration = Duration::from_secs(10);

/// How long the right to give back beside another connection lasts, by the server's clock, which counts whole seconds here: the
/// connection may be a tuner's on this host, which has put everything back and goes on.
pub(super) const FOREIGN_RIGHT_S: u32 = 2;

/// What became of settings that were put back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Variables that have their old value again, with it.
    pub restored: Vec<(String, String)>,
    /// Variables that somebody else set meanwhile, with what they were set to: left so.
    pub left: Vec<(String, String)>,
    /// True where the server was restarted meanwhile: it has the values that it starts with, and nothing was changed.
    pub restarted: bool,
    /// What became of the undo tablespaces that were made; none where none were.
    pub undo: Option<UndoBack>,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |pairs: &[(String, String)]| {
            let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            pairs.join(", ")
        };
        if self.restarted {
            f.write_str("the server was restarted meanwhile and has the values that it starts with")?;
        } else if self.restored.is_empty() && self.left.is_empty() {
            f.write_str("no variable was changed")?;
        }
        if !self.restored.is_empty() {
            write!(f, "the old values are back: {}", list(&self.restored))?;
        }
        if !self.left.is_empty() {
            let comma = if self.restored.is_empty() { "" } else { "; " };
            write!(f, "{comma}left as somebody else set it: {}", list(&self.left))?;
        }
        if let Some(undo) = &self.undo {
            write!(f, "; {undo}")?;
        }
        Ok(())
    }
}

impl Settings {
    /// Gives all variables their old values back, and the lease.
    ///
    /// # Errors
    /// The server cannot be reached for ten seconds: the switch goes on trying.
    ///
    /// Undo tablespaces that were made are dropped after that, which waits for purge; [`Restored::undo`] says what is left.
    pub async fn restore(mut self) -> Result<Restored, ApplyError> {
        let begun = Instant::now();
        let mut last_error = None;
        let mut restored = loop {
            match self.try_restore().await {
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
        // The guardian stands until they are gone.
        restored.undo = self.give_back_undo().await;
        self.end().await;
        Ok(restored)
    }

    /// One try; none where somebody else may be giving back.
    async fn try_restore(&mut self) -> Result<Option<Restored>, ApplyError> {
        let own = self.heartbeat.holder;
        let by = match self.writer.holder().await? {
            Some(holder) if holder == own => LockedBy::Connection(own),
            _ => match right_to_give_back(&mut self.writer, own).await? {
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
}

/// The right to give back what the tuner with that connection changed, see the protocol in [`super`]; none where this connection has
/// to wait, because the tuner may live.
pub(crate) async fn right_to_give_back(
    writer: &mut Writer,
    tuner: u64,
) -> Result<Option<LockedBy>, ApplyError> {
    if writer.lock(lease::GIVER_IDLE_S).await? {
        return Ok(Some(LockedBy::Own));
    }
    let Some(connection) = writer.holder().await?.filter(|&holder| holder != tuner) else { return Ok(None) };
    let until = format!("SELECT SYSDATE() + INTERVAL {FOREIGN_RIGHT_S} SECOND");
    let until = writer.cell(&until).await?.unwrap_or_default();
    Ok(Some(LockedBy::Foreign { connection, until }))
}

/// Puts a journal's values back, then drops its EVENT and removes the journal. The caller must have the right to write.
pub(crate) async fn finish(
    writer: &mut Writer,
    path: &Path,
    journal: &Journal,
    variables: &[Held],
    by: &LockedBy,
) -> Result<Restored, ApplyError> {
    // What is given back here is not kept there.
    undo::not_kept(path)?;
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

/// Drops a journal's EVENT and removes the journal.
pub(crate) async fn take_away(writer: &mut Writer, path: &Path, journal: &Journal) -> Result<(), ApplyError> {
    if let Some(schema) = &journal.event_schema {
        writer.drop_event(schema, &journal.event_name()).await?;
    }
    Ok(journal::remove(path)?)
}
