//! Values that change rarely are written when they change: the server's variables, one row each, and the constant
//! readings of the host. Variables that the server changes by itself are not settings and would be a row each minute:
//! they are left out.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{AnyReading, Field, HostSample, Outcome, Reading, RecordedSetting, Sample};

use crate::time::from_ms;

/// Variables that the server itself changes: its positions in its logs, and those of the session that asks.
const MOVES_BY_ITSELF: [&str; 14] = [
    "error_count",
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "gtid_executed",
    "gtid_purged",
    "gtid_slave_pos",
    "identity",
    "last_gtid",
    "last_insert_id",
    "pseudo_thread_id",
    "rand_seed1",
    "timestamp",
    "warning_count",
];

/// True for a variable, in lower case, that no person changes: the server moves it on by itself.
pub fn moves_by_itself(name: &str) -> bool {
    MOVES_BY_ITSELF.contains(&name)
}

/// The last values that were written.
#[derive(Debug)]
pub(crate) struct Rare {
    settings: BTreeMap<String, String>,
    facts: BTreeMap<&'static str, String>,
}

impl Rare {
    /// The last values in a recording.
    pub(crate) fn load(db: &Connection) -> rusqlite::Result<Self> {
        let settings = settings_at(db, i64::MAX)?;
        let mut facts = BTreeMap::new();
        for constant in constants() {
            if let Some(fact) = fact_at(db, constant.about.name, i64::MAX)? {
                facts.insert(constant.about.name, fact);
            }
        }
        Ok(Self { settings, facts })
    }

    /// Writes what changed, and takes the variables out of the sample: that they were read, and when, stays in it.
    pub(crate) fn put_away(
        &mut self,
        db: &Connection,
        at_ms: i64,
        sample: &mut Sample,
    ) -> rusqlite::Result<()> {
        if let Reading::Available { value, .. } = &mut sample.server.variables {
            let variables = std::mem::take(value);
            self.write_settings(db, at_ms, &variables)?;
        }
        constants().try_for_each(|constant| {
            self.write_fact(db, at_ms, constant.about.name, constant.get(&sample.host))
        })
    }

    fn write_settings(&mut self, db: &Connection, at_ms: i64, now: &NamedValues) -> rusqlite::Result<()> {
        let mut insert =
            db.prepare_cached("INSERT OR REPLACE INTO settings (name, at_ms, value) VALUES (?1, ?2, ?3)")?;
        for (name, value) in now.iter().filter(|(name, _)| !moves_by_itself(name)) {
            if self.settings.get(name).is_none_or(|before| before != value) {
                insert.execute(params![name, at_ms, value])?;
                self.settings.insert(name.to_owned(), value.to_owned());
            }
        }
        let is_gone = |name: &&String| moves_by_itself(name) || now.text(name).is_none();
        let gone: Vec<String> = self.settings.keys().filter(is_gone).cloned().collect();
        for name in gone {
            insert.execute(params![name, at_ms, None::<String>])?;
            self.settings.remove(&name);
        }
        Ok(())
    }

    fn write_fact(
        &mut self,
        db: &Connection,
        at_ms: i64,
        name: &'static str,
        reading: &dyn AnyReading,
    ) -> rusqlite::Result<()> {
        let Some(value) = reading.value() else { return Ok(()) };
        let text = serde_json::to_string(value).map_err(crate::writer::unwritable)?;
        if self.facts.get(name) != Some(&text) {
            db.prepare_cached("INSERT OR REPLACE INTO facts (name, at_ms, value) VALUES (?1, ?2, ?3)")?
                .execute(params![name, at_ms, text])?;
            self.facts.insert(name, text);
        }
        Ok(())
    }
}

/// What was known at an instant, each with when it was first so, as its table holds it.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) at_ms: i64,
    pub(crate) settings: Vec<(String, i64, String)>,
    pub(crate) facts: Vec<(String, i64, String)>,
}

/// What was known at an instant.
pub(crate) fn known_at(db: &Connection, at_ms: i64) -> rusqlite::Result<Known> {
    // Beside one max() SQLite gives the other columns of the row that has it (its documentation, lang_select, section 2.5).
    let last = |table: &str| -> rusqlite::Result<Vec<(String, i64, String)>> {
        let sql = format!(
            "SELECT name, max(at_ms), value FROM {table} WHERE at_ms <= ?1 GROUP BY name HAVING value IS NOT NULL"
        );
        db.prepare(&sql)?.query_map([at_ms], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
    };
    Ok(Known { at_ms, settings: last("settings")?, facts: last("facts")? })
}

/// The variables as they were last known at an instant, by name in lower case.
fn settings_at(db: &Connection, at_ms: i64) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    let mut statement =
        db.prepare_cached("SELECT name, value FROM settings WHERE at_ms <= ?1 ORDER BY name, at_ms")?;
    let mut rows = statement.query([at_ms])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        match row.get(1)? {
            Some(value) => settings.insert(name, value),
            None => settings.remove(&name),
        };
    }
    Ok(settings)
}

/// The variables and their changes up to an instant, in order of time.
pub(crate) fn history(db: &Connection, until_ms: i64) -> rusqlite::Result<Vec<RecordedSetting>> {
    db.prepare_cached("SELECT at_ms, name, value FROM settings WHERE at_ms <= ?1 ORDER BY at_ms, name")?
        .query_map([until_ms], |row| {
            Ok(RecordedSetting { at: from_ms(row.get(0)?), name: row.get(1)?, value: row.get(2)? })
        })?
        .collect()
}

fn fact_at(db: &Connection, name: &str, at_ms: i64) -> rusqlite::Result<Option<String>> {
    use rusqlite::OptionalExtension as _;
    db.prepare_cached("SELECT value FROM facts WHERE name = ?1 AND at_ms <= ?2 ORDER BY at_ms DESC LIMIT 1")?
        .query_row(params![name, at_ms], |row| row.get(0))
        .optional()
}

/// Puts the variables back into a sample that read them.
pub(crate) fn put_back(db: &Connection, at_ms: i64, sample: &mut Sample) -> rusqlite::Result<()> {
    if let Reading::Available { value, .. } = &mut sample.server.variables {
        *value = settings_at(db, at_ms)?.into_iter().collect();
    }
    Ok(())
}

/// Fills a sample with what it did not ask for and was last known at its time: variables, and what never changes.
///
/// Each is given the sample's own time: had it changed since it was read, that would have been written.
pub(crate) fn fill(db: &Connection, at_ms: i64, sample: &mut Sample) -> rusqlite::Result<()> {
    let at_s = sample.at_s;
    if matches!(sample.server.variables, Reading::NotAsked) {
        let value: NamedValues = settings_at(db, at_ms)?.into_iter().collect();
        if !value.is_empty() {
            sample.server.variables = Reading::Available { at_s, took_ms: 0.0, value };
        }
    }
    for constant in constants() {
        let reading = constant.get_mut(&mut sample.host);
        if reading.outcome() == Outcome::NotAsked
            && let Some(text) = fact_at(db, constant.about.name, at_ms)?
        {
            // One that is damaged is as if it had not been kept.
            let _damaged = reading.fill_from(at_s, &mut serde_json::Deserializer::from_str(&text)).is_err();
        }
    }
    Ok(())
}

/// The readings of the host that never change.
fn constants() -> impl Iterator<Item = &'static Field<HostSample>> {
    HostSample::READINGS.iter().filter(|reading| reading.about.constant)
}
