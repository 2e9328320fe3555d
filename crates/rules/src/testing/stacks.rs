//! What the profile shows: snapshots of stacks, and CPU samples.

use spindoctor_model::stack::{
    Frame, Observation, ProfiledThread, SnapshotCost, Spin, Stack, StackEnd, StackSource, ThreadState,
};
use spindoctor_model::window::NOT_GIVEN;
use spindoctor_model::{HostSample, Profile, Reading, ServerSample, Unavailable};

use super::{Build, SECONDS, answer};

impl Build {
    /// Neither stacks nor CPU samples.
    pub(crate) fn without_profile(mut self) -> Self {
        self.0.profile = Reading::default();
        self
    }

    /// CPU samples, a share of them in a spin-wait loop with these frames, innermost first.
    pub(crate) fn cpu_samples(mut self, samples: u32, spinning: f64, frames: &[&str]) -> Self {
        let frame = |name: &&str| Frame { name: (*name).into(), ..Frame::default() };
        let all = frames.len() as u32;
        let spinners = (f64::from(samples) * spinning).round() as u32;
        let profile = Profile {
            frames: frames.iter().chain(&["dispatch_command"]).map(frame).collect(),
            stacks: [(0..=all).collect(), vec![all]]
                .map(|frames| Stack { frames, end: StackEnd::Root })
                .into(),
            cpu_samples: (0..samples)
                .map(|at| {
                    let spins = at < spinners;
                    Observation {
                        stack: u32::from(!spins),
                        state: ThreadState::Running,
                        spin: spins.then_some(Spin::User),
                        ..Observation::default()
                    }
                })
                .collect(),
            // 1.6 CPUs.
            seconds: SECONDS as f64,
            process_cpu_us: 1_600_000 * SECONDS as u64,
            ..Profile::default()
        };
        self.0.profile = answer(0.0, profile);
        self
    }

    /// CPU samples, a share of them below these frames, innermost first; none spins.
    pub(crate) fn running(mut self, samples: u32, share: f64, frames: &[&str]) -> Self {
        self = self.cpu_samples(samples, share, frames);
        if let Reading::Available { value: profile, .. } = &mut self.0.profile {
            profile.cpu_samples.iter_mut().for_each(|sample| sample.spin = None);
        }
        self
    }

    /// The profile alone, as a text that somebody captured: its CPU samples where it has any, else its snapshots.
    pub(crate) fn captured(mut self) -> Self {
        if let Reading::Available { value: profile, .. } = &mut self.0.profile {
            let samples = std::mem::take(&mut profile.cpu_samples);
            profile.source = if samples.is_empty() { StackSource::Ptrace } else { StackSource::Cpu };
            if !samples.is_empty() {
                profile.observations = samples;
            }
            profile.hz = 0.0;
        }
        self.0.server.pid = None;
        self.0.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
        self.each(|_, server, host| (*server, *host) = (ServerSample::default(), HostSample::default()))
    }

    /// One snapshot of the threads of which some stand in these frames, innermost first.
    pub(crate) fn standing(mut self, idle: u32, standing: u32, frames: &[&str]) -> Self {
        self = self.cpu_samples(idle + standing, 0.0, frames);
        let Reading::Available { value: profile, .. } = &mut self.0.profile else { return self };
        profile.snapshots = vec![SnapshotCost::default()];
        profile.observations = std::mem::take(&mut profile.cpu_samples);
        for (at, observation) in (0..).zip(&mut profile.observations) {
            let stands = at < standing;
            observation.stack = u32::from(!stands);
            observation.state = if stands { ThreadState::Lock } else { ThreadState::NetworkIdle };
        }
        self
    }

    /// Threads in each of some snapshots, beside those that are there: how many, their state, and their frames,
    /// innermost first.
    pub(crate) fn snapshots(mut self, threads: &[(u32, ThreadState, &[&str])]) -> Self {
        const SNAPSHOTS: u32 = 20;
        let Reading::Available { value: profile, .. } = &mut self.0.profile else { return self };
        profile.snapshots = (0..SNAPSHOTS)
            .map(|at| SnapshotCost { at_us: u64::from(at) * 500_000, ..SnapshotCost::default() })
            .collect();
        for (count, state, names) in threads {
            let first = profile.frames.len() as u32;
            profile
                .frames
                .extend(names.iter().map(|name| Frame { name: (*name).into(), ..Frame::default() }));
            let stack = profile.stacks.len() as u32;
            profile
                .stacks
                .push(Stack { frames: (first..profile.frames.len() as u32).collect(), end: StackEnd::Root });
            for _ in 0..*count {
                let thread = profile.threads.len() as u32;
                profile.threads.push(ProfiledThread {
                    tid: 4400 + thread,
                    name: "connection".into(),
                    ..ProfiledThread::default()
                });
                profile.observations.extend((0..SNAPSHOTS).map(|snapshot| Observation {
                    snapshot,
                    thread,
                    stack,
                    state: *state,
                    ..Observation::default()
                }));
            }
        }
        self
    }

    /// The same with nothing else in the profile.
    pub(crate) fn only_snapshots(mut self, threads: &[(u32, ThreadState, &[&str])]) -> Self {
        self.0.profile = answer(0.0, Profile::default());
        self.snapshots(threads)
    }

    /// CPU samples beside snapshots, a share of them in the kernel's futex code below the first stack.
    pub(crate) fn beside_samples(mut self, samples: u32, share: f64) -> Self {
        let Reading::Available { value: profile, .. } = &mut self.0.profile else { return self };
        let futex = profile.frames.len() as u32;
        profile.frames.push(Frame { name: "futex_wait".into(), kernel: true, ..Frame::default() });
        let below = std::iter::once(futex).chain(profile.stacks[0].frames.clone()).collect();
        profile.stacks.push(Stack { frames: below, end: StackEnd::Root });
        let such = (f64::from(samples) * share).round() as u32;
        let sample = |at| Observation {
            stack: if at < such { 2 } else { 1 },
            state: ThreadState::Running,
            ..Observation::default()
        };
        profile.cpu_samples = (0..samples).map(sample).collect();
        self
    }
}
