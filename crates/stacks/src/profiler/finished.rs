//! The profile from the snapshots so far: tables without unused entries, times counted from the first snapshot.

use std::collections::VecDeque;
use std::time::Duration;

use spindoctor_model::stack::{Module, Profile, SnapshotCost, StackSource};

use super::hot_code::hot_code;
use super::tables::Keeping;
use super::{Profiler, Snapshot, micros, pthread_self};

impl Profiler {
    /// The profile so far.
    pub fn profile(&mut self) -> Profile {
        self.profile_of(self.taken.clone())
    }

    /// The profile.
    pub fn finish(mut self) -> Profile {
        let taken = std::mem::take(&mut self.taken);
        self.profile_of(taken)
    }

    pub(super) fn profile_of(&mut self, taken: VecDeque<Snapshot>) -> Profile {
        self.times.update();
        let mut snapshots = Vec::with_capacity(taken.len());
        let (mut observations, mut cpu_samples) = (Vec::new(), Vec::new());
        // A ring begins with what was kept, not with when it was started.
        let first_us = taken.front().map_or(0, |snapshot| snapshot.cost.at_us);
        let mut keeping = Keeping::from_tables(&self.meaning.tables);
        for (place, mut snapshot) in taken.into_iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            snapshots.push(SnapshotCost { at_us: snapshot.cost.at_us - first_us, ..snapshot.cost });
            for observation in snapshot.observations.iter_mut().chain(&mut snapshot.cpu_samples) {
                keeping.observation(observation);
                observation.snapshot = place;
            }
            observations.append(&mut snapshot.observations);
            cpu_samples.append(&mut snapshot.cpu_samples);
        }
        let tables = keeping.done();
        let code = match self.options.code {
            true => {
                let samples = if self.source == StackSource::Cpu { &observations } else { &cpu_samples };
                hot_code(&mut self.meaning, samples, tables.stacks.list(), tables.frames.list())
            }
            false => Vec::new(),
        };
        let mut modules = self.meaning.modules.described();
        let mut frames = tables.frames.list().to_vec();
        if frames.iter().any(|frame| frame.kernel) {
            let kernel = u32::try_from(modules.len()).ok();
            modules.push(Module { path: "[kernel]".to_owned(), build_id: None });
            for frame in frames.iter_mut().filter(|frame| frame.kernel) {
                frame.module = kernel;
            }
        }
        let mut notes = self.notes.clone();
        notes.extend(self.meaning.modules.notes());
        notes.extend(self.meaning.names.notes());
        notes.extend(self.futex_waits.note.clone());
        notes.extend(self.budget.note(self.options.hz));
        let below = pthread_self::below_thread_pointer(&mut self.meaning.modules);
        let mut threads = tables.threads.list().to_vec();
        for thread in &mut threads {
            let Some(known) = self.threads.get(thread.tid) else { continue };
            thread.thread_pointer = known.thread_pointer.and_then(|pointer| pointer.checked_sub(below?));
            thread.off_cpu_us = known.off_cpu.map(micros);
        }
        let since = Duration::from_micros(first_us);
        Profile {
            process: self.process.clone(),
            source: self.source,
            start: self.begun_at + since,
            seconds: self.ended.saturating_sub(since).as_secs_f64(),
            hz: self.options.hz,
            threads,
            activities: tables.activities.list().to_vec(),
            modules,
            frames,
            stacks: tables.stacks.list().to_vec(),
            snapshots,
            observations,
            cpu_samples,
            code,
            futex_waits: self.futex_waits.waits.clone(),
            futex_moved_on: self.futex_waits.moved_on,
            own_cpu_us: self.times.own_us(),
            process_cpu_us: self.times.process_us(),
            notes,
            ..Profile::default()
        }
    }
}
