//! Incidents, made by hand, for the tests of every format.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::mysql::{NamedValues, ServerThread, StatementDigest};
use spindoctor_model::{
    Event, EventHead, Gap, Probe, Reading, RecordedGraph, RecordedSample, RecordedSetting, Sample, Segment,
    ServerIdentity, ServerVersion, Stall, StallKind, Unavailable, Window,
};

use super::loads::Loads;
use super::point::Point;
use super::scope::Scope;
use super::view::{Incident, Recorded};
use crate::doctor::examples;
use crate::locks::examples as locks_examples;
use spindoctor_profile::examples as stacks_examples;
use spindoctor_record::span::{Ends, Span};

/// Seconds of samples before time zero.
const BEFORE_S: i64 = 120;
/// From zero on, in the stall.
const STALL_S: (f64, f64) = (0.2, 3.3);

/// So many seconds after half past nine.
pub fn at(seconds: f64) -> Timestamp {
    let half_past_nine: Timestamp = "2026-07-01T09:30:00Z".parse().unwrap();
    let by = Duration::from_millis((seconds.abs() * 1e3).round() as u64);
    if seconds < 0.0 { half_past_nine - by } else { half_past_nine + by }
}

/// An ALTER waits for an idle client, and 200 readers wait for the ALTER.
pub fn pileup() -> Incident {
    let (scope, recorded) = recorded();
    Incident::new(scope, recorded)
}

/// Twenty calm seconds.
pub fn calm() -> Incident {
    let (_, mut recorded) = recorded();
    recorded.event = None;
    recorded.events.clear();
    let stretch = Span::new(at(-60.0), at(-40.0));
    recorded.around = None;
    recorded.stall = window(stretch);
    let extent = Span::new(at(-(BEFORE_S as f64)), at(30.0));
    let scope = Scope::of_stretch(stretch, extent).unwrap();
    recorded.loads = loads(scope);
    Incident::new(scope, recorded)
}

/// A stretch with two events, a gap, and changed settings in it.
pub fn stretch() -> Incident {
    let (_, mut recorded) = recorded();
    recorded.events.insert(
        0,
        EventHead {
            id: 16,
            segment: 1,
            began: at(-71.0),
            ended: Some(at(-70.2)),
            stall: Stall {
                kind: StallKind::ProbeSlow,
                because: "the probe took 612 ms, 40 times what it does".to_owned(),
                ..Stall::default()
            },
            cause: Some("commit-sync-bound".to_owned()),
            headline: "Commits wait 580 ms for fsync".to_owned(),
        },
    );
    recorded.gaps.push(Gap {
        from: at(-100.0),
        to: Some(at(-92.0)),
        because: "the server was restarted".to_owned(),
    });
    let extent = Span::new(at(-(BEFORE_S as f64)), at(30.0));
    let scope = Scope::of_stretch(Span::new(at(-110.0), at(25.0)), extent).unwrap();
    recorded.loads = loads(scope);
    Incident::new(scope, recorded)
}

/// Clients that chose their names and statements to attack the reader.
pub fn hostile() -> Incident {
    const NASTY: &str = "\u{1b}]0;owned\u{7}</style><script>alert(1)</script>\u{202e}<img src=x>";
    let (scope, mut recorded) = recorded();
    for setting in &mut recorded.settings {
        setting.value = setting.value.as_ref().map(|value| format!("{value}{NASTY}"));
    }
    for head in &mut recorded.events {
        head.stall.because = NASTY.to_owned();
    }
    recorded.gaps.push(Gap { from: at(1.0), to: None, because: NASTY.to_owned() });
    if let Some(event) = &mut recorded.event {
        event.head.stall.because = NASTY.to_owned();
        event.diagnosis = Some(examples::hostile());
        event.during = Some(stacks_examples::hostile());
        event.graphs = vec![RecordedGraph { at: at(1.0), graph: locks_examples::hostile().graph }];
    }
    let mut nasty = sample(2);
    if let Reading::Available { value, .. } = &mut nasty.sample.server.threads {
        for thread in value {
            thread.state = format!("Waiting for {NASTY}");
            thread.digest_text = Some(NASTY.to_owned());
        }
    }
    recorded.loads.add(scope, &nasty);
    for window in [&mut recorded.stall, &mut recorded.around].into_iter().flatten() {
        window.server.hostname = NASTY.to_owned();
        for sample in &mut window.samples {
            sample.server.transactions = Reading::Unavailable(Unavailable::because(NASTY).unlock(NASTY));
        }
    }
    Incident::new(scope, recorded)
}

/// What was read of the recording for [`pileup`].
pub fn recorded() -> (Scope, Recorded) {
    let head = EventHead {
        id: 17,
        segment: 1,
        began: at(STALL_S.0),
        ended: Some(at(STALL_S.1)),
        stall: Stall {
            kind: StallKind::CommitsStopped,
            because: "no commit for 1.1 s while 212 threads run".to_owned(),
            began_s: BEFORE_S as f64 + STALL_S.0,
            seen_s: BEFORE_S as f64 + 1.3,
        },
        cause: Some("metadata-lock-pileup".to_owned()),
        headline: "201 connections wait for ALTER TABLE on sbtest.sbtest1".to_owned(),
    };
    let mut diagnosis = examples::suffering();
    diagnosis.findings.remove(0);
    diagnosis.window.start = at(0.0);
    diagnosis.window.seconds = 4.0;
    let event = Event {
        head: head.clone(),
        diagnosis: Some(diagnosis),
        before: Some(stacks_examples::calmer()),
        during: Some(stacks_examples::busy()),
        graphs: vec![
            RecordedGraph { at: at(0.9), graph: locks_examples::two_roots().graph },
            RecordedGraph { at: at(2.4), graph: locks_examples::chain().graph },
            RecordedGraph { at: at(3.0), graph: locks_examples::two_roots().graph },
        ],
        probes: (-100..63).map(|tenth| probe(f64::from(tenth) / 10.0)).collect(),
    };
    let segments = vec![Segment {
        id: 1,
        began: at(-(BEFORE_S as f64)),
        server: server(),
        written_by: "0.1.0".to_owned(),
    }];
    let extent = Span::new(at(-(BEFORE_S as f64)), at(30.0));
    let events = vec![head.clone()];
    let ends = Ends::of_segments(&segments, &[]);
    let scope = Scope::of_event(&head, &events, &segments, &ends, extent);
    let points = (-BEFORE_S..=30).map(|second| Point::of_sample(&sample(second))).collect();
    let recorded = Recorded {
        segments,
        gaps: Vec::new(),
        events,
        ends,
        event: Some(event),
        points,
        loads: loads(scope),
        calm: scope.calm.and_then(window),
        stall: window(Span::new(at(-1.0), at(5.0))),
        around: window(Span::new(at(-60.0), at(30.0))),
        settings: settings(),
        changes: Vec::new(),
    };
    (scope, recorded)
}

/// Who was at work, of all samples.
fn loads(scope: Scope) -> Loads {
    let mut loads = Loads::default();
    (-BEFORE_S..=30).for_each(|second| loads.add(scope, &sample(second)));
    loads
}

fn settings() -> Vec<RecordedSetting> {
    let set = |seconds: f64, name: &str, value: &str| RecordedSetting {
        at: at(seconds),
        name: name.to_owned(),
        value: Some(value.to_owned()),
    };
    let began = -(BEFORE_S as f64);
    vec![
        set(began, "innodb_buffer_pool_size", "137438953472"),
        set(began, "innodb_redo_log_capacity", "104857600"),
        set(began, "innodb_flush_log_at_trx_commit", "1"),
        set(began, "sync_binlog", "1"),
        set(began, "max_connections", "1000"),
        set(began, "lock_wait_timeout", "31536000"),
        set(began, "gtid_executed", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"),
        set(-45.0, "gtid_executed", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-90"),
        set(-32.0, "max_connections", "4000"),
    ]
}

fn server() -> ServerIdentity {
    ServerIdentity {
        version: ServerVersion::parse("9.7.4", ""),
        version_text: "9.7.4".to_owned(),
        hostname: "db17".to_owned(),
        address: "/run/mysqld/mysqld.sock".to_owned(),
        pid: Some(4310),
        uptime_s: Some(812),
        ..ServerIdentity::default()
    }
}

/// How much of the second that ends here was lost to the stall, 0 to 1.
fn lost(second: f64, length: f64) -> f64 {
    ((second.min(STALL_S.1) - (second - length).max(STALL_S.0)) / length).clamp(0.0, 1.0)
}

/// A counter that grows by so many a second, and hardly in the stall.
fn counter(seconds: f64, per_s: f64) -> u64 {
    let stalled = (seconds.min(STALL_S.1) - STALL_S.0).max(0.0);
    let worked_s = seconds + BEFORE_S as f64 - 0.97 * stalled;
    let grown = worked_s + (worked_s * 1.7).sin() * 0.12;
    1_000_000 + (grown * per_s) as u64
}

fn running(seconds: f64) -> u64 {
    let in_stall = seconds > STALL_S.0 && seconds < STALL_S.1;
    let calm = 11.0 + 4.0 * (seconds * 2.3).sin();
    (if in_stall { calm + (seconds - STALL_S.0) * 65.0 } else { calm }) as u64
}

fn probe(seconds: f64) -> Probe {
    let in_stall = seconds > STALL_S.0 && seconds < STALL_S.1;
    Probe {
        at_s: seconds + BEFORE_S as f64,
        took_ms: if in_stall {
            14.0 + 6.0 * (seconds * 9.0).sin()
        } else {
            0.4 + 0.1 * (seconds * 3.0).cos()
        },
        failure: None,
        answered: true,
        threads_running: Some(running(seconds)),
        threads_connected: Some(290),
        questions: Some(counter(seconds, 5_800.0)),
        commits: Some(counter(seconds, 410.0)),
        checkpoint_age_bytes: None,
    }
}

fn sample(second: i64) -> RecordedSample {
    let seconds = second as f64;
    let at_s = seconds + BEFORE_S as f64;
    let mut sample = Sample { at_s, ..Sample::default() };
    let status: NamedValues = [
        ("Questions", counter(seconds, 5_800.0)),
        ("Handler_commit", counter(seconds, 410.0)),
        ("Threads_running", running(seconds) + 1),
        ("Threads_connected", 290),
        ("Uptime", 812 + at_s as u64),
    ]
    .map(|(name, value)| (name, value.to_string()))
    .into_iter()
    .collect();
    let took_ms = 1.2 + 30.0 * lost(seconds, 1.0);
    sample.server.status = Reading::Available { at_s, took_ms, value: status };
    sample.server.waits = Reading::Unavailable(
        Unavailable::because("performance_schema is off").unlock("performance_schema = ON"),
    );
    sample.host.process = Reading::Available {
        at_s,
        took_ms: 0.1,
        value: spindoctor_model::host::ProcessStat {
            user_us: counter(seconds, 2_100_000.0),
            system_us: counter(seconds, 500_000.0),
            ..Default::default()
        },
    };
    // Those that are more than in the calm wait for the table.
    let in_stall = seconds > STALL_S.0 && seconds < STALL_S.1;
    let threads = (0..running(seconds)).map(|at| {
        let (state, statement) = match at {
            0 if in_stall => {
                ("Waiting for table metadata lock", "ALTER TABLE sbtest1 ADD INDEX (k)".to_owned())
            }
            1 | 2 => ("waiting for handler commit", "COMMIT".to_owned()),
            at if in_stall && at > 8 => {
                ("Waiting for table metadata lock", format!("SELECT c FROM sbtest1 WHERE id = {at}"))
            }
            at => ("executing", format!("SELECT c FROM sbtest1 WHERE id = {at}")),
        };
        ServerThread {
            connection_id: Some(100 + at),
            is_connection: true,
            command: "Query".to_owned(),
            state: state.to_owned(),
            statement: Some(statement),
            ..ServerThread::default()
        }
    });
    sample.server.transactions = Reading::Available { at_s, took_ms: 0.4, value: Vec::new() };
    let granted = spindoctor_model::host::EffectiveCpus { cpus: 2.0, online: 8, ..Default::default() };
    sample.host.effective_cpus = Reading::Available { at_s, took_ms: 0.1, value: granted };
    sample.server.threads = Reading::Available { at_s, took_ms: 2.0, value: threads.collect() };
    if second % 10 == 0 {
        let digest = |text: &str, per_s: f64, mean_ms: f64| {
            let executions = counter(seconds, per_s);
            StatementDigest {
                schema: "sbtest".to_owned(),
                digest: text.to_owned(),
                text: text.to_owned(),
                first_seen_s: Some(90_000.0),
                executions,
                total_ns: (executions as f64 * mean_ms * 1e6) as u64,
                ..StatementDigest::default()
            }
        };
        let value = vec![
            digest("SELECT `c` FROM `sbtest1` WHERE `id` = ?", 4_100.0, 0.3),
            digest("UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?", 410.0, 2.1),
            digest("COMMIT", 410.0, 0.9),
        ];
        sample.server.digests = Reading::Available { at_s, took_ms: 6.0, value };
    }
    RecordedSample { at: at(seconds), segment: 1, sample }
}

fn window(span: Span) -> Option<Window> {
    let recorded: Vec<RecordedSample> =
        (-BEFORE_S..=30).map(sample).filter(|sample| span.contains(sample.at)).collect();
    let first = recorded.first()?;
    let (start, begin_s) = (first.at, first.sample.at_s);
    let samples = recorded.into_iter().map(|recorded| {
        let mut sample = recorded.sample;
        sample.shift(-begin_s);
        sample
    });
    Some(Window { server: server(), start, samples: samples.collect(), ..Window::default() })
}
