//! `adaptive-hash-contention`: sessions wait for the latch of InnoDB's adaptive hash index.

use spindoctor_model::innodb_status::SemaphoreWait;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::{cpu_saturated, index_lock, spin_burn};
use crate::adaptive_hash_latch::{HashLatch, VARIABLE};
use crate::draft::Draft;
use crate::rank::WARNING_FROM;
use crate::sessions::Waiting;
use crate::wait_graph::is_free;
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
    evidence: "Stacks of statements that wait for a latch below a function btr_search_*, as a share of the statements at work, \
               and CPU samples that spin there. It fires where either is 5 % or more and innodb_adaptive_hash_index is ON. It \
               needs the names of the server's functions; of a status that somebody captured three threads are enough that \
               wait for such a latch in its section SEMAPHORES.",
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

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// True where it is known to be off. What was captured comes without variables, and shows by itself that it is in use.
fn is_off(window: &Window) -> bool {
    let variables = window.latest(|s| &s.server.variables);
    variables.is_some_and(|variables| variables.switch(VARIABLE) != Some(true))
}

/// Threads that wait for it in one status, from which on they are a queue. By judgement.
const QUEUE: usize = 3;

/// What the section SEMAPHORES of a status says that somebody captured.
fn of_status(window: &Window) -> Option<Finding> {
    if !window.is_given() || is_off(window) {
        return None;
    }
    let status = window.latest(|s| &s.server.innodb_status)?;
    let is_its = |wait: &&SemaphoreWait| {
        wait.created_file.starts_with("btr0sea") || wait.name.to_ascii_lowercase().contains("btr_search")
    };
    let waits = status.semaphores.waiters.iter().filter(|wait| !wait.ended && !is_free(wait));
    let waiting = waits.filter(is_its).count();
    if waiting < QUEUE {
        return None;
    }
    let at_work = Waiting::count(window, |_| false).map_or(0.0, |all| all.at_work_mean);
    let share = waiting as f64 / at_work.max(waiting as f64);
    let source = "SHOW ENGINE INNODB STATUS, SEMAPHORES";
    (share >= WARNING_FROM).then(|| {
        Draft::new(&CAUSE, share, format!("{waiting} threads wait for the latch of the adaptive hash index"))
            .why(WHY)
            .evidence(
                Evidence::new("threads that wait for it", waiting as f64, "", source)
                    .expected(format!("< {QUEUE}")),
            )
            .remedy(switch_off())
            .explains(&[spin_burn::CAUSE.name, cpu_saturated::CAUSE.name, index_lock::CAUSE.name])
            .finding()
    })
}

const WHY: &str = "Lookups share the latch, changes take it for themselves; what the hash saves is lost several times over while \
                   sessions queue for it.";

fn switch_off() -> Remedy {
    Remedy {
        statement: format!("SET GLOBAL {VARIABLE} = OFF"),
        why: "Nobody takes the latch then.".into(),
        dynamic: true,
        risk: "It is emptied with all its latches held, some milliseconds for each GiB; lookups walk the index again.".into(),
        undo: format!("SET GLOBAL {VARIABLE} = ON"),
    }
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    if is_off(window) {
        return Ok(None);
    }
    let Some(latch) = HashLatch::from_window(window)? else { return Ok(None) };
    let share = latch.share();
    if share < WARNING_FROM {
        return Ok(None);
    }
    let parts = window.variable_number("innodb_adaptive_hash_index_parts");
    Ok(Some(
        Draft::new(
            &CAUSE,
            share,
            format!(
                "{:.0} % of the statements' time goes into the latch of the adaptive hash index",
                share * 100.0
            ),
        )
        .why(WHY)
        // Where all of it is spinning, that nobody waits speaks for nothing.
        .evidence_if((latch.waiting > 0.0).then(|| {
            Evidence::new("statements that wait for it", latch.waiting, "ratio", "stacks")
                .expected(format!("< {WARNING_FROM}"))
        }))
        .evidence_if(latch.spinning.map(|spinning| {
            Evidence::new("CPU samples that spin on it", spinning, "ratio", "CPU samples")
                .expected(format!("< {WARNING_FROM}"))
        }))
        .evidence_if(parts.map(|parts| {
            Evidence::new("innodb_adaptive_hash_index_parts", parts, "", "SHOW GLOBAL VARIABLES")
        }))
        .remedy(switch_off())
        .explains(&[spin_burn::CAUSE.name, cpu_saturated::CAUSE.name, index_lock::CAUSE.name])
        .finding(),
    ))
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
