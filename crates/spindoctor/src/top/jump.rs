//! An instant as a person types it: `14:03`, `14:03:20`, `-5m`, `2026-11-22 14:03`. All times are UTC.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::feed::Extent;

/// What is understood, for the prompt and for the error message.
pub const FORMS: &str = "14:03, 14:03:20, -5m, +30s, 2026-11-22 14:03";

/// The instant that was typed. A time without a date is on the day of the cursor, or on the day before or after where
/// only that one lies in what there is; `-5m` counts from the cursor.
///
/// # Errors
/// What is wrong with the text, and what would be understood.
pub fn parse(text: &str, cursor: Timestamp, extent: Option<Extent>) -> Result<Timestamp, String> {
    let text = text.trim().trim_end_matches('Z').trim_end_matches("UTC").trim_end();
    let not_understood = || format!("{text:?} is not a time; type {FORMS}");
    if text.starts_with(['-', '+']) {
        let by = relative(text).ok_or_else(not_understood)?;
        return cursor.checked_add(by).map_err(|_| not_understood());
    }
    if let Some(at) = date_and_time(text) {
        return instant(at).ok_or_else(not_understood);
    }
    let time = time(text).ok_or_else(not_understood)?;
    let day = cursor.to_zoned(TimeZone::UTC).date();
    let days = [Some(day), day.yesterday().ok(), day.tomorrow().ok()];
    let candidates = days.into_iter().flatten().filter_map(|day| instant(day.to_datetime(time)));
    let candidates: Vec<Timestamp> = candidates.collect();
    let inside = |at: &&Timestamp| extent.is_none_or(|extent| extent.holds(**at));
    candidates.iter().find(inside).or(candidates.first()).copied().ok_or_else(not_understood)
}

fn instant(at: DateTime) -> Option<Timestamp> {
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

fn time(text: &str) -> Option<Time> {
    ["%H:%M:%S", "%H:%M"].iter().find_map(|form| Time::strptime(form, text).ok())
}

fn date_and_time(text: &str) -> Option<DateTime> {
    let (date, rest) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let date = Date::strptime("%Y-%m-%d", date).ok()?;
    Some(date.to_datetime(time(rest.trim())?))
}

/// `-5m`: a sign, a number, and s, m, h or d; seconds where there is no unit.
fn relative(text: &str) -> Option<SignedDuration> {
    let (sign, text) = if let Some(rest) = text.strip_prefix('-') { (-1.0, rest) } else { (1.0, &text[1..]) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let number: f64 = digits.trim().parse().ok().filter(|number: &f64| number.is_finite())?;
    SignedDuration::try_from_secs_f64(sign * number * unit_s).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn parsed(text: &str) -> Result<String, String> {
        let extent = Extent { from: at("2026-11-21T20:00:00Z"), to: at("2026-11-22T14:30:00Z") };
        parse(text, at("2026-11-22T14:10:00Z"), Some(extent)).map(|at| at.to_string())
    }

    #[test]
    fn times_of_the_day_dates_and_steps_are_understood() {
        for (text, meant) in [
            ("14:03", "2026-11-22T14:03:00Z"),
            ("14:03:20", "2026-11-22T14:03:20Z"),
            (" 2026-11-22 14:03 ", "2026-11-22T14:03:00Z"),
            ("2026-11-22T14:03:20Z", "2026-11-22T14:03:20Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
            ("-5m", "2026-11-22T14:05:00Z"),
            ("+30s", "2026-11-22T14:10:30Z"),
            ("-1.5h", "2026-11-22T12:40:00Z"),
            ("-90", "2026-11-22T14:08:30Z"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(meant), "{text}");
        }
    }

    #[test]
    fn a_time_that_only_yesterday_has_in_the_recording_is_yesterdays() {
        assert_eq!(parsed("22:00").as_deref(), Ok("2026-11-21T22:00:00Z"));
        assert_eq!(parsed("18:00").as_deref(), Ok("2026-11-22T18:00:00Z"), "in neither: today");
    }

    #[test]
    fn what_is_no_time_is_shown_with_what_would_be() {
        for text in ["", "noon", "25:00", "-", "-5x", "+1e999d", "2026-13-01"] {
            let line = parsed(text).unwrap_err();
            assert!(line.contains("14:03:20"), "{text}: {line}");
        }
    }
}
