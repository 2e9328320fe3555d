//! What `cluster.status()` of MySQL Shell prints of an InnoDB Cluster: the members of its group, each with its state.
//!
//! The text is an object in JSON, alone or between a prompt and other documents, and may be cut: what of it is read are its names with
//! their texts, in order.

use spindoctor_model::mysql::GroupMember;
use spindoctor_model::{LoggedTrouble, TroubleKind, number};

/// A name that such an object has, and nothing else.
const SIGN: &str = "\"defaultReplicaSet\"";
/// Names with texts that are read, and bytes of a text.
const MOST_PAIRS: usize = 10_000;
const LONGEST: usize = 400;

/// What it says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ClusterStatus {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// The members that the group has.
    pub(crate) members: Vec<GroupMember>,
    /// A group without a majority, of which the members do not show it.
    pub(crate) trouble: Option<LoggedTrouble>,
    /// The text that stands before and behind it.
    pub(crate) rest: String,
    /// Its first line, from 1, and how many there are.
    pub(crate) first_line: usize,
    pub(crate) lines: usize,
}

/// Where a text in quotes ends that begins with the first byte.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().skip(1).find_map(|(at, c)| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// Where the object ends that the text begins with; all of the text, where it is cut.
fn end_of_object(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(found) = text[at..].find(['{', '}', '"']) {
        at += found;
        match text.as_bytes()[at] {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => match end_of_quoted(&text[at..]) {
                Some(end) => at += end,
                None => return text.len(),
            },
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Its names with their texts, in order.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut name = None;
    let mut rest = text;
    while let Some(at) = rest.find('"').filter(|_| pairs.len() < MOST_PAIRS) {
        rest = &rest[at..];
        let Some(end) = end_of_quoted(rest) else { break };
        let quoted = &rest[1..end];
        rest = &rest[end + 1..];
        let behind = rest.trim_start();
        match (behind.strip_prefix(':'), name.take()) {
            // A name whose value is no text has another name, a bracket or a number behind it.
            (Some(value), _) => name = value.trim_start().starts_with('"').then_some(quoted),
            (None, Some(name)) if quoted.len() <= LONGEST => pairs.push((name, quoted)),
            (None, _) => {}
        }
    }
    pairs
}

/// `mysql-0.mysql:3306`
fn host_and_port(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.to_owned(), port.parse().unwrap_or(0))
}

/// Reads it; None for a text that has no such object.
pub(crate) fn read(text: &str) -> Option<ClusterStatus> {
    let sign = text.find(SIGN)?;
    let begin = text[..sign].find('{')?;
    // Of a text whose beginning has other brackets, the last one that nothing but names and blanks follow.
    let begin = text[..sign].rfind("\n{").map_or(begin, |at| at + 1);
    let end = begin + end_of_object(&text[begin..]);
    let object = text.get(begin..end).filter(|object| object.contains(SIGN))?;
    let pairs = pairs(object);
    let itself = pairs.iter().find(|(name, _)| *name == "groupInformationSourceMember").map(|(_, of)| *of);
    let mut said = ClusterStatus::default();
    let mut missing = 0_u64;
    let mut of_set = "";
    let mut of_set_text = "";
    let mut member: Option<GroupMember> = None;
    let keep = |member: GroupMember, said: &mut ClusterStatus, missing: &mut u64| match member.state.as_str()
    {
        "(MISSING)" => *missing += 1,
        _ => said.members.push(member),
    };
    for (name, value) in pairs {
        match (name, &mut member) {
            ("address", _) => {
                if let Some(member) = member.take() {
                    keep(member, &mut said, &mut missing);
                }
                let (host, port) = host_and_port(value);
                let is_self = itself.map(|itself| itself == value || itself.ends_with(&format!("@{value}")));
                member = Some(GroupMember { host, port, is_self, ..GroupMember::default() });
            }
            ("status", Some(member)) if member.state.is_empty() => member.state = value.to_ascii_uppercase(),
            ("memberRole", Some(member)) => member.role = value.to_ascii_uppercase(),
            ("mode", Some(member)) if member.role.is_empty() && value != "n/a" => {
                member.role = if value == "R/W" { "PRIMARY" } else { "SECONDARY" }.to_owned();
            }
            ("status", None) if of_set.is_empty() => of_set = value,
            ("statusText", None) if of_set_text.is_empty() => of_set_text = value,
            _ => {}
        }
    }
    if let Some(member) = member {
        keep(member, &mut said, &mut missing);
    }
    if said.members.is_empty() {
        return None;
    }
    let missed = match missing {
        0 => String::new(),
        _ => format!(", and {missing} that belong to the cluster and not to the group (MISSING)"),
    };
    said.says.push(format!(
        "{} of a replication group: {}{missed}",
        number::counted(said.members.len() as u64, "member", "members"),
        GroupMember::states(&said.members)
    ));
    // The members are named already.
    let of_set_text = said.members.iter().fold(of_set_text.to_owned(), |text, member| {
        let address = format!("{}:{}", member.host, member.port);
        text.replace(&format!("'{address}'"), &address)
    });
    let of_set_text = spindoctor_sql::sentence_without_quotes(&of_set_text);
    if !of_set.is_empty() && of_set != "OK" {
        let text = if of_set_text.is_empty() { String::new() } else { format!(": {of_set_text}") };
        said.says.push(format!("the cluster is {of_set}{text}"));
    }
    if of_set.starts_with("NO_QUORUM") && !GroupMember::lack_a_majority(&said.members) {
        said.trouble = Some(LoggedTrouble {
            kind: TroubleKind::NoMajority,
            times: 1,
            line: format!("{of_set}: {of_set_text}"),
            source: "cluster.status()".into(),
            ..LoggedTrouble::default()
        });
    }
    said.first_line = text[..begin].matches('\n').count() + 1;
    said.lines = object.matches('\n').count() + 1;
    said.rest = format!("{}\n{}", &text[..begin], &text[end..]);
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Kind, Said};
    use crate::recognise;

    fn status(of_set: &str, states: [&str; 3]) -> String {
        let member = |(at, state): (usize, &str)| {
            format!(
                "            \"db{at}:3306\": {{\n                \"address\": \"db{at}:3306\",\n                \"instanceErrors\": [\"NOTE: a {{ b\"],\n\
                 \x20               \"mode\": \"{}\",\n                \"readReplicas\": {{}},\n                \"role\": \"HA\",\n                \
                 \"status\": \"{state}\"\n            }}",
                if at == 0 { "R/W" } else { "R/O" }
            )
        };
        let members: Vec<String> = states.into_iter().enumerate().map(member).collect();
        format!(
            "{{\n    \"clusterName\": \"c\",\n    \"defaultReplicaSet\": {{\n        \"name\": \"default\",\n        \"primary\": \"db0:3306\",\n        \
             \"status\": \"{of_set}\",\n        \"statusText\": \"as seen from 'db0:3306'\",\n        \"topology\": {{\n{}\n        }},\n        \"topologyMode\": \"Single-Primary\"\n    }},\n    \
             \"groupInformationSourceMember\": \"db0:3306\"\n}}\n",
            members.join(",\n")
        )
    }

    #[test]
    fn a_cluster_without_a_majority_is_read_as_the_members_of_its_group() {
        let text = status("NO_QUORUM", ["ONLINE", "UNREACHABLE", "UNREACHABLE"]);
        let prompt =
            format!(" MySQL  db0:3306 ssl  JS > cluster.status()\n{text} MySQL  db0:3306 ssl  JS > \n");
        for text in [text.clone(), text.replace('\n', " "), prompt, text[..text.len() - 90].to_owned()] {
            let parts = recognise("a.txt", &text);
            let part = parts.iter().find(|part| part.kind == Kind::GroupMembers).unwrap();
            let Said::GroupMembers(members) = &part.moments[0].said[0] else { panic!("{part:?}") };
            assert!(GroupMember::lack_a_majority(members), "{members:?}");
            assert_eq!(
                (members[0].host.as_str(), members[0].port, members[0].role.as_str()),
                ("db0", 3306, "PRIMARY")
            );
            assert_eq!(part.says[0], "3 members of a replication group: 1 ONLINE, 2 UNREACHABLE");
            assert_eq!(parts.len(), 1, "{parts:?}");
        }
    }

    #[test]
    fn members_that_are_missing_are_counted_and_what_stands_beside_is_read() {
        let text = status("OK_NO_TOLERANCE_PARTIAL", ["ONLINE", "(MISSING)", "ONLINE"]);
        let parts = recognise(
            "a.txt",
            &format!("{text}\nId\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tQuery\t3\tinit\tDO 1\n"),
        );
        assert!(parts.iter().any(|part| part.kind == Kind::ProcessList), "{parts:?}");
        let part = parts.iter().find(|part| part.kind == Kind::GroupMembers).unwrap();
        assert_eq!(
            part.says,
            [
                "2 members of a replication group: 2 ONLINE, and 1 that belong to the cluster and not to the group (MISSING)",
                "the cluster is OK_NO_TOLERANCE_PARTIAL: as seen from db0:3306"
            ]
        );
        assert!(
            !part
                .moments
                .iter()
                .flat_map(|moment| &moment.said)
                .any(|said| matches!(said, Said::Troubles(_)))
        );
        let lost = recognise("a.txt", &status("NO_QUORUM", ["ONLINE", "(MISSING)", "(MISSING)"]));
        assert!(lost[0].moments[0].said.iter().any(|said| matches!(said, Said::Troubles(_))), "{lost:?}");
    }

    #[test]
    fn a_text_that_only_names_it_is_none() {
        for text in [
            "{\"defaultReplicaSet\": 7}",
            "\"defaultReplicaSet\"",
            "{ \"a\": \"defaultReplicaSet\" \"",
            "{\"defaultReplicaSet\": \"address\": \"x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_member_from_which_the_cluster_was_seen_is_named() {
        let parts = recognise("a.txt", &status("NO_QUORUM", ["ONLINE", "UNREACHABLE", "UNREACHABLE"]));
        let says: Vec<String> = parts.into_iter().flat_map(|part| part.says).collect();
        assert!(says.iter().any(|said| said.ends_with("NO_QUORUM: as seen from db0:3306")), "{says:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(\"defaultReplicaSet\"|\"address\": \"|\"status\": \"|[{}\":\\\\\n]|.){0,60}") {
            read(&text);
        }
    }
}
