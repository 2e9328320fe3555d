//! `rollback-running`: a large transaction rolls back and keeps its locks until it has ended.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::wait_graph::{LockKind, WaitRoot};
use spindoctor_model::window::Series;
use spindoctor_model::{
    Evidence, Finding, Remedy, Root, Sample, TimeClass, Unavailable, Window, number, printed_deadlock,
};

use super::{metadata_lock_pileup, row_lock_pileup};
use crate::draft::Draft;
use crate::sessions::{Waiting, transactions_source};
use crate::wait_graph::{ROLLING_BACK, Verdict, without_connection};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "rollback-running",
    title: "a large transaction rolls back and keeps its locks until it has ended",
    what: "A transaction that is killed, loses its client or fails must undo each of its changes, one after the other, from its \
           undo log. That takes about as long as the changes did, often longer, and until it has ended the transaction keeps \
           every lock that it has.",
    why_it_hurts: "All who want one of its rows, or its tables for an ALTER, go on waiting. KILL has done all that it can: on \
                   MySQL the connection is not even in the process list any more. A restart of the server adds crash recovery, \
                   and InnoDB then goes on with the same rollback, with the same locks.",
    evidence: "In INNODB_TRX the same transaction in the state ROLLING BACK in two samples or more, with others that wait for its \
               row or metadata locks. What is left is its number of undo entries (trx_rows_modified, which falls while it rolls \
               back); that number by the pace at which it fell is the time to go.",
    looks_alike: "A prepared XA transaction has no connection either, and its state is RUNNING: prepared-xa-left. An open \
                  transaction that nobody has killed yet: row-lock-pileup. A deadlock's victim rolls back within a moment.",
    remedies: "Wait, and give it the disk and the CPU: stop other large changes meanwhile. Let the clients that wait fail early \
               (innodb_lock_wait_timeout). Afterwards make the job commit every few thousand rows, and look at the size of a \
               transaction (trx_rows_modified) before it is killed.",
    safety: "Waiting loses nothing. Neither a second KILL nor a restart of the server makes it shorter: after a restart the same \
             rows stay locked, and a server that is killed while it recovers starts over.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-autocommit-commit-rollback.html",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-recovery.html",
    ],
    costs: Costs::Waits(&[TimeClass::Rollback]),
    explains_time: &[TimeClass::Rollback, TimeClass::RowLock, TimeClass::MetadataLock],
    stacks: Stacks::Standing(&["trx_rollback_for_mysql", "trx_rollback_active", "row_undo"]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Locks for which others wait behind it.
const KINDS: &[LockKind] = &[LockKind::Row, LockKind::Metadata];

/// Seconds for which it must have been seen at it: victims of deadlocks and failed statements roll back all the time. Two lists of a
/// window are a little less than a second apart.
const SEEN_S: f64 = 0.9;

/// Less than that to go is no number of seconds: the list is read once a second, and the pace changes.
const SOON_S: f64 = 3.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    window.need(|sample| &sample.server.transactions)?;
    let samples = || window.samples.iter().filter(|sample| sample.server.transactions.value().is_some());
    // It may have ended within the window, and others have waited for it until then.
    let holding = samples().rev().filter(|sample| rolling_back(sample).next().is_some());
    let mut held = holding.filter_map(|sample| Some((sample, held_by_a_rollback(window, sample)?)));
    let Some((last, (root, described))) = held.next() else { return Ok(None) };
    let has_ended = samples().next_back().is_some_and(|end| rolling_back(end).next().is_none());
    let Some(it) = transaction(last, described.connection_id) else { return Ok(None) };
    let left: Series = samples()
        .filter_map(|sample| {
            Some((sample.at_s, rolling_back(sample).find(|t| t.id == it.id)?.rows_modified as f64))
        })
        .collect();
    let seen_s = left.last().map_or(0.0, |last| last.0) - left.first().map_or(0.0, |first| first.0);
    // A capture is of one moment: there it has lasted for as long as others have waited for it.
    let lasted_s = match window.is_given() {
        true => seen_s.max(root.longest_wait_s.unwrap_or(0.0)),
        false => seen_s,
    };
    if lasted_s < SEEN_S {
        return Ok(None);
    }
    let at_work = Waiting::count(window, |_| false).map_or(0.0, |all| all.at_work_mean);
    let waiting = f64::from(root.waiting_in_all);
    let estimate = waiting / at_work.max(waiting).max(1.0);
    let undone_per_s = left.first().map_or(0.0, |first| (first.1 - it.rows_modified as f64) / seen_s);
    let left_s = (undone_per_s > 0.0).then(|| it.rows_modified as f64 / undone_per_s);
    let who = match described.connection_id {
        Some(id) => format!("The transaction of connection {id}"),
        None => "A transaction whose connection is gone".to_owned(),
    };
    let behind = number::counted(root.waiting_in_all.into(), "transaction", "transactions");
    let to_go = match left_s {
        _ if has_ended => "it has ended since".to_owned(),
        Some(left_s) if left_s < SOON_S => "a few seconds to go, by its pace".to_owned(),
        Some(left_s) => format!("about {} to go", number::roughly(left_s)),
        None => "how long it takes is not known yet".to_owned(),
    };
    let lost_a_deadlock = lost_the_latest_deadlock(window, &it.id);
    let headline = match has_ended {
        true => format!("{who} rolled back and blocked {behind}: {to_go}"),
        false => format!("{who} rolls back and blocks {behind}: {to_go}"),
    };
    Ok(Some(
        Draft::new(&CAUSE, estimate, headline)
            .why(if has_ended {
                "It kept its locks until all of its changes were undone. What waits now waits for something else.".to_owned()
            } else {
                format!(
                    "It has {} left to undo, and keeps its locks until all are undone. {}",
                    number::counted(it.rows_modified, "change", "changes"),
                    match lost_a_deadlock {
                        true => "InnoDB ended it to resolve a deadlock; a KILL changes nothing.",
                        false => "KILL has done what it can.",
                    }
                )
            })
            .evidence(Evidence::new("transactions that wait for it", waiting, "", "lock waits, INNODB_TRX"))
            .evidence(
                Evidence::new("changes left to undo", it.rows_modified as f64, "", transactions_source(window))
                    .series(left),
            )
            .evidence_if((undone_per_s > 0.0).then(|| Evidence::new("undone", undone_per_s, "1/s", transactions_source(window))))
            .evidence_if(root.longest_wait_s.map(|waited_s| Evidence::new("longest wait", waited_s, "s", "lock waits")))
            .remedy_if((!has_ended).then(|| Remedy {
                statement: "Wait for it; no KILL, and no restart of the server".into(),
                why: format!(
                    "Only its end frees the locks ({to_go}). After a restart InnoDB goes on with the same rollback, with the same \
                     locks."
                ),
                dynamic: true,
                risk: "Those who want its rows wait meanwhile.".into(),
                undo: String::new(),
            }))
            .remedy_if(row_lock_pileup::shorter_timeout(window).filter(|_| {
                // The timeout is one of waits for rows. Of a ring, a statement that fails keeps the locks of its transaction: the ring
                // comes again.
                let helps = root.kind == LockKind::Row && !lost_a_deadlock && !has_ended;
                helps && lasts(left_s) && !row_lock_pileup::undoes_transactions(window)
            }))
            .remedy(Remedy {
                statement: "Make the job commit every few thousand rows".into(),
                why: match lost_a_deadlock {
                    true => "Then a deadlock undoes a few thousand changes.".into(),
                    false => "Then a KILL undoes a few thousand changes.".into(),
                },
                dynamic: true,
                risk: "A change of the application; its parts become visible one by one.".into(),
                undo: String::new(),
            })
            .root(Some(described))
            .explains(&[row_lock_pileup::CAUSE.name, metadata_lock_pileup::CAUSE.name])
            .finding(),
    ))
}

/// True where who begins to wait now would come to the end of a short timeout before the rollback ends.
fn lasts(left_s: Option<f64>) -> bool {
    left_s.is_none_or(|left_s| left_s > row_lock_pileup::SHORT_TIMEOUT_S)
}

/// True where it is the transaction that InnoDB chose in the latest deadlock that it printed.
fn lost_the_latest_deadlock(window: &Window, id: &str) -> bool {
    let status = window.latest(|sample| &sample.server.innodb_status);
    let printed = status.and_then(|status| status.latest_deadlock.as_ref());
    printed.is_some_and(|printed| printed_deadlock::parse(&printed.text).victim_id() == Some(id))
}

/// The transactions of a sample that roll back.
fn rolling_back(sample: &Sample) -> impl Iterator<Item = &Transaction> {
    sample.server.transactions.value().into_iter().flatten().filter(|t| t.state == "ROLLING BACK")
}

/// The one of that connection, or of none.
fn transaction(sample: &Sample, connection_id: Option<u64>) -> Option<&Transaction> {
    rolling_back(sample).filter(|t| t.connection_id == connection_id).max_by_key(|t| t.rows_modified)
}

/// What most of the waiters wait for, where that rolls back.
fn held_by_a_rollback(window: &Window, sample: &Sample) -> Option<(WaitRoot, Root)> {
    let root = match Verdict::from_window(window, sample, KINDS) {
        Some(verdict) => (verdict.root.clone(), verdict.described()),
        None => {
            let root = without_connection(window, sample, KINDS)?;
            (root, Root { statement: ROLLING_BACK.to_owned(), ..Root::default() })
        }
    };
    (root.0.doing == ROLLING_BACK).then_some(root)
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::innodb_status::{InnodbStatus, PrintedEvent};
    use spindoctor_model::mysql::RowLockWait;

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// Twenty-four sessions wait for a row of a transaction in that state, which undoes 10,000 changes each second. The killed
    /// connection is in no list.
    fn held_by(connection_id: Option<u64>, state: &'static str) -> Build {
        let wait = move |id: u64| RowLockWait {
            waiting_connection_id: Some(id),
            blocking_connection_id: connection_id,
            waiting_transaction: (id + 9000).to_string(),
            blocking_transaction: "9007".into(),
            table: "shop.stock".into(),
            index: "PRIMARY".into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        Build::busy("8.0.36")
            .sessions(move |_| {
                (20..44).map(|id| session(id, "Query", "updating", "UPDATE stock SET n = n - 1")).collect()
            })
            .each(move |at_s, server, _| {
                server.row_lock_waits = answer(at_s, (20..44).map(wait).collect());
                let mut transactions: Vec<_> =
                    (20..44).map(|id| transaction(id, "LOCK WAIT", 12.0)).collect();
                transactions.push(Transaction {
                    connection_id,
                    rows_modified: 700_000 - 10_000 * at_s as u64,
                    ..transaction(7, state, 60.0)
                });
                server.transactions = answer(at_s, transactions);
            })
    }

    pub(crate) fn fires() -> Window {
        held_by(Some(7), "ROLLING BACK").window()
    }

    /// Nobody has killed it yet.
    pub(crate) fn near_miss() -> Window {
        held_by(Some(7), "RUNNING").window()
    }

    /// The transactions could not be listed.
    pub(crate) fn missing() -> Window {
        held_by(Some(7), "ROLLING BACK").each(|_, server, _| server.transactions = Reading::NotAsked).window()
    }

    #[test]
    fn how_long_it_takes_is_said_and_no_kill_is_offered() {
        let diagnosis = crate::diagnose(&fires());
        let finding = &diagnosis.findings[0];
        assert_eq!(
            finding.headline,
            "The transaction of connection 7 rolls back and blocks 24 transactions: about 60 s to go"
        );
        for finding in &diagnosis.findings {
            let kills = finding.remedies.iter().any(|remedy| remedy.statement.starts_with("KILL"));
            assert!(!kills, "{}: {:?}", finding.cause, finding.remedies);
        }
    }

    fn shortens_the_timeout(build: Build) -> bool {
        let finding = examine(&build.window()).unwrap().unwrap();
        finding.remedies.iter().any(|one| one.statement.starts_with("SET GLOBAL innodb_lock_wait_timeout"))
    }

    #[test]
    fn a_shorter_timeout_is_offered_where_it_lets_those_who_wait_give_up_sooner() {
        let long = || held_by(Some(7), "ROLLING BACK").variable("innodb_lock_wait_timeout", "50");
        assert!(shortens_the_timeout(long()));
        // A server that has no such variable, and one where a timeout begins one more rollback.
        assert!(!shortens_the_timeout(held_by(Some(7), "ROLLING BACK")));
        assert!(!shortens_the_timeout(long().variable("innodb_rollback_on_timeout", "ON")));
        // Three seconds to go.
        let ends_soon = long().each(|at_s, server, _| {
            if let Reading::Available { value, .. } = &mut server.transactions
                && let Some(it) = value.last_mut()
            {
                it.rows_modified = 130_000 - 10_000 * at_s as u64;
            }
        });
        assert!(!shortens_the_timeout(ends_soon));
    }

    #[test]
    fn of_a_deadlocks_victim_no_kill_is_spoken_of_and_no_timeout_is_shortened() {
        let printed = |victim: &str| {
            let text = format!(
                "*** (1) TRANSACTION:\nTRANSACTION 9020, ACTIVE 3 sec starting index read\n*** (2) TRANSACTION:\n\
                 TRANSACTION 9007, ACTIVE 60 sec updating\n*** WE ROLL BACK TRANSACTION ({victim})"
            );
            let build = held_by(Some(7), "ROLLING BACK").variable("innodb_lock_wait_timeout", "50");
            build.each(move |at_s, server, _| {
                let latest_deadlock = Some(PrintedEvent { text: text.clone(), ..PrintedEvent::default() });
                let status = InnodbStatus { latest_deadlock, ..InnodbStatus::default() };
                server.innodb_status = answer(at_s, status);
            })
        };
        let why = |build: Build| examine(&build.window()).unwrap().unwrap().why;
        assert!(
            why(printed("2")).ends_with("to resolve a deadlock; a KILL changes nothing."),
            "{}",
            why(printed("2"))
        );
        assert!(!shortens_the_timeout(printed("2")));
        assert!(why(printed("1")).ends_with("KILL has done what it can."), "it is the other one");
        assert!(shortens_the_timeout(printed("1")));
    }

    #[test]
    fn one_whose_connection_is_gone_is_no_prepared_transaction() {
        let diagnosis = crate::diagnose(&held_by(None, "ROLLING BACK").window());
        assert_eq!(diagnosis.findings[0].cause, CAUSE.name);
        assert!(diagnosis.findings[0].headline.starts_with("A transaction whose connection is gone"));
        assert!(diagnosis.findings.iter().all(|finding| finding.cause != "prepared-xa-left"));
    }

    #[test]
    fn one_that_ended_within_the_window_is_what_held_the_others_up_until_then() {
        let over = held_by(Some(7), "ROLLING BACK").each(|at_s, server, _| {
            if at_s > 7.0 {
                server.transactions = answer(at_s, Vec::new());
                server.row_lock_waits = answer(at_s, Vec::new());
            }
        });
        let finding = examine(&over.window()).unwrap().unwrap();
        assert_eq!(
            finding.headline,
            "The transaction of connection 7 rolled back and blocked 24 transactions: it has ended since"
        );
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("Wait")));
    }

    #[test]
    fn one_that_ended_within_a_moment_is_no_finding() {
        let brief = held_by(Some(7), "ROLLING BACK").each(|at_s, server, _| {
            if at_s < 10.0
                && let Reading::Available { value, .. } = &mut server.transactions
            {
                value.pop();
            }
        });
        assert_eq!(examine(&brief.window()), Ok(None));
    }
}
