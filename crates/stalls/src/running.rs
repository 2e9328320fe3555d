//! [`StallKind::StatementRan`](spindoctor_model::StallKind): a statement runs that the user watches for, by each list of
//! sessions.

use spindoctor_model::RecordedSample;
use spindoctor_model::mysql::ServerThread;
use spindoctor_sql::digest;

use super::Sight;
use crate::when::StatementCondition;

/// Of a list so many statements are matched: those that run for long enough, in the order of the list. Five hundred of 1,024
/// characters take a hundredth of a second.
const MOST_MATCHED: usize = 500;
/// A statement is shown with so many characters of its shape.
const SHOWN: usize = 160;

/// Watches what sessions run.
#[derive(Debug)]
pub(super) struct Running {
    conditions: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    condition: StatementCondition,
    holds: Option<Sight>,
    sessions: u64,
}

impl Running {
    pub(super) fn new(conditions: Vec<StatementCondition>) -> Self {
        let watched = |condition| Watched { condition, holds: None, sessions: 0 };
        Self { conditions: conditions.into_iter().map(watched).collect() }
    }

    pub(super) fn begin_segment(&mut self) {
        for watched in &mut self.conditions {
            (watched.holds, watched.sessions) = (None, 0);
        }
    }

    /// What a sample's list of sessions shows; where it has none, all is as it was.
    pub(super) fn count(&mut self, recorded: &RecordedSample) -> Option<Sight> {
        if let Some((at_s, threads)) = recorded.sample.server.threads.timed() {
            for watched in &mut self.conditions {
                watched.look(at_s, threads);
            }
        }
        self.conditions.iter().find_map(|watched| watched.holds.clone())
    }

    /// Each condition that holds, and how many sessions run such a statement.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (String, u64)> {
        let holding = self.conditions.iter().filter(|watched| watched.holds.is_some());
        holding.map(|watched| (watched.condition.to_string(), watched.sessions))
    }
}

impl Watched {
    fn look(&mut self, at_s: f64, threads: &[ServerThread]) {
        let long = threads.iter().filter(|thread| self.condition.is_long_enough(thread));
        let mut matching = long.take(MOST_MATCHED).filter(|thread| self.condition.holds(thread));
        let Some(first) = matching.next() else {
            (self.holds, self.sessions) = (None, 0);
            return;
        };
        self.sessions = 1 + matching.count() as u64;
        self.holds.get_or_insert_with(|| Sight { began_s: at_s, because: because(&self.condition, first) });
    }
}

/// What fired, without its literals: who reads of an event need not be one who may read the data.
fn because(condition: &StatementCondition, thread: &ServerThread) -> String {
    let shape = digest(thread.statement.as_deref().unwrap_or_default());
    let mut shown: String = shape.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() < shape.len() {
        shown.push_str("...");
    }
    let who = thread.connection_id.map_or_else(|| "a session".to_owned(), |id| format!("connection {id}"));
    format!("{condition}: {who} for {:.0} s: {shown}", thread.time_s)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Reading, Sample};

    use super::*;
    use crate::when::When;

    fn running(condition: &str) -> Running {
        match condition.parse() {
            Ok(When::Statement(condition)) => Running::new(vec![condition]),
            other => panic!("{other:?}"),
        }
    }

    fn list(at_s: f64, statements: &[(&str, f64)]) -> RecordedSample {
        let thread = |(id, &(statement, time_s)): (usize, &(&str, f64))| ServerThread {
            connection_id: Some(id as u64 + 10),
            is_connection: true,
            command: "Query".into(),
            time_s,
            statement: Some(statement.to_owned()),
            ..ServerThread::default()
        };
        let value = statements.iter().enumerate().map(thread).collect();
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value };
        RecordedSample { sample, ..RecordedSample::default() }
    }

    #[test]
    fn a_statement_that_is_watched_for_is_seen_without_its_literals_and_counted_until_it_is_gone() {
        let mut running = running("statement ~ /UPDATE stock/ for 5 s");
        let secret = "UPDATE stock SET owner = 'secret' WHERE id = 4711";
        assert_eq!(running.count(&list(1.0, &[("SELECT 1", 9.0), (secret, 4.0)])), None);
        let seen = running.count(&list(2.0, &[("SELECT 1", 9.0), (secret, 5.0)])).unwrap();
        assert_eq!(
            (seen.began_s, seen.because.as_str()),
            (
                2.0,
                "statement ~ /UPDATE stock/ for 5 s: connection 11 for 5 s: \
                 UPDATE stock SET owner = ? WHERE id = ?"
            )
        );
        assert_eq!(running.count(&list(3.0, &[(secret, 6.0), (secret, 8.0)])), Some(seen.clone()));
        let sessions: Vec<_> = running.sessions().collect();
        assert_eq!(sessions, [("statement ~ /UPDATE stock/ for 5 s".to_owned(), 2)]);
        assert_eq!(running.count(&RecordedSample::default()), Some(seen), "no list: nobody knows");
        assert_eq!(running.count(&list(4.0, &[])), None);
        assert_eq!(running.sessions().count(), 0);
    }

    #[test]
    fn what_is_shown_and_what_is_matched_are_bounded() {
        let mut running = running("statement ~ /x/");
        let long = format!("SELECT {}", "x, ".repeat(300));
        let seen = running.count(&list(1.0, &vec![(long.as_str(), 1.0); 700])).unwrap();
        assert!(seen.because.len() < 250 && seen.because.ends_with("..."), "{}", seen.because);
        assert_eq!(running.sessions().next().map(|(_, sessions)| sessions), Some(500));
    }
}
