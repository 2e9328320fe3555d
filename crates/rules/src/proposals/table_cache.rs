//! `table-cache`: open tables that are kept from one statement to the next.

use spindoctor_model::Unavailable;

use super::Family;
use super::advice::{Advice, Examined, leave};
use crate::causes::table_cache_contention;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "table-cache",
    title: "how many tables stay open between statements",
    cures: &[table_cache_contention::CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLE: &str = "table_open_cache";

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    if let Some(finding) = examined.finding_cured_by(&FAMILY) {
        return match examined.remedies_of(finding, &[VARIABLE]) {
            Some(proposal) => Ok(Advice::Propose(vec![proposal])),
            None => leave(format!("{}; a larger cache does not cure that", finding.headline)),
        };
    }
    let opened_per_s =
        window.need_growth("Opened_tables")? / window.need_change(|s| &s.server.status)?.seconds;
    leave(format!(
        "{opened_per_s:.1} tables are opened a second; {VARIABLE} = {}",
        window.variable(VARIABLE).unwrap_or("unknown")
    ))
}

#[cfg(test)]
pub(super) mod examples {
    pub(in crate::proposals) use crate::causes::table_cache_contention::examples::{
        fires, missing, near_miss,
    };
}
