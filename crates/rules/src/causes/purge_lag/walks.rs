//! Stacks and CPU samples that somebody captured in which statements walk through the old versions of rows.

use spindoctor_model::{Finding, Window};

use super::views::Oldest;
use super::{BUILDING, CAUSE, OLD_VERSIONS, OLDER_THAN_WORK_S, oldest, who_is_old};
use crate::captured::Captured;
use crate::draft::Draft;

/// From this part of the sessions at work on, 0 to 1: one of five that is seen there is there for most of its statement.
const STANDING: f64 = 0.20;

/// The part that walks, where it is worth a finding.
pub(super) fn captured(window: &Window) -> Option<Captured> {
    let captured = Captured::from_window(window, |name| OLD_VERSIONS.contains(&name))?;
    (captured.share >= least(&captured)).then_some(captured)
}

/// Below this it is what every server does for rows that were changed a moment ago.
pub(super) fn least(captured: &Captured) -> f64 {
    if captured.is_of_cpu { BUILDING } else { STANDING }
}

/// The finding, where no list says how many versions there are.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let captured = captured(window)?;
    let oldest = oldest(window, OLDER_THAN_WORK_S);
    let who = oldest.as_ref().map_or_else(
        || {
            "A transaction that is open for long keeps them from being purged: look for the oldest one."
                .to_owned()
        },
        Oldest::keeps,
    );
    let headline = format!("Statements walk long chains of old row versions: {}", captured.said());
    Some(
        Draft::new(&CAUSE, captured.share, headline)
            .why(format!(
                "For each row that was changed they build one version after the other, back to the one that they may see, or until they \
                 know who changed the row. {who}"
            ))
            .evidence_all(captured.evidence("in functions that build old versions", least(&captured)).into_iter())
            .remedy_if(oldest.and_then(|oldest| oldest.kill(window)))
            .remedy(who_is_old())
            .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState::{Lock, NetworkIdle, Running};

    use super::*;
    use crate::testing::{Build, answer, transaction};

    const WALKS: &[&str] = &[
        "trx_undo_prev_version_build",
        "row_vers_impl_x_locked",
        "lock_clust_rec_read_check_and_lock",
        "dispatch_command",
    ];

    #[test]
    fn captured_samples_that_walk_name_the_oldest_transaction_or_say_how_to_find_it() {
        let window = |share| Build::busy("8.0.36").running(1_000, share, WALKS).captured();
        let finding = found(&window(0.62).window()).unwrap();
        let headline = "Statements walk long chains of old row versions: 62 % of the server's CPU samples";
        assert_eq!(finding.headline, headline);
        assert!(finding.remedies[0].statement.contains("INNODB_TRX"), "{:?}", finding.remedies);
        assert_eq!(found(&window(0.05).window()), None);
        let listed = window(0.62).each(|at_s, server, _| {
            server.transactions = answer(at_s, vec![transaction(12, "RUNNING", 9_000.0)]);
        });
        let finding = found(&listed.window()).unwrap();
        assert!(finding.why.contains("(connection 12)"), "{}", finding.why);
    }

    #[test]
    fn of_captured_stacks_a_fifth_of_those_at_work_is_enough() {
        let of = |walking: u32| {
            let others: &[&str] = &["row_search_mvcc", "dispatch_command"];
            let rests: &[&str] = &["vio_read", "do_command"];
            let all = [(walking, Running, WALKS), (12 - walking, Lock, others), (40, NetworkIdle, rests)];
            found(&Build::busy("8.0.36").only_snapshots(&all).captured().window())
        };
        assert!(of(6).unwrap().headline.ends_with("50 % of the sessions at work"));
        assert_eq!(of(1), None);
    }
}
