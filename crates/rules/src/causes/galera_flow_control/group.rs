//! Flow control of Group Replication: who waits for it at a commit, and which member is behind.

use spindoctor_model::{
    Evidence, Finding, KnownBy, Remedy, SessionTime, TimeClass, TimeShare, Window, number,
};

use super::super::{cluster_partition, commit_sync_bound};
use super::CAUSE;
use crate::replication_group::{self, Queue};
use crate::time_model::InClasses;

/// Where a session stands that flow control holds back, and where one that waits for the agreement (plugin/group_replication:
/// pipeline_stats.cc, observer_trans.cc).
const HELD_BACK: &str = "Flow_control_module::do_wait";
const AGREES: &str = "Wait_ticket::waitTicket";

/// What a member of a group shows of it.
pub(super) fn examine(window: &Window, time: &SessionTime) -> Option<Finding> {
    if cluster_partition::group_lacks_a_majority(window) {
        return None;
    }
    let of = |class, known_by| time.classes.iter().find(|one| one.class == class && one.known_by == known_by);
    // A list has one word for all that a commit waits for.
    let waits = of(TimeClass::GroupReplication, KnownBy::Stack)
        .or_else(|| of(TimeClass::Commit, KnownBy::List).filter(|_| replication_group::is_member(window)))?;
    let longest = replication_group::longest_queue(window);
    let acts =
        replication_group::has_flow_control(window) && longest.is_some_and(|queue| queue.is_too_long());
    let waiting = InClasses::from_time(time, &[waits.class])?;
    let part = by_functions(waits).or_else(|| by_component(window, waiting.sessions)).unwrap_or(if acts {
        1.0
    } else {
        0.0
    });
    let waiting = waiting.part(part)?;
    let who = longest.map_or_else(String::new, |queue| format!(": {}", queue.sentence()));
    Some(
        waiting
            .draft(
                &CAUSE,
                format!(
                    "{:.1} sessions wait for flow control of their replication group at a commit{who}",
                    waiting.sessions
                ),
            )
            .why(why(longest))
            .evidence_all(replication_group::evidence(window).into_iter())
            .evidence_if(
                longest
                    .map(|queue| Evidence::new(queue.variable, queue.threshold, "", "SHOW GLOBAL VARIABLES")),
            )
            .remedy(slow_member(longest))
            .remedy(Remedy {
                statement: "SET GLOBAL group_replication_flow_control_mode = 'DISABLED'".into(),
                why: "Each member holds back the commits of its own clients: this one then waits for the group's agreement alone, within \
                      a second."
                    .into(),
                dynamic: true,
                risk: "The slow member falls further behind: its reads are older, and it takes longer to become the primary.".into(),
                undo: "SET GLOBAL group_replication_flow_control_mode = 'QUOTA'".into(),
            })
            .explains(&[commit_sync_bound::CAUSE.name])
            .finding(),
    )
}

/// The part, 0 to 1, of those that wait for the group which flow control holds back, by their stacks; None where the plugin's
/// functions have no names.
fn by_functions(waits: &TimeShare) -> Option<f64> {
    let standing = |function: &str| -> f64 {
        waits.seen.iter().filter(|(seen, _)| seen.contains(function)).map(|(_, share)| share).sum()
    };
    let (held_back, agrees) = (standing(HELD_BACK), standing(AGREES));
    (held_back + agrees > 0.0).then(|| held_back / (held_back + agrees))
}

/// The same of so many sessions, where the component that times it is installed.
fn by_component(window: &Window, sessions: f64) -> Option<f64> {
    let held_back = replication_group::held_back_sessions(window)?;
    Some((held_back / sessions).clamp(0.0, 1.0))
}

fn why(longest: Option<Queue<'_>>) -> String {
    let from = match longest {
        Some(queue) => format!(
            "more than {} transactions to {} ({})",
            number::whole(queue.threshold),
            queue.to,
            queue.variable
        ),
        None => "more transactions to certify or to apply than group_replication_flow_control_certifier_threshold or \
                 _applier_threshold"
            .to_owned(),
    };
    format!(
        "While a member has {from}, Group Replication lets no more commits through than the slowest member keeps up with. Each commit \
         beyond that waits for up to a second before it is sent to the group."
    )
}

/// Where to look, and what for.
fn slow_member(longest: Option<Queue<'_>>) -> Remedy {
    let on = match longest {
        Some(queue) if queue.member.is_self == Some(true) => "Here".to_owned(),
        Some(queue) => format!("On {}", queue.member.place()),
        None => "On the member with the longest COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE in \
                 performance_schema.replication_group_member_stats"
            .to_owned(),
    };
    Remedy {
        statement: format!(
            "{on}: SHOW FULL PROCESSLIST; SELECT * FROM performance_schema.replication_applier_status_by_worker"
        ),
        why: "The slowest member sets the pace of every commit. They show what its applier waits for: a lock of a backup or of a \
              session, a large transaction, its disk, or too few replica_parallel_workers. KILL does not end a commit."
            .into(),
        dynamic: true,
        risk: "They only read.".into(),
        ..Remedy::default()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::causes::unnamed_wait;
    use crate::replication_group::examples::grouped;
    use crate::testing::Build;

    const COMMITS: [&str; 5] = [
        "Trans_delegate::before_commit",
        "MYSQL_BIN_LOG::commit",
        "ha_commit_trans",
        "dispatch_command",
        "do_command",
    ];

    /// Eight sessions commit, by the list alone.
    fn listed(to_apply: u64) -> Build {
        grouped(Build::waiting(8, "waiting for handler commit"), 0, to_apply)
    }

    /// Sessions in the plugin's functions: so many held back, and so many that wait for the agreement.
    fn standing(held_back: u32, agree: u32) -> Build {
        let below = |function| {
            [&["___pthread_cond_wait", function, "group_replication_trans_before_commit"][..], &COMMITS]
                .concat()
        };
        let (held, agreeing) = (below(HELD_BACK), below(AGREES));
        Build::busy("9.7.4").remote().only_snapshots(&[
            (held_back, ThreadState::Condition, &held),
            (agree, ThreadState::Condition, &agreeing),
        ])
    }

    fn first(window: &Window) -> Finding {
        crate::diagnose(window).findings.remove(0)
    }

    #[test]
    fn the_member_that_is_behind_is_named_where_the_list_says_that_sessions_commit() {
        let finding = first(&listed(31_204).window());
        assert_eq!(finding.cause, CAUSE.name, "{finding:#?}");
        assert_eq!(
            finding.headline,
            "8 sessions wait for flow control of their replication group at a commit: db2:3306 has 31,204 transactions to apply"
        );
        assert!(finding.why.contains("more than 25,000 transactions to apply"), "{}", finding.why);
        assert!(finding.remedies[0].statement.starts_with("On db2:3306: "), "{:?}", finding.remedies);
    }

    #[test]
    fn commits_of_a_group_whose_queues_are_short_or_without_flow_control_wait_for_something_else() {
        let disabled = listed(31_204).variable("group_replication_flow_control_mode", "DISABLED");
        for build in [listed(24_000), disabled, listed(0)] {
            let window = build.window();
            let causes: Vec<String> =
                crate::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
            assert!(!causes.contains(&CAUSE.name.to_owned()), "{causes:?}");
        }
    }

    #[test]
    fn stacks_say_whether_flow_control_or_the_agreement_is_waited_for() {
        // Of a text that somebody captured nothing is known of the queues.
        let finding = first(&standing(8, 0).window());
        assert_eq!(finding.cause, CAUSE.name, "{finding:#?}");
        let window = grouped(standing(0, 8), 0, 31_204).window();
        assert_ne!(first(&window).cause, CAUSE.name, "{:#?}", first(&window));
        // Half of them: it costs what flow control takes.
        let finding = first(&grouped(standing(4, 4), 0, 31_204).window());
        assert_eq!(finding.cause, CAUSE.name);
        assert!((0.4..0.6).contains(&finding.score), "{}", finding.score);
    }

    #[test]
    fn the_queues_decide_where_the_plugin_has_no_names() {
        let nameless = [&["___pthread_cond_wait", "group_replication.so+0x17ccf1"][..], &COMMITS].concat();
        let standing =
            || Build::busy("9.7.4").remote().only_snapshots(&[(8, ThreadState::Condition, &nameless)]);
        assert_eq!(first(&grouped(standing(), 0, 31_204).window()).cause, CAUSE.name);
        assert_eq!(first(&grouped(standing(), 0, 0).window()).cause, unnamed_wait::CAUSE.name);
    }
}
