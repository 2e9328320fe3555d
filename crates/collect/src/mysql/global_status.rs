//! `SHOW GLOBAL STATUS`: the server's counters and gauges.

use spindoctor_model::mysql::NamedValues;

use super::rows::Rows;
use super::source::{Plan, Source};
use crate::source::Cadence;

/// The source.
///
/// Cost: LOCK_status is held while the counters of every connection are added up, so it grows with
/// the number of connections: about 1 ms at 100, 3 ms at 1,000. InnoDB's part copies its counters.
/// No table, no row, no metadata lock. Safe to ask every second.
pub const SOURCE: Source = Source {
    name: "SHOW GLOBAL STATUS",
    help: "counters and gauges of the whole server",
    cost: "adds up the counters of every connection under LOCK_status, 1 to 3 ms",
    grant: |_| "",
    install: "",
    cadence: Cadence::EverySample,
    plan: |_, _| Plan::Ask("SHOW GLOBAL STATUS"),
    parse: |rows, answer, sample| sample.status = answer.reading(named_values(rows)),
    fail: |why, sample| sample.status.fail(why),
    answered: |sample| sample.status.value().is_some(),
};

/// The two columns of `SHOW STATUS` and `SHOW VARIABLES`.
pub(super) fn named_values(rows: &Rows) -> NamedValues {
    rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1).unwrap_or_default()))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::source::Answer;
    use spindoctor_model::ServerSample;

    fn status(file: &str) -> NamedValues {
        let mut sample = ServerSample::default();
        (SOURCE.parse)(&fixture::rows(&format!("status/{file}")), Answer::default(), &mut sample);
        sample.status.value().unwrap().clone()
    }

    #[test]
    fn reads_the_counters_of_every_captured_server() {
        // Server, a counter of it, its value as the file says it.
        for (file, name, value) in [
            ("pt-temp_enc008-mysql-status.txt", "Aborted_clients", 50.0),
            ("pt-temp002-mysql-status.txt", "Bytes_received", 197_237.0),
            ("pmp-status-variables-001.txt", "bytes_sent", 8284.0),
            ("netdata-percona-v8.0.29-global_status.txt", "aborted_connects", 1.0),
            ("netdata-mariadb-v10.8.4-galera-cluster-global_status.txt", "Aborted_connects_preauth", 0.0),
        ] {
            assert_eq!(status(file).number(name), Some(value), "{name} of {file}");
        }
    }

    #[test]
    fn an_empty_value_is_kept_as_empty_text_and_is_no_number() {
        let status = status("netdata-percona-v8.0.29-global_status.txt");
        assert_eq!(status.text("Binlog_snapshot_file"), Some(""));
        assert_eq!(status.number("Binlog_snapshot_file"), None);
    }
}
