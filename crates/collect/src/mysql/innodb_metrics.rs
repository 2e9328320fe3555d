//! `information_schema.INNODB_METRICS`: InnoDB's own counters, with those that are switched off.

use std::collections::BTreeMap;

use spindoctor_model::mysql::InnodbMetric;
use spindoctor_model::{ServerSample, Unavailable};

use super::rows::Rows;
use super::source::{Plan, Source, process_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source.
///
/// Cost: some 200 to 320 counters are copied from memory; a few are computed from the buffer pool's
/// and the log's own fields without a lock that users wait for. About 1 ms. Safe to ask every second.
///
/// All rows are kept, the switched-off ones too: "off" is another answer than "no such metric".
pub const SOURCE: Source = Source {
    name: "information_schema.INNODB_METRICS",
    help: "InnoDB's counters: history list, checkpoint age, CPUs it counts",
    cost: "copies some 300 counters from memory, about 1 ms",
    grant: process_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(2, 30),
    plan: |version, _| {
        if version.is_mariadb() {
            // MariaDB calls the switch STATUS or ENABLED, depending on the release.
            Plan::Ask("SELECT * FROM information_schema.INNODB_METRICS")
        } else if version.mysql_at_least(5, 6, 0) {
            Plan::Ask("SELECT NAME, `COUNT`, STATUS FROM information_schema.INNODB_METRICS")
        } else {
            Plan::Cannot(Unavailable::because(format!("{version} has no INNODB_METRICS (5.6 and later do)")))
        }
    },
    parse: |rows, answer, sample| sample.innodb_metrics = answer.reading(metrics(rows)),
    reading: ServerSample::field("innodb_metrics"),
};

fn metrics(rows: &Rows) -> BTreeMap<String, InnodbMetric> {
    rows.iter()
        .filter_map(|row| {
            let enabled = row.text("STATUS").or_else(|| row.text("ENABLED"))?;
            let enabled = matches!(enabled, "enabled" | "1");
            Some((row.string("NAME"), InnodbMetric { count: row.number("COUNT")?, enabled }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn shows_a_metric_that_is_off_from_one_that_counts_in_both_dialects() {
        let mysql =
            fixture::tabbed("NAME\tCOUNT\tSTATUS\ntrx_rseg_history_len\t42\tenabled\ncpu_n\t0\tdisabled\n");
        let maria = fixture::tabbed("NAME\tCOUNT\tENABLED\ntrx_rseg_history_len\t42\t1\ncpu_n\t0\t0\n");
        for rows in [mysql, maria] {
            let metrics = metrics(&rows);
            assert_eq!(metrics["trx_rseg_history_len"], InnodbMetric { count: 42.0, enabled: true });
            assert!(!metrics["cpu_n"].enabled);
        }
    }
}
