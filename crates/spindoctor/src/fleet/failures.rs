//! The servers that did not answer, and why: counted by reason, each server named, those with the same reason together.

use std::fmt::Write as _;
use std::time::Duration;

use spindoctor_fleet::failure::Failures;

use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// Columns of a line of names.
const WIDTH: usize = 100;

/// How a run ended.
pub struct Outcome<'a> {
    /// The names of all servers.
    pub names: &'a [String],
    /// How many answered.
    pub answered: usize,
    /// Those that did not.
    pub failures: &'a Failures,
    /// Those that were never asked.
    pub not_asked: &'a [usize],
    /// How long it took.
    pub took: Duration,
}

/// Nothing where everybody answered.
pub fn summary(outcome: &Outcome<'_>) -> String {
    let Outcome { names, answered, failures, not_asked, took } = outcome;
    if failures.is_empty() && not_asked.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "spindoctor: {} of {} answered in {}",
        number::plain(*answered as f64),
        number::counted(names.len() as u64, "server", "servers"),
        number::duration(took.as_secs_f64())
    );
    let mut reasons: Vec<String> = failures
        .by_reason()
        .iter()
        .map(|(reason, count)| format!("{} {}", reason.name(), number::plain(*count as f64)))
        .collect();
    if !not_asked.is_empty() {
        reasons.push(format!("not asked {}", number::plain(not_asked.len() as f64)));
    }
    let _ = writeln!(text, "; {}", reasons.join(", "));
    for (reason, error, servers) in failures.alike() {
        let _ = writeln!(text, "{}: {}", reason.name(), safe(error));
        text.push_str(&listed(names, &servers, "    ", WIDTH));
    }
    if !not_asked.is_empty() {
        text.push_str("not asked\n");
        text.push_str(&listed(names, not_asked, "    ", WIDTH));
    }
    text
}

/// Names with commas between, in lines of a width.
pub fn listed(names: &[String], servers: &[usize], indent: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), indent.to_owned());
    for (at, &server) in servers.iter().enumerate() {
        let comma = if at + 1 < servers.len() { "," } else { "" };
        let word = format!("{}{comma}", safe(&names[server]));
        if line.len() > indent.len() && line.len() + 1 + word.len() > width {
            text.push_str(line.trim_end());
            text.push('\n');
            line = indent.to_owned();
        }
        line.push_str(&word);
        line.push(' ');
    }
    text.push_str(line.trim_end());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use spindoctor_fleet::failure::{Failure, Reason};

    use super::*;

    #[test]
    fn each_server_is_named_under_its_trouble() {
        let names: Vec<String> = (1..=40).map(|at| format!("db{at}.example:3306")).collect();
        let mut failures = Failures::default();
        for server in [30, 7] {
            failures.add(server, &Failure::connect("connection refused: nothing listens there"));
        }
        failures.add(3, &Failure::new(Reason::Query, "error 1146: Table 'a\u{1b}.b' doesn't exist"));
        let text = summary(&Outcome {
            names: &names,
            answered: 35,
            failures: &failures,
            not_asked: &[38, 39],
            took: Duration::from_millis(1300),
        });
        assert_eq!(
            text,
            "spindoctor: 35 of 40 servers answered in 1.3 s; connect 2, query 1, not asked 2\n\
             connect: connection refused: nothing listens there\n    db8.example:3306, db31.example:3306\n\
             query: error 1146: Table 'a\\u{1b}.b' doesn't exist\n    db4.example:3306\n\
             not asked\n    db39.example:3306, db40.example:3306\n"
        );
    }

    #[test]
    fn long_lists_are_wrapped_and_whole() {
        let names: Vec<String> = (1..=40).map(|at| format!("db{at}.example:3306")).collect();
        let all: Vec<usize> = (0..40).collect();
        let text = listed(&names, &all, "    ", 60);
        assert!(text.lines().all(|line| line.len() <= 60 && line.starts_with("    ")), "{text}");
        assert_eq!(text.matches("db").count(), 40);
    }

    #[test]
    fn nothing_is_said_where_everybody_answered() {
        let names = vec!["db1".to_owned()];
        let failures = Failures::default();
        let outcome =
            Outcome { names: &names, answered: 1, failures: &failures, not_asked: &[], took: Duration::ZERO };
        assert_eq!(summary(&outcome), "");
    }
}
