//! The formats of a workload: text for a terminal, JSON for machines.

use spindoctor_rules::replica::KeepingUp;

use super::tally::Slow;
use super::view::{Cost, Workload};
use spindoctor_page::number;

/// `MySQL 8.0.36 on db17, 10 s, 100 looks`
pub fn head(workload: &Workload) -> String {
    let counted = &workload.counted;
    let seconds = (counted.seconds * 10.0).round() / 10.0;
    let whose = if workload.of_replica { "the appliers of " } else { "" };
    format!(
        "{whose}{}, {}, {}",
        workload.subject,
        number::duration(seconds),
        number::counted(counted.looks, "look", "looks")
    )
}

/// `2.6 statements at once`
pub fn at_once(workload: &Workload) -> String {
    let counted = &workload.counted;
    let mean = counted.seen as f64 / counted.looks.max(1) as f64;
    let mean = (mean * 10.0).round() / 10.0;
    match workload.of_replica {
        true => format!("{} at work", amount(mean, "applier", "appliers")),
        false => format!("{} at once", amount(mean, "statement", "statements")),
    }
}

/// `1 statement`, `2.6 statements`: what is counted on average.
pub fn amount(number: f64, one: &str, many: &str) -> String {
    let shown = number::plain(number);
    format!("{shown} {}", if shown == "1" { one } else { many })
}

/// What looking cost, in one clause.
pub fn cost_text(cost: &Cost) -> String {
    let server = match cost.server_cpu_ms {
        Some(cpu_ms) => format!("{} of the server's CPU", number::quantity(cpu_ms.ceil(), "ms")),
        None => format!("answered in {}", number::quantity(cost.answered_ms.ceil(), "ms")),
    };
    let share = cost
        .cpu_share
        .map_or_else(String::new, |share| format!(", together {} of all CPUs", number::percent(share)));
    let stopped = match cost.threads_stopped {
        0 => "no thread stopped".to_owned(),
        count => format!("{} stopped", number::counted(count, "thread", "threads")),
    };
    format!(
        "{}, {server}, own CPU {}{share}, {stopped}",
        number::counted(cost.server_queries, "query", "queries"),
        number::quantity(cost.own_cpu_ms.ceil(), "ms"),
    )
}

/// The statement as it may be shown.
pub fn shown_text<'a>(workload: &Workload, slow: &'a Slow) -> &'a str {
    if workload.literals { &slow.text } else { &slow.digest }
}

/// `28 s behind, 0.8 s more each second`
pub fn behind_text(seen: &KeepingUp) -> String {
    /// Less is the counting in whole seconds.
    const GROWS: f64 = 0.05;
    let behind = match seen.channel.behind_s {
        Some(behind_s) => format!("{} behind", number::duration(behind_s)),
        None => "the server does not say how far it is behind".to_owned(),
    };
    let size = |growth: f64| number::duration((growth.abs() * 100.0).round() / 100.0);
    match seen.growth {
        Some(growth) if growth >= GROWS => format!("{behind}, {} more each second", size(growth)),
        Some(growth) if growth <= -GROWS => format!("{behind}, {} less each second", size(growth)),
        _ => behind,
    }
}

/// How the binary log of the source grows, and how it is kept up with.
pub fn log_text(seen: &KeepingUp) -> Option<String> {
    let rate = |bytes: f64| format!("{}/s", number::bytes(bytes));
    let mut parts = Vec::new();
    parts.extend(seen.received_per_s.map(|bytes| format!("{} received", rate(bytes))));
    parts.extend(seen.applied_per_s.map(|bytes| format!("{} applied", rate(bytes))));
    parts.extend(
        seen.backlog_bytes
            .filter(|bytes| *bytes > 0.0)
            .map(|bytes| format!("{} not applied yet", number::bytes(bytes))),
    );
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// When it will have caught up.
pub fn caught_up_text(seen: &KeepingUp) -> Option<String> {
    if !seen.shape.lags() {
        return None;
    }
    Some(match seen.caught_up_in_s {
        Some(seconds) => format!("in about {} at this rate", number::duration(seconds.round())),
        None => "never at this rate".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::workload::examples;

    #[test]
    fn one_statement_at_once_is_not_several() {
        let mut workload = examples::busy();
        workload.of_replica = false;
        workload.counted.looks = 10;
        for (seen, text) in
            [(10, "1 statement at once"), (26, "2.6 statements at once"), (0, "0 statements at once")]
        {
            workload.counted.seen = seen;
            assert_eq!(at_once(&workload), text);
        }
        (workload.of_replica, workload.counted.seen) = (true, 10);
        assert_eq!(at_once(&workload), "1 applier at work");
    }
}
