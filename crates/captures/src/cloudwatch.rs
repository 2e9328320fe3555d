//! What `aws cloudwatch get-metric-statistics` prints of a server's instance, in JSON, and what its console exports, in CSV: how far each
//! metric went.
//!
//! ```text
//! {
//!     "Label": "CPUCreditBalance",
//!     "Datapoints": [
//!         { "Timestamp": "2024-03-04T10:00:00Z", "Average": 0.03, "Unit": "Count" }
//!
//! Label,CPUUtilization,DiskQueueDepth
//! 2024/03/04 10:00:00,12.1,0.2
//! ```
//!
//! Scripts print the same names in rows, and as pairs:
//!
//! ```text
//! | CPUCreditBalance | 0.0 | 0.0 | Count |
//! 2024-03-04T10:00:00Z shop BurstBalance=0% WriteLatency=0.412 DiskQueueDepth=212
//! ```

use spindoctor_model::number::{bytes, duration};

use crate::amounts::amount;
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// The metrics of which something is said.
const KNOWN: [&str; 8] = [
    "CPUCreditBalance",
    "BurstBalance",
    "CPUUtilization",
    "FreeableMemory",
    "FreeStorageSpace",
    "DiskQueueDepth",
    "ReadLatency",
    "WriteLatency",
];

const NO_CPU_CREDITS: &str = "The instance's CPU credits were used up (CPUCreditBalance): it has no more of the CPUs than its baseline";
const NO_VOLUME_CREDITS: &str =
    "The volume's credits were used up (BurstBalance): it has no more requests a second than its baseline";

/// True for a line that such a text has, and no other.
pub(crate) fn is_of_metric(line: &str) -> bool {
    let is_known = || label(line).is_some_and(|label| KNOWN.contains(&label));
    line.trim_start().starts_with("\"Datapoints\": [")
        || is_known()
        || columns(line).is_some()
        || row(line).is_some()
        || !pairs(line).is_empty()
}

/// The name of a framed row and its numbers, in the metric's own unit, which stands last.
fn row(line: &str) -> Option<(&str, Vec<f64>)> {
    const UNITS: [&str; 5] = ["Percent", "Seconds", "Bytes", "Count", "Count/Second"];
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = line.split('|').take(MOST_WORDS).map(str::trim).collect();
    let [name, numbers @ .., unit] = cells.as_slice() else { return None };
    let numbers: Vec<f64> = numbers.iter().filter_map(|cell| amount(cell)).collect();
    (KNOWN.contains(name) && UNITS.contains(unit) && !numbers.is_empty()).then_some((*name, numbers))
}

/// The metrics of a line that has two and more of them as `WriteLatency=0.412`. A number with a unit other than the metric's own is none.
fn pairs(line: &str) -> Vec<(&'static str, f64)> {
    if !line.contains('=') || !KNOWN.iter().any(|name| line.contains(name)) {
        return Vec::new();
    }
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    let has_unit = |at: usize| {
        words.get(at + 1).is_some_and(|next| ["KB", "MB", "GB", "KiB", "MiB", "GiB", "ms"].contains(next))
    };
    let pair = |(at, word): (usize, &&str)| -> Option<(usize, usize, f64)> {
        let (name, value) = word.split_once('=')?;
        let value = value.trim_end_matches([',', ';']);
        let place = KNOWN.iter().position(|known| *known == name)?;
        Some((at, place, amount(value.strip_suffix('%').unwrap_or(value))?))
    };
    let found: Vec<(usize, usize, f64)> = words.iter().enumerate().filter_map(pair).collect();
    if found.len() < 2 {
        return Vec::new();
    }
    found
        .into_iter()
        .filter(|(at, ..)| !has_unit(*at))
        .map(|(_, place, number)| (KNOWN[place], number))
        .collect()
}

/// The cells of a line of CSV, without their quotes.
fn cells(line: &str) -> Vec<&str> {
    let cells = line.split([',', ';', '\t']).take(MOST_WORDS);
    cells.map(|cell| cell.trim().trim_matches('"').trim()).collect()
}

/// The names of the columns of an export in CSV.
fn columns(line: &str) -> Option<Vec<&str>> {
    const FIRST: [&str; 4] = ["timestamp", "time", "date", "label"];
    if !KNOWN.iter().any(|name| line.contains(name)) {
        return None;
    }
    // A statistic may stand behind the name: `CPUUtilization (Average)`.
    let names: Vec<&str> =
        cells(line).into_iter().map(|cell| cell.split([' ', '(']).next().unwrap_or_default()).collect();
    let begins = names.first().is_some_and(|first| FIRST.contains(&first.to_ascii_lowercase().as_str()));
    (begins && names.iter().any(|name| KNOWN.contains(name))).then_some(names)
}

/// `"Label": "CPUUtilization",`
fn label(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("\"Label\":")?;
    rest.split('"').nth(1)
}

/// The numbers of a line: a whole document may stand in one.
fn values(line: &str) -> impl Iterator<Item = f64> {
    const STATISTICS: [&str; 3] = ["\"Average\":", "\"Minimum\":", "\"Maximum\":"];
    let behind = STATISTICS.into_iter().flat_map(move |name| line.split(name).skip(1));
    behind.filter_map(|rest| amount(rest.trim_start().split([',', '}', ' ', ']']).next()?))
}

/// Says what the metrics show that is wrong.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let mut metrics: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut metric: (&str, Vec<f64>) = ("", Vec::new());
    for line in text.lines().take(MOST_ROWS) {
        let begins = line.contains("\"Label\":") || line.contains("\"Datapoints\":");
        // The name stands before or behind the numbers.
        if begins && !metric.0.is_empty() && !metric.1.is_empty() {
            metrics.push(std::mem::take(&mut metric));
        }
        metric.0 = label(line).unwrap_or(metric.0);
        metric.1.extend(values(line));
    }
    metrics.push(metric);
    metrics.extend(exported(text));
    metrics.extend(text.lines().take(MOST_ROWS).filter_map(row));
    metrics.extend(paired(text));
    for sentence in metrics.iter().filter_map(|(name, numbers)| said(name, numbers)) {
        found.add("CloudWatch", None, sentence);
    }
}

/// The metrics of lines of pairs, each with its numbers.
fn paired(text: &str) -> Vec<(&'static str, Vec<f64>)> {
    let mut all: Vec<(&'static str, Vec<f64>)> = KNOWN.iter().map(|name| (*name, Vec::new())).collect();
    for (name, number) in text.lines().take(MOST_ROWS).flat_map(pairs) {
        all.iter_mut().filter(|(known, _)| *known == name).for_each(|(_, numbers)| numbers.push(number));
    }
    all
}

/// The metrics of exports in CSV, each with its numbers.
fn exported(text: &str) -> Vec<(&str, Vec<f64>)> {
    let mut all: Vec<(&str, Vec<f64>)> = Vec::new();
    // Where the metrics of the last head begin.
    let (mut first, mut width) = (0, 0);
    for line in text.lines().take(MOST_ROWS) {
        if let Some(names) = columns(line) {
            (first, width) = (all.len(), names.len());
            all.extend(names.into_iter().map(|name| (name, Vec::new())));
            continue;
        }
        let cells = if width > 0 { cells(line) } else { continue };
        if cells.len() == width {
            for ((_, numbers), cell) in all[first..].iter_mut().zip(&cells) {
                numbers.extend(amount(cell));
            }
        }
    }
    all
}

/// What is said of the numbers of a metric, where they show that something is wrong. By judgement.
fn said(name: &str, numbers: &[f64]) -> Option<String> {
    const MIB: f64 = 1_048_576.0;
    let least = numbers.iter().copied().reduce(f64::min);
    let most = numbers.iter().copied().reduce(f64::max);
    let low = |limit: f64| least.filter(|least| *least < limit);
    let high = |limit: f64| most.filter(|most| *most >= limit);
    match name {
        "CPUCreditBalance" => low(1.0).map(|_| NO_CPU_CREDITS.to_owned()),
        "BurstBalance" => low(1.0).map(|_| NO_VOLUME_CREDITS.to_owned()),
        "CPUUtilization" => high(95.0).map(|most| format!("The CPUs were in use up to {most:.0} % ({name})")),
        "FreeableMemory" => low(128.0 * MIB).map(|least| left("memory", least, name)),
        "FreeStorageSpace" => low(1_024.0 * MIB).map(|least| left("storage", least, name)),
        "DiskQueueDepth" => {
            high(10.0).map(|most| format!("Up to {most:.0} requests waited for the storage ({name})"))
        }
        "ReadLatency" | "WriteLatency" => high(0.02).map(|most| {
            format!("Requests to the storage took up to {} in the mean ({name})", duration(most))
        }),
        _ => None,
    }
}

fn left(what: &str, least: f64, name: &str) -> String {
    format!("Of the instance's {what} {} were left ({name})", bytes(least))
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn metrics_that_went_too_far_are_said_and_others_are_not() {
        let metric = |name: &str, numbers: [&str; 2]| {
            let [one, other] = numbers;
            format!(
                "{{\n    \"Datapoints\": [\n        {{\n            \"Timestamp\": \"2024-03-04T10:00:00Z\",\n            \"Average\": {one},\n            \
                 \"Unit\": \"Count\"\n        }},\n        {{\n            \"Average\": {other},\n            \"Unit\": \"Count\"\n        }}\n    ],\n    \
                 \"Label\": \"{name}\"\n}}\n"
            )
        };
        let credits = metric("CPUCreditBalance", ["12.5", "0.0333"]);
        let says = "The instance's CPU credits were used up (CPUCreditBalance): it has no more of the CPUs than its baseline";
        assert_eq!(system::read(&credits).says, [says]);
        assert_eq!(system::read(&metric("CPUCreditBalance", ["12.5", "9"])).says, Vec::<String>::new());
        let both = format!("{credits}{}", metric("WriteLatency", ["0.003", "0.125"]));
        let late = "Requests to the storage took up to 125 ms in the mean (WriteLatency)";
        assert_eq!(system::read(&both).says, [says, late]);
        assert_eq!(system::read(&metric("NetworkThroughput", ["0", "0"])).says, Vec::<String>::new());
        let parts = recognise(
            "x",
            &format!("aws cloudwatch get-metric-statistics --metric-name CPUCreditBalance\n{credits}"),
        );
        assert!(parts.iter().any(|part| part.says == [says]), "{parts:?}");
    }

    #[test]
    fn an_export_of_the_console_says_the_same() {
        let csv = "Timestamp,CPUUtilization,DatabaseConnections,WriteLatency\n2024/03/04 10:00:00,12.1,101,0.001\n\
                   2024/03/04 10:01:00,99.8,1201,0.25\n2024/03/04 10:02:00,,1411,0.2\n";
        let says = [
            "The CPUs were in use up to 100 % (CPUUtilization)",
            "Requests to the storage took up to 250 ms in the mean (WriteLatency)",
        ];
        let labelled = csv.replace("Timestamp,", "\"Label\",");
        for text in [csv, &labelled, &csv.replace("CPUUtilization", "CPUUtilization (Average)")] {
            let parts = recognise("x", text);
            assert!(parts.iter().any(|part| part.says == says), "{text}: {parts:?}");
        }
        assert_eq!(
            system::read(&csv.replace("99.8", "9.8").replace("0.2", "0.002")).says,
            Vec::<String>::new()
        );
    }

    #[test]
    fn rows_and_pairs_of_a_script_say_the_same() {
        let credits = "The volume's credits were used up (BurstBalance): it has no more requests a second than its baseline";
        let late = "Requests to the storage took up to 400 ms in the mean (WriteLatency)";
        let table = "| Metric         | Avg  | Max  | Unit    |\n|----------------|------|------|---------|\n\
                     | CPUUtilization | 19.8 | 20.1 | Percent |\n| BurstBalance   | 0.0  | 1.0  | Percent |\n\
                     | WriteLatency   | 0.09 | 0.4  | Seconds |\n";
        let lines = "2024-03-04T10:00:00Z shop FreeableMemory=88 MB BurstBalance=0% WriteLatency=0.4 CPUUtilization=11%\n";
        for text in [table, lines] {
            assert_eq!(system::read(text).says, [credits, late], "{text}");
            let parts = recognise("x", text);
            assert!(parts.iter().any(|part| part.says == [credits, late]), "{text}: {parts:?}");
        }
        for other in
            ["alarm: BurstBalance=0%\n", "| BurstBalance | 0 | low |\n", "| BurstBalance | Percent |\n"]
        {
            assert_eq!(system::read(other).says, Vec::<String>::new(), "{other}");
        }
    }
}
