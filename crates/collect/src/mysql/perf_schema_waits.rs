//! `performance_schema.events_waits_summary_global_by_event_name`: what the threads waited for.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::WaitSummary;

use super::rows::Rows;
use super::source::{Plan, Source, performance_schema_grant, performance_schema_off, picoseconds_to_ns};
use crate::pace::Pace;
use crate::source::Cadence;

/// From 8.0 on (WL#6616) the summary has an index by name: only of instruments that are on the counts of all threads are
/// added up, one of ten by default.
const OF_THOSE_THAT_ARE_ON: &str = "SELECT w.EVENT_NAME, w.COUNT_STAR, w.SUM_TIMER_WAIT \
    FROM performance_schema.setup_instruments AS i \
    STRAIGHT_JOIN performance_schema.events_waits_summary_global_by_event_name AS w ON w.EVENT_NAME = i.NAME \
    WHERE i.ENABLED = 'YES' AND i.NAME LIKE 'wait/%' AND w.COUNT_STAR > 0 \
    ORDER BY w.SUM_TIMER_WAIT DESC LIMIT 100";

/// The source.
///
/// Cost: adds up one row for each instrument (some 500) over all live threads, without a lock: about
/// 20 ms for 400 threads; from MySQL 8.0 on, of those that are on, some 60 by default. Safe to ask every 10 s; it is asked
/// at the ends of a window.
///
/// Instruments that are off (all of wait/synch by default) count nothing and are not in the answer.
pub const SOURCE: Source = Source {
    name: "performance_schema.events_waits_summary_global_by_event_name",
    help: "waits by event: files, tables, sockets, and mutexes where they are instrumented",
    cost: "adds up the instruments that are on over all threads without a lock, 2 to 20 ms for 400",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(30, 300),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None if version.mysql_at_least(8, 0, 1) => Plan::Ask(OF_THOSE_THAT_ARE_ON),
        None => Plan::Ask(
            "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT \
             FROM performance_schema.events_waits_summary_global_by_event_name \
             WHERE COUNT_STAR > 0 ORDER BY SUM_TIMER_WAIT DESC LIMIT 100",
        ),
    },
    parse: |rows, answer, sample| sample.waits = answer.reading(waits(rows)),
    reading: ServerSample::field("waits"),
};

fn waits(rows: &Rows) -> Vec<WaitSummary> {
    rows.iter()
        .map(|row| WaitSummary {
            event: row.string("EVENT_NAME"),
            count: row.number("COUNT_STAR").unwrap_or(0),
            total_ns: picoseconds_to_ns(row, "SUM_TIMER_WAIT"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn converts_picoseconds_once() {
        let waits = waits(&fixture::tabbed(
            "EVENT_NAME\tCOUNT_STAR\tSUM_TIMER_WAIT\nwait/io/file/innodb/innodb_log_file\t12\t34567890\n",
        ));
        assert_eq!(waits[0].total_ns, 34_567);
    }
}
