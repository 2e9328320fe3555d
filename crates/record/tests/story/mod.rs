//! The content of the tests' recordings: a small server, second by second. The recording of version 1 holds this story,
//! so it is not changed (but for the threads of its profiles, which that recording lacks): a new version gets its own.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use spindoctor_model::mysql::{NamedValues, ServerThread, StatementDigest, Transaction};
use spindoctor_model::stack::{Frame, Observation, ProfiledThread, SnapshotCost, Stack};
use spindoctor_model::wait_graph::{WaitEdge, WaitGraph, WaitingThread};
use spindoctor_model::{
    Event, EventHead, Gap, Probe, Profile, Reading, RecordedGraph, RecordedSample, Sample, ServerIdentity,
    Stall, StallKind,
};

/// Samples of the first segment, one a second.
pub(crate) const FIRST_S: u64 = 150;
/// Samples of the second segment.
pub(crate) const SECOND_S: u64 = 40;
/// When the second segment begins, seconds from the first.
pub(crate) const RESTART_S: u64 = 190;

/// When the first segment begins.
pub(crate) fn began() -> Timestamp {
    "2026-01-05T10:00:20Z".parse().unwrap()
}

/// So many seconds after [`began`].
pub(crate) fn after(seconds: u64) -> Timestamp {
    began() + SignedDuration::from_secs(seconds as i64)
}

pub(crate) fn server() -> ServerIdentity {
    ServerIdentity {
        version_text: "8.0.36".into(),
        hostname: "db17".into(),
        address: "/run/mysqld/mysqld.sock".into(),
        pid: Some(4310),
        ..ServerIdentity::default()
    }
}

fn available<T>(at_s: f64, value: T) -> Reading<T> {
    Reading::Available { at_s, took_ms: 0.5, value }
}

/// The variables of a second.
pub(crate) fn variables(second: u64) -> NamedValues {
    let io = if second < 90 { "200" } else { "4000" };
    let mut variables = NamedValues::from_iter([("innodb_io_capacity", io), ("version", "8.0.36")]);
    if second < 90 {
        variables.insert("old_passwords", "0");
    }
    variables
}

/// The sample of a second, with its literals.
pub(crate) fn sample(segment: u64, second: u64) -> RecordedSample {
    let at_s = second as f64 + 0.125;
    let mut sample = Sample { at_s, ..Sample::default() };
    let number = |number: u64| number.to_string();
    sample.server.status = available(
        at_s,
        NamedValues::from_iter([
            ("Uptime", number(5000 + second)),
            ("Questions", number(1_000_000 + second * 997 + second % 7)),
            ("Handler_commit", number(90_000 + second * 31)),
            ("Threads_running", number(4 + second % 5)),
            ("Threads_connected", number(12)),
            ("Innodb_row_lock_time_avg", "0".to_owned()),
            ("Ssl_cipher", String::new()),
        ]),
    );
    if second.is_multiple_of(90) {
        sample.server.variables = available(at_s, variables(second));
    }
    let of_id = |id: u64| ServerThread {
        connection_id: Some(id),
        internal_id: Some(id + 40),
        is_connection: true,
        user: "app".into(),
        command: if id == 8 { "Query" } else { "Sleep" }.into(),
        time_s: second as f64,
        statement: (id == 8).then(|| format!("SELECT c FROM t WHERE id = {}", second * 7)),
        digest_text: (id == 8).then(|| "SELECT `c` FROM `t` WHERE `id` = ?".to_owned()),
        last_statement: (id == 9).then(|| format!("UPDATE t SET c = 'secret {second}'")),
        ..ServerThread::default()
    };
    // In the order of a server that lists the busy first; connection 10 comes and goes.
    let connections = [8, 7, 9, 10].into_iter().filter(|id| *id != 10 || second % 20 < 10);
    sample.server.threads = available(at_s, connections.map(of_id).collect());
    sample.server.transactions = available(
        at_s,
        vec![Transaction {
            id: "4711".into(),
            connection_id: Some(9),
            age_s: second as f64,
            statement: (second.is_multiple_of(2)).then(|| "DELETE FROM t WHERE c = 'secret'".to_owned()),
            ..Transaction::default()
        }],
    );
    if second.is_multiple_of(10) {
        let digest = |name: &str, text: &str, executions| StatementDigest {
            schema: "shop".into(),
            digest: name.into(),
            text: text.into(),
            executions,
            ..StatementDigest::default()
        };
        sample.server.digests = available(
            at_s,
            vec![
                digest("d1", "SELECT `c` FROM `t` WHERE `id` = ?", second * 900),
                digest("d2", "UPDATE `t` SET `c` = ?", second * 30),
            ],
        );
    }
    if second == 0 {
        let cpu = json!({ "name": "Fast CPU", "vendor": "GenuineIntel", "virtualised": true });
        sample.host.cpu = available(at_s, serde_json::from_value(cpu).unwrap());
    }
    let base = if segment == 1 { began() } else { after(RESTART_S) };
    RecordedSample { at: base + SignedDuration::from_millis((at_s * 1000.0) as i64), segment, sample }
}

/// What the reader gives for a sample that was written with its literals.
pub(crate) fn expected(segment: u64, second: u64) -> RecordedSample {
    let mut recorded = sample(segment, second);
    if let Reading::Available { value, .. } = &mut recorded.sample.server.threads {
        value.sort_by_key(|thread| thread.connection_id);
    }
    recorded
}

/// What the reader gives for a sample that was written without its literals.
pub(crate) fn expected_without_literals(segment: u64, second: u64) -> RecordedSample {
    let mut recorded = expected(segment, second);
    if let Reading::Available { value, .. } = &mut recorded.sample.server.threads {
        for thread in value {
            if thread.statement.is_some() {
                thread.statement.clone_from(&thread.digest_text);
            }
            thread.last_statement = thread.last_statement.as_ref().map(|_| "UPDATE t SET c = ?".to_owned());
        }
    }
    if let Reading::Available { value, .. } = &mut recorded.sample.server.transactions {
        for transaction in value {
            transaction.statement =
                transaction.statement.as_ref().map(|_| "DELETE FROM t WHERE c = ?".to_owned());
        }
    }
    recorded
}

/// The server was restarted between the segments.
pub(crate) fn gap() -> Gap {
    Gap {
        from: sample(1, FIRST_S - 1).at,
        to: Some(sample(2, 0).at),
        because: "the server was restarted".into(),
    }
}

fn profile(snapshots: u32) -> Profile {
    let frame = |name: &str| Frame { name: name.into(), ..Frame::default() };
    Profile {
        frames: vec![frame("futex_wait"), frame("row_lock"), frame("main")],
        stacks: vec![
            Stack { frames: vec![0, 1, 2], ..Stack::default() },
            Stack { frames: vec![2], ..Stack::default() },
        ],
        threads: vec![ProfiledThread::default(); 3],
        snapshots: vec![SnapshotCost::default(); snapshots as usize],
        observations: (0..snapshots * 3)
            .map(|at| Observation {
                snapshot: at / 3,
                thread: at % 3,
                stack: u32::from(at % 3 == 2),
                ..Observation::default()
            })
            .collect(),
        seconds: f64::from(snapshots) / 10.0,
        hz: 10.0,
        start: after(90),
        ..Profile::default()
    }
}

/// The event of the first segment.
pub(crate) fn event(id: u64) -> Event {
    let diagnosis = json!({
        "schema": "spindoctor.diagnosis/1",
        "server": { "flavor": "mysql", "version": "8.0.36", "hostname": "db17", "address": "", "pid": 4310,
                    "uptime_s": 5100, "threads": 40 },
        "host": { "effective_cpus": 2.0, "online_cpus": 2, "server_believes_cpus": 2, "quota": null,
                  "pause_latency_ns": null, "pause_latency_cycles": null, "cpu": null, "numa_nodes": null,
                  "unavailable": null },
        "window": { "start": "2026-01-05T10:01:30Z", "seconds": 20.0 },
        "cost": {},
        "findings": [{
            "cause": "row-lock-pileup", "severity": "critical", "score": 0.9,
            "headline": "39 sessions wait for one row", "why": "One transaction holds it.",
            "evidence": [{ "reading": "waiting", "value": 39.0, "unit": "", "source": "INNODB_TRX", "expected": "< 4" }],
            "remedies": [{ "statement": "KILL 9", "why": "It holds the row.", "dynamic": true, "risk": "", "undo": "" }],
            "references": [] }],
        "clear": ["cpu-throttled"], "not_examined": [] });
    let thread = |connection: u64, statement: &str| WaitingThread {
        connection_id: Some(connection),
        statement: Some(statement.into()),
        ..WaitingThread::default()
    };
    let graph = WaitGraph {
        threads: vec![thread(8, "UPDATE t SET c = ?"), thread(9, "DELETE FROM t WHERE c = ?")],
        edges: vec![WaitEdge {
            waiter: 0,
            holder: Some(1),
            object: "shop.t PRIMARY".into(),
            waited_s: Some(3.25),
            ..WaitEdge::default()
        }],
        ..WaitGraph::default()
    };
    Event {
        head: EventHead {
            id,
            segment: 1,
            began: after(100),
            ended: Some(after(103)),
            stall: Stall {
                kind: StallKind::CommitsStopped,
                because: "no commit for 1.1 s while 39 threads run".into(),
                began_s: 100.0,
                seen_s: 101.125,
            },
            cause: Some("row-lock-pileup".into()),
            headline: "39 sessions wait for one row".into(),
        },
        diagnosis: Some(serde_json::from_value(diagnosis).unwrap()),
        before: Some(profile(100)),
        during: Some(profile(30)),
        graphs: vec![
            RecordedGraph { at: after(101), graph: graph.clone() },
            RecordedGraph { at: after(102), graph },
        ],
        probes: (0..130)
            .map(|at| Probe {
                at_s: 90.0 + f64::from(at) / 10.0,
                took_ms: 0.25,
                answered: true,
                threads_running: Some(4),
                commits: Some(90_000),
                ..Probe::default()
            })
            .collect(),
    }
}
