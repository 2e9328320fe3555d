//! Waits for the mutexes of rollback segments, as performance_schema counts them.
//!
//! It counts every time that one was taken, with the time that it took. Its instrument is off by default; what is off is
//! not known, and never nothing.

use spindoctor_collect::mysql::Rows;

/// The mutex of a rollback segment in an undo tablespace (trx0rseg.cc of MySQL 8.0 and later).
const EVENT: &str = "wait/synch/mutex/innodb/undo_space_rseg_mutex";

/// Whether it is counted, and timed.
///
/// Cost: one row by its key.
pub(super) const IS_ON: &str = "SELECT ENABLED, TIMED FROM performance_schema.setup_instruments WHERE NAME = 'wait/synch/mutex/innodb/undo_space_rseg_mutex'";

/// How often, and how long, picoseconds.
///
/// Cost: one row by its key, no lock.
pub(super) const STATEMENT: &str = "SELECT COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name WHERE EVENT_NAME = 'wait/synch/mutex/innodb/undo_space_rseg_mutex'";

/// How often the mutexes were taken since the server's start, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentWaits {
    /// Times.
    pub count: f64,
    /// Milliseconds, all sessions together; none where it is counted and not timed.
    pub wait_ms: Option<f64>,
}

impl SegmentWaits {
    pub(super) fn parse(rows: &Rows) -> Option<Self> {
        let row = rows.first()?;
        let count = row.at(0)?.parse().ok()?;
        let picoseconds: Option<f64> = row.at(1).and_then(|text| text.parse().ok());
        Some(Self { count, wait_ms: picoseconds.filter(|wait| *wait > 0.0).map(|wait| wait / 1e9) })
    }

    /// What was added since; none where somebody emptied the table in between.
    pub(super) fn since(self, earlier: Self) -> Option<Self> {
        let wait_ms = self.wait_ms.map(|now| now - earlier.wait_ms.unwrap_or(0.0));
        let grown = Self { count: self.count - earlier.count, wait_ms };
        (grown.count >= 0.0 && wait_ms.is_none_or(|wait| wait >= 0.0)).then_some(grown)
    }
}

/// Why they are not counted; none where they are.
pub(super) fn why_off(asked: Result<&Rows, &str>) -> Option<String> {
    let how =
        format!("put performance-schema-instrument='{EVENT}=ON' into the option file for the next start");
    match asked {
        Err(why) => Some(why.to_owned()),
        Ok(rows) => match rows.first().and_then(|row| row.at(0)) {
            Some("YES") => None,
            Some(_) => Some(format!("the instrument {EVENT} is off; {how}")),
            None => {
                Some(format!("this server has no instrument {EVENT}, or performance_schema is off; {how}"))
            }
        },
    }
}
