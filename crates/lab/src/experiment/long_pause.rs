//! Latch spin with the long PAUSE of Skylake, unchanged and with the corrected budget: the CPU's own PAUSE where it is
//! long, else an emulated one.

use spindoctor_collect::host;
use spindoctor_collect::source::Answer;
use spindoctor_model::host::PauseLatency;
use spindoctor_model::{Flavor, HostSample};

use super::{Experiment, Setup};
use crate::error::{Error, Result};
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::ServerSpec;

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// Cycles of PAUSE on Skylake (Intel's optimisation manual, 2.6.4: "as many as 140 cycles").
const LONG_CYCLES: f64 = 140.0;
/// Cycles of PAUSE before it (the same place: "as few as ten"). A CPU that is nearer to the long one has it itself.
const SHORT_CYCLES: f64 = 10.0;
/// A PAUSE of so many times these cycles is taken for the long one: what is missing is within what it varies by.
const NEARLY: f64 = 0.9;
/// The defaults, made for a PAUSE of about ten cycles: a round waits a random number of times below the delay, each so many
/// PAUSEs long.
const DELAY: f64 = 6.0;
/// See [`DELAY`].
const MULTIPLIER: f64 = 50.0;
/// The greatest multiplier that the server takes.
const MOST_MULTIPLIER: f64 = 100.0;
/// The greatest delay that the server takes.
const MOST_DELAY: f64 = 1_000.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "long-pause",
    story: "Skylake's PAUSE takes up to 140 cycles, ten times as long as before it; servers with MySQL's default spin \
            settings lost throughput and burned their CPUs in ut_delay until the spinning was made shorter. This CPU's \
            PAUSE is measured. Where it is shorter than 140 cycles, the server begins with a delay and a multiplier \
            that make each round wait for as long as the defaults would with the long one; tried are the defaults, \
            which here wait for as long as corrected settings would there. Where it is as long, the server begins \
            with the defaults, and tried is the multiplier with which a round waits for as long as it would with a \
            PAUSE of ten cycles. 64 clients of oltp_update_index on latches, without commit spin and binary log, data \
            in memory.",
    flavors: &[Flavor::Mysql, Flavor::Percona],
    needs: "two CPUs or more",
    setup: || setup(&pause()?),
};

fn setup(pause: &PauseLatency) -> Result<Setup> {
    // Without a core clock that can be measured, the TSC's ticks are near enough.
    let cycles = pause.core_cycles.or(pause.tsc_ticks).unwrap_or(f64::NAN);
    let Some((changes, shown)) = changes(cycles) else {
        return Err(Error::Unable {
            what: "a PAUSE of 140 cycles",
            because: format!(
                "this CPU's takes {cycles:.0} cycles, and no setting of the server makes up for that"
            ),
        });
    };
    Ok(Setup {
        spec: ServerSpec {
            tables: Some(TABLES),
            // Without writer threads commits do not spin by themselves: what spins waits for a latch.
            options: ["--disable-log-bin", "--innodb-log-writer-threads=OFF"].map(str::to_owned).into(),
            ..ServerSpec::default()
        },
        load: LoadSpec { workload: Workload::OltpUpdateIndex, threads: 64, rate: None, tables: TABLES },
        changes,
        text: format!(
            "PAUSE takes {cycles:.0} cycles ({:.1} ns) here, {shown}; 64 clients of oltp_update_index",
            pause.ns
        ),
    }
    .with_old_values())
}

/// Variables with their old and new values.
type Changes = Vec<(&'static str, String, String)>;

/// What is tried on a CPU whose PAUSE takes so many cycles, and why in words.
fn changes(cycles: f64) -> Option<(Changes, String)> {
    let longer = LONG_CYCLES / cycles;
    if longer * NEARLY <= 1.0 {
        let corrected = (MULTIPLIER * SHORT_CYCLES / cycles).round().max(1.0);
        let shown = format!(
            "which is as long as Skylake's: multiplier {corrected} makes a round wait for as long as the default does \
             with a PAUSE of {SHORT_CYCLES}"
        );
        let change = ("innodb_spin_wait_pause_multiplier", MULTIPLIER.to_string(), corrected.to_string());
        return Some((vec![change], shown));
    }
    // A round's mean is half of the multiplier times one less than the delay.
    let delay = 1.0 + ((DELAY - 1.0) * MULTIPLIER * longer / MOST_MULTIPLIER).round();
    let shown = format!(
        "so one of 140 is {longer:.1} times as long: delay {delay} and multiplier {MOST_MULTIPLIER} stand for the defaults \
         there"
    );
    let mut changes = vec![
        ("innodb_spin_wait_delay", delay.to_string(), DELAY.to_string()),
        ("innodb_spin_wait_pause_multiplier", MOST_MULTIPLIER.to_string(), MULTIPLIER.to_string()),
    ];
    // With a PAUSE of about 70 cycles the multiplier alone makes up for it.
    changes.retain(|(_, from, to)| from != to);
    (delay <= MOST_DELAY).then_some((changes, shown))
}

/// How long this CPU's takes.
fn pause() -> Result<PauseLatency> {
    let mut sample = HostSample::default();
    let now = || Answer { at_s: 0.0, took_ms: 0.0 };
    (host::pause::SOURCE.read)(&host::Target::live(std::process::id()), &mut sample, &now);
    sample.pause.value().cloned().ok_or_else(|| Error::Unable {
        what: "a PAUSE of 140 cycles",
        because: "how long this CPU's takes cannot be measured".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(core_cycles: f64) -> PauseLatency {
        PauseLatency {
            instruction: "pause".to_owned(),
            ns: 11.0,
            core_cycles: Some(core_cycles),
            tsc_ticks: None,
            per_cpu_ns: Vec::new(),
            cost_ms: 0.0,
        }
    }

    #[test]
    fn a_pause_of_39_cycles_is_made_3_6_times_as_long() {
        let setup = setup(&pause(39.0)).unwrap();
        // 450 PAUSEs in the mean of a round, 125 with the defaults.
        assert_eq!(setup.changes[0], ("innodb_spin_wait_delay", "10".to_owned(), "6".to_owned()));
        assert_eq!(setup.changes[1].1, "100");
        assert!(setup.spec.options.contains(&"--innodb-spin-wait-delay=10".to_owned()));
    }

    #[test]
    fn a_pause_of_half_the_length_is_made_longer_by_the_multiplier_alone() {
        let changes = setup(&pause(70.0)).unwrap().changes;
        assert_eq!(changes, [("innodb_spin_wait_pause_multiplier", "100".to_owned(), "50".to_owned())]);
    }

    #[test]
    fn a_cpu_that_has_the_long_pause_itself_begins_with_the_defaults() {
        for cycles in [130.0, 140.0, 200.0] {
            let setup = setup(&pause(cycles)).unwrap();
            let multiplier = (500.0_f64 / cycles).round().to_string();
            assert_eq!(
                setup.changes,
                [("innodb_spin_wait_pause_multiplier", "50".to_owned(), multiplier)],
                "{cycles}"
            );
        }
    }

    #[test]
    fn a_pause_that_cannot_be_measured_or_made_up_for_is_refused() {
        for cycles in [f64::NAN, 0.0, 0.1] {
            assert!(setup(&pause(cycles)).is_err(), "{cycles}");
        }
    }
}
