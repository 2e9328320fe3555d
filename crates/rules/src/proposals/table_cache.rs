//! `table-cache`: open tables that are kept from one statement to the next.

use spindoctor_model::Unavailable;

use super::Family;
use super::advice::{Advice, Examined, leave};

/// The family.
pub(super) const FAMILY: Family =
    Family { name: "table-cache", title: "how many tables stay open between statements", propose };

/// The cause that it cures.
const CAUSE: &str = "table-cache-contention";

const VARIABLE: &str = "table_open_cache";

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    if let Some(finding) = examined.finding(CAUSE) {
        return match examined.remedies_of(finding, &[VARIABLE]) {
            Some(proposal) => Ok(Advice::Propose(vec![proposal])),
            None => leave("tables are opened all the time, but the cache is not full: something flushes it"),
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
pub(super) mod cases {
    pub(in crate::proposals) use crate::causes::table_cache_contention::cases::{fires, missing, near_miss};
}
