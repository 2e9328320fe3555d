//! `adaptive-hash-contention`: sessions wait for the latch of InnoDB's adaptive hash index.

use spindoctor_model::latches::ADAPTIVE_HASH_INDEX;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Window};

use super::{cpu_saturated, index_lock};
use crate::latch_time::{self, Contention, Latches};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "adaptive-hash-contention",
    title: "sessions wait for the latch of the adaptive hash index",
    what: "InnoDB remembers in a hash table where rows are that are looked up often. One latch guards it (btr_search_latch; in \
           5.7 and later one for each of innodb_adaptive_hash_index_parts). Lookups share it; inserts, deletes, page splits and \
           pages that leave the buffer pool take it for themselves, and DROP or TRUNCATE of a table takes its entries out page \
           by page.",
    why_it_hurts: "The latch is held for a moment, but by nearly every statement. With many sessions at work they queue for \
                   it, spin, and are woken one after the other: more CPUs make it worse.",
    evidence: "Stacks of statements that wait for a latch below a function btr_search_*, CPU samples that spin there, and the waits that \
               performance_schema counted in the window for btr_search_latch. It fires where innodb_adaptive_hash_index is ON and two \
               sessions or more on average, and 5 % of those at work, wait so, or where 5 % of the CPU samples spin so. An instrument \
               that is off counts nothing: it is unknown then, and not nothing. Of a status that somebody captured, and of a server of \
               which there is nothing else, three threads are enough that wait for such a latch in the section SEMAPHORES, each for \
               less than 5 s.",
    looks_alike: "Waits below btr_cur_* without btr_search_* are for the index itself: index-lock. A thread in \
                  btr_search_drop_page_hash_index that waits for nothing is dropping a table: dictionary-stall.",
    remedies: "SET GLOBAL innodb_adaptive_hash_index = OFF: it is off by default since MySQL 8.4 and MariaDB 10.5. Where lookups \
               by primary key are most of the work and gain from it, more innodb_adaptive_hash_index_parts (5.7 and later, \
               needs a restart).",
    safety: "Switching it off empties it with all its latches held: a stall of some milliseconds for each GiB that it takes. \
             Lookups that it answered walk the index again, which costs some CPU. Switched on again it starts empty.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-adaptive-hash.html",
        "MySQL source, btr0sea.cc: btr_search_guess_on_hash, btr_search_drop_page_hash_index",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Latch, TimeClass::Spin],
    stacks: Stacks::Standing(&[
        "btr_search_guess_on_hash",
        "btr_search_info_update_slow",
        "btr_search_update_hash_on_insert",
        "btr_search_update_hash_on_delete",
        "btr_search_update_hash_node_on_insert",
        "btr_search_move_or_delete_hash_entries",
        "btr_search_drop_page_hash_index",
        "btr_search_build_page_hash_index",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What switches the index.
pub(crate) const VARIABLE: &str = "innodb_adaptive_hash_index";

/// The index' latch, or those of its parts.
pub(crate) const HASH: Latches = Latches {
    named: "the latch of the adaptive hash index",
    latches: &[&ADAPTIVE_HASH_INDEX],
    before_5_6: latch_time::no_more,
};

fn evaluate(window: &Window) -> Outcome {
    if is_off(window) {
        return Outcome::Clear;
    }
    let found = latch_time::contention(window, &HASH);
    found.map(|found| found.map(|found| finding(window, found))).into()
}

/// True where it is known to be off. What was captured comes without variables, and shows by itself that it is in use.
fn is_off(window: &Window) -> bool {
    let variables = window.latest(|s| &s.server.variables);
    variables.is_some_and(|variables| variables.switch(VARIABLE) != Some(true))
}

fn of_status(window: &Window) -> Option<Finding> {
    let found = latch_time::printed(window, &HASH).filter(|_| !is_off(window));
    found.map(|found| finding(window, found))
}

fn finding(window: &Window, found: Contention) -> Finding {
    let parts = window.variable_number("innodb_adaptive_hash_index_parts");
    found
        .draft(&CAUSE, window)
        .why(
            "Lookups share the latch, changes take it for themselves; what the hash saves is lost several times over while sessions \
             queue for it.",
        )
        .evidence_if(parts.map(|parts| {
            Evidence::new("innodb_adaptive_hash_index_parts", parts, "", "SHOW GLOBAL VARIABLES")
        }))
        .remedy(Remedy {
            statement: format!("SET GLOBAL {VARIABLE} = OFF"),
            why: "Nobody takes the latch then.".into(),
            dynamic: true,
            risk: "It is emptied with all its latches held, some milliseconds for each GiB; lookups walk the index again.".into(),
            undo: format!("SET GLOBAL {VARIABLE} = ON"),
        })
        .explains(&[cpu_saturated::CAUSE.name, index_lock::CAUSE.name])
        .finding()
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::Build;

    fn waiting(sessions: u32) -> Build {
        let waits: &[&str] = &[
            "sync_array_wait_event",
            "rw_lock_x_lock_func",
            "btr_search_update_hash_on_insert",
            "row_ins",
            "dispatch_command",
            "do_command",
        ];
        let works: &[&str] =
            &["row_search_mvcc", "ha_innobase::index_read", "dispatch_command", "do_command"];
        Build::busy("8.0.36").variable(VARIABLE, "ON").only_snapshots(&[
            (sessions, ThreadState::Lock, waits),
            (40 - sessions, ThreadState::Running, works),
        ])
    }

    pub(crate) fn fires() -> Window {
        waiting(30).window()
    }

    /// One session in forty.
    pub(crate) fn near_miss() -> Window {
        waiting(1).window()
    }

    pub(crate) fn missing() -> Window {
        waiting(30).without_profile().window()
    }

    #[test]
    fn spinning_on_it_counts_and_an_index_that_is_off_has_no_latch() {
        let spins = |switch: &str| {
            let frames = &["ut_delay", "rw_lock_s_lock_spin", "btr_search_guess_on_hash", "row_search_mvcc"];
            evaluate(
                &Build::busy("8.0.36").variable(VARIABLE, switch).cpu_samples(1000, 0.4, frames).window(),
            )
        };
        match spins("ON") {
            Outcome::Fired(finding) => assert!(finding.headline.starts_with("40 %"), "{}", finding.headline),
            other => panic!("{other:?}"),
        }
        assert_eq!(spins("OFF"), Outcome::Clear);
    }
}
