//! Keeping the values as they are now, until the server restarts or longer.
//!
//! The protocol is in [`super`], under "Keeping".

use super::{ApplyError, Settings};
use crate::journal;
use crate::lease::{self, LockedBy, Write};

/// What makes a setting last over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Persisted {
    /// It was done: the statement.
    Statement(String),
    /// The server cannot: the lines that belong into its option file, under `[mysqld]`.
    OptionFile(String),
}

impl Settings {
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
        self.expect_unchanged().await?;
        // It counts once the other journal says so, too.
        self.keep_undo().await?;
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
        self.close_kept_undo()?;
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
}
