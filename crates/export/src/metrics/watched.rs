//! The alert rules and the dashboard of `packaging/` ask for metrics that are declared, as their kinds want to be asked.
//! `script/dashboards` has promtool read the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use super::declared::METRICS;
use super::tests::all;
use super::{Family, Kind, Value};

/// What Prometheus itself puts at every series, and a histogram at its buckets.
const LABELS_OF_PROMETHEUS: [&str; 3] = ["instance", "job", "le"];
/// The one metric that Prometheus makes of a target itself.
const UP: &str = "up";

fn packaged(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    fs::read_to_string(folder.join(file)).expect("the file is there")
}

/// The expressions of the alert rules: each `expr:` with the lines below it that stand deeper.
fn of_rules(text: &str) -> Vec<String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, first)) = line.split_once("expr: ") else { continue };
        let deeper = lines[at + 1..].iter().take_while(|next| depth(next) > before.len());
        let rest: Vec<&str> = deeper.map(|next| next.trim()).collect();
        found.push(format!("{} {}", first.trim_start_matches(">-"), rest.join(" ")));
    }
    found
}

/// The expressions of a dashboard: of its panels, its annotations and its variables.
fn of_dashboard(text: &str) -> Vec<String> {
    fn add(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        serde_json::Value::String(text) if name == "expr" || name == "definition" => {
                            found.push(text.clone());
                        }
                        value => add(value, found),
                    }
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| add(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    add(&serde_json::from_str(text).expect("a dashboard is JSON"), &mut found);
    found
}

/// What is wrong with an expression: names that no metric has, counters without a rate, rates of what goes up and down, labels
/// that the family does not have.
fn wrong_with(expression: &str, labels: &BTreeMap<&'static str, BTreeSet<&'static str>>) -> Vec<String> {
    let series =
        Regex::new(r"(?:(rate|increase|delta)\()?\b(spindoctor_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?").unwrap();
    let label = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*""#).unwrap();
    let grouped = Regex::new(r"\b(?:by|on) \(([^)]*)\)").unwrap();
    let mut wrong = Vec::new();
    let mut known: BTreeSet<&str> = LABELS_OF_PROMETHEUS.into();
    for found in series.captures_iter(expression) {
        let (how, name) = (found.get(1).map_or("", |how| how.as_str()), &found[2]);
        if name == UP {
            continue;
        }
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let metric = METRICS.iter().find(|metric| match metric.kind {
            Kind::Histogram => of_histogram == Some(metric.name),
            Kind::Counter | Kind::Gauge => name == metric.name,
        });
        let Some(metric) = metric else {
            wrong.push(format!("no metric has the name {name}"));
            continue;
        };
        let grows = metric.kind != Kind::Gauge;
        if grows != matches!(how, "rate" | "increase") {
            wrong.push(format!(
                "{name} is asked with {how:?}, but it {}",
                if grows { "only grows" } else { "goes up and down" }
            ));
        }
        known.extend(labels.get(metric.name).into_iter().flatten());
        for asked in label.captures_iter(found.get(3).map_or("", |labels| labels.as_str())) {
            if !known.contains(&asked[1]) {
                wrong.push(format!("{name} has no label {}", &asked[1]));
            }
        }
    }
    for group in grouped.captures_iter(expression) {
        let absent = group[1].split(',').map(str::trim).filter(|asked| !known.contains(asked));
        wrong.extend(absent.map(|asked| format!("nothing there has the label {asked}")));
    }
    wrong
}

/// The labels of each family, of those that the hand-made window has.
fn labels() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let families = all();
    let label_names = |family: &Family| {
        let names = family.points.iter().flat_map(|point| point.labels.iter().map(|(name, _)| *name));
        (family.name, names.collect())
    };
    assert!(families.iter().all(|family| family.points.iter().all(|point| match &point.value {
        Value::Number(number) => number.is_finite(),
        Value::Histogram(histogram) => histogram.count() > 0,
    })));
    let mut labels: BTreeMap<_, BTreeSet<_>> = families.iter().map(label_names).collect();
    // The hand-made window has no pressure.
    labels.entry("spindoctor_host_pressure_seconds_total").or_default().extend(["resource", "share"]);
    labels.entry("spindoctor_server_cpu_seconds_total").or_default().insert("mode");
    labels.entry("spindoctor_mysql_commands_total").or_default().insert("command");
    labels
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_the_recorder_has() {
    let labels = labels();
    let rules = of_rules(&packaged("prometheus/spindoctor.rules.yml"));
    let dashboard = of_dashboard(&packaged("grafana/spindoctor.json"));
    assert!(rules.len() >= 10 && dashboard.len() >= 50, "{} and {}", rules.len(), dashboard.len());
    for expression in rules.iter().chain(&dashboard) {
        // What a variable is filled with is no series that is read.
        if expression.starts_with("label_values(") {
            assert_eq!(expression, "label_values(spindoctor_up, instance)");
            continue;
        }
        let wrong = wrong_with(expression, &labels);
        assert!(wrong.is_empty(), "{expression}: {}", wrong.join("; "));
    }
}

#[test]
fn the_dashboard_shows_every_metric() {
    let text = packaged("grafana/spindoctor.json");
    // How often a source is asked, files, and each stall's cause are for who looks for a reason.
    const NOT_SHOWN: [&str; 6] = [
        "spindoctor_events_total",
        "spindoctor_mysql_uptime_seconds",
        "spindoctor_source_queries_total",
        "spindoctor_source_period_seconds",
        "spindoctor_parquet_files_total",
        "spindoctor_parquet_written_bytes_total",
    ];
    let shown =
        |name: &str| text.contains(&format!("{name}{{")) || text.contains(&format!("{name}_bucket{{"));
    for metric in METRICS {
        let by_rule = metric.name == "spindoctor_parquet_until_timestamp_seconds";
        assert_eq!(shown(metric.name), !NOT_SHOWN.contains(&metric.name) && !by_rule, "{}", metric.name);
    }
}

#[test]
fn a_rule_that_asks_wrongly_is_found() {
    let labels = labels();
    let wrong = |expression: &str| wrong_with(expression, &labels).join("; ");
    assert_eq!(wrong("rate(spindoctor_mysql_questions_total{instance=~\"$instance\"}[5m]) > up"), "");
    assert_eq!(wrong("sum by (instance, le) (rate(spindoctor_probe_seconds_bucket[5m]))"), "");
    assert!(wrong("rate(spindoctor_mysql_qestions_total[5m])").contains("no metric has the name"));
    assert!(wrong("spindoctor_probe_seconds").contains("no metric has the name"));
    assert!(wrong("spindoctor_mysql_questions_total > 7").contains("only grows"));
    assert!(wrong("rate(spindoctor_up[5m])").contains("goes up and down"));
    assert!(
        wrong("rate(spindoctor_events_total{cause=\"x\", host=\"y\"}[5m])").contains("has no label host")
    );
    assert!(wrong("sum by (klass) (rate(spindoctor_session_seconds_total[5m]))").contains("the label klass"));
    assert_eq!(
        of_rules("a:\n  - expr: x\n    for: 1m\n  - expr: >-\n      y\n      z\n    for: 1m\n"),
        ["x ", " y z"]
    );
}
