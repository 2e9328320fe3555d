//! `performance_schema.replication_group_members`: which members of its replication group a server reaches, and from 8.0 on
//! `replication_group_member_stats`: how much each of them has still to do.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::GroupMember;

use super::rows::Row;
use super::source::{Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// Members read at most: a group has nine (MySQL Reference Manual, Group Replication Limitations), a list that is longer is none.
const LIMIT: usize = 64;

/// With what each member has still to do. 5.7 has a row for the member that is asked alone, and does not say what it has to apply.
const WITH_QUEUES: &str = "SELECT members.*, members.MEMBER_ID = @@server_uuid AS IS_SELF, \
                           stats.COUNT_TRANSACTIONS_IN_QUEUE, stats.COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE \
                           FROM performance_schema.replication_group_members AS members \
                           LEFT JOIN performance_schema.replication_group_member_stats AS stats \
                           ON stats.MEMBER_ID = members.MEMBER_ID LIMIT 64";

/// The source. A server whose variables name no group is not asked.
///
/// Cost: a row for each member, from what the plugin keeps of its last view and of the last message of each member, which each sends
/// once in group_replication_flow_control_period. Of this member's own queues the plugin takes the certifier's mutex for an instant
/// (plugin/group_replication/src/ps_information.cc). The answer comes also while the group has no majority.
pub const SOURCE: Source = Source {
    name: "performance_schema.replication_group_members",
    help: "members of the replication group that are reached and what they have still to do, on a member of one",
    cost: "nothing where the server is in no group, else reads a row for each member, 0.2 ms",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(2, 30),
    plan: |version, variables| {
        let group = variables.and_then(|variables| variables.text("group_replication_group_name"));
        // The plugin came with 5.7.17, and MariaDB does not have it.
        match group {
            Some(name) if !name.is_empty() && version.mysql_at_least(5, 7, 17) => {
                match performance_schema_off(version, variables) {
                    Some(why) => Plan::Cannot(why),
                    None if version.mysql_at_least(8, 0, 11) => Plan::Ask(WITH_QUEUES),
                    None => Plan::Ask(
                        "SELECT members.*, MEMBER_ID = @@server_uuid AS IS_SELF \
                         FROM performance_schema.replication_group_members AS members LIMIT 64",
                    ),
                }
            }
            _ => Plan::AskAbout(|_| Ok(None)),
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.replication_group_members", rows, LIMIT, sample);
        sample.group_members = answer.reading(rows.iter().take(LIMIT).map(member).collect());
    },
    reading: ServerSample::field("group_members"),
};

/// A row: of MySQL 9.7.4 `group_replication_applier 56bd9ae2-... 127.0.0.1 45001 ONLINE PRIMARY 9.7.4 XCom`; 5.7 has no role.
fn member(row: Row<'_>) -> GroupMember {
    GroupMember {
        host: row.string("MEMBER_HOST"),
        port: row.number("MEMBER_PORT").unwrap_or(0),
        state: row.string("MEMBER_STATE").to_ascii_uppercase(),
        role: row.string("MEMBER_ROLE").to_ascii_uppercase(),
        is_self: row.number("IS_SELF").map(|is_self: u8| is_self == 1),
        to_certify: row.number("COUNT_TRANSACTIONS_IN_QUEUE"),
        to_apply: row.number("COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE"),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ServerVersion;
    use spindoctor_model::mysql::NamedValues;

    use super::super::fixture;
    use super::*;
    use crate::source::Answer;

    #[test]
    fn reads_the_members_and_which_of_them_is_the_server_itself() {
        let rows = fixture::tabbed(
            "CHANNEL_NAME\tMEMBER_ID\tMEMBER_HOST\tMEMBER_PORT\tMEMBER_STATE\tMEMBER_ROLE\tMEMBER_VERSION\tIS_SELF\n\
             group_replication_applier\t56bd9ae2\t127.0.0.1\t45001\tONLINE\tPRIMARY\t9.7.4\t1\n\
             group_replication_applier\t56bf6a65\tdb2\t45002\tUnreachable\tSECONDARY\t9.7.4\t0\n",
        );
        let mut sample = ServerSample::default();
        (SOURCE.parse)(&rows, Answer::default(), &mut sample);
        let members = sample.group_members.value().unwrap();
        assert_eq!((members[0].host.as_str(), members[0].port), ("127.0.0.1", 45_001));
        assert_eq!(members.iter().map(|one| one.is_self).collect::<Vec<_>>(), [Some(true), Some(false)]);
        assert_eq!((members[0].to_certify, members[0].to_apply), (None, None), "5.7 does not say");
        assert!(GroupMember::lack_a_majority(members), "half is no majority");
        assert_eq!(GroupMember::states(members), "1 ONLINE, 1 UNREACHABLE");
    }

    #[test]
    fn what_each_member_has_still_to_do_is_read_with_it() {
        let rows = fixture::tabbed(
            "MEMBER_HOST\tMEMBER_PORT\tMEMBER_STATE\tIS_SELF\tCOUNT_TRANSACTIONS_IN_QUEUE\tCOUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE\n\
             db1\t3306\tONLINE\t1\t3\t0\ndb2\t3306\tONLINE\t0\t0\t31204\ndb3\t3306\tRECOVERING\t0\tNULL\tNULL\n",
        );
        let mut sample = ServerSample::default();
        (SOURCE.parse)(&rows, Answer::default(), &mut sample);
        let members = sample.group_members.value().unwrap();
        let queues: Vec<_> = members.iter().map(|one| (one.to_certify, one.to_apply)).collect();
        assert_eq!(queues, [(Some(3), Some(0)), (Some(0), Some(31_204)), (None, None)]);
        assert_eq!(members[1].place(), "db2:3306");
    }

    #[test]
    fn a_server_in_no_group_is_not_asked() {
        let is_asked = |version: &str, group: Option<&str>| {
            let variables: NamedValues =
                group.into_iter().map(|name| ("group_replication_group_name", name)).collect();
            let plan = (SOURCE.plan)(ServerVersion::parse(version, "").unwrap(), Some(&variables));
            matches!(plan, Plan::Ask(_))
        };
        assert!(is_asked("9.7.4", Some("8a94f357-aab4-11df-86ab-c80aa9429562")));
        assert!(!is_asked("9.7.4", Some("")), "the plugin is loaded, and no group is named");
        assert!(!is_asked("9.7.4", None));
        assert!(!is_asked("5.6.51", Some("8a94f357-aab4-11df-86ab-c80aa9429562")));
    }
}
