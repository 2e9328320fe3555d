//! What `SHOW PROFILE` prints of a statement: where its time went, stage by stage, in a sentence.
//!
//! ```text
//! | Status         | Duration |
//! | starting       | 0.000052 |
//! | query end      | 15.19898 |
//! ```
//!
//! `information_schema.PROFILING` has a statement's number before these, and the manual's own query of performance_schema the names
//! `Stage` and `Duration`.

use std::collections::BTreeMap;

use spindoctor_collect::mysql::Rows;
use spindoctor_model::number;

use crate::sys_session;

/// Stages that each statement has, in lower case (sql/sql_parse.cc, sql/sql_base.cc): a list of something else has none of them.
const OF_EACH: [&str; 7] = [
    "starting",
    "checking permissions",
    "opening tables",
    "query end",
    "closing tables",
    "freeing items",
    "cleaning up",
];

/// What a statement does in a stage, in lower case.
const DOES: [(&str, &str); 9] = [
    ("query end", "it commits: it waits for its logs to be on the disk, or for a replica to answer"),
    ("waiting for handler commit", "it waits there for its logs to be on the disk"),
    ("statistics", "its plan is made there, with samples of the indexes"),
    ("opening tables", "it waits there for the dictionary or the cache of tables"),
    ("sending data", "it reads rows there"),
    ("executing", "it reads rows there"),
    ("creating sort index", "it sorts there"),
    ("update", "it writes rows there, and waits for their locks"),
    ("updating", "it looks for rows and changes them there, and waits for their locks"),
];

/// Stages that are named, of those with the largest parts of the time.
const NAMED: usize = 3;
/// Smaller parts are not named.
const PART: f64 = 0.1;

/// True for the columns of such a list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    matches!(
        names.as_slice(),
        ["status" | "stage", "duration", ..] | ["query_id", "seq", "state", "duration", ..]
    )
}

/// Where the time of the statement went; None of a list of something else.
pub(crate) fn sentence(rows: &Rows) -> Option<String> {
    let mut stages: BTreeMap<String, f64> = BTreeMap::new();
    let mut known = 0_usize;
    let last = rows.iter().filter_map(|row| row.text("query_id")).last();
    for row in rows.iter().filter(|row| row.text("query_id") == last) {
        let stage = ["status", "stage", "state"].iter().find_map(|name| row.text(name))?.trim();
        let stage = stage.strip_prefix("stage/sql/").unwrap_or(stage);
        // A procedure of `sys` writes units: `64.82 us`.
        let read = |text: &str| text.trim().parse::<f64>().ok().or_else(|| sys_session::latency(text));
        let seconds = row.text("duration").and_then(read);
        let Some(seconds) = seconds else { continue };
        if !(0.0..1e9).contains(&seconds) {
            return None;
        }
        known += usize::from(OF_EACH.iter().any(|name| stage.eq_ignore_ascii_case(name)));
        *stages.entry(stage.to_owned()).or_default() += seconds;
    }
    let total: f64 = stages.values().sum();
    if known < 2 || total <= 0.0 {
        return None;
    }
    let is_part = |(_, seconds): &(String, f64)| *seconds >= PART * total;
    let mut parts: Vec<(String, f64)> = stages.into_iter().filter(is_part).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let named: Vec<String> = parts
        .iter()
        .take(NAMED)
        .map(|(stage, seconds)| {
            let shown: String = stage.chars().take(60).collect();
            format!("{} ({}) in `{shown}`", number::duration(*seconds), number::percent(seconds / total))
        })
        .collect();
    let is_first = |stage: &str| parts.first().is_some_and(|(first, _)| first.eq_ignore_ascii_case(stage));
    let does = DOES.iter().find(|(stage, _)| is_first(stage));
    let does = does.map_or_else(String::new, |(_, does)| format!(": {does}"));
    let took = number::duration(total);
    Some(match named.is_empty() {
        true => format!("the statement took {took}"),
        false => format!("the statement took {took}, of that {}{does}", named.join(", ")),
    })
}

/// The lines of a text with the tabs of such a list, which a page made blanks of: below `Status Duration` each line ends with a time.
pub(crate) fn with_tabs(mut lines: Vec<String>) -> Vec<String> {
    let is_head = |line: &str| line.len() < 40 && line.split_whitespace().eq(["Status", "Duration"]);
    let mut in_list = false;
    for line in &mut lines {
        if !line.contains(['\t', '|']) && (in_list || is_head(line)) {
            let cells = line.trim().rsplit_once(' ').map(|(stage, time)| (stage.trim_end(), time));
            let is_row = |time: &str| time.contains('.') && time.parse::<f64>().is_ok();
            match cells.filter(|&(_, time)| !in_list || is_row(time)) {
                Some((stage, time)) => {
                    let row = format!("{stage}\t{time}");
                    *line = row;
                    in_list = true;
                }
                None => in_list = false,
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use crate::Kind;

    fn says(text: &str) -> Vec<String> {
        let parts = crate::recognise("x", text);
        assert!(parts.iter().any(|part| part.kind == Kind::StatementProfile), "{parts:?}");
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn the_stage_that_took_the_time_is_said() {
        let wanted = "the statement took 15.2 s, of that 15.2 s (100 %) in `query end`: it commits: it waits for its logs to be on the \
                      disk, or for a replica to answer";
        let stages = [
            ("starting", "0.000026"),
            ("Opening tables", "0.000011"),
            ("Waiting for query cache lock", "0.000001"),
            ("update", "0.000052"),
            ("query end", "15.198987"),
            ("freeing items", "0.000026"),
        ];
        let list = |before: &str, between: &str, after: &str| {
            let row = |(stage, time): &(&str, &str)| format!("{before}{stage}{between}{time}{after}\n");
            format!("{}{}", row(&("Status", "Duration")), stages.iter().map(row).collect::<String>())
        };
        for text in [list("| ", " | ", " |"), list("", "\t", ""), list("", " ", "")] {
            assert_eq!(says(&text), [wanted], "{text}");
        }
    }

    #[test]
    fn durations_may_have_units() {
        let rows = "| starting | 64.82 us |\n| Sending data | 11.37 s |\n| query end | 4.60 us |\n";
        let wanted =
            "the statement took 11.4 s, of that 11.4 s (100 %) in `Sending data`: it reads rows there";
        assert_eq!(says(&format!("| Status | Duration |\n{rows}")), [wanted]);
    }

    #[test]
    fn lists_of_something_else_are_none() {
        for text in [
            "| Status | Duration |\n| ok | 3.5 |\n| failed | 8.1 |\n",
            "Status Duration\nok 3.5\nfailed 8.1\n",
        ] {
            let parts = crate::recognise("x", text);
            assert!(parts.iter().all(|part| part.kind == Kind::Unknown), "{parts:?}");
        }
    }
}
