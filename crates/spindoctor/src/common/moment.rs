//! A time of a recording as a user writes it.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;

use super::flags::seconds;

/// An instant, or what becomes one when the end of the recording is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// `2026-07-01T09:30:00Z`, or `2026-07-01 09:30:00`, which is UTC.
    At(Timestamp),
    /// `09:30`: the last 09:30 UTC before the end of the recording.
    Clock(Time),
    /// `-10m`: ten minutes before the end of the recording.
    BeforeEnd(Duration),
}

impl Moment {
    /// The instant, in a recording that ends then.
    pub fn resolved(self, end: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::BeforeEnd(by) => end.checked_sub(by).unwrap_or(Timestamp::MIN),
            Self::Clock(time) => {
                let day = end.to_zoned(TimeZone::UTC).date();
                let on = |day: jiff::civil::Date| day.to_datetime(time).to_zoned(TimeZone::UTC);
                let today = on(day).map(|at| at.timestamp()).unwrap_or(end);
                if today <= end {
                    return today;
                }
                day.yesterday().and_then(on).map(|at| at.timestamp()).unwrap_or(today)
            }
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Some(before) = text.strip_prefix('-') {
            return before_end(before).map(Self::BeforeEnd);
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Self::At(at));
        }
        if let Ok(at) = text.parse::<DateTime>().and_then(|at| at.to_zoned(TimeZone::UTC)) {
            return Ok(Self::At(at.timestamp()));
        }
        text.parse::<Time>().map(Self::Clock).map_err(|_| {
            "write 2026-07-01T09:30:00Z, '2026-07-01 09:30' (UTC), 09:30, or -10m for before the end"
                .to_owned()
        })
    }
}

/// `90s`, `10m`, `2h`, `3d`
fn before_end(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] = &[("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    let before = seconds(text, UNITS, "s, m, h or d: -10m")?;
    if before < 0.0 {
        return Err(format!("{text:?} is not a number"));
    }
    Duration::try_from_secs_f64(before).map_err(|_| format!("{text:?} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_people_write_it() {
        let end: Timestamp = "2026-07-02T08:00:00Z".parse().unwrap();
        let of = |text: &str| text.parse::<Moment>().map(|moment| moment.resolved(end).to_string());
        for (text, at) in [
            ("2026-07-01T09:30:00Z", "2026-07-01T09:30:00Z"),
            ("2026-07-01T11:30:00.5+02:00", "2026-07-01T09:30:00.5Z"),
            ("2026-07-01 09:30:00", "2026-07-01T09:30:00Z"),
            ("2026-07-01 09:30", "2026-07-01T09:30:00Z"),
            ("2026-07-01", "2026-07-01T00:00:00Z"),
            ("07:30", "2026-07-02T07:30:00Z"),
            ("09:30:15", "2026-07-01T09:30:15Z"),
            ("-10m", "2026-07-02T07:50:00Z"),
            ("-1d", "2026-07-01T08:00:00Z"),
        ] {
            assert_eq!(of(text), Ok(at.to_owned()), "{text}");
        }
        for (wrong, reason) in [
            ("yesterday", "write 2026-07-01T09:30:00Z"),
            ("25:00", "write"),
            ("-10", "is not a unit"),
            ("-xm", "is not a unit"),
            ("-m", "is not a number"),
            ("--5m", "is not a number"),
            ("-1.2.3m", "is not a number"),
            ("-1e300d", "is too long"),
        ] {
            assert!(of(wrong).unwrap_err().contains(reason), "{wrong}");
        }
    }
}
