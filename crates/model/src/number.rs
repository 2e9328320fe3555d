//! The format of every number for people, in one place. JSON has the raw numbers.
//!
//! In: a value and the unit that the model names. Out: text such as `21 %`, `4.1 s`, `1.5 GiB`.

use crate::Value;

/// What stands for what is no number.
const UNKNOWN: &str = "unknown";

/// A reading's value with its unit, as text. Text is passed through, with its unit if it has one.
pub fn value(value: &Value, unit: &str) -> String {
    match value {
        Value::Number(number) => quantity(*number, unit),
        Value::Text(text) if unit.is_empty() => text.clone(),
        Value::Text(text) => format!("{text} {unit}"),
    }
}

/// A number in a unit of the model: `ratio`, `ns`, `us`, `ms`, `s`, `bytes`, `bytes/s`, `1/s`, `CPUs`, or any other.
pub fn quantity(number: f64, unit: &str) -> String {
    if !number.is_finite() {
        return UNKNOWN.to_owned();
    }
    match unit {
        "ratio" => percent(number),
        "ns" => duration(number / 1e9),
        "us" | "µs" => duration(number / 1e6),
        "ms" => duration(number / 1e3),
        "s" => duration(number),
        "bytes" => bytes(number),
        "bytes/s" | "B/s" => format!("{}/s", bytes(number)),
        "1/s" => format!("{} /s", plain(number)),
        "CPUs" if number.fract() != 0.0 => format!("{} CPUs", decimals(number, 2)),
        "CPUs" if number == 1.0 => "1 CPU".to_owned(),
        "" | "count" => plain(number),
        other => format!("{} {other}", plain(number)),
    }
}

/// A ratio from 0 to 1 as percent: two digits that count, never a false zero.
pub fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0 %".to_owned(),
        size if size < 0.05 => "< 0.1 %".to_owned(),
        size if size < 9.95 => format!("{} %", decimals(percent, 1)),
        _ => format!("{} %", grouped(percent)),
    }
}

/// A ratio from 0 to 1 in whole percent, for a sentence: never a false zero.
pub fn whole_percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.5 { "less than 1 %".to_owned() } else { format!("{percent:.0} %") }
}

/// Seconds in the unit that suits them: ns, µs, ms, s, min, h, days.
pub fn duration(seconds: f64) -> String {
    let whole = |n: f64| n.trunc();
    match seconds.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0 s".to_owned(),
        size if size < 0.999_5e-6 => format!("{} ns", three_digits(seconds * 1e9)),
        size if size < 0.999_5e-3 => format!("{} µs", three_digits(seconds * 1e6)),
        size if size < 0.999_5 => format!("{} ms", three_digits(seconds * 1e3)),
        size if size < 119.95 => format!("{} s", decimals(seconds, usize::from(size < 99.95))),
        size if size < 7_200.0 => format!("{} min {} s", whole(seconds / 60.0), whole(seconds % 60.0)),
        size if size < 172_800.0 => {
            format!("{} h {} min", whole(seconds / 3_600.0), whole(seconds % 3_600.0 / 60.0))
        }
        _ => {
            format!("{} days {} h", whole(seconds / 86_400.0), whole(seconds % 86_400.0 / 3_600.0))
        }
    }
}

/// Seconds as [`duration`] writes them, of a window whose hundredths mean nothing.
pub fn tenths(seconds: f64) -> String {
    duration((seconds * 10.0).round() / 10.0)
}

/// Seconds that are roughly known: `45 s`, `70 min`, `6.5 h`.
pub fn roughly(seconds: f64) -> String {
    match seconds {
        short if short < 100.0 => format!("{short:.0} s"),
        middling if middling < 6_000.0 => format!("{:.0} min", middling / 60.0),
        long => format!("{:.1} h", long / 3_600.0),
    }
}

/// Bytes with IEC prefixes.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    if !bytes.is_finite() {
        return UNKNOWN.to_owned();
    }
    let (mut scaled, mut unit) = (bytes, 0);
    while scaled.abs() >= 1_023.95 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{scaled:.0} B"),
        _ => format!("{} {}", three_digits(scaled), UNITS[unit]),
    }
}

/// A number without a unit: whole ones grouped by thousands, others with the digits that count.
pub fn plain(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0".to_owned(),
        size if number.fract() == 0.0 || size >= 999.95 => grouped(number),
        size if size < 0.000_5 => format!("{number:.1e}"),
        size if size < 0.995 => decimals(number, 3),
        _ => three_digits(number),
    }
}

/// What is expected, in the reading's unit: `< 0.02` of a ratio is `< 2 %`, `>= 5` of ms is `>= 5 ms`.
/// Anything but one comparison with one number is a sentence, and stays as it is.
pub fn expected(expected: &str, unit: &str) -> String {
    let number = expected.trim_start_matches(['<', '>', '=', '≤', '≥', '~', ' ']);
    match number.parse::<f64>() {
        Ok(bound) => {
            let sign = &expected[..expected.len() - number.len()];
            format!("{sign}{}", quantity(bound, unit))
        }
        Err(_) => expected.to_owned(),
    }
}

/// `1 thread`, `12,345 threads`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number as f64), if number == 1 { one } else { many })
}

/// Three digits that count: 1.25, 12.5, 125.
fn three_digits(number: f64) -> String {
    match number.abs() {
        size if size < 9.995 => decimals(number, 2),
        size if size < 99.95 => decimals(number, 1),
        _ => grouped(number),
    }
}

/// At most so many decimals, without trailing zeros.
fn decimals(number: f64, places: usize) -> String {
    let text = format!("{number:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number rounded to a whole one: for counts and rates in a sentence, where a decimal says nothing.
pub fn whole(number: f64) -> String {
    grouped(number)
}

/// A whole number with a comma every three digits, from five digits on.
fn grouped(number: f64) -> String {
    if !number.is_finite() {
        return UNKNOWN.to_owned();
    }
    let digits = format!("{:.0}", number.abs());
    let sign = if number < 0.0 && digits != "0" { "-" } else { "" };
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let mut text = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_in_a_sentence_is_never_a_false_zero() {
        let shown = [0.0, 0.0049, 0.0051, 0.424, 1.0].map(whole_percent);
        assert_eq!(shown, ["0 %", "less than 1 %", "1 %", "42 %", "100 %"]);
    }

    #[test]
    fn each_unit_has_its_own_look() {
        let shown = |number, unit| quantity(number, unit);
        assert_eq!(shown(0.21, "ratio"), "21 %");
        assert_eq!(shown(0.004, "ratio"), "0.4 %");
        assert_eq!(shown(0.0001, "ratio"), "< 0.1 %");
        assert_eq!(shown(6.0, "CPUs"), "6 CPUs");
        assert_eq!(shown(1.0, "CPUs"), "1 CPU");
        assert_eq!(shown(0.5, "CPUs"), "0.5 CPUs");
        assert_eq!(shown(10.9, "ns"), "10.9 ns");
        assert_eq!(shown(0.031, "ms"), "31 µs");
        assert_eq!(shown(4_100.0, "ms"), "4.1 s");
        assert_eq!(shown(61.0, "s"), "61 s");
        assert_eq!(shown(812.0, "s"), "13 min 32 s");
        assert_eq!(shown(90_000.0, "s"), "25 h 0 min");
        assert_eq!(shown(1_610_612_736.0, "bytes"), "1.5 GiB");
        assert_eq!(shown(512.0, "bytes"), "512 B");
        assert_eq!(shown(12_345.6, "1/s"), "12,346 /s");
        assert_eq!(shown(39.0, "cycles"), "39 cycles");
        assert_eq!(shown(1_234_567.0, ""), "1,234,567");
        assert_eq!(shown(f64::NAN, "ms"), "unknown");
    }

    #[test]
    fn what_is_no_number_is_unknown() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for shown in [percent(number), duration(number), bytes(number), plain(number), whole(number)] {
                assert_eq!(shown, "unknown", "{number}");
            }
        }
    }

    #[test]
    fn what_is_expected_is_reported_in_the_readings_unit() {
        assert_eq!(expected("< 0.02", "ratio"), "< 2 %");
        assert_eq!(expected(">= 5", "ms"), ">= 5 ms");
        assert_eq!(expected("0", ""), "0");
        assert_eq!(expected("below half of max_connections", ""), "below half of max_connections");
    }

    #[test]
    fn rounding_never_jumps_into_the_next_unit_unseen() {
        assert_eq!(duration(0.999_9), "1 s");
        assert_eq!(bytes(1_048_575.0), "1 MiB");
        assert_eq!(percent(0.099_9), "10 %");
        assert_eq!(plain(-0.4), "-0.4");
    }
}
