//! Hand-built diagnoses that exercise everything a format must show.

use jiff::Timestamp;
use spindoctor_model::TimeClass::{Commit, Cpu, CpuQueue, Kernel, RowLock, Spin};
use spindoctor_model::diagnosis::{
    DiagnosedHost, DiagnosedProfile, DiagnosedServer, DiagnosedWindow, SCHEMA, SpinShares,
};
use spindoctor_model::host::Quota;
use spindoctor_model::{
    Cost, Diagnosis, Evidence, Finding, Flavor, Interruption, NotExamined, Remedy, Root, Severity,
};
use spindoctor_model::{KnownBy, SessionTime, TimeClass, TimeShare};

/// Everything a person on call could wish for: three findings, a root, series, what was not examined.
pub fn suffering() -> Diagnosis {
    Diagnosis {
        given: Vec::new(),
        schema: SCHEMA.to_owned(),
        server: DiagnosedServer {
            flavor: Some(Flavor::Mysql),
            version: Some("9.7.4".to_owned()),
            hostname: "db17".to_owned(),
            address: "/run/mysqld/mysqld.sock".to_owned(),
            pid: Some(4310),
            uptime_s: Some(812),
            threads: Some(287),
        },
        host: DiagnosedHost {
            effective_cpus: Some(1.0),
            online_cpus: Some(6),
            server_believes_cpus: Some(6),
            quota: Some(Quota {
                cpus: 1.0,
                quota_us: 100_000,
                period_us: 100_000,
                cgroup: "/kubepods/burstable/pod7/mysql".to_owned(),
            }),
            pause_latency_ns: Some(10.9),
            pause_latency_cycles: Some(39.0),
            cpu: Some("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz".to_owned()),
            numa_nodes: Some(1),
            unavailable: None,
        },
        window: window(),
        interrupted: None,
        cost: Cost { server_queries: 44, server_busy_ms: 31.04, own_cpu_ms: 190.0, threads_stopped: 0 },
        profile: Some(DiagnosedProfile {
            snapshots: 100,
            cpu_samples: 1250,
            spin: Some(SpinShares {
                commits: 0.68,
                log_threads: 0.06,
                latches: 0.001,
                mutexes: 0.0,
                kernel: 0.0,
            }),
        }),
        time: Some(session_time(
            61.2,
            &[(CpuQueue, 0.62), (Commit, 0.211), (RowLock, 0.09), (Spin, 0.06), (Cpu, 0.019)],
        )),
        findings: vec![blind_spin(), pileup(), sync_note()],
        clear: ["cpu-throttled", "cpu-saturated", "checkpoint-stall"].map(str::to_owned).to_vec(),
        not_examined: vec![
            NotExamined {
                cause: "rows-read-waste".to_owned(),
                because: "performance_schema is OFF".to_owned(),
                unlock: "set performance_schema=ON in my.cnf and restart".to_owned(),
            },
            NotExamined {
                cause: "numa-imbalance".to_owned(),
                because: "one NUMA node".to_owned(),
                unlock: String::new(),
            },
        ],
    }
}

/// A server in good health.
pub fn healthy() -> Diagnosis {
    let mut diagnosis = suffering();
    diagnosis.time = Some(session_time(2.1, &[(Cpu, 0.7), (Commit, 0.2), (Kernel, 0.1)]));
    diagnosis.findings.clear();
    diagnosis.not_examined.clear();
    diagnosis.profile = Some(DiagnosedProfile {
        snapshots: 100,
        cpu_samples: 860,
        spin: Some(SpinShares { latches: 0.003, ..SpinShares::default() }),
    });
    diagnosis
}

/// A server that listens and never answers, whose host cannot be read.
pub fn silent() -> Diagnosis {
    let mut diagnosis = healthy();
    diagnosis.time = None;
    diagnosis.server = DiagnosedServer { address: "db17:3306".to_owned(), ..DiagnosedServer::default() };
    diagnosis.host = DiagnosedHost {
        unavailable: Some("the server runs on another host".to_owned()),
        ..DiagnosedHost::default()
    };
    diagnosis.clear.clear();
    diagnosis.profile = None;
    diagnosis.findings = vec![Finding {
        cause: "server-stopped".to_owned(),
        severity: Severity::Critical,
        score: 1.0,
        headline: "The server accepts connections and answers nothing".to_owned(),
        evidence: vec![Evidence::new("answer", "none in 2.0 s", "", "connect")],
        why: String::new(),
        remedies: Vec::new(),
        root: None,
        explains: Vec::new(),
        is_elsewhere: false,
        references: Vec::new(),
    }];
    diagnosis
}

/// A healthy server that was killed in the middle.
pub fn interrupted() -> Diagnosis {
    let mut diagnosis = healthy();
    diagnosis.interrupted =
        Some(Interruption { at_s: 4.1, because: "the server's process ended".to_owned(), of_s: None });
    diagnosis
}

/// A server whose users chose their names and statements to attack the reader.
pub fn hostile() -> Diagnosis {
    let mut diagnosis = suffering();
    diagnosis.server.hostname = "db<script>alert(1)</script>".to_owned();
    let mut finding = pileup();
    finding.headline = "\u{1b}]0;owned\u{7}<img src=x onerror=alert(1)> & \"friends\"".to_owned();
    finding.evidence.push(Evidence::new(
        "a reading whose name is much longer than any column",
        format!("SELECT '{}'", "x".repeat(3_000)),
        "",
        "information_schema.a_table_with_a_name_that_is_longer_than_a_line_of_the_terminal_can_be_at_all",
    ));
    finding.root = Some(Root {
        thread_os_id: None,
        connection_id: Some(12),
        user: "adm\u{202e}nimda".to_owned(),
        statement: format!(
            "UPDATE t SET a = '🐬\u{9b}2J</code><script>' /* {} */\nWHERE 1",
            "🐬".repeat(700)
        ),
        stack: vec!["std::vector<int, std::allocator<int> >::push_back".to_owned(); 12],
    });
    diagnosis.findings = vec![finding];
    diagnosis
}

fn window() -> DiagnosedWindow {
    let start: Timestamp = "2026-07-01T09:30:00Z".parse().expect("a time that is written here");
    DiagnosedWindow { start, seconds: 10.0 }
}

fn blind_spin() -> Finding {
    Finding {
        cause: "quota-blind-spin".to_owned(),
        severity: Severity::Critical,
        score: 0.21,
        headline: "Commits burn 21 % of the CPU spinning: the server counts 6 CPUs, the quota grants 1.0"
            .to_owned(),
        evidence: vec![
            Evidence::new("server believes", 6.0, "CPUs", "srv_cpu_usage.n_cpu"),
            Evidence::new("effective CPUs", 1.0, "CPUs", "cpu.max"),
            Evidence::new("throttled time", 4_100.0, "ms", "cpu.stat").expected("0").series(
                (0..=20)
                    .map(|at| (f64::from(at) * 0.5, 380.0 + 60.0 * (f64::from(at) * 0.7).sin()))
                    .collect(),
            ),
            Evidence::new("spin share of server CPU", 0.21, "ratio", "srv_cpu_usage")
                .expected("< 0.02")
                .series((0..=10).map(|at| (f64::from(at), 0.03 * f64::from(at.min(7)))).collect()),
            Evidence::new("cgroup", "/kubepods/burstable/pod7/mysql", "", "/proc/PID/cgroup"),
        ],
        why: "It spins while user CPU is below 50 % of 6 CPUs; under this quota it can never pass 17 %."
            .to_owned(),
        remedies: vec![
            Remedy {
                statement: "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 8".to_owned(),
                why: "8 % of 6 CPUs is half of the quota".to_owned(),
                dynamic: true,
                risk: "commits wait in the kernel instead, which takes a few microseconds more each"
                    .to_owned(),
                undo: "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 50".to_owned(),
            },
            Remedy {
                statement: "Give the container a cpuset of whole CPUs instead of a quota".to_owned(),
                why: "the server counts the CPUs of its affinity mask".to_owned(),
                dynamic: false,
                risk: String::new(),
                undo: String::new(),
            },
        ],
        root: None,
        explains: vec!["cpu-throttled".to_owned(), "commit-sync-bound".to_owned()],
        is_elsewhere: false,
        references: vec![
            "https://dev.mysql.com/doc/refman/8.4/en/innodb-performance-log-spin.html".to_owned(),
            "storage/innobase/log/log0write.cc, log_max_spins_when_waiting_in_user_thread".to_owned(),
        ],
    }
}

fn pileup() -> Finding {
    Finding {
        cause: "metadata-lock-pileup".to_owned(),
        severity: Severity::Warning,
        score: 0.12,
        headline: "201 connections wait for ALTER TABLE on sbtest.sbtest1, which waits for an idle transaction of 61 s".to_owned(),
        evidence: vec![
            Evidence::new("waiting connections", 201.0, "", "performance_schema.metadata_locks").expected("0").series(
                (0..=10).map(|at| (f64::from(at), f64::from(at * 20))).collect(),
            ),
            Evidence::new("longest wait", 61.0, "s", "performance_schema.threads").expected("< 1"),
        ],
        why: "A pending exclusive lock stands before every later reader.".to_owned(),
        remedies: vec![Remedy {
            statement: "KILL 12".to_owned(),
            why: "connection 12 holds the lock and is idle".to_owned(),
            dynamic: true,
            risk: "its open transaction is rolled back".to_owned(),
            undo: String::new(),
        }],
        root: Some(Root {
            thread_os_id: Some(4351),
            connection_id: Some(12),
            user: "app".to_owned(),
            statement: "idle in transaction".to_owned(),
            stack: vec!["poll".to_owned(), "vio_io_wait".to_owned(), "my_net_read_packet".to_owned()],
        }),
        explains: Vec::new(),
        is_elsewhere: false,
        references: Vec::new(),
    }
}

fn sync_note() -> Finding {
    Finding {
        cause: "commit-sync-bound".to_owned(),
        severity: Severity::Note,
        score: 0.01,
        headline: "Each commit waits 0.8 ms for fsync".to_owned(),
        evidence: vec![
            Evidence::new("fsync time", 0.8, "ms", "/proc/diskstats").expected("< 5"),
            Evidence::new("redo written", 1_834_000.0, "bytes/s", "SHOW GLOBAL STATUS"),
        ],
        why: String::new(),
        remedies: Vec::new(),
        root: None,
        explains: Vec::new(),
        is_elsewhere: false,
        references: Vec::new(),
    }
}

fn session_time(session_seconds_per_second: f64, shares: &[(TimeClass, f64)]) -> SessionTime {
    let share = |&(class, share): &(TimeClass, f64)| TimeShare {
        class,
        share,
        known_by: KnownBy::Stack,
        seen: vec![("log_write_up_to < trx_commit".to_owned(), share)],
    };
    let classes = shares.iter().map(share).collect();
    SessionTime {
        session_seconds_per_second,
        classes,
        error: 0.02,
        observations: 6_120,
        ..SessionTime::default()
    }
}
