//! `--when`: a condition on a number, or one on statements that run (`statement ~ /UPDATE stock/ for 5 s`).
//!
//! The pattern is matched against the text of each statement that a session runs, as the server's list has it (1,024
//! characters at most), and against its shape without literals. Matching takes linear time, whatever the pattern.

use std::fmt;
use std::str::FromStr;

use regex::{Regex, RegexBuilder};
use spindoctor_model::mysql::ServerThread;
use spindoctor_sql::digest;

use crate::condition::Condition;

/// A pattern that is longer is refused: chosen, not derived.
const LONGEST_PATTERN: usize = 1_000;
/// What a pattern may become, in bytes: counted repetitions grow.
const LARGEST_PATTERN: usize = 256 << 10;
/// The time that a condition may ask for.
const LONGEST_S: f64 = 86_400.0;

/// What `record --when` takes.
#[derive(Debug, Clone)]
pub enum When {
    /// `Threads_running > 50`
    Number(Condition),
    /// `statement ~ /UPDATE stock/ for 5 s`
    Statement(StatementCondition),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim_start().strip_prefix("statement") {
            Some(rest) if rest.trim_start().starts_with('~') => text.parse().map(Self::Statement),
            _ => text.parse().map(Self::Number),
        }
    }
}

/// `statement ~ /PATTERN/ for TIME`: a session has run such a statement for so long.
#[derive(Debug, Clone)]
pub struct StatementCondition {
    pattern: Regex,
    for_s: f64,
}

impl StatementCondition {
    /// Whether a session runs such a statement, for long enough.
    pub fn holds(&self, thread: &ServerThread) -> bool {
        self.is_long_enough(thread) && thread.statement.as_deref().is_some_and(|text| self.matches(text))
    }

    /// Whether a session has done what it does for long enough.
    pub fn is_long_enough(&self, thread: &ServerThread) -> bool {
        thread.is_at_work() && thread.time_s >= self.for_s && thread.statement.is_some()
    }

    fn matches(&self, text: &str) -> bool {
        self.pattern.is_match(text) || self.pattern.is_match(&digest(text))
    }
}

impl FromStr for StatementCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what}; write statement ~ /PATTERN/ for TIME");
        let rest = text.trim().strip_prefix("statement").map(str::trim_start);
        let rest = rest.and_then(|rest| rest.strip_prefix('~')).map(str::trim_start);
        let rest = rest.ok_or_else(|| wrong("it is no condition on statements"))?;
        let pattern = rest.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
        let (pattern, after) = pattern.ok_or_else(|| wrong("the pattern does not stand between two /"))?;
        if pattern.is_empty() || pattern.len() > LONGEST_PATTERN {
            return Err(wrong(&format!("the pattern has to have 1 to {LONGEST_PATTERN} bytes")));
        }
        let built = RegexBuilder::new(pattern)
            .size_limit(LARGEST_PATTERN)
            .dfa_size_limit(LARGEST_PATTERN)
            .build()
            .map_err(|error| wrong(error.to_string().lines().last().unwrap_or_default()))?;
        let for_s = match after.trim() {
            "" => 0.0,
            after => after.strip_prefix("for ").and_then(seconds).ok_or_else(|| {
                wrong(&format!("{after:?} is no time; use ms, s, m or h, up to a day: for 5 s"))
            })?,
        };
        Ok(Self { pattern: built, for_s })
    }
}

impl fmt::Display for StatementCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statement ~ /{}/", self.pattern)?;
        if self.for_s > 0.0 {
            write!(f, " for {} s", self.for_s)?;
        }
        Ok(())
    }
}

/// `5 s`, `500ms`
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let factor = match text[digits..].trim_start() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    let seconds = text[..digits].parse::<f64>().ok()? * factor;
    (0.0..=LONGEST_S).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(statement: &str, time_s: f64) -> ServerThread {
        ServerThread {
            is_connection: true,
            command: "Query".into(),
            time_s,
            statement: Some(statement.to_owned()),
            ..ServerThread::default()
        }
    }

    fn condition(text: &str) -> StatementCondition {
        match text.parse() {
            Ok(When::Statement(condition)) => condition,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_condition_on_statements_is_read_as_it_is_written() {
        for (text, shown) in [
            ("statement ~ /UPDATE stock/ for 5 s", "statement ~ /UPDATE stock/ for 5 s"),
            (" statement~/a/b/ for 500ms ", "statement ~ /a/b/ for 0.5 s"),
            ("statement ~ /(?i)sleep/", "statement ~ /(?i)sleep/"),
            ("statement ~ /x/ for 2 min", "statement ~ /x/ for 120 s"),
        ] {
            assert_eq!(condition(text).to_string(), shown);
        }
        assert!(matches!("Threads_running > 5".parse(), Ok(When::Number(_))));
        for (text, reason) in [
            ("statement ~ UPDATE", "between two /"),
            ("statement ~ /", "between two /"),
            ("statement ~ //", "1 to 1000 bytes"),
            ("statement ~ /(/", "unclosed group"),
            ("statement ~ /(a{1000}){1000}/", "exceeds size limit"),
            ("statement ~ /a/ for ever", "is no time"),
            ("statement ~ /a/ for 5", "is no time"),
            ("statement ~ /a/ for 2000000 s", "is no time"),
            ("statement ~ /a/5 s", "is no time"),
            ("statements > 5 kg", "is not a number"),
        ] {
            let refused = text.parse::<When>().unwrap_err();
            assert!(refused.contains(reason) && refused.lines().count() == 1, "{text}: {refused}");
        }
        assert!(format!("statement ~ /{}/", "a".repeat(1_001)).parse::<When>().is_err());
    }

    #[test]
    fn a_statement_is_matched_as_it_is_and_without_its_literals() {
        let update = runs("UPDATE  stock SET n = 7 WHERE id = 12", 6.0);
        for text in ["statement ~ /id = 12$/ for 5 s", "statement ~ /UPDATE stock SET n = \\?/ for 6 s"] {
            assert!(condition(text).holds(&update), "{text}");
        }
        assert!(!condition("statement ~ /update/").holds(&update));
        assert!(!condition("statement ~ /UPDATE/ for 7 s").holds(&update), "not for long enough yet");
        let rests = ServerThread { command: "Sleep".into(), ..runs("UPDATE stock", 9.0) };
        assert!(!condition("statement ~ /UPDATE/").holds(&rests));
    }
}
