//! JSON: the schema `spindoctor.diagnosis/1`, which is the model's [`Diagnosis`] as it is.

use spindoctor_model::Diagnosis;

use spindoctor_page::json::to_text;

/// The diagnosis as indented JSON with a line break at its end.
pub fn render(diagnosis: &Diagnosis) -> serde_json::Result<String> {
    to_text(diagnosis)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use spindoctor_model::Diagnosis;

    use super::*;

    use crate::doctor::examples;

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[track_caller]
    fn has(value: &Value, wanted: &[&str]) {
        let missing: Vec<_> = wanted.iter().filter(|key| !keys(value).contains(*key)).collect();
        assert!(missing.is_empty(), "{missing:?} missing");
    }

    /// The promise of `spindoctor.diagnosis/1`: fields may be added, none is renamed or removed.
    #[test]
    fn every_field_of_the_public_schema_is_there() {
        let json: Value = serde_json::from_str(&render(&examples::suffering()).unwrap()).unwrap();
        assert_eq!(json["schema"], "spindoctor.diagnosis/1");
        has(&json, &["schema", "server", "host", "window", "cost", "findings", "clear", "not_examined"]);
        has(&json["server"], &["flavor", "version", "pid", "uptime_s"]);
        assert_eq!(json["server"]["flavor"], "mysql");
        has(
            &json["host"],
            &[
                "effective_cpus",
                "online_cpus",
                "server_believes_cpus",
                "quota",
                "pause_latency_ns",
                "pause_latency_cycles",
                "numa_nodes",
            ],
        );
        has(&json["window"], &["start", "seconds"]);
        assert_eq!(json["window"]["start"], "2026-07-01T09:30:00Z");
        has(&json["cost"], &["server_queries", "server_busy_ms", "own_cpu_ms", "threads_stopped"]);
        let spin = &json["findings"][0];
        has(spin, &["cause", "severity", "score", "headline", "evidence", "remedies", "references"]);
        assert_eq!(spin["severity"], "critical");
        has(&spin["evidence"][0], &["reading", "value", "unit", "source", "expected"]);
        has(&spin["remedies"][0], &["statement", "why", "dynamic", "risk", "undo"]);
        has(&json["findings"][1]["root"], &["thread_os_id", "connection_id", "user", "statement", "stack"]);
        has(&json["not_examined"][0], &["cause", "because", "unlock"]);
    }

    #[test]
    fn a_diagnosis_comes_back_from_its_json_as_it_was() {
        for diagnosis in [examples::suffering(), examples::healthy(), examples::silent(), examples::hostile()]
        {
            let json = render(&diagnosis).unwrap();
            assert_eq!(serde_json::from_str::<Diagnosis>(&json).unwrap(), diagnosis);
            assert!(!json.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        }
    }
}
