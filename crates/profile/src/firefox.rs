//! The Firefox Profiler's processed format: a track for each thread, each snapshot at its time, coloured by what the
//! thread was doing. The library that samply writes its files with keeps the format's rules.

use std::collections::HashMap;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use spindoctor_model::stack::{Observation, ThreadState};

use super::formats::subject;
use super::view::{View, state_word};
use spindoctor_page::safe::{safe, safe_json};

/// The profile as <https://profiler.firefox.com> reads it.
pub fn render(view: &View<'_>) -> anyhow::Result<Vec<u8>> {
    let start_ms = view.profile.start.as_millisecond() as f64;
    let mut profile = Profile::new(
        &safe(subject(view.profile)),
        ReferenceTimestamp::from_millis_since_unix_epoch(start_ms),
        SamplingInterval::from_nanos(((view.seconds_each() * 1e9) as u64).max(1)),
    );
    // Every frame has its name already: nobody is to be asked for symbols.
    profile.set_symbolicated(true);
    profile.set_os_name("Linux");
    let begin = Timestamp::from_millis_since_reference(0.0);
    let process = profile.add_process(&safe(&view.profile.process.name), view.profile.process.pid, begin);
    let mut writer = Writer { view, profile, categories: HashMap::new(), stacks: HashMap::new() };

    let mut threads: HashMap<u32, ThreadHandle> = HashMap::new();
    let mut in_order: Vec<&Observation> = view.observations.iter().collect();
    in_order.sort_by_key(|seen| (seen.thread, seen.snapshot));
    for seen in in_order {
        let thread = *threads.entry(seen.thread).or_insert_with(|| {
            let of = &view.profile.threads[seen.thread as usize];
            let is_main = of.tid == view.profile.process.pid;
            let thread = writer.profile.add_thread(process, of.tid, begin, is_main);
            writer.profile.set_thread_name(thread, &safe(&of.name));
            thread
        });
        let at_us = view.profile.snapshots[seen.snapshot as usize].at_us;
        let at = Timestamp::from_nanos_since_reference(at_us * 1_000);
        let ran = match seen.state {
            ThreadState::Running => (view.seconds_each() * 1e6) as u64,
            _ => 0,
        };
        let stack = writer.stack(thread, seen);
        writer.profile.add_sample(thread, at, stack, CpuDelta::from_micros(ran), 1);
    }
    Ok(safe_json(&serde_json::to_string(&writer.profile)?).into_bytes())
}

struct Writer<'a> {
    view: &'a View<'a>,
    profile: Profile,
    categories: HashMap<ThreadState, CategoryHandle>,
    stacks: HashMap<(u32, u32, ThreadState), Option<StackHandle>>,
}

impl Writer<'_> {
    fn stack(&mut self, thread: ThreadHandle, seen: &Observation) -> Option<StackHandle> {
        let key = (seen.thread, seen.stack, seen.state);
        if let Some(known) = self.stacks.get(&key) {
            return *known;
        }
        let category = *self
            .categories
            .entry(seen.state)
            .or_insert_with(|| self.profile.add_category(state_word(seen.state), colour(seen.state)));
        let mut frames = Vec::new();
        for frame in self.view.frames(seen.stack).rev() {
            let name = self.profile.intern_string(&safe(self.view.name(frame)));
            frames.push(FrameInfo {
                frame: Frame::Label(name),
                category_pair: category.into(),
                flags: FrameFlags::empty(),
            });
        }
        let stack = self.profile.intern_stack_frames(thread, frames.into_iter());
        self.stacks.insert(key, stack);
        stack
    }
}

/// The profiler's own colours: red for what waits, blue and brown for disks, green for what runs, grey for idle.
fn colour(state: ThreadState) -> CategoryColor {
    match state {
        ThreadState::Running => CategoryColor::Green,
        ThreadState::Runnable => CategoryColor::LightGreen,
        ThreadState::Lock => CategoryColor::Red,
        ThreadState::Futex => CategoryColor::LightRed,
        ThreadState::Condition => CategoryColor::Orange,
        ThreadState::DiskRead => CategoryColor::Blue,
        ThreadState::DiskWrite => CategoryColor::LightBlue,
        ThreadState::Sync => CategoryColor::Purple,
        ThreadState::Stopped => CategoryColor::Magenta,
        ThreadState::Blocked => CategoryColor::Brown,
        ThreadState::NetworkIdle | ThreadState::Epoll | ThreadState::Sleep => CategoryColor::Gray,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::examples;
    use crate::view::Choice;

    #[test]
    fn every_thread_has_a_track_with_its_snapshots_in_order_of_time() {
        let profile = examples::busy();
        let view = View::new(&profile, &Choice::default()).unwrap();
        let file: Value = serde_json::from_slice(&render(&view).unwrap()).unwrap();
        assert_eq!(file["meta"]["symbolicated"], true);
        let threads = file["threads"].as_array().unwrap();
        assert_eq!(threads.len(), 4);
        let samples: u64 = threads.iter().map(|thread| thread["samples"]["length"].as_u64().unwrap()).sum();
        assert_eq!(samples, profile.observations.len() as u64);
        for thread in threads {
            assert!(
                thread["samples"]["timeDeltas"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|d| d.as_f64().unwrap() >= 0.0)
            );
        }
        let categories: Vec<&str> = file["meta"]["categories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        assert!(categories.contains(&"lock") && categories.contains(&"network_idle"), "{categories:?}");
    }
}
