//! Times as servers and tools print them: by the server's own clock, in its own time zone, which nothing names.

use jiff::civil::DateTime;

/// The time that a text begins with: `2018-02-12 09:52:22`, `180305 13:24:56`, `060606  9:15:20`, `2018-02-12T09:52:22.123456Z`,
/// and behind `TS 1520256297.002`.
pub fn time(text: &str) -> Option<DateTime> {
    let text = text.trim_start();
    let text = match text.strip_prefix("TS ") {
        Some(rest) => rest.split_once(' ')?.1,
        None => text,
    };
    let date_end = text.find([' ', 'T']).filter(|end| *end <= 10)?;
    let (date, rest) = text.split_at(date_end);
    let rest = rest[1..].trim_start();
    let clock_end = rest.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(rest.len());
    let clock = &rest[..clock_end];
    let number = |text: &str| text.parse::<i16>().ok();
    let (year, month, day) = match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] if year.len() == 4 => (number(year)?, number(month)?, number(day)?),
        [packed] if packed.len() == 6 && packed.is_ascii() => {
            (2000 + number(&packed[..2])?, number(&packed[2..4])?, number(&packed[4..])?)
        }
        _ => return None,
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let second = parts.next()?;
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: i32 = digits.parse().ok()?;
    let small = |number: i16| i8::try_from(number).ok();
    DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(number(second)?)?,
        nanos,
    )
    .ok()
}

/// Seconds from one time to another.
pub fn seconds(from: DateTime, to: DateTime) -> f64 {
    to.duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_time_is_read() {
        let text = |text| time(text).map(|time| time.to_string());
        for form in [
            "2018-03-05 13:24:56 0x7fb2 INNODB",
            "180305 13:24:56 INNODB MONITOR OUTPUT",
            "2018-03-05T13:24:56.000000Z 0 [Note]",
            "2018-03-05 13:24:56 140406 [Note]",
            "TS 1520256296.0 2018-03-05 13:24:56",
        ] {
            assert_eq!(text(form).as_deref(), Some("2018-03-05T13:24:56"), "{form}");
        }
        assert_eq!(text("060606  9:15:20 INNODB").as_deref(), Some("2006-06-06T09:15:20"));
        for form in ["hello", "2018-03-05", "180399 1:2:3", "", "12:00:00 x"] {
            assert_eq!(text(form), None, "{form}");
        }
    }
}
