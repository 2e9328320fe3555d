//! JSON of an incident: the schema `spindoctor.incident/1`. Fields may be added; none is renamed or removed.

use jiff::Timestamp;
use serde::Serialize;
use spindoctor_model::{Diagnosis, EventHead, Gap, SessionTime};

use super::loads_json::SessionsAtWork;
use super::numbers::During;
use super::statements::Load;
use super::view::Incident;
use crate::locks::json;
use crate::workload;
use spindoctor_page::json as page_json;
use spindoctor_record::span::Span;

/// Name and version of the schema.
pub const SCHEMA: &str = "spindoctor.incident/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    title: String,
    #[serde(rename = "told")]
    sentence: String,
    server: Server<'a>,
    written_by: &'a str,
    from: Timestamp,
    to: Timestamp,
    is_over: bool,
    compared_with: Option<Stretch>,
    event: Option<&'a EventHead>,
    events: &'a [EventHead],
    numbers: Vec<Number>,
    timeline: Vec<Track<'a>>,
    session_time: TimeCompared<'a>,
    sessions_at_work: SessionsAtWork,
    diagnosis: Option<&'a Diagnosis>,
    locks: Option<serde_json::Value>,
    statements: Vec<Statement<'a>>,
    statements_changed: Vec<StatementsChanged>,
    settings_changed: Vec<SettingChange<'a>>,
    settings: serde_json::Map<String, serde_json::Value>,
    gaps: &'a [Gap],
    not_recorded: Vec<NotRecorded<'a>>,
}

#[derive(Serialize)]
struct Server<'a> {
    version: Option<String>,
    hostname: &'a str,
    address: &'a str,
    pid: Option<u32>,
}

#[derive(Serialize)]
struct TimeCompared<'a> {
    before: Option<&'a SessionTime>,
    during: Option<&'a SessionTime>,
}

#[derive(Serialize)]
struct Stretch {
    from: Timestamp,
    to: Timestamp,
}

/// A quantity's name for programs, which is what it was from the first version on.
fn key(name: &'static str) -> &'static str {
    if name == "commit calls" { "commits" } else { name }
}

/// Of a gauge `before` is the median, and `during` the greatest value or the least; else both are rates.
#[derive(Serialize)]
struct Number {
    name: &'static str,
    unit: &'static str,
    is_gauge: bool,
    during_is: &'static str,
    before: Option<f64>,
    during: Option<f64>,
}

#[derive(Serialize)]
struct Track<'a> {
    name: &'static str,
    unit: &'static str,
    source: &'static str,
    start: Timestamp,
    /// Curves of points: seconds from `start`, value. Between two curves nothing is known.
    curves: &'a [Vec<(f64, f64)>],
}

#[derive(Serialize)]
struct Statement<'a> {
    digest_text: &'a str,
    before: Numbers,
    during: Numbers,
}

#[derive(Serialize)]
struct Numbers {
    threads_at_once: Option<f64>,
    ended_per_s: Option<f64>,
    mean_ms: Option<f64>,
}

/// A comparison with an earlier time: `before`, `week_ago` or `day_ago`, and how the statements differ (`spindoctor.workload-diff/1`).
#[derive(Serialize)]
struct StatementsChanged {
    against: &'static str,
    comparison: serde_json::Value,
}

#[derive(Serialize)]
struct SettingChange<'a> {
    at: Timestamp,
    variable: &'a str,
    from: Option<&'a str>,
    to: Option<&'a str>,
}

#[derive(Serialize)]
struct NotRecorded<'a> {
    sources: &'a [String],
    because: &'a str,
    unlock: &'a str,
}

/// The incident as indented JSON with a line break at its end.
pub fn render(incident: &Incident) -> anyhow::Result<String> {
    let scope = incident.scope;
    let locks = match &incident.waits {
        Some(waits) => Some(serde_json::from_str(&json::one_line(waits)?)?),
        None => None,
    };
    let text = |value: &String| serde_json::Value::from(value.as_str());
    Ok(page_json::to_text(&Written {
        schema: SCHEMA,
        title: incident.title(),
        sentence: incident.sentence(),
        server: Server {
            version: incident.server.version.map(|version| version.to_string()),
            hostname: &incident.server.hostname,
            address: &incident.server.address,
            pid: incident.server.pid,
        },
        written_by: &incident.written_by,
        from: scope.stall.from,
        to: scope.stall.to,
        is_over: scope.is_over,
        compared_with: scope.calm.map(|Span { from, to }| Stretch { from, to }),
        event: incident.event.as_ref().map(|event| &event.head),
        events: &incident.events,
        numbers: incident
            .numbers
            .iter()
            .map(|row| Number {
                name: key(row.name),
                unit: row.unit,
                is_gauge: row.during_is != During::Rate,
                during_is: match row.during_is {
                    During::Rate => "rate",
                    During::Greatest => "greatest",
                    During::Least => "least",
                },
                before: row.before,
                during: row.during,
            })
            .collect(),
        timeline: incident
            .timeline
            .tracks
            .iter()
            .map(|track| Track {
                name: key(track.name),
                unit: track.unit,
                source: track.source,
                start: incident.timeline.shown.from,
                curves: &track.curves,
            })
            .collect(),
        session_time: TimeCompared {
            before: incident.time.before.as_ref(),
            during: incident.time.during.as_ref(),
        },
        sessions_at_work: SessionsAtWork::from_loads(&incident.loads),
        diagnosis: incident.diagnosis.as_ref(),
        locks,
        statements: incident
            .statements
            .rows
            .iter()
            .map(|row| Statement {
                digest_text: &row.text,
                before: numbers(&row.before),
                during: numbers(&row.during),
            })
            .collect(),
        statements_changed: incident
            .changes
            .iter()
            .map(|one| {
                let comparison = workload::value(&one.before, &one.after, &one.changes)?;
                Ok(StatementsChanged { against: one.against.name(), comparison })
            })
            .collect::<serde_json::Result<_>>()?,
        settings_changed: incident
            .settings
            .changes
            .iter()
            .map(|change| SettingChange {
                at: change.at,
                variable: &change.name,
                from: change.from.as_deref(),
                to: change.to.as_deref(),
            })
            .collect(),
        settings: incident.settings.shown.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        gaps: &incident.gaps,
        not_recorded: incident
            .unrecorded
            .iter()
            .map(|one| NotRecorded { sources: &one.sources, because: &one.because, unlock: &one.unlock })
            .collect(),
    })?)
}

fn numbers(load: &Load) -> Numbers {
    Numbers { threads_at_once: load.at_once, ended_per_s: load.ended_per_s, mean_ms: load.mean_ms }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::incident::examples;

    /// The promise of `spindoctor.incident/1`: fields may be added, none is renamed or removed.
    #[test]
    fn every_field_of_the_public_schema_is_there() {
        let json: Value = serde_json::from_str(&render(&examples::pileup()).unwrap()).unwrap();
        assert_eq!(json["schema"], "spindoctor.incident/1");
        assert_eq!(json["event"]["id"], 17);
        assert_eq!(json["event"]["stall"]["kind"], "commits_stopped");
        assert_eq!(json["from"], "2026-07-01T09:30:00.2Z");
        assert_eq!(json["compared_with"]["to"], "2026-07-01T09:29:59.2Z");
        assert_eq!(json["numbers"][0]["name"], "statements");
        assert!(json["numbers"][0]["before"].as_f64() > json["numbers"][0]["during"].as_f64());
        assert!(json["timeline"][0]["curves"][0][0][1].is_number());
        let load = &json["sessions_at_work"];
        assert_eq!(load["known_by"], "list");
        assert!(load["over_time"][0]["sessions"]["running"].is_number(), "{load}");
        assert!(load["over_time"][1]["cpus_used"].is_number() && load["over_time"][0]["from"].is_string());
        assert!(load["during"]["statements"][0]["sessions"]["metadata-lock"].as_f64() > Some(50.0), "{load}");
        assert_eq!(load["during"]["lists"], 3);
        assert!(load["before"]["classes"]["running"].is_number());
        assert_eq!(json["diagnosis"]["schema"], "spindoctor.diagnosis/1");
        assert_eq!(json["locks"]["schema"], "spindoctor.locks/1");
        assert!(json["statements"][0]["during"]["threads_at_once"].is_number());
        assert_eq!(json["settings_changed"][0]["variable"], "max_connections");
        assert_eq!(json["settings"]["sync_binlog"], "1");
        assert!(json["gaps"].is_array() && json["not_recorded"][0]["sources"].is_array());
        for key in ["title", "told", "server", "written_by", "to", "is_over", "events"] {
            assert!(!json[key].is_null(), "{key}");
        }
    }

    #[test]
    fn json_of_hostile_strings_is_safe_to_print() {
        let json = render(&examples::hostile()).unwrap();
        assert!(!json.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
    }
}
