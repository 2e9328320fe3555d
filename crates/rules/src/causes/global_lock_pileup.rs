//! `global-lock-pileup`: FLUSH TABLES WITH READ LOCK, backup locks, LOCK INSTANCE.

mod meaning;
mod pileup;
mod remedies;
#[cfg(test)]
mod tests;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Evidence, Finding, Sample, SessionTime, TimeClass, Unavailable, Window};

use super::{connections_exhausted, monitoring_overload, row_lock_pileup, thread_pool_starved};
use crate::draft::Draft;
use crate::sessions::Waiting;
use crate::time_model::InClasses;
use crate::wait_graph::{Verdict, all_behind, graph};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use pileup::Pileup;
pub(super) use remedies::SPOILT;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "global-lock-pileup",
    title: "FLUSH TABLES WITH READ LOCK, backup locks, LOCK INSTANCE",
    what: "A few statements lock the whole server. FLUSH TABLES WITH READ LOCK takes the global read lock (no \
           write begins), waits until no statement uses an old copy of any table, then takes the commit lock \
           (no commit ends). LOCK INSTANCE FOR BACKUP (MySQL 8.0) and BACKUP STAGE (MariaDB 10.4) keep DDL \
           out, and in their last stages commits. Backup tools and replica set-up issue them. The worst case \
           is a FLUSH that itself waits for a long query: it already holds the global lock, so every write on \
           the server queues behind somebody's report.",
    why_it_hurts: "All writes of the server stop, or all commits, or all DDL, for as long as the holder likes. A \
                   backup tool that hangs or a client that forgot UNLOCK TABLES leaves it so.",
    evidence: "Sessions in the states Waiting for global read lock, Waiting for commit lock, Waiting for backup \
               lock, Waiting for table flush, in each sample; metadata_locks of type GLOBAL, COMMIT and BACKUP. \
               It fires when sessions wait in about half of the samples, or where the stacks see them wait for 5 % of the \
               session time and half a session on average. The root is the owner of a granted \
               global lock other than the intention lock that every write takes; where that owner itself waits \
               for tables to be flushed, the root is the longest-running statement that is not waiting and may have one. \
               Without a list of locks a session that runs one of these statements is named, or as most likely the one that alone \
               was there before they waited and rests, or none. Where the owner waits \
               for a lock of another kind, the root is who has that. Waits for rows that those who wait have are explained. The \
               estimate is the share of the sessions' working time spent waiting.",
    looks_alike: "Waits for the metadata lock of one table are metadata-lock-pileup. Waiting for table flush also \
                  follows ANALYZE TABLE or FLUSH TABLES of one table that a long query still uses (before MySQL \
                  8.0.24 for ANALYZE): then one table is stuck, not all; the root is the long query either way. \
                  read_only and super_read_only refuse writes, they make nobody wait for long.",
    remedies: "Holder at rest: UNLOCK TABLES (UNLOCK INSTANCE, BACKUP STAGE END) in its session, or KILL it: the \
               locks go with the session. A FLUSH that waits: end the long query, and everyone goes on, those that write \
               once FLUSH TABLES WITH READ LOCK is unlocked. KILL of the \
               FLUSH frees those that wait for its lock; the copies of the tables that it flushed stay old, and a session \
               that opens one waits in Waiting for table flush until the long query ends (MySQL bug 44884). The same holds \
               of FLUSH TABLES and ANALYZE TABLE of one table. Take backups \
               with a tool that needs the lock only for an instant, from a replica, and with a limit on its wait \
               (--ftwrl-wait-timeout and the like).",
    safety: "KILL of the holder spoils the backup that it was taking; it rolls back nothing. KILL of a long \
             SELECT loses only that query. lock_wait_timeout limits how long a FLUSH waits, per session.",
    references: &[
        "MySQL Reference Manual: FLUSH TABLES WITH READ LOCK; LOCK INSTANCE FOR BACKUP",
        "MariaDB Knowledge Base: BACKUP STAGE",
        "MySQL bug 44884: a table stays flushed when the FLUSH is killed",
    ],
    costs: Costs::Waits(&[TimeClass::GlobalLock]),
    explains_time: &[TimeClass::GlobalLock, TimeClass::MetadataLock, TimeClass::TableCache],
    stacks: Stacks::Standing(&[
        "MDL_wait::timed_wait",
        "Global_read_lock::wait_if_global_read_lock", // up to 5.1
    ]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// What follows from such waits.
const EXPLAINED: [&str; 3] =
    [connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name, monitoring_overload::CAUSE.name];

/// Sessions waiting on average: one in half of the samples. A backup takes the locks for an instant and is
/// seen in one sample at most.
const WAITERS: f64 = 0.5;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    examine(window, time).into()
}

fn examine(window: &Window, time: &SessionTime) -> Result<Option<Finding>, Unavailable> {
    let waiting = Waiting::count(window, waits)?;
    let account = InClasses::from_time(time, &[TimeClass::GlobalLock]);
    if waiting.mean < WAITERS && account.is_none() {
        return Ok(None);
    }
    let (waiters, lost_ratio) = waiting.with_account(account.as_ref());
    let pileup = Pileup::from_window(window, waiters as u64);
    // Who waits for the server keeps its rows meanwhile.
    let rows_behind =
        all_behind(&graph(window, pileup.sample), &[LockKind::Row], &[LockKind::Global, LockKind::Backup]);
    let explained = rows_behind.then_some(row_lock_pileup::CAUSE.name).into_iter();
    let explained: Vec<&str> = EXPLAINED.into_iter().chain(explained).collect();
    Ok(Some(
        Draft::new(&CAUSE, lost_ratio, pileup.headline())
            .why(pileup.why())
            .evidence_if(
                pileup
                    .unlock()
                    .map(|unlock| Evidence::new("what would name the holder", unlock, "", "metadata locks")),
            )
            .evidence(
                Evidence::new("sessions waiting for a global lock", waiting.mean, "", "thread list, state")
                    .expected("0")
                    .series(waiting.series.clone()),
            )
            .evidence(
                Evidence::new("share of the sessions at work", waiting.lost_ratio(), "ratio", "thread list")
                    .expected("0"),
            )
            .evidence_if(account.map(|account| {
                Evidence::new("sessions that wait so", account.sessions, "", account.source())
            }))
            .evidence(Evidence::new("they are", states(pileup.sample), "", "thread list, state"))
            .remedies(pileup.remedies())
            .root(pileup.culprit.as_ref().map(Verdict::described))
            .explains(&explained)
            .finding(),
    ))
}

/// True for a session that waits for a lock of the whole server, or for tables to be flushed.
fn waits(thread: &ServerThread) -> bool {
    let state = thread.state.to_ascii_lowercase();
    [
        "waiting for global read lock",
        "waiting for commit lock",
        "waiting for backup lock",
        "waiting for binlog lock",
        "waiting for table flush",
        "waiting for global metadata lock",
        "waiting for release of readlock",
    ]
    .iter()
    .any(|wait| state.starts_with(wait))
}

/// The waiting states with their counts.
fn states(sample: &Sample) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for thread in sample.server.threads.value().into_iter().flatten().filter(|thread| waits(thread)) {
        match counts.iter_mut().find(|(state, _)| *state == thread.state) {
            Some((_, count)) => *count += 1,
            None => counts.push((&thread.state, 1)),
        }
    }
    counts.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}
