//! JSON, schema `spindoctor.connections/1`, for machines. Fields may be added; none is renamed or removed. Times are in
//! milliseconds unless the name says otherwise; what could not be read is null, and `not_read` says why.

use serde::Serialize;
use spindoctor_model::connections::{AcceptPart, AcceptTime};
use spindoctor_model::{Finding, Unavailable};

use super::view::Connections;
use spindoctor_page::json::to_text;

/// The schema's name.
const SCHEMA: &str = "spindoctor.connections/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    server: &'a str,
    pid: Option<u32>,
    at: String,
    seconds: f64,
    made_per_s: Option<f64>,
    failed_per_s: Option<f64>,
    connected: Option<f64>,
    max_connections: Option<f64>,
    threads: Threads,
    accept: Option<Accept<'a>>,
    queue: Option<Queue>,
    lifetimes: Vec<Lifetime>,
    accounts: Option<Vec<Account<'a>>>,
    findings: &'a [Finding],
    not_read: Vec<NotRead<'a>>,
    cost: Cost,
}

#[derive(Serialize)]
struct Threads {
    created_per_s: Option<f64>,
    cache_hit_ratio: Option<f64>,
    cache_size: Option<f64>,
    cached: Option<f64>,
    pool: bool,
}

#[derive(Serialize)]
struct Accept<'a> {
    #[serde(flatten)]
    time: &'a AcceptTime,
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    part: AcceptPart,
    share: f64,
}

#[derive(Serialize)]
struct Queue {
    waiting: Option<u64>,
    overflows: Option<u64>,
    drops: Option<u64>,
    syn_queue_drops: Option<u64>,
    back_log: Option<u64>,
}

#[derive(Serialize)]
struct Lifetime {
    within_s: f64,
    closed_ratio: f64,
    made: u64,
}

#[derive(Serialize)]
struct Account<'a> {
    user: &'a str,
    host: &'a str,
    per_s: f64,
    share: f64,
    statements_each: Option<f64>,
    lifetime_s: Option<f64>,
    open: u64,
}

#[derive(Serialize)]
struct NotRead<'a> {
    what: &'static str,
    because: &'a str,
    unlock: Option<&'a str>,
}

#[derive(Serialize)]
struct Cost {
    server_queries: u64,
    server_busy_ms: f64,
    own_cpu_ms: f64,
    threads_stopped: u64,
    /// How often threads of the machine passed the places where system calls are counted, and what that cost them.
    passes: Option<u64>,
    passes_cpu_ms: Option<f64>,
}

/// The look as indented JSON with a line break at its end.
pub fn render(look: &Connections) -> serde_json::Result<String> {
    let accept = look.accept.as_ref().ok();
    let refusals: [(&'static str, Option<&Unavailable>); 3] = [
        ("accept", look.accept.as_ref().err()),
        ("queue", look.queue.as_ref().err()),
        ("accounts", look.accounts.as_ref().err()),
    ];
    to_text(&Written {
        schema: SCHEMA,
        server: &look.server,
        pid: look.pid,
        at: look.at.to_string(),
        seconds: look.seconds,
        made_per_s: look.made_per_s,
        failed_per_s: look.failed_per_s,
        connected: look.connected,
        max_connections: look.max_connections,
        threads: Threads {
            created_per_s: look.threads.created_per_s,
            cache_hit_ratio: look.threads.hit_ratio,
            cache_size: look.threads.cache_size,
            cached: look.threads.cached,
            pool: look.threads.is_pool,
        },
        accept: accept.map(|time| Accept {
            time,
            parts: time.parts().into_iter().map(|(part, share)| Part { part, share }).collect(),
        }),
        queue: look.queue.as_ref().ok().map(|queue| Queue {
            waiting: queue.waiting,
            overflows: queue.overflows,
            drops: queue.drops,
            syn_queue_drops: queue.syn_queue_drops,
            back_log: queue.back_log,
        }),
        lifetimes: look
            .lifetimes
            .iter()
            .map(|age| Lifetime { within_s: age.within_s, closed_ratio: age.closed_ratio, made: age.made })
            .collect(),
        accounts: look.accounts.as_ref().ok().map(|accounts| {
            let written = accounts.iter().map(|account| Account {
                user: &account.user,
                host: &account.host,
                per_s: account.per_s,
                share: account.share,
                statements_each: account.statements_each,
                lifetime_s: account.lifetime_s,
                open: account.open,
            });
            written.collect()
        }),
        findings: &look.findings,
        not_read: refusals
            .into_iter()
            .filter_map(|(what, why)| {
                let why = why?;
                Some(NotRead { what, because: &why.because, unlock: why.unlock.as_deref() })
            })
            .collect(),
        cost: Cost {
            server_queries: look.cost.server_queries,
            server_busy_ms: look.cost.server_busy_ms,
            own_cpu_ms: look.cost.own_cpu_ms,
            threads_stopped: look.cost.threads_stopped,
            passes: accept.map(|accept| accept.passes),
            passes_cpu_ms: accept.map(|accept| accept.passes_cpu_ms),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::connections::view::sample;

    /// The promise of `spindoctor.connections/1`: fields may be added, none is renamed or removed.
    #[test]
    fn every_field_of_the_schema_is_there() {
        let json: Value = serde_json::from_str(&render(&sample::busy()).unwrap()).unwrap();
        assert_eq!(json["schema"], SCHEMA);
        for field in
            ["server", "pid", "at", "seconds", "made_per_s", "failed_per_s", "connected", "max_connections"]
        {
            assert!(!json[field].is_null(), "{field}");
        }
        let accept = &json["accept"];
        for field in ["tid", "accepted", "busy_ratio", "us_each", "accounted_ratio", "rows", "parts", "notes"]
        {
            assert!(!accept[field].is_null(), "accept.{field}");
        }
        assert_eq!(accept["rows"][0]["name"], "accept4");
        assert_eq!(accept["rows"][0]["part"], "system-call");
        assert_eq!(json["threads"]["cache_hit_ratio"], 0.985);
        assert_eq!(json["queue"]["waiting"], 3);
        assert_eq!(json["accounts"][0]["statements_each"], 1.1);
        assert_eq!(json["lifetimes"][0]["within_s"], 0.1);
        assert_eq!(json["cost"]["passes"], 1_400_000);
        assert_eq!(json["not_read"].as_array().map(Vec::len), Some(0));
    }

    #[test]
    fn what_could_not_be_read_is_null_with_the_reason() {
        let json: Value = serde_json::from_str(&render(&sample::remote()).unwrap()).unwrap();
        assert!(json["accept"].is_null() && json["queue"].is_null() && json["accounts"].is_null());
        assert_eq!(json["not_read"][0]["what"], "accept");
        assert_eq!(json["not_read"][2]["because"], "performance_schema is off");
    }
}
