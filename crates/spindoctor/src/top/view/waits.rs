//! The waits of the server's threads, by event, since the reading before.

use std::collections::HashMap;

use spindoctor_model::Window;

use super::listing::{Align, By, Column, Direction, Listed, Listing};
use super::queries;
use crate::top::state::State;
use crate::top::view as top_view;
use crate::top::view::{Mood, no_change};
use spindoctor_page::number;

/// A reading lists so many, those with the most time (`crates/collect/src/mysql/perf_schema_waits.rs`).
const LISTED: usize = 100;
/// Waits that are no waits: threads that have nothing to do.
const IDLE: &[&str] = &["idle", "wait/io/socket/sql/client_connection"];

/// One kind of wait between two readings.
pub struct Wait<'a> {
    /// Its event without `wait/`.
    pub event: &'a str,
    pub per_s: f64,
    pub mean_ms: f64,
    /// Share of all waits' time.
    pub share: f64,
    /// Threads in it on average.
    pub load: f64,
}

/// What was waited for of late, the longest first, and over how many seconds; why that is not known where it is not.
///
/// What the first reading does not have had never been waited for by then, and grew from zero; but where that list is full
/// it may have been below its bound, and how much it grew nobody knows.
pub fn waits(window: &Window, over_s: f64) -> Result<(Vec<Wait<'_>>, f64), String> {
    let change = window
        .recent_change(over_s, |s| &s.server.waits)
        .ok_or_else(|| no_change(window, |s| &s.server.waits))?;
    let before: HashMap<&str, (u64, u64)> =
        change.first.iter().map(|wait| (wait.event.as_str(), (wait.count, wait.total_ns))).collect();
    let is_full = change.first.len() >= LISTED;
    let mut all: Vec<Wait<'_>> = change
        .last
        .iter()
        .filter(|wait| !IDLE.contains(&wait.event.as_str()))
        .filter_map(|wait| {
            let (count, total_ns) = match before.get(wait.event.as_str()) {
                Some(before) => *before,
                None if is_full => return None,
                None => (0, 0),
            };
            let count = wait.count.checked_sub(count).filter(|&waited| waited > 0)?;
            let total_ns = wait.total_ns.checked_sub(total_ns)? as f64;
            Some(Wait {
                event: wait.event.strip_prefix("wait/").unwrap_or(&wait.event),
                per_s: count as f64 / change.seconds,
                mean_ms: total_ns / count as f64 / 1e6,
                share: total_ns,
                load: total_ns / 1e9 / change.seconds,
            })
        })
        .collect();
    let total: f64 = all.iter().map(|wait| wait.share).sum();
    all.iter_mut().for_each(|wait| wait.share /= total.max(1.0));
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok((all, change.seconds))
}

/// Its columns, the numbers that count most first.
fn columns<'a>() -> Vec<Column<Wait<'a>>> {
    vec![
        Column {
            title: "time",
            width: 7,
            align: Align::Right,
            from: 0,
            text: |wait| number::percent(wait.share),
            by: By::Number(|wait| wait.share),
        },
        Column {
            title: "threads in it",
            width: 13,
            align: Align::Right,
            from: 0,
            text: |wait| format!("{:.2}", wait.load),
            by: By::Number(|wait| wait.load),
        },
        Column {
            title: "/s",
            width: 9,
            align: Align::Right,
            from: 0,
            text: |wait| queries::rate(wait.per_s),
            by: By::Number(|wait| wait.per_s),
        },
        Column {
            title: "mean",
            width: 8,
            align: Align::Right,
            from: 0,
            text: |wait| number::quantity(wait.mean_ms, "ms"),
            by: By::Number(|wait| wait.mean_ms),
        },
        Column {
            title: "event",
            width: 0,
            align: Align::Left,
            from: 0,
            text: |wait| wait.event.to_owned(),
            by: By::Text(|wait| wait.event),
        },
    ]
}

/// The list.
pub fn listing(state: &State, window: &Window, over_s: f64) -> Listing {
    let (title, items, empty) = match waits(window, over_s) {
        Ok((waits, seconds)) => {
            let title = format!(
                "waits  over {}: {}; those of idle connections are left out",
                top_view::seconds(seconds),
                number::counted(waits.len() as u64, "kind", "kinds")
            );
            (title, waits, "nothing was waited for in these seconds".to_owned())
        }
        Err(why) => ("waits".to_owned(), Vec::new(), format!("no waits: {why}")),
    };
    let order = Some(("time", Direction::Descending));
    Listed { title, items, order, empty, mood: |_| Mood::Plain, target: |_| None }
        .shown(&columns(), state.list())
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::WaitSummary;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    fn sample(at_s: f64, waits: impl Iterator<Item = (usize, u64)>) -> Sample {
        let mut sample = Sample { at_s, ..Sample::default() };
        let value = waits.map(|(event, count)| WaitSummary {
            event: format!("wait/io/file/{event}"),
            count,
            total_ns: count * 1_000_000,
        });
        sample.server.waits = Reading::Available { at_s, took_ms: 1.0, value: value.collect() };
        sample
    }

    /// What is shown of a wait that is only in the second of two lists, beside so many that are in both.
    fn rate_of_the_new(others: usize) -> Option<f64> {
        let all = |count| (0..others).map(move |event| (event, count));
        let samples = vec![sample(0.0, all(1_000)), sample(10.0, all(1_010).chain([(999, 5_000)]))];
        let window = Window { samples, ..Window::default() };
        let (waits, seconds) = waits(&window, 1.0).unwrap();
        assert_eq!(seconds, 10.0);
        assert_eq!(waits.iter().filter(|wait| wait.per_s == 1.0).count(), others);
        waits.iter().find(|wait| wait.event == "io/file/999").map(|wait| wait.per_s)
    }

    #[test]
    fn a_wait_that_climbs_into_a_full_list_is_not_given_its_whole_life() {
        assert_eq!(rate_of_the_new(LISTED), None);
        assert_eq!(rate_of_the_new(LISTED - 1), Some(500.0), "the first list had all there were");
    }
}
