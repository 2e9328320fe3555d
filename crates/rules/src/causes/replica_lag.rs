//! `replica-lag`: the applier cannot keep up.

use std::collections::BTreeMap;

use spindoctor_model::{Evidence, Finding, Remedy, Unavailable, Window, number};

use super::{cpu_saturated, rows_read_waste};
use crate::draft::Draft;
use crate::replica::{self, KeepingUp, Shape};
use crate::sessions;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "replica-lag",
    title: "the applier of a replica cannot keep up",
    what: "A replica receives the binary log of its source and applies it, in one thread or in several workers. What the \
           source did with many clients at once the replica does in fewer threads: a statement without a good index, a table \
           without a primary key (each row event then reads the table), waits for commits, or reads that take the I/O make \
           the applier slower than the source.",
    why_it_hurts: "Clients that read from the replica read old data. A failover to it takes as long as it is behind, or loses \
                   what was not received. A lag that grows never ends by itself.",
    evidence: "Seconds_Behind_Source (Seconds_Behind_Master) in each sample: more than one second in more than half of them. \
               How it grows, bytes of the source's binary log received and applied each second (the positions of SHOW \
               REPLICA status), and what the appliers were seen at: statement, kind of event, wait. The estimate is the part \
               of the source's work that is not kept up with, and at least a warning's. It fires too where the applier \
               has stopped with an error.",
    looks_alike: "A replica with SOURCE_DELAY is behind on purpose. Single jumps are single slow statements: spindoctor \
                  workload --replica shows them as spiky. A receiver that does not run, or a slow network, leaves nothing to apply: the \
                  lag is then 0 or unknown, and the source is ahead all the same.",
    remedies: "See what takes the time: spindoctor workload --replica, by table, statement, event type and wait. Give tables \
               a primary key and the indexes that the source has. More workers (replica_parallel_workers, \
               slave_parallel_threads) where transactions do not depend on each other. innodb_flush_log_at_trx_commit = 2 \
               and sync_binlog = 0 on a replica that can be rebuilt. Where reads take the I/O: fewer of them, more \
               memory.",
    safety: "More workers need a restart of the applier only. Relaxed flushing may lose the last second of the replica in a \
             crash of its host: it then has to be rebuilt, or to read from its source again.",
    references: &[
        "Domas Mituzas, On database write workload profiling",
        "MySQL Reference Manual: SHOW REPLICA STATUS; Replication and Row-Based Logging; replica_parallel_workers",
        "MariaDB Knowledge Base: Parallel Replication",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Standing(&[
        "Rows_log_event::do_apply_event",
        "Query_log_event::do_apply_event",
        "Xid_apply_log_event::do_apply_event",
    ]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// A replica that lags is worth a warning, whether the lag grows or not: its clients read old data.
const LAG_SCORE: f64 = 0.1;

/// One that has stopped falls behind by a second each second, and that is all that is known.
const STOPPED_SCORE: f64 = 0.5;

/// A lag that grows by less than this each second may be the counting in whole seconds.
const GROWS: f64 = 0.1;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let channels = replica::keeping_up(window)?;
    let bad = |seen: &&KeepingUp| {
        seen.shape.lags() || (seen.shape == Shape::Stopped && !seen.channel.applier_error.is_empty())
    };
    let score = |seen: &KeepingUp| match seen.shape {
        Shape::Stopped => STOPPED_SCORE,
        _ => LAG_SCORE.max(seen.growth.unwrap_or(0.0).min(1.0)),
    };
    let worst = channels.iter().filter(bad).max_by(|a, b| score(a).total_cmp(&score(b)));
    Ok(worst.map(|worst| finding(window, worst, score(worst))))
}

fn finding(window: &Window, seen: &KeepingUp, score: f64) -> Finding {
    let status = replica::asked(window.server.version);
    let channel = &seen.channel;
    let source = match channel.source_port {
        0 => channel.source_host.clone(),
        port => format!("{}:{port}", channel.source_host),
    };
    let work = work(window);
    let behind_s = channel.behind_s.unwrap_or(0.0);
    let headline = match seen.shape {
        Shape::Stopped => {
            format!("The applier has stopped with an error: the replica of {source} applies nothing")
        }
        _ => {
            let grows = match seen.growth {
                Some(growth) if growth >= GROWS => format!(", {growth:.1} s more each second"),
                Some(growth) if growth <= -GROWS => ", and catches up".to_owned(),
                _ => String::new(),
            };
            format!("The replica is {} behind {source}{grows}", number::roughly(behind_s))
        }
    };
    let most = work.first();
    Draft::new(&CAUSE, score, headline)
        .why(why(seen, most))
        .evidence(
            Evidence::new("behind the source", behind_s, "s", status)
                .expected("<= 1")
                .series(seen.behind.clone()),
        )
        .evidence_if(seen.growth.map(|growth| Evidence::new("grows each second by", growth, "s", status)))
        .evidence_if(
            seen.received_per_s.map(|bytes| Evidence::new("binary log received", bytes, "bytes/s", status)),
        )
        .evidence_if(
            seen.applied_per_s.map(|bytes| Evidence::new("binary log applied", bytes, "bytes/s", status)),
        )
        .evidence_if((!channel.applier_error.is_empty()).then(|| {
            Evidence::new("error", spindoctor_sql::error_without_values(&channel.applier_error), "", status)
        }))
        .evidence_if(most.map(|(what, share)| {
            Evidence::new("appliers seen at", format!("{:.0} % {what}", share * 100.0), "", "thread list")
        }))
        .remedy(Remedy {
            statement: "spindoctor workload --replica".into(),
            why:
                "It shows by table, statement, kind of event and wait what the appliers spend their time on."
                    .into(),
            dynamic: true,
            risk: "It only reads.".into(),
            undo: String::new(),
        })
        .remedy_if(more_workers(window, seen))
        // What the applier reads and burns is counted as the server's.
        .explains(&[rows_read_waste::CAUSE.name, cpu_saturated::CAUSE.name])
        .finding()
}

/// What the appliers were at, with the share of the times that one was at work, the most first.
fn work(window: &Window) -> Vec<(String, f64)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let lists = window.all(|s| &s.server.threads);
    let appliers = lists
        .iter()
        .flat_map(|(_, threads)| threads.iter())
        .filter(|thread| replica::is_applier(thread) && !replica::rests(thread));
    for thread in appliers {
        let wait = replica::waits_for(thread);
        let what = match (replica::event_type(thread), wait) {
            (_, wait) if !wait.is_empty() => format!("waiting: {wait}"),
            ("statement", _) => {
                let text = thread.statement.as_deref().unwrap_or_default();
                sessions::shortened(&spindoctor_sql::digest(text))
            }
            (event, _) => event.to_owned(),
        };
        *seen.entry(what).or_default() += 1;
    }
    let all: usize = seen.values().sum();
    let mut seen: Vec<(String, f64)> =
        seen.into_iter().map(|(what, count)| (what, count as f64 / all.max(1) as f64)).collect();
    seen.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    seen
}

fn why(seen: &KeepingUp, most: Option<&(String, f64)>) -> String {
    let limit = match seen.shape {
        Shape::Stopped => {
            return "It applies nothing until the error is mended and it is started again.".into();
        }
        Shape::BehindForReads => "The disk is the limit, and clients read from it beside the applier.",
        Shape::BehindByItself => "No reads take the I/O: the applier itself is the limit.",
        _ => "The applier is slower than the source.",
    };
    match most {
        Some((what, share)) => {
            format!("{limit} When it was seen at work, it was in {:.0} % of cases at: {what}.", share * 100.0)
        }
        None => limit.to_owned(),
    }
}

/// Workers, where there is one: what commits alone on the source may run beside others here.
fn more_workers(window: &Window, seen: &KeepingUp) -> Option<Remedy> {
    if seen.shape == Shape::Stopped {
        return None;
    }
    const WORKERS: u32 = 4;
    let name = ["replica_parallel_workers", "slave_parallel_workers", "slave_parallel_threads"]
        .into_iter()
        .find(|name| window.variable_number(name).is_some())?;
    let now = window.variable_number(name).filter(|&workers| workers <= 1.0)?;
    Some(Remedy {
        statement: format!("SET GLOBAL {name} = {WORKERS}"),
        why: "Transactions that do not depend on each other are then applied at the same time.".into(),
        dynamic: true,
        risk: "It counts from the next start of the applier (STOP and START REPLICA SQL_THREAD).".into(),
        undo: format!("SET GLOBAL {name} = {now:.0}"),
    })
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::{ReplicaChannel, ServerThread};

    use super::*;
    use crate::testing::{Build, answer};

    fn channel(behind_s: f64) -> ReplicaChannel {
        ReplicaChannel {
            source_host: "db1".into(),
            source_port: 3306,
            receiver_running: "Yes".into(),
            applier_running: "Yes".into(),
            behind_s: Some(behind_s),
            ..ReplicaChannel::default()
        }
    }

    fn replica(behind: fn(f64) -> f64) -> Build {
        Build::busy("8.0.36").variable("replica_parallel_workers", "1").each(|at_s, server, _| {
            server.replication = answer(at_s, vec![channel(behind(at_s))]);
            if let Reading::Available { value: threads, .. } = &mut server.threads {
                threads.push(ServerThread {
                    name: "thread/sql/replica_worker".into(),
                    connection_id: Some(7),
                    user: "system user".into(),
                    command: "Query".into(),
                    state: "Applying batch of row changes (update)".into(),
                    ..ServerThread::default()
                });
            }
        })
    }

    /// Twenty seconds behind, and nearly a second more each second.
    pub(crate) fn fires() -> Window {
        replica(|at_s| 20.0 + 0.8 * at_s).window()
    }

    /// A jump that is over soon: a single slow statement.
    pub(crate) fn near_miss() -> Window {
        replica(|at_s| if at_s < 4.0 { 6.0 } else { 0.0 }).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").each(|_, server, _| server.replication = Reading::NotAsked).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_applier_was_at_is_shown_and_more_workers_are_offered() {
        let finding = found(&fires());
        assert_eq!(finding.headline, "The replica is 28 s behind db1:3306, 0.8 s more each second");
        assert!(finding.why.contains("row update"), "{}", finding.why);
        let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(statements, ["spindoctor workload --replica", "SET GLOBAL replica_parallel_workers = 4"]);
    }

    #[test]
    fn an_applier_that_stopped_with_an_error_is_shown_and_one_that_was_stopped_is_not() {
        let stopped = |error: &'static str| {
            Build::busy("8.0.36")
                .each(|at_s, server, _| {
                    server.replication = answer(
                        at_s,
                        vec![ReplicaChannel {
                            applier_running: "No".into(),
                            applier_error: error.into(),
                            behind_s: None,
                            ..channel(0.0)
                        }],
                    );
                })
                .window()
        };
        let finding = found(&stopped("Error 'Duplicate entry' on query"));
        assert!(finding.headline.contains("has stopped with an error"), "{}", finding.headline);
        assert_eq!(evaluate(&stopped("")), Outcome::Clear);
    }

    #[test]
    fn a_server_that_is_no_replica_is_clear() {
        assert_eq!(evaluate(&Build::busy("8.0.36").window()), Outcome::Clear);
    }
}
