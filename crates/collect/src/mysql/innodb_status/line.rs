//! Reads one line against a pattern that is the server's own format string, with `{}` for its values.

use std::borrow::Cow;

/// The values that stand where the pattern has `{}`, without the blanks around them.
///
/// The line must begin as the pattern does. A `{}` at the end takes the rest of the line; after a
/// pattern that ends otherwise anything may follow.
pub(super) fn values<'l, const N: usize>(line: &'l str, pattern: &str) -> Option<[&'l str; N]> {
    let mut pieces = pattern.split("{}");
    let mut rest = line.strip_prefix(pieces.next()?)?;
    let mut found = [""; N];
    for value in &mut found {
        let piece = pieces.next()?;
        let end = if piece.is_empty() { rest.len() } else { rest.find(piece)? };
        *value = rest[..end].trim();
        rest = &rest[end + piece.len()..];
    }
    Some(found)
}

/// Like [`values`], where every value is a whole number.
pub(super) fn numbers<const N: usize>(line: &str, pattern: &str) -> Option<[u64; N]> {
    let mut found = [0; N];
    for (number, text) in found.iter_mut().zip(values::<N>(line, pattern)?) {
        *number = whole(text)?;
    }
    Some(found)
}

/// A whole number of digits only: `parse` alone would take a sign.
pub(super) fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A number that InnoDB before the 5.1 plugin prints as two words of 32 bits: `125 3934414864`.
pub(super) fn two_words(text: &str) -> Option<u64> {
    match text.split_once(' ') {
        Some((high, low)) => {
            let word = |text: &str| whole(text.trim()).and_then(|number| u32::try_from(number).ok());
            Some(u64::from(word(high)?) << 32 | u64::from(word(low)?))
        }
        None => whole(text),
    }
}

/// The line with every run of blanks as one: versions pad their columns differently.
pub(super) fn squeeze(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    if line.contains("  ") || line.contains('\t') {
        Cow::Owned(line.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    } else {
        Cow::Borrowed(line)
    }
}

/// The highest average of a line that prints reads, writes or syncs a second.
///
/// ```text
/// 280.37 reads/s, 16384 avg bytes/read, 315.65 writes/s, 10.53 fsyncs/s
/// 0.00 reads/s, 0.00 creates/s, 0.00 writes/s
/// 415 log i/o's done, 0.00 log i/o's/second
/// ```
pub(super) fn ios_per_s(line: &str) -> Option<f64> {
    const UNITS: [&str; 4] = [" reads/s", " writes/s", " fsyncs/s", " log i/o's/second"];
    let number =
        |part: &str| UNITS.iter().find_map(|unit| part.trim().strip_suffix(unit)?.parse::<f64>().ok());
    line.split(',').filter_map(number).filter(|number| number.is_finite()).max_by(f64::total_cmp)
}

/// A source file without its folders: `btr0cur.cc` of `/build/storage/innobase/btr/btr0cur.cc`.
pub(super) fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_gives_the_values_between_its_words() {
        assert_eq!(
            numbers("Pages read 17, created 1, written 12", "Pages read {}, created {}, written {}"),
            Some([17, 1, 12])
        );
        assert_eq!(numbers("28 OS file reads, 19 OS", "{} OS file reads,"), Some([28]));
        assert_eq!(numbers::<1>("Free buffers -5", "Free buffers {}"), None);
        assert_eq!(numbers::<1>("Free buffers 99999999999999999999999", "Free buffers {}"), None);
        assert_eq!(numbers::<1>("Free buffers", "Free buffers {}"), None);
        assert_eq!(
            values("S-lock on RW-latch at 0x1 created", "{} on RW-latch at {}"),
            Some(["S-lock", "0x1 created"])
        );
    }

    #[test]
    fn the_averages_of_a_line_are_read() {
        assert_eq!(
            ios_per_s("280.37 reads/s, 16384 avg bytes/read, 315.65 writes/s, 10.53 fsyncs/s"),
            Some(315.65)
        );
        assert_eq!(ios_per_s("415 log i/o's done, 0.00 log i/o's/second"), Some(0.0));
        assert_eq!(ios_per_s("0.00 inserts/s, 0.00 updates/s"), None);
    }

    #[test]
    fn two_words_make_one_number() {
        assert_eq!(two_words("125 3934414864"), Some(540_805_326_864));
        assert_eq!(two_words("64909"), Some(64_909));
        assert_eq!(two_words("1 4294967296"), None);
        assert_eq!(two_words("1 2 3"), None);
    }
}
