//! Sessions that wait for the mutex of the open tables: LOCK_open to MySQL 5.6.5, one for each part of the cache since.

use spindoctor_model::latches::TABLE_CACHE;
use spindoctor_model::{Finding, Remedy, ServerVersion, Window};

use super::CAUSE;
use crate::draft::Draft;
use crate::latch_time::{self, LatchTime, Latches};
use crate::since_start;

const MUTEX: Latches = Latches {
    named: "the mutex of the open tables (LOCK_open before MySQL 5.6.6)",
    latches: &[&TABLE_CACHE],
    before_5_6: latch_time::no_more,
};

/// From here on the cache has parts with a mutex each, and this many by default from 5.7.8 on (MySQL Reference Manual,
/// table_open_cache_instances).
const IN_PARTS: (u16, u16, u16) = (5, 6, 6);
const PARTS: f64 = 16.0;

/// Time in it, where it is much. Tables that are open already are taken under it, too.
pub(super) fn waits(window: &Window) -> Option<LatchTime> {
    LatchTime::from_window(window, &MUTEX).ok().flatten().filter(LatchTime::matters)
}

/// The end of why the openings cost so much.
pub(super) fn sentence(time: &LatchTime) -> String {
    format!(" {}.", time.reading(&MUTEX))
}

/// The finding, where few tables are opened, or nothing counts them.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let time = waits(window)?;
    Some(
        Draft::new(&CAUSE, time.share(), time.headline(&MUTEX))
            .why(
                "A statement takes it for each table that it begins and ends to use, for an instant, also where the table is open already. A \
                 queue there is behind somebody who keeps it: who opens or closes tables because the cache is too small or was flushed, \
                 or deletes a table's file meanwhile; or there are more statements a second than one mutex lets through.",
            )
            .evidence_all(time.evidence().into_iter())
            .remedy(since_start::look(
                "SHOW GLOBAL STATUS LIKE 'Opened_tables', twice, ten seconds apart; SHOW GLOBAL VARIABLES LIKE 'table_open_cache%'; SHOW FULL \
                 PROCESSLIST",
                "Where it grows by a hundred a second the cache is too small: SET GLOBAL table_open_cache to twice its value. Where it does \
                 not, DROP, TRUNCATE or FLUSH TABLES in the list is who keeps the mutex: run it off the peak.",
            ))
            .remedy_if(in_parts(window))
            .finding(),
    )
}

/// Where one mutex is all that there is, or the parts are fewer than they may be.
fn in_parts(window: &Window) -> Option<Remedy> {
    let (major, minor, patch) = IN_PARTS;
    let is_whole =
        |version: ServerVersion| !version.is_mariadb() && !version.mysql_at_least(major, minor, patch);
    let statement = match (window.server.version, window.variable_number("table_open_cache_instances")) {
        (Some(version), _) if is_whole(version) => {
            "MySQL 5.6.6 or later, with table_open_cache_instances = 16 in [mysqld]"
        }
        // MariaDB adds parts itself where they are wanted (10.2.2 and later).
        (Some(version), _) if version.is_mariadb() => return None,
        (_, Some(parts)) if parts >= PARTS => return None,
        _ => "table_open_cache_instances = 16 in [mysqld] (MySQL 5.6.6 and later), and a restart",
    };
    Some(Remedy {
        statement: statement.into(),
        why: "Each part of the cache then has a mutex of its own.".into(),
        dynamic: false,
        risk: "A statement that changes a table's definition takes the mutexes of all parts.".into(),
        undo: "Set it back, and restart.".into(),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState::{Condition, Futex, NetworkIdle, Running};

    use super::*;
    use crate::testing::Build;

    const WORKS: &[&str] = &["row_search_for_mysql", "dispatch_command", "do_command"];
    const RESTS: &[&str] = &["vio_read", "my_net_read", "do_command"];
    const OWN: &[&str] = &["pthread_cond_wait", "os_event_wait_low", "srv_monitor_thread"];

    /// So many of twelve sessions at work in these functions, beside many that rest and the server's own.
    fn build(version: &str, waiting: u32, waits: &[&str]) -> Build {
        Build::busy(version).only_snapshots(&[
            (waiting, Futex, waits),
            (12 - waiting, Running, WORKS),
            (200, NetworkIdle, RESTS),
            (30, Condition, OWN),
        ])
    }

    fn of_cause(window: &Window) -> Option<Finding> {
        crate::diagnose(window).findings.into_iter().find(|finding| finding.cause == CAUSE.name)
    }

    #[test]
    fn sessions_that_wait_for_it_in_open_table_are_named_live_and_of_a_text() {
        let opens: &[&str] = &[
            "__lll_lock_wait",
            "pthread_mutex_lock",
            "open_table",
            "open_tables",
            "dispatch_command",
            "do_command",
        ];
        let closes: &[&str] = &[
            "__lll_lock_wait",
            "pthread_mutex_lock",
            "close_thread_tables",
            "dispatch_command",
            "do_command",
        ];
        for waits in [opens, closes] {
            for window in [build("5.5.62", 9, waits).window(), build("5.5.62", 9, waits).captured().window()]
            {
                let finding = of_cause(&window).unwrap();
                let wanted = "75 % of the sessions' time goes into waits for the mutex of the open tables (LOCK_open before MySQL 5.6.6)";
                assert_eq!(finding.headline, wanted);
            }
        }
        let live = build("5.5.62", 9, opens).window();
        assert!(crate::diagnose(&live).findings.iter().all(|finding| finding.cause != "unnamed-wait"));
        let upgrade = of_cause(&live).unwrap().remedies.pop().unwrap();
        assert!(upgrade.statement.starts_with("MySQL 5.6.6 or later"), "{upgrade:?}");
    }

    #[test]
    fn one_that_waits_and_a_mutex_of_metadata_locks_are_not_it() {
        let opens: &[&str] =
            &["__lll_lock_wait", "pthread_mutex_lock", "open_table", "dispatch_command", "do_command"];
        assert_eq!(of_cause(&build("5.5.62", 1, opens).window()), None);
        let of_lock: &[&str] = &[
            "__lll_lock_wait",
            "pthread_mutex_lock",
            "MDL_map::find_or_insert",
            "MDL_context::acquire_lock",
            "open_table",
            "dispatch_command",
            "do_command",
        ];
        assert_eq!(of_cause(&build("5.5.62", 9, of_lock).window()), None);
    }

    #[test]
    fn more_waits_for_another_mutex_are_not_hidden_by_it() {
        let opens: &[&str] =
            &["__lll_lock_wait", "pthread_mutex_lock", "open_table", "dispatch_command", "do_command"];
        let others: &[&str] =
            &["__lll_lock_wait", "pthread_mutex_lock", "get_db_stats", "dispatch_command", "do_command"];
        let build = Build::busy("5.5.62").only_snapshots(&[
            (2, Futex, opens),
            (14, Futex, others),
            (4, Running, WORKS),
        ]);
        let findings = crate::diagnose(&build.window()).findings;
        for cause in [CAUSE.name, "unnamed-wait"] {
            assert!(findings.iter().any(|finding| finding.cause == cause), "{cause}: {findings:#?}");
        }
    }

    #[test]
    fn a_cache_that_has_all_its_parts_is_not_given_more() {
        let parts = |version: &str, parts: &str| {
            in_parts(&Build::busy(version).variable("table_open_cache_instances", parts).window())
        };
        assert_eq!(parts("8.0.36", "16"), None);
        assert!(parts("8.0.36", "1").is_some());
        assert_eq!(parts("10.11.19-MariaDB", "1"), None);
    }
}
