//! Window to proposals: what this server's readings call for, and what was checked and needs no change. Pure.
//!
//! In: a [`Window`]. Out: a [`Plan`]. Each family of cures has a file of its own; [`FAMILIES`] names them all, in the
//! order in which they are shown. A family takes its values from the causes' remedies and from the numbers that the
//! causes are judged by ([`crate::commit_spin`], the latch spin): there is no second copy of a formula. Only a trial
//! shows whether a proposal helps.

mod adaptive_hash;
mod advice;
mod commit_spin;
mod index_dives;
mod io_capacity;
mod latch_spin;
mod purge;
mod redo_capacity;
pub(crate) mod risks;
mod start_settings;
mod table_cache;
mod thread_cache;
mod thread_concurrency;
mod undo_tablespaces;

use spindoctor_model::plan::PLAN_SCHEMA;
use spindoctor_model::{Elsewhere, Finding, Left, Plan, Proposal, Severity, Unavailable, Window};

pub use risks::risk;
pub use undo_tablespaces::{UNDO_TABLESPACES, undo_budget_bytes, undo_bytes_at_most};

use crate::diagnose::examine;
use advice::{Advice, Examined};

/// A kind of cure: what it is about, and what it says to a window.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// One word: `commit-spin`.
    pub name: &'static str,
    /// What it is about, in one line.
    pub title: &'static str,
    /// Causes that its settings cure: where one of them was found, the family proposes.
    pub cures: &'static [&'static str],
    /// What it says to a window.
    propose: fn(&Examined<'_>) -> Result<Advice, Unavailable>,
    /// Windows for the tests.
    #[cfg(test)]
    examples: crate::Examples,
}

/// Every family, in the order in which those that propose nothing are listed.
pub const FAMILIES: &[Family] = &[
    commit_spin::FAMILY,
    latch_spin::FAMILY,
    undo_tablespaces::FAMILY,
    redo_capacity::FAMILY,
    io_capacity::FAMILY,
    purge::FAMILY,
    thread_concurrency::FAMILY,
    thread_cache::FAMILY,
    table_cache::FAMILY,
    adaptive_hash::FAMILY,
    index_dives::FAMILY,
    start_settings::FAMILY,
];

/// What the window's server calls for, the most promising first: by what a finding says is lost without it, then in
/// the order of the families.
pub fn proposals(window: &Window) -> Vec<Proposal> {
    plan(window).proposals
}

/// The same, with what was looked at and left, and what no setting cures.
pub fn plan(window: &Window) -> Plan {
    let diagnosis = examine(window);
    let examined = Examined { window, findings: &diagnosis.findings };
    let mut proposals = Vec::new();
    let mut left = Vec::new();
    for family in FAMILIES {
        let advice = match &diagnosis.interrupted {
            Some(interrupted) => {
                Err(Unavailable::because(format!("{} while it was watched", interrupted.because))
                    .unlock("watch it again"))
            }
            None => (family.propose)(&examined),
        };
        let family = family.name.to_owned();
        match advice {
            Ok(Advice::Propose(proposed)) => {
                proposals.extend(
                    proposed.into_iter().map(|proposal| Proposal { family: family.clone(), ..proposal }),
                );
            }
            Ok(Advice::Leave(because)) => {
                left.push(Left { family, examined: true, because, unlock: String::new() });
            }
            Err(missing) => left.push(Left {
                family,
                examined: false,
                because: missing.because,
                unlock: missing.unlock.unwrap_or_default(),
            }),
        }
    }
    // Stable: among those without a finding the families' order stays.
    proposals.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
    let is_proposed = |cause: &str| proposals.iter().any(|proposal| proposal.cause.as_deref() == Some(cause));
    // What a proposal cures, and what goes with it.
    let is_cured = |cause: &str| {
        let explains = |finding: &Finding| finding.explains.iter().any(|explained| explained == cause);
        is_proposed(cause)
            || diagnosis.findings.iter().any(|finding| is_proposed(&finding.cause) && explains(finding))
    };
    let elsewhere = diagnosis
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Note && !is_cured(&finding.cause))
        .map(|finding| Elsewhere {
            cause: finding.cause.clone(),
            score: finding.score,
            headline: finding.headline.clone(),
        })
        .collect();
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        server: diagnosis.server,
        host: diagnosis.host,
        window: diagnosis.window,
        interrupted: diagnosis.interrupted,
        cost: diagnosis.cost,
        proposals,
        left,
        elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    fn proposals_of<'a>(plan: &'a Plan, family: &str) -> Vec<&'a Proposal> {
        plan.proposals.iter().filter(|proposal| proposal.family == family).collect()
    }

    #[test]
    fn every_family_proposes_leaves_at_a_near_miss_and_says_when_evidence_is_missing() {
        for family in FAMILIES {
            let crate::Examples { fires, near_miss, missing } = family.examples;
            let plan_of = |window: Window| plan(&window);
            let fired = plan_of(fires());
            let proposed = proposals_of(&fired, family.name);
            assert!(!proposed.is_empty(), "{} should propose: {:#?}", family.name, fired.left);
            for proposal in proposed {
                let remedy = &proposal.remedy;
                assert!(
                    !remedy.statement.is_empty()
                        && !remedy.why.is_empty()
                        && !remedy.risk.is_empty()
                        && !remedy.undo.is_empty(),
                    "{}: {proposal:#?}",
                    family.name
                );
                assert!(proposal.changes.iter().all(|change| change.from != change.to), "{proposal:#?}");
                assert!(!proposal.changes.is_empty() || proposal.not_tried.is_some(), "{proposal:#?}");
            }
            let calm = plan_of(near_miss());
            assert!(
                proposals_of(&calm, family.name).is_empty(),
                "{} at its near miss: {calm:#?}",
                family.name
            );
            let blind = plan_of(missing());
            let left = blind.left.iter().find(|left| left.family == family.name);
            assert!(
                left.is_some_and(|left| !left.examined),
                "{} without its evidence: {left:?}",
                family.name
            );
        }
    }

    #[test]
    fn a_healthy_server_gets_no_proposal_and_is_shown_what_was_looked_at() {
        for version in ["8.0.36", "9.7.4", "10.11.19-MariaDB"] {
            let plan = plan(&Build::busy(version).window());
            assert_eq!(plan.proposals, [], "{version}");
            assert_eq!(plan.elsewhere, [], "{version}");
            assert_eq!(plan.left.len(), FAMILIES.len(), "{version}");
        }
    }

    #[test]
    fn the_costliest_comes_first_and_findings_without_a_setting_are_named() {
        let window = Build::busy("8.0.36")
            .lsn(1e9, 84e6, 8e6)
            .counter("Connections", 1200.0)
            .counter("Questions", 1300.0)
            .counter("Threads_created", 0.0)
            .quota(2.0, 6)
            .counted_cpus(6, 20.0)
            .window();
        let plan = plan(&window);
        let families: Vec<&str> = plan.proposals.iter().map(|proposal| proposal.family.as_str()).collect();
        assert_eq!(families, ["redo-capacity", "commit-spin"]);
        assert_eq!(
            plan.elsewhere.iter().map(|other| other.cause.as_str()).collect::<Vec<_>>(),
            ["connection-churn"]
        );
    }

    #[test]
    fn what_a_family_is_about_fits_a_line_with_what_is_lost() {
        for family in FAMILIES {
            let line = format!("1 {}: {}  about 100 % lost", family.name, family.title);
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn nothing_is_proposed_where_nothing_was_read() {
        let plan = plan(&Window::default());
        assert_eq!(plan.proposals, []);
        assert!(plan.left.iter().all(|left| !left.examined), "{:#?}", plan.left);
    }

    #[test]
    fn a_plan_survives_json() {
        let plan = plan(&undo_tablespaces::examples::fires());
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}
