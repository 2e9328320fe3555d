//! Moments of made-up servers, for the tests of views and drawing.

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::host::{
    CpuTimes, DiskStat, EffectiveCpus, MemoryStat, Pressure, ProcessStat, Quota, SrvCpuUsage, ThreadStat,
    Throttling,
};
use spindoctor_model::mysql::{
    MetadataLock, NamedValues, ReplicaChannel, ServerThread, StatementDigest, Transaction, WaitSummary,
};
use spindoctor_model::{
    EventHead, Gap, Reading, RecordedSample, Sample, Segment, ServerIdentity, ServerVersion, Stall,
    StallKind, Unavailable, Window,
};
use spindoctor_record::Stretch;

use super::feed::Extent;
use super::moment::Moment;
use super::point::Point;
use spindoctor_record::span::Ends;
use spindoctor_sessions::Reader;

/// Seconds of a moment's window.
const SECONDS: i64 = 25;
/// Seconds of its charts.
const CHARTED: i64 = 300;
/// Text that would steer a terminal.
pub const HOSTILE: &str = "\u{1b}]2;owned\u{7}\u{202e}\u{9b}2J";

fn read<T>(at_s: f64, value: T) -> Reading<T> {
    Reading::Available { at_s, took_ms: 1.0, value }
}

/// The last instant of every moment here.
pub fn now() -> Timestamp {
    "2026-11-22T14:03:20Z".parse().expect("a time that is written here")
}

/// How a server does at an instant, seconds before now (negative).
#[derive(Clone, Copy)]
struct Load {
    queries: f64,
    cpus: f64,
    running: f64,
}

/// Counters that grew as the load was, from five minutes ago on.
fn counters(at_s: i64, load: impl Fn(i64) -> Load) -> (f64, f64) {
    (-CHARTED..=at_s)
        .map(load)
        .fold((0.0, 0.0), |(queries, cpu_s), load| (queries + load.queries, cpu_s + load.cpus))
}

fn session(id: u64, command: &str, time_s: f64, state: &str, statement: &str) -> ServerThread {
    ServerThread {
        internal_id: Some(id + 40),
        connection_id: Some(id),
        thread_os_id: Some(id + 4_000),
        name: "thread/sql/one_connection".to_owned(),
        is_connection: true,
        user: "app".to_owned(),
        host: "10.0.3.7".to_owned(),
        schema: "shop".to_owned(),
        command: command.to_owned(),
        time_s,
        state: state.to_owned(),
        statement: (!statement.is_empty()).then(|| statement.to_owned()),
        ..ServerThread::default()
    }
}

fn sample(second: i64, at_s: f64, load: impl Fn(i64) -> Load + Copy, threads: &[ServerThread]) -> Sample {
    let (queries, cpu_s) = counters(second, load);
    let here = load(second);
    let lived = (second + CHARTED) as f64;
    let us = |seconds: f64| (seconds * 1e6) as u64;
    let mut sample = Sample { at_s, ..Sample::default() };
    let server = &mut sample.server;
    server.status = read(
        at_s,
        NamedValues::from_iter([
            ("Questions", format!("{queries:.0}")),
            ("Com_update", format!("{:.0}", queries / 15.0)),
            ("Threads_running", format!("{:.0}", here.running + 1.0)),
            ("Threads_connected", threads.len().to_string()),
        ]),
    );
    server.threads = read(at_s, threads.to_vec());
    server.transactions = read(at_s, Vec::new());
    server.row_lock_waits = read(at_s, Vec::new());
    server.metadata_locks = read(at_s, Vec::new());
    server.replication = read(at_s, Vec::new());
    if second % 10 == 0 {
        let digest = |digest: &str, text: &str, share: f64, mean_ns: f64, examined: f64, sent: f64| {
            let executions = queries * share;
            StatementDigest {
                schema: "shop".to_owned(),
                digest: digest.to_owned(),
                text: text.to_owned(),
                first_seen_s: Some(9_000.0),
                executions: executions as u64,
                total_ns: (executions * mean_ns) as u64,
                lock_ns: (executions * mean_ns * 0.02) as u64,
                rows_examined: (executions * examined) as u64,
                rows_sent: (executions * sent) as u64,
                ..StatementDigest::default()
            }
        };
        server.digests = read(
            at_s,
            vec![
                digest("a1", "SELECT `c` FROM `stock` WHERE `id` = ?", 0.7, 120e3, 1.0, 1.0),
                digest(
                    "b2",
                    "SELECT SUM ( `k` ) FROM `orders` WHERE `customer` = ? AND `placed` > ?",
                    0.06,
                    9e6,
                    41_000.0,
                    1.0,
                ),
                digest("c3", "UPDATE `stock` SET `k` = `k` + ? WHERE `id` = ?", 0.07, 250e3, 1.0, 0.0),
                digest(
                    "d4",
                    "INSERT INTO `orders` ( `customer` , `placed` ) VALUES (...)",
                    0.06,
                    300e3,
                    0.0,
                    0.0,
                ),
                digest("e5", "COMMIT", 0.07, 900e3, 0.0, 0.0),
            ],
        );
        let wait = |event: &str, per_s: f64, each_ns: f64| WaitSummary {
            event: event.to_owned(),
            count: (lived * per_s) as u64,
            total_ns: (lived * per_s * each_ns) as u64,
        };
        server.waits = read(
            at_s,
            vec![
                wait("idle", 6_000.0, 2e6),
                wait("wait/io/table/sql/handler", 9_000.0, 60e3),
                wait("wait/io/file/innodb/innodb_log_file", 800.0, 400e3),
                wait("wait/io/file/innodb/innodb_data_file", 100.0, 900e3),
                wait("wait/io/file/sql/binlog", 400.0, 90e3),
            ],
        );
    }
    let quota =
        Quota { cpus: 2.0, quota_us: 200_000, period_us: 100_000, cgroup: "/kubepods/pod7/mysql".to_owned() };
    let host = &mut sample.host;
    host.effective_cpus = read(
        at_s,
        EffectiveCpus {
            cpus: 2.0,
            online: 8,
            quota: Some(quota),
            cgroup: "/kubepods/pod7/mysql".to_owned(),
            cgroup_version: 2,
            ..EffectiveCpus::default()
        },
    );
    host.throttling = read(
        at_s,
        Throttling {
            periods: us(lived) / 100_000,
            throttled_periods: us(lived) / 250_000,
            throttled_us: us(lived * 0.4),
            ..Throttling::default()
        },
    );
    host.srv_cpu_usage = read(at_s, SrvCpuUsage { n_cpu: 8, ..SrvCpuUsage::default() });
    host.process = read(
        at_s,
        ProcessStat {
            name: "mysqld".to_owned(),
            state: "S".to_owned(),
            user_us: us(cpu_s * 0.85),
            system_us: us(cpu_s * 0.15),
            threads: 64,
            resident_bytes: 3 << 30,
            ..ProcessStat::default()
        },
    );
    host.cpu_times = read(
        at_s,
        CpuTimes {
            user_us: us(lived * 2.0),
            system_us: us(lived * 0.5),
            idle_us: us(lived * 5.2),
            iowait_us: us(lived * 0.3),
            runnable: 3,
            context_switches: us(lived) / 50,
            ..CpuTimes::default()
        },
    );
    host.pressure = read(
        at_s,
        Pressure {
            cpu_some_us: Some(us(lived * 0.08)),
            io_some_us: Some(us(lived * 0.03)),
            memory_some_us: Some(0),
            ..Pressure::default()
        },
    );
    host.disks = read(
        at_s,
        vec![DiskStat {
            name: "nvme0n1".to_owned(),
            writes: us(lived) / 1_100,
            written_bytes: us(lived) * 12,
            write_us: us(lived * 0.18),
            busy_us: us(lived * 0.21),
            flushes: Some(us(lived) / 3_300),
            flush_us: Some(us(lived * 0.24)),
            ..DiskStat::default()
        }],
    );
    host.memory = read(
        at_s,
        MemoryStat {
            total_bytes: 16 << 30,
            available_bytes: 9 << 30,
            cached_bytes: 6 << 30,
            ..MemoryStat::default()
        },
    );
    host.threads = read(
        at_s,
        vec![ThreadStat {
            tid: 4_012,
            name: "connection".to_owned(),
            state: "R".to_owned(),
            user_us: us(cpu_s * 0.4),
            system_us: us(cpu_s * 0.05),
            ran_ns: us(cpu_s * 0.45) * 1_000,
            run_queue_ns: us(lived * 0.05) * 1_000,
            ..ThreadStat::default()
        }],
    );
    sample
}

fn moment(load: impl Fn(i64) -> Load + Copy, threads: &[ServerThread]) -> Moment {
    let server = ServerIdentity {
        version: ServerVersion::parse("9.7.4", ""),
        hostname: "db17".to_owned(),
        address: "/run/mysqld/mysqld.sock".to_owned(),
        pid: Some(4_310),
        uptime_s: Some(277_500),
        ..ServerIdentity::default()
    };
    let instant = |second: i64| now() + SignedDuration::from_secs(second);
    let samples = (-SECONDS..=0).map(|second| sample(second, (second + SECONDS) as f64, load, threads));
    let window = Window { server, start: instant(-SECONDS), samples: samples.collect(), ..Window::default() };
    // As many as run by then, give or take one, are at work in the list of each second.
    let listed = |second: i64| {
        let mut left = (load(second).running as i64 + second.rem_euclid(3) - 1).max(0);
        let mut recorded = sample(second, (second + CHARTED) as f64, load, threads);
        if let Reading::Available { value, .. } = &mut recorded.server.threads {
            value.retain(|thread| {
                left -= i64::from(thread.is_at_work());
                !thread.is_at_work() || left >= 0
            });
        }
        RecordedSample { at: instant(second), segment: 1, sample: recorded }
    };
    let mut reader = Reader::default();
    let at_work = (-CHARTED..=0).filter_map(|second| reader.read(&listed(second))).collect();
    let point = |second| Point::at(instant(second), 1, &sample(second, 0.0, load, threads));
    Moment {
        is_live: true,
        name: "/run/mysqld/mysqld.sock".to_owned(),
        extent: Some(Extent { from: instant(-CHARTED), to: now() }),
        at: Some(now()),
        window: Some(window),
        points: (-CHARTED..=0).map(point).collect(),
        at_work,
        ..Moment::default()
    }
}

fn sleepers(from: u64) -> Vec<ServerThread> {
    (from..from + 30).map(|id| session(id, "Sleep", (id * 3) as f64, "", "")).collect()
}

fn busy_load(second: i64) -> Load {
    // A little up and down, the same at every run.
    let wave = 1.0 + 0.08 * (second as f64 / 7.0).sin();
    Load { queries: 6_000.0 * wave, cpus: 1.5 * wave, running: 5.0 }
}

/// A healthy busy server.
pub fn busy() -> Moment {
    let mut threads = vec![
        session(12, "Query", 0.0, "executing", "SELECT c FROM stock WHERE id = 4711"),
        session(14, "Query", 0.0, "executing", "SELECT c FROM stock WHERE id = 815"),
        session(
            19,
            "Query",
            2.0,
            "executing",
            "SELECT SUM(k) FROM orders WHERE customer = 17 AND placed > '2026-11-01'",
        ),
        session(21, "Query", 0.0, "updating", "UPDATE stock SET k = k + 1 WHERE id = 99"),
        session(22, "Query", 0.0, "waiting for handler commit", "COMMIT"),
        session(27, "Query", 0.0, "waiting for handler commit", "COMMIT"),
    ];
    threads.extend(sleepers(100));
    moment(busy_load, &threads)
}

fn stall_load(second: i64) -> Load {
    if second < -29 { busy_load(second) } else { Load { queries: 40.0, cpus: 0.05, running: 24.0 } }
}

/// A recording, in a stall: an idle transaction blocks an ALTER TABLE, and that 22 readers.
pub fn stalled() -> Moment {
    let mut threads = vec![
        session(12, "Sleep", 61.0, "", ""),
        session(44, "Query", 29.0, "Waiting for table metadata lock", "ALTER TABLE stock ADD COLUMN z INT"),
    ];
    threads.extend((50..72).map(|id| {
        let statement = format!("SELECT c FROM stock WHERE id = {}", id * 97);
        session(id, "Query", (72 - id) as f64, "Waiting for table metadata lock", &statement)
    }));
    threads.extend(sleepers(100));
    let mut moment = moment(stall_load, &threads);
    let lock = |connection: u64, lock_type: &str, granted| MetadataLock {
        object_type: "TABLE".to_owned(),
        schema: "shop".to_owned(),
        name: "stock".to_owned(),
        lock_type: lock_type.to_owned(),
        granted,
        owner_internal_id: Some(connection + 40),
        owner_connection_id: Some(connection),
    };
    let mut locks = vec![
        lock(12, "SHARED_WRITE", true),
        lock(44, "SHARED_UPGRADABLE", true),
        lock(44, "EXCLUSIVE", false),
    ];
    locks.extend((50..72).map(|id| lock(id, "SHARED_READ", false)));
    let transaction = Transaction {
        id: "9012".to_owned(),
        connection_id: Some(12),
        state: "RUNNING".to_owned(),
        age_s: 74.0,
        rows_modified: 3,
        rows_locked: 5,
        ..Transaction::default()
    };
    // Before the stall its sessions did what those of a busy server do.
    let began = now() - SignedDuration::from_secs(29);
    moment.at_work.retain(|list| list.at >= began);
    let before = busy().at_work.into_iter().filter(|list| list.at < began);
    moment.at_work.splice(0..0, before);
    for sample in &mut moment.window.as_mut().expect("it has one").samples {
        sample.server.metadata_locks = read(sample.at_s, locks.clone());
        sample.server.transactions = read(sample.at_s, vec![transaction.clone()]);
    }
    let event =
        |id, began_s: i64, ended: Option<i64>, cause: &str, headline: &str, because: &str| EventHead {
            id,
            segment: 1,
            began: now() + SignedDuration::from_secs(began_s),
            ended: ended.map(|s| now() + SignedDuration::from_secs(s)),
            stall: Stall {
                kind: StallKind::ThroughputCollapsed,
                because: because.to_owned(),
                began_s: 0.0,
                seen_s: 0.0,
            },
            cause: (!cause.is_empty()).then(|| cause.to_owned()),
            headline: headline.to_owned(),
        };
    moment.is_live = false;
    moment.name = "incident.spindoctor".to_owned();
    moment.extent = Some(Extent {
        from: now() - SignedDuration::from_hours(26),
        to: now() + SignedDuration::from_hours(3),
    });
    let overview = (0..29 * 60_i64).map(|minute| {
        let at = now() - SignedDuration::from_hours(26) + SignedDuration::from_mins(minute);
        (at, 3_000.0 + 2_800.0 * (minute as f64 / 240.0).sin())
    });
    moment.overview = overview.collect();
    moment.events = vec![
        event(
            1,
            -40_000,
            Some(-39_998),
            "checkpoint-stall",
            "Writers wait for a checkpoint: the redo log is full",
            "the redo log is 97 % full",
        ),
        event(
            2,
            -29,
            Some(41),
            "metadata-lock-pileup",
            "Connection 12 is idle in transaction and blocks an ALTER TABLE and 22 readers",
            "0.6 % of the statements of before end, while 24 threads run",
        ),
    ];
    moment
}

/// The same recording where its segment broke off in the stall, and another began a minute later.
pub fn broken_off() -> Moment {
    let mut moment = stalled();
    moment.events[1].ended = None;
    moment.events[1].cause = None;
    let instant = |second: i64| now() + SignedDuration::from_secs(second);
    let segment = |id, began| Segment { id, began: instant(began), ..Segment::default() };
    let segments = [segment(1, -90_000), segment(2, 101)];
    let stretch = Stretch { segment: 1, first: instant(-90_000), last: instant(41) };
    moment.ends = Ends::of_segments(&segments, &[stretch]);
    moment
}

/// A replica whose applier stopped, and a server whose every name would steer a terminal.
pub fn hostile() -> Moment {
    let mut thread = session(12, "Query", 7.0, HOSTILE, &format!("SELECT '{HOSTILE}' FROM `日本語` -- 🐬"));
    thread.user = format!("adm{HOSTILE}");
    thread.schema = HOSTILE.to_owned();
    let mut moment = moment(busy_load, &[thread]);
    let window = moment.window.as_mut().expect("it has one");
    window.server.hostname = format!("db{HOSTILE}");
    for sample in &mut window.samples {
        let channel = ReplicaChannel {
            source_host: format!("source{HOSTILE}"),
            source_port: 3_306,
            receiver_running: "Yes".to_owned(),
            applier_running: "No".to_owned(),
            applier_error: format!("Error 'Duplicate entry {HOSTILE}' on query"),
            ..ReplicaChannel::default()
        };
        sample.server.replication = read(sample.at_s, vec![channel]);
        if let Reading::Available { value: digests, .. } = &mut sample.server.digests {
            digests.iter_mut().for_each(|digest| digest.text = format!("SELECT {HOSTILE}"));
        }
        if let Reading::Available { value: waits, .. } = &mut sample.server.waits {
            waits.iter_mut().for_each(|wait| wait.event = format!("wait/{HOSTILE}"));
        }
    }
    moment.events = vec![EventHead { id: 1, headline: HOSTILE.to_owned(), ..EventHead::default() }];
    moment.trouble = Some(format!("no answer {HOSTILE}"));
    moment
}

/// MariaDB without performance_schema, on another host: half of the sources say nothing.
pub fn remote() -> Moment {
    let mut moment = busy();
    let window = moment.window.as_mut().expect("it has one");
    window.server.version = ServerVersion::parse("10.11.19-MariaDB", "");
    window.server.pid = None;
    let no_host = Unavailable::because("--remote was given")
        .unlock("run spindoctor on the server's host, without --remote");
    window.server.no_pid = Some(no_host.clone());
    let off = Unavailable::because("performance_schema is OFF")
        .unlock("set performance_schema=ON in my.cnf and restart");
    for sample in &mut window.samples {
        sample.host = spindoctor_model::HostSample::unavailable(&no_host);
        sample.server.digests = Reading::Unavailable(off.clone());
        sample.server.waits = Reading::Unavailable(off.clone());
    }
    moment.points.iter_mut().for_each(|point| point.cpu_s = None);
    moment
}

/// A server that stopped to answer four seconds ago.
pub fn silent() -> Moment {
    let mut moment = busy();
    let window = moment.window.as_mut().expect("it has one");
    for sample in window.samples.iter_mut().rev().take(4) {
        sample.server = spindoctor_model::ServerSample::default();
        sample.server.status = Reading::Unavailable(Unavailable::because("no answer in 2.0 s"));
    }
    moment.trouble = Some("no answer in 2.0 s".to_owned());
    moment
}

/// A time of which a recording has no samples.
pub fn gap() -> Moment {
    let mut moment = stalled();
    moment.events.clear();
    moment.window = None;
    moment.points.clear();
    moment.gap = Some(Gap {
        from: now() - SignedDuration::from_mins(2),
        to: Some(now() + SignedDuration::from_mins(3)),
        because: "the server was restarted".to_owned(),
    });
    moment
}

/// Every one of them, with its name.
pub fn all() -> Vec<(&'static str, Moment)> {
    vec![
        ("busy", busy()),
        ("stalled", stalled()),
        ("broken off", broken_off()),
        ("hostile", hostile()),
        ("remote", remote()),
        ("silent", silent()),
        ("gap", gap()),
        ("nothing yet", Moment { is_live: true, ..Moment::default() }),
    ]
}
