//! How long something took, as a histogram: what `biolatency` and other tools of bcc print, and histograms of bpftrace whose name has their unit.
//!
//! ```text
//!      usecs               : count     distribution
//!       256 -> 511         : 41       |***                                     |
//!      8192 -> 16383       : 512      |****************************************|
//!
//! @usecs:
//! [8K, 16K)            512 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
//! ```

use spindoctor_model::number::duration;

use crate::amounts::amount;
use crate::system::{MOST_ROWS, SLOW_MS, SystemText};

/// How units are named, and their seconds.
const UNITS: [(&str, f64); 3] = [("nsecs", 1e-9), ("usecs", 1e-6), ("msecs", 1e-3)];

/// True for the head of one.
pub(crate) fn is_head(line: &str) -> bool {
    unit_s(line).is_some()
}

/// The seconds of the unit of the histogram that begins with a line.
fn unit_s(line: &str) -> Option<f64> {
    let line = line.trim();
    let of_bcc = || line.contains(": count").then(|| line.split_whitespace().next()).flatten();
    let of_map = || line.strip_prefix('@').and_then(|name| name.strip_suffix(':'));
    let name = of_bcc().filter(|_| line.contains("distribution")).or_else(of_map)?;
    UNITS.iter().find(|(unit, _)| name.ends_with(unit)).map(|(_, seconds)| *seconds)
}

/// Says how long what was measured takes, where that is long for a disk: the tool is not named in all texts.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let mut rows: Vec<(f64, f64)> = Vec::new();
    let mut unit = None;
    for line in text.lines().take(MOST_ROWS) {
        if let Some(next) = unit_s(line) {
            say(&rows, found);
            rows.clear();
            unit = Some(next);
        } else if let Some((end, count)) = unit.and_then(|_| row(line)) {
            rows.push((end * unit.unwrap_or(0.0), count));
        }
    }
    say(&rows, found);
}

/// Where a row ends, in its unit, and its count: `8192 -> 16383 : 512 |***|`, `[8K, 16K) 512 |@@@|`.
fn row(line: &str) -> Option<(f64, f64)> {
    let line = line.trim();
    if let Some((range, rest)) = line.split_once(" : ") {
        let (_, end) = range.split_once("->")?;
        return Some((amount(end.trim())? + 1.0, amount(rest.split_whitespace().next()?)?));
    }
    let (range, rest) = line.strip_prefix('[')?.split_once(')')?;
    let (_, end) = range.split_once(", ")?;
    let (digits, power) = match end.chars().last()? {
        'K' => (&end[..end.len() - 1], 1_024.0),
        'M' => (&end[..end.len() - 1], 1_048_576.0),
        _ => (end, 1.0),
    };
    Some((amount(digits)? * power, amount(rest.split_whitespace().next()?)?))
}

fn say(rows: &[(f64, f64)], found: &mut SystemText) {
    let all: f64 = rows.iter().map(|(_, count)| count).sum();
    let up_to = |share: f64| {
        let mut sum = 0.0;
        rows.iter().find_map(|(end_s, count)| {
            sum += count;
            (sum >= all * share).then_some(*end_s)
        })
    };
    let (Some(half_s), Some(most_s)) = (up_to(0.5), up_to(0.99)) else { return };
    // A row is as wide as all of those below it: half of what the median's row ends with is its beginning.
    if all > 0.0 && half_s / 2.0 * 1_000.0 >= SLOW_MS {
        let sentence = format!(
            "Half of what was measured took less than {}, and all but one in a hundred less than {}",
            duration(half_s),
            duration(most_s)
        );
        found.add("histogram", None, sentence);
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn a_histogram_of_slow_requests_says_how_long_they_take() {
        let bcc = "Tracing block device I/O... Hit Ctrl-C to end.\n^C\n     usecs               : count     distribution\n         \
                   0 -> 1          : 0        |                                        |\n       \
                   256 -> 511        : 41       |***                                     |\n      \
                   8192 -> 16383      : 512      |****************************************|\n     \
                   65536 -> 131071     : 2        |                                        |\n";
        let parts = recognise("x", bcc);
        let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
        assert!(
            says.len() == 1 && says[0].starts_with("Half of what was measured took less than 16"),
            "{says:?}"
        );
        let map = "@usecs:\n[256, 512)            41 |@@@@                                                |\n\
                   [8K, 16K)            512 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n";
        assert_eq!(system::read(map).says.len(), 1);
        let quick = bcc.replace(": 41 ", ": 4100 ");
        assert_eq!(system::read(&quick).says, Vec::<String>::new());
        assert_eq!(system::read(&map.replace("@usecs:", "@bytes:")).says, Vec::<String>::new());
    }
}
