//! `rollback-segment-contention`: commits wait for the mutexes of rollback segments.

use spindoctor_model::latches::ROLLBACK_SEGMENT;
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Window};

use super::transaction_system_contention;
use crate::latch_time::{self, Contention, Latches};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "rollback-segment-contention",
    title: "commits wait for the mutexes of too few rollback segments",
    what: "A transaction that changes rows takes an undo log in a rollback segment, and at its commit adds the log to the segment's \
           history: both under the segment's mutex. Transactions are given to the segments in turn. There are \
           innodb_rollback_segments of them, 128 at most: from MySQL 8.0 on so many in each undo tablespace, 256 with the two that a \
           server begins with; up to MySQL 5.7 and in MariaDB 128 in all.",
    why_it_hurts: "A commit holds the mutex while it takes a number from the transaction system and writes the segment's page. With \
                   hundreds of writers several transactions share a segment: all but one of them spin or sleep. More cores make it \
                   worse, as the mutex goes from one memory node to the other: in the published case throughput fell when 64 cores \
                   became 128, and each of the sessions waited 77 s for these mutexes.",
    evidence: "Stacks of statements that wait below trx_undo_assign_undo, trx_write_serialisation_history or the functions that choose \
               a segment; CPU samples that spin there; and the waits that performance_schema counted in the window for \
               undo_space_rseg_mutex (redo_rseg_mutex, rseg_mutex and trx_rseg_latch in other versions). It fires where two sessions \
               or more on average, and 5 % of those at work, wait so, or where 5 % of the CPU samples spin so. An instrument that is \
               off counts nothing: it is unknown then, and not nothing. Of a status that somebody captured, and of a server of which \
               there is nothing else, three threads are enough that wait for such a mutex in the section SEMAPHORES, each for less \
               than 5 s. Shown beside it, where the version counts them: rounds of spinning for each wait that slept. Few machines \
               have the cores to reproduce it: the rule is proved on windows that were made by hand after the published numbers.",
    looks_alike: "A commit takes the mutex of the transaction system while it holds that of its segment: what waits there is \
                  transaction-system-contention, for the innermost function decides. Commits that wait for fsync are \
                  commit-sync-bound. A mutex that is kept for seconds has a holder that waits for something else: latch-pileup. \
                  Undo that cannot be removed, because a transaction is old, is purge-lag.",
    remedies: "More segments. Where innodb_rollback_segments was lowered, back to 128. From MySQL 8.0.14 on more undo tablespaces, each \
               with as many segments: `spindoctor tune --apply --only undo_tablespaces` makes those that there is disk for, and \
               measures the gain. \
               Up to MySQL 5.7 and in MariaDB no setting gives more than 128: put several changes into one transaction, limit the \
               sessions that write at once (a pool of connections), and let transactions that only read take no segment: START \
               TRANSACTION READ ONLY does so from MySQL 5.6.5 on, and from 5.7 on a transaction takes none before its first change.",
    safety: "innodb_rollback_segments is dynamic; segments that were made stay in the files, and are not used when the value is lowered \
             again. Undo tablespaces take disk: each grows to innodb_max_undo_log_size and a step beyond it before it is truncated, \
             and one long transaction keeps all of them. ALTER UNDO TABLESPACE ... SET INACTIVE and, once it is empty, DROP UNDO \
             TABLESPACE remove one. Larger transactions hold their row locks for longer.",
    references: &[
        "Published case: undo tablespaces and NUMA scalability of MySQL 8.0.24",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-undo-tablespaces.html",
        "MySQL 8.0 source, trx0undo.cc: trx_undo_assign_undo; trx0trx.cc: trx_write_serialisation_history",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Latch, TimeClass::Spin, TimeClass::CpuQueue, TimeClass::CpuQuota],
    stacks: Stacks::Standing(ROLLBACK_SEGMENT.takers),
    rule: Rule::ReadingsOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// The segments' mutexes, and the latch of their list.
pub(crate) const MUTEXES: Latches =
    Latches { named: "rollback segments", latches: &[&ROLLBACK_SEGMENT], before_5_6: latch_time::no_more };

/// How many segments there are: in each undo tablespace from MySQL 8.0 on, in all before.
pub(crate) const VARIABLE: &str = "innodb_rollback_segments";

/// The most there are of them, and the default (trx0types.h, FSP_MAX_ROLLBACK_SEGMENTS).
pub(crate) const MOST_SEGMENTS: f64 = 128.0;

/// Undo tablespaces that a server begins with (fsp0types.h, FSP_IMPLICIT_UNDO_TABLESPACES), where the status does not count them.
const IMPLICIT: f64 = 2.0;

fn evaluate(window: &Window) -> Outcome {
    let found = latch_time::contention(window, &MUTEXES);
    found.map(|found| found.map(|found| finding(window, found))).into()
}

fn of_status(window: &Window) -> Option<Finding> {
    latch_time::printed(window, &MUTEXES).map(|found| finding(window, found))
}

fn finding(window: &Window, found: Contention) -> Finding {
    let segments = window.variable_number(VARIABLE);
    let tablespaces = window.status("Innodb_undo_tablespaces_total").filter(|total| *total > 0.0);
    found
        .draft(&CAUSE, window)
        .why(why(window, segments, tablespaces))
        .evidence_if(segments.map(|segments| Evidence::new(VARIABLE, segments, "", "SHOW GLOBAL VARIABLES")))
        .evidence_if(tablespaces.map(|total| {
            Evidence::new("undo tablespaces", total, "", "SHOW GLOBAL STATUS Innodb_undo_tablespaces_total")
        }))
        .remedies(remedies(window, segments))
        .finding()
}

fn is_mysql(window: &Window, major: u16, minor: u16, patch: u16) -> bool {
    window.server.version.is_some_and(|version| version.mysql_at_least(major, minor, patch))
}

fn why(window: &Window, segments: Option<f64>, tablespaces: Option<f64>) -> String {
    const SHARED: &str = "Each transaction that changes rows takes the mutex of its segment at its first change and at its commit";
    let segments = segments.unwrap_or(MOST_SEGMENTS);
    // Each undo tablespace has its own from here on (trx0purge.h, undo::spaces).
    if !is_mysql(window, 8, 0, 2) {
        return format!("{SHARED}; there are {segments:.0} segments in all.");
    }
    let tablespaces = tablespaces.unwrap_or(IMPLICIT);
    format!(
        "{SHARED}; {tablespaces:.0} undo tablespaces with {segments:.0} segments each have {}.",
        whole(tablespaces * segments)
    )
}

fn remedies(window: &Window, segments: Option<f64>) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    if let Some(segments) = segments.filter(|segments| *segments < MOST_SEGMENTS) {
        remedies.push(Remedy {
            statement: format!("SET GLOBAL {VARIABLE} = {MOST_SEGMENTS:.0}"),
            why: format!("Transactions share {MOST_SEGMENTS:.0} segments in place of {segments:.0}."),
            dynamic: true,
            risk: "The new segments take disk in the undo tablespaces and are not removed again.".into(),
            undo: format!("SET GLOBAL {VARIABLE} = {segments:.0}"),
        });
    }
    // CREATE UNDO TABLESPACE came then.
    if is_mysql(window, 8, 0, 14) {
        remedies.push(Remedy {
            statement: "CREATE UNDO TABLESPACE undo_3 ADD DATAFILE 'undo_3.ibu', and more of them up to 127: `spindoctor tune --apply --only \
                        undo_tablespaces=16` makes as many as it is asked for within the room there is"
                .into(),
            why: format!("Each has {MOST_SEGMENTS:.0} segments of its own, so fewer transactions share one."),
            dynamic: true,
            risk: "Disk: a tablespace grows to innodb_max_undo_log_size and a step beyond before it is truncated, and one long \
                   transaction keeps them all."
                .into(),
            undo: "ALTER UNDO TABLESPACE undo_3 SET INACTIVE; when INNODB_TABLESPACES says that it is empty, DROP UNDO TABLESPACE undo_3"
                .into(),
        });
    }
    remedies.push(Remedy {
        statement: "Put several changes into one transaction, and limit how many sessions write at once"
            .into(),
        why: "Segments are taken twice in each transaction, however much it changes.".into(),
        dynamic: false,
        risk: "Larger transactions hold their row locks for longer, and more is lost when one fails.".into(),
        undo: "One change in each transaction, as before".into(),
    });
    // To 5.6 a transaction has a segment from its start on (trx0trx.cc, trx_start_low).
    if is_mysql(window, 5, 6, 5) && !is_mysql(window, 5, 7, 0) {
        remedies.push(transaction_system_contention::read_only());
    }
    remedies
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::WaitSummary;
    use spindoctor_model::stack::ThreadState::{Lock, Running};

    use super::*;
    use crate::testing::{Build, answer, session};

    const WAITS: &[&str] = &[
        "sync_array_wait_event",
        "TTASEventMutex::wait",
        "TTASEventMutex::spin_and_try_lock",
        "trx_undo_assign_undo",
        "trx_undo_report_row_operation",
        "row_upd_step",
        "dispatch_command",
    ];
    const WORKS: &[&str] = &["row_upd_step", "ha_innobase::update_row", "dispatch_command"];

    fn waiting(version: &str, sessions: u32, frames: &[&str]) -> Build {
        Build::busy(version).only_snapshots(&[(sessions, Lock, frames), (40 - sessions, Running, WORKS)])
    }

    pub(crate) fn fires() -> Window {
        waiting("8.0.24", 20, WAITS)
            .gauge("Innodb_undo_tablespaces_total", 2.0)
            .variable(VARIABLE, "128")
            .window()
    }

    /// One session in forty, as where the last two of many transactions have met.
    pub(crate) fn near_miss() -> Window {
        waiting("8.0.24", 1, WAITS).window()
    }

    pub(crate) fn missing() -> Window {
        waiting("8.0.24", 20, WAITS).without_profile().window()
    }

    fn found(window: &Window) -> Finding {
        match CAUSE.evaluate(window, None) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    /// The published server: 1,024 sessions of MySQL 8.0.24, of a run of some 300 s.
    fn published(instruments: &'static [(&'static str, f64)]) -> Build {
        Build::busy("8.0.24")
            .without_profile()
            .sessions(|_| {
                (1..=1_024).map(|id| session(id, "Query", "updating", "UPDATE t SET k = k + 1")).collect()
            })
            .each(move |at_s, server, _| {
                let waits = instruments.iter().map(|(event, wait_ms)| WaitSummary {
                    event: (*event).into(),
                    count: (at_s * 1e4) as u64,
                    total_ns: (wait_ms * 1e6 * at_s / 300.0) as u64,
                });
                server.waits = answer(at_s, waits.collect());
            })
    }

    #[test]
    fn the_published_table_of_waits_is_enough_and_an_instrument_that_is_off_is_unknown() {
        const TABLE: &[(&str, f64)] = &[
            ("wait/synch/mutex/innodb/trx_sys_mutex", 88_168_453.598_8),
            ("wait/synch/mutex/innodb/undo_space_rseg_mutex", 78_933_376.911_8),
            ("wait/synch/mutex/innodb/sync_array_mutex", 11_274_812.837_0),
        ];
        let finding = found(&published(TABLE).window());
        assert_eq!(finding.headline, "26 % of the sessions' time goes into waits for rollback segments");
        assert!(
            finding.remedies[0].statement.starts_with("CREATE UNDO TABLESPACE"),
            "{:?}",
            finding.remedies
        );
        let Outcome::NotEnoughEvidence(missing) = evaluate(&published(&TABLE[..1]).window()) else {
            panic!("its instrument is off")
        };
        assert!(missing.because.contains("none was counted"), "{}", missing.because);
        assert!(missing.unlock.unwrap_or_default().contains("setup_instruments"));
        // With 127 undo tablespaces 0.2 s of each session's time went there.
        let cured = published(&[("wait/synch/mutex/innodb/undo_space_rseg_mutex", 213_977.878_7)]);
        assert_eq!(evaluate(&cured.window()), Outcome::Clear);
    }

    #[test]
    fn a_mutex_that_is_taken_inside_of_it_is_another_latch() {
        let frames = &[
            "sync_array_wait_event",
            "TTASEventMutex::wait",
            "trx_serialisation_number_get",
            "trx_write_serialisation_history",
            "trx_commit_low",
            "dispatch_command",
        ];
        assert_eq!(evaluate(&waiting("8.0.36", 20, frames).window()), Outcome::Clear);
    }

    #[test]
    fn each_version_is_advised_what_it_has() {
        let commit: &[&str] = &[
            "sync_array_wait_event",
            "PolicyMutex::enter",
            "TTASEventMutex::wait",
            "trx_write_serialisation_history",
            "trx_commit_low",
            "dispatch_command",
        ];
        let of_5_5: &[&str] =
            &["sync_array_wait_event", "mutex_spin_wait", "trx_undo_assign_undo", "dispatch_command"];
        let of_mariadb: &[&str] = &[
            "syscall",
            "srw_lock_impl::wr_wait",
            "trx_undo_assign",
            "trx_undo_report_row_operation",
            "dispatch_command",
        ];
        for (version, frames, segments, statement) in [
            ("9.7.4", commit, "1", "SET GLOBAL innodb_rollback_segments = 128"),
            ("9.7.4", commit, "128", "CREATE UNDO TABLESPACE"),
            ("8.0.12", commit, "128", "Put several changes into one transaction"),
            ("5.7.40", commit, "16", "SET GLOBAL innodb_rollback_segments = 128"),
            ("5.6.51", of_5_5, "128", "Put several changes into one transaction"),
            ("5.5.62", of_5_5, "128", "Put several changes into one transaction"),
            ("10.11.19-MariaDB", of_mariadb, "128", "Put several changes into one transaction"),
        ] {
            let finding = found(&waiting(version, 20, frames).variable(VARIABLE, segments).window());
            let first = &finding.remedies[0].statement;
            assert!(first.starts_with(statement), "{version}: {first}");
            let has_read_only = finding.remedies.iter().any(|remedy| remedy.statement.contains("READ ONLY"));
            assert_eq!(has_read_only, version == "5.6.51", "{version}");
        }
    }
}
