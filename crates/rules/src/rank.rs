//! How findings rank and how severe they are: the only place that knows.
//!
//! A finding's score is the rule's own estimate, from 0 to 1, of how much the cause matters now. It orders the findings
//! of one diagnosis and is not calibrated: nothing compared it with what a cure gains. Findings stand in order of score, with one correction: a finding that explains
//! another weighs at least as much and stands before it, however the scores fall. Curing the
//! explaining one cures the other; a server that is throttled *because* it spins should hear of the
//! spinning first. What nobody would notice explains nothing that somebody is woken for.

use spindoctor_model::{Finding, Severity};

/// From here on a finding is a warning. Below a twentieth users do not notice, and the estimate
/// itself is no better than that: sampled gauges and one-second counters move this much in a quiet
/// server.
pub const WARNING_FROM: f64 = 0.05;

/// From here on a finding is critical: a fifth of the throughput is what an on-call engineer is
/// rightly woken for. The published case of quota-blind spinning (21 % of CPU, a quarter of the
/// throughput) must be critical.
pub const CRITICAL_FROM: f64 = 0.20;

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
/// A note does not explain a critical finding, and says so no more: clients that come when a server is
/// overloaded make threads, at a thousandth of its CPU time.
///
/// A cause that explains itself or a ring of causes changes nothing: what cannot be put before
/// itself stays in order of weight.
pub fn rank(mut findings: Vec<Finding>) -> Vec<Finding> {
    let is = |severity| move |finding: &&mut Finding| finding.severity == severity;
    let critical: Vec<String> =
        findings.iter_mut().filter(is(Severity::Critical)).map(|finding| finding.cause.clone()).collect();
    for note in findings.iter_mut().filter(is(Severity::Note)) {
        note.explains.retain(|cause| !critical.contains(cause));
    }
    let mut weights: Vec<f64> = findings.iter().map(|finding| finding.score).collect();
    // A chain of explanations is at most as long as there are findings.
    for _ in 0..findings.len() {
        for (at, finding) in findings.iter().enumerate() {
            for (explained_at, explained) in findings.iter().enumerate() {
                if finding.explains.contains(&explained.cause) {
                    weights[at] = weights[at].max(weights[explained_at]);
                }
            }
        }
    }
    let mut ranked = Vec::with_capacity(findings.len());
    while !findings.is_empty() {
        let is_explained = |at: usize| {
            findings.iter().any(|other| {
                other.cause != findings[at].cause && other.explains.contains(&findings[at].cause)
            })
        };
        let heaviest = |candidates: Vec<usize>| {
            candidates.into_iter().max_by(|&a, &b| {
                weights[a].total_cmp(&weights[b]).then_with(|| findings[b].cause.cmp(&findings[a].cause))
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
    fn what_explains_another_comes_before_it_whatever_the_scores() {
        let findings = vec![
            finding("symptom", 0.9, &[]),
            finding("other", 0.5, &[]),
            finding("root", 0.1, &["symptom"]),
        ];
        assert_eq!(order(findings), ["root", "symptom", "other"]);
    }

    #[test]
    fn a_note_explains_a_warning_and_nothing_critical() {
        let findings = vec![
            finding("critical", 0.5, &[]),
            finding("warning", 0.1, &[]),
            finding("note", 0.001, &["critical", "warning"]),
        ];
        let ranked = rank(findings);
        assert_eq!(ranked[1].explains, ["warning"]);
        assert_eq!(order(ranked), ["critical", "note", "warning"]);
    }

    #[test]
    fn a_ring_of_explanations_keeps_every_finding() {
        let findings = vec![finding("b", 0.3, &["a"]), finding("a", 0.2, &["b"])];
        assert_eq!(order(findings), ["a", "b"]);
    }

    #[test]
    fn severity_follows_the_score() {
        assert_eq!(severity(0.21), Severity::Critical);
        assert_eq!(severity(0.05), Severity::Warning);
        assert_eq!(severity(0.049), Severity::Note);
    }
}
