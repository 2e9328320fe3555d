//! What a member of Group Replication lists of its group (`performance_schema.replication_group_members`): who is reached; and how much
//! each has still to do (`replication_group_member_stats`).

use spindoctor_collect::mysql::{Rows, perf_schema_group_members};
use spindoctor_collect::source::Answer;
use spindoctor_model::mysql::GroupMember;
use spindoctor_model::{ServerSample, number};

/// True for the columns of that list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    ["member_host", "member_state"].iter().all(|name| columns.iter().any(|column| column == name))
}

/// The lines of a text with the head of that list, where people left it out, and without a page's rule between its rows: each row
/// begins with the channel, which has the same name everywhere.
pub(crate) fn with_heads(lines: Vec<String>) -> Vec<String> {
    let has_head = |line: &String| line.to_ascii_lowercase().contains("member_state");
    if !lines.iter().any(|line| line.contains(CHANNEL)) || lines.iter().any(has_head) {
        return lines;
    }
    let is_rule = |line: &str| line.contains("--") && line.trim_matches(['-', '|', ':', ' ']).is_empty();
    let mut whole: Vec<String> = Vec::with_capacity(lines.len() + 1);
    let mut in_list = false;
    for line in lines {
        if let Some((cells, row)) = member(&line) {
            if !in_list {
                whole.push(format!("| {} |", COLUMNS[..cells].join(" | ")));
            }
            whole.push(row);
            in_list = true;
        } else if !(in_list && is_rule(&line)) {
            in_list = false;
            whole.push(line);
        }
    }
    whole
}

/// The channel of each member.
const CHANNEL: &str = "group_replication_applier";

/// The columns of that list; before 8.0 the first five.
const COLUMNS: [&str; 8] = [
    "CHANNEL_NAME",
    "MEMBER_ID",
    "MEMBER_HOST",
    "MEMBER_PORT",
    "MEMBER_STATE",
    "MEMBER_ROLE",
    "MEMBER_VERSION",
    "MEMBER_COMMUNICATION_STACK",
];

/// How many cells a row of that list has, and the row in a frame.
fn member(line: &str) -> Option<(usize, String)> {
    const STATES: [&str; 5] = ["ONLINE", "RECOVERING", "OFFLINE", "ERROR", "UNREACHABLE"];
    let line = line.trim();
    let mark = if line.contains('|') { '|' } else { '\t' };
    let cells: Vec<&str> = line.trim_matches('|').split(mark).map(str::trim).collect();
    let [CHANNEL, id, _, port, state, ..] = cells[..] else { return None };
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_member = id.len() == 36 && is_port && STATES.contains(&state) && cells.len() <= COLUMNS.len();
    is_member.then(|| (cells.len(), format!("| {} |", cells.join(" | "))))
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

/// The queues of that other list: what other members sent and this one has not applied, and what is not certified yet.
const TO_APPLY: &str = "count_transactions_remote_in_applier_queue";
const TO_CERTIFY: &str = "count_transactions_in_queue";

/// True for the columns of the list of what members have to do.
pub(crate) fn has_queues(columns: &[String]) -> bool {
    columns.iter().any(|column| column == TO_APPLY || column == TO_CERTIFY)
}

/// From this many on a member is behind: as many as flow control lets be by itself (group_replication_flow_control_applier_threshold and
/// its neighbour of the certifier are 25,000).
const BEHIND: u64 = 25_000;

/// The longest queues of that list, in a sentence. What of them a list has not (MySQL 5.7 counts none of the applier) is not said.
pub(crate) fn queues(rows: &Rows) -> Option<String> {
    let has = |wanted: &str| rows.names().iter().any(|name| name.eq_ignore_ascii_case(wanted));
    let all = rows.iter().map(|row| {
        let count = |name: &str| row.number::<u64>(name);
        (count(TO_APPLY).max(count(TO_CERTIFY)), count(TO_APPLY), count(TO_CERTIFY), row.string("member_id"))
    });
    let (most, apply, certify, id) = all.max_by_key(|(most, ..)| *most)?;
    let transactions = |count: u64| number::counted(count, "transaction", "transactions");
    let behind = match most? >= BEHIND {
        true => ": it is behind, and flow control makes the others slower for it",
        false => "",
    };
    let who = if id.is_empty() { "a member".to_owned() } else { format!("the member {id}") };
    let queues = [
        apply.map(|count| format!("{} of others to apply", transactions(count))),
        certify.map(|count| format!("{} to certify", transactions(count))),
    ];
    let queues: Vec<String> = queues.into_iter().flatten().collect();
    let not_counted = match has(TO_APPLY) {
        true => "",
        false => {
            "; how many it has to apply this list does not count: SELECT GTID_SUBTRACT(RECEIVED_TRANSACTION_SET, @@GLOBAL.gtid_executed) \
             FROM performance_schema.replication_connection_status says which"
        }
    };
    Some(format!("{who} has {}{behind}{not_counted}", queues.join(", and ")))
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

    #[test]
    fn a_list_without_its_head_is_known_by_its_channel() {
        let id = "ab5c8ecd-ed92-11e8-9445-2e3b2c86be4a";
        let page = format!(
            "group_replication_applier | {id} | a.b | 3306 | ONLINE\n-- | -- | -- | -- | --\n\
             group_replication_applier | {id} | c.d | 3306 | UNREACHABLE\n"
        );
        let printed = format!(
            "group_replication_applier\t{id}\ta.b\t3306\tONLINE\tPRIMARY\t8.0.36\n\
             group_replication_applier\t{id}\tc.d\t3306\tUNREACHABLE\tSECONDARY\t8.0.36\n"
        );
        for text in [page, printed] {
            let parts = crate::recognise("a.txt", &text);
            assert_eq!(parts[0].kind, crate::Kind::GroupMembers, "{parts:?}");
            assert_eq!(parts[0].says, ["2 members of a replication group: 1 ONLINE, 1 UNREACHABLE"]);
        }
    }

    #[test]
    fn what_a_member_has_still_to_do_is_said() {
        let rows = |queue: u32| {
            let list = format!(
                "CHANNEL_NAME\tMEMBER_ID\tCOUNT_TRANSACTIONS_IN_QUEUE\tCOUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE\n\
                 group_replication_applier\t56bd9ae2\t0\t3\ngroup_replication_applier\t56bf6a65\t7\t{queue}\n"
            );
            let parts = crate::recognise("a.txt", &list);
            assert_eq!(parts[0].kind, crate::Kind::GroupMembers, "{parts:?}");
            parts[0].says.concat()
        };
        assert_eq!(
            rows(90_123),
            "the member 56bf6a65 has 90,123 transactions of others to apply, and 7 transactions to certify: it is behind, and flow \
             control makes the others slower for it"
        );
        assert_eq!(
            rows(4),
            "the member 56bf6a65 has 4 transactions of others to apply, and 7 transactions to certify"
        );
    }

    #[test]
    fn a_list_of_5_7_has_no_queue_of_the_applier_and_none_is_said_to_be_empty() {
        let row = "                      CHANNEL_NAME: group_replication_applier\n                         MEMBER_ID: 553987cc\n\
                   \x20      COUNT_TRANSACTIONS_IN_QUEUE: 41\n        COUNT_TRANSACTIONS_CHECKED: 812\n\
                   TRANSACTIONS_COMMITTED_ALL_MEMBERS: 553987cc:1-2,\n9bd4bf53:1-2\n    LAST_CONFLICT_FREE_TRANSACTION: 9bd4bf53:3\n";
        for head in [
            "*************************** 1. row ***************************",
            "*************************** 1. row ******************** *******",
            "************************* 1. row *************************",
        ] {
            let parts = crate::recognise("a.txt", &format!("{head}\n{row}1 row in set (0.00 sec)\n"));
            assert_eq!(parts[0].kind, crate::Kind::GroupMembers, "{parts:?}");
            let says = parts[0].says.concat();
            assert!(
                says.starts_with(
                    "the member 553987cc has 41 transactions to certify; how many it has to apply"
                ),
                "{says}"
            );
        }
    }
}
