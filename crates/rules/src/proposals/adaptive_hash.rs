//! `adaptive-hash`: the adaptive hash index, where its latch costs more than it saves.

use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Proposal, Unavailable, Window};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::rank;
use crate::spin_samples::{self, SpinSamples};

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "adaptive-hash",
    title: "the adaptive hash index and its latch",
    cures: &[],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLE: &str = "innodb_adaptive_hash_index";

/// Its functions (btr0sea.cc) all begin so.
const FUNCTIONS: &str = "btr_search_";

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let variables = window.need(|s| &s.server.variables)?;
    if variables.switch(VARIABLE) != Some(true) {
        return leave("it is off, as it is by default in MySQL 8.4 and MariaDB 10.5 and later");
    }
    let Some(samples) = SpinSamples::unless_idle(window)? else {
        return leave("it is on, and the server is nearly idle");
    };
    let profile = samples.profile();
    if !spin_samples::names_innodb(profile) {
        return Err(spin_samples::without_names("it is on, and "));
    }
    let spun = samples.share_of(|sample| {
        sample.spin.is_some() && spin_samples::names(profile, sample).any(|name| name.starts_with(FUNCTIONS))
    });
    let share = spun.max(waited(window));
    if share < rank::WARNING_FROM {
        return leave(format!("it is on; {:.1} % of the time goes into its latch", share * 100.0));
    }
    let proposal = Proposal::setting(
        examined.change(VARIABLE, "OFF").into_iter().collect(),
        format!("{:.0} % of the time goes into waiting for its latch.", share * 100.0),
        "Lookups by whole keys that it answered walk the index again, which costs CPU where the latch was not the \
         limit.",
    );
    let cost = "Switching it empties it at once, with all its latches held: a stall of some milliseconds for each \
                GiB; switched on again, it starts empty";
    Ok(Advice::Propose(vec![Proposal { score: Some(share), ..proposal }.costs(cost)]))
}

/// Share of the threads at work that stand in its latch, from stacks; 0 without.
fn waited(window: &Window) -> f64 {
    let Some(profile) = window.profile.value() else { return 0.0 };
    let (mut at_work, mut waiting) = (0.0, 0.0);
    for observation in &profile.observations {
        let mut is_statement = false;
        let mut in_hash = false;
        for name in spin_samples::names(profile, observation) {
            is_statement |= name == "dispatch_command";
            in_hash |= name.starts_with(FUNCTIONS);
        }
        if is_statement && observation.state != ThreadState::NetworkIdle {
            at_work += 1.0;
            waiting += f64::from(u8::from(in_hash && observation.state == ThreadState::Lock));
        }
    }
    waiting / f64::max(at_work, 1.0)
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;
    use crate::testing::Build;

    fn spinning(share: f64) -> Build {
        Build::busy("8.0.36").variable(VARIABLE, "ON").cpu_samples(
            1000,
            share,
            &["ut_delay", "rw_lock_s_lock_spin", "btr_search_guess_on_hash", "btr_cur_search_to_nth_level"],
        )
    }

    pub(in crate::proposals) fn fires() -> Window {
        spinning(0.08).window()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        spinning(0.03).window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        spinning(0.08).without_profile().window()
    }

    #[test]
    fn a_mariadb_whose_build_names_its_functions_is_judged_by_them_and_a_stripped_one_says_what_is_missing() {
        let maria = |frames: &[&str]| {
            Build::busy("10.11.19-MariaDB").variable(VARIABLE, "ON").cpu_samples(1000, 0.08, frames).window()
        };
        let named =
            super::super::plan(&maria(&["ssux_lock::rd_lock", "btr_search_guess_on_hash", "do_command"]));
        assert!(named.proposals.iter().any(|proposal| proposal.family == FAMILY.name), "{named:?}");
        let stripped = super::super::plan(&maria(&["mariadbd+0x1234", "mariadbd+0x99"]));
        let missing = stripped.left.iter().find(|left| left.family == FAMILY.name && !left.examined).unwrap();
        assert!(missing.because.contains("has a name"), "{}", missing.because);
    }

    #[test]
    fn threads_that_sleep_on_its_latch_count_as_well() {
        let frames: &[&str] =
            &["sync_array_wait_event", "btr_search_drop_page_hash_index", "dispatch_command"];
        let window = spinning(0.0)
            .snapshots(&[
                (8, ThreadState::Lock, frames),
                (2, ThreadState::Running, &["row_upd", "dispatch_command"]),
            ])
            .window();
        let plan = super::super::plan(&window);
        assert_eq!(plan.proposals[0].remedy.statement, "SET GLOBAL innodb_adaptive_hash_index = OFF");
    }
}
