//! Replication channels: `SHOW REPLICA STATUS`, `SHOW SLAVE STATUS`, `SHOW ALL SLAVES STATUS`.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::ReplicaChannel;

use super::rows::{Row, Rows};
use super::source::{Plan, Source};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source. A server that is no replica answers with no row.
///
/// Cost: a row for each channel, under the lock of the channel list; it waits while a STOP or START
/// of the replica is under way, so it is asked last. About 0.2 ms. Safe to ask every second.
pub const SOURCE: Source = Source {
    name: "SHOW REPLICA STATUS",
    help: "replication channels: running, seconds behind, errors",
    cost: "reads a row for each channel under the channel list's lock, 0.2 ms; waits for STOP REPLICA",
    grant: |version| {
        if version.mariadb_at_least(10, 5, 9) {
            "GRANT SLAVE MONITOR ON *.*"
        } else {
            "GRANT REPLICATION CLIENT ON *.*"
        }
    },
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(2, 30),
    plan: |version, _| {
        Plan::Ask(if version.mariadb_at_least(10, 0, 0) {
            "SHOW ALL SLAVES STATUS"
        } else if version.mysql_at_least(8, 0, 22) {
            "SHOW REPLICA STATUS"
        } else {
            "SHOW SLAVE STATUS"
        })
    },
    parse: |rows, answer, sample| sample.replication = answer.reading(channels(rows)),
    reading: ServerSample::field("replication"),
};

fn channels(rows: &Rows) -> Vec<ReplicaChannel> {
    rows.iter().map(channel).collect()
}

/// A channel in MySQL's words since 8.0.22, or in the older ones, which MariaDB keeps.
fn channel(row: Row<'_>) -> ReplicaChannel {
    let either =
        |new: &str, old: &str| row.text(new).or_else(|| row.text(old)).unwrap_or_default().to_owned();
    ReplicaChannel {
        name: either("Channel_Name", "Connection_name"),
        source_host: either("Source_Host", "Master_Host"),
        source_port: either("Source_Port", "Master_Port").parse().unwrap_or(0),
        receiver_running: either("Replica_IO_Running", "Slave_IO_Running"),
        applier_running: either("Replica_SQL_Running", "Slave_SQL_Running"),
        behind_s: row.number("Seconds_Behind_Source").or_else(|| row.number("Seconds_Behind_Master")),
        receiver_state: either("Replica_IO_State", "Slave_IO_State"),
        applier_state: row
            .text("Slave_SQL_State")
            .map_or_else(|| either("Replica_SQL_Running_State", "Slave_SQL_Running_State"), str::to_owned),
        receiver_error: row.string("Last_IO_Error"),
        receiver_errno: row.number("Last_IO_Errno").filter(|&number| number > 0),
        applier_error: row
            .text("Last_SQL_Error")
            .or_else(|| row.text("Last_Error"))
            .unwrap_or_default()
            .to_owned(),
        applier_errno: row
            .number("Last_SQL_Errno")
            .or_else(|| row.number("Last_Errno"))
            .filter(|&number| number > 0),
        received_file: either("Source_Log_File", "Master_Log_File"),
        received_position: row.number("Read_Source_Log_Pos").or_else(|| row.number("Read_Master_Log_Pos")),
        applied_file: either("Relay_Source_Log_File", "Relay_Master_Log_File"),
        applied_position: row.number("Exec_Source_Log_Pos").or_else(|| row.number("Exec_Master_Log_Pos")),
        relay_log_bytes: row.number("Relay_Log_Space"),
        sql_delay_s: row.number("SQL_Delay"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn captured(trouble: &str) -> Vec<(String, Vec<ReplicaChannel>)> {
        let all = fixture::captures(trouble, &SOURCE);
        assert!(all.len() >= 8, "only {} servers", all.len());
        all.into_iter().map(|(server, rows)| (server, channels(&rows))).collect()
    }

    #[test]
    fn reads_a_replica_that_lags_and_one_that_stopped_in_every_versions_words() {
        for (server, channels) in captured("replica-lag") {
            let lagging = &channels[0];
            assert_eq!((lagging.source_host.as_str(), channels.len()), ("127.0.0.1", 1), "{server}");
            assert_eq!(
                (lagging.receiver_running.as_str(), lagging.applier_running.as_str()),
                ("Yes", "Yes"),
                "{server}"
            );
            assert!(lagging.behind_s.is_some_and(|s| s >= 1.0), "{server}: {lagging:?}");
            // How far it has received and applied, in the source's files.
            assert_eq!(lagging.received_file, "source.000001", "{server}");
            assert!(lagging.received_position > lagging.applied_position, "{server}: {lagging:?}");
            assert!(
                lagging.applied_position.is_some() && lagging.source_port > 1024,
                "{server}: {lagging:?}"
            );
        }
        for (server, channels) in captured("replica-stopped") {
            let stopped = &channels[0];
            assert_eq!((stopped.applier_running.as_str(), stopped.behind_s), ("No", None), "{server}");
            assert!(!stopped.applier_error.is_empty(), "{server}: {stopped:?}");
            assert_eq!((stopped.applier_errno, stopped.receiver_errno), (Some(1062), None), "{server}");
            // Workers are the rule from 8.0.27 on, and their message stands elsewhere.
            let names_it = stopped.applier_error.contains("Duplicate entry");
            assert_eq!(stopped.worker_failed(), !names_it, "{server}: {stopped:?}");
        }
    }

    #[test]
    fn reads_every_channel_of_a_server_with_two_sources() {
        for (server, mut channels) in captured("replica-of-two") {
            channels.sort_by(|a, b| a.name.cmp(&b.name));
            assert_eq!(
                channels.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(),
                ["north", "south"],
                "{server}"
            );
            assert!(channels.iter().all(|c| c.behind_s == Some(0.0)), "{server}: {channels:?}");
            assert!(channels[0].applier_state.contains("has read all relay log"), "{server}: {channels:?}");
        }
    }

    #[test]
    fn reads_the_words_of_mysql_since_8_0_22() {
        let channels = channels(&fixture::tabbed(
            "Replica_IO_State\tSource_Host\tSource_Port\tReplica_IO_Running\tReplica_SQL_Running\tSeconds_Behind_Source\tChannel_Name\tLast_SQL_Error\tLast_Error\n\
             Waiting\tdb1\t3307\tYes\tNo\tNULL\tch1\tboom\tboom\n",
        ));
        assert_eq!((channels[0].source_host.as_str(), channels[0].source_port), ("db1", 3307));
        assert_eq!((channels[0].behind_s, channels[0].applier_error.as_str()), (None, "boom"));
        assert_eq!(channels[0].sql_delay_s, None, "this status has no such column");
    }

    #[test]
    fn a_replica_that_is_behind_on_purpose_is_late_only_beyond_that() {
        for (behind, late) in [("11", Some(0.0)), ("3700", Some(100.0)), ("NULL", None)] {
            for word in ["Source", "Master"] {
                let channels = channels(&fixture::tabbed(&format!(
                    "{word}_Host\tSeconds_Behind_{word}\tSQL_Delay\tSQL_Remaining_Delay\ndb1\t{behind}\t3600\t3589\n"
                )));
                assert_eq!((channels[0].sql_delay_s, channels[0].late_s()), (Some(3600.0), late), "{word}");
            }
        }
    }
}
