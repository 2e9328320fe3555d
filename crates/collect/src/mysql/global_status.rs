//! `SHOW GLOBAL STATUS`: the server's counters and gauges.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::{NamedValues, STATUS_READ_WITHIN_S};

use super::rows::Rows;
use super::source::{Plan, Source};
use crate::pace::Pace;
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
    pace: Pace::server(1, STATUS_READ_WITHIN_S).adding_up_sessions().hurrying(),
    plan: |_, _| Plan::Ask("SHOW GLOBAL STATUS"),
    parse: |rows, answer, sample| sample.status = answer.reading(named_values(rows)),
    reading: ServerSample::field("status"),
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

    /// The status of each captured server.
    fn statuses() -> Vec<(String, NamedValues)> {
        let status = |(server, rows)| {
            let mut sample = ServerSample::default();
            (SOURCE.parse)(&rows, Answer::default(), &mut sample);
            (server, sample.status.value().unwrap().clone())
        };
        fixture::captures("calm", &SOURCE).into_iter().map(status).collect()
    }

    #[test]
    fn reads_the_counters_of_every_captured_server() {
        let statuses = statuses();
        assert!(statuses.len() >= 10, "only {} servers", statuses.len());
        for (server, status) in statuses {
            let document = spindoctor_corpus::document(&format!("{server}/calm")).unwrap();
            let text = &document.part(SOURCE.name).unwrap().text;
            for name in ["Threads_connected", "Questions", "Innodb_buffer_pool_pages_total", "Uptime"] {
                let said = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t')).unwrap();
                assert_eq!(status.number(name), said.parse().ok(), "{name} of {server}");
                assert_eq!(status.number(&name.to_lowercase()), status.number(name), "{server}");
            }
            assert!(status.number("Threads_connected").is_some_and(|connected| connected >= 3.0), "{server}");
        }
    }

    #[test]
    fn an_empty_value_is_kept_as_empty_text_and_is_no_number() {
        let statuses = statuses();
        let empty: Vec<_> =
            statuses.iter().filter(|(_, status)| status.text("Ssl_cipher") == Some("")).collect();
        assert!(empty.len() >= 5, "{} servers", empty.len());
        assert!(empty.iter().all(|(_, status)| status.number("Ssl_cipher").is_none()));
    }
}
