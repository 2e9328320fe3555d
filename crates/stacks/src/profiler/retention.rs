//! Which part of an unfinished profile is kept: the newest part while waiting for a trigger, and never more than fits.

use std::collections::VecDeque;

use super::tables::Keeping;
use super::{Profiler, Snapshot, micros};

/// How many stacks are remembered beyond four times those in use, before the tables are built again. A profiler that
/// waits for its trigger for days must not grow.
const SPARE_STACKS: usize = 20_000;

/// Most observations that are kept, of 24 bytes each. Where there are more, every second snapshot is left out, and from
/// then on only half as many are taken.
const MOST_OBSERVATIONS: usize = 1 << 20;

/// Most stacks, of about half a KiB each; where there are more, the same.
const MOST_STACKS: usize = 100_000;

impl Profiler {
    /// From now on nothing is dropped: the trigger fired.
    pub fn keep_all(&mut self) {
        self.options.keep = None;
    }

    pub(super) fn drop_old(&mut self) {
        if let Some(keep) = self.options.keep {
            let oldest = micros(self.begun.elapsed().saturating_sub(keep));
            while self.taken.front().is_some_and(|snapshot| snapshot.cost.at_us < oldest) {
                self.taken.pop_front();
            }
            if self.meaning.tables.stacks.len() > SPARE_STACKS + 4 * self.kept() {
                self.compact();
            }
        }
        if self.kept() > MOST_OBSERVATIONS || self.meaning.tables.stacks.len() > MOST_STACKS {
            self.thin_out();
            self.compact();
        }
    }

    /// Observations and CPU samples that are kept.
    fn kept(&self) -> usize {
        self.taken.iter().map(|one| one.observations.len() + one.cpu_samples.len()).sum()
    }

    /// Leaves out every second snapshot, and its CPU samples; what was lost and stopped stays counted. From now on
    /// half as many are taken.
    fn thin_out(&mut self) {
        let mut kept = VecDeque::with_capacity(self.taken.len().div_ceil(2));
        let mut left_out: Option<Snapshot> = None;
        for mut snapshot in std::mem::take(&mut self.taken) {
            match left_out.take() {
                Some(before) => {
                    snapshot.cost.dropped = snapshot.cost.dropped.saturating_add(before.cost.dropped);
                    snapshot.cost.stopped += before.cost.stopped;
                    snapshot.cost.stopped_us += before.cost.stopped_us;
                    kept.push_back(snapshot);
                }
                None => left_out = Some(snapshot),
            }
        }
        kept.extend(left_out);
        self.taken = kept;
        self.options.hz /= 2.0;
        self.sample_every *= 2;
        let note = "a long profile: to save memory, only one in ";
        self.notes.retain(|old| !old.starts_with(note));
        self.notes.push(format!("{note}{} snapshots is in it", self.sample_every));
    }

    /// Forgets stacks that no kept snapshot has.
    pub(super) fn compact(&mut self) {
        let mut keeping = Keeping::from_tables(&self.meaning.tables);
        for snapshot in &mut self.taken {
            for observation in snapshot.observations.iter_mut().chain(&mut snapshot.cpu_samples) {
                keeping.observation(observation);
            }
        }
        for observation in &mut self.waiting {
            keeping.observation(observation);
        }
        for thread in self.threads.values_mut() {
            keeping.thread(&mut thread.place);
            if let Some(last) = &mut thread.last {
                keeping.stack(&mut last.stack);
            }
            if let Some((_, observation)) = &mut thread.ran {
                keeping.observation(observation);
            }
        }
        let tables = keeping.done();
        self.meaning.replace_tables(tables);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spindoctor_model::stack::StackSource;

    use super::*;
    use crate::profiler::{ProfilerOptions, Taken};

    /// Of this process, by a source that needs no rights.
    fn profiler() -> Profiler {
        let options = ProfilerOptions {
            source: Some(StackSource::Procfs),
            cpu: false,
            hz: 100.0,
            most_cpu_percent: 100.0,
            ..ProfilerOptions::default()
        };
        Profiler::start(std::process::id(), options).unwrap()
    }

    #[test]
    fn a_long_profile_is_thinned_out_and_what_was_lost_stays_counted() {
        let mut profiler = profiler();
        for _ in 0..5 {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        }
        for snapshot in &mut profiler.taken {
            snapshot.cost.dropped = 1;
        }
        profiler.thin_out();
        profiler.compact();
        assert_eq!(profiler.interval(), Duration::from_millis(20));
        assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        profiler.thin_out();
        profiler.compact();

        let profile = profiler.finish();
        assert_eq!(profile.snapshots.len(), 2);
        assert_eq!(profile.snapshots.iter().map(|cost| cost.dropped).sum::<u32>(), 5);
        assert_eq!(profile.hz, 25.0);
        let notes: Vec<&String> =
            profile.notes.iter().filter(|note| note.contains("a long profile")).collect();
        assert_eq!(notes, ["a long profile: to save memory, only one in 4 snapshots is in it"]);
        for observation in &profile.observations {
            let stack = &profile.stacks[observation.stack as usize];
            assert!(stack.frames.iter().all(|&frame| (frame as usize) < profile.frames.len()));
            assert!((observation.snapshot as usize) < profile.snapshots.len());
        }
        let seen: Vec<usize> =
            (0..2).map(|at| profile.observations.iter().filter(|one| one.snapshot == at).count()).collect();
        assert_eq!(seen, profile.snapshots.iter().map(|cost| cost.threads as usize).collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_keeps_the_newest_and_begins_with_the_oldest_it_kept() {
        let mut profiler = profiler();
        profiler.options.keep = Some(Duration::from_secs(3600));
        for _ in 0..3 {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        }
        profiler.options.keep = Some(Duration::ZERO);
        profiler.drop_old();
        profiler.keep_all();
        for _ in 0..2 {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        }
        let profile = profiler.finish();
        assert_eq!(profile.snapshots.len(), 2);
        assert_eq!(profile.snapshots[0].at_us, 0);
    }
}
