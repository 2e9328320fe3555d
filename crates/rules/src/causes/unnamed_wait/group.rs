//! What sessions of a member of a replication group wait for, where flow control does not hold them back.

use spindoctor_model::{Evidence, KnownBy, Remedy, TimeClass, TimeShare, Window};

use super::COMMIT_S;
use crate::commits::commits_per_s;
use crate::replication_group;

/// What they wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupWait {
    /// The agreement of the group on their commit.
    Agreement,
    /// Their commit, of which the list does not say what it waits for.
    Commit,
    /// To begin: older transactions of the group are not here yet.
    Begin,
}

/// The process list's word for a session that waits to begin, and the functions in which it stands.
const BEGINS: [&str; 3] =
    ["Executing hook on transaction begin", "group_replication_trans_begin", "Trans_delegate::trans_begin"];

/// An agreement that takes as long is slow: it needs one round trip, which takes less than a millisecond within a data centre and a
/// few within a region, and the plugin is made for such networks (MySQL Reference Manual, Group Replication Requirements). Chosen.
const SLOW_S: f64 = 0.02;

impl GroupWait {
    /// None where they wait for something else.
    pub(super) fn from_share(window: &Window, share: &TimeShare) -> Option<Self> {
        let is_begin = |(seen, _): &(String, f64)| BEGINS.iter().any(|begin| seen.contains(begin));
        match share.class {
            TimeClass::GroupReplication => Some(Self::Agreement),
            TimeClass::Commit if share.known_by == KnownBy::List => {
                replication_group::is_member(window).then_some(Self::Commit)
            }
            TimeClass::Other => share.seen.first().is_some_and(is_begin).then_some(Self::Begin),
            _ => None,
        }
    }

    /// True where the commits of so many sessions take long: as many as wait on average for each that ends in a second.
    pub(super) fn is_slow(window: &Window, sessions: f64) -> bool {
        let seconds = window.change(|sample| &sample.server.status).map_or(0.0, |change| change.seconds);
        seconds >= COMMIT_S && commits_per_s(window).is_ok_and(|per_s| sessions >= SLOW_S * per_s)
    }

    /// What follows the number of the sessions in the headline.
    pub(super) fn headline(self) -> &'static str {
        match self {
            Self::Agreement => "wait at their commit for the agreement of their replication group",
            Self::Commit => "are in `commit`, which waits for the agreement of their replication group",
            Self::Begin => {
                "wait to begin a transaction until this member has what its replication group committed before"
            }
        }
    }

    /// How it works, with this group's numbers.
    pub(super) fn why(self, window: &Window) -> String {
        if self == Self::Begin {
            return "With group_replication_consistency = BEFORE or BEFORE_AND_AFTER a transaction begins when this member has applied \
                    all that the group committed before it; with AFTER on another member, when what this member has agreed to is \
                    committed here."
                .to_owned();
        }
        let queue = match replication_group::longest_queue(window) {
            Some(queue) if queue.is_too_long() => {
                format!(" A member does not keep up: {}.", queue.sentence())
            }
            Some(queue) => {
                format!(
                    " No queue of a member is long enough for flow control: {} at most.",
                    queue.sentence()
                )
            }
            None => String::new(),
        };
        format!(
            "Group Replication sends each transaction to all members, and its COMMIT returns when a majority has agreed on its order and \
             this member has certified it; with group_replication_consistency = AFTER, when the other members have it, too.{queue} What \
             takes long is the network between the members, or a member that answers late."
        )
    }

    /// What the plugin shows of it.
    pub(super) fn evidence(self, window: &Window) -> Vec<Evidence> {
        let clock = "SHOW GLOBAL STATUS Gr_data_messages_sent_roundtrip_time_sum";
        let agreement =
            replication_group::agreement_s(window).filter(|_| self != Self::Begin).map(|seconds| {
                Evidence::new("one agreement", seconds * 1e3, "ms", clock)
                    .expected(format!("< {}", SLOW_S * 1e3))
            });
        agreement.into_iter().chain(replication_group::evidence(window)).collect()
    }

    /// Where to look.
    pub(super) fn remedy(self) -> Remedy {
        let (statement, why) = match self {
            Self::Begin => (
                "SELECT @@GLOBAL.group_replication_consistency; SELECT * FROM performance_schema.replication_group_member_stats",
                "A session that can do with older rows sets group_replication_consistency = EVENTUAL for itself. A long \
                 COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE of this member is an applier that does not keep up.",
            ),
            Self::Agreement | Self::Commit => (
                "From this host, to the host of each member: ping -c 20 HOST; on each member: SHOW GLOBAL STATUS LIKE 'Gr\\_%'",
                "The members that make a majority with this one set how long an agreement takes: the round trip to them, and how soon they \
                 answer. From MySQL 8.1 on Gr_extended_consensus_count grows where a member answers late, and \
                 Gr_transactions_consistency_after_termination_time_sum is what AFTER takes. More rows to a transaction are fewer \
                 agreements.",
            ),
        };
        Remedy {
            statement: statement.into(),
            why: why.into(),
            dynamic: true,
            risk: "They only read.".into(),
            undo: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState;
    use spindoctor_model::{Finding, Severity};

    use super::super::CAUSE;
    use crate::replication_group::examples::grouped;
    use crate::testing::Build;

    /// So many changes a second, none of them in a transaction.
    fn changes(build: Build, per_s: f64) -> Build {
        let quiet = ["Com_commit", "Com_insert", "Com_delete", "Com_replace"];
        quiet.iter().fold(build, |build, name| build.counter(name, 0.0)).counter("Com_update", per_s)
    }

    fn unnamed(build: Build) -> Finding {
        let findings = crate::diagnose(&build.window()).findings;
        assert_eq!(findings[0].cause, CAUSE.name, "{findings:#?}");
        findings.into_iter().next().unwrap()
    }

    #[test]
    fn a_commit_that_waits_for_the_agreement_of_its_group_says_so() {
        let stack: &[&str] = &[
            "___pthread_cond_wait",
            "Wait_ticket::waitTicket",
            "group_replication_trans_before_commit",
            "Trans_delegate::before_commit",
            "ha_commit_trans",
            "dispatch_command",
            "do_command",
        ];
        let by_stack = || Build::busy("9.7.4").remote().only_snapshots(&[(8, ThreadState::Condition, stack)]);
        let by_clock = || {
            let listed = Build::waiting(8, "waiting for handler commit");
            listed
                .counter("Gr_data_messages_sent_roundtrip_time_sum", 7e6)
                .counter("Gr_data_messages_sent_count", 35.0)
        };
        for build in [by_stack(), by_clock()] {
            let finding = unnamed(changes(grouped(build, 0, 12), 40.0));
            assert!(
                finding
                    .headline
                    .contains("wait at their commit for the agreement of their replication group"),
                "{}",
                finding.headline
            );
            assert_eq!(finding.severity, Severity::Critical, "{finding:#?}");
            assert!(finding.why.contains("db2:3306 has 12 transactions to apply"), "{}", finding.why);
        }
        let finding = unnamed(changes(grouped(by_clock(), 0, 0), 40.0));
        let agreement = finding.evidence.iter().find(|one| one.reading == "one agreement").unwrap();
        assert_eq!((agreement.value.clone(), agreement.unit.as_str()), (200.0.into(), "ms"));
        // Commits that end soon are work, however many there are.
        let finding = unnamed(changes(grouped(by_stack(), 0, 0), 2_000.0));
        assert_eq!(finding.severity, Severity::Note, "{finding:#?}");
    }

    #[test]
    fn a_list_says_of_a_member_that_its_commits_wait_for_the_group_too() {
        let listed = || changes(Build::waiting(8, "waiting for handler commit"), 40.0);
        let finding = unnamed(grouped(listed(), 0, 0));
        assert!(finding.headline.contains("which waits for the agreement"), "{}", finding.headline);
        assert_eq!(finding.severity, Severity::Critical);
        // Of a server in no group commits of such a time are a disk's.
        let alone = unnamed(listed());
        assert!(!alone.headline.contains("group") && alone.severity == Severity::Note, "{alone:#?}");
    }

    #[test]
    fn who_waits_to_begin_by_the_groups_consistency_is_not_called_running() {
        let finding = unnamed(Build::waiting(8, "Executing hook on transaction begin."));
        assert!(finding.headline.contains("wait to begin a transaction"), "{}", finding.headline);
        assert!(finding.why.contains("group_replication_consistency = BEFORE"), "{}", finding.why);
    }
}
