//! InnoDB's own cache of open files is used up: captured stacks or CPU samples in which threads wait for a place in it.

use spindoctor_model::stack::Observation;
use spindoctor_model::{Evidence, Finding, Remedy, Window};

use super::CAUSE;
use crate::below::is_below;
use crate::captured::Captured;
use crate::draft::Draft;

/// Functions that take a place for a file that is to be opened, and close another one where none is free (fil/fil0fil.cc).
const PLACES: &[&str] = &[
    "Fil_shard::reserve_open_slot",
    "Fil_shard::mutex_acquire_and_get_space",
    "fil_mutex_enter_and_prepare_for_io",
];

/// What they call while no place is free.
const YIELDS: &[&str] =
    &["sched_yield", "__sched_yield", "os_thread_yield", "os_thread_sleep", "std::this_thread::yield"];

/// From this part on, 0 to 1: where files stay open, nobody waits there.
const WAITING: f64 = 0.10;

/// None where the functions are seen and nobody gives up the CPU in them: each I/O goes through them.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let profile = window.profile.value()?;
    let is_both = |seen: &Observation| is_below(profile, seen, YIELDS) && is_below(profile, seen, PLACES);
    let captured = Captured::from_window(window, |name| PLACES.contains(&name))?;
    if captured.share < WAITING || !profile.observations.iter().any(is_both) {
        return None;
    }
    let limit = window.variable_number("innodb_open_files");
    let more = limit.map_or_else(|| "twice its value".to_owned(), |limit| format!("{:.0}", 2.0 * limit));
    let headline =
        format!("InnoDB's open files are used up (innodb_open_files): {} wait for one", captured.said());
    Some(
        Draft::new(&CAUSE, captured.share, headline)
            .why(
                "InnoDB keeps no more files open than that. For each further one it closes another, and threads that want a file give up the \
                 CPU and try again until a place is free: more tables and partitions are in use than files may be open.",
            )
            .evidence_all(captured.evidence("wait for a place among the open files", WAITING).into_iter())
            .evidence_if(limit.map(|limit| Evidence::new("innodb_open_files", limit, "files", "SHOW GLOBAL VARIABLES")))
            .remedy(Remedy {
                statement: format!(
                    "innodb_open_files = {more} in [mysqld], with open_files_limit (LimitNOFILE of its service) above it, and restart; from \
                     MySQL 8.0.28 on without a restart: SELECT innodb_set_open_files_limit(N)"
                ),
                why: "The files of all tables that are in use then stay open.".into(),
                dynamic: false,
                risk: "Each open file takes a descriptor: open_files_limit must allow for connections and for these.".into(),
                undo: "Set innodb_open_files back.".into(),
            })
            .elsewhere()
            .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState::{Running, Sleep};

    use super::*;
    use crate::testing::Build;

    fn said(innermost: &'static str) -> Option<String> {
        let waits: &[&str] =
            &[innermost, "Fil_shard::reserve_open_slot", "fil_io", "row_search_mvcc", "dispatch_command"];
        let works: &[&str] = &["row_search_mvcc", "dispatch_command"];
        let build = Build::busy("8.0.36").only_snapshots(&[(8, Sleep, waits), (8, Running, works)]);
        let found = crate::diagnose(&build.captured().window()).findings;
        found.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.headline)
    }

    #[test]
    fn threads_that_yield_until_a_file_may_be_opened_name_the_limit() {
        let headline = said("sched_yield").unwrap();
        let wanted =
            "InnoDB's open files are used up (innodb_open_files): 50 % of the sessions at work wait for one";
        assert_eq!(headline, wanted);
        assert_eq!(said("pread64"), None);
    }
}
