//! `thread-concurrency`: how many threads may be inside InnoDB at once.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::cpu_saturated;
use crate::sessions::mean;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "thread-concurrency",
    title: "how many threads are inside InnoDB",
    cures: &[],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// The cause that a limit may ease.
const CAUSE: &str = cpu_saturated::CAUSE.name;

const VARIABLE: &str = "innodb_thread_concurrency";

/// From so many threads waiting for a ticket on, on average, the limit holds back work.
const QUEUED: f64 = 1.0;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let version = examined.version()?;
    let window = examined.window;
    if version.mariadb_at_least(10, 5, 0) {
        return leave("MariaDB 10.5 and later have no such limit");
    }
    let limit = window.need_variable(VARIABLE)?;
    if let Some(finding) = examined.finding(CAUSE) {
        return match examined.remedies_of(finding, &[VARIABLE]) {
            Some(proposal) => Ok(Advice::Propose(vec![proposal])),
            None => leave("the CPUs are full, but not so crowded that a limit would ease it"),
        };
    }
    if limit == 0.0 {
        return leave("there is no limit, and the CPUs are not crowded");
    }
    window.need(|s| &s.server.innodb_status)?;
    let queued = window
        .all(|s| &s.server.innodb_status)
        .into_iter()
        .filter_map(|(_, status)| status.row_operations.queries_queued)
        .map(|queued| queued as f64);
    let queued = mean(queued);
    match examined.change(VARIABLE, "0").filter(|_| queued >= QUEUED) {
        None => leave(format!("the limit of {limit:.0} holds nobody back")),
        Some(change) => Ok(Advice::Propose(vec![Proposal::setting(
            vec![change],
            format!(
                "{queued:.1} threads wait for a ticket to InnoDB behind a limit of {limit:.0}; the CPUs are not full."
            ),
            "More threads inside contend for its latches: watch the spin share.",
        )])),
    }
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::innodb_status::RowOperations;
    use spindoctor_model::{InnodbStatus, Window};

    use super::*;
    use crate::testing::{Build, answer};

    fn limited(queued: u64) -> Build {
        Build::busy("8.0.36").variable(VARIABLE, "8").each(move |at_s, server, _| {
            let row_operations = RowOperations { queries_queued: Some(queued), ..RowOperations::default() };
            server.innodb_status = answer(at_s, InnodbStatus { row_operations, ..InnodbStatus::default() });
        })
    }

    pub(in crate::proposals) fn fires() -> Window {
        limited(12).window()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        limited(0).window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        Build::busy("8.0.36")
            .variable(VARIABLE, "8")
            .each(|_, server, _| server.innodb_status = spindoctor_model::Reading::NotAsked)
            .window()
    }

    #[test]
    fn a_crowd_on_full_cpus_gets_the_limit_that_the_finding_names() {
        let window =
            Build::busy("8.0.36").variable(VARIABLE, "0").runs(4.0, 100.0).host_cpu(4.0, 0.0).window();
        let plan = super::super::plan(&window);
        let proposal = plan.proposals.iter().find(|proposal| proposal.family == FAMILY.name).unwrap();
        assert_eq!(proposal.remedy.statement, "SET GLOBAL innodb_thread_concurrency = 16");
        assert_eq!(proposal.cause.as_deref(), Some(CAUSE));
    }
}
