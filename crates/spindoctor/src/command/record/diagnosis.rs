//! What the rules say of a stall: of the samples in it, with its stacks.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{Diagnosis, Event, Reading, Sample, Window};
use spindoctor_record::Recording;
use spindoctor_rules::diagnose;

/// No more than this of a long stall is looked at.
const MOST: SignedDuration = SignedDuration::from_secs(20);
/// A stall with fewer samples, or in which the server told its status less often, has no rates of its own: they are
/// computed from a sample before it to one after it.
const ENOUGH_SAMPLES: usize = 3;
/// So much around a stall is looked at then.
const AROUND: SignedDuration = SignedDuration::from_secs(2);
/// A stall is known to be over some probes later, and whoever waited rushes in: that is no part of it.
const OVER_BEFORE_S: f64 = 0.5;
/// A short one is known to be over two probes later.
const SHORT_OVER_BEFORE_S: f64 = 0.2;
/// And looked at for so long at least.
const SHORT_AT_LEAST_S: f64 = 0.1;
/// What hardly ever changes is read once a minute or less often: what was read this long before holds in the stall.
const KNOWN_SINCE: SignedDuration = SignedDuration::from_secs(60);

/// Reads the samples from the recording and looks at them. None where there are not two.
pub(super) fn of_event(recording: &Path, event: &Event) -> anyhow::Result<Option<Diagnosis>> {
    let file = Recording::open(recording)?;
    let began = event.head.began;
    let ended = event.head.ended.unwrap_or(began + MOST).min(began + MOST);
    let window = file.window(began - KNOWN_SINCE, ended + AROUND).context("the samples of the event")?;
    let Some(mut window) = window.and_then(|window| of_stall(window, began, ended)) else {
        return Ok(None);
    };
    if let Some(during) = &event.during {
        let at_s = began.duration_since(window.start).as_secs_f64();
        window.profile = Reading::Available { at_s, took_ms: 0.0, value: during.clone() };
    }
    Ok(Some(diagnose(&window)))
}

/// The samples of a stall, of a window that begins before it. None where there are not two.
///
/// A rule computes means and rates: samples from before the stall and after it would make it look like half a stall.
/// What is true of an instant alone, as who waits, is taken from the stall where it was looked at then: the calm around a
/// short one tells rates, and nothing of who waited.
fn keep_instants_of(samples: &mut [Sample], stall: &RangeInclusive<f64>) {
    keep_of(samples, stall, |sample| &mut sample.server.threads);
    keep_of(samples, stall, |sample| &mut sample.server.transactions);
    keep_of(samples, stall, |sample| &mut sample.server.row_lock_waits);
    keep_of(samples, stall, |sample| &mut sample.server.metadata_locks);
    keep_of(samples, stall, |sample| &mut sample.host.process);
}

fn keep_of<T>(
    samples: &mut [Sample],
    stall: &RangeInclusive<f64>,
    field: impl Fn(&mut Sample) -> &mut Reading<T>,
) {
    let was_seen =
        samples.iter_mut().any(|sample| stall.contains(&sample.at_s) && field(sample).value().is_some());
    if was_seen {
        samples
            .iter_mut()
            .filter(|sample| !stall.contains(&sample.at_s))
            .for_each(|sample| *field(sample) = Reading::NotAsked);
    }
}

fn of_stall(mut window: Window, began: Timestamp, ended: Timestamp) -> Option<Window> {
    let at_s = |instant: Timestamp| instant.duration_since(window.start).as_secs_f64();
    let (inside, around) =
        (at_s(began)..=at_s(ended) - OVER_BEFORE_S, at_s(began - AROUND)..=at_s(ended + AROUND));
    let tells = |sample: &&Sample| inside.contains(&sample.at_s) && sample.server.status.value().is_some();
    let has_rates = window.samples.iter().filter(tells).count() >= ENOUGH_SAMPLES;
    if !has_rates {
        let until = (at_s(ended) - SHORT_OVER_BEFORE_S).max(at_s(began) + SHORT_AT_LEAST_S);
        keep_instants_of(&mut window.samples, &(at_s(began)..=until));
    }
    let part = if has_rates { inside } else { around };

    let first = window.samples.iter().position(|sample| part.contains(&sample.at_s))?;
    let before: Vec<Sample> = window.samples.drain(..first).collect();
    window.samples.retain(|sample| part.contains(&sample.at_s));
    if window.samples.len() < 2 {
        return None;
    }
    let begin_s = window.samples[0].at_s;
    know(&mut window.samples[0], &before);
    window.samples.iter_mut().for_each(|sample| sample.shift(-begin_s));
    window.start += SignedDuration::from_secs_f64(begin_s);
    Some(window)
}

/// Gives a sample what was known before it, where it did not ask for that itself.
fn know(sample: &mut Sample, before: &[Sample]) {
    fn known<T: Clone>(
        reading: &mut Reading<T>,
        at_s: f64,
        before: &[Sample],
        pick: fn(&Sample) -> &Reading<T>,
    ) {
        let last = before.iter().rev().find_map(|sample| pick(sample).value());
        if let (Reading::NotAsked, Some(value)) = (&reading, last) {
            *reading = Reading::Available { at_s, took_ms: 0.0, value: value.clone() };
        }
    }
    let at_s = sample.at_s;
    known(&mut sample.server.variables, at_s, before, |sample| &sample.server.variables);
    known(&mut sample.host.effective_cpus, at_s, before, |sample| &sample.host.effective_cpus);
    known(&mut sample.host.cpu, at_s, before, |sample| &sample.host.cpu);
    known(&mut sample.host.pause, at_s, before, |sample| &sample.host.pause);
    known(&mut sample.host.numa, at_s, before, |sample| &sample.host.numa);
    known(&mut sample.host.memory, at_s, before, |sample| &sample.host.memory);
    known(&mut sample.host.srv_cpu_usage, at_s, before, |sample| &sample.host.srv_cpu_usage);
    known(&mut sample.host.data_directory, at_s, before, |sample| &sample.host.data_directory);
    known(&mut sample.host.page_cache, at_s, before, |sample| &sample.host.page_cache);
}

#[cfg(test)]
mod tests {
    use spindoctor_model::host::EffectiveCpus;
    use spindoctor_model::mysql::{NamedValues, RowLockWait};

    use super::*;

    /// A sample each second, half a second after the full one; 2.5 CPUs were read in the first.
    fn minute() -> Window {
        let sample = |second: u32| {
            let at_s = f64::from(second) + 0.5;
            let mut sample = Sample { at_s, ..Sample::default() };
            sample.server.status = Reading::Available { at_s, took_ms: 1.0, value: NamedValues::default() };
            sample
        };
        let mut window = Window { samples: (0..60).map(sample).collect(), ..Window::default() };
        let value = EffectiveCpus { cpus: 2.5, ..EffectiveCpus::default() };
        window.samples[0].host.effective_cpus = Reading::Available { at_s: 0.5, took_ms: 1.0, value };
        window
    }

    fn part(window: Window, from_s: f64, to_s: f64) -> Option<(f64, usize)> {
        let at = |at_s| Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(at_s);
        let part = of_stall(window, at(from_s), at(to_s))?;
        assert_eq!(part.samples[0].at_s, 0.0);
        assert_eq!(part.latest(|sample| &sample.host.effective_cpus).map(|cpus| cpus.cpus), Some(2.5));
        assert_eq!(
            part.change(|sample| &sample.server.status).map(|change| change.seconds),
            Some(part.seconds())
        );
        Some((part.start.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64(), part.samples.len()))
    }

    #[test]
    fn a_stall_of_seconds_is_judged_by_its_own_samples() {
        // The sample at 36.5 is of the rush after it.
        assert_eq!(part(minute(), 30.0, 36.7), Some((30.5, 6)));
    }

    #[test]
    fn who_waits_is_told_by_the_looks_in_a_short_stall_and_not_by_the_calm_around_it() {
        let mut window = minute();
        let waiting = |at_s: f64, waiters: usize| Reading::Available {
            at_s,
            took_ms: 1.0,
            value: vec![RowLockWait::default(); waiters],
        };
        for sample in &mut window.samples {
            sample.server.row_lock_waits = waiting(sample.at_s, 0);
        }
        let mut look = Sample { at_s: 30.1, ..Sample::default() };
        look.server.row_lock_waits = waiting(30.1, 4);
        window.samples.insert(30, look);
        let at = |at_s| Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(at_s);
        let window = of_stall(window, at(30.0), at(30.4)).unwrap();
        let waiters: Vec<_> = window
            .samples
            .iter()
            .filter_map(|sample| Some(sample.server.row_lock_waits.value()?.len()))
            .collect();
        assert_eq!(waiters, [4]);
        assert_eq!(window.change(|sample| &sample.server.status).map(|change| change.seconds), Some(3.0));
    }

    #[test]
    fn a_short_one_and_one_in_which_the_server_was_silent_by_those_around_it_too() {
        assert_eq!(part(minute(), 30.0, 30.6), Some((28.5, 5)));
        let mut silent = minute();
        silent.samples[30..36].iter_mut().for_each(|sample| sample.server.status = Reading::NotAsked);
        assert_eq!(part(silent, 30.0, 36.7), Some((28.5, 11)));
        assert_eq!(part(minute(), 70.0, 80.0), None);
    }
}
