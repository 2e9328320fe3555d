//! The schema `spindoctor.fleet-diagnosis/1`: fields may be added, none is renamed or removed. Servers stand by name.

use serde::Serialize;
use spindoctor_model::{Finding, Severity};

use super::report::Report;
use spindoctor_page::json;

const SCHEMA: &str = "spindoctor.fleet-diagnosis/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    servers: usize,
    answered: usize,
    interval_s: f64,
    took_s: f64,
    cost: Cost,
    troubles: Vec<Trouble<'a>>,
    versions: Vec<Version<'a>>,
    odd: Vec<Odd<'a>>,
    split: Vec<Split<'a>>,
    cpus: Vec<Cpu<'a>>,
    misfits: Vec<Misfit<'a>>,
    not_examined: Vec<NotExamined<'a>>,
    failures: Vec<Failure<'a>>,
    not_asked: Vec<&'a str>,
}

#[derive(Serialize)]
struct Cost {
    server_queries: u64,
    server_busy_ms: f64,
}

#[derive(Serialize)]
struct Trouble<'a> {
    cause: &'a str,
    severity: Severity,
    score: f64,
    servers: Vec<OnServer<'a>>,
}

#[derive(Serialize)]
struct OnServer<'a> {
    server: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

#[derive(Serialize)]
struct Version<'a> {
    version: &'a str,
    servers: Vec<&'a str>,
}

#[derive(Serialize)]
struct Odd<'a> {
    setting: &'a str,
    peers: &'a str,
    of: usize,
    norm: &'a str,
    norm_servers: usize,
    others: Vec<Value<'a>>,
}

#[derive(Serialize)]
struct Value<'a> {
    value: &'a str,
    servers: Vec<&'a str>,
}

#[derive(Serialize)]
struct Split<'a> {
    setting: &'a str,
    peers: &'a str,
    values: Vec<Counted<'a>>,
}

#[derive(Serialize)]
struct Counted<'a> {
    value: &'a str,
    servers: usize,
}

#[derive(Serialize)]
struct Cpu<'a> {
    cpu: &'a str,
    pause_ns: f64,
    servers: Vec<&'a str>,
    misfits: Vec<&'a str>,
}

#[derive(Serialize)]
struct Misfit<'a> {
    setting: &'a str,
    value: &'a str,
    fits: &'a str,
    why: &'a str,
    servers: Vec<&'a str>,
}

#[derive(Serialize)]
struct NotExamined<'a> {
    because: &'a str,
    unlock: &'a str,
    causes: &'a [String],
    servers: Vec<&'a str>,
}

#[derive(Serialize)]
struct Failure<'a> {
    reason: &'static str,
    error: &'a str,
    servers: Vec<&'a str>,
}

/// One object.
pub fn render(text: &Report<'_>) -> serde_json::Result<String> {
    let Report { diagnosis, names, failures, not_asked, interval_s, took_s } = *text;
    let named = |servers: &[usize]| servers.iter().map(|&at| names[at].as_str()).collect::<Vec<_>>();
    let troubles = diagnosis.troubles.iter().map(|trouble| Trouble {
        cause: &trouble.cause,
        severity: trouble.severity(),
        score: trouble.worst(),
        servers: trouble
            .found
            .iter()
            .map(|(server, finding)| OnServer { server: &names[*server], finding })
            .collect(),
    });
    let odd = diagnosis.settings.odd.iter().map(|odd| Odd {
        setting: &odd.setting,
        peers: &odd.peers,
        of: odd.of,
        norm: &odd.norm,
        norm_servers: odd.norm_servers,
        others: odd.others.iter().map(|(value, servers)| Value { value, servers: named(servers) }).collect(),
    });
    let split = diagnosis.settings.split.iter().map(|split| Split {
        setting: &split.setting,
        peers: &split.peers,
        values: split.values.iter().map(|(value, servers)| Counted { value, servers: *servers }).collect(),
    });
    let cpus = diagnosis.cpus.iter().map(|group| Cpu {
        cpu: &group.cpu,
        pause_ns: group.pause_ns,
        servers: named(&group.servers),
        misfits: named(&group.misfits),
    });
    let misfits = diagnosis.misfits.iter().map(|(misfit, servers)| Misfit {
        setting: misfit.variable,
        value: &misfit.value,
        fits: &misfit.fits,
        why: &misfit.why,
        servers: named(servers),
    });
    let not_examined = diagnosis.unexamined.iter().map(|missing| NotExamined {
        because: &missing.because,
        unlock: &missing.unlock,
        causes: &missing.causes,
        servers: named(&missing.servers),
    });
    let alike = failures.alike();
    let failures = alike.iter().map(|(reason, error, servers)| Failure {
        reason: reason.name(),
        error,
        servers: named(servers),
    });
    json::to_text(&Written {
        schema: SCHEMA,
        servers: names.len(),
        answered: diagnosis.judged,
        interval_s,
        took_s,
        cost: Cost { server_queries: diagnosis.queries, server_busy_ms: diagnosis.busy_ms },
        troubles: troubles.collect(),
        versions: diagnosis
            .versions
            .iter()
            .map(|(version, servers)| Version { version, servers: named(servers) })
            .collect(),
        odd: odd.collect(),
        split: split.collect(),
        cpus: cpus.collect(),
        misfits: misfits.collect(),
        not_examined: not_examined.collect(),
        failures: failures.collect(),
        not_asked: named(not_asked),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_fleet::failure::{Failure, Failures};

    use super::*;

    use crate::fleet::doctor::examples;

    #[test]
    fn everything_that_is_shown_is_there_by_name() {
        let (diagnosis, names) = (examples::fleet(), examples::names());
        let mut failures = Failures::default();
        failures.add(5, &Failure::connect("error 1040: Too many connections"));
        let line = Report {
            diagnosis: &diagnosis,
            names: &names,
            failures: &failures,
            not_asked: &[],
            interval_s: 2.0,
            took_s: 2.1,
        };
        let text = render(&line).unwrap();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["schema"], &json["servers"], &json["answered"]),
            (&SCHEMA.into(), &6.into(), &5.into())
        );
        let full = &json["troubles"][0];
        assert_eq!(
            (&full["cause"], &full["severity"]),
            (&"connections-exhausted".into(), &"critical".into())
        );
        assert_eq!(full["servers"][1]["server"], "db3:3306");
        assert!(full["servers"][1]["remedies"][0]["statement"].is_string());
        assert_eq!(json["versions"][1]["servers"], serde_json::json!(["db2:3306"]));
        assert_eq!(
            json["odd"],
            serde_json::json!([{
                "setting": "sync_binlog", "peers": "MySQL 8.0", "of": 5, "norm": "1", "norm_servers": 4,
                "others": [{"value": "0", "servers": ["db4:3306"]}]
            }])
        );
        assert_eq!(json["misfits"][0]["servers"], serde_json::json!(["db1:3306"]));
        assert_eq!(json["failures"][0]["reason"], "connect");
        assert_eq!(json["cost"]["server_queries"], 100);
    }
}
