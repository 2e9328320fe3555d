//! The numbers of a sample, each with its source and its name: `status`, `questions`, 812.
//!
//! Counters stay as they were read. Text is left out, but for yes and no, which are 1 and 0. Lists of threads,
//! statements and waits have tables of their own.

use serde_json::Value as Json;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{AnyReading, Outcome, Sample, ServerSample};

/// One number of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value<'a> {
    /// The field of the sample that has it: `status`, `innodb_metrics`, `host_throttling`; `took_ms` for how long the
    /// answer of the source took that `name` says.
    pub source: &'static str,
    /// Its name there; of what lies deeper, all names with a dot between them: `sda.read_bytes`.
    pub name: &'a str,
    /// The number.
    pub value: f64,
}

type Each<'a> = dyn FnMut(Value<'_>) -> anyhow::Result<()> + 'a;

/// Gives every number.
pub fn each(sample: &Sample, take: &mut Each<'_>) -> anyhow::Result<()> {
    for (about, reading) in sample.readings() {
        if let Outcome::Answered { took_ms } = reading.outcome() {
            take(Value { source: "took_ms", name: about.exported, value: took_ms })?;
        }
    }
    for (about, reading) in sample.readings().filter(|(about, _)| about.numbers) {
        match about.exported {
            STATUS => status(sample, take)?,
            METRICS => metrics(sample, take)?,
            source => flattened(source, reading, take)?,
        }
    }
    Ok(())
}

/// Its values are text.
const STATUS: &str = ServerSample::field("status").about.exported;
/// Its values have a name each, and count where they are switched on.
const METRICS: &str = ServerSample::field("innodb_metrics").about.exported;

fn status(sample: &Sample, take: &mut Each<'_>) -> anyhow::Result<()> {
    for (name, value) in sample.server.status.value().into_iter().flat_map(NamedValues::iter) {
        if let Some(value) = number(value) {
            take(Value { source: STATUS, name, value })?;
        }
    }
    Ok(())
}

fn metrics(sample: &Sample, take: &mut Each<'_>) -> anyhow::Result<()> {
    for (name, metric) in sample.server.innodb_metrics.value().into_iter().flatten() {
        if metric.enabled {
            take(Value { source: METRICS, name, value: metric.count })?;
        }
    }
    Ok(())
}

/// A status value as a number; a server that says `NaN` or `inf` says nothing.
fn number(text: &str) -> Option<f64> {
    match text {
        "ON" | "YES" | "Yes" => Some(1.0),
        "OFF" | "NO" | "No" => Some(0.0),
        text => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn flattened(source: &'static str, reading: &dyn AnyReading, take: &mut Each<'_>) -> anyhow::Result<()> {
    let Some(value) = reading.value() else { return Ok(()) };
    let mut name = String::new();
    walk(source, &serde_json::to_value(value)?, &mut name, take)
}

/// What names an entry of a list; where nothing does, its place.
const NAMES: [&str; 3] = ["name", "event", "id"];

fn walk(source: &'static str, json: &Json, name: &mut String, take: &mut Each<'_>) -> anyhow::Result<()> {
    let value = match json {
        Json::Number(number) => number.as_f64(),
        Json::Bool(is) => Some(f64::from(u8::from(*is))),
        _ => None,
    };
    if let Some(value) = value {
        return take(Value { source, name, value });
    }
    let length = name.len();
    let mut below = |step: &str, json: &Json| {
        if length > 0 {
            name.push('.');
        }
        name.push_str(step);
        let walked = walk(source, json, name, take);
        name.truncate(length);
        walked
    };
    match json {
        Json::Object(fields) => fields.iter().try_for_each(|(field, json)| below(field, json)),
        Json::Array(entries) => entries.iter().enumerate().try_for_each(|(place, entry)| {
            let named = NAMES.iter().find_map(|name| match entry.get(name)? {
                Json::String(name) => Some(name.clone()),
                Json::Number(name) => Some(name.to_string()),
                _ => None,
            });
            below(&named.unwrap_or_else(|| place.to_string()), entry)
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::host::DiskStat;

    use super::*;

    #[test]
    fn numbers_have_their_source_and_their_whole_name() {
        let mut sample = Sample::default();
        let status = [("Questions", "812"), ("Ssl_cipher", ""), ("Flush", "NaN"), ("Slave_running", "ON")];
        sample.server.status =
            Reading::Available { at_s: 0.0, took_ms: 1.5, value: status.into_iter().collect() };
        let disk = DiskStat { name: "sda".to_owned(), reads: 7, flushes: None, ..DiskStat::default() };
        sample.host.disks = Reading::Available { at_s: 0.0, took_ms: 0.1, value: vec![disk] };
        let mut text = Vec::new();
        each(&sample, &mut |Value { source, name, value }| {
            text.push((source, name.to_owned(), value));
            Ok(())
        })
        .unwrap();
        let has = |source, name: &str, value| text.contains(&(source, name.to_owned(), value));
        assert!(has("status", "questions", 812.0) && has("status", "slave_running", 1.0), "{text:?}");
        assert!(has("host_disks", "sda.reads", 7.0) && has("took_ms", "status", 1.5), "{text:?}");
        assert!(
            text.iter()
                .all(|(_, name, _)| !name.contains("flushes") && name != "flush" && name != "ssl_cipher")
        );
    }
}
