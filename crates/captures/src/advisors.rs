//! What two more programs advise: tuning-primer, and the advisor of phpMyAdmin. No cause rests on their advice, which is by counters of all time
//! since the server's start; how many connections there are, and may be, tuning-primer prints as the server says it.
//!
//! ```text
//!         -- MYSQL PERFORMANCE TUNING PRIMER --
//! MAX CONNECTIONS
//! Current max_connections = 151
//! Current threads_connected = 149
//! You should raise max_connections
//! ```
//!
//! ```text
//! Issue:
//! There are too many joins without indexes.
//! Recommendation:
//! Adding indexes for the columns being used in the join conditions will greatly speed up table joins
//! Justification:
//! Table joins average: 1.75 per minute, this value should be less than 1 per hour
//! ```

use crate::tuner::{self, NAMES};

/// The title of tuning-primer's report.
const BANNER: &str = "MYSQL PERFORMANCE TUNING PRIMER";

/// True where one of the two begins: the title of tuning-primer, or an issue of the advisor.
pub(crate) fn is_head(lines: &[&str], at: usize) -> bool {
    lines[at].contains(BANNER) || is_issue(lines, at)
}

/// `Issue:` above a sentence, and `Recommendation:` below it.
fn is_issue(lines: &[&str], at: usize) -> bool {
    lines[at].trim() == "Issue:" && lines.get(at + 2).is_some_and(|line| line.trim() == "Recommendation:")
}

/// The lines of a text, with what tuning-primer prints of the connections as a client lists it in batch mode.
pub(crate) fn with_lists(lines: Vec<String>) -> Vec<String> {
    const VARIABLES: [(&str, &str); 1] = [("Current max_connections", "max_connections")];
    const STATUS: [(&str, &str); 2] = [
        ("Current threads_connected", "Threads_connected"),
        ("Historic max_used_connections", "Max_used_connections"),
    ];
    if !lines.iter().any(|line| line.contains(BANNER)) {
        return lines;
    }
    let number = |printed: &str| {
        lines.iter().find_map(|line| {
            let (name, value) = line.split_once(" = ")?;
            let is_number = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
            (name.trim() == printed && is_number).then_some(value)
        })
    };
    let list = |names: &[(&str, &str)]| -> Vec<String> {
        let row = |(printed, name): &(&str, &str)| Some(format!("{name}\t{}", number(printed)?));
        let rows: Vec<String> = names.iter().filter_map(row).collect();
        let head = (!rows.is_empty()).then(|| NAMES.to_owned());
        head.into_iter().chain(rows).collect()
    };
    let lists = [list(&VARIABLES), list(&STATUS)].concat();
    [lists, lines].concat()
}

/// What one of the two finds; None in a text of another program.
pub(crate) fn read(text: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    if lines.iter().any(|line| line.contains(BANNER)) {
        let found = lines.iter().filter(|line| is_advice(line)).map(|line| tuner::finding(line)).collect();
        return Some(tuner::listed("tuning-primer", found));
    }
    let issues = (0..lines.len()).filter(|at| is_issue(&lines, *at)).map(|at| issue(&lines[at..]));
    let issues: Vec<String> = issues.collect();
    (!issues.is_empty()).then(|| tuner::listed("the advisor of phpMyAdmin", issues))
}

/// True for a line of tuning-primer's that wants something done.
fn is_advice(line: &str) -> bool {
    const BEGIN: [&str; 6] = [
        "You should ",
        "You may ",
        "Perhaps ",
        "Consider ",
        "Increase ",
        "The number of used connections is ",
    ];
    BEGIN.iter().any(|begin| line.starts_with(begin))
}

/// An issue with the numbers by which it is one.
fn issue(lines: &[&str]) -> String {
    /// Lines of one issue at the most. By judgement: it has six.
    const LONGEST: usize = 12;
    let own = &lines[..lines.len().min(LONGEST)];
    let next = own.iter().skip(1).position(|line| *line == "Issue:").map_or(own.len(), |at| at + 1);
    let own = &own[..next];
    let numbers = own.iter().position(|line| *line == "Justification:").and_then(|at| own.get(at + 1));
    let numbers = numbers.map_or_else(String::new, |numbers| format!(" ({numbers})"));
    tuner::finding(&format!("{}{numbers}", own.get(1).copied().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use crate::part::Kind;
    use crate::{recognise, window};

    #[test]
    fn the_connections_of_tuning_primer_are_the_server_s_and_its_advice_is_its_own() {
        let text = "\t-- MYSQL PERFORMANCE TUNING PRIMER --\n\t     - By: somebody -\n\nMySQL Version 5.7.33-log x86_64\n\n\
                    Avg. qps = 312\nThreads Connected = 149\n\nSLOW QUERIES\nYour long_query_time seems to be fine\n\n\
                    MAX CONNECTIONS\nCurrent max_connections = 151\nCurrent threads_connected = 149\n\
                    Historic max_used_connections = 152\nThe number of used connections is 100% of the configured maximum.\n\
                    You should raise max_connections\n\nINNODB STATUS\nCurrent InnoDB data space = 31 G\n";
        let parts = recognise("x", text);
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::GlobalVariables, Kind::GlobalStatus, Kind::Tuner], "{parts:#?}");
        assert_eq!(
            parts[2].says[1..],
            [
                "The number of used connections is 100% of the configured maximum.",
                "You should raise max_connections"
            ]
        );
        let findings = spindoctor_rules::diagnose(&window(&parts)).findings;
        assert_eq!(findings[0].cause, "connections-exhausted");
    }

    #[test]
    fn issues_of_phpmyadmin_are_said_with_their_numbers() {
        let text = "Issue:\nThere are lots of rows being sorted.\nRecommendation:\nUse indexes.\nJustification:\n\
                    Sorted rows average: 5.89 per minute\n\nIssue:\nThe uptime is short.\nRecommendation:\nWait.\n";
        let parts = recognise("x", text);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::Tuner], "{parts:#?}");
        assert_eq!(
            parts[0].says[1..],
            [
                "There are lots of rows being sorted. (Sorted rows average: 5.89 per minute)",
                "The uptime is short."
            ]
        );
        let ticket = "Issue:\nIt is slow.\nSteps:\nLook at it.\n";
        assert!(recognise("x", ticket).iter().all(|part| part.kind == Kind::Unknown));
    }
}
