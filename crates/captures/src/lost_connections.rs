//! Of the connections that a log says were lost, whose they were most often, and why:
//!
//! ```text
//! [Warning] Aborted connection 812 to db: 'shop' user: 'app' host: '10.0.0.7' (Got timeout reading communication packets)
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number;

/// Connections, of which fewer have no one that they are of most often.
const FEW: u64 = 2;
/// Characters of an account or a host that are shown.
const SHOWN: usize = 64;

/// Why a connection was lost: what the server says (sql/sql_connect.cc), in lower case, and what that means.
const REASONS: [(&str, &str); 6] = [
    ("got timeout reading", "the client sent nothing for longer than wait_timeout"),
    ("got a packet bigger than", "the client sent more than max_allowed_packet"),
    ("got timeout writing", "the client took nothing for longer than net_write_timeout"),
    ("got an error reading", "the client ended, or went away, without closing it"),
    ("got an error writing", "the client went away before it had taken its answer"),
    (
        "this connection closed normally",
        "the client closed it before it logged in, as a check of the port does",
    ),
];

/// A connection that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lost<'l> {
    user: &'l str,
    host: &'l str,
    reason: &'l str,
}

impl<'l> Lost<'l> {
    fn from_line(line: &'l str) -> Option<Self> {
        let (_, rest) = line.split_once("Aborted connection ")?;
        let quoted = |name: &str| {
            let (_, value) = rest.split_once(name)?;
            value.split_once('\'').map(|(value, _)| value)
        };
        let (user, host) = (quoted(" user: '")?, quoted(" host: '")?);
        let words = rest.rsplit_once('(').map_or("", |(_, words)| words).to_ascii_lowercase();
        let reason =
            REASONS.iter().find(|(sign, _)| words.starts_with(sign)).map_or("", |(_, reason)| *reason);
        Some(Self { user, host, reason })
    }
}

/// Whose they were most often, in a sentence; None where no line says whose, or there is one alone.
pub(crate) fn who(text: &str) -> Option<String> {
    let mut all: BTreeMap<Lost<'_>, u64> = BTreeMap::new();
    for lost in text.lines().filter_map(Lost::from_line) {
        *all.entry(lost).or_default() += 1;
    }
    let count: u64 = all.values().sum();
    let (most, times) = all.into_iter().max_by_key(|(_, times)| *times)?;
    if count < FEW || times < FEW {
        return None;
    }
    let shown = |text: &str| text.chars().take(SHOWN).collect::<String>();
    let reason = if most.reason.is_empty() { String::new() } else { format!(": {}", most.reason) };
    let (user, host) = (shown(most.user), shown(most.host));
    let of_all = if times == count { "all".to_owned() } else { times.to_string() };
    let connections = number::counted(count, "lost connection", "lost connections");
    Some(format!("of {connections} {of_all} were of {user} at {host}{reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_most_connections_is_named_with_the_reason() {
        let line = |user: &str, reason: &str| {
            format!(
                "2024-03-04 10:11:12 7 [Warning] Aborted connection 7 to db: 'shop' user: '{user}' host: '10.0.0.7' ({reason})\n"
            )
        };
        let silent = line("job", "Got timeout reading communication packets");
        let broken = line("app", "Got an error reading communication packets");
        assert_eq!(
            who(&format!("{silent}{broken}{silent}")).as_deref(),
            Some(
                "of 3 lost connections 2 were of job at 10.0.0.7: the client sent nothing for longer than wait_timeout"
            )
        );
        let all = who(&broken.repeat(2));
        assert!(
            all.as_deref().is_some_and(|said| said.starts_with("of 2 lost connections all were of app")),
            "{all:?}"
        );
        assert_eq!(who(&broken), None);
        assert_eq!(who(&format!("{silent}{broken}")), None);
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "(Aborted connection | user: '| host: '|'|\\(|é|a){0,30}") {
            who(&format!("{line}\n{line}\n"));
        }
    }
}
