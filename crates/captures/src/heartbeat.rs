//! What pt-heartbeat prints with `--monitor`: how far a replica is behind its source, once a second, and the means of some minutes.
//!
//! ```text
//! 12.00s [ 11.53s,  9.12s,  4.80s ]
//! ```
//!
//! It compares the time of the host on which it runs with the time that another pt-heartbeat writes into a row of the source again and again:
//! the clocks of both must agree. The lines are a second apart unless `--interval` says something else, which they do not. With `--recurse` a
//! host stands before a line: those are not read.

use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_model::number;

use crate::amounts::amount;

/// Lines that are read, of its last ones: two minutes show whether the lag grows.
const MOST: usize = 120;

/// True for such a line.
pub(crate) fn is_line(line: &str) -> bool {
    behind_s(line).is_some()
}

/// Seconds behind, of such a line.
fn behind_s(line: &str) -> Option<f64> {
    let number = |text: &str| {
        let text = text.trim();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        amount(text).filter(|_| is_number)
    };
    let (now, rest) = line.trim().split_once("s [")?;
    let (means, behind) = rest.split_once(']')?;
    let are_means =
        means.split(',').all(|mean| mean.trim().strip_suffix('s').is_some_and(|mean| number(mean).is_some()));
    // The number of the source's server, where it was asked for.
    let is_end = behind.trim().bytes().all(|byte| byte.is_ascii_digit());
    number(now).filter(|_| are_means && is_end)
}

/// What the lines say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heartbeat {
    /// In a sentence.
    pub(crate) says: String,
    /// The replica at each of the lines, a second apart.
    pub(crate) channels: Vec<ReplicaChannel>,
}

/// Reads them; None for a text without one.
pub(crate) fn read(text: &str) -> Option<Heartbeat> {
    let all: Vec<f64> = text.lines().filter_map(behind_s).collect();
    let last = *all.last()?;
    let least = all.iter().copied().fold(f64::MAX, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    let says = match all.len() {
        1 => format!("the replica was {} behind", number::duration(last)),
        count => format!(
            "{count} readings: the replica was {} to {} behind, {} in the last",
            number::duration(least),
            number::duration(most),
            number::duration(last)
        ),
    };
    // Whether its two threads run the lines do not say.
    let channel = |behind_s: f64| ReplicaChannel {
        source_host: "its source".to_owned(),
        behind_s: Some(behind_s),
        ..ReplicaChannel::default()
    };
    let channels = all[all.len().saturating_sub(MOST)..].iter().map(|&behind_s| channel(behind_s)).collect();
    Some(Heartbeat { says, channels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::{recognise, window};

    #[test]
    fn a_replica_that_is_behind_is_a_finding_that_says_whether_it_grows() {
        let line =
            |s: u32| format!("{:7.2}s [ {:5.2}s,  9.12s,  4.80s ]\n", f64::from(s), f64::from(s) - 0.5);
        let growing: String = (80..100).map(line).collect();
        let text = format!("$ pt-heartbeat -D percona --monitor h=db2\n{growing}");
        let parts = recognise("x", &text);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::ReplicaLag], "{parts:#?}");
        assert_eq!(parts[0].says, ["20 readings: the replica was 80 s to 99 s behind, 99 s in the last"]);
        let finding = spindoctor_rules::diagnose(&window(&parts)).findings.remove(0);
        assert_eq!(
            (finding.cause.as_str(), finding.headline.as_str()),
            ("replica-lag", "The replica is 99 s behind its source, 1.0 s more each second")
        );
        let one = recognise("x", "  81.00s [ 11.53s,  9.12s,  4.80s ] 4711\n");
        assert_eq!(one[0].says, ["the replica was 81 s behind"]);
        assert_eq!(spindoctor_rules::diagnose(&window(&one)).findings[0].cause, "replica-lag");
    }

    #[test]
    fn a_replica_that_keeps_up_is_none_and_other_lines_are_none_of_it() {
        let text = "   0s [  0.00s,  0.00s,  0.00s ]\n".repeat(9);
        let parts = recognise("x", &text);
        assert_eq!(parts[0].kind, Kind::ReplicaLag, "{parts:#?}");
        assert!(spindoctor_rules::diagnose(&window(&parts)).findings.is_empty());
        for line in [
            "0.00",
            "it took 3s [ see below ]",
            "db2 0.00s [ 0.00s ]",
            "1s [ ]",
            "nans [ 1s ]",
            "-1s [ 1s ]",
            "1s [ 1s",
        ] {
            assert!(!is_line(line), "{line}");
        }
    }
}
