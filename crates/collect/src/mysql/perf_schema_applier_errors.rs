//! `performance_schema.replication_applier_status_by_worker`: why a worker of a replica's applier stopped.

use spindoctor_model::mysql::{ApplierError, ReplicaChannel};
use spindoctor_model::{ServerSample, Unavailable};

use super::replica_status;
use super::rows::Row;
use super::source::{Plan, Source, note_if_cut, performance_schema_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// Errors read at most: a replica has some ten workers, and the first that fails stops the others.
const LIMIT: usize = 64;

const STATEMENT: &str = "SELECT CHANNEL_NAME, LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE FROM \
                         performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_NUMBER <> 0 LIMIT 64";

/// The source. It is asked where a channel's status names this table; MariaDB's status has the message itself.
///
/// Cost: a row for each worker, under the channel list's lock.
pub const SOURCE: Source = Source {
    name: "performance_schema.replication_applier_status_by_worker",
    help: "why a worker of a replica's applier stopped, where its status does not say",
    cost: "nothing where no worker failed, else reads a row for each worker under the channel list's lock, 0.2 ms",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::with(replica_status::SOURCE.name),
    plan: |_, _| Plan::AskAbout(asked),
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.replication_applier_status_by_worker", rows, LIMIT, sample);
        sample.applier_errors = answer.reading(rows.iter().take(LIMIT).filter_map(error).collect());
    },
    reading: ServerSample::field("applier_errors"),
};

/// The statement, where the status of a channel has no more than that a worker failed.
fn asked(sample: &ServerSample) -> Result<Option<String>, Unavailable> {
    match (sample.replication.value(), sample.replication.unavailable()) {
        (Some(channels), _) => {
            Ok(channels.iter().any(ReplicaChannel::worker_failed).then(|| STATEMENT.to_owned()))
        }
        (None, Some(why)) => Err(why.clone()),
        (None, None) => Err(Unavailable::because("the replica's status was not read in this sample")),
    }
}

/// A row: a name that is empty for the default channel, `1062`, and
///
/// ```text
/// Worker 1 failed executing transaction '3d179476-...:3' at source log source.000001, end_log_pos 817; Could not execute Write_rows
/// event on table shop.stock; Duplicate entry '1' for key 'stock.PRIMARY', Error_code: 1062; ...
/// ```
fn error(row: Row<'_>) -> Option<ApplierError> {
    Some(ApplierError {
        channel: row.string("CHANNEL_NAME"),
        number: row.number("LAST_ERROR_NUMBER").filter(|&number| number > 0)?,
        message: row.string("LAST_ERROR_MESSAGE"),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::super::fixture;
    use super::*;
    use crate::source::Answer;

    #[test]
    fn reads_why_a_worker_stopped() {
        let rows = fixture::tabbed(
            "CHANNEL_NAME\tLAST_ERROR_NUMBER\tLAST_ERROR_MESSAGE\n\
             north\t1062\tWorker 1 failed executing transaction 'ANONYMOUS' at source log b.000001, end_log_pos 8; boom\n\
             south\t0\t\n",
        );
        let mut sample = ServerSample::default();
        (SOURCE.parse)(&rows, Answer::default(), &mut sample);
        let errors = sample.applier_errors.value().unwrap();
        assert_eq!(errors.len(), 1);
        assert_eq!((errors[0].channel.as_str(), errors[0].number), ("north", 1062));
        assert!(errors[0].message.ends_with("; boom"), "{errors:?}");
    }

    #[test]
    fn it_is_asked_where_a_status_names_it_and_nowhere_else() {
        let asked = |error: &str| {
            let channel = ReplicaChannel { applier_error: error.into(), ..ReplicaChannel::default() };
            let replication = Reading::Available { at_s: 0.0, took_ms: 0.1, value: vec![channel] };
            asked(&ServerSample { replication, ..ServerSample::default() }).unwrap().is_some()
        };
        assert!(asked("Worker 1 failed. See performance_schema.replication_applier_status_by_worker table"));
        assert!(!asked("Error 'Duplicate entry '1' for key 'PRIMARY'' on query") && !asked(""));
        assert!(super::asked(&ServerSample::default()).is_err());
    }
}
