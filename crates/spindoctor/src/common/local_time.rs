//! The clock of this machine beside UTC, where it shows another time: logs and people have that one.
//!
//! In: an instant. Out: the words that stand behind it for people. JSON, recordings and what is typed are UTC alone.

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The zone of this process; none until the program says that it is to be shown.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// From now on local times stand beside UTC, in the zone of `TZ`, else of `/etc/localtime`.
pub fn show() {
    ZONE.get_or_init(TimeZone::system);
}

/// ` (16:03:20 CEST)`, with the day where it is another one; empty where the clock shows UTC.
pub fn beside(at: Timestamp) -> String {
    ZONE.get().map_or_else(String::new, |zone| in_zone(at, zone))
}

fn in_zone(at: Timestamp, zone: &TimeZone) -> String {
    let (there, utc) = (at.to_zoned(zone.clone()), at.to_zoned(TimeZone::UTC));
    if there.offset() == utc.offset() {
        return String::new();
    }
    let format = if there.date() == utc.date() { " (%H:%M:%S %Z)" } else { " (%Y-%m-%d %H:%M:%S %Z)" };
    there.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_time_stands_beside_utc_where_it_is_another_one() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let of = |at: &str, zone| in_zone(at.parse().unwrap(), zone);
        assert_eq!(of("2026-07-01T14:03:20Z", &zone), " (16:03:20 CEST)");
        assert_eq!(of("2026-01-01T14:03:20Z", &zone), " (15:03:20 CET)");
        assert_eq!(of("2026-07-01T23:03:20Z", &zone), " (2026-07-02 01:03:20 CEST)");
        assert_eq!(of("2026-07-01T14:03:20Z", &TimeZone::UTC), "");
        assert_eq!(beside(Timestamp::UNIX_EPOCH), "", "tests see UTC alone");
    }
}
