//! The length of InnoDB's history list: row versions that purge has not removed yet.

use spindoctor_model::window::Series;
use spindoctor_model::{Sample, Unavailable, Window};

/// The length over time, from the first source that has it.
pub(crate) fn history(window: &Window) -> Result<Series, Unavailable> {
    let all = |pick: fn(&Sample) -> Option<f64>| -> Series {
        window.samples.iter().filter_map(|sample| Some((sample.at_s, pick(sample)?))).collect()
    };
    let sources: [fn(&Sample) -> Option<f64>; 3] = [
        |sample| sample.server.status.value()?.number("Innodb_history_list_length"),
        |sample| {
            let metric = sample.server.innodb_metrics.value()?.get("trx_rseg_history_len")?;
            metric.enabled.then_some(metric.count)
        },
        |sample| Some(sample.server.innodb_status.value()?.transactions.history_list_length? as f64),
    ];
    sources.into_iter().map(all).find(|series| !series.is_empty()).ok_or_else(|| {
        Unavailable::because("the length of the history list could not be read")
            .unlock("SET GLOBAL innodb_monitor_enable = 'trx_rseg_history_len', or where SHOW ENGINE INNODB STATUS is asked \
                     (fleet doctor does not) GRANT PROCESS")
    })
}
