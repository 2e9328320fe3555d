//! What a load test reports while it runs: how many transactions a second it had, and whether there were none for a while.
//!
//! ```text
//! [ 12s ] thds: 80 tps: 577.15 qps: 11440.91 (r/w/o: 8097.06/2189.06/1154.79) lat (ms,95%): 101.13 err/s: 0.00 reconn/s: 0.00
//! [  12s] threads: 80, tps: 577.15, reads: 8097.06, writes: 2189.06, response time: 101.13ms (95%), errors: 0.00
//! ```

use crate::amounts::amount;
use crate::system::{MOST_ROWS, SystemText};

/// True for a report of sysbench while it runs.
pub(crate) fn is_report(line: &str) -> bool {
    report(line).is_some()
}

/// When a report was made, seconds after the start, and the transactions per second until then.
fn report(line: &str) -> Option<(f64, f64)> {
    let (time, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let seconds = amount(time.trim().strip_suffix('s')?)?;
    let is_of_sysbench = ["thds:", "threads:"].iter().any(|name| rest.trim_start().starts_with(name));
    let (_, rest) = rest.split_once("tps: ").filter(|_| is_of_sysbench)?;
    let tps = rest.split([' ', ',']).next()?;
    Some((seconds, amount(tps)?))
}

/// Says how the transactions went.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let reports: Vec<(f64, f64)> = text.lines().filter_map(report).take(MOST_ROWS).collect();
    if reports.is_empty() {
        return;
    }
    let without: Vec<f64> =
        reports.iter().filter(|(_, tps)| *tps == 0.0).map(|(seconds, _)| *seconds).collect();
    let most = reports.iter().map(|(_, tps)| *tps).fold(0.0, f64::max);
    let mean = reports.iter().map(|(_, tps)| *tps).sum::<f64>() / reports.len() as f64;
    let sentence = match without[..] {
        [first, ..] => format!(
            "The load test had no transaction in {} of its {} reports, the first {first:.0} s after its start, and {most:.0} a second at \
             most: a list of processes and stacks of that time show what stopped it",
            without.len(),
            reports.len()
        ),
        [] => format!(
            "The load test had {mean:.0} transactions a second in the mean of {} reports, and {most:.0} at most",
            reports.len()
        ),
    };
    found.add("sysbench", None, sentence);
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn a_load_test_that_had_no_transactions_for_a_while_says_so() {
        let line = |seconds: u32, tps: &str| {
            format!(
                "[ {seconds}s ] thds: 16 tps: {tps} qps: 9.00 (r/w/o: 1.00/2.00/3.00) lat (ms,95%): 7.00 err/s: 0.00 reconn/s: 0.00\n"
            )
        };
        let text =
            format!("{}{}{}{}", line(10, "812.40"), line(20, "790.10"), line(30, "0.00"), line(40, "0.00"));
        let stopped = "The load test had no transaction in 2 of its 4 reports, the first 30 s after its start, and 812 a second at most: a \
                       list of processes and stacks of that time show what stopped it";
        assert_eq!(system::read(&text).says, [stopped]);
        let parts = recognise("x", &format!("Initializing worker threads...\n\n{text}"));
        assert!(parts.iter().any(|part| part.says == [stopped]), "{parts:?}");
        let old = "[  10s] threads: 16, tps: 812.40, reads: 9.00, writes: 3.00, response time: 7.00ms (95%), errors: 0.00\n\
                   [  20s] threads: 16, tps: 790.40, reads: 9.00, writes: 3.00, response time: 7.00ms (95%), errors: 0.00\n";
        assert_eq!(
            system::read(old).says,
            ["The load test had 801 transactions a second in the mean of 2 reports, and 812 at most"]
        );
    }
}
