//! `purge`: row versions that nobody needs any more, removed as fast as they are made.

use spindoctor_model::{Proposal, Sample, Unavailable, Window};

use super::Family;
use super::advice::{Advice, Draft as _, Examined, leave};

/// The family.
pub(super) const FAMILY: Family =
    Family { name: "purge", title: "how much undo is removed at a time", propose };

const VARIABLE: &str = "innodb_purge_batch_size";

/// Its range ends there.
const LARGEST_BATCH: f64 = 5000.0;

/// A history shorter than this is no trouble: the manual's own example of a limit on it
/// (MySQL Reference Manual, `innodb_max_purge_lag`).
const LONG_HISTORY: f64 = 1e6;

/// A transaction that is open for longer than this may be what purge waits for.
const OLD_TRANSACTION_S: f64 = 60.0;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let history = history(window);
    let (Some(&(first_s, first)), Some(&(last_s, last))) = (history.first(), history.last()) else {
        return Err(Unavailable::because("the length of the history list could not be read")
            .unlock("GRANT PROCESS (for SHOW ENGINE INNODB STATUS)"));
    };
    if last < LONG_HISTORY {
        return leave(format!("the history list has {last:.0} entries"));
    }
    let told = format!("the history list has {:.1} million entries", last / 1e6);
    let per_s = (last - first) / (last_s - first_s).max(f64::MIN_POSITIVE);
    if per_s <= 0.0 {
        return leave(format!("{told} and gets shorter"));
    }
    let transactions = window.need(|s| &s.server.transactions)?;
    let oldest = transactions.iter().max_by(|a, b| a.age_s.total_cmp(&b.age_s));
    if let Some(oldest) = oldest.filter(|oldest| oldest.age_s >= OLD_TRANSACTION_S) {
        let connection = oldest.connection_id.map_or(String::new(), |id| format!(" (connection {id})"));
        return leave(format!(
            "{told}, and a transaction is open for {:.0} s{connection}: purge waits for it, whatever the settings",
            oldest.age_s
        ));
    }
    let now = window.need_variable(VARIABLE)?;
    // Four times as much at once: the search goes on from there.
    match examined.change(VARIABLE, format!("{:.0}", (4.0 * now).min(LARGEST_BATCH))) {
        None => {
            leave(format!("{told}; {VARIABLE} is at its largest: more innodb_purge_threads need a restart"))
        }
        Some(change) => Ok(Advice::Propose(vec![Proposal::setting(
            vec![change],
            format!(
                "{told} and grows by {per_s:.0} a second, with no old transaction that holds purge back."
            ),
            "Purge takes more CPU and I/O from statements while it catches up.",
        )])),
    }
}

/// The length of the history list over time, from whichever source tells it.
fn history(window: &Window) -> Vec<(f64, f64)> {
    let all = |pick: fn(&Sample) -> Option<f64>| -> Vec<(f64, f64)> {
        window.samples.iter().filter_map(|sample| Some((sample.at_s, pick(sample)?))).collect()
    };
    let by_status = all(|sample| sample.server.status.value()?.number("Innodb_history_list_length"));
    if !by_status.is_empty() {
        return by_status;
    }
    let by_metric = all(|sample| {
        let metric = sample.server.innodb_metrics.value()?.get("trx_rseg_history_len")?;
        metric.enabled.then_some(metric.count)
    });
    if !by_metric.is_empty() {
        return by_metric;
    }
    all(|sample| Some(sample.server.innodb_status.value()?.transactions.history_list_length? as f64))
}

#[cfg(test)]
pub(super) mod cases {
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
        Build::busy("8.0.36").window()
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
        assert!(left.because.contains("open for 900 s (connection 12)"), "{left:?}");
    }
}
