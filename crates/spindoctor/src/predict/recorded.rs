//! What a recording measured: statements a second by how many sessions were at work.
//!
//! In: a recording. Out: [`Source`], as of a sweep. The recording's last day is cut into slices of ten seconds; a slice has the mean of
//! `Threads_running` without the recorder's own session, and `Questions` a second. Nobody set how many clients there were, so the slices
//! are sorted into classes of about as many sessions at work, and each class with a minute of slices makes one point. By a result of
//! Chandy, Herzog and Woo ("Parametric analysis of queuing networks", 1975) that is how a server with so many clients that never rest
//! would do: the time between requests is in none of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail};
use jiff::Timestamp;
use spindoctor_model::host::EffectiveCpus;
use spindoctor_model::{EventHead, RecordedSample, RecordedSetting, Sample};
use spindoctor_predict::{Measured, Settings, Workload};
use spindoctor_record::span::{AT_ONCE, ONE_MORE, Span, after, before};

use super::measured::{Source, flavor};
use crate::common::{bundle, recorded};

/// Of a longer recording the last of it: that is the server as it is, and is read in seconds.
const READ: Duration = Duration::from_secs(24 * 3600);
/// Long enough that the noise of single statements is gone, and short enough that a load is the same all the time. By judgement.
const SLICE: Duration = Duration::from_secs(10);
/// Samples that a slice has at least: one a second, and some that were late.
const LEAST_SAMPLES: usize = 8;
/// Slices that make a class a measurement: a minute.
const LEAST_SLICES: usize = 6;
/// Classes to a doubling of the sessions at work.
const TO_A_DOUBLING: f64 = 3.0;
/// Measurements that the model needs at least: with fewer it fits the work of a transaction alone, and no queue
/// (`spindoctor_predict::PARAMETERS`).
const LEAST_POINTS: usize = 4;
/// From the fewest to the most sessions at work: within less a server goes from idle to full nowhere.
const LEAST_RANGE: f64 = 4.0;
/// Share of the statements that change rows, from which on the load writes: each of them waits for the log.
const WRITES_FROM: f64 = 0.05;
/// Until so long after a stall's end sessions that waited in it are still at work.
const AFTER_A_STALL: Duration = Duration::from_secs(10);
/// Counters of statements that change rows.
const WRITES: [&str; 6] =
    ["Com_insert", "Com_insert_select", "Com_update", "Com_update_multi", "Com_delete", "Com_replace"];

/// How many slices there are, and how many of them are left out and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counted {
    all: usize,
    /// In a stall, or soon after one.
    stalled: usize,
    /// Too few samples, or counters that went back.
    broken: usize,
    /// Of a class that has too few.
    rare: usize,
}

/// Ten seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    /// Sessions at work, on average.
    running: f64,
    /// Statements a second.
    per_s: f64,
    /// Those of them that change rows.
    writes_per_s: f64,
}

/// How a file of SQLite begins (sqlite.org/fileformat.html, section 1.2): a recording is one, also where it cannot be opened.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// True where this file is a recording, or a bundle with one.
pub fn is_one(path: &Path) -> bool {
    let mut begin = [0; SQLITE.len()];
    // What comes through a pipe can be read only once.
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let mut is_read = || File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok();
    is_file && is_read() && begin == *SQLITE || bundle::is_one(path)
}

/// Reads it.
pub fn read(path: &Path) -> anyhow::Result<Source> {
    let recording = recorded::open(path)?;
    let Some((first, last)) = recording.extent()? else { bail!("it has no sample") };
    // From the newest sample on it is the server as it is; before its last change of a setting it was another one.
    let known = Settings::variables();
    let changed = last_change(&recording.settings(last)?, &known);
    let from = [Some(before(last, READ)), changed].into_iter().flatten().fold(first, Timestamp::max);
    let segment = recording.stretches(0)?.last().map(|stretch| stretch.segment);
    let events: Vec<EventHead> = recording.events()?;
    let mut counted = Counted::default();
    let mut slices = Vec::new();
    let mut at = from;
    while at < last {
        // That is a whole number of slices.
        let to = after(at, AT_ONCE);
        let mut samples = recording.samples_without_lists(at, before(to, ONE_MORE))?;
        samples.retain(|sample| segment.is_none_or(|segment| sample.segment == segment));
        for part in by_slice(&samples, at) {
            counted.all += 1;
            if part.iter().any(|sample| is_stalled(&events, sample.at)) {
                counted.stalled += 1;
            } else if let Some(slice) = slice(part) {
                slices.push(slice);
            } else {
                counted.broken += 1;
            }
        }
        at = to;
    }
    let points = points(&slices, &mut counted);
    let note = note(from, last, changed.is_some_and(|changed| changed == from), counted);
    expect_range(&points).map_err(|why| {
        anyhow!("{why} ({note}); record through the rise of a day, or run `spindoctor sweep`")
    })?;
    let window = recorded::window(&recording, Span::new(before(last, AT_ONCE), last))?.unwrap_or_default();
    let cpus = window.latest(|sample| &sample.host.effective_cpus);
    let set = |name: &'static str| Some((name.to_owned(), window.variable(name)?.to_owned()));
    let share = {
        let all: f64 = slices.iter().map(|slice| slice.per_s).sum();
        slices.iter().map(|slice| slice.writes_per_s).sum::<f64>() / all.max(1e-9)
    };
    Ok(Source {
        points,
        flavor: flavor(&window.server.version.map(|version| version.to_string()).unwrap_or_default()),
        workload: Some(if share < WRITES_FROM { Workload::Reads } else { Workload::Writes }),
        quota_cpus: cpus.and_then(|cpus| cpus.quota.as_ref()).map(|quota| quota.cpus),
        cpus: cpus.map(EffectiveCpus::allowed),
        pause_ns: window.latest(|sample| &sample.host.pause).map(|pause| pause.ns),
        settings: known.into_iter().filter_map(set).collect(),
        note: Some(note),
        ..Source::default()
    })
}

/// When one of these variables was last changed; none where none of them was.
fn last_change(settings: &[RecordedSetting], known: &[&str]) -> Option<Timestamp> {
    let mut begun: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut last = None;
    for setting in settings.iter().filter(|setting| known.contains(&setting.name.as_str())) {
        // The first is no change: it is what was read first.
        if begun.insert(&setting.name, setting.at).is_some() {
            last = last.max(Some(setting.at));
        }
    }
    last
}

fn is_stalled(events: &[EventHead], at: Timestamp) -> bool {
    events.iter().any(|event| {
        let ended = event.ended.map_or(at, |ended| after(ended, AFTER_A_STALL));
        (event.began..=ended).contains(&at)
    })
}

/// Samples by the slice that they are in.
fn by_slice(samples: &[RecordedSample], from: Timestamp) -> impl Iterator<Item = &[RecordedSample]> {
    let number = move |sample: &RecordedSample| {
        sample.at.duration_since(from).as_millis() / i128::from(SLICE.as_millis() as u64)
    };
    samples.chunk_by(move |one, next| number(one) == number(next))
}

/// A slice; none where it has too few samples, or its counters went back or have nothing.
fn slice(samples: &[RecordedSample]) -> Option<Slice> {
    let status = |sample: &Sample, name: &str| sample.server.status.value()?.number(name);
    let running: Vec<f64> =
        samples.iter().filter_map(|sample| status(&sample.sample, "Threads_running")).collect();
    if running.len() < LEAST_SAMPLES {
        return None;
    }
    let all = |sample: &Sample| status(sample, "Questions");
    let writes = |sample: &Sample| {
        WRITES.iter().filter_map(|name| status(sample, name)).reduce(|one, other| one + other)
    };
    let rate = |counter: &dyn Fn(&Sample) -> Option<f64>| {
        let mut read =
            samples.iter().filter_map(|it| Some((it.sample.server.status.timed()?.0, counter(&it.sample)?)));
        let first = read.next()?;
        let last = read.last()?;
        let (seconds, by) = (last.0 - first.0, last.1 - first.1);
        (seconds > 0.0 && by >= 0.0).then(|| by / seconds)
    };
    Some(Slice {
        // Without the session that asks.
        running: (running.iter().sum::<f64>() / running.len() as f64 - 1.0).max(0.0),
        per_s: rate(&all).filter(|per_s| *per_s > 0.0)?,
        writes_per_s: rate(&writes).unwrap_or(0.0),
    })
}

/// A measurement for each class that has enough slices: the medians of both.
fn points(slices: &[Slice], counted: &mut Counted) -> Vec<Measured> {
    let mut classes: BTreeMap<i64, Vec<Slice>> = BTreeMap::new();
    // Where less than one session is at work, most of the time there is nothing to measure.
    for slice in slices {
        if slice.running < 1.0 {
            counted.rare += 1;
            continue;
        }
        let class = (slice.running.log2() * TO_A_DOUBLING).round() as i64;
        classes.entry(class).or_default().push(*slice);
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let mut points: Vec<Measured> = Vec::new();
    for class in classes.into_values() {
        let threads = median(class.iter().map(|slice| slice.running).collect()).round() as u32;
        let is_new = points.last().is_none_or(|last| last.threads < threads);
        if class.len() < LEAST_SLICES || !is_new {
            counted.rare += class.len();
            continue;
        }
        let throughput_per_s = median(class.iter().map(|slice| slice.per_s).collect());
        points.push(Measured { threads, throughput_per_s });
    }
    points
}

/// Fails where the points are too few, or too near to each other, to show how the server does with more and fewer clients.
fn expect_range(points: &[Measured]) -> anyhow::Result<()> {
    let numbers: Vec<String> = points.iter().map(|point| point.threads.to_string()).collect();
    let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
    if points.len() < LEAST_POINTS {
        bail!(
            "its load is too even to fit a model to: {LEAST_POINTS} numbers of sessions at work are needed, a minute of each, and it has {numbers}"
        );
    }
    let (fewest, most) = (points[0].threads, points[points.len() - 1].threads);
    if f64::from(most) < LEAST_RANGE * f64::from(fewest) {
        bail!(
            "its load is too even to fit a model to: the most sessions at work must be {LEAST_RANGE} times the fewest, and it has {numbers}"
        );
    }
    Ok(())
}

/// `2026-07-01T09:29:00Z to 2026-07-01T10:29:00Z, since a setting was changed: 360 slices of 10 s; left out: 3 in stalls, ..`
fn note(from: Timestamp, to: Timestamp, is_since_change: bool, counted: Counted) -> String {
    let since = if is_since_change { ", since a setting was changed" } else { "" };
    let left_out =
        [(counted.stalled, "in stalls"), (counted.broken, "with gaps"), (counted.rare, "of rare loads")];
    let left_out: Vec<String> = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    let left_out =
        if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
    let time = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!(
        "{} to {}{since}: {} slices of {} s{left_out}",
        time(from),
        time(to),
        counted.all,
        SLICE.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::NamedValues;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(1_782_000_000 + second)
    }

    /// Seconds with so many sessions at work and statements a second.
    fn samples(loads: &[(u64, u64)]) -> Vec<RecordedSample> {
        let mut questions = 0;
        let sample = |(second, (running, per_s)): (u64, &(u64, u64))| {
            questions += per_s;
            let at_s = second as f64;
            let mut sample = Sample { at_s, ..Sample::default() };
            let status =
                [("Threads_running", running + 1), ("Questions", questions), ("Com_update", questions / 2)];
            let value: NamedValues =
                status.map(|(name, value)| (name, value.to_string())).into_iter().collect();
            sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
            RecordedSample { at: at(second), segment: 1, sample }
        };
        (0..).zip(loads).map(sample).collect()
    }

    #[test]
    fn a_slice_is_ten_seconds_without_the_session_that_asks() {
        let samples = samples(&[(4, 100); 20]);
        let parts: Vec<_> = by_slice(&samples, at(0)).collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(slice(parts[1]), Some(Slice { running: 4.0, per_s: 100.0, writes_per_s: 50.0 }));
        assert_eq!(slice(&parts[1][..LEAST_SAMPLES - 1]), None, "too few samples");
        let mut restarted = parts[1].to_vec();
        restarted.reverse();
        assert_eq!(slice(&restarted), None, "counters that went back");
    }

    #[test]
    fn classes_with_a_minute_of_slices_are_points_and_the_others_are_counted() {
        let of = |running: f64, per_s: f64| Slice { running, per_s, writes_per_s: 0.0 };
        let mut slices = vec![of(0.2, 9.0), of(40.0, 900.0)];
        for (running, per_s) in [(1.0, 100.0), (2.1, 190.0), (4.0, 350.0), (8.2, 400.0)] {
            slices.extend((0..7).map(|at| of(running, per_s + f64::from(at))));
        }
        let mut counted = Counted::default();
        let points = points(&slices, &mut counted);
        let numbers: Vec<_> = points.iter().map(|point| (point.threads, point.throughput_per_s)).collect();
        assert_eq!(numbers, [(1, 103.0), (2, 193.0), (4, 353.0), (8, 403.0)]);
        assert_eq!(counted.rare, 2);
        assert!(expect_range(&points).is_ok());
        let few = expect_range(&points[..3]).unwrap_err().to_string();
        assert!(
            few.contains("4 numbers of sessions at work are needed") && few.ends_with("1, 2, 4"),
            "{few}"
        );
        let near: Vec<Measured> = (5..9).map(|threads| Measured { threads, throughput_per_s: 1.0 }).collect();
        assert!(expect_range(&near).unwrap_err().to_string().contains("4 times the fewest"));
        assert!(expect_range(&[]).unwrap_err().to_string().ends_with("it has none"));
    }

    #[test]
    fn what_was_before_the_last_change_of_a_setting_is_another_server() {
        let read = |second: u64, name: &str| RecordedSetting {
            at: at(second),
            name: name.to_owned(),
            value: Some("30".to_owned()),
        };
        let known = ["innodb_sync_spin_loops", "innodb_spin_wait_delay"];
        let first = vec![read(0, known[0]), read(0, known[1]), read(50, "max_connections")];
        assert_eq!(last_change(&first, &known), None);
        let mut changed = first;
        changed.extend([read(70, known[1]), read(90, "max_connections")]);
        assert_eq!(last_change(&changed, &known), Some(at(70)));
    }

    #[test]
    fn a_stall_and_the_seconds_after_it_are_no_steady_load() {
        let event = EventHead { began: at(100), ended: Some(at(110)), ..EventHead::default() };
        let is_in = |second: u64| is_stalled(std::slice::from_ref(&event), at(second));
        assert_eq!([99, 100, 110, 120, 121].map(is_in), [false, true, true, true, false]);
        let lasts = EventHead { began: at(100), ..EventHead::default() };
        assert!(is_stalled(&[lasts], at(5_000)));
    }
}
