//! The size of a recording: bytes per second of each source, and CPU time of writing and reading.
//!
//! ```text
//! gunzip -c crates/rules/tests/windows/healthy.mysql-9.7.json.gz > /tmp/window.json
//! cargo run --release -p spindoctor-record --example size -- /tmp/window.json [MINUTES [CONNECTIONS [BUSY]]]
//! ```
//!
//! The window is a real server's under sysbench. Its counters go on growing as they did, with noise, and its connections
//! become as many as are wanted: the busy ones with another statement each second, the others asleep. How often each
//! source is read is in `EVERY_S`.

#![expect(clippy::print_stdout, reason = "the numbers are the output")]

use std::path::Path;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use spindoctor_model::host::ThreadStat;
use spindoctor_model::mysql::{NamedValues, ServerThread, Transaction};
use spindoctor_model::{Reading, RecordedSample, Sample, ServerIdentity};
use spindoctor_record::{Recording, Writer, WriterOptions};

/// Seconds between two readings of a source, as `crates/collect/src/pace.rs` has them; the others are read each
/// second.
const EVERY_S: [(&str, usize); 20] = [
    ("server.variables", 60),
    ("server.metadata_locks", 2),
    ("server.innodb_metrics", 2),
    ("server.digests", 30),
    ("server.errors", 30),
    ("server.waits", 30),
    ("server.log_files", 10),
    ("server.innodb_status", 20),
    ("server.replication", 2),
    ("host.srv_cpu_usage", 5),
    ("host.memory", 5),
    ("host.threads", 30),
    ("host.effective_cpus", 10),
    ("host.data_directory", 60),
    ("host.page_cache", 60),
    ("host.numa", 86_400),
    ("host.pause", 86_400),
    ("host.cpu", 86_400),
    ("server.row_lock_waits", 1),
    ("server.accounts", 30),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a window's JSON as the first argument");
    let mut number = |otherwise| arguments.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (minutes, connections, busy) = (number(10), number(1000), number(256));
    let text = std::fs::read_to_string(path).expect("the window can be read");
    let window: Value = serde_json::from_str(&text).expect("the window is JSON");
    let samples = &window["window"]["samples"];
    let last = samples.as_array().map_or(0, |samples| samples.len() - 1);
    let mut server = Server::new(&samples[0], &samples[last], connections, busy);
    let recorded: Vec<Sample> = (0..minutes * 60).map(|second| server.sample(second)).collect();

    let whole = write(&recorded, None);
    println!("{connections} connections, {busy} of them busy, {minutes} minutes");
    println!(
        "all          {:8.0} bytes/s   {:.0} MiB a day",
        whole.bytes_s,
        whole.bytes_s * 86_400.0 / 1048576.0
    );
    println!("  of the file {:7.0} bytes/s", whole.file_bytes_s);
    println!("  writing     {:7.2} ms CPU a second, the most {:.1} ms", whole.write_ms, whole.most_ms);
    println!("  two minutes {:7.1} ms to read, {:.1} ms without lists", whole.read_ms, whole.thin_ms);
    println!("  a minute's window {:.1} ms", whole.window_ms);
    let mut sources: Vec<(String, f64)> = Vec::new();
    for part in ["server", "host"] {
        let whole = serde_json::to_value(&recorded[0]).expect("a sample is JSON");
        for source in whole[part].as_object().expect("a part is a record").keys() {
            let one = write(&recorded, Some((part, source)));
            sources.push((format!("{part}.{source}"), one.bytes_s));
        }
    }
    sources.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (source, bytes_s) in sources {
        println!("  {source:24} {bytes_s:7.0} bytes/s");
    }
}

struct Measured {
    bytes_s: f64,
    file_bytes_s: f64,
    write_ms: f64,
    most_ms: f64,
    read_ms: f64,
    thin_ms: f64,
    window_ms: f64,
}

/// Writes samples to a new recording, all of each or one source alone.
fn write(samples: &[Sample], only: Option<(&str, &str)>) -> Measured {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("size.spindoctor");
    let mut writer = Writer::open(&path, WriterOptions::default()).expect("a recording");
    let began: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let segment = writer.begin_segment(began, ServerIdentity::default());
    let at = |second: usize| began + SignedDuration::from_secs(second as i64);
    let mut most_ms = 0_f64;
    let mut cpu_ms = 0.0;
    for (second, sample) in samples.iter().enumerate() {
        let sample = match only {
            None => sample.clone(),
            Some((part, source)) => alone(sample, part, source),
        };
        let before = cpu_time_ms();
        writer.write_sample(RecordedSample { at: at(second), segment, sample }).expect("it is written");
        most_ms = most_ms.max(cpu_time_ms() - before);
        cpu_ms += cpu_time_ms() - before;
    }
    drop(writer);
    let seconds = samples.len() as f64;
    let recording = Recording::open(&path).expect("it opens");
    let (from, to) = (at(samples.len().saturating_sub(120)), at(samples.len()));
    let begun = Instant::now();
    let read = recording.samples(from, to).expect("it is read");
    let read_ms = begun.elapsed().as_secs_f64() * 1000.0;
    assert!(!read.is_empty());
    drop(read);
    let begun = Instant::now();
    recording.samples_without_lists(from, to).expect("it is read");
    let thin_ms = begun.elapsed().as_secs_f64() * 1000.0;
    let begun = Instant::now();
    recording.window_until(to - SignedDuration::from_secs(65), to).expect("it is read");
    let window_ms = begun.elapsed().as_secs_f64() * 1000.0;
    Measured {
        bytes_s: content_bytes(&path) / seconds,
        file_bytes_s: std::fs::metadata(&path).map_or(0.0, |file| file.len() as f64) / seconds,
        write_ms: cpu_ms / seconds,
        most_ms,
        read_ms,
        thin_ms,
        window_ms,
    }
}

/// What chunks and tables hold, without free pages; the statements and settings that are written once are left out of what
/// grows by the second.
fn content_bytes(path: &Path) -> f64 {
    let db = rusqlite::Connection::open(path).expect("it opens");
    db.query_row(
        "SELECT (SELECT sum(length(data)) FROM chunks) + coalesce((SELECT sum(length(data)) FROM samples
             WHERE chunk NOT IN (SELECT id FROM chunks)), 0) / 10 + 100 * (SELECT count(*) FROM minutes)
             + 60 * (SELECT count(*) FROM costs)",
        [],
        |row| row.get(0),
    )
    .expect("it is read")
}

fn cpu_time_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1000.0 + time.tv_nsec as f64 / 1e6
}

/// A sample with one source alone.
fn alone(sample: &Sample, part: &str, source: &str) -> Sample {
    let whole = serde_json::to_value(sample).expect("a sample is JSON");
    let one = serde_json::json!({ "at_s": sample.at_s, part: { source: whole[part][source] } });
    serde_json::from_value(one).expect("it is a sample")
}

/// A server that goes on as it did.
struct Server {
    chance: fastrand::Rng,
    /// The latest sample as JSON, without its threads.
    now: Value,
    first: Value,
    last: Value,
    connections: Vec<ServerThread>,
    busy: usize,
    digests: Vec<String>,
    threads: Vec<ThreadStat>,
}

impl Server {
    fn new(first: &Value, last: &Value, connections: usize, busy: usize) -> Self {
        let sample: Sample = serde_json::from_value(last.clone()).expect("it is a sample");
        let listed = sample.server.threads.value().cloned().unwrap_or_default();
        let mut threads: Vec<ServerThread> =
            listed.into_iter().filter(|thread| !thread.is_connection).collect();
        let mut chance = fastrand::Rng::with_seed(7);
        for number in 0..connections as u64 {
            threads.push(ServerThread {
                internal_id: Some(100 + number),
                connection_id: Some(60 + number),
                thread_os_id: Some(21_000 + number),
                name: "thread/sql/one_connection".into(),
                is_connection: true,
                user: "app".into(),
                host: format!("10.0.{}.{}", number % 3, number % 16),
                schema: "sbtest".into(),
                command: "Sleep".into(),
                time_s: f64::from(chance.u32(0..3000)),
                ..ServerThread::default()
            });
        }
        let stats = sample.host.threads.value().cloned().unwrap_or_default();
        let mut stats: Vec<ThreadStat> =
            stats.into_iter().filter(|thread| thread.name != "connection").collect();
        stats.extend((0..connections as u32).map(|number| ThreadStat {
            tid: 21_000 + number,
            name: "connection".into(),
            state: "S".into(),
            user_us: chance.u64(0..9_000) * 10_000,
            system_us: chance.u64(0..900) * 10_000,
            ran_ns: chance.u64(0..99_000_000_000),
            run_queue_ns: chance.u64(0..99_000_000_000),
            last_cpu: Some(chance.u32(0..96)),
        }));
        let digests = sample.server.digests.value().map_or(Vec::new(), |digests| {
            digests.iter().map(|digest| digest.text.replace("EXECUTE ", "")).collect()
        });
        Self {
            chance,
            now: first.clone(),
            first: first.clone(),
            last: last.clone(),
            connections: threads,
            busy,
            digests,
            threads: stats,
        }
    }

    /// The sample of the next second.
    fn sample(&mut self, second: usize) -> Sample {
        let seconds = self.last["at_s"].as_f64().unwrap_or(10.0) - self.first["at_s"].as_f64().unwrap_or(0.0);
        for part in ["server", "host"] {
            let Value::Object(sources) = &mut self.now[part] else { continue };
            for (source, reading) in sources {
                let (first, last) = (&self.first[part][source], &self.last[part][source]);
                let reread = ["available", "value"];
                let pick = |value: &'_ Value| value[reread[0]][reread[1]].clone();
                if reading.get("available").is_none() && last.get("available").is_some() {
                    *reading = last.clone();
                }
                if let Some(value) = reading.get_mut("available") {
                    grow(&mut value["value"], &pick(first), &pick(last), seconds, &mut self.chance);
                }
            }
        }
        let mut sample: Sample = serde_json::from_value(self.now.clone()).expect("it is a sample");
        let at_s = second as f64 + self.chance.f64() * 0.002;
        sample.at_s = at_s;
        let mut answered = at_s;
        let mut chance = self.chance.clone();
        let mut took = || {
            let took_ms = 0.3 + chance.f64();
            answered += took_ms / 1000.0;
            (answered, took_ms)
        };
        let (connections, transactions) = self.connections();
        let (answer_s, took_ms) = took();
        sample.server.threads = Reading::Available { at_s: answer_s, took_ms, value: connections };
        sample.server.transactions = Reading::Available { at_s: answer_s, took_ms, value: transactions };
        let mut value = serde_json::to_value(&sample).expect("a sample is JSON");
        for part in ["server", "host"] {
            let Value::Object(sources) = &mut value[part] else { continue };
            for (source, reading) in sources {
                let name = format!("{part}.{source}");
                let every_s =
                    EVERY_S.iter().find(|(known, _)| *known == name).map_or(1, |(_, every_s)| *every_s);
                if !second.is_multiple_of(every_s) {
                    *reading = Value::String("not_asked".into());
                } else if let Some(answer) = reading.get_mut("available") {
                    let (answer_s, took_ms) = took();
                    answer["at_s"] = answer_s.into();
                    answer["took_ms"] = took_ms.into();
                }
            }
        }
        self.chance = chance;
        let mut sample: Sample = serde_json::from_value(value).expect("it is a sample");
        // The busy connections are the last ones, as in the list of the server's threads.
        let idle = self.threads.len().saturating_sub(self.busy);
        for thread in self.threads.iter_mut().skip(idle) {
            if self.chance.u8(0..10) < 9 {
                let ran = self.chance.u64(1_000_000..9_000_000);
                thread.ran_ns += ran;
                thread.run_queue_ns += self.chance.u64(500_000..20_000_000);
                thread.user_us += if self.chance.u64(0..10_000_000) < ran { 10_000 } else { 0 };
            }
        }
        if let Reading::Available { value, .. } = &mut sample.host.threads {
            value.clone_from(&self.threads);
        }
        if let Reading::Available { value, .. } = &mut sample.server.variables {
            *value =
                NamedValues::from_iter(value.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        sample
    }

    fn connections(&mut self) -> (Vec<ServerThread>, Vec<Transaction>) {
        let mut transactions = Vec::new();
        let chance = &mut self.chance;
        let of_busy = self.connections.len() - self.busy;
        for (number, thread) in self.connections.iter_mut().enumerate() {
            if number < of_busy {
                thread.time_s += 1.0;
                continue;
            }
            let is_at_work = chance.u8(0..10) < 6;
            thread.time_s = 0.0;
            thread.command = if is_at_work { "Execute" } else { "Sleep" }.into();
            thread.state = match (is_at_work, chance.u8(0..10)) {
                (false, _) => "",
                (true, 0..6) => "executing",
                (true, 6..8) => "waiting for handler commit",
                (true, _) => "statistics",
            }
            .into();
            let digest = chance.choice(&self.digests).cloned().unwrap_or_default();
            thread.statement =
                is_at_work.then(|| digest.replacen('?', &chance.u32(0..100_000).to_string(), 1));
            thread.digest_text = is_at_work.then_some(digest);
            if is_at_work {
                transactions.push(Transaction {
                    id: (421_000_000_000 + number as u64 * 1096).to_string(),
                    connection_id: thread.connection_id,
                    state: "RUNNING".into(),
                    statement: thread.statement.clone(),
                    rows_locked: chance.u64(0..4),
                    rows_modified: chance.u64(0..4),
                    ..Transaction::default()
                });
            }
        }
        (self.connections.clone(), transactions)
    }
}

/// Lets every number that grew between two values go on growing, give or take a tenth.
fn grow(value: &mut Value, first: &Value, last: &Value, seconds: f64, chance: &mut fastrand::Rng) {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse::<f64>().ok().filter(|number| number.fract() == 0.0),
        other => other.as_f64(),
    };
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                grow(field, &first[name], &last[name], seconds, chance);
            }
        }
        Value::Array(rows) => {
            for (place, row) in rows.iter_mut().enumerate() {
                grow(row, &first[place], &last[place], seconds, chance);
            }
        }
        _ => {
            let (Some(now), Some(first), Some(last)) = (number(value), number(first), number(last)) else {
                return;
            };
            let per_s = (last - first) / seconds;
            if per_s <= 0.0 {
                return;
            }
            let step = per_s * (0.9 + 0.2 * chance.f64());
            // What grows by less than one a second does so now and then.
            let step = if chance.f64() < step.fract() { step.ceil() } else { step.floor() };
            *value = match &*value {
                Value::String(_) => Value::String(format!("{:.0}", now + step)),
                whole if whole.is_u64() => ((now + step) as u64).into(),
                _ => (now + step).into(),
            };
        }
    }
}
