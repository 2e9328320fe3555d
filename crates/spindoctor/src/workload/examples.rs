//! Workloads for tests: of a busy server, of a replica that lags, hostile ones.

use spindoctor_collect::host::block_device::BlockDevice;
use spindoctor_collect::host::network_links::NetworkLink;
use spindoctor_model::host::EffectiveCpus;
use spindoctor_model::mysql::{NamedValues, ReplicaChannel, ServerThread};
use spindoctor_model::{Reading, Sample, Window};
use spindoctor_rules::phases::Phase;

use super::panel::{Ground, panel};
use super::split::{OfStatement, Part, Split};
use super::tally::{Sighting, Tally, What};
use super::view::{Cost, Workload};

/// What steers a terminal, hides text, and is no ASCII.
pub const HOSTILE: &str = "\u{1b}[2J\u{202e}<b>日本語\u{9b}\n🐬";

fn client(id: u64, time_s: f64, state: &str, statement: &str) -> ServerThread {
    ServerThread {
        connection_id: Some(id),
        is_connection: true,
        user: if id < 20 { "app" } else { "report" }.into(),
        host: format!("web{}", id % 3),
        schema: "shop".into(),
        command: "Query".into(),
        state: state.into(),
        time_s,
        statement: Some(statement.into()),
        ..ServerThread::default()
    }
}

fn window() -> Window {
    let samples = (0..=10).map(|at| {
        let at_s = f64::from(at);
        let mut status = NamedValues::default();
        for (name, per_s) in [
            ("Questions", 5_200.0),
            ("Connections", 0.4),
            ("Bytes_sent", 9e6),
            ("Innodb_rows_read", 260_000.0),
            ("Rows_sent", 1_700.0),
            ("Innodb_buffer_pool_reads", 40.0),
            ("Innodb_data_reads", 44.0),
            ("Innodb_data_read", 720_000.0),
            ("Innodb_pages_read", 42.0),
            ("Innodb_buffer_pool_read_requests", 700_000.0),
            ("Handler_read_rnd_next", 240_000.0),
        ] {
            status.insert(name, format!("{:.0}", 1_000.0 + per_s * at_s));
        }
        status.insert("Threads_running", "6");
        status.insert("Innodb_data_pending_reads", "0");
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value: status };
        let cpus = EffectiveCpus { cpus: 4.0, online: 4, ..EffectiveCpus::default() };
        sample.host.effective_cpus = Reading::Available { at_s, took_ms: 0.0, value: cpus };
        sample
    });
    Window { samples: samples.collect(), ..Window::default() }
}

fn ground() -> Ground {
    Ground {
        links: vec![NetworkLink { name: "eth0".into(), bytes_per_s: Some(125_000_000) }],
        device: Ok(BlockDevice { name: "nvme0n1".into(), rotational: false, queued_requests: 1_023 }),
        rows_sent: None,
    }
}

fn cost() -> Cost {
    Cost {
        server_queries: 131,
        answered_ms: 190.0,
        server_cpu_ms: Some(61.0),
        own_cpu_ms: 88.0,
        cpu_share: Some(0.003_7),
        threads_stopped: 0,
    }
}

/// A server whose time goes into a scan, lookups and commits.
pub fn busy() -> Workload {
    let mut tally = Tally::new(What::default());
    for at in 0..100_u32 {
        let at_s = f64::from(at) / 10.0;
        let mut threads = vec![
            client(
                11,
                0.0,
                "executing",
                &format!("SELECT c FROM orders WHERE id = {at} /*route='%2Fcart',app='web'*/"),
            ),
            client(
                21,
                at_s + 2.1,
                "Sending data",
                "SELECT * FROM lines WHERE note LIKE '%x%' /*job='nightly'*/",
            ),
        ];
        if at % 3 == 0 {
            threads.push(client(12, 0.0, "waiting for handler commit", "COMMIT"));
        }
        if at % 4 == 0 {
            threads.push(client(
                13,
                0.0,
                "updating",
                "UPDATE stock SET n = n - 1 WHERE id = 5 /*route='%2Fpay',app='web'*/",
            ));
        }
        tally.look(&Sighting { at_s, threads, ..Sighting::default() });
    }
    let window = window();
    let part = |phase, share, on_cpu| Part { phase, share, on_cpu };
    let parts = vec![
        part(Phase::Executing, 0.62, 0.55),
        part(Phase::Commit, 0.14, 0.01),
        part(Phase::Locks, 0.1, 0.0),
        part(Phase::Optimizing, 0.08, 0.07),
        part(Phase::Network, 0.04, 0.01),
        part(Phase::Parsing, 0.02, 0.02),
    ];
    let mut workload = Workload {
        counted: tally.finish(),
        panel: panel(&window, &ground()),
        split: Ok(Split {
            snapshots: 100,
            seen: 250,
            on_cpu: 0.66,
            for_cpu: 0.03,
            statements: vec![OfStatement {
                digest: "SELECT * FROM lines WHERE note LIKE ?".into(),
                share: 0.4,
                seen: 100,
                parts: parts[..2].to_vec(),
            }],
            parts,
        }),
        cost: Some(cost()),
        start: "2026-07-01T09:30:00Z".parse().ok(),
        ..Workload::new("MySQL 8.0.36 on db17", false)
    };
    workload.judge(&window);
    workload
}

/// A replica that lags by itself: its one worker reads a table for each row.
pub fn replica() -> Workload {
    let mut tally = Tally::new(What { appliers: true, ..What::default() });
    for at in 0..100_u32 {
        let worker = |state: &str| ServerThread {
            name: "thread/sql/replica_worker".into(),
            connection_id: Some(9),
            user: "system user".into(),
            command: "Query".into(),
            state: state.into(),
            ..ServerThread::default()
        };
        let state = match at % 10 {
            0 => "waiting for handler commit",
            1 => "Waiting for an event from Coordinator",
            _ => "Applying batch of row changes (update)",
        };
        let tables = [(9, "shop.plain".to_owned())].into();
        let at_s = f64::from(at) / 10.0;
        tally.look(&Sighting { at_s, threads: vec![worker(state)], tables, ..Sighting::default() });
    }
    let mut window = window();
    for sample in &mut window.samples {
        let at_s = sample.at_s;
        let channel = ReplicaChannel {
            source_host: "db1".into(),
            source_port: 3306,
            receiver_running: "Yes".into(),
            applier_running: "Yes".into(),
            behind_s: Some((20.0 + 0.8 * at_s).floor()),
            applier_state: "Waiting for replica workers to process their queues".into(),
            received_file: "binlog.000017".into(),
            received_position: Some((9e6 + 310_000.0 * at_s) as u64),
            applied_file: "binlog.000017".into(),
            applied_position: Some((3e6 + 62_000.0 * at_s) as u64),
            ..ReplicaChannel::default()
        };
        sample.server.replication = Reading::Available { at_s, took_ms: 1.0, value: vec![channel] };
    }
    let mut workload = Workload {
        counted: tally.finish(),
        panel: panel(&window, &ground()),
        split: Err("--no-stacks was given".into()),
        cost: Some(cost()),
        ..Workload::new("MySQL 8.0.36 on db18", true)
    };
    workload.judge(&window);
    workload
}

/// Every text that somebody else chooses is hostile.
pub fn hostile() -> Workload {
    let mut tally = Tally::new(What::default());
    let mut thread =
        client(7, 3.0, HOSTILE, &format!("SELECT '{HOSTILE}' FROM `{HOSTILE}` /*a='{HOSTILE}'*/"));
    thread.user = HOSTILE.into();
    thread.host = HOSTILE.into();
    thread.schema = HOSTILE.into();
    tally.look(&Sighting { at_s: 0.0, threads: vec![thread], ..Sighting::default() });
    Workload {
        counted: tally.finish(),
        literals: true,
        grep: Some(HOSTILE.into()),
        notes: vec![HOSTILE.into()],
        panel: Err(HOSTILE.into()),
        split: Err(HOSTILE.into()),
        replica: Err(HOSTILE.into()),
        ..Workload::new(HOSTILE, false)
    }
}
