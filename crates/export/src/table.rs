//! What is exported: each table with its columns. Its rows are made in `rows.rs`.

use std::collections::HashMap;

use jiff::Timestamp;
use spindoctor_model::{Event, Gap, RecordedSample, RecordedSetting, Segment, SessionTime};
use spindoctor_record::OverviewPoint;
use spindoctor_sessions::AtWork;

use self::Kind::{Integer, Real, Text, Time, Truth};
use super::rows;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An instant, to the millisecond, UTC.
    Time,
    /// A whole number.
    Integer,
    /// Any other number.
    Real,
    /// Text.
    Text,
    /// True or false.
    Truth,
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    /// Its name, with the unit.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// Nobody knows.
    Nothing,
    /// An instant.
    Time(Timestamp),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// True or false.
    Truth(bool),
}

/// Takes rows, each with a cell for each column.
pub type EachRow<'a> = dyn FnMut(&[Cell<'_>]) -> anyhow::Result<()> + 'a;

/// Where rows go.
pub trait Sink {
    /// Takes a row with a cell for each column.
    fn row(&mut self, cells: &[Cell<'_>]) -> anyhow::Result<()>;

    /// Writes what is not yet written.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}

/// A table that is exported.
#[derive(Debug)]
pub struct Table {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// What a row is.
    pub help: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
    /// What its rows follow from.
    pub rows: Rows,
}

/// What the rows of a table follow from.
#[derive(Debug, Clone, Copy)]
pub enum Rows {
    /// From each sample.
    Samples(fn(&Whose<'_>, &RecordedSample, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From the lists of threads in each sample, a row for each: they take ten times as long to read as all the rest.
    Threads(fn(&Whose<'_>, &RecordedSample, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From the sessions at work in each list of threads.
    Sessions(fn(&Whose<'_>, &AtWork, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From the first sample of each minute.
    Minutes(fn(&Whose<'_>, &OverviewPoint, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From the samples of each minute together.
    Accounts(fn(&Whose<'_>, &Account, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From each event.
    Events(fn(&Whose<'_>, &Event, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From each change of a setting.
    Settings(fn(&Whose<'_>, &RecordedSetting, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From each gap.
    Gaps(fn(&Whose<'_>, &Gap, &mut EachRow<'_>) -> anyhow::Result<()>),
    /// From each segment.
    Segments(fn(&Whose<'_>, &Segment, &mut EachRow<'_>) -> anyhow::Result<()>),
}

impl Table {
    /// True for a table that follows from the lists of threads in each sample: to read these takes many times as long as all the
    /// rest, and so do rows of them to write.
    pub fn needs_lists(&self) -> bool {
        matches!(self.rows, Rows::Threads(_) | Rows::Sessions(_) | Rows::Accounts(_))
    }
}

/// Where the sessions' time went in a minute, of one segment.
#[derive(Debug)]
pub struct Account {
    /// The segment's number.
    pub segment: u64,
    /// Its first sample.
    pub at: Timestamp,
    /// From there to its last sample, seconds.
    pub seconds: f64,
    /// The account.
    pub time: SessionTime,
}

/// Whose recording it is.
#[derive(Debug)]
pub struct Whose<'a> {
    pub(super) segments: HashMap<u64, &'a Segment>,
    pub(super) first: &'a str,
}

impl<'a> Whose<'a> {
    /// Of these segments.
    pub fn from_segments(segments: &'a [Segment]) -> Self {
        Self {
            segments: segments.iter().map(|segment| (segment.id, segment)).collect(),
            first: segments.first().map(server).unwrap_or_default(),
        }
    }

    /// The same; what belongs to no segment is the server's of this one.
    pub fn above_all_of(self, segment: &'a Segment) -> Self {
        Self { first: server(segment), ..self }
    }

    /// The server of a segment, so that recordings of many servers fit into one table.
    pub(super) fn server(&self, segment: u64) -> &'a str {
        self.segments.get(&segment).map_or(self.first, |segment| server(segment))
    }
}

/// Its host name, or its address where it never said its host.
pub fn server(segment: &Segment) -> &str {
    let server = &segment.server;
    if server.hostname.is_empty() { &server.address } else { &server.hostname }
}

/// The table of that name.
pub fn by_name(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// Every table, in the order in which help names them.
pub const TABLES: &[Table] = &[
    Table {
        name: "samples",
        help: "a number that a source said at one instant: counters cumulative, as read",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("source", Text),
            column("name", Text),
            column("value", Real),
        ],
        rows: Rows::Samples(rows::samples),
    },
    Table {
        name: "minutes",
        help: "what a timeline shows, of the first sample of each minute: counters cumulative, as read",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("uptime_s", Integer),
            column("questions", Integer),
            column("commits", Integer),
            column("slow_queries", Integer),
            column("threads_connected", Integer),
            column("threads_running", Integer),
            column("threads_running_max", Integer),
            column("rows_read", Integer),
            column("rows_changed", Integer),
            column("checkpoint_age_bytes", Integer),
            column("server_cpu_us", Integer),
            column("host_busy_us", Integer),
            column("host_idle_us", Integer),
            column("throttled_us", Integer),
            column("disk_read_bytes", Integer),
            column("disk_written_bytes", Integer),
            column("replica_behind_s", Real),
        ],
        rows: Rows::Minutes(rows::minutes),
    },
    Table {
        name: "session_time",
        help: "where the time of sessions at work went in a minute: a row for each class of it, as doctor has them",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("seconds", Real),
            column("class", Text),
            column("sessions", Real),
            column("share", Real),
            column("known_by", Text),
        ],
        rows: Rows::Accounts(rows::session_time),
    },
    Table {
        name: "sessions_at_work",
        help: "how many sessions were at work at one instant, by class of their time and statement: waits second by second",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("seconds", Real),
            column("class", Text),
            column("digest_text", Text),
            column("sessions", Real),
            column("state", Text),
            column("known_by", Text),
            column("has_lock_waits", Truth),
        ],
        rows: Rows::Sessions(rows::sessions_at_work),
    },
    Table {
        name: "threads",
        help: "a thread of the server at one instant, as the server lists it",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("connection_id", Integer),
            column("thread_os_id", Integer),
            column("name", Text),
            column("user", Text),
            column("host", Text),
            column("schema", Text),
            column("command", Text),
            column("time_s", Real),
            column("state", Text),
            column("statement", Text),
            column("digest_text", Text),
        ],
        rows: Rows::Threads(rows::threads),
    },
    Table {
        name: "thread_cpu",
        help: "a thread of the server at one instant, as the kernel lists it: cumulative times",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("thread_os_id", Integer),
            column("name", Text),
            column("state", Text),
            column("user_us", Integer),
            column("system_us", Integer),
            column("ran_ns", Integer),
            column("run_queue_ns", Integer),
        ],
        rows: Rows::Threads(rows::thread_cpu),
    },
    Table {
        name: "digests",
        help: "a statement without its literals, and what it had cost by then: cumulative",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("schema", Text),
            column("digest", Text),
            column("text", Text),
            column("executions", Integer),
            column("total_ns", Integer),
            column("lock_ns", Integer),
            column("rows_examined", Integer),
            column("rows_sent", Integer),
            column("rows_affected", Integer),
            column("full_joins", Integer),
            column("full_scans", Integer),
            column("disk_temporary_tables", Integer),
        ],
        rows: Rows::Samples(rows::digests),
    },
    Table {
        name: "waits",
        help: "what threads waited for, by performance_schema's names: cumulative",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("event", Text),
            column("count", Integer),
            column("total_ns", Integer),
        ],
        rows: Rows::Samples(rows::waits),
    },
    Table {
        name: "hosts",
        help: "the server's host when a segment began: its CPU, the length of a PAUSE, CPUs that the server is granted",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("time", Time),
            column("cpu", Text),
            column("vendor", Text),
            column("family", Integer),
            column("model", Integer),
            column("microarchitecture", Text),
            column("is_virtual", Truth),
            column("instruction", Text),
            column("pause_ns", Real),
            column("pause_cycles", Real),
            column("pause_tsc_ticks", Real),
            column("granted_cpus", Real),
            column("online_cpus", Integer),
            column("numa_nodes", Integer),
        ],
        rows: Rows::Samples(rows::hosts),
    },
    Table {
        name: "settings",
        help: "a global variable when it was first read, and each time that it had changed",
        columns: &[column("server", Text), column("time", Time), column("name", Text), column("value", Text)],
        rows: Rows::Settings(rows::settings),
    },
    Table {
        name: "events",
        help: "a stall: when, why, and its first cause",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("event", Integer),
            column("began", Time),
            column("ended", Time),
            column("kind", Text),
            column("because", Text),
            column("cause", Text),
            column("headline", Text),
        ],
        rows: Rows::Events(rows::events),
    },
    Table {
        name: "findings",
        help: "a cause that was found in an event, the costliest first",
        columns: &[
            column("server", Text),
            column("event", Integer),
            column("rank", Integer),
            column("cause", Text),
            column("severity", Text),
            column("score", Real),
            column("headline", Text),
            column("why", Text),
            column("remedy", Text),
            column("root_connection_id", Integer),
            column("root_user", Text),
            column("root_statement", Text),
        ],
        rows: Rows::Events(rows::findings),
    },
    Table {
        name: "wait_edges",
        help: "who waited for whom at one instant of an event",
        columns: &[
            column("server", Text),
            column("event", Integer),
            column("time", Time),
            column("waiter_connection_id", Integer),
            column("waiter_thread_os_id", Integer),
            column("holder_connection_id", Integer),
            column("holder_thread_os_id", Integer),
            column("kind", Text),
            column("object", Text),
            column("mode", Text),
            column("waited_s", Real),
            column("is_inferred", Truth),
        ],
        rows: Rows::Events(rows::wait_edges),
    },
    Table {
        name: "probes",
        help: "an answer to the question that is asked ten times a second, around an event",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("event", Integer),
            column("time", Time),
            column("took_ms", Real),
            column("answered", Truth),
            column("failure", Text),
            column("threads_running", Integer),
            column("threads_connected", Integer),
            column("questions", Integer),
            column("commits", Integer),
            column("checkpoint_age_bytes", Integer),
        ],
        rows: Rows::Events(rows::probes),
    },
    Table {
        name: "segments",
        help: "a stretch with one clock and one process of the server",
        columns: &[
            column("server", Text),
            column("segment", Integer),
            column("began", Time),
            column("address", Text),
            column("version", Text),
            column("pid", Integer),
            column("written_by", Text),
        ],
        rows: Rows::Segments(rows::segments),
    },
    Table {
        name: "gaps",
        help: "time of which there are no samples, and why",
        columns: &[column("server", Text), column("from", Time), column("to", Time), column("because", Text)],
        rows: Rows::Gaps(rows::gaps),
    },
];

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashSet;

    use spindoctor_sessions::Reader;

    use super::*;

    use crate::examples;

    /// Every row of a table, of one sample and one event of a hand-made recording; text copied.
    pub fn rows_of(table: &Table) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        visit(table, &mut |cells| {
            rows.push(cells.iter().map(|cell| format!("{cell:?}")).collect());
            Ok(())
        });
        rows
    }

    /// The same, row by row.
    pub fn visit(table: &Table, each: &mut EachRow<'_>) {
        let segments = examples::segments();
        let whose = Whose::from_segments(&segments);
        match table.rows {
            Rows::Minutes(rows) => {
                let point = OverviewPoint {
                    segment: 1,
                    questions: Some(812),
                    replica_behind_s: Some(0.5),
                    ..OverviewPoint::default()
                };
                rows(&whose, &point, each).unwrap();
            }
            Rows::Accounts(rows) => rows(&whose, &examples::account(), each).unwrap(),
            Rows::Samples(rows) | Rows::Threads(rows) => {
                for sample in examples::samples() {
                    rows(&whose, &sample, each).unwrap();
                }
            }
            Rows::Sessions(rows) => {
                let mut reader = Reader::default();
                for list in examples::samples().iter().filter_map(|sample| reader.read(sample)) {
                    rows(&whose, &list, each).unwrap();
                }
            }
            Rows::Events(rows) => rows(&whose, &examples::event(), each).unwrap(),
            Rows::Settings(rows) => {
                examples::settings().iter().for_each(|setting| rows(&whose, setting, each).unwrap());
            }
            Rows::Gaps(rows) => {
                let gap = Gap { because: "a, \"b\"\nc".to_owned(), ..Gap::default() };
                rows(&whose, &gap, each).unwrap();
            }
            Rows::Segments(rows) => {
                segments.iter().for_each(|segment| rows(&whose, segment, each).unwrap());
            }
        }
    }

    #[test]
    fn every_row_has_a_cell_of_the_right_kind_for_each_column() {
        for table in TABLES {
            let mut count = 0;
            visit(table, &mut |cells| {
                assert_eq!(cells.len(), table.columns.len(), "{}", table.name);
                for (cell, column) in cells.iter().zip(table.columns) {
                    let kind = match cell {
                        Cell::Nothing => continue,
                        Cell::Time(_) => Time,
                        Cell::Integer(_) => Integer,
                        Cell::Real(_) => Real,
                        Cell::Text(_) => Text,
                        Cell::Truth(_) => Truth,
                    };
                    assert_eq!(kind, column.kind, "{}.{}", table.name, column.name);
                }
                count += 1;
                Ok(())
            });
            assert!(count > 0, "{} has no row", table.name);
        }
    }

    #[test]
    fn tables_and_columns_have_names_of_their_own() {
        let names: HashSet<&str> = TABLES.iter().map(|table| table.name).collect();
        assert_eq!(names.len(), TABLES.len());
        for table in TABLES {
            let columns: HashSet<&str> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
            assert_eq!(by_name(table.name).map(|found| found.name), Some(table.name));
        }
    }

    #[test]
    fn a_sample_gives_a_row_for_each_number_with_its_source() {
        let rows = rows_of(by_name("samples").unwrap());
        let has = |source: &str, name: &str| {
            let (source, name) = (format!("Text({source:?})"), format!("Text({name:?})"));
            rows.iter().any(|row| row[3] == source && row[4] == name)
        };
        assert!(has("status", "questions") && has("host_process", "user_us"), "{rows:?}");
        assert!(has("took_ms", "status"));
    }

    #[test]
    fn a_list_in_which_nobody_is_at_work_has_a_row_so_that_means_count_it() {
        let cells = |table: &str| rows_of(by_name(table).unwrap());
        let rows = cells("sessions_at_work");
        // The first and the last of three lists have a session that runs, the second has none.
        let text: Vec<_> =
            rows.iter().map(|row| (row[3].as_str(), row[4].as_str(), row[6].as_str())).collect();
        assert_eq!(
            text,
            [
                ("Real(1.0)", "Text(\"running\")", "Real(1.0)"),
                ("Real(10.0)", "Nothing", "Real(0.0)"),
                ("Real(2.0)", "Text(\"running\")", "Real(1.0)")
            ]
        );
        assert_eq!(rows[0][5], "Text(\"SELECT c FROM sbtest1 WHERE id = ?\")");
        assert_eq!(rows[0][8], "Text(\"list\")");
        assert!(rows.iter().all(|row| row[9] == "Truth(false)"), "transactions were not read: {rows:?}");
    }
}
