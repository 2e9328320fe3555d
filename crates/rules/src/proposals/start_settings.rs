//! `start-settings`: what the server takes at its start alone: advice with its reason, and no trial.

use spindoctor_model::number::percent;
use spindoctor_model::{Proposal, Remedy, ServerVersion, Unavailable, Window};

use super::Family;
use super::advice::{Advice, Examined, leave};
use crate::causes::{log_cache_pressure, memory_pressure, swapping};
use crate::rank;
use crate::sessions::Waiting;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "start-settings",
    title: "settings that need a restart",
    cures: &[],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const ARRAYS: &str = "innodb_sync_array_size";
const FLUSH: &str = "innodb_flush_method";

/// The mutex of the array in which a thread reserves a cell before it sleeps for a latch.
const EVENT: &str = "wait/synch/mutex/innodb/sync_array_mutex";

/// Arrays that the waiters are spread over. The manual names no number but the greatest, 1024; each array is small, and with as many
/// as this sixteen threads reserve a cell without meeting. Chosen.
const SPREAD: &str = "16";

/// What is in memory twice costs where memory is short.
const SHORT_OF_MEMORY: [&str; 3] =
    [swapping::CAUSE.name, memory_pressure::CAUSE.name, log_cache_pressure::CAUSE.name];

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let version = examined.version()?;
    let (mut proposals, mut left) = (Vec::new(), Vec::new());
    for said in [arrays(examined.window, version)?, flush_method(examined)?] {
        match said {
            Ok(proposal) => proposals.push(proposal),
            Err(reason) => left.push(reason),
        }
    }
    if proposals.is_empty() { leave(left.join("; ")) } else { Ok(Advice::Propose(proposals)) }
}

/// A setting that is changed in the option file.
fn at_start(name: &str, from: &str, to: &str, why: String, risk: &str) -> Proposal {
    let line = |value: &str| format!("{name} = {value} in the option file, and a restart");
    Proposal {
        remedy: Remedy { statement: line(to), why, dynamic: false, risk: risk.to_owned(), undo: line(from) },
        not_tried: Some("the server reads it at its start alone".into()),
        ..Proposal::default()
    }
}

/// A proposal, or why there is none.
type Said = Result<Proposal, String>;

/// One array of waiters or several: the published case of 1,024 sessions had its mutex third in the table of waits.
fn arrays(window: &Window, version: ServerVersion) -> Result<Said, Unavailable> {
    if version.mariadb_at_least(10, 6, 0) {
        return Ok(Err("MariaDB 10.6 and later have no array of waiters".to_owned()));
    }
    let Some(arrays) = window.variable(ARRAYS) else {
        return Ok(Err(format!("this server has no {ARRAYS}")));
    };
    let change = window.need_change(|s| &s.server.waits)?;
    let total_ns = |waits: &[spindoctor_model::mysql::WaitSummary]| {
        waits.iter().find(|wait| wait.event == EVENT).map(|wait| wait.total_ns)
    };
    let grown_ns = total_ns(change.last)
        .and_then(|last| last.checked_sub(total_ns(change.first).unwrap_or(0)))
        .filter(|grown_ns| *grown_ns > 0);
    let Some(grown_ns) = grown_ns else {
        return Ok(Err(format!(
            "no wait for the array of waiters was counted ({ARRAYS} = {arrays}; its mutex may not be instrumented)"
        )));
    };
    let at_work = Waiting::count(window, |_| false)?.at_work_mean.max(1.0);
    let share = (grown_ns as f64 / 1e9 / change.seconds / at_work).min(1.0);
    let reading =
        format!("{} of the sessions' time goes into waits for the array of waiters", percent(share));
    if share < rank::WARNING_FROM || arrays != "1" {
        return Ok(Err(format!("{reading} ({ARRAYS} = {arrays})")));
    }
    let proposal = at_start(
        ARRAYS,
        arrays,
        SPREAD,
        format!(
            "{reading}: each thread reserves a cell of it before it sleeps for a latch. The manual has several arrays for servers with \
             more than some 768 waiting threads. Better is to make them wait less: see the latches that they wait for."
        ),
        "SHOW ENGINE INNODB STATUS lists waiters array by array. The pool is cold after the restart.",
    );
    Ok(Ok(Proposal { score: Some(share), ..proposal }))
}

/// Pages of tables in the page cache beside the buffer pool, where memory is short.
fn flush_method(examined: &Examined<'_>) -> Result<Said, Unavailable> {
    let method = examined.window.variable(FLUSH).unwrap_or_default();
    // Nothing but these goes around the page cache; empty is fsync (MySQL before 8.4, MariaDB before 10.6).
    let is_buffered = matches!(
        method.to_ascii_lowercase().as_str(),
        "" | "fsync" | "fdatasync" | "o_dsync" | "littlesync" | "nosync"
    );
    if examined.window.variable(FLUSH).is_none() {
        return Ok(Err(format!("this server has no {FLUSH}")));
    }
    if !is_buffered {
        return Ok(Err(format!("{FLUSH} = {method} keeps tables out of the page cache")));
    }
    let named = if method.is_empty() { "fsync" } else { method };
    let Some(finding) = SHORT_OF_MEMORY.iter().find_map(|cause| examined.finding(cause)) else {
        return Ok(Err(format!(
            "{FLUSH} = {named} keeps pages of tables in memory twice, but memory is not short"
        )));
    };
    let proposal = at_start(
        FLUSH,
        named,
        "O_DIRECT",
        format!(
            "{}. With {FLUSH} = {named} pages of tables are in the buffer pool and in the page cache: what O_DIRECT frees is the host's \
             or the pool's to use.",
            finding.headline
        ),
        "Reads and writes go to the storage at once: on one without a cache of its own they take longer, and a buffer pool that is too \
         small has no page cache behind it. Some network file systems refuse it.",
    );
    Ok(Ok(Proposal { cause: Some(finding.cause.clone()), score: Some(finding.score), ..proposal }))
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::mysql::WaitSummary;

    use super::*;
    use crate::testing::{Build, answer, session};

    /// 64 sessions that update; so much of their time is in waits for the array.
    fn waiting(share: f64, arrays: &str) -> Build {
        Build::busy("8.0.24")
            .sessions(|_| {
                (20..84).map(|id| session(id, "Query", "updating", "UPDATE t SET k = k + 1")).collect()
            })
            .variable(ARRAYS, arrays)
            .variable(FLUSH, "O_DIRECT")
            .each(move |at_s, server, _| {
                let total_ns = (at_s * 64.0 * share * 1e9) as u64;
                server.waits = answer(
                    at_s,
                    vec![WaitSummary { event: EVENT.into(), count: total_ns / 1_000, total_ns }],
                );
            })
    }

    pub(in crate::proposals) fn fires() -> Window {
        waiting(0.2, "1").window()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        waiting(0.03, "1").window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        let build = waiting(0.2, "1");
        build.each(|_, server, _| server.waits = spindoctor_model::Reading::NotAsked).window()
    }

    fn said(window: &Window) -> (Vec<Proposal>, String) {
        let plan = super::super::plan(window);
        let proposals =
            plan.proposals.into_iter().filter(|proposal| proposal.family == FAMILY.name).collect();
        let left = plan.left.into_iter().find(|left| left.family == FAMILY.name);
        (proposals, left.map(|left| left.because).unwrap_or_default())
    }

    #[test]
    fn one_array_that_many_wait_for_is_advice_for_the_next_start() {
        let (proposals, _) = said(&fires());
        let proposal = &proposals[0];
        assert_eq!(
            proposal.remedy.statement,
            "innodb_sync_array_size = 16 in the option file, and a restart"
        );
        assert_eq!(proposal.remedy.undo, "innodb_sync_array_size = 1 in the option file, and a restart");
        assert!(!proposal.remedy.dynamic && proposal.changes.is_empty() && proposal.not_tried.is_some());
        let (none, left) = said(&waiting(0.2, "8").window());
        assert!(none.is_empty() && left.contains("20 % of the sessions' time"), "{left}");
        let (_, left) = said(&waiting(0.0, "1").window());
        assert!(left.contains("may not be instrumented"), "{left}");
    }

    #[test]
    fn pages_in_memory_twice_are_advice_where_memory_is_short() {
        let buffered = |mut window: Window| {
            for sample in &mut window.samples {
                if let spindoctor_model::Reading::Available { value: variables, .. } =
                    &mut sample.server.variables
                {
                    let others = variables.iter().filter(|(name, _)| *name != FLUSH);
                    *variables = others.chain([(FLUSH, "fsync")]).collect();
                }
            }
            window
        };
        let (proposals, _) = said(&buffered(swapping::examples::fires()));
        let statements: Vec<&str> =
            proposals.iter().map(|proposal| proposal.remedy.statement.as_str()).collect();
        assert_eq!(statements, ["innodb_flush_method = O_DIRECT in the option file, and a restart"]);
        assert!(proposals[0].remedy.why.contains("in the page cache"), "{}", proposals[0].remedy.why);
        let (none, left) = said(&buffered(near_miss()));
        assert!(none.is_empty() && left.contains("memory is not short"), "{left}");
    }
}
