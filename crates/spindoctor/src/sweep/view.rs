//! The formats of a sweep: text, CSV, charts as SVG and PNG, HTML. Each is a function from a finished [`Sweep`]; JSON
//! is the sweep itself. This module has what they share.

use spindoctor_tune::sweep::axes::WORKLOAD;
use spindoctor_tune::sweep::{Line, Measured, Point, Ratio, Ratios, Spread, Standing, Starved, Sweep};

use super::chart::Chart;
use spindoctor_page::number;

/// A quantity that is measured in each cell.
pub struct Metric {
    /// Its title.
    pub title: &'static str,
    /// Its unit, as [`number::quantity`] knows it.
    pub unit: &'static str,
    /// What its columns in CSV begin with.
    pub column: &'static str,
    /// Which way is better.
    pub better: &'static str,
    pub of: fn(&Point) -> Option<Spread>,
    pub ratio: fn(&Ratios) -> Option<Ratio>,
}

const MORE: &str = "more is better";
const LESS: &str = "less is better";

/// What is shown, in order; the first [`CHARTED`] of them are drawn, too.
pub const METRICS: [Metric; 7] = [
    Metric {
        title: "Transactions a second",
        unit: "",
        column: "transactions_per_s",
        better: MORE,
        of: |point| Some(point.transactions_per_s),
        ratio: |ratios| ratios.transactions_per_s,
    },
    Metric {
        title: "95th percentile of a transaction's time",
        unit: "ms",
        column: "p95_ms",
        better: LESS,
        of: |point| point.p95_ms,
        ratio: |ratios| ratios.p95_ms,
    },
    Metric {
        title: "CPU time of the server for each statement",
        unit: "us",
        column: "cpu_us_per_query",
        better: LESS,
        of: |point| point.cpu_us_per_query,
        ratio: |ratios| ratios.cpu_us_per_query,
    },
    Metric {
        title: "CPU cycles of the server for each statement",
        unit: "",
        column: "cycles_per_query",
        better: LESS,
        of: |point| point.cycles_per_query,
        ratio: |ratios| ratios.cycles_per_query,
    },
    Metric {
        title: "CPU cycles for each instruction",
        unit: "",
        column: "cycles_per_instruction",
        better: LESS,
        of: |point| point.cycles_per_instruction,
        ratio: |ratios| ratios.cycles_per_instruction,
    },
    // A client that did nothing has no logarithm: these two are shown side by side, without a ratio.
    Metric {
        title: "Transactions of the least served client, by the mean of all",
        unit: "ratio",
        column: "least_client_ratio",
        better: MORE,
        of: |point| point.least_client_ratio,
        ratio: |_| None,
    },
    Metric {
        title: "Standard deviation of the clients' transactions, by their mean",
        unit: "ratio",
        column: "client_sd_ratio",
        better: LESS,
        of: |point| point.client_sd_ratio,
        ratio: |_| None,
    },
];
/// How many of [`METRICS`] are drawn.
pub const CHARTED: usize = 3;

impl Metric {
    pub fn shown(&self, value: f64) -> String {
        match self.unit {
            "" => number::plain(value),
            unit => number::quantity(value, unit),
        }
    }

    pub fn more_is_better(&self) -> bool {
        self.better == MORE
    }

    pub fn is_measured(&self, sweep: &Sweep) -> bool {
        sweep.lines.iter().flat_map(|line| &line.points).any(|point| (self.of)(point).is_some())
    }

    pub fn is_drawn(&self, chart: &Chart<'_>) -> bool {
        chart.lines.iter().flat_map(|line| &line.points).any(|point| (self.of)(point).is_some())
    }
}

/// `MySQL 9.7.4: oltp_update_index at 1 to 256 clients`
pub fn title(sweep: &Sweep) -> String {
    let threads = match (sweep.grid.threads.first(), sweep.grid.threads.last()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most} clients"),
        (Some(only), _) => number::counted(u64::from(*only), "client", "clients"),
        _ => String::new(),
    };
    format!("{}: {} at {threads}", sweep.conditions.server, sweep.conditions.workload)
}

/// What the numbers were made with, a clause each.
pub fn facts(sweep: &Sweep) -> Vec<String> {
    let made = &sweep.conditions;
    let mut facts = vec![made.address.clone(), made.machine.clone()];
    if let Some(cpus) = made.quota_cpus {
        facts.push(format!("quota of {}", number::quantity(cpus, "CPUs")));
    }
    if !made.options.is_empty() {
        facts.push(made.options.join(" "));
    }
    facts.push(format!(
        "{} of {}",
        number::counted(u64::from(made.tables), "table", "tables"),
        number::counted(u64::from(made.rows), "row", "rows")
    ));
    facts.push(format!(
        "{} of {} each after {} of warm-up, in random order",
        number::counted(u64::from(sweep.grid.runs), "run", "runs"),
        number::duration(made.measured_s),
        number::duration(made.warmup_s)
    ));
    facts
}

/// The variables that the lines differ in: `innodb_sync_spin_loops / innodb_spin_wait_delay`; nothing where there is none.
pub fn variables(sweep: &Sweep) -> String {
    sweep.grid.axes.iter().map(|axis| axis.variable.as_str()).collect::<Vec<_>>().join(" / ")
}

/// The values of a line, in the order of [`variables`]: `200 / 6`.
pub fn label(line: &Line) -> String {
    let values: Vec<&str> = line.setting.0.iter().map(|assigned| assigned.value.as_str()).collect();
    if values.is_empty() { "as it is".to_owned() } else { values.join(" / ") }
}

/// How far apart the runs are: half of it, as a share of the median; nothing where there is one run.
pub fn spread_text(spread: Spread, runs: u32) -> String {
    let half = (spread.high - spread.low) / 2.0 / spread.median;
    if runs < 2 || !half.is_finite() { String::new() } else { format!("±{}", number::percent(half)) }
}

/// Which setting leads, a sentence for all numbers of clients in a row of which the same is true.
pub fn results(sweep: &Sweep) -> Vec<String> {
    let workloads = sweep.workloads();
    workloads.iter().flat_map(|workload| results_with(sweep, *workload)).collect()
}

/// The same of one workload.
fn results_with(sweep: &Sweep, workload: Option<&str>) -> Vec<String> {
    let lines = sweep.lines.iter().filter(|line| line.setting.value(WORKLOAD) == workload).count();
    let text = |threads: u32| {
        let lead = sweep.lead_at(threads, workload)?;
        let two = lead.first.min(lead.second)..=lead.first.max(lead.second);
        let [first, second, last] = [lead.first, lead.second, lead.last].map(|at| label(&sweep.lines[at]));
        let ratio = number::plain((lead.ratio * 100.0).round() / 100.0);
        let sure = if lead.standing == Standing::TooFewRuns { ", in too few runs to be sure" } else { "" };
        Some(match (lead.standing, lines) {
            (Standing::Overlaps, 2) => {
                let [one, other] = [two.start(), two.end()].map(|at| label(&sweep.lines[*at]));
                format!("no clear difference between {one} and {other}.")
            }
            (Standing::Overlaps, _) => format!(
                "{first} is not clear of {second}; it has {ratio} times the throughput of {last}, the last."
            ),
            (_, 2) => format!("{first} has {ratio} times the throughput of {last}{sure}."),
            _ => format!("{first} leads, with {ratio} times the throughput of {last}, the last{sure}."),
        })
    };
    let mut together: Vec<(Vec<String>, String)> = Vec::new();
    for threads in &sweep.grid.threads {
        let Some(text) = text(*threads) else { continue };
        match together.last_mut() {
            Some((alike, same)) if *same == text => alike.push(threads.to_string()),
            _ => together.push((vec![threads.to_string()], text)),
        }
    }
    let sentence = |(threads, text): (Vec<String>, String)| {
        let clients = match threads.as_slice() {
            [only] if only == "1" => "1 client".to_owned(),
            [only] => format!("{only} clients"),
            [all @ .., last] => format!("{} and {last} clients", all.join(", ")),
            [] => String::new(),
        };
        let workload = workload.map_or(String::new(), |workload| format!("{workload}, "));
        format!("{workload}{clients}: {text}")
    };
    together.into_iter().map(sentence).collect()
}

/// Where throughput is bought with clients that starve.
pub fn starved(sweep: &Sweep) -> Vec<String> {
    let text = |found: &Starved| {
        format!(
            "{}: {} leads, but its least served client does {} of the mean; with {} it does {}.",
            number::counted(u64::from(found.threads), "client", "clients"),
            label(&sweep.lines[found.leader]),
            number::percent(found.least),
            label(&sweep.lines[found.fairest]),
            number::percent(found.fair)
        )
    };
    sweep.starved().iter().map(text).collect()
}

/// How a line scales, by the Universal Scalability Law.
pub fn scaling(line: &Line) -> String {
    let Some(fit) = &line.scalability else {
        return line.not_fitted.clone().unwrap_or_else(|| "not fitted".to_owned());
    };
    if fit.alpha >= 1.0 {
        return format!("falls from the first client on; R² {:.2}", fit.r_squared);
    }
    let peak = match fit.peak_threads {
        Some(threads) => format!(
            "peaks at {} with {} transactions/s",
            number::counted(threads.round() as u64, "client", "clients"),
            number::plain(fit.transactions_per_s(threads).round())
        ),
        None => "only rises".to_owned(),
    };
    format!(
        "{peak}; contention {}, coherency {}, R² {:.2}",
        two_digits(fit.alpha),
        two_digits(fit.beta),
        fit.r_squared
    )
}

/// A ratio in percent with two digits that count: a coherency of 0.02 % is a lot.
fn two_digits(ratio: f64) -> String {
    let percent = ratio * 100.0;
    let digits = if percent > 0.0 { (1.0 - percent.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 };
    format!("{percent:.digits$} %")
}

/// What the numbers are, said once.
pub const SCALING: &str = "Universal Scalability Law, fitted to the medians: contention is the share of the work that one \
                       client does at a time, coherency what each client pays for each other.";

/// One finished run, in a line.
pub fn run_text(measured: &Measured) -> String {
    let setting = measured.cell.setting.text();
    let setting = if setting.is_empty() { setting } else { format!("{setting}, ") };
    format!(
        "{setting}{}: {} transactions/s",
        number::counted(u64::from(measured.cell.threads), "client", "clients"),
        number::plain(measured.transactions_per_s.round())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn who_leads_is_said_only_where_the_runs_say_so() {
        let sweep = examples::spin_loops();
        let results = results(&sweep);
        assert!(results.iter().any(|text| text.contains("64 clients: 200 has")), "{results:?}");
        assert_eq!(results[0], "1, 2, 4, 8, 16 and 32 clients: no clear difference between 30 and 200.");
    }

    #[test]
    fn how_a_line_scales_is_shown_with_its_peak() {
        let sweep = examples::spin_loops();
        let text = scaling(&sweep.lines[0]);
        assert!(text.starts_with("peaks at ") && text.contains("R²"), "{text}");
        let few = scaling(&examples::as_it_is().lines[0]);
        assert!(few.contains("numbers of clients or more"), "{few}");
        assert_eq!([two_digits(0.043), two_digits(0.000_123), two_digits(0.0)], ["4.3 %", "0.012 %", "0 %"]);
    }
}
