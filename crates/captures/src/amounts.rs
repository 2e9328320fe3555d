//! An amount out of a text: how often, how many rows, how much time. It is never negative, and never so large that a product of such amounts
//! is no number.

use serde_json::Value;

/// The largest amount that is taken: products of three of them are still numbers (`f64` goes to 1e308). No plan and no tool counts so far.
const LARGEST: f64 = 1e30;

fn is_amount(number: &f64) -> bool {
    (0.0..=LARGEST).contains(number)
}

/// An amount in the digits of a text, `181234`, `58.1e+6`; None where it has none.
pub(crate) fn amount(digits: &str) -> Option<f64> {
    digits.parse().ok().filter(is_amount)
}

/// An amount in JSON, which some programs write as a text: `"filtered": "10.00"`.
pub(crate) fn amount_in_json(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(digits) => amount(digits),
        None => value.as_f64().filter(is_amount),
    }
}

/// The number in front of a text, and the unit behind it: `6.40 GiB`, `900ms`.
fn with_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (digits, unit) = text.split_at(digits);
    Some((amount(digits)?, unit.trim()))
}

/// Bytes: `6.40 GiB` and `512 bytes` (sys), `16.0M` (pt-mysql-summary), `900k` (dstat), `31Gi` (free), `1.2g` (top). Each of these counts by
/// 1,024.
pub(crate) fn bytes(text: &str) -> Option<f64> {
    let (number, unit) = with_unit(text)?;
    let power = match unit {
        "" | "B" | "bytes" => 0,
        "k" | "K" | "Ki" | "KiB" => 1,
        "m" | "M" | "Mi" | "MiB" => 2,
        "g" | "G" | "Gi" | "GiB" => 3,
        "t" | "T" | "Ti" | "TiB" => 4,
        "PiB" => 5,
        _ => return None,
    };
    Some(number * 1_024_f64.powi(power))
}

/// Seconds: `1.20 h` and `4.3 ms` (sys), `103us` and `2m` (pt-query-digest). A number alone is in the unit that has `bare_s` seconds.
pub(crate) fn seconds(text: &str, bare_s: f64) -> Option<f64> {
    let (number, unit) = with_unit(text)?;
    let unit_s = match unit {
        "" => bare_s,
        "ps" => 1e-12,
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return None,
    };
    Some(number * unit_s)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_unit_is_read_and_none_is_guessed() {
        for (text, wanted) in [
            ("6.50 GiB", 6_979_321_856.0),
            ("512 bytes", 512.0),
            ("843", 843.0),
            ("16.0M", 16_777_216.0),
            ("0B", 0.0),
        ] {
            assert_eq!(bytes(text), Some(wanted), "{text}");
        }
        for (text, wanted) in
            [("1.20 h", 4_320.0), ("900ms", 0.9), ("7", 7e-12), ("2m", 120.0), ("1 d", 86_400.0)]
        {
            let found = seconds(text, 1e-12).unwrap();
            assert!((found - wanted).abs() <= wanted * 1e-9, "{text}: {found}");
        }
        for text in ["", "k", "-1k", "7 kibi", "7 fortnights", "7\u{b5}s", "1.2.3 s", "\u{e9}"] {
            assert_eq!((bytes(text), seconds(text, 1.0)), (None, None), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_negative_or_beyond_all_counts_is_no_amount() {
        assert_eq!(["0", "58.1e+6", "181234"].map(amount), [Some(0.0), Some(58.1e6), Some(181_234.0)]);
        for digits in ["", "-1", "inf", "NaN", "1e308", "1e400", "seven"] {
            assert_eq!((amount(digits), amount_in_json(&json!(digits))), (None, None), "{digits}");
        }
        assert_eq!([json!(7), json!("10.00")].map(|value| amount_in_json(&value)), [Some(7.0), Some(10.0)]);
        for value in [json!(-1), json!(1e308), json!(null), json!([7]), json!(true)] {
            assert_eq!(amount_in_json(&value), None, "{value}");
        }
    }
}
