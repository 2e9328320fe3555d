//! What Amazon RDS and Aurora note of an instance: `aws rds describe-events` as text, table or JSON, and the console's page.
//!
//! ```text
//! EVENTS  2024-05-11T02:47:02.551000+00:00  arn:...  The allocated storage for the DB instance shop has been exhausted. Allocate additional ...
//! March 14, 2024, 08:44 (UTC)   The database process was killed by the OS due to the lack of memory.
//!             "Message": "Multi-AZ instance failover started.",
//! ```
//!
//! Instances of PostgreSQL have the same events: where a text names it, nothing is said.

use spindoctor_model::{TroubleKind, number};
use spindoctor_rules::EVENTS_OF_RDS;

use crate::system::{MOST_ROWS, SystemText};

/// What events say, in lower case (Amazon RDS User Guide, Amazon RDS event categories and event messages).
const FULL: [&str; 3] = [
    "has been exhausted. allocate",
    "has been consumed. to resolve this issue, allocate",
    "reached the storage-full threshold",
];
/// That there is more now. The console lists the newest events first, so that the order says nothing.
const ENLARGED: [&str; 2] = [
    "finished applying modification to allocated storage",
    "finished applying autoscaling-initiated modification to allocated storage",
];
const NEARLY_FULL: [&str; 2] =
    ["free storage capacity for db instance", "free storage capacity for the db instance"];
const KILLED: [&str; 2] =
    ["database process was killed by the os", "database process has been killed by the os"];
const SHORT_OF_MEMORY: [&str; 2] = ["db instance is running low on memory", "oom mitigation: "];
const FAILOVER_BEGINS: [&str; 3] =
    ["failover started", "started cross az failover", "started same az failover"];
const FAILOVER_ENDS: [&str; 2] = ["failover completed", "completed failover to"];
const RESTARTED: [&str; 1] = ["db instance restarted"];

/// Why an instance failed over, as an event says, in lower case, and in words. The first that a text has counts.
const REASONS: [(&str, &str); 5] = [
    ("primary instance is busy and unresponsive", ": its primary was busy and did not answer"),
    ("lost network connectivity", ": its primary lost its network"),
    ("storage failure", ": its primary's storage failed"),
    ("host of the rds multi-az instance is unhealthy", ": its primary's host was not in order"),
    ("user requested a failover", ": somebody asked for it"),
];

/// True for a line with such an event, which has a time or is a message in JSON.
pub(crate) fn is_line(line: &str) -> bool {
    const LONGEST: usize = 100_000;
    /// One of these has each of them.
    const WORDS: [&str; 4] = ["DB instance", "DB Instance", "database process", "Multi-AZ"];
    if !WORDS.iter().any(|word| line.contains(word))
        || !(line.contains("\"Message\"") || has_clock(line))
        || line.len() > LONGEST
    {
        return false;
    }
    let lower = line.to_ascii_lowercase();
    let all = [
        &FULL[..],
        &NEARLY_FULL[..],
        &KILLED[..],
        &SHORT_OF_MEMORY[..],
        &FAILOVER_BEGINS[..],
        &FAILOVER_ENDS[..],
        &RESTARTED,
    ];
    all.iter().any(|signs| count(&lower, signs) > 0)
}

/// `08:44`
fn has_clock(line: &str) -> bool {
    let is_clock =
        |five: &[u8]| five[2] == b':' && [0, 1, 3, 4].iter().all(|at: &usize| five[*at].is_ascii_digit());
    line.as_bytes().windows(5).any(is_clock)
}

fn count(lower: &str, signs: &[&str]) -> u64 {
    signs.iter().map(|sign| lower.matches(sign).count() as u64).sum()
}

/// Says what happened to the instance.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let events: String =
        text.lines().take(MOST_ROWS).filter(|line| is_line(line)).collect::<Vec<_>>().join("\n");
    if events.is_empty() {
        return;
    }
    let (events, lower) = (events.to_ascii_lowercase(), text.to_ascii_lowercase());
    if lower.contains("postgres") {
        return;
    }
    let times = |signs: &[&str]| count(&events, signs);
    let is_enlarged = ENLARGED.iter().any(|sign| lower.contains(sign));
    if times(&FULL) > 0 && is_enlarged {
        let sentence = "The storage of the RDS instance was used up, and an event says that it has more: where that is the later one, it is over";
        found.add(EVENTS_OF_RDS, None, sentence.to_owned());
    } else if times(&FULL) > 0 {
        let sentence = "The storage of the RDS instance is used up: the server stops, or takes no writes, until it has more";
        found.add(EVENTS_OF_RDS, Some(TroubleKind::DiskFull), sentence.to_owned());
    } else if times(&NEARLY_FULL) > 0 {
        let sentence = "The storage of the RDS instance is nearly used up: without more the server will stop";
        found.add(EVENTS_OF_RDS, None, sentence.to_owned());
    }
    if times(&KILLED) > 0 {
        let sentence =
            "The server was killed by the OOM killer, as RDS says: its instance had no memory left";
        found.add(EVENTS_OF_RDS, Some(TroubleKind::KilledForMemory), sentence.to_owned());
    }
    if times(&SHORT_OF_MEMORY) > 0 {
        let sentence = "The instance ran low on memory, and Aurora refused connections or ended statements for that (aurora_oom_response)";
        found.add(EVENTS_OF_RDS, None, sentence.to_owned());
    }
    let failovers = times(&FAILOVER_BEGINS).max(times(&FAILOVER_ENDS));
    if failovers > 0 {
        let reason = REASONS.iter().find(|(sign, _)| lower.contains(sign)).map_or("", |(_, reason)| *reason);
        let times = number::counted(failovers, "time", "times");
        let sentence = format!(
            "The instance failed over {times}{reason}. Connections were lost, and the new primary's buffer pool is cold"
        );
        found.add(EVENTS_OF_RDS, None, sentence);
    }
    let restarts = times(&RESTARTED);
    if restarts > 0 {
        let times = number::counted(restarts, "time", "times");
        found.add(EVENTS_OF_RDS, None, format!("The server was started again {times}, as RDS says"));
    }
}

#[cfg(test)]
mod tests {
    use crate::recognise;

    fn says(text: &str) -> Vec<String> {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect()
    }

    fn causes(text: &str) -> Vec<String> {
        let found = spindoctor_rules::diagnose(&crate::window(&recognise("x", text))).findings;
        found.into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn storage_that_is_used_up_is_a_finding_as_text_and_in_json() {
        let message = "The allocated storage for the DB instance shop has been exhausted. Allocate additional storage to resolve.";
        let text = format!(
            "EVENTS\t2024-03-04T10:11:12.120000+00:00\tarn:aws:rds:eu-west-1:1:db:shop\tThe free storage capacity for DB Instance: shop is low at 2% \
             of the provisioned storage\tshop\tdb-instance\nEVENTCATEGORIES\tlow storage\n\
             EVENTS\t2024-03-04T10:21:12.120000+00:00\tarn:aws:rds:eu-west-1:1:db:shop\t{message}\tshop\tdb-instance\nEVENTCATEGORIES\tavailability\n"
        );
        let json = format!(
            "{{\n    \"Events\": [\n        {{\n            \"SourceIdentifier\": \"shop\",\n            \"SourceType\": \"db-instance\",\n            \
             \"Message\": \"{message}\",\n            \"EventCategories\": [\n                \"low storage\"\n            ],\n            \
             \"Date\": \"2024-03-04T10:11:12.120000+00:00\"\n        }}\n    ]\n}}\n"
        );
        for text in [&text, &json, &json.replace("\n", "").replace("    ", "")] {
            let said = says(text);
            assert!(
                said.len() == 1 && said[0].starts_with("The storage of the RDS instance is used up"),
                "{text}: {said:?}"
            );
            assert_eq!(causes(text), ["disk-full"], "{text}");
            assert_eq!(says(&text.replace("shop", "postgres-1")), Vec::<String>::new());
        }
    }

    #[test]
    fn storage_that_was_made_larger_is_no_finding() {
        let event = |time: &str, message: &str| {
            format!(
                "EVENTS  2024-03-04T{time}:12.120000+00:00  arn:aws:rds:eu-west-1:1:db:shop  {message}  shop  db-instance\n"
            )
        };
        let text = [
            event("10:11", "The allocated storage for the DB instance shop has been exhausted. Allocate additional storage to resolve."),
            event("10:31", "Finished applying modification to allocated storage"),
        ]
        .concat();
        assert!(says(&text)[0].ends_with("where that is the later one, it is over"), "{:?}", says(&text));
        assert_eq!(causes(&text), Vec::<String>::new());
    }

    #[test]
    fn a_kill_and_failovers_are_said_with_their_reason() {
        let text = "March 4, 2024, 10:11 (UTC)   Aurora MySQL: The DB instance is running low on memory. OOM mitigation: killed query.\n\
                    March 4, 2024, 10:12 (UTC)   The database process was killed by the OS due to the lack of memory.\n\
                    March 4, 2024, 10:12 (UTC)   DB instance restarted\n\
                    March 4, 2024, 10:13 (UTC)   Started cross AZ failover to DB instance: shop-2\n\
                    March 4, 2024, 10:13 (UTC)   Completed failover to DB instance: shop-2\n";
        let said = says(text);
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[2].starts_with("The instance failed over 1 time."), "{said:?}");
        assert_eq!(causes(text), ["memory-pressure"]);
        let busy = "March 4, 2024, 10:13:11 AM UTC\tMulti-AZ instance failover started.\nMarch 4, 2024, 10:14:11 AM UTC\tThe RDS Multi-AZ primary \
                    instance is busy and unresponsive.\n";
        assert!(
            says(busy)[0].starts_with("The instance failed over 1 time: its primary was busy"),
            "{:?}",
            says(busy)
        );
        assert_eq!(says("Since the DB instance restarted it is slow, what now?\n"), Vec::<String>::new());
    }
}
