//! The numbers of a sample, each with its source and its name: `status`, `questions`, 812.
//!
//! Counters stay as they were read. Text is left out, but for yes and no, which are 1 and 0. Lists of threads,
//! statements and waits have tables of their own.

use serde::Serialize;
use serde_json::Value as Json;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Heard, HostSample, Reading, Sample, ServerSample};

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
    for (source, heard) in sample.heard() {
        if let Heard::Answer { took_ms } = heard {
            take(Value { source: "took_ms", name: source, value: took_ms })?;
        }
    }
    let ServerSample {
        status,
        variables: _,
        innodb_status,
        innodb_metrics,
        threads: _,
        transactions: _,
        digests: _,
        waits: _,
        log_files,
        metadata_locks: _,
        row_lock_waits: _,
        accounts: _,
        replication,
        ..
    } = &sample.server;
    for (name, value) in status.value().into_iter().flat_map(NamedValues::iter) {
        if let Some(value) = number(value) {
            take(Value { source: "status", name, value })?;
        }
    }
    for (name, metric) in innodb_metrics.value().into_iter().flatten() {
        if metric.enabled {
            take(Value { source: "innodb_metrics", name, value: metric.count })?;
        }
    }
    flattened("innodb_status", innodb_status, take)?;
    flattened("log_files", log_files, take)?;
    flattened("replication", replication, take)?;
    host(&sample.host, take)
}

fn host(sample: &HostSample, take: &mut Each<'_>) -> anyhow::Result<()> {
    flattened("host_effective_cpus", &sample.effective_cpus, take)?;
    flattened("host_throttling", &sample.throttling, take)?;
    flattened("host_pressure", &sample.pressure, take)?;
    flattened("host_cgroup_pressure", &sample.cgroup_pressure, take)?;
    flattened("host_pause", &sample.pause, take)?;
    flattened("host_cpu_times", &sample.cpu_times, take)?;
    flattened("host_process", &sample.process, take)?;
    flattened("host_numa", &sample.numa, take)?;
    flattened("host_disks", &sample.disks, take)?;
    flattened("host_memory", &sample.memory, take)?;
    flattened("host_srv_cpu_usage", &sample.srv_cpu_usage, take)?;
    flattened("host_data_directory", &sample.data_directory, take)?;
    flattened("host_page_cache", &sample.page_cache, take)?;
    flattened("host_listen_queues", &sample.listen_queues, take)
}

/// A status value as a number; a server that says `NaN` or `inf` says nothing.
fn number(text: &str) -> Option<f64> {
    match text {
        "ON" | "YES" | "Yes" => Some(1.0),
        "OFF" | "NO" | "No" => Some(0.0),
        text => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn flattened<T: Serialize>(
    source: &'static str,
    reading: &Reading<T>,
    take: &mut Each<'_>,
) -> anyhow::Result<()> {
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
        let mut told = Vec::new();
        each(&sample, &mut |Value { source, name, value }| {
            told.push((source, name.to_owned(), value));
            Ok(())
        })
        .unwrap();
        let has = |source, name: &str, value| told.contains(&(source, name.to_owned(), value));
        assert!(has("status", "questions", 812.0) && has("status", "slave_running", 1.0), "{told:?}");
        assert!(has("host_disks", "sda.reads", 7.0) && has("took_ms", "status", 1.5), "{told:?}");
        assert!(
            told.iter()
                .all(|(_, name, _)| !name.contains("flushes") && name != "flush" && name != "ssl_cipher")
        );
    }
}
