//! Errors of appliers and receivers, as the versions word them.

use spindoctor_model::Finding;
use spindoctor_model::mysql::ApplierError;

use super::super::tests::{found, replica};
use super::*;
use crate::testing::answer;

/// A replica whose channel is changed so.
fn broken(change: impl Fn(&mut ReplicaChannel) + Copy) -> crate::testing::Build {
    replica(|_| 0.0).each(move |_, server, _| {
        if let spindoctor_model::Reading::Available { value: channels, .. } = &mut server.replication {
            channels[0].behind_s = None;
            change(&mut channels[0]);
        }
    })
}

fn receiver(number: u32, error: &'static str) -> Finding {
    let build = broken(move |channel| {
        channel.receiver_running = "No".into();
        channel.receiver_errno = Some(number);
        channel.receiver_error = error.into();
    });
    found(&build.window())
}

fn shown(finding: &Finding, reading: &str) -> String {
    let one = finding.evidence.iter().find(|one| one.reading == reading);
    one.map_or_else(String::new, |one| format!("{:?}", one.value))
}

const COORDINATOR: &str = "Coordinator stopped because there were error(s) in the worker(s). The most recent failure being: Worker 1 \
    failed executing transaction '3d179476-e888-11f1-9657-02fc00000001:3' at source log source.000001, end_log_pos 817. See error log \
    and/or performance_schema.replication_applier_status_by_worker table for more details about this failure or others, if any.";

fn by_worker(message: Option<&'static str>) -> Finding {
    let build = broken(|channel| {
        channel.applier_running = "No".into();
        channel.applier_errno = Some(1062);
        channel.applier_error = COORDINATOR.into();
    });
    let build = build.each(move |at_s, server, _| {
        let of =
            |message: &str| ApplierError { number: 1062, message: message.into(), ..ApplierError::default() };
        server.applier_errors = answer(at_s, message.map(of).into_iter().collect());
    });
    found(&build.window())
}

#[test]
fn what_the_worker_says_is_shown_with_its_table_its_key_and_its_place() {
    let finding = by_worker(Some(
        "Worker 1 failed executing transaction '3d179476-e888-11f1-9657-02fc00000001:3' at source log source.000001, end_log_pos 817; \
         Could not execute Write_rows event on table shop.stock; Duplicate entry 'alice' for key 'stock.PRIMARY', Error_code: 1062; \
         handler error HA_ERR_FOUND_DUPP_KEY; the event's source log source.000001, end_log_pos 817",
    ));
    assert_eq!(
        finding.headline,
        "The applier has stopped with error 1062 (table shop.stock, key stock.PRIMARY): the replica of db1:3306 applies nothing"
    );
    let error = shown(&finding, "error");
    assert!(error.contains("1062: Could not execute Write_rows event on table shop.stock"), "{error}");
    assert!(!error.contains("alice"), "{error}");
    assert!(shown(&finding, "transaction").contains("end_log_pos 817"), "{:?}", finding.evidence);
    assert!(finding.remedies[0].statement.contains("DELETE it here"), "{:?}", finding.remedies);
    assert!(
        finding.remedies[0].statement.ends_with("then START REPLICA SQL_THREAD"),
        "{:?}",
        finding.remedies
    );
    let skip = &finding.remedies[1].statement;
    assert!(skip.contains("GTID_NEXT = '3d179476-e888-11f1-9657-02fc00000001:3'"), "{skip}");
}

#[test]
fn without_the_workers_message_the_place_is_shown_and_the_number_says_what_to_do() {
    let finding = by_worker(None);
    assert!(finding.headline.starts_with("The applier has stopped with error 1062:"), "{}", finding.headline);
    assert!(
        shown(&finding, "transaction").contains("source.000001, end_log_pos 817"),
        "{:?}",
        finding.evidence
    );
    assert!(finding.remedies[0].statement.contains("DELETE it here"), "{:?}", finding.remedies);
}

#[test]
fn a_damaged_relay_log_is_fetched_again_from_where_the_applier_stands() {
    let build = broken(|channel| {
        channel.applier_running = "No".into();
        channel.applier_errno = Some(13_121);
        channel.applier_error = "Relay log read failure: Could not parse relay log event entry.".into();
        channel.applied_file = "binlog.000003".into();
        channel.applied_position = Some(4711);
    });
    let finding = found(&build.window());
    assert_eq!(
        finding.remedies[0].statement,
        "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = 'binlog.000003', SOURCE_LOG_POS = 4711; START REPLICA"
    );
    let build = broken(|channel| {
        channel.applier_running = "No".into();
        channel.applier_errno = Some(1594);
        channel.applier_error = "Relay log read failure".into();
    });
    let finding = found(&build.variable("gtid_mode", "ON").window());
    assert_eq!(finding.remedies[0].statement, "STOP REPLICA; RESET REPLICA; START REPLICA");
}

#[test]
fn a_receiver_has_the_reason_of_its_source_and_a_remedy_for_it() {
    let purged = "Got fatal error 1236 from source when reading data from binary log: 'Could not find first log file name in binary \
                  log index file'";
    let finding = receiver(13_114, purged);
    assert_eq!(
        finding.headline,
        "The receiver does not run because of error 13114 (Could not find first log file name in binary log index file): the replica \
         gets nothing from db1:3306"
    );
    assert!(finding.remedies[0].statement.contains("from a copy of the source"), "{:?}", finding.remedies);
    let first = |number, error| receiver(number, error).remedies[0].statement.clone();
    for (number, error, words) in [
        (
            1236,
            "Got fatal error 1236 from master: 'log event entry exceeded max_allowed_packet'",
            "replica_max_allowed_packet",
        ),
        (
            1236,
            "Got fatal error 1236 from master when reading data from binary log: 'Client requested master to start replication from \
             position > file size'",
            "SOURCE_LOG_POS = 4",
        ),
        (
            1236,
            "Got fatal error 1236: 'A slave with the same server_uuid/server_id as this slave'",
            "auto.cnf",
        ),
        (
            1236,
            "Got fatal error 1236 from master when reading data from binary log: 'Slave has more GTIDs than the master has, using the \
             master's SERVER_UUID. This may indicate that the end of the binary log was truncated'",
            "GTID_SUBTRACT",
        ),
        (
            1236,
            "Got fatal error 1236 from master: 'Error: connecting slave requested to start from GTID 0-1-7, which is not in the master's \
             binlog. It probably means that the slave has diverged due to executing extra erroneous transactions'",
            "gtid_current_pos",
        ),
        (13_122, "Relay log write failure: could not queue event from source", "df of the folder"),
        (
            13_115,
            "Got a packet bigger than 'replica_max_allowed_packet' bytes",
            "max_allowed_packet = 1073741824",
        ),
        (13_117, "Fatal error: source and replica have equal MySQL server UUIDs", "auto.cnf"),
        (1045, "Error connecting to source 'repl@db1:3306'. Message: Access denied", "SOURCE_PASSWORD"),
        (
            2003,
            "Error connecting to source 'repl@db1:3306'. Message: Can't connect to MySQL server",
            "bind_address",
        ),
        (4711, "boom", "Mend what the error names"),
    ] {
        assert!(first(number, error).contains(words), "{number}: {}", first(number, error));
    }
}

#[test]
fn a_long_reason_is_cut_behind_a_word() {
    let of = |reason: &str| {
        let error = format!(
            "Got fatal error 1236 from master when reading data from binary log: '{reason}', Internal MariaDB error code: 1236"
        );
        receiver(1236, error.leak()).headline
    };
    let short = of("the replica's place is not in the log,");
    assert!(short.contains("(the replica's place is not in the log):"), "{short}");
    // A word goes on, or ends, at the 100th character.
    let long = of(&format!("{}abcd, abcdefgh, and so on", "abcd ".repeat(18)));
    assert!(long.contains("abcd abcd...): "), "{long}");
    let whole = of(&format!("{}e and so on", "abcd ".repeat(20).trim_end()));
    assert!(whole.contains("abcd abcde...): "), "{whole}");
}

#[test]
fn a_channel_with_a_name_is_named_and_its_statements_are_for_it() {
    let of = |version: &str| {
        let build = crate::testing::Build::busy(version).each(|at_s, server, _| {
            let channel = ReplicaChannel {
                name: "sales".into(),
                source_host: "db7".into(),
                source_port: 3306,
                receiver_running: "Yes".into(),
                applier_running: "No".into(),
                applier_errno: Some(1062),
                applier_error: "Duplicate entry".into(),
                ..ReplicaChannel::default()
            };
            server.replication = answer(at_s, vec![channel]);
        });
        found(&build.window())
    };
    let finding = of("8.0.36");
    assert!(finding.headline.contains("db7:3306 (channel sales)"), "{}", finding.headline);
    let statement = &finding.remedies[0].statement;
    assert!(statement.ends_with("START REPLICA SQL_THREAD FOR CHANNEL 'sales'"), "{statement}");
    let finding = of("10.11.19-MariaDB");
    let statement = &finding.remedies[0].statement;
    assert!(statement.ends_with("START SLAVE 'sales' SQL_THREAD"), "{statement}");
}

#[test]
fn a_node_of_a_cluster_skips_nothing() {
    let build = broken(|channel| {
        channel.applier_running = "No".into();
        channel.applier_errno = Some(1032);
        channel.applier_error = "Could not execute Delete_rows event on table shop.stock".into();
    });
    let finding = found(&build.variable("wsrep_on", "ON").window());
    assert!(finding.remedies[0].statement.contains("Compare the row on all nodes"), "{:?}", finding.remedies);
    let skips =
        |remedy: &Remedy| remedy.statement.contains("skip_counter") || remedy.statement.contains("GTID_NEXT");
    assert!(!finding.remedies.iter().any(skips), "{:?}", finding.remedies);
}

#[test]
fn a_number_is_taken_from_the_text_where_the_status_was_cut() {
    assert_eq!(number_in("Could not execute; Duplicate entry 'x', Error_code: 1062; handler"), Some(1062));
    assert_eq!(number_in("Got fatal error 1236 from source"), Some(1236));
    assert_eq!(number_in("boom"), None);
}
