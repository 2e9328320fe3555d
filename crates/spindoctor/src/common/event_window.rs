//! The window of a stall, for the rules: its samples and its stacks.

use std::ops::RangeInclusive;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{Diagnosis, Event, Reading, Sample, Window};
use spindoctor_record::Recording;

/// No more than this of a long stall is looked at.
const MOST: SignedDuration = SignedDuration::from_secs(20);
/// A stall with fewer samples, or in which the server's status was read less often, has no rates of its own: they are
/// computed from a sample before it to one after it.
const ENOUGH_SAMPLES: usize = 3;
/// So much around a stall is looked at then.
const AROUND: SignedDuration = SignedDuration::from_secs(2);
/// A stall is known to be over some probes later, when the waiting sessions all run at once: that rush is not part of
/// it.
const OVER_BEFORE_S: f64 = 0.5;
/// A short one is known to be over two probes later.
const SHORT_OVER_BEFORE_S: f64 = 0.2;
/// And looked at for so long at least.
const SHORT_AT_LEAST_S: f64 = 0.1;
/// A probe shows that it lasts where this share of the most threads in it still run,
const STILL_RATIO: f64 = 0.5;
/// or where its answer stood still itself: as long as that is overdue (`follow/probe.rs` in `collect`).
const STILL_MS: f64 = 60.0;
/// A look comes with its probe, and so long after it the next has not been asked.
const LOOK_AFTER_S: f64 = 0.05;
/// Of the looks into a short one those count in which this share of the most sessions are at work: others saw it begin.
const FULL_RATIO: f64 = 0.5;
/// What hardly ever changes is read once a minute or less often: what was read this long before holds in the stall.
const KNOWN_SINCE: SignedDuration = SignedDuration::from_secs(60);

/// Reads the samples from the recording. None where there are not two.
pub fn of_event(file: &Recording, event: &Event) -> anyhow::Result<Option<Window>> {
    let began = event.head.began;
    let ended = event.head.ended.unwrap_or(began + MOST).min(began + MOST);
    let window = file.window(began - KNOWN_SINCE, ended + AROUND).context("the samples of the event")?;
    let Some(mut window) = window.and_then(|window| of_stall(window, event, began..=ended)) else {
        return Ok(None);
    };
    if let Some(during) = &event.during {
        let at_s = began.duration_since(window.start).as_secs_f64();
        window.profile = Reading::Available { at_s, took_ms: 0.0, value: during.clone() };
    }
    Ok(Some(window))
}

/// Gives an event its diagnosis, whose first finding is the event's cause.
pub fn add_diagnosis(event: &mut Event, diagnosis: Option<Diagnosis>) {
    if let Some(first) = diagnosis.as_ref().and_then(|diagnosis| diagnosis.findings.first()) {
        event.head.cause = Some(first.cause.clone());
        event.head.headline.clone_from(&first.headline);
    }
    event.diagnosis = diagnosis;
}

/// Until when a short stall may last, in seconds from the beginning of its segment, by its probes: threads that wait
/// still run in them, or their own answer is late.
fn may_last_until_s(event: &Event, began_s: f64, ended_s: f64) -> f64 {
    let probes = event.probes.iter().filter(|probe| (began_s..=ended_s).contains(&probe.at_s));
    let most = probes.clone().filter_map(|probe| probe.threads_running).max().unwrap_or_default();
    let lasts = probes.filter(|probe| {
        let is_crowd =
            probe.threads_running.is_some_and(|running| running as f64 >= STILL_RATIO * most as f64);
        !probe.answered || probe.took_ms >= STILL_MS || (most > 0 && is_crowd)
    });
    let until_s = lasts.map(|probe| probe.at_s + probe.took_ms / 1e3 + LOOK_AFTER_S);
    until_s.fold(began_s, f64::max).min(ended_s)
}

/// What is true of an instant alone, as who waits, is taken from the stall where it was looked at then: the calm around
/// a short one shows rates, and nothing of who waited.
///
/// It lasts `until` some instant for certain, and perhaps longer: what was seen later counts where nothing before showed
/// those who stand. Later than that, those who were let go block each other.
fn keep_instants_of(samples: &mut [Sample], began_s: f64, until_s: f64, perhaps_s: f64) {
    let at_work = |sample: &Sample, until_s: f64| {
        let threads = sample.server.threads.value().filter(|_| (began_s..=until_s).contains(&sample.at_s))?;
        Some(threads.iter().filter(|thread| thread.is_at_work()).count() as f64)
    };
    let most =
        |until_s: f64| samples.iter().filter_map(|sample| at_work(sample, until_s)).fold(0.0, f64::max);
    let most_perhaps = most(perhaps_s.max(until_s));
    let first = samples.iter().find(|sample| {
        at_work(sample, perhaps_s).is_some_and(|at_work| at_work >= FULL_RATIO * most_perhaps)
    });
    let until_s = first.map_or(until_s, |first| until_s.max(first.at_s));
    let most = most(until_s);
    let is_of_stall: Vec<bool> = samples
        .iter()
        .map(|sample| {
            let is_full = at_work(sample, until_s).is_none_or(|at_work| at_work >= FULL_RATIO * most);
            (began_s..=until_s).contains(&sample.at_s) && is_full
        })
        .collect();
    keep_of(samples, &is_of_stall, |sample| &mut sample.server.threads);
    keep_of(samples, &is_of_stall, |sample| &mut sample.server.transactions);
    keep_of(samples, &is_of_stall, |sample| &mut sample.server.row_lock_waits);
    keep_of(samples, &is_of_stall, |sample| &mut sample.server.metadata_locks);
    keep_of(samples, &is_of_stall, |sample| &mut sample.host.process);
}

/// Leaves a reading to the samples of the stall, where one of them has it.
fn keep_of<T>(samples: &mut [Sample], is_of_stall: &[bool], field: impl Fn(&mut Sample) -> &mut Reading<T>) {
    let mut text = samples.iter_mut().zip(is_of_stall).filter(|(_, of_stall)| **of_stall);
    if text.any(|(sample, _)| field(sample).value().is_some()) {
        let others = samples.iter_mut().zip(is_of_stall).filter(|(_, of_stall)| !**of_stall);
        others.for_each(|(sample, _)| *field(sample) = Reading::NotAsked);
    }
}

/// The samples of a stall, of a window that begins before it. None where there are not two.
///
/// A rule computes means and rates: samples from before the stall and after it would make it look like half a stall.
fn of_stall(mut window: Window, event: &Event, stall: RangeInclusive<Timestamp>) -> Option<Window> {
    let (&began, &ended) = (stall.start(), stall.end());
    let at_s = |instant: Timestamp| instant.duration_since(window.start).as_secs_f64();
    let (inside, around) =
        (at_s(began)..=at_s(ended) - OVER_BEFORE_S, at_s(began - AROUND)..=at_s(ended + AROUND));
    let has_status =
        |sample: &&Sample| inside.contains(&sample.at_s) && sample.server.status.value().is_some();
    let has_rates = window.samples.iter().filter(has_status).count() >= ENOUGH_SAMPLES;
    if !has_rates {
        let (began_s, ended_s) = (at_s(began), at_s(ended));
        let until_s = (ended_s - SHORT_OVER_BEFORE_S).max(began_s + SHORT_AT_LEAST_S);
        // Times of the segment are later or earlier than those of the window by as much as its beginning.
        let of_segment_s = event.head.stall.began_s - began_s;
        let perhaps_s =
            may_last_until_s(event, began_s + of_segment_s, ended_s + of_segment_s) - of_segment_s;
        keep_instants_of(&mut window.samples, began_s, until_s, perhaps_s);
    }
    let part = if has_rates { inside } else { around };

    let first = window.samples.iter().position(|sample| part.contains(&sample.at_s))?;
    let before: Vec<Sample> = window.samples.drain(..first).collect();
    window.samples.retain(|sample| part.contains(&sample.at_s));
    if window.samples.len() < 2 {
        return None;
    }
    let begin_s = window.samples[0].at_s;
    before.iter().rev().for_each(|earlier| window.samples[0].fill(earlier));
    window.samples.iter_mut().for_each(|sample| sample.shift(-begin_s));
    window.start += SignedDuration::from_secs_f64(begin_s);
    Some(window)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Probe;
    use spindoctor_model::host::EffectiveCpus;
    use spindoctor_model::mysql::{NamedValues, RowLockWait, ServerThread};

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
        let part = of_stall(window, &Event::default(), at(from_s)..=at(to_s))?;
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

    /// A minute in which nobody is at work, with looks in it: when, and how many are at work, all of whom wait for rows.
    fn looked_at(looks: &[(f64, usize)]) -> Window {
        let mut window = minute();
        let calm = window.samples.iter().map(|sample| (sample.at_s, 0)).collect::<Vec<_>>();
        for &(at_s, _) in looks {
            window.samples.push(Sample { at_s, ..Sample::default() });
        }
        for (sample, (at_s, waiters)) in window.samples.iter_mut().zip(calm.iter().chain(looks)) {
            let session =
                ServerThread { is_connection: true, command: "Query".into(), ..ServerThread::default() };
            let (at_s, took_ms) = (*at_s, 1.0);
            let value = vec![session; *waiters];
            sample.server.threads = Reading::Available { at_s, took_ms, value };
            let value = vec![RowLockWait::default(); *waiters];
            sample.server.row_lock_waits = Reading::Available { at_s, took_ms, value };
        }
        window.samples.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        window
    }

    /// How many wait in each sample of an event's stall, which began at 30 s.
    fn waiters(window: Window, probes: &[(f64, u64)], ended_s: f64) -> Vec<usize> {
        let probes = probes.iter().map(|&(at_s, running)| Probe {
            at_s,
            took_ms: 1.0,
            answered: true,
            threads_running: Some(running),
            ..Probe::default()
        });
        let mut event = Event { probes: probes.collect(), ..Event::default() };
        event.head.stall.began_s = 30.0;
        let at = |at_s| Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(at_s);
        let window = of_stall(window, &event, at(30.0)..=at(ended_s)).unwrap();
        assert_eq!(window.change(|sample| &sample.server.status).map(|change| change.seconds), Some(3.0));
        window.samples.iter().filter_map(|sample| Some(sample.server.row_lock_waits.value()?.len())).collect()
    }

    #[test]
    fn who_waits_is_shown_by_the_looks_in_a_short_stall_and_not_by_the_calm_around_it() {
        assert_eq!(waiters(looked_at(&[(30.1, 4)]), &[], 30.4), [4]);
    }

    /// Event 11 of a recording of MariaDB: the look came with the probe that saw ten threads wait, 5 ms after what its
    /// end alone identifies as the stall.
    #[test]
    fn a_look_that_came_with_the_last_probe_in_a_stall_counts() {
        let probes = [(30.019, 1), (30.121, 10), (30.22, 0)];
        let window = || looked_at(&[(30.125, 10), (30.218, 0)]);
        assert_eq!(waiters(window(), &probes, 30.32), [10]);
        // After the last probe with those who wait it may be over.
        assert_eq!(waiters(looked_at(&[(30.125, 10), (30.19, 9)]), &probes, 30.32), [10]);
    }

    /// Event 9 of another: those whom the global read lock had blocked changed the same rows when it was given back.
    #[test]
    fn the_rush_after_a_stall_is_no_part_of_it() {
        let probes = [(30.0, 3), (30.099, 8), (30.199, 17), (30.299, 10), (30.399, 1)];
        assert_eq!(waiters(looked_at(&[(30.1, 8), (30.226, 10)]), &probes, 30.4), [8]);
    }

    #[test]
    fn a_look_that_saw_a_stall_begin_does_not_make_it_half_a_stall() {
        let probes = [(30.03, 1), (30.13, 9), (30.23, 0)];
        assert_eq!(waiters(looked_at(&[(30.03, 1), (30.05, 5), (30.13, 9)]), &probes, 30.33), [5, 9]);
    }

    #[test]
    fn a_stall_may_last_while_its_probe_has_no_answer() {
        let probe = |at_s, took_ms| Probe { at_s, took_ms, answered: true, ..Probe::default() };
        let event = |probes| Event { probes, ..Event::default() };
        let silent = event(vec![probe(5.02, 1.0), probe(5.12, 150.0), probe(5.32, 1.0)]);
        assert!((may_last_until_s(&silent, 5.0, 5.425) - 5.32).abs() < 1e-9);
        assert!((may_last_until_s(&event(Vec::new()), 5.0, 5.425) - 5.0).abs() < 1e-9);
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
