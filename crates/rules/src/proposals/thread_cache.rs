//! `thread-cache`: threads of clients that left, kept for those that come.

use spindoctor_model::Unavailable;

use super::Family;
use super::advice::{Advice, Examined, leave};
use crate::causes::thread_cache_miss;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "thread-cache",
    title: "how many threads are kept for clients to come",
    cures: &[thread_cache_miss::CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLE: &str = "thread_cache_size";

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    if let Some(finding) = examined.finding_cured_by(&FAMILY)
        && let Some(proposal) = examined.remedies_of(finding, &[VARIABLE])
    {
        return Ok(Advice::Propose(vec![proposal]));
    }
    let made_per_s =
        window.need_growth("Threads_created")? / window.need_change(|s| &s.server.status)?.seconds;
    leave(format!(
        "{made_per_s:.1} threads are made a second; {VARIABLE} = {}",
        window.variable(VARIABLE).unwrap_or("unknown")
    ))
}

#[cfg(test)]
pub(super) mod examples {
    pub(in crate::proposals) use crate::causes::thread_cache_miss::examples::{fires, missing, near_miss};
}
