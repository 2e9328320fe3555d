//! Hand-built plans that exercise everything a format must show.

use spindoctor_model::plan::PLAN_SCHEMA;
use spindoctor_model::{Change, Elsewhere, Left, Plan, Proposal, Remedy};

use crate::doctor::examples;

/// A plan of the sample server with these proposals, and these families left.
fn plan(proposals: Vec<Proposal>, left: Vec<Left>) -> Plan {
    let diagnosis = examples::suffering();
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        server: diagnosis.server,
        host: diagnosis.host,
        window: diagnosis.window,
        interrupted: None,
        cost: diagnosis.cost,
        proposals,
        left,
        elsewhere: Vec::new(),
    }
}

fn change(variable: &str, from: &str, to: &str) -> Change {
    Change { variable: variable.to_owned(), from: from.to_owned(), to: to.to_owned() }
}

fn looked_at(family: &str, because: &str) -> Left {
    Left { family: family.to_owned(), examined: true, because: because.to_owned(), unlock: String::new() }
}

/// A server under a quota: what a finding asks for, what the hardware does, and what could not be seen.
pub fn quota() -> Plan {
    let commit_spin = Proposal {
        family: "commit-spin".to_owned(),
        changes: vec![change("innodb_log_spin_cpu_pct_hwm", "50", "8")],
        remedy: Remedy {
            statement: "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 8".to_owned(),
            why: "Commits burn about 21 % of the CPU spinning: the server counts 6 CPUs, the quota grants 1.0. Half of \
                  1.0 CPUs is 8 % of 6. The low-water mark (80 % of one CPU) is not below that, so with this \
                  setting a commit never spins."
                .to_owned(),
            dynamic: true,
            risk: "If the quota is raised or lifted, the mark is too low: commits then sleep where they could spin."
                .to_owned(),
            undo: "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 50".to_owned(),
        },
        cause: Some("quota-blind-spin".to_owned()),
        score: Some(0.21),
        ..Proposal::default()
    };
    let redo = Proposal {
        family: "redo-capacity".to_owned(),
        changes: vec![change("innodb_redo_log_capacity", "104857600", "28991029248")],
        remedy: Remedy {
            statement: "SET GLOBAL innodb_redo_log_capacity = 28991029248".to_owned(),
            why: "The redo log is full: 98 % of what is usable, filled once in 12 s. 27.0 GiB hold 60 minutes of this writing; flushing evens out.".to_owned(),
            dynamic: true,
            risk: "Takes 27.0 GiB of disk, and recovery after a crash takes longer.".to_owned(),
            undo: "SET GLOBAL innodb_redo_log_capacity = 104857600".to_owned(),
        },
        cost: "27.0 GiB of disk, of 60.0 GiB free".to_owned(),
        cause: Some("checkpoint-stall".to_owned()),
        score: Some(0.084),
        ..Proposal::default()
    };
    let latch_spin = Proposal {
        family: "latch-spin".to_owned(),
        changes: vec![
            change("innodb_spin_wait_delay", "100", "6"),
            change("innodb_spin_wait_pause_multiplier", "100", "12"),
        ],
        remedy: Remedy {
            statement: "SET GLOBAL innodb_spin_wait_delay = 6, GLOBAL innodb_spin_wait_pause_multiplier = 12".to_owned(),
            why: "A full spin (30 rounds, delay 100, multiplier 100) lasts 6,980 us with a PAUSE of 47.0 ns; it was meant \
                  to last 41."
                .to_owned(),
            dynamic: true,
            risk: "Latches that are free again soon are then slept for: watch the spin share.".to_owned(),
            undo: "SET GLOBAL innodb_spin_wait_pause_multiplier = 100, GLOBAL innodb_spin_wait_delay = 100".to_owned(),
        },
        ..Proposal::default()
    };
    let left = vec![
        Left {
            family: "undo-tablespaces".to_owned(),
            because: "waits for rollback segments could not be read: mutexes are not instrumented, no stacks".to_owned(),
            unlock: "run spindoctor as root (it takes stacks), or UPDATE performance_schema.setup_instruments SET \
                     ENABLED='YES', TIMED='YES' WHERE NAME LIKE '%undo_space_rseg_mutex'"
                .to_owned(),
            ..Left::default()
        },
        looked_at("io-capacity", "801 pages are flushed a second, of 10000 to 20000"),
        looked_at(
            "purge",
            "the history list has 2.1 million entries, and a transaction is open for 900 s (connection 12): purge waits \
             for it, whatever the settings",
        ),
        looked_at("thread-cache", "0.0 threads are made a second; thread_cache_size = 9"),
        looked_at("adaptive-hash", "it is off, as it is by default in MySQL 8.4 and MariaDB 10.5 and later"),
    ];
    let elsewhere = vec![Elsewhere {
        cause: "metadata-lock-pileup".to_owned(),
        score: 0.4,
        headline: "201 sessions wait behind an idle transaction".to_owned(),
    }];
    Plan { elsewhere, ..plan(vec![commit_spin, redo, latch_spin], left) }
}

/// The published host: four NUMA nodes, and commits that queue for rollback segments.
pub fn undo() -> Plan {
    let proposal = Proposal {
        family: "undo-tablespaces".to_owned(),
        changes: vec![
            change("undo_tablespaces", "2", "127"),
            change("innodb_max_undo_log_size", "1073741824", "576716800"),
        ],
        remedy: Remedy {
            statement: "SET GLOBAL innodb_max_undo_log_size = 576716800; then CREATE UNDO TABLESPACE undo_003 ADD \
                        DATAFILE 'undo_003.ibu', and so on up to undo_127"
                .to_owned(),
            why: "25.0 % of the sessions' time goes into waits for rollback segments (performance_schema), on 4 NUMA \
                  nodes. 2 undo tablespaces have 256 segments; 127 have 16256, and each is shared by fewer transactions."
                .to_owned(),
            dynamic: true,
            risk: "Disk: a tablespace grows to its limit and a step beyond, and is truncated only when no transaction \
                   needs its undo; one long transaction keeps them all."
                .to_owned(),
            undo: "ALTER UNDO TABLESPACE undo_003 SET INACTIVE; when INNODB_TABLESPACES says it is empty, DROP UNDO \
                   TABLESPACE undo_003; so with each, then SET GLOBAL innodb_max_undo_log_size = 1073741824"
                .to_owned(),
        },
        cost: "100.0 GiB of disk at most, of 400.0 GiB free".to_owned(),
        cause: None,
        score: Some(0.25),
        not_tried: None,
    };
    plan(
        vec![proposal],
        vec![looked_at("latch-spin", "a full spin lasts 41 us here, as it was meant to (41)")],
    )
}

/// Nothing to do.
pub fn healthy() -> Plan {
    plan(
        Vec::new(),
        vec![
            looked_at("commit-spin", "no quota: the server counts the CPUs that it is granted"),
            looked_at("latch-spin", "a full spin lasts 41 us here, as it was meant to (41)"),
            looked_at("redo-capacity", "the log is filled once in 117 minutes, and 24 % of it is in use"),
        ],
    )
}

/// Text that tries to steer the terminal and the page.
pub fn hostile() -> Plan {
    let text = "<script>alert(1)</script>\u{1b}[2J\u{202e}\n".repeat(3);
    let diagnosis = examples::hostile();
    Plan {
        server: diagnosis.server,
        proposals: vec![Proposal {
            family: text.clone(),
            changes: vec![change(&text, &text, &text)],
            remedy: Remedy {
                statement: text.clone(),
                why: text.clone(),
                dynamic: false,
                risk: text.clone(),
                undo: text.clone(),
            },
            cost: text.clone(),
            cause: Some(text.clone()),
            score: Some(f64::MAX),
            not_tried: None,
        }],
        elsewhere: vec![Elsewhere { cause: text.clone(), score: 1.0, headline: text.clone() }],
        ..plan(Vec::new(), vec![looked_at(&text, &text)])
    }
}
