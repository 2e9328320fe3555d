//! How much of the sessions' time goes into waits for rollback segments' mutexes.

use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::{Unavailable, Window};

use crate::sessions::Waiting;
use crate::spin_samples;

/// The mutex of a rollback segment in an undo tablespace (MySQL 8.0 and later).
const EVENT: &str = "wait/synch/mutex/innodb/undo_space_rseg_mutex";

/// Functions that take the mutex: choosing a segment, taking an undo log of it, adding to its history at commit.
const TAKE_IT: &[&str] = &[
    "get_next_redo_rseg",
    "trx_assign_rseg_durable",
    "trx_undo_assign_undo",
    "trx_write_serialisation_history",
];

/// Waits below these are for other mutexes of the transaction system.
const OTHERS: &[&str] = &["trx_serialisation_number_get", "trx_add_to_serialisation_list"];

/// Share of the working sessions' time, 0 to 1, and where that was read.
///
/// The summary lists what was ever counted, not what is instrumented: a mutex whose instrument is off looks like one that
/// nobody waits for. So only waits that were counted in the window are taken from it.
pub(super) fn share(window: &Window) -> Result<(f64, &'static str), Unavailable> {
    let counted = by_summary(window).map(|share| (share, "performance_schema"));
    counted.or_else(|| by_stacks(window)).ok_or_else(|| {
        Unavailable::because("waits for rollback segments could not be read: none was counted, as where their mutex is not instrumented, and there are no stacks").unlock(
            "run spindoctor as root (it takes stacks), or UPDATE performance_schema.setup_instruments SET \
             ENABLED='YES', TIMED='YES' WHERE NAME LIKE '%undo_space_rseg_mutex'",
        )
    })
}

/// Seconds waited a second, of the seconds that sessions were at work; none where no wait was counted.
fn by_summary(window: &Window) -> Option<f64> {
    let waits = window.change(|s| &s.server.waits)?;
    let total_ns = |waits: &[spindoctor_model::mysql::WaitSummary]| {
        waits.iter().find(|wait| wait.event == EVENT).map(|wait| wait.total_ns)
    };
    let grown_ns = total_ns(waits.last)?.checked_sub(total_ns(waits.first).unwrap_or(0))?;
    let waited_s = Some(grown_ns).filter(|&grown_ns| grown_ns > 0)? as f64 / 1e9;
    let at_work = Waiting::count(window, |_| false).ok()?.at_work_mean;
    Some((waited_s / waits.seconds / at_work.max(1.0)).min(1.0))
}

/// Threads that stand in it, of the threads that run a statement; none where its functions would have no name.
fn by_stacks(window: &Window) -> Option<(f64, &'static str)> {
    let profile = window.profile.value().filter(|profile| !profile.snapshots.is_empty())?;
    let profile = Some(profile).filter(|profile| spin_samples::names_innodb(profile))?;
    let at_work =
        profile.observations.iter().filter(|&observation| runs_statement(profile, observation)).count();
    let waiting = profile.observations.iter().filter(|&observation| waits(profile, observation)).count();
    Some((waiting as f64 / at_work.max(1) as f64, "stacks"))
}

fn runs_statement(profile: &Profile, observation: &Observation) -> bool {
    observation.state != ThreadState::NetworkIdle
        && spin_samples::names(profile, observation).any(|name| name == "dispatch_command")
}

fn waits(profile: &Profile, observation: &Observation) -> bool {
    let stands =
        |functions: &[&str]| spin_samples::names(profile, observation).any(|name| functions.contains(&name));
    observation.state == ThreadState::Lock && stands(TAKE_IT) && !stands(OTHERS)
}
