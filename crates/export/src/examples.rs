//! A recorded stall, made by hand, for the tests of every format.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::diagnosis::{Cost, DiagnosedHost, DiagnosedServer, DiagnosedWindow, SCHEMA};
use spindoctor_model::host::{PauseLatency, ProcessStat, ThreadStat};
use spindoctor_model::mysql::{NamedValues, ServerThread, StatementDigest, WaitSummary};
use spindoctor_model::wait_graph::{WaitEdge, WaitGraph};
use spindoctor_model::{
    Diagnosis, Event, EventHead, Finding, KnownBy, Probe, Reading, RecordedGraph, RecordedSample,
    RecordedSetting, Root, Sample, Segment, ServerIdentity, ServerVersion, SessionTime, Severity, Stall,
    StallKind, TimeClass, TimeShare, Window,
};

use crate::table::Account;

/// How long before time zero the segment began.
const BEFORE_S: f64 = 120.0;

/// So many seconds after half past nine.
pub(crate) fn at(seconds: f64) -> Timestamp {
    let half_past_nine: Timestamp = "2026-07-01T09:30:00Z".parse().unwrap();
    let by = Duration::from_millis((seconds.abs() * 1e3).round() as u64);
    if seconds < 0.0 { half_past_nine - by } else { half_past_nine + by }
}

/// A server that was up for 812 s when its segment began.
pub(crate) fn server() -> ServerIdentity {
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

/// Its one segment.
pub(crate) fn segments() -> Vec<Segment> {
    vec![Segment { id: 1, began: at(-BEFORE_S), server: server(), written_by: "0.1.0".to_owned() }]
}

/// A setting that changed.
pub(crate) fn settings() -> Vec<RecordedSetting> {
    let set = |seconds: f64, value: &str| RecordedSetting {
        at: at(seconds),
        name: "max_connections".to_owned(),
        value: Some(value.to_owned()),
    };
    vec![set(-BEFORE_S, "1000"), set(-32.0, "4000")]
}

/// Commits stopped for three seconds, behind a metadata lock.
pub(crate) fn event() -> Event {
    let head = EventHead {
        id: 17,
        segment: 1,
        began: at(0.2),
        ended: Some(at(3.3)),
        stall: Stall {
            kind: StallKind::CommitsStopped,
            because: "no commit for 1.1 s while 212 threads run".to_owned(),
            began_s: BEFORE_S + 0.2,
            seen_s: BEFORE_S + 1.3,
        },
        cause: Some("metadata-lock-pileup".to_owned()),
        headline: "201 connections wait for ALTER TABLE on sbtest.sbtest1".to_owned(),
    };
    let finding = Finding {
        cause: "metadata-lock-pileup".to_owned(),
        score: 0.9,
        headline: head.headline.clone(),
        root: Some(Root { connection_id: Some(77), ..Root::default() }),
        severity: Severity::Critical,
        evidence: Vec::new(),
        why: "everybody behind it waits".to_owned(),
        remedies: Vec::new(),
        explains: Vec::new(),
        is_elsewhere: false,
        references: Vec::new(),
    };
    let probe = Probe { at_s: BEFORE_S + 1.0, took_ms: 14.0, answered: true, ..Probe::default() };
    Event {
        head,
        diagnosis: Some(diagnosis(finding)),
        graphs: vec![RecordedGraph {
            at: at(0.9),
            graph: WaitGraph { edges: vec![WaitEdge::default()], ..WaitGraph::default() },
        }],
        probes: vec![probe],
        ..Event::default()
    }
}

fn diagnosis(finding: Finding) -> Diagnosis {
    Diagnosis {
        given: Vec::new(),
        schema: SCHEMA.to_owned(),
        server: DiagnosedServer::default(),
        host: DiagnosedHost::default(),
        window: DiagnosedWindow { start: at(0.0), seconds: 4.0 },
        interrupted: None,
        cost: Cost::default(),
        profile: None,
        time: None,
        findings: vec![finding],
        clear: Vec::new(),
        not_examined: Vec::new(),
    }
}

/// Half of a minute's session time went into locks of rows.
pub(crate) fn account() -> Account {
    let of = |class, share, known_by| TimeShare { class, share, known_by, seen: Vec::new() };
    let classes = vec![
        of(TimeClass::RowLock, 0.5, KnownBy::List),
        of(TimeClass::Cpu, 0.3, KnownBy::Counter),
        of(TimeClass::CpuQueue, 0.2, KnownBy::Counter),
    ];
    let time = SessionTime {
        session_seconds_per_second: 8.0,
        sleeping: 0.0,
        classes,
        unnamed: 0.0,
        error: 0.02,
        observations: 4_720,
    };
    Account { segment: 1, at: at(-60.0), seconds: 59.0, time }
}

/// A few samples with something in each table.
pub(crate) fn samples() -> Vec<RecordedSample> {
    [-10.0, 0.0, 2.0].map(sample).to_vec()
}

/// The window of the stall; it begins a second before the recorder did.
pub(crate) fn window() -> Window {
    let samples = samples().into_iter().map(|recorded| {
        let mut sample = recorded.sample;
        sample.shift(1.0 - BEFORE_S);
        sample
    });
    Window { server: server(), start: at(-1.0), samples: samples.collect(), ..Window::default() }
}

fn sample(seconds: f64) -> RecordedSample {
    let at_s = seconds + BEFORE_S;
    let read = at_s;
    let mut sample = Sample { at_s, ..Sample::default() };
    let counted = (at_s * 5_800.0) as u64;
    let status: NamedValues =
        [("Questions", counted), ("Handler_commit", counted / 14), ("Threads_running", 12), ("Uptime", 812)]
            .map(|(name, value)| (name, value.to_string()))
            .into_iter()
            .collect();
    fn answered<T>(at_s: f64, value: T) -> Reading<T> {
        Reading::Available { at_s, took_ms: 1.2, value }
    }
    sample.server.status = answered(read, status);
    let wait =
        WaitSummary { event: "wait/synch/mutex/innodb/trx_sys_mutex".to_owned(), count: 7, total_ns: 900 };
    sample.server.waits = answered(read, vec![wait]);
    let thread = ServerThread {
        connection_id: Some(101),
        is_connection: true,
        command: if seconds == 0.0 { "Sleep" } else { "Query" }.to_owned(),
        statement: Some("SELECT c FROM sbtest1 WHERE id = 1".to_owned()),
        ..ServerThread::default()
    };
    sample.server.threads = answered(read, vec![thread]);
    let text = "SELECT `c` FROM `sbtest1` WHERE `id` = ?".to_owned();
    let digest = StatementDigest {
        schema: "sbtest".to_owned(),
        digest: text.clone(),
        text,
        executions: counted,
        ..StatementDigest::default()
    };
    sample.server.digests = answered(read, vec![digest]);
    sample.host.process =
        answered(read, ProcessStat { user_us: counted, system_us: counted / 4, ..ProcessStat::default() });
    let thread = ThreadStat {
        tid: 4351,
        name: "connection".to_owned(),
        state: "S".to_owned(),
        ..ThreadStat::default()
    };
    sample.host.threads = answered(read, vec![thread]);
    let pause = PauseLatency { instruction: "pause".to_owned(), ns: 10.9, ..PauseLatency::default() };
    sample.host.pause = answered(read, pause);
    RecordedSample { at: at(seconds), segment: 1, sample }
}
