//! The cost of the optimizer's index dives, statement by statement, and how to save them.
//!
//! ```text
//! what runs -> Select -> EXPLAIN, trace, indexes -> Estimates -> candidates -> quads of runs -> Tried
//! ```
//!
//! Everything here is pure; `run` asks the server. Out: an [`IndexesReport`], serialised as
//! `spindoctor.indexes/1` and shown by `text`.

use jiff::Timestamp;
use serde::Serialize;
use spindoctor_model::Finding;
use spindoctor_rules::dives::{Estimating, InStatements};
use spindoctor_sql::select::List;

use super::estimates::{Candidate, Estimates};
use super::trial::{Tried, is_quiet};

/// Name and version of the serialised form.
pub const SCHEMA: &str = "spindoctor.indexes/1";

/// What dives cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexesReport {
    pub schema: &'static str,
    /// `MySQL 9.7.4 on db17`
    pub server: String,
    /// The server that explained and tried, where it is another.
    pub examined_on: Option<String>,
    pub start: Timestamp,
    /// How long it was looked for statements, seconds; 0 where they were given.
    pub seconds: f64,
    /// Looks at what runs.
    pub looks: u64,
    /// Lists of so many values and more are estimated from statistics; 0: none is.
    pub eq_range_index_dive_limit: u64,
    /// Pages that the server's other sessions asked for a second while statements were examined.
    pub others_pages_per_s: f64,
    /// What the stacks say.
    pub stacks: Option<Stacks>,
    /// Why they say nothing, where they do not.
    pub stacks_not_known: Option<String>,
    /// What the rule `index-dive-waste` says of them.
    pub findings: Vec<Finding>,
    /// Those with dives first, the costliest first.
    pub statements: Vec<Examined>,
    pub not_examined: Vec<NotExamined>,
    pub notes: Vec<String>,
    pub cost: Cost,
}

/// A statement, examined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Examined {
    /// Without literals.
    pub digest: String,
    /// As it was sent; only with `--literals`.
    pub statement: Option<String>,
    pub database: String,
    /// In how many of the looks it was seen, on average how often at once; none where it was given.
    pub at_once: Option<f64>,
    /// By the server's own counts, where it counts.
    pub executions_per_s: Option<f64>,
    pub execution_ms: Option<f64>,
    /// What the stacks say of it, where it was seen in them.
    pub stacks: Option<InStatement>,
    pub lists: Vec<ListSummary>,
    #[serde(flatten)]
    pub estimates: Estimates,
    pub planning: Planning,
    /// Where it was run, and pages can be counted.
    pub pages: Option<Split>,
    pub candidates: Vec<CandidateReport>,
}

/// What stacks and CPU samples say of estimates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stacks {
    pub snapshots: u64,
    pub cpu_samples: u64,
    /// Share of the CPU samples that lie in dives; none of no sample.
    pub cpu_in_dives: Option<f64>,
    /// Threads inside statements.
    #[serde(flatten)]
    pub all: InStatement,
}

/// Threads that were seen inside statements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct InStatement {
    /// Times that a thread was seen there.
    pub seen: u64,
    /// Share of them below the range optimizer (`test_quick_select`).
    pub estimating: f64,
    /// Share of them that looked ranges up.
    pub diving: f64,
}

impl InStatement {
    /// Shares of what was seen.
    pub fn from_counts(seen: InStatements) -> Self {
        let share = |count: u64| count as f64 / seen.inside.max(1) as f64;
        Self { seen: seen.inside, estimating: share(seen.estimating), diving: share(seen.diving) }
    }
}

impl Stacks {
    /// Shares of what was counted.
    pub fn from_estimating(found: &Estimating) -> Self {
        let cpu = found.cpu_in_dives as f64 / found.cpu_samples.max(1) as f64;
        Self {
            snapshots: found.snapshots,
            cpu_samples: found.cpu_samples,
            cpu_in_dives: (found.cpu_samples > 0).then_some(cpu),
            all: InStatement::from_counts(found.all),
        }
    }
}

/// A list of values beside the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListSummary {
    pub column: String,
    pub values: usize,
    /// True where a list of that length is looked up, value by value.
    pub is_below_limit: bool,
}

/// What planning the statement takes, by EXPLAIN.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Planning {
    /// EXPLAINs of each kind, at most.
    pub explains: u32,
    /// As it is.
    pub as_it_is: Planned,
    /// Without the indexes that were dived into in vain.
    pub without_in_vain: Option<Planned>,
    /// With statistics instead of dives for lists.
    pub without_list_dives: Option<Planned>,
    /// Why pages are not counted, where they are not.
    #[serde(rename = "pages_not_told")]
    pub pages_not_counted: Option<String>,
}

/// What one EXPLAIN takes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Planned {
    /// Milliseconds until its answer was there, the median.
    pub ms: f64,
    /// Pages that it asked for.
    pub pages: Option<f64>,
}

/// The pages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Split {
    pub of_a_run: f64,
    /// As many as EXPLAIN asks for, where the server does not count those of the rows.
    pub for_the_plan: f64,
    pub for_its_rows: f64,
}

impl Planning {
    /// Leaves out pages that others drown who ask for so many a second; all, where those of the statement as it is are
    /// among them. True where pages are left.
    pub fn keep_pages_beside(&mut self, others_per_s: f64) -> bool {
        let is_shown = |one: &Planned| one.pages.is_some_and(|pages| is_quiet(pages, one.ms, others_per_s));
        let any = is_shown(&self.as_it_is);
        for one in [Some(&mut self.as_it_is), self.without_in_vain.as_mut(), self.without_list_dives.as_mut()]
            .into_iter()
            .flatten()
        {
            one.pages = one.pages.filter(|_| any && is_shown(one));
        }
        any
    }
}

impl Split {
    /// A run's pages, of which those of an EXPLAIN are for the plan.
    pub fn new(of_a_run: f64, explained: f64) -> Self {
        let for_the_plan = explained.min(of_a_run);
        Self { of_a_run, for_the_plan, for_its_rows: of_a_run - for_the_plan }
    }

    /// A run's pages, of which the server counted those of its rows (MariaDB). The others are its plan's, and may be more
    /// than EXPLAIN's: a run can dive again once it knows the order of its tables.
    pub fn counted(of_a_run: f64, for_its_rows: f64) -> Self {
        let for_its_rows = for_its_rows.min(of_a_run);
        Self { of_a_run, for_the_plan: of_a_run - for_its_rows, for_its_rows }
    }
}

/// A candidate, and what its trial found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateReport {
    #[serde(flatten)]
    pub candidate: Candidate,
    pub tried: Option<Tried>,
    /// Why its trial came to nothing.
    pub not_tried: Option<String>,
}

/// Statements that were not examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotExamined {
    pub because: String,
    /// Different statements.
    pub statements: u64,
    /// How often they were seen.
    pub seen: u64,
    /// The one that was seen most, without literals.
    pub digest: String,
}

/// What the look cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    pub server_queries: u64,
    pub server_busy_ms: f64,
    pub own_cpu_ms: f64,
    /// Runs of statements for trials, which are among the queries.
    pub trial_runs: u64,
}

impl Examined {
    /// Pages a second that planning asks for, by the pages of an EXPLAIN and the server's count of executions.
    pub fn planning_pages_per_s(&self) -> Option<f64> {
        Some(self.planning.as_it_is.pages? * self.executions_per_s?)
    }

    /// Part of the statement's time that goes into dives for lists, by the times of EXPLAIN.
    pub fn dive_share(&self) -> Option<f64> {
        let without = self.planning.without_list_dives?.ms.min(self.planning.as_it_is.ms);
        let whole = self.execution_ms.filter(|ms| *ms > 0.0)?;
        let share = (self.planning.as_it_is.ms - without) / whole;
        // More than the whole: the EXPLAINs met another load than the statement on average.
        (share <= 1.0).then_some(share)
    }

    /// What it costs, for the order: dives that run at once.
    fn weight(&self) -> f64 {
        self.estimates.dives as f64 * self.at_once.unwrap_or(1.0).max(0.01)
    }
}

impl ListSummary {
    /// A list, and whether the limit lets it be looked up.
    pub fn from_list(list: &List, limit: u64) -> Self {
        let is_below_limit = limit == 0 || (list.values as u64) < limit;
        Self { column: list.column.clone(), values: list.values, is_below_limit }
    }
}

/// Puts those with dives first, the costliest first.
pub fn in_order(statements: &mut [Examined]) {
    statements.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then_with(|| a.digest.cmp(&b.digest)));
}

/// Adds a statement to those that were not examined for the same reason.
pub fn pass_over(passed: &mut Vec<NotExamined>, because: String, digest: &str, seen: u64) {
    match passed.iter_mut().find(|one| one.because == because) {
        Some(one) => {
            one.statements += 1;
            one.seen += seen;
        }
        None => passed.push(NotExamined { because, statements: 1, seen, digest: digest.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::indexes::examples;

    #[test]
    fn a_list_is_held_against_the_limit() {
        let below = |values, limit| {
            ListSummary::from_list(&List { column: "k".into(), values }, limit).is_below_limit
        };
        assert_eq!([below(199, 200), below(200, 200), below(5_000, 0)], [true, false, true]);
    }

    #[test]
    fn what_dives_cost_is_shown_by_the_servers_counts() {
        let planted = &examples::planted().statements[0];
        assert_eq!(planted.planning_pages_per_s(), Some(1_530.0 * 600.0));
        let share = planted.dive_share().unwrap();
        assert!((share - 1.1 / 1.5).abs() < 1e-9, "{share}");
        let faster = Examined { execution_ms: Some(1.0), ..planted.clone() };
        assert_eq!(faster.dive_share(), None, "EXPLAIN took longer than the statement does");
    }

    #[test]
    fn pages_of_one_kind_alone_are_not_shown() {
        let text = |ms, pages| Planned { ms, pages };
        let mut planning = Planning {
            as_it_is: text(1.0, Some(1_500.0)),
            without_list_dives: Some(text(0.2, Some(4.0))),
            ..Planning::default()
        };
        assert!(planning.keep_pages_beside(1_000.0));
        assert_eq!(planning.without_list_dives.unwrap().pages, Some(4.0));
        let mut busier = planning.clone();
        assert!(busier.keep_pages_beside(10_000.0));
        assert_eq!((busier.as_it_is.pages, busier.without_list_dives.unwrap().pages), (Some(1_500.0), None));
        planning.as_it_is.pages = None;
        assert!(!planning.keep_pages_beside(0.0));
        assert_eq!(planning.without_list_dives.unwrap().pages, None);
    }

    #[test]
    fn the_pages_of_a_run_are_for_its_plan_and_for_its_rows() {
        let split = Split::new(1_533.0, 1_530.0);
        assert_eq!((split.for_the_plan, split.for_its_rows), (1_530.0, 3.0));
        assert_eq!(Split::new(10.0, 11.5).for_its_rows, 0.0, "EXPLAIN's own pages");
        let split = Split::counted(3_050.0, 2.0);
        assert_eq!((split.for_the_plan, split.for_its_rows), (3_048.0, 2.0), "a run that dived twice");
        assert_eq!(Split::counted(1.5, 2.0).for_the_plan, 0.0);
    }

    #[test]
    fn the_costliest_comes_first() {
        let mut statements = examples::planted().statements;
        let mut rare = statements[0].clone();
        rare.at_once = Some(0.1);
        rare.digest = "rare".into();
        statements.insert(0, rare);
        in_order(&mut statements);
        assert_eq!(statements[1].digest, "rare");
    }

    #[test]
    fn reasons_are_counted() {
        let mut passed = Vec::new();
        for digest in ["a", "b"] {
            pass_over(&mut passed, "it is not a plain SELECT".into(), digest, 3);
        }
        assert_eq!((passed.len(), passed[0].statements, passed[0].seen), (1, 2, 6));
        assert_eq!(passed[0].digest, "a");
    }
}
