//! Clients that poll for a row that nobody has locked: `SELECT ... FOR UPDATE` with SKIP LOCKED or NOWAIT, sent again at once where it
//! found none.
//!
//! In: the summary of statements. Out: the polls of one way, with what they found and cost.

use spindoctor_model::{Evidence, Remedy, Window};
use spindoctor_statements::{Grown, grown};

/// Polls a second that find nothing, from which on clients do not pause between them: ten workers that pause for a tenth of a second
/// send as many. Chosen.
const STORM_PER_S: f64 = 100.0;

/// Share of the polls that find nothing, from which on most are for nothing: below it a queue is worked off. Chosen.
const IN_VAIN: f64 = 0.5;

const SOURCE: &str = "events_statements_summary_by_digest";

/// How a statement passes over rows that others have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It leaves them out.
    SkipLocked,
    /// It ends with an error (3572; MariaDB 1205).
    Nowait,
}

impl How {
    /// None for a statement that waits for locks, or takes none.
    pub(crate) fn from_statement(statement: &str) -> Option<Self> {
        const LOCKS: [&str; 3] = ["FOR UPDATE", "FOR SHARE", "IN SHARE MODE"];
        let text = statement.to_ascii_uppercase();
        let (_, behind) = LOCKS.iter().find_map(|lock| text.split_once(*lock))?;
        let words: Vec<&str> =
            behind.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
        if words.contains(&"NOWAIT") {
            return Some(Self::Nowait);
        }
        words.windows(2).any(|pair| pair == ["SKIP", "LOCKED"]).then_some(Self::SkipLocked)
    }
}

/// The polls of one way.
pub(crate) struct Poll<'w> {
    how: How,
    /// The statement that finds nothing most often.
    most: Grown<'w>,
    /// Polls a second.
    per_s: f64,
    /// Of these, those that found nothing, at least: one that takes several rows counts as several.
    pub(crate) in_vain_per_s: f64,
    /// Statement time of all polls, without that in locks, seconds.
    pub(crate) time_s: f64,
}

impl<'w> Poll<'w> {
    /// Polls that come without a pause and find nothing; none where there are no such.
    pub(crate) fn storm(window: &'w Window, how: How) -> Option<Self> {
        let change = window.change(|s| &s.server.digests)?;
        let mut polls = grown(change.first, change.last, change.seconds);
        polls.retain(|one| How::from_statement(&one.digest.text) == Some(how));
        let most = *polls.iter().max_by(|a, b| in_vain(a, how).total_cmp(&in_vain(b, how)))?;
        let per_s = |of: &dyn Fn(&Grown<'_>) -> f64| polls.iter().map(of).sum::<f64>() / change.seconds;
        let found = Self {
            how,
            most,
            per_s: per_s(&|one| one.by.executions),
            in_vain_per_s: per_s(&|one| in_vain(one, how)),
            time_s: polls.iter().map(|one| (one.by.total_ns - one.by.lock_ns).max(0.0) / 1e9).sum(),
        };
        let is_storm = found.in_vain_per_s >= STORM_PER_S && found.in_vain_ratio() >= IN_VAIN;
        is_storm.then_some(found)
    }

    /// Share of the polls that found nothing, 0 to 1.
    pub(crate) fn in_vain_ratio(&self) -> f64 {
        (self.in_vain_per_s / self.per_s.max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// The statement that finds nothing most often.
    pub(crate) fn statement(&self) -> &'w str {
        spindoctor_sql::server_digest(&self.most.digest.text)
    }

    /// The mechanism.
    pub(crate) fn why(&self) -> String {
        why(self.how).to_owned()
    }

    /// What it rests on.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let by = &self.most.by;
        vec![
            Evidence::new("statement that polls", self.most.digest.text.clone(), "", SOURCE),
            Evidence::new("polls", self.per_s, "1/s", SOURCE),
            Evidence::new("polls that found nothing", self.in_vain_ratio(), "ratio", SOURCE)
                .expected(format!("< {IN_VAIN}")),
            Evidence::new("rows examined by each", by.rows_examined / by.executions.max(1.0), "rows", SOURCE),
        ]
    }
}

/// Executions that found no free row.
fn in_vain(one: &Grown<'_>, how: How) -> f64 {
    let by = &one.by;
    match how {
        How::Nowait => by.errors,
        How::SkipLocked => (by.executions - by.errors - by.rows_sent - by.rows_affected).max(0.0),
    }
}

/// What such polls cost.
pub(crate) fn why(how: How) -> &'static str {
    match how {
        How::SkipLocked => {
            "Clients ask for work in a loop without a pause. Each poll that finds no free row costs a round trip, the parsing, and the \
             reading of the rows that others have locked."
        }
        How::Nowait => {
            "Clients ask for a locked row in a loop without a pause. Each try ends with an error at once and costs a round trip and the \
             parsing; the row is free no sooner for it."
        }
    }
}

/// What ends them, the best first.
pub(crate) fn remedies() -> [Remedy; 2] {
    [
        Remedy {
            statement: "In the clients: a pause after each poll that found nothing, 100 ms at first, doubled up to some seconds".into(),
            why: "Work that arrives waits for one pause at most, and the server has no work with the polls meanwhile.".into(),
            dynamic: true,
            risk: "A change of the application.".into(),
            undo: String::new(),
        },
        Remedy {
            statement: "An index on the columns of the queue's WHERE and ORDER BY, LIMIT 1 in each poll, and COMMIT as soon as the row is \
                        marked as taken"
                .into(),
            why: "Each poll then reads and locks the one row that it takes. Without the index it reads the table, and locks what it reads."
                .into(),
            dynamic: true,
            risk: "The index costs disk and write time.".into(),
            undo: "DROP INDEX; INVISIBLE (MySQL 8.0) or IGNORED (MariaDB 10.6) first shows whether it is missed.".into(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    const POLL: &str =
        "SELECT `id` FROM `jobs` WHERE `state` = ? ORDER BY `id` LIMIT ? FOR UPDATE SKIP LOCKED";

    #[test]
    fn what_passes_over_locked_rows_is_seen_at_its_end_or_within() {
        for (statement, how) in [
            (POLL, Some(How::SkipLocked)),
            ("select * from t where id = 1 for update nowait;", Some(How::Nowait)),
            ("SELECT a FROM t FOR SHARE OF `t` NOWAIT", Some(How::Nowait)),
            ("SELECT a FROM t LOCK IN SHARE MODE NOWAIT", Some(How::Nowait)),
            (
                "UPDATE t SET o = ? WHERE id IN ( SELECT id FROM ( SELECT id FROM t FOR UPDATE SKIP LOCKED ) AS x )",
                Some(How::SkipLocked),
            ),
            ("SELECT a FROM t FOR UPDATE", None),
            ("ALTER TABLE t NOWAIT ADD c INT", None),
            ("SELECT nowait FROM t", None),
        ] {
            assert_eq!(How::from_statement(statement), how, "{statement}");
        }
    }

    #[test]
    fn a_queue_that_is_worked_off_is_no_storm_nor_are_a_few_polls() {
        let found = |per_s, sent| {
            let window = Build::busy("8.0.36").digest(POLL, per_s, 200.0, 1.0, sent).window();
            Poll::storm(&window, How::SkipLocked).map(|polls| polls.in_vain_per_s.round())
        };
        assert_eq!(found(4000.0, 0.0), Some(4000.0));
        assert_eq!(found(4000.0, 0.25), Some(3000.0));
        assert_eq!(found(4000.0, 0.9), None);
        assert_eq!(found(50.0, 0.0), None);
        let nowait = "SELECT `id` FROM `jobs` WHERE `id` = ? FOR UPDATE NOWAIT";
        let window = Build::busy("8.0.36").failing_digest(nowait, 2000.0).window();
        assert!(Poll::storm(&window, How::Nowait).is_some_and(|polls| polls.in_vain_ratio() == 1.0));
        assert!(Poll::storm(&window, How::SkipLocked).is_none());
    }
}
