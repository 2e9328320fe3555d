//! `adaptive-hash`: the adaptive hash index, where its latch costs more than it saves.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::adaptive_hash_contention::{CAUSE, HASH, VARIABLE};
use crate::latch_time::LatchTime;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "adaptive-hash",
    title: "the adaptive hash index and its latch",
    cures: &[CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let variables = window.need(|s| &s.server.variables)?;
    if variables.switch(VARIABLE) != Some(true) {
        return leave("it is off, as it is by default in MySQL 8.4 and MariaDB 10.5 and later");
    }
    let Some(time) = LatchTime::from_window(window, &HASH)? else {
        return leave("it is on, and the server is nearly idle");
    };
    let reading = time.reading(&HASH);
    if !time.matters() {
        return leave(format!("it is on; {reading}"));
    }
    let proposal = Proposal::setting(
        examined.change(VARIABLE, "OFF").into_iter().collect(),
        format!("{reading}."),
        "Lookups by whole keys that it answered walk the index again, which costs CPU where the latch was not the \
         limit.",
    );
    let cost = "Switching it empties it at once, with all its latches held: a stall of some milliseconds for each \
                GiB; switched on again, it starts empty";
    Ok(Advice::Propose(vec![Proposal { score: Some(time.share()), ..proposal }.costs(cost)]))
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::Window;
    use spindoctor_model::stack::ThreadState;

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
