//! `commit-spin`: the mark at which commits stop spinning, under a quota; and the redo log's own threads.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::quota_blind_spin;
use crate::commit_spin::{CommitSpin, too_few_for_log_threads};
use crate::rank;
use crate::spin_samples::{SpinSamples, Whose};

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "commit-spin",
    title: "how long a commit spins before it sleeps",
    cures: &[quota_blind_spin::CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const HWM: &str = "innodb_log_spin_cpu_pct_hwm";
const WRITER_THREADS: &str = "innodb_log_writer_threads";

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let version = examined.version()?;
    if version.is_mariadb() {
        return leave("a commit of MariaDB waits for one short delay at most, then sleeps: nothing spins");
    }
    if !version.mysql_at_least(8, 0, 0) {
        return leave("before MySQL 8.0 a commit does not spin");
    }
    let window = examined.window;
    if let Some(finding) = examined.finding_cured_by(&FAMILY) {
        let threads = without_writer_threads(examined).map(|proposal| proposal.after(finding));
        let both: Vec<Proposal> = examined.remedies_of(finding, &[HWM]).into_iter().chain(threads).collect();
        return match both.is_empty() {
            true => leave("commits spin, and no setting of this server shortens it"),
            false => Ok(Advice::Propose(both)),
        };
    }
    if let Some(spinning) = spinning(examined)
        && let Some(threads) = without_writer_threads(examined)
    {
        let score = Some(spinning);
        return Ok(Advice::Propose(vec![Proposal { score, ..threads }]));
    }
    if window.variable(WRITER_THREADS).is_some_and(|value| value.eq_ignore_ascii_case("OFF")) {
        return leave(
            "the redo log has no threads of its own (innodb_log_writer_threads=OFF): commits do not spin",
        );
    }
    let Some(spin) = CommitSpin::under_quota(window)? else {
        return leave("no quota: the server counts the CPUs that it is granted");
    };
    let CommitSpin { counted_cpus, granted_cpus, pct_hwm, .. } = spin;
    if spin.counts_right() {
        return leave(format!(
            "the server counts {counted_cpus:.0} CPUs, the quota grants {granted_cpus:.1}"
        ));
    }
    if spin.never_spins() {
        return leave(format!("a quota of {granted_cpus:.1} CPUs is too small for it to spin at all"));
    }
    let corrected = spin.corrected_hwm();
    match examined.change(HWM, format!("{corrected:.0}")).filter(|_| pct_hwm > corrected) {
        None => leave(format!("{HWM} = {pct_hwm:.0} fits {granted_cpus:.1} of {counted_cpus:.0} CPUs")),
        Some(change) => Ok(Advice::Propose(vec![Proposal::setting(
            vec![change],
            format!(
                "The server counts {counted_cpus:.0} CPUs, the quota grants {granted_cpus:.1}: half of that is \
                 {corrected:.0} %. Commits hardly spin now; when they do, they will not stop at the mark."
            ),
            "If the quota is raised or lifted, the mark is too low: commits then sleep where they could spin.",
        )])),
    }
}

/// Share of the CPU that commits and the redo log's threads spin away, where it is worth a word.
fn spinning(examined: &Examined<'_>) -> Option<f64> {
    let samples = SpinSamples::from_window(examined.window).ok()?;
    let share = samples.share(Whose::Commit) + samples.share(Whose::LogThreads);
    (share >= rank::WARNING_FROM).then_some(share)
}

/// Doing without the redo log's threads, where the granted CPUs are too few for them by the server's own rule.
fn without_writer_threads(examined: &Examined<'_>) -> Option<Proposal> {
    let window = examined.window;
    let granted = window.latest(|s| &s.host.effective_cpus)?.cpus;
    let binlog = window.variable("log_bin").is_some_and(|value| value.eq_ignore_ascii_case("ON"));
    let (too_few, rule) = too_few_for_log_threads(granted, binlog);
    let change = examined.change(WRITER_THREADS, "OFF").filter(|_| too_few)?;
    Some(Proposal::setting(
        vec![change],
        format!(
            "Commits then write and flush the redo log themselves; neither they nor threads of the log spin. \
             {granted:.1} CPUs are granted; MySQL 9.5 and later has such threads {rule}."
        ),
        "At high concurrency on many CPUs a commit that does it all itself takes longer.",
    ))
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::Window;

    use super::*;
    use crate::causes::quota_blind_spin;
    use crate::testing::Build;

    pub(in crate::proposals) fn fires() -> Window {
        quota_blind_spin::examples::fires()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        Build::busy("8.0.36").quota(4.0, 4).window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        Build::busy("8.0.36").remote().window()
    }

    fn changes(window: &Window) -> Vec<(String, String, String)> {
        let plan = super::super::plan(window);
        let of_family = plan.proposals.into_iter().filter(|proposal| proposal.family == FAMILY.name);
        of_family.flat_map(|proposal| proposal.changes).map(|c| (c.variable, c.from, c.to)).collect()
    }

    #[test]
    fn the_published_case_gets_the_mark_and_the_way_without_threads_of_the_log() {
        assert_eq!(
            changes(&fires()),
            [
                (HWM.to_owned(), "50".to_owned(), "8".to_owned()),
                (WRITER_THREADS.to_owned(), "ON".to_owned(), "OFF".to_owned())
            ]
        );
    }

    #[test]
    fn a_mark_that_is_wrong_under_a_quota_is_put_right_before_it_hurts() {
        let calm = Build::busy("8.0.36").quota(2.0, 6).counted_cpus(6, 20.0).window();
        assert_eq!(changes(&calm), [(HWM.to_owned(), "50".to_owned(), "16".to_owned())]);
        let plan = super::super::plan(&calm);
        assert_eq!(plan.proposals[0].cause, None);
        assert_eq!(plan.proposals[0].remedy.undo, "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 50");
    }

    #[test]
    fn threads_of_the_log_that_spin_without_a_quota_are_done_without() {
        let window = Build::busy("8.0.36").cpu_samples(1000, 0.2, &["log_writer", "start_thread"]).window();
        assert_eq!(changes(&window), [(WRITER_THREADS.to_owned(), "ON".to_owned(), "OFF".to_owned())]);
        let many = Build::busy("8.0.36")
            .cpu_samples(1000, 0.2, &["log_writer", "start_thread"])
            .variable("log_bin", "OFF")
            .each(|_, _, host| {
                if let spindoctor_model::Reading::Available { value, .. } = &mut host.effective_cpus {
                    value.cpus = 16.0;
                }
            })
            .window();
        assert_eq!(changes(&many), []);
    }

    #[test]
    fn mariadb_and_old_servers_are_shown_that_nothing_spins() {
        for version in ["10.11.19-MariaDB", "5.7.44"] {
            let plan = super::super::plan(&Build::busy(version).quota(1.0, 6).window());
            let left = plan.left.iter().find(|left| left.family == FAMILY.name).unwrap();
            assert!(left.examined, "{version}: {left:?}");
        }
    }
}
