//! `replica-lag`: the applier cannot keep up.

mod blocked;
mod errors;
mod scanning;
mod stopping;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window, number};

use super::{cpu_saturated, rows_read_waste};
use crate::draft::Draft;
use crate::rank::NOTE;
use crate::replica::{self, KeepingUp, Shape};
use crate::sessions;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use blocked::Blocked;
use errors::Said;
use scanning::{Scan, Suspect};
use waiting::Waiting;

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
               of the source's work that is not kept up with, and at least a warning's; where two sessions or more wait until a transaction \
               of the source is here (WAIT_FOR_EXECUTED_GTID_SET, SOURCE_POS_WAIT, MASTER_GTID_WAIT), at least their part of the session \
               time.\n\n\
               It fires too where the applier \
               has stopped with an error, or the receiver does not run because of one: with its number, and the table, key or reason \
               that it names; what a worker of the applier failed with is read from replication_applier_status_by_worker. A session behind \
               whose lock the applier waits is named, and so is a table that it reads whole for each row, by its stacks. An applier that somebody stopped while changes arrive is a note. Of a list that somebody captured: \
               an applier at work that is a minute behind by its time, and a STOP REPLICA that waits for the applier.",
    looks_alike: "A replica with SOURCE_DELAY (MASTER_DELAY) is behind on purpose: only what it is late beyond that counts. Single jumps are single slow \
                  statements: `spindoctor workload --replica` shows them as spiky. A receiver that does not run, or a slow network, leaves nothing to apply: the \
                  lag is then 0 or unknown, and the source is ahead all the same.",
    remedies: "After an error: what its number wants (1032 and 1062: rows differ; 1236: the source no longer has the log; 1594: the \
               relay log is damaged; 1045 and 2003: the login at the source). Else see what takes the time: \
               `spindoctor workload --replica`, by table, statement, event type and wait. Give tables a primary key and the indexes that the source has. More \
               workers (replica_parallel_workers, slave_parallel_threads) where transactions do not depend on each other. \
               innodb_flush_log_at_trx_commit = 2 and sync_binlog = 0 on a replica that can be rebuilt. Where reads take the I/O: fewer \
               of them, more memory.",
    safety: "More workers need a restart of the applier only. Relaxed flushing may lose the last second of the replica in a \
             crash of its host: it then has to be rebuilt, or to read from its source again.",
    references: &[
        "Domas Mituzas, On database write workload profiling",
        "MySQL Reference Manual: SHOW REPLICA STATUS; Replication and Row-Based Logging; replica_parallel_workers",
        "MariaDB Knowledge Base: Parallel Replication",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[TimeClass::ReplicaWait],
    stacks: Stacks::Standing(&[
        "Rows_log_event::do_apply_event",
        "Query_log_event::do_apply_event",
        "Xid_apply_log_event::do_apply_event",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
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
    let waiting = Waiting::from_window(window);
    let at_rest = |seen: &KeepingUp| at_rest(window, seen, &waiting);
    let is_stopped = |seen: &KeepingUp| at_rest(seen).is_some();
    let bad = |seen: &&KeepingUp| seen.shape.lags() || failure(seen).is_some() || is_stopped(seen);
    let score = |seen: &KeepingUp| match failure(seen) {
        None if is_stopped(seen) => NOTE,
        Some(_) => STOPPED_SCORE,
        None => LAG_SCORE.max(seen.growth.unwrap_or(0.0).min(1.0)),
    };
    // A status that was cut above it says nothing of the lag.
    if window.is_given() && channels.iter().all(|seen| seen.channel.behind_s.is_none() && !bad(&seen)) {
        return Err(Unavailable::because("what was given does not say how far the replica is behind"));
    }
    let worst = channels.iter().filter(bad).max_by(|a, b| score(a).total_cmp(&score(b)));
    Ok(worst.map(|worst| {
        let found = match at_rest(worst) {
            Some(rests) => stopped_on_purpose(window, worst, rests, waiting.most(NOTE)),
            None => finding(window, worst, waiting.most(score(worst))),
        };
        waiting.beside(found)
    }))
}

/// An applier that is less behind than this does well, seconds. By judgement: a list shows no more than a moment.
const LISTED_BEHIND_S: f64 = 60.0;

/// What a capture of one moment says: how far an applier is behind, or that it is being stopped.
fn of_capture(window: &Window) -> Option<Finding> {
    of_list(window).or_else(|| stopping::found(window))
}

/// What a process list says that somebody captured: the time of a thread that applies is how long ago the source wrote what it
/// applies.
fn of_list(window: &Window) -> Option<Finding> {
    let channels = window.latest(|sample| &sample.server.replication);
    let says_how_far =
        channels.is_some_and(|channels| channels.iter().any(|channel| channel.behind_s.is_some()));
    if !window.is_given() || says_how_far {
        return None;
    }
    let threads = window.latest(|sample| &sample.server.threads)?;
    let applies = |thread: &&ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        thread.user == "system user"
            && !["Slave_IO", "Sleep", "Daemon"].contains(&thread.command.as_str())
            // Galera's threads are the system's user, too, and their time is that since the last transaction.
            && !["waiting for", "waiting until", "has read all", "queueing", "connecting", "wsrep", "committed"]
                .iter()
                .any(|idle| state.contains(idle))
            && thread.time_s >= LISTED_BEHIND_S
    };
    let applier = threads.iter().filter(applies).max_by(|one, other| one.time_s.total_cmp(&other.time_s))?;
    let state = applier.state.to_ascii_lowercase();
    let why = if state.contains("find_row") {
        "It looks for each row that changed: a table without a primary key is read whole for each."
    } else if state.contains("row changes") || state.contains("rows_log_event") {
        "It applies one event of many rows, and all that came after it wait. Where the table has no primary key, it is read whole for \
         each row."
    } else {
        "Whether it catches up, a second list would say: the applier's time then shrinks."
    };
    let waiting = Waiting::from_window(window);
    let status = "SHOW REPLICA STATUS\\G twice, ten seconds apart (SHOW SLAVE STATUS before MySQL 8.0.22 and on MariaDB)";
    let list = "thread list";
    let found = Draft::new(
        &CAUSE,
        waiting.most(LAG_SCORE),
        format!(
            "The replica is {} behind its source, by the time of the thread that applies",
            number::roughly(applier.time_s)
        ),
    )
    .why(why)
    .evidence(
        Evidence::new("behind the source", applier.time_s, "s", list)
            .expected(format!("< {LISTED_BEHIND_S:.0}")),
    )
    .evidence(Evidence::new("the applier", applier.state.clone(), "", list))
    .evidence_if(applier.statement.as_deref().map(|statement| {
        Evidence::new("its statement", sessions::shortened(&spindoctor_sql::digest(statement)), "", list)
    }))
    .remedy(Remedy {
        statement: status.into(),
        why: "It shows what has come and what is applied, and whether the lag grows.".into(),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    })
    .finding();
    Some(waiting.beside(found))
}

/// Which of a replica's two parts does not run because of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Applier,
    /// It copies the source's log: without it nothing comes that could be behind.
    Receiver,
}

fn failure(seen: &KeepingUp) -> Option<Failure> {
    let channel = &seen.channel;
    // A number without words is an error, too: the text may have been left out.
    let has_error = |number: Option<u32>, words: &str| number.is_some() || !words.is_empty();
    if seen.shape == Shape::Stopped && has_error(channel.applier_errno, &channel.applier_error) {
        return Some(Failure::Applier);
    }
    let runs = channel.receiver_running.eq_ignore_ascii_case("Yes");
    (!runs && has_error(channel.receiver_errno, &channel.receiver_error)).then_some(Failure::Receiver)
}

/// What of a replica does not run though no error is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtRest {
    Applier,
    Receiver,
    Both,
    /// It tries to reach its source, and has not failed yet.
    Connecting,
}

/// What does not run, and was stopped by somebody: of a live server the applier while what it would apply arrives, and whatever does not
/// run while sessions wait for what it brings; of one list that somebody captured, who did so because something is wrong,
/// whatever does not run.
fn at_rest(window: &Window, seen: &KeepingUp, waiting: &Waiting) -> Option<AtRest> {
    let channel = &seen.channel;
    // The channels of a group come and go with it.
    if failure(seen).is_some() || channel.name.starts_with("group_replication_") {
        return None;
    }
    let receiver = |is: &str| channel.receiver_running.eq_ignore_ascii_case(is);
    let has_applier_stopped = seen.shape == Shape::Stopped;
    if !window.is_given() && !waiting.is_for_it() {
        let grows = seen.received_per_s.is_some_and(|bytes| bytes > 0.0);
        return (has_applier_stopped && receiver("Yes") && grows).then_some(AtRest::Applier);
    }
    match has_applier_stopped {
        true if receiver("No") => Some(AtRest::Both),
        true => Some(AtRest::Applier),
        // What it has received is work enough.
        false if seen.shape.lags() => None,
        false if receiver("No") => Some(AtRest::Receiver),
        false => receiver("Connecting").then_some(AtRest::Connecting),
    }
}

/// A note where nobody waits for it: a backup, or who upgrades, stops it on purpose, and may forget it.
fn stopped_on_purpose(window: &Window, seen: &KeepingUp, rests: AtRest, score: f64) -> Finding {
    let status = replica::asked(window.server.version);
    let word = if status.contains("REPLICA") { "REPLICA" } else { "SLAVE" };
    let source = source(seen);
    let source = if source.is_empty() { "its source" } else { &source };
    let bytes = |reading: &str, bytes: Option<f64>, unit: &str| {
        bytes.map(|bytes| Evidence::new(reading, bytes, unit, status))
    };
    let (headline, why, thread, effect) = match rests {
        AtRest::Applier => (
            match seen.received_per_s.or(seen.backlog_bytes).is_some_and(|bytes| bytes > 0.0) {
                true => format!(
                    "The applier was stopped by somebody: changes of {source} are received and not applied"
                ),
                false => format!("The applier was stopped by somebody: nothing of {source} is applied"),
            },
            "It does not run, and no error stopped it. The replica falls behind by a second each second, and its relay log grows.",
            " SQL_THREAD",
            "It applies what has come since it was stopped.",
        ),
        AtRest::Receiver => (
            format!("The receiver is stopped, and no error is named: nothing comes from {source}"),
            "It does not run, and no error is named. What the applier has is all that there is, so that the replica may \
             say that it is 0 seconds behind.",
            " IO_THREAD",
            "It fetches what the source has written since.",
        ),
        AtRest::Both => (
            format!(
                "The replica is stopped, and no error is named: it gets nothing from {source} and applies nothing"
            ),
            "Its receiver and its applier do not run, and no error is named: STOP REPLICA, a start with \
             --skip-replica-start, or a replica that was set up and never started. It falls behind by a second each second.",
            "",
            "Both go on from where they were stopped.",
        ),
        AtRest::Connecting => return connecting(status, source),
    };
    Draft::new(&CAUSE, score, headline)
        .why(why)
        .evidence_if(bytes("binary log received", seen.received_per_s, "bytes/s"))
        .evidence_if(bytes("received and not applied", seen.backlog_bytes, "bytes"))
        .remedy(Remedy {
            statement: format!("START {word}{thread}"),
            why: effect.into(),
            dynamic: true,
            risk:
                "Who stopped it may have a reason: a backup that still runs, or a change that is to stay out."
                    .into(),
            undo: format!("STOP {word}{thread}"),
        })
        .finding()
}

/// A receiver that has no connection yet, and no error.
fn connecting(status: &str, source: &str) -> Finding {
    Draft::new(&CAUSE, NOTE, format!("The receiver is connecting to {source}: nothing comes meanwhile, and no error is named"))
        .why("Until its first try has failed there is no error. A host that answers nothing, as behind a firewall, fails after a minute or \
              two; a refused connection or login within a second.")
        .evidence(Evidence::new("the receiver", "Connecting", "", status))
        .remedy(Remedy {
            statement: format!(
                "{status}\\G again after a minute; on the replica: mysql -h HOST -P PORT -u ACCOUNT -p with what {status} names"
            ),
            why: "The second look has the error with its number; the login by hand has it at once.".into(),
            dynamic: true,
            risk: "It only reads.".into(),
            undo: String::new(),
        })
        .finding()
}

/// The source, for a headline, and which channel it is where that has a name.
fn source(seen: &KeepingUp) -> String {
    let place = match seen.channel.source_port {
        0 => seen.channel.source_host.clone(),
        port => format!("{}:{port}", seen.channel.source_host),
    };
    match seen.channel.name.as_str() {
        "" => place,
        name if place.is_empty() => format!("its source (channel {name})"),
        name => format!("{place} (channel {name})"),
    }
}

fn finding(window: &Window, seen: &KeepingUp, score: f64) -> Finding {
    let status = replica::asked(window.server.version);
    let channel = &seen.channel;
    let source = source(seen);
    let work = work(window);
    let behind_s = channel.behind_s.unwrap_or(0.0);
    let said = failure(seen).map(|failure| Said::new(window, channel, failure));
    let blocked = Blocked::from_window(window, seen).filter(|_| said.is_none());
    let headline = match &said {
        Some(said) => said.headline(&source),
        None => {
            let grows = match seen.growth {
                Some(growth) if growth >= GROWS => format!(", {growth:.1} s more each second"),
                Some(growth) if growth <= -GROWS => ", and catches up".to_owned(),
                _ => String::new(),
            };
            let source = if source.is_empty() { "its source" } else { &source };
            match channel.sql_delay_s.filter(|&delay_s| delay_s > 0.0) {
                Some(delay_s) => format!(
                    "The replica is {} behind {source} beyond its delay of {}{grows}",
                    number::roughly(channel.late_s().unwrap_or(0.0)),
                    number::roughly(delay_s)
                ),
                None => format!("The replica is {} behind {source}{grows}", number::roughly(behind_s)),
            }
        }
    };
    let scan = Scan::from_window(window).filter(|_| said.is_none() && blocked.is_none());
    let suspect = Suspect::from_channel(window, channel)
        .filter(|_| said.is_none() && blocked.is_none() && scan.is_none());
    let ends = [
        blocked.as_ref().and_then(Blocked::who),
        scan.as_ref().map(Scan::headline),
        suspect.as_ref().map(Suspect::headline),
    ];
    let headline = match ends.into_iter().flatten().next() {
        Some(who) => format!("{headline}: {who}"),
        None => headline,
    };
    let most = work.first();
    // What the applier reads and burns is counted as the server's; one that waits does neither.
    let explained: &[&str] =
        if blocked.is_some() { &[] } else { &[rows_read_waste::CAUSE.name, cpu_saturated::CAUSE.name] };
    Draft::new(&CAUSE, score, headline)
        .why(match (&blocked, &scan) {
            (Some(blocked), _) => blocked.why(),
            (None, Some(scan)) => scan.why().to_owned(),
            (None, None) => suspect.as_ref().map_or_else(|| why(seen, most), Suspect::why),
        })
        .evidence_if(channel.behind_s.map(|behind_s| {
            Evidence::new("behind the source", behind_s, "s", status)
                .expected(format!("<= {}", 1.0 + channel.sql_delay_s.unwrap_or(0.0)))
                .series(seen.behind.clone())
        }))
        .evidence_if(
            by_state(&channel.applier_state)
                .filter(|_| said.is_none())
                .map(|_| Evidence::new("the applier", channel.applier_state.clone(), "", status)),
        )
        .evidence_if(seen.growth.map(|growth| Evidence::new("grows each second by", growth, "s", status)))
        .evidence_if(
            seen.received_per_s.map(|bytes| Evidence::new("binary log received", bytes, "bytes/s", status)),
        )
        .evidence_if(
            seen.applied_per_s.map(|bytes| Evidence::new("binary log applied", bytes, "bytes/s", status)),
        )
        .evidence_all(said.iter().flat_map(|said| said.evidence(status)))
        .evidence_if(other_error(seen).map(|error| Evidence::new("error", error, "", status)))
        .evidence_if(most.map(|(what, share)| {
            Evidence::new("appliers seen at", format!("{:.0} % {what}", share * 100.0), "", "thread list")
        }))
        .evidence_if(scan.as_ref().map(Scan::evidence))
        .evidence_if(suspect.as_ref().map(|suspect| suspect.evidence(status)))
        .remedies(match (&said, &blocked) {
            (Some(said), _) => said.remedies(window),
            (None, Some(blocked)) => vec![blocked.remedy()],
            (None, None) => match (&scan, &suspect) {
                (Some(scan), _) => scan.remedies(window),
                (None, Some(suspect)) => {
                    suspect.remedies(window).into_iter().chain([what_takes_the_time()]).collect()
                }
                (None, None) => vec![what_takes_the_time()],
            },
        })
        .remedy_if(more_workers(window, seen).filter(|_| blocked.is_none() && scan.is_none()))
        .root(blocked.as_ref().and_then(Blocked::root))
        .explains(explained)
        .finding()
}

/// The error of the part that is not the one that stopped: the receiver's beside the applier's, and the last one of a part that runs again.
fn other_error(seen: &KeepingUp) -> Option<String> {
    let channel = &seen.channel;
    let others = match failure(seen) {
        Some(Failure::Applier) => [channel.receiver_error.as_str(), ""],
        Some(Failure::Receiver) => [channel.applier_error.as_str(), ""],
        None => [channel.applier_error.as_str(), channel.receiver_error.as_str()],
    };
    let error = others.into_iter().find(|error| !error.is_empty())?;
    Some(spindoctor_sql::error_without_values(error))
}

fn what_takes_the_time() -> Remedy {
    Remedy {
        statement: "spindoctor workload --replica".into(),
        why: "It shows by table, statement, kind of event and wait what the appliers spend their time on."
            .into(),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    }
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
        _ if failure(seen).is_some() => {
            return "It stays so until the error is mended and it is started again.".into();
        }
        _ if by_state(&seen.channel.applier_state).is_some() => {
            by_state(&seen.channel.applier_state).unwrap_or_default()
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

/// What the applier's own state says of its limit (sql/rpl_replica.cc, sql/rpl_mta_submode.cc; MariaDB: sql/rpl_parallel.cc).
fn by_state(state: &str) -> Option<&'static str> {
    const STATES: [(&str, &str); 6] = [
        (
            "for dependent transaction to commit",
            "The next transaction depends on one that is not committed yet, by what the source logged of them: until then the other \
             workers have nothing to do, and more of them do not help. One large transaction does that, or a source that finds few \
             transactions independent (binlog_transaction_dependency_tracking = WRITESET there, to MySQL 8.3).",
        ),
        (
            "for preceding transaction to commit",
            "Its workers have applied what comes next and wait for one transaction to commit before them \
             (replica_preserve_commit_order): that one is the limit.",
        ),
        (
            "for prior transaction to commit",
            "Its workers have applied what comes next and wait for one transaction to commit before them: that one is the limit.",
        ),
        (
            "semi-sync ack",
            "Each commit of the applier waits until a replica of this replica has acknowledged it (semi-sync is on here as a source): the \
             way there and back is the limit, or the timeout where none answers. SET GLOBAL rpl_semi_sync_source_enabled = OFF \
             (rpl_semi_sync_master_enabled before MySQL 8.0.26 and on MariaDB) lets it go on.",
        ),
        (
            "workers to free pending events",
            "Its workers have as many events waiting as they may hold (replica_pending_jobs_size_max): they are the limit.",
        ),
        (
            "worker to release partition",
            "A transaction that touches several schemas waits for the workers of each of them: by schema they cannot run beside each \
             other (replica_parallel_type = LOGICAL_CLOCK).",
        ),
    ];
    let state = state.to_ascii_lowercase();
    STATES.iter().find(|(sign, _)| state.contains(sign)).map(|(_, why)| *why)
}

/// Workers, where there is one: what commits alone on the source may run beside others here.
fn more_workers(window: &Window, seen: &KeepingUp) -> Option<Remedy> {
    if failure(seen).is_some() {
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
