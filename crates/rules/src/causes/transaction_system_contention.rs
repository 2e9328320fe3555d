//! `transaction-system-contention`: sessions wait for the mutex of InnoDB's list of transactions.

use spindoctor_model::latches::{ROW_LOCKS, TRANSACTION_SYSTEM};
use spindoctor_model::number;
use spindoctor_model::{Evidence, Finding, Remedy, ServerVersion, TimeClass, Window};

use super::cpu_saturated;
use crate::latch_time::{self, Contention, Latches};
use crate::sessions::{Waiting, transactions_source};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "transaction-system-contention",
    title: "sessions wait for the mutex of the list of transactions",
    what: "InnoDB has one list of the transactions that change rows, with the numbers that they are given. Each transaction that \
           changes rows enters it at its first change and leaves it at its commit, and each consistent read copies the numbers of \
           those that are open into its view: all of it under one mutex, trx_sys_mutex. In MySQL 5.5 and before the same mutex, \
           kernel_mutex, protects the row locks, and each transaction takes it, those that only read as well. MariaDB 10.3 and \
           later have a hash without a lock in its place.",
    why_it_hurts: "The mutex is held for a moment, but for longer the more transactions are open, and by every transaction. With many \
                   short transactions on many cores the sessions queue, spin, and are woken at once: in the published case reads by \
                   primary key fell from 164,885 a second with 32 clients to 68,369 with 256.",
    evidence: "What is read: stacks of statements that wait for a latch where a transaction starts, commits, or opens a read view \
               (MVCC::view_open, ReadView, trx_serialisation_number_get, trx_commit_in_memory, trx_start_low); CPU samples that spin \
               there; and the waits that performance_schema counted in the window for trx_sys_mutex (kernel_mutex in MySQL 5.5, with \
               trx_sys_shard_mutex and trx_sys_serialisation_mutex from 8.0 on). An instrument that is off counts nothing: it is \
               unknown then, and not nothing.\n\n\
               It fires where two sessions or more on average, and 5 % of those at work, wait so, or where 5 % of the CPU samples \
               spin so. Of a status that somebody captured, and of a server of which there is nothing else, three threads are enough \
               that wait for this mutex in the section SEMAPHORES, each for less than 5 s.\n\n\
               Shown beside it, where the version counts them: rounds of spinning for each wait that slept. Few machines have the \
               cores to reproduce it: the rule is proved on windows that were made by hand after the published numbers.",
    looks_alike: "Waits of a commit for the mutex of its rollback segment are rollback-segment-contention: the innermost function \
                  decides. Waits for row locks are row-lock-pileup, and those for the mutexes of their lists are no matter of this one \
                  from MySQL 5.6 on. Where a spin on any latch is too long or too short for this CPU, spin-burn or spin-too-short \
                  stands before it.",
    remedies: "Fewer transactions and fewer views: several statements in one transaction; REPEATABLE READ, which opens one view for a \
               transaction and not one for each statement as READ COMMITTED does; reads that need no transaction with autocommit on, \
               which may use a view again. START TRANSACTION READ ONLY from MySQL 5.6.5 on, which 5.7 finds out by itself. Shorter \
               transactions: each that is open makes every view longer. Fewer sessions that run at once: a pool of connections, or \
               innodb_thread_concurrency where the server has it. From MySQL 5.5 to 5.6, from 5.6 to 5.7 and again to 8.0, and to \
               MariaDB 10.3, parts of this mutex became their own: no setting does that.",
    safety: "REPEATABLE READ reads older rows for as long as its transaction is open, and keeps their versions from being purged. A \
             transaction that is read only cannot change rows. A limit on threads inside InnoDB is dynamic, and leaves CPUs idle where \
             it is too low. Another version of the server is an upgrade, with its tests.",
    references: &[
        "Published cases: kernel_mutex and innodb_sync_spin_loops; undo tablespaces and NUMA scalability of MySQL 8.0.24",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-performance-ro-txn.html",
        "MySQL WL#6047: Do not allocate trx id for read-only transactions",
        "MySQL 8.0 source, trx0sys.cc, read0read.cc: MVCC::view_open; trx0trx.cc: trx_commit_in_memory",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Latch, TimeClass::Spin, TimeClass::CpuQueue, TimeClass::CpuQuota],
    stacks: Stacks::Standing(&[
        "trx_start_low",
        "trx_set_rw_mode",
        "trx_commit_in_memory",
        "trx_commit_off_kernel",
        "trx_serialisation_number_get",
        "MVCC::view_open",
        "MVCC::view_close",
        "read_view_open_now",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// The mutex of the list, and what of it is locked apart.
const LIST: Latches = Latches {
    named: "the list of transactions",
    latches: &[&TRANSACTION_SYSTEM],
    // They have one mutex: kernel_mutex.
    before_5_6: |wait| wait.is_for(&ROW_LOCKS),
};

fn evaluate(window: &Window) -> Outcome {
    let found = latch_time::contention(window, &LIST);
    found.map(|found| found.map(|found| finding(window, found))).into()
}

fn of_status(window: &Window) -> Option<Finding> {
    latch_time::printed(window, &LIST).map(|found| finding(window, found))
}

fn finding(window: &Window, found: Contention) -> Finding {
    let longest_s = window
        .latest(|s| &s.server.transactions)
        .and_then(|open| open.iter().map(|one| one.age_s).max_by(f64::total_cmp));
    found
        .draft(&CAUSE, window)
        .why(why(longest_s))
        .evidence_if(
            longest_s.map(|age_s| {
                Evidence::new("the oldest transaction", age_s, "s", transactions_source(window))
            }),
        )
        .remedies(remedies(window))
        .finding()
}

/// A transaction that is older than this is one of those that make every view longer, however short the others are. By judgement: what
/// contends for the mutex commits hundreds of times a second.
const OLD_S: f64 = 10.0;

fn why(longest_s: Option<f64>) -> String {
    const TAKEN: &str = "Each transaction takes this mutex where it starts and where it commits, and each view for a consistent read copies the \
                         open transactions under it";
    match longest_s.filter(|age_s| *age_s >= OLD_S) {
        Some(age_s) => format!("{TAKEN}. The oldest has been open for {}.", number::duration(age_s)),
        None => format!("{TAKEN}."),
    }
}

fn remedies(window: &Window) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    if window.variable("transaction_isolation").or(window.variable("tx_isolation")) == Some("READ-COMMITTED")
    {
        remedies.push(Remedy {
            statement: "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, in sessions whose transactions have several statements"
                .into(),
            why: "READ COMMITTED opens a view for each statement, REPEATABLE READ one for the transaction.".into(),
            dynamic: true,
            risk: "Reads of one transaction see the same rows until it ends, gaps between rows are locked, and old versions are kept \
                   for as long."
                .into(),
            undo: "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".into(),
        });
    }
    let version = window.server.version;
    if version.is_some_and(|version| version.mysql_at_least(5, 6, 5) && !version.mysql_at_least(5, 7, 0)) {
        remedies.push(read_only());
    }
    remedies.push(Remedy {
        statement: "Put several statements into one transaction, commit those that are open for long, and read with autocommit on where no \
                    transaction is needed"
            .into(),
        why: "Each transaction enters and leaves the list, and each view copies all that are open.".into(),
        dynamic: false,
        risk: "Larger transactions hold their row locks for longer.".into(),
        undo: "One statement in each transaction, as before".into(),
    });
    remedies.extend(limit(window));
    remedies.extend(version.and_then(upgrade));
    remedies
}

/// Fewer threads inside InnoDB, where far more sessions are at work than a limit would let in.
fn limit(window: &Window) -> Option<Remedy> {
    let at_work = Waiting::count(window, |_| false).ok()?.at_work_mean;
    let cpus = window.latest(|s| &s.host.effective_cpus)?.cpus;
    cpu_saturated::concurrency_limit(window, at_work, cpus)
}

/// A version in which more of what the mutex protects has a lock of its own, or none.
fn upgrade(version: ServerVersion) -> Option<Remedy> {
    let (is_old, to) = match version.is_mariadb() {
        true => (!version.mariadb_at_least(10, 3, 0), "MariaDB 10.3 or later"),
        false => (!version.mysql_at_least(8, 0, 0), "MySQL 8.0 or later"),
    };
    is_old.then(|| Remedy {
        statement: format!("Upgrade to {to}"),
        why: "MySQL 5.6 took the row locks out of this mutex, 5.7 the transactions that only read, and 8.0 has parts of the list under \
              mutexes of their own; MariaDB 10.3 has a hash without a lock in its place."
            .into(),
        dynamic: false,
        risk: "An upgrade, with its tests: it cannot be undone in place.".into(),
        undo: "A copy of the data from before".into(),
    })
}

/// To MySQL 5.6 a transaction that does not say so is one that changes rows.
pub(super) fn read_only() -> Remedy {
    Remedy {
        statement: "START TRANSACTION READ ONLY, for transactions that only read".into(),
        why: "They are given no number, no place in the list and no rollback segment. From MySQL 5.7 on the server finds it out by itself."
            .into(),
        dynamic: true,
        risk: "Such a transaction cannot change rows: it gets error 1792.".into(),
        undo: "START TRANSACTION".into(),
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait, Semaphores};
    use spindoctor_model::mysql::WaitSummary;
    use spindoctor_model::stack::ThreadState::{Lock, Running};
    use spindoctor_model::{InnodbStatus, Reading, Unavailable};

    use super::*;
    use crate::testing::{Build, answer, session};

    const VIEW: &[&str] = &[
        "sync_array_wait_event",
        "TTASEventMutex::wait",
        "MVCC::view_open",
        "trx_assign_read_view",
        "row_search_mvcc",
        "dispatch_command",
    ];
    const WORKS: &[&str] = &["row_search_mvcc", "ha_innobase::index_read", "dispatch_command"];

    fn waiting(version: &str, sessions: u32, frames: &[&str]) -> Build {
        Build::busy(version).only_snapshots(&[(sessions, Lock, frames), (40 - sessions, Running, WORKS)])
    }

    pub(crate) fn fires() -> Window {
        waiting("8.0.24", 16, VIEW).window()
    }

    /// As many sessions wait for the mutex of another list: that of the row locks.
    pub(crate) fn near_miss() -> Window {
        let frames = &[
            "sync_array_wait_event",
            "TTASEventMutex::wait",
            "lock_rec_lock",
            "row_ins",
            "dispatch_command",
        ];
        waiting("5.7.40", 16, frames).window()
    }

    pub(crate) fn missing() -> Window {
        waiting("8.0.24", 16, VIEW).without_profile().window()
    }

    fn found(window: &Window) -> Finding {
        match CAUSE.evaluate(window, None) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn to_5_5_the_row_locks_have_the_same_mutex() {
        let spins = ["ut_delay", "mutex_spin_wait", "lock_rec_lock", "row_search_for_mysql"];
        let of = |version: &str| evaluate(&Build::busy(version).cpu_samples(1000, 0.3, &spins).window());
        match of("5.5.40") {
            Outcome::Fired(finding) => {
                assert_eq!(finding.headline, "30 % of the server's CPU spins for the list of transactions");
            }
            other => panic!("{other:?}"),
        }
        assert!(!matches!(of("5.6.51"), Outcome::Fired(_)), "{:?}", of("5.6.51"));
    }

    /// The published server of MySQL 8.0.24, with all 127 undo tablespaces: what is left is this mutex.
    #[test]
    fn counted_waits_are_enough_where_their_instrument_is_on() {
        let counted = |event: &'static str| {
            Build::busy("8.0.24")
                .without_profile()
                .sessions(|_| {
                    (1..=1_024).map(|id| session(id, "Query", "updating", "UPDATE t SET k = 1")).collect()
                })
                .each(move |at_s, server, _| {
                    let total_ns = (153_155_037.491_6e6 * at_s / 300.0) as u64;
                    let wait = WaitSummary { event: event.into(), count: (at_s * 1e5) as u64, total_ns };
                    server.waits = answer(at_s, vec![wait]);
                })
                .window()
        };
        let finding = found(&counted("wait/synch/mutex/innodb/trx_sys_mutex"));
        assert_eq!(
            finding.headline,
            "50 % of the sessions' time goes into waits for the list of transactions"
        );
        let other = evaluate(&counted("wait/synch/mutex/innodb/buf_pool_LRU_list_mutex"));
        assert!(matches!(other, Outcome::NotEnoughEvidence(_)), "{other:?}");
    }

    /// Threads of the text that wait for the mutex, each for so long.
    fn printed(threads: u64, name: &'static str, waited_s: f64) -> Build {
        Build::busy("5.5.40").without_profile().each(move |at_s, server, _| {
            let wait = |pthread_id| SemaphoreWait {
                pthread_id,
                at_file: "trx0trx.c".into(),
                kind: SemaphoreKind::Mutex,
                name: name.into(),
                waited_s,
                ..SemaphoreWait::default()
            };
            let semaphores =
                Semaphores { waiters: (1..=threads).map(wait).collect(), ..Semaphores::default() };
            server.innodb_status = answer(at_s, InnodbStatus { semaphores, ..InnodbStatus::default() });
        })
    }

    #[test]
    fn a_status_that_prints_who_waits_is_enough_and_a_wait_of_seconds_is_a_pile_up() {
        let finding = found(&printed(30, "&kernel_mutex", 0.0).window());
        assert_eq!(finding.headline, "30 threads wait for the list of transactions");
        assert!(finding.explains.iter().any(|cause| cause == "latch-pileup"), "{:?}", finding.explains);
        for (threads, name, waited_s) in
            [(2, "&kernel_mutex", 0.0), (30, "&block->lock", 0.0), (30, "&kernel_mutex", 40.0)]
        {
            let outcome = CAUSE.evaluate(&printed(threads, name, waited_s).window(), None);
            assert!(
                matches!(outcome, Outcome::NotEnoughEvidence(_)),
                "{threads} {name} {waited_s}: {outcome:?}"
            );
        }
    }

    #[test]
    fn rounds_of_spinning_are_shown_where_the_version_counts_them() {
        let counting = printed(30, "&kernel_mutex", 0.0).each(|at_s, server, _| {
            if let Reading::Available { value: status, .. } = &mut server.innodb_status {
                let count = |per_s: f64| Some((1e6 + per_s * at_s) as u64);
                status.semaphores.mutex.rounds = count(60_000.0);
                status.semaphores.mutex.os_waits = count(2_000.0);
            }
        });
        let counted =
            counting.cpu_samples(1000, 0.3, &["ut_delay", "mutex_spin_wait", "trx_start_low"]).window();
        let rounds = |window: &Window| {
            let evidence = found(window).evidence;
            let reading = evidence.into_iter().find(|one| one.reading.starts_with("spin rounds"));
            reading.map(|one| one.value)
        };
        assert_eq!(rounds(&counted), Some(spindoctor_model::Value::Number(30.0)));
        let mut without = counted;
        for sample in &mut without.samples {
            sample.server.innodb_status = Reading::Unavailable(Unavailable::because("no PROCESS privilege"));
        }
        assert_eq!(rounds(&without), None);
    }

    #[test]
    fn remedies_are_those_of_the_version_and_of_its_settings() {
        let statements = |version: &str, settings: &[(&str, &str)]| {
            let build = waiting(version, 16, VIEW);
            let set = settings.iter().fold(build, |build, (name, value)| build.variable(name, value));
            let remedies = found(&set.window()).remedies;
            remedies.into_iter().map(|remedy| remedy.statement).collect::<Vec<_>>().join("; ")
        };
        let of_5_6 = statements("5.6.51", &[("innodb_thread_concurrency", "0")]);
        assert!(of_5_6.contains("START TRANSACTION READ ONLY") && of_5_6.contains("Upgrade"), "{of_5_6}");
        assert!(!of_5_6.contains("innodb_thread_concurrency"), "few are at work: {of_5_6}");
        let of_9_7 = statements("9.7.4", &[("transaction_isolation", "READ-COMMITTED")]);
        assert!(of_9_7.starts_with("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"), "{of_9_7}");
        assert!(!of_9_7.contains("READ ONLY") && !of_9_7.contains("Upgrade"), "{of_9_7}");
        let many = waiting("5.5.40", 16, VIEW)
            .sessions(|_| (1..=256).map(|id| session(id, "Query", "statistics", "SELECT 1")).collect())
            .variable("innodb_thread_concurrency", "0");
        let remedies = found(&many.window()).remedies;
        let limit = remedies.iter().find(|one| one.statement == "SET GLOBAL innodb_thread_concurrency = 16");
        assert!(limit.is_some_and(|one| one.undo.ends_with("= 0")), "{remedies:?}");
    }
}
