//! What performance_schema lists of the parts of a replica, each with its last error: `replication_applier_status_by_worker`,
//! `replication_applier_status_by_coordinator` and `replication_connection_status`.
//!
//! ```text
//!         CHANNEL_NAME:
//!            WORKER_ID: 1
//!        SERVICE_STATE: OFF
//!    LAST_ERROR_NUMBER: 1062
//!   LAST_ERROR_MESSAGE: Worker 1 failed executing transaction '...:3' at source log binlog.000001, end_log_pos 817; ...
//! ```

use std::collections::BTreeMap;

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::mysql::{ApplierError, ReplicaChannel};
use spindoctor_model::number;

/// Errors that are said.
const SAID: usize = 3;
/// Characters of an error that are shown.
const SHOWN: usize = 300;

/// True for the columns of such a list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    let has = |name: &str| columns.iter().any(|column| column == name);
    (has("last_error_number") || has("last_error_message"))
        && ["service_state", "worker_id", "channel_name"].iter().any(|name| has(name))
}

/// What such a list says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Parts {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// The channels of which a part has stopped with an error.
    pub(crate) channels: Vec<ReplicaChannel>,
    /// The errors of appliers.
    pub(crate) errors: Vec<ApplierError>,
}

/// True where the rows are of receivers: those of appliers have neither of these.
fn is_of_receivers(rows: &Rows) -> bool {
    const OWN: [&str; 3] =
        ["received_transaction_set", "count_received_heartbeats", "last_heartbeat_timestamp"];
    rows.names().iter().any(|name| OWN.iter().any(|own| name.eq_ignore_ascii_case(own)))
}

/// The number and the words of a part's error, where it has stopped with one.
fn error<'r>(row: &Row<'r>) -> Option<(Option<u32>, &'r str)> {
    let number: Option<u32> = row.number("last_error_number").filter(|&number| number > 0);
    let message = row.text("last_error_message").map(str::trim).unwrap_or_default();
    // What runs again keeps nothing but what it tries once more.
    let runs = row.text("service_state").is_some_and(|state| state.eq_ignore_ascii_case("ON"));
    (!runs && (number.is_some() || !message.is_empty())).then_some((number, message))
}

/// Reads such a list.
pub(crate) fn read(rows: &Rows) -> Parts {
    let is_receiver = is_of_receivers(rows);
    let mut channels: BTreeMap<String, ReplicaChannel> = BTreeMap::new();
    let mut parts = Parts::default();
    for row in rows.iter() {
        let Some((number, message)) = error(&row) else { continue };
        let name = row.string("channel_name");
        let channel = channels.entry(name.clone()).or_default();
        channel.name.clone_from(&name);
        if is_receiver {
            let is_connecting =
                row.text("service_state").is_some_and(|state| state.eq_ignore_ascii_case("CONNECTING"));
            channel.receiver_running = if is_connecting { "Connecting" } else { "No" }.to_owned();
            (channel.receiver_errno, channel.receiver_error) = (number, message.to_owned());
        } else {
            // The coordinator says that a worker failed, the worker why.
            if channel.applier_error.is_empty() || channel.worker_failed() {
                (channel.applier_errno, channel.applier_error) = (number, message.to_owned());
            }
            channel.applier_running = "No".to_owned();
            let error = ApplierError {
                channel: name,
                number: number.unwrap_or_default(),
                message: message.to_owned(),
            };
            let is_reason = error.number > 0 && !message.contains("replication_applier_status_by_worker");
            parts.errors.extend(is_reason.then_some(error));
        }
        if parts.says.len() < SAID {
            parts.says.push(sentence(&row, is_receiver, number, message));
        }
    }
    parts.channels = channels.into_values().collect();
    if parts.says.is_empty() {
        let count = number::counted(rows.len() as u64, "part", "parts");
        parts.says.push(format!("{count} of a replica, none of them stopped with an error"));
    }
    parts
}

/// `worker 1 of channel north stopped with error 1062: Could not execute Write_rows event on table shop.stock; ...`
fn sentence(row: &Row<'_>, is_receiver: bool, number: Option<u32>, message: &str) -> String {
    let worker = row.text("worker_id").map(|id| format!("worker {id}"));
    let who = match (is_receiver, worker) {
        (true, _) => "the receiver".to_owned(),
        (false, Some(worker)) => worker,
        (false, None) => "the applier".to_owned(),
    };
    let channel = row.text("channel_name").filter(|name| !name.is_empty());
    let channel = channel.map_or_else(String::new, |name| format!(" of channel {name}"));
    let error = number.map_or_else(|| "an error".to_owned(), |number| format!("error {number}"));
    let text: String = spindoctor_sql::error_without_values(message).chars().take(SHOWN).collect();
    let text = if text.is_empty() { text } else { format!(": {text}") };
    format!("{who}{channel} stopped with {error}{text}")
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;

    use crate::part::Kind;
    use crate::rows::STARS;
    use crate::{recognise, window};

    fn findings(text: &str) -> Vec<Finding> {
        spindoctor_rules::diagnose(&window(&recognise("x", text))).findings
    }

    /// A row of a list: its worker or what else stands first, its state, its error.
    fn row(first: &str, state: &str, number: u32, message: &str) -> String {
        format!(
            "{STARS} 1. row {STARS}\n         CHANNEL_NAME: \n{first}        SERVICE_STATE: {state}\n    LAST_ERROR_NUMBER: {number}\n   \
             LAST_ERROR_MESSAGE: {message}\n 1 row in set (0.00 sec)\n"
        )
    }

    const WORKER: &str = "            WORKER_ID: 1\n            THREAD_ID: NULL\n";
    const DUPLICATE: &str = "Worker 1 failed executing transaction 'ANONYMOUS' at source log b.000001, end_log_pos 8; Could not execute \
                             Write_rows event on table shop.stock; Duplicate entry '7' for key 'stock.PRIMARY', Error_code: 1062";

    #[test]
    fn a_worker_that_stopped_is_a_replica_that_applies_nothing() {
        let list = row(WORKER, "OFF", 1062, DUPLICATE);
        let parts = recognise("x", &list);
        assert_eq!(parts[0].kind, Kind::Appliers, "{parts:?}");
        assert!(parts[0].says[0].starts_with("worker 1 stopped with error 1062: "), "{:?}", parts[0].says);
        let found = findings(&list);
        assert_eq!(found[0].cause, "replica-lag", "{found:#?}");
        assert!(
            found[0].headline.starts_with("The applier has stopped with error 1062")
                && found[0].headline.contains("the replica of its source"),
            "{}",
            found[0].headline
        );
        let framed = "| WORKER_ID | SERVICE_STATE | LAST_ERROR_NUMBER | LAST_ERROR_MESSAGE |\n| 1 | OFF | 1205 | Worker 1 failed executing transaction \
             'a:1' at source log b.000001, end_log_pos 8; Lock wait timeout exceeded; try restarting transaction |\n";
        assert_eq!(recognise("x", framed)[0].kind, Kind::Appliers);
        assert_eq!(findings(framed)[0].cause, "replica-lag");
    }

    #[test]
    fn the_status_of_the_replica_says_more_and_the_worker_says_why() {
        let status = format!(
            "{STARS} 1. row {STARS}\n   Replica_IO_Running: Yes\n  Replica_SQL_Running: No\n          Source_Host: db7\n       Last_SQL_Errno: 1062\n       \
             Last_SQL_Error: Coordinator stopped because there were error(s) in the worker(s). See error log and/or \
             performance_schema.replication_applier_status_by_worker table for more details\n1 row in set (0.00 sec)\n\n"
        );
        let found = findings(&format!("{status}{}", row(WORKER, "OFF", 1062, DUPLICATE)));
        assert!(
            found[0].headline.contains("db7") && found[0].headline.contains("shop.stock"),
            "{}",
            found[0].headline
        );
    }

    #[test]
    fn a_receiver_that_was_stopped_beside_an_applier_that_runs_is_said() {
        let says = |receiver: &str, error: &str| -> String {
            let status = format!(
                "{STARS} 1. row {STARS}\n               Slave_IO_State: \n                  Master_Host: db7\n\
                 \x20            Slave_IO_Running: {receiver}\n            Slave_SQL_Running: Yes\n\
                 \x20       Seconds_Behind_Master: 3399\n                Last_IO_Error: {error}\n"
            );
            recognise("x", &status).into_iter().flat_map(|part| part.says).collect()
        };
        assert!(says("No", "").contains("nothing more comes from db7"), "{}", says("No", ""));
        for (receiver, error) in [("Yes", ""), ("Connecting", ""), ("No", "error connecting to master")] {
            assert_eq!(says(receiver, error), "", "{receiver} {error}");
        }
    }

    #[test]
    fn a_receiver_that_cannot_connect_is_one_and_what_runs_has_no_trouble() {
        let receiver = "CHANNEL_NAME\tSERVICE_STATE\tCOUNT_RECEIVED_HEARTBEATS\tLAST_ERROR_NUMBER\tLAST_ERROR_MESSAGE\n\
                        north\tCONNECTING\t0\t2003\terror connecting to source 'repl@db7:3306' - retry-time: 60\n";
        assert_eq!(findings(receiver)[0].cause, "replica-lag");
        let runs = row(WORKER, "ON", 0, "");
        assert_eq!(
            recognise("x", &runs)[0].says,
            ["1 part of a replica, none of them stopped with an error"]
        );
        assert!(findings(&runs).is_empty());
    }
}
