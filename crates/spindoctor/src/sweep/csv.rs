//! A sweep as comma-separated values: a line for each setting and number of clients, a column for each variable.

use std::fmt::Write as _;

use spindoctor_tune::sweep::{Point, Spread, Sweep};

use spindoctor_page::csv;
use spindoctor_page::csv::Reader;
use spindoctor_page::safe::safe;

/// The quantities' columns, each followed by its least and greatest run.
const QUANTITIES: [&str; 4] = ["transactions_per_s", "queries_per_s", "p95_ms", "cpu_us_per_query"];

/// A column, and what stands in it.
type Column = (&'static str, fn(&Point) -> Option<Spread>);
/// Those that came later stand behind the others: tables are read by the place of their columns, too.
const LATER: [Column; 6] = [
    ("client_transactions", |point| point.client_transactions),
    ("least_client_ratio", |point| point.least_client_ratio),
    ("most_client_ratio", |point| point.most_client_ratio),
    ("client_sd_ratio", |point| point.client_sd_ratio),
    ("cycles_per_query", |point| point.cycles_per_query),
    ("cycles_per_instruction", |point| point.cycles_per_instruction),
];

/// The table, with a line of titles.
pub fn render(sweep: &Sweep) -> String {
    let mut titles: Vec<String> = sweep.grid.axes.iter().map(|axis| cell(&axis.variable)).collect();
    titles.extend(["threads".to_owned(), "runs".to_owned()]);
    titles.extend(
        QUANTITIES
            .iter()
            .flat_map(|name| [(*name).to_owned(), format!("{name}_low"), format!("{name}_high")]),
    );
    titles.push("errors_per_s".to_owned());
    titles.extend(
        LATER
            .iter()
            .flat_map(|(name, _)| [(*name).to_owned(), format!("{name}_low"), format!("{name}_high")]),
    );
    let mut table = format!("{}\n", titles.join(","));
    for line in &sweep.lines {
        for point in &line.points {
            let mut row: Vec<String> = line.setting.0.iter().map(|assigned| cell(&assigned.value)).collect();
            row.extend([point.threads.to_string(), point.runs.to_string()]);
            let quantities = [
                Some(point.transactions_per_s),
                Some(point.queries_per_s),
                point.p95_ms,
                point.cpu_us_per_query,
            ];
            row.extend(quantities.into_iter().flat_map(numbers));
            row.push(point.errors_per_s.to_string());
            row.extend(LATER.iter().flat_map(|(_, of)| numbers(of(point))));
            let _ = writeln!(table, "{}", row.join(","));
        }
    }
    table
}

/// Nothing where nothing was measured: not zero.
fn numbers(spread: Option<Spread>) -> [String; 3] {
    spread.map_or_else(Default::default, |Spread { median, low, high }| {
        [median, low, high].map(|number| number.to_string())
    })
}

/// Quoted where it must be (RFC 4180).
pub fn cell(text: &str) -> String {
    let mut out = Vec::new();
    csv::cell(safe(text).as_bytes(), Reader::People, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn every_point_is_a_line_with_the_columns_that_the_titles_name() {
        let sweep = examples::spin_loops();
        let table = render(&sweep);
        let mut lines = table.lines();
        let titles = "innodb_sync_spin_loops,threads,runs,transactions_per_s,transactions_per_s_low,";
        assert!(lines.next().unwrap().starts_with(titles), "{table}");
        assert_eq!(lines.clone().count(), 22);
        assert!(lines.all(|line| line.split(',').count() == 34), "{table}");
        assert!(table.contains("\n30,1,3,11178,10954.44,"), "{table}");
    }

    #[test]
    fn a_hostile_value_stays_in_its_cell() {
        let table = render(&examples::hostile());
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(table.contains("\"<script>alert(1)</script>&\"\"'\\u{1b}[2J\\u{202e},; \""), "{table}");
    }
}
