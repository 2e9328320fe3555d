//! The score of a finding: its share of the session time.
//!
//! A rule estimates what its cause costs from its own evidence. The account of session time holds that estimate within what
//! the sessions were seen to do: a wait costs what it takes, and no cause costs more than the classes in which it could be.

use spindoctor_model::{Finding, KnownBy, SessionTime, Severity, TimeClass};

use super::explained::WITHOUT_A_STATE;
use crate::{Costs, costs_of, rank};

/// Sightings of sessions at work below which a share is off by more than a tenth: it then bounds a score with a margin.
const SIGHTINGS: u64 = 50;

/// Half of a 95 % interval in standard errors of the normal distribution.
const Z_95: f64 = 1.96;

/// Sessions at work on average below which an account says nothing of a score: one session that now and then is in a statement.
pub(crate) const SESSIONS: f64 = 0.5;

/// Classes that the server's own work on the CPUs makes longer: what a waste of CPU takes is gone from each of them. Who waits for
/// others that have the CPUs waits for them all the same.
const RUNNABLE: &[TimeClass] =
    &[TimeClass::Cpu, TimeClass::Spin, TimeClass::Kernel, TimeClass::CpuQueue, TimeClass::CpuQuota];

/// Sessions that wait for it, on average, below which a wait is no more than a warning: one client is blocked, not the server.
pub(crate) const FEW: f64 = 2.0;

/// Gives each finding its share of the session time as its score, and the severity that belongs to it.
pub(crate) fn set_scores(time: &SessionTime, findings: &mut [Finding]) {
    let says_nothing = time.session_seconds_per_second < SESSIONS;
    for finding in findings {
        if is_by_design(finding) {
            finding.score = finding.score.min(rank::NOTE);
            continue;
        }
        if let Some((costs, explains)) = costs_of(finding) {
            if says_nothing {
                finding.severity = finding.severity.min(severity(time, &costs, finding.score));
                continue;
            }
            finding.score = share(time, &costs, explains, finding.score);
            finding.severity = severity(time, &costs, finding.score);
        }
    }
}

/// True for what its rule calls a note though much of the session time goes there: those sessions wait because they are to.
fn is_by_design(finding: &Finding) -> bool {
    finding.severity == Severity::Note && rank::severity(finding.score) > Severity::Note
}

/// The severity of a score, of a cause that costs such time.
pub(crate) fn severity(time: &SessionTime, costs: &Costs, score: f64) -> Severity {
    let few = matches!(costs, Costs::Waits(_)) && score * time.session_seconds_per_second < FEW;
    let most = if few { Severity::Warning } else { Severity::Critical };
    rank::severity(score).min(most)
}

/// The share of the session time, 0 to 1, of a cause by its rule's own estimate.
fn share(time: &SessionTime, costs: &Costs, explains: &[TimeClass], estimate: f64) -> f64 {
    let sum = |is_counted: &dyn Fn(TimeClass) -> bool| -> f64 {
        time.classes.iter().filter(|one| is_counted(one.class)).map(|one| one.share).sum()
    };
    match costs {
        Costs::Elsewhere => estimate,
        Costs::Waits(surely) => {
            let (least, _) = interval(sum(&|class| surely.contains(&class)), time.observations);
            let most = sum(&|class| surely.contains(&class) || explains.contains(&class));
            let (_, most) = interval(most + vague(time, surely, explains), time.observations);
            estimate.clamp(least, least.max(most))
        }
        Costs::Cpu => {
            let reach = sum(&|class| RUNNABLE.contains(&class) || explains.contains(&class));
            estimate * interval(reach + vague(time, &[TimeClass::Cpu], explains), time.observations).1
        }
    }
}

/// The least and the most that a share may be which was counted in so many sightings, 0 to 1: its 95 % interval (E. B. Wilson,
/// Probable inference, the law of succession, and statistical inference, 1927), which is of use for few of them, and for shares
/// of 0 and 1, too. From [`SIGHTINGS`] on the share itself.
fn interval(share: f64, sightings: u64) -> (f64, f64) {
    let share = share.clamp(0.0, 1.0);
    if sightings >= SIGHTINGS {
        return (share, share);
    }
    let (n, z2) = (sightings as f64, Z_95 * Z_95);
    let middle = (share * n + z2 / 2.0) / (n + z2);
    let half = Z_95 / (n + z2) * (n * share * (1.0 - share) + z2 / 4.0).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// Share of the session time of which the account cannot say what it was, and which may be in one of these classes.
fn vague(time: &SessionTime, surely: &[TimeClass], explains: &[TimeClass]) -> f64 {
    let is_without_a_word = |class: &TimeClass| *class == TimeClass::Cpu || WITHOUT_A_STATE.contains(class);
    if !surely.iter().chain(explains).any(is_without_a_word) {
        return 0.0;
    }
    let is_vague = |class, known_by| match class {
        TimeClass::Running => true,
        TimeClass::Other => known_by == KnownBy::Inferred,
        _ => false,
    };
    time.classes.iter().filter(|one| is_vague(one.class, one.known_by)).map(|one| one.share).sum()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::TimeShare;

    use super::super::unnamed;
    use super::*;
    use crate::causes::user_lock_pileup;
    use crate::draft::Draft;

    fn time(classes: &[(TimeClass, f64, KnownBy)]) -> SessionTime {
        let share = |&(class, share, known_by)| TimeShare { class, share, known_by, seen: Vec::new() };
        SessionTime {
            session_seconds_per_second: 40.0,
            classes: classes.iter().map(share).collect(),
            observations: 4000,
            ..SessionTime::default()
        }
    }

    #[test]
    fn a_wait_costs_what_it_takes_whatever_the_rule_estimates() {
        let time = time(&[
            (TimeClass::RowLock, 0.4, KnownBy::Stack),
            (TimeClass::Commit, 0.5, KnownBy::Stack),
            (TimeClass::Cpu, 0.1, KnownBy::Counter),
        ]);
        let row_lock = Costs::Waits(&[TimeClass::RowLock]);
        for estimate in [0.0, 0.3, 1.0] {
            assert_eq!(share(&time, &row_lock, &[TimeClass::RowLock], estimate), 0.4);
        }
        // What it may explain beside that bounds the estimate.
        for (estimate, score) in [(0.1, 0.4), (0.6, 0.6), (1.0, 0.9)] {
            assert_eq!(share(&time, &row_lock, &[TimeClass::Commit], estimate), score);
        }
    }

    #[test]
    fn waste_of_cpu_costs_its_part_of_the_wait_for_a_cpu_too_and_nothing_of_other_waits() {
        let time = time(&[
            (TimeClass::RowLock, 0.5, KnownBy::Stack),
            (TimeClass::CpuQueue, 0.4, KnownBy::Counter),
            (TimeClass::Cpu, 0.1, KnownBy::Counter),
        ]);
        assert_eq!(share(&time, &Costs::Cpu, &[], 0.6), 0.3);
        assert_eq!(share(&time, &Costs::Elsewhere, &[], 0.6), 0.6);
    }

    #[test]
    fn what_the_account_cannot_name_may_be_what_the_rule_says() {
        let time =
            time(&[(TimeClass::Other, 0.8, KnownBy::Inferred), (TimeClass::Cpu, 0.2, KnownBy::Counter)]);
        let log = Costs::Waits(&[TimeClass::LogSpace]);
        assert!((share(&time, &log, &[], 0.5) - 0.5).abs() < 1e-9);
        assert!((share(&time, &log, &[], 0.9) - 0.8).abs() < 1e-9);
        // The list has a word for a metadata lock.
        assert_eq!(share(&time, &Costs::Waits(&[TimeClass::MetadataLock]), &[], 0.5), 0.0);
    }

    #[test]
    fn few_sightings_bound_a_score_the_less_the_fewer_they_are() {
        assert_eq!(interval(0.82, 4000), (0.82, 0.82));
        assert_eq!(interval(0.5, 0), (0.0, 1.0));
        let wide = |sightings| {
            let (least, most) = interval(0.82, sightings);
            assert!(least < 0.82 && 0.82 < most, "{least} to {most}");
            most - least
        };
        assert!(wide(43) < 0.25 && wide(43) < wide(10) && wide(10) < wide(3), "{}", wide(43));
        for (share, sightings) in [(0.0, 20), (1.0, 20)] {
            let (least, most) = interval(share, sightings);
            assert!(
                (least..=most).contains(&share) && (0.1..0.2).contains(&(most - least)),
                "{least} to {most}"
            );
        }
        // An ALTER behind a metadata lock on a host that is busy with builds: 43 sightings.
        let time = SessionTime {
            observations: 43,
            ..time(&[
                (TimeClass::MetadataLock, 0.82, KnownBy::Stack),
                (TimeClass::CpuTaken, 0.18, KnownBy::Counter),
            ])
        };
        let neighbour = share(&time, &Costs::Waits(&[TimeClass::CpuTaken]), &[TimeClass::CpuTaken], 0.999);
        let lock = share(&time, &Costs::Waits(&[TimeClass::MetadataLock]), &[TimeClass::MetadataLock], 0.9);
        assert!(lock > 0.6 && neighbour < 0.35, "{lock} {neighbour}");
    }

    #[test]
    fn what_a_rule_calls_a_note_stays_one_and_weighs_as_one() {
        let time =
            time(&[(TimeClass::UserLock, 0.8, KnownBy::Stack), (TimeClass::Cpu, 0.2, KnownBy::Counter)]);
        let of = |severity| {
            let draft = Draft::new(&user_lock_pileup::CAUSE, 0.8, "").severity(severity);
            let mut findings = [draft.finding()];
            set_scores(&time, &mut findings);
            (findings[0].severity, findings[0].score, unnamed(&time, &findings))
        };
        assert_eq!(of(Severity::Critical), (Severity::Critical, 0.8, 0.0));
        assert_eq!(of(Severity::Note), (Severity::Note, rank::NOTE, 0.0));
    }

    #[test]
    fn one_session_that_waits_is_no_alarm() {
        let alone = SessionTime { session_seconds_per_second: 1.0, ..time(&[]) };
        assert_eq!(severity(&alone, &Costs::Waits(&[]), 1.0), Severity::Warning);
        assert_eq!(severity(&alone, &Costs::Cpu, 1.0), Severity::Critical);
        assert_eq!(severity(&time(&[]), &Costs::Waits(&[]), 1.0), Severity::Critical);
    }
}
