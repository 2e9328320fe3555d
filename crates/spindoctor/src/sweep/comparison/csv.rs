//! A comparison as comma-separated values: a line for each setting and number of clients that both have.

use std::fmt::Write as _;

use spindoctor_tune::sweep::{Comparison, Ratio, Spread};

use crate::sweep::csv::cell;
use crate::sweep::view::METRICS;

/// The table, with a line of titles.
pub fn render(comparison: &Comparison) -> String {
    let mut titles: Vec<String> = comparison
        .lines
        .first()
        .map_or(Vec::new(), |line| line.setting.0.iter().map(|assigned| cell(&assigned.variable)).collect());
    titles.extend(["threads", "runs_a", "runs_b"].map(str::to_owned));
    titles.extend(METRICS.iter().flat_map(|metric| {
        ["a", "b", "ratio", "ratio_low", "ratio_high"].map(|column| format!("{}_{column}", metric.column))
    }));
    let mut table = format!("{}\n", titles.join(","));
    for line in &comparison.lines {
        for point in &line.points {
            let mut row: Vec<String> = line.setting.0.iter().map(|assigned| cell(&assigned.value)).collect();
            row.extend([point.threads, point.a.runs, point.b.runs].map(|number| number.to_string()));
            for metric in &METRICS {
                row.extend([median_text((metric.of)(&point.a)), median_text((metric.of)(&point.b))]);
                row.extend(ratio((metric.ratio)(&point.ratios)));
            }
            let _ = writeln!(table, "{}", row.join(","));
        }
    }
    table
}

/// Nothing where nothing was measured: not zero.
fn median_text(spread: Option<Spread>) -> String {
    spread.map_or(String::new(), |spread| spread.median.to_string())
}

fn ratio(ratio: Option<Ratio>) -> [String; 3] {
    ratio.map_or_else(Default::default, |Ratio { ratio, low, high }| {
        [Some(ratio), low, high].map(|number| number.map_or(String::new(), |number| number.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn every_point_that_both_have_is_a_line_with_the_columns_that_the_titles_name() {
        let comparison = examples::compared();
        let table = render(&comparison);
        let points: usize = comparison.lines.iter().map(|line| line.points.len()).sum();
        assert_eq!(table.lines().count(), points + 1);
        let columns = table.lines().next().unwrap().split(',').count();
        assert!(table.lines().all(|line| line.split(',').count() == columns), "{table}");
        assert!(
            table.starts_with("innodb_sync_spin_loops,threads,runs_a,runs_b,transactions_per_s_a,"),
            "{table}"
        );
    }
}
