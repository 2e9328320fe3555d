//! JSON, schema `spindoctor.workload/1`. Fields may be added; none is renamed or removed. Times are in milliseconds
//! unless the name says otherwise; shares are of all sampled time, those of states of their group's time.

use std::collections::BTreeMap;

use serde::Serialize;
use spindoctor_model::Finding;
use spindoctor_rules::replica::KeepingUp;
use spindoctor_sql::error_without_values;

use super::keys::Group;
use super::panel::Line;
use super::split::{Part, Split};
use super::tally::Slow;
use super::view::{Workload, share};
use super::words::shown_text;
use spindoctor_page::json::to_text;

/// The schema's name.
const SCHEMA: &str = "spindoctor.workload/1";
/// Groups of each kind.
const MOST_GROUPS: usize = 100;

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    server: &'a str,
    start: Option<String>,
    seconds: f64,
    samples: u64,
    of_replica: bool,
    statements_at_once: f64,
    most_at_once: u64,
    grep: Option<&'a str>,
    matching_share: f64,
    resting_share: Option<f64>,
    groups: Vec<WrittenGroup<'a>>,
    few_sightings: bool,
    by_server: Vec<WrittenByServer<'a>>,
    slowest: Vec<WrittenSlow<'a>>,
    inside_statements: Option<WrittenSplit<'a>>,
    panel: Option<Vec<WrittenLine<'a>>>,
    replica: Option<Vec<WrittenChannel<'a>>>,
    findings: &'a [Finding],
    cost: Option<WrittenCost>,
    not_known: Vec<NotKnown<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct WrittenGroup<'a> {
    by: &'static str,
    key: &'a str,
    share: f64,
    at_once: f64,
    states: BTreeMap<&'a str, f64>,
    slowest_ms: f64,
}

/// As the server's digests count it.
#[derive(Serialize)]
struct WrittenByServer<'a> {
    statement: &'a str,
    share: f64,
    at_once: f64,
    per_s: f64,
    mean_ms: f64,
}

#[derive(Serialize)]
struct WrittenSlow<'a> {
    ran_ms: f64,
    connection_id: Option<u64>,
    user: &'a str,
    schema: &'a str,
    state: &'a str,
    statement: &'a str,
}

#[derive(Serialize)]
struct WrittenSplit<'a> {
    snapshots: u64,
    seen: u64,
    on_cpu: f64,
    waiting_for_cpu: f64,
    phases: BTreeMap<&'static str, WrittenPart>,
    statements: Vec<WrittenStatement<'a>>,
}

#[derive(Serialize)]
struct WrittenPart {
    share: f64,
    on_cpu: f64,
}

#[derive(Serialize)]
struct WrittenStatement<'a> {
    digest: &'a str,
    share: f64,
    seen: u64,
    phases: BTreeMap<&'static str, WrittenPart>,
}

#[derive(Serialize)]
struct WrittenLine<'a> {
    reading: &'a str,
    value: Option<f64>,
    unit: &'a str,
    source: &'a str,
    beside: &'a str,
    odd: &'a str,
}

#[derive(Serialize)]
struct WrittenChannel<'a> {
    channel: &'a str,
    source: String,
    shape: &'static str,
    behind_s: Option<f64>,
    behind_growth: Option<f64>,
    received_bytes_per_s: Option<f64>,
    applied_bytes_per_s: Option<f64>,
    backlog_bytes: Option<f64>,
    caught_up_in_s: Option<f64>,
    applier_state: &'a str,
    applier_error: String,
    receiver_error: String,
    series: &'a [(f64, f64)],
}

#[derive(Serialize)]
struct WrittenCost {
    server_queries: u64,
    server_busy_ms: f64,
    server_cpu_ms: Option<f64>,
    own_cpu_ms: f64,
    cpu_share: Option<f64>,
    threads_stopped: u64,
}

#[derive(Serialize)]
struct NotKnown<'a> {
    what: &'static str,
    because: &'a str,
}

/// The workload as indented JSON with a line break at its end.
pub fn render(workload: &Workload) -> serde_json::Result<String> {
    let counted = &workload.counted;
    let all = counted.seen + counted.resting;
    let not_known = [
        workload.split.as_ref().err().map(|because| NotKnown { what: "inside_statements", because }),
        workload.panel.as_ref().err().map(|because| NotKnown { what: "panel", because }),
        workload.replica.as_ref().err().map(|because| NotKnown { what: "replica", because }),
    ];
    to_text(&Written {
        schema: SCHEMA,
        server: &workload.subject,
        start: workload.start.map(|at| at.to_string()),
        seconds: counted.seconds,
        samples: counted.looks,
        of_replica: workload.of_replica,
        statements_at_once: counted.seen as f64 / counted.looks.max(1) as f64,
        most_at_once: counted.most_at_once,
        grep: workload.grep.as_deref(),
        matching_share: share(counted, counted.matching),
        resting_share: (workload.of_replica && all > 0).then(|| counted.resting as f64 / all as f64),
        groups: counted
            .groups
            .iter()
            .flat_map(|(by, groups)| {
                groups.iter().take(MOST_GROUPS).map(move |one| written_group(workload, by.name(), one))
            })
            .collect(),
        few_sightings: workload.has_few_sightings(),
        by_server: workload
            .by_server
            .iter()
            .map(|one| WrittenByServer {
                statement: &one.statement,
                share: one.share,
                at_once: one.at_once,
                per_s: one.per_s,
                mean_ms: one.mean_ms,
            })
            .collect(),
        slowest: counted.slowest.iter().map(|slow| written_slow(workload, slow)).collect(),
        inside_statements: workload.split.as_ref().ok().map(written_split),
        panel: workload.panel.as_ref().ok().map(|lines| lines.iter().map(written_line).collect()),
        replica: workload
            .replica
            .as_ref()
            .ok()
            .map(|channels| channels.iter().map(written_channel).collect()),
        findings: &workload.findings,
        cost: workload.cost.map(|cost| WrittenCost {
            server_queries: cost.server_queries,
            server_busy_ms: cost.answered_ms,
            server_cpu_ms: cost.server_cpu_ms,
            own_cpu_ms: cost.own_cpu_ms,
            cpu_share: cost.cpu_share,
            threads_stopped: cost.threads_stopped,
        }),
        not_known: not_known.into_iter().flatten().collect(),
        notes: &workload.notes,
    })
}

fn written_group<'a>(workload: &Workload, by: &'static str, group: &'a Group) -> WrittenGroup<'a> {
    let counted = &workload.counted;
    let of_group = |seen: u64| seen as f64 / group.seen.max(1) as f64;
    WrittenGroup {
        by,
        key: &group.key,
        share: share(counted, group.seen),
        at_once: group.seen as f64 / counted.looks.max(1) as f64,
        states: group.states.iter().map(|(state, seen)| (state.as_str(), of_group(*seen))).collect(),
        slowest_ms: group.slowest_s * 1e3,
    }
}

fn written_slow<'a>(workload: &Workload, slow: &'a Slow) -> WrittenSlow<'a> {
    WrittenSlow {
        ran_ms: slow.seconds * 1e3,
        connection_id: slow.connection_id,
        user: &slow.user,
        schema: &slow.schema,
        state: &slow.state,
        statement: shown_text(workload, slow),
    }
}

fn written_split(split: &Split) -> WrittenSplit<'_> {
    WrittenSplit {
        snapshots: split.snapshots,
        seen: split.seen,
        on_cpu: split.on_cpu,
        waiting_for_cpu: split.for_cpu,
        phases: written_parts(&split.parts),
        statements: split
            .statements
            .iter()
            .map(|statement| WrittenStatement {
                digest: &statement.digest,
                share: statement.share,
                seen: statement.seen,
                phases: written_parts(&statement.parts),
            })
            .collect(),
    }
}

fn written_parts(parts: &[Part]) -> BTreeMap<&'static str, WrittenPart> {
    parts
        .iter()
        .map(|part| (part.phase.name(), WrittenPart { share: part.share, on_cpu: part.on_cpu }))
        .collect()
}

fn written_line(line: &Line) -> WrittenLine<'_> {
    WrittenLine {
        reading: line.reading,
        value: line.value,
        unit: line.unit,
        source: line.source,
        beside: &line.beside,
        odd: &line.odd,
    }
}

fn written_channel(seen: &KeepingUp) -> WrittenChannel<'_> {
    let channel = &seen.channel;
    WrittenChannel {
        channel: &channel.name,
        source: format!("{}:{}", channel.source_host, channel.source_port),
        shape: seen.shape.text(),
        behind_s: channel.behind_s,
        behind_growth: seen.growth,
        received_bytes_per_s: seen.received_per_s,
        applied_bytes_per_s: seen.applied_per_s,
        backlog_bytes: seen.backlog_bytes,
        caught_up_in_s: seen.caught_up_in_s,
        applier_state: &channel.applier_state,
        applier_error: error_without_values(&channel.applier_error),
        receiver_error: error_without_values(&channel.receiver_error),
        series: &seen.behind,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::workload::examples;

    #[test]
    fn every_field_of_the_public_schema_is_there() {
        let json: Value = serde_json::from_str(&render(&examples::busy()).unwrap()).unwrap();
        assert_eq!(
            (json["schema"].as_str(), json["samples"].as_u64()),
            (Some("spindoctor.workload/1"), Some(100))
        );
        let group = &json["groups"][0];
        for field in ["by", "key", "share", "states", "slowest_ms"] {
            assert!(!group[field].is_null(), "{field}: {group}");
        }
        assert_eq!(group["by"], "digest");
        let by: Vec<&str> =
            json["groups"].as_array().unwrap().iter().filter_map(|group| group["by"].as_str()).collect();
        for kind in ["digest", "table", "user", "host", "schema", "type", "state", "wait", "tag"] {
            assert!(by.contains(&kind), "{kind}");
        }
        assert_eq!(json["panel"].as_array().map(Vec::len), Some(11));
        assert!(json["inside_statements"]["phases"]["executing"]["share"].is_f64());
        assert_eq!(json["findings"][0]["cause"], "rows-read-waste");
        let total: f64 = json["groups"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|group| group["by"] == "digest")
            .filter_map(|group| group["share"].as_f64())
            .sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn a_replica_is_shown_with_its_shape_and_its_rates() {
        let json: Value = serde_json::from_str(&render(&examples::replica()).unwrap()).unwrap();
        let channel = &json["replica"][0];
        assert_eq!(channel["shape"], "lagging by itself");
        assert_eq!(
            (channel["received_bytes_per_s"].as_f64(), channel["caught_up_in_s"].as_f64()),
            (Some(310_000.0), None)
        );
        assert_eq!(json["not_known"][0]["what"], "inside_statements");
        // It explains the other.
        assert_eq!(json["findings"][0]["cause"], "replica-lag");
        assert_eq!(json["findings"][1]["cause"], "rows-read-waste");
    }

    #[test]
    fn hostile_strings_stay_json_that_steers_nothing() {
        let text = render(&examples::hostile()).unwrap();
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
}
