//! The catalogue: one file per cause, and the one list that names them all.

mod accept_bottleneck;
pub(crate) mod checkpoint_stall;
mod commit_sync_bound;
mod connection_churn;
mod connections_exhausted;
mod cpu_saturated;
mod cpu_throttled;
mod dictionary_stall;
mod file_extension_stall;
mod global_lock_pileup;
mod index_dive_waste;
mod index_lock;
mod log_cache_pressure;
mod metadata_lock_pileup;
pub(crate) mod purge_lag;
pub(crate) mod quota_blind_spin;
mod replica_lag;
mod row_lock_pileup;
mod rows_read_waste;
pub(crate) mod server_stopped;
pub(crate) mod spin_burn;
mod spin_too_short;
mod statistics_stall;
mod storage_stalled;
pub(crate) mod table_cache_contention;
pub(crate) mod thread_cache_miss;

use crate::Cause;

/// Every cause that there is a rule for, in the catalogue's order.
pub const CAUSES: &[Cause] = &[
    quota_blind_spin::CAUSE,
    cpu_throttled::CAUSE,
    spin_burn::CAUSE,
    spin_too_short::CAUSE,
    cpu_saturated::CAUSE,
    index_lock::CAUSE,
    row_lock_pileup::CAUSE,
    metadata_lock_pileup::CAUSE,
    global_lock_pileup::CAUSE,
    dictionary_stall::CAUSE,
    file_extension_stall::CAUSE,
    statistics_stall::CAUSE,
    checkpoint_stall::CAUSE,
    purge_lag::CAUSE,
    commit_sync_bound::CAUSE,
    storage_stalled::CAUSE,
    log_cache_pressure::CAUSE,
    table_cache_contention::CAUSE,
    accept_bottleneck::CAUSE,
    thread_cache_miss::CAUSE,
    connection_churn::CAUSE,
    connections_exhausted::CAUSE,
    index_dive_waste::CAUSE,
    rows_read_waste::CAUSE,
    replica_lag::CAUSE,
    server_stopped::CAUSE,
];

#[cfg(test)]
mod tests {
    use spindoctor_model::{Severity, Window};

    use super::*;
    use crate::testing::Build;
    use crate::{Outcome, diagnose, find};

    /// One cause's windows: it fires, it nearly fires, its evidence is missing.
    type Cases = (&'static str, fn() -> Window, fn() -> Window, fn() -> Window);

    macro_rules! cases {
        ($($module:ident),* $(,)?) => {
            &[$((
                $module::CAUSE.name,
                $module::cases::fires,
                $module::cases::near_miss,
                $module::cases::missing,
            )),*]
        };
    }

    const CASES: &[Cases] = cases![
        quota_blind_spin,
        cpu_throttled,
        spin_burn,
        spin_too_short,
        cpu_saturated,
        index_lock,
        row_lock_pileup,
        metadata_lock_pileup,
        global_lock_pileup,
        dictionary_stall,
        file_extension_stall,
        statistics_stall,
        checkpoint_stall,
        purge_lag,
        commit_sync_bound,
        storage_stalled,
        log_cache_pressure,
        table_cache_contention,
        accept_bottleneck,
        thread_cache_miss,
        connection_churn,
        connections_exhausted,
        index_dive_waste,
        rows_read_waste,
        replica_lag,
        server_stopped,
    ];

    #[test]
    fn every_cause_fires_stays_clear_at_a_near_miss_and_says_when_evidence_is_missing() {
        for cause in CAUSES {
            let (_, fires, near_miss, missing) = CASES
                .iter()
                .find(|(name, ..)| *name == cause.name)
                .unwrap_or_else(|| panic!("{} has no cases", cause.name));
            match (cause.evaluate)(&fires()) {
                Outcome::Fired(finding) => {
                    assert_eq!(finding.cause, cause.name);
                    assert!(!finding.evidence.is_empty() && !finding.why.is_empty(), "{}", cause.name);
                    assert!(!finding.remedies.is_empty(), "{} has no remedy", cause.name);
                }
                other => panic!("{} should fire: {other:?}", cause.name),
            }
            assert_eq!((cause.evaluate)(&near_miss()), Outcome::Clear, "{} at its near miss", cause.name);
            assert!(
                matches!((cause.evaluate)(&missing()), Outcome::NotEnoughEvidence(_)),
                "{} without its evidence",
                cause.name
            );
        }
    }

    #[test]
    fn every_cause_comes_first_in_the_diagnosis_of_the_window_where_it_fires() {
        for (name, fires, ..) in CASES {
            let diagnosis = diagnose(&fires());
            assert_eq!(diagnosis.findings[0].cause, *name, "{:#?}", diagnosis.findings);
            assert!(diagnosis.findings[0].severity >= Severity::Warning, "{name}");
        }
    }

    #[test]
    fn a_healthy_busy_server_gets_no_finding_and_every_cause_is_examined() {
        for version in ["8.0.36", "9.7.4", "10.11.19-MariaDB"] {
            let diagnosis = diagnose(&Build::busy(version).window());
            assert_eq!(diagnosis.findings, [], "{version}");
            assert_eq!(diagnosis.not_examined, [], "{version}");
            assert_eq!(diagnosis.clear.len(), CAUSES.len(), "{version}");
        }
    }

    #[test]
    fn nothing_is_clear_where_nothing_was_read() {
        let diagnosis = diagnose(&Window::default());
        assert_eq!(diagnosis.findings, []);
        assert_eq!(diagnosis.clear, Vec::<String>::new());
        assert_eq!(diagnosis.not_examined.len(), CAUSES.len());
    }

    /// Words with a hyphen in the texts that name no cause.
    const COMPOUNDS: &[&str] = &[
        "eu-stack",
        "full-text",
        "longest-running",
        "low-water",
        "memory-map",
        "pile-up",
        "pool-of-threads",
        "power-protected",
        "pt-pmp",
        "semi-sync",
        "set-up",
        "wake-ups",
    ];

    #[test]
    fn texts_name_only_causes_that_exist() {
        let is_name = |word: &&str| {
            word.contains('-')
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && !word.starts_with('-')
                && !word.ends_with('-')
        };
        for cause in CAUSES {
            for (heading, text) in cause.documentation() {
                let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
                for word in words.filter(is_name).filter(|word| !COMPOUNDS.contains(word)) {
                    assert!(
                        find(word).is_some(),
                        "{}: {heading} names {word}, which is no cause",
                        cause.name
                    );
                }
            }
        }
    }

    #[test]
    fn every_cause_is_documented_under_every_heading() {
        for cause in CAUSES {
            for (heading, text) in cause.documentation() {
                assert!(text.len() > 80 && text.ends_with('.'), "{}: {heading}: {text}", cause.name);
            }
            assert!(!cause.references.is_empty(), "{}", cause.name);
            assert!(cause.title.len() <= 80, "{}", cause.name);
            assert!(find(&cause.name.to_uppercase()).is_some());
        }
    }
}
