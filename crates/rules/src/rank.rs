//! How findings rank and how severe they are: the only place that knows.
//!
//! A finding's score is its share of the session time: the part that would be gone with its cause
//! ([`crate::Costs`]). Findings stand in order of severity and score, with one correction: a finding that explains another stands
//! before it. Curing the explaining one cures the other: the report of a server that is throttled *because* it spins names the spinning
//! first. The other finding costs no more than the one that explains it, so it weighs no more; clients that cannot connect are in
//! no session time, and what keeps them out weighs as much as they do. A finding that is too small to be noticed explains no
//! warning. Findings that claim the same session time are lowered first, and then put in order once.

use std::cmp::Ordering;

use spindoctor_model::{Finding, Severity};

use crate::{Costs, costs_of};

/// From here on a finding is a warning. Below a twentieth users do not notice, and the estimate
/// itself is no better than that: sampled gauges and one-second counters move this much in a quiet
/// server.
pub const WARNING_FROM: f64 = 0.05;

/// From here on a finding is critical: a fifth of the throughput is what an on-call engineer is
/// rightly woken for. The published case of quota-blind spinning (21 % of CPU, a quarter of the
/// throughput) must be critical.
pub const CRITICAL_FROM: f64 = 0.20;

/// What a finding scores at most that is to be a note, below [`WARNING_FROM`].
pub(crate) const NOTE: f64 = 0.04;

/// The severity that belongs to a score.
pub fn severity(score: f64) -> Severity {
    if score >= CRITICAL_FROM {
        Severity::Critical
    } else if score >= WARNING_FROM {
        Severity::Warning
    } else {
        Severity::Note
    }
}

/// Puts findings in order of weight, each explaining finding before those that it explains.
///
/// A note explains notes only, and says no more that it explains others: clients that come when a server is overloaded make threads,
/// at a thousandth of its CPU time.
///
/// A cause that explains itself or a ring of causes changes nothing: what cannot be put before
/// itself stays in order of weight.
pub fn rank(mut findings: Vec<Finding>) -> Vec<Finding> {
    let_notes_explain_nothing_heavier(&mut findings);
    in_order(findings)
}

/// The same for findings of one account of session time, of which no second counts twice. What is lowered by that takes the place
/// that belongs to its new weight.
pub(crate) fn rank_without_overlap(mut findings: Vec<Finding>) -> Vec<Finding> {
    let_notes_explain_nothing_heavier(&mut findings);
    without_overlap(&mut findings);
    in_order(findings)
}

/// What costs a twentieth of the session time and more is not gone with what costs less.
fn let_notes_explain_nothing_heavier(findings: &mut [Finding]) {
    let is_note = |finding: &Finding| finding.severity == Severity::Note;
    let heavier: Vec<String> =
        findings.iter().filter(|finding| !is_note(finding)).map(|finding| finding.cause.clone()).collect();
    for note in findings.iter_mut().filter(|finding| is_note(finding)) {
        note.explains.retain(|cause| !heavier.contains(cause));
    }
}

/// True of clients that are in no session time.
fn is_at_the_door(finding: &Finding) -> bool {
    costs_of(finding).is_some_and(|(costs, _)| matches!(costs, Costs::Elsewhere))
}

/// What each weighs: what keeps clients at the door as much as they do, and what is explained no more than what explains it.
fn weights(findings: &[Finding]) -> Vec<Weight> {
    let mut weights: Vec<Weight> = findings.iter().map(Weight::from_finding).collect();
    // A chain of explanations is at most as long as there are findings.
    for _ in 0..findings.len() {
        for (at, finding) in findings.iter().enumerate() {
            for (explained_at, explained) in findings.iter().enumerate() {
                if finding.explains.contains(&explained.cause) && is_at_the_door(explained) {
                    weights[at] = weights[at].max(weights[explained_at]);
                }
            }
        }
    }
    for _ in 0..findings.len() {
        for (at, finding) in findings.iter().enumerate() {
            let explains_it =
                |other: &Finding| other.explains.contains(&finding.cause) && other.cause != finding.cause;
            let most = (0..findings.len())
                .filter(|&other| explains_it(&findings[other]))
                .map(|other| weights[other]);
            if let Some(most) = most.reduce(Weight::max) {
                weights[at] = weights[at].min(most);
            }
        }
    }
    weights
}

fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    let mut weights = weights(&findings);
    let mut ranked = Vec::with_capacity(findings.len());
    while !findings.is_empty() {
        let is_explained = |at: usize| {
            findings.iter().any(|other| {
                other.cause != findings[at].cause && other.explains.contains(&findings[at].cause)
            })
        };
        let heaviest = |candidates: Vec<usize>| {
            candidates.into_iter().max_by(|&a, &b| {
                weights[a].cmp(&weights[b]).then_with(|| findings[b].cause.cmp(&findings[a].cause))
            })
        };
        let next = heaviest((0..findings.len()).filter(|&at| !is_explained(at)).collect())
            .or_else(|| heaviest((0..findings.len()).collect()))
            .expect("there are findings left");
        ranked.push(findings.remove(next));
        weights.remove(next);
    }
    ranked
}

/// What decides between two findings. A wait of few sessions is no alarm though it is all the time that there is: what is critical
/// stands before it.
#[derive(Debug, Clone, Copy)]
struct Weight {
    severity: Severity,
    score: f64,
}

impl Weight {
    fn from_finding(finding: &Finding) -> Self {
        Self { severity: finding.severity, score: finding.score }
    }
}

impl Ord for Weight {
    fn cmp(&self, other: &Self) -> Ordering {
        self.severity.cmp(&other.severity).then_with(|| self.score.total_cmp(&other.score))
    }
}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Weight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Weight {}

/// Takes from findings what heavier ones claim already, so that no second of session time counts twice: scores of findings that no
/// other explains add up to 1 at most. Clients at the door are in no session time.
fn without_overlap(findings: &mut [Finding]) {
    let explained: Vec<String> = findings.iter().flat_map(|finding| finding.explains.clone()).collect();
    let mut claiming: Vec<(Weight, &mut Finding)> = weights(findings)
        .into_iter()
        .zip(findings)
        .filter(|(_, finding)| !is_at_the_door(finding) && !explained.contains(&finding.cause))
        .collect();
    claiming.sort_by(|(one, of_one), (other, of_other)| {
        other.cmp(one).then_with(|| of_one.cause.cmp(&of_other.cause))
    });
    let mut left = 1.0_f64;
    for (_, finding) in claiming {
        if finding.score > left {
            finding.score = left;
            finding.severity = finding.severity.min(severity(left));
        }
        // Scores are rounded: their sum may be more than 1 by a bit, and nothing less than 0 is left.
        left = (left - finding.score).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(cause: &str, score: f64, explains: &[&str]) -> Finding {
        Finding {
            cause: cause.into(),
            severity: severity(score),
            score,
            headline: String::new(),
            evidence: Vec::new(),
            why: String::new(),
            remedies: Vec::new(),
            root: None,
            explains: explains.iter().map(|&name| name.to_owned()).collect(),
            is_elsewhere: false,
            references: Vec::new(),
        }
    }

    fn order(findings: Vec<Finding>) -> Vec<String> {
        rank(findings).into_iter().map(|finding| finding.cause).collect()
    }

    #[test]
    fn the_costliest_comes_first() {
        assert_eq!(order(vec![finding("a", 0.1, &[]), finding("b", 0.4, &[])]), ["b", "a"]);
    }

    #[test]
    fn what_is_critical_stands_before_a_warning_of_more_time() {
        let few = Finding { severity: Severity::Warning, ..finding("few-sessions", 0.96, &[]) };
        assert_eq!(order(vec![few, finding("critical", 0.43, &[])]), ["critical", "few-sessions"]);
    }

    #[test]
    fn what_explains_another_comes_before_it_whatever_the_scores() {
        let findings = vec![
            finding("symptom", 0.9, &[]),
            finding("other", 0.5, &[]),
            finding("root", 0.1, &["symptom"]),
        ];
        assert_eq!(order(findings), ["other", "root", "symptom"]);
    }

    #[test]
    fn what_keeps_clients_at_the_door_weighs_as_much_as_they_do() {
        let findings = vec![
            finding("connections-exhausted", 0.9, &[]),
            finding("other", 0.5, &[]),
            finding("root", 0.1, &["connections-exhausted"]),
        ];
        assert_eq!(order(findings), ["root", "connections-exhausted", "other"]);
    }

    #[test]
    fn a_note_explains_notes_and_nothing_heavier() {
        let findings = vec![
            finding("critical", 0.5, &[]),
            finding("warning", 0.1, &[]),
            finding("other-note", 0.04, &[]),
            finding("note", 0.001, &["critical", "warning", "other-note"]),
        ];
        let ranked = rank(findings);
        assert_eq!(ranked[2].explains, ["other-note"]);
        assert_eq!(order(ranked), ["critical", "warning", "note", "other-note"]);
    }

    /// The cause of a symptom that is critical may itself be a warning.
    #[test]
    fn a_warning_stands_before_what_it_explains_and_a_note_does_not() {
        let order_of = |score| {
            let severe = vec![finding("symptom", 0.3, &[]), finding("root", score, &["symptom"])];
            let mild = vec![finding("symptom", 0.06, &[]), finding("root", score, &["symptom"])];
            (order(severe), order(mild))
        };
        let before = || vec!["root".to_owned(), "symptom".to_owned()];
        let behind = || vec!["symptom".to_owned(), "root".to_owned()];
        assert_eq!(order_of(0.05), (before(), before()));
        assert_eq!(order_of(0.03), (behind(), behind()));
    }

    #[test]
    fn a_ring_of_explanations_keeps_every_finding() {
        let findings = vec![finding("b", 0.3, &["a"]), finding("a", 0.2, &["b"])];
        assert_eq!(order(findings), ["a", "b"]);
    }

    #[test]
    fn no_second_of_session_time_counts_twice() {
        let mut findings = vec![
            finding("a", 0.7, &["explained"]),
            finding("explained", 0.6, &[]),
            finding("connections-exhausted", 0.9, &[]),
            finding("b", 0.4, &[]),
            finding("c", 0.2, &[]),
        ];
        without_overlap(&mut findings);
        let scores: Vec<f64> = findings.iter().map(|finding| (finding.score * 100.0).round()).collect();
        assert_eq!(scores, [70.0, 60.0, 90.0, 30.0, 0.0]);
        assert_eq!(findings[4].severity, Severity::Note);
    }

    #[test]
    fn statements_that_fail_are_in_no_session_time_whatever_their_cause_costs() {
        let of_tmpdir = Finding { is_elsewhere: true, ..finding("disk-full", 0.05, &[]) };
        let mut findings = vec![finding("read-io-bound", 1.0, &[]), of_tmpdir];
        without_overlap(&mut findings);
        assert_eq!((findings[1].score, findings[1].severity), (0.05, Severity::Warning));
    }

    #[test]
    fn what_is_left_is_never_less_than_nothing() {
        let mut findings: Vec<Finding> =
            ["a", "b", "c", "d"].iter().map(|name| finding(name, 0.34, &[])).collect();
        findings.extend((0..3).map(|_| finding("e", 0.1, &[])));
        without_overlap(&mut findings);
        assert!(findings.iter().all(|finding| finding.score.is_sign_positive()), "{findings:#?}");
    }

    #[test]
    fn what_is_lowered_takes_the_place_that_belongs_to_it() {
        let findings = vec![
            finding("largest", 0.9, &[]),
            finding("second", 0.8, &["explained"]),
            finding("explained", 0.8, &[]),
            finding("connections-exhausted", 0.3, &[]),
        ];
        let ranked = rank_without_overlap(findings);
        let places: Vec<(&str, Severity)> =
            ranked.iter().map(|finding| (finding.cause.as_str(), finding.severity)).collect();
        assert_eq!(
            places,
            [
                ("largest", Severity::Critical),
                ("connections-exhausted", Severity::Critical),
                ("second", Severity::Warning),
                ("explained", Severity::Critical),
            ]
        );
        let scores: f64 = ranked.iter().map(|finding| finding.score).sum();
        assert!((scores - (0.9 + 0.1 + 0.8 + 0.3)).abs() < 1e-9, "{ranked:#?}");
    }

    #[test]
    fn severity_follows_the_score() {
        assert_eq!(severity(0.21), Severity::Critical);
        assert_eq!(severity(0.05), Severity::Warning);
        assert_eq!(severity(0.049), Severity::Note);
    }
}
