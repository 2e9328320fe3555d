//! `statistics-stall`: index statistics are being recomputed too often, with locks held.

use spindoctor_model::{Finding, Remedy, TimeClass, Unavailable, Window};

use super::cpu_saturated;
use crate::draft::Draft;
use crate::stall::{LATCH_WAITS, Look, Stall, nobody};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "statistics-stall",
    title: "index statistics are being recomputed too often, with locks held",
    what: "The optimizer's statistics are estimated by reading pages of each index at random. A table without \
           persistent statistics has them recomputed by the session that changes its next sixteenth, in the middle \
           of its statement; innodb_stats_on_metadata makes SHOW and information_schema do it too, and ANALYZE TABLE \
           always does. Persistent ones are recomputed by a thread of the server after a tenth has changed. Meanwhile \
           the table's statistics are locked, and every statement that opens the table wants them.",
    why_it_hurts: "A small table with many changes (tasks, queues, sessions) reaches its sixteenth many times a second: \
                   each time pages are read at random, from disk where they are not in memory, while the sessions that \
                   work on the table stand and wait. It is the busiest table that suffers most.",
    evidence: "Stacks of all threads, ten times a second: sessions in dict_stats_update (5.5: dict_update_statistics), \
               where they recompute or wait for the one who does, and those that wait for the statistics' latches \
               (dict_table_stats_lock, dict_table_stats_compute_lock). It fires when two or more sessions on average stand so, and they are \
               10 % or more of the sessions at work. The estimate is that share.",
    looks_alike: "The state `statistics` of a session is the optimizer at work on one statement, index dives among it: \
                  index-dive-waste. After ANALYZE TABLE sessions that wait in the state `Waiting for table flush` \
                  wait for old statements to end.",
    remedies: "Give the table persistent statistics: ALTER TABLE ... STATS_PERSISTENT = 1, and where its distribution \
               never changes STATS_AUTO_RECALC = 0. Sample fewer pages: innodb_stats_transient_sample_pages (8 by \
               default), STATS_SAMPLE_PAGES of the table. innodb_stats_on_metadata = OFF, and ANALYZE TABLE off the \
               peak.",
    safety: "STATS_PERSISTENT and STATS_AUTO_RECALC change the dictionary only, in an instant, and need the table's \
             metadata lock for it (see metadata-lock-pileup). The variables are dynamic. Other or older statistics can \
             change plans: watch the statements of that table.",
    references: &[
        "Domas Mituzas, on stalls: Updating table statistics stalls the server (MySQL bug #56340)",
        "MySQL Reference Manual: Configuring Persistent / Non-Persistent Optimizer Statistics Parameters",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Latch, TimeClass::Mutex, TimeClass::Read, TimeClass::TableCache],
    stacks: Stacks::Standing(&[
        "dict_stats_update",
        "dict_table_stats_lock",
        "dict_table_stats_compute_lock",
        "dict_update_statistics",
    ]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What recomputes statistics: dict0stats.cc; dict0dict.c to 5.5.
const DOES: &[&str] = &["dict_stats_update", "dict_stats_update_for_index", "dict_update_statistics"];

/// What asks for the latches of statistics: dict0dict.cc, 5.6 and later.
const ASKS: &[&str] = &["dict_table_stats_lock", "dict_table_stats_compute_lock"];

/// More pages than these are many for each estimate: the default of innodb_stats_persistent_sample_pages.
const SAMPLE_PAGES: f64 = 20.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let look = Look { does: DOES, waits: waits_for_statistics, waits_beside: nobody };
    let Some(stall) = Stall::count(window, look)? else { return Ok(None) };
    if !stall.matters() {
        return Ok(None);
    }
    let [held_up, share] = stall.evidence("sessions that recompute statistics, or wait for them");
    let named = "innodb_stats_transient_sample_pages";
    let pages = window.variable_number(named);
    let on_metadata =
        window.latest(|s| &s.server.variables).and_then(|v| v.switch("innodb_stats_on_metadata"));
    Ok(Some(
        Draft::new(
            &CAUSE,
            stall.ratio(),
            format!(
                "{:.1} sessions on average recompute index statistics or wait for those who do",
                stall.held_up
            ),
        )
        .why(format!(
            "Statistics were being recomputed in {:.0} % of the snapshots, by {:.1} threads on average; of {:.1} sessions \
             at work {:.1} were busy with that or waited for it.",
            stall.seen_ratio * 100.0,
            stall.doing,
            stall.at_work,
            stall.held_up
        ))
        .evidence(held_up)
        .evidence(share)
        .evidence_if(pages.map(|pages| {
            spindoctor_model::Evidence::new(named, pages, "pages", "SHOW GLOBAL VARIABLES").expected("8")
        }))
        .remedy_if((on_metadata == Some(true)).then(|| Remedy {
            statement: "SET GLOBAL innodb_stats_on_metadata = OFF".into(),
            why: "SHOW and information_schema then read the statistics that there are.".into(),
            dynamic: true,
            risk: "What they show is as old as the statistics.".into(),
            undo: "SET GLOBAL innodb_stats_on_metadata = ON".into(),
        }))
        .remedy(Remedy {
            statement: "ALTER TABLE ... STATS_PERSISTENT = 1, STATS_AUTO_RECALC = 0".into(),
            why: "Sessions then no longer recompute the statistics of the table that they change.".into(),
            dynamic: true,
            risk: "Plans rest on statistics as old as the last ANALYZE TABLE. The statement needs the table's metadata \
                   lock for an instant."
                .into(),
            undo: "ALTER TABLE ... STATS_PERSISTENT = DEFAULT, STATS_AUTO_RECALC = DEFAULT".into(),
        })
        .remedy_if(pages.filter(|&pages| pages > SAMPLE_PAGES).map(|pages| Remedy {
            statement: format!("SET GLOBAL {named} = 8"),
            why: "Each estimate reads so many pages of each index.".into(),
            dynamic: true,
            risk: "Coarser estimates can change plans.".into(),
            undo: format!("SET GLOBAL {named} = {pages:.0}"),
        }))
        .root(stall.root(window))
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    ))
}

/// True for a stack that waits for statistics: for one of their latches, or for somebody else who recomputes them.
fn waits_for_statistics(names: &[&str]) -> bool {
    let Some(asks) = names.iter().position(|name| ASKS.contains(name) || DOES.contains(name)) else {
        return false;
    };
    // Latches of pages on the way are the work itself.
    names[..asks].iter().any(|name| LATCH_WAITS.contains(name))
        && !names[..asks].iter().any(|name| name.starts_with("btr_") || name.starts_with("buf_"))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState::{DiskRead, Lock};

    use super::*;
    use crate::testing::Build;

    /// MySQL 9.7.
    const RECOMPUTES: &[&str] = &[
        "pread64",
        "buf_page_get_gen",
        "btr_cur_open_at_rnd_pos",
        "btr_estimate_number_of_different_key_vals",
        "dict_stats_update",
        "row_update_for_mysql",
        "dispatch_command",
    ];
    const WAITS: &[&str] = &[
        "pthread_cond_wait",
        "os_event::wait_low",
        "sync_array_wait_event",
        "TTASEventMutex::wait",
        "mutex_enter_inline",
        "dict_stats_update",
        "ha_innobase::update_row",
        "dispatch_command",
    ];

    pub(crate) fn fires() -> Window {
        Build::busy("9.7.4")
            .variable("innodb_stats_transient_sample_pages", "1000")
            .snapshots(&[(7, Lock, WAITS), (1, DiskRead, RECOMPUTES)])
            .window()
    }

    /// One session that recomputes them, and nobody waits.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4").snapshots(&[(1, DiskRead, RECOMPUTES)]).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").without_profile().window()
    }

    #[test]
    fn the_number_of_pages_is_brought_down_where_it_is_large() {
        let Outcome::Fired(finding) = evaluate(&fires()) else { panic!() };
        let last = finding.remedies.last().unwrap();
        assert_eq!(last.undo, "SET GLOBAL innodb_stats_transient_sample_pages = 1000");
    }
}
