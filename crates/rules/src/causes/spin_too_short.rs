//! `spin-too-short`: latch waits that end just after the spinning gave up.

use spindoctor_model::stack::{Observation, Profile};
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::cpu_saturated;
use crate::below::is_below;
use crate::draft::Draft;
use crate::latch_spin::LatchSpin;
use crate::latch_time::CONTENTIONS;
use crate::spin_samples::{self, SpinSamples};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "spin-too-short",
    title: "latch waits sleep for what a slightly longer spin would have met free",
    what: "A thread that has spun in vain on a latch sleeps in the operating system: it reserves a cell of the sync \
           array, checks again, and waits for an event. The thread that releases the latch wakes all its sleepers at once. \
           Where most latches are held for a moment only, a spin that is a little longer would have met the latch \
           free.",
    why_it_hurts: "Going to sleep and being woken takes system calls, context switches and, after a broadcast, a \
                   race that all but one of the woken lose: they sleep again. In the published case throughput fell \
                   to a third from 64 threads to 256, and innodb_sync_spin_loops = 200 gave more than twice of it \
                   back.",
    evidence: "The share of the server's CPU samples that lie in the kernel's futex code below a latch's wait or \
               release, from a tenth on; how many latch waits a second reach the operating system (the sync array's \
               reservations); and how long such a wait lasts: threads that stand in it (from stacks) divided by \
               waits a second. It fires where that is not much longer than the spin before it, or where the spin is \
               set to less than half of what it was meant to be. It was proved on built windows only: on two CPUs \
               shorter spins cost nothing.",
    looks_alike: "A latch that is held for long (a page that is read from disk, a file that is deleted) makes its \
                  waiters sleep rightly: the wait is far longer than any spin. Where the latch's holder has no CPU \
                  to run on (cpu-saturated, cpu-throttled), spinning longer makes it worse.",
    remedies: "Spin longer: more rounds (innodb_sync_spin_loops), so that one full spin outlasts the usual wait; back \
               to the defaults where they were lowered. Then measure throughput: only a trial shows it.",
    safety: "The variables are dynamic and global. Longer spins burn CPU where latches are held for long: see \
             spin-burn. The old values undo it at once.",
    references: &[
        "Published case: the kernel_mutex problem, or double throughput with a single variable",
        "MySQL Reference Manual: Configuring Spin Lock Polling",
        "MySQL 8.0 source, sync0arr.cc: sync_array_reserve_cell, sync_array_wait_event; ib0mutex.h: TTASEventMutex",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Latch, TimeClass::Mutex, TimeClass::Commit],
    stacks: Stacks::Running(LATCHES),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Where InnoDB sleeps on a latch and wakes its sleepers, in MySQL 5.5 and later.
const LATCHES: &[&str] = &[
    "sync_array_wait_event",
    "sync_array_reserve_cell",
    "sync_array_reserve_cell_func",
    "sync_array_get_and_reserve_cell",
    "TTASEventMutex::wait",
    "TTASEventMutex::spin_and_try_lock",
    "TTASEventMutex::exit",
    "TTASEventMutex::signal",
    "rw_lock_s_lock_spin",
    "rw_lock_x_lock_func",
    "rw_lock_sx_lock_func",
    "mutex_spin_wait",
    "mutex_signal_object",
];

/// The one of [`LATCHES`] that a sleeper stands in.
const SLEEPS: &str = "sync_array_wait_event";

/// From this share of CPU samples on it fires. Each costs a wake-up as well, which is not in it.
const SLEEPING: f64 = 0.10;

/// Below this share of the spin that the defaults were meant to give it is too short, whatever the waits last.
const FAR_BELOW: f64 = 0.5;

/// A wait shorter than this many full spins would have been met by a spin that may still be afforded: the
/// published case raised the rounds from 30 to 200.
const WITHIN_REACH: f64 = 6.0;

/// Most rounds that are advised, after the published case.
const MOST_LOOPS: f64 = 200.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(samples) = SpinSamples::unless_idle(window)? else { return Ok(None) };
    let profile = samples.profile();
    if samples.share_of(|observation| in_futex(profile, observation)) < SLEEPING {
        return Ok(None);
    }
    if window.server.version.is_some_and(|version| version.mariadb_at_least(10, 6, 0)) {
        // Its latches are futexes of their own (srw_lock.cc), without a sync array that counts who waits.
        return Err(Unavailable::because("MariaDB 10.6 and later do not count the waits for latches"));
    }
    if !spin_samples::names_innodb(profile) {
        return Err(spin_samples::without_names(""));
    }
    let share = samples.share_of(|observation| sleeps_or_wakes(profile, observation));
    if share < SLEEPING {
        return Ok(None);
    }
    let spin = LatchSpin::from_window(window)?;
    let statuses = window.need_change(|s| &s.server.innodb_status)?;
    let reserved = |status: &spindoctor_model::InnodbStatus| status.semaphores.reservations;
    let (Some(first), Some(last)) = (reserved(statuses.first), reserved(statuses.last)) else {
        return Err(Unavailable::because("the InnoDB status has no count of latch waits"));
    };
    let waits_per_s = last.saturating_sub(first) as f64 / statuses.seconds;
    let wait_us = asleep(profile).map(|threads| threads / waits_per_s.max(1.0) * 1e6);
    let (spin_us, meant_us) = (spin.mean_us(), spin.as_meant().mean_us());
    let lowered = spin_us < FAR_BELOW * meant_us;
    let within_reach = wait_us.is_some_and(|wait_us| wait_us < WITHIN_REACH * spin_us);
    if !(lowered || within_reach) {
        return Ok(None);
    }
    let corrections = if lowered { spin.corrected() } else { spin.longer(WITHIN_REACH, MOST_LOOPS) };
    let mut draft = Draft::new(
        &CAUSE,
        share,
        format!("{:.0} % of the server's CPU goes into sleeping on latches and waking up", share * 100.0),
    )
    .why(format!(
        "A full spin ({}) lasts {spin_us:.0} us here; {}",
        spin.words(),
        match wait_us {
            _ if lowered => format!(
                "it was meant to last {meant_us:.0}. Latches are slept for that a spin would meet free."
            ),
            Some(wait_us) => format!(
                "the latch is free {wait_us:.0} us later on average: a longer spin would meet it free."
            ),
            None => String::new(),
        },
    ))
    .evidence(
        Evidence::new("CPU in sleep and wake-up on latches", share, "ratio", "CPU samples")
            .expected("< 0.02"),
    )
    .evidence(Evidence::new("latch waits that slept", waits_per_s, "1/s", "SHOW ENGINE INNODB STATUS"))
    .evidence(
        Evidence::new("one full spin", spin_us, "us", "SHOW GLOBAL VARIABLES, PAUSE")
            .expected(format!("about {meant_us:.0}")),
    )
    .evidence_if(wait_us.map(|wait_us| Evidence::new("one sleep", wait_us, "us", "stacks, sync array")));
    for correction in corrections {
        draft = draft.remedy(Remedy {
            statement: format!("SET GLOBAL {} = {:.0}", correction.variable, correction.to),
            why: "A waiter then spins for as long as such waits last.".into(),
            dynamic: true,
            risk: crate::proposals::risks::SPINS_MORE.into(),
            undo: format!("SET GLOBAL {} = {:.0}", correction.variable, correction.from),
        });
    }
    // Who sleeps for a latch that a spin would meet free waits for it longer.
    Ok(Some(draft.explains(&[cpu_saturated::CAUSE.name]).explains(&CONTENTIONS).finding()))
}

/// True for a CPU sample in the kernel's futex code below a latch.
fn sleeps_or_wakes(profile: &Profile, observation: &Observation) -> bool {
    in_futex(profile, observation) && is_below(profile, observation, LATCHES)
}

/// True for a CPU sample in the kernel's futex code, whatever it waits for.
fn in_futex(profile: &Profile, observation: &Observation) -> bool {
    spin_samples::kernel_names(profile, observation).any(|name| name.contains("futex"))
}

/// Threads that sleep on a latch, on average over the snapshots; None where there are none.
fn asleep(profile: &Profile) -> Option<f64> {
    if profile.snapshots.is_empty() || profile.observations.is_empty() {
        return None;
    }
    let seen = profile
        .observations
        .iter()
        .filter(|observation| spin_samples::names(profile, observation).any(|name| name == SLEEPS));
    Some(seen.count() as f64 / profile.snapshots.len() as f64)
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::innodb_status::Semaphores;
    use spindoctor_model::{InnodbStatus, Value};

    use super::*;
    use crate::testing::{Build, answer};

    const WAITER: &[&str] = &["futex_wait", "sync_array_wait_event", "TTASEventMutex::wait", "trx_start_low"];

    /// Waits a second; threads asleep of 40; share of CPU in going to sleep and waking up.
    fn sleeping(waits_per_s: f64, asleep: u32, share: f64) -> Build {
        Build::busy("8.0.36").standing(40 - asleep, asleep, WAITER).beside_samples(1000, share).each(
            move |at_s, server, _| {
                let reservations = Some((5000.0 + waits_per_s * at_s) as u64);
                let semaphores = Semaphores { reservations, ..Semaphores::default() };
                server.innodb_status = answer(at_s, InnodbStatus { semaphores, ..InnodbStatus::default() });
            },
        )
    }

    pub(in crate::causes) fn fires() -> Window {
        sleeping(200_000.0, 20, 0.35).window()
    }

    /// Each wait lasts 20 ms: its holder keeps it.
    pub(in crate::causes) fn near_miss() -> Window {
        sleeping(1_000.0, 20, 0.35).window()
    }

    pub(in crate::causes) fn missing() -> Window {
        Build::busy("8.0.36").without_profile().window()
    }

    fn statements(window: &Window) -> Vec<String> {
        let Outcome::Fired(finding) = evaluate(window) else { panic!("it fires") };
        finding.remedies.into_iter().map(|remedy| remedy.statement).collect()
    }

    #[test]
    fn a_wait_a_little_longer_than_the_spin_asks_for_more_rounds() {
        let Outcome::Fired(finding) = evaluate(&fires()) else { panic!("it fires") };
        // 20 threads asleep and 200,000 sleeps a second.
        let sleep = finding.evidence.iter().find(|evidence| evidence.reading == "one sleep").unwrap();
        let Value::Number(us) = sleep.value else { panic!("a number") };
        assert!((us - 100.0).abs() < 0.1, "{us}");
        assert_eq!(statements(&fires()), ["SET GLOBAL innodb_sync_spin_loops = 180"]);
    }

    #[test]
    fn settings_that_were_lowered_go_back_whatever_the_waits_last() {
        let window = sleeping(1_000.0, 20, 0.35).variable("innodb_sync_spin_loops", "0").window();
        assert_eq!(statements(&window), ["SET GLOBAL innodb_sync_spin_loops = 30"]);
    }

    #[test]
    fn sleeping_that_costs_little_is_no_cause() {
        assert_eq!(evaluate(&sleeping(200_000.0, 20, 0.09).window()), Outcome::Clear);
    }
}
