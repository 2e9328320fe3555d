//! What a member of Group Replication lists of its group (`performance_schema.replication_group_members`): who is reached.

use spindoctor_collect::mysql::{Rows, perf_schema_group_members};
use spindoctor_collect::source::Answer;
use spindoctor_model::mysql::GroupMember;
use spindoctor_model::{ServerSample, number};

/// True for the columns of that list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    ["member_host", "member_state"].iter().all(|name| columns.iter().any(|column| column == name))
}

/// What the list says in a sentence, and the members.
pub(crate) fn read(rows: &Rows) -> (String, Vec<GroupMember>) {
    let mut sample = ServerSample::default();
    (perf_schema_group_members::SOURCE.parse)(rows, Answer::default(), &mut sample);
    let members = sample.group_members.value().cloned().unwrap_or_default();
    let sentence = format!(
        "{} of a replication group: {}",
        number::counted(members.len() as u64, "member", "members"),
        GroupMember::states(&members)
    );
    (sentence, members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    #[test]
    fn the_members_are_read_with_their_states() {
        let rows = "CHANNEL_NAME\tMEMBER_ID\tMEMBER_HOST\tMEMBER_PORT\tMEMBER_STATE\tMEMBER_ROLE\tMEMBER_VERSION\n\
                    group_replication_applier\t1\tdb1\t3306\tONLINE\tSECONDARY\t8.0.36\n\
                    group_replication_applier\t2\tdb2\t3306\tUNREACHABLE\tPRIMARY\t8.0.36\n\
                    group_replication_applier\t3\tdb3\t3306\tUNREACHABLE\tSECONDARY\t8.0.36\n";
        let (sentence, members) = read(&tables(rows)[0]);
        assert_eq!(sentence, "3 members of a replication group: 1 ONLINE, 2 UNREACHABLE");
        assert!(GroupMember::lack_a_majority(&members));
        assert_eq!((members[1].role.as_str(), members[1].is_self), ("PRIMARY", None));
    }
}
