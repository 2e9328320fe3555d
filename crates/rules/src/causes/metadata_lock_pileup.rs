//! `metadata-lock-pileup`: a DDL waits for an old transaction, and everyone waits for the DDL.

mod by_stacks;
mod ground;
mod meaning;
mod pileup;
pub(in crate::causes) mod queue;
mod remedies;
#[cfg(test)]
mod tests;

use spindoctor_model::{Evidence, Finding, SessionTime, Severity, TimeClass, Unavailable, Window};

use super::{connections_exhausted, thread_pool_starved};
use crate::draft::Draft;
use crate::rank::severity;
use crate::sessions::{self, Waiting};
use crate::time_model::InClasses;
use crate::wait_graph::Verdict;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use pileup::Pileup;
use queue::waits;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "metadata-lock-pileup",
    title: "a DDL waits for an old transaction and everyone waits for the DDL",
    what: "Every statement takes a metadata lock on each table it uses and keeps it until its transaction ends, \
           a plain SELECT in an open transaction included. ALTER, DROP, TRUNCATE, RENAME, CREATE TRIGGER, \
           OPTIMIZE and LOCK TABLES need the table for themselves and wait for all of these. While the DDL \
           waits, every newer statement on that table queues behind it, although it would get along with the \
           transactions before.",
    why_it_hurts: "One forgotten transaction and one quick DDL stop a table altogether: each client that touches \
                   it hangs for lock_wait_timeout (a year on MySQL, a day on MariaDB), and the connections fill \
                   up.",
    evidence: "Sessions in a state `Waiting for ... metadata lock`, in each sample; metadata_locks, pending and \
               granted (performance_schema, or MariaDB's plugin, which lists granted ones only). It fires when \
               sessions wait in about half of the samples, or where the stacks see them wait for 5 % of the session time and \
               half a session on average.\n\n\
               The root is the owner of a granted lock on the \
               wanted table that is not waiting, in the most of the samples; where the owner waits for another lock, who \
               has that. Without a list of locks it is, as most likely, a DDL at work on the table, a statement at work that \
               names it, or the one open transaction that is older than the wait of the DDL or the one among these whose last \
               statement names the table; where the table is locked by name, the session that goes on with it, the one dump at work, \
               or the one that was there before and rests; the table is then the one that the DDL names and every statement that waits. Where it may \
               be one of several, none is named. Of captured stacks without a list of sessions it is said that they wait, and no \
               holder.\n\n\
               The estimate is the share of the sessions' working time spent waiting; a DDL that waits alone is a warning, \
               because the pile-up is only a statement away.",
    looks_alike: "Waits for rows inside InnoDB are row-lock-pileup. `Waiting for table flush`, `Waiting for \
                  global read lock` and backup locks are global-lock-pileup. `Waiting for table level lock` is \
                  MyISAM or LOCK TABLES. A DDL that runs is not a DDL that waits: look at its state.",
    remedies: "End the holder (KILL id), or end the DDL: everyone behind it goes on at once, and the DDL can be \
               tried again at a better time. Run DDL with a short lock_wait_timeout (SET SESSION \
               lock_wait_timeout = 5) and try again; MariaDB has ALTER TABLE ... NOWAIT and WAIT n. Online \
               schema change tools need the lock too, for a moment at the end.",
    safety: "KILL of an idle transaction rolls its changes back. KILL of a DDL that only waits costs nothing but \
             the DDL. A session lock_wait_timeout ends with the session.",
    references: &[
        "MySQL Reference Manual: Metadata Locking; The metadata_locks Table",
        "MySQL WL#9629: metadata lock instrumentation on by default (8.0)",
        "MariaDB Knowledge Base: METADATA_LOCK_INFO plugin; WAIT and NOWAIT",
    ],
    costs: Costs::Waits(&[TimeClass::MetadataLock]),
    explains_time: &[TimeClass::MetadataLock],
    // Those of GET_LOCK are user-lock-pileup's.
    stacks: Stacks::StandingBut(&["MDL_wait::timed_wait"], &["Item_func_get_lock::val_int"]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// Sessions waiting on average: one in half of the samples. A quick DDL on a busy table waits for an
/// instant and is seen in one sample at most.
const WAITERS: f64 = 0.5;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    examine(window, time).into()
}

fn examine(window: &Window, time: &SessionTime) -> Result<Option<Finding>, Unavailable> {
    let account = InClasses::from_time(time, &[TimeClass::MetadataLock]);
    let waiting = match (Waiting::count(window, waits), &account) {
        // Stacks that somebody captured alone show the wait as well, and nothing more.
        (Err(_), Some(account)) if window.is_given() => {
            return Ok(Some(by_stacks::finding(window, account)));
        }
        (counted, _) => counted?,
    };
    if waiting.mean < WAITERS && account.is_none() {
        return Ok(None);
    }
    let (waiters, lost_ratio) = waiting.with_account(account.as_ref());
    let pileup = Pileup::from_window(window, waiters as u64, waiting.mean < WAITERS);
    // One client is blocked, not the server.
    let most = if waiters < 2.0 { Severity::Warning } else { Severity::Critical };
    Ok(Some(
        Draft::new(&CAUSE, lost_ratio, pileup.headline())
            .severity(severity(lost_ratio).min(most))
            .why(pileup.why())
            .evidence(
                Evidence::new("sessions waiting for a metadata lock", waiting.mean, "", "thread list, state")
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
            .evidence_all(evidence(&pileup).into_iter())
            .remedies(pileup.remedies())
            .root(pileup.culprit.as_ref().map(Verdict::described))
            .explains(&[connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name])
            .finding(),
    ))
}

/// For how long they wait, for what, and behind whom.
fn evidence(pileup: &Pileup<'_>) -> Vec<Evidence> {
    let Pileup { window, server, .. } = *pileup;
    let longest = queue::longest_s(server).filter(|_| window.is_given());
    let ddl = queue::commonest_ddl(window);
    let first = pileup.ddl.and_then(|ddl| ddl.statement.as_deref());
    let open =
        pileup.culprit.as_ref().and_then(|culprit| sessions::transaction(server, culprit.connection_id));
    // Of a chain the root does not hold the table.
    let whose = match pileup.culprit.as_ref().filter(|culprit| culprit.chain.is_some()) {
        Some(root) => format!("the transaction of connection {} is open for", root.connection_id),
        None => "the holder's transaction is open for".to_owned(),
    };
    [
        longest.map(|s| Evidence::new("longest wait", s, "s", "thread list")),
        ddl.map(|(counter, per_s)| {
            Evidence::new("DDL", per_s, "1/s", &format!("SHOW GLOBAL STATUS {counter}"))
        }),
        pileup.table.clone().map(|table| Evidence::new("wanted", table, "", "metadata locks")),
        pileup
            .named
            .clone()
            .map(|table| Evidence::new("wanted, by the statements", table, "", "thread list")),
        first.map(|statement| {
            Evidence::new("first in the queue", sessions::shortened(statement), "", "thread list")
        }),
        open.map(|open| Evidence::new(&whose, open.age_s, "s", sessions::transactions_source(window))),
    ]
    .into_iter()
    .flatten()
    .collect()
}
