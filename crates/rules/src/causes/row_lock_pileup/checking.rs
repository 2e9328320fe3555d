//! A queue for one row that is so long that InnoDB's checks of it take the CPU.

use spindoctor_model::{Evidence, Finding, Remedy, Window, number};

use super::CAUSE;
use super::remedies::{shorten_transactions, shorter_timeout};
use crate::captured::Captured;
use crate::draft::Draft;
use crate::spin_samples::{self, SpinSamples};

/// Functions that go through all locks on a row, and that look for rings (lock/lock0lock.cc, lock/lock0wait.cc).
const CHECKS: &[&str] = &[
    "lock_rec_has_to_wait_in_queue",
    "lock_rec_other_has_conflicting",
    "lock_rec_other_has_expl_req",
    "DeadlockChecker::search",
    "DeadlockChecker::check_and_resolve",
    "DeadlockChecker::get_first_lock",
    "Deadlock::check_and_resolve",
    "Deadlock::find_cycle",
    "lock_deadlock_check_and_resolve",
    "lock_deadlock_search",
    "lock_deadlock_recursive",
];

/// From this part on, 0 to 1, the checks are the cost and not the locks. By judgement: where a few transactions want a row they take
/// some hundredths of the CPU at most.
const CHECKING: f64 = 0.20;

/// What the checks take.
pub(super) struct Checking {
    share: f64,
    /// `62 % of the server's CPU samples`
    said: String,
    evidence: Vec<Evidence>,
}

impl Checking {
    /// None where they take little.
    pub(super) fn from_window(window: &Window) -> Option<Self> {
        let reading = "in checks of a row's queue";
        let is_check = |name: &str| CHECKS.contains(&name);
        let found = match Captured::from_window(window, is_check) {
            Some(captured) => Self {
                share: captured.share,
                said: captured.said(),
                evidence: captured.evidence(reading, CHECKING),
            },
            None => {
                let samples = SpinSamples::from_window(window).ok()?;
                let profile = samples.profile();
                let share = samples.share_of(|sample| spin_samples::names(profile, sample).any(is_check));
                let said = format!("{} of the server's CPU samples", number::whole_percent(share));
                let part = Evidence::new(reading, share, "ratio", "CPU samples");
                Self { share, said, evidence: vec![part.expected(format!("< {CHECKING}"))] }
            }
        };
        (found.share >= CHECKING).then_some(found)
    }

    /// What is to be added to why sessions wait.
    pub(super) fn why(&self) -> String {
        format!(
            "The queue at one row is so long that checking it takes {}: for each new wait InnoDB goes through all that wait for the row, and \
             looks for a deadlock among them (innodb_deadlock_detect), while the others wait for the list of locks.",
            self.said
        )
    }

    /// The part, and the functions.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        self.evidence.clone()
    }
}

/// What captured stacks or CPU samples show where no list has those that wait.
pub(super) fn captured(window: &Window) -> Option<Finding> {
    let checking = Checking::from_window(window).filter(|_| window.is_given())?;
    Some(
        Draft::new(
            &CAUSE,
            checking.share,
            format!("A queue of transactions wants one row, and checking it takes {}", checking.said),
        )
        .why(checking.why())
        .evidence_all(checking.evidence().into_iter())
        .remedy(shorten_transactions())
        .remedies(shorter_queue())
        .remedies(shorter_timeout(window))
        .elsewhere()
        .finding(),
    )
}

/// What makes the checks cheaper.
pub(super) fn shorter_queue() -> [Remedy; 2] {
    [
        Remedy {
            statement: "Let fewer sessions change that row at a time: a smaller pool, a queue in the application, or innodb_thread_concurrency"
                .into(),
            why: "The work of the checks grows with the square of those that wait for the row.".into(),
            dynamic: true,
            risk: "Clients wait in the pool instead.".into(),
            undo: String::new(),
        },
        Remedy {
            statement: "SET GLOBAL innodb_deadlock_detect = OFF (MySQL 5.7.15, MariaDB 10.2.6 and later)".into(),
            why: "InnoDB then does not look for deadlocks at each wait.".into(),
            dynamic: true,
            risk: "A deadlock then lasts until innodb_lock_wait_timeout is over: set that to a few seconds first.".into(),
            undo: "SET GLOBAL innodb_deadlock_detect = ON".into(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    const SEARCH: &[&str] =
        &["DeadlockChecker::search", "lock_rec_lock", "row_search_mvcc", "dispatch_command"];

    #[test]
    fn captured_samples_in_the_checks_of_a_queue_are_a_hot_row() {
        let of = |share| {
            let window = Build::busy("5.7.44").running(1_000, share, SEARCH).captured().window();
            crate::diagnose(&window).findings.into_iter().find(|finding| finding.cause == CAUSE.name)
        };
        let finding = of(0.7).unwrap();
        assert!(finding.headline.ends_with("takes 70 % of the server's CPU samples"), "{}", finding.headline);
        assert!(
            finding.remedies.iter().any(|remedy| remedy.statement.contains("innodb_deadlock_detect = OFF"))
        );
        assert_eq!(of(0.1), None);
    }

    #[test]
    fn a_live_server_whose_sessions_do_not_wait_gets_no_finding_of_it() {
        let window = Build::busy("5.7.44").running(1_000, 0.7, SEARCH).window();
        assert_eq!(captured(&window), None);
        assert!(Checking::from_window(&window).is_some());
        assert!(crate::diagnose(&window).findings.iter().all(|finding| finding.cause != CAUSE.name));
    }
}
