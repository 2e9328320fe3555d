//! `latch-spin`: how long a thread spins on a latch, in time and not in PAUSEs.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::{spin_burn, spin_too_short};
use crate::latch_spin::LatchSpin;
use crate::spin_samples::{SpinSamples, Whose};

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "latch-spin",
    title: "how long a latch is spun on",
    cures: &[spin_burn::CAUSE.name, spin_too_short::CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLES: [&str; 3] =
    ["innodb_spin_wait_delay", "innodb_spin_wait_pause_multiplier", "innodb_sync_spin_loops"];

/// Share of the CPU samples below which nobody spins, whatever the settings permit (as for the commit spin).
const SPINS: f64 = 0.02;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let spin = LatchSpin::from_window(window)?;
    let (mean_us, meant_us) = (spin.mean_us(), spin.as_meant().mean_us());
    if let Some(finding) = examined.finding_cured_by(&FAMILY) {
        if let Some(proposal) = examined.remedies_of(finding, &VARIABLES) {
            return Ok(Advice::Propose(vec![proposal]));
        }
        return leave(format!(
            "latches are contended, but a full spin lasts {mean_us:.0} us, as it was meant to ({meant_us:.0}): see \
             who spins"
        ));
    }
    if spin.fits() {
        return leave(format!("a full spin lasts {mean_us:.0} us here, as it was meant to ({meant_us:.0})"));
    }
    // Where samples show that nothing spins, time is not lost by it; where there are none, the settings speak alone.
    match SpinSamples::unless_idle(window) {
        Ok(None) => {
            return leave(format!("a full spin lasts {mean_us:.0} us, but the server is nearly idle"));
        }
        Ok(Some(samples)) if spin.is_too_short() || samples.share(Whose::Latch) < SPINS => {
            return leave(format!(
                "a full spin lasts {mean_us:.0} us, not {meant_us:.0}, but {:.1} % of the CPU spins on latches and \
                 few sleep on them",
                samples.share(Whose::Latch) * 100.0
            ));
        }
        Err(missing) if !spin.is_far_off() => {
            return Err(Unavailable {
                because: format!(
                    "a full spin lasts {mean_us:.0} us, not {meant_us:.0}; whether anybody spins is not known: {}",
                    missing.because
                ),
                ..missing
            });
        }
        Ok(Some(_)) | Err(_) => {}
    }
    let corrections = spin.corrected();
    let changes =
        corrections.iter().filter_map(|c| examined.change(c.variable, format!("{:.0}", c.to))).collect();
    Ok(Advice::Propose(vec![Proposal::setting(
        changes,
        format!(
            "A full spin ({}) lasts {mean_us:.0} us with a PAUSE of {:.1} ns; it was meant to last {meant_us:.0}.",
            spin.words(),
            spin.pause_ns
        ),
        "Latches that are free again soon are then slept for, or those held for long burn CPU: watch the spin share.",
    )]))
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::host::PauseLatency;
    use spindoctor_model::{Reading, Window};

    use super::*;
    use crate::causes::spin_burn;
    use crate::testing::{Build, answer};

    pub(in crate::proposals) fn fires() -> Window {
        spin_burn::examples::fires()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        Build::busy("8.0.36").variable("innodb_spin_wait_delay", "12").window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        Build::busy("8.0.36").remote().window()
    }

    fn skylake(version: &str, spinning: f64) -> Build {
        Build::busy(version)
            .each(|at_s, _, host| {
                let tsc_ticks = Some(140.0);
                host.pause = answer(at_s, PauseLatency { ns: 47.0, tsc_ticks, ..PauseLatency::default() });
            })
            .cpu_samples(1000, spinning, &["ut_delay", "rw_lock_s_lock_spin"])
    }

    fn changes(window: &Window) -> Vec<(String, String)> {
        let plan = super::super::plan(window);
        let of_family = plan.proposals.into_iter().filter(|proposal| proposal.family == FAMILY.name);
        of_family.flat_map(|proposal| proposal.changes).map(|change| (change.variable, change.to)).collect()
    }

    #[test]
    fn the_remedies_of_one_finding_change_together() {
        let plan = super::super::plan(&fires());
        let proposal = &plan.proposals[0];
        assert_eq!(
            proposal.remedy.statement,
            "SET GLOBAL innodb_spin_wait_delay = 6, GLOBAL innodb_spin_wait_pause_multiplier = 50"
        );
        assert_eq!(
            proposal.remedy.undo,
            "SET GLOBAL innodb_spin_wait_pause_multiplier = 100, GLOBAL innodb_spin_wait_delay = 100"
        );
        assert_eq!(proposal.cause.as_deref(), Some("spin-burn"));
        assert_eq!(
            proposal.remedy.why.matches("A full spin then lasts").count(),
            1,
            "{}",
            proposal.remedy.why
        );
    }

    #[test]
    fn a_pause_of_140_cycles_asks_for_a_smaller_multiplier_once_latches_are_spun_on() {
        assert_eq!(
            changes(&skylake("8.0.36", 0.05).window()),
            [("innodb_spin_wait_pause_multiplier".to_owned(), "12".to_owned())]
        );
        assert_eq!(changes(&skylake("8.0.36", 0.001).window()), []);
    }

    #[test]
    fn without_samples_the_settings_and_the_pause_decide() {
        let mut window = skylake("5.7.44", 0.0).window();
        window.profile = Reading::Unavailable(Unavailable::because("no permission"));
        assert_eq!(changes(&window), [("innodb_spin_wait_delay".to_owned(), "2".to_owned())]);
        let mut nearer = near_miss();
        nearer.profile = window.profile;
        assert_eq!(changes(&nearer), [], "twice as long, and nobody is known to spin");
    }

    #[test]
    fn mariadb_takes_half_as_many_pauses_where_they_are_slow_and_still_spins_twice_as_long() {
        let window = skylake("10.11.19-MariaDB", 0.05).window();
        assert_eq!(changes(&window), [("innodb_spin_wait_delay".to_owned(), "2".to_owned())]);
    }
}
