//! Answers of servers as `mysql` clients printed them: vertical (`\\G`), boxed and tabbed.

use spindoctor_collect::mysql::{Rows, Source, global_status, global_variables, processlist, replica_status};
use spindoctor_collect::source::Answer;
use spindoctor_model::ServerSample;
use spindoctor_model::mysql::{NamedValues, ReplicaChannel, ServerThread};

use super::{fixtures, read};

/// What a source makes of a file; None where there is no collection.
fn sample(source: Source, file: &str) -> Option<ServerSample> {
    let (folder, name) = file.split_once('/').unwrap();
    let text = read(&fixtures(folder)?.join(name));
    let mut sample = ServerSample::default();
    (source.parse)(&parse(&text), Answer::default(), &mut sample);
    Some(sample)
}

fn list(file: &str) -> Option<Vec<ServerThread>> {
    Some(sample(processlist::SOURCE, &format!("processlist/{file}"))?.threads.value().unwrap().clone())
}

#[test]
fn reads_the_167_connections_of_a_busy_5_1_source() {
    let Some(threads) = list("pt-processlist-001.txt") else { return };
    assert_eq!(threads.len(), 167);
    // As `grep -c` counts them; the expected text beside the fixture has them rounded.
    let count = |command: &str| threads.iter().filter(|t| t.command == command).count();
    assert_eq!((count("Binlog Dump"), count("Connect"), count("Query"), count("Sleep")), (1, 2, 2, 162));
    let dump = &threads[0];
    assert_eq!(
        (dump.connection_id, dump.host.as_str(), dump.time_s),
        (Some(1531), "10.17.85.74", 9_133_994.0)
    );
    assert_eq!(dump.statement, None);
    let appliers = threads.iter().filter(|t| !t.is_connection).count();
    assert_eq!(appliers, 2, "the two `system user` threads");
}

#[test]
fn reads_states_and_statements_of_5_5_and_8_0() {
    let Some(locked) = list("pmp-locked-processlist-5.5-1.txt") else { return };
    assert_eq!(locked[0].state, "Waiting for table level lock");
    assert_eq!(locked[0].time_s, 480.0);
    assert!(locked[0].statement.is_some());
    let percona = list("pt-temp_enc008.txt").unwrap();
    assert_eq!(percona[0].user, "event_scheduler");
    assert!(!percona[0].is_connection);
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
        let Some(sample) = sample(global_status::SOURCE, &format!("status/{file}")) else { return };
        let status: &NamedValues = sample.status.value().unwrap();
        assert_eq!(status.number(name), Some(value), "{name} of {file}");
        assert_eq!(status.number("Binlog_snapshot_file"), None, "an empty value is no number");
    }
}

#[test]
fn reads_variables_from_5_1_to_8_0_in_any_layout() {
    let variables = |file: &str| {
        let sample = sample(global_variables::SOURCE, &format!("variables/{file}"))?;
        Some(sample.variables.value().unwrap().clone())
    };
    let Some(percona_8_0) = variables("pt-temp_enc008.txt") else { return };
    assert_eq!(percona_8_0.number("innodb_spin_wait_delay"), Some(6.0));
    assert_eq!(percona_8_0.text("admin_address"), Some(""));
    assert_eq!(percona_8_0.switch("performance_schema"), Some(true));
    let number = |file: &str, name: &str| variables(file).unwrap().number(name);
    assert_eq!(number("netdata-mysql-v8.0.30-global_variables.txt", "max_connections"), Some(151.0));
    assert_eq!(number("pt-vars004.txt", "AUTO_INCREMENT_INCREMENT"), Some(1.0));
    assert_eq!(number("pt-vars-baron-002.txt", "auto_increment_offset"), Some(2.0));
}

fn channels(file: &str) -> Option<Vec<ReplicaChannel>> {
    Some(
        sample(replica_status::SOURCE, &format!("replica_status/{file}"))?
            .replication
            .value()
            .unwrap()
            .clone(),
    )
}

#[test]
fn reads_replicas_that_run_that_lag_and_that_are_stopped() {
    let Some(running) = channels("replication-running-001.txt") else { return };
    let running = &running[0];
    assert_eq!((running.source_host.as_str(), running.source_port), ("master.db", 3306));
    assert_eq!((running.receiver_running.as_str(), running.applier_running.as_str()), ("Yes", "Yes"));
    assert!(running.received_position.is_some() && running.applied_position.is_some(), "{running:?}");
    assert_eq!(running.received_file, running.applied_file);
    let delayed = &channels("replication-delay-001.txt").unwrap()[0];
    assert!(delayed.behind_s.is_some_and(|s| s > 0.0), "{delayed:?}");
    assert_eq!(channels("replication-running-004.txt").unwrap()[0].behind_s, None);

    let channels = channels("netdata-mariadb-v10.8.4-all_slaves_status_multi_source.txt").unwrap();
    assert_eq!(channels.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["Master1", "Master2"]);
    assert_eq!(channels[0].applier_state, "Slave has read all relay log; waiting for more updates");
    assert_eq!(channels[0].behind_s, Some(0.0));
}

fn parse(text: &str) -> Rows {
    if text.trim_start().starts_with("***") {
        return vertical(text);
    }
    let boxed = text.starts_with('+');
    let mut lines = text.lines().filter(|line| !line.starts_with('+')).map(|line| match boxed {
        true => line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>(),
        false => line.split('\t').map(str::to_owned).collect(),
    });
    let headed =
        boxed || text.starts_with("Variable_name") || text.lines().next().unwrap().matches('\t').count() > 1;
    let columns = match headed {
        true => lines.next().unwrap(),
        // `mysql -N`: names and values without a header.
        false => vec!["Variable_name".into(), "Value".into()],
    };
    Rows::new(columns, lines.map(|cells| cells.into_iter().map(nullable).collect()).collect())
}

/// `*** 1. row ***`, then `  Name: value` a line; a line without a name goes on with the value.
fn vertical(text: &str) -> Rows {
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<Option<String>>> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("***") {
            rows.push(Vec::new());
        } else if let Some((name, value)) = line
            .split_once(':')
            .map(|(name, value)| (name.trim().to_owned(), value))
            .filter(|(name, _)| is_name(name) && (rows.len() == 1 || columns.contains(name)))
        {
            if rows.len() == 1 {
                columns.push(name);
            }
            rows.last_mut().unwrap().push(nullable(value.strip_prefix(' ').unwrap_or(value).to_owned()));
        } else if let Some(Some(value)) = rows.last_mut().and_then(|row| row.last_mut()) {
            value.push('\n');
            value.push_str(line);
        }
    }
    Rows::new(columns, rows)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn nullable(cell: String) -> Option<String> {
    (cell != "NULL").then_some(cell)
}
