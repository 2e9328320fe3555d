//! `purge`: row versions that nobody needs any more, removed as fast as they are made.

use spindoctor_model::{Proposal, Unavailable, number};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::purge_lag::{LONG_HISTORY, OLD_TRANSACTION_S, oldest};
use crate::history::history;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "purge",
    title: "how much undo is removed at a time",
    cures: &[],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

const VARIABLE: &str = "innodb_purge_batch_size";

/// Its range ends there.
const LARGEST_BATCH: f64 = 5000.0;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let (history, _) = history(window)?;
    let (Some(&(first_s, first)), Some(&(last_s, last))) = (history.first(), history.last()) else {
        return leave("the length of the history list is not known");
    };
    if last < LONG_HISTORY {
        return leave(format!("the history list has {last:.0} entries"));
    }
    let reading = format!("the history list has {:.1} million entries", last / 1e6);
    let per_s = (last - first) / (last_s - first_s).max(f64::MIN_POSITIVE);
    if per_s <= 0.0 {
        return leave(format!("{reading} and gets shorter"));
    }
    window.need(|s| &s.server.transactions)?;
    if let Some(open) = oldest(window, OLD_TRANSACTION_S).map(|oldest| oldest.open) {
        let connection = open.connection_id.map_or(String::new(), |id| format!(" (connection {id})"));
        return leave(format!(
            "{reading}, and a transaction is open for {}{connection}: purge waits for it, whatever the settings",
            number::duration(open.age_s)
        ));
    }
    let now = window.need_variable(VARIABLE)?;
    // Four times as much at once: the search goes on from there.
    match examined.change(VARIABLE, format!("{:.0}", (4.0 * now).min(LARGEST_BATCH))) {
        None => leave(format!(
            "{reading}; {VARIABLE} is at its largest: more innodb_purge_threads need a restart"
        )),
        Some(change) => Ok(Advice::Propose(vec![Proposal::setting(
            vec![change],
            format!(
                "{reading} and grows by {per_s:.0} a second, with no old transaction that holds purge back."
            ),
            "Purge takes more CPU and I/O from statements while it catches up.",
        )])),
    }
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::{Reading, Window};

    use super::*;
    use crate::testing::{Build, answer, transaction};

    fn long(per_s: f64) -> Build {
        Build::busy("8.0.36").variable(VARIABLE, "300").metric("trx_rseg_history_len", 2e6, per_s)
    }

    pub(in crate::proposals) fn fires() -> Window {
        long(3000.0).window()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        long(-3000.0).window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        Build::busy("8.0.36").each(|_, server, _| server.innodb_metrics = Reading::NotAsked).window()
    }

    #[test]
    fn an_old_transaction_is_named_instead_of_a_setting() {
        let window = long(3000.0)
            .each(|at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(12, "RUNNING", 900.0)]);
            })
            .window();
        let plan = super::super::plan(&window);
        let left = plan.left.iter().find(|left| left.family == FAMILY.name).unwrap();
        assert!(left.because.contains("open for 15 min 0 s (connection 12)"), "{left:?}");
    }
}
