//! `spin-burn`: CPU that goes into spinning on latches.

use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::{cpu_saturated, cpu_throttled};
use crate::draft::Draft;
use crate::latch_spin::LatchSpin;
use crate::latch_time::CONTENTIONS;
use crate::rank::WARNING_FROM;
use crate::spin_samples::{SpinSamples, Whose};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "spin-burn",
    title: "a large share of CPU goes into spin-wait loops on latches",
    what: "A thread that finds a latch taken does not sleep at once. It spins: up to innodb_sync_spin_loops rounds, \
           each up to innodb_spin_wait_delay times innodb_spin_wait_pause_multiplier PAUSE instructions. How long \
           that lasts depends on the CPU: a PAUSE takes some 10 cycles before Skylake and 140 on it, so the same \
           settings spin fourteen times longer there.",
    why_it_hurts: "A spin is worth it while it is shorter than going to sleep and being woken, and while the holder \
                   of the latch runs on another CPU. Longer spins take the CPU from the holder and from everybody \
                   else. In the published case ut_delay took most of the CPU, and throughput fell below that of \
                   the older machines.",
    evidence: "CPU samples of the server whose instruction lies in a loop with a PAUSE (ISB or YIELD on aarch64), \
               without those that wait for the redo log at a commit (see quota-blind-spin), those of the redo \
               log's own threads, and those in the kernel. It fires from a tenth of all samples on, where that is a twentieth of the \
               CPUs that the server may use or a whole one. The time of one full spin is computed from the \
               settings and the PAUSE measured here; the defaults gave 41 us on the CPUs they were chosen for.",
    looks_alike: "Spinning at a commit is another loop with other settings: quota-blind-spin. A latch that is held \
                  for long, or by many, makes every setting spin. Where it is known which, the latch stands before this: \
                  rollback-segment-contention, transaction-system-contention, buffer-pool-latch-contention, \
                  adaptive-hash-contention; else the calls that lead to the loop name what to mend (one hot page, one hot \
                  index). Where one full spin is too long for this CPU, this stands before them. \
                  Mutexes of the C library (the query cache's, Aria's) \
                  spin by no setting of the server, and are not counted here. Spinning in the kernel is a matter of the \
                  kernel's locks.",
    remedies: "Make a full spin last as long as it was meant to: back to the defaults, and the multiplier (before \
               8.0.16 and on MariaDB: the delay) divided by how much longer a PAUSE takes here. Then look at who \
               spins, and at what.",
    safety: "The variables are dynamic and global. Spinning less gives CPU back and costs wake-ups; where that is \
             worse, throughput shows it within seconds, and the old values undo it.",
    references: &[
        "Published case: the PAUSE instruction of Skylake and MySQL's ut_delay",
        "MySQL Reference Manual: Configuring Spin Lock Polling",
        "MySQL 8.0 source, ib0mutex.h: TTASEventMutex::spin_and_try_lock; ut0ut.cc: ut_delay",
        "MDEV-19845: Adaptive spin loops",
    ],
    costs: Costs::Cpu,
    explains_time: &[
        TimeClass::Spin,
        TimeClass::CpuQueue,
        TimeClass::CpuQuota,
        TimeClass::Latch,
        TimeClass::Mutex,
    ],
    stacks: Stacks::Spinning(Whose::Latch),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From this share of CPU samples on it fires. A busy healthy server spins for some percent at most; the
/// published case began at a fifth.
const BURNT: f64 = 0.10;

/// And from this many CPUs on: a twentieth of those that the machine grants, below which nobody notices (`rank`), and on a large machine
/// one. Chosen: what a server that hardly works burns nobody lacks.
fn noticed_cpus(granted: f64) -> f64 {
    (WARNING_FROM * granted).min(1.0)
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(samples) = SpinSamples::unless_idle(window)? else { return Ok(None) };
    let share = samples.share(Whose::Latch);
    if share < BURNT {
        return Ok(None);
    }
    let profile = samples.profile();
    if !profile.is_of_a_text() {
        let burnt_cpus = share * profile.process_cpu_us as f64 / 1e6 / profile.seconds;
        if burnt_cpus < noticed_cpus(window.need(|s| &s.host.effective_cpus)?.cpus) {
            return Ok(None);
        }
    }
    let spin = match LatchSpin::from_window(window) {
        Ok(spin) => spin,
        Err(_) if profile.is_of_a_text() => return Ok(Some(of_a_text(share))),
        Err(missing) => return Err(missing),
    };
    let meant_us = spin.as_meant().mean_us();
    let too_long = spin.is_too_long();
    let kernel = samples.share(Whose::Kernel);
    let mut draft = Draft::new(
        &CAUSE,
        share,
        format!("{:.0} % of the server's CPU is burnt spinning on latches", share * 100.0),
    )
    .why(format!(
        "A full spin ({}) lasts {:.0} us on average with a PAUSE of {:.1} ns; it was meant to last {meant_us:.0}. {}",
        spin.words(),
        spin.mean_us(),
        spin.pause_ns,
        if too_long {
            "That is far longer than it takes to sleep and be woken."
        } else {
            "That is not too long: the latch itself is contended. Look at who spins."
        },
    ))
    .evidence(Evidence::new("spin share", share, "ratio", "CPU samples").expected("< 0.02"));
    draft = draft
        .evidence(
            Evidence::new("one full spin", spin.mean_us(), "us", "SHOW GLOBAL VARIABLES, PAUSE")
                .expected(format!("about {meant_us:.0}")),
        )
        .evidence(Evidence::new("one PAUSE", spin.pause_ns, "ns", "measured here"))
        .evidence_if(
            (kernel > 0.0).then(|| Evidence::new("spinning in the kernel", kernel, "ratio", "CPU samples")),
        );
    // A spin that is not too long is not what is wrong, and a longer one would burn more.
    let corrections = if too_long { spin.corrected() } else { Vec::new() };
    for correction in corrections {
        draft = draft.remedy(Remedy {
            statement: format!("SET GLOBAL {} = {:.0}", correction.variable, correction.to),
            why: format!("A full spin then lasts about {meant_us:.0} us on this CPU."),
            dynamic: true,
            risk: crate::proposals::risks::SPINS_LESS.into(),
            undo: format!("SET GLOBAL {} = {:.0}", correction.variable, correction.from),
        });
    }
    draft = draft.remedy_if((!too_long).then(|| Remedy {
        statement: "Take the contention away where it spins: see who spins".into(),
        why: "Settings only move the cost of a contended latch between spinning and sleeping.".into(),
        dynamic: false,
        risk: "Depends on what is contended: an index, a hot row, a table's statistics.".into(),
        undo: "Depends on the change.".into(),
    }));
    // Spins that are too long make the queue for each latch longer; else the queue is why they spin.
    let queues: &[&str] = if too_long { &CONTENTIONS } else { &[] };
    Ok(Some(
        draft.explains(&[cpu_saturated::CAUSE.name, cpu_throttled::CAUSE.name]).explains(queues).finding(),
    ))
}

/// Samples that somebody captured, without the settings and the length of a PAUSE on that host.
fn of_a_text(share: f64) -> Finding {
    Draft::new(&CAUSE, share, format!("{:.0} % of the server's CPU is burnt spinning on latches", share * 100.0))
        .why("How long a full spin lasts there is not known: it depends on the settings and on the CPU. A latch that many want is the \
              reason more often than a spin that is too long.")
        .evidence(Evidence::new("spin share", share, "ratio", "CPU samples").expected("< 0.02"))
        .remedy(Remedy {
            statement: "perf record -g -p PID -- sleep 10, and SHOW ENGINE INNODB STATUS\\G twice, ten seconds apart".into(),
            why: "The callers of the loop and the section SEMAPHORES name the latch: an index that all write to, a hot row, the \
                  adaptive hash index. The contention is what is to be taken away."
                .into(),
            dynamic: true,
            risk: "They only read; perf takes a part of a CPU meanwhile.".into(),
            undo: String::new(),
        })
        .remedy(Remedy {
            statement: "SHOW GLOBAL VARIABLES LIKE 'innodb_%spin%'".into(),
            why: "Where these were raised they are the reason: 6 and 30 are what the server comes with, since 8.0.16 with a multiplier \
                  of 50."
                .into(),
            dynamic: true,
            risk: "It only reads.".into(),
            undo: String::new(),
        })
        .explains(&[cpu_saturated::CAUSE.name, cpu_throttled::CAUSE.name])
        .finding()
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::host::{EffectiveCpus, PauseLatency};

    use super::*;
    use crate::testing::{Build, answer};

    fn spinning(share: f64) -> Build {
        Build::busy("8.0.36")
            .variable("innodb_spin_wait_delay", "100")
            .variable("innodb_spin_wait_pause_multiplier", "100")
            .cpu_samples(
                1000,
                share,
                &["ut_delay", "rw_lock_s_lock_spin", "btr_cur_search_to_nth_level", "row_search_mvcc"],
            )
    }

    pub(crate) fn fires() -> Window {
        spinning(0.45).window()
    }

    pub(crate) fn near_miss() -> Window {
        spinning(0.09).window()
    }

    pub(crate) fn missing() -> Window {
        let mut window = spinning(0.45).window();
        window.profile = Reading::Unavailable(Unavailable::because("no permission"));
        window
    }

    #[test]
    fn the_spinner_is_named_with_its_callers_and_the_settings_go_back() {
        let diagnosis = crate::diagnose(&fires());
        let finding = &diagnosis.findings[0];
        let spinner = finding.evidence.iter().find(|evidence| evidence.reading == "who spins").unwrap();
        assert_eq!(
            spinner.value,
            spindoctor_model::Value::Text(
                "45 % ut_delay < rw_lock_s_lock_spin < btr_cur_search_to_nth_level < row_search_mvcc".into()
            )
        );
        let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(
            statements,
            ["SET GLOBAL innodb_spin_wait_delay = 6", "SET GLOBAL innodb_spin_wait_pause_multiplier = 50"]
        );
    }

    /// A PAUSE that is a little shorter than where the defaults come from makes no longer spin right where spinning is the waste.
    #[test]
    fn no_longer_spin_is_proposed_where_spinning_is_the_waste() {
        let burns = |pause_ns: f64| {
            let frames = &["ut_delay", "rw_lock_s_lock_spin", "row_search_mvcc"];
            let window = Build::busy("8.0.36").cpu_samples(1000, 0.45, frames).each(move |at_s, _, host| {
                host.pause = answer(at_s, PauseLatency { ns: pause_ns, ..PauseLatency::default() });
            });
            let Outcome::Fired(finding) = evaluate(&window.window()) else { panic!("it fires") };
            finding.remedies.into_iter().map(|remedy| remedy.statement).collect::<Vec<_>>()
        };
        for statement in burns(9.6).iter().chain(&burns(4.0)) {
            assert!(!statement.starts_with("SET GLOBAL"), "{statement}");
        }
        assert!(burns(47.0)[0].starts_with("SET GLOBAL"));
    }

    #[test]
    fn captured_samples_say_it_without_the_settings() {
        let mut window = fires();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!("a profile") };
        (profile.hz, profile.source) = (0.0, spindoctor_model::stack::StackSource::Cpu);
        profile.observations = std::mem::take(&mut profile.cpu_samples);
        for sample in &mut window.samples {
            sample.server.variables = Reading::NotAsked;
        }
        let Outcome::Fired(finding) = evaluate(&window) else { panic!("it fires") };
        assert!(finding.headline.starts_with("45 % of the server's CPU"), "{}", finding.headline);
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("SET GLOBAL")));
    }

    #[test]
    fn a_mutex_of_the_c_library_spins_by_no_setting_of_the_server() {
        let on_a_mutex =
            ["___pthread_mutex_lock", "mariadbd+0x12", "handler::ha_write_tmp_row", "do_command"];
        let window = Build::busy("10.11.8-MariaDB").cpu_samples(1000, 0.45, &on_a_mutex).window();
        assert_eq!(evaluate(&window), Outcome::Clear);
        let spin = crate::diagnose(&window).profile.and_then(|profile| profile.spin).unwrap_or_default();
        assert_eq!((spin.mutexes, spin.latches), (0.45, 0.0));
    }

    #[test]
    fn commits_that_spin_are_another_cause() {
        let window = Build::busy("8.0.36")
            .cpu_samples(1000, 0.45, &["log_write_up_to", "trx_commit_complete_for_mysql", "innobase_commit"])
            .window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }

    #[test]
    fn what_a_server_burns_that_hardly_works_nobody_lacks() {
        let of = |used_cpus: f64, granted: f64| {
            let mut window = spinning(0.45)
                .each(move |at_s, _, host| {
                    let cpus =
                        EffectiveCpus { cpus: granted, online: granted as u32, ..EffectiveCpus::default() };
                    host.effective_cpus = answer(at_s, cpus);
                })
                .window();
            let Reading::Available { value: profile, .. } = &mut window.profile else { panic!("a profile") };
            profile.process_cpu_us = (used_cpus * profile.seconds * 1e6) as u64;
            matches!(evaluate(&window), Outcome::Fired(_))
        };
        // Of four CPUs a twentieth is 0.2; of 64 it is more than one.
        assert!(!of(0.3, 4.0) && of(0.5, 4.0));
        assert!(!of(1.6, 64.0) && of(3.0, 64.0));
    }

    #[test]
    fn too_few_samples_say_so_and_an_idle_server_is_clear() {
        let window = Build::busy("8.0.36").cpu_samples(20, 0.5, &["ut_delay"]).window();
        assert!(matches!(evaluate(&window), Outcome::NotEnoughEvidence(_)), "a short look at a busy server");
        let mut idle = window;
        let Reading::Available { value: profile, .. } = &mut idle.profile else { panic!("a profile") };
        profile.process_cpu_us = 100_000;
        assert_eq!(evaluate(&idle), Outcome::Clear);
    }
}
