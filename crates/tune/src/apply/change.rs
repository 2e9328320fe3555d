//! Setting values: the announcement before, the reading back after, and the check whether somebody else set one
//! meanwhile.
//!
//! The protocol is in [`super`], under "A change". Two variables depend on each other; the rules for them are here.

use jiff::Timestamp;
use spindoctor_collect::mysql::Target;
use spindoctor_model::ServerVersion;

use super::switch::watched;
use super::writer::Writer;
use super::{ApplyError, ForeignChange, Settings};
use crate::lease::{self, LockedBy, Write};
use crate::variables::{Variable, find};

/// Variables of which the server changes one when the other is set beyond it (MariaDB raises the maximum, MySQL lowers
/// the capacity). A change of one takes both, and the one that is not asked for is set to what it is: no value changes
/// that nobody asked for.
const TOGETHER: [[&str; 2]; 1] = [["innodb_io_capacity", "innodb_io_capacity_max"]];

/// The other one of the two, where the server has it: MySQL 5.5 has no maximum.
pub(super) fn companion(name: &str, version: ServerVersion) -> Option<&'static Variable> {
    let [one, other] = TOGETHER.iter().find(|pair| pair.contains(&name))?;
    find(if *one == name { other } else { one }).ok().filter(|other| (other.is_dynamic_on)(version))
}

impl Settings {
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
            if let Some(other) = companion(variable.name, self.facts.version)
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
        let version = self.facts.version;
        let possible: Vec<Vec<String>> =
            wanted.iter().map(|(_, name, value)| may_become(name, value, wanted, &before, version)).collect();
        let positions = wanted.iter().map(|(position, ..)| *position);
        let is_new = self.add(positions.zip(possible));
        if is_new {
            self.expect_unchanged().await.inspect_err(|_| self.forget(&known))?;
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

    /// Adds values that this process may set from now on; true where one of them is new. `possible`: places and values.
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

    /// Removes what [`Self::add`] added: `known` values of each variable stay.
    fn forget(&mut self, known: &[usize]) {
        for (held, known) in self.journal.journal.variables.iter_mut().zip(known) {
            held.set.truncate(*known);
        }
    }

    /// Looks at the values, then at the lease: both stood as this process believes.
    pub(super) async fn expect_unchanged(&mut self) -> Result<(), ApplyError> {
        self.check().await?;
        self.expect_lease().await
    }

    /// Writes the values that this process may set to the journal and the EVENT.
    async fn announce(&mut self) -> Result<(), ApplyError> {
        self.save()?;
        if let Some(schema) = self.journal.journal.event_schema.clone() {
            let watched = watched(&self.facts, &self.journal.journal, &schema);
            self.writer.alter_event(&watched).await?;
        }
        Ok(())
    }

    /// Saves the journal; where it is gone, everything has been put back.
    pub(super) fn save(&self) -> Result<(), ApplyError> {
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
        let version = self.facts.version;
        let possible: Vec<Vec<String>> = wanted
            .iter()
            .map(|(_, name, value)| may_become(name, value, wanted, &self.current, version))
            .collect();
        (self.is_uncertain, self.has_set) = (true, true);
        if !self.writer.run_if(&statement).await? {
            (self.is_uncertain, self.has_set) = (false, false);
            let names: Vec<&str> = wanted.iter().map(|(_, name, _)| *name).collect();
            let now = self.writer.variables(&names).await?;
            let found = wanted.iter().zip(now).map(|((position, ..), now)| (*position, now));
            let seen = self.foreign_changes(found);
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
            let seen = self.foreign_changes(foreign.into_iter());
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
    fn foreign_changes(&self, found: impl Iterator<Item = (usize, Option<String>)>) -> Vec<ForeignChange> {
        let at = Timestamp::now();
        found
            .filter_map(|(position, found)| {
                let (found, expected) = (found?, &self.current[position]);
                (!lease::same(&found, expected)).then(|| ForeignChange {
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
        let seen = self.foreign_changes(now.into_iter().enumerate());
        if seen.is_empty() {
            return Ok(());
        }
        // Where the lease is gone, it was the switch.
        match self.writer.holder().await? {
            Some(holder) if holder == self.heartbeat.holder => Err(ApplyError::Changed { seen }),
            _ => Err(ApplyError::Lost { reason: "the server gave it up".to_owned() }),
        }
    }

    pub(super) fn still_held(&self) -> Result<(), ApplyError> {
        self.lost().map_or(Ok(()), |reason| Err(ApplyError::Lost { reason }))
    }

    pub(super) async fn expect_lease(&mut self) -> Result<(), ApplyError> {
        match self.writer.holder().await? {
            Some(holder) if holder == self.heartbeat.holder => Ok(()),
            _ => Err(ApplyError::Lost { reason: "the server gave it up".to_owned() }),
        }
    }
}

/// What a variable may have after it was set to this: the value, and of two that depend on each other what the server makes of
/// the other one (`innodb_io_capacity_update` and `innodb_io_capacity_max_update` in ha_innodb.cc): MySQL sets either to the
/// other, MariaDB the maximum to twice the capacity.
fn may_become(
    name: &str,
    value: &str,
    wanted: &[(usize, &str, String)],
    before: &[String],
    version: ServerVersion,
) -> Vec<String> {
    let mut values = vec![value.to_owned()];
    if let Some(other) = companion(name, version) {
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
        // A variable that is not there is not one that needs a restart.
        if writer.variables(&[variable.name]).await?.first().is_none_or(Option::is_none) {
            return Err(ApplyError::Missing(variable.name.to_owned()));
        }
        variable.value(facts.version, value)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_tied_to_another_only_where_the_server_has_both() {
        let other = |name: &str, version: &str| {
            let version = ServerVersion::parse(version, "").unwrap();
            companion(name, version).map(|other| other.name)
        };
        for version in ["5.6.14", "9.7.0", "10.11.18-MariaDB"] {
            assert_eq!(other("innodb_io_capacity", version), Some("innodb_io_capacity_max"), "{version}");
            assert_eq!(other("innodb_io_capacity_max", version), Some("innodb_io_capacity"), "{version}");
        }
        assert_eq!(other("innodb_io_capacity", "5.5.34"), None);
        assert_eq!(other("innodb_spin_wait_delay", "9.7.0"), None);
    }
}
