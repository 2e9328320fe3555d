//! The last seconds of stacks, kept for months: a profiler without an end, in bounded memory and a bounded part of a core.
//!
//! In: a process, and how often to look where nothing happens. Out: at any time a [`Profile`] of any part of what is
//! held. A caller that notices trouble raises the rate for a while ([`Ring::hurry`]); until that is over, nothing from
//! shortly before on is dropped.
//!
//! The memory is bounded: snapshots that are too old are dropped, and snapshots are taken no more often than
//! [`MOST_OBSERVATIONS`] fit into the time to hold. What repeats is kept once, in tables that only grow; where one has
//! grown to twice what was in use at the last time and some spare, all of them are built again from what the snapshots
//! that are held still name ([`Profiler::compact`]). Names and unwinding rules that are remembered by address have
//! bounds of their own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use spindoctor_model::stack::{Activity, Observation, Profile, StackSource, ThreadState};

use super::budget::Budget;
use super::options::CPU_HZ;
use super::tables::Tables;
use super::{Profiler, ProfilerOptions, Snapshot, Taken, micros, process};
use crate::capture::cpu::CpuSampler;
use crate::classify::FrameStates;
use crate::error::Result;
use crate::futex_waits::FutexWaits;

/// Most observations that are held, of 24 bytes each: 9 MiB of the 64 that a recorder may have. That is 40 s of ten
/// snapshots a second of 1,000 threads: the 30 s of an event's detail, and the 10 s before it.
const MOST_OBSERVATIONS: usize = 400_000;

/// How much each table may grow beyond twice what was in use: some MiB in all. Stacks have about a quarter of a KiB,
/// activities a statement of up to 1 KiB.
const SPARE: Sizes = Sizes { stacks: 4_000, frames: 8_000, threads: 4_000, activities: 1_000 };

/// Where nothing happens, snapshots that cost too much are taken at least this often.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The same in a hurry, as in any profile.
const LONGEST_WAIT_IN_A_HURRY: Duration = Duration::from_millis(500);

/// What snapshots may take of the CPUs in a hurry, in percent: chosen, not derived. A hurry is for a stall, and short.
const CPU_PERCENT_IN_A_HURRY: f64 = 0.75;

/// A hurry ends after this, whatever was asked for: nobody may be left to end it.
const LONGEST_HURRY: Duration = Duration::from_secs(300);

/// What a ring is asked for.
#[derive(Debug, Clone)]
pub struct RingOptions {
    /// Which source; the best that works where none is named.
    pub source: Option<StackSource>,
    /// How much of the past is held.
    pub keep: Duration,
    /// Snapshots a second, where nothing happens.
    pub hz: f64,
    /// Fewer are taken where they would cost more than this part of one core, in percent.
    pub most_core_percent: f64,
    /// In a hurry: CPU samples too, for the stacks of running threads and for the spin share.
    pub cpu: bool,
    /// Frames that mean a state in this program.
    pub frames: &'static FrameStates,
}

impl Default for RingOptions {
    /// One snapshot a second, 12 s of them, for 0.1 % of a core.
    ///
    /// An event has 10 s from before it, and is seen up to 2 s late. A snapshot of 1,000 threads takes 1.2 ms of a core
    /// where all rest and 5.2 ms where all have moved (`BENCHMARKS.md`, snapshot), and 2.2 ms where 256 of them work: then
    /// five are held, and two of one where all 1,000 move. A tenth of what a recorder may take is for them; up to 450
    /// threads that rest there is one each second.
    fn default() -> Self {
        Self {
            source: None,
            keep: Duration::from_secs(12),
            hz: 1.0,
            most_core_percent: 0.1,
            cpu: true,
            frames: &[],
        }
    }
}

/// The last seconds of a process's stacks.
pub struct Ring {
    profiler: Profiler,
    options: RingOptions,
    cpus: usize,
    /// One for each snapshot that is held.
    marks: VecDeque<Mark>,
    hurry: Option<Hurry>,
    /// What is read of locks belongs to this snapshot.
    locks_at_us: Option<u64>,
    /// How large the tables may grow before they are built again.
    most: Sizes,
}

/// What is kept beside a snapshot.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// CPU time of the process so far.
    process_us: u64,
    /// CPU time that this snapshot took.
    own_us: u64,
    hz: f64,
}

/// Looking more often, for a while.
#[derive(Debug, Clone, Copy)]
struct Hurry {
    since: Instant,
    until: Instant,
}

/// How many of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    stacks: usize,
    frames: usize,
    threads: usize,
    activities: usize,
}

impl Sizes {
    fn of_tables(tables: &Tables) -> Self {
        Self {
            stacks: tables.stacks.len(),
            frames: tables.frames.len(),
            threads: tables.threads.len(),
            activities: tables.activities.len(),
        }
    }

    /// Twice that, and some spare.
    fn to_grow_to(self) -> Self {
        Self {
            stacks: 2 * self.stacks + SPARE.stacks,
            frames: 2 * self.frames + SPARE.frames,
            threads: 2 * self.threads + SPARE.threads,
            activities: 2 * self.activities + SPARE.activities,
        }
    }

    fn is_beyond(self, most: Self) -> bool {
        self.stacks > most.stacks
            || self.frames > most.frames
            || self.threads > most.threads
            || self.activities > most.activities
    }
}

impl Ring {
    /// Gets ready to look at a process.
    ///
    /// # Errors
    /// No such process, or no source can be used.
    pub fn start(pid: u32, options: RingOptions) -> Result<Self> {
        let profiler = Profiler::start(
            pid,
            ProfilerOptions {
                source: options.source,
                cpu: false,
                hz: options.hz,
                frames: options.frames,
                ..ProfilerOptions::default()
            },
        )?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let most = Sizes::of_tables(&profiler.meaning.tables).to_grow_to();
        let mut ring =
            Self { profiler, options, cpus, marks: VecDeque::new(), hurry: None, locks_at_us: None, most };
        ring.calm_down();
        Ok(ring)
    }

    /// The source that is used.
    pub fn source(&self) -> StackSource {
        self.profiler.source()
    }

    /// For how long to wait between two snapshots: longer than was asked for where they cost too much, or where the
    /// process has so many threads that they would not all find room.
    pub fn interval(&self) -> Duration {
        let hurry = self.hurry.map_or(Duration::ZERO, |hurry| hurry.until.duration_since(hurry.since));
        let of_room = self.profiler.threads.len() as f64 / MOST_OBSERVATIONS as f64;
        self.profiler.interval().max((self.options.keep + hurry).mul_f64(of_room))
    }

    /// Reads the CPU samples, where some are taken: to be called ten times a second between snapshots.
    pub fn read_cpu_samples(&mut self) {
        self.profiler.read_cpu();
    }

    /// True while it looks more often than usual.
    pub fn is_in_a_hurry(&self) -> bool {
        self.hurry.is_some()
    }

    /// From now on, until `lasts` is over, so many snapshots a second are taken, with CPU samples where those are
    /// wanted, and nothing is dropped that the ring holds now. Asked again, it lasts from then on, up to five minutes
    /// in all.
    pub fn hurry(&mut self, hz: f64, lasts: Duration) {
        let now = Instant::now();
        let Hurry { since, until } = self.hurry.unwrap_or(Hurry { since: now, until: now });
        let until = until.max(now + lasts).min(since + LONGEST_HURRY);
        if self.hurry.replace(Hurry { since, until }).is_none() {
            self.profiler.budget =
                Budget::of_cpus(CPU_PERCENT_IN_A_HURRY, self.cpus).waiting_at_most(LONGEST_WAIT_IN_A_HURRY);
            if self.options.cpu {
                match CpuSampler::start(self.profiler.process.pid, CPU_HZ) {
                    Ok(sampler) => self.profiler.sampler = Some(sampler),
                    Err(error) => {
                        let note = format!("no spin share and no stacks of running threads: {error}");
                        if !self.profiler.notes.contains(&note) {
                            self.profiler.notes.push(note);
                        }
                    }
                }
            }
        }
        self.profiler.options.hz = hz.max(self.options.hz);
    }

    fn calm_down(&mut self) {
        self.hurry = None;
        self.profiler.sampler = None;
        self.profiler.options.hz = self.options.hz;
        let percent = self.options.most_core_percent / self.cpus as f64;
        self.profiler.budget = Budget::of_cpus(percent, self.cpus).waiting_at_most(LONGEST_WAIT);
    }

    /// Looks at every thread once, and drops what is too old.
    ///
    /// # Errors
    /// Nothing of the process may be read any more.
    pub fn snapshot(&mut self) -> Result<Taken> {
        if self.hurry.is_some_and(|hurry| hurry.until <= Instant::now()) {
            self.calm_down();
        }
        let own_before = process::thread_cpu();
        let taken = self.profiler.snapshot()?;
        if taken != Taken::ProcessGone {
            self.profiler.times.update();
        }
        let own_us = micros(process::thread_cpu().saturating_sub(own_before));
        let mark =
            Mark { process_us: self.profiler.times.process_us(), own_us, hz: self.profiler.options.hz };
        self.marks.resize(self.profiler.taken.len(), mark);
        self.drop_old();
        Ok(taken)
    }

    fn drop_old(&mut self) {
        let since = self.hurry.map_or_else(Instant::now, |hurry| hurry.since);
        let now_us = micros(since.saturating_duration_since(self.profiler.begun));
        let oldest_us = now_us.saturating_sub(micros(self.options.keep));
        let taken = &mut self.profiler.taken;
        let mut kept: usize = taken.iter().map(observations).sum();
        while let Some(front) = taken.front()
            && taken.len() > 1
            && (front.cost.at_us < oldest_us || kept > MOST_OBSERVATIONS)
        {
            kept -= observations(front);
            taken.pop_front();
            self.marks.pop_front();
        }
        if Sizes::of_tables(&self.profiler.meaning.tables).is_beyond(self.most) {
            self.profiler.compact();
            self.most = Sizes::of_tables(&self.profiler.meaning.tables).to_grow_to();
        }
    }

    /// Says what the threads of the last snapshot did for their clients.
    pub fn set_activities(&mut self, of: &dyn Fn(u32) -> Option<Activity>) {
        self.profiler.set_activities(of);
    }

    /// Reads who holds the locks of the C library that the threads of the last snapshot wait for. Profiles that end with
    /// that snapshot have it.
    pub fn read_futex_waits(&mut self) -> &FutexWaits {
        self.locks_at_us = self.profiler.taken.back().map(|snapshot| snapshot.cost.at_us);
        self.profiler.read_futex_waits()
    }

    /// When the last snapshot was begun, and how many threads ran or waited for a CPU in it; none where snapshots are not
    /// of all threads.
    pub fn runnable(&self) -> Option<(Instant, u32)> {
        let last = self.profiler.taken.back().filter(|_| self.source() != StackSource::Cpu)?;
        let wants_cpu =
            |one: &&Observation| matches!(one.state, ThreadState::Running | ThreadState::Runnable);
        let runnable = last.observations.iter().filter(wants_cpu).count();
        let at = self.profiler.begun + Duration::from_micros(last.cost.at_us);
        Some((at, u32::try_from(runnable).unwrap_or(u32::MAX)))
    }

    /// When the oldest snapshot that is held was begun, and the newest.
    pub fn held(&self) -> Option<(Instant, Instant)> {
        let at = |snapshot: &Snapshot| self.profiler.begun + Duration::from_micros(snapshot.cost.at_us);
        Some((at(self.profiler.taken.front()?), at(self.profiler.taken.back()?)))
    }

    /// The profile of a part of what is held, both ends included; it goes on meanwhile.
    pub fn profile(&mut self, from: Instant, to: Instant) -> Profile {
        let at_us = |instant: Instant| micros(instant.saturating_duration_since(self.profiler.begun));
        let (from_us, to_us) = (at_us(from), at_us(to));
        let taken = &self.profiler.taken;
        let first = taken.partition_point(|snapshot| snapshot.cost.at_us < from_us);
        let end = taken.partition_point(|snapshot| snapshot.cost.at_us <= to_us).max(first);
        let part: VecDeque<Snapshot> = taken.range(first..end).cloned().collect();
        let (is_newest, last) = (end == taken.len(), part.back().map(|snapshot| snapshot.cost));
        let begun_us = part.front().map_or(from_us, |snapshot| snapshot.cost.at_us);
        let marks: Vec<Mark> = self.marks.range(first..end).copied().collect();

        let mut profile = self.profiler.profile_of(part);
        // The wall clock may have been set since the ring was started.
        let ago = self.profiler.begun.elapsed().saturating_sub(Duration::from_micros(begun_us));
        let now = Timestamp::now();
        profile.start = now.checked_sub(ago).unwrap_or(now);
        let end_us = last.map_or(begun_us, |cost| cost.at_us + cost.snapshot_us);
        profile.seconds = Duration::from_micros(end_us - begun_us).as_secs_f64();
        profile.hz = marks.iter().map(|mark| mark.hz).fold(0.0, f64::max);
        profile.own_cpu_us = marks.iter().map(|mark| mark.own_us).sum();
        profile.process_cpu_us = match (marks.first(), marks.last()) {
            (Some(first), Some(last)) => last.process_us - first.process_us,
            _ => 0,
        };
        if last.map(|cost| cost.at_us) != self.locks_at_us {
            profile.futex_waits.clear();
            profile.futex_moved_on = 0;
        }
        if !is_newest {
            // For how long they have waited is known as of the newest snapshot.
            profile.threads.iter_mut().for_each(|thread| thread.off_cpu_us = None);
        }
        profile
    }
}

fn observations(snapshot: &Snapshot) -> usize {
    snapshot.observations.len() + snapshot.cpu_samples.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this process, by a source that needs no rights.
    fn ring(keep: Duration) -> Ring {
        let options =
            RingOptions { source: Some(StackSource::Procfs), keep, cpu: false, ..RingOptions::default() };
        Ring::start(std::process::id(), options).unwrap()
    }

    fn look(ring: &mut Ring, times: usize) {
        for _ in 0..times {
            assert!(matches!(ring.snapshot().unwrap(), Taken::Snapshot(_)));
        }
    }

    fn every_place_exists(profile: &Profile) {
        for observation in &profile.observations {
            let stack = &profile.stacks[observation.stack as usize];
            assert!(stack.frames.iter().all(|&frame| (frame as usize) < profile.frames.len()));
            assert!((observation.snapshot as usize) < profile.snapshots.len());
            assert!((observation.thread as usize) < profile.threads.len());
        }
    }

    #[test]
    fn any_part_of_what_is_held_is_a_profile_and_the_ring_goes_on() {
        let mut ring = ring(Duration::from_secs(3600));
        look(&mut ring, 2);
        let between = Instant::now();
        // Microseconds distinguish snapshots.
        std::thread::sleep(Duration::from_millis(1));
        look(&mut ring, 3);
        let (oldest, newest) = ring.held().unwrap();
        let before = ring.profile(oldest, between);
        let after = ring.profile(between, newest);
        let whole = ring.profile(oldest, newest);
        let counts = [&before, &after, &whole].map(|profile| profile.snapshots.len());
        assert_eq!(counts, [2, 3, 5]);
        for profile in [&before, &after, &whole] {
            every_place_exists(profile);
            assert_eq!(profile.snapshots[0].at_us, 0);
            assert!(profile.seconds > 0.0 && profile.own_cpu_us > 0);
        }
        assert!(before.threads.iter().all(|thread| thread.off_cpu_us.is_none()));
        let none = ring.profile(newest + Duration::from_secs(1), newest + Duration::from_secs(2));
        assert!(none.snapshots.is_empty() && none.observations.is_empty());
        look(&mut ring, 1);
        assert_eq!(ring.profile(oldest, Instant::now()).snapshots.len(), 6);
    }

    #[test]
    fn a_thread_that_rests_is_marked_as_unmoved_but_not_in_the_first_snapshot() {
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let thread =
            std::thread::Builder::new().name("rests".to_owned()).spawn(move || woken.recv().is_err());
        let mut ring = ring(Duration::from_secs(3600));
        let mut is_marked = false;
        for _ in 0..1_000 {
            look(&mut ring, 2);
            let (oldest, newest) = ring.held().unwrap();
            let profile = ring.profile(oldest, newest);
            let mut unmoved = profile.observations.iter().filter(|one| one.unmoved);
            assert!(unmoved.clone().all(|one| one.snapshot > 0), "before the first nothing is known");
            is_marked = unmoved.any(|one| profile.threads[one.thread as usize].name == "rests");
            if is_marked {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_marked);
        drop(wake);
        assert!(thread.unwrap().join().unwrap());
    }

    #[test]
    fn what_is_too_old_is_dropped_but_not_in_a_hurry_and_a_hurry_ends_by_itself() {
        let mut ring = ring(Duration::ZERO);
        // Before anything has cost anything: snapshots of a slow machine make the next ones wait for longer.
        let usual = ring.interval();
        look(&mut ring, 3);
        assert_eq!(ring.profiler.taken.len(), 1, "only the newest is held");
        ring.hurry(50.0, Duration::from_secs(3600));
        assert!(ring.interval() < usual);
        look(&mut ring, 4);
        assert!(ring.profiler.taken.len() >= 4);
        assert_eq!(ring.marks.len(), ring.profiler.taken.len());
        let hurry = ring.hurry.unwrap();
        assert_eq!(hurry.until.duration_since(hurry.since), LONGEST_HURRY);

        ring.hurry = Some(Hurry { until: Instant::now(), ..hurry });
        look(&mut ring, 1);
        assert_eq!((ring.is_in_a_hurry(), ring.profiler.taken.len(), ring.interval()), (false, 1, usual));
    }

    #[test]
    fn tables_that_have_grown_are_made_again_from_what_is_held() {
        let mut ring = ring(Duration::from_secs(3600));
        look(&mut ring, 2);
        for number in 0..SPARE.activities as u64 + 10 {
            let activity = Activity { connection_id: Some(number), ..Activity::default() };
            ring.set_activities(&|_| Some(activity.clone()));
        }
        let before = Sizes::of_tables(&ring.profiler.meaning.tables);
        assert!(before.activities > SPARE.activities);
        look(&mut ring, 1);
        assert_eq!(ring.profiler.meaning.tables.activities.len(), 1, "the last one alone is held");
        assert_eq!(ring.most.activities, SPARE.activities + 2);
        let (oldest, newest) = ring.held().unwrap();
        let profile = ring.profile(oldest, newest);
        every_place_exists(&profile);
        assert_eq!((profile.snapshots.len(), profile.activities.len()), (3, 1));
    }

    #[test]
    fn many_threads_are_looked_at_less_often_so_that_all_find_room() {
        let mut ring = ring(Duration::from_secs(10));
        for tid in 0..200_000 {
            let tables = &mut ring.profiler.meaning.tables;
            super::super::Thread::seen(&mut ring.profiler.threads, tables, tid, "", 1);
        }
        assert_eq!(ring.interval(), Duration::from_secs(5));
    }

    #[test]
    fn locks_are_shown_with_the_snapshot_that_they_were_read_at_and_no_other() {
        let mut ring = ring(Duration::from_secs(3600));
        look(&mut ring, 1);
        ring.profiler.futex_waits.moved_on = 7;
        let at_first = ring.profiler.taken[0].cost.at_us;
        ring.locks_at_us = Some(at_first);
        let (first, _) = ring.held().unwrap();
        look(&mut ring, 1);
        let (oldest, newest) = ring.held().unwrap();
        assert_eq!(ring.profile(oldest, first).futex_moved_on, 7);
        assert_eq!(ring.profile(oldest, newest).futex_moved_on, 0);
    }
}
