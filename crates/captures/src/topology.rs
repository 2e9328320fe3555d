//! What orchestrator prints of a topology (`orchestrator-client -c topology`): each server below the one that it replicates from, with how far
//! it is behind and how it is.
//!
//! ```text
//! db1:3306     [0s,ok,8.0.35,rw,ROW,>>,GTID]
//! + db2:3306   [12s,lag,8.0.35,ro,ROW,>>,GTID]
//!   - db3:3306 [null,nonreplicating,8.0.35,ro,ROW,>>,GTID]
//! ```

use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_model::number;

/// Servers that are read, and those that are named.
const MOST: usize = 500;
const SHOWN: usize = 4;

/// A server in the topology.
#[derive(Debug, Clone, PartialEq)]
struct Server<'l> {
    /// How far it is indented.
    depth: usize,
    host: &'l str,
    port: u16,
    /// Seconds behind its source; None where orchestrator does not know.
    behind_s: Option<f64>,
    state: &'l str,
}

impl<'l> Server<'l> {
    fn from_line(line: &'l str) -> Option<Self> {
        let name = line.trim_start_matches([' ', '|', '+', '-']);
        let (address, rest) = name.split_once('[')?;
        let (values, behind) = rest.split_once(']')?;
        let (host, port) = address.trim().rsplit_once(':')?;
        let values: Vec<&str> = values.split(',').collect();
        let [behind_source, state, version, writes, ..] = values[..] else { return None };
        let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
        let is_version = version.starts_with(|c: char| c.is_ascii_digit());
        let is_end = behind.trim().is_empty();
        if !is_host || !is_version || !is_end || !["rw", "ro"].contains(&writes) {
            return None;
        }
        Some(Self {
            depth: line.len() - name.len(),
            host,
            port: port.parse().ok()?,
            behind_s: behind_source.strip_suffix('s').and_then(|seconds| seconds.parse().ok()),
            state,
        })
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// True for a line of a topology.
pub(crate) fn is_line(line: &str) -> bool {
    Server::from_line(line).is_some()
}

/// What a topology says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Topology {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// The replicas of which it says how far they are behind.
    pub(crate) channels: Vec<ReplicaChannel>,
}

/// Reads the lines of one; None for a text without any.
pub(crate) fn read(text: &str) -> Option<Topology> {
    let servers: Vec<Server<'_>> = text.lines().filter_map(Server::from_line).take(MOST).collect();
    if servers.is_empty() {
        return None;
    }
    // The one above that is indented less.
    let source = |at: usize| servers[..at].iter().rev().find(|above| above.depth < servers[at].depth);
    let mut stopped = Vec::new();
    let mut channels = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let Some(source) = source(at) else { continue };
        if server.state == "nonreplicating" {
            stopped.push(format!("{} from {}", server.address(), source.address()));
        } else if let Some(behind_s) = server.behind_s {
            channels.push(ReplicaChannel {
                source_host: source.host.to_owned(),
                source_port: source.port,
                behind_s: Some(behind_s),
                ..ReplicaChannel::default()
            });
        }
    }
    let mut says = vec![number::counted(servers.len() as u64, "server", "servers") + " of a topology"];
    if !stopped.is_empty() {
        let more = stopped.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        let shown = stopped[..stopped.len().min(SHOWN)].join(", ");
        says.push(format!("these do not replicate: {shown}{more}; SHOW REPLICA STATUS there says why"));
    }
    Some(Topology { says, channels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, recognise, window};

    const TOPOLOGY: &str = "$ orchestrator-client -c topology -a shop\n\
                            db1:3306     [0s,ok,8.0.35,rw,ROW,>>,GTID]\n\
                            + db2:3306   [812s,lag,8.0.35,ro,ROW,>>,GTID]\n  \
                              - db3:3306 [null,nonreplicating,8.0.35,ro,ROW,>>,GTID]\n";

    #[test]
    fn who_does_not_replicate_from_whom_and_who_is_behind_is_read() {
        let parts = recognise("a.txt", TOPOLOGY);
        assert_eq!(parts[0].kind, Kind::ReplicaStatus, "{parts:?}");
        assert_eq!(
            parts[0].says,
            [
                "3 servers of a topology",
                "these do not replicate: db3:3306 from db2:3306; SHOW REPLICA STATUS there says why"
            ]
        );
        let found = spindoctor_rules::diagnose(&window(&parts)).findings;
        assert_eq!(found.first().map(|found| found.cause.as_str()), Some("replica-lag"), "{found:#?}");
        assert!(found[0].headline.contains("db1"), "{}", found[0].headline);
    }

    #[test]
    fn other_lists_in_brackets_are_none() {
        for line in [
            "db1:3306 [0s,ok]",
            "a:b [0s,ok,8.0,rw]",
            "- [x] done: 1",
            "db1:3306 [0s,ok,8.0,rw] and more",
            "",
        ] {
            assert!(!is_line(line), "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "([ +|-]|a:1|\\[|\\]|,|0s|ok|8|rw|é){0,30}") {
            read(&line);
        }
    }
}
