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

/// How many of the mutexes are counted: one that was made while the instrument was off never is.
///
/// Cost: the server goes through the mutexes that are counted, some microseconds for a thousand.
pub(super) const INSTANCES: &str = "SELECT COUNT(*) FROM performance_schema.mutex_instances WHERE NAME = 'wait/synch/mutex/innodb/undo_space_rseg_mutex'";

/// How often, and how long, picoseconds.
///
/// Cost: one row by its key, no lock.
pub(super) const STATEMENT: &str = "SELECT COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name WHERE EVENT_NAME = 'wait/synch/mutex/innodb/undo_space_rseg_mutex'";

/// How often the mutexes were taken since the server's start, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentWaits {
    /// How often.
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

fn how_to_count() -> String {
    format!("put performance-schema-instrument='{EVENT}=ON' into the option file for the next start")
}

/// That only a part of them is counted; none where all are, or nobody knows.
pub(super) fn partly(instances: Option<&Rows>, segments: u32) -> Option<String> {
    let counted: u32 = instances?.first()?.at(0)?.parse().ok()?;
    (counted < segments).then(|| {
        format!(
            "waits are counted for {counted} of {segments} rollback segments: the others were made while the instrument {EVENT} was off; {}",
            how_to_count()
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[&str]) -> Rows {
        let row = cells.iter().map(|cell| Some((*cell).to_owned())).collect();
        Rows::new(cells.iter().map(|_| "c".to_owned()).collect(), vec![row])
    }

    #[test]
    fn what_is_off_is_not_known_and_what_is_counted_in_part_is_said() {
        assert_eq!(why_off(Ok(&rows(&["YES", "YES"]))), None);
        for off in [Ok(&rows(&["NO", "YES"])), Ok(&Rows::default())] {
            let why = why_off(off).unwrap();
            assert!(why.contains("undo_space_rseg_mutex=ON"), "{why}");
        }
        assert_eq!(why_off(Err("no permission")).as_deref(), Some("no permission"));
        assert_eq!(partly(Some(&rows(&["1024"])), 1_024), None);
        assert_eq!(partly(None, 1_024), None);
        let part = partly(Some(&rows(&["768"])), 1_024).unwrap();
        assert!(part.contains("768 of 1024 rollback segments") && part.contains("next start"), "{part}");
    }

    #[test]
    fn waits_between_two_readings_are_theirs_alone() {
        let at = |count: &str, wait_ps: &str| SegmentWaits::parse(&rows(&[count, wait_ps])).unwrap();
        let (first, last) = (at("1000", "2000000000"), at("1500", "5000000000"));
        assert_eq!(last.since(first), Some(SegmentWaits { count: 500.0, wait_ms: Some(3.0) }));
        assert_eq!(first.since(last), None, "somebody emptied the table");
        assert_eq!(at("7", "0").wait_ms, None, "counted, and not timed");
        assert_eq!(SegmentWaits::parse(&Rows::default()), None);
    }
}
