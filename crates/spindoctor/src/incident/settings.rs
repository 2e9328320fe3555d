//! The settings that may matter for an incident, and all settings that changed before it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use spindoctor_model::{Diagnosis, RecordedSetting, Value};
use spindoctor_record::moves_by_itself;

use spindoctor_record::span::Span;

/// What people ask for first when a server stalls.
const WORTH_SHOWING: [&str; 18] = [
    "innodb_buffer_pool_size",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_thread_concurrency",
    "innodb_lock_wait_timeout",
    "innodb_adaptive_hash_index",
    "innodb_purge_threads",
    "innodb_stats_auto_recalc",
    "lock_wait_timeout",
    "max_connections",
    "table_open_cache",
    "thread_cache_size",
    "transaction_isolation",
];
/// Changes that are listed; earlier ones are counted.
pub const CHANGES_LISTED: usize = 40;

/// Settings of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Changes from the beginning of the recording to the end of the stall, the latest first.
    pub changes: Vec<SettingChange>,
    /// Earlier changes that are not listed.
    pub not_listed: usize,
    /// Since when settings were recorded; none where they never were.
    pub known_since: Option<Timestamp>,
    /// Name and value, as the stall found them.
    pub shown: Vec<(String, String)>,
    /// How many settings were recorded.
    pub count: usize,
}

/// A setting that got another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The first sample that read the new value.
    pub at: Timestamp,
    /// Its name.
    pub name: String,
    /// The old value; none where the server did not have it.
    pub from: Option<String>,
    /// The new value; none where the server has it no more.
    pub to: Option<String>,
}

impl Settings {
    /// What a history in order of time says of a stall.
    pub fn from_history(history: &[RecordedSetting], stall: Span, diagnosis: Option<&Diagnosis>) -> Self {
        let known_since = history.first().map(|setting| setting.at);
        let mut now: BTreeMap<&str, &str> = BTreeMap::new();
        let mut changes = Vec::new();
        for setting in history.iter().take_while(|setting| setting.at <= stall.to) {
            let name = setting.name.as_str();
            let from = match setting.value.as_deref() {
                Some(value) => now.insert(name, value),
                None => now.remove(name),
            };
            let is_first = Some(setting.at) == known_since;
            if !is_first && from != setting.value.as_deref() && !moves_by_itself(name) {
                changes.push(SettingChange {
                    at: setting.at,
                    name: name.to_owned(),
                    from: from.map(str::to_owned),
                    to: setting.value.clone(),
                });
            }
        }
        changes.reverse();
        let not_listed = changes.len().saturating_sub(CHANGES_LISTED);
        changes.truncate(CHANGES_LISTED);
        let named = diagnosis.map(|diagnosis| named_in(diagnosis, &now)).unwrap_or_default();
        let others = WORTH_SHOWING.iter().copied().filter(|name| !named.contains(name));
        let shown = named.iter().copied().chain(others);
        let shown = shown.filter_map(|name| Some((name.to_owned(), (*now.get(name)?).to_owned()))).collect();
        Self { changes, not_listed, known_since, shown, count: now.len() }
    }
}

/// The settings that a diagnosis speaks of, in its order.
fn named_in<'a>(diagnosis: &Diagnosis, known: &BTreeMap<&'a str, &str>) -> Vec<&'a str> {
    let mut named: Vec<&str> = Vec::new();
    for finding in &diagnosis.findings {
        let remedies = finding.remedies.iter().map(|remedy| remedy.statement.as_str());
        let readings = finding.evidence.iter().flat_map(|evidence| {
            let value = match &evidence.value {
                Value::Text(text) => text.as_str(),
                Value::Number(_) => "",
            };
            [evidence.reading.as_str(), evidence.source.as_str(), value]
        });
        for text in remedies.chain(readings) {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words {
                if let Some((name, _)) = known.get_key_value(word.to_ascii_lowercase().as_str())
                    && name.contains('_')
                    && !named.contains(name)
                {
                    named.push(name);
                }
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::doctor::examples;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_782_898_200 + second).unwrap()
    }

    fn set(second: i64, name: &str, value: &str) -> RecordedSetting {
        let value = (!value.is_empty()).then(|| value.to_owned());
        RecordedSetting { at: at(second), name: name.to_owned(), value }
    }

    #[test]
    fn what_changed_is_listed_the_latest_first_and_what_moves_by_itself_is_not() {
        let history = [
            set(0, "gtid_executed", "1-5"),
            set(0, "max_connections", "151"),
            set(0, "sync_binlog", "1"),
            set(60, "gtid_executed", "1-9"),
            set(60, "max_connections", "500"),
            set(90, "sync_binlog", "0"),
            set(900, "max_connections", "9"),
        ];
        let settings = Settings::from_history(&history, Span::new(at(100), at(101)), None);
        let text: Vec<(&str, Option<&str>, Option<&str>)> = settings
            .changes
            .iter()
            .map(|change| (change.name.as_str(), change.from.as_deref(), change.to.as_deref()))
            .collect();
        assert_eq!(
            text,
            [("sync_binlog", Some("1"), Some("0")), ("max_connections", Some("151"), Some("500"))]
        );
        assert_eq!(settings.known_since, Some(at(0)));
        let shown = [("sync_binlog", "0"), ("max_connections", "500")];
        assert_eq!(settings.shown, shown.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_setting_that_came_or_went_with_an_upgrade_is_a_change() {
        let history =
            [set(0, "query_cache_size", "0"), set(9, "query_cache_size", ""), set(9, "new_one", "1")];
        let changes = Settings::from_history(&history, Span::new(at(10), at(11)), None).changes;
        assert_eq!((changes[1].to.as_deref(), changes[0].from.as_deref()), (None, None));
    }

    #[test]
    fn settings_that_the_diagnosis_speaks_of_stand_first() {
        let history = [set(0, "max_connections", "151"), set(0, "innodb_log_spin_cpu_pct_hwm", "50")];
        let diagnosis = examples::suffering();
        let settings = Settings::from_history(&history, Span::new(at(10), at(11)), Some(&diagnosis));
        assert_eq!(settings.shown[0].0, "innodb_log_spin_cpu_pct_hwm");
    }
}
