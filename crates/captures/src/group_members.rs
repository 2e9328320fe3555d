//! What a member of Group Replication lists of its group (`performance_schema.replication_group_members`): who is reached.

use spindoctor_collect::mysql::Rows;
use spindoctor_model::{LoggedTrouble, TroubleKind, number};

/// Who says so, for causes that rest on it.
const SOURCE: &str = "replication_group_members";

/// True for the columns of that list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    ["member_host", "member_state"].iter().all(|name| columns.iter().any(|column| column == name))
}

/// What the list says, and the trouble that it shows. A member that sees half of the group or more as unreachable has no majority
/// (MySQL Reference Manual, Handling a Network Partition and Loss of Quorum); one that was expelled lists itself alone, as ERROR.
pub(crate) fn read(rows: &Rows) -> (String, Option<LoggedTrouble>) {
    let states: Vec<String> =
        rows.iter().map(|row| row.string("member_state").to_ascii_uppercase()).collect();
    let count = |state: &str| states.iter().filter(|one| *one == state).count();
    let all = states.len();
    let mut kinds: Vec<&str> = states.iter().map(String::as_str).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let counted: Vec<String> = kinds.into_iter().map(|state| format!("{} {state}", count(state))).collect();
    let sentence = format!(
        "{} of a replication group: {}",
        number::counted(all as u64, "member", "members"),
        counted.join(", ")
    );
    let unreachable = count("UNREACHABLE");
    let kind = match () {
        () if unreachable * 2 >= all && unreachable > 0 || all == 1 && count("ERROR") == 1 => {
            Some(TroubleKind::NoMajority)
        }
        () if unreachable > 0 => Some(TroubleKind::NodeLost),
        () => None,
    };
    let trouble = kind.map(|kind| LoggedTrouble {
        kind,
        times: unreachable.max(1) as u64,
        line: sentence.clone(),
        source: SOURCE.into(),
        ..LoggedTrouble::default()
    });
    (sentence, trouble)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    #[test]
    fn a_member_without_a_majority_is_trouble_and_a_whole_group_is_none() {
        let read_states = |states: &[&str]| {
            let rows: String = states
                .iter()
                .enumerate()
                .map(|(at, state)| {
                    format!("group_replication_applier\t{at}\tdb{at}\t3306\t{state}\tSECONDARY\t8.0.36\n")
                })
                .collect();
            let head = "CHANNEL_NAME\tMEMBER_ID\tMEMBER_HOST\tMEMBER_PORT\tMEMBER_STATE\tMEMBER_ROLE\tMEMBER_VERSION\n";
            let (sentence, trouble) = read(&tables(&format!("{head}{rows}"))[0]);
            (sentence, trouble.map(|trouble| trouble.kind))
        };
        let (sentence, kind) = read_states(&["ONLINE", "UNREACHABLE", "UNREACHABLE"]);
        assert_eq!(sentence, "3 members of a replication group: 1 ONLINE, 2 UNREACHABLE");
        assert_eq!(kind, Some(TroubleKind::NoMajority));
        assert_eq!(
            read_states(&["ONLINE", "UNREACHABLE"]).1,
            Some(TroubleKind::NoMajority),
            "half is no majority"
        );
        assert_eq!(read_states(&["ONLINE", "ONLINE", "UNREACHABLE"]).1, Some(TroubleKind::NodeLost));
        assert_eq!(read_states(&["ERROR"]).1, Some(TroubleKind::NoMajority));
        assert_eq!(read_states(&["ONLINE", "RECOVERING", "ONLINE"]).1, None);
    }
}
