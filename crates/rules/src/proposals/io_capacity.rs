//! `io-capacity`: how many pages the background may flush, where it is at that limit and storage is not.

use spindoctor_model::{Proposal, Unavailable, Window};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::checkpoint_stall;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "io-capacity",
    title: "how many pages the background flushes",
    cures: &[],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const CAPACITY: &str = "innodb_io_capacity";
const MOST: &str = "innodb_io_capacity_max";

/// From this share of a limit on, the flushing is at it.
const AT_LIMIT: f64 = 0.9;

/// Storage that is busy for more of the time than this is itself the limit.
const STORAGE_BUSY: f64 = 0.7;

/// The search goes on from there.
const TIMES: f64 = 4.0;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let flushed_per_s = window.need_growth("Innodb_buffer_pool_pages_flushed")?
        / window.need_change(|s| &s.server.status)?.seconds;
    let capacity = window.need_variable(CAPACITY)?;
    // MySQL 5.5 has no maximum.
    let most = window.variable_number(MOST);
    let limit = most.map_or(format!("{capacity:.0}"), |most| format!("{capacity:.0} to {most:.0}"));
    let reading = format!("{flushed_per_s:.0} pages are flushed a second, of {limit}");
    if flushed_per_s < AT_LIMIT * capacity {
        return leave(reading);
    }
    let stalls = examined.finding(checkpoint_stall::CAUSE.name);
    let dirty = dirty_ratio(window);
    if stalls.is_none() && dirty.is_none_or(|dirty| dirty < AT_LIMIT) {
        return leave(format!(
            "{reading}, and that keeps up: neither redo nor dirty pages are at their limit"
        ));
    }
    if let Some(busy) = storage_busy(window).filter(|&busy| busy > STORAGE_BUSY) {
        return leave(format!("{reading}, but storage is busy for {:.0} % of the time", busy * 100.0));
    }
    // One variable at a time: which of the two may be set first depends on where they stand.
    let change = match most {
        Some(most) if flushed_per_s >= AT_LIMIT * most || capacity >= most => {
            examined.change(MOST, format!("{:.0}", TIMES * most))
        }
        Some(most) => examined.change(CAPACITY, format!("{:.0}", (TIMES * capacity).min(most))),
        None => examined.change(CAPACITY, format!("{:.0}", TIMES * capacity)),
    };
    let why = match stalls {
        Some(_) => format!("{reading}; the checkpoint does not keep up with the redo, and storage has room."),
        None => format!("{reading}; dirty pages are at their limit, and storage has room."),
    };
    let risk = super::risks::WRITES_MORE;
    let proposal = Proposal::setting(change.into_iter().collect(), why, risk);
    Ok(Advice::Propose(vec![match stalls {
        Some(finding) => proposal.after(finding),
        None => proposal,
    }]))
}

/// Dirty pages as a share of how many there may be; none where that is not known.
fn dirty_ratio(window: &Window) -> Option<f64> {
    let pages = window.status("Innodb_buffer_pool_pages_total").filter(|&pages| pages > 0.0)?;
    let limit = window.variable_number("innodb_max_dirty_pages_pct").filter(|&limit| limit > 0.0)?;
    Some(window.status("Innodb_buffer_pool_pages_dirty")? / pages * 100.0 / limit)
}

/// Share of the window in which the busiest disk worked; none where disks could not be read.
fn storage_busy(window: &Window) -> Option<f64> {
    let disks = window.change(|s| &s.host.disks)?;
    let busy = disks.last.iter().filter_map(|disk| {
        let before = disks.first.iter().find(|first| first.name == disk.name)?;
        Some(disk.busy_us.checked_sub(before.busy_us)? as f64 / 1e6 / disks.seconds)
    });
    busy.max_by(f64::total_cmp)
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;
    use crate::testing::Build;

    fn flushing(per_s: f64) -> Build {
        flushing_on("8.0.36", per_s).variable(MOST, "2000")
    }

    fn flushing_on(version: &str, per_s: f64) -> Build {
        Build::busy(version)
            .variable(CAPACITY, "200")
            .variable("innodb_max_dirty_pages_pct", "90.000000")
            .counter("Innodb_buffer_pool_pages_flushed", per_s)
            .gauge("Innodb_buffer_pool_pages_total", 100_000.0)
            .gauge("Innodb_buffer_pool_pages_dirty", 89_000.0)
    }

    pub(in crate::proposals) fn fires() -> Window {
        flushing(195.0).window()
    }

    /// It flushes as much as it may, and that is enough.
    pub(in crate::proposals) fn near_miss() -> Window {
        flushing(195.0).gauge("Innodb_buffer_pool_pages_dirty", 20_000.0).window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn proposed(window: &Window) -> Vec<String> {
        let plan = super::super::plan(window);
        let of_family = plan.proposals.into_iter().filter(|proposal| proposal.family == FAMILY.name);
        of_family.map(|proposal| proposal.remedy.statement).collect()
    }

    #[test]
    fn the_limit_that_is_reached_is_raised_unless_storage_is_the_limit() {
        assert_eq!(proposed(&fires()), ["SET GLOBAL innodb_io_capacity = 800"]);
        assert_eq!(proposed(&flushing(1990.0).window()), ["SET GLOBAL innodb_io_capacity_max = 8000"]);
        let busy = flushing(195.0)
            .each(|at_s, _, host| {
                if let spindoctor_model::Reading::Available { value: disks, .. } = &mut host.disks {
                    disks[0].busy_us = (at_s * 0.9e6) as u64;
                }
            })
            .window();
        assert_eq!(proposed(&busy), Vec::<String>::new());
    }

    #[test]
    fn where_the_server_has_no_maximum_the_capacity_itself_is_raised() {
        assert_eq!(
            proposed(&flushing_on("5.5.34", 1990.0).window()),
            ["SET GLOBAL innodb_io_capacity = 800"]
        );
    }
}
