//! What ProxySQL writes into its own log of the servers behind it. It is no server's log, and says of a server what a client sees of it.
//!
//! ```text
//! 2024-03-04 10:11:12 MySQL_Monitor.cpp:3158:monitor_ping(): [ERROR] Server 10.1.0.4:3306 missed 3 heartbeats, shunning it and killing all
//!   the connections. Disabling other checks until the node comes back online.
//! 2024-03-04 10:11:12 MySQL_HostGroups_Manager.cpp:1602:replication_lag_action(): [WARNING] Shunning server db2:3306 with replication
//!   lag of 60 second
//! 2024-03-04 10:11:12 [INFO] ProxySQL version 2.6.3-percona-1.1
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number;

use crate::clock;

/// Sentences that are shown, the most frequent first, and characters of a server's address.
const MOST: usize = 6;
const LONGEST: usize = 64;
/// Servers and hostgroups that are counted.
const MOST_COUNTED: usize = 500;

/// What a line has before a server's address or a hostgroup, what behind it, and what that means, around its name.
const SIGNS: [(&str, &str, [&str; 2]); 8] = [
    ("Server ", " missed ", ["", " did not answer ProxySQL's pings, and gets no queries meanwhile"]),
    (
        "Timeout on read_only check for ",
        " after ",
        ["", " answered the check of read_only too late (mysql-monitor_read_only_timeout)"],
    ),
    (
        "Timeout on group replication health check for ",
        " after ",
        [
            "",
            " answered the check of its group too late (mysql-monitor_groupreplication_healthcheck_timeout)",
        ],
    ),
    (
        "Shunning server ",
        " with replication lag of ",
        ["", " is a replica that was too far behind (max_replication_lag), and got no queries"],
    ),
    ("Connect timeout on ", " : ", ["a connection to ", " was not made in time"]),
    ("Failed to mysql_real_connect() on ", " , FD ", ["a connection to ", " (hostgroup:server) was refused"]),
    ("Hostgroup ", " has no servers available", ["no server of hostgroup ", " was left"]),
    (
        "Max connect timeout reached while reaching hostgroup ",
        " after ",
        ["clients waited for a server of hostgroup ", " until mysql-connect_timeout_server_max was over"],
    ),
];

/// True for a line that ProxySQL writes and no server: behind its time stands the place in its source, or its name.
pub(crate) fn is_line(line: &str) -> bool {
    if !line.starts_with("20") || clock::time(line).is_none() {
        return false;
    }
    let mut words = line.split_whitespace().skip(2);
    match words.next() {
        Some("[INFO]") => words.take(4).any(|word| word == "ProxySQL"),
        Some(place) => place.contains(".cpp:") && place.ends_with(':'),
        None => false,
    }
}

/// True for a line that may stand between those.
pub(crate) fn goes_on(line: &str) -> bool {
    let is_note = || line.starts_with("20") && clock::time(line).is_some() && line.contains(" [INFO] ");
    line.is_empty()
        || is_line(line)
        || is_note()
        || ["HID: ", "Standard ProxySQL "].iter().any(|begin| line.starts_with(begin))
}

/// What the log says, in sentences.
pub(crate) fn read(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for found in text.lines().filter(|line| is_line(line)).filter_map(sign) {
        if counts.len() < MOST_COUNTED || counts.contains_key(&found) {
            *counts.entry(found).or_default() += 1;
        }
    }
    let mut counts: Vec<((usize, &str), u64)> = counts.into_iter().collect();
    counts.sort_by_key(|((at, _), count)| (std::cmp::Reverse(*count), *at));
    let sentence = |((at, name), count): &((usize, &str), u64)| {
        let (_, _, [before, behind]) = SIGNS[*at];
        let shown: String = name.chars().take(LONGEST).collect();
        format!("{before}{shown}{behind} ({})", number::counted(*count, "time", "times"))
    };
    let first = "it is a log of ProxySQL, not of a server: what it says of the servers behind it their own logs may explain";
    std::iter::once(first.to_owned()).chain(counts.iter().take(MOST).map(sentence)).collect()
}

/// Which sign a line has, and of what.
fn sign(line: &str) -> Option<(usize, &str)> {
    SIGNS.iter().enumerate().find_map(|(at, (begin, end, _))| {
        let (_, rest) = line.split_once(*begin)?;
        let (name, _) = rest.split_once(*end)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".:-_[]".contains(c);
        (!name.is_empty() && name.chars().all(is_name)).then_some((at, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    const LOG: &str = "2024-03-04 10:11:12 [INFO] ProxySQL version 2.6.3\n2024-03-04 10:11:12 [INFO] Starting the admin interface\n\
                       2024-03-04 10:11:14 MySQL_Monitor.cpp:3158:monitor_ping(): [ERROR] Server 10.1.0.4:3306 missed 3 heartbeats, shunning \
                       it and killing all the connections.\n\
                       2024-03-04 10:11:15 mysql_connection.cpp:1203:handler(): [ERROR] Failed to mysql_real_connect() on 20:10.1.0.4:3306 , \
                       FD (Conn:0 , MyDS:43) , 2002: Can't connect to server on '10.1.0.4' (113).\n\
                       2024-03-04 10:11:34 MySQL_Monitor.cpp:3158:monitor_ping(): [ERROR] Server 10.1.0.4:3306 missed 3 heartbeats, shunning \
                       it and killing all the connections.\n\
                       HID: 2 , address: 10.1.0.4 , port: 3306 , status: SHUNNED\n";

    #[test]
    fn a_log_of_proxysql_is_no_server_s_and_says_which_server_did_not_answer() {
        for text in [LOG.to_owned(), format!("This is what we see:\n\n```\n{LOG}```\n")] {
            let parts = recognise("proxysql.log", &text);
            let part = parts.iter().find(|part| part.kind == Kind::OtherProgram);
            assert!(parts.iter().all(|part| part.kind != Kind::ErrorLog), "{parts:#?}");
            let says = part.map(|part| part.says.clone()).unwrap_or_default();
            assert_eq!(
                says[1..],
                [
                    "10.1.0.4:3306 did not answer ProxySQL's pings, and gets no queries meanwhile (2 times)",
                    "a connection to 20:10.1.0.4:3306 (hostgroup:server) was refused (1 time)",
                ],
                "{parts:#?}"
            );
        }
        let lag = "2024-03-04 10:11:12 MySQL_HostGroups_Manager.cpp:1602:replication_lag_action(): [WARNING] Shunning server db2:3306 with \
                   replication lag of 60 second\n";
        assert!(read(lag)[1].starts_with("db2:3306 is a replica that was too far behind"), "{:?}", read(lag));
    }

    #[test]
    fn lines_of_servers_and_of_other_programs_are_none_of_its() {
        for line in [
            "2024-03-04 10:11:12 0 [ERROR] InnoDB: in file a.cpp: no",
            "2024-03-04 10:11:12 [INFO] worker 7 started",
            "MySQL_Monitor.cpp:12:f(): [ERROR] Server a missed 3",
            "2024-03-04 10:11:12",
            "20é",
        ] {
            assert!(!is_line(line), "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(2024-03-04 10:11:12 |a.cpp:1:f\\(\\): |\\[INFO\\] |ProxySQL|Server | missed |Hostgroup |é|\n){0,40}") {
            goes_on(&text);
            read(&text);
        }
    }
}
