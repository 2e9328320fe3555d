//! `concurrency-queue`: sessions wait for a ticket of `innodb_thread_concurrency`.

use spindoctor_model::{Evidence, Remedy, SessionTime, TimeClass, Window};

use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "concurrency-queue",
    title: "sessions wait for a ticket of innodb_thread_concurrency",
    what: "innodb_thread_concurrency lets so many threads work inside InnoDB at once; the others wait at the door until one \
           leaves or has used up its tickets (innodb_concurrency_tickets). The limit suits hundreds of short statements that \
           fight for the same latches. Where the ones inside are long scans or wait for reads, the rest waits behind them.",
    why_it_hurts: "Short statements wait for long ones while CPUs and disks are idle. The process list shows nothing of it: \
                   their states are those of work.",
    evidence: "Sessions in srv_conc_enter_innodb by their stacks: from 5 % of the session time and half a session on; and \
               innodb_thread_concurrency.",
    looks_alike: "Sessions that queue for a CPU are runnable: cpu-saturated. Sessions that wait in MariaDB's thread pool \
                  have no statement at work yet. A limit that is far above the sessions at work makes nobody wait.",
    remedies: "SET GLOBAL innodb_thread_concurrency = 0 (no limit), or a limit above what CPUs and disks can do at once: four \
               for each CPU at least. Then look at the statements that stay inside for long.",
    safety: "The variable is dynamic and acts at once. Without a limit hundreds of runnable threads can fight for latches: watch \
             throughput after the change, and set the old value back if it falls.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-performance-thread_concurrency.html",
        "MySQL 8.0 source, srv0conc.cc (srv_conc_enter_innodb_with_atomics)",
    ],
    costs: Costs::Waits(&[TimeClass::ConcurrencyTicket]),
    explains_time: &[TimeClass::ConcurrencyTicket],
    stacks: Stacks::Standing(&["srv_conc_enter_innodb", "srv_conc_enter_innodb_with_atomics"]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::ConcurrencyTicket]) else {
        return Outcome::Clear;
    };
    let printed = window.latest(|sample| &sample.server.innodb_status).map(|status| &status.row_operations);
    let queued = printed.and_then(|rows| rows.queries_queued).filter(|&queued| queued > 0);
    let inside = printed.and_then(|rows| rows.queries_inside);
    let limit = window.variable_number("innodb_thread_concurrency").filter(|limit| *limit > 0.0);
    let let_in = limit.map_or_else(String::new, |limit| format!("; {limit:.0} may be inside at once"));
    Outcome::Fired(
        waits
            .draft(
                &CAUSE,
                format!("{:.1} sessions wait to be let into InnoDB{let_in}", waits.sessions),
            )
            .why("innodb_thread_concurrency lets no more in until one of those inside leaves or has used up its tickets.")
            .evidence_if(limit.map(|limit| {
                Evidence::new("innodb_thread_concurrency", limit, "", "SHOW GLOBAL VARIABLES").expected("0")
            }))
            .evidence_if(queued.map(|queued| {
                Evidence::new("queries in InnoDB's queue", queued as f64, "", "SHOW ENGINE INNODB STATUS").expected("0")
            }))
            .evidence_if(inside.filter(|_| queued.is_some()).map(|inside| {
                Evidence::new("queries inside", inside as f64, "", "SHOW ENGINE INNODB STATUS")
            }))
            .remedy_if(queued.map(|_| Remedy {
                statement: "Look at the statements inside first: those of InnoDB's list of transactions that neither sleep before entering \
                            nor wait for a lock, the oldest first"
                    .into(),
                why: "A few long ones that keep their places let all others wait: KILL QUERY of these, or an index for them, empties the \
                      queue."
                    .into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            }))
            .remedy(Remedy {
                statement: "SET GLOBAL innodb_thread_concurrency = 0".into(),
                why: "Nobody waits at the door; the kernel shares out the CPUs.".into(),
                dynamic: true,
                risk: "With hundreds of runnable threads latches may become the next bottleneck: watch throughput.".into(),
                undo: limit.map_or_else(
                    || "SET GLOBAL innodb_thread_concurrency to what it was".to_owned(),
                    |limit| format!("SET GLOBAL innodb_thread_concurrency = {limit:.0}"),
                ),
            })
            .finding(),
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::Build;

    fn sleeping_in(function: &'static str) -> Window {
        let frames: &[&str] =
            &["clock_nanosleep", function, "ha_innobase::rnd_next", "dispatch_command", "do_command"];
        let build = Build::busy("8.0.36").variable("innodb_thread_concurrency", "2");
        build.only_snapshots(&[(14, ThreadState::Sleep, frames)]).window()
    }

    pub(crate) fn fires() -> Window {
        sleeping_in("srv_conc_enter_innodb_with_atomics")
    }

    /// They sleep on purpose.
    pub(crate) fn near_miss() -> Window {
        sleeping_in("Item_func_sleep::val_int")
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .remote()
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }
}
