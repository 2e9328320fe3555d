//! Latch spin with the long PAUSE of Skylake, emulated, as it is and with the budget corrected.

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
/// The defaults, made for a PAUSE of about ten cycles: a round waits a random number of times below the delay, each so many
/// PAUSEs long.
const DELAY: f64 = 6.0;
/// See [`DELAY`].
const MULTIPLIER: f64 = 50.0;
/// The greatest multiplier that the server takes.
const MOST_MULTIPLIER: f64 = 100.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "long-pause",
    story: "Skylake's PAUSE takes up to 140 cycles, ten times as long as before it; servers with MySQL's default spin \
            settings lost throughput and burned their CPUs in ut_delay until the spinning was made shorter. Here a \
            PAUSE of 140 cycles is emulated: this CPU's is measured, and the server begins with a delay and a \
            multiplier that make each round wait for as long as the defaults would with the long one. 64 clients of \
            oltp_update_index on latches, without commit spin and binary log, data in memory. Tried are the defaults, \
            which here wait for as long as corrected settings would there.",
    flavors: &[Flavor::Mysql, Flavor::Percona],
    needs: "two CPUs or more, and a PAUSE shorter than 140 cycles",
    setup: || setup(&pause()?),
};

fn setup(pause: &PauseLatency) -> Result<Setup> {
    // Without a core clock that can be measured, the TSC's ticks are near enough.
    let cycles = pause.core_cycles.or(pause.tsc_ticks).unwrap_or(f64::NAN);
    let longer = LONG_CYCLES / cycles;
    // A round's mean is half of the multiplier times one less than the delay.
    let delay = 1.0 + ((DELAY - 1.0) * MULTIPLIER * longer / MOST_MULTIPLIER).round();
    if !(longer > 1.0 && delay <= 1_000.0) {
        return Err(Error::Unable {
            what: "a PAUSE of 140 cycles",
            because: format!("this CPU's takes {cycles:.0} cycles; it can only be made longer"),
        });
    }
    Ok(Setup {
        spec: ServerSpec {
            tables: Some(TABLES),
            // Without writer threads commits do not spin by themselves: what spins waits for a latch.
            options: ["--disable-log-bin", "--innodb-log-writer-threads=OFF"].map(str::to_owned).into(),
            ..ServerSpec::default()
        },
        load: LoadSpec { workload: Workload::OltpUpdateIndex, threads: 64, rate: None, tables: TABLES },
        changes: vec![
            ("innodb_spin_wait_delay", delay.to_string(), DELAY.to_string()),
            ("innodb_spin_wait_pause_multiplier", MOST_MULTIPLIER.to_string(), MULTIPLIER.to_string()),
        ],
        told: format!(
            "PAUSE takes {cycles:.0} cycles ({:.1} ns) here, so one of 140 is {longer:.1} times as long: delay {delay} and \
             multiplier {MOST_MULTIPLIER} stand for the defaults there; 64 clients of oltp_update_index",
            pause.ns
        ),
    }
    .with_old_values())
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
    fn a_longer_pause_cannot_be_made_shorter() {
        for cycles in [140.0, 200.0, f64::NAN, 0.0] {
            assert!(setup(&pause(cycles)).is_err(), "{cycles}");
        }
    }
}
