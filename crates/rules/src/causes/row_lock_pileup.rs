//! `row-lock-pileup`: many transactions wait for one row.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::{RowLockWait, ServerSample, Transaction};
use spindoctor_model::wait_graph::{LockKind, WaitRoot};
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Finding, Remedy, Sample, TimeClass, Unavailable, Window, number};

use super::{connections_exhausted, thread_pool_starved};
use crate::draft::Draft;
use crate::rank::WARNING_FROM;
use crate::row_lock_time;
use crate::sessions::{self, Waiting, mean};
use crate::wait_graph::{ROLLING_BACK, Ring, Verdict, without_connection};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "row-lock-pileup",
    title: "many transactions wait for one row",
    what: "InnoDB locks the rows that a transaction changes, and those that it reads FOR UPDATE or FOR SHARE, \
           until the transaction ends. Others that want the same row queue for it. Two shapes: one transaction \
           that stays open blocks all the others (often it is idle: its client went away to do something \
           else), or a hot row that every transaction wants, where the holder changes all the time and the \
           queue never empties.",
    why_it_hurts: "Behind one row, work is done one at a time, however many CPUs there are. Waiting transactions \
                   hold the locks they already have, so the queue grows in breadth; clients time out, retry, and \
                   fill max_connections.",
    evidence: "In each sample, who waits for whose row lock (performance_schema.data_lock_waits from 8.0, \
               information_schema.INNODB_LOCKS before and on MariaDB), transactions in LOCK WAIT, and \
               Innodb_row_lock_current_waits. It fires when sessions wait that are 5 % or more of those at work, and half a \
               session or more on average (a quarter by the time that InnoDB counts), or one waits for 5 s and more. The root is the \
               transaction that is not waiting and blocks the most; it is one holder when the same \
               connection is the root in half of the samples with waits, else the row is hot. The estimate is the \
               share of the sessions' working time spent waiting. Where the lock tables cannot be read, the \
               counters show that there are waits, and no root is named.",
    looks_alike: "Waits for table metadata lock are another lock, above InnoDB: metadata-lock-pileup. Lock waits \
                  of a few milliseconds are normal traffic of a busy server. Statements that wait for a page \
                  latch or a mutex show no lock wait at all. A holder that itself waits for a commit to reach \
                  the disk points to commit-sync-bound.",
    remedies: "One holder: end it (KILL id), then find out why the client leaves a transaction open; set a limit \
               on idle transactions in the pool, or idle_transaction_timeout on MariaDB 10.3 and later. A hot \
               row: make the transaction shorter, touch the hot row last, add up in batches, split the counter \
               into several rows, or use FOR UPDATE SKIP LOCKED for queues. An UPDATE without a fitting index \
               locks every row it reads: give it one.",
    safety: "KILL rolls the holder back: its changes are lost and undoing them takes about as long as making \
             them did, the locks staying until then. Lowering innodb_lock_wait_timeout makes waiters fail \
             sooner with error 1205, which rolls back the statement, not the transaction; it is dynamic, and \
             holds for sessions that start later.",
    references: &[
        "MySQL Reference Manual: InnoDB Locking; The data_lock_waits Table",
        "MariaDB Knowledge Base: Information Schema INNODB_LOCKS; idle_transaction_timeout",
    ],
    costs: Costs::Waits(&[TimeClass::RowLock]),
    explains_time: &[TimeClass::RowLock],
    stacks: Stacks::Standing(&[
        "lock_wait_suspend_thread", // 5.6 and later
        "srv_suspend_mysql_thread", // before
        "lock_wait",                // MariaDB 10.6 and later
    ]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Sessions waiting on average, below which two clients meet now and then.
const WAITERS: f64 = 0.5;

/// The same by the time that InnoDB counts: it misses no wait, where a list once a second sees few of the short ones, so that less of it
/// is no chance. The few that are at work wait for each other.
const WAITERS_COUNTED: f64 = 0.25;

/// Sessions waiting on average that are a queue even where nobody knows how many are at work, and whatever one of them waits for.
const QUEUE: f64 = 2.0;

/// Share of the sessions at work that wait, as of any other wait that is worth a warning.
const WAITING_RATIO: f64 = WARNING_FROM;

/// A single wait of this length is no short meeting: a tenth of the default innodb_lock_wait_timeout.
const LONG_WAIT_S: f64 = 5.0;

/// A single long wait is worth a warning at most: one client is blocked, not the server.
const SINGLE_WAIT_SCORE: f64 = 0.15;

/// Holders that stay the root in half of the samples are one holder and not a hot row.
const SAME_HOLDER: f64 = 0.5;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine<'w>(window: &'w Window) -> Result<Option<Finding>, Unavailable> {
    let each = |waiters: fn(&ServerSample) -> Option<f64>| -> Vec<(f64, &'w Sample, f64)> {
        let waiting = |sample: &'w Sample| Some((sample.at_s, sample, waiters(&sample.server)?));
        window.samples.iter().filter_map(waiting).collect()
    };
    // The gauge of a sample without lists is of another moment than those that were looked at.
    let mut waiting = each(listed);
    if waiting.is_empty() {
        waiting = each(gauge);
    }
    if waiting.is_empty() {
        return Err(window
            .missing(|s| &s.server.row_lock_waits)
            .unwrap_or_else(|| Unavailable::because("no source shows who waits for row locks")));
    }
    let series: Series = waiting.iter().map(|&(at_s, _, waiters)| (at_s, waiters)).collect();
    let seen = mean(series.iter().map(|&(_, waiters)| waiters));
    let counted = row_lock_time::counted(window).unwrap_or(0.0);
    let mean_waiters = seen.max(counted);
    let running = || {
        let running = window.status_series("Threads_running");
        // The session that asks is one of them.
        (!running.is_empty()).then(|| (mean(running.iter().map(|&(_, running)| running)) - 1.0).max(0.0))
    };
    let at_work = Waiting::count(window, |_| false).map(|all| all.at_work_mean).ok().or_else(running);
    let ratio = mean_waiters / at_work.unwrap_or(mean_waiters).max(mean_waiters).max(1.0);
    let longest_s = window
        .samples
        .iter()
        .filter_map(|sample| sample.server.row_lock_waits.value())
        .flatten()
        .map(|wait| wait.waited_s)
        .fold(0.0, f64::max);

    // Who gives one wait without its length gives it because it was long.
    let is_long = longest_s >= LONG_WAIT_S || longest_s == 0.0 && window.is_given();
    let single = mean_waiters >= WAITERS && is_long;
    let least = match (single || at_work.is_none(), counted >= WAITERS_COUNTED) {
        (true, _) => QUEUE,
        (false, true) => WAITERS_COUNTED,
        (false, false) => WAITERS,
    };
    let queue = mean_waiters >= least && ratio >= WAITING_RATIO;
    if !queue && !single {
        return Ok(None);
    }
    let score = if queue { ratio } else { ratio.min(SINGLE_WAIT_SCORE) };

    let roots: Vec<Vec<(usize, Verdict<'_>)>> = waiting
        .iter()
        .map(|&(_, sample, _)| Verdict::all(window, sample, &[LockKind::Row]))
        .filter(|roots| !roots.is_empty())
        .collect();
    let latest = roots.last().and_then(|roots| roots.first()).map(|(_, root)| root);
    let last = waiting.last().map(|&(_, sample, _)| sample);
    let unattached = last
        .filter(|_| latest.is_none())
        .and_then(|sample| Some((sample, without_connection(window, sample, &[LockKind::Row])?)));
    let is_unattached = unattached.is_some();
    let is_of =
        |root: &Verdict<'_>, (_, other): &(usize, Verdict<'_>)| other.connection_id == root.connection_id;
    // At its end one lets go of them one by one.
    let held_up = |root: &Verdict<'_>| {
        let behind = roots.iter().flatten().filter(|other| is_of(root, other)).map(|(behind, _)| *behind);
        behind.max().unwrap_or(0)
    };
    // Of one list, as somebody captured it, the length of the wait shows that the holder stays.
    let is_long_in_one_list = waiting.len() == 1 && is_long;
    let stays = |root: &Verdict<'_>| {
        let same = roots.iter().filter(|roots| roots.iter().any(|other| is_of(root, other))).count();
        is_long_in_one_list || roots.len() >= 2 && same as f64 >= SAME_HOLDER * roots.len() as f64
    };
    let one_holder = latest.is_some_and(stays);
    // Others that stay hold rows of their own, and a session that wants these waits on when the first is gone.
    let of_end = roots.last().into_iter().flatten().skip(1).filter(|_| one_holder);
    let others: Vec<&(usize, Verdict<'_>)> =
        of_end.filter(|(behind, root)| *behind >= BEHIND_ANOTHER && stays(root)).take(OTHERS).collect();
    let root = latest.map(Verdict::described);
    let place = most_wanted(window);
    let on = place.as_ref().map_or_else(String::new, |wait| format!(" on {}", wait.table));
    let ring = last
        .filter(|_| latest.is_none() && !is_unattached)
        .and_then(|sample| Some(Ring::from_window(window, sample, LockKind::Row)?.sentence()));
    let is_one_list = waiting.len() == 1 && window.is_given();
    // Who has the lock and waits for none, where the list has no connection of it.
    let nameless: BTreeSet<&String> = last
        .filter(|_| is_one_list && latest.is_none() && !is_unattached)
        .map(|sample| {
            sample.server.row_lock_waits.value().into_iter().flatten().collect::<Vec<&RowLockWait>>()
        })
        .map(|waits| {
            let holders = waits
                .iter()
                .filter(|wait| wait.blocking_connection_id.is_none())
                .map(|wait| &wait.blocking_transaction);
            let waits_itself = |id: &String| waits.iter().any(|wait| wait.waiting_transaction == *id);
            holders.filter(|id| !id.is_empty() && !waits_itself(id)).collect()
        })
        .unwrap_or_default();
    let headline = match (&root, latest) {
        (Some(described), Some(verdict)) if one_holder => format!(
            "Connection {} blocks {}{}: it {}{}{}",
            verdict.connection_id,
            transactions(held_up(verdict)),
            // What most want is the second's.
            if verdict.second.is_some() { "" } else { &on },
            sessions::doing(described),
            chained(verdict, &on),
            beside(&others)
        ),
        _ if is_one_list => format!(
            "{} for row locks{on}{}",
            number::counted(mean_waiters.round() as u64, "session waits", "sessions wait"),
            if longest_s > 0.0 {
                format!(", for up to {}", number::duration(longest_s))
            } else {
                String::new()
            }
        ),
        _ => format!("{mean_waiters:.1} sessions on average wait for row locks{on}"),
    };
    // What was not read in a list of lock waits has no index.
    let is_inferred = window.is_given()
        && last
            .and_then(|sample| sample.server.row_lock_waits.value())
            .is_some_and(|waits| waits.iter().all(|wait| wait.index.is_empty() && wait.record.is_empty()));
    Ok(Some(
        Draft::new(&CAUSE, score, headline)
            .why(match (one_holder, &root) {
                _ if ring.is_some() => ring.as_deref().unwrap_or_default(),
                (true, _) if !others.is_empty() => {
                    "Each of these transactions holds rows of its own, and all others queue behind one of them: ending one frees those \
                     behind it alone."
                }
                (true, _) if waiting.len() == 1 && is_inferred => {
                    "Who has the lock is inferred: of the open transactions this one alone has locked rows, waits for none, and is as old as \
                     the longest wait."
                }
                (true, _) if waiting.len() == 1 => "The transaction that holds the lock is named; the others wait for its end.",
                (true, _) => "The same transaction holds the lock through the window; all others queue behind it.",
                (false, Some(_)) if waiting.len() == 1 => {
                    "One list says who has the lock at that moment; whether it stays, a second list would say."
                }
                (false, Some(_)) => {
                    "The holder changes from sample to sample: the row is wanted by all, and each has it in turn."
                }
                (false, None) => match &unattached {
                    Some((sample, root)) => why_unattached(sample, root),
                    None if !nameless.is_empty() => {
                        "The list names the transaction that has the lock, and not its connection: information_schema.INNODB_TRX \
                         has both (trx_id, trx_mysql_thread_id)."
                    }
                    None if is_one_list && last.is_some_and(|sample| sample.server.row_lock_waits.value().is_some()) => {
                        "What was given shows who waits, and not who has the lock. The whole SHOW ENGINE INNODB STATUS of such a moment \
                         names it, best with innodb_status_output_locks = ON, or sys.innodb_lock_waits does."
                    }
                    None => "The counters show that sessions wait; what blocks them could not be read.",
                },
            })
            .evidence(
                // What is within its bound is not what speaks for the cause.
                expected_if(
                    queue,
                    Evidence::new("sessions waiting for a row lock", mean_waiters, "", "INNODB_TRX, lock waits"),
                    format!("< {least}"),
                )
                .series(series),
            )
            .evidence(expected_if(
                queue,
                Evidence::new("share of the sessions at work", ratio, "ratio", "thread list"),
                format!("< {WAITING_RATIO}"),
            ))
            .evidence_if((longest_s > 0.0).then(|| {
                let longest = Evidence::new("longest wait", longest_s, "s", "lock waits");
                expected_if(longest_s >= LONG_WAIT_S, longest, format!("< {LONG_WAIT_S:.0}"))
            }))
            .evidence_if(place.as_ref().map(|wait| {
                let record = if wait.record.is_empty() { "" } else { " record " };
                Evidence::new(
                    "most wanted",
                    format!(
                        "{}{}{}{record}{}",
                        wait.table,
                        if wait.index.is_empty() { "" } else { " index " },
                        wait.index,
                        spindoctor_sql::record_without_texts(&wait.record)
                    ),
                    "",
                    "lock waits",
                )
            }))
            .evidence_all(last.filter(|_| is_one_list).into_iter().flat_map(who_waits))
            .evidence_all(nameless.iter().take(SHOWN).map(|holder| {
                // A list without ids of transactions has those of threads, with that word.
                let who = if holder.contains(' ') { (*holder).clone() } else { format!("transaction {holder}") };
                Evidence::new("has the lock", who, "", "lock waits")
            }))
            .evidence_all(
                last.filter(|_| is_one_list && latest.is_none() && nameless.is_empty()).into_iter().flat_map(|sample| who_may_hold(sample, longest_s)),
            )
            .evidence_if(window.status_per_s("Innodb_row_lock_waits").map(|per_s| {
                Evidence::new("row lock waits begun", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_row_lock_waits")
            }))
            .remedy_if(latest.filter(|_| one_holder || !queue).and_then(|verdict| {
                let others = held_up(verdict);
                verdict.remedy(&format!("It is not waiting, and blocks {}.", transactions(others)))
            }))
            .remedies(others.iter().filter_map(|(behind, verdict)| {
                verdict.remedy(&format!("It is not waiting either, and blocks {}.", transactions(*behind)))
            }))
            .remedy_if(is_unattached.then(look_at_unattached))
            .remedy_if((queue && !one_holder && !is_unattached).then(|| Remedy {
                statement: "Shorten the transactions that change the hot row; change it last, or spread it over \
                            several rows"
                    .into(),
                why: "Each has the row from its change to its commit, and only one can have it at a time.".into(),
                dynamic: true,
                risk: "A change of the application.".into(),
                undo: String::new(),
            }))
            .remedy_if(shorter_timeout(window))
            .root(root)
            .explains(&[connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name])
            .finding(),
    ))
}

/// Sessions of each kind that the evidence of a single list shows.
const SHOWN: usize = 3;

/// Who waits in a list that somebody captured, the longest first.
fn who_waits(sample: &Sample) -> Vec<Evidence> {
    let all = sample.server.transactions.value().into_iter().flatten();
    let mut waiting: Vec<&Transaction> = all.filter(|one| one.state == "LOCK WAIT").collect();
    waiting.sort_by(|one, other| other.waited_s.unwrap_or(0.0).total_cmp(&one.waited_s.unwrap_or(0.0)));
    let sentence = |one: &Transaction| {
        let who = match one.connection_id {
            Some(id) => format!("connection {id}"),
            None => format!("transaction {}", one.id),
        };
        let since =
            one.waited_s.map_or_else(String::new, |waited_s| format!(" for {}", number::duration(waited_s)));
        let thread = one.connection_id.and_then(|id| sessions::session(&sample.server, id));
        let statement = one.statement.as_deref().or_else(|| thread?.statement.as_deref());
        let runs =
            statement.map_or_else(String::new, |statement| format!(": {}", sessions::shortened(statement)));
        Evidence::new("waits", format!("{who}{since}{runs}"), "", "lock waits")
    };
    waiting.into_iter().take(SHOWN).map(sentence).collect()
}

/// Of a status: the transactions that have locks of rows, wait for none, and are as old as the longest wait. Each may be the holder.
fn who_may_hold(sample: &Sample, longest_s: f64) -> Vec<Evidence> {
    let listed =
        sample.server.innodb_status.value().into_iter().flat_map(|status| &status.transactions.transactions);
    let can = listed.filter(|one| {
        one.active
            && !one.lock_wait
            && one.row_locks.is_some_and(|rows| rows > 0)
            // Ages are printed in whole seconds.
            && one.active_s.is_some_and(|active_s| active_s + 1.0 >= longest_s)
    });
    can.take(SHOWN)
        .map(|one| {
            let who = match one.connection_id {
                Some(id) => format!("connection {id}"),
                None => format!("transaction {}, whose connection is not in what was given", one.id),
            };
            let open = number::duration(one.active_s.unwrap_or(0.0));
            let rows = number::counted(one.row_locks.unwrap_or(0), "row locked", "rows locked");
            Evidence::new("may have the lock", format!("{who}: open for {open}, {rows}"), "", "INNODB STATUS")
        })
        .collect()
}

/// What a transaction without a connection is, as far as the readings show it.
fn why_unattached(sample: &Sample, root: &WaitRoot) -> &'static str {
    let prepared = sample.server.prepared_xa.value();
    if root.doing == ROLLING_BACK {
        "The transaction that holds the lock has no connection: InnoDB rolls it back, because its client was lost or the server \
         recovers from a crash. Its locks are kept until that has ended; no KILL and no restart makes it shorter."
    } else if prepared.is_some_and(Vec::is_empty) {
        "The transaction that holds the lock has no connection, XA RECOVER lists nothing, and it does not roll back. After a crash \
         InnoDB rolls back what was open, one transaction after the other, and each keeps its locks until its turn has ended; \
         else it is not known what it is."
    } else {
        "The transaction that holds the lock has no connection: it was prepared by XA, or InnoDB rolls it back."
    }
}

/// How to learn what a transaction without a connection is.
fn look_at_unattached() -> Remedy {
    Remedy {
        statement: "SELECT trx_id, trx_state, trx_started, trx_rows_modified FROM information_schema.INNODB_TRX WHERE \
                    trx_mysql_thread_id = 0; again after some seconds"
            .into(),
        why: "Where trx_rows_modified falls it is being rolled back, and that number by its pace is the time to go. Where it stays, \
              look at the error log: InnoDB writes there which transactions it recovers at its start."
            .into(),
        dynamic: true,
        risk: "It reads a list.".into(),
        undo: String::new(),
    }
}

/// A reading, and what is expected of it where it is not so.
fn expected_if(is_beyond: bool, evidence: Evidence, expected: String) -> Evidence {
    if is_beyond { evidence.expected(expected) } else { evidence }
}

/// `1 transaction`, `14 transactions`
fn transactions(count: usize) -> String {
    format!("{count} transaction{}", if count == 1 { "" } else { "s" })
}

/// `; 25 of them wait on shop.stock behind connection 8, which waits for it`
fn chained(root: &Verdict<'_>, on: &str) -> String {
    root.second.map_or_else(String::new, |(second, behind)| {
        format!("; {behind} of them wait{on} behind connection {second}, which waits for it")
    })
}

/// `; connection 8 blocks 28 more`
fn beside(others: &[&(usize, Verdict<'_>)]) -> String {
    let each = others
        .iter()
        .map(|(behind, root)| format!("; connection {} blocks {behind} more", root.connection_id));
    each.collect()
}

/// Who blocks so many is named beside the first: of fewer there are always some. Chosen.
const BEHIND_ANOTHER: usize = 3;

/// How many are named beside the first.
const OTHERS: usize = 3;

/// What a shorter wait for a row may be, seconds: most statements of an application are given up by their clients by then. Chosen.
const SHORT_TIMEOUT_S: f64 = 5.0;

/// To let who waits for a row give up sooner, where it is not soon enough already.
pub(super) fn shorter_timeout(window: &Window) -> Option<Remedy> {
    let timeout_s = window.variable_number("innodb_lock_wait_timeout");
    timeout_s.is_none_or(|timeout_s| timeout_s > SHORT_TIMEOUT_S).then(|| Remedy {
        statement: format!("SET GLOBAL innodb_lock_wait_timeout = {SHORT_TIMEOUT_S}"),
        why: format!("Waiters fail after {SHORT_TIMEOUT_S} s instead of filling the connections."),
        dynamic: true,
        risk: "Clients must handle error 1205; holds for sessions that start later.".into(),
        undo: format!(
            "SET GLOBAL innodb_lock_wait_timeout = {}",
            window.variable("innodb_lock_wait_timeout").unwrap_or("50")
        ),
    })
}

/// Sessions that wait for a row lock in one sample, as the lists show them; None where none was read.
fn listed(server: &ServerSample) -> Option<f64> {
    let all = || server.row_lock_waits.value().into_iter().flatten();
    let waits =
        server.row_lock_waits.value().map(|_| distinct_waiters(all().filter(|wait| !is_for_a_counter(wait))));
    let counters: BTreeSet<&String> =
        all().filter(|wait| is_for_a_counter(wait)).map(|wait| &wait.waiting_transaction).collect();
    let in_lock_wait = server.transactions.value().map(|transactions| {
        let wants_a_row = |t: &&Transaction| !counters.contains(&t.id) && !wants_a_table(t);
        transactions.iter().filter(|t| t.state == "LOCK WAIT").filter(wants_a_row).count()
    });
    waits.max(in_lock_wait).map(|waiters| waiters as f64)
}

/// The same as counted by the server. A gauge that went below zero is no answer (it wraps around in some versions).
fn gauge(server: &ServerSample) -> Option<f64> {
    let waits = server.status.value()?.number("Innodb_row_lock_current_waits")?;
    (waits < 1e6).then_some(waits)
}

/// A wait for a table's AUTO_INCREMENT counter is another cause's.
fn is_for_a_counter(wait: &RowLockWait) -> bool {
    wait.mode.starts_with("AUTO_INC")
}

/// The lock that is requested is one of a table, as that of its counter is. `INNODB_TRX.trx_requested_lock_id` of a row's lock is
/// `4711:52:4:2` (transaction, space, page, place; MariaDB, MySQL up to 5.7) or `1407:4:5:9:1408` (8.0), of a table's `4711:1045` or
/// `1407:1045:1408`.
fn wants_a_table(transaction: &Transaction) -> bool {
    transaction.requested_lock.as_ref().is_some_and(|id| matches!(id.matches(':').count(), 1 | 2))
}

fn distinct_waiters<'w>(waits: impl Iterator<Item = &'w RowLockWait>) -> usize {
    waits.map(|wait| &wait.waiting_transaction).collect::<BTreeSet<_>>().len()
}

/// The wait whose place is waited for the most, over all samples.
fn most_wanted(window: &Window) -> Option<RowLockWait> {
    let mut places: BTreeMap<(&str, &str, &str), (usize, &RowLockWait)> = BTreeMap::new();
    for sample in &window.samples {
        for wait in sample.server.row_lock_waits.value().into_iter().flatten() {
            if !wait.table.is_empty() {
                places.entry((&wait.table, &wait.index, &wait.record)).or_insert((0, wait)).0 += 1;
            }
        }
    }
    places.into_values().max_by_key(|(waits, _)| *waits).map(|(_, wait)| wait.clone())
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// One waits for 20 s for the row of a transaction; fourteen others are behind the same connection's metadata lock.
    fn one_long_wait(holder: Option<u64>) -> Window {
        Build::busy("8.0.36")
            .sessions(|_| {
                let mut sessions =
                    vec![session(7, "Sleep", "", ""), session(20, "Query", "updating", "UPDATE t")];
                sessions.extend((30..44).map(|id| session(id, "Query", "executing", "SELECT 1")));
                sessions
            })
            .each(move |at_s, server, _| {
                let mut open = vec![transaction(20, "LOCK WAIT", 20.0)];
                open.extend(holder.map(|id| transaction(id, "RUNNING", 60.0)));
                server.transactions = answer(at_s, open);
                server.row_lock_waits = answer(
                    at_s,
                    vec![RowLockWait {
                        waiting_connection_id: Some(20),
                        blocking_connection_id: holder,
                        waiting_transaction: "9020".into(),
                        blocking_transaction: "421".into(),
                        table: "shop.stock".into(),
                        waited_s: 20.0,
                        ..RowLockWait::default()
                    }],
                );
            })
            .window()
    }

    #[test]
    fn a_single_long_wait_rests_on_its_length_and_counts_itself_alone() {
        let Outcome::Fired(finding) = evaluate(&one_long_wait(Some(7))) else { panic!("it fires") };
        assert!(finding.headline.starts_with("Connection 7 blocks 1 transaction on"), "{}", finding.headline);
        let beyond: Vec<&str> = finding
            .evidence
            .iter()
            .filter(|evidence| !evidence.expected.is_empty())
            .map(|evidence| evidence.reading.as_str())
            .collect();
        assert_eq!(beyond, ["longest wait"], "what is within its bound is no evidence");
    }

    #[test]
    fn where_the_holder_has_no_connection_nobody_is_sent_to_the_hot_row() {
        let unattached = one_long_wait(None);
        let Outcome::Fired(finding) = evaluate(&unattached) else { panic!("it fires") };
        assert!(finding.why.contains("it was prepared by XA, or InnoDB rolls it back"), "{}", finding.why);
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("hot row")));
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
        assert_eq!(crate::diagnose(&unattached).findings[0].cause, "prepared-xa-left");
    }

    /// Connection 7 holds a row that sixteen want, 8 one that nine others want.
    fn two_holders() -> Build {
        let wait = |waiting: u64, blocking: u64| RowLockWait {
            waiting_connection_id: Some(waiting),
            blocking_connection_id: Some(blocking),
            waiting_transaction: (waiting + 9000).to_string(),
            blocking_transaction: (blocking + 9000).to_string(),
            table: "sbtest.sbtest1".into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        Build::busy("8.0.36")
            .sessions(|_| {
                let mut sessions = vec![session(7, "Sleep", "", ""), session(8, "Sleep", "", "")];
                sessions
                    .extend((20..45).map(|id| session(id, "Query", "updating", "UPDATE sbtest1 SET k = 1")));
                sessions
            })
            .each(move |at_s, server, _| {
                server.transactions =
                    answer(at_s, vec![transaction(7, "RUNNING", 60.0), transaction(8, "RUNNING", 60.0)]);
                let waits = (20..45).map(|id| wait(id, if id < 36 { 7 } else { 8 })).collect();
                server.row_lock_waits = answer(at_s, waits);
            })
    }

    #[test]
    fn two_who_hold_rows_of_their_own_are_both_named_with_what_frees_those_behind_each() {
        let window = two_holders().window();
        let Outcome::Fired(finding) = CAUSE.evaluate(&window, crate::session_time(&window).as_ref()) else {
            panic!("it fires")
        };
        assert!(finding.headline.starts_with("Connection 7 blocks 16 transactions"), "{}", finding.headline);
        assert!(finding.headline.ends_with("; connection 8 blocks 9 more"), "{}", finding.headline);
        let kills: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(kills[..2], ["KILL 7", "KILL 8"]);
        assert!(finding.why.contains("rows of its own"), "{}", finding.why);
    }

    /// Connection 7 has a row that 8 wants, and 8 has one of another table that all others want.
    #[test]
    fn of_a_chain_the_second_is_named_with_the_table_that_the_others_want() {
        let wait = |waiting: u64, blocking: u64, table: &str| RowLockWait {
            waiting_connection_id: Some(waiting),
            blocking_connection_id: Some(blocking),
            waiting_transaction: (waiting + 9000).to_string(),
            blocking_transaction: (blocking + 9000).to_string(),
            table: table.into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        let window = two_holders().each(move |at_s, server, _| {
            let others = (20..45).map(|id| wait(id, 8, "shop.stock"));
            server.row_lock_waits =
                answer(at_s, std::iter::once(wait(8, 7, "shop.orders")).chain(others).collect());
        });
        let finding = found(&window.window());
        assert_eq!(
            finding.headline,
            "Connection 7 blocks 26 transactions: it is idle in transaction; 25 of them wait on shop.stock behind connection 8, \
             which waits for it"
        );
        assert_eq!(finding.remedies[0].statement, "KILL 7");
    }

    /// Of 22 sessions one scans, and 20 wait for a row that another has.
    #[test]
    fn a_scan_beside_the_queue_stands_behind_it() {
        let waits = |waiting: u64| RowLockWait {
            waiting_connection_id: Some(waiting),
            blocking_connection_id: Some(7),
            waiting_transaction: (waiting + 9000).to_string(),
            blocking_transaction: "9007".into(),
            table: "shop.stock".into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        let window = Build::busy("8.0.36")
            .sessions(|_| {
                let mut sessions = vec![session(7, "Sleep", "", "")];
                sessions
                    .extend((20..40).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = 1")));
                sessions.push(session(40, "Query", "executing", "SELECT * FROM orders WHERE note = 'x'"));
                sessions
            })
            .each(move |at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(7, "RUNNING", 60.0)]);
                server.row_lock_waits = answer(at_s, (20..40).map(waits).collect());
            })
            .digest_scans(
                "SELECT * FROM orders WHERE note = ?",
                5.0,
                190_000.0,
                crate::testing::Rows { examined: 200_000.0, sent: 2.0 },
                1.0,
            );
        let findings = crate::diagnose(&window.window()).findings;
        let causes: Vec<&str> = findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes[..2], [CAUSE.name, "rows-read-waste"], "{causes:?}");
        assert_eq!(findings[0].remedies[0].statement, "KILL 7");
    }

    /// Waiters that give up after a second are not made to wait for five.
    #[test]
    fn no_timeout_is_made_longer() {
        let of = |timeout_s: &str| {
            let window = two_holders().variable("innodb_lock_wait_timeout", timeout_s).window();
            let Outcome::Fired(finding) = CAUSE.evaluate(&window, crate::session_time(&window).as_ref())
            else {
                panic!("it fires")
            };
            finding.remedies.iter().any(|remedy| remedy.statement.contains("innodb_lock_wait_timeout"))
        };
        assert!(of("50"));
        assert!(!of("1") && !of("5"));
    }

    #[test]
    fn where_no_transaction_is_prepared_it_says_what_is_known_of_one_without_a_connection() {
        let mut window = one_long_wait(None);
        for sample in &mut window.samples {
            sample.server.prepared_xa = answer(sample.at_s, Vec::new());
        }
        let finding = crate::diagnose(&window).findings.remove(0);
        assert_eq!(finding.cause, CAUSE.name);
        assert!(finding.why.contains("XA RECOVER lists nothing"), "{}", finding.why);
        assert!(finding.remedies[0].statement.contains("trx_mysql_thread_id = 0"), "{finding:?}");
    }

    /// Connection 7 holds a row; 20 to 29 queue for it, each also behind the one before it.
    fn queue(holder: impl Fn(usize) -> u64) -> Window {
        let waits = |holder: u64| {
            (20..30)
                .map(|waiter| RowLockWait {
                    waiting_connection_id: Some(waiter),
                    blocking_connection_id: Some(if waiter == 20 { holder } else { waiter - 1 }),
                    waiting_transaction: format!("{}", waiter + 9000),
                    blocking_transaction: String::new(),
                    table: "shop.stock".into(),
                    index: "PRIMARY".into(),
                    record: "7".into(),
                    mode: "X,REC_NOT_GAP".into(),
                    waited_s: 3.0,
                })
                .collect::<Vec<_>>()
        };
        Build::busy("8.0.36")
            .sessions(|at| {
                let mut sessions = vec![session(holder(at), "Sleep", "", "")];
                sessions.extend(
                    (20..30).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = n - 1")),
                );
                sessions.push(session(40, "Query", "executing", "SELECT 1"));
                sessions
            })
            .each(|at_s, server, _| {
                server.row_lock_waits = answer(at_s, waits(holder(at_s as usize)));
                server.transactions = answer(at_s, vec![transaction(holder(at_s as usize), "RUNNING", 61.0)]);
            })
            .window()
    }

    pub(crate) fn fires() -> Window {
        queue(|_| 7)
    }

    /// Two sessions meet at a row now and then.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36")
            .sessions(|_| (20..30).map(|id| session(id, "Query", "updating", "UPDATE stock")).collect())
            .each(|at_s, server, _| {
                let waits = (at_s as usize).is_multiple_of(3);
                let state = if waits { "LOCK WAIT" } else { "RUNNING" };
                server.transactions = answer(at_s, vec![transaction(20, state, 0.01)]);
            })
            .window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_root_is_the_holder_that_waits_for_nobody() {
        let finding = found(&fires());
        let root = finding.root.unwrap();
        assert_eq!((root.connection_id, root.thread_os_id), (Some(7), Some(4007)));
        assert_eq!(root.statement, "idle in transaction");
        assert_eq!(
            finding.headline,
            "Connection 7 blocks 10 transactions on shop.stock: it is idle in transaction"
        );
        assert_eq!(finding.remedies[0].statement, "KILL 7");
        assert!(finding.remedies[0].risk.contains("1 changed row."), "{}", finding.remedies[0].risk);
        assert!(finding.score > 0.85, "{}", finding.score);
    }

    #[test]
    fn a_holder_that_changes_is_a_hot_row_and_nobody_is_killed() {
        let finding = found(&queue(|at| 50 + at as u64));
        assert!(finding.headline.starts_with("10 sessions on average wait"), "{}", finding.headline);
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
    }

    #[test]
    fn samples_whose_lists_were_not_read_do_not_thin_out_the_queue() {
        let mut window = queue(|_| 7);
        for sample in window.samples.iter_mut().skip(1) {
            sample.server.row_lock_waits = spindoctor_model::Reading::NotAsked;
            sample.server.transactions = spindoctor_model::Reading::NotAsked;
        }
        let finding = found(&window);
        assert!(
            finding.headline.contains("10 transactions") || finding.headline.starts_with("10 "),
            "{}",
            finding.headline
        );
    }

    #[test]
    fn without_the_lock_tables_the_gauge_shows_that_there_are_waits_and_no_root_is_named() {
        let why = || spindoctor_model::Reading::Unavailable(Unavailable::because("no PROCESS privilege"));
        let window = Build::busy("8.0.36")
            .gauge("Innodb_row_lock_current_waits", 12.0)
            .each(|_, server, _| {
                server.row_lock_waits = why();
                server.transactions = spindoctor_model::Reading::NotAsked;
            })
            .window();
        let finding = found(&window);
        assert_eq!(finding.root, None);
        assert!(finding.why.contains("could not be read"), "{}", finding.why);
    }

    #[test]
    fn many_short_waits_count_by_their_time_where_lists_see_few_of_them() {
        let of = |waits_per_s, waited_ms_per_s| {
            let window = Build::busy("10.11.8-MariaDB")
                .counter("Innodb_row_lock_waits", waits_per_s)
                .counter("Innodb_row_lock_time", waited_ms_per_s);
            match evaluate(&window.window()) {
                Outcome::Fired(finding) => Some(finding.headline),
                Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
            }
        };
        assert!(of(20.0, 800.0).is_some_and(|headline| headline.starts_with("0.8 sessions on average")));
        // Of the few that are at work a third waits: less than half a session, and no less of what their clients wait for.
        assert!(of(20.0, 330.0).is_some_and(|headline| headline.starts_with("0.3 sessions on average")));
        assert_eq!(of(20.0, 200.0), None, "two clients that meet now and then");
        // One that waited for eight seconds ended in the window.
        assert_eq!(of(0.1, 800.0), None);
    }
}
