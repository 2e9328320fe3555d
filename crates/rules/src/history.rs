//! The length of InnoDB's history list: row versions that purge has not removed yet.

use spindoctor_model::window::Series;
use spindoctor_model::{Sample, Unavailable, Window};

/// Where the length stands in what the server prints for people to read.
const STATUS: &str = "SHOW ENGINE INNODB STATUS";

/// Where the length stands among the metrics.
const METRIC: &str = "INNODB_METRICS trx_rseg_history_len";

/// The length over time, from the first source that has it, and which that is.
pub(crate) fn history(window: &Window) -> Result<(Series, &'static str), Unavailable> {
    let all = |pick: fn(&Sample) -> Option<f64>| -> Series {
        window.samples.iter().filter_map(|sample| Some((sample.at_s, pick(sample)?))).collect()
    };
    let of_variable: fn(&Sample) -> Option<f64> =
        |sample| sample.server.status.value()?.number("Innodb_history_list_length");
    let of_metric: fn(&Sample) -> Option<f64> = |sample| {
        let metric = sample.server.innodb_metrics.value()?.get("trx_rseg_history_len")?;
        metric.enabled.then_some(metric.count)
    };
    let of_status: fn(&Sample) -> Option<f64> =
        |sample| Some(sample.server.innodb_status.value()?.transactions.history_list_length? as f64);
    let sources = [
        (of_variable, "SHOW GLOBAL STATUS Innodb_history_list_length"),
        (of_metric, METRIC),
        (of_status, STATUS),
    ];
    let mut read = sources.into_iter().map(|(pick, source)| (all(pick), source));
    read.find(|(series, _)| !series.is_empty()).ok_or_else(|| {
        Unavailable::because("the length of the history list could not be read")
            .unlock("SET GLOBAL innodb_monitor_enable = 'trx_rseg_history_len', or where SHOW ENGINE INNODB STATUS is asked \
                     (fleet doctor does not) GRANT PROCESS")
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::innodb_status::TransactionsSection;
    use spindoctor_model::{InnodbStatus, Reading};

    use super::*;
    use crate::testing::{Build, answer};

    #[test]
    fn the_length_is_said_to_come_from_where_it_was_read() {
        let of = |build: Build| {
            let printed = build.each(|at_s, server, _| {
                let transactions =
                    TransactionsSection { history_list_length: Some(77), ..TransactionsSection::default() };
                server.innodb_status = answer(at_s, InnodbStatus { transactions, ..InnodbStatus::default() });
            });
            let (series, source) = history(&printed.window()).unwrap();
            (series[0].1, source)
        };
        let silent = || Build::busy("8.0.36").each(|_, server, _| server.innodb_metrics = Reading::NotAsked);
        assert_eq!(of(silent()), (77.0, STATUS));
        assert_eq!(of(Build::busy("8.0.36").metric("trx_rseg_history_len", 78.0, 0.0)), (78.0, METRIC));
        let counted = Build::busy("10.11.19-MariaDB").gauge("Innodb_history_list_length", 79.0);
        assert_eq!(of(counted), (79.0, "SHOW GLOBAL STATUS Innodb_history_list_length"));
    }
}
