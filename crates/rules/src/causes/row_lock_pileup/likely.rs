//! Who most likely has the lock, where nothing that was captured names it: an idle transaction that is as old as the waits.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::{Remedy, Sample, number};

use super::queue::LONG_WAIT_S;
use crate::killing::{self, LOOK_FIRST};
use crate::sessions;

/// Ages are printed in whole seconds.
const ROUNDED_S: f64 = 1.0;

/// The transaction that most likely has the lock, of a list that somebody captured.
pub(super) struct Likely<'w> {
    sample: &'w Sample,
    transaction: &'w Transaction,
    connection_id: u64,
    /// How many other transactions may have it.
    others: u64,
}

impl<'w> Likely<'w> {
    /// Of those that are idle the one with the most rows locked, and of these the oldest. None where one that is at work has more.
    pub(super) fn from_sample(sample: &'w Sample, longest_s: f64) -> Option<Self> {
        let all = sample.server.transactions.value()?;
        let waiting = || all.iter().filter(|one| one.state == "LOCK WAIT");
        let waited_s = waiting().filter_map(|one| one.waited_s).fold(longest_s, f64::max);
        // A transaction is no younger than its wait. One that is idle for a moment is in the middle of its work.
        let least_s = match waited_s > 0.0 {
            true => waited_s,
            false => waiting().map(|one| one.age_s).fold(0.0, f64::max),
        };
        let least_s = least_s.max(LONG_WAIT_S);
        let has_locks = |one: &Transaction| one.rows_locked > 0 || one.rows_modified > 0;
        // A list may have no such columns.
        let is_counted = all.iter().any(has_locks);
        let can = |one: &&Transaction| {
            one.state == "RUNNING"
                && one.age_s + ROUNDED_S >= least_s
                && (has_locks(one) || !is_counted)
                && !is_of_the_server(sample, one)
        };
        let candidates: Vec<&Transaction> = all.iter().filter(can).collect();
        let most = candidates.iter().map(|one| one.rows_locked).max()?;
        let transaction = candidates
            .iter()
            .copied()
            .filter(|one| one.rows_locked == most && is_idle(sample, one))
            .max_by(|one, other| one.age_s.total_cmp(&other.age_s))?;
        let others = candidates.len() as u64 - 1;
        Some(Self { sample, transaction, connection_id: transaction.connection_id?, others })
    }

    /// `; most likely connection 7 has the lock: ...`
    pub(super) fn headline(&self) -> String {
        let rows = match self.transaction.rows_locked {
            0 => String::new(),
            rows => format!(" with {}", number::counted(rows, "row locked", "rows locked")),
        };
        let others = match self.others {
            0 => String::new(),
            others => {
                format!(
                    "; {} may have it",
                    number::counted(others, "other transaction", "other transactions")
                )
            }
        };
        format!(
            "; most likely connection {} has the lock: it is idle in a transaction that is open for {}{rows}{others}",
            self.connection_id,
            number::duration(self.transaction.age_s)
        )
    }

    pub(super) fn why(&self) -> &'static str {
        match self.others {
            0 => {
                "What was given does not say who has the lock. Of the transactions that have locks this one alone is not waiting and as \
                 old as the longest wait; what it has locked stays locked while it is idle."
            }
            _ => {
                "What was given does not say who has the lock. Of the transactions that are not waiting and as old as the longest wait \
                 this one has the most rows locked, and they stay locked while it is idle. sys.innodb_lock_waits, or the whole SHOW \
                 ENGINE INNODB STATUS with innodb_status_output_locks = ON, names the holder."
            }
        }
    }

    /// Ending it, where that frees anybody.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        let why = match self.others {
            0 => {
                "It is most likely the holder: no other transaction with locks is as old as the longest wait."
            }
            _ => "It is the likeliest of several: look at sys.innodb_lock_waits first, where there is time.",
        };
        let server = &self.sample.server;
        let is_there = !killing::is_unlisted(server, self.connection_id);
        (is_there && killing::frees(server, self.connection_id))
            .then(|| sessions::ending(server, self.connection_id, &format!("{LOOK_FIRST}{why}")))
    }
}

/// True where a list of sessions says that it rests; without its session, where it has no statement.
fn is_idle(sample: &Sample, transaction: &Transaction) -> bool {
    let session = transaction.connection_id.and_then(|id| sessions::session(&sample.server, id));
    transaction.statement.is_none() && session.is_none_or(|session| !session.is_at_work())
}

/// True for an applier and other threads of the server itself, which begin transactions and do not forget them.
fn is_of_the_server(sample: &Sample, transaction: &Transaction) -> bool {
    let session = transaction.connection_id.and_then(|id| sessions::session(&sample.server, id));
    session.is_some_and(|session| !session.is_connection)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// What is said of a list that somebody captured: connection 20 waits for 40 s, and these transactions are open beside it, each with
    /// its connection, its age, its rows locked and whether it is idle.
    fn found(open: &[(u64, f64, u64, bool)]) -> Finding {
        let open = open.to_vec();
        let window = Build::busy("8.0.36").without_profile().captured().each(move |at_s, server, _| {
            let mut threads = vec![session(20, "Query", "updating", "UPDATE t SET a = 1")];
            let mut transactions = vec![transaction(20, "LOCK WAIT", 41.0)];
            transactions[0].waited_s = Some(40.0);
            transactions[0].rows_locked = 1;
            for &(id, age_s, rows_locked, is_idle) in &open {
                threads.push(match is_idle {
                    true => session(id, "Sleep", "", ""),
                    false => session(id, "Query", "updating", "UPDATE s SET b = 2"),
                });
                let one = transaction(id, "RUNNING", age_s);
                let statement = (!is_idle).then(|| "UPDATE s SET b = 2".to_owned());
                transactions.push(Transaction { rows_locked, statement, ..one });
            }
            server.threads = answer(at_s, threads);
            server.transactions = answer(at_s, transactions);
        });
        let mut window = window.window();
        window.samples.truncate(1);
        let findings = crate::diagnose(&window).findings;
        findings.into_iter().find(|finding| finding.cause == "row-lock-pileup").expect("it fires")
    }

    fn kills(finding: &Finding) -> Vec<&str> {
        let statements = finding.remedies.iter().map(|remedy| remedy.statement.as_str());
        statements.filter(|statement| statement.starts_with("KILL")).collect()
    }

    #[test]
    fn the_idle_transaction_that_is_as_old_as_the_wait_is_named_as_likely() {
        let finding = found(&[(7, 63.0, 0, true), (8, 9.0, 90, true)]);
        assert!(
            finding.headline.ends_with(
                "; most likely connection 7 has the lock: it is idle in a transaction that is open for 63 s"
            ),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("this one alone"), "{}", finding.why);
        assert_eq!(kills(&finding), ["KILL 7"]);
    }

    #[test]
    fn of_several_it_is_the_oldest_of_those_with_the_most_rows_and_the_others_are_counted() {
        let finding =
            found(&[(6, 90.0, 12, true), (7, 80.0, 40, true), (8, 70.0, 40, true), (9, 95.0, 3, false)]);
        assert!(finding.headline.contains("most likely connection 7 has the lock"), "{}", finding.headline);
        assert!(finding.headline.contains("80 s with 40 rows locked; "), "{}", finding.headline);
        assert!(finding.headline.ends_with("; 3 other transactions may have it"), "{}", finding.headline);
        assert!(finding.remedies[0].why.contains("sys.innodb_lock_waits"), "{:?}", finding.remedies);
    }

    #[test]
    fn nobody_is_named_where_one_at_work_has_more_or_none_is_as_old() {
        for open in [
            &[(7, 63.0, 12, true), (8, 63.0, 5_000, false)][..],
            &[(7, 30.0, 12, true)],
            &[(7, 63.0, 0, false)],
            &[],
        ] {
            let finding = found(open);
            assert!(!finding.headline.contains("likely"), "{}", finding.headline);
            assert_eq!(kills(&finding), Vec::<&str>::new());
        }
    }
}
