//! A group of Group Replication, as one of its members sees it: what each member has still to do, and how long an agreement takes.

use spindoctor_model::mysql::GroupMember;
use spindoctor_model::{Evidence, Window, number};

/// Where the queues are read.
const STATS: &str = "replication_group_member_stats";

/// Members whose queues are shown: a group has nine at most (MySQL Reference Manual, Group Replication Limitations).
const SHOWN: usize = 9;

/// Transactions in a queue from which on flow control acts, where the variable is not known: its default, of both queues.
const THRESHOLD: f64 = 25_000.0;

/// True where the server's variables name a group.
pub(crate) fn is_named(window: &Window) -> bool {
    window.variable("group_replication_group_name").is_some_and(|name| !name.is_empty())
}

/// True for a member of a group whose plugin runs; where no list of the members was read, for a server that names a group.
pub(crate) fn is_member(window: &Window) -> bool {
    match window.latest(|sample| &sample.server.group_members).map(Vec::as_slice) {
        None | Some([]) => is_named(window),
        Some(members) => {
            members.iter().any(|one| one.is_self != Some(false) && one.state != GroupMember::OFFLINE)
        }
    }
}

/// True where this member holds commits back while a queue is too long.
pub(crate) fn has_flow_control(window: &Window) -> bool {
    let mode = window.variable("group_replication_flow_control_mode");
    mode.is_none_or(|mode| !mode.eq_ignore_ascii_case("DISABLED"))
}

/// Sessions that flow control holds back on average, by the component group_replication_flow_control_stats where it is installed:
/// microseconds.
pub(crate) fn held_back_sessions(window: &Window) -> Option<f64> {
    window.status_per_s("Gr_flow_control_throttle_time_sum").map(|us_per_s| us_per_s / 1e6)
}

/// Microseconds from the sending of a transaction to its delivery here, in all: from MySQL 8.1 on.
const ROUND_TRIPS_US: &str = "Gr_data_messages_sent_roundtrip_time_sum";

/// Sessions that wait on average until the group has agreed on the order of their transaction, by the plugin's own clock.
pub(crate) fn agreeing_sessions(window: &Window) -> Option<f64> {
    window.status_per_s(ROUND_TRIPS_US).map(|us_per_s| us_per_s / 1e6)
}

/// How long an agreement takes, by that clock.
pub(crate) fn agreement_s(window: &Window) -> Option<f64> {
    let sent = window.status_growth("Gr_data_messages_sent_count").filter(|&sent| sent > 0.0)?;
    Some(window.status_growth(ROUND_TRIPS_US)? / sent / 1e6)
}

/// Transactions that a member has still to certify, or transactions of others that it has still to apply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue<'w> {
    /// Whose they are.
    pub(crate) member: &'w GroupMember,
    /// What it has to do with them: `certify`, `apply`.
    pub(crate) to: &'static str,
    /// How many there are.
    pub(crate) transactions: u64,
    /// The variable that says from how many on flow control acts.
    pub(crate) variable: &'static str,
    /// Its value.
    pub(crate) threshold: f64,
}

impl Queue<'_> {
    /// True where flow control acts for it. A threshold of 0 leaves the queue out (pipeline_stats.cc, flow_control_step).
    pub(crate) fn is_too_long(&self) -> bool {
        self.threshold > 0.0 && self.transactions as f64 > self.threshold
    }

    /// `db2:3306 has 31,204 transactions to apply`
    pub(crate) fn sentence(&self) -> String {
        let transactions = number::counted(self.transactions, "transaction", "transactions");
        format!("{} has {transactions} to {}", named(self.member), self.to)
    }

    /// Its length as a part of the threshold.
    fn fill(&self) -> f64 {
        self.transactions as f64 / self.threshold.max(1.0)
    }
}

/// `this member`, or where another one is.
fn named(member: &GroupMember) -> String {
    match member.is_self {
        Some(true) => "this member".to_owned(),
        _ => member.place(),
    }
}

/// Both queues of a member, as far as they were read.
fn queues<'w>(window: &Window, member: &'w GroupMember) -> impl Iterator<Item = Queue<'w>> {
    let of = [
        ("certify", member.to_certify, "group_replication_flow_control_certifier_threshold"),
        ("apply", member.to_apply, "group_replication_flow_control_applier_threshold"),
    ];
    of.into_iter().filter_map(move |(to, transactions, variable)| {
        let threshold = window.variable_number(variable).unwrap_or(THRESHOLD);
        Some(Queue { member, to, transactions: transactions?, variable, threshold })
    })
}

/// The longest queue that any member had in the window, by its threshold: a queue that flow control acts for goes up and down around
/// that. None where no queue was read, or all were empty.
pub(crate) fn longest_queue(window: &Window) -> Option<Queue<'_>> {
    let lists = window.all(|sample| &sample.server.group_members);
    let all = lists.into_iter().flat_map(|(_, members)| members).flat_map(|member| queues(window, member));
    all.filter(|queue| queue.transactions > 0).max_by(|one, other| one.fill().total_cmp(&other.fill()))
}

/// The queues of each member, as evidence.
pub(crate) fn evidence(window: &Window) -> Vec<Evidence> {
    let members = window.latest(|sample| &sample.server.group_members).map(Vec::as_slice).unwrap_or_default();
    let of = |member: &GroupMember| {
        let queues: Vec<String> = queues(window, member)
            .map(|queue| format!("{} to {}", number::whole(queue.transactions as f64), queue.to))
            .collect();
        let is_read = !queues.is_empty();
        is_read.then(|| {
            Evidence::new(&format!("transactions that {} has", named(member)), queues.join(", "), "", STATS)
        })
    };
    members.iter().filter_map(of).take(SHOWN).collect()
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, answer};

    /// A member of a group whose second member, db2, has so many transactions to apply, and this one so many to certify.
    pub(crate) fn grouped(build: Build, to_certify: u64, to_apply: u64) -> Build {
        let member = |host: &str, is_self: bool, to_certify: u64, to_apply: u64| GroupMember {
            host: host.into(),
            port: 3306,
            state: "ONLINE".into(),
            is_self: Some(is_self),
            to_certify: Some(to_certify),
            to_apply: Some(to_apply),
            ..GroupMember::default()
        };
        let members = vec![member("db1", true, to_certify, 0), member("db2", false, 0, to_apply)];
        build
            .variable("group_replication_group_name", "6a1f0c52-3f0e-4c8e-9d53-0f9b7f1d2c11")
            .variable("group_replication_flow_control_mode", "QUOTA")
            .variable("group_replication_flow_control_applier_threshold", "25000")
            .variable("group_replication_flow_control_certifier_threshold", "1000")
            .each(move |at_s, server, _| server.group_members = answer(at_s, members.clone()))
    }

    #[test]
    fn the_longest_queue_is_the_one_that_is_furthest_beyond_its_threshold() {
        let window = grouped(Build::busy("9.7.4"), 5_000, 30_000).window();
        let longest = longest_queue(&window).unwrap();
        assert_eq!(longest.sentence(), "this member has 5000 transactions to certify");
        assert!(longest.is_too_long());
        let window = grouped(Build::busy("9.7.4"), 0, 24_000).window();
        let longest = longest_queue(&window).unwrap();
        assert_eq!(longest.sentence(), "db2:3306 has 24,000 transactions to apply");
        assert!(!longest.is_too_long());
        let unlimited = grouped(Build::busy("9.7.4"), 0, 90_000)
            .variable("group_replication_flow_control_applier_threshold", "0");
        assert!(!longest_queue(&unlimited.window()).unwrap().is_too_long());
        assert!(longest_queue(&grouped(Build::busy("9.7.4"), 0, 0).window()).is_none());
        let said: Vec<_> = evidence(&window).into_iter().map(|one| (one.reading, one.value)).collect();
        assert_eq!(
            said[1],
            ("transactions that db2:3306 has".to_owned(), "0 to certify, 24,000 to apply".to_owned().into())
        );
    }

    #[test]
    fn a_server_whose_plugin_does_not_run_is_no_member() {
        let with_state = |state: &'static str| {
            let build = grouped(Build::busy("9.7.4"), 0, 0).each(|_, server, _| {
                if let spindoctor_model::Reading::Available { value, .. } = &mut server.group_members {
                    value.iter_mut().for_each(|one| one.state = state.into());
                }
            });
            is_member(&build.window())
        };
        assert!(with_state("ONLINE") && !with_state(GroupMember::OFFLINE));
        assert!(!is_member(&Build::busy("9.7.4").window()));
    }
}
