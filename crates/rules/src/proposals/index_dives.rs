//! `index-dives`: how many values of a list the optimizer looks up before it runs the statement.

use spindoctor_model::{Proposal, Unavailable};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::below::is_below;
use crate::dives::{DIVES, lists_values};
use crate::rank;
use crate::spin_samples::SpinSamples;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "index-dives",
    title: "how many values of a list are looked up",
    cures: &[],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLE: &str = "eq_range_index_dive_limit";

/// The default of MySQL 5.6, before it became 200.
const FEWER: f64 = 10.0;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let Some(samples) = SpinSamples::unless_idle(window)? else {
        return leave("the server is nearly idle");
    };
    let profile = samples.profile();
    let share = samples.share_of(|sample| is_below(profile, sample, DIVES));
    let limit = window.need_variable(VARIABLE)?;
    let reading = format!("{:.1} % of the CPU goes into index dives; {VARIABLE} = {limit:.0}", share * 100.0);
    // 0 is no limit.
    let fewer = limit == 0.0 || limit > FEWER;
    let change = examined.change(VARIABLE, format!("{FEWER:.0}")).filter(|_| fewer);
    if lists_values(window) == Some(false) {
        return leave(format!("{reading}, by statements that compare with single values"));
    }
    match change {
        Some(change) if share >= rank::WARNING_FROM => {
            let proposal = Proposal::setting(
                vec![change],
                format!(
                    "{reading}. Lists of {FEWER:.0} values and more are then estimated from the index's statistics."
                ),
                "Where values are unevenly spread the statistics mislead, and a plan may change: compare EXPLAIN of the \
                 statements with lists first.",
            );
            let not_tried =
                "connections keep the value that they began with: a block of a trial would not show it";
            Ok(Advice::Propose(vec![Proposal {
                score: Some(share),
                not_tried: Some(not_tried.into()),
                ..proposal
            }]))
        }
        _ => leave(reading),
    }
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::Window;

    use super::*;
    use crate::testing::Build;

    fn diving(share: f64, limit: &str) -> Build {
        Build::busy("8.0.36").variable(VARIABLE, limit).cpu_samples(
            1000,
            share,
            &[
                "btr_cur_search_to_nth_level",
                "btr_estimate_n_rows_in_range_low",
                "ha_innobase::records_in_range",
            ],
        )
    }

    pub(in crate::proposals) fn fires() -> Window {
        diving(0.3, "200").window()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        diving(0.03, "200").window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        diving(0.3, "200").without_profile().window()
    }

    #[test]
    fn no_limit_is_lowered_and_a_low_one_stays() {
        let proposed = |limit| super::super::proposals(&diving(0.3, limit).window()).len();
        assert_eq!((proposed("0"), proposed("10"), proposed("2")), (1, 0, 0));
    }
}
