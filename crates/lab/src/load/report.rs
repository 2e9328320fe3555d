//! What sysbench reports: every second, and when it closes.
//!
//! In: its lines. Out: a [`LoadReport`]. Pure.

use serde::{Deserialize, Serialize};
use spindoctor_model::Fairness;

use crate::command::last_lines;
use crate::error::{Error, Result};

/// How the clients fared over some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadReport {
    /// Length of the measurement.
    pub seconds: f64,
    /// Transactions per second (sysbench's events).
    pub transactions_per_s: f64,
    /// Queries per second.
    pub queries_per_s: f64,
    /// Mean time of a transaction, milliseconds; in closing reports only.
    pub latency_avg_ms: Option<f64>,
    /// 95th percentile of a transaction's time, milliseconds. Over a window: the highest of its seconds.
    pub latency_p95_ms: Option<f64>,
    /// Longest transaction, milliseconds; in closing reports only.
    pub latency_max_ms: Option<f64>,
    /// Errors that the clients ignored, per second.
    pub errors_per_s: f64,
    /// Reconnects after an error, per second.
    pub reconnects_per_s: f64,
    /// How evenly the clients were served; in closing reports only, the least and the greatest of [`measure`](super::measure) only.
    pub fairness: Option<Fairness>,
}

impl LoadReport {
    pub(super) fn of_seconds(reports: &[Self]) -> Option<Self> {
        let count = reports.len() as f64;
        let mean = |pick: fn(&Self) -> f64| reports.iter().map(pick).sum::<f64>() / count;
        let p95 = reports.iter().filter_map(|report| report.latency_p95_ms).reduce(f64::max);
        (!reports.is_empty()).then(|| Self {
            seconds: reports.iter().map(|report| report.seconds).sum(),
            transactions_per_s: mean(|report| report.transactions_per_s),
            queries_per_s: mean(|report| report.queries_per_s),
            latency_p95_ms: p95,
            errors_per_s: mean(|report| report.errors_per_s),
            reconnects_per_s: mean(|report| report.reconnects_per_s),
            ..Self::default()
        })
    }
}

/// Format of sysbench 1.0.20 is like `[ 1s ] thds: 4 tps: 1138.54 qps: 22814.62 (r/w/o:
/// 15976.42/4557.14/2281.06) lat (ms,95%): 7.04 err/s: 0.00 reconn/s: 0.00`.
pub(super) fn parse_second(line: &str) -> Option<LoadReport> {
    let after =
        |label: &str| -> Option<f64> { line.split_once(label)?.1.split_whitespace().next()?.parse().ok() };
    Some(LoadReport {
        seconds: 1.0,
        transactions_per_s: after(" tps: ")?,
        queries_per_s: after(" qps: ")?,
        latency_p95_ms: after("95%): "),
        errors_per_s: after(" err/s: ")?,
        reconnects_per_s: after(" reconn/s: ")?,
        ..LoadReport::default()
    })
}

/// `1004.7500/12.60`
fn parse_fairness(text: &str) -> Option<Fairness> {
    let (mean, sd) = text.split_once('/')?;
    Some(Fairness { mean: mean.trim().parse().ok()?, sd: sd.trim().parse().ok()?, least: None, most: None })
}

/// Format of sysbench 1.0.20: labelled lines, a rate in brackets behind each count.
pub(super) fn parse_closing(printed: &str) -> Result<LoadReport> {
    let value = |label: &str| -> Option<&str> {
        printed.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim)
    };
    let number = |label: &str| -> Option<f64> { value(label)?.trim_end_matches('s').parse().ok() };
    let rate = |label: &str| -> Option<f64> {
        value(label)?.split_once('(')?.1.split_whitespace().next()?.parse().ok()
    };
    let parsed = || {
        Some(LoadReport {
            seconds: number("total time:")?,
            transactions_per_s: rate("transactions:")?,
            queries_per_s: rate("queries:")?,
            latency_avg_ms: number("avg:"),
            latency_p95_ms: number("95th percentile:"),
            latency_max_ms: number("max:"),
            errors_per_s: rate("ignored errors:")?,
            reconnects_per_s: rate("reconnects:")?,
            fairness: value("events (avg/stddev):").and_then(parse_fairness),
        })
    };
    parsed().ok_or_else(|| Error::Report(last_lines(printed, 30)))
}

/// What the clients did by their own counts: then the mean lies between the least and the most, which that of sysbench need not,
/// whose measured part begins when sysbench gets a CPU. As sysbench prints it where a client did not say what it did.
pub(super) fn with_ends(fairness: Fairness, events: &[u64], threads: u32) -> Fairness {
    let (Some(&least), Some(&most), true) =
        (events.iter().min(), events.iter().max(), events.len() == threads as usize)
    else {
        return fairness;
    };
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / events.len() as f64;
    let mean_events = mean(&mut events.iter().map(|&count| count as f64));
    let variance = mean(&mut events.iter().map(|&count| (count as f64 - mean_events).powi(2)));
    Fairness { mean: mean_events, sd: variance.sqrt(), least: Some(least), most: Some(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sysbench 1.0.20: `oltp_read_write --threads=4 --time=3 --report-interval=1` on MySQL 9.7.4.
    const CLOSING: &str = "\
SQL statistics:
    queries performed:
        read:                            56266
        write:                           16076
        other:                           8038
        total:                           80380
    transactions:                        4019   (1337.14 per sec.)
    queries:                             80380  (26742.89 per sec.)
    ignored errors:                      2      (0.67 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          3.0050s
    total number of events:              4019

Latency (ms):
         min:                                    0.58
         avg:                                    2.99
         max:                                   22.34
         95th percentile:                        5.18
         sum:                                12004.17

Threads fairness:
    events (avg/stddev):           1004.7500/12.60
    execution time (avg/stddev):   3.0010/0.00
";

    #[test]
    fn reads_the_closing_report() {
        let expected = LoadReport {
            seconds: 3.005,
            transactions_per_s: 1337.14,
            queries_per_s: 26742.89,
            latency_avg_ms: Some(2.99),
            latency_p95_ms: Some(5.18),
            latency_max_ms: Some(22.34),
            errors_per_s: 0.67,
            reconnects_per_s: 0.0,
            fairness: Some(Fairness { mean: 1004.75, sd: 12.6, least: None, most: None }),
        };
        assert_eq!(parse_closing(CLOSING).unwrap(), expected);
    }

    #[test]
    fn a_report_that_breaks_off_is_an_error_that_shows_it() {
        let error = parse_closing("SQL statistics:\n    transactions:").unwrap_err();
        assert!(error.to_string().contains("transactions:"), "{error}");
    }

    #[test]
    fn a_window_is_the_mean_of_its_seconds_and_their_worst_percentile() {
        let lines = [
            "[ 1s ] thds: 4 tps: 200.00 qps: 4000.00 (r/w/o: 2916.65/833.33/416.66) lat (ms,95%): 1.86 err/s: 0.00 reconn/s: 0.00",
            "[ 1s ] queue length: 0, concurrency: 0",
            "[ 2s ] thds: 4 tps: 100.00 qps: 2000.00 (r/w/o: 1400.00/400.00/200.00) lat (ms,95%): 7.04 err/s: 1.00 reconn/s: 0.00",
        ];
        let seconds: Vec<_> = lines.iter().filter_map(|line| parse_second(line)).collect();
        let report = LoadReport::of_seconds(&seconds).unwrap();
        assert_eq!((report.seconds, report.transactions_per_s, report.errors_per_s), (2.0, 150.0, 0.5));
        assert_eq!(report.latency_p95_ms, Some(7.04));
        assert_eq!(LoadReport::of_seconds(&[]), None);
    }

    #[test]
    fn the_least_and_the_most_are_known_where_every_client_said_what_it_did() {
        let fairness = parse_fairness("10.5/2.25").unwrap();
        let with = |events: &[u64]| with_ends(fairness, events, 3);
        let counted = with(&[9, 12, 9]);
        assert_eq!((counted.mean, counted.least, counted.most), (10.0, Some(9), Some(12)));
        // As sysbench's: of all clients, not of a sample of them.
        assert!((counted.sd - 2.0_f64.sqrt()).abs() < 1e-12, "{counted:?}");
        assert_eq!(with(&[9, 12]), fairness);
    }
}
