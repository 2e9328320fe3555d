//! `performance_schema.file_summary_by_event_name`: how long the logs' syncs take.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::FileSummary;

use super::rows::Rows;
use super::source::{Plan, Source, performance_schema_grant, performance_schema_off, picoseconds_to_ns};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source.
///
/// Cost: one row for each kind of file (some 60) is computed without a lock, two are sent.
///
/// The wait summary counts a log's writes and syncs together; here they are apart: what is neither read nor
/// write is opening, closing and syncing, and a log in use is opened and closed next to never.
pub const SOURCE: Source = Source {
    name: "performance_schema.file_summary_by_event_name",
    help: "syncs of the redo and binary logs: how many, and how long they take",
    cost: "adds up some 60 kinds of files without a lock",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(10, 120),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None => Plan::Ask(
            "SELECT EVENT_NAME, COUNT_MISC, SUM_TIMER_MISC \
             FROM performance_schema.file_summary_by_event_name \
             WHERE EVENT_NAME IN ('wait/io/file/innodb/innodb_log_file', 'wait/io/file/sql/binlog')",
        ),
    },
    parse: |rows, answer, sample| sample.log_files = answer.reading(log_files(rows)),
    reading: ServerSample::field("log_files"),
};

fn log_files(rows: &Rows) -> Vec<FileSummary> {
    rows.iter()
        .map(|row| FileSummary {
            event: row.string("EVENT_NAME"),
            sync_count: row.number("COUNT_MISC").unwrap_or(0),
            sync_ns: picoseconds_to_ns(row, "SUM_TIMER_MISC"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn syncs_are_distinguished_from_writes() {
        let files = log_files(&fixture::tabbed(
            "EVENT_NAME\tCOUNT_MISC\tSUM_TIMER_MISC\nwait/io/file/sql/binlog\t12\t34567890\n",
        ));
        assert_eq!((files[0].sync_count, files[0].sync_ns), (12, 34_567));
    }
}
