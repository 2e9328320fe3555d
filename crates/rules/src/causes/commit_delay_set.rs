//! `commit-delay-set`: commits wait because a variable asks for it.

use spindoctor_model::{Evidence, Remedy, SessionTime, TimeClass, Window};

use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "commit-delay-set",
    title: "commits wait because a variable of the group commit asks for it",
    what: "binlog_group_commit_sync_delay (MySQL) and binlog_commit_wait_count with binlog_commit_wait_usec (MariaDB) let the \
           first commit of a group wait for others, so that one sync of the binary log serves them all. With few clients \
           nobody comes, and each commit takes the whole delay.",
    why_it_hurts: "Every transaction that writes takes longer by the delay, and holds its locks meanwhile.",
    evidence: "Sessions that sleep in a commit by their stacks, 5 % of the session time and half a session or more, and a delay \
               that is set. Without stacks: the sessions in a commit, where the delay is 10 ms or more.",
    looks_alike: "Commits that wait for a sync of the log are commit-sync-bound; there the log's file is busy. Commits that wait \
                  for a replica are semi-sync-wait.",
    remedies: "SET GLOBAL binlog_group_commit_sync_delay = 0 on MySQL, binlog_commit_wait_count = 0 on MariaDB. Where replicas \
               need groups to apply in parallel, some hundred microseconds are enough: measure both.",
    safety: "Both are dynamic and act at once. Without the delay there are more syncs of the binary log, and groups of the \
             logical clock are smaller: replicas that apply in parallel by groups may fall behind.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/replication-options-binary-log.html#sysvar_binlog_group_commit_sync_delay",
        "https://mariadb.com/docs/server/ha-and-performance/standard-replication/replication-and-binary-log-system-variables",
    ],
    costs: Costs::Waits(&[TimeClass::CommitDelay]),
    explains_time: &[TimeClass::CommitDelay, TimeClass::Commit, TimeClass::CommitOrder],
    stacks: Stacks::Nothing,
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From this delay on a session in a commit waits for it rather than for a sync: ten times a slow one.
const LONG_US: f64 = 10_000.0;

/// The variables: what holds a commit up, and for how long, microseconds; on MariaDB the first says for how many it waits.
const DELAYS: &[(&str, &str)] = &[
    ("binlog_group_commit_sync_delay", "binlog_group_commit_sync_delay"),
    ("binlog_commit_wait_count", "binlog_commit_wait_usec"),
];

/// The delay that is set: the variable that asks for it, its value, and for how long it holds a commit up, microseconds.
fn delay(window: &Window) -> Option<(&'static str, f64, f64)> {
    DELAYS.iter().find_map(|(name, delay)| {
        let value = window.variable_number(name).filter(|value| *value > 0.0)?;
        let delay_us = window.variable_number(delay).filter(|delay_us| *delay_us > 0.0)?;
        Some((*name, value, delay_us))
    })
}

/// True where commits wait so long on purpose that the time in commit says nothing of a sync.
pub(super) fn is_long(window: &Window) -> bool {
    delay(window).is_some_and(|(_, _, delay_us)| delay_us >= LONG_US)
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some((name, value, delay_us)) = delay(window) else {
        return match window.need(|sample| &sample.server.variables) {
            Err(missing) => Outcome::NotEnoughEvidence(missing),
            Ok(_) => Outcome::Clear,
        };
    };
    let classes: &[TimeClass] = if delay_us >= LONG_US {
        &[TimeClass::CommitDelay, TimeClass::Commit, TimeClass::CommitOrder]
    } else {
        &[TimeClass::CommitDelay]
    };
    let Some(waits) = InClasses::from_time(time, classes) else { return Outcome::Clear };
    Outcome::Fired(
        waits
            .draft(
                &CAUSE,
                format!("{:.1} sessions wait in commit because {name} is {value:.0}", waits.sessions),
            )
            .why(format!(
                "The first commit of a group waits up to {:.1} ms for others, and those that come wait with it.",
                delay_us / 1e3
            ))
            .evidence(Evidence::new(name, value, "", "SHOW GLOBAL VARIABLES").expected("0"))
            .evidence(Evidence::new("delay of a commit, at most", delay_us / 1e6, "s", "SHOW GLOBAL VARIABLES"))
            .remedy(Remedy {
                statement: format!("SET GLOBAL {name} = 0"),
                why: "A commit then waits for its own sync alone, and those that come meanwhile share the next.".into(),
                dynamic: true,
                risk: "More syncs of the binary log; smaller groups for replicas that apply in parallel.".into(),
                undo: format!("SET GLOBAL {name} = {value:.0}"),
            })
            .explains(&[super::commit_sync_bound::CAUSE.name])
            .finding(),
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::Build;

    fn committing(delay_us: &'static str) -> Build {
        let frames: &[&str] = &[
            "clock_nanosleep",
            "MYSQL_BIN_LOG::ordered_commit",
            "ha_commit_trans",
            "dispatch_command",
            "do_command",
        ];
        Build::busy("8.0.36").variable("binlog_group_commit_sync_delay", delay_us).only_snapshots(&[(
            16,
            ThreadState::Sleep,
            frames,
        )])
    }

    pub(crate) fn fires() -> Window {
        committing("200000").window()
    }

    /// No delay is set.
    pub(crate) fn near_miss() -> Window {
        committing("0").window()
    }

    /// The variables could not be read.
    pub(crate) fn missing() -> Window {
        committing("200000").each(|_, server, _| server.variables = Reading::NotAsked).window()
    }

    #[test]
    fn a_short_delay_is_not_blamed_for_commits_that_wait_for_a_sync() {
        let window = Build::waiting(16, "waiting for handler commit")
            .variable("binlog_group_commit_sync_delay", "100");
        let findings = crate::diagnose(&window.window()).findings;
        assert!(findings.iter().all(|finding| finding.cause != CAUSE.name), "{findings:#?}");
        let window = Build::waiting(16, "waiting for handler commit")
            .variable("binlog_group_commit_sync_delay", "200000");
        assert_eq!(crate::diagnose(&window.window()).findings[0].cause, CAUSE.name);
    }
}
